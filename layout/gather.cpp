#include "layout/gather.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>

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
/// Words of an index; a table's LW holds as many as fit, two for each of two vectors.
constexpr int kIndexBits = 16;
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
    const int64_t quarter = chip.memory.l2bm_lw / 4 / kBlockLw * kBlockLw;
    source_half = quarter;
    table_base = 2 * quarter;
    table_slots = quarter / row_lw / 2 * 2;
    image_base = 3 * quarter;
    image_slots = quarter / row_lw;
    l1bm_ring = chip.memory.l1bm_lw / 4 / kBlockLw * kBlockLw;
    if (table_slots < 2 || image_slots < 1) {
      throw isa::UnsupportedError(fmt::format("chip {}: a gather needs L2BM of at least {} LW, found {}",
                                              chip.name, 8 * row_lw, chip.memory.l2bm_lw));
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
  const int64_t lm_octets = memory_size_lw(Memory::kLm0, chip) / kOctetLw;
  constant_octets_ =
      round_up(static_cast<int64_t>(problem.constants.size()), kWordsPerOctet) / kWordsPerOctet;
  window_octets_ = lm_octets - constant_octets_;
  if (window_octets_ < kOctetsPerBlock || constant_octets_ * kOctetLw > rooms.source_half) {
    throw isa::UnsupportedError(fmt::format("a gather with {} different constants: LM0 holds {} words",
                                            problem.constants.size(), chip.memory.lm_words));
  }
  const int64_t rows = (problem.size_lw + row_lw_ - 1) / row_lw_;
  vectors_ = static_cast<int32_t>((rows + chip.l2b_per_group - 1) / chip.l2b_per_group);
  const auto tile_vectors = static_cast<int32_t>(memory_size_lw(Memory::kLm1, chip) / kLineGroup);
  for (int32_t first = 0; first < vectors_; first += tile_vectors) {
    Tile tile;
    tile.first_vector = first;
    tile.vector_count = std::min(tile_vectors, vectors_ - first);
    cut(tile);
    tiles_.push_back(std::move(tile));
  }
}

/// Calls visit(group, vector of the tile, LW of the image, half, source).
template <typename Visit>
void Gather::for_each_word(const Tile& tile, Visit&& visit) const {
  const int64_t per_vector = row_lw_ * chip_.l2b_per_group;
  const int64_t begin = tile.first_vector * per_vector;
  const int64_t end = std::min(problem_.size_lw, begin + tile.vector_count * per_vector);
  for (size_t group = 0; group < problem_.words.size(); ++group) {
    const std::vector<GatherSource>& words = problem_.words[group];
    if (words.empty()) continue;
    for (int64_t lw = begin; lw < end; ++lw) {
      const auto vector = static_cast<int32_t>(lw / per_vector) - tile.first_vector;
      for (int half = 0; half < 2; ++half)
        visit(static_cast<int>(group), vector, lw, half, words[static_cast<size_t>(2 * lw + half)]);
    }
  }
}

