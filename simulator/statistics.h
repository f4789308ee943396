#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "isa/chip.h"
#include "isa/sequencer.h"
#include "simulator/profile.h"

/// Where every cycle and every byte went: what `--stats` prints.
///
/// Statistics add up. Cycles by cause are the total, exactly; the regions' and lines' cycles are the total
/// but for what belongs to no statement (the wait for the last transfers, host data). Bytes are counted at
/// the memory that holds them, reads and writes apart, and compared with the peak that the chip's ports
/// allow.
namespace kodama::simulator {

/// A memory, or one side of it, whose traffic is counted.
enum class Level : uint8_t {
  kDram,
  kPdm,
  kL2bmMv,    ///< MV ports of the L2BMs
  kL2bm,      ///< their ports towards the L1Bs
  kL1bmL2bm,  ///< ports of the L1BMs towards the L2BM
  kL1bm,      ///< towards the PEs
  kLm,        ///< LM0 and LM1
  kGrf,       ///< GRF0 and GRF1
};
inline constexpr int kLevelCount = 8;
std::string_view level_name(Level level);
/// Bytes per cycle of the whole chip, reads and writes together, that the ports of a level can pass:
/// DRAM: its rate; PDM and MV ports: both directions; L2BM and L1BM: the widest instruction of each side; LM:
/// one port of 2LW per memory; GRF: a read and a write port of 2LW each.
double peak_bytes_per_cycle(Level level, const isa::Chip& chip);

/// What statements did, and how long it took.
struct Usage {
  isa::CycleCauses cycles;
  int64_t steps = 0;
  int64_t mvs = 0;
  // Steps whose slot was used; `empty`: none was.
  int64_t l2bm = 0;
  int64_t l1bm = 0;
  int64_t mau = 0;
  int64_t alu = 0;
  int64_t empty = 0;
  struct Calculation {
    int64_t steps = 0;
    double multiply_adds = 0;  ///< an addition through the MAU counts as one
    double peak = 0;           ///< multiply-adds per cycle
  };
  std::map<std::string, Calculation> calculations;  ///< by "float matrix", "half vector", …
  std::array<double, kLevelCount> read_bytes{};
  std::array<double, kLevelCount> written_bytes{};
  double host_bytes = 0;  ///< instruction words

  Usage& operator+=(const Usage& other);
  double bytes(Level level) const {
    return read_bytes[static_cast<size_t>(level)] + written_bytes[static_cast<size_t>(level)];
  }
  /// Cycles in which the MAU would have done the same at the peak of each precision.
  double mau_cycles() const;
};

/// What `count` executions of a statement did; no cycles. A loop by itself does nothing.
Usage usage_of(const isa::Statement& statement, int64_t count, const isa::Chip& chip);

/// The least cycles that a usage could have taken, and what sets them: the largest, over the MAU and the
/// levels of memory, of work over peak. The host link is left out, latencies and distances too. Of a part of
/// a run it is a bound only without the transfers that outlast the part.
struct Roofline {
  double cycles = 0;
  std::string resource;
};
Roofline roofline(const Usage& usage, const isa::Chip& chip);

struct Statistics {
  isa::Chip chip;
  Usage total;
  struct RegionUsage {
    std::string path;  ///< "conv1/load"
    Usage usage;       ///< with the regions inside it
  };
  std::vector<RegionUsage> regions;
  /// Of programs read from text: a line is one statement. There may be millions, so what they did is computed
  /// when it is asked for.
  struct LineUsage {
    const isa::Statement* statement = nullptr;
    int64_t count = 0;  ///< executions
    isa::CycleCauses cycles;
    int32_t line() const { return statement->line; }
    std::string text() const;
    Usage usage(const isa::Chip& chip) const;
  };
  std::vector<LineUsage> lines;
  struct PortUsage {
    std::string name;
    double busy_cycles = 0;
    double bytes = 0;
    double peak_bytes_per_cycle = 0;
  };
  std::vector<PortUsage> ports;  ///< of transfers, those that were used
  int64_t dram_row_hits = 0;
  int64_t dram_row_misses = 0;
  int64_t dram_turnarounds = 0;
  double host_data_bytes = 0;
  double host_dram_cycles = 0;  ///< Profile::host_dram_cycles
  /// "PE steps: 97 % of all cycles", …
  std::string bound;
};

/// Statistics of one run. The program that was profiled must still exist.
Statistics statistics(const Profile& profile, const isa::Chip& chip);
/// Statistics of several runs one after the other. Each name becomes a region of its own, around those of its
/// run.
Statistics statistics(const std::vector<std::pair<std::string, const Profile*>>& runs, const isa::Chip& chip);

/// For people. `lines`: at most so many source lines, those with most cycles.
std::string statistics_text(const Statistics& statistics, size_t lines = 10);
/// Cycles by the names of their causes: `cycles_by_cause`.
nlohmann::ordered_json causes_json(const isa::CycleCauses& cycles);
/// Everything; of lines at most kReportedLines, those with most cycles.
inline constexpr size_t kReportedLines = 100000;
nlohmann::ordered_json statistics_json(const Statistics& statistics);
/// A row for the total, for every region and for every reported line.
std::string statistics_csv(const Statistics& statistics);

}  // namespace kodama::simulator
