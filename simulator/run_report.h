#pragma once

#include <deque>
#include <iosfwd>
#include <memory>
#include <string>
#include <utility>

#include "simulator/machine.h"
#include "simulator/profile.h"
#include "simulator/timeline.h"

/// What `kodama sim` and `kodama run` tell of timed runs: statistics, trace, VCD.
namespace kodama::simulator {

struct ReportOptions {
  std::string statistics;       ///< "text", "json", "csv"; empty = none
  std::string statistics_file;  ///< empty = to the stream given to finish()
  std::string trace_file;       ///< Chrome trace
  std::string vcd_file;
  TimelineOptions timeline;
  bool keeps_timeline = false;  ///< for RunReport::timeline
  std::vector<std::string> files() const { return {statistics_file, trace_file, vcd_file}; }
  bool any() const {
    return !statistics.empty() || !trace_file.empty() || !vcd_file.empty() || keeps_timeline;
  }
};

/// Collects any number of runs, one after the other.
class RunReport {
 public:
  RunReport(const isa::Chip& chip, const ReportOptions& options);

  /// Before a run; `name` becomes a region around it when it isn't empty. The program must live until
  /// finish().
  void attach(const std::string& name, RunOptions& run);
  /// Writes what was asked for. Files appear under their names when they are complete.
  void finish(std::ostream& out);
  /// Null unless a trace, a VCD or the timeline itself was asked for.
  const Timeline* timeline() const { return timeline_.get(); }

 private:
  isa::Chip chip_;
  ReportOptions options_;
  std::deque<std::pair<std::string, Profile>> profiles_;
  std::unique_ptr<Timeline> timeline_;
};

}  // namespace kodama::simulator
