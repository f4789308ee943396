#include "compiler/driver/session.h"

#include <fmt/format.h>
#include <fmt/ostream.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <ostream>

#include "compiler/compile/plan_slices.h"
#include "compiler/driver/pipeline.h"
#include "compiler/driver/session_parts.h"
#include "compiler/graph/gradient/gradient_nodes.h"
#include "compiler/package/package.h"
#include "compiler/reference/onnx_backend_test.h"
#include "compiler/report/html_report.h"
#include "compiler/report/progress.h"
#include "compiler/report/report.h"
#include "compiler/report/traced_run.h"
#include "compiler/runtime/comparison.h"
#include "isa/file.h"
#include "isa/output.h"
#include "isa/verbosity.h"

namespace kodama::compiler {
namespace {

struct Compiled {
  // Empty unless they are asked for: weights take memory.
  onnx::ModelProto imported;  ///< before the graph passes: the reference of the outputs
  onnx::ModelProto prepared;  ///< after them: the reference of the layers
  CompiledModel model;
};

/// `model` is imported, and `times` ends that; `bar` gets the phase.
Compiled compile_imported(const SessionOptions& options, onnx::ModelProto model, bool keeps_references,
                          WallTimes& times, ProgressBar& bar) {
  CompileOptions compile = compile_options(options, dump_points(&options.passes), options.planner);
  const isa::Chip chip = isa::find_chip(options.chip);
  Compiled result;
  if (keeps_references) result.imported = model;
  times.end("import");
  layout::SolutionCache cache(options.cache);
  if (!options.cache.empty()) compile.cache = &cache;
  bar.phase("compiling");
  compile.progress = [&](int64_t done, int64_t total, const std::string& what) {
    bar.update(done, total, what);
  };
  result.model =
      compile_model(std::move(model), chip, compile, keeps_references ? &result.prepared : nullptr);
  times.end("compile");
  return result;
}

/// Where a wrong result begins, and what to try.
void print_first_wrong_layer(const CompiledModel& model, const Comparisons& layers, double tolerance,
                             std::ostream& out) {
  const auto first = std::ranges::find_if(model.stages, [&](const Stage& stage) {
    const Comparison* comparison = find_comparison(stage, model, layers);
    return comparison != nullptr && !within(*comparison, tolerance);
  });
  if (first == model.stages.end()) {
    fmt::print(out, "no layer that was compared is out of tolerance; --check-layers compares all\n");
  } else {
    fmt::print(out, "first layer out of tolerance: '{}' ({}): {}\n", first->name,
               fmt::join(first->onnx_ops, "+"), verdict(*find_comparison(*first, model, layers), tolerance));
  }
  if (model.precision != MatrixPrecision::kFloat)
    fmt::print(out, "what products lose at {} may be the reason: try --precision float\n",
               matrix_precision_name(model.precision));
}

/// Which layers that kernels of plugins compute came out wrong.
void print_wrong_kernels(const CompiledModel& model, const Comparisons& layers, double tolerance,
                         std::ostream& out) {
  for (const Stage& stage : model.stages) {
    const auto* chip = std::get_if<ChipStage>(&stage.body);
    if (chip == nullptr) continue;
    const auto kernel = std::ranges::find(kernels(), chip->kernel, &Kernel::name);
    if (kernel == kernels().end() || kernel->plugin.empty()) continue;
    const std::string& result = model.tensors[static_cast<size_t>(stage.outputs.at(0))].name;
    const auto found = layers.find(result);
    if (found != layers.end() && !within(found->second, tolerance))
      fmt::print(out, "'{}' of layer '{}', by kernel '{}' of plugin {}: {}\n", result, stage.name,
                 kernel->name, kernel->plugin, verdict(found->second, tolerance));
  }
}

/// Inputs, and what is recorded of their outputs.
struct DataSet {
  std::string name;
  TensorMap inputs;
  TensorMap expected;

