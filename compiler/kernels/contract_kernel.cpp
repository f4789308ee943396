#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <tuple>
#include <utility>

#include "compiler/kernels/builtin_kernels.h"
#include "compiler/kernels/contract_problem.h"
#include "compiler/kernels/lowering.h"
#include "compiler/kernels/predict.h"
#include "compiler/streams/stream_image.h"
#include "isa/arithmetic.h"
#include "isa/costs.h"
#include "isa/error.h"

/// "contract-mau": any Contract layer on the matrix units.
///
/// The layer's dims are grouped by role into batch, rows (of the matrix in the matrix registers), columns
/// (vectors streamed past it) and K; M may be the rows and N the columns or the other way round. Batch,
/// row blocks and columns are split over the levels of the tree; what a PE array does then is
///
///     for batch, for row tiles, for column tiles:
///       c = 0
///       for K tiles: load a, load b, c += a * b
///       c = epilogue(c, …); store c
///
/// with a in LM0, b in LM1 and c in GRF0 (a local memory can't accumulate: it needs two steps between a
/// write and a read). Where products are many, the K tiles are one operation (StreamProduct) that multiplies
/// a piece while the next is on its way, with c in both GRFs, b in both local memories and a on its way to
/// the matrix registers; MABs have row blocks of their own then, and b comes to all of them at once. An
/// operand that doesn't depend on what a level splits is broadcast there.
namespace kodama::compiler {

using isa::ceil_div;
using isa::round_up;
using isa::Space;
using layout::Factor;
using layout::Layout;
using layout::Level;
using layout::Transport;

namespace {

constexpr const char* kName = "contract-mau";
constexpr size_t kCandidatesKept = 4;
/// Products of a piece of a StreamProduct: at least this many make it worth while, and not more than these
/// stand in the program.
constexpr int64_t kMostPieceProducts = 640;
/// Steps of a piece that nothing stands beside, and cycles until the first piece is there.
constexpr int64_t kPieceFillSteps = 12;
constexpr int64_t kFirstPieceCycles = 400;
/// Transfers' cycles over what their words take: refreshes, opened rows, starts.
constexpr double kTransferSlack = 1.1;
/// Parts of a StreamProduct.
constexpr int64_t kMostParts = 4;
/// A StreamProduct brings constants, too, where it takes less than so many times what its products do, or so
/// many times less than what loads them.
constexpr double kConstantsPay = 2;
/// LW of a local memory left to constants and temporaries.
constexpr int64_t kStreamReserveLw = 64;

/// How many ways each axis is split on one level.
using Split = std::array<int64_t, kAxisCount>;
/// Levels of the tree that the work is split over, outermost first.
enum TreeLevel : uint8_t { kGroupLevel, kL2bLevel, kL1bLevel, kMabLevel, kTreeLevels };
using Splits = std::array<Split, kTreeLevels>;

/// Everything that a candidate decides.
struct Tiling {
  Splits splits{};
  int64_t batches = 1;                    ///< per worker
  int64_t row_blocks = 1, row_tiles = 1;  ///< blocks of R rows per tile, tiles per worker
  int64_t columns = 4, column_tiles = 1;  ///< columns per tile, tiles per worker
  int64_t inner_lw = 1, inner_tiles = 1;  ///< LW of the inner dimension per tile, tiles
  bool streamed = false;                  ///< K tiles are a StreamProduct
  int64_t parts = 1;                      ///< of a StreamProduct's row blocks
  int64_t store_chunks = 0;               ///< of them in a round
  int64_t store_chunk = 0;  ///< numbers of results stored at a time beside the next tile; 0: all, behind
  int64_t cycles = 0;
};

/// The mode of each level for data that depends on `depends`. `dealt`: what several groups get is dealt over
/// all groups' DRAM.
Transport transport_for(const Splits& splits, const AxisSet& depends, const isa::Chip& chip,
                        bool dealt = false) {
  const auto differs = [&](TreeLevel level) {
    bool result = false;
    for (size_t axis = 0; axis < kAxisCount; ++axis) {
      result = result || (depends[axis] && splits[level][axis] > 1);
    }
    return result;
  };
  const bool exchanged = dealt && !differs(kGroupLevel) && exchange_phases(chip) > 0;
  const auto l2b = differs(kL2bLevel) ? exchanged ? layout::L2bMode::kExchanged : layout::L2bMode::kDistribute
                   : differs(kGroupLevel) ? layout::L2bMode::kBroadcastInGroup
                   : dealt                ? layout::L2bMode::kBroadcastDealt
                                          : layout::L2bMode::kBroadcast;
  return {chip, l2b, differs(kL1bLevel) ? layout::L1bMode::kDistribute : layout::L1bMode::kBroadcast,
          differs(kMabLevel) ? layout::MabMode::kDistribute : layout::MabMode::kBroadcastMab};
}

/// load_cycles and store_cycles, remembered: the search asks for few different ones many times.
class CostTable {
 public:
  explicit CostTable(const isa::Chip& chip) : chip_(chip) {}
  int64_t load(const Transport& transport, int64_t numbers) { return get(transport, numbers, true); }
  int64_t store(const Transport& transport, int64_t numbers) { return get(transport, numbers, false); }

