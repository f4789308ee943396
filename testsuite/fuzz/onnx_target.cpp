/// Any bytes to the import of ONNX models and the graph passes. What is accepted stays accepted.
#include <onnx/onnx_pb.h>

#include "compiler/graph/import.h"
#include "compiler/graph/passes.h"
#include "testsuite/fuzz/fuzz_target.h"

namespace kodama::fuzz {

void fuzz_one(std::string_view input) {
  onnx::ModelProto model;
  if (!model.ParseFromArray(input.data(), static_cast<int>(input.size()))) return;
  const onnx::ModelProto imported = compiler::import_model(std::move(model), {}, "input");
  require(succeeds([&] { compiler::import_model(imported, {}, "imported"); }),
          "an imported model can be imported");
  onnx::ModelProto passed = imported;
  compiler::run_graph_passes(passed);
}

}  // namespace kodama::fuzz
