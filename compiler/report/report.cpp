#include "compiler/report/report.h"

#include <fmt/format.h>
#include <fmt/ostream.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <ostream>

#include "compiler/plan/problem_bound.h"
#include "compiler/report/report_parts.h"
#include "compiler/report/table.h"

namespace kodama::compiler {
namespace {

std::string shorten(const std::string& text, size_t width) {
  return text.size() <= width ? text : text.substr(0, width - 2) + "..";
}

/// Causes of a program's cycles, as the table's columns name them.
struct Cause {
  const char* name;
  int64_t isa::CycleCauses::*cycles;
  const char* meaning;
};
constexpr std::array<Cause, 6> kCauses{
    {{"step cycles", &isa::CycleCauses::steps, "of the cycles: steps that issue, 4 each"},
     {"wait", &isa::CycleCauses::wait, "of the cycles: held by `wait`, for transfers"},
     {"MV queue", &isa::CycleCauses::mv_queue,
      "of the cycles: held by a transfer for which there is no room"},
     {"fetch", &isa::CycleCauses::host_link,
      "of the cycles: until an instruction has come over the host link"},
     {"hazard", &isa::CycleCauses::hazard, "of the cycles: held for hazards (--hazards=stall)"},
     {"drain", &isa::CycleCauses::drain, "of the cycles: behind the last step, until transfers are done"}}};

std::string error_text(double value) {
  return value == 0 ? "0" : fmt::format("{:.1e}", value);
}

}  // namespace

ProblemWork work_of(const Stage& stage) {
  const auto* chip = std::get_if<ChipStage>(&stage.body);
  return chip != nullptr ? chip->work : ProblemWork{};
}

const Comparison* find_comparison(const Stage& stage, const CompiledModel& model,
                                  const Comparisons& comparisons) {
  for (TensorId id : stage.outputs) {
    if (id < 0) continue;
    const auto found = comparisons.find(model.tensors[static_cast<size_t>(id)].name);
    if (found != comparisons.end()) return &found->second;
  }
  return nullptr;
}

void print_layer_table(const CompiledModel& model, const Runs& runs, const Comparisons& comparisons,
                       std::ostream& out) {
  const RunOutcome& outcome = runs.steady_state;
  // Causes that no stage has are left out.
  std::vector<const Cause*> causes;
  for (const Cause& cause : kCauses) {
    if (outcome.total.chip.causes.*cause.cycles > 0) causes.push_back(&cause);
  }
  std::vector<std::string> header{"#", "layer", "operators", "kind", "output", "where", "steps", "cycles"};
  for (const Cause* cause : causes) header.emplace_back(cause->name);
  for (const char* name : {"of peak", "times bound", "link cycles", "host relayouts", "max abs", "max rel"})
    header.emplace_back(name);
  Table table(header);
  const auto numbers = [&](const StageStats& stats, const ProblemWork& work, bool on_chip) {
    std::vector<std::string> cells;
    const auto cell = [&](int64_t number) { cells.push_back(on_chip ? std::to_string(number) : "-"); };
    cell(stats.chip.steps);
    cell(stats.chip_cycles());
    for (const Cause* cause : causes) cell(stats.chip.causes.*cause->cycles);
    const auto cycles = static_cast<double>(stats.chip_cycles());
    const ProblemBound least = problem_bound(work, model.chip, model.precision);
    cells.push_back(work.products > 0 ? fmt::format("{:.1f} %", 100 * share_of_peak(work, cycles, model.chip,
                                                                                    model.precision))
                                      : "-");
    cells.push_back(least.cycles() > 0 ? fmt::format("{:.1f}x {}", cycles / least.cycles(), least.resource())
                                       : "-");
    cells.push_back(std::to_string(stats.link_cycles()));
    cells.push_back(stats.host_relayouts == 0
                        ? "-"
                        : fmt::format("{} ({})", stats.host_relayouts, bytes_text(stats.bytes_permuted)));
    return cells;
  };
  for (size_t k = 0; k < model.stages.size(); ++k) {
    const Stage& stage = model.stages[k];
    const Comparison* comparison = find_comparison(stage, model, comparisons);
    const LayerTensor* output = nullptr;
    for (TensorId id : stage.outputs) {
      if (id >= 0 && output == nullptr) output = &model.tensors[static_cast<size_t>(id)];
    }
    std::vector<std::string> row{std::to_string(k),
                                 shorten(stage.name, 28),
                                 shorten(fmt::format("{}", fmt::join(stage.onnx_ops, "+")), 32),
                                 stage_kind_name(stage),
                                 output != nullptr ? shape_to_string(output->shape) : "-",
                                 stage.on_chip() ? "chip" : "host"};
    for (std::string& cell : numbers(outcome.stages[k], work_of(stage), stage.on_chip()))
      row.push_back(std::move(cell));
    row.push_back(comparison == nullptr     ? "-"
                  : comparison->unequal > 0 ? fmt::format("{} differ", comparison->unequal)
                                            : error_text(comparison->max_absolute));
    row.push_back(comparison == nullptr ? "-" : error_text(comparison->max_relative));
    table.add(std::move(row));
  }
  table.leave_out_first({"host relayouts", "link cycles", "hazard", "drain", "fetch", "MV queue",
                         "step cycles", "max abs", "steps", "where", "wait", "operators", "output", "kind",
                         "max rel"});
  std::vector<std::pair<std::string, std::string>> legend{
      {"#", "place in the run"},
      {"layer", "name of its first operator"},
      {"operators", "what it is made of, in ONNX"},
      {"kind", "kind of layer (docs/overview.md); Relayout: a Move between two layers"},
      {"output", "shape of its first result"},
      {"where", "on the chip, or on the host by the CPU reference"},
      {"steps", "how many instructions issue"},
      {"cycles", "of the chip, waiting included"}};
  for (const Cause& cause : kCauses) legend.emplace_back(cause.name, cause.meaning);
  legend.insert(legend.end(),
                {{"of peak", "products over what the matrix unit could do in these cycles"},
                 {"times bound", "cycles over what the problem takes at the peaks, whatever the plan"},
                 {"link cycles", "data and instructions on the host link"},
                 {"host relayouts", "tensors that the host brings into another layout"},
                 {"max abs", "largest difference to the CPU reference"},
                 {"max rel", "the same, over the largest magnitude"}});
  table.explain(std::move(legend));
  table.rule();
  std::vector<std::string> total{"", "total", "", "", "", ""};
  for (std::string& cell : numbers(outcome.total, model.work, true)) total.push_back(std::move(cell));
  total.insert(total.end(), {"", ""});
  table.add(std::move(total));
  if (!table_view().brief) table.print(out, 6);
  const auto is_unstored = [](const Stage& stage) {
    const auto* chip = std::get_if<ChipStage>(&stage.body);
    return chip != nullptr && !chip->stored;
  };
  const auto unstored = std::ranges::count_if(model.stages, is_unstored);
  if (unstored > 0 && !comparisons.empty())
    fmt::print(out,
               "without errors: {} layers whose results never leave the chip; --check-layers compares them\n",
               unstored);
  const StageStats& all = outcome.total;
  const isa::CycleCauses& spent = all.chip.causes;
  const auto time = [&](int64_t cycles) {
    return fmt::format("{} cycles, {:.3f} ms at {:.0f} MHz", cycles,
                       static_cast<double>(cycles) / model.chip.clock_hz * 1e3, model.chip.clock_hz / 1e6);
  };
  const ProblemBound bound = problem_bound(model.work, model.chip, model.precision);
  fmt::print(out,
             "the problem's bound: {:.0f} cycles (products {:.0f}, vector operations {:.0f}, DRAM {:.0f} for "
             "{}, inputs and outputs)\n",
             std::ceil(bound.cycles()), std::ceil(bound.product_cycles), std::ceil(bound.vector_cycles),
             std::ceil(bound.dram_cycles),
             model.preparation.statements.empty() ? "weights" : "weights that don't stay in the PEs");
  fmt::print(out,
             "chip {}, {} precision: {} steps, {} chip cycles of which {} wait for transfers, {} host link "
             "cycles\n",
             model.chip.name, matrix_precision_name(model.precision), all.chip.steps, all.chip_cycles(),
             spent.wait + spent.mv_queue + spent.drain, all.link_cycles());
  print_slices(model, out);
  fmt::print(out, "a run, constants on the chip:   {}, {} of DRAM traffic{}\n", time(all.chip.cycles()),
             bytes_text(std::llround(all.dram_bytes)),
             runs.count > 1 ? fmt::format(" (run {} of {})", runs.count, runs.count) : "");
  std::string once =
      fmt::format("{}, {} link cycles", bytes_text(outcome.preload_bytes), outcome.preload_link_cycles);
  if (!model.preparation.statements.empty())
    once += fmt::format("; {} chip cycles to bring weights to the PEs", outcome.preparation.chip.cycles());
  fmt::print(out, "the first, sending constants:   {}, {} of DRAM traffic ({})\n", time(runs.first_cycles),
             bytes_text(std::llround(runs.first_dram_bytes)), once);
  fmt::print(out,
             "of that the host:               {} cycles: data to the chip {}, from it {}, launches {}, its "
             "layers {}\n",
             spent.of_host(), spent.host_input, spent.host_output, spent.launch, spent.host_compute);
  fmt::print(out, "its data occupy the DRAMs for   {:.0f} cycles of {} interfaces\n", all.host_dram_cycles,
             model.chip.groups);
  if (all.host_layers > 0) {
    fmt::print(
        out,
        "its {} layers: {} read and written at {:.3g} per second, {} operations at {:.3g} per second, as "
        "the chip file assumes; they took {:.3f} s of this machine\n",
        all.host_layers, bytes_text(all.host_bytes), model.chip.host.bytes_per_second, all.host_operations,
        model.chip.host.operations_per_second, all.host_seconds);
  }
}

void print_slices(const CompiledModel& model, std::ostream& out) {
  if (model.slices == 1) return;
  std::vector<std::string> inputs;
  for (const TensorId id : model.inputs) {
    const LayerTensor& input = model.tensors[static_cast<size_t>(id)];
    inputs.push_back(fmt::format("{} {} of {}", input.name, shape_to_string(input.shape),
                                 shape_to_string(model.whole_shape(id))));
  }
  fmt::print(out, "{} slices of the batch, one after the other: {}\n", model.slices, fmt::join(inputs, ", "));
}

void print_relayouts(const CompiledModel& model, const RunOutcome& outcome, std::ostream& out) {
  Table table({"move", "cycles", "DRAM", "ratio", "from", "to"});
  int64_t cycles = 0;
  int64_t relayouts = 0;
  for (size_t k = 0; k < model.stages.size(); ++k) {
    const auto* chip = std::get_if<ChipStage>(&model.stages[k].body);
    if (chip == nullptr || model.stages[k].kind != LayerKind::kRearrange) continue;
    std::vector<std::string> from;
    for (const StreamBinding& operand : chip->operands) from.push_back(operand.placement.layout.to_string());
    const int64_t own = outcome.stages[k].chip_cycles();
    const int64_t dram = chip->dram_cycles * model.slices;
    table.add({model.stages[k].name, std::to_string(own), std::to_string(dram),
               dram > 0 ? fmt::format("{:.1f}", static_cast<double>(own) / static_cast<double>(dram)) : "-",
               fmt::format("{}", fmt::join(from, " + ")), chip->result.placement.layout.to_string()});
    cycles += own;
    ++relayouts;
  }
  table.leave_out_first({"from", "to", "ratio", "DRAM"});
  table.explain({{"move", "the layer, and which of its operands"},
                 {"cycles", "of the chip, waiting included"},
                 {"DRAM", "cycles that its data take of the DRAMs alone"},
                 {"ratio", "of both"},
                 {"from", "layout before (docs/layouts.md)"},
                 {"to", "layout behind"}});
  if (relayouts > 0 && table_view().moves) table.print(out, 1, 4);
  const std::string planner =
      model.plan.planner.empty() ? "" : fmt::format("planner {}: ", model.plan.planner);
  const int64_t all = outcome.total.chip_cycles();
  fmt::print(
      out,
      "{}{} relayouts on the chip take {} of {} chip cycles ({:.0f} %), {} layout changes by the host{}\n",
      planner, relayouts, cycles, all,
      all > 0 ? 100.0 * static_cast<double>(cycles) / static_cast<double>(all) : 0.0,
      outcome.total.host_relayouts, relayouts > 0 && !table_view().moves ? "; --moves lists them" : "");
}

void print_planned_relayouts(const ModelPlan& plan, const LayerGraph& graph, std::ostream& out) {
  Table table({"move", "estimated cycles", "from", "to"});
  for (const PlannedStage& stage : plan.stages) {
    if (stage.kind != PlannedStage::Kind::kRelayout) continue;
    std::vector<std::string> from;
    for (const int image : stage.operands)
      from.push_back(plan.images[static_cast<size_t>(image)].placement.layout.to_string());
    const StreamPlacement& to = plan.images[static_cast<size_t>(stage.result)].placement;
    table.add({fmt::format("{}.{}", graph.layers[static_cast<size_t>(stage.layer)].name, to.name),
               std::to_string(stage.estimated_cycles), fmt::format("{}", fmt::join(from, " + ")),
               to.layout.to_string()});
  }
  table.leave_out_first({"from", "to"});
  table.print(out, 1, 2);
}

void print_plans(const std::vector<PlanSummary>& plans, std::ostream& out) {
  Table table({"planner", "relayouts", "relayout cycles", "kernel cycles", "link cycles", "total", "bound",
               "constant link cycles", "with constants"});
  for (const PlanSummary& plan : plans) {
    if (!plan.problem.empty()) {
      table.add({plan.planner, "-", "-", "-", "-", "-", "-", "-", "-"});
      continue;
    }
    table.add({plan.planner, std::to_string(plan.relayouts), std::to_string(plan.relayout_cycles),
               std::to_string(plan.kernel_cycles), std::to_string(plan.link_cycles),
               std::to_string(plan.total()),
               plan.proven      ? "optimal"
               : plan.bound > 0 ? fmt::format("{:.0f}", plan.bound)
                                : "-",
               std::to_string(plan.constant_cycles), std::to_string(plan.total() + plan.constant_cycles)});
  }
  table.leave_out_first({"with constants", "constant link cycles", "relayouts", "link cycles"});
  table.explain({{"planner", "who chose kernels and layouts"},
                 {"relayouts", "changes of layout between layers, on the chip"},
                 {"relayout cycles", "what they take, estimated"},
                 {"kernel cycles", "of the layers, estimated"},
                 {"link cycles", "inputs and outputs on the host link"},
                 {"total", "of a run, which planners make least; layers on the host take none here"},
                 {"bound", "no plan of these candidates has a smaller total"},
                 {"constant link cycles", "weights and tables of relayouts: sent once, before the first run"},
                 {"with constants", "of the first run"}});
  table.print(out, 1);
  for (const PlanSummary& plan : plans) {
    if (!plan.problem.empty()) fmt::print(out, "{}: not possible: {}\n", plan.planner, plan.problem);
  }
}

nlohmann::ordered_json plans_to_json(const std::vector<PlanSummary>& plans) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const PlanSummary& plan : plans) {
    if (!plan.problem.empty()) {
      list.push_back({{"planner", plan.planner}, {"problem", plan.problem}});
      continue;
    }
    list.push_back({{"planner", plan.planner},
                    {"relayouts", plan.relayouts},
                    {"relayout_cycles", plan.relayout_cycles},
                    {"kernel_cycles", plan.kernel_cycles},
                    {"link_cycles", plan.link_cycles},
                    {"total", plan.total()},
                    {"constant_bytes", plan.constant_bytes},
                    {"constant_link_cycles", plan.constant_cycles},
                    {"total_with_constants", plan.total() + plan.constant_cycles},
                    {"proven", plan.proven}});
  }
  return list;
}

