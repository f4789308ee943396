#include "compiler/graph/downgrade.h"

#include <gmock/gmock.h>

#include <cmath>
#include <numeric>

#include "compiler/graph/import.h"
#include "compiler/graph/test_models.h"

namespace kodama::compiler {
namespace {

using testing::add_initializer;
using testing::add_ints;
using ::testing::AllOf;
using ::testing::ElementsAre;
using testing::error_of;
using ::testing::HasSubstr;
using testing::parse_model;

constexpr DataType kBool = DataType::kBool;
constexpr DataType kDouble = DataType::kFloat64;
constexpr DataType kFloat = DataType::kFloat32;
constexpr DataType kFloat16 = DataType::kFloat16;
constexpr DataType kInt16 = DataType::kInt16;
constexpr DataType kInt64 = DataType::kInt64;
constexpr DataType kInt8 = DataType::kInt8;
constexpr DataType kUint8 = DataType::kUint8;

Tensor floats(const Shape& shape, const std::vector<float>& values) {
  return Tensor::from_values<float>(kFloat, shape, values);
}
Tensor counting(const Shape& shape, float first = 0) {
  std::vector<float> values(static_cast<size_t>(element_count(shape)));
  std::iota(values.begin(), values.end(), first);
  return floats(shape, values);
}

/// Imports a model of a newer opset and runs it on the reference. Its output is called y.
Tensor run(const onnx::ModelProto& model, const TensorMap& inputs) {
  const onnx::ModelProto imported = import_model(model, {}, "m.onnx");
  EXPECT_EQ(opset_version(imported), kOpsetVersion);
  return run_graph(imported, inputs).at("y");
}
Tensor run(const std::string& graph, int opset, const TensorMap& inputs) {
  return run(parse_model(graph, opset, "", 8), inputs);
}

void expect_near(const Tensor& found, const Tensor& expected, double tolerance = 1e-6) {
  testing::expect_close({{"y", found}}, {{"y", expected}}, tolerance);
}

std::string refusal(const std::string& graph, int opset) {
  return error_of<isa::UnsupportedError>([&] { import_model(parse_model(graph, opset), {}, "m.onnx"); });
}

onnx::ModelProto downgraded(onnx::ModelProto model) {
  downgrade_opset(model, "m.onnx");
  EXPECT_EQ(opset_version(model), kOpsetVersion);
  return model;
}

onnx::NodeProto only(const onnx::ModelProto& model, const std::string& op) {
  EXPECT_EQ(testing::count_nodes(model, op), 1);
  for (const auto& node : model.graph().node()) {
    if (node.op_type() == op) return node;
  }
  throw std::runtime_error("no " + op);
}

/// What input `index` of the only `op` is, once the model is of opset 17.
Tensor operand_of(const onnx::ModelProto& model, const std::string& op, int index, const TensorMap& inputs) {
  onnx::ModelProto cut = downgraded(model);
  const std::string name = only(cut, op).input(index);
  auto& graph = *cut.mutable_graph();
  remove_nodes(graph, [&](int i) { return graph.node(i).op_type() == op; });
  graph.mutable_output(0)->Clear();
  graph.mutable_output(0)->set_name(name);
  return run_graph(cut, inputs).at(name);
}

TEST(Downgrade, ReductionsHaveTheirAxesAsAttribute) {
  const std::vector<float> x = {1, -2, 3, 0.5F, 2, -1};  // [2, 3]
  const auto over_rows = [&](auto reduce) {
    return floats({2}, {reduce(x[0], x[1], x[2]), reduce(x[3], x[4], x[5])});
  };
  using F = float (*)(float, float, float);
  const std::vector<std::pair<std::string, F>> cases = {
      {"ReduceL1", [](float a, float b, float c) { return std::abs(a) + std::abs(b) + std::abs(c); }},
      {"ReduceL2", [](float a, float b, float c) { return std::sqrt(a * a + b * b + c * c); }},
      {"ReduceLogSum", [](float a, float b, float c) { return std::log(a + b + c); }},
      {"ReduceLogSumExp",
       [](float a, float b, float c) { return std::log(std::exp(a) + std::exp(b) + std::exp(c)); }},
      {"ReduceMax",
       [](float a, float b, float c) {
         return std::max({a, b, c});
       }},
      {"ReduceMean", [](float a, float b, float c) { return (a + b + c) / 3; }},
      {"ReduceMin",
       [](float a, float b, float c) {
         return std::min({a, b, c});
       }},
      {"ReduceProd", [](float a, float b, float c) { return a * b * c; }},
      {"ReduceSumSquare", [](float a, float b, float c) { return a * a + b * b + c * c; }}};
  for (const auto& [op, reduce] : cases) {
    SCOPED_TRACE(op);
    for (int opset : {18, 21}) {
      onnx::ModelProto model =
          parse_model("g (float[2,3] x) => (float[n] y) { y = " + op + "<keepdims=0>(x, axes) }", opset);
      add_ints(model, "axes", {-1});
      expect_near(run(model, {{"x", floats({2, 3}, x)}}), over_rows(reduce));
    }
    // No axes: all of them, or none.
    const Tensor kept =
        run("g (float[2,3] x) => (float[2,3] y) { y = " + op + "<noop_with_empty_axes=1>(x) }", 18,
            {{"x", floats({2, 3}, x)}});
    expect_near(kept, floats({2, 3}, x));
    onnx::ModelProto all = parse_model("g (float[2,3] x) => (float[1,1] y) { y = " + op + "(x, none) }", 18);
    add_ints(all, "none", {});
    EXPECT_EQ(run(all, {{"x", floats({2, 3}, x)}}).shape(), (Shape{1, 1}));
  }
}

TEST(Downgrade, AxesThatFollowFromConstants) {
  // As PyTorch's exporter writes them, in functions.
  const auto model = parse_model(R"(
    g (float[2,3] x) => (float[2,1] y) { d = Constant<value_int=1>() y = torch.mean_dim<keep=1>(x, d) }
    <opset_import: ["" : 18], domain: "torch">
    mean_dim <keep> (a, dim) => (r) { flat = Constant<value_ints=[-1]>() dims = Reshape(dim, flat)
      r = ReduceMean<keepdims: int = @keep>(a, dims) })",
                                 18, ", \"torch\" : 1");
  expect_near(run(model, {{"x", counting({2, 3})}}), floats({2, 1}, {1, 4}));
  EXPECT_THAT(
      refusal("g (float[2,3] x, int64[1] axes) => (float[2] y) { y = ReduceMax<keepdims=0>(x, axes) }", 18),
      AllOf(HasSubstr("makes 'y' (ReduceMax)"), HasSubstr("'axes'"), HasSubstr("opset 18"),
            HasSubstr("export it as a constant")));
}

TEST(Downgrade, FunctionsOfAnotherOpset) {
  const auto model = parse_model(R"(
    g (float[2,3] x) => (float[2,1] y) { a = Relu(x) y = local.f(a) }
    <opset_import: ["" : 18], domain: "local">
    f (a) => (r) { axes = Constant<value_ints=[1]>() m = Mish(a) r = ReduceMean(m, axes) })",
                                 17, ", \"local\" : 1");
  const Tensor y = run(model, {{"x", floats({2, 3}, {1, 1, 1, 2, 2, 2})}});
  expect_near(y, floats({2, 1}, {0.8650984F, 1.9439589F}));
  // A parameter of the function isn't known while it is converted by itself.
  const auto open = parse_model(R"(
    g (float[2,3] x) => (float[2,3] y) { y = local.f<kind="tanh">(x) }
    <opset_import: ["" : 20], domain: "local">
    f <kind> (a) => (r) { r = Gelu<approximate: string = @kind>(a) })",
                                17, ", \"local\" : 1");
  EXPECT_THAT(
      error_of<isa::UnsupportedError>([&] { import_model(open, {}, "m.onnx"); }),
      AllOf(HasSubstr("function 'local.f'"), HasSubstr("attribute approximate"), HasSubstr("same opset")));
}

