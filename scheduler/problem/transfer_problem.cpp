#include "scheduler/problem/transfer_problem.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <tuple>

#include "isa/error.h"
#include "scheduler/problem/indexing.h"

namespace kodama::scheduler {
namespace {

using Buffer = TransferProblem::Buffer;
using Keep = TransferProblem::Keep;
using Transfer = TransferProblem::Transfer;

constexpr const char* kTransferProblemPart = "transfer problem";
/// Later than any time: not over.
constexpr int64_t kNotIssued = INT64_MAX;

}  // namespace

namespace {

int64_t longest_use(const std::vector<TransferProblem::PortUse>& uses) {
  int64_t longest = 0;
  for (const TransferProblem::PortUse& use : uses) longest = std::max(longest, use.cycles);
  return longest;
}

}  // namespace

int64_t Transfer::cycles() const {
  return latency + longest_use(uses);
}
int64_t Transfer::Copy::cycles() const {
  return latency + longest_use(uses);
}

std::vector<int> issue_order(const TransferProblem& problem, const TransferSchedule& schedule) {
  std::vector<std::tuple<int64_t, int, int64_t, int>> keys;
  std::map<int64_t, std::vector<size_t>> stores;  // by position
  for (size_t k = 0; k < problem.transfers.size(); ++k) {
    if (!problem.transfers[k].is_load && schedule.issue[k] != TransferSchedule::kDropped)
      stores[schedule.issue[k]].push_back(k);
  }
  // A load where what is stored at its position has been; a buffer with a fixed address may be several that
  // use one place in turn, in the order of the list.
  const auto takes_place = [&](size_t load, int64_t position) {
    const auto there = stores.find(position);
    if (there == stores.end()) return false;
    const int own = problem.transfers[load].buffer;
    const int64_t begin = schedule.address[index(own)];
    const int64_t end = begin + problem.buffers[index(own)].size;
    return std::ranges::any_of(there->second, [&](size_t store) {
      const int other = problem.transfers[store].buffer;
      const int64_t at = schedule.address[index(other)];
      if (other == own) return store < load && problem.buffers[index(own)].fixed_address.has_value();
      return at < end && begin < at + problem.buffers[index(other)].size;
    });
  };
  for (size_t k = 0; k < problem.transfers.size(); ++k) {
    const int64_t at = schedule.issue[k];
    if (at == TransferSchedule::kDropped) continue;
    const Transfer& transfer = problem.transfers[k];
    const bool needs_neighbour = !schedule.copied[k] && std::ranges::any_of(transfer.after, [&](int other) {
      return schedule.issue[index(other)] == at;
    });
    const bool is_awaited =
        transfer.is_load && transfer.latest == at && !needs_neighbour && !takes_place(k, at);
    const int turn = is_awaited ? 0 : transfer.is_load ? 2 : 1;
    keys.emplace_back(at, turn, turn == 2 ? transfer.latest : 0, static_cast<int>(k));
  }
  std::ranges::sort(keys);
  // Whatever the turns say, a transfer comes behind those that it needs.
  std::vector<int> order;
  std::vector<bool> is_done(problem.transfers.size(), false);
  std::vector<int> open;  // each needs those on top of it
  for (const auto& key : keys) {
    open.push_back(std::get<3>(key));
    while (!open.empty()) {
      const int next = open.back();
      const auto needed = std::ranges::find_if(problem.transfers[index(next)].after, [&](int other) {
        return !schedule.copied[index(next)] && !is_done[index(other)] &&
               schedule.issue[index(other)] == std::get<0>(key);
      });
      if (needed != problem.transfers[index(next)].after.end() && !is_done[index(next)]) {
        open.push_back(*needed);
        continue;
      }
      if (!is_done[index(next)]) order.push_back(next);
      is_done[index(next)] = true;
      open.pop_back();
    }
  }
  return order;
}

TransferClock::TransferClock(const TransferProblem& problem)
    : problem_(&problem),
      under_way_(problem.queues.empty() ? 1 : 1 + index(*std::ranges::max_element(problem.queues))),
      port_free_(problem.ports.size(), 0),
      done_(problem.transfers.size(), kNotIssued),
      awaited_(problem.task_cycles.size() + 1, 0) {}

void TransferClock::issue(int transfer, bool copied) {
  const Transfer& t = problem_->transfers[index(transfer)];
  const int64_t latency = copied ? t.copy->latency : t.latency;
  for (const int other : t.after) {
    if (!copied && done_[index(other)] != kNotIssued) time_ = std::max(time_, done_[index(other)]);
  }
  const auto& uses = copied ? t.copy->uses : t.uses;
  std::vector<size_t> queues;
  for (const auto& use : uses) queues.push_back(queue_of(use));
  if (problem_->queues.empty()) queues = {0};
  std::ranges::sort(queues);
  queues.erase(std::unique(queues.begin(), queues.end()), queues.end());
  for (const size_t queue : queues) {
    std::vector<int64_t>& under_way = under_way_[queue];
    under_way.erase(under_way.begin(), std::ranges::upper_bound(under_way, time_));
    if (problem_->max_in_flight == 0 || std::ssize(under_way) < problem_->max_in_flight) continue;
    // The tasks are held until there is room.
    time_ = under_way[under_way.size() - index(problem_->max_in_flight)];
  }
  const int64_t start = std::max(time_, next_start_);
  next_start_ = start + problem_->issue_interval;
  int64_t end = start + latency;
  for (const auto& use : uses) {
    int64_t& free = port_free_[index(use.port)];
    free = std::max(free, start + latency) + use.cycles;
    end = std::max(end, free);
  }
  done_[index(transfer)] = end;
  for (const size_t queue : queues) {
    std::vector<int64_t>& under_way = under_way_[queue];
    under_way.insert(std::ranges::upper_bound(under_way, end), end);
  }
  last_ = std::max(last_, end);
  if (t.is_load) awaited_[index(t.latest)] = std::max(awaited_[index(t.latest)], end);
}

size_t TransferClock::queue_of(const TransferProblem::PortUse& use) const {
  return problem_->queues.empty() ? 0 : index(problem_->queues[index(use.port)]);
}

int64_t TransferClock::in_flight(const std::vector<TransferProblem::PortUse>& uses) const {
  const auto in_queue = [&](size_t queue) -> int64_t {
    return under_way_[queue].end() - std::ranges::upper_bound(under_way_[queue], time_);
  };
  if (problem_->queues.empty()) return in_queue(0);
  int64_t most = 0;
  for (const auto& use : uses) most = std::max(most, in_queue(queue_of(use)));
  return most;
}

void TransferClock::await(int64_t position) {
  time_ = time_after_waits(position);
}
int64_t TransferClock::time_after_waits(int64_t position) const {
  return std::max(time_, awaited_[index(position)]);
}
bool TransferClock::is_over(const std::vector<int>& transfers) const {
  return std::ranges::all_of(transfers, [&](int k) { return done_[index(k)] <= time_; });
}
int64_t TransferClock::port_time(const std::vector<TransferProblem::PortUse>& uses) const {
  int64_t time = time_;
  for (const auto& use : uses) time = std::max(time, port_free_[index(use.port)]);
  return time;
}

int64_t estimated_cycles(const TransferProblem& problem, const TransferSchedule& schedule) {
  const std::vector<int> order = issue_order(problem, schedule);
  TransferClock clock(problem);
  auto next = order.begin();
  const auto tasks = static_cast<int64_t>(problem.task_cycles.size());
  for (int64_t p = 0; p <= tasks; ++p) {
    for (; next != order.end() && schedule.issue[index(*next)] == p; ++next)
      clock.issue(*next, schedule.copied[index(*next)]);
    clock.await(p);
    if (p < tasks) clock.run(problem.task_cycles[index(p)]);
  }
  return clock.end();
}

std::string problem_fault(const TransferProblem& problem) {
  const auto tasks = static_cast<int64_t>(problem.task_cycles.size());
  std::string fault;
  const auto require = [&](bool right, fmt::string_view text, const auto&... values) {
    if (!right && fault.empty()) fault = fmt::vformat(text, fmt::make_format_args(values...));
    return right;
  };
  const auto in_range = [&](int64_t value, int64_t least, int64_t most, fmt::string_view what) {
    return require(value >= least && value <= most, "{}: found {}, allowed: {} to {}", what, value, least,
                   most);
  };
  in_range(problem.capacity, 0, kMostCycles, "capacity");
  in_range(problem.issue_interval, 0, kMostCycles, "issue_interval");
  in_range(problem.max_in_flight, 0, kMostCycles, "max_in_flight");
  require(problem.queues.empty() || problem.queues.size() == problem.ports.size(),
          "found queues of {} ports, allowed: of none, or of all {}", problem.queues.size(),
          problem.ports.size());
  for (const int queue : problem.queues)
    in_range(queue, 0, static_cast<int64_t>(problem.ports.size()) - 1, "queue of a port");
  for (const int64_t cycles : problem.task_cycles) in_range(cycles, 0, kMostCycles, "cycles of a task");
  for (const Buffer& buffer : problem.buffers) {
    require(buffer.size > 0 && buffer.size <= kMostCycles && buffer.alignment > 0 && buffer.phase >= 0 &&
                buffer.phase < buffer.alignment,
            "buffer '{}': found size {}, alignment {}, phase {}, allowed: a size and an alignment of 1 and "
            "more, a phase below the alignment",
            buffer.name, buffer.size, buffer.alignment, buffer.phase);
    require(0 <= buffer.first_task && buffer.first_task <= buffer.last_task && buffer.last_task < tasks,
            "buffer '{}': found tasks {} to {}, allowed: rising, from 0 to {}", buffer.name,
            buffer.first_task, buffer.last_task, tasks - 1);
    if (buffer.fixed_address) in_range(*buffer.fixed_address, 0, kMostCycles, "fixed_address of a buffer");
  }
  const int64_t last_buffer = std::ssize(problem.buffers) - 1;
  for (size_t k = 0; k < problem.transfers.size(); ++k) {
    const Transfer& transfer = problem.transfers[k];
    in_range(transfer.buffer, 0, last_buffer, "'buffer' of a transfer");
    if (transfer.copy) {
      in_range(transfer.copy->source, 0, transfer.is_load ? last_buffer : -1,
               "'source' of a transfer's copy, which loads may have");
      in_range(transfer.copy->latency, 0, kMostCycles, "latency of a copy");
    }
    require(!transfer.is_scratch || !transfer.is_load,
            "transfer '{}': found a load that is scratch, allowed: stores", transfer.text);
    require(0 <= transfer.earliest && transfer.earliest <= transfer.latest && transfer.latest <= tasks &&
                (transfer.is_load || transfer.earliest == transfer.latest),
            "transfer '{}': found positions {} to {}, allowed: rising, from 0 to {}, and equal for a store",
            transfer.text, transfer.earliest, transfer.latest, tasks);
    in_range(transfer.latency, 0, kMostCycles, "latency of a transfer");
    for (const int other : transfer.after)
      in_range(other, 0, static_cast<int64_t>(k) - 1, "'after' of a transfer, which are earlier in the list");
    for (const auto* uses : {&transfer.uses, transfer.copy ? &transfer.copy->uses : nullptr}) {
      if (uses == nullptr) continue;
      for (const auto& use : *uses) {
        in_range(use.port, 0, std::ssize(problem.ports) - 1, "'port' of a transfer");
        in_range(use.cycles, 0, kMostCycles, "cycles of a port");
      }
    }
  }
  std::vector<bool> taken(problem.buffers.size(), false);
  std::vector<bool> saved(problem.transfers.size(), false);
  for (const Keep& keep : problem.keeps) {
    in_range(keep.size, 0, kMostCycles, "size of a keep");
    require(!keep.members.empty(), "found a keep without members, allowed: a list of buffers");
    for (const auto& member : keep.members) {
      if (!in_range(member.buffer, 0, last_buffer, "'buffer' of a keep")) return fault;
      require(!taken[index(member.buffer)] && member.offset >= 0 &&
                  member.offset + problem.buffers[index(member.buffer)].size <= keep.size,
              "a keep of {} LW has buffer '{}' at {}; allowed: inside it, and a buffer in one keep only",
              keep.size, problem.buffers[index(member.buffer)].name, member.offset);
      taken[index(member.buffer)] = true;
    }
    for (const int load : keep.saved) {
      if (!in_range(load, 0, std::ssize(problem.transfers) - 1, "'saved' of a keep")) return fault;
      const Transfer& transfer = problem.transfers[index(load)];
      require(!saved[index(load)] && transfer.is_load &&
                  std::ranges::any_of(keep.members,
                                      [&](const auto& member) { return member.buffer == transfer.buffer; }),
              "a keep saves transfer {}; allowed: loads of its members, each once", load);
      saved[index(load)] = true;
    }
  }
  return fault;
}

void check_problem(const TransferProblem& problem) {
  const std::string fault = problem_fault(problem);
  isa::check_internal(fault.empty(), kTransferProblemPart, "'{}': {}", problem.name, fault);
}

std::string schedule_fault(const TransferProblem& problem, const TransferSchedule& schedule) {
  if (schedule.issue.size() != problem.transfers.size() ||
      schedule.copied.size() != problem.transfers.size() ||
      schedule.address.size() != problem.buffers.size() || schedule.kept.size() != problem.keeps.size())
    return fmt::format("{} positions, {} addresses, {} keeps for {} transfers, {} buffers, {} keeps",
                       schedule.issue.size(), schedule.address.size(), schedule.kept.size(),
                       problem.transfers.size(), problem.buffers.size(), problem.keeps.size());
  std::vector<bool> droppable(problem.transfers.size(), false);
  std::vector<bool> is_needed(problem.transfers.size(), false);  // in DRAM, by somebody in the problem
  for (size_t k = 0; k < problem.transfers.size(); ++k) {
    if (schedule.copied[k] && (!problem.transfers[k].copy || schedule.issue[k] == TransferSchedule::kDropped))
      return fmt::format("'{}' is a copy, but there is none of it, or it falls away",
                         problem.transfers[k].text);
    if (schedule.copied[k] || schedule.issue[k] == TransferSchedule::kDropped) continue;
    for (const int other : problem.transfers[k].after) is_needed[index(other)] = true;
  }
  std::vector<int> keep_of(problem.buffers.size(), -1);
  for (size_t k = 0; k < problem.keeps.size(); ++k) {
    if (!schedule.kept[k]) continue;
    for (const int load : problem.keeps[k].saved) droppable[index(load)] = true;
    std::optional<int64_t> base;
    for (const auto& member : problem.keeps[k].members) {
      keep_of[index(member.buffer)] = static_cast<int>(k);
      const int64_t lowest = schedule.address[index(member.buffer)] - member.offset;
      if (base && *base != lowest)
        return fmt::format("keep {}: buffer '{}' at {} is not at its offset {}", k,
                           problem.buffers[index(member.buffer)].name, schedule.address[index(member.buffer)],
                           member.offset);
      base = lowest;
    }
  }
  // Moments: 2 p is position p, 2 t + 1 is during task t.
  struct Life {
    int64_t first;
    int64_t last;
    bool ends_with_store = false;
  };
  std::vector<Life> lives;
  for (const Buffer& buffer : problem.buffers)
    lives.push_back({2 * buffer.first_task + 1, 2 * buffer.last_task + 1});
  for (size_t k = 0; k < problem.transfers.size(); ++k) {
    const Transfer& transfer = problem.transfers[k];
    const int64_t at = schedule.issue[k];
    if (at == TransferSchedule::kDropped) {
      if (transfer.is_scratch && is_needed[k])
        return fmt::format("'{}' is dropped, but somebody loads its data", transfer.text);
      if (!transfer.is_scratch && !droppable[k])
        return fmt::format("'{}' is dropped, but nobody keeps its data", transfer.text);
      continue;
    }
    if (droppable[k]) return fmt::format("'{}' loads what is kept", transfer.text);
    if (at < transfer.earliest || at > transfer.latest)
      return fmt::format("'{}' at position {}, allowed are {} to {}", transfer.text, at, transfer.earliest,
                         transfer.latest);
    for (const int other : transfer.after) {
      if (schedule.copied[k]) break;
      const int64_t before = schedule.issue[index(other)];
      if (before == TransferSchedule::kDropped || before > at)
        return fmt::format("'{}' at position {} comes before '{}', which it needs", transfer.text, at,
                           problem.transfers[index(other)].text);
    }
    Life& life = lives[index(transfer.buffer)];
    life.first = std::min(life.first, 2 * at);
    life.last = std::max(life.last, 2 * at);
    if (schedule.copied[k]) {
      Life& source = lives[index(transfer.copy->source)];
      source.last = std::max(source.last, 2 * at);
    }
  }
  for (const bool is_store : {true, false}) {
    for (size_t k = 0; k < problem.transfers.size(); ++k) {
      const Transfer& transfer = problem.transfers[k];
      if (schedule.issue[k] == TransferSchedule::kDropped || transfer.is_load == is_store) continue;
      for (const int buffer : {transfer.buffer, schedule.copied[k] ? transfer.copy->source : -1}) {
        if (buffer >= 0 && lives[index(buffer)].last == 2 * schedule.issue[k])
          lives[index(buffer)].ends_with_store = is_store;
      }
    }
  }
  // One who is kept lives as long as all of them together.
  std::vector<Life> keep_lives(problem.keeps.size(), Life{INT64_MAX, INT64_MIN});
  for (size_t b = 0; b < problem.buffers.size(); ++b) {
    if (keep_of[b] < 0) continue;
    Life& life = keep_lives[index(keep_of[b])];
    const bool is_last = lives[b].last >= life.last;
    const bool with_store =
        is_last ? lives[b].ends_with_store && (lives[b].last > life.last || life.ends_with_store)
                : life.ends_with_store;
    life = {std::min(life.first, lives[b].first), std::max(life.last, lives[b].last), with_store};
  }
  struct Box {
    int64_t first, last, begin, end;
    bool ends_with_store;
    size_t number;  ///< of the buffer; of a keep, behind all buffers
  };
  const auto name_of = [&](const Box& box) {
    const size_t count = problem.buffers.size();
    return box.number < count ? problem.buffers[box.number].name
                              : fmt::format("of keep {}", box.number - count);
  };
  std::vector<Box> boxes;
  for (size_t b = 0; b < problem.buffers.size(); ++b) {
    const Buffer& buffer = problem.buffers[b];
    const int64_t at = schedule.address[b];
    if (at < 0 || at + buffer.size > problem.capacity)
      return fmt::format("buffer '{}' at {} to {} of {}", buffer.name, at, at + buffer.size,
                         problem.capacity);
    if ((at - buffer.phase) % buffer.alignment != 0)
      return fmt::format("buffer '{}' at {}, allowed are {} + {} k", buffer.name, at, buffer.phase,
                         buffer.alignment);
    if (buffer.fixed_address && *buffer.fixed_address != at)
      return fmt::format("buffer '{}' at {}, allowed is {}", buffer.name, at, *buffer.fixed_address);
    if (keep_of[b] < 0)
      boxes.push_back({lives[b].first, lives[b].last, at, at + buffer.size, lives[b].ends_with_store, b});
  }
  for (size_t k = 0; k < problem.keeps.size(); ++k) {
    if (!schedule.kept[k]) continue;
    const auto& member = problem.keeps[k].members.front();
    const int64_t begin = schedule.address[index(member.buffer)] - member.offset;
    boxes.push_back({keep_lives[k].first, keep_lives[k].last, begin, begin + problem.keeps[k].size,
                     keep_lives[k].ends_with_store, problem.buffers.size() + k});
  }
  std::ranges::sort(boxes, {}, &Box::first);
  std::vector<const Box*> alive;
  for (const Box& box : boxes) {
    std::erase_if(alive, [&](const Box* other) {
      // At a position, stores come before what takes their place.
      return other->last < box.first ||
             (other->last == box.first && other->ends_with_store && other->first < box.first);
    });
    for (const Box* other : alive) {
      if (other->begin < box.end && box.begin < other->end)
        return fmt::format("buffers '{}' [{}, {}) and '{}' [{}, {}) overlap at position {}", name_of(*other),
                           other->begin, other->end, name_of(box), box.begin, box.end, box.first / 2);
    }
    alive.push_back(&box);
  }
  return {};
}

}  // namespace kodama::scheduler
