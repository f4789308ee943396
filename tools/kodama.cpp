/// The `kodama` command: one thin function per subcommand.
#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ostream.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <new>
#include <nlohmann/json.hpp>

#include "assembler/assembler.h"
#include "assembler/machine_words.h"
#include "assembler/program_file.h"
#include "compiler/driver/compiled_model.h"
#include "compiler/driver/layout_check.h"
#include "compiler/driver/layout_suite.h"
#include "compiler/driver/node_tests.h"
#include "compiler/driver/optimizer_suite.h"
#include "compiler/driver/package.h"
#include "compiler/driver/progress.h"
#include "compiler/driver/session.h"
#include "compiler/graph/passes.h"
#include "isa/chip.h"
#include "isa/file.h"
#include "isa/hazards.h"
#include "isa/output.h"
#include "isa/reference.h"
#include "isa/temporary.h"
#include "isa/terminal.h"
#include "isa/user_errors.h"
#include "layout/bound.h"
#include "layout/conversion.h"
#include "layout/drawing.h"
#include "layout/move_primitives.h"
#include "layout/random_problem.h"
#include "scheduler/packing_suite.h"
#include "scheduler/passes.h"
#include "scheduler/plugin_loading.h"
#include "scheduler/schedule_suite.h"
#include "simulator/bandwidth.h"
#include "simulator/debugger.h"
#include "simulator/golden/differential.h"
#include "simulator/judge.h"
#include "simulator/machine.h"
#include "simulator/run_report.h"
#include "simulator/uninitialized.h"
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

/// Options of every command that compiles or runs models. Strings that need more parsing are in `raw`.
struct RawOptions {
  std::vector<std::string> dims;
  std::vector<std::string> dump_after;
  std::vector<std::string> pass_options;
  std::vector<std::string> plugins;
};
void add_pass_options(CLI::App& app, std::vector<std::string>& raw) {
  app.add_option("--pass-option", raw, "NAME=VALUE: option of a chosen pass; 'kodama passes' lists them");
}
scheduler::PassOptions parse_pass_options(const std::vector<std::string>& raw) {
  scheduler::PassOptions options;
  for (const std::string& each : raw) {
    const Assignment option =
        parse_assignment("--pass-option", each, "NAME=VALUE, for example --pass-option list-tries=4");
    if (!options.emplace(option.name, option.value).second)
      throw isa::UserError(fmt::format("--pass-option {}: '{}' is given twice", each, option.name));
  }
  return options;
}
void add_plugin_option(CLI::App& app, std::vector<std::string>& plugins) {
  app.add_option("--plugin", plugins, "shared library with passes (docs/write-a-pass.md); may be repeated")
      ->allow_extra_args(false);
}
/// More threads than this are a mistake.
constexpr int kMostThreads = 1024;
void add_seed(CLI::App& app, uint64_t& seed, const std::string& description) {
  add_number(app, "--seed", seed, description, 0)->capture_default_str();
}
void add_threads(CLI::App& app, int& threads) {
  add_number(app, "--threads", threads, "threads of the simulator; 0 = all cores", 0, kMostThreads)
      ->capture_default_str();
}
void add_input_options(CLI::App& app, SessionOptions& options) {
  app.add_option("--input", options.inputs,
                 "NAME=FILE: .pb (TensorProto), .npy, or .npz[:MEMBER]; inputs not given are random");
  add_seed(app, options.seed, "seed of random inputs");
  add_threads(app, options.threads);
  app.add_option("--output-dir", options.output_directory, "write every output as DIR/NAME.pb");
  app.add_option("--json", options.json_file, "write the layer table and totals as JSON");
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
  add_number(app, "--trace-limit", report.timeline.limit, "largest number of spans in trace and VCD", 1,
             int64_t{1} << 40)
      ->capture_default_str();
  app.add_flag("!--no-timing", timing, "don't count cycles");
}
void add_hazards_option(CLI::App& app, simulator::Hazards& hazards) {
  static const std::map<std::string, simulator::Hazards> kModes{{"ignore", simulator::Hazards::kIgnore},
                                                                {"error", simulator::Hazards::kError},
                                                                {"stale", simulator::Hazards::kStale},
                                                                {"stall", simulator::Hazards::kStall}};
  app.add_option_function<std::string>(
         "--hazards", [&hazards](const std::string& mode) { hazards = kModes.at(mode); },
         "reads too soon after a write: ignore (as the vendor's emulator, written at once), error (refuse "
         "the program), stale (as the hardware: the old value), or stall (as a chip that waits: the cycles)")
      ->check(one_of({"ignore", "error", "stale", "stall"}))
      ->default_str("ignore");
}
/// What can't be given together.
void check_report_options(const CLI::App& app, const simulator::ReportOptions& report, bool timing,
                          simulator::Hazards hazards) {
  if (!timing && hazards == simulator::Hazards::kStall)
    throw isa::UserError("--no-timing: allowed only without --hazards=stall, which shows in the time");
  if (!timing && report.any())
    throw isa::UserError("--no-timing: allowed only without --stats, --trace and --vcd, which show time");
  if (report.statistics.empty() && !report.statistics_file.empty())
    throw isa::UserError("--stats-file: allowed only with --stats");
  if (report.trace_file.empty() && report.vcd_file.empty()) {
    for (const char* option : {"--trace-from", "--trace-to", "--trace-limit"}) {
      if (is_given(app, option))
        throw isa::UserError(fmt::format("{}: no effect without --trace or --vcd", option));
    }
  }
  if (report.timeline.to <= report.timeline.from) {
    throw isa::UserError(fmt::format(
        "--trace-from {} --trace-to {}: allowed are cycles from 0 on, the first before the second",
        report.timeline.from, report.timeline.to));
  }
}
/// What says which model, and how its layers get kernels and layouts.
void add_model_options(CLI::App& app, SessionOptions& options, RawOptions& raw) {
  app.add_option("--chip", options.chip, "name of a chip, or a chip file")->capture_default_str();
  app.add_option("--precision", options.precision, "of matrix products: gfloat, float or half")
      ->capture_default_str();
  app.add_option("--dim", raw.dims, "NAME=N: extent of a symbolic dimension; INPUT:AXIS=N by position");
  app.add_option("--bind", options.bind, "NAME=FILE: fix an input (axes, pads, shapes) before compilation");
  CLI::Option* dump_after =
      app.add_option("--dump-after", raw.dump_after,
                     "write the result of a pass (or all) to the dump directory; 'kodama passes' lists them");
  app.add_option("--dump-dir", options.dump_directory, "directory of dumps")
      ->capture_default_str()
      ->needs(dump_after);
  app.add_option(
         "--planner", options.planner,
         "chooses kernels and layouts: pbqp (least in all), greedy, first; host: all Moves by the host")
      ->capture_default_str();
  CLI::Option* cache = app.add_option(
      "--cache", options.cache,
      "directory that keeps what conversions cost; default KODAMA_CACHE, or kodama in ~/.cache");
  app.add_flag_callback(
         "--no-cache", [&options] { options.cache.clear(); }, "keep nothing between runs")
      ->excludes(cache);
  app.add_flag("!--no-fuse", options.fuse, "keep every operator a layer of its own");
  add_plugin_option(app, raw.plugins);
}
/// The same, and how the layers become programs.
void add_compile_options(CLI::App& app, SessionOptions& options, RawOptions& raw) {
  add_model_options(app, options, raw);
  app.add_option("--scheduler", options.passes.scheduler, "instruction scheduler of blocks");
  app.add_option("--loop-scheduler", options.passes.loop_scheduler, "instruction scheduler of loops");
  app.add_option("--coalescer", options.passes.coalescer, "pass that makes one value of two");
  app.add_option("--spiller", options.passes.spiller, "pass that makes room where memories overflow");
  app.add_option("--allocator", options.passes.allocator, "address allocator");
  app.add_option("--transfers", options.passes.transfers,
                 "transfer scheduler: when data is fetched, and what stays on chip");
  app.add_option("--home-assigner", options.passes.home_assigner, "pass that chooses memories for values");
  add_pass_options(app, raw.pass_options);
}
void finish_options(const RawOptions& raw, SessionOptions& options) {
  for (const std::string& plugin : raw.plugins) scheduler::load_plugin(plugin);
  parse_dims(raw.dims, options);
  options.dump_after.insert(raw.dump_after.begin(), raw.dump_after.end());
  options.passes.options = parse_pass_options(raw.pass_options);
}

