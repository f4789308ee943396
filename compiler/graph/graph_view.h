#pragma once

#include <onnx/onnx_pb.h>

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "compiler/tensor/tensor.h"

namespace kodama::compiler {

/// A value's element type and static shape.
struct ValueInfo {
  DataType type = DataType::kUndefined;
  Shape shape;
};

/// A read-only view of an imported model, for those who lower it: what a value is, who makes and reads it,
/// what an attribute is when the node leaves it to the schema's default. Refers to the model, which must
/// outlive the view; after a change of the model's nodes, values or constants make a new view (changes of
/// attributes are seen). Not to be used from several threads: constants are decoded when first asked for.
class GraphView {
 public:
  /// InternalError where a type is missing; with control flow, values of open shape aren't in the view.
  explicit GraphView(const onnx::ModelProto& model);

  const onnx::ModelProto& model() const { return model_; }
  const onnx::GraphProto& graph() const { return model_.graph(); }
  const google::protobuf::RepeatedPtrField<onnx::NodeProto>& nodes() const { return graph().node(); }

  /// Type and shape of any value; InternalError for a name that the graph doesn't have.
  const ValueInfo& value(const std::string& name) const;
  const Shape& shape(const std::string& name) const { return value(name).shape; }
  DataType type(const std::string& name) const { return value(name).type; }
  bool has_value(const std::string& name) const { return values_.contains(name); }

  bool is_graph_input(const std::string& name) const { return inputs_.contains(name); }
  bool is_graph_output(const std::string& name) const { return outputs_.contains(name); }

  /// The node that makes a value; nullptr for graph inputs and constants.
  const onnx::NodeProto* producer(const std::string& name) const;
  /// The nodes that read a value, in the graph's order, each once per operand; graph outputs don't count.
  const std::vector<const onnx::NodeProto*>& consumers(const std::string& name) const;

  /// The elements of an initializer; nullptr for any other value. The pointer lives as long as the view.
  const Tensor* constant(const std::string& name) const { return shared_constant(name).get(); }
  /// The same for those who keep it for longer.
  std::shared_ptr<const Tensor> shared_constant(const std::string& name) const;
  bool is_constant(const std::string& name) const { return initializers_.contains(name); }

  /// Whether the node has an operand `index` (it may be left out by an empty name or a shorter list).
  static bool has_input(const onnx::NodeProto& node, int index);
  static bool has_output(const onnx::NodeProto& node, int index);

  /// Attributes: the node's own, else the schema's default, else nullopt. InternalError if the attribute
  /// has another type.
  std::optional<int64_t> find_int(const onnx::NodeProto& node, std::string_view name) const;
  std::optional<float> find_float(const onnx::NodeProto& node, std::string_view name) const;
  std::optional<std::string> find_string(const onnx::NodeProto& node, std::string_view name) const;
  std::optional<std::vector<int64_t>> find_ints(const onnx::NodeProto& node, std::string_view name) const;

  /// The same where the attribute must be there (the checker has seen to required ones, the schema to
  /// defaults): InternalError if it isn't.
  int64_t get_int(const onnx::NodeProto& node, std::string_view name) const;
  float get_float(const onnx::NodeProto& node, std::string_view name) const;
  std::string get_string(const onnx::NodeProto& node, std::string_view name) const;
  std::vector<int64_t> get_ints(const onnx::NodeProto& node, std::string_view name) const;

  /// The same with a value for an absent optional attribute.
  int64_t get_int(const onnx::NodeProto& node, std::string_view name, int64_t absent) const;
  float get_float(const onnx::NodeProto& node, std::string_view name, float absent) const;
  std::string get_string(const onnx::NodeProto& node, std::string_view name, std::string absent) const;
  std::vector<int64_t> get_ints(const onnx::NodeProto& node, std::string_view name,
                                std::vector<int64_t> absent) const;

  /// An axis attribute or operand, from [-rank, rank) to [0, rank). UserError that names the node if it is
  /// outside.
  int64_t normalize_axis(const onnx::NodeProto& node, int64_t axis, int64_t rank) const;

  /// The node's name, unique in the graph, invented from its first output where the model gives none.
  /// InternalError for a node of another graph.
  const std::string& node_name(const onnx::NodeProto& node) const;
  /// "node 'conv1' (Conv)", to begin a message with.
  std::string describe(const onnx::NodeProto& node) const;

 private:
  const onnx::AttributeProto* attribute(const onnx::NodeProto& node, std::string_view name,
                                        onnx::AttributeProto_AttributeType type) const;
  [[noreturn]] void missing_attribute(const onnx::NodeProto& node, std::string_view name) const;

  const onnx::ModelProto& model_;
  std::unordered_map<std::string, ValueInfo> values_;
  std::unordered_set<std::string> inputs_;
  std::unordered_set<std::string> outputs_;
  std::unordered_map<std::string, const onnx::NodeProto*> producers_;
  std::unordered_map<std::string, std::vector<const onnx::NodeProto*>> consumers_;
  std::unordered_map<std::string, const onnx::TensorProto*> initializers_;
  std::unordered_map<const onnx::NodeProto*, std::string> node_names_;
  mutable std::unordered_map<std::string, std::shared_ptr<const Tensor>> constants_;
};

}  // namespace kodama::compiler
