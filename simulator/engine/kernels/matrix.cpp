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

using DI32 = hn::Rebind<int32_t, D32>;

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
      // Twice the value: GfloatVectors has halves.
      const V64 value = block_float_value<0x7fffe0>(hn::LoadU(d, in + m));
      hn::StoreU(hn::Add(value, value), D64(), out + j * shape.stride + m);
    }
  }
  return check_floats<2, 8>(shape, words);
}

/// The parts of a float significand that the truncating multiplier needs.
struct Split {
  V64 value;
  V64 high;  ///< without the low five bits
  V64 low;   ///< the low five bits
  V64 unit;  ///< 2^exponent with the sign if low is not zero, else 0
};

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

constexpr int kCycles = isa::kCyclesPerStep;

/// Adds z, if there is one, to the outputs `lane` and `lane` + 1 of a cycle, rounds and stores them at PE
/// index i.
template <bool kRound>
HWY_INLINE void finish_pair(const V64 (&y)[2], const Rows* z, const Results& out, int lane, int i) {
  if (z == nullptr) {
    store_pair<kRound>(y, out, lane, i);
    return;
  }
  const V64 addend[2] = {load_factor<false>(*z, lane, i), load_factor<false>(*z, lane + 1, i)};
  V64 sum[2];
  add_for_rounding<kRound>(y, addend, sum);
  store_pair<kRound>(sum, out, lane, i);
}

/// Where words 0 to 3 of each cycle go.
struct OutputRows {
  std::array<Results, kCycles> of;
  OutputRows(const RowShape& shape, uint32_t* out) {
    for (Results& cycle : of) {
      for (uint32_t*& word : cycle.word) {
        word = out;
        out += shape.words();
      }
    }
  }
};

/// What is added to the results of kRowGranule MABs, without numbers of exponent 0.
class Addends {
 public:
  const float* of[kCycles][4][2];  ///< [cycle][PE][word]
  /// Whether there are some, and all are doubles.
  HWY_INLINE bool load(const RowShape& shape, const Rows* z, int m) {
    if (z == nullptr) return false;
    PlainFloats plain;
    const auto for_each = [&](const auto& visit) HWY_ATTR {
      for (int c = 0; c < kCycles; ++c) {
        for (int p = 0; p < 4; ++p) {
          for (int w = 0; w < 2; ++w) visit(c, p, w, z[c].word[w] + p * shape.stride + m);
        }
      }
    };
    for_each([&](int c, int p, int w, const uint32_t* piece) HWY_ATTR {
      plain.add(piece);
      of[c][p][w] = reinterpret_cast<const float*>(piece);
    });
    if (!plain.are_doubles()) return false;
    if (HWY_LIKELY(plain.are_normal())) return true;
    for_each([&](int c, int p, int w, const uint32_t* piece) HWY_ATTR {
      flush_floats(piece, flushed_[c][p][w]);
      of[c][p][w] = flushed_[c][p][w];
    });
    return true;
  }

 private:
  float flushed_[kCycles][4][2][kRowGranule];
};

/// Halves of the values of the vectors of kRowGranule MABs, and the cycles in which one is irregular.
struct GfloatVectors {
  double value[kCycles][8][kRowGranule];
  uint32_t irregular;

  HWY_INLINE void load(const RowShape& shape, const Rows* v, int first) {
    irregular = 0;
    for (int c = 0; c < kCycles; ++c) {
      for (int m = 0; m < kRowGranule; m += static_cast<int>(hn::Lanes(D32())))
        load(shape, v[c].word.data(), c, first, m);
    }
  }

