#include "layout/gather/gather.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <map>

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
  const int64_t part = problem_.size_lw / problem_.parts;
  Row row;
  row.begin = problem_.parts > 1 ? l2b_of_group * part + vector * row_lw_
                                 : (vector * chip_.l2b_per_group + l2b_of_group) * row_lw_;
  const int64_t end = problem_.parts > 1 ? (l2b_of_group + 1) * part : problem_.size_lw;
  row.size = std::clamp<int64_t>(end - row.begin, 0, row_lw_);
  return row;
}

/// Calls visit(L2B, vector of the tile, LW of the row, half, source).
template <typename Visit>
void Gather::for_each_word(const Tile& tile, Visit&& visit) const {
  for (size_t group = 0; group < problem_.words.size(); ++group) {
    const std::vector<GatherSource>& words = problem_.words[group];
    if (words.empty()) continue;
    for (int32_t vector = 0; vector < tile.vector_count; ++vector) {
      for (int l = 0; l < chip_.l2b_per_group; ++l) {
        const auto l2b = static_cast<int>(group) * chip_.l2b_per_group + l;
        const Row own = row(tile.first_vector + vector, l);
        for (int64_t lw = 0; lw < own.size; ++lw) {
          for (int half = 0; half < 2; ++half)
            visit(l2b, vector, lw, half, words[static_cast<size_t>(2 * (own.begin + lw) + half)]);
        }
      }
    }
  }
}

Gather::Home Gather::home(const Tile& tile, int l2b, const GatherSource& source) {
  const std::vector<int64_t>& addresses = tile.addresses[static_cast<size_t>(l2b)];
  const auto number = std::ranges::lower_bound(addresses, source.block()) - addresses.begin();
  const Slot& slot = tile.slots[static_cast<size_t>(tile.blocks[static_cast<size_t>(number)].slot)];
  const int64_t octet = source.word() / kWordsPerOctet % kOctetsPerBlock;
  const auto before = static_cast<uint8_t>(slot.octets & ((1U << octet) - 1));
  return {slot.window, lm_word(slot.in_window + std::popcount(before), source.word() % kWordsPerOctet)};
}

namespace {

/// Blocks of DRAM that an L2B wants, by address. Addresses come in any order, most of them near the last.
template <typename Block>
class BlockTable {
 public:
  Block& operator[](int64_t address) {
    const int64_t number = address >> kPageShift;
    if (page_ == nullptr || number != number_) {
      number_ = number;
      page_ = &pages_[number];
      if (page_->empty()) page_->resize(size_t{1} << kPageShift);
    }
    return (*page_)[static_cast<size_t>(address & ((int64_t{1} << kPageShift) - 1))];
  }
  /// Calls visit(address, block) in the order of addresses, also for blocks that nobody has asked for.
  template <typename Visit>
  void for_each(Visit&& visit) {
    for (auto& [number, page] : pages_) {
      for (size_t k = 0; k < page.size(); ++k)
        visit((number << kPageShift) + static_cast<int64_t>(k), page[k]);
    }
  }

 private:
  static constexpr int kPageShift = 12;
  std::map<int64_t, std::vector<Block>> pages_;
  int64_t number_ = 0;
  std::vector<Block>* page_ = nullptr;
};

}  // namespace

