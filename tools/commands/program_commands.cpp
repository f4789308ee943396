#include <fmt/format.h>
#include <fmt/ostream.h>
#include <unistd.h>

#include <algorithm>
#include <exception>
#include <iostream>
#include <map>
#include <set>
#include <span>

#include "assembler/assembler.h"
#include "assembler/machine_words.h"
#include "assembler/program_file.h"
#include "compiler/driver/session.h"
#include "compiler/package/compiled_model.h"
#include "compiler/package/package.h"
#include "compiler/report/progress.h"
#include "isa/chip.h"
#include "isa/error.h"
#include "isa/file.h"
#include "isa/hazards.h"
#include "isa/output.h"
#include "isa/verbosity.h"
#include "simulator/debug/debugger.h"
#include "simulator/debug/uninitialized.h"
#include "simulator/machine.h"
#include "simulator/run_report.h"
#include "simulator/thread_pool.h"
#include "tools/command_groups.h"
#include "tools/common_options.h"
#include "tools/options.h"

namespace kodama::tools {
namespace {

/// Of a program that names none.
constexpr const char* kDefaultChip = "mncore2";

// ---- sim

int debug_program(const std::string& file, const std::string& chip_name, simulator::DebuggerOptions options) {
  const isa::Chip chip = isa::find_chip(chip_name);
  const isa::Program program = assembler::read_program(file, chip);
  options.source = isa::read_file(file);
  options.prompt = isatty(STDIN_FILENO) != 0;
  simulator::debug_program(program, chip, options, std::cin, std::cout);
  return compiler::kExitOk;
}

struct SimulateRequest {
  std::string file;
  std::string chip;
  std::string dump_file;
  simulator::MachineOptions machine;
  bool check_uninitialized = false;
  bool timing = true;
  simulator::Hazards hazards = simulator::Hazards::kIgnore;
  simulator::ReportOptions report;
};
std::string summary_of(const simulator::RunStats& stats, bool timing) {
  const isa::CycleCauses& causes = stats.causes;
  return fmt::format("{} steps ({} nop), {} MV transfers{}", stats.steps, stats.nops, stats.mvs,
                     timing ? fmt::format(", {} cycles ({} waiting)", causes.total(),
                                          causes.wait + causes.mv_queue + causes.drain)
                            : "");
}

/// What ran is what the hardware does only where no result is read before it is there.
void hint_at_hazards(const isa::Program& program, const std::string& file, const isa::Chip& chip,
                     const isa::ProgramCounts& counts) {
  constexpr int64_t kMostSteps = 100'000;  // of a program for which nobody would notice the check
  if (isa::verbosity() == isa::Verbosity::kQuiet || counts.steps + counts.mvs > kMostSteps) return;
  const size_t found = isa::find_hazards(program, chip).size();
  if (found == 0) return;
  fmt::print(
      std::cerr,
      "{}: {} hazard{}, which this run ignored; 'kodama check' lists them, --hazards=stale runs as the "
      "hardware\n",
      file, found, found == 1 ? "" : "s");
}

int simulate_program(const SimulateRequest& request) {
  const std::string& file = request.file;
  const std::string& dump_file = request.dump_file;
  if (request.hazards == simulator::Hazards::kStall && request.check_uninitialized)
    throw isa::UserError("--hazards=stall: allowed only without --check-uninitialized");
  if (request.check_uninitialized && request.report.any())
    throw isa::UserError("--check-uninitialized: allowed only without --stats, --trace and --vcd");
  std::vector<std::string> outputs = request.report.files();
  outputs.push_back(dump_file);
  std::ostream& out = report_stream(outputs);
  const isa::Chip chip = isa::find_chip(request.chip);
  const isa::Program program = assembler::read_program(file, chip);
  const isa::ProgramCounts counts = isa::count(program);
  simulator::Machine machine(chip, request.machine);
  simulator::RunOptions options;
  options.timing = request.timing;
  options.hazards = request.hazards;
  simulator::RunReport report(chip, request.report);
  if (request.report.any()) report.attach("", options);
  std::string dump;
  // Beside statistics that have standard output for themselves, it is part of the rest.
  std::ostream& dumped = dump_file.empty() ? out : std::cout;
  options.dump = [&](const std::string& line) {
    if (dump_file.empty() || dump_file == "-") {
      dumped << line << '\n';
    } else {
      dump += line + '\n';
    }
  };
  compiler::ProgressBar bar("running");
  options.progress = [&](int64_t steps) { bar.update(steps, counts.steps, ""); };
  simulator::InitializationTracker tracker(machine);
  if (request.check_uninitialized) {
    options.before_statement = [&](const isa::Statement& statement) {
      tracker.before(statement);
      return true;
    };
  }
  const simulator::RunStats stats = machine.run(program, options);
  bar.finish();
  if (request.hazards == simulator::Hazards::kIgnore) hint_at_hazards(program, file, chip, counts);
  if (!dump_file.empty() && dump_file != "-") isa::write_output(dump_file, dump);
  fmt::print(isa::unless_quiet(std::cerr), "{}\n", summary_of(stats, request.timing));
  report.finish(out);
  const std::vector<std::string> reports = tracker.reports();
  for (const std::string& report : reports) fmt::print(std::cerr, "{}: {}\n", file, report);
  return reports.empty() ? compiler::kExitOk : compiler::kExitOutOfTolerance;
}

/// Several programs, each on a chip of its own.
struct SimulateManyRequest {
  std::vector<std::string> files;
  std::string chip;
  int jobs = 1;
  simulator::MachineOptions machine;
  simulator::RunOptions run;
};

/// What they print comes in the order of the files. Throws the first one's error, when all are done.
int simulate_programs(const SimulateManyRequest& request) {
  const isa::Chip chip = isa::find_chip(request.chip);
  struct Outcome {
    std::string dump, summary;
    std::exception_ptr error;
  };
  std::vector<Outcome> outcomes(request.files.size());
  const auto simulate = [&](const std::string& file, Outcome& outcome) {
    const isa::Program program = assembler::read_program(file, chip);
    simulator::RunOptions options = request.run;
    options.dump = [&](const std::string& line) { outcome.dump += line + '\n'; };
    const simulator::RunStats stats = simulator::Machine(chip, request.machine).run(program, options);
    outcome.summary = fmt::format("{}: {}\n", file, summary_of(stats, options.timing));
  };
  simulator::ThreadPool pool(request.jobs);
  pool.run(static_cast<int>(request.files.size()), [&](int k, int) {
    const auto number = static_cast<size_t>(k);
    try {
      simulate(request.files[number], outcomes[number]);
    } catch (...) {
      outcomes[number].error = std::current_exception();
    }
  });
  for (const Outcome& outcome : outcomes) {
    std::cout << outcome.dump << std::flush;
    fmt::print(isa::unless_quiet(std::cerr), "{}", outcome.summary);
  }
  for (const Outcome& outcome : outcomes) {
    if (outcome.error) std::rethrow_exception(outcome.error);
  }
  return compiler::kExitOk;
}

class SimCommand : public Command {
 public:
  void declare(CLI::App& app) override {
    package_.common.chip.clear();
    debugger_.stop_at_start = false;
    app.add_option("program", programs_,
                   "directory of 'kodama compile', or program.vsm; of these there may be several, each on a "
                   "chip of its own")
        ->required();
    add_thread_count(app, "--jobs", jobs_, "programs at a time", 1);
    app.add_option("--chip", package_.common.chip, "chip; default: the manifest's, mncore2 for a program");
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
    add_input_options(app, package_.common);
    add_report_options(app, package_.common.report, package_.common.timing);
    add_host_option(app, package_.common.host);
    add_hazards_option(app, package_.common.hazards);
    add_plugin_option(app, plugins_);
    add_table_options(app);
    add_run_view_options(app);
    add_test_data_options(app, package_.test_data, package_.tolerance);
  }

