#include "compiler/graph/infer_types.h"

#include <onnx/shape_inference/implementation.h>

#include <algorithm>
#include <deque>
#include <memory>

#include "compiler/graph/fold_constants.h"
#include "compiler/graph/inner_graphs.h"
#include "compiler/graph/onnx_model.h"
#include "compiler/graph/operator_rules.h"
#include "compiler/proto/tensor_proto.h"
#include "compiler/reference/executor.h"

namespace kodama::compiler {

namespace {

/// Operands that decide shapes are lists with an element per axis, or one number.
constexpr int64_t kMostKnownElements = 1024;

bool is_small(const onnx::TensorProto& tensor) {
  int64_t count = 1;
  for (int64_t extent : tensor.dims()) {
    if (__builtin_mul_overflow(count, extent, &count) || count > kMostKnownElements) return false;
  }
  return true;
}

class TypeInference {
 public:
  explicit TypeInference(onnx::ModelProto& model)
      : model_(model), graph_(*model.mutable_graph()), operators_(model) {
    for (const auto& input : graph_.input()) check_tensor("input '" + input.name() + "'", input.type());
    for (auto* values : {graph_.mutable_value_info(), graph_.mutable_output(), graph_.mutable_input()}) {
      for (auto& value : *values) {
        check_tensor("value '" + value.name() + "'", value.type());
        types_[value.name()] = value.mutable_type();
      }
    }
    for (const auto& tensor : graph_.initializer()) {
      const onnx::TypeProto type = make_tensor_type(static_cast<DataType>(tensor.data_type()),
                                                    Shape(tensor.dims().begin(), tensor.dims().end()));
      check_tensor("initializer '" + tensor.name() + "'", type);
      types_[tensor.name()] = &own_types_.emplace_back(type);
      if (is_small(tensor)) initializers_[tensor.name()] = &tensor;
    }
  }

  void run() {
    for (auto& node : *graph_.mutable_node()) infer(node);
  }

  InferredResults results(const onnx::NodeProto& node) const {
    InferredResults results;
    for (const std::string& name : node.output()) {
      const auto type = types_.find(name);
      const auto value = values_.find(name);
      results.types.push_back(type == types_.end() ? onnx::TypeProto() : *type->second);
      results.values.push_back(value == values_.end() ? std::nullopt : std::optional(*value->second));
    }
    return results;
  }

  std::string explain(const std::string& value) {
    for (const auto& node : graph_.node()) {
      if (std::find(node.output().begin(), node.output().end(), value) == node.output().end()) continue;
      const std::string where = describe_node(node);
      std::string reason;
      if (!has_operator_rules(node) && !has_reference(node, operators_, &reason)) {
        return where + ": " + reason;
      }
      const auto type = types_.find(value);
      const std::string known = type == types_.end() ? "an unknown type" : type_to_string(*type->second);
      const NodeOperands operands = operands_of(node, *find_schema(model_, node));
      const int decider = shape_deciding_input(operands);
      if (decider >= 0) {
        return fmt::format(
            "{}: the shape of its output '{}' ({}) depends on data: on the elements of {}, which aren't "
            "constant; Kodama needs every shape before the model runs (--bind fixes an input of the model)",
            where, value, known, operands.describe(decider));
      }
      return fmt::format(
          "{}: the shape of its output '{}' isn't known from its inputs ({}); Kodama needs every "
          "shape before the model runs",
          where, value, known);
    }
    return fmt::format("the type of '{}' isn't known", value);
  }

