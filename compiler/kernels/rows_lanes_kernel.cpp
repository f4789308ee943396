#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <memory>
#include <optional>
#include <tuple>
#include <utility>

#include "compiler/kernels/lowering.h"
#include "compiler/kernels/predict.h"
#include "compiler/kernels/rows_division.h"
#include "compiler/kernels/rows_problem.h"
#include "compiler/kernels/rows_totals.h"
#include "isa/arithmetic.h"
#include "isa/error.h"

/// Of "contract-rows": an L2B's rows, of which every pair of its L1Bs makes a lane of columns (RowOrder), and
/// of the two, each half of every chunk. What they take and make goes at the full rate of L2BM. The program
/// is that of the other ways (rows_kernel.cpp); rows come in pieces, and results are made in tiles of rows.
/// Or else L2Bs have input channels, and make parts of all sums that way (rows_totals.h).
namespace kodama::compiler {

using isa::ceil_div;
using isa::round_up;
using isa::Space;
using layout::Factor;
using layout::Layout;
using layout::Level;
using layout::Transport;

namespace {

/// Rows come in pieces of so much of L2BM.
constexpr int64_t kLanePieces = 6;
/// Not more tiles than these, where more aren't needed, and not fewer vectors to a matrix.
constexpr int64_t kLaneTiles = 4;
constexpr int64_t kLaneTileVectors = 6;
/// The same for parts of sums: the last tile's add up when its products are over.
constexpr int64_t kSumTileVectors = 3;

struct LanesTiling {
  RowsSplit in, out;  ///< `out` everywhere: parts of sums, of results that L2Bs have rows of
  int64_t rows = 1;   ///< of an L2B in a pass
  int64_t l1bs = 1;
  int64_t cycles = 0;
};

class LanesTiler : RowsContraction {
 public:
  static constexpr int64_t kMostPasses = 128;
  LanesTiler(RowsProblem problem, const isa::Chip& chip, MatrixPrecision precision)
      : RowsContraction(std::move(problem), chip, precision) {}

  std::vector<LanesTiling> tilings() const {
    std::vector<LanesTiling> list;
    for (const RowsSplit in : kRowsSplits) {
      for (const RowsSplit out : kRowsSplits) {
        if (!can_take(in, out)) continue;
        const LanesTiling least{in, out, 1, 1, 0};
        const Sizes one = sizes(least);
        if (!one.is_even() || !has_lanes(one)) continue;
        if (const auto tiling = best_division(*this, least, one.out.rows(), 1)) list.push_back(*tiling);
      }
    }
    if (can_sum()) {
      const LanesTiling least{{true, true}, {.is_everywhere = true}, 1, 1, 0};
      const Sizes one = sizes(least);
      if (one.in.is_nearly_even() && has_lanes(one) && totals().fits()) {
        if (const auto tiling = best_division(*this, least, one.out.rows(), 1)) list.push_back(*tiling);
      }
    }
    return list;
  }

  struct Sizes : RowsDivision {
    int64_t left = 0, right = 0, last = 0;  ///< columns of a pair's windows, as of LoadLanes
    bool is_flat = false;                   ///< a window is a place: rows are one
    int64_t lane_pitch = 0;                 ///< columns of a row of a pair's windows
    int64_t shift = 0;                      ///< as of LoadLanes
    int64_t flat_pitch = 0;                 ///< LW of a chunk's windows
    LanePlaces places = {};                 ///< of a tile
    int64_t in_chunks = 0, in_places = 0;
    int64_t out_sets = 0, out_stack = 1, out_stacks = 0;
    int64_t side_chunks = 0;    ///< as of LoadLanes
    int64_t matrix_places = 0;  ///< of the operand, that a set of results depends on
    int64_t tile_rows = 0;
    int64_t matrices_lw = 0;  ///< of a pair of chunks of results
    bool all_matrices = false;
    int64_t windows_lw = 0, sums_lw = 0, input_lw = 0;  ///< of a PE
    int64_t row_inputs = 0;
    int64_t region_l2bm = 0, tile_l2bm = 0;
  };

