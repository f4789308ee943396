#include "builder/node_draft.h"

#include <fmt/format.h>

#include "compiler/graph/onnx_model.h"
#include "compiler/proto/tensor_proto.h"

namespace kodama::builder {

using onnx::AttributeProto;

NodeDraft::NodeDraft(const char* op, const char* domain, Here here, const Graph* graph) {
  request_.schema = onnx::OpSchemaRegistry::Schema(op, *domain == '\0' ? compiler::kOpsetVersion : 1, domain);
  isa::check_internal(request_.schema != nullptr, "builder", "there is no operator {}", op);
  request_.here = here;
  if (graph != nullptr) recorder_ = graph->recorder_;
}

void NodeDraft::operands(const Operands& operands) {
  request_.operands.insert(request_.operands.end(), operands.list().begin(), operands.list().end());
}

void NodeDraft::outputs(int64_t count) {
  request_.output_count = count < 0 || count > INT32_MAX ? 0 : static_cast<int>(count);
}

std::vector<Value> NodeDraft::record() {
  for (const Operand& operand : request_.operands) {
    if (recorder_ == nullptr && operand.value() != nullptr) recorder_ = Recorder::of(*operand.value());
  }
  if (recorder_ == nullptr) {
    const std::string& op = request_.schema->Name();
    fail(request_.here, fmt::format("{}: no operand is a value of a graph; at least one must be, and "
                                    "Graph::constant() makes values of numbers",
                                    op));
  }
  return recorder_->record(request_);
}

AttributeProto& NodeDraft::add(const char* name, onnx::AttributeProto_AttributeType type) {
  AttributeProto& attribute = request_.attributes.emplace_back();
  attribute.set_name(name);
  attribute.set_type(type);
  return attribute;
}

void NodeDraft::set(const char* name, int64_t value) {
  add(name, AttributeProto::INT).set_i(value);
}

void NodeDraft::set(const char* name, float value) {
  add(name, AttributeProto::FLOAT).set_f(value);
}

void NodeDraft::set(const char* name, const std::string& value) {
  add(name, AttributeProto::STRING).set_s(value);
}

void NodeDraft::set(const char* name, const std::vector<int64_t>& values) {
  AttributeProto& attribute = add(name, AttributeProto::INTS);
  for (const int64_t value : values) attribute.add_ints(value);
}

void NodeDraft::set(const char* name, const std::vector<float>& values) {
  AttributeProto& attribute = add(name, AttributeProto::FLOATS);
  for (const float value : values) attribute.add_floats(value);
}

void NodeDraft::set(const char* name, const std::vector<std::string>& values) {
  AttributeProto& attribute = add(name, AttributeProto::STRINGS);
  for (const std::string& value : values) attribute.add_strings(value);
}

void NodeDraft::set(const char* name, const Tensor& tensor) {
  *add(name, AttributeProto::TENSOR).mutable_t() = compiler::tensor_to_proto(tensor, "");
}

void NodeDraft::set(const char* name, const onnx::SparseTensorProto& tensor) {
  *add(name, AttributeProto::SPARSE_TENSOR).mutable_sparse_tensor() = tensor;
}

void NodeDraft::set(const char* name, const onnx::TypeProto& type) {
  *add(name, AttributeProto::TYPE_PROTO).mutable_tp() = type;
}

void NodeDraft::set(const char* name, const Body& body) {
  request_.bodies.emplace_back(name, body);
}

}  // namespace kodama::builder
