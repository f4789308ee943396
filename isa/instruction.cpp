#include "isa/instruction.h"

#include <algorithm>
#include <string>
#include <unordered_map>

#include "isa/error.h"
#include "isa/operand_sets.h"

namespace kodama::isa {
namespace {

struct Mnemonics {
  std::vector<Instruction> list;
  std::unordered_map<std::string, size_t> index;

  void add(const Instruction& instruction) {
    const std::string text = mnemonic(instruction);
    const bool is_new = index.emplace(text, list.size()).second;
    check_internal(is_new, "the instruction table", "two meanings of '{}'", text);
    list.push_back(instruction);
  }

  /// A row with a name of its own in half precision takes that name from the row whose reduction it replaces.
  static bool is_half_name(std::string_view text) {
    return std::ranges::any_of(instruction_table(),
                               [&](const InstructionInfo& row) { return row.half_name == text; });
  }

  /// The mnemonic of `row` in one precision with every combination of prefixes and suffixes.
  void add_variants(const InstructionInfo& row, Instruction instruction) {
    const char letter = precision_letter(instruction.precision);
    const bool sums_halves = std::ranges::any_of(
        row.forms, [](const OperandForm& form) { return form.movement.rule == Movement::Rule::kHalfSum; });
    if (sums_halves) instruction.reduce_op = ReduceOp::kFadd;
    if (row.reduces) {
      for (int op = 1; op < kReduceOpCount; ++op) {
        instruction.reduce_op = static_cast<ReduceOp>(op);
        const bool exists = reduce_op_allows(instruction.reduce_op, instruction.precision);
        if (exists && !is_half_name(mnemonic(instruction))) add(instruction);
      }
      return;
    }
    std::string_view selects;
    if (row.half_select && instruction.precision == Precision::kDouble) selects = "ud";
    const bool has_unsigned =
        letter == 0 ? row.allows_unsigned : row.unsigned_precisions.find(letter) != std::string_view::npos;
    for (size_t s = 0; s < std::max<size_t>(selects.size(), 1); ++s) {
      instruction.half_select = selects.empty() ? '\0' : selects[s];
      for (int round = 0; round <= (row.allows_round_output ? 1 : 0); ++round) {
        instruction.round_output = round != 0;
        for (int is_unsigned = 0; is_unsigned <= (has_unsigned ? 1 : 0); ++is_unsigned) {
          instruction.unsigned_op = is_unsigned != 0;
          for (const int rotation : {0, 1, -1}) {
            if (rotation != 0 && !row.rotates) continue;
            instruction.rotation = static_cast<int8_t>(rotation);
            add(instruction);
          }
        }
      }
    }
  }

