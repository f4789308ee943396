// Problems and schedules as JSON.

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <utility>

#include "isa/error.h"
#include "scheduler/schedule_problem.h"

namespace kodama::scheduler {
namespace {

using Json = nlohmann::ordered_json;

/// A line per member, and per element of its lists.
std::string text_of(const Json& json) {
  const auto line = [](const Json& each) {
    return each.dump(-1, ' ', false, Json::error_handler_t::replace);
  };
  std::string text = "{";
  const char* between = "\n";
  for (const auto& [name, member] : json.items()) {
    text += fmt::format("{}{}: ", std::exchange(between, ",\n"), line(name));
    const bool is_list = member.is_array() && !member.empty() && member[0].is_object();
    if (!is_list) {
      text += line(member);
      continue;
    }
    for (size_t k = 0; k < member.size(); ++k) text += (k == 0 ? "[\n " : ",\n ") + line(member[k]);
    text += "]";
  }
  return text + "\n}\n";
}

Json parsed(const std::string& text, const std::string& source) {
  try {
    return Json::parse(text);
  } catch (const Json::parse_error& error) {
    throw isa::UserError(fmt::format("{}: no JSON at byte {}: {}", source, error.byte, error.what()));
  }
}

/// Reads fields; an error says where in the file.
class Fields {
 public:
  Fields(const Json& json, std::string source, std::string path)
      : json_(json), source_(std::move(source)), path_(std::move(path)) {
    if (!json.is_object()) fail("", "an object", json);
  }

  template <typename Value>
  Value get(const char* name, Value otherwise) const {
    const auto found = json_.find(name);
    if (found == json_.end()) return otherwise;
    return convert<Value>(name, *found);
  }
  template <typename Value>
  Value get(const char* name) const {
    const auto found = json_.find(name);
    if (found == json_.end()) {
      throw isa::UserError(
          fmt::format("{}: {} has no '{}'", source_, path_.empty() ? "the file" : path_, name));
    }
    return convert<Value>(name, *found);
  }
  /// The objects of a list, each with its fields; an absent list is empty.
  template <typename Visit>
  void for_each(const char* name, Visit&& visit) const {
    const auto found = json_.find(name);
    if (found == json_.end()) return;
    if (!found->is_array()) fail(name, "a list", *found);
    for (size_t k = 0; k < found->size(); ++k)
      visit(Fields((*found)[k], source_, fmt::format("{}{}[{}]", path_.empty() ? "" : path_ + ".", name, k)));
  }
  [[noreturn]] void fail(const char* name, const char* wanted, const Json& found) const {
    std::string shown = found.dump(-1, ' ', false, Json::error_handler_t::replace);
    if (shown.size() > 60) shown = shown.substr(0, 60) + "...";
    throw isa::UserError(fmt::format("{}: {}{}{}: found {}, allowed: {}", source_, path_,
                                     path_.empty() || *name == 0 ? "" : ".", name, shown, wanted));
  }

 private:
  template <typename Value>
  Value convert(const char* name, const Json& json) const {
    if constexpr (std::is_same_v<Value, bool>) {
      if (!json.is_boolean()) fail(name, "true or false", json);
    } else if constexpr (std::is_integral_v<Value>) {
      if (!json.is_number_integer()) fail(name, "an integer", json);
      const bool fits = !json.is_number_unsigned() || json.get<uint64_t>() <= INT32_MAX;
      if (!fits || json.get<int64_t>() > INT32_MAX || json.get<int64_t>() < INT32_MIN)
        fail(name, "an integer of 32 bits", json);
    } else if constexpr (std::is_same_v<Value, std::string>) {
      if (!json.is_string()) fail(name, "a text", json);
    } else {
      if (!json.is_array()) fail(name, "a list", json);
      for (const Json& each : json) {
        if constexpr (std::is_same_v<typename Value::value_type, std::string>) {
          if (!each.is_string()) fail(name, "a list of texts", json);
        } else if (!each.is_number_integer() || each.get<int64_t>() > INT32_MAX ||
                   each.get<int64_t>() < INT32_MIN) {
          fail(name, "a list of integers of 32 bits", json);
        }
      }
    }
    return json.get<Value>();
  }

  const Json& json_;
  std::string source_;
  std::string path_;
};

void check_index(const std::string& source, const std::string& what, int64_t value, size_t size) {
  if (value >= 0 && value < static_cast<int64_t>(size)) return;
  throw isa::UserError(
      fmt::format("{}: {}: found {}, allowed: 0 to {}", source, what, value, static_cast<int64_t>(size) - 1));
}

}  // namespace

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
  ScheduleProblem problem;
  problem.name = fields.get<std::string>("name", "");
  problem.is_loop = fields.get<bool>("loop", false);
  fields.for_each("resources", [&](const Fields& each) {
    problem.resources.push_back({each.get<std::string>("name", ""), each.get<int64_t>("capacity", 1)});
    if (problem.resources.back().capacity < 1)
      throw isa::UserError(fmt::format("{}: resource '{}': found capacity {}, allowed: 1 and more", source,
                                       problem.resources.back().name, problem.resources.back().capacity));
  });
  problem.classes = fields.get<std::vector<std::string>>("classes", {});
  fields.for_each("operations", [&](const Fields& each) {
    ScheduleProblem::Operation operation;
    operation.text = each.get<std::string>("text", "");
    operation.earliest = each.get<int64_t>("earliest", 0);
    operation.takes_step = each.get<bool>("takes_step", true);
    operation.classes = each.get<std::vector<int>>("classes", {});
    each.for_each("uses", [&](const Fields& use) {
      operation.uses.push_back(
          {use.get<int>("resource"), use.get<int64_t>("key", -1), use.get<bool>("invariant", false)});
      check_index(source, "resource of an operation", operation.uses.back().resource,
                  problem.resources.size());
    });
    for (const int c : operation.classes)
      check_index(source, "class of an operation", c, problem.classes.size());
    if (operation.earliest < 0)
      throw isa::UserError(
          fmt::format("{}: found earliest step {}, allowed: 0 and more", source, operation.earliest));
    if (!operation.takes_step && !operation.uses.empty())
      throw isa::UserError(
          fmt::format("{}: operation '{}' takes no step, so it can't use resources", source, operation.text));
    problem.operations.push_back(std::move(operation));
  });
  fields.for_each("dependences", [&](const Fields& each) {
    const ScheduleProblem::Dependence edge{each.get<int>("from"), each.get<int>("to"),
                                           each.get<int64_t>("distance"), each.get<int64_t>("iterations", 0)};
    check_index(source, "'from' of a dependence", edge.from, problem.operations.size());
    check_index(source, "'to' of a dependence", edge.to, problem.operations.size());
    if (edge.iterations < 0 || (edge.iterations > 0 && !problem.is_loop))
      throw isa::UserError(fmt::format("{}: found a dependence over {} iterations, allowed: 0{}", source,
                                       edge.iterations, problem.is_loop ? " and more" : " outside loops"));
    if (edge.iterations == 0 && edge.from >= edge.to)
      throw isa::UserError(fmt::format(
          "{}: found a dependence {} -> {} inside an iteration, allowed: from earlier to later operations",
          source, edge.from, edge.to));
    problem.dependences.push_back(edge);
  });
  fields.for_each("separations", [&](const Fields& each) {
    problem.separations.push_back(
        {each.get<int>("first"), each.get<int>("second"), each.get<int64_t>("steps")});
    check_index(source, "'first' of a separation", problem.separations.back().first, problem.classes.size());
    check_index(source, "'second' of a separation", problem.separations.back().second,
                problem.classes.size());
  });
  check_problem(problem);
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
