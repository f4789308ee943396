#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "isa/chip.h"
#include "isa/host_work.h"
#include "isa/next_input.h"
#include "isa/program.h"
#include "isa/transfer_timeline.h"

/// When each step issues: the rules of the sequencer, and the prediction of a program's time.
///
/// A step takes 4 cycles and issues as soon as
///   - the step before it is over,
///   - its instruction word has come over the host link,
///   - the transfers of the tag that it waits for are done.
/// An MV takes no cycle of its own, but a word of the link; it is held while a group that it uses has as many
/// transfers under way as the chip allows. Cycle 0 is when the first word is there. A program ends when its
/// last step is over and its last transfer is done.
///
/// Worked example (mncore2): `mvp/n1024i01 $p0@0 $d0@0`, `nop/10`, `nop; wait i01`, `nop`
///
///     cycle   0  the MV issues; it moves 1024 LW at 16 per cycle from cycle 64 to 128
///             2  ten steps, until 42: a word comes every 1.11 cycles, so the second is there at cycle 2
///            42  the wait holds its step until 128: 86 cycles of stall
///           128  the step of the wait, then one more: the program ends at 136 = 12 steps * 4 + 2 + 86
namespace kodama::isa {

/// Where the cycles of a program went. They add up to total().
struct CycleCauses {
  int64_t steps = 0;         ///< 4 per step
  int64_t wait = 0;          ///< held by `wait`
  int64_t mv_queue = 0;      ///< held by an MV for which a group had no room
  int64_t host_link = 0;     ///< held because an instruction had not come yet
  int64_t hazard = 0;        ///< held by a chip that stalls for hazards (Sequencer::hold)
  int64_t drain = 0;         ///< after the last step, until the last transfer is done
  int64_t host_input = 0;    ///< data from the host, as far as the program waits for them
  int64_t host_output = 0;   ///< data to the host, as far as it is waited for
  int64_t launch = 0;        ///< until a program starts that the host calls
  int64_t host_compute = 0;  ///< layers on the host
  /// What the host does: of no program.
  int64_t of_host() const { return host_input + host_output + launch + host_compute; }
  int64_t total() const { return steps + wait + mv_queue + host_link + hazard + drain + of_host(); }
  CycleCauses& operator+=(const CycleCauses& other);
  bool operator==(const CycleCauses&) const = default;
};

/// Instruction words from the host. The link sends words as long as the buffer has room.
class InstructionFeed {
 public:
  explicit InstructionFeed(const Chip& chip);

  /// The cycle at which the next word can be used if it is wanted at `cycle`; takes it.
  int64_t take(int64_t cycle) { return take_steps(cycle, 1); }
  /// The same for `count` >= 1 words wanted at `cycle`, `cycle` + 4, …: the cycle at which the last one is
  /// used.
  int64_t take_steps(int64_t cycle, int64_t count);
  /// The link is busy with data until `cycle`.
  void occupy_until(int64_t cycle);

 private:
  double cycles_per_word_;
  int64_t buffer_words_;
  int64_t taken_ = 0;
  // Word number `sent_` (counted from 1) is there at `anchor_`, the following ones every cycles_per_word_.
  double anchor_ = 0;
  int64_t sent_ = 1;
};

/// What the sequencer talks to: the cost tables (predict_cycles), or the simulator's SystemC modules.
class SequencerPorts {
 public:
  virtual ~SequencerPorts() = default;
  virtual const Chip& chip() const = 0;
  /// InstructionFeed::take_steps.
  virtual int64_t take_words(int64_t cycle, int64_t count) = 0;
  /// Sends data over the host link from a tick on (isa/dram_model.h), alone; returns the tick at which it is
  /// over.
  virtual int64_t link_data(int64_t bytes, bool to_chip, int64_t tick) = 0;
  /// Takes an MV wanted at `cycle`; returns the cycle at which there was room for it.
  virtual int64_t issue(TransferRequest request, int64_t cycle) = 0;
  /// The first cycle from `cycle` on at which no transfer of the tag is under way; tag -1: none at all.
  virtual int64_t wait(int tag, int64_t cycle) = 0;
  /// Transfers of the tag (-1: all) that are under way at `cycle`.
  virtual int64_t in_flight(int tag, int64_t cycle) = 0;
};

class Sequencer {
 public:
  /// `ports` must outlive the sequencer.
  explicit Sequencer(SequencerPorts& ports) : ports_(ports) {}
  /// Goes on from where another is, with ports of its own, which must be in the same state.
  Sequencer(const Sequencer& other, SequencerPorts& ports)
      : ports_(ports),
        now_(other.now_),
        causes_(other.causes_),
        began_(other.began_),
        words_(other.words_),
        tags_(other.tags_),
        next_input_(other.next_input_),
        host_times_(other.host_times_) {}

  /// Each returns the cycles of stall; now() is then the cycle after it.
  int64_t steps(int64_t count);
  int64_t mv(TransferRequest request);
  /// The wait of a tag, without the step that it stands beside.
  int64_t wait(int tag);
  /// Nothing issues for so many steps.
  int64_t hold(int64_t steps);
  int64_t finish();
  /// The host's part before the program and, after finish(), behind it (isa/host_work.cpp).
  void host_begin(const HostWork& work);
  void host_end(const HostWork& work);
  const HostTimes& host_times() const { return host_times_; }

  int64_t now() const { return now_; }
  const CycleCauses& causes() const { return causes_; }

 private:
  /// Lets the next program's data come; the cycle at which to call again.
  int64_t bring_next();

  SequencerPorts& ports_;
  int64_t now_ = 0;
  CycleCauses causes_;
  int64_t began_ = 0;  ///< the program
  int64_t words_ = 0;  ///< of it until now
  TagUse tags_;
  std::optional<NextInput> next_input_;
  HostTimes host_times_;
};

/// Predicts a program piece by piece, as predict_cycles does. A copy goes on by itself from where the
/// original is, so that continuations of one beginning can be compared.
class CyclePredictor {
 public:
  explicit CyclePredictor(const Chip& chip);
  CyclePredictor(const CyclePredictor& other);
  CyclePredictor& operator=(const CyclePredictor& other) = delete;
  ~CyclePredictor();

  void run(std::span<const Statement> statements);
  /// The cycle after what has run.
  int64_t now() const;
  void steps(int64_t count);
  void mv(const Instruction& instruction);
  /// The wait alone, without the step that it stands beside.
  void wait(int tag);
  void host_begin(const HostWork& work);
  /// The end: waits for all transfers.
  CycleCauses finish();

 private:
  class Ports;
  class Impl;
  std::unique_ptr<Impl> impl_;
};

/// The cycles that a program will take, by cause, from the cost tables alone. Exact for programs without MVs;
/// with MVs it is what the simulator computes, unless an address is known at run time only (DAR-indirect
/// transfers count as one row miss per block). Loops of steps cost nothing to predict; loops with MVs or
/// waits are gone through.
CycleCauses predict_cycles(const Program& program, const Chip& chip);

}  // namespace kodama::isa
