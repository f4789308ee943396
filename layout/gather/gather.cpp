#include "layout/gather/gather.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <numeric>
#include <tuple>
#include <unordered_map>
#include <utility>

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
  const GatherRooms rooms(chip, row_lw_);
  constant_octets_ = isa::ceil_div(static_cast<int64_t>(problem.constants.size()), kWordsPerOctet);
  window_octets_ = std::min(shape.lm_octets, problem.lm0_lw / kOctetLw) - constant_octets_;
  if (window_octets_ < kOctetsPerBlock || constant_octets_ * kOctetLw > rooms.image_slots * row_lw_) {
    throw isa::UnsupportedError(
        fmt::format("a gather with {} different constants: it has {} words of LM0", problem.constants.size(),
                    std::min(shape.lm_octets * kWordsPerOctet, problem.lm0_lw * isa::kWordsPerLong)));
  }
  tile_vectors_ = shape.tile_vectors;
  division_ = divide(own_rows(shape.vectors));
  for (Rows& rows : rows_by_source(division_.rows)) {
    Division by_source = divide(std::move(rows));
    if (estimated_cycles(by_source) < estimated_cycles(division_)) division_ = std::move(by_source);
  }
}

Gather::Division Gather::divide(Rows rows) const {
  Division result;
  result.rows = std::move(rows);
  const int64_t vectors = result.vectors();
  for (int64_t first = 0; first < vectors; first += tile_vectors_) {
    Tile tile;
    tile.first_vector = static_cast<int32_t>(first);
    tile.vector_count = static_cast<int32_t>(std::min(tile_vectors_, vectors - first));
    cut(tile, result);
    result.tiles.push_back(std::move(tile));
  }
  return result;
}

Gather::Rows Gather::own_rows(int64_t vectors) const {
  Rows rows(static_cast<size_t>(chip_.l2b_count()));
  const int64_t share = problem_.parts > 1 ? problem_.size_lw / problem_.parts : vectors * row_lw_;
  for (int l2b = 0; l2b < chip_.l2b_count(); ++l2b) {
    const int group = l2b / chip_.l2b_per_group;
    const bool has_image = !problem_.words[static_cast<size_t>(group)].empty();
    const int64_t first = l2b % chip_.l2b_per_group * share;
    const int64_t end = has_image ? std::min(first + share, problem_.size_lw) : first;
    for (int64_t vector = 0; vector < vectors; ++vector) {
      const int64_t begin = first + vector * row_lw_;
      rows[static_cast<size_t>(l2b)].push_back({group, begin, std::clamp<int64_t>(end - begin, 0, row_lw_)});
    }
  }
  return rows;
}

/// Every row in the group that most of its words come from. None where that leaves as many rows to the
/// busiest L2B, and half of the words or more that come from other groups.
std::vector<Gather::Rows> Gather::rows_by_source(const Rows& own) const {
  if (problem_.parts > 1) return {};
  const auto groups = static_cast<size_t>(chip_.groups);
  struct Known {
    Row row;
    std::vector<int64_t> words;  ///< by group that they come from
    int64_t lowest = INT64_MAX;  ///< block
  };
  std::vector<Known> all;
  for (const std::vector<Row>& of_l2b : own) {
    for (const Row& row : of_l2b) {
      if (row.size == 0) continue;
      Known known{row, std::vector<int64_t>(groups)};
      const std::vector<GatherSource>& words = problem_.words[static_cast<size_t>(row.group)];
      for (int64_t k = isa::kWordsPerLong * row.begin; k < isa::kWordsPerLong * (row.begin + row.size); ++k) {
        const GatherSource& source = words[static_cast<size_t>(k)];
        if (source.is_constant()) continue;
        ++known.words[static_cast<size_t>(source.group())];
        known.lowest = std::min(known.lowest, source.block() % kBlocksPerGroup);
      }
      all.push_back(std::move(known));
    }
  }
  const auto l2bs = static_cast<size_t>(chip_.l2b_count());
  const auto per_group = static_cast<size_t>(chip_.l2b_per_group);
  const size_t vectors = (all.size() + l2bs - 1) / l2bs;
  int64_t foreign = 0, still_foreign = 0;
  std::vector<std::vector<std::pair<Row, int64_t>>> made(groups);  // and the lowest block
  // First who has most of the words, then who has room.
  std::vector<bool> is_given(all.size());
  for (const bool is_last : {false, true}) {
    for (size_t k = 0; k < all.size(); ++k) {
      const Known& known = all[k];
      if (is_given[k]) continue;
      const auto home = static_cast<size_t>(known.row.group);
      size_t best = home;
      for (size_t g = 0; g < groups; ++g) {
        const bool has_room = !is_last || made[g].size() < vectors * per_group;
        const bool best_has_room = !is_last || made[best].size() < vectors * per_group;
        if (has_room && (!best_has_room || known.words[g] > known.words[best])) best = g;
      }
      if (made[best].size() == vectors * per_group) continue;
      is_given[k] = true;
      made[best].emplace_back(known.row, known.lowest);
      const int64_t words = std::accumulate(known.words.begin(), known.words.end(), int64_t{0});
      foreign += words - known.words[home];
      still_foreign += words - known.words[best];
    }
  }
  if (vectors == own[0].size() && 2 * still_foreign >= foreign) return {};
  return {shared_rows(made, Share::kOfSource), shared_rows(made, Share::kOfImages)};
}

