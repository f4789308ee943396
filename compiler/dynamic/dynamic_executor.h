#pragma once

#include <onnx/onnx_pb.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "compiler/compile/compile_model.h"
#include "compiler/dynamic/graph_info.h"
#include "compiler/dynamic/program_cache.h"
#include "compiler/dynamic/stored_programs.h"
#include "compiler/reference/executor.h"
#include "compiler/report/report.h"
#include "compiler/runtime/runner.h"

/// Runs models whose shapes or ways only the data know: open dimensions, shapes that depend on data, control
/// flow, sequences and optionals.
///
/// The model is walked graph by graph. Nodes whose shapes follow from what is known now make a region
/// (region.h), which is imported and compiled as a model of its own and runs on the simulated chip. The rest
/// is the host's: operators whose results' shapes only the data say, sequences and optionals, and what the
/// chip's way refuses run on the CPU reference; of If, Loop and Scan the host decides which graph comes next,
/// and that is walked the same way, with the surrounding values in sight. Programs are kept
/// (program_cache.h).
namespace kodama::compiler {

struct DynamicOptions {
  CompileOptions compile;
  RunnerOptions runner;
  int64_t cache_limit = 64;            ///< programs that are kept in memory
  StoredPrograms* programs = nullptr;  ///< on disk; null: none
  /// Dimensions that are padded (buckets.h). UserError of the executor's constructor for those that the model
  /// doesn't have.
  std::vector<Bucket> buckets = {};
  /// Called before a region is compiled and before anything runs, with its name.
  std::function<void(const std::string&)> progress;
};

enum class RegionPlace : uint8_t {
  kChip,    ///< with layers on the host, if `reasons` says so
  kHost,    ///< by the CPU reference, or all its layers are on the host
  kFolded,  ///< nothing to do at run time: results follow from shapes and constants
};

/// What was run of a region, or of a node on the host: all runs of one DynamicExecutor::run() together.
struct RegionRuns {
  std::string name;                    ///< "main 3", "body of 'loop' 1"
  std::vector<std::string> operators;  ///< of its nodes, in their order
  RegionPlace place = RegionPlace::kChip;
  std::vector<std::string> reasons;  ///< why it, or what of it, is on the host
  bool only_decides = false;         ///< on the host: control flow, or handling of sequences and optionals
  int64_t runs = 0;
  int64_t compiles = 0;
  int64_t disk_hits = 0;       ///< programs that were read from disk
  int64_t hits = 0;            ///< runs whose program was in memory
  double compile_seconds = 0;  ///< and for reading from disk
  std::string bucket;          ///< of the last run: "seq 37 in 64"; empty: none
  std::string no_bucket;       ///< why there is none though a dimension has buckets
  StageStats stats;            ///< without what is sent once
  /// Cycles of the layers that the host computes in it, all runs together.
  std::vector<HostShare> host_layers;
  Comparisons layers;  ///< the worst of all runs, where layers are compared (CompileOptions::store_layers)
  int64_t preload_bytes = 0;   ///< constants, for programs that ran for the first time
  int64_t preload_cycles = 0;  ///< and what else happens before their first run
  int64_t link_bytes() const { return stats.bytes_to_chip + stats.bytes_from_chip; }
};

/// What was run of a program: of a region, for the types and bound values of its inputs.
struct ProgramRuns {
  size_t region = 0;  ///< of DynamicOutcome::regions
  std::shared_ptr<const Code> code;
  std::map<std::string, Shape> inputs;                  ///< their shapes, those of a bucket if it has one
  Program::Source source = Program::Source::kCompiled;  ///< of its code, in this run or one before
  int64_t runs = 0;
  StageStats stats;  ///< of all runs together, without what is sent once
  // Of the first run:
  int64_t first_cycles = 0;
  double first_dram_bytes = 0;
  RunOutcome last;  ///< of the last run, without outputs
  // The last run in the report's timeline: its programs, from this one on.
  size_t first_program = 0;
  size_t programs = 0;
};

struct DynamicOutcome {
  ValueMap outputs;
  std::vector<RegionRuns> regions;    ///< in the order in which they first ran
  std::vector<ProgramRuns> programs;  ///< likewise; none unless the run's report has a timeline
  RegionRuns total;                   ///< sums
  int64_t cached_programs = 0;        ///< behind the run
  int64_t dropped_programs = 0;       ///< for the limit, ever
  /// Whether all but control flow and sequences is on the chip, or folded.
  bool all_on_chip() const;
};

class DynamicExecutor {
 public:
  /// `imported` is what import_any_model() makes.
  DynamicExecutor(onnx::ModelProto imported, isa::Chip chip, DynamicOptions options);
  ~DynamicExecutor();
  DynamicExecutor(const DynamicExecutor&) = delete;
  DynamicExecutor& operator=(const DynamicExecutor&) = delete;

  const onnx::ModelProto& model() const { return model_; }

  /// `inputs` gives every input of the model a value. UserError for wrong inputs, and for nodes that their
  /// values don't fit, UnsupportedError for what neither the chip nor the reference can do.
  /// `report`, if not null, has every program that runs, under the region's name; its programs live as long
  /// as the executor.
  DynamicOutcome run(const ValueMap& inputs, simulator::RunReport* report = nullptr);

 private:
  class Walk;

  onnx::ModelProto model_;
  isa::Chip chip_;
  DynamicOptions options_;
  OperatorSets operators_;
  std::unique_ptr<GraphInfo> main_;
  /// Graphs in which Ifs are replaced by a branch, by what decides them.
  struct Decided {
    onnx::GraphProto graph;
    std::unique_ptr<GraphInfo> info;
  };
  std::map<std::string, Decided> decided_;
  ProgramCache cache_;
  std::map<std::string, BucketAxes> named_axes_;                       ///< by values of the main graph
  std::unordered_map<std::string, std::weak_ptr<Code>> bucket_codes_;  ///< by program_key()
  int64_t runs_ = 0;
  std::vector<std::shared_ptr<Code>> reported_;  ///< what reports refer to
};

}  // namespace kodama::compiler