 private:
  HWY_INLINE void load(const RowShape& shape, const uint32_t* const* words, int c, int first, int m) {
    const D32 d;
    const hn::Rebind<float, D32> df;
    const V32 zero = hn::Zero(d), top = hn::Set(d, 0x7f800000);
    HWY_ALIGN float values[8][kRowGranule];
    V32 largest = zero, smallest = top;
    for (int j = 0; j < 8; ++j) {
      const V32 pattern = hn::LoadU(d, float_element<2>(shape, words, j) + first + m);
      const V32 exponent = hn::And(pattern, top);
      const auto is_zero = hn::Eq(exponent, zero);
      largest = hn::Max(largest, exponent);
      smallest = hn::Min(smallest, hn::IfThenElse(is_zero, top, exponent));
      // Without the hidden bit that a float has: half the value. The mantissa has 18 bits, so this is exact.
      const V32 number = hn::IfThenZeroElse(is_zero, hn::And(pattern, hn::Set(d, 0xffffffe0)));
      const V32 hidden = hn::And(pattern, hn::Set(d, 0xff800000));
      hn::Store(hn::Sub(hn::BitCast(df, number), hn::BitCast(df, hidden)), df, values[j]);
    }
    const auto uniform = hn::Or(hn::Eq(largest, smallest), hn::Eq(largest, zero));
    if (!hn::AllTrue(d, hn::AndNot(hn::Eq(largest, top), uniform))) irregular |= 1u << c;
    const D64 d64;
    for (int j = 0; j < 8; ++j) {
      for (int i = 0; i < static_cast<int>(hn::Lanes(d)); i += static_cast<int>(hn::Lanes(d64)))
        hn::StoreU(hn::PromoteTo(d64, hn::LoadU(DF32h(), values[j] + i)), d64, value[c][j] + m + i);
    }
  }
};

/// The outputs of a PE for as many MABs as a vector of doubles has lanes, in all cycles.
struct PairSums {
  V64 y[kCycles][2];
};

/// Two cycles from `c` on.
template <bool kRound>
HWY_INLINE void finish_two(const PairSums& sums, const Rows* z, const Addends* addends, int c, int p, int m,
                           const OutputRows& out, int i) {
  if (addends == nullptr) {
    finish_pair<kRound>(sums.y[c], z == nullptr ? nullptr : z + c, out.of[c], 0, i);
    finish_pair<kRound>(sums.y[c + 1], z == nullptr ? nullptr : z + c + 1, out.of[c + 1], 0, i);
    return;
  }
  const D64 d;
  const DF32h df;
  const auto addend = [&](int cycle, int w)
                          HWY_ATTR { return hn::PromoteTo(d, hn::LoadU(df, addends->of[cycle][p][w] + m)); };
  // The rare number that lies half way is looked for in all four at once.
  const V64 a[4] = {sums.y[c][0], sums.y[c][1], sums.y[c + 1][0], sums.y[c + 1][1]};
  const V64 b[4] = {addend(c, 0), addend(c, 1), addend(c + 1, 0), addend(c + 1, 1)};
  V64 sum[4];
  add_for_rounding<kRound>(a, b, sum);
  const V64 first[2] = {sum[0], sum[1]}, second[2] = {sum[2], sum[3]};
  store_pair<kRound>(first, out.of[c], 0, i);
  store_pair<kRound>(second, out.of[c + 1], 0, i);
}

/// In two calls, so that sums stay in registers.
template <bool kRound>
HWY_INLINE void finish(const RowShape& shape, const PairSums& sums, const Rows* z, const Addends* addends,
                       int p, int first, int m, const OutputRows& out) {
  static_assert(kCycles == 4);
  const int i = p * shape.stride + first + m;
  finish_two<kRound>(sums, z, addends, 0, p, m, out, i);
  finish_two<kRound>(sums, z, addends, 2, p, m, out, i);
}

template <bool kRound>
uint32_t matrix_gfloat(const RowShape& shape, const void* decoded, uint32_t, const Rows* v, const Rows* z,
                       uint32_t* out) {
  const D64 d;
  const int stride = shape.stride;
  const OutputRows rows(shape, out);
  uint32_t irregular = 0;
  HWY_ALIGN GfloatVectors x;
  HWY_ALIGN Addends addends;
  for (int first = 0; first < stride; first += kRowGranule) {
    x.load(shape, v, first);
    irregular |= x.irregular;
    const Addends* plain = addends.load(shape, z, first) ? &addends : nullptr;
    for (int m = 0; m < kRowGranule; m += static_cast<int>(hn::Lanes(d))) {
      for (int p = 0; p < 4; ++p) {
        const double* row = static_cast<const double*>(decoded) + ptrdiff_t{16} * p * stride + first + m;
        PairSums sums;
        for (int c = 0; c < kCycles; ++c) sums.y[c][0] = sums.y[c][1] = hn::Zero(d);
        for (int j = 0; j < 8; ++j) {
          const V64 a = hn::LoadU(d, row + j * stride), b = hn::LoadU(d, row + (8 + j) * stride);
          for (int c = 0; c < kCycles; ++c) {
            const V64 factor = hn::LoadU(d, x.value[c][j] + m);
            sums.y[c][0] = hn::MulAdd(a, factor, sums.y[c][0]);
            sums.y[c][1] = hn::MulAdd(b, factor, sums.y[c][1]);
          }
        }
        finish<kRound>(shape, sums, z, plain, p, first, m, rows);
      }
    }
  }
  return irregular;
}

