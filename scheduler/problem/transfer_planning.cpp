/// Built-in transfer schedulers.
#include <algorithm>
#include <functional>
#include <map>
#include <queue>
#include <set>
#include <tuple>

#include "isa/arithmetic.h"
#include "isa/error.h"
#include "isa/parallel.h"
#include "scheduler/problem/builtin_schedulers.h"
#include "scheduler/problem/coarse_positions.h"
#include "scheduler/problem/indexing.h"
#include "scheduler/problem/live_profile.h"
#include "scheduler/problem/transfer_problem.h"

namespace kodama::scheduler {
namespace {

using Buffer = TransferProblem::Buffer;
using Keep = TransferProblem::Keep;
using Transfer = TransferProblem::Transfer;

const passes::PassOptionInfo kLookahead{
    "transfer-lookahead", "512",
    "cycles of work that ports may have ahead of what is needed next; several are "
    "tried from this one up"};

/// How daring a schedule is.
struct Way {
  int64_t room = 0;       ///< of the memory's kRoomParts, what may be full for the sake of copies
  int64_t lookahead = 0;  ///< cycles
};
constexpr int64_t kRoomParts = 8;
struct Attempt {
  bool keeps = false;
  bool ahead = true;               ///< loads come before they are needed
  std::vector<Way> ways;           ///< by span of tasks
  std::vector<int64_t> ends = {};  ///< by span, but the last
  const Way& at(int64_t position) const {
    return ways[index(std::ranges::upper_bound(ends, position) - ends.begin())];
  }
};
constexpr int kEnds = 2;  ///< of the memory

/// What attempts before have found out.
struct Lessons {
  /// Moments at which nothing may be there ahead of its time: what must be would find no place.
  std::vector<int64_t> crowded = {};
  std::vector<bool> dropped;     ///< by keep: for the same reason it is none
  std::vector<bool> not_copied;  ///< by transfer: so with its copy
  /// By the first buffer of what found no place, since room was in pieces: 1 = it lies at the lowest address,
  /// 2 = at the highest.
  std::map<int, int> reserved = {};
};

/// Goes through the tasks in the time that they are estimated to take, waits included, and issues at every
/// position what is needed there, and ahead of that what ports and memory have room for.
class Planner {
 public:
  Planner(const TransferProblem& problem, const Attempt& attempt)
      : problem_(problem),
        attempt_(attempt),
        now_{.clock = TransferClock(problem)},
        moments_(2 * static_cast<int64_t>(problem.task_cycles.size()) + 2),
        load_(moments_) {}

  /// Nothing where something finds no place. If `lessons` has learnt from that, the next attempt may succeed.
  std::optional<TransferSchedule> run(Lessons& lessons) {
    lessons_ = &lessons;
    schedule_.copied.assign(problem_.transfers.size(), false);
    schedule_.kept.assign(problem_.keeps.size(), false);
    unit_of_.assign(problem_.buffers.size(), -1);
    make_units();
    if (attempt_.keeps) choose_keeps();
    is_saved_.assign(problem_.transfers.size(), false);
    for (size_t k = 0; k < problem_.keeps.size(); ++k) {
      for (const int load : problem_.keeps[k].saved) is_saved_[index(load)] = schedule_.kept[k];
    }
    choose_copies();
    drop_stores();
    reserve();
    start();
    return walked();
  }
  /// Whether `again` may follow: run has only learnt of a moment that is crowded.
  bool may_go_on() const { return has_met_crowd_; }
  /// As run would with what has been learnt since, from where it makes a difference.
  std::optional<TransferSchedule> again() {
    const int64_t moment = lessons_->crowded.back();
    while (landmarks_.back().reach > moment) landmarks_.pop_back();
    go_back(landmarks_.back());
    return walked();
  }

