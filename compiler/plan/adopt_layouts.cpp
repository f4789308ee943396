#include "compiler/plan/adopt_layouts.h"

#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "compiler/kernels/map_kernel.h"
#include "compiler/plan/placement_key.h"

namespace kodama::compiler {
namespace {

/// The map from points of an access to dims of its layer, where it reads every element of a tensor once and
/// as it is, in any order of axes.
std::optional<AffineMap> inverse(const AffineMap& map, const Shape& extents, const Shape& shape) {
  AffineMap result(extents.size(), shape.size());
  std::vector<bool> is_read(extents.size(), false);
  for (size_t axis = 0; axis < shape.size(); ++axis) {
    if (map.offset(axis) != 0) return std::nullopt;
    std::optional<size_t> only;
    for (size_t dim = 0; dim < extents.size(); ++dim) {
      if (map.coefficient(axis, dim) == 0 || extents[dim] == 1) continue;
      if (only || map.coefficient(axis, dim) != 1) return std::nullopt;
      only = dim;
    }
    if (!only) {
      if (shape[axis] != 1) return std::nullopt;
      continue;
    }
    if (extents[*only] != shape[axis] || is_read[*only]) return std::nullopt;
    is_read[*only] = true;
    result.set(*only, axis, 1);
  }
  for (size_t dim = 0; dim < extents.size(); ++dim) {
    if (extents[dim] != 1 && !is_read[dim]) return std::nullopt;
  }
  return result;
}

/// The layer that made a tensor, and the map from its result's indices to those of the tensor, which may be
/// a transposition of it.
struct Source {
  size_t layer = 0;
  AffineMap at;
};
std::optional<Source> source_of(TensorId tensor, const std::map<TensorId, size_t>& makers,
                                const LayerGraph& graph) {
  const Shape& shape = graph.tensors[static_cast<size_t>(tensor)].shape;
  const TensorId storage = graph.storage(tensor);
  const auto maker = makers.find(storage);
  if (maker == makers.end() || graph.tensors[static_cast<size_t>(storage)].shape != shape)
    return std::nullopt;
  const Layer& layer = graph.layers[maker->second];
  if (layer.kind() == LayerKind::kContract || layer.kind() == LayerKind::kMap)
    return Source{maker->second, AffineMap::identity(shape.size())};
  const auto* rearrange = std::get_if<RearrangeLayer>(&layer.body);
  if (rearrange == nullptr || rearrange->pieces.size() != 1) return std::nullopt;
  const RearrangeLayer::Piece& piece = rearrange->pieces.front();
  if (piece.end != shape || piece.begin != Shape(shape.size(), 0)) return std::nullopt;
  const TensorId from = piece.input.tensor;
  const auto back = inverse(piece.input.map, shape, graph.tensors[static_cast<size_t>(from)].shape);
  auto source = source_of(from, makers, graph);
  if (!back || !source) return std::nullopt;
  source->at = back->after(source->at);
  return source;
}

}  // namespace

void adopt_layouts(const LayerGraph& graph, const isa::Chip& chip,
                   std::vector<std::vector<Candidate>>& candidates) {
  constexpr int64_t kFewElements = int64_t{1} << 12;
  constexpr size_t kMostAdopted = 4;
  std::map<TensorId, size_t> makers;
  for (size_t k = 0; k < graph.layers.size(); ++k) {
    for (const TensorId output : graph.layers[k].outputs) {
      if (output >= 0) makers[graph.storage(output)] = k;
    }
  }
  std::vector<std::vector<size_t>> offered(graph.layers.size());
  for (size_t k = 0; k < graph.layers.size(); ++k) {
    const Layer& layer = graph.layers[k];
    std::vector<Candidate>& own = candidates[k];
    if (layer.kind() == LayerKind::kContract) {
      for (size_t number = 0; number < own.size(); ++number) {
        if (!own[number].placements.back().is_rows) offered[k].push_back(number);
      }
    }
    const auto* map = std::get_if<MapLayer>(&layer.body);
    if (map == nullptr || element_count(map->extents) < kFewElements) continue;
    std::set<std::string> known;
    for (const TensorAccess& input : map->inputs) {
      const auto source = source_of(input.tensor, makers, graph);
      if (!source || source->layer >= k || offered[source->layer].empty()) continue;
      const auto dims =
          inverse(input.map, map->extents, graph.tensors[static_cast<size_t>(input.tensor)].shape);
      if (!dims) continue;
      for (const size_t number : offered[source->layer]) {
        const StreamPlacement like = essential(candidates[source->layer][number].placements.back());
        const AffineMap at = dims->after(source->at).after(like.access.map);
        std::optional<Candidate> candidate = map_candidate_like(like, at, layer, chip);
        if (!candidate || offered[k].size() == kMostAdopted) continue;
        if (!known.insert(key_of(candidate->placements.back())).second) continue;
        offered[k].push_back(own.size());
        own.push_back(std::move(*candidate));
      }
    }
  }
}

}  // namespace kodama::compiler
