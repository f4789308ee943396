#include "layout/moves/transfer_clock.h"

#include <algorithm>

namespace kodama::layout {

double TransferClock::issue(const isa::Instruction& mv, double cycle) {
  const double start = std::max(cycle, next_start_);
  next_start_ = start + static_cast<double>(chip_.transfer.issue_interval_steps * isa::kCyclesPerStep);
  const std::vector<isa::TransferPart> parts = transfer_parts(mv, chip_);
  const double moving = start + static_cast<double>(transfer_latency(parts, chip_));
  double end = moving;
  for (const isa::TransferPart& part : parts) {
    double& busy = busy_until_[{part.port, part.index, part.to}];
    busy = std::max(busy, moving) + static_cast<double>(part.lw) / transfer_rate(part.port, chip_);
    end = std::max(end, busy);
  }
  return end;
}

}  // namespace kodama::layout
