#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "isa/instruction.h"

/// Internal to verify/.
namespace kodama::verify {

/// Smallest and largest + 1 word that an operand of a PE memory names over all iterations of loops with these
/// counts.
inline std::pair<int64_t, int64_t> operand_range(const isa::Operand& operand,
                                                 const std::vector<int64_t>& trips) {
  int64_t low = operand.address(0);
  int64_t high = low;
  for (int cycle = 1; cycle < isa::kCyclesPerStep; ++cycle) {
    low = std::min(low, operand.address(cycle));
    high = std::max(high, operand.address(cycle));
  }
  for (size_t d = 0; d < std::min(trips.size(), operand.loop_strides.size()); ++d) {
    const int64_t reach = operand.loop_strides[d] * std::max<int64_t>(trips[d] - 1, 0);
    (reach < 0 ? low : high) += reach;
  }
  return {low, high + words(operand.width) * (operand.j >= 0 ? 2 : 1)};
}

}  // namespace kodama::verify
