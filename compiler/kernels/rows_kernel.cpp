#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <map>
#include <memory>
#include <numeric>
#include <optional>
#include <tuple>
#include <utility>

#include "compiler/kernels/builtin_kernels.h"
#include "compiler/kernels/lowering.h"
#include "compiler/kernels/predict.h"
#include "compiler/kernels/rows.h"
#include "compiler/kernels/rows_division.h"
#include "compiler/kernels/rows_problem.h"
#include "compiler/kernels/rows_totals.h"
#include "isa/arithmetic.h"
#include "isa/error.h"

/// "contract-rows": products with matrices that the host has at first on images of rows
/// (compiler/tile/tile_program.h), without an expanded operand: a position of a convolution's kernel is an
/// offset of addresses.
///
/// An image has whole rows, in an order that every kernel of this kind makes and takes. What an L2B needs,
/// the rows above and below its own included, comes by transfers from wherever it is. In an L1B
///
///   - the four MABs of a quad take a quarter of the channels each, as block floats: block m % 4 of a chunk;
///   - the quads make eight output channels each, an L1B 32 at a time: their sums meet in l1bmr4;
///   - L1Bs have different rows, output channels, or input channels: of these what they make is
///     added up in l2bmr, and the epilogue runs on rows that they take of the sums.
///
/// Groups and L2Bs have different output channels or different rows, too, or else different input channels
/// (rows_totals.h). So the program is
///
///     for passes: load the rows of all input channels
///       for chunks of output channels: load matrices (once, where all fit), sums = 0,
///         sums += matrices * windows, epilogue, to L1BM
///       store the rows
namespace kodama::compiler {

using isa::ceil_div;
using isa::round_up;
using isa::Space;
using layout::Factor;
using layout::Layout;
using layout::Level;
using layout::Transport;

namespace {

constexpr const char* kRowsKernel = "contract-rows";
/// What a LW of constants that stay is worth to other layers, in cycles. Of a matrix that all L1Bs of an L2B
/// share, 128 LW in a PE take 1,024 cycles to L2BM and as many on to L1BM.
constexpr int64_t kRoomCycles = 16;
/// Rows that all L1Bs take part of come in pieces of so much of L2BM.
constexpr int64_t kPieces = 6;
/// Their sums are made tile by tile, so that pieces are fetched beside products: not more tiles than these,
/// where more aren't needed, and not fewer vectors to a matrix.
constexpr int64_t kTiles = 4;
constexpr int64_t kTileVectors = 4;

/// What the L1Bs of an L2B have of their own: rows of results, output channels, input channels, or sections
/// of channels. Of input channels rows come in pieces, and sums are made in tiles of rows.
enum class L1bShare : uint8_t { kRows, kOutputs, kInputs, kSections };

/// Everything that a candidate decides.
struct RowsTiling {
  RowsSplit in, out;
  L1bShare share = L1bShare::kRows;
  int64_t rows = 1;  ///< of an L1B in a pass
  int64_t l1bs = 1;  ///< that have rows of their own
  int64_t cycles = 0;
};

class RowsTiler : RowsContraction {
 public:
  static constexpr int64_t kMostPasses = 128;
  RowsTiler(RowsProblem problem, const isa::Chip& chip, MatrixPrecision precision)
      : RowsContraction(std::move(problem), chip, precision) {}

  /// One for each way to take the operand and make the result, nothing where it doesn't fit.
  std::vector<RowsTiling> tilings() const {
    std::vector<RowsTiling> list;
    for (const RowsSplit in : kRowsSplits) {
      for (const RowsSplit out : kRowsSplits) {
        for (const L1bShare share :
             {L1bShare::kRows, L1bShare::kOutputs, L1bShare::kInputs, L1bShare::kSections}) {
          if (const auto tiling = best(in, out, share)) list.push_back(*tiling);
        }
      }
    }
    if (can_sum() && totals().fits()) {
      for (const L1bShare share : {L1bShare::kOutputs, L1bShare::kInputs}) {
        if (const auto tiling = best({true, true}, {.is_everywhere = true}, share)) list.push_back(*tiling);
      }
    }
    return list;
  }

  std::vector<StreamPlacement> placements(const RowsTiling& tiling) const;
  TileProgram program(const RowsTiling& tiling, const std::string& name,
                      const std::vector<StreamPlacement>& placements,
                      const std::vector<int64_t>& dram_addresses, bool backwards) const;
  std::string describe(const RowsTiling& tiling) const;

