#pragma once

#include <cstdint>
#include <vector>

#include "isa/chip.h"
#include "isa/host_work.h"
#include "isa/instruction.h"

/// Images cut into chunks on their way through PDM 0 (isa/host_work.h). Private to what charges for them.
namespace kodama::isa {

/// A piece of an image on its way through a half.
struct HostChunk {
  int64_t address = 0;  ///< in the DRAMs, LW
  int64_t lw = 0;
  std::vector<int> groups;  ///< that have these words
  size_t transfer = 0;      ///< number of the image
};
std::vector<HostChunk> cut(const std::vector<HostTransfer>& transfers, int64_t half);

/// Moves a chunk between its place in PDM 0 and the DRAM of a group.
Instruction chunk_mv(bool to_chip, int64_t pdm, int group, const HostChunk& chunk, int tag);

/// Chunks of a half stand in a ring; each place has a tag.
struct HostRing {
  HostRing(int64_t half, const std::vector<HostChunk>& chunks);
  int64_t place_lw;
  int64_t places;
  int tag(size_t chunk) const { return 1 + static_cast<int>(static_cast<int64_t>(chunk) % places); }
  int64_t address(size_t chunk) const { return static_cast<int64_t>(chunk) % places * place_lw; }
};

/// The halves of PDM 0: from `from` on, `half` LW each.
struct HostHalves {
  /// `kept`: what programs use is to stay.
  HostHalves(const Chip& chip, int64_t pdm_from, bool kept);
  int64_t from;
  int64_t half;
};

int64_t cycle_of(int64_t tick);
int64_t link_latency_ticks(const Chip& chip);

}  // namespace kodama::isa
