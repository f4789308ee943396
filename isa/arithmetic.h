#pragma once

#include <cstdint>
#include <string_view>

/// Small arithmetic that everybody needs.
namespace kodama::isa {

/// value / by, rounded up; both positive.
constexpr int64_t ceil_div(int64_t value, int64_t by) {
  return (value + by - 1) / by;
}
/// The next multiple of `unit` from `value` on.
constexpr int64_t round_up(int64_t value, int64_t unit) {
  return ceil_div(value, unit) * unit;
}

/// FNV-1a: the same on every machine and in every version, which std::hash need not be.
inline constexpr uint64_t kHashStart = 14695981039346656037ULL;
constexpr uint64_t hash(std::string_view text, uint64_t start = kHashStart) {
  uint64_t value = start;
  for (const char c : text) value = (value ^ static_cast<unsigned char>(c)) * 1099511628211ULL;
  return value;
}

}  // namespace kodama::isa
