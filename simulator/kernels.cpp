#include "simulator/kernels.h"

#include <cmath>
#include <cstring>
#include <type_traits>

// SVE vectors can't be kept in arrays; the others of this list only repeat a neighbour for our purposes.
#define HWY_DISABLED_TARGETS (HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128 | HWY_SSSE3 | HWY_AVX3_DL)
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "simulator/kernels.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace kodama::simulator {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

// ---------------------------------------------------------------------------------------------------
// ALU: one functor per operation, on lanes of any width. U is the unsigned type of the lane. The loops
// are plain; the compiler vectorizes them for the target of this pass.

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
KODAMA_OP(OpLsr, static_cast<S>(x) >> (y & (L::kWidth - 1)), r == 0)
KODAMA_OP(OpLsrU, x >> (y & (L::kWidth - 1)), r == 0)
KODAMA_OP(OpBsl,
          (x << (y & (L::kWidth - 1))) | (x >> ((L::kWidth - (y & (L::kWidth - 1))) & (L::kWidth - 1))),
          r == 0)
KODAMA_OP(OpBsr,
          (x >> (y & (L::kWidth - 1))) | (x << ((L::kWidth - (y & (L::kWidth - 1))) & (L::kWidth - 1))),
          r == 0)
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
  KODAMA_OP(Op, (x >> (L::kWidth - 1 - kBit)) & 1 ? L::kSign : y, ((x >> (L::kWidth - 1 - kBit)) & 1) == 0)
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

/// floor(64 / sqrt(t)) for t = 1 + k/16 and t = 2 (1 + k/16).
struct RsqrtTable {
  uint8_t entry[2][16];
  constexpr RsqrtTable() : entry() {
    for (int odd = 0; odd < 2; ++odd) {
      for (int k = 0; k < 16; ++k) {
        // n <= 64 / sqrt(t)  <=>  n^2 t <= 4096, with t = (16 + k) * 2^odd / 16.
        int n = 64;
        while (n * n * (16 + k) * (1 << odd) > 4096 * 16) --n;
        entry[odd][k] = static_cast<uint8_t>(n);
      }
    }
  }
};
inline constexpr RsqrtTable kRsqrt;

template <class U>
HWY_INLINE U rsqrt_lane(U x) {
  using L = Lane<U>;
  const int field = static_cast<int>(x >> L::kMantissaBits) & L::kExponentMask;
  if (field == 0) return L::kExponentBits;
  if (field == L::kExponentMask) return 0;
  const int exponent = field - L::kBias;
  const int half = exponent >> 1;
  const int n = kRsqrt.entry[exponent & 1][static_cast<int>(x >> (L::kMantissaBits - 4)) & 15];
  if (n == 64) return static_cast<U>(static_cast<U>(L::kBias - half) << L::kMantissaBits);
  return static_cast<U>((static_cast<U>(L::kBias - 1 - half) << L::kMantissaBits) |
                        (static_cast<U>(n - 32) << (L::kMantissaBits - 5)));
}
KODAMA_OP(OpRsqrt, rsqrt_lane<U>(x), (x & L::kSign) == 0)

// The next two are written for the vectorizer, which knows no arithmetic shift, no shift of a constant and no
// unsigned comparison of long words on AVX2: without branches, exponents signed and as wide as the lane.

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
  for (int w = 0; w < 2; ++w) {
    for (int p = 0; p < 4; ++p) {
      const uint32_t* from = x.word[w] + ((p + kFrom) & 3) * shape.stride;
      uint32_t* to = out.word[w] + p * shape.stride;
      for (int m = 0; m < shape.stride; ++m) to[m] = from[m];
    }
  }
  if (out.flags != nullptr) {
    for (int i = 0; i < shape.words(); ++i) out.flags[i] = 0;
  }
}

void zero_all(const RowShape& shape, const Rows&, const Rows&, const Results& out, int) {
  for (int w = 0; w < 4; ++w) {
    for (int i = 0; i < shape.words(); ++i) out.word[w][i] = 0;
  }
  if (out.flags != nullptr) {
    for (int i = 0; i < shape.words(); ++i) out.flags[i] = 0;
  }
}

// ---------------------------------------------------------------------------------------------------
// Block float.

using D32 = hn::CappedTag<uint32_t, kRowGranule>;
using V32 = hn::Vec<D32>;

/// Normalizes `count` elements (right aligned patterns) of one block per vector lane.
template <int kCount, int kMantissaBits, int kExponentMask, bool kExtended>
HWY_INLINE void normalize_block(V32* element, int b) {
  const D32 d;
  const V32 exponent_mask = hn::Set(d, kExponentMask);
  const V32 mantissa_mask = hn::Set(d, (1u << kMantissaBits) - 1);
  const V32 sign_bit = hn::Set(d, static_cast<uint32_t>(kExponentMask + 1) << kMantissaBits);
  const V32 top_ones = hn::Set(d, ((1u << kMantissaBits) - 1) & ~((1u << b) - 1));
  const V32 one = hn::Set(d, 1);
  const V32 zero = hn::Zero(d);
  const V32 shift_b = hn::Set(d, static_cast<uint32_t>(b));
  V32 largest = zero;
  for (int j = 0; j < kCount; ++j) {
    largest = hn::Max(largest, hn::And(hn::ShiftRight<kMantissaBits>(element[j]), exponent_mask));
  }
  // Elements with the largest exponent and all-one mantissa would round up beyond the field.
  auto bump = hn::Ne(zero, zero);
  for (int j = 0; j < kCount; ++j) {
    const V32 exponent = hn::And(hn::ShiftRight<kMantissaBits>(element[j]), exponent_mask);
    const auto ones = hn::Eq(hn::And(element[j], top_ones), top_ones);
    bump = hn::Or(bump, hn::And(hn::Eq(exponent, largest), ones));
  }
  const V32 block = hn::Add(hn::Add(largest, shift_b), hn::IfThenElseZero(bump, one));
  const auto empty = hn::Eq(largest, zero);
  const auto infinite = hn::Gt(block, hn::Sub(exponent_mask, one));
  const V32 infinity = hn::ShiftLeft<kMantissaBits>(exponent_mask);
  for (int j = 0; j < kCount; ++j) {
    const V32 sign = hn::And(element[j], sign_bit);
    const V32 exponent = hn::And(hn::ShiftRight<kMantissaBits>(element[j]), exponent_mask);
    const V32 mantissa = hn::And(element[j], mantissa_mask);
    const V32 full =
        hn::IfThenZeroElse(hn::Eq(exponent, zero), hn::Or(mantissa, hn::Set(d, 1u << kMantissaBits)));
    const V32 distance = hn::Sub(block, exponent);
    V32 shift = hn::Add(distance, one);
    V32 field = block;
    if constexpr (kExtended) {
      const V32 limit = hn::Set(d, static_cast<uint32_t>(6 + b));
      const auto ones = hn::Eq(hn::And(element[j], top_ones), top_ones);
      const auto small = hn::Or(hn::Gt(distance, limit), hn::AndNot(ones, hn::Eq(distance, limit)));
      shift = hn::IfThenElse(small, hn::Sub(shift, hn::Set(d, 6)), shift);
      field = hn::IfThenZeroElse(small, field);
    }
    shift = hn::Min(shift, hn::Set(d, kMantissaBits + 3));
    const V32 half = hn::Sub(hn::Shl(one, hn::Sub(shift, one)), one);
    const V32 odd = hn::And(hn::Shr(full, shift), one);
    const V32 rounded = hn::Shr(hn::Add(full, hn::Add(half, odd)), shift);
    if constexpr (kExtended) field = hn::IfThenZeroElse(hn::Eq(rounded, zero), field);
    V32 value = hn::Or(hn::ShiftLeft<kMantissaBits>(field), rounded);
    value = hn::IfThenElse(infinite, infinity, value);
    value = hn::IfThenZeroElse(empty, value);
    element[j] = hn::Or(sign, value);
  }
}

