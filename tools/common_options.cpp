#include "tools/common_options.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iostream>
#include <limits>
#include <map>

#include "compiler/driver/session_options.h"
#include "compiler/driver/session_parts.h"
#include "compiler/report/table.h"
#include "isa/error.h"
#include "isa/output.h"
#include "isa/verbosity.h"
#include "passes/plugin_loading.h"
#include "simulator/hazard_modes.h"
#include "tools/options.h"

namespace kodama::tools {
namespace {

void add_word_options(CLI::App& app, ModelOptions& options, bool of_plan) {
  for (const compiler::WordOption& word : compiler::word_options()) {
    if (word.of_plan != of_plan) continue;
    std::string& value = options.word(word.name);
    CLI::Option* option = app.add_option(fmt::format("--{}", word.name), value, word.description);
    if (!value.empty()) option->capture_default_str();
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

void add_input_options(CLI::App& app, InputOptions& inputs, int& threads, RunFiles& files) {
  app.add_option("--input", inputs.files,
                 "NAME=FILE: .pb (TensorProto), .npy, or .npz[:MEMBER]; inputs not given are random");
  add_seed(app, inputs.seed, "seed of random inputs");
  add_threads(app, threads);
  app.add_option("--output-dir", files.outputs, "write every output as DIR/NAME.pb, and NAME.npy");
  app.add_option("--json", files.json, "write the layer table and totals as JSON");
}

void add_test_data_options(CLI::App& app, InputOptions& inputs, std::optional<double>& tolerance) {
  app.add_option("--test-data", inputs.test_data,
                 "directory with test_data_set_N: run each set, compare with its outputs");
  add_number(app, "--tolerance", tolerance,
             "largest error over largest magnitude; default by precision: gfloat 1e-3, float 1e-5, half 5e-2",
             0, 1e9);
}

void check_input_options(const CLI::App& app, const InputOptions& inputs) {
  for (const char* option : {"--input", "--seed"}) {
    if (!inputs.test_data.empty() && is_given(app, option))
      throw isa::UserError(fmt::format("{}: no effect with --test-data, which has the inputs", option));
  }
}

std::vector<DataSet> read_inputs(const InputOptions& inputs, const Program& program) {
  if (!inputs.test_data.empty()) return read_data_sets(inputs.test_data);
  Values values;
  for (const std::string& specification : inputs.files) {
    const auto [name, file, member] = compiler::parse_named_file("--input", specification);
    if (values.contains(name)) throw isa::UserError(fmt::format("--input {}: given twice", name));
    values.emplace(name, program.read_input(name, file, member));
  }
  return {{.inputs = program.complete_inputs(std::move(values), inputs.seed)}};
}

void add_host_option(CLI::App& app, std::string& host) {
  app.add_option("--host", host,
                 "overlap: a compiled model's data pass the host link beside programs as far as they can; "
                 "serial: the host does one thing after the other")
      ->check(one_of({"overlap", "serial"}))
      ->capture_default_str();
}

void add_report_options(CLI::App& app, ReportOptions& report) {
  RunFiles& files = report.files;
  app.add_flag("--stats{text}", report.statistics,
               "print where every cycle and byte went: text, json or csv (per region and source line)")
      ->check(one_of({"text", "json", "csv"}));
  app.add_option("--stats-file", files.statistics, "write the statistics to a file");
  app.add_option("--trace", files.trace, "write a Chrome trace (opens in Perfetto)");
  app.add_option("--vcd", files.vcd, "write a VCD (opens in GTKWave)");
  add_number(app, "--trace-from", files.trace_from, "first cycle of trace and VCD", 0)->capture_default_str();
  add_number(app, "--trace-to", files.trace_to, "cycle before which trace and VCD end", 1)
      ->default_str("the end");
  add_number(app, "--trace-limit", files.trace_limit, "largest number of spans in trace, VCD and report", 1,
             int64_t{1} << 40)
      ->capture_default_str();
  app.add_flag("!--no-timing", report.timing, "don't count cycles");
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

void add_hazards_option(CLI::App& app, std::string& hazards) {
  app.add_option(
         "--hazards", hazards,
         "reads too soon after a write: ignore (as the vendor's emulator, written at once), error (refuse "
         "the program), stale (as the hardware: the old value), or stall (as a chip that waits: the cycles)")
      ->check(one_of(simulator::hazard_modes()))
      ->default_str("ignore");
}

void finish_report_options(const CLI::App& app, ReportOptions& report, const std::string& hazards) {
  RunFiles& files = report.files;
  const bool has_page = !files.report.empty();
  const bool is_alone =
      report.statistics == "json" || report.statistics == "csv" || isa::verbosity() == isa::Verbosity::kQuiet;
  if (!report.statistics.empty() && files.statistics.empty() && is_alone) files.statistics = "-";
  if (!report.timing && hazards == "stall")
    throw isa::UserError("--no-timing: allowed only without --hazards=stall, which shows in the time");
  if (!report.timing && has_page)
    throw isa::UserError("--no-timing: allowed only without --report, which shows time");
  if (!report.timing && report.any())
    throw isa::UserError("--no-timing: allowed only without --stats, --trace and --vcd, which show time");
  if (report.statistics.empty() && !files.statistics.empty())
    throw isa::UserError("--stats-file: allowed only with --stats");
  for (const char* option : {"--trace-from", "--trace-to"}) {
    if (has_page && is_given(app, option))
      throw isa::UserError(
          fmt::format("{}: allowed only without --report, which shows the whole run", option));
  }
  if (files.trace.empty() && files.vcd.empty()) {
    for (const char* option : {"--trace-from", "--trace-to", "--trace-limit"}) {
      if (is_given(app, option) && !has_page)
        throw isa::UserError(fmt::format("{}: no effect without --trace or --vcd", option));
    }
  }
  if (files.trace_to <= files.trace_from) {
    throw isa::UserError(fmt::format(
        "--trace-from {} --trace-to {}: allowed are cycles from 0 on, the first before the second",
        files.trace_from, files.trace_to));
  }
  if (!report.statistics.empty()) files.statistics_form = report.statistics;
}

std::string& ModelOptions::word(const std::string& name) {
  const auto [value, is_new] = words.try_emplace(name);
  if (is_new) {
    compiler::SessionOptions defaults;
    const auto all = compiler::word_options();
    const auto known = std::ranges::find(all, name, &compiler::WordOption::name);
    isa::check_internal(known != all.end(), "ModelOptions::word", "no option '{}'", name);
    value->second = known->value(defaults);
  }
  return value->second;
}

void add_model_options(CLI::App& app, ModelOptions& options) {
  app.add_option("--chip", options.chip,
                 "name of a chip, or a chip file; behind it ,KEY=VALUE for keys of the file")
      ->capture_default_str();
  add_word_options(app, options, true);
  app.add_option("--dim", options.dims, "NAME=N: extent of a symbolic dimension; INPUT:AXIS=N by position");
  app.add_option("--bind", options.bind, "NAME=FILE: fix an input (axes, pads, shapes) before compilation");
  CLI::Option* dump_after =
      app.add_option("--dump-after", options.dump_after,
                     "write the result of a pass (or all) to the dump directory; 'kodama passes' lists them");
  app.add_option("--dump-dir", options.dump_directory, "directory of dumps")
      ->capture_default_str()
      ->needs(dump_after);
  CLI::Option* cache =
      app.add_option("--cache", options.cache,
                     "directory that keeps compiled programs, and what conversions cost; default "
                     "KODAMA_CACHE, or kodama in ~/.cache");
  app.add_flag_callback(
         "--no-cache", [&options] { options.cache = ""; }, "keep nothing between runs")
      ->excludes(cache);
  app.add_flag("!--no-fuse", options.fuse, "keep every operator a layer of its own");
  add_plugin_option(app, options.plugins);
  add_table_options(app);
}

void add_compile_options(CLI::App& app, ModelOptions& options) {
  add_model_options(app, options);
  add_word_options(app, options, false);
  add_pass_options(app, options.pass_options);
}

std::map<std::string, int64_t> parse_dims(const std::vector<std::string>& specifications) {
  constexpr const char* kAllowed = "NAME=N with N at least 1, for example --dim batch=4";
  std::map<std::string, int64_t> dims;
  for (const std::string& specification : specifications) {
    const Assignment dim = parse_assignment("--dim", specification, kAllowed);
    const auto value = parse_number<int64_t>(dim.value, 1, std::numeric_limits<int64_t>::max());
    if (!value) throw isa::UserError(fmt::format("--dim {}: allowed is {}", specification, kAllowed));
    if (!dims.emplace(dim.name, *value).second)
      throw isa::UserError(fmt::format("--dim {}: '{}' is given twice", specification, dim.name));
  }
  return dims;
}

Tensors read_bound(const std::vector<std::string>& specifications) {
  Tensors tensors;
  for (const std::string& specification : specifications) {
    const auto [name, file, member] = compiler::parse_named_file("--bind", specification);
    if (tensors.contains(name)) throw isa::UserError(fmt::format("--bind {}: given twice", name));
    tensors.emplace(name, read_tensor(file, member));
  }
  return tensors;
}

CompileSettings compile_settings(const ModelOptions& options) {
  CompileSettings settings;
  settings.chip = options.chip;
  settings.options = options.words;
  settings.options["fuse"] = options.fuse ? "yes" : "no";
  settings.options["check-layers"] = options.check_layers ? "yes" : "no";
  if (options.cache) settings.options["cache"] = *options.cache;
  for (const auto& [name, value] : parse_pass_options(options.pass_options)) {
    // The library has all options in one list.
    if (!settings.options.emplace(name, value).second || name == "cache")
      throw isa::UserError(
          fmt::format("--pass-option {}={}: an option of the compiler, not of a pass", name, value));
  }
  settings.dump_after.insert(options.dump_after.begin(), options.dump_after.end());
  settings.dump_directory = options.dump_directory;
  return settings;
}

Progress to_bar(isa::ProgressBar& bar) {
  return [&bar](double part, const std::string& what) {
    constexpr int64_t kParts = 100;
    const int64_t done = std::llround(part * static_cast<double>(kParts));
    bar.update(done, done > 0 ? kParts : 0, what);  // at first nobody knows how long it takes
  };
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

std::ostream& run_stream(const std::vector<std::string>& directories,
                         const std::vector<std::string>& outputs) {
  for (const std::string& directory : directories) isa::check_output_directory(directory);
  return isa::unless_quiet(report_stream(outputs));
}

}  // namespace kodama::tools
