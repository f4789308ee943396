#pragma once

#include <cstdint>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "passes/pass_options.h"

/// Address packing ("offline dynamic storage allocation"): buffers with known lifetimes, sizes and alignments
/// get offsets in one memory, such that no two that are live at the same moment overlap and all stay below
/// the capacity. Moments and bytes are plain integers; any unit will do.
///
/// Example: capacity 12, five buffers of size 4
///
///     buffer  lower upper                offset
///     b1          0     3      |b1 |b2 b2|            8
///     b2          3     9      |b3 b3 b3 |b4 b4 b4    4
///     b3          0     9      |b5 b5 b5 b5 b5 b5     0
///     b4          9    21       0   3     9      21
///     b5          0    21
///
/// Three buffers are live at moment 0, so that 12 is the lower bound of the height; `b1` and `b2` share
/// offset 8, since `b1` ends (at its `upper`, exclusive) when `b2` begins. As a file of the format of
/// google/minimalloc:
///
///     id,lower,upper,size
///     b1,0,3,4
///     b2,3,9,4
///     b3,0,9,4
///     b4,9,21,4
///     b5,0,21,4
///
/// and in code:
///
///     PackingProblem problem = read_packing_csv(text, "five.csv", 12);
///     PackingSolution solution = pack(problem, "exact");      // verified; solution.status == kSolved
///     std::string csv = packing_csv(problem, &solution);      // with a column "offset": 8,8,4,4,0
namespace kodama::scheduler {

/// A period [lower, upper) inside a buffer's lifetime in which it needs no room, or, with a window, only its
/// bytes [window_lower, window_upper), counted from its offset.
struct PackingGap {
  int64_t lower = 0;
  int64_t upper = 0;
  bool has_window = false;
  int64_t window_lower = 0;
  int64_t window_upper = 0;
  bool operator==(const PackingGap&) const = default;
};

struct PackingBuffer {
  std::string name;
  int64_t lower = 0;  ///< first moment
  int64_t upper = 0;  ///< one past the last moment
  int64_t size = 0;
  int64_t alignment = 1;                ///< the offset is a multiple of it
  std::optional<int64_t> fixed_offset;  ///< demanded
  std::optional<int64_t> hint;          ///< suggested; kept in files, no packer of ours looks at it
  std::vector<PackingGap> gaps;         ///< rising, disjoint
  bool operator==(const PackingBuffer&) const = default;
};

struct PackingProblem {
  std::string name;
  int64_t capacity = 0;
  std::vector<PackingBuffer> buffers;
  bool operator==(const PackingProblem&) const = default;
};

enum class PackingStatus {
  kSolved,      ///< offsets within the capacity
  kInfeasible,  ///< proven that there are none
  kGaveUp,      ///< neither found nor excluded
};
/// "solved", "infeasible", "gave up".
std::string_view to_string(PackingStatus status);

struct PackingSolution {
  PackingStatus status = PackingStatus::kGaveUp;
  /// One per buffer. If not solved: the lowest packing that was found, higher than the capacity; empty if
  /// there is none (buffers with fixed offsets overlap).
  std::vector<int64_t> offsets;
  int64_t height = 0;       ///< largest offset + size; 0 if there are no offsets
  int64_t lower_bound = 0;  ///< no packing is lower than this
  int64_t nodes = 0;        ///< of the search; for heuristics, buffers placed
  std::string message;      ///< one line: what solved it, or why not
};

/// UserError if the problem is malformed: an empty lifetime, a size below 1, two buffers of one name, gaps
/// outside the lifetime, numbers beyond 2^44 (times: 2^60). A buffer that is larger than the capacity is not
/// malformed.
void check_packing_problem(const PackingProblem& problem);

/// No packing is lower than this: the largest live load, sizes rounded up to what alignments waste in any
/// case.
int64_t packing_lower_bound(const PackingProblem& problem);
/// The largest number of bytes live at one moment.
int64_t packing_load(const PackingProblem& problem);

// ---- Files ----

/// The format of google/minimalloc: a header line, then one buffer a line. Columns in any order: `id` (also
/// `buffer`, `buffer_id`), `lower` (`start`, `begin`), `upper` (exclusive) or `end` (inclusive), `size`, and
/// optionally `alignment`, `hint`, `gaps` ("5-7 9-12@0:64": periods, written like the lifetime, with windows)
/// and `offset`. An offset is read as a fixed one; an empty field stands for none. `file` is for messages.
/// UserError with file, line and column.
PackingProblem read_packing_csv(std::string_view text, const std::string& file, int64_t capacity);
/// With a solution, its offsets in the column `offset`; otherwise fixed offsets, if there are any. Optional
/// columns are written where some buffer needs them.
std::string packing_csv(const PackingProblem& problem, const PackingSolution* solution = nullptr,
                        bool inclusive_end = false);

/// {"name", "capacity", "buffers": [{"name", "lower", "upper", "size", "alignment", "offset", "hint",
///  "gaps": [{"lower", "upper", "window": [lower, upper]}]}]}; from "alignment" on optional.
nlohmann::ordered_json packing_json(const PackingProblem& problem);
/// {"problem", "status", "height", "capacity", "lower_bound", "nodes", "message", "offsets": {name: offset}}
nlohmann::ordered_json packing_json(const PackingProblem& problem, const PackingSolution& solution);
/// UserError with file, line and column for what is no JSON, with the path of the member otherwise.
PackingProblem read_packing_json(std::string_view text, const std::string& file);
PackingSolution read_packing_solution_json(std::string_view text, const std::string& file,
                                           const PackingProblem& problem);

/// Reads `path` by its ending, .csv or .json. The capacity, if it is not given: of a CSV file, from a name
/// such as NAME.1048576.csv; of a JSON file, its "capacity".
PackingProblem load_packing(const std::string& path, std::optional<int64_t> capacity = std::nullopt);

/// Makes a solution of the problem's fixed offsets and frees them: what a CSV file with an answer holds.
/// UserError if a buffer has none. The status is by height; call verify_packing.
PackingSolution take_solution(PackingProblem& problem);

// ---- Checking ----

/// What is wrong with a solution, as text: "buffers 'b1' [8, 12) and 'b2' [10, 14) overlap at moment 3", one
/// entry per violated constraint or overlapping pair. Shares no code with the packers.
std::vector<std::string> packing_violations(const PackingProblem& problem, const PackingSolution& solution);
/// InternalError with the first of them.
void verify_packing(const PackingProblem& problem, const PackingSolution& solution);

// ---- Packers ----

/// Finds offsets. The problem has been checked; the packer says kInfeasible only if that is proven.
struct Packer {
  std::string name;
  std::string description;
  std::vector<passes::PassOptionInfo> options;
  std::function<PackingSolution(const PackingProblem&, const passes::PassOptions&)> run;
  std::string plugin = {};  ///< the file it came from; empty: Kodama's own. Filled by register_pass
};

/// Registry. The first is the default. Registering a name twice is an InternalError, from a plugin a
/// UserError.
const std::vector<Packer>& packers();
void register_pass(Packer packer);
/// By name; empty = default. UserError listing the names.
const Packer& find_packer(const std::string& name);

/// Checks the problem and the options' names, runs the packer, verifies its result.
PackingSolution pack(const PackingProblem& problem, const std::string& packer = {},
                     const passes::PassOptions& options = {});

/// The packing of least height: `pack` with falling capacities (and "exact" for the packer). kSolved: the
/// height is proven least; kGaveUp: the best found, and the best bound. `problem.capacity` plays no part.
/// kInfeasible: fixed offsets contradict each other.
PackingSolution pack_lowest(const PackingProblem& problem, const passes::PassOptions& exact_options = {});

}  // namespace kodama::scheduler
