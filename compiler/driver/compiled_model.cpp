#include "compiler/driver/compiled_model.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "compiler/driver/dram_planner.h"
#include "compiler/graph/passes.h"
#include "compiler/kernels/lowering.h"
#include "compiler/kernels/split_reductions.h"

namespace kodama::compiler {
namespace {

/// Streams start on a row of DRAM, or at least on an MV unit.
constexpr int64_t kDramAlignmentLw = 256;

class ModelCompiler {
 public:
  ModelCompiler(const isa::Chip& chip, const CompileOptions& options, CompiledModel& result)
      : chip_(chip), options_(options), result_(result), dram_(chip.memory.dram_lw, kDramAlignmentLw) {}

  void run(LayerGraph graph) {
    graph_ = std::move(graph);
    result_.name = graph_.name;
    result_.opset = graph_.opset;
    const auto last = static_cast<int64_t>(graph_.layers.size());
    for (int64_t index = 0; index < last; ++index) {
      const Layer& layer = graph_.layers[static_cast<size_t>(index)];
      if (options_.progress) options_.progress(index, last, layer.name);
      add_stage(layer, index);
    }
    if (options_.progress) options_.progress(last, last, "");
    result_.tensors = graph_.tensors;
    result_.inputs = graph_.inputs;
    result_.outputs = graph_.outputs;
    drop_unread_constants();
  }

 private:
  bool wants_dump(const std::string& point) const {
    return options_.dump && (options_.dump_after.contains(point) || options_.dump_after.contains("all"));
  }
  void dump(const std::string& point, const std::string& what, const std::string& text) const {
    if (wants_dump(point)) options_.dump(point, what, "txt", text);
  }

  void add_stage(const Layer& layer, int64_t index) {
    Stage stage;
    stage.name = layer.name;
    stage.kind = layer.kind();
    stage.onnx_ops = layer.onnx_ops;
    stage.onnx_nodes = layer.onnx_nodes;
    stage.outputs = layer.outputs;
    stage.operation = summary(layer, graph_);
    if (const auto* move = std::get_if<MoveLayer>(&layer.body)) {
      for (const MoveLayer::Piece& piece : move->pieces) stage.inputs.push_back(piece.input.tensor);
      stage.body = MoveStage{*move};
    } else if (const auto* host = std::get_if<HostLayer>(&layer.body)) {
      stage.inputs = layer.host_inputs;
      stage.body = HostStage{host->nodes, host->reason};
    } else {
      stage.inputs = layer_inputs(layer);
      stage.body = chip_stage(layer, index);
    }
    result_.stages.push_back(std::move(stage));
  }

  ChipStage chip_stage(const Layer& layer, int64_t index) {
    const std::vector<Candidate> candidates = layer_candidates(layer, graph_, chip_, {options_.precision});
    isa::check_internal(!candidates.empty(), "planner", "no kernel for layer '{}' ({})", layer.name,
                        summary(layer, graph_));
    // The planner of this version takes the fastest candidate of each layer; layouts meet on the host.
    const Candidate& candidate = candidates.front();
    if (wants_dump("plan")) {
      std::string text = fmt::format("layer {}: {} candidates\n", layer.name, candidates.size());
      for (const Candidate& each : candidates) {
        text += fmt::format("{} {}: {} cycles predicted, {}\n", &each == &candidate ? '*' : ' ', each.kernel,
                            each.predicted_cycles, each.description);
        for (const StreamPlacement& placement : each.placements) {
          text += fmt::format("    {} {} {}, {} LW per PE\n", placement.name, placement.layout.to_string(),
                              placement.transport.to_string(), placement.length_lw);
        }
      }
      dump("plan", layer.name, text);
    }

    ChipStage stage;
    stage.kernel = candidate.kernel;
    stage.description = candidate.description;
    stage.predicted_cycles = candidate.predicted_cycles;
    std::vector<int64_t> addresses;
    for (const StreamPlacement& placement : candidate.placements) {
      StreamBinding binding = bind(placement, layer, index);
      addresses.push_back(binding.dram_address);
      if (placement.is_output) {
        stage.result = std::move(binding);
      } else {
        stage.operands.push_back(std::move(binding));
      }
    }
    const TileProgram tiles = candidate.emit(addresses);
    if (wants_dump("tile")) dump("tile", layer.name, to_string(tiles));
    scheduler::MachineProgram machine = lower_tile_program(tiles, chip_);
    if (wants_dump("machine")) dump("machine", layer.name, scheduler::to_string(machine));
    stage.program = scheduler::build_program(
        std::move(machine), chip_, options_.passes,
        [&](const std::string& pass, const std::string& text) { dump(pass, layer.name, text); });
    stage.program.source_name = layer.name;
    return stage;
  }

