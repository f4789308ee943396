#include "compiler/driver/node_tests.h"

#include <fmt/format.h>
#include <fmt/ostream.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <map>
#include <nlohmann/json.hpp>
#include <ostream>
#include <regex>
#include <set>

#include "compiler/dynamic/dynamic_executor.h"
#include "compiler/graph/gradient/gradient_nodes.h"
#include "compiler/reference/onnx_backend_test.h"
#include "compiler/runtime/comparison.h"
#include "isa/output.h"
#include "isa/progress.h"

namespace kodama::compiler {
namespace {

/// Whether numbers that the chip lacks explain all differences.
bool is_explained(const onnx::ModelProto& model, const ValueMap& actual, const BackendTestData& data) {
  ValueMap inputs;
  for (const auto& [name, value] : data.inputs)
    inputs[name] = value.is_tensor() ? Value(as_chip_reads(value.tensor())) : value;
  const ValueMap as_read = run_graph_on_values(model, inputs);
  const BackendTestTolerance tolerance;
  return std::ranges::all_of(data.outputs, [&](const auto& output) {
    const auto& [name, expected] = output;
    return actual.contains(name) && as_read.contains(name) && expected.is_tensor() &&
           actual.at(name).is_tensor() &&
           explained_by_number_format(actual.at(name).tensor(), expected.tensor(), as_read.at(name).tensor(),
                                      tolerance.absolute, tolerance.relative);
  });
}

/// Inputs that say how, not what, to compute: they must be known when the program is made, so each data
/// set's values are bound before compilation.
TensorMap parameters(const onnx::ModelProto& model, const ValueMap& inputs) {
  // The first and the last of an operator's inputs that are such.
  static const std::map<std::string, std::pair<int, int>> kOperators = {{"BlackmanWindow", {0, 0}},
                                                                        {"ConstantOfShape", {0, 0}},
                                                                        {"CumSum", {1, 1}},
                                                                        {"DFT", {1, 1}},
                                                                        {"Dropout", {1, 2}},
                                                                        {"Expand", {1, 1}},
                                                                        {"GRU", {4, 4}},
                                                                        {"HammingWindow", {0, 0}},
                                                                        {"HannWindow", {0, 0}},
                                                                        {"LSTM", {4, 4}},
                                                                        {"MelWeightMatrix", {0, 4}},
                                                                        {"Pad", {1, 3}},
                                                                        {"RNN", {4, 4}},
                                                                        {"Range", {0, 2}},
                                                                        {"ReduceSum", {1, 1}},
                                                                        {"Reshape", {1, 1}},
                                                                        {"Resize", {1, 3}},
                                                                        {"ReverseSequence", {1, 1}},
                                                                        {"STFT", {1, 3}},
                                                                        {"Slice", {1, 4}},
                                                                        {"Split", {1, 1}},
                                                                        {"Squeeze", {1, 1}},
                                                                        {"Tile", {1, 1}},
                                                                        {"Trilu", {1, 1}},
                                                                        {"Unsqueeze", {1, 1}},
                                                                        {"Upsample", {1, 1}}};
  TensorMap result;
  for (const onnx::NodeProto& node : model.graph().node()) {
    const auto row = kOperators.find(node.op_type());
    if (row == kOperators.end()) continue;
    for (int k = row->second.first; k <= row->second.second && k < node.input_size(); ++k) {
      const auto found = inputs.find(node.input(k));
      if (found != inputs.end() && found->second.is_tensor())
        result.emplace(found->first, found->second.tensor());
    }
  }
  return result;
}

/// The reference computes any model as it is, but for Gradient nodes, which say what to compute.
onnx::ModelProto reference_model(const BackendTestCase& test) {
  if (!has_gradient_nodes(test.model)) return test.model;
  ImportedModel imported = import_any_model(test.model, {}, test.name);
  expand_gradient_nodes(imported, test.name);
  return std::move(imported.model);
}

void run_reference(const BackendTestCase& test, NodeTestResult& result) {
  try {
    const onnx::ModelProto model = reference_model(test);
    for (const BackendTestData& data : test.data_sets) {
      const std::string difference = compare_with_expected(run_graph_on_values(model, data.inputs),
                                                           data.outputs, {}, test.random_outputs);
      if (!difference.empty()) {
        result.reference = NodeTestStatus::kFailed;
        result.reference_reason = difference;
        return;
      }
    }
    result.reference = NodeTestStatus::kPassed;
    if (!test.random_outputs.empty()) {
      result.reference_reason = "random numbers, of which types and shapes are compared";
    }
  } catch (const isa::UnsupportedError& error) {
    result.reference_reason = error.what();
  } catch (const isa::Error& error) {
    result.reference = NodeTestStatus::kFailed;
    result.reference_reason = error.what();
  }
}

/// What a data set's run on the chip came to.
struct ChipRun {
  ValueMap outputs;
  bool uses_chip = false;
  std::set<std::string> reasons;  ///< of what the host computed
};

ChipRun run_static(const onnx::ModelProto& imported, const ValueMap& inputs, const isa::Chip& chip,
                   const CompileOptions& options, const RunnerOptions& runner_options) {
  ChipRun run;
  const CompiledModel model = compile_model(imported, chip, options);
  for (const Stage& stage : model.stages) {
    run.uses_chip |= stage.kind != LayerKind::kHost;
    if (const auto* host = std::get_if<HostStage>(&stage.body)) {
      run.reasons.insert(fmt::format("{}: {}", fmt::join(stage.onnx_ops, "+"), host->reason));
    }
  }
  run.outputs = to_values(ModelRunner(model, runner_options).run(to_tensors(inputs, "input")).outputs);
  return run;
}

/// Control flow and sequences don't count: they are the host's on any chip.
ChipRun run_dynamic(const onnx::ModelProto& imported, const ValueMap& inputs, const isa::Chip& chip,
                    const CompileOptions& options, const RunnerOptions& runner_options) {
  DynamicOptions dynamic;
  dynamic.compile = options;
  dynamic.runner = runner_options;
  DynamicOutcome outcome = DynamicExecutor(imported, chip, std::move(dynamic)).run(inputs);
  ChipRun run;
  run.outputs = std::move(outcome.outputs);
  for (const RegionRuns& region : outcome.regions) {
    run.uses_chip |= region.place == RegionPlace::kChip;
    if (region.only_decides) continue;
    for (const std::string& reason : region.reasons)
      run.reasons.insert(region.place == RegionPlace::kHost && region.operators.size() == 1
                             ? fmt::format("{}: {}", region.operators[0], reason)
                             : reason);
  }
  return run;
}

void run_chip(const BackendTestCase& test, const isa::Chip& chip, const NodeTestRequest& request,
              NodeTestResult& result) {
  try {
    bool uses_chip = false;
    std::set<std::string> reasons;
    for (const BackendTestData& data : test.data_sets) {
      const TensorMap bound = parameters(test.model, data.inputs);
      ImportedModel imported = import_any_model(test.model, {{}, bound}, test.name);
      expand_gradient_nodes(imported, test.name);
      CompileOptions options;
      options.precision = parse_matrix_precision(request.precision);
      RunnerOptions runner_options;
      runner_options.timing = false;
      runner_options.machine.threads = request.threads;
      ValueMap inputs = data.inputs;
      for (const auto& [name, tensor] : bound) inputs.erase(name);
      const auto run = imported.open_reason.empty() ? run_static : run_dynamic;
      const ChipRun found = run(imported.model, inputs, chip, options, runner_options);
      uses_chip |= found.uses_chip;
      reasons.insert(found.reasons.begin(), found.reasons.end());
      std::string difference = compare_with_expected(found.outputs, data.outputs, {}, test.random_outputs);
      if (difference.empty() && !test.random_outputs.empty()) {
        // What is drawn must be what the reference draws.
        difference = compare_with_expected(found.outputs, run_graph_on_values(imported.model, inputs));
      }
      if (difference.empty()) continue;
      const bool limited = is_explained(test.model, found.outputs, data);
      result.chip = limited ? NodeTestStatus::kLimited : NodeTestStatus::kFailed;
      result.chip_reason = limited ? "the chip has no NaN and no subnormals: " + difference : difference;
      return;
    }
    result.chip = NodeTestStatus::kPassed;
    if (!reasons.empty()) result.chip = NodeTestStatus::kHost;
    result.chip_reason = fmt::format("{}{}", fmt::join(reasons, "; "),
                                     !reasons.empty() && uses_chip ? " (rest on the chip)" : "");
  } catch (const isa::UnsupportedError& error) {
    result.chip_reason = error.what();
  } catch (const isa::Error& error) {
    result.chip = NodeTestStatus::kFailed;
    result.chip_reason = error.what();
  }
}

}  // namespace

std::string node_test_status_name(NodeTestStatus status) {
  constexpr std::array<const char*, 5> kNames = {"passed", "host", "limited", "failed", "skipped"};
  return kNames[static_cast<size_t>(status)];
}

namespace {

/// Of all tests that are asked for.
std::vector<std::filesystem::path> test_directories(const NodeTestRequest& request) {
  std::vector<std::filesystem::path> roots = {request.directory};
  if (request.directory.empty()) {
    roots.clear();
    std::vector<std::string> sets;
    for (const std::string& set : request.sets) {
      if (set == "all") {
        sets = onnx_test_sets();
        break;
      }
      if (std::ranges::find(onnx_test_sets(), set) == onnx_test_sets().end()) {
        throw isa::UserError(fmt::format(
            "--set {}: allowed are {} and all{}", set, fmt::join(onnx_test_sets(), ", "),
            set == "real" || set == "light" ? "; Debian's package has no models of this set" : ""));
      }
      sets.push_back(set);
    }
    for (const std::string& set : sets) {
      const auto found = find_onnx_tests(set);
      if (!found) {
        throw isa::UserError(fmt::format(
            "ONNX's {} tests are not installed; install libonnx-testdata or give --directory", set));
      }
      roots.push_back(*found);
    }
  }
  std::vector<std::filesystem::path> directories;
  for (const std::filesystem::path& root : roots) {
    const std::vector<std::filesystem::path> found = list_backend_tests(root);
    if (found.empty()) throw isa::UserError(root.string() + ": holds no tests");
    directories.insert(directories.end(), found.begin(), found.end());
  }
  return directories;
}

}  // namespace

std::vector<NodeTestResult> run_node_tests(const NodeTestRequest& request) {
  const std::vector<std::filesystem::path> directories = test_directories(request);
  // std::regex recurses for every part of an expression.
  constexpr size_t kLongestFilter = 1000;
  if (request.filter.size() > kLongestFilter)
    throw isa::UserError(fmt::format("--filter: found an expression of {} characters, allowed: up to {}",
                                     request.filter.size(), kLongestFilter));
  std::regex filter;
  try {
    filter = std::regex(request.filter);
  } catch (const std::regex_error& error) {
    throw isa::UserError("--filter " + request.filter + ": is not a regular expression: " + error.what());
  }
  const isa::Chip chip = isa::find_chip(request.chip);
  isa::ProgressBar bar("node tests");
  std::vector<NodeTestResult> results;
  for (size_t k = 0; k < directories.size(); ++k) {
    NodeTestResult result;
    result.name = directories[k].filename().string();
    bar.update(static_cast<int64_t>(k), static_cast<int64_t>(directories.size()), result.name);
    if (!request.filter.empty() && !std::regex_search(result.name, filter)) continue;
    const BackendTestCase test = load_backend_test(directories[k]);
    for (const onnx::NodeProto& node : test.model.graph().node()) result.operators.push_back(node.op_type());
    if (!test.skip_reason.empty()) {
      result.chip_reason = result.reference_reason = test.skip_reason;
    } else {
      run_reference(test, result);
      run_chip(test, chip, request, result);
    }
    results.push_back(std::move(result));
  }
  if (results.empty())
    throw isa::UserError(fmt::format("--filter {}: no test's name matches; the {} tests are in {}",
                                     request.filter, directories.size(),
                                     directories.front().parent_path().string()));
  return results;
}

int node_tests_command(const NodeTestRequest& request, std::ostream& out) {
  const std::vector<NodeTestResult> results = run_node_tests(request);
  std::array<int, 5> chip{};
  std::array<int, 5> reference{};
  nlohmann::ordered_json json = nlohmann::ordered_json::array();
  for (const NodeTestResult& result : results) {
    ++chip[static_cast<size_t>(result.chip)];
    ++reference[static_cast<size_t>(result.reference)];
    if (request.verbose || result.chip != NodeTestStatus::kPassed ||
        result.reference == NodeTestStatus::kFailed) {
      fmt::print(out, "{:<8} {}{}\n", node_test_status_name(result.chip), result.name,
                 result.chip_reason.empty() ? "" : ": " + result.chip_reason);
    }
    if (result.reference == NodeTestStatus::kFailed) {
      fmt::print(out, "         {} on the reference: failed: {}\n", result.name, result.reference_reason);
    }
    json.push_back({{"name", result.name},
                    {"operators", result.operators},
                    {"chip", node_test_status_name(result.chip)},
                    {"chip_reason", result.chip_reason},
                    {"reference", node_test_status_name(result.reference)},
                    {"reference_reason", result.reference_reason}});
  }
  const auto print_totals = [&](const char* path, const std::array<int, 5>& counts) {
    fmt::print(out, "{}: {} passed, {} host, {} limited, {} failed, {} skipped of {}\n", path, counts[0],
               counts[1], counts[2], counts[3], counts[4], results.size());
  };
  print_totals(fmt::format("chip path ({}, {})", request.chip, request.precision).c_str(), chip);
  print_totals("reference path", reference);
  if (!request.json_file.empty()) isa::write_output(request.json_file, json.dump(1) + "\n");
  return chip[3] + reference[3] == 0 ? isa::kExitOk : isa::kExitOutOfTolerance;
}

}  // namespace kodama::compiler
