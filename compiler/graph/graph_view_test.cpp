#include "compiler/graph/graph_view.h"

#include <gmock/gmock.h>

#include "compiler/graph/import.h"
#include "compiler/graph/test_models.h"

namespace kodama::compiler {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(GraphView, AnswersAboutValuesNodesAndAttributes) {
  auto source = testing::parse_model(
      "g (float[2,3,4] x) => (float[2,3,4] y) { a = Add(x, w) b = Transpose<perm=[2,0,1]>(a) c = Gelu0(b) y "
      "= Mul(a, x) }");
  source.mutable_graph()->mutable_node(2)->set_op_type("LeakyRelu");
  testing::add_random(source, "w", {4});
  const auto model = import_model(source, {}, "m.onnx");
  const GraphView view(model);
  const auto& add = view.nodes()[0];
  const auto& transpose = view.nodes()[1];
  const auto& leaky = view.nodes()[2];

  EXPECT_EQ(view.shape("b"), (Shape{4, 2, 3}));
  EXPECT_EQ(view.shape("w"), (Shape{4}));
  EXPECT_EQ(view.type("x"), DataType::kFloat32);
  EXPECT_FALSE(view.has_value("nothing"));
  EXPECT_THROW(view.value("nothing"), isa::InternalError);
  EXPECT_TRUE(view.is_graph_input("x"));
  EXPECT_TRUE(view.is_graph_output("y"));

  EXPECT_EQ(view.producer("a"), &add);
  EXPECT_EQ(view.producer("x"), nullptr);
  EXPECT_THAT(view.consumers("a"), ElementsAre(&transpose, &view.nodes()[3]));
  EXPECT_THAT(view.consumers("y"), ElementsAre());

  ASSERT_NE(view.constant("w"), nullptr);
  EXPECT_EQ(view.constant("w"), view.constant("w"));
  EXPECT_EQ(view.constant("w")->size(), 4);
  EXPECT_EQ(view.constant("a"), nullptr);

  EXPECT_THAT(view.get_ints(transpose, "perm"), ElementsAre(2, 0, 1));
  EXPECT_FLOAT_EQ(view.get_float(leaky, "alpha"), 0.01F);  // the schema's default
  EXPECT_THROW(view.get_int(leaky, "alpha"), isa::InternalError);
  EXPECT_THROW(view.get_int(add, "axis"), isa::InternalError);
  EXPECT_EQ(view.normalize_axis(add, -1, 3), 2);
  EXPECT_THAT(testing::error_of<isa::UserError>([&] { view.normalize_axis(add, 3, 3); }),
              HasSubstr("node 'a' (Add)"));
  EXPECT_EQ(view.describe(leaky), "node 'c' (LeakyRelu)");
}

TEST(GraphView, NamesAreUniqueEvenIfTheModelsAreNot) {
  auto model = import_model(
      testing::parse_model("g (float[2] x) => (float[2] y) { a = Relu(x) b = Neg(a) y = Abs(b) }"), {},
      "m.onnx");
  model.mutable_graph()->mutable_node(0)->set_name("n");
  model.mutable_graph()->mutable_node(1)->set_name("n");
  model.mutable_graph()->mutable_node(2)->clear_name();
  const GraphView view(model);
  EXPECT_EQ(view.node_name(view.nodes()[0]), "n");
  EXPECT_EQ(view.node_name(view.nodes()[1]), "n_1");
  EXPECT_EQ(view.node_name(view.nodes()[2]), "y");
}

}  // namespace
}  // namespace kodama::compiler
