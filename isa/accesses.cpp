#include <algorithm>
#include <array>
#include <map>

#include "isa/costs.h"
#include "isa/masks.h"
#include "isa/move_places.h"

namespace kodama::isa {
namespace {

/// Of a destination: a mask of length l leaves the lower LW of 2LW alone, which is written all the same.
uint8_t writing_cycles(const Operand& operand) {
  const bool has_lower = operand.width == Width::kDoubleLong || operand.space == Space::kT;
  return has_lower && !operand.mask.double_long ? 0b1111 : writing_cycles(operand.mask);
}

class AccessLister {
 public:
  AccessLister(const Instruction& instruction, const Chip& chip)
      : instruction_(instruction),
        row_(info(instruction.opcode)),
        movement_(movement(instruction)),
        chip_(chip) {}

  std::vector<Access> list() {
    list_.reserve(kMany);
    switch (row_.group) {
      case IssueGroup::kMv:
        list_mv();
        break;
      case IssueGroup::kL2bm:
        list_l2bm();
        break;
      case IssueGroup::kL2bmDarw:
        single(HazardResource::kDar, Agent::kL2bmToL1bm, true);
        list_.back().whole = true;
        break;
      case IssueGroup::kNoForward:
      case IssueGroup::kWait:
        break;
      default:
        list_pe();
        break;
    }
    return std::move(list_);
  }

 private:
  static constexpr size_t kMany = 8;  ///< most instructions have no more

  Access& single(HazardResource resource, Agent agent, bool write) {
    list_.push_back({.resource = resource, .agent = agent, .write = write});
    return list_.back();
  }
  Access& range(HazardResource resource, Agent agent, bool write, const Operand& operand, int64_t length) {
    Access& access = single(resource, agent, write);
    access.begin[0] = operand.base;
    access.length = length;
    access.loop_strides = without_trailing_zeros(operand.loop_strides);
    return access;
  }

  // -- PE instructions

  void list_pe() {
    Agent agent = Agent::kPe;
    if (movement_.way == Movement::Way::kL1bmToPe) agent = Agent::kL1bmToPe;
    if (movement_.way == Movement::Way::kPeToL1bm) agent = Agent::kPeToL1bm;
    for (const Operand& source : instruction_.sources) pe_operand(source, agent, false);
    for (const Operand& destination : instruction_.destinations) pe_operand(destination, agent, true);
    if (is_run_time_mask(instruction_.zero_flush)) read_mask(instruction_.zero_flush);
    // $lb<a> as destination passes through the turnaround register, too.
    const bool to_l1bm =
        !instruction_.destinations.empty() && instruction_.destinations[0].space == Space::kL1bm;
    if (to_l1bm) single(HazardResource::kTurnaround, agent, true);
    switch (row_.group) {
      case IssueGroup::kAlu:
        single(HazardResource::kAluForward, agent, true);
        break;
      case IssueGroup::kMauCalc:
        single(HazardResource::kMauForward, agent, true);
        break;
      case IssueGroup::kMauMread:
        single(HazardResource::kMreadForward, agent, true);
        break;
      case IssueGroup::kL1bm:
        if (agent == Agent::kL1bmToPe) single(HazardResource::kLbForward, agent, true);
        break;
      default:
        break;
    }
  }

  void read_mask(const Mask& mask) {
    Access& access = single(HazardResource::kMask, Agent::kPe, false);
    access.begin[0] = mask.value;
    if (mask.kind == Mask::Kind::kVirtual) {
      // As other values that have no place yet.
      access.resource = HazardResource::kLm0;
      access.value = mask.virtual_value;
    }
  }

