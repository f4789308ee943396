#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "passes/pass_options.h"

/// In which order operations are done, and which of them more than once, so that what is alive at a time fits
/// a memory ("rematerialization"). A training step is the case: its backward part reads, last first, what the
/// forward part has made.
///
/// An *operation* reads values and makes others. A value is there from the operation that makes it to the
/// last one that reads it; one that is *kept* stays to the end. What was there before (inputs, constants) is
/// no part of the problem. An operation may be repeated, if all that it reads is there: then its values live
/// twice, for shorter times.
///
/// Example: f1 makes a, f2 makes b of a, b2 reads b and makes g, b1 reads a and g. All of 10 bytes.
///
///     f1 f2 b2 b1         at most a, b and g: 30 bytes, 4 operations
///
/// With another f3 and b3, a and c held and b made again of a:
///
///     f1 f2 f3 b3 f2 b2 b1      a b c alive at f3; c goes behind b3, b behind f3
///
/// Bytes and cycles are plain integers; any units will do.
namespace kodama::scheduler {

struct RecomputeProblem {
  struct Value {
    std::string name;
    int64_t bytes = 0;
    bool is_kept = false;  ///< it must be there at the end: a result
    bool operator==(const Value&) const = default;
  };
  struct Operation {
    std::string name;
    int64_t cycles = 0;
    int64_t workspace = 0;   ///< bytes that it takes while it runs, besides what it reads and makes
    bool once = false;       ///< it can't be repeated
    std::vector<int> reads;  ///< values, rising; made by earlier operations
    std::vector<int> makes;  ///< values, rising; of this operation alone
    bool operator==(const Operation&) const = default;
  };
  std::string name;
  int64_t limit = 0;  ///< bytes that may be alive at a time
  std::vector<Value> values;
  std::vector<Operation> operations;  ///< in an order that is possible
  bool operator==(const RecomputeProblem&) const = default;
};

enum class RecomputeStatus {
  kSolved,      ///< steps within the limit
  kInfeasible,  ///< proven that there are none
  kGaveUp,      ///< neither found nor excluded
};
/// "solved", "infeasible", "gave up".
std::string_view to_string(RecomputeStatus status);

struct RecomputeSchedule {
  RecomputeStatus status = RecomputeStatus::kGaveUp;
  /// Operations by number, in the order in which they run; each at least once. Who reads a value reads what
  /// was made last; a value goes behind its last reader. Of a kept value the first one stays, others go. If
  /// not solved: those with the lowest peak that were found.
  std::vector<int> steps;
  int64_t peak = 0;       ///< bytes alive in the step where most are
  int64_t cycles = 0;     ///< of all steps
  bool is_least = false;  ///< no steps within the limit take fewer cycles
  int64_t nodes = 0;      ///< of the search
  std::string message;    ///< one line: what found it, or why nothing did
};

/// UserError if the problem is malformed: a value that two operations make, or that is read before it is
/// made, an operation that makes nothing, numbers below 0 or beyond 2^50 in sum.
void check_recompute_problem(const RecomputeProblem& problem);

/// What no steps can beat, whatever the limit. Bytes: an operation has beside it all kept values that those
/// make whom it depends on. Cycles: every operation is done.
struct RecomputeBound {
  int64_t peak = 0;
  int64_t cycles = 0;
};
RecomputeBound recompute_bound(const RecomputeProblem& problem);

/// Bytes alive in each step; InternalError for steps that read what isn't there.
std::vector<int64_t> alive_bytes(const RecomputeProblem& problem, const std::vector<int>& steps);

// ---- Files ----

/// {"name", "limit", "values": [{"name", "bytes", "kept"}], "operations": [{"name", "cycles", "workspace",
/// "once", "reads": [values], "makes": [values]}]}; "kept", "workspace", "once" are optional. Values are
/// written by number.
std::string to_json(const RecomputeProblem& problem, const RecomputeSchedule* schedule = nullptr);
/// UserError naming file and member when the text is no such problem.
RecomputeProblem recompute_problem_from_json(const std::string& text, const std::string& source);
/// Of what to_json has written with a schedule.
RecomputeSchedule recompute_schedule_from_json(const std::string& text, const std::string& source);

// ---- Checking ----

/// Empty when the schedule is right; else the rule that is broken, and by whom. Shares no code with those who
/// make schedules, and goes through the steps backwards, as they don't.
std::string schedule_fault(const RecomputeProblem& problem, const RecomputeSchedule& schedule);

// ---- Who finds schedules ----

struct Recomputer {
  std::string name;
  std::string description;
  std::vector<passes::PassOptionInfo> options = {};
  /// The problem has been checked. It says kInfeasible only if that is proven.
  std::function<RecomputeSchedule(const RecomputeProblem&, const passes::PassOptions&)> run;
  std::string plugin = {};  ///< the file it came from; empty: Kodama's own. Filled by register_pass
};

/// Registry. The first is the default.
const std::vector<Recomputer>& recomputers();
void register_pass(Recomputer recomputer);
/// By name; empty = default. UserError listing the names.
const Recomputer& find_recomputer(const std::string& name);

/// Checks the problem and the options' names, runs the recomputer, verifies its result. InternalError, of a
/// plugin PassError, for a wrong one.
RecomputeSchedule recompute(const RecomputeProblem& problem, const std::string& recomputer = {},
                            const passes::PassOptions& options = {});

}  // namespace kodama::scheduler