/// Blocks of 4 floats: upper words, lower words.
void bfn_float(const RowShape& shape, const Rows& x, const Rows&, const Results& out, int) {
  const D32 d;
  for (int w = 0; w < 2; ++w) {
    for (int m = 0; m < shape.stride; m += static_cast<int>(hn::Lanes(d))) {
      V32 element[4];
      for (int p = 0; p < 4; ++p) element[p] = hn::LoadU(d, x.word[w] + p * shape.stride + m);
      normalize_block<4, 23, 255, false>(element, 0);
      for (int p = 0; p < 4; ++p) hn::StoreU(element[p], d, out.word[w] + p * shape.stride + m);
    }
  }
  if (out.flags != nullptr) {
    for (int i = 0; i < shape.words(); ++i) out.flags[i] = 0;
  }
}

/// One block of 8 floats.
void bfn_gfloat(const RowShape& shape, const Rows& x, const Rows&, const Results& out, int) {
  const D32 d;
  for (int m = 0; m < shape.stride; m += static_cast<int>(hn::Lanes(d))) {
    V32 element[8];
    for (int j = 0; j < 8; ++j) element[j] = hn::LoadU(d, x.word[j & 1] + (j >> 1) * shape.stride + m);
    normalize_block<8, 23, 255, false>(element, 0);
    for (int j = 0; j < 8; ++j) hn::StoreU(element[j], d, out.word[j & 1] + (j >> 1) * shape.stride + m);
  }
  if (out.flags != nullptr) {
    for (int i = 0; i < shape.words(); ++i) out.flags[i] = 0;
  }
}

/// Two blocks of 16 halves, h and l; writes all four words.
template <bool kExtended>
void bfn_half(const RowShape& shape, const Rows& x, const Rows&, const Results& out, int b) {
  const D32 d;
  const V32 low = hn::Set(d, 0xffff);
  for (int w = 0; w < 4; w += 2) {
    for (int m = 0; m < shape.stride; m += static_cast<int>(hn::Lanes(d))) {
      V32 element[16];
      for (int j = 0; j < 8; ++j) {
        const V32 word = hn::LoadU(d, x.word[w + (j & 1)] + (j >> 1) * shape.stride + m);
        element[2 * j] = hn::ShiftRight<16>(word);
        element[2 * j + 1] = hn::And(word, low);
      }
      normalize_block<16, 9, 63, kExtended>(element, b);
      for (int j = 0; j < 8; ++j) {
        hn::StoreU(hn::Or(hn::ShiftLeft<16>(element[2 * j]), element[2 * j + 1]), d,
                   out.word[w + (j & 1)] + (j >> 1) * shape.stride + m);
      }
    }
  }
  if (out.flags != nullptr) {
    for (int i = 0; i < shape.words(); ++i) out.flags[i] = 0;
  }
}

/// Blocks of 4 doubles, one at a time.
void bfn_double(const RowShape& shape, const Rows& x, const Rows&, const Results& out, int) {
  for (int m = 0; m < shape.stride; ++m) {
    uint64_t element[4];
    for (int p = 0; p < 4; ++p) {
      const int i = p * shape.stride + m;
      element[p] = (uint64_t{x.word[0][i]} << 32) | x.word[1][i];
    }
    int largest = 0;
    for (uint64_t e : element) largest = HWY_MAX(largest, static_cast<int>(e >> 52) & 2047);
    constexpr uint64_t kMask = (uint64_t{1} << 52) - 1;
    int block = largest;
    for (uint64_t e : element) {
      if ((static_cast<int>(e >> 52) & 2047) == largest && (e & kMask) == kMask) block = largest + 1;
    }
    for (int p = 0; p < 4; ++p) {
      const uint64_t sign = element[p] & (uint64_t{1} << 63);
      const int exponent = static_cast<int>(element[p] >> 52) & 2047;
      uint64_t value = 0;
      if (largest == 0) {
        value = 0;
      } else if (block >= 2047) {
        value = uint64_t{2047} << 52;
      } else {
        uint64_t rounded = 0;
        const int shift = block - exponent + 1;
        if (exponent > 0 && shift < 55) {
          const uint64_t full = (element[p] & kMask) | (uint64_t{1} << 52);
          rounded = (full + (uint64_t{1} << (shift - 1)) - 1 + ((full >> shift) & 1)) >> shift;
        }
        value = (static_cast<uint64_t>(block) << 52) | rounded;
      }
      value |= sign;
      const int i = p * shape.stride + m;
      out.word[0][i] = static_cast<uint32_t>(value >> 32);
      out.word[1][i] = static_cast<uint32_t>(value);
    }
  }
  if (out.flags != nullptr) {
    for (int i = 0; i < shape.words(); ++i) out.flags[i] = 0;
  }
}

// ---------------------------------------------------------------------------------------------------
// Floating point. Numbers are held as doubles: every float and half (infinity counting as a number with
// the top exponent) is a normal double, and every product is exact.

using D64 = hn::CappedTag<double, kRowGranule>;
using V64 = hn::Vec<D64>;
using DU64 = hn::Rebind<uint64_t, D64>;
using DI64 = hn::Rebind<int64_t, D64>;
/// Floats and patterns of as many lanes as a D64 has.
using DF32h = hn::Rebind<float, D64>;
using DU32h = hn::Rebind<uint32_t, D64>;
using DI32h = hn::Rebind<int32_t, D64>;
using VU32h = hn::Vec<DU32h>;

