#pragma once

#include <onnx/onnx_pb.h>

#include <cstdint>
#include <iosfwd>
#include <memory>
#include <string>
#include <vector>

#include "compiler/driver/session.h"
#include "compiler/graph/gradient/train_step.h"
#include "compiler/runtime/runner.h"
#include "compiler/tensor/value.h"

/// Models and training steps that run again and again on a simulated chip, on which stays what can.
namespace kodama::compiler {

/// A run of a RepeatedModel.
struct RepeatedOutcome {
  TensorMap outputs;
  int64_t cycles = 0;
};

/// A model that runs again and again; inputs that aren't given anew keep their values.
class RepeatedModel {
 public:
  RepeatedModel() = default;
  virtual ~RepeatedModel() = default;
  RepeatedModel(const RepeatedModel&) = delete;
  RepeatedModel& operator=(const RepeatedModel&) = delete;

  virtual RepeatedOutcome run(const TensorMap& changed) = 0;
  /// Whether the input stays on the chip, where an output takes its place.
  virtual bool is_tied(const std::string& input) const = 0;
  /// The output that takes the place of a tied input, behind the last run.
  virtual Tensor fetch(const std::string& input) = 0;
  /// Where the cycles of the last run went.
  virtual void print_layers(std::ostream& out) const = 0;
};

/// RunnerOptions::mean_of_shares.
using MeanOfShares = decltype(RunnerOptions::mean_of_shares);

/// `ties`: outputs that take the places of inputs in the next run, as far as they can on the chip. `what` is
/// for the progress on a terminal. A model with control flow is compiled in parts while it runs;
/// UnsupportedError with `mean_of_shares`, then.
std::unique_ptr<RepeatedModel> repeated_model(const onnx::ModelProto& model, const SessionOptions& options,
                                              const std::vector<StepModel::Tie>& ties,
                                              const std::string& what, MeanOfShares mean_of_shares = {});

/// A training step with its state.
class RepeatedStep {
 public:
  /// `model` is that of the step, with its ties, or what became of it. The state begins with the step's.
  RepeatedStep(const StepModel& step, std::unique_ptr<RepeatedModel> model);

  struct Outcome {
    double loss = 0, rate = 0;
    int64_t cycles = 0;
  };
  /// `batch`: the inputs of the batch by name. UserError as ModelRunner::run_again's.
  Outcome run(TensorMap batch);
  /// Steps that the state has gone through, those before the first run here included.
  int64_t done() const { return done_; }
  /// By the inputs of the state; what is on the chip is fetched.
  const TensorMap& state();
  RepeatedModel& model() { return *model_; }

 private:
  StepModel names_;  ///< without the model
  std::unique_ptr<RepeatedModel> model_;
  TensorMap state_;    ///< as far as the host knows it
  TensorMap changed_;  ///< of the state, for the next run
  bool has_run_ = false;
  int64_t done_ = 0;
};

}  // namespace kodama::compiler
