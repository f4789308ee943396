/// Any program to the hazard checker, the prediction, the timing model and the engine's stale mode.
#include "assembler/assembler.h"
#include "isa/hazards.h"
#include "isa/sequencer.h"
#include "simulator/machine.h"
#include "testsuite/fuzz/fuzz_target.h"

namespace kodama::fuzz {

void fuzz_one(std::string_view input) {
  const isa::Program program = assembler::assemble(input, "input", chip());
  const std::vector<isa::HazardViolation> hazards = isa::find_hazards(program, chip());

  simulator::MachineOptions options;
  options.threads = 1;
  simulator::Machine machine(chip(), options);
  simulator::RunOptions timed;
  const isa::CycleCauses spent = machine.run(program, timed).causes;
  bool indirect = false;
  for (const isa::Statement& statement : program.statements) {
    if (const auto* mv = std::get_if<isa::Mv>(&statement.kind)) {
      for (const auto* operands : {&mv->instruction.sources, &mv->instruction.destinations}) {
        for (const isa::Operand& operand : *operands) indirect |= operand.space == isa::Space::kDramIndirect;
      }
    }
  }
  // Addresses in the DAR are known at run time only.
  require(indirect || isa::predict_cycles(program, chip()) == spent, "predicted == simulated",
          assembler::print(program));

  simulator::RunOptions stale;
  stale.timing = false;
  stale.hazards = simulator::Hazards::kStale;
  machine.run(program, stale);
  simulator::RunOptions error;
  error.hazards = simulator::Hazards::kError;
  require(succeeds([&] { machine.run(program, error); }) == hazards.empty(), "refused == hazards",
          assembler::print(program));
}

}  // namespace kodama::fuzz
