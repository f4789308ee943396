#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <memory>
#include <optional>
#include <utility>

#include "compiler/kernels/builtin_kernels.h"
#include "compiler/kernels/lowering.h"
#include "compiler/kernels/predict.h"
#include "compiler/kernels/rows.h"
#include "compiler/kernels/rows_division.h"
#include "isa/error.h"

/// "reduce-rows": pooling on images of rows (rows.h). A window's rows and columns come as they do for a
/// convolution, but as floats: every quad takes eight channels of a chunk, its MABs the same. Channels stay
/// where they are, so that operand and result are split alike.
namespace kodama::compiler {

using isa::ceil_div;
using isa::round_up;
using isa::Space;

namespace {

constexpr const char* kPoolKernel = "reduce-rows";
constexpr int64_t kMaxPoolPasses = 16;

struct PoolProblem {
  ReduceLayer reduce;
  Picture in, out;
  RowsWindow window;
};

/// Nothing where the layer isn't one value for windows of rows and columns of one tensor.
std::optional<PoolProblem> pool_problem(const ReduceLayer& reduce, TensorId output, const LayerGraph& graph) {
  if (reduce.inputs.size() != 1 || !reduce.epilogue_inputs.empty() || reduce.output_extents.size() != 4 ||
      reduce.reduction_extents.size() > 2 || reduce.expr != ScalarExpr::identity()) {
    return std::nullopt;
  }
  PoolProblem problem;
  problem.reduce = reduce;
  const TensorAccess& access = reduce.inputs[0];
  const Shape& shape = graph.tensors[static_cast<size_t>(access.tensor)].shape;
  const auto in = picture_of(access.tensor, shape, 1);
  const auto out = picture_of(output, reduce.output_extents, 1);
  if (!in || !out || in->channels_last) return std::nullopt;
  problem.in = *in;
  problem.out = *out;
  const AffineMap& map = access.map;
  for (size_t axis = 0; axis < 4; ++axis) {
    for (size_t dim = 0; dim < map.dims(); ++dim) {
      const int64_t extent = dim < 4 ? reduce.output_extents[dim] : reduce.reduction_extents[dim - 4];
      const int64_t coefficient = map.coefficient(axis, dim);
      if (coefficient == 0 || extent == 1) continue;
      const bool inner = dim >= 4;
      if (coefficient < 0 || (!inner && dim != axis) || (inner && axis < 2)) return std::nullopt;
      if (inner) {
        const size_t way = axis - 2;
        if (problem.window.kernel.at(way) > 1) return std::nullopt;
        problem.window.kernel.at(way) = extent;
        problem.window.dilation.at(way) = coefficient;
      } else if (axis >= 2) {
        problem.window.stride.at(axis - 2) = coefficient;
      } else if (coefficient != 1) {
        return std::nullopt;
      }
    }
    if (axis < 2 && (map.offset(axis) != 0 || shape[axis] != reduce.output_extents[axis]))
      return std::nullopt;
    if (axis >= 2) problem.window.pad.at(axis - 2) = -map.offset(axis);
  }
  const RowsWindow& window = problem.window;
  int64_t positions = 1;
  for (const int64_t extent : reduce.reduction_extents) positions *= extent;
  if (positions != window.kernel[0] * window.kernel[1] || window.pad[0] < 0 || window.pad[1] < 0)
    return std::nullopt;
  // A row outside becomes a copy of the one next to it: the same maximum, if that one is in the window.
  const bool rows_outside =
      window.pad[0] > 0 || window.rows_under(problem.out.rows) - window.pad[0] > problem.in.rows;
  const bool extreme = reduce.op == ReduceLayer::Op::kMax || reduce.op == ReduceLayer::Op::kMin;
  if (rows_outside) {
    const int64_t below = window.rows_under(problem.out.rows) - window.pad[0] - problem.in.rows;
    const double neutral = identity_of(reduce.op);
    if (!extreme || window.dilation[0] != 1 || access.fill != neutral || window.pad[0] >= window.kernel[0] ||
        below >= window.kernel[0]) {
      return std::nullopt;
    }
  }
  return problem;
}

struct PoolTiling {
  RowsSplit split;
  bool l1b_channels = false;
  int64_t rows = 1;  ///< of an L1B in a pass
  int64_t l1bs = 1;  ///< that have rows of their own
  int64_t cycles = 0;
};

class PoolTiler {
 public:
  PoolTiler(PoolProblem problem, const isa::Chip& chip) : problem_(std::move(problem)), chip_(chip) {}

