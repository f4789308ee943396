#include "compiler/kernels/pad_channels.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include "compiler/kernels/rows.h"
#include "compiler/kernels/rows_problem.h"
#include "compiler/kernels/rows_windows.h"
#include "compiler/tensor/fresh_names.h"
#include "compiler/tile/tile_program.h"
#include "isa/arithmetic.h"

namespace kodama::compiler {
namespace {

/// Of [N, C, H, W].
constexpr size_t kChannelAxis = 1;

/// `count` channels from `from` on come to be those from `to` on.
struct ChannelMove {
  int64_t from = 0, count = 0, to = 0;
};
/// Where the channels of a tensor come to be, among `channels`.
struct ChannelPadding {
  std::vector<ChannelMove> moves;
  int64_t channels = 0;
};

/// An operand of a layer that has the channels of a tensor on one of its axes: a matrix, or a bias.
struct ChannelUse {
  size_t layer = 0, access = 0;
  size_t axis = 0;
};
/// What becomes of a tensor with its padding: constants that have its channels, too, and dims of products.
struct PaddedTensor {
  TensorId tensor = -1;
  ChannelPadding padding;
  std::vector<ChannelUse> constants;
  std::vector<std::pair<size_t, int>> dims;  ///< layer, dim
  double value = 0;                          ///< in the new channels, or kSomething
};
/// Finite, but not known.
constexpr double kSomething = std::numeric_limits<double>::quiet_NaN();

class ChannelPadder {
 public:
  ChannelPadder(LayerGraph& graph, const isa::Chip& chip) : graph_(graph), chip_(chip) {
    for (const LayerTensor& tensor : graph.tensors) names_.reserve(tensor.name);
  }

  void run() {
    for (size_t index = 0; index < graph_.layers.size(); ++index) {
      pad_parts(index);
      pad_groups(index);
    }
  }

 private:
  const LayerTensor& tensor(TensorId id) const { return graph_.tensors[static_cast<size_t>(id)]; }
  bool is_output(TensorId id) const {
    return std::ranges::any_of(graph_.outputs, [&](TensorId output) { return graph_.storage(output) == id; });
  }
  /// The layers that read a tensor, each once; nothing where one reads it in another shape, or on the host.
  std::optional<std::vector<size_t>> readers(TensorId id) const {
    std::vector<size_t> list;
    for (size_t k = 0; k < graph_.layers.size(); ++k) {
      const Layer& layer = graph_.layers[k];
      std::vector<TensorId> inputs = layer_inputs(layer);
      inputs.insert(inputs.end(), layer.host_inputs.begin(), layer.host_inputs.end());
      const auto reads = [&](TensorId input) { return input >= 0 && graph_.storage(input) == id; };
      if (std::ranges::none_of(inputs, reads)) continue;
      const auto is_plain = [&](TensorId input) { return !reads(input) || input == id; };
      if (layer.kind() == LayerKind::kHost || !std::ranges::all_of(inputs, is_plain)) return std::nullopt;
      list.push_back(k);
    }
    return list;
  }

  /// The product of a layer, if it has no groups of channels.
  std::optional<RowsProblem> product_of(const Layer& layer) const {
    const auto* contract = std::get_if<ContractLayer>(&layer.body);
    if (contract == nullptr) return std::nullopt;
    auto problem = rows_problem(*contract, layer.outputs[0], graph_, 0);
    if (!problem || problem->in.tokens || problem->matrix.outs.size() > 1) return std::nullopt;
    return problem;
  }

  /// Adds those operands of a layer that have `dim` to what is padded; says whether all that have it are
  /// constants with `channels` channels on an axis of their own. `but`: an access that is looked after.
  bool add_constants(PaddedTensor& padded, size_t layer, int dim, const TensorAccess* but) const {
    const auto accesses = layer_accesses(graph_.layers[layer]);
    const auto number = static_cast<size_t>(dim);
    for (size_t k = 0; k < accesses.size(); ++k) {
      const TensorAccess& access = *accesses[k];
      if (&access == but) continue;
      std::optional<size_t> own;
      for (size_t axis = 0; axis < access.map.axes(); ++axis) {
        if (access.map.coefficient(axis, number) == 0) continue;
        if (own || access.map.coefficient(axis, number) != 1 || access.map.offset(axis) != 0) return false;
        own = axis;
      }
      if (!own) continue;
      for (size_t other = 0; other < access.map.dims(); ++other) {
        if (other != number && access.map.coefficient(*own, other) != 0) return false;
      }
      const auto& constant = tensor(graph_.storage(access.tensor)).constant;
      if (!constant || tensor(access.tensor).shape[*own] != tensor(padded.tensor).shape[kChannelAxis])
        return false;
      padded.constants.push_back({layer, k, *own});
    }
    padded.dims.emplace_back(layer, dim);
    return true;
  }

