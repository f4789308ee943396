/// `reduce-shared`: reductions in which many results look at the same elements: how many numbers are larger
/// than each, which update is for a place. What is reduced is broadcast, an element a LW, and stays in LM for
/// all results of a PE, which has its own operands in vectors.
///
/// Output dims are of two kinds: those that what is reduced depends on (kSets), and the others (kResults).
/// Each level of the tree is given to one of the kinds, or to none. Example, ranks of 1500 numbers in 21
/// parts, results [1500, 21] x 72: L2Bs and L1Bs have parts (kSets), MABs and PEs numbers (kResults).
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <numeric>
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
using layout::Padding;
using layout::Transport;

constexpr size_t kSets = 0, kResults = 1, kShareKinds = 2;
constexpr std::array<const char*, kShareKinds> kShareKindNames = {"sets", "results"};

/// LW of results that a PE reduces at a time, where it has as many.
constexpr int64_t kSharedBlockLw = 64;

/// Candidates beside the fastest may take so many times as long.
constexpr int64_t kSharedWorthOffering = 2;

struct SharedDims {
  std::array<std::vector<int>, kShareKinds> dims;
  std::array<int64_t, kShareKinds> extent{1, 1};
  std::vector<bool> is_shared;  ///< of each input
};

/// Nothing where every result has elements of its own.
std::optional<SharedDims> shared_dims_of(const ReduceLayer& reduce) {
  SharedDims shared;
  const size_t rank = reduce.output_extents.size();
  std::vector<bool> of_sets(rank, false);
  for (const TensorAccess& input : reduce.inputs) {
    bool is_shared = false;
    for (size_t k = 0; k < reduce.reduction_extents.size(); ++k)
      is_shared |= reduce.reduction_extents[k] > 1 && input.map.depends_on(rank + k);
    shared.is_shared.push_back(is_shared);
    for (size_t dim = 0; dim < rank && is_shared; ++dim)
      of_sets[dim] = of_sets[dim] || input.map.depends_on(dim);
  }
  for (size_t dim = 0; dim < rank; ++dim) {
    const size_t kind = of_sets[dim] || reduce.output_extents[dim] == 1 ? kSets : kResults;
    shared.dims[kind].push_back(static_cast<int>(dim));
    shared.extent[kind] *= reduce.output_extents[dim];
  }
  if (shared.extent[kResults] == 1) return std::nullopt;
  return shared;
}

struct SharedTiling {
  UnitKinds units{};
  std::array<std::vector<Factor>, kShareKinds> levels;
  int64_t sets = 1;                  ///< of a PE
  int64_t block_lw = 0, blocks = 1;  ///< of results of a set
  int64_t chunk = 0, chunks = 0;     ///< elements at a time, and how often
  int64_t rest = 0;                  ///< the last, if they are fewer
  Transport elements, results;
  int64_t elements_pitch = 0, block_pitch = 0;

  int64_t tiles() const { return chunks + (rest > 0 ? 1 : 0); }
};

std::optional<SharedTiling> tiling_of(const ReduceLayer& reduce, const SharedDims& dims,
                                      const UnitKinds& units, const isa::Chip& chip) {
  SharedTiling tiling;
  tiling.units = units;
  for (size_t kind = 0; kind < kShareKinds; ++kind) tiling.levels[kind] = levels_of(units, kind, chip);
  tiling.elements = transport_of(units, {kSets}, chip);
  tiling.results = transport_of(units, {kSets, kResults}, chip, true);
  tiling.sets = ceil_div(dims.extent[kSets], size_of(tiling.levels[kSets]));
  const int64_t own =
      round_up(ceil_div(dims.extent[kResults], size_of(tiling.levels[kResults]) * isa::kWordsPerLong),
               isa::kCyclesPerStep);
  tiling.blocks = ceil_div(own, kSharedBlockLw);
  tiling.block_lw = round_up(ceil_div(own, tiling.blocks), isa::kCyclesPerStep);
  tiling.block_pitch = round_up(tiling.block_lw, tiling.results.granule());

  const int64_t elements = element_count(reduce.reduction_extents);
  const int64_t shared = std::ranges::count(dims.is_shared, true);
  const int64_t blocks = std::ssize(reduce.inputs) - shared + std::ssize(reduce.epilogue_inputs) + 2;
  // Memory is used evenly by halves: of buffers of one size, every second is in LM1.
  const int64_t room =
      tile_capacity_lw(1, isa::kCyclesPerStep, chip) - ceil_div(blocks, int64_t{2}) * tiling.block_lw;
  const int64_t granule = std::lcm(tiling.elements.granule(), int64_t{isa::kCyclesPerStep});
  tiling.elements_pitch = round_up(elements, granule);
  const int64_t most = room / std::max<int64_t>(ceil_div(shared, int64_t{2}), 1) / granule * granule;
  if (most <= 0) return std::nullopt;
  tiling.chunk = std::min(most, tiling.elements_pitch);
  tiling.chunks = elements / tiling.chunk;
  tiling.rest = elements % tiling.chunk;
  return tiling;
}

