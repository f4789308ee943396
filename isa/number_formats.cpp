#include "isa/number_formats.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "isa/error.h"

namespace kodama::isa {
namespace {

using Wide = unsigned __int128;

int bit_length(Wide value) {
  const auto high = static_cast<uint64_t>(value >> 64);
  if (high != 0) return 128 - std::countl_zero(high);
  return 64 - std::countl_zero(static_cast<uint64_t>(value));
}

/// value >> shift, nearest even.
uint64_t shift_right_nearest_even(uint64_t value, int shift) {
  if (shift <= 0) return value;
  if (shift > 64) return 0;  // less than half
  const uint64_t kept = shift == 64 ? 0 : value >> shift;
  const uint64_t half = uint64_t{1} << (shift - 1);
  const uint64_t rest = shift == 64 ? value : value & ((half << 1) - 1);
  const bool up = rest > half || (rest == half && (kept & 1) != 0);
  return kept + (up ? 1 : 0);
}

uint64_t infinity_of(bool sign, FloatFormat format) {
  return (sign ? format.sign_bit() : 0) | format.infinity();
}

}  // namespace

FloatFormat format_of(Precision precision) {
  switch (precision) {
    case Precision::kDouble:
      return kDoubleFormat;
    case Precision::kFloat:
    case Precision::kGFloat:
      return kFloatFormat;
    case Precision::kHalf:
      return kHalfFormat;
    default:
      throw InternalError("internal error in number formats: not a floating precision");
  }
}

Unpacked unpack(uint64_t bits, FloatFormat format) {
  return {.sign = (bits & format.sign_bit()) != 0,
          .exponent =
              static_cast<int>(bits >> format.mantissa_bits & static_cast<uint64_t>(format.max_exponent())),
          .mantissa = bits & format.mantissa_mask()};
}

uint64_t pack(Unpacked value, FloatFormat format) {
  return (value.sign ? format.sign_bit() : 0) |
         static_cast<uint64_t>(value.exponent) << format.mantissa_bits | value.mantissa;
}

bool is_zero(uint64_t bits, FloatFormat format) {
  return (bits & format.infinity()) == 0;
}

bool is_infinity(uint64_t bits, FloatFormat format) {
  return (bits & format.infinity()) == format.infinity();
}

uint64_t normalize(uint64_t bits, FloatFormat format) {
  if (is_zero(bits, format)) return 0;
  if (is_infinity(bits, format)) return infinity_of((bits & format.sign_bit()) != 0, format);
  return bits & (format.sign_bit() | (format.sign_bit() - 1));
}

double to_double(uint64_t bits, FloatFormat format) {
  const Unpacked value = unpack(bits, format);
  const double sign = value.sign ? -1.0 : 1.0;
  if (value.exponent == 0) return sign * 0.0;
  if (value.exponent == format.max_exponent()) return sign * std::numeric_limits<double>::infinity();
  const auto significand = static_cast<double>(value.mantissa | (format.mantissa_mask() + 1));
  return sign * std::ldexp(significand, value.exponent - format.bias() - format.mantissa_bits);
}

uint64_t from_double(double value, FloatFormat format) {
  return convert(std::bit_cast<uint64_t>(value), kDoubleFormat, format);
}

uint64_t round_to_format(bool sign, Wide significand, int exponent, bool sticky, FloatFormat format) {
  const int length = bit_length(significand);
  const int shift = length - 1 - format.mantissa_bits;  // the kept part has mantissa_bits + 1 bits
  check_internal(!sticky || shift > 0, "round_to_format", "a sticky bit below {} significand bits", length);
  if (length == 0) return 0;

  uint64_t kept = 0;
  if (shift <= 0) {
    kept = static_cast<uint64_t>(significand) << -shift;
  } else {
    kept = static_cast<uint64_t>(significand >> shift);
    const Wide half = Wide{1} << (shift - 1);
    const Wide rest = significand & ((half << 1) - 1);
    const bool above_half = rest > half || (rest == half && sticky);
    if (above_half || (rest == half && (kept & 1) != 0)) ++kept;
  }
  int64_t biased = int64_t{exponent} + length - 1 + format.bias();
  if (kept >> (format.mantissa_bits + 1) != 0) {
    kept >>= 1;
    ++biased;
  }
  if (biased >= format.max_exponent()) return infinity_of(sign, format);
  if (biased <= 0) return 0;
  return pack({sign, static_cast<int>(biased), kept & format.mantissa_mask()}, format);
}

uint16_t half_of(float value) {
  constexpr int kDropped = kFloatFormat.mantissa_bits - kHalfFormat.mantissa_bits;
  constexpr int64_t kBias = int64_t{kFloatFormat.bias() - kHalfFormat.bias()} << kFloatFormat.mantissa_bits;
  constexpr int64_t kOne = 1;
  const auto bits = std::bit_cast<uint32_t>(value);
  const auto sign = static_cast<uint16_t>((bits & kFloatFormat.sign_bit()) >> 16);
  // A carry of the mantissa goes into the exponent.
  const int64_t magnitude = static_cast<int64_t>(bits & ~kFloatFormat.sign_bit()) - kBias;
  const int64_t rounded =
      (magnitude + (kOne << (kDropped - 1)) - 1 + (magnitude >> kDropped & 1)) >> kDropped;
  if (rounded < kOne << kHalfFormat.mantissa_bits) return 0;
  return sign | static_cast<uint16_t>(std::min(rounded, static_cast<int64_t>(kHalfFormat.infinity())));
}
uint64_t convert(uint64_t bits, FloatFormat from, FloatFormat to) {
  const Unpacked value = unpack(bits, from);
  if (value.exponent == 0) return 0;
  if (value.exponent == from.max_exponent()) return infinity_of(value.sign, to);
  return round_to_format(value.sign, value.mantissa | (from.mantissa_mask() + 1),
                         value.exponent - from.bias() - from.mantissa_bits, false, to);
}

int block_normalize(std::span<uint64_t> block, FloatFormat format, int mantissa_bits_cut, bool extended) {
  const int cut = mantissa_bits_cut;
  // The mantissa bits that survive the cut; all ones would round up beyond the field.
  const uint64_t top_bits = format.mantissa_mask() & ~((uint64_t{1} << cut) - 1);
  const auto rounds_up = [&](const Unpacked& value) { return (value.mantissa & top_bits) == top_bits; };

  int largest = 0;
  for (const uint64_t bits : block) largest = std::max(largest, unpack(bits, format).exponent);
  int block_exponent = 0;
  if (largest != 0) {
    block_exponent = largest + cut;
    for (const uint64_t bits : block) {
      const Unpacked value = unpack(bits, format);
      if (value.exponent == largest && rounds_up(value)) {
        ++block_exponent;
        break;
      }
    }
    block_exponent = std::min(block_exponent, format.max_exponent());
  }

  for (uint64_t& bits : block) {
    const Unpacked value = unpack(bits, format);
    Unpacked result{value.sign, block_exponent, 0};
    if (value.exponent != 0 && block_exponent < format.max_exponent()) {
      const int distance = block_exponent - value.exponent;
      int shift = distance + 1;
      const int limit = kBlockExtension + cut;
      if (extended && (distance > limit || (distance == limit && !rounds_up(value)))) {
        shift -= kBlockExtension;
        result.exponent = 0;
      }
      result.mantissa = shift_right_nearest_even(value.mantissa | (format.mantissa_mask() + 1), shift);
    }
    if (extended && result.mantissa == 0 && block_exponent < format.max_exponent()) result.exponent = 0;
    bits = pack(result, format);
  }
  return block_exponent;
}

double block_float_to_double(uint64_t bits, FloatFormat format, int block_exponent) {
  const Unpacked value = unpack(bits, format);
  const double sign = value.sign ? -1.0 : 1.0;
  if (value.exponent == format.max_exponent()) return sign * std::numeric_limits<double>::infinity();
  int exponent = value.exponent;
  if (exponent == 0) {
    if (block_exponent == 0 || value.mantissa == 0) return sign * 0.0;
    exponent = block_exponent - kBlockExtension;
  }
  return sign * std::ldexp(static_cast<double>(value.mantissa),
                           exponent - format.bias() - (format.mantissa_bits - 1));
}

}  // namespace kodama::isa
