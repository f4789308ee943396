#pragma once

#include <string>
#include <utility>
#include <vector>

#include "scheduler/machine/passes.h"
#include "scheduler/packing/packing.h"

/// The passes that come with Kodama, listed in passes.cpp. Internal to scheduler/.
namespace kodama::scheduler {

/// Of a kind of ProgramPass: one that does nothing.
template <typename Pass>
Pass idle_pass(std::string name) {
  return {std::move(name), "leaves programs as they are", {}, [](auto&&...) {}, true};
}
Coalescer copy_coalescing_pass();
HomeAssigner bank_coloring_pass();
Spiller furthest_use_pass();
Allocator linear_scan_pass();
Allocator first_fit_pass();
Allocator packed_pass();
/// What the allocators solve: a problem of address packing per memory that has values.
std::vector<PackingProblem> allocation_problems(const MachineProgram& program, const isa::Chip& chip);

}  // namespace kodama::scheduler