void Gather::cut(Tile& tile) {
  // By L2B, what is wanted of which block by whom.
  struct Wanted {
    uint8_t octets = 0;
    uint32_t l1bs = 0;
    int32_t number = -1;  ///< among the blocks
  };
  struct Use {
    int64_t address;
    int32_t vector;
    bool operator==(const Use&) const = default;
  };
  std::vector<BlockTable<Wanted>> wanted(static_cast<size_t>(chip_.l2b_count()));
  std::vector<std::vector<Use>> uses(wanted.size());  // neighbours differ
  for_each_word(tile, [&](int l2b, int32_t vector, int64_t lw, int, const GatherSource& source) {
    if (source.is_constant()) return;
    const Use use{source.block(), vector};
    Wanted& block = wanted[static_cast<size_t>(l2b)][use.address];
    block.octets |= static_cast<uint8_t>(1U << (source.word() / kWordsPerOctet % kOctetsPerBlock));
    block.l1bs |= uint32_t{1} << (lw / isa::kL2bmdRunLw % chip_.l1b_per_l2b);
    auto& list = uses[static_cast<size_t>(l2b)];
    if (list.empty() || !(list.back() == use)) list.push_back(use);
  });
  tile.addresses.resize(wanted.size());
  for (size_t l2b = 0; l2b < wanted.size(); ++l2b) {
    std::vector<int64_t>& addresses = tile.addresses[l2b];
    wanted[l2b].for_each([&](int64_t address, Wanted& each) {
      if (each.octets == 0) return;
      // Blocks of one transfer: small gaps come along.
      if (!addresses.empty() && address <= addresses.back() + 1 + kLargestGapBlocks) {
        while (addresses.back() < address) addresses.push_back(addresses.back() + 1);
      } else {
        addresses.push_back(address);
      }
      if (addresses.size() > tile.blocks.size()) tile.blocks.resize(addresses.size());
      each.number = static_cast<int32_t>(addresses.size() - 1);
      Block& block = tile.blocks[addresses.size() - 1];
      block.octets |= each.octets;
      block.l1bs |= each.l1bs;
    });
  }
  cut_windows(tile);

  std::vector<std::vector<bool>> present(tile.windows.size(),
                                         std::vector<bool>(static_cast<size_t>(tile.vector_count)));
  for (size_t l2b = 0; l2b < wanted.size(); ++l2b) {
    for (const Use& use : uses[l2b]) {
      const Block& block = tile.blocks[static_cast<size_t>(wanted[l2b][use.address].number)];
      const Slot& slot = tile.slots[static_cast<size_t>(block.slot)];
      present[static_cast<size_t>(slot.window)][static_cast<size_t>(use.vector)] = true;
    }
  }
  tile.first_window.assign(static_cast<size_t>(tile.vector_count), -1);
  tile.last_window.assign(static_cast<size_t>(tile.vector_count), 0);
  for (size_t w = 0; w < tile.windows.size(); ++w) {
    for (int32_t v = 0; v < tile.vector_count; ++v) {
      if (!present[w][static_cast<size_t>(v)]) continue;
      int32_t& first = tile.first_window[static_cast<size_t>(v)];
      if (first < 0) first = static_cast<int32_t>(w);
      tile.last_window[static_cast<size_t>(v)] = static_cast<int32_t>(w);
    }
  }
  // Constants come with a vector's first window; a vector of nothing else takes the first there is.
  for (int32_t v = 0; v < tile.vector_count; ++v) {
    if (tile.first_window[static_cast<size_t>(v)] >= 0) continue;
    tile.first_window[static_cast<size_t>(v)] = 0;
    present[0][static_cast<size_t>(v)] = true;
  }
  for (size_t w = 0; w < tile.windows.size(); ++w) {
    for (int32_t v = 0; v < tile.vector_count; ++v) {
      if (present[w][static_cast<size_t>(v)]) tile.windows[w].vectors.push_back(v);
    }
  }
  number_tables(tile);
}

void Gather::number_tables(Tile& tile) {
  for (size_t w = 0; w < tile.windows.size(); ++w) {
    if (static_cast<int64_t>(w) % kWindowsPerRound == 0) {
      tile.rounds.push_back(
          {tables_, std::vector<int32_t>(static_cast<size_t>(tile.vector_count + 1) / 2, -1)});
    }
    Round& round = tile.rounds.back();
    int32_t last_pair = -1;
    for (const int32_t vector : tile.windows[w].vectors) {
      if (vector / 2 == last_pair) continue;
      last_pair = vector / 2;
      ++picks_;
      int32_t& table = round.table_of_pair[static_cast<size_t>(last_pair)];
      if (table < 0) table = static_cast<int32_t>(tables_++ - round.first_table);
    }
  }
}

