#include <algorithm>

#include "scheduler/verify/findings.h"
#include "scheduler/verify/operands.h"
#include "scheduler/verify/verify.h"

namespace kodama::verify {

using scheduler::Value;

namespace {

constexpr std::string_view kVerifyHomes = "verify_homes";

bool equal_strides(const std::vector<int64_t>& a, const std::vector<int64_t>& b) {
  for (size_t d = 0; d < std::max(a.size(), b.size()); ++d) {
    if ((d < a.size() ? a[d] : 0) != (d < b.size() ? b[d] : 0)) return false;
  }
  return true;
}

bool names_same_words(const Operand& a, const Operand& b) {
  bool same = a.space == b.space && a.value == b.value && a.width == b.width && a.j == b.j &&
              a.t_indirect == b.t_indirect && equal_strides(a.loop_strides, b.loop_strides);
  for (int cycle = 0; cycle < isa::kCyclesPerStep; ++cycle)
    same = same && a.address(cycle) == b.address(cycle);
  return same;
}

/// One operation of a program whose values have homes.
class OperationCheck {
 public:
  OperationCheck(const MachineProgram& program, const Operation& operation, const std::vector<int64_t>& trips)
      : program_(program), operation_(operation), instruction_(operation.instruction), trips_(trips) {}

  void run() const {
    check_mask(instruction_.zero_flush);
    for (const Operand& operand : instruction_.destinations) check_mask(operand.mask);
    const auto& row = isa::info(instruction_.opcode);
    std::vector<Use> uses;
    for (size_t k = 0; k < instruction_.sources.size(); ++k) {
      uses.push_back({home(instruction_.sources[k]), &instruction_.sources[k], false});
      if ((row.sources[std::min<size_t>(k, 2)] & isa::space_bit(uses.back().space)) == 0)
        report(fmt::format("source {} can't come from {}", k, isa::space_name(uses.back().space)));
    }
    for (const Operand& operand : instruction_.destinations) {
      uses.push_back({home(operand), &operand, true});
      if ((row.destinations & isa::space_bit(uses.back().space)) == 0)
        report(fmt::format("the result can't go to {}", isa::space_name(uses.back().space)));
    }
    if (row.group != isa::IssueGroup::kMv) check_ports(uses);
  }

 private:
  struct Use {
    Space space;
    const Operand* operand;
    bool write;
  };

  [[noreturn]] void report(const std::string& rule) const {
    fail(kVerifyHomes, fmt::format("{}: {}", describe(instruction_, operation_.origin), rule));
  }

  void check_mask(const isa::Mask& mask) const {
    if (mask.kind != isa::Mask::Kind::kVirtual) return;
    if (mask.virtual_value < 0 || mask.virtual_value >= static_cast<int32_t>(program_.values.size()))
      report(fmt::format("mask names value {}, there are {}", mask.virtual_value, program_.values.size()));
    const Value& value = program_.values[static_cast<size_t>(mask.virtual_value)];
    if (value.home != Space::kOmr) report(fmt::format("mask %{} is no mask register", value.name));
  }

  Space home(const Operand& operand) const {
    if (operand.space != Space::kVirtual) return operand.space;
    if (operand.value < 0 || operand.value >= static_cast<int32_t>(program_.values.size()))
      report(fmt::format("operand names value {}, there are {}", operand.value, program_.values.size()));
    const Value& value = program_.values[static_cast<size_t>(operand.value)];
    const auto [low, high] = operand_range(operand, trips_);
    if (low < 0 || high > value.size_words)
      report(fmt::format("operand reaches words {} to {} of value %{}, which has {}", low, high - 1,
                         value.name, value.size_words));
    if (operand.t_indirect && value.home != Space::kLm0)
      report(fmt::format("T-indirect operand in value %{}, which is not in LM0", value.name));
    return value.home;
  }

  void check_ports(const std::vector<Use>& uses) const {
    for (size_t a = 0; a < uses.size(); ++a) {
      const Space space = uses[a].space;
      if (instruction_.opcode == isa::Opcode::kImm && space == Space::kLm0)
        report("imm beside an access to LM0");
      if (!isa::is_pe_memory(space) && space != Space::kT) continue;
      for (size_t b = a + 1; b < uses.size(); ++b) {
        if (uses[b].space != space) continue;
        if (uses[a].write && uses[b].write) report(fmt::format("two writes of {}", isa::space_name(space)));
        if (space == Space::kT || names_same_words(*uses[a].operand, *uses[b].operand)) continue;
        if (uses[a].write == uses[b].write) {
          report(fmt::format("reads of {} with different addresses", isa::space_name(space)));
        } else if (space == Space::kLm0 || space == Space::kLm1) {
          report(fmt::format("read and write of {} with different addresses", isa::space_name(space)));
        }
      }
    }
  }

  const MachineProgram& program_;
  const Operation& operation_;
  const Instruction& instruction_;
  const std::vector<int64_t>& trips_;
};

}  // namespace

void verify_homes(const MachineProgram& program, const isa::Chip&) {
  for (const Value& value : program.values) {
    const bool is_home =
        isa::is_pe_memory(value.home) || value.home == Space::kT || value.home == Space::kOmr;
    if (!is_home || (value.homes & isa::space_bit(value.home)) == 0)
      fail(kVerifyHomes, fmt::format("value %{} has no home, or one that it does not allow", value.name));
  }
  std::vector<int64_t> trips;
  for_each_operation(program.body, trips, [&](const Operation& operation, const auto& counts) {
    OperationCheck(program, operation, counts).run();
  });
}

}  // namespace kodama::verify
