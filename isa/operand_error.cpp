#include <fmt/ranges.h>

#include <string>

#include "isa/error.h"
#include "isa/instruction.h"
#include "isa/operand_sets.h"

/// What operands instructions allow, by their rows.
namespace kodama::isa {
namespace {

std::string list_spaces(SpaceSet spaces) {
  std::string text;
  for (int i = 1; i < static_cast<int>(Space::kVirtual); ++i) {
    const auto space = static_cast<Space>(i);
    if ((spaces & space_bit(space)) == 0) continue;
    if (!text.empty()) text += ", ";
    text += space_name(space);
  }
  return text;
}

/// A sum of floats that also takes halves.
bool widens_halves(const InstructionInfo& row, Precision precision) {
  const bool sums = std::ranges::any_of(
      row.forms, [](const OperandForm& form) { return form.movement.rule == Movement::Rule::kHalfSum; });
  return sums && precision == Precision::kFloat;
}

/// The mnemonics for which a predicate of row and precision holds: "hbfn and hbfe".
template <typename Predicate>
std::string list_names(Predicate&& predicate) {
  std::vector<std::string> names;
  for (const Instruction& any : all_mnemonics()) {
    if (predicate(info(any.opcode), any.precision)) names.push_back(mnemonic(any));
  }
  return fmt::format("{}", fmt::join(names, " and "));
}

}  // namespace

std::string operand_error(const Instruction& instruction, int* culprit) {
  int unused = -1;
  int& at_fault = culprit != nullptr ? *culprit : unused;
  at_fault = -1;
  const InstructionInfo& row = info(instruction.opcode);
  const std::string name = mnemonic(instruction);
  const auto& sources = instruction.sources;
  const auto& destinations = instruction.destinations;
  if (sources.size() != row.source_count) {
    return fmt::format("'{}' takes {} source operand{}, found {} (syntax: {})", name, row.source_count,
                       row.source_count == 1 ? "" : "s", sources.size(), row.syntax);
  }
  if (row.destinations == 0 && !destinations.empty()) {
    return fmt::format("'{}' has no destination, found {} (syntax: {})", name, destinations.size(),
                       row.syntax);
  }
  if (row.destinations != 0 && destinations.empty()) {
    return fmt::format("'{}' needs a destination (syntax: {})", name, row.syntax);
  }

  const OperandForm* const form = form_of(instruction);
  if (form == nullptr) {
    for (size_t i = 0; i < sources.size(); ++i) {
      if (!fits(sources[i], row.sources[i])) {
        at_fault = static_cast<int>(i);
        return fmt::format("source {} of '{}' can't be {}; allowed: {}", i + 1, name,
                           space_name(sources[i].space), list_spaces(row.sources[i]));
      }
    }
    return fmt::format("'{}' can't combine these sources (syntax: {})", name, row.syntax);
  }
  for (size_t i = 0; i < destinations.size(); ++i) {
    const Operand& destination = destinations[i];
    if (!fits(destination, form->destinations)) {
      at_fault = static_cast<int>(sources.size() + i);
      return fmt::format("destination of '{}' can't be {}; allowed here: {}", name,
                         space_name(destination.space), list_spaces(form->destinations));
    }
  }
  const bool to_pe = (form->destinations & kPeMemories) != 0;
  if (destinations.size() > 1) {
    if (!row.variadic_destinations || !to_pe) {
      return fmt::format("'{}' has one destination, found {}", name, destinations.size());
    }
    if (any_operand(destinations, space_bit(Space::kNoWrite))) {
      return fmt::format("'$nowrite' must be the only destination of '{}'", name);
    }
  }
  if (instruction.zero_flush.kind != Mask::Kind::kNone && !(row.allows_zero_flush && to_pe)) {
    return fmt::format(
        "'{}' has no zero flush here; it exists for ALU, MAU calculation, mread and L1BM -> PE", name);
  }
  const Movement& movement = form->movement;
  const bool to_l1bm = movement.way == Movement::Way::kPeToL1bm;
  const bool needs_unit = movement.rule == Movement::Rule::kOneOf;
  const bool may_need_unit = std::ranges::any_of(
      row.forms, [](const OperandForm& any) { return any.movement.rule == Movement::Rule::kOneOf; });
  if (needs_unit && instruction.unit < 0) {
    return to_l1bm ? fmt::format("'{}' to L1BM needs the MAB: '{}@<k>'", name, name)
                   : fmt::format("'{}' needs the L1B: '{}@<k>'", name, name);
  }
  if (may_need_unit && !needs_unit && instruction.unit >= 0)
    return fmt::format("'{}' from L1BM takes no '@'", name);
  if (instruction.rotation != 0 && to_l1bm) return fmt::format("'{}' exists only from L1BM to the PE", name);
  if (instruction.block_bits != -1) {
    if (!has_precision(row.block_bits, instruction.precision)) {
      return fmt::format("'{}' takes no '/k'; only {} do", name,
                         list_names([](const InstructionInfo& any, Precision precision) {
                           return has_precision(any.block_bits, precision);
                         }));
    }
    if (instruction.block_bits < 6 || instruction.block_bits > 9) {
      return fmt::format("'{}/{}': k must be 6 to 9", name, instruction.block_bits);
    }
  }

  for (size_t i = 0; i < destinations.size(); ++i) {
    const Operand& destination = destinations[i];
    at_fault = static_cast<int>(sources.size() + i);
    if (destination.negate || destination.extend || destination.reduce) {
      return fmt::format("a destination of '{}' takes no '-', 'e' or 'r'", name);
    }
    if (destination.mask.kind == Mask::Kind::kNone) continue;
    if (!to_pe || destination.space == Space::kNoWrite) {
      return fmt::format("{} as destination of '{}' can't be masked", space_name(destination.space), name);
    }
  }
  for (size_t i = 0; i < sources.size(); ++i) {
    const Operand& source = sources[i];
    at_fault = static_cast<int>(i);
    const bool is_pe_side = fits(source, kFirstAlu);
    if (source.mask.kind != Mask::Kind::kNone) return fmt::format("a source of '{}' takes no mask", name);
    if (source.negate && !(row.allows_extend && is_pe_side)) {
      return fmt::format("'-' on source {} of '{}': only MAU sources can be negated", i + 1, name);
    }
    const bool is_half = instruction.precision == Precision::kHalf;
    // In half precision x, y and v are halves, the addend z is floats.
    const bool is_addend = static_cast<int>(i) == row.mau.addend;
    if (source.extend) {
      const bool is_mau = row.allows_extend && is_pe_side && (!is_half || is_addend);
      if (!is_mau && !widens_halves(row, instruction.precision)) {
        return fmt::format(
            "'e' on source {} of '{}': allowed on double and float sources of the MAU, on the addend "
            "of half operations and for {}",
            i + 1, name, list_names(widens_halves));
      }
    }
    if (source.reduce) {
      const bool is_unit = row.group == IssueGroup::kAlu || row.allows_extend;
      if (!is_unit || !is_half || is_addend || !is_pe_side) {
        return fmt::format("'r' on source {} of '{}': allowed only where the input is halves", i + 1, name);
      }
    }
    if (source.extend && source.reduce)
      return fmt::format("source {} of '{}' has both 'e' and 'r'", i + 1, name);
  }
  at_fault = -1;
  return {};
}

}  // namespace kodama::isa