void print_host_layers(const CompiledModel& model, std::ostream& out) {
  bool first = true;
  for (const Stage& stage : model.stages) {
    const auto* host = std::get_if<HostStage>(&stage.body);
    if (host == nullptr) continue;
    if (first) fmt::print(out, "computed on the host by the CPU reference:\n");
    first = false;
    fmt::print(out, "  {} '{}': {}\n", host->node.op_type, host->node.name, host->reason);
  }
}

void print_host_share(const std::vector<HostShare>& shares, int64_t all_cycles, std::ostream& out) {
  constexpr double kMuch = 0.2;
  int64_t cycles = 0;
  for (const HostShare& share : shares) cycles += share.cycles;
  if (cycles == 0 || static_cast<double>(cycles) < kMuch * static_cast<double>(all_cycles)) return;
  const HostShare& most = *std::ranges::max_element(shares, {}, &HostShare::cycles);
  const auto percent = [&](int64_t part) {
    return 100 * static_cast<double>(part) / static_cast<double>(all_cycles);
  };
  fmt::print(
      out,
      "much of this run is the host's: {:.0f} % of all cycles, {:.0f} % for {} ({}); docs/operators.md has "
      "what the chip takes\n",
      percent(cycles), percent(most.cycles), most.node, most.reason);
}

std::vector<HostShare> host_shares(const CompiledModel& model, const RunOutcome& outcome) {
  std::vector<HostShare> shares;
  for (size_t k = 0; k < model.stages.size(); ++k) {
    const auto* host = std::get_if<HostStage>(&model.stages[k].body);
    if (host == nullptr) continue;
    shares.push_back({fmt::format("{} '{}'", host->node.op_type, host->node.name), host->reason,
                      outcome.stages[k].chip.causes.host_compute});
  }
  return shares;
}

void print_schedules_given_up(const CompiledModel& model, std::ostream& out) {
  scheduler::ScheduleProofs all;
  for (const Stage& stage : model.stages) {
    if (const auto* chip = std::get_if<ChipStage>(&stage.body)) all += chip->proofs;
  }
  if (all.gave_up == 0) return;
  fmt::print(
      out,
      "schedules of {} blocks: {} proven, none is shorter; of {} the search gave up: they have {} steps, "
      "and at least {} are needed\n",
      all.schedules, all.proven, all.gave_up, all.gave_up_steps, all.gave_up_bound);
}

}  // namespace kodama::compiler
