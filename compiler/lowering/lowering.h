#pragma once

#include <onnx/onnx_pb.h>

#include <functional>
#include <string>
#include <vector>

#include "compiler/layers/layer_graph.h"

/// ONNX models to layers.
namespace kodama::compiler {

/// "lower", "fuse-maps", "fuse-epilogues", "fold-rearranges": in the order in which they run.
const std::vector<std::string>& layer_pass_names();
struct LoweringOptions {
  bool fuse = true;  ///< fuse-maps, fuse-epilogues, fold-rearranges
  bool force_host = false;
  /// Called with each node that neither chip nor CPU reference can compute, and why, instead of an
  /// UnsupportedError at the first; the node becomes a Host layer, which can't be run.
  std::function<void(const onnx::NodeProto& node, const std::string& why)> refused = {};
};
/// ONNX model (after the graph passes) to layers. `options.force_host` sends everything to the host.
/// `observe` gets the verified graph behind every pass (layer_pass_names), by its name. UnsupportedError
/// naming node and operator where neither the chip nor the CPU reference has an operator.
LayerGraph lower_to_layers(const onnx::ModelProto& model, const LoweringOptions& options = {},
                           const std::function<void(const std::string&, const LayerGraph&)>& observe = {});
/// Operators with a decomposition into layers: expand-functions leaves them alone.
const std::vector<std::string>& directly_lowered_operators();
/// The same, with what docs/operators.md says of them.
struct ChipOperator {
  std::string name;
  bool only_moves = false;      ///< elements of any type; else those for which has_float_arithmetic() holds,
  bool takes_integers = false;  ///< and integers and bool
  bool takes_doubles = false;
  std::string condition;  ///< what else a node must be; empty: nothing
};
const std::vector<ChipOperator>& chip_operators();

}  // namespace kodama::compiler
