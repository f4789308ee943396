#include "compiler/dynamic/dynamic_executor.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

#include "compiler/dynamic/compare_values.h"
#include "compiler/dynamic/dynamic_report.h"
#include "compiler/graph/import.h"
#include "compiler/graph/test_models.h"

namespace kodama::compiler {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::parse_model;

Tensor floats(const Shape& shape, const std::vector<float>& values) {
  return Tensor::from_values<float>(DataType::kFloat32, shape, values);
}
Tensor integers(const Shape& shape, const std::vector<int64_t>& values) {
  return Tensor::from_values<int64_t>(DataType::kInt64, shape, values);
}
Tensor truth(bool value) {
  return Tensor::from_values<uint8_t>(DataType::kBool, {}, {value});
}

/// An executor on the small chip, whose every run is held against the reference.
class Runs {
 public:
  explicit Runs(const std::string& graph, int64_t cache_limit = 64, int opset = 17,
                const std::string& imports = "")
      : Runs(parse_model(graph, opset, imports), cache_limit) {}
  explicit Runs(const onnx::ModelProto& model, int64_t cache_limit = 64) : expected_(model) {
    make(model, cache_limit);
  }
  /// `expected`: the same in words that the reference knows.
  Runs(const onnx::ModelProto& model, onnx::ModelProto expected) : expected_(std::move(expected)) {
    make(model, 64);
  }

  DynamicOutcome run(const ValueMap& inputs) {
    DynamicOutcome outcome = executor_->run(inputs);
    const ValueMap expected = run_graph_on_values(expected_, inputs);
    for (const ValueComparison& each : compare_values(outcome.outputs, expected, {}, 1e-5)) {
      EXPECT_EQ(each.worst.problem, "") << each.name;
      EXPECT_TRUE(within(each.worst, 1e-5)) << each.name << " " << each.worst.max_absolute;
    }
    return outcome;
  }
  std::string error(const ValueMap& inputs) {
    return testing::error_of<isa::UserError>([&] { executor_->run(inputs); });
  }
  const std::string& open_reason() const { return open_reason_; }

 private:
  void make(const onnx::ModelProto& model, int64_t cache_limit) {
    ImportedModel imported = import_any_model(model, {}, "test");
    open_reason_ = imported.open_reason;
    DynamicOptions options;
    options.compile.precision = MatrixPrecision::kFloat;
    options.cache_limit = cache_limit;
    executor_ = std::make_unique<DynamicExecutor>(std::move(imported.model), isa::find_chip("tiny"),
                                                  std::move(options));
  }

