#include "compiler/dynamic/dynamic_executor.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <set>

#include "compiler/dynamic/decide_branches.h"
#include "compiler/graph/fold_constants.h"
#include "compiler/graph/import.h"
#include "compiler/graph/onnx_model.h"
#include "compiler/graph/operator_rules.h"
#include "compiler/runtime/host_cost.h"
#include "isa/host_work.h"

namespace kodama::compiler {

namespace {

/// So many programs are made for different values, from data, of the lists that decide a node's shape; then
/// the node is the host's: a Slice at a loop's counter isn't compiled for every iteration.
constexpr int64_t kMostVariants = 8;

/// Constants of a graph and of those in its nodes become initializers: no region is cut, or larger, for them.
/// Nodes get names.
void prepare_graph(onnx::GraphProto& graph, const OperatorSets& operators) {
  name_nodes(graph);
  for (auto& node : *graph.mutable_node()) {
    for (auto& attribute : *node.mutable_attribute()) {
      if (attribute.has_g()) prepare_graph(*attribute.mutable_g(), operators);
    }
  }
  remove_nodes(graph, [&](int k) {
    const onnx::NodeProto& node = graph.node(k);
    if (node.op_type() != "Constant" || !node.domain().empty()) return false;
    *graph.add_initializer() = tensor_to_proto(run_node(node, {}, operators).at(0), node.output(0));
    return true;
  });
}

onnx::ModelProto prepared(onnx::ModelProto model) {
  const OperatorSets operators(model);
  prepare_graph(*model.mutable_graph(), operators);
  return model;
}

/// Values of the outputs of a graph in which everything is folded; empty if something is left to do.
std::vector<Value> folded_results(const onnx::GraphProto& graph) {
  std::map<std::string, const onnx::TensorProto*> constants;
  for (const auto& tensor : graph.initializer()) constants[tensor.name()] = &tensor;
  for (const auto& node : graph.node()) {
    const auto constant = node.op_type() == "Identity" ? constants.find(node.input(0)) : constants.end();
    if (constant == constants.end()) return {};
    constants[node.output(0)] = constant->second;
  }
  std::vector<Value> results;
  for (const auto& output : graph.output()) {
    const auto constant = constants.find(output.name());
    if (constant == constants.end()) return {};
    results.emplace_back(tensor_from_proto(*constant->second, output.name()));
  }
  return results;
}

/// Other operators on sequences pass tensors on as they are.
bool copies_elements(const onnx::NodeProto& node) {
  return node.op_type() == "SplitToSequence" || node.op_type() == "ConcatFromSequence";
}

}  // namespace

bool DynamicOutcome::all_on_chip() const {
  return std::ranges::all_of(regions, [](const RegionRuns& region) {
    return region.place == RegionPlace::kFolded || region.only_decides ||
           (region.place == RegionPlace::kChip && region.reasons.empty());
  });
}

/// One run of the model.
class DynamicExecutor::Walk {
 public:
  explicit Walk(DynamicExecutor& executor) : executor_(executor) {}

  DynamicOutcome run(const ValueMap& inputs) {
    const GraphInfo& graph = *executor_.main_;
    Frame frame(graph, nullptr);
    for (const auto& [name, axes] : executor_.named_axes_) frame.name_axes(name, axes);
    give_inputs(graph, inputs, frame);
    const std::vector<Value> outputs = run_graph(graph, frame);
    for (int k = 0; k < graph.proto().output_size(); ++k)
      outcome_.outputs[graph.proto().output(k).name()] = outputs[static_cast<size_t>(k)];
    outcome_.total.name = "total";
    for (const RegionRuns& region : outcome_.regions) {
      outcome_.total.runs += region.runs;
      outcome_.total.compiles += region.compiles;
      outcome_.total.disk_hits += region.disk_hits;
      outcome_.total.hits += region.hits;
      outcome_.total.compile_seconds += region.compile_seconds;
      outcome_.total.stats += region.stats;
      outcome_.total.preload_bytes += region.preload_bytes;
      outcome_.total.preload_cycles += region.preload_cycles;
    }
    outcome_.cached_programs = executor_.cache_.size();
    outcome_.dropped_programs = executor_.cache_.dropped();
    return std::move(outcome_);
  }