 private:
  int64_t get(const Transport& transport, int64_t numbers, bool to_chip) {
    const auto key =
        std::make_tuple(transport.l2b_mode(), transport.l1b_mode(), transport.mab_mode(), to_chip, numbers);
    const auto found = known_.find(key);
    if (found != known_.end()) return found->second;
    const int64_t cycles =
        to_chip ? load_cycles(transport, numbers, chip_, true) : store_cycles(transport, numbers, chip_);
    known_.emplace(key, cycles);
    return cycles;
  }
  const isa::Chip& chip_;
  std::map<std::tuple<layout::L2bMode, layout::L1bMode, layout::MabMode, bool, int64_t>, int64_t> known_;
};

/// Steps of one ProductTile: per block the products or the write of the next block, whichever is longer.
int64_t product_steps(const Tiling& tiling, const MatrixForm& form) {
  const int64_t groups = tiling.columns / isa::kCyclesPerStep;
  const int64_t blocks = tiling.row_blocks * tiling.inner_lw * form.products;
  constexpr int64_t kFill = 8;
  return blocks * std::max(groups, form.write_steps) +
         kFill * std::min(tiling.row_blocks, tiling.inner_lw * form.products);
}

bool has_epilogue(const ContractLayer& contract) {
  return contract.epilogue.nodes().size() > 1 || !contract.epilogue_inputs.empty();
}

/// Numbers from one tile of a stream to the next.
int64_t tile_pitch(int64_t tile_lw, const Transport& transport) {
  return round_up(tile_lw, transport.granule());
}

/// One problem on one chip in one precision: tilings, costs, layouts and tile programs.
class Tiler {
 public:
  Tiler(const ContractProblem& problem, const LayerGraph& graph, const isa::Chip& chip,
        MatrixPrecision precision, CostTable& costs)
      : problem_(problem), chip_(chip), precision_(precision), form_(matrix_form(precision)), costs_(costs) {
    const auto element_of = [&](const TensorAccess& access) {
      return precision == MatrixPrecision::kHalf && graph.is_packed(access.tensor) ? StreamElement::kHalf
                                                                                   : StreamElement::kFloat;
    };
    row_element_ = element_of(problem.row_operand());
    column_element_ = element_of(problem.column_operand());
    row_depends_ = dependence(problem.row_operand(), problem);
    column_depends_ = dependence(problem.column_operand(), problem);
    for (const TensorAccess& access : problem.contract->epilogue_inputs) {
      epilogue_depends_.push_back(dependence(access, problem));
    }
    // A quarter of GRF0 stays for constants and temporaries; so does a little of the local memories.
    accumulator_lw_ = chip.memory.grf_words / isa::kWordsPerLong * 3 / 4;
    const auto inputs = static_cast<int64_t>(epilogue_depends_.size());
    const int64_t reserve = 64 + ceil_div(inputs, 2) * accumulator_lw_;
    const int64_t local_lw = chip.memory.lm_words / isa::kWordsPerLong;
    // With very many epilogue inputs the accumulators shrink instead.
    if (reserve > local_lw / 2 && inputs > 0) {
      accumulator_lw_ = std::max<int64_t>(local_lw / 2 / ceil_div(inputs, 2), 4 * form_.result_lw);
    }
    operand_lw_ = local_lw - std::min(reserve, local_lw / 2);
  }

  /// All tilings worth considering.
  std::vector<Tiling> tilings() {
    Splits splits;
    const std::array<int64_t, kAxisCount> needs = {
        problem_.extents[kBatchAxis], ceil_div(problem_.extents[kRowAxis], form_.rows),
        ceil_div(problem_.extents[kColumnAxis], isa::kCyclesPerStep)};
    split_level(0, splits, needs);
    return std::move(tilings_);
  }

  std::vector<StreamPlacement> placements(const Tiling& tiling) const;
  TileProgram program(const Tiling& tiling, const std::string& name,
                      const std::vector<StreamPlacement>& placements,
                      const std::vector<int64_t>& dram_addresses) const;
  std::string describe(const Tiling& tiling) const;
  std::string split_name(const Tiling& tiling) const;

 private:
  static constexpr std::array<Level, kTreeLevels> kLevels = {Level::kL2b, Level::kL2b, Level::kL1b,
                                                             Level::kMab};

  int64_t level_count(size_t level) const {
    const std::array<int64_t, kTreeLevels> counts = {chip_.groups, chip_.l2b_per_group, chip_.l1b_per_l2b,
                                                     chip_.mab_per_l1b};
    return counts.at(level);
  }
  /// Stride of a level's coordinate in its Level.
  int64_t level_unit(size_t level) const { return level == kGroupLevel ? chip_.l2b_per_group : 1; }

  /// Enumerates the splits of `level` and of those inside it; `needs` is what is left to split.
  void split_level(size_t level, Splits& splits, const std::array<int64_t, kAxisCount>& needs) {
    if (level == kTreeLevels) {
      tile(splits);
      return;
    }
    const int64_t count = level_count(level);
    const auto descend = [&](const Split& split) {
      splits[level] = split;
      std::array<int64_t, kAxisCount> left = needs;
      for (size_t axis = 0; axis < kAxisCount; ++axis) left[axis] = ceil_div(needs[axis], split[axis]);
      split_level(level + 1, splits, left);
    };
    // Everyone does the same work: good when transfers cost more than products.
    descend({1, 1, 1});
    if (count == 1) return;
    for (int64_t batch = 1; batch <= count; ++batch) {
      if (count % batch != 0 || (batch > 1 && needs[kBatchAxis] == 1)) continue;
      for (int64_t row = 1; row <= count / batch; ++row) {
        if (count / batch % row != 0 || (row > 1 && needs[kRowAxis] == 1)) continue;
        const int64_t column = count / batch / row;
        if (column > 1 && needs[kColumnAxis] == 1) continue;
        descend({batch, row, column});
      }
    }
  }

  /// Enumerates tile sizes for given splits.
  void tile(const Splits& splits) {
    std::array<int64_t, kAxisCount> workers;
    workers.fill(1);
    for (const Split& split : splits) {
      for (size_t axis = 0; axis < kAxisCount; ++axis) workers[axis] *= split[axis];
    }
    Tiling tiling;
    tiling.splits = splits;
    tiling.batches = ceil_div(problem_.extents[kBatchAxis], workers[kBatchAxis]);
    const int64_t row_blocks = ceil_div(ceil_div(problem_.extents[kRowAxis], form_.rows), workers[kRowAxis]);
    const int64_t columns =
        round_up(ceil_div(problem_.extents[kColumnAxis], workers[kColumnAxis]), isa::kCyclesPerStep);
    const int64_t inner = ceil_div(problem_.k, form_.inner_per_lw);
    int64_t last_columns = 0;
    for (int64_t wanted = isa::kCyclesPerStep;; wanted *= 2) {
      const int64_t most = accumulator_lw_ / form_.result_lw / isa::kCyclesPerStep * isa::kCyclesPerStep;
      tiling.column_tiles = ceil_div(columns, std::min({wanted, columns, most}));
      tiling.columns = round_up(ceil_div(columns, tiling.column_tiles), isa::kCyclesPerStep);
      if (tiling.columns != last_columns) {
        last_columns = tiling.columns;
        int64_t blocks = std::min(row_blocks, accumulator_lw_ / (tiling.columns * form_.result_lw));
        blocks = std::min(blocks, operand_lw_ / form_.rows);
        if (blocks > 0 && tiling.columns <= operand_lw_) {
          tiling.row_tiles = ceil_div(row_blocks, blocks);
          tiling.row_blocks = ceil_div(row_blocks, tiling.row_tiles);
          const int64_t fits =
              std::min({inner, operand_lw_ / (tiling.row_blocks * form_.rows), operand_lw_ / tiling.columns});
          tiling.inner_tiles = ceil_div(inner, fits);
          tiling.inner_lw = ceil_div(inner, tiling.inner_tiles);
          tiling.cycles = cost(tiling);
          tilings_.push_back(tiling);
        }
      }
      if (wanted >= std::min(columns, most)) break;
    }
    stream(tiling, row_blocks, columns, inner);
  }

