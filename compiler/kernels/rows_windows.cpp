#include "compiler/kernels/rows_windows.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <memory>
#include <optional>
#include <utility>

#include "compiler/kernels/fill_rows.h"
#include "compiler/kernels/lowering.h"
#include "compiler/kernels/predict.h"
#include "compiler/kernels/rows_division.h"
#include "compiler/kernels/rows_lowering.h"
#include "isa/arithmetic.h"

namespace kodama::compiler {

using isa::ceil_div;
using isa::round_up;
using isa::Space;
using layout::Factor;
using layout::Layout;
using layout::Level;

namespace {

/// Rows that all L1Bs take part of come in pieces of at most this part of L2BM: the next one is on its way.
constexpr int64_t kWindowPieces = 2;
/// Columns whose channels are normalized side by side.
constexpr int64_t kColumnsUnderWay = 16;
/// Their results are made in tiles, beside the steps that fetch: not more than these.
constexpr int64_t kWindowTiles = 2;

struct WindowsTiling {
  RowsSplit in, out;    ///< the same, but for what is normalized
  int64_t sharing = 1;  ///< L1Bs that have chunks of their own; 1: they have rows
  bool in_turn =
      false;         ///< parts of the operand are taken one after the other, by as many L1Bs as share each
  int64_t rows = 1;  ///< of an L1B in a pass
  int64_t l1bs = 1;  ///< that have rows of their own
  int64_t cycles = 0;
  bool by_rows() const { return sharing == 1 && !in_turn; }
};

class WindowsTiler : WindowsKernel {
 public:
  static constexpr int64_t kMostPasses = 256;
  WindowsTiler(WindowsProblem problem, const isa::Chip& chip) : WindowsKernel(std::move(problem), chip) {}

  std::vector<WindowsTiling> tilings() const {
    std::vector<WindowsTiling> list;
    for (const RowsSplit split : kRowsSplits) {
      if (!can_split(split)) continue;
      // What is normalized is all in one place.
      const RowsSplit out = problem_.steps.empty() ? split : RowsSplit{};
      std::optional<WindowsTiling> found;
      const int64_t most = problem_.steps.empty() ? chip_.l1b_per_l2b : 1;
      for (int64_t sharing = 1; sharing <= most; ++sharing) {
        const WindowsTiling least{split, out, sharing, false, 1, 1, 0};
        const Sizes one = sizes(least);
        const bool is_divisible = one.out.chunks() % sharing == 0 && one.can_share_chunks(one.chunks) &&
                                  one.out.order().can_share(one.chunks);
        if (!has_own_phases(one)) continue;
        if (!one.is_even() || (sharing > 1 && !is_divisible)) continue;
        // Which channels count is known for the last chunk alone.
        if (!problem_.steps.empty() && !one.in.is_even()) continue;
        const auto tiling =
            best_division(*this, least, one.out.rows(), least.by_rows() ? chip_.l1b_per_l2b : 1);
        if (tiling && (!found || tiling->cycles < found->cycles)) found = tiling;
      }
      if (problem_.in.parts.size() > 1 && problem_.inputs.empty() && problem_.steps.empty()) {
        const WindowsTiling least{split, out, 1, true, 1, 1, 0};
        const Sizes one = sizes(least);
        std::optional<WindowsTiling> tiling;
        if (has_turns(one)) tiling = best_division(*this, least, one.out.rows(), 1);
        if (tiling && (!found || tiling->cycles < found->cycles)) found = tiling;
      }
      if (found) list.push_back(*found);
    }
    return list;
  }

  std::vector<StreamPlacement> placements(const WindowsTiling& tiling) const {
    const Sizes s = sizes(tiling);
    std::vector<StreamPlacement> list = operands(s);
    for (size_t k = 0; k < problem_.inputs.size(); ++k) {
      list.push_back(problem_.inputs[k].of_rows ? rows_placement(k, tiling.out)
                                                : values_placement(k, values(tiling, s, k)));
    }
    add_constants(list, zeros_lw(tiling, s));
    list.push_back(result(s));
    return list;
  }

