#include "compiler/lowering/node_lowering.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <utility>

namespace kodama::compiler {

TensorId NodeLowering::input(int index) {
  isa::check_internal(has_input(index), "lower", "{} has no input {}", where(), index);
  return value(node_.input(index));
}

TensorId NodeLowering::value(const std::string& name) {
  const auto known = values_.find(name);
  if (known != values_.end()) return known->second;
  std::shared_ptr<const Tensor> constant = view_.shared_constant(name);
  isa::check_internal(constant != nullptr, "lower", "{}: nothing makes its input '{}'", where(), name);
  return values_[name] = graph_.add({name, constant->type(), constant->shape(), constant, -1});
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
  if (tensor->type() == DataType::kInt64) {
    const auto data = tensor->data<int64_t>();
    values.assign(data.begin(), data.end());
  } else if (tensor->type() == DataType::kInt32) {
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
  return graph_.add({inner_name(suffix), type, std::move(shape), std::nullopt, -1});
}

TensorId NodeLowering::add_constant(const std::string& suffix, Tensor value) {
  LayerTensor tensor{inner_name(suffix), value.type(), value.shape(), std::nullopt, -1};
  tensor.constant = std::move(value);
  return graph_.add(std::move(tensor));
}

TensorId NodeLowering::add_numbers(const std::string& suffix, DataType type, const Shape& shape) {
  Tensor numbers(type, shape);
  const auto words = numbers.data<uint32_t>();
  for (size_t k = 0; k < words.size(); ++k) words[k] = word_of(static_cast<double>(k), type);
  return add_constant(suffix, std::move(numbers));
}

TensorId NodeLowering::add_alias(const std::string& suffix, TensorId source, Shape shape) {
  if (tensor(source).shape == shape) return source;
  if (tensor(source).constant)
    return add_constant(suffix, tensor(source).constant->reshaped(std::move(shape)));
  return graph_.add({inner_name(suffix), tensor(source).type, std::move(shape), std::nullopt, source});
}

TensorId NodeLowering::output(int index) {
  const std::string& name = node_.output(index);
  return values_[name] = graph_.add({name, output_type(index), output_shape(index), std::nullopt, -1});
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
  LayerTensor target{name, output_type(index), output_shape(index), std::nullopt, -1};
  if (tensor(source).constant) {
    target.constant = tensor(source).constant->reshaped(target.shape);
  } else {
    target.alias_of = source;
  }
  values_[name] = graph_.add(std::move(target));
}

void NodeLowering::add_layer(const std::string& suffix, decltype(Layer::body) body, TensorId output) {
  if (auto* rearrange = std::get_if<RearrangeLayer>(&body); rearrange && is_long(tensor(output).type)) {
    move_words(*rearrange);
    output = words_of(output);
  }
  round_result(body, tensor(output).type);
  Layer layer;
  layer.name = layer_names_.make_unique(inner_name(suffix));
  layer.onnx_ops = {node_.op_type()};
  layer.onnx_nodes = {view_.node_name(node_)};
  layer.body = std::move(body);
  layer.outputs = {output};
  graph_.layers.push_back(std::move(layer));
}

TensorAccess NodeLowering::read_through(TensorAccess access, const Shape& extents) const {
  for (size_t k = graph_.layers.size(); k-- > 0;) {
    const Layer& layer = graph_.layers[k];
    const auto* rearrange = std::get_if<RearrangeLayer>(&layer.body);
    if (rearrange == nullptr || layer.outputs[0] != access.tensor) continue;
    if (rearrange->pieces.size() != 1 || !access.map.stays_inside(extents, rearrange->extents)) break;
    const auto& [input, begin, end] = rearrange->pieces[0];
    if (end != rearrange->extents || std::ranges::count(begin, 0) != std::ssize(begin) ||
        !input.map.stays_inside(end, tensor(input.tensor).shape))
      break;
    access = {input.tensor, input.map.after(access.map), access.fill};
  }
  return access;
}

void NodeLowering::round_result(decltype(Layer::body)& body, DataType type) {
  ScalarExpr* last = nullptr;
  if (auto* map = std::get_if<MapLayer>(&body)) {
    last = &map->expr;
  } else if (auto* reduce = std::get_if<ReduceLayer>(&body)) {
    last = &reduce->epilogue;
  } else if (auto* contract = std::get_if<ContractLayer>(&body)) {
    last = &contract->epilogue;
  } else if (auto* normalize = std::get_if<NormalizeLayer>(&body)) {
    last = &normalize->steps.back().expr;
  }
  if (last == nullptr) return;
  const Term result = round_to_type({last, last->result()}, type);
  last->set_result(result.node);
}

void NodeLowering::move_words(RearrangeLayer& rearrange) {
  const size_t rank = rearrange.extents.size();
  const Shape extents = rearrange.extents;
  rearrange.extents = words_shape(extents);
  // A fill is one word. Of numbers whose words differ it is a constant under the pieces.
  const double fill = std::exchange(rearrange.fill, 0);
  if (fill != 0) {
    const DataType type = tensor(rearrange.pieces.at(0).input.tensor).type;
    Tensor value(type, {});
    if (type == DataType::kFloat64) {
      value.data<double>()[0] = fill;
    } else {
      value.data<int64_t>()[0] = static_cast<int64_t>(fill);
    }
    const TensorId words = words_of(add_constant("fill", std::move(value)));
    RearrangeLayer::Piece under{{words, AffineMap(1, rank + 1), 0}, std::vector<int64_t>(rank, 0), extents};
    under.input.map.set(0, rank, 1);
    rearrange.pieces.insert(rearrange.pieces.begin(), std::move(under));
  }
  for (size_t k = fill != 0 ? 1 : 0; k < rearrange.pieces.size(); ++k) {
    RearrangeLayer::Piece& piece = rearrange.pieces[k];
    const bool inside =
        piece.input.map.stays_inside(piece.begin, piece.end, tensor(piece.input.tensor).shape);
    isa::check_internal(inside || piece.input.fill == 0, "lower", "{}: a piece with a fill of {}", where(),
                        piece.input.fill);
    piece.input.fill = 0;
    piece.input.tensor = words_of(piece.input.tensor);
    const size_t axis = piece.input.map.axes();
    piece.input.map = piece.input.map.extended(1, 1).set(axis, rank, 1);
  }
  for (RearrangeLayer::Piece& piece : rearrange.pieces) {
    piece.begin.push_back(0);
    piece.end.push_back(2);
  }
}

Term read_input(Formula& formula, std::vector<TensorAccess>& inputs, TensorAccess access) {
  auto found = std::find(inputs.begin(), inputs.end(), access);
  if (found == inputs.end()) found = inputs.insert(inputs.end(), std::move(access));
  return formula.x(static_cast<int>(found - inputs.begin()));
}

Term MapBuilder::operand(TensorId id) {
  const LayerTensor& tensor = lowering_.tensor(id);
  if (tensor.constant && tensor.constant->size() == 1) {
    const double value = element_as_double(*tensor.constant, 0);
    if (word_kind(tensor.type) == ScalarKind::kInteger)
      return formula_.integer(static_cast<int32_t>(word_of(value, tensor.type)));
    // A NaN stays an operand: how it reaches the chip is the business of whoever packs tensors.
    if (!std::isnan(value))
      return is_long(tensor.type) ? formula_.double_constant(value) : formula_.constant(value);
  }
  return operand_at(id, AffineMap::broadcast(tensor.shape, extents_));
}

Term MapBuilder::operand_at(TensorId id, const AffineMap& map, double outside) {
  if (!is_long(lowering_.tensor(id).type)) return read({id, map, outside});
  const Integer words = words_at(id, map, std::bit_cast<uint64_t>(outside), {64, false});
  return pair(words.high, words.low);
}

Integer MapBuilder::integer(TensorId id) {
  const LayerTensor& tensor = lowering_.tensor(id);
  const IntegerType type = integer_type(tensor.type).value();
  if (!type.is_wide()) return integer_of_word(operand(id), type);
  if (tensor.constant && tensor.constant->size() == 1)
    return integer_constant(formula_.integer(0),
                            tensor.constant->reinterpreted(DataType::kInt64, {}).data<int64_t>()[0], type);
  return integer_at(id, AffineMap::broadcast(tensor.shape, extents_));
}

Integer MapBuilder::integer_at(TensorId id, const AffineMap& map, int64_t outside) {
  const IntegerType type = integer_type(lowering_.tensor(id).type).value();
  if (!type.is_wide()) return integer_of_word(read({id, map, static_cast<double>(outside)}), type);
  return words_at(id, map, static_cast<uint64_t>(outside), type);
}

Integer MapBuilder::words_at(TensorId id, const AffineMap& map, uint64_t outside, IntegerType type) {
  const TensorId words = lowering_.words_of(id);
  const auto fill = [&](int shift) { return static_cast<double>(static_cast<int32_t>(outside >> shift)); };
  TensorAccess low{words, map.extended(1, 0), fill(0)}, high{words, map.extended(1, 0), fill(32)};
  high.map.set_offset(map.axes(), 1);
  const Term lower = read(std::move(low));
  return {lower, read(std::move(high)), type};
}

void MapBuilder::finish(const std::string& suffix, const Integer& result, TensorId output) {
  if (!result.type.is_wide()) return finish(suffix, result.low, output);
  finish_words(suffix, result, output);
}

void MapBuilder::finish_words(const std::string& suffix, const Integer& result, TensorId output) {
  // One Map of both words: each is chosen by its number.
  const size_t rank = extents_.size();
  for (TensorAccess& input : inputs_) input.map = input.map.extended(0, 1);
  extents_ = words_shape(extents_);
  TensorAccess number{
      lowering_.add_constant("word", Tensor::from_values<int32_t>(DataType::kInt32, {2}, {0, 1})),
      AffineMap(1, rank + 1), 0};
  number.map.set(0, rank, 1);
  const Term is_high = read(std::move(number));
  finish(suffix, where(is_high, result.high, result.low), lowering_.words_of(output));
}

void MapBuilder::finish(const std::string& suffix, Term result, TensorId output) {
  if (result.is_double()) return finish_words(suffix, bits_of_double(result), output);
  MapLayer map{extents_, inputs_, formula_.result(result)};
  tidy_inputs(map.expr, map.inputs);
  if (map.inputs.empty()) {
    // Nothing but constants: one operand is kept so that there is something to stream over.
    const double value = map.expr.evaluate({});
    const bool is_float = map.expr.kind({}) == ScalarKind::kFloat;
    Tensor constant(is_float ? DataType::kFloat32 : DataType::kInt32, {});
    constant.data<uint32_t>()[0] = word_of(value, constant.type());
    const TensorId id = lowering_.add_constant(suffix.empty() ? "constant" : suffix + "_constant", constant);
    map.inputs = {lowering_.broadcast(id, extents_)};
    map.expr = ScalarExpr::identity();
  }
  lowering_.add_layer(suffix, std::move(map), output);
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