  /// Sizes that follow from a tiling.
  struct Sizes : RowsDivision {
    int64_t loading_l1bs = 0;                               ///< that have input channels
    int64_t chunks_in = 0, places_in = 0;                   ///< in a PE's windows
    int64_t matrix_places = 0;                              ///< of those, what a stack of results depends on
    int64_t chunks_out = 0, out_stack = 1, stacks_out = 0;  ///< of an L1B
    bool in_pieces = false;                                 ///< all L1Bs take the same rows, some at a time
    int64_t tile_rows = 0;                                  ///< of an L1B, whose sums are made at a time
    int64_t finish_rows = 0;                                ///< of an L1B in the epilogue, of `finish_l1bs`
    int64_t finish_l1bs = 0;
    int64_t groups = 0;         ///< vectors of a row of results
    int64_t matrices_lw = 0;    ///< of a stack of chunks of output channels
    bool all_matrices = false;  ///< of all stacks fit
    int64_t windows_lw = 0, sums_lw = 0;
    int64_t row_inputs = 0;
    bool spread = false;       ///< columns of a row over MABs, in the epilogue
    int64_t row_input_lw = 0;  ///< of an input of the epilogue in PE memory
    RowOrder staged = {};      ///< results of a row in L1BM
    int64_t region_l2bm = 0, input_l2bm = 0, result_l2bm = 0;  ///< LW
  };

  Sizes sizes(const RowsTiling& tiling) const {
    Sizes s{{problem_.in,
             tiling.in,
             problem_.out,
             tiling.out,
             problem_.window,
             {tiling.rows, tiling.l1bs, tiling.share == L1bShare::kRows},
             chip_}};
    const bool own_inputs = tiling.share == L1bShare::kInputs;
    s.own_channels = tiling.out.is_everywhere || (has_sections() && s.out.channel_ways() > 1);
    const int64_t all_in = s.ways() * s.in.chunks();
    s.chunks_in = own_inputs ? share_of(all_in) : all_in;
    s.chunks_out = tiling.share == L1bShare::kOutputs ? share_of(s.out.chunks()) : s.out.chunks();
    if (tiling.share == L1bShare::kSections) {
      const int64_t sections = share_of(s.out.chunks() / problem_.sections.out_chunks);
      s.chunks_in = sections * problem_.sections.in_chunks;
      s.chunks_out = sections * problem_.sections.out_chunks;
    }
    if (takes_chunks(tiling)) s.loading_l1bs = all_in / s.chunks_in;
    if (has_own_outputs(tiling)) s.l1bs = s.out.chunks() / s.chunks_out;
    s.stack = window_stack(own_inputs ? shared_chunks(s) : loaded_chunks(s));
    s.stack_places = stack_places(precision_, s.stack);
    s.places_in = window_places(s.chunks_in, s.stack);
    s.out_stack =
        result_stack(s.chunks_out, s.out.channel_ways() * (has_own_outputs(tiling) ? s.l1bs : 1) - 1);
    s.stacks_out = ceil_div(s.chunks_out, s.out_stack);
    s.groups = s.out.order().groups;
    s.matrix_places = matrix_places(s.places_in);
    s.matrices_lw = matrices_lw(s.matrix_places);
    const int64_t local = chip_.memory.lm_words / isa::kWordsPerLong - kRowsReserveLw;
    s.windows_lw = round_up(s.places_in * s.window_rows * s.pitch, isa::kCyclesPerStep);
    s.staged = {s.groups, s.chunks_out};
    s.tile_rows = s.finish_rows = tiling.rows;
    s.finish_l1bs = s.l1bs;
    s.in_pieces = own_inputs || tiling.out.is_everywhere;
    if (s.in_pieces) {
      // Rows come in pieces, so that what follows is fetched meanwhile.
      s.region_rows =
          std::clamp<int64_t>(chip_.memory.l2bm_lw / kPieces / (s.ways() * s.in_row_lw()), 1, s.region_rows);
      const int64_t most = std::max<int64_t>(
          1, std::min(most_sums() / (s.groups * isa::kCyclesPerStep * form_.result_lw),
                      (rows_staging(chip_).results_lw - isa::kL2bmBlockLw) / s.staged.lw()));
      const int64_t tiles =
          std::max(ceil_div(tiling.rows, most), std::min(kTiles, tiling.rows * s.groups / kTileVectors));
      s.tile_rows = ceil_div(tiling.rows, std::max<int64_t>(1, tiles));
    }
    if (own_inputs) {
      s.finish_rows = ceil_div(tiling.rows, chip_.l1b_per_l2b);
      s.finish_l1bs = ceil_div(tiling.rows, s.finish_rows);
    }
    s.sums_lw = s.tile_rows * s.groups * isa::kCyclesPerStep * form_.result_lw;
    if (!tiling.out.is_everywhere) s.row_inputs = all_row_inputs();
    // Of four columns, a MAB may have one: then what the epilogue works on is four rows at a time.
    s.spread =
        problem_.out.tokens && !own_inputs && has_epilogue() && tiling.rows > 1 && !tiling.out.is_everywhere;
    s.row_input_lw = s.spread ? spread_buffer_lw(s.finish_rows, s.chunks_out)
                              : s.chunks_out * s.finish_rows * s.groups * isa::kCyclesPerStep;
    const int64_t others = tiling.out.is_everywhere ? (1 + all_row_inputs()) * totals().input_lw()
                                                    : s.row_inputs * s.row_input_lw;
    s.all_matrices = s.stacks_out * s.matrices_lw + others <= local;
    s.region_l2bm = s.part_l2bm(s.parts.size(), s.ways());
    s.input_l2bm =
        s.out.row_lw() * (own_inputs ? std::max(s.pass_rows, s.finish_l1bs * s.finish_rows) : s.pass_rows);
    s.result_l2bm = s.input_l2bm + isa::kL2bmBlockLw;
    return s;
  }

