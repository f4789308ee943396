#include "builder/train_step.h"

#include <algorithm>

#include "builder/recorder.h"
#include "compiler/graph/import_control_flow.h"

namespace kodama::builder {

compiler::StepModel train_step(const Value& loss, compiler::TrainStepRequest request, Here here) {
  if (!loss.has_value()) fail(here, "a default Value was given; a value of a graph is needed");
  Recorder& recorder = *Recorder::of(loss);
  const int id = recorder.use(loss, here);
  std::vector<int> outputs = recorder.outputs();
  if (std::ranges::count(outputs, id) == 0) outputs.push_back(id);
  request.loss = loss.name();
  if (request.train.empty()) {
    for (const int parameter : recorder.ancestors(id, ValueKind::kParameter))
      request.train.push_back(recorder.record_of(parameter).name);
  }
  onnx::ModelProto model = finished_model(recorder, outputs, {}, here);
  return with_line(here, [&] {
    const std::string where = "train_step";
    return compiler::make_train_step(compiler::import_with_control_flow(std::move(model), {}, where), request,
                                     where);
  });
}

}  // namespace kodama::builder
