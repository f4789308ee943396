#include "compiler/kernels/split_products.h"

#include <algorithm>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "compiler/kernels/rows.h"
#include "compiler/kernels/rows_problem.h"
#include "compiler/tensor/fresh_names.h"
#include "compiler/tile/tile_program.h"

namespace kodama::compiler {
namespace {

/// Channels [begin, end) of a product's result.
struct ChannelRange {
  int64_t begin = 0, end = 0;
  auto operator<=>(const ChannelRange&) const = default;
};

/// What is read of an axis of a tensor, each range once, in order; nothing where somebody reads the tensor in
/// another shape, beyond its end, or on the host.
std::optional<std::vector<ChannelRange>> ranges_read(const LayerGraph& graph, TensorId tensor, size_t axis) {
  std::set<ChannelRange> ranges;
  if (std::ranges::any_of(graph.outputs, [&](TensorId id) { return graph.storage(id) == tensor; }))
    return std::nullopt;
  for (const Layer& layer : graph.layers) {
    const auto accesses = layer_accesses(layer);
    const auto boxes = layer_access_boxes(layer);
    if (layer.kind() == LayerKind::kHost) {
      const auto reads = [&](TensorId id) { return id >= 0 && graph.storage(id) == tensor; };
      if (std::ranges::any_of(layer.host_inputs, reads)) return std::nullopt;
    }
    for (size_t k = 0; k < accesses.size(); ++k) {
      if (graph.storage(accesses[k]->tensor) != tensor) continue;
      if (accesses[k]->tensor != tensor) return std::nullopt;
      const auto [first, last] = accesses[k]->map.range(axis, boxes[k].begin, boxes[k].end);
      if (first < 0 || last >= graph.tensors[static_cast<size_t>(tensor)].shape[axis] || last < first)
        return std::nullopt;
      ranges.insert({first, last + 1});
    }
  }
  return std::vector<ChannelRange>(ranges.begin(), ranges.end());
}

/// Whether they are several, one behind the other, of whole chunks.
bool are_parts(const std::vector<ChannelRange>& ranges) {
  for (size_t k = 0; k < ranges.size(); ++k) {
    if (ranges[k].begin % kChunkChannels != 0) return false;
    if (k > 0 && ranges[k].begin < ranges[k - 1].end) return false;
  }
  return ranges.size() > 1;
}

/// Reads from `first` of a dim on what it read from 0 on.
void shift(TensorAccess& access, int dim, int64_t first) {
  for (size_t axis = 0; axis < access.map.axes(); ++axis) {
    access.map.set_offset(
        axis, access.map.offset(axis) + first * access.map.coefficient(axis, static_cast<size_t>(dim)));
  }
}

/// What reads the range of `tensor` reads `part`.
void read_part(LayerGraph& graph, TensorId tensor, size_t axis, const ChannelRange& range, TensorId part) {
  for (Layer& layer : graph.layers) {
    const auto boxes = layer_access_boxes(layer);
    const auto accesses = layer_accesses(layer);
    for (size_t k = 0; k < accesses.size(); ++k) {
      TensorAccess& access = *accesses[k];
      if (access.tensor != tensor ||
          access.map.range(axis, boxes[k].begin, boxes[k].end).first != range.begin)
        continue;
      access.tensor = part;
      access.map.set_offset(axis, access.map.offset(axis) - range.begin);
    }
  }
}

/// The layer that copies the range of `tensor`, and nothing else; -1: none.
int copy_of(const LayerGraph& graph, TensorId tensor, size_t axis, const ChannelRange& range) {
  const Shape& whole = graph.tensors[static_cast<size_t>(tensor)].shape;
  Shape part = whole;
  part[axis] = range.end - range.begin;
  AffineMap map = AffineMap::identity(whole.size());
  map.set_offset(axis, range.begin);
  const auto is_it = [&](const Layer& layer) {
    const auto* rearrange = std::get_if<RearrangeLayer>(&layer.body);
    if (rearrange == nullptr || rearrange->pieces.size() != 1 || rearrange->extents != part) return false;
    const RearrangeLayer::Piece& piece = rearrange->pieces[0];
    return piece.input.tensor == tensor && piece.input.map == map && piece.end == part &&
           std::ranges::all_of(piece.begin, [](int64_t at) { return at == 0; });
  };
  const auto found = std::ranges::find_if(graph.layers, is_it);
  return found == graph.layers.end() ? -1 : static_cast<int>(found - graph.layers.begin());
}

/// Splits layer `index` if that helps; says how many layers it has become.
int64_t split_layer(LayerGraph& graph, size_t index, FreshNames& layers, FreshNames& tensors) {
  const Layer layer = graph.layers[index];
  const auto* contract = std::get_if<ContractLayer>(&layer.body);
  if (contract == nullptr) return 1;
  const TensorId result = layer.outputs[0];
  const auto problem = rows_problem(*contract, result, graph, 0);
  // Of groups of channels the layer has other dims.
  if (!problem || problem->matrix.outs.size() > 1) return 1;
  const int dim = problem->out_channel;
  size_t axis = 0;
  while (contract->output.coefficient(axis, static_cast<size_t>(dim)) == 0) ++axis;
  const auto ranges = ranges_read(graph, result, axis);
  if (!ranges || !are_parts(*ranges)) return 1;
  std::vector<Layer> parts;
  for (const ChannelRange& range : *ranges) {
    Layer product = layer;
    product.name = layers.make_unique(layer.name + "/part");
    auto& body = std::get<ContractLayer>(product.body);
    body.dims[static_cast<size_t>(dim)].extent = body.output_shape[axis] = range.end - range.begin;
    for (TensorAccess* access : layer_accesses(product)) shift(*access, dim, range.begin);
    if (const int copy = copy_of(graph, result, axis, range); copy >= 0) {
      product.outputs = graph.layers[static_cast<size_t>(copy)].outputs;
      graph.layers.erase(graph.layers.begin() + copy);
    } else {
      LayerTensor tensor = graph.tensors[static_cast<size_t>(result)];
      tensor.name = tensors.make_unique(tensor.name + "/part");
      tensor.shape[axis] = range.end - range.begin;
      product.outputs = {static_cast<TensorId>(graph.tensors.size())};
      graph.tensors.push_back(std::move(tensor));
    }
    read_part(graph, result, axis, range, product.outputs[0]);
    parts.push_back(std::move(product));
  }
  const auto at = graph.layers.erase(graph.layers.begin() + static_cast<std::ptrdiff_t>(index));
  graph.layers.insert(at, std::move_iterator(parts.begin()), std::move_iterator(parts.end()));
  return std::ssize(parts);
}

}  // namespace

void split_products(LayerGraph& graph, const isa::Chip& chip) {
  if (chip.mab_per_l1b != kBlocksPerChunk * kBlocksPerChunk) return;
  FreshNames layers, tensors;
  for (const Layer& layer : graph.layers) layers.reserve(layer.name);
  for (const LayerTensor& tensor : graph.tensors) tensors.reserve(tensor.name);
  for (size_t index = 0; index < graph.layers.size();)
    index += static_cast<size_t>(split_layer(graph, index, layers, tensors));
}

}  // namespace kodama::compiler
