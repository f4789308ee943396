#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "isa/chip.h"
#include "isa/program.h"
#include "isa/transfer_timeline.h"
#include "simulator/profile.h"

/// What a chip did when, for viewers: a span per instruction and slot, per stall, per transfer, per region.
///
/// As a Chrome trace (`chrome_json`) it opens in Perfetto and chrome://tracing; one microsecond of the viewer
/// is one cycle. Tracks: regions (nested), the sequencer's stalls, the slots L2BM, L1BM, MAU and ALU, and for
/// every group as many lanes of its transfer engine as transfers were under way at a time. Spans of a track
/// nest or follow each other, they never overlap. As a VCD (`vcd`) it opens in GTKWave; one nanosecond is one
/// cycle.
///
/// Size is bounded: spans outside the window, and those beyond the limit, are not kept; the file says so.
namespace kodama::simulator {

struct TimelineOptions {
  int64_t from = 0;  ///< first cycle
  int64_t to = std::numeric_limits<int64_t>::max();
  int64_t limit = 1000000;       ///< spans
  bool keeps_transfers = false;  ///< for transfers()
};

class Timeline {
 public:
  Timeline(const isa::Chip& chip, const TimelineOptions& options);

  /// A program begins: its cycle 0 is the cycle at which the last one ended, its regions are `regions` inside
  /// the region `name` (none when empty).
  void begin_program(const std::string& name, std::vector<Region> regions);
  /// Its end.
  void end_program(int64_t cycle);

  /// Whether nothing from this cycle of the program on will be kept.
  bool is_over(int64_t cycle);

  /// Cycles below are the program's.
  void step(const isa::Statement& statement, int64_t begin, int64_t end);
  void stall(const std::string& cause, int32_t line, int64_t begin, int64_t end);
  /// The region of what follows.
  void enter(int32_t region, int64_t cycle);
  void transfer(const isa::TransferRecord& record);

  std::string chrome_json() const;
  std::string vcd() const;

  // For other drawings: cycles are those of all programs one after the other.
  enum Track : int32_t { kRegions, kSequencer, kL2bm, kL1bm, kMau, kAlu, kFirstEngine };
  struct Span {
    int32_t track;  ///< from kFirstEngine on: transfers of a group
    int32_t line;
    int64_t begin;
    int64_t end;
    std::string name;
    std::string region;  ///< that it belongs to
  };
  /// All but transfers, in the order in which they ended.
  const std::vector<Span>& spans() const { return spans_; }
  struct Transfer {
    isa::Instruction mv;
    uint64_t groups = 0;  ///< bit g: the engine of group g has it
    std::string region;
    int64_t issued = 0;
    int64_t done = 0;
  };
  const std::vector<Transfer>& transfers() const { return kept_transfers_; }
  /// Of each program the cycle at which it began, and that at which the last one ended.
  std::vector<int64_t> program_begins() const;

  /// Whether spans inside the window are missing because of the limit.
  bool truncated() const { return truncated_; }

 private:
  struct OpenRegion {
    int32_t region;
    int64_t begin;
  };
  static constexpr int32_t kProgram = -2;  ///< as a region: the program as a whole

  void add(Span span);
  bool is_full() const;
  std::string region_name(int32_t region) const;
  /// "conv1/load": the region and those around it; empty for none.
  std::string region_path(int32_t region) const;
  int32_t parent(int32_t region) const;
  /// The region, or kProgram where the region is the program.
  int32_t known(int32_t region) const;
  /// Spans with transfers dealt to lanes; names of the tracks from kFirstEngine on.
  std::vector<Span> with_lanes(std::vector<std::string>* tracks) const;

  isa::Chip chip_;
  TimelineOptions options_;
  int64_t origin_ = 0;
  std::string program_;
  std::vector<Region> regions_;
  std::vector<OpenRegion> open_;
  std::string present_;  ///< path of the innermost open region
  std::vector<Span> spans_;
  std::vector<Span> transfers_;  ///< track = kFirstEngine + group
  std::vector<Transfer> kept_transfers_;
  std::vector<int64_t> ends_;  ///< of programs
  bool truncated_ = false;
};

}  // namespace kodama::simulator
