#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <set>
#include <string>
#include <vector>

#include "compiler/compile/compile_model.h"
#include "compiler/graph/passes.h"
#include "compiler/kernels/kernel.h"
#include "compiler/plan/model_plan.h"
#include "isa/error.h"
#include "passes/registry.h"
#include "scheduler/machine/passes.h"

/// What command lines and tools call the compiler's choices.
namespace kodama::compiler {

std::vector<const std::vector<passes::PassOptionInfo>*> planning_options(const std::string& planner) {
  std::vector<const std::vector<passes::PassOptionInfo>*> options;
  for (const GraphPass& pass : graph_passes()) options.push_back(&pass.options);
  for (const Kernel& kernel : kernels()) options.push_back(&kernel.options);
  for (const layout::Planner& each : layout::planners()) {
    if (planner.empty() || each.name == planner) options.push_back(&each.options);
  }
  return options;
}

namespace {
constexpr std::array<const char*, 3> kWeightsNames = {"stream", "resident", "auto"};
}  // namespace

std::string weights_name(Weights weights) {
  return kWeightsNames.at(static_cast<size_t>(weights));
}

Weights parse_weights(const std::string& name) {
  for (size_t k = 0; k < kWeightsNames.size(); ++k) {
    if (name == kWeightsNames.at(k)) return static_cast<Weights>(k);
  }
  throw isa::UserError(fmt::format("weights '{}': allowed are {}", name, fmt::join(kWeightsNames, ", ")));
}

std::vector<std::string> planning_dump_points() {
  std::vector<std::string> points;
  for (const std::string& name : graph_pipeline()) {
    if (std::find(points.begin(), points.end(), name) == points.end()) points.push_back(name);
  }
  for (const char* name :
       {"lower", "channels-first", "fold-rearranges", "fuse-maps", "fuse-epilogues", "fuse-sums",
        "split-columns", "fill-rows", "fuse-transposed-epilogues", "split-products", "pad-channels",
        "fuse-normalizations", "split-axes", "split-gathers", "split-reductions", "plan"})
    points.emplace_back(name);
  return points;
}

std::vector<std::string> dump_points(const scheduler::PipelineChoice* choice) {
  std::vector<std::string> points = planning_dump_points();
  for (const char* name :
       {"tile", "machine", scheduler::kExpansionDump, scheduler::kAllocationDump, scheduler::kProblemDump}) {
    points.emplace_back(name);
  }
  std::set<std::string> chosen;
  if (choice != nullptr) {
    chosen = {scheduler::find_coalescer(choice->coalescer).name,
              scheduler::find_home_assigner(choice->home_assigner).name,
              scheduler::find_spiller(choice->spiller).name,
              scheduler::find_allocator(choice->allocator).name,
              scheduler::find_block_scheduler(choice->scheduler, false).name,
              scheduler::find_block_scheduler(choice->loop_scheduler, true).name,
              scheduler::find_transfer_scheduler(choice->transfers).name};
  }
  const auto add = [&](const auto& passes) {
    for (const auto& pass : passes) {
      if constexpr (requires { pass.leaves_programs; }) {
        if (pass.leaves_programs) continue;
      }
      if (choice == nullptr || chosen.contains(pass.name)) points.push_back(pass.name);
    }
  };
  add(scheduler::coalescers());
  add(scheduler::home_assigners());
  add(scheduler::spillers());
  add(scheduler::allocators());
  add(scheduler::block_schedulers());
  add(scheduler::transfer_schedulers());
  return points;
}

}  // namespace kodama::compiler
