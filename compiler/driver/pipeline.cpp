#include "compiler/driver/pipeline.h"

#include <fmt/format.h>
#include <fmt/ostream.h>

#include <algorithm>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "compiler/report/progress.h"
#include "compiler/runtime/comparison.h"
#include "compiler/runtime/device.h"
#include "isa/costs.h"
#include "isa/dram_model.h"
#include "isa/output.h"

namespace kodama::compiler {
namespace {

/// Of one inference.
struct Inference {
  TensorMap outputs;
  LaunchTimes times;
  StageStats stats;
};

class Row {
 public:
  Row(const CompiledModel& model, const RunnerOptions& runner, int64_t in_flight)
      : model_(model), device_(model.chip, {runner}), package_(device_.load(model)) {
    for (int64_t k = 0; k < in_flight; ++k) streams_.push_back(device_.stream());
    device_.synchronize();  // the constants are there
  }

  /// Hands in the next inference; when so many are in flight, waits for the first of them, and gives it.
  std::optional<Inference> hand_in(const TensorMap& inputs) {
    std::optional<Inference> first;
    if (pending_.size() == streams_.size()) first = take();
    Stream& stream = streams_[static_cast<size_t>(number_++) % streams_.size()];
    for (const auto& [name, tensor] : inputs) stream.send(package_, name, tensor);
    stream.launch(package_);
    std::map<std::string, Result>& results = pending_.emplace_back();
    for (const std::string& name : output_names(model_)) results.emplace(name, stream.fetch(package_, name));
    return first;
  }
  /// The first of those that are in flight; nothing if there is none.
  std::optional<Inference> take() {
    if (pending_.empty()) return std::nullopt;
    Inference inference;
    for (const auto& [name, result] : pending_.front()) {
      inference.outputs[name] = result.get();
      inference.times = result.times();
      inference.stats = result.stats();
    }
    pending_.pop_front();
    return inference;
  }

