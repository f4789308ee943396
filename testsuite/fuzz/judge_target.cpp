/// Any test case and answer to the judge, which assembles and runs both.
#include "simulator/debug/judge.h"
#include "testsuite/fuzz/fuzz_target.h"

namespace kodama::fuzz {

/// The input is a test case, a line `=`, and an answer.
void fuzz_one(std::string_view input) {
  const auto [test_case, answer] = halves(input);
  simulator::JudgeOptions options;
  options.chip = chip().name;
  options.machine.threads = 1;
  const simulator::Verdict verdict = simulator::judge(test_case, "test", answer, "answer", options);
  require(verdict.accepted == verdict.differences.empty(), "accepted means no differences");
  require(!simulator::verdict_text(verdict).empty(), "a verdict has a text");
}

}  // namespace kodama::fuzz
