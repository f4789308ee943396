#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <vector>

#include "isa/chip.h"
#include "isa/costs.h"
#include "isa/dram_model.h"
#include "isa/instruction.h"

/// MV transfers over time: when each starts, how it shares ports with others, when it is done.
///
/// The model. A transfer is cut into chunks. While a chunk moves, it occupies every port it passes (DRAM or
/// PDM interfaces, MV ports of L2BMs, paths between groups) for a share of the time. Ports are granted in
/// order of priority, then of issue: the first transfer gets as much of every port as its slowest port lets
/// it use, the next gets what is left, and so on. So a lone transfer takes
///
///     start-up + hops + the largest, over its ports, of LW over rate
///
/// and transfers that meet nowhere don't disturb each other. The rates change only at events: a transfer
/// starts to move, a chunk ends, a DRAM refresh begins or ends. Between events nothing has to be computed.
///
/// Example (mncore2, cycles; no refresh before 2925): at 0 `mvp/n1024 $p0@0 $d0@0` and at once `mvp/n256
/// $p4096@0 $lc0@0.0`, both from the PDM of group 0 at 16 LW per cycle. The first starts at 0, moves from 64
/// to 128. The second starts 16 cycles later (one start per 4 steps), could move from 80 on, finds the PDM's
/// read port taken until 128, moves from 128 to 144.
///
/// Times are in cycles since the start of the program; fractions occur, since rates are not whole numbers.
/// Both the prediction (isa/sequencer.h) and the simulator's SystemC model run this class; they differ in
/// what answers how long a chunk occupies a port (see Service).
namespace kodama::isa {

/// One MV as it is issued, addresses resolved.
struct TransferRequest {
  Instruction mv;
  int32_t line = 0;
  int32_t region = -1;   ///< number of the region it belongs to, for reports
  bool of_host = false;  ///< moves the host's data (isa/host_work.h)
  /// Of an indirect operand: per group the DRAM address (LW) of each block of 16 * nd<N> LW. Empty when
  /// unknown (prediction); then every block counts as a new row of one bank.
  std::map<int32_t, std::vector<int64_t>> blocks;
};

/// Cycles that `lw` LW occupy a port of a fixed rate, to the tick.
double port_cycles(int64_t lw, double lw_per_cycle);

/// A transfer that is done or under way.
struct TransferRecord {
  int64_t id = 0;
  TransferRequest request;
  std::vector<TransferPart> parts;
  int64_t issued = 0;   ///< cycle
  int64_t started = 0;  ///< cycle: the engine took it up
  double moving = 0;    ///< first LW
  int64_t done = -1;    ///< cycle; -1 = under way
};

/// Ports of the chip, numbered.
class TransferPorts {
 public:
  explicit TransferPorts(const Chip& chip) : groups_(chip.groups), l2bs_(chip.l2b_count()) {}
  int count() const { return 3 * groups_ + 2 * l2bs_ + groups_ * groups_; }
  int number(const TransferPart& part) const;
  /// Port, index and destination of a number.
  TransferPart part(int number) const;
  /// The group that a port belongs to; of a path between groups, the one that it comes from.
  int group(const TransferPart& part) const;

 private:
  int groups_;
  int l2bs_;
};

class TransferTimeline {
 public:
  static constexpr double kNever = std::numeric_limits<double>::infinity();
  /// LW of the wide side per chunk: a few DRAM rows.
  static constexpr int64_t kChunkLw = 1024;

  /// Says for how many cycles a chunk occupies a port.
  using Service = std::function<double(const TransferChunk&)>;
  /// Of the cost tables, and of a DRAM model of the chip's kind per group.
  static Service standard_service(const Chip& chip);

  TransferTimeline(const Chip& chip, Service service);

  /// Whether every group that the transfer uses can take one more.
  bool has_slot(const std::vector<TransferPart>& parts) const;
  /// The first cycle at which a transfer that is issued starts at once, as far as those before it go.
  int64_t next_start() const { return last_start_ + chip_.transfer.issue_interval_steps * kCyclesPerStep; }
  /// Takes a transfer in at `cycle`, which must not be before the last event. Call has_slot first. Returns
  /// its id: 0, 1, 2, …
  int64_t issue(TransferRequest request, std::vector<TransferPart> parts, int64_t cycle);

  /// Time of the next event; kNever when nothing is under way.
  double next_event() const;
  /// Handles the events up to and including `time`.
  void advance(double time);

  int64_t in_flight() const { return static_cast<int64_t>(active_.size() + waiting_.size()); }
  /// Transfers of a tag that are not done.
  int64_t in_flight(int tag) const;
  /// The last cycle at which a transfer of the tag (or any, with tag -1) ended so far.
  int64_t last_done(int tag) const;

  /// Receives each transfer when it is done.
  std::function<void(const TransferRecord&)> on_done;

  /// Cycles that a port was occupied, and LW that passed it, so far (chunks count when they end).
  double busy(int port) const { return busy_[static_cast<size_t>(port)]; }
  double busy_for_host(int port) const { return busy_for_host_[static_cast<size_t>(port)]; }
  int64_t moved_lw(int port) const { return moved_[static_cast<size_t>(port)]; }

 private:
  struct Demand {
    int port;
    double cycles;
    int64_t lw;
  };
  struct Active {
    TransferRecord record;
    uint64_t groups = 0;
    int64_t position = 0;  ///< LW of the wide side before the present chunk
    int64_t length = 0;    ///< of the present chunk
    std::vector<Demand> demands;
    double remaining = 1;  ///< share of the present chunk
    double rate = 0;       ///< shares per cycle
    double end = kNever;   ///< of the present chunk, at the present rate
  };

  void handle(double time);
  void start_chunk(Active& active, double time);
  void finish(Active& active, double time);
  void share_ports(double time);
  /// The refresh that holds at `time`, if any, and the time of its end or of the next one's beginning.
  bool refreshing(double time, double* boundary) const;
  /// Bit g: the transfer uses group g.
  uint64_t groups_of(const std::vector<TransferPart>& parts) const;
  void count_in_flight(uint64_t groups, int64_t change);

  Chip chip_;
  TransferPorts ports_;
  Service service_;
  double refresh_interval_ = 0;
  double refresh_ = 0;
  std::vector<Active> waiting_;  ///< issued, not moving yet; in order of `moving`
  std::vector<Active> active_;   ///< in the order in which ports are granted
  double since_ = 0;             ///< time of the last event
  double refresh_event_ = kNever;
  int64_t next_id_ = 0;
  int64_t last_start_ = std::numeric_limits<int64_t>::min() / 2;
  std::vector<int64_t> in_flight_;  ///< per group
  std::map<int, int64_t> tag_in_flight_;
  std::map<int, int64_t> tag_done_;
  int64_t last_done_ = 0;
  std::vector<double> busy_;
  std::vector<double> busy_for_host_;
  std::vector<int64_t> moved_;
  std::vector<double> capacity_;
};

}  // namespace kodama::isa
