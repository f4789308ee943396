#include "compiler/driver/inspect.h"

#include <fmt/format.h>
#include <fmt/ostream.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "compiler/compile/compile_model.h"
#include "compiler/driver/session_parts.h"
#include "compiler/dynamic/graph_info.h"
#include "compiler/graph/gradient/gradient_nodes.h"
#include "compiler/graph/import.h"
#include "compiler/graph/onnx_model.h"
#include "compiler/graph/operator_rules.h"
#include "compiler/graph/walk.h"
#include "compiler/layers/layer_graph.h"
#include "compiler/lowering/lowering.h"
#include "compiler/reference/executor.h"
#include "isa/output.h"

namespace kodama::compiler {
namespace {

enum class Place : uint8_t { kChip, kHost, kNone, kRefused };
constexpr std::array<const char*, 4> kPlaceNames = {"chip", "host", "none", "refused"};

struct OperatorUse {
  int64_t nodes = 0;
  std::array<int64_t, kPlaceNames.size()> at = {};  ///< nodes, by place; one may be at two
  double multiply_adds = 0;
  std::set<std::string> layers;  ///< kinds of layers on the chip
};

/// Why nodes of an operator aren't on the chip.
struct Reason {
  Place place = Place::kHost;
  std::string op;
  std::string why;
  std::vector<std::string> nodes = {};
};

struct Inspection {
  std::string file, producer;
  int64_t opset = 0, ir_version = 0;
  std::vector<std::pair<std::string, std::string>> inputs, outputs;  ///< name and type
  int64_t parameters = 0, parameter_bytes = 0;
  std::vector<std::string> open;  ///< dimensions that nobody set; they count as 1
  std::string hot_host;           ///< a line, if much of the work is the host's
  std::string problem;            ///< why shapes aren't known; empty: they are
  double multiply_adds = 0;
  std::map<std::string, OperatorUse> operators;
  std::vector<Reason> reasons;

  void add(Place place, const std::string& op, const std::string& why, const std::string& node) {
    const auto same = std::ranges::find_if(reasons, [&](const Reason& reason) {
      return reason.place == place && reason.op == op && reason.why == why;
    });
    if (same != reasons.end()) return same->nodes.push_back(node);
    reasons.push_back({place, op, why, {node}});
  }
};

std::string operator_name(const onnx::NodeProto& node) {
  return node.domain().empty() ? node.op_type() : node.domain() + "." + node.op_type();
}

/// What the file itself says.
void read_facts(onnx::ModelProto& model, Inspection& result) {
  result.opset = opset_version(model);
  result.ir_version = model.ir_version();
  result.producer = model.producer_name();
  if (!model.producer_version().empty()) result.producer += " " + model.producer_version();
  std::set<std::string> initializers;
  for (const auto& tensor : model.graph().initializer()) initializers.insert(tensor.name());
  for (const auto& input : model.graph().input()) {
    if (!initializers.contains(input.name()))
      result.inputs.emplace_back(input.name(), type_to_string(input.type()));
  }
  for (const auto& output : model.graph().output())
    result.outputs.emplace_back(output.name(), type_to_string(output.type()));
  for_each_tensor(model, [&](const onnx::TensorProto& tensor, const std::string&) {
    int64_t count = 1;
    for (int64_t extent : tensor.dims()) {
      if (extent < 0 || __builtin_mul_overflow(count, extent, &count)) return;  // import says so
    }
    const size_t size =
        is_data_type(tensor.data_type()) ? element_size(static_cast<DataType>(tensor.data_type())) : 0;
    int64_t bytes = 0;
    if (__builtin_mul_overflow(count, static_cast<int64_t>(size), &bytes)) return;
    result.parameters += count;
    result.parameter_bytes += bytes;
  });
}

/// The nodes of the imported model, to which what the passes made of them is traced back: they name what they
/// add below the node that it is for ("node/part").
class Origins {
 public:
  explicit Origins(const onnx::GraphProto& graph) {
    for (const auto& node : graph.node()) operators_[node.name()] = operator_name(node);
  }
  const std::map<std::string, std::string>& operators() const { return operators_; }
  /// The name of the imported node; nullptr if none is known.
  const std::string* of(std::string name) const {
    for (;;) {
      const auto found = operators_.find(name);
      if (found != operators_.end()) return &found->first;
      const size_t slash = name.rfind('/');
      if (slash == std::string::npos || slash == 0) return nullptr;
      name.resize(slash);
    }
  }

