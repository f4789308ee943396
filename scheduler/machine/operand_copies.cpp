#include "scheduler/machine/operand_copies.h"

#include <algorithm>
#include <iterator>

#include "scheduler/machine/program_analysis.h"

namespace kodama::scheduler {
namespace {

using isa::Instruction;
using isa::Operand;
using isa::Space;

bool reads_forward(const Instruction& instruction) {
  return std::ranges::any_of(instruction.sources,
                             [](const Operand& operand) { return operand.space == Space::kAluf; });
}
bool writes_forward(const Instruction& instruction) {
  return isa::issue_group(instruction) == isa::IssueGroup::kAlu;
}

bool takes_forward_from_elsewhere(const std::vector<Node>& nodes) {
  return std::ranges::any_of(nodes, [](const Node& node) {
    if (const auto* loop = std::get_if<CountedLoop>(&node.kind))
      return takes_forward_from_elsewhere(loop->body);
    if (const auto* region = std::get_if<RegionNode>(&node.kind))
      return takes_forward_from_elsewhere(region->body);
    for (const Operation& operation : std::get<Block>(node.kind).operations) {
      if (reads_forward(operation.instruction)) return true;
      if (writes_forward(operation.instruction)) return false;
    }
    return false;
  });
}

}  // namespace

Operation copy_operation(const Operand& from, const Operand& to, isa::Precision precision,
                         const std::string& origin) {
  Operation operation;
  operation.instruction.opcode = isa::Opcode::kPassa;
  operation.instruction.precision = precision;
  operation.instruction.sources = {from};
  operation.instruction.destinations = {to};
  operation.origin = origin.empty() ? "copy" : origin + " (copy)";
  return operation;
}

Operand value_operand(int value, int64_t base, isa::Width width, int stride) {
  Operand operand;
  operand.space = Space::kVirtual;
  operand.value = value;
  operand.base = base;
  operand.width = width;
  operand.stride = stride;
  return operand;
}

bool same_address(const Operand& a, const Operand& b) {
  if (a.value != b.value || a.width != b.width || a.j != b.j || a.t_indirect != b.t_indirect) return false;
  for (int cycle = 0; cycle < isa::kCyclesPerStep; ++cycle) {
    if (a.address(cycle) != b.address(cycle)) return false;
  }
  return trimmed(a.loop_strides) == trimmed(b.loop_strides);
}

std::vector<PlacedOperand> placed_operands(const Instruction& instruction, const MachineProgram& program) {
  const auto& row = isa::info(instruction.opcode);
  const auto space_of = [&](const Operand& operand) {
    return operand.space == Space::kVirtual ? program.values.at(operand.value).home : operand.space;
  };
  std::vector<PlacedOperand> result;
  for (size_t k = 0; k < instruction.sources.size(); ++k) {
    const Operand& operand = instruction.sources[k];
    result.push_back({&operand, false, row.sources[std::min<size_t>(k, 2)], space_of(operand)});
  }
  for (const Operand& operand : instruction.destinations)
    result.push_back({&operand, true, row.destinations, space_of(operand)});
  return result;
}

bool is_legal(std::span<const PlacedOperand> operands, isa::Opcode opcode) {
  for (size_t a = 0; a < operands.size(); ++a) {
    const PlacedOperand& x = operands[a];
    if ((x.allowed & isa::space_bit(x.space)) == 0) return false;
    if (opcode == isa::Opcode::kImm && x.space == Space::kLm0) return false;
    const bool memory = isa::is_pe_memory(x.space) || x.space == Space::kT;
    if (!memory && !x.written) continue;
    if (x.space == Space::kNoWrite) continue;
    const bool one_port = x.space == Space::kLm0 || x.space == Space::kLm1;
    for (size_t b = a + 1; b < operands.size(); ++b) {
      const PlacedOperand& y = operands[b];
      if (y.space != x.space) continue;
      if (x.written && y.written) return false;
      if (x.written != y.written && !one_port) continue;
      if (x.moved || y.moved) return false;
      if (x.space != Space::kT && !same_address(*x.operand, *y.operand)) return false;
    }
  }
  return true;
}

ForwardNeeds::ForwardNeeds(const MachineProgram& program)
    : between_blocks_(takes_forward_from_elsewhere(program.body)) {}

std::vector<bool> ForwardNeeds::within(const Block& block) const {
  std::vector<bool> needed(block.operations.size() + 1, between_blocks_);
  for (size_t k = block.operations.size(); k-- > 0;) {
    const Instruction& instruction = block.operations[k].instruction;
    needed[k] = reads_forward(instruction) || (needed[k + 1] && !writes_forward(instruction));
  }
  return needed;
}

void append_copies(std::vector<Operation> copies, const std::optional<Operand>& saved,
                   const std::string& origin, std::vector<Operation>& result) {
  if (saved) {
    Operand forward;
    forward.space = Space::kAluf;
    forward.width = isa::Width::kDoubleLong;
    result.push_back(copy_operation(forward, *saved, isa::Precision::kLong, origin));
  }
  std::ranges::move(copies, std::back_inserter(result));
  if (saved) {
    Operand nowhere;
    nowhere.space = Space::kNoWrite;
    result.push_back(copy_operation(*saved, nowhere, isa::Precision::kLong, origin));
  }
}

}  // namespace kodama::scheduler