  std::vector<PoolTiling> tilings() const {
    std::vector<PoolTiling> list;
    for (const RowsSplit split : kRowsSplits) {
      std::optional<PoolTiling> found;
      // Parts that L2Bs have channels of don't make a whole that is split that way.
      if (!problem_.in.parts.empty() && split != RowsSplit{}) continue;
      for (const bool l1b_channels : {false, true}) {
        const PoolTiling least{split, l1b_channels, 1, 1, 0};
        const Sizes one = sizes(least);
        const bool is_divisible =
            one.out.chunks() % chip_.l1b_per_l2b == 0 && one.can_share_chunks(one.chunks);
        if (!one.is_even() || (l1b_channels && !is_divisible)) continue;
        const auto tiling = best_division(*this, least, one.out.rows(), l1b_channels ? 1 : chip_.l1b_per_l2b);
        if (tiling && (!found || tiling->cycles < found->cycles)) found = tiling;
      }
      if (found) list.push_back(*found);
    }
    return list;
  }

  std::vector<StreamPlacement> placements(const PoolTiling& tiling) const {
    StreamPlacement result = RowsImage(problem_.out, tiling.split, chip_).placement("y");
    result.is_output = true;
    const std::vector<double> zeros = {0.0};
    if (problem_.reduce.epilogue.evaluate(zeros) != 0) result.layout.set_padding(layout::Padding::kUndefined);
    const Sizes s = sizes(tiling);
    std::vector<StreamPlacement> list;
    for (size_t part = 0; part < s.parts.size(); ++part)
      list.push_back(s.parts[part].placement(s.parts.size() == 1 ? "x0" : fmt::format("x0.{}", part)));
    list.push_back(std::move(result));
    return list;
  }

  TileProgram program(const PoolTiling& tiling, const std::string& name,
                      const std::vector<StreamPlacement>& placements,
                      const std::vector<int64_t>& dram_addresses) const {
    const Sizes s = sizes(tiling);
    TileProgram program;
    program.name = name;
    for (size_t k = 0; k < placements.size(); ++k) {
      program.streams.push_back(
          {placements[k].name, placements[k].transport, placements[k].length_lw, dram_addresses[k]});
    }
    program.buffers.push_back(
        {"windows", s.windows_lw, isa::space_bit(Space::kLm0) | isa::space_bit(Space::kLm1)});
    const auto add = [&](auto op) { program.body.push_back({std::move(op)}); };
    if (s.pitch > problem_.in.columns)
      add(FillTile{0, {}, s.windows_lw, static_cast<float>(problem_.reduce.inputs[0].fill)});
    const std::vector<int64_t> groups = column_groups(problem_.out.columns);
    for (int64_t image = 0; image < s.out.images(); ++image) {
      for (int64_t pass = 0; pass < s.passes; ++pass) {
        const int64_t l1bs = tiling.l1b_channels ? s.l1bs : s.l1bs_in(pass);
        for (const RowsDivision::Run& run : s.runs()) {
          LoadRows load = s.load(run, 0, 1, [&](size_t part) { return transfers(s, part, image, pass); });
          if (tiling.l1b_channels) {
            s.share_chunks(load, s.chunks, l1bs);
          } else {
            load.l1b_at = l1b_places(l1bs, tiling.rows * problem_.window.stride[0] * load.row_lw);
          }
          load.buffer = 0;
          add(std::move(load));
        }
        for (int64_t chunk = 0; chunk < s.chunks; ++chunk) {
          ReduceWindows reduce;
          reduce.op = problem_.reduce.op;
          reduce.windows = 0;
          reduce.window_rows = s.window_rows;
          reduce.pitch = s.pitch;
          reduce.kernel = problem_.window.kernel;
          reduce.dilation = problem_.window.dilation;
          reduce.stride = problem_.window.stride;
          reduce.rows = tiling.rows;
          reduce.columns = problem_.out.columns;
          reduce.groups = groups;
          reduce.epilogue = problem_.reduce.epilogue;
          reduce.chunk = chunk;
          reduce.chunks = s.chunks;
          reduce.row_lw = s.l1b_row_lw;
          add(std::move(reduce));
        }
        StoreRows store;
        store.stream = static_cast<int>(s.parts.size());
        store.transfers = s.own_rows(image, pass, 0, 0, s.pass_rows);
        store.l1b_at = l1b_places(l1bs, tiling.l1b_channels ? s.l1b_row_lw : tiling.rows * s.out.row_lw());
        store.rows = tiling.rows;
        store.row_lw = s.out.row_lw();
        store.segment_lw = store.l1b_row_lw = s.l1b_row_lw;
        add(std::move(store));
      }
    }
    return program;
  }

  std::string describe(const PoolTiling& tiling) const {
    const Sizes s = sizes(tiling);
    return fmt::format("group {}, L2B {}, L1B {}, {} passes of {} rows, {} chunks",
                       rows_or_channels(tiling.split.group_channels),
                       rows_or_channels(tiling.split.l2b_channels), rows_or_channels(tiling.l1b_channels),
                       s.passes * s.out.images(), tiling.rows, s.chunks);
  }

