#include <fmt/format.h>
#include <fmt/ostream.h>

#include <iostream>
#include <set>

#include "assembler/assembler.h"
#include "assembler/program_file.h"
#include "checks/optimizer_suite.h"
#include "compiler/driver/session.h"
#include "isa/chip.h"
#include "isa/error.h"
#include "isa/output.h"
#include "isa/progress.h"
#include "scheduler/optimizer/program_problems.h"
#include "simulator/golden/differential.h"
#include "tools/command_groups.h"
#include "tools/commands/schedule_drawing.h"
#include "tools/common_options.h"
#include "tools/options.h"

namespace kodama::tools {
namespace {

struct OptimizeRequest {
  std::string objective = "cycles";
  std::string file;
  std::string output;
  std::string drawing;
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
  checks::OptimizerFuzzOptions options;
  const std::string chip = request.chip.empty() ? "tiny" : request.chip;
  options.chip = simulator::golden::small_memories(isa::find_chip(chip));
  options.seed = request.seed;
  options.programs = request.fuzz;
  isa::ProgressBar bar("optimizing");
  options.progress = [&](int64_t done) { bar.update(done, request.fuzz, ""); };
  const auto result = checks::fuzz_optimizer(options);
  bar.finish();
  fmt::print(
      std::cout,
      "{} programs from seed {} on {}: {} steps, optimized {}; {} reads forwarded, {} operations removed, "
      "{} values renamed; {} programs refused at run time\n",
      result.programs, request.seed, chip, result.steps_before, result.steps_after, result.forwarded,
      result.removed, result.renamed, result.refused);
  if (result.failure.empty()) return isa::kExitOk;
  fmt::print(std::cout, "{}\nreproduced by: kodama opt --fuzz 1 --seed {} --chip {}\n", result.failure,
             result.failed_seed, chip);
  return isa::kExitInternalError;
}

/// The segments of a program, with the steps in which it issues them.
std::vector<DrawnBlock> drawn_blocks(const std::string& when, const isa::Program& program,
                                     const isa::Chip& chip, std::ostream& out) {
  scheduler::ProgramProblems found = scheduler::program_problems(program, when, chip);
  std::vector<DrawnBlock> blocks;
  for (size_t k = 0; k < found.problems.size(); ++k) {
    const std::string name = found.problems[k].name;
    blocks.push_back(
        {fmt::format("Dependences {}", name), std::move(found.problems[k]), {{name, found.schedules[k]}}});
  }
  if (found.skipped > 0)
    fmt::print(out, "{}: {} segments can't be drawn, whose meaning is not in dependences alone\n", when,
               found.skipped);
  return blocks;
}

int optimize_program(OptimizeRequest request) {
  if (request.fuzz > 0) return fuzz_optimizer(request);
  const std::string chip_name = request.chip.empty() ? kDefaultChip : request.chip;
  if (request.has_live_outs) request.options.live_outs = scheduler::parse_live_outs(request.live_outs);
  if (request.objective != "cycles" && request.objective != "steps")
    throw isa::UserError(fmt::format("--objective: found '{}', allowed: cycles, steps", request.objective));
  request.options.objective =
      request.objective == "cycles" ? scheduler::Objective::kCycles : scheduler::Objective::kSteps;
  if (!request.judge_directory.empty()) {
    const isa::ProgressBar bar("optimizing");
    const auto result = checks::optimize_judge_tree(request.judge_directory, chip_name, request.options);
    std::cout << result.table;
    return result.failures == 0 ? isa::kExitOk : isa::kExitOutOfTolerance;
  }
  if (request.file.empty())
    throw isa::UserError("opt: allowed are FILE, FILE --problems DIR, --judge-dir DIR, or --fuzz N");
  std::ostream& out = result_stream({request.output, request.drawing});
  isa::check_output_directory(request.problems);
  const isa::Chip chip = isa::find_chip(chip_name);
  const isa::Program program = assembler::read_program(request.file, chip);
  if (!request.problems.empty()) {
    fmt::print(std::cout, "{}", checks::write_plain_problems(program, request.file, request.problems, chip));
    return isa::kExitOk;
  }
  isa::Program result;
  isa::ProgressBar bar("optimizing");
  if (request.plain) {
    result = checks::plain_checked(program, chip, "kodama opt --plain " + request.file);
    fmt::print(out, "{} steps before, {} in the plain form\n", isa::count(program).steps,
               isa::count(result).steps);
  } else {
    auto optimized = checks::optimize_checked(program, chip, request.options, "kodama opt " + request.file);
    fmt::print(out, "{}", checks::optimizer_report(optimized));
    result = std::move(optimized.program);
  }
  if (!request.output.empty()) {
    isa::write_output(request.output, [&](const isa::Output& output) {
      assembler::print(result, [&](std::string_view piece) { output(piece); });
    });
  }
  if (!request.drawing.empty()) {
    bar.phase("drawing");
    std::vector<DrawnBlock> blocks = drawn_blocks("before", program, chip, out);
    for (DrawnBlock& block : drawn_blocks("after", result, chip, out)) blocks.push_back(std::move(block));
    write_drawing(request.drawing, "kodama opt " + request.file, blocks);
  }
  return isa::kExitOk;
}

class OptimizeCommand : public Command {
 public:
  void declare(CLI::App& app) override {
    app.add_option("file", request_.file, "VSM file");
    app.add_option("-o,--output", request_.output, "file to write; without it only what was found is said");
    app.add_option("--draw", request_.drawing,
                   "draw dependences and steps of every segment, before and after: an SVG, or if the name "
                   "ends in .dot the dependences for Graphviz");
    app.add_option("--chip", request_.chip,
                   "name of a chip, or a chip file; default mncore2, with --fuzz tiny");
    app.add_option("--scheduler", request_.options.scheduler,
                   "an instruction scheduler of 'kodama passes' instead of the optimizer's search");
    app.add_option("--objective", request_.objective, "what is to be less: cycles or steps")
        ->capture_default_str();
    app.add_flag("--allow-rename", request_.options.allow_rename,
                 "values may go through other registers than those written");
    app.add_option("--live-out", request_.live_outs,
                   "memories that count after the program, as dram,lm1:0-7; default: all. Operations that "
                   "nothing which counts depends on are removed");
    add_number(app, "--effort", request_.options.effort, "bounds the search", 1, 100'000)
        ->capture_default_str();
    app.add_flag("--plain", request_.plain,
                 "write the plain form instead: one operation per line, with the nops it needs");
    app.add_option("--problems", request_.problems,
                   "write the scheduling problems of the plain form into this directory, as JSON; "
                   "docs/schedules.md");
    app.add_option("--judge-dir", request_.judge_directory,
                   "optimize the plain forms of all answers of a tree of judge problems, and judge them");
    add_pass_options(app, pass_options_);
    add_plugin_option(app, plugins_);
    add_number(app, "--fuzz", request_.fuzz, "optimize this many random programs and compare", 1);
    add_seed(app, request_.seed, "of the first random program");
  }
  int run(const CLI::App& app) override {
    load_plugins(plugins_);
    request_.options.passes = parse_pass_options(pass_options_);
    request_.has_live_outs = is_given(app, "--live-out");
    const std::set<std::string> search = {"--chip",   "--scheduler", "--allow-rename", "--live-out",
                                          "--effort", "--plugin",    "--pass-option"};
    const auto with = [](std::set<std::string> options, std::initializer_list<const char*> more) {
      options.insert(more.begin(), more.end());
      return options;
    };
    if (request_.fuzz > 0) {
      check_mode(app, "with --fuzz", {"--fuzz", "--seed", "--chip", "--plugin"});
    } else if (!request_.judge_directory.empty()) {
      check_mode(app, "with --judge-dir", with(search, {"--judge-dir"}));
    } else if (!request_.problems.empty()) {
      check_mode(app, "with --problems", {"file", "--problems", "--chip"});
    } else if (request_.plain) {
      check_mode(app, "with --plain", {"file", "--output", "--draw", "--plain", "--chip"});
    } else {
      check_mode(app, "without --fuzz", with(search, {"file", "--output", "--draw", "--objective"}));
    }
    return optimize_program(request_);
  }

 private:
  OptimizeRequest request_;
  std::vector<std::string> pass_options_;
  std::vector<std::string> plugins_;
};

}  // namespace

void add_optimizer_commands(CommandLine& line) {
  line.add<OptimizeCommand>("opt",
                            "write an equivalent VSM program in fewer cycles or steps; docs/optimizer.md");
}

}  // namespace kodama::tools