TEST(Downgrade, ReduceOfTruthValues) {
  const TensorMap x = {{"x", Tensor::from_values<uint8_t>(kBool, {2, 2}, {1, 0, 0, 0})}};
  for (const char* op : {"ReduceMax", "ReduceMin"}) {
    onnx::ModelProto model = parse_model(
        std::string("g (bool[2,2] x) => (bool[2] y) { y = ") + op + "<keepdims=0>(x, axes) }", 20);
    add_ints(model, "axes", {1});
    const uint8_t first = std::string(op) == "ReduceMax" ? 1 : 0;
    EXPECT_EQ(run(model, x), Tensor::from_values<uint8_t>(kBool, {2}, {first, 0}));
  }
}

TEST(Downgrade, SplitIntoANumberOfParts) {
  const auto model = parse_model(
      "g (float[2,7] x) => (float[2,3] a, float[2,3] b, float[2,1] y) { a, b, y = Split<axis=-1, "
      "num_outputs=3>(x) }",
      18);
  expect_near(run(model, {{"x", counting({2, 7})}}), floats({2, 1}, {6, 13}));
  const TensorMap all = run_graph(import_model(model, {}, "m"), {{"x", counting({2, 7})}});
  expect_near(all.at("b"), floats({2, 3}, {3, 4, 5, 10, 11, 12}));
  onnx::ModelProto given =
      parse_model("g (float[5] x) => (float[2] a, float[3] y) { a, y = Split(x, sizes) }", 18);
  add_ints(given, "sizes", {2, 3});
  expect_near(run(given, {{"x", counting({5})}}), floats({3}, {2, 3, 4}));
  EXPECT_THAT(
      error_of<isa::UserError>([&] {
        import_model(
            parse_model("g (float[4] x) => (float[2] a, float[2] y) { a, y = Split<num_outputs=3>(x) }", 18),
            {}, "m");
      }),
      HasSubstr("num_outputs is 3, but it has 2 outputs"));
}

TEST(Downgrade, PadOfSomeAxes) {
  onnx::ModelProto model =
      parse_model("g (float[2,2,2] x) => (float[2,2,5] y) { y = Pad(x, pads, value, axes) }", 18);
  add_ints(model, "pads", {1, 2});
  add_ints(model, "axes", {-1});
  add_initializer(model, "value", floats({}, {9}));
  expect_near(run(model, {{"x", counting({2, 2, 2})}}),
              floats({2, 2, 5}, {9, 0, 1, 9, 9, 9, 2, 3, 9, 9, 9, 4, 5, 9, 9, 9, 6, 7, 9, 9}));
}

TEST(Downgrade, PadThatWrapsAround) {
  onnx::ModelProto model =
      parse_model("g (float[3,2] x) => (float[6,4] y) { y = Pad<mode=\"wrap\">(x, pads) }", 19);
  add_ints(model, "pads", {2, 1, 1, 1});
  expect_near(run(model, {{"x", floats({3, 2}, {1.0F, 1.2F, 2.3F, 3.4F, 4.5F, 5.7F})}}),
              floats({6, 4}, {3.4F, 2.3F, 3.4F, 2.3F, 5.7F, 4.5F, 5.7F, 4.5F, 1.2F, 1.0F, 1.2F, 1.0F,
                              3.4F, 2.3F, 3.4F, 2.3F, 5.7F, 4.5F, 5.7F, 4.5F, 1.2F, 1.0F, 1.2F, 1.0F}));
  // More than once around, and one axis alone.
  onnx::ModelProto far =
      parse_model("g (float[2,3] x) => (float[2,10] y) { y = Pad<mode=\"wrap\">(x, pads, , axes) }", 21);
  add_ints(far, "pads", {4, 3});
  add_ints(far, "axes", {1});
  expect_near(run(far, {{"x", counting({2, 3})}}),
              floats({2, 10}, {2, 0, 1, 2, 0, 1, 2, 0, 1, 2, 5, 3, 4, 5, 3, 4, 5, 3, 4, 5}));
}

TEST(Downgrade, ResizeOfSomeAxes) {
  onnx::ModelProto model =
      parse_model("g (float[1,2,4,6] x) => (float[1,2,8,9] y) { y = Resize<axes=[-2,3]>(x, , scales) }", 18);
  add_initializer(model, "scales", floats({2}, {2, 1.5F}));
  const TensorMap x = {{"x", counting({1, 2, 4, 6})}};
  expect_near(operand_of(model, "Resize", 2, x), floats({4}, {1, 1, 2, 1.5F}));
  model =
      parse_model("g (float[1,2,4,6] x) => (float[1,2,8,9] y) { y = Resize<axes=[3,2]>(x, , , sizes) }", 19);
  add_ints(model, "sizes", {9, 8});
  EXPECT_EQ(operand_of(model, "Resize", 3, x), Tensor::from_values<int64_t>(kInt64, {4}, {1, 2, 8, 9}));
  EXPECT_EQ(find_attribute(only(downgraded(model), "Resize"), "axes"), nullptr);
  // The region is of the same axes: first all starts, then all ends.
  model = parse_model(
      "g (float[1,2,4,6] x) => (float[1,2,2,3] y) { y = Resize<axes=[2,3], "
      "coordinate_transformation_mode=\"tf_crop_and_resize\">(x, roi, , sizes) }",
      18);
  add_ints(model, "sizes", {2, 3});
  add_initializer(model, "roi", floats({4}, {0.25F, 0.5F, 0.75F, 1.0F}));
  expect_near(operand_of(model, "Resize", 1, x), floats({8}, {0, 0, 0.25F, 0.5F, 1, 1, 0.75F, 1.0F}));
}

