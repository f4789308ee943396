#include "assembler/checks.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <limits>

#include "assembler/assembler.h"
#include "isa/costs.h"
#include "isa/error.h"
#include "isa/move_places.h"

namespace kodama::assembler {

using isa::Chip;
using isa::IssueGroup;
using isa::Opcode;
using isa::Operand;
using isa::Precision;
using isa::Space;
using isa::Width;

namespace {

/// Sizes of MV transfers.
constexpr int64_t kTransferGranule = 64;
constexpr int kMaxPriority = 3;
/// Count field of an `r` line: three hex digits.
constexpr size_t kMaxPreload = 0xfff;
/// Address field of an `r` line: nine hex digits.
constexpr int64_t kMaxPreloadAddress = 0xfffffffff;

bool is_matrix(const Operand& operand) {
  return operand.space == Space::kMatX || operand.space == Space::kMatY;
}

int64_t pe_memory_words(Space space, const Chip& chip) {
  return isa::is_local_memory(space) ? chip.memory.lm_words : chip.memory.grf_words;
}

/// Number of PE rows or columns per precision that matrix operands count (section 8.3).
struct MatrixShape {
  int64_t size;  ///< rows, and columns
  int64_t step;  ///< legal addresses are multiples of it
};
MatrixShape matrix_shape(Precision precision, Width width) {
  switch (precision) {
    case Precision::kDouble:
      return {4, 4};
    case Precision::kHalf:
      return {16, width == Width::kDoubleLong ? 8 : 4};
    default:
      return {8, 4};
  }
}

using Check = std::optional<Violation>;

Check fail(int operand, std::string message) {
  return Violation{0, operand, std::move(message)};
}

std::string width_name(Width width) {
  switch (width) {
    case Width::kWord:
      return "word";
    case Width::kLong:
      return "long-word (l)";
    case Width::kDoubleLong:
      return "double-long-word (ll)";
  }
  return "?";
}

Check check_address(int index, int64_t value, int64_t size, std::string_view what, std::string_view unit) {
  if (value >= 0 && value < size) return std::nullopt;
  return fail(index, fmt::format("{} {} is out of range; allowed: 0..{} ({})", what, value, size - 1, unit));
}

Check check_mask(int index, const isa::Mask& mask, const Chip& chip) {
  using Kind = isa::Mask::Kind;
  if (mask.kind == Kind::kPattern && mask.value > 15) {
    return fail(index, fmt::format("mask pattern {} has more than the 4 bits of a step", mask.value));
  }
  if (mask.kind == Kind::kRegister && mask.value >= chip.memory.mask_entries) {
    return fail(index, fmt::format("mask entry {} does not exist; allowed: 0..{} (0 = all ones, 1..15 "
                                   "variable, 16 and up constant patterns)",
                                   mask.value, chip.memory.mask_entries - 1));
  }
  if (mask.length_check != 0 && mask.length_check != 't' && mask.length_check != 'p') {
    return fail(index, "the suffix of a mask is t or p");
  }
  return std::nullopt;
}

Check check_pe_memory(int index, const Operand& operand, const Chip& chip) {
  const int64_t size = pe_memory_words(operand.space, chip);
  const int64_t width = isa::words(operand.width);
  if (width != 1 && width != 2 && width != 4) return fail(index, "an access is 1, 2 or 4 words wide");
  if (operand.t_indirect && operand.space != Space::kLm0) {
    return fail(index, "only LM0 is addressed through T ($mt, $lmt, $llmt)");
  }
  if (operand.j >= 0) {
    if (operand.t_indirect) return fail(index, "j and T-indirect addressing exclude each other");
    if (!isa::is_local_memory(operand.space))
      return fail(index, "j applies to local memory only ($m and $n)");
    if (operand.j >= isa::kPePerMab) {
      return fail(index, fmt::format("j{} names no PE of a MAB; allowed: j0..j3", operand.j));
    }
  }
  auto misaligned = [&](std::string_view what, int64_t value) {
    return fail(index, fmt::format("{} {} of {} is misaligned: a {} access needs a multiple of {} words",
                                   what, value, print_operand(operand), width_name(operand.width), width));
  };
  if (operand.flat) {
    for (int cycle = 0; cycle < isa::kCyclesPerStep; ++cycle) {
      const int64_t address = operand.address(cycle);
      if (auto violation = check_address(index, address, size, "address", "words")) return violation;
      if (address % width != 0) return misaligned("address", address);
    }
    return std::nullopt;
  }
  if (auto violation = check_address(index, operand.base, size, "address", "words")) return violation;
  if (operand.base % width != 0) return misaligned("address", operand.base);
  if (auto violation = check_address(index, operand.stride, size, "stride", "words")) return violation;
  if (operand.stride % width != 0) return misaligned("stride", operand.stride);
  return std::nullopt;
}

Check check_place(int index, const Operand& operand, const Chip& chip) {
  if (operand.group >= chip.groups) {
    return fail(index, fmt::format("group {} does not exist; {} has groups 0..{}", operand.group, chip.name,
                                   chip.groups - 1));
  }
  if (operand.unit >= chip.l2b_per_group) {
    return fail(index, fmt::format("L2B {} does not exist; a group of {} has L2Bs 0..{}", operand.unit,
                                   chip.name, chip.l2b_per_group - 1));
  }
  return std::nullopt;
}

/// What concerns an operand by itself, wherever it stands.
Check check_operand(int index, const Operand& operand, const Chip& chip) {
  if (operand.space == Space::kVirtual || operand.mask.kind == isa::Mask::Kind::kVirtual ||
      !operand.loop_strides.empty()) {
    throw isa::InternalError(
        "internal error in assembler: only operands with concrete addresses can be checked");
  }
  if (isa::is_pe_memory(operand.space)) return check_pe_memory(index, operand, chip);
  if (operand.flat || operand.stride != 0 || operand.t_indirect || operand.j >= 0) {
    return fail(index, fmt::format("{} has no addresses per cycle", isa::space_name(operand.space)));
  }
  switch (operand.space) {
    case Space::kOmr:
      if (operand.base < 1 || operand.base >= isa::kMaskRegisters) {
        return fail(index, fmt::format("mask entry {} can't be written; allowed: $omr1..$omr{}", operand.base,
                                       isa::kMaskRegisters - 1));
      }
      break;
    case Space::kConstant:
      if (operand.base < 0 || operand.base >= isa::kFixedConstantCount) {
        return fail(index, "unknown constant");
      }
      break;
    case Space::kL1bm:
      return check_address(index, operand.base, chip.memory.l1bm_lw, "address", "LW of L1BM");
    case Space::kL2bm:
      if (auto violation = check_place(index, operand, chip)) return violation;
      if (operand.group >= 0 && operand.unit < 0) {
        return fail(index, "a group without L2B; write $lc<a>@<group>.<l2b>");
      }
      return check_address(index, operand.base, chip.memory.l2bm_lw, "address", "LW of L2BM");
    case Space::kDar:
    case Space::kDramIndirect:
      if (auto violation = check_place(index, operand, chip)) return violation;
      return check_address(index, operand.base, chip.memory.dar_entries, "entry", "entries of DAR");
    case Space::kPdm:
      if (auto violation = check_place(index, operand, chip)) return violation;
      return check_address(index, operand.base, chip.memory.pdm_lw, "address", "LW of PDM");
    case Space::kDram:
      if (auto violation = check_place(index, operand, chip)) return violation;
      return check_address(index, operand.base, chip.memory.dram_lw, "address", "LW of DRAM");
    default:
      break;
  }
  return std::nullopt;
}

/// Kinds of operands by the table, then their addresses and masks.
Check check_operands(const isa::Instruction& instruction, const Chip& chip) {
  int culprit = -1;
  std::string error = isa::operand_error(instruction, &culprit);
  if (!error.empty()) return fail(culprit, std::move(error));
  int index = 0;
  for (const Operand& operand : instruction.sources) {
    if (auto violation = check_operand(index++, operand, chip)) return violation;
  }
  for (const Operand& operand : instruction.destinations) {
    if (auto violation = check_operand(index, operand, chip)) return violation;
    if (auto violation = check_mask(index++, operand.mask, chip)) return violation;
  }
  return check_mask(-1, instruction.zero_flush, chip);
}

bool has_immediate(const isa::Instruction& instruction) {
  return !instruction.sources.empty() && instruction.sources[0].space == Space::kImmediate;
}

bool fits_payload_kind(const isa::Instruction& instruction, int64_t payload) {
  // The text must give the same payload back; everything else is not a value of that kind.
  isa::Instruction parsed = instruction;
  const std::string text = print_payload(instruction, payload);
  const size_t quote = text.find('"');
  std::string error;
  int64_t again = 0;
  return quote != std::string::npos &&
         parse_payload(std::string_view(text).substr(0, quote),
                       std::string_view(text).substr(quote + 1, text.size() - quote - 2), parsed, again,
                       error) &&
         again == payload && parsed.immediate_kind == instruction.immediate_kind;
}

Check check_mau(const isa::Instruction& instruction, const isa::InstructionInfo& row) {
  for (int i = 0; i < static_cast<int>(instruction.sources.size() + instruction.destinations.size()); ++i) {
    const int source_count = static_cast<int>(instruction.sources.size());
    const Operand& operand =
        i < source_count ? instruction.sources[i] : instruction.destinations[i - source_count];
    if (!is_matrix(operand)) continue;
    if (operand.width == Width::kWord) return fail(i, "matrix registers are $lx $ly, or $llx $lly");
    if (row.group == IssueGroup::kMauCalc) {
      if (operand.base != 0 || operand.width != Width::kLong) {
        return fail(i,
                    fmt::format("{} uses the whole register; write $lx or $ly", isa::mnemonic(instruction)));
      }
      continue;
    }
    const bool half = instruction.precision == Precision::kHalf;
    if (operand.width == Width::kDoubleLong && !half) {
      return fail(i, fmt::format("{} moves one row or column per cycle; write $lx or $ly",
                                 isa::mnemonic(instruction)));
    }
    if (operand.width == Width::kLong && half && row.group == IssueGroup::kMauMread) {
      return fail(i, "hmread gives two columns per cycle; write $llx or $lly");
    }
    const MatrixShape shape = matrix_shape(instruction.precision, operand.width);
    if (operand.base < 0 || operand.base >= shape.size || operand.base % shape.step != 0) {
      std::vector<int64_t> allowed;
      for (int64_t a = 0; a < shape.size; a += shape.step) allowed.push_back(a);
      return fail(i, fmt::format("{} {} does not exist for {}; allowed: {}",
                                 row.group == IssueGroup::kMauMwrite ? "row" : "column", operand.base,
                                 isa::mnemonic(instruction), fmt::join(allowed, ", ")));
    }
  }
  return std::nullopt;
}

Check check_l1bm(const isa::Instruction& instruction, const isa::InstructionInfo& row, const Chip& chip) {
  const bool to_pe = isa::is_l1bm_to_pe(instruction);
  const int index = to_pe ? 0 : 1;
  const Operand& l1bm = to_pe ? instruction.sources[0] : instruction.destinations[0];
  if (l1bm.width == Width::kWord) return fail(index, "L1BM operands are $lb, $llb, $lbi or $llbi");
  const isa::Movement& movement = isa::movement(instruction);
  if (!movement.double_long && l1bm.width != Width::kLong) {
    return fail(index, fmt::format("{} moves one LW per PE and cycle; write $lb or $lbi",
                                   isa::mnemonic(instruction)));
  }
  if (movement.rule == isa::Movement::Rule::kOneOf) {
    const int units = isa::choices(movement, chip);
    if (instruction.unit >= units) {
      return fail(-1, fmt::format("MAB {} does not exist; allowed: {}@0 to {}@{}", instruction.unit, row.name,
                                  row.name, units - 1));
    }
  } else if (instruction.unit >= 0) {
    return fail(-1,
                fmt::format("{} names no MAB; leave out @{}", isa::mnemonic(instruction), instruction.unit));
  }
  return std::nullopt;
}

Check check_l1b_set(const isa::Instruction& instruction, const Chip& chip) {
  using Kind = isa::L1bSet::Kind;
  const isa::L1bSet& set = instruction.l1b_set;
  const int count = chip.l1b_per_l2b;
  if ((set.kind == Kind::kOne || set.kind == Kind::kMasked) && set.k >= count) {
    return fail(-1, fmt::format("L1B {} does not exist; allowed: 0..{}", set.k, count - 1));
  }
  if (set.kind == Kind::kMasked && set.ignore_mask >= count) {
    return fail(
        -1, fmt::format("don't-care mask {} is out of range; allowed: 0..{}", set.ignore_mask, count - 1));
  }
  if (set.kind == Kind::kList) {
    if (set.list == 0) return fail(-1, "the list of L1Bs is empty");
    if (count < 32 && (set.list >> count) != 0) {
      return fail(-1, fmt::format("the list names an L1B that does not exist; allowed: 0..{}", count - 1));
    }
  }
  return std::nullopt;
}

Check check_l2bm(const isa::Instruction& instruction, const isa::InstructionInfo& row, const Chip& chip) {
  const std::string_view name = row.name;
  const isa::Movement& movement = isa::movement(instruction);
  if (instruction.sources.empty()) return std::nullopt;
  const Operand& source = instruction.sources[0];
  const Operand& destination = instruction.destinations[0];
  for (int i = 0; i < 2; ++i) {
    const Operand& operand = i == 0 ? source : destination;
    if (operand.space != Space::kL1bm && operand.space != Space::kL2bm) continue;
    if (operand.base % isa::kL2bmAlignmentLw != 0) {
      return fail(i, fmt::format("address {} is misaligned: {} needs multiples of {} LW", operand.base, name,
                                 isa::kL2bmAlignmentLw));
    }
    if (operand.width != Width::kLong) return fail(i, fmt::format("{} moves blocks of LW; write $lb", name));
    if (operand.space == Space::kL2bm) {
      const bool stages = movement.way == isa::Movement::Way::kL2bmToDarStage;
      if (operand.group >= 0)
        return fail(i, fmt::format("{} runs in every group; leave out the group", name));
      if (stages != (operand.unit >= 0)) {
        return fail(i, stages ? fmt::format("{} names the L2B of its group; write $lc<a>@.<l2b>", name)
                              : fmt::format("{} runs in every L2B; leave out the L2B", name));
      }
    }
  }
  const bool names_unit = movement.rule == isa::Movement::Rule::kOneOf;
  if (names_unit && instruction.unit >= chip.l1b_per_l2b) {
    return fail(-1, fmt::format("L1B {0} does not exist; allowed: {1}@0 to {1}@{2}", instruction.unit, name,
                                chip.l1b_per_l2b - 1));
  }
  if (!names_unit && instruction.unit >= 0) return fail(-1, fmt::format("{} names no single L1B", name));
  using Kind = isa::L1bSet::Kind;
  const isa::L1bSet& set = instruction.l1b_set;
  if (set.kind != Kind::kAll && movement.set == isa::Movement::Set::kNone) {
    const bool other_way_may = std::ranges::any_of(row.forms, [](const isa::OperandForm& form) {
      return form.movement.set != isa::Movement::Set::kNone;
    });
    return fail(-1, fmt::format("{}{} always works on all L1Bs; leave out the set after @", name,
                                other_way_may ? " to L2BM" : ""));
  }
  if (movement.set == isa::Movement::Set::kSources) {
    if (set.kind != Kind::kOne && set.kind != Kind::kMasked) {
      return fail(-1, fmt::format("{0} names its sources, {0}@<k> or {0}@<k>/<don't-care mask>", name));
    }
    if (set.kind == Kind::kMasked && set.ignore_mask == chip.l1b_per_l2b - 1) {
      return fail(-1, fmt::format("{} can't take all L1Bs as sources; allowed: don't-care masks 0..{}", name,
                                  chip.l1b_per_l2b - 2));
    }
  }
  return check_l1b_set(instruction, chip);
}

Check check_mv(const isa::Instruction& instruction, const isa::InstructionInfo& row) {
  const std::string name = isa::mnemonic(instruction);
  if (row.source_count == 0) {
    if (instruction.size_lw < 0) return fail(-1, "a negative size");
  } else if (instruction.size_lw <= 0 || instruction.size_lw % kTransferGranule != 0) {
    return fail(-1, fmt::format("size {} of {} is not a positive multiple of {} LW", instruction.size_lw,
                                name, kTransferGranule));
  }
  if (instruction.tag < 0 || instruction.tag > isa::kMaxTransferTag) {
    return fail(-1, fmt::format("tag {:x} is out of range; allowed: 01..3f (hexadecimal)", instruction.tag));
  }
  if (instruction.priority < 0 || instruction.priority > kMaxPriority) {
    return fail(-1, fmt::format("priority p{} is out of range; allowed: p0..p3", instruction.priority));
  }
  if (instruction.sources.empty()) {
    return instruction.indirect_n == 1 ? std::nullopt : fail(-1, "nd is for transfers with $di");
  }
  const Operand& source = instruction.sources[0];
  const Operand& destination = instruction.destinations[0];
  const bool indirect = source.space == Space::kDramIndirect || destination.space == Space::kDramIndirect;
  if (instruction.indirect_n < 1) return fail(-1, "nd needs a number of at least 1");
  if (instruction.indirect_n != 1 && !indirect) return fail(-1, "nd is for transfers with $di");

  auto without_group = [&](int index) -> Check {
    const Operand& operand = index == 0 ? source : destination;
    if (operand.group < 0 && operand.unit < 0) return std::nullopt;
    return fail(index, fmt::format("{} works on all groups here; leave out the @ of {}", name,
                                   print_operand(operand)));
  };
  auto with_group = [&](int index) -> Check {
    const Operand& operand = index == 0 ? source : destination;
    if (operand.group >= 0) return std::nullopt;
    return fail(index, fmt::format("{} needs the group of {}; write {}@<group>", name, print_operand(operand),
                                   print_operand(operand)));
  };
  const auto& sides = isa::movement(instruction).sides;
  const auto is_named = [&](int side) { return sides[static_cast<size_t>(side)] == isa::MoveSide::kNamed; };
  if (is_named(0) && is_named(1)) {
    if ((source.group >= 0) == (destination.group >= 0)) return std::nullopt;
    return fail(source.group >= 0 ? 1 : 0,
                fmt::format("{} names the group of both sides or of none; {} has one, {} has not", name,
                            print_operand(source.group >= 0 ? source : destination),
                            print_operand(source.group >= 0 ? destination : source)));
  }
  for (const int side : {0, 1}) {
    if (!is_named(side)) continue;
    if (auto violation = with_group(side)) return violation;
  }
  for (const int side : {0, 1}) {
    if (is_named(side) || sides[static_cast<size_t>(side)] == isa::MoveSide::kNamedOrFirst) continue;
    if (auto violation = without_group(side)) return violation;
  }
  return std::nullopt;
}

/// Fields that belong to other kinds of instruction must be at rest, or printing would lose them.
Check check_unused_fields(const isa::Instruction& instruction, const isa::InstructionInfo& row) {
  const bool mv = row.group == IssueGroup::kMv;
  const bool tagged = mv || row.group == IssueGroup::kWait;
  if ((!mv && (instruction.size_lw != 0 || instruction.priority != 0 || instruction.indirect_n != 1)) ||
      (!tagged && instruction.tag != 0)) {
    return fail(-1, fmt::format("{} is no transfer: it has no size, tag or priority", row.name));
  }
  const bool l1bm_or_l2bm = row.group == IssueGroup::kL1bm || row.group == IssueGroup::kL1bmTurnaround ||
                            row.group == IssueGroup::kL2bm;
  if (!l1bm_or_l2bm && (instruction.unit >= 0 || instruction.l1b_set.kind != isa::L1bSet::Kind::kAll)) {
    return fail(-1, fmt::format("{} names no unit; leave out the @", row.name));
  }
  return std::nullopt;
}

Check check_instruction(const isa::Instruction& instruction, const Chip& chip) {
  if (instruction.opcode == Opcode::kInvalid || instruction.opcode >= Opcode::kCount) {
    return fail(-1, "no instruction");
  }
  const isa::InstructionInfo& row = isa::info(instruction.opcode);
  if (auto violation = check_unused_fields(instruction, row)) return violation;
  if (auto violation = check_operands(instruction, chip)) return violation;
  switch (row.group) {
    case IssueGroup::kWait:
      if (instruction.tag < 1 || instruction.tag > isa::kMaxTransferTag) {
        return fail(
            -1, fmt::format("wait tag {:x} is out of range; allowed: 01..3f (hexadecimal)", instruction.tag));
      }
      return std::nullopt;
    case IssueGroup::kMauCalc:
    case IssueGroup::kMauMwrite:
    case IssueGroup::kMauMread:
      return check_mau(instruction, row);
    case IssueGroup::kL1bm:
    case IssueGroup::kL1bmTurnaround:
      return check_l1bm(instruction, row, chip);
    case IssueGroup::kL2bm:
    case IssueGroup::kL2bmDarw:
      return check_l2bm(instruction, row, chip);
    case IssueGroup::kMv:
      return check_mv(instruction, row);
    case IssueGroup::kAlu:
      if (has_immediate(instruction) && !fits_payload_kind(instruction, instruction.sources[0].base)) {
        return fail(0, fmt::format("payload {:#x} can't be written as {}", instruction.sources[0].base,
                                   print_payload(instruction, instruction.sources[0].base)));
      }
      return std::nullopt;
    case IssueGroup::kNoForward:
      return std::nullopt;
  }
  return std::nullopt;
}

Check whole(std::string message) {
  return Violation{-1, -1, std::move(message)};
}

Check check_step(const isa::Step& step, const Chip& chip) {
  if (step.instructions.empty()) return whole("a step without instructions; write nop");
  bool only_wait = true;
  for (size_t i = 0; i < step.instructions.size(); ++i) {
    if (auto violation = check_instruction(step.instructions[i], chip)) {
      violation->instruction = static_cast<int>(i);
      return violation;
    }
    const IssueGroup group = isa::issue_group(step.instructions[i]);
    if (group == IssueGroup::kMv) {
      return Violation{static_cast<int>(i), -1, "a transfer is a statement of its own, not part of a step"};
    }
    only_wait = only_wait && group == IssueGroup::kWait;
  }
  if (only_wait) return whole("wait never stands alone; write nop; wait i<tag>");
  std::string conflict = isa::issue_conflict(step.instructions, chip);
  if (conflict.empty()) return std::nullopt;
  // The instruction to point at is the one that brings the conflict about.
  std::vector<isa::Instruction> first;
  for (size_t i = 0; i < step.instructions.size(); ++i) {
    first.push_back(step.instructions[i]);
    if (isa::issue_conflict(first, chip) == conflict) {
      return Violation{static_cast<int>(i), -1, std::move(conflict)};
    }
  }
  return whole(std::move(conflict));
}

/// How many of the five levels n c b m p a memory has.
int place_levels(Space space) {
  switch (space) {
    case Space::kDram:
    case Space::kPdm:
      return 1;
    case Space::kL2bm:
      return 2;
    case Space::kL1bm:
      return 3;
    default:
      return 5;
  }
}

Check check_debug_access(Space space, int64_t address, int64_t count_lw, const std::array<int16_t, 5>& place,
                         const Chip& chip) {
  constexpr std::string_view kLetters = "ncbmp";
  const std::array<int, 5> limits{chip.groups, chip.l2b_per_group, chip.l1b_per_l2b, chip.mab_per_l1b,
                                  isa::kPePerMab};
  const int levels = place_levels(space);
  for (int level = 0; level < 5; ++level) {
    if (place[level] == -1) continue;
    if (level >= levels) {
      return whole(fmt::format("{} has no level {}; allowed: {}", isa::space_name(space), kLetters[level],
                               kLetters.substr(0, levels)));
    }
    if (place[level] < 0 || place[level] >= limits[level]) {
      return whole(fmt::format("{}{} does not exist on {}; allowed: {}0..{}{}", kLetters[level], place[level],
                               chip.name, kLetters[level], kLetters[level], limits[level] - 1));
    }
  }
  int64_t size = 0;
  int64_t units_per_lw = 1;
  switch (space) {
    case Space::kLm0:
    case Space::kLm1:
    case Space::kGrf0:
    case Space::kGrf1:
      size = pe_memory_words(space, chip);
      units_per_lw = isa::kWordsPerLong;
      break;
    case Space::kT:
      size = 2 * isa::kCyclesPerStep;
      break;
    case Space::kOmr:
      if (address < 0 || address >= chip.memory.mask_entries) {
        return whole(fmt::format("mask entry {} does not exist; allowed: 0..{}", address,
                                 chip.memory.mask_entries - 1));
      }
      if (count_lw != 1) return whole("a mask entry is read one at a time; the count is 1");
      return std::nullopt;
    case Space::kL1bm:
      size = chip.memory.l1bm_lw;
      break;
    case Space::kL2bm:
      size = chip.memory.l2bm_lw;
      break;
    case Space::kDram:
      size = chip.memory.dram_lw;
      break;
    case Space::kPdm:
      size = chip.memory.pdm_lw;
      break;
    default:
      return whole("d get and d set know $lm $ln $lr $ls $lt $lb $lc $d $p, d get also $omr");
  }
  if (address < 0 || address % units_per_lw != 0) {
    return whole(fmt::format("address {} is misaligned: a long word starts at an even word", address));
  }
  if (count_lw < 1) return whole("the count is at least 1");
  if (address >= size || count_lw > (size - address) / units_per_lw) {
    return whole(fmt::format("{} LW from address {} go beyond {}, which ends at {}", count_lw, address,
                             isa::space_name(space), size - 1));
  }
  return std::nullopt;
}

/// LW of T in one `d get`.
constexpr int64_t kMostRepeatedT = 1024;

bool has_line_break(std::string_view text) {
  return std::any_of(text.begin(), text.end(), [](unsigned char c) { return c < 0x20 && c != '\t'; });
}

struct StatementCheck {
  const Chip& chip;

