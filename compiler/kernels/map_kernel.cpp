/// `map-flat`: every PE computes a contiguous range of the flattened output.
#include <fmt/format.h>

#include <numeric>

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

Candidate map_on(const Spread& spread, const Layer& layer, const isa::Chip& chip) {
  const auto& map = std::get<MapLayer>(layer.body);
  const int64_t granule = spread.transport.granule();
  const auto inputs = static_cast<int64_t>(map.inputs.size());

  const int64_t needed = ceil_div(element_count(map.extents), spread.place_count * isa::kWordsPerLong);
  const int64_t tiles = ceil_div(needed, tile_capacity_lw(inputs + 1, granule, chip));
  // Tiles start on granules; of a single one, whole vectors are enough.
  const int64_t tile = round_up(ceil_div(needed, tiles), tiles > 1 ? granule : isa::kCyclesPerStep);
  const int64_t length = round_up(tile * tiles, granule);

  Candidate candidate;
  candidate.description =
      fmt::format("{} PEs ({}), {} tiles of {} LW", spread.place_count, spread.name, tiles, tile);

  std::vector<int> all_dims(map.extents.size());
  std::iota(all_dims.begin(), all_dims.end(), 0);
  const Layout layout({spread.axis({{tile * tiles, Level::kAddress, 1}})}, layout::Memory::kLm0, {},
                      layout::Padding::kUndefined);
  StreamPlacement flat;
  flat.extents = map.extents;
  flat.axis_dims = {all_dims};
  flat.layout = layout;
  flat.transport = spread.transport;
  flat.length_lw = length;
  for (size_t k = 0; k < map.inputs.size(); ++k) candidate.place(flat, fmt::format("x{}", k), map.inputs[k]);
  TensorAccess result;
  result.tensor = layer.outputs.at(0);
  result.map = AffineMap::identity(map.extents.size());
  candidate.place(flat, "y", result, true);

  candidate.predicted_cycles = tiles * (inputs * load_cycles(spread.transport, tile, chip) +
                                        store_cycles(spread.transport, tile, chip) +
                                        predicted_map_cycles(map.expr, tile / isa::kCyclesPerStep));

  candidate.emit = [expr = map.expr, placements = candidate.placements, tile, tiles, granule,
                    name = layer.name](const std::vector<int64_t>& addresses) {
    TileProgram program;
    program.name = name;
    TileLoop loop{"tile", tiles, {}};
    const TileIndex in_tile{0, {}};
    const TileIndex in_stream{0, {round_up(tile, granule)}};
    MapTile compute;
    compute.expr = expr;
    compute.count = tile;
    StoreTile store;
    for (size_t k = 0; k < placements.size(); ++k) {
      const int id = static_cast<int>(k);
      program.buffers.push_back({placements[k].name, tile, alternate_home(k)});
      program.streams.push_back(
          {placements[k].name, placements[k].transport, placements[k].length_lw, addresses[k]});
      if (placements[k].is_output) {
        compute.out = id;
        compute.out_at = in_tile;
        store = {id, in_tile, id, in_stream, tile};
      } else {
        loop.body.push_back({LoadTile{id, in_stream, id, in_tile, tile}});
        compute.inputs.push_back({id, in_tile});
      }
    }
    loop.body.push_back({compute});
    loop.body.push_back({store});
    program.body.push_back({loop});
    return program;
  };
  return candidate;
}

std::vector<Candidate> map_candidates(const Layer& layer, const LayerGraph&, const isa::Chip& chip,
                                      const KernelOptions&) {
  if (element_count(std::get<MapLayer>(layer.body).extents) == 0) return {};
  return spread_candidates(chip, [&](const Spread& spread) { return map_on(spread, layer, chip); });
}

}  // namespace

Kernel map_kernel() {
  return {"map-flat", "element-wise expressions; each PE takes a contiguous range of the output",
          LayerKind::kMap, map_candidates};
}

}  // namespace kodama::compiler