/// Tries the files that a command will write, before the work. Returns where everything else that it prints
/// goes: standard error when one of the files is standard output.
std::ostream& report_stream(const std::vector<std::string>& outputs) {
  return isa::check_outputs(outputs) ? std::cerr : std::cout;
}
std::ostream& session_stream(const SessionOptions& options) {
  isa::check_output_directory(options.output_directory);
  if (!options.dump_after.empty()) isa::check_output_directory(options.dump_directory);
  std::vector<std::string> outputs = options.report.files();
  outputs.push_back(options.json_file);
  return report_stream(outputs);
}

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
  options.dump = [&](const std::string& line) {
    if (dump_file.empty() || dump_file == "-") {
      std::cout << line << '\n';
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
  if (!dump_file.empty() && dump_file != "-") isa::write_output(dump_file, dump);
  const isa::CycleCauses& causes = stats.causes;
  fmt::print(std::cerr, "{} steps ({} nop), {} MV transfers{}\n", stats.steps, stats.nops, stats.mvs,
             request.timing ? fmt::format(", {} cycles ({} waiting)", causes.total(),
                                          causes.wait + causes.mv_queue + causes.drain)
                            : "");
  report.finish(out);
  const std::vector<std::string> reports = tracker.reports();
  for (const std::string& report : reports) fmt::print(std::cerr, "{}: {}\n", file, report);
  return reports.empty() ? compiler::kExitOk : compiler::kExitOutOfTolerance;
}

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
    for (const compiler::Segment& segment : model.segments) {
      ++programs;
      const std::string& first = model.stages[static_cast<size_t>(segment.first_stage)].name;
      bad += print_hazards(segment.parts.program, path + "/" + first, model.chip) ? 1 : 0;
    }
  } else {
    const isa::Chip chip = isa::find_chip(chip_name.empty() ? "mncore2" : chip_name);
    bad = print_hazards(assembler::read_program(path, chip), path, chip) ? 1 : 0;
  }
  if (programs > 1) fmt::print(std::cout, "{} of {} programs have hazards\n", bad, programs);
  if (bad == 0) fmt::print(std::cout, "{}: no hazards\n", path);
  return bad == 0 ? compiler::kExitOk : compiler::kExitOutOfTolerance;
}

int fuzz_simulator(const std::string& chip, simulator::golden::FuzzOptions options) {
  options.chip = simulator::golden::small_memories(isa::find_chip(chip));
  compiler::ProgressBar bar("fuzzing");
  options.progress = [&](int64_t steps) { bar.update(steps, options.steps, ""); };
  const simulator::golden::FuzzResult result = simulator::golden::fuzz(options);
  bar.finish();
  for (const auto& failure : result.failures) {
    fmt::print(std::cout, "{}reproduced by: kodama fuzz --chip {} --seed {} --steps 1\n\n", failure.text,
               chip, failure.seed);
  }
  fmt::print(std::cout, "{} steps on {} from seed {}: {} differences\n", result.steps, chip, options.seed,
             result.failures.size());
  return result.failures.empty() ? compiler::kExitOk : compiler::kExitInternalError;
}

struct AssembleRequest {
  std::string file;
  std::string output = "-";
  std::string chip = "mncore2";
  assembler::ProgramForm form = assembler::ProgramForm::kText;
  assembler::WordOptions words;
};
void write_program(const AssembleRequest& request, const isa::Program& program, const isa::Chip& chip) {
  isa::write_output(request.output, [&](const isa::Output& output) {
    assembler::write_program(program, request.form, chip, request.words, output);
  });
}
void assemble_program(const AssembleRequest& request) {
  report_stream({request.output});
  const isa::Chip chip = isa::find_chip(request.chip);
  write_program(request, assembler::read_program(request.file, chip), chip);
}
void disassemble_program(const AssembleRequest& request) {
  report_stream({request.output});
  const isa::Chip chip = isa::find_chip(request.chip);
  write_program(request, assembler::read_assembled(request.file, chip), chip);
}

