#pragma once

#include <cstdint>

#include "scheduler/recompute/recompute.h"

/// Random problems like those of training steps.
namespace kodama::scheduler {

struct RecomputeRequest {
  uint64_t seed = 1;
  /// Operations of the first part, behind which is one whose result, of no bytes, is kept. The second part
  /// has one for each of them, which reads what it made, what it read, and what the one before it made.
  int stages = 12;
  /// Of operations of the first part that read a second value, of an earlier one: 0 makes chains.
  double skips = 0;
  /// Bytes and cycles all alike; else they differ by up to 16 times.
  bool is_even = false;
  /// The limit, as a part of the way from the least that an operation needs to the peak of the order given.
  double share = 0.5;
};
RecomputeProblem generate_recompute(const RecomputeRequest& request);

}  // namespace kodama::scheduler