  /// L1Bs that make chunks of results of their own.
  static bool has_own_outputs(const RowsTiling& tiling) {
    return tiling.share == L1bShare::kOutputs || tiling.share == L1bShare::kSections;
  }
  /// L1Bs that take chunks of the operand of their own.
  static bool takes_chunks(const RowsTiling& tiling) {
    return tiling.share == L1bShare::kInputs || tiling.share == L1bShare::kSections;
  }
  int64_t share_of(int64_t chunks) const { return chunk_share(chunks, chip_.l1b_per_l2b); }
  /// What comes together where L1Bs share all chunks.
  static std::vector<int64_t> shared_chunks(const Sizes& s) {
    const int64_t parts = ceil_div(s.chunks_in, s.parts[0].chunks());
    // Those of the next L2B follow.
    const int64_t next = s.out.is_everywhere() ? 1 : 0;
    return std::vector<int64_t>(static_cast<size_t>(s.loading_l1bs * parts + next), s.chunks_in / parts);
  }
  int64_t most_sums() const { return chip_.memory.grf_words / isa::kWordsPerLong * 3 / 4; }

  bool fits(const RowsTiling& tiling, const Sizes& s) const {
    const RowsStaging staging = rows_staging(chip_);
    const int64_t local = chip_.memory.lm_words / isa::kWordsPerLong - kRowsReserveLw;
    const int64_t matrices = (s.all_matrices ? s.stacks_out : 1) * s.matrices_lw;
    const bool own_inputs = tiling.share == L1bShare::kInputs;
    // Sums over L1Bs come back as an input of the epilogue.
    const int64_t totals = own_inputs && !tiling.out.is_everywhere ? s.row_input_lw : 0;
    // Matrices that don't all fit are loaded once for each chunk.
    if (!s.all_matrices && s.tile_rows < tiling.rows) return false;
    return s.sums_lw <= most_sums() && s.windows_lw + totals <= local &&
           matrices + s.row_inputs * s.row_input_lw <= local && s.fits_in_ranges(staging.windows_lw) &&
           (!problem_.out.tokens || std::max(s.longest_row_lw(), s.out.row_lw()) <= staging.windows_lw) &&
           (own_inputs ? std::max(s.tile_rows, s.finish_rows) : s.tile_rows) * s.staged.lw() +
                   (s.spread ? 3 * kUnitLw : 0) <=
               staging.results_lw &&
           l2bm_of_pass(s) <= chip_.memory.l2bm_lw;
  }
  static int64_t l2bm_of_pass(const Sizes& s) {
    return std::max(s.region_l2bm + s.row_inputs * s.input_l2bm + (s.in_pieces ? s.result_l2bm : 0),
                    s.result_l2bm);
  }

