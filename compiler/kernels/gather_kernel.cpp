/// `gather-tables`: every PE has tables in LM0, and finds the words that its indices name through T.
///
/// The dims of a Gather are of three kinds: those that choose a table and an index (kBoth), those that the
/// index alone depends on (kIndex), and those that tables alone depend on (kTable). Each level of the tree is
/// given to one of the kinds, or to none: what doesn't depend on it is broadcast there. Example, rows of 64
/// of a table [1000, 64] by 16 indices: columns (kTable) over MABs and PEs, so that every PE has a column of
/// the table and all indices; or the same with L1Bs for indices (kIndex), so that it has two of them.
///
///     tables   [kBoth][kTable][places, and one of zeros]     streams of LW, in one of three forms
///     indices  [kBoth][kIndex]                               (GatherTile::Form)
///     results  [kBoth][kTable][kIndex]
///
/// What LM0 has no room for comes one after the other. Tables that are longer than LM0 are cut before
/// (split_gathers).
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <optional>

#include "compiler/kernels/builtin_kernels.h"
#include "compiler/kernels/level_units.h"
#include "compiler/kernels/predict.h"
#include "compiler/kernels/spread.h"
#include "isa/arithmetic.h"

namespace kodama::compiler {
namespace {

using isa::ceil_div;
using isa::round_up;
using layout::Factor;
using layout::Layout;
using layout::Level;
using layout::Transport;
using Form = GatherTile::Form;

constexpr size_t kBoth = 0, kTable = 1, kIndex = 2, kKinds = 3;
constexpr std::array<const char*, kKinds> kKindNames = {"both", "tables", "indices"};

struct GatherDims {
  std::array<std::vector<int>, kKinds> dims;
  std::array<int64_t, kKinds> extent{1, 1, 1};
};

GatherDims dims_of(const GatherLayer& gather) {
  GatherDims dims;
  for (size_t dim = 0; dim < gather.extents.size(); ++dim) {
    // Those of one point are in all images alike.
    const bool in_index =
        gather.extents[dim] == 1 || std::ranges::any_of(gather.index_inputs, [&](const TensorAccess& access) {
          return access.map.depends_on(dim);
        });
    const bool in_data = gather.extents[dim] == 1 || gather.data.map.depends_on(dim);
    const size_t kind = !in_index ? kTable : in_data ? kBoth : kIndex;
    dims.dims[kind].push_back(static_cast<int>(dim));
    dims.extent[kind] *= gather.extents[dim];
  }
  return dims;
}

/// The kind whose dims the words of a LW are.
size_t kind_of_words(Form form) {
  return form == Form::kPairs ? kTable : form == Form::kOwn ? kBoth : kIndex;
}

/// What a PE does. Counts are of elements of a kind's dims that a PE has in addresses, of indices LW.
struct GatherTiling {
  Form form = Form::kPairs;
  UnitKinds units{};
  std::array<std::vector<Factor>, kKinds> levels;
  std::array<int64_t, kKinds> tile{1, 1, 1}, tiles{1, 1, 1};
  int64_t table_lw = 0;
  Transport tables, indices, results;
  int64_t tables_pitch = 0, indices_pitch = 0, results_pitch = 0;

