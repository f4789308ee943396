#pragma once

#include <iosfwd>

/// What is said beside results.
namespace kodama::isa {

/// How much commands say beside what they were asked for.
enum class Verbosity {
  kQuiet,    ///< errors, and what failed
  kNormal,   ///< what came out, which files were written, progress on a terminal
  kVerbose,  ///< all tables with their legends, and the time of each phase
};
void set_verbosity(Verbosity verbosity);
Verbosity verbosity();
/// `out`, or a stream to nowhere with kQuiet.
std::ostream& unless_quiet(std::ostream& out);
/// Where a command says what failed: `out`, with kQuiet standard error.
std::ostream& failure_stream(std::ostream& out);

}  // namespace kodama::isa
