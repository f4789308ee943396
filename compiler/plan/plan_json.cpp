// A plan as people read it and tools load it (--dump-after plan).

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "compiler/plan/model_plan.h"

namespace kodama::compiler {
namespace {

using Json = nlohmann::ordered_json;

const char* name_of(PlannedImage::Kind kind) {
  switch (kind) {
    case PlannedImage::Kind::kConstant:
      return "constant";
    case PlannedImage::Kind::kSent:
      return "sent";
    case PlannedImage::Kind::kMade:
      return "made";
    case PlannedImage::Kind::kRelaid:
      return "relaid";
  }
  return "";
}

const char* name_of(PlannedStage::Kind kind) {
  switch (kind) {
    case PlannedStage::Kind::kKernel:
      return "kernel";
    case PlannedStage::Kind::kRelayout:
      return "relayout";
    case PlannedStage::Kind::kHostRearrange:
      return "host rearrange";
    case PlannedStage::Kind::kHost:
      return "host";
  }
  return "";
}

Json stream_json(const StreamPlacement& stream) {
  return {{"stream", stream.name},
          {"layout", stream.layout.to_string()},
          {"transport", stream.transport.to_string()},
          {"element", kStreamElementNames.at(static_cast<size_t>(stream.element))},
          {"lw_per_pe", stream.length_lw}};
}

Json candidates_json(const std::vector<Candidate>& candidates, const Candidate& chosen) {
  Json list = Json::array();
  for (const Candidate& candidate : candidates) {
    Json streams = Json::array();
    for (const StreamPlacement& stream : candidate.placements) streams.push_back(stream_json(stream));
    const bool is_chosen = candidate.kernel == chosen.kernel && candidate.description == chosen.description;
    list.push_back({{"kernel", candidate.kernel},
                    {"description", candidate.description},
                    {"chosen", is_chosen},
                    {"predicted_cycles", candidate.predicted_cycles},
                    {"streams", streams}});
  }
  return list;
}

}  // namespace

std::string to_json(const ModelPlan& plan, const LayerGraph& graph, const ModelPlanner& planner) {
  const auto tensor_name = [&](TensorId id) { return graph.tensors[static_cast<size_t>(id)].name; };
  const auto layer_name = [&](int layer) { return graph.layers[static_cast<size_t>(layer)].name; };
  Json images = Json::array();
  for (size_t k = 0; k < plan.images.size(); ++k) {
    const PlannedImage& image = plan.images[k];
    Json entry = {{"id", k},
                  {"kind", name_of(image.kind)},
                  {"tensor", tensor_name(image.placement.access.tensor)},
                  {"first_stage", image.first_stage},
                  {"last_stage", image.last_stage}};
    entry.update(stream_json(image.placement));
    images.push_back(entry);
  }
  Json stages = Json::array();
  for (size_t k = 0; k < plan.stages.size(); ++k) {
    const PlannedStage& stage = plan.stages[k];
    Json entry = {{"id", k}, {"kind", name_of(stage.kind)}, {"layer", layer_name(stage.layer)}};
    const bool is_kernel = stage.kind == PlannedStage::Kind::kKernel;
    if (is_kernel || stage.kind == PlannedStage::Kind::kRelayout) {
      entry["estimated_cycles"] = stage.estimated_cycles;
      entry["operands"] = stage.operands;
      entry["result"] = stage.result;
      entry["fetched"] = stage.fetch;
    }
    if (is_kernel) entry["candidates"] = candidates_json(planner.candidates(stage.layer), stage.candidate);
    if (stage.kind == PlannedStage::Kind::kRelayout) {
      Json through = Json::array();
      for (const int layer : stage.rearrange_layers) through.push_back(layer_name(layer));
      entry["rearrange_layers"] = through;
    }
    stages.push_back(entry);
  }
  const PlanSummary& summary = plan.summary;
  const Json json = {{"name", graph.name},
                     {"planner", summary.planner},
                     {"kernel_cycles", summary.kernel_cycles},
                     {"link_cycles", summary.link_cycles},
                     {"relayout_cycles", summary.relayout_cycles},
                     {"constant_bytes", summary.constant_bytes},
                     {"constant_link_cycles", summary.constant_cycles},
                     {"images", images},
                     {"stages", stages}};
  // Names in a model may hold any bytes.
  return json.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace kodama::compiler
