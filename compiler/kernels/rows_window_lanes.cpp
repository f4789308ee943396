#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "compiler/kernels/predict.h"
#include "compiler/kernels/rows_division.h"
#include "compiler/kernels/rows_lowering.h"
#include "compiler/kernels/rows_windows.h"
#include "isa/arithmetic.h"

/// Windows of floats (rows_windows.h) where every pair of an L2B's L1Bs has a lane of columns, and of the
/// two, each half of every chunk: lines of lanes (LaneLines, compiler/tile/tile_program.h). Every number is
/// in one PE only, and L2BM's whole rate is used.
namespace kodama::compiler {

using isa::ceil_div;
using isa::round_up;
using layout::Factor;
using layout::Level;
using layout::Transport;

namespace {

/// Rows come in pieces of so much of L2BM.
constexpr int64_t kLinePieces = 12;
/// Not more tiles than these, where more aren't needed.
constexpr int64_t kLineTiles = 4;

/// Masks of edges, of the 15 that there are: scalar operations take some, too.
constexpr int64_t kMostMasks = 12;

struct LinesTiling {
  RowsSplit split;  ///< of operand and result
  int64_t rows = 1, l1bs = 1;
  int64_t cycles = 0;
};

class WindowLanesTiler : WindowsKernel {
 public:
  static constexpr int64_t kMostPasses = 256;
  WindowLanesTiler(WindowsProblem problem, const isa::Chip& chip) : WindowsKernel(std::move(problem), chip) {}

  std::vector<LinesTiling> tilings() const {
    std::vector<LinesTiling> list;
    for (const RowsSplit split : kRowsSplits) {
      if (!can_split(split)) continue;
      const LinesTiling least{split, 1, 1, 0};
      const Sizes one = sizes(least);
      if (!one.is_even() || !has_lines(one) || !has_own_phases(one)) continue;
      if (const auto tiling = best_division(*this, least, one.out.rows(), 1)) list.push_back(*tiling);
    }
    return list;
  }

  struct Sizes : RowsDivision {
    LaneLines lines = {};
    /// As of LoadLines.
    int64_t left = 0, before = 0, right = 0, last = 0, last_result = 0;
    int64_t windows_lw = 0, row_input_lw = 0;  ///< of a PE
    int64_t tile_rows = 0;
    int64_t operand_l2bm = 0, region_l2bm = 0, tile_l2bm = 0;
    int64_t made_l2bm = 0;  ///< of a tile's results
  };
  Sizes sizes(const LinesTiling& tiling) const {
    Sizes s{{problem_.in,
             tiling.split,
             problem_.out,
             tiling.split,
             problem_.window,
             {tiling.rows, 1, false},
             chip_}};
    const int64_t groups_in = s.in.order().groups, groups_out = s.out.order().groups;
    const int64_t stride = s.window.stride[1];
    s.left = s.before = s.window.pad[1];
    s.right = std::max<int64_t>(0, s.window.columns_under(groups_out) - s.left - groups_in);
    s.last = s.in.picture().columns - 3 * groups_in;
    s.last_result = (s.out.picture().columns - 3 * groups_out - 1) * stride;
    bool is_single = s.out.order().width() == 1;
    int64_t first = 0;
    for (const RowsImage& part : s.parts) {
      const RowOrder order = part.order();
      // Two chunks side by side go to two side by side: steps begin at even places.
      const int64_t width = first % 2 == 0 && s.out.order().width() == 2 ? order.width() : 1;
      s.lines.chunks.insert(s.lines.chunks.end(), static_cast<size_t>(order.chunks / width), width);
      is_single = is_single && order.width() == 1;
      first += order.chunks;
    }
    // Values of channels stand as lines do that are alike.
    if (has_values() && !is_uniform(s)) {
      s.lines.chunks.assign(static_cast<size_t>(first), 1);
    }
    // Steps begin at even places.
    const int64_t even = round_up(s.left, 2);
    if (is_single && problem_.phases[1] == 1 && (s.right == 0 || groups_in % 2 == 0) &&
        (stride == 1 || stride % 2 == 0) && even < groups_in) {
      s.lines.places = 1;
      s.before = even;
    }
    s.lines.columns = round_up(s.before + groups_in + s.right, kSlotPlaces / s.lines.places);
    // A part's last vector may end behind the row.
    s.windows_lw = s.window_rows * s.window.kernel[1] * s.lines.row_lw() + isa::kCyclesPerStep;
    s.row_input_lw = tiling.rows * s.lines.row_lw();
    s.region_rows = std::clamp<int64_t>(chip_.memory.l2bm_lw / kLinePieces / operand_count() / s.in_row_lw(),
                                        1, s.region_rows);
    const int64_t most =
        std::max<int64_t>(1, rows_staging(chip_).results_lw / (phase_count() * s.lines.staged_lw()) / 2);
    s.tile_rows =
        ceil_div(tiling.rows, std::max(std::min(kLineTiles, tiling.rows), ceil_div(tiling.rows, most)));
    // Steps take four units, and halos are beside the rows.
    s.operand_l2bm = s.part_l2bm(s.parts.size(), 1) + isa::kCyclesPerStep * kUnitLw;
    s.region_l2bm = operand_count() * s.operand_l2bm;
    s.tile_l2bm = s.tile_rows * s.out.row_lw() + isa::kCyclesPerStep * kUnitLw;
    s.made_l2bm = phase_count() * s.tile_rows * s.out.row_lw() + isa::kCyclesPerStep * kUnitLw;
    return s;
  }

