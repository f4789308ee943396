#include "compiler/recompute/step_memory.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/graph/adjacency_list.hpp>
#include <boost/graph/strong_components.hpp>
#include <cmath>
#include <map>
#include <set>

#include "compiler/graph/onnx_model.h"
#include "compiler/graph/walk.h"
#include "compiler/plan/problem_bound.h"
#include "compiler/reference/executor.h"
#include "isa/error.h"
#include "isa/output.h"

namespace kodama::compiler {
namespace {

constexpr int64_t kWordBytes = 4;

/// Cycles of a layer, from operands in DRAM to a result there.
int64_t estimated_cycles(const Layer& layer, const LayerGraph& graph, const isa::Chip& chip,
                         MatrixPrecision precision) {
  const auto size = [&](TensorId id) {
    return element_count(graph.tensors[static_cast<size_t>(graph.storage(id))].shape);
  };
  ProblemWork work = problem_work(layer, graph, chip, precision);
  const auto accesses = layer_accesses(layer);
  const auto boxes = layer_access_boxes(layer);
  std::map<TensorId, int64_t> read;  // elements
  for (size_t k = 0; k < accesses.size(); ++k) {
    int64_t points = 1;
    for (size_t axis = 0; axis < boxes[k].begin.size(); ++axis)
      points *= std::max<int64_t>(boxes[k].end[axis] - boxes[k].begin[axis], 0);
    int64_t& most = read[graph.storage(accesses[k]->tensor)];
    most = std::max(most, std::min(points, size(accesses[k]->tensor)));
  }
  int64_t elements = 0;
  for (const auto& [id, count] : read) elements += count;
  for (const TensorId id : layer.outputs) elements += id < 0 ? 0 : size(id);
  work.dram_bytes = static_cast<double>(elements * kWordBytes);
  return static_cast<int64_t>(std::ceil(problem_bound(work, chip, precision).cycles()));
}

/// Layers that must be one operation: those that come from one node, and those each of which, directly or
/// not, reads what the other makes. By layer a number, from 0, in the order of first layers.
std::vector<int> grouped_layers(const LayerGraph& graph, const std::map<TensorId, int>& makers) {
  const size_t count = graph.layers.size();
  boost::adjacency_list<boost::setS, boost::vecS, boost::directedS> needs(count);
  std::map<std::string, size_t> owner;
  for (size_t k = 0; k < count; ++k) {
    for (const std::string& node : graph.layers[k].onnx_nodes) {
      const size_t other = owner.try_emplace(node, k).first->second;
      if (other == k) continue;
      boost::add_edge(k, other, needs);
      boost::add_edge(other, k, needs);
    }
    for (const TensorId id : layer_inputs(graph.layers[k])) {
      const auto maker = id < 0 ? makers.end() : makers.find(graph.storage(id));
      if (maker != makers.end()) boost::add_edge(k, static_cast<size_t>(maker->second), needs);
    }
  }
  std::vector<int> component(count);
  boost::strong_components(
      needs, boost::make_iterator_property_map(component.begin(), boost::get(boost::vertex_index, needs)));
  std::map<int, int> numbers;
  for (int& own : component) own = numbers.try_emplace(own, static_cast<int>(numbers.size())).first->second;
  return component;
}

}  // namespace

/// Makes the problem of the layers.
class StepMemory::Reader {
 public:
  Reader(const LayerGraph& graph, const onnx::ModelProto& model, const isa::Chip& chip,
         MatrixPrecision precision)
      : graph_(graph), chip_(chip), precision_(precision) {
    for (size_t k = 0; k < graph.layers.size(); ++k) {
      for (const TensorId id : graph.layers[k].outputs) {
        if (id >= 0) makers_[graph.storage(id)] = static_cast<int>(k);
      }
    }
    group_ = grouped_layers(graph, makers_);
    layers_.resize(group_.empty() ? 0 : static_cast<size_t>(*std::ranges::max_element(group_)) + 1);
    for (size_t k = 0; k < group_.size(); ++k)
      layers_[static_cast<size_t>(group_[k])].push_back(static_cast<int>(k));
    for (const TensorId id : graph.outputs) kept_.insert(graph.storage(id));
    for (const Layer& layer : graph.layers) {
      for (const TensorId id : layer_inputs(layer)) {
        if (id >= 0)
          readers_[graph.storage(id)].insert(group_[static_cast<size_t>(&layer - graph.layers.data())]);
      }
    }
    number_nodes(model);
  }

