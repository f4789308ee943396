#include <gtest/gtest.h>

#include "compiler/compile/compile_model.h"
#include "compiler/graph/test_models.h"
#include "compiler/runtime/runner.h"
#include "isa/error.h"

namespace kodama::compiler {
namespace {

/// A chip whose register files don't hold the constants of Softmax: 22 words at once. Only with spilling it
/// has a program, which computes the same bits as with large ones.
TEST(Spilling, AKernelFitsSmallRegisterFiles) {
  const onnx::ModelProto model =
      testing::parse_model("agraph (float[16,40] x) => (float[16,40] y) { y = Softmax<axis = 1>(x) }");
  isa::Chip chip = isa::find_chip("mncore2");
  CompileOptions options;
  options.planner = "host";  // gathers need more registers
  const auto run = [&] {
    const CompiledModel compiled = compile_model(model, chip, options);
    const LayerTensor& info = compiled.tensors[static_cast<size_t>(compiled.inputs.at(0))];
    RunnerOptions checked;
    checked.hazards = simulator::Hazards::kError;
    return ModelRunner(compiled, checked)
        .run({{info.name, random_input(info.name, info.type, info.shape, 5)}})
        .outputs.at("y");
  };
  const Tensor expected = run();
  chip.memory.grf_words = 16;
  options.passes.spiller = "none";
  EXPECT_THROW(run(), isa::UnsupportedError);
  options.passes.spiller = "";
  EXPECT_TRUE(run() == expected);  // bit for bit
}

}  // namespace
}  // namespace kodama::compiler
