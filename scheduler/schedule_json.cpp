// Problems and schedules as JSON.

#include "isa/error.h"
#include "scheduler/json_fields.h"
#include "scheduler/schedule_problem.h"

namespace kodama::scheduler {

std::string to_json(const ScheduleProblem& problem) {
  Json resources = Json::array();
  for (const auto& each : problem.resources)
    resources.push_back({{"name", each.name}, {"capacity", each.capacity}});
  Json operations = Json::array();
  for (size_t k = 0; k < problem.operations.size(); ++k) {
    const auto& each = problem.operations[k];
    Json uses = Json::array();
    for (const auto& use : each.uses) {
      Json entry = {{"resource", use.resource}};
      if (use.key >= 0) entry["key"] = use.key;
      if (use.invariant) entry["invariant"] = true;
      uses.push_back(entry);
    }
    Json entry = {{"id", k}, {"text", each.text}};
    if (each.earliest != 0) entry["earliest"] = each.earliest;
    if (!each.takes_step) entry["takes_step"] = false;
    entry["uses"] = uses;
    if (!each.classes.empty()) entry["classes"] = each.classes;
    operations.push_back(entry);
  }
  Json dependences = Json::array();
  for (const auto& each : problem.dependences) {
    Json entry = {{"from", each.from}, {"to", each.to}, {"distance", each.distance}};
    if (each.iterations > 0) entry["iterations"] = each.iterations;
    dependences.push_back(entry);
  }
  Json separations = Json::array();
  for (const auto& each : problem.separations)
    separations.push_back({{"first", each.first}, {"second", each.second}, {"steps", each.steps}});
  return text_of({{"name", problem.name},
                  {"loop", problem.is_loop},
                  {"resources", resources},
                  {"classes", problem.classes},
                  {"operations", operations},
                  {"dependences", dependences},
                  {"separations", separations}});
}

ScheduleProblem problem_from_json(const std::string& text, const std::string& source) {
  const Json json = parsed(text, source);
  const Fields fields(json, source, "");
  fields.allow({"name", "loop", "resources", "classes", "operations", "dependences", "separations"});
  ScheduleProblem problem;
  problem.name = fields.get<std::string>("name", "");
  problem.is_loop = fields.get<bool>("loop", false);
  fields.for_each("resources", [&](const Fields& each) {
    each.allow({"name", "capacity"});
    problem.resources.push_back({each.get<std::string>("name", ""), each.get<int64_t>("capacity", 1)});
  });
  problem.classes = fields.get<std::vector<std::string>>("classes", {});
  fields.for_each("operations", [&](const Fields& each) {
    each.allow({"id", "text", "earliest", "takes_step", "uses", "classes"});
    each.check_id(problem.operations.size());
    ScheduleProblem::Operation operation;
    operation.text = each.get<std::string>("text", "");
    operation.earliest = each.get<int64_t>("earliest", 0);
    operation.takes_step = each.get<bool>("takes_step", true);
    operation.classes = each.get<std::vector<int>>("classes", {});
    each.for_each("uses", [&](const Fields& use) {
      use.allow({"resource", "key", "invariant"});
      operation.uses.push_back(
          {use.get<int>("resource"), use.get<int64_t>("key", -1), use.get<bool>("invariant", false)});
    });
    problem.operations.push_back(std::move(operation));
  });
  fields.for_each("dependences", [&](const Fields& each) {
    each.allow({"from", "to", "distance", "iterations"});
    const ScheduleProblem::Dependence edge{each.get<int>("from"), each.get<int>("to"),
                                           each.get<int64_t>("distance"), each.get<int64_t>("iterations", 0)};
    problem.dependences.push_back(edge);
  });
  fields.for_each("separations", [&](const Fields& each) {
    each.allow({"first", "second", "steps"});
    problem.separations.push_back(
        {each.get<int>("first"), each.get<int>("second"), each.get<int64_t>("steps")});
  });
  const std::string fault = problem_fault(problem);
  if (!fault.empty()) throw isa::UserError(fmt::format("{}: {}", source, fault));
  return problem;
}

std::string to_json(const ScheduleProblem& problem, const Schedule& schedule) {
  Json json = {{"name", problem.name}};
  if (problem.is_loop) json["interval"] = schedule.interval;
  json["steps"] = schedule_steps(problem, schedule);
  json["optimal"] = schedule.is_optimal;
  json["issue"] = schedule.issue;
  return text_of(json);
}

Schedule schedule_from_json(const ScheduleProblem& problem, const std::string& text,
                            const std::string& source) {
  const Json json = parsed(text, source);
  const Fields fields(json, source, "");
  fields.allow({"name", "interval", "steps", "optimal", "issue"});
  Schedule schedule;
  schedule.issue = fields.get<std::vector<int64_t>>("issue");
  schedule.interval = fields.get<int64_t>("interval", 0);
  schedule.is_optimal = fields.get<bool>("optimal", false);
  if (schedule.issue.size() != problem.operations.size())
    throw isa::UserError(fmt::format("{}: found issue steps of {} operations, allowed: of {}", source,
                                     schedule.issue.size(), problem.operations.size()));
  return schedule;
}

}  // namespace kodama::scheduler
