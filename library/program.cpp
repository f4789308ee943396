#include <fmt/format.h>

#include <sstream>

#include "compiler/compile/plan_slices.h"
#include "compiler/driver/session_options.h"
#include "compiler/dynamic/dynamic_report.h"
#include "compiler/package/package.h"
#include "compiler/proto/tensor_file.h"
#include "compiler/report/html_report.h"
#include "compiler/report/report.h"
#include "compiler/report/traced_run.h"
#include "isa/output.h"
#include "library/states.h"
#include "passes/plugin_loading.h"
#include "passes/registry.h"

namespace kodama {

using compiler::CompiledModel;
using library::describe;
using library::ProgramState;
using library::to_counts;

namespace {

std::shared_ptr<ProgramState> state_of(CompiledModel compiled) {
  auto state = std::make_shared<ProgramState>();
  state->name = compiled.name;
  state->chip = compiled.chip;
  state->inputs = describe(compiled, compiled.inputs);
  state->outputs = describe(compiled, compiled.outputs);
  state->compiled = std::move(compiled);
  return state;
}

}  // namespace

Program Program::compile(const Model& model, const CompileSettings& settings) {
  compiler::SessionOptions options;
  options.chip = settings.chip;
  options.precision = settings.precision;
  for (const auto& [name, value] : settings.options) compiler::set_option(options, name, value);
  compiler::CompileOptions compile =
      compiler::compile_options(options, compiler::dump_points(&options.passes), options.planner);
  const isa::Chip chip = isa::find_chip(options.chip);
  Program program;
  const compiler::ImportedModel& imported = model.state_->imported;
  if (!imported.open_reason.empty()) {
    compiler::check_slices_of_parts(options, imported.open_reason);
    auto state = std::make_shared<ProgramState>();
    state->name = model.name();
    state->chip = chip;
    state->inputs = model.inputs();
    state->outputs = model.outputs();
    state->open = library::OpenProgram{model.state_, std::move(options)};
    program.state_ = std::move(state);
    return program;
  }
  layout::SolutionCache cache(options.cache);
  if (!options.cache.empty()) compile.cache = &cache;
  compile.progress = to_counts(settings.progress);
  program.state_ = state_of(compiler::compile_model(imported.model, chip, compile));
  return program;
}

Program Program::load(const std::string& directory, const std::string& chip) {
  Program program;
  program.state_ = state_of(compiler::load_package(directory, chip));
  return program;
}

void Program::save(const std::string& directory) const {
  if (!state_->compiled)
    throw UnsupportedError(
        fmt::format("model '{}' is compiled while it runs ({}): it has no package; fix its "
                    "shapes (ImportSettings::dims), or keep programs in a cache",
                    state_->name, state_->open->model->imported.open_reason));
  compiler::check_package_directory(directory);
  compiler::save_package(*state_->compiled, directory);
}

const std::string& Program::name() const {
  return state_->name;
}
const std::string& Program::chip() const {
  return state_->chip.name;
}
std::vector<ValueInfo> Program::inputs() const {
  return state_->inputs;
}
std::vector<ValueInfo> Program::outputs() const {
  return state_->outputs;
}

struct library::SessionState {
  std::shared_ptr<const ProgramState> program;
  compiler::RunnerOptions options;
  std::optional<compiler::ModelRunner> runner;
  // Of a program that is compiled while it runs:
  std::optional<layout::SolutionCache> cache;
  std::optional<compiler::StoredPrograms> stored;
  std::optional<compiler::DynamicExecutor> executor;