  /// The values of the model's outputs, by their names; behind problem().
  std::map<std::string, int> outputs() const {
    std::map<std::string, int> values;
    for (const TensorId id : graph_.outputs) {
      const auto value = numbers_.find(graph_.storage(id));
      if (value != numbers_.end()) values[graph_.tensors[static_cast<size_t>(id)].name] = value->second;
    }
    return values;
  }
  /// Also the nodes of each operation.
  scheduler::RecomputeProblem problem(std::vector<std::vector<int>>& nodes) {
    scheduler::RecomputeProblem made;
    made.name = graph_.name;
    for (const int group : order()) {
      made.operations.push_back(operation(group, made.values));
      nodes.emplace_back();
      for (const int layer : layers_[static_cast<size_t>(group)]) {
        for (const std::string& name : graph_.layers[static_cast<size_t>(layer)].onnx_nodes)
          nodes.back().push_back(node_numbers_.at(name));
      }
      std::ranges::sort(nodes.back());
      nodes.back().erase(std::unique(nodes.back().begin(), nodes.back().end()), nodes.back().end());
      made.operations.back().once =
          made.operations.back().once ||
          std::ranges::any_of(nodes.back(), [&](int node) { return random_nodes_.contains(node); });
    }
    return made;
  }

 private:
  void number_nodes(const onnx::ModelProto& model) {
    for (int k = 0; k < model.graph().node_size(); ++k) {
      const onnx::NodeProto& node = model.graph().node(k);
      // GraphView gives unnamed nodes their first output's name; passes leave none.
      node_numbers_[node.name()] = k;
      if (is_random(node)) random_nodes_.insert(k);
    }
  }

  /// Groups in an order in which they can be done, as near to that of the layers as it gets.
  std::vector<int> order() const {
    std::vector<std::set<int>> waits(layers_.size());
    std::vector<std::set<int>> next(layers_.size());
    for (const auto& [tensor, readers] : readers_) {
      const auto maker = makers_.find(tensor);
      if (maker == makers_.end()) continue;
      const int from = group_[static_cast<size_t>(maker->second)];
      for (const int reader : readers) {
        if (reader == from) continue;
        waits[static_cast<size_t>(reader)].insert(from);
        next[static_cast<size_t>(from)].insert(reader);
      }
    }
    std::set<std::pair<int, int>> ready;  // last layer and group
    const auto add = [&](int group) { ready.emplace(layers_[static_cast<size_t>(group)].back(), group); };
    for (size_t k = 0; k < layers_.size(); ++k) {
      if (waits[k].empty()) add(static_cast<int>(k));
    }
    std::vector<int> result;
    while (!ready.empty()) {
      const int group = ready.begin()->second;
      ready.erase(ready.begin());
      result.push_back(group);
      for (const int reader : next[static_cast<size_t>(group)]) {
        waits[static_cast<size_t>(reader)].erase(group);
        if (waits[static_cast<size_t>(reader)].empty()) add(reader);
      }
    }
    isa::check_internal(result.size() == layers_.size(), "recompute", "{} of {} operations have an order",
                        result.size(), layers_.size());
    return result;
  }

  int64_t bytes(TensorId storage) const {
    return element_count(graph_.tensors[static_cast<size_t>(storage)].shape) * kWordBytes;
  }
  bool is_inner(TensorId storage, int group) const {
    const auto readers = readers_.find(storage);
    const bool is_read_outside =
        readers != readers_.end() &&
        (readers->second.size() > 1 || (readers->second.size() == 1 && !readers->second.contains(group)));
    return !is_read_outside && !kept_.contains(storage);
  }