HWY_INLINE V64 float_to_double(VU32h bits) {
  const DU32h d32;
  const DI64 di;
  const D64 d;
  const VU32h exponent = hn::Set(d32, 0x7f800000);
  const VU32h flushed = hn::IfThenZeroElse(hn::Eq(hn::And(bits, exponent), hn::Zero(d32)), bits);
  const auto wide = hn::PromoteTo(di, hn::BitCast(DI32h(), flushed));
  // The sign extension fills bits 61..63 with the sign; the field of the exponent stays 8 bits wide.
  const auto placed =
      hn::And(hn::ShiftLeft<29>(wide), hn::Set(di, static_cast<int64_t>(0x8fffffffe0000000ull)));
  return hn::Mul(hn::BitCast(d, placed), hn::Set(d, 0x1p896));
}

/// A half in the low 16 bits of each lane, as float pattern.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V half_to_float_bits(D d32, V half) {
  const V magnitude = hn::And(half, hn::Set(d32, 0x7fff));
  const V zero = hn::IfThenZeroElse(hn::Lt(magnitude, hn::Set(d32, 0x200)),
                                    hn::Add(hn::ShiftLeft<14>(magnitude), hn::Set(d32, 96u << 23)));
  return hn::Or(zero, hn::ShiftLeft<16>(hn::And(half, hn::Set(d32, 0x8000))));
}

HWY_INLINE V64 half_to_double(VU32h half) {
  const DU32h d32;
  return hn::PromoteTo(D64(), hn::BitCast(DF32h(), half_to_float_bits(d32, half)));
}

/// a + b with rounding to odd: the last bit is sticky, so that a later rounding to a shorter format is the
/// only rounding. `sum` is a + b.
HWY_INLINE V64 to_odd(V64 a, V64 b, V64 sum) {
  const D64 d;
  const DU64 du;
  const V64 b_part = hn::Sub(sum, a);
  const V64 error = hn::Add(hn::Sub(a, hn::Sub(sum, b_part)), hn::Sub(b, b_part));
  const auto bits = hn::BitCast(du, sum);
  const auto opposite = hn::ShiftRight<63>(hn::Xor(bits, hn::BitCast(du, error)));
  const auto odd = hn::Or(hn::Sub(bits, opposite), hn::Set(du, 1));
  return hn::IfThenElse(hn::Eq(error, hn::Zero(d)), sum, hn::BitCast(d, odd));
}

/// a[k] + b[k] for a later rounding to floats, or halves (kToHalf), that has to be the only rounding. The
/// double nearest to a sum may be rounded again unless it lies half way between two results, which is rare;
/// then it is rounded to odd instead.
template <bool kToHalf>
HWY_INLINE void add_for_rounding(const V64 (&a)[2], const V64 (&b)[2], V64 (&sum)[2]) {
  const DU64 du;
  constexpr int kDropped = kToHalf ? 43 : 29;
  const auto dropped = hn::Set(du, (uint64_t{1} << kDropped) - 1);
  const auto half = hn::Set(du, uint64_t{1} << (kDropped - 1));
  sum[0] = hn::Add(a[0], b[0]);
  sum[1] = hn::Add(a[1], b[1]);
  const auto half_way = hn::Or(hn::Eq(hn::And(hn::BitCast(du, sum[0]), dropped), half),
                               hn::Eq(hn::And(hn::BitCast(du, sum[1]), dropped), half));
  if (HWY_LIKELY(hn::AllFalse(du, half_way))) return;
  for (int k = 0; k < 2; ++k) sum[k] = to_odd(a[k], b[k], sum[k]);
}

/// Rounds to a float: nearest even at full precision, then overflow to infinity, underflow to +0.
HWY_INLINE VU32h to_float(V64 value) {
  const D64 d;
  // The smallest magnitude that rounds up to the least normal float; conversion treats the few values
  // from there on as the full precision would.
  const V64 least = hn::Set(d, 0x1p-126 - 0x1p-151);
  const V64 kept = hn::IfThenElseZero(hn::Ge(hn::Abs(value), least), value);
#if HWY_TARGET == HWY_SCALAR || HWY_TARGET == HWY_EMU128
  // There, DemoteTo saturates at the largest finite float.
  double in[kRowGranule];
  uint32_t out[kRowGranule];
  hn::StoreU(kept, d, in);
  for (size_t i = 0; i < hn::Lanes(d); ++i) {
    // Halfway between the largest float and the next power of two.
    const bool infinite = std::abs(in[i]) >= 0x1p128 - 0x1p103;
    const float narrow = infinite ? std::copysign(HUGE_VALF, static_cast<float>(in[i] > 0 ? 1 : -1))
                                  : static_cast<float>(in[i]);
    std::memcpy(&out[i], &narrow, sizeof(narrow));
  }
  return hn::LoadU(DU32h(), out);
#else
  return hn::BitCast(DU32h(), hn::DemoteTo(DF32h(), kept));
#endif
}

/// Rounds to a half in the low 16 bits.
HWY_INLINE VU32h to_half(V64 value) {
  const DU64 du;
  const DI64 di;
  const auto bits = hn::BitCast(du, value);
  const auto magnitude = hn::And(bits, hn::Set(du, 0x7fffffffffffffffull));
  const auto odd = hn::And(hn::ShiftRight<43>(magnitude), hn::Set(du, 1));
  const auto rounded =
      hn::ShiftRight<43>(hn::Add(magnitude, hn::Add(odd, hn::Set(du, (uint64_t{1} << 42) - 1))));
  const auto rebased = hn::Sub(hn::BitCast(di, rounded), hn::Set(di, int64_t{992} << 9));
  const auto infinity = hn::Set(di, 63 << 9);
  const auto bounded = hn::IfThenElse(hn::Gt(rebased, infinity), infinity, rebased);
  const auto sign = hn::BitCast(di, hn::ShiftLeft<15>(hn::ShiftRight<63>(bits)));
  const auto result = hn::IfThenElseZero(hn::Gt(bounded, hn::Set(di, (1 << 9) - 1)), hn::Or(bounded, sign));
  return hn::TruncateTo(DU32h(), hn::BitCast(du, result));
}