  TileProgram program(const WindowsTiling& tiling, const std::string& name,
                      const std::vector<StreamPlacement>& placements,
                      const std::vector<int64_t>& dram_addresses, bool backwards) const {
    const Sizes s = sizes(tiling);
    const RowOrder made = s.made.order();
    Draft draft = this->draft(name, placements, dram_addresses, s.windows_lw, [&](size_t k) {
      return problem_.inputs[k].of_rows ? s.row_input_lw : values_lw(s, k);
    });
    const int windows = draft.windows;
    const std::vector<RowsInput>& inputs = draft.inputs;
    const auto add = [&](auto op) { draft.add(std::move(op)); };
    const bool by_rows = tiling.by_rows();
    const double fill = problem_.whole_rows ? identity_of(problem_.op) : problem_.fill;
    if (s.has_outside_columns() || (problem_.whole_rows && s.pitch > problem_.in.columns)) {
      add(FillTile{windows, {}, s.windows_lw, word_of(fill, DataType::kFloat32)});
      for (const int other : draft.others)
        add(FillTile{other, {}, s.windows_lw, word_of(fill, DataType::kFloat32)});
    }
    for (const int64_t image : in_turn(s.out.images(), backwards)) {
      for (const int64_t pass : in_turn(s.passes, backwards)) {
        const int64_t l1bs = by_rows ? s.l1bs_in(pass) : s.l1bs;
        const std::vector<int64_t> result_places = by_rows ? l1b_places(l1bs, tiling.rows * s.out.row_lw())
                                                           : l1b_chunk_places(l1bs, s.out.order(), s.chunks);
        const std::vector<int64_t> made_places =
            by_rows ? l1b_places(l1bs, tiling.rows * problem_.phases[0] * s.made.row_lw())
                    : l1b_chunk_places(l1bs, made, s.chunks);
        if (tiling.in_turn) {
          add_turns(draft, tiling, s, image, pass, static_cast<int>(placements.size()) - 1, backwards);
          continue;
        }
        const auto load_piece = [&](const RowsPiece& piece) {
          const auto load_from = [&](int stream, const RowsDivision::Run& run, int buffer, int64_t l2bm) {
            LoadRows load = s.load(run, stream, s.ways, [&](size_t part) {
              return transfers(tiling, s, part, image, pass, piece);
            });
            load.l2bm += l2bm;
            for (RowsTransfer& transfer : load.transfers) transfer.l2bm += l2bm;
            if (by_rows) {
              load.l1b_at = l1b_places(l1bs, tiling.rows * problem_.window.stride[0] * load.order.lw());
            } else {
              load.rows = piece.rows;
              load.first_row = piece.first;
              s.share_chunks(load, s.chunks, l1bs);
            }
            load.buffer = buffer;
            if (s.spread) load.form = RowsForm::kSpread;
            add(std::move(load));
          };
          for (const RowsDivision::Run& run : s.runs()) load_from(0, run, windows, 0);
          for (size_t k = 0; k < draft.others.size(); ++k)
            load_from(static_cast<int>(s.parts.size() + k), s.runs().front(), draft.others[k],
                      static_cast<int64_t>(k + 1) * s.operand_l2bm);
        };
        PiecesInTurn next(pieces(tiling, s), problem_.window, tiling.rows, s.tile_rows, backwards);
        for (const int64_t tile : in_turn(ceil_div(tiling.rows, s.tile_rows), backwards)) {
          const int64_t row = tile * s.tile_rows;
          const int64_t rows = std::min(s.tile_rows, tiling.rows - row);
          // An L2B's own ones.
          const int64_t own_rows = by_rows ? s.pass_rows : rows;
          next.load_for(row, load_piece);
          int64_t input_l2bm = s.region_l2bm;
          for (size_t k = 0; k < inputs.size(); ++k) {
            if (!inputs[k].of_rows) continue;
            LoadRows load;
            load.stream = input_stream(s, k);
            load.transfers = s.own_rows(image, pass, input_l2bm, row, own_rows);
            load.l2bm = input_l2bm;
            load.part_lw = s.tile_lw;
            load.chunks = s.chunks;
            load.columns = load.pitch = s.staged.groups * isa::kCyclesPerStep;
            load.order = s.out.order();
            load.rows = rows;
            load.first_row = row;
            load.buffer_rows = tiling.rows;
            load.l1b_at = result_places;
            load.buffer = inputs[k].buffer;
            if (s.spread) load.form = RowsForm::kSpread;
            add(std::move(load));
            input_l2bm += s.tile_lw;
          }
          StoreRows store;
          set_segments(store, made, s.chunks);
          if (!problem_.steps.empty()) {
            NormalizeRows normalize;
            normalize.steps = problem_.steps;
            normalize.inputs = inputs;
            normalize.inputs.insert(normalize.inputs.begin(), {windows, true});
            normalize.channels = problem_.out.channels;
            normalize.rows = rows;
            normalize.order = s.staged;
            normalize.first_row = row;
            normalize.buffer_rows = tiling.rows;
            normalize.spread = s.spread;
            if (s.spread) set_spread_segments(store, s.chunks, normalize.staged_rows());
            add(std::move(normalize));
          } else {
            add(reduction(tiling, s, s.staged, draft, row, rows));
          }
          store.stream = static_cast<int>(placements.size()) - 1;
          store.l2bm = s.result_at;
          store.transfers = own_results(s, image, pass, store.l2bm, row, own_rows);
          store.l1b_at = made_places;
          store.rows = rows * problem_.phases[0];
          store.row_lw = s.made.row_lw();
          add(std::move(store));
        }
      }
    }
    return std::move(draft.program);
  }

