/// Sums over columns: gradients of a convolution's weights on images of rows.
#include "compiler/kernels/columns.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <random>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/kernels/builtin_kernels.h"
#include "compiler/kernels/columns_problem.h"
#include "compiler/kernels/kernel_test_util.h"
#include "compiler/kernels/split_columns.h"
#include "compiler/layers/interpreter.h"
#include "compiler/lowering/lowering.h"
#include "compiler/lowering/lowering_test_util.h"
#include "isa/rounds_test_util.h"

namespace kodama::compiler {
namespace {

struct Convolution {
  int64_t images = 1, in = 32, out = 32, rows = 8, columns = 8, kernel = 3, stride = 1, dilation = 1, pad = 1;
  int64_t kernel_columns = 0;  ///< 0: as many as rows
  int64_t groups = 1;          ///< of channels

  int64_t width() const { return kernel_columns > 0 ? kernel_columns : kernel; }
  int64_t results(int64_t extent, int64_t reach) const {
    return (extent + 2 * pad - (reach - 1) * dilation - 1) / stride + 1;
  }
  /// The gradient of its weights, as a model, over what of the operand results reach.
  std::string text() const {
    const int64_t rows_out = results(rows, kernel), columns_out = results(columns, width());
    const auto behind = [&](int64_t extent, int64_t reach, int64_t count) {
      return (count - 1) * stride + (reach - 1) * dilation + 1 - pad - extent;
    };
    const int64_t below = behind(rows, kernel, rows_out), right = behind(columns, width(), columns_out);
    const int64_t own_rows = rows + std::min<int64_t>(below, 0);
    const int64_t own_columns = columns + std::min<int64_t>(right, 0);
    const std::string attributes = fmt::format(
        "strides=[{},{}], dilations=[{},{}], pads=[{},{},{},{}], group={}", dilation, dilation, stride,
        stride, pad, pad, std::max<int64_t>(below, 0), std::max<int64_t>(right, 0), groups);
    const std::string pictures = fmt::format("float[{},{},{},{}] x, float[{},{},{},{}] dy", images, in,
                                             own_rows, own_columns, images, out, rows_out, columns_out);
    // Groups stand beside the images.
    std::string turned = "t = Transpose<perm=[1,0,2,3]>(x)";
    std::string constants;
    if (groups > 1) {
      constants = fmt::format(
          "<int64[5] apart = {{{}, {}, {}, {}, {}}}, int64[4] joined = {{{}, {}, {}, {}}}>", images, groups,
          in / groups, own_rows, own_columns, in / groups, groups * images, own_rows, own_columns);
      turned = "a = Reshape(x, apart) o = Transpose<perm=[2,1,0,3,4]>(a) t = Reshape(o, joined)";
    }
    return fmt::format(
        "g ({}) => (float[{},{},{},{}] dw) {} {{ {} d = Transpose<perm=[1,0,2,3]>(dy) dw = Conv<{}>(t, d) }}",
        pictures, in / groups, out, kernel, width(), constants, turned, attributes);
  }
};

/// Holds candidates against the reference, of three one by default; says what all are.
std::vector<std::string> checked(const Convolution& convolution,
                                 const isa::Chip& chip = testing::small_chip()) {
  SCOPED_TRACE(convolution.text());
  const onnx::ModelProto model = import_model(testing::parse_model(convolution.text()), {}, "test");
  const TensorMap inputs = testing::random_inputs(model, 1);
  const TensorMap expected = run_graph(model, inputs);
  LayerGraph graph = lower_to_layers(model);
  split_columns(graph, chip, true);
  verify_layer_graph(graph, "split-columns");
  testing::expect_close(interpret_layer_graph(graph, inputs), expected, 1e-5);
  const auto is_product = [](const Layer& layer) { return layer.kind() == LayerKind::kContract; };
  const Layer& layer = *std::ranges::find_if(graph.layers, is_product);
  std::vector<Tensor> values;
  LayerValues known(graph);
  for (size_t id = 0; id < graph.tensors.size(); ++id) {
    const auto found = inputs.find(graph.tensors[id].name);
    const bool is_input = std::ranges::count(graph.inputs, static_cast<TensorId>(id)) > 0;
    if (is_input) known.set(static_cast<TensorId>(id), found->second);
    values.push_back(is_input ? found->second : Tensor(DataType::kFloat32, graph.tensors[id].shape));
  }
  const Tensor sums = interpret_layer(layer, graph, known).at(0);
  double largest = 0;
  for (const float value : sums.data<float>())
    largest = std::max(largest, static_cast<double>(std::abs(value)));
  std::vector<std::string> descriptions;
  for (const Candidate& candidate : contract_columns_kernel().run(layer, graph, chip, {})) {
    descriptions.push_back(candidate.description);
    const size_t number = descriptions.size() - 1;
    if (number > 0 && !isa::one_of(5, number + static_cast<size_t>(convolution.rows))) continue;
    SCOPED_TRACE(candidate.description);
    const auto found = testing::run_candidate(candidate, layer, graph, values, chip);
    for (int64_t k = 0; k < sums.size(); ++k) {
      const auto at = static_cast<size_t>(k);
      // Products have 18 bits.
      EXPECT_NEAR(found.result.data<float>()[at], sums.data<float>()[at], 1e-4 * largest) << "element " << k;
      if (::testing::Test::HasFailure()) return descriptions;
    }
  }
  return descriptions;
}
/// And how many.
size_t check(const Convolution& convolution, const isa::Chip& chip = testing::small_chip()) {
  return checked(convolution, chip).size();
}

TEST(Columns, LanesOfEveryWidth) {
  // Blocks of one, two, four, and eight columns; two of these.
  for (const int64_t columns : {1, 3, 4, 7, 14, 28, 40}) {
    Convolution convolution;
    convolution.columns = columns;
    convolution.images = columns == 1 ? 2 : 1;
    EXPECT_GE(check(convolution), 1U);
  }
}
TEST(Columns, Kernels) {
  Convolution one;
  one.kernel = 1;
  one.pad = 0;
  EXPECT_GE(check(one), 1U);
  Convolution strided{2, 32, 64, 28, 28, 3, 2, 1, 1};
  EXPECT_GE(check(strided), 1U);
  strided.kernel = 1;
  strided.pad = 0;
  EXPECT_GE(check(strided), 1U);
  EXPECT_GE(check({1, 3, 32, 40, 40, 7, 2, 1, 3}), 1U);
  EXPECT_GE(check({1, 32, 32, 12, 12, 3, 1, 2, 2}), 1U);
  EXPECT_GE(check({1, 16, 32, 9, 20, 5, 3, 1, 2}), 1U);
  Convolution flat{1, 32, 32, 6, 24, 1, 1, 1, 0};
  flat.kernel_columns = 5;
  EXPECT_GE(check(flat), 1U);
}
TEST(Columns, LanesThatAreOthers) {
  // Without padding results have narrower lanes than the operand.
  EXPECT_GE(check({2, 6, 16, 12, 12, 5, 1, 1, 0}), 1U);
  EXPECT_GE(check({1, 40, 32, 10, 33, 3, 1, 1, 0}), 1U);
  EXPECT_GE(check({1, 32, 32, 7, 13, 3, 2, 1, 0}), 1U);
}
TEST(Columns, Channels) {
  for (const int64_t channels : {1, 5, 48, 72}) {
    EXPECT_GE(check({1, channels, 32, 6, 12, 3, 1, 1, 1}), 1U);
    EXPECT_GE(check({1, 32, channels, 6, 12, 3, 1, 1, 1}), 1U);
  }
}
TEST(Columns, NarrowLanesOfSeveralChunks) {
  // A step brings more than a row has: that isn't where the next chunk is.
  EXPECT_GE(check({2, 32, 96, 5, 8, 3, 1, 1, 1}), 1U);
  EXPECT_GE(check({3, 32, 64, 5, 3, 3, 1, 1, 1}), 1U);
}
TEST(Columns, PackedOperands) {
  // Few channels, with a stride that makes columns begin at LW; filled up; two chunks of a window.
  for (const auto& [channels, kernel, stride] : std::vector<std::array<int64_t, 3>>{
           {3, 7, 2}, {3, 3, 1}, {4, 3, 1}, {1, 5, 2}, {2, 6, 3}, {5, 3, 3}, {8, 5, 1}, {3, 11, 4}}) {
    const Convolution convolution{2, channels, 32, 12, 26, kernel, stride, 1, kernel / 2};
    const onnx::ModelProto model = import_model(testing::parse_model(convolution.text()), {}, "test");
    LayerGraph graph = lower_to_layers(model);
    split_columns(graph, testing::small_chip(), true);
    const auto ways =
        columns_problems(std::get<ContractLayer>(graph.layers[0].body), graph.layers[0].outputs[0], graph);
    ASSERT_EQ(ways.size(), 2U) << convolution.text();
    EXPECT_TRUE(ways[1].operand.packed);
    EXPECT_GE(check(convolution), 2U);
  }
}
TEST(Columns, GroupsOfChannels) {
  const auto grouped = [](Convolution convolution, int64_t groups) {
    convolution.groups = groups;
    return check(convolution);
  };
  // Single channels, some, whole chunks, several; results that are wider and narrower; no whole chunks.
  EXPECT_GE(grouped({2, 64, 64, 6, 10, 3, 1, 1, 1}, 64), 1U);
  EXPECT_GE(grouped({2, 96, 96, 6, 10, 3, 1, 1, 1}, 12), 1U);
  EXPECT_GE(grouped({1, 64, 128, 7, 12, 3, 2, 1, 1}, 2), 1U);
  EXPECT_GE(grouped({1, 128, 64, 5, 8, 1, 1, 1, 0}, 2), 1U);
  EXPECT_GE(grouped({3, 192, 192, 5, 7, 1, 1, 1, 0}, 3), 1U);
  EXPECT_GE(grouped({2, 48, 24, 8, 9, 5, 1, 1, 0}, 6), 1U);
  EXPECT_GE(grouped({1, 30, 60, 8, 9, 2, 2, 1, 0}, 5), 1U);
  // Lanes that are others.
  EXPECT_GE(grouped({4, 96, 96, 10, 10, 3, 1, 1, 0}, 96), 1U);
  // Tiles of a section's chunks.
  EXPECT_GE(grouped({1, 256, 256, 4, 5, 1, 1, 1, 0}, 2), 1U);
}
TEST(Columns, Images) {
  for (const int64_t images : {3, 5, 19}) EXPECT_GE(check({images, 32, 32, 5, 8, 3, 1, 1, 1}), 1U);
  // Rows of an image for all slots of all L2Bs.
  EXPECT_GE(check({1, 32, 32, 40, 8, 3, 1, 1, 1}), 1U);
  // More rows for a block than L2BM has room for at a time.
  EXPECT_GE(check({5, 49, 14, 10, 34, 2, 3, 2, 0}), 1U);
}
TEST(Columns, BlocksOfImages) {
  // Two, four and eight images of a block; some blocks have fewer. With strides, kernels whose rows are
  // apart, and slots that have images of their own or rows.
  const auto expect_blocks = [](const Convolution& convolution, std::string_view places) {
    const std::vector<std::string> found = checked(convolution);
    EXPECT_TRUE(std::ranges::any_of(
        found, [&](const std::string& description) { return description.find(places) != std::string::npos; }))
        << places << ": " << fmt::format("{}", fmt::join(found, "\n"));
  };
  expect_blocks({32, 32, 32, 5, 14, 3, 1, 1, 1}, "sums of 4 x 1 places of 2 images");
  expect_blocks({19, 40, 32, 6, 16, 3, 2, 1, 1}, "sums of 2 x 1 places of 4 images");
  expect_blocks({33, 32, 64, 5, 7, 3, 1, 2, 2}, "sums of 2 x 1 places of 4 images");
  expect_blocks({17, 16, 32, 3, 4, 2, 1, 1, 0}, "sums of 1 x 1 places of 8 images");
  // A single image has none.
  expect_blocks({1, 32, 32, 8, 14, 3, 1, 1, 1}, "sums of 4 x 2 places of 1 images");
}
TEST(RowRegions, HaveRowsUntilOthersCome) {
  RowRegions regions(60, 128, 5 * 64 + 63);
  ASSERT_EQ(regions.count(), 5);
  ASSERT_EQ(regions.lw(), 64);
  const auto find = [&](int64_t row) { return regions.find({0, 0, 0, row}); };
  std::vector<int64_t> places;
  for (int64_t row = 0; row < 5; ++row) {
    const RowRegions::Place place = find(row);
    EXPECT_TRUE(place.is_new);
    EXPECT_EQ(place.l2bm, RowRegions::kAheadLw + 128 + row * 64);
    places.push_back(place.l2bm);
  }
  for (int64_t row = 0; row < 5; ++row) {
    EXPECT_FALSE(find(row).is_new);
    EXPECT_EQ(find(row).l2bm, places[static_cast<size_t>(row)]);
  }
  // The oldest goes, however often it was found.
  EXPECT_TRUE(find(5).is_new);
  EXPECT_EQ(find(5).l2bm, places[0]);
  EXPECT_FALSE(find(1).is_new);
  EXPECT_TRUE(find(0).is_new);
  EXPECT_EQ(find(0).l2bm, places[1]);
}
TEST(Columns, RowsComeOnce) {
  // Tiles of several chunks, and blocks whose rows the next rows of results want, too.
  const isa::Chip chip = testing::small_chip();
  for (const Convolution& convolution :
       {Convolution{8, 64, 32, 6, 14, 3, 1, 1, 1}, Convolution{1, 64, 32, 64, 14, 3, 1, 1, 1}}) {
    SCOPED_TRACE(convolution.text());
    const onnx::ModelProto model = import_model(testing::parse_model(convolution.text()), {}, "test");
    LayerGraph graph = lower_to_layers(model);
    split_columns(graph, chip, true);
    const auto candidates = contract_columns_kernel().run(graph.layers[0], graph, chip, {});
    ASSERT_FALSE(candidates.empty());
    const TileProgram tiles = candidates[0].emit({0, 1 << 20, 1 << 21, 1 << 22});
    int64_t loads = 0, without_transfers = 0;
    for (const TileNode& node : tiles.body) {
      const auto* load = std::get_if<LoadColumns>(&node.kind);
      if (load == nullptr || !load->all_blocks) continue;
      ++loads;
      if (load->transfers.empty()) ++without_transfers;
    }
    EXPECT_GE(3 * without_transfers, loads) << candidates[0].description;
  }
}
TEST(Columns, RowsOfL2bmAreReadAlone) {
  // What is read of two rows at once has to be there at once, and nothing comes ahead of time.
  for (const Convolution& convolution :
       {Convolution{4, 64, 32, 6, 14, 3, 1, 1, 1}, Convolution{4, 32, 64, 6, 7, 3, 1, 1, 1},
        Convolution{2, 96, 32, 5, 3, 5, 1, 1, 2}, Convolution{2, 32, 32, 6, 28, 1, 1, 1, 0}}) {
    SCOPED_TRACE(convolution.text());
    const isa::Chip chip = testing::small_chip();
    const onnx::ModelProto model = import_model(testing::parse_model(convolution.text()), {}, "test");
    LayerGraph graph = lower_to_layers(model);
    split_columns(graph, chip, true);
    const auto candidates = contract_columns_kernel().run(graph.layers[0], graph, chip, {});
    ASSERT_FALSE(candidates.empty());
    const TileProgram tiles = candidates[0].emit({0, 1 << 20, 1 << 21, 1 << 22});
    std::set<std::pair<int64_t, int64_t>> rows;
    for (const TileNode& node : tiles.body) {
      const auto* load = std::get_if<LoadColumns>(&node.kind);
      if (load == nullptr) continue;
      for (const RowsTransfer& transfer : load->transfers)
        rows.emplace(transfer.l2bm, transfer.l2bm + transfer.count);
    }
    const auto count_rows = [&](const isa::Operand& source) {
      const int64_t first = source.base;
      return std::ranges::count_if(rows, [&](const auto& row) {
        return row.first < first + isa::kCyclesPerStep * kUnitLw && first < row.second;
      });
    };
    int64_t reads = 0;
    const std::function<void(const std::vector<scheduler::Node>&)> expect_alone =
        [&](const std::vector<scheduler::Node>& nodes) {
          for (const scheduler::Node& node : nodes) {
            if (const auto* region = std::get_if<scheduler::RegionNode>(&node.kind))
              expect_alone(region->body);
            const auto* block = std::get_if<scheduler::Block>(&node.kind);
            if (block == nullptr) continue;
            for (const scheduler::Operation& operation : block->operations) {
              if (operation.instruction.opcode != isa::Opcode::kL2bmb2) continue;
              EXPECT_EQ(count_rows(operation.instruction.sources.at(0)), 1) << operation.origin;
              ++reads;
            }
          }
        };
    expect_alone(lower_tile_program(tiles, chip).body);
    EXPECT_GT(reads, 0);
  }
}
TEST(Columns, PartsOfAChip) {
  // Eight L2Bs.
  EXPECT_GE(check({8, 64, 64, 6, 6, 3, 1, 1, 1}, isa::find_chip("mncore2")), 1U);
  EXPECT_GE(check({3, 32, 256, 9, 7, 3, 1, 1, 1}, isa::find_chip("mncore2")), 1U);
  Convolution grouped{2, 256, 256, 6, 6, 3, 1, 1, 1};
  grouped.groups = 256;
  EXPECT_GE(check(grouped, isa::find_chip("mncore2")), 1U);
}
TEST(Columns, RandomConvolutions) {
  std::mt19937 random(7);
  const auto any = [&](int64_t first, int64_t last) {
    return std::uniform_int_distribution<int64_t>(first, last)(random);
  };
  size_t candidates = 0;
  for (int k = 0; k < 8; ++k) {
    Convolution convolution;
    convolution.images = any(1, 5);
    convolution.in = any(1, 70);
    convolution.out = any(1, 64);
    convolution.kernel = any(1, 5);
    convolution.kernel_columns = any(1, 5);
    convolution.stride = any(1, 3);
    convolution.dilation = any(1, 2);
    convolution.pad = any(0, std::min(convolution.kernel, convolution.kernel_columns) - 1);
    const int64_t least = 4 * convolution.dilation + 1;
    convolution.rows = any(least, 20);
    convolution.columns = any(least, 40);
    if (k % 2 == 0) {
      convolution.groups = any(2, 6);
      convolution.in = any(1, 12) * convolution.groups;
      convolution.out = any(1, 12) * convolution.groups;
    }
    candidates += check(convolution);
  }
  EXPECT_GE(candidates, 8U);
}

TEST(Columns, WhatItDoesNotDo) {
  const auto is_taken = [](const std::string& text) {
    const onnx::ModelProto model = import_model(testing::parse_model(text), {}, "test");
    LayerGraph graph = lower_to_layers(model);
    split_columns(graph, testing::small_chip(), true);
    const auto is_product = [](const Layer& layer) { return layer.kind() == LayerKind::kContract; };
    const Layer& layer = *std::ranges::find_if(graph.layers, is_product);
    return !std::get<ContractLayer>(layer.body).epilogue_inputs.empty();
  };
  // A convolution itself whose kernel isn't constant, with groups, too, and a product of matrices.
  EXPECT_FALSE(
      is_taken("g (float[1,32,8,8] x, float[32,32,3,3] w) => (float[1,32,6,6] y) { y = Conv(x, w) }"));
  EXPECT_FALSE(is_taken("g (float[8,32] x, float[32,16] w) => (float[8,16] y) { y = MatMul(x, w) }"));
  EXPECT_FALSE(is_taken(
      "g (float[4,32,8,8] x, float[32,2,3,3] w) => (float[4,32,6,6] y) { y = Conv<group=16>(x, w) }"));
  EXPECT_TRUE(is_taken(Convolution().text()));
}
/// Nothing makes matrices of halves, so products of what layers make are the same at half as at gfloat.
TEST(Columns, AtHalfTheyAreOfGfloat) {
  const auto found = [](const char* kernel, const std::string& text, MatrixPrecision precision) {
    const onnx::ModelProto model = import_model(testing::parse_model(text), {}, "test");
    LayerGraph graph = lower_to_layers(model);
    split_columns(graph, testing::small_chip(), true);
    const auto is_product = [](const Layer& layer) { return layer.kind() == LayerKind::kContract; };
    const Layer& layer = *std::ranges::find_if(graph.layers, is_product);
    std::vector<std::string> list;
    for (const Candidate& candidate :
         find_kernel(kernel).run(layer, graph, testing::small_chip(), {.precision = precision}))
      list.push_back(candidate.description);
    return list;
  };
  const std::string attention =
      "g (float[4,16,32] a, float[4,32,16] b) => (float[4,16,16] y) { y = MatMul(a, b) }";
  for (const auto& [kernel, text] :
       {std::pair{"contract-columns", Convolution().text()}, {"matmul-rows", attention}}) {
    const std::vector<std::string> list = found(kernel, text, MatrixPrecision::kGFloat);
    EXPECT_FALSE(list.empty()) << kernel;
    EXPECT_EQ(found(kernel, text, MatrixPrecision::kHalf), list) << kernel;
    EXPECT_TRUE(found(kernel, text, MatrixPrecision::kFloat).empty()) << kernel;
  }
}
TEST(Columns, LargeProductsBecomeParts) {
  const onnx::ModelProto model =
      import_model(testing::parse_model(Convolution{8, 64, 64, 56, 56, 3, 1, 1, 1}.text()), {}, "test");
  LayerGraph graph = lower_to_layers(model);
  split_columns(graph, isa::find_chip("mncore2"));
  verify_layer_graph(graph, "split-columns");
  EXPECT_EQ(testing::kinds(graph), "Contract Reduce");
  EXPECT_EQ(std::get<ContractLayer>(graph.layers[0].body).output_shape, (Shape{8, 1, 64, 64, 3, 3}));
}
TEST(Columns, DamagedOperationsAreFound) {
  const isa::Chip chip = testing::small_chip();
  const onnx::ModelProto model = import_model(testing::parse_model(Convolution().text()), {}, "test");
  LayerGraph graph = lower_to_layers(model);
  split_columns(graph, chip, true);
  const auto candidates = contract_columns_kernel().run(graph.layers[0], graph, chip, {});
  ASSERT_FALSE(candidates.empty());
  const TileProgram whole = candidates[0].emit({0, 1 << 16, 1 << 17, 1 << 18});
  EXPECT_NO_THROW(verify_tile_program(whole, chip));
  const auto expect_found = [&]<typename Op>(void (*damage)(Op&)) {
    TileProgram program = whole;
    const auto is_it = [](const TileNode& node) { return std::holds_alternative<Op>(node.kind); };
    const auto found = std::ranges::find_if(program.body, is_it);
    ASSERT_NE(found, program.body.end());
    damage(std::get<Op>(found->kind));
    EXPECT_THROW(verify_tile_program(program, chip), isa::InternalError);
  };
  expect_found(+[](LoadColumns& op) { op.mab = 4; });
  expect_found(+[](LoadColumns& op) { op.count = 0; });
  expect_found(+[](LoadColumns& op) { op.packed_lw = -1; });
  expect_found(+[](LoadColumns& op) { op.packed_lw = 1 << 20; });
  expect_found(+[](LoadColumns& op) { op.pitch = op.count - 1; });
  expect_found(+[](LoadColumns& op) { op.lane = 0; });
  expect_found(+[](LoadColumns& op) { op.columns = 4 * op.order.groups + 1; });
  expect_found(+[](LoadColumns& op) { op.first_chunk = op.order.chunks; });
  expect_found(+[](LoadColumns& op) { op.at = 1 << 20; });
  expect_found(+[](LoadColumns& op) { op.l2bm[1] = 1 << 20; });
  expect_found(+[](LoadColumns& op) { op.l2bm[0] = -1; });
  expect_found(+[](LoadColumns& op) { op.buffer = 99; });
  expect_found(+[](TransposeColumns& op) { op.runs[0].from = -1; });
  expect_found(+[](TransposeColumns& op) { op.runs[0].to = 1 << 20; });
  expect_found(+[](TransposeColumns& op) { op.step[0] = 1 << 20; });
  expect_found(+[](TransposeColumns& op) { op.step[1] = -1; });
  expect_found(+[](ColumnProduct& op) { op.vectors = 0; });
  expect_found(+[](ColumnProduct& op) { op.step = 1 << 20; });
  expect_found(+[](ColumnProduct& op) { op.groups[0].sums[0] = 1 << 20; });
  expect_found(+[](ColumnProduct& op) { op.groups[0].sums.push_back(0); });
  expect_found(+[](ColumnProduct& op) { op.groups[0].uses[0].matrix = 1 << 20; });
  expect_found(+[](ColumnProduct& op) { op.groups[0].uses[0].windows[0] = -1; });
}
TEST(Columns, SmallProductsStayWhole) {
  const onnx::ModelProto model =
      import_model(testing::parse_model(Convolution{1, 1, 1, 4, 4, 3, 1, 1, 1}.text()), {}, "test");
  LayerGraph graph = lower_to_layers(model);
  const size_t before = graph.layers.size();
  split_columns(graph, isa::find_chip("mncore2"));
  EXPECT_EQ(graph.layers.size(), before);
  // And where there are no pairs of L1Bs for lanes.
  split_columns(graph, isa::find_chip("tiny"), true);
  EXPECT_EQ(graph.layers.size(), before);
}

}  // namespace
}  // namespace kodama::compiler
