/// What no transfer schedule can beat.
#include <algorithm>
#include <boost/icl/interval_map.hpp>
#include <map>
#include <numeric>
#include <set>

#include "scheduler/indexing.h"
#include "scheduler/transfer_problem.h"

namespace kodama::scheduler {
namespace {

using Buffer = TransferProblem::Buffer;
using Keep = TransferProblem::Keep;

/// Data that a kept buffer needs later, and the tasks between which it only waits for that.
struct Gap {
  int64_t first = 0;  ///< none if `last` is before it
  int64_t last = 0;
  int64_t size = 0;             ///< LW
  std::vector<int> saved = {};  ///< loads
};

/// Of members of one keep, which are one after the other as far as they have gaps.
std::vector<Gap> gaps(const TransferProblem& problem) {
  std::vector<Gap> result;
  for (const Keep& keep : problem.keeps) {
    if (keep.size > problem.capacity) continue;
    std::map<int, std::vector<int>> loads;  // by buffer
    for (const int load : keep.saved) loads[problem.transfers[index(load)].buffer].push_back(load);
    std::vector<int> members;
    for (const auto& member : keep.members) members.push_back(member.buffer);
    std::ranges::sort(members, {}, [&](int b) { return problem.buffers[index(b)].first_task; });
    // Before the first member there is nothing that waits.
    int64_t last = problem.buffers[index(members.front())].first_task - 1;
    for (const int b : members) {
      const Buffer& buffer = problem.buffers[index(b)];
      if (const auto saved = loads.find(b); saved != loads.end())
        result.push_back({last + 1, buffer.first_task - 1, buffer.size, saved->second});
      last = std::max(last, buffer.last_task);
    }
  }
  return result;
}

/// By task: what the buffers that it has to find there take at least. Members of a keep may share addresses.
std::vector<int64_t> occupied(const TransferProblem& problem) {
  using boost::icl::interval;
  boost::icl::interval_map<int64_t, int64_t> sizes;
  std::vector<bool> in_keep(problem.buffers.size(), false);
  const auto life = [&](const Buffer& buffer) {
    return interval<int64_t>::closed(buffer.first_task, buffer.last_task);
  };
  for (const Keep& keep : problem.keeps) {
    boost::icl::interval_map<int64_t, int64_t, boost::icl::partial_absorber, std::less,
                             boost::icl::inplace_max>
        largest;
    for (const auto& member : keep.members) {
      const Buffer& buffer = problem.buffers[index(member.buffer)];
      in_keep[index(member.buffer)] = true;
      largest += std::pair(life(buffer), buffer.size);
    }
    for (const auto& each : largest) sizes += each;
  }
  for (size_t b = 0; b < problem.buffers.size(); ++b) {
    if (!in_keep[b]) sizes += std::pair(life(problem.buffers[b]), problem.buffers[b].size);
  }
  std::vector<int64_t> result(problem.task_cycles.size(), 0);
  for (const auto& [tasks, size] : sizes) {
    for (int64_t t = tasks.lower(); t <= tasks.upper(); ++t) result[index(t)] = size;
  }
  return result;
}

/// The LW that can't stay, whoever chooses: where too much waits, what is needed last goes first, a part of
/// it if that is enough.
int64_t lw_without_room(const TransferProblem& problem, const std::vector<Gap>& all) {
  const std::vector<int64_t> taken = occupied(problem);
  std::vector<std::vector<size_t>> beginning(problem.task_cycles.size());
  std::vector<int64_t> staying;  // LW, by gap
  for (size_t g = 0; g < all.size(); ++g) {
    staying.push_back(all[g].size);
    if (all[g].first <= all[g].last) beginning[index(all[g].first)].push_back(g);
  }
  std::set<std::pair<int64_t, size_t>> waiting;  // last task, gap
  int64_t sum = 0;
  int64_t gone = 0;
  for (size_t t = 0; t < taken.size(); ++t) {
    while (!waiting.empty() && waiting.begin()->first < static_cast<int64_t>(t)) {
      sum -= staying[waiting.begin()->second];
      waiting.erase(waiting.begin());
    }
    for (const size_t g : beginning[t]) {
      waiting.emplace(all[g].last, g);
      sum += staying[g];
    }
    while (!waiting.empty() && sum > problem.capacity - taken[t]) {
      const auto furthest = std::prev(waiting.end());
      int64_t& lw = staying[furthest->second];
      const int64_t part = std::min(lw, sum - std::max<int64_t>(problem.capacity - taken[t], 0));
      lw -= part;
      sum -= part;
      gone += part;
      if (lw == 0) waiting.erase(furthest);
    }
  }
  return gone;
}

}  // namespace

TransferBound transfer_bound(const TransferProblem& problem) {
  TransferBound bound;
  bound.tasks = std::accumulate(problem.task_cycles.begin(), problem.task_cycles.end(), int64_t{0});
  const std::vector<Gap> all = gaps(problem);
  const int64_t loaded = lw_without_room(problem, all);

  std::vector<int64_t> busy(problem.ports.size(), 0);
  const auto add = [&](int transfer, std::vector<int64_t>& cycles) {
    for (const auto& use : problem.transfers[index(transfer)].uses) cycles[index(use.port)] += use.cycles;
  };
  for (size_t k = 0; k < problem.transfers.size(); ++k) add(static_cast<int>(k), busy);
  std::vector<std::vector<int64_t>> savings;  // by gap and port
  for (const Gap& gap : all) {
    savings.emplace_back(problem.ports.size(), 0);
    for (const int load : gap.saved) add(load, savings.back());
    for (size_t p = 0; p < busy.size(); ++p) busy[p] -= savings.back()[p];
  }
  for (size_t p = 0; p < busy.size(); ++p) {
    // Which LW are loaded is not known: those that this port passes fastest.
    std::vector<size_t> order(all.size());
    std::iota(order.begin(), order.end(), size_t{0});
    const auto cycles_per_lw = [&](size_t g) {
      return static_cast<double>(savings[g][p]) / static_cast<double>(all[g].size);
    };
    std::ranges::stable_sort(order, {}, cycles_per_lw);
    int64_t left = loaded;
    for (const size_t g : order) {
      const int64_t lw = std::min(left, all[g].size);
      busy[p] += savings[g][p] * lw / all[g].size;
      left -= lw;
    }
    bound.ports = std::max(bound.ports, busy[p]);
  }
  return bound;
}

}  // namespace kodama::scheduler
