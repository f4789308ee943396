#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "compiler/kernels/kernel.h"
#include "compiler/kernels/rows.h"
#include "compiler/tile/tile_program.h"
#include "isa/chip.h"

/// How kernels on images of rows (rows.h) divide their work: an L2B makes its rows of results in passes, a
/// pass' rows are its L1Bs', or else all L1Bs have the same rows and channels of their own.
namespace kodama::compiler {

/// LW of a local memory left to constants and temporaries.
inline constexpr int64_t kRowsReserveLw = 96;
/// Steps from a row's first to the last that isn't beside others.
inline constexpr int64_t kRowsFillSteps = 12;

/// Rows of an L1B in a pass, and L1Bs that have rows of their own (1 where they have channels).
struct RowsShare {
  int64_t rows = 1, l1bs = 1;
  bool by_rows = true;  ///< L1Bs have rows of their own
};

struct RowsDivision {
  RowsDivision(const Picture& in_picture, RowsSplit in_split, const Picture& out_picture, RowsSplit out_split,
               const RowsWindow& rows_window, const RowsShare& share, const isa::Chip& chip);

  RowsImage in, out;
  std::vector<RowsImage> parts;  ///< of the operand; `in` itself where it has none
  bool own_channels = false;     ///< L2Bs take their own channels alone, not all
  bool parts_in_turn = false;    ///< parts are in L2BM one after the other, not all at a time
  RowsWindow window;
  int64_t rows = 1;          ///< of results, of an L1B in a pass
  int64_t l1bs = 1;          ///< at work in a full pass
  int64_t window_rows = 0;   ///< of an L1B
  int64_t pass_rows = 0;     ///< of an L2B
  int64_t region_rows = 0;   ///< input rows that L2BM has room for at a time, of an L2B in a pass
  int64_t passes = 0;        ///< of an image
  int64_t pitch = 0;         ///< columns of a window's row, padding included
  int64_t stack = 1;         ///< chunks of the operand that come together (LoadRows)
  int64_t stack_places = 1;  ///< of the windows, that a stack takes

  /// L2Bs whose channels an L2B takes.
  int64_t ways() const { return own_channels ? 1 : in.channel_ways(); }
  /// Parts one after the other whose rows are alike, so that a LoadRows takes them all.
  struct Run {
    size_t first = 0, count = 1;  ///< parts
    int64_t first_place = 0;      ///< of the windows; where L2Bs have channels, of one of them
  };
  std::vector<Run> runs() const;
  /// Of an L2B's channels, or of all where it wants those of `ways` L2Bs.
  /// `transfers`: of a part, to L2BM from 0 on.
  LoadRows load(const Run& run, int first_stream, int64_t ways,
                const std::function<std::vector<RowsTransfer>(size_t part)>& transfers) const;
  /// LW of L2BM before a part's rows; all of them for the part behind the last.
  int64_t part_l2bm(size_t part, int64_t ways) const;
  /// Whether rows of operand and result can go through so many LW, some chunks after others.
  bool fits_in_ranges(int64_t lw) const;
  /// LW of a row of all parts, in one L2B.
  int64_t in_row_lw() const;
  int64_t longest_row_lw() const;  ///< of a part
  /// Whether every L2B has as many channels of every part, and of the results.
  bool is_even() const;
  /// Whether results depend on columns outside the tensor.
  bool has_outside_columns() const;
  /// Whether L1Bs may share all chunks, `chunks` each: one's are in one part, or in whole ones.
  bool can_share_chunks(int64_t chunks) const;
  /// Makes them do so.
  void share_chunks(LoadRows& load, int64_t chunks, int64_t sharing_l1bs) const;

