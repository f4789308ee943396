#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "isa/chip.h"
#include "isa/costs.h"

/// How long the DRAM of a group takes: the interface that all models of it answer, and the list of those
/// there are.
///
/// MVs are cut into chunks (isa/transfer_timeline.h). For each chunk the DRAM's interface is asked once: here
/// is what I want to read or write, sent at this time; when has the last byte passed? The next request isn't
/// sent before that, so between the two times the interface is occupied by this request alone. The latency of
/// a first access isn't the model's business: it is part of `transfer.startup_cycles` of every MV, and a
/// model answers as if it had known a request that long before it was sent.
///
/// Example (mncore2, model "rows": 17.07 LW per cycle, 30 ns = 22.5 cycles to open another row of a bank):
/// the 256 LW of a row, sent at cycle 100, end at 115; 16 LW of the next row of the same bank, sent then, end
/// at 115 + 22.5 + 16 / 17.07 = 138.44.
///
/// The chip names its model (`transfer.dram_model`): "rows", below; "banks", which goes through a published
/// part's commands (isa/dram_banks.h); or one that a plugin brings as a TLM-2.0 target
/// (simulator/timing/dram_target.h). Prediction and simulation ask objects of the same model in the same
/// order, so they agree to the cycle.
namespace kodama::isa {

/// Times between models are whole numbers of this many per cycle: with SystemC in between, too, nothing is
/// rounded twice.
inline constexpr int64_t kTicksPerCycle = 1000;
/// The first tick after a time in cycles.
int64_t ticks_after(double cycles);

/// Bytes that lie together, addresses in the DRAM of the group.
struct DramPiece {
  int64_t address = 0;
  int64_t bytes = 0;
};

struct DramRequest {
  int64_t time =
      0;  ///< when it is sent, ticks since the start of the program; never less than the last answer
  bool write = false;
  std::vector<DramPiece> pieces;  ///< at least one; several when addresses come out of the DAR
};

/// What a model counts; what it doesn't know is -1.
struct DramCounts {
  int64_t row_hits = -1;
  int64_t row_misses = -1;   ///< rows opened
  int64_t turnarounds = -1;  ///< between reads and writes
};

/// While a refresh lasts, the timeline lets nothing pass the interface; the first one is after an interval.
struct DramRefresh {
  double interval_cycles = 0;
  double cycles = 0;  ///< 0: there is none, or the model charges it itself
};

class DramModel {
 public:
  virtual ~DramModel() = default;
  /// The tick at which the last byte of the request has passed; not before it was sent.
  virtual int64_t serve(const DramRequest& request) = 0;
  /// One that goes on by itself from where this one is.
  virtual std::unique_ptr<DramModel> clone() const = 0;
  virtual DramCounts counts() const { return {}; }
};

/// A row of the list of models.
struct DramModelKind {
  std::string name;
  std::string description;
  std::function<std::unique_ptr<DramModel>(const Chip&)> run;  ///< makes one, as at the start of a program
  std::function<DramRefresh(const Chip&)> refresh = {};        ///< that the timeline charges
  /// Bytes between addresses that lie in two rows of one bank, for what is predicted without addresses.
  std::function<int64_t(const Chip&)> row_stride = {};
  std::string plugin = {};
};

inline constexpr const char* kRowsDram = "rows";
inline constexpr const char* kBanksDram = "banks";

/// The first is the default.
const std::vector<DramModelKind>& dram_models();
/// A chip's: its file is refused when there is none of the name.
const DramModelKind& find_dram_model(const std::string& name);
/// For those who load plugins; the name must be new. Not while others use the list.
void add_dram_model(DramModelKind kind);

/// What a chunk asks of a port.
struct TransferChunk {
  const TransferPart* part = nullptr;
  const std::vector<int64_t>* blocks = nullptr;  ///< of an indirect part, when known
  int64_t block_lw = 0;
  int64_t offset = 0;  ///< of the chunk in the part, LW
  int64_t lw = 0;
  double time = 0;  ///< when the chunk starts, cycles
};

/// The side of those who ask a DRAM: makes requests of chunks, one after the other.
class DramPort {
 public:
  explicit DramPort(const Chip& chip);

  /// Cycles that the interface is occupied by a chunk. `serve` is given the request and answers as
  /// DramModel::serve does.
  template <typename Serve>
  double occupy(const TransferChunk& chunk, const Serve& serve) {
    make_request(chunk);
    free_ = serve(request_);
    return static_cast<double>(free_ - request_.time) / static_cast<double>(kTicksPerCycle);
  }

 private:
  void make_request(const TransferChunk& chunk);

  int64_t dram_bytes_;
  int64_t row_stride_;
  int64_t free_ = 0;  ///< tick at which the last request was over
  DramRequest request_;
};

/// Banks with one open row each, in-order data, activation of rows announced ahead.
///
/// Addresses go through the columns of a row, then the channels, the banks, and the rows. Channels work
/// beside each other, each at its part of the rate. A row that is not open must be activated, which takes
/// `transfer.dram_row_miss_ns` after the last use of its bank; activations of other banks overlap with data,
/// so streams hide them and accesses to many rows of one bank show every one. A refresh closes all rows;
/// while it lasts the timeline lets nothing move. A change between reading and writing costs
/// `transfer.dram_turnaround_ns`.
class RowsDram : public DramModel {
 public:
  explicit RowsDram(const Chip& chip);
  int64_t serve(const DramRequest& request) override;
  std::unique_ptr<DramModel> clone() const override { return std::make_unique<RowsDram>(*this); }
  DramCounts counts() const override { return counts_; }

 private:
  struct Bank {
    int64_t row = -1;
    double end = -1e18;  ///< of the last use
  };
  void refresh_before(double time);

  double channel_bytes_per_cycle_;
  int64_t row_bytes_;
  int64_t banks_per_channel_;
  double row_miss_;
  double turnaround_;
  double refresh_interval_;
  double refresh_;
  std::vector<Bank> banks_;     ///< channel by channel
  std::vector<double> clocks_;  ///< of the channels, in one request
  double busy_until_ = 0;
  int64_t refreshes_ = 0;
  int direction_ = -1;  ///< of the last request: 0 read, 1 write
  DramCounts counts_{0, 0, 0};
};

}  // namespace kodama::isa