  Check operator()(const isa::Step& step) const { return check_step(step, chip); }
  Check operator()(const isa::Nop& nop) const {
    if (nop.count < 1 || nop.count > isa::kMaxNopCount) {
      return whole(fmt::format("nop/{}: a number of steps is 1 to {}", nop.count, isa::kMaxNopCount));
    }
    if (nop.wait_tag < 0 || nop.wait_tag > isa::kMaxTransferTag) {
      return whole(fmt::format("wait tag {:x} is out of range; allowed: 01..3f (hexadecimal)", nop.wait_tag));
    }
    if (nop.wait_tag != 0 && nop.count != 1) {
      return whole(fmt::format("wait stands beside a single nop, not beside nop/{}", nop.count));
    }
    return std::nullopt;
  }
  Check operator()(const isa::Mv& mv) const {
    if (isa::info(mv.instruction.opcode).group != IssueGroup::kMv) {
      return whole(fmt::format("{} is no transfer", isa::mnemonic(mv.instruction)));
    }
    return check_instruction(mv.instruction, chip);
  }
  Check operator()(const isa::MaskControl& control) const {
    if (control.entry >= chip.memory.mask_entries) {
      return whole(fmt::format("mask entry {} does not exist; allowed: 0..{}", control.entry,
                               chip.memory.mask_entries - 1));
    }
    if (control.spaces >= 1 << 6) return whole("a mask statement knows the spaces r s t m n k");
    if (control.spaces == 0 && control.entry != 0) {
      return whole(
          fmt::format("mask {} names no space; write e.g. maskr {} (spaces: r s t m n k), or mask 0 "
                      "to end masking",
                      control.entry, control.entry));
    }
    if (control.double_long && !control.explicit_length) return whole("length ll must be written");
    return std::nullopt;
  }
  Check operator()(const isa::DebugGet& get) const {
    if (std::string_view("\0dfhDFGH", 8).find(get.type) == std::string_view::npos) {
      return whole("unknown type; allowed: getd getf geth getbd getbf getbg getbh");
    }
    if (has_line_break(get.text)) return whole("a statement is one line");
    // T repeats.
    const int64_t limit = get.space == Space::kT ? kMostRepeatedT : get.count;
    if (get.count > limit) return whole(fmt::format("{} LW of T; allowed: at most {}", get.count, limit));
    const int64_t count = get.space == Space::kT ? std::min<int64_t>(get.count, 1) : get.count;
    return check_debug_access(get.space, get.address, count, get.place, chip);
  }
  Check operator()(const isa::DebugSet& set) const {
    if (set.space == Space::kOmr) return whole("d set can't write mask entries");
    return check_debug_access(set.space, set.address, static_cast<int64_t>(set.payload.size()), set.place,
                              chip);
  }
  Check operator()(const isa::DramPreload& preload) const {
    if (preload.group < 0 || preload.group >= chip.groups) {
      return whole(fmt::format("group {} does not exist; {} has groups 0..{}", preload.group, chip.name,
                               chip.groups - 1));
    }
    if (preload.payload.size() > kMaxPreload) {
      return whole(
          fmt::format("{} LW in one r line; allowed: at most {}", preload.payload.size(), kMaxPreload));
    }
    if (preload.address > kMaxPreloadAddress) {
      return whole("the address of an r line has at most 9 hexadecimal digits");
    }
    return check_debug_access(Space::kDram, preload.address, static_cast<int64_t>(preload.payload.size()),
                              {-1, -1, -1, -1, -1}, chip);
  }
  Check operator()(const isa::RegionMark& mark) const {
    if (has_line_break(mark.name)) return whole("the name of a region is one line");
    if (mark.begin == mark.name.empty()) {
      return whole(mark.begin ? "a region needs a name: # region NAME" : "# endregion has no name");
    }
    if (!mark.name.empty() && (mark.name.front() == ' ' || mark.name.back() == ' ' ||
                               mark.name.front() == '\t' || mark.name.back() == '\t')) {
      return whole("the name of a region has no blanks around it");
    }
    return std::nullopt;
  }
  Check operator()(const isa::Quit&) const { return std::nullopt; }
  Check operator()(const isa::Loop& loop) const {
    for (const isa::Statement& statement : loop.body) {
      if (auto violation = find_violation(statement, chip)) {
        return whole("in a loop: " + print_statement(statement) + ": " + violation->message);
      }
    }
    return std::nullopt;
  }
};

/// Whether the fields of the mnemonic (precision, u, r …) are a combination that exists.
bool has_mnemonic(const isa::Instruction& instruction) {
  const std::optional<isa::Instruction> parsed = isa::parse_mnemonic(isa::mnemonic(instruction));
  return parsed && parsed->opcode == instruction.opcode && parsed->precision == instruction.precision &&
         parsed->unsigned_op == instruction.unsigned_op && parsed->round_output == instruction.round_output &&
         parsed->half_select == instruction.half_select && parsed->reduce_op == instruction.reduce_op &&
         parsed->rotation == instruction.rotation;
}

void require_mnemonic(const isa::Instruction& instruction, const isa::SourceLocation& where) {
  if (instruction.opcode == Opcode::kInvalid || instruction.opcode >= Opcode::kCount) return;
  if (!has_mnemonic(instruction)) {
    throw isa::UserError(where, fmt::format("{}: there is no such form of {}", isa::mnemonic(instruction),
                                            isa::info(instruction.opcode).name));
  }
}

}  // namespace

std::optional<Violation> find_violation(const isa::Statement& statement, const Chip& chip) {
  return std::visit(StatementCheck{chip}, statement.kind);
}

std::optional<Violation> find_violation(const isa::Instruction& instruction, const Chip& chip) {
  return check_instruction(instruction, chip);
}

void check_statement(const isa::Statement& statement, const Chip& chip, const isa::SourceLocation& where) {
  if (const auto* step = std::get_if<isa::Step>(&statement.kind)) {
    for (const isa::Instruction& instruction : step->instructions) require_mnemonic(instruction, where);
  } else if (const auto* mv = std::get_if<isa::Mv>(&statement.kind)) {
    require_mnemonic(mv->instruction, where);
  }
  if (auto violation = find_violation(statement, chip)) throw isa::UserError(where, violation->message);
}

}  // namespace kodama::assembler
