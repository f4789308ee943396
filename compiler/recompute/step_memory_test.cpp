#include "compiler/recompute/step_memory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "compiler/graph/graph_view.h"
#include "compiler/graph/import.h"
#include "compiler/graph/test_models.h"
#include "isa/chip.h"
#include "isa/error.h"

namespace kodama::compiler::testing {
namespace {

using ::testing::HasSubstr;

constexpr DataType kFloats = DataType::kFloat32;
constexpr DataType kIntegers = DataType::kInt64;

/// Convolutions with BatchNormalization, one around which its input passes, pooling, Dropout, a classifier.
onnx::ModelProto picture_model() {
  onnx::ModelProto model = parse_model(R"(agraph (float[4,3,12,12] x) => (float[4,5] y) {
    c1 = Conv <pads = [1,1,1,1]> (x, w1, b1)
    n1 = BatchNormalization (c1, scale1, bias1, mean1, var1)
    r1 = Relu (n1)
    c2 = Conv <pads = [1,1,1,1]> (r1, w2)
    n2 = BatchNormalization (c2, scale2, bias2, mean2, var2)
    s2 = Add (n2, r1)
    r2 = Relu (s2)
    p = MaxPool <kernel_shape = [2,2], strides = [2,2]> (r2)
    c3 = Conv <pads = [1,1,1,1]> (p, w3)
    t3 = Tanh (c3)
    d, mask = Dropout (t3, ratio)
    g = GlobalAveragePool (d)
    f = Flatten (g)
    y = Gemm (f, w4, b4) })");
  for (const auto& [name, shape] : std::vector<std::pair<std::string, Shape>>{{"w1", {8, 3, 3, 3}},
                                                                              {"b1", {8}},
                                                                              {"w2", {8, 8, 3, 3}},
                                                                              {"w3", {8, 8, 3, 3}},
                                                                              {"w4", {8, 5}},
                                                                              {"b4", {5}}})
    add_random(model, name, shape);
  for (const char* number : {"1", "2"}) {
    for (const char* name : {"scale", "bias", "mean", "var"})
      add_random(model, name + std::string(number), {8}, 0.5, 1);
  }
  add_initializer(model, "ratio", Tensor::from_values<float>(kFloats, {}, std::vector<float>{0.5F}));
  return import_model(model, {}, "picture");
}

/// Layers of perceptrons, a chain.
onnx::ModelProto deep_model() {
  std::string text = "agraph (float[16,24] x) => (float[16,6] y) { h0 = Identity (x) ";
  constexpr int kLayers = 8;
  for (int k = 0; k < kLayers; ++k)
    text += fmt::format("m{0} = MatMul (h{0}, w{0}) h{1} = Tanh (m{0}) ", k, k + 1);
  onnx::ModelProto model = parse_model(text + fmt::format("y = MatMul (h{}, v) }}", kLayers));
  for (int k = 0; k < kLayers; ++k) add_random(model, fmt::format("w{}", k), {24, 24});
  add_random(model, "v", {24, 6});
  return import_model(model, {}, "deep");
}

/// The outputs of some steps on the reference, one after the other.
std::vector<TensorMap> outputs_of(const StepModel& step, const TensorMap& batch) {
  std::vector<TensorMap> all;
  TensorMap state = step.initial;
  for (int64_t k = 0; k < 3; ++k) {
    TensorMap inputs = batch;
    for (const auto& [name, tensor] : state) inputs[name] = tensor;
    inputs[step.step] = Tensor::from_values<int64_t>(kIntegers, {}, std::vector<int64_t>{k});
    all.push_back(run_graph(step.model, inputs));
    for (const auto& each : step.state) state[each.input] = all.back().at(each.output);
  }
  return all;
}

TensorMap batch_of(const StepModel& step) {
  const GraphView view(step.model);
  TensorMap batch;
  for (const std::string& name : step.batch)
    batch[name] = random_tensor(view.type(name), view.shape(name), 7, view.type(name) == kIntegers ? -1 : -2,
                                view.type(name) == kIntegers ? -0.5 : 2);
  return batch;
}

/// The outputs whose bits differ, with their steps.
std::string differences(const std::vector<TensorMap>& a, const std::vector<TensorMap>& b) {
  std::string text;
  for (size_t k = 0; k < a.size(); ++k) {
    for (const auto& [name, tensor] : a[k]) {
      if (!(tensor == b.at(k).at(name))) text += fmt::format("step {} {}; ", k, name);
    }
  }
  return text;
}

/// The step behind the graph passes, in the order that it has: what the same layers are made of. (Passes fold
/// constants and expand functions, which rounds differently.)
StepModel prepared(StepModel step, const isa::Chip& chip) {
  const StepMemory memory(step.model, chip, {});
  step.model = memory.rewritten(scheduler::recompute(memory.problem(), "none").steps);
  return step;
}

int64_t repeated_nodes(const StepModel& step) {
  return std::ranges::count_if(step.model.graph().node(), [](const auto& node) {
    return node.name().find("/again") != std::string::npos;
  });
}

TEST(StepMemory, SameBitsInLess) {
  const isa::Chip& chip = isa::find_chip("tiny");
  for (const auto& [model, optimizer] : {std::pair(picture_model(), "adam"), {deep_model(), "momentum"}}) {
    TrainStepRequest how;
    how.optimizer = optimizer;
    const StepModel step = make_train_step(model, how, "test");
    const TensorMap batch = batch_of(step);
    const std::vector<TensorMap> expected = outputs_of(prepared(step, chip), batch);
    for (const char* recomputer : {"sqrt", "optimal"}) {
      for (const double share : {0.9, 0.75}) {
        SCOPED_TRACE(fmt::format("{} {} {}", optimizer, recomputer, share));
        StepModel changed = step;
        StepMemoryReport report;
        try {
          report = limit_step_memory(changed, chip, {},
                                     {.limit = {0, share}, .recomputer = recomputer, .problem_file = {}});
        } catch (const isa::UnsupportedError& error) {
          EXPECT_STREQ(recomputer, "sqrt") << error.what();
          continue;
        }
        EXPECT_LE(report.after.activations, report.limit);
        EXPECT_LE(static_cast<double>(report.after.cycles), 1.5 * static_cast<double>(report.before.cycles));
        // Another order is enough for the pictures, and costs nothing.
        EXPECT_EQ(repeated_nodes(changed) > 0, report.after.layers > report.before.layers);
        EXPECT_EQ(differences(outputs_of(changed, batch), expected), "");
      }
    }
  }
}

TEST(StepMemory, AllResults) {
  const isa::Chip& chip = isa::find_chip("tiny");
  StepModel step = make_train_step(deep_model(), {}, "test");
  const TensorMap batch = batch_of(step);
  const std::vector<TensorMap> expected = outputs_of(prepared(step, chip), batch);
  const StepMemoryReport report = limit_step_memory(
      step, chip, {}, {.limit = {0, 0.8}, .counts_all = true, .recomputer = "optimal", .problem_file = {}});
  EXPECT_LE(report.after.results, report.limit);
  EXPECT_EQ(differences(outputs_of(step, batch), expected), "");
}

/// Passes keep nodes that compute the same apart, and in their order.
TEST(StepMemory, PassesKeepWhatIsDoneAgain) {
  const isa::Chip& chip = isa::find_chip("tiny");
  const StepModel step = make_train_step(deep_model(), {}, "test");
  const StepMemory memory(step.model, chip, {});
  scheduler::RecomputeProblem problem = memory.activations(step.loss);
  problem.limit = scheduler::recompute(problem, "none").peak / 2;
  const scheduler::RecomputeSchedule found = scheduler::recompute(problem);
  ASSERT_EQ(found.status, scheduler::RecomputeStatus::kSolved);
  ASSERT_GT(found.steps.size(), problem.operations.size());
  const StepMemory again(memory.rewritten(found.steps), chip, {});
  EXPECT_EQ(again.problem().operations.size(), found.steps.size());
  EXPECT_LE(scheduler::recompute(again.activations(step.loss), "none").peak, problem.limit);
}

TEST(StepMemory, RandomNumbersAreDrawnOnce) {
  const isa::Chip& chip = isa::find_chip("tiny");
  const onnx::ModelProto model = import_model(
      parse_model("agraph (float[4,8] x) => (float[4,8] y) { r = RandomNormalLike (x) y = Mul (x, r) }"), {},
      "random");
  const StepMemory memory(model, chip, {});
  EXPECT_TRUE(
      std::ranges::any_of(memory.problem().operations, [](const auto& operation) { return operation.once; }));
}

TEST(StepMemory, TooLittle) {
  StepModel step = make_train_step(deep_model(), {}, "test");
  try {
    limit_step_memory(step, isa::find_chip("tiny"), {},
                      {.limit = {16, 0}, .recomputer = "optimal", .problem_file = {}});
    FAIL();
  } catch (const isa::UnsupportedError& error) {
    EXPECT_THAT(error.what(), HasSubstr("the least that was found by --recompute optimal is"));
  }
}

TEST(StepMemory, Limits) {
  EXPECT_EQ(parse_memory_limit("123").bytes, 123);
  EXPECT_EQ(parse_memory_limit("1.5K").bytes, 1536);
  EXPECT_EQ(parse_memory_limit("2G").bytes, int64_t{2} << 30);
  EXPECT_EQ(parse_memory_limit("50%").share, 0.5);
  for (const char* text : {"", "x", "-1", "0", "1T", "101%", "nan", "1e30", "5 M"})
    EXPECT_THROW(parse_memory_limit(text), isa::UserError) << text;
}

}  // namespace
}  // namespace kodama::compiler::testing