  OutputFiles files(const CompiledModel& model, const std::string& directory) const {
    return {output_names(model), name.empty() || directory.empty() ? directory : directory + "/" + name};
  }
};

/// Those of a directory of test data; without one, one of --input and random inputs.
std::vector<DataSet> read_data_sets(const std::string& test_data, const CompiledModel& model,
                                    const SessionOptions& options) {
  if (test_data.empty()) return {{"", read_inputs(model, options.inputs, options.seed), {}}};
  std::vector<DataSet> sets;
  BackendTestCase test = load_backend_test(test_data);
  for (BackendTestData& data : test.data_sets) {
    for (const std::string& name : test.random_outputs) data.outputs.erase(name);
    sets.push_back({data.name, to_tensors(std::move(data.inputs), "input"),
                    to_tensors(std::move(data.outputs), "output")});
    check_inputs(model, sets.back().inputs);
  }
  return sets;
}

/// Whether a run's outputs are those of its data set.
bool print_recorded(const DataSet& set, const RunOutcome& outcome, double tolerance, std::ostream& out) {
  bool passed = true;
  for (const auto& [name, tensor] : set.expected) {
    const auto found = outcome.outputs.find(name);
    if (found == outcome.outputs.end())
      throw isa::UserError(
          fmt::format("{}: found an output '{}', which the model doesn't have", set.name, name));
    const Comparison comparison = compare_tensors(found->second, tensor);
    print_verdict(fmt::format("{} against the recorded output: {}", name, verdict(comparison, tolerance)),
                  within(comparison, tolerance), out);
    passed &= within(comparison, tolerance);
  }
  return passed;
}

}  // namespace

TensorMap read_inputs(const CompiledModel& model, const std::vector<std::string>& specifications,
                      uint64_t seed) {
  TensorMap inputs = read_named_tensors("--input", specifications);
  for (TensorId id : model.inputs) {
    const LayerTensor& info = model.tensors[static_cast<size_t>(id)];
    if (!inputs.contains(info.name))
      inputs[info.name] = random_input(info.name, info.type, model.whole_shape(id), seed);
  }
  check_inputs(model, inputs);
  return inputs;
}

int run_command(const RunRequest& request, std::ostream& out) {
  const SessionOptions& options = request.common;
  if (request.pipeline) check_pipeline_options(request);
  WallTimes times;
  ProgressBar bar("importing");
  ImportedModel imported =
      import_any_model(request.model_file, {options.dims, read_named_tensors("--bind", options.bind)});
  expand_gradient_nodes(imported, request.model_file);
  if (request.pipeline && !imported.open_reason.empty())
    throw isa::UnsupportedError(fmt::format(
        "--pipeline: {}, so the model is compiled in parts while it runs; --dim and --bind fix its shapes",
        imported.open_reason));
  if (!imported.open_reason.empty()) {
    bar.finish();
    return run_dynamic_command(request, std::move(imported), times, out);
  }
  if (!options.buckets.empty())
    throw isa::UserError(fmt::format("--bucket {}: all shapes of this model are known before it runs",
                                     options.buckets.front()));
  const Compiled compiled = compile_imported(options, std::move(imported.model), request.compare, times, bar);
  const CompiledModel& model = compiled.model;
  bar.finish();
  if (request.pipeline) return run_pipeline(request, model, compiled.imported, times, out);
  const double tolerance = request.tolerance.value_or(default_tolerance(model.precision));

  bar.phase("reading inputs");
  const std::vector<DataSet> sets = read_data_sets(request.test_data, model, options);

  TensorMap observed;
  RunnerOptions runner_options = compiler::runner_options(options);
  runner_options.progress = [&](int64_t done, int64_t total, const std::string& what) {
    bar.update(done, total, what);
  };
  if (request.compare) {
    runner_options.observe = [&](const std::string& name, const Tensor& tensor) { observed[name] = tensor; };
  }
  simulator::RunReport report(model.chip, options.report);
  times.end("inputs");
  bar.phase("loading the chip");
  ModelRunner runner(model, runner_options);
  times.end("load chip");
  bool passed = true;
  nlohmann::ordered_json json = nlohmann::ordered_json::array();
  for (const DataSet& set : sets) {
    const OutputFiles files = set.files(model, options.output_directory);
    // Statistics and traces are of the last, as the table.
    size_t programs_before = 0;
    const auto run = [&](int64_t number) {
      observed.clear();
      const bool is_last = number == request.repeat;
      if (report.timeline() != nullptr) programs_before = report.timeline()->program_begins().size() - 1;
      // Of several runs the last one is shown as one in a row of many.
      return runner.run(set.inputs, is_last && options.report.any() ? &report : nullptr, request.repeat > 1);
    };
    bar.phase("running");
    RunOutcome outcome = run(1);
    Runs runs{request.repeat, outcome.first_cycles(),
              outcome.preparation.dram_bytes + outcome.total.dram_bytes, outcome};
    std::vector<std::string> differences;
    for (int64_t number = 2; number <= request.repeat; ++number) {
      RunOutcome again = run(number);
      for (const auto& [name, tensor] : again.outputs) {
        if (!(tensor == outcome.outputs.at(name)))
          differences.push_back(
              fmt::format("{} of run {} has other bits than that of the first: FAILED", name, number));
      }
      outcome = std::move(again);
    }
    bar.finish();
    times.end("run");
    Comparisons layers;
    Comparisons outputs;
    if (request.compare) {
      bar.phase("computing the CPU reference");
      const TensorMap reference = run_graph(compiled.prepared, set.inputs, {.keep_intermediates = true});
      const TensorMap expected = run_graph(compiled.imported, set.inputs);
      bar.finish();
      times.end("reference");
      for (const auto& [name, tensor] : observed) {
        const auto found = reference.find(name);
        if (found != reference.end()) layers[name] = compare_tensors(tensor, found->second);
      }
      for (const auto& [name, tensor] : outcome.outputs)
        outputs[name] = compare_tensors(tensor, expected.at(name));
    }

    if (!set.name.empty()) fmt::print(out, "=== {} ===\n", set.name);
    if (request.show_images) {
      for (const auto& [name, tensor] : set.inputs) print_text_art(name, tensor, out);
    }
    print_layer_table(model, runs, layers, out);
    print_relayouts(model, outcome, out);
    print_schedules_given_up(model, out);
    print_host_layers(model, out);
    print_host_share(host_shares(model, outcome), outcome.total.chip.cycles(), out);
    print_outputs(borrow_values(outcome.outputs), request.show_classes, out);
    for (const std::string& difference : differences) print_verdict(difference, false, out);
    passed &= differences.empty();
    if (request.repeat > 1 && differences.empty())
      fmt::print(out, "outputs of all {} runs: the same bits\n", request.repeat);
    bool is_right = true;
    for (const auto& [name, comparison] : outputs) {
      print_verdict(fmt::format("{} against the CPU reference: {}", name, verdict(comparison, tolerance)),
                    within(comparison, tolerance), out);
      is_right &= within(comparison, tolerance);
    }
    nlohmann::ordered_json on_operands = nlohmann::ordered_json::array();
    if (!is_right) {
      const auto run_shown = [&](const GraphProblem& shown) {
        ImportedModel again = import_any_model(shown.model, {}, request.model_file);
        WallTimes ignored;
        SessionOptions own = options;
        own.dump_after.clear();
        const Compiled other = compile_imported(own, std::move(again.model), false, ignored, bar);
        bar.phase("running with the chip's operands");
        RunnerOptions plain = compiler::runner_options(options);
        plain.timing = false;
        auto values =
            to_values(ModelRunner(other.model, plain).run(to_tensors(shown.inputs, "input")).outputs);
        bar.finish();
        return values;
      };
      is_right =
          print_with_chip_operands(compare_with_chip_operands({compiled.imported, borrow_values(set.inputs)},
                                                              borrow_values(outcome.outputs), run_shown),
                                   tolerance, out, on_operands);
      times.end("reference on the chip's operands");
    }
    if (!is_right) print_first_wrong_layer(model, layers, tolerance, isa::failure_stream(out));
    passed &= is_right;
    print_wrong_kernels(model, layers, tolerance, out);
    passed &= print_recorded(set, outcome, tolerance, out);
    files.write(borrow_values(outcome.outputs));
    if (!options.json_file.empty() || !options.html_file.empty()) {
      const std::optional<TracedRun> traced = traced_run(model, report, programs_before);
      auto entry = run_to_json(model, runs, layers, outputs, traced ? &*traced : nullptr);
      entry["data_set"] = set.name;
      if (!on_operands.empty()) entry["on_the_chips_operands"] = std::move(on_operands);
      json.push_back(entry);
    }
    times.end("report");
  }
  report.finish(out);
  times.end("report");
  for (auto& entry : json) entry["wall_seconds"] = times.to_json();  // of the command, all data sets together
  if (json.size() == 1) json = nlohmann::ordered_json(json[0]);
  if (!options.json_file.empty()) isa::write_output(options.json_file, json.dump(1) + "\n");
  if (!options.html_file.empty()) isa::write_output(options.html_file, html_report({{model.name, json}}));
  fmt::print(out, "wall time: {}\n", times.to_string());
  return passed ? kExitOk : kExitOutOfTolerance;
}

int report_command(const ReportRequest& request) {
  std::vector<ReportSource> sources;
  for (const std::string& file : request.files) {
    const std::string text = isa::read_file(file);
    try {
      sources.push_back({file, nlohmann::ordered_json::parse(text)});
    } catch (const nlohmann::json::exception& error) {
      throw isa::UserError(fmt::format("{}: not JSON: {}", file, error.what()));
    }
  }
  isa::write_output(request.html_file, html_report(sources));
  return kExitOk;
}

int compile_command(const CompileRequest& request, std::ostream& out) {
  check_package_directory(request.directory);
  WallTimes times;
  const SessionOptions& options = request.common;
  ProgressBar bar("importing");
  onnx::ModelProto imported =
      import_model(request.model_file, {options.dims, read_named_tensors("--bind", options.bind)});
  expand_gradient_nodes(imported, request.model_file);
  const Compiled compiled = compile_imported(options, std::move(imported), false, times, bar);
  bar.phase("writing");
  save_package(compiled.model, request.directory,
               [&](int64_t done, int64_t total, const std::string& what) { bar.update(done, total, what); });
  bar.finish();
  int64_t steps = 0;
  int64_t mvs = 0;
  for (const Segment& segment : compiled.model.segments) {
    const isa::ProgramCounts counts = isa::count(segment.parts.program);
    steps += counts.steps * compiled.model.slices;
    mvs += counts.mvs * compiled.model.slices;
  }
  fmt::print(out, "{}: {} stages, {} steps, {} MV transfers, for chip {} at {} precision\n",
             request.directory, compiled.model.stages.size(), steps, mvs, compiled.model.chip.name,
             matrix_precision_name(compiled.model.precision));
  print_slices(compiled.model, out);
  print_schedules_given_up(compiled.model, out);
  print_host_layers(compiled.model, out);
  return kExitOk;
}

int plan_command(const PlanRequest& request, std::ostream& out) {
  const SessionOptions& options = request.common;
  const isa::Chip chip = isa::find_chip(options.chip);
  CompileOptions compile = compile_options(options, planning_dump_points(), {});
  onnx::ModelProto model =
      import_model(request.model_file, {options.dims, read_named_tensors("--bind", options.bind)});
  expand_gradient_nodes(model, request.model_file);
  layout::SolutionCache cache(options.cache);
  if (!options.cache.empty()) compile.cache = &cache;
  std::vector<PlanSummary> summaries;
  ProgressBar bar("planning");
  const SlicedPlan planned = plan_model(std::move(model), chip, compile);
  const LayerGraph& graph = *planned.graph;
  ModelPlanner& planner = *planned.planner;
  const ModelPlan& chosen = planned.plan;
  if (compile.wants_dump("plan")) compile.dump("plan", graph.name, "json", to_json(chosen, graph, planner));
  const std::vector<std::string> names = ModelPlanner::planner_names();
  for (const std::string& name : names) {
    bar.update(static_cast<int64_t>(summaries.size()), static_cast<int64_t>(names.size()), name);
    if (name == options.planner) {
      summaries.push_back(chosen.summary);
      continue;
    }
    try {
      summaries.push_back(planner.plan(name).summary);
    } catch (const isa::UnsupportedError& error) {
      summaries.push_back({.planner = name, .problem = error.what()});
    }
  }
  bar.finish();
  if (planned.slices > 1)
    fmt::print(out, "a run has {} slices of the batch; of one of them:\n", planned.slices);
  print_planned_relayouts(chosen, graph, out);
  print_plans(summaries, out);
  if (!options.json_file.empty())
    isa::write_output(options.json_file, plans_to_json(summaries).dump(1) + "\n");
  return kExitOk;
}

int simulate_package_command(const SimulateRequest& request, std::ostream& out) {
  ProgressBar bar("loading");
  const CompiledModel model = load_package(
      request.directory, request.common.chip,
      [&](int64_t done, int64_t total, const std::string& what) { bar.update(done, total, what); });
  bar.finish();
  const double tolerance = request.tolerance.value_or(default_tolerance(model.precision));
  const std::vector<DataSet> sets = read_data_sets(request.test_data, model, request.common);
  RunnerOptions options = runner_options(request.common);
  options.progress = [&](int64_t done, int64_t total, const std::string& what) {
    bar.update(done, total, what);
  };
  simulator::RunReport report(model.chip, request.common.report);
  ModelRunner runner(model, options);
  bool passed = true;
  nlohmann::ordered_json json = nlohmann::ordered_json::array();
  for (const DataSet& set : sets) {
    const OutputFiles files = set.files(model, request.common.output_directory);
    bar.phase("running");
    const RunOutcome outcome = runner.run(set.inputs, request.common.report.any() ? &report : nullptr);
    const Runs runs{1, outcome.first_cycles(), outcome.preparation.dram_bytes + outcome.total.dram_bytes,
                    outcome};
    bar.finish();
    if (!set.name.empty()) fmt::print(out, "=== {} ===\n", set.name);
    print_layer_table(model, runs, {}, out);
    print_relayouts(model, outcome, out);
    print_host_layers(model, out);
    print_host_share(host_shares(model, outcome), outcome.total.chip.cycles(), out);
    print_outputs(borrow_values(outcome.outputs), false, out);
    passed &= print_recorded(set, outcome, tolerance, out);
    files.write(borrow_values(outcome.outputs));
    json.push_back(run_to_json(model, runs, {}, {}));
    if (!set.name.empty()) json.back()["data_set"] = set.name;
  }
  report.finish(out);
  if (!request.common.json_file.empty())
    isa::write_output(request.common.json_file, (json.size() == 1 ? json[0] : json).dump(1) + "\n");
  return passed ? kExitOk : kExitOutOfTolerance;
}

}  // namespace kodama::compiler
