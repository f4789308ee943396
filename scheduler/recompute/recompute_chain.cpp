#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <tuple>

#include "scheduler/recompute/recompute_builtin.h"

/// Least cycles of a chain, by dynamic programming.
///
/// The first part of the order is cut into *stages* wherever a single value, the stage's *link*, passes on to
/// what follows there. The second part must go through the stages backwards: what it does for a stage reads
/// the values of that stage and the link that the stage reads.
///
///     stages      x0 -> [0] -> x1 -> [1] -> x2 -> [2]
///     second part                            for 2, reads x2; for 1, reads x2, x1; for 0, reads x1
///
/// A chain in the narrow sense has one operation in each stage. The state is the range of stages that are
/// still to be done for, whether the last one's link is held, and how many bytes are held besides: `held`
/// counts the link that the first stage reads. In a state, the first stages may run up to some link, which is
/// held from then on; or the first stage runs and all that is wanted of it stays. What is held stays until
/// its stage is done for ("persistent" schedules; Beaumont et al., "Optimal checkpointing for heterogeneous
/// chains"). Of these the cheapest is found; where links differ in size, letting something go earlier can in
/// rare cases be cheaper still.
namespace kodama::scheduler {
namespace {

constexpr int64_t kNoWay = std::numeric_limits<int64_t>::max() / 4;
constexpr size_t kEveryTurn = 200;  ///< operations of problems in which every place is tried as the turn
constexpr size_t kSomeTurns = 16;

struct ChainStage {
  std::vector<int> operations;
  int64_t cycles = 0;
  int link = -1;  ///< value; -1: nothing passes on
  int64_t link_bytes = 0;
  int64_t inner_bytes = 0;  ///< values that the second part reads, but for the link
  /// Most that is alive while it runs. If the link that it reads is held, that is not counted.
  int64_t run = 0, run_unheld = 0, run_saving = 0;
  // For the stage, in the second part:
  std::vector<int> done_for;
  bool wants_link = false, wants_inner = false, wants_input = false;
  int64_t before = 0;  ///< alive of the second part when it begins
  /// Most that is alive, its own link and inner values included; with `input_goes`, the link that it reads,
  /// too.
  int64_t most = 0, most_with_input = 0;
};

class ChainFinder {
 public:
  ChainFinder(const RecomputeProblem& problem, const RecomputeUses& uses, const std::vector<int>& order)
      : problem_(problem), uses_(uses), order_(order), place_(order.size()) {
    for (size_t k = 0; k < order.size(); ++k) place_[static_cast<size_t>(order[k])] = k;
    const std::vector<int64_t> alive = alive_bytes(problem, order);
    std::vector<size_t> turns;
    for (size_t k = 1; k < order.size(); ++k) turns.push_back(k);
    if (turns.size() > kEveryTurn) {
      std::ranges::stable_sort(turns, std::greater<>(), [&](size_t turn) { return alive[turn - 1]; });
      turns.resize(kSomeTurns);
    }
    for (const size_t turn : turns) {
      std::vector<ChainStage> found = stages_at(turn);
      if (found.size() > stages.size()) stages = std::move(found);
    }
  }

  std::vector<ChainStage> stages;  ///< none: it is no chain

 private:
  const RecomputeProblem::Operation& operation_at(size_t place) const {
    return problem_.operations[static_cast<size_t>(order_[place])];
  }
  const RecomputeProblem::Value& value(int number) const {
    return problem_.values[static_cast<size_t>(number)];
  }
  size_t made_at(int number) const {
    return place_[static_cast<size_t>(uses_.maker[static_cast<size_t>(number)])];
  }
  bool is_first_part(int number) const { return made_at(number) < turn_; }
  /// The last place below the turn that reads it; where it is made, if none does.
  size_t last_read_in_first_part(int number) const {
    size_t last = made_at(number);
    for (const int reader : uses_.readers[static_cast<size_t>(number)]) {
      const size_t at = place_[static_cast<size_t>(reader)];
      if (at < turn_) last = std::max(last, at);
    }
    return last;
  }
  bool is_read_in_second_part(int number) const {
    return std::ranges::any_of(uses_.readers[static_cast<size_t>(number)],
                               [&](int reader) { return place_[static_cast<size_t>(reader)] >= turn_; });
  }

  std::vector<ChainStage> stages_at(size_t turn) {
    turn_ = turn;
    std::vector<ChainStage> found = cut();
    if (found.size() < 2 || !assign_second_part(found)) return {};
    // It runs, even if it only makes what is kept; those before it run for it.
    found.back().wants_inner = true;
    measure(found);
    return found;
  }