 private:
  static void check_tensor(const std::string& what, const onnx::TypeProto& type) {
    if (!type.has_tensor_type()) return;
    if (!is_data_type(type.tensor_type().elem_type())) {
      throw isa::UserError(fmt::format("{} has the element type {}, which IR version {} of ONNX doesn't have",
                                       what, type.tensor_type().elem_type(), kIrVersion));
    }
    int64_t count = 1;
    for (const auto& dim : type.tensor_type().shape().dim()) {
      // An extent of 0 doesn't excuse the others: they are multiplied in strides.
      if (!dim.has_dim_value() || dim.dim_value() <= 1) continue;
      if (__builtin_mul_overflow(count, dim.dim_value(), &count) || count > kMaxTensorElements) {
        throw isa::UnsupportedError(
            fmt::format("{} is {}; a tensor of at most {} elements is supported: set smaller "
                        "dimensions (--dim), or split it",
                        what, type_to_string(type), kMaxTensorElements));
      }
    }
  }

  const onnx::TypeProto* known_type(const std::string& name) const {
    const auto found = types_.find(name);
    if (found == types_.end() || !found->second->has_tensor_type()) return nullptr;
    if (found->second->tensor_type().elem_type() == DataType::kUndefined) return nullptr;
    return found->second;
  }

  const Tensor* known_value(const std::string& name) {
    const auto found = values_.find(name);
    if (found != values_.end()) return found->second.get();
    const auto initializer = initializers_.find(name);
    if (initializer == initializers_.end()) return nullptr;
    auto tensor =
        std::make_shared<const Tensor>(tensor_from_proto(*initializer->second, "initializer '" + name + "'"));
    return (values_[name] = std::move(tensor)).get();
  }

  NodeOperands operands_of(const onnx::NodeProto& node, const onnx::OpSchema& schema) {
    std::vector<const onnx::TypeProto*> types;
    std::vector<const Tensor*> constants;
    for (const std::string& name : node.input()) {
      types.push_back(name.empty() ? nullptr : known_type(name));
      constants.push_back(name.empty() ? nullptr : known_value(name));
    }
    return {node, schema, std::move(types), std::move(constants)};
  }

  void infer(onnx::NodeProto& node) {
    const onnx::OpSchema* schema = find_schema(model_, node);
    if (schema == nullptr) return;  // a call of a function of the model's own
    check_results(node, *schema);
    const NodeOperands operands = operands_of(node, *schema);
    check_operands(operands);
    for (int i = 0; i < node.input_size(); ++i) {
      if (operands.has(i) && !operands.type(i)) return;
    }
    if (has_subgraph(node)) {
      infer_control_flow(node);
      return;
    }
    // libonnx isn't asked about operators that nobody here knows.
    if (!has_operator_rules(node) && !has_reference(node, operators_)) return;
    if (results_are_like_operands(node)) {
      for (int k = 0; k < node.output_size(); ++k) {
        if (!node.output(k).empty()) store(node, k, *known_type(node.input(k)));
      }
      return;
    }
    const std::map<int, Shape> own = own_inference(operands);
    infer_by_library(node, *schema, own);
    for (const auto& [output, shape] : own) {
      if (output >= node.output_size() || node.output(output).empty()) continue;
      const auto* type = known_type(node.output(output));
      if (type == nullptr) continue;
      store(node, output, make_tensor_type(static_cast<DataType>(type->tensor_type().elem_type()), shape));
    }
    evaluate(node);
  }

  void infer_control_flow(const onnx::NodeProto& node) {
    const Surroundings around = {[&](const std::string& name) { return known_type(name); },
                                 [&](const std::string& name) { return known_value(name); }};
    const std::vector<onnx::TypeProto> types = control_flow_types(model_, node, around);
    for (int i = 0; i < std::min(node.output_size(), static_cast<int>(types.size())); ++i) {
      if (!node.output(i).empty()) store(node, i, types[static_cast<size_t>(i)]);
    }
  }

  /// Only tensors.
  static void check_results(const onnx::NodeProto& node, const onnx::OpSchema& schema) {
    for (int i = 0; i < node.output_size(); ++i) {
      if (const std::string kind = non_tensor_output(schema, i); !kind.empty()) {
        throw isa::UnsupportedError(fmt::format("{}: its output '{}' is {}; only tensors are supported",
                                                describe_node(node), node.output(i), kind));
      }
    }
  }

