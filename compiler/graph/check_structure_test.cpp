#include "compiler/graph/check_structure.h"

#include <gmock/gmock.h>

#include "compiler/graph/test_models.h"

namespace kodama::compiler {
namespace {

using testing::add_ints;
using ::testing::AllOf;
using testing::error_of;
using ::testing::HasSubstr;
using testing::parse_model;

std::string structure_error(const onnx::ModelProto& model) {
  return error_of<isa::UserError>([&] { check_structure(model, "m.onnx"); });
}
std::string structure_error(const std::string& body) {
  return structure_error(parse_model("g (float[2] x) => (float[2] y) {" + body + "}"));
}

TEST(CheckStructure, Cycles) {
  EXPECT_THAT(structure_error("a = Add(x, c) b = Neg(a) c = Abs(b) y = Relu(c)"),
              AllOf(HasSubstr("m.onnx: the graph has a cycle: the unnamed node that makes 'a' (Add)"),
                    HasSubstr("makes 'c' (Abs)"), HasSubstr("makes 'b' (Neg)")));
  EXPECT_THAT(structure_error("y = Add(x, y)"), AllOf(HasSubstr("'y' (Add)"), HasSubstr("result of itself")));
  // A long one is cut.
  std::string chain = "v0 = Add(x, v99)";
  for (int k = 1; k < 100; ++k) chain += fmt::format(" v{} = Neg(v{})", k, k - 1);
  EXPECT_THAT(structure_error(chain + " y = Relu(v99)"), HasSubstr("-> ..."));
}

TEST(CheckStructure, OrderAndMissingValues) {
  EXPECT_THAT(structure_error("y = Relu(a) a = Neg(x)"),
              AllOf(HasSubstr("makes 'y' (Relu) reads 'a'"), HasSubstr("'a' (Neg) makes only later")));
  EXPECT_THAT(structure_error("y = Relu(z)"),
              AllOf(HasSubstr("makes 'y' (Relu) reads 'z'"), HasSubstr("no input, initializer or node")));
}

TEST(CheckStructure, ValuesMadeTwice) {
  EXPECT_THAT(structure_error("a = Relu(x) a = Neg(x) y = Abs(a)"),
              AllOf(HasSubstr("'a' (Neg) makes the value 'a'"), HasSubstr("'a' (Relu) makes, too")));
  EXPECT_THAT(structure_error("x = Relu(x) y = Abs(x)"), HasSubstr("the graph's inputs makes, too"));
  onnx::ModelProto model = parse_model("g (float[2] x) => (float[2] y) { y = Add(x, w) }");
  add_ints(model, "w", {1, 2});
  add_ints(model, "w", {3, 4});
  EXPECT_THAT(structure_error(model), HasSubstr("initializer 'w' is there twice"));
  model = parse_model("g (float[2] x, float[2] x) => (float[2] y) { y = Neg(x) }");
  EXPECT_THAT(structure_error(model), HasSubstr("input 'x' is listed twice"));
}

TEST(CheckStructure, SubGraphsAndFunctions) {
  onnx::ModelProto model = parse_model("g (bool c, float[2] x) => (float[2] y) { a = Relu(x) y = If(c) }");
  auto& body = *set_attribute(*model.mutable_graph()->mutable_node(1), "then_branch",
                              onnx::AttributeProto_AttributeType_GRAPH)
                    .mutable_g();
  body = parse_model("b () => (float[2] r) { r = Neg(a) }").graph();  // sees what is around it
  check_structure(model, "m.onnx");
  body.mutable_node(0)->set_input(0, "nowhere");
  EXPECT_THAT(structure_error(model), HasSubstr("makes 'r' (Neg) reads 'nowhere'"));

  EXPECT_THAT(structure_error(parse_model(R"(
      g (float[2] x) => (float[2] y) { y = local.f(x) }
      <opset_import: ["" : 17], domain: "local"> f (a) => (r) { r = Add(a, b) b = Neg(r) })",
                                          17, ", \"local\" : 1")),
              AllOf(HasSubstr("function 'local.f'"), HasSubstr("cycle")));
}

}  // namespace
}  // namespace kodama::compiler
