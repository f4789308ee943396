#pragma once

#include <kodama/kodama.h>

#include <CLI/CLI.hpp>
#include <cstdint>
#include <map>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "isa/progress.h"
#include "passes/pass_options.h"

/// Options that several commands have, with their meaning; tools/options.h has the kinds of options.
namespace kodama::tools {

// ---- passes and plugins

void add_pass_options(CLI::App& app, std::vector<std::string>& raw);
/// NAME=VALUE each. UserError for others, and for a name that comes twice.
passes::PassOptions parse_pass_options(const std::vector<std::string>& raw);
void add_plugin_option(CLI::App& app, std::vector<std::string>& plugins);
void load_plugins(const std::vector<std::string>& plugins);

// ---- numbers

CLI::Option* add_chip(CLI::App& app, std::string& chip);
void add_seed(CLI::App& app, uint64_t& seed, const std::string& description);
/// A number of threads, at most as many as make sense.
void add_thread_count(CLI::App& app, const std::string& name, int& threads, const std::string& description,
                      int least);
/// --threads of the simulator.
void add_threads(CLI::App& app, int& threads);

// ---- runs on the simulated chip

/// Where a model's inputs come from.
struct InputOptions {
  std::vector<std::string> files;  ///< NAME=FILE[:MEMBER]
  std::string test_data;           ///< a directory
  uint64_t seed = 1;
};
/// --input and --seed, --threads, --output-dir and --json.
void add_input_options(CLI::App& app, InputOptions& inputs, int& threads, RunFiles& files);
/// --test-data and --tolerance.
void add_test_data_options(CLI::App& app, InputOptions& inputs, std::optional<double>& tolerance);
/// UserError for options of inputs that can't be given together.
void check_input_options(const CLI::App& app, const InputOptions& inputs);
/// A data set for each of --test-data, else one by --input and --seed.
std::vector<DataSet> read_inputs(const InputOptions& inputs, const Program& program);

void add_host_option(CLI::App& app, std::string& host);
void add_hazards_option(CLI::App& app, std::string& hazards);

/// What is told of timed runs.
struct ReportOptions {
  std::string statistics;  ///< their form: text, json, csv; empty: none
  RunFiles files;
  bool timing = true;
  /// They are text that the command prints.
  bool prints_statistics() const { return !statistics.empty() && files.statistics.empty(); }
  bool any() const { return !statistics.empty() || !files.trace.empty() || !files.vcd.empty(); }
};
void add_report_options(CLI::App& app, ReportOptions& report);
/// `--stats` takes its form as the next word, if that is one; CLI11's flags take it after '=' only.
std::vector<std::string> with_joined_forms(std::vector<std::string> arguments);
/// UserError for options of reports and hazards that can't be given together. Statistics that programs read
/// get standard output for themselves, unless they have a file.
void finish_report_options(const CLI::App& app, ReportOptions& report, const std::string& hazards);

// ---- models

/// How a model is imported and compiled, as the command line says it.
struct ModelOptions {
  std::string chip = kDefaultChip;
  std::map<std::string, std::string> words;  ///< values of options that are words (planner, weights, ...)
  std::vector<std::string> dims, bind, dump_after, pass_options, plugins;
  std::string dump_directory = "kodama-dump";
  std::optional<std::string> cache;  ///< nothing: where it is by default; empty: none
  bool fuse = true;
  bool check_layers = false;

  /// The value of such an option; at first its default.
  std::string& word(const std::string& name);
};
/// What says which model, and how its layers get kernels and layouts.
void add_model_options(CLI::App& app, ModelOptions& options);
/// The same, and how the layers become programs.
void add_compile_options(CLI::App& app, ModelOptions& options);
/// NAME=N each. UserError for others, and for a name that comes twice.
std::map<std::string, int64_t> parse_dims(const std::vector<std::string>& specifications);
/// The same for NAME=FILE[:MEMBER], whose files are read.
Tensors read_bound(const std::vector<std::string>& specifications);
/// For the library.
CompileSettings compile_settings(const ModelOptions& options);

// ---- output

/// Shows what the library tells of its work.
Progress to_bar(isa::ProgressBar& bar);

/// --wide and --legend, of commands that print tables.
void add_table_options(CLI::App& app);
/// --brief and --moves, of commands that run models.
void add_run_view_options(CLI::App& app);

/// Tries the files that a command will write, before the work. Returns where everything else that it prints
/// goes: standard error when one of the files is standard output.
std::ostream& report_stream(const std::vector<std::string>& outputs);
/// The same, but nothing with --quiet if there is a file: what is printed is for those who have none.
std::ostream& result_stream(const std::vector<std::string>& outputs);
/// Likewise for commands that write into directories, too; nothing with --quiet, since what is printed is not
/// all that they are for.
std::ostream& run_stream(const std::vector<std::string>& directories,
                         const std::vector<std::string>& outputs);

}  // namespace kodama::tools
