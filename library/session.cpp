#include <fmt/format.h>

#include <algorithm>
#include <sstream>

#include "compiler/dynamic/dynamic_report.h"
#include "compiler/kernels/kernel.h"
#include "compiler/report/html_report.h"
#include "isa/output.h"
#include "library/states.h"

namespace kodama {

using compiler::CompiledModel;
using compiler::TensorMap;
using compiler::ValueMap;
using library::ProgramAccess;
using library::ProgramState;
using library::ResultState;
using library::TensorAccess;
using library::ValueAccess;
using nlohmann::ordered_json;

namespace {

simulator::ReportOptions checked_report(const RunSettings& settings, bool timing) {
  simulator::ReportOptions options = library::report_options(settings.files, settings.statistics);
  options.keeps_timeline = options.timeline.keeps_transfers = !settings.files.report.empty();
  if (options.any() && !timing)
    throw UserError("RunFiles: allowed only in a session with timing, which they show");
  return options;
}

/// Of a kernel that a plugin has; else empty.
std::string plugin_of(const std::string& kernel) {
  const auto& all = compiler::kernels();
  const auto found = std::ranges::find(all, kernel, &compiler::Kernel::name);
  return found == all.end() ? "" : found->plugin;
}

bool are_ok(const std::vector<Comparison>& comparisons) {
  return std::ranges::all_of(comparisons, &Comparison::ok);
}

void add_json(const std::vector<Comparison>& comparisons, const char* against, bool with_sets,
              ordered_json& list) {
  for (const Comparison& each : comparisons) {
    ordered_json entry{{"output", each.name},
                       {"against", against},
                       {"max_absolute", each.max_absolute},
                       {"max_relative", each.max_relative}};
    if (with_sets) entry["as_set"] = each.as_set;
    entry["ok"] = each.ok;
    list.push_back(std::move(entry));
  }
}

/// A data set on its way.
struct Job {
  std::string data_set;
  ValueMap inputs;                   ///< its own where nobody else has them, else borrowed
  const Values* expected = nullptr;  ///< null: none
};

/// What all jobs of a call have in common.
struct Call {
  const RunSettings& settings;
  double tolerance;
  simulator::RunReport* report;  ///< null: none
  void begin(const char* phase) const {
    if (settings.phase) settings.phase(phase);
  }
  bool is_last(int64_t number) const { return number == settings.repeat; }
  void end(const char* part) const {
    if (settings.times != nullptr) settings.times->end(part);
  }
};

/// A sentence for every output of a run that hasn't the bits of the first.
template <typename Map>
void find_differences(const Map& again, const Map& first, int64_t number, std::vector<std::string>& found) {
  for (const auto& [name, value] : again) {
    if (!(value == first.at(name)))
      found.push_back(fmt::format("{} of run {} has other bits than that of the first", name, number));
  }
}

}  // namespace

struct library::SessionState {
  std::shared_ptr<const ProgramState> program;
  compiler::RunnerOptions options;
  Progress progress;
  std::optional<compiler::ModelRunner> runner;
  TensorMap observed;  ///< by the runner
  // Of a program that is compiled while it runs:
  std::optional<layout::SolutionCache> cache;
  std::optional<compiler::StoredPrograms> stored;
  compiler::DynamicOptions dynamic;
  std::optional<compiler::DynamicExecutor> executor;

  void prepare_open();
  /// What is wrong with the inputs of any of several sets is said before the first runs.
  void check_inputs(const std::vector<DataSet>& sets) const;
  std::vector<Result> run_all(std::vector<Job> jobs, const RunSettings& settings,
                              const std::function<void(const Result&)>& ready);