  std::optional<RowsTiling> best(RowsSplit in, RowsSplit out, L1bShare share) const {
    RowsTiling tiling{in, out, share, 1, 1, 0};
    // Who has some sections needs no other's.
    if (has_sections() ? share == L1bShare::kOutputs || share == L1bShare::kInputs
                       : share == L1bShare::kSections)
      return std::nullopt;
    if (!can_take(in, out)) return std::nullopt;
    const Sizes one = sizes(tiling);
    if (!one.is_even()) return std::nullopt;
    if (has_own_outputs(tiling) && (one.l1bs == 1 || !one.out.order().can_share(one.chunks_out)))
      return std::nullopt;
    if (takes_chunks(tiling)) {
      // Whole chunks for everyone, each L1B's in one part or in whole ones.
      if (one.loading_l1bs == 1) return std::nullopt;
      if (!one.can_share_chunks(one.chunks_in)) return std::nullopt;
    }
    return best_division(*this, tiling, one.out.rows(), share == L1bShare::kRows ? chip_.l1b_per_l2b : 1);
  }

  int64_t cost(const RowsTiling& tiling, const Sizes& s) const {
    const int64_t passes = s.passes * s.out.images();
    const bool own_inputs = tiling.share == L1bShare::kInputs;
    const int64_t ways = tiling.share == L1bShare::kOutputs ? 1 : s.l1bs;
    const bool is_sum = tiling.out.is_everywhere;
    const bool has_finish = has_epilogue() && !is_sum;
    const int64_t row_inputs = s.row_inputs + (own_inputs && has_finish ? 1 : 0);
    int64_t load = 0;
    for (const RowsDivision::Run& run : s.runs()) {
      const int64_t parts = takes_chunks(tiling) ? ceil_div(s.chunks_in, s.parts[0].chunks())
                                                 : static_cast<int64_t>(run.count) * s.ways();
      const int64_t chunks = takes_chunks(tiling) ? s.chunks_in / parts : s.parts[run.first].chunks();
      // A step takes a column of a chunk, or as many as a vector has LW.
      load += load_rows_steps(parts, s.window_rows, chunks, s.parts[run.first].order().groups, ways,
                              isa::kCyclesPerStep / std::max(s.stack, form_.stream_lw));
    }
    const int64_t vectors = s.tile_rows * s.groups;
    const int64_t tiles = ceil_div(tiling.rows, s.tile_rows);
    // The sum goes up and comes back; the operations of the epilogue stand beside each other's.
    int64_t finish = 1;
    if (has_finish) {
      finish = 3;
      finish += machine_operations(problem_.contract.epilogue);
    }
    const int64_t row_blocks = s.staged.chunks * s.groups;
    const int64_t product = s.stacks_out * product_steps(s.matrices_lw, vectors);
    // Half of what one of several passes begins with is beside the one before.
    const int64_t fill = s.in_pieces && passes > 1 ? kRowsFillSteps / 2 : kRowsFillSteps;
    int64_t steps =
        row_inputs * load_rows_steps(1, s.finish_rows, s.chunks_out, s.groups, chip_.l1b_per_l2b, 1, fill);
    if (s.in_pieces) {
      // The rows of a tile are taken beside the products of the one before.
      steps += std::max(load, tiles * product) + std::min(load, tiles * product) / tiles;
      steps += tiles * s.chunks_out * fill;
      steps += (own_inputs ? 1 : s.l1bs) * tiling.rows * row_blocks;
      if (has_finish)
        steps += s.chunks_out * s.finish_rows * s.groups * finish + tiling.rows * row_blocks + kRowsFillSteps;
    } else {
      const int64_t finished = s.spread ? ceil_div(vectors, isa::kCyclesPerStep) * finish : vectors * finish;
      steps += load + product + s.chunks_out * (kRowsFillSteps + vectors + finished);
      steps += s.l1bs * tiling.rows * row_blocks;
    }
    std::vector<RowsTransfer> transfers;
    for (const RowsPiece& piece : pieces(s, 0, 0)) {
      for (size_t part = 0; part < s.parts.size(); ++part) {
        const std::vector<RowsTransfer> list = input_transfers(s, part, 0, 0, piece, 0, 0);
        transfers.insert(transfers.end(), list.begin(), list.end());
      }
    }
    int64_t moved = rows_transfer_cycles(transfers, chip_);
    int64_t after = 0;
    if (is_sum) {
      after = sum_cycles(s.tile_rows, passes * tiles, passes * steps) + finish_cycles();
    } else {
      moved += (1 + s.row_inputs) * own_rows_cycles(s.input_l2bm, chip_);
    }
    return passes_cycles(passes, steps * isa::kCyclesPerStep, moved, l2bm_of_pass(s), chip_) + after +
           constant_cycles(tiling, s) + room_cycles(s.windows_lw);
  }
  int64_t constant_cycles(const RowsTiling& tiling, const Sizes& s) const {
    const Transport transport = weights_transport(tiling, s);
    if (s.all_matrices) return matrix_load_cycles(transport, s.stacks_out * s.matrices_lw);
    return s.stacks_out * load_cycles(transport, s.matrices_lw, chip_, true) * s.passes * s.out.images();
  }
  /// Cycles and LW of the matrices.
  std::pair<int64_t, int64_t> constants(const RowsTiling& tiling) const {
    const Sizes s = sizes(tiling);
    return kept_matrices(constant_cycles(tiling, s), s.stacks_out, s.matrices_lw, s.all_matrices,
                         s.windows_lw);
  }

