#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <onnx/defs/parser.h>

#include "compiler/reference/executor.h"

namespace kodama::compiler {
namespace {

using ::testing::HasSubstr;

Tensor row(const std::vector<float>& values) {
  return Tensor::from_values<float>(DataType::kFloat32, {static_cast<int64_t>(values.size())}, values);
}
Tensor number(int64_t value) {
  return Tensor::from_values<int64_t>(DataType::kInt64, {}, {value});
}
Tensor list(const std::vector<int64_t>& values) {
  return Tensor::from_values<int64_t>(DataType::kInt64, {static_cast<int64_t>(values.size())}, values);
}
Value rows(const std::vector<std::vector<float>>& values) {
  std::vector<Value> elements;
  for (const auto& each : values) elements.emplace_back(row(each));
  return Value::sequence(DataType::kFloat32, elements);
}

Value run(const std::string& text, const std::vector<Value>& values) {
  onnx::NodeProto node;
  onnx::OnnxParser parser(text.c_str());
  const auto status = parser.Parse(node);
  if (!status.IsOK()) throw std::runtime_error(status.ErrorMessage());
  std::vector<const Value*> inputs;
  for (const Value& value : values) inputs.push_back(&value);
  return run_node_on_values(node, inputs, 17, nullptr).at(0);
}
std::string error(const std::string& text, const std::vector<Value>& values) {
  try {
    run(text, values);
  } catch (const isa::UserError& found) {
    return found.what();
  }
  return "no error";
}

TEST(Sequences, PositionsCountFromBothEnds) {
  const Value three = rows({{1}, {2, 3}, {4}});
  EXPECT_TRUE(run("y = SequenceAt(s, i)", {three, number(-3)}) == Value(row({1})));
  EXPECT_TRUE(run("y = SequenceAt(s, i)", {three, number(1)}) == Value(row({2, 3})));
  EXPECT_TRUE(run("y = SequenceInsert(s, t)", {three, row({5})}) == rows({{1}, {2, 3}, {4}, {5}}));
  EXPECT_TRUE(run("y = SequenceInsert(s, t, i)", {three, row({5}), number(3)}) ==
              rows({{1}, {2, 3}, {4}, {5}}));
  EXPECT_TRUE(run("y = SequenceInsert(s, t, i)", {three, row({5}), number(-1)}) ==
              rows({{1}, {2, 3}, {5}, {4}}));
  EXPECT_TRUE(run("y = SequenceErase(s)", {three}) == rows({{1}, {2, 3}}));
  EXPECT_TRUE(run("y = SequenceErase(s, i)", {three, number(0)}) == rows({{2, 3}, {4}}));
  EXPECT_TRUE(run("y = SequenceLength(s)", {three}) == Value(number(3)));
  for (const int64_t outside : {-4, 3}) {
    EXPECT_THAT(error("y = SequenceAt(s, i)", {three, number(outside)}), HasSubstr("allowed is -3 to 2"));
    EXPECT_THAT(error("y = SequenceErase(s, i)", {three, number(outside)}), HasSubstr("allowed is -3 to 2"));
  }
  EXPECT_THAT(error("y = SequenceInsert(s, t, i)", {three, row({5}), number(4)}), HasSubstr("-3 to 3"));
  EXPECT_THAT(error("y = SequenceInsert(s, t)", {three, number(4)}), HasSubstr("int64"));
  EXPECT_THAT(error("y = SequenceErase(s)", {rows({})}), HasSubstr("empty"));
}

TEST(Sequences, SplitAndConcatenate) {
  const Tensor x = row({1, 2, 3, 4, 5});
  EXPECT_TRUE(run("y = SplitToSequence(x, n)", {x, number(2)}) == rows({{1, 2}, {3, 4}, {5}}));
  EXPECT_TRUE(run("y = SplitToSequence(x, n)", {x, list({4, 1})}) == rows({{1, 2, 3, 4}, {5}}));
  EXPECT_TRUE(run("y = SplitToSequence(x)", {x}) == rows({{1}, {2}, {3}, {4}, {5}}));
  EXPECT_EQ(run("y = SplitToSequence<keepdims = 0>(x)", {x}).at(0).shape(), Shape{});
  EXPECT_THAT(error("y = SplitToSequence(x, n)", {x, number(0)}), HasSubstr("1 and more"));
  EXPECT_THAT(error("y = SplitToSequence(x, n)", {x, list({4, 2})}), HasSubstr("split holds 2"));
  EXPECT_THAT(error("y = SplitToSequence(x, n)", {x, list({4})}), HasSubstr("allowed is 5"));
  EXPECT_TRUE(run("y = ConcatFromSequence<axis = 0>(s)", {rows({{1, 2}, {3}})}) == Value(row({1, 2, 3})));
  EXPECT_EQ(run("y = ConcatFromSequence<axis = 1, new_axis = 1>(s)", {rows({{1, 2}, {3, 4}})}).tensor(),
            Tensor::from_values<float>(DataType::kFloat32, {2, 2}, {1, 3, 2, 4}));
  EXPECT_THAT(error("y = ConcatFromSequence<axis = 0>(s)", {rows({})}), HasSubstr("empty"));
  EXPECT_THAT(error("y = ConcatFromSequence<axis = 0, new_axis = 1>(s)", {rows({{1, 2}, {3}})}),
              HasSubstr("can't be concatenated"));
}

TEST(Sequences, Optionals) {
  const Value full = Value::optional(row({1}));
  const Value empty = Value::empty_optional(DataType::kFloat32, false);
  const auto truth = [](bool value) {
    return Value(Tensor::from_values<uint8_t>(DataType::kBool, {}, {value}));
  };
  EXPECT_TRUE(run("y = Optional(x)", {row({1})}) == full);
  EXPECT_TRUE(run("y = OptionalHasElement(o)", {full}) == truth(true));
  EXPECT_TRUE(run("y = OptionalHasElement(o)", {empty}) == truth(false));
  EXPECT_TRUE(run("y = OptionalGetElement(o)", {full}) == Value(row({1})));
  EXPECT_THAT(error("y = OptionalGetElement(o)", {empty}), HasSubstr("empty"));
  EXPECT_THAT(error("y = Neg(o)", {full}), HasSubstr("optional"));
}

}  // namespace
}  // namespace kodama::compiler