  std::string describe(const WindowsTiling& tiling) const {
    const Sizes s = sizes(tiling);
    return fmt::format("group {}, L2B {}, L1B {}{}, {} passes of {} rows, {} chunks{}",
                       rows_or_channels(tiling.out.group_channels), rows_or_channels(tiling.out.l2b_channels),
                       rows_or_channels(!tiling.by_rows()), tiling.in_turn ? " of a part" : "",
                       s.passes * s.out.images(), tiling.rows, s.chunks, order_name(problem_.out));
  }

  struct Sizes : RowsDivision {
    RowsImage made;       ///< all results
    int64_t chunks = 0;   ///< of an L1B
    int64_t ways = 1;     ///< L2Bs that have channels of a column that one wants
    bool spread = false;  ///< four rows are normalized at a time
    int64_t windows_lw = 0;
    RowOrder staged = {};                      ///< results of a row in L1BM
    int64_t row_inputs = 0, row_input_lw = 0;  ///< LW in PE memory
    int64_t tile_rows = 0;                     ///< of an L1B, that are made and stored at a time
    int64_t operand_l2bm = 0;                  ///< LW of L2BM that the operand takes
    int64_t region_l2bm = 0;                   ///< and the others
    int64_t result_at = 0;                     ///< LW of L2BM before the results
    int64_t tile_lw = 0;                       ///< of an L2B's rows of a tile
    int64_t made_lw = 0;                       ///< of the results of these
  };
  Sizes sizes(const WindowsTiling& tiling) const {
    const bool by_rows = tiling.by_rows();
    Sizes s{{problem_.in,
             tiling.in,
             problem_.out,
             tiling.out,
             problem_.window,
             {tiling.rows, tiling.l1bs, by_rows},
             chip_},
            RowsImage(problem_.made ? *problem_.made : problem_.out, tiling.out, chip_)};
    if (tiling.sharing > 1) s.l1bs = tiling.sharing;
    s.parts_in_turn = tiling.in_turn;
    if (problem_.whole_rows) s.pitch = s.in.order().groups * isa::kCyclesPerStep;
    s.chunks = s.out.chunks() / tiling.sharing;
    if (tiling.in_turn) {
      s.chunks = 0;
      for (size_t part = 0; part < s.parts.size(); ++part) s.chunks = std::max(s.chunks, turn_share(s, part));
    }
    if (tiling.in != tiling.out) s.ways = s.in.channel_ways();
    s.staged = {s.out.order().groups, s.chunks};
    s.spread = !problem_.steps.empty() && problem_.out.tokens && tiling.rows > 1 && s.ways == 1 &&
               s.parts.size() == 1;
    s.windows_lw = s.spread ? spread_buffer_lw(tiling.rows, s.chunks)
                            : round_up(s.chunks * s.window_rows * s.pitch, isa::kCyclesPerStep);
    s.row_inputs = row_inputs();
    s.row_input_lw = s.spread ? s.windows_lw : s.chunks * tiling.rows * s.staged.groups * isa::kCyclesPerStep;
    s.tile_rows = tiling.rows;
    if (!by_rows) {
      // Rows come in pieces, and results go in tiles: the one beside the other.
      s.region_rows = std::clamp<int64_t>(chip_.memory.l2bm_lw / kWindowPieces / operand_count() /
                                              (tiling.in_turn ? s.longest_row_lw() : s.in_row_lw()),
                                          1, s.region_rows);
      const int64_t most = std::max<int64_t>(
          1, rows_staging(chip_).results_lw / std::max(phase_count() * s.staged.lw(), kUnitLw));
      const int64_t tiles = std::max(std::min(kWindowTiles, tiling.rows), ceil_div(tiling.rows, most));
      s.tile_rows = tiling.in_turn ? tiling.rows : ceil_div(tiling.rows, tiles);
    }
    s.operand_l2bm = s.part_l2bm(s.parts.size(), s.ways);
    s.region_l2bm = operand_count() * s.operand_l2bm;
    s.tile_lw = (by_rows ? s.pass_rows : s.tile_rows) * s.out.row_lw();
    s.made_lw = phase_count() * s.tile_lw;
    // Apart from the operand, but for L1Bs with rows of their own, where nothing is beside the results.
    s.result_at = by_rows ? 0 : s.region_l2bm + s.row_inputs * s.tile_lw;
    return s;
  }

