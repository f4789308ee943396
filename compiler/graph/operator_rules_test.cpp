#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "compiler/graph/import.h"
#include "compiler/graph/test_models.h"

namespace kodama::compiler {
namespace {

using testing::add_ints;
using testing::add_random;
using ::testing::AllOf;
using testing::error_of;
using ::testing::HasSubstr;
using testing::parse_model;

/// A graph of one node with the output y, to which operands of these shapes are given by name.
struct Case {
  const char* node;  ///< "Conv<strides=[0,1]>(x, w)"
  std::vector<std::pair<const char*, Shape>> operands;
  std::vector<const char*> expected;  ///< in the message
};

/// The text form has no operands that are left out; here they are called _.
onnx::ModelProto with_operands_left_out(onnx::ModelProto model) {
  for (auto& node : *model.mutable_graph()->mutable_node()) {
    for (std::string& input : *node.mutable_input()) {
      if (input == "_") input.clear();
    }
  }
  return model;
}

onnx::ModelProto model_of(const Case& test, int opset) {
  onnx::ModelProto model = parse_model(fmt::format("g () => () {{ y = {} }}", test.node), opset);
  for (const auto& [name, shape] : test.operands) {
    auto& input = *model.mutable_graph()->add_input();
    input.set_name(name);
    *input.mutable_type() = make_tensor_type(DataType::kFloat32, shape);
  }
  auto& output = *model.mutable_graph()->add_output();
  output.set_name("y");
  output.mutable_type()->mutable_tensor_type()->set_elem_type(DataType::kFloat32);
  model.mutable_graph()->mutable_node(0)->set_name("the_node");
  return with_operands_left_out(std::move(model));
}

void expect_refused(const Case& test, int opset = 17) {
  SCOPED_TRACE(test.node);
  const std::string message =
      error_of<isa::UserError>([&] { import_model(model_of(test, opset), {}, "m.onnx"); });
  EXPECT_THAT(message, HasSubstr("node 'the_node'"));
  for (const char* expected : test.expected) EXPECT_THAT(message, HasSubstr(expected));
}

const Shape kImage{1, 2, 8, 8};
const Shape kFilter{4, 2, 3, 3};

// Found by the fuzzer: an internal error where other data gave the table another batch.
TEST(OperatorRules, GatherNDHasOneBatch) {
  const onnx::ModelProto model = parse_model(
      "g (float[9,3] x, int64[8,6,1] i) => (float[8,6] y) { y = GatherND<batch_dims = 1>(x, i) }");
  const std::string message = error_of<isa::UserError>([&] { import_model(model, {}, "m.onnx"); });
  EXPECT_THAT(message, AllOf(HasSubstr("GatherND"), HasSubstr("[9, 3]"), HasSubstr("batch_dims = 1")));
}

// ONNX's body of the operator would give other numbers, or no valid graph.
TEST(OperatorRules, LayerNormalizationNeedsAScaleOfTheNormalizedAxes) {
  const auto error = [](const char* node, const Shape& data, const Shape& scale) {
    const Case test{node, {{"x", data}, {"w", scale}}, {}};
    return error_of<isa::UnsupportedError>([&] { import_model(model_of(test, 17), {}, "m.onnx"); });
  };
  EXPECT_THAT(error("LayerNormalization<axis=1>(x, w)", {2, 3, 4}, {3, 1}), HasSubstr("expand it to [3, 4]"));
  EXPECT_THAT(error("LayerNormalization(x, w)", {2, 4, 4}, {4, 1}), HasSubstr("expand it to [4]"));
  for (const Shape& scale : {Shape{3, 4}, Shape{1, 3, 4}, Shape{1}, Shape{}}) {
    const Case test{"LayerNormalization<axis=1>(x, w)", {{"x", {2, 3, 4}}, {"w", scale}}, {}};
    EXPECT_NO_THROW(import_model(model_of(test, 17), {}, "m.onnx")) << shape_to_string(scale);
  }
}

TEST(OperatorRules, WindowsOfConvAndPools) {
  expect_refused({"Conv<strides=[0,1]>(x, w)", {{"x", kImage}, {"w", kFilter}}, {"strides holds 0", "1 to"}});
  expect_refused({"Conv<strides=[1,-1]>(x, w)", {{"x", kImage}, {"w", kFilter}}, {"strides holds -1"}});
  expect_refused({"Conv<dilations=[0,1]>(x, w)", {{"x", kImage}, {"w", kFilter}}, {"dilations holds 0"}});
  expect_refused({"Conv<strides=[1]>(x, w)", {{"x", kImage}, {"w", kFilter}}, {"1 values", "2 are needed"}});
  expect_refused({"Conv<pads=[-1,0,0,0]>(x, w)", {{"x", kImage}, {"w", kFilter}}, {"pads holds -1"}});
  expect_refused(
      {"Conv<auto_pad=\"SOME\">(x, w)", {{"x", kImage}, {"w", kFilter}}, {"'SOME'", "SAME_UPPER"}});
  expect_refused({"Conv<group=0>(x, w)", {{"x", kImage}, {"w", kFilter}}, {"group is 0"}});
  expect_refused(
      {"Conv(x, w)", {{"x", {1, 2, 8}}, {"w", kFilter}}, {"'w' (float32 [4, 2, 3, 3])", "rank 3"}});
  expect_refused({"Conv(x, w)", {{"x", {1, 3, 8, 8}}, {"w", kFilter}}, {"3 channels"}});
  expect_refused({"Conv(x, w)", {{"x", {1, 2, 2, 8}}, {"w", kFilter}}, {"reaches over 3 elements"}});
  expect_refused({"Conv(x, w, b)", {{"x", kImage}, {"w", kFilter}, {"b", {3}}}, {"'b'", "4"}});
  expect_refused({"ConvTranspose(x, w)", {{"x", kImage}, {"w", {}}}, {"'w'", "rank 0"}});
  expect_refused({"ConvTranspose(x, w)", {{"x", kImage}, {"w", {2}}}, {"'w'", "rank 1"}});
  for (const char* pool : {"MaxPool", "AveragePool", "LpPool"}) {
    for (const auto& [attributes, expected] : std::vector<std::pair<const char*, const char*>>{
             {"kernel_shape=[3,3], strides=[0,1]", "strides holds 0"},
             {"kernel_shape=[3,3], strides=[-2,1]", "strides holds -2"},
             {"kernel_shape=[0,3]", "kernel_shape holds 0"},
             {"kernel_shape=[3]", "kernel_shape has 1 values"},
             {"kernel_shape=[9,3]", "reaches over 9 elements"},
             {"kernel_shape=[3,3], pads=[1,1]", "pads has 2 values"}}) {
      const std::string node = fmt::format("{}<{}>(x)", pool, attributes);
      expect_refused({node.c_str(), {{"x", kImage}}, {expected}});
    }
  }
  // Before opset 10 as well.
  expect_refused({"MaxPool<kernel_shape=[3,3], strides=[0,1]>(x)", {{"x", kImage}}, {"strides holds 0"}}, 8);
}

TEST(OperatorRules, ShapesOfOperands) {
  expect_refused({"PRelu(x, w)", {{"x", kImage}, {"w", {3}}}, {"'w' (float32 [3])", "'x'"}});
  expect_refused({"Clip(x, w)", {{"x", kImage}, {"w", {3}}}, {"'w'", "3 elements; one is allowed"}});
  expect_refused({"LayerNormalization(x, w)", {{"x", kImage}, {"w", {7}}}, {"'w'", "broadcast"}});
  expect_refused({"LayerNormalization<axis=4>(x, w)", {{"x", kImage}, {"w", {8}}}, {"axis is 4", "-4 to 3"}});
  expect_refused({"Add(x, w)", {{"x", kImage}, {"w", {7}}}, {"'x'", "'w'", "broadcast"}});
  expect_refused({"MatMul(x, w)", {{"x", {2, 3}}, {"w", {4, 5}}}, {"'x'", "'w'"}});
  expect_refused({"Gemm(x, w)", {{"x", {2, 3, 4}}, {"w", {4, 5}}}, {"rank 3", "rank 2 is allowed"}});
  expect_refused({"Transpose<perm=[0,0]>(x)", {{"x", {2, 3}}}, {"perm is [0, 0]"}});
  expect_refused({"Concat<axis=2>(x, w)", {{"x", {2, 3}}, {"w", {2, 3}}}, {"axis is 2"}});
  expect_refused({"SpaceToDepth<blocksize=0>(x)", {{"x", kImage}}, {"blocksize is 0"}});
  expect_refused({"BatchNormalization(x, w, w, w, w)", {{"x", kImage}, {"w", {3}}}, {"3 elements; 2"}});
  expect_refused({"LSTM(x, w, r)",
                  {{"x", {5, 1, 3}}, {"w", {1, 16, 3}}, {"r", {1, 16, 4}}},
                  {"hidden_size is missing"}});
  expect_refused({"Einsum<equation=\"ij,jk->il\">(x, w)", {{"x", {2, 3}}, {"w", {3, 4}}}, {"ij,jk->il"}});
}

TEST(OperatorRules, ElementsOfOperands) {
  const auto message = [](const std::string& node, const std::vector<int64_t>& values) {
    onnx::ModelProto model =
        parse_model(fmt::format("g (float[2,3] x) => (float[a,b] y) {{ y = {} }}", node));
    add_ints(model, "v", values);
    return error_of<isa::UserError>([&] { import_model(model, {}, "m.onnx"); });
  };
  EXPECT_THAT(message("Reshape(x, v)", {4, 2}),
              AllOf(HasSubstr("'x'"), HasSubstr("6 elements"), HasSubstr("[4, 2]")));
  EXPECT_THAT(message("Reshape(x, v)", {4, -1}), HasSubstr("6 elements"));
  EXPECT_THAT(message("Reshape(x, v)", {-1, -1}), HasSubstr("more than one -1"));
  EXPECT_THAT(message("Expand(x, v)", {5, 3}), HasSubstr("[5, 3]"));
  EXPECT_THAT(message("Tile(x, v)", {1, -1}), HasSubstr("-1"));
  EXPECT_THAT(message("Pad(x, v)", {0, -9, 0, 0}), HasSubstr("-6 elements"));
  EXPECT_THAT(message("ReduceSum(x, v)", {2}), AllOf(HasSubstr("'v'"), HasSubstr("-2 to 1")));
  onnx::ModelProto model =
      parse_model("g (float[2,3] x) => (float[a,b] y, int64[a,b] i) { y, i = TopK(x, v) }");
  add_ints(model, "v", {-1});
  EXPECT_THAT(error_of<isa::UserError>([&] { import_model(model, {}, "m.onnx"); }),
              AllOf(HasSubstr("(TopK)"), HasSubstr("k = -1"), HasSubstr("0 to 3")));
}

TEST(OperatorRules, WhatIsNotKnownIsNamed) {
  const auto message = [](const std::string& graph) {
    return error_of<isa::UnsupportedError>([&] { import_model(parse_model(graph), {}, "m.onnx"); });
  };
  EXPECT_THAT(message("g (string[3] x) => (string[n] y) { y = StringNormalizer<stopwords=[\"a\"]>(x) }"),
              AllOf(HasSubstr("(StringNormalizer)"), HasSubstr("depends on data"), HasSubstr("'x'")));
  EXPECT_THAT(message("g (float[6] x, int64[1] s) => (float[a] y) { y = Reshape(x, s) }"),
              AllOf(HasSubstr("(Reshape)"), HasSubstr("depends on data"), HasSubstr("'s'")));
  EXPECT_THAT(message("g (float[6] x) => (int64[1,n] y) { y = NonZero(x) }"), HasSubstr("depends on data"));
  EXPECT_THAT(message("g (float[8000000000] x) => (float[8000000000] y) { y = Cos(x) }"),
              AllOf(HasSubstr("'x'"), HasSubstr("8000000000"), HasSubstr("2147483647"), HasSubstr("--dim")));
  EXPECT_THAT(
      message("g (float[100000] x) => (float[a,b] y) { i = Constant<value=int64[1]{1}>() r = Unsqueeze(x, i) "
              "y = Add(x, r) }"),
      AllOf(HasSubstr("(Add)"), HasSubstr("'y'"), HasSubstr("2147483647")));
}

/// The error of a model that its text describes.
std::string refusal(const std::string& graph, int opset = 17, const std::string& imports = "") {
  const onnx::ModelProto model = with_operands_left_out(parse_model(graph, opset, imports));
  return error_of<isa::UserError>([&] { import_model(model, {}, "m.onnx"); });
}

TEST(OperatorRules, Resize) {
  const auto by = [](const char* attributes, const char* operands) {
    return fmt::format(
        "g (float[2,3] x) => (float[a,b] y) {{ r = Constant<value=float[4]{{0.0, 0.0, 1.0, 0.5}}>() "
        "s = Constant<value=float[2]{{1.0, 2.0}}>() w = Constant<value=float[3]{{1.0, 2.0, 1.0}}>() "
        "n = Constant<value=int64[2]{{2, 6}}>() m = Constant<value=int64[2]{{2, 0}}>() y = Resize<{}>({}) }}",
        attributes, operands);
  };
  const auto shape = [&](const char* attributes, const char* operands) {
    const auto model =
        import_model(with_operands_left_out(parse_model(by(attributes, operands))), {}, "m.onnx");
    return static_shape(model.graph().output(0).type());
  };
  EXPECT_EQ(shape("mode=\"nearest\"", "x, r, s"), (Shape{2, 6}));
  EXPECT_EQ(shape("mode=\"nearest\"", "x, r, _, n"), (Shape{2, 6}));
  EXPECT_EQ(shape("coordinate_transformation_mode=\"tf_crop_and_resize\"", "x, r, s"), (Shape{2, 3}));
  EXPECT_THAT(refusal(by("mode=\"nearest\"", "x, r, s, n")), HasSubstr("one of them is allowed"));
  EXPECT_THAT(refusal(by("mode=\"nearest\"", "x, r")), HasSubstr("neither scales nor sizes"));
  EXPECT_THAT(refusal(by("mode=\"nearest\"", "x, r, w")), HasSubstr("3 elements"));
  EXPECT_THAT(refusal(by("mode=\"nearest\"", "x, r, _, m")), HasSubstr("can't be resized to 0"));
  EXPECT_THAT(refusal(by("mode=\"area\"", "x, r, s")), HasSubstr("'area'"));
  EXPECT_THAT(refusal(by("nearest_mode=\"up\"", "x, r, s")), HasSubstr("'up'"));
  EXPECT_THAT(refusal(by("coordinate_transformation_mode=\"half\"", "x, r, s")), HasSubstr("'half'"));
  EXPECT_THAT(refusal(by("coordinate_transformation_mode=\"tf_crop_and_resize\"", "x, s, s")),
              HasSubstr("a start and an end"));
}

TEST(OperatorRules, RecurrentOperators) {
  const std::vector<std::pair<const char*, Shape>> good = {
      {"x", {5, 2, 3}}, {"w", {1, 16, 3}}, {"r", {1, 16, 4}}};
  const auto with = [&](const char* name, const Shape& shape) {
    auto operands = good;
    for (auto& [own, extents] : operands) {
      if (std::string(own) == name) extents = shape;
    }
    return operands;
  };
  expect_refused({"LSTM<hidden_size=4>(x, w, r)", with("w", {1, 12, 3}), {"12 elements; 16"}});
  expect_refused({"LSTM<hidden_size=4>(x, w, r)", with("w", {1, 16, 2}), {"as many as X has"}});
  expect_refused({"LSTM<hidden_size=4>(x, w, r)", with("x", {5, 3}), {"rank 2"}});
  expect_refused({"LSTM<hidden_size=4, direction=\"bidirectional\">(x, w, r)", good, {"the directions"}});
  expect_refused({"LSTM<hidden_size=4, direction=\"up\">(x, w, r)", good, {"'up'"}});
  expect_refused({"LSTM<hidden_size=4, layout=2>(x, w, r)", good, {"layout is 2"}});
  expect_refused({"LSTM<hidden_size=4, activations=[\"Tanh\"]>(x, w, r)", good, {"1 values; 3"}});
  for (const auto& [operands, shape, expected] :
       {std::tuple("x, w, r, b", Shape{1, 16}, "two for each row of W"),
        std::tuple("x, w, r, _, _, b", Shape{1, 3, 4}, "the batch"),
        std::tuple("x, w, r, _, _, _, b", Shape{1, 2}, "rank 2"),
        std::tuple("x, w, r, _, _, _, _, b", Shape{1, 16}, "three for each element")}) {
    auto all = good;
    all.emplace_back("b", shape);
    const std::string node = fmt::format("LSTM<hidden_size=4>({})", operands);
    expect_refused({node.c_str(), all, {expected}});
  }
  const auto model = import_model(
      parse_model(
          "g (float[2,5,3] x, float[2,12,3] w, float[2,12,4] r) => (float[a,b,c,d] y, float[e,f,g] h) "
          "{ y, h = GRU<hidden_size=4, layout=1, direction=\"bidirectional\">(x, w, r) }"),
      {}, "m.onnx");
  EXPECT_EQ(static_shape(model.graph().output(0).type()), (Shape{2, 5, 2, 4}));
  EXPECT_EQ(static_shape(model.graph().output(1).type()), (Shape{2, 2, 4}));
}

TEST(OperatorRules, Regions) {
  const auto roi_align = [](const char* attributes, const char* rois, const char* pictures) {
    return refusal(fmt::format(
        "g (float[1,2,8,8] x, float{} r, int64{} b) => (float[n,c,h,w] y) {{ y = RoiAlign<{}>(x, r, b) }}",
        rois, pictures, attributes));
  };
  EXPECT_THAT(roi_align("mode=\"avg\"", "[3,5]", "[3]"), HasSubstr("two corners"));
  EXPECT_THAT(roi_align("mode=\"avg\"", "[3,4]", "[2]"), HasSubstr("one for each region"));
  EXPECT_THAT(roi_align("mode=\"sum\"", "[3,4]", "[3]"), HasSubstr("'sum'"));
  EXPECT_THAT(roi_align("output_height=0", "[3,4]", "[3]"), HasSubstr("output_height is 0"));
  EXPECT_THAT(roi_align("sampling_ratio=-1", "[3,4]", "[3]"), HasSubstr("sampling_ratio is -1"));
  EXPECT_THAT(roi_align("coordinate_transformation_mode=\"half\"", "[3,4]", "[3]"), HasSubstr("'half'"));
  expect_refused({"MaxRoiPool<pooled_shape=[2,2]>(x, w)",
                  {{"x", kImage}, {"w", {3, 4}}},
                  {"the picture and two corners"}});
  expect_refused(
      {"MaxRoiPool<pooled_shape=[2,0]>(x, w)", {{"x", kImage}, {"w", {3, 5}}}, {"pooled_shape holds 0"}});
  expect_refused({"MaxRoiPool<pooled_shape=[2]>(x, w)", {{"x", kImage}, {"w", {3, 5}}}, {"2 values"}});
  expect_refused({"GridSample(x, w)", {{"x", kImage}, {"w", {1, 4, 4, 3}}}, {"x and y"}});
  expect_refused({"GridSample(x, w)", {{"x", kImage}, {"w", {2, 4, 4, 2}}}, {"the batch"}});
  expect_refused({"GridSample(x, w)", {{"x", {1, 2, 0, 8}}, {"w", {1, 4, 4, 2}}}, {"nothing to sample"}});
  expect_refused({"GridSample<mode=\"area\">(x, w)", {{"x", kImage}, {"w", {1, 4, 4, 2}}}, {"'area'"}});
  const auto suppress = [](const char* boxes, const char* scores) {
    return refusal(fmt::format("g (float{} b, float{} s) => (int64[n,3] y) {{ y = NonMaxSuppression(b, s) }}",
                               boxes, scores));
  };
  EXPECT_THAT(suppress("[1,6,5]", "[1,2,6]"), HasSubstr("coordinates of a box"));
  EXPECT_THAT(suppress("[1,6,4]", "[1,2,7]"), HasSubstr("one for each box"));
  EXPECT_THAT(suppress("[2,6,4]", "[1,2,6]"), HasSubstr("the batch"));
}

TEST(OperatorRules, Signals) {
  expect_refused({"DFT(x)", {{"x", {1, 4, 3}}}, {"1 (real) and 2 (complex)"}});
  expect_refused({"DFT<axis=2>(x)", {{"x", {1, 4, 1}}}, {"axis is 2"}});
  expect_refused({"DFT<axis=-1>(x)", {{"x", {1, 4, 1}}}, {"axis is -1"}});
  expect_refused({"DFT<onesided=1, inverse=1>(x)", {{"x", {1, 4, 1}}}, {"exclude each other"}});
  expect_refused({"DFT<onesided=1>(x)", {{"x", {1, 4, 2}}}, {"real numbers"}});
  const auto stft = [](const char* signal, const char* operands) {
    return fmt::format(
        "g (float{} x, float[4] w) => (float[b,f,n,2] y) {{ s = Constant<value=int64{{2}}>() l = "
        "Constant<value=int64{{5}}>() "
        "z = Constant<value=int64{{0}}>() y = STFT({}) }}",
        signal, operands);
  };
  EXPECT_THAT(refusal(stft("[1,9,1]", "x, s")), HasSubstr("neither window nor frame_length"));
  EXPECT_THAT(refusal(stft("[1,9,1]", "x, s, w, l")), HasSubstr("has 4 elements"));
  EXPECT_THAT(refusal(stft("[1,9,1]", "x, z, w")), HasSubstr("holds 0"));
  EXPECT_THAT(refusal(stft("[1,3,1]", "x, s, w")), HasSubstr("1 to 3"));
  const auto model =
      import_model(with_operands_left_out(parse_model(stft("[1,9,1]", "x, s, _, l"))), {}, "m.onnx");
  EXPECT_EQ(static_shape(model.graph().output(0).type()), (Shape{1, 3, 3, 2}));
  expect_refused({"Det(x)", {{"x", {2, 3}}}, {"square"}});
}

TEST(OperatorRules, TextAndTraining) {
  const auto vectorize = [](const char* attributes) {
    return refusal(fmt::format(
        "g (int64[3] x) => (float[n] y) {{ y = TfIdfVectorizer<min_gram_length=1, max_skip_count=0, "
        "ngram_counts=[0], {}>(x) }}",
        attributes));
  };
  EXPECT_THAT(vectorize("mode=\"TF\", max_gram_length=0, ngram_indexes=[0], pool_int64s=[1]"),
              HasSubstr("max_gram_length is 0"));
  EXPECT_THAT(vectorize("mode=\"X\", max_gram_length=1, ngram_indexes=[0], pool_int64s=[1]"),
              HasSubstr("'X'"));
  EXPECT_THAT(vectorize("mode=\"TF\", max_gram_length=1, ngram_indexes=[-1], pool_int64s=[1]"),
              HasSubstr("holds -1"));
  EXPECT_THAT(vectorize("mode=\"TF\", max_gram_length=1, ngram_indexes=[0], pool_strings=[\"a\"]"),
              HasSubstr("pool_int64s is missing"));
  EXPECT_THAT(refusal("g (string[2,1] x) => (string[n] y) { y = StringNormalizer(x) }"), HasSubstr("[1, C]"));
  const auto adagrad = [](const char* operands) {
    return refusal(
        fmt::format("g (float r, int64 t, float[2] x, float[3] w) => (float[a] y, float[b] z) {{ y, z = "
                    "ai.onnx.preview.training.Adagrad({}) }}",
                    operands),
        17, ", \"ai.onnx.preview.training\" : 1");
  };
  EXPECT_THAT(adagrad("r, t, x, x"), HasSubstr("a multiple of 3"));
  EXPECT_THAT(adagrad("r, t, x, w, x"), HasSubstr("the same shape"));
  EXPECT_THAT(adagrad("x, t, x, x, x"), HasSubstr("2 elements; one"));
}

TEST(OperatorRules, TypesOfOperands) {
  onnx::ModelProto unknown = parse_model("g (float[2] x) => (float[2] y) { y = Relu(x) }");
  unknown.mutable_graph()->mutable_input(0)->mutable_type()->mutable_tensor_type()->set_elem_type(17);
  EXPECT_THAT(error_of<isa::UserError>([&] { import_model(unknown, {}, "m.onnx"); }),
              AllOf(HasSubstr("'x'"), HasSubstr("element type 17")));
  const auto message = [](const std::string& graph) {
    return error_of<isa::UserError>([&] { import_model(parse_model(graph), {}, "m.onnx"); });
  };
  EXPECT_THAT(
      message("g (float[2] x, int32[2] w) => (float[4] y) { y = Concat<axis=0>(x, w) }"),
      AllOf(HasSubstr("'x' (float32 [2])"), HasSubstr("'w' (int32 [2])"), HasSubstr("same element type")));
  EXPECT_THAT(message("g (int32[1,1,4,4] x, int32[1,1,2,2] w) => (int32[1,1,3,3] y) { y = Conv(x, w) }"),
              AllOf(HasSubstr("'x'"), HasSubstr("tensor(float)")));
}

TEST(OperatorRules, ShapesThatTheLibraryDoesNotInfer) {
  const auto model = import_model(parse_model("g (float[2,3] x, float[3,4] w) => (float[a,b] y) { e = "
                                              "Einsum<equation=\"ij,jk\">(x, w) y = Relu(e) }"),
                                  {}, "m.onnx");
  EXPECT_EQ(static_shape(model.graph().output(0).type()), (Shape{2, 4}));
  const auto transposed =
      import_model(parse_model("g (float[1,2,5] x, float[2,3,2] w) => (float[a,b,c] y) "
                               "{ y = ConvTranspose<strides = [3], auto_pad = \"SAME_LOWER\">(x, w) }"),
                   {}, "m.onnx");
  EXPECT_EQ(static_shape(transposed.graph().output(0).type()), (Shape{1, 3, 15}));
  const auto shape_of = [](const std::string& graph) {
    return static_shape(import_model(parse_model(graph), {}, "m.onnx").graph().output(0).type());
  };
  EXPECT_EQ(shape_of("g (int64[2,3] x, float[2] v) => (float[a,b,c] y) { d = Constant<value_int=5>() "
                     "y = OneHot<axis=-2>(x, d, v) }"),
            (Shape{2, 5, 3}));
  EXPECT_EQ(shape_of("g (float[2,3] x) => (float[a,b] y) { c = Constant<value=bool[3]{1, 0, 1}>() "
                     "y = Compress<axis=-1>(x, c) }"),
            (Shape{2, 2}));
  EXPECT_EQ(shape_of("g (float[2,3] x) => (float[a] y) { c = Constant<value=bool[4]{1, 0, 1, 1}>() "
                     "y = Compress(x, c) }"),
            Shape{3});
}

TEST(OperatorRules, VersionsHaveARemedy) {
  onnx::ModelProto model = parse_model("g (float[2] x) => (float[2] y) { y = Relu(x) }", 17);
  model.mutable_opset_import(0)->set_version(22);
  EXPECT_THAT(error_of<isa::UserError>([&] { import_model(model, {}, "m.onnx"); }),
              AllOf(HasSubstr("opset 22"), HasSubstr("1 to 21"), HasSubstr("opset_version=21")));
}

}  // namespace
}  // namespace kodama::compiler