 private:
  std::map<std::string, std::string> operators_;  ///< of each node
};

double multiply_adds(const Layer& layer) {
  const auto* contract = std::get_if<ContractLayer>(&layer.body);
  if (contract == nullptr) return 0;
  double count = 1;
  for (int64_t extent : contract_extents(*contract)) count *= static_cast<double>(extent);
  return count;
}

/// That the layer reads and writes, constants aside.
double bytes_of(const Layer& layer, const LayerGraph& graph) {
  double bytes = 0;
  const auto add = [&](TensorId id) {
    if (id < 0) return;
    const LayerTensor& tensor = graph.tensors[static_cast<size_t>(id)];
    if (!tensor.constant)
      bytes +=
          static_cast<double>(element_count(tensor.shape)) * static_cast<double>(element_size(tensor.type));
  };
  for (const TensorId id : layer_inputs(layer)) add(id);
  for (const TensorId id : layer.outputs) add(id);
  return bytes;
}

/// One line if the host has a fifth of the work or more, in bytes: what takes how long isn't known before it
/// runs. Empty otherwise.
std::string hot_host(const std::map<std::string, double>& host_bytes, double bytes) {
  constexpr double kMuch = 0.2;
  double sum = 0;
  for (const auto& [node, each] : host_bytes) sum += each;
  if (bytes == 0 || sum < kMuch * bytes) return "";
  const auto most = std::ranges::max_element(host_bytes, {}, [](const auto& each) { return each.second; });
  return fmt::format(
      "Much of it is the host's: {:.0f} % of the bytes that operators read and write, {:.0f} % for {}",
      100 * sum / bytes, 100 * most->second / bytes, most->first);
}

void look_at_layers(onnx::ModelProto imported, const scheduler::PipelineChoice& passes, Inspection& result) {
  const Origins origins(imported.graph());
  std::map<std::string, std::set<Place>> places;  // of imported nodes
  const auto put = [&](Place place, const std::string& node, const std::string& op) {
    const std::string* origin = origins.of(node);
    if (origin != nullptr) places[*origin].insert(place);
    return origin == nullptr ? op : origins.operators().at(*origin);
  };
  CompileOptions options;
  options.passes = passes;
  options.lowering.fuse = false;  // a node's layers stay its own
  std::set<std::string> refused;
  options.lowering.refused = [&](const onnx::NodeProto& node, const std::string& why) {
    refused.insert(node.name());
    result.add(Place::kRefused, put(Place::kRefused, node.name(), operator_name(node)), why, node.name());
  };
  const LayerGraph graph = lowered_layers(std::move(imported), options, nullptr);
  double bytes = 0;
  std::map<std::string, double> host_bytes;
  for (const Layer& layer : graph.layers) {
    const std::string& node = layer.onnx_nodes.at(0);
    if (refused.contains(node)) continue;
    const double moved = bytes_of(layer, graph);
    bytes += moved;
    const auto* host = std::get_if<HostLayer>(&layer.body);
    const std::string op = put(host == nullptr ? Place::kChip : Place::kHost, node, layer.onnx_ops.at(0));
    if (host != nullptr) {
      result.add(Place::kHost, op, host->reason, node);
      host_bytes[fmt::format("{} ({})", op, node)] += moved;
      continue;
    }
    OperatorUse& use = result.operators[op];
    use.layers.insert(layer_kind_name(layer.kind()));
    use.multiply_adds += multiply_adds(layer);
    result.multiply_adds += multiply_adds(layer);
  }
  result.hot_host = hot_host(host_bytes, bytes);
  for (const auto& [node, op] : origins.operators()) {
    OperatorUse& use = result.operators[op];
    ++use.nodes;
    const auto found = places.find(node);
    if (found == places.end()) {
      ++use.at[static_cast<size_t>(Place::kNone)];
      continue;
    }
    for (Place place : found->second) ++use.at[static_cast<size_t>(place)];
  }
}

/// Why the host computes a node of an operator that the chip hasn't.
std::string host_reason(const onnx::ModelProto& model, const onnx::NodeProto& node) {
  const NodeClass node_class = class_of(model, node);
  if (node_class == NodeClass::kSequence) return "sequences and optionals are the host's";
  if (node_class == NodeClass::kControl) return "control flow: the host decides which graph runs next";
  if (shape_depends_on_data(node))
    return fmt::format("the shapes of its results ({}) depend on data", fmt::join(node.output(), ", "));
  return "the operator has no decomposition into layers of the chip";
}

/// Without types and shapes: by the tables alone.
void look_at_operators(const onnx::ModelProto& model, Inspection& result) {
  std::set<std::string> lowered;
  for (const ChipOperator& each : chip_operators()) lowered.insert(each.name);
  const OperatorSets operators(model);
  for_each_node(model, [&](const onnx::NodeProto& node) {
    const std::string op = operator_name(node);
    OperatorUse& use = result.operators[op];
    ++use.nodes;
    Place place = Place::kChip;
    std::string why;
    if (node.op_type() == "Constant" && node.domain().empty()) {
      place = Place::kNone;
    } else if (!node.domain().empty() || !lowered.contains(node.op_type())) {
      place = has_reference(node, operators, &why) ? Place::kHost : Place::kRefused;
      if (place == Place::kHost) why = host_reason(model, node);
      result.add(place, op, why, node.name());
    }
    ++use.at[static_cast<size_t>(place)];
  });
}

/// Open dimensions that the options don't set. They may be set by name, or by input and axis.
std::vector<std::string> dimensions_left_open(const onnx::GraphProto& model, const ImportOptions& options) {
  onnx::GraphProto graph;  // without weights
  *graph.mutable_input() = model.input();
  for (const auto& tensor : model.initializer()) graph.add_initializer()->set_name(tensor.name());
  std::set<std::string> given;
  for (auto& input : *graph.mutable_input()) {
    auto& type = *input.mutable_type()->mutable_tensor_type();
    if (options.bind.contains(input.name())) type.clear_shape();
    for (int axis = 0; axis < type.shape().dim_size(); ++axis) {
      auto& dim = *type.mutable_shape()->mutable_dim(axis);
      if (!options.dims.contains(fmt::format("{}:{}", input.name(), axis))) continue;
      if (!dim.dim_param().empty()) given.insert(dim.dim_param());
      dim.set_dim_value(1);
    }
  }
  std::vector<std::string> open = open_dimensions(graph);
  std::erase_if(open, [&](const auto& key) { return given.contains(key) || options.dims.contains(key); });
  return open;
}

/// The model as `kodama run` takes it where import_model() refuses it; nullopt if that refuses it, too.
std::optional<ImportedModel> import_in_parts(const InspectRequest& request, const TensorMap& bind) {
  try {
    ImportedModel open = import_any_model(request.model_file, {request.common.dims, bind});
    if (!open.open_reason.empty()) return open;
  } catch (const isa::UserError&) {
  } catch (const isa::UnsupportedError&) {
  }
  return std::nullopt;
}

Inspection inspect(const InspectRequest& request) {
  const SessionOptions& options = request.common;
  Inspection result;
  result.file = request.model_file;
  onnx::ModelProto model = read_model_with_data(request.model_file);
  read_facts(model, result);
  ImportOptions import_options{options.dims, read_named_tensors("--bind", options.bind)};
  result.open = dimensions_left_open(model.graph(), import_options);
  for (const std::string& key : result.open) import_options.dims.emplace(key, 1);
  onnx::ModelProto imported;
  try {
    imported = import_model(std::move(model), import_options, request.model_file);
    expand_gradient_nodes(imported, request.model_file);
  } catch (const isa::UnsupportedError& error) {
    result.problem = error.what();
  } catch (const isa::UserError& error) {
    if (result.open.empty()) throw;  // else 1 may be what is wrong
    result.problem = error.what();
  }
  if (result.problem.empty()) {
    result.inputs.clear();
    result.outputs.clear();
    for (const auto& input : imported.graph().input())
      result.inputs.emplace_back(input.name(), type_to_string(input.type()));
    for (const auto& output : imported.graph().output())
      result.outputs.emplace_back(output.name(), type_to_string(output.type()));
    look_at_layers(std::move(imported), options.passes, result);
    return result;
  }
  if (auto open = import_in_parts(request, import_options.bind)) {
    result.problem = "it is compiled in parts while it runs, since " + open->open_reason;
    look_at_operators(open->model, result);
    return result;
  }
  model = read_model(request.model_file);
  try {
    model = simplify_model(std::move(model), request.model_file);
  } catch (const isa::UnsupportedError&) {  // the problem, most likely; the nodes are judged as they are
    model = read_model(request.model_file);
  }
  look_at_operators(model, result);
  return result;
}

// ---- the page

constexpr size_t kColumns = 80;

/// Words in lines of at most 80 columns; the first begins at the cursor, `indent` spaces are before the
/// others.
std::string wrap(const std::string& text, size_t column, size_t indent) {
  std::string result;
  size_t begin = 0;
  while (begin < text.size()) {
    const size_t end = std::min(text.find(' ', begin), text.size());
    const size_t length = end - begin;
    if (column + length > kColumns && column > indent) {
      while (!result.empty() && result.back() == ' ') result.pop_back();
      result += "\n" + std::string(indent, ' ');
      column = indent;
    }
    // A word that is longer than a line, a path, is cut.
    for (size_t k = begin; k < end; ++k) {
      if (column == kColumns) {
        result += "\n" + std::string(indent, ' ');
        column = indent;
      }
      result += text[k];
      ++column;
    }
    if (end < text.size() && column < kColumns) {
      result += ' ';
      ++column;
    }
    begin = end + 1;
  }
  while (!result.empty() && result.back() == ' ') result.pop_back();
  return result;
}

constexpr size_t kBegin = 17;  ///< of what stands beside "  input" and the like

/// "1,234,567"
std::string grouped(int64_t value) {
  std::string digits = std::to_string(value);
  for (auto at = static_cast<ptrdiff_t>(digits.size()) - 3; at > 0; at -= 3)
    digits.insert(static_cast<size_t>(at), ",");
  return digits;
}

/// "12.3 M"
std::string rounded(double value) {
  constexpr std::array<const char*, 6> kUnits = {"", " k", " M", " G", " T", " P"};
  size_t unit = 0;
  for (; value >= 999.95 && unit + 1 < kUnits.size(); ++unit) value /= 1000;
  return unit == 0 ? fmt::format("{:.0f}", value) : fmt::format("{:.1f}{}", value, kUnits.at(unit));
}

std::string fitted(const std::string& text, size_t width) {
  return text.size() <= width ? text : text.substr(0, width - 2) + "..";
}

void print_values(const char* what, const std::vector<std::pair<std::string, std::string>>& values,
                  std::ostream& out) {
  for (const auto& [name, type] : values) {
    const std::string text = fmt::format("{}  {}", name, type);
    fmt::print(out, "  {:<{}}{}\n", what, kBegin - 2, wrap(text, kBegin, kBegin + 2));
  }
}

void print_reasons(const Inspection& result, Place place, const std::string& title, std::ostream& out) {
  bool is_first = true;
  for (const Reason& reason : result.reasons) {
    if (reason.place != place) continue;
    if (is_first) fmt::print(out, "\n{}:\n", title);
    is_first = false;
    constexpr size_t kNamed = 3;
    std::vector<std::string> nodes(
        reason.nodes.begin(),
        reason.nodes.begin() + static_cast<ptrdiff_t>(std::min(kNamed, reason.nodes.size())));
    if (reason.nodes.size() > kNamed) nodes.push_back(fmt::format("{} more", reason.nodes.size() - kNamed));
    fmt::print(out, "  {}\n",
               wrap(fmt::format("{} ({}): {}", reason.op, fmt::join(nodes, ", "), reason.why), 2, 4));
  }
}

void print(const Inspection& result, std::ostream& out) {
  const std::string by = result.producer.empty() ? "" : ", written by " + result.producer;
  fmt::print(
      out, "{}\n",
      wrap(fmt::format("{}: opset {}, IR version {}{}", result.file, result.opset, result.ir_version, by), 0,
           2));
  print_values("input", result.inputs, out);
  print_values("output", result.outputs, out);
  const auto fact = [&](const char* what, const std::string& text) {
    fmt::print(out, "  {:<{}}{}\n", what, kBegin - 2, text);
  };
  fact("parameters",
       fmt::format("{}, {} bytes", grouped(result.parameters), grouped(result.parameter_bytes)));
  if (result.problem.empty()) fact("multiply-adds", rounded(result.multiply_adds) + " in a run, on the chip");
  if (!result.open.empty()) {
    const char* count = result.problem.empty() ? " count as 1 here" : "";
    fmt::print(out, "{}\n",
               wrap(fmt::format("Open dimensions{}; --dim NAME=N sets them: {}", count,
                                fmt::join(result.open, ", ")),
                    0, 2));
  }
  if (!result.problem.empty()) {
    fmt::print(out, "{}\n", wrap("Types and shapes aren't known: " + result.problem, 0, 2));
    fmt::print(out, "Operators are judged by their names; types and shapes may send more to the host.\n");
  }
  fmt::print(out, "\n{:<24}{:>6}{:>6}{:>6}{:>6}{:>8}{:>10}  {}\n", "operator", "nodes", "chip", "host",
             "none", "refused", "mul-adds", "as");
  OperatorUse all;
  const auto count = [](int64_t value) { return value == 0 ? std::string("-") : std::to_string(value); };
  const auto row = [&](const std::string& name, const OperatorUse& use, const std::string& as) {
    std::string line = fmt::format("{:<24}{:>6}", fitted(name, 23), use.nodes);
    for (size_t k = 0; k < use.at.size(); ++k)
      line += fmt::format("{:>{}}", count(use.at[k]), k == 3 ? 8 : 6);
    line += fmt::format("{:>10}  ", use.multiply_adds == 0 ? "-" : rounded(use.multiply_adds));
    line += fitted(as, kColumns - line.size());
    line.erase(line.find_last_not_of(' ') + 1);
    fmt::print(out, "{}\n", line);
  };
  for (const auto& [name, use] : result.operators) {
    row(name, use, fmt::format("{}", fmt::join(use.layers, "+")));
    all.nodes += use.nodes;
    for (size_t k = 0; k < all.at.size(); ++k) all.at[k] += use.at[k];
    all.multiply_adds += use.multiply_adds;
  }
  row("in all", all, "");
  if (all.at[static_cast<size_t>(Place::kNone)] > 0 && result.problem.empty())
    fmt::print(out, "none: nothing to compute in a run (constant, joined with another, a new shape)\n");
  if (!result.hot_host.empty()) fmt::print(out, "{}\n", wrap(result.hot_host, 0, 2));
  print_reasons(result, Place::kHost, "On the host", out);
  print_reasons(result, Place::kRefused, "Refused", out);
}

nlohmann::ordered_json to_json(const Inspection& result) {
  nlohmann::ordered_json json;
  json["file"] = result.file;
  json["producer"] = result.producer;
  json["opset"] = result.opset;
  json["ir_version"] = result.ir_version;
  const auto values = [](const auto& list) {
    auto array = nlohmann::ordered_json::array();
    for (const auto& [name, type] : list) array.push_back({{"name", name}, {"type", type}});
    return array;
  };
  json["inputs"] = values(result.inputs);
  json["outputs"] = values(result.outputs);
  json["parameters"] = {{"count", result.parameters}, {"bytes", result.parameter_bytes}};
  json["open_dimensions"] = result.open;
  json["shapes_known"] = result.problem.empty();
  if (!result.problem.empty()) json["problem"] = result.problem;
  if (result.problem.empty()) json["multiply_adds"] = result.multiply_adds;
  auto& operators = json["operators"] = nlohmann::ordered_json::array();
  for (const auto& [name, use] : result.operators) {
    nlohmann::ordered_json entry = {{"operator", name}, {"nodes", use.nodes}};
    for (size_t k = 0; k < use.at.size(); ++k) entry[kPlaceNames.at(k)] = use.at[k];
    entry["multiply_adds"] = use.multiply_adds;
    entry["layers"] = use.layers;
    operators.push_back(std::move(entry));
  }
  json["much_on_the_host"] = result.hot_host;
  auto& reasons = json["not_on_the_chip"] = nlohmann::ordered_json::array();
  for (const Reason& reason : result.reasons) {
    reasons.push_back({{"operator", reason.op},
                       {"place", kPlaceNames.at(static_cast<size_t>(reason.place))},
                       {"why", reason.why},
                       {"nodes", reason.nodes}});
  }
  return json;
}

}  // namespace

int inspect_command(const InspectRequest& request, std::ostream& out) {
  const Inspection result = inspect(request);
  print(result, out);
  if (!request.common.json_file.empty())
    isa::write_output(request.common.json_file, to_json(result).dump(1) + "\n");
  return isa::kExitOk;
}

}  // namespace kodama::compiler
