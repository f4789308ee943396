#include "compiler/report/html_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <unordered_map>

#include "compiler/report/graph_drawing.h"
#include "compiler/report/page/page.h"
#include "isa/error.h"

namespace kodama::compiler {
namespace {

using nlohmann::ordered_json;

/// Reads JSON that anybody may have written: what the page relies on is there and of its type.
class RunCheck {
 public:
  explicit RunCheck(const std::string& source) : source_(source) {}

  void check(const ordered_json& run, const std::string& at) const {
    object(run, at);
    if (is_open(run)) return check_open(run, at);
    for (const char* key : {"model", "chip", "precision"}) text(run, key, at);
    for (const char* key : {"runs", "milliseconds", "milliseconds_with_constants", "total_with_constants",
                            "constant_bytes", "constant_link_cycles", "slices"})
      number(run, key, at);
    stats(run, "total", at);
    numbers(member(run, "preparation", at), {"cycles", "dram_bytes"}, at + ".preparation");
    numbers(member(run, "peaks", at), {"products_per_cycle", "dram_bytes_per_cycle"}, at + ".peaks");
    numbers(member(run, "tree", at),
            {"groups", "l2b_per_group", "l1b_per_l2b", "mab_per_l1b", "pe_per_mab", "lm_lw", "l1bm_lw",
             "l2bm_lw", "dram_lw", "clock_hz"},
            at + ".tree");
    for (const char* key : {"model_inputs", "model_outputs"}) {
      each(run, key, at, [&](const ordered_json& tensor, const std::string& here) {
        text(tensor, "name", here);
        text(tensor, "type", here);
        integers(tensor, "shape", here);
      });
    }
    object(member(run, "outputs", at), at + ".outputs");
    const size_t stages = each(run, "stages", at, [&](const ordered_json& stage, const std::string& here) {
      for (const char* key : {"name", "kind", "where", "operation"}) text(stage, key, here);
      texts(stage, "operators", here);
      stats(stage, "stats", here);
      each(stage, "shapes", here, [&](const ordered_json& shape, const std::string& inner) {
        if (!shape.is_array()) fail(inner, shape, "a list of numbers");
      });
      for (const char* key : {"kernel", "tiling", "reason"}) {
        if (stage.contains(key)) text(stage, key, here);
      }
      if (stage.contains("predicted_cycles")) number(stage, "predicted_cycles", here);
      if (stage.contains("error"))
        numbers(stage.at("error"), {"max_absolute", "max_relative", "unequal"}, here + ".error");
      if (!stage.contains("transfers")) return;
      each(stage, "transfers", here, [&](const ordered_json& transfer, const std::string& inner) {
        for (const char* key : {"tensor", "from", "to", "instruction"}) text(transfer, key, inner);
        numbers(transfer, {"count", "lw", "first_cycle", "last_cycle"}, inner);
      });
    });
    const size_t layouts = each(run, "layouts", at, [&](const ordered_json& layout, const std::string& here) {
      for (const char* key : {"text", "memory", "padding", "drawing"}) text(layout, key, here);
      numbers(layout, {"element_bits", "long_words"}, here);
      integers(layout, "lengths", here);
      each(layout, "levels", here, [&](const ordered_json& level, const std::string& inner) {
        text(level, "level", inner);
        numbers(level, {"replicated"}, inner);
        index(level, "instances", kMostInstances, inner);
        integers(level, "used", inner);
        each(level, "axes", inner, [&](const ordered_json& axis, const std::string& innermost) {
          numbers(axis, {"axis", "parts"}, innermost);
        });
      });
    });
    each(run, "moves", at, [&](const ordered_json& move, const std::string& here) {
      for (const char* key : {"tensor", "type", "way"}) text(move, key, here);
      for (const char* key : {"from", "to"}) {
        if (!member(move, key, here).is_null()) index(move, key, stages, here);
      }
      integers(move, "shape", here);
      if (!member(move, "constant", here).is_boolean())
        fail(here + ".constant", move["constant"], "true or false");
      if (member(move, "layout", here).is_null()) return;
      index(move, "layout", layouts, here);
      text(move, "transport", here);
      numbers(move, {"lw_per_group", "groups", "bytes", "dram_address"}, here);
    });
    if (run.contains("timeline")) timeline(run.at("timeline"), stages, at + ".timeline");
    if (run.contains("memory")) memory(run.at("memory"), at + ".memory");
  }