  /// Tilings whose K tiles are a StreamProduct.
  void stream(Tiling tiling, int64_t row_blocks, int64_t columns, int64_t inner) {
    if (form_.products != 1) return;
    if (tiling.splits[kMabLevel] != Split{1, chip_.mab_per_l1b, 1}) return;
    tiling.streamed = true;
    for (tiling.column_tiles = 1; tiling.column_tiles <= columns / isa::kCyclesPerStep;
         ++tiling.column_tiles) {
      tiling.columns = round_up(ceil_div(columns, tiling.column_tiles), isa::kCyclesPerStep);
      if (tiling.columns * form_.result_lw > stream_sums_lw()) continue;
      // An epilogue works on sums in the register files.
      const int64_t most_parts = has_epilogue(*problem_.contract) ? 1 : kMostParts;
      const int64_t most_blocks = stream_sums_lw() / (tiling.columns * form_.result_lw) * 2;
      for (tiling.parts = 1; tiling.parts <= most_parts; tiling.parts *= 2) {
        tiling.row_tiles = ceil_div(row_blocks, tiling.parts * most_blocks);
        if (tiling.parts > 1 && ceil_div(row_blocks, tiling.row_tiles) <= tiling.parts / 2 * most_blocks)
          continue;
        tiling.row_blocks = round_up(ceil_div(row_blocks, tiling.row_tiles), tiling.parts);
        if (first_blocks(tiling) * tiling.columns * form_.result_lw % result_transport(tiling).granule() == 0)
          stream_pieces(tiling, inner);
      }
      if (tiling.columns <= columns / 8) break;
    }
  }
  /// The same, with all that is left to decide.
  void stream_pieces(Tiling tiling, int64_t inner) {
    const int64_t local = chip_.memory.lm_words / isa::kWordsPerLong - kStreamReserveLw -
                          std::ssize(epilogue_depends_) * 2 * stream_sums_lw();
    const bool has_parts = tiling.parts > 1;
    // Where there are parts, sums come from and go to the memory that vectors go to.
    for (tiling.inner_lw = has_parts ? tiling.parts : 1; tiling.inner_lw <= std::max(inner, tiling.parts);
         tiling.inner_lw *= 2) {
      tiling.inner_tiles = ceil_div(inner, tiling.inner_lw);
      if (has_parts) tiling.inner_tiles = round_up(tiling.inner_tiles, 2);
      const int64_t share = row_pitch(tiling) * row_transport(tiling).l2bm_lw_per_number() +
                            column_pitch(tiling) * column_transport(tiling).l2bm_lw_per_number();
      const int64_t room = chip_.memory.l2bm_lw - StreamProduct::kSharesInL2bm * share;
      const int64_t results = has_epilogue(*problem_.contract) ? 0 : result_tile_lw(tiling);
      const int64_t in_lm = has_parts ? 2 * column_buffer_lw(tiling) + result_tile_lw(tiling) + results / 2
                                      : column_buffer_lw(tiling) + results;
      if (room < 0 || in_lm > local ||
          (tiling.inner_lw > tiling.parts &&
           result_tile_lw(tiling) / isa::kCyclesPerStep * tiling.inner_lw > kMostPieceProducts))
        break;
      tiling.store_chunk = 0;
      if (results > 0) store_beside(tiling, room);
      tiling.cycles = stream_cost(tiling);
      tilings_.push_back(tiling);
    }
  }
  /// How results of a tile are stored beside the next one, if they can be.
  void store_beside(Tiling& tiling, int64_t l2bm_room) const {
    const int64_t rounds = StreamProduct::store_rounds(tiling.inner_tiles, tiling.parts);
    const int64_t count = result_tile_lw(tiling) / (tiling.parts > 1 ? 2 : 1);
    const Transport transport = result_transport(tiling);
    if (iterations(tiling, Nest::kColumns) == 1) return;
    for (tiling.store_chunk = transport.granule();
         tiling.store_chunk * transport.l2bm_lw_per_number() <= l2bm_room &&
         tiling.store_chunk * transport.l1bm_lw_per_number() <= chip_.memory.l1bm_lw / 4;
         tiling.store_chunk += transport.granule()) {
      for (tiling.store_chunks = 1; tiling.store_chunks <= StreamProduct::most_chunks(tiling.parts);
           ++tiling.store_chunks) {
        const int64_t at_once = tiling.store_chunk * tiling.store_chunks;
        if (count % at_once == 0 && count / at_once <= rounds) return;
      }
    }
    tiling.store_chunk = 0;
  }

  /// LW of sums in a register file, beside what is on its way to the PEs.
  int64_t stream_sums_lw() const { return chip_.memory.grf_words / isa::kWordsPerLong - kStreamReserveLw; }
  /// Row blocks (of a part) whose sums are in the first register file.
  int64_t first_blocks(const Tiling& tiling) const {
    const int64_t row_blocks = tiling.row_blocks / tiling.parts;
    return row_blocks * tiling.columns * form_.result_lw <= stream_sums_lw() ? row_blocks
                                                                             : ceil_div(row_blocks, 2);
  }

