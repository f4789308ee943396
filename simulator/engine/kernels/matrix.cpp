#include "simulator/engine/kernels/kernels.h"
#include "simulator/engine/kernels/targets.h"

/// The kernels of the matrix unit. Sums of products are exact: block exponents agree, so a sum has at most
/// 18+18+3 (g), 48 (f) or 9+9+4 (h) significant bits, or 34 with extended halves.

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "simulator/engine/kernels/matrix.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "simulator/engine/kernels/lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace kodama::simulator {
namespace HWY_NAMESPACE {
namespace {

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

}  // namespace

void add_matrix_kernels(KernelTable& table) {
  table.decode_float = &decode_float;
  table.decode_gfloat = &decode_gfloat;
  table.decode_half = &decode_half;
  table.matrix_float[0] = &matrix_float<false>;
  table.matrix_float[1] = &matrix_float<true>;
  table.matrix_gfloat[0] = &matrix_gfloat<false>;
  table.matrix_gfloat[1] = &matrix_gfloat<true>;
  table.matrix_half[0] = &matrix_half<false>;
  table.matrix_half[1] = &matrix_half<true>;
}

// NOLINTNEXTLINE(google-readability-namespace-comments)
}  // namespace HWY_NAMESPACE
}  // namespace kodama::simulator
HWY_AFTER_NAMESPACE();
