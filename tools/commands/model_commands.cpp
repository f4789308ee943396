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

namespace kodama::tools {
namespace {

class RunCommand : public Command {
 public:
  void declare(CLI::App& app) override {
    app.add_option("model", request_.model_file, "model.onnx")->required();
    add_compile_options(app, request_.common, raw_);
    add_input_options(app, request_.common);
    add_report_options(app, request_.common.report, request_.common.timing);
    app.add_option("--report", request_.common.html_file,
                   "write a page of HTML: network, timeline, memories, layouts (docs/report.md)");
    add_run_view_options(app);
    add_host_option(app, request_.common.host);
    add_hazards_option(app, request_.common.hazards);
    add_number(app, "--repeat", request_.repeat,
               "runs with the same inputs; all outputs are compared, the table is of the last", 1, 1'000'000)
        ->capture_default_str();
    CLI::Option* pipeline =
        app.add_flag("--pipeline", request_.pipeline,
                     "of --repeat runs: throughput against latency, some runs in flight at a time, each with "
                     "random inputs of its own; all bits are compared with those of one by one");
    add_number(app, "--in-flight", request_.in_flight, "runs that the host has handed in at a time", 1, 1000)
        ->needs(pipeline)
        ->capture_default_str();
    add_number(
        app, "--cache-limit", request_.common.cache_limit,
        "programs kept of a model whose shapes or ways only the data know; the least recently used goes", 1,
        1'000'000)
        ->capture_default_str();
    app.add_option(
           "--bucket", request_.common.buckets,
           "DIM=16,32,64: a dimension that is found at run time is padded to the next of these, with the "
           "same results; DIM is its name, or VALUE:AXIS; may be repeated")
        ->allow_extra_args(false);
    add_test_data_options(app, request_.test_data, request_.tolerance);
    app.add_flag("--show-images", request_.show_images, "print picture-like inputs as text art");
    app.add_flag("--classes", request_.show_classes, "print the index of the largest output of each row");
    app.add_flag("!--no-compare", request_.compare, "don't run the CPU reference");
    app.add_flag("--check-layers", request_.common.check_layers,
                 "compare every layer with the reference: all results go to DRAM, also those that wouldn't");
  }
  int run(const CLI::App& app) override {
    finish_options(raw_, request_.common);
    simulator::ReportOptions& report = request_.common.report;
    report.keeps_timeline = report.timeline.keeps_transfers = !request_.common.html_file.empty();
    check_report_options(app, request_.common.report, request_.common.timing, request_.common.hazards);
    for (const char* option : {"--input", "--seed"}) {
      if (!request_.test_data.empty() && is_given(app, option))
        throw isa::UserError(fmt::format("{}: no effect with --test-data, which has the inputs", option));
    }
    if (!request_.compare && request_.test_data.empty() && is_given(app, "--tolerance"))
      throw isa::UserError("--tolerance: no effect with --no-compare");
    return compiler::run_command(request_, run_stream(request_.common));
  }

 private:
  compiler::RunRequest request_;
  RawOptions raw_;
};

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

class CompileCommand : public Command {
 public:
  void declare(CLI::App& app) override {
    app.add_option("model", request_.model_file, "model.onnx")->required();
    app.add_option("-o,--output", request_.directory, "directory to write")->required();
    add_compile_options(app, request_.common, raw_);
  }
  int run(const CLI::App& /*app*/) override {
    finish_options(raw_, request_.common);
    return compiler::compile_command(request_, run_stream(request_.common));
  }

 private:
  compiler::CompileRequest request_;
  RawOptions raw_;
};

class PlanCommand : public Command {
 public:
  void declare(CLI::App& app) override {
    app.add_option("model", request_.model_file, "model.onnx")->required();
    add_model_options(app, request_.common, raw_);
    add_pass_options(app, raw_.pass_options);
    app.add_option("--json", request_.common.json_file, "write what every planner finds as JSON");
  }
  int run(const CLI::App& /*app*/) override {
    finish_options(raw_, request_.common);
    return compiler::plan_command(request_, session_stream(request_.common));
  }

 private:
  compiler::PlanRequest request_;
  RawOptions raw_;
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
    add_compile_options(app, request_.common, raw_);
    add_host_option(app, request_.common.host);
    add_seed(app, request_.common.seed, "seed of random inputs");
    add_thread_count(app, "--jobs", jobs_, "combinations at a time; 0 = all cores", 0);
    add_thread_count(app, "--threads", request_.common.threads, "threads of the simulator for each of them",
                     1);
  }
  int run(const CLI::App& /*app*/) override {
    finish_options(raw_, request_.common);
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
  RawOptions raw_;
  std::vector<std::string> sets_;
  int jobs_ = 0;
};

class InspectCommand : public Command {
 public:
  void declare(CLI::App& app) override {
    CLI::Option* model = app.add_option("model", request_.model_file, "model.onnx");
    app.add_option("--dim", raw_.dims, "NAME=N: extent of a symbolic dimension; INPUT:AXIS=N by position");
    app.add_option("--bind", request_.common.bind, "NAME=FILE: fix an input (axes, pads, shapes)");
    app.add_option("--json", request_.common.json_file, "write all of it as JSON");
    add_plugin_option(app, raw_.plugins);
    app.add_flag("--operators", operators_, "print docs/operators.md: all operators, and where they run")
        ->excludes(model);
  }
  int run(const CLI::App& /*app*/) override {
    if (operators_) {
      fmt::print(std::cout, "{}", compiler::operators_page());
      return compiler::kExitOk;
    }
    if (request_.model_file.empty()) throw isa::UserError("inspect: name a model, or give --operators");
    finish_options(raw_, request_.common);
    return compiler::inspect_command(request_, session_stream(request_.common));
  }

 private:
  compiler::InspectRequest request_;
  RawOptions raw_;
  bool operators_ = false;
};

}  // namespace

void add_model_commands(CommandLine& line) {
  line.add<RunCommand>("run",
                       "compile an ONNX model, run it on the simulated chip, compare with the CPU reference");
  line.add<ReportCommand>("report",
                          "make a page of HTML of a run, or of two that are compared (docs/report.md)");
  line.add<CompileCommand>("compile",
                           "compile an ONNX model to a directory of VSM programs, images and a manifest");
  line.add<SweepCommand>(
      "sweep", "a model with every value of keys of the chip file, or options: cycles beside each other");
  line.add<InspectCommand>(
      "inspect", "what a model is, and where each of its operators will run: chip, host, or nowhere");
  line.add<PlanCommand>(
      "plan",
      "choose kernels and layouts of a model with every planner; compare the cycles of the relayouts");
}

}  // namespace kodama::tools