/// The parts of a float significand that the truncating multiplier needs.
struct Split {
  V64 value;
  V64 high;  ///< without the low five bits
  V64 low;   ///< the low five bits
  V64 unit;  ///< 2^exponent with the sign if low is not zero, else 0
};
HWY_INLINE Split split(V64 value) {
  const D64 d;
  const DU64 du;
  Split s;
  s.value = value;
  const auto bits = hn::BitCast(du, value);
  s.high = hn::BitCast(d, hn::And(bits, hn::Set(du, ~((uint64_t{1} << 34) - 1))));
  s.low = hn::Sub(value, s.high);
  const V64 unit = hn::BitCast(d, hn::And(bits, hn::Set(du, 0xfff0000000000000ull)));
  s.unit = hn::IfThenZeroElse(hn::Eq(s.low, hn::Zero(d)), unit);
  return s;
}
/// x*y less the product of the low parts, plus 2^-38 of the leading place where both are nonzero. Exact.
HWY_INLINE V64 truncated_product(const Split& x, const Split& y) {
  const D64 d;
  const V64 product = hn::MulAdd(x.low, y.high, hn::Mul(x.high, y.value));
  return hn::MulAdd(hn::Mul(x.unit, hn::Set(d, 0x1p-38)), y.unit, product);
}

/// Lane `lane` of a row operand as doubles at PE index i.
template <bool kHalf>
HWY_INLINE V64 load_factor(const Rows& rows, int lane, int i) {
  const DU32h d;
  if constexpr (kHalf) {
    const VU32h word = hn::LoadU(d, rows.word[lane >> 1] + i);
    return half_to_double((lane & 1) == 0 ? hn::ShiftRight<16>(word) : hn::And(word, hn::Set(d, 0xffff)));
  } else {
    return float_to_double(hn::LoadU(d, rows.word[lane] + i));
  }
}

/// Rounds two results of a lane pair and stores them: `lane` and `lane` + 1 of the operation.
template <bool kRound>
HWY_INLINE void store_pair(const V64 (&value)[2], const Results& out, int lane, int i) {
  const DU32h d;
  if constexpr (kRound) {
    hn::StoreU(hn::Or(hn::ShiftLeft<16>(to_half(value[0])), to_half(value[1])), d, out.word[lane >> 1] + i);
  } else {
    hn::StoreU(to_float(value[0]), d, out.word[lane] + i);
    hn::StoreU(to_float(value[1]), d, out.word[lane + 1] + i);
  }
}

template <bool kHalf, bool kRound, bool kMul, bool kAdd>
HWY_INLINE void vector_loop(int begin, int end, const Rows& x, const Rows& y, const Rows& z,
                            const Results& out) {
  const int step = static_cast<int>(hn::Lanes(D64()));
  constexpr int kLanes = kHalf ? 4 : 2;
  for (int lane = 0; lane < kLanes; lane += 2) {
    for (int i = begin; i < end; i += step) {
      V64 product[2];
      for (int k = 0; k < 2; ++k) {
        product[k] = load_factor<kHalf>(x, lane + k, i);
        if constexpr (kMul) {
          const V64 factor = load_factor<kHalf>(y, lane + k, i);
          product[k] =
              kHalf ? hn::Mul(product[k], factor) : truncated_product(split(product[k]), split(factor));
        }
      }
      if constexpr (kAdd) {
        const V64 addend[2] = {load_factor<false>(z, lane, i), load_factor<false>(z, lane + 1, i)};
        V64 sum[2];
        add_for_rounding<kRound>(product, addend, sum);
        store_pair<kRound>(sum, out, lane, i);
      } else {
        store_pair<kRound>(product, out, lane, i);
      }
    }
  }
}

/// A piece of a row of floats with zeros for exponent 0. Returns whether an exponent is all ones: such
/// numbers are no doubles, and the caller has to take another way.
HWY_INLINE bool flush_floats(const uint32_t* HWY_RESTRICT from, float* HWY_RESTRICT to) {
  using DI = hn::CappedTag<int32_t, kRowGranule>;
  const DI d;
  const hn::Rebind<float, DI> df;
  auto largest = hn::Zero(d);
  for (int i = 0; i < kRowGranule; i += static_cast<int>(hn::Lanes(d))) {
    const auto bits = hn::LoadU(d, reinterpret_cast<const int32_t*>(from) + i);
    const auto magnitude = hn::And(bits, hn::Set(d, 0x7fffffff));
    largest = hn::Max(largest, magnitude);
    const auto number = hn::Gt(magnitude, hn::Set(d, 0x007fffff));
    hn::StoreU(hn::BitCast(df, hn::IfThenElseZero(number, bits)), df, to + i);
  }
  return !hn::AllFalse(d, hn::Gt(largest, hn::Set(d, 0x7f7fffff)));
}

/// The multiply-add of floats, the most used of the vector operations: as vector_loop, but operands without
/// infinities become doubles by the machine's own conversion.
template <bool kRound>
HWY_INLINE void multiply_add_floats(const RowShape& shape, const Rows& x, const Rows& y, const Rows& z,
                                    const Results& out) {
  const D64 d;
  const DF32h df;
  alignas(64) float flushed[3][2][kRowGranule];
  for (int begin = 0; begin < shape.words(); begin += kRowGranule) {
    bool infinite = false;
    for (int k = 0; k < 2; ++k) {
      infinite |= flush_floats(x.word[k] + begin, flushed[0][k]);
      infinite |= flush_floats(y.word[k] + begin, flushed[1][k]);
      infinite |= flush_floats(z.word[k] + begin, flushed[2][k]);
    }
    if (HWY_UNLIKELY(infinite)) {
      vector_loop<false, kRound, true, true>(begin, begin + kRowGranule, x, y, z, out);
      continue;
    }
    for (int i = 0; i < kRowGranule; i += static_cast<int>(hn::Lanes(d))) {
      V64 product[2];
      V64 addend[2];
      V64 sum[2];
      for (int k = 0; k < 2; ++k) {
        const V64 factor = hn::PromoteTo(d, hn::Load(df, flushed[0][k] + i));
        const V64 other = hn::PromoteTo(d, hn::Load(df, flushed[1][k] + i));
        addend[k] = hn::PromoteTo(d, hn::Load(df, flushed[2][k] + i));
        product[k] = truncated_product(split(factor), split(other));
      }
      add_for_rounding<kRound>(product, addend, sum);
      store_pair<kRound>(sum, out, 0, begin + i);
    }
  }
}