  Mnemonics() {
    for (const InstructionInfo& row : instruction_table()) {
      Instruction instruction;
      instruction.opcode = row.opcode;
      if (row.precisions.empty()) add_variants(row, instruction);
      for (const char letter : row.precisions) {
        instruction.precision = precision_of_letter(letter);
        add_variants(row, instruction);
      }
    }
    // Aliases: other spellings of a mnemonic above.
    for (const std::string precision : {"d", "f", "h"}) {
      index.emplace(precision + "relu0", index.at(precision + "relu"));
    }
  }
};

const Mnemonics& mnemonics() {
  static const Mnemonics all;
  return all;
}

}  // namespace

// ---- small vocabularies --------------------------------------------------------------------------------

char precision_letter(Precision precision) {
  return "\0dfghlis"[static_cast<int>(precision)];
}

Precision precision_of_letter(char letter) {
  const size_t at = std::string_view("dfghlis").find(letter);
  return at == std::string_view::npos ? Precision::kNone : static_cast<Precision>(at + 1);
}

int lanes(Precision precision) {
  switch (precision) {
    case Precision::kFloat:
    case Precision::kGFloat:
    case Precision::kInt:
      return 2;
    case Precision::kHalf:
    case Precision::kShort:
      return 4;
    default:
      return 1;
  }
}

std::string_view issue_group_name(IssueGroup group) {
  static constexpr std::string_view kNames[] = {
      "noforward", "l2bm", "l2bmdarw", "l1bm", "l1bm-turnaround", "mau-calc", "mau-mwrite",
      "mau-mread", "alu",  "wait",     "mv"};
  return kNames[static_cast<int>(group)];
}

std::string_view fixed_constant_name(FixedConstant constant) {
  static constexpr std::string_view kNames[] = {"l2bid", "l1bid", "mabid", "peid", "subpeid", "msb1"};
  static_assert(std::size(kNames) == kFixedConstantCount);
  return kNames[static_cast<int>(constant)];
}

namespace {

struct Reduction {
  std::string_view name;
  std::string_view precisions;
};
constexpr Reduction kReductions[] = {
    {"", ""},
#define REDUCTION(op, name, precisions) {name, precisions},
#include "isa/instruction_rows.def"
};

}  // namespace

std::string_view reduce_op_name(ReduceOp op) {
  return kReductions[static_cast<size_t>(op)].name;
}

bool reduce_op_allows(ReduceOp op, Precision precision) {
  return has_precision(kReductions[static_cast<size_t>(op)].precisions, precision);
}

bool is_pe_memory(Space space) {
  return (space_bit(space) & kPeMemories) != 0;
}

std::string_view space_name(Space space) {
  static constexpr std::string_view kNames[] = {"no operand",
                                                "$m (LM0)",
                                                "$n (LM1)",
                                                "$r (GRF0)",
                                                "$s (GRF1)",
                                                "$t",
                                                "$omr",
                                                "$mb (BAR of LM0)",
                                                "$nb (BAR of LM1)",
                                                "$nowrite",
                                                "$aluf",
                                                "$mauf",
                                                "$lbf",
                                                "$mreadf",
                                                "a constant",
                                                "an immediate",
                                                "$lx (matrix register)",
                                                "$ly (matrix register)",
                                                "$lb (L1BM)",
                                                "$lbi (turnaround)",
                                                "$lc (L2BM)",
                                                "$dar",
                                                "$p (PDM)",
                                                "$d (DRAM)",
                                                "$di (indirect DRAM)",
                                                "a value"};
  static_assert(std::size(kNames) == static_cast<size_t>(Space::kVirtual) + 1);
  return kNames[static_cast<int>(space)];
}

bool L1bSet::contains(int b, int count) const {
  if (b < 0 || b >= count) return false;
  switch (kind) {
    case Kind::kAll:
      return true;
    case Kind::kOne:
      return b == k;
    case Kind::kMasked:
      return ((b ^ k) & ~int{ignore_mask} & (count - 1)) == 0;
    case Kind::kList:
      return (list >> b & 1) != 0;
  }
  return false;
}

std::string mnemonic(const Instruction& instruction) {
  const InstructionInfo& row = info(instruction.opcode);
  if (!row.half_name.empty() && instruction.precision == Precision::kHalf) return std::string(row.half_name);
  std::string text;
  const char letter = precision_letter(instruction.precision);
  const bool letter_first = letter != 0 && !row.reduces && row.half_name.empty();
  if (letter_first) {
    if (instruction.unsigned_op) text += 'u';
    text += letter;
  }
  text += row.name;
  if (row.reduces) {
    if (letter != 0) text += letter;
    text += reduce_op_name(instruction.reduce_op);
  }
  if (!letter_first && instruction.unsigned_op) text += 'u';
  if (instruction.half_select != 0) text += instruction.half_select;
  if (instruction.round_output) text += 'r';
  if (instruction.rotation != 0) text += instruction.rotation > 0 ? "+1" : "-1";
  return text;
}

std::optional<Instruction> parse_mnemonic(std::string_view text) {
  const Mnemonics& all = mnemonics();
  const auto found = all.index.find(std::string(text));
  if (found == all.index.end()) return std::nullopt;
  return all.list[found->second];
}

std::span<const Instruction> all_mnemonics() {
  return mnemonics().list;
}

IssueGroup issue_group(const Instruction& instruction) {
  const IssueGroup group = info(instruction.opcode).group;
  if (group == IssueGroup::kL1bm && any_operand(instruction.sources, space_bit(Space::kTurnaround))) {
    return IssueGroup::kL1bmTurnaround;
  }
  return group;
}

FlagRule flag_rule(const Instruction& instruction) {
  const FlagRule rule = info(instruction.opcode).flags;
  return rule == FlagRule::kNotNegative && instruction.unsigned_op ? FlagRule::kNoCarry : rule;
}

}  // namespace kodama::isa
