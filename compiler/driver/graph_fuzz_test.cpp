#include "compiler/driver/graph_fuzz.h"

#include <gtest/gtest.h>

#include <csignal>
#include <sstream>

#include "compiler/driver/child_process.h"
#include "compiler/driver/random_graph.h"
#include "compiler/driver/shrink_graph.h"
#include "compiler/graph/import.h"
#include "compiler/graph/test_models.h"
#include "compiler/runtime/comparison.h"
#include "compiler/runtime/runner.h"
#include "isa/arithmetic.h"

namespace kodama::compiler {
namespace {

TEST(RandomGraph, IsTheSameEverywhere) {
  std::string all;
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    onnx::ModelProto model = random_graph(seed);
    for (const onnx::NodeProto& node : model.graph().node()) {
      all += node.name() + "(";
      for (const std::string& name : node.input()) all += name + ",";
      all += ")";
    }
    // Protobuf doesn't promise what bytes it writes; constants are written by us.
    for (const auto& initializer : model.graph().initializer()) all += initializer.raw_data();
  }
  EXPECT_EQ(isa::hash(all), 11275229991046307852U);
}

/// Random small networks, compiled with every planner: outputs as the CPU reference computes them, no
/// hazards, and no layout changed by the host.
TEST(RandomGraph, EveryPlannerComputesTheSame) {
  const isa::Chip chip = isa::find_chip("tiny");
  int64_t relayouts = 0, prepared = 0;
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    const onnx::ModelProto model = import_model(random_graph(seed), {}, "fuzz");
    TensorMap inputs;
    for (const auto& input : model.graph().input())
      inputs[input.name()] = random_input(input.name(), onnx::TensorProto_DataType_FLOAT,
                                          static_shape(input.type()).value(), seed);
    const TensorMap expected = run_graph(model, inputs);
    for (const std::string& planner : ModelPlanner::planner_names()) {
      CompileOptions options;
      options.planner = planner;
      options.weights = seed % 2 == 0 ? Weights::kStream : Weights::kResident;
      const CompiledModel compiled = compile_model(model, chip, options);
      RunnerOptions run;
      run.hazards = simulator::Hazards::kError;
      run.machine.memory = simulator::MachineOptions::Memory::kDirty;
      ModelRunner runner(compiled, run);
      const RunOutcome outcome = runner.run(inputs);
      if (!compiled.preparation.statements.empty()) {
        ++prepared;
        EXPECT_TRUE(runner.run(inputs).outputs == outcome.outputs) << planner;
      }
      if (planner != "host") {
        EXPECT_EQ(outcome.total.host_relayouts, 0) << planner;
      }
      relayouts += compiled.plan.relayouts;
      for (const auto& [name, tensor] : outcome.outputs) {
        const Comparison comparison = compare_tensors(tensor, expected.at(name));
        EXPECT_TRUE(within(comparison, default_tolerance(MatrixPrecision::kGFloat)))
            << planner << ", " << name << ": " << comparison.max_relative << comparison.problem;
      }
    }
  }
  EXPECT_GT(relayouts, 60);
  EXPECT_GT(prepared, 20);
}

