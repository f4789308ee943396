#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <limits>
#include <string>
#include <string_view>

/// Characters and numbers of VSM text. Internal to the assembler.
namespace kodama::assembler {

inline bool is_blank(char c) {
  return c == ' ' || c == '\t';
}
inline bool is_digit(char c) {
  return c >= '0' && c <= '9';
}
inline bool is_lower(char c) {
  return c >= 'a' && c <= 'z';
}
/// Value of a hex digit, -1 for anything else.
inline int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

/// A place in one line. Reading at or beyond the end gives '\0', which no rule accepts.
struct Cursor {
  const char* position = nullptr;
  const char* end = nullptr;

  bool at_end() const { return position >= end; }
  char peek(std::ptrdiff_t ahead = 0) const { return ahead < end - position ? position[ahead] : '\0'; }
  bool accept(char c) {
    if (at_end() || *position != c) return false;
    ++position;
    return true;
  }
  bool accept(std::string_view text) {
    if (!rest().starts_with(text)) return false;
    position += text.size();
    return true;
  }
  void skip_blanks() {
    while (position < end && is_blank(*position)) ++position;
  }
  std::string_view rest() const { return {position, static_cast<size_t>(end - position)}; }
  std::string_view since(const char* begin) const { return {begin, static_cast<size_t>(position - begin)}; }
  /// Whether an operand may end `ahead` characters from here.
  bool at_boundary(std::ptrdiff_t ahead = 0) const {
    if (ahead >= end - position) return true;
    const char c = position[ahead];
    return is_blank(c) || c == ';' || c == '/' || c == '@';
  }
};

enum class NumberStatus : uint8_t { kOk, kMissing, kOverflow };

/// Which spellings of a number a place allows. Operands have no 0b: `$lm0b1` would be read as address 1 where
/// d get means address 0 of L1B 1.
enum class Radix : uint8_t { kDecimal, kDecimalOrHex, kAny };

/// Reads an unsigned number up to `limit`: decimal, 0x… or 0b…. Consumes all its digits even when it
/// overflows.
inline NumberStatus read_number(Cursor& in, int64_t& value, Radix allowed = Radix::kAny,
                                uint64_t limit = std::numeric_limits<int64_t>::max()) {
  unsigned radix = 10;
  if (allowed != Radix::kDecimal && in.peek() == '0') {
    if (in.peek(1) == 'x' && hex_digit(in.peek(2)) >= 0) radix = 16;
    if (allowed == Radix::kAny && in.peek(1) == 'b' && (in.peek(2) == '0' || in.peek(2) == '1')) radix = 2;
    if (radix != 10) in.position += 2;
  }
  const char* begin = in.position;
  uint64_t result = 0;
  bool overflow = false;
  for (; !in.at_end(); ++in.position) {
    const int digit = radix == 16              ? hex_digit(*in.position)
                      : is_digit(*in.position) ? *in.position - '0'
                                               : -1;
    if (digit < 0 || digit >= static_cast<int>(radix)) break;
    if (result > (limit - static_cast<uint64_t>(digit)) / radix) overflow = true;
    if (!overflow) result = result * radix + static_cast<uint64_t>(digit);
  }
  if (in.position == begin) return NumberStatus::kMissing;
  value = static_cast<int64_t>(result);
  return overflow ? NumberStatus::kOverflow : NumberStatus::kOk;
}

/// `text` for a message: cut to a readable length, unprintable characters as \xNN.
inline std::string excerpt(std::string_view text) {
  constexpr size_t kMaxLength = 40;
  std::string result;
  for (char c : text.substr(0, kMaxLength)) {
    if (c >= 0x20 && c < 0x7f) {
      result += c;
    } else {
      result += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
    }
  }
  if (text.size() > kMaxLength) result += "…";
  return result;
}

}  // namespace kodama::assembler