int64_t predicted_cycles(const ReduceLayer& reduce, const SharedDims& dims, const SharedTiling& tiling,
                         const isa::Chip& chip) {
  const int64_t vectors = tiling.block_lw / isa::kCyclesPerStep;
  const int64_t shared = std::ranges::count(dims.is_shared, true);
  const int64_t held = std::ssize(reduce.inputs) - shared + std::ssize(reduce.epilogue_inputs);
  const int64_t elements = element_count(reduce.reduction_extents);
  const bool finishes = !(reduce.epilogue == ScalarExpr::identity());
  return tiling.sets * tiling.blocks *
         (held * load_cycles(tiling.results, tiling.block_lw, chip) +
          tiling.tiles() * shared *
              load_cycles(tiling.elements, std::min(tiling.chunk, tiling.elements_pitch), chip) +
          predicted_reduce_cycles(reduce.expr, vectors, elements) +
          (finishes ? predicted_map_cycles(reduce.epilogue, vectors) : 0) +
          store_cycles(tiling.results, tiling.block_lw, chip));
}

TileProgram emit_shared(const ReduceLayer& reduce, const SharedDims& dims, const SharedTiling& tiling,
                        const std::string& name, const std::vector<StreamPlacement>& placements,
                        const std::vector<int64_t>& addresses) {
  using Order = ReduceTile::Order;
  TileProgram program;
  program.name = name;
  for (size_t k = 0; k < placements.size(); ++k)
    program.streams.push_back(
        {placements[k].name, placements[k].transport, placements[k].length_lw, addresses[k]});
  const auto buffer = [&](const std::string& label, int64_t lw) {
    program.buffers.push_back({label, lw, alternate_home(program.buffers.size())});
    return static_cast<int>(program.buffers.size()) - 1;
  };
  const TileIndex block_at{0, {tiling.blocks * tiling.block_pitch, tiling.block_pitch}};
  const auto load_block = [&](std::vector<TileNode>& body, size_t stream) {
    const int id = buffer(placements[stream].name, tiling.block_lw);
    body.push_back({LoadTile{static_cast<int>(stream), block_at, id, {}, tiling.block_lw}});
    return id;
  };

  TileLoop sets{"set", tiling.sets, {}}, blocks{"block", tiling.blocks, {}};
  ReduceTile op;
  op.op = reduce.op;
  op.expr = reduce.expr;
  op.count = tiling.block_lw;
  for (size_t k = 0; k < reduce.inputs.size(); ++k) {
    const int id = dims.is_shared[k] ? buffer(placements[k].name, tiling.chunk) : load_block(blocks.body, k);
    op.inputs.push_back({id, {}, dims.is_shared[k] ? Order::kShared : Order::kHeld});
  }
  op.accumulator = buffer("accumulator", tiling.block_lw);
  const DataType type =
      reduce_kind(reduce.op) == ScalarKind::kInteger ? DataType::kInt32 : DataType::kFloat32;
  blocks.body.push_back(
      {FillTile{op.accumulator, {}, tiling.block_lw, word_of(identity_of(reduce.op), type)}});
  const auto reduce_elements = [&](std::vector<TileNode>& body, int64_t count, TileIndex from) {
    from.strides.insert(from.strides.begin(), {tiling.elements_pitch, 0});
    for (size_t k = 0; k < reduce.inputs.size(); ++k) {
      if (dims.is_shared[k])
        body.push_back({LoadTile{
            static_cast<int>(k), from, op.inputs[k].buffer, {}, round_up(count, isa::kCyclesPerStep)}});
    }
    op.repeats = count;
    body.push_back({op});
  };
  if (tiling.chunks > 0) {
    TileLoop chunks{"chunk", tiling.chunks, {}};
    reduce_elements(chunks.body, tiling.chunk, {0, {tiling.chunk}});
    blocks.body.push_back({chunks});
  }
  if (tiling.rest > 0) reduce_elements(blocks.body, tiling.rest, {tiling.chunks * tiling.chunk, {}});
  int result = op.accumulator;
  if (!(reduce.epilogue == ScalarExpr::identity())) {
    MapTile epilogue{reduce.epilogue, {{result, {}}}, -1, {}, tiling.block_lw};
    for (size_t k = 0; k < reduce.epilogue_inputs.size(); ++k)
      epilogue.inputs.push_back({load_block(blocks.body, reduce.inputs.size() + k), {}});
    result = epilogue.out = buffer("y", tiling.block_lw);
    blocks.body.push_back({epilogue});
  }
  blocks.body.push_back(
      {StoreTile{result, {}, static_cast<int>(placements.size()) - 1, block_at, tiling.block_lw}});
  sets.body.push_back({blocks});
  program.body.push_back({sets});
  return program;
}

