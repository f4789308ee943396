#include "layout/moves/element_router.h"

#include <algorithm>
#include <bit>
#include <map>
#include <set>
#include <tuple>

#include "isa/arithmetic.h"
#include "isa/error.h"

namespace kodama::layout {
namespace {

using isa::Instruction;
using isa::Opcode;
using isa::Operand;
using isa::Precision;
using isa::Space;
using isa::Width;

/// GRF0 long words that are on their way at a time.
constexpr int64_t kMostHeld = 128;
/// Lines that go up at a time.
constexpr int64_t kMostLines = 8;

/// Routes that stay in their L2B: many long words come to all PEs, then every PE takes what it wants of them,
/// with one mask for all that goes to the same words of a PE.
class NearRoutes {
 public:
  NearRoutes(const std::vector<ElementMove>& moves, Memory from, Memory to, int element_bits, Code& code)
      : moves_(moves),
        from_(from),
        to_(to),
        element_bits_(element_bits),
        code_(code),
        writes_(code, element_bits),
        lanes_(code.lanes()),
        l1bs_(code.chip().l1b_per_l2b) {
    for (const ElementMove& move : moves) {
      leaves_l1b_ = leaves_l1b_ || move.from.pe / lanes_ != move.to.pe / lanes_;
      one_mab_ =
          one_mab_ && move.from.pe % lanes_ / isa::kPePerMab == moves[0].from.pe % lanes_ / isa::kPePerMab;
    }
    cut();
  }
  size_t batches() const { return batches_.size(); }

  void run() {
    std::vector<int64_t> pes;
    for (const ElementMove& move : moves_) pes.push_back(move.to.pe);
    writes_.tell_apart(pes);
    const Region held = code_.scratch().take(Memory::kGrf0, kMostHeld, 4);
    const LineBuffer up = code_.line_buffer(kMostLines);
    const Region above = leaves_l1b_ ? code_.scratch().take(Memory::kL2bm, l2_lw(), kBlockLw) : Region{};
    const Region down = leaves_l1b_ ? code_.scratch().take(Memory::kL1bm, l2_lw(), kBlockLw) : Region{};
    for (size_t k = 0; k < batches_.size(); ++k) {
      const std::map<int64_t, int64_t> homes = bring(batches_[k], up, above, down, held.base);
      take(batches_[k], homes, k == 0);
    }
  }

 private:
  struct Batch {
    std::vector<int64_t> addresses;             ///< of the lines
    std::map<int64_t, std::vector<size_t>> at;  ///< by number of the long word: moves
  };

  int64_t l2_lw() const { return isa::round_up(kMostLines * lanes_, kDealLw) * l1bs_; }
  /// The number of a long word of line `line`: in L2BM when it goes there, else in L1BM, where those of all
  /// L1Bs are the same.
  int64_t number(int64_t line, int64_t pe) const {
    const int64_t in_l1b =
        one_mab_ ? line * isa::kPePerMab + pe % isa::kPePerMab : line * lanes_ + pe % lanes_;
    if (!leaves_l1b_) return in_l1b;
    return in_l1b / 8 * 8 * l1bs_ + 8 * (pe / lanes_ % l1bs_) + in_l1b % 8;
  }

  void cut() {
    std::map<int64_t, std::vector<size_t>> by_address;
    for (size_t k = 0; k < moves_.size(); ++k) by_address[moves_[k].from.address].push_back(k);
    for (const auto& [address, all] : by_address) {
      // An address may hold more than there is room for.
      std::map<int64_t, std::vector<size_t>> own;
      for (const size_t k : all) own[moves_[k].from.pe].push_back(k);
      for (auto& [pe, list] : own) {
        bool fits = !batches_.empty() && room(batches_.back(), address, pe);
        if (!fits) batches_.emplace_back();
        Batch& batch = batches_.back();
        if (batch.addresses.empty() || batch.addresses.back() != address) batch.addresses.push_back(address);
        std::vector<size_t>& there = batch.at[number(static_cast<int64_t>(batch.addresses.size()) - 1, pe)];
        there.insert(there.end(), list.begin(), list.end());
      }
    }
  }
  bool room(const Batch& batch, int64_t address, int64_t pe) const {
    const bool is_new = batch.addresses.back() != address;
    const auto lines = static_cast<int64_t>(batch.addresses.size()) + (is_new ? 1 : 0);
    if (lines > kMostLines) return false;
    std::set<int64_t> fours;
    for (const auto& [at, list] : batch.at) fours.insert(at / 4);
    fours.insert(number(lines - 1, pe) / 4);
    return static_cast<int64_t>(fours.size()) * 4 <= kMostHeld;
  }

