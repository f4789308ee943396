#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "compiler/kernels/builtin_kernels.h"
#include "compiler/kernels/columns.h"
#include "compiler/kernels/columns_problem.h"
#include "compiler/kernels/fill_rows.h"
#include "compiler/kernels/lowering.h"
#include "compiler/kernels/rows.h"
#include "compiler/kernels/rows_division.h"
#include "isa/arithmetic.h"

/// "contract-columns": products of two pictures, summed over images, rows and columns (columns_problem.h), as
/// gradients of a convolution's weights are. Neither picture is expanded: a position of the kernel is an
/// offset of addresses, as in "contract-rows".
///
/// What is summed over stands in the vectors of the matrix unit, eight places of one channel. Images have
/// channels there, so places are turned on the way: written to the matrix registers as rows and read as
/// columns. Places are divided:
///
///   - every L2B has images and rows of results of its own, or else channels of results (RowsSplit);
///   - a pair of L1Bs has a lane of columns (RowOrder), which comes to it at the full rate of L2BM;
///   - even and odd L1Bs, and the four MABs of a quad, have images or rows of their own: eight *slots*.
///
/// The quads make sums for eight channels of results each, a MAB those with all channels of the operand: the
/// MABs of a quad are added up in l1bmr4, L1Bs in l2bmr, and sums leave as an image of tokens. So the program
/// is
///
///     for tiles of the operand's channels: sums = 0
///       for images of a slot, for its rows: load rows of both pictures, turn them, sums += products
///       add up, store
///
/// A block of eight places has cells of `across` columns: eight, or where a lane has fewer, of several
/// images, or else rows. Where it has one row, a row of the operand becomes vectors once, which serve all
/// rows of the kernel; else every position of the kernel has vectors of its own.
///
/// Where channels are sections, a tile of the operand's chunks is multiplied with the chunks of results of
/// the same sections alone: several sections at a time, or chunks of one. An L2B that has channels of results
/// has the same sections of the operand.
namespace kodama::compiler {

using isa::ceil_div;
using isa::round_up;
using isa::Space;

namespace {

constexpr const char* kColumnsKernel = "contract-columns";
/// Streams: of both pictures, rows of zeros, sums.
constexpr int kZeros = 2;
constexpr int64_t kPlaces = 8;  ///< of a vector
constexpr int64_t kBlockChannels = kChunkChannels / kBlocksPerChunk;
/// Turns whose products are made together: sums are fetched and put back once for them.
constexpr int64_t kTurns = 2;
/// Vectors of sums that are worked on at a time.
constexpr int64_t kWorkVectors = 24;
/// Steps of a program at most: the compiler's time grows with them.
constexpr int64_t kMostSteps = 120000;

struct ColumnsTiling {
  RowsSplit operand, results;
  int64_t slot_images = 1;   ///< slots that have images of their own; the others have rows
  bool is_of_images = true;  ///< cells of a block are images, not rows
  int64_t tile_chunks = 1;   ///< of the operand's channels, whose sums are made at a time
  int64_t cycles = 0;
};

class ColumnsTiler {
 public:
  ColumnsTiler(ColumnsProblem problem, const isa::Chip& chip, MatrixPrecision precision)
      : problem_(std::move(problem)), chip_(chip), precision_(precision) {}

  struct Sizes {
    RowsImage operand, results, sums;
    int64_t across = 1, down = 1, deep = 1;  ///< places of a block: columns, rows, images
    int64_t blocks = 1;                      ///< of a lane's columns
    int64_t slot_rows = 1;                   ///< slots that have rows of an image
    int64_t rows = 1;                        ///< of results, of a slot and image
    int64_t images = 1;                      ///< of a slot, one block's after the other
    int64_t columns = 1;                     ///< of the operand, of a lane
    int64_t raw_rows = 1;                    ///< of the operand that are in the PEs as they come
    int64_t tile_blocks = 1;                 ///< blocks of eight channels that are taken of a chunk
    int64_t tile_results = 1;                ///< chunks of results that a tile's are multiplied with
    int64_t shifts = 1;                      ///< positions that have vectors of their own
    int64_t ring = 1;                        ///< rows of results that are in the PEs
    int64_t raw_operand_lw = 0, raw_results_lw = 0, windows_lw = 0, matrices_lw = 0, sums_lw = 0;
    /// Of a row of either picture, what is loaded for a tile at most.
    int64_t operand_row_lw = 0, results_row_lw = 0;

    /// L2BM for rows of results: those of a turn and of the next one, in at most half of it.
    RowRegions results_regions(const isa::Chip& chip) const {
      const int64_t lw =
          RowRegions(results_row_lw + RowRegions::beside_lw(results.order(), false), chip).lw();
      return {lw, 0, std::min(RowRegions::room(chip) / 2, 2 * cells() * kColumnSlots * lw)};
    }
    /// And the rest, for rows of the operand.
    RowRegions operand_regions(const isa::Chip& chip) const {
      const RowRegions others = results_regions(chip);
      const int64_t first = others.count() * others.lw();
      return {operand_row_lw + RowRegions::beside_lw(operand.order(), true), first,
              RowRegions::room(chip) - first};
    }
    /// Whether rows of the operand that the next chunk or turn has, too, are still there.
    bool keeps_rows(const isa::Chip& chip) const {
      return operand_regions(chip).count() >= raw_rows * deep * kColumnSlots;
    }
    int64_t cells() const { return down * deep; }
    int64_t channels() const { return tile_blocks * kBlockChannels; }  ///< of a chunk
    int64_t lane_places() const { return blocks * across; }            ///< with those that fill a block up
    /// Columns of a row of results in the PEs: four units come at a time, also where a row has fewer.
    int64_t raw_pitch() const {
      return std::max(lane_places(), int64_t{isa::kCyclesPerStep} / results.order().width());
    }
  };

