#pragma once

#include "scheduler/passes.h"

/// The passes that come with Kodama, in the order of registration (the first of a kind is the default).
/// Internal to scheduler/.
namespace kodama::scheduler {

HomeAssigner bank_coloring_pass();
Allocator linear_scan_pass();
Allocator first_fit_pass();
InstructionScheduler list_scheduling_pass();
InstructionScheduler sequential_pass();

}  // namespace kodama::scheduler