template <bool kHalf, bool kRound>
void vector_mau(const RowShape& shape, const Rows& x, const Rows& y, const Rows& z, const Results& out) {
  const bool mul = y.word[0] != nullptr;
  const bool add = z.word[0] != nullptr;
  if (!kHalf && mul && add) {
    multiply_add_floats<kRound>(shape, x, y, z, out);
  } else if (mul && add) {
    vector_loop<kHalf, kRound, true, true>(0, shape.words(), x, y, z, out);
  } else if (mul) {
    vector_loop<kHalf, kRound, true, false>(0, shape.words(), x, y, z, out);
  } else if (add) {
    vector_loop<kHalf, kRound, false, true>(0, shape.words(), x, y, z, out);
  } else {
    vector_loop<kHalf, kRound, false, false>(0, shape.words(), x, y, z, out);
  }
}

// ---------------------------------------------------------------------------------------------------
// Matrix unit. Sums of products are exact: block exponents agree, so a sum has at most 18+18+3 (g), 48 (f)
// or 9+9+4 (h) significant bits, or 34 with extended halves.

/// Exponent checks of a block held as patterns, one block per vector lane.
template <int kMantissaBits, int kExponentMask>
struct BlockCheck {
  V32 largest;
  V32 smallest;
  V32 extended;  ///< nonzero where an element has exponent 0 and a mantissa

  // Not default member initializers: the implicit constructor would not be compiled for the target.
  HWY_INLINE BlockCheck()
      : largest(hn::Zero(D32())), smallest(hn::Set(D32(), kExponentMask)), extended(hn::Zero(D32())) {}
  HWY_INLINE void add(V32 pattern) {
    const D32 d;
    const V32 exponent = hn::And(hn::ShiftRight<kMantissaBits>(pattern), hn::Set(d, kExponentMask));
    const auto zero = hn::Eq(exponent, hn::Zero(d));
    largest = hn::Max(largest, exponent);
    smallest = hn::Min(smallest, hn::IfThenElse(zero, hn::Set(d, kExponentMask), exponent));
    extended =
        hn::Or(extended, hn::IfThenElseZero(zero, hn::And(pattern, hn::Set(d, (1u << kMantissaBits) - 1))));
  }
  HWY_INLINE uint32_t kind(bool may_extend) const {
    const D32 d;
    const V32 zero = hn::Zero(d);
    const auto uniform = hn::Or(hn::Eq(largest, smallest), hn::Eq(largest, zero));
    const auto fine = hn::AndNot(hn::Eq(largest, hn::Set(d, kExponentMask)), uniform);
    uint32_t result = hn::AllTrue(d, fine) ? kBlockUniform : kBlockIrregular;
    if (may_extend && !hn::AllTrue(d, hn::Eq(extended, zero))) result |= kBlockExtended;
    return result;
  }
};

/// Value of a block-float pattern, its mantissa cut by kCut bits; exponent 0 is zero.
template <uint32_t kMantissaMask>
HWY_INLINE V64 block_float_value(VU32h pattern) {
  const DU32h d32;
  const DI64 di;
  const D64 d;
  const VU32h flushed =
      hn::IfThenZeroElse(hn::Eq(hn::And(pattern, hn::Set(d32, 0x7f800000)), hn::Zero(d32)), pattern);
  const V64 mantissa = hn::PromoteTo(d, hn::BitCast(DI32h(), hn::And(flushed, hn::Set(d32, kMantissaMask))));
  // Sign and 2^(E - 149), from the pattern's upper nine bits.
  const auto wide = hn::PromoteTo(di, hn::BitCast(DI32h(), hn::And(flushed, hn::Set(d32, 0xff800000))));
  const auto placed =
      hn::And(hn::ShiftLeft<29>(wide), hn::Set(di, static_cast<int64_t>(0x8fffffffe0000000ull)));
  const auto scale = hn::Add(placed, hn::Set(di, int64_t{1023 - 149} << 52));
  return hn::Mul(mantissa, hn::BitCast(d, scale));
}

template <int kLanesPerLong>
HWY_INLINE const uint32_t* float_element(const RowShape& shape, const uint32_t* const* words, int j) {
  return words[j % kLanesPerLong] + (j / kLanesPerLong) * shape.stride;
}

template <int kLanesPerLong, int kCount>
HWY_INLINE uint32_t check_floats(const RowShape& shape, const uint32_t* const* words) {
  const D32 d;
  uint32_t kind = 0;
  for (int m = 0; m < shape.stride; m += static_cast<int>(hn::Lanes(d))) {
    BlockCheck<23, 255> check;
    for (int j = 0; j < kCount; ++j) {
      check.add(hn::LoadU(d, float_element<kLanesPerLong>(shape, words, j) + m));
    }
    kind |= check.kind(false);
  }
  return kind;
}

/// [i][j][m] doubles.
uint32_t decode_gfloat(const RowShape& shape, const uint32_t* raw, int row, void* decoded) {
  const DU32h d;
  const uint32_t* const words[2] = {raw, raw + shape.words()};
  double* out = static_cast<double*>(decoded) + static_cast<ptrdiff_t>(row) * 8 * shape.stride;
  for (int j = 0; j < 8; ++j) {
    const uint32_t* in = float_element<2>(shape, words, j);
    for (int m = 0; m < shape.stride; m += static_cast<int>(hn::Lanes(d))) {
      hn::StoreU(block_float_value<0x7fffe0>(hn::LoadU(d, in + m)), D64(), out + j * shape.stride + m);
    }
  }
  return check_floats<2, 8>(shape, words);
}

/// Block floats split as the multiplier needs them; `unit` is 16 units of the last place.
HWY_INLINE Split split_block(VU32h pattern) {
  const DU32h d32;
  const D64 d;
  Split s;
  s.value = block_float_value<0x7fffff>(pattern);
  s.high = block_float_value<0x7fffe0>(pattern);
  s.low = hn::Sub(s.value, s.high);
  const VU32h one = hn::Or(hn::And(pattern, hn::Set(d32, 0xff800000)), hn::Set(d32, 1));
  s.unit = hn::IfThenZeroElse(hn::Eq(s.low, hn::Zero(d)), block_float_value<0x7fffff>(one));
  return s;
}

/// [part][i][j][m] doubles, parts value, high, low, unit of the four upper words.
uint32_t decode_float(const RowShape& shape, const uint32_t* raw, int row, void* decoded) {
  const DU32h d;
  const D64 dd;
  const ptrdiff_t part = ptrdiff_t{32} * shape.stride;
  double* out = static_cast<double*>(decoded) + static_cast<ptrdiff_t>(row) * 4 * shape.stride;
  for (int i = 0; i < shape.words(); i += static_cast<int>(hn::Lanes(d))) {
    const Split s = split_block(hn::LoadU(d, raw + i));
    hn::StoreU(s.high, dd, out + i);
    hn::StoreU(s.low, dd, out + part + i);
    hn::StoreU(s.unit, dd, out + 2 * part + i);
  }
  return check_floats<1, 4>(shape, &raw);
}

