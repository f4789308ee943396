#include <algorithm>

#include "compiler/graph/graph_view.h"
#include "compiler/graph/onnx_model.h"
#include "compiler/graph/passes.h"

namespace kodama::compiler {

namespace {

bool is_windowed(const onnx::NodeProto& node) {
  static const std::set<std::string> kWindowed = {"Conv", "ConvInteger", "MaxPool", "AveragePool", "LpPool"};
  return node.domain().empty() && kWindowed.contains(node.op_type());
}

/// States kernel_shape and pads, so that nobody else has to know auto_pad.
void make_window_explicit(const GraphView& view, onnx::NodeProto& node) {
  const bool is_conv = node.op_type() == "Conv" || node.op_type() == "ConvInteger";
  const Shape& input = view.shape(node.input(0));
  const size_t rank = input.size() - 2;
  std::vector<int64_t> kernel;
  if (is_conv) {
    const Shape& weights = view.shape(node.input(1));
    kernel.assign(weights.begin() + 2, weights.end());
    set_ints(node, "kernel_shape", kernel);
  } else {
    kernel = view.get_ints(node, "kernel_shape");
  }
  const std::string auto_pad = view.get_string(node, "auto_pad", "NOTSET");
  if (auto_pad == "NOTSET") return;
  const auto strides = view.get_ints(node, "strides", std::vector<int64_t>(rank, 1));
  std::vector<int64_t> dilations(rank, 1);
  // Average and Lp pooling have no dilations in this opset.
  if (const auto* attribute = find_attribute(node, "dilations")) {
    dilations.assign(attribute->ints().begin(), attribute->ints().end());
  }
  std::vector<int64_t> pads(2 * rank, 0);
  if (auto_pad != "VALID") {
    for (size_t axis = 0; axis < rank; ++axis) {
      const int64_t extent = input[axis + 2];
      const int64_t output = (extent + strides[axis] - 1) / strides[axis];
      const int64_t window = (kernel[axis] - 1) * dilations[axis] + 1;
      const int64_t total = std::max<int64_t>(0, (output - 1) * strides[axis] + window - extent);
      const int64_t less = total / 2;
      pads[axis] = auto_pad == "SAME_UPPER" ? less : total - less;
      pads[axis + rank] = total - pads[axis];
    }
    // The output is ceil(input / stride) by definition; with these pads no rounding is left to do.
    remove_attribute(node, "ceil_mode");
  }
  remove_attribute(node, "auto_pad");
  set_ints(node, "pads", pads);
}

/// An optional output that nobody reads would have to be computed.
void drop_unused_outputs(const onnx::ModelProto& model, const GraphView& view, onnx::NodeProto& node) {
  const onnx::OpSchema* schema = find_schema(model, node);
  if (!schema || schema->outputs().empty()) return;
  // In training mode it must have all.
  if (node.op_type() == "BatchNormalization" && view.get_int(node, "training_mode", 0) != 0) return;
  for (int i = 0; i < node.output_size(); ++i) {
    const std::string& name = node.output(i);
    if (name.empty() || view.is_graph_output(name) || !view.consumers(name).empty()) continue;
    const auto formal = std::min<size_t>(i, schema->outputs().size() - 1);
    if (schema->outputs()[formal].GetOption() == onnx::OpSchema::Optional) node.mutable_output(i)->clear();
  }
  while (node.output_size() > 1 && node.output(node.output_size() - 1).empty())
    node.mutable_output()->RemoveLast();
  while (node.input_size() > 0 && node.input(node.input_size() - 1).empty())
    node.mutable_input()->RemoveLast();
}

/// So that every graph output is made by a node, or is an input that is passed on.
void separate_constant_outputs(onnx::GraphProto& graph) {
  std::unordered_map<std::string, int> initializers;
  for (int i = 0; i < graph.initializer_size(); ++i) initializers[graph.initializer(i).name()] = i;
  FreshNames names = names_of(graph);
  std::unordered_map<std::string, std::string> renames;
  for (const auto& output : graph.output()) {
    const auto it = initializers.find(output.name());
    if (it == initializers.end()) continue;
    const std::string stored = names.make_unique(output.name() + "_constant");
    graph.mutable_initializer(it->second)->set_name(stored);
    renames[output.name()] = stored;
  }
  for (auto& node : *graph.mutable_node()) {
    for (auto& input : *node.mutable_input()) {
      const auto it = renames.find(input);
      if (it != renames.end()) input = it->second;
    }
  }
  for (const auto& [output, stored] : renames) {
    auto& node = *graph.add_node();
    node.set_op_type("Identity");
    node.set_name(names.make_unique(output + "_output"));
    node.add_input(stored);
    node.add_output(output);
  }
}

}  // namespace

void canonicalize(onnx::ModelProto& model) {
  separate_constant_outputs(*model.mutable_graph());
  const onnx::ModelProto& before = model;
  const GraphView view(before);
  for (auto& node : *model.mutable_graph()->mutable_node()) {
    drop_unused_outputs(model, view, node);
    if (is_windowed(node)) make_window_explicit(view, node);
  }
}

}  // namespace kodama::compiler