  Sizes sizes(const ColumnsTiling& tiling) const {
    Sizes s{{problem_.operand, tiling.operand, chip_},
            {problem_.results, tiling.results, chip_},
            {problem_.sums, tiling.results, chip_}};
    const RowsWindow& window = problem_.window;
    const int64_t groups = s.results.order().groups;
    s.across = groups > 4 ? kPlaces : groups > 2 ? 4 : groups;
    (tiling.is_of_images ? s.deep : s.down) = kPlaces / s.across;
    s.blocks = ceil_div(groups, s.across);
    s.slot_rows = kColumnSlots / tiling.slot_images;
    s.rows = round_up(ceil_div(s.results.rows(), s.slot_rows), s.down);
    s.images = ceil_div(s.results.images(), tiling.slot_images * s.deep);
    s.tile_results = s.results.chunks();
    if (problem_.sections > 1)
      s.tile_results = std::max<int64_t>(1, tiling.tile_chunks / section_chunks()) * section_results(s);
    s.columns = window.columns_under(s.lane_places());
    s.raw_rows = s.down == 1 ? 1 : window.rows_under(s.down);
    s.tile_blocks = std::min(kBlocksPerChunk, ceil_div(problem_.channels, kBlockChannels));
    s.shifts = window.kernel[1] * (s.down == 1 ? 1 : window.kernel[0]);
    s.ring = s.down == 1 ? ((window.kernel[0] - 1) * window.dilation[0] + kTurns - 1) / window.stride[0] + 1
                         : kTurns;
    s.raw_operand_lw = s.raw_rows * s.deep * s.columns * kBlocksPerChunk;
    s.raw_results_lw = s.cells() * loaded_results(s) * s.raw_pitch();
    s.windows_lw = s.shifts * s.blocks * tiling.tile_chunks * s.channels();
    s.matrices_lw = s.blocks * s.tile_results * kBlockChannels;
    s.sums_lw = problem_.positions() * vectors(tiling, s, 0) * isa::kCyclesPerStep * s.tile_results;
    s.operand_row_lw =
        packed_lw() > 0 ? s.operand.row_lw() : loaded_operand(tiling, s) * s.operand.order().groups * kUnitLw;
    s.results_row_lw = loaded_results(s) * groups * kUnitLw;
    return s;
  }
  /// The operand's chunks in a section, and those of a tile that are of one.
  int64_t section_chunks() const { return ceil_div(problem_.channels, kChunkChannels); }
  int64_t own_chunks(const ColumnsTiling& tiling) const {
    return std::min(tiling.tile_chunks, section_chunks());
  }
  /// Chunks of results in a section.
  int64_t section_results(const Sizes& s) const {
    return problem_.sections > 1 ? s.results.chunks() * s.results.channel_ways() / problem_.sections
                                 : s.results.chunks();
  }
  /// Vectors of four channels of a section, of a tile from chunk `first` on.
  int64_t vectors(const ColumnsTiling& tiling, const Sizes& s, int64_t first) const {
    const int64_t before = first % section_chunks() * kChunkChannels;
    return std::min(own_chunks(tiling) * s.channels() / isa::kCyclesPerStep,
                    ceil_div(problem_.channels - before, int64_t{isa::kCyclesPerStep}));
  }
  /// Chunks of the operand that an L2B works on, tile by tile.
  int64_t all_chunks(const Sizes& s) const {
    return problem_.sections > 1 ? s.operand.chunks() : section_chunks();
  }
  /// As many chunks of it as a tile of at least `chunks` may have: sections, or a part of one.
  int64_t tile_of(int64_t chunks) const {
    if (problem_.sections == 1) return chunks;
    if (chunks >= section_chunks()) return chunks / section_chunks() * section_chunks();
    while (section_chunks() % chunks != 0) --chunks;
    return chunks;
  }
  /// Chunks of an L2B's row of the operand that are loaded for a tile at most: they come in pairs.
  int64_t loaded_operand(const ColumnsTiling& tiling, const Sizes& s) const {
    const int64_t width = s.operand.order().width();
    return std::min(s.operand.chunks(), round_up(tiling.tile_chunks + width - 1, width));
  }
  /// And of one of results.
  int64_t loaded_results(const Sizes& s) const {
    const int64_t width = s.results.order().width();
    return std::min(s.results.chunks(), round_up(s.tile_results + width - 1, width));
  }

  /// Where what products don't read, or read seldom, is.
  struct Homes {
    std::array<Space, 2> raw_operand = {Space::kLm1, Space::kLm1};
    Space raw_results = Space::kLm1, matrices = Space::kLm1;
    /// LW of a memory that they take.
    int64_t lw(Space memory, const Sizes& s) const {
      return std::ranges::count(raw_operand, memory) * s.raw_operand_lw +
             (raw_results == memory ? s.raw_results_lw : 0) +
             (matrices == memory ? s.ring * s.matrices_lw : 0);
    }
  };
  Homes homes(const Sizes& s) const {
    // The rest is for temporaries.
    const int64_t room = chip_.memory.grf_words / isa::kWordsPerLong * 7 / 8;
    Homes homes;
    int64_t left = room - s.ring * s.matrices_lw;
    if (left >= 0) {
      homes.matrices = Space::kGrf1;
    } else {
      left = room;
    }
    if (s.raw_operand_lw <= left) {
      homes.raw_operand[1] = Space::kGrf1;
      left -= s.raw_operand_lw;
    }
    if (s.raw_results_lw <= left) homes.raw_results = Space::kGrf1;
    if (s.raw_operand_lw + kWorkVectors * isa::kCyclesPerStep <= room) homes.raw_operand[0] = Space::kGrf0;
    return homes;
  }