 private:
  /// What gets an address: a buffer, or the buffers of a keep.
  struct Unit {
    std::vector<Keep::Member> members;
    int64_t size = 0;
    int64_t alignment = 1;
    int64_t phase = 0;
    std::optional<int64_t> fixed;
    // Moments: 2 p is position p, 2 t + 1 is during task t.
    int64_t first = 0;  ///< without loads
    int64_t last = 0;
    std::vector<int> loads = {};
    std::vector<int> stores = {};
    std::vector<int> copies = {};  ///< from here
    // Moments in which it lives when its loads are issued as late as possible.
    int64_t alive_from = 0;
    int64_t alive_to = 0;
    int64_t copied = -1;  ///< the last moment in which a load copies from it
    int keep = -1;
    bool is_reserved = false;  ///< its fixed address is a lesson
  };
  /// What becomes of a unit on the way.
  struct Standing {
    int64_t address = -1;     ///< -1: has none yet
    int64_t refused_at = -1;  ///< the number of releases when it last found no place
    int64_t full_at = -1;     ///< up to this moment there is no room for it ahead of its time
    bool is_stored = false;   ///< its last store is issued, and nothing else comes
  };
  /// Where a unit is: its first address, itself, the end.
  using Place = std::tuple<int64_t, int, int64_t>;
  /// Units by a moment, the nearest first.
  using MomentQueue =
      std::priority_queue<std::pair<int64_t, int>, std::vector<std::pair<int64_t, int>>, std::greater<>>;
  /// All that changes on the way.
  struct Progress {
    int64_t position = 0;
    TransferClock clock;
    std::vector<Standing> standing = {};  ///< by unit
    std::vector<Place> places = {};       ///< of units that live or are being stored, in order
    MomentQueue ends = {};                ///< of units that live
    int64_t releases = 0;
    std::vector<int> emptying = {};        ///< units that no longer live; their last stores are under way
    std::vector<int> pending = {};         ///< loads, the most urgent last
    size_t stores = 0, begins = 0;         ///< of those lists, are done
    std::vector<int64_t> ports_free = {};  ///< by transfer: when its ports were free at the last look
    std::vector<int64_t> issue = {}, address = {};  ///< as the schedule has them
    int64_t issued = 0;                             ///< transfers
    /// Of so many pending loads none found its ports free before that time.
    size_t looked_at = 0;
    int64_t nothing_until = -1;
    size_t profiled = 0;  ///< additions to the profile
    size_t crowded = 0;   ///< lessons that it knows
    int64_t reach = -1;   ///< no room was sought in moments from here on
  };

  void make_units() {
    for (size_t b = 0; b < problem_.buffers.size(); ++b) {
      const Buffer& buffer = problem_.buffers[b];
      unit_of_[b] = static_cast<int>(units_.size());
      units_.push_back({{{static_cast<int>(b), 0}},
                        buffer.size,
                        buffer.alignment,
                        buffer.phase,
                        buffer.fixed_address,
                        2 * buffer.first_task + 1,
                        2 * buffer.last_task + 1,
                        {},
                        {}});
    }
    for (size_t k = 0; k < problem_.transfers.size(); ++k) {
      const Transfer& transfer = problem_.transfers[k];
      Unit& unit = units_[index(transfer.buffer)];
      if (transfer.is_load) {
        unit.loads.push_back(static_cast<int>(k));
      } else {
        unit.stores.push_back(static_cast<int>(k));
        unit.first = std::min(unit.first, 2 * transfer.latest);
        unit.last = std::max(unit.last, 2 * transfer.latest);
      }
    }
    for (Unit& unit : units_) set_life(unit);
  }
  void set_life(Unit& unit) const {
    unit.alive_from = unit.first;
    unit.alive_to = unit.last;
    for (const int load : unit.loads) {
      unit.alive_from = std::min(unit.alive_from, 2 * problem_.transfers[index(load)].latest);
      unit.alive_to = std::max(unit.alive_to, 2 * problem_.transfers[index(load)].latest);
    }
  }

  /// The nearest next use first, as long as the memory has room.
  void choose_keeps() {
    LiveProfile load(moments_);
    const auto add = [&](const Unit& unit, int64_t sign) {
      load.add(unit.alive_from, unit.alive_to + 1, sign * unit.size);
    };
    std::vector<std::tuple<int64_t, int64_t, size_t>> order;
    for (size_t k = 0; k < problem_.keeps.size(); ++k) {
      if (lessons_->dropped[k]) continue;
      const Unit unit = joined(problem_.keeps[k]);
      order.emplace_back(unit.last - unit.first, -saved_cycles(problem_.keeps[k]), k);
    }
    if (order.empty()) return;
    for (const Unit& unit : units_) add(unit, 1);
    std::ranges::sort(order);
    for (const auto& [distance, saving, k] : order) {
      const Keep& keep = problem_.keeps[k];
      Unit unit = joined(keep);
      for (const auto& member : keep.members) add(units_[index(unit_of_[index(member.buffer)])], -1);
      const int64_t highest = load.largest(unit.alive_from, unit.alive_to + 1);
      const bool fits = highest + unit.size <= problem_.capacity &&
                        !std::ranges::any_of(keep.members, [&](const auto& member) {
                          return problem_.buffers[index(member.buffer)].fixed_address.has_value();
                        });
      if (!fits) {
        for (const auto& member : keep.members) add(units_[index(unit_of_[index(member.buffer)])], 1);
        continue;
      }
      schedule_.kept[k] = true;
      for (const auto& member : keep.members) {
        Unit& old = units_[index(unit_of_[index(member.buffer)])];
        old.members.clear();
        old.loads.clear();
        unit_of_[index(member.buffer)] = static_cast<int>(units_.size());
      }
      add(unit, 1);
      unit.keep = static_cast<int>(k);
      units_.push_back(std::move(unit));
    }
  }
  int64_t saved_cycles(const Keep& keep) const {
    int64_t cycles = 0;
    for (const int load : keep.saved) cycles += problem_.transfers[index(load)].cycles();
    return cycles;
  }
  Unit joined(const Keep& keep) const {
    Unit unit;
    unit.first = INT64_MAX;
    unit.last = INT64_MIN;
    unit.size = keep.size;
    for (const auto& member : keep.members) {
      const Unit& part = units_[index(unit_of_[index(member.buffer)])];
      unit.first = std::min(unit.first, part.alive_from);
      unit.last = std::max(unit.last, part.alive_to);
      if (part.alignment >= unit.alignment) {
        unit.alignment = part.alignment;
        unit.phase = ((part.phase - member.offset) % unit.alignment + unit.alignment) % unit.alignment;
      }
      for (const int load : part.loads) {
        if (std::ranges::find(keep.saved, load) == keep.saved.end()) unit.loads.push_back(load);
      }
      unit.stores.insert(unit.stores.end(), part.stores.begin(), part.stores.end());
      unit.copied = std::max(unit.copied, part.copied);
    }
    unit.members = keep.members;
    set_life(unit);
    return unit;
  }

