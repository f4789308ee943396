#include "compiler/driver/grad.h"

#include <fmt/format.h>
#include <fmt/ostream.h>

#include <algorithm>

#include "compiler/driver/session_parts.h"
#include "compiler/graph/graph_view.h"
#include "compiler/graph/import.h"
#include "isa/file.h"

namespace kodama::compiler {

int grad_command(const GradRequest& request, std::ostream& out) {
  onnx::ModelProto model = import_model(
      request.model_file, {request.common.dims, read_named_tensors("--bind", request.common.bind)});
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
  return kExitOk;
}

}  // namespace kodama::compiler