  onnx::ModelProto expected_;
  std::string open_reason_;
  std::unique_ptr<DynamicExecutor> executor_;
};

const RegionRuns& region(const DynamicOutcome& outcome, const std::string& name) {
  for (const RegionRuns& each : outcome.regions) {
    if (each.name == name) return each;
  }
  throw std::runtime_error("no region " + name);
}

TEST(DynamicExecutor, SymbolicDimensionsAreBoundByInputs) {
  Runs runs("g (float[n,4] x, float[n,4] y) => (float[n,4] z) { s = Add(x, y) z = Relu(s) }");
  EXPECT_THAT(runs.open_reason(), HasSubstr("input 'x' is float32 [n, 4]"));
  const auto inputs = [](int64_t n, int64_t m) {
    return ValueMap{{"x", testing::random_tensor(DataType::kFloat32, {n, 4}, 1)},
                    {"y", testing::random_tensor(DataType::kFloat32, {m, 4}, 2)}};
  };
  // A second pass over shapes that were there compiles nothing.
  for (const int64_t n : {3, 1, 5}) EXPECT_EQ(runs.run(inputs(n, n)).total.compiles, 1);
  for (const int64_t n : {5, 3, 1}) {
    const DynamicOutcome outcome = runs.run(inputs(n, n));
    EXPECT_EQ(outcome.total.compiles, 0);
    EXPECT_EQ(outcome.total.hits, 1);
    EXPECT_TRUE(outcome.all_on_chip());
    EXPECT_EQ(outcome.total.preload_bytes, 0);
  }
  EXPECT_THAT(runs.error(inputs(3, 2)), AllOf(HasSubstr("input 'y'"), HasSubstr("n=3")));
  EXPECT_THAT(runs.error({{"x", Value()}}), HasSubstr("input 'x'"));
  EXPECT_THAT(runs.error(ValueMap{}), HasSubstr("'x' is not given"));
}

TEST(DynamicExecutor, TheLeastRecentlyUsedProgramGoes) {
  Runs runs("g (float[n] x) => (float[n] y) { y = Relu(x) }", 2);
  const auto compiles = [&](int64_t n) {
    return runs.run({{"x", testing::random_tensor(DataType::kFloat32, {n}, 1)}}).total.compiles;
  };
  EXPECT_EQ(compiles(1), 1);
  EXPECT_EQ(compiles(2), 1);
  EXPECT_EQ(compiles(1), 0);
  EXPECT_EQ(compiles(3), 1);  // 2 goes
  EXPECT_EQ(compiles(1), 0);
  EXPECT_EQ(compiles(2), 1);  // 3 goes
  const DynamicOutcome outcome = runs.run({{"x", floats({1}, {1})}});
  EXPECT_EQ(outcome.cached_programs, 2);
  EXPECT_EQ(outcome.dropped_programs, 2);
}

TEST(DynamicExecutor, ArithmeticOnShapesCutsNoRegion) {
  Runs runs(R"(g (float[n,6] x) => (float[m,k] y) {
    zero = Constant<value = int64[1] {0}>()
    three = Constant<value = int64[1] {3}>()
    rest = Constant<value = int64[1] {-1}>()
    s = Shape(x)
    n = Gather(s, zero)
    list = Concat<axis = 0>(n, three, rest)
    z = Reshape(x, list)
    r = Relu(z)
    y = ReduceSum<keepdims = 0>(r, zero) })");
  const DynamicOutcome outcome = runs.run({{"x", testing::random_tensor(DataType::kFloat32, {4, 6}, 1)}});
  ASSERT_EQ(outcome.regions.size(), 1U);
  EXPECT_TRUE(outcome.all_on_chip());
}

TEST(DynamicExecutor, DataDecideShapes) {
  Runs runs(R"(g (float[6] x) => (int64[1,n] where, float[n] values, float[1,n] floats) {
    r = Relu(x) where = NonZero(r) t = Transpose(where) values = GatherND(x, t)
    doubled = Add(where, where) floats = Cast<to = 1>(doubled) })");
  for (const int zeros : {0, 2, 6}) {
    std::vector<float> x(6, 1.5F);
    for (int k = 0; k < zeros; ++k) x[static_cast<size_t>(k)] = -1;
    const DynamicOutcome outcome = runs.run({{"x", floats({6}, x)}});
    const RegionRuns& nonzero = outcome.regions.at(1);
    EXPECT_EQ(nonzero.operators, std::vector<std::string>{"NonZero"});
    EXPECT_THAT(nonzero.reasons, ::testing::ElementsAre(HasSubstr("depends on data")));
    EXPECT_GT(nonzero.stats.chip.causes.host_compute, 0);
    EXPECT_FALSE(outcome.all_on_chip());
    EXPECT_EQ(outcome.regions.size(), 3U);
  }
}

TEST(DynamicExecutor, ValuesFromDataThatDecideShapesAreBound) {
  Runs runs(
      R"(g (float[4] x, int64[1] n) => (float[k] y, float[k] z) {
    sum = ReduceSum(x)
    y = Expand(sum, n)
    z = Relu(y) })");
  EXPECT_EQ(runs.run({{"x", floats({4}, {1, 2, 3, 4})}, {"n", integers({1}, {3})}}).total.compiles, 1);
  EXPECT_EQ(runs.run({{"x", floats({4}, {1, 2, 3, 4})}, {"n", integers({1}, {5})}}).total.compiles, 1);
  EXPECT_EQ(runs.run({{"x", floats({4}, {4, 3, 2, 1})}, {"n", integers({1}, {3})}}).total.compiles, 0);
}

const char* const kIf = R"(g (bool c, float[n] x) => (float[n] y) {
  a = Add(x, x)
  y = If<then_branch = yes () => (float[n] p) { q = Relu(a) p = Mul(q, x) },
         else_branch = no () => (float[n] p) { p = Neg(a) }>(c) })";

