#include "compiler/layers/interpreter.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "compiler/reference/kernels/interpreter.h"

namespace kodama::compiler {

namespace {

/// Calls f(point) for every point that differs from `point` in the dims [first, last) only, which run over
/// their extents in row-major order.
template <typename F>
void for_each_point(std::vector<int64_t>& point, const Shape& extents, const std::vector<size_t>& dims,
                    F&& f) {
  for (size_t dim : dims) {
    if (extents[dim] == 0) return;
    point[dim] = 0;
  }
  for (;;) {
    f();
    size_t i = dims.size();
    while (i-- > 0) {
      if (++point[dims[i]] < extents[dims[i]]) break;
      point[dims[i]] = 0;
    }
    if (i == static_cast<size_t>(-1)) return;
  }
}

std::vector<size_t> dims_between(size_t first, size_t last) {
  std::vector<size_t> dims;
  for (size_t dim = first; dim < last; ++dim) dims.push_back(dim);
  return dims;
}

/// One operand: its elements as doubles, read at iteration points.
class Reader {
 public:
  Reader(const TensorAccess& access, const Tensor& tensor, const Shape& extents)
      : access_(access), shape_(tensor.shape()) {
    elements_.resize(tensor.size());
    for (int64_t i = 0; i < tensor.size(); ++i) elements_[i] = element_as_double(tensor, i);
    inside_ = access.map.stays_inside(extents, shape_);
    // The element's number is affine in the point, too.
    strides_.assign(access.map.dims(), 0);
    int64_t axis_stride = 1;
    for (size_t axis = shape_.size(); axis-- > 0;) {
      offset_ += axis_stride * access.map.offset(axis);
      for (size_t dim = 0; dim < strides_.size(); ++dim) {
        strides_[dim] += axis_stride * access.map.coefficient(axis, dim);
      }
      axis_stride *= shape_[axis];
    }
  }

  double at(const std::vector<int64_t>& point) const {
    int64_t number = offset_;
    for (size_t dim = 0; dim < strides_.size(); ++dim) number += strides_[dim] * point[dim];
    if (inside_) return elements_[number];
    for (size_t axis = 0; axis < shape_.size(); ++axis) {
      int64_t index = access_.map.offset(axis);
      for (size_t dim = 0; dim < strides_.size(); ++dim)
        index += access_.map.coefficient(axis, dim) * point[dim];
      if (index < 0 || index >= shape_[axis]) return access_.fill;
    }
    return elements_[number];
  }

  /// The elements from a point on along a dimension: a map is affine, so those that the tensor has are in a
  /// row.
  class Line {
   public:
    Line(const Reader& reader, const std::vector<int64_t>& point, size_t dim, int64_t extent)
        : last_(extent), fill_(reader.access_.fill), stride_(reader.strides_[dim]) {
      int64_t number = reader.offset_;
      for (size_t each = 0; each < reader.strides_.size(); ++each)
        number += reader.strides_[each] * point[each];
      for (size_t axis = 0; !reader.inside_ && axis < reader.shape_.size(); ++axis) {
        const AffineMap& map = reader.access_.map;
        int64_t index = map.offset(axis);
        for (size_t each = 0; each < point.size(); ++each) index += map.coefficient(axis, each) * point[each];
        const int64_t step = map.coefficient(axis, dim);
        const auto is_inside = [&](int64_t k) {
          return index + step * k >= 0 && index + step * k < reader.shape_[axis];
        };
        while (first_ < last_ && !is_inside(first_)) ++first_;
        while (first_ < last_ && !is_inside(last_ - 1)) --last_;
      }
      if (first_ < last_) start_ = reader.elements_.data() + number + first_ * stride_;
    }
    double at(int64_t k) const { return k >= first_ && k < last_ ? start_[(k - first_) * stride_] : fill_; }

   private:
    int64_t first_ = 0;
    int64_t last_;
    double fill_;
    int64_t stride_;
    const double* start_ = nullptr;  // of the first
  };

