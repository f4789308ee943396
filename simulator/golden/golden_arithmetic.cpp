#include "simulator/golden/golden_arithmetic.h"

#include <algorithm>

#include "isa/error.h"
#include "simulator/golden/golden_names.h"

namespace kodama::simulator::golden {
namespace {

using boost::multiprecision::cpp_int;
using isa::FloatFormat;
using isa::ReduceOp;

bool is_float(Precision precision) {
  return precision == Precision::kDouble || precision == Precision::kFloat || precision == Precision::kHalf;
}

int64_t signed_value(uint64_t bits, int width) {
  return static_cast<int64_t>(bits << (64 - width)) >> (64 - width);
}

/// Sign-magnitude order: -inf … -0, +0 … inf.
bool float_less(uint64_t a, uint64_t b, int width) {
  const uint64_t sign = uint64_t{1} << (width - 1);
  const bool negative_a = (a & sign) != 0;
  const bool negative_b = (b & sign) != 0;
  if (negative_a != negative_b) return negative_a;
  return negative_a ? a > b : a < b;
}

uint64_t rsqrt(uint64_t x, FloatFormat format) {
  const isa::Unpacked u = isa::unpack(x, format);
  if (u.exponent == 0) return format.infinity();
  if (u.exponent == format.max_exponent()) return 0;
  // |x| = 4^h * t with 1 <= t < 4.
  const int exponent = u.exponent - format.bias();
  int h = exponent / 2;
  if (exponent % 2 != 0 && exponent < 0) --h;
  const int t_exponent = exponent - 2 * h;
  const int bucket = static_cast<int>(u.mantissa >> (format.mantissa_bits - 4));
  // N = floor(64 / sqrt(t')), t' = 2^t_exponent * (16 + bucket) / 16: the largest N with N^2 t' <= 64^2.
  int n = 0;
  while ((n + 1) * (n + 1) * (16 + bucket) * (1 << t_exponent) <= 64 * 64 * 16) ++n;
  return round({n, -6 - h}, format);
}

uint64_t floor_of(uint64_t x, FloatFormat format) {
  const isa::Unpacked u = isa::unpack(x, format);
  if (u.exponent == 0 || u.exponent == format.max_exponent()) return x;
  const Exact value = number(x, format);
  if (value.exponent >= 0) return x;
  const cpp_int unit = cpp_int(1) << -value.exponent;
  cpp_int quotient = abs(value.integer) / unit;
  if (u.sign && abs(value.integer) % unit != 0) ++quotient;
  return round({u.sign ? cpp_int(-quotient) : quotient, 0}, format);
}

uint64_t to_integer(uint64_t x, FloatFormat format, bool of_magnitude) {
  const int width = format.width();
  const isa::Unpacked u = isa::unpack(x, format);
  const Exact value = number(x, format);
  cpp_int magnitude = abs(value.integer);
  if (value.exponent >= 0) {
    magnitude <<= value.exponent;
  } else {
    magnitude >>= -value.exponent;
  }
  const cpp_int top = cpp_int(1) << (width - 1);
  if (of_magnitude) {
    const cpp_int limit = 2 * top - 1;
    return static_cast<uint64_t>(magnitude > limit ? limit : magnitude);
  }
  if (!u.sign) {
    const cpp_int limit = top - 1;
    return static_cast<uint64_t>(magnitude > limit ? limit : magnitude);
  }
  if (magnitude > top) magnitude = top;
  const uint64_t mask = static_cast<uint64_t>(cpp_int(2 * top - 1));
  return (0 - static_cast<uint64_t>(magnitude)) & mask;
}

uint64_t shift_exponent(uint64_t y, FloatFormat format, int by) {
  isa::Unpacked u = isa::unpack(y, format);
  if (u.exponent == 0 || u.exponent == format.max_exponent()) return y;
  u.exponent += by;
  if (u.exponent <= 0) return 0;
  if (u.exponent >= format.max_exponent()) return isa::pack({u.sign, format.max_exponent(), 0}, format);
  return isa::pack(u, format);
}

}  // namespace

uint64_t lane(uint64_t value, int width, int index) {
  if (width == 64) return value;
  return (value >> (64 - width * (index + 1))) & ((uint64_t{1} << width) - 1);
}

uint64_t set_lane(uint64_t value, int width, int index, uint64_t bits) {
  if (width == 64) return bits;
  const int shift = 64 - width * (index + 1);
  const uint64_t mask = ((uint64_t{1} << width) - 1) << shift;
  return (value & ~mask) | ((bits << shift) & mask);
}

Exact operator+(const Exact& a, const Exact& b) {
  if (a.integer == 0) return b;
  if (b.integer == 0) return a;
  const int exponent = std::min(a.exponent, b.exponent);
  return {cpp_int(a.integer << (a.exponent - exponent)) + cpp_int(b.integer << (b.exponent - exponent)),
          exponent};
}

Exact number(uint64_t bits, FloatFormat format) {
  const isa::Unpacked u = isa::unpack(bits, format);
  if (u.exponent == 0) return {};
  const cpp_int significand = (uint64_t{1} << format.mantissa_bits) | u.mantissa;
  return {u.sign ? cpp_int(-significand) : significand, u.exponent - format.bias() - format.mantissa_bits};
}

Exact truncated_product(const Exact& a, const Exact& b, int k) {
  const cpp_int magnitude_a = abs(a.integer);
  const cpp_int magnitude_b = abs(b.integer);
  const cpp_int unit = cpp_int(1) << k;
  const cpp_int low_a = magnitude_a % unit;
  const cpp_int low_b = magnitude_b % unit;
  cpp_int product = magnitude_a * magnitude_b - low_a * low_b;
  if (low_a != 0 && low_b != 0) product += unit * unit / 4;
  if ((a.integer < 0) != (b.integer < 0)) product = -product;
  return {product, a.exponent + b.exponent};
}

uint64_t round(const Exact& value, FloatFormat format) {
  if (value.integer == 0) return 0;
  cpp_int magnitude = abs(value.integer);
  int exponent = value.exponent;
  bool sticky = false;
  const int excess = static_cast<int>(msb(magnitude)) - 100;
  if (excess > 0) {
    sticky = magnitude % (cpp_int(1) << excess) != 0;
    magnitude >>= excess;
    exponent += excess;
  }
  const uint64_t high = static_cast<uint64_t>(cpp_int(magnitude >> 64));
  const uint64_t low = static_cast<uint64_t>(cpp_int(magnitude % (cpp_int(1) << 64)));
  __extension__ using UInt128 = unsigned __int128;
  return isa::round_to_format(value.integer < 0, (UInt128{high} << 64) | low, exponent, sticky, format);
}

uint64_t matrix_row(std::span<const uint64_t> row, std::span<const uint64_t> vector, Precision precision,
                    uint64_t z, FloatFormat z_format, FloatFormat format) {
  const FloatFormat block_format = isa::format_of(precision);
  auto block_exponent = [&](std::span<const uint64_t> block) {
    int largest = 0;
    for (const uint64_t bits : block) largest = std::max(largest, isa::unpack(bits, block_format).exponent);
    return largest;
  };
  const int row_exponent = block_exponent(row);
  const int vector_exponent = block_exponent(vector);
  // value = (-1)^s M 2^(E - bias - (m - 1)), no hidden bit. Exponent 0 of a half means E - 6.
  auto element = [&](uint64_t bits, int of_block) -> Exact {
    const isa::Unpacked u = isa::unpack(bits, block_format);
    int exponent = u.exponent;
    if (exponent == 0) {
      if (precision != Precision::kHalf || of_block == 0) return {};
      exponent = of_block - 6;
    }
    uint64_t mantissa = u.mantissa;
    if (precision == Precision::kGFloat) mantissa = mantissa / 32 * 32;
    return {u.sign ? cpp_int(-cpp_int(mantissa)) : cpp_int(mantissa),
            exponent - block_format.bias() - (block_format.mantissa_bits - 1)};
  };
  const int k = precision == Precision::kDouble ? 16 : precision == Precision::kFloat ? 5 : 0;
  Exact sum;
  for (size_t j = 0; j < row.size(); ++j) {
    if (isa::is_infinity(row[j], block_format) || isa::is_infinity(vector[j], block_format)) {
      // Our choice: infinite, with the sign of the first product that has an infinite factor.
      const bool negative = ((row[j] ^ vector[j]) & block_format.sign_bit()) != 0;
      return format.infinity() | (negative ? format.sign_bit() : 0);
    }
    sum = sum + truncated_product(element(row[j], row_exponent), element(vector[j], vector_exponent), k);
  }
  return round(sum + number(z, z_format), format);
}

AluResult alu_lane(const isa::Instruction& instruction, uint64_t x, uint64_t y) {
  const int width = 64 / isa::lanes(instruction.precision);
  const uint64_t all = width == 64 ? ~uint64_t{0} : (uint64_t{1} << width) - 1;
  const uint64_t sign = uint64_t{1} << (width - 1);
  const bool floating = is_float(instruction.precision);
  const bool is_unsigned = instruction.unsigned_op;
  const FloatFormat format = floating ? isa::format_of(instruction.precision) : isa::kFloatFormat;
  const int shift = static_cast<int>(y % static_cast<uint64_t>(width));
  auto not_negative = [&](uint64_t value) { return AluResult{value, (value & sign) == 0}; };
  auto zero_flag = [](uint64_t value) { return AluResult{value, value == 0}; };
  auto choose = [&](bool x_chosen) { return AluResult{x_chosen ? x : y, x_chosen || x == y}; };
  auto relu = [&](int bit_from_top) {
    const bool bit = (x >> (width - bit_from_top) & 1) != 0;
    return AluResult{bit ? sign : y, !bit};
  };
  auto lrelu = [&](int exponent) {
    const bool positive = (x & sign) == 0;
    return AluResult{positive ? y : shift_exponent(y, format, exponent), positive};
  };
  switch (instruction.opcode) {
    case Opcode::kPassa:
      return zero_flag(x);
    case Opcode::kInc: {
      const uint64_t value = (x + 1) & all;
      return is_unsigned ? AluResult{value, x != all} : not_negative(value);
    }
    case Opcode::kDec: {
      const uint64_t value = (x - 1) & all;
      return is_unsigned ? AluResult{value, x != 0} : not_negative(value);
    }
    case Opcode::kAdd: {
      const uint64_t value = (x + y) & all;
      return is_unsigned ? AluResult{value, cpp_int(x) + y <= all} : not_negative(value);
    }
    case Opcode::kSub: {
      const uint64_t value = (x - y) & all;
      return is_unsigned ? AluResult{value, x >= y} : not_negative(value);
    }
    case Opcode::kNot:
      return zero_flag(~x & all);
    case Opcode::kLnot:
      return zero_flag(x == 0 ? 1 : 0);
    case Opcode::kAnd:
      return zero_flag(x & y);
    case Opcode::kOr:
      return zero_flag(x | y);
    case Opcode::kXor:
      return zero_flag(x ^ y);
    case Opcode::kLsl:
      return zero_flag((x << shift) & all);
    case Opcode::kLsr:
      return zero_flag(is_unsigned ? x >> shift
                                   : static_cast<uint64_t>(signed_value(x, width) >> shift) & all);
    case Opcode::kBsl:
      return zero_flag(shift == 0 ? x : ((x << shift) | (x >> (width - shift))) & all);
    case Opcode::kBsr:
      return zero_flag(shift == 0 ? x : ((x >> shift) | (x << (width - shift))) & all);
    case Opcode::kPackbit:
      return {((x << 1) | (y >> (width - 1))) & all, (y & sign) == 0};
    case Opcode::kMax:
    case Opcode::kMin: {
      const bool max = instruction.opcode == Opcode::kMax;
      if (floating) {
        if (isa::is_zero(x, format) && isa::is_zero(y, format)) return {x, true};
        return choose(max ? !float_less(x, y, width) : !float_less(y, x, width));
      }
      if (is_unsigned) return choose(max ? x >= y : x <= y);
      return choose(max ? signed_value(x, width) >= signed_value(y, width)
                        : signed_value(x, width) <= signed_value(y, width));
    }
    case Opcode::kRelu:
      return relu(1);
    case Opcode::kRelu1:
      return relu(2);
    case Opcode::kRelu2:
      return relu(3);
    case Opcode::kRelu3:
      return relu(4);
    case Opcode::kLrelud:
      return lrelu(-1);
    case Opcode::kLreluo:
      return lrelu(-3);
    case Opcode::kIlrelud:
      return lrelu(1);
    case Opcode::kRsqrt:
      return {rsqrt(x, format), (x & sign) == 0};
    case Opcode::kFloor:
      return {floor_of(x, format), false};
    case Opcode::kFtoi:
      return {to_integer(x, format, is_unsigned), false};
    default:
      throw isa::UnsupportedError("the golden model does not implement " + isa::mnemonic(instruction));
  }
}

uint64_t add_stage(const std::vector<uint64_t>& values, FloatFormat format, FloatFormat output) {
  int largest = 0;
  for (const uint64_t bits : values) largest = std::max(largest, isa::unpack(bits, format).exponent);
  cpp_int sum = 0;
  for (const uint64_t bits : values) {
    const isa::Unpacked u = isa::unpack(bits, format);
    if (u.exponent == 0) continue;
    // Three more bits, then down by the exponent difference, nearest even.
    const cpp_int significand = cpp_int((uint64_t{1} << format.mantissa_bits) | u.mantissa) * 8;
    const cpp_int unit = cpp_int(1) << (largest - u.exponent);
    cpp_int aligned = significand / unit;
    const cpp_int twice_rest = 2 * (significand % unit);
    if (twice_rest > unit || (twice_rest == unit && aligned % 2 == 1)) ++aligned;
    sum += u.sign ? cpp_int(-aligned) : aligned;
  }
  return round({sum, largest - format.bias() - format.mantissa_bits - 3}, output);
}

uint64_t reduce(const std::vector<uint64_t>& values, ReduceOp op, Precision precision) {
  const int lanes = isa::lanes(precision);
  const int width = 64 / lanes;
  const uint64_t all = width == 64 ? ~uint64_t{0} : (uint64_t{1} << width) - 1;
  const bool floating = is_float(precision);
  uint64_t result = 0;
  for (int i = 0; i < lanes; ++i) {
    std::vector<uint64_t> members;
    for (const uint64_t value : values) members.push_back(lane(value, width, i));
    auto less = [&](uint64_t a, uint64_t b) {
      return floating ? float_less(a, b, width) : signed_value(a, width) < signed_value(b, width);
    };
    uint64_t reduced = 0;
    switch (op) {
      case ReduceOp::kFadd:
        reduced = add_stage(members, isa::format_of(precision), isa::format_of(precision));
        break;
      case ReduceOp::kMax:
        reduced = *std::max_element(members.begin(), members.end(), less);
        break;
      case ReduceOp::kMin:
        reduced = *std::min_element(members.begin(), members.end(), less);
        break;
      case ReduceOp::kIadd:
        for (const uint64_t member : members) reduced = (reduced + member) & all;
        break;
      case ReduceOp::kBand:
        reduced = all;
        for (const uint64_t member : members) reduced &= member;
        break;
      case ReduceOp::kBor:
        for (const uint64_t member : members) reduced |= member;
        break;
      case ReduceOp::kAnd:
        reduced = std::all_of(members.begin(), members.end(), [](uint64_t member) { return member != 0; });
        break;
      case ReduceOp::kOr:
        reduced = std::any_of(members.begin(), members.end(), [](uint64_t member) { return member != 0; });
        break;
      case ReduceOp::kNone:
        throw isa::InternalError("internal error in the golden model: no reduction");
    }
    result = set_lane(result, width, i, reduced);
  }
  return result;
}

uint64_t reduce_l1bm(const std::vector<uint64_t>& values, ReduceOp op, Precision precision) {
  std::vector<uint64_t> stage;
  for (size_t i = 0; i < values.size(); i += 4) {
    stage.push_back(reduce({values.begin() + static_cast<ptrdiff_t>(i),
                            values.begin() + static_cast<ptrdiff_t>(std::min(i + 4, values.size()))},
                           op, precision));
  }
  return reduce(stage, op, precision);
}

}  // namespace kodama::simulator::golden
