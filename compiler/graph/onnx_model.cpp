#include "compiler/graph/onnx_model.h"

#include <onnx/checker.h>

#include <algorithm>
#include <regex>

#include "compiler/graph/infer_types.h"

namespace kodama::compiler {

namespace {

std::string normalized_domain(const std::string& domain) {
  return domain == "ai.onnx" ? "" : domain;
}

}  // namespace

int64_t opset_version(const onnx::ModelProto& model, const std::string& domain) {
  for (const auto& import : model.opset_import()) {
    if (normalized_domain(import.domain()) == normalized_domain(domain)) return import.version();
  }
  return 0;
}

const onnx::OpSchema* find_schema(const onnx::ModelProto& model, const onnx::NodeProto& node) {
  const int64_t version = opset_version(model, node.domain());
  if (version == 0) return nullptr;
  return onnx::OpSchemaRegistry::Schema(node.op_type(), static_cast<int>(version),
                                        normalized_domain(node.domain()));
}

std::string describe_node(const onnx::NodeProto& node) {
  const std::string domain = normalized_domain(node.domain());
  const std::string type = domain.empty() ? node.op_type() : domain + "." + node.op_type();
  if (!node.name().empty()) return fmt::format("node '{}' ({})", node.name(), type);
  for (const std::string& output : node.output()) {
    if (!output.empty()) return fmt::format("the unnamed node that makes '{}' ({})", output, type);
  }
  return fmt::format("an unnamed node without outputs ({})", type);
}

const onnx::AttributeProto* find_attribute(const onnx::NodeProto& node, std::string_view name) {
  for (const auto& attribute : node.attribute()) {
    if (attribute.name() == name) return &attribute;
  }
  return nullptr;
}

void remove_attribute(onnx::NodeProto& node, std::string_view name) {
  for (int i = node.attribute_size() - 1; i >= 0; --i) {
    if (node.attribute(i).name() == name) node.mutable_attribute()->DeleteSubrange(i, 1);
  }
}

onnx::AttributeProto& set_attribute(onnx::NodeProto& node, const std::string& name,
                                    onnx::AttributeProto_AttributeType type) {
  remove_attribute(node, name);
  onnx::AttributeProto& attribute = *node.add_attribute();
  attribute.set_name(name);
  attribute.set_type(type);
  return attribute;
}

void set_ints(onnx::NodeProto& node, const std::string& name, const std::vector<int64_t>& values) {
  auto& attribute = set_attribute(node, name, onnx::AttributeProto_AttributeType_INTS);
  for (int64_t value : values) attribute.add_ints(value);
}

bool has_subgraph(const onnx::NodeProto& node) {
  return std::any_of(node.attribute().begin(), node.attribute().end(),
                     [](const auto& attribute) { return attribute.has_g() || attribute.graphs_size() > 0; });
}

std::string non_tensor_output(const onnx::OpSchema& schema, int output) {
  if (schema.outputs().empty()) return "";
  const auto& formal =
      schema.outputs()[std::min<size_t>(static_cast<size_t>(output), schema.outputs().size() - 1)];
  const auto& allowed = formal.GetTypes();
  for (const auto& [prefix, name] :
       {std::pair("seq(", "a sequence"), std::pair("map(", "a map"), std::pair("optional(", "an optional")}) {
    if (!allowed.empty() && std::all_of(allowed.begin(), allowed.end(), [&prefix = prefix](const auto* type) {
          return type->rfind(prefix, 0) == 0;
        })) {
      return name;
    }
  }
  return "";
}

onnx::TypeProto make_tensor_type(DataType type, const Shape& shape) {
  onnx::TypeProto result;
  result.mutable_tensor_type()->set_elem_type(type);
  auto& dims = *result.mutable_tensor_type()->mutable_shape();
  for (int64_t extent : shape) dims.add_dim()->set_dim_value(extent);
  return result;
}

std::optional<Shape> static_shape(const onnx::TypeProto& type) {
  if (!type.has_tensor_type() || !type.tensor_type().has_shape()) return std::nullopt;
  Shape shape;
  for (const auto& dim : type.tensor_type().shape().dim()) {
    if (!dim.has_dim_value() || dim.dim_value() < 0) return std::nullopt;
    shape.push_back(dim.dim_value());
  }
  return shape;
}

std::string type_to_string(const onnx::TypeProto& type) {
  switch (type.value_case()) {
    case onnx::TypeProto::kTensorType:
      break;
    case onnx::TypeProto::kSequenceType:
      return "a sequence";
    case onnx::TypeProto::kMapType:
      return "a map";
    case onnx::TypeProto::kOptionalType:
      return "an optional";
    case onnx::TypeProto::kSparseTensorType:
      return "a sparse tensor";
    case onnx::TypeProto::kOpaqueType:
      return "an opaque type";
    default:
      return "an unknown type";
  }
  const auto& tensor = type.tensor_type();
  std::string text = tensor.elem_type() == DataType::kUndefined
                         ? "unknown element type"
                         : data_type_name(static_cast<DataType>(tensor.elem_type()));
  if (!tensor.has_shape()) return text + " of unknown shape";
  text += " [";
  for (int i = 0; i < tensor.shape().dim_size(); ++i) {
    const auto& dim = tensor.shape().dim(i);
    if (i > 0) text += ", ";
    if (dim.has_dim_value() && dim.dim_value() >= 0) {
      text += std::to_string(dim.dim_value());
    } else {
      text += dim.dim_param().empty() ? "?" : dim.dim_param();
    }
  }
  return text + "]";
}

void reserve_names(const onnx::GraphProto& graph, FreshNames& names) {
  for (const auto& value : graph.input()) names.reserve(value.name());
  for (const auto& value : graph.output()) names.reserve(value.name());
  for (const auto& value : graph.value_info()) names.reserve(value.name());
  for (const auto& tensor : graph.initializer()) names.reserve(tensor.name());
  for (const auto& node : graph.node()) {
    names.reserve(node.name());
    for (const std::string& output : node.output()) names.reserve(output);
    for (const auto& attribute : node.attribute()) {
      if (attribute.has_g()) reserve_names(attribute.g(), names);
    }
  }
}

FreshNames names_of(const onnx::GraphProto& graph) {
  FreshNames names;
  reserve_names(graph, names);
  return names;
}

TypeMap collect_types(const onnx::GraphProto& graph) {
  TypeMap types;
  for (const auto* values : {&graph.value_info(), &graph.output(), &graph.input()}) {
    for (const auto& value : *values) types[value.name()] = value.type();
  }
  for (const auto& tensor : graph.initializer()) {
    types[tensor.name()] = make_tensor_type(static_cast<DataType>(tensor.data_type()),
                                            Shape(tensor.dims().begin(), tensor.dims().end()));
  }
  return types;
}

void name_nodes(onnx::GraphProto& graph) {
  // Nodes and values are different name spaces: an unnamed node may be called like its output.
  FreshNames names;
  std::vector<onnx::NodeProto*> unnamed;
  const auto take = [&](onnx::NodeProto& node, const std::string& wish) {
    const std::string name = names.make_unique(wish);
    if (node.name() != name) node.set_name(name);
  };
  for (auto& node : *graph.mutable_node()) {
    if (node.name().empty()) {
      unnamed.push_back(&node);
    } else {
      take(node, std::string(node.name()));
    }
  }
  for (auto* node : unnamed) {
    const auto output = std::find_if(node->output().begin(), node->output().end(),
                                     [](const std::string& name) { return !name.empty(); });
    take(*node, output == node->output().end() ? node->op_type() : *output);
  }
}

void prune_value_info(onnx::GraphProto& graph) {
  std::unordered_set<std::string> made;
  for (const auto& node : graph.node()) made.insert(node.output().begin(), node.output().end());
  for (const auto& value : graph.output()) made.erase(value.name());
  auto& infos = *graph.mutable_value_info();
  std::unordered_set<std::string> seen;
  const auto stale = [&](const onnx::ValueInfoProto& info) {
    return !made.contains(info.name()) || !seen.insert(info.name()).second;
  };
  infos.erase(std::remove_if(infos.begin(), infos.end(), stale), infos.end());
}

void remove_nodes(onnx::GraphProto& graph, const std::function<bool(int)>& dead) {
  auto& nodes = *graph.mutable_node();
  int kept = 0;
  for (int i = 0; i < nodes.size(); ++i) {
    if (dead(i)) continue;
    if (kept != i) nodes.SwapElements(kept, i);
    ++kept;
  }
  nodes.DeleteSubrange(kept, nodes.size() - kept);
}

std::optional<UntypedValue> find_untyped_value(const onnx::GraphProto& graph) {
  const TypeMap types = collect_types(graph);
  const auto check = [&](const std::string& name,
                         const onnx::NodeProto* node) -> std::optional<UntypedValue> {
    const auto it = types.find(name);
    if (it == types.end()) return UntypedValue{name, "an unknown type", node};
    const auto& type = it->second;
    if (static_shape(type) && type.tensor_type().elem_type() != DataType::kUndefined) {
      return std::nullopt;
    }
    return UntypedValue{name, type_to_string(type), node};
  };
  for (const auto& input : graph.input()) {
    if (auto found = check(input.name(), nullptr)) return found;
  }
  for (const auto& node : graph.node()) {
    for (const std::string& output : node.output()) {
      if (output.empty()) continue;
      if (auto found = check(output, &node)) return found;
    }
  }
  return std::nullopt;
}

std::string serialize_model(const onnx::ModelProto& model, const std::string& what) {
  constexpr size_t kLargest = (size_t{1} << 31) - 1;  // of a protobuf message
  const size_t size = model.ByteSizeLong();
  if (size > kLargest) {
    throw isa::UnsupportedError(fmt::format(
        "{}: the model has {} bytes with its weights; an ONNX file has at most {}", what, size, kLargest));
  }
  return model.SerializeAsString();
}

LargeDataAside::LargeDataAside(onnx::GraphProto& graph) {
  constexpr size_t kLarge = 16384;  // bytes: operands that decide shapes are smaller
  for (auto& tensor : *graph.mutable_initializer()) {
    if (tensor.raw_data().size() < kLarge) continue;
    data_.emplace_back(&tensor, std::string());
    tensor.mutable_raw_data()->swap(data_.back().second);
    tensor.clear_raw_data();
  }
}

LargeDataAside::~LargeDataAside() {
  for (auto& [tensor, data] : data_) tensor->mutable_raw_data()->swap(data);
}

std::string check_onnx(const onnx::ModelProto& model) {
  try {
    onnx::checker::check_model(model);
    return "";
  } catch (const std::exception& error) {
    std::string message = clean_onnx_message(error.what());
    return message.empty() ? "the ONNX checker rejects the model" : message;
  }
}

void reestablish(onnx::ModelProto& model, const std::string& pass) {
  auto& graph = *model.mutable_graph();
  name_nodes(graph);
  prune_value_info(graph);
  std::string message;
  try {
    infer_types(model);
    message = check_onnx(model);
  } catch (const isa::Error& error) {
    message = error.what();
  }
  isa::check_internal(message.empty(), "graph pass " + pass, "the pass left an invalid model: {}", message);
  if (std::ranges::any_of(graph.node(), has_subgraph)) return;
  if (const auto untyped = find_untyped_value(graph)) {
    throw isa::InternalError(fmt::format(
        "internal error in graph pass {}: value '{}' of {} has no static type after the pass ({})", pass,
        untyped->name, untyped->node ? describe_node(*untyped->node) : "the graph's inputs", untyped->type));
  }
}

std::string clean_onnx_message(std::string_view message) {
  // Some messages hold a whole node with its weights; std::regex recurses over its input.
  constexpr size_t kLongest = 2000;
  std::string text(message.substr(0, kLongest));
  // Assertions of libonnx: "/path/file.h:12: function: Assertion `x` failed: what happened".
  static const std::regex assertion(R"(^[^\s:]+:\d+: \w+: Assertion `[^`]*` failed:?\s*)");
  static const std::regex inference(R"(\[(ShapeInferenceError|TypeInferenceError)\]\s*)");
  static const std::regex summary(R"(Shape inference error\(s\):\s*)");
  static const std::regex node(R"(\(op_type:\s*([^,()]*), node name:\s*([^()]*)\):)");
  static const std::regex context(R"(\s*==> Context:\s*)");
  static const std::regex blank(R"(\s+)");
  text = std::regex_replace(text, assertion, "");
  text = std::regex_replace(text, inference, "");
  text = std::regex_replace(text, summary, "");
  text = std::regex_replace(text, node, "node '$2' ($1):");
  text = std::regex_replace(text, context, "; ");
  text = std::regex_replace(text, blank, " ");
  while (!text.empty() && text.back() == ' ') text.pop_back();
  while (!text.empty() && text.front() == ' ') text.erase(0, 1);
  return text;
}

}  // namespace kodama::compiler
