#include "scheduler/optimizer/segment_search.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "isa/costs.h"
#include "scheduler/optimizer/stream_pruning.h"

namespace kodama::scheduler {
namespace {

using isa::HazardResource;
using isa::Operand;

class SegmentSearch {
 public:
  SegmentSearch(const ProgramStream& stream, const OperationFlow& flow, const ProgramSegment& segment,
                std::vector<StreamChange> changes, const Surroundings& around, const OptimizeOptions& options,
                const isa::Chip& chip)
      : stream_(stream),
        flow_(flow),
        segment_(segment),
        changes_(std::move(changes)),
        around_(around),
        options_(options),
        chip_(chip) {
    has_foreign_ = std::ranges::any_of(
        changes_, [](const StreamChange& change) { return !change_kinds()[change.kind].plugin.empty(); });
    local_.assign(static_cast<size_t>(segment.end - segment.begin), -1);
    for (int k = segment.begin; k < segment.end; ++k) {
      if (stream.dead[static_cast<size_t>(k)]) continue;
      local_[static_cast<size_t>(k - segment.begin)] = static_cast<int>(alive_.size());
      alive_.push_back(k);
      const StreamOperation& operation = stream.operations[static_cast<size_t>(k)];
      has_transfers_ = has_transfers_ || operation.is_mv || operation.is_wait;
    }
  }

  SegmentSolution run() {
    SegmentSolution best = search();
    if (best.length == INT64_MAX) return best;
    for (size_t c = 0; c < changes_.size(); ++c) {
      if (best.enabled[c]) best.changes[change_kinds()[changes_[c].kind].name] += changes_[c].count;
    }
    return best;
  }