/// Adds z, if there is one, to the outputs `lane` and `lane` + 1, rounds and stores them.
template <bool kRound>
HWY_INLINE void finish_pair(const V64 (&y)[2], const Rows& z, const Results& out, int lane, int i) {
  if (z.word[0] == nullptr) {
    store_pair<kRound>(y, out, lane, i);
    return;
  }
  const V64 addend[2] = {load_factor<false>(z, lane, i), load_factor<false>(z, lane + 1, i)};
  V64 sum[2];
  add_for_rounding<kRound>(y, addend, sum);
  store_pair<kRound>(sum, out, lane, i);
}

template <bool kRound>
uint32_t matrix_gfloat(const RowShape& shape, const void* decoded, uint32_t, const Rows& v, const Rows& z,
                       const Results& out) {
  const DU32h d32;
  const D64 d;
  const uint32_t kind = check_floats<2, 8>(shape, v.word.data());
  if (kind != kBlockUniform) return kind;
  const double* a = static_cast<const double*>(decoded);
  const int stride = shape.stride;
  for (int m = 0; m < stride; m += static_cast<int>(hn::Lanes(d))) {
    V64 x[8];
    for (int j = 0; j < 8; ++j) {
      x[j] = block_float_value<0x7fffe0>(hn::LoadU(d32, float_element<2>(shape, v.word.data(), j) + m));
    }
    for (int p = 0; p < 4; ++p) {
      const double* row = a + p * 16 * stride + m;
      V64 y[2] = {hn::Mul(hn::LoadU(d, row), x[0]), hn::Mul(hn::LoadU(d, row + 8 * stride), x[0])};
      for (int j = 1; j < 8; ++j) {
        y[0] = hn::MulAdd(hn::LoadU(d, row + j * stride), x[j], y[0]);
        y[1] = hn::MulAdd(hn::LoadU(d, row + (8 + j) * stride), x[j], y[1]);
      }
      finish_pair<kRound>(y, z, out, 0, p * stride + m);
    }
  }
  return kBlockUniform;
}

template <bool kRound>
uint32_t matrix_float(const RowShape& shape, const void* decoded, uint32_t, const Rows& v, const Rows& z,
                      const Results& out) {
  const DU32h d32;
  const D64 d;
  const uint32_t kind = check_floats<1, 4>(shape, v.word.data());
  if (kind != kBlockUniform) return kind;
  const double* a = static_cast<const double*>(decoded);
  const int stride = shape.stride;
  const ptrdiff_t part = ptrdiff_t{32} * stride;
  for (int m = 0; m < stride; m += static_cast<int>(hn::Lanes(d))) {
    Split x[4];
    for (int j = 0; j < 4; ++j) x[j] = split_block(hn::LoadU(d32, v.word[0] + j * stride + m));
    for (int p = 0; p < 4; ++p) {
      V64 y[2];
      for (int w = 0; w < 2; ++w) {
        const double* row = a + (2 * p + w) * 4 * stride + m;
        V64 sum = hn::Zero(d);
        for (int j = 0; j < 4; ++j) {
          const double* element = row + j * stride;
          sum = hn::MulAdd(hn::LoadU(d, element), x[j].value, sum);
          sum = hn::MulAdd(hn::LoadU(d, element + part), x[j].high, sum);
          // Units are one in the last place: 2^(2k-2) = 256 of them.
          sum = hn::MulAdd(hn::Mul(hn::LoadU(d, element + 2 * part), hn::Set(d, 256.0)), x[j].unit, sum);
        }
        y[w] = sum;
      }
      finish_pair<kRound>(y, z, out, 0, p * stride + m);
    }
  }
  return kBlockUniform;
}

using DF32 = hn::Rebind<float, D32>;
using VF32 = hn::Vec<DF32>;
using DI32 = hn::Rebind<int32_t, D32>;

/// Pattern `element` (right aligned) of a block with largest exponent `largest`, as float.
HWY_INLINE VF32 block_half_value(V32 element, V32 largest) {
  const D32 d;
  const DF32 df;
  const V32 field = hn::And(hn::ShiftRight<9>(element), hn::Set(d, 63));
  const auto zero = hn::Eq(field, hn::Zero(d));
  const V32 exponent = hn::IfThenElse(zero, hn::Sub(largest, hn::Set(d, 6)), field);
  V32 mantissa = hn::And(element, hn::Set(d, 0x1ff));
  mantissa = hn::IfThenZeroElse(hn::Eq(largest, hn::Zero(d)), mantissa);
  const VF32 magnitude = hn::ConvertTo(df, hn::BitCast(DI32(), mantissa));
  const V32 sign = hn::ShiftLeft<16>(hn::And(element, hn::Set(d, 0x8000)));
  const V32 scale = hn::Or(sign, hn::ShiftLeft<23>(hn::Add(exponent, hn::Set(d, 127 - 39))));
  return hn::Mul(magnitude, hn::BitCast(df, scale));
}

HWY_INLINE void load_halves(const RowShape& shape, const uint32_t* const* words, int m, V32* element) {
  const D32 d;
  for (int j = 0; j < 8; ++j) {
    const V32 word = hn::LoadU(d, words[j & 1] + (j >> 1) * shape.stride + m);
    element[2 * j] = hn::ShiftRight<16>(word);
    element[2 * j + 1] = hn::And(word, hn::Set(d, 0xffff));
  }
}

/// Writes the 16 values of each MAB's block as [j][m] floats.
HWY_INLINE uint32_t decode_halves(const RowShape& shape, const uint32_t* const* words, float* out) {
  const D32 d;
  uint32_t kind = 0;
  for (int m = 0; m < shape.stride; m += static_cast<int>(hn::Lanes(d))) {
    V32 element[16];
    load_halves(shape, words, m, element);
    BlockCheck<9, 63> check;
    for (int j = 0; j < 16; ++j) check.add(element[j]);
    kind |= check.kind(true);
    for (int j = 0; j < 16; ++j) {
      hn::StoreU(block_half_value(element[j], check.largest), DF32(), out + j * shape.stride + m);
    }
  }
  return kind;
}

/// [i][j][m] floats.
uint32_t decode_half(const RowShape& shape, const uint32_t* raw, int row, void* decoded) {
  const uint32_t* const words[2] = {raw, raw + shape.words()};
  return decode_halves(shape, words,
                       static_cast<float*>(decoded) + static_cast<ptrdiff_t>(row) * 16 * shape.stride);
}

