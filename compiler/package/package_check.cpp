#include "compiler/package/package_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <string_view>

#include "compiler/layers/batch.h"
#include "compiler/streams/stream_image.h"
#include "isa/error.h"

namespace kodama::compiler {
namespace {

/// No machine holds as many elements, and sums of products of numbers up to this fit into 64 bits.
constexpr int64_t kLargest = int64_t{1} << 48;

// Sums and products of what a file claims.
__extension__ typedef __int128 Wide;

template <typename... Args>
[[noreturn]] void fail(const std::string& path, fmt::format_string<Args...> format, Args&&... args) {
  throw isa::UserError(path + ": " + fmt::format(format, std::forward<Args>(args)...));
}

std::string at(std::string_view list, size_t index) {
  return fmt::format("{}[{}]", list, index);
}

/// The product, but for extents of 0 that of the others.
Wide magnitude(const Shape& shape) {
  Wide product = 1;
  for (const int64_t extent : shape)
    product = std::min<Wide>(product * std::max<int64_t>(extent, 1), Wide{1} << 100);
  return product;
}

class ModelCheck {
 public:
  explicit ModelCheck(const CompiledModel& model) : model_(model) {}

  void run() {
    for (size_t id = 0; id < model_.tensors.size(); ++id) check_tensor(id);
    for (size_t id = 0; id < model_.tensors.size(); ++id) check_alias(id);
    if (model_.slices < 1 || model_.slices > kLargest)
      fail("slices", "found {}, allowed: 1 to {}", model_.slices, kLargest);
    for (size_t id = 0; id < model_.tensors.size(); ++id) check_slices(id);
    check_ends("inputs", model_.inputs);
    check_ends("outputs", model_.outputs);
    for (size_t k = 0; k < model_.checks.size(); ++k) {
      const std::string path = at("checks", k) + ".tensor";
      check_id(path, model_.checks[k].tensor);
      const DataType type = tensor(model_.checks[k].tensor).type;
      if (!is_index_type(type)) fail(path, "found one of {}, allowed: int32 and int64", data_type_name(type));
    }
    for (size_t k = 0; k < model_.ties.size(); ++k) check_tie(at("ties", k), model_.ties[k]);
    for (size_t k = 0; k < model_.preloads.size(); ++k) check_preload(at("images", k), model_.preloads[k]);
    for (size_t k = 0; k < model_.stages.size(); ++k) check_stage(at("stages", k), model_.stages[k]);
    check_segments();
    check_order();
  }

 private:
  const LayerTensor& tensor(TensorId id) const { return model_.tensors[static_cast<size_t>(id)]; }

  void check_id(const std::string& path, TensorId id, TensorId lowest = 0) const {
    if (id < lowest || id >= static_cast<TensorId>(model_.tensors.size()))
      fail(path, "found tensor {}, allowed: {} to {}", id, lowest,
           static_cast<int64_t>(model_.tensors.size()) - 1);
  }
  static void check_shape(const std::string& path, const Shape& shape) {
    for (size_t axis = 0; axis < shape.size(); ++axis) {
      if (shape[axis] < 0) fail(at(path, axis), "found {}, allowed: 0 and more", shape[axis]);
    }
    if (magnitude(shape) > kLargest)
      fail(path, "found {}, allowed: up to {} elements", shape_to_string(shape), kLargest);
  }

