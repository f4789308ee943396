#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "isa/hazards.h"
#include "isa/sequencer.h"
#include "simulator/engine/chip_memories.h"
#include "simulator/engine/decode.h"
#include "simulator/machine.h"
#include "simulator/timing/chip_timing.h"

/// The time of a run: hands what the engine does to the timing model, and keeps profile and timeline.
namespace kodama::simulator {

class RunClock {
 public:
  explicit RunClock(const ChipMemories& memories) : memories_(&memories) {}

  /// A run with timing begins; `decoded` and `options` must outlive it.
  void begin(const Decoded& decoded, const RunOptions& options);
  /// The run came to its end: puts its causes and times into `stats`.
  void finish(RunStats& stats);
  /// The run ends before its end, if there is one.
  void abandon();
  /// A run with timing is under way. The functions below are for such a run.
  bool running() const { return running_; }

  /// The steps of a stretch, in bulk, or, while each one matters, one by one.
  void stretch(std::span<const Node> nodes, int64_t steps, int depth, const Counters& counters);
  void wait(const Node& node);
  void mv(const Node& node, int depth, const Counters& counters);

 private:
  void forget_run();
  isa::Sequencer& sequencer() { return timing_->sequencer(); }
  Profile::Entry& entry_of(const Node& node);
  /// A stall that ends now.
  void show_stall(const char* cause, int32_t line, int64_t cycles);
  void count_steps(const std::vector<Node>& nodes, int64_t times);
  void count_steps(const Node& node, int64_t times);
  void statement(const Node& node, std::vector<int64_t>& counters);
  void hold_for_hazards(const Node& node, const std::vector<int64_t>& counters);

  const ChipMemories* memories_;
  std::unique_ptr<ChipTiming> timing_;  ///< made for the first timed run
  // Of the present run.
  bool running_ = false;
  const RunOptions* options_ = nullptr;
  std::unique_ptr<isa::HazardChecker> stalls_;  ///< null = hazards don't stall
  Profile* profile_ = nullptr;
  Timeline* timeline_ = nullptr;
};

}  // namespace kodama::simulator
