#include <fmt/format.h>
#include <fmt/ostream.h>
#include <kodama/simulate.h>
#include <unistd.h>

#include <algorithm>
#include <exception>
#include <iostream>
#include <set>

#include "isa/error.h"
#include "isa/output.h"
#include "isa/progress.h"
#include "isa/verbosity.h"
#include "tools/command_groups.h"
#include "tools/commands/result_text.h"
#include "tools/common_options.h"
#include "tools/options.h"

/// `kodama sim`: packages and VSM programs.
namespace kodama::tools {
namespace {

/// What ran is what the hardware does only where no result is read before it is there.
void hint_at_hazards(const VsmProgram& program) {
  constexpr int64_t kMostSteps = 100'000;  // of a program for which nobody would notice the check
  if (isa::verbosity() == isa::Verbosity::kQuiet || program.steps() + program.transfers() > kMostSteps)
    return;
  const size_t found = program.hazards().size();
  if (found == 0) return;
  fmt::print(
      std::cerr,
      "{}: {} hazard{}, which this run ignored; 'kodama check' lists them, --hazards=stale runs as the "
      "hardware\n",
      program.name(), found, found == 1 ? "" : "s");
}

class SimCommand : public Command {
 public:
  void declare(CLI::App& app) override {
    debugger_.stop_at_start = false;
    app.add_option("program", programs_,
                   "directory of 'kodama compile', or program.vsm; of these there may be several, each on a "
                   "chip of its own")
        ->required();
    add_thread_count(app, "--jobs", jobs_, "programs at a time", 1);
    app.add_option("--chip", chip_, "chip; default: the manifest's, mncore2 for a program");
    app.add_option("-d,--dump", dump_file_,
                   "file for the output of d get statements (default: standard output)");
    app.add_option("--memory", memory_, "initial contents for a program: zero or dirty")
        ->check(one_of({"zero", "dirty"}))
        ->capture_default_str();
    app.add_flag("--step", debugger_.stop_at_start, "debug a program: stop before its first statement");
    add_number(app, "--break", debugger_.breakpoints, "debug a program: stop before a line", 1);
    app.add_option("--watch", debugger_.watches,
                   "debug a program: stop when a long word changes, '$lm0n0c0b0m0p0'");
    app.add_flag("--check-uninitialized", check_uninitialized_,
                 "report reads of memory that a program has not written (slow)");
    add_input_options(app, inputs_, threads_, report_.files);
    add_report_options(app, report_);
    add_host_option(app, host_);
    add_hazards_option(app, hazards_);
    add_plugin_option(app, plugins_);
    add_table_options(app);
    add_run_view_options(app);
    add_test_data_options(app, inputs_, tolerance_);
  }

  int run(const CLI::App& app) override {
    load_plugins(plugins_);
    finish_report_options(app, report_, hazards_);
    if (programs_.size() > 1) return run_programs(app);
    if (is_given(app, "--jobs")) throw isa::UserError("--jobs: no effect on one program");
    return is_package(programs_.front()) ? run_package(app, programs_.front())
                                         : run_program(app, programs_.front());
  }

 private:
  /// The options that have an effect in any mode, and `more`.
  static std::set<std::string> used(std::initializer_list<const char*> more, bool reports) {
    std::set<std::string> all = {"program", "--chip", "--threads", "--plugin"};
    all.insert(more.begin(), more.end());
    if (reports) {
      all.insert({"--stats", "--stats-file", "--trace", "--vcd", "--trace-from", "--trace-to",
                  "--trace-limit", "--no-timing", "--hazards"});
    }
    return all;
  }

  int run_package(const CLI::App& app, const std::string& directory) {
    check_mode(app, "on the directory of a compiled model",
               used({"--input", "--seed", "--output-dir", "--json", "--host", "--wide", "--legend", "--brief",
                     "--test-data", "--tolerance", "--moves"},
                    true));
    check_input_options(app, inputs_);
    if (inputs_.test_data.empty() && is_given(app, "--tolerance"))
      throw isa::UserError("--tolerance: no effect without --test-data");
    const RunFiles& files = report_.files;
    std::ostream& out = run_stream({files.outputs}, {files.statistics, files.trace, files.vcd, files.json});
    isa::ProgressBar bar("loading");
    const Program program = Program::load(directory, chip_, to_bar(bar));
    const std::vector<DataSet> sets = read_inputs(inputs_, program);
    Session session(program, {.threads = threads_,
                              .timing = report_.timing,
                              .hazards = hazards_,
                              .host_overlaps = host_ == "overlap",
                              .progress = to_bar(bar)});
    const auto ready = [&](const Result& result) {
      bar.finish();
      print_result(result, program, {}, 1, {}, out);
    };
    const std::vector<Result> results =
        session.run_all(sets,
                        {.files = files,
                         .statistics = report_.prints_statistics(),
                         .tolerance = tolerance_,
                         .phase = [&](const std::string& what) { bar.phase(what); }},
                        ready);
    if (!results.empty()) out << results.back().statistics;
    return std::ranges::all_of(results, &Result::ok) ? isa::kExitOk : isa::kExitOutOfTolerance;
  }