  int64_t tables_tile() const { return round_up(tile[kBoth] * tile[kTable] * table_lw, isa::kCyclesPerStep); }
  int64_t indices_tile() const { return tile[kBoth] * tile[kIndex]; }
  int64_t results_tile() const { return indices_tile() * tile[kTable]; }
};

bool computes_index(const GatherLayer& gather) {
  return !(gather.index == ScalarExpr::identity());
}
bool has_epilogue(const GatherLayer& gather) {
  return !(gather.epilogue == ScalarExpr::identity());
}

std::optional<GatherTiling> tiling_of(const GatherLayer& gather, const GatherDims& dims, Form form,
                                      const UnitKinds& units, const isa::Chip& chip) {
  GatherTiling tiling;
  tiling.form = form;
  tiling.units = units;
  for (size_t kind = 0; kind < kKinds; ++kind) tiling.levels[kind] = levels_of(units, kind, chip);
  std::array<int64_t, kKinds> own{};
  for (size_t kind = 0; kind < kKinds; ++kind) {
    const int64_t words = kind_of_words(form) == kind ? isa::kWordsPerLong : 1;
    own[kind] = ceil_div(dims.extent[kind], size_of(tiling.levels[kind]) * words);
  }
  own[kIndex] = round_up(own[kIndex], isa::kCyclesPerStep);
  tiling.table_lw = GatherTile::places_lw(form, gather.places);
  tiling.tables = transport_of(units, {kBoth, kTable}, chip);
  tiling.indices = transport_of(units, {kBoth, kIndex}, chip);
  tiling.results = transport_of(units, {kBoth, kTable, kIndex}, chip, true);

  // Tables have LM0, all else LM1.
  const int64_t room = tile_capacity_lw(1, isa::kCyclesPerStep, chip);
  const int64_t most_tables = room / tiling.table_lw;
  if (most_tables == 0) return std::nullopt;
  tiling.tile[kTable] = std::min(own[kTable], most_tables);
  tiling.tile[kBoth] =
      tiling.tile[kTable] == own[kTable] ? std::min(own[kBoth], most_tables / tiling.tile[kTable]) : 1;
  const int64_t of_index =
      static_cast<int64_t>(gather.index_inputs.size()) + (computes_index(gather) ? 1 : 0);
  const int64_t of_results =
      1 + static_cast<int64_t>(gather.epilogue_inputs.size()) + (has_epilogue(gather) ? 1 : 0);
  const auto most_indices = [&] {
    return room / (tiling.tile[kBoth] * (of_index + of_results * tiling.tile[kTable])) / isa::kCyclesPerStep *
           isa::kCyclesPerStep;
  };
  while (most_indices() == 0 && tiling.tile[kBoth] > 1) tiling.tile[kBoth] = (tiling.tile[kBoth] + 1) / 2;
  while (most_indices() == 0 && tiling.tile[kTable] > 1) tiling.tile[kTable] = (tiling.tile[kTable] + 1) / 2;
  if (most_indices() == 0) return std::nullopt;
  tiling.tile[kIndex] = std::min(own[kIndex], most_indices());
  for (size_t kind = 0; kind < kKinds; ++kind) {
    tiling.tiles[kind] = ceil_div(own[kind], tiling.tile[kind]);
    tiling.tile[kind] = ceil_div(own[kind], tiling.tiles[kind]);
  }
  tiling.tile[kIndex] = round_up(tiling.tile[kIndex], isa::kCyclesPerStep);
  tiling.tables_pitch = round_up(tiling.tables_tile(), tiling.tables.granule());
  tiling.indices_pitch = round_up(tiling.indices_tile(), tiling.indices.granule());
  tiling.results_pitch = round_up(tiling.results_tile(), tiling.results.granule());
  return tiling;
}

int64_t predicted_cycles(const GatherLayer& gather, const GatherTiling& tiling, const isa::Chip& chip) {
  const int64_t vectors = tiling.indices_tile() / isa::kCyclesPerStep;
  const int64_t tables = tiling.tile[kTable];
  const int64_t steps =
      tiling.form == Form::kPairs ? 2 + tables : (tiling.form == Form::kOwn ? 3 : 2) + 2 * tables;
  const int64_t visits = tiling.tiles[kBoth] * tiling.tiles[kTable];
  const auto inputs = static_cast<int64_t>(gather.index_inputs.size());
  const auto others = static_cast<int64_t>(gather.epilogue_inputs.size());
  int64_t each = inputs * load_cycles(tiling.indices, tiling.indices_tile(), chip) +
                 others * load_cycles(tiling.results, tiling.results_tile(), chip) +
                 store_cycles(tiling.results, tiling.results_tile(), chip) +
                 vectors * steps * isa::kCyclesPerStep;
  if (computes_index(gather)) each += predicted_map_cycles(gather.index, vectors);
  if (has_epilogue(gather))
    each += predicted_map_cycles(gather.epilogue, tiling.results_tile() / isa::kCyclesPerStep);
  return visits * (load_cycles(tiling.tables, tiling.tables_tile(), chip) + tiling.tiles[kIndex] * each);
}

/// An axis of elements of a kind: levels, the tile, the place in it, and the word if it is this kind's.
std::vector<Factor> axis(const GatherTiling& tiling, size_t kind, int64_t tile_stride, int64_t stride) {
  std::vector<Factor> factors = tiling.levels[kind];
  factors.push_back({tiling.tiles[kind], Level::kAddress, tile_stride});
  factors.push_back({tiling.tile[kind], Level::kAddress, stride});
  if (kind_of_words(tiling.form) == kind) factors.push_back({isa::kWordsPerLong, Level::kWord, 1});
  return factors;
}

TileProgram emit_gather(const GatherLayer& gather, const GatherTiling& tiling, const std::string& name,
                        const std::vector<StreamPlacement>& placements,
                        const std::vector<int64_t>& addresses) {
  TileProgram program;
  program.name = name;
  for (size_t k = 0; k < placements.size(); ++k)
    program.streams.push_back(
        {placements[k].name, placements[k].transport, placements[k].length_lw, addresses[k]});
  const auto buffer = [&](const std::string& label, int64_t lw, isa::Space home) {
    program.buffers.push_back({label, lw, isa::space_bit(home)});
    return static_cast<int>(program.buffers.size()) - 1;
  };
  const size_t inputs = gather.index_inputs.size();
  const auto& [boths, tables, indices] = tiling.tiles;

  const int table = buffer("table", tiling.tables_tile(), isa::Space::kLm0);
  TileLoop of_both{"both", boths, {}}, of_tables{"tables", tables, {}}, of_indices{"indices", indices, {}};
  of_tables.body.push_back({LoadTile{static_cast<int>(inputs),
                                     {0, {tables * tiling.tables_pitch, tiling.tables_pitch}},
                                     table,
                                     {},
                                     tiling.tables_tile()}});
  const TileIndex index_from{0, {indices * tiling.indices_pitch, 0, tiling.indices_pitch}};
  MapTile compute{gather.index, {}, -1, {}, tiling.indices_tile()};
  for (size_t k = 0; k < inputs; ++k) {
    const int id = buffer(placements[k].name, tiling.indices_tile(), isa::Space::kLm1);
    of_indices.body.push_back({LoadTile{static_cast<int>(k), index_from, id, {}, tiling.indices_tile()}});
    compute.inputs.push_back({id, {}});
  }
  int index = compute.inputs[0].buffer;
  if (computes_index(gather)) {
    index = compute.out = buffer("index", tiling.indices_tile(), isa::Space::kLm1);
    of_indices.body.push_back({compute});
  }
  const TileIndex results_at{
      0, {tables * indices * tiling.results_pitch, indices * tiling.results_pitch, tiling.results_pitch}};
  int result = buffer("found", tiling.results_tile(), isa::Space::kLm1);
  for (int64_t both = 0; both < tiling.tile[kBoth]; ++both) {
    GatherTile find;
    find.form = tiling.form;
    find.table = table;
    find.table_at = {both * tiling.tile[kTable] * tiling.table_lw, {}};
    find.tables = tiling.tile[kTable];
    find.table_lw = tiling.table_lw;
    find.places = gather.places;
    find.index = index;
    find.index_at = {both * tiling.tile[kIndex], {}};
    find.out = result;
    find.out_at = {both * tiling.tile[kIndex] * tiling.tile[kTable], {}};
    find.count = tiling.tile[kIndex];
    of_indices.body.push_back({find});
  }
  if (has_epilogue(gather)) {
    MapTile epilogue{gather.epilogue, {{result, {}}}, -1, {}, tiling.results_tile()};
    for (size_t k = 0; k < gather.epilogue_inputs.size(); ++k) {
      const size_t stream = inputs + 1 + k;
      const int id = buffer(placements[stream].name, tiling.results_tile(), isa::Space::kLm1);
      of_indices.body.push_back(
          {LoadTile{static_cast<int>(stream), results_at, id, {}, tiling.results_tile()}});
      epilogue.inputs.push_back({id, {}});
    }
    result = epilogue.out = buffer("y", tiling.results_tile(), isa::Space::kLm1);
    of_indices.body.push_back({epilogue});
  }
  of_indices.body.push_back(
      {StoreTile{result, {}, static_cast<int>(placements.size()) - 1, results_at, tiling.results_tile()}});
  of_tables.body.push_back({of_indices});
  of_both.body.push_back({of_tables});
  program.body.push_back({of_both});
  return program;
}

Candidate gather_with(const GatherLayer& gather, const GatherDims& dims, const GatherTiling& tiling,
                      const Layer& layer, const isa::Chip& chip) {
  const auto& [boths, tables, indices] = tiling.tiles;
  Candidate candidate;
  candidate.description = fmt::format(
      "{}; {}, {} x {} x {} tiles of {} x {} tables of {} LW, {} LW of indices",
      describe(tiling.units, kKindNames), kGatherFormNames.at(static_cast<size_t>(tiling.form)), boths,
      tables, indices, tiling.tile[kBoth], tiling.tile[kTable], tiling.table_lw, tiling.tile[kIndex]);
  candidate.predicted_cycles = predicted_cycles(gather, tiling, chip);

  StreamPlacement index;
  index.extents = gather.extents;
  index.axis_dims = {dims.dims[kBoth], dims.dims[kIndex]};
  index.layout =
      Layout({axis(tiling, kBoth, indices * tiling.indices_pitch, tiling.tile[kIndex]),
              axis(tiling, kIndex, tiling.indices_pitch, 1)},
             layout::Memory::kLm0,
             tiling.form == Form::kPairs ? std::vector<Factor>{{isa::kWordsPerLong, Level::kWord, 1}}
                                         : std::vector<Factor>{},
             layout::Padding::kUndefined);
  index.transport = tiling.indices;
  index.length_lw = boths * indices * tiling.indices_pitch;
  for (size_t k = 0; k < gather.index_inputs.size(); ++k)
    candidate.place(index, fmt::format("i{}", k), gather.index_inputs[k]);

  StreamPlacement table;
  table.extents = gather.extents;
  table.extents.push_back(gather.places);
  table.axis_dims = {dims.dims[kBoth], dims.dims[kTable], {static_cast<int>(gather.extents.size())}};
  std::vector<Factor> places = {{tiling.table_lw, Level::kAddress, 1}};
  if (tiling.form == Form::kWords) places.push_back({isa::kWordsPerLong, Level::kWord, 1});
  table.layout =
      Layout({axis(tiling, kBoth, tables * tiling.tables_pitch, tiling.tile[kTable] * tiling.table_lw),
              axis(tiling, kTable, tiling.tables_pitch, tiling.table_lw), places},
             layout::Memory::kLm0, {}, layout::Padding::kZero);
  table.transport = tiling.tables;
  table.length_lw = boths * tables * tiling.tables_pitch;
  candidate.place(table, "table", gather.data);

  StreamPlacement results;
  results.extents = gather.extents;
  results.axis_dims = {dims.dims[kBoth], dims.dims[kTable], dims.dims[kIndex]};
  results.layout = Layout({axis(tiling, kBoth, tables * indices * tiling.results_pitch,
                                tiling.tile[kTable] * tiling.tile[kIndex]),
                           axis(tiling, kTable, indices * tiling.results_pitch, tiling.tile[kIndex]),
                           axis(tiling, kIndex, tiling.results_pitch, 1)},
                          layout::Memory::kLm0, {}, layout::Padding::kUndefined);
  results.transport = tiling.results;
  results.length_lw = boths * tables * indices * tiling.results_pitch;
  for (size_t k = 0; k < gather.epilogue_inputs.size(); ++k)
    candidate.place(results, fmt::format("e{}", k), gather.epilogue_inputs[k]);
  candidate.place(results, "y", {layer.outputs.at(0), AffineMap::identity(gather.extents.size()), 0}, true);

  candidate.emit = [gather, tiling, name = layer.name,
                    placements = candidate.placements](const std::vector<int64_t>& addresses) {
    return emit_gather(gather, tiling, name, placements, addresses);
  };
  return candidate;
}

std::vector<Candidate> gather_candidates(const Layer& layer, const LayerGraph&, const isa::Chip& chip,
                                         const KernelOptions&) {
  const auto& gather = std::get<GatherLayer>(layer.body);
  if (element_count(gather.extents) == 0) return {};
  const GatherDims dims = dims_of(gather);
  // What is best where PEs are given to a kind: these differ in what has to be broadcast, and so in what
  // relayouts around them cost.
  std::map<size_t, std::pair<int64_t, GatherTiling>> best;
  for (const Form form : {Form::kPairs, Form::kOwn, Form::kWords}) {
    for (const UnitKinds& units : all_unit_kinds(dims.extent)) {
      const auto tiling = tiling_of(gather, dims, form, units, chip);
      if (!tiling) continue;
      const int64_t cycles = predicted_cycles(gather, *tiling, chip);
      const auto found = best.find(units[kPeUnit]);
      if (found == best.end() || cycles < found->second.first) best[units[kPeUnit]] = {cycles, *tiling};
    }
  }
  std::vector<Candidate> candidates;
  for (const auto& [kind, found] : best)
    candidates.push_back(gather_with(gather, dims, found.second, layer, chip));
  return candidates;
}

}  // namespace

Kernel gather_kernel() {
  return {"gather-tables", "tables in LM0, read where indices say", LayerKind::kGather, gather_candidates};
}

}  // namespace kodama::compiler
