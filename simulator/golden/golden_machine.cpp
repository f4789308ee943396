#include "simulator/golden/golden_machine.h"

#include <algorithm>

#include "isa/error.h"
#include "isa/number_formats.h"
#include "simulator/debug_text.h"
#include "simulator/golden/golden_arithmetic.h"

namespace kodama::simulator::golden {
namespace {

using isa::FloatFormat;
using isa::Instruction;
using isa::Opcode;
using isa::Operand;
using isa::Precision;
using isa::Space;
using isa::Width;

int64_t modulo(int64_t value, int64_t size) {
  return ((value % size) + size) % size;
}

uint64_t& at_wrapped(std::vector<uint64_t>& memory, int64_t address) {
  return memory[static_cast<size_t>(modulo(address, static_cast<int64_t>(memory.size())))];
}

/// Word w of {h, l}, most significant first.
uint32_t word_of(Quad value, int w) {
  return static_cast<uint32_t>((w < 2 ? value.h : value.l) >> (w % 2 == 0 ? 32 : 0));
}

Quad quad_of_words(const std::array<uint64_t, 4>& words) {
  return {words[0] << 32 | words[1], words[2] << 32 | words[3]};
}

/// The bits of {h, l} that a mask lets through: length l covers the half words of h and leaves l alone,
/// length ll the words of both.
Quad mask_pattern(int bits, bool double_long) {
  Quad pattern;
  for (int i = 0; i < 4; ++i) {
    if ((bits >> (3 - i) & 1) == 0) continue;
    if (!double_long) {
      pattern.h |= uint64_t{0xffff} << (48 - 16 * i);
    } else {
      (i < 2 ? pattern.h : pattern.l) |= uint64_t{0xffffffff} << (i % 2 == 0 ? 32 : 0);
    }
  }
  if (!double_long) pattern.l = ~uint64_t{0};
  return pattern;
}

/// Bits of the flags of `lanes` lanes.
int flag_bits(const std::vector<bool>& flags) {
  int bits = 0;
  for (int i = 0; i < 4; ++i) bits |= flags[static_cast<size_t>(i) * flags.size() / 4] ? 8 >> i : 0;
  return bits;
}

int space_bit_of_mask(Space space) {
  switch (space) {
    case Space::kGrf0:
      return 0;
    case Space::kGrf1:
      return 1;
    case Space::kT:
      return 2;
    case Space::kLm0:
    case Space::kBar0:
      return 3;
    case Space::kLm1:
    case Space::kBar1:
      return 4;
    default:
      return 5;
  }
}

FloatFormat next_lower(FloatFormat format) {
  return format.mantissa_bits == isa::kDoubleFormat.mantissa_bits ? isa::kFloatFormat : isa::kHalfFormat;
}

bool is_l1bm_side(Space space) {
  return space == Space::kL1bm || space == Space::kTurnaround;
}

}  // namespace

GoldenMachine::GoldenMachine(const isa::Chip& chip) : chip_(chip) {
  Pe pe;
  for (auto& lm : pe.lm) lm.resize(chip.memory.lm_words);
  for (auto& grf : pe.grf) grf.resize(chip.memory.grf_words);
  pe.masks.resize(chip.memory.mask_entries);
  Mab mab;
  mab.pes.assign(isa::kPePerMab, pe);
  L1b l1b;
  l1b.mabs.assign(chip.mab_per_l1b, mab);
  l1b.l1bm.resize(chip.memory.l1bm_lw);
  l1b.turnaround.resize(std::max(64, 16 * chip.mab_per_l1b));
  L2b l2b;
  l2b.l1bs.assign(chip.l1b_per_l2b, l1b);
  l2b.l2bm.resize(chip.memory.l2bm_lw);
  Group group;
  group.l2bs.assign(chip.l2b_per_group, l2b);
  group.dram.resize(chip.memory.dram_lw);
  group.pdm.resize(chip.memory.pdm_lw);
  group.dar.resize(chip.memory.dar_entries);
  groups_.assign(chip.groups, group);
}

uint64_t GoldenMachine::read(Space space, const Place& place, int64_t address) const {
  check_place(space, place, address, chip_);
  return long_at(space, place, static_cast<size_t>(address));
}
void GoldenMachine::write(Space space, const Place& place, int64_t address, uint64_t value) {
  check_place(space, place, address, chip_);
  set_long(space, place, static_cast<size_t>(address), value);
}
void GoldenMachine::read(Space space, const Place& place, int64_t address, std::span<uint64_t> data) const {
  check_range(space, place, address, data.size(), chip_);
  auto index = static_cast<size_t>(address);
  const auto step = static_cast<size_t>(address_step(space));
  for (uint64_t& value : data) {
    value = long_at(space, place, index);
    index += step;
  }
}
void GoldenMachine::write(Space space, const Place& place, int64_t address, std::span<const uint64_t> data) {
  check_range(space, place, address, data.size(), chip_);
  auto index = static_cast<size_t>(address);
  const auto step = static_cast<size_t>(address_step(space));
  for (const uint64_t value : data) {
    set_long(space, place, index, value);
    index += step;
  }
}

uint64_t GoldenMachine::long_at(Space space, const Place& place, size_t index) const {
  const Group& group = groups_[place.group];
  if (space == Space::kDram) return group.dram[index];
  if (space == Space::kPdm) return group.pdm[index];
  if (space == Space::kDar) return group.dar[index];
  const L2b& l2b = group.l2bs[place.l2b];
  if (space == Space::kL2bm) return l2b.l2bm[index];
  const L1b& l1b = l2b.l1bs[place.l1b];
  if (space == Space::kL1bm) return l1b.l1bm[index];
  const Mab& mab = l1b.mabs[place.mab];
  if (space == Space::kMatX || space == Space::kMatY)
    return mab.matrix[space == Space::kMatY][index / 4][index % 4];
  const Pe& pe = mab.pes[place.pe];
  auto pair = [&](const std::vector<uint32_t>& words) {
    return uint64_t{words[index]} << 32 | words[index + 1];
  };
  switch (space) {
    case Space::kLm0:
      return pair(pe.lm[0]);
    case Space::kLm1:
      return pair(pe.lm[1]);
    case Space::kGrf0:
      return pair(pe.grf[0]);
    case Space::kGrf1:
      return pair(pe.grf[1]);
    case Space::kT:
      return index < 4 ? pe.t[index].h : pe.t[index - 4].l;
    case Space::kOmr:
      return pe.masks[index / 4][index % 4];
    default:
      return pe.bar[space == Space::kBar1];
  }
}

void GoldenMachine::set_long(Space space, const Place& place, size_t index, uint64_t value) {
  Group& group = groups_[place.group];
  if (space == Space::kDram) {
    group.dram[index] = value;
    return;
  }
  if (space == Space::kPdm) {
    group.pdm[index] = value;
    return;
  }
  if (space == Space::kDar) {
    group.dar[index] = static_cast<uint32_t>(value);
    return;
  }
  L2b& l2b = group.l2bs[place.l2b];
  if (space == Space::kL2bm) {
    l2b.l2bm[index] = value;
    return;
  }
  L1b& l1b = l2b.l1bs[place.l1b];
  if (space == Space::kL1bm) {
    l1b.l1bm[index] = value;
    return;
  }
  Mab& mab = l1b.mabs[place.mab];
  if (space == Space::kMatX || space == Space::kMatY) {
    mab.matrix[space == Space::kMatY][index / 4][index % 4] = value;
    return;
  }
  Pe& pe = mab.pes[place.pe];
  auto pair = [&](std::vector<uint32_t>& words) {
    words[index] = static_cast<uint32_t>(value >> 32);
    words[index + 1] = static_cast<uint32_t>(value);
  };
  switch (space) {
    case Space::kLm0:
      pair(pe.lm[0]);
      break;
    case Space::kLm1:
      pair(pe.lm[1]);
      break;
    case Space::kGrf0:
      pair(pe.grf[0]);
      break;
    case Space::kGrf1:
      pair(pe.grf[1]);
      break;
    case Space::kT:
      (index < 4 ? pe.t[index].h : pe.t[index - 4].l) = value;
      break;
    case Space::kOmr:
      pe.masks[index / 4][index % 4] = static_cast<uint8_t>(value & 15);
      break;
    default:
      pe.bar[space == Space::kBar1] = static_cast<uint32_t>(value & 0xfff);
      break;
  }
}

// ---------------------------------------------------------------------------------------------------
// Statements.

RunStats GoldenMachine::run(const isa::Program& program, const RunOptions& options) {
  RunStats stats;
  block_mask_ = {};
  std::vector<int64_t> counters;
  isa::for_each_executed(
      program.statements, counters, [&](const isa::Statement& statement, const std::vector<int64_t>& at) {
        if (const auto* step = std::get_if<isa::Step>(&statement.kind)) {
          run_step(*step, at);
          ++stats.steps;
        } else if (const auto* nop = std::get_if<isa::Nop>(&statement.kind)) {
          stats.steps += nop->count;
          stats.nops += nop->count;
        } else if (const auto* mv = std::get_if<isa::Mv>(&statement.kind)) {
          run_mv(mv->instruction, at);
          ++stats.mvs;
          stats.add_moved(mv->instruction.size_lw);
        } else if (const auto* mask = std::get_if<isa::MaskControl>(&statement.kind)) {
          block_mask_ = *mask;
        } else if (const auto* get = std::get_if<isa::DebugGet>(&statement.kind)) {
          if (options.dump) {
            debug_get(
                *get, chip_,
                [this](Space space, const Place& place, int64_t address) {
                  return read(space, place, address);
                },
                options.dump);
          }
        } else if (const auto* set = std::get_if<isa::DebugSet>(&statement.kind)) {
          debug_set(*set, chip_, [this](Space space, const Place& place, int64_t address, uint64_t value) {
            write(space, place, address, value);
          });
        } else if (const auto* preload = std::get_if<isa::DramPreload>(&statement.kind)) {
          for (size_t i = 0; i < preload->payload.size(); ++i) {
            write(Space::kDram, {preload->group, 0, 0, 0, 0}, preload->address + static_cast<int64_t>(i),
                  preload->payload[i]);
          }
        } else if (std::holds_alternative<isa::Quit>(statement.kind)) {
          return false;
        }
        return true;
      });
  return stats;
}

void GoldenMachine::for_each_l2b(const std::function<void(L2b&, int)>& visit) {
  int number = 0;
  for (Group& group : groups_) {
    for (L2b& l2b : group.l2bs) visit(l2b, number++);
  }
}

/// 1.4: all operands of all cycles are read first, then everything is written.
void GoldenMachine::run_step(const isa::Step& step, const std::vector<int64_t>& counters) {
  StepContext context;
  context.counters = counters;
  for (const Instruction& instruction : step.instructions) {
    if (instruction.opcode == Opcode::kNoForward) context.no_forward = true;
    for (const Operand& destination : instruction.destinations) {
      if (destination.mask.kind != isa::Mask::Kind::kNone) context.own_masks = true;
    }
  }
  std::vector<const Instruction*> l2b_instructions;
  for (const Instruction& instruction : step.instructions) {
    switch (isa::issue_group(instruction)) {
      case isa::IssueGroup::kNoForward:
      case isa::IssueGroup::kWait:
        break;
      case isa::IssueGroup::kL2bm:
      case isa::IssueGroup::kL2bmDarw:
        l2b_instructions.push_back(&instruction);
        break;
      default:
        for_each_l2b([&](L2b& l2b, int number) {
          for (int b = 0; b < chip_.l1b_per_l2b; ++b)
            run_in_l1b(instruction, {number, b, 0, 0, &l2b.l1bs[b], nullptr, nullptr}, context);
        });
        break;
    }
  }
  // Where an L1BM and an L2BM instruction write the same place the order is open; L2BM comes last here.
  for (const Instruction* instruction : l2b_instructions) {
    if (instruction->opcode == Opcode::kL2bmdars || instruction->opcode == Opcode::kL2bmdarw) {
      run_dar(*instruction, context);
    } else {
      for_each_l2b([&](L2b& l2b, int) { run_in_l2b(*instruction, l2b, context); });
    }
  }
  for (const auto& write : context.writes) write();
}

void GoldenMachine::run_in_l1b(const Instruction& instruction, const At& l1b, StepContext& context) {
  const isa::IssueGroup group = isa::issue_group(instruction);
  const bool l1bm = group == isa::IssueGroup::kL1bm || group == isa::IssueGroup::kL1bmTurnaround;
  if (l1bm && !is_l1bm_side(instruction.sources[0].space)) {
    pe_to_l1bm(instruction, l1b, context);
    return;
  }
  for (int m = 0; m < chip_.mab_per_l1b; ++m) {
    Mab& mab = l1b.l1b->mabs[m];
    auto at = [&](int p) { return At{l1b.l2b_number, l1b.l1b_number, m, p, l1b.l1b, &mab, &mab.pes[p]}; };
    for (int c = 0; c < isa::kCyclesPerStep; ++c) {
      if (group == isa::IssueGroup::kMauMwrite) {
        matrix_write(instruction, at(0), c, context);
        continue;
      }
      std::array<Quad, 4> results;
      std::array<int, 4> flags{};
      int forward = 0;
      const bool whole_mab_alu = instruction.opcode == Opcode::kBfn || instruction.opcode == Opcode::kBfe;
      const bool whole_mab_mau = instruction.opcode == Opcode::kMmul || instruction.opcode == Opcode::kMfma;
      if (whole_mab_alu) results = block_float(instruction, at(0), c, context);
      if (whole_mab_mau) results = matrix_mau(instruction, at(0), c, context, flags);
      for (int p = 0; p < isa::kPePerMab; ++p) {
        switch (group) {
          case isa::IssueGroup::kAlu:
            if (!whole_mab_alu) results[p] = alu(instruction, at(p), c, context, flags[p]);
            break;
          case isa::IssueGroup::kMauCalc:
            forward = 1;
            if (!whole_mab_mau) results[p] = vector_mau(instruction, at(p), c, context, flags[p]);
            break;
          case isa::IssueGroup::kMauMread:
            forward = 3;
            results[p] = matrix_read(instruction, at(p), c, context);
            break;
          default:
            forward = 2;
            results[p] = l1bm_to_pe(instruction, at(p), c, context);
            break;
        }
        deliver(instruction, at(p), c, results[p], flags[p], forward, context);
      }
    }
  }
}

// ---------------------------------------------------------------------------------------------------
// Operands of PEs (section 3).

int64_t GoldenMachine::pe_address(const Operand& operand, const Pe& pe, int pe_number, int cycle,
                                  const StepContext& context) const {
  const int width = isa::words(operand.width);
  const bool lm = operand.space == Space::kLm0 || operand.space == Space::kLm1;
  int64_t address = isa::resolved_base(operand, context.counters) +
                    (operand.flat ? operand.flat_addresses[cycle] : operand.stride * cycle);
  if (lm) address += pe.bar[operand.space == Space::kLm1];
  if (operand.t_indirect) address += static_cast<int64_t>(pe.t[cycle].h & 0xfff);
  if (operand.j >= 0 && pe_number <= operand.j) address += width;
  address = modulo(address, lm ? chip_.memory.lm_words : chip_.memory.grf_words);
  return address / width * width;
}

Quad GoldenMachine::source(const Operand& operand, Precision precision, const At& at, int cycle,
                           const StepContext& context) const {
  const Pe& pe = *at.pe;
  auto memory = [&](const std::vector<uint32_t>& words) {
    const auto address = static_cast<size_t>(pe_address(operand, pe, at.pe_number, cycle, context));
    std::array<uint64_t, 4> value{};
    for (int w = 0; w < isa::words(operand.width); ++w) value[w] = words[address + w];
    return quad_of_words(value);
  };
  switch (operand.space) {
    case Space::kLm0:
      return memory(pe.lm[0]);
    case Space::kLm1:
      return memory(pe.lm[1]);
    case Space::kGrf0:
      return memory(pe.grf[0]);
    case Space::kGrf1:
      return memory(pe.grf[1]);
    case Space::kT:
      return pe.t[cycle];
    case Space::kAluf:
      return pe.forward[0][cycle];
    case Space::kMauf:
      return pe.forward[1][cycle];
    case Space::kLbf:
      return pe.forward[2][cycle];
    case Space::kMreadf:
      return pe.forward[3][cycle];
    case Space::kConstant: {
      const int lanes = precision == Precision::kNone ? 1 : isa::lanes(precision);
      const int width = 64 / lanes;
      const std::array<uint64_t, 6> values{
          static_cast<uint64_t>(at.l2b_number), static_cast<uint64_t>(at.l1b_number),
          static_cast<uint64_t>(at.mab_number), static_cast<uint64_t>(4 * at.mab_number + at.pe_number),
          static_cast<uint64_t>(at.pe_number),  uint64_t{1} << (width - 1)};
      uint64_t value = 0;
      for (int i = 0; i < lanes; ++i) value = set_lane(value, width, i, values[operand.base]);
      return {value, value};
    }
    default:
      throw isa::InternalError("internal error in the golden model: not a source of a PE");
  }
}

Quad GoldenMachine::converted_source(const Operand& operand, Precision precision, bool addend, const At& at,
                                     int cycle, const StepContext& context) const {
  Quad value = source(operand, precision, at, cycle, context);
  if (operand.reduce) {
    uint64_t halves = 0;
    for (int w = 0; w < 4; ++w) {
      halves = set_lane(halves, 16, w, isa::convert(word_of(value, w), isa::kFloatFormat, isa::kHalfFormat));
    }
    value = {halves, 0};
  }
  if (operand.extend) {
    if (precision == Precision::kDouble) {
      value = {isa::convert(word_of(value, 0), isa::kFloatFormat, isa::kDoubleFormat), 0};
    } else {
      std::array<uint64_t, 4> words{};
      for (int i = 0; i < (precision == Precision::kHalf ? 4 : 2); ++i) {
        words[i] = isa::convert(lane(value.h, 16, i), isa::kHalfFormat, isa::kFloatFormat);
      }
      value = quad_of_words(words);
    }
  }
  if (operand.negate) {
    uint64_t signs = 0x8000000080000000;
    if (precision == Precision::kDouble) signs = 0x8000000000000000;
    if (precision == Precision::kHalf && !addend) signs = 0x8000800080008000;
    value.h ^= signs;
    value.l ^= signs;
  }
  return value;
}

int GoldenMachine::mask_bits(const isa::Mask& mask, const Pe& pe, int cycle) const {
  int pattern = 15;
  switch (mask.kind) {
    case isa::Mask::Kind::kNone:
    case isa::Mask::Kind::kVirtual:  // of the compiler, in no program
      return 15;
    case isa::Mask::Kind::kPattern:
      pattern = mask.value;
      break;
    case isa::Mask::Kind::kRegister:
      if (mask.value == 0) return 15;
      if (mask.value < 16) return pe.masks[mask.value][cycle];
      pattern = mask.value - 16;
      break;
  }
  return (pattern >> (3 - cycle) & 1) != 0 ? 15 : 0;
}

/// The way of a result: zero flush, forwarding register, destinations under their masks.
void GoldenMachine::deliver(const Instruction& instruction, const At& at, int cycle, Quad result, int flags,
                            int forward, StepContext& context) {
  if (instruction.zero_flush.kind != isa::Mask::Kind::kNone) {
    const Quad keep =
        mask_pattern(mask_bits(instruction.zero_flush, *at.pe, cycle), instruction.zero_flush.double_long);
    result = {result.h & keep.h, result.l & keep.l};
  }
  if (!context.no_forward) {
    context.writes.push_back([pe = at.pe, forward, cycle, result] { pe->forward[forward][cycle] = result; });
  }
  for (const Operand& destination : instruction.destinations)
    deliver_to(destination, at, cycle, result, flags, context);
}

void GoldenMachine::deliver_to(const Operand& destination, const At& at, int cycle, Quad result, int flags,
                               StepContext& context) {
  Pe* pe = at.pe;
  isa::Mask mask = destination.mask;
  if (!context.own_masks && (block_mask_.spaces >> space_bit_of_mask(destination.space) & 1) != 0) {
    mask = {isa::Mask::Kind::kRegister, block_mask_.entry, block_mask_.double_long, 0};
  }
  const int bits = mask_bits(mask, *pe, cycle);
  const Quad allowed = mask_pattern(bits, mask.double_long);
  auto merge = [allowed, result](Quad old) {
    return Quad{(result.h & allowed.h) | (old.h & ~allowed.h), (result.l & allowed.l) | (old.l & ~allowed.l)};
  };
  auto memory = [&](std::vector<uint32_t>& words) {
    const auto address = static_cast<size_t>(pe_address(destination, *pe, at.pe_number, cycle, context));
    context.writes.push_back([&words, address, width = isa::words(destination.width), merge] {
      std::array<uint64_t, 4> old{};
      for (int w = 0; w < width; ++w) old[w] = words[address + w];
      const Quad value = merge(quad_of_words(old));
      for (int w = 0; w < width; ++w) words[address + w] = word_of(value, w);
    });
  };
  switch (destination.space) {
    case Space::kNoWrite:
      break;
    case Space::kLm0:
      memory(pe->lm[0]);
      break;
    case Space::kLm1:
      memory(pe->lm[1]);
      break;
    case Space::kGrf0:
      memory(pe->grf[0]);
      break;
    case Space::kGrf1:
      memory(pe->grf[1]);
      break;
    case Space::kT:
      context.writes.push_back([pe, cycle, merge] { pe->t[cycle] = merge(pe->t[cycle]); });
      break;
    case Space::kOmr:
      context.writes.push_back([pe, cycle, entry = destination.base, value = flags & bits] {
        pe->masks[entry][cycle] = static_cast<uint8_t>(value);
      });
      break;
    case Space::kBar0:
    case Space::kBar1:
      context.writes.push_back([pe, which = destination.space == Space::kBar1, merge] {
        // Low 12 bits of the upper word.
        const Quad old{uint64_t{pe->bar[which]} << 32, 0};
        pe->bar[which] = word_of(merge(old), 0) & 0xfff;
      });
      break;
    default:
      throw isa::InternalError("internal error in the golden model: not a destination of a PE");
  }
}

// ---------------------------------------------------------------------------------------------------
// ALU (section 7).

Quad GoldenMachine::alu(const Instruction& instruction, const At& at, int cycle, StepContext& context,
                        int& flags) {
  flags = 0;
  if (instruction.opcode == Opcode::kZero) return {};
  if (instruction.opcode == Opcode::kImm) {
    const auto payload = static_cast<uint64_t>(
        static_cast<uint32_t>(isa::resolved_base(instruction.sources[0], context.counters)));
    const uint64_t other = instruction.unsigned_op ? 0 : payload;
    return quad_of_words({payload, other, payload, other});
  }
  const Precision precision = instruction.precision;
  const Quad x = converted_source(instruction.sources[0], precision, false, at, cycle, context);
  if (instruction.opcode == Opcode::kMsl || instruction.opcode == Opcode::kMsr) {
    At from = at;
    from.pe_number = (at.pe_number + (instruction.opcode == Opcode::kMsl ? 3 : 1)) & 3;
    from.pe = &at.mab->pes[from.pe_number];
    return {converted_source(instruction.sources[0], precision, false, from, cycle, context).h, x.l};
  }
  Quad y;
  if (instruction.sources.size() > 1)
    y = converted_source(instruction.sources[1], precision, false, at, cycle, context);
  const int lanes = isa::lanes(precision);
  const int width = 64 / lanes;
  Quad result{0, x.l};
  std::vector<bool> lane_flags;
  for (int i = 0; i < lanes; ++i) {
    const AluResult r = alu_lane(instruction, lane(x.h, width, i), lane(y.h, width, i));
    result.h = set_lane(result.h, width, i, r.value);
    lane_flags.push_back(r.flag);
  }
  const isa::FlagRule rule = isa::info(instruction.opcode).flags;
  flags = rule == isa::FlagRule::kNone ? 0 : flag_bits(lane_flags);
  return result;
}

/// 8.5: blocks over the MAB.
std::array<Quad, 4> GoldenMachine::block_float(const Instruction& instruction, const At& at, int cycle,
                                               StepContext& context) {
  const int lanes = isa::lanes(instruction.precision);
  const int width = 64 / lanes;
  const int cut = instruction.block_bits < 0 ? 0 : 9 - instruction.block_bits;
  const bool extended = instruction.opcode == Opcode::kBfe;
  std::array<Quad, 4> value;
  for (int p = 0; p < 4; ++p) {
    At pe = at;
    pe.pe_number = p;
    pe.pe = &at.mab->pes[p];
    value[p] = converted_source(instruction.sources[0], instruction.precision, false, pe, cycle, context);
  }
  // A block is every `step`-th lane from `first` on, of one LW of all PEs.
  auto normalize = [&](bool of_l, int first, int step) {
    std::vector<uint64_t> block;
    for (const Quad& quad : value) {
      for (int i = first; i < lanes; i += step) block.push_back(lane(of_l ? quad.l : quad.h, width, i));
    }
    isa::block_normalize(block, isa::format_of(instruction.precision), cut, extended);
    size_t next = 0;
    for (Quad& quad : value) {
      uint64_t& target = of_l ? quad.l : quad.h;
      for (int i = first; i < lanes; i += step) target = set_lane(target, width, i, block[next++]);
    }
  };
  switch (instruction.precision) {
    case Precision::kFloat:
      normalize(false, 0, 2);
      normalize(false, 1, 2);
      break;
    case Precision::kHalf:
      normalize(false, 0, 1);
      normalize(true, 0, 1);
      break;
    default:
      normalize(false, 0, 1);
      break;
  }
  return value;
}

// ---------------------------------------------------------------------------------------------------
// MAU (section 8).

Quad GoldenMachine::vector_mau(const Instruction& instruction, const At& at, int cycle, StepContext& context,
                               int& flags) {
  const Precision precision = instruction.precision;
  const FloatFormat format = isa::format_of(precision);
  const FloatFormat z_format = precision == Precision::kHalf ? isa::kFloatFormat : format;
  const FloatFormat out_format = instruction.round_output ? next_lower(z_format) : z_format;
  const bool multiplies = instruction.opcode == Opcode::kVfma || instruction.opcode == Opcode::kVmul;
  const bool adds = instruction.opcode == Opcode::kVfma || instruction.opcode == Opcode::kVadd;
  const Quad x = converted_source(instruction.sources[0], precision, false, at, cycle, context);
  Quad y;
  Quad z;
  if (multiplies) y = converted_source(instruction.sources[1], precision, false, at, cycle, context);
  if (adds) z = converted_source(instruction.sources.back(), precision, true, at, cycle, context);
  const int lanes = isa::lanes(precision);
  const int k = precision == Precision::kDouble ? 16 : precision == Precision::kFloat ? 5 : 0;
  const bool product_here = precision != Precision::kDouble || !multiplies ||
                            (instruction.half_select == 'u' ? at.pe_number < 2 : at.pe_number >= 2);
  std::vector<uint64_t> results;
  for (int i = 0; i < lanes; ++i) {
    Exact sum;
    if (product_here) {
      sum = number(lane(x.h, format.width(), i), format);
      if (multiplies) sum = truncated_product(sum, number(lane(y.h, format.width(), i), format), k);
    }
    if (adds) {
      const uint64_t addend = precision == Precision::kHalf ? word_of(z, i) : lane(z.h, format.width(), i);
      sum = sum + number(addend, z_format);
    }
    results.push_back(round(sum, out_format));
  }
  std::vector<bool> lane_flags;
  for (const uint64_t result : results) lane_flags.push_back((result & out_format.sign_bit()) == 0);
  flags = flag_bits(lane_flags);
  // The results side by side, repeated until 2LW are full.
  Quad value;
  const int per_long = 64 / out_format.width();
  for (int i = 0; i < 2 * per_long; ++i) {
    uint64_t& target = i < per_long ? value.h : value.l;
    target =
        set_lane(target, out_format.width(), i % per_long, results[static_cast<size_t>(i) % results.size()]);
  }
  return value;
}

std::array<Quad, 4> GoldenMachine::matrix_mau(const Instruction& instruction, const At& at, int cycle,
                                              StepContext& context, std::array<int, 4>& flags) {
  const Precision precision = instruction.precision;
  const int lanes = isa::lanes(precision);
  const int width = 64 / lanes;
  const auto& matrix = at.mab->matrix[instruction.sources[0].space == Space::kMatY];
  const bool adds = instruction.opcode == Opcode::kMfma;
  const FloatFormat z_format = precision == Precision::kDouble ? isa::kDoubleFormat : isa::kFloatFormat;
  const FloatFormat out_format = instruction.round_output ? next_lower(z_format) : z_format;
  // Element j of the vector and of row i; f has only the upper words.
  std::vector<uint64_t> vector;
  std::array<Quad, 4> z;
  for (int p = 0; p < 4; ++p) {
    At pe = at;
    pe.pe_number = p;
    pe.pe = &at.mab->pes[p];
    const Quad v = converted_source(instruction.sources[1], precision, false, pe, cycle, context);
    if (adds) z[p] = converted_source(instruction.sources[2], precision, true, pe, cycle, context);
    for (int i = 0; i < (precision == Precision::kFloat ? 1 : lanes); ++i)
      vector.push_back(lane(v.h, width, i));
  }
  std::array<Quad, 4> results;
  for (int p = 0; p < 4; ++p) {
    std::vector<uint64_t> outputs;
    for (int i = 0; i < lanes; ++i) {
      std::vector<uint64_t> row;
      for (int q = 0; q < 4; ++q) {
        for (int j = 0; j < (precision == Precision::kFloat ? 1 : lanes); ++j) {
          row.push_back(lane(matrix[lanes * p + i][q], width, j));
        }
      }
      const bool here = precision != Precision::kDouble || (instruction.half_select == 'u' ? p < 2 : p >= 2);
      if (!here) std::fill(row.begin(), row.end(), 0);
      std::vector<uint64_t> factor = vector;
      if (!here) std::fill(factor.begin(), factor.end(), 0);
      const uint64_t addend = precision == Precision::kHalf ? word_of(z[p], i) : lane(z[p].h, width, i);
      outputs.push_back(matrix_row(row, factor, precision, addend, z_format, out_format));
    }
    std::vector<bool> lane_flags;
    for (const uint64_t output : outputs) lane_flags.push_back((output & out_format.sign_bit()) == 0);
    flags[p] = flag_bits(lane_flags);
    const int per_long = 64 / out_format.width();
    for (int i = 0; i < 2 * per_long; ++i) {
      uint64_t& target = i < per_long ? results[p].h : results[p].l;
      target = set_lane(target, out_format.width(), i % per_long,
                        outputs[static_cast<size_t>(i) % outputs.size()]);
    }
  }
  return results;
}

void GoldenMachine::matrix_write(const Instruction& instruction, const At& at, int cycle,
                                 StepContext& context) {
  const Operand& destination = instruction.destinations[0];
  const bool wide = instruction.precision == Precision::kHalf && destination.width == Width::kDoubleLong;
  const int64_t base = isa::resolved_base(destination, context.counters);
  auto& matrix = at.mab->matrix[destination.space == Space::kMatY];
  for (int p = 0; p < 4; ++p) {
    At pe = at;
    pe.pe_number = p;
    pe.pe = &at.mab->pes[p];
    const Quad value =
        converted_source(instruction.sources[0], instruction.precision, false, pe, cycle, context);
    const int64_t row = modulo(base + (wide ? 2 * cycle : cycle), 16);
    const int64_t second = modulo(row + 1, 16);
    context.writes.push_back([&matrix, row, second, p, value, wide] {
      matrix[row][p] = value.h;
      if (wide) matrix[second][p] = value.l;
    });
  }
}

Quad GoldenMachine::matrix_read(const Instruction& instruction, const At& at, int cycle,
                                const StepContext& context) const {
  const Operand& operand = instruction.sources[0];
  const bool wide = instruction.precision == Precision::kHalf && operand.width == Width::kDoubleLong;
  const int lanes = isa::lanes(instruction.precision);
  const int width = 64 / lanes;
  const auto& matrix = at.mab->matrix[operand.space == Space::kMatY];
  const int64_t base = isa::resolved_base(operand, context.counters);
  auto column = [&](int64_t index) {
    const auto j = static_cast<int>(modulo(index, 4 * lanes));
    uint64_t value = 0;
    for (int i = 0; i < lanes; ++i) {
      value = set_lane(value, width, i, lane(matrix[lanes * at.pe_number + i][j / lanes], width, j % lanes));
    }
    return value;
  };
  if (wide) return {column(base + 2 * cycle), column(base + 2 * cycle + 1)};
  return {column(base + cycle), column(base + cycle)};
}

// ---------------------------------------------------------------------------------------------------
// Data movement (section 6).

Quad GoldenMachine::l1bm_to_pe(const Instruction& instruction, const At& at, int cycle,
                               const StepContext& context) const {
  const Operand& operand = instruction.sources[0];
  const bool turnaround = operand.space == Space::kTurnaround;
  const std::vector<uint64_t>& memory = turnaround ? at.l1b->turnaround : at.l1b->l1bm;
  const int64_t a = turnaround ? 0 : isa::resolved_base(operand, context.counters);
  const bool ll = operand.width == Width::kDoubleLong;
  const int64_t c = cycle;
  const int64_t m = at.mab_number;
  const int64_t p = at.pe_number;
  const int64_t mabs = chip_.mab_per_l1b;
  auto b = [&](int64_t address) {
    return memory[static_cast<size_t>(modulo(address, static_cast<int64_t>(memory.size())))];
  };
  switch (instruction.opcode) {
    case Opcode::kL1bmp:
      return {b(a + c), ll ? b(a + 4 + c) : 0};
    case Opcode::kL1bmm:
      if (ll) return {b(a + 8 * c + p), b(a + 8 * c + 4 + p)};
      return {b(a + 4 * c + p), 0};
    case Opcode::kL1bmm4:
      if (ll) return {b(a + 2 * mabs * c + 8 * (m / 4) + p), b(a + 2 * mabs * c + 8 * (m / 4) + 4 + p)};
      return {b(a + mabs * c + 4 * (m / 4) + p), 0};
    case Opcode::kL1bmd:
      return {b(a + 4 * mabs * c + 4 * modulo(m - instruction.rotation, mabs) + p), 0};
    default:
      throw isa::InternalError("internal error in the golden model: not from the L1BM");
  }
}

void GoldenMachine::pe_to_l1bm(const Instruction& instruction, const At& l1b, StepContext& context) {
  const Operand& destination = instruction.destinations[0];
  const bool ll = destination.width == Width::kDoubleLong && instruction.opcode != Opcode::kL1bmd;
  const int mabs = chip_.mab_per_l1b;
  const bool widening_sum = instruction.opcode == Opcode::kL1bmrffadd;
  const bool of_halves =
      widening_sum && (instruction.precision == Precision::kHalf || instruction.sources[0].extend);
  auto v = [&](int c, int m, int p) {
    At at = l1b;
    at.mab_number = m;
    at.mab = &l1b.l1b->mabs[m];
    at.pe_number = p;
    at.pe = &at.mab->pes[p];
    if (of_halves) {
      // An LW of halves becomes four floats.
      Operand operand = instruction.sources[0];
      operand.extend = true;
      return converted_source(operand, Precision::kHalf, true, at, c, context);
    }
    return converted_source(instruction.sources[0], instruction.precision, false, at, c, context);
  };
  // Offset from the address -> value.
  std::vector<std::pair<int64_t, uint64_t>> area;
  for (int c = 0; c < 4; ++c) {
    if (widening_sum) {
      std::array<uint64_t, 16> sums;
      for (int k = 0; k < 16; ++k) {
        std::vector<uint64_t> stage;
        for (int first = 0; first < mabs; first += 4) {
          std::vector<uint64_t> four;
          for (int m = first; m < std::min(first + 4, mabs); ++m)
            four.push_back(word_of(v(c, m, k / 4), k % 4));
          stage.push_back(add_stage(four, isa::kFloatFormat, isa::kFloatFormat));
        }
        sums[k] = add_stage(stage, isa::kFloatFormat, isa::kHalfFormat);
      }
      // (w0 w1 w8 w9)(w2 w3 wa wb)(w4 w5 wc wd)(w6 w7 we wf)
      for (int i = 0; i < 4; ++i) {
        uint64_t halves = 0;
        const std::array<int, 4> order{2 * i, 2 * i + 1, 2 * i + 8, 2 * i + 9};
        for (int k = 0; k < 4; ++k) halves = set_lane(halves, 16, k, sums[order[k]]);
        area.emplace_back(4 * c + i, halves);
      }
      continue;
    }
    for (int half = 0; half < (ll ? 2 : 1); ++half) {
      auto lw = [&](int m, int p) { return half == 0 ? v(c, m, p).h : v(c, m, p).l; };
      for (int p = 0; p < 4; ++p) {
        const int64_t row = ll ? 8 * c + 4 * half + p : 4 * c + p;
        auto quad_offset = [&](int q) {
          return ll ? 2 * mabs * c + 8 * q + 4 * half + p : mabs * c + 4 * q + p;
        };
        switch (instruction.opcode) {
          case Opcode::kL1bmm:
            area.emplace_back(row, lw(instruction.unit, p));
            break;
          case Opcode::kL1bmr: {
            std::vector<uint64_t> values;
            for (int m = 0; m < mabs; ++m) values.push_back(lw(m, p));
            area.emplace_back(row, reduce_l1bm(values, instruction.reduce_op, instruction.precision));
            break;
          }
          case Opcode::kL1bmm4:
            for (int q = 0; q < mabs / 4; ++q)
              area.emplace_back(quad_offset(q), lw(4 * q + instruction.unit, p));
            break;
          case Opcode::kL1bmr4:
            for (int q = 0; q < mabs / 4; ++q) {
              std::vector<uint64_t> values;
              for (int m = 4 * q; m < 4 * q + 4; ++m) values.push_back(lw(m, p));
              area.emplace_back(quad_offset(q), reduce(values, instruction.reduce_op, instruction.precision));
            }
            break;
          case Opcode::kL1bmd:
            for (int m = 0; m < mabs; ++m) area.emplace_back(4 * mabs * c + 4 * m + p, lw(m, p));
            break;
          default:
            throw isa::InternalError("internal error in the golden model: not to the L1BM");
        }
      }
    }
  }
  const int64_t base = isa::resolved_base(destination, context.counters);
  context.writes.push_back([l1b = l1b.l1b, area, base, to_l1bm = destination.space == Space::kL1bm] {
    for (const auto& [offset, value] : area) {
      l1b->turnaround[static_cast<size_t>(offset)] = value;
      if (to_l1bm) at_wrapped(l1b->l1bm, base + offset) = value;
    }
  });
}

void GoldenMachine::run_in_l2b(const Instruction& instruction, L2b& l2b, StepContext& context) {
  const int64_t from = isa::resolved_base(instruction.sources[0], context.counters);
  const int64_t to = isa::resolved_base(instruction.destinations[0], context.counters);
  const int count = chip_.l1b_per_l2b;
  const int64_t stride = 8 * count;
  auto c_at = [&](int64_t address) { return at_wrapped(l2b.l2bm, address); };
  auto b_at = [&](int b, int64_t address) { return at_wrapped(l2b.l1bs[b].l1bm, address); };
  auto set = [&](std::vector<uint64_t>& memory, int64_t address, uint64_t value) {
    context.writes.push_back([&memory, address, value] { at_wrapped(memory, address) = value; });
  };
  auto set_b = [&](int b, int64_t address, uint64_t value) { set(l2b.l1bs[b].l1bm, address, value); };
  auto in_set = [&](int b) { return instruction.l1b_set.contains(b, count); };
  switch (instruction.opcode) {
    case Opcode::kL2bmb:
      for (int b = 0; b < count; ++b) {
        for (int i = 0; i < 64 && in_set(b); ++i) set_b(b, to + i, c_at(from + i));
      }
      break;
    case Opcode::kL2bmb2:
      for (int b = 0; b < count; ++b) {
        for (int c = 0; c < 4 && in_set(b); ++c) {
          for (int i = 0; i < 16; ++i) set_b(b, to + 16 * c + i, c_at(from + stride * c + 16 * (b / 2) + i));
        }
      }
      break;
    case Opcode::kL2bmd:
      for (int b = 0; b < count; ++b) {
        for (int c = 0; c < 4; ++c) {
          for (int i = 0; i < 8; ++i) {
            if (instruction.sources[0].space == Space::kL2bm) {
              if (in_set(b)) set_b(b, to + 8 * c + i, c_at(from + stride * c + 8 * b + i));
            } else {
              set(l2b.l2bm, to + stride * c + 8 * b + i, b_at(b, from + 8 * c + i));
            }
          }
        }
      }
      break;
    case Opcode::kL2bm:
      for (int i = 0; i < 64; ++i) set(l2b.l2bm, to + i, b_at(instruction.unit, from + i));
      break;
    case Opcode::kL2bmr:
      for (int i = 0; i < 64; ++i) {
        std::vector<uint64_t> values;
        for (int b = 0; b < count; ++b) {
          if (in_set(b)) values.push_back(b_at(b, from + i));
        }
        set(l2b.l2bm, to + i,
            values.empty() ? 0 : reduce(values, instruction.reduce_op, instruction.precision));
      }
      break;
    case Opcode::kL2bmr2:
      for (int c = 0; c < 4; ++c) {
        for (int q = 0; q < count / 2; ++q) {
          for (int i = 0; i < 16; ++i) {
            const int64_t address = from + 16 * c + i;
            set(l2b.l2bm, to + stride * c + 16 * q + i,
                reduce({b_at(2 * q, address), b_at(2 * q + 1, address)}, instruction.reduce_op,
                       instruction.precision));
          }
        }
      }
      break;
    case Opcode::kL2bmi: {
      const int im = instruction.l1b_set.ignore_mask;
      for (int s = 0; s < count; ++s) {
        for (int d = 0; d < count && in_set(s); ++d) {
          for (int i = 0; i < 64 && (d & im) == (s & im); ++i) set_b(d, to + i, b_at(s, from + i));
        }
      }
      break;
    }
    default:
      throw isa::InternalError("internal error in the golden model: not an L2BM instruction");
  }
}

void GoldenMachine::run_dar(const Instruction& instruction, StepContext& context) {
  for (Group& group : groups_) {
    if (instruction.opcode == Opcode::kL2bmdarw) {
      for (int k = 0; k < 4 && group.dar_position + k < 128; ++k) {
        const int64_t entry =
            modulo(group.dar_destination + group.dar_position + k, chip_.memory.dar_entries);
        context.writes.push_back(
            [&group, entry, value = group.dar_stage[group.dar_position + k]] { group.dar[entry] = value; });
      }
      context.writes.insert(context.writes.begin(),
                            [&group] { group.dar_position = std::min(group.dar_position + 4, 128); });
      continue;
    }
    std::vector<uint64_t>& l2bm = group.l2bs[std::max<int>(instruction.sources[0].unit, 0)].l2bm;
    const int64_t from = isa::resolved_base(instruction.sources[0], context.counters);
    std::array<uint32_t, 128> stage;
    for (int i = 0; i < 64; ++i) {
      const uint64_t value = at_wrapped(l2bm, from + i);
      stage[2 * i] = static_cast<uint32_t>(value >> 32);
      stage[2 * i + 1] = static_cast<uint32_t>(value);
    }
    context.writes.push_back(
        [&group, stage, to = isa::resolved_base(instruction.destinations[0], context.counters)] {
          group.dar_stage = stage;
          group.dar_destination = to;
          group.dar_position = 0;
        });
  }
}

std::vector<uint64_t>& GoldenMachine::mv_memory(Space space, int group, int l2b) {
  if (space == Space::kPdm) return groups_[group].pdm;
  if (space == Space::kL2bm) return groups_[group].l2bs[l2b].l2bm;
  return groups_[group].dram;
}

int64_t GoldenMachine::mv_address(const Instruction& mv, const Operand& side, int group, int64_t base,
                                  int64_t i) {
  if (side.space != Space::kDramIndirect) return base + i;
  const int64_t n = std::max(mv.indirect_n, 1);
  const int64_t entry = modulo(base + i / 16 / n, chip_.memory.dar_entries);
  return 16 * int64_t{groups_[group].dar[static_cast<size_t>(entry)]} + i / 16 % n * 16 + i % 16;
}

void GoldenMachine::run_mv(const Instruction& mv, const std::vector<int64_t>& counters) {
  if (mv.opcode == Opcode::kMvnop) return;
  const Operand& source = mv.sources[0];
  const Operand& destination = mv.destinations[0];
  const int64_t from = isa::resolved_base(source, counters);
  const int64_t to = isa::resolved_base(destination, counters);
  const int groups = chip_.groups;
  const int per_group = chip_.l2b_per_group;
  const int l2bs = chip_.l2b_count();
  const int64_t n = mv.size_lw;
  if (n > chip_.longest_transfer_lw())
    throw isa::UserError(fmt::format("'{}' of {} LW; the DRAM of the chip has {}", isa::mnemonic(mv), n,
                                     chip_.longest_transfer_lw()));
  auto location = [&](const Operand& side, int64_t base, int group, int l2b, int64_t i) -> uint64_t& {
    std::vector<uint64_t>& memory = mv_memory(side.space, group, l2b);
    const int64_t address = mv_address(mv, side, group, base, i);
    if (address < 0 || address >= static_cast<int64_t>(memory.size())) {
      throw isa::UserError(
          fmt::format("'{}' touches LW {} of a memory of {}", isa::mnemonic(mv), address, memory.size()));
    }
    return memory[static_cast<size_t>(address)];
  };
  auto in = [&](int group, int l2b, int64_t i) { return location(source, from, group, l2b, i); };
  std::vector<std::pair<uint64_t*, uint64_t>> writes;
  auto out = [&](int group, int l2b, int64_t i, uint64_t value) {
    writes.emplace_back(&location(destination, to, group, l2b, i), value);
  };
  const int sg = std::max<int>(source.group, 0);
  const int dg = std::max<int>(destination.group, 0);
  const int sl = std::max<int>(source.unit, 0);
  const int dl = std::max<int>(destination.unit, 0);
  for (int64_t i = 0; i < n; ++i) {
    // Units of 16 LW, dealt to `parts` memories in turn.
    auto part = [&](int parts) { return static_cast<int>(i / 16 % parts); };
    auto inner = [&](int parts) { return i / 16 / parts * 16 + i % 16; };
    switch (mv.opcode) {
      case Opcode::kMvp:
        if (source.group < 0 && destination.group < 0) {
          for (int g = 0; g < groups; ++g) out(g, dl, i, in(g, sl, i));
        } else {
          out(dg, dl, i, in(sg, sl, i));
        }
        break;
      case Opcode::kMvb:
        for (int q = 0; q < l2bs; ++q) out(q / per_group, q % per_group, i, in(sg, 0, i));
        break;
      case Opcode::kMvb2:
        for (int q = 0; q < l2bs; ++q) out(q / per_group, q % per_group, i, in(q / per_group, 0, i));
        break;
      case Opcode::kMvb4:
        for (int q = 0; q < l2bs; ++q)
          out(q / per_group, q % per_group, i, in(part(groups), 0, inner(groups)));
        break;
      case Opcode::kMvd:
        if (destination.space == Space::kPdm) {
          if (source.space == Space::kL2bm) {
            out(dg, 0, i, in(part(l2bs) / per_group, part(l2bs) % per_group, inner(l2bs)));
          } else {
            out(dg, 0, i, in(part(groups), 0, inner(groups)));
          }
        } else if (destination.space == Space::kL2bm) {
          out(part(l2bs) / per_group, part(l2bs) % per_group, inner(l2bs), in(sg, 0, i));
        } else {
          out(part(groups), 0, inner(groups), in(sg, 0, i));
        }
        break;
      case Opcode::kMvr: {
        std::vector<uint64_t> stage;
        for (int g = 0; g < groups; ++g) {
          std::vector<uint64_t> pair;
          for (int l = 0; l < per_group; ++l) pair.push_back(in(g, l, i));
          stage.push_back(reduce(pair, mv.reduce_op, mv.precision));
        }
        out(dg, 0, i, reduce(stage, mv.reduce_op, mv.precision));
        break;
      }
      case Opcode::kMvr2:
        for (int g = 0; g < groups; ++g) {
          std::vector<uint64_t> pair;
          for (int l = 0; l < per_group; ++l) pair.push_back(in(g, l, i));
          out(g, 0, i, reduce(pair, mv.reduce_op, mv.precision));
        }
        break;
      case Opcode::kMvr4: {
        std::vector<uint64_t> values;
        for (int g = 0; g < groups; ++g) values.push_back(in(g, 0, i));
        out(part(groups), 0, inner(groups), reduce(values, mv.reduce_op, mv.precision));
        break;
      }
      default:
        throw isa::InternalError("internal error in the golden model: not an MV");
    }
  }
  for (const auto& [target, value] : writes) *target = value;
}

}  // namespace kodama::simulator::golden