  scheduler::RecomputeProblem::Operation operation(int group,
                                                   std::vector<scheduler::RecomputeProblem::Value>& values) {
    scheduler::RecomputeProblem::Operation made;
    std::set<int> reads;
    std::map<TensorId, size_t> last;  // of inner tensors: the last layer that reads them
    std::vector<TensorId> outer;
    const auto& layers = layers_[static_cast<size_t>(group)];
    for (size_t k = 0; k < layers.size(); ++k) {
      const Layer& layer = graph_.layers[static_cast<size_t>(layers[k])];
      made.name += (made.name.empty() ? "" : "+") + layer.name;
      made.cycles += estimated_cycles(layer, graph_, chip_, precision_);
      made.once = made.once || layer.kind() == LayerKind::kHost;
      for (const TensorId id : layer_inputs(layer)) {
        if (id < 0) continue;
        const TensorId storage = graph_.storage(id);
        if (last.contains(storage)) last[storage] = k;
        const auto value = numbers_.find(storage);
        if (value != numbers_.end()) reads.insert(value->second);
      }
      for (const TensorId id : layer.outputs) {
        if (id < 0) continue;
        const TensorId storage = graph_.storage(id);
        if (is_inner(storage, group) && layers.size() > 1) {
          last.try_emplace(storage, k);
        } else {
          outer.push_back(storage);
        }
      }
    }
    if (outer.empty()) {
      // Nobody reads anything of it.
      outer.push_back(graph_.storage(graph_.layers[static_cast<size_t>(layers.back())].outputs.at(0)));
      last.erase(outer.back());
    }
    made.workspace = workspace(layers, last);
    made.reads.assign(reads.begin(), reads.end());
    for (const TensorId storage : outer) {
      numbers_[storage] = static_cast<int>(values.size());
      made.makes.push_back(static_cast<int>(values.size()));
      values.push_back(
          {graph_.tensors[static_cast<size_t>(storage)].name, bytes(storage), kept_.contains(storage)});
    }
    return made;
  }

  /// Most bytes of inner tensors at a time.
  int64_t workspace(const std::vector<int>& layers, const std::map<TensorId, size_t>& last) const {
    int64_t most = 0;
    int64_t now = 0;
    for (size_t k = 0; k < layers.size(); ++k) {
      for (const TensorId id : graph_.layers[static_cast<size_t>(layers[k])].outputs) {
        if (id >= 0 && last.contains(graph_.storage(id))) now += bytes(graph_.storage(id));
      }
      most = std::max(most, now);
      for (const auto& [storage, until] : last) now -= until == k ? bytes(storage) : 0;
    }
    return most;
  }

