#include "compiler/kernels/fill_rows.h"

#include <utility>

#include "compiler/kernels/rows_windows.h"
#include "isa/arithmetic.h"

namespace kodama::compiler {

using layout::Level;

void FillRows::add(LayerGraph& graph, FreshNames& tensors, std::vector<TensorAccess>& inputs, size_t dims,
                   double fill) {
  const auto [row, is_new] = rows_.try_emplace(fill, static_cast<TensorId>(graph.tensors.size()));
  if (is_new) {
    LayerTensor tensor;
    tensor.name = tensors.make_unique(fill == 0 ? "zeros" : "fill");
    tensor.shape = {1};
    tensor.constant =
        Tensor::from_values(DataType::kFloat32, tensor.shape, std::vector{static_cast<float>(fill)});
    graph.tensors.push_back(std::move(tensor));
  }
  inputs.push_back({row->second, AffineMap(1, dims), 0});
}

std::optional<double> fill_of_rows(const TensorAccess& access, const LayerGraph& graph) {
  const LayerTensor& tensor = graph.tensors[static_cast<size_t>(graph.storage(access.tensor))];
  if (!tensor.constant || tensor.shape != Shape{1} || tensor.constant->type() != DataType::kFloat32 ||
      access.map != AffineMap(1, access.map.dims()))
    return std::nullopt;
  return tensor.constant->data<float>()[0];
}

void add_fill_rows(LayerGraph& graph) {
  FreshNames names;
  for (const LayerTensor& tensor : graph.tensors) names.reserve(tensor.name);
  FillRows rows;
  for (size_t index = 0; index < graph.layers.size(); ++index) {
    const auto* reduce = std::get_if<ReduceLayer>(&graph.layers[index].body);
    const std::vector<TensorId>& outputs = graph.layers[index].outputs;
    if (reduce == nullptr || reduce->inputs.empty() || pool_problem(*reduce, outputs.at(0), graph)) continue;
    const ReduceLayer before = *reduce;
    const size_t tensors = graph.tensors.size();
    ReduceLayer with = before;
    FillRows added = rows;
    added.add(graph, names, with.epilogue_inputs, with.output_extents.size(), before.inputs[0].fill);
    if (pool_problem(with, outputs.at(0), graph)) {
      graph.layers[index].body = std::move(with);
      rows = added;
    } else {
      graph.tensors.resize(tensors);
    }
  }
}

StreamPlacement fill_rows_placement(std::string name, const TensorAccess& access, int64_t row_lw,
                                    const layout::Transport& transport, const isa::Chip& chip) {
  const int64_t numbers = isa::round_up(isa::ceil_div(row_lw, int64_t{isa::kPePerMab}), transport.granule());
  StreamPlacement row;
  row.name = std::move(name);
  row.access = {access.tensor, AffineMap(1, 1), 0};
  row.extents = {numbers * isa::kPePerMab * isa::kWordsPerLong};
  row.axis_dims = {{0}};
  row.layout = layout::Layout({{{numbers, Level::kAddress, 1},
                                {isa::kPePerMab, Level::kPe, 1},
                                {isa::kWordsPerLong, Level::kWord, 1}}},
                              layout::Memory::kLm1,
                              {{chip.l1b_per_l2b, Level::kL1b, 1}, {chip.mab_per_l1b, Level::kMab, 1}});
  row.transport = transport;
  row.length_lw = numbers;
  return row;
}

}  // namespace kodama::compiler
