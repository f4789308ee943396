#pragma once

namespace kodama::tools {

/// The `kodama` command, to be called by a program's main function: reads the command line, runs what it asks
/// for, prints errors. Returns the exit code (isa::ExitCode).
int run_command_line(int argc, char** argv);

}  // namespace kodama::tools