  Sizes sizes(const LanesTiling& tiling) const {
    Sizes s{
        {problem_.in, tiling.in, problem_.out, tiling.out, problem_.window, {tiling.rows, 1, false}, chip_}};
    s.own_channels = tiling.out.is_everywhere || (has_sections() && s.out.channel_ways() > 1);
    const int64_t groups_in = lane_columns_in(s), groups_out = s.out.order().groups;
    const int64_t under = s.window.columns_under(groups_out);
    s.left = s.window.pad[1];
    s.right = std::max<int64_t>(0, under - s.left - groups_in);
    s.last = (problem_.in.packed ? problem_.out : s.in.picture()).columns - 3 * groups_in;
    s.is_flat = !problem_.in.packed && s.window.kernel == std::array<int64_t, 2>{1, 1} &&
                s.window.stride == std::array<int64_t, 2>{1, 1} &&
                s.window.pad == std::array<int64_t, 2>{0, 0};
    const RowOrder order = s.out.order();
    // Rows of a set must begin at what l2bmd may reach.
    if (s.is_flat && order.chunks / order.width() > 1 && order.width() == 1 && groups_out % 2 != 0)
      s.is_flat = false;
    // Quads 2 and 3 have other places where chunks don't stand in pairs.
    s.shift = order.width() == 1 ? s.window.stride[1] : 0;
    const int64_t row_places = s.is_flat ? groups_out : round_up(groups_out, vector_places(order));
    s.lane_pitch = s.left + groups_in + s.right;
    if (!s.is_flat) s.lane_pitch = std::max(s.lane_pitch, s.window.columns_under(row_places)) + s.shift;
    s.in_chunks = s.ways() * (problem_.in.packed ? packed_line()->chunks() : s.in.chunks());
    s.out_sets = order.chunks / order.width();
    s.stack = window_stack(loaded_chunks(s));
    s.stack_places = stack_places(precision_, s.stack);
    s.in_places = window_places(s.in_chunks, s.stack);
    s.out_stack = result_stack(s.out_sets, s.out.channel_ways() - 1);
    s.out_stacks = ceil_div(s.out_sets, s.out_stack);
    s.matrix_places = matrix_places(s.in_places);
    // Two chunks of results, of a section each: their quads have the inputs of theirs.
    if (has_sections() && order.width() == 2 && problem_.sections.out_chunks == 1)
      s.side_chunks = s.matrix_places;
    s.matrices_lw = matrices_lw(s.matrix_places);
    s.region_rows = std::clamp<int64_t>(chip_.memory.l2bm_lw / kLanePieces / (s.ways() * s.in_row_lw()), 1,
                                        s.region_rows);
    // Rows that are one may end within a vector; those before begin with what quads have in another place.
    s.flat_pitch = s.is_flat ? s.window_rows * s.lane_pitch + vector_places(order) + s.shift
                             : s.window_rows * s.lane_pitch;
    s.windows_lw = round_up(s.in_places / (s.side_chunks > 0 ? 2 : 1) * s.flat_pitch, isa::kCyclesPerStep);
    const int64_t most_vectors =
        chip_.memory.grf_words / isa::kWordsPerLong * 3 / 4 / (isa::kCyclesPerStep * form_.result_lw);
    // Two sets of chunks take turns in L1BM, or else all are there.
    const int64_t most_places = rows_staging(chip_).results_lw / LanePlaces{order, 1, row_places}.slots() /
                                (step_places(order) / vector_places(order) * kUnitLw) * step_places(order);
    const int64_t most =
        std::max<int64_t>(1, std::min(most_places, most_vectors * vector_places(order)) / row_places);
    const int64_t all_vectors = ceil_div(tiling.rows * row_places, vector_places(order));
    const int64_t tile_vectors = tiling.out.is_everywhere ? kSumTileVectors : kLaneTileVectors;
    const int64_t tiles = std::max(ceil_div(tiling.rows, most),
                                   std::min({kLaneTiles, tiling.rows, all_vectors / tile_vectors}));
    s.tile_rows = ceil_div(tiling.rows, std::max<int64_t>(1, tiles));
    s.places = {order, s.tile_rows, row_places};
    s.sums_lw = std::ssize(starts(s, s.tile_rows)) * isa::kCyclesPerStep * form_.result_lw;
    if (!tiling.out.is_everywhere) s.row_inputs = all_row_inputs();
    s.input_lw = s.out_sets * s.places.spread_lw();
    const int64_t local = chip_.memory.lm_words / isa::kWordsPerLong - kRowsReserveLw;
    const int64_t inputs_lw =
        tiling.out.is_everywhere ? (1 + all_row_inputs()) * totals().input_lw() : s.row_inputs * s.input_lw;
    s.all_matrices = s.out_stacks * s.matrices_lw + inputs_lw <= local;
    // Steps take four units, and halos are beside the rows.
    s.region_l2bm = s.part_l2bm(s.parts.size(), s.ways()) + isa::kCyclesPerStep * kUnitLw;
    // Results of a set are in L2BM while the next one's matrices come.
    if (!s.all_matrices)
      s.region_l2bm = std::max(s.region_l2bm, load_l2bm_lw(weights_transport(s), s.matrices_lw, chip_));
    s.tile_l2bm = s.tile_rows * s.out.row_lw() + isa::kCyclesPerStep * kUnitLw;
    return s;
  }

