#pragma once

#include <onnx/onnx_pb.h>

#include <functional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/graph/fold_constants.h"
#include "passes/pass_options.h"

/// Passes over the ONNX graph. Each takes a model as import_model() makes it and leaves one that computes the
/// same, with the same inputs and outputs. What ONNX's graphs are made of, protobuf's own documentation says;
/// graph_view.h finds makers and readers of values, onnx_model.h has what most passes need.
namespace kodama::compiler {

struct GraphPassOptions {
  /// Operators of ai.onnx that are lowered directly, though ONNX has a function body for them:
  /// expand-functions leaves them alone.
  std::set<std::string> direct_operators = {};
  /// See fold_constants().
  int64_t fold_limit = kDefaultFoldLimit;
  passes::PassOptions given = {};
};

struct GraphPass {
  std::string name;
  std::string description;
  std::function<void(onnx::ModelProto&, const GraphPassOptions&)> run;
  /// Of a plugin's pass: it runs behind the last run of the pass of this name; empty: at the end.
  std::string after = {};
  std::vector<passes::PassOptionInfo> options = {};
  std::string plugin = {};  ///< the file it came from; empty: Kodama's own. Filled by register_pass
};

/// Registry: all passes, each once, in the order in which they first run, then those of plugins.
const std::vector<GraphPass>& graph_passes();
/// UserError when `after` names no pass.
void register_pass(GraphPass pass);
/// UserError that lists the names if there is no such pass.
const GraphPass& find_graph_pass(std::string_view name);
/// The names of the passes that every model goes through, in order; a pass may occur more than once.
std::vector<std::string> graph_pipeline();

/// Called after a pass has run and its result has been verified.
using DumpAfterPass = std::function<void(const GraphPass& pass, const onnx::ModelProto& model)>;

/// Runs one pass, infers the types of the values that it made, and verifies the model with the ONNX checker
/// and for types, and that its inputs and outputs are what they were: a pass that leaves another model is an
/// InternalError with its name, a plugin's a PassError. What a plugin's pass leaves must compute the same,
/// too: the CPU reference runs the model before and after it on random inputs, if it can
/// (compute_difference).
void run_graph_pass(const GraphPass& pass, onnx::ModelProto& model, const GraphPassOptions& options = {});
/// Runs the pipeline.
void run_graph_passes(onnx::ModelProto& model, const GraphPassOptions& options = {},
                      const DumpAfterPass& dump_after = {});

/// What two models with the same inputs compute differently on random inputs, as text; empty: nothing, or
/// nothing is known (the reference can't run the first one on such inputs, or it is random itself).
std::string compute_difference(const onnx::ModelProto& before, const onnx::ModelProto& after);

/// The passes' bodies; what they do is said in graph_passes().
void canonicalize(onnx::ModelProto& model);
void fold_batch_normalization(onnx::ModelProto& model);
void eliminate_dead(onnx::ModelProto& model);

/// Every node behind those whose results it reads; among the nodes that may be next, the one that came first.
/// InternalError if there is a cycle.
void sort_nodes(onnx::GraphProto& graph);

}  // namespace kodama::compiler
