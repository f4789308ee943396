#include "compiler/layers/batch.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <numeric>
#include <span>
#include <string>

#include "isa/error.h"

namespace kodama::compiler {
namespace {

/// The extents of a layer's iteration space without those that are reduced; of Contract layers all.
std::vector<int64_t*> extents_of(Layer& layer) {
  std::vector<int64_t*> extents;
  const auto add = [&](Shape& shape) {
    for (int64_t& extent : shape) extents.push_back(&extent);
  };
  if (auto* map = std::get_if<MapLayer>(&layer.body)) add(map->extents);
  if (auto* reduce = std::get_if<ReduceLayer>(&layer.body)) add(reduce->output_extents);
  if (auto* normalize = std::get_if<NormalizeLayer>(&layer.body)) add(normalize->extents);
  if (auto* gather = std::get_if<GatherLayer>(&layer.body)) add(gather->extents);
  if (auto* rearrange = std::get_if<RearrangeLayer>(&layer.body)) add(rearrange->extents);
  if (auto* contract = std::get_if<ContractLayer>(&layer.body)) {
    for (ContractLayer::Dim& dim : contract->dims) extents.push_back(&dim.extent);
  }
  return extents;
}

int64_t product(std::span<const int64_t> extents) {
  return std::accumulate(extents.begin(), extents.end(), int64_t{1}, std::multiplies<>());
}

/// The numbers of bytes of which a slice has every second, …: [outer][slices][bytes].
struct SliceBytes {
  size_t outer = 1, bytes = 0, pitch = 0;

  SliceBytes(const Tensor& whole, const Shape& slice, int axis) {
    const auto at = static_cast<size_t>(axis);
    outer = static_cast<size_t>(product(std::span(slice).first(at)));
    pitch = outer == 0 ? 0 : whole.byte_size() / outer;
    bytes = whole.shape()[at] == 0
                ? 0
                : pitch / static_cast<size_t>(whole.shape()[at]) * static_cast<size_t>(slice[at]);
  }
};

class BatchFinder {
 public:
  explicit BatchFinder(const LayerGraph& graph) : graph_(graph), axes_(graph.tensors.size()) {}

  std::optional<Batch> find(std::string& why_not) {
    for (const TensorId id : graph_.inputs) {
      const Shape& shape = tensor(id).shape;
      if (shape.empty() || shape[0] < 2 || (images_ > 1 && shape[0] != images_)) {
        why_not = fmt::format("input '{}' is {}", tensor(id).name, shape_to_string(shape));
        return {};
      }
      images_ = shape[0];
      axes_[static_cast<size_t>(graph_.storage(id))] = 0;
    }
    if (images_ < 2) {
      why_not = "it has no inputs";
      return {};
    }
    Batch batch{images_, {}, {}};
    for (const Layer& layer : graph_.layers) {
      const std::optional<int> dimension = dimension_of(layer);
      if (!dimension) {
        why_not = fmt::format("layer '{}' ({})", layer.name, summary(layer, graph_));
        return {};
      }
      batch.dimensions.push_back(*dimension);
    }
    for (size_t id = 0; id < graph_.tensors.size(); ++id) {
      // One that nobody reads may be a reshape that mixes images.
      batch.axes.push_back(axis_of(static_cast<TensorId>(id)).value_or(Batch::kSame));
    }
    for (const TensorId id : graph_.outputs) {
      if (axis_of(id)) continue;
      why_not = fmt::format("output '{}' is {}", tensor(id).name, shape_to_string(tensor(id).shape));
      return {};
    }
    return batch;
  }

 private:
  const LayerTensor& tensor(TensorId id) const { return graph_.tensors[static_cast<size_t>(id)]; }

  /// Nothing where a reshape has mixed images. What isn't decided yet is a constant.
  std::optional<int> axis_of(TensorId id) const {
    const LayerTensor& view = tensor(id);
    if (view.alias_of < 0) return axes_[static_cast<size_t>(id)].value_or(Batch::kSame);
    const std::optional<int> axis = axis_of(view.alias_of);
    if (!axis || *axis == Batch::kSame) return axis;
    const Shape& storage = tensor(view.alias_of).shape;
    const int64_t outer = product(std::span(storage).first(static_cast<size_t>(*axis)));
    for (size_t k = 0; k < view.shape.size(); ++k) {
      if (product(std::span(view.shape).first(k)) == outer && view.shape[k] % images_ == 0)
        return static_cast<int>(k);
    }
    return {};
  }