  bool fits(const LinesTiling& /*tiling*/, const Sizes& s) const {
    const RowsStaging staging = rows_staging(chip_);
    const int64_t local = chip_.memory.lm_words / isa::kWordsPerLong - kRowsReserveLw;
    int64_t others = row_inputs() * s.row_input_lw + std::ssize(problem_.others) * s.windows_lw;
    for (size_t k = 0; k < problem_.inputs.size(); ++k)
      others += problem_.inputs[k].of_rows ? 0 : s.lines.values_lw(positions(k));
    return s.windows_lw <= local && others <= local && s.lines.staged_lw() + kUnitLw <= staging.windows_lw &&
           phase_count() * s.tile_rows * s.lines.staged_lw() <= staging.results_lw &&
           s.region_l2bm + row_inputs() * s.tile_l2bm + s.made_l2bm <= chip_.memory.l2bm_lw && has_masks(s);
  }

  int64_t cost(const LinesTiling& tiling, const Sizes& s) const {
    // Steps of what L2BM and L1BM exchange, L1BM and the PEs, and of the PEs.
    int64_t far = 0, near = 0, made = 0;
    const int64_t vectors = s.lines.row_lw() / isa::kCyclesPerStep;
    size_t line = 0;
    for (const RowsImage& part : s.parts) {
      far += s.window_rows * load_steps(s, line, part.order(), s.before, s.right);
      line += static_cast<size_t>(part.chunks() / s.lines.chunks[line]);
    }
    far *= operand_count();
    const int64_t units = s.out.order().chunks * s.out.order().groups;
    const bool is_dense = s.window.stride[1] == 1 && s.lines.places == s.out.order().width();
    far += row_inputs() * tiling.rows *
           (is_dense ? load_steps(s, 0, s.out.order(), 0, 0) : units / s.lines.chunks[0]);
    const bool together = is_dense && problem_.phases[1] == 1;
    far += tiling.rows * phase_count() *
           (together        ? ceil_div(units, isa::kCyclesPerStep)
            : is_regular(s) ? units / s.out.order().width()
                            : units);
    near += vectors * (operand_count() * s.window_rows * s.window.kernel[1] +
                       (phase_count() + row_inputs()) * tiling.rows);
    made += vectors * tiling.rows * place_operations(s.window.kernel[0] * s.window.kernel[1]);
    const int64_t tiles = ceil_div(tiling.rows, s.tile_rows);
    const int64_t most = std::max({far, near, made});
    const int64_t steps = most + (far + near + made - most) / (tiles + 1) + tiles * kRowsFillSteps;
    std::vector<RowsTransfer> all;
    for (size_t part = 0; part < s.parts.size(); ++part) {
      for (const RowsPiece& piece : pieces(s)) {
        for (int64_t operand = 0; operand < operand_count(); ++operand)
          std::ranges::move(transfers(s, part, 0, 0, piece), std::back_inserter(all));
      }
    }
    const int64_t tile_lw = s.tile_rows * s.out.row_lw();
    const int64_t cycles =
        steps * isa::kCyclesPerStep + rows_transfer_cycles(all, chip_) +
        (row_inputs() * own_rows_cycles(tile_lw, chip_) + own_rows_cycles(phase_count() * tile_lw, chip_)) *
            tiles;
    return s.passes * s.out.images() * cycles + constants(tiling).first;
  }