 private:
  static void give_inputs(const GraphInfo& graph, const ValueMap& inputs, Frame& frame) {
    std::map<std::string, int64_t> symbols;
    std::set<std::string> declared;
    for (const auto& input : graph.proto().input()) {
      declared.insert(input.name());
      const auto given = inputs.find(input.name());
      if (given == inputs.end()) throw isa::UserError(fmt::format("input '{}' is not given", input.name()));
      frame.set(input.name(), check_graph_input(input, given->second, symbols));
    }
    for (const auto& [name, value] : inputs) {
      if (!declared.contains(name)) {
        throw isa::UserError(
            fmt::format("the model has no input '{}'; its inputs are: {}", name, fmt::join(declared, ", ")));
      }
    }
  }

  std::vector<Value> run_graph(const GraphInfo& graph, Frame& frame) {
    const std::string entry = key_of(graph, {}, frame);
    std::vector<bool> done(graph.nodes().size(), false);
    auto left = static_cast<int64_t>(graph.nodes().size());
    const auto finish = [&](int node) {
      done[static_cast<size_t>(node)] = true;
      --left;
    };
    while (left > 0) {
      const int64_t before = left;
      std::map<int, std::string> hosts;  // plain nodes that are the host's, and why
      if (may_have_region(graph, done, frame)) {
        const std::shared_ptr<Program> program = program_for(graph, entry, done, frame, hosts);
        if (!program->region.decided.empty()) {
          const GraphInfo& rest = without_decided(graph, done, program->region.decided);
          Frame inner_frame(rest, &frame);
          return run_graph(rest, inner_frame);
        }
        if (!program->region.nodes.empty()) run_program(graph, program, frame);
        for (const int node : program->region.nodes) finish(node);
      }
      for (int k = 0; k < static_cast<int>(graph.nodes().size()); ++k) {
        if (!done[static_cast<size_t>(k)] && run_on_host(graph, k, hosts, frame)) finish(k);
      }
      if (left == before) throw_stuck(graph, done, frame);
    }
    std::vector<Value> outputs;
    for (const auto& output : graph.proto().output()) {
      const Value* const value = frame.value(output.name());
      if (value == nullptr) {
        throw isa::UserError(fmt::format("{}: output '{}' is never computed", graph.path(), output.name()));
      }
      outputs.push_back(*value);
    }
    return outputs;
  }

  /// What is left of a graph, with branches in the places of Ifs.
  const GraphInfo& without_decided(const GraphInfo& graph, const std::vector<bool>& done,
                                   const std::map<int, bool>& decided) {
    std::string key = fmt::format("{:p} ", static_cast<const void*>(&graph));
    for (const bool is_done : done) key += is_done ? '1' : '0';
    for (const auto& [node, condition] : decided) key += fmt::format(" {}={}", node, condition);
    const auto [found, is_new] = executor_.decided_.try_emplace(key);
    Decided& result = found->second;
    if (is_new) {
      result.graph = with_branches(graph, done, decided);
      result.info = std::make_unique<GraphInfo>(executor_.model_, result.graph, graph.path(), &graph);
      if (std::ranges::none_of(done, [](bool is_done) { return is_done; })) result.info->take_states(graph);
    }
    return *result.info;
  }

  [[noreturn]] static void throw_stuck(const GraphInfo& graph, const std::vector<bool>& done,
                                       const Frame& frame) {
    for (size_t k = 0; k < done.size(); ++k) {
      if (done[k]) continue;
      for (const std::string& name : graph.nodes()[k].reads) {
        if (frame.value(name) == nullptr)
          throw isa::UserError(fmt::format("{}: reads '{}', which nothing makes before it",
                                           describe_node(*graph.nodes()[k].proto), name));
      }
    }
    throw isa::InternalError("internal error in DynamicExecutor: no node of " + graph.path() + " can run");
  }

