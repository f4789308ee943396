#include "compiler/kernels/zero_rows.h"

#include <algorithm>
#include <utility>

#include "compiler/kernels/rows.h"
#include "compiler/kernels/rows_windows.h"
#include "isa/arithmetic.h"

namespace kodama::compiler {

void ZeroRows::add(LayerGraph& graph, FreshNames& tensors, std::vector<TensorAccess>& inputs, size_t dims) {
  if (zeros_ < 0) {
    LayerTensor tensor;
    tensor.name = tensors.make_unique("zeros");
    tensor.shape = {1};
    tensor.constant = Tensor(DataType::kFloat32, tensor.shape);
    zeros_ = static_cast<TensorId>(graph.tensors.size());
    graph.tensors.push_back(std::move(tensor));
  }
  inputs.push_back({zeros_, AffineMap(1, dims), 0});
}

bool is_zero_row(const TensorAccess& access, const LayerGraph& graph) {
  const LayerTensor& tensor = graph.tensors[static_cast<size_t>(graph.storage(access.tensor))];
  return tensor.constant && tensor.shape == Shape{1} && tensor.constant->type() == DataType::kFloat32 &&
         access.map == AffineMap(1, access.map.dims()) && tensor.constant->data<float>()[0] == 0;
}

void add_zero_rows(LayerGraph& graph) {
  FreshNames names;
  for (const LayerTensor& tensor : graph.tensors) names.reserve(tensor.name);
  ZeroRows zeros;
  for (size_t index = 0; index < graph.layers.size(); ++index) {
    const auto* reduce = std::get_if<ReduceLayer>(&graph.layers[index].body);
    const std::vector<TensorId>& outputs = graph.layers[index].outputs;
    if (reduce == nullptr || pool_problem(*reduce, outputs.at(0), graph)) continue;
    const ReduceLayer before = *reduce;
    const size_t tensors = graph.tensors.size();
    ReduceLayer with = before;
    ZeroRows added = zeros;
    added.add(graph, names, with.epilogue_inputs, with.output_extents.size());
    if (pool_problem(with, outputs.at(0), graph)) {
      graph.layers[index].body = std::move(with);
      zeros = added;
    } else {
      graph.tensors.resize(tensors);
    }
  }
}

StreamPlacement zero_rows_placement(std::string name, const TensorAccess& access, const Shape& extents,
                                    const layout::Transport& transport, int64_t row_lw) {
  StreamPlacement zeros;
  zeros.name = std::move(name);
  zeros.access = access;
  zeros.extents = extents;
  zeros.transport = transport;
  const int64_t first = extents.front();
  zeros.axis_dims = {{0}};
  zeros.layout = layout::Layout({{{first, layout::Level::kAddress, 1}}}, layout::Memory::kLm1, {});
  zeros.length_lw = isa::round_up(std::max(first, row_lw / isa::kPePerMab), transport.granule());
  place_single(zeros);
  return zeros;
}

}  // namespace kodama::compiler
