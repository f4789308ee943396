#include <pybind11/stl.h>

#include <optional>
#include <utility>

#include "compiler/driver/repeated_model.h"
#include "compiler/driver/session_options.h"
#include "compiler/graph/gradient/gradient_nodes.h"
#include "compiler/graph/gradient/train_step.h"
#include "compiler/graph/import.h"
#include "compiler/graph/import_control_flow.h"
#include "library/states.h"
#include "python/module/calls.h"
#include "python/module/parts.h"

/// kodama.train_step.
namespace kodama::python {
namespace {

using compiler::TrainStepRequest;

struct Wanted {
  TrainStepRequest step;
  compiler::TensorMap initial;                 ///< of the state, instead of what the model has
  std::map<std::string, std::string> options;  ///< of the compiler
  std::string chip, precision;
  int threads = 0;
};

/// A step with its state on a chip of its own.
class PyTrainStep {
 public:
  PyTrainStep(const std::string& model, const std::string& name, const Wanted& wanted) {
    run_long([&] {
      compiler::SessionOptions options;
      options.chip = wanted.chip;
      options.precision = wanted.precision;
      options.threads = wanted.threads;
      for (const auto& [key, value] : wanted.options) compiler::set_option(options, key, value);
      onnx::ModelProto imported =
          compiler::import_with_control_flow(compiler::parse_model(model, name), {}, name);
      compiler::expand_gradient_nodes(imported, name);
      compiler::StepModel step = compiler::make_train_step(std::move(imported), wanted.step, name);
      batch_ = step.batch;
      for (const auto& [name, tensor] : wanted.initial) {
        const auto state = step.initial.find(name);
        if (state != step.initial.end() && state->second.type() == tensor.type() &&
            state->second.shape() == tensor.shape())
          state->second = tensor;
      }
      for (const auto& tie : step.state) {
        if (tie.is_parameter) parameters_.push_back(tie.input);
      }
      step_.emplace(step, compiler::repeated_model(step.model, options, step.state, "step"));
    });
  }

  const std::vector<std::string>& batch() const { return batch_; }
  const std::vector<std::string>& parameters() const { return parameters_; }

  std::tuple<double, double, int64_t> run(const py::dict& batch) {
    compiler::TensorMap tensors;
    for (const auto& [key, value] : batch)
      tensors.emplace(key.cast<std::string>(), library::TensorAccess::take(std::move(value.cast<Tensor&>())));
    compiler::RepeatedStep::Outcome outcome;
    work([&] { outcome = step_->run(std::move(tensors)); });
    return {outcome.loss, outcome.rate, outcome.cycles};
  }
  int64_t done() const { return step_->done(); }
  Tensors state() {
    Tensors all;
    work([&] {
      for (const auto& [name, tensor] : step_->state())
        all.emplace(name, library::TensorAccess::wrap(tensor));
    });
    return all;
  }

 private:
  void work(const std::function<void()>& what) {
    if (is_busy_) throw isa::UserError("this step runs in another thread; allowed: one at a time");
    if (is_broken_)
      throw isa::UserError(
          "a step before this one was ended, or failed, and left the state half done; begin anew");
    is_busy_ = true;
    is_broken_ = true;
    try {
      run_long(what);
      is_broken_ = false;
    } catch (const isa::UserError&) {
      is_broken_ = false;  // of the batch: nothing has begun
      is_busy_ = false;
      throw;
    } catch (...) {
      is_busy_ = false;
      throw;
    }
    is_busy_ = false;
  }

  std::vector<std::string> batch_, parameters_;
  std::optional<compiler::RepeatedStep> step_;
  bool is_busy_ = false, is_broken_ = false;  ///< under the interpreter's lock
};

/// (name, description, keys with their defaults)
using Choice = std::tuple<std::string, std::string, std::map<std::string, double>>;
std::vector<Choice> choices(const std::vector<compiler::ChoiceRow>& rows) {
  std::vector<Choice> all;
  for (const compiler::ChoiceRow& row : rows) {
    std::map<std::string, double> keys;
    for (const auto& key : row.keys) keys[key.name] = key.default_value;
    all.emplace_back(row.name, row.description, keys);
  }
  return all;
}

}  // namespace

void define_training(py::module_& module) {
  py::class_<PyTrainStep>(module, "TrainStep")
      .def(py::init([](const py::bytes& model, const std::string& name, const std::string& loss,
                       const std::string& optimizer, const std::string& schedule, const std::string& clip,
                       const std::vector<std::string>& train, uint64_t seed, const std::string& chip,
                       const std::string& precision, int threads,
                       const std::map<std::string, std::string>& options, const py::dict& initial) {
        TrainStepRequest step;
        step.loss = loss;
        step.optimizer = optimizer;
        step.schedule = schedule;
        step.clip = clip;
        step.train = train;
        step.seed = seed;
        compiler::TensorMap values;
        for (const auto& [key, value] : initial)
          values.emplace(key.cast<std::string>(),
                         library::TensorAccess::take(std::move(value.cast<Tensor&>())));
        return std::make_unique<PyTrainStep>(
            model.operator std::string(), name,
            Wanted{step, std::move(values), options, chip, precision, threads});
      }))
      .def_property_readonly("batch", &PyTrainStep::batch)
      .def_property_readonly("parameters", &PyTrainStep::parameters)
      .def_property_readonly("done", &PyTrainStep::done)
      .def("run", &PyTrainStep::run)
      .def("state", &PyTrainStep::state);
  module.def("train_choices", [](const std::string& kind) {
    return choices(kind == "loss"        ? compiler::loss_choices()
                   : kind == "optimizer" ? compiler::optimizer_choices()
                                         : compiler::schedule_choices());
  });
}

}  // namespace kodama::python