  /// Whether it's worth to plan one: some plain node has tensors for operands.
  static bool may_have_region(const GraphInfo& graph, const std::vector<bool>& done, const Frame& frame) {
    for (size_t k = 0; k < done.size(); ++k) {
      const GraphInfo::Node& node = graph.nodes()[k];
      if (done[k] || node.node_class != NodeClass::kPlain) continue;
      if (std::ranges::all_of(node.reads, [&](const std::string& name) {
            const Frame::Known* const known = frame.find(name);
            return known != nullptr ? known->value.is_tensor() : graph.constant(name) != nullptr;
          }))
        return true;
    }
    return false;
  }

  /// What decides which region comes next, but for bound values.
  std::string key_of(const GraphInfo& graph, const std::vector<bool>& done, const Frame& frame) const {
    std::string key = fmt::format("{:p} ", static_cast<const void*>(&graph));
    for (const bool is_done : done) key += is_done ? '1' : '0';
    for (const std::string& name : graph.names()) {
      const Frame::Known* const known = frame.find(name);
      if (known == nullptr) continue;
      key += fmt::format("\n{}{}", known->value.describe(), known->from_shapes ? " s " : " ") + name;
    }
    return key;
  }

  /// The next region with its program, from the cache or made now; without nodes if there is none. `hosts`
  /// receives the nodes that can't be in one though their operands are there.
  std::shared_ptr<Program> program_for(const GraphInfo& graph, const std::string& entry,
                                       const std::vector<bool>& done, const Frame& frame,
                                       std::map<int, std::string>& hosts) {
    const std::string key = key_of(graph, done, frame);
    std::shared_ptr<Program> program = executor_.cache_.find(key, frame);
    if (program != nullptr) {
      if (!program->region.nodes.empty()) ++row_of(graph, *program).hits;
    } else {
      program = make_program(graph, entry, done, frame);
      if (!program->region.nodes.empty()) {
        RegionRuns& row = row_of(graph, *program);
        ++(program->source == Program::Source::kCompiled ? row.compiles
           : program->source == Program::Source::kDisk   ? row.disk_hits
                                                         : row.hits);
        row.compile_seconds += program->compile_seconds;
      }
      if (!program->region.nodes.empty() || !program->region.decided.empty())
        executor_.cache_.add(key, program);
    }
    hosts = program->refused;
    for (const int k : program->region.unknown) {
      const onnx::NodeProto& node = *graph.nodes()[static_cast<size_t>(k)].proto;
      hosts.emplace(k, shape_depends_on_data(node) ? "its shape depends on data"
                                                   : "its shape isn't known from its operands");
    }
    return program;
  }

  /// What the programs of other values of a node's lists have in common.
  static std::string variant_key(const std::string& entry, int node) {
    return fmt::format("{} {}", node, entry);
  }

  std::shared_ptr<Program> make_program(const GraphInfo& graph, const std::string& entry,
                                        const std::vector<bool>& done, const Frame& frame) {
    const auto start = std::chrono::steady_clock::now();
    const int64_t compiles_before = compiles_;
    auto program = std::make_shared<Program>();
    RegionOptions options;
    for (int k = 0; k < static_cast<int>(done.size()); ++k) {
      if (done[static_cast<size_t>(k)] || shape_inputs(*graph.nodes()[static_cast<size_t>(k)].proto).empty())
        continue;
      if (executor_.cache_.variants(variant_key(entry, k)) >= kMostVariants)
        options.refused.emplace(
            k, fmt::format("what decides its shape comes from data, and had {} values", kMostVariants));
    }
    for (;;) {
      program->region = plan_region(executor_.model_, graph, done, frame, options);
      if (program->region.nodes.empty()) break;
      if (make_padded(graph, *program, frame)) break;
      program->code = std::make_shared<Code>();
      const std::optional<std::string> refusal = compile(graph, program->region, *program->code);
      if (!refusal) break;
      program->code = nullptr;
      options.refused.insert(find_refused(graph, done, frame, options, program->region, *refusal));
    }
    if (compiles_ == compiles_before && program->source == Program::Source::kCompiled)
      program->source = Program::Source::kDisk;
    program->refused = options.refused;
    for (const std::string& name : program->region.bound) program->bound.push_back(frame.find(name)->value);
    for (const int k : program->region.by_data) program->variant_of.push_back(variant_key(entry, k));
    program->region.model.Clear();
    program->compile_seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    return program;
  }

