#include "compiler/driver/graph_fuzz.h"

#include <gtest/gtest.h>
#include <onnx/defs/schema.h>

#include <csignal>
#include <set>
#include <sstream>

#include "compiler/driver/child_process.h"
#include "compiler/driver/chip_operands.h"
#include "compiler/driver/graph_judge.h"
#include "compiler/driver/random_graph.h"
#include "compiler/driver/random_rows.h"
#include "compiler/driver/shrink_graph.h"
#include "compiler/graph/import.h"
#include "compiler/graph/onnx_model.h"
#include "compiler/graph/test_models.h"
#include "compiler/runtime/comparison.h"
#include "compiler/runtime/runner.h"
#include "isa/arithmetic.h"
#include "isa/rounds_test_util.h"

namespace kodama::compiler {
namespace {

/// Every operator of docs/operators.md has a row, or a reason why not.
TEST(RandomRows, AreOfAllOperators) {
  std::set<std::string> listed;
  for (const auto& latest : onnx::OpSchemaRegistry::get_all_schemas()) {
    if (!latest.domain().empty() && latest.domain() != "ai.onnx.preview.training") continue;
    const int version = latest.domain().empty() ? static_cast<int>(kOpsetVersion) : latest.since_version();
    const auto* schema = onnx::OpSchemaRegistry::Schema(latest.Name(), version, latest.domain());
    if (schema == nullptr || schema->deprecated()) continue;
    listed.insert((latest.domain().empty() ? "" : latest.domain() + ".") + latest.Name());
  }
  std::set<std::string> with_row;
  for (const RandomRow& row : random_rows()) {
    EXPECT_TRUE(with_row.insert(row.name).second) << "two rows of " << row.name;
    EXPECT_TRUE(listed.contains(row.name)) << row.name;
    EXPECT_FALSE(operators_without_row().contains(row.name)) << row.name;
  }
  for (const std::string& name : listed)
    EXPECT_TRUE(with_row.contains(name) || operators_without_row().contains(name)) << name << " has no row";
}

/// No row is there that never makes a node, and none makes nodes that the reference refuses.
TEST(RandomRows, MakeNodes) {
  for (const RandomRow& row : random_rows()) {
    int made = 0;
    for (uint64_t seed = 1; seed <= 60; ++seed) {
      try {
        made += can_add(row.name, seed) ? 1 : 0;
      } catch (const isa::Error& error) {
        ADD_FAILURE() << row.name << ", seed " << seed << ": " << error.what();
      }
    }
    EXPECT_GE(made, 10) << row.name;
  }
}

TEST(RandomGraph, IsTheSameEverywhere) {
  std::string all;
  for (const GraphKind kind : {GraphKind::kNetwork, GraphKind::kOperators}) {
    for (uint64_t seed = 1; seed <= 10; ++seed) {
      const onnx::ModelProto model = random_problem(seed, kind).model;
      for (const onnx::NodeProto& node : model.graph().node()) {
        all += node.name() + "(";
        for (const std::string& name : node.input()) all += name + ",";
        all += ")";
      }
      // Protobuf doesn't promise what bytes it writes; constants are written by us.
      for (const auto& initializer : model.graph().initializer()) all += initializer.raw_data();
    }
  }
  EXPECT_EQ(isa::hash(all), 374739697896592660U);
}

TEST(RandomGraph, HasManyNodesOfManyTypes) {
  std::set<std::string> operators;
  std::set<DataType> types;
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    const GraphProblem problem = random_problem(seed, GraphKind::kOperators);
    EXPECT_GE(problem.model.graph().node_size(), 8) << "seed " << seed;
    EXPECT_LE(problem.model.graph().node_size(), 80) << "seed " << seed;
    for (const auto& node : problem.model.graph().node()) operators.insert(node.op_type());
    const ValueMap values = run_graph_on_values(problem.model, problem.inputs, {.keep_intermediates = true});
    for (const auto& [name, value] : values) types.insert(value.element_type());
  }
  EXPECT_GT(operators.size(), 170U);
  EXPECT_GE(types.size(), 14U);
}

/// What is read where a small error would change much is an output, unless it has none.
TEST(RandomGraph, ShowsWhatStepsRead) {
  GraphProblem problem{
      testing::parse_model("agraph (float[2,3] x) => (float[2,3] y)"
                           "{ a = Exp(x) b = Floor(a) c = Floor(x) d = Add(b, c) y = Round(d) }"),
      {{"x", testing::random_tensor(DataType::kFloat32, {2, 3}, 1)}}};
  std::vector<std::string> outputs;
  problem = with_outputs_to_compare(problem);
  for (const auto& output : problem.model.graph().output()) outputs.push_back(output.name());
  EXPECT_EQ(outputs, (std::vector<std::string>{"y", "a", "d"}));
}

/// Seed 910871 of graphs of operators: Cosh of a constant row's MeanVarianceNormalization is 1 on the
/// reference, and on the chip, by its rounding, a little more, which Bernoulli refuses.
TEST(RandomRows, ProbabilitiesStayProbabilities) {
  int found = 0;
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    RandomNodes nodes(seed, {.elements = 400, .products = 20'000});
    const Tensor zeros(DataType::kFloat32, {4});
    nodes.add("Cosh", {nodes.add_input(zeros).name});
    if (!nodes.attempt([&] { random_row("Bernoulli").add(nodes, "Bernoulli"); })) continue;
    const ValueMap inputs = nodes.input_values();
    const onnx::ModelProto model = nodes.finish_model({nodes.values().back().name});
    const ValueMap values = run_graph_on_values(model, inputs, {.keep_intermediates = true});
    std::map<std::string, std::string> makers;
    for (const auto& node : model.graph().node()) {
      for (const std::string& name : node.output()) makers[name] = node.op_type();
      if (node.op_type() != "Bernoulli" || !makers.contains(node.input(0))) continue;
      const Tensor& probabilities = values.at(node.input(0)).tensor();
      const std::vector<double> near_edges = [&] {
        std::vector<double> list;
        for (int64_t k = 0; k < probabilities.size(); ++k) {
          const double each = element_as_double(probabilities, k);
          if (each < 1e-3 || each > 1 - 1e-3) list.push_back(each);
        }
        return list;
      }();
      if (near_edges.empty()) continue;
      ++found;
      EXPECT_EQ(makers.at(node.input(0)), "Clip") << "seed " << seed;
    }
  }
  EXPECT_GT(found, 0);
}

/// Random small networks, compiled with every planner: outputs as the CPU reference computes them, no
/// hazards, and no layout changed by the host.
TEST(RandomGraph, EveryPlannerComputesTheSame) {
  const isa::Chip chip = isa::find_chip("tiny");
  int64_t relayouts = 0, prepared = 0;
  const int count = isa::rounds(4, 20);
  for (uint64_t seed = 1; seed <= static_cast<uint64_t>(count); ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    const GraphProblem problem = random_problem(seed, GraphKind::kNetwork);
    const onnx::ModelProto model = import_model(problem.model, {}, "fuzz");
    const TensorMap inputs = to_tensors(problem.inputs, "input");
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
  EXPECT_GT(relayouts, 3 * count);
  EXPECT_GT(prepared, count);
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
      {{"x", testing::random_tensor(DataType::kFloat32, {2, 3}, 1)}}};
  const ValueMap values = run_graph_on_values(problem.model, problem.inputs, {.keep_intermediates = true});
  const auto fails = [](const GraphProblem& part) { return testing::count_nodes(part.model, "Add") == 1; };
  const GraphProblem small = shrink_graph(problem, fails, 100);
  ASSERT_EQ(small.model.graph().node_size(), 1);
  EXPECT_EQ(small.model.graph().node(0).op_type(), "Add");
  ASSERT_EQ(small.inputs.size(), 2U);
  EXPECT_TRUE(small.inputs.at("c") == values.at("c"));
  EXPECT_TRUE(run_graph_on_values(small.model, small.inputs).at("d") == values.at("d"));
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

TEST(GraphFuzz, RunsEveryGraphOfOperatorsOnce) {
  std::ostringstream out;
  GraphFuzzRequest request;
  request.operators = true;
  request.seed = 5;
  request.count = 6;
  EXPECT_EQ(graph_fuzz_command(request, out), 0);
  EXPECT_NE(out.str().find("6 graphs from seed 5 in 6 runs (tiny; gfloat, half, float): 6 passed"),
            std::string::npos)
      << out.str();
}

}  // namespace
}  // namespace kodama::compiler