TEST(DynamicExecutor, IfRunsOneBranchAndSeesOuterValues) {
  Runs runs(kIf);
  const Tensor x = floats({3}, {1, -2, 3});
  const DynamicOutcome yes = runs.run({{"c", truth(true)}, {"x", x}});
  EXPECT_EQ(region(yes, "then of 'y' 1").operators, (std::vector<std::string>{"Relu", "Mul"}));
  EXPECT_TRUE(yes.all_on_chip());
  const DynamicOutcome no = runs.run({{"c", truth(false)}, {"x", x}});
  EXPECT_EQ(no.regions.size(), 3U);
  EXPECT_EQ(no.total.compiles, 1);
}

/// What exporters write where they don't know whether an axis has one element.
TEST(DynamicExecutor, AnIfThatShapesDecideCutsNoRegion) {
  Runs runs(R"(g (float[n,k] x, float[4] w) => (float[m] y) {
    a = Relu(x)
    s = Shape(a)
    one = Constant<value = int64[1] {1}>()
    extent = Gather(s, one)
    c = Equal(extent, one)
    z = If<then_branch = yes () => (float[m] t) { axes = Constant<value = int64[1] {1}>() t = Squeeze(a, axes) },
           else_branch = no () => (float[m,l] t) { t = Identity(a) }>(c)
    q = If<then_branch = yes () => (float[m] t) { t = Neg(z) },
           else_branch = no () => (float[m] t) { one_ = Constant<value = int64[1] {1}>()
                                                 t = ReduceSum<keepdims = 0>(z, one_) }>(c)
    y = Mul(q, w) })");
  const Tensor w = testing::random_tensor(DataType::kFloat32, {4}, 7);
  for (const int64_t extent : {1, 3, 1, 3}) {
    const DynamicOutcome outcome =
        runs.run({{"x", testing::random_tensor(DataType::kFloat32, {4, extent}, 1)}, {"w", w}});
    ASSERT_EQ(outcome.regions.size(), 1U);
    EXPECT_TRUE(outcome.all_on_chip());
  }
  EXPECT_EQ(runs.run({{"x", testing::random_tensor(DataType::kFloat32, {4, 1}, 1)}, {"w", w}}).total.compiles,
            0);
}

TEST(DynamicExecutor, LoopBodiesAreCompiledOnce) {
  Runs runs(R"(g (int64 m, bool c, float[2,2] w, float[2,2] start) => (float[2,2] last, float[k,2] rows) {
    last, rows = Loop<body = one (int64 i, bool go, float[2,2] state) => (bool more, float[2,2] next, float[2] row) {
      more = Identity(go) p = MatMul(state, w) next = Tanh(p)
      axes = Constant<value = int64[1] {0}>() row = ReduceSum<keepdims = 0>(next, axes) }>(m, c, start) })");
  ValueMap inputs{{"m", integers({}, {100})},
                  {"c", truth(true)},
                  {"w", floats({2, 2}, {0.5, 1, -1, 0.25})},
                  {"start", floats({2, 2}, {1, 2, 3, 4})}};
  const DynamicOutcome outcome = runs.run(inputs);
  const RegionRuns& body = region(outcome, "body of 'last' 1");
  EXPECT_EQ(body.runs, 100);
  EXPECT_EQ(body.compiles, 1);
  EXPECT_EQ(body.hits, 99);
  EXPECT_TRUE(outcome.all_on_chip());
  // Without an iteration the state is the first, and there are no rows.
  inputs.at("m") = integers({}, {0});
  EXPECT_EQ(runs.run(inputs).outputs.at("rows").tensor().shape(), (Shape{0, 2}));
  inputs.at("m") = integers({}, {-3});
  runs.run(inputs);
  inputs.at("m") = integers({2}, {1, 2});
  EXPECT_THAT(runs.error(inputs), AllOf(HasSubstr("'m'"), HasSubstr("[2]")));
}

