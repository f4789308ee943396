/// Any test case and answer to the judge, which assembles and runs both.
#include "assembler/assembler.h"
#include "simulator/judge.h"
#include "testsuite/fuzz/fuzz_target.h"

namespace kodama::fuzz {

/// The input is a test case, a line `=`, and an answer.
void fuzz_one(std::string_view input) {
  constexpr std::string_view kBetween = "\n=\n";
  const size_t at = input.find(kBetween);
  if (at == std::string_view::npos) return;
  simulator::JudgeOptions options;
  options.chip = chip().name;
  options.machine.threads = 1;
  const simulator::Verdict verdict =
      simulator::judge(input.substr(0, at), "test", input.substr(at + kBetween.size()), "answer", options);
  require(verdict.accepted == verdict.differences.empty(), "accepted means no differences");
  require(!simulator::verdict_text(verdict).empty(), "a verdict has a text");
}

}  // namespace kodama::fuzz