  /// Cycles and LW of the values of channels.
  std::pair<int64_t, int64_t> constants(const LinesTiling& tiling) const {
    const Sizes s = sizes(tiling);
    int64_t cycles = 0, lw = 0;
    for (size_t k = 0; k < problem_.inputs.size(); ++k) {
      if (problem_.inputs[k].of_rows) continue;
      const int64_t count = s.lines.values_lw(positions(k));
      cycles += ahead_cycles(values_transport(s), count, chip_, problem_.constants_stay);
      lw += count;
    }
    return {cycles, lw};
  }

  std::vector<StreamPlacement> placements(const LinesTiling& tiling) const {
    const Sizes s = sizes(tiling);
    std::vector<StreamPlacement> list = operands(s);
    for (size_t k = 0; k < problem_.inputs.size(); ++k)
      list.push_back(problem_.inputs[k].of_rows ? rows_placement(k, tiling.split)
                                                : values_placement(k, values(s, k)));
    add_constants(list, zeros_lw(s));
    list.push_back(result(s));
    return list;
  }

  TileProgram program(const LinesTiling& tiling, const std::string& name,
                      const std::vector<StreamPlacement>& placements,
                      const std::vector<int64_t>& dram_addresses, bool backwards) const {
    const Sizes s = sizes(tiling);
    Draft draft = this->draft(name, placements, dram_addresses, s.windows_lw, [&](size_t k) {
      return problem_.inputs[k].of_rows ? s.row_input_lw : s.lines.values_lw(positions(k));
    });
    const int windows = draft.windows;
    const std::vector<RowsInput>& inputs = draft.inputs;
    const auto add = [&](auto op) { draft.add(std::move(op)); };
    if (s.has_outside_columns()) {
      add(FillTile{windows, {}, s.windows_lw, word_of(problem_.fill, DataType::kFloat32)});
      for (const int other : draft.others)
        add(FillTile{other, {}, s.windows_lw, word_of(problem_.fill, DataType::kFloat32)});
    }
    for (const int64_t image : in_turn(s.out.images(), backwards)) {
      for (const int64_t pass : in_turn(s.passes, backwards)) {
        PiecesInTurn next(pieces(s), problem_.window, tiling.rows, s.tile_rows, backwards);
        for (const int64_t tile : in_turn(ceil_div(tiling.rows, s.tile_rows), backwards)) {
          const int64_t row = tile * s.tile_rows;
          const int64_t rows = std::min(s.tile_rows, tiling.rows - row);
          next.load_for(row, [&](const RowsPiece& piece) {
            for (LoadLines& load : piece_loads(s, image, pass, piece)) {
              load.buffer = windows;
              add(load);
              // Others are of one part.
              for (size_t k = 0; k < draft.others.size(); ++k) {
                load.stream = static_cast<int>(s.parts.size() + k);
                load.l2bm += s.operand_l2bm;
                for (RowsTransfer& transfer : load.transfers) transfer.l2bm += s.operand_l2bm;
                load.buffer = draft.others[k];
                add(load);
              }
            }
          });
          int64_t l2bm = s.region_l2bm;
          for (size_t k = 0; k < inputs.size(); ++k) {
            if (!inputs[k].of_rows) continue;
            LoadLines load;
            load.stream = input_stream(s, k);
            load.transfers = s.own_rows(image, pass, l2bm, row, rows);
            load.l2bm = l2bm;
            load.order = s.out.order();
            load.rows = rows;
            load.last = load.last_result + 1;
            load.spacing = problem_.window.stride[1];
            load.lines = s.lines;
            load.buffer = inputs[k].buffer;
            load.first_row = row;
            load.buffer_rows = tiling.rows;
            add(std::move(load));
            l2bm += s.tile_l2bm;
          }
          ReduceLines reduce;
          reduce.op = problem_.op;
          reduce.windows = windows;
          reduce.others = draft.others;
          reduce.numbers = position_numbers();
          reduce.window_rows = s.window_rows;
          reduce.kernel = problem_.window.kernel;
          reduce.stride = problem_.window.stride;
          reduce.dilation = problem_.window.dilation[0];
          reduce.lines = s.lines;
          reduce.rows = rows;
          reduce.first_row = row;
          reduce.buffer_rows = tiling.rows;
          reduce.expr = problem_.expr;
          reduce.epilogue = problem_.epilogue;
          reduce.inputs = inputs;
          if (problem_.has_weights) {
            reduce.weights = inputs[0].buffer;
            reduce.inputs.erase(reduce.inputs.begin());
          }
          reduce.order = s.out.order();
          if (2 * phase_count() * s.tile_rows * s.lines.staged_lw() <= rows_staging(chip_).results_lw)
            reduce.slot = tile % 2 * phase_count() * s.tile_rows;
          reduce.l2bm = l2bm;
          add(std::move(reduce));
          StoreRows store;
          store.stream = static_cast<int>(placements.size()) - 1;
          store.l2bm = l2bm;
          store.transfers = own_results(s, image, pass, l2bm, row, rows);
          add(std::move(store));
        }
      }
    }
    return std::move(draft.program);
  }

