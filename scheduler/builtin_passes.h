#pragma once

#include <fmt/format.h>

#include <exception>
#include <string>
#include <string_view>
#include <utility>

#include "isa/error.h"
#include "scheduler/packing.h"
#include "scheduler/passes.h"
#include "scheduler/schedule_problem.h"
#include "scheduler/transfer_problem.h"

/// The passes that come with Kodama, in the order of registration (the first of a kind is the default).
/// Internal to scheduler/.
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
BlockScheduler list_scheduler();
BlockScheduler sequential_scheduler();
BlockScheduler exact_scheduler();
BlockScheduler modulo_scheduler();
BlockScheduler acyclic_scheduler();
TransferScheduler keep_transfers();
TransferScheduler prefetch_transfers();
TransferScheduler on_demand_transfers();

/// While one exists, passes that are registered are marked as the plugin's.
class RegisteringPlugin {
 public:
  explicit RegisteringPlugin(std::string file);
  ~RegisteringPlugin();
  RegisteringPlugin(const RegisteringPlugin&) = delete;
  RegisteringPlugin& operator=(const RegisteringPlugin&) = delete;

  int passes() const;  ///< registered so far
};

/// PassError: this pass of a plugin is wrong. `fault` says how.
template <typename Pass>
[[noreturn]] void blame(std::string_view kind, const Pass& pass, std::string_view fault) {
  throw isa::PassError(
      fmt::format("{} '{}' of plugin {} is at fault: {}", kind, pass.name, pass.plugin, fault));
}
/// Runs or checks a pass. Whatever a plugin's pass throws but a UserError or UnsupportedError, and whatever a
/// check of it finds, is the plugin's fault.
template <typename Pass, typename Work>
void run_blaming(std::string_view kind, const Pass& pass, const Work& work) {
  if (pass.plugin.empty()) return work();
  try {
    work();
  } catch (const isa::UserError&) {
    throw;
  } catch (const isa::UnsupportedError&) {
    throw;
  } catch (const isa::PassError&) {
    throw;
  } catch (const isa::InternalError& error) {  // a verifier's, or of what the pass called
    blame(kind, pass, error.what());
  } catch (const std::exception& error) {
    blame(kind, pass, fmt::format("it throws: {}", error.what()));
  } catch (...) {
    blame(kind, pass, "it throws something that is no std::exception");
  }
}

}  // namespace kodama::scheduler
