#include "compiler/report/network_json.h"

#include <map>

#include "compiler/kernels/lowering.h"
#include "compiler/report/traced_run.h"
#include "compiler/streams/stream_image.h"
#include "isa/costs.h"
#include "isa/error.h"
#include "layout/algebra/drawing.h"

namespace kodama::compiler {
namespace {

using nlohmann::ordered_json;

class NetworkJson {
 public:
  explicit NetworkJson(const CompiledModel& model) : model_(model), images_(model) {}

  void add_to(ordered_json& run) {
    for (size_t k = 0; k < model_.stages.size(); ++k) add_stage(static_cast<int>(k));
    for (const TensorId id : model_.outputs) {
      const auto maker = maker_.find(model_.storage(id));
      // An output may be an input or a constant.
      add_move(maker != maker_.end() ? maker->second.stage : -1, -1, id, "host link",
               maker != maker_.end() ? maker->second.binding : nullptr);
    }
    run["model_inputs"] = tensors(model_.inputs);
    run["model_outputs"] = tensors(model_.outputs);
    run["moves"] = std::move(moves_);
    run["layouts"] = std::move(layouts_);
    const isa::Chip& chip = model_.chip;
    run["tree"] = {
        {"groups", chip.groups},           {"l2b_per_group", chip.l2b_per_group},
        {"l1b_per_l2b", chip.l1b_per_l2b}, {"mab_per_l1b", chip.mab_per_l1b},
        {"pe_per_mab", isa::kPePerMab},    {"lm_lw", 2 * chip.memory.lm_words / isa::kWordsPerLong},
        {"l1bm_lw", chip.memory.l1bm_lw},  {"l2bm_lw", chip.memory.l2bm_lw},
        {"dram_lw", chip.memory.dram_lw},  {"clock_hz", chip.clock_hz}};
    run["peaks"] = {{"products_per_cycle",
                     isa::peak_macs_per_cycle(matrix_instruction_precision(model_.precision), true, chip)},
                    {"dram_bytes_per_cycle", static_cast<double>(sizeof(uint64_t)) * chip.groups *
                                                 isa::transfer_rate(isa::TransferPort::kDram, chip)}};
  }

 private:
  /// Who has made a tensor last, and its image if that is on the chip.
  struct Maker {
    int stage = -1;
    const StreamBinding* binding = nullptr;
  };

  ordered_json tensors(const std::vector<TensorId>& ids) const {
    ordered_json list = ordered_json::array();
    for (const TensorId id : ids) {
      const LayerTensor& tensor = model_.tensors[static_cast<size_t>(id)];
      list.push_back(
          {{"name", tensor.name}, {"type", data_type_name(tensor.type)}, {"shape", model_.whole_shape(id)}});
    }
    return list;
  }

  void add_stage(int number) {
    const Stage& stage = model_.stages[static_cast<size_t>(number)];
    const auto* chip = std::get_if<ChipStage>(&stage.body);
    if (chip != nullptr) {
      for (size_t k = 0; k < chip->operands.size(); ++k) add_operand(number, k, chip->operands[k]);
    } else {
      for (const TensorId id : stage.inputs) {
        if (id < 0 || model_.tensors[static_cast<size_t>(id)].constant) continue;
        const auto maker = maker_.find(model_.storage(id));
        const Maker from = maker != maker_.end() ? maker->second : Maker{};
        const bool on_chip = from.binding != nullptr;
        add_move(from.stage, number, id, on_chip ? "host link" : "host", from.binding);
      }
    }
    for (const TensorId id : stage.outputs) {
      if (id >= 0) maker_[model_.storage(id)] = {number, chip != nullptr ? &chip->result : nullptr};
    }
  }

  void add_operand(int stage, size_t number, const StreamBinding& operand) {
    const TensorId id = operand.placement.access.tensor;
    using Origin = StreamBinding::Origin;
    int from = -1;
    const char* way = "DRAM";
    if (operand.origin == Origin::kPreloaded) {
      way = "before the first run";
    } else if (operand.origin == Origin::kSent) {
      way = "host link";
      const auto maker = maker_.find(model_.storage(id));
      if (maker != maker_.end()) from = maker->second.stage;
    } else {
      from = images_.maker(stage, number);
      if (from >= 0 && !std::get<ChipStage>(model_.stages[static_cast<size_t>(from)].body).stored)
        way = "stays on the chip";
    }
    add_move(from, stage, id, way, &operand);
  }