  bool fits(const LanesTiling& tiling, const Sizes& s) const {
    const int64_t local = chip_.memory.lm_words / isa::kWordsPerLong - kRowsReserveLw;
    const int64_t matrices = (s.all_matrices ? s.out_stacks : 1) * s.matrices_lw;
    if (!s.all_matrices && s.tile_rows < tiling.rows) return false;
    return s.windows_lw <= local && matrices + s.row_inputs * s.input_lw <= local &&
           s.sums_lw <= chip_.memory.grf_words / isa::kWordsPerLong * 3 / 4 &&
           s.places.slots() * s.places.staged_lw() <= rows_staging(chip_).results_lw &&
           staged_row(s) * kColumnLw <= rows_staging(chip_).windows_lw / 2 &&
           l2bm_of_pass(s) <= chip_.memory.l2bm_lw;
  }
  static int64_t l2bm_of_pass(const Sizes& s) { return s.region_l2bm + (s.row_inputs + 1) * s.tile_l2bm; }

  int64_t cost(const LanesTiling& tiling, const Sizes& s) const {
    int64_t columns = s.is_flat ? s.in.order().groups : round_up(s.lane_pitch, isa::kCyclesPerStep);
    const int64_t load =
        s.window_rows * (std::max<int64_t>(s.ways() * ceil_div(staged_row(s), isa::kCyclesPerStep),
                                           take_chunks(s) * columns) +
                         2);
    const int64_t tiles = ceil_div(tiling.rows, s.tile_rows);
    const int64_t vectors = std::ssize(starts(s, s.tile_rows));
    const int64_t product = s.out_stacks * product_steps(s.matrices_lw, vectors);
    const int64_t spread = s.places.spread_lw() / isa::kCyclesPerStep;
    int64_t finish = vectors;
    const bool is_sum = tiling.out.is_everywhere;
    if (has_epilogue() && !is_sum) {
      int64_t operations = 2 + s.row_inputs;
      operations += machine_operations(problem_.contract.epilogue);
      finish += spread * operations;
    }
    const int64_t moves =
        s.tile_rows * ceil_div(s.out.order().width() * s.out.order().groups, isa::kCyclesPerStep);
    int64_t steps = std::max(load, tiles * product) + std::min(load, tiles * product) / tiles;
    steps += tiles * s.out_sets * (kRowsFillSteps + finish + (1 + s.row_inputs) * moves);
    std::vector<RowsTransfer> transfers;
    for (const RowsPiece& piece : pieces(s, 0, 0)) {
      for (size_t part = 0; part < s.parts.size(); ++part)
        std::ranges::move(input_transfers(s, part, 0, 0, piece, 0, 0), std::back_inserter(transfers));
    }
    int64_t moved = rows_transfer_cycles(transfers, chip_);
    int64_t after = 0;
    if (is_sum) {
      const int64_t passes = s.passes * s.out.images();
      after = sum_cycles(s.tile_rows, passes * tiles, passes * steps) + finish_cycles();
    } else {
      moved += (1 + s.row_inputs) * own_rows_cycles(s.tile_rows * s.out.row_lw(), chip_) * tiles;
    }
    return passes_cycles(s.passes * s.out.images(), steps * isa::kCyclesPerStep, moved, l2bm_of_pass(s),
                         chip_) +
           after + constant_cycles(s) + room_cycles(s.windows_lw);
  }
  int64_t constant_cycles(const Sizes& s) const {
    if (s.all_matrices) return matrix_load_cycles(weights_transport(s), s.out_stacks * s.matrices_lw);
    return s.out_stacks * load_cycles(weights_transport(s), s.matrices_lw, chip_, true) * s.passes *
           s.out.images();
  }

