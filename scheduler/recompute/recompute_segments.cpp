#include <fmt/format.h>

#include <algorithm>

#include "scheduler/recompute/recompute_builtin.h"

namespace kodama::scheduler {
namespace {

constexpr size_t kMostSegments = 64;

/// The first half of an order, up to where most is alive, in segments.
class SegmentMaker {
 public:
  SegmentMaker(const RecomputeProblem& problem, const RecomputeUses& uses, const std::vector<int>& order)
      : problem_(problem), uses_(uses), order_(order), place_(problem.operations.size()) {
    for (size_t k = 0; k < order.size(); ++k) place_[static_cast<size_t>(order[k])] = k;
    turn_ = cost_of(problem, order).at;
    for (size_t value = 0; value < problem.values.size(); ++value) {
      if (is_across(value)) across_bytes_ += problem.values[value].bytes;
    }
  }

  std::optional<RecomputeSchedule> schedule(size_t segments, Holdings& chosen) const {
    RecomputeChoices choices(problem_, uses_, order_);
    const std::vector<size_t> segment = segments_of(segments);
    for (size_t value = 0; value < problem_.values.size(); ++value) {
      if (made_at(value) > turn_) continue;
      const size_t own = segment[made_at(value)];
      const bool is_read_later = std::ranges::any_of(uses_.readers[value], [&](int reader) {
        const size_t at = place_[static_cast<size_t>(reader)];
        return at <= turn_ && segment[at] > own;
      });
      if (is_read_later) choices.is_checkpoint[value] = true;
    }
    for (const int gap : choices.gaps_over(turn_, true)) {
      const auto value = static_cast<size_t>(choices.gaps()[static_cast<size_t>(gap)].value);
      if (segment[made_at(value)] + 1 < segments)
        choices.holding[static_cast<size_t>(gap)] = Holding::kRemade;
    }
    chosen = choices;
    auto steps = choices.steps();
    if (!steps) return std::nullopt;
    return finish_recompute(problem_, std::move(*steps), fmt::format("{} segments", segments));
  }

 private:
  size_t made_at(size_t value) const { return place_[static_cast<size_t>(uses_.maker[value])]; }
  bool is_across(size_t value) const {
    return made_at(value) <= turn_ && std::ranges::any_of(uses_.readers[value], [&](int reader) {
             return place_[static_cast<size_t>(reader)] > turn_;
           });
  }
  /// By place up to the turn: each has about as many bytes of what is read behind the turn.
  std::vector<size_t> segments_of(size_t segments) const {
    std::vector<size_t> segment;
    int64_t bytes = 0;
    for (size_t place = 0; place <= turn_; ++place) {
      const auto number = across_bytes_ > 0 ? static_cast<double>(bytes) * static_cast<double>(segments) /
                                                  static_cast<double>(across_bytes_)
                                            : 0;
      segment.push_back(std::min(static_cast<size_t>(number), segments - 1));
      for (const int value : problem_.operations[static_cast<size_t>(order_[place])].makes) {
        if (is_across(static_cast<size_t>(value))) bytes += problem_.values[static_cast<size_t>(value)].bytes;
      }
    }
    return segment;
  }

  const RecomputeProblem& problem_;
  const RecomputeUses& uses_;
  const std::vector<int>& order_;
  std::vector<size_t> place_;  ///< by operation
  size_t turn_ = 0;
  int64_t across_bytes_ = 0;
};

}  // namespace

RecomputeSchedule recompute_segments(const RecomputeProblem& problem, const std::vector<int>& order,
                                     Holdings* chosen) {
  RecomputeSchedule best = finish_recompute(problem, order, "nothing is done again");
  if (best.status == RecomputeStatus::kSolved) return best;
  const RecomputeUses uses(problem);
  const SegmentMaker maker(problem, uses, order);
  int64_t tried = 0;
  for (size_t segments = 2; segments <= std::min(kMostSegments, order.size()); ++segments) {
    Holdings own;
    auto schedule = maker.schedule(segments, own);
    ++tried;
    if (!schedule || !is_better(*schedule, best)) continue;
    best = std::move(*schedule);
    if (chosen != nullptr) *chosen = std::move(own);
  }
  best.nodes = tried;
  return best;
}

Recomputer sqrt_recomputer() {
  return {.name = "sqrt",
          .description = "segments of the forward part are done again, each from what it begins with",
          .options = {},
          .run = [](const RecomputeProblem& problem, const passes::PassOptions&) {
            RecomputeSchedule schedule = recompute_segments(problem, given_order(problem));
            if (schedule.status != RecomputeStatus::kSolved) {
              RecomputeSchedule other = recompute_segments(problem, lowest_order(problem).order);
              if (is_better(other, schedule)) schedule = std::move(other);
            }
            schedule.is_least = schedule.status == RecomputeStatus::kSolved &&
                                schedule.cycles == recompute_bound(problem).cycles;
            return schedule;
          }};
}

}  // namespace kodama::scheduler
