#include "compiler/graph/passes.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "compiler/graph/expand_functions.h"
#include "compiler/graph/onnx_model.h"

namespace kodama::compiler {

namespace {

GraphPass canonicalization() {
  return {
      "canonicalize",
      "one form for what ONNX can say in several: explicit pads and kernel shapes in Conv and pooling, no "
      "unused optional outputs, no initializer that is a graph output",
      [](onnx::ModelProto& model, const GraphPassOptions&) { canonicalize(model); }};
}
GraphPass constant_folding() {
  return {"fold-constants",
          "evaluates nodes with constant inputs and removes nodes that change nothing (Identity, Dropout in "
          "inference, Cast, Reshape, Transpose without effect)",
          [](onnx::ModelProto& model, const GraphPassOptions& options) {
            remove_no_ops(model);  // before folding, or an Identity of a weight would copy it
            fold_constants(model, options.fold_limit);
          }};
}

/// The passes that every model goes through, in order. Folding before expansion resolves what has a body with
/// control flow (Range); after it, the constants in the bodies.
const std::vector<GraphPass>& pipeline() {
  static const std::vector<GraphPass> kPipeline = {
      canonicalization(),
      constant_folding(),
      {"expand-functions",
       "replaces operators that ONNX defines by a function body by that body, but those lowered directly",
       [](onnx::ModelProto& model, const GraphPassOptions& options) {
         expand_schema_functions(model, [&](const onnx::NodeProto& node) {
           return node.domain().empty() && options.direct_operators.contains(node.op_type());
         });
       }},
      canonicalization(),
      constant_folding(),
      {"fold-batch-normalization",
       "folds BatchNormalization into the weights of the Conv, ConvTranspose or Gemm before it, if nothing "
       "else reads that",
       [](onnx::ModelProto& model, const GraphPassOptions&) { fold_batch_normalization(model); }},
      {"eliminate-dead",
       "removes nodes and initializers that no output needs, merges equal initializers, sorts topologically",
       [](onnx::ModelProto& model, const GraphPassOptions&) { eliminate_dead(model); }},
  };
  return kPipeline;
}

}  // namespace

const std::vector<GraphPass>& graph_passes() {
  static const std::vector<GraphPass> kPasses = [] {
    std::vector<GraphPass> passes;
    for (const GraphPass& pass : pipeline()) {
      if (std::ranges::find(passes, pass.name, &GraphPass::name) == passes.end()) passes.push_back(pass);
    }
    return passes;
  }();
  return kPasses;
}

const std::vector<std::string>& graph_pipeline() {
  static const std::vector<std::string> kNames = [] {
    std::vector<std::string> names;
    for (const GraphPass& pass : pipeline()) names.push_back(pass.name);
    return names;
  }();
  return kNames;
}

const GraphPass& find_graph_pass(std::string_view name) {
  const auto& passes = graph_passes();
  const auto it =
      std::find_if(passes.begin(), passes.end(), [&](const GraphPass& pass) { return pass.name == name; });
  if (it != passes.end()) return *it;
  std::vector<std::string> names;
  for (const auto& pass : passes) names.push_back(pass.name);
  throw isa::UserError(fmt::format("unknown graph pass '{}'; there are: {}", name, fmt::join(names, ", ")));
}

void run_graph_pass(const GraphPass& pass, onnx::ModelProto& model, const GraphPassOptions& options) {
  pass.run(model, options);
  reestablish(model, pass.name);
}

void run_graph_passes(onnx::ModelProto& model, const GraphPassOptions& options,
                      const DumpAfterPass& dump_after) {
  for (const GraphPass& pass : pipeline()) {
    run_graph_pass(pass, model, options);
    if (dump_after) dump_after(pass, model);
  }
}

}  // namespace kodama::compiler