  /// Copies of what was stored last, as long as the memory has room for what they come from until then.
  void choose_copies() {
    std::vector<std::tuple<int64_t, size_t>> order;
    for (size_t k = 0; k < problem_.transfers.size(); ++k) {
      const Transfer& transfer = problem_.transfers[k];
      if (!transfer.copy || attempt_.at(transfer.latest).room == 0 || lessons_->not_copied[k] || is_saved_[k])
        continue;
      const Unit& source = units_[index(unit_of_[index(transfer.copy->source)])];
      order.emplace_back(2 * transfer.latest - source.alive_to, k);
    }
    if (order.empty()) return;
    std::ranges::sort(order);
    LiveProfile load(moments_);
    for (const Unit& unit : units_) {
      if (!unit.members.empty()) load.add(unit.alive_from, unit.alive_to + 1, unit.size);
    }
    for (const auto& [distance, k] : order) {
      const Transfer& transfer = problem_.transfers[k];
      Unit& source = units_[index(unit_of_[index(transfer.copy->source)])];
      const int64_t until = 2 * transfer.latest;
      const int64_t most = problem_.capacity * attempt_.at(transfer.latest).room / kRoomParts;
      if (until > source.alive_to) {
        if (load.largest(source.alive_to + 1, until + 1) + source.size > most) continue;
        load.add(source.alive_to + 1, until + 1, source.size);
        source.alive_to = source.last = until;
      }
      source.copied = std::max(source.copied, until);
      source.copies.push_back(static_cast<int>(k));
      schedule_.copied[k] = true;
    }
  }
  /// Of what nobody loads any more.
  void drop_stores() {
    std::vector<bool> is_needed(problem_.transfers.size(), false);
    for (size_t k = 0; k < problem_.transfers.size(); ++k) {
      if (schedule_.copied[k] || is_saved_[k]) continue;
      for (const int store : problem_.transfers[k].after) is_needed[index(store)] = true;
    }
    for (size_t k = 0; k < problem_.transfers.size(); ++k)
      is_dropped_.push_back(problem_.transfers[k].is_scratch && !is_needed[k]);
    for (Unit& unit : units_) {
      std::erase_if(unit.stores, [&](int k) { return is_dropped_[index(k)]; });
    }
  }

  /// Addresses at an end of the memory for what found no place before.
  void reserve() {
    for (const auto& [buffer, end] : lessons_->reserved) {
      Unit& unit = units_[index(unit_of_[index(buffer)])];
      if (end == 0 || unit.fixed) continue;
      const int64_t highest = problem_.capacity - unit.size - unit.phase;
      if (highest < 0) continue;
      unit.fixed = unit.phase + (end == 1 ? 0 : highest / unit.alignment * unit.alignment);
      unit.is_reserved = true;
    }
  }

  void start() {
    find_flights();
    now_.standing.resize(units_.size());
    now_.issue.assign(problem_.transfers.size(), TransferSchedule::kDropped);
    now_.address.assign(problem_.buffers.size(), 0);
    now_.ports_free.assign(problem_.transfers.size(), 0);
    for (const Unit& unit : units_) {
      if (!unit.members.empty()) load_.add(unit.alive_from, unit.alive_to + 1, unit.size);
    }
    for (size_t k = 0; k < problem_.transfers.size(); ++k) {
      if (!problem_.transfers[k].is_load && !is_dropped_[k]) stores_.push_back(static_cast<int>(k));
    }
    std::ranges::stable_sort(stores_, {}, [&](int k) { return problem_.transfers[index(k)].latest; });
    std::vector<int>& pending = now_.pending;
    for (const Unit& unit : units_) pending.insert(pending.end(), unit.loads.begin(), unit.loads.end());
    std::ranges::sort(pending, std::greater{},
                      [&](int k) { return std::pair(problem_.transfers[index(k)].latest, k); });
    for (size_t u = 0; u < units_.size(); ++u) {
      if (units_[u].members.empty()) continue;
      if (units_[u].fixed) fixed_.push_back(static_cast<int>(u));
      if (units_[u].alive_from >= units_[u].first) begins_.push_back(static_cast<int>(u));
    }
    std::ranges::sort(fixed_, {}, [&](int u) { return *units_[index(u)].fixed; });
    std::ranges::sort(begins_, {}, [&](int u) { return std::pair(units_[index(u)].first, u); });
    heed_crowded();
  }