Candidate reduce_with(const ReduceLayer& reduce, const SharedDims& dims, const SharedTiling& tiling,
                      const Layer& layer, const isa::Chip& chip) {
  Candidate candidate;
  const int64_t elements = element_count(reduce.reduction_extents);
  candidate.description = fmt::format("{}; {} sets, {} blocks of {} LW, {} elements in tiles of {}",
                                      describe(tiling.units, kShareKindNames), tiling.sets, tiling.blocks,
                                      tiling.block_lw, elements, tiling.chunk);
  candidate.predicted_cycles = predicted_cycles(reduce, dims, tiling, chip);

  const auto axis = [&](size_t kind, const std::vector<Factor>& addresses) {
    std::vector<Factor> factors = tiling.levels[kind];
    factors.insert(factors.end(), addresses.begin(), addresses.end());
    return factors;
  };
  const size_t rank = reduce.output_extents.size();
  StreamPlacement shared;
  shared.extents = reduce.output_extents;
  shared.extents.insert(shared.extents.end(), reduce.reduction_extents.begin(),
                        reduce.reduction_extents.end());
  std::vector<int> reduced;
  for (size_t dim = rank; dim < shared.extents.size(); ++dim) reduced.push_back(static_cast<int>(dim));
  shared.axis_dims = {dims.dims[kSets], reduced};
  shared.layout = Layout({axis(kSets, {{tiling.sets, Level::kAddress, tiling.elements_pitch}}),
                          {{elements, Level::kAddress, 1}}},
                         layout::Memory::kLm0, {{isa::kWordsPerLong, Level::kWord, 1}}, Padding::kUndefined);
  shared.transport = tiling.elements;
  shared.length_lw = tiling.sets * tiling.elements_pitch;

  StreamPlacement results;
  results.axis_dims = {dims.dims[kSets], dims.dims[kResults]};
  results.layout = Layout({axis(kSets, {{tiling.sets, Level::kAddress, tiling.blocks * tiling.block_pitch}}),
                           axis(kResults, {{tiling.blocks, Level::kAddress, tiling.block_pitch},
                                           {tiling.block_lw, Level::kAddress, 1},
                                           {isa::kWordsPerLong, Level::kWord, 1}})},
                          layout::Memory::kLm0, {}, Padding::kUndefined);
  results.transport = tiling.results;
  results.length_lw = tiling.sets * tiling.blocks * tiling.block_pitch;
  StreamPlacement held = results;
  held.extents = shared.extents;
  for (const int dim : reduced) {
    if (shared.extents[static_cast<size_t>(dim)] == 1) held.axis_dims[0].push_back(dim);
  }
  results.extents = reduce.output_extents;

  for (size_t k = 0; k < reduce.inputs.size(); ++k)
    candidate.place(dims.is_shared[k] ? shared : held, fmt::format("x{}", k), reduce.inputs[k]);
  for (size_t k = 0; k < reduce.epilogue_inputs.size(); ++k)
    candidate.place(results, fmt::format("e{}", k), reduce.epilogue_inputs[k]);
  candidate.place(results, "y", {layer.outputs.at(0), AffineMap::identity(rank), 0}, true);
  candidate.emit = [reduce, dims, tiling, name = layer.name,
                    placements = candidate.placements](const std::vector<int64_t>& addresses) {
    return emit_shared(reduce, dims, tiling, name, placements, addresses);
  };
  return candidate;
}

std::vector<Candidate> shared_candidates(const Layer& layer, const LayerGraph&, const isa::Chip& chip,
                                         const KernelOptions&) {
  const auto& reduce = std::get<ReduceLayer>(layer.body);
  if (element_count(reduce.output_extents) == 0 || element_count(reduce.reduction_extents) < 2) return {};
  if (reduced_kind(reduce) == ScalarKind::kDouble) return {};  // has one buffer of running values
  const auto dims = shared_dims_of(reduce);
  if (!dims) return {};
  std::map<size_t, std::pair<int64_t, SharedTiling>> best;  // by whom PEs are given to
  for (const UnitKinds& units : all_unit_kinds(dims->extent)) {
    const auto tiling = tiling_of(reduce, *dims, units, chip);
    if (!tiling) continue;
    const int64_t cycles = predicted_cycles(reduce, *dims, *tiling, chip);
    const auto found = best.find(units[kPeUnit]);
    if (found == best.end() || cycles < found->second.first) best[units[kPeUnit]] = {cycles, *tiling};
  }
  int64_t least = std::numeric_limits<int64_t>::max();
  for (const auto& [kind, found] : best) least = std::min(least, found.first);
  std::vector<Candidate> candidates;
  for (const auto& [kind, found] : best) {
    if (found.first / kSharedWorthOffering <= least)
      candidates.push_back(reduce_with(reduce, *dims, found.second, layer, chip));
  }
  return candidates;
}

}  // namespace

Kernel reduce_shared_kernel() {
  return {"reduce-shared", "results that look at the same elements, which are broadcast to them",
          LayerKind::kReduce, shared_candidates};
}

}  // namespace kodama::compiler
