#include <fmt/format.h>

#include <algorithm>

#include "builder/recorder.h"
#include "builder/undo.h"
#include "compiler/graph/onnx_model.h"

/// Bodies of nodes: If, Loop, Scan, SequenceMap.
namespace kodama::builder {

namespace {

const onnx::AttributeProto* attribute_of(const NodeRecord& node, const char* name) {
  const auto found =
      std::ranges::find_if(node.attributes, [&](const auto& each) { return each.name() == name; });
  return found == node.attributes.end() ? nullptr : &*found;
}

std::string describe(const NodeRecord& node) {
  return fmt::format("node '{}' ({})", node.name, node.schema->Name());
}

/// What all tensors of a sequence are, or the type itself.
onnx::TypeProto element_of(const onnx::TypeProto& type) {
  return type.has_sequence_type() ? type.sequence_type().elem_type() : type;
}

/// Opens what differs in the shape of `type`. Whether anything does. False for other types than tensors.
bool open_differences(onnx::TypeProto& type, const onnx::TypeProto& other) {
  if (!type.has_tensor_type() || !type.tensor_type().has_shape() || !other.has_tensor_type()) return false;
  auto& dims = *type.mutable_tensor_type()->mutable_shape()->mutable_dim();
  const auto& others = other.tensor_type().shape().dim();
  if (!other.tensor_type().has_shape() || dims.size() != others.size()) {
    type.mutable_tensor_type()->clear_shape();
    return true;
  }
  bool differs = false;
  for (int axis = 0; axis < dims.size(); ++axis) {
    if (dims[axis].SerializeAsString() == others[axis].SerializeAsString()) continue;
    if (dims[axis].value_case() == onnx::TensorShapeProto_Dimension::VALUE_NOT_SET) continue;
    dims[axis].Clear();
    differs = true;
  }
  return differs;
}

}  // namespace

/// The types of a body's inputs before anything is known of what it makes.
std::vector<onnx::TypeProto> Recorder::body_inputs(const NodeRequest& request, const NodeRecord& node) const {
  const std::string& op = node.schema->Name();
  std::vector<onnx::TypeProto> given;
  for (const int input : node.inputs) given.push_back(input < 0 ? onnx::TypeProto() : record_of(input).type);
  std::vector<onnx::TypeProto> types;
  if (op == "Loop") {
    types = {compiler::make_tensor_type(kInt64, {}), compiler::make_tensor_type(kBool, {})};
    for (size_t k = 2; k < given.size(); ++k) types.push_back(given[k]);
  } else if (op == "SequenceMap") {
    for (const auto& type : given) types.push_back(element_of(type));
  } else if (op == "Scan") {
    const int64_t scans = attribute_of(node, "num_scan_inputs")->i();
    if (scans < 1 || scans > static_cast<int64_t>(given.size())) {
      fail(request.here, fmt::format("{}: attribute num_scan_inputs is {}; 1 to {} is allowed",
                                     describe(node), scans, given.size()));
    }
    const size_t states = given.size() - static_cast<size_t>(scans);
    const auto* const axes = attribute_of(node, "scan_input_axes");
    if (axes != nullptr && axes->ints_size() != scans) {
      fail(request.here, fmt::format("{}: attribute scan_input_axes has {} values; {} are allowed",
                                     describe(node), axes->ints_size(), scans));
    }
    for (size_t k = 0; k < given.size(); ++k) {
      onnx::TypeProto type = given[k];
      if (k >= states && type.has_tensor_type() && type.tensor_type().has_shape()) {
        auto& dims = *type.mutable_tensor_type()->mutable_shape()->mutable_dim();
        const int64_t axis = axes == nullptr ? 0 : axes->ints(static_cast<int>(k - states));
        if (axis < -dims.size() || axis >= dims.size()) {
          fail(request.here, fmt::format("{}: axis {} of '{}', which is {}; {} to {} is allowed",
                                         describe(node), axis, record_of(node.inputs[k]).name,
                                         compiler::type_to_string(given[k]), -dims.size(), dims.size() - 1));
        }
        dims.DeleteSubrange(static_cast<int>(axis < 0 ? axis + dims.size() : axis), 1);
      }
      types.push_back(std::move(type));
    }
  }
  return types;
}

void Recorder::record_bodies(const NodeRequest& request, NodeRecord& node) {
  if (request.bodies.empty()) return;
  std::vector<onnx::TypeProto> inputs = body_inputs(request, node);
  const std::string& op = node.schema->Name();
  // State that comes out of a Loop or Scan goes in again: what changes of its shape is open.
  const size_t first = op == "Loop" ? 2 : 0;         // the first state among the inputs
  const size_t first_output = op == "Loop" ? 1 : 0;  // and among the outputs
  size_t states = op == "Loop" ? inputs.size() - first : 0;
  if (op == "Scan") states = inputs.size() - static_cast<size_t>(attribute_of(node, "num_scan_inputs")->i());
  for (const auto& [attribute, body] : request.bodies) {
    for (bool is_settled = false; !is_settled;) {
      is_settled = true;
      Undo undo(*this);
      const int block = record_body(body, node.name + "." + attribute, inputs, request.here);
      const std::vector<int>& outputs = blocks_[static_cast<size_t>(block)].outputs;
      if (outputs.size() < first_output + states) {
        fail(request.here, fmt::format("{}: its body returns {} values; at least {} are allowed",
                                       describe(node), outputs.size(), first_output + states));
      }
      for (size_t k = 0; k < states; ++k)
        is_settled &= !open_differences(inputs[first + k], record_of(outputs[first_output + k]).type);
      if (!is_settled) continue;  // it is recorded once more
      undo.keep();
      node.bodies.push_back({attribute, block});
    }
  }
  if (op == "If") {
    const auto count = [&](const NodeRecord::Body& body) {
      return blocks_[static_cast<size_t>(body.block)].outputs.size();
    };
    if (count(node.bodies.front()) != count(node.bodies.back()) || count(node.bodies.front()) == 0) {
      fail(request.here,
           fmt::format("{}: its branches return {} and {} values; both must return as many, and at "
                       "least one",
                       describe(node), count(node.bodies.front()), count(node.bodies.back())));
    }
  }
}

int Recorder::record_body(const Body& body, const std::string& name,
                          const std::vector<onnx::TypeProto>& inputs, Here here) {
  const int block = static_cast<int>(blocks_.size());
  const int outer = block_;
  blocks_.emplace_back();
  blocks_.back().parent = outer;
  block_ = block;
  std::vector<Value> values;
  for (size_t k = 0; k < inputs.size(); ++k) {
    ValueRecord record;
    record.kind = ValueKind::kBodyInput;
    record.type = inputs[k];
    record.block = block;
    const int id = add_value(std::move(record), fmt::format("{}.in{}", name, k), false, here);
    blocks_[static_cast<size_t>(block)].inputs.push_back(id);
    values.push_back(handle(id));
  }
  finish_body(block, body.record(values), here);
  block_ = outer;
  return block;
}

/// An output is made by a node of the body, and by no other output: else by an Identity.
void Recorder::finish_body(int block, std::vector<Value> outputs, Here here) {
  std::vector<int> ids;
  for (const Value& output : outputs) {
    int id = use(output, here);
    if (record_of(id).block != block || record_of(id).kind != ValueKind::kResult ||
        std::ranges::count(ids, id) > 0) {
      NodeRequest identity;
      identity.schema = onnx::OpSchemaRegistry::Schema("Identity", compiler::kOpsetVersion, "");
      identity.here = here;
      identity.operands = {Operand(output, here)};
      id = id_of(record(identity).front());
    }
    ids.push_back(id);
  }
  blocks_[static_cast<size_t>(block)].outputs = std::move(ids);
}

int Recorder::count_outputs(const NodeRequest& request, const NodeRecord& node) const {
  if (!node.bodies.empty()) {
    const auto& outputs = blocks_[static_cast<size_t>(node.bodies.back().block)].outputs;
    return static_cast<int>(outputs.size()) - (node.schema->Name() == "Loop" ? 1 : 0);
  }
  if (request.output_count < 1 || request.output_count > (1 << 20)) {
    fail(request.here, fmt::format("{}: {} outputs are asked for; at least 1 is allowed", describe(node),
                                   request.output_count));
  }
  return request.output_count;
}

/// Whether anything in the bodies isn't a tensor: the compiler infers types of tensors only.
bool Recorder::has_others(const std::vector<NodeRecord::Body>& bodies) const {
  const auto is_other = [&](int id) {
    const auto kind = record_of(id).type.value_case();
    return kind != onnx::TypeProto::VALUE_NOT_SET && kind != onnx::TypeProto::kTensorType;
  };
  return std::ranges::any_of(bodies, [&](const NodeRecord::Body& body) {
    const Block& block = blocks_[static_cast<size_t>(body.block)];
    return std::ranges::any_of(block.inputs, is_other) || std::ranges::any_of(block.nodes, [&](int id) {
             const NodeRecord& node = node_at(id);
             return std::ranges::any_of(node.outputs, is_other) || has_others(node.bodies);
           });
  });
}

/// What the compiler leaves open, by what the bodies make.
onnx::TypeProto Recorder::type_by_body(const NodeRecord& node, size_t output) const {
  const std::string& op = node.schema->Name();
  const Block& block = blocks_[static_cast<size_t>(node.bodies.front().block)];
  if (op == "SequenceMap") {
    onnx::TypeProto type;
    *type.mutable_sequence_type()->mutable_elem_type() = record_of(block.outputs[output]).type;
    return type;
  }
  if (op == "If") {
    onnx::TypeProto type = record_of(block.outputs[output]).type;
    const auto& others = blocks_[static_cast<size_t>(node.bodies.back().block)].outputs;
    const onnx::TypeProto other = output < others.size() ? record_of(others[output]).type : onnx::TypeProto();
    if (type.value_case() != other.value_case() ||
        type.tensor_type().elem_type() != other.tensor_type().elem_type()) {
      throw isa::UserError(fmt::format("{}: its output {} is {} and {}; both must have the same type",
                                       describe(node), output, compiler::type_to_string(type),
                                       compiler::type_to_string(other)));
    }
    open_differences(type, other);
    return type;
  }
  const size_t first_input = op == "Loop" ? 2 : 0;
  const size_t first_output = op == "Loop" ? 1 : 0;
  size_t states = block.inputs.size() - first_input;
  if (op == "Scan") states -= static_cast<size_t>(attribute_of(node, "num_scan_inputs")->i());
  if (output < states) {
    // The first value may be an optional, and what the body makes no more.
    const onnx::TypeProto& first = record_of(block.inputs[first_input + output]).type;
    const onnx::TypeProto& next = record_of(block.outputs[first_output + output]).type;
    return first.value_case() == next.value_case() ? first : next;
  }
  // What is stacked has an axis more; of its extents it is known which only if it is the first.
  onnx::TypeProto type = record_of(block.outputs[first_output + output]).type;
  if (!type.has_tensor_type()) return {};
  const onnx::TensorShapeProto inner = type.tensor_type().shape();
  const bool has_shape = type.tensor_type().has_shape() && attribute_of(node, "scan_output_axes") == nullptr;
  type.mutable_tensor_type()->clear_shape();
  if (has_shape) {
    type.mutable_tensor_type()->mutable_shape()->add_dim();
    type.mutable_tensor_type()->mutable_shape()->mutable_dim()->MergeFrom(inner.dim());
  }
  return type;
}

}  // namespace kodama::builder