  int64_t stream_cost(const Tiling& tiling) {
    const int64_t tiles = iterations(tiling, Nest::kColumns);
    const int64_t blocks = tiling.row_blocks * tiling.inner_lw;
    int64_t l2bm_steps = 0, l1bm_steps = 0, dram_lw = 0;
    // What comes with a piece. Transfers follow one another: the first in a port has all of it. What L2Bs
    // exchange needs little of DRAMs, where others go on meanwhile.
    double transfer_cycles = 0;
    int64_t starts = 0;  // until the last is there
    bool has_exchange = false;
    for (const auto& [transport, numbers, pitch] :
         {std::tuple(row_transport(tiling), row_tile_lw(tiling), row_pitch(tiling)),
          std::tuple(column_transport(tiling), column_tile_lw(tiling), column_pitch(tiling))}) {
      const int64_t lw = pitch * tiling.parts * transport.l2bm_lw_per_number();
      const auto in_dram = static_cast<double>(lw * transport.parts_per_group() / transport.dealt_over());
      const bool exchanged = transport.l2b_mode() == layout::L2bMode::kExchanged;
      transfer_cycles += std::max(static_cast<double>(lw) / chip_.transfer.l2bm_mv_lw_per_cycle,
                                  in_dram / chip_.transfer.dram_lw_per_cycle);
      const int64_t each = exchanged ? (exchange_phases(chip_) + 1) * chip_.l2b_count() : 1;
      starts += each * chip_.transfer.issue_interval_steps * isa::kCyclesPerStep;
      has_exchange = has_exchange || exchanged;
      if (exchanged) starts += chip_.transfer.startup_cycles + 2 * chip_.transfer.group_hop_cycles;
      l2bm_steps +=
          lw / transport.l2bm_lw_per_number() * transport.l1bm_lw_per_number() / l2bm_step_lw(transport);
      l1bm_steps += ceil_div(numbers, isa::kCyclesPerStep);
    }
    const Transport results = result_transport(tiling);
    const int64_t pipe = tiling.store_chunk > 0 ? innermost_tiles(tiling) : 1;  // tiles of which one waits
    const int64_t store_lw =
        result_tile_lw(tiling) * results.l2bm_lw_per_number() * results.parts_per_group();
    if (pipe > 1) dram_lw += store_lw * (pipe - 1) / pipe / tiling.inner_tiles;
    const int64_t products = blocks * std::max(tiling.columns / isa::kCyclesPerStep, form_.write_steps);
    const int64_t steps = std::max({products, l2bm_steps, l1bm_steps}) + kPieceFillSteps * tiling.parts;
    const double transfers =
        (transfer_cycles + static_cast<double>(dram_lw) / chip_.transfer.dram_lw_per_cycle) * kTransferSlack +
        static_cast<double>(tiling.parts * chip_.transfer.issue_interval_steps * isa::kCyclesPerStep);
    const int64_t piece =
        std::max({steps * isa::kCyclesPerStep, static_cast<int64_t>(transfers), tiling.parts * starts});
    const int64_t vectors = result_tile_lw(tiling) / isa::kCyclesPerStep;
    // Phases of an exchange are waited for soon, so a store beside holds up all.
    const int64_t store = costs_.store(results, result_tile_lw(tiling));
    int64_t cycles = tiles * (tiling.inner_tiles * piece + kFirstPieceCycles) +
                     (has_exchange ? tiles : tiles / pipe) * store;
    for (const AxisSet& depends : epilogue_depends_)
      cycles += tiles * costs_.load(transport_for(tiling.splits, depends, chip_), result_tile_lw(tiling));
    if (has_epilogue(*problem_.contract))
      cycles += tiles * vectors * predicted_scalar_cycles(problem_.contract->epilogue);
    return cycles;
  }
  /// Iterations of the innermost loop of tiles that has more than one.
  static int64_t innermost_tiles(const Tiling& tiling) {
    return tiling.column_tiles > 1 ? tiling.column_tiles
           : tiling.row_tiles > 1  ? tiling.row_tiles
                                   : tiling.batches;
  }

  int64_t row_tile_lw(const Tiling& tiling) const {
    return row_buffer_lw(tiling) * form_.stream_lw_of(row_element_);
  }
  int64_t column_tile_lw(const Tiling& tiling) const {
    return column_buffer_lw(tiling) * form_.stream_lw_of(column_element_);
  }
  /// LW of them in a local memory.
  int64_t row_buffer_lw(const Tiling& tiling) const {
    return tiling.row_blocks * tiling.inner_lw * form_.rows;
  }
  int64_t column_buffer_lw(const Tiling& tiling) const { return tiling.inner_lw * tiling.columns; }
  int64_t result_tile_lw(const Tiling& tiling) const {
    return tiling.row_blocks * tiling.columns * form_.result_lw;
  }

  Transport row_transport(const Tiling& tiling) const {
    return transport_for(tiling.splits, row_depends_, chip_, tiling.streamed && chip_.groups > 1);
  }
  Transport column_transport(const Tiling& tiling) const {
    return transport_for(tiling.splits, column_depends_, chip_, tiling.streamed && chip_.groups > 1);
  }
  /// Of an operand, what comes at a time: all of a K tile, or a share of a StreamProduct.
  int64_t row_share_lw(const Tiling& tiling) const { return row_tile_lw(tiling) / tiling.parts; }
  int64_t column_share_lw(const Tiling& tiling) const { return column_tile_lw(tiling) / tiling.parts; }
  int64_t row_pitch(const Tiling& tiling) const {
    return tile_pitch(row_share_lw(tiling), row_transport(tiling));
  }
  int64_t column_pitch(const Tiling& tiling) const {
    return tile_pitch(column_share_lw(tiling), column_transport(tiling));
  }
  /// Results differ wherever something is split.
  Transport result_transport(const Tiling& tiling) const {
    return transport_for(tiling.splits, {true, true, true}, chip_);
  }

  /// Where a load stands in the nest batch > row tiles > column tiles > K tiles.
  enum class Nest : uint8_t { kBatch, kRows, kColumns, kInner };
  static Nest row_load_at(const Tiling& tiling) {
    return tiling.inner_tiles > 1 ? Nest::kInner : Nest::kRows;
  }
  static Nest column_load_at(const Tiling& tiling) {
    if (tiling.inner_tiles > 1) return Nest::kInner;
    return tiling.column_tiles > 1 ? Nest::kColumns : Nest::kBatch;
  }
  static int64_t iterations(const Tiling& tiling, Nest nest) {
    int64_t count = tiling.batches;
    if (nest >= Nest::kRows) count *= tiling.row_tiles;
    if (nest >= Nest::kColumns) count *= tiling.column_tiles;
    if (nest >= Nest::kInner) count *= tiling.inner_tiles;
    return count;
  }

