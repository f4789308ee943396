#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "isa/costs.h"
#include "isa/move_places.h"

namespace kodama::isa {

std::vector<TransferPart> transfer_parts(const Instruction& mv, const Chip& chip) {
  const TransferShape shape = transfer_shape(mv, chip);
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

}  // namespace kodama::isa
