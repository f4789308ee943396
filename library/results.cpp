#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <sstream>

#include "compiler/dynamic/dynamic_report.h"
#include "library/states.h"

namespace kodama {

namespace library {

Comparison describe(const std::string& name, const compiler::Comparison& found, double tolerance) {
  Comparison result;
  result.name = name;
  result.max_absolute = found.max_absolute;
  result.max_relative = found.max_relative;
  result.tolerance = tolerance;
  result.ok = compiler::within(found, tolerance);
  result.unequal = found.unequal;
  result.place = found.worst_place;
  result.found = found.found;
  result.expected = found.expected;
  result.problem = found.problem;
  return result;
}

Comparison describe(const compiler::ValueComparison& found, const compiler::Value& value, double tolerance) {
  Comparison result = describe(found.name, found.worst, tolerance);
  result.as_set = found.as_set;
  result.ok |= found.as_set;
  if (found.as_set || found.rows_found >= 0) result.row_count = value.tensor().shape()[0];
  if (found.rows_found >= 0) result.rows = found.rows_found;
  return result;
}

OperandsComparison describe(const compiler::OperandsComparison& found, double tolerance) {
  OperandsComparison result;
  compiler::Comparison worst;
  for (const compiler::ValueComparison& each : found.operands) {
    result.operands.push_back(describe(each.name, each.worst, tolerance));
    compiler::include(worst, each.worst);
  }
  for (const compiler::ValueComparison& each : found.outputs)
    result.outputs.push_back(describe(each.name, each.worst, tolerance));
  result.worst = describe("operands", worst, tolerance);
  result.changed = found.changed;
  result.ok = found.is_within(tolerance);
  return result;
}

nlohmann::ordered_json to_json(const WallTimes& times) {
  nlohmann::ordered_json json = nlohmann::ordered_json::object();
  for (const auto& [part, seconds] : times.parts()) json[part] = seconds;
  return json;
}

std::string without_reference(const std::string& program) {
  return fmt::format(
      "compare: program '{}' has no reference; allowed for one that was compiled with "
      "CompileSettings::keeps_reference",
      program);
}

simulator::ReportOptions report_options(const RunFiles& files, bool statistics) {
  simulator::ReportOptions options;
  options.trace_file = files.trace;
  options.vcd_file = files.vcd;
  options.timeline.from = files.trace_from;
  options.timeline.to = files.trace_to;
  options.timeline.limit = files.trace_limit;
  if (files.trace_from < 0 || files.trace_to <= files.trace_from || files.trace_limit < 1)
    throw UserError(
        fmt::format("trace_from {}, trace_to {}, trace_limit {}: allowed are cycles from 0 on, the first "
                    "before the second, "
                    "and a limit from 1 on",
                    files.trace_from, files.trace_to, files.trace_limit));
  if (statistics && !files.statistics.empty())
    throw UserError("statistics: allowed as text or in a file, not both");
  const std::string& form = files.statistics_form;
  if (form != "text" && form != "json" && form != "csv")
    throw UserError(fmt::format("statistics_form: found '{}', allowed: text, json, csv", form));
  if (!files.statistics.empty()) options.statistics = form;
  if (statistics) options.statistics = "text";
  options.statistics_file = files.statistics;
  return options;
}

nlohmann::ordered_json ResultState::json(const simulator::RunReport* report, size_t programs_before) const {
  if (!traced.is_null()) return traced;
  nlohmann::ordered_json json;
  if (dynamic) {
    json["data_set"] = data_set;
    if (!first_run.is_null()) json["first_run"] = first_run;
    const simulator::Timeline* timeline = report != nullptr ? report->timeline() : nullptr;
    json.update(compiler::dynamic_to_json(*dynamic, timeline));
    json["comparisons"] = comparisons;
    if (timeline == nullptr) return json;
    json["model"] = program->name;
    json["chip"] = program->chip.name;
    json["precision"] = compiler::matrix_precision_name(program->precision());
    json["open_reason"] = program->open_reason;
    json["milliseconds"] =
        static_cast<double>(dynamic->total.stats.chip.cycles()) / program->chip.clock_hz * 1e3;
    return json;
  }
  const compiler::Runs all{runs, first_cycles, first_dram_bytes, outcome};
  const std::optional<compiler::TracedRun> run =
      report != nullptr ? compiler::traced_run(*program->compiled, *report, programs_before) : std::nullopt;
  json = compiler::run_to_json(*program->compiled, all, layers, outputs, run ? &*run : nullptr);
  json["data_set"] = data_set;
  if (!comparisons.empty()) json["on_the_chips_operands"] = comparisons;
  return json;
}

void ResultState::print(std::ostream& out) const {
  if (dynamic) {
    out << fmt::format("compiled in parts while it runs: {}\n", program->open_reason);
    compiler::print_dynamic_report(*dynamic, out);
    if (runs > 1)
      out << fmt::format("of {} runs, the last: the first compiled {} programs, this one {}\n", runs,
                         first_compiles, dynamic->total.compiles);
    return;
  }
  const compiler::CompiledModel& model = *program->compiled;
  compiler::print_layer_table(model, {runs, first_cycles, first_dram_bytes, outcome}, layers, out);
  compiler::print_relayouts(model, outcome, out);
  compiler::print_schedules_given_up(model, out);
  compiler::print_host_layers(model, out);
  compiler::print_host_share(compiler::host_shares(model, outcome), outcome.total.chip.cycles(), out);
}

}  // namespace library

std::string Comparison::text() const {
  if (as_set) return fmt::format("the same {} rows in another order: ok", row_count);
  std::string text;
  if (!problem.empty()) {
    text = problem + ": FAILED";
  } else {
    text = fmt::format("max abs {:.2e}, over largest magnitude {:.2e}{} (allowed {:.0e}): {}", max_absolute,
                       max_relative, unequal > 0 ? fmt::format(", {} elements not comparable", unequal) : "",
                       tolerance, ok ? "ok" : "FAILED");
    if (!ok && place)
      text +=
          fmt::format("; at {}: found {}, expected {}", compiler::shape_to_string(*place), found, expected);
  }
  if (rows) text += fmt::format("; in another order {} of {} rows are right", *rows, row_count);
  return text;
}

void WallTimes::end(const std::string& part) {
  const auto now = std::chrono::steady_clock::now();
  const double seconds = std::chrono::duration<double>(now - last_).count();
  last_ = now;
  const auto known = std::ranges::find(parts_, part, &std::pair<std::string, double>::first);
  if (known == parts_.end()) {
    parts_.emplace_back(part, seconds);
  } else {
    known->second += seconds;
  }
}

std::string WallTimes::text() const {
  std::string text;
  int64_t sum = 0;
  for (const auto& [part, seconds] : parts_) {
    const int64_t hundredths = std::llround(seconds * 100);
    // Of the rounded parts, so that the reader's sum is the printed one.
    sum += hundredths;
    text += fmt::format("{} {:.2f} s, ", part, static_cast<double>(hundredths) / 100);
  }
  return fmt::format("{}in all {:.2f} s", text, static_cast<double>(sum) / 100);
}

std::string Result::json() const {
  return state_ ? state_->json().dump(1) : "{}";
}
void Result::print(std::ostream& out) const {
  if (state_) state_->print(out);
}
std::string Result::table() const {
  std::ostringstream text;
  print(text);
  return std::move(text).str();
}

}  // namespace kodama
