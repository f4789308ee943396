#include "compiler/kernels/kernel.h"

#include <algorithm>
#include <utility>

#include "compiler/kernels/builtin_kernels.h"
#include "isa/error.h"

namespace kodama::compiler {

const std::vector<Kernel>& kernels() {
  static const std::vector<Kernel> kKernels = {contract_mau_kernel(), map_kernel(), reduce_kernel()};
  return kKernels;
}

std::vector<Candidate> layer_candidates(const Layer& layer, const LayerGraph& graph, const isa::Chip& chip,
                                        const KernelOptions& options) {
  std::vector<Candidate> all;
  if (layer.kind() == LayerKind::kRearrange || layer.kind() == LayerKind::kHost) return all;
  const DataType result = graph.tensors[static_cast<size_t>(layer.outputs.at(0))].type;
  const bool rounds_again = element_size(result) < sizeof(float);
  for (const Kernel& kernel : kernels()) {
    if (kernel.kind != layer.kind()) continue;
    std::vector<Candidate> candidates = kernel.candidates(layer, graph, chip, options);
    for (Candidate& candidate : candidates) {
      for (StreamPlacement& placement : candidate.placements) placement.round_to_odd = rounds_again;
      all.push_back(std::move(candidate));
    }
  }
  std::stable_sort(all.begin(), all.end(), [](const Candidate& first, const Candidate& second) {
    return first.predicted_cycles < second.predicted_cycles;
  });
  return all;
}

}  // namespace kodama::compiler