/// y + z for exact float y: the addition is the only rounding. Infinities in z have their mantissa cleared
/// so that the host does not see a NaN; the sum is infinite all the same because |y| < 2^70.
HWY_INLINE VF32 add_float_z(VF32 y, const Rows& z, int lane, int i) {
  const D32 d;
  const DF32 df;
  if (z.word[0] != nullptr) {
    V32 bits = hn::LoadU(d, z.word[lane] + i);
    const V32 exponent = hn::And(bits, hn::Set(d, 0x7f800000));
    const auto keep = hn::Or(hn::Eq(exponent, hn::Zero(d)), hn::Eq(exponent, hn::Set(d, 0x7f800000)));
    bits = hn::IfThenElse(keep, hn::And(bits, hn::Set(d, 0xff800000)), bits);
    y = hn::Add(y, hn::BitCast(df, bits));
  }
  return hn::IfThenElseZero(hn::Ge(hn::Abs(y), hn::Set(df, 0x1p-126f)), y);
}

/// Output i of MAB vector m where float sums would not be exact, or where the result is a half.
HWY_INLINE V64 half_row_in_double(const float* row, const float* x, int stride) {
  const D64 d;
  const DF32h dh;
  V64 y = hn::Zero(d);
  for (int j = 0; j < 16; ++j) {
    y = hn::MulAdd(hn::PromoteTo(d, hn::LoadU(dh, row + j * stride)),
                   hn::PromoteTo(d, hn::LoadU(dh, x + j * stride)), y);
  }
  return y;
}

template <bool kRound>
uint32_t matrix_half(const RowShape& shape, const void* decoded, uint32_t matrix_kind, const Rows& v,
                     const Rows& z, const Results& out) {
  const D32 d;
  const DF32 df;
  const int stride = shape.stride;
  const float* a = static_cast<const float*>(decoded);
  constexpr int kMaxStride = 256;
  HWY_ALIGN float x[16 * kMaxStride];
  const uint32_t kind = decode_halves(shape, v.word.data(), x);
  if ((kind & kBlockIrregular) != 0) return kind;
  if (kRound || ((kind | matrix_kind) & kBlockExtended) != 0) {
    const DU32h dh;
    for (int m = 0; m < stride; m += static_cast<int>(hn::Lanes(dh))) {
      for (int p = 0; p < 4; ++p) {
        for (int k = 0; k < 4; k += 2) {
          const float* row = a + (4 * p + k) * 16 * stride + m;
          const V64 y[2] = {half_row_in_double(row, x + m, stride),
                            half_row_in_double(row + 16 * stride, x + m, stride)};
          finish_pair<kRound>(y, z, out, k, p * stride + m);
        }
      }
    }
    return kind;
  }
  for (int m = 0; m < stride; m += static_cast<int>(hn::Lanes(d))) {
    for (int p = 0; p < 4; ++p) {
      const float* row = a + p * 64 * stride + m;
      VF32 y0 = hn::Zero(df), y1 = y0, y2 = y0, y3 = y0;
      for (int j = 0; j < 16; ++j) {
        const VF32 factor = hn::LoadU(df, x + j * stride + m);
        const float* element = row + j * stride;
        y0 = hn::MulAdd(hn::LoadU(df, element), factor, y0);
        y1 = hn::MulAdd(hn::LoadU(df, element + 16 * stride), factor, y1);
        y2 = hn::MulAdd(hn::LoadU(df, element + 32 * stride), factor, y2);
        y3 = hn::MulAdd(hn::LoadU(df, element + 48 * stride), factor, y3);
      }
      const int i = p * stride + m;
      hn::StoreU(hn::BitCast(d, add_float_z(y0, z, 0, i)), d, out.word[0] + i);
      hn::StoreU(hn::BitCast(d, add_float_z(y1, z, 1, i)), d, out.word[1] + i);
      hn::StoreU(hn::BitCast(d, add_float_z(y2, z, 2, i)), d, out.word[2] + i);
      hn::StoreU(hn::BitCast(d, add_float_z(y3, z, 3, i)), d, out.word[3] + i);
    }
  }
  return kind;
}

// ---------------------------------------------------------------------------------------------------
// Helpers.

void sign_flags(const RowShape& shape, const Rows& result, int lanes, uint8_t* HWY_RESTRICT flags) {
  const int n = shape.words();
  const uint32_t* HWY_RESTRICT w0 = result.word[0];
  const uint32_t* HWY_RESTRICT w1 = result.word[1];
  switch (lanes) {
    case 1:
      for (int i = 0; i < n; ++i) flags[i] = w0[i] >> 31 != 0 ? 0 : 15;
      break;
    case 2:
      for (int i = 0; i < n; ++i)
        flags[i] = static_cast<uint8_t>((w0[i] >> 31 ? 0 : 12) | (w1[i] >> 31 ? 0 : 3));
      break;
    case -2:
      for (int i = 0; i < n; ++i) {
        flags[i] = static_cast<uint8_t>((w0[i] >> 31 ? 0 : 12) | ((w0[i] >> 15) & 1 ? 0 : 3));
      }
      break;
    case -4:
      for (int i = 0; i < n; ++i) {
        flags[i] = static_cast<uint8_t>((w0[i] >> 31 ? 0 : 8) | ((w0[i] >> 15) & 1 ? 0 : 4) |
                                        (w1[i] >> 31 ? 0 : 2) | ((w1[i] >> 15) & 1 ? 0 : 1));
      }
      break;
    default:
      for (int i = 0; i < n; ++i) {
        flags[i] =
            static_cast<uint8_t>((w0[i] >> 31 ? 0 : 8) | (w1[i] >> 31 ? 0 : 4) |
                                 (result.word[2][i] >> 31 ? 0 : 2) | (result.word[3][i] >> 31 ? 0 : 1));
      }
      break;
  }
}

void flip(const RowShape& shape, const uint32_t* HWY_RESTRICT in, uint32_t pattern,
          uint32_t* HWY_RESTRICT out) {
  for (int i = 0; i < shape.words(); ++i) out[i] = in[i] ^ pattern;
}

/// The conversion of suffix e: unlike in the multiplier, infinity stays infinity.
HWY_INLINE V32 convert_half(V32 half) {
  const D32 d;
  const V32 magnitude = hn::And(half, hn::Set(d, 0x7fff));
  const V32 sign = hn::ShiftLeft<16>(hn::And(half, hn::Set(d, 0x8000)));
  V32 value = hn::Add(hn::ShiftLeft<14>(magnitude), hn::Set(d, 96u << 23));
  value = hn::IfThenElse(hn::Gt(magnitude, hn::Set(d, (63u << 9) - 1)), hn::Set(d, 0x7f800000), value);
  return hn::IfThenZeroElse(hn::Lt(magnitude, hn::Set(d, 0x200)), hn::Or(value, sign));
}