void Gather::cut(Tile& tile) {
  std::vector<int64_t> octets;
  int64_t last = -1;
  for_each_word(tile, [&](int, int32_t, int64_t, int, const GatherSource& source) {
    if (source.is_constant() || source.octet() == last) return;
    last = source.octet();
    octets.push_back(last);
  });
  std::ranges::sort(octets);
  octets.erase(std::unique(octets.begin(), octets.end()), octets.end());

  const Rooms rooms(chip_, row_lw_);
  std::vector<int32_t> window_of(octets.size());
  int64_t blocks = 0;
  for (size_t k = 0; k < octets.size(); ++k) {
    // Gaps that a transfer may bring along take room, too.
    const int64_t more = k == 0 ? 1
                                : std::min(octets[k] / kOctetsPerBlock - octets[k - 1] / kOctetsPerBlock,
                                           kLargestGapBlocks + 1);
    if (tile.windows.empty() || static_cast<int64_t>(tile.windows.back().octets.size()) == window_octets_ ||
        (blocks + more) * kBlockLw > rooms.source_half) {
      tile.windows.emplace_back();
      blocks = 0;
    }
    blocks += blocks == 0 ? 1 : more;
    tile.windows.back().octets.push_back(octets[k]);
    window_of[k] = static_cast<int32_t>(tile.windows.size() - 1);
  }
  if (tile.windows.empty()) tile.windows.emplace_back();  // of constants alone

  std::vector<std::vector<bool>> present(tile.windows.size(),
                                         std::vector<bool>(static_cast<size_t>(tile.vector_count)));
  for_each_word(tile, [&](int, int32_t vector, int64_t, int, const GatherSource& source) {
    if (source.is_constant()) return;
    const auto at = std::ranges::lower_bound(octets, source.octet()) - octets.begin();
    present[static_cast<size_t>(window_of[static_cast<size_t>(at)])][static_cast<size_t>(vector)] = true;
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
    Window& window = tile.windows[w];
    for (int32_t v = 0; v < tile.vector_count; ++v) {
      if (present[w][static_cast<size_t>(v)]) window.vectors.push_back(v);
    }
    window.first_table = tables_;
    tables_ += window.table_count();
  }
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
    std::vector<int64_t> octets;
    std::vector<std::pair<int32_t, int64_t>> home;  // window and slot
    for (size_t w = 0; w < tile.windows.size(); ++w) {
      const Window& window = tile.windows[w];
      for (size_t k = 0; k < window.octets.size(); ++k)
        home.emplace_back(static_cast<int32_t>(w), constant_octets_ + static_cast<int64_t>(k));
      octets.insert(octets.end(), window.octets.begin(), window.octets.end());
    }
    // By window and vector, its number among the window's vectors.
    std::vector<std::vector<int32_t>> number(
        tile.windows.size(), std::vector<int32_t>(static_cast<size_t>(tile.vector_count), -1));
    for (size_t w = 0; w < tile.windows.size(); ++w) {
      for (size_t k = 0; k < tile.windows[w].vectors.size(); ++k)
        number[w][static_cast<size_t>(tile.windows[w].vectors[k])] = static_cast<int32_t>(k);
    }
    for_each_word(tile, [&](int group, int32_t vector, int64_t lw, int half, const GatherSource& source) {
      int32_t window = tile.first_window[static_cast<size_t>(vector)];
      int64_t index = 0;
      if (source.is_constant()) {
        const int64_t k = source.constant_index();
        if (k == 0) return;
        index = lm_word(k / kWordsPerOctet, k % kWordsPerOctet);
      } else {
        const auto at = std::ranges::lower_bound(octets, source.octet()) - octets.begin();
        window = home[static_cast<size_t>(at)].first;
        index = lm_word(home[static_cast<size_t>(at)].second, source.word() % kWordsPerOctet);
      }
      const int32_t k = number[static_cast<size_t>(window)][static_cast<size_t>(vector)];
      const int64_t table = tile.windows[static_cast<size_t>(window)].first_table + k / 2;
      const int64_t l2b = lw / row_lw_ % chip_.l2b_per_group;
      tables[static_cast<size_t>(group)]
            [static_cast<size_t>((l2b * tables_ + table) * row_lw_ + lw % row_lw_)] |=
          static_cast<uint64_t>(index) << (kIndexBits * (2 * (k % 2) + half));
    });
  }
  return tables;
}

