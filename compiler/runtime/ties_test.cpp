#include <gtest/gtest.h>

#include <algorithm>

#include "compiler/compile/compile_model.h"
#include "compiler/graph/import.h"
#include "compiler/graph/test_models.h"
#include "compiler/runtime/runner.h"

namespace kodama::compiler {
namespace {

using testing::parse_model;

/// Runs `count` times with ties and holds the outputs against the reference, which is given its own.
void expect_ties(const std::string& graph, const std::vector<TieRequest>& ties, size_t made, int count,
                 const char* chip_name = "tiny", Weights weights = Weights::kStream, int in_place = -1) {
  const onnx::ModelProto model = import_model(parse_model(graph), {}, "test");
  CompileOptions options;
  options.precision = MatrixPrecision::kFloat;
  options.keeps_inputs = true;
  options.ties = ties;
  options.weights = weights;
  const CompiledModel compiled = compile_model(model, isa::find_chip(chip_name), options);
  ASSERT_EQ(compiled.ties.size(), made);
  if (in_place >= 0) {
    EXPECT_EQ(std::ranges::count(compiled.ties, true, &Tie::in_place), in_place);
  }
  ModelRunner runner(compiled);
  TensorMap inputs = testing::random_inputs(model);
  TensorMap given = inputs;
  for (int run = 1; run <= count; ++run) {
    const TensorMap expected = run_graph(model, inputs);
    RunOutcome outcome = runner.run_again(given);
    if (run > 1) {
      EXPECT_EQ(outcome.total.bytes_to_chip, 0) << "run " << run;
    }
    for (const Tie& tie : compiled.ties) {
      const std::string& name = compiled.tensors[static_cast<size_t>(tie.output)].name;
      given.erase(compiled.tensors[static_cast<size_t>(tie.input)].name);
      if (tie.fetch) continue;
      EXPECT_FALSE(outcome.outputs.contains(name));
      StageStats stats;
      outcome.outputs[name] = runner.fetch_tied(tie, stats);
      EXPECT_GT(stats.bytes_from_chip, 0);
    }
    testing::expect_close(outcome.outputs, expected, 1e-5);
    for (const TieRequest& tie : ties) inputs[tie.input] = expected.at(tie.output);
    given.clear();
  }
}

TEST(Ties, AnOutputIsTheNextInput) {
  for (const char* chip : {"tiny", "mncore2"}) {
    for (const Weights weights : {Weights::kStream, Weights::kResident}) {
      expect_ties(R"(g (float[4,8] x, float[8,8] w) => (float[4,8] y, float[4] sums) {
        p = MatMul(x, w) y = Tanh(p) axes = Constant<value = int64[1] {1}>() sums = ReduceSum<keepdims = 0>(y, axes) })",
                  {{"y", "x"}}, 1, 4, chip, weights);
    }
  }
}

/// Several states, read by several kernels in layouts of their own, exchange their places.
TEST(Ties, StatesChangePlaces) {
  expect_ties(R"(g (float[4,4] a, float[4,4] b) => (float[4,4] c, float[4,4] d) {
    p = MatMul(a, b) c = Tanh(p) t = Transpose<perm = [1, 0]>(a) q = MatMul(t, a) d = Sigmoid(q) })",
              {{"c", "b"}, {"d", "a"}}, 2, 4);
}

/// Weights and their velocities lie as the product makes the gradient, and are written where they are.
TEST(Ties, WhatAnOptimizerChangesStaysInPlace) {
  for (const char* chip : {"tiny", "mncore2"}) {
    expect_ties(
        R"(g (float[64,96] x, float[64,80] dy, float[96,80] w, float[96,80] v, float rate) => (float[96,80] wn, float[96,80] vn) {
      xt = Transpose<perm = [1, 0]>(x) g = MatMul(xt, dy) m = Constant<value = float {0.9}>()
      kept = Mul(v, m) vn = Add(kept, g) step = Mul(rate, vn) wn = Sub(w, step) })",
        {{"wn", "w"}, {"vn", "v"}}, 2, 4, chip, Weights::kStream, 2);
  }
}