  void pe_operand(const Operand& operand, Agent agent, bool write) {
    if (is_run_time_mask(operand.mask)) read_mask(operand.mask);
    switch (operand.space) {
      case Space::kLm0:
        single(HazardResource::kBar0, Agent::kPe, false);
        memory(HazardResource::kLm0, operand, write);
        break;
      case Space::kLm1:
        single(HazardResource::kBar1, Agent::kPe, false);
        memory(HazardResource::kLm1, operand, write);
        break;
      case Space::kGrf0:
        memory(HazardResource::kGrf0, operand, write);
        break;
      case Space::kGrf1:
        memory(HazardResource::kGrf1, operand, write);
        break;
      case Space::kVirtual:
        memory(HazardResource::kLm0, operand, write);
        break;
      case Space::kT:
        if (writing_cycles(operand) != 0) {
          Access& access = single(HazardResource::kT, Agent::kPe, write);
          access.begin = {0, 1, 2, 3};
          access.cycles = kCyclesPerStep;
          masked(access, operand);
        }
        break;
      case Space::kOmr: {
        // Masked-off bits become 0: the entry is replaced in any case.
        Access& access = single(HazardResource::kMask, Agent::kPe, true);
        access.begin[0] = operand.base;
        access.loop_strides = without_trailing_zeros(operand.loop_strides);
        break;
      }
      case Space::kBar0:
        masked(single(HazardResource::kBar0, Agent::kPe, true), operand);
        break;
      case Space::kBar1:
        masked(single(HazardResource::kBar1, Agent::kPe, true), operand);
        break;
      case Space::kAluf:
        single(HazardResource::kAluForward, agent, false);
        break;
      case Space::kMauf:
        single(HazardResource::kMauForward, agent, false);
        break;
      case Space::kLbf:
        single(HazardResource::kLbForward, agent, false);
        break;
      case Space::kMreadf:
        single(HazardResource::kMreadForward, agent, false);
        break;
      case Space::kMatX:
      case Space::kMatY:
        matrix(operand, write);
        break;
      case Space::kL1bm:
        range(HazardResource::kL1bm, agent, write, operand,
              l1bm_layout(movement_, operand.width, chip_).lw());
        break;
      case Space::kTurnaround:
        single(HazardResource::kTurnaround, agent, write);
        break;
      default:
        break;
    }
  }

  static void masked(Access& access, const Operand& operand) {
    if (!access.write) return;
    access.active_cycles = writing_cycles(operand);
    access.may_not_write =
        is_run_time_mask(operand.mask) || writing_cycles(operand.mask) != writing_cycles(operand);
  }

  void memory(HazardResource resource, const Operand& operand, bool write) {
    if (operand.t_indirect) {
      Access& address = single(HazardResource::kT, Agent::kPe, false);
      address.begin = {0, 1, 2, 3};
      address.cycles = kCyclesPerStep;
    }
    if (write && writing_cycles(operand) == 0) return;
    Access access{.resource = resource, .agent = Agent::kPe, .write = write};
    const int width = words(operand.width);
    access.cycles = kCyclesPerStep;
    access.value = operand.space == Space::kVirtual ? operand.value : -1;
    access.loop_strides = without_trailing_zeros(operand.loop_strides);
    // Run-time addresses are truncated to the width; with strides that aren't multiples of it the counter
    // decides how much is cut.
    access.whole = operand.t_indirect || std::any_of(access.loop_strides.begin(), access.loop_strides.end(),
                                                     [&](int64_t stride) { return stride % width != 0; });
    for (int c = 0; c < kCyclesPerStep; ++c) {
      const int64_t address = operand.address(c);
      access.begin[static_cast<size_t>(c)] = address - (address % width + width) % width;
    }
    access.length = operand.j >= 0 ? 2 * width : width;
    masked(access, operand);
    list_.push_back(std::move(access));
  }

  void matrix(const Operand& operand, bool write) {
    const HazardResource resource =
        operand.space == Space::kMatX ? HazardResource::kMatX : HazardResource::kMatY;
    Access& access = single(resource, Agent::kPe, write);
    access.whole = !write;  // a product reads all rows, mread a piece of every row
    access.begin[0] = operand.base;
    const bool two_per_cycle = operand.width == Width::kDoubleLong;
    access.length = two_per_cycle ? 2 * kCyclesPerStep : kCyclesPerStep;
    access.whole = access.whole || access.begin[0] + access.length > kMatrixRows;  // wraps
  }

  // -- L2BM

  void list_l2bm() {
    const L2bmLayout layout = l2bm_layout(movement_, chip_);
    const bool partial = instruction_.l1b_set.kind != L1bSet::Kind::kAll;
    const auto read = [&](HazardResource resource, Agent agent, int64_t length) {
      range(resource, agent, false, instruction_.sources.at(0), length);
    };
    const auto write = [&](HazardResource resource, Agent agent, int64_t length) -> Access& {
      return range(resource, agent, true, instruction_.destinations.at(0), length);
    };
    switch (movement_.way) {
      case Movement::Way::kL2bmToDarStage:
        read(HazardResource::kL2bm, Agent::kL2bmToL1bm, layout.l2bm_lw());
        single(HazardResource::kDar, Agent::kL2bmToL1bm, true).whole = true;
        break;
      case Movement::Way::kL1bmToL1bm:
        read(HazardResource::kL1bm, Agent::kL1bmToL2bm, layout.l1bm_lw());
        write(HazardResource::kL1bm, Agent::kL2bmToL1bm, layout.l1bm_lw()).may_not_write = partial;
        break;
      case Movement::Way::kL2bmToL1bm:
        read(HazardResource::kL2bm, Agent::kL2bmToL1bm, layout.l2bm_lw());
        write(HazardResource::kL1bm, Agent::kL2bmToL1bm, layout.l1bm_lw()).may_not_write = partial;
        break;
      case Movement::Way::kL1bmToL2bm:
        read(HazardResource::kL1bm, Agent::kL1bmToL2bm, layout.l1bm_lw());
        write(HazardResource::kL2bm, Agent::kL1bmToL2bm, layout.l2bm_lw());
        break;
      default:
        break;
    }
  }

