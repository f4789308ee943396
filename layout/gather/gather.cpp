#include "layout/gather/gather.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <unordered_map>

#include "isa/arithmetic.h"
#include "isa/error.h"
#include "layout/gather/gather_parts.h"

namespace kodama::layout {

Gather::Gather(const GatherProblem& problem, const isa::Chip& chip) : problem_(problem), chip_(chip) {
  isa::check_internal(problem.address % kBlockLw == 0 && problem.size_lw % kBlockLw == 0 &&
                          static_cast<int64_t>(problem.words.size()) == chip.groups &&
                          !problem.constants.empty() && problem.constants[0] == 0 &&
                          (problem.parts == 1 || problem.parts == chip.l2b_per_group) &&
                          problem.size_lw / problem.parts % kBlockLw == 0,
                      "gather", "image of {} LW at {} in {} groups, {} parts", problem.size_lw,
                      problem.address, problem.words.size(), problem.parts);
  const GatherShape shape(problem.size_lw, problem.parts, chip);
  row_lw_ = shape.row_lw;
  used_lw_ = shape.used_lw;
  vectors_ = static_cast<int32_t>(shape.vectors);
  const GatherRooms rooms(chip, row_lw_);
  constant_octets_ = isa::ceil_div(static_cast<int64_t>(problem.constants.size()), kWordsPerOctet);
  window_octets_ = std::min(shape.lm_octets, problem.lm0_lw / kOctetLw) - constant_octets_;
  if (window_octets_ < kOctetsPerBlock || constant_octets_ * kOctetLw > rooms.image_slots * row_lw_) {
    throw isa::UnsupportedError(
        fmt::format("a gather with {} different constants: it has {} words of LM0", problem.constants.size(),
                    std::min(shape.lm_octets * kWordsPerOctet, problem.lm0_lw * isa::kWordsPerLong)));
  }
  const auto tile_vectors = static_cast<int32_t>(shape.tile_vectors);
  for (int32_t first = 0; first < vectors_; first += tile_vectors) {
    Tile tile;
    tile.first_vector = first;
    tile.vector_count = std::min(tile_vectors, vectors_ - first);
    cut(tile);
    tiles_.push_back(std::move(tile));
  }
}

Gather::Row Gather::row(int64_t vector, int l2b_of_group) const {
  const int64_t share = problem_.parts > 1 ? problem_.size_lw / problem_.parts : vectors_ * row_lw_;
  Row row;
  row.begin = l2b_of_group * share + vector * row_lw_;
  const int64_t end = std::min((l2b_of_group + 1) * share, problem_.size_lw);
  row.size = std::clamp<int64_t>(end - row.begin, 0, row_lw_);
  return row;
}

Gather::Home Gather::home(const Tile& tile, size_t l1b, const GatherSource& source) const {
  const Wanted& found =
      *std::ranges::lower_bound(tile.wanted[l1b], source.block(), std::less<>(), &Wanted::address);
  const Slot& slot = tile.slots[static_cast<size_t>(found.slot)];
  const int64_t octet = source.word() / kWordsPerOctet % kOctetsPerBlock - found.shift;
  const auto before = static_cast<uint8_t>(slot.octets & ((1U << octet) - 1));
  return {slot.window, lm_word(slot.in_window + std::popcount(before), source.word() % kWordsPerOctet)};
}

int64_t Gather::tables_lw() const {
  return tables_ * used_lw_ * chip_.l2b_per_group + isa::round_up(constant_octets_ * kOctetLw, kBlockLw);
}

std::vector<std::vector<uint64_t>> Gather::make_tables() const {
  std::vector<std::vector<uint64_t>> tables(static_cast<size_t>(chip_.groups),
                                            std::vector<uint64_t>(static_cast<size_t>(tables_lw())));
  const int64_t constants_at = tables_ * used_lw_ * chip_.l2b_per_group;
  for (size_t k = 0; k < problem_.constants.size(); ++k) {
    tables[0][static_cast<size_t>(constants_at) + k / 2] |= uint64_t{problem_.constants[k]}
                                                            << (k % 2 == 0 ? 32 : 0);
  }
  for (const Tile& tile : tiles_) {
    for_each_word(tile, [&](int l2b, int32_t vector, int64_t lw, int half, const GatherSource& source) {
      Home at{tile.first_window[static_cast<size_t>(vector)], 0};
      if (source.is_constant()) {
        const int64_t k = source.constant_index();
        if (k == 0) return;
        at.word = lm_word(k / kWordsPerOctet, k % kWordsPerOctet);
      } else {
        at = home(tile, l1b_of(l2b, lw), source);
      }
      const Round& round = tile.rounds[static_cast<size_t>(at.window / kWindowsPerRound)];
      const int64_t table = round.first_table + round.table_of_pair[static_cast<size_t>(vector / 2)];
      const int64_t part = l2b % chip_.l2b_per_group * tables_ + table;
      const int64_t entry = at.window % kWindowsPerRound << kAddressBits | at.word;
      tables[static_cast<size_t>(l2b / chip_.l2b_per_group)][static_cast<size_t>(part * used_lw_ + lw)] |=
          static_cast<uint64_t>(entry) << (kEntryBits * (2 * (vector % 2) + half));
    });
  }
  return tables;
}

size_t Gather::window_count() const {
  size_t windows = 0;
  for (const Tile& tile : tiles_) windows += tile.windows.size();
  return windows;
}

int64_t Gather::lm1_lw() const {
  int64_t most = 0;
  for (const Tile& tile : tiles_)
    most = std::max(most, kLineGroup * (tile.vector_count + isa::ceil_div(int64_t{tile.vector_count}, 2)));
  return most;
}

int64_t Gather::slot_steps(const Tile& tile) {
  int64_t steps = 0;
  for (const Slot& slot : tile.slots)
    steps += std::max<int64_t>(static_cast<int64_t>(slot.copies.size()), std::popcount(slot.octets));
  return steps;
}

std::string Gather::describe() const {
  size_t loads = 0, places = 0;
  int64_t octets = 0;
  for (const Tile& tile : tiles_) {
    loads += tile.loads.size();
    for (const Load& load : tile.loads) places += load.places.size();
    for (const Slot& slot : tile.slots) octets += std::popcount(slot.octets);
  }
  return fmt::format("{} vectors, {} tables, {} windows, {} loads, {} blocks to an L2B, {} LW to a PE",
                     vectors_, tables_, window_count(), loads, places, octets * kOctetLw);
}

namespace {

/// What a gather takes, by what was counted of it.
struct GatherCounts {
  int64_t slot_steps = 0;  ///< of copies and broadcasts
  int64_t picks = 0;       ///< tables times windows that look at them
  int64_t tables = 0;
  double load_cycles = 0;  ///< of the transfers that bring what is wanted
};

constexpr int64_t kStepsPerPick = 15;  // the window's addresses; four times: set T, wait for it, read

int64_t gather_cycles(const GatherCounts& counts, int64_t used_lw, int64_t size_lw, const isa::Chip& chip) {
  constexpr int64_t kStartSteps = 50;
  const auto steps = static_cast<double>(kStartSteps + counts.slot_steps + kStepsPerPick * counts.picks);
  const double dram = static_cast<double>(counts.tables * used_lw * chip.l2b_per_group + size_lw) /
                      chip.transfer.dram_lw_per_cycle;
  return static_cast<int64_t>(steps * isa::kCyclesPerStep + counts.load_cycles + dram);
}

}  // namespace

double Gather::load_cycles(const Load& load) const {
  const auto groups = static_cast<size_t>(chip_.groups);
  const std::vector<Run> all = runs(load);
  std::vector<int64_t> into(static_cast<size_t>(chip_.l2b_count())), out_of(groups);
  for (const Run& run : all) {
    const int64_t lw = run.blocks * kBlockLw;
    const auto unit = run.l2b % chip_.l2b_per_group;
    for (size_t l2b = 0; l2b < into.size(); ++l2b) {
      const bool is_it = run.to == Run::To::kL2b      ? static_cast<int>(l2b) == run.l2b
                         : run.to == Run::To::kGroups ? static_cast<int>(l2b) % chip_.l2b_per_group == unit
                                                      : true;
      if (is_it) into[l2b] += lw;
    }
    const bool is_one_group = run.to == Run::To::kL2b || run.to == Run::To::kAll;
    for (size_t group = 0; group < groups; ++group) {
      if (!is_one_group || static_cast<int64_t>(group) == run.address / kBlocksPerGroup) out_of[group] += lw;
    }
  }
  const auto starts = static_cast<double>(all.size()) *
                      static_cast<double>(chip_.transfer.issue_interval_steps * isa::kCyclesPerStep);
  return std::max({starts, static_cast<double>(std::ranges::max(into)) / chip_.transfer.l2bm_mv_lw_per_cycle,
                   static_cast<double>(std::ranges::max(out_of)) / chip_.transfer.dram_lw_per_cycle});
}

double Gather::tile_cycles(const Tile& tile) const {
  int64_t picks = 0;
  for (const Window& window : tile.windows) {
    for (size_t k = 0; k < window.vectors.size(); ++k)
      picks += k == 0 || window.vectors[k] / 2 != window.vectors[k - 1] / 2 ? 1 : 0;
  }
  double cycles = static_cast<double>((slot_steps(tile) + kStepsPerPick * picks) * isa::kCyclesPerStep);
  for (const Load& load : tile.loads) cycles += load_cycles(load);
  return cycles;
}

int64_t Gather::estimated_cycles() const {
  GatherCounts counts{.picks = picks_, .tables = tables_};
  for (const Tile& tile : tiles_) {
    counts.slot_steps += slot_steps(tile);
    for (const Load& load : tile.loads) counts.load_cycles += load_cycles(load);
  }
  return gather_cycles(counts, used_lw_, problem_.size_lw, chip_);
}

int64_t least_gather_cycles(int64_t size_lw, int64_t parts, int64_t words, const isa::Chip& chip) {
  const GatherShape shape(size_lw, parts, chip);
  GatherCounts counts;
  // Every word of the image is made by one L1B; the busiest makes at least the average.
  counts.slot_steps = isa::ceil_div(words, kWordsPerOctet * chip.l2b_count() * chip.l1b_per_l2b);
  // Every pair of vectors of a tile looks at one window at least, through a table of its own.
  counts.tables = shape.vectors / shape.tile_vectors * (shape.tile_vectors / 2) +
                  isa::ceil_div(shape.vectors % shape.tile_vectors, 2);
  counts.picks = counts.tables;
  const int64_t lw = isa::ceil_div(words, isa::kWordsPerLong * chip.l2b_count());
  counts.load_cycles = static_cast<double>(lw) / chip.transfer.l2bm_mv_lw_per_cycle;
  return gather_cycles(counts, shape.used_lw, size_lw, chip);
}

int64_t Gather::dram_cycles() const {
  // By block, groups one after the other: which of its LW are wanted. Words come from near the last.
  static_assert(kBlockLw <= 64);
  std::unordered_map<int64_t, uint64_t> read;
  int64_t block = -1;
  uint64_t* wanted = nullptr;
  for (const Tile& tile : tiles_) {
    for_each_word(tile, [&](int, int32_t, int64_t, int, const GatherSource& source) {
      if (source.is_constant()) return;
      if (source.block() != block) {
        block = source.block();
        wanted = &read[block];
      }
      *wanted |= uint64_t{1} << (source.word() / isa::kWordsPerLong % kBlockLw);
    });
  }
  std::vector<int64_t> lw(problem_.words.size());
  for (size_t group = 0; group < lw.size(); ++group)
    lw[group] = problem_.words[group].empty() ? 0 : problem_.size_lw;
  for (const auto& [address, those] : read)
    lw[static_cast<size_t>(address / kBlocksPerGroup)] += std::popcount(those);
  return static_cast<int64_t>(static_cast<double>(std::ranges::max(lw)) / chip_.transfer.dram_lw_per_cycle);
}

}  // namespace kodama::layout
