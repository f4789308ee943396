#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>

#include "isa/arithmetic.h"
#include "isa/chip.h"
#include "isa/error.h"
#include "layout/gather/gather.h"
#include "layout/moves/move_code.h"

/// What the two halves of a gather share: how it is cut (gather.cpp), and its code (gather_code.cpp).
namespace kodama::layout {

/// LW that one wide l1bmp brings to every PE.
inline constexpr int64_t kOctetLw = 8;
inline constexpr int64_t kOctetsPerBlock = kBlockLw / kOctetLw;
inline constexpr int64_t kWordsPerOctet = kOctetLw * isa::kWordsPerLong;
/// Blocks of a group's DRAM in GatherSource::block, which counts through the groups.
inline constexpr int64_t kBlocksPerGroup = GatherSource::kWordsPerGroup / GatherSource::kWordsPerBlock;
/// Of an entry of a table; its LW holds two for each of two vectors.
inline constexpr int kEntryBits = 16;
/// T reads addresses of so many bits; the rest of an entry is its window.
inline constexpr int kAddressBits = 12;
inline constexpr int64_t kWindowsPerRound = int64_t{1} << (kEntryBits - kAddressBits);
/// The same 16 bits in both halves of a word.
inline constexpr uint32_t twice(int64_t half) {
  return static_cast<uint32_t>(half << kEntryBits | half);
}
/// Bringing a block that nobody asked for costs no more than the start of another transfer.
inline constexpr int64_t kLargestGapBlocks = 3;

/// The LM0 word of a word of an octet in a window: the wide l1bmp puts LW c and 4 + c side by side.
inline int64_t lm_word(int64_t octet_slot, int64_t word_in_octet) {
  const int64_t lw = word_in_octet / 2;
  const int64_t slot = lw < 4 ? 2 * lw : 2 * (lw - 4) + 1;
  return octet_slot * kWordsPerOctet + 2 * slot + word_in_octet % 2;
}

/// How a gather divides L2BM and L1BM. A ring's slots are used in turn.
struct GatherRooms {
  int64_t source_half = 0;    ///< of L2BM, two of them
  int64_t source_places = 0;  ///< blocks of a half, but for one at either end that dealt copies may read
  int64_t table_base = 0, table_slots = 0;
  int64_t image_base = 0, image_slots = 0;
  int64_t l1bm_ring = 0;  ///< of L1BM, one each for sources, tables, image

  GatherRooms(const isa::Chip& chip, int64_t row_lw) {
    const int64_t eighth = chip.memory.l2bm_lw / 8 / kBlockLw * kBlockLw;
    source_half = 3 * eighth;
    source_places = source_half / kBlockLw - 2;
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

/// How an image is divided, whatever its words are.
struct GatherShape {
  int64_t row_lw = 0;        ///< of one vector of all PEs of an L2B
  int64_t used_lw = 0;       ///< of its beginning, whole lines, that images of one row need; else all
  int64_t vectors = 0;       ///< of an L2B
  int64_t tile_vectors = 0;  ///< of them, at most, that LM1 holds with their tables, two vectors in one
  int64_t lm_octets = 0;     ///< that entries of tables reach in LM0

  GatherShape(int64_t size_lw, int64_t parts, const isa::Chip& chip) {
    row_lw = kLineGroup * line_lw(Memory::kL2bm, chip);
    const int64_t part_lw = size_lw / parts;
    vectors = isa::ceil_div(part_lw, parts > 1 ? row_lw : row_lw * chip.l2b_per_group);
    used_lw = std::min(row_lw,
                       isa::round_up(std::clamp<int64_t>(part_lw, 1, row_lw), row_lw / int64_t{kLineGroup}));
    tile_vectors = memory_size_lw(Memory::kLm1, chip) / (3 * kLineGroup) * 2;
    lm_octets = std::min(memory_size_lw(Memory::kLm0, chip) / kOctetLw,
                         (int64_t{1} << kAddressBits) / kWordsPerOctet);
  }
};

/// Calls visit(L2B, vector of the tile, LW of the row, half, source).
template <typename Visit>
void Gather::for_each_word(const Tile& tile, const Rows& rows, Visit&& visit) const {
  for (size_t l2b = 0; l2b < rows.size(); ++l2b) {
    for (int32_t vector = 0; vector < tile.vector_count; ++vector) {
      const Row& own = rows[l2b][static_cast<size_t>(tile.first_vector + vector)];
      if (own.size == 0) continue;
      const GatherSource* source =
          &problem_
               .words[static_cast<size_t>(own.group)][static_cast<size_t>(isa::kWordsPerLong * own.begin)];
      for (int64_t lw = 0; lw < own.size; ++lw) {
        for (int half = 0; half < 2; ++half) visit(static_cast<int>(l2b), vector, lw, half, *source++);
      }
    }
  }
}

}  // namespace kodama::layout
