#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "passes/pass_options.h"

/// Transfer scheduling as a problem of its own: what is fetched into a staging memory when, where does it lie
/// there meanwhile, and what stays there instead of going out and coming back? Nothing here knows programs;
/// transfer_scheduling.h makes such problems of them.
///
/// Work is a row of *tasks*, each of known length, in an order that is given. Tasks read and write *buffers*
/// in the staging memory. A *load* fills a buffer, or a part of it, from outside; a *store* takes its
/// contents out. Transfers run beside the tasks, and occupy *ports*, which they share. Position p is the
/// moment before task p begins; a problem of n tasks has positions 0 … n.
///
///   - A store is issued at its position, no later and no earlier: the data is there, and somebody waits.
///   - A load may be issued from `earliest` to `latest`, the position of the task that needs it. What it
///     reads may be written by a store, which must be over by then (`after`).
///   - A buffer has an address from its first load or task to its last task or store, or load that copies it.
///     Buffers that live at the same time don't overlap; what is loaded at a position may take the place of
///     what ends with a store there.
///   - A *keep* is a set of buffers of the same data: what one task stores and a later one loads. If it is
///     kept, they become one buffer, which lives from the first to the last of them, and the loads fall away.
///   - A load may have another way: a *copy* of what it wants from the buffer that it is stored from, which
///     lives until then. Nothing must be over for that.
///   - A store that is *scratch* is there for the loads that come after it alone. If all of these copy, or
///     fall away, it may fall away, too.
///
/// Example: task 0 (100 cycles) works on buffer a, task 1 (100 cycles) on b, loads take 80 cycles each
///
///     on demand     load a | task 0         | load b | task 1          80 + 100 + 80 + 100 = 360 cycles
///     ahead         load a | task 0, load b | task 1                   80 + 100 + 100      = 280 cycles
///
/// The second needs room for a and b at a time. With `capacity` for one of them the first is the best.
///
/// Sizes and addresses are LW, times cycles.
namespace kodama::scheduler {

struct TransferProblem {
  struct PortUse {
    int port = 0;
    int64_t cycles = 0;  ///< for which it is occupied
  };
  struct Transfer {
    std::string text;  ///< for people
    int buffer = 0;
    bool is_load = true;
    int64_t earliest = 0;  ///< position; of a store: its position, as `latest`
    int64_t latest = 0;
    int64_t latency = 0;  ///< from issue until the ports are occupied
    std::vector<PortUse> uses;
    std::vector<int> after;  ///< transfers that must be over; they come earlier in `transfers`
    struct Copy {
      int source = 0;  ///< buffer
      int64_t latency = 0;
      std::vector<PortUse> uses;
      int64_t cycles() const;  ///< on idle ports
    };
    std::optional<Copy> copy = {};  ///< of a load
    bool is_scratch = false;        ///< of a store
    int64_t cycles() const;         ///< on idle ports
  };
  struct Buffer {
    std::string name;
    int64_t size = 0;
    /// Addresses are `phase` more than a multiple of `alignment`.
    int64_t alignment = 1;
    int64_t phase = 0;
    std::optional<int64_t> fixed_address;
    int64_t first_task = 0;  ///< of those that touch it
    int64_t last_task = 0;
  };
  struct Keep {
    struct Member {
      int buffer = 0;
      int64_t offset = 0;  ///< of the member's address from the lowest of them
    };
    std::vector<Member> members;
    std::vector<int> saved;  ///< the loads that fall away
    int64_t size = 0;
  };

  std::string name;
  int64_t capacity = 0;        ///< of the staging memory
  int64_t issue_interval = 0;  ///< cycles from the start of a transfer to that of the next
  int64_t max_in_flight = 0;   ///< transfers under way at a time in a queue; 0 = any number
  std::vector<std::string> ports;
  /// By port, the queue that transfers which use it have a place in (a group's); empty: all are in one.
  std::vector<int> queues;
  std::vector<int64_t> task_cycles;
  std::vector<Buffer> buffers;
  std::vector<Transfer> transfers;  ///< in program order
  std::vector<Keep> keeps;          ///< a buffer is in one of them at most
};

struct TransferSchedule {
  /// By transfer: the position before which it is issued. Loads of what is kept have kDropped, and stores of
  /// what nobody loads.
  std::vector<int64_t> issue;
  std::vector<bool> copied;      ///< by transfer: it is a copy
  std::vector<int64_t> address;  ///< by buffer
  std::vector<bool> kept;        ///< by keep
  /// What its scheduler calls the way it was made, by span (TransferTimes), or one for all.
  std::vector<int> ways = {};
  static constexpr int64_t kDropped = -1;
};

/// Transfers in the order in which they are issued: by position; there, first what the next task waits for,
/// then stores, then what waits for these or takes their place, and other loads, the most urgent first.
/// Dropped ones are left out.
std::vector<int> issue_order(const TransferProblem& problem, const TransferSchedule& schedule);

/// The time that tasks and transfers are estimated to take: tasks in order, each waiting for its loads; every
/// transfer gets its ports in order of issue. For schedulers that go through a problem from its beginning.
class TransferClock {
 public:
  explicit TransferClock(const TransferProblem& problem);

