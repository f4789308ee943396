/// `map-flat`: every PE computes a contiguous range of the flattened output.
#include "compiler/kernels/map_kernel.h"

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

constexpr const char* kMapFlat = "map-flat";

/// The same element for every result.
bool is_single(const TensorAccess& input, const Shape& extents) {
  for (size_t axis = 0; axis < input.map.axes(); ++axis) {
    for (size_t dim = 0; dim < extents.size(); ++dim) {
      if (extents[dim] > 1 && input.map.coefficient(axis, dim) != 0) return false;
    }
  }
  return element_count(extents) > 1;
}

/// A stream of that element alone, which all PEs get.
StreamPlacement single_placement(const TensorAccess& input, const isa::Chip& chip) {
  StreamPlacement single;
  single.extents = {1};
  single.access = input;
  single.access.map = AffineMap(input.map.axes(), 1);
  for (size_t axis = 0; axis < input.map.axes(); ++axis)
    single.access.map.set_offset(axis, input.map.offset(axis));
  single.axis_dims = {{0}};
  single.transport = {chip, layout::L2bMode::kBroadcast, layout::L1bMode::kBroadcast,
                      layout::MabMode::kBroadcastMab};
  single.length_lw = single.transport.granule();
  single.layout = Layout({{}}, layout::Memory::kLm0,
                         {{single.length_lw, Level::kAddress, 1},
                          {isa::kPePerMab, Level::kPe, 1},
                          {isa::kWordsPerLong, Level::kWord, 1}},
                         layout::Padding::kUndefined);
  return single;
}

/// The layer where results lie as `like` says, whose iterations have the results `at`; in `tiles` tiles of
/// `tile` LW.
Candidate map_as(StreamPlacement like, const AffineMap& at, int64_t tile, int64_t tiles, const Layer& layer,
                 const isa::Chip& chip) {
  const auto& map = std::get<MapLayer>(layer.body);
  const int64_t granule = like.transport.granule();
  Candidate candidate;
  like.layout.set_padding(layout::Padding::kUndefined);
  std::vector<bool> singles;
  int64_t loads = 0;
  for (size_t k = 0; k < map.inputs.size(); ++k) {
    TensorAccess access = map.inputs[k];
    singles.push_back(is_single(access, map.extents));
    if (singles.back()) {
      const StreamPlacement single = single_placement(map.inputs[k], chip);
      candidate.place(single, fmt::format("x{}", k), single.access);
      continue;
    }
    access.map = access.map.after(at);
    candidate.place(like, fmt::format("x{}", k), access);
    ++loads;
  }
  TensorAccess result;
  result.tensor = layer.outputs.at(0);
  result.map = at;
  candidate.place(like, "y", result, true);
  for (size_t k = 0; k < singles.size(); ++k) {
    if (!singles[k]) candidate.elementwise.push_back(k);
  }

  candidate.predicted_cycles =
      tiles * (loads * load_cycles(like.transport, tile, chip) + store_cycles(like.transport, tile, chip) +
               predicted_map_cycles(map.expr, tile / isa::kCyclesPerStep));
  for (size_t k = 0; k < singles.size(); ++k) {
    const StreamPlacement& single = candidate.placements[k];
    if (singles[k]) candidate.predicted_cycles += load_cycles(single.transport, single.length_lw, chip);
  }

  candidate.emit = [expr = map.expr, placements = candidate.placements, singles, tile, tiles, granule,
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
      const bool single = k < singles.size() && singles[k];
      program.buffers.push_back(
          {placements[k].name, single ? placements[k].length_lw : tile, alternate_home(k)});
      program.streams.push_back(
          {placements[k].name, placements[k].transport, placements[k].length_lw, addresses[k]});
      if (placements[k].is_output) {
        compute.out = id;
        compute.out_at = in_tile;
        store = {id, in_tile, id, in_stream, tile};
      } else if (single) {
        program.body.push_back({LoadTile{id, {}, id, {}, placements[k].length_lw}});
        compute.inputs.push_back({id, {}, true});
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

Candidate map_on(const Spread& spread, const Layer& layer, const isa::Chip& chip) {
  const auto& map = std::get<MapLayer>(layer.body);
  const int64_t granule = spread.transport.granule();
  const auto inputs = static_cast<int64_t>(map.inputs.size());

  const int64_t needed = ceil_div(element_count(map.extents), spread.place_count * isa::kWordsPerLong);
  const int64_t tiles = ceil_div(needed, tile_capacity_lw(inputs + 1, granule, chip));
  // Tiles start on granules; of a single one, whole vectors are enough.
  const int64_t tile = round_up(ceil_div(needed, tiles), tiles > 1 ? granule : isa::kCyclesPerStep);

  StreamPlacement flat;
  flat.extents = map.extents;
  flat.axis_dims.emplace_back(map.extents.size());
  std::iota(flat.axis_dims.front().begin(), flat.axis_dims.front().end(), 0);
  flat.layout = Layout({spread.axis({{tile * tiles, Level::kAddress, 1}})}, layout::Memory::kLm0);
  flat.transport = spread.transport;
  flat.length_lw = round_up(tile * tiles, granule);
  Candidate candidate = map_as(flat, AffineMap::identity(map.extents.size()), tile, tiles, layer, chip);
  candidate.description =
      fmt::format("{} PEs ({}), {} tiles of {} LW", spread.place_count, spread.name, tiles, tile);
  return candidate;
}

std::vector<Candidate> map_candidates(const Layer& layer, const LayerGraph&, const isa::Chip& chip,
                                      const KernelOptions&) {
  if (element_count(std::get<MapLayer>(layer.body).extents) == 0) return {};
  return spread_candidates(chip, [&](const Spread& spread) { return map_on(spread, layer, chip); });
}

}  // namespace

std::optional<Candidate> map_candidate_like(const StreamPlacement& like, const AffineMap& at,
                                            const Layer& layer, const isa::Chip& chip) {
  if (like.element != StreamElement::kFloat) return std::nullopt;
  const int64_t granule = like.transport.granule();
  const int64_t granules = like.length_lw / granule;
  const auto inputs = std::ssize(std::get<MapLayer>(layer.body).inputs);
  int64_t of_tile = std::min(tile_capacity_lw(inputs + 1, granule, chip) / granule, granules);
  while (granules % of_tile != 0) --of_tile;
  Candidate candidate = map_as(like, at, of_tile * granule, granules / of_tile, layer, chip);
  candidate.kernel = kMapFlat;
  candidate.description =
      fmt::format("as another kernel made it, {} tiles of {} LW", granules / of_tile, of_tile * granule);
  return candidate;
}

Kernel map_kernel() {
  return {kMapFlat, "element-wise expressions; each PE takes a contiguous range of the output",
          LayerKind::kMap, map_candidates};
}

}  // namespace kodama::compiler