struct OptimizeRequest {
  std::string objective = "cycles";
  std::string file;
  std::string output;
  std::string chip;
  std::string live_outs;
  bool has_live_outs = false;
  bool plain = false;
  std::string problems;
  std::string judge_directory;
  int64_t fuzz = 0;
  uint64_t seed = 1;
  scheduler::OptimizeOptions options;
};
int fuzz_optimizer(const OptimizeRequest& request) {
  compiler::OptimizerFuzzOptions options;
  const std::string chip = request.chip.empty() ? "tiny" : request.chip;
  options.chip = simulator::golden::small_memories(isa::find_chip(chip));
  options.seed = request.seed;
  options.programs = request.fuzz;
  compiler::ProgressBar bar("optimizing");
  options.progress = [&](int64_t done) { bar.update(done, request.fuzz, ""); };
  const auto result = compiler::fuzz_optimizer(options);
  bar.finish();
  fmt::print(
      std::cout,
      "{} programs from seed {} on {}: {} steps, optimized {}; {} reads forwarded, {} operations removed, "
      "{} values renamed; {} programs refused at run time\n",
      result.programs, request.seed, chip, result.steps_before, result.steps_after, result.forwarded,
      result.removed, result.renamed, result.refused);
  if (result.failure.empty()) return compiler::kExitOk;
  fmt::print(std::cout, "{}\nreproduced by: kodama opt --fuzz 1 --seed {} --chip {}\n", result.failure,
             result.failed_seed, chip);
  return compiler::kExitInternalError;
}
int optimize_program(OptimizeRequest request) {
  if (request.fuzz > 0) return fuzz_optimizer(request);
  const std::string chip_name = request.chip.empty() ? "mncore2" : request.chip;
  if (request.has_live_outs) request.options.live_outs = scheduler::parse_live_outs(request.live_outs);
  if (request.objective != "cycles" && request.objective != "steps")
    throw isa::UserError(fmt::format("--objective: found '{}', allowed: cycles, steps", request.objective));
  request.options.objective =
      request.objective == "cycles" ? scheduler::Objective::kCycles : scheduler::Objective::kSteps;
  if (!request.judge_directory.empty()) {
    const auto result = compiler::optimize_judge_tree(request.judge_directory, chip_name, request.options);
    std::cout << result.table;
    return result.failures == 0 ? compiler::kExitOk : compiler::kExitOutOfTolerance;
  }
  if (request.file.empty() || request.output.empty() == request.problems.empty()) {
    throw isa::UserError(
        "opt: allowed are FILE -o OUTPUT, FILE --problems DIR, --judge-dir DIR, or --fuzz N");
  }
  std::ostream& out = report_stream({request.output});
  isa::check_output_directory(request.problems);
  const isa::Chip chip = isa::find_chip(chip_name);
  const isa::Program program = assembler::read_program(request.file, chip);
  if (!request.problems.empty()) {
    fmt::print(std::cout, "{}",
               compiler::write_plain_problems(program, request.file, request.problems, chip));
    return compiler::kExitOk;
  }
  isa::Program result;
  if (request.plain) {
    result = compiler::plain_checked(program, chip, "kodama opt --plain " + request.file);
    fmt::print(out, "{} steps before, {} in the plain form\n", isa::count(program).steps,
               isa::count(result).steps);
  } else {
    auto optimized = compiler::optimize_checked(program, chip, request.options, "kodama opt " + request.file);
    fmt::print(out, "{}", compiler::optimizer_report(optimized));
    result = std::move(optimized.program);
  }
  isa::write_output(request.output, [&](const isa::Output& output) {
    assembler::print(result, [&](std::string_view piece) { output(piece); });
  });
  return compiler::kExitOk;
}

struct JudgeRequest {
  std::string test_case;
  std::string answer;
  std::string directory;
  simulator::JudgeOptions options;
};
int judge_answers(const JudgeRequest& request) {
  if (request.directory.empty()) {
    if (request.answer.empty()) throw isa::UserError("judge: allowed are TESTCASE ANSWER, or --dir DIR");
    const auto verdict = simulator::judge_files(request.test_case, request.answer, request.options);
    std::cout << simulator::verdict_text(verdict);
    return verdict.accepted ? compiler::kExitOk : compiler::kExitOutOfTolerance;
  }
  const auto results = simulator::judge_tree(request.directory, request.options);
  std::cout << simulator::judge_table(results);
  const bool passed = std::ranges::all_of(
      results, [](const auto& result) { return !result.error && result.passed == result.tests; });
  return passed ? compiler::kExitOk : compiler::kExitOutOfTolerance;
}

struct LayoutRequest {
  std::string layout;
  std::string to;
  std::string shape;
  std::string type = "float";
  std::string chip = "mncore2";
  layout::DrawingLimits limits;
  bool json = false;
  std::string emit;
  bool run = true;
  uint64_t seed = 1;
};
/// "4,6" or "4x6".
layout::Lengths parse_shape(const std::string& text) {
  layout::Lengths lengths;
  std::string number;
  for (const char c : text + ",") {
    if (c != ',' && c != 'x') {
      number += c;
      continue;
    }
    const auto length = parse_number<int64_t>(number, 1, std::numeric_limits<int64_t>::max());
    if (!length) {
      throw isa::UserError(
          fmt::format("--shape {}: found '{}', allowed: positive lengths, as 4,6", text, number));
    }
    lengths.push_back(*length);
    number.clear();
  }
  return lengths;
}
int bits_of(const LayoutRequest& request) {
  if (request.type == "half" || request.type == "short") return 16;
  return request.type == "double" || request.type == "long" ? 64 : 32;
}
void show_layout(const LayoutRequest& request) {
  const layout::Layout layout = layout::Layout::parse(request.layout);
  const int bits = bits_of(request);
  layout.validate(isa::find_chip(request.chip), bits);
  layout::Lengths lengths;
  if (request.shape.empty()) {
    for (size_t axis = 0; axis < layout.axes().size(); ++axis) lengths.push_back(layout.extent(axis));
  } else {
    lengths = parse_shape(request.shape);
  }
  if (request.json) {
    std::cout << layout::places_json(layout, lengths, bits).dump(1) << '\n';
  } else {
    std::cout << layout::draw(layout, lengths, bits, request.limits);
  }
}

void print_bound(const layout::ConversionBound& bound, std::ostream& out) {
  for (const layout::LevelBound& level : bound.levels) {
    const std::string traffic = level.bytes == 0
                                    ? ""
                                    : fmt::format("{:.0f} B at {:6.1f} B/cycle, {:3.0f} on the way",
                                                  level.bytes, level.bytes_per_cycle, level.way);
    fmt::print(out, "{:<20}{:>48} {:>10.1f} cycles{}\n", level.name, traffic, level.cycles(),
               level.name == bound.name() ? "  <- the bound" : "");
  }
  if (bound.levels.empty()) fmt::print(out, "nothing has to move\n");
}
void print_conversion_bound(const LayoutRequest& request) {
  print_bound(
      layout::conversion_bound(layout::Layout::parse(request.layout), layout::Layout::parse(request.to),
                               parse_shape(request.shape), bits_of(request), isa::find_chip(request.chip)),
      std::cout);
}

int convert_layout(const LayoutRequest& request) {
  std::ostream& out = report_stream({request.emit});
  const isa::Chip chip = isa::find_chip(request.chip);
  const layout::ConversionProblem problem{layout::Layout::parse(request.layout),
                                          layout::Layout::parse(request.to), parse_shape(request.shape),
                                          bits_of(request)};
  const std::optional<std::string> directory = layout::SolutionCache::default_directory();
  layout::SolutionCache cache(directory.value_or(""));
  const layout::Conversion conversion = layout::convert(problem, chip, directory ? &cache : nullptr);
  fmt::print(
      out, "{}\n",
      conversion.path.empty() ? "nothing to do" : fmt::format("path: {}", fmt::join(conversion.path, ", ")));
  if (!conversion.why_by_elements.empty())
    fmt::print(out, "element by element: {}\n", conversion.why_by_elements);
  fmt::print(out, "{} steps, {} cycles\n", conversion.steps, conversion.cycles);
  print_bound(conversion.bound, out);
  if (conversion.bound.cycles() > 0) {
    fmt::print(out, "{:.2f} times the bound\n",
               static_cast<double>(conversion.cycles) / conversion.bound.cycles());
  }
  if (conversion.states > 0) {
    fmt::print(out, "search: {} states, {}\n", conversion.states,
               conversion.proven ? "no sequence of primitives is cheaper" : "not all that could be cheaper");
  }
  for (const layout::ScratchRange& range : conversion.scratch) {
    fmt::print(out, "scratch: {} long words {} to {}\n", layout::memory_name(range.memory), range.begin,
               range.end - 1);
  }
  if (!request.emit.empty()) isa::write_output(request.emit, assembler::print(conversion.program));
  if (!request.run) return compiler::kExitOk;
  const std::string difference = compiler::conversion_difference(problem, conversion, chip, request.seed);
  fmt::print(out, "simulated: {}\n",
             difference.empty() ? "every element is in its place, nothing else has changed" : difference);
  return difference.empty() ? compiler::kExitOk : compiler::kExitInternalError;
}