  /// The first part in stages; also sets stage_of_.
  std::vector<ChainStage> cut() {
    stage_of_.assign(problem_.values.size(), -1);
    std::vector<ChainStage> found(1);
    std::vector<int> passing;  // values made before and read later in the first part
    size_t begin = 0;
    for (size_t place = 0; place < turn_; ++place) {
      const auto& operation = operation_at(place);
      if (operation.once) return {};
      ChainStage& stage = found.back();
      stage.operations.push_back(order_[place]);
      stage.cycles += operation.cycles;
      std::erase_if(passing, [&](int each) { return last_read_in_first_part(each) <= place; });
      for (const int made : operation.makes) {
        stage_of_[static_cast<size_t>(made)] = static_cast<int>(found.size()) - 1;
        // What is kept is there in any case, and counts in both parts.
        if (!value(made).is_kept && last_read_in_first_part(made) > place) passing.push_back(made);
      }
      const bool is_cut = passing.size() == 1 && made_at(passing[0]) >= begin;
      if (!is_cut || place + 1 == turn_) continue;
      stage.link = passing[0];
      stage.link_bytes = value(stage.link).bytes;
      found.emplace_back();
      begin = place + 1;
    }
    return found;
  }

  /// Which stage each operation of the second part is for: the last whose values it reads, and none before
  /// those of later operations.
  bool assign_second_part(std::vector<ChainStage>& found) const {
    std::vector<int> of(order_.size(), 0);
    for (size_t place = turn_; place < order_.size(); ++place) {
      for (const int read : operation_at(place).reads) {
        if (is_first_part(read) && !value(read).is_kept)
          of[place] = std::max(of[place], stage_of_[static_cast<size_t>(read)]);
      }
    }
    for (size_t place = order_.size(); place-- > turn_ + 1;)
      of[place - 1] = std::max(of[place - 1], of[place]);
    for (size_t place = turn_; place < order_.size(); ++place) {
      const int number = of[place];
      ChainStage& stage = found[static_cast<size_t>(number)];
      stage.done_for.push_back(order_[place]);
      for (const int read : operation_at(place).reads) {
        if (!is_first_part(read) || value(read).is_kept) continue;
        const int from = stage_of_[static_cast<size_t>(read)];
        const bool is_link = read == found[static_cast<size_t>(from)].link;
        if (from == number) {
          (is_link ? stage.wants_link : stage.wants_inner) = true;
        } else if (from == number - 1 && is_link) {
          stage.wants_input = true;
        } else {
          return false;
        }
      }
    }
    return true;
  }

  void measure(std::vector<ChainStage>& found) const {
    int64_t kept = 0;  // of the first part
    for (size_t k = 0; k < problem_.values.size(); ++k) {
      if (value(static_cast<int>(k)).is_kept && is_first_part(static_cast<int>(k)))
        kept += value(static_cast<int>(k)).bytes;
    }
    for (size_t k = 0; k < found.size(); ++k) {
      ChainStage& stage = found[k];
      const int input = k > 0 ? found[k - 1].link : -1;
      stage.run = run_bytes(stage, -1, false) + kept;
      stage.run_unheld = run_bytes(stage, input, false) + kept;
      stage.run_saving = run_bytes(stage, -1, true) + kept;
      for (const int operation : stage.operations) {
        for (const int made : problem_.operations[static_cast<size_t>(operation)].makes) {
          if (made != stage.link && !value(made).is_kept && is_read_in_second_part(made))
            stage.inner_bytes += value(made).bytes;
        }
      }
    }
    measure_second_part(found, kept);
  }

  /// Most that is alive while a stage runs: what it makes and, if it isn't -1, its input.
  int64_t run_bytes(const ChainStage& stage, int input, bool is_saving) const {
    int64_t most = 0;
    std::vector<int> alive;
    if (input >= 0) alive.push_back(input);
    for (const int number : stage.operations) {
      const size_t place = place_[static_cast<size_t>(number)];
      const auto& operation = problem_.operations[static_cast<size_t>(number)];
      for (const int made : operation.makes) {
        if (!value(made).is_kept) alive.push_back(made);
      }
      int64_t bytes = operation.workspace;
      for (const int each : alive) bytes += value(each).bytes;
      most = std::max(most, bytes);
      std::erase_if(alive, [&](int each) {
        const bool stays = each == stage.link || (is_saving && is_read_in_second_part(each));
        return !stays && last_read_in_first_part(each) <= place;
      });
    }
    return most;
  }

