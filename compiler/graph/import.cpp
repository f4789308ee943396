#include "compiler/graph/import.h"

#include <fmt/ranges.h>
#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>

#include <algorithm>
#include <filesystem>
#include <limits>

#include "compiler/graph/check_structure.h"
#include "compiler/graph/downgrade.h"
#include "compiler/graph/expand_functions.h"
#include "compiler/graph/external_data.h"
#include "compiler/graph/fold_constants.h"
#include "compiler/graph/import_control_flow.h"
#include "compiler/graph/infer_types.h"
#include "compiler/graph/inner_graphs.h"
#include "compiler/graph/newer_fields.h"
#include "compiler/graph/onnx_model.h"
#include "compiler/graph/upgrade.h"
#include "compiler/graph/walk.h"
#include "compiler/proto/tensor_proto.h"
#include "isa/file.h"

namespace kodama::compiler {

namespace {

template <typename... Args>
[[noreturn]] void user_error(const std::string& where, fmt::format_string<Args...> format, Args&&... args) {
  throw isa::UserError(where + ": " + fmt::format(format, std::forward<Args>(args)...));
}

template <typename... Args>
[[noreturn]] void unsupported(const std::string& where, fmt::format_string<Args...> format, Args&&... args) {
  throw isa::UnsupportedError(where + ": " + fmt::format(format, std::forward<Args>(args)...));
}

using Imports = google::protobuf::RepeatedPtrField<onnx::OperatorSetIdProto>;

void check_imports(const Imports& imports, const std::string& where) {
  std::set<std::string> domains;
  for (const auto& import : imports) {
    if (!domains.insert(import.domain()).second) {
      user_error(where, "the operator set '{}' is imported twice",
                 import.domain().empty() ? "ai.onnx" : import.domain());
    }
    const auto& ranges = onnx::OpSchemaRegistry::DomainToVersionRange::Instance().Map();
    const auto range = ranges.find(import.domain());
    if (range == ranges.end()) continue;  // matters only if a node uses it
    const int64_t newest = import.domain().empty() ? kNewestOpset : range->second.second;
    if (import.version() < 1 || import.version() > newest) {
      user_error(where,
                 "opset {} of {}; versions 1 to {} are allowed: export the model again with one of them (in "
                 "PyTorch opset_version={}), or convert it with onnx.version_converter",
                 import.version(), import.domain().empty() ? "ai.onnx" : import.domain(), newest, newest);
    }
  }
}

void check_versions(const onnx::ModelProto& model, const std::string& where) {
  if (!model.has_ir_version() || !model.has_graph()) {
    user_error(where, "not an ONNX model: it has no {}", model.has_graph() ? "ir_version" : "graph");
  }
  if (model.ir_version() < kOldestIrVersion || model.ir_version() > kNewestIrVersion) {
    user_error(where,
               "IR version {} of ONNX; versions {} to {} are allowed: save the model again with a release of "
               "the onnx package that writes one of them (1.16 writes {})",
               model.ir_version(), kOldestIrVersion, kNewestIrVersion, kNewestIrVersion);
  }
  if (model.opset_import_size() == 0) {
    user_error(where, "not a complete ONNX model: it imports no operator set (opset_import is empty)");
  }
  check_imports(model.opset_import(), where);
  for (const auto& function : model.functions()) {
    check_imports(function.opset_import(),
                  fmt::format("{}: function '{}.{}'", where, function.domain(), function.name()));
  }
}

/// "" and "ai.onnx" mean the same; ONNX's own library looks for "" only.
void normalize_domains(onnx::ModelProto& model) {
  const auto normalize = [](auto& message) {
    if (message.domain() == "ai.onnx") message.set_domain("");
  };
  for (auto& import : *model.mutable_opset_import()) normalize(import);
  for (auto& function : *model.mutable_functions()) {
    for (auto& import : *function.mutable_opset_import()) normalize(import);
  }
  for_each_node(model, normalize);
}

/// Exporters import operator sets that no node is of; their versions don't matter.
void drop_unused_imports(onnx::ModelProto& model) {
  std::set<std::string> used = {""};
  for_each_node(model, [&](const onnx::NodeProto& node) { used.insert(node.domain()); });
  auto& imports = *model.mutable_opset_import();
  imports.erase(std::remove_if(imports.begin(), imports.end(),
                               [&](const auto& import) { return !used.contains(import.domain()); }),
                imports.end());
}

/// Constant was of floats alone until opset 9, but exporters never held to it: others become initializers.
void admit_constants(onnx::ModelProto& model) {
  if (opset_version(model) >= 9) return;
  for_each_graph(model, [&](onnx::GraphProto& graph) {
    FreshNames names = names_of(graph);
    for (auto& node : *graph.mutable_node()) {
      const auto* value = find_attribute(node, "value");
      if (node.op_type() != "Constant" || !node.domain().empty() || node.output_size() != 1 ||
          value == nullptr || !value->has_t())
        continue;
      const int type = value->t().data_type();
      if (type == DataType::kFloat32 || type == DataType::kFloat16 || type == DataType::kFloat64) continue;
      onnx::TensorProto& tensor = *graph.add_initializer();
      tensor = value->t();
      tensor.set_name(names.make_unique(node.output(0) + "/value"));
      node.set_op_type("Identity");
      node.clear_attribute();
      node.add_input(tensor.name());
      // Until IR version 4 initializers had to be inputs, too.
      model.set_ir_version(std::max<int64_t>(model.ir_version(), 4));
    }
  });
}

/// Brings a model to what libonnx knows, at most opset 17 and IR version 8, and checks what needs no types.
void settle_versions(onnx::ModelProto& model, const std::string& where) {
  resolve_newer_fields(model, where);
  normalize_domains(model);
  drop_unused_imports(model);
  check_versions(model, where);
  check_structure(model, where);
  check_local_functions(model, where);
  admit_constants(model);
  downgrade_opset(model, where);
}

/// Trailing empty names of optional inputs and outputs say nothing, but make a node look as if it had them.
void trim_nodes(onnx::GraphProto& graph) {
  for (auto& node : *graph.mutable_node()) {
    while (node.input_size() > 0 && node.input(node.input_size() - 1).empty()) {
      node.mutable_input()->RemoveLast();
    }
    while (node.output_size() > 1 && node.output(node.output_size() - 1).empty()) {
      node.mutable_output()->RemoveLast();
    }
    for (auto& attribute : *node.mutable_attribute()) {
      if (attribute.has_g()) trim_nodes(*attribute.mutable_g());
    }
  }
}

std::string attribute_type_name(onnx::AttributeProto_AttributeType type) {
  switch (type) {
    case onnx::AttributeProto_AttributeType_INT:
      return "an integer";
    case onnx::AttributeProto_AttributeType_FLOAT:
      return "a number";
    case onnx::AttributeProto_AttributeType_STRING:
      return "a string";
    case onnx::AttributeProto_AttributeType_INTS:
      return "a list of integers";
    case onnx::AttributeProto_AttributeType_FLOATS:
      return "a list of numbers";
    case onnx::AttributeProto_AttributeType_STRINGS:
      return "a list of strings";
    case onnx::AttributeProto_AttributeType_TENSOR:
      return "a tensor";
    case onnx::AttributeProto_AttributeType_GRAPH:
      return "a graph";
    default:
      return onnx::AttributeProto_AttributeType_IsValid(type)
                 ? "of type " + onnx::AttributeProto_AttributeType_Name(type)
                 : fmt::format("of type {}, which ONNX doesn't have", static_cast<int>(type));
  }
}

/// Attributes that the schema has, of its types, and all that are required.
void check_attributes(const onnx::NodeProto& node, const onnx::OpSchema& schema, const std::string& where) {
  const auto& known = schema.attributes();
  for (const auto& attribute : node.attribute()) {
    if (attribute.name().rfind("__", 0) == 0) continue;  // ONNX lets anybody have those
    const auto found = known.find(attribute.name());
    if (found == known.end()) {
      std::vector<std::string> names;
      for (const auto& [name, each] : known) names.push_back(name);
      std::sort(names.begin(), names.end());
      user_error(where, "{}: it has the attribute '{}'; the operator has {}", describe_node(node),
                 attribute.name(), names.empty() ? "none" : fmt::format("{}", fmt::join(names, ", ")));
    }
    if (attribute.type() != found->second.type) {
      user_error(where, "{}: attribute '{}' is {}; it must be {}", describe_node(node), attribute.name(),
                 attribute_type_name(attribute.type()), attribute_type_name(found->second.type));
    }
  }
  for (const auto& [name, each] : known) {
    if (each.required && find_attribute(node, name) == nullptr)
      user_error(where, "{}: attribute '{}' is missing", describe_node(node), name);
  }
}

/// Whether a model may have control flow (with inputs of static shape), or also values that are no tensors,
/// and open shapes.
enum class Form : uint8_t { kStatic, kControlFlow, kOpen };

/// Operators must be known, before libonnx is asked anything: its messages don't name the node's place.
void check_operators(const onnx::ModelProto& model,
                     const google::protobuf::RepeatedPtrField<onnx::NodeProto>& nodes, const Imports& imports,
                     const std::string& where, Form form) {
  const auto is_local_function = [&](const onnx::NodeProto& node) {
    return std::any_of(model.functions().begin(), model.functions().end(), [&](const auto& function) {
      return function.name() == node.op_type() && function.domain() == node.domain();
    });
  };
  const auto& ranges = onnx::OpSchemaRegistry::DomainToVersionRange::Instance().Map();
  for (const auto& node : nodes) {
    if (is_local_function(node)) continue;
    const auto import = std::find_if(imports.begin(), imports.end(),
                                     [&](const auto& set) { return set.domain() == node.domain(); });
    const std::string domain = node.domain().empty() ? "ai.onnx" : node.domain();
    if (import == imports.end()) {
      user_error(where, "{}: the model doesn't import the operator set '{}'", describe_node(node), domain);
    }
    const auto* schema =
        onnx::OpSchemaRegistry::Schema(node.op_type(), static_cast<int>(import->version()), node.domain());
    if (!schema) {
      const auto* any = onnx::OpSchemaRegistry::Schema(node.op_type(), node.domain());
      if (any) {
        user_error(where, "{}: unknown operator '{}' of {} in opset {} (it exists since opset {})",
                   describe_node(node), node.op_type(), domain, import->version(), any->since_version());
      }
      if (!node.domain().empty() && !ranges.contains(node.domain())) {
        unsupported(
            where,
            "{}: the operator '{}' of the domain '{}' isn't ONNX's, and the model has no function of "
            "that name; export the model with ONNX's own operators, or with a function that defines it",
            describe_node(node), node.op_type(), domain);
      }
      user_error(
          where,
          "{}: unknown operator '{}' of {} (opset {}); allowed are ONNX's operators and functions that "
          "the model defines",
          describe_node(node), node.op_type(), domain, import->version());
    }
    if (schema->deprecated()) {
      user_error(where, "{}: operator '{}' doesn't exist any more in opset {} of {}", describe_node(node),
                 node.op_type(), import->version(), domain);
    }
    check_attributes(node, *schema, where);
    if (has_subgraph(node) && form == Form::kStatic) {
      unsupported(
          where,
          "{}: control flow (operators with graphs inside) can't be compiled ahead; kodama run decides "
          "it while the model runs, or export the model with its branches and loops resolved",
          describe_node(node));
    }
    for (const auto& attribute : node.attribute()) {
      if (attribute.has_g()) check_operators(model, attribute.g().node(), imports, where, form);
    }
  }
}

void check_external_data(const onnx::TensorProto& tensor, const std::string& where, const std::string& what) {
  if (tensor.data_location() == onnx::TensorProto_DataLocation_EXTERNAL || tensor.external_data_size() > 0) {
    std::string file = "another file";
    for (const auto& entry : tensor.external_data()) {
      if (entry.key() == "location") file = "'" + entry.value() + "'";
    }
    user_error(
        where,
        "{} keeps its data in {}: external data are read only with a model file, beside which they are", what,
        file);
  }
}

/// Everything that is wrong with a tensor (sizes, storage) is found by decoding it.
void check_tensors(const onnx::ModelProto& model, const std::string& where) {
  const auto check = [&](const onnx::TensorProto& tensor, const std::string& what) {
    check_external_data(tensor, where, what);
    (void)tensor_from_proto(tensor, where + ": " + what);
  };
  const auto check_nodes = [&](const auto& self, const auto& nodes) -> void {
    for (const auto& node : nodes) {
      for (const auto& attribute : node.attribute()) {
        const std::string what = fmt::format("{}, attribute '{}'", describe_node(node), attribute.name());
        if (attribute.has_t()) check(attribute.t(), what);
        for (const auto& tensor : attribute.tensors()) check(tensor, what);
        for (const auto& tensor : attribute.g().initializer())
          check(tensor, fmt::format("{}, initializer '{}'", what, tensor.name()));
        self(self, attribute.g().node());
      }
    }
  };
  const auto& graph = model.graph();
  for (const auto& tensor : graph.initializer()) {
    check(tensor, fmt::format("initializer '{}'", tensor.name()));
  }
  if (graph.sparse_initializer_size() > 0) {
    unsupported(where, "initializer '{}' is sparse; only dense tensors are supported",
                graph.sparse_initializer(0).values().name());
  }
  check_nodes(check_nodes, graph.node());
  for (const auto& function : model.functions()) check_nodes(check_nodes, function.node());
}

/// Axes that a tensor may have: twice NumPy's 32. What computes places of elements takes memory by their
/// square.
constexpr int kMaxRank = 64;

void check_rank(int64_t rank, const std::string& where, const std::string& what) {
  if (rank > kMaxRank) {
    unsupported(where, "{} has {} axes; at most {} are supported: join some with Reshape", what, rank,
                kMaxRank);
  }
}

void check_ranks(const onnx::GraphProto& graph, const std::string& where) {
  for (const auto& tensor : graph.initializer())
    check_rank(tensor.dims_size(), where, fmt::format("initializer '{}'", tensor.name()));
  for (const auto& input : graph.input()) {
    check_rank(input.type().tensor_type().shape().dim_size(), where, fmt::format("input '{}'", input.name()));
  }
}

/// What neither the ONNX checker nor its type inference look at.
void check_graph(const onnx::GraphProto& graph, const std::string& where, Form form) {
  std::unordered_set<std::string> made;
  for (const auto& tensor : graph.initializer()) made.insert(tensor.name());
  for (const auto& input : graph.input()) {
    made.insert(input.name());
    if (!input.type().has_tensor_type() && form != Form::kOpen) {
      unsupported(where, "input '{}' is {}; only tensors are supported", input.name(),
                  type_to_string(input.type()));
    }
  }
  for (const auto& node : graph.node()) made.insert(node.output().begin(), node.output().end());
  if (graph.output_size() == 0) user_error(where, "the graph has no outputs");
  std::unordered_set<std::string> outputs;
  for (const auto& output : graph.output()) {
    if (!made.contains(output.name())) {
      user_error(where, "graph output '{}' is made by no node", output.name());
    }
    if (!outputs.insert(output.name()).second) {
      user_error(where, "graph output '{}' is listed twice", output.name());
    }
    if (form != Form::kOpen && output.has_type() &&
        output.type().value_case() != onnx::TypeProto::VALUE_NOT_SET && !output.type().has_tensor_type()) {
      unsupported(where, "output '{}' is {}; only tensors are supported", output.name(),
                  type_to_string(output.type()));
    }
  }
}

/// Until IR version 4 every initializer had to be listed as an input, too. It is a weight, not something
/// that the user gives.
void separate_initializers(onnx::GraphProto& graph) {
  std::unordered_set<std::string> initializers;
  for (const auto& tensor : graph.initializer()) initializers.insert(tensor.name());
  auto& inputs = *graph.mutable_input();
  inputs.erase(std::remove_if(inputs.begin(), inputs.end(),
                              [&](const auto& input) { return initializers.contains(input.name()); }),
               inputs.end());
}

/// Inputs with a given value become initializers.
void bind_inputs(onnx::GraphProto& graph, const ImportOptions& options, const std::string& where) {
  auto& inputs = *graph.mutable_input();
  for (const auto& [name, tensor] : options.bind) {
    const auto input = std::find_if(inputs.begin(), inputs.end(),
                                    [&wanted = name](const auto& info) { return info.name() == wanted; });
    if (input == inputs.end()) user_error(where, "--bind {}: the model has no such input", name);
    const auto& type = input->type().tensor_type();
    bool fits =
        type.elem_type() == tensor.type() && (!type.has_shape() || type.shape().dim_size() == tensor.rank());
    for (int axis = 0; fits && type.has_shape() && axis < type.shape().dim_size(); ++axis) {
      const auto& dim = type.shape().dim(axis);
      fits = !dim.has_dim_value() || dim.dim_value() == tensor.shape()[static_cast<size_t>(axis)];
    }
    if (!fits) {
      user_error(where, "--bind {}: found {} {}, the input is {}", name, data_type_name(tensor.type()),
                 shape_to_string(tensor.shape()), type_to_string(input->type()));
    }
    *graph.add_initializer() = tensor_to_proto(tensor, name);
    inputs.erase(input);
  }
}

bool is_open(const onnx::TensorShapeProto_Dimension& dim) {
  return !dim.has_dim_value() || dim.dim_value() < 0;
}

/// Puts the given extents into the types of inputs and outputs; unless the form is open, all inputs are
/// static afterwards.
class DimensionSetter {
 public:
  DimensionSetter(onnx::GraphProto& graph, const ImportOptions& options, const std::string& where)
      : graph_(graph), options_(options), where_(where) {}