  void check_tensor(size_t id) const {
    const LayerTensor& tensor = model_.tensors[id];
    const std::string path = at("tensors", id);
    check_shape(path + ".shape", tensor.shape);
    if (!tensor.constant) return;
    if (tensor.constant->type() != tensor.type || tensor.constant->shape() != tensor.shape)
      fail(path + ".constant", "found a {} of shape {}, allowed: a {} of shape {}",
           data_type_name(tensor.constant->type()), shape_to_string(tensor.constant->shape()),
           data_type_name(tensor.type), shape_to_string(tensor.shape));
  }
  /// Aliases name an earlier or later tensor, but never in a circle.
  void check_alias(size_t id) const {
    const std::string path = at("tensors", id) + ".alias_of";
    const LayerTensor& alias = model_.tensors[id];
    check_id(path, alias.alias_of, -1);
    if (alias.alias_of < 0) return;
    const LayerTensor& target = tensor(alias.alias_of);
    if (!is_alias(alias, target))
      fail(path, "found a {} of shape {}, which isn't {} of shape {} in another shape",
           data_type_name(target.type), shape_to_string(target.shape), data_type_name(alias.type),
           shape_to_string(alias.shape));
    size_t hops = 0;
    for (TensorId next = alias.alias_of; next >= 0; next = tensor(next).alias_of) {
      check_id(path, next);
      if (++hops > model_.tensors.size()) fail(path, "tensor {} is an alias of itself", id);
    }
  }
  /// The tensor of all slices must be one that a machine could hold, too.
  void check_slices(size_t id) const {
    const std::string path = at("tensors", id) + ".slice_axis";
    const int axis = model_.slice_axes[id];
    const auto rank = static_cast<int>(model_.tensors[id].shape.size());
    if (axis < Batch::kSame || axis >= rank)
      fail(path, "found {}, allowed: {} to {}", axis, Batch::kSame, rank - 1);
    if (axis != Batch::kSame && magnitude(model_.tensors[id].shape) * model_.slices > kLargest)
      fail(path, "found {} slices of {}, allowed: up to {} elements", model_.slices,
           shape_to_string(model_.tensors[id].shape), kLargest);
  }
  void check_ends(std::string_view list, const std::vector<TensorId>& ids) const {
    std::set<std::string> names;
    for (size_t k = 0; k < ids.size(); ++k) {
      check_id(at(list, k), ids[k]);
      if (!names.insert(tensor(ids[k]).name).second)
        fail(at(list, k), "found tensor '{}' twice", tensor(ids[k]).name);
    }
  }

  /// What is made of an output takes the place of an input of its type and shape.
  void check_tie(const std::string& path, const Tie& tie) const {
    check_id(path + ".output", tie.output);
    check_id(path + ".input", tie.input);
    const auto is_among = [](const std::vector<TensorId>& ids, TensorId id) {
      return std::ranges::find(ids, id) != ids.end();
    };
    if (!is_among(model_.outputs, tie.output)) fail(path + ".output", "found no output of the model");
    if (!is_among(model_.inputs, tie.input)) fail(path + ".input", "found no input of the model");
    const LayerTensor& output = tensor(tie.output);
    const LayerTensor& input = tensor(tie.input);
    if (output.type != input.type || output.shape != input.shape)
      fail(path, "found a {} of shape {} in the place of a {} of shape {}", data_type_name(output.type),
           shape_to_string(output.shape), data_type_name(input.type), shape_to_string(input.shape));
  }

  void check_dram(const std::string& path, int64_t address, int64_t size) const {
    const int64_t all = model_.chip.memory.dram_lw;
    if (address < 0 || address > all || size > all - address)
      fail(path, "found {} long words at {}, allowed: {} of DRAM in all", size, address, all);
  }
  void check_preload(const std::string& path, const CompiledModel::Preload& preload) const {
    const auto& groups = preload.image.groups;
    if (groups.size() > static_cast<size_t>(model_.chip.groups))
      fail(path + ".lw_per_group", "found {} groups, allowed: up to {}", groups.size(), model_.chip.groups);
    check_dram(path + ".dram_address", preload.dram_address, 0);
    for (const std::vector<uint64_t>& group : groups)
      check_dram(path + ".dram_address", preload.dram_address, static_cast<int64_t>(group.size()));
  }

  /// A map over points of `extents` into a tensor: no index and no offset of an element may overflow.
  static void check_map(const std::string& path, const AffineMap& map, const Shape& extents,
                        const Shape& shape) {
    if (map.axes() != shape.size())
      fail(path, "found {} axes, allowed: {}, as the tensor has", map.axes(), shape.size());
    Wide farthest = 0;
    Wide stride = 1;
    for (size_t axis = shape.size(); axis-- > 0;) {
      const auto size_of = [](int64_t value) { return value < 0 ? -Wide{value} : Wide{value}; };
      Wide reach = size_of(map.offset(axis));
      for (size_t dim = 0; dim < extents.size(); ++dim)
        reach += size_of(map.coefficient(axis, dim)) * std::max<int64_t>(extents[dim] - 1, 0);
      farthest += std::min<Wide>(reach, Wide{1} << 64) * stride;
      if (reach > kLargest || farthest > Wide{kLargest} * kLargest / 2 || farthest > Wide{1} << 61)
        fail(at(path, axis), "found indices too far from the tensor's {}", shape[axis]);
      stride *= std::max<int64_t>(shape[axis], 1);
    }
  }

