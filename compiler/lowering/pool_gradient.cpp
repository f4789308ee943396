#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "compiler/graph/onnx_model.h"
#include "compiler/lowering/pool.h"
#include "compiler/proto/tensor_proto.h"

namespace kodama::compiler {

namespace {

bool is_node(const onnx::NodeProto& node, const char* op) {
  return node.op_type() == op && (node.domain().empty() || node.domain() == "ai.onnx");
}

/// Whether it gives a value another shape.
bool is_reshape(const onnx::NodeProto& node) {
  return std::ranges::any_of(std::vector{"Reshape", "Flatten", "Squeeze", "Unsqueeze", "Identity"},
                             [&](const char* op) { return is_node(node, op); });
}

bool are_zeros(const Tensor& tensor) {
  for (int64_t i = 0; i < tensor.size(); ++i) {
    const double value = element_as_double(tensor, i);
    if (value != 0 || std::signbit(value)) return false;
  }
  return true;
}

bool has_zeros(const GraphView& view, const std::string& name) {
  if (const Tensor* constant = view.constant(name)) return are_zeros(*constant);
  const onnx::NodeProto* maker = view.producer(name);
  if (maker == nullptr || !is_node(*maker, "ConstantOfShape")) return false;
  const onnx::AttributeProto* value = find_attribute(*maker, "value");
  return value == nullptr || are_zeros(tensor_from_proto(value->t(), name));
}

/// An axis of windows, seen from the elements: element stride * b + p is in windows b + first, b + first + 1,
/// ..., `reach` of them at most.
struct WindowsOfElement {
  int64_t blocks = 0, phases = 1, first = 0, reach = 1;
  std::vector<int64_t> places;  ///< [phase][window]: of the element in the window; -1: it isn't in that one
};

WindowsOfElement windows_of_element(const Window& window, size_t axis, int64_t extent) {
  WindowsOfElement result;
  result.phases = window.stride[axis];
  result.blocks = (extent + result.phases - 1) / result.phases;
  // Of phase p, place k is in window b + (p + pad - k * dilation) / stride, if that is whole.
  const auto for_each = [&](const auto& visit) {
    for (int64_t phase = 0; phase < result.phases; ++phase) {
      for (int64_t place = 0; place < window.kernel[axis]; ++place) {
        const int64_t offset = phase + window.pad_begin[axis] - place * window.dilation[axis];
        if (offset % result.phases == 0) visit(phase, place, offset / result.phases);
      }
    }
  };
  int64_t last = std::numeric_limits<int64_t>::min();
  result.first = std::numeric_limits<int64_t>::max();
  for_each([&](int64_t, int64_t, int64_t at) {
    result.first = std::min(result.first, at);
    last = std::max(last, at);
  });
  result.reach = last - result.first + 1;
  result.places.assign(static_cast<size_t>(result.phases * result.reach), -1);
  for_each([&](int64_t phase, int64_t place, int64_t at) {
    result.places[static_cast<size_t>(phase * result.reach + at - result.first)] = place;
  });
  return result;
}

/// What tells the places of a window: a bit each, or, where words have too few, a number. The first place has
/// the largest; 0 is none.
class PlaceCodes {
 public:
  explicit PlaceCodes(int64_t places) : places_(places) {}
  int32_t of(int64_t place) const {
    return static_cast<int32_t>(has_bits() ? int64_t{1} << (places_ - 1 - place) : places_ - place);
  }
  /// What no window's place is.
  int32_t nobody() const { return has_bits() ? 0 : -1; }
  /// A condition. With bits it is known for nobody's.
  Term are_same(Term code, Term other) const {
    return has_bits() ? code.apply(ScalarOp::kAnd, other)
                      : code.apply(ScalarOp::kXor, other).apply(ScalarOp::kIsZero);
  }