  void run(Form form) {
    for (const auto& [key, value] : options_.dims) {
      if (value < 1) user_error(where_, "--dim {}={}: a dimension must be at least 1", key, value);
      // A dimension's own name comes first: both may contain a colon.
      if (set_by_name(key, value)) continue;
      if (!set_by_axis(key, value)) unknown_key(key);
    }
    if (form != Form::kOpen) check_inputs();
  }

 private:
  using Dim = onnx::TensorShapeProto_Dimension;

  bool set_by_name(const std::string& name, int64_t value) {
    bool found = false;
    for (auto* values : {graph_.mutable_input(), graph_.mutable_output()}) {
      for (auto& info : *values) {
        if (!info.type().has_tensor_type() || !info.type().tensor_type().has_shape()) continue;
        for (auto& dim : *info.mutable_type()->mutable_tensor_type()->mutable_shape()->mutable_dim()) {
          if (dim.has_dim_param() && dim.dim_param() == name) {
            names_set_[name] = value;
            set_[&dim] = {name, value};
            dim.set_dim_value(value);
            found = true;
          }
        }
      }
    }
    return found;
  }

  bool set_by_axis(const std::string& key, int64_t value) {
    const size_t colon = key.rfind(':');
    if (colon == std::string::npos) return false;
    const std::string name = key.substr(0, colon);
    const std::string axis_text = key.substr(colon + 1);
    const auto input = std::find_if(graph_.mutable_input()->begin(), graph_.mutable_input()->end(),
                                    [&wanted = name](const auto& info) {
                                      return info.name() == wanted && info.type().has_tensor_type();
                                    });
    if (input == graph_.mutable_input()->end()) return false;
    auto& dims = *input->mutable_type()->mutable_tensor_type()->mutable_shape()->mutable_dim();
    const bool is_number =
        !axis_text.empty() && axis_text.size() < 6 &&
        std::all_of(axis_text.begin(), axis_text.end(), [](char c) { return c >= '0' && c <= '9'; });
    if (!is_number || std::stoi(axis_text) >= dims.size()) {
      user_error(where_, "--dim {}={}: input '{}' is {}; an axis from 0 to {} is allowed", key, value, name,
                 type_to_string(input->type()), dims.size() - 1);
    }
    Dim& dim = dims[std::stoi(axis_text)];
    if (const auto set = set_.find(&dim); set != set_.end() && set->second.second != value) {
      user_error(where_, "--dim {}={}: --dim {}={} sets the same dimension", key, value, set->second.first,
                 set->second.second);
    }
    set_[&dim] = {key, value};
    // A model exported with another extent (batch 1, usually) is changed; what follows from it is inferred
    // anew.
    if (!is_open(dim) && dim.dim_value() != value) forget_output_shapes();
    if (dim.has_dim_param() && !dim.dim_param().empty()) {
      const std::string shared = dim.dim_param();  // the same name is the same extent everywhere
      set_by_name(shared, value);
    }
    dim.set_dim_value(value);
    return true;
  }

