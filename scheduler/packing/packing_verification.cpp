#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "isa/error.h"
#include "scheduler/packing/packing.h"

namespace kodama::scheduler {
namespace {

struct Bytes {
  int64_t first = 0;
  int64_t last = 0;
};

/// What `buffer` at `offset` occupies at `moment`; empty outside its lifetime and in gaps.
Bytes occupied(const PackingBuffer& buffer, int64_t offset, int64_t moment) {
  if (moment < buffer.lower || moment >= buffer.upper) return {};
  for (const PackingGap& gap : buffer.gaps) {
    if (moment < gap.lower || moment >= gap.upper) continue;
    if (!gap.has_window) return {};
    return {offset + gap.window_lower, offset + gap.window_upper};
  }
  return {offset, offset + buffer.size};
}

/// Moments at which what the buffer occupies changes.
std::vector<int64_t> changes(const PackingBuffer& buffer) {
  std::vector<int64_t> result = {buffer.lower};
  for (const PackingGap& gap : buffer.gaps) {
    result.push_back(gap.lower);
    result.push_back(gap.upper);
  }
  return result;
}

}  // namespace

std::vector<std::string> packing_violations(const PackingProblem& problem, const PackingSolution& solution) {
  std::vector<std::string> found;
  const size_t n = problem.buffers.size();
  const bool solved = solution.status == PackingStatus::kSolved;
  if (solution.offsets.size() != n && (solved || !solution.offsets.empty())) {
    found.push_back(fmt::format("{} offsets for {} buffers", solution.offsets.size(), n));
    return found;
  }
  if (solution.offsets.empty() && n > 0) return found;

  int64_t height = 0;
  for (size_t i = 0; i < n; ++i) {
    const PackingBuffer& b = problem.buffers[i];
    const int64_t offset = solution.offsets[i];
    height = std::max(height, offset + b.size);
    if (offset < 0) found.push_back(fmt::format("buffer '{}' has the negative offset {}", b.name, offset));
    if (offset % b.alignment != 0) {
      found.push_back(
          fmt::format("the offset {} of buffer '{}' is no multiple of {}", offset, b.name, b.alignment));
    }
    if (b.fixed_offset && *b.fixed_offset != offset) {
      found.push_back(
          fmt::format("buffer '{}' must be at offset {}, it is at {}", b.name, *b.fixed_offset, offset));
    }
    if (solved && offset + b.size > problem.capacity) {
      found.push_back(fmt::format("buffer '{}' [{}, {}) exceeds the capacity {}", b.name, offset,
                                  offset + b.size, problem.capacity));
    }
  }
  if (height != solution.height) {
    found.push_back(fmt::format("the height is {}, not {}", height, solution.height));
  }
  if (solution.lower_bound > height) {
    found.push_back(fmt::format("the lower bound {} exceeds the height {}", solution.lower_bound, height));
  }
  if (solution.status == PackingStatus::kInfeasible && found.empty() && height <= problem.capacity) {
    found.push_back(
        fmt::format("called infeasible, with a packing of height {} <= {}", height, problem.capacity));
  }

  // Two buffers overlap first at a moment at which one of them begins to occupy something.
  std::vector<size_t> order(n);
  for (size_t i = 0; i < n; ++i) order[i] = i;
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return problem.buffers[a].lower != problem.buffers[b].lower
               ? problem.buffers[a].lower < problem.buffers[b].lower
               : a < b;
  });
  std::vector<size_t> live;
  for (const size_t i : order) {
    const PackingBuffer& b = problem.buffers[i];
    std::vector<size_t> still;
    for (const size_t j : live) {
      const PackingBuffer& a = problem.buffers[j];
      if (a.upper <= b.lower) continue;
      still.push_back(j);
      std::vector<int64_t> moments = changes(a);
      for (const int64_t moment : changes(b)) moments.push_back(moment);
      std::sort(moments.begin(), moments.end());
      for (const int64_t moment : moments) {
        const Bytes x = occupied(a, solution.offsets[j], moment);
        const Bytes y = occupied(b, solution.offsets[i], moment);
        if (x.first == x.last || y.first == y.last) continue;
        if (x.last <= y.first || y.last <= x.first) continue;
        found.push_back(fmt::format("buffers '{}' [{}, {}) and '{}' [{}, {}) overlap at moment {}", a.name,
                                    x.first, x.last, b.name, y.first, y.last, moment));
        break;
      }
    }
    live = std::move(still);
    live.push_back(i);
  }
  return found;
}

void verify_packing(const PackingProblem& problem, const PackingSolution& solution) {
  const std::vector<std::string> found = packing_violations(problem, solution);
  isa::check_internal(found.empty(), "packing", "{}: {}", problem.name, found.empty() ? "" : found.front());
}

}  // namespace kodama::scheduler