  bool fits(const WindowsTiling& /*tiling*/, const Sizes& s) const {
    const RowsStaging staging = rows_staging(chip_);
    const int64_t local = chip_.memory.lm_words / isa::kWordsPerLong - kRowsReserveLw;
    int64_t others = s.row_inputs * s.row_input_lw + std::ssize(problem_.others) * s.windows_lw;
    for (size_t k = 0; k < problem_.inputs.size(); ++k)
      others += problem_.inputs[k].of_rows ? 0 : values_lw(s, k);
    // What steps keep of every channel, for the columns that are under way.
    const std::vector<bool> of_rows = steps_of_rows(problem_.steps, problem_.inputs.size() + 1);
    others += std::ranges::count(of_rows, false) * kColumnsUnderWay * s.chunks;
    return s.windows_lw <= local && others <= local && s.fits_in_ranges(staging.windows_lw) &&
           (s.spread ? round_up(s.tile_rows, isa::kCyclesPerStep) : s.tile_rows) * phase_count() *
                   s.staged.lw() <=
               staging.results_lw &&
           (!s.spread || s.longest_row_lw() <= staging.windows_lw) &&
           s.region_l2bm + s.row_inputs * s.tile_lw <= chip_.memory.l2bm_lw &&
           s.result_at + s.made_lw + isa::kL2bmBlockLw <= chip_.memory.l2bm_lw;
  }

  int64_t cost(const WindowsTiling& tiling, const Sizes& s) const {
    const auto load_steps = [&](int64_t parts, int64_t rows, int64_t chunks, const RowsImage& image) {
      return load_rows_steps(parts, rows, chunks, image.order().groups, s.l1bs, 1);
    };
    int64_t load = 0;
    std::vector<RowsTransfer> all;
    for (size_t part = 0; part < s.parts.size(); ++part) {
      if (tiling.by_rows()) load += load_steps(s.ways, s.window_rows, s.parts[part].chunks(), s.in);
      for (const RowsPiece& piece : pieces(tiling, s)) {
        for (int64_t operand = 0; operand < operand_count(); ++operand)
          std::ranges::move(transfers(tiling, s, part, 0, 0, piece), std::back_inserter(all));
      }
    }
    if (tiling.sharing > 1) {
      const int64_t parts = ceil_div(s.chunks, s.parts[0].chunks());
      load += load_steps(parts, s.window_rows, s.chunks / parts, s.in);
    }
    load *= operand_count();
    // Of all parts in turn, what their L1Bs have, and chunks that all L1Bs bring.
    int64_t chunks = s.chunks, stored = s.l1bs * s.staged.chunks;
    if (tiling.in_turn) {
      chunks = 0;
      stored = s.out.chunks();
      for (size_t part = 0; part < s.parts.size(); ++part) {
        const int64_t share = turn_share(s, part);
        chunks += share;
        load +=
            load_rows_steps(1, s.window_rows, share, s.in.order().groups, s.parts[part].chunks() / share, 1);
      }
    }
    int64_t steps = s.row_inputs * load_steps(1, tiling.rows, s.chunks, s.out);
    const std::array<int64_t, 2>& kernel = problem_.window.kernel;
    const int64_t elements = kernel[0] * (problem_.whole_rows ? s.pitch / isa::kCyclesPerStep : kernel[1]);
    int64_t operations = chunks * place_operations(elements);
    if (!problem_.steps.empty())
      operations = normalize_operations(problem_.steps, problem_.inputs.size() + 1, s.chunks);
    const int64_t vectors =
        s.spread ? ceil_div(tiling.rows, isa::kCyclesPerStep) : tiling.rows * s.staged.groups;
    const int64_t made = vectors * operations;
    const int64_t tiles = ceil_div(tiling.rows, s.tile_rows);
    // The rows of a tile are taken beside the results of the one before.
    steps += std::max(load, made) + std::min(load, made) / tiles;
    steps += tiling.rows * stored * s.staged.groups * phase_count();
    int64_t once = 0;
    for (size_t k = 0; k < problem_.inputs.size(); ++k) {
      if (!problem_.inputs[k].of_rows)
        once += load_cycles(values_transport(tiling, s), values_lw(s, k), chip_);
    }
    int64_t cycles =
        steps * isa::kCyclesPerStep + rows_transfer_cycles(all, chip_) +
        (s.row_inputs * own_rows_cycles(s.tile_lw, chip_) + own_rows_cycles(s.made_lw, chip_)) * tiles;
    // Steps wait for those of a piece one by one.
    if (!tiling.by_rows()) cycles += std::ssize(all) * chip_.transfer.startup_cycles / 2;
    return once + s.passes * s.out.images() * cycles;
  }