 private:
  Transport weights_transport(const RowsTiling& tiling, const Sizes& s) const {
    return {chip_, matrix_split(s).channel_mode(),
            tiling.share == L1bShare::kRows ? layout::L1bMode::kBroadcast : layout::L1bMode::kDistribute,
            layout::MabMode::kDistribute};
  }
  /// Of what depends on output channels alone.
  Transport values_transport(const RowsTiling& tiling, const Sizes& s) const {
    return {chip_, s.out.channel_mode(),
            has_own_outputs(tiling) ? layout::L1bMode::kDistribute : layout::L1bMode::kBroadcast,
            layout::MabMode::kDistribute};
  }
  /// Levels over which that is the same.
  std::vector<Factor> channel_copies(const RowsTiling& tiling, const Sizes& s) const {
    std::vector<Factor> copies = matrix_split(s).row_way_factors();
    if (!has_own_outputs(tiling)) copies.push_back({chip_.l1b_per_l2b, Level::kL1b, 1});
    return copies;
  }
  /// With the factors of an L1B's chunks.
  std::vector<Factor> out_channel_factors(const RowsTiling& tiling, const Sizes& s,
                                          const std::vector<Factor>& of_chunks) const {
    std::vector<Factor> factors = s.out.channel_factors();
    if (has_own_outputs(tiling)) factors.push_back({s.l1bs, Level::kL1b, 1});
    factors.insert(factors.end(), of_chunks.begin(), of_chunks.end());
    factors.push_back({kBlocksPerChunk, Level::kMab, kBlocksPerChunk});
    return factors;
  }