  /// Whether image k of `dim`, `own` points, is all of what reads image k of `axis`; the box begins with the
  /// first image.
  bool goes_along(const AffineMap& map, size_t axis, int64_t extent, size_t dim, int64_t own,
                  const AccessBox& box) const {
    for (size_t other = 0; other < map.axes(); ++other) {
      if (other != axis && map.coefficient(other, dim) != 0) return false;
    }
    if (extent % images_ != 0 || map.coefficient(axis, dim) * own != extent / images_) return false;
    AccessBox first = box;
    first.end[dim] = own;
    const auto [low, high] = map.range(axis, first.begin, first.end);
    return low >= 0 && high < extent / images_;
  }

  /// A constant that is the same for all images along an axis may be cut there.
  bool is_alike(TensorId id, size_t axis) const {
    const LayerTensor& view = tensor(id);
    if (!view.constant || axes_[static_cast<size_t>(id)] || view.shape[axis] % images_ != 0) return false;
    Shape shape = view.shape;
    shape[axis] /= images_;
    const Tensor first = take_slice(*view.constant, static_cast<int>(axis), shape, 0);
    for (int64_t k = 1; k < images_; ++k) {
      if (!(take_slice(*view.constant, static_cast<int>(axis), shape, k) == first)) return false;
    }
    return true;
  }

  /// Where a layer's access has images along `dim`: its axis, kSame, or nothing where neither is so.
  std::optional<int> axis_along(const TensorAccess& access, const AccessBox& box, size_t dim, int64_t own) {
    const auto reads = [&](size_t axis) { return access.map.coefficient(axis, dim) != 0; };
    std::optional<int> axis = axis_of(access.tensor);
    if (!axis) return {};
    if (*axis == Batch::kSame) {
      size_t found = 0;
      while (found < access.map.axes() && !reads(found)) ++found;
      if (found == access.map.axes()) return Batch::kSame;
      if (!is_alike(access.tensor, found)) return {};
      axis = static_cast<int>(found);
    }
    const auto at = static_cast<size_t>(*axis);
    if (!goes_along(access.map, at, tensor(access.tensor).shape[at], dim, own, box)) return {};
    return axis;
  }

  /// Decides about what the layer reads and makes.
  std::optional<int> dimension_of(const Layer& layer) {
    if (layer.kind() == LayerKind::kHost) return {};
    const std::vector<const TensorAccess*> accesses = layer_accesses(layer);
    const auto depends = [&](const TensorAccess* access) {
      return axis_of(access->tensor) != std::optional(Batch::kSame);
    };
    std::optional<int>& result = axes_[static_cast<size_t>(layer.outputs[0])];
    if (std::ranges::none_of(accesses, depends)) {
      result = Batch::kSame;
      for (const TensorAccess* access : accesses) settle(access->tensor, Batch::kSame);
      return Batch::kSame;
    }
    Layer copy = layer;
    const std::vector<int64_t*> extents = extents_of(copy);
    for (size_t dim = 0; dim < extents.size(); ++dim) {
      const std::optional<std::vector<int>> axes = axes_along(layer, accesses, dim, *extents[dim]);
      const std::optional<int> made = axes ? made_along(layer, dim, *extents[dim] / images_) : std::nullopt;
      if (!made) continue;
      for (size_t k = 0; k < accesses.size(); ++k) {
        settle(accesses[k]->tensor, (*axes)[k]);
        if (axis_of(accesses[k]->tensor) != (*axes)[k]) return {};
      }
      result = made;
      return static_cast<int>(dim);
    }
    return {};
  }
  std::optional<std::vector<int>> axes_along(const Layer& layer,
                                             const std::vector<const TensorAccess*>& accesses, size_t dim,
                                             int64_t extent) {
    if (extent % images_ != 0) return {};
    const std::vector<AccessBox> boxes = layer_access_boxes(layer);
    std::vector<int> axes;
    for (size_t k = 0; k < accesses.size(); ++k) {
      if (boxes[k].begin[dim] != 0 || boxes[k].end[dim] != extent) return {};
      const std::optional<int> axis = axis_along(*accesses[k], boxes[k], dim, extent / images_);
      if (!axis) return {};
      axes.push_back(*axis);
    }
    return axes;
  }
  /// The axis of the result that has the images of `dim`.
  std::optional<int> made_along(const Layer& layer, size_t dim, int64_t own) const {
    if (const auto* normalize = std::get_if<NormalizeLayer>(&layer.body)) {
      if (normalize->reduced[dim]) return {};
    }
    const auto* contract = std::get_if<ContractLayer>(&layer.body);
    if (contract == nullptr) return static_cast<int>(dim);
    const Shape extents = contract_extents(*contract);
    const AccessBox all{std::vector<int64_t>(extents.size(), 0), extents};
    for (size_t axis = 0; axis < contract->output_shape.size(); ++axis) {
      if (goes_along(contract->output, axis, contract->output_shape[axis], dim, own, all))
        return static_cast<int>(axis);
    }
    return {};
  }
  void settle(TensorId id, int axis) {
    std::optional<int>& known = axes_[static_cast<size_t>(graph_.storage(id))];
    if (!known) known = axis;
  }