  int64_t cost(const Tiling& tiling) {
    const int64_t tiles = iterations(tiling, Nest::kColumns);
    int64_t cycles =
        iterations(tiling, row_load_at(tiling)) * costs_.load(row_transport(tiling), row_tile_lw(tiling)) +
        iterations(tiling, column_load_at(tiling)) *
            costs_.load(column_transport(tiling), column_tile_lw(tiling)) +
        tiles * costs_.store(result_transport(tiling), result_tile_lw(tiling));
    for (const AxisSet& depends : epilogue_depends_) {
      cycles += tiles * costs_.load(transport_for(tiling.splits, depends, chip_), result_tile_lw(tiling));
    }
    int64_t steps = tiles * tiling.inner_tiles * product_steps(tiling, form_);
    const int64_t vectors = result_tile_lw(tiling) / isa::kCyclesPerStep;
    steps += tiles * vectors;  // the fill
    if (has_epilogue(*problem_.contract)) {
      cycles += tiles * vectors * predicted_scalar_cycles(problem_.contract->epilogue);
    }
    return cycles + steps * isa::kCyclesPerStep;
  }

  /// Factors of an axis' digits on the levels of the tree.
  std::vector<Factor> split_factors(const Tiling& tiling, ContractAxis axis) const {
    std::vector<Factor> factors;
    for (size_t level = 0; level < kTreeLevels; ++level) {
      const Split& split = tiling.splits[level];
      int64_t stride = level_unit(level);
      for (size_t inner = axis + 1; inner < kAxisCount; ++inner) stride *= split[inner];
      if (split[axis] > 1) factors.push_back({split[axis], kLevels.at(level), stride});
    }
    return factors;
  }
  /// Copies over the levels that an operand without `axis` needs, and over those that nothing splits.
  void replicate(const Tiling& tiling, ContractAxis axis, std::vector<Factor>& replication) const {
    const std::vector<Factor> factors = split_factors(tiling, axis);
    replication.insert(replication.end(), factors.begin(), factors.end());
  }
  std::vector<Factor> unsplit_levels(const Tiling& tiling) const {
    std::vector<Factor> factors;
    for (size_t level = 0; level < kTreeLevels; ++level) {
      if (tiling.splits[level] == Split{1, 1, 1} && level_count(level) > 1) {
        factors.push_back({level_count(level), kLevels.at(level), level_unit(level)});
      }
    }
    return factors;
  }