 private:
  /// Chunks of a part that an L1B has where parts are taken in turn: the fewest that all who have some have;
  /// 0: there is no such number.
  int64_t turn_share(const Sizes& s, size_t part) const {
    const RowOrder order = s.parts[part].order(), out = s.out.order();
    int64_t first = 0;
    for (size_t before = 0; before < part; ++before) first += s.parts[before].chunks();
    for (int64_t share = ceil_div(order.chunks, chip_.l1b_per_l2b); share <= order.chunks; ++share) {
      const bool is_aligned = share == 1 || first % out.width() == 0;
      if (order.chunks % share == 0 && order.can_share(share) && out.can_share(share) && is_aligned)
        return share;
    }
    return 0;
  }
  /// Whether every part can be shared.
  bool has_turns(const Sizes& s) const {
    for (size_t part = 0; part < s.parts.size(); ++part) {
      if (turn_share(s, part) == 0) return false;
    }
    return true;
  }

  /// The rows of a pass, part by part: they come, are made, and go to L2BM, from where all leave together.
  void add_turns(Draft& draft, const WindowsTiling& tiling, const Sizes& s, int64_t image, int64_t pass,
                 int result_stream, bool backwards) const {
    int64_t first_chunk = 0;
    for (size_t part = 0; part < s.parts.size(); ++part) {
      const int64_t chunks = turn_share(s, part), l1bs = s.parts[part].chunks() / chunks;
      std::vector<RowsPiece> list = pieces(tiling, s);
      if (backwards) std::ranges::reverse(list);
      for (const RowsPiece& piece : list) {
        LoadRows load = s.load({part, 1, 0}, 0, s.ways,
                               [&](size_t of) { return transfers(tiling, s, of, image, pass, piece); });
        load.rows = piece.rows;
        load.first_row = piece.first;
        load.l1b_at = l1b_chunk_places(l1bs, load.order, chunks);
        load.chunks = chunks;
        load.buffer = draft.windows;
        draft.add(std::move(load));
      }
      draft.add(reduction(tiling, s, {s.staged.groups, chunks}, draft, 0, tiling.rows));
      StoreRows store;
      set_segments(store, s.out.order(), chunks);
      store.stream = result_stream;
      store.l2bm = s.result_at;
      for (int64_t b = 0; b < l1bs; ++b)
        store.l1b_at.push_back(s.out.order().at(first_chunk + b * chunks, 0));
      store.rows = tiling.rows;
      store.row_lw = s.out.row_lw();
      if (part + 1 == s.parts.size()) store.transfers = s.own_rows(image, pass, store.l2bm, 0, tiling.rows);
      draft.add(std::move(store));
      first_chunk += s.parts[part].chunks();
    }
  }

  /// LW of values for channels in a PE.
  int64_t values_lw(const Sizes& s, size_t input) const {
    return round_up(s.chunks * positions(input), isa::kCyclesPerStep);
  }
  layout::Transport values_transport(const WindowsTiling& tiling, const Sizes& s) const {
    return {chip_, s.out.channel_mode(),
            tiling.sharing > 1 ? layout::L1bMode::kDistribute : layout::L1bMode::kBroadcast,
            layout::MabMode::kDistribute};
  }

  Values values(const WindowsTiling& tiling, const Sizes& s, size_t k) const {
    Values values{values_transport(tiling, s), values_lw(s, k)};
    if (is_weights(k) && problem_.has_rows) values.zeros_lw = zeros_lw(tiling, s);
    values.channels = s.out.channel_factors();
    values.copies = s.out.row_way_factors();
    if (tiling.sharing > 1) {
      values.channels.push_back({tiling.sharing, Level::kL1b, 1});
    } else {
      values.copies.push_back({chip_.l1b_per_l2b, Level::kL1b, 1});
    }
    // The MAB's block, and the MABs that have the same.
    const int64_t of_block = s.spread ? 1 : kBlocksPerChunk;
    values.copies.push_back({kBlocksPerChunk, Level::kMab, kBlocksPerChunk / of_block});
    values.channels.insert(values.channels.end(), {{s.chunks, Level::kAddress, positions(k)},
                                                   {kBlocksPerChunk, Level::kMab, of_block}});
    return values;
  }

