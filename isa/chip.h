#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

/// The chip description: every count, size, rate and latency that differs between chips of the family.
///
/// A chip is a tree, chip > group > L2B > L1B > MAB > PE. What the instruction set itself fixes (four
/// PEs per MAB, four cycles per step, 64-bit long words, number formats) is a constant below; all else
/// is read from a YAML file, and every consumer of a number (engine, checker, scheduler, planner) asks
/// this class or the cost tables of isa/costs.h, which are derived from it.
namespace kodama::isa {

inline constexpr int kPePerMab = 4;
inline constexpr int kCyclesPerStep = 4;
inline constexpr int kWordsPerLong = 2;
/// Of a matrix register, in half precision; addresses wrap. Other precisions use fewer.
inline constexpr int kMatrixRows = 16;
// What instructions move, section 6 of the ISA page; LW.
inline constexpr int64_t kMvUnitLw = 64;       ///< sizes of MVs are multiples
inline constexpr int64_t kL2bmBlockLw = 64;    ///< one step of l2bmb, l2bm, l2bmi, for an L1B
inline constexpr int64_t kL2bmdPerL1bLw = 32;  ///< one step of l2bmd, for an L1B
inline constexpr int64_t kL2bmdRunLw = 8;      ///< that l2bmd gives an L1B before the next one's turn
/// L1BM and L2BM addresses of what moves between the two are multiples.
inline constexpr int64_t kL2bmAlignmentLw = 16;
/// Tags of MVs are 1 to this; 0 is none.
inline constexpr int kMaxTransferTag = 63;
/// Bytes of one machine word of the instruction stream (292 bits).
inline constexpr int kInstructionBytes = 37;

/// Memory sizes. DRAM, PDM, L2BM and L1BM count long words (LW, 64 bit), PE memories 32-bit words.
struct MemorySizes {
  int64_t dram_lw = 0;       ///< per group
  int64_t pdm_lw = 0;        ///< per group
  int64_t dar_entries = 0;   ///< per group
  int64_t l2bm_lw = 0;       ///< per L2B
  int64_t l1bm_lw = 0;       ///< per L1B
  int64_t lm_words = 0;      ///< LM0 and LM1, each, per PE
  int64_t grf_words = 0;     ///< GRF0 and GRF1, each, per PE
  int64_t mask_entries = 0;  ///< per PE
};

/// Rates in LW per cycle, latencies in cycles, unless the name says otherwise.
struct TransferTiming {
  double dram_lw_per_cycle = 0;        ///< per group, peak
  double pdm_lw_per_cycle = 0;         ///< per group and port (one read, one write port)
  double l2bm_mv_lw_per_cycle = 0;     ///< MV port of one L2BM, each direction
  double group_link_lw_per_cycle = 0;  ///< path between two groups
  int64_t startup_cycles = 0;          ///< of every MV
  int64_t group_hop_cycles = 0;        ///< added per group crossed
  int64_t issue_interval_steps = 0;    ///< one MV may start per this many steps
  int64_t max_in_flight = 0;           ///< MVs per group
  int64_t dram_channels = 0;           ///< per group; the rate is theirs together
  int64_t dram_banks = 0;              ///< per channel
  int64_t dram_row_bytes = 0;
  double dram_row_miss_ns = 0;
  double dram_refresh_interval_ns = 0;
  double dram_refresh_ns = 0;
  double dram_turnaround_ns = 0;
  std::string dram_model = "rows";  ///< isa/dram_model.h
};

/// A published DRAM part, for the model "banks" (isa/dram_banks.h): what one group has. Times by the names of
/// data sheets, in ns.
struct DramPart {
  int64_t channels = 0;     ///< 0: the chip file doesn't say
  int64_t bank_groups = 0;  ///< per channel
  int64_t banks_per_group = 0;
  int64_t row_bytes = 0;  ///< of one bank
  int64_t burst_bytes = 0;
  int64_t interleave_bytes = 0;  ///< that lie together in one row of one channel
  int64_t queue_bursts = 0;      ///< that the controller of a channel chooses among
  double burst_ns = 0;           ///< burst to burst of two bank groups
  double tccdl_ns = 0;           ///< burst to burst of one bank group
  double trl_ns = 0;             ///< read latency
  double twl_ns = 0;             ///< write latency
  double trcdrd_ns = 0;          ///< activate to read
  double trcdwr_ns = 0;          ///< activate to write
  double trp_ns = 0;             ///< precharge to activate
  double tras_ns = 0;            ///< activate to precharge
  double trrd_ns = 0;            ///< activate to activate of another bank
  double tfaw_ns = 0;            ///< in which there are no more than four activates
  double trtp_ns = 0;            ///< read to precharge
  double twr_ns = 0;             ///< end of written data to precharge
  double twtr_ns = 0;            ///< end of written data to read
  double trefi_ns = 0;           ///< between refreshes of all banks
  double trfc_ns = 0;            ///< of a refresh of all banks
};

struct HostLink {
  double bytes_per_second = 0;  ///< each way
  double latency_seconds = 0;   ///< of data; transfers that are queued behind each other show it once
  int64_t instruction_buffer_steps = 0;
  std::string way = "pdm";       ///< where data of the host go: pdm, that of group 0; direct, all DRAMs
  double launch_seconds = 1e-6;  ///< from the host's call to the first step of a program
  bool through_pdm() const { return way == "pdm"; }
};

/// What the host's processor does of a network, for layers that it computes.
struct HostComputer {
  double bytes_per_second = 1e10;       ///< read and written
  double operations_per_second = 1e10;  ///< of elements, multiply-adds count as one
};

/// Distances of section 9 of the ISA page. A gap is the number of other steps that must stand between two
/// steps; 0 = the next step. The distances of PE memories all follow from one number.
struct HazardGaps {
  /// A write to LM, GRF or T in cycle i of a step is complete when this many cycles have passed between it
  /// and the read.
  int64_t pe_write_complete_cycles = 0;
  int64_t mask_write_use = 0;       ///< write of a mask register, use as mask
  int64_t bar_write_use = 0;        ///< write of a BAR, use of its LM
  int64_t forward = 0;              ///< result of a unit, use of its forwarding register
  int64_t matrix_write_read = 0;    ///< mwrite to mmul/mfma/mread of the same register
  int64_t pe_to_l1bm_read = 0;      ///< PE->L1BM, then L1BM->PE
  int64_t turnaround = 0;           ///< PE->L1BM, then $lbi as a source
  int64_t pe_to_l1bm_l2bm = 0;      ///< PE->L1BM, then L1BM->L2BM or l2bmi
  int64_t l2bm_to_l1bm_pe = 0;      ///< L2BM->L1BM or l2bmi, then L1BM->PE
  int64_t l2bm_to_l1bm_l2bm = 0;    ///< L2BM->L1BM or l2bmi, then L1BM->L2BM or l2bmi
  int64_t l1bm_to_l2bm_read = 0;    ///< L1BM->L2BM, then L2BM->L1BM
  int64_t l1bm_to_l2bm_mv = 0;      ///< L1BM->L2BM, then an MV that reads L2BM
  int64_t l1bm_read_overwrite = 0;  ///< a read of L1BM, then a write of the same words