  /// What the epilogue makes of zeros.
  static double value_of_zeros(const ContractLayer& contract) {
    return contract.epilogue.evaluate(std::vector<double>(contract.epilogue_inputs.size() + 1, 0.0));
  }

  /// Of a tensor that a product makes for layer `reader` alone; nothing where it must stay as it is.
  std::optional<PaddedTensor> padded_operand(TensorId part, size_t reader) const {
    const auto found = std::ranges::find_if(graph_.layers, [&](const Layer& layer) {
      return layer.outputs.size() == 1 && layer.outputs[0] == part;
    });
    if (found == graph_.layers.end() || is_output(part) || readers(part) != std::vector<size_t>{reader})
      return std::nullopt;
    const auto problem = product_of(*found);
    if (!problem || problem->out.tokens) return std::nullopt;
    const auto& contract = std::get<ContractLayer>(found->body);
    PaddedTensor padded{part, {}, {}, {}, value_of_zeros(contract)};
    // Zeros times what is in the new channels are zeros.
    if (!std::isfinite(padded.value)) return std::nullopt;
    const auto layer = static_cast<size_t>(found - graph_.layers.begin());
    if (!add_constants(padded, layer, problem->out_channel, nullptr)) return std::nullopt;
    return padded;
  }

  /// Adds a tensor with `value` in the new channels to `list`, and those that get the same channels with it:
  /// what pooling and Maps make of it, and what products make for these. Says whether all who read it can.
  bool add_readers(TensorId id, double value, std::vector<PaddedTensor>& list) const {
    const auto layers = readers(id);
    if (is_output(id) || !layers) return false;
    list.push_back({id, {}, {}, {}, value});
    const size_t own = list.size() - 1;
    for (const size_t reader : *layers) {
      const Layer& layer = graph_.layers[reader];
      if (const auto* reduce = std::get_if<ReduceLayer>(&layer.body)) {
        const TensorId result = layer.outputs[0];
        const auto pool = pool_problem(*reduce, result, graph_);
        if (!pool || reduce->inputs.size() != 1 || !pool->inputs.empty() ||
            tensor(result).shape.size() != 4 ||
            !add_readers(result, value == 0 ? reduce->epilogue.evaluate(std::vector{0.0}) : kSomething, list))
          return false;
        continue;
      }
      if (layer.kind() == LayerKind::kMap) {
        if (!add_map(reader, own, list)) return false;
        continue;
      }
      const auto problem = product_of(layer);
      if (!problem || problem->matrix.ins.size() != 1 || problem->matrix.ins[0].size() != 1) return false;
      const auto& contract = std::get<ContractLayer>(layer.body);
      const TensorAccess& operand = problem->weights_first ? contract.b : contract.a;
      const std::vector<TensorId> inputs = layer_inputs(layer);
      if (operand.tensor != id || std::ranges::count(inputs, id) > 1 ||
          !add_constants(list[own], reader, problem->matrix.ins[0][0], &operand))
        return false;
    }
    return true;
  }