  /// The first node that can't be compiled with those before it, and why.
  std::pair<int, std::string> find_refused(const GraphInfo& graph, const std::vector<bool>& done,
                                           const Frame& frame, RegionOptions options, const Region& region,
                                           std::string reason) {
    int good = 0;
    int bad = static_cast<int>(region.nodes.size());
    while (bad - good > 1) {
      options.most_nodes = (good + bad) / 2;
      Region part = plan_region(executor_.model_, graph, done, frame, options);
      Code unused;
      if (const std::optional<std::string> refusal = compile(graph, part, unused, true)) {
        bad = options.most_nodes;
        reason = *refusal;
      } else {
        good = options.most_nodes;
      }
    }
    return {region.nodes[static_cast<size_t>(bad - 1)], reason};
  }

  /// The code of a region's bucket, if it can have one.
  bool make_padded(const GraphInfo& graph, Program& program, const Frame& frame) {
    const std::vector<Bucket>& buckets = executor_.options_.buckets;
    Region& region = program.region;
    if (buckets.empty() || graph.is_body()) return false;
    std::map<std::string, BucketAxes> axes;
    for (const std::string& name : region.inputs) {
      if (const BucketAxes* named = frame.named_axes(name)) axes[name] = *named;
    }
    BucketChoice choice = choose_bucket(region, axes, buckets);
    program.no_bucket = choice.reason;
    if (!choice.padded) return false;
    Region padded = region;
    padded.model = std::move(choice.padded->model);
    padded.model.mutable_graph()->set_name(next_name(graph));
    const std::string key = program_key(padded.model, executor_.chip_, executor_.options_.compile);
    std::weak_ptr<Code>& known = executor_.bucket_codes_[key];
    program.code = known.lock();
    if (program.code != nullptr) {
      program.source = Program::Source::kMemory;
    } else {
      program.code = std::make_shared<Code>();
      if (const std::optional<std::string> refusal = compile(graph, padded, *program.code)) {
        program.no_bucket = *refusal;
        return false;
      }
      known = program.code;
    }
    choice.padded->model.Clear();
    program.padding = std::move(choice.padded);
    return true;
  }

  /// Makes a region's code, or reads it from disk; returns why there can't be one. `is_trial`: only that
  /// is asked, and `code` is of no use.
  std::optional<std::string> compile(const GraphInfo& graph, Region& region, Code& code,
                                     bool is_trial = false) {
    onnx::ModelProto& model = region.model;
    model.mutable_graph()->set_name(next_name(graph));
    CompileOptions options = executor_.options_.compile;
    options.keeps_inputs = graph.is_body();
    options.ties = ties_of(graph, region);
    StoredPrograms* const programs = executor_.options_.programs;
    if (programs == nullptr) return compile_anew(model, code, options);
    const std::string key = program_key(model, executor_.chip_, options);
    std::optional<std::string> verdict = programs->verdict(key);
    if (verdict && !verdict->empty()) return verdict;
    if (verdict && is_trial) return std::nullopt;
    if (auto made = programs->find(key, executor_.chip_)) {
      code.results = std::move(made->results);
      code.compiled = std::move(made->compiled);
      look_at_stages(code);
      return std::nullopt;
    }
    verdict = compile_anew(model, code, options);
    if (verdict || is_trial) {
      programs->store_verdict(key, verdict.value_or(""));
    } else {
      programs->store(key, code.results, code.compiled);
    }
    return verdict;
  }

  std::optional<std::string> compile_anew(const onnx::ModelProto& region, Code& code,
                                          CompileOptions options) {
    const std::string& name = region.graph().name();
    if (executor_.options_.progress) executor_.options_.progress("compiling " + name);
    ++compiles_;
    try {
      onnx::ModelProto model = import_model(region, {}, name);
      if (fold_constants(model)) prune_value_info(*model.mutable_graph());
      code.results = folded_results(model.graph());
      if (!code.results.empty()) return std::nullopt;
      try {
        code.compiled = compile_model(model, executor_.chip_, options);
      } catch (const isa::UnsupportedError&) {
        if (!options.keeps_inputs) throw;
        options.keeps_inputs = false;
        code.compiled = compile_model(std::move(model), executor_.chip_, options);
      }
    } catch (const isa::UnsupportedError& error) {
      return error.what();
    }
    look_at_stages(code);
    return std::nullopt;
  }

