#include <fmt/format.h>
#include <fmt/ostream.h>

#include <algorithm>
#include <ostream>
#include <set>

#include "compiler/compile/plan_slices.h"
#include "compiler/driver/session_parts.h"
#include "compiler/dynamic/compare_values.h"
#include "compiler/dynamic/dynamic_executor.h"
#include "compiler/dynamic/dynamic_report.h"
#include "compiler/graph/onnx_model.h"
#include "compiler/proto/tensor_file.h"
#include "compiler/proto/tensor_proto.h"
#include "compiler/reference/onnx_backend_test.h"
#include "compiler/report/progress.h"
#include "compiler/report/report.h"
#include "compiler/runtime/comparison.h"
#include "isa/file.h"
#include "isa/output.h"
#include "passes/registry.h"

namespace kodama::compiler {

namespace {

struct DataSet {
  std::string name;
  ValueMap inputs;
  ValueMap expected;
};

[[noreturn]] void throw_not_given(const onnx::ValueInfoProto& input, const std::string& file) {
  std::string flags;
  if (input.type().has_tensor_type()) {
    const auto& dims = input.type().tensor_type().shape().dim();
    for (int axis = 0; axis < dims.size(); ++axis) {
      const std::string& name = dims.Get(axis).dim_param();
      if (!dims.Get(axis).has_dim_value())
        flags += " --dim " + (name.empty() ? fmt::format("{}:{}", input.name(), axis) : name) + "=4";
    }
  }
  throw isa::UserError(
      fmt::format("{}: input '{}' is {}: give it with --input {}=FILE{}", file, input.name(),
                  type_to_string(input.type()), input.name(),
                  flags.empty() ? "" : fmt::format(", or the size of a random one, for example:{}", flags)));
}

/// Values for all inputs: from --input, else random ones of their declared shape.
ValueMap read_values(const onnx::GraphProto& graph, const SessionOptions& options, const std::string& file) {
  ValueMap inputs;
  for (const std::string& specification : options.inputs) {
    const auto [name, from, member] = parse_named_file("--input", specification);
    if (inputs.contains(name)) throw isa::UserError(fmt::format("--input {}: given twice", name));
    const auto declared = std::ranges::find(
        graph.input(), name, [](const auto& input) -> const std::string& { return input.name(); });
    const bool is_tensor = declared == graph.input().end() || declared->type().has_tensor_type();
    inputs[name] = is_tensor ? Value(read_tensor_file(from, member))
                             : value_from_bytes(isa::read_file(from), declared->type(), from);
  }
  for (const auto& input : graph.input()) {
    if (inputs.contains(input.name())) continue;
    const auto shape = static_shape(input.type());
    if (!shape) throw_not_given(input, file);
    const auto type = static_cast<DataType>(input.type().tensor_type().elem_type());
    inputs[input.name()] = random_input(input.name(), type, *shape, options.seed);
  }
  return inputs;
}

bool print_comparison(const ValueMap& outputs, const ValueMap& expected, const std::set<std::string>& rows,
                      const char* beside, double tolerance, std::ostream& out, nlohmann::ordered_json& json) {
  bool passed = true;
  for (const ValueComparison& each : compare_values(outputs, expected, rows, tolerance)) {
    const bool ok = each.as_set || within(each.worst, tolerance);
    const auto row_count = [&] { return outputs.at(each.name).tensor().shape()[0]; };
    std::string text = verdict(each.worst, tolerance);
    if (each.as_set) {
      text = fmt::format("the same {} rows in another order: ok", row_count());
    } else if (each.rows_found >= 0) {
      text += fmt::format("; in another order {} of {} rows are right", each.rows_found, row_count());
    }
    print_verdict(fmt::format("{} against {}: {}", each.name, beside, text), ok, out);
    json.push_back({{"output", each.name},
                    {"against", beside},
                    {"max_absolute", each.worst.max_absolute},
                    {"max_relative", each.worst.max_relative},
                    {"as_set", each.as_set},
                    {"ok", ok}});
    passed &= ok;
  }
  return passed;
}

}  // namespace

int run_dynamic_command(const RunRequest& request, ImportedModel imported, WallTimes times,
                        std::ostream& out) {
  const SessionOptions& options = request.common;
  check_slices_of_parts(options, imported.open_reason);
  if (!options.html_file.empty()) {
    throw isa::UnsupportedError(fmt::format(
        "--report: not for a model that is compiled in parts while it runs ({}); --json has its regions",
        imported.open_reason));
  }
  times.end("import");
  DynamicOptions dynamic;
  dynamic.compile = compile_options(options, dump_points(&options.passes), options.planner);
  layout::SolutionCache cache(options.cache);
  StoredPrograms programs(StoredPrograms::directory_in(options.cache));
  if (!options.cache.empty()) dynamic.compile.cache = &cache;
  // Dumps are of passes that run; what a plugin is, its name doesn't say.
  if (!options.cache.empty() && options.dump_after.empty() && !passes::RegisteringPlugin::any())
    dynamic.programs = &programs;
  dynamic.runner = runner_options(options);
  dynamic.cache_limit = options.cache_limit;
  for (const std::string& bucket : options.buckets) dynamic.buckets.push_back(parse_bucket(bucket));
  ProgressBar bar("reading inputs");
  dynamic.progress = [&](const std::string& what) { bar.update(0, 0, what); };
  DynamicExecutor executor(std::move(imported.model), isa::find_chip(options.chip), dynamic);
  const onnx::GraphProto& graph = executor.model().graph();
  simulator::RunReport report(isa::find_chip(options.chip), options.report);
  const double tolerance =
      request.tolerance.value_or(default_tolerance(parse_matrix_precision(options.precision)));
  const std::set<std::string> rows = outputs_in_order_of_scores(graph);

  std::vector<DataSet> sets;
  if (request.test_data.empty()) {
    sets.push_back({"", read_values(graph, options, request.model_file), {}});
  } else {
    for (BackendTestData& data : load_backend_test(request.test_data).data_sets)
      sets.push_back({data.name, std::move(data.inputs), std::move(data.outputs)});
  }
  std::vector<std::string> names;
  for (const auto& output : graph.output()) names.push_back(output.name());
  times.end("inputs");
  bool passed = true;
  nlohmann::ordered_json json = nlohmann::ordered_json::array();
  for (const DataSet& set : sets) {
    const OutputFiles files(names, set.name.empty() || options.output_directory.empty()
                                       ? options.output_directory
                                       : options.output_directory + "/" + set.name);
    // Statistics and traces are of the last run, as the table.
    const auto run = [&](int64_t number) {
      return executor.run(set.inputs, number == request.repeat && options.report.any() ? &report : nullptr);
    };
    bar.phase("running");
    DynamicOutcome outcome = run(1);
    nlohmann::ordered_json entry;
    entry["data_set"] = set.name;
    if (request.repeat > 1) entry["first_run"] = dynamic_to_json(outcome)["total"];
    const int64_t first_compiles = outcome.total.compiles;
    std::vector<std::string> differences;
    for (int64_t number = 2; number <= request.repeat; ++number) {
      DynamicOutcome again = run(number);
      for (const auto& [name, value] : again.outputs) {
        if (!(value == outcome.outputs.at(name)))
          differences.push_back(
              fmt::format("{} of run {} has other bits than that of the first: FAILED", name, number));
      }
      outcome = std::move(again);
    }
    bar.finish();
    times.end("compile and run");
    if (!set.name.empty()) fmt::print(out, "=== {} ===\n", set.name);
    if (request.show_images) {
      for (const auto& [name, value] : set.inputs) {
        if (value.is_tensor()) print_text_art(name, value.tensor(), out);
      }
    }
    fmt::print(out, "compiled in parts while it runs: {}\n", imported.open_reason);
    print_dynamic_report(outcome, out);
    if (request.repeat > 1)
      fmt::print(out, "of {} runs, the last: the first compiled {} programs, this one {}\n", request.repeat,
                 first_compiles, outcome.total.compiles);
    print_outputs(outcome.outputs, request.show_classes, out);
    for (const std::string& difference : differences) print_verdict(difference, false, out);
    passed &= differences.empty();
    if (request.repeat > 1 && differences.empty())
      fmt::print(out, "outputs of all {} runs: the same bits\n", request.repeat);
    nlohmann::ordered_json comparisons = nlohmann::ordered_json::array();
    if (request.compare) {
      const ValueMap expected = run_graph_on_values(executor.model(), set.inputs);
      times.end("reference");
      if (!print_comparison(outcome.outputs, expected, rows, "the CPU reference", tolerance, out,
                            comparisons)) {
        const auto run_shown = [&](const GraphProblem& shown) {
          DynamicOptions own = dynamic;
          own.compile.dump_after.clear();
          DynamicExecutor other(shown.model, isa::find_chip(options.chip), std::move(own));
          return other.run(shown.inputs).outputs;
        };
        const auto shown =
            compare_with_chip_operands({executor.model(), set.inputs}, outcome.outputs, run_shown);
        passed &= print_with_chip_operands(shown, tolerance, out, comparisons);
        times.end("reference on the chip's operands");
      }
    }
    passed &= print_comparison(outcome.outputs, set.expected, rows, "the recorded output", tolerance, out,
                               comparisons);
    files.write(outcome.outputs);
    entry.update(dynamic_to_json(outcome));
    entry["comparisons"] = std::move(comparisons);
    json.push_back(std::move(entry));
    times.end("report");
  }
  report.finish(out);
  times.end("report");
  for (auto& entry : json) entry["wall_seconds"] = times.to_json();
  if (!options.json_file.empty())
    isa::write_output(options.json_file, (json.size() == 1 ? json[0] : json).dump(1) + "\n");
  fmt::print(out, "wall time: {}\n", times.to_string());
  return passed ? kExitOk : kExitOutOfTolerance;
}

}  // namespace kodama::compiler
