#include "compiler/driver/training.h"

#include <fmt/format.h>
#include <fmt/ostream.h>

#include <algorithm>
#include <set>

#include "compiler/driver/session_parts.h"
#include "compiler/driver/training_parts.h"
#include "compiler/graph/gradient/gradient_nodes.h"
#include "compiler/graph/graph_view.h"
#include "compiler/graph/import_control_flow.h"
#include "compiler/graph/onnx_model.h"
#include "compiler/recompute/step_memory.h"
#include "isa/chip.h"
#include "isa/file.h"

namespace kodama::compiler {

onnx::ModelProto import_with_batch(const std::string& file, const SessionOptions& options, int64_t batch) {
  ImportOptions import = {options.dims, read_named_tensors("--bind", options.bind)};
  onnx::ModelProto model = read_model_with_data(file);
  if (batch > 0) {
    std::set<std::string> initializers;
    for (const auto& tensor : model.graph().initializer()) initializers.insert(tensor.name());
    for (const auto& input : model.graph().input()) {
      const auto& type = input.type().tensor_type();
      if (initializers.contains(input.name()) || import.bind.contains(input.name()) || !type.has_shape() ||
          type.shape().dim_size() == 0)
        continue;
      const auto& first = type.shape().dim(0);
      const std::string key = first.has_dim_param() && !first.dim_param().empty()
                                  ? first.dim_param()
                                  : fmt::format("{}:0", input.name());
      import.dims.try_emplace(key, batch);
    }
  }
  model = import_with_control_flow(std::move(model), import, file);
  expand_gradient_nodes(model, file);
  return model;
}

SessionOptions with_recomputer(SessionOptions common, const StepMemoryOptions& memory) {
  if (!memory.limit.empty())
    common.passes.others.push_back(&scheduler::find_recomputer(memory.recomputer).options);
  return common;
}

void limit_memory(StepModel& step, const SessionOptions& common, const StepMemoryOptions& memory,
                  std::ostream& out) {
  if (memory.limit.empty()) return;
  StepMemoryRequest request = {parse_memory_limit(memory.limit),
                               memory.counts == "results",
                               memory.recomputer,
                               {},
                               memory.problem_file};
  for (const auto& option : scheduler::find_recomputer(memory.recomputer).options) {
    const auto given = common.passes.options.find(option.name);
    if (given != common.passes.options.end()) request.options.insert(*given);
  }
  const CompileOptions compile = compile_options(common, dump_points(&common.passes), common.planner);
  out << limit_step_memory(step, isa::find_chip(common.chip), compile, request).to_string();
}

int grad_command(const GradRequest& request, std::ostream& out) {
  onnx::ModelProto model = import_with_batch(request.model_file, request.common, 0);
  const int before = model.graph().node_size();
  const GradientNames names = make_gradient_model(model, request.gradient, request.model_file);
  isa::write_file_atomically(request.output_file, serialize_model(model, request.output_file));

  const GraphView view(model);
  const ValueInfo& loss = view.value(request.gradient.loss);
  fmt::print(out, "{}: gradients of '{}' ({} {}{})\n", request.output_file, request.gradient.loss,
             data_type_name(loss.type), shape_to_string(loss.shape),
             element_count(loss.shape) == 1 ? "" : ", the sum of its elements");
  size_t width = 2;
  for (const auto& [value, gradient] : names) width = std::max(width, value.size());
  fmt::print(out, "{:<{}}  {:<20}  {}\n", "by", width, "shape", "output");
  for (const auto& [value, gradient] : names)
    fmt::print(out, "{:<{}}  {:<20}  {}\n", value, width, shape_to_string(view.shape(value)), gradient);
  fmt::print(out, "nodes: {} of the model, {} with the gradients\n", before, model.graph().node_size());
  return isa::kExitOk;
}

int train_step_command(const TrainStepCommand& request, std::ostream& out) {
  const onnx::ModelProto model = import_with_batch(request.model_file, request.common, request.batch);
  StepModel step = make_train_step(model, request.step, request.model_file);
  limit_memory(step, with_recomputer(request.common, request.memory), request.memory, out);
  write_train_step(step, request.output_file);

  const GraphView view(step.model);
  int64_t parameters = 0;
  int64_t elements = 0;
  size_t width = 5;
  for (const auto& each : step.state) {
    width = std::max(width, each.input.size());
    if (!each.is_parameter) continue;
    ++parameters;
    elements += element_count(view.shape(each.input));
  }
  fmt::print(out, "{}: a step of {} with {} parameters of {} elements, {} nodes\n", request.output_file,
             request.model_file, parameters, elements, step.model.graph().node_size());
  fmt::print(out, "{:<{}}  {:<8}  {:<20}  {}\n", "input", width, "type", "shape", "is");
  const auto print_input = [&](const std::string& name, const std::string& what) {
    fmt::print(out, "{:<{}}  {:<8}  {:<20}  {}\n", name, width, data_type_name(view.type(name)),
               shape_to_string(view.shape(name)), what);
  };
  for (const std::string& name : step.batch) print_input(name, "batch");
  print_input(step.step, "steps done before");
  for (const auto& each : step.state)
    print_input(each.input,
                fmt::format("{}, then output '{}'", each.is_parameter ? "parameter" : "state", each.output));
  fmt::print(out, "outputs: '{}', '{}' (learning rate), and the state of the next step\n", step.loss,
             step.rate);
  return isa::kExitOk;
}

}  // namespace kodama::compiler
