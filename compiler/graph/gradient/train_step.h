#pragma once

#include <onnx/onnx_pb.h>

#include <cstdint>
#include <string>
#include <vector>

#include "compiler/graph/gradient/choice.h"
#include "compiler/tensor/value.h"

/// A training step as an ONNX model: forward model, loss, gradients and optimizer in one graph.
///
/// Inputs: the batch (the model's inputs and what its output should be), the number of the step, and the
/// state: parameters, what the optimizer remembers of each, running statistics. Outputs: the loss, the
/// learning rate and the state of the next step, each tied to the input whose place it takes:
///
///     x, labels, step, w, w.mean, w.square  ->  loss, rate, w.next, w.mean.next, w.square.next
///
/// The file is complete: state inputs have their first values as initializers. Which output is tied to which
/// input, and what the others are, is in the model's metadata (StepModel), so that other tools can run it,
/// too.
namespace kodama::compiler {

struct TrainStepRequest {
  /// A row of loss_choices(), or a value of the model: then there is no further input.
  std::string loss = "softmax-cross-entropy";
  std::string output = {};  ///< of the model, for a loss by name; empty: its first
  std::string optimizer = "sgd";
  std::string schedule = "constant";
  std::string clip = {};            ///< "", "norm:at=1", "value:at=1"
  std::string loss_scale = "none";  ///< "none", "static:by=1024", "dynamic:..."
  /// Parameters to train; empty: all initializers of floats with more than one element that the loss depends
  /// on, but for running statistics.
  std::vector<std::string> train = {};
  std::vector<std::string> freeze = {};  ///< parameters that stay as they are
  std::vector<std::string> stop = {};    ///< values that no gradient passes
  bool trains_normalization = true;      ///< BatchNormalization by its batch, running statistics are state
  bool drops_out = true;                 ///< Dropout does
  uint64_t seed = 1;                     ///< of what is dropped
};

/// Under this key the metadata of a step's model say which value is what.
inline constexpr const char* kTrainStepMetadata = "kodama.train-step";

/// Which values of a step are what.
struct StepModel {
  struct Tie {
    std::string input, output;
    bool is_parameter = false;
  };

  onnx::ModelProto model;
  std::vector<std::string> batch;  ///< inputs that every step gets anew; those of the loss last
  std::string step;                ///< int64 scalar: steps done before
  std::string loss, rate;          ///< outputs
  std::vector<Tie> state;          ///< parameters first
  TensorMap initial;               ///< first values, by the inputs of the state
  int64_t classes = 0;             ///< the last input of the batch holds numbers below; 0: it doesn't
  int64_t done = 0;                ///< steps before the first values were reached
  /// What nodes Identity make of gradients, of the next running statistics and of the loss: what a batch of
  /// several shares has the mean of (compiler/graph/shares.h).
  std::vector<std::string> joined;
};

/// Makes the step of a model that import_model() has made. Errors as those of add_gradients(), and UserError
/// for options that don't fit the model.
StepModel make_train_step(onnx::ModelProto model, const TrainStepRequest& request, const std::string& where);

/// Writes and reads a step as a model file: the state has its first values as initializers of its inputs.
/// Reading, they are inputs again, not constants. UserError for a model that isn't such a step.
void write_train_step(const StepModel& step, const std::string& path);
StepModel read_train_step(const std::string& path);

std::vector<ChoiceRow> optimizer_choices();
std::vector<ChoiceRow> schedule_choices();
std::vector<ChoiceRow> loss_choices();
std::vector<ChoiceRow> clip_choices();
std::vector<ChoiceRow> loss_scale_choices();

}  // namespace kodama::compiler
