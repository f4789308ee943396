/// A kernel as a plugin: element-wise layers in one piece. docs/write-a-pass.md explains it.
#include <numeric>
#include <optional>
#include <vector>

#include "compiler/kernels/kernel.h"
#include "compiler/kernels/predict.h"
#include "compiler/kernels/spread.h"
#include "isa/arithmetic.h"
#include "passes/plugin.h"

using namespace kodama::compiler;
using kodama::isa::Chip;

namespace {

const kodama::passes::PassOptionInfo kPercent{"one-tile-percent", "100",
                                              "of the cycles that are predicted, for the planner"};

/// Every PE of the spread computes `size` long words, which it holds all at once.
std::optional<Candidate> one_tile(const Spread& spread, const Layer& layer, const Chip& chip,
                                  int64_t percent) {
  const auto& map = std::get<MapLayer>(layer.body);
  const int64_t granule = spread.transport.granule();
  const int64_t count = kodama::isa::ceil_div(element_count(map.extents), 2 * spread.place_count);
  const int64_t size = kodama::isa::round_up(count, granule);
  const auto operands = static_cast<int64_t>(map.inputs.size());
  if (size > tile_capacity_lw(operands + 1, granule, chip)) return std::nullopt;

  // Where the elements are: all dims in one axis, spread over the PEs, then over the addresses of each.
  std::vector<TensorAccess> streams = map.inputs;
  streams.push_back({layer.outputs.at(0), AffineMap::identity(map.extents.size())});
  std::vector<int> dims(map.extents.size());
  std::iota(dims.begin(), dims.end(), 0);
  const kodama::layout::Layout layout({spread.axis({{size, kodama::layout::Level::kAddress, 1}})},
                                      kodama::layout::Memory::kLm0, {}, kodama::layout::Padding::kUndefined);
  Candidate candidate;
  candidate.description = "one tile of " + std::to_string(size) + " LW, " + spread.name;
  for (size_t k = 0; k < streams.size(); ++k)
    candidate.placements.push_back({.name = k < map.inputs.size() ? "x" + std::to_string(k) : "y",
                                    .is_output = k == map.inputs.size(),
                                    .access = streams[k],
                                    .extents = map.extents,
                                    .axis_dims = {dims},
                                    .layout = layout,
                                    .transport = spread.transport,
                                    .length_lw = size});
  const int64_t cycles = operands * load_cycles(spread.transport, size, chip) +
                         predicted_map_cycles(map.expr, size / 4) +
                         store_cycles(spread.transport, size, chip);
  candidate.predicted_cycles = cycles * percent / 100;

  // What the PEs do: load every operand into a buffer, compute, store.
  candidate.emit = [placements = candidate.placements, expr = map.expr, size,
                    name = layer.name](const std::vector<int64_t>& addresses) {
    TileProgram program;
    program.name = name;
    MapTile compute;
    compute.expr = expr;
    compute.count = size;
    for (size_t k = 0; k < placements.size(); ++k) {
      const int id = static_cast<int>(k);
      const StreamPlacement& stream = placements[k];
      program.streams.push_back({stream.name, stream.transport, size, addresses[k]});
      program.buffers.push_back({stream.name, size, alternate_home(k)});
      if (stream.is_output) {
        compute.out = id;
        program.body.push_back({compute});
        program.body.push_back({StoreTile{id, {}, id, {}, size}});
      } else {
        program.body.push_back({LoadTile{id, {}, id, {}, size}});
        compute.inputs.push_back({id, {}});
      }
    }
    return program;
  };
  return candidate;
}

std::vector<Candidate> candidates(const Layer& layer, const LayerGraph&, const Chip& chip,
                                  const KernelOptions& options) {
  if (element_count(std::get<MapLayer>(layer.body).extents) == 0) return {};
  const int64_t percent = kodama::passes::positive_option(options.passes, kPercent);
  return spread_candidates(chip,
                           [&](const Spread& spread) { return one_tile(spread, layer, chip, percent); });
}

}  // namespace

KODAMA_PLUGIN() {
  register_pass(Kernel{.name = "map-one-tile",
                       .description = "element-wise layers in one piece",
                       .kind = LayerKind::kMap,
                       .run = candidates,
                       .options = {kPercent}});
}
