#include "scheduler/machine/machine_program.h"

#include <fmt/format.h>

#include "scheduler/machine/program_analysis.h"

namespace kodama::scheduler {
namespace {

using isa::Operand;
using isa::Space;

/// Letters of the loop counters, outermost first.
constexpr std::string_view kCounterNames = "ijklmnopqrstuvw";

std::string_view space_prefix(Space space) {
  switch (space) {
    case Space::kLm0:
      return "m";
    case Space::kLm1:
      return "n";
    case Space::kGrf0:
      return "r";
    case Space::kGrf1:
      return "s";
    case Space::kMatX:
      return "x";
    case Space::kMatY:
      return "y";
    case Space::kL1bm:
      return "b";
    case Space::kL2bm:
      return "c";
    case Space::kPdm:
      return "p";
    case Space::kDram:
      return "d";
    case Space::kDramIndirect:
      return "di";
    case Space::kDar:
      return "dar";
    case Space::kOmr:
      return "omr";
    default:
      return "";
  }
}

std::string affine(const Operand& operand) {
  std::string text = fmt::format("{}", operand.base);
  for (size_t d = 0; d < operand.loop_strides.size(); ++d) {
    if (operand.loop_strides[d] == 0) continue;
    text += fmt::format("{:+}{}", operand.loop_strides[d],
                        d < kCounterNames.size() ? std::string(1, kCounterNames[d]) : fmt::format("i{}", d));
  }
  return text;
}

std::string mask_text(const isa::Mask& mask, const MachineProgram& program) {
  switch (mask.kind) {
    case isa::Mask::Kind::kNone:
      return "";
    case isa::Mask::Kind::kPattern:
      return fmt::format("/{}{:04b}", mask.double_long ? "ll" : "", mask.value);
    case isa::Mask::Kind::kRegister:
      return fmt::format("/${}imr{}", mask.double_long ? "ll" : "", mask.value);
    case isa::Mask::Kind::kVirtual:
      return fmt::format("/{}%{}", mask.double_long ? "ll" : "", program.values.at(mask.virtual_value).name);
  }
  return "";
}

std::string operand_text(const Operand& operand, const MachineProgram& program) {
  std::string text = operand.negate ? "-" : "";
  const std::string_view width = operand.width == isa::Width::kDoubleLong ? "ll"
                                 : operand.width == isa::Width::kLong     ? "l"
                                                                          : "";
  bool addressed = true;
  switch (operand.space) {
    case Space::kVirtual:
      text += fmt::format("{}%{}[{}]", width, program.values.at(operand.value).name, affine(operand));
      break;
    case Space::kT:
      text += "$t";
      addressed = false;
      break;
    case Space::kBar0:
    case Space::kBar1:
      text += operand.space == Space::kBar0 ? "$mb" : "$nb";
      addressed = false;
      break;
    case Space::kNoWrite:
      return text + "$nowrite";
    case Space::kAluf:
      text += "$aluf";
      addressed = false;
      break;
    case Space::kMauf:
      text += "$mauf";
      addressed = false;
      break;
    case Space::kLbf:
      text += "$lbf";
      addressed = false;
      break;
    case Space::kMreadf:
      text += "$mreadf";
      addressed = false;
      break;
    case Space::kTurnaround:
      text += fmt::format("${}bi", width);
      addressed = false;
      break;
    case Space::kConstant:
      return text +
             fmt::format("${}", isa::fixed_constant_name(static_cast<isa::FixedConstant>(operand.base)));
    case Space::kImmediate:
      return text + fmt::format("0x{:08x}", static_cast<uint32_t>(operand.base));
    case Space::kNone:
      return text + "$none";
    default:
      text += fmt::format("${}{}[{}]", width, space_prefix(operand.space), affine(operand));
  }
  if (operand.t_indirect) text += "+T";
  if (addressed && operand.flat) text += fmt::format("[{}]", fmt::join(operand.flat_addresses, ","));
  if (addressed && operand.stride != 0) {
    text += operand.stride == words(operand.width) ? std::string("v") : fmt::format("v{}", operand.stride);
  }
  if (operand.j >= 0) text += fmt::format("j{}", operand.j);
  if (operand.extend) text += "e";
  if (operand.reduce) text += "r";
  if (operand.group >= 0) text += fmt::format("@{}", operand.group);
  if (operand.unit >= 0) text += fmt::format("{}{}", operand.group >= 0 ? "." : "@.", operand.unit);
  return text + mask_text(operand.mask, program);
}

void print_nodes(const std::vector<Node>& nodes, int indent, const MachineProgram& program,
                 std::string& out) {
  const std::string margin(2 * indent, ' ');
  for (const Node& node : nodes) {
    if (const auto* block = std::get_if<Block>(&node.kind)) {
      out += fmt::format("{}block\n", margin);
      for (const Operation& operation : block->operations) {
        out += fmt::format("{}  {}\n", margin, to_string(operation, program));
      }
    } else if (const auto* region = std::get_if<RegionNode>(&node.kind)) {
      out += fmt::format("{}region {}\n", margin, region->name);
      print_nodes(region->body, indent + 1, program, out);
    } else {
      const auto& loop = std::get<CountedLoop>(node.kind);
      out += fmt::format("{}loop {}\n", margin, loop.count);
      print_nodes(loop.body, indent + 1, program, out);
    }
  }
}

std::string homes_text(HomeSet homes) {
  std::string text;
  for (const Space space : {Space::kGrf0, Space::kGrf1, Space::kLm0, Space::kLm1, Space::kT}) {
    if ((homes & isa::space_bit(space)) != 0)
      text += fmt::format("{}{}", text.empty() ? "" : "|", home_name(space));
  }
  return text.empty() ? "none" : text;
}

}  // namespace

std::string to_string(const Operation& operation, const MachineProgram& program) {
  const isa::Instruction& instruction = operation.instruction;
  std::string text = isa::mnemonic(instruction) + mask_text(instruction.zero_flush, program);
  if (instruction.unit >= 0) text += fmt::format("@{}", instruction.unit);
  if (instruction.size_lw > 0) text += fmt::format("/n{}", instruction.size_lw);
  if (instruction.tag != 0) text += fmt::format(" i{:02x}", instruction.tag);
  if (operation.is_early) text += " early";
  for (const Operand& operand : instruction.sources) text += " " + operand_text(operand, program);
  if (!instruction.destinations.empty()) text += " ->";
  for (const Operand& operand : instruction.destinations) text += " " + operand_text(operand, program);
  if (!operation.origin.empty()) text += "   # " + operation.origin;
  return text;
}

std::string to_string(const MachineProgram& program) {
  std::string out = fmt::format("machine program {}\n", program.name);
  for (const Value& value : program.values) {
    out += fmt::format("value %{}: {} words, alignment {}, homes {}", value.name, value.size_words,
                       value.alignment_words, homes_text(value.homes));
    if (value.home != Space::kNone) out += fmt::format(", home {}", home_name(value.home));
    if (value.address >= 0) out += fmt::format(", address {}", value.address);
    out += "\n";
  }
  for (const KeptWords& kept : program.kept)
    out += fmt::format("kept: words {} to {} of {}\n", kept.begin, kept.end - 1, isa::space_name(kept.space));
  print_nodes(program.body, 0, program, out);
  return out;
}

}  // namespace kodama::scheduler