void widen_half(const RowShape& shape, const uint32_t* in, uint32_t* upper, uint32_t* lower) {
  const D32 d;
  for (int i = 0; i < shape.words(); i += static_cast<int>(hn::Lanes(d))) {
    const V32 word = hn::LoadU(d, in + i);
    hn::StoreU(convert_half(hn::ShiftRight<16>(word)), d, upper + i);
    hn::StoreU(convert_half(hn::And(word, hn::Set(d, 0xffff))), d, lower + i);
  }
}

void narrow_float(const RowShape& shape, const uint32_t* upper, const uint32_t* lower, uint32_t* out) {
  const DU32h d;
  for (int i = 0; i < shape.words(); i += static_cast<int>(hn::Lanes(d))) {
    const VU32h high = to_half(float_to_double(hn::LoadU(d, upper + i)));
    const VU32h low = to_half(float_to_double(hn::LoadU(d, lower + i)));
    hn::StoreU(hn::Or(hn::ShiftLeft<16>(high), low), d, out + i);
  }
}

void masked_copy(const RowShape& shape, const uint32_t* HWY_RESTRICT in, const uint8_t* HWY_RESTRICT mask,
                 int high, int low, bool flush, uint32_t* HWY_RESTRICT out) {
  const int n = shape.words();
  for (int i = 0; i < n; ++i) {
    const uint32_t bits = mask[i];
    const uint32_t allowed =
        (((bits >> high) & 1) != 0 ? 0xffff0000u : 0) | (((bits >> low) & 1) != 0 ? 0xffffu : 0);
    const uint32_t old = flush ? 0 : out[i];
    out[i] = (in[i] & allowed) | (old & ~allowed);
  }
}

// ---------------------------------------------------------------------------------------------------
// The table.

struct TableBuilder {
  KernelTable table;

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

  TableBuilder() {
    using isa::Opcode;
    using isa::Precision;
    table.target = hwy::TargetName(HWY_TARGET);
    set(Opcode::kZero, Precision::kNone, false, &zero_all);
    set(Opcode::kMsl, Precision::kNone, false, &rotate_pes<3>);
    set(Opcode::kMsr, Precision::kNone, false, &rotate_pes<1>);
    integer<OpPassa>(Opcode::kPassa, false);
    floating<OpPassa>(Opcode::kPassa, false);
    integer<OpInc>(Opcode::kInc, false);
    integer<OpIncU>(Opcode::kInc, true);
    integer<OpDec>(Opcode::kDec, false);
    integer<OpDecU>(Opcode::kDec, true);
    integer<OpAdd>(Opcode::kAdd, false);
    integer<OpAddU>(Opcode::kAdd, true);
    integer<OpSub>(Opcode::kSub, false);
    integer<OpSubU>(Opcode::kSub, true);
    integer<OpNot>(Opcode::kNot, false);
    integer<OpLnot>(Opcode::kLnot, false);
    integer<OpAnd>(Opcode::kAnd, false);
    integer<OpOr>(Opcode::kOr, false);
    integer<OpXor>(Opcode::kXor, false);
    integer<OpLsl>(Opcode::kLsl, false);
    integer<OpLsl>(Opcode::kLsl, true);
    integer<OpLsr>(Opcode::kLsr, false);
    integer<OpLsrU>(Opcode::kLsr, true);
    integer<OpBsl>(Opcode::kBsl, false);
    integer<OpBsr>(Opcode::kBsr, false);
    integer<OpPackbit>(Opcode::kPackbit, false);
    floating<OpPackbit>(Opcode::kPackbit, false);
    integer<OpMax>(Opcode::kMax, false);
    integer<OpMaxU>(Opcode::kMax, true);
    floating<OpMaxF>(Opcode::kMax, false);
    integer<OpMin>(Opcode::kMin, false);
    integer<OpMinU>(Opcode::kMin, true);
    floating<OpMinF>(Opcode::kMin, false);
    floating<Relu<0>::Op>(Opcode::kRelu, false);
    floating<Relu<1>::Op>(Opcode::kRelu1, false);
    floating<Relu<2>::Op>(Opcode::kRelu2, false);
    floating<Relu<3>::Op>(Opcode::kRelu3, false);
    floating<Lrelu<-1>::Op>(Opcode::kLrelud, false);
    floating<Lrelu<-3>::Op>(Opcode::kLreluo, false);
    floating<Lrelu<1>::Op>(Opcode::kIlrelud, false);
    floating<OpRsqrt>(Opcode::kRsqrt, false);
    floating<OpFloor>(Opcode::kFloor, false);
    floating<OpFtoi>(Opcode::kFtoi, false);
    floating<OpFtoiU>(Opcode::kFtoi, true);
    set(Opcode::kBfn, Precision::kDouble, false, &bfn_double);
    set(Opcode::kBfn, Precision::kFloat, false, &bfn_float);
    set(Opcode::kBfn, Precision::kGFloat, false, &bfn_gfloat);
    set(Opcode::kBfn, Precision::kHalf, false, &bfn_half<false>);
    set(Opcode::kBfe, Precision::kHalf, false, &bfn_half<true>);
    table.vector_float[0] = &vector_mau<false, false>;
    table.vector_float[1] = &vector_mau<false, true>;
    table.vector_half[0] = &vector_mau<true, false>;
    table.vector_half[1] = &vector_mau<true, true>;
    table.decode_float = &decode_float;
    table.decode_gfloat = &decode_gfloat;
    table.decode_half = &decode_half;
    table.matrix_float[0] = &matrix_float<false>;
    table.matrix_float[1] = &matrix_float<true>;
    table.matrix_gfloat[0] = &matrix_gfloat<false>;
    table.matrix_gfloat[1] = &matrix_gfloat<true>;
    table.matrix_half[0] = &matrix_half<false>;
    table.matrix_half[1] = &matrix_half<true>;
    table.sign_flags = &sign_flags;
    table.flip = &flip;
    table.widen_half = &widen_half;
    table.narrow_float = &narrow_float;
    table.masked_copy = &masked_copy;
  }
};

const KernelTable* get_table() {
  static const TableBuilder builder;
  return &builder.table;
}

}  // namespace
// NOLINTNEXTLINE(google-readability-namespace-comments)
}  // namespace HWY_NAMESPACE
}  // namespace kodama::simulator
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace kodama::simulator {

HWY_EXPORT(get_table);

const KernelTable& best_kernels() {
  return *HWY_DYNAMIC_DISPATCH(get_table)();
}

}  // namespace kodama::simulator
#endif
