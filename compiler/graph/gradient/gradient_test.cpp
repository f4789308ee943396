#include "compiler/graph/gradient/gradient.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <onnx/defs/attr_proto_util.h>

#include <cmath>
#include <random>

#include "compiler/graph/gradient/gradient_test_variants.h"
#include "compiler/graph/gradient/terms.h"
#include "compiler/graph/import_control_flow.h"
#include "compiler/graph/test_models.h"
#include "compiler/proto/tensor_proto.h"

/// Every rule against central differences of the CPU reference.
namespace kodama::compiler::testing {

namespace {

using gradient::kDouble;
using gradient::kInt64;

Tensor random_doubles(const Shape& shape, std::mt19937& generator, double low, double high) {
  std::uniform_real_distribution<double> distribution(low, high);
  Tensor tensor(kDouble, shape);
  for (double& value : tensor.data<double>()) value = distribution(generator);
  return tensor;
}

/// The variant as a model with one output, loss: the sum of all elements of its outputs, each with a weight
/// of its own, so that no gradient is like another.
onnx::ModelProto model_of(const GradientVariant& variant, unsigned seed) {
  onnx::ModelProto model = parse_model(
      fmt::format("agraph ({}) => (double[1] loss) {{ {} }}", variant.inputs, variant.nodes), 17, "");
  auto& graph = *model.mutable_graph();
  graph.clear_output();
  onnx::ModelProto probe = model;
  for (const std::string& name : variant.outputs) probe.mutable_graph()->add_output()->set_name(name);
  for (auto& output : *probe.mutable_graph()->mutable_output())
    output.mutable_type()->mutable_tensor_type()->set_elem_type(kDouble);
  probe = import_with_control_flow(probe, {}, variant.name);
  std::mt19937 generator(seed);
  std::string total;
  const auto add = [&](const char* op, const std::vector<std::string>& inputs, const std::string& output) {
    auto& node = *graph.add_node();
    node.set_op_type(op);
    for (const auto& input : inputs) node.add_input(input);
    node.add_output(output);
  };
  for (const auto& output : probe.graph().output()) {
    const std::string& name = output.name();
    add_initializer(model, name + "_weights",
                    random_doubles(*static_shape(output.type()), generator, 0.5, 1.5));
    add("Mul", {name, name + "_weights"}, name + "_weighted");
    add("ReduceSum", {name + "_weighted"}, name + "_sum");
    graph.mutable_node(graph.node_size() - 1)
        ->add_attribute()
        ->CopyFrom(onnx::MakeAttribute("keepdims", int64_t{0}));
    if (total.empty()) {
      total = name + "_sum";
    } else {
      add("Add", {total, name + "_sum"}, name + "_total");
      total = name + "_total";
    }
  }
  add("Identity", {total}, "loss");
  auto& loss = *graph.add_output();
  loss.set_name("loss");
  *loss.mutable_type() = make_tensor_type(kDouble, {});
  return import_with_control_flow(model, {}, variant.name);
}

double loss_of(const onnx::ModelProto& model, const TensorMap& inputs) {
  return run_graph(model, inputs).at("loss").data<double>()[0];
}

class Gradients : public ::testing::TestWithParam<GradientVariant> {};

TEST_P(Gradients, EqualCentralDifferences) {
  const GradientVariant& variant = GetParam();
  for (unsigned seed = 1; seed <= 3; ++seed) {
    const onnx::ModelProto model = model_of(variant, seed);
    std::mt19937 generator(seed * 7919);
    TensorMap inputs;
    GradientRequest request;
    request.loss = "loss";
    for (const auto& input : model.graph().input()) {
      const Shape shape = *static_shape(input.type());
      if (input.type().tensor_type().elem_type() != kDouble) {
        Tensor indices(kInt64, shape);
        for (int64_t& value : indices.data<int64_t>())
          value = variant.least_index +
                  static_cast<int64_t>(generator() % static_cast<unsigned>(variant.indices));
        inputs[input.name()] = indices;
        continue;
      }
      inputs[input.name()] = random_doubles(shape, generator, variant.low, variant.high);
      if (std::ranges::find(variant.constants, input.name()) == variant.constants.end())
        request.wrt.push_back(input.name());
    }
    onnx::ModelProto differentiated = model;
    const GradientNames names = make_gradient_model(differentiated, request, variant.name);
    const TensorMap results = run_graph(differentiated, inputs);
    ASSERT_NEAR(results.at("loss").data<double>()[0], loss_of(model, inputs),
                1e-6 * std::abs(loss_of(model, inputs)) + 1e-12);
    for (const auto& [name, gradient] : names) {
      const auto found = results.at(gradient).data<double>();
      ASSERT_EQ(results.at(gradient).shape(), inputs.at(name).shape()) << name;
      const size_t size = found.size();
      const size_t step = std::max<size_t>(1, size / 40);  // of large operands, some elements
      for (size_t i = generator() % step; i < size; i += step) {
        TensorMap moved = inputs;
        const double width = variant.width * std::max(1.0, std::abs(inputs.at(name).data<double>()[i]));
        double& element = moved.at(name).data<double>()[i];
        const double at = element;
        element = at + width;
        const double above = loss_of(model, moved);
        element = at - width;
        const double below = loss_of(model, moved);
        const double difference = (above - below) / (2 * width);
        ASSERT_NEAR(found[i], difference, variant.tolerance * std::max(1.0, std::abs(difference)))
            << name << "[" << i << "], seed " << seed;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Rules, Gradients, ::testing::ValuesIn(gradient_variants()),
                         [](const auto& variant) { return variant.param.name; });

onnx::ModelProto imported(const std::string& graph) {
  return import_with_control_flow(parse_model(graph), {}, "test");
}

TEST(Gradient, EveryRowHasAVariant) {
  std::set<std::string> operators;
  for (const auto& variant : gradient_variants()) {
    const onnx::ModelProto model = parse_model(
        fmt::format("agraph ({}) => (double[1] loss) {{ {} }}", variant.inputs, variant.nodes), 17, "");
    for (const auto& node : model.graph().node()) operators.insert(node.op_type());
  }
  for (const auto& row : differentiable_operators()) {
    EXPECT_TRUE(row.how == "zero" || operators.contains(row.op)) << row.op;
  }
}

/// The gradient of the sum of y by x.
Tensor gradient_of(const std::string& graph, unsigned seed = 1) {
  auto model = imported(graph);
  const auto names = make_gradient_model(model, {"y", {"x"}, {}}, "test");
  return run_graph(model, random_inputs(model, seed)).at(names.front().second);
}

TEST(Gradient, OperatorsThatStepHaveNone) {
  for (const char* op :
       {"Ceil", "Floor", "Hardmax", "RandomNormalLike", "RandomUniformLike", "Round", "Sign"}) {
    const Tensor gradient =
        gradient_of(fmt::format("agraph (float[3,3] x) => (float[3,3] y) {{ y = {} (x) }}", op));
    EXPECT_EQ(gradient.shape(), (Shape{3, 3}));
    for (float value : gradient.data<float>()) EXPECT_EQ(value, 0) << op;
  }
}

TEST(Gradient, KeepsTheElementType) {
  for (const char* type : {"float", "double", "float16"}) {
    const Tensor gradient = gradient_of(
        fmt::format("agraph ({0}[2,3] x) => ({0}[2,3] y) {{ z = Tanh (x) y = Mul (z, x) }}", type));
    EXPECT_EQ(data_type_name(gradient.type()), type == std::string("float")    ? "float32"
                                               : type == std::string("double") ? "float64"
                                                                               : "float16");
  }
}

TEST(Gradient, IsByAllInitializersUnlessNamed) {
  auto model = parse_model(
      "agraph (float[2,3] x) => (float[2,4] y) { a = MatMul (x, w) c = Add (a, b) y = Relu (c) u = Mul (a, "
      "s) }");
  add_random(model, "w", {3, 4});
  add_random(model, "b", {4});
  add_random(model, "s", {4});
  add_ints(model, "i", {1});
  model = import_model(model, {}, "test");
  const auto names = make_gradient_model(model, {"y", {}, {}}, "test");
  EXPECT_THAT(names, ::testing::ElementsAre(std::pair<std::string, std::string>("w", "w.grad"),
                                            std::pair<std::string, std::string>("b", "b.grad")));
}

TEST(Gradient, WindowsOfMuchDataAreNotCopied) {
  const auto has_copies = [](int64_t pictures) {
    auto model =
        imported(fmt::format("agraph (float[{0},16,32,32] x, float[8,16,3,3] w) => (float[{0},8,30,30] y) "
                             "{{ y = Conv (x, w) }}",
                             pictures));
    make_gradient_model(model, {"y", {"w"}, {}}, "test");
    return std::ranges::any_of(model.graph().node(),
                               [](const auto& node) { return node.op_type() == "Concat"; });
  };
  // 144 elements a window, 900 windows and 7,200 results a picture: two make more than 262,144.
  EXPECT_TRUE(has_copies(1));
  EXPECT_FALSE(has_copies(2));
}

TEST(Gradient, StopsWhereItIsTold) {
  auto model = imported("agraph (float[3] x) => (float[3] y) { a = Exp (x) b = Tanh (x) y = Mul (a, b) }");
  make_gradient_model(model, {"y", {"x"}, {"a"}}, "test");
  const TensorMap inputs = random_inputs(model);
  const TensorMap results = run_graph(model, inputs);
  for (size_t i = 0; i < 3; ++i) {
    const double x = inputs.at("x").data<float>()[i];
    EXPECT_NEAR(results.at("x.grad").data<float>()[i], std::exp(x) * (1 - std::tanh(x) * std::tanh(x)), 1e-5);
  }
}

TEST(Gradient, ValuesInBetweenMayBeNamed) {
  auto model = imported("agraph (float[3] x) => (float[3] y) { a = Exp (x) b = Mul (a, a) y = Neg (b) }");
  make_gradient_model(model, {"y", {"a", "x"}, {}}, "test");
  const TensorMap results = run_graph(model, random_inputs(model));
  for (size_t i = 0; i < 3; ++i) {
    const double a = -0.5 * results.at("a.grad").data<float>()[i];
    EXPECT_NEAR(results.at("x.grad").data<float>()[i], -2 * a * a, 1e-4);
  }
}

/// Operators of the forward part, and whether the gradient is that of the graph as it was.
std::string forward_of(const std::string& graph, const GradientRequest& request) {
  auto model = imported(graph);
  const int nodes = model.graph().node_size();
  const TensorMap inputs = random_inputs(model);
  const TensorMap before = run_graph(model, inputs);
  make_gradient_model(model, request, "test");
  const TensorMap results = run_graph(model, inputs);
  for (const auto& [name, value] : before) {
    if (results.contains(name)) {
      EXPECT_TRUE(std::ranges::equal(results.at(name).bytes(), value.bytes())) << name;
    }
  }
  // What comes to an element: as often as it is its window's maximum, and positive.
  const auto x = inputs.at("x").data<float>();
  for (size_t i = 0; i < x.size(); ++i) {
    const size_t window = i / 2 * 2;
    const float other = x[window + (i == window ? 1 : 0)];
    EXPECT_EQ(results.at("x.grad").data<float>()[i], x[i] > 0 && x[i] >= other ? 3.0F : 0.0F);
  }
  std::string ops;
  // The constant has become an initializer.
  for (int k = 0; k + 1 < nodes; ++k) ops += (ops.empty() ? "" : " ") + model.graph().node(k).op_type();
  return ops;
}

TEST(Gradient, PoolsBeforeRelu) {
  const std::string pool = "MaxPool <kernel_shape = [2], strides = [2]>";
  const std::string head = "g (float[1,1,8] x) => (float[1,1,4] z";
  const std::string tail = "three = Constant <value_float = 3.0> () z = Mul (y, three) }";
  EXPECT_EQ(forward_of(head + ") { a = Relu (x) y = " + pool + " (a) " + tail, {"z", {"x"}, {}}),
            "MaxPool Relu Mul");
  // Not where others want what the Relu makes, or Indices of it.
  EXPECT_EQ(forward_of(head + ", float[1,1,8] b) { a = Relu (x) b = Neg (a) y = " + pool + " (a) " + tail,
                       {"z", {"x"}, {}}),
            "Relu Neg MaxPool Mul");
  EXPECT_EQ(
      forward_of(head + ", int64[1,1,4] i) { a = Relu (x) y, i = " + pool + " (a) " + tail, {"z", {"x"}, {}}),
      "Relu MaxPool Mul");
  EXPECT_EQ(forward_of(head + ") { a = Relu (x) y = " + pool + " (a) " + tail, {"z", {"x", "a"}, {}}),
            "Relu MaxPool Mul");
}

std::string refusal(const std::string& graph, const GradientRequest& request) {
  auto model = imported(graph);
  return error_of<isa::UnsupportedError>([&] { add_gradients(model, request, "m.onnx"); });
}
std::string mistake(const std::string& graph, const GradientRequest& request) {
  auto model = imported(graph);
  return error_of<isa::UserError>([&] { add_gradients(model, request, "m.onnx"); });
}

TEST(Gradient, NamesWhatIsNotDifferentiable) {
  EXPECT_EQ(
      refusal("agraph (float[4] x, float[4] z) => (float[4] y) { a = Tanh (x) n = Cast <to = 7> (a) "
              "b = Cast <to = 1> (n) y = Mul (b, z) }",
              {"y", {"x", "z"}, {}}),
      "m.onnx: node 'n' (Cast) isn't differentiable, and 'y' depends on 'x' by it alone; the path from the "
      "loss: 'y' <- node 'y' (Mul) <- node 'b' (Cast) <- node 'n' (Cast). If no gradient shall pass it, name "
      "its result with --stop");
  EXPECT_EQ(
      refusal("agraph (float[1,1,4,4] x, float[1,4] r, int64[1] i) => (float[1,1,2,2] y) { a = Tanh (x) "
              "y = RoiAlign <mode = \"max\", output_height = 2, output_width = 2> (a, r, i) }",
              {"y", {"x"}, {}}),
      "m.onnx: node 'y' (RoiAlign) is differentiated only in mode avg; the path from the loss: 'y' <- node "
      "'y' (RoiAlign)");
  EXPECT_EQ(
      refusal("agraph (float[2] x, float[3] w, float[2] z) => (float[2] y) { i = Constant <value = int64[2] "
              "{0, 1}> () d = Tanh (x) y = ScatterElements <reduction = \"mul\"> (d, i, z) }",
              {"y", {"x"}, {}}),
      "m.onnx: node 'y' (ScatterElements) is not differentiated with reduction mul; none and add are; the "
      "path from the loss: 'y' <- node 'y' (ScatterElements)");
}

TEST(Gradient, NamesControlFlowThatIsNotDifferentiated) {
  const std::string begin = "agraph (float[3] x, int64 n) => (float y) { t = Constant <value = bool {1}> () ";
  const std::string end = " y = ReduceSum <keepdims = 0> (u) }";
  EXPECT_THAT(
      refusal(begin +
                  "h, u = Loop (n, t, x) <body = b (int64 k, bool c, float[3] p) => (bool d, float[3] q, "
                  "float[3] s) { d = Identity (c) q = Sin (p) s = Exp (q) }>" +
                  end,
              {"y", {"x"}, {}}),
      ::testing::HasSubstr("(Loop) isn't differentiated: the shape of its result 'u' isn't known before the "
                           "model runs"));
  EXPECT_THAT(
      refusal(begin +
                  "v = Loop (n, t, x) <body = b (int64 k, bool c, float[m] p) => (bool d, float[q] q) "
                  "{ d = Identity (c) q = Concat <axis = 0> (p, x) }> z = Constant <value_ints = [1]> "
                  "() w = Constant <value_ints = [0]> () u = Slice (v, w, z)" +
                  end,
              {"y", {"x"}, {}}),
      ::testing::HasSubstr("'v' isn't known before the model runs"));
  EXPECT_THAT(
      refusal("agraph (float[1,1,4,4] x, float[1,4] r, int64[1] i, bool f) => (float[1,1,2,2] y) { "
              "y = If (f) <then_branch = t () => (float[1,1,2,2] a) { a = RoiAlign <mode = \"max\", "
              "output_height = 2, output_width = 2> (x, r, i) }, else_branch = e () => (float[1,1,2,2] b) "
              "{ g = Constant <value = int64[2] {0, 0}> () h = Constant <value = int64[2] {2, 2}> () "
              "m = Constant <value = int64[2] {2, 3}> () b = Slice (x, g, h, m) }> }",
              {"y", {"x"}, {}}),
      ::testing::HasSubstr("inside node 'y' (If): node 'a' (RoiAlign) is differentiated only in mode avg"));
}

/// Whether a value is reached only by way of zeros or integers can't be seen from outside: zeros.
TEST(Gradient, OfWhatControlFlowOnlyCountsIsZero) {
  const Tensor gradient = gradient_of(
      "agraph (float[3] x, float[3] z) => (float[3] y) { n = Constant <value = int64 {2}> () "
      "y = Loop (n, , z) <body = b (int64 k, bool c, float[3] p) => (bool d, float[3] q) { d = Identity (c) "
      "r = Round (x) q = Mul (p, r) }> }");
  for (float value : gradient.data<float>()) EXPECT_EQ(value, 0);
}

TEST(Gradient, BranchesThatAreDecidedAreTaken) {
  const auto model = imported(
      "agraph (float[2,3] x) => (float[m,n] y) { s = Shape (x) i = Constant <value = int64 {1}> () "
      "e = Gather (s, i) three = Constant <value = int64 {3}> () c = Equal (e, three) "
      "y = If (c) <then_branch = t () => (float[2,3] a) { b = Exp (x) a = Mul (b, x) }, "
      "else_branch = o () => (float[m,n] d) { d = Transpose (x) }> }");
  EXPECT_EQ(count_nodes(model, "If"), 0);
  EXPECT_EQ(count_nodes(model, "Exp"), 1);
  EXPECT_EQ(static_shape(model.graph().output(0).type()), (Shape{2, 3}));
}

TEST(Gradient, ConstantsInsideAreTheModelsOwn) {
  auto model = parse_model(
      "agraph (float[3] x) => (float[3] y) { n = Constant <value = int64 {2}> () "
      "y = Loop (n, , x) <body = b (int64 k, bool c, float[3] p) => (bool d, float[3] q) { d = Identity (c) "
      "q = Mul (p, w) }> }");
  auto& loop = *model.mutable_graph()->mutable_node(1);
  *loop.mutable_attribute(0)->mutable_g()->add_initializer() =
      tensor_to_proto(Tensor::from_values<float>(DataType::kFloat32, {3}, {1, 2, 3}), "w");
  model = import_with_control_flow(model, {}, "test");
  const auto names = make_gradient_model(model, {"y", {}, {}}, "test");
  ASSERT_EQ(names.size(), 1U);
  TensorMap inputs = random_inputs(model);
  const TensorMap results = run_graph(model, inputs);
  for (size_t i = 0; i < 3; ++i)  // y = x w^2
    EXPECT_NEAR(results.at(names[0].second).data<float>()[i],
                2 * inputs.at("x").data<float>()[i] * static_cast<float>(i + 1), 1e-5);
}

TEST(Gradient, SaysWhatIsWrongWithTheRequest) {
  const std::string graph = "agraph (float[3] x, int64[3] n, float[3] z) => (float[3] y) { y = Exp (x) }";
  EXPECT_EQ(mistake(graph, {"loss", {"x"}, {}}),
            "m.onnx: there is no value 'loss' in the graph, which is to be differentiated");
  EXPECT_EQ(mistake(graph, {"y", {"w"}, {}}),
            "m.onnx: there is no value 'w' in the graph, which is to be differentiated by");
  EXPECT_EQ(mistake(graph, {"y", {"x"}, {"k"}}),
            "m.onnx: there is no value 'k' in the graph, which is to count as a constant");
  EXPECT_EQ(mistake(graph, {"y", {"n"}, {}}),
            "m.onnx: 'n' has elements of type int64; only floating point is differentiated by");
  EXPECT_EQ(mistake(graph, {"n", {"x"}, {}}),
            "m.onnx: 'n' has elements of type int64; only floating point is differentiated");
  EXPECT_EQ(mistake(graph, {"y", {"z"}, {}}), "m.onnx: 'y' doesn't depend on 'z'");
  EXPECT_EQ(mistake(graph, {"y", {"x", "x"}, {}}), "m.onnx: 'x' is to be differentiated by twice");
  EXPECT_EQ(
      mistake(graph, {"y", {}, {}}),
      "m.onnx: 'y' depends on no initializer that could be differentiated by; name the values with --wrt");
}

}  // namespace
}  // namespace kodama::compiler::testing