  int run(const CLI::App& app) override {
    load_plugins(plugins_);
    compiler::SessionOptions& common = package_.common;
    check_report_options(app, common.report, common.timing, common.hazards);
    if (programs_.size() > 1) return run_programs(app);
    if (is_given(app, "--jobs")) throw isa::UserError("--jobs: no effect on one program");
    package_.directory = programs_.front();
    return compiler::is_package(package_.directory) ? run_package(app) : run_program(app);
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

  int run_package(const CLI::App& app) {
    check_mode(app, "on the directory of a compiled model",
               used({"--input", "--seed", "--output-dir", "--json", "--host", "--wide", "--legend", "--brief",
                     "--test-data", "--tolerance", "--moves"},
                    true));
    for (const char* option : {"--input", "--seed"}) {
      if (!package_.test_data.empty() && is_given(app, option))
        throw isa::UserError(fmt::format("{}: no effect with --test-data, which has the inputs", option));
    }
    if (package_.test_data.empty() && is_given(app, "--tolerance"))
      throw isa::UserError("--tolerance: no effect without --test-data");
    return compiler::simulate_package_command(package_, run_stream(package_.common));
  }

  simulator::MachineOptions machine_options(const CLI::App& app) const {
    simulator::MachineOptions options;
    options.threads = package_.common.threads;
    options.memory = memory_ == "dirty" ? simulator::MachineOptions::Memory::kDirty
                                        : simulator::MachineOptions::Memory::kZero;
    options.seed = package_.common.seed;
    if (memory_ != "dirty" && is_given(app, "--seed"))
      throw isa::UserError("--seed: no effect on a program without --memory dirty");
    return options;
  }
  std::string chip_of_programs() const {
    return package_.common.chip.empty() ? kDefaultChip : package_.common.chip;
  }

  int run_programs(const CLI::App& app) {
    for (const std::string& program : programs_) {
      if (compiler::is_package(program))
        throw isa::UserError(fmt::format("{}: a compiled model; together run programs alone", program));
    }
    check_mode(app, "on several programs",
               {"program", "--jobs", "--chip", "--plugin", "--threads", "--memory", "--seed", "--no-timing",
                "--hazards"});
    SimulateManyRequest request{.files = programs_,
                                .chip = chip_of_programs(),
                                .jobs = jobs_,
                                .machine = machine_options(app),
                                .run = {}};
    request.run.timing = package_.common.timing;
    request.run.hazards = package_.common.hazards;
    return simulate_programs(request);
  }

  int run_program(const CLI::App& app) {
    const simulator::MachineOptions options = machine_options(app);
    const std::string chip = chip_of_programs();
    const bool is_debugged =
        debugger_.stop_at_start || !debugger_.breakpoints.empty() || !debugger_.watches.empty();
    if (is_debugged) {
      check_mode(app, "in the debugger of a program",
                 used({"--memory", "--seed", "--step", "--break", "--watch"}, false));
      debugger_.machine = options;
      return debug_program(package_.directory, chip, debugger_);
    }
    check_mode(app, "on a program", used({"--memory", "--seed", "--dump", "--check-uninitialized"}, true));
    return simulate_program({.file = package_.directory,
                             .chip = chip,
                             .dump_file = dump_file_,
                             .machine = options,
                             .check_uninitialized = check_uninitialized_,
                             .timing = package_.common.timing,
                             .hazards = package_.common.hazards,
                             .report = package_.common.report});
  }

  std::vector<std::string> programs_;
  std::vector<std::string> plugins_;
  int jobs_ = 1;
  compiler::SimulateRequest package_;  ///< its common options are those of programs, too
  std::string dump_file_;
  std::string memory_ = "zero";
  bool check_uninitialized_ = false;
  simulator::DebuggerOptions debugger_;
};

// ---- check

/// Prints the hazards of one program; whether there are any.
bool print_hazards(const isa::Program& program, const std::string& name, const isa::Chip& chip) {
  constexpr size_t kMostPrinted = 100;
  const std::vector<isa::HazardViolation> found = isa::find_hazards(program, chip);
  for (const isa::HazardViolation& each : std::span(found).first(std::min(found.size(), kMostPrinted))) {
    fmt::print(std::cout, "{}: {}{}\n", isa::SourceLocation{name, each.second_line, 0}.to_string(), each.text,
               each.count > 1 ? fmt::format(" ({} times)", each.count) : "");
  }
  if (found.size() > kMostPrinted)
    fmt::print(std::cout, "{}: ... and {} more\n", name, found.size() - kMostPrinted);
  return !found.empty();
}
int check_program(const std::string& path, const std::string& chip_name) {
  size_t programs = 1;
  size_t bad = 0;
  if (compiler::is_package(path)) {
    const compiler::CompiledModel model = compiler::load_package(path, chip_name);
    programs = 0;
    if (!model.preparation.statements.empty()) {
      ++programs;
      bad += print_hazards(model.preparation, path + "/preparation", model.chip) ? 1 : 0;
    }
    for (const compiler::Segment& segment : model.segments) {
      ++programs;
      const std::string& first = model.stages[static_cast<size_t>(segment.first_stage)].name;
      bad += print_hazards(segment.parts.program, path + "/" + first, model.chip) ? 1 : 0;
    }
  } else {
    const isa::Chip chip = isa::find_chip(chip_name.empty() ? kDefaultChip : chip_name);
    bad = print_hazards(assembler::read_program(path, chip), path, chip) ? 1 : 0;
  }
  if (programs > 1) fmt::print(std::cout, "{} of {} programs have hazards\n", bad, programs);
  if (bad == 0) fmt::print(std::cout, "{}: no hazards\n", path);
  return bad == 0 ? compiler::kExitOk : compiler::kExitOutOfTolerance;
}

class CheckCommand : public Command {
 public:
  void declare(CLI::App& app) override {
    app.add_option("program", path_, "program.vsm, or directory of 'kodama compile'")->required();
    app.add_option("--chip", chip_, "chip; default: the manifest's, mncore2 for a program");
    add_plugin_option(app, plugins_);
  }
  int run(const CLI::App& /*app*/) override {
    load_plugins(plugins_);
    return check_program(path_, chip_);
  }