  /// Of a model that is compiled while it runs: it has parts, and programs that are runs of their own.
  static bool is_open(const ordered_json& run) { return run.is_object() && run.contains("regions"); }

 private:
  void check_open(const ordered_json& run, const std::string& at) const {
    if (!run.contains("programs"))
      fail(at, "a model that is compiled while it runs, without its programs",
           "what `kodama run --report FILE --json FILE` writes");
    for (const char* key : {"model", "chip", "precision", "open_reason"}) text(run, key, at);
    for (const char* key : {"milliseconds", "cached_programs", "dropped_programs"}) number(run, key, at);
    const auto numbers_of_runs = [&](const ordered_json& row, const std::string& here) {
      numbers(row,
              {"runs", "compiles", "disk_hits", "hits", "cycles", "chip_cycles", "host_cycles", "link_bytes",
               "bytes_to_chip", "bytes_from_chip", "preload_bytes", "preload_cycles"},
              here);
    };
    numbers_of_runs(member(run, "total", at), at + ".total");
    const size_t regions = each(run, "regions", at, [&](const ordered_json& region, const std::string& here) {
      for (const char* key : {"name", "where"}) text(region, key, here);
      for (const char* key : {"operators", "reasons"}) texts(region, key, here);
      numbers_of_runs(region, here);
    });
    each(run, "programs", at, [&](const ordered_json& program, const std::string& here) {
      index(program, "region", regions, here);
      text(program, "source", here);
      numbers(program, {"runs", "cycles", "chip_cycles"}, here);
      each(program, "inputs", here, [&](const ordered_json& input, const std::string& inner) {
        text(input, "name", inner);
        integers(input, "shape", inner);
      });
      const ordered_json& own = member(program, "run", here);
      if (is_open(own)) fail(here + ".run", own, "a run of one program");
      check(own, here + ".run");
    });
    each(run, "comparisons", at, [&](const ordered_json& comparison, const std::string& here) {
      for (const char* key : {"output", "against"}) text(comparison, key, here);
      numbers(comparison, {"max_absolute", "max_relative"}, here);
      if (!member(comparison, "ok", here).is_boolean()) fail(here + ".ok", comparison["ok"], "true or false");
    });
  }

  static constexpr size_t kMostInstances = 1 << 16;
  static constexpr size_t kMostBins = 1 << 20;

