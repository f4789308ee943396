#pragma once

#include "scheduler/passes.h"
#include "scheduler/schedule_problem.h"

/// The passes that come with Kodama, in the order of registration (the first of a kind is the default).
/// Internal to scheduler/.
namespace kodama::scheduler {

HomeAssigner bank_coloring_pass();
Allocator linear_scan_pass();
Allocator first_fit_pass();
BlockScheduler list_scheduler();
BlockScheduler sequential_scheduler();
BlockScheduler exact_scheduler();
BlockScheduler modulo_scheduler();
BlockScheduler acyclic_scheduler();

/// UserError: the option has another value than its description allows.
[[noreturn]] void reject_option(const PassOptionInfo& info, const std::string& found);

}  // namespace kodama::scheduler