/// Readers see the state in another shape, as normalizations do.
TEST(Ties, StatesOfOtherShapes) {
  for (const char* chip : {"tiny", "mncore2"}) {
    expect_ties(R"(g (float[2,8,9,9] x, float[8] s, float[8] d) => (float[8] sn, float[2,8,9,9] y) {
      shape = Constant<value = int64[3] {8, 1, 1}>() r = Reshape(s, shape) y = Mul(x, r) sn = Sub(s, d) })",
                {{"sn", "s"}}, 1, 3, chip);
  }
}

/// Who reads the old value behind the new one needs it.
TEST(Ties, WhatIsReadLaterIsNotWrittenOver) {
  expect_ties(R"(g (float[96,80] w, float[96,80] d, float[80,16] x) => (float[96,80] wn, float[96,16] y) {
    wn = Sub(w, d) p = MatMul(wn, x) q = MatMul(w, x) y = Add(p, q) })",
              {{"wn", "w"}}, 1, 4);
}

/// What the host wants in every run is fetched, but not sent.
TEST(Ties, OutputsThatAreFetched) {
  const char* const graph =
      "g (float[4] x) => (float[4] y, float[4] same) { y = Tanh(x) same = Identity(y) }";
  expect_ties(graph, {{"y", "x"}}, 1, 3);
  expect_ties("g (float[4] x) => (float[4] y) { y = Tanh(x) }", {{"y", "x", true}}, 1, 3);
}

/// An output that only moves what a layer made.
TEST(Ties, OfARearrange) {
  expect_ties(
      R"(g (float[4,4] x) => (float[4,4] y) { r = Tanh(x) s = Neg(r) y = Transpose<perm = [1, 0]>(s) })",
      {{"y", "x"}}, 1, 3);
}

TEST(Ties, ThatTheHostTakesPartInAreLeftOut) {
  CompileOptions options;
  options.keeps_inputs = true;
  options.ties = {{"y", "x"}};
  const auto ties = [&](const std::string& graph) {
    const onnx::ModelProto model = import_model(parse_model(graph), {}, "test");
    return compile_model(model, isa::find_chip("tiny"), options).ties.size();
  };
  EXPECT_EQ(ties("g (float[4] x) => (float[4] y) { y = Tanh(x) }"), 1U);
  EXPECT_EQ(ties("g (float[4] x) => (float[4] y, string[4] z) { y = Tanh(x) z = Cast<to = 8>(x) }"), 0U);
  EXPECT_EQ(ties("g (float[4] x) => (float[2,2] y) { z = Tanh(x) s = Constant<value = int64[2] {2, 2}>() y = "
                 "Reshape(z, s) }"),
            0U);
  EXPECT_EQ(ties("g (int64[4] x) => (int64[4] y) { y = Neg(x) }"), 0U);
  EXPECT_EQ(ties("g (int32[4] x) => (int32[4] y) { y = Neg(x) }"), 1U);
  options.ties = {{"z", "x"}};
  EXPECT_THROW(ties("g (float[4] x) => (float[4] y) { y = Tanh(x) }"), isa::UserError);
}

/// What hasn't changed isn't sent again.
TEST(Ties, InputsStay) {
  const onnx::ModelProto model = import_model(
      parse_model("g (float[4,8] x, float[8,8] w) => (float[4,8] y) { y = MatMul(x, w) }"), {}, "test");
  CompileOptions options;
  options.precision = MatrixPrecision::kFloat;
  options.keeps_inputs = true;
  const CompiledModel compiled = compile_model(model, isa::find_chip("tiny"), options);
  ModelRunner runner(compiled);
  EXPECT_THROW(runner.run_again({}), isa::UserError);
  TensorMap inputs = testing::random_inputs(model);
  const int64_t all = runner.run_again(inputs).total.bytes_to_chip;
  inputs["x"] = testing::random_tensor(DataType::kFloat32, {4, 8}, 9);
  const RunOutcome outcome = runner.run_again({{"x", inputs["x"]}});
  EXPECT_GT(outcome.total.bytes_to_chip, 0);
  EXPECT_LT(outcome.total.bytes_to_chip, all);
  testing::expect_close(outcome.outputs, run_graph(model, inputs), 1e-5);
}

}  // namespace
}  // namespace kodama::compiler