  struct Sizes : RowsDivision {
    int64_t chunks = 0;  ///< of an L1B
    int64_t windows_lw = 0, l1b_row_lw = 0;
  };
  Sizes sizes(const PoolTiling& tiling) const {
    Sizes s{{problem_.in,
             tiling.split,
             problem_.out,
             tiling.split,
             problem_.window,
             {tiling.rows, tiling.l1bs, !tiling.l1b_channels},
             chip_}};
    s.chunks = tiling.l1b_channels ? s.out.chunks() / chip_.l1b_per_l2b : s.out.chunks();
    s.windows_lw = round_up(s.chunks * s.window_rows * s.pitch, isa::kCyclesPerStep);
    s.l1b_row_lw = tiling.l1b_channels ? s.chunks * problem_.out.columns * kColumnLw : s.out.row_lw();
    return s;
  }

  bool fits(const PoolTiling& tiling, const Sizes& s) const {
    const RowsStaging staging = rows_staging(chip_);
    return s.windows_lw <= chip_.memory.lm_words / isa::kWordsPerLong - kRowsReserveLw &&
           std::max(s.longest_row_lw(), s.out.row_lw()) <= staging.windows_lw &&
           tiling.rows * round_up(s.l1b_row_lw, isa::kL2bmBlockLw) <= staging.results_lw &&
           s.part_l2bm(s.parts.size(), 1) <= chip_.memory.l2bm_lw &&
           s.pass_rows * s.out.row_lw() + isa::kL2bmBlockLw <= chip_.memory.l2bm_lw &&
           s.passes * s.out.images() <= kMaxPoolPasses;
  }

  std::vector<RowsTransfer> transfers(const Sizes& s, size_t part, int64_t image, int64_t pass) const {
    return window_transfers(s.parts[part], s.out, problem_.window, s.pass(image, pass), std::nullopt, chip_,
                            true);
  }

  int64_t cost(const PoolTiling& tiling, const Sizes& s) const {
    int64_t steps = 0;
    std::vector<RowsTransfer> all;
    for (size_t part = 0; part < s.parts.size(); ++part) {
      if (!tiling.l1b_channels)
        steps += load_rows_steps(1, s.window_rows, s.parts[part].chunks(), problem_.in.columns, s.l1bs, 1);
      std::ranges::move(transfers(s, part, 0, 0), std::back_inserter(all));
    }
    if (tiling.l1b_channels) {
      const int64_t parts = ceil_div(s.chunks, s.parts[0].chunks());
      steps += load_rows_steps(parts, s.window_rows, s.chunks / parts, problem_.in.columns, s.l1bs, 1);
    }
    int64_t operations = problem_.window.kernel[0] * problem_.window.kernel[1];
    for (const ScalarNode& node : problem_.reduce.epilogue.nodes()) operations += machine_operations(node.op);
    steps += s.chunks * tiling.rows * std::ssize(column_groups(problem_.out.columns)) * operations;
    steps += s.l1bs * tiling.rows * ceil_div(s.l1b_row_lw, isa::kL2bmBlockLw);
    return s.passes * s.out.images() *
           (steps * isa::kCyclesPerStep + rows_transfer_cycles(all, chip_) +
            own_rows_cycles(s.pass_rows * s.out.row_lw(), chip_));
  }

 private:
  PoolProblem problem_;
  isa::Chip chip_;
};

std::vector<Candidate> pool_candidates(const Layer& layer, const LayerGraph& graph, const isa::Chip& chip,
                                       const KernelOptions& /*options*/) {
  if (chip.mab_per_l1b != kBlocksPerChunk * kBlocksPerChunk) return {};
  auto problem = pool_problem(std::get<ReduceLayer>(layer.body), layer.outputs.at(0), graph);
  if (!problem || problem->in.columns < isa::kCyclesPerStep || problem->out.columns < isa::kCyclesPerStep)
    return {};
  std::vector<Candidate> candidates;
  const auto add_candidates = [&] {
    const auto tiler = std::make_shared<const PoolTiler>(*problem, chip);
    for (const PoolTiling& tiling : tiler->tilings())
      candidates.push_back(rows_candidate(tiler, tiling, layer.name));
  };
  add_candidates();
  // A concatenation is read part by part, too.
  if (const auto parts = concatenated_picture(problem->in, graph)) {
    problem->in = *parts;
    add_candidates();
  }
  return candidates;
}

}  // namespace

Kernel reduce_rows_kernel() {
  Kernel kernel;
  kernel.name = kPoolKernel;
  kernel.description = "pooling, on images of rows";
  kernel.kind = LayerKind::kReduce;
  kernel.run = pool_candidates;
  return kernel;
}

}  // namespace kodama::compiler
