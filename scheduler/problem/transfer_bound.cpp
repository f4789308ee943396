/// What no transfer schedule can beat.
#include <algorithm>
#include <numeric>
#include <set>
#include <tuple>

#include "scheduler/problem/indexing.h"
#include "scheduler/problem/transfer_problem.h"

namespace kodama::scheduler {
namespace {

using Buffer = TransferProblem::Buffer;
using Keep = TransferProblem::Keep;
using Transfer = TransferProblem::Transfer;

/// Moments, as in schedule_fault: 2 p is position p, 2 t + 1 is during task t. Both ends belong to a life.
struct Life {
  int64_t first = 0;
  int64_t last = 0;
};

/// When a transfer is over at the earliest, and what must come behind its end, in cycles. For loads that may
/// fall away: if they don't.
struct Times {
  std::vector<int64_t> moving;  ///< when it takes its ports, at the earliest
  std::vector<int64_t> behind;
  int64_t longest = 0;  ///< the longest row of tasks and transfers, each of which waits for the one before it
};

class BoundFinder {
 public:
  explicit BoundFinder(const TransferProblem& problem)
      : problem_(problem),
        tasks_(std::ssize(problem.task_cycles)),
        is_droppable_(problem.transfers.size(), false),
        earliest_(problem.transfers.size(), 0) {
    for (const Keep& keep : problem.keeps) {
      // What is larger than the memory can't stay.
      for (const int load : keep.saved) is_droppable_[index(load)] = keep.size <= problem.capacity;
    }
    for (size_t k = 0; k < problem.transfers.size(); ++k) {
      earliest_[k] = problem.transfers[k].earliest;
      if (problem.transfers[k].is_scratch) is_droppable_[k] = true;
      if (problem.transfers[k].copy) continue;
      for (const int other : problem.transfers[k].after)
        earliest_[k] = std::max(earliest_[k], earliest_[index(other)]);
      earliest_[k] = std::min(earliest_[k], problem.transfers[k].latest);
    }
    behind_task_.assign(index(tasks_) + 1, 0);
    for (int64_t t = tasks_; t-- > 0;)
      behind_task_[index(t)] = behind_task_[index(t + 1)] + problem.task_cycles[index(t)];
  }

  TransferBound run() {
    const Times times = find_times();
    TransferBound bound;
    bound.tasks = times.longest;
    const std::vector<Gap> all = gaps();
    const int64_t without_room = lw_without_room(all);
    for (size_t p = 0; p < problem_.ports.size(); ++p)
      bound.ports = std::max(bound.ports, port_bound(static_cast<int>(p), times, all, without_room));
    bound.ports = std::max(bound.ports, start_bound(times));
    return bound;
  }

 private:
  /// Data that a kept buffer needs later, and the moments between which it only waits for that.
  struct Gap {
    Life life;                    ///< none if `last` is before `first`
    int64_t size = 0;             ///< LW
    std::vector<int> saved = {};  ///< loads
  };
  /// Something that a port does: from `release` on, with `delivery` cycles behind it.
  struct Job {
    int64_t release = 0;
    int64_t delivery = 0;
    int64_t cycles = 0;
  };

  const Transfer& transfer(size_t k) const { return problem_.transfers[k]; }
  /// The shorter way, where there are two.
  int64_t cycles_of(size_t k) const {
    const Transfer& t = transfer(k);
    return t.copy ? std::min(t.cycles(), t.copy->cycles()) : t.cycles();
  }
  int64_t latency_of(size_t k) const {
    const Transfer& t = transfer(k);
    return t.copy ? std::min(t.latency, t.copy->latency) : t.latency;
  }

  Times find_times() const {
    const size_t count = problem_.transfers.size();
    Times times{std::vector<int64_t>(count, 0), std::vector<int64_t>(count, 0), 0};
    std::vector<std::vector<size_t>> at(index(tasks_) + 1);
    for (size_t k = 0; k < count; ++k) at[index(earliest_[k])].push_back(k);
    std::vector<int64_t> end(count, 0);
    std::vector<int64_t> awaited(index(tasks_) + 1, 0);  // loads that must be over, by position
    int64_t time = 0;
    for (int64_t p = 0; p <= tasks_; ++p) {
      const int64_t reached = time;
      for (const size_t k : at[index(p)]) {
        int64_t start = reached;
        for (const int other : transfer(k).after) {
          if (!transfer(k).copy && !is_droppable_[index(other)]) start = std::max(start, end[index(other)]);
        }
        times.moving[k] = start + latency_of(k);
        end[k] = start + cycles_of(k);
        if (is_droppable_[k]) continue;
        times.longest = std::max(times.longest, end[k]);
        // A store that must wait is issued all the same before anything goes on.
        if (!transfer(k).is_load) time = std::max(time, start);
        if (transfer(k).is_load)
          awaited[index(transfer(k).latest)] = std::max(awaited[index(transfer(k).latest)], end[k]);
      }
      time = std::max(time, awaited[index(p)]);
      if (p < tasks_) time += problem_.task_cycles[index(p)];
    }
    times.longest = std::max(times.longest, time);
    for (size_t k = count; k-- > 0;) {
      const int64_t own = transfer(k).is_load ? behind_task_[index(transfer(k).latest)] : 0;
      times.behind[k] = std::max(times.behind[k], own);
      // Those behind it may not come behind it.
      if (is_droppable_[k] || transfer(k).copy) continue;
      for (const int other : transfer(k).after) {
        int64_t& behind = times.behind[index(other)];
        behind = std::max(behind, cycles_of(k) + times.behind[k]);
        if (!transfer(k).is_load) behind = std::max(behind, behind_task_[index(transfer(k).latest)]);
      }
    }
    return times;
  }