/// What asks for another list in every iteration goes to the host in the end, and a second pass compiles
/// nothing.
TEST(DynamicExecutor, ListsThatChangeInEveryIterationAreNotCompiledFor) {
  Runs runs(R"(g (int64 m, float[32] x) => (float[1] last) {
    zero = Constant<value = float[1] {0}>()
    last = Loop<body = one (int64 i, bool go, float[1] sum) => (bool more, float[1] next) {
      more = Identity(go) axes = Constant<value = int64[1] {0}>() from = Unsqueeze(i, axes)
      one = Constant<value = int64[1] {1}>() to = Add(from, one) part = Slice(x, from, to) next = Add(sum, part) }>
      (m, , zero) })");
  const ValueMap inputs{{"m", integers({}, {20})},
                        {"x", testing::random_tensor(DataType::kFloat32, {32}, 3)}};
  const DynamicOutcome outcome = runs.run(inputs);
  EXPECT_LE(outcome.total.compiles, 12);
  EXPECT_EQ(runs.run(inputs).total.compiles, 0);
}

/// Twenty operators; what passes the link in an iteration is what the condition is made of.
TEST(DynamicExecutor, ALoopsStateStaysOnTheChip) {
  std::string body;
  std::string last = "s";
  for (int k = 0; k < 6; ++k) {
    body += fmt::format("m{0} = MatMul({1}, w) t{0} = Tanh(m{0}) a{0} = Add(t{0}, {1})\n", k, last);
    last = fmt::format("a{}", k);
  }
  Runs runs(fmt::format(R"(g (int64 m, float[16,16] w, float[16,16] start) => (float[16,16] last) {{
    last = Loop<body = one (int64 i, bool go, float[16,16] s) => (bool more, float[16,16] next) {{
      half = Constant<value = float {{0.25}}>()
      {} next = Mul({}, half)
      sum = ReduceMax<keepdims = 0>(next) limit = Constant<value = float {{100}}>() more = Less(sum, limit) }}>
      (m, , start) }})",
                        body, last));
  const auto link_bytes = [&](int64_t iterations) {
    const DynamicOutcome outcome =
        runs.run({{"m", integers({}, {iterations})},
                  {"w", testing::random_tensor(DataType::kFloat32, {16, 16}, 1, -0.2, 0.2)},
                  {"start", testing::random_tensor(DataType::kFloat32, {16, 16}, 2)}});
    EXPECT_EQ(region(outcome, "body of 'last' 1").compiles, iterations == 10 ? 1 : 0);
    return outcome.total.link_bytes();
  };
  const int64_t few = link_bytes(10);
  const int64_t per_iteration = (link_bytes(100) - few) / 90;
  EXPECT_GT(per_iteration, 0);
  EXPECT_LE(per_iteration, 1024);                            // one number, in DRAM's unit for each group
  EXPECT_LE(few - 10 * per_iteration, 3 * 16 * 16 * 4 * 4);  // the state and the weights once, the last state
}

/// A state that was on the chip alone is there for nodes that go to the host later.
TEST(DynamicExecutor, StatesComeBackForTheHost) {
  Runs runs(R"(g (int64 m, float[32] x) => (float[32] last) {
    last = Loop<body = one (int64 i, bool go, float[32] s) => (bool more, float[32] next) {
      more = Identity(go)
      axes = Constant<value = int64[1] {0}>()
      one = Constant<value = int64[1] {1}>()
      from = Unsqueeze(i, axes)
      to = Add(from, one)
      part = Slice(s, from, to)
      t = Tanh(s)
      next = Add(t, part) }>(m, , x) })");
  runs.run({{"m", integers({}, {12})}, {"x", testing::random_tensor(DataType::kFloat32, {32}, 3)}});
}

TEST(DynamicExecutor, ScanAndNestedControlFlow) {
  Runs runs(R"(g (float[t,3] x, float[3] start) => (float[3] last, float[t,3] all) {
    last, all = Scan<num_scan_inputs = 1, body = one (float[3] s, float[3] e) => (float[3] next, float[3] out) {
      sum = ReduceSum<keepdims = 0>(e) zero = Constant<value = float {0}>() c = Greater(sum, zero)
      next = If<then_branch = yes () => (float[3] a) { a = Add(s, e) },
                else_branch = no () => (float[3] b) { b = Sub(s, e) }>(c)
      out = Identity(next) }>(start, x) })");
  const ValueMap inputs{{"x", floats({4, 3}, {1, 2, 3, -1, -2, -3, 4, -1, 2, 0, -5, 1})},
                        {"start", floats({3}, {0, 1, 2})}};
  runs.run(inputs);
  EXPECT_EQ(runs.run(inputs).total.compiles, 0);
}

