#include <fmt/format.h>
#include <fmt/ostream.h>

#include <algorithm>
#include <iostream>
#include <thread>

#include "compiler/driver/inspect.h"
#include "compiler/driver/operators_page.h"
#include "compiler/driver/session.h"
#include "compiler/driver/sweep.h"
#include "isa/error.h"
#include "tools/command_groups.h"
#include "tools/common_options.h"
#include "tools/options.h"
#include "tools/session_options.h"

namespace kodama::tools {
namespace {

class ReportCommand : public Command {
 public:
  void declare(CLI::App& app) override {
    app.add_option("files", request_.files, "what `kodama run --json` wrote; two are compared")
        ->required()
        ->expected(1, 2);
    app.add_option("-o,--output", request_.html_file, "page to write")->required();
  }
  int run(const CLI::App& /*app*/) override {
    report_stream({request_.html_file});
    return compiler::report_command(request_);
  }

 private:
  compiler::ReportRequest request_;
};

class PlanCommand : public Command {
 public:
  void declare(CLI::App& app) override {
    app.add_option("model", request_.model_file, "model.onnx")->required();
    add_model_options(app, model_);
    add_pass_options(app, model_.pass_options);
    app.add_option("--json", request_.common.json_file, "write what every planner finds as JSON");
  }
  int run(const CLI::App& /*app*/) override {
    finish_options(model_, request_.common);
    return compiler::plan_command(request_, session_stream(request_.common));
  }

 private:
  compiler::PlanRequest request_;
  ModelOptions model_;
};

class SweepCommand : public Command {
 public:
  void declare(CLI::App& app) override {
    app.add_option("model", request_.model_file, "model.onnx")->required();
    app.add_option(
           "--set", sets_,
           "KEY=VALUE,VALUE,...: a key of the chip file (memory.l2bm_lw) or an option of the compiler "
           "(weights, scheduler), and what it is to be; may be repeated: all combinations")
        ->required()
        ->allow_extra_args(false);
    app.add_option("--csv", request_.csv_file, "write the rows as CSV");
    app.add_option(
        "--plot", request_.plot_file,
        "write a plot as SVG: cycles over the values of the first --set, a line for each combination "
        "of the others");
    add_compile_options(app, model_);
    add_host_option(app, request_.common.host);
    add_seed(app, request_.common.seed, "seed of random inputs");
    add_thread_count(app, "--jobs", jobs_, "combinations at a time; 0 = all cores", 0);
    add_thread_count(app, "--threads", request_.common.threads, "threads of the simulator for each of them",
                     1);
  }
  int run(const CLI::App& /*app*/) override {
    finish_options(model_, request_.common);
    for (const std::string& set : sets_) {
      const size_t equals = set.find('=');
      compiler::SweepAxis axis{set.substr(0, equals), {}};
      for (size_t at = equals; at != std::string::npos;) {
        const size_t end = set.find(',', at + 1);
        axis.values.push_back(set.substr(at + 1, end == std::string::npos ? end : end - at - 1));
        at = end;
      }
      if (axis.key.empty() || axis.values.empty() || std::ranges::find(axis.values, "") != axis.values.end())
        throw isa::UserError(fmt::format(
            "--set {}: allowed is KEY=VALUE,VALUE,..., for example --set memory.l2bm_lw=16384,32768", set));
      request_.axes.push_back(std::move(axis));
    }
    request_.jobs = jobs_ > 0 ? jobs_ : std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
    return compiler::sweep_command(request_, report_stream({request_.csv_file, request_.plot_file}));
  }

 private:
  compiler::SweepRequest request_;
  ModelOptions model_;
  std::vector<std::string> sets_;
  int jobs_ = 0;
};

class InspectCommand : public Command {
 public:
  void declare(CLI::App& app) override {
    CLI::Option* model = app.add_option("model", request_.model_file, "model.onnx");
    app.add_option("--dim", model_.dims, "NAME=N: extent of a symbolic dimension; INPUT:AXIS=N by position");
    app.add_option("--bind", model_.bind, "NAME=FILE: fix an input (axes, pads, shapes)");
    app.add_option("--json", request_.common.json_file, "write all of it as JSON");
    add_plugin_option(app, model_.plugins);
    app.add_flag("--operators", operators_, "print docs/operators.md: all operators, and where they run")
        ->excludes(model);
  }
  int run(const CLI::App& /*app*/) override {
    if (operators_) {
      fmt::print(std::cout, "{}", compiler::operators_page());
      return isa::kExitOk;
    }
    if (request_.model_file.empty()) throw isa::UserError("inspect: name a model, or give --operators");
    finish_options(model_, request_.common);
    return compiler::inspect_command(request_, session_stream(request_.common));
  }

 private:
  compiler::InspectRequest request_;
  ModelOptions model_;
  bool operators_ = false;
};

}  // namespace

void add_model_commands(CommandLine& line) {
  add_run_command(line);
  line.add<ReportCommand>("report",
                          "make a page of HTML of a run, or of two that are compared (docs/report.md)");
  add_compile_command(line);
  line.add<SweepCommand>(
      "sweep", "a model with every value of keys of the chip file, or options: cycles beside each other");
  line.add<InspectCommand>(
      "inspect", "what a model is, and where each of its operators will run: chip, host, or nowhere");
  line.add<PlanCommand>(
      "plan",
      "choose kernels and layouts of a model with every planner; compare the cycles of the relayouts");
}

}  // namespace kodama::tools
