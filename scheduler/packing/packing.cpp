#include "scheduler/packing/packing.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <set>

#include "isa/error.h"
#include "passes/registry.h"
#include "scheduler/packing/packing_builtin.h"

namespace kodama::scheduler {
namespace {

constexpr int64_t kMaxBytes = int64_t{1} << 44;
constexpr int64_t kMaxTime = int64_t{1} << 60;

passes::Registry<Packer>& registry() {
  static passes::Registry<Packer> all(
      "packer", {exact_packer(), first_fit_packer(), best_fit_packer(), skyline_packer(), improve_packer()});
  return all;
}

int64_t round_up(int64_t value, int64_t unit) {
  return (value + unit - 1) / unit * unit;
}

/// Bytes that the buffer holds at `moment`, a moment of its lifetime.
int64_t bytes_at(const PackingBuffer& b, int64_t moment) {
  for (const PackingGap& gap : b.gaps) {
    if (gap.lower <= moment && moment < gap.upper) {
      return gap.has_window ? gap.window_upper - gap.window_lower : 0;
    }
  }
  return b.size;
}

/// Calls `visit(live buffers)` for a moment of every period between two changes.
void for_each_moment(const PackingProblem& problem,
                     const std::function<void(int64_t moment, const std::vector<int>& live)>& visit) {
  std::vector<int64_t> moments;
  for (const PackingBuffer& b : problem.buffers) {
    moments.push_back(b.lower);
    for (const PackingGap& gap : b.gaps) {
      moments.push_back(gap.lower);
      if (gap.upper < b.upper) moments.push_back(gap.upper);
    }
  }
  std::sort(moments.begin(), moments.end());
  moments.erase(std::unique(moments.begin(), moments.end()), moments.end());
  std::vector<int> by_start(problem.buffers.size());
  for (size_t i = 0; i < by_start.size(); ++i) by_start[i] = static_cast<int>(i);
  std::stable_sort(by_start.begin(), by_start.end(),
                   [&](int a, int b) { return problem.buffers[a].lower < problem.buffers[b].lower; });
  std::vector<int> live;
  size_t next = 0;
  for (const int64_t moment : moments) {
    std::erase_if(live, [&](int i) { return problem.buffers[i].upper <= moment; });
    while (next < by_start.size() && problem.buffers[by_start[next]].lower <= moment) {
      live.push_back(by_start[next++]);
    }
    visit(moment, live);
  }
}

}  // namespace

std::string_view to_string(PackingStatus status) {
  switch (status) {
    case PackingStatus::kSolved:
      return "solved";
    case PackingStatus::kInfeasible:
      return "infeasible";
    case PackingStatus::kGaveUp:
      return "gave up";
  }
  return "";
}

void check_packing_problem(const PackingProblem& problem) {
  const auto fail = [&](const PackingBuffer& b, const std::string& message) {
    throw isa::UserError(fmt::format("{}: buffer '{}': {}", problem.name, b.name, message));
  };
  if (problem.capacity < 0 || problem.capacity > kMaxBytes) {
    throw isa::UserError(
        fmt::format("{}: found capacity {}, allowed: 0 to {}", problem.name, problem.capacity, kMaxBytes));
  }
  std::set<std::string_view> names;
  for (const PackingBuffer& b : problem.buffers) {
    if (!names.insert(b.name).second) fail(b, "found two buffers of this name, allowed: one");
    if (b.lower >= b.upper || b.lower < -kMaxTime || b.upper > kMaxTime) {
      fail(b, fmt::format("found lifetime [{}, {}), allowed: lower < upper, both within +-2^60", b.lower,
                          b.upper));
    }
    if (b.size < 1 || b.size > kMaxBytes) {
      fail(b, fmt::format("found size {}, allowed: 1 to {}", b.size, kMaxBytes));
    }
    if (b.alignment < 1 || b.alignment > kMaxBytes) {
      fail(b, fmt::format("found alignment {}, allowed: 1 to {}", b.alignment, kMaxBytes));
    }
    if (b.fixed_offset &&
        (*b.fixed_offset < 0 || *b.fixed_offset > kMaxBytes || *b.fixed_offset % b.alignment != 0)) {
      fail(b, fmt::format("found offset {}, allowed: multiples of the alignment {} from 0 to {}",
                          *b.fixed_offset, b.alignment, kMaxBytes));
    }
    int64_t from = b.lower;
    for (const PackingGap& gap : b.gaps) {
      if (gap.lower < from || gap.lower >= gap.upper || gap.upper > b.upper) {
        fail(b, fmt::format("found gap [{}, {}), allowed: rising, disjoint periods of the lifetime [{}, {})",
                            gap.lower, gap.upper, b.lower, b.upper));
      }
      from = gap.upper;
      if (gap.has_window &&
          (gap.window_lower < 0 || gap.window_lower > gap.window_upper || gap.window_upper > b.size)) {
        fail(b, fmt::format("found window [{}, {}), allowed: a part of [0, {})", gap.window_lower,
                            gap.window_upper, b.size));
      }
    }
  }
}

int64_t packing_load(const PackingProblem& problem) {
  int64_t most = 0;
  for_each_moment(problem, [&](int64_t moment, const std::vector<int>& live) {
    int64_t sum = 0;
    for (const int i : live) sum += bytes_at(problem.buffers[i], moment);
    most = std::max(most, sum);
  });
  return most;
}

int64_t packing_lower_bound(const PackingProblem& problem) {
  int64_t bound = packing_load(problem);
  for (const PackingBuffer& b : problem.buffers) {
    bound = std::max(bound, b.fixed_offset.value_or(0) + b.size);
  }
  // Where all offsets are multiples of `unit`, everybody but the topmost takes a multiple of it.
  for_each_moment(problem, [&](int64_t moment, const std::vector<int>& live) {
    int64_t unit = 0;
    for (const int i : live) unit = std::gcd(unit, problem.buffers[i].alignment);
    if (unit <= 1) return;
    int64_t sum = 0;
    int64_t largest_waste = 0;
    for (const int i : live) {
      const PackingBuffer& b = problem.buffers[i];
      if (bytes_at(b, moment) != b.size) continue;  // a window may share its ends with others
      sum += round_up(b.size, unit);
      largest_waste = std::max(largest_waste, round_up(b.size, unit) - b.size);
    }
    bound = std::max(bound, sum - largest_waste);
  });
  return bound;
}

PackingSolution take_solution(PackingProblem& problem) {
  std::vector<int64_t> offsets;
  for (PackingBuffer& b : problem.buffers) {
    if (!b.fixed_offset) {
      throw isa::UserError(fmt::format("{}: buffer '{}': found no offset, allowed: one for every buffer",
                                       problem.name, b.name));
    }
    offsets.push_back(*b.fixed_offset);
  }
  for (PackingBuffer& b : problem.buffers) b.fixed_offset.reset();
  return finish_packing(problem, std::move(offsets), 0, "given");
}

const std::vector<Packer>& packers() {
  return registry().all();
}
void register_pass(Packer packer) {
  registry().add(std::move(packer));
}
const Packer& find_packer(const std::string& name) {
  return registry().find(name);
}

PackingSolution pack(const PackingProblem& problem, const std::string& packer,
                     const passes::PassOptions& options) {
  const Packer& chosen = find_packer(packer);
  for (const auto& [name, value] : options) {
    std::string names;
    bool known = false;
    for (const passes::PassOptionInfo& info : chosen.options) {
      known = known || info.name == name;
      names += (names.empty() ? "" : ", ") + info.name;
    }
    if (!known) {
      throw isa::UserError(fmt::format("found option '{}' of packer '{}', allowed: {}", name, chosen.name,
                                       names.empty() ? "none" : names));
    }
  }
  check_packing_problem(problem);
  if (problem.buffers.empty()) return finish_packing(problem, {}, 0, "nothing to pack");
  PackingSolution solution;
  passes::run_blaming("packer", chosen, [&] {
    solution = chosen.run(problem, options);
    verify_packing(problem, solution);
  });
  return solution;
}

PackingSolution pack_lowest(const PackingProblem& problem, const passes::PassOptions& exact_options) {
  PackingProblem trial = problem;
  trial.capacity = packing_lower_bound(problem);
  int64_t low = trial.capacity;  // nothing below is possible
  bool gave_up = false;
  PackingSolution best = pack(trial, "exact", exact_options);
  int64_t nodes = best.nodes;
  if (best.offsets.empty()) return best;
  if (best.status != PackingStatus::kSolved) {
    gave_up = best.status == PackingStatus::kGaveUp;
    int64_t tried = low;  // nothing below or at it is known to be possible
    if (!gave_up) low = tried + 1;
    while (tried + 1 < best.height) {
      trial.capacity = tried + (best.height - tried) / 2;
      PackingSolution next = pack(trial, "exact", exact_options);
      nodes += next.nodes;
      if (next.height < best.height) best = next;
      if (next.status == PackingStatus::kSolved) continue;
      tried = trial.capacity;
      if (next.status == PackingStatus::kInfeasible) low = tried + 1;
    }
  }
  best.nodes = nodes;
  best.lower_bound = low;
  best.status = best.height == low ? PackingStatus::kSolved : PackingStatus::kGaveUp;
  best.message = best.status == PackingStatus::kSolved ? "least height" : "lowest found";
  return best;
}

// ---- Shared by the packers ----

int64_t packing_height(const PackingProblem& problem, const std::vector<int64_t>& offsets) {
  int64_t height = 0;
  for (size_t i = 0; i < offsets.size(); ++i) {
    height = std::max(height, offsets[i] + problem.buffers[i].size);
  }
  return height;
}

PackingSolution finish_packing(const PackingProblem& problem, std::vector<int64_t> offsets, int64_t nodes,
                               const std::string& how) {
  PackingSolution result;
  result.height = packing_height(problem, offsets);
  result.lower_bound = packing_lower_bound(problem);
  result.nodes = nodes;
  result.message = how;
  const bool found = offsets.size() == problem.buffers.size();
  result.offsets = std::move(offsets);
  if (found && result.height <= problem.capacity) {
    result.status = PackingStatus::kSolved;
  } else if (result.lower_bound > problem.capacity) {
    result.status = PackingStatus::kInfeasible;
    result.message =
        fmt::format("the lower bound {} exceeds the capacity {}", result.lower_bound, problem.capacity);
  } else {
    result.status = PackingStatus::kGaveUp;
  }
  return result;
}

}  // namespace kodama::scheduler
