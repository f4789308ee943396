/// Graph passes, planners, packers, kernels and changes that are wrong on purpose, each in one way: the
/// option `bad` says which. Without it they do nothing, or what is right.
#include <stdexcept>
#include <string>
#include <vector>

#include "compiler/graph/passes.h"
#include "compiler/kernels/kernel.h"
#include "layout/plan/planner.h"
#include "passes/plugin.h"
#include "scheduler/optimizer/stream_changes.h"
#include "scheduler/packing/packing.h"

using namespace kodama;
using namespace kodama::compiler;
using namespace kodama::scheduler;

namespace {

const passes::PassOptionInfo kBad{"bad", "nothing", "what is wrong"};

std::string wanted(const passes::PassOptions& options) {
  const auto given = options.find(kBad.name);
  return given == options.end() ? kBad.default_value : given->second;
}

void change_graph(onnx::ModelProto& model, const GraphPassOptions& options) {
  const std::string bad = wanted(options.given);
  onnx::GraphProto& graph = *model.mutable_graph();
  if (bad == "graph-throws") throw std::out_of_range("a bug of the plugin");
  if (bad == "graph-invalid") graph.mutable_node(0)->set_input(0, "lost");
  if (bad == "graph-interface") graph.mutable_input(0)->set_name("other");
  if (bad == "graph-value") graph.mutable_node(0)->set_op_type("Abs");
}

layout::Plan plan_badly(const layout::PlanProblem& problem, const layout::PlanOptions& options) {
  const std::string bad = wanted(options.given);
  layout::Plan plan = layout::evaluate(problem, std::vector<int>(problem.nodes.size(), 0));
  if (bad == "plan-size") plan.choice.pop_back();
  if (bad == "plan-range") plan.choice[0] = 1000;
  if (bad == "plan-cost") plan.cost -= 1;
  if (bad == "plan-bound") plan.bound = 2 * plan.cost + 1;
  return plan;
}

PackingSolution pack_badly(const PackingProblem& problem, const passes::PassOptions&) {
  PackingSolution solution;
  solution.status = PackingStatus::kSolved;
  solution.offsets.assign(problem.buffers.size(), 0);
  for (const PackingBuffer& buffer : problem.buffers)
    solution.height = std::max(solution.height, buffer.size);
  return solution;
}

std::vector<Candidate> bad_candidates(const Layer& layer, const LayerGraph& graph, const isa::Chip& chip,
                                      const KernelOptions& options) {
  const std::string bad = wanted(options.passes);
  if (!bad.starts_with("kernel")) return {};
  std::vector<Candidate> candidates = find_kernel("map-flat").run(layer, graph, chip, options);
  for (Candidate& candidate : candidates) {
    candidate.predicted_cycles = 1;
    if (bad == "kernel-streams") candidate.placements.erase(candidate.placements.begin());
    if (bad == "kernel-layout") candidate.placements[0].length_lw = 8;
    if (bad == "kernel-emit") candidate.emit = nullptr;
    if (!candidate.emit) continue;
    candidate.emit = [bad, right = candidate.emit](const std::vector<int64_t>& addresses) {
      TileProgram program = right(addresses);
      auto& body = std::get<TileLoop>(program.body.at(0).kind).body;
      for (TileNode& node : body) {
        auto* map = std::get_if<MapTile>(&node.kind);
        if (map == nullptr) continue;
        if (bad == "kernel-value") map->expr.apply(ScalarOp::kNeg, map->expr.result());
        if (bad == "kernel-tiles") map->count = 4096;
      }
      return program;
    };
  }
  return candidates;
}

/// A copy on the MAU, which normalizes what it copies.
ChangeFinder bad_changes(const ChangeContext& context) {
  return [&context, bad = wanted(context.options.passes)](int k, const ProgramSegment&,
                                                          std::vector<StreamChange>& changes) {
    if (bad == "change-range") changes.push_back({.edits = {{k + 1000, [](isa::Instruction&) {}}}});
    if (bad == "change-throws") throw 1;
    if (bad != "change-value") return;
    if (context.stream.operations[size_t(k)].instruction.opcode != isa::Opcode::kPassa) return;
    changes.push_back({.edits = {{k, [](isa::Instruction& instruction) {
                                    instruction.opcode = isa::Opcode::kVpassa;
                                    instruction.precision = isa::Precision::kFloat;
                                  }}}});
  };
}

}  // namespace

KODAMA_PLUGIN() {
  register_pass(GraphPass{
      .name = "bad-graph", .description = "wrong on purpose", .run = change_graph, .options = {kBad}});
  register_pass(layout::Planner{
      .name = "bad-planner", .description = "wrong on purpose", .options = {kBad}, .run = plan_badly});
  register_pass(Packer{
      .name = "bad-packer", .description = "everything at offset 0", .options = {}, .run = pack_badly});
  register_pass(Kernel{.name = "bad-kernel",
                       .description = "wrong on purpose",
                       .kind = LayerKind::kMap,
                       .run = bad_candidates,
                       .options = {kBad}});
  register_pass(ChangeKind{
      .name = "bad-change", .description = "wrong on purpose", .options = {kBad}, .run = bad_changes});
}
