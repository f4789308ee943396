#include "compiler/layers/node_lowering.h"

#include <algorithm>
#include <cmath>

namespace kodama::compiler {

TensorId NodeLowering::input(int index) {
  isa::check_internal(has_input(index), "lower", "{} has no input {}", where(), index);
  const std::string& name = node_.input(index);
  const auto known = values_.find(name);
  if (known != values_.end()) return known->second;
  std::shared_ptr<const Tensor> constant = view_.shared_constant(name);
  isa::check_internal(constant != nullptr, "lower", "{}: nothing makes its input '{}'", where(), name);
  const auto id = static_cast<TensorId>(graph_.tensors.size());
  graph_.tensors.push_back({name, constant->type(), constant->shape(), constant, -1});
  values_[name] = id;
  return id;
}

const Tensor* NodeLowering::constant_input(int index) const {
  if (!has_input(index)) return nullptr;
  const auto known = values_.find(node_.input(index));
  if (known == values_.end()) return view_.constant(node_.input(index));
  const LayerTensor& tensor = graph_.tensors[known->second];
  return tensor.constant ? &*tensor.constant : nullptr;
}

std::optional<double> NodeLowering::uniform_constant(int index) const {
  const Tensor* tensor = constant_input(index);
  if (tensor == nullptr || tensor->size() == 0 || element_size(tensor->type()) == 0) return std::nullopt;
  const double value = element_as_double(*tensor, 0);
  for (int64_t i = 1; i < tensor->size(); ++i) {
    if (element_as_double(*tensor, i) != value) return std::nullopt;
  }
  return value;
}

std::optional<std::vector<int64_t>> NodeLowering::constant_integers(int index) const {
  const Tensor* tensor = constant_input(index);
  if (tensor == nullptr) return std::nullopt;
  std::vector<int64_t> values;
  if (tensor->type() == onnx::TensorProto_DataType_INT64) {
    const auto data = tensor->data<int64_t>();
    values.assign(data.begin(), data.end());
  } else if (tensor->type() == onnx::TensorProto_DataType_INT32) {
    const auto data = tensor->data<int32_t>();
    values.assign(data.begin(), data.end());
  } else {
    return std::nullopt;
  }
  return values;
}

std::vector<bool> NodeLowering::axis_flags(const std::vector<int64_t>& axes, size_t rank) const {
  std::vector<bool> flags(rank, false);
  for (int64_t value : axes) {
    const size_t index = axis(value, rank);
    require(!flags[index], "axis {} is given twice", value);
    flags[index] = true;
  }
  return flags;
}

std::string NodeLowering::inner_name(const std::string& suffix) const {
  const std::string& name = view_.node_name(node_);
  return suffix.empty() ? name : name + "/" + suffix;
}

TensorId NodeLowering::add_tensor(const std::string& suffix, DataType type, Shape shape) {
  graph_.tensors.push_back({inner_name(suffix), type, std::move(shape), std::nullopt, -1});
  return static_cast<TensorId>(graph_.tensors.size()) - 1;
}

TensorId NodeLowering::add_constant(const std::string& suffix, Tensor value) {
  const TensorId id = add_tensor(suffix, value.type(), value.shape());
  graph_.tensors[id].constant = std::move(value);
  return id;
}

TensorId NodeLowering::add_alias(const std::string& suffix, TensorId source, Shape shape) {
  if (tensor(source).shape == shape) return source;
  if (tensor(source).constant)
    return add_constant(suffix, tensor(source).constant->reshaped(std::move(shape)));
  const TensorId id = add_tensor(suffix, tensor(source).type, std::move(shape));
  graph_.tensors[id].alias_of = source;
  return id;
}

TensorId NodeLowering::output(int index) {
  const std::string& name = node_.output(index);
  const TensorId id = add_tensor("", output_type(index), output_shape(index));
  graph_.tensors[id].name = name;
  values_[name] = id;
  return id;
}

void NodeLowering::bind_output(TensorId source, int index) {
  const std::string& name = node_.output(index);
  isa::check_internal(tensor(source).type == output_type(index), "lower", "{}: {} as {}", where(),
                      data_type_name(tensor(source).type), data_type_name(output_type(index)));
  // A graph output keeps its own name.
  if (tensor(source).shape == output_shape(index) && !view_.is_graph_output(name)) {
    values_[name] = source;
    return;
  }
  const TensorId id = output(index);
  LayerTensor& target = graph_.tensors[id];
  if (tensor(source).constant) {
    target.constant = tensor(source).constant->reshaped(target.shape);
  } else {
    target.alias_of = source;
  }
}

void NodeLowering::add_layer(const std::string& suffix, decltype(Layer::body) body, TensorId output) {
  Layer layer;
  layer.name = layer_names_.make_unique(inner_name(suffix));
  layer.onnx_ops = {node_.op_type()};
  layer.onnx_nodes = {view_.node_name(node_)};
  layer.body = std::move(body);
  layer.outputs = {output};
  graph_.layers.push_back(std::move(layer));
}

Term MapBuilder::operand(TensorId id) {
  const LayerTensor& tensor = lowering_.tensor(id);
  if (tensor.constant && tensor.constant->size() == 1) {
    const double value = element_as_double(*tensor.constant, 0);
    // A NaN stays an operand: how it reaches the chip is the business of whoever packs tensors.
    if (!std::isnan(value)) return formula_.constant(value);
  }
  const TensorAccess access = lowering_.broadcast(id, extents_);
  auto found = std::find(inputs_.begin(), inputs_.end(), access);
  if (found == inputs_.end()) found = inputs_.insert(inputs_.end(), access);
  return formula_.x(static_cast<int>(found - inputs_.begin()));
}

void MapBuilder::finish(const std::string& suffix, Term result, TensorId output) {
  MapLayer map{extents_, inputs_, formula_.result(result)};
  tidy_inputs(map.expr, map.inputs);
  if (map.inputs.empty()) {
    // Nothing but constants: one operand is kept so that there is something to stream over.
    const double value = map.expr.evaluate({});
    Tensor constant(onnx::TensorProto_DataType_FLOAT, {});
    constant.data<float>()[0] = static_cast<float>(value);
    const TensorId id = lowering_.add_constant(suffix.empty() ? "constant" : suffix + "_constant", constant);
    map.inputs = {lowering_.broadcast(id, extents_)};
    map.expr = ScalarExpr::identity();
  }
  lowering_.add_layer(suffix, std::move(map), output);
}

void tidy_inputs(ScalarExpr& expr, std::vector<TensorAccess>& inputs, int first) {
  std::vector<bool> used(first + inputs.size(), false);
  for (const ScalarNode& node : expr.nodes()) {
    if (node.input >= 0) used[node.input] = true;
  }
  std::vector<int> numbers(used.size(), -1);
  for (int i = 0; i < first; ++i) numbers[i] = i;
  std::vector<TensorAccess> kept;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!used[first + i]) continue;
    auto found = std::find(kept.begin(), kept.end(), inputs[i]);
    if (found == kept.end()) found = kept.insert(kept.end(), inputs[i]);
    numbers[first + i] = first + static_cast<int>(found - kept.begin());
  }
  inputs = std::move(kept);
  expr = expr.renumbered(numbers);
}

