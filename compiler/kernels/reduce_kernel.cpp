/// `reduce-serial`: every PE reduces the elements of its own outputs one after the other.
///
/// Outputs are spread over the PEs as a Map's are, in blocks of `block` LW; a stream holds, block by block,
/// all reduction elements: number = block * pitch + r * block_lw + LW in the block. Reductions with few
/// outputs and many elements are split into two layers first (split_reductions), so a PE's list stays short.
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <numeric>
#include <optional>

#include "compiler/kernels/builtin_kernels.h"
#include "compiler/kernels/lowering.h"
#include "compiler/kernels/predict.h"
#include "compiler/kernels/spread.h"
#include "isa/arithmetic.h"

namespace kodama::compiler {
namespace {

using isa::ceil_div;
using isa::round_up;
using layout::Layout;
using layout::Level;
using layout::Padding;

/// LW of a result that a PE reduces at a time, where it has as many: enough to fill the distances between
/// dependent steps.
constexpr int64_t kBlockLw = 32;

struct Tiling {
  int64_t blocks = 0;  ///< per PE
  int64_t block_lw = 0;
  int64_t pitch_lw = 0;  ///< stream numbers from one block to the next
  int64_t chunk = 0;     ///< reduction elements per tile
  int64_t chunks = 0;    ///< full tiles
  int64_t rest = 0;      ///< elements of the last, shorter tile
};

/// An epilogue whose double is two inputs, the upper word and the lower one; the others come behind them.
ScalarExpr with_words(const ScalarExpr& epilogue) {
  ScalarExpr result;
  std::vector<int> numbers;
  for (ScalarNode node : epilogue.nodes()) {
    for (int& arg : node.args) {
      if (arg >= 0) arg = numbers[static_cast<size_t>(arg)];
    }
    if (node.op == ScalarOp::kDoubleInput) {
      const int high = result.input(0);
      numbers.push_back(result.apply(ScalarOp::kPair, high, result.input(1)));
    } else if (node.op == ScalarOp::kInput) {
      numbers.push_back(result.input(node.input + 1));
    } else if (scalar_op_arity(node.op) == 0) {
      numbers.push_back(result.leaf(node));
    } else {
      numbers.push_back(result.apply(node.op, node.args[0], node.args[1], node.args[2]));
    }
  }
  result.set_result(numbers.back());
  return result;
}

std::optional<Candidate> reduce_on(const Spread& spread, const Layer& layer, const isa::Chip& chip) {
  const auto& reduce = std::get<ReduceLayer>(layer.body);
  const int64_t outputs = element_count(reduce.output_extents);
  const int64_t elements = element_count(reduce.reduction_extents);
  const auto inputs = static_cast<int64_t>(reduce.inputs.size());
  const auto epilogue_inputs = static_cast<int64_t>(reduce.epilogue_inputs.size());
  const int64_t granule = spread.transport.granule();
  const bool has_epilogue = !(reduce.epilogue == ScalarExpr::identity());
  const bool of_doubles = reduced_kind(reduce) == ScalarKind::kDouble;

  // Accumulator, epilogue inputs and result take one block each, the inputs one tile each. Blocks start on
  // granules; of a single one, whole vectors are enough.
  const int64_t lanes = spread.place_count * isa::kWordsPerLong;
  const int64_t needed = round_up(ceil_div(outputs, lanes), isa::kCyclesPerStep);
  Tiling tiling;
  tiling.block_lw = std::min(needed, round_up(kBlockLw, granule));
  tiling.blocks = ceil_div(needed, tiling.block_lw);
  const int64_t output_length = round_up(tiling.blocks * tiling.block_lw, granule);

  const int64_t block_buffers = (of_doubles ? 3 : 2) + epilogue_inputs;
  const int64_t reserved = (block_buffers + 1) / 2 * tiling.block_lw;
  const int64_t capacity = tile_capacity_lw(inputs, 1, chip) - reserved;
  // A tile starts on a granule, so it holds a multiple of `unit` reduction elements.
  const int64_t unit = granule / std::gcd(granule, tiling.block_lw);
  const int64_t fitting = capacity / tiling.block_lw / unit * unit;
  if (fitting <= 0) return std::nullopt;
  tiling.chunk = std::min(fitting, round_up(elements, unit));
  tiling.chunks = elements / tiling.chunk;
  tiling.rest = elements - tiling.chunks * tiling.chunk;
  tiling.pitch_lw = round_up(elements * tiling.block_lw, granule);

  Candidate candidate;
  candidate.description =
      fmt::format("{} PEs ({}), {} blocks of {} LW, {} elements in tiles of {}", spread.place_count,
                  spread.name, tiling.blocks, tiling.block_lw, elements, tiling.chunk);

  Shape space = reduce.output_extents;
  space.insert(space.end(), reduce.reduction_extents.begin(), reduce.reduction_extents.end());
  std::vector<int> output_dims(reduce.output_extents.size());
  std::iota(output_dims.begin(), output_dims.end(), 0);
  std::vector<int> reduction_dims(reduce.reduction_extents.size());
  std::iota(reduction_dims.begin(), reduction_dims.end(), static_cast<int>(output_dims.size()));

  const Layout input_layout({spread.axis({{tiling.blocks, Level::kAddress, tiling.pitch_lw},
                                          {tiling.block_lw, Level::kAddress, 1}}),
                             {{elements, Level::kAddress, tiling.block_lw}}},
                            layout::Memory::kLm0, {}, layout::Padding::kUndefined);
  const Layout output_layout({spread.axis({{tiling.blocks * tiling.block_lw, Level::kAddress, 1}})},
                             layout::Memory::kLm0, {}, layout::Padding::kUndefined);

  StreamPlacement elements_of_blocks;
  elements_of_blocks.extents = space;
  elements_of_blocks.axis_dims = {output_dims, reduction_dims};
  elements_of_blocks.layout = input_layout;
  elements_of_blocks.transport = spread.transport;
  elements_of_blocks.length_lw = tiling.blocks * tiling.pitch_lw;
  for (size_t k = 0; k < reduce.inputs.size(); ++k)
    candidate.place(elements_of_blocks, fmt::format("x{}", k), reduce.inputs[k]);
  StreamPlacement blocks = elements_of_blocks;
  blocks.extents = reduce.output_extents;
  blocks.axis_dims = {output_dims};
  blocks.layout = output_layout;
  blocks.length_lw = output_length;
  for (size_t k = 0; k < reduce.epilogue_inputs.size(); ++k)
    candidate.place(blocks, fmt::format("e{}", k), reduce.epilogue_inputs[k]);
  TensorAccess result;
  result.tensor = layer.outputs.at(0);
  result.map = AffineMap::identity(reduce.output_extents.size());
  candidate.place(blocks, "y", result, true);

  const int64_t tile_lw = tiling.chunk * tiling.block_lw;
  const int64_t tiles = tiling.chunks + (tiling.rest > 0 ? 1 : 0);
  const int64_t vectors = tiling.block_lw / isa::kCyclesPerStep;
  candidate.predicted_cycles =
      tiling.blocks * (tiles * inputs * load_cycles(spread.transport, tile_lw, chip) +
                       predicted_reduce_cycles(reduce.expr, vectors, elements) +
                       epilogue_inputs * load_cycles(spread.transport, tiling.block_lw, chip) +
                       (has_epilogue ? predicted_map_cycles(reduce.epilogue, vectors) : 0) +
                       store_cycles(spread.transport, tiling.block_lw, chip));

  candidate.emit = [reduce, tiling, has_epilogue, of_doubles, granule, placements = candidate.placements,
                    name = layer.name](const std::vector<int64_t>& addresses) {
    TileProgram program;
    program.name = name;
    for (size_t k = 0; k < placements.size(); ++k) {
      program.streams.push_back(
          {placements[k].name, placements[k].transport, placements[k].length_lw, addresses[k]});
    }
    const auto buffer = [&](const std::string& label, int64_t size) {
      program.buffers.push_back({label, size, alternate_home(program.buffers.size())});
      return static_cast<int>(program.buffers.size()) - 1;
    };
    const size_t input_count = reduce.inputs.size();
    std::vector<int> tiles;
    for (size_t k = 0; k < input_count; ++k)
      tiles.push_back(buffer(placements[k].name, tiling.chunk * tiling.block_lw));
    const int accumulator = buffer("accumulator", tiling.block_lw);
    const int low_accumulator = of_doubles ? buffer("lower words", tiling.block_lw) : -1;

    TileLoop blocks{"block", tiling.blocks, {}};
    const double identity = identity_of(reduce.op);
    const auto fill = [&](int id, uint32_t word) {
      blocks.body.push_back({FillTile{id, {}, tiling.block_lw, word}});
    };
    if (of_doubles) {
      const auto bits = std::bit_cast<uint64_t>(identity);
      fill(accumulator, static_cast<uint32_t>(bits >> 32));
      fill(low_accumulator, static_cast<uint32_t>(bits));
    } else {
      const bool is_integer = reduce_kind(reduce.op) == ScalarKind::kInteger;
      fill(accumulator, word_of(identity, is_integer ? DataType::kInt32 : DataType::kFloat32));
    }

    const auto reduce_tile = [&](std::vector<TileNode>& body, int64_t repeats, const TileIndex& from) {
      ReduceTile op;
      op.op = reduce.op;
      op.expr = reduce.expr;
      op.accumulator = accumulator;
      op.low_accumulator = low_accumulator;
      op.count = tiling.block_lw;
      op.repeats = repeats;
      for (size_t k = 0; k < input_count; ++k) {
        body.push_back({LoadTile{static_cast<int>(k), from, tiles[k], {}, repeats * tiling.block_lw}});
        op.inputs.push_back({tiles[k], {}});
      }
      body.push_back({op});
    };
    const int64_t tile_lw = tiling.chunk * tiling.block_lw;
    if (tiling.chunks > 0) {
      TileLoop loop{"chunk", tiling.chunks, {}};
      reduce_tile(loop.body, tiling.chunk, {0, {tiling.pitch_lw, tile_lw}});
      blocks.body.push_back({loop});
    }
    if (tiling.rest > 0) reduce_tile(blocks.body, tiling.rest, {tiling.chunks * tile_lw, {tiling.pitch_lw}});

    int out = accumulator;
    const TileIndex block_at{0, {round_up(tiling.block_lw, granule)}};
    if (has_epilogue) {
      MapTile epilogue;
      epilogue.expr = of_doubles ? with_words(reduce.epilogue) : reduce.epilogue;
      epilogue.count = tiling.block_lw;
      epilogue.inputs.push_back({accumulator, {}});
      if (of_doubles) epilogue.inputs.push_back({low_accumulator, {}});
      for (size_t k = 0; k < reduce.epilogue_inputs.size(); ++k) {
        const size_t stream = input_count + k;
        const int id = buffer(placements[stream].name, tiling.block_lw);
        blocks.body.push_back({LoadTile{static_cast<int>(stream), block_at, id, {}, tiling.block_lw}});
        epilogue.inputs.push_back({id, {}});
      }
      out = buffer("y", tiling.block_lw);
      epilogue.out = out;
      blocks.body.push_back({epilogue});
    }
    blocks.body.push_back(
        {StoreTile{out, {}, static_cast<int>(placements.size()) - 1, block_at, tiling.block_lw}});
    program.body.push_back({blocks});
    return program;
  };
  return candidate;
}

std::vector<Candidate> reduce_candidates(const Layer& layer, const LayerGraph&, const isa::Chip& chip,
                                         const KernelOptions&) {
  const auto& reduce = std::get<ReduceLayer>(layer.body);
  if (element_count(reduce.output_extents) == 0 || element_count(reduce.reduction_extents) == 0) return {};
  return spread_candidates(chip, [&](const Spread& spread) { return reduce_on(spread, layer, chip); });
}

}  // namespace

Kernel reduce_kernel() {
  return {"reduce-serial", "every PE reduces the elements of its own outputs one after the other",
          LayerKind::kReduce, reduce_candidates};
}

}  // namespace kodama::compiler