  /// Brings the long words to GRF0 of all PEs; where each of them is.
  std::map<int64_t, int64_t> bring(const Batch& batch, const LineBuffer& up, const Region& above,
                                   const Region& down, int64_t held) {
    std::vector<LineCopy> lines;
    for (const int64_t address : batch.addresses)
      lines.push_back({static_cast<int64_t>(lines.size()), address});
    if (one_mab_) {
      up_from_mab(batch.addresses, up.base);
      // As if they were whole lines.
      const auto used = static_cast<int64_t>(lines.size()) * isa::kPePerMab;
      lines.resize(static_cast<size_t>(isa::ceil_div(used, lanes_)));
    } else {
      code_.lines_up(lines, from_, up.base);
    }
    std::set<int64_t> fours;
    for (const auto& [at, list] : batch.at) fours.insert(at / 4);
    if (leaves_l1b_) {
      code_.deal_up(lines, up.base, above.base);
      std::set<int64_t> blocks;
      for (const int64_t four : fours) blocks.insert(4 * four / kBlockLw * kBlockLw);
      for (const int64_t block : blocks) {
        code_.add(make_instruction(Opcode::kL2bmb, Precision::kNone, Code::l2bm(above.base + block),
                                   Code::l1bm(down.base + block)));
      }
    }
    const int64_t base = leaves_l1b_ ? down.base : up.base;
    std::map<int64_t, int64_t> homes;
    for (auto four = fours.begin(); four != fours.end();) {
      const int64_t first = *four++;
      // Eight long words a step where they follow each other: 4 + c beside c.
      const bool wide = four != fours.end() && *four == first + 1;
      if (wide) ++four;
      const int64_t step = wide ? 2 : 1;
      for (int64_t k = 0; k < 4 * step; ++k) homes[4 * first + k] = held + k % 4 * step + k / 4;
      code_.add(
          make_instruction(Opcode::kL1bmp, Precision::kNone, Code::l1bm(base + 4 * first, wide),
                           Code::pe(Memory::kGrf0, {held, held + step, held + 2 * step, held + 3 * step},
                                    wide ? Width::kDoubleLong : Width::kLong, code_.chip())));
      held += 4 * step;
    }
    return homes;
  }

  /// What one MAB holds at these addresses, without gaps: four addresses a step, eight where they are pairs.
  void up_from_mab(const std::vector<int64_t>& addresses, int64_t base) {
    const int64_t mab = moves_[0].from.pe % lanes_ / isa::kPePerMab;
    const auto count = addresses.size();
    const auto at = [&](size_t k) { return addresses[std::min(k, count - 1)]; };
    for (size_t k = 0; k < count;) {
      bool wide = count - k > 4;
      for (size_t j = k; wide && j < k + 8; j += 2) {
        // Beyond the end the last address comes again, or the one beside it.
        wide = at(j) % 2 == 0 ? j + 1 >= count || at(j + 1) == at(j) + 1 : j >= count;
      }
      std::array<int64_t, 4> own{};
      for (size_t c = 0; c < 4; ++c) own[c] = wide ? at(k + 2 * c) / 2 * 2 : at(k + c);
      Instruction up =
          make_instruction(Opcode::kL1bmm, Precision::kNone,
                           Code::pe(from_, own, wide ? Width::kDoubleLong : Width::kLong, code_.chip()),
                           Code::l1bm(base + static_cast<int64_t>(k) * isa::kPePerMab, wide));
      up.unit = static_cast<int8_t>(mab);
      code_.add(std::move(up));
      k += wide ? 8 : 4;
    }
  }

