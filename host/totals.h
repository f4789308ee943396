#pragma once

#include <cstdint>
#include <string>

#include "simulator/machine.h"

/// What all devices of the process did: the file that KODAMA_STATS names.
namespace kodama::host {

struct Totals {
  simulator::RunStats runs;  ///< of all kernels, one by one: what `kodama sim` counts of each
  int64_t kernels = 0;       ///< runs of kernels that came to their end
  int64_t sends = 0;
  int64_t receives = 0;
  int64_t sent_bytes = 0;
  int64_t received_bytes = 0;
  double link_cycles = 0;     ///< LinkClock
  double elapsed_cycles = 0;  ///< LinkClock

  Totals& operator+=(const Totals& other);
};

/// Takes a number for a device with this chip. The file is written at the end of the process, too.
int64_t begin_totals(const std::string& chip, double clock_hz);
/// A device's totals until now.
void update_totals(int64_t device, const Totals& totals);
/// Writes the file, if KODAMA_STATS is set. Says on standard error when that can't be done.
void write_totals();

}  // namespace kodama::host
