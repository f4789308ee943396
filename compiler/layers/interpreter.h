#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "compiler/layers/layer_graph.h"
#include "compiler/tensor/value.h"

/// Layers executed as they are defined: nested loops in double precision, rounded once to the type of the
/// layer's output. Slow and plain: what the chip computes, and what a pass leaves, is held to it.
namespace kodama::compiler {

/// The values of a layer graph's tensors while it runs.
class LayerValues {
 public:
  explicit LayerValues(const LayerGraph& graph) : graph_(graph), values_(graph.tensors.size()) {}

  /// InternalError if type or shape aren't the tensor's.
  void set(TensorId id, Tensor value);
  bool has(TensorId id) const;
  /// With the shape of `id`, also if it is an alias; constants are there from the start. InternalError if
  /// it isn't computed yet.
  const Tensor& get(TensorId id);
  /// Frees a value and its aliases.
  void forget(TensorId id);

 private:
  const LayerGraph& graph_;
  std::vector<std::optional<Tensor>> values_;  ///< own values, and aliases once they were asked for
};

/// Results of any layer.
std::vector<Tensor> interpret_layer(const Layer& layer, const LayerGraph& graph, LayerValues& values);

/// Runs the whole graph on values for its inputs, by name. UserError for a missing input or one of another
/// type or shape.
TensorMap interpret_layer_graph(const LayerGraph& graph, const TensorMap& inputs);

}  // namespace kodama::compiler
