#include <fmt/format.h>
#include <fmt/ostream.h>
#include <kodama/pipeline.h>

#include <algorithm>

#include "isa/error.h"
#include "isa/progress.h"
#include "tools/command_groups.h"
#include "tools/commands/result_text.h"
#include "tools/common_options.h"
#include "tools/options.h"

/// `kodama run` and `kodama compile`: what the library does, and how the command line says it.
namespace kodama::tools {
namespace {

class RunCommand : public Command {
 public:
  void declare(CLI::App& app) override {
    app.add_option("model", file_, "model.onnx")->required();
    add_compile_options(app, model_);
    add_input_options(app, inputs_, session_.threads, report_.files);
    add_report_options(app, report_);
    app.add_option("--report", report_.files.report,
                   "write a page of HTML: network, timeline, memories, layouts (docs/report.md)");
    add_run_view_options(app);
    add_host_option(app, host_);
    add_hazards_option(app, session_.hazards);
    add_number(app, "--repeat", repeat_,
               "runs with the same inputs; all outputs are compared, the table is of the last", 1, 1'000'000)
        ->capture_default_str();
    CLI::Option* pipeline =
        app.add_flag("--pipeline", is_pipeline_,
                     "of --repeat runs: throughput against latency, some runs in flight at a time, each with "
                     "random inputs of its own; all bits are compared with those of one by one");
    add_number(app, "--in-flight", in_flight_, "runs that the host has handed in at a time", 1, 1000)
        ->needs(pipeline)
        ->capture_default_str();
    add_number(
        app, "--cache-limit", cache_limit_,
        "programs kept of a model whose shapes or ways only the data know; the least recently used goes", 1,
        1'000'000)
        ->capture_default_str();
    app.add_option(
           "--bucket", buckets_,
           "DIM=16,32,64: a dimension that is found at run time is padded to the next of these, with the "
           "same results; DIM is its name, or VALUE:AXIS; may be repeated")
        ->allow_extra_args(false);
    add_test_data_options(app, inputs_, tolerance_);
    app.add_flag("--show-images", view_.images, "print picture-like inputs as text art");
    app.add_flag("--classes", view_.classes, "print the index of the largest output of each row");
    app.add_flag("!--no-compare", compare_, "don't run the CPU reference");
    app.add_flag("--check-layers", model_.check_layers,
                 "compare every layer with the reference: all results go to DRAM, also those that wouldn't");
  }

  int run(const CLI::App& app) override {
    load_plugins(model_.plugins);
    ImportSettings import{.dims = parse_dims(model_.dims)};
    CompileSettings compile = compile_settings(model_);
    compile.buckets = buckets_;
    compile.cache_limit = cache_limit_;
    compile.keeps_reference = compare_;
    finish_report_options(app, report_, session_.hazards);
    check_input_options(app, inputs_);
    if (!compare_ && inputs_.test_data.empty() && is_given(app, "--tolerance"))
      throw isa::UserError("--tolerance: no effect with --no-compare");
    session_.timing = report_.timing;
    session_.host_overlaps = host_ == "overlap";
    const RunFiles& files = report_.files;
    std::ostream& out = run_stream({files.outputs, compile.dump_after.empty() ? "" : compile.dump_directory},
                                   {files.statistics, files.trace, files.vcd, files.json, files.report});
    if (is_pipeline_) check_pipeline_options();

    isa::ProgressBar bar("importing");
    compile.progress = session_.progress = to_bar(bar);
    import.bind = read_bound(model_.bind);
    Model model = Model::from_file(file_, import);
    times_.end("import");
    bar.phase("compiling");
    const Program program = Program::compile(std::move(model), compile);
    if (is_static(program)) times_.end("compile");
    bar.finish();
    const bool is_right = is_pipeline_ ? run_in_a_row(program, bar, out) : run_data_sets(program, bar, out);
    fmt::print(out, "wall time: {}\n", times_.text());
    return is_right ? isa::kExitOk : isa::kExitOutOfTolerance;
  }

 private:
  static bool is_static(const Program& program) { return program.open_reason().empty(); }

  bool run_data_sets(const Program& program, isa::ProgressBar& bar, std::ostream& out) {
    bar.phase("reading inputs");
    const std::vector<DataSet> sets = read_inputs(inputs_, program);
    if (is_static(program)) times_.end("inputs");
    bar.phase("loading the chip");
    Session session(program, session_);
    times_.end(is_static(program) ? "load chip" : "inputs");
    auto set = sets.begin();
    const auto ready = [&](const Result& result) {
      bar.finish();
      print_result(result, program, (set++)->inputs, repeat_, view_, out);
    };
    const std::vector<Result> results =
        session.run_all(sets,
                        {.files = report_.files,
                         .repeat = repeat_,
                         .compare = compare_,
                         .statistics = report_.prints_statistics(),
                         .tolerance = tolerance_,
                         .times = &times_,
                         .phase = [&](const std::string& what) { bar.phase(what); }},
                        ready);
    if (!results.empty()) out << results.back().statistics;
    return std::ranges::all_of(results, &Result::ok);
  }