template <bool kRound>
uint32_t matrix_float(const RowShape& shape, const void* decoded, uint32_t, const Rows* v, const Rows* z,
                      uint32_t* out) {
  const DU32h d32;
  const D64 d;
  const int stride = shape.stride;
  const ptrdiff_t part = ptrdiff_t{32} * stride;
  const OutputRows rows(shape, out);
  uint32_t irregular = 0;
  for (int c = 0; c < kCycles; ++c) {
    if (check_floats<1, 4>(shape, v[c].word.data()) != kBlockUniform) irregular |= 1u << c;
  }
  HWY_ALIGN Addends addends;
  const Addends* plain = nullptr;
  for (int m = 0; m < stride; m += static_cast<int>(hn::Lanes(d))) {
    const int first = m / kRowGranule * kRowGranule;
    if (m == first) plain = addends.load(shape, z, first) ? &addends : nullptr;
    Split x[kCycles][4];
    for (int c = 0; c < kCycles; ++c) {
      for (int j = 0; j < 4; ++j) {
        x[c][j] = split_block(hn::LoadU(d32, v[c].word[0] + j * stride + m));
        // Units are one in the last place: 2^(2k-2) = 256 of them.
        x[c][j].unit = hn::Mul(x[c][j].unit, hn::Set(d, 256.0));
      }
    }
    for (int p = 0; p < 4; ++p) {
      PairSums sums;
      for (int c = 0; c < kCycles; ++c) sums.y[c][0] = sums.y[c][1] = hn::Zero(d);
      for (int w = 0; w < 2; ++w) {
        const double* row = static_cast<const double*>(decoded) + ptrdiff_t{4} * (2 * p + w) * stride + m;
        for (int j = 0; j < 4; ++j) {
          const double* element = row + j * stride;
          const V64 high = hn::LoadU(d, element), low = hn::LoadU(d, element + part);
          const V64 unit = hn::LoadU(d, element + 2 * part);
          for (int c = 0; c < kCycles; ++c) {
            V64& sum = sums.y[c][w];
            sum = hn::MulAdd(high, x[c][j].value, sum);
            sum = hn::MulAdd(low, x[c][j].high, sum);
            sum = hn::MulAdd(unit, x[c][j].unit, sum);
          }
        }
      }
      finish<kRound>(shape, sums, z, plain, p, first, m - first, rows);
    }
  }
  return irregular;
}

using DF32 = hn::Rebind<float, D32>;
using VF32 = hn::Vec<DF32>;

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

#if HWY_TARGET != HWY_SCALAR
using D16 = hn::Repartition<int16_t, D32>;
using DU16 = hn::Repartition<uint16_t, D32>;

/// The mantissas of the two halves of a word as numbers with their signs.
HWY_INLINE V32 signed_mantissas(V32 word) {
  const D32 d;
  const D16 d16;
  const auto mantissa = hn::BitCast(d16, hn::And(word, hn::Set(d, 0x01ff01ff)));
  const auto sign = hn::ShiftRight<15>(hn::BitCast(d16, word));
  return hn::BitCast(d, hn::Sub(hn::Xor(mantissa, sign), sign));
}

/// BlockCheck for both halves of words.
struct HalvesCheck {
  hn::Vec<DU16> largest, smallest, extended;

