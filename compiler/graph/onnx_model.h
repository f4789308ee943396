#pragma once

#include <onnx/defs/schema.h>
#include <onnx/onnx_pb.h>

#include <functional>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "compiler/tensor/fresh_names.h"
#include "compiler/tensor/tensor.h"

/// What every graph pass needs to know about an onnx::ModelProto, and the invariants that passes keep.
namespace kodama::compiler {

/// The newest operator set and IR that we read; every imported model is brought to exactly these.
inline constexpr int64_t kOpsetVersion = 17;
inline constexpr int64_t kIrVersion = 8;
inline constexpr int64_t kOldestIrVersion = 3;

/// Version of `domain` ("" and "ai.onnx" are the same) that the model imports; 0 if it doesn't.
int64_t opset_version(const onnx::ModelProto& model, const std::string& domain = "");

/// The schema of a node under the model's imports; nullptr for an unknown operator.
const onnx::OpSchema* find_schema(const onnx::ModelProto& model, const onnx::NodeProto& node);

/// "node 'conv1' (Conv)", "node 'n' (com.example.Foo)"; an unnamed node is named by its first output.
std::string describe_node(const onnx::NodeProto& node);

const onnx::AttributeProto* find_attribute(const onnx::NodeProto& node, std::string_view name);
/// The attribute `name`, created if absent, emptied and given `type`.
onnx::AttributeProto& set_attribute(onnx::NodeProto& node, const std::string& name,
                                    onnx::AttributeProto_AttributeType type);
void set_ints(onnx::NodeProto& node, const std::string& name, const std::vector<int64_t>& values);
void remove_attribute(onnx::NodeProto& node, std::string_view name);
/// Whether the node carries graphs (If, Loop, Scan, SequenceMap, …).
bool has_subgraph(const onnx::NodeProto& node);

/// "a sequence", "a map" or "an optional" if the schema allows nothing else for an output; else empty.
std::string non_tensor_output(const onnx::OpSchema& schema, int output);

/// The type of a tensor with these extents.
onnx::TypeProto make_tensor_type(DataType type, const Shape& shape);
/// The extents of a tensor type; nullopt unless it is a tensor type with every extent known.
std::optional<Shape> static_shape(const onnx::TypeProto& type);
/// "float32 [batch, ?, 3]", for messages.
std::string type_to_string(const onnx::TypeProto& type);

/// Reserves the names of every value in a graph (inputs, initializers, outputs of nodes, value_info) and of
/// every node, also of graphs in nodes.
void reserve_names(const onnx::GraphProto& graph, FreshNames& names);
/// With the names of every value in a graph (inputs, initializers, outputs of nodes, value_info) and of every
/// node in use.
FreshNames names_of(const onnx::GraphProto& graph);

/// The declared or inferred types of a graph's values by name: inputs, outputs, value_info, and the
/// initializers' own.
using TypeMap = std::unordered_map<std::string, onnx::TypeProto>;
TypeMap collect_types(const onnx::GraphProto& graph);

/// Gives every node a non-empty name that no other node has: an unnamed node takes its first output's.
void name_nodes(onnx::GraphProto& graph);

/// Removes value_info of values that nothing makes any more, and of graph inputs, outputs and initializers,
/// which state their types themselves.
void prune_value_info(onnx::GraphProto& graph);

/// Removes the nodes for which `dead(index)` holds, keeping the order of the rest.
void remove_nodes(onnx::GraphProto& graph, const std::function<bool(int)>& dead);

/// The first value that isn't a tensor with a known element type and static shape, and the node that makes
/// it; nullopt if there is none.
struct UntypedValue {
  std::string name;
  std::string type;                       ///< what is known, as text
  const onnx::NodeProto* node = nullptr;  ///< nullptr for a graph input
};
std::optional<UntypedValue> find_untyped_value(const onnx::GraphProto& graph);

/// The model as an ONNX file. UnsupportedError, beginning with `what`, if it is larger than such a file can
/// be: models with external data may be.
std::string serialize_model(const onnx::ModelProto& model, const std::string& what);

/// While it lives, the graph's large initializers have types and shapes but no data, so that a copy of the
/// graph is small. Initializers must not be removed meanwhile.
class LargeDataAside {
 public:
  explicit LargeDataAside(onnx::GraphProto& graph);
  ~LargeDataAside();
  LargeDataAside(const LargeDataAside&) = delete;
  LargeDataAside& operator=(const LargeDataAside&) = delete;

 private:
  std::vector<std::pair<onnx::TensorProto*, std::string>> data_;
};

/// The ONNX checker's message about the model, cut to one line; empty if it has none.
std::string check_onnx(const onnx::ModelProto& model);

/// Brings a model that a pass has changed back to a verified state: names the nodes, drops stale
/// value_info, infers types, then checks it with the ONNX checker and, unless it has control flow, that every
/// value has an element type and a static shape. A violation is an InternalError that names `pass`.
void reestablish(onnx::ModelProto& model, const std::string& pass);

/// Messages of libonnx span lines and carry source positions: keeps what a user can use, on one line.
std::string clean_onnx_message(std::string_view message);

}  // namespace kodama::compiler