  /// By buffer: the moments in which it lives, whatever the schedule.
  std::vector<Life> lives() const {
    std::vector<Life> result;
    for (const Buffer& buffer : problem_.buffers)
      result.push_back({2 * buffer.first_task + 1, 2 * buffer.last_task + 1});
    for (size_t k = 0; k < problem_.transfers.size(); ++k) {
      if (is_droppable_[k]) continue;
      Life& life = result[index(transfer(k).buffer)];
      life.first = std::min(life.first, 2 * transfer(k).latest);
      life.last = std::max(life.last, 2 * earliest_[k]);
    }
    return result;
  }

  /// Of members of one keep, which are one after the other as far as they have gaps.
  std::vector<Gap> gaps() const {
    const std::vector<Life> all_lives = lives();
    std::vector<Gap> result;
    for (const Keep& keep : problem_.keeps) {
      if (keep.size > problem_.capacity) continue;
      std::vector<int> members;
      for (const auto& member : keep.members) members.push_back(member.buffer);
      std::ranges::sort(members, {}, [&](int b) { return all_lives[index(b)].first; });
      // Before the first member there is nothing that waits.
      int64_t last = all_lives[index(members.front())].first - 1;
      for (const int b : members) {
        const Life& life = all_lives[index(b)];
        Gap gap{{last + 1, life.first - 1}, problem_.buffers[index(b)].size, {}};
        for (const int load : keep.saved) {
          if (transfer(index(load)).buffer == b) gap.saved.push_back(load);
        }
        if (!gap.saved.empty()) result.push_back(std::move(gap));
        last = std::max(last, life.last);
      }
    }
    return result;
  }

  /// By moment: what the buffers that live then take at least. Members of a keep may share addresses, so the
  /// largest of them counts.
  std::vector<int64_t> occupied() const {
    const std::vector<Life> all_lives = lives();
    std::vector<int64_t> change(index(2 * tasks_) + 3, 0);
    const auto add = [&](int64_t first, int64_t last, int64_t size) {
      change[index(first)] += size;
      change[index(last) + 1] -= size;
    };
    std::vector<bool> in_keep(problem_.buffers.size(), false);
    for (const Keep& keep : problem_.keeps) {
      // Members by their beginning and end, and the sizes of those that live.
      std::vector<std::tuple<int64_t, bool, int64_t>> events;  // moment, begins, size
      for (const auto& member : keep.members) {
        in_keep[index(member.buffer)] = true;
        const Life& life = all_lives[index(member.buffer)];
        events.emplace_back(life.first, true, problem_.buffers[index(member.buffer)].size);
        events.emplace_back(life.last + 1, false, problem_.buffers[index(member.buffer)].size);
      }
      std::ranges::sort(events);
      std::multiset<int64_t> alive;
      int64_t since = 0;
      for (const auto& [moment, begins, size] : events) {
        if (!alive.empty() && moment > since) add(since, moment - 1, *alive.rbegin());
        since = moment;
        if (begins) {
          alive.insert(size);
        } else {
          alive.erase(alive.find(size));
        }
      }
    }
    for (size_t b = 0; b < problem_.buffers.size(); ++b) {
      if (!in_keep[b]) add(all_lives[b].first, all_lives[b].last, problem_.buffers[b].size);
    }
    std::partial_sum(change.begin(), change.end(), change.begin());
    return change;
  }

