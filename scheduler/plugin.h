#pragma once

#include <cstddef>
#include <cstdint>

#include "scheduler/passes.h"
#include "scheduler/schedule_problem.h"
#include "scheduler/transfer_problem.h"

/// A plugin is a shared library with passes in it; `--plugin FILE` loads it before passes are chosen.
///
/// It has one function, which registers the passes, written with KODAMA_PLUGIN. A pass that is registered is
/// chosen by name as one of Kodama's own:
///
///     kodama::scheduler::Schedule mine(const kodama::scheduler::ScheduleProblem& problem,
///                                      const kodama::scheduler::PassOptions& options);
///
///     KODAMA_PLUGIN() {
///       kodama::scheduler::register_pass(
///           kodama::scheduler::BlockScheduler{.name = "mine", .description = "...", .run = mine});
///     }
///
/// A name that is taken is a UserError, and so is a plugin that was built against other headers. Plugins stay
/// loaded until the process ends. docs/write-a-pass.md has a whole one.
namespace kodama::scheduler {

/// Raised by one whenever a public header changes so that plugins must be built again.
inline constexpr int kPluginAbi = 3;

/// The sizes of what crosses the border between Kodama and a plugin, in one number: it differs where the
/// headers are the same but the compiler lays things out differently (_GLIBCXX_DEBUG, another standard
/// library), or where somebody forgot to raise kPluginAbi.
constexpr int plugin_layout() {
  uint32_t hash = 2166136261U;
  for (const size_t size : {sizeof(ScheduleProblem),
                            sizeof(ScheduleProblem::Resource),
                            sizeof(ScheduleProblem::Use),
                            sizeof(ScheduleProblem::Operation),
                            sizeof(ScheduleProblem::Dependence),
                            sizeof(ScheduleProblem::Separation),
                            sizeof(Schedule),
                            sizeof(PassOptions),
                            sizeof(PassOptionInfo),
                            sizeof(BlockScheduler),
                            sizeof(TransferProblem),
                            sizeof(TransferProblem::Transfer),
                            sizeof(TransferProblem::Buffer),
                            sizeof(TransferProblem::Keep),
                            sizeof(TransferSchedule),
                            sizeof(TransferScheduler),
                            sizeof(HomeAssigner),
                            sizeof(Coalescer),
                            sizeof(Spiller),
                            sizeof(Allocator),
                            sizeof(MachineProgram),
                            sizeof(Value),
                            sizeof(Operation),
                            sizeof(Node),
                            sizeof(isa::Instruction),
                            sizeof(isa::Operand),
                            sizeof(isa::Chip)}) {
    hash = (hash ^ static_cast<uint32_t>(size)) * 16777619U;
  }
  return static_cast<int>(hash >> 1);
}

}  // namespace kodama::scheduler

/// Begins the function that registers the passes of a plugin; once in every plugin.
// clang-format off
#define KODAMA_PLUGIN()                                                    \
  extern "C" {                                                             \
  [[gnu::visibility("default")]] extern const int kodama_plugin_abi;       \
  [[gnu::visibility("default")]] extern const int kodama_plugin_layout;    \
  [[gnu::visibility("default")]] void kodama_register_passes();            \
  const int kodama_plugin_abi = kodama::scheduler::kPluginAbi;             \
  const int kodama_plugin_layout = kodama::scheduler::plugin_layout();     \
  }                                                                        \
  void kodama_register_passes()
// clang-format on
