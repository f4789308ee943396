#include <fmt/format.h>

#include <sstream>

#include "compiler/package/package.h"
#include "isa/chip.h"
#include "library/runtime/states.h"
#include "simulator/hazard_modes.h"

namespace kodama {

using library::PackageState;

namespace library {

std::vector<ValueInfo> describe(const compiler::CompiledModel& model,
                                const std::vector<compiler::TensorId>& ids) {
  std::vector<ValueInfo> result;
  for (const compiler::TensorId id : ids) {
    const compiler::LayerTensor& tensor = model.tensors[static_cast<size_t>(id)];
    result.push_back({tensor.name, static_cast<ElementType>(tensor.type), model.whole_shape(id)});
  }
  return result;
}

compiler::RunnerOptions runner_options(const SessionSettings& settings) {
  compiler::RunnerOptions options;
  options.machine.threads = settings.threads;
  options.timing = settings.timing;
  options.hazards = simulator::parse_hazards(settings.hazards);
  options.host_overlaps = settings.host_overlaps;
  options.progress = to_counts(settings.progress);
  if (!options.timing && options.hazards == simulator::Hazards::kStall)
    throw UserError("hazards stall: allowed only with timing, in which they show");
  return options;
}

std::function<void(int64_t, int64_t, const std::string&)> to_counts(
    const std::function<void(double, const std::string&)>& progress) {
  if (!progress) return {};
  return [progress](int64_t done, int64_t total, const std::string& what) {
    progress(total > 0 ? static_cast<double>(done) / static_cast<double>(total) : 0.0, what);
  };
}

struct PackageSessionState {
  PackageSessionState(std::shared_ptr<const PackageState> of, const SessionSettings& settings)
      : package(std::move(of)), runner(package->model, runner_options(settings)) {}
  std::shared_ptr<const PackageState> package;
  compiler::ModelRunner runner;
};

}  // namespace library

Package Package::load(const std::string& directory, const std::string& chip) {
  auto state = std::make_shared<PackageState>();
  state->model = compiler::load_package(directory, chip);
  state->inputs = library::describe(state->model, state->model.inputs);
  state->outputs = library::describe(state->model, state->model.outputs);
  Package package;
  package.state_ = std::move(state);
  return package;
}

const std::string& Package::name() const {
  return state_->model.name;
}
const std::string& Package::chip() const {
  return state_->model.chip.name;
}
std::vector<ValueInfo> Package::inputs() const {
  return state_->inputs;
}
std::vector<ValueInfo> Package::outputs() const {
  return state_->outputs;
}

PackageSession::PackageSession(const Package& package, const SessionSettings& settings)
    : state_(std::make_unique<library::PackageSessionState>(package.state_, settings)) {}
PackageSession::~PackageSession() = default;
PackageSession::PackageSession(PackageSession&&) noexcept = default;
PackageSession& PackageSession::operator=(PackageSession&&) noexcept = default;

Outcome PackageSession::run(Tensors inputs) {
  compiler::RunOutcome outcome = state_->runner.run(library::to_map(std::move(inputs)));
  Outcome result;
  result.cycles = outcome.total.chip.cycles();
  result.first_cycles = outcome.first_cycles();
  result.seconds = static_cast<double>(result.cycles) / state_->package->model.chip.clock_hz;
  result.outputs = library::from_map(std::move(outcome.outputs));
  return result;
}

bool is_package(const std::string& directory) {
  return compiler::is_package(directory);
}
std::string version() {
  return KODAMA_VERSION;
}
std::vector<std::string> chip_names() {
  return isa::chip_names();
}

}  // namespace kodama
