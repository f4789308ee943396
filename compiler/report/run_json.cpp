#include <algorithm>
#include <cmath>

#include "compiler/plan/problem_bound.h"
#include "compiler/report/network_json.h"
#include "compiler/report/report.h"
#include "compiler/report/report_parts.h"
#include "compiler/report/traced_run.h"

namespace kodama::compiler {

nlohmann::ordered_json run_to_json(const CompiledModel& model, const Runs& runs,
                                   const Comparisons& comparisons, const Comparisons& outputs,
                                   const TracedRun* traced) {
  using nlohmann::ordered_json;
  const RunOutcome& outcome = runs.steady_state;
  const auto error_to_json = [](const Comparison& comparison) {
    return ordered_json{{"max_absolute", comparison.max_absolute},
                        {"max_relative", comparison.max_relative},
                        {"unequal", comparison.unequal}};
  };
  const auto stats_to_json = [&](const StageStats& stats, const ProblemWork& work) {
    const isa::CycleCauses& causes = stats.chip.causes;
    const ProblemBound least = problem_bound(work, model.chip, model.precision);
    const auto cycles = static_cast<double>(stats.chip_cycles());
    return ordered_json{
        {"steps", stats.chip.steps},
        {"nops", stats.chip.nops},
        {"mvs", stats.chip.mvs},
        {"cycles", stats.chip_cycles()},
        {"wait_cycles", causes.wait},
        {"cycles_by_cause",
         {{"steps", causes.steps},
          {"wait", causes.wait},
          {"mv_queue", causes.mv_queue},
          {"host_link", causes.host_link},
          {"hazard", causes.hazard},
          {"drain", causes.drain},
          {"host_input", causes.host_input},
          {"host_output", causes.host_output},
          {"launch", causes.launch},
          {"host_compute", causes.host_compute}}},
        {"total_cycles", causes.total()},
        {"dram_bytes", stats.dram_bytes},
        {"products", work.products},
        {"products_per_cycle", cycles > 0 ? work.products / cycles : 0},
        {"products_per_dram_byte", stats.dram_bytes > 0 ? work.products / stats.dram_bytes : 0},
        {"share_of_peak", share_of_peak(work, cycles, model.chip, model.precision)},
        {"bound_cycles", least.cycles()},
        {"times_bound", least.cycles() > 0 ? cycles / least.cycles() : 0},
        {"bound_resource", least.resource()},
        {"bound_cycles_by_resource",
         {{"MAU", least.product_cycles}, {"vector", least.vector_cycles}, {"DRAM", least.dram_cycles}}},
        {"link_cycles", stats.link_cycles()},
        {"bytes_to_chip", stats.bytes_to_chip},
        {"bytes_from_chip", stats.bytes_from_chip},
        {"host_relayouts", stats.host_relayouts},
        {"bytes_permuted", stats.bytes_permuted},
        {"host_layers", stats.host_layers},
        {"host_bytes", stats.host_bytes},
        {"host_operations", stats.host_operations},
        {"host_dram_cycles", stats.host_dram_cycles},
        {"host_seconds", stats.host_seconds},
        {"wall_seconds", stats.wall_seconds}};
  };
  const DramImages images(model);
  std::vector<ordered_json> transfers;
  if (traced != nullptr) transfers = transfers_json(*traced, images);
  ordered_json stages = ordered_json::array();
  for (size_t k = 0; k < model.stages.size(); ++k) {
    const Stage& stage = model.stages[k];
    ordered_json j = {{"name", stage.name},
                      {"operators", stage.onnx_ops},
                      {"nodes", stage.onnx_nodes},
                      {"kind", stage_kind_name(stage)},
                      {"where", stage.on_chip() ? "chip" : "host"},
                      {"operation", stage.operation}};
    if (const auto* chip = std::get_if<ChipStage>(&stage.body)) {
      j["kernel"] = chip->kernel;
      j["tiling"] = chip->description;
      j["predicted_cycles"] = chip->predicted_cycles;
      const scheduler::ScheduleProofs& proofs = chip->proofs;
      if (proofs.schedules > 0) {
        j["schedules"] = {{"blocks", proofs.schedules},
                          {"proven", proofs.proven},
                          {"gave_up", proofs.gave_up},
                          {"gave_up_steps", proofs.gave_up_steps},
                          {"gave_up_bound", proofs.gave_up_bound}};
      }
    } else if (const auto* host = std::get_if<HostStage>(&stage.body)) {
      j["reason"] = host->reason;
    }
    ordered_json shapes = ordered_json::array();
    for (TensorId id : stage.outputs) {
      if (id >= 0) shapes.push_back(model.tensors[static_cast<size_t>(id)].shape);
    }
    j["shapes"] = shapes;
    j["stats"] = stats_to_json(outcome.stages[k], work_of(stage));
    if (const Comparison* comparison = find_comparison(stage, model, comparisons))
      j["error"] = error_to_json(*comparison);
    if (traced != nullptr) j["transfers"] = std::move(transfers[k]);
    stages.push_back(std::move(j));
  }
  ordered_json result = {{"model", model.name},
                         {"chip", model.chip.name},
                         {"chip_hash", model.chip.hash},
                         {"precision", matrix_precision_name(model.precision)},
                         {"stages", stages},
                         {"total", stats_to_json(outcome.total, model.work)},
                         {"constant_bytes", outcome.preload_bytes},
                         {"constant_link_cycles", outcome.preload_link_cycles},
                         {"preparation",
                          {{"steps", outcome.preparation.chip.steps},
                           {"mvs", outcome.preparation.chip.mvs},
                           {"cycles", outcome.preparation.chip.cycles()},
                           {"dram_bytes", outcome.preparation.dram_bytes}}},
                         {"runs", runs.count},
                         {"total_with_constants", runs.first_cycles},
                         {"dram_bytes_with_constants", runs.first_dram_bytes}};
  ordered_json errors = ordered_json::object();
  for (const auto& [name, comparison] : outputs) errors[name] = error_to_json(comparison);
  result["outputs"] = errors;
  result["slices"] = model.slices;
  result["milliseconds"] = static_cast<double>(outcome.total.chip.cycles()) / model.chip.clock_hz * 1e3;
  result["milliseconds_with_constants"] = static_cast<double>(runs.first_cycles) / model.chip.clock_hz * 1e3;
  add_network(model, result);
  if (traced != nullptr) {
    result["timeline"] = timeline_json(*traced, images);
    result["memory"] = memory_json(*traced, images);
  }
  return result;
}

}  // namespace kodama::compiler
