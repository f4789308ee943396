#include "compiler/dynamic/dynamic_report.h"

#include <fmt/format.h>
#include <fmt/ostream.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <optional>
#include <ostream>

#include "compiler/report/table.h"
#include "compiler/report/traced_run.h"

namespace kodama::compiler {

namespace {

const char* place_name(const RegionRuns& region) {
  if (region.place == RegionPlace::kChip) return region.reasons.empty() ? "chip" : "chip and host";
  return region.place == RegionPlace::kHost ? "host" : "folded";
}

/// "3 Conv, Relu, …": each operator once, with how often it is there, at most so many of them.
std::string operators_text(const std::vector<std::string>& operators) {
  constexpr size_t kMost = 4;
  std::vector<std::pair<std::string, int>> counts;
  for (const std::string& name : operators) {
    const auto known = std::ranges::find(counts, name, &std::pair<std::string, int>::first);
    if (known == counts.end()) {
      counts.emplace_back(name, 1);
    } else {
      ++known->second;
    }
  }
  std::string text;
  for (size_t k = 0; k < counts.size() && k < kMost; ++k) {
    text += (k == 0 ? "" : ", ");
    text += counts[k].second > 1 ? fmt::format("{} {}", counts[k].second, counts[k].first) : counts[k].first;
  }
  return counts.size() > kMost ? fmt::format("{}, .. ({} nodes)", text, operators.size()) : text;
}

int64_t host_cycles(const RegionRuns& region) {
  return region.stats.chip.causes.host_compute;
}

std::vector<std::string> numbers(const RegionRuns& region) {
  return {std::to_string(region.runs),
          std::to_string(region.compiles),
          std::to_string(region.disk_hits),
          std::to_string(region.hits),
          std::to_string(region.stats.chip_cycles()),
          std::to_string(region.stats.chip.cycles() - region.stats.chip_cycles() - host_cycles(region)),
          std::to_string(host_cycles(region)),
          bytes_text(region.link_bytes())};
}

/// Of stages on the host also what their data take of the link.
std::vector<HostShare> all_host_shares(const DynamicOutcome& outcome) {
  std::vector<HostShare> shares;
  for (const RegionRuns& region : outcome.regions) {
    shares.insert(shares.end(), region.host_layers.begin(), region.host_layers.end());
    if (region.place != RegionPlace::kHost || region.only_decides || !region.host_layers.empty()) continue;
    const std::string more =
        region.operators.size() > 1 ? fmt::format(" and {} behind it", region.operators.size() - 1) : "";
    shares.push_back({fmt::format("{} of {}{}", region.operators.at(0), region.name, more),
                      region.reasons.at(0), region.stats.chip.cycles() - region.stats.chip_cycles()});
  }
  return shares;
}

nlohmann::ordered_json layers_to_json(const Comparisons& layers) {
  auto list = nlohmann::ordered_json::array();
  for (const auto& [name, found] : layers) {
    list.push_back({{"name", name},
                    {"max_absolute", found.max_absolute},
                    {"max_relative", found.max_relative},
                    {"problem", found.problem}});
  }
  return list;
}

const char* source_name(Program::Source source) {
  switch (source) {
    case Program::Source::kCompiled:
      return "compiled";
    case Program::Source::kDisk:
      return "disk";
    default:
      return "memory";
  }
}

nlohmann::ordered_json program_to_json(const ProgramRuns& program, const RegionRuns& region,
                                       const simulator::Timeline& timeline) {
  const CompiledModel& model = program.code->compiled;
  std::optional<TracedRun> traced;
  if (program.programs > 0)
    traced.emplace(model, timeline, program.first_program, program.programs, region.name);
  auto inputs = nlohmann::ordered_json::array();
  for (const auto& [name, shape] : program.inputs) inputs.push_back({{"name", name}, {"shape", shape}});
  const Runs runs{program.runs, program.first_cycles, program.first_dram_bytes, program.last};
  return {{"region", program.region},
          {"source", source_name(program.source)},
          {"inputs", std::move(inputs)},
          {"runs", program.runs},
          {"cycles", program.stats.chip.cycles()},
          {"chip_cycles", program.stats.chip_cycles()},
          {"run", run_to_json(model, runs, region.layers, {}, traced ? &*traced : nullptr)}};
}

void print_layers(const DynamicOutcome& outcome, std::ostream& out) {
  for (const RegionRuns& region : outcome.regions) {
    if (region.layers.empty()) continue;
    const auto worst = std::ranges::max_element(region.layers, {}, [](const auto& layer) {
      return layer.second.problem.empty() ? layer.second.max_relative
                                          : std::numeric_limits<double>::infinity();
    });
    fmt::print(out, "layers of {}: {} compared with the CPU reference, the worst is '{}': {}\n", region.name,
               region.layers.size(), worst->first,
               worst->second.problem.empty()
                   ? fmt::format("max abs {:.2e}, over largest magnitude {:.2e}", worst->second.max_absolute,
                                 worst->second.max_relative)
                   : worst->second.problem);
  }
}

}  // namespace

void print_dynamic_report(const DynamicOutcome& outcome, std::ostream& out) {
  Table table({"region", "operators", "where", "runs", "compiles", "from disk", "hits", "chip cycles",
               "link cycles", "host cycles", "link bytes"});
  const auto add = [&](const RegionRuns& region, const std::string& operators, const std::string& where) {
    std::vector<std::string> row{region.name, operators, where};
    for (std::string& number : numbers(region)) row.push_back(std::move(number));
    table.add(std::move(row));
  };
  for (const RegionRuns& region : outcome.regions)
    add(region, operators_text(region.operators), place_name(region));
  table.leave_out_first(
      {"from disk", "link bytes", "hits", "compiles", "operators", "link cycles", "host cycles"});
  table.explain({{"region", "a part of the model that is compiled, or that the host computes"},
                 {"operators", "of ONNX, in it"},
                 {"runs", "times that it was run"},
                 {"compiles", "programs that were made for it"},
                 {"from disk", "programs that another process had made"},
                 {"hits", "runs of programs that were in memory"},
                 {"chip cycles", "of all its runs"},
                 {"link cycles", "data and instructions on the host link"},
                 {"host cycles", "of what the host computes"},
                 {"link bytes", "data on the host link"}});
  table.rule();
  add(outcome.total, "", "");
  if (!table_view().brief) table.print(out, 3);
  const RegionRuns& total = outcome.total;
  fmt::print(out, "all regions: {} cycles", total.stats.chip.cycles());
  if (total.preload_bytes > 0) {
    fmt::print(out, ", and {} once, for {} of constants", total.preload_cycles,
               bytes_text(total.preload_bytes));
  }
  fmt::print(out,
             "\nprograms: {} compiled and {} read from disk in {:.2f} s, {} runs of such that were in "
             "memory; {} are "
             "kept, {} were dropped\n",
             total.compiles, total.disk_hits, total.compile_seconds, total.hits, outcome.cached_programs,
             outcome.dropped_programs);
  for (const RegionRuns& region : outcome.regions) {
    if (!region.bucket.empty()) fmt::print(out, "in a bucket: {}: {}\n", region.name, region.bucket);
    if (!region.no_bucket.empty())
      fmt::print(out, "{}: {}: {}\n", region.bucket.empty() ? "in no bucket" : "not in all buckets",
                 region.name, region.no_bucket);
  }
  // A reason once, with all that it is true of.
  std::vector<std::pair<std::string, std::vector<std::string>>> reasons;
  const auto tell = [&](const std::string& reason, const std::string& what) {
    auto known = std::ranges::find(reasons, reason, &std::pair<std::string, std::vector<std::string>>::first);
    if (known == reasons.end()) known = reasons.insert(reasons.end(), {reason, {}});
    known->second.push_back(what);
  };
  for (const RegionRuns& region : outcome.regions) {
    for (const std::string& reason : region.reasons) {
      const size_t colon = reason.find("': ");
      const bool of_part =
          region.operators.size() != 1 || region.place == RegionPlace::kChip || colon != std::string::npos;
      if (of_part && colon != std::string::npos) {
        tell(reason.substr(colon + 3), reason.substr(0, colon + 1));
      } else {
        tell(reason, fmt::format("{} ({})", region.name, region.operators.at(0)));
      }
    }
  }
  if (!reasons.empty()) fmt::print(out, "on the host:\n");
  constexpr size_t kMostNames = 4;
  for (const auto& [reason, names] : reasons) {
    const size_t shown = std::min(names.size(), kMostNames);
    fmt::print(out, "  {}: {}{}\n", reason,
               fmt::join(names.begin(), names.begin() + static_cast<ptrdiff_t>(shown), ", "),
               names.size() > shown ? fmt::format(", and {} more", names.size() - shown) : "");
  }
  print_host_share(all_host_shares(outcome), total.stats.chip.cycles(), out);
  print_layers(outcome, out);
}

nlohmann::ordered_json dynamic_to_json(const DynamicOutcome& outcome, const simulator::Timeline* timeline) {
  const auto row = [](const RegionRuns& region) {
    return nlohmann::ordered_json{{"name", region.name},
                                  {"operators", region.operators},
                                  {"where", place_name(region)},
                                  {"reasons", region.reasons},
                                  {"runs", region.runs},
                                  {"compiles", region.compiles},
                                  {"disk_hits", region.disk_hits},
                                  {"hits", region.hits},
                                  {"compile_seconds", region.compile_seconds},
                                  {"bucket", region.bucket},
                                  {"no_bucket", region.no_bucket},
                                  {"cycles", region.stats.chip.cycles()},
                                  {"chip_cycles", region.stats.chip_cycles()},
                                  {"host_cycles", host_cycles(region)},
                                  {"link_bytes", region.link_bytes()},
                                  {"bytes_to_chip", region.stats.bytes_to_chip},
                                  {"bytes_from_chip", region.stats.bytes_from_chip},
                                  {"preload_bytes", region.preload_bytes},
                                  {"preload_cycles", region.preload_cycles},
                                  {"layers", layers_to_json(region.layers)}};
  };
  nlohmann::ordered_json json;
  json["regions"] = nlohmann::ordered_json::array();
  for (const RegionRuns& region : outcome.regions) json["regions"].push_back(row(region));
  json["total"] = row(outcome.total);
  json["total"].erase("where");
  json["cached_programs"] = outcome.cached_programs;
  json["dropped_programs"] = outcome.dropped_programs;
  if (timeline == nullptr) return json;
  json["programs"] = nlohmann::ordered_json::array();
  for (const ProgramRuns& program : outcome.programs)
    json["programs"].push_back(program_to_json(program, outcome.regions[program.region], *timeline));
  return json;
}

}  // namespace kodama::compiler
