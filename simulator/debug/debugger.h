#pragma once

#include <iosfwd>
#include <string>
#include <vector>

#include "isa/chip.h"
#include "isa/program.h"
#include "simulator/machine.h"

/// The debugger of `kodama sim`: runs a program statement by statement, stops where it is told to, and takes
/// commands from a stream, so that a script can drive it as well as a person.
///
///     > break 12                 stop before line 12
///     > watch $lm0n0c0b0m0p0     stop when this long word changes
///     > continue
///     > print $lr8n0c0b0m0p0 f 4 four long words as floats, in the notation of `d get`
///
/// `help` lists the commands. An error in a command is printed and the session goes on; the end of the
/// commands ends it. Counted loops run unrolled.
namespace kodama::simulator {

struct DebuggerOptions {
  bool stop_at_start = true;
  std::vector<int> breakpoints;      ///< lines
  std::vector<std::string> watches;  ///< places
  std::string source;                ///< text of the program, for `list`; may be empty
  bool prompt = false;               ///< print "> " before each command
  MachineOptions machine;
};

/// Runs the session: commands from `in`, everything printed to `out`. UserError for a breakpoint or watch of
/// the options that can't be.
void debug_program(const isa::Program& program, const isa::Chip& chip, const DebuggerOptions& options,
                   std::istream& in, std::ostream& out);

}  // namespace kodama::simulator
