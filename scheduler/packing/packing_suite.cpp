#include "scheduler/packing/packing_suite.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>
#include <ostream>

#include "isa/error.h"
#include "isa/file.h"
#include "isa/output.h"

namespace kodama::scheduler {
namespace {

double ratio(int64_t value, int64_t capacity) {
  return capacity > 0 ? static_cast<double>(value) / static_cast<double>(capacity) : 0;
}

/// The offsets of an answer, in the order of the problem's buffers.
PackingSolution read_answer(const std::string& file, const PackingProblem& problem) {
  if (std::filesystem::path(file).extension() == ".json")
    return read_packing_solution_json(isa::read_file(file), file, problem);
  PackingProblem answer = read_packing_csv(isa::read_file(file), file, problem.capacity);
  PackingSolution given = take_solution(answer);
  std::map<std::string, int64_t> offsets;
  for (size_t k = 0; k < answer.buffers.size(); ++k) offsets[answer.buffers[k].name] = given.offsets[k];
  given.offsets.clear();
  for (const PackingBuffer& buffer : problem.buffers) {
    const auto found = offsets.find(buffer.name);
    if (found == offsets.end())
      throw isa::UserError(
          fmt::format("{}: found no buffer '{}', which {} has", file, buffer.name, problem.name));
    given.offsets.push_back(found->second);
  }
  return given;
}

int check_answer(const PackFileRequest& request, const PackingProblem& problem, std::ostream& out) {
  const PackingSolution answer = read_answer(request.answer, problem);
  const std::vector<std::string> violations = packing_violations(problem, answer);
  for (const std::string& each : violations) out << fmt::format("{}: wrong: {}\n", request.answer, each);
  if (violations.empty()) out << fmt::format("{}: right, height {}\n", request.answer, answer.height);
  return violations.empty() ? 0 : 1;
}

}  // namespace

GeneratedPacking bench_packing(const PackingBenchRequest& request, uint64_t seed) {
  PackingRequest generate = request.generate;
  generate.seed = seed;
  const uint64_t range = static_cast<uint64_t>(request.most_buffers - request.least_buffers + 1);
  generate.buffers = request.least_buffers + static_cast<int>(seed * 97 % range);
  return generate_packing(generate);
}

PackingBenchResult run_packing_bench(const PackingBenchRequest& request, std::ostream& out) {
  if (request.least_buffers < 1 || request.least_buffers > request.most_buffers || request.count < 0) {
    throw isa::UserError(fmt::format("found {} problems of {} to {} buffers, allowed: 1 <= least <= most",
                                     request.count, request.least_buffers, request.most_buffers));
  }
  PackingBenchResult result;
  out << fmt::format("{:<20} {:>7} {:>13} {:<10} {:>15} {:>9} {:>8}\n", "problem", "buffers", "load/capacity",
                     "status", "height/capacity", "nodes", "seconds");
  const auto run = [&](const PackingProblem& problem) {
    const auto start = std::chrono::steady_clock::now();
    const PackingSolution solution = pack(problem, request.packer, request.options);
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    ++result.problems;
    result.solved += solution.status == PackingStatus::kSolved ? 1 : 0;
    result.infeasible += solution.status == PackingStatus::kInfeasible ? 1 : 0;
    result.seconds += seconds;
    out << fmt::format("{:<20} {:>7} {:>13.3f} {:<10} {:>15.3f} {:>9} {:>8.2f}\n", problem.name,
                       problem.buffers.size(), ratio(packing_load(problem), problem.capacity),
                       to_string(solution.status), ratio(solution.height, problem.capacity), solution.nodes,
                       seconds)
        << std::flush;
  };
  for (const std::string& file : request.files) run(load_packing(file, request.capacity));
  if (request.files.empty()) {
    for (int i = 0; i < request.count; ++i) {
      run(bench_packing(request, request.first_seed + static_cast<uint64_t>(i)).problem);
    }
  }
  out << fmt::format("{} of {} solved, {} infeasible, {:.2f} s by {}\n", result.solved, result.problems,
                     result.infeasible, result.seconds, find_packer(request.packer).name);
  return result;
}

namespace {

/// What was found, lowest first, for whom no file was asked for.
void print_offsets(const PackingProblem& problem, const PackingSolution& solution, std::ostream& out) {
  constexpr size_t kMostShown = 40;
  std::vector<size_t> order(solution.offsets.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, {}, [&](size_t k) { return solution.offsets[k]; });
  if (!order.empty()) out << "offset      buffer\n";
  for (size_t k = 0; k < std::min(order.size(), kMostShown); ++k) {
    const PackingBuffer& buffer = problem.buffers[order[k]];
    out << fmt::format("{:<11} {}, {} from moment {} to {}\n", solution.offsets[order[k]], buffer.name,
                       buffer.size, buffer.lower, buffer.upper);
  }
  if (order.size() > kMostShown)
    out << fmt::format("... and {} more; -o FILE has all\n", order.size() - kMostShown);
}

}  // namespace

int pack_file(const PackFileRequest& request, std::ostream& out) {
  const std::string ending = std::filesystem::path(request.output).extension().string();
  if (!ending.empty() && ending != ".csv" && ending != ".json") {
    throw isa::UserError(
        fmt::format("{}: found ending '{}', allowed: .csv, .json, none", request.output, ending));
  }
  if (request.lowest && !request.packer.empty() && request.packer != "exact") {
    throw isa::UserError(
        fmt::format("found packer '{}', allowed for the least height: exact", request.packer));
  }
  const PackingProblem problem = load_packing(request.file, request.capacity);
  if (!request.answer.empty()) return check_answer(request, problem, out);
  const PackingSolution solution =
      request.lowest ? pack_lowest(problem, request.options) : pack(problem, request.packer, request.options);
  out << fmt::format("{}: {} buffers, {} ({})\n", problem.name, problem.buffers.size(),
                     to_string(solution.status), solution.message);
  if (!request.lowest) out << fmt::format("capacity    {}\n", problem.capacity);
  out << fmt::format("height      {}\nlower bound {}\nnodes       {}\n", solution.height,
                     solution.lower_bound, solution.nodes);
  if (request.output.empty()) print_offsets(problem, solution, out);
  if (ending == ".csv") {
    if (!solution.offsets.empty()) isa::write_output(request.output, packing_csv(problem, &solution));
  } else if (!request.output.empty()) {
    isa::write_output(request.output, packing_json(problem, solution).dump(2) + "\n");
  }
  return solution.status == PackingStatus::kSolved ? 0 : 1;
}

}  // namespace kodama::scheduler
