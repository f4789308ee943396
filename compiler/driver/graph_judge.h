#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "compiler/compile/compile_model.h"
#include "compiler/driver/shrink_graph.h"

/// One random model on the simulated chip, held against the CPU reference. Private to compiler/driver.
namespace kodama::compiler {

/// What a graph is compiled for, and how.
struct Setting {
  std::string chip;
  std::string precision;
  std::string planner = ModelPlanner::planner_names().front();
  Weights weights = Weights::kAuto;
  bool fuse = true;
  scheduler::PipelineChoice passes = {};
  bool repeats = false;          ///< runs once more, with other inputs between
  bool is_dirty = false;         ///< memories hold anything at first
  bool compares_passes = false;  ///< with the bits of the default passes
};

/// `is_quick`: mostly one that takes less time.
Setting random_setting(uint64_t seed, const std::string& chip, const std::string& precision, bool is_quick);
/// A reason without names and numbers.
std::string in_general(const std::string& reason);
/// As options of `kodama run`.
std::string command_line(const Setting& setting);

enum class Outcome : uint8_t {
  kPassed,
  kRounding,     ///< out of tolerance, but the network makes rounding errors that large
  kUnsupported,  ///< the reason says what
  kFailed,
};
struct Verdict {
  Outcome outcome = Outcome::kPassed;
  std::string kind = {};  ///< of a failure: shrinking keeps it
  std::string reason = {};
  std::vector<std::string> host_reasons = {};  ///< of layers on the host
};

/// Compiles and runs. Node by node the reference computes what the outputs must be, from there on with what
/// they are on the chip: one is as good as what was computed of the outputs before it. Never throws.
Verdict judge(const GraphProblem& problem, const Setting& setting);

}  // namespace kodama::compiler
