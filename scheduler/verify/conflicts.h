#pragma once

#include <cstdint>
#include <vector>

#include "isa/chip.h"
#include "isa/costs.h"

/// Whether two accesses inside loops depend on each other, for all iterations at once. Internal to verify/.
namespace kodama::verify {

/// An access, and the addresses it reaches over all iterations of the loops around it.
struct LoopedAccess {
  isa::Access access;
  int64_t low = 0;
  int64_t high = 0;
  bool anywhere = false;  ///< not known before run time, or it wraps
};

/// The accesses of an instruction inside loops of these counts, outermost first. Forwarding registers are
/// left out: of those, one wants to know whose result they hold (forwards.h).
std::vector<LoopedAccess> looped_accesses(const isa::Instruction& instruction,
                                          const std::vector<int64_t>& counts, const isa::Chip& chip);
/// The same of those that isa::accesses has found.
std::vector<LoopedAccess> looped_accesses(std::vector<isa::Access> accesses,
                                          const std::vector<int64_t>& counts, const isa::Chip& chip);

/// isa::required_gap of two accesses with the same counters in all loops around both, but for the port of LM,
/// which keeps those apart that don't meet and may come in any order (verify_rules looks at it). Accesses
/// with different strides count as overlapping unless the addresses they ever reach are apart.
int64_t required_gap(const LoopedAccess& first, const LoopedAccess& second, const isa::Chip& chip);

/// The same for two instructions: the largest of any pair, kNoConstraint when there is none.
int64_t required_gap(const std::vector<LoopedAccess>& first, const std::vector<LoopedAccess>& second,
                     const isa::Chip& chip);

/// The accesses of an iteration `shift` later of the loop number `depth`, as seen from this one.
std::vector<LoopedAccess> shifted(std::vector<LoopedAccess> accesses, size_t depth, int64_t shift);

/// Whether some access of one instruction may mean the same as one of the other, and one of both writes.
bool meet(const std::vector<LoopedAccess>& first, const std::vector<LoopedAccess>& second,
          const isa::Chip& chip);

}  // namespace kodama::verify
