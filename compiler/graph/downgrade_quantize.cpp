#include <algorithm>

#include "compiler/graph/downgrade_rules.h"
#include "compiler/proto/tensor_proto.h"

/// Quantization of opset 19 to 21: what opset 17's operators don't take is written in arithmetic.
namespace kodama::compiler::downgrade {

namespace {

bool is_narrow_float(DataType type) {
  return type == DataType::kFloat16 || type == DataType::kBfloat16;
}
bool is_short(DataType type) {
  return type == DataType::kInt16 || type == DataType::kUint16;
}

/// A scale or zero point, spread such that it broadcasts against x: it is a number, a list along an axis, or
/// has an element per block along that axis.
std::string spread(NodeDowngrade& n, const std::string& value, const std::string& x, int64_t axis,
                   int64_t block) {
  if (block > 0) {
    const std::string extent = n.add("Gather", {n.add("Shape", {x}), n.integer_constant(axis)});
    const std::string places = n.add("Range", {n.integer_constant(0), extent, n.integer_constant(1)});
    const std::string blocks = n.add("Div", {places, n.integer_constant(block)});
    return n.add("Gather", {value, blocks}, {along(axis)});
  }
  if (axis == -1) return value;
  const std::string behind = n.add("Shape", {x}, {onnx::MakeAttribute("start", axis + 1)});
  const Tensor one = Tensor::from_values<int64_t>(DataType::kInt64, {1}, {1});
  const std::string ones = n.add("ConstantOfShape", {n.add("Shape", {behind})},
                                 {onnx::MakeAttribute("value", tensor_to_proto(one, ""))});
  const std::string shape = n.add("Concat", {n.integers_constant({-1}), ones}, {along(0)});
  return n.add("Reshape", {value, shape});
}

int64_t axis_of(NodeDowngrade& n) {
  const int64_t axis = n.integer("axis", 1);
  constexpr int64_t kMostAxes = 1 << 16;
  n.require(axis >= -kMostAxes && axis < kMostAxes, "axis is {}; no tensor has so many", axis);
  return axis;
}

int64_t take_block_size(NodeDowngrade& n) {
  const int64_t block = n.integer("block_size", 0);
  n.require(block >= 0, "block_size is {}; it must not be negative", block);
  n.remove("block_size");
  return block;
}

}  // namespace

void dequantize(NodeDowngrade& n) {
  n.remove("saturate");
  const int64_t block = take_block_size(n);
  if (block == 0 && !is_short(n.input_type(0)) && !is_narrow_float(n.input_type(1))) return n.keep();
  const std::string x = n.input(0);
  const int64_t axis = axis_of(n);
  const DataType wide = DataType::kInt32;
  std::string number = n.add("Cast", {x}, {to_type(wide)});
  if (n.has_input(2)) {
    const std::string zero = n.add("Cast", {n.input(2)}, {to_type(wide)});
    number = n.add("Sub", {number, spread(n, zero, x, axis, block)});
  }
  const std::string scale = spread(n, n.input(1), x, axis, block);
  const std::string product = n.add("Mul", {n.add("CastLike", {number, n.input(1)}), scale});
  n.finish("Reshape", {product, n.add("Shape", {x})});
}

void quantize(NodeDowngrade& n) {
  n.remove("saturate");
  const int64_t block = take_block_size(n);
  const auto wanted = static_cast<DataType>(n.integer("output_dtype", 0));
  n.remove("output_dtype");
  DataType type = DataType::kUint8;
  if (n.has_input(2) && n.input_type(2) != DataType::kUndefined) {
    type = n.input_type(2);
    n.require(wanted == DataType::kUndefined || wanted == type,
              "output_dtype is {}, but its zero point is {}", data_type_name(wanted), data_type_name(type));
  } else if (wanted != DataType::kUndefined) {
    type = wanted;
  }
  const bool is_plain =
      block == 0 && !is_short(type) && !is_narrow_float(n.input_type(0)) && !is_narrow_float(n.input_type(1));
  if (is_plain && (n.has_input(2) || type == DataType::kUint8)) return n.keep();
  double low = 0;
  double high = 255;
  switch (type) {
    case DataType::kUint8:
      break;
    case DataType::kInt8:
      low = -128;
      high = 127;
      break;
    case DataType::kUint16:
      high = 65535;
      break;
    case DataType::kInt16:
      low = -32768;
      high = 32767;
      break;
    default:
      n.require(false, "quantizes to {}; int8, uint8, int16 and uint16 are allowed", data_type_name(type));
  }
  // In float32, which has all numbers up to 2^24.
  const std::string x = n.input(0);
  const int64_t axis = axis_of(n);
  const auto as_float = [&](const std::string& value) { return n.add("Cast", {value}, {to_type(kFloat)}); };
  const std::string scale = spread(n, as_float(n.input(1)), x, axis, block);
  std::string number = n.add("Round", {n.add("Div", {as_float(x), scale})});
  if (n.has_input(2)) number = n.add("Add", {number, spread(n, as_float(n.input(2)), x, axis, block)});
  const auto limit = [&](double value) {
    return n.constant(Tensor::from_values<float>(kFloat, {}, {static_cast<float>(value)}));
  };
  const std::string clipped = n.add("Clip", {number, limit(low), limit(high)});
  const std::string quantized = n.add("Cast", {clipped}, {to_type(type)});
  n.finish("Reshape", {quantized, n.add("Shape", {x})});
}

void qlinear_matmul(NodeDowngrade& n) {
  for (int scale : {1, 4, 6}) {
    if (is_narrow_float(n.input_type(scale))) {
      const std::string wide = n.add("Cast", {n.input(scale)}, {to_type(DataType::kFloat32)});
      n.node().set_input(scale, wide);
    }
  }
  n.keep();
}

}  // namespace kodama::compiler::downgrade