  /// The LW that can't stay, whoever chooses: where too much waits, what is needed last goes first, a part of
  /// it if that is enough.
  int64_t lw_without_room(const std::vector<Gap>& all) const {
    const std::vector<int64_t> taken = occupied();
    std::vector<std::vector<size_t>> beginning(taken.size());
    std::vector<int64_t> staying;  // LW, by gap
    for (size_t g = 0; g < all.size(); ++g) {
      staying.push_back(all[g].size);
      if (all[g].life.first <= all[g].life.last) beginning[index(all[g].life.first)].push_back(g);
    }
    std::set<std::pair<int64_t, size_t>> waiting;  // last moment, gap
    int64_t sum = 0;
    int64_t gone = 0;
    for (size_t t = 0; t < taken.size(); ++t) {
      while (!waiting.empty() && waiting.begin()->first < static_cast<int64_t>(t)) {
        sum -= staying[waiting.begin()->second];
        waiting.erase(waiting.begin());
      }
      for (const size_t g : beginning[t]) {
        waiting.emplace(all[g].life.last, g);
        sum += staying[g];
      }
      const int64_t room = std::max<int64_t>(problem_.capacity - taken[t], 0);
      while (!waiting.empty() && sum > room) {
        const auto furthest = std::prev(waiting.end());
        int64_t& lw = staying[furthest->second];
        const int64_t part = std::min(lw, sum - room);
        lw -= part;
        sum -= part;
        gone += part;
        if (lw == 0) waiting.erase(furthest);
      }
    }
    return gone;
  }

  int64_t port_cycles(size_t k, int port) const {
    const auto in = [&](const std::vector<TransferProblem::PortUse>& uses) {
      int64_t cycles = 0;
      for (const auto& use : uses) cycles += use.port == port ? use.cycles : 0;
      return cycles;
    };
    const Transfer& t = transfer(k);
    return t.copy ? std::min(in(t.uses), in(t.copy->uses)) : in(t.uses);
  }

  /// Jobs one after the other, from the earliest on of those that come late, until the end that the earliest
  /// of those that end late leaves.
  static int64_t one_after_the_other(std::vector<Job> jobs) {
    // More releases than this only cost time.
    constexpr size_t kReleases = 256;
    std::vector<int64_t> releases;
    for (const Job& job : jobs) releases.push_back(job.release);
    std::ranges::sort(releases);
    releases.erase(std::unique(releases.begin(), releases.end()), releases.end());
    std::ranges::sort(jobs, std::ranges::greater(), &Job::delivery);
    int64_t longest = 0;
    const size_t stride = releases.size() / kReleases + 1;
    for (size_t r = 0; r < releases.size(); r += stride) {
      int64_t cycles = 0;
      for (const Job& job : jobs) {
        if (job.release < releases[r]) continue;
        cycles += job.cycles;
        longest = std::max(longest, releases[r] + cycles + job.delivery);
      }
    }
    return longest;
  }

  int64_t port_bound(int port, const Times& times, const std::vector<Gap>& all, int64_t without_room) const {
    std::vector<Job> certain;
    Job sum{INT64_MAX, INT64_MAX, 0};
    for (size_t k = 0; k < problem_.transfers.size(); ++k) {
      const int64_t cycles = port_cycles(k, port);
      if (cycles == 0) continue;
      sum.release = std::min(sum.release, times.moving[k]);
      sum.delivery = std::min(sum.delivery, times.behind[k]);
      if (is_droppable_[k]) continue;
      certain.push_back({times.moving[k], times.behind[k], cycles});
      sum.cycles += cycles;
    }
    // Which LW are loaded is not known: those that this port passes fastest.
    struct Saving {
      int64_t cycles = 0;
      int64_t size = 0;
    };
    std::vector<Saving> savings;
    for (const Gap& gap : all) {
      Saving& saving = savings.emplace_back(Saving{0, gap.size});
      for (const int load : gap.saved) saving.cycles += port_cycles(index(load), port);
    }
    std::ranges::sort(savings, {}, [](const Saving& each) {
      return static_cast<double>(each.cycles) / static_cast<double>(each.size);
    });
    int64_t left = without_room;
    for (const Saving& saving : savings) {
      const int64_t lw = std::min(left, saving.size);
      sum.cycles += lw == saving.size
                        ? saving.cycles
                        : saving.cycles / saving.size * lw + saving.cycles % saving.size * lw / saving.size;
      left -= lw;
    }
    const int64_t together = sum.cycles == 0 ? 0 : sum.release + sum.cycles + sum.delivery;
    return std::max(together, one_after_the_other(std::move(certain)));
  }

  /// Transfers start one after the other, too.
  int64_t start_bound(const Times& times) const {
    std::vector<Job> starts;
    for (size_t k = 0; k < problem_.transfers.size(); ++k) {
      if (is_droppable_[k]) continue;
      starts.push_back({times.moving[k] - latency_of(k),
                        times.behind[k] + cycles_of(k) - problem_.issue_interval, problem_.issue_interval});
    }
    return problem_.issue_interval == 0 ? 0 : one_after_the_other(std::move(starts));
  }

  const TransferProblem& problem_;
  int64_t tasks_;
  std::vector<bool> is_droppable_;
  std::vector<int64_t> earliest_;     ///< position by transfer: what comes before it is issued, too
  std::vector<int64_t> behind_task_;  ///< by position: cycles of the tasks behind it
};

}  // namespace

TransferBound transfer_bound(const TransferProblem& problem) {
  return BoundFinder(problem).run();
}

}  // namespace kodama::scheduler
