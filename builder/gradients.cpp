#include <fmt/format.h>

#include <algorithm>

#include "builder/recorder.h"
#include "compiler/graph/gradient/gradient_nodes.h"
#include "compiler/graph/import_control_flow.h"
#include "compiler/graph/onnx_model.h"

/// Derivatives: a node Gradient of ONNX's training domain, which becomes nodes like others in the model.
namespace kodama::builder {

namespace {

const onnx::OpSchema& schema_of(const char* op, const char* domain = "",
                                int version = compiler::kOpsetVersion) {
  return *onnx::OpSchemaRegistry::Schema(op, version, domain);
}

bool is_float(const onnx::TypeProto& type) {
  if (!type.has_tensor_type()) return false;
  const int element = type.tensor_type().elem_type();
  return element == kFloat16 || element == kBFloat16 || element == kFloat32 || element == kFloat64;
}

}  // namespace

std::vector<Value> Recorder::backward(int loss, Here here) {
  const ValueRecord& value = this->value(loss, here);
  if (block_ != 0 || value.block != 0)
    fail(here, "backward: derivatives of what is in the body of a node; those of the main graph are allowed");
  if (!is_float(value.type)) {
    fail(here, fmt::format("backward: '{}' is {}; a tensor of floating-point numbers is allowed", value.name,
                           compiler::type_to_string(value.type)));
  }
  std::vector<int> parameters = ancestors(loss, ValueKind::kParameter);
  std::erase_if(parameters, [&](int id) { return !is_float(record_of(id).type); });
  if (parameters.empty()) {
    fail(here, fmt::format("backward: '{}' depends on no parameter of floating-point numbers; "
                           "Graph::parameter() makes them",
                           value.name));
  }
  const std::vector<int> others = ancestors(loss, ValueKind::kInput);

  NodeRequest request;
  request.schema = &schema_of("Gradient", "ai.onnx.preview.training", 1);
  request.here = here;
  request.output_count = static_cast<int>(parameters.size());
  for (const std::vector<int>* ids : {&std::as_const(parameters), &others}) {
    for (const int id : *ids) request.operands.emplace_back(handle(id), here);
  }
  request.names.push_back({"xs", parameters});
  if (!others.empty()) request.names.push_back({"zs", others});
  request.names.push_back({"y", {loss}, true});
  for (const int id : parameters) request.output_names.push_back(record_of(id).name + ".grad");
  const std::vector<Value> results = this->record(request);

  // Whether it can be differentiated is seen here, where the line is known.
  const bool is_static = std::ranges::all_of(of_kind(ValueKind::kInput), [&](int id) {
    return compiler::static_shape(record_of(id).type).has_value();
  });
  if (is_static) {
    std::vector<int> outputs;
    for (const Value& result : results) outputs.push_back(id_of(result));
    try {
      with_line(here, [&] { (void)with_gradients(export_model(outputs, false), "backward"); });
    } catch (...) {
      // What the node made must not be used.
      nodes_.pop_back();
      blocks_[0].nodes.pop_back();
      for (const Value& result : results) {
        (void)result;
        value_names_.release(values_.back().name);
        by_name_.erase(values_.back().name);
        values_.pop_back();
      }
      throw;
    }
  }

  std::vector<Value> gradients;
  for (size_t k = 0; k < parameters.size(); ++k) {
    Value gradient = results[k];
    if (const int before = record_of(parameters[k]).gradient; before >= 0) {
      NodeRequest sum;
      sum.schema = &schema_of("Add");
      sum.here = here;
      sum.operands = {Operand(handle(before), here), Operand(gradient, here)};
      gradient = this->record(sum).front();
    }
    at(parameters[k]).gradient = id_of(gradient);
    gradients.push_back(gradient);
  }
  return gradients;
}

Value Recorder::gradient(int parameter, Here here) {
  const ValueRecord& value = record_of(parameter);
  if (value.gradient < 0) {
    fail(here,
         fmt::format(
             "'{}' has no gradient; after backward() of a value that depends on it, a parameter has one",
             value.name));
  }
  return handle(value.gradient);
}

onnx::ModelProto with_gradients(onnx::ModelProto model, const std::string& where) {
  model = compiler::import_with_control_flow(std::move(model), {}, where);
  compiler::expand_gradient_nodes(model, where);
  return model;
}

}  // namespace kodama::builder