 private:
  static constexpr int64_t kMostBits = 31;
  bool has_bits() const { return places_ <= kMostBits; }
  int64_t places_;
};

/// Whether a value is Where(y > 0, something, 0), as a Relu's gradient is.
bool is_zero_where_not_positive(const GraphView& view, const std::string& name, const std::string& y) {
  const onnx::NodeProto* where = view.producer(name);
  for (; where != nullptr && is_reshape(*where); where = view.producer(where->input(0))) {
  }
  if (where == nullptr || !is_node(*where, "Where") || !has_zeros(view, where->input(2))) return false;
  const onnx::NodeProto* condition = view.producer(where->input(0));
  return condition != nullptr && is_node(*condition, "Greater") && condition->input(0) == y &&
         view.shape(y) == view.shape(where->output(0)) && has_zeros(view, condition->input(1));
}

/// Whether two MaxPools of the same operand make the same.
bool have_same_windows(const onnx::NodeProto& a, const onnx::NodeProto& b) {
  const std::vector names = {"kernel_shape", "strides", "pads", "dilations", "ceil_mode", "auto_pad"};
  return std::ranges::all_of(names, [&](const char* name) {
    const onnx::AttributeProto *of_a = find_attribute(a, name), *of_b = find_attribute(b, name);
    if (of_a == nullptr || of_b == nullptr) return of_a == of_b;
    return of_a->i() == of_b->i() && of_a->s() == of_b->s() && std::ranges::equal(of_a->ints(), of_b->ints());
  });
}

/// What elements are compared with: the maxima, as the pool makes them or another one that is like it; or
/// what a Relu makes of them, if nobody else reads them, so that they have to be nowhere. Then windows
/// without a positive element have no place; that is as good where nothing comes to them. nullptr: what isn't
/// anywhere.
const std::string* compared_with(const GraphView& view, const onnx::NodeProto& pool,
                                 const std::string& arriving) {
  for (const onnx::NodeProto* other : view.consumers(pool.input(0))) {
    if (!is_node(*other, "MaxPool") || !is_read(view, other->output(0)) || !have_same_windows(pool, *other))
      continue;
    const std::string& maxima = other->output(0);
    const auto& readers = view.consumers(maxima);
    if (readers.size() != 1 || view.is_graph_output(maxima) || !is_node(*readers[0], "Relu")) return &maxima;
    const std::string& positive = readers[0]->output(0);
    return is_zero_where_not_positive(view, arriving, positive) ? &positive : &maxima;
  }
  return nullptr;
}

/// Of every window, the code of the first place that has its maximum.
TensorId add_first_places(NodeLowering& lowering, NodeLowering& pool, const Window& window,
                          const PlaceCodes& codes) {
  const Shape& input = pool.input_shape(0);
  const Shape& output = pool.output_shape();
  const size_t outer = output.size(), axes = window.kernel.size();
  ReduceLayer layer;
  layer.op = ReduceLayer::Op::kIntMax;
  layer.output_extents = output;
  layer.reduction_extents = window.kernel;
  AffineMap elements(input.size(), outer + axes), maxima(outer, outer + axes), places(axes, outer + axes);
  for (size_t axis = 0; axis < outer; ++axis) maxima.set(axis, axis, 1);
  elements.set(0, 0, 1).set(1, 1, 1);
  for (size_t axis = 0; axis < axes; ++axis) {
    window.read(elements, 2 + axis, axis, 2 + axis, outer + axis);
    places.set(axis, outer + axis, 1);
  }
  std::vector<int32_t> numbers;
  for (int64_t place = 0; place < element_count(window.kernel); ++place) numbers.push_back(codes.of(place));
  const TensorId table =
      lowering.add_constant("bits", Tensor::from_values<int32_t>(DataType::kInt32, window.kernel, numbers));
  Formula formula;
  const auto read = [&](TensorAccess access) { return read_input(formula, layer.inputs, std::move(access)); };
  const Term x = read({pool.input(0), elements, -std::numeric_limits<double>::infinity()});
  const std::string* known = compared_with(lowering.view(), pool.node(), lowering.node().input(2));
  const TensorId largest =
      known != nullptr ? pool.value(*known) : lowering.add_tensor("maxima", pool.input_type(0), output);
  const Term y = read({largest, maxima, 0});
  // No element is larger than the maximum.
  layer.expr = formula.result(where(less(x, y), x.integer(0), read({table, places, 0})));
  layer.epilogue = ScalarExpr::identity();
  if (known == nullptr) {
    ReduceLayer pooled;
    pooled.op = ReduceLayer::Op::kMax;
    pooled.output_extents = output;
    pooled.reduction_extents = window.kernel;
    pooled.inputs = {layer.inputs[0]};
    pooled.expr = pooled.epilogue = ScalarExpr::identity();
    lowering.add_layer("maxima", std::move(pooled), largest);
  }
  const TensorId first = lowering.add_tensor("first", DataType::kInt32, output);
  lowering.add_layer("first", std::move(layer), first);
  return first;
}

}  // namespace

const onnx::NodeProto* scattered_pool(const GraphView& view, const onnx::NodeProto& node) {
  if (!is_node(node, "ScatterElements") || view.find_string(node, "reduction") != "add" ||
      view.shape(node.input(0)).size() != 1 || !has_zeros(view, node.input(0)))
    return nullptr;
  const std::string* indices = &node.input(1);
  const onnx::NodeProto* pool = view.producer(*indices);
  for (; pool != nullptr && is_reshape(*pool); pool = view.producer(*indices)) indices = &pool->input(0);
  if (pool == nullptr || !is_node(*pool, "MaxPool") || pool->output(0) == *indices) return nullptr;
  const auto& [type, shape] = view.value(pool->input(0));
  const bool is_whole = view.shape(node.input(0))[0] == element_count(shape) && element_count(shape) > 0;
  const bool is_by_rows = view.get_int(*pool, "storage_order", 0) == 0;
  return is_whole && is_by_rows && has_float_arithmetic(type) && GraphView::has_output(*pool, 0) ? pool
                                                                                                 : nullptr;
}

bool is_read(const GraphView& view, const std::string& value) {
  return view.is_graph_output(value) || !view.consumers(value).empty();
}

bool is_only_scattered(const GraphView& view, const std::string& indices) {
  if (view.is_graph_output(indices)) return false;
  return std::ranges::all_of(view.consumers(indices), [&](const onnx::NodeProto* reader) {
    if (is_reshape(*reader)) return is_only_scattered(view, reader->output(0));
    return scattered_pool(view, *reader) != nullptr && reader->input(0) != indices &&
           reader->input(2) != indices;
  });
}

HostReason lower_pool_gradient(NodeLowering& lowering, const onnx::NodeProto& node) {
  NodeLowering pool = lowering.at(node);
  const Shape input = pool.input_shape(0), output = pool.output_shape();
  const size_t axes = input.size() - 2;
  const Window window =
      window_of(pool, *pool.ints_attribute("kernel_shape"), Shape(input.begin() + 2, input.end()),
                Shape(output.begin() + 2, output.end()));
  const PlaceCodes codes(element_count(window.kernel));
  const TensorId first = add_first_places(lowering, pool, window, codes);
  std::vector<WindowsOfElement> of_axes;
  for (size_t axis = 0; axis < axes; ++axis)
    of_axes.push_back(windows_of_element(window, axis, input[axis + 2]));

  // Dims: batch, channels, of every axis blocks and phases; windows.
  ReduceLayer layer;
  layer.op = ReduceLayer::Op::kSum;
  layer.output_extents = {input[0], input[1]};
  Shape whole = layer.output_extents, table;
  for (const WindowsOfElement& axis : of_axes) {
    layer.output_extents.insert(layer.output_extents.end(), {axis.blocks, axis.phases});
    layer.reduction_extents.push_back(axis.reach);
    whole.push_back(axis.blocks * axis.phases);
    table.insert(table.end(), {axis.phases, axis.reach});
  }
  const size_t outer = layer.output_extents.size();
  AffineMap windows(output.size(), outer + axes), bits(2 * axes, outer + axes);
  windows.set(0, 0, 1).set(1, 1, 1);
  for (size_t axis = 0; axis < axes; ++axis) {
    windows.set(2 + axis, 2 + 2 * axis, 1)
        .set(2 + axis, outer + axis, 1)
        .set_offset(2 + axis, of_axes[axis].first);
    bits.set(2 * axis, 3 + 2 * axis, 1).set(2 * axis + 1, outer + axis, 1);
  }
  // The code of the place that each axis' phase and window tell.
  std::vector<int64_t> places = {0};
  for (size_t axis = 0; axis < axes; ++axis) {
    std::vector<int64_t> longer;
    for (const int64_t before : places) {
      for (const int64_t place : of_axes[axis].places)
        longer.push_back(before < 0 || place < 0 ? -1 : before * window.kernel[axis] + place);
    }
    places = std::move(longer);
  }
  std::vector<int32_t> numbers;
  for (const int64_t place : places) numbers.push_back(place < 0 ? codes.nobody() : codes.of(place));
  const TensorId code =
      lowering.add_constant("codes", Tensor::from_values<int32_t>(DataType::kInt32, table, numbers));
  const TensorId arriving = lowering.add_alias("arriving", lowering.input(2), output);
  Formula formula;
  const auto read = [&](TensorAccess access) { return read_input(formula, layer.inputs, std::move(access)); };
  const Term value = read({arriving, windows, 0});
  const Term place = read({first, windows, 0});
  layer.expr = formula.result(where(codes.are_same(place, read({code, bits, 0})), value, value.constant(0)));
  layer.epilogue = ScalarExpr::identity();
  const TensorId apart = lowering.add_tensor("apart", lowering.output_type(), layer.output_extents);
  lowering.add_layer("", std::move(layer), apart);
  if (whole == input) {
    lowering.bind_output(apart);
    return kLowered;
  }
  RearrangeLayer cut;
  cut.extents = input;
  cut.pieces = {{{lowering.add_alias("whole", apart, whole), AffineMap::identity(input.size()), 0},
                 std::vector<int64_t>(input.size(), 0),
                 input}};
  const TensorId result = lowering.add_tensor("cut", lowering.output_type(), input);
  lowering.add_layer("cut", std::move(cut), result);
  lowering.bind_output(result);
  return kLowered;
}

}  // namespace kodama::compiler
