#include "layout/gather.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <utility>

#include "isa/costs.h"
#include "isa/error.h"
#include "isa/sequencer.h"
#include "layout/move_code.h"

namespace kodama::layout {
namespace {

using isa::Instruction;
using isa::Opcode;
using isa::Operand;
using isa::Precision;
using isa::Width;

/// LW that one wide l1bmp brings to every PE.
constexpr int64_t kOctetLw = 8;
constexpr int64_t kOctetsPerBlock = kBlockLw / kOctetLw;
constexpr int64_t kWordsPerOctet = kOctetLw * isa::kWordsPerLong;
/// Blocks of a group's DRAM in GatherSource::block, which counts through the groups.
constexpr int64_t kBlocksPerGroup = int64_t{1} << 41;
/// Of an entry of a table; its LW holds two for each of two vectors.
constexpr int kEntryBits = 16;
/// T reads addresses of so many bits; the rest of an entry is its window.
constexpr int kAddressBits = 12;
constexpr int64_t kWindowsPerRound = int64_t{1} << (kEntryBits - kAddressBits);
/// The same 16 bits in both halves of a word.
constexpr uint32_t twice(int64_t half) {
  return static_cast<uint32_t>(half << kEntryBits | half);
}
/// Bringing a block that nobody asked for costs no more than the start of another transfer.
constexpr int64_t kLargestGapBlocks = 3;

int64_t round_up(int64_t value, int64_t unit) {
  return (value + unit - 1) / unit * unit;
}

/// The LM0 word of a word of an octet in a window: the wide l1bmp puts LW c and 4 + c side by side.
int64_t lm_word(int64_t octet_slot, int64_t word_in_octet) {
  const int64_t lw = word_in_octet / 2;
  const int64_t slot = lw < 4 ? 2 * lw : 2 * (lw - 4) + 1;
  return octet_slot * kWordsPerOctet + 2 * slot + word_in_octet % 2;
}

/// How L2BM and L1BM are divided. A ring's slots are used in turn.
struct Rooms {
  int64_t source_half = 0;  ///< of L2BM, two of them
  int64_t source_base = 0;
  int64_t table_base = 0, table_slots = 0;
  int64_t image_base = 0, image_slots = 0;
  int64_t l1bm_ring = 0;  ///< of L1BM, one each for sources, tables, image