  [[noreturn]] void fail(const std::string& at, const ordered_json& found, const std::string& allowed) const {
    std::string text = found.dump(-1, ' ', true, ordered_json::error_handler_t::replace);
    if (text.size() > 40) text = text.substr(0, 38) + "..";
    throw isa::UserError(fmt::format("{}: not what `kodama run --json` writes: {}: found {}, allowed: {}",
                                     source_,
                                     at.empty()            ? "the whole"
                                     : at.starts_with('.') ? at.substr(1)
                                                           : at,
                                     text, allowed));
  }
  void object(const ordered_json& value, const std::string& at) const {
    if (!value.is_object()) fail(at, value, "an object");
  }
  const ordered_json& member(const ordered_json& value, const char* key, const std::string& at) const {
    object(value, at);
    const auto found = value.find(key);
    if (found == value.end()) {
      std::string keys;
      for (const auto& item : value.items()) keys += (keys.empty() ? "" : ", ") + item.key();
      fail(at, keys, fmt::format("an object with the key '{}'", key));
    }
    return *found;
  }
  void text(const ordered_json& value, const char* key, const std::string& at) const {
    const ordered_json& found = member(value, key, at);
    if (!found.is_string()) fail(at + "." + key, found, "a text");
  }
  void number(const ordered_json& value, const char* key, const std::string& at) const {
    const ordered_json& found = member(value, key, at);
    // Infinite and NaN are null in JSON.
    if (!found.is_number() && !found.is_null()) fail(at + "." + key, found, "a number");
  }
  void numbers(const ordered_json& value, std::initializer_list<const char*> keys,
               const std::string& at) const {
    for (const char* key : keys) number(value, key, at);
  }
  int64_t index(const ordered_json& value, const char* key, size_t end, const std::string& at) const {
    const ordered_json& found = member(value, key, at);
    if (!found.is_number_integer() || found.get<double>() < 0 ||
        found.get<double>() >= static_cast<double>(end))
      fail(at + "." + key, found, fmt::format("a whole number from 0 to {}", static_cast<int64_t>(end) - 1));
    return found.get<int64_t>();
  }
  template <typename Visit>
  size_t each(const ordered_json& value, const char* key, const std::string& at, Visit&& visit) const {
    const ordered_json& list = member(value, key, at);
    if (!list.is_array()) fail(at + "." + key, list, "a list");
    for (size_t k = 0; k < list.size(); ++k) visit(list[k], fmt::format("{}.{}[{}]", at, key, k));
    return list.size();
  }
  void integers(const ordered_json& value, const char* key, const std::string& at) const {
    each(value, key, at, [&](const ordered_json& item, const std::string& here) {
      if (!item.is_number_integer()) fail(here, item, "a whole number");
    });
  }
  void texts(const ordered_json& value, const char* key, const std::string& at) const {
    each(value, key, at, [&](const ordered_json& item, const std::string& here) {
      if (!item.is_string()) fail(here, item, "a text");
    });
  }
  void stats(const ordered_json& value, const char* key, const std::string& at) const {
    const ordered_json& found = member(value, key, at);
    const std::string here = at + "." + key;
    numbers(found,
            {"steps", "mvs", "cycles", "wait_cycles", "total_cycles", "dram_bytes", "products",
             "products_per_cycle", "products_per_dram_byte", "share_of_peak", "bound_cycles", "times_bound",
             "link_cycles", "bytes_to_chip", "bytes_from_chip", "host_relayouts", "host_layers", "host_bytes",
             "host_operations"},
            here);
    text(found, "bound_resource", here);
    const ordered_json& causes = member(found, "cycles_by_cause", here);
    numbers(causes,
            {"steps", "wait", "mv_queue", "host_link", "hazard", "drain", "host_input", "host_output",
             "launch", "host_compute"},
            here + ".cycles_by_cause");
    numbers(member(found, "bound_cycles_by_resource", here), {"MAU", "vector", "DRAM"},
            here + ".bound_cycles_by_resource");
  }
  void timeline(const ordered_json& value, size_t stages, const std::string& at) const {
    index(value, "cycles", size_t{1} << 53, at);
    if (index(value, "bin_cycles", size_t{1} << 53, at) < 1)
      fail(at + ".bin_cycles", value["bin_cycles"], "a whole number from 1 on");
    if (!member(value, "truncated", at).is_boolean())
      fail(at + ".truncated", value["truncated"], "true or false");
    texts(value, "names", at);
    const size_t names = value["names"].size();
    const auto row = [&](const ordered_json& list, const std::string& here,
                         std::initializer_list<size_t> ends) {
      if (!list.is_array() || list.size() != ends.size())
        fail(here, list, fmt::format("a list of {} whole numbers", ends.size()));
      size_t k = 0;
      for (const size_t end : ends) {
        const ordered_json& item = list[k++];
        if (!item.is_number_integer() || item.get<double>() < 0 ||
            item.get<double>() >= static_cast<double>(end))
          fail(here, item, fmt::format("a whole number below {}", end));
      }
    };
    constexpr size_t kAny = size_t{1} << 53;
    each(value, "layers", at, [&](const ordered_json& band, const std::string& here) {
      row(band, here, {stages, kAny, kAny});
    });
    each(value, "tracks", at, [&](const ordered_json& track, const std::string& here) {
      text(track, "name", here);
      text(track, "kind", here);
      number(track, "busy_cycles", here);
      each(track, "runs", here, [&](const ordered_json& run, const std::string& inner) {
        row(run, inner, {kMostBins, kMostBins, kAny, names});
      });
    });
  }
  void memory(const ordered_json& value, const std::string& at) const {
    if (!member(value, "truncated", at).is_boolean())
      fail(at + ".truncated", value["truncated"], "true or false");
    index(value, "cycles", size_t{1} << 53, at);
    each(value, "levels", at, [&](const ordered_json& level, const std::string& here) {
      text(level, "level", here);
      text(level, "per", here);
      numbers(level, {"capacity_lw", "peak_lw", "peak_cycle"}, here);
      if (index(level, "bin_cycles", size_t{1} << 53, here) < 1)
        fail(here + ".bin_cycles", level["bin_cycles"], "a whole number from 1 on");
      each(level, "tensors", here, [&](const ordered_json& tensor, const std::string& inner) {
        text(tensor, "tensor", inner);
        numbers(tensor, {"first_cycle", "last_cycle"}, inner);
        integers(tensor, "lw", inner);
        if (tensor["lw"].size() > kMostBins) fail(inner + ".lw", tensor["lw"].size(), "a shorter list");
      });
    });
  }

