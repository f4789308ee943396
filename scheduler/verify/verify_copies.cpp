#include "scheduler/verify/findings.h"
#include "scheduler/verify/lockstep.h"
#include "scheduler/verify/verify.h"

namespace kodama::verify {

void verify_copies(const MachineProgram& before, const MachineProgram& after, const isa::Chip& chip) {
  constexpr std::string_view kVerifier = "verify_copies";
  if (after.values.size() < before.values.size()) fail(kVerifier, "values are missing");
  for (size_t v = 0; v < before.values.size(); ++v) {
    if (before.values[v].size_words != after.values[v].size_words)
      fail(kVerifier, fmt::format("value %{} has another size", before.values[v].name));
  }
  run_in_lockstep({before, after}, chip, kVerifier);
}

void verify_expansion(const MachineProgram& before, const MachineProgram& after, const isa::Chip& chip) {
  constexpr std::string_view kVerifier = "verify_expansion";
  if (after.values.size() < before.values.size()) fail(kVerifier, "values are missing");
  run_in_lockstep({before, after}, chip, kVerifier);
}

}  // namespace kodama::verify
