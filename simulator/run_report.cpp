#include "simulator/run_report.h"

#include <nlohmann/json.hpp>
#include <ostream>

#include "isa/output.h"
#include "simulator/statistics.h"

namespace kodama::simulator {

RunReport::RunReport(const isa::Chip& chip, const ReportOptions& options) : chip_(chip), options_(options) {
  if (!options.trace_file.empty() || !options.vcd_file.empty() || options.keeps_timeline)
    timeline_ = std::make_unique<Timeline>(chip, options.timeline);
}

void RunReport::attach(const std::string& name, RunOptions& run) {
  if (!options_.statistics.empty()) {
    profiles_.emplace_back(name, Profile{});
    run.profile = &profiles_.back().second;
  }
  run.timeline = timeline_.get();
  run.name = name;
}

void RunReport::finish(std::ostream& out) {
  if (!options_.statistics.empty()) {
    std::vector<std::pair<std::string, const Profile*>> runs;
    for (const auto& [name, profile] : profiles_) runs.emplace_back(name, &profile);
    const Statistics all = statistics(runs, chip_);
    std::string text;
    if (options_.statistics == "json") {
      text = statistics_json(all).dump(2) + "\n";
    } else {
      text = options_.statistics == "csv" ? statistics_csv(all) : statistics_text(all);
    }
    if (options_.statistics_file.empty()) {
      out << text;
    } else {
      isa::write_output(options_.statistics_file, text);
    }
  }
  if (!options_.trace_file.empty()) isa::write_output(options_.trace_file, timeline_->chrome_json());
  if (!options_.vcd_file.empty()) isa::write_output(options_.vcd_file, timeline_->vcd());
}

}  // namespace kodama::simulator
