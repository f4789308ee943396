#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "isa/program.h"
#include "isa/sequencer.h"

/// What a timed run leaves behind for statistics (simulator/statistics.h): how often each statement ran, and
/// what its cycles went to. Everything else (slots, bytes, operations) follows from the statements.
namespace kodama::simulator {

/// A part of a program between `# region NAME` and `# endregion`. Parts of the same name inside the same part
/// are one region.
struct Region {
  std::string name;
  int32_t parent = -1;  ///< -1 = none
};

struct Profile {
  struct Entry {
    const isa::Statement* statement = nullptr;  ///< of the program that ran, which must outlive the profile
    int32_t region = -1;
    int64_t count = 0;        ///< executions
    isa::CycleCauses cycles;  ///< drain and host data belong to no statement
  };
  struct PortUse {
    double busy_cycles = 0;
    int64_t lw = 0;
  };
  std::vector<Entry> entries;
  std::vector<Region> regions;
  isa::CycleCauses cycles;     ///< of the whole run; the entries' and what belongs to no statement
  std::vector<PortUse> ports;  ///< by number (isa::TransferPorts)
  int64_t dram_row_hits = 0;
  int64_t dram_row_misses = 0;
  int64_t dram_turnarounds = 0;
  int64_t host_input_bytes = 0;
  int64_t host_output_bytes = 0;
  double host_dram_cycles = 0;  ///< that DRAM interfaces are taken by the host's data, of all groups together
};

}  // namespace kodama::simulator