  /// Refuses options that say nothing in a pipeline.
  void check_pipeline_options() {
    const auto refuse = [](const std::string& option, const std::string& why) {
      throw isa::UserError(fmt::format("{}: not with --pipeline, {}", option, why));
    };
    if (!report_.timing) refuse("--no-timing", "which shows time");
    if (host_ != "overlap") refuse("--host " + host_, "which overlaps what the host does");
    if (report_.any() || !report_.files.report.empty())
      refuse("--stats, --trace, --vcd", "which is about many runs; use --repeat alone");
    if (model_.check_layers) refuse("--check-layers", "which compares outputs");
    if (!inputs_.test_data.empty()) refuse("--test-data", "which has inputs by --input or --seed");
    pipeline_settings().check();
  }
  PipelineSettings pipeline_settings() {
    return {.runs = repeat_,
            .in_flight = in_flight_,
            .compare = compare_,
            .tolerance = tolerance_,
            .files = report_.files,
            .times = &times_,
            .session = session_};
  }

  bool run_in_a_row(const Program& program, isa::ProgressBar& bar, std::ostream& out) {
    bar.phase("pipeline");
    const auto inputs_of = [&](int64_t run) {
      InputOptions own = inputs_;
      own.seed += static_cast<uint64_t>(run);
      Tensors tensors;
      const std::vector<DataSet> sets = read_inputs(own, program);
      for (const auto& [name, value] : sets.front().inputs) tensors.emplace(name, value.tensor());
      return tensors;
    };
    const auto ready = [&](const PipelineResult& result) {
      bar.finish();
      print_pipeline(result, out);
      const bool same_bits = result.differences.empty();
      for (const std::string& difference : result.differences) fmt::print(out, "{}: FAILED\n", difference);
      if (same_bits)
        fmt::print(out, "outputs of all {} inferences: the same bits as one by one\n", result.runs);
      print_outputs(Values(result.outputs.begin(), result.outputs.end()), view_.classes, out);
      for (const Comparison& each : result.comparisons)
        fmt::print(out, "{} against the CPU reference: {}\n", each.name, each.text());
    };
    return run_pipeline(program, inputs_of, pipeline_settings(), ready).ok;
  }

  static void print_pipeline(const PipelineResult& figures, std::ostream& out) {
    const auto line = [&](const std::string& what, double cycles, const std::string& more) {
      fmt::print(out, "{:<34}{:>10.0f} cycles  {:>9.4f} ms{}\n", what, cycles,
                 cycles / figures.clock_hz * 1e3, more);
    };
    fmt::print(out, "{} inferences, {} in flight:\n", figures.runs, figures.in_flight);
    line("latency of one alone", static_cast<double>(figures.latency_alone), "");
    line("latency in the row, at most", static_cast<double>(figures.latency), "");
    line("from one to the next", figures.interval,
         fmt::format("  {:.0f} inferences per second", figures.per_second()));
    line("one takes of the chip", static_cast<double>(figures.chip), "");
    line("of the link to it", static_cast<double>(figures.link_in), "");
    line("of the link from it", static_cast<double>(figures.link_out), "");
    if (figures.host > 0) line("of the host, for layers", static_cast<double>(figures.host), "");
    fmt::print(out, "the slower of link and chip is the {}: the row reaches {:.1f} % of it\n",
               figures.chip >= figures.link() ? "chip" : "link", 100 * figures.share());
  }

  std::string file_;
  ModelOptions model_;
  InputOptions inputs_;
  ReportOptions report_;
  SessionSettings session_;
  std::string host_ = "overlap";
  int64_t repeat_ = 1;
  bool is_pipeline_ = false;
  int64_t in_flight_ = 2;
  int64_t cache_limit_ = 64;
  std::vector<std::string> buckets_;
  std::optional<double> tolerance_;
  bool compare_ = true;
  ResultView view_;
  WallTimes times_;
};

class CompileCommand : public Command {
 public:
  void declare(CLI::App& app) override {
    app.add_option("model", file_, "model.onnx")->required();
    app.add_option("-o,--output", directory_, "directory to write")->required();
    add_compile_options(app, model_);
  }
  int run(const CLI::App& /*app*/) override {
    load_plugins(model_.plugins);
    ImportSettings import{.dims = parse_dims(model_.dims), .allows_open = false};
    CompileSettings compile = compile_settings(model_);
    std::ostream& out = run_stream({compile.dump_after.empty() ? "" : compile.dump_directory}, {});
    Program::check_directory(directory_);
    isa::ProgressBar bar("importing");
    compile.progress = to_bar(bar);
    import.bind = read_bound(model_.bind);
    Model model = Model::from_file(file_, import);
    bar.phase("compiling");
    const Program program = Program::compile(std::move(model), compile);
    bar.phase("writing");
    program.save(directory_, to_bar(bar));
    bar.finish();
    fmt::print(out, "{}: {}", directory_, program.summary());
    return isa::kExitOk;
  }

 private:
  std::string file_;
  std::string directory_;
  ModelOptions model_;
};

}  // namespace

void add_run_command(CommandLine& line) {
  line.add<RunCommand>("run",
                       "compile an ONNX model, run it on the simulated chip, compare with the CPU reference");
}
void add_compile_command(CommandLine& line) {
  line.add<CompileCommand>("compile",
                           "compile an ONNX model to a directory of VSM programs, images and a manifest");
}

}  // namespace kodama::tools