  const LayerGraph& graph_;
  int64_t images_ = 1;
  std::vector<std::optional<int>> axes_;  ///< by storage
};

}  // namespace

std::optional<Batch> find_batch(const LayerGraph& graph, std::string* why_not) {
  std::string reason;
  std::optional<Batch> batch = BatchFinder(graph).find(reason);
  if (why_not != nullptr) *why_not = reason;
  return batch;
}

LayerGraph slice_of(const LayerGraph& graph, const Batch& batch, int64_t images) {
  isa::check_internal(images > 0 && batch.images % images == 0, "slice_of", "{} of {} images", images,
                      batch.images);
  LayerGraph slice = graph;
  const auto cut = [&](int64_t& extent) { extent = extent / batch.images * images; };
  for (size_t id = 0; id < slice.tensors.size(); ++id) {
    LayerTensor& tensor = slice.tensors[id];
    if (batch.axes[id] == Batch::kSame) continue;
    cut(tensor.shape[static_cast<size_t>(batch.axes[id])]);
    if (tensor.constant) tensor.constant = take_slice(*tensor.constant, batch.axes[id], tensor.shape, 0);
  }
  for (size_t k = 0; k < slice.layers.size(); ++k) {
    Layer& layer = slice.layers[k];
    if (batch.dimensions[k] == Batch::kSame) continue;
    const auto dim = static_cast<size_t>(batch.dimensions[k]);
    cut(*extents_of(layer)[dim]);
    if (auto* contract = std::get_if<ContractLayer>(&layer.body))
      contract->output_shape = slice.tensors[static_cast<size_t>(layer.outputs[0])].shape;
    if (auto* rearrange = std::get_if<RearrangeLayer>(&layer.body)) {
      for (RearrangeLayer::Piece& piece : rearrange->pieces) cut(piece.end[dim]);
    }
  }
  return slice;
}

Tensor take_slice(const Tensor& whole, int axis, const Shape& slice, int64_t index) {
  Tensor part(whole.type(), slice);
  const SliceBytes piece(whole, slice, axis);
  for (size_t k = 0; k < piece.outer && piece.bytes > 0; ++k) {
    std::memcpy(part.bytes().data() + k * piece.bytes,
                whole.bytes().data() + k * piece.pitch + static_cast<size_t>(index) * piece.bytes,
                piece.bytes);
  }
  return part;
}

void put_slice(Tensor& whole, int axis, const Tensor& slice, int64_t index) {
  const SliceBytes piece(whole, slice.shape(), axis);
  for (size_t k = 0; k < piece.outer && piece.bytes > 0; ++k) {
    std::memcpy(whole.bytes().data() + k * piece.pitch + static_cast<size_t>(index) * piece.bytes,
                slice.bytes().data() + k * piece.bytes, piece.bytes);
  }
}

}  // namespace kodama::compiler
