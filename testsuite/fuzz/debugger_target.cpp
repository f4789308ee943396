/// Any program and commands to the debugger.
#include <sstream>
#include <string>

#include "assembler/assembler.h"
#include "simulator/debug/debugger.h"
#include "testsuite/fuzz/fuzz_target.h"

namespace kodama::fuzz {

/// The input is a program, a line `=`, and commands.
void fuzz_one(std::string_view input) {
  const auto [program, commands] = halves(input);
  simulator::DebuggerOptions options;
  options.source = program;
  options.machine.threads = 1;
  std::istringstream in{std::string(commands)};
  std::ostream out(nullptr);  // a print of a whole memory is fine, but nobody reads it
  simulator::debug_program(assembler::assemble(program, "input", chip()), chip(), options, in, out);
}

}  // namespace kodama::fuzz