  void check_binding(const std::string& path, const StreamBinding& binding) const {
    const StreamPlacement& placement = binding.placement;
    const layout::Layout& layout = placement.layout;
    check_id(path + ".access.tensor", placement.access.tensor);
    check_shape(path + ".extents", placement.extents);
    check_map(path + ".access.map", placement.access.map, placement.extents,
              tensor(placement.access.tensor).shape);

    const int64_t dram = model_.chip.memory.dram_lw;
    if (placement.length_lw < 0 || placement.length_lw > dram)
      fail(path + ".length_lw", "found {}, allowed: 0 to {}", placement.length_lw, dram);
    check_dram(path + ".dram_address", binding.dram_address, stream_group_lw(placement));

    if (layout.axes().size() != placement.axis_dims.size())
      fail(path + ".layout", "found {} axes, allowed: {}, as many as 'axes' has", layout.axes().size(),
           placement.axis_dims.size());
    Wide elements = 1;
    std::vector<bool> is_covered(placement.extents.size(), false);
    for (size_t axis = 0; axis < placement.axis_dims.size(); ++axis) {
      Wide size = 1;
      for (size_t k = 0; k < placement.axis_dims[axis].size(); ++k) {
        const int dim = placement.axis_dims[axis][k];
        if (dim < 0 || static_cast<size_t>(dim) >= is_covered.size() || is_covered[static_cast<size_t>(dim)])
          fail(at(at(path + ".axes", axis), k), "found {}, allowed: 0 to {}, each once", dim,
               static_cast<int64_t>(is_covered.size()) - 1);
        is_covered[static_cast<size_t>(dim)] = true;
        size *= placement.extents[static_cast<size_t>(dim)];
      }
      if (size > layout.extent(axis))
        fail(path + ".layout", "axis {} has room for {} of {} elements", axis, layout.extent(axis),
             static_cast<int64_t>(size));
      elements = std::min<Wide>(elements * layout.extent(axis), Wide{1} << 64);
    }
    for (size_t dim = 0; dim < is_covered.size(); ++dim) {
      for (size_t axis = 0; axis < placement.access.map.axes() && !is_covered[dim]; ++axis) {
        if (placement.access.map.coefficient(axis, dim) != 0)
          fail(path + ".axes", "the tensor's axis {} depends on dim {}, which isn't there", axis, dim);
      }
    }

    if (element_count(placement.extents) == 0) return;
    for (const layout::Factor& factor : layout.replication())
      elements = std::min<Wide>(elements * factor.size, Wide{1} << 64);
    const isa::Chip& chip = model_.chip;
    const std::pair<layout::Level, int64_t> levels[] = {
        {layout::Level::kL2b, chip.l2b_count()},        {layout::Level::kL1b, chip.l1b_per_l2b},
        {layout::Level::kMab, chip.mab_per_l1b},        {layout::Level::kPe, isa::kPePerMab},
        {layout::Level::kAddress, placement.length_lw}, {layout::Level::kWord, placement.elements_per_lw()}};
    Wide places = 1;
    for (const auto& [level, size] : levels) places *= size;
    if (elements > places) fail(path + ".layout", "found more elements than places");
    for (const auto& [level, size] : levels) {
      if (layout.level_extent(level) > size)
        fail(path + ".layout", "found {} {}, allowed: up to {}", layout.level_extent(level),
             level == layout::Level::kAddress ? "addresses" : layout::level_name(level), size);
    }
  }

  static void check_result_type(const std::string& path, DataType type) {
    if (!word_kind(type)) fail(path, "found a result of type {}, which no chip makes", data_type_name(type));
  }
  static void check_operand_type(const std::string& path, DataType type) {
    if (!word_kind(type))
      fail(path, "found an operand of type {}, which no chip takes", data_type_name(type));
  }

  void check_stage(const std::string& path, const Stage& stage) const {
    for (size_t k = 0; k < stage.inputs.size(); ++k) check_id(at(path + ".inputs", k), stage.inputs[k], -1);
    for (size_t k = 0; k < stage.outputs.size(); ++k)
      check_id(at(path + ".outputs", k), stage.outputs[k], -1);
    const bool is_host = std::holds_alternative<HostStage>(stage.body);
    if (is_host != (stage.kind == LayerKind::kHost) ||
        (std::holds_alternative<RearrangeStage>(stage.body) && stage.kind != LayerKind::kRearrange))
      fail(path + ".kind", "found {}, which doesn't fit the rest of the stage", layer_kind_name(stage.kind));
    if (const auto* chip = std::get_if<ChipStage>(&stage.body)) {
      check_chip_stage(path, stage, *chip);
    } else if (const auto* rearrange = std::get_if<RearrangeStage>(&stage.body)) {
      check_rearrange(path, stage, rearrange->rearrange);
    } else {
      check_host(path, stage, std::get<HostStage>(stage.body));
    }
  }

