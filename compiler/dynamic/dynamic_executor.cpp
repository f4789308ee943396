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
#include "compiler/proto/tensor_proto.h"
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
  Walk(DynamicExecutor& executor, simulator::RunReport* report) : executor_(executor), report_(report) {}

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
      HostVisit visit;
      for (int k = 0; k < static_cast<int>(graph.nodes().size()); ++k) {
        if (!done[static_cast<size_t>(k)] && run_on_host(graph, k, hosts, frame, done, visit)) finish(k);
      }
      end_visit(graph, done, visit);
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
    // What is compared with the reference must be known to the host.
    options.keeps_inputs = graph.is_body() && !options.store_layers;
    if (options.keeps_inputs) options.ties = ties_of(graph, region);
    StoredPrograms* const programs = options.store_layers ? nullptr : executor_.options_.programs;
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
        code.compiled =
            compile_model(model, executor_.chip_, options, options.store_layers ? &code.prepared : nullptr);
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
      code.hosts.push_back(fmt::format("{} '{}': {}", host->node.op_type, host->node.name, host->reason));
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
    if (code.runner == nullptr) {
      RunnerOptions options = executor_.options_.runner;
      options.name = row.name;
      if (executor_.options_.compile.store_layers)
        options.observe = [&code](const std::string& name, const Tensor& tensor) {
          code.observed[name] = tensor;
        };
      code.runner = std::make_unique<ModelRunner>(code.compiled, options);
    }
    if (report_ != nullptr) executor_.reported_.push_back(program.code);
    const bool keeps_inputs = code.compiled.keeps_inputs;
    const bool continues = keeps_inputs && code.run_number == executor_.runs_;
    TensorMap inputs;
    for (const std::string& name : program.region.inputs) {
      const Value& value = frame.find(name)->value;
      const auto before = code.there.find(name);
      if (continues && before != code.there.end() && before->second.is_same_as(value)) continue;
      const Value given = fetched(value, row.stats);
      inputs[name] = program.padding && program.padding->input_shapes.contains(name)
                         ? padded_to(given.tensor(), program.padding->input_shapes.at(name))
                         : given.tensor();
      code.there[name] = value;
    }
    if (program.padding) inputs.insert(program.padding->given.begin(), program.padding->given.end());
    code.run_number = executor_.runs_;
    code.observed.clear();
    const simulator::Timeline* timeline = report_ != nullptr ? report_->timeline() : nullptr;
    const size_t programs_before = programs_in(timeline);
    RunOutcome outcome =
        keeps_inputs ? code.runner->run_again(inputs, report_) : code.runner->run(inputs, report_);
    if (executor_.options_.compile.store_layers) compare_layers(code, inputs, row);
    for (HostShare& share : host_shares(code.compiled, outcome)) {
      const auto known = std::ranges::find(row.host_layers, share.node, &HostShare::node);
      if (known == row.host_layers.end()) {
        row.host_layers.push_back(std::move(share));
      } else {
        known->cycles += share.cycles;
      }
    }
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
    if (timeline != nullptr)
      keep_run(graph, program, std::move(outcome), programs_before, programs_in(timeline) - programs_before);
  }

  static size_t programs_in(const simulator::Timeline* timeline) {
    return timeline != nullptr ? timeline->program_begins().size() - 1 : 0;
  }

  /// For the page of a report; `programs` of the timeline are the run's, from `first_program` on.
  void keep_run(const GraphInfo& graph, const Program& program, RunOutcome outcome, size_t first_program,
                size_t programs) {
    const auto region = rows_.at({&graph, program.region.nodes});
    const auto [found, is_new] =
        programs_.try_emplace({region, program.code.get()}, outcome_.programs.size());
    if (is_new) {
      ProgramRuns& added = outcome_.programs.emplace_back();
      added.region = region;
      added.code = program.code;
      added.source = program.source;
      for (const TensorId id : program.code->compiled.inputs) {
        const LayerTensor& input = program.code->compiled.tensors[static_cast<size_t>(id)];
        added.inputs[input.name] = input.shape;
      }
      added.first_cycles = outcome.first_cycles();
      added.first_dram_bytes = outcome.preparation.dram_bytes + outcome.total.dram_bytes;
    }
    ProgramRuns& kept = outcome_.programs[found->second];
    ++kept.runs;
    kept.stats += outcome.total;
    outcome.outputs.clear();
    kept.last = std::move(outcome);
    kept.first_program = first_program;
    kept.programs = programs;
  }

  /// What the program's layers made, beside the reference's.
  static void compare_layers(const Code& code, const TensorMap& inputs, RegionRuns& row) {
    const TensorMap reference = compiler::run_graph(code.prepared, inputs, {.keep_intermediates = true});
    for (const auto& [name, tensor] : code.observed) {
      const auto expected = reference.find(name);
      if (expected == reference.end()) continue;
      const Comparison found = compare_tensors(tensor, expected->second);
      const auto [known, is_new] = row.layers.try_emplace(name, found);
      if (!is_new && is_worse(found, known->second)) known->second = found;
    }
  }
  static bool is_worse(const Comparison& found, const Comparison& known) {
    if (found.problem.empty() != known.problem.empty()) return !found.problem.empty();
    return found.max_relative > known.max_relative;
  }

  /// The value itself where it is a stand-in for what is on the chip; `stats` are charged.
  Value fetched(const Value& value, StageStats& stats) {
    for (const OnChip& each : on_chip_) {
      if (each.stand_in.is_same_as(value)) return each.code->runner->fetch_tied(*each.tie, stats);
    }
    return value;
  }

  /// Nodes that the host computes one after the other: a stage.
  struct HostVisit {
    std::vector<int> nodes;
    std::vector<std::string> reasons;
    StageStats stats;
    std::map<std::string, int64_t> read;  ///< bytes of values that it didn't make
    std::map<std::string, int64_t> made;
  };

  /// False if the node isn't the host's, or its operands aren't there yet.
  bool run_on_host(const GraphInfo& graph, int index, const std::map<int, std::string>& hosts, Frame& frame,
                   const std::vector<bool>& done, HostVisit& visit) {
    const GraphInfo::Node& info = graph.nodes()[static_cast<size_t>(index)];
    const onnx::NodeProto& node = *info.proto;
    if (std::ranges::any_of(info.reads, [&](const auto& name) { return frame.value(name) == nullptr; }))
      return false;
    const bool only_tensors = std::ranges::all_of(node.input(), [&](const std::string& name) {
      return name.empty() || frame.value(name)->is_tensor();
    });
    if (info.node_class == NodeClass::kPlain && only_tensors) {
      const auto found = hosts.find(index);
      const bool by_data = shape_depends_on_data(node);
      if (found == hosts.end() && !by_data) return false;
      visit.nodes.push_back(index);
      visit.reasons.push_back(by_data ? "its shape depends on data" : found->second);
      compute(graph, index, frame, visit.stats);
      for (const std::string& name : node.input()) {
        if (!name.empty() && !visit.made.contains(name)) visit.read[name] = frame.value(name)->byte_size();
      }
      for (const std::string& name : node.output()) {
        if (!name.empty()) visit.made[name] = frame.value(name)->byte_size();
      }
      return true;
    }
    end_visit(graph, done, visit);
    const bool is_control = info.node_class == NodeClass::kControl;
    const size_t row = host_row(
        graph, {index}, {is_control ? "control flow" : "sequences and optionals are the host's"}, true);
    ++outcome_.regions[row].runs;
    StageStats stats;
    compute(graph, index, frame, stats);
    stats.host_operations = 0;
    if (copies_elements(node)) {
      for (const std::string& name : node.input())
        stats.host_bytes += name.empty() ? 0 : frame.value(name)->byte_size();
      for (const std::string& name : node.output())
        stats.host_bytes += name.empty() ? 0 : frame.value(name)->byte_size();
      charge_host(stats);
    } else {
      stats.host_seconds = 0;  // what only passes values on costs nothing
    }
    outcome_.regions[row].stats += stats;
    return true;
  }

  /// By the reference. `stats` receives operations, seconds, and what is fetched.
  void compute(const GraphInfo& graph, int index, Frame& frame, StageStats& stats) {
    const GraphInfo::Node& info = graph.nodes()[static_cast<size_t>(index)];
    const onnx::NodeProto& node = *info.proto;
    if (executor_.options_.progress) executor_.options_.progress(describe_node(node));
    std::vector<Value> given;
    given.reserve(static_cast<size_t>(node.input_size()));
    std::vector<const Value*> inputs;
    for (const std::string& name : node.input()) {
      if (!name.empty()) given.push_back(fetched(*frame.value(name), stats));
      inputs.push_back(name.empty() ? nullptr : &given.back());
    }
    const auto start = std::chrono::steady_clock::now();
    std::vector<Value> outputs =
        run_node_on_values(node, inputs, executor_.operators_,
                           [&](const std::string& attribute, const std::vector<Value>& values) {
                             const onnx::GraphProto& body = graph_of(node, attribute);
                             const GraphInfo& inner = graph.inner(body);
                             Frame inner_frame(inner, &frame);
                             for (size_t k = 0; k < values.size(); ++k) {
                               const auto& declared = body.input(static_cast<int>(k));
                               inner_frame.set(declared.name(), as_declared(declared, values[k]));
                             }
                             return run_graph(inner, inner_frame);
                           });
    stats.host_seconds += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    if (info.node_class == NodeClass::kControl) {
      for (Value& output : outputs) output = fetched(output, stats);
    }
    stats.host_operations += operations_of(node, inputs, outputs);
    for (int k = 0; k < node.output_size(); ++k) {
      if (!node.output(k).empty()) frame.set(node.output(k), std::move(outputs[static_cast<size_t>(k)]));
    }
  }

  static const onnx::GraphProto& graph_of(const onnx::NodeProto& node, const std::string& attribute) {
    const auto found = std::ranges::find(node.attribute(), attribute, &onnx::AttributeProto::name);
    isa::check_internal(found != node.attribute().end(), "DynamicExecutor", "no graph '{}'", attribute);
    return found->g();
  }

  static int64_t operations_of(const onnx::NodeProto& node, const std::vector<const Value*>& inputs,
                               const std::vector<Value>& outputs) {
    std::vector<const Tensor*> tensors;
    std::vector<Tensor> results;
    for (const Value* value : inputs)
      tensors.push_back(value != nullptr && value->is_tensor() ? &value->tensor() : nullptr);
    for (const Value& value : outputs) {
      if (value.is_tensor()) results.push_back(value.tensor());
    }
    return host_operations(node.op_type(), tensors, results);
  }

  /// As a layer on the host of these bytes and operations.
  void charge_host(StageStats& stats) const {
    stats.host_layers = 1;
    if (executor_.options_.runner.timing)
      stats.chip.causes.host_compute =
          isa::host_computation_cycles(stats.host_bytes, stats.host_operations, executor_.chip_);
  }

  /// A stage on the host pays for what it reads, and for what others read of it.
  void end_visit(const GraphInfo& graph, const std::vector<bool>& done, HostVisit& visit) {
    if (visit.nodes.empty()) return;
    std::set<std::string> wanted;
    for (const auto& output : graph.proto().output()) wanted.insert(output.name());
    for (size_t k = 0; k < done.size(); ++k) {
      const auto& reads = graph.nodes()[k].reads;
      if (!done[k]) wanted.insert(reads.begin(), reads.end());
    }
    for (const auto& [name, bytes] : visit.read) visit.stats.host_bytes += bytes;
    for (const auto& [name, bytes] : visit.made) visit.stats.host_bytes += wanted.contains(name) ? bytes : 0;
    charge_host(visit.stats);
    const size_t row = host_row(graph, visit.nodes, visit.reasons, false);
    ++outcome_.regions[row].runs;
    outcome_.regions[row].stats += visit.stats;
    visit = {};
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

  /// A stage on the host; `reasons` by node.
  size_t host_row(const GraphInfo& graph, const std::vector<int>& nodes,
                  const std::vector<std::string>& reasons, bool decides) {
    const auto [found, is_new] = host_rows_.try_emplace({&graph, nodes}, outcome_.regions.size());
    if (!is_new) return found->second;
    RegionRuns& row = outcome_.regions.emplace_back();
    row.place = RegionPlace::kHost;
    row.only_decides = decides;
    for (size_t k = 0; k < nodes.size(); ++k) {
      const onnx::NodeProto& node = *graph.nodes()[static_cast<size_t>(nodes[k])].proto;
      row.operators.push_back(node.op_type());
      row.reasons.push_back(nodes.size() == 1
                                ? reasons[k]
                                : fmt::format("{} '{}': {}", node.op_type(), node.name(), reasons[k]));
      if (k == 0) row.name = fmt::format("{} '{}'", graph.path(), node.name());
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
  simulator::RunReport* report_;
  DynamicOutcome outcome_;
  std::vector<OnChip> on_chip_;
  int64_t compiles_ = 0;  ///< those that only showed what can't be compiled, too
  std::map<std::string, int> regions_of_;
  std::map<RowKey, size_t> rows_;
  std::map<RowKey, size_t> host_rows_;
  std::map<std::pair<size_t, const Code*>, size_t> programs_;  ///< by region
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

DynamicOutcome DynamicExecutor::run(const ValueMap& inputs, simulator::RunReport* report) {
  ++runs_;
  return Walk(*this, report).run(inputs);
}

}  // namespace kodama::compiler
