#pragma once

#include <string>
#include <vector>

#include "isa/chip.h"

/// The rate that every kind of transfer reaches on the simulated chip, beside the rate that the chip file
/// promises: `kodama bench bandwidth`, the table in docs/timing.md.
namespace kodama::simulator {

struct Bandwidth {
  std::string name;
  std::string program;      ///< the statement that is repeated
  double lw = 0;            ///< moved, on the wide side
  double cycles = 0;        ///< taken
  double lw_per_cycle = 0;  ///< reached
  double configured = 0;    ///< by the chip file: the slowest port; of DRAM less its refreshes. 0: not known
  double ratio() const { return lw_per_cycle / configured; }
};

/// MV in every mode and direction, DRAM in streams and at random, L2BM and L1BM instructions. Times are those
/// of back-to-back repetitions, start-up included.
std::vector<Bandwidth> measure_bandwidths(const isa::Chip& chip);

/// A table for people and for Markdown.
std::string bandwidth_table(const std::vector<Bandwidth>& results);

}  // namespace kodama::simulator
