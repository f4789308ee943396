#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "compiler/graph/import.h"
#include "compiler/graph/passes.h"
#include "compiler/graph/test_models.h"
#include "compiler/layers/interpreter.h"
#include "compiler/layers/layer_graph.h"
#include "compiler/lowering/lowering.h"

/// Lowering of small models, held to the CPU reference.
namespace kodama::compiler::testing {

inline int count_layers(const LayerGraph& graph, LayerKind kind) {
  return static_cast<int>(std::count_if(graph.layers.begin(), graph.layers.end(),
                                        [&](const Layer& l) { return l.kind() == kind; }));
}

/// "Map Reduce Map": the kinds in order.
inline std::string kinds(const LayerGraph& graph) {
  std::string text;
  for (const Layer& layer : graph.layers) {
    text += (text.empty() ? "" : " ") + layer_kind_name(layer.kind());
  }
  return text;
}

inline std::string describe(const LayerGraph& graph) {
  std::string text;
  for (const Layer& layer : graph.layers) text += summary(layer, graph) + "\n";
  return text;
}

/// Imports and lowers without the graph passes, which would fold what is to be tested.
inline LayerGraph lower(const onnx::ModelProto& model, bool fuse = true) {
  return lower_to_layers(import_model(model, {}, "test"), {.fuse = fuse, .force_host = false});
}

/// Lowers with and without fusion, compares both with the reference on random inputs, and returns the kinds
/// of layers after fusion.
inline std::string check_model(const onnx::ModelProto& source, double tolerance = 2e-6, unsigned seed = 1) {
  const onnx::ModelProto model = import_model(source, {}, "test");
  const TensorMap inputs = random_inputs(model, seed);
  const TensorMap expected = run_graph(model, inputs);
  std::string result;
  for (bool fuse : {false, true}) {
    const LayerGraph graph = lower_to_layers(model, {.fuse = fuse, .force_host = false});
    SCOPED_TRACE(describe(graph));
    expect_close(interpret_layer_graph(graph, inputs), expected, tolerance);
    result = kinds(graph);
  }
  return result;
}

inline std::string check_text(const std::string& text, double tolerance = 2e-6) {
  SCOPED_TRACE(text);
  return check_model(parse_model(text), tolerance);
}

}  // namespace kodama::compiler::testing
