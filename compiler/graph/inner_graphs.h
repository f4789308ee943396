#pragma once

#include <onnx/onnx_pb.h>

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "compiler/tensor/fresh_names.h"
#include "compiler/tensor/tensor.h"

/// Graphs in nodes (If, Loop, Scan): their names, their types, and how they become models of their own.
namespace kodama::compiler {

/// Names by others.
using Renames = std::unordered_map<std::string, std::string>;

/// Renames what a node reads and makes, also what its graphs read. What these have of their own keeps its
/// name, unless `names` has it.
void rename_values(onnx::NodeProto& node, const Renames& names);
/// Gives fresh names to all that the graph has of its own and that graphs in it have, but for `kept`. Returns
/// the new ones.
Renames rename_own_values(onnx::GraphProto& graph, const std::set<std::string>& kept, FreshNames& names);

/// Adds the nodes of a branch of an If to a graph, in its place. Values inside get names of their own.
/// UserError for a branch that has not as many outputs as the node.
void put_branch(const onnx::NodeProto& node, bool condition, onnx::GraphProto& result);

/// Names that a graph reads from those around it.
std::set<std::string> names_from_outside(const onnx::GraphProto& graph);

/// Whether the model's main graph has control flow.
bool has_control_flow(const onnx::ModelProto& model);

/// What is known of the values that a node and its graphs can read.
struct Surroundings {
  /// nullptr where nothing is known.
  std::function<const onnx::TypeProto*(const std::string& name)> type;
  /// nullptr for what isn't a known constant.
  std::function<const Tensor*(const std::string& name)> value;
};

/// What an input of an inner graph is: a type, or a value that it always has.
struct InnerInput {
  onnx::TypeProto type;
  std::optional<Tensor> value = std::nullopt;
};

/// An inner graph as a model: its own inputs as `inputs` says; what it reads from around it are inputs behind
/// them, or initializers if their value is known. Types of values inside are open. Each output is there once.
onnx::ModelProto inner_model(const onnx::ModelProto& model, const onnx::GraphProto& graph,
                             const std::vector<InnerInput>& inputs, const Surroundings& around);

/// What is known of the body of a Loop or Scan.
struct BodyTypes {
  /// Of its inputs, in all iterations: dimensions of the state that change are open.
  std::vector<onnx::TypeProto> inputs;
  /// Of the node's outputs.
  std::vector<onnx::TypeProto> results;
  /// How often it runs, if the data have no part in it.
  std::optional<int64_t> length;
};
/// UserError for a body that doesn't fit the node.
BodyTypes body_types(const onnx::ModelProto& model, const onnx::NodeProto& node, const Surroundings& around);

/// Types of the results of an If, Loop or Scan, as far as they are known. UserError and UnsupportedError as
/// infer_types(), with the node.
std::vector<onnx::TypeProto> control_flow_types(const onnx::ModelProto& model, const onnx::NodeProto& node,
                                                const Surroundings& around);

}  // namespace kodama::compiler
