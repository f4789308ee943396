#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "builder/operators.h"

/// Calls of the operators' functions by a node that says what to call them with, and graphs built again from
/// a model in this way.
namespace kodama::builder::testing {

/// Values by their names in the model.
using NamedValues = std::map<std::string, Value>;

/// A call, as a node of a model describes it.
class OperatorCall {
 public:
  OperatorCall(const onnx::NodeProto& node, Graph& graph, const NamedValues& values)
      : node_(node), graph_(graph), values_(values) {}

  bool is(const std::string& domain, const std::string& op) const {
    return node_.domain() == domain && node_.op_type() == op;
  }
  Graph& graph() { return graph_; }
  /// Those at the end that are left out don't count.
  size_t operand_count() const;
  Operand operand(size_t k) const;
  /// All from the k-th on.
  Operands operands(size_t k) const;
  int64_t outputs() const { return node_.output_size(); }

  template <typename T>
  std::optional<T> given(const std::string& name) {
    const onnx::AttributeProto* const attribute = find(name);
    if (attribute == nullptr) return std::nullopt;
    std::optional<T> value;
    get(*attribute, value);
    return value;
  }
  template <typename T>
  T required(const std::string& name) {
    return given<T>(name).value();
  }

 private:
  const onnx::AttributeProto* find(const std::string& name) const;
  static void get(const onnx::AttributeProto& attribute, std::optional<int64_t>& value);
  static void get(const onnx::AttributeProto& attribute, std::optional<float>& value);
  static void get(const onnx::AttributeProto& attribute, std::optional<std::string>& value);
  static void get(const onnx::AttributeProto& attribute, std::optional<std::vector<int64_t>>& value);
  static void get(const onnx::AttributeProto& attribute, std::optional<std::vector<float>>& value);
  static void get(const onnx::AttributeProto& attribute, std::optional<std::vector<std::string>>& value);
  static void get(const onnx::AttributeProto& attribute, std::optional<Tensor>& value);
  static void get(const onnx::AttributeProto& attribute, std::optional<onnx::SparseTensorProto>& value);
  static void get(const onnx::AttributeProto& attribute, std::optional<onnx::TypeProto>& value);
  void get(const onnx::AttributeProto& attribute, std::optional<Body>& value);

  const onnx::NodeProto& node_;
  Graph& graph_;
  const NamedValues& values_;
};

/// Domain and name of every operator that has a function. Made by the build.
const std::vector<std::pair<std::string, std::string>>& all_operators();
/// Calls the function of the node's operator. Empty if there is none. Made by the build.
std::vector<Value> call_operator(OperatorCall& call);

/// Builds a model of opset 17 again: inputs and outputs keep their names, initializers are buffers.
void rebuild(const onnx::ModelProto& model, Graph& graph);

/// In what two models differ, but for the names of nodes and of values inside: operators in their order,
/// what each reads, attributes, constants (of initializers or Constant nodes), what is known in both of the
/// types of inputs and outputs.
/// Empty if in nothing.
std::string difference(const onnx::ModelProto& expected, const onnx::ModelProto& actual);

}  // namespace kodama::builder::testing
