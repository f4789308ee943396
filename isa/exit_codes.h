#pragma once

/// What the command line says by the number with which it ends.
namespace kodama::isa {

enum ExitCode : int {
  kExitOk = 0,
  kExitOutOfTolerance = 1,
  kExitUserError = 2,
  kExitUnsupported = 3,
  kExitInternalError = 70,
  kExitInterrupted = 130,  ///< by Ctrl-C, as shells say it
};

}  // namespace kodama::isa