 private:
  const TensorAccess& access_;
  Shape shape_;
  std::vector<double> elements_;
  bool inside_ = false;
  int64_t offset_ = 0;
  std::vector<int64_t> strides_;
};

/// A result: doubles until the end, then rounded once; of integers the last bits.
Tensor round_to(DataType type, const Shape& shape, const std::vector<double>& values) {
  Tensor tensor(type, shape);
  const auto fill = [&](auto elements, auto&& element) {
    std::ranges::transform(values, elements.begin(), element);
  };
  const auto bits = [](double value) { return word_of(value, DataType::kInt32); };
  switch (type) {
    case DataType::kFloat32:
      fill(tensor.data<float>(), [](double value) { return static_cast<float>(value); });
      break;
    case DataType::kFloat16:
      fill(tensor.data<uint16_t>(), [](double value) { return float_to_half(round_to_odd(value)); });
      break;
    case DataType::kBfloat16:
      fill(tensor.data<uint16_t>(), [](double value) { return float_to_bfloat16(round_to_odd(value)); });
      break;
    case DataType::kInt32:
    case DataType::kUint32:
      fill(tensor.data<uint32_t>(), bits);
      break;
    case DataType::kInt16:
    case DataType::kUint16:
      fill(tensor.data<uint16_t>(), [&](double value) { return static_cast<uint16_t>(bits(value)); });
      break;
    case DataType::kBool:
    case DataType::kInt8:
    case DataType::kUint8:
      fill(tensor.data<uint8_t>(), [&](double value) { return static_cast<uint8_t>(bits(value)); });
      break;
    default:
      throw isa::InternalError(
          fmt::format("internal error in the layer interpreter: a result of type {}", data_type_name(type)));
  }
  return tensor;
}

class LayerInterpreter {
 public:
  LayerInterpreter(const Layer& layer, const LayerGraph& graph, LayerValues& values)
      : layer_(layer), graph_(graph), values_(values) {}

  std::vector<Tensor> operator()(const MapLayer& map) {
    const auto readers = readers_of(map.inputs, map.extents);
    std::vector<double> inputs(readers.size());
    std::vector<double> result;
    std::vector<int64_t> point(map.extents.size(), 0);
    for_each_point(point, map.extents, dims_between(0, point.size()), [&] {
      read(readers, point, inputs, 0);
      result.push_back(map.expr.evaluate(inputs));
    });
    return {round_to(output_type(), map.extents, result)};
  }

  std::vector<Tensor> operator()(const ReduceLayer& reduce) {
    Shape extents = reduce.output_extents;
    extents.insert(extents.end(), reduce.reduction_extents.begin(), reduce.reduction_extents.end());
    const auto readers = readers_of(reduce.inputs, extents);
    const auto epilogue_readers = readers_of(reduce.epilogue_inputs, reduce.output_extents);
    std::vector<double> inputs(readers.size());
    std::vector<double> epilogue_inputs(1 + epilogue_readers.size());
    std::vector<double> result;
    std::vector<int64_t> point(extents.size(), 0);
    std::vector<int64_t> output_point;
    const size_t rank = reduce.output_extents.size();
    const auto reduction_dims = dims_between(rank, extents.size());
    for_each_point(point, extents, dims_between(0, rank), [&] {
      double value = identity_of(reduce.op);
      for_each_point(point, extents, reduction_dims, [&] {
        read(readers, point, inputs, 0);
        value = combine(reduce.op, value, reduce.expr.evaluate(inputs));
      });
      output_point.assign(point.begin(), point.begin() + static_cast<int64_t>(rank));
      epilogue_inputs[0] = value;
      read(epilogue_readers, output_point, epilogue_inputs, 1);
      result.push_back(reduce.epilogue.evaluate(epilogue_inputs));
    });
    return {round_to(output_type(), reduce.output_extents, result)};
  }

  std::vector<Tensor> operator()(const ContractLayer& contract) {
    const Shape extents = contract_extents(contract);
    const Reader a(contract.a, values_.get(contract.a.tensor), extents);
    const Reader b(contract.b, values_.get(contract.b.tensor), extents);
    const auto epilogue_readers = readers_of(contract.epilogue_inputs, extents);
    std::vector<double> epilogue_inputs(1 + epilogue_readers.size());
    std::vector<size_t> outer;
    std::vector<size_t> inner;
    for (size_t dim = 0; dim < extents.size(); ++dim) {
      (contract.dims[dim].role == ContractLayer::Role::kK ? inner : outer).push_back(dim);
    }
    // Along the longest of the inner ones, lines of elements.
    const auto longest = std::ranges::max_element(inner, {}, [&](size_t dim) { return extents[dim]; });
    const std::optional<size_t> along = longest == inner.end() ? std::nullopt : std::optional(*longest);
    if (along) inner.erase(longest);
    std::vector<double> result(element_count(contract.output_shape));
    std::vector<int64_t> point(extents.size(), 0);
    for_each_point(point, extents, outer, [&] {
      double sum = 0;
      for_each_point(point, extents, inner, [&] {
        if (!along) {
          sum += a.at(point) * b.at(point);
          return;
        }
        point[*along] = 0;
        const Reader::Line x(a, point, *along, extents[*along]);
        const Reader::Line y(b, point, *along, extents[*along]);
        for (int64_t k = 0; k < extents[*along]; ++k) sum += x.at(k) * y.at(k);
      });
      epilogue_inputs[0] = sum;
      read(epilogue_readers, point, epilogue_inputs, 1);
      const auto index = contract.output.apply(point);
      int64_t number = 0;
      for (size_t axis = 0; axis < index.size(); ++axis)
        number = number * contract.output_shape[axis] + index[axis];
      result[number] = contract.epilogue.evaluate(epilogue_inputs);
    });
    return {round_to(output_type(), contract.output_shape, result)};
  }

