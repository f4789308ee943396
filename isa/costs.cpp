#include "isa/costs.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <map>
#include <optional>
#include <set>
#include <span>

#include "isa/error.h"

namespace kodama::isa {
namespace {

/// LW in which MVs spread data.
constexpr int64_t kSpreadUnit = 16;

// ---- masks ---------------------------------------------------------------------------------------------

/// Mask entry that a mask names; patterns are the constant entries 16..31. Nothing for no mask.
std::optional<int> mask_entry(const Mask& mask) {
  switch (mask.kind) {
    case Mask::Kind::kPattern:
      return 16 + mask.value;
    case Mask::Kind::kRegister:
      return mask.value;
    case Mask::Kind::kNone:
    case Mask::Kind::kVirtual:
      break;
  }
  return std::nullopt;
}

bool is_run_time_mask(const Mask& mask) {
  if (mask.kind == Mask::Kind::kVirtual) return true;
  const std::optional<int> entry = mask_entry(mask);
  return entry && *entry >= 1 && *entry < kMaskRegisters;
}

/// Bit c: cycle c may write. A pattern's leftmost digit is cycle 0.
uint8_t writing_cycles(const Mask& mask) {
  const std::optional<int> entry = mask_entry(mask);
  if (!entry || *entry < 16) return 0b1111;
  uint8_t cycles = 0;
  for (int c = 0; c < kCyclesPerStep; ++c) {
    if ((*entry >> (3 - c) & 1) != 0) cycles |= static_cast<uint8_t>(1U << c);
  }
  return cycles;
}

std::vector<int64_t> without_trailing_zeros(std::vector<int64_t> strides) {
  while (!strides.empty() && strides.back() == 0) strides.pop_back();
  return strides;
}

// ---- MV transfers --------------------------------------------------------------------------------------

/// One end of an MV: `length` LW from `begin` in one DRAM, PDM or L2BM.
struct Endpoint {
  Space space;
  int place;  ///< group, or L2B over the chip
  int64_t begin;
  int64_t length;
  bool write;
  bool indirect = false;
};

/// LW of `total` that fall to part `index` of `parts`, dealt out in units of 16 LW.
int64_t spread_part(int64_t total, int parts, int index) {
  const int64_t round = kSpreadUnit * parts;
  const int64_t rest = total % round - kSpreadUnit * index;
  return total / round * kSpreadUnit + std::clamp<int64_t>(rest, 0, kSpreadUnit);
}

struct TransferShape {
  std::vector<Endpoint> endpoints;
  std::map<std::pair<int, int>, int64_t> paths;  ///< LW from group to group
};

class TransferShaper {
 public:
  TransferShaper(const Instruction& mv, const Chip& chip) : mv_(mv), chip_(chip), n_(mv.size_lw) {}

  TransferShape shape() {
    check_internal(info(mv_.opcode).group == IssueGroup::kMv, "transfer costs", "'{}' is not an MV",
                   mnemonic(mv_));
    if (mv_.opcode == Opcode::kMvnop) return {};
    const Operand& src = mv_.sources.at(0);
    const Operand& dst = mv_.destinations.at(0);
    switch (mv_.opcode) {
      case Opcode::kMvp:
        linear(src, dst);
        break;
      case Opcode::kMvb: {
        const int g = std::max<int>(src.group, 0);
        add(src, g, n_, false);
        for (int q = 0; q < chip_.l2b_count(); ++q) add(dst, q, n_, true);
        for (int h = 0; h < chip_.groups; ++h) path(g, h, n_);
        break;
      }
      case Opcode::kMvb2:
        for (const int g : groups_of(src)) {
          add(src, g, n_, false);
          for (const int q : l2bs_of(g)) add(dst, q, n_, true);
        }
        break;
      case Opcode::kMvb4:
        for (int g = 0; g < chip_.groups; ++g) {
          const int64_t part = spread_part(n_, chip_.groups, g);
          add(src, g, part, false);
          for (int h = 0; h < chip_.groups; ++h) path(g, h, part);
        }
        for (int q = 0; q < chip_.l2b_count(); ++q) add(dst, q, n_, true);
        break;
      case Opcode::kMvd: {
        const bool from_pdm = src.space == Space::kPdm;
        spread(from_pdm ? src : dst, from_pdm ? dst : src, from_pdm);
        break;
      }
      case Opcode::kMvr: {
        const int g = std::max<int>(dst.group, 0);
        for (int q = 0; q < chip_.l2b_count(); ++q) add(src, q, n_, false);
        add(dst, g, n_, true);
        for (int h = 0; h < chip_.groups; ++h) path(h, g, n_);
        break;
      }
      case Opcode::kMvr2:
        for (const int g : groups_of(dst)) {
          for (const int q : l2bs_of(g)) add(src, q, n_, false);
          add(dst, g, n_, true);
        }
        break;
      case Opcode::kMvr4:
        for (int g = 0; g < chip_.groups; ++g) {
          add(src, g * chip_.l2b_per_group, n_, false);
          const int64_t part = spread_part(n_, chip_.groups, g);
          add(dst, g, part, true);
          for (int h = 0; h < chip_.groups; ++h) path(h, g, part);
        }
        break;
      default:
        throw InternalError(
            fmt::format("internal error in transfer costs: '{}' has no shape", mnemonic(mv_)));
    }
    return std::move(shape_);
  }

