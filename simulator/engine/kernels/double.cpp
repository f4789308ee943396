#include "simulator/engine/kernels/kernels.h"
#include "simulator/engine/kernels/scalar_arithmetic.h"
#include "simulator/engine/kernels/targets.h"

/// The kernels of double precision. A result is the exact sum of two or three doubles, which is rounded once.
/// That holds where no exponent is near the ends of its range; the others are rare and take the scalar
/// arithmetic.

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "simulator/engine/kernels/double.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "simulator/engine/kernels/lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace kodama::simulator {
namespace HWY_NAMESPACE {
namespace {

using M64 = hn::Mask<D64>;

/// Powers of two between which (inclusive) the exponents of ordinary numbers lie. The last place of a product
/// of factors is 2^-904 at least, that of an addend 2^-952, so that nothing here underflows.
constexpr double kLeastFactor = 0x1p-400;
constexpr double kLargestFactor = 0x1p400;
constexpr double kLeastAddend = 0x1p-900;
constexpr double kLargestAddend = 0x1p900;

constexpr uint64_t kSign = 0x8000000000000000;
constexpr uint64_t kExponent = 0x7ff0000000000000;
/// What the multiplier multiplies only by the other factor's upper bits.
constexpr uint64_t kLowBits = 0xffff;

HWY_INLINE V64 and_bits(V64 value, uint64_t bits) {
  return hn::And(value, hn::BitCast(D64(), hn::Set(DU64(), bits)));
}

HWY_INLINE V64 load_double(const uint32_t* upper, const uint32_t* lower) {
  const DU32h d32;
  const DU64 du;
  const auto high = hn::PromoteTo(du, hn::LoadU(d32, upper));
  const auto low = hn::PromoteTo(du, hn::LoadU(d32, lower));
  return hn::BitCast(D64(), hn::Or(hn::ShiftLeft<32>(high), low));
}

/// Numbers at PE index i, zero where they are zero or `rare`: neither zero nor between `least` and twice
/// `largest`.
HWY_INLINE V64 load_number(const Rows& rows, int i, double least, double largest, M64& rare) {
  const D64 d;
  const V64 number = load_double(rows.word[0] + i, rows.word[1] + i);
  const V64 power = and_bits(number, kExponent);
  const M64 ordinary = hn::And(hn::Ge(power, hn::Set(d, least)), hn::Le(power, hn::Set(d, largest)));
  rare = hn::AndNot(ordinary, hn::Ne(power, hn::Zero(d)));
  return hn::IfThenElseZero(ordinary, number);
}

/// x*y - product, which must be a double; `product` is x*y rounded to any place.
HWY_INLINE V64 product_rest(V64 x, V64 y, V64 product) {
#if HWY_NATIVE_FMA
  return hn::MulSub(x, y, product);
#else
  // Dekker's product of halves of 26 bits and a sign.
  const D64 d;
  const DU64 du;
  const auto halves = [&](V64 value, V64& high, V64& low) {
    const auto up = hn::Add(hn::BitCast(du, value), hn::Set(du, uint64_t{1} << 26));
    high = and_bits(hn::BitCast(d, up), ~((uint64_t{1} << 27) - 1));
    low = hn::Sub(value, high);
  };
  V64 x_high, x_low, y_high, y_low;
  halves(x, x_high, x_low);
  halves(y, y_high, y_low);
  V64 rest = hn::Sub(hn::Mul(x_high, y_high), product);
  rest = hn::Add(rest, hn::Mul(x_high, y_low));
  rest = hn::Add(rest, hn::Mul(x_low, y_high));
  return hn::Add(rest, hn::Mul(x_low, y_low));
#endif
}

/// x*y less the product of the low bits, plus 2^-74 of the leading place where both are nonzero: the exact
/// sum of `high` and `low`. All is a multiple of the last place of x*y, which makes `low` a double.
HWY_INLINE void truncated_product(V64 x, V64 y, V64& high, V64& low) {
  const D64 d;
  high = hn::Mul(x, y);
  const V64 rest = product_rest(x, y, high);
  const V64 x_low = hn::Sub(x, and_bits(x, ~kLowBits));
  const V64 y_low = hn::Sub(y, and_bits(y, ~kLowBits));
  const V64 dropped = hn::Mul(x_low, y_low);
  const V64 x_unit = hn::Mul(and_bits(x, kSign | kExponent), hn::Set(d, 0x1p-74));
  const V64 unit = hn::Mul(x_unit, and_bits(y, kSign | kExponent));
  const M64 complete = hn::Eq(dropped, hn::Zero(d));
  low = hn::Add(rest, hn::IfThenZeroElse(complete, hn::Sub(unit, dropped)));
}

/// a + b + c as two numbers whose sum has the same rounding, to a double or less (Boldo and Melquiond,
/// "Emulation of a FMA and correctly rounded sums: proved algorithms using rounding to odd").
HWY_INLINE void add_three(V64 a, V64 b, V64 c, V64& high, V64& low) {
  const V64 inner = hn::Add(b, c);
  const V64 inner_error = sum_error(b, c, inner);
  high = hn::Add(a, inner);
  const V64 error = sum_error(a, inner, high);
  low = to_odd(inner_error, error, hn::Add(inner_error, error));
}

template <bool kRound>
HWY_INLINE void store_value(V64 value, const Results& out, int i) {
  const DU32h d32;
  const DU64 du;
  if constexpr (kRound) {
    hn::StoreU(to_float(value), d32, out.word[0] + i);
  } else {
    const auto bits = hn::BitCast(du, value);
    hn::StoreU(hn::TruncateTo(d32, hn::ShiftRight<32>(bits)), d32, out.word[0] + i);
    hn::StoreU(hn::TruncateTo(d32, bits), d32, out.word[1] + i);
  }
}

/// Stores a + b, rounded once.
template <bool kRound>
HWY_INLINE void store_sum(V64 a, V64 b, const Results& out, int i) {
  const V64 sum = hn::Add(a, b);
  store_value<kRound>(kRound ? to_odd(a, b, sum) : sum, out, i);
}

/// The scalar arithmetic for the `rare` lanes of the vector at PE index i.
template <bool kRound, bool kMul, bool kAdd>
HWY_NOINLINE void rare_lanes(M64 rare, const Rows& x, const Rows& y, const Rows& z, const Results& out,
                             int begin) {
  uint8_t lanes[8];
  hn::StoreMaskBits(D64(), rare, lanes);
  for (int k = 0; k < static_cast<int>(hn::Lanes(D64())); ++k) {
    if ((lanes[k / 8] >> (k % 8) & 1) == 0) continue;
    const int i = begin + k;
    const auto number = [&](const Rows& rows) { return uint64_t{rows.word[0][i]} << 32 | rows.word[1][i]; };
    uint64_t factor = 0;
    uint64_t addend = 0;
    if constexpr (kMul) factor = number(y);
    if constexpr (kAdd) addend = number(z);
    const uint64_t value = multiply_add_double(number(x), kMul ? &factor : nullptr, addend, kRound);
    if constexpr (kRound) {
      out.word[0][i] = static_cast<uint32_t>(value);
    } else {
      out.word[0][i] = static_cast<uint32_t>(value >> 32);
      out.word[1][i] = static_cast<uint32_t>(value);
    }
  }
}

template <bool kRound, bool kMul, bool kAdd>
HWY_INLINE void vector_loop(const RowShape& shape, const Rows& x, const Rows& y, const Rows& z,
                            const Results& out) {
  const D64 d;
  constexpr double kLeast = kMul ? kLeastFactor : kLeastAddend;
  constexpr double kLargest = kMul ? kLargestFactor : kLargestAddend;
  for (int i = 0; i < shape.words(); i += static_cast<int>(hn::Lanes(d))) {
    M64 rare;
    V64 high = load_number(x, i, kLeast, kLargest, rare);
    V64 low = hn::Zero(d);
    if constexpr (kMul) {
      M64 rare_factor;
      const V64 factor = load_number(y, i, kLeastFactor, kLargestFactor, rare_factor);
      rare = hn::Or(rare, rare_factor);
      truncated_product(high, factor, high, low);
    }
    if constexpr (kAdd) {
      M64 rare_addend;
      const V64 addend = load_number(z, i, kLeastAddend, kLargestAddend, rare_addend);
      rare = hn::Or(rare, rare_addend);
      if constexpr (kMul) {
        add_three(high, addend, low, high, low);
      } else {
        low = addend;
      }
    }
    store_sum<kRound>(high, low, out, i);
    if (HWY_UNLIKELY(!hn::AllFalse(d, rare))) rare_lanes<kRound, kMul, kAdd>(rare, x, y, z, out, i);
  }
}

/// Every x is normalized or rounded without the scalar arithmetic.
template <bool kRound>
HWY_INLINE void pass_loop(const RowShape& shape, const Rows& x, const Results& out) {
  const D64 d;
  for (int i = 0; i < shape.words(); i += static_cast<int>(hn::Lanes(d))) {
    const V64 number = load_double(x.word[0] + i, x.word[1] + i);
    const V64 power = and_bits(number, kExponent);
    const V64 infinity = hn::BitCast(d, hn::Set(DU64(), kExponent));
    const V64 finite = hn::IfThenElse(hn::Eq(power, infinity), and_bits(number, kSign | kExponent), number);
    store_value<kRound>(hn::IfThenZeroElse(hn::Eq(power, hn::Zero(d)), finite), out, i);
  }
}

template <bool kRound>
void vector_double(const RowShape& shape, const Rows& x, const Rows& y, const Rows& z, const Results& out) {
  const bool mul = y.word[0] != nullptr;
  const bool add = z.word[0] != nullptr;
  if (mul && add) {
    vector_loop<kRound, true, true>(shape, x, y, z, out);
  } else if (mul) {
    vector_loop<kRound, true, false>(shape, x, y, z, out);
  } else if (add) {
    vector_loop<kRound, false, true>(shape, x, y, z, out);
  } else {
    pass_loop<kRound>(shape, x, out);
  }
}

/// Blocks of four elements, one block per vector lane.
struct Block {
  V64 value[4];  ///< half of it: the significand, which has no hidden bit, starts behind the point
  V64 low[4];    ///< the low bits of `value`
  V64 unit[4];   ///< 2^15 of the last place with the sign if `low` is not zero, else 0
  V64 power;     ///< 2^exponent, 1 where all elements are zero
};

/// Loads the blocks of MABs m, m + 1, .. of a row of words. Returns their kind.
HWY_INLINE uint32_t load_block(const uint32_t* upper, const uint32_t* lower, int stride, int m,
                               Block& block) {
  const D64 d;
  const V64 zero = hn::Zero(d);
  V64 power[4];
  V64 largest = zero;
  for (int j = 0; j < 4; ++j) {
    const V64 pattern = load_double(upper + j * stride + m, lower + j * stride + m);
    power[j] = and_bits(pattern, kExponent);
    const V64 number = hn::IfThenZeroElse(hn::Eq(power[j], zero), pattern);
    const V64 hidden = and_bits(number, kSign | kExponent);
    block.value[j] = hn::Sub(number, hidden);
    block.low[j] = hn::Sub(hn::Or(hidden, and_bits(number, kLowBits)), hidden);
    const V64 unit = hn::Mul(hidden, hn::Set(d, 0x1p-37));
    block.unit[j] = hn::IfThenZeroElse(hn::Eq(block.low[j], zero), unit);
    largest = hn::Max(largest, power[j]);
  }
  const M64 empty = hn::Eq(largest, zero);
  M64 regular = hn::Or(
      empty, hn::And(hn::Ge(largest, hn::Set(d, kLeastFactor)), hn::Le(largest, hn::Set(d, kLargestFactor))));
  for (const V64& own : power) {
    regular = hn::And(regular, hn::Or(hn::Eq(own, largest), hn::Eq(own, zero)));
  }
  block.power = hn::IfThenElse(empty, hn::Set(d, 1.0), largest);
  return hn::AllTrue(d, regular) ? kBlockUniform : kBlockIrregular;
}

/// What a row has in decoded form: three parts of four elements, and the scale.
constexpr ptrdiff_t kRowParts = 13;

/// [i][part][j][m] doubles, parts value, low and unit, times four for the two halves; then [m] the scales.
uint32_t decode_double(const RowShape& shape, const uint32_t* raw, int row, void* decoded) {
  const D64 d;
  const ptrdiff_t stride = shape.stride;
  double* out = static_cast<double*>(decoded) + row * kRowParts * stride;
  uint32_t kind = 0;
  for (int m = 0; m < shape.stride; m += static_cast<int>(hn::Lanes(d))) {
    Block block;
    kind |= load_block(raw, raw + shape.words(), shape.stride, m, block);
    const V64 four = hn::Set(d, 4.0);
    for (int j = 0; j < 4; ++j) {
      hn::StoreU(hn::Mul(block.value[j], four), d, out + j * stride + m);
      hn::StoreU(hn::Mul(block.low[j], four), d, out + (4 + j) * stride + m);
      hn::StoreU(hn::Mul(block.unit[j], four), d, out + (8 + j) * stride + m);
    }
    hn::StoreU(hn::Mul(block.power, hn::Set(d, 12.0)), d, out + 12 * stride + m);
  }
  return kind;
}

/// Sums of four products. In units of the last place of a product of the blocks, which is below 2^104, a
/// product is split at 2^53, where adding 1.5 * 2^105 (the scales of row and vector) rounds it: `high` is a
/// multiple of that place, `low` below 2^55 and, as the products of low bits are dropped, a multiple of 2^16.
HWY_INLINE void dot_product(const double* row, ptrdiff_t stride, const Block& v, V64& high, V64& low) {
  const D64 d;
  const V64 scale = hn::Mul(hn::LoadU(d, row + 12 * stride), v.power);
  high = hn::Zero(d);
  low = hn::Zero(d);
  for (int j = 0; j < 4; ++j) {
    const V64 element = hn::LoadU(d, row + j * stride);
    const V64 upper = hn::Sub(hn::MulAdd(element, v.value[j], scale), scale);
    const V64 rest = product_rest(element, v.value[j], upper);
    high = hn::Add(high, upper);
    low = hn::Add(low, hn::NegMulAdd(hn::LoadU(d, row + (4 + j) * stride), v.low[j], rest));
    low = hn::MulAdd(hn::LoadU(d, row + (8 + j) * stride), v.unit[j], low);
  }
}

template <bool kRound>
uint32_t matrix_double(const RowShape& shape, const void* decoded, int first, const Rows& v, const Rows& z,
                       const Results& out) {
  const D64 d;
  const int stride = shape.stride;
  const double* a = static_cast<const double*>(decoded);
  for (int m = 0; m < stride; m += static_cast<int>(hn::Lanes(d))) {
    Block block;
    if (load_block(v.word[0], v.word[1], stride, m, block) != kBlockUniform) return kBlockIrregular;
    for (int i = first; i < first + 2; ++i) {
      V64 high;
      V64 low;
      dot_product(a + i * kRowParts * stride + m, stride, block, high, low);
      if (z.word[0] != nullptr) {
        M64 rare;
        const V64 addend = load_number(z, i * stride + m, kLeastAddend, kLargestAddend, rare);
        if (HWY_UNLIKELY(!hn::AllFalse(d, rare))) return kBlockIrregular;
        add_three(high, addend, low, high, low);
      }
      store_sum<kRound>(high, low, out, i * stride + m);
    }
  }
  return kBlockUniform;
}

}  // namespace

void add_double_kernels(KernelTable& table) {
  table.vector_double[0] = &vector_double<false>;
  table.vector_double[1] = &vector_double<true>;
  table.decode_double = &decode_double;
  table.matrix_double[0] = &matrix_double<false>;
  table.matrix_double[1] = &matrix_double<true>;
}

// NOLINTNEXTLINE(google-readability-namespace-comments)
}  // namespace HWY_NAMESPACE
}  // namespace kodama::simulator
HWY_AFTER_NAMESPACE();