  ReduceWindows reduction(const WindowsTiling& tiling, const Sizes& s, const RowOrder& staged,
                          const Draft& draft, int64_t row, int64_t rows) const {
    ReduceWindows reduce;
    reduce.op = problem_.op;
    reduce.windows = draft.windows;
    reduce.others = draft.others;
    reduce.numbers = position_numbers();
    reduce.window_rows = s.window_rows;
    reduce.pitch = s.pitch;
    reduce.kernel = problem_.window.kernel;
    reduce.dilation = problem_.window.dilation;
    reduce.stride = problem_.window.stride;
    reduce.whole_rows = problem_.whole_rows;
    reduce.rows = rows;
    reduce.first_row = row;
    reduce.buffer_rows = tiling.rows;
    reduce.expr = problem_.expr;
    reduce.epilogue = problem_.epilogue;
    reduce.inputs = draft.inputs;
    if (problem_.has_weights) {
      reduce.weights = draft.inputs[0].buffer;
      reduce.inputs.erase(reduce.inputs.begin());
    }
    reduce.order = staged;
    return reduce;
  }

  /// LW of zeros behind the weights, for rows outside the tensor.
  int64_t zeros_lw(const WindowsTiling& tiling, const Sizes& s) const {
    return longest_outside(
        s, [&](int64_t, int64_t) { return pieces(tiling, s); },
        [&](size_t part, int64_t image, int64_t pass, const RowsPiece& piece) {
          return transfers(tiling, s, part, image, pass, piece);
        });
  }

  static std::vector<RowsPiece> pieces(const WindowsTiling& tiling, const Sizes& s) {
    if (tiling.by_rows()) return {{0, s.region_rows}};
    return pieces_of(0, s.window_rows, s.region_rows);
  }

