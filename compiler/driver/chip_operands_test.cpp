#include "compiler/driver/chip_operands.h"

#include <gtest/gtest.h>

#include "compiler/graph/test_models.h"

namespace kodama::compiler {
namespace {

Value floats(Shape shape, std::vector<float> elements) {
  return Tensor::from_values(DataType::kFloat32, std::move(shape), elements);
}

/// Chooses the largest of what was computed, as a detector does.
GraphProblem choosing_problem() {
  return {testing::parse_model("agraph (float[4] x, float[4] w) => (float[1] best, int64[1] place)"
                               "<int64[1] k = {1}> { scores = Mul(x, w) best, place = TopK(scores, k) }"),
          {{"x", floats({4}, {1, 2, 3, 4})}, {"w", floats({4}, {1, 2, 1, 1})}}};
}

/// The reference, on a chip that computes these scores.
auto run_with_scores(std::vector<float> scores) {
  return [scores](const GraphProblem& shown) {
    RunOptions options;
    options.made = [&](const std::string& name, Value& value) {
      if (name == "scores") value = floats({4}, scores);
    };
    return run_graph_on_values(shown.model, shown.inputs, options);
  };
}

/// Scores that are equal in the reference differ on the chip by rounding: its choice is right for them.
TEST(ChipOperands, AnotherChoiceOfEqualScoresIsRight) {
  const GraphProblem problem = choosing_problem();
  const auto run = run_with_scores({1, 4, 3, 4.00001F});
  const ValueMap outputs = run(problem);
  EXPECT_EQ(outputs.at("place").tensor().data<int64_t>()[0], 3);
  EXPECT_EQ(run_graph_on_values(problem.model, problem.inputs).at("place").tensor().data<int64_t>()[0], 1);
  const auto comparison = compare_with_chip_operands(problem, outputs, run);
  ASSERT_TRUE(comparison);
  ASSERT_EQ(comparison->operands.size(), 1U);
  EXPECT_EQ(comparison->operands[0].name, "scores");
  EXPECT_EQ(comparison->outputs.size(), 2U);
  EXPECT_TRUE(comparison->is_within(1e-4));
  EXPECT_FALSE(comparison->is_within(1e-7));
}

TEST(ChipOperands, WrongScoresAreWrong) {
  const GraphProblem problem = choosing_problem();
  const auto run = run_with_scores({1, 4, 3, 5});
  EXPECT_FALSE(compare_with_chip_operands(problem, run(problem), run)->is_within(1e-3));
}

TEST(ChipOperands, WrongChoicesAreWrong) {
  const GraphProblem problem = choosing_problem();
  const auto run = [&](const GraphProblem& shown) {
    ValueMap outputs = run_graph_on_values(shown.model, shown.inputs);
    outputs["place"] = Tensor::from_values<int64_t>(DataType::kInt64, {1}, {2});
    return outputs;
  };
  EXPECT_FALSE(compare_with_chip_operands(problem, run(problem), run)->is_within(1e-3));
}

/// A second run that differs says nothing of the first.
TEST(ChipOperands, TheRunInQuestionIsMeant) {
  const GraphProblem problem = choosing_problem();
  ValueMap outputs = run_graph_on_values(problem.model, problem.inputs);
  outputs["best"] = floats({1}, {4.0001F});
  const auto comparison = compare_with_chip_operands(problem, outputs, run_with_scores({1, 4, 3, 4}));
  EXPECT_EQ(comparison->changed, std::vector<std::string>{"best"});
  EXPECT_FALSE(comparison->is_within(1e-3));
}

TEST(ChipOperands, NothingToShow) {
  const GraphProblem problem{testing::parse_model("agraph (float[2] x) => (float[2] y) { y = Exp(x) }"),
                             {{"x", floats({2}, {1, 2})}}};
  const ValueMap outputs = run_graph_on_values(problem.model, problem.inputs);
  EXPECT_FALSE(compare_with_chip_operands(problem, outputs, run_with_scores({})).has_value());
}

/// Inputs and constants that are outputs stay what they are.
TEST(ChipOperands, OutputsThatNobodyMakes) {
  const GraphProblem problem{
      testing::parse_model("agraph (float[2] x) => (float[2] y, float[2] x) { y = Floor(x) }"),
      {{"x", floats({2}, {1.5, 2})}}};
  EXPECT_EQ(outputs_of_chip_operands(problem, {}), run_graph_on_values(problem.model, problem.inputs));
}

}  // namespace
}  // namespace kodama::compiler
