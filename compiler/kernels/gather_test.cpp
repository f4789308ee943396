/// Gather layers on the simulator, and reductions that share their elements, against the interpreter.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "compiler/kernels/builtin_kernels.h"
#include "compiler/kernels/kernel.h"
#include "compiler/kernels/kernel_test_util.h"
#include "compiler/kernels/split_gathers.h"
#include "compiler/layers/formula.h"
#include "compiler/layers/interpreter.h"

namespace kodama::compiler {
namespace {

using testing::run_candidate;

using Random = std::mt19937;

int64_t below(Random& random, int64_t end) {
  return std::uniform_int_distribution<int64_t>(0, end - 1)(random);
}

/// A layer and its tensors: operands first, the result last.
struct LayerCase {
  LayerGraph graph;
  Layer layer;
  std::vector<Tensor> values;

  TensorId add(const std::string& name, Tensor value) {
    graph.tensors.push_back({name, value.type(), value.shape(), {}, -1});
    graph.inputs.push_back(static_cast<TensorId>(graph.tensors.size()) - 1);
    values.push_back(std::move(value));
    return graph.inputs.back();
  }
  void finish(decltype(Layer::body) body, DataType type, const Shape& shape) {
    graph.tensors.push_back({"y", type, shape, {}, -1});
    layer.name = "layer";
    layer.onnx_ops = {"Gather"};
    layer.onnx_nodes = {"node"};
    layer.body = std::move(body);
    layer.outputs = {static_cast<TensorId>(graph.tensors.size()) - 1};
    graph.layers = {layer};
    graph.outputs = layer.outputs;
    verify_layer_graph(graph, "test");
  }
  TensorMap inputs() const {
    TensorMap map;
    for (const TensorId id : graph.inputs)
      map.emplace(graph.tensors[static_cast<size_t>(id)].name, values[static_cast<size_t>(id)]);
    return map;
  }
  Tensor expected() const { return interpret_layer_graph(graph, inputs()).at("y"); }
};

Tensor random_words(Random& random, DataType type, const Shape& shape, int64_t first, int64_t last) {
  Tensor tensor(type, shape);
  if (type == DataType::kFloat32) {
    for (float& element : tensor.data<float>())
      element = static_cast<float>(first + below(random, last - first)) * 0.5F;
  } else {
    for (int32_t& element : tensor.data<int32_t>())
      element = static_cast<int32_t>(first + below(random, last - first));
  }
  return tensor;
}

/// Of dims that choose tables, indices or both, in any order; indices may be out of range.
LayerCase random_gather(Random& random, int64_t most_places) {
  LayerCase made;
  GatherLayer gather;
  gather.places = 1 + below(random, most_places);
  const auto rank = static_cast<size_t>(1 + below(random, 4));
  Shape data_shape, index_shape;
  std::vector<size_t> data_dims, index_dims;
  int64_t left = 3000;
  for (size_t dim = 0; dim < rank; ++dim) {
    const int64_t extent = 1 + below(random, std::min<int64_t>(left, below(random, 3) == 0 ? 200 : 9));
    left = std::max<int64_t>(left / extent, 1);
    gather.extents.push_back(extent);
    const int64_t kind = below(random, 3);
    if (kind != 0) {
      index_dims.push_back(dim);
      index_shape.push_back(extent);
    }
    if (kind != 1) {
      data_dims.push_back(dim);
      data_shape.push_back(extent);
    }
  }
  if (index_dims.empty()) {
    index_dims.push_back(0);
    index_shape.push_back(gather.extents[0]);
  }
  const auto at = static_cast<size_t>(below(random, std::ssize(data_shape) + 1));
  data_shape.insert(data_shape.begin() + static_cast<std::ptrdiff_t>(at), gather.places);
  data_dims.insert(data_dims.begin() + static_cast<std::ptrdiff_t>(at), rank);

  const auto access = [&](TensorId id, const std::vector<size_t>& dims, size_t count) {
    AffineMap map(dims.size(), count);
    for (size_t axis = 0; axis < dims.size(); ++axis) map.set(axis, dims[axis], 1);
    return TensorAccess{id, std::move(map), 0};
  };
  const DataType type = below(random, 2) == 0 ? DataType::kFloat32 : DataType::kInt32;
  const TensorId index = made.add(
      "index", random_words(random, DataType::kInt32, index_shape, -gather.places - 2, gather.places + 2));
  const TensorId data = made.add("data", random_words(random, type, data_shape, -1000, 1000));
  gather.index_inputs = {access(index, index_dims, rank)};
  gather.data = access(data, data_dims, rank + 1);
  Formula formula;
  const Term x = formula.x(0);
  gather.index = below(random, 2) == 0 ? ScalarExpr::identity()
                                       : formula.result(x.apply(ScalarOp::kIntAdd, formula.integer(1)));
  gather.epilogue = ScalarExpr::identity();
  if (below(random, 3) == 0) {
    const TensorId beside = made.add("beside", random_words(random, type, gather.extents, -100, 100));
    gather.epilogue_inputs = {{beside, AffineMap::identity(rank), 0}};
    Formula sum;
    gather.epilogue = sum.result(type == DataType::kFloat32 ? sum.x(0) + sum.x(1)
                                                            : sum.x(0).apply(ScalarOp::kIntAdd, sum.x(1)));
  }
  const Shape extents = gather.extents;
  made.finish(std::move(gather), type, extents);
  return made;
}

/// All candidates of the kernel give what the interpreter gives.
void expect_same(const LayerCase& made, const Kernel& kernel, const isa::Chip& chip,
                 bool needs_candidates = true) {
  const Tensor expected = made.expected();
  const std::vector<Candidate> candidates = kernel.run(made.layer, made.graph, chip, {});
  EXPECT_TRUE(!candidates.empty() || !needs_candidates) << summary(made.layer, made.graph);
  for (const Candidate& candidate : candidates) {
    SCOPED_TRACE(summary(made.layer, made.graph) + "\n" + candidate.description);
    EXPECT_EQ(run_candidate(candidate, made.layer, made.graph, made.values, chip).result, expected);
    if (::testing::Test::HasFailure()) return;
  }
}

TEST(GatherTables, FindsWhatTheInterpreterFinds) {
  const isa::Chip chip = isa::find_chip("tiny");
  Random random(1);
  for (int round = 0; round < 100; ++round) {
    SCOPED_TRACE(round);
    expect_same(random_gather(random, round % 3 == 0 ? 600 : 40), gather_kernel(), chip);
    if (HasFailure()) return;
  }
}

TEST(GatherTables, TablesThatLm0HasNoRoomForComeOneAfterTheOther) {
  // 2000 columns of 700 places on 128 PEs, and as many indices as LM1 doesn't hold.
  Random random(2);
  LayerCase made;
  GatherLayer gather;
  gather.extents = {1300, 2000};
  gather.places = 700;
  gather.index_inputs = {
      {made.add("index", random_words(random, DataType::kInt32, {1300}, 0, 700)), AffineMap(1, 2), 0}};
  gather.index_inputs[0].map.set(0, 0, 1);
  gather.data = {made.add("data", random_words(random, DataType::kFloat32, {700, 2000}, -1000, 1000)),
                 AffineMap(2, 3), 0};
  gather.data.map.set(0, 2, 1).set(1, 1, 1);
  gather.index = gather.epilogue = ScalarExpr::identity();
  made.finish(gather, DataType::kFloat32, gather.extents);
  expect_same(made, gather_kernel(), isa::find_chip("tiny"));
}

TEST(SplitGathers, SlicesGiveWhatTheWholeGives) {
  const isa::Chip chip = isa::find_chip("tiny");
  Random random(3);
  int split = 0;
  for (int round = 0; round < 30; ++round) {
    SCOPED_TRACE(round);
    LayerCase made = random_gather(random, 9000);
    LayerGraph graph = made.graph;
    split_gathers(graph, chip);
    verify_layer_graph(graph, "split-gathers");
    split += graph.layers.size() > 1 ? 1 : 0;
    EXPECT_EQ(interpret_layer_graph(graph, made.inputs()).at("y"), made.expected());
    for (const Layer& layer : graph.layers) EXPECT_FALSE(layer_candidates(layer, graph, chip, {}).empty());
  }
  EXPECT_GT(split, 5);
}

TEST(ReduceShared, ResultsThatLookAtTheSameElements) {
  const isa::Chip chip = isa::find_chip("tiny");
  Random random(4);
  using Op = ReduceLayer::Op;
  for (int round = 0; round < 100; ++round) {
    SCOPED_TRACE(round);
    // Results [a, n, b], elements [a, m, b]: those that are larger, or the last that is the same.
    const int64_t a = 1 + below(random, 4), n = 2 + below(random, 300), b = 1 + below(random, 4);
    const int64_t m = 2 + below(random, round % 10 == 0 ? 3000 : 60);
    LayerCase made;
    ReduceLayer reduce;
    reduce.output_extents = {a, n, b};
    reduce.reduction_extents = {m};
    const TensorId mine = made.add("mine", random_words(random, DataType::kInt32, {a, n, b}, 0, 50));
    const TensorId its = made.add("its", random_words(random, DataType::kInt32, {a, m, b}, 0, 50));
    AffineMap of_mine(3, 4), of_its(3, 4);
    of_mine.set(0, 0, 1).set(1, 1, 1).set(2, 2, 1);
    of_its.set(0, 0, 1).set(1, 3, 1).set(2, 2, 1);
    reduce.inputs = {{mine, of_mine, 0}, {its, of_its, 0}};
    Formula expr;
    const Term difference = expr.x(0).apply(ScalarOp::kIntSub, expr.x(1));
    if (round % 2 == 0) {
      reduce.op = Op::kIntSum;
      reduce.expr = expr.result(difference.apply(ScalarOp::kShiftRight, expr.integer(31)));
    } else {
      reduce.op = Op::kIntMax;
      reduce.expr = expr.result(where(difference.apply(ScalarOp::kIsZero), expr.x(1), expr.integer(-1)));
    }
    reduce.epilogue = ScalarExpr::identity();
    if (round % 3 == 0) {
      Formula sum;
      reduce.epilogue = sum.result(sum.x(0).apply(ScalarOp::kIntAdd, sum.x(1)));
      reduce.epilogue_inputs = {{mine, AffineMap::identity(3), 0}};
    }
    made.finish(std::move(reduce), DataType::kInt32, {a, n, b});
    expect_same(made, reduce_shared_kernel(), chip);
    if (HasFailure()) return;
  }
}

TEST(ReduceShared, IsNotForResultsWithElementsOfTheirOwn) {
  LayerCase made;
  ReduceLayer reduce;
  reduce.op = ReduceLayer::Op::kIntSum;
  reduce.output_extents = {5};
  reduce.reduction_extents = {7};
  Random random(5);
  reduce.inputs = {
      {made.add("x", random_words(random, DataType::kInt32, {5, 7}, 0, 50)), AffineMap::identity(2), 0}};
  reduce.expr = reduce.epilogue = ScalarExpr::identity();
  made.finish(std::move(reduce), DataType::kInt32, {5});
  EXPECT_TRUE(reduce_shared_kernel().run(made.layer, made.graph, isa::find_chip("tiny"), {}).empty());
}

}  // namespace
}  // namespace kodama::compiler