TEST(Downgrade, ResizeThatKeepsTheAspectRatio) {
  const TensorMap x = {{"x", counting({1, 1, 4, 6})}};
  const std::vector<std::pair<std::string, std::vector<int64_t>>> cases = {
      {"not_larger", {1, 1, 7, 10}}, {"not_smaller", {1, 1, 8, 12}}, {"stretch", {1, 1, 8, 10}}};
  for (const auto& [policy, sizes] : cases) {
    onnx::ModelProto model = parse_model(
        "g (float[1,1,4,6] x) => (float[1,1,h,w] y) { y = Resize<axes=[2,3], keep_aspect_ratio_policy=\"" +
            policy + "\">(x, , , sizes) }",
        18);
    add_ints(model, "sizes", {8, 10});
    EXPECT_EQ(operand_of(model, "Resize", 3, x), Tensor::from_values<int64_t>(kInt64, {4}, sizes)) << policy;
  }
}

TEST(Downgrade, ResizeModes) {
  const auto resize = [](const std::string& attributes, const std::vector<float>& scales) {
    onnx::ModelProto model = parse_model(
        "g (float[1,1,4,6] x) => (float[1,1,h,w] y) { y = Resize<" + attributes + ">(x, , scales) }", 19);
    add_initializer(model, "scales", floats({4}, scales));
    return model;
  };
  const std::string symmetric = "coordinate_transformation_mode=\"half_pixel_symmetric\"";
  EXPECT_EQ(find_attribute(only(downgraded(resize(symmetric, {1, 1, 2, 3})), "Resize"),
                           "coordinate_transformation_mode")
                ->s(),
            "half_pixel");
  EXPECT_THAT(error_of<isa::UnsupportedError>([&] {
                downgraded(resize(symmetric, {1, 1, 1.3F, 1}));
              }),
              HasSubstr("half_pixel_symmetric"));
  const std::string smooth = "mode=\"linear\", antialias=1";
  EXPECT_EQ(find_attribute(only(downgraded(resize(smooth, {1, 1, 2, 2})), "Resize"), "antialias"), nullptr);
  EXPECT_THAT(error_of<isa::UnsupportedError>([&] {
                downgraded(resize(smooth, {1, 1, 0.5F, 2}));
              }),
              AllOf(HasSubstr("(Resize)"), HasSubstr("antialias=1"), HasSubstr("opset 19")));
}

TEST(Downgrade, Scatter) {
  for (const char* op : {"ScatterElements", "ScatterND"}) {
    const std::string indices = std::string(op) == "ScatterND" ? "int64[2,1] i" : "int64[2] i";
    const std::string body = "g (float[4] x, " + indices + ", float[2] u) => (float[4] y) { y = " + op;
    EXPECT_THAT(refusal(body + "<reduction=\"max\">(x, i, u) }", 18),
                AllOf(HasSubstr(op), HasSubstr("reduction=max")));
    const Shape shape = std::string(op) == "ScatterND" ? Shape{2, 1} : Shape{2};
    expect_near(run(body + "<reduction=\"add\">(x, i, u) }", 18,
                    {{"x", counting({4})},
                     {"i", Tensor::from_values<int64_t>(kInt64, shape, {1, 1})},
                     {"u", floats({2}, {10, 20})}}),
                floats({4}, {0, 31, 2, 3}));
  }
}

TEST(Downgrade, ColumnsToImages) {
  // Blocks of 2 x 2, one step apart, in a picture of 3 x 3: the middle is in all four.
  onnx::ModelProto model =
      parse_model("g (float[1,4,4] x) => (float[1,1,3,3] y) { y = Col2Im(x, image, block) }", 18);
  add_ints(model, "image", {3, 3});
  add_ints(model, "block", {2, 2});
  const TensorMap ones = {{"x", floats({1, 4, 4}, std::vector<float>(16, 1))}};
  expect_near(run(model, ones), floats({1, 1, 3, 3}, {1, 2, 1, 2, 4, 2, 1, 2, 1}));

  // Channels, strides, pads, dilations, a rest that no block reaches: added up one by one.
  model = parse_model(
      "g (float[2,6,6] x) => (float[2,3,5,7] y) { y = Col2Im<strides=[2,3], pads=[0,1,1,0], "
      "dilations=[1,2]>(x, image, block) }",
      18);
  add_ints(model, "image", {5, 7});
  add_ints(model, "block", {1, 2});
  const Tensor x = counting({2, 6, 6}, 1);
  Tensor expected(kFloat, {2, 3, 5, 7});
  const int64_t rows = (5 + 1 - 1) / 2 + 1;
  const int64_t columns = (7 + 1 - 3) / 3 + 1;
  ASSERT_EQ(rows * columns, 6);
  for (int64_t image = 0; image < 6; ++image) {  // n * 3 + c
    for (int64_t k = 0; k < 2; ++k) {
      for (int64_t l = 0; l < 6; ++l) {
        const int64_t row = l / columns * 2;
        const int64_t column = l % columns * 3 + k * 2 - 1;
        if (row >= 5 || column < 0 || column >= 7) continue;
        expected.data<float>()[(image * 5 + row) * 7 + column] += x.data<float>()[(image * 2 + k) * 6 + l];
      }
    }
  }
  expect_near(run(model, {{"x", x}}), expected);
}

TEST(Downgrade, CenterCropAndPad) {
  // Of 5 the middle 2 are 1 and 2; 2 in the middle of 5 have 1 before and 2 behind.
  onnx::ModelProto model =
      parse_model("g (float[5,2] x) => (float[2,5] y) { y = CenterCropPad(x, shape) }", 18);
  add_ints(model, "shape", {2, 5});
  expect_near(run(model, {{"x", counting({5, 2})}}), floats({2, 5}, {0, 2, 3, 0, 0, 0, 4, 5, 0, 0}));
  model =
      parse_model("g (float[1,5,2] x) => (float[1,3,2] y) { y = CenterCropPad<axes=[-2]>(x, shape) }", 21);
  add_ints(model, "shape", {3});
  expect_near(run(model, {{"x", counting({1, 5, 2})}}), floats({1, 3, 2}, {2, 3, 4, 5, 6, 7}));
}

