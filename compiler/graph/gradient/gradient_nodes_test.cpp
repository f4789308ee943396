#include "compiler/graph/gradient/gradient_nodes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "compiler/graph/test_models.h"

namespace kodama::compiler::testing {

namespace {

constexpr const char* kImport = ", \"ai.onnx.preview.training\" : 1";

onnx::ModelProto expanded(const std::string& graph) {
  onnx::ModelProto model = import_model(parse_model(graph, kOpsetVersion, kImport), {}, "model");
  expand_gradient_nodes(model, "model");
  EXPECT_FALSE(has_gradient_nodes(model));
  return model;
}

/// The outputs of a model whose inputs are scalars.
std::map<std::string, double> run(const std::string& graph, const std::map<std::string, double>& numbers) {
  TensorMap inputs;
  for (const auto& [name, number] : numbers) {
    Tensor tensor(DataType::kFloat64, {});
    tensor.data<double>()[0] = number;
    inputs[name] = std::move(tensor);
  }
  std::map<std::string, double> results;
  for (const auto& [name, tensor] : run_graph(expanded(graph), inputs))
    results[name] = tensor.data<double>()[0];
  return results;
}

std::string refusal(const std::string& graph) {
  try {
    expanded(graph);
  } catch (const isa::UserError& error) {
    return error.what();
  }
  return "";
}

TEST(GradientNodes, AreAtTheNamedValues) {
  const auto results =
      run("agraph (double a, double b) => (double d, double da, double db) {"
          "c = Add(a, b) d = Mul(c, a)"
          "da, db = ai.onnx.preview.training.Gradient<xs = [\"a\", \"b\"], y = \"d\">(a, b) }",
          {{"a", 3}, {"b", 4}});
  EXPECT_EQ(results.at("d"), 21);
  EXPECT_EQ(results.at("da"), 10);
  EXPECT_EQ(results.at("db"), 3);
}

TEST(GradientNodes, AreAtOtherValues) {
  const auto results =
      run("agraph (double a, double b, double p) => (double y, double da) {"
          "y = Mul(a, b) s = Mul(y, a) q = Neg(p)"
          "da = ai.onnx.preview.training.Gradient<xs = [\"a\"], zs = [\"b\"], y = \"s\">(p, q) }",
          {{"a", 3}, {"b", 4}, {"p", 5}});
  EXPECT_EQ(results.at("y"), 12);
  EXPECT_EQ(results.at("da"), -50);  // 2 a b at a = 5, b = -5
}

TEST(GradientNodes, GivenOneValueTwiceDifferentiateByEach) {
  const auto results =
      run("agraph (double a, double b, double p) => (double da, double db) {"
          "c = Mul(a, a) y = Mul(c, b)"
          "da, db = ai.onnx.preview.training.Gradient<xs = [\"a\", \"b\"], y = \"y\">(p, p) }",
          {{"a", 0}, {"b", 0}, {"p", 3}});
  EXPECT_EQ(results.at("da"), 18);
  EXPECT_EQ(results.at("db"), 9);
}

TEST(GradientNodes, OfDerivatives) {
  const auto results =
      run("agraph (double x) => (double first, double second) {"
          "square = Mul(x, x) y = Mul(square, x)"
          "first = ai.onnx.preview.training.Gradient<xs = [\"x\"], y = \"y\">(x)"
          "second = ai.onnx.preview.training.Gradient<xs = [\"x\"], y = \"first\">(x) }",
          {{"x", 5}});
  EXPECT_EQ(results.at("first"), 75);
  EXPECT_EQ(results.at("second"), 30);
}

TEST(GradientNodes, HoldWhatIsComputedOfAnotherOne) {
  // By x with h as it is, and by h.
  const auto results =
      run("agraph (double x) => (double dx, double dh) {"
          "h = Mul(x, x) y = Mul(h, x)"
          "dx, dh = ai.onnx.preview.training.Gradient<xs = [\"x\", \"h\"], y = \"y\">(x, h) }",
          {{"x", 5}});
  EXPECT_EQ(results.at("dx"), 25);
  EXPECT_EQ(results.at("dh"), 5);
}

TEST(GradientNodes, MayStandBeforeWhatTheyDifferentiate) {
  const auto results =
      run("agraph (double x) => (double z, double y) {"
          "dx = ai.onnx.preview.training.Gradient<xs = [\"x\"], y = \"y\">(x)"
          "z = Add(dx, dx) y = Mul(x, x) }",
          {{"x", 5}});
  EXPECT_EQ(results.at("z"), 20);
}

TEST(GradientNodes, AreOfTheSumOfAllElements) {
  const onnx::ModelProto model = expanded(
      "agraph (float[2,3] x, float[3] s) => (float[2,3] dx) {"
      "y = Mul(x, s) dx = ai.onnx.preview.training.Gradient<xs = [\"x\"], zs = [\"s\"], y = \"y\">(x, s) }");
  const Tensor x = random_tensor(DataType::kFloat32, {2, 3}, 1);
  const Tensor s = random_tensor(DataType::kFloat32, {3}, 2);
  const Tensor dx = run_graph(model, {{"x", x}, {"s", s}}).at("dx");
  for (size_t k = 0; k < 6; ++k) EXPECT_EQ(dx.data<float>()[k], s.data<float>()[k % 3]);
}

TEST(GradientNodes, NameWhatTheyNeed) {
  using ::testing::HasSubstr;
  const auto refused = [](const std::string& node) {
    return refusal(
        "agraph (double a, double b) => (double c, double d) { c = Mul(a, b) d = "
        "ai.onnx.preview.training.Gradient<" +
        node + " }");
  };
  EXPECT_THAT(refused("xs = [\"q\"], y = \"c\">(a)"), HasSubstr("it names 'q'; there is no such value"));
  EXPECT_THAT(refused("xs = [\"a\"], y = \"c\">(a)"), HasSubstr("depends on the input 'b'"));
  EXPECT_THAT(refused("xs = [\"a\"], zs = [\"a\"], y = \"c\">(a, a)"), HasSubstr("have 'a' twice"));
  EXPECT_THAT(refused("xs = [\"a\"], zs = [\"b\"], y = \"c\">(a)"), HasSubstr("1 operands; it has 2 names"));
  EXPECT_THAT(refused("xs = [\"a\", \"b\"], y = \"d\">(a, b)"), HasSubstr("depends on its own result"));
  EXPECT_THAT(refused("xs = [\"a\", \"b\"], y = \"a\">(a, b)"), HasSubstr("doesn't depend on 'b'"));
}

TEST(GradientNodes, NeedShapes) {
  ImportedModel model = import_any_model(
      parse_model("agraph (float[n] x) => (float[n] dx) {"
                  "y = Mul(x, x) dx = ai.onnx.preview.training.Gradient<xs = [\"x\"], y = \"y\">(x) }",
                  kOpsetVersion, kImport),
      {}, "model");
  EXPECT_THROW(expand_gradient_nodes(model, "model"), isa::UnsupportedError);
}

}  // namespace

}  // namespace kodama::compiler::testing
