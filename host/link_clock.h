#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "host/kernel.h"
#include "isa/chip.h"
#include "isa/costs.h"
#include "isa/dram_model.h"

/// When transfers and kernels happen, in cycles of the chip since the device was opened, by what the chip
/// description says of the host link: a rate each way, a latency that transfers queued behind each other show
/// once, and the launch of a kernel that wasn't queued behind another. The host program itself takes no time.
namespace kodama::host {

class LinkClock {
 public:
  explicit LinkClock(const isa::Chip& chip)
      : chip_(chip),
        latency_(chip.host_link.latency_seconds * chip.clock_hz),
        launch_(chip.host_link.launch_seconds * chip.clock_hz) {}

  /// Each returns when it is over. The host goes on at once; `wait_until` says that it did not.
  double send(int64_t bytes, int tag) {
    const double done = transfer(now_, bytes, in_free_);
    if (tag > 0) arrived_[static_cast<size_t>(tag)] = done;
    return done;
  }
  double receive(int64_t bytes) { return transfer(std::max(now_, chip_free_), bytes, out_free_); }
  double run(int64_t cycles, Tags tags) {
    double start = std::max(chip_free_, now_ + launch_);
    if (chip_free_ > now_) start = chip_free_;
    for (size_t tag = 1; tag < arrived_.size(); ++tag) {
      if ((tags >> tag & 1) != 0) start = std::max(start, arrived_[tag]);
    }
    chip_free_ = start + static_cast<double>(cycles);
    return chip_free_;
  }
  void wait_until(double cycle) { now_ = std::max(now_, cycle); }
  void wait_for_chip() { wait_until(chip_free_); }

  /// Until everything is over.
  double elapsed() const { return std::max({now_, chip_free_, last_}); }
  /// In which one way of the link or the other was taken, and the latencies that were seen.
  double link_cycles() const { return link_cycles_; }

 private:
  double transfer(double wanted, int64_t bytes, double& free) {
    const double start = std::max(wanted, free);
    const bool queued = free > wanted;
    free = start + static_cast<double>(isa::link_ticks(bytes, chip_)) / isa::kTicksPerCycle;
    link_cycles_ += free - start + (queued ? 0 : latency_);
    last_ = std::max(last_, free + latency_);
    return free + latency_;
  }

  isa::Chip chip_;
  double latency_;
  double launch_;
  double now_ = 0;  ///< of the host
  double in_free_ = 0;
  double out_free_ = 0;
  double chip_free_ = 0;
  double last_ = 0;
  double link_cycles_ = 0;
  std::array<double, kTags> arrived_{};
};

}  // namespace kodama::host