  /// Gap between a PE memory write in `write_cycle` of its step and a read in `read_cycle` of a later step.
  int64_t pe_gap(int write_cycle, int read_cycle) const {
    const int64_t distance = pe_write_complete_cycles + 1 + write_cycle - read_cycle;
    const int64_t steps = (distance + kCyclesPerStep - 1) / kCyclesPerStep;
    return steps < 1 ? 0 : steps - 1;
  }
};

struct Chip {
  std::string name;
  std::string description;
  std::string source_file;  ///< where it was read from
  std::string hash;  ///< 16 hex digits over all values; identifies the chip in binary programs and caches

  int groups = 0;
  int l2b_per_group = 0;
  int l1b_per_l2b = 0;
  int mab_per_l1b = 0;
  double clock_hz = 0;

  MemorySizes memory;
  TransferTiming transfer;
  DramPart dram;
  HostLink host_link;
  HostComputer host;
  HazardGaps hazard;

  int l2b_count() const { return groups * l2b_per_group; }
  int l1b_count() const { return l2b_count() * l1b_per_l2b; }
  int mab_count() const { return l1b_count() * mab_per_l1b; }
  int pe_count() const { return mab_count() * kPePerMab; }
  int pe_per_l1b() const { return mab_per_l1b * kPePerMab; }
  /// An MV of more long words is refused: as many as the DRAM of all groups has. The page sets no limit, but
  /// only addresses out of the DAR could keep a longer one inside the memories.
  int64_t longest_transfer_lw() const { return memory.dram_lw * groups; }
  /// LW per cycle on the L1BM side of `l1bmd` (one per PE) and on the L2BM side of `l2bmd`.
  int l1bmd_lw_per_cycle() const { return pe_per_l1b(); }
  int l2bmd_lw_per_cycle() const { return 8 * l1b_per_l2b; }
};

/// Reads and validates a chip file. Every unknown or missing key, wrong type, value out of range and
/// inconsistent size is a UserError "file:line:column: found …, allowed …".
Chip load_chip_file(const std::string& path);
/// The same from text; `file_name` is used in messages.
Chip parse_chip(std::string_view yaml, const std::string& file_name);
/// `name_or_file`: a path (contains '/' or ends in .yaml) or the name of a chip in the configs folder,
/// looked for in $KODAMA_CONFIG_DIR, the installed share folder and the source tree, in this order. Behind it
/// may stand keys that are to have other values: `mncore2,transfer.dram_model=banks,clock_hz=1e9`; the chip's
/// name then says so, and find_chip finds it by that name.
/// UserError, with the names there are, when nothing is found.
Chip find_chip(const std::string& name_or_file);
/// The names of the chips that find_chip knows.
std::vector<std::string> chip_names();

/// One key of a chip file, for documentation.
struct ChipKey {
  std::string path;     ///< "memory.dram_lw"
  std::string type;     ///< "text", "integer" or "number"
  std::string unit;     ///< "LW per group"; "" for none
  std::string allowed;  ///< "power of two from 1 to 16"
  std::string meaning;
};
std::vector<ChipKey> describe_chip_keys();

}  // namespace kodama::isa