  static void look_at_stages(Code& code) {
    for (const Stage& stage : code.compiled.stages) {
      code.uses_chip |= stage.on_chip();
      const auto* host = std::get_if<HostStage>(&stage.body);
      if (host == nullptr) continue;
      for (const onnx::NodeProto& node : host->nodes)
        code.hosts.push_back(fmt::format("{} '{}': {}", node.op_type(), node.name(), host->reason));
    }
  }

  /// States of a loop that its body's program may keep on the chip: the program is all that reads and makes
  /// them.
  static std::vector<TieRequest> ties_of(const GraphInfo& graph, const Region& region) {
    std::vector<TieRequest> ties;
    if (region.nodes.size() != graph.nodes().size()) return ties;
    for (const GraphInfo::State& state : graph.states()) {
      const bool decides_shape = std::ranges::any_of(graph.nodes(), [&](const GraphInfo::Node& node) {
        const std::vector<int> lists = shape_inputs(*node.proto);
        return std::ranges::any_of(lists, [&](int input) {
          return input < node.proto->input_size() && node.proto->input(input) == state.input;
        });
      });
      const bool is_made = std::ranges::any_of(
          region.outputs, [&](const Region::Output& output) { return output.name == state.output; });
      if (!decides_shape && is_made && std::ranges::find(region.inputs, state.input) != region.inputs.end())
        ties.push_back({state.output, state.input, state.is_read});
    }
    return ties;
  }

  void run_program(const GraphInfo& graph, const std::shared_ptr<Program>& held, Frame& frame) {
    Program& program = *held;
    Code& code = *program.code;
    RegionRuns& row = row_of(graph, program);
    ++row.runs;
    row.bucket = program.padding ? program.padding->text : "";
    row.no_bucket = program.no_bucket;
    const auto& outputs = program.region.outputs;
    const auto set_output = [&](const Region::Output& output, Value value) {
      if (program.padding) {
        value = cut_to(value.tensor(), program.padding->output_shapes.at(output.name));
        const auto axes = program.padding->output_axes.find(output.name);
        if (axes != program.padding->output_axes.end()) frame.name_axes(output.name, axes->second);
      }
      frame.set(output.name, std::move(value), output.from_shapes);
    };
    if (!code.results.empty()) {
      for (size_t k = 0; k < outputs.size(); ++k) set_output(outputs[k], code.results[k]);
      return;
    }
    if (executor_.options_.progress) executor_.options_.progress(row.name);
    if (code.runner == nullptr)
      code.runner = std::make_unique<ModelRunner>(code.compiled, executor_.options_.runner);
    const bool keeps_inputs = code.compiled.keeps_inputs;
    const bool continues = keeps_inputs && code.run_number == executor_.runs_;
    TensorMap inputs;
    for (const std::string& name : program.region.inputs) {
      const Value& value = frame.find(name)->value;
      const auto before = code.there.find(name);
      if (continues && before != code.there.end() && before->second.is_same_as(value)) continue;
      const Value given = fetched(value, row);
      inputs[name] = program.padding && program.padding->input_shapes.contains(name)
                         ? padded_to(given.tensor(), program.padding->input_shapes.at(name))
                         : given.tensor();
      code.there[name] = value;
    }
    if (program.padding) inputs.insert(program.padding->given.begin(), program.padding->given.end());
    code.run_number = executor_.runs_;
    RunOutcome outcome = keeps_inputs ? code.runner->run_again(inputs) : code.runner->run(inputs);
    // Others know a tie's output by a stand-in: what it was before is gone from the chip.
    for (const Tie& tie : code.compiled.ties) {
      const LayerTensor& tensor = code.compiled.tensors[static_cast<size_t>(tie.output)];
      const std::string& input = code.compiled.tensors[static_cast<size_t>(tie.input)].name;
      if (tie.fetch) {
        code.there[input] = std::move(outcome.outputs.at(tensor.name));
        frame.set(tensor.name, code.there[input]);
        outcome.outputs.erase(tensor.name);
        continue;
      }
      const Value stand_in = Tensor(tensor.type, tensor.shape);
      std::erase_if(on_chip_,
                    [&](const OnChip& each) { return each.code == program.code && each.tie == &tie; });
      on_chip_.push_back({stand_in, program.code, &tie});
      code.there[input] = stand_in;
      frame.set(tensor.name, stand_in);
    }
    row.stats += outcome.total;
    if (!code.is_loaded) {
      code.is_loaded = true;
      row.preload_bytes += outcome.preload_bytes;
      row.preload_cycles += outcome.preload_link_cycles + outcome.preparation.chip.cycles();
    }
    for (const Region::Output& output : outputs) {
      const auto made = outcome.outputs.find(output.name);
      if (made != outcome.outputs.end()) set_output(output, std::move(made->second));
    }
  }

