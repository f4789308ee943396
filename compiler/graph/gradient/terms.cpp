#include "compiler/graph/gradient/terms.h"

#include <algorithm>
#include <numeric>

#include "compiler/proto/tensor_proto.h"
#include "isa/error.h"

namespace kodama::compiler::gradient {

namespace {

void require(bool holds, const char* what) {
  isa::check_internal(holds, "gradient formula", "{}", what);
}

TermGraph& graph_of(const Term& term) {
  require(static_cast<bool>(term), "an operand is missing");
  return *term.graph;
}

int64_t axis_of(const Term& x, int64_t axis) {
  const int64_t own = axis < 0 ? axis + x.rank() : axis;
  require(own >= 0 && own < x.rank(), "no such axis");
  return own;
}

Term binary(const char* op, const Term& a, const Term& b) {
  require(a.type == b.type, "operands of two types");
  return graph_of(a).add(op, {a, b}, a.type, broadcast_shape(a.shape, b.shape));
}

Term compare(const char* op, const Term& a, const Term& b) {
  require(a.type == b.type, "operands of two types");
  return graph_of(a).add(op, {a, b}, kBool, broadcast_shape(a.shape, b.shape));
}

Term number_like(double value, const Term& like) {
  return graph_of(like).number(value, like.type);
}

}  // namespace

bool is_float(DataType type) {
  return type == DataType::kFloat32 || type == DataType::kFloat64 || type == DataType::kFloat16 ||
         type == DataType::kBfloat16;
}

Tensor tensor_of(DataType type, const Shape& shape, const std::vector<double>& values) {
  Tensor tensor(type, shape);
  require(static_cast<size_t>(tensor.size()) == values.size(), "a constant of another size");
  const auto fill = [&](auto convert) {
    using T = decltype(convert(0.0));
    std::ranges::transform(values, tensor.data<T>().begin(), convert);
  };
  switch (type) {
    case DataType::kFloat32:
      fill([](double v) { return static_cast<float>(v); });
      break;
    case DataType::kFloat64:
      fill([](double v) { return v; });
      break;
    case DataType::kFloat16:
      fill([](double v) { return float_to_half(static_cast<float>(v)); });
      break;
    case DataType::kBfloat16:
      fill([](double v) { return float_to_bfloat16(static_cast<float>(v)); });
      break;
    case DataType::kInt32:
      fill([](double v) { return static_cast<int32_t>(v); });
      break;
    case DataType::kInt64:
      fill([](double v) { return static_cast<int64_t>(v); });
      break;
    case DataType::kBool:
      fill([](double v) { return static_cast<uint8_t>(v != 0); });
      break;
    default:
      require(false, "a constant of a type that formulas don't have");
  }
  return tensor;
}

std::vector<Term> TermGraph::add(const std::string& op, const std::vector<Term>& inputs,
                                 const std::vector<std::pair<DataType, Shape>>& outputs,
                                 const Attributes& attributes) {
  onnx::NodeProto& node = *graph_.add_node();
  node.set_op_type(op);
  for (const Term& input : inputs) node.add_input(input.name);
  while (node.input_size() > 0 && node.input(node.input_size() - 1).empty())
    node.mutable_input()->RemoveLast();
  for (const auto& attribute : attributes) *node.add_attribute() = attribute;
  std::vector<Term> terms;
  for (const auto& [type, shape] : outputs) {
    if (type == DataType::kUndefined) {
      node.add_output("");
      terms.emplace_back();
      continue;
    }
    const std::string name = names_.make_unique(prefix_ + op);
    node.add_output(name);
    auto& info = *graph_.add_value_info();
    info.set_name(name);
    *info.mutable_type() = make_tensor_type(type, shape);
    terms.push_back({this, name, type, shape});
  }
  for (const Term& term : terms) {
    if (!term) continue;
    node.set_name(term.name);
    break;
  }
  return terms;
}

Term TermGraph::add(const std::string& op, const std::vector<Term>& inputs, DataType type, const Shape& shape,
                    const Attributes& attributes) {
  return add(op, inputs, {{type, shape}}, attributes).front();
}

Term TermGraph::constant(const Tensor& tensor) {
  const auto bytes = tensor.bytes();
  std::string key = fmt::format("{} {} ", static_cast<int>(tensor.type()), shape_to_string(tensor.shape()));
  key.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  std::string& name = constants_[key];
  if (name.empty()) {
    name = names_.make_unique(prefix_ + "constant");
    *graph_.add_initializer() = tensor_to_proto(tensor, name);
  }
  return {this, name, tensor.type(), tensor.shape()};
}

Term TermGraph::integers(const Ints& values) {
  return constant(Tensor::from_values<int64_t>(kInt64, {static_cast<int64_t>(values.size())}, values));
}

Term TermGraph::number(double value, DataType type) {
  return constant(tensor_of(type, {}, {value}));
}

Term TermGraph::filled(double value, DataType type, const Shape& shape) {
  const Tensor element = tensor_of(type, {1}, {value});
  return add("ConstantOfShape", {integers(shape)}, type, shape,
             {onnx::MakeAttribute("value", tensor_to_proto(element, ""))});
}

Shape broadcast_shape(const Shape& a, const Shape& b) {
  Shape result(std::max(a.size(), b.size()));
  for (size_t i = 0; i < result.size(); ++i) {
    const int64_t left = i < a.size() ? a[a.size() - 1 - i] : 1;
    const int64_t right = i < b.size() ? b[b.size() - 1 - i] : 1;
    require(left == right || left == 1 || right == 1, "shapes that don't broadcast");
    result[result.size() - 1 - i] = left == 1 ? right : left;
  }
  return result;
}

Term operator+(const Term& a, const Term& b) {
  return binary("Add", a, b);
}
Term operator-(const Term& a, const Term& b) {
  return binary("Sub", a, b);
}
Term operator*(const Term& a, const Term& b) {
  return binary("Mul", a, b);
}
Term operator/(const Term& a, const Term& b) {
  return binary("Div", a, b);
}
Term operator+(const Term& a, double b) {
  return a + number_like(b, a);
}
Term operator-(const Term& a, double b) {
  return a - number_like(b, a);
}
Term operator*(const Term& a, double b) {
  return b == 1 ? a : a * number_like(b, a);
}
Term operator/(const Term& a, double b) {
  return a * (1 / b);
}
Term operator+(double a, const Term& b) {
  return b + a;
}
Term operator-(double a, const Term& b) {
  return number_like(a, b) - b;
}
Term operator*(double a, const Term& b) {
  return b * a;
}
Term operator/(double a, const Term& b) {
  return number_like(a, b) / b;
}
Term operator-(const Term& a) {
  return map("Neg", a);
}

Term map(const std::string& op, const Term& x) {
  return graph_of(x).add(op, {x}, x.type, x.shape);
}
Term exp(const Term& x) {
  return map("Exp", x);
}
Term log(const Term& x) {
  return map("Log", x);
}
Term sqrt(const Term& x) {
  return map("Sqrt", x);
}
Term abs(const Term& x) {
  return map("Abs", x);
}
Term sign(const Term& x) {
  return map("Sign", x);
}
Term pow(const Term& x, const Term& exponent) {
  return graph_of(x).add("Pow", {x, exponent}, x.type, broadcast_shape(x.shape, exponent.shape));
}
Term maximum(const Term& a, const Term& b) {
  return binary("Max", a, b);
}
Term minimum(const Term& a, const Term& b) {
  return binary("Min", a, b);
}
Term cast(const Term& x, DataType type) {
  if (x.type == type) return x;
  return graph_of(x).add("Cast", {x}, type, x.shape, {onnx::MakeAttribute("to", static_cast<int64_t>(type))});
}

Term less(const Term& a, const Term& b) {
  return compare("Less", a, b);
}
Term less(const Term& a, double b) {
  return less(a, number_like(b, a));
}
Term greater(const Term& a, const Term& b) {
  return compare("Greater", a, b);
}
Term greater(const Term& a, double b) {
  return greater(a, number_like(b, a));
}
Term equal(const Term& a, const Term& b) {
  return compare("Equal", a, b);
}
Term equal(const Term& a, double b) {
  return equal(a, number_like(b, a));
}
Term both(const Term& a, const Term& b) {
  return binary("And", a, b);
}
Term either(const Term& a, const Term& b) {
  return binary("Or", a, b);
}
Term negated(const Term& a) {
  return map("Not", a);
}
Term select(const Term& condition, const Term& a, const Term& b) {
  require(a.type == b.type, "operands of two types");
  return graph_of(condition).add("Where", {condition, a, b}, a.type,
                                 broadcast_shape(condition.shape, broadcast_shape(a.shape, b.shape)));
}
Term select(const Term& condition, const Term& a, double b) {
  return select(condition, a, number_like(b, a));
}
Term select(const Term& condition, double a, const Term& b) {
  return select(condition, number_like(a, b), b);
}

Term reshape(const Term& x, const Shape& shape) {
  if (x.shape == shape) return x;
  require(element_count(shape) == x.size(), "a reshape to another number of elements");
  return graph_of(x).add("Reshape", {x, x.graph->integers(shape)}, x.type, shape,
                         {onnx::MakeAttribute("allowzero", int64_t{1})});
}

Term transpose(const Term& x, const Ints& permutation) {
  require(permutation.size() == x.shape.size(), "a permutation of another length");
  if (std::ranges::is_sorted(permutation)) return x;
  Shape shape;
  for (int64_t axis : permutation) shape.push_back(x.extent(axis));
  return graph_of(x).add("Transpose", {x}, x.type, shape, {onnx::MakeAttribute("perm", permutation)});
}

Term transpose_matrix(const Term& x) {
  Ints permutation(x.shape.size());
  std::iota(permutation.begin(), permutation.end(), 0);
  std::swap(permutation.end()[-1], permutation.end()[-2]);
  return transpose(x, permutation);
}

Term expand(const Term& x, const Shape& shape) {
  if (x.shape == shape) return x;
  require(broadcast_shape(x.shape, shape) == shape, "an expansion to a smaller shape");
  return graph_of(x).add("Expand", {x, x.graph->integers(shape)}, x.type, shape);
}

Term slice(const Term& x, int64_t axis, int64_t begin, int64_t end, int64_t step) {
  axis = axis_of(x, axis);
  require(step >= 1 && begin >= 0 && begin <= end && end <= x.extent(axis), "a slice outside");
  if (begin == 0 && end == x.extent(axis) && step == 1) return x;
  Shape shape = x.shape;
  shape[static_cast<size_t>(axis)] = (end - begin + step - 1) / step;
  TermGraph& g = graph_of(x);
  return g.add("Slice", {x, g.integers({begin}), g.integers({end}), g.integers({axis}), g.integers({step})},
               x.type, shape);
}

Term reverse(const Term& x, int64_t axis) {
  axis = axis_of(x, axis);
  if (x.extent(axis) <= 1) return x;
  TermGraph& g = graph_of(x);
  return g.add("Slice",
               {x, g.integers({-1}), g.integers({std::numeric_limits<int64_t>::min()}), g.integers({axis}),
                g.integers({-1})},
               x.type, x.shape);
}

Term pad(const Term& x, int64_t axis, int64_t before, int64_t behind) {
  axis = axis_of(x, axis);
  const int64_t extent = x.extent(axis);
  const int64_t first = std::max<int64_t>(-before, 0);
  const int64_t last = extent - std::max<int64_t>(-behind, 0);
  const Term cut = slice(x, axis, first, last);
  before = std::max<int64_t>(before, 0);
  behind = std::max<int64_t>(behind, 0);
  if (before == 0 && behind == 0) return cut;
  Ints pads(2 * x.shape.size());
  pads[static_cast<size_t>(axis)] = before;
  pads[x.shape.size() + static_cast<size_t>(axis)] = behind;
  Shape shape = cut.shape;
  shape[static_cast<size_t>(axis)] += before + behind;
  return graph_of(x).add("Pad", {cut, x.graph->integers(pads)}, x.type, shape);
}

Term concat(const std::vector<Term>& parts, int64_t axis) {
  require(!parts.empty(), "a concatenation of nothing");
  if (parts.size() == 1) return parts.front();
  axis = axis_of(parts.front(), axis);
  Shape shape = parts.front().shape;
  shape[static_cast<size_t>(axis)] = 0;
  for (const Term& part : parts) shape[static_cast<size_t>(axis)] += part.extent(axis);
  return graph_of(parts.front())
      .add("Concat", parts, parts.front().type, shape, {onnx::MakeAttribute("axis", axis)});
}

Term unsqueeze(const Term& x, const Ints& axes) {
  if (axes.empty()) return x;
  Ints sorted = axes;
  std::ranges::sort(sorted);
  Shape shape = x.shape;
  for (int64_t axis : sorted) shape.insert(shape.begin() + axis, 1);
  return graph_of(x).add("Unsqueeze", {x, x.graph->integers(sorted)}, x.type, shape);
}

Term squeeze(const Term& x, const Ints& axes) {
  if (axes.empty()) return x;
  Shape shape;
  for (int64_t axis = 0; axis < x.rank(); ++axis) {
    if (std::ranges::find(axes, axis) == axes.end()) shape.push_back(x.extent(axis));
  }
  return graph_of(x).add("Squeeze", {x, x.graph->integers(axes)}, x.type, shape);
}

Term reduce(const std::string& op, const Term& x, const Ints& axes, bool keep) {
  if (axes.empty()) return x;
  Shape shape;
  for (int64_t axis = 0; axis < x.rank(); ++axis) {
    if (std::ranges::find(axes, axis) == axes.end()) {
      shape.push_back(x.extent(axis));
    } else if (keep) {
      shape.push_back(1);
    }
  }
  const auto keepdims = onnx::MakeAttribute("keepdims", static_cast<int64_t>(keep));
  // Only the sum takes its axes as an operand in opset 17.
  if (op == "ReduceSum") return graph_of(x).add(op, {x, x.graph->integers(axes)}, x.type, shape, {keepdims});
  return graph_of(x).add(op, {x}, x.type, shape, {onnx::MakeAttribute("axes", axes), keepdims});
}

Term reduce_sum(const Term& x, const Ints& axes, bool keep) {
  return reduce("ReduceSum", x, axes, keep);
}

Term sum_to(const Term& x, const Shape& shape) {
  const int64_t added = x.rank() - static_cast<int64_t>(shape.size());
  if (x.shape == shape || added < 0) return x;
  Ints axes;
  for (int64_t axis = 0; axis < x.rank(); ++axis) {
    if (axis < added || (shape[static_cast<size_t>(axis - added)] == 1 && x.extent(axis) != 1))
      axes.push_back(axis);
  }
  const Term summed = reduce_sum(x, axes);
  return reshape(summed, Shape(summed.shape.begin() + added, summed.shape.end()));
}

Term sum_all(const Term& x) {
  Ints axes(x.shape.size());
  std::iota(axes.begin(), axes.end(), 0);
  return reduce_sum(x, axes, false);
}

Term sum(const std::vector<Term>& terms) {
  require(!terms.empty(), "a sum of nothing");
  Term total = terms.front();
  for (size_t i = 1; i < terms.size(); ++i) total = total + terms[i];
  return total;
}

Term matmul(const Term& a, const Term& b) {
  require(a.rank() >= 2 && b.rank() >= 2 && a.extent(-1) == b.extent(-2), "matrices that don't fit");
  Shape shape =
      broadcast_shape(Shape(a.shape.begin(), a.shape.end() - 2), Shape(b.shape.begin(), b.shape.end() - 2));
  shape.push_back(a.extent(-2));
  shape.push_back(b.extent(-1));
  return graph_of(a).add("MatMul", {a, b}, a.type, shape);
}

Term spread(const Term& x, int64_t axis, int64_t begin, int64_t step, int64_t extent) {
  axis = axis_of(x, axis);
  const int64_t count = x.extent(axis);
  Term result = x;
  if (step > 1 && count > 1) {
    // Every element as the first of a row of `step`.
    result = pad(unsqueeze(x, {axis + 1}), axis + 1, 0, step - 1);
    Shape shape = x.shape;
    shape[static_cast<size_t>(axis)] = count * step;
    result = reshape(result, shape);
  }
  return pad(result, axis, begin, extent - begin - result.extent(axis));
}

Term counting(TermGraph& graph, int64_t count, DataType type) {
  std::vector<double> values(static_cast<size_t>(count));
  std::iota(values.begin(), values.end(), 0.0);
  return graph.constant(tensor_of(type, {count}, values));
}

}  // namespace kodama::compiler::gradient
