#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>
#include <vector>

#include "isa/costs.h"
#include "isa/error.h"
#include "isa/instruction.h"
#include "scheduler/machine/machine_program.h"

/// What verifiers have in common: how a finding is said, and who visits operations. Internal to verify/.
namespace kodama::verify {

using isa::HazardResource;
using isa::Instruction;
using isa::Operand;
using isa::Space;
using isa::Statement;
using scheduler::MachineProgram;
using scheduler::Operation;

[[noreturn]] inline void fail(std::string_view verifier, const std::string& what) {
  throw isa::InternalError(fmt::format("internal error found by {}: {}", verifier, what));
}

inline std::string describe(const isa::Instruction& instruction, const std::string& origin = {}) {
  return fmt::format("{}{}", isa::mnemonic(instruction), origin.empty() ? "" : " (" + origin + ")");
}

inline bool is_wait(const isa::Instruction& instruction) {
  return isa::issue_group(instruction) == isa::IssueGroup::kWait;
}
inline isa::Instruction wait_for(int8_t tag) {
  isa::Instruction wait;
  wait.opcode = isa::Opcode::kWait;
  wait.tag = tag;
  return wait;
}
inline bool is_mv(const isa::Instruction& instruction) {
  return isa::issue_group(instruction) == isa::IssueGroup::kMv;
}

/// Calls `visit(operation, trips)` for every operation, with the counts of the loops around it.
template <typename Visit>
void for_each_operation(const std::vector<scheduler::Node>& nodes, std::vector<int64_t>& trips,
                        const Visit& visit) {
  for (const scheduler::Node& node : nodes) {
    if (const auto* block = std::get_if<scheduler::Block>(&node.kind)) {
      for (const scheduler::Operation& operation : block->operations) visit(operation, trips);
    } else if (const auto* region = std::get_if<scheduler::RegionNode>(&node.kind)) {
      for_each_operation(region->body, trips, visit);
    } else {
      const auto& loop = std::get<scheduler::CountedLoop>(node.kind);
      trips.push_back(loop.count);
      for_each_operation(loop.body, trips, visit);
      trips.pop_back();
    }
  }
}

/// Calls `visit(operand, written)` for all operands of an instruction, sources first.
template <typename Instruction, typename Visit>
void for_each_operand(Instruction& instruction, const Visit& visit) {
  for (auto& operand : instruction.sources) visit(operand, false);
  for (auto& operand : instruction.destinations) visit(operand, true);
}

}  // namespace kodama::verify
