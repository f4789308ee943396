#include <algorithm>

#include "builder/recorder.h"
#include "compiler/graph/onnx_model.h"
#include "compiler/proto/tensor_proto.h"

/// What was recorded as a model.
namespace kodama::builder {

/// What is needed: by number.
struct Recorder::Live {
  std::vector<bool> values;
  std::vector<bool> nodes;
};

Recorder::Live Recorder::live_for(const std::vector<int>& outputs) const {
  Live live{std::vector<bool>(values_.size()), std::vector<bool>(nodes_.size())};
  std::vector<int> open = outputs;
  while (!open.empty()) {
    const int id = open.back();
    open.pop_back();
    if (id < 0 || live.values[static_cast<size_t>(id)]) continue;
    live.values[static_cast<size_t>(id)] = true;
    const int maker = record_of(id).node;
    if (maker < 0 || live.nodes[static_cast<size_t>(maker)]) continue;
    live.nodes[static_cast<size_t>(maker)] = true;
    const NodeRecord& node = node_at(maker);
    open.insert(open.end(), node.inputs.begin(), node.inputs.end());
    for (const auto& names : node.names) open.insert(open.end(), names.values.begin(), names.values.end());
    for (const auto& body : node.bodies) {
      const Block& block = blocks_[static_cast<size_t>(body.block)];
      open.insert(open.end(), block.outputs.begin(), block.outputs.end());
    }
  }
  return live;
}

std::vector<int> Recorder::ancestors(int value, ValueKind kind) const {
  const Live live = live_for({value});
  std::vector<int> ids = of_kind(kind);
  std::erase_if(ids, [&](int id) { return !live.values[static_cast<size_t>(id)]; });
  return ids;
}

/// Without `live`: with all outputs that are used.
onnx::NodeProto Recorder::node_proto(const NodeRecord& node, const Live* live) const {
  onnx::NodeProto proto;
  proto.set_op_type(node.schema->Name());
  proto.set_domain(node.schema->domain());
  proto.set_name(node.name);
  for (const int input : node.inputs) proto.add_input(input < 0 ? "" : record_of(input).name);
  const auto& formals = node.schema->outputs();
  for (size_t k = 0; k < node.outputs.size(); ++k) {
    const ValueRecord& output = record_of(node.outputs[k]);
    const bool may_go =
        !node.keeps_outputs && k < formals.size() && formals[k].GetOption() == onnx::OpSchema::Optional;
    const bool is_needed = live == nullptr || live->values[static_cast<size_t>(node.outputs[k])];
    proto.add_output(output.is_used && (is_needed || !may_go) ? output.name : "");
  }
  while (proto.output_size() > 1 && proto.output(proto.output_size() - 1).empty())
    proto.mutable_output()->RemoveLast();
  for (const auto& attribute : node.attributes) *proto.add_attribute() = attribute;
  for (const auto& names : node.names) {
    auto& attribute = compiler::set_attribute(proto, names.attribute,
                                              names.single ? onnx::AttributeProto_AttributeType_STRING
                                                           : onnx::AttributeProto_AttributeType_STRINGS);
    for (const int id : names.values) {
      if (names.single) {
        attribute.set_s(record_of(id).name);
      } else {
        attribute.add_strings(record_of(id).name);
      }
    }
  }
  for (const auto& body : node.bodies) {
    *compiler::set_attribute(proto, body.attribute, onnx::AttributeProto_AttributeType_GRAPH).mutable_g() =
        body_proto(body.block, live);
  }
  return proto;
}

onnx::GraphProto Recorder::body_proto(int block_number, const Live* live) const {
  const Block& block = blocks_[static_cast<size_t>(block_number)];
  onnx::GraphProto graph;
  graph.set_name("body");
  const auto describe = [&](int id, onnx::ValueInfoProto& info) {
    info.set_name(record_of(id).name);
    if (record_of(id).type.value_case() != onnx::TypeProto::VALUE_NOT_SET)
      *info.mutable_type() = record_of(id).type;
  };
  for (const int id : block.inputs) describe(id, *graph.add_input());
  for (const int id : block.outputs) describe(id, *graph.add_output());
  for (const int id : block.nodes) {
    if (live == nullptr || live->nodes[static_cast<size_t>(id)])
      *graph.add_node() = node_proto(node_at(id), live);
  }
  return graph;
}

onnx::ModelProto Recorder::versions() const {
  onnx::ModelProto model;
  model.set_ir_version(compiler::kIrVersion);
  for (const auto& [domain, version] :
       {std::pair{"", compiler::kOpsetVersion}, {"ai.onnx.preview.training", 1}}) {
    auto& import = *model.add_opset_import();
    import.set_domain(domain);
    import.set_version(version);
  }
  return model;
}

onnx::ModelProto Recorder::export_model(const std::vector<int>& outputs, bool with_parameters) const {
  const Live live = live_for(outputs);
  onnx::ModelProto model = versions();
  model.set_producer_name("kodama");
  onnx::GraphProto& graph = *model.mutable_graph();
  graph.set_name(name_);
  const auto describe = [](const ValueRecord& value, onnx::ValueInfoProto& info) {
    info.set_name(value.name);
    if (value.type.value_case() != onnx::TypeProto::VALUE_NOT_SET) *info.mutable_type() = value.type;
  };
  for (size_t id = 0; id < values_.size(); ++id) {
    const ValueRecord& value = values_[id];
    const bool is_input = value.kind == ValueKind::kInput;
    if (is_input || (value.kind == ValueKind::kParameter && !with_parameters && live.values[id])) {
      describe(value, *graph.add_input());
    } else if (live.values[id] && (value.elements != nullptr || value.initial)) {
      *graph.add_initializer() =
          value.elements != nullptr
              ? compiler::tensor_to_proto(*value.elements, value.name)
              : compiler::tensor_to_proto(
                    value.initial->draw(static_cast<DataType>(value.type.tensor_type().elem_type()),
                                        *compiler::static_shape(value.type), seed_, value.name),
                    value.name);
    }
  }
  for (const int id : blocks_[0].nodes) {
    if (!live.nodes[static_cast<size_t>(id)]) continue;
    *graph.add_node() = node_proto(node_at(id), &live);
    for (const int output : node_at(id).outputs) {
      const ValueRecord& value = record_of(output);
      if (value.is_used && live.values[static_cast<size_t>(output)] &&
          std::ranges::count(outputs, output) == 0 &&
          value.type.value_case() != onnx::TypeProto::VALUE_NOT_SET)
        describe(value, *graph.add_value_info());
    }
  }
  for (const int id : outputs) describe(record_of(id), *graph.add_output());
  bool has_training = false;
  for (size_t id = 0; id < nodes_.size(); ++id)
    has_training |= live.nodes[id] && !nodes_[id].schema->domain().empty();
  if (!has_training) model.mutable_opset_import()->RemoveLast();
  return model;
}

}  // namespace kodama::builder
