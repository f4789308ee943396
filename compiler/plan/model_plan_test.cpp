#include "compiler/plan/model_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <map>

#include "compiler/graph/import.h"
#include "compiler/lowering/lowering_test_util.h"
#include "compiler/plan/placement_key.h"
#include "isa/arithmetic.h"
#include "isa/error.h"
#include "isa/file.h"
#include "layout/plan/pbqp_by_cbc.h"

namespace kodama::compiler {
namespace {

using ::testing::ElementsAre;

const isa::Chip& tiny() {
  static const isa::Chip chip = isa::find_chip("tiny");
  return chip;
}
LayerGraph graph_of(const std::string& text) {
  return testing::lower(testing::parse_model(text));
}
/// For a constant.
std::string numbers(int count) {
  std::string text;
  for (int k = 0; k < count; ++k) text += (k == 0 ? "" : ", ") + std::to_string(k % 7 - 3);
  return text;
}
TensorId tensor_named(const LayerGraph& graph, const std::string& name) {
  const auto found = std::ranges::find(graph.tensors, name, &LayerTensor::name);
  EXPECT_NE(found, graph.tensors.end()) << name;
  return static_cast<TensorId>(found - graph.tensors.begin());
}
/// Outputs of all Rearrange layers, as the planner reads through them.
std::set<TensorId> all_rearranges(const LayerGraph& graph) {
  std::set<TensorId> through;
  for (const Layer& layer : graph.layers) {
    if (layer.kind() == LayerKind::kRearrange) through.insert(graph.storage(layer.outputs[0]));
  }
  return through;
}

TEST(ElementOrigins, TheExampleOfTheHeader) {
  const LayerGraph graph = graph_of(
      "agraph (float[2,3] x) => (float[3,3] y) <int64[4] pads = {0, 1, 0, 0}>"
      "{ t = Transpose<perm = [1, 0]>(x) y = Pad(t, pads) }");
  const TensorId x = tensor_named(graph, "x");
  ElementOrigins origins(graph, all_rearranges(graph));
  const TensorId y = graph.outputs[0];
  EXPECT_THAT(origins.roots(y), ElementsAre(x));
  for (int64_t row = 0; row < 3; ++row) {
    EXPECT_EQ(origins.origin(y, 3 * row).root, -1);
    EXPECT_EQ(origins.origin(y, 3 * row).offset, 0);  // zero
    for (int64_t column = 0; column < 2; ++column) {
      EXPECT_EQ(origins.origin(y, 3 * row + 1 + column).root, x);
      EXPECT_EQ(origins.origin(y, 3 * row + 1 + column).offset, 3 * column + row);
    }
  }
}

TEST(ElementOrigins, AgreeWithRunningTheMoves) {
  const std::string text =
      "agraph (float[2,3,4] x, float[2,2,4] z) => (float[5,2,3] y) <int64[6] pads = {0, 1, 0, 0, 0, 1}, "
      "float "
      "seven = {7.0}, int64[1] from = {2}, int64[1] to = {7}, int64[1] axis = {1}, int64[1] by = {1}>"
      "{ c = Concat<axis = 1>(x, z) s = Slice(c, from, to, axis, by) t = Transpose<perm = [1, 2, 0]>(s)"
      "  u = Slice(t, from, to, axis, by) p = Pad(u, pads, seven) w = Transpose<perm = [0, 2, 1]>(p)"
      "  y = Slice(w, from, to, axis, by) }";
  onnx::ModelProto model = testing::parse_model(text);
  model.mutable_graph()->mutable_output(0)->mutable_type()->mutable_tensor_type()->clear_shape();
  const LayerGraph graph = testing::lower(model, false);
  ElementOrigins origins(graph, all_rearranges(graph));
  const TensorMap inputs{{"x", testing::random_tensor(DataType::kFloat32, {2, 3, 4}, 1)},
                         {"z", testing::random_tensor(DataType::kFloat32, {2, 2, 4}, 2)}};
  const TensorMap outputs = interpret_layer_graph(graph, inputs);
  const TensorId y = graph.outputs[0];
  const Tensor& expected = outputs.at(graph.tensors[static_cast<size_t>(y)].name);
  ASSERT_GT(expected.size(), 0);
  for (int64_t k = 0; k < expected.size(); ++k) {
    const ElementOrigin origin = origins.origin(y, k);
    const float value = origin.root < 0
                            ? std::bit_cast<float>(origins.constants()[static_cast<size_t>(origin.offset)])
                            : inputs.at(graph.tensors[static_cast<size_t>(origin.root)].name)
                                  .data<float>()[static_cast<size_t>(origin.offset)];
    EXPECT_EQ(value, expected.data<float>()[static_cast<size_t>(k)]) << k;
  }
}

/// With planners, what comes from the host comes once.
void check_sent(const ModelPlan& plan, const LayerGraph& graph) {
  std::map<TensorId, int> sent;
  for (const PlannedImage& image : plan.images) {
    if (image.kind == PlannedImage::Kind::kSent) ++sent[graph.storage(image.placement.access.tensor)];
  }
  for (const auto& [tensor, count] : sent)
    EXPECT_EQ(count, 1) << graph.tensors[static_cast<size_t>(tensor)].name << " is sent more than once";
}

std::map<std::string, ModelPlan> plans_of(const LayerGraph& graph, const isa::Chip& chip) {
  ModelPlanner planner(graph, chip, {});
  std::map<std::string, ModelPlan> plans;
  for (const std::string& name : ModelPlanner::planner_names()) {
    plans[name] = planner.plan(name);
    verify_model_plan(plans[name], graph);
    if (name != "host") check_sent(plans[name], graph);
  }
  return plans;
}

TEST(ModelPlan, TheBestPlanIsNeverDearer) {
  const char* const convolution =
      "agraph (float[1,2,8,8] x, float[4,2,3,3] w) => (float[1,4,4,4] y)"
      "{ c = Conv<pads = [1, 1, 1, 1]>(x, w) r = Relu(c)"
      "  y = MaxPool<kernel_shape = [2, 2], strides = [2, 2]>(r) }";
  const char* const products =
      "agraph (float[40,24] a, float[24,8] b, float[8,24] c) => (float[40,24] y)"
      "{ d = MatMul(a, b) e = MatMul(d, c) s = Softmax(e) y = Add(s, a) }";
  const char* const move = "agraph (float[6,10] x) => (float[10,6] y) { y = Transpose<perm = [1, 0]>(x) }";
  for (const char* text : {convolution, products, move}) {
    const LayerGraph graph = graph_of(text);
    const auto plans = plans_of(graph, tiny());
    const PlanSummary& best = plans.at("pbqp").summary;
    EXPECT_TRUE(best.proven);
    for (const char* other : {"first", "greedy"})
      EXPECT_LE(best.total(), plans.at(other).summary.total()) << other << ": " << text;
    EXPECT_EQ(plans.at("host").summary.relayouts, 0);
  }
}

class Networks : public ::testing::TestWithParam<const char*> {};
TEST_P(Networks, AnIntegerProgramSolverFindsNoBetterPlan) {
  if (!layout::has_cbc()) GTEST_SKIP() << "cbc (package coinor-cbc) is missing";
  const std::string file = isa::source_path(GetParam());
  if (!std::filesystem::exists(file)) GTEST_SKIP() << "skipped: " << file << " is absent";
  const LayerGraph graph = testing::lower(import_model(file, {}));
  ModelPlanner planner(graph, isa::find_chip("mncore2"), {});
  int problems = 0;
  planner.plan("pbqp", [&](const layout::PlanProblem& problem, const layout::Plan& plan) {
    ++problems;
    EXPECT_TRUE(plan.proven);
    EXPECT_NEAR(plan.cost, layout::by_cbc(layout::as_pbqp(problem)), 1e-6 * plan.cost);
  });
  EXPECT_EQ(problems, 1);
}
INSTANTIATE_TEST_SUITE_P(Samples, Networks,
                         ::testing::Values("testsuite/models/mnist8/model.onnx",
                                           "../shared/data/models/lenet.onnx",
                                           "../shared/data/models/mlp.onnx",
                                           "../shared/data/onnx_mlir_mnist/mnist.onnx"));

/// Costs that are found out only where they matter (layout/plan/planner.h) lead to plans as good as all
/// costs.
TEST(ModelPlan, LazyCostsLoseNothing) {
  const std::vector<std::string> texts{
      "agraph (float[1,2,8,8] x, float[4,2,3,3] w, float[4,4,3,3] v) => (float[1,4,4,4] y)"
      "{ c = Conv<pads = [1, 1, 1, 1]>(x, w) r = Relu(c) p = MaxPool<kernel_shape = [2, 2], strides = [2, "
      "2]>(r)"
      "  q = Conv<pads = [1, 1, 1, 1]>(p, v) y = Add(p, q) }",
      "agraph (float[1,2,9,9] x, float[4,2,1,1] w) => (float[1,4,5,5] y, float[9,9,2,1] z)"
      "{ y = Conv<strides = [2, 2]>(x, w) z = Transpose<perm = [2, 3, 1, 0]>(x) }",
      "agraph (float[40,24] a, float[24,12] b, float[24,28] c, float[40,8] d) => (float[40,8] y)"
      "{ e = MatMul(a, b) f = MatMul(a, c) g = Concat<axis = 1>(e, f) h = MatMul(g, d) y = Softmax(h) }",
      "agraph (float[6,10] x, float[1,10] b) => (float[12,10] y) <int64[2] shape = {12, 10}>"
      "{ r = Relu(b) e = Expand(r, shape) z = Concat<axis = 0>(x, x) y = Mul(e, z) }"};
  for (const std::string& text : texts) {
    const LayerGraph graph = graph_of(text);
    ModelPlanner(graph, tiny(), {})
        .plan("pbqp", [&](const layout::PlanProblem& lazy, const layout::Plan& plan) {
          layout::PlanProblem problem = lazy;
          for (layout::PlanProblem::Tensor& tensor : problem.tensors) {
            tensor.at_least = {};
            for (const auto& from : problem.nodes[static_cast<size_t>(tensor.maker.node)].candidates) {
              for (const auto& use : tensor.readers) {
                for (const auto& to : problem.nodes[static_cast<size_t>(use.node)].candidates) {
                  const int made = from.layouts[static_cast<size_t>(tensor.maker.operand)];
                  const int wanted = to.layouts[static_cast<size_t>(use.operand)];
                  const auto number = &tensor - problem.tensors.data();
                  EXPECT_LE(lazy.tensors[static_cast<size_t>(number)].at_least(made, wanted),
                            tensor.conversion(made, wanted))
                      << tensor.name << ": " << text;
                }
              }
            }
          }
          EXPECT_TRUE(plan.proven);
          EXPECT_EQ(layout::plan(problem, "pbqp").cost, plan.cost) << text;
          for (const char* name : {"greedy", "first"})
            EXPECT_EQ(layout::plan(problem, name).choice, layout::plan(lazy, name).choice)
                << name << ": " << text;
        });
  }
}

TEST(DifferentElements, AreThoseInsideTheTensor) {
  // Windows of 3 x 3 with stride 2 over 8 x 7, one around it is outside: rows 0 .. 7 of 8, columns 0 .. 6.
  StreamPlacement stream;
  stream.extents = {4, 4, 3, 3};
  stream.access.map = AffineMap(2, 4);
  stream.access.map.set(0, 0, 2).set(0, 2, 1).set_offset(0, -1).set(1, 1, 2).set(1, 3, 1).set_offset(1, -1);
  EXPECT_EQ(different_elements(stream, {8, 7}), 8 * 7);
  // Without windows, every second row and column, the first ones outside.
  stream.extents = {4, 4, 1, 1};
  EXPECT_EQ(different_elements(stream, {8, 7}), 3 * 3);
  stream.access.map.set_offset(0, 100);
  EXPECT_EQ(different_elements(stream, {8, 7}), 0);
  // A diagonal: at least one in every row.
  stream.access.map = AffineMap(2, 4);
  stream.access.map.set(0, 0, 1).set(1, 0, 1);
  EXPECT_EQ(different_elements(stream, {8, 7}), 4);
}

TEST(ModelPlan, AMoveIsReadThrough) {
  // Joining the results costs no relayout of its own: it is part of the one in front of the product.
  const LayerGraph graph = graph_of(
      "agraph (float[40,24] a, float[24,12] b, float[24,28] c, float[40,8] d) => (float[40,8] y)"
      "{ e = MatMul(a, b) f = MatMul(a, c) g = Concat<axis = 1>(e, f) y = MatMul(g, d) }");
  ASSERT_EQ(std::ranges::count(graph.layers, LayerKind::kRearrange, &Layer::kind), 1);
  for (const auto& [name, plan] : plans_of(graph, tiny())) {
    if (name == "host") continue;
    std::vector<const PlannedStage*> joining;
    for (const PlannedStage& stage : plan.stages) {
      EXPECT_NE(stage.kind, PlannedStage::Kind::kHostRearrange);
      if (!stage.rearrange_layers.empty()) joining.push_back(&stage);
    }
    ASSERT_EQ(joining.size(), 1U) << name;
    EXPECT_THAT(joining[0]->roots, ElementsAre(tensor_named(graph, "e"), tensor_named(graph, "f")));
    EXPECT_EQ(graph.layers[static_cast<size_t>(joining[0]->layer)].kind(), LayerKind::kContract);
  }
}

TEST(ModelPlan, ImagesOfTheSameWordsNeedNoMove) {
  // One layer writes e in the order in which the other reads it: two streams, one image.
  const LayerGraph graph = graph_of(
      "agraph (float[64,64] a, float[64,64] b, float[64,64] c) => (float[64,64] e, float[64,64] y)"
      "{ e = Add(a, b) y = Mul(e, c) }");
  ModelPlanner planner(graph, tiny(), {});
  const ModelPlan plan = planner.plan("pbqp");
  verify_model_plan(plan, graph);
  int read_where_made = 0;
  for (const PlannedStage& stage : plan.stages) {
    EXPECT_EQ(stage.kind, PlannedStage::Kind::kKernel);
    for (const int image : stage.operands)
      read_where_made += plan.images[static_cast<size_t>(image)].kind == PlannedImage::Kind::kMade ? 1 : 0;
  }
  EXPECT_EQ(read_where_made, 1);
}

TEST(ModelPlan, MapsTakeOverTheLayoutsOfProducts) {
  const LayerGraph graph = graph_of(
      "agraph (float[64,96] x, float[64,80] dy, float[80,96] w, float rate) => (float[80,96] y, float[96,80] "
      "g) {"
      "  xt = Transpose<perm = [1, 0]>(x) g = MatMul(xt, dy) gt = Transpose<perm = [1, 0]>(g)"
      "  step = Mul(rate, gt) y = Sub(w, step) }");
  const TensorId w = tensor_named(graph, "w");
  ModelPlanner planner(graph, tiny(), {}, nullptr, {{graph.outputs[0], w}});
  const ModelPlan plan = planner.plan("pbqp");
  verify_model_plan(plan, graph);
  bool is_there = false;
  for (const PlannedStage& stage : plan.stages) {
    const Layer& layer = graph.layers[static_cast<size_t>(stage.layer)];
    if (layer.kind() != LayerKind::kMap) continue;
    EXPECT_EQ(stage.kind, PlannedStage::Kind::kKernel) << layer.name << " needs a relayout";
    is_there = true;
    // A single element comes by itself.
    for (const StreamPlacement& placement : stage.candidate.placements) {
      if (placement.access.tensor == tensor_named(graph, "rate")) {
        EXPECT_LE(placement.length_lw, 16);
      }
    }
  }
  EXPECT_TRUE(is_there);
}

TEST(ModelPlan, InputsAreSentAsHalves) {
  // Once for both products, and as floats to the sum; what a layer makes has floats.
  const LayerGraph graph = graph_of(
      "agraph (float[64,64] a, float[64,64] b) => (float[64,64] x, float[64,64] y, float[64,64] z)"
      "{ x = MatMul(a, b) y = MatMul(x, b) z = Add(b, a) }");
  for (const char* planner : {"pbqp", "greedy", "first"}) {
    const ModelPlan plan = ModelPlanner(graph, tiny(), {MatrixPrecision::kHalf}).plan(planner);
    verify_model_plan(plan, graph);
    std::map<TensorId, int> halves, floats;
    for (const PlannedImage& image : plan.images) {
      if (image.kind != PlannedImage::Kind::kSent) continue;
      ++(image.placement.element == StreamElement::kHalf ? halves : floats)[image.placement.access.tensor];
    }
    EXPECT_EQ(halves.size(), 2U) << planner;
    EXPECT_EQ(halves.count(tensor_named(graph, "x")), 0U) << planner;
    EXPECT_EQ(floats[tensor_named(graph, "a")], 1) << planner;
    EXPECT_EQ(floats[tensor_named(graph, "b")], 1) << planner;
  }
}

TEST(ModelPlan, ConstantsAreStreamedWhereLoadsTakeLonger) {
  LayerGraph graph = graph_of(
      "agraph (float[2048,2048] a, float[2048,2048] b) => (float[2048,2048] y) { y = MatMul(a, b) }");
  const TensorId b = tensor_named(graph, "b");
  graph.tensors[static_cast<size_t>(b)].constant = Tensor(DataType::kFloat32, {2048, 2048});
  std::erase(graph.inputs, b);
  const auto candidates =
      layer_candidates(graph.layers[0], graph, isa::find_chip("mncore2"), {MatrixPrecision::kHalf});
  EXPECT_TRUE(std::ranges::any_of(candidates, [](const Candidate& candidate) {
    return candidate.description.find("streamed") != std::string::npos;
  }));
}

TEST(ModelPlan, AMoveToTheHostNeedsAllElements) {
  // The strided convolution alone would have x sent without every second row and column.
  const LayerGraph graph = graph_of(
      "agraph (float[1,2,9,9] x, float[4,2,1,1] w) => (float[1,4,5,5] y, float[9,9,2,1] z)"
      "{ y = Conv<strides = [2, 2]>(x, w) z = Transpose<perm = [2, 3, 1, 0]>(x) }");
  for (const auto& [name, plan] : plans_of(graph, tiny())) {
    if (name == "host") continue;
    EXPECT_GT(plan.summary.relayouts, 0) << name;
  }
}

TEST(ModelPlan, OtherTypesGoByTheHost) {
  const LayerGraph graph =
      graph_of("agraph (complex64[2,3] x) => (complex64[3,2] y) { y = Transpose<perm = [1, 0]>(x) }");
  const ModelPlan plan = plans_of(graph, tiny()).at("pbqp");
  ASSERT_EQ(plan.stages.size(), 1U);
  EXPECT_EQ(plan.stages[0].kind, PlannedStage::Kind::kHostRearrange);
}

TEST(ModelPlan, TheVerifierFindsWhatIsWrong) {
  const LayerGraph graph = graph_of(
      "agraph (float[40,24] a, float[24,8] b, float[8,24] c) => (float[40,24] y)"
      "{ d = MatMul(a, b) e = MatMul(d, c) s = Softmax(e) y = Add(s, a) }");
  const ModelPlan good = plans_of(graph, tiny()).at("pbqp");
  const auto rejects = [&](const auto& damage) {
    ModelPlan plan = good;
    damage(plan);
    EXPECT_THROW(verify_model_plan(plan, graph), isa::InternalError);
  };
  rejects([](ModelPlan& plan) { plan.stages.pop_back(); });
  rejects([](ModelPlan& plan) { plan.stages.push_back(plan.stages.back()); });
  rejects([](ModelPlan& plan) { std::swap(plan.stages.front(), plan.stages.back()); });
  rejects([](ModelPlan& plan) { plan.stages.back().operands.pop_back(); });
  rejects([](ModelPlan& plan) { plan.stages.back().operands.back() = 1000; });
  for (size_t k = 0; k < good.images.size(); ++k) {
    if (good.images[k].first_stage == good.images[k].last_stage) continue;
    rejects([&](ModelPlan& plan) { plan.images[k].last_stage = plan.images[k].first_stage; });
    rejects([&](ModelPlan& plan) { plan.images[k].first_stage = plan.images[k].last_stage; });
  }
}

TEST(ModelPlan, UnknownPlanner) {
  const LayerGraph graph = graph_of("agraph (float[2] x) => (float[2] y) { y = Relu(x) }");
  EXPECT_THROW(ModelPlanner(graph, tiny(), {}).plan("best"), isa::UserError);
}

bool is_same_image(const StreamPlacement& target, TensorId root, const StreamPlacement& image,
                   ElementOrigins& origins, const LayerGraph& graph, const isa::Chip& chip) {
  const Shape& shape = graph.tensors[static_cast<size_t>(image.access.tensor)].shape;
  return is_same_image(WantedStream(target, graph, chip), root, image, stream_places(image, shape, chip),
                       origins, graph, chip);
}

TEST(SameImage, PaddingDecides) {
  const isa::Chip& chip = tiny();
  LayerGraph graph;
  for (const char* name : {"x", "y"}) {
    LayerTensor tensor;
    tensor.name = name;
    tensor.shape = {7};
    graph.tensors.push_back(tensor);
  }
  ElementOrigins origins(graph, {});
  // Seven elements in four long words: one word is padding.
  const StreamPlacement sent = natural_placement(0, {7}, chip);
  StreamPlacement wanted = sent;
  EXPECT_TRUE(is_same_image(wanted, 0, sent, origins, graph, chip));
  StreamPlacement made = sent;
  made.is_output = true;
  EXPECT_FALSE(is_same_image(wanted, 0, made, origins, graph, chip));
  wanted.layout.set_padding(layout::Padding::kUndefined);
  EXPECT_TRUE(is_same_image(wanted, 0, made, origins, graph, chip));
  wanted.layout.set_padding(layout::Padding::kOne);
  EXPECT_FALSE(is_same_image(wanted, 0, sent, origins, graph, chip));
  EXPECT_FALSE(is_same_image(sent, 1, sent, origins, graph, chip));
}

TEST(NumberedPlacements, ThoseWithOneKeyHaveOneNumber) {
  const isa::Chip& chip = tiny();
  std::vector<std::vector<Candidate>> candidates(1, std::vector<Candidate>(3));
  for (size_t k = 0; k < 3; ++k) candidates[0][k].placements = {natural_placement(0, {k == 1 ? 9 : 7}, chip)};
  const StreamPlacement of_other_tensor = natural_placement(1, {7}, chip);
  NumberedPlacements placements;
  placements.expect(candidates);
  const auto number_of = [&](size_t k) { return placements.number_of(candidates[0][k].placements[0]); };
  EXPECT_EQ(number_of(0), 0);
  EXPECT_EQ(number_of(1), 1);
  EXPECT_EQ(number_of(2), 0);
  EXPECT_EQ(placements.number_of(of_other_tensor), 2);
  EXPECT_EQ(placements.key(0), placements.key(2));
  EXPECT_NE(placements.key(0), placements.key(1));
  EXPECT_EQ(placements[1].extents, candidates[0][1].placements[0].extents);
  // As another kernel describes it.
  StreamPlacement made = placements[0];
  made.is_output = true;
  made.layout.set_padding(layout::Padding::kUndefined);
  EXPECT_NE(key_of(made), placements.key(0));
  EXPECT_EQ(placements.key_as(0, layout::Padding::kUndefined, true, false), key_of(made));
  EXPECT_EQ(placements.key_as(0, layout::Padding::kUndefined, true, true), key_of(essential(made)));
  const int number = placements.number_of(made);
  EXPECT_EQ(number, 3);
  EXPECT_EQ(placements.key_as(number, made.layout.padding(), made.is_output, false), placements.key(number));
}

TEST(PlacementKey, ImagesOfOtherShapes) {
  using layout::Factor;
  using layout::Level;
  const std::vector<Factor> channels = {{2, Level::kPe, 1}},
                            rows = {{2, Level::kL2b, 1}, {6, Level::kAddress, 1}};
  const auto image = [&](const Shape& shape, const std::vector<std::vector<int>>& axis_dims,
                         std::vector<Factor> last) {
    StreamPlacement placement;
    placement.access.map = AffineMap::identity(shape.size());
    placement.extents = shape;
    placement.axis_dims = axis_dims;
    placement.layout = layout::Layout({channels, std::move(last)}, layout::Memory::kLm1, {});
    placement.length_lw = 6;
    EXPECT_TRUE(is_whole(placement, shape));
    return placement;
  };
  const StreamPlacement plain = image({2, 12}, {{0}, {1}}, rows);
  StreamPlacement apart = image({2, 4, 3}, {{0}, {1, 2}}, rows);
  EXPECT_TRUE(are_alike(plain, apart));
  apart.is_output = true;
  apart.layout.set_padding(layout::Padding::kUndefined);
  EXPECT_TRUE(are_alike(plain, apart));
  // Axes in another order, or other places.
  EXPECT_FALSE(are_alike(plain, image({2, 4, 3}, {{0}, {2, 1}}, rows)));
  EXPECT_FALSE(
      are_alike(plain, image({2, 4, 3}, {{0}, {1, 2}}, {{6, Level::kAddress, 1}, {2, Level::kL2b, 1}})));
  EXPECT_FALSE(are_alike(plain, image({12, 2}, {{1}, {0}}, rows)));
  // Only parts of tensors are something else.
  StreamPlacement part = plain;
  part.extents = {2, 6};
  EXPECT_FALSE(is_whole(part, {2, 12}));
}

/// Placements of all candidates, operands and results.
std::vector<StreamPlacement> all_placements(const LayerGraph& graph, const isa::Chip& chip) {
  const ModelPlanner planner(graph, chip, {});
  std::vector<StreamPlacement> placements;
  for (size_t layer = 0; layer < graph.layers.size(); ++layer) {
    for (const Candidate& candidate : planner.candidates(static_cast<int>(layer)))
      placements.insert(placements.end(), candidate.placements.begin(), candidate.placements.end());
  }
  std::erase_if(placements, [](const StreamPlacement& each) { return each.element == StreamElement::kHalf; });
  return placements;
}

TEST(SameImage, ProbesRejectNoneThatAre) {
  const LayerGraph graph = graph_of(
      "agraph (float[40,24] a, float[24,12] b, float[24,28] c, float[40,40] d) => (float[40,40] y)"
      "{ e = MatMul(a, b) f = MatMul(a, c) g = Concat<axis = 1>(e, f) s = Softmax(g) t = Transpose(s)"
      "  u = Add(s, d) v = Mul(u, d) y = MatMul(v, t) }");
  ElementOrigins origins(graph, all_rearranges(graph));
  const std::vector<StreamPlacement> placements = all_placements(graph, tiny());
  int same = 0;
  int rejected = 0;
  for (const StreamPlacement& target : placements) {
    for (const StreamPlacement& image : placements) {
      const TensorId root = graph.storage(image.access.tensor);
      if (target.is_output || origins.reads_through(root)) continue;
      const bool may_be = may_be_same_image(target, root, image, origins, graph);
      const bool is = is_same_image(target, root, image, origins, graph, tiny());
      EXPECT_TRUE(may_be || !is) << target.name << " " << image.name;
      same += is ? 1 : 0;
      rejected += may_be ? 0 : 1;
    }
  }
  EXPECT_GT(same, 0);
  EXPECT_GT(rejected, same);
}

const std::string& of_many_layouts() {
  static const std::string text = fmt::format(
      "agraph (float[2,16,12,20] x) => (float[2,24,6,10] y) <float[16,16,3,3] v = {{{}}},"
      " float[24,16,1,1] w = {{{}}}> {{ a = Conv<pads = [1, 1, 1, 1]>(x, v) b = Relu(a)"
      " c = MaxPool<kernel_shape = [2, 2], strides = [2, 2]>(b) d = Conv(c, w) y = Softmax(d) }}",
      numbers(16 * 16 * 9), numbers(24 * 16));
  return text;
}

TEST(StreamPlaces, OneByOneAreThoseOfAll) {
  const LayerGraph graph = graph_of(of_many_layouts());
  int compared = 0;
  for (const isa::Chip& chip : {tiny(), isa::find_chip("mncore2")}) {
    for (const StreamPlacement& placement : all_placements(graph, chip)) {
      if (!dims_of_axes(placement)) continue;
      const Shape& shape = graph.tensors[static_cast<size_t>(placement.access.tensor)].shape;
      const std::vector<StreamWord> all = stream_places(placement, shape, chip);
      const StreamPlaces places(placement, shape, chip);
      for (size_t offset = 0; offset < all.size(); ++offset) {
        ASSERT_EQ(places[static_cast<int64_t>(offset)], all[offset])
            << placement.layout.to_string() << ", element " << offset;
      }
      ++compared;
    }
  }
  EXPECT_GT(compared, 10);
}

TEST(StreamElements, OfAStreamCutShortAreItsFirst) {
  const LayerGraph graph = graph_of(of_many_layouts());
  int compared = 0;
  for (const isa::Chip& chip : {tiny(), isa::find_chip("mncore2")}) {
    for (const StreamPlacement& placement : all_placements(graph, chip)) {
      StreamPlacement cut = placement;
      cut.length_lw = isa::round_up((placement.length_lw + 2) / 3, placement.transport.granule());
      if (cut.length_lw >= placement.length_lw) continue;
      const Shape& shape = graph.tensors[static_cast<size_t>(placement.access.tensor)].shape;
      const auto all = stream_elements(placement, shape, chip);
      const auto some = stream_elements(cut, shape, chip);
      const auto parts = static_cast<size_t>(placement.transport.parts_per_group());
      for (size_t group = 0; group < all.size(); ++group) {
        const size_t of_part = some[group].size() / parts;
        for (size_t k = 0; k < some[group].size(); ++k) {
          ASSERT_EQ(some[group][k], all[group][k / of_part * (all[group].size() / parts) + k % of_part])
              << placement.layout.to_string() << ", LW " << k << " of group " << group;
        }
      }
      ++compared;
    }
  }
  EXPECT_GT(compared, 50);
}

/// What large images cost by a sample is near what they cost: from layouts that kernels make to those that
/// kernels read. Every so many of the pairs; all of them take minutes.
void check_samples(size_t step) {
  const isa::Chip chip = isa::find_chip("mncore2");
  const LayerGraph graph = graph_of(
      "agraph (float[4,64,56,56] x, float[64,64,3,3] v) => (float[4,64,56,56] y)"
      "{ a = Relu(x) b = Conv<pads = [1, 1, 1, 1]>(a, v) y = Sigmoid(b) }");
  ElementOrigins origins(graph, {});
  const std::vector<StreamPlacement> placements = all_placements(graph, chip);
  double sum = 0;
  size_t pairs = 0;
  int compared = 0;
  for (const StreamPlacement& image : placements) {
    if (!image.is_output) continue;
    const TensorId root = graph.storage(image.access.tensor);
    const Shape& shape = graph.tensors[static_cast<size_t>(image.access.tensor)].shape;
    for (const StreamPlacement& target : placements) {
      if (target.is_output || graph.storage(target.access.tensor) != root || pairs++ % step != 0) continue;
      const std::vector<StreamWord> places = stream_places(image, shape, chip);
      const WantedStream wanted(target, graph, chip);
      if (is_same_image(wanted, root, image, places, origins, graph, chip)) continue;
      const auto problem = gather_problem(wanted, 0, {{root, {&places, 0}}}, origins, graph);
      const auto whole = static_cast<double>(layout::Gather(*problem, chip).estimated_cycles());
      const double sampled = large_gather_cycles(target, root, image, origins, graph, chip);
      const std::string ways = image.layout.to_string() + " -> " + target.layout.to_string();
      EXPECT_GT(sampled, 0.5 * whole) << ways;
      EXPECT_LT(sampled, 20 * whole) << ways;
      sum += std::log(sampled / whole);
      ++compared;
    }
  }
  EXPECT_GT(compared, 3);
  EXPECT_LT(std::exp(sum / compared), 2.5);
}
TEST(LargeGathers, AreNearTheWhole) {
  check_samples(13);
}
TEST(LargeGathers, NightlyAreNearTheWhole) {
  check_samples(1);
}

/// 2^30 elements one by one would take 20 GB. A plan needs only their number; a program of such a relayout
/// can't be had.
TEST(ModelPlan, HugeTensors) {
  const isa::Chip chip = isa::find_chip("mncore2");
  const LayerGraph graph = graph_of("agraph (float[1073741824] x) => (float[1073741824] y) { y = Relu(x) }");
  ModelPlanner planner(graph, chip, {});
  const ModelPlan direct = planner.plan("pbqp");
  EXPECT_EQ(direct.summary.relayouts, 0);
  const ModelPlan plan = planner.plan("first");
  ASSERT_EQ(plan.stages.size(), 2U);
  EXPECT_EQ(plan.stages[0].kind, PlannedStage::Kind::kRelayout);
  // DRAM passes every element twice, half as much for tables.
  EXPECT_GE(static_cast<double>(plan.summary.relayout_cycles),
            2.5 * (1 << 29) / (chip.transfer.dram_lw_per_cycle * chip.groups));
  EXPECT_GT(plan.summary.constant_cycles, 0);
  const std::vector<int64_t> addresses(plan.images.size(), 0);
  EXPECT_THROW(planner.gather(plan, plan.stages[0], addresses), isa::UnsupportedError);

  const LayerGraph turned =
      graph_of("agraph (float[32768,32768] x) => (float[32768,32768] y) { y = Transpose(x) }");
  EXPECT_THROW(ModelPlanner(turned, chip, {}).plan("pbqp"), isa::UnsupportedError);
  EXPECT_EQ(ModelPlanner(turned, chip, {}).plan("host").stages.size(), 1U);
}

/// Products that have a large operand in common want it in the same place, whatever their other operands are.
TEST(ModelPlan, LargeOperandsServeSeveralProducts) {
  const LayerGraph graph = graph_of(
      "agraph (float[2304,2304] a, float[2304,16] b, float[2304,8] c) => (float[2304,16] x, float[2304,8] y) "
      "{ x = MatMul(a, b) y = MatMul(a, c) }");
  const ModelPlan plan = ModelPlanner(graph, isa::find_chip("mncore2"), {}).plan("pbqp");
  const TensorId a = tensor_named(graph, "a");
  for (const PlannedStage& stage : plan.stages) EXPECT_EQ(std::ranges::count(stage.roots, a), 0);
}

TEST(ModelPlan, HeadsNeedNoRelayouts) {
  // Entries are heads, then images, as what makes them has channels in the L2Bs.
  const LayerGraph graph = graph_of(
      "agraph (float[2,16,64] x, float[2,16,64] z) => (float[2,16,64] y)"
      "<float[64,256] a = {" +
      numbers(64 * 256) + "}, float[256,64] b = {" + numbers(256 * 64) +
      "}, int64[4] heads = {2, 16, 8, 32}, int64[3] tokens = {2, 16, 256}>"
      "{ q = MatMul(x, a) k = MatMul(z, a) qh = Reshape(q, heads) kh = Reshape(k, heads)"
      " qt = Transpose<perm=[0,2,1,3]>(qh) kt = Transpose<perm=[0,2,3,1]>(kh) s = MatMul(qt, kt)"
      " e = Relu(s) vt = Transpose<perm=[0,2,1,3]>(kh) o = MatMul(e, vt) t = Transpose<perm=[0,2,1,3]>(o)"
      " c = Reshape(t, tokens) y = MatMul(c, b) }");
  const ModelPlan plan = ModelPlanner(graph, isa::find_chip("mncore2"), {}).plan("pbqp");
  verify_model_plan(plan, graph);
  for (const PlannedStage& stage : plan.stages) {
    for (const char* made : {"q", "k", "e"})
      EXPECT_EQ(std::ranges::count(stage.roots, tensor_named(graph, made)), 0) << made;
  }
}

/// Constants that stay have a price where the PEs have no room for all of them: then they are spread.
TEST(ModelPlan, ConstantsThatStayHaveRoom) {
  const isa::Chip chip = isa::find_chip("mncore2");
  const auto constants_lw = [&](int layers, bool stay) {
    std::string text;
    for (int k = 0; k < layers; ++k)
      text += fmt::format(" m{0} = MatMul (r{0}, w{0}) r{1} = Relu (m{0})", k, k + 1);
    onnx::ModelProto model = testing::parse_model(
        fmt::format("g (float[64,1024] r0) => (float[64,1024] r{}) {{{} }}", layers, text));
    for (int k = 0; k < layers; ++k) testing::add_random(model, fmt::format("w{}", k), {1024, 1024});
    const LayerGraph graph = testing::lower(model);
    KernelOptions options;
    options.constants_stay = stay;
    int64_t lw = 0;
    for (const PlannedStage& stage : ModelPlanner(graph, chip, options).plan("pbqp").stages)
      lw += stage.candidate.constant_lw;
    return lw;
  };
  const int64_t both = 2 * chip.memory.lm_words / isa::kWordsPerLong;
  const int64_t alone = constants_lw(1, true);
  EXPECT_GT(8 * alone, both);
  EXPECT_LE(constants_lw(8, true), both);
}

/// Constants that come from DRAM in every run take its cycles beside those of their kernels; so 128 channels
/// of 28 x 28 have matrices that no group loads for itself.
TEST(ModelPlan, StreamedConstantsTakeDram) {
  const isa::Chip chip = isa::find_chip("mncore2");
  onnx::ModelProto model = testing::parse_model(
      "g (float[1,128,28,28] x) => (float[1,128,28,28] z) { a = Conv <pads = [1, 1, 1, 1]> (x, v) "
      "y = Relu (a) b = Conv <pads = [1, 1, 1, 1]> (y, w) z = Relu (b) }");
  for (const char* name : {"v", "w"}) testing::add_random(model, name, {128, 128, 3, 3});
  const LayerGraph graph = testing::lower(model);
  for (const bool stay : {false, true}) {
    KernelOptions options;
    options.constants_stay = stay;
    const ModelPlan plan = ModelPlanner(graph, chip, options).plan("pbqp");
    int64_t of_kernels = 0;
    for (const PlannedStage& stage : plan.stages)
      of_kernels += stage.kind == PlannedStage::Kind::kKernel ? stage.estimated_cycles : 0;
    int64_t lw = 0;
    for (const PlannedImage& image : plan.images)
      lw += image.kind == PlannedImage::Kind::kConstant ? stream_group_lw(image.placement) : 0;
    const double in_dram = static_cast<double>(lw) / chip.transfer.dram_lw_per_cycle;
    EXPECT_NEAR(static_cast<double>(plan.summary.kernel_cycles - of_kernels), stay ? 0 : in_dram, 2);
    if (stay) continue;
    // Four groups with all matrices each would load four times as many words as there are.
    EXPECT_LT(lw * isa::kWordsPerLong * chip.groups, 2 * (2 * 128 * 128 * 9));
  }
}

/// What is planned for large tensors by their size is near what is planned element by element.
TEST(ModelPlan, RoughCostsAreNearTheEstimates) {
  const isa::Chip chip = isa::find_chip("mncore2");
  const auto relayout_cycles = [&](int64_t elements) {
    const LayerGraph graph =
        graph_of(fmt::format("agraph (float[{}] x) => (float[{}] y) {{ y = Relu(x) }}", elements, elements));
    return static_cast<double>(ModelPlanner(graph, chip, {}).plan("first").summary.relayout_cycles);
  };
  const double per_element = relayout_cycles(1 << 20) / (1 << 20);
  const double rough = relayout_cycles(1 << 23) / (1 << 23);
  EXPECT_GT(rough, per_element / 4);
  EXPECT_LT(rough, per_element * 4);
}

}  // namespace
}  // namespace kodama::compiler
