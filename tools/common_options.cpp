#include "tools/common_options.h"

#include <fmt/format.h>

#include <algorithm>
#include <iostream>
#include <limits>
#include <map>

#include "compiler/driver/session_options.h"
#include "compiler/report/table.h"
#include "isa/error.h"
#include "isa/output.h"
#include "isa/verbosity.h"
#include "passes/plugin_loading.h"
#include "simulator/hazard_modes.h"
#include "tools/options.h"

namespace kodama::tools {
namespace {

using compiler::SessionOptions;

/// `--dim NAME=N`.
void parse_dims(const std::vector<std::string>& specifications, SessionOptions& options) {
  constexpr const char* kAllowed = "NAME=N with N at least 1, for example --dim batch=4";
  for (const std::string& specification : specifications) {
    const Assignment dim = parse_assignment("--dim", specification, kAllowed);
    const auto value = parse_number<int64_t>(dim.value, 1, std::numeric_limits<int64_t>::max());
    if (!value) throw isa::UserError(fmt::format("--dim {}: allowed is {}", specification, kAllowed));
    if (!options.dims.emplace(dim.name, *value).second)
      throw isa::UserError(fmt::format("--dim {}: '{}' is given twice", specification, dim.name));
  }
}

void add_word_options(CLI::App& app, SessionOptions& options, bool of_plan) {
  for (const compiler::WordOption& word : compiler::word_options()) {
    if (word.of_plan != of_plan) continue;
    CLI::Option* option =
        app.add_option(fmt::format("--{}", word.name), word.value(options), word.description);
    if (!word.value(options).empty()) option->capture_default_str();
  }
}

/// More threads than this are a mistake.
constexpr int kMostThreads = 1024;

}  // namespace

void add_pass_options(CLI::App& app, std::vector<std::string>& raw) {
  app.add_option("--pass-option", raw, "NAME=VALUE: option of a chosen pass; 'kodama passes' lists them");
}

passes::PassOptions parse_pass_options(const std::vector<std::string>& raw) {
  passes::PassOptions options;
  for (const std::string& each : raw) {
    const Assignment option =
        parse_assignment("--pass-option", each, "NAME=VALUE, for example --pass-option list-tries=4");
    if (!options.emplace(option.name, option.value).second)
      throw isa::UserError(fmt::format("--pass-option {}: '{}' is given twice", each, option.name));
  }
  return options;
}

void add_plugin_option(CLI::App& app, std::vector<std::string>& plugins) {
  app.add_option(
         "--plugin", plugins,
         "shared library with passes (docs/write-a-pass.md) or DRAM models (docs/timing.md); may be repeated")
      ->allow_extra_args(false);
}

void load_plugins(const std::vector<std::string>& plugins) {
  for (const std::string& plugin : plugins) passes::load_plugin(plugin);
}

CLI::Option* add_chip(CLI::App& app, std::string& chip) {
  return app
      .add_option("--chip", chip, "name of a chip, or a chip file; behind it ,KEY=VALUE for keys of the file")
      ->capture_default_str();
}

void add_seed(CLI::App& app, uint64_t& seed, const std::string& description) {
  add_number(app, "--seed", seed, description, 0)->capture_default_str();
}

void add_thread_count(CLI::App& app, const std::string& name, int& threads, const std::string& description,
                      int least) {
  add_number(app, name, threads, description, least, kMostThreads)->capture_default_str();
}
void add_threads(CLI::App& app, int& threads) {
  add_thread_count(app, "--threads", threads, "threads of the simulator; 0 = all cores", 0);
}

void add_input_options(CLI::App& app, SessionOptions& options) {
  app.add_option("--input", options.inputs,
                 "NAME=FILE: .pb (TensorProto), .npy, or .npz[:MEMBER]; inputs not given are random");
  add_seed(app, options.seed, "seed of random inputs");
  add_threads(app, options.threads);
  app.add_option("--output-dir", options.output_directory, "write every output as DIR/NAME.pb, and NAME.npy");
  app.add_option("--json", options.json_file, "write the layer table and totals as JSON");
}

void add_test_data_options(CLI::App& app, std::string& test_data, std::optional<double>& tolerance) {
  app.add_option("--test-data", test_data,
                 "directory with test_data_set_N: run each set, compare with its outputs");
  add_number(app, "--tolerance", tolerance,
             "largest error over largest magnitude; default by precision: gfloat 1e-3, float 1e-5, half 5e-2",
             0, 1e9);
}

void add_host_option(CLI::App& app, std::string& host) {
  app.add_option("--host", host,
                 "overlap: a compiled model's data pass the host link beside programs as far as they can; "
                 "serial: the host does one thing after the other")
      ->check(one_of({"overlap", "serial"}))
      ->capture_default_str();
}

void add_report_options(CLI::App& app, simulator::ReportOptions& report, bool& timing) {
  app.add_flag("--stats{text}", report.statistics,
               "print where every cycle and byte went: text, json or csv (per region and source line)")
      ->check(one_of({"text", "json", "csv"}));
  app.add_option("--stats-file", report.statistics_file, "write the statistics to a file");
  app.add_option("--trace", report.trace_file, "write a Chrome trace (opens in Perfetto)");
  app.add_option("--vcd", report.vcd_file, "write a VCD (opens in GTKWave)");
  add_number(app, "--trace-from", report.timeline.from, "first cycle of trace and VCD", 0)
      ->capture_default_str();
  add_number(app, "--trace-to", report.timeline.to, "cycle before which trace and VCD end", 1)
      ->default_str("the end");
  add_number(app, "--trace-limit", report.timeline.limit, "largest number of spans in trace, VCD and report",
             1, int64_t{1} << 40)
      ->capture_default_str();
  app.add_flag("!--no-timing", timing, "don't count cycles");
}

std::vector<std::string> with_joined_forms(std::vector<std::string> arguments) {
  for (size_t k = 0; k + 1 < arguments.size(); ++k) {
    const std::string& form = arguments[k + 1];
    if (arguments[k] != "--stats" || (form != "text" && form != "json" && form != "csv")) continue;
    arguments[k] += "=" + form;
    arguments.erase(arguments.begin() + static_cast<ptrdiff_t>(k) + 1);
  }
  return arguments;
}

void add_hazards_option(CLI::App& app, simulator::Hazards& hazards) {
  app.add_option_function<std::string>(
         "--hazards", [&hazards](const std::string& mode) { hazards = simulator::parse_hazards(mode); },
         "reads too soon after a write: ignore (as the vendor's emulator, written at once), error (refuse "
         "the program), stale (as the hardware: the old value), or stall (as a chip that waits: the cycles)")
      ->check(one_of(simulator::hazard_modes()))
      ->default_str("ignore");
}

void check_report_options(const CLI::App& app, simulator::ReportOptions& report, bool timing,
                          simulator::Hazards hazards) {
  const bool is_alone =
      report.statistics == "json" || report.statistics == "csv" || isa::verbosity() == isa::Verbosity::kQuiet;
  if (!report.statistics.empty() && report.statistics_file.empty() && is_alone) report.statistics_file = "-";
  if (!timing && hazards == simulator::Hazards::kStall)
    throw isa::UserError("--no-timing: allowed only without --hazards=stall, which shows in the time");
  if (!timing && report.keeps_timeline)
    throw isa::UserError("--no-timing: allowed only without --report, which shows time");
  if (!timing && report.any())
    throw isa::UserError("--no-timing: allowed only without --stats, --trace and --vcd, which show time");
  if (report.statistics.empty() && !report.statistics_file.empty())
    throw isa::UserError("--stats-file: allowed only with --stats");
  for (const char* option : {"--trace-from", "--trace-to"}) {
    if (report.keeps_timeline && is_given(app, option))
      throw isa::UserError(
          fmt::format("{}: allowed only without --report, which shows the whole run", option));
  }
  if (report.trace_file.empty() && report.vcd_file.empty()) {
    for (const char* option : {"--trace-from", "--trace-to", "--trace-limit"}) {
      if (is_given(app, option) && !report.keeps_timeline)
        throw isa::UserError(fmt::format("{}: no effect without --trace or --vcd", option));
    }
  }
  if (report.timeline.to <= report.timeline.from) {
    throw isa::UserError(fmt::format(
        "--trace-from {} --trace-to {}: allowed are cycles from 0 on, the first before the second",
        report.timeline.from, report.timeline.to));
  }
}

void add_model_options(CLI::App& app, SessionOptions& options, RawOptions& raw) {
  app.add_option("--chip", options.chip,
                 "name of a chip, or a chip file; behind it ,KEY=VALUE for keys of the file")
      ->capture_default_str();
  add_word_options(app, options, true);
  app.add_option("--dim", raw.dims, "NAME=N: extent of a symbolic dimension; INPUT:AXIS=N by position");
  app.add_option("--bind", options.bind, "NAME=FILE: fix an input (axes, pads, shapes) before compilation");
  CLI::Option* dump_after =
      app.add_option("--dump-after", raw.dump_after,
                     "write the result of a pass (or all) to the dump directory; 'kodama passes' lists them");
  app.add_option("--dump-dir", options.dump_directory, "directory of dumps")
      ->capture_default_str()
      ->needs(dump_after);
  CLI::Option* cache =
      app.add_option("--cache", options.cache,
                     "directory that keeps what conversions cost, and programs of models that are compiled "
                     "in parts; default KODAMA_CACHE, or kodama in ~/.cache");
  app.add_flag_callback(
         "--no-cache", [&options] { options.cache.clear(); }, "keep nothing between runs")
      ->excludes(cache);
  app.add_flag("!--no-fuse", options.fuse, "keep every operator a layer of its own");
  add_plugin_option(app, raw.plugins);
  add_table_options(app);
}

void add_compile_options(CLI::App& app, SessionOptions& options, RawOptions& raw) {
  add_model_options(app, options, raw);
  add_word_options(app, options, false);
  add_pass_options(app, raw.pass_options);
}

void finish_options(const RawOptions& raw, SessionOptions& options) {
  for (const std::string& plugin : raw.plugins) passes::load_plugin(plugin);
  parse_dims(raw.dims, options);
  options.dump_after.insert(raw.dump_after.begin(), raw.dump_after.end());
  options.passes.options = parse_pass_options(raw.pass_options);
}

void add_table_options(CLI::App& app) {
  app.add_flag_callback(
      "--wide", [] { compiler::table_view().width = 0; },
      "tables with all columns, also where they are wider than the terminal");
  app.add_flag("--legend", compiler::table_view().legend, "below tables what their columns say");
}

void add_run_view_options(CLI::App& app) {
  app.add_flag("--brief", compiler::table_view().brief, "totals and comparisons, no table of layers");
  app.add_flag("--moves", compiler::table_view().moves,
               "the table of Moves, the changes of layout between layers");
}

std::ostream& report_stream(const std::vector<std::string>& outputs) {
  return isa::check_outputs(outputs) ? std::cerr : std::cout;
}

std::ostream& result_stream(const std::vector<std::string>& outputs) {
  std::ostream& out = report_stream(outputs);
  const bool any = std::ranges::any_of(outputs, [](const std::string& path) { return !path.empty(); });
  return any ? isa::unless_quiet(out) : out;
}

std::ostream& session_stream(const SessionOptions& options) {
  isa::check_output_directory(options.output_directory);
  if (!options.dump_after.empty()) isa::check_output_directory(options.dump_directory);
  std::vector<std::string> outputs = options.report.files();
  outputs.push_back(options.json_file);
  outputs.push_back(options.html_file);
  return report_stream(outputs);
}

std::ostream& run_stream(const SessionOptions& options) {
  return isa::unless_quiet(session_stream(options));
}

}  // namespace kodama::tools