void Gather::cut_windows(Tile& tile) {
  const int64_t most_blocks = GatherRooms(chip_, row_lw_).source_half / kBlockLw;
  int64_t octets = 0;
  const auto close = [&] {
    Window& window = tile.windows.back();
    window.slot_count = static_cast<int64_t>(tile.slots.size()) - window.first_slot;
    int64_t at = constant_octets_;
    for (int64_t k = 0; k < window.slot_count; ++k) {
      Slot& slot = tile.slots[static_cast<size_t>(window.first_slot + k)];
      slot.window = static_cast<int32_t>(tile.windows.size() - 1);
      slot.in_window = at;
      at += std::popcount(slot.octets);
    }
    octets = 0;
  };
  const auto open = [&](int64_t block) {
    Window window;
    window.first_block = block;
    window.first_slot = static_cast<int64_t>(tile.slots.size());
    tile.windows.push_back(std::move(window));
  };
  open(0);  // there is one even if all is constant
  for (size_t k = 0; k < tile.blocks.size(); ++k) {
    Block& block = tile.blocks[k];
    // A slot of the window whose L1Bs don't want this block, else a new one.
    const auto find_slot = [&] {
      const auto first = tile.slots.begin() + static_cast<ptrdiff_t>(tile.windows.back().first_slot);
      return std::find_if(first, tile.slots.end(),
                          [&](const Slot& slot) { return (slot.l1bs & block.l1bs) == 0; });
    };
    const auto more_octets = [&](auto slot) {
      const uint8_t before = slot == tile.slots.end() ? uint8_t{0} : slot->octets;
      return std::popcount(static_cast<uint8_t>(block.octets & ~before));
    };
    auto slot = find_slot();
    if (octets + more_octets(slot) > window_octets_ || tile.windows.back().block_count == most_blocks) {
      close();
      open(static_cast<int64_t>(k));
      slot = tile.slots.end();
    }
    ++tile.windows.back().block_count;
    if (block.octets == 0) continue;
    octets += more_octets(slot);
    if (slot == tile.slots.end()) slot = tile.slots.emplace(slot);
    slot->octets |= block.octets;
    slot->l1bs |= block.l1bs;
    slot->blocks.push_back(static_cast<int32_t>(k));
    block.slot = static_cast<int32_t>(slot - tile.slots.begin());
  }
  close();
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
        at = home(tile, l2b, source);
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

int64_t Gather::octets() const {
  int64_t sum = 0;
  for (const Tile& tile : tiles_) {
    for (const Slot& slot : tile.slots) sum += std::popcount(slot.octets);
  }
  return sum;
}

std::string Gather::describe() const {
  size_t blocks = 0;
  for (const Tile& tile : tiles_) blocks += tile.blocks.size();
  return fmt::format("{} vectors, {} tables, {} windows, {} blocks to an L2B, {} LW to a PE", vectors_,
                     tables_, window_count(), blocks, octets() * kOctetLw);
}

std::vector<Gather::Run> Gather::runs(const Tile& tile, const Window& window) const {
  std::vector<std::vector<Run>> runs;  // of each L2B that makes anything
  for (size_t l2b = 0; l2b < tile.addresses.size(); ++l2b) {
    const std::vector<int64_t>& addresses = tile.addresses[l2b];
    if (addresses.empty()) continue;
    std::vector<Run>& own = runs.emplace_back();
    const int64_t end =
        std::min(window.first_block + window.block_count, static_cast<int64_t>(addresses.size()));
    for (int64_t block = window.first_block; block < end; ++block) {
      // A block's address has the group in its upper bits, so runs never cross groups.
      const int64_t address = addresses[static_cast<size_t>(block)];
      if (!own.empty() && address == own.back().address + own.back().blocks) {
        ++own.back().blocks;
      } else {
        own.push_back({static_cast<int>(l2b), block, address, 1});
      }
    }
  }
  if (runs.empty()) return {};
  const auto same_blocks = [](const Run& a, const Run& b) {
    return a.first_block == b.first_block && a.address == b.address && a.blocks == b.blocks;
  };
  const bool all_the_same = std::ranges::all_of(
      runs, [&](const std::vector<Run>& own) { return std::ranges::equal(own, runs[0], same_blocks); });
  if (all_the_same && runs.size() > 1) {
    // L2Bs that make nothing may get what the others get. For one alone a broadcast is a detour.
    for (Run& run : runs[0]) run.l2b = -1;
    return runs[0];
  }
  std::vector<Run> all;
  for (const std::vector<Run>& own : runs) all.insert(all.end(), own.begin(), own.end());
  return all;
}

namespace {

/// What a gather takes, by what was counted of it.
struct GatherCounts {
  int64_t octets = 0;  ///< broadcast to a PE
  int64_t picks = 0;   ///< tables times windows that look at them
  int64_t tables = 0;
  double source_cycles = 0;  ///< of the transfers that bring the windows
};

int64_t gather_cycles(const GatherCounts& counts, int64_t used_lw, int64_t size_lw, const isa::Chip& chip) {
  constexpr int64_t kStartSteps = 50;
  constexpr int64_t kStepsPerPick = 15;  // the window's addresses; four times: set T, wait for it, read
  const auto steps = static_cast<double>(kStartSteps + counts.octets + kStepsPerPick * counts.picks);
  const double dram = static_cast<double>(counts.tables * used_lw * chip.l2b_per_group + size_lw) /
                      chip.transfer.dram_lw_per_cycle;
  return static_cast<int64_t>(steps * isa::kCyclesPerStep + counts.source_cycles + dram);
}

/// The transfers of one window, of so many blocks to an L2B.
double window_cycles(int64_t blocks, int64_t transfers, const isa::Chip& chip) {
  const double arrival = static_cast<double>(blocks * kBlockLw) / chip.transfer.l2bm_mv_lw_per_cycle;
  const auto starts =
      static_cast<double>(transfers * chip.transfer.issue_interval_steps * isa::kCyclesPerStep);
  return std::max(arrival, starts);
}

}  // namespace

int64_t Gather::estimated_cycles() const {
  GatherCounts counts{.octets = octets(), .picks = picks_, .tables = tables_};
  for (const Tile& tile : tiles_) {
    for (const Window& window : tile.windows) {
      counts.source_cycles +=
          window_cycles(window.block_count, static_cast<int64_t>(runs(tile, window).size()), chip_);
    }
  }
  return gather_cycles(counts, used_lw_, problem_.size_lw, chip_);
}

int64_t least_gather_cycles(int64_t size_lw, int64_t parts, int64_t words, const isa::Chip& chip) {
  const GatherShape shape(size_lw, parts, chip);
  GatherCounts counts;
  // Every word of the image is made by one L1B; the busiest makes at least the average.
  counts.octets = isa::ceil_div(words, kWordsPerOctet * chip.l2b_count() * chip.l1b_per_l2b);
  // Every pair of vectors of a tile looks at one window at least, through a table of its own.
  counts.tables = shape.vectors / shape.tile_vectors * (shape.tile_vectors / 2) +
                  isa::ceil_div(shape.vectors % shape.tile_vectors, 2);
  counts.picks = counts.tables;
  const int64_t blocks = isa::ceil_div(words, GatherSource::kWordsPerBlock * chip.l2b_count());
  counts.source_cycles = window_cycles(blocks, words > 0 ? 1 : 0, chip);
  return gather_cycles(counts, shape.used_lw, size_lw, chip);
}

int64_t Gather::dram_cycles() const {
  std::vector<std::vector<int64_t>> read(problem_.words.size());
  for (const Tile& tile : tiles_) {
    for_each_word(tile, [&](int, int32_t, int64_t, int, const GatherSource& source) {
      if (!source.is_constant()) read[static_cast<size_t>(source.group())].push_back(source.word() / 2);
    });
  }
  double most = 0;
  for (size_t group = 0; group < read.size(); ++group) {
    std::ranges::sort(read[group]);
    const auto unique = std::unique(read[group].begin(), read[group].end()) - read[group].begin();
    const int64_t image = problem_.words[group].empty() ? 0 : problem_.size_lw;
    most = std::max(most, static_cast<double>(unique + image) / chip_.transfer.dram_lw_per_cycle);
  }
  return static_cast<int64_t>(most);
}

}  // namespace kodama::layout