  void add_move(int from, int to, TensorId id, const char* way, const StreamBinding* binding) {
    const LayerTensor& tensor = model_.tensors[static_cast<size_t>(id)];
    const auto stage = [](int number) { return number < 0 ? ordered_json(nullptr) : ordered_json(number); };
    ordered_json move = {{"from", stage(from)},
                         {"to", stage(to)},
                         {"tensor", tensor.name},
                         {"type", data_type_name(tensor.type)},
                         {"shape", tensor.shape},
                         {"constant", tensor.constant.has_value() ||
                                          (binding != nullptr &&
                                           binding->origin == StreamBinding::Origin::kPreloaded && from < 0)},
                         {"way", way}};
    if (binding != nullptr) {
      const StreamPlacement& placement = binding->placement;
      const int64_t lw = stream_group_lw(placement);
      const int groups = placement.transport.groups_used();
      move["layout"] = layout_number(placement);
      move["transport"] = placement.transport.to_string();
      move["lw_per_group"] = lw;
      move["groups"] = groups;
      move["bytes"] = lw * groups * static_cast<int64_t>(sizeof(uint64_t));
      move["dram_address"] = binding->dram_address;
      move["host_relayout"] = binding->host_relayout;
    } else {
      move["layout"] = nullptr;
    }
    moves_.push_back(std::move(move));
  }

  int layout_number(const StreamPlacement& placement) {
    const layout::Layout& layout = placement.layout;
    layout::Lengths lengths;
    for (const std::vector<int>& dims : placement.axis_dims) {
      int64_t length = 1;
      for (const int dim : dims) length *= placement.extents[static_cast<size_t>(dim)];
      lengths.push_back(length);
    }
    std::string key = layout.to_string();
    for (const int64_t length : lengths) key += " " + std::to_string(length);
    key += " " + std::to_string(placement.element_bits());
    const auto [known, is_new] = layout_numbers_.try_emplace(key, static_cast<int>(layouts_.size()));
    if (is_new) layouts_.push_back(layout_json(layout, lengths, placement.element_bits()));
    return known->second;
  }

  ordered_json layout_json(const layout::Layout& layout, const layout::Lengths& lengths, int bits) const {
    const isa::Chip& chip = model_.chip;
    struct TreeLevel {
      layout::Level level;
      int64_t instances;
    };
    ordered_json levels = ordered_json::array();
    for (const auto& [level, instances] :
         {TreeLevel{layout::Level::kL2b, chip.l2b_count()}, TreeLevel{layout::Level::kL1b, chip.l1b_per_l2b},
          TreeLevel{layout::Level::kMab, chip.mab_per_l1b}, TreeLevel{layout::Level::kPe, isa::kPePerMab}}) {
      ordered_json axes = ordered_json::array();
      for (size_t axis = 0; axis < layout.axes().size(); ++axis) {
        int64_t parts = 1;
        for (const layout::Factor& factor : layout.axes()[axis]) {
          if (factor.level == level) parts *= factor.size;
        }
        if (parts > 1) axes.push_back({{"axis", axis}, {"parts", parts}});
      }
      int64_t replicated = 1;
      for (const layout::Factor& factor : layout.replication()) {
        if (factor.level == level) replicated *= factor.size;
      }
      levels.push_back({{"level", layout::level_name(level)},
                        {"instances", instances},
                        {"used", layout.coordinates(level)},
                        {"replicated", replicated},
                        {"axes", std::move(axes)}});
    }
    std::string drawing;
    try {
      drawing = layout::draw(layout, lengths, bits, {.instances = 2, .long_words = 6});
    } catch (const isa::UserError&) {
      // A stream reads more than its tensor has: there are no elements to show.
    }
    return {{"text", layout.to_string()},
            {"memory", layout::memory_name(layout.memory())},
            {"padding", layout::padding_name(layout.padding())},
            {"lengths", lengths},
            {"element_bits", bits},
            {"levels", std::move(levels)},
            {"long_words", layout.level_extent(layout::Level::kAddress)},
            {"drawing", drawing}};
  }

  const CompiledModel& model_;
  DramImages images_;
  std::map<TensorId, Maker> maker_;
  std::map<std::string, int> layout_numbers_;
  ordered_json moves_ = ordered_json::array();
  ordered_json layouts_ = ordered_json::array();
};

}  // namespace

void add_network(const CompiledModel& model, ordered_json& run) {
  NetworkJson(model).add_to(run);
}

}  // namespace kodama::compiler
