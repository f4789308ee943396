#pragma once

#include <functional>
#include <string>
#include <vector>

#include "isa/chip.h"
#include "isa/program.h"
#include "passes/pass_options.h"
#include "scheduler/machine/machine_program.h"
#include "scheduler/machine/program_scheduling.h"

/// Runs the passes of scheduler/, with a verifier of scheduler/verify/ behind each. The passes themselves
/// can't link the verifiers.
namespace kodama::scheduler {

/// Names of the passes to use; empty = default.
struct PipelineChoice {
  std::string coalescer = {};
  std::string home_assigner = {};
  std::string spiller = {};
  std::string allocator = {};
  std::string scheduler = {};       ///< of blocks
  std::string loop_scheduler = {};  ///< of loops
  std::string transfers = {};       ///< of transfers (transfer_problem.h), over several programs
  passes::PassOptions options = {};
  /// What passes declare that ran before: their options are among `options`.
  std::vector<const std::vector<passes::PassOptionInfo>*> others = {};
};
/// UserError when an option is given that none of the chosen passes has.
void check_options(const PipelineChoice& choice);
/// Who wants to see results: after each pass under its name, every problem of instruction scheduling as
/// kProblemDump, and of address packing in PE memories as kAllocationDump. All may be empty.
struct PassDump {
  std::function<bool(const std::string& point)> wants;
  std::function<void(const std::string& point, const std::string& extension, const std::string& text)> write;
  /// The machine program whose values have addresses, and the program made of it.
  std::function<void(const MachineProgram&, const isa::Program&)> observe = {};
  /// What is known of the program's schedules.
  std::function<void(const ScheduleProofs&)> conclude = {};
};
inline constexpr const char* kProblemDump = "schedule-problem";
inline constexpr const char* kExpansionDump = "loop-expansion";
inline constexpr const char* kAllocationDump = "allocation-problem";

/// A program of a machine program. PassError when a plugin's pass is wrong, UserError when an option is given
/// that none of the chosen passes has. `known`: schedules of the programs before it, to which its own are
/// added.
isa::Program build_program(MachineProgram program, const isa::Chip& chip, const PipelineChoice& choice = {},
                           const PassDump& dump = {}, KnownSchedules* known = nullptr);

}  // namespace kodama::scheduler
