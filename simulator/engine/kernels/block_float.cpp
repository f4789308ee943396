#include "simulator/engine/kernels/kernels.h"
#include "simulator/engine/kernels/targets.h"

/// The kernels that make block floats (bfn, bfe): elements of one block get the exponent of the largest.

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "simulator/engine/kernels/block_float.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "simulator/engine/kernels/lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace kodama::simulator {
namespace HWY_NAMESPACE {
namespace {

/// Normalizes `count` elements (right aligned patterns) of one block per vector lane.
template <int kCount, int kMantissaBits, int kExponentMask, bool kExtended, class D>
HWY_INLINE void normalize_block(D d, hn::Vec<D>* element, int b) {
  using V = hn::Vec<D>;
  using T = hn::TFromD<D>;
  const V exponent_mask = hn::Set(d, T{kExponentMask});
  const V mantissa_mask = hn::Set(d, (T{1} << kMantissaBits) - 1);
  const V sign_bit = hn::Set(d, static_cast<T>(kExponentMask + 1) << kMantissaBits);
  const V top_ones = hn::Set(d, ((T{1} << kMantissaBits) - 1) & ~((T{1} << b) - 1));
  const V one = hn::Set(d, T{1});
  const V zero = hn::Zero(d);
  const V shift_b = hn::Set(d, static_cast<T>(b));
  V largest = zero;
  for (int j = 0; j < kCount; ++j) {
    largest = hn::Max(largest, hn::And(hn::ShiftRight<kMantissaBits>(element[j]), exponent_mask));
  }
  // Elements with the largest exponent and all-one mantissa would round up beyond the field.
  auto bump = hn::Ne(zero, zero);
  for (int j = 0; j < kCount; ++j) {
    const V exponent = hn::And(hn::ShiftRight<kMantissaBits>(element[j]), exponent_mask);
    const auto ones = hn::Eq(hn::And(element[j], top_ones), top_ones);
    bump = hn::Or(bump, hn::And(hn::Eq(exponent, largest), ones));
  }
  const V block = hn::Add(hn::Add(largest, shift_b), hn::IfThenElseZero(bump, one));
  const auto empty = hn::Eq(largest, zero);
  const auto infinite = hn::Gt(block, hn::Sub(exponent_mask, one));
  const V infinity = hn::ShiftLeft<kMantissaBits>(exponent_mask);
  for (int j = 0; j < kCount; ++j) {
    const V sign = hn::And(element[j], sign_bit);
    const V exponent = hn::And(hn::ShiftRight<kMantissaBits>(element[j]), exponent_mask);
    const V mantissa = hn::And(element[j], mantissa_mask);
    const V full =
        hn::IfThenZeroElse(hn::Eq(exponent, zero), hn::Or(mantissa, hn::Set(d, T{1} << kMantissaBits)));
    const V distance = hn::Sub(block, exponent);
    V shift = hn::Add(distance, one);
    V field = block;
    if constexpr (kExtended) {
      const V limit = hn::Set(d, static_cast<T>(6 + b));
      const auto ones = hn::Eq(hn::And(element[j], top_ones), top_ones);
      const auto small = hn::Or(hn::Gt(distance, limit), hn::AndNot(ones, hn::Eq(distance, limit)));
      shift = hn::IfThenElse(small, hn::Sub(shift, hn::Set(d, T{6})), shift);
      field = hn::IfThenZeroElse(small, field);
    }
    shift = hn::Min(shift, hn::Set(d, T{kMantissaBits + 3}));
    const V half = hn::Sub(hn::Shl(one, hn::Sub(shift, one)), one);
    const V odd = hn::And(hn::Shr(full, shift), one);
    const V rounded = hn::Shr(hn::Add(full, hn::Add(half, odd)), shift);
    if constexpr (kExtended) field = hn::IfThenZeroElse(hn::Eq(rounded, zero), field);
    V value = hn::Or(hn::ShiftLeft<kMantissaBits>(field), rounded);
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
      normalize_block<4, 23, 255, false>(d, element, 0);
      for (int p = 0; p < 4; ++p) hn::StoreU(element[p], d, out.word[w] + p * shape.stride + m);
    }
  }
  no_flags(shape, out);
}

/// One block of 8 floats.
void bfn_gfloat(const RowShape& shape, const Rows& x, const Rows&, const Results& out, int) {
  const D32 d;
  for (int m = 0; m < shape.stride; m += static_cast<int>(hn::Lanes(d))) {
    V32 element[8];
    for (int j = 0; j < 8; ++j) element[j] = hn::LoadU(d, x.word[j & 1] + (j >> 1) * shape.stride + m);
    normalize_block<8, 23, 255, false>(d, element, 0);
    for (int j = 0; j < 8; ++j) hn::StoreU(element[j], d, out.word[j & 1] + (j >> 1) * shape.stride + m);
  }
  no_flags(shape, out);
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
      normalize_block<16, 9, 63, kExtended>(d, element, b);
      for (int j = 0; j < 8; ++j) {
        hn::StoreU(hn::Or(hn::ShiftLeft<16>(element[2 * j]), element[2 * j + 1]), d,
                   out.word[w + (j & 1)] + (j >> 1) * shape.stride + m);
      }
    }
  }
  no_flags(shape, out);
}

/// Blocks of 4 doubles.
void bfn_double(const RowShape& shape, const Rows& x, const Rows&, const Results& out, int) {
  const DU64 d;
  const DU32h d32;
  for (int m = 0; m < shape.stride; m += static_cast<int>(hn::Lanes(d))) {
    hn::Vec<DU64> element[4];
    for (int p = 0; p < 4; ++p) {
      const int i = p * shape.stride + m;
      const auto high = hn::PromoteTo(d, hn::LoadU(d32, x.word[0] + i));
      element[p] = hn::Or(hn::ShiftLeft<32>(high), hn::PromoteTo(d, hn::LoadU(d32, x.word[1] + i)));
    }
    normalize_block<4, 52, 2047, false>(d, element, 0);
    for (int p = 0; p < 4; ++p) {
      const int i = p * shape.stride + m;
      hn::StoreU(hn::TruncateTo(d32, hn::ShiftRight<32>(element[p])), d32, out.word[0] + i);
      hn::StoreU(hn::TruncateTo(d32, element[p]), d32, out.word[1] + i);
    }
  }
  no_flags(shape, out);
}

}  // namespace

void add_block_float_kernels(KernelTable& table) {
  using isa::Opcode;
  using isa::Precision;
  table.alu[static_cast<int>(Opcode::kBfn)][static_cast<int>(Precision::kDouble)][false] = &bfn_double;
  table.alu[static_cast<int>(Opcode::kBfn)][static_cast<int>(Precision::kFloat)][false] = &bfn_float;
  table.alu[static_cast<int>(Opcode::kBfn)][static_cast<int>(Precision::kGFloat)][false] = &bfn_gfloat;
  table.alu[static_cast<int>(Opcode::kBfn)][static_cast<int>(Precision::kHalf)][false] = &bfn_half<false>;
  table.alu[static_cast<int>(Opcode::kBfe)][static_cast<int>(Precision::kHalf)][false] = &bfn_half<true>;
}

// NOLINTNEXTLINE(google-readability-namespace-comments)
}  // namespace HWY_NAMESPACE
}  // namespace kodama::simulator
HWY_AFTER_NAMESPACE();
