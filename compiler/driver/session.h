#pragma once

#include <cstdint>
#include <iosfwd>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "compiler/compile/compile_model.h"
#include "compiler/graph/import.h"
#include "compiler/package/compiled_model.h"
#include "compiler/runtime/runner.h"
#include "isa/exit_codes.h"

/// What commands that compile models have in common, and the commands plan and report, as functions of what
/// the user asked for. (run, compile and sim are on the library: tools/commands.)
namespace kodama::compiler {

/// How models are compiled and run.
struct SessionOptions {
  std::string chip = "mncore2";
  std::string precision = "gfloat";
  std::map<std::string, int64_t> dims;  ///< --dim
  std::vector<std::string> bind;        ///< --bind NAME=FILE[:MEMBER]: inputs fixed before compilation
  uint64_t seed = 1;                    ///< of random inputs
  int threads = 0;
  std::set<std::string> dump_after;
  std::string dump_directory = "kodama-dump";
  std::string planner = "pbqp";
  std::string weights = "auto";  ///< compiler::Weights
  std::string slices = "auto";   ///< compiler::parse_slices
  /// Directory of solved conversions; empty = none.
  std::string cache = layout::SolutionCache::default_directory().value_or("");
  scheduler::PipelineChoice passes;
  bool fuse = true;
  std::string json_file;
  bool check_layers = false;  ///< every layer's result goes to DRAM, to be compared
  bool timing = true;
  simulator::Hazards hazards = simulator::Hazards::kIgnore;
  std::string host = "overlap";  ///< or serial: RunnerOptions::host_overlaps
};

/// Options of the compiler. Dumps of `points` become files; those of `options` must live as long. `planner`:
/// whose options may be given.
CompileOptions compile_options(const SessionOptions& options, const std::vector<std::string>& points,
                               const std::string& planner);

/// Options of runs on the simulated chip.
RunnerOptions runner_options(const SessionOptions& options);
/// UnsupportedError where --slices is a number and the model is compiled in parts while it runs.
void check_slices_of_parts(const SessionOptions& options, const std::string& open_reason);

struct ReportRequest {
  std::vector<std::string> files;  ///< one or two that `kodama run --json` has written
  std::string html_file;
};
/// The report of a run, or of two and what differs between them.
int report_command(const ReportRequest& request);

struct PlanRequest {
  SessionOptions common;
  std::string model_file;
};
/// Plans a model with every planner and prints what each finds; makes no programs.
int plan_command(const PlanRequest& request, std::ostream& out);

/// Random tensors for all inputs of a model.
TensorMap random_inputs(const CompiledModel& model, uint64_t seed);

}  // namespace kodama::compiler
