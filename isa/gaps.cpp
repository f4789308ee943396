#include <algorithm>

#include "isa/costs.h"

namespace kodama::isa {
namespace {

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

}  // namespace kodama::isa