  /// The same for a Map that reads tensor number `own` of the list.
  bool add_map(size_t number, size_t own, std::vector<PaddedTensor>& list) const {
    const Layer& layer = graph_.layers[number];
    const auto& map = std::get<MapLayer>(layer.body);
    const TensorId result = layer.outputs[0];
    const int64_t channels = tensor(list[own].tensor).shape[kChannelAxis];
    if (layer.outputs.size() != 1 || map.extents.size() != 4 || map.extents != tensor(result).shape ||
        map.extents[kChannelAxis] != channels)
      return false;
    std::vector<double> values;
    for (size_t k = 0; k < map.inputs.size(); ++k) {
      const TensorAccess& access = map.inputs[k];
      const std::optional<size_t> axis = axis_of_channels(access.map);
      const LayerTensor& input = tensor(access.tensor);
      if (!axis || input.shape[*axis] != channels) return false;
      if (tensor(graph_.storage(access.tensor)).constant) {
        list[own].constants.push_back({number, k, *axis});
        values.push_back(0);
      } else if (access.tensor == list[own].tensor) {
        if (*axis != kChannelAxis) return false;
        values.push_back(list[own].value);
      } else {
        auto made = padded_operand(access.tensor, number);
        if (!made || *axis != kChannelAxis || std::ranges::count(layer_inputs(layer), access.tensor) > 1)
          return false;
        values.push_back(made->value);
        list.push_back(std::move(*made));
      }
    }
    const double value = map.expr.evaluate(values);
    return std::isfinite(value) && add_readers(result, value, list);
  }
  /// The axis that has a Map's channels and nothing else.
  static std::optional<size_t> axis_of_channels(const AffineMap& map) {
    std::optional<size_t> own;
    for (size_t axis = 0; axis < map.axes(); ++axis) {
      if (map.coefficient(axis, kChannelAxis) == 0) continue;
      if (own || map.offset(axis) != 0) return std::nullopt;
      own = axis;
      for (size_t dim = 0; dim < map.dims(); ++dim) {
        if (map.coefficient(axis, dim) != (dim == kChannelAxis ? 1 : 0)) return std::nullopt;
      }
    }
    return own;
  }

  void pad_parts(size_t index) {
    const Layer& layer = graph_.layers[index];
    const auto* rearrange = std::get_if<RearrangeLayer>(&layer.body);
    if (rearrange == nullptr || rearrange->extents.size() != 4) return;
    const TensorId whole = layer.outputs[0];
    const std::vector<TensorId> parts = concatenated_of(graph_, whole, kChannelAxis);
    if (parts.size() < 2 || parts.size() != rearrange->pieces.size()) return;
    ChannelPadding padding;
    int64_t channels = 0;
    bool has_whole_chunks = true;
    std::vector<PaddedTensor> list;
    for (const TensorId part : parts) {
      if (std::ranges::count(parts, part) > 1) return;
      const int64_t count = tensor(part).shape[kChannelAxis];
      has_whole_chunks = has_whole_chunks && channels % kChunkChannels == 0;
      padding.moves.push_back({channels, count, padding.channels});
      channels += count;
      padding.channels += isa::round_up(count, kChunkChannels);
    }
    // More than an eighth of all chunks costs more than it saves.
    const int64_t chunks = isa::ceil_div(channels, kChunkChannels);
    if (has_whole_chunks || 8 * (padding.channels / kChunkChannels - chunks) > chunks) return;
    for (const ChannelMove& move : padding.moves) {
      const TensorId part = parts[static_cast<size_t>(&move - padding.moves.data())];
      if (move.count % kChunkChannels == 0) continue;
      auto padded = padded_operand(part, index);
      if (!padded) return;
      padded->padding = {{{0, move.count, 0}}, isa::round_up(move.count, kChunkChannels)};
      list.push_back(std::move(*padded));
    }
    const size_t first_reader = list.size();
    const double first = list.front().value;
    const double value =
        std::ranges::count(list, first, &PaddedTensor::value) == std::ssize(list) ? first : kSomething;
    if (!add_readers(whole, value, list)) return;
    for (size_t k = first_reader; k < list.size(); ++k) list[k].padding = padding;
    for (const PaddedTensor& padded : list) apply(padded);
    move_pieces(std::get<RearrangeLayer>(graph_.layers[index].body), padding);
  }

