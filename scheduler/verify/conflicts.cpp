#include "scheduler/verify/conflicts.h"

#include <algorithm>

namespace kodama::verify {

using isa::Access;
using isa::HazardResource;

std::vector<LoopedAccess> looped_accesses(const isa::Instruction& instruction,
                                          const std::vector<int64_t>& counts, const isa::Chip& chip) {
  return looped_accesses(isa::accesses(instruction, chip), counts, chip);
}

std::vector<LoopedAccess> looped_accesses(std::vector<Access> accesses, const std::vector<int64_t>& counts,
                                          const isa::Chip& chip) {
  std::vector<LoopedAccess> result;
  result.reserve(accesses.size());
  for (Access& access : accesses) {
    if (isa::is_forwarding_register(access.resource)) continue;
    LoopedAccess looped{.access = std::move(access)};
    const Access& own = looped.access;
    const auto used = static_cast<size_t>(std::clamp(own.cycles, 1, isa::kCyclesPerStep));
    looped.low = *std::min_element(own.begin.begin(), own.begin.begin() + used);
    looped.high = *std::max_element(own.begin.begin(), own.begin.begin() + used) + own.length;
    for (size_t d = 0; d < std::min(own.loop_strides.size(), counts.size()); ++d) {
      const int64_t reach = own.loop_strides[d] * std::max<int64_t>(counts[d] - 1, 0);
      (reach < 0 ? looped.low : looped.high) += reach;
    }
    const int64_t wrap = isa::wrap_size(own.resource, chip);
    looped.anywhere = own.whole || (wrap > 0 && (looped.low < 0 || looped.high > wrap));
    result.push_back(std::move(looped));
  }
  return result;
}

int64_t required_gap(const LoopedAccess& first, const LoopedAccess& second, const isa::Chip& chip) {
  const Access& a = first.access;
  const Access& b = second.access;
  if (a.resource != b.resource || (!a.write && !b.write)) return isa::kNoConstraint;
  const bool is_anywhere = first.anywhere || second.anywhere;
  if (!is_anywhere && (first.low >= second.high || second.low >= first.high)) return isa::kNoConstraint;
  if (is_anywhere || (a.resource != HazardResource::kLm0 && a.resource != HazardResource::kLm1))
    return isa::required_gap(a, b, chip);
  // As of one value, which has no port.
  const auto of_a_value = [](Access access) {
    access.value = 0;
    return access;
  };
  return isa::required_gap(of_a_value(a), of_a_value(b), chip);
}

int64_t required_gap(const std::vector<LoopedAccess>& first, const std::vector<LoopedAccess>& second,
                     const isa::Chip& chip) {
  int64_t gap = isa::kNoConstraint;
  for (const LoopedAccess& a : first) {
    for (const LoopedAccess& b : second) gap = std::max(gap, required_gap(a, b, chip));
  }
  return gap;
}

std::vector<LoopedAccess> shifted(std::vector<LoopedAccess> accesses, size_t depth, int64_t shift) {
  for (LoopedAccess& looped : accesses) {
    if (depth >= looped.access.loop_strides.size()) continue;
    for (int64_t& begin : looped.access.begin) begin += looped.access.loop_strides[depth] * shift;
  }
  return accesses;
}

bool meet(const std::vector<LoopedAccess>& first, const std::vector<LoopedAccess>& second,
          const isa::Chip& chip) {
  return required_gap(first, second, chip) != isa::kNoConstraint;
}

}  // namespace kodama::verify
