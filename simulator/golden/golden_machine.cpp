#include "simulator/golden/golden_machine.h"

#include <algorithm>

#include "isa/error.h"
#include "simulator/debug_text.h"
#include "simulator/golden/golden_names.h"

/// The memories of the golden model and its statements, a step with all its instructions among them.
namespace kodama::simulator::golden {
namespace {

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

}  // namespace kodama::simulator::golden
