#include <fmt/format.h>

#include <cmath>

#include "isa/costs.h"
#include "isa/dram_model.h"
#include "isa/error.h"

namespace kodama::isa {

int64_t host_link_cycles(int64_t bytes, const Chip& chip) {
  const double seconds =
      chip.host_link.latency_seconds + static_cast<double>(bytes) / chip.host_link.bytes_per_second;
  return static_cast<int64_t>(std::ceil(seconds * chip.clock_hz));
}

int64_t link_ticks(int64_t bytes, const Chip& chip) {
  const double ticks = static_cast<double>(bytes) / chip.host_link.bytes_per_second * chip.clock_hz *
                       static_cast<double>(kTicksPerCycle);
  if (ticks > 0x1p60) {
    throw UnsupportedError(
        fmt::format("{} bytes over a host link of {} bytes per second take more cycles than can be counted; "
                    "take a chip with a "
                    "faster link, or run without timing",
                    bytes, chip.host_link.bytes_per_second));
  }
  return std::llround(ticks);
}

double peak_macs_per_cycle(Precision precision, bool matrix, const Chip& chip) {
  double per_mab = 0;
  switch (precision) {
    case Precision::kDouble:
      per_mab = matrix ? 2 * 4 : 2;
      break;
    case Precision::kFloat:
      per_mab = matrix ? 8 * 4 : 8;
      break;
    case Precision::kGFloat:
      per_mab = matrix ? 8 * 8 : 0;
      break;
    case Precision::kHalf:
      per_mab = matrix ? 16 * 16 : 16;
      break;
    default:
      break;
  }
  return per_mab * chip.mab_count();
}

}  // namespace kodama::isa
