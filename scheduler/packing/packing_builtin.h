#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "scheduler/packing/packing.h"

/// What the packers share. Internal to scheduler/.
namespace kodama::scheduler {

/// In the order of registration; the first is the default.
Packer exact_packer();
Packer first_fit_packer();
Packer best_fit_packer();
Packer skyline_packer();
Packer improve_packer();

/// Which offsets of one buffer exclude which of another.
class PackingConflicts {
 public:
  /// Buffer `other` at offset o excludes the offsets strictly between o + above and o + below of this one.
  struct Conflict {
    int other;
    int64_t above;
    int64_t below;
  };
  explicit PackingConflicts(const PackingProblem& problem);
  const std::vector<Conflict>& of(int buffer) const { return conflicts_[buffer]; }

 private:
  std::vector<std::vector<Conflict>> conflicts_;
};

/// Orders of buffers that heuristics try. "size", "area" (size times lifetime), "lifetime", "load" (by the
/// highest live load in the lifetime, then by area), all falling; "start" (rising); "given".
const std::vector<std::string>& packing_orders();
std::vector<int> packing_order(const PackingProblem& problem, const std::string& by);

/// Places the buffers one after the other, fixed ones first, each in the lowest (or, `best_fit`, the
/// tightest) hole that takes it. Empty if fixed offsets contradict each other.
std::vector<int64_t> place_in_order(const PackingProblem& problem, const PackingConflicts& conflicts,
                                    const std::vector<int>& order, bool best_fit = false);

/// Next is always the buffer that can start lowest on top of those that are placed. The same condition.
std::vector<int64_t> place_on_skyline(const PackingProblem& problem, const PackingConflicts& conflicts);

/// Reorders `order` and places anew, `steps` times: what sticks out moves forward. Returns the lowest
/// packing.
std::vector<int64_t> improve_order(const PackingProblem& problem, const PackingConflicts& conflicts,
                                   std::vector<int> order, int64_t steps, uint64_t seed,
                                   int64_t* placed = nullptr);

int64_t packing_height(const PackingProblem& problem, const std::vector<int64_t>& offsets);

/// Fills in height, bound and status (kSolved, or kInfeasible if the bound exceeds the capacity, or kGaveUp).
PackingSolution finish_packing(const PackingProblem& problem, std::vector<int64_t> offsets, int64_t nodes,
                               const std::string& how);

/// Numbers that are the same with every standard library.
class PackingRandom {
 public:
  explicit PackingRandom(uint64_t seed) : engine_(seed * 0x9e3779b97f4a7c15ULL + 1) {}
  int64_t below(int64_t n) { return static_cast<int64_t>(engine_() % static_cast<uint64_t>(n)); }
  int64_t between(int64_t low, int64_t high) { return low + below(high - low + 1); }
  double unit() { return static_cast<double>(engine_() >> 11) * 0x1.0p-53; }
  template <typename T>
  void shuffle(std::vector<T>& items) {
    for (size_t i = items.size(); i > 1; --i) std::swap(items[i - 1], items[below(static_cast<int64_t>(i))]);
  }

 private:
  std::mt19937_64 engine_;
};

}  // namespace kodama::scheduler
