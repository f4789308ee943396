// Problems and schedules as JSON.

#include "isa/error.h"
#include "scheduler/problem/json_fields.h"
#include "scheduler/problem/schedule_problem.h"

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
  const Json json = isa::parse_json(text, source);
  const JsonValue fields(json, source);
  fields.allow({"name", "loop", "resources", "classes", "operations", "dependences", "separations"});
  ScheduleProblem problem;
  problem.name = text_or_empty(fields, "name");
  problem.is_loop = flag_or(fields, "loop", false);
  fields.for_each("resources", [&](const JsonValue& each) {
    each.allow({"name", "capacity"});
    problem.resources.push_back({text_or_empty(each, "name"), integer_or(each, "capacity", 1)});
  });
  problem.classes = texts_or_none(fields, "classes");
  fields.for_each("operations", [&](const JsonValue& each) {
    each.allow({"id", "text", "earliest", "takes_step", "uses", "classes"});
    check_id(each, problem.operations.size());
    ScheduleProblem::Operation operation;
    operation.text = text_or_empty(each, "text");
    operation.earliest = integer_or(each, "earliest", 0);
    operation.takes_step = flag_or(each, "takes_step", true);
    operation.classes = integers_or_none(each, "classes");
    each.for_each("uses", [&](const JsonValue& use) {
      use.allow({"resource", "key", "invariant"});
      operation.uses.push_back(
          {use.at("resource").small_integer(), integer_or(use, "key", -1), flag_or(use, "invariant", false)});
    });
    problem.operations.push_back(std::move(operation));
  });
  fields.for_each("dependences", [&](const JsonValue& each) {
    each.allow({"from", "to", "distance", "iterations"});
    const ScheduleProblem::Dependence edge{each.at("from").small_integer(), each.at("to").small_integer(),
                                           each.at("distance").small_integer(),
                                           integer_or(each, "iterations", 0)};
    problem.dependences.push_back(edge);
  });
  fields.for_each("separations", [&](const JsonValue& each) {
    each.allow({"first", "second", "steps"});
    problem.separations.push_back({each.at("first").small_integer(), each.at("second").small_integer(),
                                   each.at("steps").small_integer()});
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
  const Json json = isa::parse_json(text, source);
  const JsonValue fields(json, source);
  fields.allow({"name", "interval", "steps", "optimal", "issue"});
  Schedule schedule;
  const std::vector<int> issue = fields.at("issue").small_integers();
  schedule.issue.assign(issue.begin(), issue.end());
  schedule.interval = integer_or(fields, "interval", 0);
  schedule.is_optimal = flag_or(fields, "optimal", false);
  if (schedule.issue.size() != problem.operations.size())
    throw isa::UserError(fmt::format("{}: found issue steps of {} operations, allowed: of {}", source,
                                     schedule.issue.size(), problem.operations.size()));
  return schedule;
}

}  // namespace kodama::scheduler
