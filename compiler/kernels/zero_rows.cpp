#include "compiler/kernels/zero_rows.h"

#include <algorithm>
#include <utility>

#include "compiler/kernels/rows.h"
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
