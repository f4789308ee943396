#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "isa/instruction.h"

/// What a mask names and when it lets writes through, for accesses and issue rules.
namespace kodama::isa {
/// Mask entry that a mask names; patterns are the constant entries 16..31. Nothing for no mask.
inline std::optional<int> mask_entry(const Mask& mask) {
  switch (mask.kind) {
    case Mask::Kind::kPattern:
      return 16 + mask.value;
    case Mask::Kind::kRegister:
      return mask.value;
    case Mask::Kind::kNone:
    case Mask::Kind::kVirtual:
      break;
  }
  return std::nullopt;
}

inline bool is_run_time_mask(const Mask& mask) {
  if (mask.kind == Mask::Kind::kVirtual) return true;
  const std::optional<int> entry = mask_entry(mask);
  return entry && *entry >= 1 && *entry < kMaskRegisters;
}

/// Bit c: cycle c may write. A pattern's leftmost digit is cycle 0.
inline uint8_t writing_cycles(const Mask& mask) {
  const std::optional<int> entry = mask_entry(mask);
  if (!entry || *entry < 16) return 0b1111;
  uint8_t cycles = 0;
  for (int c = 0; c < kCyclesPerStep; ++c) {
    if ((*entry >> (3 - c) & 1) != 0) cycles |= static_cast<uint8_t>(1U << c);
  }
  return cycles;
}

/// Loop strides that end in zeros mean the same without them.
inline std::vector<int64_t> without_trailing_zeros(std::vector<int64_t> strides) {
  while (!strides.empty() && strides.back() == 0) strides.pop_back();
  return strides;
}

}  // namespace kodama::isa
