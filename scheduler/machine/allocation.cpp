#include <algorithm>
#include <limits>
#include <numeric>
#include <optional>
#include <queue>

#include "isa/error.h"
#include "scheduler/machine/builtin_passes.h"
#include "scheduler/machine/program_analysis.h"
#include "scheduler/packing/packing.h"

/// Three allocators. "linear-scan" goes through the values by start of lifetime and takes, among the free
/// places, the one whose last owner died longest ago: reused words order unrelated operations (write after
/// read), so they are reused as late as possible. If that fragmentation makes a memory overflow, and for
/// "first-fit" always, values are placed by falling size at the lowest place that is free for their lifetime.
/// Where that overflows, too, and for "packed" always, a packer (scheduler/packing/packing.h) looks for
/// places.
namespace kodama::scheduler {
namespace {

using isa::Space;

struct Request {
  int value = 0;
  int64_t size = 0;
  int64_t alignment = 1;
  Lifetime life;
};

struct MemoryProblem {
  Space space = Space::kNone;
  int64_t size = 0;
  std::vector<bool> reserved;
  std::vector<Request> requests;
};

/// Addresses by request, or nothing if some request has no place.
using Solution = std::optional<std::vector<int64_t>>;

Solution linear_scan(const MemoryProblem& problem) {
  std::vector<size_t> order(problem.requests.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return problem.requests[a].life.begin < problem.requests[b].life.begin;
  });
  constexpr int64_t kForever = std::numeric_limits<int64_t>::max();
  std::vector<int64_t> free_from(problem.size, -1);  // moment at which a word's last owner dies
  for (int64_t word = 0; word < problem.size; ++word) {
    if (problem.reserved[word]) free_from[word] = kForever;
  }
  std::vector<int64_t> addresses(problem.requests.size(), -1);
  for (const size_t k : order) {
    const Request& request = problem.requests[k];
    int64_t best = -1;
    int64_t best_age = kForever;
    for (int64_t address = 0; address + request.size <= problem.size;) {
      int64_t age = -1;
      int64_t blocked_at = -1;
      for (int64_t word = address; word < address + request.size; ++word) {
        if (free_from[word] > request.life.begin) {
          blocked_at = word;
          break;
        }
        age = std::max(age, free_from[word]);
      }
      if (blocked_at < 0) {
        if (age < best_age) {
          best = address;
          best_age = age;
        }
        if (age < 0) break;  // nobody has used it yet
        address += request.alignment;
      } else {
        address = (blocked_at / request.alignment + 1) * request.alignment;
      }
    }
    if (best < 0) return std::nullopt;
    addresses[k] = best;
    std::fill_n(free_from.begin() + best, request.size, request.life.end);
  }
  return addresses;
}

Solution first_fit(const MemoryProblem& problem) {
  std::vector<size_t> order(problem.requests.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return problem.requests[a].size > problem.requests[b].size; });
  std::vector<int64_t> addresses(problem.requests.size(), -1);
  std::vector<size_t> placed;
  for (const size_t k : order) {
    const Request& request = problem.requests[k];
    std::vector<bool> busy = problem.reserved;
    for (const size_t other : placed) {
      if (!problem.requests[other].life.overlaps(request.life)) continue;
      std::fill_n(busy.begin() + addresses[other], problem.requests[other].size, true);
    }
    int64_t address = 0;
    bool found = false;
    while (!found && address + request.size <= problem.size) {
      int64_t word = address + request.size - 1;
      while (word >= address && !busy[word]) --word;
      found = word < address;
      if (!found) address = (word / request.alignment + 1) * request.alignment;
    }
    if (!found) return std::nullopt;
    addresses[k] = address;
    placed.push_back(k);
  }
  return addresses;
}

/// The memory as a problem of address packing; words that operations name directly are buffers with fixed
/// offsets, at the end.
PackingProblem packing_problem(const MachineProgram& program, const MemoryProblem& memory) {
  PackingProblem problem;
  problem.name = fmt::format("{} {}", program.name, isa::space_name(memory.space));
  problem.capacity = memory.size;
  int64_t begin = std::numeric_limits<int64_t>::max();
  int64_t end = std::numeric_limits<int64_t>::min();
  for (const Request& request : memory.requests) {
    PackingBuffer buffer;
    buffer.name = fmt::format("{}.{}", request.value, program.values[request.value].name);
    buffer.lower = request.life.begin;
    buffer.upper = request.life.end;
    buffer.size = request.size;
    buffer.alignment = request.alignment;
    begin = std::min(begin, buffer.lower);
    end = std::max(end, buffer.upper);
    problem.buffers.push_back(std::move(buffer));
  }
  for (int64_t word = 0; word < memory.size && !memory.requests.empty(); ++word) {
    if (!memory.reserved[word]) continue;
    PackingBuffer buffer;
    buffer.name = fmt::format("word {}", word);
    buffer.lower = begin;
    buffer.upper = end;
    buffer.fixed_offset = word;
    for (; word < memory.size && memory.reserved[word]; ++word) ++buffer.size;
    problem.buffers.push_back(std::move(buffer));
  }
  return problem;
}

Solution packed(const MachineProgram& program, const MemoryProblem& memory, const std::string& packer) {
  if (memory.requests.empty()) return std::vector<int64_t>{};
  const PackingSolution found = pack(packing_problem(program, memory), packer);
  if (found.status != PackingStatus::kSolved) return std::nullopt;
  return std::vector<int64_t>(found.offsets.begin(),
                              found.offsets.begin() + static_cast<ptrdiff_t>(memory.requests.size()));
}

