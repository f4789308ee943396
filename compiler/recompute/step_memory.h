#pragma once

#include <onnx/onnx_pb.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "compiler/compile/compile_model.h"
#include "compiler/graph/gradient/train_step.h"
#include "scheduler/recompute/recompute.h"

/// How much of its results a model keeps in memory while it runs, and the same model with less: in another
/// order, with parts of it computed again instead of kept. Made for training steps, whose backward part reads
/// what the forward part has made.
///
///     x -> Conv -> a -> Relu -> b -> ...        backward: reads b, a
///     x -> Conv -> a -> Relu -> b -> ...        backward: reads b', a;   a -> Relu -> b'
///
/// A node that is done again is in the graph a second time, with other names, behind what comes before it.
/// No pass makes one of two nodes that compute the same, and all of them leave the order of nodes as it is.
namespace kodama::compiler {

/// A model as a problem of scheduler/recompute: an operation is a layer, as the compiler makes it of one or
/// more nodes; layers that come from one node are one operation. A value is a tensor between layers, of 4
/// bytes for each word of the chip. Inputs and constants are no part of it, outputs are kept.
/// Cycles are an estimate: the largest of products, vector operations, and bytes of all operands and the
/// result from and to DRAM, each at its peak.
class StepMemory {
 public:
  /// Of a model that import_model has made.
  StepMemory(onnx::ModelProto model, const isa::Chip& chip, const CompileOptions& options);

  const scheduler::RecomputeProblem& problem() const { return problem_; }
  /// The same with *activations* alone: what an output of the model, the loss, is computed of. Of all else
  /// bytes are 0. InternalError if the model has no such output.
  scheduler::RecomputeProblem activations(const std::string& loss) const;
  /// The model with its nodes in the order of these steps (RecomputeSchedule::steps), behind the graph
  /// passes. It computes the same from the same inputs.
  onnx::ModelProto rewritten(const std::vector<int>& steps) const;

 private:
  class Reader;
  onnx::ModelProto model_;  ///< behind the graph passes
  scheduler::RecomputeProblem problem_;
  std::vector<std::vector<int>> nodes_;  ///< by operation, rising; what is in none comes when it is needed
  std::map<std::string, int> outputs_;   ///< the value of each output that an operation makes
};

/// "800M", "2G", "123456" bytes (K, M, G: times 1024), or "50%" of what the step takes as it is. UserError
/// for others, which begins with the option's name.
struct MemoryLimit {
  int64_t bytes = 0;
  double share = 0;  ///< 0 to 1; bytes, if it is 0
};
MemoryLimit parse_memory_limit(const std::string& text);

struct StepMemoryRequest {
  MemoryLimit limit;
  bool counts_all = false;           ///< all results are limited, not activations alone
  std::string recomputer;            ///< scheduler::find_recomputer
  passes::PassOptions options = {};  ///< of the recomputer
  std::string problem_file;          ///< where the problem and what was found are written; empty: nowhere
};
/// What a step was, and what it is: bytes that are alive at a time, and cycles, by that estimate.
struct StepMemoryReport {
  struct Measure {
    int64_t activations = 0;
    int64_t results = 0;  ///< activations and all else
    int64_t cycles = 0;
    int64_t layers = 0;
  };
  int64_t limit = 0;
  Measure before, after;
  std::string how;
  std::string to_string() const;  ///< some lines
};
/// Changes a step so that its results fit the limit. What it reports is measured on the layers of the changed
/// model. UnsupportedError if no way is found, with the least that was.
StepMemoryReport limit_step_memory(StepModel& step, const isa::Chip& chip, const CompileOptions& options,
                                   const StepMemoryRequest& request);

}  // namespace kodama::compiler
