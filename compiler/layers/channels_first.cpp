#include <algorithm>
#include <array>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "compiler/layers/fusion.h"
#include "compiler/layers/layer_graph.h"
#include "compiler/tensor/fresh_names.h"

namespace kodama::compiler {
namespace {

/// Where a picture's axes are.
enum class AxisOrder : uint8_t {
  kUnknown,
  kFirst,  ///< [images, channels, rows, columns]
  kLast    ///< [images, rows, columns, channels]
};
constexpr size_t kPictureRank = 4;
/// Of every axis of [N, C, H, W], that of [N, H, W, C].
constexpr std::array<size_t, kPictureRank> kLastOfFirst = {0, 3, 1, 2};

size_t rows_axis(AxisOrder order) {
  return order == AxisOrder::kFirst ? 2 : 1;
}

/// Two pictures of a layer: what it reads at a place, and what it makes there.
struct Edge {
  TensorId read = -1, made = -1;
  bool has_windows = false;  ///< of rows and columns, with channels first
  /// Whether rows and columns go along with each other, by the order of what is read and of what is made.
  std::array<std::array<bool, 2>, 2> along = {};
  bool is_along(AxisOrder of_read, AxisOrder of_made) const {
    return along.at(index(of_read)).at(index(of_made));
  }
  static size_t index(AxisOrder order) { return order == AxisOrder::kFirst ? 0 : 1; }
};

class ChannelsFirst {
 public:
  explicit ChannelsFirst(LayerGraph& graph) : graph_(graph), orders_(graph.tensors.size()) {}

  void run() {
    find_edges();
    label();
    const std::set<TensorId> moved = moved_tensors();
    if (moved.empty()) return;
    FreshNames names;
    for (const LayerTensor& tensor : graph_.tensors) names.reserve(tensor.name);
    for (const TensorId id : moved) {
      move(id);
      LayerTensor& tensor = graph_.tensors[static_cast<size_t>(id)];
      tensor.name = names.make_unique(tensor.name + "/channels-first");
    }
    drop_identities(moved);
    drop_unused_tensors(graph_);
  }

 private:
  const LayerTensor& tensor(TensorId id) const { return graph_.tensors[static_cast<size_t>(id)]; }
  AxisOrder& order(TensorId id) { return orders_[static_cast<size_t>(id)]; }
  bool is_picture(TensorId id) const {
    return id >= 0 && tensor(id).shape.size() == kPictureRank && !graph_.is_constant(id);
  }
  static bool is_affine(const Layer& layer) {
    return layer.kind() == LayerKind::kMap || layer.kind() == LayerKind::kReduce ||
           layer.kind() == LayerKind::kContract || layer.kind() == LayerKind::kNormalize ||
           layer.kind() == LayerKind::kRearrange;
  }
  /// Where a layer makes what it makes at a point of `dims` dims.
  static AffineMap result_map(const Layer& layer, size_t dims) {
    if (const auto* contract = std::get_if<ContractLayer>(&layer.body)) return contract->output;
    return AffineMap::identity(kPictureRank).extended(0, dims - kPictureRank);
  }
  /// Whether rows and columns go along with each other, if the operand's order is `of_read`, the result's
  /// `of_made`.
  static bool is_along(const AffineMap& read, AxisOrder of_read, const AffineMap& made, AxisOrder of_made,
                       const Shape& extents) {
    for (size_t way = 0; way < 2; ++way) {
      bool has_dim = false;
      for (size_t dim = 0; dim < extents.size(); ++dim) {
        if (extents[dim] == 1 || made.coefficient(rows_axis(of_made) + way, dim) == 0) continue;
        has_dim = read.coefficient(rows_axis(of_read) + way, dim) != 0;
        if (!has_dim) return false;
      }
      if (!has_dim) return false;
    }
    return true;
  }
  /// Whether a layer reads windows of a picture with channels first: rows or columns of a result and of a
  /// kernel together.
  static bool has_windows(const AffineMap& read, const AffineMap& made, const Shape& extents) {
    for (size_t axis = 2; axis < kPictureRank; ++axis) {
      bool outer = false, inner = false;
      for (size_t dim = 0; dim < extents.size(); ++dim) {
        if (extents[dim] == 1 || read.coefficient(axis, dim) == 0) continue;
        (made.coefficient(axis, dim) != 0 ? outer : inner) = true;
      }
      if (outer && inner) return true;
    }
    return false;
  }