  const LayerGraph& graph_;
  const isa::Chip& chip_;
  MatrixPrecision precision_;
  std::map<TensorId, int> makers_;             ///< by storage: the layer
  std::map<TensorId, std::set<int>> readers_;  ///< by storage: groups
  std::set<TensorId> kept_;
  std::vector<int> group_;                ///< by layer
  std::vector<std::vector<int>> layers_;  ///< by group
  std::map<TensorId, int> numbers_;       ///< by storage: the value
  std::map<std::string, int> node_numbers_;
  std::set<int> random_nodes_;
};

StepMemory::StepMemory(onnx::ModelProto model, const isa::Chip& chip, const CompileOptions& options) {
  LayerGraph layers = lowered_layers(std::move(model), options, &model_);
  finish_layers(layers, chip, options);
  Reader reader(layers, model_, chip, options.precision);
  problem_ = reader.problem(nodes_);
  outputs_ = reader.outputs();
  scheduler::check_recompute_problem(problem_);
}

scheduler::RecomputeProblem StepMemory::activations(const std::string& loss) const {
  scheduler::RecomputeProblem problem = problem_;
  const auto output = outputs_.find(loss);
  isa::check_internal(output != outputs_.end(), "recompute", "no layer makes the output '{}'", loss);
  std::vector<bool> is_wanted(problem.values.size(), false);
  is_wanted[static_cast<size_t>(output->second)] = true;
  for (size_t k = problem.operations.size(); k-- > 0;) {
    auto& operation = problem.operations[k];
    if (std::ranges::any_of(operation.makes,
                            [&](int value) { return bool{is_wanted[static_cast<size_t>(value)]}; })) {
      for (const int value : operation.reads) is_wanted[static_cast<size_t>(value)] = true;
      continue;
    }
    operation.workspace = 0;
    for (const int value : operation.makes) problem.values[static_cast<size_t>(value)].bytes = 0;
  }
  return problem;
}

namespace {

/// Puts the nodes of a graph in the order of steps, with new names where a node comes again.
class StepWriter {
 public:
  StepWriter(const onnx::ModelProto& model, const std::vector<std::vector<int>>& operations)
      : model_(model), graph_(model.graph()), operations_(operations), names_(names_of(model.graph())) {
    for (const auto& output : graph_.output()) outputs_.insert(output.name());
    is_loose_.assign(static_cast<size_t>(graph_.node_size()), true);
    for (const auto& nodes : operations) {
      for (const int node : nodes) is_loose_[static_cast<size_t>(node)] = false;
    }
    for (int k = 0; k < graph_.node_size(); ++k) {
      for (const std::string& output : graph_.node(k).output()) {
        if (!output.empty()) maker_[output] = k;
      }
    }
    for (const auto& info : graph_.value_info()) types_[info.name()] = &info.type();
    for (const auto& output : graph_.output()) types_[output.name()] = &output.type();
  }

  onnx::ModelProto run(const std::vector<int>& steps) {
    std::vector<bool> is_repeated(operations_.size(), false);
    for (const int step : steps) {
      std::map<std::string, std::string> own;
      const bool again = is_repeated[static_cast<size_t>(step)];
      for (const int node : operations_[static_cast<size_t>(step)]) write(node, again, own);
      is_repeated[static_cast<size_t>(step)] = true;
      // What is an output stays what it was; of it others read, too.
      for (const auto& [name, now] : own) {
        if (!again || !is_kept(name)) now_[name] = now;
      }
    }
    for (const auto& output : graph_.output()) now_of(output.name(), {});
    onnx::ModelProto result = model_;
    result.mutable_graph()->mutable_node()->Swap(&nodes_);
    for (const auto& [name, type] : new_types_) {
      auto& info = *result.mutable_graph()->add_value_info();
      info.set_name(name);
      *info.mutable_type() = *type;
    }
    reestablish(result, "recompute");
    return result;
  }

 private:
  /// Whether a value, or what is another name of it, is an output.
  bool is_kept(const std::string& name) {
    if (kept_.empty()) {
      std::vector<std::string> work(outputs_.begin(), outputs_.end());
      while (!work.empty()) {
        const std::string each = work.back();
        work.pop_back();
        if (!kept_.insert(each).second) continue;
        const auto maker = maker_.find(each);
        if (maker == maker_.end() || !is_loose_[static_cast<size_t>(maker->second)]) continue;
        const auto& inputs = graph_.node(maker->second).input();
        work.insert(work.end(), inputs.begin(), inputs.end());
      }
    }
    return kept_.contains(name);
  }

  /// The present name of a value, whose maker, if it is no operation's, is written if need be.
  std::string now_of(const std::string& name, const std::map<std::string, std::string>& own) {
    if (name.empty()) return name;
    if (const auto found = own.find(name); found != own.end()) return found->second;
    const auto maker = maker_.find(name);
    if (maker == maker_.end()) return name;
    if (!is_loose_[static_cast<size_t>(maker->second)]) {
      const auto found = now_.find(name);
      isa::check_internal(found != now_.end(), "recompute", "value '{}' is read before it is made", name);
      return found->second;
    }
    const onnx::NodeProto& node = graph_.node(maker->second);
    std::vector<std::string> inputs;
    for (const std::string& input : node.input()) inputs.push_back(now_of(input, own));
    auto& written = loose_[{maker->second, inputs}];
    if (written.empty()) {
      const bool is_same = std::equal(inputs.begin(), inputs.end(), node.input().begin());
      onnx::NodeProto copy = node;
      for (size_t k = 0; k < inputs.size(); ++k) copy.set_input(static_cast<int>(k), inputs[k]);
      write_captured(node);
      if (!is_same) rename(copy);
      written.assign(copy.output().begin(), copy.output().end());
      *nodes_.Add() = std::move(copy);
    }
    const auto output = std::ranges::find(node.output(), name);
    return written[static_cast<size_t>(output - node.output().begin())];
  }