struct LayoutFuzzRequest {
  std::string chip = "tiny";
  uint64_t seed = 1;
  int64_t count = 1000;
  int64_t elements = 512;
};
/// Random conversions, run and checked.
int fuzz_layouts(const LayoutFuzzRequest& request) {
  const isa::Chip chip = isa::find_chip(request.chip);
  int64_t by_elements = 0;
  int64_t no_room = 0;
  for (int64_t k = 0; k < request.count; ++k) {
    const uint64_t seed = request.seed + static_cast<uint64_t>(k);
    const layout::ConversionProblem problem = layout::random_problem(seed, chip, request.elements);
    std::string difference;
    try {
      const layout::Conversion conversion = layout::convert(problem, chip);
      by_elements += std::ranges::find(conversion.path, "elements") != conversion.path.end() ? 1 : 0;
      difference = compiler::conversion_difference(problem, conversion, chip, seed);
    } catch (const isa::UnsupportedError&) {
      ++no_room;
    } catch (const isa::InternalError& error) {
      difference = error.what();
    }
    if (difference.empty()) continue;
    fmt::print(std::cout, "seed {}: {}\nkodama layout convert '{}' '{}' --shape {} --type {} --chip {}\n",
               seed, difference, problem.from.to_string(), problem.to.to_string(),
               fmt::join(problem.lengths, ","),
               problem.element_bits == 64   ? "double"
               : problem.element_bits == 32 ? "float"
                                            : "half",
               request.chip);
    return compiler::kExitInternalError;
  }
  fmt::print(std::cout,
             "{} random conversions on {}, seeds {} to {}: every element is right; {} element by element, {} "
             "refused for want of room\n",
             request.count, chip.name, request.seed, request.seed + static_cast<uint64_t>(request.count) - 1,
             by_elements, no_room);
  return compiler::kExitOk;
}

void print_passes() {
  fmt::print(std::cout, "graph passes, in the order of the pipeline ({}):\n",
             fmt::join(compiler::graph_pipeline(), ", "));
  for (const auto& pass : compiler::graph_passes())
    fmt::print(std::cout, "  {:<24} {}\n", pass.name, pass.description);
  const auto print_all = [](const char* title, const auto& passes) {
    fmt::print(std::cout, "{} (the first is the default):\n", title);
    for (const auto& pass : passes) {
      std::string from;
      if constexpr (requires { pass.plugin; }) {
        if (!pass.plugin.empty()) from = fmt::format(" (plugin {})", pass.plugin);
      }
      fmt::print(std::cout, "  {:<24} {}{}\n", pass.name, pass.description, from);
      for (const auto& option : pass.options) {
        fmt::print(std::cout, "    {}={}  {}\n", option.name, option.default_value, option.description);
      }
    }
  };
  print_all("coalescers, --coalescer", scheduler::coalescers());
  print_all("home assigners, --home-assigner", scheduler::home_assigners());
  print_all("spillers, --spiller", scheduler::spillers());
  print_all("allocators, --allocator", scheduler::allocators());
  print_all("instruction schedulers, --scheduler (blocks) and --loop-scheduler (loops)",
            scheduler::block_schedulers());
  print_all("transfer schedulers, --transfers", scheduler::transfer_schedulers());
  print_all("address packers, kodama pack --packer", scheduler::packers());
  fmt::print(std::cout, "planners, --planner (the first is the default): {}\n",
             fmt::join(compiler::ModelPlanner::planner_names(), ", "));
  fmt::print(std::cout, "kernels:\n");
  for (const auto& kernel : compiler::kernels()) {
    fmt::print(std::cout, "  {:<24} {}: {}\n", kernel.name, compiler::layer_kind_name(kernel.kind),
               kernel.description);
  }
  fmt::print(std::cout, "names for --dump-after: all, {}\n", fmt::join(compiler::dump_points(), ", "));
}

void print_chips() {
  for (const std::string& name : isa::chip_names()) {
    const isa::Chip chip = isa::find_chip(name);
    fmt::print(std::cout, "{:<10} {} groups x {} L2B x {} L1B x {} MAB x {} PE = {} PEs, {:.0f} MHz: {}\n",
               name, chip.groups, chip.l2b_per_group, chip.l1b_per_l2b, chip.mab_per_l1b, isa::kPePerMab,
               chip.pe_count(), chip.clock_hz / 1e6, chip.description);
  }
}

