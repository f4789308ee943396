#include "scheduler/recompute/recompute_generator.h"

#include <fmt/format.h>

#include <algorithm>

#include "scheduler/packing/packing_builtin.h"
#include "scheduler/recompute/recompute_builtin.h"

namespace kodama::scheduler {

RecomputeProblem generate_recompute(const RecomputeRequest& request) {
  PackingRandom random(request.seed);
  RecomputeProblem problem;
  problem.name = fmt::format("{}_{}_{}{}", request.skips > 0 ? "graph" : "chain", request.stages,
                             request.seed, request.is_even ? "_even" : "");
  constexpr int64_t kMost = 16;
  const auto size = [&] { return request.is_even ? kMost : random.between(1, kMost); };
  const auto add = [&](std::string name, std::vector<int> reads, int64_t bytes) {
    std::ranges::sort(reads);
    reads.erase(std::unique(reads.begin(), reads.end()), reads.end());
    const int value = static_cast<int>(problem.values.size());
    problem.values.push_back({name, bytes, false});
    problem.operations.push_back({std::move(name), size(), 0, false, std::move(reads), {value}});
    return value;
  };
  std::vector<std::vector<int>> reads_of;
  for (int k = 0; k < request.stages; ++k) {
    std::vector<int> reads;
    if (k > 0) reads.push_back(k - 1);
    if (k > 1 && random.unit() < request.skips)
      reads.push_back(static_cast<int>(random.between(std::max(0, k - 6), k - 2)));
    reads_of.push_back(reads);
    add(fmt::format("f{}", k), reads, size());
  }
  problem.values[static_cast<size_t>(add("loss", {request.stages - 1}, 0))].is_kept = true;
  int gradient = -1;
  for (int k = request.stages; k-- > 0;) {
    std::vector<int> reads = reads_of[static_cast<size_t>(k)];
    reads.push_back(k);
    if (gradient >= 0) reads.push_back(gradient);
    const int64_t bytes = k > 0 ? problem.values[static_cast<size_t>(k - 1)].bytes : 1;
    gradient = add(fmt::format("b{}", k), reads, bytes);
  }
  problem.values.back().is_kept = true;
  const int64_t least = recompute_bound(problem).peak;
  const int64_t most = cost_of(problem, given_order(problem)).peak;
  problem.limit = least + static_cast<int64_t>(request.share * static_cast<double>(most - least));
  return problem;
}

}  // namespace kodama::scheduler