TEST(DynamicExecutor, SequencesAreTheHosts) {
  Runs runs(R"(g (float[n,4] x, int64 at) => (float[k,4] y) {
    parts = SplitToSequence<axis = 0>(x) one = SequenceAt(parts, at) doubled = Add(one, one)
    longer = SequenceInsert(parts, doubled) joined = ConcatFromSequence<axis = 0>(longer) y = Relu(joined) })");
  const Tensor x = testing::random_tensor(DataType::kFloat32, {3, 4}, 1);
  const DynamicOutcome outcome = runs.run({{"x", x}, {"at", integers({}, {-1})}});
  EXPECT_TRUE(outcome.all_on_chip());
  EXPECT_EQ(outcome.outputs.at("y").tensor().shape(), (Shape{4, 4}));
  EXPECT_THAT(runs.error({{"x", x}, {"at", integers({}, {3})}}),
              AllOf(HasSubstr("SequenceAt"), HasSubstr("position 3"), HasSubstr("-3 to 2")));
}

TEST(DynamicExecutor, OlderOpsetsAreUpgradedRegionByRegion) {
  // Squeeze has its axes as an attribute before opset 13, also inside a branch.
  Runs runs(R"(g (bool c, float[n,1] x) => (float[n] y) {
    y = If<then_branch = yes () => (float[n] p) { p = Squeeze<axes = [1]>(x) },
           else_branch = no () => (float[n] p) { q = Squeeze<axes = [1]>(x) p = Neg(q) }>(c) })",
            64, 11);
  for (const bool c : {true, false}) runs.run({{"c", truth(c)}, {"x", floats({3, 1}, {1, 2, 3})}});
}

TEST(DynamicExecutor, NewerOpsetsAreDowngradedAlsoInBranches) {
  // ReduceMax has its axes as an operand since opset 18.
  const auto model = [](const char* maximum, int opset) {
    return parse_model(fmt::format(R"(g (bool c, float[n,3] x) => (float[n] y) {{
      axes = Constant<value = int64[1] {{1}}> ()
      y = If<then_branch = yes () => (float[n] p) {{ p = {0} }},
             else_branch = no () => (float[n] p) {{ q = {0} p = Neg(q) }}>(c) }})",
                                   maximum),
                       opset);
  };
  Runs runs(model("ReduceMax<keepdims = 0>(x, axes)", 21),
            model("ReduceMax<axes = [1], keepdims = 0>(x)", 17));
  for (const bool c : {true, false})
    runs.run({{"c", truth(c)}, {"x", floats({2, 3}, {1, 5, 3, -4, -2, -3})}});
}

TEST(DynamicExecutor, FunctionsThatBranchesCallAreExpanded) {
  Runs runs(R"(g (bool c, float[n] x) => (float[n] y) {
      y = If<then_branch = yes () => (float[n] p) { p = own.Twice(x) },
             else_branch = no () => (float[n] p) { p = Neg(x) }>(c) }
    <domain: "own", opset_import: ["" : 17]> Twice (a) => (b) { b = Add(a, a) })",
            64, 17, ", \"own\" : 1");
  for (const bool c : {true, false}) runs.run({{"c", truth(c)}, {"x", floats({2}, {1, -5})}});
}

TEST(DynamicExecutor, FunctionsMayHoldControlFlow) {
  // Two calls, one in the other's place; the graphs read the function's operands, and one another's values; a
  // function that is called from a graph of another; an attribute of the call; names that the caller has,
  // too.
  const char* functions = R"(
    <domain: "own", opset_import: ["" : 17, "own" : 1]> Repeat <slope> (times, a) => (b) {
      yes = Constant<value = bool {1}>() doubled = Add(a, a)
      b = Loop<body = body (int64 i, bool go, float[n] s) => (bool on, float[n] t) {
        on = Identity(go) u = LeakyRelu<alpha: float = @slope>(s) v = own.Choose(go, u) t = Add(v, doubled) }>(times, yes, a) }
    <domain: "own", opset_import: ["" : 17]> Choose (c, a) => (b) {
      b = If<then_branch = yes () => (float[n] p) { p = Neg(a) },
             else_branch = no () => (float[n] p) { p = Abs(a) }>(c) })";
  Runs runs(
      std::string(
          "g (bool c, int64 m, float[n] x) => (float[n] y, float[n] b) { u = own.Choose(c, x) "
          "b = own.Repeat<slope = 0.5>(m, u) t = own.Choose(c, b) y = own.Repeat<slope = 0.25>(m, t) }") +
          functions,
      64, 17, ", \"own\" : 1");
  for (const bool c : {true, false})
    runs.run({{"c", truth(c)}, {"m", integers({}, {3})}, {"x", floats({3}, {1, -5, 2})}});
}