  /// All but the shapes of `own` outputs.
  void infer_by_library(onnx::NodeProto& node, const onnx::OpSchema& schema,
                        const std::map<int, Shape>& own) {
    std::unordered_map<std::string, onnx::TypeProto*> types;
    std::unordered_map<std::string, const onnx::TensorProto*> data;
    std::deque<onnx::TensorProto> tensors;
    for (const std::string& name : node.input()) {
      if (name.empty() || types.contains(name)) continue;
      types[name] = types_.at(name);
      const Tensor* const value = library_reads_elements(node) ? known_value(name) : nullptr;
      if (value != nullptr) {
        data[name] = &tensors.emplace_back(tensor_to_proto(*value, name));
      }
    }
    onnx::shape_inference::InferenceContextImpl context(node, types, data, {});
    try {
      if (schema.has_type_and_shape_inference_function()) {
        schema.GetTypeAndShapeInferenceFunction()(context);
      } else if (schema.HasFunction()) {
        onnx::shape_inference::InferShapeForFunctionNode(*schema.GetFunction(),
                                                         onnx::OpSchemaRegistry::Instance(), context);
      } else {
        return;
      }
      schema.CheckInputOutputType(context);
    } catch (const std::exception& error) {
      const std::string message = clean_onnx_message(error.what());
      throw isa::UserError(fmt::format("{}: {}", describe_node(node),
                                       message.empty() ? "its types contradict each other" : message));
    }
    for (int i = 0; i < node.output_size(); ++i) {
      if (node.output(i).empty()) continue;
      onnx::TypeProto inferred = *context.getOutputType(static_cast<size_t>(i));
      if (own.contains(i)) inferred.mutable_tensor_type()->clear_shape();
      store(node, i, inferred);
    }
  }

  /// Joins what was inferred with what the model says of the value.
  void store(const onnx::NodeProto& node, int output, const onnx::TypeProto& inferred) {
    if (inferred.value_case() == onnx::TypeProto::VALUE_NOT_SET) return;
    const std::string& name = node.output(output);
    const auto what = [&] { return fmt::format("{}: its output '{}'", describe_node(node), name); };
    if (!inferred.has_tensor_type()) {
      throw isa::UnsupportedError(
          fmt::format("{} is {}; only tensors are supported", what(), type_to_string(inferred)));
    }
    for (const auto& dim : inferred.tensor_type().shape().dim()) {
      if (dim.has_dim_value() && dim.dim_value() < 0) {
        throw isa::UserError(fmt::format("{} would have an extent of {}", what(), dim.dim_value()));
      }
    }
    auto& known = types_[name];
    if (known == nullptr) {
      auto& info = *graph_.add_value_info();
      info.set_name(name);
      known = info.mutable_type();
    }
    const std::string conflict = merge(inferred.tensor_type(), *known);
    if (!conflict.empty()) {
      throw isa::UserError(fmt::format("{} is {}, but the model says {}: they differ in {}", what(),
                                       type_to_string(inferred), type_to_string(*known), conflict));
    }
    check_tensor(what(), *known);
  }

  /// Returns in what they differ.
  static std::string merge(const onnx::TypeProto_Tensor& inferred, onnx::TypeProto& known) {
    if (known.value_case() != onnx::TypeProto::VALUE_NOT_SET && !known.has_tensor_type()) return "kind";
    auto& type = *known.mutable_tensor_type();
    if (inferred.elem_type() != DataType::kUndefined) {
      if (type.elem_type() == DataType::kUndefined) type.set_elem_type(inferred.elem_type());
      if (type.elem_type() != inferred.elem_type()) return "element type";
    }
    if (!inferred.has_shape()) return "";
    if (!type.has_shape()) {
      *type.mutable_shape() = inferred.shape();
      return "";
    }
    auto& dims = *type.mutable_shape()->mutable_dim();
    if (dims.size() != inferred.shape().dim_size()) return "rank";
    for (int i = 0; i < dims.size(); ++i) {
      const auto& dim = inferred.shape().dim(i);
      if (!dim.has_dim_value()) continue;
      if (!dims[i].has_dim_value() || dims[i].dim_value() < 0) dims[i] = dim;
      if (dims[i].dim_value() != dim.dim_value()) return fmt::format("dimension {}", i);
    }
    return "";
  }