  void measure_second_part(std::vector<ChainStage>& found, int64_t kept) const {
    // What the second part makes, by place.
    std::vector<int64_t> own(order_.size() + 1, 0);
    std::vector<int64_t> across(order_.size() + 1, 0);  // alive before the place
    for (size_t k = 0; k < problem_.values.size(); ++k) {
      const int number = static_cast<int>(k);
      if (is_first_part(number)) continue;
      size_t last = made_at(number);
      for (const int reader : uses_.readers[k]) last = std::max(last, place_[static_cast<size_t>(reader)]);
      if (value(number).is_kept) last = order_.size() - 1;
      for (size_t place = made_at(number); place <= last; ++place) own[place] += value(number).bytes;
      for (size_t place = made_at(number) + 1; place <= last; ++place) across[place] += value(number).bytes;
    }
    for (size_t k = 0; k < found.size(); ++k) {
      ChainStage& stage = found[k];
      if (stage.done_for.empty()) continue;
      stage.before = across[place_[static_cast<size_t>(stage.done_for.front())]];
      const int input = k > 0 ? found[k - 1].link : -1;
      // Last places, in this stage's part, of what it reads of the first part.
      std::map<int, size_t> last;
      for (const int number : stage.done_for) {
        for (const int read : problem_.operations[static_cast<size_t>(number)].reads) {
          if (is_first_part(read) && !value(read).is_kept) last[read] = place_[static_cast<size_t>(number)];
        }
      }
      for (const int number : stage.done_for) {
        const size_t place = place_[static_cast<size_t>(number)];
        int64_t bytes = kept + own[place] + problem_.operations[static_cast<size_t>(number)].workspace;
        int64_t with_input = 0;
        for (const auto& [read, until] : last) {
          if (until >= place) (read == input ? with_input : bytes) += value(read).bytes;
        }
        stage.most = std::max(stage.most, bytes);
        stage.most_with_input = std::max(stage.most_with_input, bytes + with_input);
      }
    }
  }

  const RecomputeProblem& problem_;
  const RecomputeUses& uses_;
  const std::vector<int>& order_;
  std::vector<size_t> place_;  ///< by operation
  size_t turn_ = 0;
  std::vector<int> stage_of_;  ///< by value of the first part
};

class ChainSolver {
 public:
  ChainSolver(const std::vector<ChainStage>& stages, int64_t limit, int64_t most_states)
      : stages_(stages), limit_(limit), states_left_(most_states) {}

  /// The steps; nothing if there are none within the limit, or too many states.
  std::optional<std::vector<int>> run() {
    const int last = static_cast<int>(stages_.size()) - 1;
    if (cycles(0, last, 0, false) >= kNoWay || states_left_ < 0) return std::nullopt;
    std::vector<int> steps;
    emit(0, last, 0, false, steps);
    return steps;
  }
  bool ran_out() const { return states_left_ < 0; }
  size_t states() const { return memo_.size(); }

 private:
  enum class Way : uint8_t { kNone, kDone, kRunAndDo, kForget, kHold, kSave, kHoldLast };
  struct Best {
    int64_t cycles = kNoWay;
    Way way = Way::kNone;
    int link = 0;  ///< of kHold
  };
  using Key = std::tuple<int, int, bool, int64_t>;

  const ChainStage& stage(int number) const { return stages_[static_cast<size_t>(number)]; }
  bool is_ready(int first, int last, bool has_link) const {
    const ChainStage& each = stage(last);
    return (has_link || !each.wants_link) && !each.wants_inner && (first == last || !each.wants_input);
  }
  /// Whether the last stage can be done for, of which the first one's input is held: its own link and inner
  /// values are not in `held`.
  bool has_room_to_do(int first, int last, int64_t held) const {
    const ChainStage& each = stage(last);
    if (each.done_for.empty()) return held <= limit_;
    if (first == last && last > 0 && !stage(last - 1).wants_link)
      return held - stage(last - 1).link_bytes + each.most_with_input <= limit_;
    return held + each.most <= limit_;
  }

  /// Least cycles to do for the stages `last` down to `first`.
  int64_t cycles(int first, int last, int64_t held, bool has_link) {
    if (held > limit_ || states_left_ < 0) return kNoWay;
    const Key key = {first, last, has_link, held};
    const auto found = memo_.find(key);
    if (found != memo_.end()) return found->second.cycles;
    --states_left_;
    const Best best = choose(first, last, held, has_link);
    memo_[key] = best;
    return best.cycles;
  }