  /// Rows of the operand that a slot's rows have under them, or blocks of rows of results.
  int64_t turns(const Sizes& s) const {
    return s.down == 1 ? problem_.window.rows_under(s.rows) : s.rows / s.down;
  }

  /// Columns of the operand beyond its own lane that one of results has under it.
  int64_t right(const Sizes& s) const {
    const RowsWindow& window = problem_.window;
    return window.columns_under(s.results.order().groups) - window.pad[1] - s.operand.order().groups;
  }
  /// Whether lanes of both are the same columns, and nothing of a lane is beyond the next one (LoadColumns).
  bool has_lanes(const Sizes& s) const {
    if (packed_lw() > 0) return true;
    const int64_t groups = s.operand.order().groups;
    return groups == problem_.window.stride[1] * s.results.order().groups &&
           problem_.window.pad[1] <= groups && right(s) <= groups;
  }

  /// LW from a column of a packed operand to the next.
  int64_t packed_lw() const { return problem_.operand.packed ? problem_.operand.packed->column_lw() : 0; }
  /// Units of L1BM for an operand's row; in pairs of chunks, of one.
  int64_t operand_units(const Sizes& s) const {
    if (packed_lw() > 0) {
      const int64_t line_lw = (s.lane_places() - 1) * packed_lw() + section_chunks() * kColumnLw;
      return round_up(std::max(s.operand.order().groups, ceil_div(line_lw, kColumnLw)),
                      int64_t{isa::kCyclesPerStep});
    }
    return staged(s.operand.order(), 1, std::max(problem_.window.pad[1], right(s)));
  }
  /// Places of 16 LW that an L1B has of a row: of pairs of chunks, with `beside` columns of either lane
  /// beside.
  static int64_t staged(const RowOrder& order, int64_t pairs, int64_t beside) {
    const int64_t width = order.width();
    return pairs * (round_up(order.groups * width, int64_t{isa::kCyclesPerStep}) +
                    2 * round_up(beside * width, int64_t{isa::kCyclesPerStep}));
  }
  /// Whether L2Bs have the same sections of both, whole ones.
  bool has_sections(const ColumnsTiling& tiling, const Sizes& s) const {
    const int64_t ways = s.results.channel_ways();
    if (problem_.sections == 1) return true;
    return s.operand.channel_ways() == ways && problem_.sections % ways == 0 &&
           (ways == 1 || tiling.operand == tiling.results) &&
           s.operand.chunks() * ways == problem_.sections * section_chunks();
  }

  bool fits(const ColumnsTiling& tiling, const Sizes& s) const {
    const int64_t local = chip_.memory.lm_words / isa::kWordsPerLong - kRowsReserveLw;
    const int64_t ways = chip_.l2b_count() / s.results.channel_ways();
    const bool has_parts =
        s.results.image_ways() == problem_.parts[0] && s.results.row_ways() == problem_.parts[1] &&
        s.results.images() == problem_.part_size[0] && s.results.rows() == problem_.part_size[1];
    const bool has_sums = s.sums.image_ways() == ways && s.sums.images() == problem_.sum_images() &&
                          (problem_.column_images == 1 || tiling.tile_chunks == section_chunks());
    const Homes homes = this->homes(s);
    const RowOrder of_results = s.results.order();
    const int64_t room = rows_staging(chip_).windows_lw / kColumnLw;
    const bool fits_l1bm = staged(of_results, ceil_div(loaded_results(s), of_results.width()), 0) <= room &&
                           (!has_lanes(s) || operand_units(s) <= room);
    return has_parts && has_sums && has_sections(tiling, s) && s.results.is_nearly_even() &&
           s.operand.is_nearly_even() && fits_l1bm && s.sums_lw + homes.lw(Space::kLm1, s) <= local &&
           kTurns * s.windows_lw <= local && vectors(tiling, s, 0) <= kWorkVectors &&
           s.results_regions(chip_).count() >= 2 && s.operand_regions(chip_).count() >= 2 &&
           s.sums.row_lw() <= rows_staging(chip_).results_lw;
  }

  std::optional<ColumnsTiling> best(RowsSplit operand, RowsSplit results) const {
    std::optional<ColumnsTiling> found;
    for (int64_t slot_images = 1; slot_images <= kColumnSlots; slot_images *= 2) {
      for (const bool is_of_images : {true, false}) {
        const auto tiling = largest_tiles({operand, results, slot_images, is_of_images, 1, 0});
        if (tiling && (!found || tiling->cycles < found->cycles)) found = tiling;
      }
    }
    return found;
  }
  /// With as many chunks in a tile as fit.
  std::optional<ColumnsTiling> largest_tiles(ColumnsTiling tiling) const {
    const int64_t all = all_chunks(sizes(tiling));
    for (int64_t tiles = 1; tiles <= all; ++tiles) {
      tiling.tile_chunks = tile_of(ceil_div(all, tiles));
      const Sizes s = sizes(tiling);
      if (!fits(tiling, s)) continue;
      if (steps(tiling, s) > kMostSteps) return std::nullopt;
      tiling.cycles = cost(tiling, s);
      return tiling;
    }
    return std::nullopt;
  }