int run(int argc, char** argv) {
  CLI::App app("Kodama: simulator, assembler and compiler for MN-Core-like chips");
  app.require_subcommand(1);
  app.set_version_flag("--version", "kodama " KODAMA_VERSION);
  int code = compiler::kExitOk;

  compiler::RunRequest run_request;
  RawOptions run_raw;
  CLI::App* run = app.add_subcommand(
      "run", "compile an ONNX model, run it on the simulated chip, compare with the CPU reference");
  run->add_option("model", run_request.model_file, "model.onnx")->required();
  add_compile_options(*run, run_request.common, run_raw);
  add_input_options(*run, run_request.common);
  add_report_options(*run, run_request.common.report, run_request.common.timing);
  add_hazards_option(*run, run_request.common.hazards);
  run->add_option("--test-data", run_request.test_data,
                  "directory with test_data_set_N: run each set, compare with its outputs");
  add_number(*run, "--tolerance", run_request.tolerance,
             "largest error over largest magnitude; default by precision: gfloat 1e-3, float 1e-5, half 5e-2",
             0, 1e9);
  run->add_flag("--show-images", run_request.show_images, "print picture-like inputs as text art");
  run->add_flag("--classes", run_request.show_classes, "print the index of the largest output of each row");
  run->add_flag("!--no-compare", run_request.compare, "don't run the CPU reference");
  run->callback([&] {
    finish_options(run_raw, run_request.common);
    check_report_options(*run, run_request.common.report, run_request.common.timing,
                         run_request.common.hazards);
    for (const char* option : {"--input", "--seed"}) {
      if (!run_request.test_data.empty() && is_given(*run, option))
        throw isa::UserError(fmt::format("{}: no effect with --test-data, which has the inputs", option));
    }
    if (!run_request.compare && run_request.test_data.empty() && is_given(*run, "--tolerance"))
      throw isa::UserError("--tolerance: no effect with --no-compare");
    code = compiler::run_command(run_request, session_stream(run_request.common));
  });

  compiler::CompileRequest compile_request;
  RawOptions compile_raw;
  CLI::App* compile = app.add_subcommand(
      "compile", "compile an ONNX model to a directory of VSM programs, images and a manifest");
  compile->add_option("model", compile_request.model_file, "model.onnx")->required();
  compile->add_option("-o,--output", compile_request.directory, "directory to write")->required();
  add_compile_options(*compile, compile_request.common, compile_raw);
  compile->callback([&] {
    finish_options(compile_raw, compile_request.common);
    code = compiler::compile_command(compile_request, session_stream(compile_request.common));
  });

  compiler::PlanRequest plan_request;
  RawOptions plan_raw;
  CLI::App* plan = app.add_subcommand(
      "plan", "choose kernels and layouts of a model with every planner; compare the cycles of the Moves");
  plan->add_option("model", plan_request.model_file, "model.onnx")->required();
  add_model_options(*plan, plan_request.common, plan_raw);
  plan->add_option("--json", plan_request.common.json_file, "write what every planner finds as JSON");
  plan->callback([&] {
    finish_options(plan_raw, plan_request.common);
    code = compiler::plan_command(plan_request, session_stream(plan_request.common));
  });

  compiler::SimulateRequest sim_request;
  sim_request.common.chip.clear();
  std::string dump_file;
  std::string memory = "zero";
  CLI::App* sim = app.add_subcommand("sim", "run a compiled model's directory, or one VSM program");
  sim->add_option("program", sim_request.directory, "directory of 'kodama compile', or program.vsm")
      ->required();
  sim->add_option("--chip", sim_request.common.chip, "chip; default: the manifest's, mncore2 for a program");
  sim->add_option("-d,--dump", dump_file,
                  "file for the output of d get statements (default: standard output)");
  sim->add_option("--memory", memory, "initial contents for a program: zero or dirty")
      ->check(one_of({"zero", "dirty"}))
      ->capture_default_str();
  simulator::DebuggerOptions debugger;
  debugger.stop_at_start = false;
  sim->add_flag("--step", debugger.stop_at_start, "debug a program: stop before its first statement");
  add_number(*sim, "--break", debugger.breakpoints, "debug a program: stop before a line", 1);
  sim->add_option("--watch", debugger.watches,
                  "debug a program: stop when a long word changes, '$lm0n0c0b0m0p0'");
  bool check_uninitialized = false;
  sim->add_flag("--check-uninitialized", check_uninitialized,
                "report reads of memory that a program has not written (slow)");
  add_input_options(*sim, sim_request.common);
  add_report_options(*sim, sim_request.common.report, sim_request.common.timing);
  add_hazards_option(*sim, sim_request.common.hazards);
  sim->callback([&] {
    check_report_options(*sim, sim_request.common.report, sim_request.common.timing,
                         sim_request.common.hazards);
    std::set<std::string> used = {"program", "--chip", "--threads"};
    const auto also = [&](std::initializer_list<const char*> more) { used.insert(more.begin(), more.end()); };
    const bool is_debugged =
        debugger.stop_at_start || !debugger.breakpoints.empty() || !debugger.watches.empty();
    const auto also_reports = [&] {
      also({"--stats", "--stats-file", "--trace", "--vcd", "--trace-from", "--trace-to", "--trace-limit",
            "--no-timing", "--hazards"});
    };
    if (compiler::is_package(sim_request.directory)) {
      also_reports();
      also({"--input", "--seed", "--output-dir", "--json"});
      check_mode(*sim, "on the directory of a compiled model", used);
      code = compiler::simulate_package_command(sim_request, session_stream(sim_request.common));
      return;
    }
    simulator::MachineOptions options;
    options.threads = sim_request.common.threads;
    options.memory = memory == "dirty" ? simulator::MachineOptions::Memory::kDirty
                                       : simulator::MachineOptions::Memory::kZero;
    options.seed = sim_request.common.seed;
    const std::string chip = sim_request.common.chip.empty() ? "mncore2" : sim_request.common.chip;
    also({"--memory", "--seed"});
    if (memory != "dirty" && is_given(*sim, "--seed"))
      throw isa::UserError("--seed: no effect on a program without --memory dirty");
    if (is_debugged) {
      also({"--step", "--break", "--watch"});
      check_mode(*sim, "in the debugger of a program", used);
      debugger.machine = options;
      code = debug_program(sim_request.directory, chip, debugger);
    } else {
      also_reports();
      also({"--dump", "--check-uninitialized"});
      check_mode(*sim, "on a program", used);
      code = simulate_program({.file = sim_request.directory,
                               .chip = chip,
                               .dump_file = dump_file,
                               .machine = options,
                               .check_uninitialized = check_uninitialized,
                               .timing = sim_request.common.timing,
                               .hazards = sim_request.common.hazards,
                               .report = sim_request.common.report});
    }
  });

  std::string check_path;
  std::string check_chip;
  CLI::App* check = app.add_subcommand(
      "check", "find hazards: reads too soon after a write, transfers that nobody waits for, wrong tags");
  check->add_option("program", check_path, "program.vsm, or directory of 'kodama compile'")->required();
  check->add_option("--chip", check_chip, "chip; default: the manifest's, mncore2 for a program");
  check->callback([&] { code = check_program(check_path, check_chip); });

  AssembleRequest asm_request;
  CLI::App* assemble = app.add_subcommand("asm", "check a VSM program and write it in another form");
  assemble->add_option("program", asm_request.file, "program.vsm")->required();
  assemble->add_option("-o,--output", asm_request.output, "file to write (default: standard output)");
  assemble->add_option("--chip", asm_request.chip, "name of a chip, or a chip file")->capture_default_str();
  static const std::map<std::string, assembler::ProgramForm> kForms{
      {"text", assembler::ProgramForm::kText},
      {"words", assembler::ProgramForm::kWords},
      {"binary", assembler::ProgramForm::kBinary}};
  assemble
      ->add_option_function<std::string>(
          "--format", [&](const std::string& form) { asm_request.form = kForms.at(form); },
          "text (normal form), words (the vendor's 'i' lines) or binary (a complete program file)")
      ->check(one_of({"text", "words", "binary"}))
      ->default_str("text");
  assemble->add_flag("--allow-inferred", asm_request.words.allow_inferred,
                     "words: also fields whose meaning is inferred, not seen");
  assemble->callback([&] {
    if (asm_request.form == assembler::ProgramForm::kText && asm_request.words.allow_inferred)
      throw isa::UserError("--allow-inferred: no effect with --format text");
    assemble_program(asm_request);
  });

  AssembleRequest dis_request;
  CLI::App* disassemble =
      app.add_subcommand("dis", "print a program of machine words or a binary program file as VSM");
  disassemble->add_option("program", dis_request.file, "program file")->required();
  disassemble->add_option("-o,--output", dis_request.output, "file to write (default: standard output)");
  disassemble->add_option("--chip", dis_request.chip, "name of a chip, or a chip file")
      ->capture_default_str();
  disassemble->callback([&] { disassemble_program(dis_request); });

  compiler::NodeTestRequest node_request;
  CLI::App* node_tests =
      app.add_subcommand("onnx-tests", "run ONNX's node tests on the chip path and on the reference path");
  node_tests->add_option("--chip", node_request.chip, "name of a chip, or a chip file")
      ->capture_default_str();
  node_tests->add_option("--precision", node_request.precision, "of matrix products")->capture_default_str();
  node_tests->add_option("--directory", node_request.directory,
                         "where the tests are (default: libonnx-testdata's)");
  node_tests->add_option("--filter", node_request.filter, "regular expression on the test's name");
  node_tests->add_flag("--verbose", node_request.verbose, "a line for tests that passed, too");
  add_threads(*node_tests, node_request.threads);
  node_tests->add_option("--json", node_request.json_file, "write all results as JSON");
  node_tests->callback(
      [&] { code = compiler::node_tests_command(node_request, report_stream({node_request.json_file})); });

  JudgeRequest judge_request;
  int64_t judge_megabytes = judge_request.options.most_bytes / 1'000'000;
  CLI::App* judge = app.add_subcommand("judge", "run an answer on a test case, compare what it must print");
  judge->add_option("testcase", judge_request.test_case, "testcase.vsm");
  judge->add_option("answer", judge_request.answer, "answer.vsm");
  judge->add_option("--dir", judge_request.directory,
                    "judge a tree of problems: directories with answer.vsm and test cases");
  judge->add_option("--chip", judge_request.options.chip, "chip of test cases that name none")
      ->capture_default_str();
  add_threads(*judge, judge_request.options.machine.threads);
  add_number(*judge, "--max-steps", judge_request.options.most_steps,
             "steps and transfers of an answer, at most; 0 = no limit", 0)
      ->capture_default_str();
  add_number(*judge, "--max-seconds", judge_request.options.most_seconds,
             "time to run an answer, at most; 0 = no limit", 0, 1e9)
      ->capture_default_str();
  add_number(*judge, "--max-memory", judge_megabytes,
             "MB of DRAM that an answer may write, at most; 0 = no limit", 0, 1 << 30)
      ->capture_default_str();
  add_hazards_option(*judge, judge_request.options.hazards);
  judge->callback([&] {
    if (!judge_request.directory.empty()) {
      check_mode(
          *judge, "with --dir",
          {"--dir", "--chip", "--threads", "--hazards", "--max-steps", "--max-seconds", "--max-memory"});
    }
    judge_request.options.most_bytes = judge_megabytes * 1'000'000;
    code = judge_answers(judge_request);
  });

  OptimizeRequest optimize_request;
  CLI::App* optimize = app.add_subcommand(
      "opt", "write an equivalent VSM program in fewer cycles or steps; docs/optimizer.md");
  optimize->add_option("file", optimize_request.file, "VSM file");
  optimize->add_option("-o,--output", optimize_request.output, "file to write");
  optimize->add_option("--chip", optimize_request.chip,
                       "name of a chip, or a chip file; default mncore2, with --fuzz tiny");
  optimize->add_option("--scheduler", optimize_request.options.scheduler,
                       "an instruction scheduler of 'kodama passes' instead of the optimizer's search");
  optimize->add_option("--objective", optimize_request.objective, "what is to be less: cycles or steps")
      ->capture_default_str();
  optimize->add_flag("--allow-rename", optimize_request.options.allow_rename,
                     "values may go through other registers than those written");
  CLI::Option* live_outs = optimize->add_option("--live-out", optimize_request.live_outs,
                                                "memories that count after the program, as dram,lm1:0-7; "
                                                "default: all. Operations that nothing which counts "
                                                "depends on are removed");
  add_number(*optimize, "--effort", optimize_request.options.effort, "bounds the search", 1, 100'000)
      ->capture_default_str();
  optimize->add_flag("--plain", optimize_request.plain,
                     "write the plain form instead: one operation per line, with the nops it needs");
  optimize->add_option("--problems", optimize_request.problems,
                       "write the scheduling problems of the plain form into this directory, as JSON; "
                       "docs/schedules.md");
  optimize->add_option("--judge-dir", optimize_request.judge_directory,
                       "optimize the plain forms of all answers of a tree of judge problems, and judge them");
  add_number(*optimize, "--fuzz", optimize_request.fuzz, "optimize this many random programs and compare", 1);
  add_seed(*optimize, optimize_request.seed, "of the first random program");
  optimize->callback([&] {
    optimize_request.has_live_outs = live_outs->count() > 0;
    const std::set<std::string> search = {"--chip", "--scheduler", "--allow-rename", "--live-out",
                                          "--effort"};
    const auto with = [](std::set<std::string> options, std::initializer_list<const char*> more) {
      options.insert(more.begin(), more.end());
      return options;
    };
    if (optimize_request.fuzz > 0) {
      check_mode(*optimize, "with --fuzz", {"--fuzz", "--seed", "--chip"});
    } else if (!optimize_request.judge_directory.empty()) {
      check_mode(*optimize, "with --judge-dir", with(search, {"--judge-dir"}));
    } else if (!optimize_request.problems.empty()) {
      check_mode(*optimize, "with --problems", {"file", "--problems", "--chip"});
    } else if (optimize_request.plain) {
      check_mode(*optimize, "with --plain", {"file", "--output", "--plain", "--chip"});
    } else {
      check_mode(*optimize, "without --fuzz", with(search, {"file", "--output", "--objective"}));
    }
    code = optimize_program(optimize_request);
  });

  simulator::golden::FuzzOptions fuzz_options;
  std::string fuzz_chip = "tiny";
  CLI::App* fuzz = app.add_subcommand(
      "fuzz", "run random programs on the simulator's engine and on its golden model, compare all memories");
  fuzz->add_option("--chip", fuzz_chip, "chip whose tree is used, with small memories")
      ->capture_default_str();
  add_seed(*fuzz, fuzz_options.seed, "of the first round");
  add_number(*fuzz, "--steps", fuzz_options.steps, "steps and transfers to run", 1)->capture_default_str();
  add_number(*fuzz, "--seconds", fuzz_options.seconds, "stop after this time; 0 = no limit", 0, 1e9)
      ->capture_default_str();
  add_number(*fuzz, "--jobs", fuzz_options.threads, "rounds at a time", 1, kMostThreads)
      ->capture_default_str();
  fuzz->callback([&] { code = fuzz_simulator(fuzz_chip, fuzz_options); });

  std::string reference_directory = "docs/isa";
  CLI::App* reference =
      app.add_subcommand("isa", "write the reference of the instruction set as Markdown pages");
  reference->add_option("-o,--output", reference_directory, "directory to write")->capture_default_str();
  reference->callback([&] {
    isa::check_output_directory(reference_directory);
    std::filesystem::create_directories(reference_directory);
    for (const auto& [name, text] : isa::reference_pages(isa::find_chip("mncore2")))
      isa::write_output(fmt::format("{}/{}", reference_directory, name), text);
  });

  LayoutRequest layout_request;
  CLI::App* layout = app.add_subcommand("layout", "where the elements of a tensor live");
  layout->require_subcommand(1);
  CLI::App* show = layout->add_subcommand("show", "draw a layout: the memories and the elements in them");
  show->add_option("layout", layout_request.layout, "for example '((4_PE:1), (6:1))@LM0'")->required();
  show->add_option("--shape", layout_request.shape,
                   "lengths of the axes, as 4,6; default: the layout's extents");
  show->add_option("--type", layout_request.type, "of the elements")
      ->check(one_of({"half", "short", "float", "int", "double", "long"}))
      ->capture_default_str();
  show->add_option("--chip", layout_request.chip, "chip that the layout must fit")->capture_default_str();
  add_number(*show, "--instances", layout_request.limits.instances,
             "largest number of memories drawn per level", 1)
      ->capture_default_str();
  add_number(*show, "--long-words", layout_request.limits.long_words, "largest number of long words drawn", 1)
      ->capture_default_str();
  show->add_flag("--json", layout_request.json, "every place with its element, as JSON");
  show->callback([&] {
    if (layout_request.json)
      check_mode(*show, "with --json", {"layout", "--shape", "--type", "--chip", "--json"});
    show_layout(layout_request);
  });

  CLI::App* layout_bound = layout->add_subcommand(
      "bound", "the least cycles that a conversion between two layouts can take, level by level");
  layout_bound->add_option("from", layout_request.layout, "layout")->required();
  layout_bound->add_option("to", layout_request.to, "layout")->required();
  layout_bound->add_option("--shape", layout_request.shape, "lengths of the axes, as 4,6")->required();
  layout_bound->add_option("--type", layout_request.type, "of the elements")
      ->check(one_of({"half", "short", "float", "int", "double", "long"}))
      ->capture_default_str();
  layout_bound->add_option("--chip", layout_request.chip, "chip")->capture_default_str();
  layout_bound->callback([&] { print_conversion_bound(layout_request); });
  CLI::App* layout_convert = layout->add_subcommand(
      "convert",
      "make a program that brings a tensor from one layout into another, run it and check every element");
  layout_convert->add_option("from", layout_request.layout, "layout")->required();
  layout_convert->add_option("to", layout_request.to, "layout")->required();
  layout_convert->add_option("--shape", layout_request.shape, "lengths of the axes, as 4,6")->required();
  layout_convert->add_option("--type", layout_request.type, "of the elements")
      ->check(one_of({"half", "short", "float", "int", "double", "long"}))
      ->capture_default_str();
  layout_convert->add_option("--chip", layout_request.chip, "chip")->capture_default_str();
  layout_convert->add_option("--emit", layout_request.emit, "write the program as VSM");
  add_seed(*layout_convert, layout_request.seed, "of the elements and of what is in memory before");
  layout_convert->add_flag("!--no-run", layout_request.run, "don't simulate it");
  layout_convert->callback([&] {
    if (!layout_request.run && is_given(*layout_convert, "--seed"))
      throw isa::UserError("--seed: no effect with --no-run");
    code = convert_layout(layout_request);
  });

  CLI::App* layout_primitives = layout->add_subcommand(
      "primitives", "what the hardware can do to a layout: effect, precondition, cost");
  layout_primitives->callback([] {
    fmt::print(
        std::cout,
        "| primitive | effect | asks for | steps; n = long words per PE |\n| --- | --- | --- | --- |\n");
    for (const layout::MovePrimitive& each : layout::move_primitives())
      fmt::print(std::cout, "| `{}` | {} | {} | {} |\n", each.name, each.effect, each.precondition,
                 each.cost);
  });

  LayoutFuzzRequest layout_fuzz_request;
  CLI::App* layout_fuzz = layout->add_subcommand(
      "fuzz", "random conversions, run and checked; a failure is printed with its command");
  layout_fuzz->add_option("--chip", layout_fuzz_request.chip, "chip")->capture_default_str();
  add_seed(*layout_fuzz, layout_fuzz_request.seed, "of the first one");
  add_number(*layout_fuzz, "--count", layout_fuzz_request.count, "how many", 1)->capture_default_str();
  add_number(*layout_fuzz, "--elements", layout_fuzz_request.elements, "of a tensor, at most", 1, 1 << 20)
      ->capture_default_str();
  layout_fuzz->callback([&] { code = fuzz_layouts(layout_fuzz_request); });

  compiler::LayoutBenchOptions layout_bench_options;
  layout_bench_options.suite = isa::source_path("testsuite/layout/suite.txt");
  std::string layout_bench_chip = "mncore2";
  CLI::App* layout_bench =
      layout->add_subcommand("bench", "the suite of conversions: path, cycles, bound, and their ratio");
  layout_bench->add_option("--suite", layout_bench_options.suite, "its file")->capture_default_str();
  layout_bench->add_option("--kind", layout_bench_options.kind, "only conversions of this kind");
  layout_bench->add_option("--chip", layout_bench_chip, "chip")->capture_default_str();
  layout_bench->add_flag("--check", layout_bench_options.check, "simulate each one and check every element");
  layout_bench->add_flag("--markdown", layout_bench_options.markdown, "print the table of docs/layouts.md");
  layout_bench->callback([&] {
    const auto result = compiler::run_layout_bench(layout_bench_options, isa::find_chip(layout_bench_chip));
    std::cout << result.table;
    if (result.failures > 0) code = compiler::kExitInternalError;
  });

  std::string bench_chip = "mncore2";
  CLI::App* bench = app.add_subcommand("bench", "measure the simulated chip");
  bench->require_subcommand(1);
  CLI::App* bandwidth =
      bench->add_subcommand("bandwidth", "the rate of every kind of transfer, beside that of the chip file");
  bandwidth->add_option("--chip", bench_chip, "name of a chip, or a chip file")->capture_default_str();
  bandwidth->callback([&] {
    std::cout << simulator::bandwidth_table(simulator::measure_bandwidths(isa::find_chip(bench_chip)));
  });

  scheduler::ScheduleBenchRequest schedule_bench;
  schedule_bench.directory = isa::source_path("testsuite/schedule");
  std::vector<std::string> schedule_options;
  CLI::App* bench_schedule =
      bench->add_subcommand("schedule", "all schedulers on a set of blocks and loops, beside lower bounds");
  bench_schedule->add_option("--dir", schedule_bench.directory, "JSON problems")->capture_default_str();
  add_number(*bench_schedule, "--random", schedule_bench.random_blocks, "random problems besides", 0,
             1'000'000)
      ->capture_default_str();
  bench_schedule->add_option("--scheduler", schedule_bench.schedulers, "only these");
  bench_schedule->add_flag("--details", schedule_bench.details, "a line per problem and scheduler");
  add_pass_options(*bench_schedule, schedule_options);
  std::vector<std::string> schedule_plugins;
  add_plugin_option(*bench_schedule, schedule_plugins);
  bench_schedule->callback([&] {
    for (const std::string& plugin : schedule_plugins) scheduler::load_plugin(plugin);
    schedule_bench.options = parse_pass_options(schedule_options);
    code = scheduler::bench_schedules(schedule_bench, std::cout);
  });

  scheduler::PackingBenchRequest packing_bench;
  std::vector<std::string> packing_options;
  CLI::App* bench_packing = bench->add_subcommand(
      "packing", "an address packer on generated problems with known solutions, or on files");
  bench_packing->add_option("files", packing_bench.files, ".csv (as google/minimalloc) or .json");
  bench_packing->add_option("--packer", packing_bench.packer, "packer");
  add_number(*bench_packing, "--capacity", packing_bench.capacity, "of CSV files whose names don't have it",
             0);
  add_seed(*bench_packing, packing_bench.first_seed, "of the first generated problem");
  add_number(*bench_packing, "--count", packing_bench.count, "generated problems", 1)->capture_default_str();
  add_pass_options(*bench_packing, packing_options);
  bench_packing->callback([&] {
    if (packing_bench.files.empty()) {
      check_mode(*bench_packing, "on generated problems", {"--packer", "--seed", "--count", "--pass-option"});
    } else {
      check_mode(*bench_packing, "on files", {"files", "--packer", "--capacity", "--pass-option"});
    }
    packing_bench.options = parse_pass_options(packing_options);
    scheduler::run_packing_bench(packing_bench, std::cout);
  });

  scheduler::PackFileRequest pack_request;
  CLI::App* pack =
      app.add_subcommand("pack", "give the buffers of a file addresses in one memory, by their lifetimes");
  pack->add_option("file", pack_request.file, ".csv (as google/minimalloc) or .json")->required();
  pack->add_option("--packer", pack_request.packer, "packer");
  add_number(*pack, "--capacity", pack_request.capacity, "of a CSV file whose name doesn't have it", 0);
  pack->add_flag("--lowest", pack_request.lowest, "find the least height instead");
  pack->add_option("-o,--output", pack_request.output, ".csv with offsets, or .json; no ending means JSON");
  pack->add_option("--check", pack_request.answer, "check these offsets (.csv or .json) instead");
  add_pass_options(*pack, packing_options);
  pack->callback([&] {
    if (!pack_request.answer.empty()) check_mode(*pack, "with --check", {"file", "--capacity", "--check"});
    if (pack_request.lowest) {
      check_mode(*pack, "with --lowest",
                 {"file", "--capacity", "--packer", "--lowest", "--output", "--pass-option"});
    }
    pack_request.options = parse_pass_options(packing_options);
    code = scheduler::pack_file(pack_request, report_stream({pack_request.output}));
  });

  scheduler::ScheduleFileRequest schedule_request;
  CLI::App* schedule = app.add_subcommand(
      "schedule", "schedule a block or loop from a JSON file (--dump-after schedule-problem makes such)");
  schedule->add_option("problem", schedule_request.file, "problem.json")->required();
  schedule->add_option("--scheduler", schedule_request.scheduler, "of blocks or loops");
  schedule->add_option("-o,--output", schedule_request.output, "write the schedule as JSON");
  schedule->add_option("--check", schedule_request.schedule, "check this schedule (JSON) instead");
  add_pass_options(*schedule, schedule_options);
  add_plugin_option(*schedule, schedule_plugins);
  schedule->callback([&] {
    if (!schedule_request.schedule.empty())
      check_mode(*schedule, "with --check", {"problem", "--output", "--check"});
    for (const std::string& plugin : schedule_plugins) scheduler::load_plugin(plugin);
    schedule_request.options = parse_pass_options(schedule_options);
    code = scheduler::schedule_file(schedule_request, report_stream({schedule_request.output}));
  });

  std::vector<std::string> listed_plugins;
  CLI::App* passes = app.add_subcommand("passes", "list passes, kernels and dump points");
  add_plugin_option(*passes, listed_plugins);
  passes->callback([&] {
    for (const std::string& plugin : listed_plugins) scheduler::load_plugin(plugin);
    print_passes();
  });
  app.add_subcommand("chips", "list the known chips")->callback(print_chips);

  // `--stats` takes its form as the next word, if that is one; CLI11's flags take it after '=' only.
  std::vector<std::string> arguments(argv + 1, argv + argc);
  for (size_t k = 0; k + 1 < arguments.size(); ++k) {
    const std::string& form = arguments[k + 1];
    if (arguments[k] != "--stats" || (form != "text" && form != "json" && form != "csv")) continue;
    arguments[k] += "=" + form;
    arguments.erase(arguments.begin() + static_cast<ptrdiff_t>(k) + 1);
  }
  std::ranges::reverse(arguments);  // as CLI11 wants them
  try {
    app.parse(arguments);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) {  // --help, --version
      app.exit(error, std::cout, std::cerr);
      return compiler::kExitOk;
    }
    throw isa::UserError(fmt::format("{}\nRun with --help for more information.", error.what()));
  }
  return code;
}

}  // namespace
}  // namespace kodama::tools

