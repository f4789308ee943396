#include <iostream>

#include "compiler/driver/kernel_suite.h"
#include "compiler/driver/session.h"
#include "isa/chip.h"
#include "isa/file.h"
#include "isa/output.h"
#include "isa/progress.h"
#include "scheduler/packing/packing_suite.h"
#include "scheduler/problem/schedule_suite.h"
#include "scheduler/recompute/recompute_suite.h"
#include "simulator/bandwidth.h"
#include "tools/command_groups.h"
#include "tools/commands/schedule_drawing.h"
#include "tools/common_options.h"
#include "tools/options.h"

namespace kodama::tools {
namespace {

class BandwidthCommand : public Command {
 public:
  void declare(CLI::App& app) override { add_chip(app, chip_); }
  int run(const CLI::App& /*app*/) override {
    std::cout << simulator::bandwidth_table(simulator::measure_bandwidths(isa::find_chip(chip_)));
    return isa::kExitOk;
  }

 private:
  std::string chip_ = kDefaultChip;
};

class BenchKernelsCommand : public Command {
 public:
  void declare(CLI::App& app) override {
    add_chip(app, request_.chip);
    app.add_option("--precision", request_.precision, "of matrix products")->capture_default_str();
    app.add_option("--filter", request_.filter, "regular expression on the shape's name");
    add_number(app, "--most-products", request_.most_products,
               "multiply-adds of a shape that is run and compared; of larger ones the cycles are predicted",
               0, 1e18)
        ->capture_default_str();
    add_threads(app, request_.threads);
    app.add_option("--json", request_.json_file, "write the table as JSON");
  }
  int run(const CLI::App& /*app*/) override {
    return compiler::bench_kernels(request_, report_stream({request_.json_file}));
  }

 private:
  compiler::KernelBenchRequest request_;
};

class BenchScheduleCommand : public Command {
 public:
  void declare(CLI::App& app) override {
    request_.directory = isa::source_path("testsuite/schedule");
    app.add_option("--dir", request_.directory, "JSON problems")->capture_default_str();
    add_number(app, "--random", request_.random_blocks, "random problems besides", 0, 1'000'000)
        ->capture_default_str();
    app.add_option("--scheduler", request_.schedulers, "only these");
    app.add_flag("--details", request_.details, "a line per problem and scheduler");
    add_pass_options(app, pass_options_);
    add_plugin_option(app, plugins_);
  }
  int run(const CLI::App& /*app*/) override {
    load_plugins(plugins_);
    request_.options = parse_pass_options(pass_options_);
    return scheduler::bench_schedules(request_, std::cout);
  }

 private:
  scheduler::ScheduleBenchRequest request_;
  std::vector<std::string> pass_options_;
  std::vector<std::string> plugins_;
};

class BenchPackingCommand : public Command {
 public:
  void declare(CLI::App& app) override {
    app.add_option("files", request_.files, ".csv (as google/minimalloc) or .json");
    app.add_option("--packer", request_.packer, "packer");
    add_number(app, "--capacity", request_.capacity, "of CSV files whose names don't have it", 0);
    add_seed(app, request_.first_seed, "of the first generated problem");
    add_number(app, "--count", request_.count, "generated problems", 1)->capture_default_str();
    add_pass_options(app, pass_options_);
    add_plugin_option(app, plugins_);
  }
  int run(const CLI::App& app) override {
    if (request_.files.empty()) {
      check_mode(app, "on generated problems",
                 {"--packer", "--seed", "--count", "--pass-option", "--plugin"});
    } else {
      check_mode(app, "on files", {"files", "--packer", "--capacity", "--pass-option", "--plugin"});
    }
    load_plugins(plugins_);
    request_.options = parse_pass_options(pass_options_);
    scheduler::run_packing_bench(request_, std::cout);
    return isa::kExitOk;
  }

 private:
  scheduler::PackingBenchRequest request_;
  std::vector<std::string> pass_options_;
  std::vector<std::string> plugins_;
};

class PackCommand : public Command {
 public:
  void declare(CLI::App& app) override {
    app.add_option("file", request_.file, ".csv (as google/minimalloc) or .json")->required();
    app.add_option("--packer", request_.packer, "packer");
    add_number(app, "--capacity", request_.capacity, "of a CSV file whose name doesn't have it", 0);
    app.add_flag("--lowest", request_.lowest, "find the least height instead");
    app.add_option("-o,--output", request_.output, ".csv with offsets, or .json; no ending means JSON");
    app.add_option("--check", request_.answer, "check these offsets (.csv or .json) instead");
    add_pass_options(app, pass_options_);
    add_plugin_option(app, plugins_);
  }
  int run(const CLI::App& app) override {
    if (!request_.answer.empty()) check_mode(app, "with --check", {"file", "--capacity", "--check"});
    if (request_.lowest) {
      check_mode(app, "with --lowest",
                 {"file", "--capacity", "--packer", "--lowest", "--output", "--pass-option", "--plugin"});
    }
    load_plugins(plugins_);
    request_.options = parse_pass_options(pass_options_);
    const isa::ProgressBar bar("packing");
    return scheduler::pack_file(request_, result_stream({request_.output}));
  }