  /// The value itself where it is a stand-in for what is on the chip; `row` is charged.
  Value fetched(const Value& value, RegionRuns& row) {
    for (const OnChip& each : on_chip_) {
      if (each.stand_in.is_same_as(value)) return each.code->runner->fetch_tied(*each.tie, row.stats);
    }
    return value;
  }

  /// False if the node isn't the host's, or its operands aren't there yet.
  bool run_on_host(const GraphInfo& graph, int index, const std::map<int, std::string>& hosts, Frame& frame) {
    const GraphInfo::Node& info = graph.nodes()[static_cast<size_t>(index)];
    const onnx::NodeProto& node = *info.proto;
    if (std::ranges::any_of(info.reads, [&](const auto& name) { return frame.value(name) == nullptr; }))
      return false;
    const bool only_tensors = std::ranges::all_of(node.input(), [&](const std::string& name) {
      return name.empty() || frame.value(name)->is_tensor();
    });
    std::string reason = "control flow";
    bool decides = true;
    if (info.node_class == NodeClass::kSequence || (info.node_class == NodeClass::kPlain && !only_tensors)) {
      reason = "sequences and optionals are the host's";
    } else if (info.node_class == NodeClass::kPlain) {
      const auto found = hosts.find(index);
      const bool by_data = shape_depends_on_data(node);
      if (found == hosts.end() && !by_data) return false;
      reason = by_data ? "its shape depends on data" : found->second;
      decides = false;
    }
    const size_t row = host_row(graph, index, reason, decides);
    ++outcome_.regions[row].runs;
    if (executor_.options_.progress) executor_.options_.progress(describe_node(node));
    std::vector<Value> given;
    given.reserve(static_cast<size_t>(node.input_size()));
    std::vector<const Value*> inputs;
    for (const std::string& name : node.input()) {
      if (!name.empty()) given.push_back(fetched(*frame.value(name), outcome_.regions[row]));
      inputs.push_back(name.empty() ? nullptr : &given.back());
    }
    const auto start = std::chrono::steady_clock::now();
    std::vector<Value> outputs =
        run_node_on_values(node, inputs, executor_.operators_,
                           [&](const onnx::GraphProto& body, const std::vector<Value>& values) {
                             const GraphInfo& inner = graph.inner(body);
                             Frame inner_frame(inner, &frame);
                             for (size_t k = 0; k < values.size(); ++k) {
                               const auto& declared = body.input(static_cast<int>(k));
                               inner_frame.set(declared.name(), as_declared(declared, values[k]));
                             }
                             return run_graph(inner, inner_frame);
                           });
    if (!decides || copies_elements(node)) charge(node, inputs, outputs, start, outcome_.regions[row].stats);
    if (info.node_class == NodeClass::kControl) {
      for (Value& output : outputs) output = fetched(output, outcome_.regions[row]);
    }
    for (int k = 0; k < node.output_size(); ++k) {
      if (!node.output(k).empty()) frame.set(node.output(k), std::move(outputs[static_cast<size_t>(k)]));
    }
    return true;
  }

