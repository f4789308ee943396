#include <algorithm>
#include <limits>

#include "compiler/lowering/convolution.h"

/// Linear quantization: real = (quantized - zero point) * scale.
///
/// Products of two numbers of eight bits and their sign are exact in every precision of the matrix unit, and
/// so are their sums in single precision, up to 256 of them. Longer ones are sums of integers of such sums.
namespace kodama::compiler {

namespace {

constexpr DataType kRealType = DataType::kFloat32;
constexpr DataType kSumType = DataType::kInt32;
constexpr IntegerType kSumWord{32, true};
constexpr int64_t kExactTerms = 256;

/// An operand with one value, or one for each place along an axis of a tensor of `rank` axes.
TensorId along_axis(NodeLowering& lowering, int operand, size_t rank, size_t axis) {
  const TensorId id = lowering.input(operand);
  const int64_t count = element_count(lowering.tensor(id).shape);
  Shape shape(rank, 1);
  if (count > 1) shape.at(axis) = count;
  return lowering.add_alias(fmt::format("along{}", operand), id, shape);
}
/// The axis of DequantizeLinear and QuantizeLinear, whose default may not exist where there is one value.
size_t quantized_axis(const NodeLowering& lowering) {
  const Shape& shape = lowering.input_shape(0);
  if (element_count(lowering.input_shape(1)) == 1) return 0;
  return lowering.axis(lowering.int_attribute("axis", 1), shape.size());
}

/// Integers less their zero point, if they have one, in a word.
Integer centered(NodeLowering& lowering, MapBuilder& map, int operand, int zero_point, size_t axis) {
  const Integer x = convert(map.integer_of_input(operand), kSumWord);
  if (!lowering.has_input(zero_point)) return x;
  const size_t rank = lowering.input_shape(operand).size();
  return x - convert(map.integer(along_axis(lowering, zero_point, rank, axis)), kSumWord);
}
/// These, as floats.
TensorId centered_floats(NodeLowering& lowering, int operand, int zero_point, size_t axis) {
  const Shape& shape = lowering.input_shape(operand);
  MapBuilder map(lowering, shape);
  const Integer x = centered(lowering, map, operand, zero_point, axis);
  const std::string suffix = fmt::format("centered{}", operand);
  const TensorId result = lowering.add_tensor(suffix, kRealType, shape);
  // Of 8 bits and a sign.
  map.finish(suffix, to_float({x.low, x.high, {16, true}}), result);
  return result;
}

/// The nearest number of a type to a real one, plus a zero point.
Integer quantized(Term real, const std::optional<Integer>& zero_point, IntegerType type) {
  constexpr double kFar = 0x1p20;  // beyond all results, and far from the end of a word
  const Integer number = to_integer(round_to_even(min(max(real, -kFar), kFar)), kSumWord);
  const auto limit = [&](int64_t value) { return integer_constant(number.low, value, kSumWord); };
  const int64_t lowest = type.is_signed ? -(int64_t{1} << (type.bits - 1)) : 0;
  const int64_t highest = (int64_t{1} << (type.bits - (type.is_signed ? 1 : 0))) - 1;
  const Integer shifted = zero_point ? number + convert(*zero_point, kSumWord) : number;
  return convert(maximum(minimum(shifted, limit(highest)), limit(lowest)), type);
}

HostReason lower_quantize_linear(NodeLowering& lowering) {
  const auto type = integer_type(lowering.output_type());
  if (!type || type->bits > 16 || !has_float_arithmetic(lowering.input_type(0)))
    return fmt::format("from {} to {}", data_type_name(lowering.input_type(0)),
                       data_type_name(lowering.output_type()));
  const size_t rank = lowering.output_shape().size();
  const size_t axis = quantized_axis(lowering);
  MapBuilder map(lowering, lowering.output_shape());
  const Term real = map.operand_of_input(0) / map.operand(along_axis(lowering, 1, rank, axis));
  std::optional<Integer> zero_point;
  if (lowering.has_input(2)) zero_point = map.integer(along_axis(lowering, 2, rank, axis));
  map.finish("", quantized(real, zero_point, *type), lowering.output());
  return kLowered;
}

HostReason lower_dequantize_linear(NodeLowering& lowering) {
  if (!integer_type(lowering.input_type(0)))
    return fmt::format("from {}", data_type_name(lowering.input_type(0)));
  const size_t rank = lowering.output_shape().size();
  const size_t axis = quantized_axis(lowering);
  MapBuilder map(lowering, lowering.output_shape());
  const Term number = to_float(centered(lowering, map, 0, 2, axis));
  map.finish("", number * map.operand(along_axis(lowering, 1, rank, axis)), lowering.output());
  return kLowered;
}

/// A part of a tensor along an axis.
TensorId part_of(NodeLowering& lowering, const std::string& suffix, TensorId tensor, size_t axis,
                 int64_t begin, int64_t count) {
  Shape shape = lowering.tensor(tensor).shape;
  if (shape[axis] == count) return tensor;
  AffineMap map = AffineMap::identity(shape.size());
  map.set_offset(axis, begin);
  shape[axis] = count;
  return rearranged(lowering, suffix, tensor, std::move(map), shape, shape);
}

/// Sums of `terms` products of what stands along these axes of the operands, in parts that are exact;
/// `multiply` adds the layer of a part. The sums of parts are int32.
struct Sums {
  TensorId first, second;
  size_t first_axis, second_axis;
  int64_t terms_each;  ///< products of one place along the axes
  Shape shape;
};
template <typename Multiply>
std::vector<TensorId> exact_sums(NodeLowering& lowering, const Sums& sums, Multiply&& multiply) {
  const int64_t extent = lowering.tensor(sums.first).shape[sums.first_axis];
  const int64_t step = std::max<int64_t>(kExactTerms / sums.terms_each, 1);
  std::vector<TensorId> parts;
  for (int64_t begin = 0; begin < extent; begin += step) {
    const int64_t count = std::min(step, extent - begin);
    const auto name = [&](const char* what) { return fmt::format("{}{}", what, parts.size()); };
    const TensorId a = part_of(lowering, name("a"), sums.first, sums.first_axis, begin, count);
    const TensorId b = part_of(lowering, name("b"), sums.second, sums.second_axis, begin, count);
    const TensorId part = lowering.add_tensor(name("sum"), kRealType, sums.shape);
    multiply(name("sum"), a, b, part);
    parts.push_back(part);
  }
  return parts;
}

/// The sum of parts as a word; all but the last few are added in Maps before.
Integer total(NodeLowering& lowering, MapBuilder& map, const std::vector<TensorId>& parts, size_t room) {
  const Shape shape = lowering.tensor(parts[0]).shape;
  std::vector<TensorId> left = parts;
  const auto number = [](MapBuilder& in, const NodeLowering& of, TensorId id) {
    return of.tensor(id).type == kSumType ? in.integer(id) : to_integer(in.operand(id), kSumWord);
  };
  for (int round = 0; left.size() > room; ++round) {
    const size_t count = std::min(left.size(), kMaxLayerInputs);
    MapBuilder some(lowering, shape);
    Integer sum = number(some, lowering, left[0]);
    for (size_t k = 1; k < count; ++k) sum = sum + number(some, lowering, left[k]);
    const std::string suffix = fmt::format("total{}", round);
    const TensorId result = lowering.add_tensor(suffix, kSumType, shape);
    some.finish(suffix, sum, result);
    left.erase(left.begin(), left.begin() + static_cast<std::ptrdiff_t>(count));
    left.push_back(result);
  }
  Integer sum = number(map, lowering, left[0]);
  for (size_t k = 1; k < left.size(); ++k) sum = sum + number(map, lowering, left[k]);
  return sum;
}

/// Operands of MatMulInteger and QLinearMatMul by number; -1: there is none.
struct MatmulOperands {
  int a, b, a_zero, b_zero;
};
std::vector<TensorId> matmul_sums(NodeLowering& lowering, const MatmulOperands& operands) {
  const Shape& a = lowering.input_shape(operands.a);
  const Shape& b = lowering.input_shape(operands.b);
  const TensorId x = centered_floats(lowering, operands.a, operands.a_zero, a.size() < 2 ? 0 : a.size() - 2);
  const TensorId y = centered_floats(lowering, operands.b, operands.b_zero, b.size() - 1);
  const size_t inner = b.size() < 2 ? 0 : b.size() - 2;
  return exact_sums(lowering, {x, y, a.size() - 1, inner, 1, lowering.output_shape()},
                    [&](const std::string& suffix, TensorId first, TensorId second, TensorId part) {
                      add_matmul(lowering, suffix, first, second, part);
                    });
}

/// Operands of ConvInteger and QLinearConv.
struct ConvOperands {
  int x, w, x_zero, w_zero;
};
/// Nothing where sums of one group aren't exact.
std::optional<std::vector<TensorId>> convolution_sums(NodeLowering& lowering, const ConvOperands& operands) {
  const Shape& x = lowering.input_shape(operands.x);
  const Shape& w = lowering.input_shape(operands.w);
  const Shape& y = lowering.output_shape();
  Convolution convolution;
  convolution.groups = lowering.int_attribute("group");
  lowering.require(x.size() >= 3 && w.size() == x.size() && convolution.groups >= 1 &&
                       w[0] % convolution.groups == 0 && x[1] == w[1] * convolution.groups,
                   "x is {} and w is {} with group {}; they don't fit", shape_to_string(x),
                   shape_to_string(w), convolution.groups);
  const Shape kernel(w.begin() + 2, w.end());
  const int64_t taps = element_count(kernel);
  if (taps > kExactTerms || (convolution.groups > 1 && taps * w[1] > kExactTerms)) return std::nullopt;
  convolution.window =
      window_of(lowering, kernel, Shape(x.begin() + 2, x.end()), Shape(y.begin() + 2, y.end()));
  const TensorId from = centered_floats(lowering, operands.x, operands.x_zero, 1);
  const TensorId weights = centered_floats(lowering, operands.w, operands.w_zero, 0);
  // The channels of a group are never cut.
  const int64_t terms = convolution.groups > 1 ? 1 : taps;
  const auto multiply = [&](const std::string& suffix, TensorId first, TensorId second, TensorId part) {
    convolution.x = first;
    convolution.w = second;
    convolution.target = part;
    add_convolution(lowering, suffix, convolution);
  };
  if (convolution.groups > 1) {
    const TensorId part = lowering.add_tensor("sum", kRealType, y);
    multiply("sum", from, weights, part);
    return std::vector<TensorId>{part};
  }
  return exact_sums(lowering, {from, weights, 1, 1, terms, y}, multiply);
}
constexpr const char* kLongConvolution = "sums of too many products for single precision";

HostReason finish_sums(NodeLowering& lowering, const std::vector<TensorId>& parts) {
  MapBuilder map(lowering, lowering.output_shape());
  const Integer sum = total(lowering, map, parts, kMaxLayerInputs);
  map.finish("", sum, lowering.output());
  return kLowered;
}
HostReason lower_matmul_integer(NodeLowering& lowering) {
  return finish_sums(lowering, matmul_sums(lowering, {0, 1, 2, 3}));
}
HostReason lower_conv_integer(NodeLowering& lowering) {
  const auto parts = convolution_sums(lowering, {0, 1, 2, 3});
  return parts ? finish_sums(lowering, *parts) : kLongConvolution;
}

/// sum * x scale * w scale / y scale, of QLinearConv and QLinearMatMul: operands 1, 4, 6 and zero point 7.
HostReason finish_quantized(NodeLowering& lowering, const std::vector<TensorId>& parts, size_t first_axis,
                            size_t second_axis, TensorId bias) {
  const auto type = integer_type(lowering.output_type());
  const size_t rank = lowering.output_shape().size();
  MapBuilder map(lowering, lowering.output_shape());
  constexpr size_t kRoom = 1;  // beside scales, zero point and bias
  Integer sum = total(lowering, map, parts, kRoom);
  if (bias >= 0) sum = sum + map.integer(bias);
  const Term factor = map.operand(along_axis(lowering, 1, rank, first_axis)) *
                      map.operand(along_axis(lowering, 4, rank, second_axis)) /
                      map.operand(along_axis(lowering, 6, rank, 0));
  const Integer zero_point = map.integer(along_axis(lowering, 7, rank, 0));
  map.finish("", quantized(to_float(sum) * factor, zero_point, *type), lowering.output());
  return kLowered;
}
HostReason lower_qlinear_matmul(NodeLowering& lowering) {
  const size_t rank = lowering.output_shape().size();
  if (lowering.input_shape(0).size() < 2 || lowering.input_shape(3).size() < 2)
    return "an operand is a vector";
  return finish_quantized(lowering, matmul_sums(lowering, {0, 3, 2, 5}), rank - 2, rank - 1, -1);
}
HostReason lower_qlinear_conv(NodeLowering& lowering) {
  const auto parts = convolution_sums(lowering, {0, 3, 2, 5});
  if (!parts) return kLongConvolution;
  const size_t rank = lowering.output_shape().size();
  const TensorId bias = lowering.has_input(8) ? along_axis(lowering, 8, rank, 1) : -1;
  return finish_quantized(lowering, *parts, 0, 1, bias);
}

}  // namespace

void register_quantized(OperatorTable& table) {
  constexpr auto kAny = ElementTypes::kAny;
  table.push_back({"QuantizeLinear", lower_quantize_linear, kAny, "from float32, float16, bfloat16"});
  table.push_back({"DequantizeLinear", lower_dequantize_linear, kAny});
  table.push_back({"MatMulInteger", lower_matmul_integer, kAny});
  table.push_back({"ConvInteger", lower_conv_integer, kAny, "sums of a group of at most 256 products"});
  table.push_back({"QLinearMatMul", lower_qlinear_matmul, kAny, "matrices"});
  table.push_back({"QLinearConv", lower_qlinear_conv, kAny, "sums of a group of at most 256 products"});
}

}  // namespace kodama::compiler
