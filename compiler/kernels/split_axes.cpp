#include "compiler/kernels/split_axes.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "compiler/kernels/rows.h"
#include "compiler/layers/fusion.h"
#include "compiler/tile/tile_program.h"

namespace kodama::compiler {
namespace {

struct AxisSplit {
  size_t dim = 0;  ///< of the layer's iteration space
  int64_t outer = 1, inner = 1;
};

/// Where `axis` of a shape is cut by the bounds of the axes of another shape of the same elements, if it is
/// once.
std::optional<std::pair<int64_t, int64_t>> cut_of(const Shape& shape, size_t axis, const Shape& other) {
  if (element_count(shape) == 0) return std::nullopt;
  int64_t below = 1;
  for (size_t k = axis + 1; k < shape.size(); ++k) below *= shape[k];
  int64_t bound = 1, found = 1;
  for (size_t k = other.size(); k-- > 0;) {
    bound *= other[k];
    const int64_t inner = bound / below;
    if (bound % below != 0 || inner <= 1 || inner >= shape[axis] || inner == found) continue;
    if (found > 1 || shape[axis] % inner != 0) return std::nullopt;
    found = inner;
  }
  if (found == 1) return std::nullopt;
  return std::pair(shape[axis] / found, found);
}

/// Whether an axis that depends on `dim` is that dim alone.
bool is_divisible(const AffineMap& map, const Shape& shape, size_t dim, int64_t extent) {
  for (size_t axis = 0; axis < map.axes(); ++axis) {
    if (map.coefficient(axis, dim) == 0) continue;
    if (map.coefficient(axis, dim) != 1 || map.offset(axis) != 0 || shape[axis] != extent) return false;
    for (size_t other = 0; other < map.dims(); ++other) {
      if (other != dim && map.coefficient(axis, other) != 0) return false;
    }
  }
  return true;
}

/// A shape or map with `dim`, and axes that are it, in two.
Shape split_shape(const Shape& shape, size_t axis, const AxisSplit& split) {
  Shape result = shape;
  result[axis] = split.inner;
  result.insert(result.begin() + static_cast<std::ptrdiff_t>(axis), split.outer);
  return result;
}
AffineMap split_map(const AffineMap& map, size_t dim) {
  std::vector<size_t> axes;  // that each axis was
  for (size_t axis = 0; axis < map.axes(); ++axis) {
    if (map.coefficient(axis, dim) != 0) axes.push_back(axis);
    axes.push_back(axis);
  }
  AffineMap result(axes.size(), map.dims() + 1);
  for (size_t axis = 0; axis < axes.size(); ++axis) {
    result.set_offset(axis, map.offset(axes[axis]));
    const bool is_outer = axis + 1 < axes.size() && axes[axis + 1] == axes[axis];
    for (size_t d = 0; d < map.dims(); ++d) {
      const size_t to = d > dim || (d == dim && !is_outer) ? d + 1 : d;
      result.set(axis, to, map.coefficient(axes[axis], d));
    }
  }
  return result;
}

class AxisSplitter {
 public:
  explicit AxisSplitter(LayerGraph& graph) : graph_(graph) {}

  void run() {
    // In execution order: what reads a result sees the shape that it has by then.
    for (size_t index = 0; index < graph_.layers.size(); ++index) {
      while (const auto split = split_of(graph_.layers[index])) apply(index, *split);
    }
  }

 private:
  Shape& shape_of(TensorId tensor) { return graph_.tensors[static_cast<size_t>(tensor)].shape; }