  std::vector<Tensor> operator()(const NormalizeLayer& normalize) {
    const auto readers = readers_of(normalize.inputs, normalize.extents);
    const size_t first_step = readers.size();
    std::vector<size_t> outer, inner;
    for (size_t axis = 0; axis < normalize.extents.size(); ++axis)
      (normalize.reduced[axis] ? inner : outer).push_back(axis);
    std::vector<double> result(static_cast<size_t>(element_count(normalize.extents)));
    std::vector<int64_t> point(normalize.extents.size(), 0);
    for_each_point(point, normalize.extents, outer, [&] {
      // Of each element of the row, the inputs and the values of all steps.
      std::vector<std::vector<double>> row;
      std::vector<size_t> places;
      for_each_point(point, normalize.extents, inner, [&] {
        row.emplace_back(first_step + normalize.steps.size());
        read(readers, point, row.back(), 0);
        size_t place = 0;
        for (size_t axis = 0; axis < point.size(); ++axis)
          place = place * static_cast<size_t>(normalize.extents[axis]) + static_cast<size_t>(point[axis]);
        places.push_back(place);
      });
      for (size_t k = 0; k < normalize.steps.size(); ++k) {
        const auto& [op, expr] = normalize.steps[k];
        double total = op ? identity_of(*op) : 0;
        for (std::vector<double>& values : row) {
          values[first_step + k] = expr.evaluate(values);
          if (op) total = combine(*op, total, values[first_step + k]);
        }
        for (std::vector<double>& values : row) values[first_step + k] = op ? total : values[first_step + k];
      }
      for (size_t k = 0; k < row.size(); ++k) result[places[k]] = row[k].back();
    });
    return {round_to(output_type(), normalize.extents, result)};
  }

  std::vector<Tensor> operator()(const GatherLayer& gather) {
    Shape extents = gather.extents;
    extents.push_back(gather.places);
    const auto indices = readers_of(gather.index_inputs, gather.extents);
    const Reader data(gather.data, values_.get(gather.data.tensor), extents);
    const auto epilogue_readers = readers_of(gather.epilogue_inputs, gather.extents);
    std::vector<double> inputs(indices.size());
    std::vector<double> epilogue_inputs(1 + epilogue_readers.size());
    std::vector<double> result;
    std::vector<int64_t> point(gather.extents.size(), 0);
    for_each_point(point, gather.extents, dims_between(0, point.size()), [&] {
      read(indices, point, inputs, 0);
      const auto place = static_cast<int64_t>(gather.index.evaluate(inputs));
      epilogue_inputs[0] = 0;
      if (place >= 0 && place < gather.places) {
        std::vector<int64_t> at = point;
        at.push_back(place);
        epilogue_inputs[0] = data.at(at);
      }
      read(epilogue_readers, point, epilogue_inputs, 1);
      result.push_back(gather.epilogue.evaluate(epilogue_inputs));
    });
    return {round_to(output_type(), gather.extents, result)};
  }

  std::vector<Tensor> operator()(const RearrangeLayer& rearrange) {
    std::vector<const Tensor*> inputs;
    for (const auto& piece : rearrange.pieces) inputs.push_back(&values_.get(piece.input.tensor));
    return {run_rearrange(rearrange, output_type(), inputs)};
  }

  std::vector<Tensor> operator()(const HostLayer& host) {
    std::vector<const Tensor*> inputs;
    for (const TensorId id : layer_.host_inputs) inputs.push_back(id < 0 ? nullptr : &values_.get(id));
    return reference::run_node(host.node, inputs);
  }

 private:
  DataType output_type() const { return graph_.tensors[layer_.outputs[0]].type; }

  std::vector<Reader> readers_of(const std::vector<TensorAccess>& accesses, const Shape& extents) {
    std::vector<Reader> readers;
    for (const auto& access : accesses) readers.emplace_back(access, values_.get(access.tensor), extents);
    return readers;
  }