  SimulationSettings simulation_settings(const CLI::App& app) const {
    if (memory_ != "dirty" && is_given(app, "--seed"))
      throw isa::UserError("--seed: no effect on a program without --memory dirty");
    return {.threads = threads_,
            .memory = memory_,
            .seed = inputs_.seed,
            .timing = report_.timing,
            .hazards = hazards_};
  }
  std::string chip_of_programs() const { return chip_.empty() ? kDefaultChip : chip_; }

  /// What they print comes in the order of the files. Throws the first one's error, when all are done.
  int run_programs(const CLI::App& app) {
    for (const std::string& program : programs_) {
      if (is_package(program))
        throw isa::UserError(fmt::format("{}: a compiled model; together run programs alone", program));
    }
    check_mode(app, "on several programs",
               {"program", "--jobs", "--chip", "--plugin", "--threads", "--memory", "--seed", "--no-timing",
                "--hazards"});
    const SimulationSettings settings = simulation_settings(app);
    const auto all = simulate_many(programs_, chip_of_programs(), jobs_, settings);
    for (const SimulationOfMany& each : all) {
      for (const std::string& line : each.simulation.dump) std::cout << line << '\n';
      std::cout << std::flush;
      if (!each.error)
        fmt::print(isa::unless_quiet(std::cerr), "{}: {}\n", each.file, each.simulation.summary());
    }
    for (const SimulationOfMany& each : all) {
      if (each.error) std::rethrow_exception(each.error);
    }
    return isa::kExitOk;
  }

  int run_program(const CLI::App& app, const std::string& file) {
    SimulationSettings settings = simulation_settings(app);
    const bool is_debugged =
        debugger_.stop_at_start || !debugger_.breakpoints.empty() || !debugger_.watches.empty();
    if (is_debugged) {
      check_mode(app, "in the debugger of a program",
                 used({"--memory", "--seed", "--step", "--break", "--watch"}, false));
      debugger_.prompt = isatty(STDIN_FILENO) != 0;
      debugger_.threads = settings.threads;
      debugger_.memory = settings.memory;
      debugger_.seed = settings.seed;
      debug(VsmProgram::read(file, chip_of_programs()), std::cin, std::cout, debugger_);
      return isa::kExitOk;
    }
    check_mode(app, "on a program", used({"--memory", "--seed", "--dump", "--check-uninitialized"}, true));
    settings.check_uninitialized = check_uninitialized_;
    settings.files = report_.files;
    settings.statistics = report_.prints_statistics();
    const RunFiles& files = report_.files;
    std::ostream& out = report_stream({files.statistics, files.trace, files.vcd, dump_file_});
    return simulate_program(VsmProgram::read(file, chip_of_programs()), std::move(settings), out);
  }

  int simulate_program(const VsmProgram& program, SimulationSettings settings, std::ostream& out) const {
    const bool is_dumped_to_file = !dump_file_.empty() && dump_file_ != "-";
    std::string dump;
    // Beside statistics that have standard output for themselves, it is part of the rest.
    std::ostream& dumped = dump_file_.empty() ? out : std::cout;
    settings.dump = [&](const std::string& line) {
      if (is_dumped_to_file) {
        dump += line + '\n';
      } else {
        dumped << line << '\n';
      }
    };
    isa::ProgressBar bar("running");
    settings.progress = to_bar(bar);
    const Simulation result = simulate(program, settings, [&](const Simulation& done) {
      bar.finish();
      if (hazards_ == "ignore") hint_at_hazards(program);
      if (is_dumped_to_file) isa::write_output(dump_file_, dump);
      fmt::print(isa::unless_quiet(std::cerr), "{}\n", done.summary());
    });
    out << result.statistics;
    for (const std::string& report : result.uninitialized)
      fmt::print(std::cerr, "{}: {}\n", program.name(), report);
    return result.uninitialized.empty() ? isa::kExitOk : isa::kExitOutOfTolerance;
  }

  std::vector<std::string> programs_;
  std::vector<std::string> plugins_;
  int jobs_ = 1;
  int threads_ = 0;
  std::string chip_;
  InputOptions inputs_;
  ReportOptions report_;
  std::string host_ = "overlap";
  std::string hazards_ = "ignore";
  std::optional<double> tolerance_;
  std::string dump_file_;
  std::string memory_ = "zero";
  bool check_uninitialized_ = false;
  DebugSettings debugger_;
};

}  // namespace

void add_sim_command(CommandLine& line) {
  line.add<SimCommand>("sim", "run a compiled model's directory, or one VSM program");
}

}  // namespace kodama::tools
