#include "builder/graph.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>

#include "builder/functions.h"
#include "builder/operators.h"
#include "builder/train_step.h"
#include "compiler/graph/gradient/gradient_nodes.h"
#include "compiler/graph/import.h"
#include "compiler/graph/onnx_model.h"
#include "compiler/reference/executor.h"

namespace kodama::builder {
namespace {

using compiler::TensorMap;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

Tensor floats(const Shape& shape, const std::vector<float>& values) {
  return Tensor::from_values<float>(kFloat32, shape, values);
}

std::vector<float> elements(const Tensor& tensor) {
  return {tensor.data<float>().begin(), tensor.data<float>().end()};
}

std::vector<std::string> node_names(const onnx::ModelProto& model) {
  std::vector<std::string> names;
  for (const auto& node : model.graph().node()) names.push_back(node.name());
  return names;
}

/// The outputs on the CPU reference, after the compiler's own checks and ONNX's.
TensorMap run(const Graph& graph, const TensorMap& inputs) {
  const onnx::ModelProto model = graph.model();
  EXPECT_EQ(compiler::check_onnx(model), "");
  return compiler::run_graph(compiler::import_any_model(model, {}, "built").model, inputs);
}

TEST(Graph, NamesFollowScopesAndStayWhereOthersChange) {
  Graph graph("g");
  const Value x = graph.input("x", kFloat32, {2, 3});
  Value y = F::relu(F::relu(x));
  EXPECT_EQ(y.name(), "Relu_1");
  {
    const Scope outer(graph, "layers");
    const Scope inner(graph, "0");
    y = F::matmul(y, graph.parameter("w", {3, 3}));
    EXPECT_EQ(y.name(), "layers.0.MatMul");
    y = y + 1;
    EXPECT_EQ(graph.find("layers.0.w").shape(), (Shape{3, 3}));
  }
  const op::TopKResults top = op::TopK(y, {1});
  EXPECT_EQ(top.Indices.name(), "TopK.Indices");
  graph.output(y, "y");
  EXPECT_EQ(y.name(), "y");
  // What the program calls so takes the name from what we have called so.
  graph.output(top.Values, "Relu");
  const onnx::ModelProto model = graph.model();
  EXPECT_THAT(node_names(model), ElementsAre("Relu", "Relu_1", "layers.0.MatMul", "layers.0.Add", "TopK"));
  EXPECT_EQ(model.graph().node(0).output(0), model.graph().node(1).input(0));
  EXPECT_NE(model.graph().node(0).output(0), "Relu");
}

TEST(Graph, HasWhatItsOutputsDependOn) {
  Graph graph("g");
  const Value x = graph.input("x", kFloat32, {2, 3});
  const Value unused = F::matmul(x, graph.parameter("unused", {3, 3}));
  graph.output(F::relu(x) * 2, "y");
  const onnx::ModelProto model = graph.model();
  EXPECT_THAT(node_names(model), ElementsAre("Relu", "Mul"));
  ASSERT_EQ(model.graph().initializer_size(), 1);
  EXPECT_EQ(model.graph().initializer(0).name(), "Mul.B");
  EXPECT_TRUE(unused.has_value());
}

TEST(Graph, NumbersHaveTheTypeOfTheOtherOperand) {
  Graph graph("g");
  const Value x = graph.input("x", kFloat16, {2});
  const Value i = graph.input("i", kUInt8, {2});
  EXPECT_EQ((x * 2).element_type(), kFloat16);
  EXPECT_EQ((255 - i).element_type(), kUInt8);
  EXPECT_EQ((i < 3).element_type(), kBool);
  EXPECT_EQ(op::Clip(x, {}, 6).element_type(), kFloat16);
  EXPECT_EQ(op::Where(i > 1, x, 0.5).element_type(), kFloat16);
  graph.output(2 - x[1] / 4, "y");
  Tensor input(kFloat16, {2});
  input.data<uint16_t>()[1] = compiler::float_to_half(3);
  const TensorMap outputs = run(graph, {{"x", input}, {"i", Tensor(kUInt8, {2})}});
  EXPECT_EQ(compiler::element_as_double(outputs.at("y"), 0), 1.25);
}

// Shapes that are computed from shapes are known, too.
TEST(Graph, KnowsShapesThatFollowFromConstants) {
  Graph graph("g");
  const Value x = graph.input("x", kFloat32, {2, 3, 4});
  const Value rows = op::Shape(x, {.end = 2});
  const Value shape =
      op::Concat({op::ReduceProd(rows, {.keepdims = 1}), op::Shape(x, {.start = 2})}, {.axis = 0});
  EXPECT_EQ(op::Reshape(x, shape).shape(), (Shape{6, 4}));
}

TEST(Graph, OutputsThatNobodyUsesAreLeftOut) {
  Graph graph("g");
  const Value x = graph.input("x", kFloat32, {5, 1, 4});
  const Value w = graph.parameter("w", {1, 8, 4});
  const Value r = graph.parameter("r", {1, 8, 2});
  const op::LSTMResults states = op::LSTM(x, w, r, {.hidden_size = 2});
  EXPECT_EQ(states.Y_c.shape(), (Shape{1, 1, 2}));
  graph.output(states.Y_c, "c");
  const Value image = graph.input("image", kFloat32, {1, 1, 4, 4});
  const op::MaxPoolResults pooled = op::MaxPool(image, {.kernel_shape = {2, 2}});
  graph.output(pooled + 1, "largest");
  const onnx::ModelProto model = graph.model();
  EXPECT_THAT(model.graph().node(0).output(), ElementsAre("", "", "c"));
  EXPECT_EQ(model.graph().node(1).output_size(), 1);
  const Value seen = pooled.Indices;
  EXPECT_EQ(seen.element_type(), kInt64);
  graph.output(seen, "places");
  EXPECT_EQ(graph.model().graph().node(1).output_size(), 2);
}

// In training mode the operator must have all of its outputs.
TEST(Graph, BatchNormalizationInTrainingHasAllOutputs) {
  Graph graph("g");
  const Value x = graph.input("x", kFloat32, {2, 3, 4});
  const auto ones = [&](const char* name) { return graph.buffer(name, {3}, Initial::ones()); };
  const op::BatchNormalizationResults results =
      op::BatchNormalization(x, ones("s"), ones("b"), ones("m"), ones("v"), {.training_mode = 1});
  graph.output(results, "y");
  EXPECT_EQ(graph.model().graph().node(0).output_size(), 3);
}

TEST(Graph, OpenDimensionsGetTheirExtentsInTheEnd) {
  Graph graph("g");
  const Value x = graph.input("x", kFloat32, {"batch", 6});
  const Value y = F::linear(x, graph.parameter("w", {3, 6}));
  EXPECT_FALSE(y.has_extent(0));
  EXPECT_EQ(y.extent(-1), 3);
  graph.output(y, "y");
  EXPECT_EQ(compiler::type_to_string(graph.model().graph().output(0).type()), "float32 [batch, 3]");
  const onnx::ModelProto fixed = graph.model({{"batch", 5}});
  EXPECT_EQ(compiler::type_to_string(fixed.graph().output(0).type()), "float32 [5, 3]");
  EXPECT_EQ(compiler::type_to_string(fixed.graph().input(0).type()), "float32 [5, 6]");
}

TEST(Graph, ParametersDependOnSeedAndNameOnly) {
  const auto draw = [](uint64_t seed, const std::string& name) {
    return Initial::normal(2, 1).draw(kFloat32, {10'000}, seed, name);
  };
  EXPECT_EQ(draw(1, "w"), draw(1, "w"));
  EXPECT_NE(draw(1, "w"), draw(2, "w"));
  EXPECT_NE(draw(1, "w"), draw(1, "v"));
  double sum = 0, squares = 0;
  for (const float value : elements(draw(1, "w"))) {
    sum += value;
    squares += (value - 1) * (value - 1);
  }
  EXPECT_NEAR(sum / 10'000, 1, 0.1);
  EXPECT_NEAR(squares / 10'000, 4, 0.2);
  for (const float value : elements(Initial::uniform(2, 3).draw(kFloat32, {1000}, 4, "u"))) {
    EXPECT_GE(value, 2);
    EXPECT_LE(value, 3);
  }
}

TEST(Graph, ValuesOutliveIt) {
  Value y;
  {
    Graph graph("g");
    y = F::relu(graph.input("x", kFloat32, {2}));
  }
  EXPECT_EQ((y + 1).shape(), (Shape{2}));
}

// --------------------------------------------------------------------------------------- control flow

TEST(Bodies, LoopScanAndIfComputeWhatTheyRecord) {
  Graph graph("g");
  const Value x = graph.input("x", kFloat32, {3});
  const std::vector<Value> powers = op::Loop(4, true, {x}, {.body = [&](const std::vector<Value>& in) {
                                               const Value next = in[2] * x;
                                               return std::vector{in[1], next, next + 0.0f};
                                             }});
  ASSERT_EQ(powers.size(), 2U);
  EXPECT_EQ(powers[0].shape(), (Shape{3}));
  EXPECT_EQ(powers[1].shape(), (Shape{4, 3}));
  const Value zero = graph.constant(0, kFloat32);
  const std::vector<Value> sums = op::Scan({zero, x}, {.body =
                                                           [](const std::vector<Value>& in) {
                                                             const Value sum = in[0] + in[1];
                                                             return std::vector{sum, sum};
                                                           },
                                                       .num_scan_inputs = 1});
  EXPECT_EQ(sums[1].shape(), (Shape{3}));
  const Value chosen =
      op::If(sums[0] > 5, {.else_branch = [&] { return x; }, .then_branch = [&] { return -x; }})[0];
  EXPECT_EQ(chosen.shape(), (Shape{3}));
  graph.output(powers[0], "powers");
  graph.output(sums[1], "sums");
  graph.output(chosen, "chosen");
  const TensorMap outputs = run(graph, {{"x", floats({3}, {1, 2, 3})}});
  EXPECT_THAT(elements(outputs.at("powers")), ElementsAre(1, 32, 243));
  EXPECT_THAT(elements(outputs.at("sums")), ElementsAre(1, 3, 6));
  EXPECT_THAT(elements(outputs.at("chosen")), ElementsAre(-1, -2, -3));
}

TEST(Bodies, StateThatGrowsHasAnOpenExtent) {
  Graph graph("g");
  const Value x = graph.input("x", kFloat32, {2, 3});
  const Value grown = op::Loop(2, true, {x}, {.body = [](const std::vector<Value>& in) {
                                 return std::vector{in[1], F::concat({in[2], in[2]}, 0)};
                               }})[0];
  EXPECT_FALSE(grown.has_extent(0));
  EXPECT_EQ(grown.extent(1), 3);
}

TEST(Bodies, SequencesOfTensors) {
  Graph graph("g");
  const Value x = graph.input("x", kFloat32, {4, 2});
  const Value rows = op::SplitToSequence(x, {.keepdims = 0});
  const Value doubled =
      op::SequenceMap(rows, {}, {.body = [](const std::vector<Value>& in) { return in[0] * 2; }})[0];
  EXPECT_TRUE(doubled.type().has_sequence_type());
  const Value last = op::SequenceAt(doubled, -1);
  EXPECT_EQ(last.element_type(), kFloat32);
  const Value list = op::If(op::SequenceLength(rows) > 2,
                            {.else_branch = [&] { return rows; }, .then_branch = [&] { return doubled; }})[0];
  graph.output(op::ConcatFromSequence(list, {.axis = 0}), "all");
  graph.output(last + 0.0f, "last");
  const TensorMap outputs = run(graph, {{"x", floats({4, 2}, {1, 2, 3, 4, 5, 6, 7, 8})}});
  EXPECT_THAT(elements(outputs.at("all")), ElementsAre(2, 4, 6, 8, 10, 12, 14, 16));
  EXPECT_THAT(elements(outputs.at("last")), ElementsAre(14, 16));
}

// ------------------------------------------------------------------------------------------ gradients

TEST(Backward, GradientsAreThoseOfDifferences) {
  Graph graph("g", 4);
  const Value x = graph.input("x", kFloat32, {4, 6});
  const Value target = graph.input("target", kFloat32, {4, 2});
  const Value w = graph.parameter("w", {3, 6});
  const Value v = graph.parameter("v", {2, 3});
  const Value loss = F::mse_loss(F::linear(F::tanh(F::linear(x, w)), v), target);
  for (const Value& gradient : loss.backward()) graph.output(gradient);
  EXPECT_EQ(w.gradient().name(), "w.grad");
  EXPECT_EQ(w.gradient().shape(), (Shape{3, 6}));
  graph.output(loss, "loss");
  const TensorMap inputs = {{"x", Initial::normal(1).draw(kFloat32, {4, 6}, 1, "x")},
                            {"target", Initial::normal(1).draw(kFloat32, {4, 2}, 1, "t")}};
  const TensorMap outputs = run(graph, inputs);
  // The same loss with a weight that is a little larger or smaller.
  const auto loss_with = [&](size_t place, float change) {
    Graph other("g", 4);
    Tensor changed = Initial::scaled().draw(kFloat32, {3, 6}, 4, "w");
    changed.data<float>()[place] += change;
    const Value moved = other.parameter("w", changed);
    const Value hidden = F::tanh(F::linear(other.input("x", kFloat32, {4, 6}), moved));
    other.output(
        F::mse_loss(F::linear(hidden, other.parameter("v", {2, 3})), other.input("target", kFloat32, {4, 2})),
        "loss");
    return compiler::element_as_double(run(other, inputs).at("loss"), 0);
  };
  constexpr float kChange = 1e-2F;
  for (const size_t place : {0U, 7U, 17U}) {
    const double slope = (loss_with(place, kChange) - loss_with(place, -kChange)) / (2 * kChange);
    EXPECT_NEAR(outputs.at("w.grad").data<float>()[place], slope, 1e-3);
  }
}

TEST(Backward, OfTwoLossesIsTheSum) {
  Graph graph("g");
  const Value w = graph.parameter("w", floats({2}, {1, 2}));
  F::sum(w * w).backward();
  F::sum(w * 3).backward();
  graph.output(w.gradient(), "dw");
  EXPECT_THAT(elements(run(graph, {}).at("dw")), ElementsAre(5, 7));
}

TEST(Backward, UpdatesAreWrittenWithGradients) {
  Graph graph("g");
  const Value x = graph.input("x", kFloat32, {2});
  const Value w = graph.parameter("w", floats({2}, {1, 2}));
  F::sum(F::relu(w * x)).backward();
  graph.output(w - 0.5 * w.gradient(), "next");
  EXPECT_THAT(elements(run(graph, {{"x", floats({2}, {4, -4})}}).at("next")), ElementsAre(-1, 2));
}

TEST(Backward, OfBuffersThereIsNone) {
  Graph graph("g");
  const Value fixed = graph.buffer("fixed", {2}, Initial::ones());
  const Value w = graph.parameter("w", {2}, Initial::ones());
  EXPECT_EQ(F::sum(w * fixed).backward().size(), 1U);
  EXPECT_THROW((void)fixed.gradient(), isa::UserError);
}

// With open dimensions the gradient stays one node, until the model is read with its dimensions.
TEST(Backward, WithOpenDimensions) {
  Graph graph("g");
  const Value x = graph.input("x", kFloat32, {"batch", 2});
  const Value w = graph.parameter("w", floats({1, 2}, {1, 1}));
  F::sum(F::linear(x, w)).backward();
  graph.output(w.gradient(), "dw");
  EXPECT_TRUE(compiler::has_gradient_nodes(graph.model()));
  const onnx::ModelProto fixed = graph.model({{"batch", 2}});
  EXPECT_FALSE(compiler::has_gradient_nodes(fixed));
  const auto outputs = compiler::run_graph(fixed, {{"x", floats({2, 2}, {1, 2, 3, 4})}});
  EXPECT_THAT(elements(outputs.at("dw")), ElementsAre(4, 6));
}

TEST(Backward, ThroughControlFlow) {
  Graph graph("g");
  const Value x = graph.input("x", kFloat32, {2});
  const Value w = graph.parameter("w", floats({2}, {2, 3}));
  const Value power = op::Loop(3, true, {x}, {.body = [&](const std::vector<Value>& in) {
                                 return std::vector{in[1], in[2] * w};
                               }})[0];
  F::sum(power).backward();
  graph.output(w.gradient(), "dw");
  EXPECT_THAT(elements(run(graph, {{"x", floats({2}, {1, 1})}}).at("dw")), ElementsAre(12, 27));
}

TEST(TrainStep, LearnsALine) {
  Graph graph("line");
  const Value x = graph.input("x", kFloat32, {8, 1});
  const Value target = graph.input("target", kFloat32, {8, 1});
  const Value w = graph.parameter("w", {1, 1}, Initial::zeros());
  const Value b = graph.parameter("b", {1}, Initial::zeros());
  const Value scale = graph.buffer("scale", {1}, Initial::ones());
  const compiler::StepModel step =
      train_step(F::mse_loss(F::linear(x, w, b) * scale, target), {.optimizer = "sgd:lr=0.2"});
  TensorMap state = step.initial;
  EXPECT_EQ(state.size(), 2U);
  std::vector<float> xs, ys;
  for (int k = 0; k < 8; ++k) {
    xs.push_back(static_cast<float>(k) / 4 - 1);
    ys.push_back(3 * xs.back() + 2);
  }
  for (int64_t k = 0; k < 100; ++k) {
    TensorMap inputs = state;
    inputs["x"] = floats({8, 1}, xs);
    inputs["target"] = floats({8, 1}, ys);
    inputs[step.step] = Tensor::from_values<int64_t>(kInt64, {}, {k});
    const TensorMap outputs = compiler::run_graph(step.model, inputs);
    for (const auto& tie : step.state) state[tie.input] = outputs.at(tie.output);
  }
  EXPECT_NEAR(state.at("w").data<float>()[0], 3, 1e-3);
  EXPECT_NEAR(state.at("b").data<float>()[0], 2, 1e-3);
}

TEST(Functions, AttentionIsWhatItsFormulaSays) {
  Graph graph("g");
  const Value q = graph.input("q", kFloat32, {1, 2, 2});
  const Value k = graph.input("k", kFloat32, {1, 3, 2});
  const Value v = graph.input("v", kFloat32, {1, 3, 1});
  const Value mask = graph.constant(floats({3}, {0, 0, -1e9F}));
  graph.output(F::scaled_dot_product_attention(q, k, v, mask), "y");
  const TensorMap outputs = run(graph, {{"q", floats({1, 2, 2}, {1, 0, 0, 2})},
                                        {"k", floats({1, 3, 2}, {1, 0, 0, 1, 5, 5})},
                                        {"v", floats({1, 3, 1}, {1, 2, 9})}});
  const double a = std::exp(1 / std::sqrt(2.0)), b = std::exp(2 / std::sqrt(2.0));
  EXPECT_NEAR(outputs.at("y").data<float>()[0], (a + 2) / (a + 1), 1e-5);
  EXPECT_NEAR(outputs.at("y").data<float>()[1], (1 + 2 * b) / (1 + b), 1e-5);
}

TEST(Graph, SavesAModelThatIsReadAgain) {
  Graph graph("g");
  graph.output(F::gelu(F::embedding(graph.input("i", kInt64, {3}), graph.parameter("table", {10, 4}))), "y");
  const std::string path =
      std::filesystem::temp_directory_path() / ("kodama_built_" + std::to_string(getpid()));
  graph.save(path);
  EXPECT_EQ(compiler::read_model(path).SerializeAsString(), graph.model().SerializeAsString());
  std::filesystem::remove(path);
}

// Names are the program's: anything goes.
TEST(Graph, NamesOfAllKinds) {
  Graph graph("\"<&>'");
  const std::string name = "gr\xc3\xbc\xc3\x9f <b>\"x\"</b> '{}' %s";
  const Value x = graph.input(name, kFloat32, {2, "{n}"});
  EXPECT_THAT(F::relu(x).name(), "Relu");
  graph.output(x + 1, "y {} %d");
  EXPECT_EQ(graph.model({{"{n}", 3}}).graph().input(0).name(), name);
  try {
    F::softmax(x, 7);
    FAIL();
  } catch (const isa::UserError& error) {
    EXPECT_THAT(error.what(), HasSubstr(name));
  }
}

TEST(Graph, DeepGraphsAndManyConstants) {
  Graph graph("deep");
  Value x = graph.input("x", kFloat32, {2});
  for (int k = 0; k < 3000; ++k) x = x + k;
  EXPECT_EQ(x.name(), "Add_2999");
  graph.output(x, "y");
  EXPECT_EQ(graph.model().graph().node_size(), 3000);
}

}  // namespace
}  // namespace kodama::builder