int main(int argc, char** argv) {
  using namespace kodama;
  // A file that is opened in the place of a closed standard stream would receive what is printed there.
  for (int descriptor = STDIN_FILENO; descriptor <= STDERR_FILENO; ++descriptor) {
    if (::fcntl(descriptor, F_GETFD) < 0)
      ::open("/dev/null", descriptor == STDIN_FILENO ? O_WRONLY : O_RDONLY);
  }
  const isa::PrintableStream out(std::cout);
  const isa::PrintableStream errors(std::cerr);
  try {
    isa::remove_temporaries_on_signals();
    const int code = tools::run(argc, argv);
    isa::flush_standard_output();
    return code;
  } catch (const isa::UserErrors& all) {
    for (const std::string& error : all.messages()) std::cerr << "kodama: error: " << error << '\n';
    return compiler::kExitUserError;
  } catch (const isa::UserError& error) {
    std::cerr << "kodama: error: " << error.what() << '\n';
    return compiler::kExitUserError;
  } catch (const isa::UnsupportedError& error) {
    std::cerr << "kodama: not supported: " << error.what() << '\n';
    return compiler::kExitUnsupported;
  } catch (const isa::PassError& error) {
    std::cerr << "kodama: " << error.what() << '\n';
    return compiler::kExitInternalError;
  } catch (const std::filesystem::filesystem_error& error) {
    // Whatever we ask the file system, the answer is the user's: no permission, say.
    fmt::print(std::cerr, "kodama: error: {}: {}\n", error.path1().string(), error.code().message());
    return compiler::kExitUserError;
  } catch (const std::bad_alloc&) {
    std::cerr << "kodama: not supported: this needs more memory than the process may have\n";
    return compiler::kExitUnsupported;
  } catch (const std::exception& error) {
    std::string command;
    for (int k = 0; k < argc; ++k) command += std::string(k > 0 ? " " : "") + argv[k];
    std::cerr << "kodama: " << error.what() << "\nThis is a bug in kodama; it is reproduced by: " << command
              << '\n';
    return compiler::kExitInternalError;
  }
}