 private:
  void add(const Operand& operand, int place, int64_t length, bool write) {
    if (length <= 0) return;
    const bool indirect = operand.space == Space::kDramIndirect;
    shape_.endpoints.push_back(
        {indirect ? Space::kDram : operand.space, place, operand.base, length, write, indirect});
  }
  void path(int from, int to, int64_t lw) {
    if (from != to && lw > 0) shape_.paths[{from, to}] += lw;
  }
  std::vector<int> groups_of(const Operand& operand) const {
    if (operand.group >= 0) return {operand.group};
    std::vector<int> all(static_cast<size_t>(chip_.groups));
    for (int g = 0; g < chip_.groups; ++g) all[static_cast<size_t>(g)] = g;
    return all;
  }
  std::vector<int> l2bs_of(int group) const {
    std::vector<int> l2bs;
    for (int l = 0; l < chip_.l2b_per_group; ++l) l2bs.push_back(group * chip_.l2b_per_group + l);
    return l2bs;
  }
  int place_of(const Operand& operand, int group) const {
    return operand.space == Space::kL2bm ? group * chip_.l2b_per_group + std::max<int>(operand.unit, 0)
                                         : group;
  }

  void linear(const Operand& src, const Operand& dst) {
    if (src.group < 0 && dst.group < 0) {
      for (int g = 0; g < chip_.groups; ++g) {
        add(src, place_of(src, g), n_, false);
        add(dst, place_of(dst, g), n_, true);
      }
      return;
    }
    const int from = src.group >= 0 ? src.group : dst.group;
    const int to = dst.group >= 0 ? dst.group : src.group;
    add(src, place_of(src, from), n_, false);
    add(dst, place_of(dst, to), n_, true);
    path(from, to, n_);
  }

  /// mvd: one PDM against all DRAMs or all L2BMs.
  void spread(const Operand& pdm, const Operand& many, bool from_pdm) {
    const int g = std::max<int>(pdm.group, 0);
    add(pdm, g, n_, !from_pdm);
    const bool is_l2bm = many.space == Space::kL2bm;
    const int parts = is_l2bm ? chip_.l2b_count() : chip_.groups;
    for (int i = 0; i < parts; ++i) {
      const int64_t part = spread_part(n_, parts, i);
      add(many, i, part, from_pdm);
      const int h = is_l2bm ? i / chip_.l2b_per_group : i;
      path(from_pdm ? g : h, from_pdm ? h : g, part);
    }
  }

  const Instruction& mv_;
  const Chip& chip_;
  int64_t n_;
  TransferShape shape_;
};

/// Of a destination: a mask of length l leaves the lower LW of 2LW alone, which is written all the same.
uint8_t writing_cycles(const Operand& operand) {
  const bool has_lower = operand.width == Width::kDoubleLong || operand.space == Space::kT;
  return has_lower && !operand.mask.double_long ? 0b1111 : writing_cycles(operand.mask);
}

// ---- accesses ------------------------------------------------------------------------------------------

class AccessLister {
 public:
  AccessLister(const Instruction& instruction, const Chip& chip)
      : instruction_(instruction), row_(info(instruction.opcode)), chip_(chip) {}