  int64_t tiles(const ColumnsTiling& tiling, const Sizes& s) const {
    return ceil_div(all_chunks(s), tiling.tile_chunks);
  }
  /// Steps of a slot's image, or of those of a block: that load, and that turn places and make products.
  std::pair<int64_t, int64_t> image_steps(const ColumnsTiling& tiling, const Sizes& s) const {
    const int64_t operand_turns = turns(s), result_turns = s.rows / s.down;
    const int64_t chunks = tiling.tile_chunks;
    const int64_t operand_loads =
        s.raw_rows * s.deep * chunks * s.columns * (has_lanes(s) ? 1 : chip_.l1b_per_l2b);
    const int64_t result_loads =
        s.cells() * loaded_results(s) * ceil_div(s.results.order().groups, int64_t{isa::kCyclesPerStep});
    // A vector is written and read.
    const int64_t turned = operand_turns * s.shifts * s.blocks * chunks * s.tile_blocks +
                           result_turns * s.blocks * s.tile_results;
    const int64_t products = s.blocks * s.tile_results *
                             (result_turns * problem_.positions() * vectors(tiling, s, 0) + operand_turns);
    return {kBlocksPerChunk * (operand_turns * operand_loads + result_turns * result_loads),
            products + 4 * turned};
  }
  int64_t steps(const ColumnsTiling& tiling, const Sizes& s) const {
    const auto [load, products] = image_steps(tiling, s);
    return tiles(tiling, s) * s.images * (load + products);
  }
  int64_t cost(const ColumnsTiling& tiling, const Sizes& s) const {
    const auto [load, products] = image_steps(tiling, s);
    const int64_t result_turns = s.rows / s.down;
    // Rows that aren't there from turn to turn aren't there from chunk to chunk, either.
    const int64_t operand_rows = s.keeps_rows(chip_)
                                     ? turns(s) * std::min(s.raw_rows, s.down * problem_.window.stride[0])
                                     : turns(s) * s.raw_rows * tiling.tile_chunks;
    const int64_t moved = s.deep * (operand_rows * slot_rows_cycles(tiling, s, true) +
                                    result_turns * s.down * slot_rows_cycles(tiling, s, false));
    const int64_t steps = std::max(load, products) + std::min(load, products) / 4;
    const int64_t sums_lw = problem_.sum_images() * s.sums.rows() * s.sums.row_lw();
    return tiles(tiling, s) * s.images * std::max(steps * isa::kCyclesPerStep, moved) +
           2 * sums_lw / kUnitLw * isa::kCyclesPerStep + own_rows_cycles(sums_lw, chip_);
  }
  /// Cycles in which DRAM and L2BMs pass a row of either picture to every slot.
  int64_t slot_rows_cycles(const ColumnsTiling& tiling, const Sizes& s, bool of_operand) const {
    std::vector<RowsTransfer> list;
    for (int64_t slot = 0; slot < kColumnSlots; ++slot) {
      const auto wanted = [&](int l2b) {
        return of_operand ? operand_of(tiling, s, l2b, slot, 0, problem_.window.pad[0])
                          : result_of(tiling, s, l2b, slot, 0, 0);
      };
      std::vector<RowsTransfer> rows =
          of_operand ? row_transfers(s.operand, has_own_operand() ? -1 : 0, 0, wanted, zero_rows(), chip_)
                     : row_transfers(s.results, -1, 0, wanted, zero_rows(), chip_);
      for (RowsTransfer& transfer : rows) {
        transfer.count = of_operand ? s.operand_row_lw : s.results_row_lw;
        list.push_back(transfer);
      }
    }
    return rows_transfer_cycles(list, chip_) - rows_transfer_cycles({}, chip_);
  }

  /// Of sections every L2B has its own.
  bool has_own_operand() const { return problem_.sections > 1; }
  static RowsTransfer zero_rows() {
    RowsTransfer outside;
    outside.stream = kZeros;
    outside.group = 0;
    return outside;
  }
  /// The place of row `row` of an L2B's slot, in the results: of its image `image`.
  static std::optional<std::pair<int64_t, int64_t>> result_of(const ColumnsTiling& tiling, const Sizes& s,
                                                              int l2b, int64_t slot, int64_t image,
                                                              int64_t row) {
    const auto [first_image, first_row] = s.results.first_of(l2b);
    const int64_t own_image = image * tiling.slot_images + slot / s.slot_rows;
    const int64_t own_row = slot % s.slot_rows * s.rows + row;
    if (row >= s.rows || own_image >= s.results.images() || own_row >= s.results.rows()) return std::nullopt;
    return std::pair(first_image + own_image, first_row + own_row);
  }
  /// And the row of the operand that is `row` rows under the slot's first one.
  std::optional<std::pair<int64_t, int64_t>> operand_of(const ColumnsTiling& tiling, const Sizes& s, int l2b,
                                                        int64_t slot, int64_t image, int64_t row) const {
    const auto [first_image, first_row] = s.results.first_of(l2b);
    const int64_t own_image = image * tiling.slot_images + slot / s.slot_rows;
    const int64_t first = first_row + slot % s.slot_rows * s.rows;
    if (own_image >= s.results.images()) return std::nullopt;
    return std::pair(first_image + own_image,
                     first * problem_.window.stride[0] - problem_.window.pad[0] + row);
  }