  void forget_output_shapes() {
    for (auto& output : *graph_.mutable_output()) {
      if (!output.type().has_tensor_type() || !output.type().tensor_type().has_shape()) continue;
      for (auto& dim : *output.mutable_type()->mutable_tensor_type()->mutable_shape()->mutable_dim())
        dim.Clear();
    }
  }

  [[noreturn]] void unknown_key(const std::string& key) {
    std::vector<std::string> names = open_dimensions(graph_);
    for (const auto& [name, value] : names_set_) names.push_back(name);
    std::sort(names.begin(), names.end());
    if (names.empty()) {
      user_error(where_, "--dim {}: the model has no such dimension; all dimensions of its inputs are fixed",
                 key);
    }
    user_error(where_, "--dim {}: the model has no such dimension; it has: {}", key, fmt::join(names, ", "));
  }

  void check_inputs() {
    const std::vector<std::string> open = open_dimensions(graph_);
    if (open.empty()) return;
    std::vector<std::string> inputs;
    for (const auto& input : graph_.input()) {
      if (!static_shape(input.type())) {
        inputs.push_back(fmt::format("input '{}' is {}", input.name(), type_to_string(input.type())));
      }
    }
    std::string flags;
    for (const std::string& key : open) flags += fmt::format(" --dim {}=4", key);
    user_error(where_, "{}: the symbolic dimension{} {} must be set, for example:{}", fmt::join(inputs, ", "),
               open.size() > 1 ? "s" : "", fmt::join(open, ", "), flags);
  }

