#include <algorithm>
#include <array>
#include <map>
#include <utility>

#include "isa/arithmetic.h"
#include "isa/error.h"
#include "isa/sequencer.h"
#include "layout/gather/gather_parts.h"

namespace kodama::layout {

using isa::Instruction;
using isa::Opcode;
using isa::Operand;
using isa::Precision;
using isa::Width;

class Gather::Emitter {
 public:
  Emitter(const Gather& gather, int64_t tables_address)
      : gather_(gather),
        chip_(gather.chip_),
        tables_address_(tables_address),
        rooms_(chip_, gather.row_lw_),
        line_group_lw_(kLineGroup * line_lw(Memory::kL1bm, chip_)),
        scratch_(chip_),
        code_(chip_, scratch_) {}

  void run(GatherCode& result) {
    if (gather_.division_.tiles.empty()) return;  // of nothing
    for (int k = 1; k < 4; ++k) {
      shifts_[static_cast<size_t>(k)] = code_.new_register(Memory::kGrf0);
      code_.load(static_cast<uint32_t>(k * kEntryBits), shifts_[static_cast<size_t>(k)]);
    }
    window_ = code_.new_register(Memory::kGrf0);
    elsewhere_ = code_.new_register(Memory::kGrf0);
    code_.load(twice(int64_t{1} << kAddressBits), elsewhere_);
    spare_ = scratch_.take(Memory::kGrf1, 2 * kSpares * kLineGroup);
    const int8_t constants = bring_constants();
    for (const Tile& tile : gather_.division_.tiles) {
      for (const Load& load : tile.loads) loads_.push_back(&load);
    }
    bring_load(0);
    bring_tables(0);
    load_constants(constants);
    image_tags_.assign(static_cast<size_t>(rooms_.image_slots), {});
    for (const Tile& tile : gather_.division_.tiles) {
      size_t load = 0;
      for (size_t w = 0; w < tile.windows.size(); ++w) {
        const auto begin = static_cast<size_t>(tile.windows[w].first_slot);
        const size_t end = w + 1 < tile.windows.size() ? static_cast<size_t>(tile.windows[w + 1].first_slot)
                                                       : tile.slots.size();
        for (size_t slot = begin; slot < end; ++slot) {
          if (load < tile.loads.size() && tile.loads[load].first_slot == static_cast<int32_t>(slot)) {
            // The next load comes while this one is used.
            ++load;
            const auto number = loads_begun_++;
            bring_load(number + 1);
            for (const int8_t tag : std::exchange(load_tags_[number % 2], {})) code_.wait(tag);
          }
          bring_slot(tile.slots[slot]);
        }
        pick(tile, w);
        for (int32_t v = 0; v < tile.vector_count; ++v) {
          if (tile.last_window[static_cast<size_t>(v)] == static_cast<int32_t>(w))
            store(tile.first_vector + v, v);
        }
      }
    }
    code_.wait_all();
    // The compiler moves transfers to earlier layers.
    result.program = code_.pack(WaitPlace::kBehindAll);
    result.items = code_.items();
  }

 private:
  /// Room for table LW, so that one is read while the next arrives.
  static constexpr int64_t kSpares = 4;
  /// The lines of one vector that are used.
  std::vector<LineCopy> row_lines() const {
    std::vector<LineCopy> used;
    const int64_t l2_line_lw = line_lw(Memory::kL2bm, chip_);
    for (int64_t line = 0; line * l2_line_lw < gather_.used_lw_; ++line) used.push_back({line, 0});
    return used;
  }

  Instruction mv(Opcode opcode, int64_t size_lw, const Operand& from, const Operand& to) const {
    Instruction result = make_instruction(opcode, Precision::kNone, from, to);
    result.size_lw = size_lw;
    return result;
  }