  std::vector<StreamPlacement> placements(const ColumnsTiling& tiling, const ContractLayer& contract) const;
  std::string describe(const ColumnsTiling& tiling) const {
    const Sizes s = sizes(tiling);
    return fmt::format(
        "{}{}: sums of {} x {} places of {} images, {} slots with images, {} rows of each of {}, tiles of {} "
        "of {} chunks for {} chunks",
        matrix_precision_name(precision_), packed_lw() > 0 ? ", packed" : "", s.across, s.down, s.deep,
        tiling.slot_images, s.rows, s.images, tiling.tile_chunks, all_chunks(s), s.tile_results);
  }
  TileProgram program(const ColumnsTiling& tiling, const std::string& name,
                      const std::vector<StreamPlacement>& placements,
                      const std::vector<int64_t>& dram_addresses) const;

 private:
  friend class ColumnsProgram;
  ColumnsProblem problem_;
  isa::Chip chip_;
  MatrixPrecision precision_;
};

/// In the order contract a, contract b, zeros, sums.
std::vector<StreamPlacement> ColumnsTiler::placements(const ColumnsTiling& tiling,
                                                      const ContractLayer& contract) const {
  const Sizes s = sizes(tiling);
  std::vector<StreamPlacement> list = {s.operand.placement(problem_.operand_first ? "a" : "b"),
                                       s.results.placement(problem_.operand_first ? "b" : "a")};
  if (!problem_.operand_first) std::swap(list[0], list[1]);
  const int64_t row_lw = std::max(s.results_regions(chip_).lw(), s.operand_regions(chip_).lw());
  list.push_back(fill_rows_placement("x0", contract.epilogue_inputs.at(0), row_lw, list[0].transport, chip_));
  StreamPlacement sums = s.sums.placement("y");
  sums.is_output = true;
  // Channels that fill a chunk up are sums of anything.
  sums.layout.set_padding(layout::Padding::kUndefined);
  list.push_back(std::move(sums));
  return list;
}

/// What a program of a tiling does, operation by operation.
class ColumnsProgram : SlotProgram {
 public:
  ColumnsProgram(const ColumnsTiler& tiler, const ColumnsTiling& tiling)
      : tiler_(tiler),
        tiling_(tiling),
        s_(tiler.sizes(tiling)),
        operand_regions_(s_.operand_regions(tiler.chip_)),
        results_regions_(s_.results_regions(tiler.chip_)),
        window_(tiler.problem_.window),
        operand_stream_(tiler.problem_.operand_first ? 0 : 1) {}

  TileProgram run(const std::string& name, const std::vector<StreamPlacement>& placements,
                  const std::vector<int64_t>& dram_addresses) {
    begin(name, placements, dram_addresses);
    // A local memory is either read or written in a step: what comes while products read vectors from one and
    // sums from the other stands in registers, if there is room.
    const ColumnsTiler::Homes homes = tiler_.homes(s_);
    raw_operand_[0] = buffer("raw operand 0", s_.raw_operand_lw, isa::space_bit(homes.raw_operand[0]));
    raw_operand_[1] = buffer("raw operand 1", s_.raw_operand_lw, isa::space_bit(homes.raw_operand[1]));
    raw_results_ = buffer("raw results", s_.raw_results_lw, isa::space_bit(homes.raw_results));
    windows_ = buffer("windows", kTurns * s_.windows_lw, isa::space_bit(Space::kLm0));
    matrices_ = buffer("matrices", s_.ring * s_.matrices_lw, isa::space_bit(homes.matrices));
    sums_ = buffer("sums", s_.sums_lw, isa::space_bit(Space::kLm1));
    work_ = buffer("work", kWorkVectors * isa::kCyclesPerStep, isa::space_bit(Space::kGrf0));
    // Places outside the tensors stay so.
    for (const int raw : raw_operand_) fill(raw);
    fill(raw_results_);
    for (int64_t chunk = 0; chunk < tiler_.all_chunks(s_); chunk += tiling_.tile_chunks) tile(chunk);
    return std::move(program_);
  }

 private:
  void tile(int64_t chunk) {
    first_chunk_ = chunk;
    chunks_ = std::min(tiling_.tile_chunks, tiler_.all_chunks(s_) - chunk);
    // Sections that the tile has, of which the last may have fewer.
    const int64_t sections = std::max<int64_t>(1, chunks_ / tiler_.section_chunks());
    first_result_ =
        tiler_.problem_.sections > 1 ? chunk / tiler_.section_chunks() * tiler_.section_results(s_) : 0;
    results_ = sections * tiler_.section_results(s_);
    fill(sums_);
    for (int64_t image = 0; image < s_.images; ++image) {
      image_ = image;
      if (s_.down == 1) {
        const int64_t turns = tiler_.turns(s_);
        for (int64_t row = 0; row < turns; ++row) turn(row);
      } else {
        for (int64_t row = 0; row < s_.rows; row += s_.down) turn_down(row);
      }
      multiply();
    }
    finish();
  }

