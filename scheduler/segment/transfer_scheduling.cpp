#include "scheduler/segment/transfer_scheduling.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <mutex>
#include <optional>
#include <span>
#include <utility>

#include "isa/error.h"
#include "isa/parallel.h"
#include "isa/sequencer.h"
#include "passes/registry.h"
#include "scheduler/segment/transfer_parts.h"

namespace kodama::scheduler {
namespace {

/// Programs of the same parts, of which the fastest is kept; of equal ones, the one with the least number.
/// They may come in any order, from several threads.
class Fastest {
 public:
  Fastest(ScheduledParts program, int64_t number, const isa::Chip& chip)
      : chip_(chip), program_(std::move(program)), best_(predict(program_).first, number) {}

  /// Cycles of its parts.
  std::vector<int64_t> offer(ScheduledParts program, int64_t number) {
    auto [total, of_parts] = predict(program);
    const std::lock_guard lock(mutex_);
    const std::pair<int64_t, int64_t> offered(total, number);
    if (offered >= best_) return of_parts;
    best_ = offered;
    std::swap(program_, program);
    return of_parts;
  }
  int64_t number() const { return best_.second; }
  ScheduledParts take() { return std::move(program_); }

 private:
  std::pair<int64_t, std::vector<int64_t>> predict(const ScheduledParts& program) const {
    isa::CyclePredictor predictor(chip_);
    std::vector<int64_t> of_parts;
    const std::span<const isa::Statement> statements = program.program.statements;
    for (size_t part = 0; part + 1 < program.begin.size(); ++part) {
      // What stands before the first part's mark belongs to it.
      const size_t begin = part == 0 ? 0 : program.begin[part];
      const int64_t from = predictor.now();
      predictor.run(statements.subspan(begin, program.begin[part + 1] - begin));
      of_parts.push_back(predictor.now() - from);
    }
    return {predictor.finish().total(), std::move(of_parts)};
  }

  const isa::Chip& chip_;
  std::mutex mutex_;
  ScheduledParts program_;
  std::pair<int64_t, int64_t> best_;  ///< cycles and number
};

class SegmentScheduler {
 public:
  SegmentScheduler(const isa::Chip& chip, const TransferChoice& choice)
      : chip_(chip), choice_(choice), scheduler_(find_transfer_scheduler(choice.scheduler)) {}

  /// `has_scratch`: nobody but these parts reads what they call so.
  ScheduledParts run(std::span<const ProgramPart> parts, bool has_scratch) const {
    if (scheduler_.leaves_programs) return emit_plain(parts, chip_);
    const PlanLimits limits =
        parts.size() > 1 ? PlanLimits{choice_.most_tasks, kMostTransfers} : PlanLimits{};
    const auto analysis = analyze_parts(parts, chip_, limits, has_scratch);
    if (!analysis) return in_halves(parts, has_scratch, nullptr);
    Fastest best(emit_plain(parts, chip_), kPlain, chip_);
    plan(*analysis, parts, best);
    if (best.number() != kPlain || parts.size() == 1) return best.take();
    return in_halves(parts, has_scratch, &best);
  }

 private:
  /// In one plan. It is made again for each of its transfers that turns out to be in another's way.
  static constexpr size_t kMostTransfers = size_t{1} << 13;
  // Numbers of programs that are none of a schedule.
  static constexpr int64_t kPlain = -1;
  static constexpr int64_t kHalves = INT64_MAX;

  void plan(const PartsAnalysis& analysis, std::span<const ProgramPart> parts, Fastest& best) const {
    // Where there is no plan because something found no place, more of the parts keep their addresses.
    constexpr int kEighths = 8;
    for (int most = kEighths - 1; most >= kEighths / 2; --most) {
      const Formulation formulation =
          formulate(analysis, parts, chip_, chip_.memory.l2bm_lw / kEighths * most);
      check_problem(formulation.problem);
      std::vector<TransferSchedule> schedules;
      TransferTimes times;
      for (const int64_t end : analysis.part_end) times.ends.push_back(end + 1);
      const auto look_at = [&](std::vector<TransferSchedule> list) {
        const size_t known = schedules.size();
        std::ranges::move(list, std::back_inserter(schedules));
        times.cycles.resize(schedules.size());
        isa::for_each_in_parallel(schedules.size() - known, [&](size_t k) {
          const size_t number = known + k;
          times.cycles[number] =
              best.offer(emit_parts(analysis, formulation, schedules[number], parts, chip_),
                         static_cast<int64_t>(number));
        });
        return schedules.size() > known;
      };
      if (!look_at(solve(formulation.problem,
                         [&] { return scheduler_.run(formulation.problem, choice_.options); })))
        continue;
      // What is best for one part isn't for another.
      constexpr int kRounds = 2;
      for (int round = 0; round < kRounds && scheduler_.mix && parts.size() > 1; ++round) {
        if (!look_at(solve(formulation.problem, [&] {
              return scheduler_.mix(formulation.problem, choice_.options, schedules, times);
            })))
          break;
      }
      if (best.number() != kPlain && choice_.observe)
        choice_.observe(formulation.problem, schedules[static_cast<size_t>(best.number())]);
      return;
    }
  }
  template <typename Find>
  std::vector<TransferSchedule> solve(const TransferProblem& problem, const Find& find) const {
    std::vector<TransferSchedule> schedules;
    passes::run_blaming("transfer scheduler", scheduler_, [&] {
      schedules = find();
      for (const TransferSchedule& schedule : schedules) {
        const std::string fault = schedule_fault(problem, schedule);
        if (!fault.empty())
          throw isa::InternalError(fmt::format(
              "internal error found by schedule_fault: transfer scheduler '{}': {}", scheduler_.name, fault));
      }
    });
    return schedules;
  }

  /// What is too much for one plan, because the memory is too small for some of it or transfers of all crowd
  /// the ports, may be good in halves. `plain`: the parts one after the other, if that is known.
  ScheduledParts in_halves(std::span<const ProgramPart> parts, bool has_scratch, Fastest* plain) const {
    const size_t middle = parts.size() / 2;
    std::array<ScheduledParts, 2> halves;
    const auto work = [&](size_t k) {
      // What the second half may read is no scratch of the first.
      if (k == 0) halves[0] = run(parts.first(middle), false);
      if (k == 1) halves[1] = run(parts.subspan(middle), has_scratch);
    };
    // Plugins and those who look on are called one after the other.
    if (!passes::RegisteringPlugin::any() && !choice_.observe) {
      isa::for_each_in_parallel(halves.size(), work);
    } else {
      for (size_t k = 0; k < halves.size(); ++k) work(k);
    }
    ScheduledParts joined = join_parts(std::move(halves[0]), std::move(halves[1]), chip_);
    // Each half is at least as fast as its own parts one after the other.
    if (plain == nullptr) return joined;
    plain->offer(std::move(joined), kHalves);
    return plain->take();
  }

  const isa::Chip& chip_;
  const TransferChoice& choice_;
  const TransferScheduler& scheduler_;
};

}  // namespace

ScheduledParts schedule_transfers(const std::vector<ProgramPart>& parts, const isa::Chip& chip,
                                  const TransferChoice& choice) {
  return SegmentScheduler(chip, choice).run(parts, true);
}

}  // namespace kodama::scheduler
