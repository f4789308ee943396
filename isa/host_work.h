#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "isa/chip.h"
#include "isa/program.h"

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
/// Beside a program the next one's data come (`next`; isa/next_input.h): the words of the program pass the
/// link first, then chunks into their half of PDM 0, and MVs between the program's own statements bring each
/// to DRAM as soon as its place there is free. What the run before has left in the other half (`kept_lw`)
/// passes the link meanwhile. Behind the program come its results, then what is left of `next`.
///
/// Worked example: a program of 100 steps = 400 cycles, and a next one that gets 12500 LW. Words: 111 cycles;
/// three chunks of 4096 LW have come at 111 + 750 + 3 * 984.15 = 3814, and the last, of 212, 52 cycles later.
/// Its MV waits for PDM's port behind the third's, until 3814 + 64 + 256 = 4134, and moves 256 LW: the run
/// ends at 4150, of which 3750 are host_input. With 3000 steps it would be none.
namespace kodama::isa {

/// One image, LW of each group from the same address on.
struct HostTransfer {
  static constexpr int64_t kAtTheEnd = std::numeric_limits<int64_t>::max();
  int64_t dram_address = 0;       ///< LW
  std::vector<int64_t> group_lw;  ///< by group
  /// Per group: the first group with the same words, which pass the link once; itself when there is none.
  /// Empty: all have their own.
  std::vector<int> same_as = {};
  /// Of HostWork::next: waits of the program after which the place in DRAM is free; kAtTheEnd: when it is
  /// over.
  int64_t free_after = kAtTheEnd;

  int first_like(int group) const { return same_as.empty() ? group : same_as[static_cast<size_t>(group)]; }
  /// That pass the link.
  int64_t link_lw() const;
  bool operator==(const HostTransfer&) const = default;
};
/// Of several.
int64_t link_lw(const std::vector<HostTransfer>& transfers);

/// Of one run of a program.
struct HostWork {
  std::vector<HostTransfer> input;   ///< before the program
  std::vector<HostTransfer> output;  ///< after it
  bool launch = false;               ///< the program must be started: it wasn't queued behind another
  /// Of the program that runs behind this one: comes while this one runs. Not with a direct link.
  std::vector<HostTransfer> next;
  int64_t next_from = 0;      ///< cycle at which the host has it
  int64_t words = 0;          ///< of the program; pass the link before `next` does
  int64_t kept_lw = 0;        ///< of the output's last LW, that pass the link when the run is over
  int64_t leaving_until = 0;  ///< cycle at which what the run before has kept is with the host
  int64_t pdm_from = 0;       ///< LW of PDM 0 from which on programs use nothing

  bool empty() const { return input.empty() && output.empty() && !launch && next.empty(); }
};

/// Cycles of a run, counted from its begin.
struct HostTimes {
  int64_t program_began = 0;
  int64_t program_over = 0;
  int64_t results_there = 0;  ///< with the host; behind the end of the run for what was kept
  /// The next program's data are in DRAM. -1: there are none, or the host has them only when all else is
  /// over, and none have come.
  int64_t next_there = -1;
};

/// Fills in HostTransfer::free_after of what comes beside a program: a place is free when the program has
/// waited for its last transfer there; at the end where it has not, or where `output`, which the host fetches
/// then, lies. The host never overwrites what the program has yet to read.
void plan_places(std::vector<HostTransfer>& next, const Program& program,
                 const std::vector<HostTransfer>& output, const Chip& chip);

/// LW of a half of PDM 0 behind what programs use; 0 with a direct link.
int64_t host_half_lw(const Chip& chip, int64_t pdm_from);

/// Cycles that data for the chip take while nothing else runs.
int64_t host_input_cycles(const std::vector<HostTransfer>& input, const Chip& chip);
/// Cycles of so much work of the host's processor: the slower of bytes and operations.
int64_t host_computation_cycles(int64_t bytes, int64_t operations, const Chip& chip);

}  // namespace kodama::isa