  Best choose(int first, int last, int64_t held, bool has_link) {
    const int64_t without = held - (has_link ? stage(last).link_bytes : 0);
    Best best;
    const auto offer = [&](int64_t cycles, Way way, int link = 0) {
      if (cycles < best.cycles) best = {cycles, way, link};
    };
    if (is_ready(first, last, has_link)) {
      if (has_room_to_do(first, last, without))
        offer(first == last ? 0 : cycles(first, last - 1, without, false), Way::kDone);
      return best;
    }
    const int64_t before = stage(last).before;
    if (has_link) offer(cycles(first, last, without, false), Way::kForget);
    if (first == last) {
      if (!has_link && held + stage(first).run_saving + before <= limit_ && has_room_to_do(first, last, held))
        offer(stage(first).cycles, Way::kRunAndDo);
      return best;
    }
    if (stage(first).wants_inner && held + stage(first).run_saving + before <= limit_ &&
        has_room_to_do(first, first, without)) {
      const int64_t saved = stage(first).link_bytes + stage(first).inner_bytes;
      offer(stage(first).cycles + cycles(first + 1, last, held + saved, has_link), Way::kSave);
    }
    int64_t run = 0;
    for (int link = first; link < last; ++link) {
      const ChainStage& each = stage(link);
      if (held + (link == first ? each.run : each.run_unheld) + before > limit_) return best;
      run += each.cycles;
      if (run >= best.cycles) return best;
      const int64_t upper = cycles(link + 1, last, held + each.link_bytes, has_link);
      if (upper >= kNoWay) continue;
      const int64_t lower = cycles(first, link, without + each.link_bytes, true);
      offer(run + upper + lower, Way::kHold, link);
    }
    const ChainStage& each = stage(last);
    if (!has_link && each.wants_link && !each.wants_inner && !each.wants_input &&
        held + each.run_unheld + before <= limit_)
      offer(run + each.cycles + cycles(first, last, held + each.link_bytes, true), Way::kHoldLast);
    return best;
  }

  void emit_run(int first, int last, std::vector<int>& steps) const {
    for (int k = first; k <= last; ++k)
      steps.insert(steps.end(), stage(k).operations.begin(), stage(k).operations.end());
  }
  void emit_done(int number, std::vector<int>& steps) const {
    steps.insert(steps.end(), stage(number).done_for.begin(), stage(number).done_for.end());
  }

  void emit(int first, int last, int64_t held, bool has_link, std::vector<int>& steps) const {
    const Best best = memo_.at({first, last, has_link, held});
    const int64_t without = held - (has_link ? stage(last).link_bytes : 0);
    switch (best.way) {
      case Way::kNone:
        return;
      case Way::kDone:
        emit_done(last, steps);
        if (first != last) emit(first, last - 1, without, false, steps);
        return;
      case Way::kRunAndDo:
        emit_run(first, first, steps);
        emit_done(first, steps);
        return;
      case Way::kForget:
        return emit(first, last, without, false, steps);
      case Way::kSave:
        emit_run(first, first, steps);
        emit(first + 1, last, held + stage(first).link_bytes + stage(first).inner_bytes, has_link, steps);
        emit_done(first, steps);
        return;
      case Way::kHold:
        emit_run(first, best.link, steps);
        emit(best.link + 1, last, held + stage(best.link).link_bytes, has_link, steps);
        return emit(first, best.link, without + stage(best.link).link_bytes, true, steps);
      case Way::kHoldLast:
        emit_run(first, last, steps);
        return emit(first, last, held + stage(last).link_bytes, true, steps);
    }
  }

  const std::vector<ChainStage>& stages_;
  int64_t limit_;
  int64_t states_left_;
  std::map<Key, Best> memo_;
};

/// The same with bytes in multiples of a unit, rounded up.
std::vector<ChainStage> rounded(std::vector<ChainStage> stages, int64_t unit) {
  for (ChainStage& stage : stages) {
    for (int64_t* bytes : {&stage.link_bytes, &stage.inner_bytes, &stage.run, &stage.run_unheld,
                           &stage.run_saving, &stage.before, &stage.most, &stage.most_with_input})
      *bytes = (*bytes + unit - 1) / unit;
  }
  return stages;
}

}  // namespace

std::optional<RecomputeSchedule> recompute_chain(const RecomputeProblem& problem,
                                                 const std::vector<int>& order, int64_t most_states) {
  const RecomputeUses uses(problem);
  const ChainFinder finder(problem, uses, order);
  if (finder.stages.empty()) return std::nullopt;
  const auto solve = [&](const std::vector<ChainStage>& stages, int64_t limit,
                         bool& ran_out) -> std::optional<RecomputeSchedule> {
    ChainSolver solver(stages, limit, most_states);
    auto steps = solver.run();
    ran_out = solver.ran_out();
    if (!steps) return std::nullopt;
    RecomputeSchedule schedule = finish_recompute(problem, std::move(*steps),
                                                  fmt::format("a chain of {} stages", finder.stages.size()));
    schedule.nodes = static_cast<int64_t>(solver.states());
    return schedule;
  };
  bool ran_out = false;
  auto schedule = solve(finder.stages, problem.limit, ran_out);
  constexpr int64_t kUnits = 500;
  if (!ran_out) return schedule;
  const int64_t unit = std::max<int64_t>(problem.limit / kUnits, 1);
  schedule = solve(rounded(finder.stages, unit), problem.limit / unit, ran_out);
  if (schedule) schedule->message += ", bytes rounded";
  return schedule;
}

}  // namespace kodama::scheduler
