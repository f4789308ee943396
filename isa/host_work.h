#pragma once

#include <cstdint>
#include <vector>

#include "isa/chip.h"

/// What the host does around a program, as far as it takes time: data for the DRAMs and back, and the launch.
///
/// The host reaches PDM 0 alone (chip key host_link.way: pdm). Data for the DRAMs of the groups come over the
/// link into PDM 0, chunk by chunk, and MVs bring each chunk from there to every group that wants it; results
/// go the other way. PDM 0, as far as programs leave it free, has two halves: one for data that come, one for
/// data that go. Each is a ring of chunks; while one chunk passes the link, MVs move those before it, and a
/// chunk whose words several groups want passes the link once. With a direct link (host_link.way: direct) the
/// host writes and reads the DRAMs itself, one transfer after the other.
///
/// Worked example (mncore2: 25 GB/s = 33.3 bytes per cycle, 750 cycles of latency): 32 KiB (4096 LW) for the
/// DRAM of group 0 are one chunk: 750 + (32768 + 37) / 33.3 = 1734.15 cycles until they are in PDM 0, then an
/// MV of 64 + 4096 / 16 = 320: 2055 in all, the direct link's 1734 and the MV.
///
/// Beside a program data may pass the link, too: those that the next program gets come into their half
/// (`beside_in_lw`; there they are `staged_lw`), and what the one before has left in the other half goes. The
/// instruction words go first. What isn't over when the program is, is waited for.
namespace kodama::isa {

/// One image, LW of each group from the same address on.
struct HostTransfer {
  int64_t dram_address = 0;       ///< LW
  std::vector<int64_t> group_lw;  ///< by group
  /// Per group: the first group with the same words, which pass the link once; itself when there is none.
  /// Empty: all have their own.
  std::vector<int> same_as = {};

  int first_like(int group) const { return same_as.empty() ? group : same_as[static_cast<size_t>(group)]; }
  /// That pass the link.
  int64_t link_lw() const;
};
/// Of several.
int64_t link_lw(const std::vector<HostTransfer>& transfers);

/// Of one run of a program.
struct HostWork {
  std::vector<HostTransfer> input;   ///< before the program
  std::vector<HostTransfer> output;  ///< after it
  bool launch = false;               ///< the program must be started: it wasn't queued behind another
  int64_t staged_lw = 0;             ///< of the input's first LW, already in PDM 0
  int64_t kept_lw = 0;               ///< of the output's last LW, that may stay in PDM 0 for now
  int64_t beside_in_lw = 0;          ///< pass the link while the program runs
  int64_t beside_out_lw = 0;
  int64_t pdm_from = 0;  ///< LW of PDM 0 from which on programs use nothing

  bool empty() const {
    return input.empty() && output.empty() && !launch && beside_in_lw == 0 && beside_out_lw == 0;
  }
};

/// LW of a half of PDM 0 behind what programs use; 0 with a direct link.
int64_t host_half_lw(const Chip& chip, int64_t pdm_from);

/// Cycles that data for the chip take while nothing else runs.
int64_t host_input_cycles(const std::vector<HostTransfer>& input, const Chip& chip);
/// Cycles of so much work of the host's processor: the slower of bytes and operations.
int64_t host_computation_cycles(int64_t bytes, int64_t operations, const Chip& chip);

}  // namespace kodama::isa