 private:
  scheduler::PackFileRequest request_;
  std::vector<std::string> pass_options_;
  std::vector<std::string> plugins_;
};

class BenchRecomputeCommand : public Command {
 public:
  void declare(CLI::App& app) override {
    app.add_option("files", request_.files, ".json (train-step --recompute-problem makes such)");
    app.add_option("--recomputer", request_.recomputers, "only these");
    add_seed(app, request_.first_seed, "of the first generated problems");
    add_number(app, "--count", request_.count, "generated problems of each kind", 1, 1'000'000)
        ->capture_default_str();
    add_pass_options(app, pass_options_);
    add_plugin_option(app, plugins_);
  }
  int run(const CLI::App& app) override {
    if (!request_.files.empty())
      check_mode(app, "on files", {"files", "--recomputer", "--pass-option", "--plugin"});
    load_plugins(plugins_);
    request_.options = parse_pass_options(pass_options_);
    scheduler::run_recompute_bench(request_, std::cout);
    return isa::kExitOk;
  }

 private:
  scheduler::RecomputeBenchRequest request_;
  std::vector<std::string> pass_options_;
  std::vector<std::string> plugins_;
};

class RecomputeCommand : public Command {
 public:
  void declare(CLI::App& app) override {
    app.add_option("problem", request_.file, "problem.json")->required();
    app.add_option("--recomputer", request_.recomputer, "who solves it");
    add_number(app, "--limit", request_.limit, "bytes, instead of the file's", 0);
    app.add_option("-o,--output", request_.output, "write problem and steps as JSON");
    app.add_option("--check", request_.schedule, "check the steps of this file (JSON) instead");
    add_pass_options(app, pass_options_);
    add_plugin_option(app, plugins_);
  }
  int run(const CLI::App& app) override {
    if (!request_.schedule.empty()) check_mode(app, "with --check", {"problem", "--limit", "--check"});
    load_plugins(plugins_);
    request_.options = parse_pass_options(pass_options_);
    const isa::ProgressBar bar("ordering");
    return scheduler::recompute_file(request_, result_stream({request_.output}));
  }

 private:
  scheduler::RecomputeFileRequest request_;
  std::vector<std::string> pass_options_;
  std::vector<std::string> plugins_;
};

class ScheduleCommand : public Command {
 public:
  void declare(CLI::App& app) override {
    app.add_option("problem", request_.file, "problem.json")->required();
    app.add_option("--scheduler", request_.scheduler, "of blocks or loops");
    app.add_option("-o,--output", request_.output, "write the schedule as JSON");
    app.add_option("--check", request_.schedule, "check this schedule (JSON) instead");
    app.add_option(
        "--draw", drawing_,
        "draw dependences and steps: an SVG, or if the name ends in .dot the dependences for Graphviz");
    add_pass_options(app, pass_options_);
    add_plugin_option(app, plugins_);
  }
  int run(const CLI::App& app) override {
    if (!request_.schedule.empty())
      check_mode(app, "with --check", {"problem", "--output", "--check", "--draw"});
    load_plugins(plugins_);
    request_.options = parse_pass_options(pass_options_);
    if (!drawing_.empty()) {
      request_.draw = [&](const scheduler::ScheduleProblem& problem, const scheduler::Schedule& schedule) {
        DrawnBlock block{"Dependences: " + problem.name, problem, {}};
        if (!problem.is_loop)
          block.charts.push_back({"Before, one operation per step",
                                  scheduler::find_block_scheduler("sequential", false).run(problem, {})});
        block.charts.push_back({problem.is_loop ? "An iteration" : "After", schedule});
        write_drawing(drawing_, problem.name, {block});
      };
    }
    const isa::ProgressBar bar("scheduling");
    return scheduler::schedule_file(request_, result_stream({request_.output, drawing_}));
  }

 private:
  scheduler::ScheduleFileRequest request_;
  std::string drawing_;
  std::vector<std::string> pass_options_;
  std::vector<std::string> plugins_;
};

}  // namespace

void add_schedule_commands(CommandLine& line) {
  CLI::App* bench = line.add_family("bench", "measure the simulated chip");
  line.add<BandwidthCommand>("bandwidth", "the rate of every kind of transfer, beside that of the chip file",
                             bench);
  line.add<BenchKernelsCommand>(
      "kernels", "layers of many shapes, compiled and run, beside what their problems need", bench);
  line.add<BenchScheduleCommand>("schedule",
                                 "all schedulers on a set of blocks and loops, beside lower bounds", bench);
  line.add<BenchPackingCommand>(
      "packing", "an address packer on generated problems with known solutions, or on files", bench);
  line.add<BenchRecomputeCommand>(
      "recompute", "what is computed again when memory is short, on generated problems or files", bench);
  line.add<RecomputeCommand>("recompute",
                             "order operations from a JSON file, or repeat some, within a memory");
  line.add<PackCommand>("pack", "give the buffers of a file addresses in one memory, by their lifetimes");
  line.add<ScheduleCommand>(
      "schedule", "schedule a block or loop from a JSON file (--dump-after schedule-problem makes such)");
}

}  // namespace kodama::tools