  /// Cycles and LW of the matrices.
  std::pair<int64_t, int64_t> constants(const LanesTiling& tiling) const {
    const Sizes s = sizes(tiling);
    return kept_matrices(constant_cycles(s), s.out_stacks, s.matrices_lw, s.all_matrices, s.windows_lw);
  }
  std::vector<StreamPlacement> placements(const LanesTiling& tiling) const;
  TileProgram program(const LanesTiling& tiling, const std::string& name,
                      const std::vector<StreamPlacement>& placements,
                      const std::vector<int64_t>& dram_addresses, bool backwards) const;
  std::string describe(const LanesTiling& tiling) const;

 private:
  /// Whether lanes of results are over lanes of the operand.
  bool has_lanes(const Sizes& s) const {
    const RowOrder order = s.out.order();
    const int64_t groups_in = lane_columns_in(s);
    const int64_t last_out = s.out.picture().columns - 3 * order.groups;
    return groups_in == order.groups * s.window.stride[1] && s.left < groups_in && s.right <= s.last &&
           s.last > 0 && last_out > 0 && (s.is_flat || s.left + groups_in + s.right >= isa::kCyclesPerStep);
  }

  std::optional<LoadLanes::Packed> packed_line() const {
    const auto& packed = problem_.in.packed;
    if (!packed) return std::nullopt;
    return LoadLanes::Packed{packed->lane_columns, packed->window_words(), packed->column_lw()};
  }

  /// Chunks of which a step of its own takes a column: of a stack, one takes all that stand side by side, or
  /// else two columns of a chunk, which packed ones don't allow.
  int64_t take_chunks(const Sizes& s) const {
    const bool single = problem_.in.packed && s.in_chunks % s.stack != 0;
    return single ? s.in_chunks : ceil_div(s.in_chunks, std::max(s.stack, form_.stream_lw));
  }
  /// Columns that a lane's windows begin at.
  int64_t lane_columns_in(const RowsDivision& s) const {
    return problem_.in.packed ? problem_.in.packed->lane_columns : s.in.order().groups;
  }

  /// Units of 16 LW of a row of the longest part, with its halo.
  int64_t staged_row(const Sizes& s) const {
    int64_t most = 0;
    for (const RowsImage& part : s.parts) {
      const RowOrder order = part.order();
      const int64_t halo = round_up(s.left * order.width(), isa::kCyclesPerStep) +
                           round_up(s.right * order.width(), isa::kCyclesPerStep);
      most = std::max(most, round_up(order.chunks * order.groups, isa::kCyclesPerStep) +
                                order.chunks / order.width() * halo);
    }
    return most;
  }

  /// The first of the places of every vector of `rows` rows of results.
  std::vector<int64_t> starts(const Sizes& s, int64_t rows) const {
    std::vector<int64_t> list;
    for (int64_t first = 0; first < rows * s.places.row_places; first += vector_places(s.places.order))
      list.push_back(first);
    return list;
  }

  Transport weights_transport(const Sizes& s) const {
    return {chip_, matrix_split(s).channel_mode(), layout::L1bMode::kParity, layout::MabMode::kDistribute};
  }
  /// A pair of chunks has blocks 0 and 1 of both in L1Bs of even number, 2 and 3 in the others. `of_block`:
  /// MABs from one block of an L1B to the next. With the factors of sets of chunks.
  std::vector<Factor> out_channel_factors(const Sizes& s, const std::vector<Factor>& of_sets,
                                          int64_t of_block) const {
    std::vector<Factor> factors = s.out.channel_factors();
    factors.insert(factors.end(), of_sets.begin(), of_sets.end());
    factors.insert(factors.end(), {{s.out.order().width(), Level::kMab, 2 * of_block},
                                   {2, Level::kL1b, 1},
                                   {2, Level::kMab, of_block}});
    return factors;
  }
  std::vector<Factor> copies(const Sizes& s, int64_t of_block) const {
    std::vector<Factor> list = matrix_split(s).row_way_factors();
    list.push_back({isa::kCyclesPerStep, Level::kL1b, 2});
    const int64_t width = s.out.order().width();
    if (width == 1) list.push_back({2, Level::kMab, 2 * of_block});
    return list;
  }