  /// A transfer is issued now, or when those that it comes after are over; or it is a copy.
  void issue(int transfer, bool copied);
  /// The task at a position begins, when the loads that were issued for it are over.
  void await(int64_t position);
  void run(int64_t cycles) { time_ += cycles; }

  int64_t time() const { return time_; }
  /// Transfers that are not over, of the queues of some ports where most are.
  int64_t in_flight(const std::vector<TransferProblem::PortUse>& uses) const;
  /// When `await` would be over.
  int64_t time_after_waits(int64_t position) const;
  /// Whether transfers that were issued are over now.
  bool is_over(const std::vector<int>& transfers) const;
  /// When some ports are free.
  int64_t port_time(const std::vector<TransferProblem::PortUse>& uses) const;
  /// When everything is over.
  int64_t end() const { return time_ > last_ ? time_ : last_; }

 private:
  size_t queue_of(const TransferProblem::PortUse& use) const;

  const TransferProblem* problem_;
  int64_t time_ = 0;
  int64_t last_ = 0;
  int64_t next_start_ = 0;
  /// By queue: when transfers end that were not over at the last look, in order.
  std::vector<std::vector<int64_t>> under_way_;
  std::vector<int64_t> port_free_;
  std::vector<int64_t> done_;     ///< by transfer
  std::vector<int64_t> awaited_;  ///< by position: when its loads are over
};

/// What a schedule is estimated to take by that clock.
int64_t estimated_cycles(const TransferProblem& problem, const TransferSchedule& schedule);

/// What no schedule can beat in the time that is estimated:
///
///   - `tasks`: the longest row of tasks and transfers, each of which waits for the one before it;
///   - `ports`: what the busiest port must pass if as much is kept as fits, behind the tasks and latency that
///     its first transfer waits for, before the tasks that wait for its last. How much is kept says the rule
///     of the furthest next use (Belady): where more waits for its next use than the memory holds beside the
///     buffers that live at that moment, what is needed last is given up, in parts if that is enough. No
///     choice loads fewer LW; they count with the fewest cycles that a port takes for so many. Starts of
///     transfers are a port, too.
struct TransferBound {
  int64_t tasks = 0;
  int64_t ports = 0;
  int64_t cycles() const { return tasks > ports ? tasks : ports; }
};
TransferBound transfer_bound(const TransferProblem& problem);

/// Times and sizes are at most this, so that sums of them never overflow.
inline constexpr int64_t kMostCycles = 1'000'000'000;
/// Empty when the problem is one; else what is out of range, and what is allowed.
std::string problem_fault(const TransferProblem& problem);
/// InternalError with the fault.
void check_problem(const TransferProblem& problem);
/// Shares no code with the schedulers. Empty when the schedule is right; else the rule that is broken, and by
/// whom.
std::string schedule_fault(const TransferProblem& problem, const TransferSchedule& schedule);

/// As JSON; with a schedule, also where everything goes. UserError naming file (or other source) and field
/// when the text is no problem.
std::string to_json(const TransferProblem& problem, const TransferSchedule* schedule = nullptr);
TransferProblem transfer_problem_from_json(const std::string& text, const std::string& source);
/// Of what `to_json` has written with a schedule.
TransferSchedule transfer_schedule_from_json(const TransferProblem& problem, const std::string& text,
                                             const std::string& source);
/// Whether a JSON text has the tasks of such a problem. UserError when it is no JSON.
bool is_transfer_problem(const std::string& text, const std::string& source);

/// What programs were predicted to take with some schedules, in each of the spans that tasks are divided
/// into.
struct TransferTimes {
  std::vector<int64_t> ends;                 ///< by span: the position behind its last task
  std::vector<std::vector<int64_t>> cycles;  ///< by schedule and span
};

/// A transfer scheduler by name.
struct TransferScheduler {
  std::string name;
  std::string description;
  std::vector<passes::PassOptionInfo> options = {};
  /// Programs stay as they are: no problem is made.
  bool leaves_programs = false;
  /// Some schedules, the one that is estimated to take least first; of these the one is used with which the
  /// program is predicted to. None when the buffers don't fit, which fixed addresses can bring about.
  std::function<std::vector<TransferSchedule>(const TransferProblem&, const passes::PassOptions&)> run;
  /// Optional: others, made of those in every span the way that took least there. None when there is none
  /// that is new.
  std::function<std::vector<TransferSchedule>(const TransferProblem&, const passes::PassOptions&,
                                              const std::vector<TransferSchedule>&, const TransferTimes&)>
      mix = {};
  std::string plugin = {};  ///< the file it came from; empty: Kodama's own. Filled by register_pass
};
const std::vector<TransferScheduler>& transfer_schedulers();
void register_pass(TransferScheduler scheduler);
/// Empty = default. UserError listing the names when there is none.
const TransferScheduler& find_transfer_scheduler(const std::string& name);

}  // namespace kodama::scheduler
