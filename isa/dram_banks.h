#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "isa/dram_model.h"

/// The DRAM of a group by the commands of a published part: bank groups, open pages, FR-FCFS.
///
/// The part is the section `dram` of the chip file (isa/chip.h, DramPart); its times carry the names of data
/// sheets. Every channel has a controller of its own that sees the next `queue_bursts` bursts of a request
/// and gives, each time, the command that can go first: a read or write before an activate or precharge, an
/// older burst before a younger one. A row stays open until a burst of the queue needs another row of its
/// bank and none needs this one. What holds between commands:
///
///     activate  -> read, write of the bank    tRCDRD, tRCDWR
///     activate  -> precharge, activate        tRAS; tRAS + tRP
///     activate  -> activate of any bank       tRRD; the fifth not within tFAW of the first
///     column    -> column                     the time of a burst; tCCDL in a bank group
///     read      -> precharge                  tRTP
///     write     -> precharge                  tWL, the burst, tWR
///     write     -> read                       tWL, the burst, tWTR
///     read      -> write                      the data of one behind that of the other
///     precharge -> activate                   tRP
///     every tREFI  all banks are precharged and refreshed for tRFC
///
/// Data comes tRL after its read command and tWL after its write command. By isa/dram_model.h a request is
/// known before it is sent: commands may go out tRP + tRCDRD + tRL ahead, so that banks at rest show no
/// latency. Not modelled: the command bus, refresh of single banks, postponed refreshes, power-down.
///
/// Addresses, from the lowest bit: a block of `interleave_bytes`, the channel, the bank group, the column,
/// the bank of the group, the row. So a stream goes over all channels and over bank groups that take turns,
/// and a block of 16 LW stays in one row.
///
/// Worked example (mncore2's GDDR6: 4 channels, bursts of 32 bytes in 1.25 ns): a read of 1 KiB at address 0
/// is 8 blocks, two per channel, of two bank groups: 8 bursts per channel. Both rows are activated ahead, the
/// bursts of the groups alternate, and the last byte passes 8 * 1.25 = 10 ns after the request was sent.
namespace kodama::isa {

class BanksDram : public DramModel {
 public:
  explicit BanksDram(const Chip& chip);
  int64_t serve(const DramRequest& request) override;
  std::unique_ptr<DramModel> clone() const override { return std::make_unique<BanksDram>(*this); }
  DramCounts counts() const override { return counts_; }

 private:
  // Times in ns from the start of the program.
  static constexpr double kLongAgo = -1e12;
  struct Bank {
    int64_t row = -1;  ///< open; -1: none
    double column_from = kLongAgo;
    double write_from = kLongAgo;
    double precharge_from = kLongAgo;
    double activate_from = kLongAgo;
    double group_column_from = kLongAgo;  ///< of the first bank of a group alone
  };
  struct Channel {
    std::vector<Bank> banks;                                                  ///< group by group
    std::array<double, 4> activates{kLongAgo, kLongAgo, kLongAgo, kLongAgo};  ///< the last four, a ring
    size_t oldest_activate = 0;
    double column_from = kLongAgo;
    double read_from = kLongAgo;   ///< for reads, because of writes
    double write_from = kLongAgo;  ///< for writes, because of reads
    double refresh_at = 0;         ///< the next one
  };
  struct Burst {
    int32_t bank;
    int64_t row;
  };
  enum class Command : uint8_t { kColumn, kActivate, kPrecharge };
  struct Choice {
    double time = 0;
    Command command = Command::kColumn;
    size_t burst = 0;
  };

  void deal_out(const DramRequest& request);
  double serve_channel(Channel& channel, std::vector<Burst>& bursts, bool write, double sent);
  Choice first_command(const Channel& channel, const std::vector<Burst>& queue, bool write,
                       double sent) const;
  void refresh(Channel& channel, double time) const;
  void issue(Channel& channel, const Burst& burst, Command command, bool write, double time);

  DramPart part_;
  double ns_per_tick_;
  std::vector<Channel> channels_;
  int direction_ = -1;
  DramCounts counts_{0, 0, 0};
  std::vector<std::vector<Burst>> bursts_;  ///< of one request, by channel
};

}  // namespace kodama::isa