 private:
  using RunShown = std::function<ValueMap(const compiler::GraphProblem&)>;
  Result run(Job job, const Call& call);
  /// Return the outputs.
  ValueMap run_static(Job& job, const Call& call, ResultState& state, Result& result);
  ValueMap run_open(const Job& job, const Call& call, ResultState& state, Result& result);
  void compare_static(const TensorMap& inputs, const ValueMap& outputs, const Call& call, ResultState& state,
                      Result& result);
  void compare_open(const Job& job, const ValueMap& outputs, const std::set<std::string>& rows,
                    const Call& call, ResultState& state, Result& result);
  void compare_on_operands(const compiler::GraphProblem& problem, const ValueMap& outputs,
                           const RunShown& run_shown, const Call& call, ResultState& state, Result& result);
  void compare_recorded(const Job& job, const ValueMap& outputs, const std::set<std::string>& rows,
                        const Call& call, Result& result) const;
};

void library::SessionState::prepare_open() {
  const compiler::SessionOptions& own = program->options;
  dynamic.compile = compiler::compile_options(own, compiler::dump_points(&own.passes), own.planner);
  if (!own.cache.empty()) {
    dynamic.compile.cache = &cache.emplace(own.cache);
    stored = compiler::stored_programs(own.cache, own.dump_after);
    dynamic.programs = stored ? &*stored : nullptr;
  }
  dynamic.runner = options;
  dynamic.cache_limit = program->cache_limit;
  dynamic.buckets = program->buckets;
  if (progress) dynamic.progress = [this](const std::string& what) { progress(0, what); };
  executor.emplace(program->model->imported.model, program->chip, dynamic);
}

void library::SessionState::check_inputs(const std::vector<DataSet>& sets) const {
  if (!runner) return;
  for (const DataSet& set : sets) {
    for (const auto& [name, tensor] : tensors_of(set.inputs))
      compiler::check_input(*program->compiled, name, TensorAccess::get(tensor));
  }
}

ValueMap library::SessionState::run_static(Job& job, const Call& call, ResultState& state, Result& result) {
  TensorMap inputs = compiler::to_tensors(std::move(job.inputs), "input");
  const bool are_needed = call.settings.compare || call.settings.repeat > 1;
  // Statistics and traces are of the last, as the table.
  size_t programs_before = 0;
  const auto run = [&](int64_t number) {
    observed.clear();
    if (call.report != nullptr && call.report->timeline() != nullptr)
      programs_before = call.report->timeline()->program_begins().size() - 1;
    // Of several runs the last one is shown as one in a row of many.
    return runner->run(are_needed ? inputs : std::move(inputs), call.is_last(number) ? call.report : nullptr,
                       call.settings.repeat > 1);
  };
  compiler::RunOutcome outcome = run(1);
  state.first_cycles = outcome.first_cycles();
  state.first_dram_bytes = outcome.preparation.dram_bytes + outcome.total.dram_bytes;
  for (int64_t number = 2; number <= call.settings.repeat; ++number) {
    compiler::RunOutcome again = run(number);
    find_differences(again.outputs, outcome.outputs, number, result.differences);
    outcome = std::move(again);
  }
  call.end("run");
  result.cycles = outcome.total.chip.cycles();
  result.first_cycles = state.first_cycles;
  const ValueMap outputs = compiler::to_values(std::move(outcome.outputs));
  state.outcome = std::move(outcome);
  if (call.settings.compare) compare_static(inputs, outputs, call, state, result);
  compare_recorded(job, outputs, {}, call, result);
  const RunFiles& files = call.settings.files;
  const bool has_timeline = call.report != nullptr && call.report->timeline() != nullptr;
  if (has_timeline && (!files.json.empty() || !files.report.empty()))
    state.traced = state.json(call.report, programs_before);
  return outputs;
}

void library::SessionState::compare_static(const TensorMap& inputs, const ValueMap& outputs, const Call& call,
                                           ResultState& state, Result& result) {
  const CompiledModel& model = *program->compiled;
  const onnx::ModelProto& imported = program->model->imported.model;
  call.begin("computing the CPU reference");
  {
    const TensorMap reference = compiler::run_graph(*program->prepared, inputs, {.keep_intermediates = true});
    const TensorMap expected = compiler::run_graph(imported, inputs);
    call.end("reference");
    for (const auto& [name, tensor] : observed) {
      const auto found = reference.find(name);
      if (found != reference.end()) state.layers[name] = compiler::compare_tensors(tensor, found->second);
    }
    for (const auto& [name, value] : outputs)
      state.outputs[name] = compiler::compare_tensors(value.tensor(), expected.at(name));
  }
  observed.clear();
  for (const auto& [name, found] : state.outputs)
    result.comparisons.push_back(describe(name, found, call.tolerance));
  for (const compiler::Stage& stage : model.stages) {
    const auto* chip = std::get_if<compiler::ChipStage>(&stage.body);
    for (const compiler::TensorId id : stage.outputs) {
      if (id < 0) continue;
      const std::string& name = model.tensors[static_cast<size_t>(id)].name;
      const auto found = state.layers.find(name);
      if (found == state.layers.end()) continue;
      const std::string kernel = chip != nullptr ? chip->kernel : "";
      result.layers.push_back({describe(name, found->second, call.tolerance), stage.name, stage.onnx_ops,
                               kernel, plugin_of(kernel)});
      break;
    }
  }
  if (are_ok(result.comparisons)) return;
  const auto run_shown = [&](const compiler::GraphProblem& shown) {
    compiler::ImportedModel again = compiler::import_any_model(shown.model, {}, program->model->where);
    compiler::SessionOptions own = program->options;
    own.dump_after.clear();
    const CompiledModel other = compile_static(std::move(again.model), own, progress, nullptr);
    call.begin("running with the chip's operands");
    compiler::RunnerOptions plain = options;
    plain.observe = nullptr;
    plain.timing = false;
    if (plain.hazards == simulator::Hazards::kStall)
      plain.hazards = simulator::Hazards::kIgnore;  // same bits
    return compiler::to_values(
        compiler::ModelRunner(other, plain).run(compiler::to_tensors(shown.inputs, "input")).outputs);
  };
  compare_on_operands({imported, compiler::borrow_values(inputs)}, outputs, run_shown, call, state, result);
}

void library::SessionState::compare_on_operands(const compiler::GraphProblem& problem,
                                                const ValueMap& outputs, const RunShown& run_shown,
                                                const Call& call, ResultState& state, Result& result) {
  const auto shown = compiler::compare_with_chip_operands(problem, outputs, run_shown);
  call.end("reference on the chip's operands");
  if (!shown) return;
  result.on_operands = describe(*shown, call.tolerance);
  add_json(result.on_operands->outputs, "the CPU reference on the chip's operands", false, state.comparisons);
}

ValueMap library::SessionState::run_open(const Job& job, const Call& call, ResultState& state,
                                         Result& result) {
  const auto run = [&](int64_t number) {
    return executor->run(job.inputs, call.is_last(number) ? call.report : nullptr);
  };
  compiler::DynamicOutcome outcome = run(1);
  if (call.settings.repeat > 1) state.first_run = compiler::dynamic_to_json(outcome)["total"];
  state.first_compiles = outcome.total.compiles;
  state.first_cycles = outcome.total.stats.chip.cycles() + outcome.total.preload_cycles;
  for (int64_t number = 2; number <= call.settings.repeat; ++number) {
    compiler::DynamicOutcome again = run(number);
    find_differences(again.outputs, outcome.outputs, number, result.differences);
    outcome = std::move(again);
  }
  call.end("compile and run");
  result.cycles = outcome.total.stats.chip.cycles();
  result.first_cycles = state.first_cycles;
  const ValueMap outputs = std::exchange(outcome.outputs, {});
  state.dynamic = std::move(outcome);
  const std::set<std::string> rows = compiler::outputs_in_order_of_scores(executor->model().graph());
  if (call.settings.compare) compare_open(job, outputs, rows, call, state, result);
  compare_recorded(job, outputs, rows, call, result);
  add_json(result.recorded, "the recorded output", true, state.comparisons);
  if (!call.settings.files.report.empty()) state.traced = state.json(call.report);
  return outputs;
}

void library::SessionState::compare_open(const Job& job, const ValueMap& outputs,
                                         const std::set<std::string>& rows, const Call& call,
                                         ResultState& state, Result& result) {
  const ValueMap expected = compiler::run_graph_on_values(executor->model(), job.inputs);
  call.end("reference");
  for (const auto& each : compiler::compare_values(outputs, expected, rows, call.tolerance))
    result.comparisons.push_back(describe(each, outputs.at(each.name), call.tolerance));
  add_json(result.comparisons, "the CPU reference", true, state.comparisons);
  for (const compiler::RegionRuns& region : state.dynamic->regions) {
    for (const auto& [name, found] : region.layers)
      result.layers.push_back({describe(name, found, call.tolerance), region.name, {}, "", ""});
  }
  if (are_ok(result.comparisons)) return;
  const auto run_shown = [&](const compiler::GraphProblem& shown) {
    compiler::DynamicOptions own = dynamic;
    own.compile.dump_after.clear();
    compiler::DynamicExecutor other(shown.model, program->chip, std::move(own));
    return other.run(shown.inputs).outputs;
  };
  compare_on_operands({executor->model(), job.inputs}, outputs, run_shown, call, state, result);
}

void library::SessionState::compare_recorded(const Job& job, const ValueMap& outputs,
                                             const std::set<std::string>& rows, const Call& call,
                                             Result& result) const {
  if (job.expected == nullptr) return;
  const ValueMap expected = borrow(*job.expected);
  for (const auto& [name, value] : expected) {
    if (!outputs.contains(name))
      throw UserError(
          fmt::format("{}: found an output '{}', which the model doesn't have", job.data_set, name));
  }
  for (const auto& each : compiler::compare_values(outputs, expected, rows, call.tolerance))
    result.recorded.push_back(describe(each, outputs.at(each.name), call.tolerance));
}

Result library::SessionState::run(Job job, const Call& call) {
  auto state = std::make_shared<ResultState>();
  state->program = program;
  state->data_set = job.data_set;
  state->runs = call.settings.repeat;
  Result result;
  result.data_set = job.data_set;
  ValueMap outputs = runner ? run_static(job, call, *state, result) : run_open(job, call, *state, result);
  result.seconds = static_cast<double>(result.cycles) / program->chip.clock_hz;
  result.ok = result.differences.empty() && are_ok(result.recorded) &&
              (are_ok(result.comparisons) || (result.on_operands && result.on_operands->ok));
  for (auto& [name, value] : outputs) {
    if (value.is_tensor()) {
      result.outputs.emplace(name, TensorAccess::wrap(std::move(value).take_tensor()));
    } else {
      result.others.emplace(name, ValueAccess::wrap(std::move(value)));
    }
  }
  result.state_ = std::move(state);
  return result;
}

std::vector<Result> library::SessionState::run_all(std::vector<Job> jobs, const RunSettings& settings,
                                                   const std::function<void(const Result&)>& ready) {
  const RunFiles& files = settings.files;
  if (settings.repeat < 1) throw UserError(fmt::format("repeat {}: allowed from 1 on", settings.repeat));
  if (settings.compare && runner && !program->prepared)
    throw UserError(library::without_reference(program->name));
  const simulator::ReportOptions wanted = checked_report(settings, options.timing);
  simulator::RunReport report(program->chip, wanted);
  const Call call{settings, settings.tolerance.value_or(compiler::default_tolerance(program->precision())),
                  wanted.any() ? &report : nullptr};
  std::vector<Result> results;
  ordered_json json = ordered_json::array();
  for (Job& job : jobs) {
    const OutputFiles output_files(program->outputs, job.data_set.empty() || files.outputs.empty()
                                                         ? files.outputs
                                                         : files.outputs + "/" + job.data_set);
    call.begin("running");
    const Result& result = results.emplace_back(run(std::move(job), call));
    if (ready) ready(result);
    Values outputs = result.others;
    outputs.insert(result.outputs.begin(), result.outputs.end());
    output_files.write(borrow(outputs));
    if (!files.json.empty() || !files.report.empty()) json.push_back(result.state_->json());
    if (settings.times != nullptr) settings.times->end("report");
  }
  std::ostringstream statistics;
  report.finish(statistics);
  if (!results.empty()) results.back().statistics = std::move(statistics).str();
  if (settings.times != nullptr) {
    settings.times->end("report");
    // Of the whole, all data sets together.
    for (auto& entry : json) entry["wall_seconds"] = to_json(*settings.times);
  }
  if (json.size() == 1) json = ordered_json(json[0]);
  if (!files.json.empty()) isa::write_output(files.json, json.dump(1) + "\n");
  if (!files.report.empty()) isa::write_output(files.report, compiler::html_report({{program->name, json}}));
  return results;
}

Session::Session(const Program& program, const SessionSettings& settings)
    : state_(std::make_unique<library::SessionState>()) {
  library::SessionState& state = *state_;
  state.program = ProgramAccess::get(program);
  state.options = library::runner_options(settings);
  state.progress = settings.progress;
  if (!state.program->compiled) {
    state.prepare_open();
    return;
  }
  compiler::RunnerOptions options = state.options;
  if (state.program->prepared) {
    options.observe = [&state](const std::string& name, const compiler::Tensor& tensor) {
      state.observed[name] = tensor;
    };
  }
  state.runner.emplace(*state.program->compiled, options);
}
Session::~Session() = default;
Session::Session(Session&&) noexcept = default;
Session& Session::operator=(Session&&) noexcept = default;

Result Session::run(Tensors inputs, const RunSettings& settings) {
  std::vector<Job> jobs(1);
  const Values values(inputs.begin(), state_->runner ? inputs.begin() : inputs.end());
  jobs[0].inputs =
      state_->runner ? compiler::to_values(library::to_map(std::move(inputs))) : library::borrow(values);
  return std::move(state_->run_all(std::move(jobs), settings, {}).front());
}

std::vector<Result> Session::run_all(const std::vector<DataSet>& sets, const RunSettings& settings,
                                     const std::function<void(const Result&)>& ready) {
  state_->check_inputs(sets);
  std::vector<Job> jobs;
  for (const DataSet& set : sets) jobs.push_back({set.name, library::borrow(set.inputs), &set.outputs});
  return state_->run_all(std::move(jobs), settings, ready);
}

}  // namespace kodama