 private:
  std::string path_;
  std::vector<std::string> plugins_;
  std::string chip_;
};

// ---- asm and dis

/// What both have.
class RewriteCommand : public Command {
 public:
  void declare(CLI::App& app) override {
    app.add_option("-o,--output", output_, "file to write (default: standard output)");
    add_chip(app, chip_);
  }

 protected:
  /// Writes the program that `read` (assembler::read_program, or of the same form) makes of the file.
  template <typename Read>
  int rewrite(const Read& read) const {
    report_stream({output_});
    const isa::Chip chip = isa::find_chip(chip_);
    const isa::Program program = read(file_, chip);
    isa::write_output(output_, [&](const isa::Output& output) {
      assembler::write_program(program, form_, chip, words_, output);
    });
    return compiler::kExitOk;
  }

  std::string file_;
  std::string output_ = "-";
  std::string chip_ = kDefaultChip;
  assembler::ProgramForm form_ = assembler::ProgramForm::kText;
  assembler::WordOptions words_;
};

class AsmCommand : public RewriteCommand {
 public:
  void declare(CLI::App& app) override {
    static const std::map<std::string, assembler::ProgramForm> kForms{
        {"text", assembler::ProgramForm::kText},
        {"words", assembler::ProgramForm::kWords},
        {"binary", assembler::ProgramForm::kBinary}};
    app.add_option("program", file_, "program.vsm")->required();
    RewriteCommand::declare(app);
    app.add_option_function<std::string>(
           "--format", [this](const std::string& form) { form_ = kForms.at(form); },
           "text (normal form), words (the vendor's 'i' lines) or binary (a complete program file)")
        ->check(one_of({"text", "words", "binary"}))
        ->default_str("text");
    app.add_flag("--allow-inferred", words_.allow_inferred,
                 "words: also fields whose meaning is inferred, not seen");
  }
  int run(const CLI::App& /*app*/) override {
    if (form_ == assembler::ProgramForm::kText && words_.allow_inferred)
      throw isa::UserError("--allow-inferred: no effect with --format text");
    return rewrite([](const auto& file, const auto& chip) { return assembler::read_program(file, chip); });
  }
};

class DisCommand : public RewriteCommand {
 public:
  void declare(CLI::App& app) override {
    app.add_option("program", file_, "program file")->required();
    RewriteCommand::declare(app);
  }
  int run(const CLI::App& /*app*/) override {
    return rewrite([](const auto& file, const auto& chip) { return assembler::read_assembled(file, chip); });
  }
};

}  // namespace

void add_program_commands(CommandLine& line) {
  line.add<SimCommand>("sim", "run a compiled model's directory, or one VSM program");
  line.add<CheckCommand>(
      "check", "find hazards: reads too soon after a write, transfers that nobody waits for, wrong tags");
  line.add<AsmCommand>("asm", "check a VSM program and write it in another form");
  line.add<DisCommand>("dis", "print a program of machine words or a binary program file as VSM");
}

}  // namespace kodama::tools
