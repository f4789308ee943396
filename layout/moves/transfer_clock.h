#pragma once

#include <cstdint>
#include <map>
#include <tuple>

#include "isa/chip.h"
#include "isa/costs.h"

/// When transfers will be over, roughly and quickly: what the step packer goes by to place waits.
///
/// A transfer starts when it is issued, one per issue interval; it moves after its latency, and passes every
/// port behind what was issued for that port before, each at the port's rate. What is left out makes
/// transfers slower (rows and refreshes of DRAM, groups whose queues are full, isa/transfer_timeline.h), so a
/// wait that goes by this may hold the chip, and is never much too late.
///
/// Example (mncore2): 1024 LW from PDM to L2BM issued at cycle 0 are over at 64 + 1024 / 16 = 128, as many
/// from the same PDM issued at once at 192.
namespace kodama::layout {

class TransferClock {
 public:
  explicit TransferClock(const isa::Chip& chip) : chip_(chip) {}
  /// The first cycle from which an MV that is issued doesn't wait for others to start.
  double next_start() const { return next_start_; }
  /// The cycle at which an MV will be over that is issued at `cycle`, after all before it.
  double issue(const isa::Instruction& mv, double cycle);

 private:
  const isa::Chip& chip_;
  double next_start_ = 0;
  std::map<std::tuple<isa::TransferPort, int32_t, int32_t>, double> busy_until_;
};

}  // namespace kodama::layout