  std::string describe(const LinesTiling& tiling) const {
    const Sizes s = sizes(tiling);
    return fmt::format("group {}, L2B {}, L1B lanes, {} passes of {} rows, tiles of {}, {} lines{}",
                       rows_or_channels(tiling.split.group_channels),
                       rows_or_channels(tiling.split.l2b_channels), s.passes * s.out.images(), tiling.rows,
                       s.tile_rows, s.lines.lines(), order_name(problem_.out));
  }

 private:
  /// Whether lanes of results are over lanes of the operand, and values of channels can stand as lines do.
  bool has_lines(const Sizes& s) const {
    if (row_inputs() > 0 && s.parts.size() > 1) return false;
    return s.in.order().groups == s.out.order().groups * s.window.stride[1] &&
           s.before < s.in.order().groups && s.right <= s.last && s.last > 0 && s.last_result >= 0 &&
           (!has_values() || is_uniform(s));
  }
  /// Whether there are as many mask registers as edges take.
  bool has_masks(const Sizes& s) const {
    std::set<TileLoweringContext::Inside> masks;
    for (const LoadLines& load : piece_loads(s, 0, 0, {0, 1})) add_lane_masks(masks, load, chip_);
    return std::ssize(masks) <= kMostMasks;
  }
  bool has_values() const { return row_inputs() < std::ssize(problem_.inputs); }
  static bool is_uniform(const Sizes& s) {
    return std::ranges::all_of(s.lines.chunks, [&](int64_t chunks) { return chunks == s.lines.chunks[0]; });
  }
  /// Whether all lines are of as many chunks as the result's have side by side.
  static bool is_regular(const Sizes& s) {
    return std::ranges::all_of(s.lines.chunks,
                               [&](int64_t chunks) { return chunks == s.out.order().width(); });
  }

  /// Steps that bring a row to L1BM, from its first line on.
  static int64_t load_steps(const Sizes& s, size_t line, const RowOrder& order, int64_t before,
                            int64_t right) {
    const int64_t width = s.lines.chunks[line];
    const int64_t together =
        width == s.lines.places && width == order.width() ? isa::kCyclesPerStep / width : 1;
    return order.chunks / width *
           (ceil_div(before, together) + ceil_div(order.groups, together) + ceil_div(right, together));
  }