  /// Nothing comes ahead of its time to what is known to be crowded.
  void heed_crowded() {
    for (; now_.crowded < lessons_->crowded.size(); ++now_.crowded) {
      const int64_t moment = lessons_->crowded[now_.crowded];
      add_to_profile(moment, moment + 1, problem_.capacity);
    }
  }
  void add_to_profile(int64_t begin, int64_t end, int64_t words) {
    load_.add(begin, end, words);
    profiled_.push_back({begin, end, words});
    now_.profiled = profiled_.size();
  }
  void go_back(const Progress& landmark) {
    for (; profiled_.size() > landmark.profiled; profiled_.pop_back())
      load_.add(profiled_.back().begin, profiled_.back().end, -profiled_.back().words);
    now_ = landmark;
    std::ranges::fill(flights_, Flights{});
    heed_crowded();
  }

  std::optional<TransferSchedule> walked() {
    has_met_crowd_ = false;
    if (!walk()) return std::nullopt;
    schedule_.issue = std::move(now_.issue);
    schedule_.address = std::move(now_.address);
    return std::move(schedule_);
  }

  bool walk() {
    const auto tasks = static_cast<int64_t>(problem_.task_cycles.size());
    for (int64_t& p = now_.position; p <= tasks; ++p) {
      if (landmarks_.empty() || p >= landmarks_.back().position + std::max<int64_t>(tasks / kLandmarks, 1))
        landmarks_.push_back(now_);
      release(p);
      for (; now_.begins < begins_.size(); ++now_.begins) {
        const int unit = begins_[now_.begins];
        if (units_[index(unit)].first > 2 * p + 1) break;
        if (!place(unit, p)) return failed(p, unit);
      }
      // As issue_order has it: what is awaited and depends on nothing here, stores, the rest.
      const auto is_awaited = [&](int k) { return problem_.transfers[index(k)].latest == p; };
      const auto needs_store_here = [&](int k) {
        return !schedule_.copied[index(k)] &&
               std::ranges::any_of(problem_.transfers[index(k)].after,
                                   [&](int other) { return problem_.transfers[index(other)].latest == p; });
      };
      std::vector<int> awaited;
      for (; !now_.pending.empty() && is_awaited(now_.pending.back()); now_.pending.pop_back()) {
        awaited.push_back(now_.pending.back());
      }
      std::vector<int> waiting;  // for a place that something stored here has yet
      for (const int k : awaited) {
        if (!needs_store_here(k) && !issue(k, p)) waiting.push_back(k);
      }
      for (; now_.stores < stores_.size(); ++now_.stores) {
        const int store = stores_[now_.stores];
        if (problem_.transfers[index(store)].latest != p) break;
        now_.issue[index(store)] = p;
        now_.clock.issue(store, false);
        ++now_.issued;
      }
      if (!waiting.empty()) release_stored(p);
      for (const int k : waiting) {
        if (!issue(k, p)) return failed(p, unit_of(k));
      }
      for (const int k : awaited) {
        if (needs_store_here(k) && !issue(k, p)) return failed(p, unit_of(k));
      }
      issue_ahead(p);
      now_.clock.await(p);
      if (p < tasks) now_.clock.run(problem_.task_cycles[index(p)]);
    }
    return true;
  }

  int unit_of(int transfer) const { return unit_of_[index(problem_.transfers[index(transfer)].buffer)]; }

  /// Something has no place here: what is there ahead of its time must not be the next time; or else what is
  /// kept for longest.
  bool failed(int64_t position, int wanting) {
    const Unit* longest = nullptr;
    for (const Place& place : now_.places) {
      const Unit& unit = units_[index(std::get<1>(place))];
      if (unit.alive_from > 2 * position) {
        lessons_->crowded.push_back(2 * position - 1);
        has_met_crowd_ = true;
        return false;
      }
      const bool stays = unit.keep >= 0 || !unit.copies.empty();
      if (stays && (longest == nullptr || unit.alive_to > longest->alive_to)) longest = &unit;
    }
    if (longest == nullptr) {
      const Unit& unit = units_[index(wanting)];
      int& end = lessons_->reserved[unit.members.front().buffer];
      if (!unit.fixed || unit.is_reserved) end = std::min(end + 1, kEnds);
      return false;
    }
    for (const int copy : longest->copies) lessons_->not_copied[index(copy)] = true;
    if (longest->copies.empty()) lessons_->dropped[index(longest->keep)] = true;
    return false;
  }