  void take(const Batch& batch, const std::map<int64_t, int64_t>& homes, bool is_first) {
    // By PE, turn and words: what is to be written from where.
    std::map<std::tuple<int64_t, int64_t, int64_t>, uint32_t> words;  // PE, address, home and turn
    for (const auto& [at, list] : batch.at) {
      for (const size_t k : list) {
        const ElementMove& move = moves_[k];
        const int64_t turn = ((move.from.word - move.to.word) * element_bits_ % 64 + 64) % 64;
        words[{move.to.pe, move.to.address, homes.at(at) * 64 + turn}] |= 1U << move.to.word;
      }
    }
    std::map<std::tuple<int64_t, uint32_t, int64_t>, std::vector<std::pair<int64_t, int64_t>>> groups;
    for (const auto& [key, set] : words) {
      const auto& [pe, address, home] = key;
      groups[{pe, set, home % 64}].emplace_back(address, home / 64);
    }
    // What the first PE takes everyone may write: the others' places are written after it.
    const bool all_may = is_first && element_bits_ == 64;
    int mask = 0;
    std::pair<int64_t, uint32_t> mask_is_of{-1, 0};
    for (const auto& [key, list] : groups) {
      const auto& [pe, set, turn] = key;
      if (mask_is_of != std::pair{pe, set}) {
        mask = all_may && mask_is_of.first < 0 ? 0 : writes_.mask_of_pe(pe, set);
        mask_is_of = {pe, set};
      }
      for (size_t k = 0; k < list.size(); k += 4) {
        std::array<int64_t, 4> sources{};
        std::array<int64_t, 4> targets{};
        for (size_t c = 0; c < 4; ++c)
          std::tie(targets[c], sources[c]) = list[std::min(k + c, list.size() - 1)];
        const Operand source = Code::pe(Memory::kGrf0, sources, Width::kLong, code_.chip());
        if (turn == 0) {
          writes_.write(source, to_, targets, mask);
        } else {
          writes_.write_turned(source, amount(turn), to_, targets, mask);
        }
      }
    }
  }
  const Operand& amount(int64_t turn) {
    const auto known = amounts_.find(turn);
    if (known != amounts_.end()) return known->second;
    const Operand place = code_.new_register(Memory::kGrf1);
    code_.load(static_cast<uint32_t>(turn), place);
    return amounts_[turn] = place;
  }

