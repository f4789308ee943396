#include "isa/error.h"
#include "isa/number_formats.h"
#include "simulator/golden/golden_arithmetic.h"
#include "simulator/golden/golden_machine.h"
#include "simulator/golden/golden_names.h"

/// Operands of PEs (section 3): what an instruction reads, and the way of its result to its destinations.
namespace kodama::simulator::golden {
namespace {

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

}  // namespace

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
      const uint64_t constant = values.at(static_cast<size_t>(isa::resolved_base(operand, context.counters)));
      uint64_t value = 0;
      for (int i = 0; i < lanes; ++i) value = set_lane(value, width, i, constant);
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
  const int bit = isa::mask_statement_bit(destination.space);
  if (!context.own_masks && bit >= 0 && (block_mask_.spaces >> bit & 1) != 0) {
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
      context.writes.push_back(
          [pe, cycle, entry = isa::resolved_base(destination, context.counters), value = flags & bits] {
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

}  // namespace kodama::simulator::golden