TEST(Downgrade, MishAndGelu) {
  const std::vector<float> x = {-3, -0.5F, 0, 0.25F, 4};
  std::vector<float> mish, gelu, approximate;
  for (double v : x) {
    mish.push_back(static_cast<float>(v * std::tanh(std::log1p(std::exp(v)))));
    gelu.push_back(static_cast<float>(0.5 * v * (1 + std::erf(v / std::sqrt(2.0)))));
    approximate.push_back(
        static_cast<float>(0.5 * v * (1 + std::tanh(std::sqrt(2 / M_PI) * (v + 0.044715 * v * v * v)))));
  }
  const TensorMap inputs = {{"x", floats({5}, x)}};
  expect_near(run("g (float[5] x) => (float[5] y) { y = Mish(x) }", 18, inputs), floats({5}, mish));
  expect_near(run("g (float[5] x) => (float[5] y) { y = Gelu(x) }", 20, inputs), floats({5}, gelu));
  expect_near(run("g (float[5] x) => (float[5] y) { y = Gelu<approximate=\"tanh\">(x) }", 21, inputs),
              floats({5}, approximate));
  Tensor wide(kDouble, {1});
  wide.data<double>()[0] = 0.3;
  Tensor exact(kDouble, {1});
  exact.data<double>()[0] = 0.15 * (1 + std::erf(0.3 / std::sqrt(2.0)));
  expect_near(run("g (double[1] x) => (double[1] y) { y = Gelu(x) }", 20, {{"x", wide}}), exact, 1e-14);
}

TEST(Downgrade, GroupNormalization) {
  const Tensor x = counting({2, 4, 3});
  for (int opset : {18, 21}) {
    SCOPED_TRACE(opset);
    const int64_t count = opset == 18 ? 2 : 4;  // scale and bias per group, then per channel
    onnx::ModelProto model = parse_model(
        "g (float[2,4,3] x) => (float[2,4,3] y) { y = GroupNormalization<num_groups=2, epsilon=0.01>(x, s, "
        "b) }",
        opset);
    add_initializer(model, "s", counting({count}, 1));
    add_initializer(model, "b", counting({count}, -2));
    Tensor expected(kFloat, x.shape());
    for (int64_t group = 0; group < 4; ++group) {
      double mean = 0, variance = 0;
      for (int64_t i = 0; i < 6; ++i) mean += x.data<float>()[group * 6 + i] / 6.0;
      for (int64_t i = 0; i < 6; ++i) variance += std::pow(x.data<float>()[group * 6 + i] - mean, 2) / 6.0;
      for (int64_t i = 0; i < 6; ++i) {
        const int64_t of = opset == 18 ? group % 2 : group % 2 * 2 + i / 3;
        expected.data<float>()[group * 6 + i] = static_cast<float>(
            (of + 1.0) * (x.data<float>()[group * 6 + i] - mean) / std::sqrt(variance + 0.01) + of - 2.0);
      }
    }
    expect_near(run(model, {{"x", x}}), expected);
  }
  EXPECT_THAT(
      refusal("g (float[2,4,3] x, float[4] s) => (float[2,4,3] y) { y = GroupNormalization<num_groups=2, "
              "stash_type=10>(x, s, s) }",
              21),
      HasSubstr("stash_type"));
}

template <typename T>
void expect_bitwise(DataType type, const std::string& name, const std::vector<T>& a,
                    const std::vector<T>& b) {
  const auto count = static_cast<int64_t>(a.size());
  const TensorMap inputs = {{"a", Tensor::from_values<T>(type, {count}, a)},
                            {"b", Tensor::from_values<T>(type, {count}, b)}};
  const std::vector<std::pair<std::string, T (*)(T, T)>> cases = {
      {"BitwiseAnd", [](T p, T q) { return static_cast<T>(p & q); }},
      {"BitwiseOr", [](T p, T q) { return static_cast<T>(p | q); }},
      {"BitwiseXor", [](T p, T q) { return static_cast<T>(p ^ q); }}};
  const std::string type_text = name + "[" + std::to_string(count) + "]";
  for (const auto& [op, compute] : cases) {
    SCOPED_TRACE(op + " of " + name);
    std::vector<T> expected;
    for (size_t i = 0; i < a.size(); ++i) expected.push_back(compute(a[i], b[i]));
    EXPECT_EQ(
        run("g (" + type_text + " a, " + type_text + " b) => (" + type_text + " y) { y = " + op + "(a, b) }",
            18, inputs),
        Tensor::from_values<T>(type, {count}, expected));
  }
  std::vector<T> inverse;
  for (T value : a) inverse.push_back(static_cast<T>(~value));
  EXPECT_EQ(run("g (" + type_text + " a) => (" + type_text + " y) { y = BitwiseNot(a) }", 18,
                {{"a", inputs.at("a")}}),
            Tensor::from_values<T>(type, {count}, inverse));
}

TEST(Downgrade, BitwiseOperators) {
  expect_bitwise<int8_t>(kInt8, "int8", {0, -1, 5, -128, 100}, {7, 90, -3, -1, 33});
  expect_bitwise<uint8_t>(kUint8, "uint8", {0, 255, 5, 128, 100}, {7, 90, 253, 255, 33});
  expect_bitwise<int16_t>(kInt16, "int16", {-32768, 12345}, {-1, -4});
  expect_bitwise<int64_t>(kInt64, "int64", {INT64_MIN, -2, 0x0123456789abcdef},
                          {INT64_MAX, 3, 0x00ff00ff00ff00ff});
  expect_bitwise<uint64_t>(DataType::kUint64, "uint64", {~0ULL, 1}, {0x8000000000000001ULL, 0});
}

TEST(Downgrade, OptionalsThatAreTensors) {
  const Tensor yes = Tensor::from_values<uint8_t>(kBool, {}, {1});
  const Tensor no = Tensor::from_values<uint8_t>(kBool, {}, {0});
  const TensorMap x = {{"x", floats({2}, {3, 4})}};
  EXPECT_EQ(run("g (float[2] x) => (bool y) { a = Relu(x) y = OptionalHasElement(a) }", 18, x), yes);
  EXPECT_EQ(run("g (float[2] x) => (bool y) { y = OptionalHasElement() }", 18, x), no);
  expect_near(run("g (float[2] x) => (float[2] y) { y = OptionalGetElement(x) }", 18, x),
              floats({2}, {3, 4}));
  // Of an optional, they are as they were.
  const auto kept = downgraded(parse_model(
      "g (float[2] x) => (float[2] y) { o = Optional(x) p = Identity(o) y = OptionalGetElement(p) }", 18));
  EXPECT_EQ(testing::count_nodes(kept, "OptionalGetElement"), 1);
}

/// A pool of one picture, by its definition; nan where a window may not begin.
Tensor pool(const Tensor& x, int64_t kernel, int64_t stride, int64_t dilation, int64_t before, int64_t behind,
            int64_t count, const std::function<double(const std::vector<double>&, int64_t)>& reduce) {
  const int64_t extent = x.shape()[2];
  std::vector<float> results;
  for (int64_t o = 0; o < count; ++o) {
    std::vector<double> values;
    int64_t inside = 0;  // of the padded picture
    for (int64_t k = 0; k < kernel; ++k) {
      const int64_t at = o * stride + k * dilation - before;
      if (at >= -before && at < extent + behind) ++inside;
      if (at >= 0 && at < extent) values.push_back(x.data<float>()[static_cast<size_t>(at)]);
    }
    results.push_back(static_cast<float>(reduce(values, inside)));
  }
  return floats({1, 1, count}, results);
}

