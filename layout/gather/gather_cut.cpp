#include <algorithm>
#include <array>
#include <bit>
#include <map>
#include <numeric>
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
/// Blocks that one step of l2bmb2 deals: of each, 16 LW to a pair of L1Bs.
constexpr int32_t kDealtBlocks = isa::kCyclesPerStep;

int octet_count(uint32_t octets) {
  return std::popcount(octets);
}

}  // namespace

void Gather::cut(Tile& tile, Division& division) const {
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
  for_each_word(tile, division.rows,
                [&](int l2b, int32_t vector, int64_t lw, int, const GatherSource& source) {
                  if (source.is_constant()) return;
                  const size_t l1b = l1b_of(l2b, lw);
                  const Use use{source.block(), vector};
                  wanted[l1b][use.block] |=
                      static_cast<uint8_t>(1U << (source.word() / kWordsPerOctet % kOctetsPerBlock));
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
  number_tables(tile, division);
}

void Gather::number_tables(Tile& tile, Division& division) {
  for (size_t w = 0; w < tile.windows.size(); ++w) {
    if (static_cast<int64_t>(w) % kWindowsPerRound == 0) {
      tile.rounds.push_back(
          {division.tables, std::vector<int32_t>(static_cast<size_t>(tile.vector_count + 1) / 2, -1)});
    }
    Round& round = tile.rounds.back();
    int32_t last_pair = -1;
    for (const int32_t vector : tile.windows[w].vectors) {
      if (vector / 2 == last_pair) continue;
      last_pair = vector / 2;
      ++division.picks;
      int32_t& table = round.table_of_pair[static_cast<size_t>(last_pair)];
      if (table < 0) table = static_cast<int32_t>(division.tables++ - round.first_table);
    }
  }
}

/// Fills a tile's windows with slots, and L2BM with what they copy, one after the other.
class Gather::SlotMaker {
 public:
  SlotMaker(const Gather& gather, Tile& tile)
      : gather_(gather),
        tile_(tile),
        l2bs_(static_cast<size_t>(gather.chip_.l2b_count())),
        l1bs_(static_cast<size_t>(gather.chip_.l1b_per_l2b)),
        most_places_(GatherRooms(gather.chip_, gather.row_lw_).source_places),
        next_(l1bs_, std::vector<size_t>(l2bs_)),
        phase_(l2bs_) {
    for (size_t l2b = 0; l2b < l2bs_; ++l2b) {
      int64_t lowest = INT64_MAX;
      for (size_t l1b = 0; l1b < l1bs_; ++l1b) {
        if (!list(l1b, l2b).empty()) lowest = std::min(lowest, list(l1b, l2b)[0].address);
      }
      phase_[l2b] = lowest % kDealtBlocks;
    }
  }

  void run(Order order) {
    tile_.windows.emplace_back();  // there is one even if all is constant
    for (;;) {
      const uint32_t dealt = order == Order::kByRank ? deal() : 0;
      if (!copy(order, ~dealt) && dealt == 0) break;
    }
    finish_load();
    int32_t window = -1;
    int64_t octet = 0;
    for (Slot& slot : tile_.slots) {
      if (slot.window != window) octet = gather_.constant_octets_;
      window = slot.window;
      slot.in_window = octet;
      octet += octet_count(slot.octets);
    }
  }

 private:
  /// Blocks, one for an L2B or none, that have those behind them in DRAM behind them in L2BM, too.
  struct Places {
    std::vector<int64_t> blocks;  ///< the first, by L2B
    int32_t count = 1;
    auto operator<=>(const Places&) const = default;
  };
  /// L1Bs that want the same blocks take them together; an L2B where none of them wants one may bring any.
  struct Set {
    Places places;
    uint32_t l1bs = 0;
  };
  /// What a slot would be.
  struct Proposal {
    std::vector<Set> sets;
    std::vector<std::pair<size_t, Copy>> copies;  ///< set
    uint32_t octets = 0;
    std::vector<std::pair<Wanted*, int>> wanted;  ///< and its shift
  };

  std::vector<Wanted>& list(size_t l1b, size_t l2b) const { return tile_.wanted[l2b * l1bs_ + l1b]; }

  /// The set of an L1B that wants these.
  size_t join(std::vector<Set>& sets, Places wanted, size_t l1b) const {
    const auto agrees = [&](const Set& set) {
      for (size_t l2b = 0; l2b < l2bs_; ++l2b) {
        const int64_t a = wanted.blocks[l2b], b = set.places.blocks[l2b];
        if (a != b && a != kNoBlock && b != kNoBlock) return false;
      }
      return true;
    };
    auto set = std::ranges::find_if(sets, agrees);
    if (set == sets.end()) set = sets.insert(sets.end(), {wanted, 0});
    set->l1bs |= uint32_t{1} << l1b;
    for (size_t l2b = 0; l2b < l2bs_; ++l2b)
      set->places.blocks[l2b] = std::max(set->places.blocks[l2b], wanted.blocks[l2b]);
    return static_cast<size_t>(set - sets.begin());
  }

  /// A slot of the next four blocks of every L1B whose next four are side by side, with octets wanted of the
  /// same quarter of each. These L1Bs.
  uint32_t deal() {
    if (static_cast<int64_t>(l1bs_) * isa::kL2bmdRunLw != kBlockLw) return 0;  // it deals other pieces
    uint32_t dealt = 0;
    Proposal proposal;
    std::map<std::pair<size_t, int>, uint32_t> by_shift;  // set, octets: L1Bs
    for (size_t l1b = 0; l1b < l1bs_; ++l1b) {
      Places places{std::vector<int64_t>(l2bs_, kNoBlock), kDealtBlocks};
      uint32_t octets = 0;
      bool has_any = false, is_possible = true;
      for (size_t l2b = 0; l2b < l2bs_ && is_possible; ++l2b) {
        const std::vector<Wanted>& own = list(l1b, l2b);
        const size_t first = next_[l1b][l2b];
        if (first == own.size()) continue;
        has_any = true;
        const int64_t address = own[first].address;
        is_possible = (address - phase_[l2b]) % kDealtBlocks == 0 && first + kDealtBlocks <= own.size() &&
                      own[first + kDealtBlocks - 1].address == address + kDealtBlocks - 1;
        for (size_t k = 0; k < kDealtBlocks && is_possible; ++k) octets |= own[first + k].octets;
        places.blocks[l2b] = address;
      }
      const int quarter = octets == 0 ? 0 : std::countr_zero(octets) / kShiftOctets;
      if (!has_any || !is_possible || octets >> (quarter + 1) * kShiftOctets != 0) continue;
      const int shift = kShiftOctets * (quarter - static_cast<int>(l1b) / 2);
      by_shift[{join(proposal.sets, std::move(places), l1b), shift}] |= uint32_t{1} << l1b;
      dealt |= uint32_t{1} << l1b;
      for (size_t l2b = 0; l2b < l2bs_; ++l2b) {
        std::vector<Wanted>& own = list(l1b, l2b);
        if (next_[l1b][l2b] == own.size()) continue;
        for (int k = 0; k < static_cast<int>(kDealtBlocks); ++k) {
          Wanted& each = own[next_[l1b][l2b]++];
          const int before = kShiftOctets * (quarter - k);
          proposal.octets |= before >= 0 ? uint32_t{each.octets} >> before : uint32_t{each.octets} << -before;
          proposal.wanted.emplace_back(&each, before);
        }
      }
    }
    if (dealt == 0) return 0;
    for (const auto& [where, l1bs] : by_shift)
      proposal.copies.push_back({where.first, {0, where.second, l1bs, true}});
    add(std::move(proposal));
    return dealt;
  }

  /// A slot of the next block of each of these L1Bs. False if there is none.
  bool copy(Order order, uint32_t l1bs) {
    // The blocks at which the L2Bs are, where that decides.
    std::vector<int64_t> at(l2bs_, INT64_MAX);
    if (order == Order::kByAddress) {
      for (size_t l1b = 0; l1b < l1bs_; ++l1b) {
        for (size_t l2b = 0; l2b < l2bs_; ++l2b) {
          const std::vector<Wanted>& own = list(l1b, l2b);
          if (next_[l1b][l2b] < own.size()) at[l2b] = std::min(at[l2b], own[next_[l1b][l2b]].address);
        }
      }
    }
    Proposal proposal;
    uint32_t octets = 0, shifted = 0;
    std::vector<int> shifts(l1bs_);
    for (size_t l1b = 0; l1b < l1bs_; ++l1b) {
      if ((l1bs >> l1b & 1) == 0) continue;
      Places places{std::vector<int64_t>(l2bs_, kNoBlock), 1};
      uint32_t own_octets = 0;
      const size_t first = proposal.wanted.size();
      for (size_t l2b = 0; l2b < l2bs_; ++l2b) {
        std::vector<Wanted>& own = list(l1b, l2b);
        if (next_[l1b][l2b] == own.size() || own[next_[l1b][l2b]].address > at[l2b]) continue;
        Wanted& each = own[next_[l1b][l2b]++];
        places.blocks[l2b] = each.address;
        own_octets |= each.octets;
        proposal.wanted.emplace_back(&each, 0);
      }
      if (own_octets == 0) continue;
      shifts[l1b] = std::countr_zero(own_octets) / kShiftOctets * kShiftOctets;
      for (size_t k = first; k < proposal.wanted.size(); ++k) proposal.wanted[k].second = shifts[l1b];
      octets |= own_octets;
      shifted |= own_octets >> shifts[l1b];
      join(proposal.sets, std::move(places), l1b);
    }
    if (proposal.wanted.empty()) return false;
    // Each L1B's octets may begin at the slot's place, or all blocks. Copies and broadcasts share steps.
    for (size_t k = 0; k < proposal.sets.size(); ++k) {
      std::map<int, uint32_t> by_shift;
      for (size_t l1b = 0; l1b < l1bs_; ++l1b) {
        if ((proposal.sets[k].l1bs >> l1b & 1) != 0) by_shift[shifts[l1b]] |= uint32_t{1} << l1b;
      }
      for (const auto& [shift, those] : by_shift) proposal.copies.push_back({k, {0, shift, those}});
    }
    const auto steps = [](size_t copy_count, uint32_t broadcast) {
      return std::max(static_cast<int>(copy_count), octet_count(broadcast));
    };
    const int alike = steps(proposal.sets.size(), octets), apart = steps(proposal.copies.size(), shifted);
    if (alike < apart || (alike == apart && octet_count(octets) <= octet_count(shifted))) {
      proposal.copies.clear();
      for (size_t k = 0; k < proposal.sets.size(); ++k)
        proposal.copies.push_back({k, {0, 0, proposal.sets[k].l1bs}});
      for (auto& [each, shift] : proposal.wanted) shift = 0;
      shifted = octets;
    }
    proposal.octets = shifted;
    add(std::move(proposal));
    return true;
  }

  void add(Proposal proposal) {
    const auto count = static_cast<int32_t>(tile_.slots.size());
    int64_t new_places = 0;
    for (const Set& set : proposal.sets) new_places += number_.contains(set.places) ? 0 : set.places.count;
    if (tile_.loads.empty() || place_count_ + new_places > most_places_) {
      finish_load();
      tile_.loads.push_back({count, {}});
    }
    uint32_t l1bs = 0;
    for (const Set& set : proposal.sets) l1bs |= set.l1bs;
    // A slot of this load and window whose other L1Bs want something, else a new one.
    const auto begin =
        tile_.slots.begin() + std::max(tile_.loads.back().first_slot, tile_.windows.back().first_slot);
    auto slot = std::find_if(begin, tile_.slots.end(), [&](const Slot& other) {
      return std::ranges::all_of(other.copies, [&](const Copy& copy) { return (copy.l1bs & l1bs) == 0; });
    });
    const uint32_t before = slot == tile_.slots.end() ? 0 : slot->octets;
    if (octets_ + octet_count(proposal.octets & ~before) > gather_.window_octets_) {
      tile_.windows.push_back({count, {}});
      octets_ = 0;
      slot = tile_.slots.end();
    }
    if (slot == tile_.slots.end()) {
      slot = tile_.slots.insert(slot, Slot{});
      slot->window = static_cast<int32_t>(tile_.windows.size()) - 1;
    }
    octets_ += octet_count(proposal.octets & ~uint32_t{slot->octets});
    slot->octets |= static_cast<uint8_t>(proposal.octets);
    for (auto& [set, copy] : proposal.copies) {
      const Places& places = proposal.sets[set].places;
      const auto [known, is_new] = number_.try_emplace(places, static_cast<int32_t>(places_.size()));
      if (is_new) {
        places_.push_back(places);
        place_count_ += places.count;
      }
      copy.place = known->second;
      slot->copies.push_back(copy);
    }
    for (const auto& [each, shift] : proposal.wanted) {
      each->slot = static_cast<int32_t>(slot - tile_.slots.begin());
      each->shift = static_cast<int8_t>(shift);
    }
  }

  /// Blocks in the order of addresses come by few transfers; small gaps come along where there is room.
  void finish_load() {
    if (tile_.loads.empty()) return;
    Load& load = tile_.loads.back();
    std::vector<int32_t> order(places_.size());
    std::iota(order.begin(), order.end(), 0);
    std::ranges::sort(order, {}, [&](int32_t k) -> const Places& { return places_[static_cast<size_t>(k)]; });
    const auto gap = [](const Places& a, const Places& b) {
      int64_t same = -1;
      for (size_t l2b = 0; l2b < a.blocks.size(); ++l2b) {
        if (a.blocks[l2b] == kNoBlock || b.blocks[l2b] == kNoBlock) continue;
        const int64_t own = b.blocks[l2b] - a.blocks[l2b] - a.count;
        if (own < 0 || own > kLargestGapBlocks || (same >= 0 && own != same)) return int64_t{0};
        same = own;
      }
      return std::max<int64_t>(same, 0);
    };
    int64_t spare = most_places_ - place_count_;
    std::vector<int32_t> place(places_.size());
    for (size_t k = 0; k < order.size(); ++k) {
      const Places& those = places_[static_cast<size_t>(order[k])];
      if (k > 0) {
        const int64_t between = gap(places_[static_cast<size_t>(order[k - 1])], those);
        if (between <= spare) {
          load.places.resize(load.places.size() + static_cast<size_t>(between),
                             std::vector<int64_t>(l2bs_, kNoBlock));
          spare -= between;
        }
      }
      place[static_cast<size_t>(order[k])] = static_cast<int32_t>(load.places.size());
      for (int32_t n = 0; n < those.count; ++n) {
        load.places.push_back(those.blocks);
        for (int64_t& block : load.places.back()) block += block == kNoBlock ? 0 : n;
      }
    }
    for (size_t k = static_cast<size_t>(load.first_slot); k < tile_.slots.size(); ++k) {
      for (Copy& copy : tile_.slots[k].copies) copy.place = place[static_cast<size_t>(copy.place)];
    }
    number_.clear();
    places_.clear();
    place_count_ = 0;
  }

  const Gather& gather_;
  Tile& tile_;
  size_t l2bs_;
  size_t l1bs_;
  int64_t most_places_;
  std::vector<std::vector<size_t>> next_;  ///< by L1B and L2B: of its blocks
  std::vector<int64_t> phase_;             ///< by L2B: of four blocks that are dealt
  // Of the load that is being filled.
  std::map<Places, int32_t> number_;
  std::vector<Places> places_;
  int64_t place_count_ = 0;
  int64_t octets_ = 0;  ///< of the window that is being filled
};

void Gather::make_slots(Tile& tile, Order order) const {
  SlotMaker(*this, tile).run(order);
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