  /// What no longer lives at a position, and what is stored by now, has no place.
  void release(int64_t position) {
    const auto is_over = [&](int u) {
      return now_.clock.is_over(units_[index(u)].stores) && now_.clock.is_over(units_[index(u)].copies);
    };
    std::erase_if(now_.emptying, [&](int u) {
      if (!is_over(u)) return false;
      ++now_.releases;
      leave(u);
      return true;
    });
    for (; !now_.ends.empty() && now_.ends.top().first < 2 * position; now_.ends.pop()) {
      const int u = now_.ends.top().second;
      ++now_.releases;
      // Who takes the place of what is being stored waits for the store.
      if (is_over(u)) {
        leave(u);
      } else {
        now_.emptying.push_back(u);
      }
    }
  }

  /// The same for what ends with stores at this position, which are issued.
  void release_stored(int64_t position) {
    for (; !now_.ends.empty() && now_.ends.top().first <= 2 * position; now_.ends.pop()) {
      const int u = now_.ends.top().second;
      Unit& unit = units_[index(u)];
      const bool ends_with_store = std::ranges::any_of(
          unit.stores, [&](int k) { return problem_.transfers[index(k)].latest == position; });
      // What else ends here is released at the next position.
      if (!ends_with_store || unit.copied >= 2 * position || unit.alive_from >= 2 * position) break;
      now_.standing[index(u)].is_stored = true;
      ++now_.releases;
      now_.emptying.push_back(u);
    }
  }

  bool issue(int k, int64_t position) {
    const int u = unit_of_[index(problem_.transfers[index(k)].buffer)];
    if (now_.standing[index(u)].address < 0 && !place(u, position)) return false;
    now_.issue[index(k)] = position;
    now_.clock.issue(k, schedule_.copied[index(k)]);
    ++now_.issued;
    return true;
  }

  /// The most urgent loads whose sources are there, as far as ports and memory allow.
  void issue_ahead(int64_t position) {
    if (!attempt_.ahead) return;
    constexpr size_t kLooked = 64;
    // Transfers that somebody waits for must not find all places taken.
    const int64_t places = problem_.max_in_flight == 0 ? INT64_MAX : problem_.max_in_flight * 3 / 4;
    // Nothing is issued before the next position.
    const auto task = static_cast<size_t>(position);
    const int64_t free_time = now_.clock.time_after_waits(position) +
                              (task < problem_.task_cycles.size() ? problem_.task_cycles[task] : 0);
    const int64_t latest_free = free_time + attempt_.at(position).lookahead;
    if (now_.pending.size() == now_.looked_at && latest_free < now_.nothing_until) return;
    int64_t nothing_until = INT64_MAX;
    for (size_t n = 0; n < std::min(now_.pending.size(), kLooked);) {
      const auto nth = now_.pending.end() - 1 - static_cast<ptrdiff_t>(n);
      const int k = *nth;
      // Quick to see of most: ports only become busier.
      if (now_.ports_free[index(k)] <= latest_free && may_come_ahead(k, position, latest_free, places) &&
          issue(k, position)) {
        now_.pending.erase(nth);
        continue;
      }
      nothing_until = std::min(nothing_until, now_.ports_free[index(k)]);
      ++n;
    }
    now_.looked_at = now_.pending.size();
    now_.nothing_until = nothing_until;
  }
  bool may_come_ahead(int k, int64_t position, int64_t latest_free, int64_t places) {
    const Transfer& transfer = problem_.transfers[index(k)];
    return transfer.earliest <= position && !is_known_to_have_no_place(unit_of(k), position) &&
           are_ports_free(k, latest_free) && in_flight(k) < places &&
           (schedule_.copied[index(k)] || now_.clock.is_over(transfer.after)) &&
           has_room_ahead(unit_of(k), position);
  }
  /// As the clock counts them for the ports of a transfer. Many transfers have the same.
  int64_t in_flight(int transfer) {
    Flights& known = flights_[index(flights_of_[index(transfer)])];
    if (known.time != now_.clock.time() || known.issued != now_.issued)
      known = {now_.clock.time(), now_.issued, now_.clock.in_flight(uses_of(transfer))};
    return known.count;
  }
  void find_flights() {
    std::map<std::set<int>, int> numbers;
    for (size_t k = 0; k < problem_.transfers.size(); ++k) {
      std::set<int> queues;
      for (const auto& use : uses_of(static_cast<int>(k)))
        queues.insert(problem_.queues.empty() ? 0 : problem_.queues[index(use.port)]);
      flights_of_.push_back(numbers.try_emplace(queues, static_cast<int>(numbers.size())).first->second);
    }
    flights_.resize(numbers.size());
  }
  /// Whether they are at some time.
  bool are_ports_free(int transfer, int64_t time) {
    int64_t& known = now_.ports_free[index(transfer)];
    known = now_.clock.port_time(uses_of(transfer));
    return known <= time;
  }
  const std::vector<TransferProblem::PortUse>& uses_of(int transfer) const {
    const Transfer& each = problem_.transfers[index(transfer)];
    return schedule_.copied[index(transfer)] ? each.copy->uses : each.uses;
  }
  /// From an earlier look: what must be there becomes only more, and where nothing has become free since,
  /// there is still no place.
  bool is_known_to_have_no_place(int number, int64_t position) const {
    const Standing& unit = now_.standing[index(number)];
    return unit.address < 0 && (2 * position <= unit.full_at || unit.refused_at == now_.releases);
  }
  /// Whether the memory has room until the unit's time comes, beside what must be there.
  bool has_room_ahead(int number, int64_t position) {
    const Unit& unit = units_[index(number)];
    Standing& standing = now_.standing[index(number)];
    if (standing.address >= 0) return true;
    now_.reach = std::max(now_.reach, unit.alive_from);
    standing.full_at = load_.last_above(2 * position, unit.alive_from, problem_.capacity - unit.size);
    return standing.full_at < 0;
  }