  std::vector<Access> list() {
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
    if (is_l1bm_to_pe(instruction_)) agent = Agent::kL1bmToPe;
    if (is_pe_to_l1bm(instruction_)) agent = Agent::kPeToL1bm;
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
        range(HazardResource::kL1bm, agent, write, operand, l1bm_length(operand));
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

  /// LW of L1BM that one step touches.
  int64_t l1bm_length(const Operand& operand) const {
    const bool two = operand.width == Width::kDoubleLong;
    int64_t per_cycle = 0;
    switch (instruction_.opcode) {
      case Opcode::kL1bmp:
        per_cycle = 1;
        break;
      case Opcode::kL1bmm4:
      case Opcode::kL1bmr4:
        per_cycle = chip_.mab_per_l1b;
        break;
      case Opcode::kL1bmd:
        return int64_t{kCyclesPerStep} * chip_.l1bmd_lw_per_cycle();
      default:
        per_cycle = kPePerMab;
        break;
    }
    return kCyclesPerStep * per_cycle * (two ? 2 : 1);
  }

  // -- L2BM

  void list_l2bm() {
    const Operand& src = instruction_.sources.at(0);
    const Operand& dst = instruction_.destinations.at(0);
    const int64_t halves = int64_t{kCyclesPerStep} * kSpreadUnit * (chip_.l1b_per_l2b / 2);
    int64_t l2bm = kL2bmBlockLw;
    int64_t l1bm = kL2bmBlockLw;
    switch (instruction_.opcode) {
      case Opcode::kL2bmb2:
      case Opcode::kL2bmr2:
        l2bm = halves;
        break;
      case Opcode::kL2bmd:
        l2bm = int64_t{kCyclesPerStep} * chip_.l2bmd_lw_per_cycle();
        l1bm = l2bm / chip_.l1b_per_l2b;
        break;
      default:
        break;
    }
    const bool partial = instruction_.l1b_set.kind != L1bSet::Kind::kAll;
    if (instruction_.opcode == Opcode::kL2bmdars) {
      range(HazardResource::kL2bm, Agent::kL2bmToL1bm, false, src, l2bm);
      single(HazardResource::kDar, Agent::kL2bmToL1bm, true).whole = true;
    } else if (instruction_.opcode == Opcode::kL2bmi) {
      range(HazardResource::kL1bm, Agent::kL1bmToL2bm, false, src, l1bm);
      range(HazardResource::kL1bm, Agent::kL2bmToL1bm, true, dst, l1bm).may_not_write = partial;
    } else if (src.space == Space::kL2bm) {
      range(HazardResource::kL2bm, Agent::kL2bmToL1bm, false, src, l2bm);
      range(HazardResource::kL1bm, Agent::kL2bmToL1bm, true, dst, l1bm).may_not_write = partial;
    } else {
      range(HazardResource::kL1bm, Agent::kL1bmToL2bm, false, src, l1bm);
      range(HazardResource::kL2bm, Agent::kL1bmToL2bm, true, dst, l2bm);
    }
  }

  // -- MV

  void list_mv() {
    const TransferShape shape = TransferShaper(instruction_, chip_).shape();
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
  const Chip& chip_;
  std::vector<Access> list_;
};

// ---- hazards -------------------------------------------------------------------------------------------

bool ranges_overlap(int64_t a, int64_t a_length, int64_t b, int64_t b_length, int64_t wrap) {
  if (wrap == 0) return a < b + b_length && b < a + a_length;
  const int64_t distance = ((b - a) % wrap + wrap) % wrap;
  return distance < a_length || wrap - distance < b_length;
}

/// Whether two accesses can't be told apart by their addresses.
bool unknown_distance(const Access& a, const Access& b) {
  return a.whole || b.whole || a.loop_strides != b.loop_strides;
}

bool is_active(const Access& access, int cycle) {
  return access.cycles == 1 || (access.active_cycles >> cycle & 1) != 0;
}

bool cycles_overlap(const Access& a, int a_cycle, const Access& b, int b_cycle, int64_t wrap) {
  return is_active(a, a_cycle) && is_active(b, b_cycle) &&
         (unknown_distance(a, b) || ranges_overlap(a.begin[static_cast<size_t>(a_cycle)], a.length,
                                                   b.begin[static_cast<size_t>(b_cycle)], b.length, wrap));
}

bool overlap(const Access& a, const Access& b, int64_t wrap) {
  for (int i = 0; i < a.cycles; ++i) {
    for (int j = 0; j < b.cycles; ++j) {
      if (cycles_overlap(a, i, b, j, wrap)) return true;
    }
  }
  return false;
}

/// Distance that the latest write needs before the earliest read that sees it. With `any_address` the two
/// meet at the port.
int64_t pe_write_read_gap(const Access& write, const Access& read, bool any_address, int64_t wrap,
                          const Chip& chip) {
  int64_t gap = kNoConstraint;
  for (int i = 0; i < write.cycles; ++i) {
    for (int j = 0; j < read.cycles; ++j) {
      const bool meet = any_address ? is_active(write, i) : cycles_overlap(write, i, read, j, wrap);
      if (meet) gap = std::max(gap, chip.hazard.pe_gap(i, j));
    }
  }
  return gap;
}

bool identical_addresses(const Access& a, const Access& b) {
  return !unknown_distance(a, b) && a.begin == b.begin && a.length == b.length;
}

int64_t local_memory_gap(const Access& first, const Access& second, int64_t wrap, const Chip& chip) {
  if (first.write && second.write) return overlap(first, second, wrap) ? 0 : kNoConstraint;
  // A virtual value says nothing about what else is in its memory.
  const bool any_address = first.value < 0;
  if (first.write) return pe_write_read_gap(first, second, any_address, wrap, chip);
  if (identical_addresses(first, second)) return kSameStep;
  return any_address || overlap(first, second, wrap) ? 0 : kNoConstraint;
}

int64_t l2bm_read_gap(Agent writer, Agent reader, const HazardGaps& hazard) {
  if (writer == Agent::kMv) return 0;  // the wait decides
  return reader == Agent::kMv ? hazard.l1bm_to_l2bm_mv : hazard.l1bm_to_l2bm_read;
}

}  // namespace

int64_t wrap_size(HazardResource resource, const Chip& chip) {
  switch (resource) {
    case HazardResource::kLm0:
    case HazardResource::kLm1:
      return chip.memory.lm_words;
    case HazardResource::kGrf0:
    case HazardResource::kGrf1:
      return chip.memory.grf_words;
    case HazardResource::kL1bm:
      return chip.memory.l1bm_lw;
    case HazardResource::kL2bm:
      return chip.memory.l2bm_lw;
    default:
      return 0;
  }
}

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

int64_t longest_gap(const Chip& chip) {
  const HazardGaps& h = chip.hazard;
  return std::max({h.pe_gap(kCyclesPerStep - 1, 0), h.mask_write_use, h.bar_write_use, h.forward,
                   h.matrix_write_read, h.pe_to_l1bm_read, h.turnaround, h.pe_to_l1bm_l2bm, h.l2bm_to_l1bm_pe,
                   h.l2bm_to_l1bm_l2bm, h.l1bm_to_l2bm_read, h.l1bm_to_l2bm_mv, h.l1bm_read_overwrite});
}

int64_t l1bm_read_gap(Agent writer, Agent reader, const HazardGaps& hazard) {
  const bool to_l2bm = reader == Agent::kL1bmToL2bm;
  if (writer == Agent::kPeToL1bm) return to_l2bm ? hazard.pe_to_l1bm_l2bm : hazard.pe_to_l1bm_read;
  return to_l2bm ? hazard.l2bm_to_l1bm_l2bm : hazard.l2bm_to_l1bm_pe;
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

std::vector<Access> accesses(const Instruction& instruction, const Chip& chip) {
  return AccessLister(instruction, chip).list();
}

int64_t required_gap(const Access& first, const Access& second, const Chip& chip) {
  if (!first.write && !second.write) return kNoConstraint;
  if (first.value != second.value) return kNoConstraint;
  if (first.value < 0 && first.resource != second.resource) return kNoConstraint;
  if (first.place >= 0 && second.place >= 0 && first.place != second.place) return kNoConstraint;

  const int64_t wrap = first.value >= 0 ? 0 : wrap_size(first.resource, chip);
  const HazardGaps& hazard = chip.hazard;
  if (first.resource == HazardResource::kLm0 || first.resource == HazardResource::kLm1) {
    return local_memory_gap(first, second, wrap, chip);
  }
  if (!overlap(first, second, wrap)) return kNoConstraint;
  // Below, accesses meet. Two writes never share a step.
  if (first.write && second.write) return 0;
  const bool read_after_write = first.write;
  switch (first.resource) {
    case HazardResource::kGrf0:
    case HazardResource::kGrf1:
    case HazardResource::kT:
      return read_after_write ? pe_write_read_gap(first, second, false, wrap, chip) : kSameStep;
    case HazardResource::kMask:
      return read_after_write ? hazard.mask_write_use : kSameStep;
    case HazardResource::kBar0:
    case HazardResource::kBar1:
      return read_after_write ? hazard.bar_write_use : 0;
    case HazardResource::kMatX:
    case HazardResource::kMatY:
      return read_after_write ? hazard.matrix_write_read : 0;
    case HazardResource::kAluForward:
    case HazardResource::kMauForward:
    case HazardResource::kLbForward:
    case HazardResource::kMreadForward:
      return read_after_write ? hazard.forward : kSameStep;
    case HazardResource::kTurnaround:
      return read_after_write ? hazard.turnaround : kSameStep;
    case HazardResource::kL1bm:
      return read_after_write ? l1bm_read_gap(first.agent, second.agent, hazard) : hazard.l1bm_read_overwrite;
    case HazardResource::kL2bm:
      return read_after_write ? l2bm_read_gap(first.agent, second.agent, hazard) : 0;
    default:
      return 0;
  }
}

int64_t required_gap(const Instruction& first, const Instruction& second, const Chip& chip) {
  int64_t gap = kNoConstraint;
  const std::vector<Access> later = accesses(second, chip);
  for (const Access& a : accesses(first, chip)) {
    if (is_forwarding_register(a.resource)) continue;
    for (const Access& b : later) gap = std::max(gap, required_gap(a, b, chip));
  }
  return gap;
}

// ---- parallel issue ------------------------------------------------------------------------------------

namespace {

struct Use {
  const Instruction* instruction;
  const Operand* operand;
};

bool same_addresses(const Operand& a, const Operand& b) {
  // $t, $lt and $llt are one operand.
  const bool same_width = a.width == b.width || (a.space == Space::kT && b.space == Space::kT);
  if (!same_width || a.t_indirect != b.t_indirect || a.j != b.j) return false;
  if (without_trailing_zeros(a.loop_strides) != without_trailing_zeros(b.loop_strides)) return false;
  for (int c = 0; c < kCyclesPerStep; ++c) {
    if (a.address(c) != b.address(c)) return false;
  }
  return true;
}

std::string quoted(const Instruction& instruction) {
  return fmt::format("'{}'", mnemonic(instruction));
}

/// "'fvadd' and 'linc'", or "'fvfma'" when both are one.
std::string both(const Instruction& a, const Instruction& b) {
  return &a == &b ? quoted(a) : fmt::format("{} and {}", quoted(a), quoted(b));
}

/// Checks the rules of section 4 in their order; each returns a message or "".
class IssueCheck {
 public:
  explicit IssueCheck(const std::vector<Instruction>& step) : step_(step) {
    for (const Instruction& instruction : step) {
      for (const Operand& source : instruction.sources) reads_.push_back({&instruction, &source});
      for (const Operand& destination : instruction.destinations)
        writes_.push_back({&instruction, &destination});
    }
  }

  std::string run() const {
    for (const auto rule : {&IssueCheck::groups, &IssueCheck::mau_units, &IssueCheck::shared_mwrite_source,
                            &IssueCheck::matrix_registers, &IssueCheck::writes, &IssueCheck::reads,
                            &IssueCheck::local_memory_ports, &IssueCheck::immediate, &IssueCheck::masks}) {
      std::string message = (this->*rule)();
      if (!message.empty()) return message;
    }
    return {};
  }

 private:
  const Instruction* in_group(IssueGroup group) const {
    for (const Instruction& instruction : step_) {
      if (issue_group(instruction) == group) return &instruction;
    }
    return nullptr;
  }

  // Rules 1 and 2. `nop` is a statement of its own, so `wait` beside it never comes here.
  std::string groups() const {
    std::map<IssueGroup, const Instruction*> taken;
    for (const Instruction& instruction : step_) {
      const IssueGroup group = issue_group(instruction);
      if (group == IssueGroup::kMv)
        return fmt::format("{} is an MV and must stand alone", quoted(instruction));
      const auto [earlier, is_new] = taken.emplace(group, &instruction);
      if (!is_new) {
        return fmt::format("{} both belong to the group {}; a step has at most one of each group",
                           both(*earlier->second, instruction), issue_group_name(group));
      }
    }
    if (step_.size() == 1 && taken.contains(IssueGroup::kWait)) {
      return "'wait' can't stand alone; put 'nop' or another instruction beside it";
    }
    return {};
  }

  // Rule 3.
  std::string mau_units() const {
    std::vector<const Instruction*> units;
    for (const IssueGroup group : {IssueGroup::kMauCalc, IssueGroup::kMauMwrite, IssueGroup::kMauMread}) {
      if (const Instruction* instruction = in_group(group)) units.push_back(instruction);
    }
    if (units.size() == 3) {
      return fmt::format(
          "{}, {} and {} are three MAU instructions; a step has at most two of calculation, mwrite and "
          "mread",
          quoted(*units[0]), quoted(*units[1]), quoted(*units[2]));
    }
    if (units.size() == 2 && units[0]->precision != units[1]->precision) {
      return fmt::format(
          "{} have different precisions; MAU instructions of one step need the same precision letter",
          both(*units[0], *units[1]));
    }
    return {};
  }

  // Rule 4: both go through the second input of the MAU.
  std::string shared_mwrite_source() const {
    const Instruction* calc = in_group(IssueGroup::kMauCalc);
    const Instruction* write = in_group(IssueGroup::kMauMwrite);
    if (calc == nullptr || write == nullptr) return {};
    if (calc->opcode != Opcode::kVfma && calc->opcode != Opcode::kVmul) return {};
    if (calc->sources.size() < 2 || write->sources.empty()) return {};
    const Operand& y = calc->sources[1];
    const Operand& src = write->sources[0];
    const bool same = y.space == src.space && y.value == src.value && same_addresses(y, src) &&
                      y.negate == src.negate && y.extend == src.extend && y.reduce == src.reduce;
    if (same) return {};
    return fmt::format(
        "the second input of {} must be the source of {} (same operand, same '-', 'e' and 'r')",
        quoted(*calc), quoted(*write));
  }

  // Rule 5.
  std::string matrix_registers() const {
    std::map<Space, const Instruction*> taken;
    for (const auto* uses : {&reads_, &writes_}) {
      for (const Use& use : *uses) {
        const Space space = use.operand->space;
        if (space != Space::kMatX && space != Space::kMatY) continue;
        const auto [earlier, is_new] = taken.emplace(space, use.instruction);
        if (!is_new) {
          return fmt::format("{} use the same matrix register {}; a step uses each at most once",
                             both(*earlier->second, *use.instruction), space == Space::kMatX ? "$lx" : "$ly");
        }
      }
    }
    return {};
  }

  // Rule 6.
  std::string writes() const {
    static const std::set<Space> kSpaces = {Space::kLm0, Space::kLm1, Space::kGrf0, Space::kGrf1,
                                            Space::kT,   Space::kOmr, Space::kBar0, Space::kBar1};
    std::map<Space, const Instruction*> taken;
    for (const Use& use : writes_) {
      if (!kSpaces.contains(use.operand->space)) continue;
      const auto [earlier, is_new] = taken.emplace(use.operand->space, use.instruction);
      if (!is_new) {
        return fmt::format("two writes to {} by {}; a step writes each space at most once",
                           space_name(use.operand->space), both(*earlier->second, *use.instruction));
      }
    }
    return {};
  }

  // Rule 7, memories.
  std::string reads() const {
    std::map<Space, Use> taken;
    for (const Use& use : reads_) {
      if (!is_pe_memory(use.operand->space)) continue;
      const auto [earlier, is_new] = taken.emplace(use.operand->space, use);
      if (!is_new && !same_addresses(*earlier->second.operand, *use.operand)) {
        return fmt::format(
            "two reads of {} with different addresses by {}; all reads of a space in a step must have the "
            "same width and addresses",
            space_name(use.operand->space), both(*earlier->second.instruction, *use.instruction));
      }
    }
    return {};
  }

  // Rule 8.
  std::string local_memory_ports() const {
    for (const Use& read : reads_) {
      const Space space = read.operand->space;
      if (space != Space::kLm0 && space != Space::kLm1) continue;
      for (const Use& write : writes_) {
        if (write.operand->space != space || same_addresses(*read.operand, *write.operand)) continue;
        return fmt::format(
            "{} read and write {} at different addresses; an LM has one port, so both need the same width "
            "and addresses",
            both(*read.instruction, *write.instruction), space_name(space));
      }
    }
    return {};
  }

  // Rule 9: the payload occupies the address field of LM0.
  std::string immediate() const {
    const auto imm = std::find_if(step_.begin(), step_.end(), [](const Instruction& instruction) {
      return instruction.opcode == Opcode::kImm;
    });
    if (imm == step_.end()) return {};
    for (const auto* uses : {&reads_, &writes_}) {
      for (const Use& use : *uses) {
        if (use.operand->space != Space::kLm0) continue;
        return fmt::format("{} can't be in a step that accesses {}, here by {}", quoted(*imm),
                           space_name(Space::kLm0), quoted(*use.instruction));
      }
    }
    return {};
  }

  // Rule 7 for mask registers, 10 and 11: a step reads one mask entry with one length.
  std::string masks() const {
    std::vector<std::pair<const Instruction*, const Mask*>> all;
    for (const Instruction& instruction : step_) {
      all.emplace_back(&instruction, &instruction.zero_flush);
      for (const Operand& destination : instruction.destinations)
        all.emplace_back(&instruction, &destination.mask);
    }
    std::erase_if(all, [](const auto& item) { return item.second->kind == Mask::Kind::kNone; });
    for (size_t i = 1; i < all.size(); ++i) {
      const Mask& a = *all[0].second;
      const Mask& b = *all[i].second;
      if (mask_entry(a) != mask_entry(b)) {
        return fmt::format(
            "different masks in {}; all write masks and zero flushes of a step must name the same mask",
            both(*all[0].first, *all[i].first));
      }
      if (a.double_long != b.double_long) {
        return fmt::format(
            "masks of different lengths (l and ll) in {}; all masks of a step have the same length",
            both(*all[0].first, *all[i].first));
      }
    }
    return {};
  }

  const std::vector<Instruction>& step_;
  std::vector<Use> reads_;
  std::vector<Use> writes_;
};

}  // namespace

std::string issue_conflict(const std::vector<Instruction>& step, const Chip& /*chip*/) {
  return IssueCheck(step).run();
}

namespace {

constexpr int kUnitCount = static_cast<int>(IssueGroup::kMv);
constexpr std::array kWritten{Space::kLm0, Space::kLm1, Space::kGrf0, Space::kGrf1,
                              Space::kT,   Space::kOmr, Space::kBar0, Space::kBar1};
constexpr std::array kRead{Space::kLm0, Space::kLm1, Space::kGrf0, Space::kGrf1};

/// Where the resources of each rule begin in step_resources().
struct StepResources {
  std::vector<StepResource> list;
  int mau = 0, mau_precision = 0, mau_input = 0, masks = 0;
  std::map<Space, int> matrix, writes, reads, local_memories;

  StepResources() {
    const auto add = [&](std::string name, int64_t capacity = 1) {
      list.push_back({std::move(name), capacity});
      return static_cast<int>(list.size()) - 1;
    };
    for (int group = 0; group < kUnitCount; ++group)
      add(fmt::format("unit {}", issue_group_name(static_cast<IssueGroup>(group))));
    mau = add("MAU", 2);
    mau_precision = add("MAU precision");
    mau_input = add("MAU input 2");
    for (const Space space : {Space::kMatX, Space::kMatY})
      matrix[space] = add(fmt::format("matrix register {}", space_name(space)));
    for (const Space space : kWritten)
      writes[space] = add(fmt::format("write port of {}", space_name(space)));
    for (const Space space : kRead) reads[space] = add(fmt::format("read port of {}", space_name(space)));
    for (const Space space : {Space::kLm0, Space::kLm1})
      local_memories[space] = add(fmt::format("port of {}", space_name(space)));
    masks = add("mask");
  }
};
const StepResources& step_resource_table() {
  static const StepResources table;
  return table;
}

/// Equal for operands of one space that same_addresses calls the same.
std::string address_key(const Operand& operand) {
  std::string key =
      fmt::format("{} {} {} {}", operand.space == Space::kT ? 0 : static_cast<int>(operand.width),
                  operand.t_indirect, operand.j, operand.value);
  for (int c = 0; c < kCyclesPerStep; ++c) key += fmt::format(" {}", operand.address(c));
  for (const int64_t stride : without_trailing_zeros(operand.loop_strides))
    key += fmt::format(" /{}", stride);
  return key;
}

}  // namespace

const std::vector<StepResource>& step_resources() {
  return step_resource_table().list;
}

std::vector<StepUse> step_uses(const Instruction& instruction) {
  const StepResources& table = step_resource_table();
  std::vector<StepUse> uses;
  const auto use = [&](int resource, std::string key = {}, size_t strides_end = 0) {
    for (const StepUse& known : uses) {
      if (known.resource == resource && !key.empty() && known.key == key) return;
    }
    uses.push_back({resource, std::move(key), strides_end});
  };
  const auto by_address = [&](int resource, const Operand& operand, const std::string& prefix = {}) {
    use(resource, prefix + address_key(operand), without_trailing_zeros(operand.loop_strides).size());
  };
  const IssueGroup group = issue_group(instruction);
  if (group == IssueGroup::kMv) return uses;
  use(static_cast<int>(group));  // rules 1 and 2
  if (group == IssueGroup::kMauCalc || group == IssueGroup::kMauMwrite || group == IssueGroup::kMauMread) {
    use(table.mau);  // rule 3
    use(table.mau_precision, fmt::format("{}", static_cast<int>(instruction.precision)));
  }
  // Rule 4: both go through the second input of the MAU.
  const Operand* input = nullptr;
  if (group == IssueGroup::kMauMwrite && !instruction.sources.empty()) input = instruction.sources.data();
  if ((instruction.opcode == Opcode::kVfma || instruction.opcode == Opcode::kVmul) &&
      instruction.sources.size() >= 2)
    input = &instruction.sources[1];
  if (input != nullptr) {
    by_address(table.mau_input, *input,
               fmt::format("{} {} {} {} ", static_cast<int>(input->space), input->negate, input->extend,
                           input->reduce));
  }
  const auto matrix_register = [&](const Operand& operand) {  // rule 5
    if (const auto found = table.matrix.find(operand.space); found != table.matrix.end()) use(found->second);
  };
  const auto local_memory = [&](const Operand& operand) {  // rule 8
    if (const auto found = table.local_memories.find(operand.space); found != table.local_memories.end())
      by_address(found->second, operand);
  };
  for (const Operand& source : instruction.sources) {
    matrix_register(source);
    local_memory(source);
    if (const auto found = table.reads.find(source.space); found != table.reads.end())
      by_address(found->second, source);  // rule 7
  }
  for (const Operand& destination : instruction.destinations) {
    matrix_register(destination);
    local_memory(destination);
    if (const auto found = table.writes.find(destination.space); found != table.writes.end())
      use(found->second);  // rule 6
  }
  if (instruction.opcode == Opcode::kImm) use(table.local_memories.at(Space::kLm0));  // rule 9
  const auto mask = [&](const Mask& each) {                                           // rules 7, 10 and 11
    if (each.kind == Mask::Kind::kNone) return;
    use(table.masks, fmt::format("{} {}", mask_entry(each).value_or(-1), each.double_long));
  };
  mask(instruction.zero_flush);
  for (const Operand& destination : instruction.destinations) mask(destination.mask);
  return uses;
}

// ---- times ---------------------------------------------------------------------------------------------

std::vector<TransferPart> transfer_parts(const Instruction& mv, const Chip& chip) {
  const TransferShape shape = TransferShaper(mv, chip).shape();
  std::vector<TransferPart> parts;
  for (const Endpoint& end : shape.endpoints) {
    TransferPort port = TransferPort::kDram;
    if (end.space == Space::kPdm) port = end.write ? TransferPort::kPdmWrite : TransferPort::kPdmRead;
    if (end.space == Space::kL2bm) port = end.write ? TransferPort::kL2bmWrite : TransferPort::kL2bmRead;
    parts.push_back({port, end.place, -1, end.length, end.begin, end.write, end.indirect});
  }
  for (const auto& [ends, lw] : shape.paths) {
    parts.push_back({TransferPort::kGroupPath, ends.first, ends.second, lw, 0, false, false});
  }
  return parts;
}

TransferLoad transfer_load(const Instruction& mv, const Chip& chip) {
  TransferLoad load;
  for (const TransferPart& part : transfer_parts(mv, chip)) {
    // A copy inside one DRAM passes its interface twice.
    const auto same = std::find_if(load.uses.begin(), load.uses.end(), [&](const TransferUse& use) {
      return use.port == part.port && use.index == part.index && use.to == part.to;
    });
    if (same != load.uses.end()) {
      same->lw += part.lw;
    } else {
      load.uses.push_back({part.port, part.index, part.to, part.lw});
    }
    if (part.port == TransferPort::kGroupPath)
      load.group_hops = std::max<int64_t>(load.group_hops, std::abs(part.index - part.to));
  }
  return load;
}

int64_t transfer_latency(const std::vector<TransferPart>& parts, const Chip& chip) {
  int64_t hops = 0;
  for (const TransferPart& part : parts) {
    if (part.port == TransferPort::kGroupPath) hops = std::max<int64_t>(hops, std::abs(part.index - part.to));
  }
  return chip.transfer.startup_cycles + hops * chip.transfer.group_hop_cycles;
}

double transfer_rate(TransferPort port, const Chip& chip) {
  switch (port) {
    case TransferPort::kDram:
      return chip.transfer.dram_lw_per_cycle;
    case TransferPort::kPdmRead:
    case TransferPort::kPdmWrite:
      return chip.transfer.pdm_lw_per_cycle;
    case TransferPort::kL2bmRead:
    case TransferPort::kL2bmWrite:
      return chip.transfer.l2bm_mv_lw_per_cycle;
    case TransferPort::kGroupPath:
      return chip.transfer.group_link_lw_per_cycle;
  }
  return 1;
}

int64_t transfer_cycles(const Instruction& mv, const Chip& chip) {
  const TransferLoad load = transfer_load(mv, chip);
  double busiest = 0;
  for (const TransferUse& use : load.uses) {
    busiest = std::max(busiest, static_cast<double>(use.lw) / transfer_rate(use.port, chip));
  }
  return chip.transfer.startup_cycles + load.group_hops * chip.transfer.group_hop_cycles +
         static_cast<int64_t>(std::ceil(busiest));
}

int64_t host_link_cycles(int64_t bytes, const Chip& chip) {
  const double seconds =
      chip.host_link.latency_seconds + static_cast<double>(bytes) / chip.host_link.bytes_per_second;
  return static_cast<int64_t>(std::ceil(seconds * chip.clock_hz));
}

double peak_macs_per_cycle(Precision precision, bool matrix, const Chip& chip) {
  double per_mab = 0;
  switch (precision) {
    case Precision::kDouble:
      per_mab = matrix ? 2 * 4 : 2;
      break;
    case Precision::kFloat:
      per_mab = matrix ? 8 * 4 : 8;
      break;
    case Precision::kGFloat:
      per_mab = matrix ? 8 * 8 : 0;
      break;
    case Precision::kHalf:
      per_mab = matrix ? 16 * 16 : 16;
      break;
    default:
      break;
  }
  return per_mab * chip.mab_count();
}

}  // namespace kodama::isa