  /// L1Bs (or else 1) at work in a pass.
  int64_t l1bs_in(int64_t pass) const;
  RowsPass pass(int64_t image, int64_t number) const;
  /// `count` of an L2B's own rows of results in a pass from `first` on, in L2BM at `l2bm`; nothing where
  /// there are none.
  std::vector<RowsTransfer> own_rows(int64_t image, int64_t number, int64_t l2bm, int64_t first,
                                     int64_t count) const;
};

/// Steps that take rows of an image from L2BM: for each of `parts`, `rows` rows of `chunks` chunks of
/// `groups` groups that go to `sets` sets of L1Bs one by one, in `each` steps for four columns of a chunk.
int64_t load_rows_steps(int64_t parts, int64_t rows, int64_t chunks, int64_t groups, int64_t sets,
                        int64_t each, int64_t fill = kRowsFillSteps);
/// Cycles of `passes` passes, each of steps and of transfers that bring and store what takes `l2bm_lw` LW.
/// Where L2BM has room for two, and all of them take several times what it holds, most of what one waits for
/// comes beside the steps of the one before. What is smaller may be there from the layer before, and comes
/// beside that one's steps else, however it is divided.
int64_t passes_cycles(int64_t passes, int64_t step_cycles, int64_t transfer_cycles, int64_t l2bm_lw,
                      const isa::Chip& chip);
/// Cycles in which every L2B stores or loads `lw` LW of its own.
int64_t own_rows_cycles(int64_t lw, const isa::Chip& chip);
/// Chunks of an L1B where `l1bs` share those of a row: the fewest that all who have some have.
int64_t chunk_share(int64_t chunks, int64_t l1bs);
/// Makes L1Bs that have `chunks` chunks of every row bring them to an image's rows.
void set_segments(StoreRows& store, const RowOrder& order, int64_t chunks);
/// The same where rows are spread (FinishRows): those of a chunk follow each other, `staged_rows` in L1BM.
void set_spread_segments(StoreRows& store, int64_t chunks, int64_t staged_rows);
/// "rows" or "channels".
const char* rows_or_channels(bool channels);

/// The numbers from 0 to `count` - 1, or from there down.
std::vector<int64_t> in_turn(int64_t count, bool backwards);
/// Rows under the results of a pass that are in L2BM at a time.
struct RowsPiece {
  int64_t first = 0, rows = 0;
};
/// Rows [first, last), `most` at a time.
std::vector<RowsPiece> pieces_of(int64_t first, int64_t last, int64_t most);
/// LW of the longest of all transfers that take rows outside the tensor from a stream: `transfers(part,
/// image, pass, piece)` for those of `pieces(image, pass)`.
template <typename Pieces, typename Transfers>
int64_t longest_outside(const RowsDivision& s, Pieces&& pieces, Transfers&& transfers) {
  int64_t most = 0;
  for (int64_t image = 0; image < s.out.images(); ++image) {
    for (int64_t pass = 0; pass < s.passes; ++pass) {
      for (const RowsPiece& piece : pieces(image, pass)) {
        for (size_t part = 0; part < s.parts.size(); ++part) {
          for (const RowsTransfer& transfer : transfers(part, image, pass, piece))
            most = std::max(most, transfer.stream >= 0 ? transfer.count : 0);
        }
      }
    }
  }
  return most;
}
/// Pieces in the order in which tiles of results want them.
class PiecesInTurn {
 public:
  PiecesInTurn(std::vector<RowsPiece> pieces, const RowsWindow& window, int64_t rows, int64_t tile_rows,
               bool backwards)
      : pieces_(std::move(pieces)),
        window_(window),
        rows_(rows),
        tile_rows_(tile_rows),
        backwards_(backwards) {
    if (!backwards_) std::ranges::reverse(pieces_);
  }
  /// Calls load(piece) for what the tile from `row` on wants, and the next one, as far as it isn't there:
  /// results are made beside the steps that take rows.
  template <typename Load>
  void load_for(int64_t row, Load&& load) {
    const int64_t lowest = std::max<int64_t>(0, row - tile_rows_) * window_.stride[0];
    const int64_t end = row * window_.stride[0] + window_.rows_under(std::min(2 * tile_rows_, rows_ - row));
    const auto wants = [&](const RowsPiece& piece) {
      return backwards_ ? piece.first + piece.rows > lowest : piece.first < end;
    };
    for (; !pieces_.empty() && wants(pieces_.back()); pieces_.pop_back()) load(pieces_.back());
  }

 private:
  std::vector<RowsPiece> pieces_;  ///< the next one last
  RowsWindow window_;
  int64_t rows_, tile_rows_;
  bool backwards_;
};

/// The cheapest way to divide `rows` rows of an L2B over at most `most_l1bs` L1Bs, of those whose sizes fit.
/// A tiling has members rows, l1bs and cycles, and a tiler sizes(), fits(), cost() and kMostPasses: over all
/// images, since programs have them one after the other.
template <typename Tiler, typename Tiling>
std::optional<Tiling> best_division(const Tiler& tiler, Tiling tiling, int64_t rows, int64_t most_l1bs) {
  std::optional<Tiling> found;
  for (tiling.l1bs = most_l1bs; tiling.l1bs >= 1; --tiling.l1bs) {
    int64_t last_passes = 0;
    for (tiling.rows = isa::ceil_div(rows, tiling.l1bs); tiling.rows >= 1; --tiling.rows) {
      const auto sizes = tiler.sizes(tiling);
      if (sizes.passes == last_passes || sizes.passes * sizes.out.images() > Tiler::kMostPasses ||
          !tiler.fits(tiling, sizes))
        continue;
      last_passes = sizes.passes;
      tiling.cycles = tiler.cost(tiling, sizes);
      if (!found || tiling.cycles < found->cycles) found = tiling;
    }
  }
  return found;
}

/// The candidate of a tiling. The tiler has placements(), describe() and program(), and lives as long as the
/// candidate.
template <typename Tiler, typename Tiling>
Candidate rows_candidate(const std::shared_ptr<const Tiler>& tiler, const Tiling& tiling,
                         const std::string& name) {
  Candidate candidate;
  candidate.placements = tiler->placements(tiling);
  candidate.description = tiler->describe(tiling);
  candidate.predicted_cycles = tiling.cycles;
  // Others have few, or none.
  if constexpr (requires { tiler->constants(tiling); })
    std::tie(candidate.constant_cycles, candidate.constant_lw) = tiler->constants(tiling);
  const auto emitter = [&](bool backwards) {
    return [tiler, tiling, name, backwards,
            placements = candidate.placements](const std::vector<int64_t>& dram_addresses) {
      static_cast<void>(backwards);  // not everybody asks for it
      if constexpr (requires { tiler->program(tiling, name, placements, dram_addresses, backwards); })
        return tiler->program(tiling, name, placements, dram_addresses, backwards);
      else
        return tiler->program(tiling, name, placements, dram_addresses);
    };
  };
  candidate.emit = emitter(false);
  if constexpr (requires {
                  tiler->program(tiling, name, candidate.placements, std::vector<int64_t>(), true);
                })
    candidate.emit_backwards = emitter(true);
  return candidate;
}

/// A way to compute a layer: the splits of operand and result, and how long it takes.
struct RowsOption {
  RowsSplit in, out;
  int64_t cycles = 0;
  Candidate candidate;
  bool is_packed = false;  ///< the operand, another image of it
};

}  // namespace kodama::compiler