  /// The lowest address that is free from here to the end of the unit's life.
  bool place(int number, int64_t position) {
    Standing& unit = now_.standing[index(number)];
    if (unit.address >= 0) return true;
    if (unit.refused_at == now_.releases) return false;
    if (place(number, position, true) || place(number, position, false)) return true;
    unit.refused_at = now_.releases;
    return false;
  }
  bool place(int number, int64_t position, bool avoid_emptying) {
    const Unit& unit = units_[index(number)];
    int64_t& address = now_.standing[index(number)].address;
    if (unit.fixed) {
      // What was there before it is known to be reserved came ahead of its time, or lives longer; what is
      // there before a demanded address' own time goes before that.
      const bool is_free = std::ranges::none_of(now_.places, [&](const Place& place) {
        const Unit& other = units_[index(std::get<1>(place))];
        return (avoid_emptying || (other.alive_to >= 2 * position && !is_stored(std::get<1>(place)))) &&
               std::get<0>(place) < *unit.fixed + unit.size && *unit.fixed < std::get<2>(place);
      });
      if (!is_free && (unit.is_reserved || 2 * position < unit.alive_from)) return false;
      address = *unit.fixed;
    } else {
      const auto aligned = [&](int64_t address) {
        return isa::round_up(std::max<int64_t>(address - unit.phase, 0), unit.alignment) + unit.phase;
      };
      int64_t at = aligned(0);
      const auto fits_before = [&](int64_t begin, int64_t end) {
        if (at + unit.size <= begin) return true;
        at = std::max(at, aligned(end));
        return false;
      };
      // Both lists go up; a place that is demanded later may lie within one that is taken now.
      auto fixed = fixed_.begin();
      const auto fits_before_fixed = [&](int64_t limit) {
        for (; fixed != fixed_.end() && *units_[index(*fixed)].fixed < limit; ++fixed) {
          const Unit& o = units_[index(*fixed)];
          if (o.alive_from <= unit.alive_to && 2 * position <= o.alive_to &&
              fits_before(*o.fixed, *o.fixed + o.size))
            return true;
        }
        return false;
      };
      bool fits = false;
      for (const auto& [begin, u, end] : now_.places) {
        if (!avoid_emptying && (units_[index(u)].alive_to < 2 * position || is_stored(u))) continue;
        fits = fits_before_fixed(begin) || fits_before(begin, end);
        if (fits) break;
      }
      if (!fits) fits_before_fixed(INT64_MAX);
      if (at + unit.size > problem_.capacity) return false;
      address = at;
    }
    now_.places.insert(std::ranges::lower_bound(now_.places, place_of(number)), place_of(number));
    now_.ends.emplace(unit.alive_to, number);
    add_to_profile(2 * position, unit.alive_from, unit.size);
    for (const auto& member : unit.members) now_.address[index(member.buffer)] = address + member.offset;
    return true;
  }

  bool is_stored(int unit) const { return now_.standing[index(unit)].is_stored; }
  Place place_of(int unit) const {
    const int64_t address = now_.standing[index(unit)].address;
    return {address, unit, address + units_[index(unit)].size};
  }
  void leave(int unit) { now_.places.erase(std::ranges::lower_bound(now_.places, place_of(unit))); }