TEST(Downgrade, AveragePoolWithDilations) {
  const auto mean = [](const std::vector<double>& values, int64_t) {
    return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
  };
  const auto padded_mean = [](const std::vector<double>& values, int64_t inside) {
    return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(inside);
  };
  const Tensor x = floats({1, 1, 9}, {3, 1, 4, 1, 5, 9, 2, 6, 5});
  const std::string head = "g (float[1,1,9] x) => (float[1,1,n] y) { y = AveragePool<kernel_shape=[3], ";
  expect_near(run(head + "dilations=[2]>(x) }", 19, {{"x", x}}), pool(x, 3, 1, 2, 0, 0, 5, mean));
  expect_near(run(head + "dilations=[2], strides=[2], pads=[1,2]>(x) }", 19, {{"x", x}}),
              pool(x, 3, 2, 2, 1, 2, 4, mean));
  expect_near(run(head + "dilations=[2], strides=[2], pads=[1,2], count_include_pad=1>(x) }", 19, {{"x", x}}),
              pool(x, 3, 2, 2, 1, 2, 4, padded_mean));
  // ceil((9 + 2 - 5) / 4 + 1) = 3 windows; of the third, the last element is beyond the padding.
  expect_near(run(head + "dilations=[2], strides=[4], pads=[1,1], ceil_mode=1, count_include_pad=1>(x) }", 19,
                  {{"x", x}}),
              pool(x, 3, 4, 2, 1, 1, 3, padded_mean));
  // A window that would begin behind the picture is none: ceil((9 + 1 - 3) / 5 + 1) = 3, but 10 is padding.
  const std::string late =
      "g (float[1,1,9] x) => (float[1,1,n] y) { y = AveragePool<kernel_shape=[2], dilations=[2], "
      "strides=[5], pads=[0,1], ceil_mode=1>(x) }";
  expect_near(run(late, 19, {{"x", x}}), pool(x, 2, 5, 2, 0, 1, 2, mean));
  expect_near(run(head + "dilations=[2], auto_pad=\"SAME_UPPER\">(x) }", 19, {{"x", x}}),
              pool(x, 3, 1, 2, 2, 2, 9, mean));
  // Without dilations it is the old operator.
  const auto kept = downgraded(parse_model(head + "dilations=[1]>(x) }", 21));
  EXPECT_EQ(find_attribute(only(kept, "AveragePool"), "dilations"), nullptr);
  // Two axes, more than one picture: channel 1 is channel 0 plus 25.
  const Tensor y =
      run("g (float[1,2,5,5] x) => (float[1,2,3,1] y) { y = AveragePool<kernel_shape=[2,3], "
          "dilations=[2,2]>(x) }",
          19, {{"x", counting({1, 2, 5, 5})}});
  expect_near(y, floats({1, 2, 3, 1}, {7, 12, 17, 32, 37, 42}));
}

TEST(Downgrade, LpPoolWithDilationsAndCeil) {
  const auto norm = [](const std::vector<double>& values, int64_t) {
    double sum = 0;
    for (double value : values) sum += std::pow(std::abs(value), 3);
    return std::cbrt(sum);
  };
  const Tensor x = floats({1, 1, 9}, {3, -1, 4, 1, -5, 9, 2, 6, 5});
  const std::string head = "g (float[1,1,9] x) => (float[1,1,n] y) { y = LpPool<p=3, kernel_shape=[3], ";
  expect_near(run(head + "dilations=[2], pads=[1,0]>(x) }", 18, {{"x", x}}), pool(x, 3, 1, 2, 1, 0, 6, norm));
  expect_near(run(head + "strides=[4], ceil_mode=1>(x) }", 18, {{"x", x}}), pool(x, 3, 4, 1, 0, 0, 3, norm));
  expect_near(run(head + "strides=[2]>(x) }", 18, {{"x", x}}), pool(x, 3, 2, 1, 0, 0, 4, norm));
}

TEST(Downgrade, EqualOfStringsIsRefused) {
  EXPECT_THAT(refusal("g (string[2] a, string[2] b) => (bool[2] y) { y = Equal(a, b) }", 19),
              AllOf(HasSubstr("(Equal)"), HasSubstr("comparison of strings"), HasSubstr("opset 19")));
  EXPECT_EQ(run("g (float[2] a, float[2] b) => (bool[2] y) { y = Equal(a, b) }", 19,
                {{"a", floats({2}, {1, 2})}, {"b", floats({2}, {1, 3})}}),
            Tensor::from_values<uint8_t>(kBool, {2}, {1, 0}));
}

TEST(Downgrade, CastsHaveNoSaturate) {
  EXPECT_EQ(run("g (float[2] x) => (int64[2] y) { y = Cast<to=7, saturate=1>(x) }", 19,
                {{"x", floats({2}, {1.5F, -2})}}),
            Tensor::from_values<int64_t>(kInt64, {2}, {1, -2}));
  EXPECT_EQ(run("g (float[2] x, int64[1] t) => (int64[2] y) { y = CastLike<saturate=0>(x, t) }", 21,
                {{"x", floats({2}, {1.5F, -2})}, {"t", Tensor(kInt64, {1})}}),
            Tensor::from_values<int64_t>(kInt64, {2}, {1, -2}));
}

TEST(Downgrade, TypesThatCameLaterAreRefused) {
  EXPECT_THAT(refusal("g (float[2] x) => (float[2] y) { a = Cast<to=17>(x) y = Cast<to=1>(a) }", 19),
              AllOf(HasSubstr("(Cast)"), HasSubstr("float8e4m3fn")));
  onnx::ModelProto model = parse_model("g (float s) => (float[2] y) { y = DequantizeLinear(w, s) }", 21);
  auto& weights = *model.mutable_graph()->add_initializer();
  weights.set_name("w");
  weights.set_data_type(22);
  weights.add_dims(2);
  weights.set_raw_data("a");
  model.set_ir_version(10);
  EXPECT_THAT(error_of<isa::UnsupportedError>([&] { import_model(model, {}, "m.onnx"); }),
              AllOf(HasSubstr("initializer 'w'"), HasSubstr("int4")));
}