  void write(int number, bool again, std::map<std::string, std::string>& own) {
    onnx::NodeProto node = graph_.node(number);
    for (std::string& input : *node.mutable_input()) input = now_of(input, own);
    write_captured(node);
    if (again) rename(node);
    for (int k = 0; k < node.output_size(); ++k) {
      if (!node.output(k).empty()) own[graph_.node(number).output(k)] = node.output(k);
    }
    *nodes_.Add() = std::move(node);
  }

  /// Values that graphs within a node read are read as they were made first.
  void write_captured(const onnx::NodeProto& node) {
    if (!has_subgraph(node)) return;
    const std::vector<onnx::NodeProto> nodes = {node};
    for_each_node_in(nodes, [&](const onnx::NodeProto& each) {
      for (const std::string& input : each.input()) {
        const auto maker = maker_.find(input);
        if (maker != maker_.end() && is_loose_[static_cast<size_t>(maker->second)]) now_of(input, {});
      }
    });
  }

  void rename(onnx::NodeProto& node) {
    node.set_name(names_.make_unique(node.name() + "/again"));
    for (std::string& output : *node.mutable_output()) {
      if (output.empty()) continue;
      const std::string name = names_.make_unique(output + "/again");
      const auto type = types_.find(output);
      if (type != types_.end()) new_types_.emplace_back(name, type->second);
      output = name;
    }
  }