  const ContractProblem& problem_;
  const isa::Chip& chip_;
  MatrixPrecision precision_;
  const MatrixForm& form_;
  CostTable& costs_;
  StreamElement row_element_ = StreamElement::kFloat, column_element_ = StreamElement::kFloat;
  AxisSet row_depends_{}, column_depends_{};
  std::vector<AxisSet> epilogue_depends_;
  int64_t accumulator_lw_ = 0;
  int64_t operand_lw_ = 0;
  std::vector<Tiling> tilings_;
};

Factor address(int64_t size, int64_t stride) {
  return {size, Level::kAddress, stride};
}
void append(std::vector<Factor>& factors, const std::vector<Factor>& more) {
  factors.insert(factors.end(), more.begin(), more.end());
}

/// Placements in the order contract a, contract b, epilogue inputs, output.
std::vector<StreamPlacement> Tiler::placements(const Tiling& tiling) const {
  const auto make = [&](std::string name, const TensorAccess& access, const Transport& transport,
                        int64_t length) {
    StreamPlacement placement;
    placement.name = std::move(name);
    placement.access = access;
    placement.extents = problem_.all_extents;
    placement.transport = transport;
    placement.length_lw = length;
    return placement;
  };

  const Transport row_road = row_transport(tiling);
  const int64_t row_pitch = this->row_pitch(tiling);
  const int64_t row_length = tiling.row_tiles * tiling.inner_tiles * tiling.parts * row_pitch;
  StreamPlacement row_stream =
      make(problem_.swapped ? "b" : "a", problem_.row_operand(), row_road, tiling.batches * row_length);
  {
    const int64_t stream_lw = form_.stream_lw_of(row_element_);
    row_stream.element = row_element_;
    std::vector<Factor> batch = split_factors(tiling, kBatchAxis);
    append(batch, {address(tiling.batches, row_length)});
    std::vector<Factor> rows = split_factors(tiling, kRowAxis);
    append(rows, {address(tiling.row_tiles, tiling.inner_tiles * tiling.parts * row_pitch),
                  address(tiling.parts, row_pitch),
                  address(tiling.row_blocks / tiling.parts, tiling.inner_lw * form_.rows * stream_lw),
                  address(form_.rows, stream_lw)});
    std::vector<Factor> inner = {address(tiling.inner_tiles, tiling.parts * row_pitch),
                                 address(tiling.inner_lw, form_.rows * stream_lw)};
    append(inner, form_.inner_factors_of(row_element_));
    std::vector<Factor> replication = unsplit_levels(tiling);
    replicate(tiling, kColumnAxis, replication);
    row_stream.axis_dims = {problem_.dims[kBatchAxis], problem_.dims[kRowAxis], problem_.k_dims};
    row_stream.layout = Layout({batch, rows, inner}, layout::Memory::kLm0, replication);
  }

  const Transport column_road = column_transport(tiling);
  const int64_t column_pitch = this->column_pitch(tiling);
  const int64_t column_length = tiling.column_tiles * tiling.inner_tiles * tiling.parts * column_pitch;
  StreamPlacement column_stream = make(problem_.swapped ? "a" : "b", problem_.column_operand(), column_road,
                                       tiling.batches * column_length);
  {
    const int64_t stream_lw = form_.stream_lw_of(column_element_);
    column_stream.element = column_element_;
    std::vector<Factor> batch = split_factors(tiling, kBatchAxis);
    append(batch, {address(tiling.batches, column_length)});
    std::vector<Factor> columns = split_factors(tiling, kColumnAxis);
    append(columns, {address(tiling.column_tiles, tiling.inner_tiles * tiling.parts * column_pitch),
                     address(tiling.columns, stream_lw)});
    std::vector<Factor> inner = {address(tiling.inner_tiles, tiling.parts * column_pitch),
                                 address(tiling.parts, column_pitch),
                                 address(tiling.inner_lw / tiling.parts, tiling.columns * stream_lw)};
    append(inner, form_.inner_factors_of(column_element_));
    std::vector<Factor> replication = unsplit_levels(tiling);
    replicate(tiling, kRowAxis, replication);
    column_stream.axis_dims = {problem_.dims[kBatchAxis], problem_.dims[kColumnAxis], problem_.k_dims};
    column_stream.layout = Layout({batch, columns, inner}, layout::Memory::kLm1, replication);
  }

  std::vector<StreamPlacement> list;
  list.push_back(problem_.swapped ? column_stream : row_stream);
  list.push_back(problem_.swapped ? row_stream : column_stream);

  // The result, and what the epilogue reads beside it, in the order of the accumulators.
  const auto accumulator_stream = [&](std::string name, const TensorAccess& access,
                                      const Transport& transport, layout::Memory memory) {
    const int64_t pitch = tile_pitch(result_tile_lw(tiling), transport);
    const int64_t length = tiling.row_tiles * tiling.column_tiles * pitch;
    StreamPlacement stream = make(std::move(name), access, transport, tiling.batches * length);
    std::vector<Factor> batch = split_factors(tiling, kBatchAxis);
    append(batch, {address(tiling.batches, length)});
    std::vector<Factor> rows = split_factors(tiling, kRowAxis);
    append(rows, {address(tiling.row_tiles, tiling.column_tiles * pitch)});
    // StreamProduct: even parts first.
    if (tiling.parts > 1)
      append(rows, {address(tiling.parts / 2, result_tile_lw(tiling) / tiling.parts),
                    address(2, result_tile_lw(tiling) / 2)});
    append(rows, {address(tiling.row_blocks / tiling.parts, tiling.columns * form_.result_lw)});
    append(rows, form_.row_factors);
    std::vector<Factor> columns = split_factors(tiling, kColumnAxis);
    append(columns, {address(tiling.column_tiles, pitch), address(tiling.columns, form_.result_lw)});
    stream.axis_dims = {problem_.dims[kBatchAxis], problem_.dims[kRowAxis], problem_.dims[kColumnAxis]};
    stream.layout = Layout({batch, rows, columns}, memory, unsplit_levels(tiling));
    return stream;
  };
  for (size_t k = 0; k < epilogue_depends_.size(); ++k) {
    list.push_back(accumulator_stream(fmt::format("x{}", k), problem_.contract->epilogue_inputs[k],
                                      transport_for(tiling.splits, epilogue_depends_[k], chip_),
                                      layout::Memory::kLm0));
    // Nobody reads what it makes of that.
    list.back().layout.set_padding(layout::Padding::kUndefined);
  }
  TensorAccess output;
  output.tensor = problem_.output;
  output.map = problem_.contract->output;
  StreamPlacement result = accumulator_stream("y", output, result_transport(tiling),
                                              tiling.streamed ? layout::Memory::kLm1 : layout::Memory::kGrf0);
  result.is_output = true;
  result.layout.set_padding(layout::Padding::kUndefined);
  list.push_back(std::move(result));
  return list;
}

/// Tiles of a nest of loops, one `counts` each, whose indices have a stride for each with more than one
/// iteration: in the innermost of these, a tile's results are stored while the next one is made.
std::vector<TileNode> piped(const StreamProduct& product, const StreamProduct::Results& store,
                            const std::array<int64_t, 3>& counts) {
  std::vector<int64_t> loops;
  std::ranges::copy_if(counts, std::back_inserter(loops), [](int64_t count) { return count > 1; });
  const int64_t count = loops.back();
  // Tile `number` or, in a loop, those from it on.
  const auto at = [](TileIndex index, int64_t number, bool in_loop) {
    index.base += number * index.strides.back();
    if (!in_loop) index.strides.pop_back();
    return index;
  };
  const auto tile = [&](int64_t number, bool in_loop) {
    StreamProduct result = product;
    result.a.from = at(product.a.from, number, in_loop);
    result.b.from = at(product.b.from, number, in_loop);
    if (number > 0) {
      result.store = store;
      result.store->to = at(store.to, number - 1, in_loop);
    }
    return result;
  };
  std::vector<TileNode> body{{tile(0, false)}};
  if (count > 2) {
    body.push_back({TileLoop{"tile", count - 1, {{tile(1, true)}}}});
  } else {
    body.push_back({tile(1, false)});
  }
  for (size_t k = 0; k < store.buffers.size(); ++k) {
    if (store.buffers.at(k) < 0) continue;
    TileIndex to = at(store.to, count - 1, false);
    to.base += static_cast<int64_t>(k) * store.count;
    body.push_back({StoreTile{store.buffers.at(k), {}, store.stream, to, store.count}});
  }
  for (size_t loop = loops.size() - 1; loop-- > 0;) {
    std::vector<TileNode> inside = std::move(body);
    body = {{TileLoop{"outer tile", loops[loop], std::move(inside)}}};
  }
  return body;
}

TileProgram Tiler::program(const Tiling& tiling, const std::string& name,
                           const std::vector<StreamPlacement>& placements,
                           const std::vector<int64_t>& dram_addresses) const {
  isa::check_internal(placements.size() == dram_addresses.size(), kName, "{} addresses for {} streams",
                      dram_addresses.size(), placements.size());
  TileProgram program;
  program.name = name;
  for (size_t k = 0; k < placements.size(); ++k) {
    program.streams.push_back(
        {placements[k].name, placements[k].transport, placements[k].length_lw, dram_addresses[k]});
  }
  const int row_stream = problem_.swapped ? 1 : 0;
  const int column_stream = 1 - row_stream;
  const int result_stream = static_cast<int>(placements.size()) - 1;
  const auto pitch = [&](int stream, int64_t tile_lw) {
    return tile_pitch(tile_lw, program.streams[static_cast<size_t>(stream)].transport);
  };

  const auto buffer = [&](std::string buffer_name, int64_t lw, scheduler::HomeSet homes) {
    program.buffers.push_back({std::move(buffer_name), lw, homes});
    return static_cast<int>(program.buffers.size()) - 1;
  };
  const int row_buffer = tiling.streamed ? -1
                                         : buffer(placements[static_cast<size_t>(row_stream)].name,
                                                  row_buffer_lw(tiling), isa::space_bit(Space::kLm0));
  const std::string& column_name = placements[static_cast<size_t>(column_stream)].name;
  const int64_t vectors_lw = column_buffer_lw(tiling) * (tiling.parts > 1 ? 2 : 1);
  const int column_buffer = buffer(column_name, vectors_lw, isa::space_bit(Space::kLm1));
  const int64_t result_lw = result_tile_lw(tiling);
  /// Sums, in one register file or two.
  struct Sums {
    int buffer = -1;
    int64_t first = 0, count = 0;  ///< LW of a tile
  };
  std::vector<Sums> sums;
  const int64_t sums_lw = result_lw / tiling.parts;
  const int64_t first_lw =
      tiling.streamed ? first_blocks(tiling) * tiling.columns * form_.result_lw : result_lw;
  sums.push_back({buffer("sum", first_lw, isa::space_bit(Space::kGrf0)), 0, first_lw});
  if (first_lw < sums_lw)
    sums.push_back(
        {buffer("sum", sums_lw - first_lw, isa::space_bit(Space::kGrf1)), first_lw, sums_lw - first_lw});

  // Strides in the order batch, row tile, column tile, K tile; loops of one iteration are left out.
  const std::array<int64_t, 4> counts = {tiling.batches, tiling.row_tiles, tiling.column_tiles,
                                         tiling.inner_tiles};
  const auto index = [&](Nest nest, const std::array<int64_t, 4>& strides) {
    TileIndex at;
    for (size_t loop = 0; loop <= static_cast<size_t>(nest); ++loop) {
      if (counts.at(loop) > 1) at.strides.push_back(strides.at(loop));
    }
    return at;
  };
  std::array<std::vector<TileNode>, 4> bodies;
  const auto add = [&](Nest nest, auto op) {
    bodies.at(static_cast<size_t>(nest)).push_back({std::move(op)});
  };
  const auto wrap = [&](Nest nest, const std::string& loop_name) {
    const auto at = static_cast<size_t>(nest);
    std::vector<TileNode>& outer = bodies.at(at - 1);
    if (counts.at(at) > 1) {
      outer.push_back({TileLoop{loop_name, counts.at(at), std::move(bodies.at(at))}});
    } else {
      for (TileNode& node : bodies.at(at)) outer.push_back(std::move(node));
    }
  };

  // Operands: each load as far out as it may be.
  const int64_t row_pitch = this->row_pitch(tiling);
  const Nest row_nest = tiling.streamed ? Nest::kColumns : row_load_at(tiling);
  const int64_t row_tile = tiling.inner_tiles * tiling.parts * row_pitch;
  const TileIndex row_from = index(row_nest, {tiling.row_tiles * row_tile, row_tile, 0, row_pitch});
  const int64_t column_pitch = this->column_pitch(tiling);
  const Nest column_nest = tiling.streamed ? Nest::kColumns : column_load_at(tiling);
  const int64_t column_tile = tiling.inner_tiles * tiling.parts * column_pitch;
  const TileIndex column_from =
      index(column_nest, {tiling.column_tiles * column_tile, 0, column_tile, column_pitch});
  const auto result_index = [&](int stream) {
    const int64_t result_pitch = pitch(stream, result_lw);
    return index(Nest::kColumns, {tiling.row_tiles * tiling.column_tiles * result_pitch,
                                  tiling.column_tiles * result_pitch, result_pitch, 0});
  };
  if (tiling.streamed) {
    StreamProduct product;
    product.precision = precision_;
    product.a = {row_stream, row_from, row_pitch, row_element_};
    product.b = {column_stream, column_from, column_pitch, column_element_};
    product.b_buffers = {buffer(column_name, vectors_lw, isa::space_bit(Space::kLm0)), column_buffer};
    for (size_t k = 0; k < sums.size(); ++k) product.c.at(k) = sums[k].buffer;
    product.pieces = tiling.inner_tiles;
    product.parts = tiling.parts;
    product.row_blocks = tiling.row_blocks / tiling.parts;
    product.inner_lw = tiling.inner_lw;
    product.columns = tiling.columns;
    if (tiling.parts > 1)
      product.parked = {buffer("parked", result_lw, isa::space_bit(Space::kLm0)),
                        buffer("parked", result_lw, isa::space_bit(Space::kLm1))};
    if (!has_epilogue(*problem_.contract)) {
      sums.clear();
      for (int k = 0; k < (tiling.parts > 1 ? 2 : 1); ++k) {
        const Space memory = StreamProduct::result_memory(product.pieces, product.parts, k);
        const int results = buffer("result", product.result_lw(), isa::space_bit(memory));
        product.result.at(static_cast<size_t>(k)) = results;
        sums.push_back({results, k * product.result_lw(), product.result_lw()});
      }
    }
    if (tiling.store_chunk > 0) {
      program.body = piped(product,
                           {product.result, result_stream, result_index(result_stream), product.result_lw(),
                            tiling.store_chunk, tiling.store_chunks},
                           {tiling.batches, tiling.row_tiles, tiling.column_tiles});
      return program;
    }
    add(Nest::kColumns, std::move(product));
  } else {
    for (const Sums& part : sums) add(Nest::kColumns, FillTile{part.buffer, {}, part.count, 0});
    add(row_nest,
        LoadTile{row_stream, row_from, row_buffer, {}, row_tile_lw(tiling), precision_, {}, row_element_});
    add(column_nest, LoadTile{column_stream,
                              column_from,
                              column_buffer,
                              {},
                              column_tile_lw(tiling),
                              precision_,
                              {},
                              column_element_});
    ProductTile product;
    product.precision = precision_;
    product.a = row_buffer;
    product.b = column_buffer;
    product.c = sums[0].buffer;
    product.row_blocks = tiling.row_blocks;
    product.inner_lw = tiling.inner_lw;
    product.columns = tiling.columns;
    add(Nest::kInner, std::move(product));
    wrap(Nest::kInner, "k");
  }

  if (has_epilogue(*problem_.contract)) {
    std::vector<int> inputs;
    for (size_t k = 0; k < epilogue_depends_.size(); ++k) {
      const int stream = 2 + static_cast<int>(k);
      inputs.push_back(buffer(program.streams[static_cast<size_t>(stream)].name, result_lw,
                              isa::space_bit(Space::kLm0) | isa::space_bit(Space::kLm1)));
      add(Nest::kColumns, LoadTile{stream, result_index(stream), inputs.back(), {}, result_lw});
    }
    for (const Sums& part : sums) {
      MapTile map;
      map.expr = problem_.contract->epilogue;
      map.inputs.push_back({part.buffer, {}});
      for (const int input : inputs) map.inputs.push_back({input, {part.first, {}}});
      map.out = part.buffer;
      map.count = part.count;
      add(Nest::kColumns, std::move(map));
    }
  }
  for (const Sums& part : sums) {
    TileIndex to = result_index(result_stream);
    to.base += part.first;
    add(Nest::kColumns, StoreTile{part.buffer, {}, result_stream, to, part.count});
  }
  wrap(Nest::kColumns, "column");
  wrap(Nest::kRows, "row");
  if (tiling.batches > 1) {
    program.body.push_back({TileLoop{"batch", tiling.batches, std::move(bodies[0])}});
  } else {
    program.body = std::move(bodies[0]);
  }
  return program;
}

std::string Tiler::describe(const Tiling& tiling) const {
  std::string text = fmt::format(
      "rows {}, {}{}{} x ({} batches, {} of {} row blocks, {} of {} columns, {} of {} K LW)",
      problem_.swapped ? "N" : "M", matrix_precision_name(precision_), tiling.streamed ? ", streamed" : "",
      tiling.parts > 1 ? fmt::format(" in {} parts", tiling.parts) : "", tiling.batches, tiling.row_tiles,
      tiling.row_blocks, tiling.column_tiles, tiling.columns, tiling.inner_tiles, tiling.inner_lw);
  return text + split_name(tiling);
}

std::string Tiler::split_name(const Tiling& tiling) const {
  constexpr std::array<std::string_view, kTreeLevels> kNames = {"group", "L2B", "L1B", "MAB"};
  std::string text;
  for (size_t level = 0; level < kTreeLevels; ++level) {
    if (level_count(level) == 1) continue;
    const Split& split = tiling.splits[level];
    text += fmt::format("; {} {} x {} x {}", kNames.at(level), split[kBatchAxis], split[kRowAxis],
                        split[kColumnAxis]);
  }
  return text;
}

/// A tiler with the problem it refers to, kept alive by the candidates' emit functions.
struct Workbench {
  Workbench(const ContractLayer& layer, const LayerGraph& graph, TensorId output, bool swapped,
            const isa::Chip& chip_used, MatrixPrecision precision)
      : contract(layer),
        chip(chip_used),
        problem(contract_problem(contract, output, swapped)),
        costs(chip),
        tiler(problem, graph, chip, precision, costs) {}
  Workbench(const Workbench&) = delete;
  Workbench& operator=(const Workbench&) = delete;
  ContractLayer contract;
  isa::Chip chip;
  ContractProblem problem;
  CostTable costs;
  Tiler tiler;
};

std::vector<Candidate> contract_candidates(const Layer& layer, const LayerGraph& graph, const isa::Chip& chip,
                                           const KernelOptions& options) {
  const auto& contract = std::get<ContractLayer>(layer.body);
  struct Choice {
    std::shared_ptr<Workbench> bench;
    Tiling tiling;
  };
  std::vector<Choice> choices;
  for (bool swapped : {false, true}) {
    auto bench =
        std::make_shared<Workbench>(contract, graph, layer.outputs.at(0), swapped, chip, options.precision);
    for (Tiling& tiling : bench->tiler.tilings()) choices.push_back({bench, tiling});
  }
  std::stable_sort(choices.begin(), choices.end(), [](const Choice& first, const Choice& second) {
    return first.tiling.cycles < second.tiling.cycles;
  });

  // Those that stream are few: the fastest, and the fastest with what the host sends for it.
  const auto is_constant = [&](const TensorAccess& access) { return graph.is_constant(access.tensor); };
  const bool has_constant = is_constant(contract.a) || is_constant(contract.b);
  std::vector<const Choice*> kept;
  const Choice* fastest = nullptr;
  const Choice* with_link = nullptr;
  const auto link_cycles = [&](const Choice& choice) {
    int64_t bytes = 0;
    for (const StreamPlacement& placement : choice.bench->tiler.placements(choice.tiling)) {
      if (!is_constant(placement.access))
        bytes += stream_group_lw(placement) * placement.transport.groups_used() *
                 static_cast<int64_t>(sizeof(uint64_t));
    }
    return isa::host_link_cycles(bytes, chip);
  };
  double products = 1;
  for (const ContractLayer::Dim& dim : contract.dims) products *= static_cast<double>(dim.extent);
  const double product_cycles =
      products / isa::peak_macs_per_cycle(matrix_instruction_precision(options.precision), true, chip);
  const auto loads =
      std::ranges::find_if(choices, [](const Choice& choice) { return !choice.tiling.streamed; });
  const double by_loads = loads != choices.end() ? static_cast<double>(loads->tiling.cycles) : 0;
  int64_t least = 0;
  std::set<std::string> seen;  // splits: sizes of tiles change what is sent little
  for (const Choice& choice : choices) {
    if (!choice.tiling.streamed) {
      if (kept.size() < kCandidatesKept) kept.push_back(&choice);
      continue;
    }
    // Constants come beside earlier layers, or stay; but not where there are so many products that bringing
    // operands is little of it.
    const double pays = std::max(kConstantsPay * product_cycles, by_loads / kConstantsPay);
    if (has_constant && static_cast<double>(choice.tiling.cycles) > pays) continue;
    if (fastest == nullptr) fastest = &choice;
    if (!seen.insert(choice.bench->tiler.split_name(choice.tiling)).second) continue;
    if (with_link != nullptr && choice.tiling.cycles >= least) continue;
    const int64_t total = choice.tiling.cycles + link_cycles(choice);
    if (with_link == nullptr || total < least) {
      with_link = &choice;
      least = total;
    }
  }
  if (fastest != nullptr) kept.push_back(fastest);
  if (with_link != fastest) kept.push_back(with_link);

  std::vector<Candidate> candidates;
  for (const Choice* kept_choice : kept) {
    const Choice& choice = *kept_choice;
    Candidate candidate;
    candidate.placements = choice.bench->tiler.placements(choice.tiling);
    int64_t dram = 0;
    for (const StreamPlacement& placement : candidate.placements) {
      dram += placement.transport.part_lw(placement.length_lw) * placement.transport.parts_per_group();
    }
    if (dram > chip.memory.dram_lw) continue;
    candidate.description = choice.bench->tiler.describe(choice.tiling);
    candidate.predicted_cycles = choice.tiling.cycles;
    // Those of the epilogue come with the tile that they are read for.
    for (size_t k = 2; k + 1 < candidate.placements.size(); ++k) candidate.elementwise.push_back(k);
    candidate.emit = [choice, name = layer.name,
                      placements = candidate.placements](const std::vector<int64_t>& dram_addresses) {
      return choice.bench->tiler.program(choice.tiling, name, placements, dram_addresses);
    };
    candidates.push_back(std::move(candidate));
  }
  return candidates;
}

}  // namespace

Kernel contract_mau_kernel() {
  Kernel kernel;
  kernel.name = kName;
  kernel.description = "sums of products on the matrix units, split over batch, rows and columns";
  kernel.kind = LayerKind::kContract;
  kernel.run = contract_candidates;
  return kernel;
}

}  // namespace kodama::compiler
