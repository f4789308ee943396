#pragma once

#include <iosfwd>
#include <optional>
#include <string>
#include <vector>

#include "scheduler/recompute/recompute.h"

/// What the commands `kodama bench recompute` and `kodama recompute` do.
namespace kodama::scheduler {

struct RecomputeBenchRequest {
  std::vector<std::string> recomputers;  ///< empty: all
  passes::PassOptions options;           ///< of those that know them
  std::vector<std::string> files;        ///< .json; none: generated problems
  uint64_t first_seed = 1;
  int count = 8;
};
/// Runs each recomputer on each problem, verifies, prints a line for each (limit over the peak of the order
/// given, status, peak over limit, cycles over bound, nodes, seconds), then the totals of each recomputer.
void run_recompute_bench(const RecomputeBenchRequest& request, std::ostream& out);

struct RecomputeFileRequest {
  std::string file;              ///< .json
  std::optional<int64_t> limit;  ///< instead of the file's
  std::string recomputer;
  passes::PassOptions options;
  std::string output;    ///< the problem with the schedule, .json; empty: none
  std::string schedule;  ///< such a file, to check instead; empty: none
};
/// Returns the exit code: 0 solved, 1 infeasible or given up, or the schedule that is to be checked is wrong.
int recompute_file(const RecomputeFileRequest& request, std::ostream& out);

}  // namespace kodama::scheduler