 private:
  const CompiledModel& model_;
  Device device_;
  Package package_;
  std::vector<Stream> streams_;
  std::deque<std::map<std::string, Result>> pending_;
  int64_t number_ = 0;
};

std::vector<Inference> run_row(const RunRequest& request, const CompiledModel& model, int64_t in_flight,
                               const std::function<TensorMap(int64_t)>& inputs_of) {
  ProgressBar bar(in_flight == 1 ? "one by one" : "pipeline");
  std::vector<Inference> done;
  const auto add = [&](std::optional<Inference> inference) {
    if (!inference) return false;
    done.push_back(std::move(*inference));
    bar.update(static_cast<int64_t>(done.size()), request.repeat, "inferences");
    return true;
  };
  Row row(model, runner_options(request.common), in_flight);
  for (int64_t k = 0; k < request.repeat; ++k) add(row.hand_in(inputs_of(k)));
  while (add(row.take())) {
  }
  bar.finish();
  return done;
}

PipelineFigures figures_of(const CompiledModel& model, int64_t in_flight, const std::vector<Inference>& row,
                           const std::vector<Inference>& alone) {
  PipelineFigures figures;
  figures.runs = static_cast<int64_t>(row.size());
  figures.in_flight = in_flight;
  const auto latency = [](const Inference& inference) {
    return inference.times.results_there - inference.times.handed_in;
  };
  for (const Inference& inference : alone)
    figures.latency_alone = std::max(figures.latency_alone, latency(inference));
  for (const Inference& inference : row) figures.latency = std::max(figures.latency, latency(inference));
  const auto filled = static_cast<size_t>(in_flight - 1);
  figures.interval = static_cast<double>(row.back().times.results_there - row[filled].times.results_there) /
                     static_cast<double>(row.size() - 1 - filled);
  const StageStats& one = alone.back().stats;
  figures.chip = one.chip_cycles();
  figures.host = one.chip.causes.host_compute;
  const auto link = [&](int64_t bytes) { return isa::link_ticks(bytes, model.chip) / isa::kTicksPerCycle; };
  figures.link_in =
      link(one.bytes_to_chip + (one.chip.steps + one.chip.mvs) * int64_t{isa::kInstructionBytes});
  figures.link_out = link(one.bytes_from_chip);
  return figures;
}

void print(const PipelineFigures& figures, const isa::Chip& chip, std::ostream& out) {
  const auto ms = [&](double cycles) { return cycles / chip.clock_hz * 1e3; };
  const auto line = [&](const std::string& what, double cycles, const std::string& more) {
    fmt::print(out, "{:<34}{:>10.0f} cycles  {:>9.4f} ms{}\n", what, cycles, ms(cycles), more);
  };
  fmt::print(out, "{} inferences, {} in flight:\n", figures.runs, figures.in_flight);
  line("latency of one alone", static_cast<double>(figures.latency_alone), "");
  line("latency in the row, at most", static_cast<double>(figures.latency), "");
  line("from one to the next", figures.interval,
       fmt::format("  {:.0f} inferences per second", figures.per_second(chip)));
  line("one takes of the chip", static_cast<double>(figures.chip), "");
  line("of the link to it", static_cast<double>(figures.link_in), "");
  line("of the link from it", static_cast<double>(figures.link_out), "");
  if (figures.host > 0) line("of the host, for layers", static_cast<double>(figures.host), "");
  fmt::print(out, "the slower of link and chip is the {}: the row reaches {:.1f} % of it\n",
             figures.chip >= figures.link() ? "chip" : "link", 100 * figures.share());
}

nlohmann::ordered_json to_json(const PipelineFigures& figures, const isa::Chip& chip) {
  return {{"inferences", figures.runs},
          {"in_flight", figures.in_flight},
          {"latency_alone_cycles", figures.latency_alone},
          {"latency_cycles", figures.latency},
          {"cycles_per_inference", figures.interval},
          {"inferences_per_second", figures.per_second(chip)},
          {"chip_cycles", figures.chip},
          {"link_to_chip_cycles", figures.link_in},
          {"link_from_chip_cycles", figures.link_out},
          {"host_cycles", figures.host},
          {"slower", figures.chip >= figures.link() ? "chip" : "link"},
          {"share_of_slower", figures.share()}};
}

}  // namespace

void check_pipeline_options(const RunRequest& request) {
  const SessionOptions& options = request.common;
  const auto refuse = [](const std::string& option, const std::string& why) {
    throw isa::UserError(fmt::format("{}: not with --pipeline, {}", option, why));
  };
  if (!options.timing) refuse("--no-timing", "which shows time");
  if (options.host != "overlap") refuse("--host " + options.host, "which overlaps what the host does");
  if (options.report.any()) refuse("--stats, --trace, --vcd", "which is about many runs; use --repeat alone");
  if (options.check_layers) refuse("--check-layers", "which compares outputs");
  if (!request.test_data.empty()) refuse("--test-data", "which has inputs by --input or --seed");
  if (request.repeat <= request.in_flight)
    throw isa::UserError(fmt::format("--repeat {}: --pipeline needs more inferences than the {} in flight",
                                     request.repeat, request.in_flight));
}

int run_pipeline(const RunRequest& request, const CompiledModel& model, const onnx::ModelProto& imported,
                 WallTimes& times, std::ostream& out) {
  const SessionOptions& options = request.common;
  const auto inputs_of = [&](int64_t k) {
    return read_inputs(model, options.inputs, options.seed + static_cast<uint64_t>(k));
  };
  inputs_of(0);  // wrong ones are refused before anything runs
  const OutputFiles files(output_names(model), options.output_directory);
  times.end("inputs");
  const std::vector<Inference> row = run_row(request, model, request.in_flight, inputs_of);
  times.end("pipeline");
  const std::vector<Inference> alone = run_row(request, model, 1, inputs_of);
  times.end("one by one");

  const PipelineFigures figures = figures_of(model, request.in_flight, row, alone);
  print(figures, model.chip, out);
  bool passed = true;
  for (size_t k = 0; k < row.size(); ++k) {
    for (const auto& [name, tensor] : row[k].outputs) {
      if (tensor == alone[k].outputs.at(name)) continue;
      fmt::print(out, "{} of inference {} has other bits than that of one by one: FAILED\n", name, k + 1);
      passed = false;
    }
  }
  if (passed) fmt::print(out, "outputs of all {} inferences: the same bits as one by one\n", row.size());
  const bool same_bits = passed;
  print_outputs(borrow_values(row.front().outputs), request.show_classes, out);
  if (request.compare) {
    const double tolerance = request.tolerance.value_or(default_tolerance(model.precision));
    const TensorMap expected = run_graph(imported, inputs_of(0));
    for (const auto& [name, tensor] : row.front().outputs) {
      const Comparison comparison = compare_tensors(tensor, expected.at(name));
      fmt::print(out, "{} against the CPU reference: {}\n", name, verdict(comparison, tolerance));
      passed &= within(comparison, tolerance);
    }
    times.end("reference");
  }
  files.write(borrow_values(row.front().outputs));
  if (!options.json_file.empty()) {
    nlohmann::ordered_json json = to_json(figures, model.chip);
    json["same_bits"] = same_bits;
    json["passed"] = passed;
    json["wall_seconds"] = times.to_json();
    isa::write_output(options.json_file, json.dump(1) + "\n");
  }
  fmt::print(out, "wall time: {}\n", times.to_string());
  return passed ? kExitOk : kExitOutOfTolerance;
}

}  // namespace kodama::compiler