  Transport values_transport(const Sizes& s) const {
    return {chip_, s.out.channel_mode(), layout::L1bMode::kParity, layout::MabMode::kDistribute};
  }
  Values values(const Sizes& s, size_t k) const {
    Values values{values_transport(s), s.lines.values_lw(positions(k))};
    const int64_t chunks = s.lines.chunks[0], copies = s.lines.value_copies();
    const int64_t blocks = kBlocksPerChunk / 2;
    values.position_lw = s.lines.lines() * copies;
    if (is_weights(k) && problem_.has_rows) values.zeros_lw = zeros_lw(s);
    values.channels = s.out.channel_factors();
    values.channels.insert(values.channels.end(), {{s.lines.lines(), Level::kAddress, copies},
                                                   {chunks, Level::kMab, blocks},
                                                   {2, Level::kL1b, 1},
                                                   {blocks, Level::kMab, 1}});
    values.copies = s.out.row_way_factors();
    values.copies.push_back({isa::kCyclesPerStep, Level::kL1b, 2});
    values.copies.push_back({chip_.mab_per_l1b / (blocks * chunks), Level::kMab, blocks * chunks});
    if (copies > 1) values.copies.push_back({copies, Level::kAddress, 1});
    return values;
  }
  int64_t zeros_lw(const Sizes& s) const {
    return longest_outside(
        s, [&](int64_t, int64_t) { return pieces(s); },
        [&](size_t part, int64_t image, int64_t pass, const RowsPiece& piece) {
          return transfers(s, part, image, pass, piece);
        });
  }

  static std::vector<RowsPiece> pieces(const Sizes& s) { return pieces_of(0, s.window_rows, s.region_rows); }
  std::vector<RowsTransfer> transfers(const Sizes& s, size_t part, int64_t image, int64_t pass,
                                      const RowsPiece& piece) const {
    return piece_transfers(s, part, image, pass, piece, values_transport(s),
                           problem_.has_weights ? s.lines.values_lw(positions(0)) : 0, true);
  }

  std::vector<LoadLines> piece_loads(const Sizes& s, int64_t image, int64_t pass,
                                     const RowsPiece& piece) const {
    std::vector<LoadLines> list;
    int64_t first_line = 0;
    for (const RowsDivision::Run& run : s.runs()) {
      const LoadRows rows =
          s.load(run, 0, 1, [&](size_t part) { return transfers(s, part, image, pass, piece); });
      LoadLines load;
      load.stream = rows.stream;
      load.transfers = rows.transfers;
      load.l2bm = rows.l2bm;
      load.parts = rows.parts;
      load.part_lw = rows.part_lw;
      load.order = rows.order;
      load.rows = piece.rows;
      load.left = s.left;
      load.before = s.before;
      load.right = s.right;
      load.last = s.last;
      load.last_result = s.last_result;
      load.kernel = s.window.kernel[1];
      load.dilation = s.window.dilation[1];
      load.lines = s.lines;
      load.first_line = first_line;
      load.first_row = piece.first;
      load.buffer_rows = s.window_rows;
      first_line += load.parts * (load.order.chunks / load.width());
      list.push_back(std::move(load));
    }
    return list;
  }
};

}  // namespace

std::vector<RowsOption> window_lanes_options(const WindowsProblem& problem, const isa::Chip& chip,
                                             const std::string& name) {
  if (chip.l1b_per_l2b != 2 * isa::kCyclesPerStep || problem.whole_rows || !problem.steps.empty()) return {};
  const auto tiler = std::make_shared<const WindowLanesTiler>(problem, chip);
  std::vector<RowsOption> options;
  for (const LinesTiling& tiling : tiler->tilings())
    options.push_back({tiling.split, tiling.split, tiling.cycles, rows_candidate(tiler, tiling, name)});
  return options;
}

}  // namespace kodama::compiler
