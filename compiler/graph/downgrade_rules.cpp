#include "compiler/graph/downgrade_rules.h"

#include <algorithm>

#include "compiler/proto/tensor_proto.h"

namespace kodama::compiler::downgrade {

namespace {

void keep(NodeDowngrade& n) {
  n.keep();
}

/// New element types only; `saturate` speaks of float8 alone.
void drop_saturate(NodeDowngrade& n) {
  n.remove("saturate");
  n.keep();
}

void equal(NodeDowngrade& n) {
  constexpr DataType kString = DataType::kString;
  if (n.input_type(0) == kString || n.input_type(1) == kString)
    n.refuse("comparison of strings", "compare numbers that stand for the strings (LabelEncoder)");
  n.keep();
}

void reduce(NodeDowngrade& n) {
  const bool ignores_no_axes = n.integer("noop_with_empty_axes", 0) != 0;
  n.remove("noop_with_empty_axes");
  std::vector<int64_t> axes;
  if (n.has_input(1)) axes = n.integers(1);
  if (axes.empty() && ignores_no_axes) return n.finish("Identity", {n.input(0)});
  onnx::NodeProto& node = n.node();
  if (node.input_size() > 1) node.mutable_input()->DeleteSubrange(1, node.input_size() - 1);
  if (!axes.empty()) set_ints(node, "axes", axes);
  if (n.input_type(0) != kBool) return n.keep();
  // Largest and smallest of truth values, since opset 20.
  const NodeDowngrade::Attributes attributes(node.attribute().begin(), node.attribute().end());
  const std::string numbers = n.add("Cast", {n.input(0)}, {to_type(kUint8)});
  n.finish("Cast", {n.add(node.op_type().c_str(), {numbers}, attributes)}, {to_type(kBool)});
}

void split(NodeDowngrade& n) {
  const int64_t parts = n.integer("num_outputs", 0);
  const bool has_parts = n.has("num_outputs");
  n.remove("num_outputs");
  n.require(!has_parts || !n.has_input(1),
            "it has both the operand split and the attribute num_outputs; one of them is allowed");
  if (!has_parts) return n.keep();
  n.require(parts == n.node().output_size(), "num_outputs is {}, but it has {} outputs", parts,
            n.node().output_size());
  const std::string x = n.input(0);
  const int64_t axis = n.integer("axis", 0);
  // Parts of ceil(extent / parts), the last one smaller.
  const std::string extent = n.add("Gather", {n.add("Shape", {x}), n.integers_constant({axis})});
  const std::string part =
      n.add("Div", {n.add("Add", {extent, n.integer_constant(parts - 1)}), n.integer_constant(parts)});
  const std::string before = n.add("Mul", {part, n.integer_constant(parts - 1)});
  const std::string most = n.add("Expand", {part, n.integers_constant({parts - 1})});
  const std::string sizes = n.add("Concat", {most, n.add("Sub", {extent, before})}, {along(0)});
  while (n.node().input_size() < 2) n.node().add_input();
  n.node().set_input(1, sizes);
  n.keep();
}

void scatter(NodeDowngrade& n) {
  const std::string reduction = n.text("reduction", "none");
  if (reduction == "max" || reduction == "min") {
    n.refuse(
        fmt::format("reduction={}", reduction),
        "export with reduction none, add or mul, or take the largest or smallest value before it scatters");
  }
  n.keep();
}

void mish(NodeDowngrade& n) {
  n.finish("Mul", {n.input(0), n.add("Tanh", {n.add("Softplus", {n.input(0)})})});
}

void gelu(NodeDowngrade& n) {
  const std::string x = n.input(0);
  const std::string kind = n.text("approximate", "none");
  std::string sign;  // from -1 to 1
  if (kind == "tanh") {
    const std::string cube = n.add("Mul", {n.add("Mul", {x, x}), x});
    const std::string inner = n.add("Add", {x, n.add("Mul", {cube, n.number_like(0.044715, x)})});
    constexpr double kRootOf2OverPi = 0.79788456080286535588;
    sign = n.add("Tanh", {n.add("Mul", {inner, n.number_like(kRootOf2OverPi, x)})});
  } else {
    n.require(kind == "none", "approximate is '{}'; none and tanh are allowed", kind);
    constexpr double kRootOfHalf = 0.70710678118654752440;
    sign = n.add("Erf", {n.add("Mul", {x, n.number_like(kRootOfHalf, x)})});
  }
  const std::string weight = n.add("Add", {sign, n.number_like(1, x)});
  n.finish("Mul", {n.add("Mul", {x, n.number_like(0.5, x)}), weight});
}

void bitwise_not(NodeDowngrade& n) {
  // -1 - x in two's complement; of unsigned numbers, -1 is the largest.
  const std::string ones = n.add("CastLike", {n.integer_constant(-1), n.input(0)});
  n.finish("Sub", {ones, n.input(0)});
}

/// Bits of a number along a new last axis, as 0 and 1.
std::string bits_of(NodeDowngrade& n, const std::string& value, const std::string& places) {
  const std::string wide = n.add("Cast", {value}, {to_type(kUint64)});  // keeps the bits of negative numbers
  const std::string column = n.add("Unsqueeze", {wide, n.integers_constant({-1})});
  const std::string shifted =
      n.add("BitShift", {column, places}, {onnx::MakeAttribute("direction", std::string("RIGHT"))});
  return n.add("Mod", {shifted, n.constant(Tensor::from_values<uint64_t>(kUint64, {}, {2}))});
}

void bitwise(NodeDowngrade& n) {
  int64_t width = 64;
  for (int input : {0, 1}) {
    const size_t size = element_size(n.input_type(input));
    if (size > 0) width = static_cast<int64_t>(size) * 8;
  }
  std::vector<uint64_t> places;
  for (int64_t k = 0; k < width; ++k) places.push_back(static_cast<uint64_t>(k));
  const std::string shifts = n.constant(Tensor::from_values<uint64_t>(kUint64, {width}, places));
  const std::string a = bits_of(n, n.input(0), shifts);
  const std::string b = bits_of(n, n.input(1), shifts);
  const std::string& op = n.node().op_type();
  std::string bits;
  if (op == "BitwiseAnd") bits = n.add("Mul", {a, b});
  if (op == "BitwiseOr") bits = n.add("Max", {a, b});
  if (op == "BitwiseXor") {
    bits = n.add("Mod", {n.add("Add", {a, b}), n.constant(Tensor::from_values<uint64_t>(kUint64, {}, {2}))});
  }
  const std::string placed =
      n.add("BitShift", {bits, shifts}, {onnx::MakeAttribute("direction", std::string("LEFT"))});
  const std::string sum =
      n.add("ReduceSum", {placed, n.integers_constant({-1})}, {onnx::MakeAttribute("keepdims", int64_t{0})});
  n.finish("CastLike", {sum, n.input(0)});
}

void optional_has_element(NodeDowngrade& n) {
  const auto answer = [&](bool value) {
    onnx::AttributeProto tensor = onnx::MakeAttribute(
        "value",
        tensor_to_proto(Tensor::from_values<uint8_t>(kBool, {}, {value ? uint8_t{1} : uint8_t{0}}), ""));
    n.finish("Constant", {}, {tensor});
  };
  if (!n.has_input(0)) return answer(false);
  if (n.values().is_no_optional(n.input(0))) return answer(true);
  n.keep();
}

void optional_get_element(NodeDowngrade& n) {
  if (n.has_input(0) && n.values().is_no_optional(n.input(0))) return n.finish("Identity", {n.input(0)});
  n.keep();
}

void group_normalization(NodeDowngrade& n) {
  const std::string x = n.input(0);
  n.require(n.has("num_groups"), "attribute num_groups is missing");
  const int64_t groups = n.integer("num_groups", 0);
  constexpr int64_t kMostGroups = 1 << 20;
  n.require(groups >= 1 && groups <= kMostGroups, "num_groups is {}; 1 to {} are allowed", groups,
            kMostGroups);
  const bool is_per_channel = n.version() >= 21;
  if (is_per_channel && n.integer("stash_type", 1) != 1)
    n.refuse("a stash_type that isn't float32", "export with stash_type=1, in which we compute");
  const std::string grouped = n.add("Reshape", {x, n.integers_constant({0, groups, -1})});
  const onnx::AttributeProto* epsilon = find_attribute(n.node(), "epsilon");
  NodeDowngrade::Attributes attributes;
  if (epsilon != nullptr) attributes.push_back(*epsilon);
  const std::string shape = n.add("Shape", {x});
  if (!is_per_channel) {  // scale and bias are per group
    const std::string normalized =
        n.add("InstanceNormalization", {grouped, n.input(1), n.input(2)}, attributes);
    return n.finish("Reshape", {normalized, shape});
  }
  const auto per_group = [&](double value) {
    const Tensor values = Tensor::from_values<double>(
        kDouble, {groups}, std::vector<double>(static_cast<size_t>(groups), value));
    return n.add("CastLike", {n.constant(values), x});
  };
  const std::string normalized =
      n.add("InstanceNormalization", {grouped, per_group(1), per_group(0)}, attributes);
  const std::string leading = n.add("Shape", {x}, {onnx::MakeAttribute("end", int64_t{2})});
  const std::string rows =
      n.add("Reshape", {normalized, n.add("Concat", {leading, n.integers_constant({-1})}, {along(0)})});
  const auto column = [&](int input) {
    return n.add("Unsqueeze", {n.input(input), n.integers_constant({1})});
  };
  n.finish("Reshape", {n.add("Add", {n.add("Mul", {rows, column(1)}), column(2)}), shape});
}

void dft(NodeDowngrade& n) {
  int64_t axis = -2;
  if (n.has_input(2)) {
    const std::vector<int64_t> values = n.integers(2);
    n.require(values.size() == 1, "its operand axis has {} elements; one is allowed", values.size());
    axis = values[0];
  }
  onnx::NodeProto& node = n.node();
  while (node.input_size() > 2 || (node.input_size() == 2 && node.input(1).empty()))
    node.mutable_input()->RemoveLast();
  set_attribute(node, "axis", onnx::AttributeProto_AttributeType_INT).set_i(axis);
  n.keep();
}

void grid_sample(NodeDowngrade& n) {
  const auto rank = n.values().rank(n.input(0));
  if (rank && *rank != 4) {
    n.refuse(fmt::format("an input of {} axes", *rank),
             "sample slices of four axes (N, C, H, W), which opset 17 has");
  }
  const std::string mode = n.text("mode", "linear");
  n.require(mode == "linear" || mode == "nearest" || mode == "cubic",
            "mode is '{}'; linear, nearest and cubic are allowed", mode);
  set_attribute(n.node(), "mode", onnx::AttributeProto_AttributeType_STRING)
      .set_s(mode == "linear"  ? "bilinear"
             : mode == "cubic" ? "bicubic"
                               : mode);
  n.keep();
}

void is_inf(NodeDowngrade& n) {
  const DataType type = n.input_type(0);
  if (type == DataType::kFloat16 || type == DataType::kBfloat16)
    n.node().set_input(0, n.add("Cast", {n.input(0)}, {to_type(kFloat)}));
  n.keep();
}

const char* const kTypesOnly = "more element types; kept";
const char* const kReduceAxes =
    "axes as an operand, which must be known before the model runs; the attribute again";

}  // namespace

const std::vector<ChangeRow>& operator_changes() {
  static const std::vector<ChangeRow> table = {
      {"AffineGrid", "20", "new; a product with a grid, if its operand size is constant", affine_grid},
      {"AveragePool", "19", "dilations; convolutions with ones, over counts", average_pool},
      {"BitwiseAnd", "18", "new; bit by bit on uint64", bitwise},
      {"BitwiseNot", "18", "new; -1 - x", bitwise_not},
      {"BitwiseOr", "18", "new; bit by bit on uint64", bitwise},
      {"BitwiseXor", "18", "new; bit by bit on uint64", bitwise},
      {"Cast", "19, 21", "float8 and 4-bit types, which are refused", drop_saturate},
      {"CastLike", "19, 21", "float8 and 4-bit types, which are refused", drop_saturate},
      {"CenterCropPad", "18", "new; Slice and Pad", center_crop_pad},
      {"Col2Im", "18", "new; ConvTranspose with ones, if its shapes are constant", col2im},
      {"Constant", "19, 21", kTypesOnly, keep},
      {"ConstantOfShape", "20, 21", kTypesOnly, keep},
      {"DFT", "20", "axis as an operand, which must be constant; the attribute again", dft},
      {"DeformConv", "19", "new; no equal in opset 17", refuse_operator},
      {"DequantizeLinear", "19, 21",
       "16-bit numbers, other scales, blocks; in arithmetic. 4-bit and float8 are refused", dequantize},
      {"Equal", "19", "strings, which are refused", equal},
      {"Flatten", "21", kTypesOnly, keep},
      {"Gelu", "20", "new; its formula", gelu},
      {"GridSample", "20", "names of modes; the old ones. More than two spatial axes are refused",
       grid_sample},
      {"GroupNormalization", "18, 21", "new; InstanceNormalization of groups", group_normalization},
      {"Identity", "19, 21", kTypesOnly, keep},
      {"If", "19, 21", kTypesOnly, keep},
      {"ImageDecoder", "20", "new; no equal in opset 17", refuse_operator},
      {"IsInf", "20", "16-bit floats; by way of float32", is_inf},
      {"IsNaN", "20", kTypesOnly, keep},
      {"Loop", "19, 21", kTypesOnly, keep},
      {"LpPool", "18", "dilations, ceil_mode; a convolution with ones of powers", lp_pool},
      {"Mish", "18", "new; its formula", mish},
      {"OptionalGetElement", "18", "tensors and sequences as they are; Identity", optional_get_element},
      {"OptionalHasElement", "18", "tensors, sequences, no operand; a constant", optional_has_element},
      {"Pad", "18, 19, 21", "axes, which must be constant; pads of all axes. Mode wrap; Gather", pad},
      {"QLinearMatMul", "21", "16-bit scales; by way of float32", qlinear_matmul},
      {"QuantizeLinear", "19, 21",
       "16-bit numbers, other scales, output_dtype, blocks; in arithmetic. 4-bit and float8 are refused",
       quantize},
      {"ReduceL1", "18", kReduceAxes, reduce},
      {"ReduceL2", "18", kReduceAxes, reduce},
      {"ReduceLogSum", "18", kReduceAxes, reduce},
      {"ReduceLogSumExp", "18", kReduceAxes, reduce},
      {"ReduceMax", "18, 20", "axes as for ReduceMean; bool, by way of uint8", reduce},
      {"ReduceMean", "18", kReduceAxes, reduce},
      {"ReduceMin", "18, 20", "axes as for ReduceMean; bool, by way of uint8", reduce},
      {"ReduceProd", "18", kReduceAxes, reduce},
      {"ReduceSumSquare", "18", kReduceAxes, reduce},
      {"RegexFullMatch", "20", "new; no equal in opset 17", refuse_operator},
      {"Reshape", "19, 21", kTypesOnly, keep},
      {"Resize", "18, 19",
       "axes and keep_aspect_ratio_policy; sizes of all axes. antialias where it shrinks is refused", resize},
      {"Scan", "19, 21", kTypesOnly, keep},
      {"ScatterElements", "18", "reduction max and min, which are refused", scatter},
      {"ScatterND", "18", "reduction max and min, which are refused", scatter},
      {"Shape", "19, 21", kTypesOnly, keep},
      {"Size", "19, 21", kTypesOnly, keep},
      {"Split", "18", "num_outputs; the operand split", split},
      {"Squeeze", "21", kTypesOnly, keep},
      {"StringConcat", "20", "new; no equal in opset 17", refuse_operator},
      {"StringSplit", "20", "new; no equal in opset 17", refuse_operator},
      {"Transpose", "21", kTypesOnly, keep},
      {"Unsqueeze", "21", kTypesOnly, keep},
  };
  return table;
}

void refuse_operator(NodeDowngrade& n) {
  n.refuse("the operator",
           "do it before or after the model, or export it as a function of operators that opset 17 has");
}

const std::string& NodeDowngrade::input(int index) const {
  require(has_input(index), "input {} is missing", index);
  return node_.input(index);
}

std::vector<int64_t> NodeDowngrade::integers(int index) const {
  const auto tensor = values_.constant(input(index));
  if (tensor == nullptr) {
    refuse(fmt::format("input {} '{}' with elements that aren't constant", index, node_.input(index)),
           "export it as a constant");
  }
  require(tensor->type() == kInt64 || tensor->type() == DataType::kInt32,
          "input {} '{}' is {}; int64 is allowed", index, node_.input(index), data_type_name(tensor->type()));
  std::vector<int64_t> values;
  for (int64_t i = 0; i < tensor->size(); ++i) {
    values.push_back(tensor->type() == kInt64 ? tensor->data<int64_t>()[static_cast<size_t>(i)]
                                              : tensor->data<int32_t>()[static_cast<size_t>(i)]);
  }
  return values;
}

const onnx::AttributeProto* NodeDowngrade::attribute(const char* name) const {
  const onnx::AttributeProto* found = find_attribute(node_, name);
  if (found != nullptr && !found->ref_attr_name().empty()) {
    refuse(fmt::format("attribute {} that is a parameter of a function", name),
           "give model and functions the same opset, or write the value into the function");
  }
  return found;
}

int64_t NodeDowngrade::integer(const char* name, int64_t absent) const {
  const onnx::AttributeProto* found = attribute(name);
  require(found == nullptr || found->type() == onnx::AttributeProto_AttributeType_INT,
          "attribute {} must be an integer", name);
  return found == nullptr ? absent : found->i();
}

std::string NodeDowngrade::text(const char* name, const char* absent) const {
  const onnx::AttributeProto* found = attribute(name);
  require(found == nullptr || found->type() == onnx::AttributeProto_AttributeType_STRING,
          "attribute {} must be a string", name);
  return found == nullptr ? absent : found->s();
}

std::optional<std::vector<int64_t>> NodeDowngrade::integers(const char* name) const {
  const onnx::AttributeProto* found = attribute(name);
  if (found == nullptr) return std::nullopt;
  require(found->type() == onnx::AttributeProto_AttributeType_INTS, "attribute {} must be a list of integers",
          name);
  return std::vector<int64_t>(found->ints().begin(), found->ints().end());
}

onnx::NodeProto NodeDowngrade::make(const char* op, const std::vector<std::string>& inputs,
                                    const Attributes& attributes) {
  onnx::NodeProto node;
  node.set_op_type(op);
  for (const std::string& name : inputs) node.add_input(name);
  for (const auto& attribute : attributes) *node.add_attribute() = attribute;
  return node;
}

std::string NodeDowngrade::add(const char* op, const std::vector<std::string>& inputs,
                               const Attributes& attributes) {
  onnx::NodeProto node = make(op, inputs, attributes);
  std::string base = node_.name();
  for (const auto& output : node_.output()) {
    if (base.empty()) base = output;
  }
  const std::string name = names_.make_unique(fmt::format("{}/{}", base, op));
  node.set_name(name);
  node.add_output(name);
  made_(std::move(node));
  return name;
}

void NodeDowngrade::finish(const char* op, const std::vector<std::string>& inputs,
                           const Attributes& attributes) {
  onnx::NodeProto node = make(op, inputs, attributes);
  node.set_name(node_.name());
  require(node_.output_size() > 0, "it has no output");
  node.add_output(node_.output(0));
  made_(std::move(node));
}

std::string NodeDowngrade::constant(const Tensor& tensor) {
  return add("Constant", {}, {onnx::MakeAttribute("value", tensor_to_proto(tensor, ""))});
}

std::string NodeDowngrade::integers_constant(const std::vector<int64_t>& values) {
  return constant(Tensor::from_values<int64_t>(kInt64, {static_cast<int64_t>(values.size())}, values));
}

std::string NodeDowngrade::integer_constant(int64_t value) {
  return constant(Tensor::from_values<int64_t>(kInt64, {}, {value}));
}

std::string NodeDowngrade::number(double value) {
  return constant(Tensor::from_values<double>(kDouble, {}, {value}));
}

std::string NodeDowngrade::number_like(double value, const std::string& like) {
  return add("CastLike", {number(value), like});
}

void NodeDowngrade::refuse(const std::string& what, const std::string& instead) const {
  throw isa::UnsupportedError(
      fmt::format("{} of opset {}: {} can't be expressed in opset {}, which Kodama works on; {}", place(),
                  version_, what, kOpsetVersion, instead));
}

}  // namespace kodama::compiler::downgrade
