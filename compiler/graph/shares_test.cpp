#include "compiler/graph/shares.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "compiler/graph/import.h"
#include "compiler/graph/onnx_model.h"
#include "compiler/graph/passes.h"
#include "compiler/graph/test_models.h"
#include "compiler/reference/executor.h"
#include "compiler/reference/kernels/shares.h"
#include "isa/error.h"

namespace kodama::compiler {
namespace {

bool is_mean(const onnx::NodeProto& node) {
  return is_mean_of_shares(node.domain(), node.op_type());
}

using ::testing::ElementsAre;

onnx::ModelProto import(const std::string& graph) {
  return import_model(testing::parse_model(graph), {}, "m.onnx");
}

TEST(JoinShares, WaitsBehindWhatItNeedsAlone) {
  onnx::ModelProto model = import(
      "g (float[2] x, float[2] w) => (float[2] y, float[2] z)"
      "{ a = Mul(x, w) ga = Identity(a) y = Sub(w, ga) c = Neg(x) b = Exp(x) gb = Identity(b) d = Add(c, y) "
      "z = Sub(d, gb) }");
  const TensorMap inputs = {{"x", Tensor::from_values<float>(DataType::kFloat32, {2}, {1, 2})},
                            {"w", Tensor::from_values<float>(DataType::kFloat32, {2}, {3, 4})}};
  const TensorMap before = run_graph(model, inputs);
  join_shares(model, {"gb", "ga"}, "m.onnx");
  std::vector<std::string> made;
  for (const auto& node : model.graph().node()) made.push_back(node.output(0));
  EXPECT_THAT(made, ElementsAre("a", "b", "gb", "y", "c", "d", "z"));
  EXPECT_TRUE(is_mean(model.graph().node(2)));
  EXPECT_THAT(model.graph().node(2).input(), ElementsAre("b", "a"));
  EXPECT_THAT(model.graph().node(2).output(), ElementsAre("gb", "ga"));
  // Of a single share it changes nothing, and no pass takes it away.
  EXPECT_EQ(check_onnx(model), "");
  EXPECT_EQ(run_graph(model, inputs), before);
  run_graph_passes(model);
  EXPECT_EQ(std::ranges::count_if(model.graph().node(), is_mean), 1);
  EXPECT_EQ(run_graph(model, inputs), before);
}

TEST(JoinShares, RefusesWhatNoIdentityMakes) {
  onnx::ModelProto model = import("g (float[2] x) => (float[2] y) { y = Exp(x) }");
  EXPECT_THROW(join_shares(model, {"y"}, "m.onnx"), isa::UserError);
}

}  // namespace
}  // namespace kodama::compiler
