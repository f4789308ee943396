/// A packer as a plugin: the longest lives first, each as low as it can. docs/write-a-pass.md explains it.
#include <algorithm>
#include <numeric>
#include <vector>

#include "isa/arithmetic.h"
#include "passes/plugin.h"
#include "scheduler/packing/packing.h"

using namespace kodama::scheduler;

namespace {

PackingSolution pack_longest_first(const PackingProblem& problem, const kodama::passes::PassOptions&) {
  const std::vector<PackingBuffer>& buffers = problem.buffers;
  std::vector<size_t> order(buffers.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, std::ranges::greater(), [&](size_t k) {  // who may not choose, before all
    return std::pair(buffers[k].fixed_offset.has_value(), buffers[k].upper - buffers[k].lower);
  });
  PackingSolution solution;
  solution.lower_bound = packing_lower_bound(problem);
  std::vector<int64_t> offsets(buffers.size(), -1);
  for (const size_t k : order) {
    const PackingBuffer& mine = buffers[k];
    offsets[k] = mine.fixed_offset.value_or(0);
    for (size_t other = 0; other < buffers.size(); ++other) {
      const int64_t end = offsets[other] + buffers[other].size;
      const bool meets = other != k && offsets[other] >= 0 && mine.lower < buffers[other].upper &&
                         buffers[other].lower < mine.upper && offsets[k] < end &&
                         offsets[other] < offsets[k] + mine.size;
      if (!meets) continue;
      if (mine.fixed_offset) return solution;  // given up
      offsets[k] = kodama::isa::round_up(end, mine.alignment);
      other = SIZE_MAX;  // and all over again
    }
    solution.height = std::max(solution.height, offsets[k] + mine.size);
  }
  solution.offsets = offsets;
  solution.nodes = static_cast<int64_t>(buffers.size());
  if (solution.height <= problem.capacity) solution.status = PackingStatus::kSolved;
  solution.message = "the longest lives first";
  return solution;
}

}  // namespace

KODAMA_PLUGIN() {
  register_pass(Packer{.name = "longest-first",
                       .description = "the longest lives first, each as low as it can",
                       .options = {},
                       .run = pack_longest_first});
}