 private:
  SegmentSolution search() {
    const int n = static_cast<int>(alive_.size());
    const auto cost = static_cast<int64_t>(n) * n + 50;
    // Evaluations and schedules per evaluation: about the same work whatever the size.
    budget_ = std::clamp<int64_t>(options_.effort * 40'000 / cost, 4, 20 * options_.effort);
    const int quick = n <= 200 ? 8 : 2;
    SegmentSolution best = evaluate(std::vector<bool>(changes_.size(), false), quick);
    if (options_.eager) {
      SegmentSolution all = evaluate(as_many_as_help(), quick);
      return all.length != INT64_MAX ? all : best;
    }
    if (!changes_.empty() && !is_optimal(best)) {
      SegmentSolution all = evaluate(as_many_as_help(), quick);
      if (is_better(all, best)) best = std::move(all);
      bool progress = true;
      while (progress && !is_optimal(best)) {
        progress = false;
        for (size_t c = 0; c < changes_.size() && budget_ > 0; ++c) {
          std::vector<bool> enabled = best.enabled;
          enabled[c] = !enabled[c];
          SegmentSolution other = evaluate(enabled, quick);
          if (!is_better(other, best)) continue;
          best = std::move(other);
          progress = true;
        }
      }
    }
    if (best.length != INT64_MAX && !is_optimal(best)) {
      SegmentSolution last = evaluate(best.enabled, n <= 200 ? static_cast<int>(4 * options_.effort) : 8);
      if (is_better(last, best)) best = std::move(last);
    }
    // What the schedule doesn't need stays as it was written.
    for (size_t c = changes_.size(); c-- > 0;) {
      if (best.length == INT64_MAX || !best.enabled[c]) continue;
      std::vector<bool> enabled = best.enabled;
      enabled[c] = false;
      SegmentSolution without = evaluate(enabled, quick);
      if (without.rank(options_.objective) <= best.rank(options_.objective)) best = std::move(without);
    }
    return best;
  }

  /// The operations with these changes; nothing where they don't go together.
  std::optional<StreamSegment> build(const std::vector<bool>& enabled) const {
    StreamSegment result;
    result.has_block_mask = segment_.has_block_mask();
    for (const int k : alive_) result.operations.push_back(stream_.operations[static_cast<size_t>(k)]);
    for (const ForwardLink& link : stream_.links) {
      if (link.producer < segment_.begin || link.producer >= segment_.end) continue;
      const ForwardLink here{local(link.producer), local(link.consumer)};
      if (here.consumer >= 0) result.links.push_back(here);
    }
    std::set<int> changed;
    std::map<int, std::set<Definition::Use>> unread;  // by definition
    std::map<int, HazardResource> moved;              // by definition
    std::set<int> also_read;                          // definitions
    // What else is changed about a value that moves sees it in its new place.
    for (const bool moves : {true, false}) {
      for (size_t c = 0; c < changes_.size(); ++c) {
        const StreamChange& change = changes_[c];
        if (!enabled[c] || change.moved_to.has_value() != moves) continue;
        if (moves && !moved.emplace(change.definition, *change.moved_to).second) return std::nullopt;
        if (change.also_reads >= 0) also_read.insert(change.also_reads);
        for (const StreamChange::Edit& edit : change.edits) {
          const int k = local(edit.operation);
          edit.make(result.operations[static_cast<size_t>(k)].instruction);
          changed.insert(k);
        }
        for (const ForwardLink& link : change.links)
          result.links.push_back({local(link.producer), local(link.consumer)});
        for (const Definition::Use& use : change.unread) {
          if (!unread[change.definition].insert(use).second) return std::nullopt;
        }
      }
    }
    for (const auto& [d, uses] : unread) {
      const Definition& definition = flow_.definitions[static_cast<size_t>(d)];
      if (definition.escapes || uses.size() != definition.uses.size() || also_read.contains(d)) continue;
      const int p = local(definition.operation);
      const auto elsewhere = moved.find(d);
      if (drop_destinations(result.operations[static_cast<size_t>(p)].instruction,
                            elsewhere == moved.end() ? definition.resource : elsewhere->second))
        changed.insert(p);
    }
    const auto is_moved = [&](int d) { return moved.contains(d); };
    if (std::ranges::any_of(also_read, is_moved)) return std::nullopt;
    if (has_foreign_ && !goes_together(result, changed)) return std::nullopt;
    for (const int k : changed)
      refresh(result.operations[static_cast<size_t>(k)], segment_.mask, stream_.moving, chip_);
    return result;
  }

  /// Whether changes that are right by themselves are so together: the changed operations are instructions,
  /// and who reads a forwarding register still reads that of whom it is tied to.
  bool goes_together(const StreamSegment& segment, const std::set<int>& changed) const {
    const auto instruction = [&](int k) -> const isa::Instruction& {
      return segment.operations[static_cast<size_t>(k)].instruction;
    };
    const auto is_legal = [&](int k) {
      return isa::operand_error(instruction(k)).empty() &&
             isa::issue_conflict({instruction(k)}, chip_).empty();
    };
    const auto is_tied = [&](const ForwardLink& link) {
      return std::ranges::any_of(instruction(link.consumer).sources, [&](const Operand& source) {
        return source.space == forwarding_register(instruction(link.producer));
      });
    };
    return std::ranges::all_of(changed, is_legal) && std::ranges::all_of(segment.links, is_tied);
  }

  int local(int k) const { return local_[static_cast<size_t>(k - segment_.begin)]; }
  bool by_cycles() const { return has_transfers_ && options_.objective == Objective::kCycles; }
  /// Of cycles with transfers there is no bound, nor where changes may use another unit, as a plugin's may.
  bool is_optimal(const SegmentSolution& solution) const {
    return !by_cycles() && !has_foreign_ &&
           solution.length <= std::max(solution.bounds.unit, solution.bounds.port);
  }
  bool is_better(const SegmentSolution& one, const SegmentSolution& other) const {
    return std::pair(one.rank(options_.objective), one.critical_path) <
           std::pair(other.rank(options_.objective), other.critical_path);
  }

  /// Predicted cycles up to the end of what is looked at behind the segment.
  int64_t cycles_of(const StreamSegment& segment, const ClusterScheduler::Times& times,
                    int64_t length) const {
    std::vector<size_t> order;
    for (size_t k = 0; k < times.size(); ++k) {
      if (segment.operations[k].is_mv || segment.operations[k].is_wait) order.push_back(k);
    }
    std::ranges::stable_sort(order, {},
                             [&](size_t k) { return std::pair(times[k], !segment.operations[k].is_mv); });
    isa::CyclePredictor clock(around_.clock);
    int64_t now = 0;
    for (const size_t k : order) {
      clock.steps(times[k] - now);
      now = times[k];
      const isa::Instruction& instruction = segment.operations[k].instruction;
      if (segment.operations[k].is_mv) {
        clock.mv(instruction);
      } else {
        clock.wait(instruction.tag);
      }
    }
    clock.steps(length - now);
    clock.run(around_.after);
    return clock.finish().total();
  }

  SegmentSolution evaluate(const std::vector<bool>& enabled, int tries) {
    --budget_;
    SegmentSolution result;
    result.enabled = enabled;
    auto segment = build(enabled);
    if (!segment) return result;
    result.segment = std::move(*segment);
    for (const bool keep_distances : {false, true}) {
      const ClusterScheduler scheduler(result.segment, around_.before, chip_, keep_distances);
      if (!scheduler.is_consistent()) continue;
      result.critical_path = scheduler.critical_path();
      result.bounds = scheduler.bounds();
      int64_t limit = 2 * segment_.length + 64;
      for (int variant = 0; variant < tries; ++variant) {
        if (by_cycles()) {
          // More steps may be fewer cycles.
          try_for_cycles(scheduler, variant, limit, result);
          continue;
        }
        auto times = scheduler.list(variant, limit);
        if (!times) continue;
        const int64_t length = scheduler.length(*times);
        if (length >= result.length) continue;
        result.length = length;
        result.times = std::move(*times);
        limit = length - 1;
        if (length <= result.bounds.steps) break;
      }
      if (has_transfers_ && !by_cycles() && result.length != INT64_MAX)
        result.cycles = cycles_of(result.segment, result.times, result.length);
      if (result.length != INT64_MAX) break;
    }
    return result;
  }

  void try_for_cycles(const ClusterScheduler& scheduler, int variant, int64_t limit,
                      SegmentSolution& best) const {
    for (const bool late_waits : {false, true}) {
      auto times = scheduler.list(variant, limit, late_waits);
      if (!times) continue;
      const int64_t length = scheduler.length(*times);
      const int64_t cycles = cycles_of(best.segment, *times, length);
      if (best.length != INT64_MAX && std::pair(cycles, length) >= std::pair(best.cycles, best.length))
        continue;
      best.length = length;
      best.cycles = cycles;
      best.times = std::move(*times);
    }
  }

  /// Takes every change that doesn't make the longest path longer, in program order.
  std::vector<bool> as_many_as_help() {
    std::vector<bool> enabled(changes_.size(), false);
    int64_t path = INT64_MAX;
    const auto path_with = [&]() -> int64_t {
      const auto segment = build(enabled);
      if (!segment) return INT64_MAX;
      const ClusterScheduler scheduler(*segment, around_.before, chip_, false);
      return scheduler.is_consistent() ? scheduler.critical_path() : INT64_MAX;
    };
    path = path_with();
    for (size_t c = 0; c < changes_.size() && (budget_ > 0 || options_.eager); ++c) {
      --budget_;
      enabled[c] = true;
      const int64_t with = path_with();
      if (with < INT64_MAX && (with <= path || options_.eager)) {
        path = with;
      } else {
        enabled[c] = false;
      }
    }
    return enabled;
  }

  const ProgramStream& stream_;
  const OperationFlow& flow_;
  const ProgramSegment& segment_;
  std::vector<StreamChange> changes_;
  const Surroundings& around_;
  bool has_transfers_ = false;
  bool has_foreign_ = false;  ///< changes of plugins
  const OptimizeOptions& options_;
  const isa::Chip& chip_;
  std::vector<int> local_;
  std::vector<int> alive_;
  int64_t budget_ = 0;
};

}  // namespace

SegmentSolution search_segment(const ProgramStream& stream, const OperationFlow& flow,
                               const ProgramSegment& segment, std::vector<StreamChange> changes,
                               const Surroundings& around, const OptimizeOptions& options,
                               const isa::Chip& chip) {
  return SegmentSearch(stream, flow, segment, std::move(changes), around, options, chip).run();
}

}  // namespace kodama::scheduler
