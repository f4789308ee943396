#include <fmt/format.h>

#include <bit>
#include <charconv>
#include <cmath>
#include <limits>

#include "assembler/checks.h"
#include "assembler/lexer.h"
#include "isa/number_formats.h"

/// Payloads of imm and immu (section 7). The 32 bits go to all four words of the result (imm) or to the
/// upper word of each LW (immu); the kind says what value that is meant to be.
namespace kodama::assembler {

using isa::ImmediateKind;

namespace {

/// Integers below this print in decimal, others in hexadecimal.
constexpr int64_t kLargestDecimal = 0xffff;

struct KindName {
  std::string_view name;
  ImmediateKind kind;
};
constexpr KindName kKindNames[] = {
    {"i", ImmediateKind::kInt},    {"ui", ImmediateKind::kUnsigned},
    {"s", ImmediateKind::kShort},  {"us", ImmediateKind::kUnsignedShort},
    {"f", ImmediateKind::kFloat},  {"h", ImmediateKind::kHalf},
    {"d", ImmediateKind::kDouble}, {"l", ImmediateKind::kLong},
};

std::string_view kind_name(ImmediateKind kind) {
  for (const KindName& entry : kKindNames) {
    if (entry.kind == kind) return entry.name;
  }
  return "?";
}

/// Sign, magnitude and nothing behind it.
bool read_integer(std::string_view text, bool& negative, uint64_t& magnitude, std::string& error) {
  Cursor in{text.data(), text.data() + text.size()};
  negative = in.accept('-');
  if (!negative) in.accept('+');
  int64_t value = 0;
  const NumberStatus status = read_number(in, value, Radix::kAny, std::numeric_limits<uint64_t>::max());
  magnitude = static_cast<uint64_t>(value);
  if (status == NumberStatus::kOverflow && in.at_end()) {
    error = fmt::format("number {} is too large", excerpt(text));
    return false;
  }
  if (status != NumberStatus::kOk || !in.at_end()) {
    error = fmt::format("\"{}\" is not an integer; write e.g. 5, -3, 0x1f or 0b101", excerpt(text));
    return false;
  }
  return true;
}

/// Two's complement of a number in [low, high].
bool read_integer_between(std::string_view text, int64_t low, uint64_t high, uint64_t& bits,
                          std::string& error) {
  bool negative = false;
  uint64_t magnitude = 0;
  if (!read_integer(text, negative, magnitude, error)) return false;
  const uint64_t limit = negative ? 0 - static_cast<uint64_t>(low) : high;
  if (magnitude > limit) {
    error = fmt::format("{} is out of range; allowed: {} to {}", excerpt(text), low, high);
    return false;
  }
  bits = negative ? 0 - magnitude : magnitude;
  return true;
}

template <typename Float>
bool read_float(std::string_view text, Float& value, std::string& error) {
  if (text.starts_with('+') && !text.starts_with("+-")) text.remove_prefix(1);
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool complete = !text.empty() && end == text.data() + text.size();
  if (complete && status == std::errc::result_out_of_range) {
    error =
        fmt::format("{} is outside the range of the format; write inf or 0 if that is meant", excerpt(text));
    return false;
  }
  if (!complete || status != std::errc{}) {
    error = fmt::format("\"{}\" is not a number; write e.g. 1.5, -2, 1e-3 or inf", excerpt(text));
    return false;
  }
  if (std::isnan(value)) {
    error = "the chip has no NaN; write the bit pattern as i\"0x…\" if that is meant";
    return false;
  }
  return true;
}

std::string print_integer(int64_t value, int hex_digits) {
  if (value >= -kLargestDecimal && value <= kLargestDecimal) return fmt::format("{}", value);
  const uint64_t mask = hex_digits == 16 ? ~uint64_t{0} : (uint64_t{1} << (4 * hex_digits)) - 1;
  return fmt::format("0x{:0{}x}", static_cast<uint64_t>(value) & mask, hex_digits);
}

/// The 64-bit value of each LW of the result.
uint64_t long_value(const isa::Instruction& instruction, uint32_t payload) {
  return uint64_t{payload} << 32 | (instruction.unsigned_op ? 0 : payload);
}

}  // namespace

std::string print_payload(const isa::Instruction& instruction, int64_t payload) {
  const uint32_t bits = static_cast<uint32_t>(payload);
  std::string text;
  switch (instruction.immediate_kind) {
    case ImmediateKind::kInt:
      text = print_integer(static_cast<int32_t>(bits), 8);
      break;
    case ImmediateKind::kUnsigned:
      text = print_integer(bits, 8);
      break;
    case ImmediateKind::kShort:
      text = fmt::format("{}", static_cast<int16_t>(bits & 0xffff));
      break;
    case ImmediateKind::kUnsignedShort:
      text = fmt::format("{}", bits & 0xffff);
      break;
    case ImmediateKind::kFloat:
      text = fmt::format("{:#}", std::bit_cast<float>(bits));
      break;
    case ImmediateKind::kHalf:
      text = fmt::format("{:#}", isa::to_double(bits & 0xffff, isa::kHalfFormat));
      break;
    case ImmediateKind::kDouble:
      text = fmt::format("{:#}", std::bit_cast<double>(uint64_t{bits} << 32));
      break;
    case ImmediateKind::kLong:
      text = print_integer(static_cast<int64_t>(long_value(instruction, bits)), 16);
      break;
  }
  return fmt::format("{}\"{}\"", kind_name(instruction.immediate_kind), text);
}

bool parse_payload(std::string_view kind, std::string_view text, isa::Instruction& instruction,
                   int64_t& payload, std::string& error) {
  const KindName* found = nullptr;
  for (const KindName& entry : kKindNames) {
    if (entry.name == kind) found = &entry;
  }
  if (found == nullptr) {
    error = fmt::format("unknown kind of payload '{}'; allowed: i ui s us f h d l, e.g. i\"5\" or f\"1.5\"",
                        excerpt(kind));
    return false;
  }
  instruction.immediate_kind = found->kind;
  uint64_t bits = 0;
  switch (found->kind) {
    case ImmediateKind::kInt:
      // Bit patterns are written as i"0xffffffff" too, so the unsigned range is included.
      if (!read_integer_between(text, INT32_MIN, UINT32_MAX, bits, error)) return false;
      break;
    case ImmediateKind::kUnsigned:
      if (!read_integer_between(text, 0, UINT32_MAX, bits, error)) return false;
      break;
    case ImmediateKind::kShort:
      if (!read_integer_between(text, INT16_MIN, UINT16_MAX, bits, error)) return false;
      bits = (bits & 0xffff) * 0x10001;
      break;
    case ImmediateKind::kUnsignedShort:
      if (!read_integer_between(text, 0, UINT16_MAX, bits, error)) return false;
      bits *= 0x10001;
      break;
    case ImmediateKind::kFloat: {
      float value = 0;
      if (!read_float(text, value, error)) return false;
      bits = std::bit_cast<uint32_t>(value);
      break;
    }
    case ImmediateKind::kHalf: {
      double value = 0;
      if (!read_float(text, value, error)) return false;
      bits = isa::from_double(value, isa::kHalfFormat);
      const bool overflow = std::isfinite(value) && isa::is_infinity(bits, isa::kHalfFormat);
      const bool underflow = value != 0 && isa::is_zero(bits, isa::kHalfFormat);
      if (overflow || underflow) {
        error = fmt::format("{} is outside the range of the format; write inf or 0 if that is meant",
                            excerpt(text));
        return false;
      }
      bits *= 0x10001;
      break;
    }
    case ImmediateKind::kDouble: {
      double value = 0;
      if (!read_float(text, value, error)) return false;
      bits = std::bit_cast<uint64_t>(value) >> 32;
      break;
    }
    case ImmediateKind::kLong: {
      uint64_t value = 0;
      if (!read_integer_between(text, INT64_MIN, UINT64_MAX, value, error)) return false;
      bits = value >> 32;
      if (long_value(instruction, static_cast<uint32_t>(bits)) != value) {
        error = fmt::format("{} can't be made by one {}, which gives {}", excerpt(text),
                            instruction.unsigned_op ? "immu" : "imm",
                            instruction.unsigned_op ? "a lower word of 0" : "equal upper and lower words");
        return false;
      }
      break;
    }
  }
  payload = static_cast<int64_t>(bits & UINT32_MAX);
  return true;
}

}  // namespace kodama::assembler
