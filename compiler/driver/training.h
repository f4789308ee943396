#pragma once

#include <iosfwd>
#include <string>
#include <vector>

#include "compiler/driver/session.h"
#include "compiler/graph/gradient/gradient.h"
#include "compiler/graph/gradient/train_step.h"

/// The commands `kodama grad`, `kodama train-step` and `kodama train`.
namespace kodama::compiler {

struct GradRequest {
  SessionOptions common;  ///< dims and bind matter
  std::string model_file;
  std::string output_file;
  GradientRequest gradient;
};
/// Writes a model that computes what the given one computes and, as further outputs, the gradients of a
/// value; says which there are. Errors are those of import_model() and add_gradients().
int grad_command(const GradRequest& request, std::ostream& out);

/// A limit on what a step keeps in memory (compiler/recompute/step_memory.h).
struct StepMemoryOptions {
  std::string limit;                   ///< parse_memory_limit; empty: none
  std::string counts = "activations";  ///< or results: all of them
  std::string recomputer = "optimal";  ///< scheduler::find_recomputer
  std::string problem_file;            ///< for the problem and what was found; empty: none
};

struct TrainStepCommand {
  SessionOptions common;  ///< dims and bind matter; with a limit chip, precision and pass options, too
  std::string model_file;
  std::string output_file;
  int64_t batch = 0;  ///< the first axis of every input; 0: as the model has it
  TrainStepRequest step;
  StepMemoryOptions memory;
};
/// Writes a training step of a model (train_step.h) and says what its inputs and outputs are.
int train_step_command(const TrainStepCommand& request, std::ostream& out);

struct TrainRequest {
  SessionOptions common;
  std::string model_file;  ///< a model, or a step that train-step or a checkpoint made
  std::vector<std::string> data;
  TrainStepRequest step;
  StepMemoryOptions memory;
  int64_t batch = 32;  ///< examples in a step, of all shares together
  /// A step's batch is taken in chips * accumulate shares: so many on each chip, one after the other. The
  /// optimizer gets the mean of their gradients.
  int64_t accumulate = 1;
  int64_t chips = 1;  ///< each a process (chips.h)
  std::string interconnect = "ring";
  std::vector<std::string> command = {};  ///< program and arguments that train on each of several chips
  int64_t epochs = 1;
  int64_t most_steps = 0;        ///< ends earlier; 0: no limit
  int64_t held_out = 0;          ///< the last examples are for validation
  int64_t checkpoint_every = 0;  ///< steps; 0: at the end alone
  std::string checkpoint_file;   ///< empty: none
  std::string output_file;       ///< the trained model; empty: none
  std::string csv_file;          ///< empty: none
  bool show_layers = false;      ///< of the last step: what its layers and moves took
};
/// Trains on the simulated chip. The state stays there; a step sends its batch and fetches its loss. Ctrl-C
/// ends behind the present step, and saves. Throws before the first step what is wrong with data or options.
/// On several chips it starts the command in as many processes, unless it is in one of them; the first one
/// reports and writes the files.
int train_command(const TrainRequest& request, std::ostream& out);
std::vector<ChoiceRow> interconnect_choices();

}  // namespace kodama::compiler
