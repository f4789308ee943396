#include "compiler/graph/passes.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "compiler/graph/expand_functions.h"
#include "compiler/graph/onnx_model.h"
#include "compiler/reference/executor.h"
#include "compiler/tensor/comparison.h"
#include "passes/registry.h"

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

GraphPass function_expansion() {
  return {"expand-functions",
          "replaces operators that ONNX defines by a function body by that body, but those lowered directly",
          [](onnx::ModelProto& model, const GraphPassOptions& options) {
            expand_schema_functions(model, [&](const onnx::NodeProto& node) {
              return node.domain().empty() && options.direct_operators.contains(node.op_type());
            });
          }};
}
GraphPass batch_normalization_folding() {
  return {
      "fold-batch-normalization",
      "folds BatchNormalization into the weights of the Conv, ConvTranspose or Gemm before it, if nothing "
      "else reads that",
      [](onnx::ModelProto& model, const GraphPassOptions&) { fold_batch_normalization(model); }};
}
GraphPass dead_elimination() {
  return {
      "eliminate-dead",
      "removes nodes and initializers that no output needs, merges equal initializers, sorts topologically",
      [](onnx::ModelProto& model, const GraphPassOptions&) { eliminate_dead(model); }};
}

/// The passes that every model goes through, in order. Folding before expansion resolves what has a body with
/// control flow (Range); after it, the constants in the bodies.
const std::vector<GraphPass>& own_pipeline() {
  static const std::vector<GraphPass> kPipeline = {
      canonicalization(), constant_folding(), function_expansion(),
      canonicalization(), constant_folding(), batch_normalization_folding(),
      dead_elimination(),
  };
  return kPipeline;
}

std::vector<GraphPass> own_passes() {
  std::vector<GraphPass> passes;
  for (const GraphPass& pass : own_pipeline()) {
    if (std::ranges::find(passes, pass.name, &GraphPass::name) == passes.end()) passes.push_back(pass);
  }
  return passes;
}

passes::Registry<GraphPass>& registry() {
  static passes::Registry<GraphPass> all(
      "graph pass", own_passes(), [](const GraphPass& pass) -> std::pair<std::string, std::string> {
        if (pass.after.empty()) return {};
        std::vector<std::string> names;
        for (const GraphPass& other : graph_passes()) names.push_back(other.name);
        if (std::ranges::find(names, pass.after) != names.end()) return {};
        return {fmt::format("after '{}'", pass.after), fmt::format("{}", fmt::join(names, ", "))};
      });
  return all;
}

/// Type and name of each input and output.
std::vector<std::string> interface_of(const onnx::GraphProto& graph) {
  std::vector<std::string> values;
  for (const auto* list : {&graph.input(), &graph.output()}) {
    for (const auto& value : *list)
      values.push_back(fmt::format("{} {}", value.name(), type_to_string(value.type())));
  }
  return values;
}

/// Makes the pass's result a verified model.
void finish_pass(const GraphPass& pass, const std::vector<std::string>& interface, onnx::ModelProto& model) {
  reestablish(model, pass.name);
  const std::vector<std::string> found = interface_of(model.graph());
  isa::check_internal(found == interface, "graph pass " + pass.name,
                      "inputs and outputs are {} after it, not {}", fmt::join(found, ", "),
                      fmt::join(interface, ", "));
}

}  // namespace

const std::vector<GraphPass>& graph_passes() {
  return registry().all();
}
void register_pass(GraphPass pass) {
  registry().add(std::move(pass));
}
const GraphPass& find_graph_pass(std::string_view name) {
  return registry().find(name);
}

std::vector<std::string> graph_pipeline() {
  std::vector<std::string> names;
  for (const GraphPass& pass : own_pipeline()) names.push_back(pass.name);
  for (const GraphPass& pass : graph_passes()) {
    if (pass.plugin.empty()) continue;
    const auto last = std::ranges::find(names.rbegin(), names.rend(), pass.after);
    names.insert(pass.after.empty() ? names.end() : last.base(), pass.name);
  }
  return names;
}

std::string compute_difference(const onnx::ModelProto& before, const onnx::ModelProto& after) {
  // A rewritten sum of floats may be rounded otherwise, one of 16-bit floats much more so.
  constexpr double kTolerance = 1e-3;
  constexpr double kNarrowTolerance = 3e-2;
  if (std::ranges::any_of(before.graph().node(), is_random)) return {};
  TensorMap inputs;
  TensorMap expected;
  try {
    for (const auto& input : before.graph().input()) {
      const auto& type = input.type().tensor_type();
      inputs[input.name()] = random_input(input.name(), static_cast<DataType>(type.elem_type()),
                                          static_shape(input.type()).value_or(Shape{}), 1);
    }
    expected = run_graph(before, inputs);
  } catch (const isa::Error&) {
    return {};  // random values aren't always allowed: indices, lengths
  }
  TensorMap found;
  try {
    found = run_graph(after, inputs);
  } catch (const isa::Error& error) {
    return fmt::format("the model ran before it and doesn't after it: {}", error.what());
  }
  for (const auto& [name, tensor] : expected) {
    const Comparison comparison = compare_tensors(found.at(name), tensor);
    const bool is_narrow = element_size(tensor.type()) < sizeof(float);
    if (within(comparison, is_narrow ? kNarrowTolerance : kTolerance)) continue;
    return fmt::format(
        "output '{}' is another: on random inputs, max abs {:.2e}, over largest magnitude {:.2e}{}", name,
        comparison.max_absolute, comparison.max_relative,
        comparison.unequal > 0 ? fmt::format(", {} elements not comparable", comparison.unequal) : "");
  }
  return {};
}

void run_graph_pass(const GraphPass& pass, onnx::ModelProto& model, const GraphPassOptions& options) {
  const std::vector<std::string> interface = interface_of(model.graph());
  if (pass.plugin.empty()) {
    pass.run(model, options);
    return finish_pass(pass, interface, model);
  }
  const onnx::ModelProto before = model;
  passes::run_blaming("graph pass", pass, [&] {
    pass.run(model, options);
    finish_pass(pass, interface, model);
  });
  const std::string difference = compute_difference(before, model);
  if (!difference.empty()) passes::blame("graph pass", pass, difference);
}

void run_graph_passes(onnx::ModelProto& model, const GraphPassOptions& options,
                      const DumpAfterPass& dump_after) {
  for (const std::string& name : graph_pipeline()) {
    const GraphPass& pass = find_graph_pass(name);
    run_graph_pass(pass, model, options);
    if (dump_after) dump_after(pass, model);
  }
}

}  // namespace kodama::compiler