  void pad_groups(size_t index) {
    const Layer& layer = graph_.layers[index];
    const auto* contract = std::get_if<ContractLayer>(&layer.body);
    if (contract == nullptr) return;
    const auto problem = rows_problem(*contract, layer.outputs[0], graph_, 0);
    if (!problem || problem->in.tokens || problem->out.tokens || problem->groups.count == 1 ||
        problem->sections.count > 1)
      return;
    const ChannelGroups groups = problem->groups;
    const std::optional<ChannelGroups> wanted =
        padded_groups(groups, problem->window.kernel[0] * problem->window.kernel[1]);
    if (!wanted) return;
    const TensorAccess& operand = problem->weights_first ? contract->b : contract->a;
    auto made = padded_operand(operand.tensor, index);
    if (!made) return;
    const ChannelPadding ins = padding_of(groups.count, groups.in, wanted->count, wanted->in);
    const ChannelPadding outs = padding_of(groups.count, groups.out, wanted->count, wanted->out);
    made->padding = ins;
    std::vector<PaddedTensor> list{std::move(*made)};
    const double value = value_of_zeros(*contract);
    if (!std::isfinite(value) || !add_readers(layer.outputs[0], value, list)) return;
    for (size_t k = 1; k < list.size(); ++k) list[k].padding = outs;
    const auto constants = constants_of_groups(index, groups, &operand);
    if (!constants) return;

    for (const PaddedTensor& padded : list) apply(padded);
    for (const ChannelUse& use : *constants) {
      TensorAccess& access = *layer_accesses(graph_.layers[use.layer])[use.access];
      const bool has_groups = access.map.coefficient(use.axis, static_cast<size_t>(groups.dim)) != 0;
      access.tensor = padded_constant(access.tensor, use.axis,
                                      has_groups ? outs : padding_of(1, groups.in, 1, wanted->in));
    }
    auto& changed = std::get<ContractLayer>(graph_.layers[index].body);
    const auto dim = [&](int number) -> ContractLayer::Dim& {
      return changed.dims[static_cast<size_t>(number)];
    };
    dim(groups.dim).extent = wanted->count;
    dim(groups.in_dim).extent = wanted->in;
    dim(groups.out_dim).extent = wanted->out;
    const auto set_strides = [&](AffineMap& map, int64_t channels) {
      for (size_t axis = 0; axis < map.axes(); ++axis) {
        if (map.coefficient(axis, static_cast<size_t>(groups.dim)) != 0)
          map.set(axis, static_cast<size_t>(groups.dim), channels);
      }
    };
    set_strides(changed.output, wanted->out);
    for (TensorAccess* access : layer_accesses(graph_.layers[index]))
      set_strides(access->map,
                  access == &(problem->weights_first ? changed.b : changed.a) ? wanted->in : wanted->out);
  }

  /// Groups of which sections can be made for fewer products of chunks than all channels with all, also where
  /// the layers before and behind have as many products more. Groups become as wide as a power of two or
  /// whole chunks, or else more of them follow.
  std::optional<ChannelGroups> padded_groups(const ChannelGroups& groups, int64_t positions) const {
    const auto chunks = [](int64_t channels) { return isa::ceil_div(channels, kChunkChannels); };
    const int64_t in = chunks(groups.count * groups.in), out = chunks(groups.count * groups.out);
    const auto widened = [](int64_t width) {
      return width < kChunkChannels ? static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(width)))
                                    : isa::round_up(width, kChunkChannels);
    };
    std::optional<ChannelGroups> best;
    int64_t least = in * out * positions;
    for (const bool widens : {false, true}) {
      ChannelGroups padded = groups;
      if (widens) {
        padded.in = widened(groups.in);
        padded.out = widened(groups.out);
      }
      for (; padded.count < groups.count + kChunkChannels; ++padded.count) {
        const RowsSections sections = sections_of(padded);
        if (sections.count == 1) continue;
        // Pictures of few channels are divided by rows.
        if (sections.count >= chip_.groups && !is_nearly_even(sections.count, chip_.l2b_count())) continue;
        // Their other sides are taken to have as many channels.
        const int64_t beside =
            (chunks(padded.count * padded.in) - in) * in + (chunks(padded.count * padded.out) - out) * out;
        const int64_t products = sections.count * sections.in_chunks * sections.out_chunks * positions;
        if (products + 2 * beside >= least) continue;
        least = products + 2 * beside;
        best = padded;
      }
    }
    return best;
  }
  /// Each of `count` groups of `width` channels at the beginning of one of `channels`, of which there are
  /// more.
  static ChannelPadding padding_of(int64_t count, int64_t width, int64_t padded_count, int64_t padded_width) {
    ChannelPadding padding;
    for (int64_t group = 0; group < count; ++group)
      padding.moves.push_back({group * width, width, group * padded_width});
    padding.channels = padded_count * padded_width;
    return padding;
  }
  /// The axes of constants of a layer that have its groups, or inputs of one; nothing where others have them.
  /// `but`: the operand.
  std::optional<std::vector<ChannelUse>> constants_of_groups(size_t layer, const ChannelGroups& groups,
                                                             const TensorAccess* but) const {
    std::vector<ChannelUse> list;
    const auto accesses = layer_accesses(graph_.layers[layer]);
    for (size_t k = 0; k < accesses.size(); ++k) {
      const TensorAccess& access = *accesses[k];
      if (&access == but) continue;
      const auto& constant = tensor(graph_.storage(access.tensor)).constant;
      for (size_t axis = 0; axis < access.map.axes(); ++axis) {
        const int64_t of_group = access.map.coefficient(axis, static_cast<size_t>(groups.dim));
        const int64_t of_input = access.map.coefficient(axis, static_cast<size_t>(groups.in_dim));
        if (of_group == 0 && of_input == 0) continue;
        const int64_t channels = of_group != 0 ? groups.count * groups.out : groups.in;
        if (!constant || tensor(access.tensor).shape[axis] != channels || access.map.offset(axis) != 0)
          return std::nullopt;
        list.push_back({layer, k, axis});
      }
    }
    return list;
  }

