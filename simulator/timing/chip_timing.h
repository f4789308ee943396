#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "isa/chip.h"
#include "isa/sequencer.h"
#include "isa/transfer_timeline.h"

/// The timing model: SystemC modules that talk over TLM-2.0 sockets, behind an interface without SystemC.
///
///                      words                    commands
///     HostLink <------------------ PeArray ------------------> TransferEngine
///        ^ data                                                     |
///                                            +--------------+--------+-------+------------+
///                                       dram (group)    pdm (group)    l2bm (L2B)   group_paths
///
/// The PE array is temporally decoupled: its local time runs ahead in bulk, and the kernel is run only when
/// it needs an answer (a `wait`, an MV that may find its groups full, the end of the program). MVs are
/// approximately-timed transactions: BEGIN_REQ when the MV issues, END_REQ when there is room for it,
/// BEGIN_RESP when it is done. Chunks of a transfer are blocking transactions to the modules at its two ends
/// and between, which answer how long they are occupied; isa/transfer_timeline.h shares the ports out between
/// transfers.
///
/// One nanosecond of SystemC time is one cycle of the chip, in steps of a picosecond.
///
/// SystemC has one simulation context per process that is current. A ChipTiming has its own, made once, and
/// makes it the current one while a Turn lasts: for as long as the model answers, not for as long as a run
/// takes. Others wait for their turn, so several simulations of a process take each other only that time.
///
/// Chunks of a transfer are loosely timed transactions: how long a port is occupied by one is the delay that
/// its target adds. A DRAM may be anybody's: dram_target.h.
namespace kodama::simulator {

struct DramTargetKind;

namespace timing {

/// A plugin's target for those who predict: in a SystemC context of its own, asked at time 0.
std::unique_ptr<isa::DramModel> target_model(const DramTargetKind& kind, const isa::Chip& chip);

}  // namespace timing

class ChipTiming {
 public:
  explicit ChipTiming(const isa::Chip& chip);
  ~ChipTiming();

  /// The right to use a model; one at a time in the process. InternalError for a second one in a thread.
  class Turn {
   public:
    explicit Turn(ChipTiming& timing);
    ~Turn();
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;

   private:
    class Impl;
    std::unique_ptr<Impl> impl_;
  };

  /// A run begins, at cycle 0; the one before has finished. A run that doesn't come to its end leaves the
  /// object fit for destruction only.
  void begin();

  /// Steps, MVs, waits and host data go here, in a turn.
  isa::Sequencer& sequencer();

  /// Receives each transfer when it is done.
  void on_transfer(std::function<void(const isa::TransferRecord&)> receive);

  /// Of the transfers that are done, by port number (isa::TransferPorts).
  double busy_cycles(int port) const;
  double busy_cycles_for_host(int port) const;
  int64_t moved_lw(int port) const;
  /// Of the DRAM of a group; a plugin's target counts nothing that is known here.
  isa::DramCounts dram_counts(int group) const;
  /// Times that the SystemC kernel was started, for tests and benchmarks.
  int64_t kernel_starts() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace kodama::simulator