/// What random graphs were shrunk to.
TEST(RandomGraph, FaultsThatWereThere) {
  struct Case {
    std::string graph;
    std::string chip;
    MatrixPrecision precision = MatrixPrecision::kGFloat;
  };
  std::string numbers = "0";
  for (int k = 1; k < 8 * 24; ++k) numbers += fmt::format(",{}", (7 * k % 11 - 5) / 8.0);
  const std::vector<Case> cases = {
      // Entries whose tokens don't fill their last row aren't those of all tokens in a row.
      {"agraph (float[2,15,15] x, float[2,15,16] z) => (float[2,15,16] y)"
       "{ s = Softmax<axis = -1>(x) y = MatMul(s, z) }",
       "mncore2"},
      // What is dealt over groups needn't be as many units in each.
      {"agraph (float[1,33,8] x, float[1,1,33,8] z) => (float[1,1,33,33] y) <float[8,24] w = {" + numbers +
           "}, int64[3] lengths = {8, 8, 8}, int64[4] shape = {0, -1, 1, 8}> { a = MatMul(x, w)"
           "p, q, r = Split<axis = 2>(a, lengths) t = Reshape(q, shape)"
           "u = Transpose<perm = [0, 2, 3, 1]>(t) y = MatMul(z, u) }",
       "tiny"},
  };
  for (const Case& each : cases) {
    SCOPED_TRACE(each.graph);
    const onnx::ModelProto model = import_model(testing::parse_model(each.graph), {}, "model");
    TensorMap inputs;
    for (const auto& input : model.graph().input())
      inputs[input.name()] =
          random_input(input.name(), onnx::TensorProto_DataType_FLOAT, static_shape(input.type()).value(), 1);
    CompileOptions options;
    options.precision = each.precision;
    const CompiledModel compiled = compile_model(model, isa::find_chip(each.chip), options);
    RunnerOptions run;
    run.hazards = simulator::Hazards::kError;
    run.machine.memory = simulator::MachineOptions::Memory::kDirty;
    const RunOutcome outcome = ModelRunner(compiled, run).run(inputs);
    for (const auto& [name, tensor] : run_graph(model, inputs)) {
      const Comparison comparison = compare_tensors(outcome.outputs.at(name), tensor);
      EXPECT_TRUE(within(comparison, default_tolerance(each.precision)))
          << name << ": " << comparison.max_relative << comparison.problem;
    }
  }
}

TEST(ChildProcess, TellsHowWorkEnds) {
  std::vector<std::string> ends;
  run_in_children(
      5, 2, 1,
      [](int64_t number) -> std::string {
        if (number == 1) ::raise(SIGKILL);
        if (number == 2) ::_exit(3);
        if (number == 3) {
          volatile bool forever = true;
          while (forever) {
          }
        }
        return std::string(100'000, static_cast<char>('a' + number));
      },
      [&](int64_t number, const ChildResult& result) {
        EXPECT_EQ(number, static_cast<int64_t>(ends.size()));
        ends.push_back(result.death.empty() ? result.text.substr(99'999) : result.death);
      });
  EXPECT_EQ(ends, (std::vector<std::string>{"a", "signal 9 (Killed)", "exit code 3",
                                            "more than 1 s of processor time", "e"}));
}

TEST(ShrinkGraph, KeepsWhatFails) {
  GraphProblem problem{
      import_model(testing::parse_model("agraph (float[2,3] x) => (float[2,3] e, float[2,3] d, float[3,2] t)"
                                        "{ a = Relu(x) b = Exp(a) c = Neg(b) d = Add(c, a) e = Abs(d) "
                                        "t = Transpose(c) }"),
                   {}, "model"),
      {{"x", testing::random_tensor(onnx::TensorProto_DataType_FLOAT, {2, 3}, 1)}}};
  const TensorMap values = run_graph(problem.model, problem.inputs, {.keep_intermediates = true});
  const auto fails = [](const GraphProblem& part) { return testing::count_nodes(part.model, "Add") == 1; };
  const GraphProblem small = shrink_graph(problem, fails, 100);
  ASSERT_EQ(small.model.graph().node_size(), 1);
  EXPECT_EQ(small.model.graph().node(0).op_type(), "Add");
  ASSERT_EQ(small.inputs.size(), 2U);
  EXPECT_TRUE(small.inputs.at("c") == values.at("c"));
  EXPECT_TRUE(run_graph(small.model, small.inputs).at("d") == values.at("d"));
}

TEST(GraphFuzz, PrintsTotals) {
  std::ostringstream out;
  GraphFuzzRequest request;
  request.seed = 5;
  request.count = 2;
  request.chips = {"tiny"};
  EXPECT_EQ(graph_fuzz_command(request, out), 0);
  EXPECT_NE(out.str().find("2 graphs from seed 5 in 6 runs (tiny; gfloat, half, float): 6 passed"),
            std::string::npos)
      << out.str();
}

}  // namespace
}  // namespace kodama::compiler