  HWY_INLINE HalvesCheck()
      : largest(hn::Zero(DU16())), smallest(hn::Set(DU16(), uint16_t{63})), extended(hn::Zero(DU16())) {}
  HWY_INLINE void add(V32 word) {
    const DU16 d;
    const auto element = hn::BitCast(d, word);
    const auto exponent = hn::And(hn::ShiftRight<9>(element), hn::Set(d, uint16_t{63}));
    const auto zero = hn::Eq(exponent, hn::Zero(d));
    largest = hn::Max(largest, exponent);
    smallest = hn::Min(smallest, hn::IfThenElse(zero, hn::Set(d, uint16_t{63}), exponent));
    extended = hn::Or(extended, hn::IfThenElseZero(zero, hn::And(element, hn::Set(d, uint16_t{0x1ff}))));
  }
  HWY_INLINE BlockCheck<9, 63> both() const {
    const D32 d;
    const auto upper = [&](hn::Vec<DU16> v) { return hn::ShiftRight<16>(hn::BitCast(d, v)); };
    const auto lower = [&](hn::Vec<DU16> v) { return hn::And(hn::BitCast(d, v), hn::Set(d, 0xffff)); };
    BlockCheck<9, 63> check;
    check.largest = hn::Max(upper(largest), lower(largest));
    check.smallest = hn::Min(upper(smallest), lower(smallest));
    check.extended = hn::BitCast(d, extended);
    return check;
  }
};
#else
HWY_INLINE V32 signed_mantissas(V32 word) {
  const D32 d;
  const auto half = [&](V32 element) {
    const V32 mantissa = hn::And(element, hn::Set(d, 0x1ff));
    const V32 negative = hn::Sub(hn::Zero(d), mantissa);
    const auto is_negative = hn::Gt(hn::And(element, hn::Set(d, 0x8000)), hn::Zero(d));
    return hn::And(hn::IfThenElse(is_negative, negative, mantissa), hn::Set(d, 0xffff));
  };
  return hn::Or(hn::ShiftLeft<16>(half(hn::ShiftRight<16>(word))), half(word));
}

struct HalvesCheck {
  BlockCheck<9, 63> check;
  HWY_INLINE void add(V32 word) {
    check.add(hn::ShiftRight<16>(word));
    check.add(hn::And(word, hn::Set(D32(), 0xffff)));
  }
  HWY_INLINE BlockCheck<9, 63> both() const { return check; }
};
#endif

/// 2^(exponent - 39), a unit of the last place of halves of that exponent.
HWY_INLINE VF32 half_unit(V32 exponent) {
  const D32 d;
  return hn::BitCast(DF32(), hn::ShiftLeft<23>(hn::Add(exponent, hn::Set(d, 127 - 39))));
}

/// Both products of a word's halves with another's, added.
HWY_INLINE hn::Vec<DI32> products_of_halves(V32 a, V32 b, hn::Vec<DI32> sum) {
  const DI32 di;
#if HWY_ARCH_X86 && HWY_TARGET != HWY_SCALAR
  const D16 d16;
  auto unused = hn::Zero(di);
  return hn::ReorderWidenMulAccumulate(di, hn::BitCast(d16, a), hn::BitCast(d16, b), sum, unused);
#else
  const auto upper = [&](V32 v) { return hn::ShiftRight<16>(hn::BitCast(di, v)); };
  const auto lower = [&](V32 v) { return hn::ShiftRight<16>(hn::BitCast(di, hn::ShiftLeft<16>(v))); };
  return hn::Add(sum, hn::Add(hn::Mul(upper(a), upper(b)), hn::Mul(lower(a), lower(b))));
#endif
}

/// Words with two elements each of a block of halves.
HWY_INLINE const uint32_t* half_word(const RowShape& shape, const uint32_t* const* words, int j) {
  return words[j & 1] + (j >> 1) * shape.stride;
}

/// A matrix of halves: [i][j][m] floats, then [i][word][m] pairs of mantissas, then [i][m] units.
struct HalfMatrix {
  float* values;
  uint32_t* mantissas;
  float* units;
  HalfMatrix(const RowShape& shape, void* decoded)
      : values(static_cast<float*>(decoded)),
        mantissas(static_cast<uint32_t*>(decoded) + ptrdiff_t{256} * shape.stride),
        units(static_cast<float*>(decoded) + ptrdiff_t{384} * shape.stride) {}
};
static_assert(400 * sizeof(float) <= kDecodedBytes);

uint32_t decode_half(const RowShape& shape, const uint32_t* raw, int row, void* decoded) {
  const D32 d;
  const uint32_t* const words[2] = {raw, raw + shape.words()};
  const HalfMatrix matrix(shape, decoded);
  for (int m = 0; m < shape.stride; m += static_cast<int>(hn::Lanes(d))) {
    HalvesCheck check;
    for (int j = 0; j < 8; ++j) {
      const V32 word = hn::LoadU(d, half_word(shape, words, j) + m);
      check.add(word);
      hn::StoreU(signed_mantissas(word), d, matrix.mantissas + (8 * row + j) * shape.stride + m);
    }
    hn::StoreU(half_unit(check.both().largest), DF32(), matrix.units + row * shape.stride + m);
  }
  return decode_halves(shape, words, matrix.values + static_cast<ptrdiff_t>(row) * 16 * shape.stride);
}