  // -- MV

  void list_mv() {
    const TransferShape shape = transfer_shape(instruction_, chip_);
    for (const Endpoint& end : shape.endpoints) {
      HazardResource resource = HazardResource::kDram;
      if (end.space == Space::kPdm) resource = HazardResource::kPdm;
      if (end.space == Space::kL2bm) resource = HazardResource::kL2bm;
      const Operand& operand = end.write ? instruction_.destinations[0] : instruction_.sources[0];
      Access& access = range(resource, Agent::kMv, end.write, operand, end.length);
      access.place = end.place;
      access.whole = end.indirect;
      if (end.indirect) {
        Access& table = single(HazardResource::kDar, Agent::kMv, false);
        table.whole = true;
        table.place = end.place;
      }
    }
  }

  const Instruction& instruction_;
  const InstructionInfo& row_;
  const Movement& movement_;
  const Chip& chip_;
  std::vector<Access> list_;
};

}  // namespace

std::optional<HazardResource> hazard_resource(Space space) {
  static const std::map<Space, HazardResource> kResources = {
      {Space::kLm0, HazardResource::kLm0},
      {Space::kLm1, HazardResource::kLm1},
      {Space::kGrf0, HazardResource::kGrf0},
      {Space::kGrf1, HazardResource::kGrf1},
      {Space::kT, HazardResource::kT},
      {Space::kOmr, HazardResource::kMask},
      {Space::kMatX, HazardResource::kMatX},
      {Space::kMatY, HazardResource::kMatY},
      {Space::kBar0, HazardResource::kBar0},
      {Space::kBar1, HazardResource::kBar1},
      {Space::kL1bm, HazardResource::kL1bm},
      {Space::kTurnaround, HazardResource::kTurnaround},
      {Space::kL2bm, HazardResource::kL2bm},
      {Space::kDar, HazardResource::kDar},
      {Space::kDram, HazardResource::kDram},
      {Space::kPdm, HazardResource::kPdm},
      {Space::kAluf, HazardResource::kAluForward},
      {Space::kMauf, HazardResource::kMauForward},
      {Space::kLbf, HazardResource::kLbForward},
      {Space::kMreadf, HazardResource::kMreadForward}};
  const auto found = kResources.find(space);
  if (found == kResources.end()) return std::nullopt;
  return found->second;
}

std::string_view hazard_resource_name(HazardResource resource) {
  constexpr std::array<std::string_view, 20> kNames{"LM0",
                                                    "LM1",
                                                    "GRF0",
                                                    "GRF1",
                                                    "T",
                                                    "mask register",
                                                    "matrix register x",
                                                    "matrix register y",
                                                    "BAR of LM0",
                                                    "BAR of LM1",
                                                    "L1BM",
                                                    "turnaround register",
                                                    "L2BM",
                                                    "DAR",
                                                    "DRAM",
                                                    "PDM",
                                                    "$aluf",
                                                    "$mauf",
                                                    "$lbf",
                                                    "$mreadf"};
  return kNames[static_cast<size_t>(resource)];
}

bool is_forwarding_register(HazardResource resource) {
  return resource == HazardResource::kAluForward || resource == HazardResource::kMauForward ||
         resource == HazardResource::kLbForward || resource == HazardResource::kMreadForward;
}

bool is_transfer_memory(HazardResource resource) {
  return resource == HazardResource::kL2bm || resource == HazardResource::kDar ||
         resource == HazardResource::kDram || resource == HazardResource::kPdm;
}

bool is_in_l1b(const Access& access, const Instruction& instruction, int l1b, const Chip& chip) {
  if (info(instruction.opcode).group != IssueGroup::kL2bm) return true;
  const Movement& moved = movement(instruction);
  if (moved.rule == Movement::Rule::kOneOf) return l1b == instruction.unit;
  if (moved.way == Movement::Way::kL1bmToL1bm && access.write) return true;
  return instruction.l1b_set.contains(l1b, chip.l1b_per_l2b);
}

std::vector<Access> accesses(const Instruction& instruction, const Chip& chip) {
  return AccessLister(instruction, chip).list();
}

}  // namespace kodama::isa