TEST(Downgrade, OperatorsOfOtherTypesStay) {
  for (int opset : {19, 21}) {
    SCOPED_TRACE(opset);
    const Tensor y =
        run("g (float[2,3] x) => (float[6] y) { c = Constant<value_ints=[3,2]>() r = Reshape(x, c) t = "
            "Transpose(r) "
            "i = Identity(t) f = Flatten<axis=0>(i) one = Constant<value_ints=[0]>() s = Squeeze(f, one) "
            "u = Unsqueeze(s, one) n = IsNaN(u) w = Where(n, u, u) z = Squeeze(w, one) shape = Shape(z) "
            "o = ConstantOfShape(shape) size = Size(o) k = Cast<to=1>(size) a = Add(z, o) y = Add(a, k) }",
            opset, {{"x", counting({2, 3})}});
    expect_near(y, floats({6}, {6, 8, 10, 7, 9, 11}));
  }
}

TEST(Downgrade, FourierTransformAlongAnOperand) {
  onnx::ModelProto model =
      parse_model("g (float[1,4,5,1] x) => (float[1,4,5,2] y) { y = DFT(x, , axis) }", 20);
  add_initializer(model, "axis", Tensor::from_values<int64_t>(kInt64, {}, {2}));
  const onnx::NodeProto node = only(downgraded(model), "DFT");
  EXPECT_EQ(node.input_size(), 1);
  EXPECT_EQ(find_attribute(node, "axis")->i(), 2);
  // By default the last axis of the signal, no longer the first.
  const auto absent =
      downgraded(parse_model("g (float[1,4,5,1] x) => (float[1,4,5,2] y) { y = DFT(x) }", 20));
  EXPECT_EQ(find_attribute(only(absent, "DFT"), "axis")->i(), -2);
}

TEST(Downgrade, GridSampleModes) {
  for (const auto& [mode, old] : std::map<std::string, std::string>{
           {"linear", "bilinear"}, {"cubic", "bicubic"}, {"nearest", "nearest"}}) {
    const auto model = downgraded(parse_model(
        "g (float[1,1,4,4] x, float[1,2,2,2] grid) => (float[1,1,2,2] y) { y = GridSample<mode=\"" + mode +
            "\">(x, grid) }",
        20));
    EXPECT_EQ(find_attribute(only(model, "GridSample"), "mode")->s(), old);
  }
  EXPECT_THAT(
      refusal(
          "g (float[1,1,4,4,4] x, float[1,2,2,2,3] grid) => (float[1,1,2,2,2] y) { y = GridSample(x, grid) }",
          20),
      AllOf(HasSubstr("(GridSample)"), HasSubstr("5 axes")));
}

/// Results are PyTorch's: interpolate, fft and grid_sample with align_corners=False.
TEST(Downgrade, ResizeRuns) {
  const Tensor x = counting({1, 1, 2, 3});
  const Tensor linear = floats(
      {1, 1, 4, 6}, {0,     0.25F, 0.75F, 1.25F, 1.75F, 2,     0.75F, 1,     1.5F,  2,     2.5F,  2.75F,
                     2.25F, 2.5F,  3,     3.5F,  4,     4.25F, 3,     3.25F, 3.75F, 4.25F, 4.75F, 5});
  const auto resize = [&](const std::string& attributes, const std::string& operands, int opset,
                          const std::vector<float>& scales, const std::vector<int64_t>& sizes) {
    onnx::ModelProto model = parse_model(
        "g (float[1,1,2,3] x) => (float[1,1,h,w] y) { y = Resize<" + attributes + ">(x, " + operands + ") }",
        opset);
    if (!scales.empty())
      add_initializer(model, "scales", floats({static_cast<int64_t>(scales.size())}, scales));
    if (!sizes.empty()) add_ints(model, "sizes", sizes);
    return run(model, {{"x", x}});
  };
  expect_near(resize("mode=\"linear\", axes=[-2,3]", ", scales", 18, {2, 2}, {}), linear);
  expect_near(resize("mode=\"linear\", axes=[3,2]", ", , sizes", 19, {}, {6, 4}), linear);
  expect_near(resize("mode=\"linear\", antialias=1", ", scales", 18, {1, 1, 2, 2}, {}), linear);
  expect_near(resize("mode=\"linear\", coordinate_transformation_mode=\"half_pixel_symmetric\"", ", scales",
                     19, {1, 1, 2, 2}, {}),
              linear);
  // Four rows at most: two of three columns, as twice the rows are.
  expect_near(resize("mode=\"linear\", axes=[2,3], keep_aspect_ratio_policy=\"not_larger\"", ", , sizes", 18,
                     {}, {4, 9}),
              linear);
  expect_near(resize("mode=\"cubic\", axes=[2,3]", ", scales", 18, {2, 2}, {}),
              floats({1, 1, 4, 6}, {-0.421875F, -0.125F,    0.3515625F, 1.015625F, 1.492188F, 1.789062F,
                                    0.5742188F, 0.8710938F, 1.347656F,  2.011719F, 2.488281F, 2.785156F,
                                    2.214844F,  2.511719F,  2.988281F,  3.652344F, 4.128906F, 4.425781F,
                                    3.210938F,  3.507812F,  3.984375F,  4.648438F, 5.125F,    5.421875F}));
}

TEST(Downgrade, ResizeOfARegionRuns) {
  // The last two columns of three and all rows: as they are.
  onnx::ModelProto model = parse_model(
      "g (float[1,1,2,3] x) => (float[1,1,2,2] y) { y = Resize<axes=[2,3], mode=\"linear\", "
      "coordinate_transformation_mode=\"tf_crop_and_resize\">(x, roi, , sizes) }",
      18);
  add_ints(model, "sizes", {2, 2});
  add_initializer(model, "roi", floats({4}, {0, 0.5F, 1, 1}));
  expect_near(run(model, {{"x", counting({1, 1, 2, 3})}}), floats({1, 1, 2, 2}, {1, 2, 4, 5}));
}

TEST(Downgrade, FourierTransformRuns) {
  onnx::ModelProto model = parse_model("g (float[1,4,1] x) => (float[1,4,2] y) { y = DFT(x, , axis) }", 20);
  add_initializer(model, "axis", Tensor::from_values<int64_t>(kInt64, {}, {1}));
  const Tensor x = floats({1, 4, 1}, {1, 2, -1, 0.5F});
  const Tensor y = floats({1, 4, 2}, {2.5F, 0, 2, -1.5F, -2.5F, 0, 2, 1.5F});
  expect_near(run(model, {{"x", x}}), y);
  // The default is the last axis of the signal.
  expect_near(run("g (float[1,4,1] x) => (float[1,4,2] y) { y = DFT(x) }", 20, {{"x", x}}), y);
}