  std::vector<RowsTransfer> transfers(const WindowsTiling& tiling, const Sizes& s, size_t part, int64_t image,
                                      int64_t pass, const RowsPiece& piece) const {
    return piece_transfers(s, part, image, pass, piece, values_transport(tiling, s),
                           problem_.has_weights ? values_lw(s, 0) : 0, s.ways == 1);
  }
};

}  // namespace

int64_t WindowsKernel::positions(size_t input) const {
  return is_weights(input) ? problem_.window.kernel[0] * problem_.window.kernel[1] : 1;
}

int64_t WindowsKernel::row_inputs() const {
  return std::ranges::count(problem_.inputs, true, &WindowsProblem::Input::of_rows);
}

std::vector<StreamPlacement> WindowsKernel::operands(const RowsDivision& s) const {
  std::vector<StreamPlacement> list;
  const std::string& name = problem_.operand_name;
  for (size_t part = 0; part < s.parts.size(); ++part)
    list.push_back(s.parts[part].placement(s.parts.size() == 1 ? name : fmt::format("{}.{}", name, part)));
  for (size_t k = 0; k < problem_.others.size(); ++k)
    list.push_back(RowsImage(problem_.others[k], s.in.split(), chip_).placement(problem_.other_names[k]));
  // What is normalized leaves out the channels that fill a chunk up.
  for (StreamPlacement& placement : list) {
    if (!problem_.steps.empty()) placement.layout.set_padding(layout::Padding::kUndefined);
  }
  return list;
}

StreamPlacement WindowsKernel::result(const RowsDivision& s) const {
  StreamPlacement result = made(s).placement("y");
  result.is_output = true;
  // In channels that fill a chunk up, all operands are 0.
  const std::vector<double> zeros(problem_.inputs.size() + problem_.others.size() + 2, 0.0);
  if (problem_.steps.empty() &&
      (problem_.numbers || problem_.expr.evaluate(zeros) != 0 || problem_.epilogue.evaluate(zeros) != 0))
    result.layout.set_padding(layout::Padding::kUndefined);
  return result;
}

RowsImage WindowsKernel::made(const RowsDivision& s) const {
  if (!problem_.made) return s.out;
  return {*problem_.made, s.out.split(), chip_};
}

StreamPlacement WindowsKernel::rows_placement(size_t input, RowsSplit split) const {
  const WindowsProblem::Input& rows = problem_.inputs[input];
  Picture picture = problem_.out;
  picture.tensor = rows.access.tensor;
  StreamPlacement placement = RowsImage(picture, split, chip_).placement(rows.name);
  if (rows.by_place) placement.access = rows.access;
  if (!problem_.steps.empty()) placement.layout.set_padding(layout::Padding::kUndefined);
  return placement;
}

void WindowsKernel::add_constants(std::vector<StreamPlacement>& list, int64_t lw) const {
  if (problem_.zeros)
    list.push_back(fill_rows_placement(problem_.zeros_name, *problem_.zeros, lw, list[0].transport, chip_));
  if (problem_.numbers) list.push_back(numbers_placement(list[0].transport));
}

StreamPlacement WindowsKernel::numbers_placement(const layout::Transport& transport) const {
  const auto& [name, access, extents, kind, words] = *problem_.numbers;
  StreamPlacement numbers;
  numbers.name = name;
  numbers.access = access;
  numbers.extents = extents;
  numbers.transport = transport;
  std::vector<std::vector<Factor>> axes;
  int64_t lw = 1;
  for (size_t dim = 0; dim < extents.size(); ++dim) {
    if (!access.map.depends_on(dim) && dim > 0) continue;
    numbers.axis_dims.push_back({static_cast<int>(dim)});
    axes.push_back({{extents[dim], Level::kAddress, lw}});
    lw *= extents[dim];
  }
  numbers.layout = Layout(axes, layout::Memory::kLm1, {});
  numbers.length_lw = round_up(lw, transport.granule());
  place_single(numbers);
  return numbers;
}

StreamPlacement WindowsKernel::values_placement(size_t input, const Values& values) const {
  const std::array<int64_t, 2>& kernel = problem_.window.kernel;
  StreamPlacement placement;
  placement.name = problem_.inputs[input].name;
  placement.access = problem_.inputs[input].access;
  placement.extents = problem_.extents;
  placement.transport = values.transport;
  placement.length_lw = round_up(values.lw, values.transport.granule());
  std::vector<Factor> channels = values.channels;
  channels.insert(channels.end(), {{isa::kPePerMab, Level::kPe, 1}, {isa::kWordsPerLong, Level::kWord, 1}});
  placement.axis_dims = {{problem_.channel_dim}};
  std::vector<std::vector<Factor>> axes = {channels};
  for (size_t way = 0; way < 2; ++way) {
    if (!is_weights(input) || problem_.kernel_dims.at(way) < 0) continue;
    placement.axis_dims.push_back({problem_.kernel_dims.at(way)});
    axes.push_back({{kernel.at(way), Level::kAddress, values.position_lw * (way == 0 ? kernel[1] : 1)}});
  }
  placement.layout = Layout(axes, layout::Memory::kLm0, values.copies);
  place_single(placement);
  if (values.zeros_lw > 0) placement.length_lw += values.transport.numbers_over(values.zeros_lw);
  return placement;
}

std::vector<RowsTransfer> WindowsKernel::piece_transfers(const RowsDivision& s, size_t part, int64_t image,
                                                         int64_t pass, const RowsPiece& piece,
                                                         const layout::Transport& weights, int64_t weights_lw,
                                                         bool own_channels) const {
  std::optional<RowsTransfer> outside;
  if (problem_.has_rows) {
    outside.emplace();
    outside->stream = input_stream(s, problem_.zeros ? problem_.inputs.size() : 0);
    outside->group = 0;
    if (!problem_.zeros) outside->dram = weights.part_offset(round_up(weights_lw, weights.granule()));
  }
  RowsPass wanted = s.pass(image, pass);
  wanted.first_row = piece.first;
  wanted.most_rows = piece.rows;
  return window_transfers(s.parts[part], s.out, problem_.window, wanted, outside, chip_, own_channels);
}

WindowsKernel::Draft WindowsKernel::draft(const std::string& name,
                                          const std::vector<StreamPlacement>& placements,
                                          const std::vector<int64_t>& dram_addresses, int64_t windows_lw,
                                          const std::function<int64_t(size_t)>& input_lw) const {
  Draft draft;
  TileProgram& program = draft.program;
  program.name = name;
  for (size_t k = 0; k < placements.size(); ++k)
    program.streams.push_back(
        {placements[k].name, placements[k].transport, placements[k].length_lw, dram_addresses[k]});
  const auto buffer = [&](std::string buffer_name, int64_t lw, scheduler::HomeSet homes) {
    program.buffers.push_back({std::move(buffer_name), lw, homes});
    return static_cast<int>(program.buffers.size()) - 1;
  };
  const isa::SpaceSet lm0 = isa::space_bit(Space::kLm0), lm1 = isa::space_bit(Space::kLm1);
  const bool is_alone = problem_.inputs.empty() && problem_.others.empty();
  draft.windows = buffer("windows", windows_lw, is_alone ? lm0 | lm1 : lm1);
  for (const std::string& other : problem_.other_names)
    draft.others.push_back(buffer("windows of " + other, windows_lw, lm0));
  // Behind the operand's parts and others; the result is the last.
  const size_t first =
      placements.size() - 1 - (problem_.zeros ? 1 : 0) - (problem_.numbers ? 1 : 0) - problem_.inputs.size();
  for (size_t k = 0; k < problem_.inputs.size(); ++k) {
    const WindowsProblem::Input& input = problem_.inputs[k];
    const int64_t lw = input_lw(k);
    draft.inputs.push_back({buffer(input.name, lw, lm0), input.of_rows});
    if (!input.of_rows) draft.add(LoadTile{static_cast<int>(first + k), {}, draft.inputs[k].buffer, {}, lw});
  }
  return draft;
}

int64_t WindowsKernel::place_operations(int64_t elements) const {
  // A product is added where it is made.
  const int64_t of_element =
      1 + machine_operations(problem_.expr) - (problem_.has_weights ? machine_operations(ScalarOp::kMul) : 0);
  const int number = static_cast<int>(operand_count()) + (problem_.has_weights ? 1 : 0);
  if (problem_.numbers)
    elements = WindowNumbers(position_numbers(), elements, problem_.op, problem_.expr, number).count();
  return elements * of_element + phase_count() * machine_operations(problem_.epilogue);
}

PositionNumbers WindowsKernel::position_numbers() const {
  PositionNumbers numbers;
  numbers.phases = problem_.phases;
  if (problem_.numbers) {
    numbers.kind = problem_.numbers->kind;
    numbers.words = problem_.numbers->words;
  }
  return numbers;
}

std::vector<RowsTransfer> WindowsKernel::own_results(const RowsDivision& s, int64_t image, int64_t pass,
                                                     int64_t l2bm, int64_t first, int64_t count) const {
  std::vector<RowsTransfer> list = s.own_rows(image, pass, l2bm, first, count);
  // Rows of places follow one another, and so do those of all their phases.
  for (RowsTransfer& transfer : list) {
    transfer.dram *= phase_count();
    transfer.count *= phase_count();
  }
  return list;
}

std::optional<WindowsProblem::Input> windows_input(std::string name, const TensorAccess& access,
                                                   const WindowsProblem& problem, const AffineMap& result,
                                                   const LayerGraph& graph) {
  WindowsProblem::Input input{std::move(name), access, false};
  bool for_channel = true;
  bool is_like_result = graph.tensors[static_cast<size_t>(access.tensor)].shape == problem.out.shape;
  for (size_t axis = 0; axis < access.map.axes(); ++axis) {
    for (size_t dim = 0; dim < problem.extents.size(); ++dim) {
      if (problem.extents[dim] == 1) continue;
      const int64_t coefficient = access.map.coefficient(axis, dim);
      if (coefficient != 0 && static_cast<int>(dim) != problem.channel_dim) for_channel = false;
      if (is_like_result && coefficient != result.coefficient(axis, dim)) is_like_result = false;
    }
    if (access.map.offset(axis) != 0) is_like_result = false;
  }
  // Of one place, what another layer made is where the result is, as values of channels are not.
  input.of_rows = !for_channel || (is_like_result && !graph.is_constant(access.tensor));
  if (for_channel || is_like_result) return input;
  input.by_place =
      problem.extents == problem.out.shape && result == AffineMap::identity(problem.extents.size());
  if (!input.by_place) return std::nullopt;
  return input;
}

std::vector<Candidate> windows_candidates(const WindowsProblem& problem, const std::string& name,
                                          const LayerGraph& graph, const isa::Chip& chip) {
  if (chip.mab_per_l1b != kBlocksPerChunk * kBlocksPerChunk) return {};
  std::vector<Candidate> candidates;
  const auto add_candidates = [&](const WindowsProblem& which) {
    std::vector<RowsOption> options = window_lanes_options(which, chip, name);
    const auto tiler = std::make_shared<const WindowsTiler>(which, chip);
    for (const WindowsTiling& tiling : tiler->tilings()) {
      const auto same = std::ranges::find_if(options, [&](const RowsOption& option) {
        return option.in == tiling.in && option.out == tiling.out;
      });
      if (same == options.end()) {
        candidates.push_back(rows_candidate(tiler, tiling, name));
      } else if (tiling.cycles < same->cycles) {
        same->candidate = rows_candidate(tiler, tiling, name);
      }
    }
    for (RowsOption& option : options) candidates.push_back(std::move(option.candidate));
  };
  add_candidates(problem);
  if (!problem.others.empty()) return candidates;
  if (const auto parts = concatenated_picture(problem.in, graph)) {
    WindowsProblem by_parts = problem;
    by_parts.in = *parts;
    add_candidates(by_parts);
  }
  return candidates;
}

}  // namespace kodama::compiler
