#include "compiler/driver/session.h"

#include <fmt/format.h>
#include <fmt/ostream.h>

#include <ostream>

#include "compiler/compile/plan_slices.h"
#include "compiler/driver/session_parts.h"
#include "compiler/graph/gradient/gradient_nodes.h"
#include "compiler/report/html_report.h"
#include "compiler/report/report.h"
#include "isa/file.h"
#include "isa/output.h"
#include "isa/progress.h"

namespace kodama::compiler {
TensorMap random_inputs(const CompiledModel& model, uint64_t seed) {
  TensorMap inputs;
  for (TensorId id : model.inputs) {
    const LayerTensor& info = model.tensors[static_cast<size_t>(id)];
    inputs[info.name] = random_input(info.name, info.type, model.whole_shape(id), seed);
  }
  return inputs;
}

int report_command(const ReportRequest& request) {
  std::vector<ReportSource> sources;
  for (const std::string& file : request.files) {
    const std::string text = isa::read_file(file);
    try {
      sources.push_back({file, nlohmann::ordered_json::parse(text)});
    } catch (const nlohmann::json::exception& error) {
      throw isa::UserError(fmt::format("{}: not JSON: {}", file, error.what()));
    }
  }
  isa::write_output(request.html_file, html_report(sources));
  return isa::kExitOk;
}

int plan_command(const PlanRequest& request, std::ostream& out) {
  const SessionOptions& options = request.common;
  const isa::Chip chip = isa::find_chip(options.chip);
  CompileOptions compile = compile_options(options, planning_dump_points(), {});
  onnx::ModelProto model =
      import_model(request.model_file, {options.dims, read_named_tensors("--bind", options.bind)});
  expand_gradient_nodes(model, request.model_file);
  layout::SolutionCache cache(options.cache);
  if (!options.cache.empty()) compile.cache = &cache;
  std::vector<PlanSummary> summaries;
  isa::ProgressBar bar("planning");
  const SlicedPlan planned = plan_model(std::move(model), chip, compile);
  const LayerGraph& graph = *planned.graph;
  ModelPlanner& planner = *planned.planner;
  const ModelPlan& chosen = planned.plan;
  if (compile.wants_dump("plan")) compile.dump("plan", graph.name, "json", to_json(chosen, graph, planner));
  const std::vector<std::string> names = ModelPlanner::planner_names();
  for (const std::string& name : names) {
    bar.update(static_cast<int64_t>(summaries.size()), static_cast<int64_t>(names.size()), name);
    if (name == options.planner) {
      summaries.push_back(chosen.summary);
      continue;
    }
    try {
      summaries.push_back(planner.plan(name).summary);
    } catch (const isa::UnsupportedError& error) {
      summaries.push_back({.planner = name, .problem = error.what()});
    }
  }
  bar.finish();
  if (planned.slices > 1)
    fmt::print(out, "a run has {} slices of the batch; of one of them:\n", planned.slices);
  print_planned_relayouts(chosen, graph, out);
  print_plans(summaries, out);
  if (!options.json_file.empty())
    isa::write_output(options.json_file, plans_to_json(summaries).dump(1) + "\n");
  return isa::kExitOk;
}

}  // namespace kodama::compiler
