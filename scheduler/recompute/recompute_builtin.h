#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "scheduler/recompute/recompute.h"

/// What those who find schedules share. Internal to scheduler/recompute.
namespace kodama::scheduler {

/// In the order of registration; the first is the default.
Recomputer optimal_recomputer();
Recomputer sqrt_recomputer();
Recomputer order_recomputer();
Recomputer none_recomputer();

/// Who makes and who reads each value, by operations.
struct RecomputeUses {
  explicit RecomputeUses(const RecomputeProblem& problem);
  std::vector<int> maker;                 ///< by value
  std::vector<std::vector<int>> readers;  ///< by value, rising
};

/// Peak and cycles of steps, and the step where the peak is.
struct RecomputeCost {
  int64_t peak = 0;
  int64_t cycles = 0;
  size_t at = 0;
};
RecomputeCost cost_of(const RecomputeProblem& problem, const std::vector<int>& steps);

/// Operations as the problem has them.
std::vector<int> given_order(const RecomputeProblem& problem);
/// Fills in peak, cycles and status (kSolved, or kGaveUp with a peak beyond the limit).
RecomputeSchedule finish_recompute(const RecomputeProblem& problem, std::vector<int> steps,
                                   const std::string& how);
/// Whether `a` is better: solved, then fewer cycles; of those not solved the lower peak.
bool is_better(const RecomputeSchedule& a, const RecomputeSchedule& b);

/// The order, every operation once, with the lowest peak that was found: least for up to kExactOrder
/// operations.
struct FoundOrder {
  std::vector<int> order;
  bool is_least = false;
  int64_t nodes = 0;
};
inline constexpr size_t kExactOrder = 18;
FoundOrder lowest_order(const RecomputeProblem& problem);

/// What becomes of a value between two of its readers in an order.
enum class Holding : uint8_t {
  kHeld,    ///< it stays
  kRemade,  ///< it goes, and is made again when somebody wants it; then it stays for the second reader
  kBrief,   ///< it is made again for everybody who wants it
};
struct Holdings {
  std::vector<Holding> holding;     ///< by gap
  std::vector<bool> is_checkpoint;  ///< by value: once made it stays as long as anybody wants it
};
/// An order and what becomes of values in it; at first all is held. A gap is what lies between two readers
/// (or maker and first reader) of a value.
class RecomputeChoices : public Holdings {
 public:
  RecomputeChoices(const RecomputeProblem& problem, const RecomputeUses& uses, std::vector<int> order);

  struct Gap {
    int value = 0;
    size_t begin = 0;  ///< places in the order
    size_t end = 0;
  };
  const std::vector<int>& order() const { return order_; }
  const std::vector<Gap>& gaps() const { return gaps_; }
  /// Gaps that lie over a place of the order: begin < place < end; `from_there`: or begin there.
  std::vector<int> gaps_over(size_t place, bool from_there = false) const;

  /// The steps. Nothing if they were many times as many as the order has: some choices double at each stage.
  std::optional<std::vector<int>> steps() const;
  /// By step of the last steps(), the place in the order for which it was done.
  const std::vector<size_t>& places() const { return places_; }

 private:
  class Unrolling;
  const RecomputeProblem& problem_;
  const RecomputeUses& uses_;
  std::vector<int> order_;
  std::vector<Gap> gaps_;
  std::vector<std::vector<int>> gaps_of_;  ///< by value, in their order
  mutable std::vector<size_t> places_;
};

/// Segments: what is alive between both halves of the order is held where it is read by a later segment of
/// the first half, and made again else. The cheapest number of segments that fits.
/// Also what was held for that.
RecomputeSchedule recompute_segments(const RecomputeProblem& problem, const std::vector<int>& order,
                                     Holdings* chosen = nullptr);
/// Least cycles of a chain (recompute_chain.cpp). Nothing if the order is none.
std::optional<RecomputeSchedule> recompute_chain(const RecomputeProblem& problem,
                                                 const std::vector<int>& order, int64_t most_states);
/// Least cycles, by search over what is alive. Nothing if the problem is too large or `most_nodes` are too
/// few.
std::optional<RecomputeSchedule> search_recompute(const RecomputeProblem& problem, int64_t most_nodes);
/// What is cheapest to make again for its bytes goes where most is alive, until all fits; then improved.
/// `start`: from there, if that isn't empty.
RecomputeSchedule recompute_greedily(const RecomputeProblem& problem, const std::vector<int>& order,
                                     int64_t most_trials, const Holdings& start = {});

}  // namespace kodama::scheduler
