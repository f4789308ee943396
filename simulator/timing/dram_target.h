#pragma once

#include <tlm.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "isa/chip.h"
#include "isa/dram_model.h"

/// A DRAM model as a TLM-2.0 loosely timed target, for plugins: what isa/dram_model.h asks, by b_transport.
///
/// One target is made for the DRAM of each group. The transfer engine sends it transactions:
///
///     command       TLM_READ_COMMAND or TLM_WRITE_COMMAND
///     address       bytes, in the DRAM of the group
///     data length   bytes, at most kMostBytes; streaming width the same, no byte enables
///     data          a buffer of that length, without contents: time alone is asked for
///     delay         in: when the transaction is sent, from now on. Out: when its last byte has passed
///
/// A transaction is never sent before the one before it has passed, so the difference is the time for which
/// the interface is occupied; the latency of a first access is part of transfer.startup_cycles and isn't to
/// be answered. One nanosecond of SystemC time is one cycle of the chip, in steps of a picosecond: a target
/// that counts in seconds multiplies by chip.clock_hz. A target must not call wait(), must answer from its
/// transactions and their times alone, and must answer with TLM_OK_RESPONSE and a delay that isn't smaller
/// than the one it got; another answer is a PassError that names the plugin. Its refreshes are its own
/// business.
///
/// Blocks of an indirect MV come as transactions of their own, one after the other, unless the target takes
/// more than the first: the first carries a GatherExtension with those that follow, and a target that
/// reorders sets `taken`.
///
/// Prediction (compiler, kodama predict) makes targets in SystemC contexts of its own and asks them the same
/// way at time 0, so that predicted and simulated cycles agree.
///
/// docs/examples/fixed_cost_dram.cpp is a whole plugin, docs/timing.md says how to build and choose it.
namespace kodama::simulator {

struct GatherExtension : tlm::tlm_extension<GatherExtension> {
  const std::vector<isa::DramPiece>* pieces = nullptr;
  size_t first = 0;  ///< number of the piece that the transaction itself is
  size_t taken = 1;  ///< set by the target: pieces, from `first` on, that its delay answers for

  tlm::tlm_extension_base* clone() const override { return new GatherExtension(*this); }
  void copy_from(const tlm::tlm_extension_base& other) override {
    *this = static_cast<const GatherExtension&>(other);
  }
};

class DramTarget {
 public:
  static constexpr unsigned kMostBytes = 8192;
  virtual ~DramTarget() = default;
  virtual tlm::tlm_target_socket<>& socket() = 0;
};

struct DramTargetKind {
  std::string name;  ///< chosen by transfer.dram_model of the chip
  std::string description;
  /// Makes the target of a group as at the start of a program; `module` is a name that is free.
  std::function<std::unique_ptr<DramTarget>(const std::string& module, const isa::Chip& chip)> run;
  std::string plugin = {};  ///< the file it came from. Filled by register_pass
};

/// The targets that plugins brought.
const std::vector<DramTargetKind>& dram_targets();
void register_pass(DramTargetKind kind);

}  // namespace kodama::simulator
