#pragma once

#include <onnx/onnx_pb.h>

#include <functional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/graph/fold_constants.h"

/// Passes over the ONNX graph. Each takes a model as import_model() makes it and leaves one that computes the
/// same, with the same inputs and outputs.
namespace kodama::compiler {

struct GraphPassOptions {
  /// Operators of ai.onnx that are lowered directly, though ONNX has a function body for them:
  /// expand-functions leaves them alone.
  std::set<std::string> direct_operators = {};
  /// See fold_constants().
  int64_t fold_limit = kDefaultFoldLimit;
};

struct GraphPass {
  std::string name;
  std::string description;
  std::function<void(onnx::ModelProto&, const GraphPassOptions&)> run;
};

/// All passes, each once, in the order in which they first run.
const std::vector<GraphPass>& graph_passes();
/// UserError that lists the names if there is no such pass.
const GraphPass& find_graph_pass(std::string_view name);
/// The names of the passes that every model goes through, in order; a pass may occur more than once.
const std::vector<std::string>& graph_pipeline();

/// Called after a pass has run and its result has been verified.
using DumpAfterPass = std::function<void(const GraphPass& pass, const onnx::ModelProto& model)>;

/// Runs one pass, infers the types of the values that it made, and verifies the model with the ONNX checker
/// and for types: a pass that leaves an invalid model is an InternalError with its name.
void run_graph_pass(const GraphPass& pass, onnx::ModelProto& model, const GraphPassOptions& options = {});
/// Runs the pipeline.
void run_graph_passes(onnx::ModelProto& model, const GraphPassOptions& options = {},
                      const DumpAfterPass& dump_after = {});

/// The passes' bodies; what they do is said in graph_passes().
void canonicalize(onnx::ModelProto& model);
void fold_batch_normalization(onnx::ModelProto& model);
void eliminate_dead(onnx::ModelProto& model);

}  // namespace kodama::compiler