  void find_edges() {
    constexpr std::array<AxisOrder, 2> kOrders = {AxisOrder::kFirst, AxisOrder::kLast};
    for (const Layer& layer : graph_.layers) {
      if (!is_affine(layer) || layer.outputs.size() != 1 || !is_picture(layer.outputs[0])) continue;
      const bool has_kernel = layer.kind() == LayerKind::kContract || layer.kind() == LayerKind::kReduce;
      const std::vector<const TensorAccess*> accesses = layer_accesses(layer);
      const std::vector<AccessBox> boxes = layer_access_boxes(layer);
      for (size_t k = 0; k < accesses.size(); ++k) {
        if (!is_picture(accesses[k]->tensor)) continue;
        const AffineMap& read = accesses[k]->map;
        const Shape& extents = boxes[k].end;
        const AffineMap made = result_map(layer, extents.size());
        Edge edge{accesses[k]->tensor, layer.outputs[0], has_kernel && has_windows(read, made, extents)};
        for (const AxisOrder of_read : kOrders) {
          for (const AxisOrder of_made : kOrders)
            edge.along.at(Edge::index(of_read)).at(Edge::index(of_made)) =
                is_along(read, of_read, made, of_made, extents);
        }
        edges_.push_back(edge);
      }
    }
  }

  /// From layers with windows on, along rows and columns, there and back.
  void label() {
    for (const Edge& edge : edges_) {
      if (edge.has_windows) order(edge.read) = order(edge.made) = AxisOrder::kFirst;
    }
    for (bool changed = true; changed;) {
      changed = false;
      const auto set = [&](TensorId id, AxisOrder to) {
        if (order(id) != AxisOrder::kUnknown) return;
        order(id) = to;
        changed = true;
      };
      const auto visit = [&](const Edge& edge) {
        for (const AxisOrder other : {AxisOrder::kFirst, AxisOrder::kLast}) {
          if (const AxisOrder from = order(edge.read);
              from != AxisOrder::kUnknown && edge.is_along(from, other))
            set(edge.made, other);
          if (const AxisOrder to = order(edge.made); to != AxisOrder::kUnknown && edge.is_along(other, to))
            set(edge.read, other);
        }
      };
      std::ranges::for_each(edges_, visit);
      std::for_each(edges_.rbegin(), edges_.rend(), visit);
    }
  }

  /// Tensors with channels last that nobody sees but layers of affine accesses.
  std::vector<bool> movable() const {
    std::vector<bool> can(graph_.tensors.size());
    for (size_t id = 0; id < can.size(); ++id)
      can[id] = orders_[id] == AxisOrder::kLast && tensor(static_cast<TensorId>(id)).alias_of < 0;
    const auto keep = [&](TensorId id) {
      if (id >= 0) can[static_cast<size_t>(graph_.storage(id))] = false;
    };
    for (const LayerTensor& other : graph_.tensors) keep(other.alias_of);
    std::ranges::for_each(graph_.inputs, keep);
    std::ranges::for_each(graph_.outputs, keep);
    for (const Check& check : graph_.checks) keep(check.tensor);
    for (const Layer& layer : graph_.layers) {
      std::ranges::for_each(layer.host_inputs, keep);
      if (is_affine(layer) && layer.outputs.size() == 1) continue;
      std::ranges::for_each(layer_inputs(layer), keep);
      std::ranges::for_each(layer.outputs, keep);
    }
    return can;
  }

  /// Of tensors that go along with each other, all or none: those where more elements are then read as they
  /// are than are read in another order.
  std::set<TensorId> moved_tensors() {
    const std::vector<bool> can = movable();
    std::vector<TensorId> leader(graph_.tensors.size());
    std::iota(leader.begin(), leader.end(), 0);
    const auto find = [&](TensorId id) {
      while (leader[static_cast<size_t>(id)] != id) id = leader[static_cast<size_t>(id)];
      return id;
    };
    const auto is_movable = [&](TensorId id) { return can[static_cast<size_t>(id)]; };
    std::vector<std::pair<TensorId, int64_t>> gains;  // of the tensor's group, if it moves
    for (const Edge& edge : edges_) {
      const AxisOrder of_read = order(edge.read), of_made = order(edge.made);
      if (of_read == AxisOrder::kUnknown || of_made == AxisOrder::kUnknown ||
          !edge.is_along(of_read, of_made))
        continue;
      if (is_movable(edge.read) && is_movable(edge.made)) {
        leader[static_cast<size_t>(find(edge.read))] = find(edge.made);
      } else if (is_movable(edge.read) || is_movable(edge.made)) {
        const int64_t elements = element_count(tensor(edge.read).shape);
        gains.emplace_back(is_movable(edge.read) ? edge.read : edge.made,
                           of_read == of_made ? -elements : elements);
      }
    }
    std::map<TensorId, int64_t> gain_of;
    for (const auto& [id, gain] : gains) gain_of[find(id)] += gain;
    std::set<TensorId> moved;
    for (TensorId id = 0; id < static_cast<TensorId>(graph_.tensors.size()); ++id) {
      if (is_movable(id) && gain_of[find(id)] > 0) moved.insert(id);
    }
    return moved;
  }

