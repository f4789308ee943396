#include <algorithm>

#include "isa/error.h"
#include "isa/instruction.h"
#include "isa/operand_sets.h"

/// The table of instructions, and the words that its rows are written with.
namespace kodama::isa {
namespace {

using enum FlagRule;
using enum MoveSide;
using enum Movement::Rule;

const OperandForm kAlu0{{}, kFlagResult};
const OperandForm kAlu1{{kFirstAlu}, kFlagResult};
const OperandForm kAlu2{{kFirstAlu, kPeSource}, kFlagResult};
const OperandForm kMau1{{kPeSource}, kFlagResult};
const OperandForm kMau2{{kPeSource, kPeSource}, kFlagResult};
const OperandForm kMau3{{kPeSource, kPeSource, kPeSource}, kFlagResult};
// ---- movements -----------------------------------------------------------------------------------------

/// From L1BM or turnaround register to PEs.
OperandForm from_l1bm(SpaceSet sources, int lw_per_cycle, int shared_by, bool double_long = true) {
  return {{sources},
          kPeResult,
          {.way = Movement::Way::kL1bmToPe,
           .lw_per_cycle = lw_per_cycle,
           .shared_by = shared_by,
           .double_long = double_long}};
}
OperandForm to_l1bm(int lw_per_cycle, int shared_by, Movement::Rule rule, bool double_long = true) {
  return {{kPeSource},
          kL1bmSide,
          {.way = Movement::Way::kPeToL1bm,
           .lw_per_cycle = lw_per_cycle,
           .shared_by = shared_by,
           .rule = rule,
           .double_long = double_long}};
}
OperandForm from_l2bm(int lw_per_cycle, int shared_by, Movement::Set set) {
  return {
      {set_of(Space::kL2bm)},
      set_of(Space::kL1bm),
      {.way = Movement::Way::kL2bmToL1bm, .lw_per_cycle = lw_per_cycle, .shared_by = shared_by, .set = set}};
}
OperandForm to_l2bm(int lw_per_cycle, int shared_by, Movement::Rule rule,
                    Movement::Set set = Movement::Set::kNone) {
  return {{set_of(Space::kL1bm)},
          set_of(Space::kL2bm),
          {.way = Movement::Way::kL1bmToL2bm,
           .lw_per_cycle = lw_per_cycle,
           .shared_by = shared_by,
           .rule = rule,
           .set = set}};
}
OperandForm move(SpaceSet sources, MoveSide from, SpaceSet destinations, MoveSide to,
                 Movement::Rule rule = kCopy) {
  return {{sources}, destinations, {.way = Movement::Way::kTransfer, .rule = rule, .sides = {from, to}}};
}
bool any_form(const std::vector<OperandForm>& forms, Movement::Way way) {
  return std::ranges::any_of(forms, [&](const OperandForm& form) { return form.movement.way == way; });
}

// ---- rows ----------------------------------------------------------------------------------------------

InstructionInfo plain(std::string_view name, IssueGroup group, std::vector<OperandForm> forms,
                      std::string_view syntax, std::string_view effect, std::string_view reference) {
  const bool reduces =
      std::ranges::any_of(forms, [](const OperandForm& form) { return form.movement.rule == kReduced; });
  return {.name = name,
          .group = group,
          .precisions = reduces ? "dfhlis" : "",
          .reduces = reduces,
          .forms = std::move(forms),
          .syntax = syntax,
          .effect = effect,
          .reference = reference};
}

InstructionInfo alu(std::string_view name, std::string_view precisions, const OperandForm& form,
                    FlagRule flags, std::string_view syntax, std::string_view effect,
                    std::string_view reference, std::string_view unsigned_precisions = {}) {
  InstructionInfo row = plain(name, IssueGroup::kAlu, {form}, syntax, effect, reference);
  row.precisions = precisions;
  row.unsigned_precisions = unsigned_precisions;
  row.variadic_destinations = true;
  row.allows_zero_flush = true;
  row.flags = flags;
  return row;
}

InstructionInfo mau(std::string_view name, std::string_view precisions, bool half_select,
                    const OperandForm& form, const MauInputs& inputs, int word, std::string_view syntax,
                    std::string_view effect, std::string_view reference) {
  InstructionInfo row = plain(name, IssueGroup::kMauCalc, {form}, syntax, effect, reference);
  row.precisions = precisions;
  row.half_select = half_select;
  row.variadic_destinations = true;
  row.allows_zero_flush = true;
  row.allows_round_output = true;
  row.allows_extend = true;
  row.flags = FlagRule::kNotNegative;
  row.mau = inputs;
  row.word.value = word;
  return row;
}

InstructionInfo l1bm(std::string_view name, std::vector<OperandForm> forms, std::string_view syntax,
                     std::string_view effect, std::string_view reference) {
  const bool to_pe = any_form(forms, Movement::Way::kL1bmToPe);
  InstructionInfo row = plain(name, IssueGroup::kL1bm, std::move(forms), syntax, effect, reference);
  row.variadic_destinations = to_pe;
  row.allows_zero_flush = to_pe;
  return row;
}
InstructionInfo l2bm(std::string_view name, std::vector<OperandForm> forms, std::string_view syntax,
                     std::string_view effect, std::string_view reference) {
  return plain(name, IssueGroup::kL2bm, std::move(forms), syntax, effect, reference);
}
InstructionInfo mv(std::string_view name, std::vector<OperandForm> forms, std::string_view syntax,
                   std::string_view effect, std::string_view reference) {
  return plain(name, IssueGroup::kMv, std::move(forms), syntax, effect, reference);
}

InstructionInfo rotating(InstructionInfo row) {
  row.rotates = true;
  return row;
}
InstructionInfo with_block_bits(std::string_view precisions, InstructionInfo row) {
  row.block_bits = precisions;
  return row;
}
/// With a prefix u although it has no precision.
InstructionInfo with_unsigned(InstructionInfo row) {
  row.allows_unsigned = true;
  return row;
}
InstructionInfo with_word(const WordCode& word, InstructionInfo row) {
  row.word = word;
  return row;
}

std::vector<InstructionInfo> build_table() {
  std::vector<InstructionInfo> t;
  const auto add = [&](Opcode opcode, InstructionInfo row) {
    row.opcode = opcode;
    t.push_back(std::move(row));
  };
#define INSTRUCTION(opcode, ...) add(Opcode::opcode, __VA_ARGS__);
#include "isa/instruction_rows.def"

  for (InstructionInfo& row : t) {
    for (const OperandForm& form : row.forms) {
      for (size_t i = 0; i < form.sources.size(); ++i) {
        row.sources[i] |= form.sources[i];
        if (form.sources[i] != 0) row.source_count = std::max<uint8_t>(row.source_count, i + 1);
      }
      row.destinations |= form.destinations;
    }
    row.allows_unsigned = row.allows_unsigned || !row.unsigned_precisions.empty();
  }
  return t;
}

const std::vector<InstructionInfo>& table() {
  static const std::vector<InstructionInfo> rows = build_table();
  return rows;
}

}  // namespace

const InstructionInfo& info(Opcode opcode) {
  const int index = static_cast<int>(opcode);
  check_internal(index > 0 && index < kOpcodeCount, "the instruction table", "opcode {} has no row", index);
  return table()[static_cast<size_t>(index) - 1];
}

std::span<const InstructionInfo> instruction_table() {
  return table();
}

const OperandForm* form_of(const Instruction& instruction) {
  // A row never has two forms that fit the same sources.
  const InstructionInfo& row = info(instruction.opcode);
  const std::vector<Operand>& sources = instruction.sources;
  if (sources.size() != row.source_count) return nullptr;
  for (const OperandForm& form : row.forms) {
    bool all = true;
    for (size_t i = 0; i < sources.size(); ++i) all = all && fits(sources[i], form.sources[i]);
    if (all) return &form;
  }
  return nullptr;
}

const Movement& movement(const Instruction& instruction) {
  static const Movement kNothing;
  const OperandForm* const form = form_of(instruction);
  return form != nullptr ? form->movement : kNothing;
}

bool is_l1bm_to_pe(const Instruction& instruction) {
  return movement(instruction).way == Movement::Way::kL1bmToPe;
}
bool is_pe_to_l1bm(const Instruction& instruction) {
  return movement(instruction).way == Movement::Way::kPeToL1bm;
}

}  // namespace kodama::isa