int64_t Gather::estimated_cycles() const {
  constexpr int64_t kStartSteps = 60;
  constexpr int64_t kStepsPerTable = 12;  // four times: set T, wait for it, read through it
  int64_t octets = 0;
  int64_t blocks = 0;
  for (const Tile& tile : tiles_) {
    for (const Window& window : tile.windows) {
      octets += static_cast<int64_t>(window.octets.size());
      int64_t last = -1;
      for (const int64_t octet : window.octets) {
        blocks += octet / kOctetsPerBlock != last ? 1 : 0;
        last = octet / kOctetsPerBlock;
      }
    }
  }
  const double steps = static_cast<double>(kStartSteps + octets + kStepsPerTable * tables_);
  const double dram = static_cast<double>((tables_ + vectors_) * row_lw_ * chip_.l2b_per_group) /
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
      code_.load(static_cast<uint32_t>(k * kIndexBits), shifts_[static_cast<size_t>(k)]);
    }
    spare_ = scratch_.take(Memory::kGrf1, kSpares * kLineGroup);
    constants();
    bring_tables(0);
    image_tags_.assign(static_cast<size_t>(rooms_.image_slots), {});
    for (size_t t = 0; t < gather_.tiles_.size(); ++t) {
      const Tile& tile = gather_.tiles_[t];
      for (size_t w = 0; w < tile.windows.size(); ++w) {
        if (t == 0 && w == 0) bring_window(tile.windows[0]);
        Half& half = halves_[static_cast<size_t>(window_number_ % 2)];
        ++window_number_;
        // The next window comes while this one is used.
        if (w + 1 < tile.windows.size()) {
          bring_window(tile.windows[w + 1]);
        } else if (t + 1 < gather_.tiles_.size()) {
          bring_window(gather_.tiles_[t + 1].windows[0]);
        }
        load_window(half);
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

  /// Consecutive blocks of a group's DRAM.
  struct Run {
    int group = 0;
    int64_t first_block = 0;
    int64_t blocks = 0;
    int64_t l2bm = 0;
    int8_t tag = 0;
    std::vector<int64_t> octets;
  };
  struct Half {
    std::vector<Run> runs;
  };

  static int64_t block_of(int64_t octet) { return octet / kOctetsPerBlock; }

  Instruction mv(Opcode opcode, int64_t size_lw, const Operand& from, const Operand& to) const {
    Instruction result = make_instruction(opcode, Precision::kNone, from, to);
    result.size_lw = size_lw;
    return result;
  }

  void block_to_l1bm(int64_t l2bm, int64_t l1bm) {
    code_.add(make_instruction(Opcode::kL2bmb, Precision::kNone, Code::l2bm(l2bm), Code::l1bm(l1bm)));
  }
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
      block_to_l1bm(rooms_.source_half + at, l1bm);
      for (int64_t octet = 0; octet < kOctetsPerBlock; ++octet) {
        const int64_t slot = at / kOctetLw + octet;
        if (slot < gather_.constant_octets_) octet_to_pes(l1bm + octet * kOctetLw, slot);
      }
    }
  }

  /// Transfers of a window to the half of L2BM whose turn it is.
  void bring_window(const Window& window) {
    Half& half = halves_[static_cast<size_t>(windows_brought_ % 2)];
    int64_t l2bm = windows_brought_ % 2 * rooms_.source_half;
    ++windows_brought_;
    half.runs.clear();
    // An octet's number has the group in its upper bits, so runs never cross groups.
    for (const int64_t octet : window.octets) {
      const int64_t block = block_of(octet);
      if (half.runs.empty() ||
          block > half.runs.back().first_block + half.runs.back().blocks + kLargestGapBlocks) {
        Run run;
        run.first_block = block;
        half.runs.push_back(run);
      }
      Run& run = half.runs.back();
      run.blocks = block - run.first_block + 1;
      run.octets.push_back(octet);
    }
    for (Run& run : half.runs) {
      const GatherSource source = first_word(run.first_block * kOctetsPerBlock);
      run.l2bm = l2bm;
      l2bm += run.blocks * kBlockLw;
      run.tag = code_.transfer(mv(Opcode::kMvb, run.blocks * kBlockLw,
                                  Code::outside(Memory::kDram, source.word() / 2, source.group()),
                                  Code::l2bm(run.l2bm)));
    }
  }
  static GatherSource first_word(int64_t octet) {
    constexpr int kGroupShift = 44;
    return GatherSource::dram(static_cast<int>(octet >> kGroupShift),
                              (octet & ((int64_t{1} << kGroupShift) - 1)) * kWordsPerOctet);
  }

  void load_window(const Half& half) {
    int64_t slot = gather_.constant_octets_;
    for (const Run& run : half.runs) {
      code_.wait(run.tag);
      int64_t block = -1;
      int64_t l1bm = 0;
      for (const int64_t octet : run.octets) {
        if (block_of(octet) != block) {
          block = block_of(octet);
          l1bm = next_block();
          block_to_l1bm(run.l2bm + (block - run.first_block) * kBlockLw, l1bm);
        }
        octet_to_pes(l1bm + octet % kOctetsPerBlock * kOctetLw, slot++);
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
    const Window& window = tile.windows[w];
    for (int64_t k = 0; k < window.table_count(); ++k) {
      const int64_t table = window.first_table + k;
      if (table % tables_per_half() == 0) {
        for (const int8_t tag : std::exchange(table_tags_, {})) code_.wait(tag);
        bring_tables(table / tables_per_half() + 1);
      }
      const int64_t l2bm = rooms_.table_base + table % rooms_.table_slots * gather_.row_lw_;
      const int64_t l1bm = line_slot(table, 1);
      for (int64_t deal = 0; deal * kDealLw < line_group_lw_; ++deal) {
        code_.add(make_instruction(Opcode::kL2bmd, Precision::kNone,
                                   Code::l2bm(l2bm + deal * l2bmd_lw(chip_)),
                                   Code::l1bm(l1bm + deal * kDealLw)));
      }
      const int64_t at = spare_.base + table % kSpares * kLineGroup;
      const Operand spare = Code::pe(Memory::kGrf1, {at, at + 1, at + 2, at + 3}, Width::kLong, chip_);
      Instruction down = make_instruction(Opcode::kL1bmd, Precision::kNone, Code::l1bm(l1bm), spare);
      down.destinations.push_back(Code::t());
      code_.add(std::move(down));
      for (int64_t index = 0; index < 4; ++index) {
        const auto number = static_cast<size_t>(2 * k + index / 2);
        if (number >= window.vectors.size()) break;
        if (index > 0) {
          code_.add(make_instruction(Opcode::kLsr, Precision::kLong,
                                     {spare, shifts_[static_cast<size_t>(index)]}, Code::t()));
        }
        const int32_t vector = window.vectors[number];
        const bool is_first = tile.first_window[static_cast<size_t>(vector)] == static_cast<int32_t>(w);
        pick_words(vector, index % 2, is_first);
      }
    }
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
  Region spare_;
  std::array<Half, 2> halves_;
  int64_t windows_brought_ = 0;
  int64_t window_number_ = 0;
  int64_t blocks_brought_ = 0;
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
