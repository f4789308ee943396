#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "host/include/mnc2.h"
#include "host/kernel.h"
#include "simulator/profile.h"

/// What the sequencer did since the device was opened, and snapshots of it (mnc2_capture_…).
namespace kodama::host {

inline constexpr int kSnapshots = 4;

class Capture {
 public:
  /// Adds a run. A snapshot in the middle of it is exact for programs without loops, but that stalls for
  /// instructions count from the first of a row of steps; of a loop it has all or nothing.
  void add(const simulator::Profile& profile);
  uint64_t instructions() const { return instructions_; }
  void set_trigger(int select, uint64_t counter);
  /// False when it isn't taken yet.
  bool read(int select, mnc2_capture_t& capture) const;

 private:
  /// `part` of the `steps` steps that an entry is.
  void add_entry(const simulator::Profile::Entry& entry);
  void take_reached();
  mnc2_capture_t snapshot() const;

  uint64_t instructions_ = 0;
  uint64_t nops_ = 0;
  uint64_t empty_cycles_ = 0;
  uint64_t other_stall_cycles_ = 0;
  std::array<uint64_t, kTags> wait_cycles_{};
  struct Trigger {
    uint64_t counter = 0;
    std::optional<mnc2_capture_t> taken;
  };
  std::array<std::optional<Trigger>, kSnapshots> triggers_;
};

}  // namespace kodama::host