  void to_l1bm(Opcode opcode, int64_t l2bm, int64_t l1bm, uint32_t l1bs) {
    Instruction move = make_instruction(opcode, Precision::kNone, Code::l2bm(l2bm), Code::l1bm(l1bm));
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
  /// The place in L1BM where the next slot's first octet goes: blocks may begin before it.
  int64_t next_area() {
    const int64_t areas = rooms_.l1bm_ring / (2 * kBlockLw);
    return slots_brought_++ % areas * 2 * kBlockLw + kBlockLw;
  }

  int64_t constants_lw() const { return isa::round_up(gather_.constant_octets_ * kOctetLw, kBlockLw); }
  /// To where the image will be later.
  int8_t bring_constants() {
    const int64_t from = tables_address_ + gather_.division_.tables * gather_.used_lw_ * chip_.l2b_per_group;
    return code_.transfer(mv(Opcode::kMvb, constants_lw(), Code::outside(Memory::kDram, from, 0),
                             Code::l2bm(rooms_.image_base)));
  }
  void load_constants(int8_t tag) {
    code_.wait(tag);
    for (int64_t at = 0; at < constants_lw(); at += kBlockLw) {
      const int64_t l1bm = next_area();
      to_l1bm(Opcode::kL2bmb, rooms_.image_base + at, l1bm, all_l1bs());
      for (int64_t octet = 0; octet < kOctetsPerBlock; ++octet) {
        const int64_t slot = at / kOctetLw + octet;
        if (slot < gather_.constant_octets_) octet_to_pes(l1bm + octet * kOctetLw, slot);
      }
    }
  }

  /// Transfers of a load to the half of L2BM whose turn it is.
  void bring_load(size_t number) {
    if (number >= loads_.size()) return;
    std::vector<int8_t>& tags = load_tags_[number % 2];
    for (const Gather::Run& run : gather_.runs(*loads_[number])) {
      const int64_t to = half_of(number) + run.first_place * kBlockLw;
      const int64_t from = run.address % kBlocksPerGroup * kBlockLw;
      const int64_t group = run.address / kBlocksPerGroup;
      const int unit = run.l2b % chip_.l2b_per_group;
      const auto move = [&](Opcode opcode, int64_t from_group, int to_group, int to_unit) {
        tags.push_back(
            code_.transfer(mv(opcode, run.blocks * kBlockLw, Code::outside(Memory::kDram, from, from_group),
                              Code::l2bm(to, to_group, to_unit))));
      };
      switch (run.to) {
        case Run::To::kL2b:
          move(Opcode::kMvp, group, run.l2b / chip_.l2b_per_group, unit);
          break;
        case Run::To::kAll:
          move(Opcode::kMvb, group, -1, -1);
          break;
        case Run::To::kGroups:
          move(Opcode::kMvp, -1, -1, unit);
          break;
        case Run::To::kAllOfGroup:
          move(Opcode::kMvb2, -1, -1, -1);
          break;
      }
    }
  }
  /// Where its first place is.
  int64_t half_of(size_t load) const {
    return static_cast<int64_t>(load % 2) * rooms_.source_half + kBlockLw;
  }

  /// Of the load that was begun last.
  void bring_slot(const Slot& slot) {
    const int64_t l1bm = next_area();
    for (const Copy& copy : slot.copies) {
      const int64_t l2bm = half_of(loads_begun_ - 1) + copy.place * kBlockLw;
      const int64_t shift = copy.shift * kOctetLw;
      if (copy.is_dealt) {
        to_l1bm(Opcode::kL2bmb2, l2bm + shift, l1bm, copy.l1bs);
      } else {
        to_l1bm(Opcode::kL2bmb, l2bm, l1bm - shift, copy.l1bs);
      }
    }
    int64_t to = slot.in_window;
    for (int64_t octet = 0; octet < kOctetsPerBlock; ++octet) {
      if ((slot.octets >> octet & 1) != 0) octet_to_pes(l1bm + octet * kOctetLw, to++);
    }
  }

  /// Tables come in halves of their ring.
  int64_t tables_per_half() const { return rooms_.table_slots / 2; }
  void bring_tables(int64_t half) {
    const int64_t first = half * tables_per_half();
    const int64_t count = std::min(tables_per_half(), gather_.division_.tables - first);
    if (count <= 0) return;
    for (int l2b = 0; l2b < chip_.l2b_per_group; ++l2b) {
      const int64_t from = tables_address_ + (l2b * gather_.division_.tables + first) * gather_.used_lw_;
      const int64_t to = rooms_.table_base + half % 2 * tables_per_half() * gather_.used_lw_;
      table_tags_.push_back(
          code_.transfer(mv(Opcode::kMvp, count * gather_.used_lw_, Code::outside(Memory::kDram, from, -1),
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
    const int64_t l2bm = rooms_.table_base + table % rooms_.table_slots * gather_.used_lw_;
    const int64_t l1bm = line_slot(table, 1);
    code_.deal_down(row_lines(), l2bm, l1bm);
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
    code_.add(make_instruction(Opcode::kL1bmd, Precision::kNone, lines(Memory::kLm1, lw), Code::l1bm(l1bm)));
    for (const int8_t tag : std::exchange(image_tags_[slot], {})) code_.wait(tag);
    code_.deal_up(row_lines(), l1bm, l2bm);
    const auto per_group = static_cast<size_t>(chip_.l2b_per_group);
    for (size_t l = 0; l < per_group; ++l) {
      const auto of_group = [&](int group) -> const Row& {
        return gather_.division_
            .rows[static_cast<size_t>(group) * per_group + l][static_cast<size_t>(vector)];
      };
      const auto move = [&](const Row& row, int64_t from_group, int64_t to_group) {
        image_tags_[slot].push_back(code_.transfer(
            mv(Opcode::kMvp, row.size, Code::l2bm(l2bm, static_cast<int>(from_group), static_cast<int>(l)),
               Code::outside(Memory::kDram, gather_.problem_.address + row.begin, to_group))));
      };
      bool is_everywhere = of_group(0).size > 0;
      for (int group = 0; group < chip_.groups; ++group) {
        const Row own{group, of_group(0).begin, of_group(0).size};
        is_everywhere = is_everywhere && of_group(group) == own;
      }
      if (is_everywhere) {
        move(of_group(0), -1, -1);
        continue;
      }
      for (int group = 0; group < chip_.groups; ++group) {
        if (of_group(group).size > 0) move(of_group(group), group, of_group(group).group);
      }
    }
  }

  const Gather& gather_;
  const isa::Chip& chip_;
  int64_t tables_address_;
  GatherRooms rooms_;
  int64_t line_group_lw_;
  ScratchSpace scratch_;
  Code code_;
  std::array<Operand, 4> shifts_;
  Operand window_;     ///< its number, where the entries have it
  Operand elsewhere_;  ///< what T reads as 0
  Region spare_;
  std::vector<const Load*> loads_;  ///< of all tiles
  std::array<std::vector<int8_t>, 2> load_tags_;
  size_t loads_begun_ = 0;
  int64_t slots_brought_ = 0;
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
  Emitter(*this, tables_address).run(result);
  result.cycles = isa::predict_cycles(result.program, chip_).total();
  return result;
}

}  // namespace kodama::layout
