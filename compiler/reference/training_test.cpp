#include <gmock/gmock.h>

#include "compiler/reference/reference_test_util.h"

namespace kodama::compiler {
namespace {

using namespace testing;  // NOLINT
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

TEST(TrainingOptimizers, AdamOfSeveralTensors) {
  // ONNX's test_adam_multiple with the epsilon that its numbers were made with.
  const OperatorSets operators(std::map<std::string, int64_t>{{"", 17}, {"ai.onnx.preview.training", 1}});
  onnx::NodeProto node = parse_node(
      "a, b, va, vb, ha, hb = Adam<norm_coefficient=0.001, alpha=0.95, beta=0.85, epsilon=0.01>(r, t, x1, "
      "x2, g1, g2, "
      "v1, v2, h1, h2)");
  node.set_domain("ai.onnx.preview.training");
  const std::vector<Tensor> inputs = {floats({}, {0.1}),   ints({}, {0}),       floats({1}, {1}),
                                      floats({2}, {1, 2}), floats({1}, {-1}),   floats({2}, {-1, -3}),
                                      floats({1}, {2}),    floats({2}, {4, 1}), floats({1}, {0.5}),
                                      floats({2}, {1, 10})};
  std::vector<const Tensor*> pointers;
  for (const Tensor& input : inputs) pointers.push_back(&input);
  const auto out = run_node(node, pointers, operators);
  expect_near(out[0], {0.7591362595558167});
  expect_near(out[1], {0.6286528, 1.974585});
  pointers.pop_back();
  EXPECT_THAT(
      [&] {
        onnx::NodeProto shorter = node;
        shorter.mutable_input()->RemoveLast();
        run_node(shorter, pointers, operators);
      },
      ThrowsMessage<isa::UserError>(HasSubstr("a multiple of 4")));
}

}  // namespace
}  // namespace kodama::compiler
