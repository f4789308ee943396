#include <type_traits>

#include "simulator/engine/kernels/kernels.h"
#include "simulator/engine/kernels/targets.h"

/// The kernels of the ALU, but those of block floats: one functor per operation, on lanes of any width. U is
/// the unsigned type of the lane. The loops are plain; the compiler vectorizes them for the target of this
/// pass, and testsuite/machine_code/vectorized.py looks whether it did.

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "simulator/engine/kernels/alu.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "simulator/engine/kernels/lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace kodama::simulator {
namespace HWY_NAMESPACE {
namespace {

template <class U>
struct Lane {
  using S = std::make_signed_t<U>;
  static constexpr int kWidth = 8 * sizeof(U);
  static constexpr U kSign = static_cast<U>(U{1} << (kWidth - 1));
  // Fields of the floating-point format with this width.
  static constexpr int kMantissaBits = kWidth == 64 ? 52 : kWidth == 32 ? 23 : 9;
  static constexpr int kExponentMask = kWidth == 64 ? 2047 : kWidth == 32 ? 255 : 63;
  static constexpr int kBias = kExponentMask >> 1;
  static constexpr U kExponentBits = static_cast<U>(static_cast<U>(kExponentMask) << kMantissaBits);
  static constexpr U kMantissaMask = static_cast<U>((U{1} << kMantissaBits) - 1);
};

// Short lanes are shifted as words, which they don't fit after the first shift: the vectorizer would take
// shifts of short lanes by counts of their own, which AVX2 hasn't.

/// x / 2^count, rounded down.
template <class U>
HWY_INLINE U shifted_right(U x, int count) {
  using S = typename Lane<U>::S;
  if constexpr (sizeof(U) == 2) {
    return static_cast<U>((static_cast<int32_t>(uint32_t{x} << 16) >> count) >> 16);
  } else {
    return static_cast<U>(static_cast<S>(x) >> count);
  }
}
template <class U>
HWY_INLINE U rotated_left(U x, int count) {
  constexpr int kWidth = Lane<U>::kWidth;
  if constexpr (sizeof(U) == 2) {
    return static_cast<U>(((uint32_t{x} * 0x10001) << count) >> 16);
  } else {
    return (x << count) | (x >> ((kWidth - count) & (kWidth - 1)));
  }
}

#define KODAMA_OP(name, value_expression, flag_expression)                                          \
  template <class U>                                                                                \
  struct name {                                                                                     \
    using L = Lane<U>;                                                                              \
    using S = typename L::S;                                                                        \
    static HWY_INLINE U value([[maybe_unused]] U x, [[maybe_unused]] U y) {                         \
      return static_cast<U>(value_expression);                                                      \
    }                                                                                               \
    static HWY_INLINE bool flag([[maybe_unused]] U x, [[maybe_unused]] U y, [[maybe_unused]] U r) { \
      return flag_expression;                                                                       \
    }                                                                                               \
  };

KODAMA_OP(OpPassa, x, r == 0)
KODAMA_OP(OpInc, x + 1, static_cast<S>(r) >= 0)
KODAMA_OP(OpIncU, x + 1, r != 0)
KODAMA_OP(OpDec, x - 1, static_cast<S>(r) >= 0)
KODAMA_OP(OpDecU, x - 1, x != 0)
KODAMA_OP(OpAdd, x + y, static_cast<S>(r) >= 0)
KODAMA_OP(OpAddU, x + y, r >= x)
KODAMA_OP(OpSub, x - y, static_cast<S>(r) >= 0)
KODAMA_OP(OpSubU, x - y, x >= y)
KODAMA_OP(OpNot, ~x, r == 0)
KODAMA_OP(OpLnot, x == 0 ? 1 : 0, r == 0)
KODAMA_OP(OpAnd, x& y, r == 0)
KODAMA_OP(OpOr, x | y, r == 0)
KODAMA_OP(OpXor, x ^ y, r == 0)
KODAMA_OP(OpLsl, x << (y & (L::kWidth - 1)), r == 0)
KODAMA_OP(OpLsr, shifted_right<U>(x, (y & (L::kWidth - 1))), r == 0)
KODAMA_OP(OpLsrU, x >> (y & (L::kWidth - 1)), r == 0)
KODAMA_OP(OpBsl, rotated_left<U>(x, (y & (L::kWidth - 1))), r == 0)
KODAMA_OP(OpBsr, rotated_left<U>(x, (L::kWidth - (y & (L::kWidth - 1))) & (L::kWidth - 1)), r == 0)
KODAMA_OP(OpPackbit, (x << 1) | (y >> (L::kWidth - 1)), (y & L::kSign) == 0)
KODAMA_OP(OpMax, static_cast<S>(x) >= static_cast<S>(y) ? x : y, static_cast<S>(x) >= static_cast<S>(y))
KODAMA_OP(OpMaxU, x >= y ? x : y, x >= y)
KODAMA_OP(OpMin, static_cast<S>(x) <= static_cast<S>(y) ? x : y, static_cast<S>(x) <= static_cast<S>(y))
KODAMA_OP(OpMinU, x <= y ? x : y, x <= y)
KODAMA_OP(OpZero, 0, false)

/// Signed number with the order of the sign-magnitude pattern.
template <class U>
HWY_INLINE typename Lane<U>::S order_key(U x) {
  using S = typename Lane<U>::S;
  const U negative = static_cast<U>(static_cast<S>(x) >> (Lane<U>::kWidth - 1));
  return static_cast<S>(x ^ static_cast<U>(negative & static_cast<U>(~Lane<U>::kSign)));
}
template <class U>
HWY_INLINE bool both_zero(U x, U y) {
  return ((x | y) & Lane<U>::kExponentBits) == 0;
}
KODAMA_OP(OpMaxF, (order_key<U>(x) >= order_key<U>(y) || both_zero<U>(x, y)) ? x : y,
          order_key<U>(x) >= order_key<U>(y) || both_zero<U>(x, y))
KODAMA_OP(OpMinF, (order_key<U>(x) <= order_key<U>(y) || both_zero<U>(x, y)) ? x : y,
          order_key<U>(x) <= order_key<U>(y) || both_zero<U>(x, y))

template <int kBit>
struct Relu {
  KODAMA_OP(Op, (x & (L::kSign >> kBit)) != 0 ? L::kSign : y, (x & (L::kSign >> kBit)) == 0)
};

/// y with its exponent changed by kDelta; zero and infinity stay.
template <class U, int kDelta>
HWY_INLINE U scaled(U y) {
  using L = Lane<U>;
  const int exponent = static_cast<int>(y >> L::kMantissaBits) & L::kExponentMask;
  if (exponent == 0 || exponent == L::kExponentMask) return y;
  const int moved = exponent + kDelta;
  if (moved <= 0) return 0;
  if (moved >= L::kExponentMask) return static_cast<U>((y & L::kSign) | L::kExponentBits);
  return static_cast<U>((y & static_cast<U>(~L::kExponentBits)) |
                        (static_cast<U>(moved) << L::kMantissaBits));
}
template <int kDelta>
struct Lrelu {
  KODAMA_OP(Op, (x & L::kSign) == 0 ? y : (scaled<U, kDelta>(y)), (x & L::kSign) == 0)
};

// The next three are written for the vectorizer, which knows no tables, and no arithmetic shift, shift of a
// constant or unsigned comparison of long words on AVX2: without branches, exponents signed and as wide as
// the lane.

/// floor(64 / sqrt(t)) for t = 1 + k/16, and for t = 2 (1 + k/16), where `odd` is 1, else 0.
template <class U>
constexpr HWY_INLINE U root_digits(U odd, U k) {
  const auto above = [=](int limit) {
    return static_cast<U>(static_cast<U>(static_cast<U>(limit) - k) >> (8 * sizeof(U) - 1));
  };
  const U of_one = static_cast<U>(64 - above(1) - above(2) - above(4));
  const U of_two = static_cast<U>(45 + above(8) + above(11) + above(13));
  return static_cast<U>((of_one ^ (static_cast<U>(-odd) & (of_one ^ of_two))) - above(0) - k);
}
constexpr bool root_digits_are_right() {
  for (int odd = 0; odd < 2; ++odd) {
    for (int k = 0; k < 16; ++k) {
      // n <= 64 / sqrt(t)  <=>  n^2 t <= 4096, with t = (16 + k) * 2^odd / 16.
      int n = 64;
      while (n * n * (16 + k) * (1 << odd) > 4096 * 16) --n;
      if (root_digits<uint64_t>(odd, k) != static_cast<uint64_t>(n)) return false;
    }
  }
  return true;
}
static_assert(root_digits_are_right());

template <class U>
HWY_INLINE U rsqrt_lane(U x) {
  using L = Lane<U>;
  const U field = (x >> L::kMantissaBits) & L::kExponentMask;
  // The bias is odd: half of the exponent, rounded down, is half of field + 1 less half of bias + 1.
  const U next = field + 1;
  const U n = root_digits<U>(next & 1, (x >> (L::kMantissaBits - 4)) & 15);
  // n has six bits and is 32 at least; 64 is a power of two more.
  const U power = static_cast<U>(L::kBias - 1 + (L::kBias + 1) / 2) - (next >> 1);
  const U result = static_cast<U>(static_cast<U>(power << L::kMantissaBits) +
                                  static_cast<U>(static_cast<U>(n - 32) << (L::kMantissaBits - 5)));
  const U zero = static_cast<U>(-static_cast<U>(field == 0));
  const U infinite = static_cast<U>(-static_cast<U>(field == L::kExponentMask));
  return static_cast<U>((result & static_cast<U>(~(zero | infinite))) | (L::kExponentBits & zero));
}
KODAMA_OP(OpRsqrt, rsqrt_lane<U>(x), (x & L::kSign) == 0)

template <class U>
HWY_INLINE U floor_lane(U x) {
  using L = Lane<U>;
  using S = typename L::S;
  constexpr S kBias = L::kBias;
  constexpr S kPoint = kBias + L::kMantissaBits;  // the exponent of numbers whose last bit is one
  const S field = static_cast<S>((x >> L::kMantissaBits) & L::kExponentMask);
  const U negative = x >> (L::kWidth - 1);
  const S fraction_bits = field < kPoint ? kPoint - field : S{0};
  const S shift = field < kBias ? S{0} : fraction_bits;
  const U cut = x >> shift;
  // The step to the next magnitude may carry into the exponent, which is then right too.
  const U step = static_cast<U>(cut << shift) == x ? U{0} : negative;
  const U whole = static_cast<U>(static_cast<U>(cut + step) << shift);
  const U small =
      static_cast<U>(-negative) & static_cast<U>(L::kSign | (static_cast<U>(kBias) << L::kMantissaBits));
  const U result = field < kBias ? small : whole;
  return field == 0 ? x : result;
}
KODAMA_OP(OpFloor, floor_lane<U>(x), false)

template <class U, bool kUnsigned>
HWY_INLINE U ftoi_lane(U x) {
  using L = Lane<U>;
  using S = typename L::S;
  constexpr S kBias = L::kBias;
  constexpr S kLimit = kBias + (kUnsigned ? L::kWidth : L::kWidth - 1);
  constexpr S kPoint = kBias + L::kMantissaBits;
  const S field = static_cast<S>((x >> L::kMantissaBits) & L::kExponentMask);
  const U significand = (x & L::kMantissaMask) | static_cast<U>(U{1} << L::kMantissaBits);
  // Distances beyond the lane's width belong to results that are not taken.
  const S right = field < kPoint ? kPoint - field : S{0};
  const S left = field < kPoint ? S{0} : field - kPoint;
  const U magnitude = static_cast<U>((significand >> (right & (L::kWidth - 1))) << (left & (L::kWidth - 1)));
  if constexpr (kUnsigned) {
    const U result = field < kBias ? U{0} : magnitude;
    const U beyond = field < kLimit ? U{0} : U{1};
    return result | static_cast<U>(-beyond);
  } else {
    const U sign = static_cast<U>(-(x >> (L::kWidth - 1)));  // all ones if negative
    const U number = static_cast<U>((magnitude ^ sign) - sign);
    const U largest = (L::kSign - 1) ^ sign;
    const U result = field >= kLimit ? largest : number;
    return field < kBias ? U{0} : result;
  }
}
KODAMA_OP(OpFtoi, (ftoi_lane<U, false>(x)), false)
KODAMA_OP(OpFtoiU, (ftoi_lane<U, true>(x)), false)

/// Words a loop below works on at once: the length of a row is a multiple of it. A constant, so that vector
/// code needs no remainder.
constexpr int kPiece = 4 * kRowGranule;

/// One piece of a row of 64-bit lanes, which are pairs of words.
template <class Op>
HWY_INLINE void alu_long(const uint32_t* HWY_RESTRICT x0, const uint32_t* HWY_RESTRICT x1,
                         const uint32_t* HWY_RESTRICT y0, const uint32_t* HWY_RESTRICT y1,
                         uint32_t* HWY_RESTRICT r0, uint32_t* HWY_RESTRICT r1, uint8_t* HWY_RESTRICT flags) {
  for (int i = 0; i < kPiece; ++i) {
    const uint64_t r = Op::value((uint64_t{x0[i]} << 32) | x1[i], (uint64_t{y0[i]} << 32) | y1[i]);
    r0[i] = static_cast<uint32_t>(r >> 32);
    r1[i] = static_cast<uint32_t>(r);
  }
  if (flags == nullptr) return;
  for (int i = 0; i < kPiece; ++i) {
    const uint64_t a = (uint64_t{x0[i]} << 32) | x1[i];
    const uint64_t b = (uint64_t{y0[i]} << 32) | y1[i];
    flags[i] = Op::flag(a, b, (uint64_t{r0[i]} << 32) | r1[i]) ? 15 : 0;
  }
}

/// One piece of a row of words, with one lane or two in each. The flags of the lanes of word 0 are the upper
/// two bits of four, those of word 1 the lower two.
template <class U, class Op>
HWY_INLINE void alu_word(int word, const uint32_t* HWY_RESTRICT a, const uint32_t* HWY_RESTRICT b,
                         uint32_t* HWY_RESTRICT r, uint8_t* HWY_RESTRICT flags) {
  constexpr bool kHalves = sizeof(U) == 2;
  for (int i = 0; i < kPiece; ++i) {
    if constexpr (kHalves) {
      const uint32_t upper = Op::value(static_cast<U>(a[i] >> 16), static_cast<U>(b[i] >> 16));
      r[i] = (upper << 16) | Op::value(static_cast<U>(a[i]), static_cast<U>(b[i]));
    } else {
      r[i] = Op::value(a[i], b[i]);
    }
  }
  if (flags == nullptr) return;
  const int shift = word == 0 ? 2 : 0;
  const int kept = word == 0 ? 0 : 12;
  for (int i = 0; i < kPiece; ++i) {
    int bits = 0;
    if constexpr (kHalves) {
      const bool upper =
          Op::flag(static_cast<U>(a[i] >> 16), static_cast<U>(b[i] >> 16), static_cast<U>(r[i] >> 16));
      const bool lower = Op::flag(static_cast<U>(a[i]), static_cast<U>(b[i]), static_cast<U>(r[i]));
      bits = (upper ? 2 : 0) | (lower ? 1 : 0);
    } else {
      bits = Op::flag(a[i], b[i], r[i]) ? 3 : 0;
    }
    flags[i] = static_cast<uint8_t>((flags[i] & kept) | (bits << shift));
  }
}

template <class U, class Op>
void alu(const RowShape& shape, const Rows& x, const Rows& y, const Results& out, int) {
  for (int begin = 0; begin < shape.words(); begin += kPiece) {
    uint8_t* const flags = out.flags == nullptr ? nullptr : out.flags + begin;
    if constexpr (sizeof(U) == 8) {
      alu_long<Op>(x.word[0] + begin, x.word[1] + begin, y.word[0] + begin, y.word[1] + begin,
                   out.word[0] + begin, out.word[1] + begin, flags);
    } else {
      for (int w = 0; w < 2; ++w) {
        alu_word<U, Op>(w, x.word[w] + begin, y.word[w] + begin, out.word[w] + begin, flags);
      }
    }
  }
}

template <int kFrom>
void rotate_pes(const RowShape& shape, const Rows& x, const Rows&, const Results& out, int) {
  const D32 d;
  const int stride = shape.stride;
  for (int w = 0; w < 2; ++w) {
    for (int p = 0; p < 4; ++p) {
      const uint32_t* from = x.word[w] + ((p + kFrom) & 3) * stride;
      uint32_t* to = out.word[w] + p * stride;
      for (int m = 0; m < stride; m += static_cast<int>(hn::Lanes(d)))
        hn::StoreU(hn::LoadU(d, from + m), d, to + m);
    }
  }
  no_flags(shape, out);
}

void zero_all(const RowShape& shape, const Rows&, const Rows&, const Results& out, int) {
  const D32 d;
  const int words = shape.words();
  for (uint32_t* const word : out.word) {
    for (int i = 0; i < words; i += static_cast<int>(hn::Lanes(d))) hn::StoreU(hn::Zero(d), d, word + i);
  }
  no_flags(shape, out);
}

/// Enters an operation for all lanes of one kind.
struct AluTable {
  KernelTable& table;

  static int index(isa::Opcode opcode) { return static_cast<int>(opcode); }
  void set(isa::Opcode opcode, isa::Precision precision, bool is_unsigned, AluKernel kernel) {
    table.alu[index(opcode)][static_cast<int>(precision)][is_unsigned] = kernel;
  }
  template <template <class> class Op>
  void integer(isa::Opcode opcode, bool is_unsigned) {
    set(opcode, isa::Precision::kLong, is_unsigned, &alu<uint64_t, Op<uint64_t>>);
    set(opcode, isa::Precision::kInt, is_unsigned, &alu<uint32_t, Op<uint32_t>>);
    set(opcode, isa::Precision::kShort, is_unsigned, &alu<uint16_t, Op<uint16_t>>);
  }
  template <template <class> class Op>
  void floating(isa::Opcode opcode, bool is_unsigned) {
    set(opcode, isa::Precision::kDouble, is_unsigned, &alu<uint64_t, Op<uint64_t>>);
    set(opcode, isa::Precision::kFloat, is_unsigned, &alu<uint32_t, Op<uint32_t>>);
    set(opcode, isa::Precision::kHalf, is_unsigned, &alu<uint16_t, Op<uint16_t>>);
  }
};

}  // namespace

void add_alu_kernels(KernelTable& table) {
  using isa::Opcode;
  using isa::Precision;
  AluTable alu_table{table};
  alu_table.set(Opcode::kZero, Precision::kNone, false, &zero_all);
  alu_table.set(Opcode::kMsl, Precision::kNone, false, &rotate_pes<3>);
  alu_table.set(Opcode::kMsr, Precision::kNone, false, &rotate_pes<1>);
  alu_table.integer<OpPassa>(Opcode::kPassa, false);
  alu_table.floating<OpPassa>(Opcode::kPassa, false);
  alu_table.integer<OpInc>(Opcode::kInc, false);
  alu_table.integer<OpIncU>(Opcode::kInc, true);
  alu_table.integer<OpDec>(Opcode::kDec, false);
  alu_table.integer<OpDecU>(Opcode::kDec, true);
  alu_table.integer<OpAdd>(Opcode::kAdd, false);
  alu_table.integer<OpAddU>(Opcode::kAdd, true);
  alu_table.integer<OpSub>(Opcode::kSub, false);
  alu_table.integer<OpSubU>(Opcode::kSub, true);
  alu_table.integer<OpNot>(Opcode::kNot, false);
  alu_table.integer<OpLnot>(Opcode::kLnot, false);
  alu_table.integer<OpAnd>(Opcode::kAnd, false);
  alu_table.integer<OpOr>(Opcode::kOr, false);
  alu_table.integer<OpXor>(Opcode::kXor, false);
  alu_table.integer<OpLsl>(Opcode::kLsl, false);
  alu_table.integer<OpLsl>(Opcode::kLsl, true);
  alu_table.integer<OpLsr>(Opcode::kLsr, false);
  alu_table.integer<OpLsrU>(Opcode::kLsr, true);
  alu_table.integer<OpBsl>(Opcode::kBsl, false);
  alu_table.integer<OpBsr>(Opcode::kBsr, false);
  alu_table.integer<OpPackbit>(Opcode::kPackbit, false);
  alu_table.floating<OpPackbit>(Opcode::kPackbit, false);
  alu_table.integer<OpMax>(Opcode::kMax, false);
  alu_table.integer<OpMaxU>(Opcode::kMax, true);
  alu_table.floating<OpMaxF>(Opcode::kMax, false);
  alu_table.integer<OpMin>(Opcode::kMin, false);
  alu_table.integer<OpMinU>(Opcode::kMin, true);
  alu_table.floating<OpMinF>(Opcode::kMin, false);
  alu_table.floating<Relu<0>::Op>(Opcode::kRelu, false);
  alu_table.floating<Relu<1>::Op>(Opcode::kRelu1, false);
  alu_table.floating<Relu<2>::Op>(Opcode::kRelu2, false);
  alu_table.floating<Relu<3>::Op>(Opcode::kRelu3, false);
  alu_table.floating<Lrelu<-1>::Op>(Opcode::kLrelud, false);
  alu_table.floating<Lrelu<-3>::Op>(Opcode::kLreluo, false);
  alu_table.floating<Lrelu<1>::Op>(Opcode::kIlrelud, false);
  alu_table.floating<OpRsqrt>(Opcode::kRsqrt, false);
  alu_table.floating<OpFloor>(Opcode::kFloor, false);
  alu_table.floating<OpFtoi>(Opcode::kFtoi, false);
  alu_table.floating<OpFtoiU>(Opcode::kFtoi, true);
}

// NOLINTNEXTLINE(google-readability-namespace-comments)
}  // namespace HWY_NAMESPACE
}  // namespace kodama::simulator
HWY_AFTER_NAMESPACE();