  /// The operand's `rows` rows from `row` on under a slot's first one become vectors of the next turn.
  void load_operand(int64_t row, int64_t rows) {
    // A line has the channels of all chunks.
    const int64_t own = tiler_.packed_lw() > 0 ? chunks_ + first_chunk_ : s_.operand.chunks();
    for (int64_t chunk = 0; chunk < chunks_; ++chunk) {
      const int64_t channels = (first_chunk_ + chunk) / own;
      const int raw = raw_operand_.at(static_cast<size_t>(next_raw_++ % 2));
      for (LoadColumns& load :
           row_loads(row, rows, tiler_.has_own_operand() ? -1 : channels, own_range(channels * own))) {
        load.first_chunk = first_chunk_ + chunk - channels * own;
        load.buffer = raw;
        add(std::move(load));
      }
      make_windows(raw, chunk);
    }
    ++turns_;
  }
  /// Chunks [first, end) of a row.
  using Chunks = std::pair<int64_t, int64_t>;
  /// The tile's chunks among those of an L2B's row, which are all from chunk `before` on, in whole pairs.
  Chunks own_range(int64_t before) const {
    const int64_t width = s_.operand.order().width();
    const int64_t first = std::max<int64_t>(0, first_chunk_ - before);
    const int64_t end = std::min(s_.operand.chunks(), first_chunk_ + chunks_ - before);
    return {first / width * width, round_up(end, width)};
  }
  /// What brings rows, for some of their chunks, which alone are in L2BM.
  static void restrict_to(LoadColumns& load, const Chunks& chunks) {
    const int64_t chunk_lw = load.order.groups * kUnitLw;
    for (int64_t& l2bm : load.l2bm) l2bm -= chunks.first * chunk_lw;
    for (RowsTransfer& transfer : load.transfers) {
      if (transfer.stream != kZeros) transfer.dram += chunks.first * chunk_lw;
      transfer.count = (chunks.second - chunks.first) * chunk_lw;
    }
  }
  std::vector<LoadColumns> row_loads(int64_t row, int64_t rows, int64_t channels, const Chunks& chunks) {
    std::vector<LoadColumns> loads;
    for (int64_t cell = 0; cell < s_.deep * rows; ++cell) {
      const int64_t image = image_ * s_.deep + cell / rows, number = row + cell % rows;
      for (int64_t mab = 0; mab < kBlocksPerChunk; ++mab) {
        LoadColumns load;
        load.stream = operand_stream_;
        load.mab = mab;
        for (int64_t odd = 0; odd < 2; ++odd) {
          // What a turn before it, or a chunk, has brought may still be there.
          const RowRegions::Place place =
              operand_regions_.find({first_chunk_, channels, image, number * kColumnSlots + 2 * mab + odd});
          bring_slot_row(
              load, odd, place, s_.operand, channels,
              [&](int l2b, int64_t slot) { return tiler_.operand_of(tiling_, s_, l2b, slot, image, number); },
              ColumnsTiler::zero_rows(), tiler_.chip_);
        }
        load.order = s_.operand.order();
        load.packed_lw = tiler_.packed_lw();
        if (load.packed_lw == 0) restrict_to(load, chunks);
        load.columns = tiler_.problem_.operand_columns;
        load.lane = window_.stride[1] * s_.results.order().groups;
        load.first = -window_.pad[1];
        load.count = window_.columns_under(s_.results.order().groups);
        load.all_blocks = true;
        load.at = cell * s_.columns * kBlocksPerChunk;
        load.pitch = s_.columns;
        loads.push_back(std::move(load));
      }
    }
    return loads;
  }

  /// Rows of results from `row` on become matrices, in their place of the ring.
  void load_results(int64_t row) {
    const int64_t width = s_.results.order().width();
    const int64_t first = first_result_ / width * width;
    const int64_t loaded = round_up(first_result_ + results_, width) - first;
    const int64_t row_lw = loaded * s_.raw_pitch();
    for (int64_t cell = 0; cell < s_.cells(); ++cell) {
      const int64_t image = image_ * s_.deep + cell / s_.down, number = row + cell % s_.down;
      for (int64_t mab = 0; mab < kBlocksPerChunk; ++mab) {
        LoadColumns load;
        load.stream = 1 - operand_stream_;
        load.mab = mab;
        for (int64_t odd = 0; odd < 2; ++odd) {
          bring_slot_row(
              load, odd, results_regions_.next(), s_.results, -1,
              [&](int l2b, int64_t slot) { return tiler_.result_of(tiling_, s_, l2b, slot, image, number); },
              ColumnsTiler::zero_rows(), tiler_.chip_);
        }
        load.order = s_.results.order();
        load.columns = tiler_.problem_.result_columns;
        load.lane = s_.results.order().groups;
        load.count = s_.results.order().groups;
        load.first_chunk = first;
        load.chunks = loaded;
        restrict_to(load, {first, first + loaded});
        load.buffer = raw_results_;
        load.at = cell * row_lw;
        load.pitch = s_.raw_pitch();
        add(std::move(load));
      }
    }
    TransposeColumns turn;
    turn.precision = tiler_.precision_;
    turn.raw = raw_results_;
    turn.out = matrices_;
    turn.step = steps(width, row_lw);
    for (int64_t block = 0; block < s_.blocks; ++block) {
      for (int64_t chunk = 0; chunk < results_; ++chunk) {
        const int64_t number = first_result_ - first + chunk;
        turn.runs.push_back({(number / width * s_.raw_pitch() + block * s_.across) * width + number % width,
                             matrix_at(row / s_.down, block, chunk)});
      }
    }
    add(std::move(turn));
  }
  int64_t matrix_at(int64_t row, int64_t block, int64_t chunk) const {
    return row % s_.ring * s_.matrices_lw + (block * s_.tile_results + chunk) * kBlockChannels;
  }
  /// From a place of a block to the next, of two halves of four places: LW from a column to the next, and
  /// from a row or image to the next.
  std::array<int64_t, 2> steps(int64_t column, int64_t row) const {
    if (s_.across == kPlaces) return {4 * column, column};
    if (s_.across == 4) return {row, column};
    if (s_.across == 2) return {column, row};
    return {4 * row, row};
  }

