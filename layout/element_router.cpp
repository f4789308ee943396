#include "layout/element_router.h"

#include <algorithm>
#include <bit>
#include <map>
#include <set>

#include "isa/error.h"

namespace kodama::layout {
namespace {

using isa::Instruction;
using isa::Opcode;
using isa::Operand;
using isa::Precision;
using isa::Space;
using isa::Width;

}  // namespace

void emit_routes(const std::vector<ElementMove>& moves, Memory from, Memory to, int element_bits,
                 Code& code) {
  const isa::Chip& chip = code.chip();
  const int64_t lanes = code.lanes();
  const int64_t l1bs = chip.l1b_per_l2b;
  const int64_t line_lw = lanes * l1bs;
  const int64_t l2_size = std::max(line_lw, l2bmd_lw(chip));
  MaskedWrites writes(code, element_bits);

  // By address, L2B, and place among the L2B's long words: what is wanted of it.
  std::map<int64_t, std::map<int64_t, std::map<int64_t, std::vector<ElementMove>>>> wanted;
  for (const ElementMove& move : moves) {
    const int64_t lane = move.from.pe % lanes;
    const int64_t l1b = move.from.pe / lanes % l1bs;
    const int64_t l2b = move.from.pe / lanes / l1bs;
    wanted[move.from.address][l2b][lane / 8 * 8 * l1bs + 8 * l1b + lane % 8].push_back(move);
  }

  // How far the elements go decides how far up their long words have to.
  bool leaves_l1b = false;
  bool leaves_l2b = false;
  for (const ElementMove& move : moves) {
    leaves_l1b = leaves_l1b || move.from.pe / lanes != move.to.pe / lanes;
    leaves_l2b = leaves_l2b || move.from.pe / lanes / l1bs != move.to.pe / lanes / l1bs;
  }
  if (!leaves_l1b) {
    // Every L1B reads its own: the number of the long word is the lane, and L1Bs don't matter.
    decltype(wanted) own;
    for (const ElementMove& move : moves) own[move.from.address][0][move.from.pe % lanes].push_back(move);
    wanted = std::move(own);
  } else if (!leaves_l2b) {
    decltype(wanted) own;
    for (auto& [address, l2bs] : wanted) {
      for (auto& [l2b, long_words] : l2bs) {
        for (auto& [at, list] : long_words) {
          std::vector<ElementMove>& all = own[address][0][at];
          all.insert(all.end(), list.begin(), list.end());
        }
      }
    }
    wanted = std::move(own);
  }

  const LineBuffer up = code.line_buffer(1);
  const Region down = code.scratch().take(Memory::kL1bm, kBlockLw, kBlockLw);
  const Region above = code.scratch().take(Memory::kL2bm, l2_size, kBlockLw);
  const Region everywhere = leaves_l2b ? code.scratch().take(Memory::kL2bm, l2_size, kBlockLw) : above;
  const Region outside = leaves_l2b ? code.scratch().take(Memory::kPdm, l2_size, kBlockLw) : Region{};
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
    if (leaves_l1b) code.deal_up({{0, pe_address}}, up.base, above.base);
    for (const auto& [l2b, long_words] : l2bs) {
      const int64_t group = l2b / chip.l2b_per_group;
      if (leaves_l2b) {
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
      }
      int64_t chunk_there = -1;
      int64_t four_there = -1;
      Region value = values[0];
      for (const auto& [at, list] : long_words) {
        if (leaves_l1b && at / kBlockLw != chunk_there) {
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
              Opcode::kL1bmp, Precision::kNone,
              Code::l1bm(leaves_l1b ? down.base + at % kBlockLw / 4 * 4 : up.base + at / 4 * 4),
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

PePlace staged_place(Memory memory, const Coordinates& at, const isa::Chip& chip) {
  const int64_t lanes = int64_t{isa::kPePerMab} * chip.mab_per_l1b;
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
  const int64_t lanes = int64_t{isa::kPePerMab} * chip.mab_per_l1b;
  const int64_t line_lw = memory == Memory::kL1bm ? lanes : lanes * chip.l1b_per_l2b;
  return (upper_lw + line_lw - 1) / line_lw;
}

int64_t staged_end(Memory memory, int64_t lines, const isa::Chip& chip) {
  const int64_t lanes = int64_t{isa::kPePerMab} * chip.mab_per_l1b;
  if (memory == Memory::kL1bm) return (lines + kLineGroup - 1) / kLineGroup * kLineGroup * lanes;
  const int64_t end = lines * lanes * chip.l1b_per_l2b;
  return (end + l2bmd_lw(chip) - 1) / l2bmd_lw(chip) * l2bmd_lw(chip);
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
  const int64_t line_lw = lanes * chip.l1b_per_l2b;
  const bool outside = upper != Memory::kL2bm;
  // A few lines at a time.
  const int64_t window = std::max<int64_t>(8, kDealLw / lanes);
  const LineBuffer l1 = code.line_buffer(window);
  Region l2;
  if (outside) l2 = code.scratch().take(Memory::kL2bm, window * line_lw + l2bmd_lw(chip), kBlockLw);
  for (int64_t first = 0; first < lines; first += window) {
    const int64_t last = std::min(first + window, lines);
    const int64_t base = outside ? l2.base : first * line_lw;
    const int64_t size = staged_end(upper, last - first, chip);
    const auto move_outside = [&] {
      for (int64_t group = 0; group < chip.groups; ++group) {
        const Operand place = Code::outside(upper, first * line_lw, group);
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
