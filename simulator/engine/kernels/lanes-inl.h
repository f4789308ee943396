/// What the kernels share: vectors of patterns and of numbers, and the ways between them. Included once for
/// each target, hence no #pragma once.
///
/// Numbers are held as doubles: every float and half (infinity counting as a number with the top exponent) is
/// a normal double, and every product is exact.
#if defined(KODAMA_SIMULATOR_ENGINE_KERNELS_LANES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef KODAMA_SIMULATOR_ENGINE_KERNELS_LANES_INL_H_
#undef KODAMA_SIMULATOR_ENGINE_KERNELS_LANES_INL_H_
#else
#define KODAMA_SIMULATOR_ENGINE_KERNELS_LANES_INL_H_
#endif

#include <hwy/highway.h>

#include <cmath>
#include <cstring>

#include "simulator/engine/kernels/kernels.h"

HWY_BEFORE_NAMESPACE();
namespace kodama::simulator {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

/// For results that have no flags: they are zero.
HWY_INLINE void no_flags(const RowShape& shape, const Results& out) {
  if (out.flags != nullptr) std::memset(out.flags, 0, static_cast<size_t>(shape.words()));
}

using D32 = hn::CappedTag<uint32_t, kRowGranule>;
using V32 = hn::Vec<D32>;

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

/// The error of `sum`, which is a + b rounded.
HWY_INLINE V64 sum_error(V64 a, V64 b, V64 sum) {
  const V64 b_part = hn::Sub(sum, a);
  return hn::Add(hn::Sub(a, hn::Sub(sum, b_part)), hn::Sub(b, b_part));
}

/// a + b with rounding to odd: the last bit is sticky, so that a later rounding to a shorter format is the
/// only rounding. `sum` is a + b.
HWY_INLINE V64 to_odd(V64 a, V64 b, V64 sum) {
  const D64 d;
  const DU64 du;
  const V64 error = sum_error(a, b, sum);
  const auto bits = hn::BitCast(du, sum);
  const auto opposite = hn::ShiftRight<63>(hn::Xor(bits, hn::BitCast(du, error)));
  const auto odd = hn::Or(hn::Sub(bits, opposite), hn::Set(du, 1));
  return hn::IfThenElse(hn::Eq(error, hn::Zero(d)), sum, hn::BitCast(d, odd));
}

/// a[k] + b[k] for a later rounding to floats, or halves (kToHalf), that has to be the only rounding. The
/// double nearest to a sum may be rounded again unless it lies half way between two results, which is rare;
/// then it is rounded to odd instead.
template <bool kToHalf, int kCount>
HWY_INLINE void add_for_rounding(const V64 (&a)[kCount], const V64 (&b)[kCount], V64 (&sum)[kCount]) {
  const DU64 du;
  constexpr int kDropped = kToHalf ? 43 : 29;
  const auto dropped = hn::Set(du, (uint64_t{1} << kDropped) - 1);
  const auto half = hn::Set(du, uint64_t{1} << (kDropped - 1));
  const auto is_half_way = [&](V64 value)
                               HWY_ATTR { return hn::Eq(hn::And(hn::BitCast(du, value), dropped), half); };
  sum[0] = hn::Add(a[0], b[0]);
  auto half_way = is_half_way(sum[0]);
  for (int k = 1; k < kCount; ++k) {
    sum[k] = hn::Add(a[k], b[k]);
    half_way = hn::Or(half_way, is_half_way(sum[k]));
  }
  if (HWY_LIKELY(hn::AllFalse(du, half_way))) return;
  for (int k = 0; k < kCount; ++k) sum[k] = to_odd(a[k], b[k], sum[k]);
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

/// What pieces of rows of floats have in them.
class PlainFloats {
 public:
  HWY_INLINE PlainFloats() : largest_(hn::Zero(D32())), smallest_(hn::Set(D32(), ~0u)) {}
  /// kRowGranule of them.
  HWY_INLINE void add(const uint32_t* from) {
    const D32 d;
    for (int i = 0; i < kRowGranule; i += static_cast<int>(hn::Lanes(d))) {
      const V32 magnitude = hn::And(hn::LoadU(d, from + i), hn::Set(d, 0x7fffffff));
      largest_ = hn::Max(largest_, magnitude);
      // Zero is the largest then.
      smallest_ = hn::Min(smallest_, hn::Sub(magnitude, hn::Set(d, 1)));
    }
  }
  /// Whether no exponent is all ones: such numbers are no doubles, and the caller has to take another way.
  HWY_INLINE bool are_doubles() const {
    const D32 d;
    return hn::AllFalse(d, hn::Gt(largest_, hn::Set(d, 0x7f7fffff)));
  }
  /// Whether no exponent is 0 but those of zeros.
  HWY_INLINE bool are_normal() const {
    const D32 d;
    return hn::AllFalse(d, hn::Lt(smallest_, hn::Set(d, 0x7fffff)));
  }

 private:
  V32 largest_, smallest_;
};

/// A piece of a row of floats, kRowGranule of them, with zeros for exponent 0.
HWY_INLINE void flush_floats(const uint32_t* HWY_RESTRICT from, float* HWY_RESTRICT to) {
  const D32 d;
  const hn::Rebind<float, D32> df;
  for (int i = 0; i < kRowGranule; i += static_cast<int>(hn::Lanes(d))) {
    const V32 bits = hn::LoadU(d, from + i);
    const auto number = hn::Gt(hn::And(bits, hn::Set(d, 0x7fffffff)), hn::Set(d, 0x7fffff));
    hn::StoreU(hn::BitCast(df, hn::IfThenElseZero(number, bits)), df, to + i);
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

}  // namespace
// NOLINTNEXTLINE(google-readability-namespace-comments)
}  // namespace HWY_NAMESPACE
}  // namespace kodama::simulator
HWY_AFTER_NAMESPACE();

#endif