  const onnx::ModelProto& model_;
  const onnx::GraphProto& graph_;
  const std::vector<std::vector<int>>& operations_;
  FreshNames names_;
  std::set<std::string> outputs_, kept_;
  std::vector<bool> is_loose_;        ///< by node: no operation has it
  std::map<std::string, int> maker_;  ///< by value: the node
  std::map<std::string, std::string> now_;
  std::map<std::pair<int, std::vector<std::string>>, std::vector<std::string>> loose_;  ///< what was written
  std::map<std::string, const onnx::TypeProto*> types_;
  std::vector<std::pair<std::string, const onnx::TypeProto*>> new_types_;
  google::protobuf::RepeatedPtrField<onnx::NodeProto> nodes_;
};

std::string bytes_to_string(int64_t bytes) {
  constexpr int64_t kKibi = 1 << 10;
  constexpr int64_t kMost = 10 * kKibi;  // of a unit
  if (bytes < kMost) return fmt::format("{} B", bytes);
  const auto number = static_cast<double>(bytes);
  if (bytes < kMost * kKibi) return fmt::format("{:.2f} KiB", number / kKibi);
  return fmt::format("{:.2f} MiB", number / (kKibi * kKibi));
}

}  // namespace

onnx::ModelProto StepMemory::rewritten(const std::vector<int>& steps) const {
  return StepWriter(model_, nodes_).run(steps);
}

MemoryLimit parse_memory_limit(const std::string& text) {
  const auto wrong = [&] {
    return isa::UserError(fmt::format(
        "--memory: found '{}', allowed: bytes, with K, M or G behind, or a part as 1% to 100%", text));
  };
  size_t end = 0;
  double number = 0;
  try {
    number = std::stod(text, &end);
  } catch (const std::exception&) {
    throw wrong();
  }
  const std::string unit = text.substr(end);
  constexpr double kMost = 1e15;
  if (!(number > 0) || number > kMost) throw wrong();
  if (unit == "%") {
    if (number > 100) throw wrong();
    return {0, number / 100};
  }
  static const std::map<std::string, int64_t> kUnits = {
      {"", 1}, {"K", 1 << 10}, {"M", 1 << 20}, {"G", 1 << 30}};
  const auto found = kUnits.find(unit);
  if (found == kUnits.end() || number * static_cast<double>(found->second) > kMost) throw wrong();
  return {static_cast<int64_t>(number * static_cast<double>(found->second)), 0};
}

std::string StepMemoryReport::to_string() const {
  const auto ratio = [](int64_t now, int64_t then) {
    return then > 0 ? static_cast<double>(now) / static_cast<double>(then) : 1;
  };
  return fmt::format(
      "memory limit {} ({})\n"
      "activations alive at a time: {}, before {}; all results: {}, before {}\n"
      "layers: {}, before {}; estimated cycles: {}, before {}: {:.3f} times\n",
      bytes_to_string(limit), how, bytes_to_string(after.activations), bytes_to_string(before.activations),
      bytes_to_string(after.results), bytes_to_string(before.results), after.layers, before.layers,
      after.cycles, before.cycles, ratio(after.cycles, before.cycles));
}

namespace {

StepMemoryReport::Measure measure(const StepMemory& memory, const std::string& loss) {
  const auto peak = [](const scheduler::RecomputeProblem& problem) {
    return scheduler::recompute(problem, "none").peak;
  };
  StepMemoryReport::Measure measure;
  measure.activations = peak(memory.activations(loss));
  measure.results = peak(memory.problem());
  for (const auto& operation : memory.problem().operations) measure.cycles += operation.cycles;
  measure.layers = std::ssize(memory.problem().operations);
  return measure;
}

}  // namespace

StepMemoryReport limit_step_memory(StepModel& step, const isa::Chip& chip, const CompileOptions& options,
                                   const StepMemoryRequest& request) {
  const StepMemory memory(step.model, chip, options);
  StepMemoryReport report;
  const auto counted = [&](const StepMemoryReport::Measure& of) {
    return request.counts_all ? of.results : of.activations;
  };
  const char* what = request.counts_all ? "results" : "activations";
  report.before = measure(memory, step.loss);
  report.limit = request.limit.share > 0
                     ? static_cast<int64_t>(request.limit.share * static_cast<double>(counted(report.before)))
                     : request.limit.bytes;
  scheduler::RecomputeProblem problem = request.counts_all ? memory.problem() : memory.activations(step.loss);
  problem.limit = report.limit;
  // Layers are made anew of the changed nodes, and may be others: who reads a value alone can take in what
  // makes it. Then there is another try, with as much less as was missing.
  constexpr int kTries = 4;
  for (int k = 0; k < kTries && problem.limit > 0; ++k) {
    const scheduler::RecomputeSchedule found =
        scheduler::recompute(problem, request.recomputer, request.options);
    if (!request.problem_file.empty())
      isa::write_output(request.problem_file, scheduler::to_json(problem, &found));
    if (found.status != scheduler::RecomputeStatus::kSolved)
      throw isa::UnsupportedError(fmt::format(
          "--memory: {} of the step take {} at a time; {} are allowed, and the least that was found by "
          "--recompute {} is {} ({}); use a smaller batch, or another --recompute",
          what, bytes_to_string(counted(report.before)), bytes_to_string(problem.limit),
          scheduler::find_recomputer(request.recomputer).name, bytes_to_string(found.peak), found.message));
    onnx::ModelProto changed = memory.rewritten(found.steps);
    report.after = measure(StepMemory(changed, chip, options), step.loss);
    report.how = found.message;
    if (counted(report.after) <= report.limit) {
      step.model = std::move(changed);
      return report;
    }
    problem.limit -= counted(report.after) - report.limit;
  }
  throw isa::UnsupportedError(
      fmt::format("--memory: {} of {} are allowed; the layers made of what was found take {}",
                  bytes_to_string(report.limit), what, bytes_to_string(counted(report.after))));
}

}  // namespace kodama::compiler
