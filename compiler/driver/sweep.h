#pragma once

#include <cstdint>
#include <iosfwd>
#include <string>
#include <vector>

#include "compiler/driver/session.h"

/// `kodama sweep`: a model on many chips, or with many options, beside each other.
namespace kodama::compiler {

/// What changes: a key of the chip file ("memory.l2bm_lw", "clock_hz") or an option of the compiler
/// (session_options.h), and the values that it takes.
struct SweepAxis {
  std::string key;
  std::vector<std::string> values;
};

struct SweepRequest {
  SessionOptions common;
  std::string model_file;
  std::vector<SweepAxis> axes;  ///< every value of one with every value of the others, the last one fastest
  int jobs = 1;                 ///< processes at a time
  std::string csv_file;         ///< empty: none
  std::string plot_file;        ///< SVG: cycles over the values of the first axis; empty: none
};

/// Compiles and runs the model once for each combination, in processes of their own, and prints a row for
/// each: cycles, the problem's bound on that chip, share of its peak. A combination that can't be (too little
/// memory, values that don't fit each other) has the reason instead. UserError, before anything runs, for a
/// key that there isn't, and for a model that is compiled while it runs.
int sweep_command(const SweepRequest& request, std::ostream& out);

}  // namespace kodama::compiler
