#include <fmt/format.h>

#include <filesystem>
#include <sstream>

#include "compiler/driver/training.h"
#include "compiler/report/table.h"
#include "isa/error.h"
#include "isa/file.h"
#include "isa/verbosity.h"
#include "tools/command_groups.h"
#include "tools/common_options.h"
#include "tools/options.h"
#include "tools/session_options.h"

namespace kodama::tools {
namespace {

class GradCommand : public Command {
 public:
  void declare(CLI::App& app) override {
    app.add_option("model", request_.model_file, "model.onnx")->required();
    app.add_option("--loss", request_.gradient.loss,
                   "the value to differentiate; if it has several elements, their sum")
        ->required();
    app.add_option(
        "--wrt", request_.gradient.wrt,
        "values to differentiate by; default: all initializers of floats that the loss depends on");
    app.add_option("--stop", request_.gradient.stop, "values that no gradient passes");
    app.add_option("-o,--output", request_.output_file, "model to write, gradients among its outputs")
        ->required();
    app.add_option("--dim", model_.dims, "NAME=N: extent of a symbolic dimension; INPUT:AXIS=N by position");
    app.add_option("--bind", model_.bind, "NAME=FILE: fix an input (axes, pads, shapes)");
  }
  int run(const CLI::App& /*app*/) override {
    finish_options(model_, request_.common);
    return compiler::grad_command(request_, isa::unless_quiet(report_stream({request_.output_file})));
  }

 private:
  compiler::GradRequest request_;
  ModelOptions model_;
};

/// The program that runs, and its arguments.
std::vector<std::string> own_command() {
  std::istringstream arguments(isa::read_file("/proc/self/cmdline"));
  std::vector<std::string> command;
  for (std::string argument; std::getline(arguments, argument, '\0');) command.push_back(argument);
  command.at(0) = std::filesystem::read_symlink("/proc/self/exe").string();
  return command;
}

/// What makes a step of a model.
void add_step_options(CLI::App& app, compiler::TrainStepRequest& step) {
  const auto choices = [](const char* what, const std::vector<compiler::ChoiceRow>& rows) {
    return fmt::format("{}: {}", what, compiler::choices_to_string(rows));
  };
  app.add_option("--loss", step.loss,
                 choices("of the model's output and a further input", compiler::loss_choices()) +
                     ", or a value of the model")
      ->capture_default_str();
  app.add_option("--loss-of", step.output, "the output that a loss by name is of; default: the first");
  app.add_option("--optimizer", step.optimizer, choices("NAME:KEY=N,...", compiler::optimizer_choices()))
      ->capture_default_str();
  app.add_option("--lr-schedule", step.schedule, choices("NAME:KEY=N,...", compiler::schedule_choices()))
      ->capture_default_str();
  app.add_option("--clip", step.clip, choices("gradients", compiler::clip_choices()));
  app.add_option("--loss-scale", step.loss_scale,
                 choices("against underflow", compiler::loss_scale_choices()))
      ->capture_default_str();
  app.add_option(
      "--train", step.train,
      "parameters to train, by names or patterns ('layer1.*'); default: initializers of floats with "
      "more than one element");
  app.add_option("--freeze", step.freeze, "parameters that stay as they are; names or patterns");
  app.add_option("--stop", step.stop, "values that no gradient passes");
  app.add_flag("!--no-batch-statistics", step.trains_normalization,
               "BatchNormalization as in inference: running statistics stay as they are");
  app.add_flag("!--no-dropout", step.drops_out, "Dropout drops nothing");
  add_seed(app, step.seed, "of what is dropped, and of the order of the examples");
}

/// What limits the memory of a step.
void add_memory_options(CLI::App& app, compiler::StepMemoryOptions& memory) {
  app.add_option(
      "--memory", memory.limit,
      "what activations may take at a time: bytes, with K, M or G behind, or a part of what they take "
      "else, as 50%; docs/memory.md");
  app.add_option("--memory-counts", memory.counts,
                 "what is limited: activations, what the loss is computed of, or all results")
      ->check(one_of({"activations", "results"}))
      ->capture_default_str();
  app.add_option("--recompute", memory.recomputer,
                 "how: none, order, sqrt, optimal, or a plugin's; 'kodama passes' says what they do")
      ->capture_default_str();
  app.add_option("--recompute-problem", memory.problem_file,
                 "write what was to be solved, and the solution, as JSON (kodama recompute takes it)");
}
void check_memory_options(const CLI::App& app, const compiler::StepMemoryOptions& memory) {
  if (!memory.limit.empty()) return;
  for (const char* option : {"--memory-counts", "--recompute", "--recompute-problem"}) {
    if (is_given(app, option))
      throw isa::UserError(fmt::format("{}: no effect without --memory LIMIT", option));
  }
}

class TrainStepCommand : public Command {
 public:
  void declare(CLI::App& app) override {
    app.add_option("model", request_.model_file, "model.onnx")->required();
    add_step_options(app, request_.step);
    add_number(app, "--batch", request_.batch, "extent of the first axis of every input", 1, 1'000'000);
    app.add_option("-o,--output", request_.output_file, "model to write: a training step")->required();
    app.add_option("--dim", model_.dims, "NAME=N: extent of a symbolic dimension; INPUT:AXIS=N by position");
    app.add_option("--bind", model_.bind, "NAME=FILE: fix an input (axes, pads, shapes)");
    add_memory_options(app, request_.memory);
    add_chip(app, model_.chip);
    app.add_option("--precision", model_.word("precision"), "of matrix products")->capture_default_str();
    add_pass_options(app, model_.pass_options);
    add_plugin_option(app, model_.plugins);
  }
  int run(const CLI::App& app) override {
    finish_options(model_, request_.common);
    check_memory_options(app, request_.memory);
    for (const char* option : {"--chip", "--precision", "--pass-option"}) {
      if (request_.memory.limit.empty() && is_given(app, option))
        throw isa::UserError(fmt::format("{}: no effect without --memory LIMIT", option));
    }
    return compiler::train_step_command(
        request_, isa::unless_quiet(report_stream({request_.output_file, request_.memory.problem_file})));
  }

