#include <filesystem>

#include "isa/json_value.h"
#include "scheduler/problem/json_fields.h"
#include "scheduler/recompute/recompute.h"

namespace kodama::scheduler {
namespace {

RecomputeStatus status_from(const JsonValue& value) {
  const std::string text = value.text();
  for (const RecomputeStatus status :
       {RecomputeStatus::kSolved, RecomputeStatus::kInfeasible, RecomputeStatus::kGaveUp}) {
    if (text == to_string(status)) return status;
  }
  value.fail("solved, infeasible, gave up");
}

}  // namespace

std::string to_json(const RecomputeProblem& problem, const RecomputeSchedule* schedule) {
  Json json;
  json["name"] = problem.name;
  json["limit"] = problem.limit;
  json["values"] = Json::array();
  for (size_t k = 0; k < problem.values.size(); ++k) {
    const auto& value = problem.values[k];
    Json item = {{"id", k}, {"name", value.name}, {"bytes", value.bytes}};
    if (value.is_kept) item["kept"] = true;
    json["values"].push_back(std::move(item));
  }
  json["operations"] = Json::array();
  for (size_t k = 0; k < problem.operations.size(); ++k) {
    const auto& operation = problem.operations[k];
    Json item = {{"id", k}, {"name", operation.name}, {"cycles", operation.cycles}};
    if (operation.workspace > 0) item["workspace"] = operation.workspace;
    if (operation.once) item["once"] = true;
    item["reads"] = operation.reads;
    item["makes"] = operation.makes;
    json["operations"].push_back(std::move(item));
  }
  if (schedule != nullptr) {
    json["schedule"] = {{"status", std::string(to_string(schedule->status))},
                        {"peak", schedule->peak},
                        {"cycles", schedule->cycles},
                        {"least", schedule->is_least},
                        {"message", schedule->message},
                        {"steps", schedule->steps}};
  }
  return text_of(json);
}

RecomputeProblem recompute_problem_from_json(const std::string& text, const std::string& source) {
  const Json json = isa::parse_json(text, source);
  const JsonValue root(json, source);
  root.allow({"name", "limit", "values", "operations", "schedule"});
  RecomputeProblem problem;
  problem.name = root.has("name") ? root.at("name").text() : std::filesystem::path(source).stem().string();
  problem.limit = root.at("limit").integer();
  for (const JsonValue& item : root.at("values").list()) {
    item.allow({"id", "name", "bytes", "kept"});
    check_id(item, problem.values.size());
    problem.values.push_back(
        {item.at("name").text(), item.at("bytes").integer(), flag_or(item, "kept", false)});
  }
  for (const JsonValue& item : root.at("operations").list()) {
    item.allow({"id", "name", "cycles", "workspace", "once", "reads", "makes"});
    check_id(item, problem.operations.size());
    RecomputeProblem::Operation operation;
    operation.name = item.at("name").text();
    operation.cycles = item.at("cycles").integer();
    if (item.has("workspace")) operation.workspace = item.at("workspace").integer();
    operation.once = flag_or(item, "once", false);
    operation.reads = integers_or_none(item, "reads");
    operation.makes = item.at("makes").small_integers();
    problem.operations.push_back(std::move(operation));
  }
  RecomputeProblem named = problem;
  named.name = source;
  check_recompute_problem(named);
  return problem;
}

RecomputeSchedule recompute_schedule_from_json(const std::string& text, const std::string& source) {
  const Json json = isa::parse_json(text, source);
  const JsonValue item = JsonValue(json, source).at("schedule");
  item.allow({"status", "peak", "cycles", "least", "message", "steps"});
  RecomputeSchedule schedule;
  schedule.status = status_from(item.at("status"));
  schedule.peak = item.at("peak").integer();
  schedule.cycles = item.at("cycles").integer();
  schedule.is_least = flag_or(item, "least", false);
  schedule.message = text_or_empty(item, "message");
  schedule.steps = item.at("steps").small_integers();
  return schedule;
}

}  // namespace kodama::scheduler
