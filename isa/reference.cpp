#include "isa/reference.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "isa/costs.h"
#include "isa/error.h"
#include "isa/instruction.h"

namespace kodama::isa {
namespace {

std::string flag_text(FlagRule rule) {
  switch (rule) {
    case FlagRule::kNone:
      return "none; where a mask register is written, 0";
    case FlagRule::kZeroResult:
      return "1 in lanes whose result is 0";
    case FlagRule::kNotNegative:
      return "1 in lanes whose result has its sign bit clear";
    case FlagRule::kNoCarry:
      return "1 in lanes without carry or borrow";
    case FlagRule::kChosen:
      return "1 in lanes where x was chosen, or x == y";
    case FlagRule::kTopBitClear:
      return "1 in lanes where the top bit of x is clear";
    case FlagRule::kMsbOfSecond:
      return "1 in lanes where the top bit of y is clear";
    case FlagRule::kBitOfFirst:
      return "1 in lanes where the tested bit of x is clear";
  }
  return "";
}

const char* agent_name(Agent agent) {
  constexpr const char* kNames[] = {"PE", "L1BM to PE", "PE to L1BM", "L1BM to L2BM", "L2BM to L1BM", "MV"};
  return kNames[static_cast<size_t>(agent)];
}

std::string spaces_text(SpaceSet set) {
  std::vector<std::string> names;
  for (int s = 0; s < static_cast<int>(Space::kVirtual); ++s) {
    const auto space = static_cast<Space>(s);
    if ((set & space_bit(space)) != 0) names.emplace_back(space_name(space));
  }
  return fmt::format("{}", fmt::join(names, ", "));
}

/// Some operand of the set, for asking the cost tables.
Operand sample_operand(SpaceSet set) {
  Operand operand;
  for (const Space space : {Space::kLm0, Space::kL1bm, Space::kL2bm, Space::kDram, Space::kMatX, Space::kPdm,
                            Space::kDar, Space::kImmediate}) {
    if ((set & space_bit(space)) == 0) continue;
    operand.space = space;
    break;
  }
  if (operand.space == Space::kLm0) operand.stride = words(operand.width);
  return operand;
}
Instruction sample(const Instruction& mnemonic, const OperandForm& form) {
  Instruction result = mnemonic;
  const InstructionInfo& row = info(mnemonic.opcode);
  SpaceSet used = 0;
  for (int i = 0; i < row.source_count; ++i) {
    const SpaceSet set = form.sources[static_cast<size_t>(i)];
    result.sources.push_back(sample_operand((set & ~used) != 0 ? set & ~used : set));
    used |= space_bit(result.sources.back().space);
  }
  if (form.destinations != 0) {
    Operand destination = sample_operand(form.destinations);
    if (destination.space == Space::kLm0) destination.space = Space::kGrf0;
    result.destinations.push_back(destination);
  }
  if (row.group == IssueGroup::kMv) result.size_lw = 128;
  if (form.movement.rule == Movement::Rule::kOneOf) result.unit = 0;
  return result;
}

/// "L2BM: read, L2BM to L1BM, 64 LW a step" for each shared memory or register beside the operands of the
/// PEs.
std::string touched(const Instruction& instruction, const Chip& chip) {
  std::set<std::string> lines;
  for (const Access& access : accesses(instruction, chip)) {
    const bool of_pe = access.resource == HazardResource::kLm0 || access.resource == HazardResource::kLm1 ||
                       access.resource == HazardResource::kGrf0 || access.resource == HazardResource::kGrf1 ||
                       access.resource == HazardResource::kBar0 || access.resource == HazardResource::kBar1;
    if (of_pe) continue;
    std::string line = fmt::format("* {} {}, as \"{}\"", access.write ? "writes" : "reads",
                                   hazard_resource_name(access.resource), agent_name(access.agent));
    const bool counted = access.resource == HazardResource::kL1bm || access.resource == HazardResource::kL2bm;
    if (counted && access.agent != Agent::kMv)
      line += fmt::format(": {} LW, {} per cycle", access.length, access.length / kCyclesPerStep);
    lines.insert(line + "\n");
  }
  return fmt::format("{}", fmt::join(lines, ""));
}

std::string page(const InstructionInfo& row, const Chip& chip) {
  std::vector<std::string> mnemonics;
  const Instruction* first = nullptr;
  for (const Instruction& mnemonic : all_mnemonics()) {
    if (mnemonic.opcode != row.opcode) continue;
    if (first == nullptr) first = &mnemonic;
    mnemonics.push_back("`" + isa::mnemonic(mnemonic) + "`");
  }
  std::string text = fmt::format(
      "# {}\n\n    {}\n\nIssue group: {}. Source: ISA page, section {} (V verified, M manual, A "
      "assumed).\n\n",
      row.name, row.syntax, issue_group_name(row.group), row.reference);
  text += fmt::format("## Effect\n\n{}\n\n", row.effect);
  text += fmt::format("## Mnemonics\n\n{}\n\n", fmt::join(mnemonics, " "));

  text += "## Operands\n\n";
  if (row.source_count == 0 && row.destinations == 0) text += "None.\n\n";
  for (size_t f = 0; f < row.forms.size() && (row.source_count > 0 || row.destinations != 0); ++f) {
    if (row.forms.size() > 1) text += fmt::format("Form {}:\n\n", f + 1);
    text += "| position | allowed |\n| --- | --- |\n";
    for (size_t i = 0; i < row.source_count; ++i)
      text += fmt::format("| source {} | {} |\n", i + 1, spaces_text(row.forms[f].sources[i]));
    if (row.forms[f].destinations != 0) {
      text += fmt::format("| destination{} | {} |\n", row.variadic_destinations ? "s" : "",
                          spaces_text(row.forms[f].destinations));
    }
    text += "\n";
  }
  std::vector<std::string> options;
  if (row.allows_unsigned) options.emplace_back("prefix `u`");
  if (row.half_select) options.emplace_back("suffix `u` or `d` in double precision");
  if (row.allows_round_output)
    options.emplace_back("suffix `r`: the result is rounded to the next lower precision");
  if (row.allows_extend) options.emplace_back("`-`, `e` and `r` on sources");
  if (row.allows_zero_flush) {
    options.emplace_back(row.group == IssueGroup::kL1bm ? "zero flush (`/mask` on the opcode) towards the PE"
                                                        : "zero flush (`/mask` on the opcode)");
  }
  if (row.rotates) options.emplace_back("`+1` or `-1`");
  if (!options.empty()) text += fmt::format("Options: {}.\n\n", fmt::join(options, "; "));

  if (row.group == IssueGroup::kAlu || row.group == IssueGroup::kMauCalc) {
    text += fmt::format("## Flags\n\n{}.", flag_text(row.flags));
    if (row.allows_unsigned && row.flags == FlagRule::kNotNegative)
      text += fmt::format(" With the prefix u: {}.", flag_text(FlagRule::kNoCarry));
    text += "\n\n";
  }

  text += fmt::format("## Rate and hazards on {}\n\n", chip.name);
  if (row.group == IssueGroup::kMv) {
    text += fmt::format("Takes no step; one may start every {} steps. ", chip.transfer.issue_interval_steps);
    if (row.source_count > 0) {
      text += fmt::format("128 LW take {} cycles on an idle chip. ",
                          transfer_cycles(sample(*first, row.forms.front()), chip));
    }
    text += "What follows must `wait` for its tag.\n\n";
  } else {
    text += fmt::format("One per step of {} cycles.", kCyclesPerStep);
    if (row.group == IssueGroup::kMauCalc) {
      std::set<Precision> seen;
      for (const Instruction& mnemonic : all_mnemonics()) {
        if (mnemonic.opcode != row.opcode || !seen.insert(mnemonic.precision).second) continue;
        text +=
            fmt::format(" {}: {:.0f} multiply-adds per cycle of the chip at most.", isa::mnemonic(mnemonic),
                        peak_macs_per_cycle(mnemonic.precision, row.mau.matrix, chip));
      }
    }
    text += "\n\n";
  }
  std::set<std::string> seen;
  for (const OperandForm& form : row.forms) {
    if (row.group == IssueGroup::kMv && row.source_count == 0) break;
    const std::string lines = touched(sample(*first, form), chip);
    if (seen.insert(lines).second) text += lines;
  }
  text +=
      "\nDistances between steps: [hazards](hazards.md). Accesses to LM, GRF and T follow from the "
      "operands. How operands, masks and programs are written: [VSM](../vsm.md).\n";
  return text;
}

std::string index_page() {
  std::string text =
      "# Instruction set\n\nMade by `kodama isa` from the instruction table (`isa/instruction_rows.def`) and "
      "the "
      "cost tables "
      "(`isa/costs.h`); the pages are committed, and a test holds them to the tables.\n\nIn effects: c = "
      "cycle, m = MAB of the "
      "L1B, p = PE of the MAB, b = L1B of the L2B, q = L2B of the chip, g h = group; B = L1BM, C = L2BM; M = "
      "MABs per L1B, N = "
      "L1Bs per L2B, L = L2Bs of the chip, G = groups; v.h, v.l = upper and lower long word of the PE "
      "operand; amounts are in "
      "long words (64 bits). The language, with examples: [VSM](../vsm.md). Distances between steps: "
      "[hazards](hazards.md). What is assumed: [open questions](../isa-open-questions.md).\n";
  std::set<IssueGroup> groups;
  for (const InstructionInfo& row : instruction_table()) {
    if (!groups.insert(row.group).second) continue;
    text += fmt::format("\n## {}\n\n| instruction | syntax |\n| --- | --- |\n", issue_group_name(row.group));
    for (const InstructionInfo& other : instruction_table()) {
      if (other.group != row.group) continue;
      std::string syntax(other.syntax);
      for (size_t at = 0; (at = syntax.find('|', at)) != std::string::npos; at += 2) syntax.insert(at, "\\");
      text += fmt::format("| [{0}]({0}.md) | `{1}` |\n", other.name, syntax);
    }
  }
  return text;
}

/// An access of words 0 and 1, 2 and 3, … in the four cycles, or of LW 0 to 63.
Access probe(HazardResource resource, Agent agent, bool write) {
  Access access{.resource = resource, .agent = agent, .write = write};
  const bool by_cycles = resource <= HazardResource::kT;
  access.cycles = by_cycles ? kCyclesPerStep : 1;
  access.length = resource < HazardResource::kT ? kWordsPerLong : by_cycles ? 1 : 64;
  if (by_cycles) {
    for (size_t c = 0; c < kCyclesPerStep; ++c) access.begin[c] = static_cast<int64_t>(c) * access.length;
  }
  return access;
}

std::string hazards_page(const Chip& chip) {
  std::string text = fmt::format(
      "# Hazards on {}\n\nThe number of other steps that must stand between a write and a later read of the "
      "same words (0: the "
      "next step will do), for operands that walk through the same addresses in the same cycles. The exact "
      "rule for PE memories: a write is complete "
      "{} cycles after its cycle, and cycles that a mask excludes do not count; LM has one port, so there "
      "the addresses don't "
      "matter. Source: ISA page, section 9; the numbers are in the chip file under `hazard`.\n\n"
      "| memory | written by | read by | steps between |\n| --- | --- | --- | --- |\n",
      chip.name, chip.hazard.pe_write_complete_cycles);
  struct Row {
    HazardResource resource;
    Agent writer;
    Agent reader;
  };
  using R = HazardResource;
  constexpr Row kRows[] = {{R::kLm0, Agent::kPe, Agent::kPe},
                           {R::kLm1, Agent::kPe, Agent::kPe},
                           {R::kGrf0, Agent::kPe, Agent::kPe},
                           {R::kGrf1, Agent::kPe, Agent::kPe},
                           {R::kT, Agent::kPe, Agent::kPe},
                           {R::kMask, Agent::kPe, Agent::kPe},
                           {R::kBar0, Agent::kPe, Agent::kPe},
                           {R::kBar1, Agent::kPe, Agent::kPe},
                           {R::kMatX, Agent::kPe, Agent::kPe},
                           {R::kMatY, Agent::kPe, Agent::kPe},
                           {R::kAluForward, Agent::kPe, Agent::kPe},
                           {R::kMauForward, Agent::kPe, Agent::kPe},
                           {R::kLbForward, Agent::kL1bmToPe, Agent::kPe},
                           {R::kMreadForward, Agent::kPe, Agent::kPe},
                           {R::kTurnaround, Agent::kPeToL1bm, Agent::kL1bmToPe},
                           {R::kL1bm, Agent::kPeToL1bm, Agent::kL1bmToPe},
                           {R::kL1bm, Agent::kPeToL1bm, Agent::kL1bmToL2bm},
                           {R::kL1bm, Agent::kL2bmToL1bm, Agent::kL1bmToPe},
                           {R::kL1bm, Agent::kL2bmToL1bm, Agent::kL1bmToL2bm},
                           {R::kL2bm, Agent::kL1bmToL2bm, Agent::kL2bmToL1bm},
                           {R::kL2bm, Agent::kL1bmToL2bm, Agent::kMv}};
  for (const Row& row : kRows) {
    const int64_t gap =
        required_gap(probe(row.resource, row.writer, true), probe(row.resource, row.reader, false), chip);
    text += fmt::format("| {} | {} | {} | {} |\n", hazard_resource_name(row.resource), agent_name(row.writer),
                        agent_name(row.reader), gap);
  }
  return text;
}

}  // namespace

std::map<std::string, std::string> reference_pages(const Chip& chip) {
  std::map<std::string, std::string> pages;
  pages["index.md"] = index_page();
  pages["hazards.md"] = hazards_page(chip);
  for (const InstructionInfo& row : instruction_table()) {
    const bool is_new = pages.emplace(fmt::format("{}.md", row.name), page(row, chip)).second;
    check_internal(is_new, "isa reference", "two rows of the table are named '{}'", row.name);
  }
  return pages;
}

}  // namespace kodama::isa
