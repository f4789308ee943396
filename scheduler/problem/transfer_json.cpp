// Transfer problems and their schedules as JSON.

#include "isa/error.h"
#include "scheduler/problem/json_fields.h"
#include "scheduler/problem/transfer_problem.h"

namespace kodama::scheduler {

std::string to_json(const TransferProblem& problem, const TransferSchedule* schedule) {
  Json buffers = Json::array();
  for (size_t b = 0; b < problem.buffers.size(); ++b) {
    const auto& buffer = problem.buffers[b];
    Json entry = {{"id", b}, {"name", buffer.name}, {"size", buffer.size}};
    if (buffer.alignment > 1) entry["alignment"] = buffer.alignment;
    if (buffer.phase > 0) entry["phase"] = buffer.phase;
    if (buffer.fixed_address) entry["fixed_address"] = *buffer.fixed_address;
    entry["first_task"] = buffer.first_task;
    entry["last_task"] = buffer.last_task;
    if (schedule != nullptr) entry["address"] = schedule->address[b];
    buffers.push_back(entry);
  }
  Json transfers = Json::array();
  for (size_t k = 0; k < problem.transfers.size(); ++k) {
    const auto& transfer = problem.transfers[k];
    const auto json_of = [](const std::vector<TransferProblem::PortUse>& list) {
      Json uses = Json::array();
      for (const auto& use : list) uses.push_back({{"port", use.port}, {"cycles", use.cycles}});
      return uses;
    };
    Json entry = {{"id", k},
                  {"text", transfer.text},
                  {"buffer", transfer.buffer},
                  {"load", transfer.is_load},
                  {"earliest", transfer.earliest},
                  {"latest", transfer.latest},
                  {"latency", transfer.latency},
                  {"uses", json_of(transfer.uses)}};
    if (!transfer.after.empty()) entry["after"] = transfer.after;
    if (transfer.is_scratch) entry["scratch"] = true;
    if (transfer.copy) {
      entry["copy"] = {{"source", transfer.copy->source},
                       {"latency", transfer.copy->latency},
                       {"uses", json_of(transfer.copy->uses)}};
    }
    if (schedule != nullptr) {
      entry["issue"] = schedule->issue[k];
      if (schedule->copied[k]) entry["copied"] = true;
    }
    transfers.push_back(entry);
  }
  Json keeps = Json::array();
  for (size_t k = 0; k < problem.keeps.size(); ++k) {
    Json members = Json::array();
    for (const auto& member : problem.keeps[k].members)
      members.push_back({{"buffer", member.buffer}, {"offset", member.offset}});
    Json entry = {{"size", problem.keeps[k].size}, {"members", members}, {"saved", problem.keeps[k].saved}};
    if (schedule != nullptr) entry["kept"] = static_cast<bool>(schedule->kept[k]);
    keeps.push_back(entry);
  }
  Json json = {{"name", problem.name}, {"capacity", problem.capacity}};
  if (schedule != nullptr) json["estimated_cycles"] = estimated_cycles(problem, *schedule);
  json["bound"] = transfer_bound(problem).cycles();
  json["issue_interval"] = problem.issue_interval;
  json["max_in_flight"] = problem.max_in_flight;
  json["ports"] = problem.ports;
  if (!problem.queues.empty()) json["queues"] = problem.queues;
  json["task_cycles"] = problem.task_cycles;
  json["buffers"] = buffers;
  json["transfers"] = transfers;
  json["keeps"] = keeps;
  return text_of(json);
}

namespace {

/// A file holds a problem, and may hold its schedule: these are the members of both.
void allow_file(const JsonValue& file) {
  file.allow({"name", "capacity", "estimated_cycles", "bound", "issue_interval", "max_in_flight", "ports",
              "queues", "task_cycles", "buffers", "transfers", "keeps"});
}
void allow_buffer(const JsonValue& buffer, size_t place) {
  buffer.allow(
      {"id", "name", "size", "alignment", "phase", "fixed_address", "first_task", "last_task", "address"});
  check_id(buffer, place);
}
void allow_transfer(const JsonValue& transfer, size_t place) {
  transfer.allow({"id", "text", "buffer", "load", "earliest", "latest", "latency", "uses", "after", "copy",
                  "scratch", "issue", "copied"});
  check_id(transfer, place);
}
void allow_keep(const JsonValue& keep) {
  keep.allow({"size", "members", "saved", "kept"});
}
std::vector<TransferProblem::PortUse> uses_of(const JsonValue& transfer) {
  std::vector<TransferProblem::PortUse> uses;
  transfer.for_each("uses", [&](const JsonValue& use) {
    use.allow({"port", "cycles"});
    uses.push_back({use.at("port").small_integer(), use.at("cycles").small_integer()});
  });
  return uses;
}

}  // namespace

TransferProblem transfer_problem_from_json(const std::string& text, const std::string& source) {
  const Json json = isa::parse_json(text, source);
  const JsonValue fields(json, source);
  allow_file(fields);
  TransferProblem problem;
  problem.name = text_or_empty(fields, "name");
  problem.capacity = fields.at("capacity").small_integer();
  problem.issue_interval = integer_or(fields, "issue_interval", 0);
  problem.max_in_flight = integer_or(fields, "max_in_flight", 0);
  problem.ports = texts_or_none(fields, "ports");
  problem.queues = integers_or_none(fields, "queues");
  const std::vector<int> task_cycles = fields.at("task_cycles").small_integers();
  problem.task_cycles.assign(task_cycles.begin(), task_cycles.end());
  fields.for_each("buffers", [&](const JsonValue& each) {
    allow_buffer(each, problem.buffers.size());
    TransferProblem::Buffer buffer;
    buffer.name = text_or_empty(each, "name");
    buffer.size = each.at("size").small_integer();
    buffer.alignment = integer_or(each, "alignment", 1);
    buffer.phase = integer_or(each, "phase", 0);
    const auto fixed = integer_or(each, "fixed_address", -1);
    if (fixed >= 0) buffer.fixed_address = fixed;
    buffer.first_task = each.at("first_task").small_integer();
    buffer.last_task = each.at("last_task").small_integer();
    problem.buffers.push_back(std::move(buffer));
  });
  fields.for_each("transfers", [&](const JsonValue& each) {
    allow_transfer(each, problem.transfers.size());
    TransferProblem::Transfer transfer;
    transfer.text = text_or_empty(each, "text");
    transfer.buffer = each.at("buffer").small_integer();
    transfer.is_load = each.at("load").flag();
    transfer.earliest = each.at("earliest").small_integer();
    transfer.latest = each.at("latest").small_integer();
    transfer.latency = integer_or(each, "latency", 0);
    transfer.after = integers_or_none(each, "after");
    transfer.is_scratch = flag_or(each, "scratch", false);
    transfer.uses = uses_of(each);
    if (each.has("copy")) {
      const JsonValue copy = each.at("copy");
      copy.allow({"source", "latency", "uses"});
      transfer.copy = {copy.at("source").small_integer(), integer_or(copy, "latency", 0), uses_of(copy)};
    }
    problem.transfers.push_back(std::move(transfer));
  });
  fields.for_each("keeps", [&](const JsonValue& each) {
    allow_keep(each);
    TransferProblem::Keep keep;
    keep.size = each.at("size").small_integer();
    keep.saved = integers_or_none(each, "saved");
    each.for_each("members", [&](const JsonValue& member) {
      member.allow({"buffer", "offset"});
      keep.members.push_back({member.at("buffer").small_integer(), integer_or(member, "offset", 0)});
    });
    problem.keeps.push_back(std::move(keep));
  });
  const std::string fault = problem_fault(problem);
  if (!fault.empty()) throw isa::UserError(fmt::format("{}: {}", source, fault));
  return problem;
}

TransferSchedule transfer_schedule_from_json(const TransferProblem& problem, const std::string& text,
                                             const std::string& source) {
  const Json json = isa::parse_json(text, source);
  const JsonValue fields(json, source);
  allow_file(fields);
  TransferSchedule schedule;
  fields.for_each("buffers", [&](const JsonValue& each) {
    allow_buffer(each, schedule.address.size());
    schedule.address.push_back(each.at("address").small_integer());
  });
  fields.for_each("transfers", [&](const JsonValue& each) {
    allow_transfer(each, schedule.issue.size());
    schedule.issue.push_back(each.at("issue").small_integer());
    schedule.copied.push_back(flag_or(each, "copied", false));
  });
  fields.for_each("keeps", [&](const JsonValue& each) {
    allow_keep(each);
    schedule.kept.push_back(each.at("kept").flag());
  });
  if (schedule.address.size() != problem.buffers.size() ||
      schedule.issue.size() != problem.transfers.size() || schedule.kept.size() != problem.keeps.size())
    throw isa::UserError(fmt::format("{}: found {} buffers, {} transfers, {} keeps, allowed: {}, {}, {}",
                                     source, schedule.address.size(), schedule.issue.size(),
                                     schedule.kept.size(), problem.buffers.size(), problem.transfers.size(),
                                     problem.keeps.size()));
  return schedule;
}

bool is_transfer_problem(const std::string& text, const std::string& source) {
  const Json json = isa::parse_json(text, source);
  return json.is_object() && json.contains("task_cycles");
}

}  // namespace kodama::scheduler
