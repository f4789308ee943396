#include "simulator/engine/kernels/kernels.h"
#include "simulator/engine/kernels/targets.h"

/// The kernels of the MAU's vector operations: x*y + z lane by lane, floats with the truncating multiplier.

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "simulator/engine/kernels/vector.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "simulator/engine/kernels/lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace kodama::simulator {
namespace HWY_NAMESPACE {
namespace {

/// x*y less the product of the low five bits of the floats' significands, plus 2^-38 of the leading place
/// where both are nonzero. Every step is exact.
HWY_INLINE V64 truncated_product(V64 x, V64 y) {
  const D64 d;
  const DU64 du;
  const auto bits = [&](V64 value, uint64_t mask) HWY_ATTR {
    return hn::BitCast(d, hn::And(hn::BitCast(du, value), hn::Set(du, mask)));
  };
  constexpr uint64_t kHigh = ~((uint64_t{1} << 34) - 1), kLeading = 0xfff0000000000000ull;
  const V64 low = hn::Mul(hn::Sub(x, bits(x, kHigh)), hn::Sub(y, bits(y, kHigh)));
  const V64 leading = hn::Mul(bits(x, kLeading), bits(y, kLeading));
  const V64 unit = hn::IfThenZeroElse(hn::Eq(low, hn::Zero(d)), leading);
  return hn::MulAdd(unit, hn::Set(d, 0x1p-38), hn::Sub(hn::Mul(x, y), low));
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
          product[k] = kHalf ? hn::Mul(product[k], factor) : truncated_product(product[k], factor);
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

/// The multiply-add of floats, the most used of the vector operations: as vector_loop, but operands without
/// infinities become doubles by the machine's own conversion.
template <bool kRound>
HWY_INLINE void multiply_add_floats(const RowShape& shape, const Rows& x, const Rows& y, const Rows& z,
                                    const Results& out) {
  const D64 d;
  const DF32h df;
  alignas(64) float flushed[3][2][kRowGranule];
  for (int begin = 0; begin < shape.words(); begin += kRowGranule) {
    const float* operands[3][2];
    PlainFloats plain;
    for (int k = 0; k < 2; ++k) {
      const uint32_t* const words[3] = {x.word[k] + begin, y.word[k] + begin, z.word[k] + begin};
      for (int n = 0; n < 3; ++n) {
        plain.add(words[n]);
        operands[n][k] = reinterpret_cast<const float*>(words[n]);
      }
    }
    if (HWY_UNLIKELY(!plain.are_doubles())) {
      vector_loop<false, kRound, true, true>(begin, begin + kRowGranule, x, y, z, out);
      continue;
    }
    if (HWY_UNLIKELY(!plain.are_normal())) {
      for (int k = 0; k < 2; ++k) {
        const uint32_t* const words[3] = {x.word[k] + begin, y.word[k] + begin, z.word[k] + begin};
        for (int n = 0; n < 3; ++n) {
          flush_floats(words[n], flushed[n][k]);
          operands[n][k] = flushed[n][k];
        }
      }
    }
    // Two vectors of both words at a time: one question whether somebody is half way.
    const auto lanes = static_cast<int>(hn::Lanes(d));
    for (int i = 0; i < kRowGranule; i += 2 * lanes) {
      V64 product[4];
      V64 addend[4];
      V64 sum[4];
      for (int k = 0; k < 4; ++k) {
        const int word = k % 2, at = i + k / 2 * lanes;
        const V64 factor = hn::PromoteTo(d, hn::LoadU(df, operands[0][word] + at));
        const V64 other = hn::PromoteTo(d, hn::LoadU(df, operands[1][word] + at));
        addend[k] = hn::PromoteTo(d, hn::LoadU(df, operands[2][word] + at));
        product[k] = truncated_product(factor, other);
      }
      add_for_rounding<kRound>(product, addend, sum);
      const V64 first[2] = {sum[0], sum[1]}, second[2] = {sum[2], sum[3]};
      store_pair<kRound>(first, out, 0, begin + i);
      store_pair<kRound>(second, out, 0, begin + i + lanes);
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

}  // namespace

void add_vector_kernels(KernelTable& table) {
  table.vector_float[0] = &vector_mau<false, false>;
  table.vector_float[1] = &vector_mau<false, true>;
  table.vector_half[0] = &vector_mau<true, false>;
  table.vector_half[1] = &vector_mau<true, true>;
}

// NOLINTNEXTLINE(google-readability-namespace-comments)
}  // namespace HWY_NAMESPACE
}  // namespace kodama::simulator
HWY_AFTER_NAMESPACE();