  /// LW of zeros behind the matrices, for rows outside the tensor.
  int64_t zeros_lw(const Sizes& s) const {
    return longest_outside(
        s, [&](int64_t image, int64_t pass) { return pieces(s, image, pass); },
        [&](size_t part, int64_t image, int64_t pass, const RowsPiece& piece) {
          return input_transfers(s, part, image, pass, piece, 0, 0);
        });
  }
  std::vector<RowsPiece> pieces(const Sizes& s, int64_t image, int64_t pass) const {
    if (!s.in_pieces) return {{0, s.region_rows}};
    return RowsContraction::pieces(s, image, pass);
  }
};

std::vector<StreamPlacement> RowsTiler::placements(const RowsTiling& tiling) const {
  const Sizes s = sizes(tiling);
  const bool own_inputs = tiling.share == L1bShare::kInputs;
  Matrices matrices{
      weights_transport(tiling, s),
      s.stacks_out * s.matrices_lw,
      zeros_lw(s),
      out_channel_factors(tiling, s, result_chunk_factors(s.chunks_out, s.out_stack, s.matrices_lw)),
      in_channel_factors(own_inputs ? s.loading_l1bs : 1,
                         has_sections() ? problem_.sections.in_chunks : s.chunks_in, s.stack),
      own_inputs ? matrix_split(s).row_way_factors() : channel_copies(tiling, s)};
  if (tiling.out.is_everywhere) return sum_streams(s, matrices);
  // The MAB's block, and the MABs that have the same.
  const int64_t of_block = s.spread ? 1 : kBlocksPerChunk;
  Values values{values_transport(tiling, s), s.chunks_out,
                out_channel_factors(tiling, s, {{s.chunks_out, Level::kAddress, 1}}),
                channel_copies(tiling, s)};
  values.outs.back().stride = of_block;
  values.copies.push_back({kBlocksPerChunk, Level::kMab, kBlocksPerChunk / of_block});
  return streams(s, tiling.out, matrices, values);
}

TileProgram RowsTiler::program(const RowsTiling& tiling, const std::string& name,
                               const std::vector<StreamPlacement>& placements,
                               const std::vector<int64_t>& dram_addresses, bool backwards) const {
  const Sizes s = sizes(tiling);
  const bool own_inputs = tiling.share == L1bShare::kInputs;
  const bool is_sum = tiling.out.is_everywhere;
  const RowsTotals sums = totals();
  DraftSizes draft_sizes{s.chunks_out,
                         s.stacks_out,
                         s.matrices_lw,
                         s.all_matrices,
                         s.windows_lw,
                         s.sums_lw,
                         s.row_input_lw,
                         s.in_pieces || s.has_outside_columns(),
                         s.passes * s.out.images()};
  if (is_sum) size_for_totals(draft_sizes);
  Draft draft = this->draft(name, placements, dram_addresses, s.parts.size(), draft_sizes);
  std::vector<int64_t> starts(static_cast<size_t>(s.groups));
  std::iota(starts.begin(), starts.end(), 0);
  const bool has_totals = own_inputs && has_epilogue() && !is_sum;
  const int totals = has_totals ? draft.buffer("totals", s.row_input_lw, isa::space_bit(Space::kLm1)) : -1;
  const auto load_piece = [&](const Pass& pass, const RowsPiece& piece) {
    for (const RowsDivision::Run& run : s.runs()) {
      LoadRows load = s.load(run, draft.window_stream, s.ways(), [&](size_t part) {
        return input_transfers(s, part, pass.image, pass.number, piece, draft.zeros, draft.weight_stream);
      });
      if (tiling.share == L1bShare::kRows)
        load.l1b_at = l1b_places(s.l1bs_in(pass.number),
                                 tiling.rows * problem_.window.stride[0] * s.parts[run.first].row_lw());
      if (s.in_pieces) {
        load.rows = piece.rows;
        load.first_row = piece.first;
      }
      if (takes_chunks(tiling)) s.share_chunks(load, s.chunks_in, s.loading_l1bs);
      // The others take what the last one does: their matrices are zeros, but what L1BM was left with
      // may be infinite.
      if (own_inputs) load.l1b_at.resize(static_cast<size_t>(chip_.l1b_per_l2b), load.l1b_at.back());
      load.buffer = pass.windows;
      load.normalize = precision_;
      draft.add(std::move(load));
    }
  };
  Passes passes(draft, s, backwards,
                {problem_.window, tiling.rows, s.tile_rows, backwards,
                 [&](const Pass& pass) { return pieces(s, pass.image, pass.number); }});
  for (size_t number = 0; number < passes.all().size(); ++number) {
    const int64_t image = passes.all()[number].image, pass = passes.all()[number].number;
    // An L2B's own rows: what it makes, and reads beside it.
    const int64_t finish_l1bs = tiling.share == L1bShare::kRows ? s.l1bs_in(pass) : s.finish_l1bs;
    // Where an L1B's part of them is.
    const std::vector<int64_t> places = has_own_outputs(tiling)
                                            ? l1b_chunk_places(finish_l1bs, s.out.order(), s.chunks_out)
                                            : l1b_places(finish_l1bs, s.finish_rows * s.out.row_lw());
    const auto beside = [&](int stream, int64_t l2bm, int to, int64_t row, int64_t rows) {
      LoadRows load;
      load.stream = stream;
      load.l2bm = l2bm;
      load.part_lw = s.input_l2bm;
      load.chunks = s.chunks_out;
      load.columns = load.pitch = s.groups * isa::kCyclesPerStep;
      load.order = s.out.order();
      load.rows = rows;
      load.first_row = row;
      load.buffer_rows = s.finish_rows;
      load.l1b_at = places;
      load.buffer = to;
      if (s.spread) load.form = RowsForm::kSpread;
      return load;
    };
    const auto load_beside = [&](int64_t row, int64_t rows, int64_t pass_rows) {
      int64_t at = s.region_l2bm;
      for (size_t k = 0; k < problem_.of_rows.size(); ++k) {
        if (!problem_.of_rows[k] || is_sum) continue;
        LoadRows load =
            beside(draft.first_input + static_cast<int>(k), at, draft.inputs[k].buffer, row, rows);
        load.transfers = s.own_rows(image, pass, at, row, pass_rows);
        draft.add(std::move(load));
        at += s.input_l2bm;
      }
    };
    const int64_t result_at = s.region_l2bm + s.row_inputs * s.input_l2bm;
    load_beside(0, s.finish_rows, s.pass_rows);
    FinishRows finish;
    finish.sums = draft.sums;
    finish.order = s.staged;
    finish.spread = s.spread;
    finish.buffer_rows = s.finish_rows;
    finish.epilogue = own_inputs || is_sum ? ScalarExpr::identity() : problem_.contract.epilogue;
    if (!own_inputs && !is_sum) finish.inputs = draft.inputs;
    const auto store_rows = [&](int64_t row, int64_t rows, int64_t pass_rows, int64_t l2bm) {
      StoreRows store;
      store.stream = draft.result_stream;
      store.l2bm = l2bm;
      store.transfers = s.own_rows(image, pass, l2bm, row, pass_rows);
      store.l1b_at = places;
      store.rows = rows;
      store.row_lw = s.out.row_lw();
      set_segments(store, s.out.order(), s.chunks_out);
      if (s.spread) set_spread_segments(store, s.chunks_out, tiling.rows);
      return store;
    };
    for (const int64_t row : passes.rows_of_tiles()) {
      const int64_t rows = std::min(s.tile_rows, tiling.rows - row);
      passes.load_for(number, row, load_piece);
      for (int64_t stack = 0; stack < s.stacks_out; ++stack) {
        WindowProduct product;
        product.precision = precision_;
        product.matrices = draft.matrices;
        product.matrices_at.base = load_matrices(draft, stack, draft_sizes);
        product.windows = passes.all()[number].windows;
        product.first_place = first_place(stack);
        product.places = s.matrix_places;
        product.window_rows = s.window_rows;
        product.pitch = s.pitch;
        product.kernel = problem_.window.kernel;
        product.dilation = problem_.window.dilation;
        product.stride = problem_.window.stride;
        product.sums = draft.sums;
        product.first_row = row;
        product.rows = rows;
        product.starts = starts;
        product.step = s.groups;
        draft.add(std::move(product));
        finish.rows = rows;
        finish.of_sums = {0, form_.result_lw};
        for (finish.chunk = stack * s.out_stack;
             finish.chunk < std::min(s.chunks_out, (stack + 1) * s.out_stack);
             ++finish.chunk, ++finish.of_sums.first)
          draft.add(FinishRows(finish));
      }
      const int64_t l2bm = result_at + row * s.out.row_lw();
      if (own_inputs) {
        draft.add(SumRows{rows, s.staged.lw(), l2bm, s.out.row_lw()});
      } else if (is_sum) {
        draft.add(store_rows(row, rows, 0, l2bm));
      }
      if (is_sum) draft.add(sums.sum(draft.result_stream, image, pass * s.pass_rows + row, rows, l2bm));
    }
    if (is_sum) continue;
    if (has_totals) {
      draft.add(beside(draft.result_stream, result_at, totals, 0, s.finish_rows));
      finish.sums = -1;
      finish.rows = s.finish_rows;
      finish.epilogue = problem_.contract.epilogue;
      finish.inputs = {{totals, true}};
      finish.inputs.insert(finish.inputs.end(), draft.inputs.begin(), draft.inputs.end());
      for (finish.chunk = 0; finish.chunk < s.chunks_out; ++finish.chunk) draft.add(FinishRows(finish));
    }
    // Where the operands were: they are in the PEs by now. Sums without an epilogue stay where they are.
    const bool stay = own_inputs && !has_totals;
    StoreRows store = store_rows(0, s.finish_rows, s.pass_rows, stay ? result_at : 0);
    if (stay) store.l1b_at.clear();
    draft.add(std::move(store));
  }
  if (is_sum) finish_sums(draft);
  return std::move(draft.program);
}

std::string RowsTiler::describe(const RowsTiling& tiling) const {
  const Sizes s = sizes(tiling);
  const char* share = tiling.share == L1bShare::kRows      ? "rows"
                      : tiling.share == L1bShare::kOutputs ? "channels"
                      : tiling.share == L1bShare::kInputs  ? "input channels"
                                                           : "sections of channels";
  if (tiling.out.is_everywhere)
    return fmt::format("{}: group, L2B input channels, L1B {}, {} passes of {} rows, {} of {} input chunks{}",
                       matrix_precision_name(precision_), share, s.passes * s.out.images(), tiling.rows,
                       s.chunks_out, s.chunks_in, order_name(problem_.out));
  return fmt::format(
      "{}: group {}, L2B {}, L1B {}, {} passes of {} rows, {} of {} input chunks; operand: group {}, L2B "
      "{}{}",
      matrix_precision_name(precision_), rows_or_channels(tiling.out.group_channels),
      rows_or_channels(tiling.out.l2b_channels), share, s.passes * s.out.images(), tiling.rows, s.chunks_out,
      has_sections() ? problem_.sections.in_chunks : s.chunks_in, rows_or_channels(tiling.in.group_channels),
      rows_or_channels(tiling.in.l2b_channels), order_name(problem_.out));
}

}  // namespace

std::vector<RowsOption> rows_options(const RowsProblem& problem, const isa::Chip& chip,
                                     MatrixPrecision precision, const std::string& name) {
  std::vector<RowsOption> options = lanes_options(problem, chip, precision, name);
  const auto tiler = std::make_shared<const RowsTiler>(problem, chip, precision);
  for (const RowsTiling& tiling : tiler->tilings())
    options.push_back({tiling.in, tiling.out.is_everywhere ? RowsSplit{} : tiling.out, tiling.cycles,
                       rows_candidate(tiler, tiling, name)});
  return options;
}

namespace {

/// How candidates are compared.
enum class Constants : uint8_t { kLoaded, kStay, kShareRoom };

/// For every image of the operand that there may be, the fastest that make one image of the result each: with
/// constants that are loaded, with those that stay, and where room for these costs others' loads.
std::vector<Candidate> rows_candidates_of(const RowsProblem& problem, const isa::Chip& chip,
                                          MatrixPrecision precision, const std::string& name) {
  const std::vector<RowsOption> options = rows_options(problem, chip, precision, name);
  const auto number = [](RowsSplit split) {
    return static_cast<size_t>(2 * split.group_channels + split.l2b_channels);
  };
  std::vector<Candidate> candidates;
  std::vector<bool> is_taken(options.size(), false);
  for (const Constants constants : {Constants::kLoaded, Constants::kStay, Constants::kShareRoom}) {
    if (constants == Constants::kShareRoom && !problem.constants_stay) continue;
    const auto cycles = [&](size_t k) {
      const Candidate& candidate = options[k].candidate;
      if (constants == Constants::kLoaded) return options[k].cycles;
      return options[k].cycles - candidate.constant_cycles +
             (constants == Constants::kShareRoom ? kRoomCycles * candidate.constant_lw : 0);
    };
    std::vector<size_t> order(options.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::ranges::stable_sort(order, {}, cycles);
    std::array<std::array<int, 4>, 8> seen{};
    std::array<int, 8> kept{};
    constexpr int kKept = 4;
    for (const size_t k : order) {
      const RowsOption& option = options[k];
      const size_t image = 2 * number(option.in) + (option.is_packed ? 1 : 0);
      if (seen.at(image).at(number(option.out))++ > 0 || kept.at(image) == kKept) continue;
      ++kept.at(image);
      if (!is_taken[k]) candidates.push_back(option.candidate);
      is_taken[k] = true;
    }
  }
  return candidates;
}

std::vector<Candidate> rows_candidates(const Layer& layer, const LayerGraph& graph, const isa::Chip& chip,
                                       const KernelOptions& options) {
  // What the quads of an L1B make must be what its quads take.
  if (chip.mab_per_l1b != kBlocksPerChunk * kBlocksPerChunk) return {};
  std::vector<Candidate> candidates;
  for (size_t number = 0;; ++number) {
    auto problem = rows_problem(std::get<ContractLayer>(layer.body), layer.outputs.at(0), graph, number);
    if (!problem) break;
    // Nothing on the chip makes a stream of halves.
    if (!problem->is_constant && options.precision == MatrixPrecision::kHalf) break;
    problem->constants_stay = options.constants_stay;
    const auto add_candidates = [&] {
      std::ranges::move(rows_candidates_of(*problem, chip, options.precision, layer.name),
                        std::back_inserter(candidates));
    };
    add_candidates();
    // A concatenation is read part by part, too.
    if (const auto parts = concatenated_picture(problem->in, graph); parts && problem->sections.count == 1) {
      problem->in = *parts;
      add_candidates();
    }
  }
  return candidates;
}

}  // namespace

Kernel contract_rows_kernel() {
  Kernel kernel;
  kernel.name = kRowsKernel;
  kernel.description = "convolutions and products with matrices of the host, on images of rows";
  kernel.kind = LayerKind::kContract;
  kernel.run = rows_candidates;
  return kernel;
}

}  // namespace kodama::compiler