  /// Raw rows of a chunk become vectors.
  void make_windows(int raw, int64_t chunk) {
    const int64_t row_lw = s_.columns * kBlocksPerChunk;
    TransposeColumns turn;
    turn.precision = tiler_.precision_;
    turn.raw = raw;
    turn.out = windows_;
    turn.step = steps(window_.stride[1] * kBlocksPerChunk, s_.deep > 1 ? row_lw : window_.stride[0] * row_lw);
    for (int64_t shift = 0; shift < s_.shifts; ++shift) {
      const int64_t kh = shift / window_.kernel[1], kw = shift % window_.kernel[1];
      for (int64_t block = 0; block < s_.blocks; ++block) {
        for (int64_t part = 0; part < s_.tile_blocks; ++part) {
          const int64_t column = block * s_.across * window_.stride[1] + kw * window_.dilation[1];
          turn.runs.push_back(
              {kh * window_.dilation[0] * row_lw + column * kBlocksPerChunk + part,
               window_at(turns_, shift, block) + (chunk * s_.tile_blocks + part) * kBlockChannels});
        }
      }
    }
    add(std::move(turn));
  }
  int64_t window_at(int64_t turn, int64_t shift, int64_t block) const {
    return ((turn * s_.shifts + shift) * s_.blocks + block) * tiling_.tile_chunks * s_.channels();
  }

  /// Products of row `row` of results with vectors of a shift in a turn, for a position of the kernel.
  struct Use {
    int64_t position = 0, row = 0, turn = 0, shift = 0;
  };
  /// Those of the turns whose windows are there.
  void multiply() {
    ColumnProduct product;
    product.precision = tiler_.precision_;
    product.matrices = matrices_;
    product.windows = windows_;
    product.sums = sums_;
    product.work = work_;
    product.vectors = tiler_.vectors(tiling_, s_, first_chunk_);
    product.step = s_.tile_results;
    const int64_t section_results = tiler_.section_results(s_);
    const int64_t section_lw = tiler_.own_chunks(tiling_) * s_.channels();
    // Positions that are used with the same rows of results are worked on together.
    std::map<std::vector<std::pair<int64_t, int64_t>>, std::map<int64_t, std::vector<Use>>> alike;
    std::map<int64_t, std::vector<Use>> by_position;
    for (const Use& use : uses_) by_position[use.position].push_back(use);
    for (const auto& [position, uses] : by_position) {
      std::vector<std::pair<int64_t, int64_t>> rows;
      for (const Use& use : uses) rows.emplace_back(use.row, use.turn);
      alike[rows].emplace(position, uses);
    }
    for (const auto& [rows, positions] : alike) {
      const int64_t most = kWorkVectors / product.vectors;
      for (auto first = positions.begin(); first != positions.end();) {
        auto last = first;
        for (int64_t k = 0; k < most && last != positions.end(); ++k) ++last;
        for (int64_t chunk = 0; chunk < results_; ++chunk) {
          const int64_t section = tiler_.problem_.sections > 1 ? chunk / section_results * section_lw : 0;
          ColumnProduct::Group group;
          for (auto at = first; at != last; ++at)
            group.sums.push_back(at->first * product.vectors * isa::kCyclesPerStep * product.step + chunk);
          for (size_t k = 0; k < rows.size(); ++k) {
            for (int64_t block = 0; block < s_.blocks; ++block) {
              ColumnProduct::Use use;
              use.matrix = matrix_at(rows[k].first / s_.down, block, chunk);
              for (auto at = first; at != last; ++at)
                use.windows.push_back(window_at(rows[k].second, at->second[k].shift, block) + section);
              group.uses.push_back(std::move(use));
            }
          }
          product.groups.push_back(std::move(group));
        }
        first = last;
      }
    }
    if (!product.groups.empty()) add(std::move(product));
    uses_.clear();
    turns_ = 0;
  }

  /// The operand's row `row` under a slot's first one, with all rows of results that have it under them.
  void turn(int64_t row) {
    std::vector<Use> uses;
    for (int64_t kh = 0; kh < window_.kernel[0]; ++kh) {
      const int64_t under = row - kh * window_.dilation[0];
      if (under < 0 || under % window_.stride[0] != 0 || under / window_.stride[0] >= s_.rows) continue;
      for (int64_t kw = 0; kw < window_.kernel[1]; ++kw)
        uses.push_back({kh * window_.kernel[1] + kw, under / window_.stride[0], turns_, kw});
    }
    if (row % window_.stride[0] == 0 && row / window_.stride[0] < s_.rows)
      load_results(row / window_.stride[0]);
    if (uses.empty()) return;
    uses_.insert(uses_.end(), uses.begin(), uses.end());
    load_operand(row, 1);
    if (turns_ == kTurns) multiply();
  }

  /// Rows of results from `row` on, of one block.
  void turn_down(int64_t row) {
    load_results(row);
    for (int64_t shift = 0; shift < s_.shifts; ++shift) uses_.push_back({shift, row, turns_, shift});
    load_operand(row * window_.stride[0], s_.raw_rows);
    if (turns_ == kTurns) multiply();
  }

