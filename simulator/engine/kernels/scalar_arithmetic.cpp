#include "simulator/engine/kernels/scalar_arithmetic.h"

#include <algorithm>
#include <array>
#include <boost/multiprecision/cpp_int.hpp>

#include "isa/error.h"

namespace kodama::simulator {
namespace {

using isa::FloatFormat;
using isa::Precision;
using isa::ReduceOp;

int bit_length(UInt128 value) {
  const uint64_t high = static_cast<uint64_t>(value >> 64);
  const uint64_t low = static_cast<uint64_t>(value);
  if (high != 0) return 128 - __builtin_clzll(high);
  return low != 0 ? 64 - __builtin_clzll(low) : 0;
}

/// a + b when one is so much smaller that 128 bits can't hold both: the smaller one's lost bits are
/// or-ed into its last bit, far below the rounding position of the sum.
uint64_t round_two(Term a, Term b, FloatFormat format) {
  if (a.exponent + bit_length(a.significand) < b.exponent + bit_length(b.significand)) std::swap(a, b);
  constexpr int kTop = 125;
  const int up = kTop - bit_length(a.significand);
  a.significand <<= up;
  a.exponent -= up;
  int shift = a.exponent - b.exponent;
  if (shift <= 0) {
    b.significand <<= -shift;
  } else if (shift >= 127) {
    b.significand = 1;
  } else {
    const bool lost = (b.significand & ((UInt128{1} << shift) - 1)) != 0;
    b.significand = (b.significand >> shift) | (lost ? 1 : 0);
  }
  const SInt128 sum =
      (a.negative ? -static_cast<SInt128>(a.significand) : static_cast<SInt128>(a.significand)) +
      (b.negative ? -static_cast<SInt128>(b.significand) : static_cast<SInt128>(b.significand));
  return isa::round_to_format(sum < 0, sum < 0 ? -static_cast<UInt128>(sum) : static_cast<UInt128>(sum),
                              a.exponent, false, format);
}

uint64_t round_many(std::span<const Term> terms, int lowest, FloatFormat format) {
  using boost::multiprecision::cpp_int;
  cpp_int sum = 0;
  for (const Term& term : terms) {
    cpp_int value = (cpp_int(static_cast<uint64_t>(term.significand >> 64)) << 64) +
                    static_cast<uint64_t>(term.significand);
    value <<= term.exponent - lowest;
    sum += term.negative ? -value : value;
  }
  if (sum == 0) return 0;
  const bool negative = sum < 0;
  if (negative) sum = -sum;
  const int excess = static_cast<int>(msb(sum)) - 120;
  bool sticky = false;
  if (excess > 0) {
    sticky = static_cast<int>(lsb(sum)) < excess;
    sum >>= excess;
    lowest += excess;
  }
  const cpp_int low = sum & ((cpp_int(1) << 64) - 1);
  const cpp_int high = sum >> 64;
  return isa::round_to_format(negative,
                              (UInt128{static_cast<uint64_t>(high)} << 64) | static_cast<uint64_t>(low),
                              lowest, sticky, format);
}

}  // namespace

Term value_term(uint64_t bits, FloatFormat format) {
  const isa::Unpacked u = isa::unpack(bits, format);
  if (u.exponent == 0) return {};
  return {u.sign, u.mantissa | (uint64_t{1} << format.mantissa_bits),
          u.exponent - format.bias() - format.mantissa_bits};
}

Term product_term(uint64_t x, uint64_t y, FloatFormat format, int k) {
  const Term a = value_term(x, format);
  const Term b = value_term(y, format);
  if (a.significand == 0 || b.significand == 0) return {};
  return {a.negative != b.negative,
          truncated_product(static_cast<uint64_t>(a.significand), static_cast<uint64_t>(b.significand), k),
          a.exponent + b.exponent};
}

uint64_t round_sum(std::span<const Term> terms, FloatFormat format) {
  std::array<Term, 17> used;
  int count = 0;
  int lowest = 0;
  int highest = 0;
  for (const Term& term : terms) {
    if (term.significand == 0) continue;
    const int top = term.exponent + bit_length(term.significand);
    lowest = count == 0 ? term.exponent : std::min(lowest, term.exponent);
    highest = count == 0 ? top : std::max(highest, top);
    used[count++] = term;
  }
  if (count == 0) return 0;
  if (highest - lowest <= 120) {
    SInt128 sum = 0;
    for (int i = 0; i < count; ++i) {
      const SInt128 value = static_cast<SInt128>(used[i].significand << (used[i].exponent - lowest));
      sum += used[i].negative ? -value : value;
    }
    if (sum == 0) return 0;
    return isa::round_to_format(sum < 0, sum < 0 ? -static_cast<UInt128>(sum) : static_cast<UInt128>(sum),
                                lowest, false, format);
  }
  if (count == 1) {
    return isa::round_to_format(used[0].negative, used[0].significand, used[0].exponent, false, format);
  }
  if (count == 2) return round_two(used[0], used[1], format);
  return round_many({used.data(), static_cast<size_t>(count)}, lowest, format);
}

uint64_t multiply_add_double(uint64_t x, const uint64_t* y, uint64_t z, bool to_float) {
  const Term product = y == nullptr
                           ? value_term(x, isa::kDoubleFormat)
                           : product_term(x, *y, isa::kDoubleFormat, truncated_bits(Precision::kDouble));
  const std::array<Term, 2> terms{product, value_term(z, isa::kDoubleFormat)};
  return round_sum(terms, to_float ? isa::kFloatFormat : isa::kDoubleFormat);
}

DotProduct block_dot_product(std::span<const uint64_t> row, std::span<const uint64_t> vector,
                             Precision precision) {
  const FloatFormat format = isa::format_of(precision);
  const int k = truncated_bits(precision);
  const uint64_t cut = precision == Precision::kGFloat ? 31 : 0;
  auto exponent_of_block = [&](std::span<const uint64_t> block) {
    int largest = 0;
    for (uint64_t bits : block) largest = std::max(largest, isa::unpack(bits, format).exponent);
    return largest;
  };
  const int row_exponent = exponent_of_block(row);
  const int vector_exponent = exponent_of_block(vector);
  DotProduct y;
  y.count = static_cast<int>(row.size());
  for (size_t j = 0; j < row.size(); ++j) {
    const isa::Unpacked a = isa::unpack(row[j], format);
    const isa::Unpacked b = isa::unpack(vector[j], format);
    const bool infinite = a.exponent == format.max_exponent() || b.exponent == format.max_exponent();
    if (infinite && !y.infinite) {
      y.infinite = true;
      y.negative = a.sign != b.sign;
    }
    auto exponent = [&](const isa::Unpacked& u, int block_exponent) {
      return u.exponent == 0 && precision == Precision::kHalf ? block_exponent - 6 : u.exponent;
    };
    auto significand = [&](const isa::Unpacked& u, int block_exponent) -> uint64_t {
      if (u.exponent == 0 && (precision != Precision::kHalf || block_exponent == 0)) return 0;
      return u.mantissa & ~cut;
    };
    y.terms[j].negative = a.sign != b.sign;
    y.terms[j].significand =
        truncated_product(significand(a, row_exponent), significand(b, vector_exponent), k);
    y.terms[j].exponent = exponent(a, row_exponent) + exponent(b, vector_exponent) -
                          2 * (format.bias() + format.mantissa_bits - 1);
  }
  return y;
}

uint64_t round_dot_product(const DotProduct& y, uint64_t z, FloatFormat z_format, FloatFormat format) {
  if (y.infinite) return format.infinity() | (y.negative ? format.sign_bit() : 0);
  std::array<Term, 17> terms;
  std::copy_n(y.terms.begin(), y.count, terms.begin());
  terms[y.count] = value_term(z, z_format);
  return round_sum({terms.data(), static_cast<size_t>(y.count) + 1}, format);
}

uint64_t reduce_fadd_stage(std::span<const uint64_t> values, FloatFormat format, FloatFormat output) {
  int largest = 0;
  for (uint64_t bits : values) largest = std::max(largest, isa::unpack(bits, format).exponent);
  int64_t sum = 0;
  for (uint64_t bits : values) {
    const isa::Unpacked u = isa::unpack(bits, format);
    if (u.exponent == 0) continue;
    uint64_t significand = (u.mantissa | (uint64_t{1} << format.mantissa_bits)) << 3;
    const int shift = largest - u.exponent;
    if (shift > format.mantissa_bits + 5) {
      significand = 0;
    } else if (shift > 0) {
      significand = (significand + (uint64_t{1} << (shift - 1)) - 1 + ((significand >> shift) & 1)) >> shift;
    }
    sum += u.sign ? -static_cast<int64_t>(significand) : static_cast<int64_t>(significand);
  }
  if (sum == 0) return 0;
  return isa::round_to_format(sum < 0, static_cast<UInt128>(sum < 0 ? -sum : sum),
                              largest - format.bias() - format.mantissa_bits - 3, false, output);
}

namespace {

int lane_width(Precision precision) {
  return 64 / isa::lanes(precision);
}

bool is_float(Precision precision) {
  return precision == Precision::kDouble || precision == Precision::kFloat || precision == Precision::kHalf ||
         precision == Precision::kGFloat;
}

/// Maps a lane to an unsigned number with the order of the lane's values (+0 above -0).
uint64_t order_key(Precision precision, uint64_t bits) {
  const int width = lane_width(precision);
  const uint64_t sign = uint64_t{1} << (width - 1);
  const uint64_t all = sign | (sign - 1);
  if (!is_float(precision)) return bits ^ sign;
  return (bits & sign) != 0 ? ~bits & all : bits | sign;
}

}  // namespace

uint64_t reduce_pair(ReduceOp op, Precision precision, uint64_t a, uint64_t b) {
  const int width = lane_width(precision);
  const uint64_t all = width == 64 ? ~uint64_t{0} : (uint64_t{1} << width) - 1;
  switch (op) {
    case ReduceOp::kMax:
      return order_key(precision, a) >= order_key(precision, b) ? a : b;
    case ReduceOp::kMin:
      return order_key(precision, a) <= order_key(precision, b) ? a : b;
    case ReduceOp::kIadd:
      return (a + b) & all;
    case ReduceOp::kBand:
      return a & b;
    case ReduceOp::kBor:
      return a | b;
    case ReduceOp::kAnd:
      return a != 0 && b != 0 ? 1 : 0;
    case ReduceOp::kOr:
      return a != 0 || b != 0 ? 1 : 0;
    case ReduceOp::kFadd:
    case ReduceOp::kNone:
      break;
  }
  throw isa::InternalError("internal error in simulator: not a reduction of pairs");
}

uint64_t reduce_long(std::span<const uint64_t> values, ReduceOp op, Precision precision) {
  const int width = lane_width(precision);
  const uint64_t all = width == 64 ? ~uint64_t{0} : (uint64_t{1} << width) - 1;
  std::array<uint64_t, 256> lane;
  uint64_t result = 0;
  for (int shift = 0; shift < 64; shift += width) {
    for (size_t i = 0; i < values.size(); ++i) lane[i] = (values[i] >> shift) & all;
    uint64_t reduced;
    if (op == ReduceOp::kFadd) {
      const FloatFormat format = isa::format_of(precision);
      reduced = reduce_fadd_stage({lane.data(), values.size()}, format, format);
    } else {
      // `and` and `or` of a single value are logical too, hence the start from their neutral element.
      reduced = op == ReduceOp::kAnd ? 1 : op == ReduceOp::kOr ? 0 : lane[0];
      const bool logical = op == ReduceOp::kAnd || op == ReduceOp::kOr;
      for (size_t i = logical ? 0 : 1; i < values.size(); ++i) {
        reduced = reduce_pair(op, precision, reduced, lane[i]);
      }
    }
    result |= reduced << shift;
  }
  return result;
}

uint64_t reduce_long_by_fours(std::span<const uint64_t> values, ReduceOp op, Precision precision) {
  if (op != ReduceOp::kFadd || values.size() <= 4) return reduce_long(values, op, precision);
  std::array<uint64_t, 256> stage;
  size_t count = 0;
  for (size_t i = 0; i < values.size(); i += 4) {
    stage[count++] = reduce_long(values.subspan(i, std::min<size_t>(4, values.size() - i)), op, precision);
  }
  return reduce_long({stage.data(), count}, op, precision);
}

}  // namespace kodama::simulator