  const std::string& source_;
};

/// Nodes of the drawing: stages, and the inputs and outputs of the model. Those that come together in a run
/// are neighbours.
ordered_json draw_network(const ordered_json& run) {
  constexpr double kNodeWidth = 176;
  constexpr double kNodeHeight = 46;
  struct Node {
    const char* kind;
    size_t number;
  };
  const size_t stages = run["stages"].size();
  std::unordered_map<std::string, size_t> inputs;
  for (size_t k = 0; k < run["model_inputs"].size(); ++k) inputs.emplace(run["model_inputs"][k]["name"], k);
  std::unordered_map<std::string, size_t> outputs;
  for (size_t k = 0; k < run["model_outputs"].size(); ++k)
    outputs.emplace(run["model_outputs"][k]["name"], k);
  // Behind which stage an input or output stands.
  std::vector<std::vector<Node>> before(stages + 1);
  std::vector<bool> known_input(inputs.size(), false);
  std::vector<bool> known_output(outputs.size(), false);
  struct Edge {
    size_t move;
    std::pair<const char*, size_t> from, to;
  };
  std::vector<Edge> edges;
  const ordered_json& moves = run["moves"];
  for (size_t k = 0; k < moves.size(); ++k) {
    const ordered_json& move = moves[k];
    const bool from_host = move["from"].is_null();
    const bool to_host = move["to"].is_null();
    if (move["constant"].get<bool>()) continue;
    Edge edge{k, {"stage", 0}, {"stage", 0}};
    if (from_host) {
      const auto input = inputs.find(move["tensor"].get<std::string>());
      if (input == inputs.end()) continue;
      edge.from = {"input", input->second};
      if (!known_input[input->second]) {
        before[to_host ? stages : move["to"].get<size_t>()].push_back({"input", input->second});
        known_input[input->second] = true;
      }
    } else {
      edge.from.second = move["from"].get<size_t>();
    }
    if (to_host) {
      const auto output = outputs.find(move["tensor"].get<std::string>());
      if (output == outputs.end()) continue;
      edge.to = {"output", output->second};
      if (!known_output[output->second]) {
        before[from_host ? stages : move["from"].get<size_t>() + 1].push_back({"output", output->second});
        known_output[output->second] = true;
      }
    } else {
      edge.to.second = move["to"].get<size_t>();
    }
    edges.push_back(edge);
  }
  std::vector<Node> nodes;
  std::map<std::pair<std::string, size_t>, size_t> number;
  for (size_t k = 0; k <= stages; ++k) {
    for (const Node& node : before[k]) nodes.push_back(node);
    if (k < stages) nodes.push_back({"stage", k});
  }
  for (size_t k = 0; k < nodes.size(); ++k) number[{nodes[k].kind, nodes[k].number}] = k;

  GraphToDraw graph{kNodeWidth, kNodeHeight, nodes.size(), {}};
  for (const Edge& edge : edges) graph.edges.push_back({number[edge.from], number[edge.to]});
  const DrawnGraph drawn = draw_graph(graph);
  ordered_json node_list = ordered_json::array();
  for (size_t k = 0; k < nodes.size(); ++k)
    node_list.push_back({{"kind", nodes[k].kind},
                         {"number", nodes[k].number},
                         {"x", std::llround(drawn.nodes[k].x)},
                         {"y", std::llround(drawn.nodes[k].y)}});
  ordered_json edge_list = ordered_json::array();
  for (size_t k = 0; k < edges.size(); ++k) {
    const DrawnGraph::Edge& edge = drawn.edges[k];
    edge_list.push_back({{"move", edges[k].move},
                         {"path", edge.path},
                         {"box",
                          {std::llround(edge.left), std::llround(edge.top), std::llround(edge.right),
                           std::llround(edge.bottom)}}});
  }
  return {{"width", std::llround(std::ceil(drawn.width))},
          {"height", std::llround(std::ceil(drawn.height))},
          {"node_width", kNodeWidth},
          {"node_height", kNodeHeight},
          {"nodes", std::move(node_list)},
          {"edges", std::move(edge_list)}};
}

ordered_json difference_of(const ordered_json& a, const ordered_json& b) {
  ordered_json result = {{"a", a}, {"b", b}, {"difference", nullptr}, {"ratio", nullptr}};
  if (a.is_number_integer() && b.is_number_integer()) {
    result["difference"] = b.get<int64_t>() - a.get<int64_t>();
    if (a.get<int64_t>() > 0) result["ratio"] = b.get<double>() / a.get<double>();
  }
  return result;
}

}  // namespace

ordered_json compare_runs(const ordered_json& a, const ordered_json& b) {
  ordered_json layers = ordered_json::array();
  const ordered_json& of_a = a.at("stages");
  const ordered_json& of_b = b.at("stages");
  // Names may come twice in files that others wrote: the n-th is matched with the n-th.
  std::unordered_map<std::string, std::vector<size_t>> in_b;
  for (size_t k = of_b.size(); k-- > 0;) in_b[of_b[k].at("name")].push_back(k);
  std::vector<bool> matched(of_b.size(), false);
  const auto add = [&](const ordered_json& name, const ordered_json& stage_a, const ordered_json& stage_b) {
    const auto cycles = [](const ordered_json& run, const ordered_json& stage) -> ordered_json {
      if (stage.is_null()) return nullptr;
      return run.at("stages")[stage.get<size_t>()].at("stats").at("cycles");
    };
    ordered_json row = {{"name", name}, {"stage_a", stage_a}, {"stage_b", stage_b}};
    row.update(difference_of(cycles(a, stage_a), cycles(b, stage_b)));
    layers.push_back(std::move(row));
  };
  for (size_t k = 0; k < of_a.size(); ++k) {
    const ordered_json& name = of_a[k].at("name");
    std::vector<size_t>& candidates = in_b[name];
    if (candidates.empty()) {
      add(name, k, nullptr);
      continue;
    }
    add(name, k, candidates.back());
    matched[candidates.back()] = true;
    candidates.pop_back();
  }
  for (size_t k = 0; k < of_b.size(); ++k) {
    if (!matched[k]) add(of_b[k].at("name"), nullptr, k);
  }
  const auto total = [&](const char* key) {
    return difference_of(a.at("total").at(key), b.at("total").at(key));
  };
  return {{"total", {{"cycles", total("cycles")}, {"total_cycles", total("total_cycles")}}},
          {"layers", std::move(layers)}};
}

std::string html_report(const std::vector<ReportSource>& sources) {
  ordered_json files = ordered_json::array();
  for (const ReportSource& source : sources) {
    const RunCheck check(source.name);
    ordered_json runs = source.runs.is_array() ? source.runs : ordered_json::array({source.runs});
    if (runs.empty())
      throw isa::UserError(source.name + ": found an empty list, allowed: what `kodama run --json` writes");
    ordered_json graphs = ordered_json::array();
    for (size_t k = 0; k < runs.size(); ++k) {
      check.check(runs[k], source.runs.is_array() ? fmt::format("[{}]", k) : "");
      if (RunCheck::is_open(runs[k])) {
        ordered_json of_programs = ordered_json::array();
        for (const ordered_json& program : runs[k]["programs"])
          of_programs.push_back(draw_network(program["run"]));
        graphs.push_back(std::move(of_programs));
        continue;
      }
      // Runs of one model with other data have one network.
      const bool is_same = k > 0 && !RunCheck::is_open(runs[0]) && runs[k]["moves"] == runs[0]["moves"] &&
                           runs[k]["stages"].size() == runs[0]["stages"].size();
      graphs.push_back(is_same ? ordered_json(0) : draw_network(runs[k]));
    }
    files.push_back({{"name", source.name}, {"runs", std::move(runs)}, {"graphs", std::move(graphs)}});
  }
  ordered_json all = {{"files", std::move(files)}};
  for (const ReportSource& source : sources) {
    const ordered_json& first = source.runs.is_array() ? source.runs[0] : source.runs;
    if (sources.size() == 2 && RunCheck::is_open(first))
      throw isa::UserError(fmt::format(
          "{}: a model that is compiled while it runs; allowed beside another run are models that aren't",
          source.name));
  }
  if (sources.size() == 2)
    all["comparison"] = compare_runs(all["files"][0]["runs"][0], all["files"][1]["runs"][0]);
  // Inside a script element nothing ends the text but "</script": "<" is written in another way.
  std::string text = all.dump(-1, ' ', true, ordered_json::error_handler_t::replace);
  std::string page(kPageHead);
  page.reserve(page.size() + text.size() + text.size() / 16 + kPageTail.size());
  for (const char c : text) {
    if (c == '<') {
      page += "\\u003c";
    } else {
      page += c;
    }
  }
  page += kPageTail;
  return page;
}

}  // namespace kodama::compiler
