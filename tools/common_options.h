#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "compiler/driver/session.h"
#include "passes/pass_options.h"
#include "simulator/machine.h"
#include "simulator/run_report.h"

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

void add_input_options(CLI::App& app, compiler::SessionOptions& options);
/// --test-data and --tolerance.
void add_test_data_options(CLI::App& app, std::string& test_data, std::optional<double>& tolerance);
void add_host_option(CLI::App& app, std::string& host);
void add_report_options(CLI::App& app, simulator::ReportOptions& report, bool& timing);
/// `--stats` takes its form as the next word, if that is one; CLI11's flags take it after '=' only.
std::vector<std::string> with_joined_forms(std::vector<std::string> arguments);
void add_hazards_option(CLI::App& app, simulator::Hazards& hazards);
/// UserError for options of reports and hazards that can't be given together. Statistics that programs read
/// get standard output for themselves, unless they have a file.
void check_report_options(const CLI::App& app, simulator::ReportOptions& report, bool timing,
                          simulator::Hazards hazards);

// ---- models

/// Options of every command that compiles models which need more parsing.
struct RawOptions {
  std::vector<std::string> dims;
  std::vector<std::string> dump_after;
  std::vector<std::string> pass_options;
  std::vector<std::string> plugins;
};
/// What says which model, and how its layers get kernels and layouts.
void add_model_options(CLI::App& app, compiler::SessionOptions& options, RawOptions& raw);
/// The same, and how the layers become programs.
void add_compile_options(CLI::App& app, compiler::SessionOptions& options, RawOptions& raw);
/// Loads the plugins and parses the rest.
void finish_options(const RawOptions& raw, compiler::SessionOptions& options);

// ---- output

/// --wide and --legend, of commands that print tables.
void add_table_options(CLI::App& app);
/// --brief and --moves, of commands that run models.
void add_run_view_options(CLI::App& app);

/// Tries the files that a command will write, before the work. Returns where everything else that it prints
/// goes: standard error when one of the files is standard output.
std::ostream& report_stream(const std::vector<std::string>& outputs);
/// The same, but nothing with --quiet if there is a file: what is printed is for those who have none.
std::ostream& result_stream(const std::vector<std::string>& outputs);
/// The same as report_stream for all that a session writes.
std::ostream& session_stream(const compiler::SessionOptions& options);
/// The same where what is printed is not all that the command is for: nothing with --quiet.
std::ostream& run_stream(const compiler::SessionOptions& options);

}  // namespace kodama::tools
