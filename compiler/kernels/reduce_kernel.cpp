/// `reduce-serial`: every PE reduces the elements of its own outputs one after the other.
///
/// Outputs are spread over the PEs as a Map's are, in blocks of `block` LW; a stream holds, block by block,
/// all reduction elements: number = block * pitch + r * block_lw + LW in the block. Reductions with few
/// outputs and many elements are split into two layers first (split_reductions), so a PE's list stays short.
#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <numeric>

#include "compiler/kernels/builtin_kernels.h"
#include "compiler/kernels/lowering.h"
#include "compiler/kernels/predict.h"
#include "compiler/kernels/spread.h"
#include "isa/arithmetic.h"

namespace kodama::compiler {
namespace {

using isa::round_up;
using layout::Factor;
using layout::Layout;
using layout::Level;
using layout::Padding;

float identity_of(ReduceLayer::Op op) {
  switch (op) {
    case ReduceLayer::Op::kSum:
      return 0.0f;
    case ReduceLayer::Op::kProd:
      return 1.0f;
    case ReduceLayer::Op::kMax:
      return -std::numeric_limits<float>::infinity();
    case ReduceLayer::Op::kMin:
      return std::numeric_limits<float>::infinity();
  }
  return 0.0f;
}

struct Tiling {
  int64_t blocks = 0;  ///< per PE
  int64_t block_lw = 0;
  int64_t pitch_lw = 0;  ///< stream numbers from one block to the next
  int64_t chunk = 0;     ///< reduction elements per tile
  int64_t chunks = 0;    ///< full tiles
  int64_t rest = 0;      ///< elements of the last, shorter tile
};

std::vector<Candidate> reduce_candidates(const Layer& layer, const LayerGraph&, const isa::Chip& chip,
                                         const KernelOptions&) {
  const auto& reduce = std::get<ReduceLayer>(layer.body);
  const int64_t outputs = element_count(reduce.output_extents);
  const int64_t elements = element_count(reduce.reduction_extents);
  if (outputs == 0 || elements == 0) return {};
  const Spread spread = choose_spread(outputs, chip);
  const auto inputs = static_cast<int64_t>(reduce.inputs.size());
  const auto epilogue_inputs = static_cast<int64_t>(reduce.epilogue_inputs.size());
  const int64_t load_granule = spread.load.granule();
  const int64_t store_granule = spread.store.granule();
  const bool has_epilogue = !(reduce.epilogue == ScalarExpr::identity());

  // Accumulator, epilogue inputs and result take one block each, the inputs one tile each.
  const int64_t lanes = spread.place_count * 2;
  const int64_t needed = round_up((outputs + lanes - 1) / lanes, store_granule);
  Tiling tiling;
  tiling.block_lw = std::min<int64_t>(needed, round_up(32, store_granule));
  if (epilogue_inputs > 0) tiling.block_lw = round_up(tiling.block_lw, load_granule);
  tiling.blocks = (needed + tiling.block_lw - 1) / tiling.block_lw;
  const int64_t output_length = tiling.blocks * tiling.block_lw;

  const int64_t block_buffers = 2 + epilogue_inputs;
  const int64_t reserved = (block_buffers + 1) / 2 * tiling.block_lw;
  const int64_t capacity = tile_capacity_lw(inputs, 1, chip) - reserved;
  // A tile starts on a granule, so it holds a multiple of `unit` reduction elements.
  const int64_t unit = load_granule / std::gcd(load_granule, tiling.block_lw);
  const int64_t fitting = capacity / tiling.block_lw / unit * unit;
  if (fitting <= 0) return {};
  tiling.chunk = std::min(fitting, round_up(elements, unit));
  tiling.chunks = elements / tiling.chunk;
  tiling.rest = elements - tiling.chunks * tiling.chunk;
  tiling.pitch_lw = round_up(elements * tiling.block_lw, load_granule);

  Candidate candidate;
  candidate.kernel = "reduce-serial";
  candidate.description =
      fmt::format("{} PEs, {} blocks of {} LW, {} elements in tiles of {}", spread.place_count, tiling.blocks,
                  tiling.block_lw, elements, tiling.chunk);

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
  const Layout output_layout({spread.axis({{output_length, Level::kAddress, 1}})}, layout::Memory::kLm0, {},
                             layout::Padding::kUndefined);

  for (size_t k = 0; k < reduce.inputs.size(); ++k) {
    StreamPlacement placement;
    placement.name = fmt::format("x{}", k);
    placement.access = reduce.inputs[k];
    placement.extents = space;
    placement.axis_dims = {output_dims, reduction_dims};
    placement.layout = input_layout;
    placement.transport = spread.load;
    placement.length_lw = tiling.blocks * tiling.pitch_lw;
    candidate.placements.push_back(std::move(placement));
  }
  const auto place_block = [&](std::string name, const TensorAccess& access, bool is_output) {
    StreamPlacement placement;
    placement.name = std::move(name);
    placement.is_output = is_output;
    placement.access = access;
    placement.extents = reduce.output_extents;
    placement.axis_dims = {output_dims};
    placement.layout = output_layout;
    placement.transport = is_output ? spread.store : spread.load;
    placement.length_lw = output_length;
    candidate.placements.push_back(std::move(placement));
  };
  for (size_t k = 0; k < reduce.epilogue_inputs.size(); ++k) {
    place_block(fmt::format("e{}", k), reduce.epilogue_inputs[k], false);
  }
  TensorAccess result;
  result.tensor = layer.outputs.at(0);
  result.map = AffineMap::identity(reduce.output_extents.size());
  place_block("y", result, true);

  const int64_t tile_lw = tiling.chunk * tiling.block_lw;
  const int64_t tiles = tiling.chunks + (tiling.rest > 0 ? 1 : 0);
  candidate.predicted_cycles =
      tiling.blocks * (tiles * inputs * load_cycles(spread.load, tile_lw, chip) +
                       elements * (tiling.block_lw / 4) * predicted_scalar_cycles(reduce.expr) +
                       epilogue_inputs * load_cycles(spread.load, tiling.block_lw, chip) +
                       predicted_scalar_cycles(reduce.epilogue) * (tiling.block_lw / 4) +
                       store_cycles(spread.store, tiling.block_lw, chip));

  candidate.emit = [reduce, tiling, has_epilogue, placements = candidate.placements,
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

    TileLoop blocks{"block", tiling.blocks, {}};
    blocks.body.push_back({FillTile{accumulator, {}, tiling.block_lw, identity_of(reduce.op)}});

    const auto reduce_tile = [&](std::vector<TileNode>& body, int64_t repeats, const TileIndex& from) {
      ReduceTile op;
      op.op = reduce.op;
      op.expr = reduce.expr;
      op.accumulator = accumulator;
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
    const TileIndex block_at{0, {tiling.block_lw}};
    if (has_epilogue) {
      MapTile epilogue;
      epilogue.expr = reduce.epilogue;
      epilogue.count = tiling.block_lw;
      epilogue.inputs.push_back({accumulator, {}});
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
  return with_other_orders(candidate);
}

}  // namespace

Kernel reduce_kernel() {
  return {"reduce-serial", "every PE reduces the elements of its own outputs one after the other",
          LayerKind::kReduce, reduce_candidates};
}

}  // namespace kodama::compiler