  std::optional<AxisSplit> split_of(const Layer& layer) {
    const auto* contract = std::get_if<ContractLayer>(&layer.body);
    const auto* normalize = std::get_if<NormalizeLayer>(&layer.body);
    if (contract == nullptr && normalize == nullptr) return std::nullopt;
    const TensorId result = layer.outputs[0];
    if (std::ranges::count(graph_.outputs, result) > 0) return std::nullopt;
    const AffineMap output =
        contract != nullptr ? contract->output : AffineMap::identity(shape_of(result).size());
    const auto accesses = layer_accesses(layer);
    for (const TensorAccess* access : accesses) {
      const TensorId storage = graph_.storage(access->tensor);
      if (storage == access->tensor) continue;
      const Shape& shape = shape_of(access->tensor);
      for (size_t axis = 0; axis < shape.size(); ++axis) {
        const auto cut = cut_of(shape, axis, shape_of(storage));
        if (!cut) continue;
        const auto dim = dim_of(access->map, axis);
        if (!dim || (contract != nullptr && contract->dims[*dim].role == ContractLayer::Role::kK) ||
            (normalize != nullptr && normalize->reduced[*dim]))
          continue;
        const auto all = [&](const TensorAccess* each) {
          return is_divisible(each->map, shape_of(each->tensor), *dim, shape[axis]) &&
                 (!graph_.is_constant(each->tensor) || dim_count(each->map, *dim) == 0);
        };
        const bool is_made = dim_count(output, *dim) == 1;
        if (is_made && is_divisible(output, shape_of(result), *dim, shape[axis]) &&
            std::ranges::all_of(accesses, all))
          return AxisSplit{*dim, cut->first, cut->second};
      }
    }
    return std::nullopt;
  }

  static std::optional<size_t> dim_of(const AffineMap& map, size_t axis) {
    for (size_t dim = 0; dim < map.dims(); ++dim) {
      if (map.coefficient(axis, dim) != 0) return dim;
    }
    return std::nullopt;
  }
  static int64_t dim_count(const AffineMap& map, size_t dim) {
    int64_t count = 0;
    for (size_t axis = 0; axis < map.axes(); ++axis) count += map.coefficient(axis, dim) != 0 ? 1 : 0;
    return count;
  }

  void apply(size_t index, const AxisSplit& split) {
    Layer& layer = graph_.layers[index];
    const TensorId result = layer.outputs[0];
    for (TensorAccess* access : layer_accesses(layer)) {
      Shape shape = shape_of(access->tensor);
      for (size_t axis = shape.size(); axis-- > 0;) {
        if (access->map.coefficient(axis, split.dim) != 0) shape = split_shape(shape, axis, split);
      }
      access->map = split_map(access->map, split.dim);
      if (shape != shape_of(access->tensor)) access->tensor = seen_as(graph_, access->tensor, shape);
    }
    Shape made = shape_of(result);
    if (auto* contract = std::get_if<ContractLayer>(&layer.body)) {
      size_t axis = 0;
      while (contract->output.coefficient(axis, split.dim) == 0) ++axis;
      made = split_shape(made, axis, split);
      const auto dim = contract->dims.begin() + static_cast<std::ptrdiff_t>(split.dim);
      ContractLayer::Dim outer = *dim;
      outer.extent = split.outer;
      dim->extent = split.inner;
      contract->dims.insert(dim, std::move(outer));
      contract->output = split_map(contract->output, split.dim);
      contract->output_shape = made;
    } else {
      auto& normalize = std::get<NormalizeLayer>(layer.body);
      made = normalize.extents = split_shape(made, split.dim, split);
      normalize.reduced.insert(normalize.reduced.begin() + static_cast<std::ptrdiff_t>(split.dim), false);
    }
    make_as(graph_, result, made);
  }

  LayerGraph& graph_;
};

/// Products that read a picture as a vector.
class PictureProducts {
 public:
  explicit PictureProducts(LayerGraph& graph) : graph_(graph) {}

  void run() {
    for (Layer& layer : graph_.layers) {
      auto* contract = std::get_if<ContractLayer>(&layer.body);
      if (contract == nullptr || contract->output_shape.size() != 2) continue;
      for (TensorAccess* access : {&contract->a, &contract->b}) {
        const TensorAccess& other = access == &contract->a ? contract->b : contract->a;
        const auto dim = whole_picture(*contract, *access);
        if (!dim || !graph_.is_constant(other.tensor) || graph_.is_constant(access->tensor)) continue;
        make_window(layer, *contract, *access, *dim);
        break;
      }
    }
  }