  Result run_static(Tensors inputs, simulator::RunReport* report, const std::string& page);
  Result run_open(const Tensors& inputs, simulator::RunReport* report);
};

Session::Session(const Program& program, const SessionSettings& settings)
    : state_(std::make_unique<library::SessionState>()) {
  state_->program = program.state_;
  state_->options = library::runner_options(settings);
  compiler::RunnerOptions& run = state_->options;
  if (program.state_->compiled) {
    state_->runner.emplace(*program.state_->compiled, run);
    return;
  }
  const library::OpenProgram& open = *program.state_->open;
  compiler::DynamicOptions dynamic;
  dynamic.compile = compiler::compile_options(open.options, compiler::dump_points(&open.options.passes),
                                              open.options.planner);
  if (!open.options.cache.empty()) {
    dynamic.compile.cache = &state_->cache.emplace(open.options.cache);
    if (!passes::RegisteringPlugin::any())
      dynamic.programs = &state_->stored.emplace(compiler::StoredPrograms::directory_in(open.options.cache));
  }
  dynamic.runner = run;
  if (settings.progress)
    dynamic.progress = [progress = settings.progress](const std::string& what) { progress(0, what); };
  state_->executor.emplace(open.model->imported.model, program.state_->chip, std::move(dynamic));
}
Session::~Session() = default;
Session::Session(Session&&) noexcept = default;
Session& Session::operator=(Session&&) noexcept = default;

Result library::SessionState::run_static(Tensors inputs, simulator::RunReport* report,
                                         const std::string& page) {
  compiler::RunOutcome outcome = runner->run(to_map(std::move(inputs)), report);
  const CompiledModel& model = *program->compiled;
  Result result;
  result.cycles = outcome.total.chip.cycles();
  result.first_cycles = outcome.first_cycles();
  compiler::Comparisons none;
  const compiler::Runs runs{1, result.first_cycles, outcome.preparation.dram_bytes + outcome.total.dram_bytes,
                            outcome};
  const auto traced =
      page.empty() ? std::optional<compiler::TracedRun>() : compiler::traced_run(model, *report, 0);
  const nlohmann::ordered_json json =
      compiler::run_to_json(model, runs, none, none, traced ? &*traced : nullptr);
  result.json = json.dump(1);
  if (!page.empty()) isa::write_output(page, compiler::html_report({{model.name, json}}));
  std::ostringstream table;
  compiler::print_layer_table(model, runs, none, table);
  compiler::print_relayouts(model, outcome, table);
  compiler::print_host_layers(model, table);
  compiler::print_host_share(compiler::host_shares(model, outcome), result.cycles, table);
  result.table = std::move(table).str();
  result.outputs = from_map(std::move(outcome.outputs));
  return result;
}

Result library::SessionState::run_open(const Tensors& inputs, simulator::RunReport* report) {
  compiler::ValueMap values;
  for (const auto& [name, tensor] : inputs)
    values.emplace(name, compiler::Value::borrowed(TensorAccess::get(tensor)));
  compiler::DynamicOutcome outcome = executor->run(values, report);
  Result result;
  result.cycles = outcome.total.stats.chip.cycles();
  result.first_cycles = result.cycles + outcome.total.preload_cycles;
  result.json = compiler::dynamic_to_json(outcome).dump(1);
  std::ostringstream table;
  compiler::print_dynamic_report(outcome, table);
  result.table = std::move(table).str();
  result.outputs = from_map(compiler::to_tensors(std::move(outcome.outputs), "output"));
  return result;
}

Result Session::run(Tensors inputs, const RunFiles& files) {
  simulator::ReportOptions options;
  options.trace_file = files.trace;
  options.vcd_file = files.vcd;
  if (!files.statistics.empty()) options.statistics = "json";
  options.statistics_file = files.statistics;
  options.keeps_timeline = options.timeline.keeps_transfers = !files.report.empty();
  if (!files.report.empty() && !state_->runner)
    throw UnsupportedError(
        fmt::format("RunFiles: a report of model '{}', which is compiled while it runs; Result::json "
                    "has its parts",
                    state_->program->name));
  if (options.any() && !state_->options.timing)
    throw UserError("RunFiles: allowed only in a session with timing, which they show");
  simulator::RunReport report(state_->program->chip, options);
  simulator::RunReport* const wanted = options.any() ? &report : nullptr;
  Result result = state_->runner ? state_->run_static(std::move(inputs), wanted, files.report)
                                 : state_->run_open(inputs, wanted);
  result.seconds = static_cast<double>(result.cycles) / state_->program->chip.clock_hz;
  std::ostream nowhere(nullptr);
  report.finish(nowhere);
  return result;
}

Tensor read_tensor(const std::string& file, const std::string& member) {
  return library::TensorAccess::wrap(compiler::read_tensor_file(file, member));
}
void write_tensor(const std::string& file, const Tensor& tensor, const std::string& name) {
  compiler::write_tensor_file(file, library::TensorAccess::get(tensor), name);
}
void load_plugin(const std::string& file) {
  passes::load_plugin(file);
}

}  // namespace kodama