  static void read(const std::vector<Reader>& readers, const std::vector<int64_t>& point,
                   std::vector<double>& into, size_t first) {
    for (size_t i = 0; i < readers.size(); ++i) into[first + i] = readers[i].at(point);
  }

  static double combine(ReduceLayer::Op op, double a, double b) {
    switch (op) {
      case ReduceLayer::Op::kSum:
        return a + b;
      case ReduceLayer::Op::kMax:
        return std::isnan(a) || a > b ? a : b;
      case ReduceLayer::Op::kMin:
        return std::isnan(a) || a < b ? a : b;
      case ReduceLayer::Op::kProd:
        return a * b;
      case ReduceLayer::Op::kIntSum:
        return static_cast<int32_t>(static_cast<int64_t>(a) + static_cast<int64_t>(b));
      case ReduceLayer::Op::kIntMax:
        return std::max(a, b);
      case ReduceLayer::Op::kIntMin:
        return std::min(a, b);
    }
    return a;
  }

  const Layer& layer_;
  const LayerGraph& graph_;
  LayerValues& values_;
};

}  // namespace

void LayerValues::set(TensorId id, Tensor value) {
  const LayerTensor& tensor = graph_.tensors.at(id);
  isa::check_internal(value.type() == tensor.type && value.shape() == tensor.shape, "layer values",
                      "'{}' is {} {}, the value {} {}", tensor.name, data_type_name(tensor.type),
                      shape_to_string(tensor.shape), data_type_name(value.type()),
                      shape_to_string(value.shape()));
  // Elements of two words are there as words, which others read.
  const TensorId storage = graph_.storage(id);
  if (storage != id)
    values_[storage] = value.reinterpreted(graph_.tensors[storage].type, graph_.tensors[storage].shape);
  values_[id] = std::move(value);
}

bool LayerValues::has(TensorId id) const {
  const TensorId storage = graph_.storage(id);
  return values_[storage].has_value() || graph_.tensors[storage].constant.has_value();
}

const Tensor& LayerValues::get(TensorId id) {
  const LayerTensor& tensor = graph_.tensors.at(id);
  if (tensor.constant) return *tensor.constant;
  if (values_[id]) return *values_[id];
  isa::check_internal(tensor.alias_of >= 0, "layer values", "'{}' isn't computed yet", tensor.name);
  const Tensor& storage = get(graph_.storage(id));
  if (storage.shape() == tensor.shape) return storage;
  values_[id] = storage.reinterpreted(tensor.type, tensor.shape);
  return *values_[id];
}

void LayerValues::forget(TensorId id) {
  const TensorId storage = graph_.storage(id);
  for (size_t i = 0; i < values_.size(); ++i) {
    if (graph_.storage(static_cast<TensorId>(i)) == storage) values_[i].reset();
  }
}

std::vector<Tensor> interpret_layer(const Layer& layer, const LayerGraph& graph, LayerValues& values) {
  return std::visit(LayerInterpreter(layer, graph, values), layer.body);
}

TensorMap interpret_layer_graph(const LayerGraph& graph, const TensorMap& inputs) {
  LayerValues values(graph);
  for (TensorId id : graph.inputs) {
    const LayerTensor& tensor = graph.tensors[id];
    const auto given = inputs.find(tensor.name);
    if (given == inputs.end()) throw isa::UserError(fmt::format("input '{}' has no value", tensor.name));
    const Tensor& value = given->second;
    if (value.type() != tensor.type || value.shape() != tensor.shape) {
      throw isa::UserError(fmt::format("input '{}' is {} {}; {} {} is needed", tensor.name,
                                       data_type_name(value.type()), shape_to_string(value.shape()),
                                       data_type_name(tensor.type), shape_to_string(tensor.shape)));
    }
    values.set(id, value);
  }
  for (const Layer& layer : graph.layers) {
    std::vector<Tensor> results = interpret_layer(layer, graph, values);
    for (size_t i = 0; i < layer.outputs.size(); ++i) {
      if (layer.outputs[i] >= 0) values.set(layer.outputs[i], std::move(results.at(i)));
    }
  }
  TensorMap outputs;
  for (const Check& check : graph.checks) throw_if_failed(check, values.get(check.tensor));
  const size_t count = graph.outputs.size() - graph.checks.size();
  for (size_t k = 0; k < count; ++k)
    outputs.emplace(graph.tensors[graph.outputs[k]].name, values.get(graph.outputs[k]));
  return outputs;
}

}  // namespace kodama::compiler