  template <typename List>
  static List first_of(const List& last) {
    List first = last;
    for (size_t axis = 0; axis < kPictureRank; ++axis) first[axis] = last[kLastOfFirst.at(axis)];
    return first;
  }
  static AffineMap axes_first(const AffineMap& map) {
    AffineMap result = map;
    for (size_t axis = 0; axis < kPictureRank; ++axis) {
      const size_t from = kLastOfFirst.at(axis);
      result.set_offset(axis, map.offset(from));
      for (size_t dim = 0; dim < map.dims(); ++dim) result.set(axis, dim, map.coefficient(from, dim));
    }
    return result;
  }
  static AffineMap dims_first(const AffineMap& map) {
    AffineMap result = map;
    for (size_t axis = 0; axis < map.axes(); ++axis) {
      for (size_t dim = 0; dim < kPictureRank; ++dim)
        result.set(axis, dim, map.coefficient(axis, kLastOfFirst.at(dim)));
    }
    return result;
  }

  /// Gives a tensor its channels first, and says so to who makes and reads it.
  void move(TensorId id) {
    Shape& shape = graph_.tensors[static_cast<size_t>(id)].shape;
    shape = first_of(shape);
    for (Layer& layer : graph_.layers) {
      for (TensorAccess* access : layer_accesses(layer)) {
        if (access->tensor == id) access->map = axes_first(access->map);
      }
      if (layer.outputs.empty() || layer.outputs[0] != id) continue;
      if (auto* contract = std::get_if<ContractLayer>(&layer.body)) {
        contract->output = axes_first(contract->output);
        contract->output_shape = shape;
        continue;
      }
      for (TensorAccess* access : layer_accesses(layer)) access->map = dims_first(access->map);
      if (auto* map = std::get_if<MapLayer>(&layer.body)) map->extents = shape;
      if (auto* reduce = std::get_if<ReduceLayer>(&layer.body)) reduce->output_extents = shape;
      if (auto* normalize = std::get_if<NormalizeLayer>(&layer.body)) {
        normalize->extents = shape;
        normalize->reduced = first_of(normalize->reduced);
      }
      if (auto* rearrange = std::get_if<RearrangeLayer>(&layer.body)) {
        rearrange->extents = shape;
        for (RearrangeLayer::Piece& piece : rearrange->pieces) {
          piece.begin = first_of(piece.begin);
          piece.end = first_of(piece.end);
        }
      }
    }
  }

  /// Transposes that make what they read: who read them reads that.
  void drop_identities(const std::set<TensorId>& moved) {
    std::vector<Layer> kept;
    std::map<TensorId, TensorId> sources;
    for (Layer& layer : graph_.layers) {
      for (TensorAccess* access : layer_accesses(layer)) {
        if (const auto found = sources.find(access->tensor); found != sources.end())
          access->tensor = found->second;
      }
      const std::optional<TensorId> source = source_of(layer);
      if (!source || (!moved.contains(*source) && !moved.contains(layer.outputs[0]))) {
        kept.push_back(std::move(layer));
        continue;
      }
      const TensorId result = layer.outputs[0];
      sources[result] = *source;
      // The name that the model has for these elements in this order.
      if (moved.contains(*source) && !moved.contains(result))
        std::swap(graph_.tensors[static_cast<size_t>(*source)].name,
                  graph_.tensors[static_cast<size_t>(result)].name);
    }
    for (Layer& layer : kept) {
      for (TensorId& id : layer.host_inputs) {
        if (const auto found = sources.find(id); found != sources.end()) id = found->second;
      }
    }
    for (LayerTensor& alias : graph_.tensors) {
      if (const auto found = sources.find(alias.alias_of); found != sources.end())
        alias.alias_of = found->second;
    }
    graph_.layers = std::move(kept);
  }
  /// What a Rearrange is the same as; nothing where it isn't, or its name is the model's.
  std::optional<TensorId> source_of(const Layer& layer) const {
    const auto* rearrange = std::get_if<RearrangeLayer>(&layer.body);
    if (rearrange == nullptr || rearrange->pieces.size() != 1 || rearrange->extents.size() != kPictureRank)
      return std::nullopt;
    const RearrangeLayer::Piece& piece = rearrange->pieces[0];
    const TensorId source = piece.input.tensor;
    const bool is_whole = piece.begin == std::vector<int64_t>(kPictureRank, 0) &&
                          piece.end == rearrange->extents && is_picture(source) &&
                          tensor(source).shape == rearrange->extents &&
                          tensor(source).type == tensor(layer.outputs[0]).type;
    const bool is_output = std::ranges::any_of(
        graph_.outputs, [&](TensorId id) { return graph_.storage(id) == layer.outputs[0]; });
    if (!is_whole || is_output || tensor(source).alias_of >= 0) return std::nullopt;
    for (size_t axis = 0; axis < kPictureRank; ++axis) {
      if (piece.input.map.offset(axis) != 0) return std::nullopt;
      for (size_t dim = 0; dim < kPictureRank; ++dim) {
        if (rearrange->extents[dim] > 1 && piece.input.map.coefficient(axis, dim) != (axis == dim ? 1 : 0))
          return std::nullopt;
      }
    }
    return source;
  }

  LayerGraph& graph_;
  std::vector<Edge> edges_;
  std::vector<AxisOrder> orders_;  ///< by tensor
};

}  // namespace

void channels_first(LayerGraph& graph) {
  ChannelsFirst(graph).run();
}

}  // namespace kodama::compiler