/// `made`: by group, rows and the first block of each.
Gather::Rows Gather::shared_rows(const std::vector<std::vector<std::pair<Row, int64_t>>>& made,
                                 Share share) const {
  const auto per_group = static_cast<size_t>(chip_.l2b_per_group);
  size_t vectors = 0;
  for (const auto& of_group : made)
    vectors = std::max(vectors, (of_group.size() + per_group - 1) / per_group);
  Rows rows(static_cast<size_t>(chip_.l2b_count()), std::vector<Row>(vectors));
  for (size_t group = 0; group < made.size(); ++group) {
    auto those = made[group];
    std::ranges::sort(those, {}, [&](const std::pair<Row, int64_t>& each) {
      return std::tuple(share == Share::kOfSource ? each.second : 0, each.first.group, each.first.begin);
    });
    const size_t each = (those.size() + per_group - 1) / per_group;
    for (size_t k = 0; k < those.size(); ++k) rows[group * per_group + k / each][k % each] = those[k].first;
    // Groups store into different groups at a time.
    for (size_t l = 0; l < per_group; ++l) {
      std::ranges::sort(rows[group * per_group + l], {}, [&](const Row& row) {
        return std::tuple(row.size == 0, static_cast<size_t>(row.group) ^ group, row.begin);
      });
    }
  }
  return rows;
}

bool Gather::crosses_groups(const Rows& rows) const {
  for (size_t l2b = 0; l2b < rows.size(); ++l2b) {
    for (const Row& row : rows[l2b]) {
      if (row.size > 0 && row.group != static_cast<int>(l2b) / chip_.l2b_per_group) return true;
    }
  }
  return false;
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
  return division_.tables * used_lw_ * chip_.l2b_per_group +
         isa::round_up(constant_octets_ * kOctetLw, kBlockLw);
}

std::vector<std::vector<uint64_t>> Gather::make_tables() const {
  std::vector<std::vector<uint64_t>> tables(static_cast<size_t>(chip_.groups),
                                            std::vector<uint64_t>(static_cast<size_t>(tables_lw())));
  const int64_t constants_at = division_.tables * used_lw_ * chip_.l2b_per_group;
  for (size_t k = 0; k < problem_.constants.size(); ++k) {
    tables[0][static_cast<size_t>(constants_at) + k / 2] |= uint64_t{problem_.constants[k]}
                                                            << (k % 2 == 0 ? 32 : 0);
  }
  for (const Tile& tile : division_.tiles) {
    for_each_word(
        tile, division_.rows, [&](int l2b, int32_t vector, int64_t lw, int half, const GatherSource& source) {
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
          const int64_t part = l2b % chip_.l2b_per_group * division_.tables + table;
          const int64_t entry = at.window % kWindowsPerRound << kAddressBits | at.word;
          tables[static_cast<size_t>(l2b / chip_.l2b_per_group)][static_cast<size_t>(part * used_lw_ + lw)] |=
              static_cast<uint64_t>(entry) << (kEntryBits * (2 * (vector % 2) + half));
        });
  }
  return tables;
}

size_t Gather::window_count() const {
  size_t windows = 0;
  for (const Tile& tile : division_.tiles) windows += tile.windows.size();
  return windows;
}

int64_t Gather::lm1_lw() const {
  int64_t most = 0;
  for (const Tile& tile : division_.tiles)
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
  for (const Tile& tile : division_.tiles) {
    loads += tile.loads.size();
    for (const Load& load : tile.loads) places += load.places.size();
    for (const Slot& slot : tile.slots) octets += std::popcount(slot.octets);
  }
  return fmt::format("{} vectors{}, {} tables, {} windows, {} loads, {} blocks to an L2B, {} LW to a PE",
                     division_.vectors(), crosses_groups(division_.rows) ? " where their words are" : "",
                     division_.tables, window_count(), loads, places, octets * kOctetLw);
}