 private:
  const Shape& shape_of(TensorId tensor) const { return graph_.tensors[static_cast<size_t>(tensor)].shape; }

  /// The dim that stands for all of a picture, if a window over it is worth while.
  std::optional<size_t> whole_picture(const ContractLayer& contract, const TensorAccess& access) const {
    const Shape& seen = shape_of(access.tensor);
    const Shape& picture = shape_of(graph_.storage(access.tensor));
    if (seen.size() != 2 || (picture.size() != 3 && picture.size() != 4)) return std::nullopt;
    // More than one picture: their vectors would have a column each, where rows of a product fill them.
    if (seen[0] != 1 || picture[0] != 1) return std::nullopt;
    // What the kernel needs of columns; and chunks that are half empty at most.
    const bool is_place = picture[1] == seen[1];
    if (!is_place && (picture.back() < isa::kCyclesPerStep ||
                      isa::ceil_div(picture[1], kChunkChannels) * kChunkChannels > 2 * picture[1]))
      return std::nullopt;
    std::optional<size_t> found;
    for (size_t dim = 0; dim < contract.dims.size(); ++dim) {
      if (contract.dims[dim].role != ContractLayer::Role::kK || contract.dims[dim].extent == 1) continue;
      if (found) return std::nullopt;
      found = dim;
    }
    if (!found || contract.dims[*found].extent != seen[1] || access.map.coefficient(0, *found) != 0 ||
        !is_divisible(access.map, seen, *found, seen[1]))
      return std::nullopt;
    return found;
  }

  void make_window(Layer& layer, ContractLayer& contract, TensorAccess& access, size_t dim) {
    const Shape picture = shape_of(graph_.storage(access.tensor));
    // The dim's point of points of channels and places, those behind the other dims but the first.
    const size_t more = picture.size() - 2;
    const size_t dims = contract.dims.size();
    AffineMap points(dims, dims + more);
    for (size_t d = 0; d < dims; ++d) points.set(d, d, 1);
    int64_t below = 1;
    for (size_t axis = picture.size(); axis-- > 1;) {
      points.set(dim, axis == 1 ? dim : dims + axis - 2, below);
      below *= picture[axis];
    }
    AffineMap read(picture.size(), dims + more);
    for (size_t d = 0; d < dims; ++d) read.set(0, d, access.map.coefficient(0, d));
    read.set(1, dim, 1);
    for (size_t axis = 2; axis < picture.size(); ++axis) read.set(axis, dims + axis - 2, 1);
    for (TensorAccess* each : layer_accesses(layer)) each->map = each->map.after(points);
    access.map = read;
    access.tensor = graph_.storage(access.tensor);
    contract.output = contract.output.after(points);
    contract.dims[dim].extent = picture[1];
    for (size_t axis = 2; axis < picture.size(); ++axis) {
      ContractLayer::Dim place = contract.dims[dim];
      place.name += std::to_string(axis);
      place.extent = picture[axis];
      contract.dims.push_back(std::move(place));
    }
    // The result is a picture of one place.
    AffineMap made(picture.size(), dims + more);
    for (size_t axis = 0; axis < 2; ++axis) {
      made.set_offset(axis, contract.output.offset(axis));
      for (size_t d = 0; d < dims + more; ++d) made.set(axis, d, contract.output.coefficient(axis, d));
    }
    contract.output = made;
    contract.output_shape.resize(picture.size(), 1);
    make_as(graph_, layer.outputs[0], contract.output_shape);
  }

  LayerGraph& graph_;
};

}  // namespace

void split_axes(LayerGraph& graph, const isa::Chip& chip) {
  // Other kernels than those of rows have no use for it.
  if (chip.mab_per_l1b != kBlocksPerChunk * kBlocksPerChunk) return;
  AxisSplitter(graph).run();
  PictureProducts(graph).run();
}

}  // namespace kodama::compiler