TEST(DynamicExecutor, DataThatContradictShapesAreUserErrors) {
  Runs runs("g (float[n] x, int64[1] s) => (float[k] y) { y = Reshape(x, s) }");
  EXPECT_THAT(runs.error({{"x", floats({4}, {1, 2, 3, 4})}, {"s", integers({1}, {3})}}),
              AllOf(HasSubstr("node 'y' (Reshape)"), HasSubstr("[3]")));
  Runs gather("g (float[n] x, int64[m] i) => (float[m] y) { y = Gather(x, i) }");
  EXPECT_THAT(gather.error({{"x", floats({4}, {1, 2, 3, 4})}, {"i", integers({1}, {4})}}),
              AllOf(HasSubstr("Gather"), HasSubstr("4")));
}

/// Where a region is more than the chip can take, the node to blame goes to the host, and the rest stays.
TEST(DynamicExecutor, WhatTheChipRefusesIsTheHosts) {
  onnx::ModelProto model = parse_model(R"(g (float[n,8] x) => (float[n] y) {
    r = Relu(x)
    p = MatMul(r, w)
    one = Constant<value = int64[1] {1}>()
    s = ReduceSum<keepdims = 0>(p, one)
    y = Tanh(s) })");
  testing::add_random(model, "w", {8, 512});
  isa::Chip chip = isa::find_chip("tiny");
  chip.memory.dram_lw = 2048;  // less than the weights
  DynamicOptions options;
  options.compile.precision = MatrixPrecision::kFloat;
  DynamicExecutor executor(import_any_model(model, {}, "test").model, chip, std::move(options));
  const ValueMap inputs{{"x", testing::random_tensor(DataType::kFloat32, {2, 8}, 1)}};
  const DynamicOutcome outcome = executor.run(inputs);
  EXPECT_EQ(outcome.regions.front().operators, std::vector<std::string>{"Relu"});
  EXPECT_EQ(outcome.regions.front().place, RegionPlace::kChip);
  const RegionRuns& product = outcome.regions.at(1);
  EXPECT_EQ(product.operators, std::vector<std::string>{"MatMul"});
  EXPECT_EQ(product.place, RegionPlace::kHost);
  EXPECT_THAT(product.reasons, ::testing::ElementsAre(HasSubstr("DRAM")));
  EXPECT_GT(product.stats.chip.causes.host_compute, 0);
  testing::expect_close(to_tensors(outcome.outputs, "output"),
                        to_tensors(run_graph_on_values(model, inputs), "output"), 1e-5);
  EXPECT_EQ(executor.run(inputs).total.compiles, 0);
}

/// What the host computes in a row is one stage: what passes between its nodes costs nothing.
TEST(DynamicExecutor, NeighboursOnTheHostAreOneStage) {
  Runs runs(R"(g (float[8] x) => (int64[m] u, float[k] y) {
    r = Relu(x) where = NonZero(r) u = Unique(where) c = Cast<to = 9>(r) y = Compress(x, c) })");
  const DynamicOutcome outcome = runs.run({{"x", floats({8}, {1, -1, 2, -2, 3, -3, 4, -4})}});
  const RegionRuns& stage = region(outcome, "main 'where'");
  EXPECT_EQ(stage.operators, (std::vector<std::string>{"NonZero", "Unique", "Compress"}));
  EXPECT_EQ(stage.runs, 1);
  EXPECT_EQ(stage.stats.host_layers, 1);
  // r, x and c; u and y.
  EXPECT_EQ(stage.stats.host_bytes, 8 * 4 + 8 * 4 + 8 + 4 * 8 + 4 * 4);
  EXPECT_THAT(stage.reasons, ::testing::Each(HasSubstr("': its shape depends on data")));
}