  onnx::GraphProto& graph_;
  const ImportOptions& options_;
  const std::string& where_;
  std::map<std::string, int64_t> names_set_;
  /// Dimensions that have their extent, and the option that gave it.
  std::map<const Dim*, std::pair<std::string, int64_t>> set_;
};

void infer_all(onnx::ModelProto& model, const std::string& where) {
  try {
    settle_types(model);
  } catch (const isa::UserError& error) {
    user_error(where, "{}", error.what());
  } catch (const isa::UnsupportedError& error) {
    unsupported(where, "{}", error.what());
  }
}

void check_types(const onnx::ModelProto& model, const std::string& where) {
  for (const auto& [name, type] : collect_types(model.graph())) {
    if (type.has_tensor_type())
      check_rank(type.tensor_type().shape().dim_size(), where, fmt::format("value '{}'", name));
  }
  if (has_control_flow(model)) return;
  if (const auto untyped = find_untyped_value(model.graph())) {
    unsupported(where, "{}", explain_open_type(model, untyped->name));
  }
}

/// Why the model can't be static, as far as its nodes and declarations say; empty if nothing speaks against
/// it.
std::string why_open(const onnx::ModelProto& model) {
  for (const auto& node : model.graph().node()) {
    if (has_subgraph(node)) return fmt::format("{} is control flow", describe_node(node));
    const auto* schema = find_schema(model, node);
    for (int k = 0; schema != nullptr && k < node.output_size(); ++k) {
      if (const std::string kind = non_tensor_output(*schema, k); !kind.empty())
        return fmt::format("{} makes {}", describe_node(node), kind);
    }
  }
  for (const auto* values : {&model.graph().input(), &model.graph().output()}) {
    for (const auto& value : *values) {
      const bool has_type = value.type().value_case() != onnx::TypeProto::VALUE_NOT_SET;
      if (has_type && !value.type().has_tensor_type())
        return fmt::format("'{}' is {}", value.name(), type_to_string(value.type()));
    }
  }
  for (const auto& input : model.graph().input()) {
    if (!static_shape(input.type()))
      return fmt::format("input '{}' is {}", input.name(), type_to_string(input.type()));
  }
  return "";
}

/// All that can be done while shapes are open and control flow isn't decided.
void check_and_expand(onnx::ModelProto& model, const ImportOptions& options, const std::string& where,
                      Form form) {
  settle_versions(model, where);
  auto& graph = *model.mutable_graph();
  check_operators(model, graph.node(), model.opset_import(), where, form);
  for (const auto& function : model.functions()) {
    check_operators(model, function.node(), function.opset_import(), where, form);
  }
  check_ranks(graph, where);
  check_tensors(model, where);
  check_with_onnx(model, where);
  check_graph(graph, where, form);

  separate_initializers(graph);
  bind_inputs(graph, options, where);
  model.set_ir_version(kIrVersion);
  // Types of intermediate values are inferred anew: exporters write those of the example they traced.
  graph.clear_value_info();
  DimensionSetter(graph, options, where).run(form);
  expand_local_functions(model, where);
  trim_nodes(graph);
  name_nodes(graph);

  if (opset_version(model) == 0) {  // all nodes were of other domains
    auto& import = *model.add_opset_import();
    import.set_domain("");
    import.set_version(kOpsetVersion);
  }
}

/// From there, with types inferred, to the one form of static models.
void finish_static(onnx::ModelProto& model, const std::string& where) {
  if (opset_version(model) != kOpsetVersion) {
    // The converter's time grows with the square of the nodes, most of which may do no more than ask for
    // shapes.
    if (fold_shapes(model)) prune_value_info(*model.mutable_graph());
    upgrade_opset(model, kOpsetVersion, where);
    name_nodes(*model.mutable_graph());
    infer_all(model, where);
  }
  check_types(model, where);
  reestablish(model, "import");
}

/// Constants of graphs in nodes become the model's own, so that they are values like others: something may be
/// differentiated by them.
void lift_constants(onnx::ModelProto& model) {
  onnx::GraphProto& main = *model.mutable_graph();
  FreshNames names = names_of(main);
  const auto lift = [&](const auto& self, onnx::GraphProto& graph) -> void {
    Renames renames;
    for (auto& tensor : *graph.mutable_initializer()) {
      const std::string name = names.make_unique(tensor.name());
      renames[tensor.name()] = name;
      tensor.set_name(name);
      main.add_initializer()->Swap(&tensor);
    }
    graph.clear_initializer();
    for (auto& node : *graph.mutable_node()) rename_values(node, renames);
    for (auto& output : *graph.mutable_output()) {
      const auto renamed = renames.find(output.name());
      if (renamed != renames.end()) output.set_name(renamed->second);
    }
    for (auto& node : *graph.mutable_node()) {
      for (auto& attribute : *node.mutable_attribute()) {
        if (attribute.has_g()) self(self, *attribute.mutable_g());
      }
    }
  };
  for (auto& node : *main.mutable_node()) {
    for (auto& attribute : *node.mutable_attribute()) {
      if (attribute.has_g()) lift(lift, *attribute.mutable_g());
    }
  }
}

/// The condition of an If, if it is constant.
std::optional<bool> constant_condition(const onnx::GraphProto& graph, const onnx::NodeProto& node) {
  if (node.op_type() != "If" || !node.domain().empty()) return std::nullopt;
  for (const auto& tensor : graph.initializer()) {
    if (tensor.name() != node.input(0)) continue;
    const Tensor value = tensor_from_proto(tensor, describe_node(node));
    if (value.type() == DataType::kBool && value.size() == 1) return value.data<bool>()[0];
  }
  return std::nullopt;
}

/// Ifs whose condition follows from shapes and constants become their branch. Whether there were any.
bool decide_branches(onnx::ModelProto& model) {
  fold_constants(model);
  onnx::GraphProto& graph = *model.mutable_graph();
  onnx::GraphProto decided;
  bool any = false;
  for (const auto& node : graph.node()) {
    if (const auto condition = constant_condition(graph, node)) {
      put_branch(node, *condition, decided);
      any = true;
    } else {
      *decided.add_node() = node;
    }
  }
  if (!any) return false;
  graph.mutable_node()->Swap(decided.mutable_node());
  graph.mutable_initializer()->MergeFrom(decided.initializer());
  graph.clear_value_info();
  name_nodes(graph);
  return true;
}

}  // namespace

onnx::ModelProto read_model(const std::string& path) {
  std::error_code error;
  const auto status = std::filesystem::status(path, error);
  if (status.type() == std::filesystem::file_type::not_found) user_error(path, "no such file");
  if (status.type() == std::filesystem::file_type::directory) {
    user_error(path, "is a directory; an ONNX model is one file");
  }
  return parse_model(isa::read_file(path), path);
}

onnx::ModelProto parse_model(const std::string& bytes, const std::string& path) {
  if (bytes.empty()) user_error(path, "the file is empty; an ONNX model is expected");
  if (bytes.size() > static_cast<size_t>(std::numeric_limits<int>::max())) {
    user_error(path, "{} bytes; a protobuf file, and so an ONNX model, has at most 2 GiB", bytes.size());
  }
  onnx::ModelProto model;
  if (!model.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
    user_error(path, "not an ONNX model, or truncated: its {} bytes aren't a complete protobuf message",
               bytes.size());
  }
  if (!model.has_graph() || !model.has_ir_version()) {
    user_error(path, "not an ONNX model, or truncated: its {} bytes hold no {}", bytes.size(),
               model.has_graph() ? "ir_version" : "graph");
  }
  return model;
}

std::vector<std::string> open_dimensions(const onnx::GraphProto& graph) {
  std::unordered_set<std::string> initializers;
  for (const auto& tensor : graph.initializer()) initializers.insert(tensor.name());
  std::vector<std::string> keys;
  for (const auto& input : graph.input()) {
    if (initializers.contains(input.name())) continue;
    const auto& shape = input.type().tensor_type().shape();
    for (int axis = 0; axis < shape.dim_size(); ++axis) {
      if (!is_open(shape.dim(axis))) continue;
      const std::string& name = shape.dim(axis).dim_param();
      const std::string key = name.empty() ? fmt::format("{}:{}", input.name(), axis) : name;
      if (std::find(keys.begin(), keys.end(), key) == keys.end()) keys.push_back(key);
    }
  }
  return keys;
}

onnx::ModelProto read_model_with_data(const std::string& path) {
  onnx::ModelProto model = read_model(path);
  load_external_data(model, std::filesystem::path(path).parent_path().string(), path);
  return model;
}

onnx::ModelProto simplify_model(onnx::ModelProto model, const std::string& where) {
  settle_versions(model, where);
  expand_local_functions(model, where);
  trim_nodes(*model.mutable_graph());
  name_nodes(*model.mutable_graph());
  return model;
}

onnx::ModelProto import_model(const std::string& path, const ImportOptions& options) {
  return import_model(read_model_with_data(path), options, path);
}

onnx::ModelProto import_model(onnx::ModelProto model, const ImportOptions& options,
                              const std::string& where) {
  check_and_expand(model, options, where, Form::kStatic);
  infer_all(model, where);
  finish_static(model, where);
  return model;
}

onnx::ModelProto import_with_control_flow(onnx::ModelProto model, const ImportOptions& options,
                                          const std::string& where) {
  if (!has_control_flow(model)) return import_model(std::move(model), options, where);
  check_and_expand(model, options, where, Form::kControlFlow);
  if (opset_version(model) != kOpsetVersion)
    unsupported(where, "a model with control flow in opset {}; {} is supported here: export it with that",
                opset_version(model), kOpsetVersion);
  for_each_graph(model, [](onnx::GraphProto& graph) { name_nodes(graph); });
  lift_constants(model);
  do {
    infer_all(model, where);
  } while (decide_branches(model));
  prune_value_info(*model.mutable_graph());
  check_types(model, where);
  reestablish(model, "import");
  return model;
}

ImportedModel import_any_model(const std::string& path, const ImportOptions& options) {
  return import_any_model(read_model_with_data(path), options, path);
}

ImportedModel import_any_model(onnx::ModelProto model, const ImportOptions& options,
                               const std::string& where) {
  ImportedModel result{std::move(model), ""};
  check_and_expand(result.model, options, where, Form::kOpen);
  result.open_reason = why_open(result.model);
  if (!result.open_reason.empty()) return result;
  infer_all(result.model, where);
  if (const auto untyped = find_untyped_value(result.model.graph())) {
    result.open_reason = explain_open_type(result.model, untyped->name);
    if (opset_version(result.model) == kOpsetVersion) return result;
    // More shapes may be known in the newer opset.
    onnx::ModelProto upgraded = result.model;
    try {
      finish_static(upgraded, where);
    } catch (const isa::UnsupportedError&) {
      return result;
    }
    return {std::move(upgraded), ""};
  }
  finish_static(result.model, where);
  return result;
}

}  // namespace kodama::compiler