  /// What all L1Bs' sums add up to becomes rows of the image.
  void finish() {
    const int64_t row_lw = results_ * kUnitLw;
    const int64_t vectors = tiler_.vectors(tiling_, s_, first_chunk_);
    const int64_t first = first_chunk_ % tiler_.section_chunks() * kChunkChannels / isa::kCyclesPerStep;
    const int64_t l2bm_rows = (tiler_.chip_.memory.l2bm_lw - RowRegions::kAheadLw) / 2 / row_lw;
    const int64_t most = std::min(rows_staging(tiler_.chip_).results_lw / row_lw, l2bm_rows);
    // Of a position, an image of its vectors or one for each column of a packed kernel.
    const int64_t image_vectors = vectors / tiler_.problem_.column_images;
    int64_t number = 0;
    for (int64_t image = 0; image < tiler_.problem_.sum_images(); ++image) {
      for (int64_t row = 0; row < image_vectors; row += most) {
        const int64_t rows = std::min(most, image_vectors - row);
        for (int64_t chunk = 0; chunk < results_; ++chunk) {
          FinishRows finish;
          finish.sums = sums_;
          finish.of_sums = {chunk, s_.tile_results};
          finish.first_vector = image * image_vectors + row;
          finish.rows = finish.buffer_rows = rows;
          finish.epilogue = ScalarExpr::identity();
          finish.chunk = chunk;
          finish.order = {1, results_};
          add(std::move(finish));
        }
        const int64_t l2bm = number++ % 2 * round_up(most * row_lw, isa::kMvUnitLw);
        add(SumRows{rows, row_lw, l2bm, row_lw});
        StoreRows store;
        store.stream = 3;
        store.l2bm = l2bm;
        store.rows = rows;
        // Whole rows follow one another.
        const int64_t together = results_ == s_.sums.chunks() ? rows : 1;
        for (int64_t part = 0; part < rows; part += together) {
          RowsTransfer own;
          own.dram = s_.sums.offset(image, first + row + part) + first_result_ * kUnitLw;
          own.l2bm = l2bm + part * row_lw;
          own.count = together * row_lw;
          store.transfers.push_back(own);
        }
        add(std::move(store));
      }
    }
  }

  const ColumnsTiler& tiler_;
  const ColumnsTiling& tiling_;
  const ColumnsTiler::Sizes s_;
  RowRegions operand_regions_, results_regions_;
  const RowsWindow& window_;
  int operand_stream_;
  std::array<int, 2> raw_operand_{-1, -1};
  int raw_results_ = -1, windows_ = -1, matrices_ = -1, sums_ = -1, work_ = -1;
  int64_t first_chunk_ = 0, chunks_ = 1;    ///< of the operand, that the tile has
  int64_t first_result_ = 0, results_ = 1;  ///< and those of results
  int64_t image_ = 0;
  int64_t next_raw_ = 0;
  int64_t turns_ = 0;      ///< whose windows are there
  std::vector<Use> uses_;  ///< of them
};

TileProgram ColumnsTiler::program(const ColumnsTiling& tiling, const std::string& name,
                                  const std::vector<StreamPlacement>& placements,
                                  const std::vector<int64_t>& dram_addresses) const {
  return ColumnsProgram(*this, tiling).run(name, placements, dram_addresses);
}

std::vector<Candidate> columns_candidates(const Layer& layer, const LayerGraph& graph, const isa::Chip& chip,
                                          const KernelOptions& options) {
  const auto& contract = std::get<ContractLayer>(layer.body);
  const std::optional<MatrixPrecision> precision = precision_of_made_matrices(options.precision);
  if (!has_column_lanes(chip) || !precision || contract.epilogue_inputs.size() != 1) return {};
  std::vector<Candidate> candidates;
  for (ColumnsProblem& problem : columns_problems(contract, layer.outputs.at(0), graph)) {
    const auto tiler = std::make_shared<const ColumnsTiler>(std::move(problem), chip, *precision);
    for (const RowsSplit operand : kRowsSplits) {
      for (const RowsSplit results : kRowsSplits) {
        const auto tiling = tiler->best(operand, results);
        if (!tiling) continue;
        Candidate candidate;
        candidate.placements = tiler->placements(*tiling, contract);
        candidate.description = tiler->describe(*tiling);
        candidate.predicted_cycles = tiling->cycles;
        candidate.emit = [tiler, tiling = *tiling, name = layer.name,
                          placements = candidate.placements](const std::vector<int64_t>& dram_addresses) {
          return tiler->program(tiling, name, placements, dram_addresses);
        };
        candidates.push_back(std::move(candidate));
      }
    }
  }
  return candidates;
}

}  // namespace

std::optional<int64_t> columns_cycles(const std::vector<ColumnsProblem>& whole, RowsSplit results,
                                      const isa::Chip& chip) {
  if (!has_column_lanes(chip)) return std::nullopt;
  std::optional<int64_t> least;
  for (ColumnsProblem problem : whole) {
    const RowsImage image(problem.results, results, chip);
    problem.parts = {image.image_ways(), image.row_ways()};
    problem.part_size = {image.images(), image.rows()};
    problem.sums.images = problem.parts[0] * problem.parts[1] * problem.sum_images();
    const ColumnsTiler tiler(problem, chip, MatrixPrecision::kGFloat);
    for (const RowsSplit operand : kRowsSplits) {
      if (const auto tiling = tiler.best(operand, results))
        least = std::min(least.value_or(tiling->cycles), tiling->cycles);
    }
  }
  return least;
}

Kernel contract_columns_kernel() {
  Kernel kernel;
  kernel.name = kColumnsKernel;
  kernel.description = "products of two pictures summed over their places, as gradients of weights are";
  kernel.kind = LayerKind::kContract;
  kernel.run = columns_candidates;
  return kernel;
}

}  // namespace kodama::compiler
