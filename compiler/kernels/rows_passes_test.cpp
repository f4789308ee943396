/// Kernels on images of rows, divided into passes: of many images, and how long these are said to take.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "compiler/kernels/builtin_kernels.h"
#include "compiler/kernels/kernel_test_util.h"
#include "compiler/kernels/rows_division.h"
#include "compiler/kernels/rows_problem.h"
#include "compiler/layers/interpreter.h"
#include "compiler/lowering/lowering.h"
#include "compiler/lowering/lowering_test_util.h"

namespace kodama::compiler {
namespace {

/// Holds the fastest candidate of a model's only layer to what the layer is; or all whose description has
/// `wanted`.
void check_layer(const std::string& text, const Kernel& kernel, double tolerance,
                 const std::string& wanted = "") {
  SCOPED_TRACE(text);
  const isa::Chip chip = testing::small_chip();
  const onnx::ModelProto model = import_model(testing::parse_model(text), {}, "test");
  const TensorMap inputs = testing::random_inputs(model, 1);
  const LayerGraph graph = lower_to_layers(model);
  ASSERT_EQ(graph.layers.size(), 1U);
  LayerValues values(graph);
  std::vector<Tensor> operands(graph.tensors.size());
  for (const TensorId input : graph.inputs)
    values.set(input, inputs.at(graph.tensors[static_cast<size_t>(input)].name));
  for (const TensorId input : layer_inputs(graph.layers[0]))
    operands[static_cast<size_t>(input)] = values.get(input);
  const Tensor expected = interpret_layer(graph.layers[0], graph, values).at(0);
  std::vector<Candidate> candidates = kernel.run(graph.layers[0], graph, chip, {});
  std::erase_if(candidates,
                [&](const Candidate& each) { return each.description.find(wanted) == std::string::npos; });
  ASSERT_FALSE(candidates.empty());
  std::ranges::stable_sort(candidates, {}, &Candidate::predicted_cycles);
  if (wanted.empty()) candidates.resize(1);
  for (const Candidate& candidate : candidates) {
    SCOPED_TRACE(candidate.description);
    const Tensor found = testing::run_candidate(candidate, graph.layers[0], graph, operands, chip).result;
    for (int64_t k = 0; k < expected.size(); ++k) {
      const auto at = static_cast<size_t>(k);
      ASSERT_NEAR(found.data<float>()[at], expected.data<float>()[at], tolerance) << k;
    }
  }
}

/// Four tokens of a row are a lane each: pairs of L1Bs have one, of all rows.
TEST(RowsLanes, OfTokens) {
  const auto check = [](const std::string& shape, int64_t in, int64_t out, bool adds) {
    const std::string result = fmt::format("float[{},{}]", shape, out);
    check_layer(fmt::format("g (float[{0},{1}] x, float[{1},{2}] w, {3} z) => ({3} y) {{ {4} }}", shape, in,
                            out, result, adds ? "p = MatMul(x, w) y = Add(p, z)" : "y = MatMul(x, w)"),
                contract_rows_kernel(), 1e-3, "L1B lanes");
  };
  check("1,64", 64, 128, false);
  // Rows that end before their fourth token, chunks that end before their last channel, one chunk of several.
  check("1,29", 40, 90, true);
  check("3,13", 96, 64, true);
  check("2,7,9", 64, 128, false);
  check("2,5", 32, 64, true);
}

TEST(RowsPasses, ManyImages) {
  // Twenty images of an L2B are as many passes at least.
  std::string weights = "float[32,32,1,1] w = {1";
  for (int k = 1; k < 32 * 32; ++k) weights += ", " + std::to_string((k * 37 % 101 - 50) / 64.0);
  check_layer("g (float[40,32,4,8] x) => (float[40,32,4,8] y) <" + weights + "}> { y = Conv(x, w) }",
              contract_rows_kernel(), 1e-3);
  check_layer("g (float[40,32,4,8] x, float[40,32,4,8] z) => (float[40,32,4,8] y) { y = Add(x, z) }",
              map_rows_kernel(), 1e-6);
  check_layer("g (float[40,32,4,8] x) => (float[40,32,1,1] y) { y = GlobalAveragePool(x) }",
              reduce_rows_kernel(), 1e-5);
}

/// Of windows of one row, those between don't come; of others they are read.
TEST(RowsPasses, WindowsOfOneRowPassOverRows) {
  for (const int kernel : {1, 3}) {
    const std::string text = fmt::format(
        "g (float[1,32,9,16] x, float[32,32,{0},{0}] w) => (float[1,32,5,8] y) "
        "{{ y = Conv<strides = [2,2], pads = [{1},{1},{1},{1}]>(x, w) }}",
        kernel, kernel / 2);
    check_layer(text, contract_rows_kernel(), 1e-3);
    const LayerGraph graph = lower_to_layers(import_model(testing::parse_model(text), {}, "test"));
    const Layer& layer = graph.layers[0];
    const auto problem = rows_problem(std::get<ContractLayer>(layer.body), layer.outputs[0], graph, 0);
    ASSERT_TRUE(problem);
    EXPECT_EQ(problem->window.row_step, kernel == 1 ? 2 : 1);
    EXPECT_EQ(problem->window.stride[0], kernel == 1 ? 1 : 2);
  }
}

TEST(RowsPasses, ALayerOfInputsAlone) {
  // As the first of a model that is trained: the host has both the picture and the weights.
  check_layer(
      "g (float[4,3,8,8] x, float[32,3,3,3] w) => (float[4,32,8,8] y) { y = Conv<pads = [1,1,1,1]>(x, w) }",
      contract_rows_kernel(), 1e-3);
  check_layer("g (float[64,32] x, float[32,64] w) => (float[64,64] y) { y = MatMul(x, w) }",
              matmul_rows_kernel(), 1e-3);
}

TEST(RowsPasses, TransfersOfMuchDataComeBesideSteps) {
  const isa::Chip chip = isa::find_chip("mncore2");
  const int64_t room = chip.memory.l2bm_lw;
  // One has nobody to come beside; few may be there already; two of a large one have no room.
  EXPECT_EQ(passes_cycles(1, 100, 60, room / 4, chip), 160);
  EXPECT_EQ(passes_cycles(16, 100, 60, room / 4, chip), 16 * 160);
  EXPECT_EQ(passes_cycles(32, 100, 60, room / 2 + 1, chip), 32 * 160);
  const int64_t found = passes_cycles(32, 100, 60, room / 4, chip);
  EXPECT_LT(found, 32 * 160);
  EXPECT_GE(found, 32 * 100);
  EXPECT_EQ(passes_cycles(32, 60, 100, room / 4, chip), found);
}

/// The least cycles that are predicted for a convolution of so many images on mncore2.
int64_t least_cycles(int64_t images) {
  const std::string picture = "float[" + std::to_string(images) + ",64,56,56]";
  const onnx::ModelProto model =
      import_model(testing::parse_model("g (" + picture + " x, float[64,64,3,3] w) => (" + picture +
                                        " y) { y = Conv<pads = [1,1,1,1]>(x, w) }"),
                   {}, "test");
  const LayerGraph graph = lower_to_layers(model);
  const auto candidates = contract_rows_kernel().run(graph.layers[0], graph, isa::find_chip("mncore2"), {});
  if (candidates.empty()) return 0;
  return std::ranges::min_element(candidates, {}, &Candidate::predicted_cycles)->predicted_cycles;
}
TEST(RowsPasses, OfManyImagesEachTakesNoLonger) {
  const int64_t some = least_cycles(8), many = least_cycles(32);
  ASSERT_GT(some, 0);
  EXPECT_LE(many, 4 * some);
  EXPECT_GT(many, 2 * some);
}

/// A convolution of pictures of `size` rows and columns on mncore2, that leaves their size.
std::vector<Candidate> convolution(int channels, int results, int kernel, int size) {
  const std::string pad = std::to_string(kernel / 2);
  const onnx::ModelProto model =
      import_model(testing::parse_model(
                       fmt::format("g (float[1,{0},{3},{3}] x, float[{1},{0},{2},{2}] w) => "
                                   "(float[1,{1},{3},{3}] y) {{ y = Conv<pads = [{4},{4},{4},{4}]>(x, w) }}",
                                   channels, results, kernel, size, pad)),
                   {}, "test");
  const LayerGraph graph = lower_to_layers(model);
  return contract_rows_kernel().run(graph.layers[0], graph, isa::find_chip("mncore2"), {});
}
/// Single chunks, too, and an odd number of them. No product comes before all matrices are on their way.
TEST(RowsPasses, ChunksComeTwoAtATimeAndMatricesBehindThem) {
  for (const auto& [channels, stack] :
       {std::pair(64, 2), std::pair(96, 1), std::pair(224, 2), std::pair(32, 1)}) {
    size_t loads = 0;
    for (const Candidate& candidate : convolution(channels, 64, 1, 28)) {
      // Of operands in L2Bs' channels, chunks come by ones.
      if (candidate.description.find("L1B lanes") == std::string::npos ||
          candidate.description.find("operand: group rows, L2B rows") == std::string::npos)
        continue;
      bool has_matrices = false;
      for (const TileNode& node : candidate.emit(std::vector<int64_t>(candidate.placements.size(), 0)).body) {
        if (const auto* rows = std::get_if<LoadLanes>(&node.kind)) {
          EXPECT_EQ(rows->stack, stack) << channels;
          ++loads;
        } else if (const auto* matrices = std::get_if<LoadTile>(&node.kind)) {
          EXPECT_GT(loads, 0U) << channels;
          has_matrices |= matrices->normalize.has_value();
        } else if (std::holds_alternative<WindowProduct>(node.kind)) {
          EXPECT_TRUE(has_matrices) << channels;
        }
      }
    }
    EXPECT_GT(loads, 0U) << channels;
  }
}
/// Of several passes, every second one has windows of its own, and rows come before the products of the pass
/// before. Large windows, and those of a single pass, are there once.
TEST(RowsPasses, RowsOfTheNextPassComeBesideProducts) {
  size_t several = 0, single = 0;
  std::vector<Candidate> candidates;
  for (const int size : {56, 112, 224})
    std::ranges::move(convolution(64, 64, 1, size), std::back_inserter(candidates));
  for (const Candidate& candidate : candidates) {
    const TileProgram program = candidate.emit(std::vector<int64_t>(candidate.placements.size(), 0));
    std::vector<int> windows;
    for (size_t k = 0; k < program.buffers.size(); ++k) {
      if (program.buffers[k].name.starts_with("windows")) windows.push_back(static_cast<int>(k));
    }
    const bool is_single = candidate.description.find(", 1 passes") != std::string::npos;
    if (windows.empty()) continue;
    ASSERT_LE(windows.size(), is_single ? 1U : 2U) << candidate.description;
    (windows.size() == 1 ? single : several) += 1;
    std::vector<int> loaded, multiplied;
    const auto add = [](std::vector<int>& list, int buffer) {
      if (list.empty() || list.back() != buffer) list.push_back(buffer);
    };
    for (const TileNode& node : program.body) {
      if (const auto* lanes = std::get_if<LoadLanes>(&node.kind)) add(loaded, lanes->buffer);
      const auto* rows = std::get_if<LoadRows>(&node.kind);
      if (rows != nullptr && std::ranges::count(windows, rows->buffer) > 0) add(loaded, rows->buffer);
      const auto* product = std::get_if<WindowProduct>(&node.kind);
      if (product == nullptr) continue;
      add(multiplied, product->windows);
      // By the last of a pass' products those of the next one are there.
      EXPECT_GE(loaded.size(), multiplied.size()) << candidate.description;
    }
    EXPECT_EQ(loaded, multiplied) << candidate.description;
    if (windows.size() == 1) continue;
    ASSERT_GT(multiplied.size(), 1U) << candidate.description;
    const auto is_second_load = [&](const TileNode& node) {
      const auto* lanes = std::get_if<LoadLanes>(&node.kind);
      const auto* rows = std::get_if<LoadRows>(&node.kind);
      return (lanes != nullptr && lanes->buffer == multiplied[1]) ||
             (rows != nullptr && rows->buffer == multiplied[1]);
    };
    const auto load = std::find_if(program.body.begin(), program.body.end(), is_second_load);
    const auto product = std::find_if(load, program.body.end(), [](const TileNode& node) {
      return std::holds_alternative<WindowProduct>(node.kind);
    });
    ASSERT_NE(product, program.body.end()) << candidate.description;
    EXPECT_EQ(std::get<WindowProduct>(product->kind).windows, multiplied[0]) << candidate.description;
  }
  EXPECT_GT(several, 0U);
  EXPECT_GT(single, 0U);
}
/// An operand as it is and packed are two images: neither keeps the other from the planner.
TEST(RowsPasses, PackedImagesAreCandidatesOfTheirOwn) {
  const std::vector<Candidate> candidates = convolution(8, 16, 5, 14);
  const auto count = [&](bool packed) {
    return std::ranges::count_if(candidates, [&](const Candidate& candidate) {
      return candidate.description.find("group rows, L2B rows, L1B") != std::string::npos &&
             candidate.description.find("operand: group rows, L2B rows") != std::string::npos &&
             (candidate.description.find("packed") != std::string::npos) == packed;
    });
  };
  EXPECT_GT(count(true), 0);
  EXPECT_GT(count(false), 0);
}
/// Chunks of loads leave L2BM room for others.
TEST(RowsPasses, LoadsComeInSmallChunks) {
  const isa::Chip chip = isa::find_chip("mncore2");
  const layout::Transport road(chip, layout::L2bMode::kBroadcast, layout::L1bMode::kBroadcast,
                               layout::MabMode::kBroadcastMab);
  const auto largest = [&](int64_t numbers) {
    TileProgram program;
    program.name = "load";
    program.streams = {{"a", road, numbers, 0}};
    program.buffers = {{"a", 2048, isa::space_bit(isa::Space::kLm0)}};
    program.body = {{LoadTile{0, {}, 0, {}, numbers}}};
    int64_t most = 0;
    const isa::Program made = scheduler::build_program(lower_tile_program(program, chip), chip);
    for (const isa::Statement& statement : made.statements) {
      if (const auto* mv = std::get_if<isa::Mv>(&statement.kind))
        most = std::max(most, mv->instruction.size_lw);
    }
    return most;
  };
  EXPECT_GT(largest(2048), 0);
  EXPECT_LE(largest(2048), chip.memory.l2bm_lw / 16);
}

}  // namespace
}  // namespace kodama::compiler
