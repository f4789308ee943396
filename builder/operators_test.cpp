#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <onnx/defs/schema.h>

#include <algorithm>
#include <set>
#include <type_traits>

#include "builder/operator_call_test.h"
#include "compiler/driver/random_graph.h"
#include "compiler/graph/import.h"
#include "compiler/graph/onnx_model.h"
#include "compiler/graph/walk.h"
#include "compiler/reference/executor.h"
#include "compiler/reference/onnx_backend_test.h"

namespace kodama::builder::testing {
namespace {

// What is required is seen by the compiler.
static_assert(!std::is_default_constructible_v<op::ConcatAttributes>);
static_assert(!std::is_default_constructible_v<op::LoopAttributes>);
static_assert(std::is_default_constructible_v<op::ConvAttributes>);
// Results whose first output alone must be there stand for it.
static_assert(std::is_convertible_v<op::MaxPoolResults, Value>);
static_assert(!std::is_convertible_v<op::TopKResults, Value>);

TEST(Operators, EachOfOpset17AndOfTheTrainingDomainHasAFunction) {
  std::set<std::pair<std::string, std::string>> expected;
  for (const auto& schema : onnx::OpSchemaRegistry::get_all_schemas()) {
    if (!schema.domain().empty() && schema.domain() != "ai.onnx.preview.training") continue;
    const auto* current = onnx::OpSchemaRegistry::Schema(
        schema.Name(), schema.domain().empty() ? compiler::kOpsetVersion : 1, schema.domain());
    if (current != nullptr && !current->deprecated()) expected.emplace(schema.domain(), schema.Name());
  }
  EXPECT_EQ(expected.size(), 180U);
  EXPECT_EQ(std::set(all_operators().begin(), all_operators().end()), expected);
}

/// Whether all of its operators are in opset 17 what they are in the model.
bool is_of_opset_17(const onnx::ModelProto& model) {
  bool is = true;
  compiler::for_each_node(model, [&](const onnx::NodeProto& node) {
    const auto* schema = compiler::find_schema(model, node);
    const auto* current = onnx::OpSchemaRegistry::Schema(
        node.op_type(), node.domain().empty() ? compiler::kOpsetVersion : 1, node.domain());
    is &= schema != nullptr && current != nullptr && schema->since_version() == current->since_version();
  });
  return is;
}

/// Without nodes that no output depends on, which the builder leaves out.
onnx::ModelProto without_dead_nodes(onnx::ModelProto model) {
  std::set<std::string> needed;
  for (const auto& output : model.graph().output()) needed.insert(output.name());
  std::set<int> dead;
  for (int k = model.graph().node_size() - 1; k >= 0; --k) {
    const onnx::NodeProto& node = model.graph().node(k);
    if (std::ranges::any_of(node.output(), [&](const auto& output) { return needed.contains(output); })) {
      needed.merge(compiler::names_read(node));
    } else {
      dead.insert(k);
    }
  }
  compiler::remove_nodes(*model.mutable_graph(), [&](int k) { return dead.contains(k); });
  return model;
}

/// Builds it again; empty if that gives the same graph.
std::string rebuilt_difference(const onnx::ModelProto& model, std::set<std::string>& called) {
  try {
    Graph graph("g");
    rebuild(model, graph);
    const onnx::ModelProto again = graph.model();
    for (const auto& node : again.graph().node()) called.insert(node.op_type());
    return difference(without_dead_nodes(model), again);
  } catch (const isa::Error& error) {
    return error.what();
  }
}

// ONNX's own tests: every choice of operands and attributes that they have, built by functions, is the node
// that they have.
TEST(Operators, NodeTestsBuiltAgainAreTheSame) {
  const auto root = compiler::find_onnx_tests();
  if (!root) GTEST_SKIP() << "ONNX's node tests aren't installed";
  std::set<std::string> called;
  int same = 0;
  for (const auto& directory : compiler::list_backend_tests(*root)) {
    const compiler::BackendTestCase test = compiler::load_backend_test(directory);
    if (!test.skip_reason.empty() || !is_of_opset_17(test.model)) continue;
    SCOPED_TRACE(test.name);
    EXPECT_EQ(rebuilt_difference(test.model, called), "");
    ++same;
  }
  EXPECT_GT(same, 800);
  fmt::print("{} models of {} operators\n", same, called.size());
}

TEST(Operators, RandomModelsBuiltAgainAreTheSame) {
  std::set<std::string> called;
  int same = 0;
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    const compiler::GraphProblem problem = compiler::random_problem(seed, compiler::GraphKind::kOperators);
    SCOPED_TRACE(seed);
    const std::string text = rebuilt_difference(problem.model, called);
    // libonnx refuses StringNormalizer of a matrix whose extents aren't known, though it may have one row.
    if (text.find("(StringNormalizer): Input shape must have either") != std::string::npos) continue;
    EXPECT_EQ(text, "");
    ++same;
  }
  fmt::print("{} models of {} operators\n", same, called.size());
  EXPECT_GE(same, 55);
  EXPECT_GT(called.size(), 150U);
}

}  // namespace
}  // namespace kodama::builder::testing
