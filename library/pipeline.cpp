#include <fmt/format.h>
#include <kodama/pipeline.h>

#include <algorithm>
#include <deque>
#include <map>
#include <optional>
#include <utility>

#include "compiler/runtime/device.h"
#include "isa/costs.h"
#include "isa/dram_model.h"
#include "isa/output.h"
#include "library/states.h"

namespace kodama {
namespace {

using compiler::CompiledModel;
using compiler::TensorMap;
using nlohmann::ordered_json;
using InputsOf = std::function<Tensors(int64_t)>;

/// Of one inference.
struct Inference {
  TensorMap outputs;
  compiler::LaunchTimes times;
  compiler::StageStats stats;
};

class Row {
 public:
  Row(const library::ProgramState& program, const compiler::RunnerOptions& runner, int64_t in_flight)
      : program_(program), device_(program.chip, {runner}), package_(device_.load(*program.compiled)) {
    for (int64_t k = 0; k < in_flight; ++k) streams_.push_back(device_.stream());
    device_.synchronize();  // the constants are there
  }

  /// Hands in the next inference; when so many are in flight, waits for the first of them, and gives it.
  std::optional<Inference> hand_in(const TensorMap& inputs) {
    std::optional<Inference> first;
    if (pending_.size() == streams_.size()) first = take();
    compiler::Stream& stream = streams_[static_cast<size_t>(number_++) % streams_.size()];
    for (const auto& [name, tensor] : inputs) stream.send(package_, name, tensor);
    stream.launch(package_);
    std::map<std::string, compiler::Result>& results = pending_.emplace_back();
    for (const ValueInfo& output : program_.outputs)
      results.emplace(output.name, stream.fetch(package_, output.name));
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
  const library::ProgramState& program_;
  compiler::Device device_;
  compiler::Package package_;
  std::vector<compiler::Stream> streams_;
  std::deque<std::map<std::string, compiler::Result>> pending_;
  int64_t number_ = 0;
};

std::vector<Inference> run_row(const PipelineSettings& settings, const library::ProgramState& program,
                               int64_t in_flight, const InputsOf& inputs) {
  std::vector<Inference> done;
  const auto add = [&](std::optional<Inference> inference) {
    if (!inference) return false;
    done.push_back(std::move(*inference));
    if (settings.session.progress)
      settings.session.progress(static_cast<double>(done.size()) / static_cast<double>(settings.runs),
                                in_flight == 1 ? "one by one" : "in a row");
    return true;
  };
  compiler::RunnerOptions options = library::runner_options(settings.session);
  options.progress = nullptr;  // which would tell of stages
  Row row(program, options, in_flight);
  for (int64_t k = 0; k < settings.runs; ++k) add(row.hand_in(library::to_map(inputs(k))));
  while (add(row.take())) {
  }
  return done;
}

PipelineResult figures_of(const CompiledModel& model, int64_t in_flight, const std::vector<Inference>& row,
                          const std::vector<Inference>& alone) {
  PipelineResult figures;
  figures.clock_hz = model.chip.clock_hz;
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
  const compiler::StageStats& one = alone.back().stats;
  figures.chip = one.chip_cycles();
  figures.host = one.chip.causes.host_compute;
  const auto link = [&](int64_t bytes) { return isa::link_ticks(bytes, model.chip) / isa::kTicksPerCycle; };
  figures.link_in =
      link(one.bytes_to_chip + (one.chip.steps + one.chip.mvs) * int64_t{isa::kInstructionBytes});
  figures.link_out = link(one.bytes_from_chip);
  return figures;
}

ordered_json to_json(const PipelineResult& figures) {
  return {{"inferences", figures.runs},
          {"in_flight", figures.in_flight},
          {"latency_alone_cycles", figures.latency_alone},
          {"latency_cycles", figures.latency},
          {"cycles_per_inference", figures.interval},
          {"inferences_per_second", figures.per_second()},
          {"chip_cycles", figures.chip},
          {"link_to_chip_cycles", figures.link_in},
          {"link_from_chip_cycles", figures.link_out},
          {"host_cycles", figures.host},
          {"slower", figures.chip >= figures.link() ? "chip" : "link"},
          {"share_of_slower", figures.share()},
          {"same_bits", figures.differences.empty()},
          {"passed", figures.ok}};
}

}  // namespace

void PipelineSettings::check() const {
  if (in_flight < 1 || runs <= in_flight)
    throw UserError(
        fmt::format("--repeat {}: --pipeline needs more inferences than the {} in flight", runs, in_flight));
  if (!session.timing || !session.host_overlaps)
    throw UserError(
        "PipelineSettings::session: allowed are sessions with timing and with the host's overlaps");
  for (const std::string& file : {files.trace, files.vcd, files.statistics, files.report}) {
    if (!file.empty())
      throw UserError(fmt::format("PipelineSettings::files: found '{}', allowed are json and outputs", file));
  }
}

std::string PipelineResult::json() const {
  return to_json(*this).dump(1);
}

PipelineResult run_pipeline(const Program& program, const std::function<Tensors(int64_t)>& inputs,
                            const PipelineSettings& settings,
                            const std::function<void(const PipelineResult&)>& ready) {
  const library::ProgramState& state = *library::ProgramAccess::get(program);
  settings.check();
  if (!state.compiled)
    throw UnsupportedError(fmt::format(
        "--pipeline: {}, so the model is compiled in parts while it runs; --dim and --bind fix its shapes",
        state.open_reason));
  if (settings.compare && state.model == nullptr) throw UserError(library::without_reference(state.name));
  const auto end = [&](const char* part) {
    if (settings.times != nullptr) settings.times->end(part);
  };
  const TensorMap first = library::to_map(inputs(0));
  compiler::check_inputs(*state.compiled, first);  // wrong ones are refused before anything runs
  const library::OutputFiles files(state.outputs, settings.files.outputs);
  end("inputs");
  std::vector<Inference> row = run_row(settings, state, settings.in_flight, inputs);
  end("pipeline");
  const std::vector<Inference> alone = run_row(settings, state, 1, inputs);
  end("one by one");

  PipelineResult result = figures_of(*state.compiled, settings.in_flight, row, alone);
  for (size_t k = 0; k < row.size(); ++k) {
    for (const auto& [name, tensor] : row[k].outputs) {
      if (tensor == alone[k].outputs.at(name)) continue;
      result.differences.push_back(
          fmt::format("{} of inference {} has other bits than that of one by one", name, k + 1));
    }
  }
  if (settings.compare) {
    const double tolerance =
        settings.tolerance.value_or(compiler::default_tolerance(state.compiled->precision));
    const TensorMap expected = compiler::run_graph(state.model->imported.model, first);
    for (const auto& [name, tensor] : row.front().outputs)
      result.comparisons.push_back(
          library::describe(name, compiler::compare_tensors(tensor, expected.at(name)), tolerance));
    end("reference");
  }
  result.ok = result.differences.empty() && std::ranges::all_of(result.comparisons, &Comparison::ok);
  result.outputs = library::from_map(std::move(row.front().outputs));
  if (ready) ready(result);
  files.write(library::borrow(Values(result.outputs.begin(), result.outputs.end())));
  if (!settings.files.json.empty()) {
    ordered_json json = to_json(result);
    if (settings.times != nullptr) json["wall_seconds"] = library::to_json(*settings.times);
    isa::write_output(settings.files.json, json.dump(1) + "\n");
  }
  return result;
}

}  // namespace kodama