  /// The values of a node whose operands are known; what fails is reported by who needs it.
  void evaluate(const onnx::NodeProto& node) {
    if (is_random(node) || has_subgraph(node)) return;
    const bool by_data = shape_depends_on_data(node);  // only the results say how large they are
    for (const std::string& name : node.output()) {
      const auto* type = name.empty() ? nullptr : known_type(name);
      const auto shape = type == nullptr ? std::nullopt : static_shape(*type);
      if (by_data ? type == nullptr : !shape || element_count(*shape) > kMostKnownElements) return;
    }
    std::vector<Tensor> results;
    if (const auto* type = node.input_size() == 0 ? nullptr : known_type(node.input(0))) {
      if (auto shape = value_of_shape(node, *type)) results.push_back(std::move(*shape));
    }
    if (results.empty()) {
      std::vector<const Tensor*> inputs;
      for (const std::string& name : node.input()) {
        inputs.push_back(name.empty() ? nullptr : known_value(name));
        if (!name.empty() && inputs.back() == nullptr) return;
      }
      try {
        results = run_node(node, inputs, operators_);
      } catch (const isa::UserError&) {
        return;
      } catch (const isa::UnsupportedError&) {
        return;
      }
    }
    for (int i = 0; i < node.output_size(); ++i) {
      const Tensor& result = results[static_cast<size_t>(i)];
      if (by_data) store(node, i, make_tensor_type(result.type(), result.shape()));
      values_[node.output(i)] = std::make_shared<const Tensor>(std::move(results[static_cast<size_t>(i)]));
    }
  }

  onnx::ModelProto& model_;
  onnx::GraphProto& graph_;
  const OperatorSets operators_;
  std::unordered_map<std::string, onnx::TypeProto*> types_;
  std::deque<onnx::TypeProto> own_types_;                                   ///< of initializers
  std::unordered_map<std::string, const onnx::TensorProto*> initializers_;  ///< the small ones
  std::unordered_map<std::string, std::shared_ptr<const Tensor>> values_;
};

}  // namespace

void infer_types(onnx::ModelProto& model) {
  // The weights are by far the largest part; a failed attempt can only have added to the value_info and
  // refined the outputs.
  const auto infos = model.graph().value_info();
  const auto outputs = model.graph().output();
  try {
    TypeInference(model).run();
  } catch (...) {
    *model.mutable_graph()->mutable_value_info() = infos;
    *model.mutable_graph()->mutable_output() = outputs;
    throw;
  }
}

InferredResults infer_node(const onnx::ModelProto& versions, const onnx::NodeProto& node,
                           const Surroundings& around) {
  onnx::ModelProto model;
  model.set_ir_version(kIrVersion);
  *model.mutable_opset_import() = versions.opset_import();
  onnx::GraphProto& graph = *model.mutable_graph();
  *graph.add_node() = node;
  for (const std::string& name : names_read(node)) {
    if (name.empty()) continue;
    if (const Tensor* const value = around.value(name); value != nullptr) {
      *graph.add_initializer() = tensor_to_proto(*value, name);
      continue;
    }
    const onnx::TypeProto* const type = around.type(name);
    if (type == nullptr) continue;
    auto& input = *graph.add_input();
    input.set_name(name);
    *input.mutable_type() = *type;
  }
  TypeInference inference(model);
  inference.run();
  return inference.results(model.graph().node(0));
}

std::string explain_open_type(onnx::ModelProto model, const std::string& value) {
  TypeInference inference(model);
  inference.run();
  return inference.explain(value);
}

}  // namespace kodama::compiler