TEST(Downgrade, GridSampleRuns) {
  std::vector<float> squares;
  for (int k = 0; k < 16; ++k) squares.push_back(static_cast<float>(k * k) / 10);
  const TensorMap inputs = {
      {"x", floats({1, 1, 4, 4}, squares)},
      {"grid", floats({1, 2, 2, 2}, {-0.5F, -0.5F, 0.25F, 0.5F, 0.75F, -1, 0.1F, 0.9F})}};
  for (const auto& [mode, expected] :
       std::map<std::string, std::vector<float>>{{"linear", {1.05F, 14.8F, 0.45F, 13.153F}},
                                                 {"cubic", {0.5387696F, 17.2375F, 0.075F, 14.47136F}},
                                                 {"nearest", {0, 10, 0.9F, 19.6F}}}) {
    SCOPED_TRACE(mode);
    expect_near(
        run("g (float[1,1,4,4] x, float[1,2,2,2] grid) => (float[1,1,2,2] y) { y = GridSample<mode=\"" +
                mode + "\">(x, grid) }",
            20, inputs),
        floats({1, 1, 2, 2}, expected), 1e-5);
  }
}

TEST(Downgrade, InfinityOfNarrowFloats) {
  const std::vector<uint16_t> x = {float_to_half(1), float_to_half(INFINITY), float_to_half(-INFINITY)};
  EXPECT_EQ(run("g (float16[3] x) => (bool[3] y) { y = IsInf<detect_negative=0>(x) }", 20,
                {{"x", Tensor::from_values<uint16_t>(kFloat16, {3}, x)}}),
            Tensor::from_values<uint8_t>(kBool, {3}, {0, 1, 0}));
}

TEST(Downgrade, WhatHasNoEqual) {
  const std::vector<std::pair<std::string, int>> cases = {
      {"g (float[1,1,3,3] x, float[1,1,2,2] w, float[1,8,2,2] o) => (float[1,1,2,2] y) { y = DeformConv(x, "
       "w, o) }",
       19},
      {"g (uint8[9] x) => (uint8[h,w,3] y) { y = ImageDecoder(x) }", 20},
      {"g (string[2] x) => (bool[2] y) { y = RegexFullMatch<pattern=\"a\">(x) }", 20},
      {"g (string[2] x) => (string[2] y) { y = StringConcat(x, x) }", 20},
      {"g (string[2] x) => (string[2,n] y, int64[2] z) { y, z = StringSplit(x) }", 20}};
  for (const auto& [graph, opset] : cases) {
    EXPECT_THAT(refusal(graph, opset),
                AllOf(HasSubstr("makes 'y'"), HasSubstr(fmt::format("opset {}", opset)),
                      HasSubstr("before or after the model")))
        << graph;
  }
}

TEST(Downgrade, AffineGrid) {
  // x' = 2x + 0.5, y' = -y: at align_corners=0 the places of 2 pixels are -1/2 and 1/2, of 3 -2/3, 0, 2/3.
  onnx::ModelProto model =
      parse_model("g (float[1,2,3] t) => (float[1,2,3,2] y) { y = AffineGrid(t, size) }", 20);
  add_ints(model, "size", {1, 4, 2, 3});
  const Tensor theta = floats({1, 2, 3}, {2, 0, 0.5F, 0, -1, 0});
  const float third = 2.0F / 3;
  expect_near(run(model, {{"t", theta}}),
              floats({1, 2, 3, 2}, {-2 * third + 0.5F, 0.5F, 0.5F, 0.5F, 2 * third + 0.5F, 0.5F,
                                    -2 * third + 0.5F, -0.5F, 0.5F, -0.5F, 2 * third + 0.5F, -0.5F}));
  model = parse_model(
      "g (float[1,3,4] t) => (float[1,2,1,2,3] y) { y = AffineGrid<align_corners=1>(t, size) }", 20);
  add_ints(model, "size", {1, 4, 2, 1, 2});
  expect_near(run(model, {{"t", floats({1, 3, 4}, {1, 0, 0, 0, 0, 1, 0, 7, 0, 0, 1, 0})}}),
              floats({1, 2, 1, 2, 3}, {-1, 7, -1, 1, 7, -1, -1, 7, 1, 1, 7, 1}));
}

TEST(Downgrade, DequantizationOf16BitNumbersAndBlocks) {
  onnx::ModelProto model =
      parse_model("g (int16[2,3] x) => (float[2,3] y) { y = DequantizeLinear<axis=0>(x, s, z) }", 21);
  add_initializer(model, "s", floats({2}, {0.5F, 2}));
  add_initializer(model, "z", Tensor::from_values<int16_t>(kInt16, {2}, {100, -1}));
  expect_near(
      run(model, {{"x", Tensor::from_values<int16_t>(kInt16, {2, 3}, {100, 102, -100, 0, 1, 30000})}}),
      floats({2, 3}, {0, 1, -100, 2, 4, 60002}));
  // Blocks of two along the last axis, of which the last is smaller.
  model =
      parse_model("g (int8[2,3] x) => (float[2,3] y) { y = DequantizeLinear<block_size=2>(x, s, z) }", 21);
  add_initializer(model, "s", floats({2, 2}, {1, 2, 3, 4}));
  add_initializer(model, "z", Tensor::from_values<int8_t>(kInt8, {2, 2}, {0, 1, 2, 3}));
  expect_near(run(model, {{"x", Tensor::from_values<int8_t>(kInt8, {2, 3}, {1, 2, 3, 4, 5, 6})}}),
              floats({2, 3}, {1, 2, 4, 6, 9, 12}));
  // A scale of 16 bits makes a result of 16 bits.
  model = parse_model("g (uint8[3] x) => (float16[3] y) { y = DequantizeLinear(x, s) }", 19);
  add_initializer(model, "s", Tensor::from_values<uint16_t>(kFloat16, {}, {float_to_half(0.25F)}));
  EXPECT_EQ(run(model, {{"x", Tensor::from_values<uint8_t>(kUint8, {3}, {0, 3, 255})}}),
            Tensor::from_values<uint16_t>(kFloat16, {3}, {0, float_to_half(0.75F), float_to_half(63.75F)}));
}

