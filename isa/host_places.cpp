#include <algorithm>

#include "isa/costs.h"
#include "isa/host_work.h"
#include "isa/transfer_walk.h"

namespace kodama::isa {
namespace {

/// Whether LW from `address` on in the DRAM of a group are in the place of a transfer.
bool touches(const HostTransfer& transfer, size_t group, int64_t address, int64_t lw) {
  const int64_t size = group < transfer.group_lw.size() ? transfer.group_lw[group] : 0;
  return size > 0 && address < transfer.dram_address + size && transfer.dram_address < address + lw;
}

}  // namespace

void plan_places(std::vector<HostTransfer>& next, const Program& program,
                 const std::vector<HostTransfer>& output, const Chip& chip) {
  for (HostTransfer& transfer : next) transfer.free_after = 0;
  // By tag and transfer: used by an MV that nobody has waited for yet.
  std::vector<std::vector<bool>> used(kMaxTransferTag + 1, std::vector<bool>(next.size()));
  int64_t waits = 0;
  TransferWalk walk;
  walk.mv = [&](const Instruction& mv) {
    for (const TransferPart& part : transfer_parts(mv, chip)) {
      if (part.port != TransferPort::kDram) continue;
      for (size_t k = 0; k < next.size(); ++k) {
        // An indirect MV may be anywhere.
        if (part.indirect || touches(next[k], static_cast<size_t>(part.index), part.address, part.lw))
          used[static_cast<size_t>(mv.tag)][k] = true;
      }
    }
  };
  walk.wait = [&](int tag) {
    ++waits;
    std::vector<bool>& by_tag = used[static_cast<size_t>(tag)];
    for (size_t k = 0; k < next.size(); ++k) {
      if (by_tag[k]) next[k].free_after = waits;
      by_tag[k] = false;
    }
  };
  walk.walk(program);
  for (size_t k = 0; k < next.size(); ++k) {
    bool until_end = std::ranges::any_of(used, [&](const std::vector<bool>& by_tag) { return by_tag[k]; });
    for (const HostTransfer& result : output) {
      for (size_t group = 0; group < result.group_lw.size(); ++group)
        until_end |= touches(next[k], group, result.dram_address, result.group_lw[group]);
    }
    if (until_end) next[k].free_after = HostTransfer::kAtTheEnd;
  }
}

}  // namespace kodama::isa