  void apply(const PaddedTensor& padded) {
    for (const ChannelUse& use : padded.constants) {
      TensorAccess& access = *layer_accesses(graph_.layers[use.layer])[use.access];
      access.tensor = padded_constant(access.tensor, use.axis, padded.padding);
    }
    const int64_t channels = padded.padding.channels;
    for (const auto& [layer, dim] : padded.dims)
      std::get<ContractLayer>(graph_.layers[layer].body).dims[static_cast<size_t>(dim)].extent = channels;
    graph_.tensors[static_cast<size_t>(padded.tensor)].shape[kChannelAxis] = channels;
    for (Layer& layer : graph_.layers) {
      if (layer.outputs[0] != padded.tensor) continue;
      if (auto* contract = std::get_if<ContractLayer>(&layer.body))
        contract->output_shape[kChannelAxis] = channels;
      if (auto* reduce = std::get_if<ReduceLayer>(&layer.body))
        reduce->output_extents[kChannelAxis] = channels;
      if (auto* map = std::get_if<MapLayer>(&layer.body)) map->extents[kChannelAxis] = channels;
    }
  }

  /// A constant with zeros between the channels that it has on an axis.
  TensorId padded_constant(TensorId id, size_t axis, const ChannelPadding& padding) {
    LayerTensor result = tensor(id);
    const Tensor& from = *tensor(graph_.storage(id)).constant;
    const auto product = [&](size_t begin, size_t end) {
      return std::accumulate(result.shape.begin() + static_cast<std::ptrdiff_t>(begin),
                             result.shape.begin() + static_cast<std::ptrdiff_t>(end), int64_t{1},
                             std::multiplies<>());
    };
    const int64_t rows = product(0, axis), before = result.shape[axis];
    const int64_t bytes =
        product(axis + 1, result.shape.size()) * static_cast<int64_t>(element_size(from.type()));
    result.shape[axis] = padding.channels;
    result.name = names_.make_unique(result.name + "/padded");
    result.alias_of = -1;
    Tensor padded(from.type(), result.shape);
    for (int64_t row = 0; row < rows; ++row) {
      for (const ChannelMove& move : padding.moves) {
        const auto source = from.bytes().begin() + (row * before + move.from) * bytes;
        std::copy(source, source + move.count * bytes,
                  padded.bytes().begin() + (row * padding.channels + move.to) * bytes);
      }
    }
    result.constant = std::move(padded);
    graph_.tensors.push_back(std::move(result));
    return static_cast<TensorId>(graph_.tensors.size()) - 1;
  }

  static void move_pieces(RearrangeLayer& rearrange, const ChannelPadding& padding) {
    rearrange.extents[kChannelAxis] = padding.channels;
    for (RearrangeLayer::Piece& piece : rearrange.pieces) {
      const auto move = std::ranges::find(padding.moves, piece.begin[kChannelAxis], &ChannelMove::from);
      piece.begin[kChannelAxis] = move->to;
      piece.end[kChannelAxis] = move->to + isa::round_up(move->count, kChunkChannels);
      piece.input.map.set_offset(kChannelAxis, -move->to);
    }
  }

  LayerGraph& graph_;
  const isa::Chip& chip_;
  FreshNames names_;
};

}  // namespace

void pad_channels(LayerGraph& graph, const isa::Chip& chip) {
  if (chip.mab_per_l1b != kBlocksPerChunk * kBlocksPerChunk) return;
  ChannelPadder(graph, chip).run();
}

}  // namespace kodama::compiler
