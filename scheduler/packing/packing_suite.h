#pragma once

#include <iosfwd>
#include <optional>
#include <string>
#include <vector>

#include "scheduler/packing/packing.h"
#include "scheduler/packing/packing_generator.h"

/// What the commands `kodama bench packing` and `kodama pack` do.
namespace kodama::scheduler {

struct PackingBenchRequest {
  std::string packer;               ///< empty = default
  passes::PassOptions options;      ///< of the packer
  std::vector<std::string> files;   ///< .csv or .json; none: generated problems
  std::optional<int64_t> capacity;  ///< of CSV files whose names don't have it
  uint64_t first_seed = 1;
  int count = 50;
  PackingRequest generate;  ///< `seed` and `buffers` are set for each problem
  int least_buffers = 200;
  int most_buffers = 450;
};

struct PackingBenchResult {
  int problems = 0;
  int solved = 0;
  int infeasible = 0;
  double seconds = 0;  ///< of the packer alone
};

/// The generated problem of a seed: its number of buffers is spread over least_buffers to most_buffers.
GeneratedPacking bench_packing(const PackingBenchRequest& request, uint64_t seed);

/// Runs the packer on each problem, verifies, prints a line for each (name, buffers, load / capacity, status,
/// height / capacity, nodes, seconds) and the totals.
PackingBenchResult run_packing_bench(const PackingBenchRequest& request, std::ostream& out);

struct PackFileRequest {
  std::string file;  ///< .csv or .json
  std::optional<int64_t> capacity;
  std::string packer;
  passes::PassOptions options;
  bool lowest = false;  ///< the least height instead of the capacity; `options` are those of "exact"
  std::string output;   ///< .csv (with the column "offset") or .json (the solution); empty: none
  std::string answer;   ///< such a file, to check instead; empty: none
};

/// Packs a file, prints status, height, bound and nodes. Returns the exit code: 0 solved, 1 infeasible or
/// given up, or the answer that is to be checked is wrong. The output is written in any case in which there
/// are offsets, .json always. UserError as load_packing and pack.
int pack_file(const PackFileRequest& request, std::ostream& out);

}  // namespace kodama::scheduler