[[noreturn]] void report_overflow(const MachineProgram& program, const MemoryProblem& problem) {
  // The moment at which most words are live says what would have to shrink.
  std::vector<std::pair<int64_t, int64_t>> changes;
  for (const Request& request : problem.requests) {
    changes.emplace_back(request.life.begin, request.size);
    changes.emplace_back(request.life.end, -request.size);
  }
  std::sort(changes.begin(), changes.end());
  int64_t live = 0;
  int64_t most = 0;
  int64_t when = 0;
  for (const auto& [moment, change] : changes) {
    live += change;
    if (live > most) {
      most = live;
      when = moment;
    }
  }
  std::string names;
  int listed = 0;
  std::vector<Request> largest = problem.requests;
  std::sort(largest.begin(), largest.end(),
            [](const Request& a, const Request& b) { return a.size > b.size; });
  for (const Request& request : largest) {
    if (request.life.begin > when || request.life.end <= when || ++listed > 8) continue;
    names += fmt::format("{}%{} ({})", names.empty() ? "" : ", ", program.values[request.value].name,
                         request.size);
  }
  const auto reserved = std::count(problem.reserved.begin(), problem.reserved.end(), true);
  throw isa::UnsupportedError(fmt::format(
      "program '{}' does not fit: {} needs {} words at once, it has {}{}; largest values then: {}. Use "
      "smaller tiles.",
      program.name, home_name(problem.space), most, problem.size,
      reserved > 0 ? fmt::format(" of which {} are used directly", reserved) : "", names));
}

/// What each memory must hold. Values that nobody touches get address 0.
std::vector<MemoryProblem> memory_problems(const MachineProgram& program, const isa::Chip& chip) {
  const ProgramIndex index = index_program(program);
  const std::vector<Lifetime> lifetimes = compute_lifetimes(program, index);
  const std::vector<int64_t> alignments = compute_alignments(program, index);
  std::vector<MemoryProblem> problems;
  std::vector<Space> spaces(kPeHomes.begin(), kPeHomes.end());
  spaces.push_back(Space::kOmr);
  for (const Space space : spaces) {
    MemoryProblem& problem = problems.emplace_back();
    problem.space = space;
    problem.size = home_size(space, chip);
    problem.reserved = reserved_words(index, space, problem.size);
    for (size_t v = 0; v < program.values.size(); ++v) {
      const Value& value = program.values[v];
      isa::check_internal(value.home != Space::kNone, "allocation", "value %{} has no home", value.name);
      if (value.home != space || lifetimes[v].empty()) continue;
      const bool t = space == Space::kT;
      problem.requests.push_back({static_cast<int>(v), t ? problem.size : value.size_words,
                                  t ? int64_t{1} : alignments[v], lifetimes[v]});
    }
  }
  return problems;
}

enum class Method : uint8_t { kLinearScan, kFirstFit, kPacker };

void allocate(MachineProgram& program, const isa::Chip& chip, Method method,
              const std::string& packer = "exact") {
  for (Value& value : program.values) value.address = 0;
  for (const MemoryProblem& problem : memory_problems(program, chip)) {
    Solution solution;
    if (method == Method::kLinearScan) solution = linear_scan(problem);
    if (method == Method::kPacker) solution = packed(program, problem, packer);
    if (!solution) solution = first_fit(problem);
    if (!solution && method == Method::kFirstFit) solution = linear_scan(problem);
    if (!solution && method != Method::kPacker) solution = packed(program, problem, packer);
    if (!solution) report_overflow(program, problem);
    for (size_t k = 0; k < problem.requests.size(); ++k) {
      program.values[problem.requests[k].value].address = (*solution)[k];
    }
  }
}

const passes::PassOptionInfo kPacker{"allocation-packer", "exact", "a packer of 'kodama passes'"};

}  // namespace

std::vector<PackingProblem> allocation_problems(const MachineProgram& program, const isa::Chip& chip) {
  std::vector<PackingProblem> problems;
  for (const MemoryProblem& memory : memory_problems(program, chip)) {
    if (!memory.requests.empty()) problems.push_back(packing_problem(program, memory));
  }
  return problems;
}

Allocator linear_scan_pass() {
  return {"linear-scan",
          "by start of lifetime, into the words that are free longest",
          {},
          [](MachineProgram& program, const isa::Chip& chip, const passes::PassOptions&) {
            allocate(program, chip, Method::kLinearScan);
          }};
}

Allocator first_fit_pass() {
  return {"first-fit",
          "by falling size, at the lowest free address",
          {},
          [](MachineProgram& program, const isa::Chip& chip, const passes::PassOptions&) {
            allocate(program, chip, Method::kFirstFit);
          }};
}

Allocator packed_pass() {
  return {"packed",
          "every memory is a problem of address packing",
          {kPacker},
          [](MachineProgram& program, const isa::Chip& chip, const passes::PassOptions& options) {
            std::vector<std::string> names;
            for (const Packer& packer : packers()) names.push_back(packer.name);
            allocate(program, chip, Method::kPacker, passes::choice_option(options, kPacker, names));
          }};
}

}  // namespace kodama::scheduler