  int64_t zeros_lw(const Sizes& s) const {
    return longest_outside(
        s, [&](int64_t image, int64_t pass) { return pieces(s, image, pass); },
        [&](size_t part, int64_t image, int64_t pass, const RowsPiece& piece) {
          return input_transfers(s, part, image, pass, piece, 0, 0);
        });
  }
};

std::vector<StreamPlacement> LanesTiler::placements(const LanesTiling& tiling) const {
  const Sizes s = sizes(tiling);
  const Matrices matrices{
      weights_transport(s),
      s.out_stacks * s.matrices_lw,
      zeros_lw(s),
      out_channel_factors(s, result_chunk_factors(s.out_sets, s.out_stack, s.matrices_lw), kBlocksPerChunk),
      in_channel_factors(1, has_sections() ? problem_.sections.in_chunks : s.in_chunks, s.stack),
      copies(s, kBlocksPerChunk)};
  if (tiling.out.is_everywhere) return sum_streams(s, matrices);
  Values values{weights_transport(s), s.out_sets,
                out_channel_factors(s, {{s.out_sets, Level::kAddress, 1}}, 1), copies(s, 1)};
  values.copies.push_back({kBlocksPerChunk, Level::kMab, kBlocksPerChunk});
  return streams(s, tiling.out, matrices, values);
}

TileProgram LanesTiler::program(const LanesTiling& tiling, const std::string& name,
                                const std::vector<StreamPlacement>& placements,
                                const std::vector<int64_t>& dram_addresses, bool backwards) const {
  const Sizes s = sizes(tiling);
  const bool is_sum = tiling.out.is_everywhere;
  const RowsTotals sums = totals();
  DraftSizes draft_sizes{s.out_sets, s.out_stacks, s.matrices_lw, s.all_matrices,           s.windows_lw,
                         s.sums_lw,  s.input_lw,   !s.is_flat,    s.passes * s.out.images()};
  if (is_sum) size_for_totals(draft_sizes);
  Draft draft = this->draft(name, placements, dram_addresses, s.parts.size(), draft_sizes);
  const int64_t groups_out = s.out.order().groups;
  // The step that brings a row of fewer columns writes over the beginning of the next one.
  const bool last_first = backwards && !(s.is_flat && s.lane_pitch < isa::kCyclesPerStep);
  const auto load_piece = [&](const Pass& pass, const RowsPiece& piece) {
    for (const RowsDivision::Run& run : s.runs()) {
      const LoadRows rows = s.load(run, draft.window_stream, s.ways(), [&](size_t part) {
        return input_transfers(s, part, pass.image, pass.number, piece, draft.zeros, draft.weight_stream);
      });
      LoadLanes load;
      load.stream = rows.stream;
      load.transfers = rows.transfers;
      load.l2bm = rows.l2bm;
      load.parts = rows.parts;
      load.part_lw = rows.part_lw;
      load.order = rows.order;
      load.rows = piece.rows;
      load.left = s.left;
      load.right = s.right;
      load.last = s.last;
      load.buffer = pass.windows;
      load.stack = s.stack;
      load.first_place = rows.first_chunk;
      load.first_row = piece.first;
      load.buffer_rows = s.window_rows;
      load.pitch = s.lane_pitch;
      load.place_lw = s.flat_pitch;
      load.shift = s.shift;
      load.side_chunks = s.side_chunks;
      load.normalize = precision_;
      load.packed = packed_line();
      draft.add(std::move(load));
    }
  };
  Passes passes(draft, s, backwards,
                {problem_.window, tiling.rows, s.tile_rows, last_first,
                 [&](const Pass& pass) { return pieces(s, pass.image, pass.number); }});
  for (size_t number = 0; number < passes.all().size(); ++number) {
    const int64_t image = passes.all()[number].image, pass = passes.all()[number].number;
    const int64_t result_at = s.region_l2bm + s.row_inputs * s.tile_l2bm;
    for (const int64_t row : passes.rows_of_tiles()) {
      const int64_t rows = std::min(s.tile_rows, tiling.rows - row);
      passes.load_for(number, row, load_piece);
      for (size_t k = 0, inputs = 0; k < problem_.of_rows.size(); ++k) {
        if (!problem_.of_rows[k] || is_sum) continue;
        LoadPlaces load;
        load.stream = draft.first_input + static_cast<int>(k);
        load.l2bm = s.region_l2bm + static_cast<int64_t>(inputs++) * s.tile_l2bm;
        load.transfers = s.own_rows(image, pass, load.l2bm, row, rows);
        load.places = s.places;
        load.places.rows = rows;
        load.buffer = draft.inputs[k].buffer;
        draft.add(std::move(load));
      }
      for (int64_t stack = 0; stack < s.out_stacks; ++stack) {
        WindowProduct product;
        product.precision = precision_;
        product.matrices = draft.matrices;
        product.matrices_at.base = load_matrices(draft, stack, draft_sizes);
        product.windows = passes.all()[number].windows;
        product.first_place =
            s.side_chunks > 0 ? stack * s.side_chunks : first_place(stack * s.out.order().width());
        product.places = s.matrix_places;
        product.kernel = problem_.window.kernel;
        product.dilation = problem_.window.dilation;
        product.stride = problem_.window.stride;
        product.sums = draft.sums;
        product.starts.clear();
        FinishLanes finish;
        finish.starts = starts(s, rows);
        // From one place of a vector to the next that the same quad has.
        product.step = s.shift > 0 ? 2 : 1;
        if (s.is_flat) {
          product.window_rows = 1;
          product.pitch = s.flat_pitch;
          for (const int64_t start : finish.starts) product.starts.push_back(row * groups_out + start);
        } else {
          product.window_rows = s.window_rows;
          product.pitch = s.lane_pitch;
          product.first_row = row;
          product.rows = rows;
          product.starts = starts(s, 1);
        }
        product.first_column = s.shift;
        draft.add(std::move(product));
        finish.sums = draft.sums;
        finish.epilogue = is_sum ? ScalarExpr::identity() : problem_.contract.epilogue;
        if (!is_sum) finish.inputs = draft.inputs;
        finish.of_sums = {0, form_.result_lw};
        finish.places = s.places;
        finish.places.rows = rows;
        finish.l2bm = result_at;
        for (finish.set = stack * s.out_stack; finish.set < std::min(s.out_sets, (stack + 1) * s.out_stack);
             ++finish.set, ++finish.of_sums.first)
          draft.add(FinishLanes(finish));
      }
      if (is_sum) {
        draft.add(sums.sum(draft.result_stream, image, pass * s.pass_rows + row, rows, result_at));
        continue;
      }
      StoreRows store;
      store.stream = draft.result_stream;
      store.l2bm = result_at;
      store.transfers = s.own_rows(image, pass, result_at, row, rows);
      draft.add(std::move(store));
    }
  }
  if (is_sum) finish_sums(draft);
  return std::move(draft.program);
}

std::string LanesTiler::describe(const LanesTiling& tiling) const {
  const Sizes s = sizes(tiling);
  if (tiling.out.is_everywhere)
    return fmt::format(
        "{}: group, L2B input channels, L1B lanes, {} passes of {} rows, tiles of {}, {} sets of {} input "
        "chunks",
        matrix_precision_name(precision_), s.passes * s.out.images(), tiling.rows, s.tile_rows, s.out_sets,
        s.in_chunks);
  return fmt::format(
      "{}: group {}, L2B {}, L1B lanes{}, {} passes of {} rows, tiles of {}, {} sets of {} input chunks; "
      "operand: group {}, L2B {}",
      matrix_precision_name(precision_), rows_or_channels(tiling.out.group_channels),
      rows_or_channels(tiling.out.l2b_channels), problem_.in.packed ? ", packed" : "",
      s.passes * s.out.images(), tiling.rows, s.tile_rows, s.out_sets,
      has_sections() ? problem_.sections.in_chunks : s.in_chunks, rows_or_channels(tiling.in.group_channels),
      rows_or_channels(tiling.in.l2b_channels));
}

}  // namespace

std::vector<RowsOption> lanes_options(const RowsProblem& problem, const isa::Chip& chip,
                                      MatrixPrecision precision, const std::string& name) {
  if (chip.l1b_per_l2b != 2 * isa::kCyclesPerStep) return {};
  std::vector<RowsOption> options;
  const auto add = [&](const RowsProblem& which) {
    const auto tiler = std::make_shared<const LanesTiler>(which, chip, precision);
    for (const LanesTiling& tiling : tiler->tilings())
      options.push_back({tiling.in, tiling.out.is_everywhere ? RowsSplit{} : tiling.out, tiling.cycles,
                         rows_candidate(tiler, tiling, name), which.in.packed.has_value()});
  };
  // Packed it is faster, but who makes the operand makes rows as they are.
  if (const std::optional<RowsProblem> packed = packed_problem(problem)) add(*packed);
  add(problem);
  return options;
}

}  // namespace kodama::compiler
