#pragma once

#include <cstdint>
#include <iosfwd>
#include <string>
#include <vector>

/// Random models on the simulated chip, held against the CPU reference: `kodama onnx-fuzz`.
namespace kodama::compiler {

struct GraphFuzzRequest {
  uint64_t seed = 1;                    ///< of the first graph; graph k depends on seed + k alone
  int64_t count = 100;                  ///< graphs
  bool operators = false;               ///< GraphKind::kOperators, one run each; else kNetwork
  std::vector<std::string> chips;       ///< empty: tiny, for networks mncore2, too
  std::vector<std::string> precisions;  ///< empty: gfloat, half and float
  int jobs = 2;                         ///< processes
  int seconds = 60;                     ///< processor time of a run, at most
  bool shrink = true;                   ///< makes failing models smaller
  bool verbose = false;                 ///< a line for every run
  bool only_write = false;              ///< writes all graphs, runs none
  std::string directory;                ///< where models that fail are written; empty: nowhere
};

/// Compiles every graph for every chip and precision (graphs of operators for one of them, which the seed
/// says), each time with other passes, and runs it, in a process of its own. A run fails when
///  * anything but UnsupportedError comes out of compiler, simulator or reference, or the process dies,
///  * isa::find_hazards finds something in a program,
///  * an output is out of tolerance (default_tolerance) and rounding errors don't explain it,
///  * a second run with the same inputs, after one with others, has other bits,
///  * other schedulers and allocators give other bits.
/// Prints failures, each with the command that repeats it, and totals. Returns an exit code.
int graph_fuzz_command(const GraphFuzzRequest& request, std::ostream& out);

}  // namespace kodama::compiler
