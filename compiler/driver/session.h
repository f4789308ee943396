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

/// The commands `kodama run`, `kodama compile` and `kodama sim DIR`, as functions of what the user asked for.
namespace kodama::compiler {

/// Exit codes of the command line.
enum ExitCode : int {
  kExitOk = 0,
  kExitOutOfTolerance = 1,
  kExitUserError = 2,
  kExitUnsupported = 3,
  kExitInternalError = 70,
  kExitInterrupted = 130,  ///< by Ctrl-C, as shells say it
};

/// What the three commands share.
struct SessionOptions {
  std::string chip = "mncore2";
  std::string precision = "gfloat";
  std::map<std::string, int64_t> dims;  ///< --dim
  std::vector<std::string> bind;        ///< --bind NAME=FILE[:MEMBER]: inputs fixed before compilation
  std::vector<std::string> inputs;      ///< --input NAME=FILE[:MEMBER]
  uint64_t seed = 1;                    ///< of random inputs
  int threads = 0;
  int64_t cache_limit = 64;          ///< programs kept of a model that is compiled in parts while it runs
  std::vector<std::string> buckets;  ///< --bucket DIM=N,N,…: of such a model
  std::string output_directory;      ///< where outputs are written as .pb; empty = nowhere
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
  std::string html_file;      ///< of a run: its report; needs report.keeps_timeline
  bool check_layers = false;  ///< every layer's result goes to DRAM, to be compared
  bool timing = true;
  simulator::Hazards hazards = simulator::Hazards::kIgnore;
  std::string host = "overlap";     ///< or serial: RunnerOptions::host_overlaps
  simulator::ReportOptions report;  ///< --stats, --trace, --vcd
};

/// Options of the compiler. Dumps of `points` become files; those of `options` must live as long. `planner`:
/// whose options may be given.
CompileOptions compile_options(const SessionOptions& options, const std::vector<std::string>& points,
                               const std::string& planner);

/// Options of runs on the simulated chip.
RunnerOptions runner_options(const SessionOptions& options);
/// UnsupportedError where --slices is a number and the model is compiled in parts while it runs.
void check_slices_of_parts(const SessionOptions& options, const std::string& open_reason);

struct RunRequest {
  SessionOptions common;
  std::string model_file;
  std::string test_data;      ///< directory with test_data_set_N: run each set and compare with its outputs
  bool show_images = false;   ///< print inputs of shape [1, 1, H, W] as text art
  bool show_classes = false;  ///< print the index of the largest output per row
  int64_t repeat = 1;         ///< runs with the same inputs
  bool pipeline = false;      ///< runs them as compiler/driver/pipeline.h
  int64_t in_flight = 2;      ///< of these, at a time
  std::optional<double> tolerance;  ///< largest error over largest magnitude; default by precision
  bool compare = true;              ///< against the CPU reference
};
/// Compiles and runs a model, prints the layer table; a model that isn't static is compiled in parts while it
/// runs (compiler/dynamic). Returns an exit code (tolerance); throws isa::Error.
int run_command(const RunRequest& request, std::ostream& out);

struct ReportRequest {
  std::vector<std::string> files;  ///< one or two that `kodama run --json` has written
  std::string html_file;
};
/// The report of a run, or of two and what differs between them.
int report_command(const ReportRequest& request);

struct CompileRequest {
  SessionOptions common;
  std::string model_file;
  std::string directory;
};
int compile_command(const CompileRequest& request, std::ostream& out);

struct PlanRequest {
  SessionOptions common;
  std::string model_file;
};
/// Plans a model with every planner and prints what each finds; makes no programs.
int plan_command(const PlanRequest& request, std::ostream& out);

struct SimulateRequest {
  SessionOptions common;  ///< chip empty = the manifest's
  std::string directory;
  std::string test_data;            ///< as in RunRequest
  std::optional<double> tolerance;  ///< likewise
};
/// Exit code as run_command's, for the outputs of test data.
int simulate_package_command(const SimulateRequest& request, std::ostream& out);

/// Tensors for all inputs of a model: from "NAME=FILE[:MEMBER]", else random. UserError for a wrong name,
/// file, type or shape.
TensorMap read_inputs(const CompiledModel& model, const std::vector<std::string>& specifications,
                      uint64_t seed);

}  // namespace kodama::compiler