TEST(Downgrade, QuantizationTo16BitNumbersAndBlocks) {
  const TensorMap x = {{"x", floats({1, 4}, {-3, 0.3F, 2.5F, 1e6F})}};
  onnx::ModelProto model =
      parse_model("g (float[1,4] x) => (uint16[1,4] y) { y = QuantizeLinear(x, s, z) }", 21);
  add_initializer(model, "s", floats({}, {1}));
  add_initializer(model, "z", Tensor::from_values<uint16_t>(DataType::kUint16, {}, {2}));
  EXPECT_EQ(run(model, x), Tensor::from_values<uint16_t>(DataType::kUint16, {1, 4}, {0, 2, 4, 65535}));
  // The type as an attribute, instead of a zero point; halves are rounded to even.
  model = parse_model("g (float[1,4] x) => (int8[1,4] y) { y = QuantizeLinear<output_dtype=3>(x, s) }", 21);
  add_initializer(model, "s", floats({}, {1}));
  EXPECT_EQ(run(model, x), Tensor::from_values<int8_t>(kInt8, {1, 4}, {-3, 0, 2, 127}));
  model = parse_model(
      "g (float[1,4] x) => (int8[1,4] y) { y = QuantizeLinear<block_size=2, axis=-1>(x, s, z) }", 21);
  add_initializer(model, "s", floats({1, 2}, {0.5F, 1e5F}));
  add_initializer(model, "z", Tensor::from_values<int8_t>(kInt8, {1, 2}, {1, -4}));
  EXPECT_EQ(run(model, x), Tensor::from_values<int8_t>(kInt8, {1, 4}, {-5, 2, -4, 6}));
  // As ever.
  EXPECT_EQ(
      testing::count_nodes(
          downgraded(parse_model(
              "g (float[4] x, float s, uint8 z) => (uint8[4] y) { y = QuantizeLinear<saturate=1>(x, s, z) }",
              19)),
          "QuantizeLinear"),
      1);
}

TEST(Downgrade, QuantizedProductWithNarrowScales) {
  onnx::ModelProto model = parse_model(
      "g (uint8[1,2] a, uint8[2,1] b) => (uint8[1,1] y) { y = QLinearMatMul(a, s, z, b, s, z, t, z) }", 21);
  add_initializer(model, "s", Tensor::from_values<uint16_t>(kFloat16, {}, {float_to_half(0.5F)}));
  add_initializer(model, "t", Tensor::from_values<uint16_t>(kFloat16, {}, {float_to_half(0.25F)}));
  add_initializer(model, "z", Tensor::from_values<uint8_t>(kUint8, {}, {1}));
  // (0.5 * 3 * 0.5 * 4 + 0.5 * 5 * 0.5 * 6) / 0.25 + 1
  EXPECT_EQ(run(model, {{"a", Tensor::from_values<uint8_t>(kUint8, {1, 2}, {4, 6})},
                        {"b", Tensor::from_values<uint8_t>(kUint8, {2, 1}, {5, 7})}}),
            Tensor::from_values<uint8_t>(kUint8, {1, 1}, {43}));
}

TEST(Downgrade, SubGraphsAreConvertedWithTheirSurroundings) {
  // The bodies of If, Loop and Scan; the axes are a constant outside.
  for (const char* op : {"If", "Loop", "Scan"}) {
    onnx::ModelProto model =
        parse_model(std::string("g (bool c, float[2,3] x) => (float[2] y) { y = ") + op + "(c) }", 19);
    add_ints(model, "axes", {1});
    auto& node = *model.mutable_graph()->mutable_node(0);
    auto& body = *set_attribute(node, "body", onnx::AttributeProto_AttributeType_GRAPH).mutable_g();
    body = parse_model("b () => (float[2] r) { r = ReduceMean<keepdims=0>(x, axes) }", 19).graph();
    const onnx::ModelProto result = downgraded(model);
    const onnx::NodeProto inner = find_attribute(only(result, op), "body")->g().node(0);
    EXPECT_EQ(inner.input_size(), 1);
    EXPECT_THAT(find_attribute(inner, "axes")->ints(), ElementsAre(1));
  }
}

TEST(Downgrade, NumbersThatNoShapeHas) {
  const std::vector<std::pair<std::string, std::vector<int64_t>>> cases = {
      {"Pad<mode=\"wrap\">(x, list)", {INT64_MIN, 0, 0, INT64_MAX}},
      {"AffineGrid(x, list)", {1, 1, INT64_MAX, INT64_MAX}},
      {"Col2Im(x, list, list)", {INT64_MAX, INT64_MAX}},
      {"GroupNormalization<num_groups=9223372036854775807>(x, x, x)", {}},
      {"AveragePool<kernel_shape=[9223372036854775807], dilations=[2]>(x)", {}},
      {"AveragePool<kernel_shape=[2], dilations=[9223372036854775807]>(x)", {}},
      {"LpPool<kernel_shape=[2], ceil_mode=1, strides=[9223372036854775807]>(x)", {}},
      {"QuantizeLinear<axis=9223372036854775807, output_dtype=5>(x, x)", {}},
      {"DequantizeLinear<axis=9223372036854775807, block_size=-1>(x, x)", {}}};
  for (const auto& [node, list] : cases) {
    SCOPED_TRACE(node);
    onnx::ModelProto model = parse_model("g (float[2,3,4] x) => (float[a,b,c] y) { y = " + node + " }", 21);
    add_ints(model, "list", list);
    EXPECT_THAT(error_of<isa::UserError>([&] { import_model(model, {}, "m.onnx"); }), HasSubstr("makes 'y'"));
  }
}

TEST(Downgrade, FunctionsThatSubGraphsCall) {
  onnx::ModelProto model = parse_model(R"(
    g (bool c, float[2,3] x) => (float[2] y) { y = If(c) }
    <opset_import: ["" : 18, "local" : 1], domain: "local"> f (a) => (r) { r = local.h(a) }
    <opset_import: ["" : 18], domain: "local">
    h (a) => (r) { axes = Constant<value_ints=[1]>() r = ReduceMean<keepdims=0>(a, axes) })",
                                       18, ", \"local\" : 1");
  auto& branch = *set_attribute(*model.mutable_graph()->mutable_node(0), "then_branch",
                                onnx::AttributeProto_AttributeType_GRAPH)
                      .mutable_g();
  branch = parse_model("b () => (float[2] r) { r = local.f(x) }", 18, ", \"local\" : 1").graph();
  const onnx::ModelProto result = downgraded(model);
  EXPECT_EQ(result.functions_size(), 0);
  const auto inner = find_attribute(only(result, "If"), "then_branch")->g();
  ASSERT_EQ(inner.node_size(), 2);
  EXPECT_EQ(inner.node(1).op_type(), "ReduceMean");
  EXPECT_EQ(inner.node(1).output(0), "r");
  EXPECT_THAT(find_attribute(inner.node(1), "axes")->ints(), ElementsAre(1));
}

TEST(Downgrade, TableIsSortedAndSaysEverything) {
  const auto operators = changed_operators();
  EXPECT_TRUE(std::ranges::is_sorted(operators, {}, &ChangedOperator::name));
  for (const auto& changed : operators) {
    EXPECT_FALSE(changed.change.empty()) << changed.name;
    // What is new must be unknown to libonnx, what isn't must be known.
    const bool is_new = changed.change.rfind("new", 0) == 0;
    EXPECT_EQ(onnx::OpSchemaRegistry::Schema(changed.name, kOpsetVersion, "") == nullptr, is_new)
        << changed.name;
  }
}

}  // namespace
}  // namespace kodama::compiler
