#pragma once

#include <vector>

#include "compiler/kernels/kernel.h"
#include "compiler/kernels/lowering.h"
#include "compiler/kernels/stream_image.h"
#include "scheduler/pipeline/pipeline.h"
#include "simulator/machine.h"

/// Kernels on the simulator.
namespace kodama::compiler::testing {

struct Outcome {
  Tensor result;
  int64_t cycles = 0;
};
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
  for (size_t k = 0; k + 1 < candidate.placements.size(); ++k) {
    const StreamPlacement& placement = candidate.placements[k];
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
  Tensor out(onnx::TensorProto_DataType_FLOAT, graph.tensors[static_cast<size_t>(layer.outputs[0])].shape);
  unpack_stream(result, image, out, chip);
  return {std::move(out), cycles};
}

}  // namespace kodama::compiler::testing