  void check_chip_stage(const std::string& path, const Stage& stage, const ChipStage& chip) const {
    for (size_t k = 0; k < chip.operands.size(); ++k) {
      const std::string operand = at(path + ".operands", k);
      check_binding(operand, chip.operands[k]);
      if (chip.operands[k].origin == StreamBinding::Origin::kSent)
        check_operand_type(operand + ".access.tensor", tensor(chip.operands[k].placement.access.tensor).type);
    }
    check_binding(path + ".result", chip.result);
    const TensorId result = chip.result.placement.access.tensor;
    if (stage.outputs.empty() ? chip.fetch || stage.kind != LayerKind::kRearrange : stage.outputs.size() != 1)
      fail(path + ".outputs", "found {}, allowed: 1", stage.outputs.size());
    if (stage.outputs.empty()) return;
    if (stage.outputs[0] != result)
      fail(path + ".outputs[0]", "found tensor {}, allowed: {}, as 'result' says", stage.outputs[0], result);
    check_result_type(path + ".outputs[0]", tensor(result).type);
  }

  void check_rearrange(const std::string& path, const Stage& stage, const RearrangeLayer& rearrange) const {
    check_shape(path + ".rearrange.extents", rearrange.extents);
    if (stage.outputs.size() != 1) fail(path + ".outputs", "found {}, allowed: 1", stage.outputs.size());
    check_id(path + ".outputs[0]", stage.outputs[0]);
    const LayerTensor& result = tensor(stage.outputs[0]);
    if (rearrange.extents != result.shape)
      fail(path + ".rearrange.extents", "found {}, allowed: {}, as tensor '{}'",
           shape_to_string(rearrange.extents), shape_to_string(result.shape), result.name);
    if (stage.inputs.size() != rearrange.pieces.size())
      fail(path + ".rearrange.pieces", "found {}, allowed: {}, one for each input", rearrange.pieces.size(),
           stage.inputs.size());
    for (size_t k = 0; k < rearrange.pieces.size(); ++k) {
      const RearrangeLayer::Piece& piece = rearrange.pieces[k];
      const std::string where = at(path + ".rearrange.pieces", k);
      check_id(at(path + ".inputs", k), stage.inputs[k]);
      const LayerTensor& source = tensor(stage.inputs[k]);
      if (piece.input.tensor != stage.inputs[k])
        fail(where + ".input.tensor", "found {}, allowed: {}, as 'inputs' says", piece.input.tensor,
             stage.inputs[k]);
      if (source.type != result.type)
        fail(where + ".input.tensor", "found a {}, allowed: a {}, as the result", data_type_name(source.type),
             data_type_name(result.type));
      if (piece.begin.size() != rearrange.extents.size() || piece.end.size() != rearrange.extents.size())
        fail(where, "found a box of {} to {} axes, allowed: {}", piece.begin.size(), piece.end.size(),
             rearrange.extents.size());
      for (size_t axis = 0; axis < rearrange.extents.size(); ++axis) {
        if (piece.begin[axis] < 0 || piece.begin[axis] > rearrange.extents[axis])
          fail(at(where + ".begin", axis), "found {}, allowed: 0 to {}", piece.begin[axis],
               rearrange.extents[axis]);
        if (piece.end[axis] < 0 || piece.end[axis] > rearrange.extents[axis])
          fail(at(where + ".end", axis), "found {}, allowed: 0 to {}", piece.end[axis],
               rearrange.extents[axis]);
      }
      check_map(where + ".input.map", piece.input.map, rearrange.extents, source.shape);
    }
  }

  /// A node has the stage's inputs and outputs, in their order.
  static void check_host(const std::string& path, const Stage& stage, const HostStage& host) {
    const auto check = [&](const char* role, const std::vector<std::string>& names,
                           const std::vector<TensorId>& tensors) {
      if (names.size() != tensors.size())
        fail(fmt::format("{}.node.{}", path, role), "found {}, allowed: {}, as the stage has", names.size(),
             tensors.size());
      for (size_t k = 0; k < names.size(); ++k) {
        if (names[k].empty() != (tensors[k] < 0))
          fail(at(fmt::format("{}.node.{}", path, role), k), "found '{}', allowed: {}", names[k],
               tensors[k] < 0 ? "none, as the stage has" : "the name of the stage's tensor");
      }
    };
    check("inputs", host.node.inputs, stage.inputs);
    check("outputs", host.node.outputs, stage.outputs);
  }

