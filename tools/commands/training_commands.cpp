#include "compiler/driver/grad.h"
#include "isa/error.h"
#include "isa/file.h"
#include "tools/command_groups.h"
#include "tools/common_options.h"
#include "tools/options.h"

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
    app.add_option("--dim", raw_.dims, "NAME=N: extent of a symbolic dimension; INPUT:AXIS=N by position");
    app.add_option("--bind", request_.common.bind, "NAME=FILE: fix an input (axes, pads, shapes)");
  }
  int run(const CLI::App& /*app*/) override {
    finish_options(raw_, request_.common);
    return compiler::grad_command(request_, report_stream({request_.output_file}));
  }

 private:
  compiler::GradRequest request_;
  RawOptions raw_;
};

}  // namespace

void add_training_commands(CommandLine& line) {
  line.add<GradCommand>("grad", "add to an ONNX model the gradients of one of its values");
}

}  // namespace kodama::tools