  const TransferProblem& problem_;
  Attempt attempt_;
  Progress now_;
  /// What was on the way, so often: lessons are learnt near the end of what has been walked.
  static constexpr int64_t kLandmarks = 64;
  std::vector<Progress> landmarks_;
  std::vector<Unit> units_;
  std::vector<int> unit_of_;  ///< by buffer
  std::vector<int> fixed_;    ///< units with demanded addresses, by address
  std::vector<int> stores_;   ///< that are not dropped, by position
  std::vector<int> begins_;   ///< units that no load begins
  int64_t moments_ = 0;
  LiveProfile load_;  ///< of what must be there, and of what is there ahead of its time
  struct Addition {
    int64_t begin, end, words;
  };
  /// What the clock says of a set of queues, at a time and after so many issues.
  struct Flights {
    int64_t time = -1, issued = -1, count = 0;
  };
  std::vector<Flights> flights_;
  std::vector<int> flights_of_;     ///< by transfer
  std::vector<Addition> profiled_;  ///< to load_, on the way
  Lessons* lessons_ = nullptr;
  bool has_met_crowd_ = false;    ///< it has failed for that
  std::vector<bool> is_saved_;    ///< by transfer: what it loads is kept
  std::vector<bool> is_dropped_;  ///< by transfer: a store of what nobody loads
  TransferSchedule schedule_;     ///< but for what now_ has
};

/// `crowded`: of attempts before; long problems begin with it.
std::optional<TransferSchedule> planned(const CoarsePositions& coarse, const Attempt& attempt,
                                        std::vector<int64_t>& crowded) {
  const TransferProblem& problem = coarse.problem();
  Lessons lessons{coarse.is_coarser() ? crowded : std::vector<int64_t>{},
                  std::vector<bool>(problem.keeps.size(), false),
                  std::vector<bool>(problem.transfers.size(), false)};
  const auto learnt = [&] {
    size_t reserved = 0;
    for (const auto& [buffer, end] : lessons.reserved) reserved += static_cast<size_t>(end);
    return reserved + lessons.crowded.size() +
           static_cast<size_t>(std::ranges::count(lessons.dropped, true)) +
           static_cast<size_t>(std::ranges::count(lessons.not_copied, true));
  };
  constexpr size_t kMostLessons = 160;
  const size_t before = learnt();
  std::optional<Planner> planner;
  while (true) {
    const size_t known = learnt();
    const bool goes_on = planner && planner->may_go_on();
    if (!goes_on) planner.emplace(problem, attempt);
    auto schedule = goes_on ? planner->again() : planner->run(lessons);
    crowded = lessons.crowded;
    if (schedule) return coarse.refined(std::move(*schedule));
    if (learnt() == known || learnt() - before > kMostLessons) return std::nullopt;
  }
}

/// Those that are tried: their numbers are what schedules know them by.
std::vector<Way> ways_of(const TransferProblem& problem, const passes::PassOptions& options, bool keeps) {
  const int64_t lookahead = passes::positive_option(options, kLookahead);
  const bool has_copies = keeps && std::ranges::any_of(problem.transfers, [](const Transfer& transfer) {
                            return transfer.copy.has_value();
                          });
  if (!has_copies) return {{0, lookahead}, {0, 4 * lookahead}, {0, 16 * lookahead}};
  // The more room there is for copies, the less is there for what comes ahead.
  return {{kRoomParts, 16 * lookahead},    {kRoomParts * 3 / 4, 4 * lookahead},
          {kRoomParts / 2, lookahead},     {kRoomParts / 2, 8 * lookahead},
          {kRoomParts * 7 / 8, lookahead}, {kRoomParts * 3 / 8, 2 * lookahead}};
}

std::vector<TransferSchedule> schedules(const TransferProblem& problem, const passes::PassOptions& options,
                                        bool keeps) {
  using Found = std::pair<int64_t, TransferSchedule>;  // with what it is estimated to take
  const CoarsePositions coarse(problem);
  const auto attempt = [&](const Attempt& how, std::vector<int64_t>& crowded) -> std::optional<Found> {
    std::optional<TransferSchedule> schedule = planned(coarse, how, crowded);
    if (!schedule) return std::nullopt;
    const int64_t cycles = estimated_cycles(problem, *schedule);
    return Found(cycles, std::move(*schedule));
  };
  const std::vector<Way> ways = ways_of(problem, options, keeps);
  const bool may_keep = keeps && !problem.keeps.empty();
  std::vector<std::optional<Found>> of_ways(ways.size());
  const auto go = [&](size_t k, std::vector<int64_t>& crowded) {
    if (may_keep) of_ways[k] = attempt({true, true, {ways[k]}}, crowded);
    if (!of_ways[k]) of_ways[k] = attempt({false, true, {ways[k]}}, crowded);
    if (of_ways[k]) of_ways[k]->second.ways = {static_cast<int>(k)};
  };
  std::vector<int64_t> crowded;
  if (coarse.is_coarser()) {
    for (size_t k = 0; k < ways.size(); ++k) go(k, crowded);
  } else {
    isa::for_each_in_parallel(ways.size(), [&](size_t k) {
      std::vector<int64_t> own;
      go(k, own);
    });
  }
  std::vector<Found> found;
  for (std::optional<Found>& each : of_ways) {
    if (each) found.push_back(std::move(*each));
  }
  for (const bool keeping : {true, false}) {
    if (!found.empty() || (keeping && !may_keep)) continue;
    if (auto last = attempt({keeping, false, {{}}}, crowded)) found.push_back(std::move(*last));
  }
  std::ranges::stable_sort(found, {}, [](const auto& each) { return each.first; });
  std::vector<TransferSchedule> best;
  for (auto& each : found) {
    TransferSchedule& schedule = each.second;
    const bool is_new = std::ranges::none_of(best, [&](const TransferSchedule& other) {
      return other.issue == schedule.issue && other.copied == schedule.copied;
    });
    if (is_new) best.push_back(std::move(schedule));
  }
  // To look at a program takes far longer than to estimate one.
  constexpr size_t kLookedAt = 5;
  if (best.size() > kLookedAt) best.resize(kLookedAt);
  return best;
}

/// For every span the way that took least, where to change is worth so many cycles.
std::vector<int> fastest_ways(const std::vector<std::vector<int>>& ways,
                              const std::vector<std::vector<int64_t>>& cycles, int64_t change) {
  const size_t spans = cycles.front().size();
  std::vector<std::vector<size_t>> before(spans, std::vector<size_t>(ways.size()));
  std::vector<int64_t> all(ways.size(), 0);
  for (size_t span = 0; span < spans; ++span) {
    const auto best = static_cast<size_t>(std::ranges::min_element(all) - all.begin());
    const int64_t changed = all[best] + change;
    for (size_t k = 0; k < ways.size(); ++k) {
      before[span][k] = all[k] <= changed ? k : best;
      all[k] = std::min(all[k], changed) + cycles[k][span];
    }
  }
  std::vector<int> mixed(spans);
  auto k = static_cast<size_t>(std::ranges::min_element(all) - all.begin());
  for (size_t span = spans; span-- > 0;) {
    mixed[span] = ways[k][span];
    k = before[span][k];
  }
  return mixed;
}

std::vector<TransferSchedule> mixed_schedules(const TransferProblem& problem,
                                              const passes::PassOptions& options, bool keeps,
                                              const std::vector<TransferSchedule>& known,
                                              const TransferTimes& times) {
  std::vector<std::vector<int>> ways;
  std::vector<std::vector<int64_t>> cycles;
  for (size_t k = 0; k < known.size(); ++k) {
    // What nothing came ahead in has none.
    if (known[k].ways.empty()) continue;
    ways.push_back(known[k].ways);
    ways.back().resize(times.ends.size(), known[k].ways.back());
    cycles.push_back(times.cycles[k]);
  }
  if (ways.size() < 2 || times.ends.size() < 2) return {};
  // What one span does is paid for in others, too.
  std::vector<std::vector<int>> mixes;
  for (const int64_t change : {200, 1000}) {
    std::vector<int> mix = fastest_ways(ways, cycles, change);
    if (std::ranges::find(ways, mix) == ways.end() && std::ranges::find(mixes, mix) == mixes.end())
      mixes.push_back(std::move(mix));
  }
  const CoarsePositions coarse(problem);
  const std::vector<Way> all = ways_of(problem, options, keeps);
  std::vector<std::optional<TransferSchedule>> found(mixes.size());
  isa::for_each_in_parallel(mixes.size(), [&](size_t k) {
    Attempt attempt;
    attempt.keeps = keeps && !problem.keeps.empty();
    for (const int way : mixes[k]) attempt.ways.push_back(all[index(way)]);
    for (const int64_t end : times.ends) attempt.ends.push_back(coarse.coarse(end));
    attempt.ends.pop_back();
    std::vector<int64_t> crowded;
    found[k] = planned(coarse, attempt, crowded);
    if (found[k]) found[k]->ways = mixes[k];
  });
  std::vector<TransferSchedule> list;
  for (auto& each : found) {
    if (each) list.push_back(std::move(*each));
  }
  return list;
}

}  // namespace

TransferScheduler keep_transfers() {
  return {
      "keep",
      "what is stored and loaded again stays on chip while there is room, the nearest next use first; other "
      "loads come ahead, just in time",
      {kLookahead},
      false,
      [](const TransferProblem& problem, const passes::PassOptions& options) {
        return schedules(problem, options, true);
      },
      [](const TransferProblem& problem, const passes::PassOptions& options,
         const std::vector<TransferSchedule>& known,
         const TransferTimes& times) { return mixed_schedules(problem, options, true, known, times); }};
}

TransferScheduler prefetch_transfers() {
  return {"prefetch",
          "loads come ahead of the tasks that need them",
          {kLookahead},
          false,
          [](const TransferProblem& problem, const passes::PassOptions& options) {
            return schedules(problem, options, false);
          },
          [](const TransferProblem& problem, const passes::PassOptions& options,
             const std::vector<TransferSchedule>& known,
             const TransferTimes& times) { return mixed_schedules(problem, options, false, known, times); }};
}

TransferScheduler on_demand_transfers() {
  return {"on-demand",
          "transfers stay where the kernels issue them",
          {},
          true,
          [](const TransferProblem& problem, const passes::PassOptions&) {
            std::vector<TransferSchedule> schedules;
            std::vector<int64_t> crowded;
            if (auto schedule = planned(CoarsePositions(problem), {false, false, {{}}}, crowded))
              schedules.push_back(std::move(*schedule));
            return schedules;
          }};
}

}  // namespace kodama::scheduler