/// Pairs of mantissas of the vectors of kRowGranule MABs, and the units of their last places.
struct HalfVectors {
  uint32_t mantissas[kCycles][8][kRowGranule];
  float units[kCycles][kRowGranule];
  uint32_t irregular;  ///< cycles with such a vector
  uint32_t extended;   ///< cycles with elements of exponent 0 that are no zeros

  HWY_INLINE void load(const RowShape& shape, const Rows* v, int first) {
    irregular = extended = 0;
    for (int c = 0; c < kCycles; ++c) {
      for (int m = 0; m < kRowGranule; m += static_cast<int>(hn::Lanes(D32())))
        load(shape, v[c].word.data(), c, first, m);
    }
  }

 private:
  HWY_INLINE void load(const RowShape& shape, const uint32_t* const* words, int c, int first, int m) {
    const D32 d;
    HalvesCheck check;
    for (int j = 0; j < 8; ++j) {
      const V32 word = hn::LoadU(d, half_word(shape, words, j) + first + m);
      check.add(word);
      hn::StoreU(signed_mantissas(word), d, mantissas[c][j] + m);
    }
    const BlockCheck<9, 63> both = check.both();
    const uint32_t kind = both.kind(true);
    if ((kind & kBlockIrregular) != 0) irregular |= 1u << c;
    if ((kind & kBlockExtended) != 0) extended |= 1u << c;
    hn::StoreU(half_unit(both.largest), DF32(), units[c] + m);
  }
};

/// y + z for exact float y: the addition is the only rounding. It has no underflow, as y is a multiple of
/// 2^-76. `largest`: of z, as patterns without their signs. Infinities have their mantissa cleared so that
/// the host does not see a NaN; the sum is infinite all the same because |y| < 2^70.
template <bool kInfinities>
HWY_INLINE VF32 add_float_z(VF32 y, const uint32_t* z, V32& largest) {
  const D32 d;
  const DF32 df;
  V32 bits = hn::LoadU(d, z);
  if constexpr (kInfinities) {
    const V32 top = hn::Set(d, 0x7f800000);
    const auto infinite = hn::Eq(hn::And(bits, top), top);
    bits = hn::IfThenElse(infinite, hn::And(bits, hn::Set(d, 0xff800000)), bits);
  }
  const V32 magnitude = hn::And(bits, hn::Set(d, 0x7fffffff));
  largest = hn::Max(largest, magnitude);
  const auto number = hn::Gt(magnitude, hn::Set(d, 0x7fffff));
  return hn::Add(y, hn::BitCast(df, hn::IfThenElseZero(number, bits)));
}

/// What is added to results of halves.
enum class HalfAddends : uint8_t { kNone, kFinite, kAny };

/// Rounds and stores outputs `lane` and `lane` + 1 of a PE in a cycle; `i`: the index in a row. `units`: of
/// the matrix' rows.
template <HalfAddends kAddends, int kLane>
HWY_INLINE void finish_halves(const hn::Vec<DI32> (&sum)[2], VF32 unit, const VF32 (&units)[2], const Rows* z,
                              const Results& out, int i, V32& largest) {
  const D32 d;
  const DF32 df;
  for (int k = 0; k < 2; ++k) {
    VF32 y = hn::Mul(hn::ConvertTo(df, sum[k]), hn::Mul(unit, units[k]));
    if constexpr (kAddends != HalfAddends::kNone)
      y = add_float_z<kAddends == HalfAddends::kAny>(y, z->word[kLane + k] + i, largest);
    hn::StoreU(hn::BitCast(d, y), d, out.word[kLane + k] + i);
  }
}

