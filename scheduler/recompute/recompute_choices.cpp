#include <algorithm>

#include "scheduler/recompute/recompute_builtin.h"

namespace kodama::scheduler {

RecomputeChoices::RecomputeChoices(const RecomputeProblem& problem, const RecomputeUses& uses,
                                   std::vector<int> order)
    : problem_(problem), uses_(uses), order_(std::move(order)), gaps_of_(problem.values.size()) {
  is_checkpoint.assign(problem.values.size(), false);
  std::vector<size_t> last(problem.values.size(), 0);
  for (size_t place = 0; place < order_.size(); ++place) {
    const auto& operation = problem.operations[static_cast<size_t>(order_[place])];
    for (const int value : operation.reads) {
      gaps_of_[static_cast<size_t>(value)].push_back(static_cast<int>(gaps_.size()));
      gaps_.push_back({value, last[static_cast<size_t>(value)], place});
      last[static_cast<size_t>(value)] = place;
    }
    for (const int value : operation.makes) {
      last[static_cast<size_t>(value)] = place;
      // What can't be made again is there for whoever wants it.
      is_checkpoint[static_cast<size_t>(value)] = operation.once;
    }
  }
  holding.assign(gaps_.size(), Holding::kHeld);
}

std::vector<int> RecomputeChoices::gaps_over(size_t place, bool from_there) const {
  std::vector<int> over;
  for (size_t k = 0; k < gaps_.size(); ++k) {
    const bool has_begun = gaps_[k].begin < place || (from_there && gaps_[k].begin == place);
    if (has_begun && place < gaps_[k].end) over.push_back(static_cast<int>(k));
  }
  return over;
}

/// Goes through the order and makes again what somebody wants and isn't there.
class RecomputeChoices::Unrolling {
 public:
  Unrolling(const RecomputeChoices& choices, size_t most)
      : choices_(choices),
        most_(most),
        is_there_(choices.problem_.values.size(), false),
        uses_done_(choices.problem_.values.size(), 0) {}

  bool run() {
    for (place_ = 0; place_ < choices_.order_.size(); ++place_) {
      const int number = choices_.order_[place_];
      const auto& operation = choices_.problem_.operations[static_cast<size_t>(number)];
      for (const int value : operation.reads) want(value);
      emit(number);
      for (const int value : operation.reads) ++uses_done_[static_cast<size_t>(value)];
      for (const int value : operation.reads) settle(value);
      for (const int value : operation.makes) settle(value);
      for (const int value : brief_) settle(value);
      brief_.clear();
      if (steps.size() > most_) return false;
    }
    return true;
  }

  std::vector<int> steps;
  std::vector<size_t> places;

 private:
  void emit(int number) {
    steps.push_back(number);
    places.push_back(place_);
    for (const int value : choices_.problem_.operations[static_cast<size_t>(number)].makes)
      is_there_[static_cast<size_t>(value)] = true;
  }

  void want(int value) {
    if (is_there_[static_cast<size_t>(value)] || steps.size() > most_) return;
    const int maker = choices_.uses_.maker[static_cast<size_t>(value)];
    const auto& operation = choices_.problem_.operations[static_cast<size_t>(maker)];
    for (const int read : operation.reads) want(read);
    emit(maker);
    for (const int made : operation.makes) {
      if (!stays_once_remade(made)) brief_.push_back(made);
    }
  }

  const Holding* holding_now(int value) const {
    const auto& gaps = choices_.gaps_of_[static_cast<size_t>(value)];
    const size_t done = uses_done_[static_cast<size_t>(value)];
    return done < gaps.size() ? &choices_.holding[static_cast<size_t>(gaps[done])] : nullptr;
  }
  bool stays_anyway(int value) const {
    return choices_.problem_.values[static_cast<size_t>(value)].is_kept ||
           choices_.is_checkpoint[static_cast<size_t>(value)];
  }
  bool stays_once_remade(int value) const {
    const Holding* now = holding_now(value);
    return stays_anyway(value) || (now != nullptr && *now != Holding::kBrief);
  }
  /// Behind an operation of the order: what a value is until its next reader.
  void settle(int value) {
    const Holding* now = holding_now(value);
    is_there_[static_cast<size_t>(value)] = stays_anyway(value) || (now != nullptr && *now == Holding::kHeld);
  }

  const RecomputeChoices& choices_;
  size_t most_;
  size_t place_ = 0;
  std::vector<bool> is_there_;
  std::vector<size_t> uses_done_;  ///< by value: readers of the order that have read it
  std::vector<int> brief_;         ///< made again, for the present operation of the order
};

std::optional<std::vector<int>> RecomputeChoices::steps() const {
  constexpr size_t kMostRepeats = 8;
  Unrolling unrolling(*this, kMostRepeats * order_.size());
  if (!unrolling.run()) return std::nullopt;
  places_ = std::move(unrolling.places);
  return std::move(unrolling.steps);
}

}  // namespace kodama::scheduler
