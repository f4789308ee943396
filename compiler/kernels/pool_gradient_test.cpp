/// The Reduces of MaxPool's gradient (compiler/lowering/pool.h), maxima included, which nobody else reads
/// here: candidates on the simulator, of three one by default, against the layers as they are defined.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <random>
#include <vector>

#include "compiler/kernels/fill_rows.h"
#include "compiler/kernels/kernel.h"
#include "compiler/kernels/kernel_test_util.h"
#include "compiler/layers/interpreter.h"
#include "compiler/lowering/lowering_test_util.h"
#include "isa/rounds_test_util.h"

namespace kodama::compiler {
namespace {

struct PoolCase {
  Shape shape;
  int64_t kernel = 3, stride = 2, pad = 1, dilation = 1;
  Shape results() const {
    Shape result = shape;
    for (size_t axis = 2; axis < 4; ++axis)
      result[axis] = (shape[axis] + 2 * pad - (kernel - 1) * dilation - 1) / stride + 1;
    return result;
  }
  LayerGraph graph() const {
    const std::string text = fmt::format(
        "g (float[{0}] x, float[{1}] d) => (float[{2}] z) {{ y, i = MaxPool <kernel_shape = [{3}, {3}], "
        "strides = [{4}, {4}], pads = [{5}, {5}, {5}, {5}], dilations = [{6}, {6}]> (x) "
        "all = Constant <value = int64[1] {{-1}}> () size = Constant <value = int64[1] {{{2}}}> () "
        "n = ConstantOfShape (size) r = Reshape (i, all) u = Reshape (d, all) "
        "z = ScatterElements <axis = 0, reduction = \"add\"> (n, r, u) }}",
        fmt::join(shape, ","), fmt::join(results(), ","), element_count(shape), kernel, stride, pad,
        dilation);
    LayerGraph graph = testing::lower(testing::parse_model(text));
    add_fill_rows(graph);
    return graph;
  }
};

/// Whole numbers, so that windows have their maximum more than once, and sums are exact.
Tensor whole_numbers(const Shape& shape, int lowest, int highest, unsigned seed) {
  std::mt19937 random(seed);
  std::uniform_int_distribution<int> numbers(lowest, highest);
  Tensor tensor(DataType::kFloat32, shape);
  for (float& value : tensor.data<float>()) value = static_cast<float>(numbers(random));
  return tensor;
}

/// `of_rows`: candidates of "reduce-rows" that each of the gradient's layers has, at least.
void check(const PoolCase& pool, const isa::Chip& chip, size_t of_rows) {
  SCOPED_TRACE(fmt::format("{}, kernel {}, stride {}, pad {}, dilation {}, {} L1Bs",
                           fmt::join(pool.shape, " "), pool.kernel, pool.stride, pool.pad, pool.dilation,
                           chip.l1b_per_l2b));
  const LayerGraph graph = pool.graph();
  LayerValues values(graph);
  values.set(graph.inputs.at(0), whole_numbers(pool.shape, -3, 3, 1));
  values.set(graph.inputs.at(1), whole_numbers(pool.results(), -9, 9, 2));
  int reduces = 0;
  for (const Layer& layer : graph.layers) {
    const std::vector<Tensor> expected = interpret_layer(layer, graph, values);
    if (layer.kind() == LayerKind::kReduce && layer.onnx_ops.at(0) == "ScatterElements") {
      ++reduces;
      EXPECT_GE(find_kernel("reduce-rows").run(layer, graph, chip, {}).size(), of_rows) << layer.name;
      std::vector<Tensor> operands(graph.tensors.size());
      for (const TensorId id : layer_inputs(layer)) operands[static_cast<size_t>(id)] = values.get(id);
      const std::vector<Candidate> candidates = layer_candidates(layer, graph, chip, {});
      for (size_t number = 0; number < candidates.size(); ++number) {
        if (number > 0 && !isa::one_of(5, number + static_cast<size_t>(reduces))) continue;
        const Candidate& candidate = candidates[number];
        verify_candidate(candidate, layer, graph, chip);
        const Tensor found = testing::run_candidate(candidate, layer, graph, operands, chip).result;
        EXPECT_TRUE(std::ranges::equal(found.bytes(), expected.at(0).bytes()))
            << layer.name << ": " << candidate.kernel << ", " << candidate.description;
      }
    }
    values.set(layer.outputs.at(0), expected.at(0));
  }
  EXPECT_EQ(reduces, 3);
}

isa::Chip chip_with(int64_t l1bs) {
  isa::Chip chip = testing::tiny_chip();
  chip.mab_per_l1b = 16;
  chip.l1b_per_l2b = static_cast<int>(l1bs);
  chip.memory.l1bm_lw = isa::find_chip("mncore2").memory.l1bm_lw;
  return chip;
}

TEST(PoolGradient, OnLanesAndRows) {
  for (const int64_t l1bs : {2, 8}) {
    check({{2, 40, 12, 16}}, chip_with(l1bs), 1);
    check({{1, 64, 16, 24}, 3, 2, 0}, chip_with(l1bs), 1);
    check({{1, 96, 7, 13}, 3, 1, 1}, chip_with(l1bs), 1);
    check({{1, 32, 8, 32}, 2, 2, 0}, chip_with(l1bs), 1);
  }
}

TEST(PoolGradient, PlacesInManyWindowsOrNone) {
  // A window for every third place, of two; dilated; more places than a word has bits.
  check({{1, 33, 9, 24}, 2, 3, 0}, chip_with(8), 1);
  check({{1, 8, 9, 16}, 2, 1, 1, 2}, chip_with(8), 1);
  check({{1, 8, 16, 16}, 6, 2, 2}, chip_with(8), 1);
  check({{1, 3, 14, 8}, 7, 1, 3}, chip_with(2), 1);
}

TEST(PoolGradient, WhereAPlacesResultsAreElsewhere) {
  // 9 columns are of 5 windows, in lanes of two, which make 16; four L2Bs have three of 12 rows.
  check({{1, 40, 9, 9}}, chip_with(8), 0);
  check({{1, 8, 12, 16}}, chip_with(8), 0);
}

TEST(PoolGradient, MorePlacesThanAProgramHasRoomFor) {
  for (const int64_t kernel : {32, 33}) {
    const LayerGraph graph = PoolCase{{1, 32, kernel, kernel + 3}, kernel, 1, 0}.graph();
    for (const Layer& layer : graph.layers) {
      const auto* reduce = std::get_if<ReduceLayer>(&layer.body);
      if (reduce == nullptr || reduce->op != ReduceLayer::Op::kIntMax) continue;
      const bool is_empty = find_kernel("reduce-rows").run(layer, graph, testing::small_chip(), {}).empty();
      EXPECT_EQ(is_empty, kernel > 32) << layer.name;
    }
  }
}

}  // namespace
}  // namespace kodama::compiler
