#pragma once

#include <vector>

#include "compiler/kernels/kernel.h"
#include "compiler/kernels/lowering.h"
#include "compiler/streams/stream_image.h"
#include "scheduler/pipeline/pipeline.h"
#include "simulator/machine.h"

/// Kernels on the simulator.
namespace kodama::compiler::testing {

/// Two L2Bs, each as large as one of mncore2.
inline isa::Chip small_chip() {
  isa::Chip chip = isa::find_chip("mncore2");
  chip.groups = 2;
  chip.l2b_per_group = 1;
  return chip;
}

struct Outcome {
  Tensor result;
  int64_t cycles = 0;
};
/// What others may have left in L1BM: infinities. They are at DRAM `address` of group 0 meanwhile.
inline void fill_l1bm(simulator::Machine& machine, int64_t address, const isa::Chip& chip) {
  const std::vector<uint64_t> infinities(kUnitLw, 0xff800000ff800000);
  machine.write_dram(0, address, infinities);
  MachineBuilder builder(chip, "infinities");
  const layout::Transport transport(chip, layout::L2bMode::kBroadcast, layout::L1bMode::kBroadcast,
                                    layout::MabMode::kDistribute);
  for (isa::Instruction& mv :
       mv_instructions(transport, true, kUnitLw, space_operand(isa::Space::kDram, address), 0, 0, 1, chip))
    builder.emit(std::move(mv), "infinities");
  builder.emit_wait(1, "infinities", false);
  for (int64_t at = 0; at < chip.memory.l1bm_lw; at += kUnitLw)
    builder.emit(isa::Opcode::kL2bmb, isa::Precision::kNone, {space_operand(isa::Space::kL2bm, 0)},
                 {space_operand(isa::Space::kL1bm, at)}, "infinities");
  machine.run(scheduler::build_program(builder.finish(), chip));
}

/// Runs one candidate of a layer; `values` by tensor id.
inline Outcome run_candidate(const Candidate& candidate, const Layer& layer, const LayerGraph& graph,
                             const std::vector<Tensor>& values, const isa::Chip& chip) {
  std::vector<int64_t> addresses;
  int64_t next = 0;
  for (const StreamPlacement& placement : candidate.placements) {
    addresses.push_back(next);
    next += (stream_group_lw(placement) + 63) / 64 * 64;
  }
  const isa::Program program =
      scheduler::build_program(lower_tile_program(candidate.emit(addresses), chip), chip);
  simulator::Machine machine(chip);
  fill_l1bm(machine, next, chip);
  for (size_t k = 0; k + 1 < candidate.placements.size(); ++k) {
    StreamPlacement placement = candidate.placements[k];
    // What may be anything there is infinite, where no constant is packed.
    const auto& tensor = graph.tensors[static_cast<size_t>(graph.storage(placement.access.tensor))];
    if (!tensor.constant && placement.layout.padding() == layout::Padding::kUndefined)
      placement.layout.set_padding(layout::Padding::kPlusInfinity);
    const StreamImage image =
        pack_stream(placement, values[static_cast<size_t>(placement.access.tensor)], chip);
    for (size_t group = 0; group < image.groups.size(); ++group) {
      if (!image.groups[group].empty())
        machine.write_dram(static_cast<int>(group), addresses[k], image.groups[group]);
    }
  }
  const int64_t cycles = machine.run(program).cycles();
  const StreamPlacement& result = candidate.placements.back();
  StreamImage image = empty_stream(result, chip);
  for (size_t group = 0; group < image.groups.size(); ++group) {
    if (!image.groups[group].empty())
      machine.read_dram(static_cast<int>(group), addresses.back(), image.groups[group]);
  }
  const LayerTensor& made = graph.tensors[static_cast<size_t>(layer.outputs[0])];
  Tensor out(made.type, made.shape);
  unpack_stream(result, image, out, chip);
  return {std::move(out), cycles};
}

inline const isa::Chip& tiny_chip() {
  static const isa::Chip chip = isa::find_chip("tiny");
  return chip;
}

/// The cheapest candidate's result.
inline Tensor run_layer(const Layer& layer, const LayerGraph& graph, const std::vector<Tensor>& values) {
  const std::vector<Candidate> candidates = layer_candidates(layer, graph, tiny_chip(), {});
  EXPECT_FALSE(candidates.empty());
  return run_candidate(candidates.at(0), layer, graph, values, tiny_chip()).result;
}

/// expr over vectors of equal length, to elements of `type`.
inline Tensor run_map(const ScalarExpr& expr, const std::vector<Tensor>& values, DataType type) {
  const int64_t count = values.at(0).size();
  LayerGraph graph;
  MapLayer map;
  map.extents = {count};
  map.expr = expr;
  for (const Tensor& value : values) {
    map.inputs.push_back({static_cast<TensorId>(graph.tensors.size()), AffineMap::identity(1), 0});
    LayerTensor tensor;
    tensor.name = fmt::format("x{}", graph.tensors.size());
    tensor.type = value.type();
    tensor.shape = {count};
    graph.tensors.push_back(tensor);
  }
  LayerTensor y;
  y.name = "y";
  y.type = type;
  y.shape = {count};
  graph.tensors.push_back(y);
  Layer layer;
  layer.name = "map";
  layer.outputs = {static_cast<TensorId>(graph.tensors.size()) - 1};
  layer.body = map;
  graph.layers.push_back(layer);
  return run_layer(layer, graph, values);
}
inline Tensor int_tensor(const std::vector<int32_t>& values) {
  return Tensor::from_values(DataType::kInt32, {static_cast<int64_t>(values.size())}, values);
}

}  // namespace kodama::compiler::testing