 private:
  compiler::TrainStepCommand request_;
  ModelOptions model_;
};

class TrainCommand : public Command {
 public:
  void declare(CLI::App& app) override {
    app.add_option("model", request_.model_file,
                   "model.onnx, or a training step: of train-step or a checkpoint, to go on from there")
        ->required();
    app.add_option("--data", request_.data,
                   "a .npy or .pb per input of the step, examples along the first axis; or mnist:DIR")
        ->required();
    add_step_options(app, request_.step);
    add_number(app, "--batch", request_.batch, "examples in a step", 1, 1'000'000)->capture_default_str();
    add_number(app, "--accumulate", request_.accumulate,
               "take a chip's examples in N shares, one after the other, and train with the mean", 1,
               1'000'000)
        ->capture_default_str();
    add_number(app, "--chips", request_.chips,
               "share a step's examples among N chips, each simulated by a process (MPI)", 1, 1024)
        ->capture_default_str();
    app.add_option("--interconnect", request_.interconnect,
                   fmt::format("between chips, in time that is charged: {}",
                               compiler::choices_to_string(compiler::interconnect_choices())))
        ->capture_default_str();
    add_number(app, "--epochs", request_.epochs, "times through all examples", 1, 1'000'000)
        ->capture_default_str();
    add_number(app, "--steps", request_.most_steps, "end behind so many steps", 1, 1'000'000'000);
    add_number(app, "--held-out", request_.held_out,
               "the last N examples aren't trained with: behind every epoch they are tried", 1,
               1'000'000'000);
    app.add_option("--checkpoint", request_.checkpoint_file,
                   "step to write at the end and on Ctrl-C, which train goes on from to the bit");
    add_number(app, "--checkpoint-every", request_.checkpoint_every, "and every N steps", 1, 1'000'000'000);
    app.add_option("-o,--output", request_.output_file, "write the model with what it has learned");
    app.add_option("--csv", request_.csv_file,
                   "write step, epoch, loss, learning rate and cycles of every step");
    app.add_flag("--layers", request_.show_layers, "say where the last step's cycles went: layers and moves");
    add_compile_options(app, model_);
    add_threads(app, request_.common.threads);
    add_memory_options(app, request_.memory);
  }
  int run(const CLI::App& app) override {
    if (request_.show_layers) compiler::table_view().moves = true;
    finish_options(model_, request_.common);
    check_memory_options(app, request_.memory);
    if (is_given(app, "--checkpoint-every") && request_.checkpoint_file.empty())
      throw isa::UserError("--checkpoint-every: no effect without --checkpoint FILE");
    if (is_given(app, "--interconnect") && request_.chips == 1)
      throw isa::UserError("--interconnect: no effect without --chips N");
    request_.command = own_command();
    return compiler::train_command(
        request_, isa::unless_quiet(report_stream({request_.checkpoint_file, request_.output_file,
                                                   request_.csv_file, request_.memory.problem_file})));
  }

 private:
  compiler::TrainRequest request_;
  ModelOptions model_;
};

}  // namespace

void add_training_commands(CommandLine& line) {
  line.add<GradCommand>("grad", "add to an ONNX model the gradients of one of its values");
  line.add<TrainStepCommand>("train-step", "make a training step of an ONNX model: an ONNX model, too");
  line.add<TrainCommand>("train", "train an ONNX model on the simulated chip");
}

}  // namespace kodama::tools
