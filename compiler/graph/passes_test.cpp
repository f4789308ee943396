#include "compiler/graph/passes.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <limits>
#include <sstream>

#include "compiler/graph/fold_constants.h"
#include "compiler/graph/import.h"
#include "compiler/graph/test_models.h"
#include "compiler/proto/tensor_proto.h"
#include "isa/file.h"

namespace kodama::compiler {
namespace {

using testing::add_initializer;
using testing::add_ints;
using testing::add_random;
using ::testing::AllOf;
using testing::count_nodes;
using ::testing::HasSubstr;
using testing::parse_model;

onnx::ModelProto import(const onnx::ModelProto& model) {
  return import_model(model, {}, "m.onnx");
}

/// Runs one pass and compares with the reference.
onnx::ModelProto after(const std::string& pass, const onnx::ModelProto& model, double tolerance = 0,
                       const GraphPassOptions& options = {}) {
  onnx::ModelProto result = model;
  run_graph_pass(find_graph_pass(pass), result, options);
  testing::expect_same_results(model, result, tolerance);
  EXPECT_EQ(result.graph().output_size(), model.graph().output_size());
  for (int i = 0; i < model.graph().output_size(); ++i) {
    EXPECT_EQ(result.graph().output(i).name(), model.graph().output(i).name());
  }
  return result;
}

TEST(Passes, Registry) {
  for (const std::string& name : graph_pipeline()) EXPECT_EQ(find_graph_pass(name).name, name);
  for (const auto& pass : graph_passes()) EXPECT_FALSE(pass.description.empty());
  EXPECT_THAT(testing::error_of<isa::UserError>([] { find_graph_pass("polish"); }),
              AllOf(HasSubstr("polish"), HasSubstr("fold-constants")));
}

TEST(Passes, TheFigureOfTheOverviewHasThePipeline) {
  // The lines between the first two boxes, without the columns beside the arrows.
  const std::string page = isa::read_file(isa::source_path("docs/overview.md"));
  const size_t begin = page.find("    graph (ONNX)\n");
  const size_t end = page.find("      | lower\n");
  ASSERT_TRUE(begin < end && end != std::string::npos);
  std::istringstream words(page.substr(begin, end - begin));
  std::vector<std::string> names;
  for (std::string word; words >> word;) {
    if (word.ends_with(',')) word.pop_back();
    const bool is_pass = std::ranges::count(graph_passes(), word, &GraphPass::name) > 0;
    if (is_pass) names.push_back(word);
  }
  EXPECT_EQ(names, graph_pipeline());
}

TEST(Passes, DumpIsCalledAfterEveryPass) {
  auto model = import(parse_model("g (float[2] x) => (float[2] y) { y = Relu(x) }"));
  std::vector<std::string> names;
  run_graph_passes(model, {},
                   [&](const GraphPass& pass, const onnx::ModelProto&) { names.push_back(pass.name); });
  EXPECT_EQ(names, graph_pipeline());
}

TEST(Passes, AnInvalidResultIsAnInternalErrorThatNamesThePass) {
  const auto model = import(parse_model("g (float[2] x) => (float[2] y) { a = Relu(x) y = Neg(a) }"));
  const auto run = [&](const std::function<void(onnx::ModelProto&)>& damage) {
    onnx::ModelProto copy = model;
    const GraphPass pass{"vandal", "", [&](onnx::ModelProto& m, const GraphPassOptions&) { damage(m); }};
    return testing::error_of<isa::InternalError>([&] { run_graph_pass(pass, copy); });
  };
  EXPECT_THAT(run([](onnx::ModelProto& m) { m.mutable_graph()->mutable_node(1)->set_input(0, "lost"); }),
              HasSubstr("vandal"));
  EXPECT_THAT(run([](onnx::ModelProto& m) { m.mutable_graph()->mutable_node(1)->set_op_type("Nag"); }),
              HasSubstr("vandal"));
  EXPECT_THAT(run([](onnx::ModelProto& m) { m.mutable_graph()->mutable_node(0)->set_op_type("NonZero"); }),
              HasSubstr("vandal"));
}

TEST(FoldConstants, EvaluatesWhatIsConstant) {
  const auto model = import(parse_model(
      "g (float[2,3] x) => (float[2,3] y) { a = Constant<value = float[3] {1.0, 2.0, 3.0}>() b = Exp(a) "
      "s = Shape(x) t = Size(x) f = Cast<to=1>(t) c = Div(b, f) z = Expand(c, s) y = Add(x, z) }"));
  const auto result = after("fold-constants", model);
  EXPECT_EQ(result.graph().node_size(), 1);
}

TEST(FoldConstants, ShapeWithBounds) {
  for (const char* attributes : {"", "<start=1>", "<end=-1>", "<start=-2, end=3>", "<start=3, end=1>"}) {
    SCOPED_TRACE(attributes);
    const auto model = import(
        parse_model(fmt::format("g (float[2,3,4] x) => (int64[n] y) {{ y = Shape{}(x) }}", attributes)));
    EXPECT_EQ(count_nodes(after("fold-constants", model), "Shape"), 0);
  }
}

TEST(FoldConstants, ConstantOutputsKeepTheirNames) {
  auto model = import(parse_model(
      "g (float[2] x) => (float[2] y, float[2] c) { a = Constant<value = float[2] {1.0, 2.0}>() c = Neg(a) "
      "y = Add(x, c) }"));
  const auto result = after("fold-constants", model);
  EXPECT_EQ(count_nodes(result, "Identity"), 1);
  EXPECT_EQ(result.graph().node_size(), 2);
  after("fold-constants", result);
}

TEST(FoldConstants, SizeLimit) {
  auto model =
      import(parse_model("g (float[1] x) => (float[600,600] y) { s = Constant<value_ints=[600,600]>() "
                         "c = ConstantOfShape(s) y = Add(x, c) }"));
  EXPECT_EQ(count_nodes(after("fold-constants", model), "ConstantOfShape"), 1);
  EXPECT_EQ(count_nodes(after("fold-constants", model, 0, {.fold_limit = 1500000}), "ConstantOfShape"), 0);
  // What doesn't grow is folded whatever its size.
  model = parse_model("g (float[1] x) => (float[700,600] y) { t = Transpose(w) y = Add(x, t) }");
  add_random(model, "w", {600, 700});
  model = import(model);
  EXPECT_EQ(count_nodes(after("fold-constants", model), "Transpose"), 0);
}

/// A Concat of a value with itself doubles it and makes no more than its inputs are.
TEST(FoldConstants, TotalLimit) {
  std::string body = "c0 = Concat<axis=0>(w, w) ";
  for (int k = 1; k < 29; ++k) body += fmt::format("c{} = Concat<axis=0>(c{}, c{}) ", k, k - 1, k - 1);
  auto model = parse_model(
      fmt::format("g (float[1] x) => (int64[1] s, float[2] y) {{ {} s = Shape(c28) y = Add(x, c0) }}", body));
  add_random(model, "w", {1});
  model = import(model);
  constexpr int64_t kTotal = 1 << 20;
  fold_constants(model, kDefaultFoldLimit, kTotal);
  fold_constants(model, kDefaultFoldLimit, kTotal);  // again and again must not grow either
  int64_t bytes = 0;
  for (const auto& tensor : model.graph().initializer())
    bytes += static_cast<int64_t>(tensor_from_proto(tensor, "constant").byte_size());
  EXPECT_LE(bytes, kTotal);
  EXPECT_EQ(count_nodes(model, "Shape"), 0);
  EXPECT_EQ(count_nodes(model, "Concat"), 29 - 17);  // c16 is half of the total, beside c0
}

/// Weights larger than the limit don't count for outputs within it.
TEST(FoldConstants, LargeModelsHaveMasks) {
  auto model = parse_model(
      "g (float[100] x, float[2000] v) => (float[100] y, float[2000] z) "
      "{ y = MatMul(w, x) m = Expand(one, s) z = Add(v, m) }");
  add_random(model, "w", {100, 100});
  add_random(model, "one", {1});
  add_ints(model, "s", {2000});
  model = import(model);
  fold_constants(model, 1 << 14, 1 << 15);
  EXPECT_EQ(count_nodes(model, "Expand"), 0);
}

/// Only what is of integers, so that what may be trained keeps its name and shape.
TEST(FoldConstants, ShapesAlone) {
  auto model = parse_model(
      "g (float[2,3] x) => (float[2,3] y) { s = Shape(x) t = Concat<axis=0>(s, one) u = Slice(t, zero, two) "
      "v = Reshape(w, u) y = Add(x, v) }");
  add_random(model, "w", {3, 2});
  add_ints(model, "zero", {0});
  add_ints(model, "one", {1});
  add_ints(model, "two", {2});
  model = import(model);
  fold_shapes(model);
  EXPECT_EQ(model.graph().node_size(), 2);
  EXPECT_EQ(count_nodes(model, "Reshape"), 1);
  EXPECT_EQ(model.graph().initializer_size(), 2);
}

TEST(FoldConstants, LeavesRandomAndFailingNodes) {
  auto model = parse_model(
      "g (float[2] x) => (float[2] y, int64[2] z) { r = RandomNormal<shape=[2]>() "
      "y = Add(x, r) z = Div(a, b) }");
  add_ints(model, "a", {1, 2});
  add_ints(model, "b", {0, 1});
  model = import(model);
  run_graph_pass(find_graph_pass("fold-constants"), model);
  EXPECT_EQ(count_nodes(model, "RandomNormal"), 1);
}

TEST(FoldConstants, RefusesAValueOfAnotherShapeThanDeclared) {
  onnx::ModelProto model = parse_model("g () => (int64[2] y) { y = Unique(x) }");
  add_ints(model, "x", {1, 2, 1, 3});
  EXPECT_THAT(testing::error_of<isa::UserError>([&] { fold_constants(model); }),
              ::testing::AllOf(HasSubstr("(Unique)"), HasSubstr("int64 [3]"), HasSubstr("int64 [2]")));
}

TEST(FoldConstants, RemovesNoOps) {
  auto model = parse_model(
      "g (float[2,3] x) => (float[2,3] y) { a = Identity(x) b = Dropout(a) c = Cast<to=1>(b) d = Reshape(c, "
      "shape) "
      "e = Transpose<perm=[0,1]>(d) f = Relu(e) h = Slice(f, zero, big) i = Concat<axis=0>(h) j = Flatten(i) "
      "y = Identity(j) }");
  add_ints(model, "shape", {2, -1});
  add_ints(model, "zero", {0, 0});
  add_ints(model, "big", {10, 10});
  const auto result = after("fold-constants", import(model));
  ASSERT_EQ(result.graph().node_size(), 1);
  EXPECT_EQ(result.graph().node(0).op_type(), "Relu");
  EXPECT_EQ(result.graph().node(0).input(0), "x");
  EXPECT_EQ(result.graph().node(0).output(0), "y");
}

TEST(FoldConstants, KeepsWhatOnlyLooksLikeANoOp) {
  auto model = parse_model(
      "g (float[3,3] x) => (float[3,3] y, float[3,3] z) { a = Transpose(x) y = Slice(a, from, to, axes, "
      "steps) "
      "d, mask = Dropout(x) m = Cast<to=1>(mask) z = Add(d, m) }");
  add_ints(model, "from", {-1});
  add_ints(model, "to", {-9});
  add_ints(model, "axes", {0});
  add_ints(model, "steps", {-1});
  const auto result = after("fold-constants", import(model));
  EXPECT_EQ(count_nodes(result, "Transpose"), 1);
  EXPECT_EQ(count_nodes(result, "Slice"), 1);
  EXPECT_EQ(count_nodes(result, "Dropout"), 1);
}

TEST(FoldConstants, OutputsThatShareAValue) {
  const auto model =
      import(parse_model("g (float[2] x) => (float[2] p, float[2] q, float[2] r) { a = Relu(x) p = "
                         "Identity(a) q = Cast<to=1>(a) "
                         "r = Identity(x) }"));
  const auto result = after("fold-constants", model);
  EXPECT_EQ(count_nodes(result, "Relu"), 1);
  EXPECT_EQ(count_nodes(result, "Identity"), 2);
}

TEST(ExpandFunctions, EverySchemaFunction) {
  const struct {
    const char* graph;
    double tolerance;
  } kCases[] = {
      {"g (float[2,3] x) => (float[2,3] y) { y = HardSwish(x) }", 1e-6},
      {"g (float[2,3] x) => (float[2,3] y) { y = Softmax<axis=0>(x) }", 1e-6},
      {"g (float[2,3] x) => (float[2,3] y) { y = LogSoftmax(x) }", 1e-6},
      {"g (double[2,3] x) => (double[2,3] y) { y = Softmax(x) }", 1e-12},
      {"g (float[2,3] x, float[2,3] z) => (bool[2,3] y) { y = GreaterOrEqual(x, z) }", 0},
      {"g (float[2,3] x, float[2,3] z) => (bool[2,3] y) { y = LessOrEqual(x, z) }", 0},
      {"g (float[2,3,4,5] x) => (float[2,3,4,5] y) { y = MeanVarianceNormalization(x) }", 1e-5},
      {"g (float[2,3,4] x, float[4] s) => (float[2,3,4] y) { y = LayerNormalization(x, s) }", 1e-5},
      {"g (float[2,3,4] x, float[3,4] s, float[3,4] b) => (float[2,3,4] y, float[2,1,1] m, float[2,1,1] d) "
       "{ y, m, d = LayerNormalization<axis=1, epsilon=0.01>(x, s, b) }",
       1e-5},
      {"g (float[2,3] x, double[1] t) => (double[2,3] y) { y = CastLike(x, t) }", 0},
      {"g (float[4,9] x) => (uint8[4,9] y, float s, uint8 z) { y, s, z = DynamicQuantizeLinear(x) }", 0},
  };
  for (const auto& test : kCases) {
    SCOPED_TRACE(test.graph);
    const auto model = import(parse_model(test.graph));
    const auto result = after("expand-functions", model, test.tolerance);
    const std::string op = model.graph().node(model.graph().node_size() - 1).op_type();
    EXPECT_EQ(count_nodes(result, op), 0);
  }
}

TEST(ExpandFunctions, BodiesThatMissATypeStayWhole) {
  const auto model = import(parse_model(
      "g (double[2,3,4,4] x) => (double[2,3,4,4] y) { y = MeanVarianceNormalization<axes=[0,2,3]>(x) }"));
  EXPECT_EQ(count_nodes(after("expand-functions", model, 0), "MeanVarianceNormalization"), 1);
  onnx::ModelProto loss = parse_model(
      "g (bfloat16[4,3] x) => (bfloat16[4] y) { y = SoftmaxCrossEntropyLoss<reduction=\"none\">(x, l) }");
  add_ints(loss, "l", {0, 2, 1, 1});
  run_graph_pass(find_graph_pass("expand-functions"), loss);
  EXPECT_EQ(count_nodes(loss, "SoftmaxCrossEntropyLoss"), 1);
}

TEST(ExpandFunctions, LossesNeedLabels) {
  for (const char* op : {"NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss"}) {
    for (const char* reduction : {"none", "sum", "mean"}) {
      SCOPED_TRACE(std::string(op) + " " + reduction);
      onnx::ModelProto model =
          parse_model(fmt::format("g (float[4,3] x) => (float{} y) {{ y = {}<reduction=\"{}\">(x, labels) }}",
                                  std::string(reduction) == "none" ? "[4]" : "", op, reduction));
      if (std::string(reduction) != "none") {
        model.mutable_graph()
            ->mutable_output(0)
            ->mutable_type()
            ->mutable_tensor_type()
            ->mutable_shape()
            ->clear_dim();
      }
      add_ints(model, "labels", {0, 2, 1, 1});
      after("expand-functions", import(model), 1e-5);
    }
  }
}

TEST(ExpandFunctions, DirectOperatorsAndLoopsStay) {
  const auto model =
      import(parse_model("g (float[2,3] x) => (float[2,3] y) { a = HardSwish(x) y = Softmax(a) }"));
  const auto result = after("expand-functions", model, 1e-6, {.direct_operators = {"Softmax"}});
  EXPECT_EQ(count_nodes(result, "Softmax"), 1);
  EXPECT_EQ(count_nodes(result, "HardSwish"), 0);

  auto range =
      import(parse_model("g (float[4] x) => (float[4] y) { a = Constant<value = float {0.0}>() b = "
                         "Constant<value = float {4.0}>() "
                         "c = Constant<value = float {1.0}>() r = Range(a, b, c) y = Add(x, r) }"));
  EXPECT_EQ(count_nodes(after("expand-functions", range), "Range"), 1);
  auto folded = range;
  run_graph_passes(folded);
  EXPECT_EQ(folded.graph().node_size(), 1);
  testing::expect_same_results(range, folded, 0);
}

class FoldBatchNormalization : public ::testing::Test {
 protected:
  static onnx::ModelProto with_parameters(onnx::ModelProto model, int64_t channels) {
    for (const char* name : {"s", "b", "m"}) add_random(model, name, {channels});
    add_random(model, "v", {channels}, 0.1, 2);
    return model;
  }
};

TEST_F(FoldBatchNormalization, Conv) {
  for (const char* inputs : {"x, w", "x, w, c"}) {
    auto model = with_parameters(
        parse_model(
            fmt::format("g (float[2,4,6,6] x) => (float[2,6,6,6] y) {{ a = Conv<group=2, pads=[1,1,1,1]>({}) "
                        "y = BatchNormalization<epsilon=0.01>(a, s, b, m, v) }}",
                        inputs)),
        6);
    add_random(model, "w", {6, 2, 3, 3});
    add_random(model, "c", {6});
    const auto result = after("fold-batch-normalization", import(model), 1e-5);
    EXPECT_EQ(result.graph().node_size(), 1);
  }
}

TEST_F(FoldBatchNormalization, ConvTranspose) {
  auto model = with_parameters(
      parse_model("g (float[2,4,5] x) => (float[2,6,11] y) { a = ConvTranspose<group=2, strides=[2]>(x, w) "
                  "y = BatchNormalization(a, s, b, m, v) }"),
      6);
  add_random(model, "w", {4, 3, 3});
  EXPECT_EQ(after("fold-batch-normalization", import(model), 1e-5).graph().node_size(), 1);
}

TEST_F(FoldBatchNormalization, Gemm) {
  for (const char* trans : {"0", "1"}) {
    for (const Shape& bias : {Shape{}, Shape{1}, Shape{5}, Shape{1, 5}, Shape{3, 1}, Shape{3, 5}}) {
      SCOPED_TRACE(shape_to_string(bias));
      auto model = with_parameters(
          parse_model(fmt::format(
              "g (float[3,4] x) => (float[3,5] y) {{ a = Gemm<alpha=0.5, beta=2.0, transB={}>(x, w, c) "
              "y = BatchNormalization(a, s, b, m, v) }}",
              trans)),
          5);
      add_random(model, "w", trans[0] == '1' ? Shape{5, 4} : Shape{4, 5});
      add_random(model, "c", bias);
      EXPECT_EQ(after("fold-batch-normalization", import(model), 1e-5).graph().node_size(), 1);
    }
  }
}

TEST_F(FoldBatchNormalization, LeavesWhatItCantFold) {
  const auto run = [](onnx::ModelProto model, int64_t channels) {
    model = with_parameters(std::move(model), channels);
    add_random(model, "w", {6, 4, 3});
    return count_nodes(after("fold-batch-normalization", import(model)), "BatchNormalization");
  };
  EXPECT_EQ(run(parse_model("g (float[2,4,5] x) => (float[2,6,3] y, float[2,6,3] z) { a = Conv(x, w) "
                            "y = BatchNormalization(a, s, b, m, v) z = Relu(a) }"),
                6),
            1);
  EXPECT_EQ(run(parse_model("g (float[2,4,5] x) => (float[2,6,3] y, float[2,6,3] a) { a = Conv(x, w) "
                            "y = BatchNormalization(a, s, b, m, v) }"),
                6),
            1);
  EXPECT_EQ(run(parse_model("g (float[2,4,5] x, float[6,4,3] u) => (float[2,6,3] y) { a = Conv(x, u) "
                            "y = BatchNormalization(a, s, b, m, v) }"),
                6),
            1);
  EXPECT_EQ(run(parse_model("g (float[2,4,5] x) => (float[2,4,5] y) { a = Relu(x) "
                            "y = BatchNormalization(a, s, b, m, v) }"),
                4),
            1);
}

TEST_F(FoldBatchNormalization, SharedWeightsStayForTheOthers) {
  auto model =
      with_parameters(parse_model("g (float[2,4,5] x) => (float[2,6,3] y, float[2,6,3] z) { a = Conv(x, w) "
                                  "y = BatchNormalization(a, s, b, m, v) z = Conv(x, w) }"),
                      6);
  add_random(model, "w", {6, 4, 3});
  EXPECT_EQ(count_nodes(after("fold-batch-normalization", import(model), 1e-5), "BatchNormalization"), 0);
}

TEST(EliminateDead, RemovesAndMerges) {
  auto model = parse_model(
      "g (float[2] x) => (float[2] y) { dead = Exp(x) deader = Neg(dead) a = Add(x, w1) b = Add(a, w2) y = "
      "Add(b, w3) }");
  const auto same = [](double a, double b) {
    return Tensor::from_values<float>(DataType::kFloat32, {2},
                                      {static_cast<float>(a), static_cast<float>(b)});
  };
  add_initializer(model, "w1", same(1, 2));
  add_initializer(model, "w2", same(1, 2));
  add_initializer(model, "w3", same(1, 3));
  add_initializer(model, "unused", same(7, 7));
  // The same elements in another storage form.
  auto& w2 = *model.mutable_graph()->mutable_initializer(1);
  w2.clear_raw_data();
  w2.clear_float_data();
  w2.add_float_data(1);
  w2.add_float_data(2);
  const auto result = after("eliminate-dead", import(model));
  EXPECT_EQ(result.graph().node_size(), 3);
  EXPECT_EQ(result.graph().initializer_size(), 2);
}

TEST(EliminateDead, Sorts) {
  auto model = import(parse_model("g (float[2] x) => (float[2] y) { a = Relu(x) b = Neg(a) y = Abs(b) }"));
  onnx::ModelProto shuffled = model;
  shuffled.mutable_graph()->mutable_node()->SwapElements(0, 2);
  run_graph_pass(find_graph_pass("eliminate-dead"), shuffled);
  testing::expect_same_results(model, shuffled, 0);
}

TEST(Canonicalize, AutoPad) {
  for (const char* mode : {"SAME_UPPER", "SAME_LOWER", "VALID"}) {
    for (int stride : {1, 2, 3}) {
      for (int extent : {7, 8, 9}) {
        for (const char* op : {"Conv<", "MaxPool<kernel_shape=[3,2], ", "AveragePool<kernel_shape=[3,2], "}) {
          SCOPED_TRACE(fmt::format("{} {} {} {}", op, mode, stride, extent));
          const bool is_conv = std::string(op) == "Conv<";
          auto model =
              parse_model(fmt::format("g (float[1,2,{0},{0}] x) => (float[1,c,n,m] y) {{ y = {1} "
                                      "auto_pad=\"{2}\", strides=[{3},{3}]>({4}) }}",
                                      extent, op, mode, stride, is_conv ? "x, w" : "x"));
          if (is_conv) add_random(model, "w", {3, 2, 3, 2});
          const auto result = after("canonicalize", import(model), 1e-6);
          EXPECT_EQ(find_attribute(result.graph().node(0), "auto_pad"), nullptr);
          EXPECT_NE(find_attribute(result.graph().node(0), "pads"), nullptr);
          EXPECT_NE(find_attribute(result.graph().node(0), "kernel_shape"), nullptr);
        }
      }
    }
  }
}

TEST(Canonicalize, UnusedOptionalOutputs) {
  const auto model = import(parse_model(
      "g (float[1,1,4,4] x) => (float[1,1,2,2] y) { y, i = MaxPool<kernel_shape=[2,2], strides=[2,2]>(x) }"));
  EXPECT_EQ(after("canonicalize", model).graph().node(0).output_size(), 1);
}

TEST(Canonicalize, NormalizationInTrainingKeepsItsOutputs) {
  auto model = import_model(
      parse_model(
          "agraph (float[2,3,4] x, float[3] s, float[3] b, float[3] m, float[3] v) => (float[2,3,4] y) { "
          "y, n, w = BatchNormalization <training_mode = 1> (x, s, b, m, v) }"),
      {}, "test");
  const auto before = model;
  run_graph_passes(model);
  testing::expect_same_results(before, model);
}

TEST(Canonicalize, InitializerAsOutput) {
  auto model = parse_model("g (float[2] x) => (float[2] y, float[2] w) { y = Add(x, w) }");
  add_random(model, "w", {2});
  const auto result = after("canonicalize", import(model));
  EXPECT_EQ(count_nodes(result, "Identity"), 1);
}

}  // namespace
}  // namespace kodama::compiler