  StreamBinding bind(const StreamPlacement& placement, const Layer& layer, int64_t index) {
    StreamBinding binding;
    binding.placement = placement;
    const std::string what = fmt::format("operand {} of layer '{}'", placement.name, layer.name);
    const int64_t size = stream_group_lw(placement);
    const LayerTensor& storage = graph_.tensors[static_cast<size_t>(graph_.storage(placement.access.tensor))];
    const std::optional<Tensor>& constant = storage.constant;
    if (!placement.is_output && constant) {
      // Constants stay for the whole run.
      binding.dram_address = dram_.place(size, 0, static_cast<int64_t>(graph_.layers.size()), what);
      binding.preloaded = true;
      const Shape& shape = graph_.tensors[static_cast<size_t>(placement.access.tensor)].shape;
      result_.preloads.push_back({fmt::format("{}/{}", layer.name, placement.name), binding.dram_address,
                                  pack_stream(placement, constant->reshaped(shape), chip_)});
    } else {
      binding.dram_address = dram_.place(size, index, index, what);
    }
    return binding;
  }

  /// Constants that only chip stages read are in the preloads already.
  void drop_unread_constants() {
    std::set<TensorId> read;
    for (const Stage& stage : result_.stages) {
      if (stage.on_chip()) continue;
      for (TensorId id : stage.inputs) {
        if (id >= 0) read.insert(graph_.storage(id));
      }
    }
    for (TensorId id : result_.outputs) read.insert(graph_.storage(id));
    for (size_t id = 0; id < result_.tensors.size(); ++id) {
      if (!read.contains(static_cast<TensorId>(id))) result_.tensors[id].constant.reset();
    }
  }

  const isa::Chip& chip_;
  const CompileOptions& options_;
  CompiledModel& result_;
  LayerGraph graph_;
  DramPlanner dram_;
};

}  // namespace

TensorId CompiledModel::storage(TensorId id) const {
  while (tensors[static_cast<size_t>(id)].alias_of >= 0) id = tensors[static_cast<size_t>(id)].alias_of;
  return id;
}

CompiledModel compile_model(const onnx::ModelProto& model, const isa::Chip& chip,
                            const CompileOptions& options, onnx::ModelProto* prepared) {
  const auto wants = [&](const std::string& point) {
    return options.dump && (options.dump_after.contains(point) || options.dump_after.contains("all"));
  };
  onnx::ModelProto graph_model = model;
  GraphPassOptions pass_options;
  pass_options.direct_operators.insert(directly_lowered_operators().begin(),
                                       directly_lowered_operators().end());
  run_graph_passes(graph_model, pass_options, [&](const GraphPass& pass, const onnx::ModelProto& result) {
    if (wants(pass.name)) options.dump(pass.name, result.graph().name(), "onnx", result.SerializeAsString());
  });

  LayerGraph layers =
      lower_to_layers(graph_model, options.lowering, [&](const std::string& pass, const std::string& text) {
        if (wants(pass)) options.dump(pass, graph_model.graph().name(), "json", text);
      });
  split_reductions(layers, chip);
  verify_layer_graph(layers, "split-reductions");
  if (wants("split-reductions")) {
    options.dump("split-reductions", graph_model.graph().name(), "json", to_json(layers));
  }

  CompiledModel result;
  result.chip = chip;
  result.precision = options.precision;
  ModelCompiler(chip, options, result).run(std::move(layers));
  if (prepared != nullptr) *prepared = std::move(graph_model);
  return result;
}

std::vector<std::string> dump_points() {
  std::vector<std::string> points;
  for (const std::string& name : graph_pipeline()) {
    if (std::find(points.begin(), points.end(), name) == points.end()) points.push_back(name);
  }
  for (const char* name : {"lower", "fold-moves", "fuse-maps", "fuse-epilogues", "split-reductions", "plan",
                           "tile", "machine"}) {
    points.emplace_back(name);
  }
  for (const auto& pass : scheduler::home_assigners()) points.push_back(pass.name);
  for (const auto& pass : scheduler::allocators()) points.push_back(pass.name);
  for (const auto& pass : scheduler::instruction_schedulers()) points.push_back(pass.name);
  return points;
}

}  // namespace kodama::compiler
