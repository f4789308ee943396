#include <gtest/gtest.h>

#include "compiler/lowering/lowering.h"
#include "compiler/lowering/lowering_test_util.h"
#include "compiler/reference/onnx_backend_test.h"

/// ONNX's own node tests through import, graph passes, lowering and the layer interpreter. Tests of what
/// can't be imported, and those that compute nothing in layers of the chip, are the CPU reference's business.
namespace kodama::compiler {
namespace {

using namespace testing;  // NOLINT

TEST(OnnxNodeTests, LayersGiveTheExpectedOutputs) {
  const auto root = find_onnx_tests();
  if (!root) GTEST_SKIP() << "the package libonnx-testdata isn't installed";
  const auto& direct = directly_lowered_operators();
  GraphPassOptions pass_options;
  pass_options.direct_operators = {direct.begin(), direct.end()};
  int on_chip = 0;
  int refused = 0;
  for (const auto& directory : list_backend_tests(*root)) {
    const BackendTestCase test = load_backend_test(directory);
    if (!test.skip_reason.empty()) continue;
    // A quotient is half a number in single precision, which is rounded to even; the interpreter's isn't.
    if (test.name.starts_with("test_dynamicquantizelinear")) continue;
    SCOPED_TRACE(test.name);
    LayerGraph graphs[2];
    try {
      onnx::ModelProto model = import_model(test.model, {}, test.name);
      run_graph_passes(model, pass_options);
      for (bool fuse : {false, true})
        graphs[fuse] = lower_to_layers(model, {.fuse = fuse, .force_host = false});
    } catch (const isa::UnsupportedError&) {
      ++refused;
      continue;
    } catch (const isa::UserError&) {
      ++refused;
      continue;
    } catch (const std::exception& error) {
      ADD_FAILURE() << error.what();
      continue;
    }
    const auto& layers = graphs[1].layers;
    if (std::all_of(layers.begin(), layers.end(),
                    [](const Layer& l) { return l.kind() == LayerKind::kHost; })) {
      continue;
    }
    ++on_chip;
    for (const LayerGraph& graph : graphs) {
      for (const auto& data : test.data_sets) {
        try {
          const std::string difference =
              compare_with_expected(to_values(interpret_layer_graph(graph, to_tensors(data.inputs, "input"))),
                                    data.outputs, {}, test.random_outputs);
          EXPECT_EQ(difference, "") << describe(graph);
        } catch (const std::exception& error) {
          ADD_FAILURE() << error.what() << "\n" << describe(graph);
        }
      }
    }
  }
  std::cout << on_chip << " node tests have layers on the chip, " << refused << " can't be imported\n";
  EXPECT_GT(on_chip, 400);
}

}  // namespace
}  // namespace kodama::compiler