  /// Chip stages, and no others, are in segments, which are in order.
  void check_segments() const {
    const auto count = static_cast<int>(model_.stages.size());
    std::vector<bool> covered(model_.stages.size(), false);
    int next = 0;
    for (size_t k = 0; k < model_.segments.size(); ++k) {
      const Segment& segment = model_.segments[k];
      if (segment.first_stage < next || segment.stage_count() > count - segment.first_stage)
        fail(at("segments", k), "found stages {} to {}, allowed: {} to {}", segment.first_stage,
             int64_t{segment.first_stage} + segment.stage_count() - 1, next, count - 1);
      next = segment.end_stage();
      std::fill(covered.begin() + segment.first_stage, covered.begin() + next, true);
    }
    for (size_t k = 0; k < covered.size(); ++k) {
      if (covered[k] != model_.stages[k].on_chip())
        fail(at("stages", k), "stage '{}' runs on the {}, but is in {} segment", model_.stages[k].name,
             model_.stages[k].on_chip() ? "chip" : "host", covered[k] ? "a" : "no");
    }
  }

  /// What the host reads or sends exists by then.
  void check_order() const {
    std::set<TensorId> made;  // storages
    for (size_t id = 0; id < model_.tensors.size(); ++id) {
      if (model_.tensors[id].constant) made.insert(model_.storage(static_cast<TensorId>(id)));
    }
    for (const TensorId id : model_.inputs) made.insert(model_.storage(id));
    const auto need = [&](const std::string& path, TensorId id) {
      if (!made.contains(model_.storage(id)))
        fail(path, "tensor '{}' is read before it is made", tensor(id).name);
    };
    auto segment = model_.segments.begin();
    for (size_t k = 0; k < model_.stages.size();) {
      const Stage& stage = model_.stages[k];
      if (!stage.on_chip()) {
        for (size_t j = 0; j < stage.inputs.size(); ++j) {
          if (stage.inputs[j] >= 0) need(at(at("stages", k) + ".inputs", j), stage.inputs[j]);
        }
        for (const TensorId id : stage.outputs) {
          if (id >= 0) made.insert(model_.storage(id));
        }
        ++k;
        continue;
      }
      // The host sends everything before a segment, and fetches behind it.
      const auto end = static_cast<size_t>((segment++)->end_stage());
      const auto chip = [&](size_t s) -> const ChipStage& {
        return std::get<ChipStage>(model_.stages[s].body);
      };
      for (size_t s = k; s < end; ++s) {
        for (size_t j = 0; j < chip(s).operands.size(); ++j) {
          const StreamBinding& operand = chip(s).operands[j];
          if (operand.origin == StreamBinding::Origin::kSent)
            need(at(at("stages", s) + ".operands", j) + ".access.tensor", operand.placement.access.tensor);
        }
      }
      for (size_t s = k; s < end; ++s) {
        if (chip(s).fetch && !chip(s).stored)
          fail(at("stages", s) + ".stored", "found false, allowed: true, since the host fetches the result");
        for (const StreamBinding& operand : chip(s).operands) check_stored(operand, k);
        if (chip(s).fetch) made.insert(model_.storage(model_.stages[s].outputs[0]));
      }
      k = end;
    }
    for (size_t k = 0; k < model_.outputs.size(); ++k) need(at("outputs", k), model_.outputs[k]);
    for (size_t k = 0; k < model_.checks.size(); ++k)
      need(at("checks", k) + ".tensor", model_.checks[k].tensor);
  }

  /// What comes from a stage before the segment that begins with stage `begin` is in DRAM.
  void check_stored(const StreamBinding& operand, size_t begin) const {
    if (operand.origin != StreamBinding::Origin::kOnChip) return;
    for (size_t s = begin; s-- > 0;) {
      const auto* maker = std::get_if<ChipStage>(&model_.stages[s].body);
      if (maker == nullptr || maker->result.dram_address != operand.dram_address) continue;
      // What isn't stored leaves the place to others.
      const bool is_other = model_.storage(maker->result.placement.access.tensor) !=
                            model_.storage(operand.placement.access.tensor);
      if (!maker->stored && is_other) continue;
      if (!maker->stored)
        fail(at("stages", s) + ".stored",
             "found false, allowed: true, since another segment reads the result");
      return;
    }
  }

  const CompiledModel& model_;
};

}  // namespace

void check_package_model(const CompiledModel& model) {
  ModelCheck(model).run();
}

}  // namespace kodama::compiler