TEST(DynamicExecutor, MuchWorkOnTheHostIsSaid) {
  const auto report = [](int64_t size) {
    Runs runs("g (float[n] x) => (float[m] y) { r = Relu(x) y = Unique(r) }");
    std::ostringstream text;
    print_dynamic_report(runs.run({{"x", testing::random_tensor(DataType::kFloat32, {size}, 1)}}), text);
    return text.str();
  };
  EXPECT_THAT(report(20000), HasSubstr("much of this run is the host's"));
  EXPECT_THAT(report(20000), HasSubstr("for Unique of main 'y' (its shape depends on data)"));
  EXPECT_THAT(report(20), ::testing::Not(HasSubstr("much of this run")));
}

TEST(DynamicExecutor, StaticModelsAreNotOpen) {
  EXPECT_EQ(
      import_any_model(parse_model("g (float[2] x) => (float[2] y) { y = Relu(x) }"), {}, "test").open_reason,
      "");
}

TEST(CompareValues, RowsMayComeInAnotherOrder) {
  const ValueMap expected{{"box", floats({3, 2}, {1, 2, 3, 4, 5, 6})}, {"label", integers({3}, {7, 8, 9})}};
  const ValueMap actual{{"box", floats({3, 2}, {3, 4, 1, 2, 5, 6.000001F})},
                        {"label", integers({3}, {8, 7, 9})}};
  const ValueMap mixed{{"box", floats({3, 2}, {3, 4, 1, 2, 5, 6})}, {"label", integers({3}, {7, 8, 9})}};
  const auto all_right = [&](const ValueMap& values, const std::set<std::string>& rows) {
    return std::ranges::all_of(compare_values(values, expected, rows, 1e-5), [](const ValueComparison& each) {
      return each.as_set || within(each.worst, 1e-5);
    });
  };
  EXPECT_TRUE(all_right(actual, {"box", "label"}));
  EXPECT_FALSE(all_right(actual, {"box"}));
  EXPECT_FALSE(all_right(mixed, {"box", "label"}));
  EXPECT_TRUE(all_right(expected, {}));
}

TEST(CompareValues, EachRowHasAPartnerOfItsOwn) {
  const auto is_set = [](const std::vector<float>& actual) {
    const auto rows = static_cast<int64_t>(actual.size());
    return compare_values({{"y", floats({rows}, actual)}}, {{"y", floats({2}, {1, 0.92F})}}, {"y"}, 0.1)[0]
        .as_set;
  };
  EXPECT_TRUE(is_set({0.95F, 1.05F}));   // the first is near both, the second near one alone
  EXPECT_FALSE(is_set({1.05F, 1.05F}));  // both near the same one
  EXPECT_FALSE(is_set({1, 0.92F, 0.92F}));
  const ValueMap apart{{"y", floats({3}, {3, 5, 2})}}, expected{{"y", floats({3}, {1, 2, 3})}};
  EXPECT_EQ(compare_values(apart, expected, {"y"}, 0.1)[0].rows_found, 2);
}

TEST(CompareValues, ScoresAloneMakeAnOrderThatRoundingChanges) {
  const auto outputs = outputs_in_order_of_scores(parse_model(R"(
      g (float[1,n,4] boxes, float[1,1,n] scores, float[n] x, bool c)
        => (int64[m,3] chosen, float[k] best, float[k] doubled, float[n] same, int64[1,j] places, float[5] fixed) <int64[1] five = {5}> {
    chosen = NonMaxSuppression(boxes, scores)
    best = If<then_branch = one () => (float[k] v) { v, i = TopK(x, five) }, else_branch = two () => (float[n] w) { w = Identity(x) }>(c)
    doubled = Add(best, best) same = Relu(x) places = NonZero(x) fixed, i = TopK(x, five)
  })")
                                                      .graph());
  EXPECT_EQ(outputs, (std::set<std::string>{"best", "chosen", "doubled"}));
}

}  // namespace
}  // namespace kodama::compiler
