#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "isa/chip.h"
#include "simulator/machine.h"

/// The judge: runs an answer between the two halves of a test case and compares what the test case prints
/// with what it expects (section 10.5 of the ISA page).
///
/// A test case:
///
///     d set $lm0n0c0b0m0p0 1 400000003F800000
///     # ======= YOUR VSM WILL BE INSERTED HERE =======
///     # ======= Output =======
///     d getd $ln0n0c0b0m0p0 1 # expect=[4.0, 2.0] / Float @[0],[1] rtol=1e-6
///
/// and an answer to it:
///
///     fvadd $lm0 $lm0 $ln0
///
/// Everything in front of the marker, the answer, and everything behind the marker are programs of their own
/// on one machine: memories stay, block masks do not. Of an answer only steps and transfers count; its `d
/// get`, `d set` and `r` statements are dropped. A comment of an answer begins with `#` or `!`.
///
/// `# expect=[…] / TYPE` follows a `d get` on its line and lists, in the order in which the statement prints
/// them, the lanes of its long words: Int, UInt, Float (2 lanes), Short, UShort, Half (4), Long, ULong,
/// Double (1). `_` stands for a lane that may be anything; a list may end early. `@[…],…` names the lanes in
/// messages. A lane is wrong when it differs by more than `atol` and by more than `rtol` times the expected
/// magnitude (both 0 unless given). Zeros are equal, and so are infinities of one sign. Numbers are decimal,
/// hexadecimal or binary integers (up to the lane's width: 0xffffffff is -1 as an Int), decimal fractions,
/// inf and -inf.
///
/// A comment `# chip=NAME` in front of the marker chooses the chip.
namespace kodama::simulator {

struct JudgeOptions {
  Hazards hazards = Hazards::kIgnore;  ///< of the answer
  std::string chip = "mncore2";        ///< where the test case names none
  MachineOptions machine;
  /// What an answer may take; UserError when it takes more. 0 = no limit.
  int64_t most_steps = 1'000'000;      ///< steps and transfers
  double most_seconds = 60;            ///< to run it
  int64_t most_bytes = 1'000'000'000;  ///< of DRAM, in addition to the other memories of the chip
};

struct JudgeDifference {
  int line = 0;          ///< of the test case
  std::string place;     ///< "LM0(n0c0b0m0p0,4) lane 1", with the name that `@` gives it
  std::string expected;  ///< as written
  std::string found;
};

struct Verdict {
  bool accepted = false;
  std::vector<JudgeDifference> differences;
  int64_t values = 0;                                  ///< lanes compared
  int64_t steps = 0;                                   ///< of the answer; nop/N counts N
  int64_t transfers = 0;                               ///< MV statements of the answer
  int64_t bytes = 0;                                   ///< of the answer without comments
  int64_t dropped = 0;                                 ///< debug statements of the answer
  int64_t lines() const { return steps + transfers; }  ///< the contest's score
};

/// UserError naming `test_name` or `answer_name` with line and column when a file is wrong (no marker,
/// nothing expected, an expectation that can't be read, VSM that doesn't assemble or run).
Verdict judge(std::string_view test_case, const std::string& test_name, std::string_view answer,
              const std::string& answer_name, const JudgeOptions& options = {});
Verdict judge_files(const std::string& test_case, const std::string& answer,
                    const JudgeOptions& options = {});
/// "ACCEPTED: …" or the differences (at most `max_differences`), a line each, and a summary.
std::string verdict_text(const Verdict& verdict, size_t max_differences = 20);

/// One problem of a tree: a directory with `answer.vsm` and test cases, which are all its other `.vsm` files.
struct ProblemResult {
  std::string name;  ///< path from the root of the tree
  int tests = 0;
  int passed = 0;
  int64_t lines = 0;  ///< the answer's score
  double seconds = 0;
  std::string message;  ///< of the tests that failed or went wrong
  bool error = false;   ///< a file is wrong
};
/// All problems below a directory, in the order of their names. UserError when there are none.
std::vector<ProblemResult> judge_tree(const std::string& directory, const JudgeOptions& options = {});
/// A table with totals.
std::string judge_table(const std::vector<ProblemResult>& results);

}  // namespace kodama::simulator