namespace {

/// What a gather takes, by what was counted of it.
struct GatherCounts {
  int64_t slot_steps = 0;  ///< of copies and broadcasts
  int64_t picks = 0;       ///< tables times windows that look at them
  int64_t tables = 0;
  double load_cycles = 0;   ///< of the transfers that bring what is wanted
  double store_cycles = 0;  ///< of those that store the image
};

/// Of a pick: the window's addresses; four times T, and a read. Picks of several pairs of vectors overlap.
constexpr int64_t kStepsPerPick = 12;

int64_t gather_cycles(const GatherCounts& counts, int64_t used_lw, const isa::Chip& chip) {
  constexpr int64_t kStartSteps = 50;
  const auto steps = static_cast<double>((kStartSteps + counts.slot_steps + kStepsPerPick * counts.picks) *
                                         isa::kCyclesPerStep);
  const double tables =
      static_cast<double>(counts.tables * used_lw * chip.l2b_per_group) / chip.transfer.dram_lw_per_cycle;
  const double transfers = counts.load_cycles + tables + counts.store_cycles;
  // Transfers run beside steps, its own and those of the programs around it, but not all of them. The part is
  // what relayouts in training steps took.
  constexpr double kPartBehind = 0.4;
  return static_cast<int64_t>(std::max(steps, transfers) + kPartBehind * std::min(steps, transfers));
}

double start_cycles(size_t transfers, const isa::Chip& chip) {
  return static_cast<double>(static_cast<int64_t>(transfers) * chip.transfer.issue_interval_steps *
                             isa::kCyclesPerStep);
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
  return std::max({start_cycles(all.size(), chip_),
                   static_cast<double>(std::ranges::max(into)) / chip_.transfer.l2bm_mv_lw_per_cycle,
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
  return estimated_cycles(division_);
}

int64_t Gather::estimated_cycles(const Division& division) const {
  GatherCounts counts{.picks = division.picks, .tables = division.tables};
  for (const Tile& tile : division.tiles) {
    counts.slot_steps += slot_steps(tile);
    for (const Load& load : tile.loads) counts.load_cycles += load_cycles(load);
  }
  // Every group's L2Bs store into their own DRAM, or each row is a transfer of its own.
  const bool crosses = crosses_groups(division.rows);
  for (size_t vector = 0; vector < static_cast<size_t>(division.vectors()); ++vector) {
    std::vector<int64_t> into(static_cast<size_t>(chip_.groups));
    size_t transfers = 0;
    for (const std::vector<Row>& rows : division.rows) {
      into[static_cast<size_t>(rows[vector].group)] += rows[vector].size;
      transfers += crosses && rows[vector].size > 0 ? 1 : 0;
    }
    counts.store_cycles +=
        std::max(start_cycles(transfers, chip_),
                 static_cast<double>(std::ranges::max(into)) / chip_.transfer.dram_lw_per_cycle);
  }
  return gather_cycles(counts, used_lw_, chip_);
}

int64_t least_gather_cycles(int64_t size_lw, int64_t parts, int64_t groups, int64_t words,
                            const isa::Chip& chip) {
  const GatherShape shape(size_lw, parts, chip);
  GatherCounts counts;
  // Every word of the image is made by one L1B; the busiest makes at least the average.
  counts.slot_steps = isa::ceil_div(words, kWordsPerOctet * chip.l2b_count() * chip.l1b_per_l2b);
  // Every pair of vectors of a tile looks at one window at least, through a table of its own. Of an image
  // that isn't in parts every L2B may make a share.
  int64_t vectors = shape.vectors;
  if (parts == 1)
    vectors =
        std::min(vectors, isa::ceil_div(isa::ceil_div(size_lw, shape.row_lw) * groups, chip.l2b_count()));
  counts.tables = vectors / shape.tile_vectors * (shape.tile_vectors / 2) +
                  isa::ceil_div(vectors % shape.tile_vectors, 2);
  counts.picks = counts.tables;
  const int64_t lw = isa::ceil_div(words, isa::kWordsPerLong * chip.l2b_count());
  counts.load_cycles = static_cast<double>(lw) / chip.transfer.l2bm_mv_lw_per_cycle;
  counts.store_cycles = static_cast<double>(size_lw) / chip.transfer.dram_lw_per_cycle;
  return gather_cycles(counts, shape.used_lw, chip);
}

int64_t Gather::dram_cycles() const {
  // By block, groups one after the other: which of its LW are wanted. Words come from near the last.
  static_assert(kBlockLw <= 64);
  std::unordered_map<int64_t, uint64_t> read;
  int64_t block = -1;
  uint64_t* wanted = nullptr;
  for (const Tile& tile : division_.tiles) {
    for_each_word(tile, division_.rows, [&](int, int32_t, int64_t, int, const GatherSource& source) {
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