  Rooms(const isa::Chip& chip, int64_t row_lw) {
    const int64_t eighth = chip.memory.l2bm_lw / 8 / kBlockLw * kBlockLw;
    source_half = 3 * eighth;
    table_base = 6 * eighth;
    table_slots = eighth / row_lw / 2 * 2;
    image_base = 7 * eighth;
    image_slots = eighth / row_lw;
    l1bm_ring = chip.memory.l1bm_lw / 4 / kBlockLw * kBlockLw;
    if (table_slots < 2 || image_slots < 1) {
      throw isa::UnsupportedError(fmt::format("chip {}: a gather needs L2BM of at least {} LW, found {}",
                                              chip.name, 16 * row_lw, chip.memory.l2bm_lw));
    }
  }
};

}  // namespace

// ---- cutting

Gather::Gather(const GatherProblem& problem, const isa::Chip& chip) : problem_(problem), chip_(chip) {
  isa::check_internal(problem.address % kBlockLw == 0 && problem.size_lw % kBlockLw == 0 &&
                          static_cast<int64_t>(problem.words.size()) == chip.groups &&
                          !problem.constants.empty() && problem.constants[0] == 0,
                      "gather", "image of {} LW at {} in {} groups", problem.size_lw, problem.address,
                      problem.words.size());
  row_lw_ = kLineGroup * isa::kPePerMab * chip.mab_per_l1b * chip.l1b_per_l2b;
  const Rooms rooms(chip, row_lw_);
  const int64_t lm_octets =
      std::min(memory_size_lw(Memory::kLm0, chip) / kOctetLw, (int64_t{1} << kAddressBits) / kWordsPerOctet);
  constant_octets_ =
      round_up(static_cast<int64_t>(problem.constants.size()), kWordsPerOctet) / kWordsPerOctet;
  window_octets_ = lm_octets - constant_octets_;
  if (window_octets_ < kOctetsPerBlock || constant_octets_ * kOctetLw > rooms.source_half) {
    throw isa::UnsupportedError(fmt::format("a gather with {} different constants: LM0 holds {} words",
                                            problem.constants.size(), chip.memory.lm_words));
  }
  const int64_t rows = (problem.size_lw + row_lw_ - 1) / row_lw_;
  vectors_ = static_cast<int32_t>((rows + chip.l2b_per_group - 1) / chip.l2b_per_group);
  // LM1 holds the results and, two vectors in one, the tables.
  const auto tile_vectors = static_cast<int32_t>(memory_size_lw(Memory::kLm1, chip) / (3 * kLineGroup) * 2);
  for (int32_t first = 0; first < vectors_; first += tile_vectors) {
    Tile tile;
    tile.first_vector = first;
    tile.vector_count = std::min(tile_vectors, vectors_ - first);
    cut(tile);
    tiles_.push_back(std::move(tile));
  }
}

/// Calls visit(L2B, vector of the tile, LW of the image, half, source).
template <typename Visit>
void Gather::for_each_word(const Tile& tile, Visit&& visit) const {
  const int64_t per_vector = row_lw_ * chip_.l2b_per_group;
  const int64_t begin = tile.first_vector * per_vector;
  const int64_t end = std::min(problem_.size_lw, begin + tile.vector_count * per_vector);
  for (size_t group = 0; group < problem_.words.size(); ++group) {
    const std::vector<GatherSource>& words = problem_.words[group];
    if (words.empty()) continue;
    for (int64_t row = begin; row < end; row += row_lw_) {
      const auto vector = static_cast<int32_t>(row / per_vector) - tile.first_vector;
      const auto l2b = static_cast<int>(static_cast<int64_t>(group) * chip_.l2b_per_group +
                                        row / row_lw_ % chip_.l2b_per_group);
      for (int64_t lw = row; lw < std::min(row + row_lw_, end); ++lw) {
        for (int half = 0; half < 2; ++half)
          visit(l2b, vector, lw, half, words[static_cast<size_t>(2 * lw + half)]);
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

void Gather::cut(Tile& tile) {
  // By L2B, what is wanted of which block by whom.
  struct Wanted {
    int64_t address;
    uint8_t octets;
    uint32_t l1bs;
  };
  std::vector<std::vector<Wanted>> wanted(static_cast<size_t>(chip_.l2b_count()));
  for_each_word(tile, [&](int l2b, int32_t, int64_t lw, int, const GatherSource& source) {
    if (source.is_constant()) return;
    auto& list = wanted[static_cast<size_t>(l2b)];
    const auto octet = static_cast<uint8_t>(1U << (source.word() / kWordsPerOctet % kOctetsPerBlock));
    // l2bmd deals eight LW to each L1B.
    const uint32_t l1b = uint32_t{1} << (lw / kOctetLw % chip_.l1b_per_l2b);
    if (!list.empty() && list.back().address == source.block()) {
      list.back().octets |= octet;
      list.back().l1bs |= l1b;
    } else {
      list.push_back({source.block(), octet, l1b});
    }
  });
  tile.addresses.resize(wanted.size());
  for (size_t l2b = 0; l2b < wanted.size(); ++l2b) {
    std::ranges::sort(wanted[l2b], {}, &Wanted::address);
    std::vector<int64_t>& addresses = tile.addresses[l2b];
    for (const Wanted& each : wanted[l2b]) {
      // Blocks of one transfer: small gaps come along.
      if (!addresses.empty() && each.address <= addresses.back() + 1 + kLargestGapBlocks) {
        while (addresses.back() < each.address) addresses.push_back(addresses.back() + 1);
      } else {
        addresses.push_back(each.address);
      }
      if (addresses.size() > tile.blocks.size()) tile.blocks.resize(addresses.size());
      Block& block = tile.blocks[addresses.size() - 1];
      block.octets |= each.octets;
      block.l1bs |= each.l1bs;
    }
  }
  cut_windows(tile);

  std::vector<std::vector<bool>> present(tile.windows.size(),
                                         std::vector<bool>(static_cast<size_t>(tile.vector_count)));
  for_each_word(tile, [&](int l2b, int32_t vector, int64_t, int, const GatherSource& source) {
    if (source.is_constant()) return;
    present[static_cast<size_t>(home(tile, l2b, source).window)][static_cast<size_t>(vector)] = true;
  });
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
  const int64_t most_blocks = Rooms(chip_, row_lw_).source_half / kBlockLw;
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
  return tables_ * row_lw_ * chip_.l2b_per_group + round_up(constant_octets_ * kOctetLw, kBlockLw);
}

std::vector<std::vector<uint64_t>> Gather::make_tables() const {
  std::vector<std::vector<uint64_t>> tables(static_cast<size_t>(chip_.groups),
                                            std::vector<uint64_t>(static_cast<size_t>(tables_lw())));
  const int64_t constants_at = tables_ * row_lw_ * chip_.l2b_per_group;
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
      tables[static_cast<size_t>(l2b / chip_.l2b_per_group)]
            [static_cast<size_t>(part * row_lw_ + lw % row_lw_)] |=
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

std::string Gather::describe() const {
  size_t blocks = 0;
  int64_t octets = 0;
  for (const Tile& tile : tiles_) {
    blocks += tile.blocks.size();
    for (const Slot& slot : tile.slots) octets += std::popcount(slot.octets);
  }
  return fmt::format("{} vectors, {} tables, {} windows, {} blocks to an L2B, {} LW to a PE", vectors_,
                     tables_, window_count(), blocks, octets * kOctetLw);
}

int64_t Gather::estimated_cycles() const {
  constexpr int64_t kStartSteps = 60;
  constexpr int64_t kStepsPerPick = 15;  // the window's addresses; four times: set T, wait for it, read
  int64_t octets = 0;
  int64_t blocks = 0;
  for (const Tile& tile : tiles_) {
    for (const Slot& slot : tile.slots) octets += std::popcount(slot.octets);
    blocks += static_cast<int64_t>(tile.blocks.size());
  }
  const double steps = static_cast<double>(kStartSteps + octets + kStepsPerPick * picks_);
  const double dram = static_cast<double>(tables_ * row_lw_ * chip_.l2b_per_group + problem_.size_lw) /
                          chip_.transfer.dram_lw_per_cycle +
                      static_cast<double>(blocks * kBlockLw) / chip_.transfer.l2bm_mv_lw_per_cycle;
  return static_cast<int64_t>(steps * isa::kCyclesPerStep + dram);
}

int64_t Gather::bound_cycles() const {
  std::vector<std::vector<int64_t>> read(problem_.words.size());
  std::vector<int64_t> lw(problem_.words.size(), 0);
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

// ---- code

class Gather::Emitter {
 public:
  Emitter(const Gather& gather, int64_t tables_address)
      : gather_(gather),
        chip_(gather.chip_),
        tables_address_(tables_address),
        rooms_(chip_, gather.row_lw_),
        line_group_lw_(kLineGroup * isa::kPePerMab * chip_.mab_per_l1b),
        scratch_(chip_),
        code_(chip_, scratch_) {}

  isa::Program run() {
    for (int k = 1; k < 4; ++k) {
      shifts_[static_cast<size_t>(k)] = code_.new_register(Memory::kGrf0);
      code_.load(static_cast<uint32_t>(k * kEntryBits), shifts_[static_cast<size_t>(k)]);
    }
    window_ = code_.new_register(Memory::kGrf0);
    elsewhere_ = code_.new_register(Memory::kGrf0);
    code_.load(twice(int64_t{1} << kAddressBits), elsewhere_);
    spare_ = scratch_.take(Memory::kGrf1, 2 * kSpares * kLineGroup);
    constants();
    bring_tables(0);
    image_tags_.assign(static_cast<size_t>(rooms_.image_slots), {});
    for (size_t t = 0; t < gather_.tiles_.size(); ++t) {
      const Tile& tile = gather_.tiles_[t];
      for (size_t w = 0; w < tile.windows.size(); ++w) {
        if (t == 0 && w == 0) bring_window(tile, tile.windows[0]);
        const int64_t half = window_number_++ % 2;
        // The next window comes while this one is used.
        if (w + 1 < tile.windows.size()) {
          bring_window(tile, tile.windows[w + 1]);
        } else if (t + 1 < gather_.tiles_.size()) {
          bring_window(gather_.tiles_[t + 1], gather_.tiles_[t + 1].windows[0]);
        }
        load_window(tile, tile.windows[w], half);
        pick(tile, w);
        for (int32_t v = 0; v < tile.vector_count; ++v) {
          if (tile.last_window[static_cast<size_t>(v)] == static_cast<int32_t>(w))
            store(tile.first_vector + v, v);
        }
      }
    }
    code_.wait_all();
    return code_.pack();
  }

 private:
  /// Room for table LW, so that one is read while the next arrives.
  static constexpr int64_t kSpares = 4;

  Instruction mv(Opcode opcode, int64_t size_lw, const Operand& from, const Operand& to) const {
    Instruction result = make_instruction(opcode, Precision::kNone, from, to);
    result.size_lw = size_lw;
    return result;
  }

  void block_to_l1bm(int64_t l2bm, int64_t l1bm, uint32_t l1bs) {
    Instruction move = make_instruction(Opcode::kL2bmb, Precision::kNone, Code::l2bm(l2bm), Code::l1bm(l1bm));
    if (l1bs != all_l1bs()) {
      move.l1b_set.kind = isa::L1bSet::Kind::kList;
      move.l1b_set.list = l1bs;
    }
    code_.add(std::move(move));
  }
  uint32_t all_l1bs() const { return (uint32_t{1} << chip_.l1b_per_l2b) - 1; }
  void octet_to_pes(int64_t l1bm, int64_t slot) {
    const int64_t lw = slot * kOctetLw;
    code_.add(
        make_instruction(Opcode::kL1bmp, Precision::kNone, Code::l1bm(l1bm, true),
                         Code::pe(Memory::kLm0, {lw, lw + 2, lw + 4, lw + 6}, Width::kDoubleLong, chip_)));
  }
  /// The place in L1BM where the next block goes.
  int64_t next_block() { return blocks_brought_++ * kBlockLw % rooms_.l1bm_ring; }

  void constants() {
    const int64_t size = round_up(gather_.constant_octets_ * kOctetLw, kBlockLw);
    const int64_t from = tables_address_ + gather_.tables_ * gather_.row_lw_ * chip_.l2b_per_group;
    // Where the second window will be.
    code_.wait(code_.transfer(
        mv(Opcode::kMvb, size, Code::outside(Memory::kDram, from, 0), Code::l2bm(rooms_.source_half))));
    for (int64_t at = 0; at < size; at += kBlockLw) {
      const int64_t l1bm = next_block();
      block_to_l1bm(rooms_.source_half + at, l1bm, all_l1bs());
      for (int64_t octet = 0; octet < kOctetsPerBlock; ++octet) {
        const int64_t slot = at / kOctetLw + octet;
        if (slot < gather_.constant_octets_) octet_to_pes(l1bm + octet * kOctetLw, slot);
      }
    }
  }

  /// Consecutive blocks of a group's DRAM that go to an L2B.
  struct Run {
    int64_t first_block = 0;
    int64_t address = 0;
    int64_t blocks = 0;
    bool operator==(const Run&) const = default;
  };
  static std::vector<Run> runs_of(const std::vector<int64_t>& addresses, const Window& window) {
    std::vector<Run> runs;
    const int64_t end =
        std::min(window.first_block + window.block_count, static_cast<int64_t>(addresses.size()));
    for (int64_t block = window.first_block; block < end; ++block) {
      // A block's address has the group in its upper bits, so runs never cross groups.
      const int64_t address = addresses[static_cast<size_t>(block)];
      if (!runs.empty() && address == runs.back().address + runs.back().blocks) {
        ++runs.back().blocks;
      } else {
        runs.push_back({block, address, 1});
      }
    }
    return runs;
  }

  /// Transfers of a window to the half of L2BM whose turn it is.
  void bring_window(const Tile& tile, const Window& window) {
    const int64_t half = windows_brought_++ % 2;
    std::vector<int8_t>& tags = window_tags_[static_cast<size_t>(half)];
    const auto bring = [&](const Run& run, Opcode opcode, int group, int l2b) {
      const int64_t to = half * rooms_.source_half + (run.first_block - window.first_block) * kBlockLw;
      const int64_t from = run.address % kBlocksPerGroup * kBlockLw;
      tags.push_back(code_.transfer(mv(opcode, run.blocks * kBlockLw,
                                       Code::outside(Memory::kDram, from, run.address / kBlocksPerGroup),
                                       Code::l2bm(to, group, l2b))));
    };
    std::vector<std::vector<Run>> runs;
    for (const std::vector<int64_t>& addresses : tile.addresses) {
      // L2Bs that make nothing take what the others get.
      if (!addresses.empty()) runs.push_back(runs_of(addresses, window));
    }
    if (std::ranges::all_of(runs, [&](const auto& each) { return each == runs.front(); })) {
      if (runs.empty()) return;
      for (const Run& run : runs.front()) bring(run, Opcode::kMvb, -1, -1);
      return;
    }
    for (size_t l2b = 0; l2b < tile.addresses.size(); ++l2b) {
      for (const Run& run : runs_of(tile.addresses[l2b], window)) {
        bring(run, Opcode::kMvp, static_cast<int>(l2b) / chip_.l2b_per_group,
              static_cast<int>(l2b) % chip_.l2b_per_group);
      }
    }
  }

  void load_window(const Tile& tile, const Window& window, int64_t half) {
    for (const int8_t tag : std::exchange(window_tags_[static_cast<size_t>(half)], {})) code_.wait(tag);
    for (int64_t k = 0; k < window.slot_count; ++k) {
      const Slot& slot = tile.slots[static_cast<size_t>(window.first_slot + k)];
      const int64_t l1bm = next_block();
      for (const int32_t block : slot.blocks) {
        const int64_t l2bm = half * rooms_.source_half + (block - window.first_block) * kBlockLw;
        block_to_l1bm(l2bm, l1bm, tile.blocks[static_cast<size_t>(block)].l1bs);
      }
      int64_t to = slot.in_window;
      for (int64_t octet = 0; octet < kOctetsPerBlock; ++octet) {
        if ((slot.octets >> octet & 1) != 0) octet_to_pes(l1bm + octet * kOctetLw, to++);
      }
    }
  }

  /// Tables come in halves of their ring.
  int64_t tables_per_half() const { return rooms_.table_slots / 2; }
  void bring_tables(int64_t half) {
    const int64_t first = half * tables_per_half();
    const int64_t count = std::min(tables_per_half(), gather_.tables_ - first);
    if (count <= 0) return;
    for (int l2b = 0; l2b < chip_.l2b_per_group; ++l2b) {
      const int64_t from = tables_address_ + (l2b * gather_.tables_ + first) * gather_.row_lw_;
      const int64_t to = rooms_.table_base + half % 2 * tables_per_half() * gather_.row_lw_;
      table_tags_.push_back(
          code_.transfer(mv(Opcode::kMvp, count * gather_.row_lw_, Code::outside(Memory::kDram, from, -1),
                            Code::l2bm(to, -1, l2b))));
    }
  }

  /// The L1BM side of rows: a ring of its own for tables and for the image.
  int64_t line_slot(int64_t number, int64_t ring) const {
    const int64_t slots = rooms_.l1bm_ring / line_group_lw_;
    return ring * rooms_.l1bm_ring + number % slots * line_group_lw_;
  }

  void pick(const Tile& tile, size_t w) {
    const auto window = static_cast<int64_t>(w);
    const Round& round = tile.rounds[static_cast<size_t>(window / kWindowsPerRound)];
    code_.load(twice(window % kWindowsPerRound << kAddressBits), window_);
    const std::vector<int32_t>& vectors = tile.windows[w].vectors;
    for (size_t k = 0; k < vectors.size();) {
      const int32_t pair = vectors[k] / 2;
      const int64_t table = round.first_table + round.table_of_pair[static_cast<size_t>(pair)];
      const Operand entries = lines(Memory::kLm1, (tile.vector_count + pair) * kLineGroup);
      if (table == tables_used_) bring_table(entries);
      // What is in the window, as addresses; 0 for what isn't.
      const int64_t spare = spare_.base + picked_++ % kSpares * 2 * kLineGroup;
      const Operand distance = lines(Memory::kGrf1, spare);
      const Operand addresses = lines(Memory::kGrf1, spare + kLineGroup);
      code_.add(make_instruction(Opcode::kSub, Precision::kShort, {entries, window_}, distance));
      Instruction least =
          make_instruction(Opcode::kMin, Precision::kShort, {distance, elsewhere_}, addresses);
      least.unsigned_op = true;
      least.destinations.push_back(Code::t());
      code_.add(std::move(least));
      for (; k < vectors.size() && vectors[k] / 2 == pair; ++k) {
        const int32_t vector = vectors[k];
        for (int64_t half = 0; half < 2; ++half) {
          const int64_t entry = vector % 2 * 2 + half;
          if (entry > 0) {
            code_.add(make_instruction(Opcode::kLsr, Precision::kLong,
                                       {addresses, shifts_[static_cast<size_t>(entry)]}, Code::t()));
          }
          pick_words(vector, half, tile.first_window[static_cast<size_t>(vector)] == window);
        }
      }
    }
  }

  Operand lines(Memory memory, int64_t lw) const {
    return Code::pe(memory, {lw, lw + 1, lw + 2, lw + 3}, Width::kLong, chip_);
  }

  /// The next table from L2BM to where it stays for the round.
  void bring_table(const Operand& to) {
    const int64_t table = tables_used_++;
    if (table % tables_per_half() == 0) {
      for (const int8_t tag : std::exchange(table_tags_, {})) code_.wait(tag);
      bring_tables(table / tables_per_half() + 1);
    }
    const int64_t l2bm = rooms_.table_base + table % rooms_.table_slots * gather_.row_lw_;
    const int64_t l1bm = line_slot(table, 1);
    for (int64_t deal = 0; deal * kDealLw < line_group_lw_; ++deal) {
      code_.add(make_instruction(Opcode::kL2bmd, Precision::kNone, Code::l2bm(l2bm + deal * l2bmd_lw(chip_)),
                                 Code::l1bm(l1bm + deal * kDealLw)));
    }
    code_.add(make_instruction(Opcode::kL1bmd, Precision::kNone, Code::l1bm(l1bm), to));
  }

  /// Four upper or lower words of a vector.
  void pick_words(int32_t vector, int64_t half, bool is_first) {
    Operand source;
    source.space = isa::Space::kLm0;
    source.width = Width::kWord;
    source.t_indirect = true;
    Operand result;
    result.space = isa::Space::kLm1;
    result.width = Width::kWord;
    result.base = vector * kLineGroup * isa::kWordsPerLong + half;
    result.stride = isa::kWordsPerLong;
    if (is_first) {
      code_.add(make_instruction(Opcode::kPassa, Precision::kInt, source, result));
    } else {
      code_.add(make_instruction(Opcode::kOr, Precision::kInt, {source, result}, result));
    }
  }

  void store(int64_t vector, int32_t vector_of_tile) {
    const int64_t lw = vector_of_tile * kLineGroup;
    const int64_t l1bm = line_slot(stored_, 2);
    const auto slot = static_cast<size_t>(stored_ % rooms_.image_slots);
    const int64_t l2bm = rooms_.image_base + static_cast<int64_t>(slot) * gather_.row_lw_;
    ++stored_;
    code_.add(make_instruction(Opcode::kL1bmd, Precision::kNone,
                               Code::pe(Memory::kLm1, {lw, lw + 1, lw + 2, lw + 3}, Width::kLong, chip_),
                               Code::l1bm(l1bm)));
    for (const int8_t tag : std::exchange(image_tags_[slot], {})) code_.wait(tag);
    for (int64_t deal = 0; deal * kDealLw < line_group_lw_; ++deal) {
      code_.add(make_instruction(Opcode::kL2bmd, Precision::kNone, Code::l1bm(l1bm + deal * kDealLw),
                                 Code::l2bm(l2bm + deal * l2bmd_lw(chip_))));
    }
    const auto has_image = [](const std::vector<GatherSource>& words) { return !words.empty(); };
    const bool everywhere = std::ranges::all_of(gather_.problem_.words, has_image);
    for (int l2b = 0; l2b < chip_.l2b_per_group; ++l2b) {
      const int64_t row = (vector * chip_.l2b_per_group + l2b) * gather_.row_lw_;
      const int64_t size = std::min(gather_.row_lw_, gather_.problem_.size_lw - row);
      if (size <= 0) continue;
      const int64_t address = gather_.problem_.address + row;
      if (everywhere) {
        image_tags_[slot].push_back(code_.transfer(
            mv(Opcode::kMvp, size, Code::l2bm(l2bm, -1, l2b), Code::outside(Memory::kDram, address, -1))));
        continue;
      }
      for (int group = 0; group < chip_.groups; ++group) {
        if (!has_image(gather_.problem_.words[static_cast<size_t>(group)])) continue;
        image_tags_[slot].push_back(code_.transfer(mv(Opcode::kMvp, size, Code::l2bm(l2bm, group, l2b),
                                                      Code::outside(Memory::kDram, address, group))));
      }
    }
  }

  const Gather& gather_;
  const isa::Chip& chip_;
  int64_t tables_address_;
  Rooms rooms_;
  int64_t line_group_lw_;
  ScratchSpace scratch_;
  Code code_;
  std::array<Operand, 4> shifts_;
  Operand window_;     ///< its number, where the entries have it
  Operand elsewhere_;  ///< what T reads as 0
  Region spare_;
  std::array<std::vector<int8_t>, 2> window_tags_;
  int64_t windows_brought_ = 0;
  int64_t window_number_ = 0;
  int64_t blocks_brought_ = 0;
  int64_t tables_used_ = 0;
  int64_t picked_ = 0;
  int64_t stored_ = 0;
  std::vector<int8_t> table_tags_;
  std::vector<std::vector<int8_t>> image_tags_;
};

GatherCode Gather::emit(int64_t tables_address) const {
  isa::check_internal(tables_address % kBlockLw == 0, "gather", "tables at {}", tables_address);
  GatherCode result;
  result.tables = make_tables();
  result.program = Emitter(*this, tables_address).run();
  result.cycles = isa::predict_cycles(result.program, chip_).total();
  return result;
}

}  // namespace kodama::layout
