#include "simulator/engine/kernels/kernels.h"
#include "simulator/engine/kernels/targets.h"

/// The kernels on whole rows around the units: flags of results, signs, conversions of operands, masks.

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "simulator/engine/kernels/rows.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "simulator/engine/kernels/lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace kodama::simulator {
namespace HWY_NAMESPACE {
namespace {

/// Stores a flag of four bits per PE: the inverse of what `negative(i)` says of the words from i on.
template <class Negative>
HWY_INLINE void store_flags(const RowShape& shape, uint8_t* flags, const Negative& negative) {
  const D32 d;
  const hn::Rebind<uint8_t, D32> d8;
  const int words = shape.words();
  for (int i = 0; i < words; i += static_cast<int>(hn::Lanes(d)))
    hn::StoreU(hn::TruncateTo(d8, hn::Xor(negative(i), hn::Set(d, 15))), d8, flags + i);
}

void sign_flags(const RowShape& shape, const Rows& result, int lanes, uint8_t* flags) {
  const D32 d;
  const V32 one = hn::Set(d, 1);
  const auto sign = [&](int w, int i)
                        HWY_ATTR { return hn::ShiftRight<31>(hn::LoadU(d, result.word[w] + i)); };
  const auto lower_sign = [&](int w, int i) HWY_ATTR {
    return hn::And(hn::ShiftRight<15>(hn::LoadU(d, result.word[w] + i)), one);
  };
  const auto two = [&](V32 upper, V32 lower) HWY_ATTR { return hn::Or(hn::ShiftLeft<1>(upper), lower); };
  const auto doubled = [&](V32 bits) HWY_ATTR {
    const V32 apart = hn::Or(hn::ShiftLeft<1>(hn::And(bits, hn::Set(d, 2))), hn::And(bits, one));
    return hn::Or(apart, hn::ShiftLeft<1>(apart));
  };
  const auto four = [&](V32 upper, V32 lower) HWY_ATTR { return hn::Or(hn::ShiftLeft<2>(upper), lower); };
  switch (lanes) {
    case 1:
      store_flags(shape, flags, [&](int i) HWY_ATTR { return doubled(two(sign(0, i), sign(0, i))); });
      break;
    case 2:
      store_flags(shape, flags, [&](int i) HWY_ATTR { return doubled(two(sign(0, i), sign(1, i))); });
      break;
    case -2:
      store_flags(shape, flags, [&](int i) HWY_ATTR { return doubled(two(sign(0, i), lower_sign(0, i))); });
      break;
    case -4:
      store_flags(shape, flags, [&](int i) HWY_ATTR {
        return four(two(sign(0, i), lower_sign(0, i)), two(sign(1, i), lower_sign(1, i)));
      });
      break;
    default:
      store_flags(shape, flags, [&](int i) HWY_ATTR {
        return four(two(sign(0, i), sign(1, i)), two(sign(2, i), sign(3, i)));
      });
      break;
  }
}

void flip(const RowShape& shape, const uint32_t* HWY_RESTRICT in, uint32_t pattern,
          uint32_t* HWY_RESTRICT out) {
  const D32 d;
  const int words = shape.words();
  for (int i = 0; i < words; i += static_cast<int>(hn::Lanes(d)))
    hn::StoreU(hn::Xor(hn::LoadU(d, in + i), hn::Set(d, pattern)), d, out + i);
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

void widen_float(const RowShape& shape, const uint32_t* in, uint32_t* upper, uint32_t* lower) {
  const D32 d;
  for (int i = 0; i < shape.words(); i += static_cast<int>(hn::Lanes(d))) {
    const V32 word = hn::LoadU(d, in + i);
    const V32 magnitude = hn::And(word, hn::Set(d, 0x7fffffff));
    const auto zero = hn::Lt(magnitude, hn::Set(d, 0x00800000));
    const auto infinite = hn::Gt(magnitude, hn::Set(d, 0x7f7fffff));
    const V32 rebiased = hn::Add(hn::ShiftRight<3>(magnitude), hn::Set(d, (1023u - 127) << 20));
    const V32 high = hn::IfThenElse(infinite, hn::Set(d, 0x7ff00000), rebiased);
    const V32 sign = hn::And(word, hn::Set(d, 0x80000000));
    hn::StoreU(hn::IfThenZeroElse(zero, hn::Or(high, sign)), d, upper + i);
    hn::StoreU(hn::IfThenZeroElse(hn::Or(zero, infinite), hn::ShiftLeft<29>(word)), d, lower + i);
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

void copy_rows(const RowShape& shape, const uint32_t* from, int rows, uint32_t* to) {
  const D32 d;
  const int words = rows * shape.words();
  for (int i = 0; i < words; i += static_cast<int>(hn::Lanes(d)))
    hn::StoreU(hn::LoadU(d, from + i), d, to + i);
}

void masked_copy(const RowShape& shape, const uint32_t* in, const uint8_t* mask, int high, int low,
                 bool flush, uint32_t* out) {
  const D32 d;
  const hn::Rebind<uint8_t, D32> d8;
  const V32 upper = hn::Set(d, 0xffff0000u), lower = hn::Set(d, 0xffffu);
  const V32 high_bit = hn::Set(d, 1u << high), low_bit = hn::Set(d, 1u << low);
  const auto both = hn::Set(d8, static_cast<uint8_t>(1u << high | 1u << low));
  const int words = shape.words();
  for (int i = 0; i < words; i += static_cast<int>(hn::Lanes(d))) {
    const auto lanes = hn::And(hn::LoadU(d8, mask + i), both);
    // Masks choose PEs or MABs more often than single ones, so whole vectors are left alone.
    if (hn::AllTrue(d8, hn::Eq(lanes, hn::Zero(d8)))) {
      if (flush) hn::StoreU(hn::Zero(d), d, out + i);
      continue;
    }
    const V32 bits = hn::PromoteTo(d, lanes);
    const V32 allowed = hn::Or(hn::IfThenElseZero(hn::TestBit(bits, high_bit), upper),
                               hn::IfThenElseZero(hn::TestBit(bits, low_bit), lower));
    const V32 kept = flush ? hn::Zero(d) : hn::AndNot(allowed, hn::LoadU(d, out + i));
    hn::StoreU(hn::Or(hn::And(hn::LoadU(d, in + i), allowed), kept), d, out + i);
  }
}

}  // namespace

void add_row_kernels(KernelTable& table) {
  table.sign_flags = &sign_flags;
  table.flip = &flip;
  table.widen_half = &widen_half;
  table.widen_float = &widen_float;
  table.narrow_float = &narrow_float;
  table.copy_rows = &copy_rows;
  table.masked_copy = &masked_copy;
}

// NOLINTNEXTLINE(google-readability-namespace-comments)
}  // namespace HWY_NAMESPACE
}  // namespace kodama::simulator
HWY_AFTER_NAMESPACE();
