#include <algorithm>

#include "isa/error.h"
#include "simulator/golden/golden_arithmetic.h"
#include "simulator/golden/golden_machine.h"
#include "simulator/golden/golden_names.h"

/// Data movement inside a step (section 6): between PEs and L1BM, between L1BMs and L2BM, and into the DAR.
namespace kodama::simulator::golden {

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

}  // namespace kodama::simulator::golden