  const std::vector<ElementMove>& moves_;
  Memory from_;
  Memory to_;
  int element_bits_;
  Code& code_;
  MaskedWrites writes_;
  int64_t lanes_;
  int64_t l1bs_;
  bool leaves_l1b_ = false;
  bool one_mab_ = true;  ///< in which all long words are
  std::vector<Batch> batches_;
  std::map<int64_t, Operand> amounts_;
};

bool leave_l2b(const std::vector<ElementMove>& moves, const isa::Chip& chip) {
  const int64_t pes = line_lw(Memory::kL2bm, chip);
  return std::ranges::any_of(moves,
                             [&](const ElementMove& move) { return move.from.pe / pes != move.to.pe / pes; });
}

/// Routes between L2Bs.
void emit_far_routes(const std::vector<ElementMove>& moves, Memory from, Memory to, int element_bits,
                     Code& code) {
  const isa::Chip& chip = code.chip();
  const int64_t lanes = code.lanes();
  const int64_t l1bs = chip.l1b_per_l2b;
  const int64_t l2_size = std::max(line_lw(Memory::kL2bm, chip), l2bmd_lw(chip));
  MaskedWrites writes(code, element_bits);

  // By address, L2B, and place among the L2B's long words: what is wanted of it.
  std::map<int64_t, std::map<int64_t, std::map<int64_t, std::vector<ElementMove>>>> wanted;
  for (const ElementMove& move : moves) {
    const int64_t lane = move.from.pe % lanes;
    const int64_t l1b = move.from.pe / lanes % l1bs;
    const int64_t l2b = move.from.pe / lanes / l1bs;
    wanted[move.from.address][l2b][lane / 8 * 8 * l1bs + 8 * l1b + lane % 8].push_back(move);
  }

  const LineBuffer up = code.line_buffer(1);
  const Region down = code.scratch().take(Memory::kL1bm, kBlockLw, kBlockLw);
  const Region above = code.scratch().take(Memory::kL2bm, l2_size, kBlockLw);
  const Region everywhere = code.scratch().take(Memory::kL2bm, l2_size, kBlockLw);
  const Region outside = code.scratch().take(Memory::kPdm, l2_size, kBlockLw);
  std::array<Region, 2> values{code.scratch().take(Memory::kGrf0, 4), code.scratch().take(Memory::kGrf0, 4)};
  std::vector<Operand> turned;
  std::map<int, Operand> amounts;
  for (int k = 0; k < 4; ++k) turned.push_back(code.new_register(Memory::kGrf0));
  size_t next_turned = 0;
  size_t next_value = 0;
  const int number_bits = bits_for(lanes) + bits_for(l1bs) + bits_for(chip.l2b_count());
  const int64_t everything = (int64_t{1} << number_bits) - 1;

  for (const auto& [pe_address, l2bs] : wanted) {
    code.lines_up({{0, pe_address}}, from, up.base);
    code.deal_up({{0, pe_address}}, up.base, above.base);
    for (const auto& [l2b, long_words] : l2bs) {
      const int64_t group = l2b / chip.l2b_per_group;
      Instruction out = make_instruction(
          Opcode::kMvp, Precision::kNone,
          Code::l2bm(above.base, static_cast<int>(group), static_cast<int>(l2b % chip.l2b_per_group)),
          Code::outside(Memory::kPdm, outside.base, group));
      out.size_lw = l2_size;
      code.wait(code.transfer(std::move(out)));
      Instruction back =
          make_instruction(Opcode::kMvb, Precision::kNone, Code::outside(Memory::kPdm, outside.base, group),
                           Code::l2bm(everywhere.base));
      back.size_lw = l2_size;
      code.wait(code.transfer(std::move(back)));
      int64_t chunk_there = -1;
      int64_t four_there = -1;
      Region value = values[0];
      for (const auto& [at, list] : long_words) {
        if (at / kBlockLw != chunk_there) {
          chunk_there = at / kBlockLw;
          code.add(make_instruction(Opcode::kL2bmb, Precision::kNone,
                                    Code::l2bm(everywhere.base + chunk_there * kBlockLw),
                                    Code::l1bm(down.base)));
          four_there = -1;
        }
        if (at / 4 != four_there) {
          four_there = at / 4;
          value = values[next_value++ % values.size()];
          code.add(make_instruction(
              Opcode::kL1bmp, Precision::kNone, Code::l1bm(down.base + at % kBlockLw / 4 * 4),
              Code::pe(Memory::kGrf0, {value.base, value.base + 1, value.base + 2, value.base + 3},
                       Width::kLong, chip)));
        }
        const int64_t own = value.base + at % 4;
        const Operand here = Code::pe(Memory::kGrf0, {own, own, own, own}, Width::kLong, chip);
        for (const ElementMove& move : list) {
          const auto turn = static_cast<int>(((move.from.word - move.to.word) * element_bits % 64 + 64) % 64);
          Operand source = here;
          if (turn != 0) {
            if (!amounts.contains(turn)) {
              amounts[turn] = code.new_register(Memory::kGrf1);
              code.load(static_cast<uint32_t>(turn), amounts[turn]);
            }
            source = turned[next_turned++ % turned.size()];
            Instruction rotate =
                make_instruction(Opcode::kBsl, Precision::kNone, {here, amounts[turn]}, source);
            rotate.precision = Precision::kLong;
            code.add(std::move(rotate));
          }
          const int64_t lane = move.to.pe % lanes;
          const int64_t l1b = move.to.pe / lanes;
          const int64_t number =
              (l1b / l1bs << (bits_for(lanes) + bits_for(l1bs))) | (l1b % l1bs << bits_for(lanes)) | lane;
          const int mask = writes.mask(number, everything, 1U << move.to.word);
          const int64_t to_address = move.to.address;
          writes.write(source, to, {to_address, to_address, to_address, to_address}, mask);
        }
      }
    }
  }
}

}  // namespace

void emit_routes(const std::vector<ElementMove>& moves, Memory from, Memory to, int element_bits,
                 Code& code) {
  if (leave_l2b(moves, code.chip())) {
    emit_far_routes(moves, from, to, element_bits, code);
  } else {
    NearRoutes(moves, from, to, element_bits, code).run();
  }
}

bool routes_read_before_they_write(const std::vector<ElementMove>& moves, Code& code) {
  return !leave_l2b(moves, code.chip()) &&
         NearRoutes(moves, Memory::kLm0, Memory::kLm0, 64, code).batches() <= 1;
}

PePlace staged_place(Memory memory, const Coordinates& at, const isa::Chip& chip) {
  const int64_t lanes = chip.pe_per_l1b();
  const int64_t l1bs = chip.l1b_per_l2b;
  int64_t l2b = at[Level::kL2b];
  int64_t l1b = at[Level::kL1b];
  int64_t address = at[Level::kAddress];
  if (memory == Memory::kDram || memory == Memory::kPdm) l2b = l2b / chip.l2b_per_group * chip.l2b_per_group;
  if (memory != Memory::kL1bm) {
    l1b = address / 8 % l1bs;
    address = address / (8 * l1bs) * 8 + address % 8;
  }
  return {(l2b * l1bs + l1b) * lanes + address % lanes, address / lanes, at[Level::kWord]};
}

int64_t staged_lines(Memory memory, int64_t upper_lw, const isa::Chip& chip) {
  return isa::ceil_div(upper_lw, line_lw(memory, chip));
}

int64_t staged_end(Memory memory, int64_t lines, const isa::Chip& chip) {
  const int64_t end = lines * line_lw(memory, chip);
  return isa::round_up(end, memory == Memory::kL1bm ? kLineGroup * line_lw(memory, chip) : l2bmd_lw(chip));
}

void emit_staging(Memory upper, int64_t lines, Memory pe_memory, int64_t pe_base, bool down, Code& code) {
  const isa::Chip& chip = code.chip();
  const int64_t lanes = code.lanes();
  if (upper == Memory::kL1bm) {
    std::vector<LineCopy> copies;
    for (int64_t line = 0; line < lines; ++line) copies.push_back({line, pe_base + line});
    if (down) {
      code.lines_down(std::move(copies), pe_memory, 0);
    } else {
      code.lines_up(std::move(copies), pe_memory, 0);
    }
    return;
  }
  const int64_t l2_line_lw = line_lw(Memory::kL2bm, chip);
  const bool outside = upper != Memory::kL2bm;
  // A few lines at a time.
  const int64_t window = std::max<int64_t>(8, kDealLw / lanes);
  const LineBuffer l1 = code.line_buffer(window);
  Region l2;
  if (outside) l2 = code.scratch().take(Memory::kL2bm, window * l2_line_lw + l2bmd_lw(chip), kBlockLw);
  for (int64_t first = 0; first < lines; first += window) {
    const int64_t last = std::min(first + window, lines);
    const int64_t base = outside ? l2.base : first * l2_line_lw;
    const int64_t size = staged_end(upper, last - first, chip);
    const auto move_outside = [&] {
      for (int64_t group = 0; group < chip.groups; ++group) {
        const Operand place = Code::outside(upper, first * l2_line_lw, group);
        const Operand inside = Code::l2bm(base, static_cast<int>(group), 0);
        Instruction mv =
            make_instruction(Opcode::kMvp, Precision::kNone, down ? place : inside, down ? inside : place);
        mv.size_lw = size;
        code.transfer(std::move(mv));
      }
      code.wait_all();
    };
    std::vector<LineCopy> copies;
    for (int64_t line = first; line < last; ++line) copies.push_back({line - first, pe_base + line});
    if (down) {
      if (outside) move_outside();
      code.deal_down(copies, base, l1.base);
      code.lines_down(copies, pe_memory, l1.base);
    } else {
      code.lines_up(copies, pe_memory, l1.base);
      code.deal_up(copies, l1.base, base);
      if (outside) move_outside();
    }
  }
  code.give_back(l1);
  if (outside) code.scratch().give_back(l2);
}

}  // namespace kodama::layout
