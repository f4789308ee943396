#pragma once

#include <cstdint>

#include "scheduler/packing/packing.h"

/// Packing problems with a known solution at the capacity, like those of the "challenging" set of
/// google/minimalloc: time and addresses are a rectangle that is cut into buffers, again and again, along
/// time, along addresses, and around a pinwheel (which no sequence of straight cuts makes); then a few
/// buffers are dropped or shrunk. Many are short, few are long, sizes reach from one unit to a large part of
/// the memory.
namespace kodama::scheduler {

struct PackingRequest {
  uint64_t seed = 1;
  int buffers = 300;
  int64_t capacity = 1 << 20;
  /// Sizes and offsets are multiples of it, and moments are multiples of horizon / (capacity / unit).
  int64_t unit = 1024;
  int64_t horizon = 1 << 20;
  int moments = 0;          ///< at which buffers begin and end; 0: half as many as buffers
  double drop = 0.13;       ///< share of buffers that are dropped after cutting
  double shrink = 0.27;     ///< share of buffers that lose up to a quarter of their size
  double pinwheels = 0.05;  ///< share of pinwheels among the cuts
  bool operator==(const PackingRequest&) const = default;
};

struct GeneratedPacking {
  PackingProblem problem;
  PackingSolution known;  ///< verified, of at most the capacity
  double load = 0;        ///< largest live load over capacity; never below 0.95
};

/// The same request gives the same problem everywhere. UserError if the rectangle has too few units for so
/// many buffers, or a number of the request makes no sense.
GeneratedPacking generate_packing(const PackingRequest& request);

}  // namespace kodama::scheduler