  /// As a layer on the host. What only passes values on costs nothing.
  void charge(const onnx::NodeProto& node, const std::vector<const Value*>& inputs,
              const std::vector<Value>& outputs, std::chrono::steady_clock::time_point start,
              StageStats& stats) const {
    StageStats own;
    own.host_layers = 1;
    own.host_seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    std::vector<const Tensor*> tensors;
    std::vector<Tensor> results;
    for (const Value* value : inputs) {
      own.host_bytes += value == nullptr ? 0 : value->byte_size();
      tensors.push_back(value != nullptr && value->is_tensor() ? &value->tensor() : nullptr);
    }
    for (const Value& value : outputs) {
      own.host_bytes += value.byte_size();
      if (value.is_tensor()) results.push_back(value.tensor());
    }
    own.host_operations = host_operations(node, tensors, results);
    if (executor_.options_.runner.timing)
      own.chip.causes.host_compute =
          isa::host_computation_cycles(own.host_bytes, own.host_operations, executor_.chip_);
    stats += own;
  }

  /// Of the next region of a graph in the report.
  std::string next_name(const GraphInfo& graph) {
    return fmt::format("{} {}", graph.path(), regions_of_[graph.path()] + 1);
  }

  RegionRuns& row_of(const GraphInfo& graph, const Program& program) {
    const auto [found, is_new] = rows_.try_emplace({&graph, program.region.nodes}, outcome_.regions.size());
    if (is_new) {
      const Code& code = *program.code;
      RegionRuns& row = outcome_.regions.emplace_back();
      row.name = next_name(graph);
      ++regions_of_[graph.path()];
      for (const int node : program.region.nodes)
        row.operators.push_back(graph.nodes()[static_cast<size_t>(node)].proto->op_type());
      row.place = !code.results.empty() || code.compiled.stages.empty() ? RegionPlace::kFolded
                  : code.uses_chip || code.hosts.empty()                ? RegionPlace::kChip
                                                                        : RegionPlace::kHost;
      row.reasons = code.hosts;
    }
    return outcome_.regions[found->second];
  }

  size_t host_row(const GraphInfo& graph, int node, const std::string& reason, bool decides) {
    const auto [found, is_new] = host_rows_.try_emplace({&graph, node}, outcome_.regions.size());
    if (is_new) {
      const onnx::NodeProto& proto = *graph.nodes()[static_cast<size_t>(node)].proto;
      RegionRuns& row = outcome_.regions.emplace_back();
      row.name = fmt::format("{} '{}'", graph.path(), proto.name());
      row.operators = {proto.op_type()};
      row.place = RegionPlace::kHost;
      row.reasons = {reason};
      row.only_decides = decides;
    }
    return found->second;
  }

  /// A state that a program keeps on the chip, and the value that stands for it.
  struct OnChip {
    Value stand_in;
    std::shared_ptr<Code> code;
    const Tie* tie;
  };

  using RowKey = std::pair<const GraphInfo*, std::vector<int>>;

  DynamicExecutor& executor_;
  DynamicOutcome outcome_;
  std::vector<OnChip> on_chip_;
  int64_t compiles_ = 0;  ///< those that only showed what can't be compiled, too
  std::map<std::string, int> regions_of_;
  std::map<RowKey, size_t> rows_;
  std::map<std::pair<const GraphInfo*, int>, size_t> host_rows_;
};

DynamicExecutor::DynamicExecutor(onnx::ModelProto imported, isa::Chip chip, DynamicOptions options)
    : model_(prepared(std::move(imported))),
      chip_(std::move(chip)),
      options_(std::move(options)),
      operators_(model_),
      main_(std::make_unique<GraphInfo>(model_, model_.graph(), "main", nullptr)),
      cache_(options_.cache_limit) {
  named_axes_ = find_bucket_axes(model_.graph(), options_.buckets);
}

DynamicExecutor::~DynamicExecutor() = default;

DynamicOutcome DynamicExecutor::run(const ValueMap& inputs) {
  ++runs_;
  return Walk(*this).run(inputs);
}

}  // namespace kodama::compiler
