#include <algorithm>
#include <array>
#include <bit>
#include <map>
#include <utility>

#include "isa/error.h"
#include "layout/gather/gather_parts.h"

/// How a gather is cut into loads, slots and windows.
namespace kodama::layout {
namespace {

/// Octets that an L1B wants, by block. Blocks come in any order, most of them near the last.
class BlockTable {
 public:
  uint8_t& operator[](int64_t address) {
    const int64_t number = address >> kPageShift;
    if (page_ == nullptr || number != number_) {
      number_ = number;
      page_ = &pages_[number];
      if (page_->empty()) page_->resize(size_t{1} << kPageShift);
    }
    return (*page_)[static_cast<size_t>(address & ((int64_t{1} << kPageShift) - 1))];
  }
  /// Calls visit(address, octets) in the order of addresses, also for blocks that nobody has asked for.
  template <typename Visit>
  void for_each(Visit&& visit) const {
    for (const auto& [number, page] : pages_) {
      for (size_t k = 0; k < page.size(); ++k)
        visit((number << kPageShift) + static_cast<int64_t>(k), page[k]);
    }
  }

 private:
  static constexpr int kPageShift = 12;
  std::map<int64_t, std::vector<uint8_t>> pages_;
  int64_t number_ = 0;
  std::vector<uint8_t>* page_ = nullptr;
};

/// Addresses of l2bmb are multiples of these.
constexpr int kShiftOctets = isa::kL2bmAlignmentLw / kOctetLw;

int octet_count(uint32_t octets) {
  return std::popcount(octets);
}

}  // namespace

void Gather::cut(Tile& tile) {
  struct Use {
    int64_t block;  ///< its address, until all are known; then its number among those that the L1B wants
    int32_t vector;
    bool operator==(const Use&) const = default;
  };
  const auto number_blocks = [](const std::vector<Wanted>& list, std::vector<Use>& of) {
    size_t at = 0;
    for (Use& use : of) {
      // Most are the block of the use before, or the next one.
      if (list[at].address != use.block && at + 1 < list.size()) ++at;
      if (list[at].address != use.block)
        at = static_cast<size_t>(std::ranges::lower_bound(list, use.block, std::less<>(), &Wanted::address) -
                                 list.begin());
      use.block = static_cast<int64_t>(at);
    }
  };
  const auto l1bs = static_cast<size_t>(chip_.l2b_count()) * static_cast<size_t>(chip_.l1b_per_l2b);
  std::vector<BlockTable> wanted(l1bs);
  std::vector<std::vector<Use>> uses(l1bs);  // neighbours differ
  for_each_word(tile, [&](int l2b, int32_t vector, int64_t lw, int, const GatherSource& source) {
    if (source.is_constant()) return;
    const size_t l1b = l1b_of(l2b, lw);
    const Use use{source.block(), vector};
    wanted[l1b][use.block] |= static_cast<uint8_t>(1U << (source.word() / kWordsPerOctet % kOctetsPerBlock));
    std::vector<Use>& list = uses[l1b];
    if (list.empty() || !(list.back() == use)) list.push_back(use);
  });
  tile.wanted.resize(l1bs);
  for (size_t l1b = 0; l1b < l1bs; ++l1b) {
    wanted[l1b].for_each([&](int64_t address, uint8_t octets) {
      if (octets != 0) tile.wanted[l1b].push_back({address, octets});
    });
    number_blocks(tile.wanted[l1b], uses[l1b]);
  }
  wanted.clear();

  // Which vectors look at which windows, and what that takes.
  const auto find_vectors = [&](Tile& made) {
    std::vector<std::vector<bool>> present(made.windows.size(),
                                           std::vector<bool>(static_cast<size_t>(made.vector_count)));
    for (size_t l1b = 0; l1b < l1bs; ++l1b) {
      for (const Use& use : uses[l1b]) {
        const Wanted& block = made.wanted[l1b][static_cast<size_t>(use.block)];
        const Slot& slot = made.slots[static_cast<size_t>(block.slot)];
        present[static_cast<size_t>(slot.window)][static_cast<size_t>(use.vector)] = true;
      }
    }
    made.first_window.assign(static_cast<size_t>(made.vector_count), -1);
    made.last_window.assign(static_cast<size_t>(made.vector_count), 0);
    for (size_t w = 0; w < made.windows.size(); ++w) {
      for (int32_t v = 0; v < made.vector_count; ++v) {
        if (!present[w][static_cast<size_t>(v)]) continue;
        int32_t& first = made.first_window[static_cast<size_t>(v)];
        if (first < 0) first = static_cast<int32_t>(w);
        made.last_window[static_cast<size_t>(v)] = static_cast<int32_t>(w);
      }
    }
    // Constants come with a vector's first window; a vector of nothing else takes the first there is.
    for (int32_t v = 0; v < made.vector_count; ++v) {
      if (made.first_window[static_cast<size_t>(v)] >= 0) continue;
      made.first_window[static_cast<size_t>(v)] = 0;
      present[0][static_cast<size_t>(v)] = true;
    }
    for (size_t w = 0; w < made.windows.size(); ++w) {
      for (int32_t v = 0; v < made.vector_count; ++v) {
        if (present[w][static_cast<size_t>(v)]) made.windows[w].vectors.push_back(v);
      }
    }
  };
  Tile by_address = tile;
  make_slots(by_address, Order::kByAddress);
  find_vectors(by_address);
  make_slots(tile, Order::kByRank);
  find_vectors(tile);
  if (tile_cycles(by_address) < tile_cycles(tile)) tile = std::move(by_address);
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

void Gather::make_slots(Tile& tile, Order order) const {
  const auto l2bs = static_cast<size_t>(chip_.l2b_count());
  const auto l1bs = static_cast<size_t>(chip_.l1b_per_l2b);
  const auto list = [&](size_t l1b, size_t l2b) -> std::vector<Wanted>& {
    return tile.wanted[l2b * l1bs + l1b];
  };
  tile.windows.emplace_back();  // there is one even if all is constant
  Cut cut;
  std::vector<std::vector<size_t>> next(l1bs, std::vector<size_t>(l2bs));
  for (;;) {
    // The blocks at which the L2Bs are, where that decides.
    std::vector<int64_t> at(l2bs, INT64_MAX);
    if (order == Order::kByAddress) {
      for (size_t l1b = 0; l1b < l1bs; ++l1b) {
        for (size_t l2b = 0; l2b < l2bs; ++l2b) {
          const std::vector<Wanted>& own = list(l1b, l2b);
          if (next[l1b][l2b] < own.size()) at[l2b] = std::min(at[l2b], own[next[l1b][l2b]].address);
        }
      }
    }
    Candidates candidates(l1bs, std::vector<Wanted*>(l2bs));
    bool has_any = false;
    for (size_t l1b = 0; l1b < l1bs; ++l1b) {
      for (size_t l2b = 0; l2b < l2bs; ++l2b) {
        std::vector<Wanted>& own = list(l1b, l2b);
        if (next[l1b][l2b] == own.size() || own[next[l1b][l2b]].address > at[l2b]) continue;
        candidates[l1b][l2b] = &own[next[l1b][l2b]++];
        has_any = true;
      }
    }
    if (!has_any) break;
    add_slot(tile, candidates, cut);
  }
  finish_load(tile);
  int32_t window = -1;
  int64_t octet = 0;
  for (Slot& slot : tile.slots) {
    if (slot.window != window) octet = constant_octets_;
    window = slot.window;
    slot.in_window = octet;
    octet += octet_count(slot.octets);
  }
}

void Gather::add_slot(Tile& tile, const Candidates& candidates, Cut& cut) const {
  const int64_t most_places = GatherRooms(chip_, row_lw_).source_half / kBlockLw;
  // L1Bs that want the same block take it together; an L2B where none of them wants one may bring any.
  struct Set {
    std::vector<int64_t> blocks;  ///< by L2B
    uint32_t l1bs = 0;
  };
  std::vector<Set> sets;
  std::vector<int> shifts(candidates.size());
  uint32_t octets = 0, shifted = 0, l1bs = 0;
  for (size_t l1b = 0; l1b < candidates.size(); ++l1b) {
    std::vector<int64_t> blocks;
    uint32_t own = 0;
    for (const Wanted* each : candidates[l1b]) {
      blocks.push_back(each == nullptr ? kNoBlock : each->address);
      if (each != nullptr) own |= each->octets;
    }
    if (own == 0) continue;
    shifts[l1b] = std::countr_zero(own) / kShiftOctets * kShiftOctets;
    octets |= own;
    shifted |= own >> shifts[l1b];
    l1bs |= uint32_t{1} << l1b;
    const auto agrees = [&](const Set& set) {
      for (size_t l2b = 0; l2b < blocks.size(); ++l2b) {
        if (blocks[l2b] != set.blocks[l2b] && blocks[l2b] != kNoBlock && set.blocks[l2b] != kNoBlock)
          return false;
      }
      return true;
    };
    auto set = std::ranges::find_if(sets, agrees);
    if (set == sets.end()) set = sets.insert(sets.end(), {blocks, 0});
    set->l1bs |= uint32_t{1} << l1b;
    for (size_t l2b = 0; l2b < blocks.size(); ++l2b)
      set->blocks[l2b] = std::max(set->blocks[l2b], blocks[l2b]);
  }
  // Each L1B's octets may begin at the slot's place, or all blocks. Copies and broadcasts share steps.
  std::vector<std::pair<size_t, Copy>> copies;  // set
  for (size_t k = 0; k < sets.size(); ++k) {
    std::map<int, uint32_t> by_shift;
    for (size_t l1b = 0; l1b < candidates.size(); ++l1b) {
      if ((sets[k].l1bs >> l1b & 1) != 0) by_shift[shifts[l1b]] |= uint32_t{1} << l1b;
    }
    for (const auto& [shift, those] : by_shift) copies.push_back({k, {0, shift, those}});
  }
  const auto steps = [](size_t copy_count, uint32_t broadcast) {
    return std::max(static_cast<int>(copy_count), octet_count(broadcast));
  };
  const int alike = steps(sets.size(), octets), apart = steps(copies.size(), shifted);
  if (alike < apart || (alike == apart && octet_count(octets) <= octet_count(shifted))) {
    copies.clear();
    for (size_t k = 0; k < sets.size(); ++k) copies.push_back({k, {0, 0, sets[k].l1bs}});
    std::ranges::fill(shifts, 0);
    shifted = octets;
  }

  const auto count = static_cast<int32_t>(tile.slots.size());
  int64_t new_places = 0;
  for (const Set& set : sets) new_places += cut.places.contains(set.blocks) ? 0 : 1;
  if (tile.loads.empty() || static_cast<int64_t>(cut.places.size()) + new_places > most_places) {
    finish_load(tile);
    cut.places.clear();
    tile.loads.push_back({count, {}});
  }
  // A slot of this load and window whose other L1Bs want something, else a new one.
  const auto begin =
      tile.slots.begin() + std::max(tile.loads.back().first_slot, tile.windows.back().first_slot);
  auto slot = std::find_if(begin, tile.slots.end(), [&](const Slot& other) {
    return std::ranges::all_of(other.copies, [&](const Copy& copy) { return (copy.l1bs & l1bs) == 0; });
  });
  const uint32_t before = slot == tile.slots.end() ? 0 : slot->octets;
  if (cut.octets + octet_count(shifted & ~before) > window_octets_) {
    tile.windows.push_back({count, {}});
    cut.octets = 0;
    slot = tile.slots.end();
  }
  if (slot == tile.slots.end()) {
    slot = tile.slots.insert(slot, Slot{});
    slot->window = static_cast<int32_t>(tile.windows.size()) - 1;
  }
  cut.octets += octet_count(shifted & ~uint32_t{slot->octets});
  slot->octets |= static_cast<uint8_t>(shifted);
  for (auto& [set, copy] : copies) {
    const auto [place, is_new] =
        cut.places.try_emplace(sets[set].blocks, static_cast<int32_t>(cut.places.size()));
    if (is_new) tile.loads.back().places.push_back(sets[set].blocks);
    copy.place = place->second;
    slot->copies.push_back(copy);
  }
  for (size_t l1b = 0; l1b < candidates.size(); ++l1b) {
    for (Wanted* each : candidates[l1b]) {
      if (each == nullptr) continue;
      each->slot = static_cast<int32_t>(slot - tile.slots.begin());
      each->shift = static_cast<int8_t>(shifts[l1b]);
    }
  }
}

void Gather::finish_load(Tile& tile) const {
  if (tile.loads.empty()) return;
  // Blocks in the order of addresses come by few transfers; small gaps come along where there is room.
  Load& load = tile.loads.back();
  const int64_t most_places = GatherRooms(chip_, row_lw_).source_half / kBlockLw;
  std::vector<int32_t> order(load.places.size());
  for (size_t k = 0; k < order.size(); ++k) order[k] = static_cast<int32_t>(k);
  const auto blocks = [&](int32_t place) -> const std::vector<int64_t>& {
    return load.places[static_cast<size_t>(place)];
  };
  std::ranges::sort(order, [&](int32_t a, int32_t b) { return blocks(a) < blocks(b); });
  const auto gap = [](const std::vector<int64_t>& a, const std::vector<int64_t>& b) {
    int64_t same = -1;
    for (size_t l2b = 0; l2b < a.size(); ++l2b) {
      if (a[l2b] == kNoBlock || b[l2b] == kNoBlock) continue;
      const int64_t own = b[l2b] - a[l2b] - 1;
      if (own < 0 || own > kLargestGapBlocks || (same >= 0 && own != same)) return int64_t{0};
      same = own;
    }
    return std::max<int64_t>(same, 0);
  };
  int64_t spare = most_places - static_cast<int64_t>(order.size());
  std::vector<std::vector<int64_t>> places;
  std::vector<int32_t> number(order.size());
  for (size_t k = 0; k < order.size(); ++k) {
    if (k > 0) {
      const int64_t between = gap(blocks(order[k - 1]), blocks(order[k]));
      if (between <= spare) {
        places.resize(places.size() + static_cast<size_t>(between),
                      std::vector<int64_t>(blocks(order[k]).size(), kNoBlock));
        spare -= between;
      }
    }
    number[static_cast<size_t>(order[k])] = static_cast<int32_t>(places.size());
    places.push_back(blocks(order[k]));
  }
  load.places = std::move(places);
  for (size_t k = static_cast<size_t>(load.first_slot); k < tile.slots.size(); ++k) {
    for (Copy& copy : tile.slots[k].copies) copy.place = number[static_cast<size_t>(copy.place)];
  }
}

std::vector<Gather::Run> Gather::runs(const Load& load) const {
  const auto l2bs = static_cast<size_t>(chip_.l2b_count());
  std::map<std::pair<int64_t, int64_t>, std::vector<Run>> alike;  // first place, blocks: one an L2B at most
  size_t takers = 0;
  for (size_t l2b = 0; l2b < l2bs; ++l2b) {
    std::vector<Run> own;
    for (size_t place = 0; place < load.places.size(); ++place) {
      const int64_t address = load.places[place][l2b];
      const auto at = static_cast<int64_t>(place);
      if (address == kNoBlock) continue;
      // A block's address has the group in its upper bits, so runs never cross groups.
      if (!own.empty() && address - own.back().address == at - own.back().first_place &&
          at - own.back().first_place - own.back().blocks <= kLargestGapBlocks) {
        own.back().blocks = at - own.back().first_place + 1;
      } else {
        own.push_back({Run::To::kL2b, static_cast<int>(l2b), at, address, 1});
      }
    }
    takers += own.empty() ? 0 : 1;
    for (const Run& run : own) alike[{run.first_place, run.blocks}].push_back(run);
  }
  const auto per_group = static_cast<size_t>(chip_.l2b_per_group);
  const auto groups = static_cast<size_t>(chip_.groups);
  std::vector<Run> all;
  for (auto& group_of_runs : alike) {
    std::vector<Run>& those = group_of_runs.second;
    if (those.size() == takers && takers > 1 &&
        std::ranges::all_of(those, [&](const Run& run) { return run.address == those[0].address; })) {
      // L2Bs that take nothing may get what the others get. For one alone a broadcast is a detour.
      those[0].to = Run::To::kAll;
      all.push_back(those[0]);
      continue;
    }
    // The same place of each group's DRAM for its own L2Bs.
    std::vector<std::vector<Run>> units(per_group);
    for (const Run& run : those) {
      if (run.address / kBlocksPerGroup == run.l2b / chip_.l2b_per_group)
        units[static_cast<size_t>(run.l2b) % per_group].push_back(run);
    }
    const auto local = [](const Run& run) { return run.address % kBlocksPerGroup; };
    std::vector<bool> is_common(per_group);
    for (size_t unit = 0; unit < per_group; ++unit) {
      is_common[unit] = groups > 1 && units[unit].size() == groups &&
                        std::ranges::all_of(
                            units[unit], [&](const Run& run) { return local(run) == local(units[unit][0]); });
    }
    const bool is_one = per_group > 1 && std::ranges::all_of(is_common, [](bool each) { return each; }) &&
                        std::ranges::all_of(units, [&](const std::vector<Run>& unit) {
                          return local(unit[0]) == local(units[0][0]);
                        });
    for (const Run& run : those) {
      const size_t unit = static_cast<size_t>(run.l2b) % per_group;
      const bool is_own = run.address / kBlocksPerGroup == run.l2b / chip_.l2b_per_group;
      if (!is_own || !is_common[unit]) {
        all.push_back(run);
      } else if (run == units[unit][0] && (!is_one || unit == 0)) {
        all.push_back(run);
        all.back().to = is_one ? Run::To::kAllOfGroup : Run::To::kGroups;
      }
    }
  }
  return all;
}

}  // namespace kodama::layout
