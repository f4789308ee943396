#include "compiler/reference/resolve.h"

#include <fmt/format.h>
#include <onnx/defs/data_type_utils.h>
#include <onnx/defs/schema.h>

#include <algorithm>
#include <map>
#include <memory>
#include <mutex>
#include <set>

#include "compiler/proto/tensor_proto.h"
#include "compiler/reference/operator_sets.h"

namespace kodama::compiler {

using isa::UserError;
using reference::Attribute;
using reference::Node;

namespace {

/// What a graph or a node in it is resolved with.
struct Surroundings {
  const OperatorSets& operators;
  bool with_graphs = true;
  int depth = 0;  ///< of functions that call each other
};

Node resolve(const onnx::NodeProto& proto, const Surroundings& around);

reference::Declared declared(const onnx::ValueInfoProto& info) {
  reference::Declared result{info.name(), {}};
  if (info.type().value_case() == onnx::TypeProto::VALUE_NOT_SET) return result;
  try {
    result.type = value_type(info.type(), "");
  } catch (const isa::UnsupportedError&) {  // maps: whoever is given one refuses it
  }
  return result;
}

std::shared_ptr<const reference::Graph> graph_of(const onnx::GraphProto& proto, const Surroundings* around) {
  auto graph = std::make_shared<reference::Graph>();
  graph->name = proto.name();
  for (const onnx::ValueInfoProto& input : proto.input()) graph->inputs.push_back(declared(input));
  for (const onnx::ValueInfoProto& output : proto.output()) graph->outputs.push_back(declared(output));
  if (around == nullptr || !around->with_graphs) return graph;
  check_no_sparse_initializers(proto);
  for (const onnx::TensorProto& initializer : proto.initializer()) {
    graph->initializers.emplace_back(
        initializer.name(),
        tensor_from_proto(initializer, fmt::format("initializer '{}'", initializer.name())));
  }
  for (const onnx::NodeProto& node : proto.node()) graph->nodes.push_back(resolve(node, *around));
  return graph;
}

template <typename T, typename Field>
std::vector<T> list_of(const Field& field) {
  return {field.begin(), field.end()};
}

/// `around`: of what the attribute's graph is resolved with; nullptr: it isn't.
Attribute attribute_of(const onnx::AttributeProto& proto, const std::string& where,
                       const Surroundings* around) {
  switch (proto.type()) {
    case onnx::AttributeProto::INT:
      return proto.i();
    case onnx::AttributeProto::FLOAT:
      return proto.f();
    case onnx::AttributeProto::STRING:
      return proto.s();
    case onnx::AttributeProto::TENSOR:
      return std::make_shared<const Tensor>(tensor_from_proto(proto.t(), where));
    case onnx::AttributeProto::GRAPH:
      return graph_of(proto.g(), around);
    case onnx::AttributeProto::TYPE_PROTO:
      return value_type(proto.tp(), where);
    case onnx::AttributeProto::INTS:
      return list_of<int64_t>(proto.ints());
    case onnx::AttributeProto::FLOATS:
      return list_of<float>(proto.floats());
    case onnx::AttributeProto::STRINGS:
      return list_of<std::string>(proto.strings());
    default:
      return std::monostate();
  }
}

Node names_of(const onnx::NodeProto& proto) {
  Node node;
  node.name = proto.name();
  node.domain = canonical_domain(proto.domain());
  node.op_type = proto.op_type();
  node.inputs = list_of<std::string>(proto.input());
  node.outputs = list_of<std::string>(proto.output());
  return node;
}

/// Made once per schema: types are sets of many strings.
std::shared_ptr<const reference::Signature> signature_of(const onnx::OpSchema& schema) {
  static std::mutex mutex;
  static std::map<const onnx::OpSchema*, std::shared_ptr<const reference::Signature>> known;
  const std::lock_guard lock(mutex);
  auto& signature = known[&schema];
  if (signature != nullptr) return signature;
  auto made = std::make_shared<reference::Signature>();
  for (const auto& formal : schema.inputs()) {
    reference::Signature::Formal input;
    input.name = formal.GetName();
    for (const std::string* const type : formal.GetTypes()) input.types.push_back(*type);
    std::ranges::sort(input.types);
    input.variable = formal.GetTypeStr();
    input.is_mixed = formal.GetOption() == onnx::OpSchema::Variadic && !formal.GetIsHomogeneous();
    made->inputs.push_back(std::move(input));
  }
  return signature = std::move(made);
}

/// Replaces references to the function's attributes by their values in `call`, or by the schema's default, or
/// removes them.
void bind_attributes(const onnx::NodeProto& call, const onnx::OpSchema* schema, onnx::NodeProto& node) {
  google::protobuf::RepeatedPtrField<onnx::AttributeProto> bound;
  for (const onnx::AttributeProto& attribute : node.attribute()) {
    const onnx::AttributeProto* value = &attribute;
    if (!attribute.ref_attr_name().empty()) {
      value = nullptr;
      for (const onnx::AttributeProto& given : call.attribute()) {
        if (given.name() == attribute.ref_attr_name()) value = &given;
      }
      if (value == nullptr && schema != nullptr) {
        const auto declared = schema->attributes().find(attribute.ref_attr_name());
        if (declared != schema->attributes().end() && declared->second.default_value.has_name()) {
          value = &declared->second.default_value;
        }
      }
      if (value == nullptr) continue;
    }
    onnx::AttributeProto* const added = bound.Add();
    *added = *value;
    added->set_name(attribute.name());
    if (added->has_g()) {
      for (onnx::NodeProto& inner : *added->mutable_g()->mutable_node()) bind_attributes(call, schema, inner);
    }
  }
  node.mutable_attribute()->Swap(&bound);
}

/// `function`'s body for this call.
std::shared_ptr<const reference::Graph> function_of(const onnx::FunctionProto& function,
                                                    const onnx::OpSchema* schema, const onnx::NodeProto& call,
                                                    const Surroundings& around) {
  auto graph = std::make_shared<reference::Graph>();
  graph->name = function.name();
  for (const std::string& input : function.input()) graph->inputs.push_back({input, {}});
  for (const std::string& output : function.output()) graph->outputs.push_back({output, {}});
  const OperatorSets inner = around.operators.with_imports_of(function);
  for (onnx::NodeProto node : function.node()) {
    bind_attributes(call, schema, node);
    graph->nodes.push_back(resolve(node, {inner, true, around.depth + 1}));
  }
  return graph;
}

void resolve_into(const onnx::NodeProto& proto, const Surroundings& around, Node& node) {
  const std::string where = place_of(proto);
  const auto refuse = [&](bool is_unsupported, const std::string& what) {
    node.refusal = Node::Refusal{is_unsupported, fmt::format("{}: {}", where, what)};
  };
  const auto read_attributes = [&](const auto& attributes) {
    for (const onnx::AttributeProto& attribute : attributes)
      node.attributes[attribute.name()] = attribute_of(attribute, where, &around);
  };
  node.opset = around.operators.version(proto.domain());
  const onnx::FunctionProto* const function = around.operators.function(proto);
  const onnx::OpSchema* const schema = function == nullptr ? find_schema(proto, around.operators) : nullptr;
  if (function == nullptr) {
    const std::string problem = unknown_operator(proto, around.operators, schema);
    if (!problem.empty()) return refuse(true, problem);
    try {
      schema->Verify(proto);
    } catch (const std::exception& error) {
      return refuse(false, error.what());
    }
    node.since_version = schema->since_version();
    if (has_kernel(node.domain, node.op_type)) {
      read_attributes(proto.attribute());
      for (const auto& [name, attribute] : schema->attributes()) {
        if (attribute.default_value.has_name() && !node.attributes.contains(name))
          node.attributes[name] = attribute_of(attribute.default_value, where, nullptr);
      }
      node.signature = signature_of(*schema);
      return;
    }
    if (!schema->HasFunction())
      return refuse(true, fmt::format("operator {} of domain '{}', version {}, has no CPU reference",
                                      node.op_type, domain_text(node.domain), schema->since_version()));
  }
  if (around.depth >= kMaxFunctionDepth)
    return refuse(false, fmt::format("functions call each other more than {} deep; recursion isn't allowed",
                                     kMaxFunctionDepth));
  if (function != nullptr) {
    node.function = function_of(*function, nullptr, proto, around);
    return;
  }
  node.signature = signature_of(*schema);
  node.function = function_of(schema_function(*schema), schema, proto, around);
}

Node resolve(const onnx::NodeProto& proto, const Surroundings& around) {
  Node node = names_of(proto);
  const auto refuse = [&](bool is_unsupported, std::string what) {
    const std::string where = place_of(proto);
    if (what.rfind("node '", 0) != 0) what = fmt::format("{}: {}", where, what);
    node.refusal = Node::Refusal{is_unsupported, what};
  };
  try {
    resolve_into(proto, around, node);
  } catch (const UserError& error) {
    refuse(false, error.what());
  } catch (const isa::UnsupportedError& error) {
    refuse(true, error.what());
  }
  return node;
}

}  // namespace

Node plain_node(const onnx::NodeProto& proto) {
  Node node = names_of(proto);
  for (const onnx::AttributeProto& attribute : proto.attribute())
    node.attributes[attribute.name()] = attribute_of(attribute, place_of(proto), nullptr);
  return node;
}

Node resolve_node(const onnx::NodeProto& node, const OperatorSets& operators, bool with_graphs) {
  return resolve(node, {operators, with_graphs});
}

std::string place_of(const onnx::NodeProto& node) {
  return reference::place_of(node.name(), node.op_type(), node.output_size() > 0 ? node.output(0) : "");
}

}  // namespace kodama::compiler