Window window_of(const NodeLowering& lowering, const Shape& kernel, const Shape& spatial_input,
                 const Shape& spatial_output, bool has_dilations) {
  const size_t rank = kernel.size();
  lowering.require(spatial_input.size() == rank && spatial_output.size() == rank,
                   "a kernel {} over a tensor with {} spatial axes", shape_to_string(kernel),
                   spatial_input.size());
  const auto per_axis = [&](const char* name) {
    const auto values = lowering.ints_attribute(name).value_or(std::vector<int64_t>(rank, 1));
    lowering.require(values.size() == rank, "attribute {} has {} values; {} are needed, one per spatial axis",
                     name, values.size(), rank);
    for (int64_t value : values)
      lowering.require(value >= 1, "attribute {} holds {}; it must be positive", name, value);
    return values;
  };
  Window window;
  window.kernel = kernel;
  window.stride = per_axis("strides");
  window.dilation = has_dilations ? per_axis("dilations") : std::vector<int64_t>(rank, 1);
  window.pad_begin.assign(rank, 0);
  window.pad_end.assign(rank, 0);
  const std::string auto_pad = lowering.string_attribute("auto_pad");
  if (auto_pad == "NOTSET" || auto_pad.empty()) {
    const auto pads = lowering.ints_attribute("pads").value_or(std::vector<int64_t>(2 * rank, 0));
    lowering.require(pads.size() == 2 * rank, "attribute pads has {} values; {} are needed", pads.size(),
                     2 * rank);
    window.pad_begin.assign(pads.begin(), pads.begin() + static_cast<int64_t>(rank));
    window.pad_end.assign(pads.begin() + static_cast<int64_t>(rank), pads.end());
  } else if (auto_pad == "SAME_UPPER" || auto_pad == "SAME_LOWER") {
    for (size_t axis = 0; axis < rank; ++axis) {
      const int64_t reach =
          (spatial_output[axis] - 1) * window.stride[axis] + (kernel[axis] - 1) * window.dilation[axis] + 1;
      const int64_t total = std::max<int64_t>(reach - spatial_input[axis], 0);
      // UPPER puts the odd one at the end.
      window.pad_begin[axis] = auto_pad == "SAME_UPPER" ? total / 2 : total - total / 2;
      window.pad_end[axis] = total - window.pad_begin[axis];
    }
  } else {
    lowering.require(auto_pad == "VALID",
                     "auto_pad is '{}'; NOTSET, SAME_UPPER, SAME_LOWER and VALID are allowed", auto_pad);
  }
  return window;
}

}  // namespace kodama::compiler