/// Outputs `kLane` and `kLane` + 1 of PE `p` for as many MABs, from `first` + `m` on, as a vector has lanes.
template <HalfAddends kAddends, int kLane>
HWY_INLINE void half_outputs(const RowShape& shape, const HalfMatrix& matrix, const HalfVectors& x,
                             const Rows* z, int p, int first, int m, const OutputRows& out, V32& largest) {
  const D32 d;
  const DI32 di;
  const DF32 df;
  const int stride = shape.stride;
  const int row = 4 * p + kLane;
  hn::Vec<DI32> sum[kCycles][2];
  for (int c = 0; c < kCycles; ++c) sum[c][0] = sum[c][1] = hn::Zero(di);
  const uint32_t* elements = matrix.mantissas + ptrdiff_t{8} * row * stride + first + m;
  // Unrolled, GCC makes all products before it adds one, for which there are not registers enough.
#if HWY_COMPILER_GCC && !HWY_COMPILER_CLANG
#pragma GCC unroll 2
#endif
  for (int j = 0; j < 8; ++j) {
    const V32 one = hn::LoadU(d, elements + j * stride);
    const V32 other = hn::LoadU(d, elements + (8 + j) * stride);
    for (int c = 0; c < kCycles; ++c) {
      const V32 factors = hn::LoadU(d, x.mantissas[c][j] + m);
      sum[c][0] = products_of_halves(one, factors, sum[c][0]);
      sum[c][1] = products_of_halves(other, factors, sum[c][1]);
    }
  }
  const float* of_rows = matrix.units + row * stride + first + m;
  const VF32 units[2] = {hn::LoadU(df, of_rows), hn::LoadU(df, of_rows + stride)};
  const int i = p * stride + first + m;
  const auto finish = [&](const hn::Vec<DI32>(&sums)[2], int c) HWY_ATTR {
    const Rows* addend = kAddends == HalfAddends::kNone ? nullptr : z + c;
    finish_halves<kAddends, kLane>(sums, hn::LoadU(df, x.units[c] + m), units, addend, out.of[c], i, largest);
  };
  static_assert(kCycles == 4);
  finish(sum[0], 0);
  finish(sum[1], 1);
  finish(sum[2], 2);
  finish(sum[3], 3);
}

/// All of kRowGranule MABs. Returns false where what is added must be HalfAddends::kAny and isn't.
template <HalfAddends kAddends>
HWY_INLINE bool half_outputs(const RowShape& shape, const HalfMatrix& matrix, const HalfVectors& x,
                             const Rows* z, int first, const OutputRows& out) {
  const D32 d;
  V32 largest = hn::Zero(d);
  for (int m = 0; m < kRowGranule; m += static_cast<int>(hn::Lanes(d))) {
    for (int p = 0; p < 4; ++p) {
      half_outputs<kAddends, 0>(shape, matrix, x, z, p, first, m, out, largest);
      half_outputs<kAddends, 2>(shape, matrix, x, z, p, first, m, out, largest);
    }
  }
  return hn::AllFalse(d, hn::Gt(largest, hn::Set(d, 0x7f7fffff)));
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

/// A cycle whose float sums would not be exact, or whose results are halves.
template <bool kRound>
HWY_NOINLINE void half_cycle_in_double(const RowShape& shape, const float* matrix, const Rows& v,
                                       const Rows* z, const Results& out) {
  const DU32h dh;
  const int stride = shape.stride;
  constexpr int kMaxStride = 256;
  HWY_ALIGN float x[16 * kMaxStride];
  decode_halves(shape, v.word.data(), x);
  for (int m = 0; m < stride; m += static_cast<int>(hn::Lanes(dh))) {
    for (int p = 0; p < 4; ++p) {
      for (int k = 0; k < 4; k += 2) {
        const float* row = matrix + (4 * p + k) * 16 * stride + m;
        const V64 y[2] = {half_row_in_double(row, x + m, stride),
                          half_row_in_double(row + 16 * stride, x + m, stride)};
        finish_pair<kRound>(y, z, out, k, p * stride + m);
      }
    }
  }
}

template <bool kRound>
uint32_t matrix_half(const RowShape& shape, const void* decoded, uint32_t matrix_kind, const Rows* v,
                     const Rows* z, uint32_t* out) {
  const HalfMatrix matrix(shape, const_cast<void*>(decoded));
  const OutputRows rows(shape, out);
  const bool all_in_double = kRound || (matrix_kind & kBlockExtended) != 0;
  uint32_t irregular = 0, extended = 0;
  HWY_ALIGN HalfVectors x;
  for (int first = 0; first < shape.stride; first += kRowGranule) {
    x.load(shape, v, first);
    irregular |= x.irregular;
    extended |= x.extended;
    if (all_in_double) continue;
    if (z == nullptr) {
      half_outputs<HalfAddends::kNone>(shape, matrix, x, z, first, rows);
    } else if (!half_outputs<HalfAddends::kFinite>(shape, matrix, x, z, first, rows)) {
      half_outputs<HalfAddends::kAny>(shape, matrix, x, z, first, rows);
    }
  }
  for (int c = 0; c < kCycles; ++c) {
    if ((irregular >> c & 1) != 0 || !(all_in_double || (extended >> c & 1) != 0)) continue;
    half_cycle_in_double<kRound>(shape, matrix.values, v[c], z == nullptr ? nullptr : z + c, rows.of[c]);
  }
  return irregular;
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
