#include "simulator/engine/kernels/kernels.h"
#include "simulator/engine/kernels/targets.h"

/// Sums of floats as the reducing transfers make them (section 8.7 of the ISA page): all numbers are aligned
/// to the largest exponent with three more bits, each rounded, and added as integers; the sum is rounded
/// once.

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "simulator/engine/kernels/reduce.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "simulator/engine/kernels/lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace kodama::simulator {
namespace HWY_NAMESPACE {
namespace {

using DI32 = hn::Rebind<int32_t, D32>;
using VI32 = hn::Vec<DI32>;

constexpr int kMoreBits = 3;

HWY_INLINE V32 exponent_of(V32 bits) {
  return hn::And(hn::ShiftRight<23>(bits), hn::Set(D32(), 255));
}

/// The significand of a float at exponent `largest`, with its sign.
HWY_INLINE VI32 aligned(V32 bits, V32 largest) {
  const D32 d;
  const DI32 di;
  const V32 zero = hn::Zero(d), one = hn::Set(d, 1);
  const V32 exponent = exponent_of(bits);
  const V32 number = hn::Or(hn::And(bits, hn::Set(d, 0x7fffff)), hn::Set(d, 0x800000));
  const V32 significand = hn::IfThenZeroElse(hn::Eq(exponent, zero), hn::ShiftLeft<kMoreBits>(number));
  const V32 distance = hn::Sub(largest, exponent);
  const V32 shift = hn::Min(distance, hn::Set(d, 31));
  // Nearest even: half of the place that is the last one then, less one if that place is even.
  const V32 half = hn::ShiftRight<1>(hn::Shl(one, shift));
  const V32 odd = hn::And(hn::Shr(significand, shift), one);
  const V32 up = hn::IfThenZeroElse(hn::Eq(shift, zero), hn::Add(hn::Sub(half, one), odd));
  const V32 moved = hn::Shr(hn::Add(significand, up), shift);
  const V32 kept = hn::IfThenElseZero(hn::Lt(distance, hn::Set(d, 23 + kMoreBits + 3)), moved);
  const VI32 sign = hn::ShiftRight<31>(hn::BitCast(di, bits));
  return hn::Sub(hn::Xor(hn::BitCast(di, kept), sign), sign);
}

/// `sum` units of the last place of numbers with exponent `largest` and three more bits.
HWY_INLINE V64 sum_value(hn::Vec<DI32h> sum, VU32h largest) {
  const DU64 du;
  const D64 d;
  constexpr uint64_t kUnit = 1023 - (127 + 23 + kMoreBits);
  const auto scale = hn::ShiftLeft<52>(hn::Add(hn::PromoteTo(du, largest), hn::Set(du, kUnit)));
  return hn::Mul(hn::PromoteTo(d, sum), hn::BitCast(d, scale));
}

/// Rounds as many sums as a vector has lanes.
template <bool kToHalf>
HWY_INLINE void store_sums(VI32 sum, V32 largest, uint32_t* out) {
  const D32 d;
  constexpr size_t kHalves = hn::MaxLanes(D32()) / hn::MaxLanes(DU32h());
  HWY_ALIGN int32_t sums[kRowGranule];
  HWY_ALIGN uint32_t exponents[kRowGranule];
  hn::Store(sum, DI32(), sums);
  hn::Store(largest, d, exponents);
  const DU32h dh;
  for (size_t k = 0; k < kHalves; ++k) {
    const size_t at = k * hn::Lanes(dh);
    const V64 value = sum_value(hn::LoadU(DI32h(), sums + at), hn::LoadU(dh, exponents + at));
    VU32h bits;
    if constexpr (kToHalf) {
      bits = to_half(value);
    } else {
      bits = to_float(value);
    }
    hn::StoreU(bits, dh, out + at);
  }
}

#if HWY_TARGET != HWY_SCALAR
/// From four vectors, the first of each four neighbours.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V firsts(D d, const V (&v)[4]) {
  return hn::ConcatEven(d, hn::ConcatEven(d, v[3], v[2]), hn::ConcatEven(d, v[1], v[0]));
}
template <class V>
HWY_INLINE V max_of_four(V v) {
  v = hn::Max(v, hn::Shuffle2301(v));
  return hn::Max(v, hn::Shuffle1032(v));
}
template <class V>
HWY_INLINE V sum_of_four(V v) {
  v = hn::Add(v, hn::Shuffle2301(v));
  return hn::Add(v, hn::Shuffle1032(v));
}

template <bool kToHalf>
void sum_fours(const uint32_t* in, int count, uint32_t* out) {
  const D32 d;
  const auto lanes = static_cast<int>(hn::Lanes(d));
  for (int i = 0; i < count; i += 4 * lanes) {
    VI32 sum[4];
    V32 largest[4];
    for (int k = 0; k < 4; ++k) {
      const V32 bits = hn::LoadU(d, in + i + k * lanes);
      largest[k] = max_of_four(exponent_of(bits));
      sum[k] = sum_of_four(aligned(bits, largest[k]));
    }
    store_sums<kToHalf>(firsts(DI32(), sum), firsts(d, largest), out + i / 4);
  }
}
#else
template <bool kToHalf>
void sum_fours(const uint32_t* in, int count, uint32_t* out) {
  const D32 d;
  for (int i = 0; i < count; i += 4) {
    V32 largest = hn::Zero(d);
    for (int k = 0; k < 4; ++k) largest = hn::Max(largest, exponent_of(hn::LoadU(d, in + i + k)));
    VI32 sum = hn::Zero(DI32());
    for (int k = 0; k < 4; ++k) sum = hn::Add(sum, aligned(hn::LoadU(d, in + i + k), largest));
    store_sums<kToHalf>(sum, largest, out + i / 4);
  }
}
#endif

void sum_rows(const uint32_t* const* in, int rows, int count, uint32_t* out) {
  const D32 d;
  for (int i = 0; i < count; i += static_cast<int>(hn::Lanes(d))) {
    V32 largest = hn::Zero(d);
    for (int k = 0; k < rows; ++k) largest = hn::Max(largest, exponent_of(hn::LoadU(d, in[k] + i)));
    VI32 sum = hn::Zero(DI32());
    for (int k = 0; k < rows; ++k) sum = hn::Add(sum, aligned(hn::LoadU(d, in[k] + i), largest));
    store_sums<false>(sum, largest, out + i);
  }
}

}  // namespace

void add_reduce_kernels(KernelTable& table) {
  table.sum_fours[0] = &sum_fours<false>;
  table.sum_fours[1] = &sum_fours<true>;
  table.sum_rows = &sum_rows;
}

// NOLINTNEXTLINE(google-readability-namespace-comments)
}  // namespace HWY_NAMESPACE
}  // namespace kodama::simulator
HWY_AFTER_NAMESPACE();
