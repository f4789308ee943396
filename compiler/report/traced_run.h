#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "compiler/package/compiled_model.h"
#include "simulator/run_report.h"
#include "simulator/timeline.h"

/// A run as the simulator's timeline has it, seen from the model: which layer it was in when, and which
/// tensors the transfers moved.
namespace kodama::compiler {

/// Something that is in DRAM for a while: the image of a tensor, or the tables of a relayout.
struct DramImage {
  std::string name;   ///< of the tensor
  int64_t begin = 0;  ///< LW of every group's DRAM: [begin, end)
  int64_t end = 0;
  int first_stage = -1;  ///< that makes it, or for which it is sent; -1: it is there before all of them
  int last_stage = -1;   ///< that reads it, or behind which it is fetched
  bool constant = false;
  bool stored = true;  ///< else its place stays empty: who reads it has it on the chip
};
/// The images of a model, with the time for which they are needed.
class DramImages {
 public:
  explicit DramImages(const CompiledModel& model);
  const std::vector<DramImage>& all() const { return images_; }
  /// The image that an address belongs to while a stage runs; null if there is none.
  const DramImage* find(int64_t address, int stage) const;
  /// The stage that made the image which an operand of `stage` reads; -1: the host did.
  int maker(int stage, size_t operand) const;

 private:
  size_t add(DramImage image);
  std::vector<DramImage> images_;
  std::multimap<int64_t, size_t> by_begin_;
  int64_t longest_ = 0;
  std::map<std::pair<int, size_t>, int> makers_;
};

/// The part of a timeline that one run of a model has. Cycles begin with the run.
class TracedRun {
 public:
  /// A stage's share of one slice: from when its statements begin until those of the next one do.
  struct Band {
    int stage = -1;
    int64_t begin = 0;
    int64_t end = 0;
  };

  /// `first_program`: how many programs the timeline had before the run, `programs` of which are its own.
  /// `around`: the region around them (RunnerOptions::name); empty: none.
  TracedRun(const CompiledModel& model, const simulator::Timeline& timeline, size_t first_program,
            size_t programs, std::string around = "");

  const CompiledModel& model() const { return model_; }
  const simulator::Timeline& timeline() const { return timeline_; }
  int64_t begin() const { return begin_; }  ///< cycle of the timeline
  int64_t cycles() const { return end_ - begin_; }
  const std::vector<Band>& bands() const { return bands_; }
  size_t programs() const { return begins_.size() - 1; }
  const Segment& segment(size_t program) const;
  int64_t program_begin(size_t program) const { return begins_[program] - begin_; }
  /// Whether a span of the timeline is one of this run's.
  bool has(int64_t from) const { return from >= begin_ && from < end_; }
  /// The stage whose region a path begins with; -1: none.
  int stage_of(const std::string& region) const;

 private:
  const CompiledModel& model_;
  const simulator::Timeline& timeline_;
  std::string around_;
  std::vector<int64_t> begins_;  ///< of the programs, and the end
  int64_t begin_ = 0;
  int64_t end_ = 0;
  std::vector<Band> bands_;
  std::unordered_map<std::string, int> stage_by_name_;
  mutable std::unordered_map<std::string, int> stage_by_region_;
};

/// What the report's timeline has of the run since `first_program`, if there is a timeline and the run had
/// programs.
std::optional<TracedRun> traced_run(const CompiledModel& model, const simulator::RunReport& report,
                                    size_t first_program);

/// What the slots and the transfer engines were busy with, in at most kTimelineBins equal parts of the run:
///
///     cycles, bin_cycles  of the run, of a part
///     truncated           the timeline's limit was reached: the rest is missing
///     layers              [stage, begin, end] in order
///     names               of instructions, causes of stalls, and tensors
///     tracks              name, kind ("stall", "slot", "engine"), busy_cycles in all, and
///       runs              [first part, parts, busy cycles in each, name of what took most of them]
inline constexpr int64_t kTimelineBins = 4096;
nlohmann::ordered_json timeline_json(const TracedRun& run, const DramImages& images);

/// By stage, the transfers that are issued while it runs, those that are alike together: mv, from, to,
/// tensor, group-by-group LW of the wide side, how many, first cycle and last.
std::vector<nlohmann::ordered_json> transfers_json(const TracedRun& run, const DramImages& images);

/// What the memories hold over the run, by level, named by tensor; see memory_use.cpp.
nlohmann::ordered_json memory_json(const TracedRun& run, const DramImages& images);

}  // namespace kodama::compiler
