#include "compiler/graph/upgrade.h"

#include <onnx/version_converter/convert.h>

#include <cctype>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>

#include "compiler/graph/onnx_model.h"

namespace kodama::compiler {

namespace {

namespace conversion = onnx::version_conversion;
using IrGraph = std::shared_ptr<onnx::Graph>;

std::string describe_ir_node(onnx::Node* node) {
  const std::string type = node->kind().toString();
  std::string name = node->name();
  if (name.empty() && !node->outputs().empty()) name = node->outputs()[0]->uniqueName();
  return fmt::format("node '{}' ({})", name, type);
}

/// Inserts a Constant before `node` and appends its value to the node's inputs.
void append_constant(const IrGraph& graph, onnx::Node* node, onnx::Tensor tensor) {
  onnx::Node* constant = graph->create(onnx::kConstant);
  constant->insertBefore(node);
  constant->t_(onnx::kvalue, std::move(tensor));
  node->addInput(constant->output());
}

/// A scalar of the floating type of `like`: operators whose attribute became an input ask for the type of
/// their data, and libonnx's adapters always write float32.
onnx::Tensor scalar_like(const onnx::Value* like, float value) {
  onnx::Tensor tensor;
  const auto type = static_cast<DataType>(like->elemType());
  tensor.elem_type() = type;
  switch (type) {
    case DataType::kFloat64:
      tensor.doubles().push_back(value);
      break;
    case DataType::kFloat16:
      tensor.int32s().push_back(float_to_half(value));
      break;
    case DataType::kBfloat16:
      tensor.int32s().push_back(float_to_bfloat16(value));
      break;
    case DataType::kFloat32:
      tensor.floats().push_back(value);
      break;
    default:
      throw isa::UnsupportedError(
          fmt::format("data of type {}, where the operator takes floating point", data_type_name(type)));
  }
  return tensor;
}

/// Clip's bounds became optional inputs in opset 11, when an absent bound came to mean "none"; before, it
/// meant the largest finite float.
onnx::Node* adapt_clip(const IrGraph& graph, onnx::Node* node) {
  const onnx::Value* data = node->inputs()[0];
  const auto take = [&](onnx::BuiltinSymbol name, float absent) {
    const bool present = node->hasAttribute(name);
    append_constant(graph, node, scalar_like(data, present ? static_cast<float>(node->f(name)) : absent));
    if (present) node->removeAttribute(name);
  };
  take(onnx::kmin, std::numeric_limits<float>::lowest());
  take(onnx::kmax, std::numeric_limits<float>::max());
  return node;
}

/// Pad's amounts and value became inputs in opset 11; libonnx's adapter fails where the value is left to
/// its default.
onnx::Node* adapt_pad(const IrGraph& graph, onnx::Node* node) {
  onnx::Tensor pads;
  pads.elem_type() = DataType::kInt64;
  pads.int64s() = node->is(onnx::kpads);
  pads.sizes() = {static_cast<int64_t>(pads.int64s().size())};
  const float value = node->hasAttribute(onnx::kvalue) ? static_cast<float>(node->f(onnx::kvalue)) : 0.0F;
  const onnx::Value* data = node->inputs()[0];
  append_constant(graph, node, std::move(pads));
  node->removeAttribute(onnx::kpads);
  if (!node->hasAttribute(onnx::kmode) || node->s(onnx::kmode) == "constant") {
    append_constant(graph, node, scalar_like(data, value));
  }
  if (node->hasAttribute(onnx::kvalue)) node->removeAttribute(onnx::kvalue);
  return node;
}

/// Before opset 11, Resize (and Upsample, which became Resize) mapped coordinates by division alone and
/// took the nearest lower element; since then the defaults are half_pixel and round_prefer_floor, which
/// libonnx's adapter silently switches to.
onnx::Node* adapt_resize(const IrGraph& graph, onnx::Node* node) {
  onnx::Value* scales = node->inputs()[1];
  onnx::Tensor roi;  // only read in the mode tf_crop_and_resize, but not optional before opset 13
  roi.elem_type() = DataType::kFloat32;
  roi.sizes() = {0};
  onnx::Node* constant = graph->create(onnx::kConstant);
  constant->insertBefore(node);
  constant->t_(onnx::kvalue, std::move(roi));
  node->replaceInput(1, constant->output());
  node->addInput(scales);
  node->s_(onnx::Symbol("coordinate_transformation_mode"), "asymmetric");
  if (!node->hasAttribute(onnx::kmode) || node->s(onnx::kmode) == "nearest") {
    node->s_(onnx::Symbol("nearest_mode"), "floor");
  }
  return node;
}

/// Statistics as outputs were how training was told from inference before opset 14.
onnx::Node* adapt_batch_normalization(const IrGraph&, onnx::Node* node) {
  if (node->outputs().size() > 1) {
    throw isa::UnsupportedError("BatchNormalization in training mode (with more than one output)");
  }
  return node;
}

/// An Unsqueeze before the node, of its operand `input`.
void unsqueeze(const IrGraph& graph, onnx::Node* node, size_t input, const std::vector<int64_t>& axes) {
  if (axes.empty()) return;
  onnx::Value* const operand = node->inputs()[input];
  onnx::Node* const added = graph->create(onnx::kUnsqueeze);
  added->addInput(operand);
  added->is_(onnx::kaxes, std::vector<int64_t>(axes));
  added->insertBefore(node);
  added->output()->setElemType(operand->elemType());
  std::vector<onnx::Dimension> sizes = operand->sizes();
  for (const int64_t axis : axes) sizes.insert(sizes.begin() + axis, onnx::Dimension(1));
  added->output()->setSizes(sizes);
  node->replaceInput(input, added->output());
}

/// Before opset 7 the second operand was spread over the first only where `broadcast` said so, and from an
/// axis on. libonnx's adapter puts the new axes wherever the rank asks for them.
onnx::Node* adapt_broadcast(const IrGraph& graph, onnx::Node* node) {
  const onnx::Symbol broadcast("broadcast");
  const bool spreads = node->hasAttribute(broadcast) && node->i(broadcast) != 0;
  if (spreads && node->hasAttribute(onnx::kaxis)) {
    const auto rank = static_cast<int64_t>(node->inputs()[0]->sizes().size());
    const auto own = static_cast<int64_t>(node->inputs()[1]->sizes().size());
    int64_t axis = node->i(onnx::kaxis);
    if (axis < 0) axis += rank;
    if (axis < 0 || axis + own > rank) {
      throw isa::UserError(fmt::format("its second operand has {} axes from axis {} on, its first {} in all",
                                       own, node->i(onnx::kaxis), rank));
    }
    std::vector<int64_t> axes;
    for (int64_t k = own; k < rank - axis; ++k) axes.push_back(k);
    unsqueeze(graph, node, 1, axes);
  }
  if (node->hasAttribute(broadcast)) node->removeAttribute(broadcast);
  if (node->hasAttribute(onnx::kaxis)) node->removeAttribute(onnx::kaxis);
  return node;
}

/// A slope of one axis was one for every channel.
onnx::Node* adapt_prelu(const IrGraph& graph, onnx::Node* node) {
  const size_t rank = node->inputs()[0]->sizes().size();
  std::vector<int64_t> axes;
  if (node->inputs()[1]->sizes().size() == 1) {
    for (size_t k = 2; k < rank; ++k) axes.push_back(static_cast<int64_t>(k) - 1);
  }
  unsqueeze(graph, node, 1, axes);
  return node;
}

/// The type was a word.
onnx::Node* adapt_cast(const IrGraph&, onnx::Node* node) {
  const onnx::Symbol to("to");
  std::string name = node->s(to);
  for (char& c : name) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  onnx::TensorProto_DataType type{};
  if (!onnx::TensorProto_DataType_Parse(name, &type))
    throw isa::UserError(fmt::format("attribute 'to' is '{}', which is no type", node->s(to)));
  node->removeAttribute(to);
  node->i_(to, type);
  return node;
}

/// Whether the sequence was wanted; now it is, if somebody reads it.
onnx::Node* adapt_recurrent(const IrGraph&, onnx::Node* node) {
  const onnx::Symbol output_sequence("output_sequence");
  if (node->hasAttribute(output_sequence)) node->removeAttribute(output_sequence);
  return node;
}

/// The exponent was a number of any kind.
onnx::Node* adapt_norm_pool(const IrGraph&, onnx::Node* node) {
  const onnx::Symbol p("p");
  if (!node->hasAttribute(p)) return node;
  const double value = node->f(p);
  if (value != std::floor(value)) throw isa::UnsupportedError(fmt::format("attribute 'p' is {}", value));
  node->removeAttribute(p);
  node->i_(p, static_cast<int64_t>(value));
  return node;
}

onnx::Node* adapt_paddings(const IrGraph&, onnx::Node* node) {
  const onnx::Symbol paddings("paddings");
  node->is_(onnx::kpads, std::vector<int64_t>(node->is(paddings)));
  node->removeAttribute(paddings);
  return node;
}

/// The elements of a constant list, or number.
std::vector<int64_t> constant_list(const IrGraph& graph, const onnx::Value* value) {
  const onnx::Tensor* tensor = nullptr;
  if (value->node()->kind() == onnx::kConstant) {
    tensor = &value->node()->t(onnx::kvalue);
  } else {
    const auto found = graph->getInitializer(value->uniqueName());
    if (found != graph->initializers().end()) tensor = &*found;
  }
  if (tensor == nullptr)
    throw isa::UnsupportedError(fmt::format("operand '{}' is no constant", value->uniqueName()));
  const auto size = static_cast<size_t>(tensor->size_from_dim(0));
  const auto numbers = [&](const auto& list, const auto* raw) {
    std::vector<int64_t> result;
    for (size_t k = 0; k < size; ++k) {
      if (tensor->is_raw_data()) {
        std::remove_cvref_t<decltype(*raw)> element;
        std::memcpy(&element, tensor->raw().data() + k * sizeof element, sizeof element);
        result.push_back(static_cast<int64_t>(element));
      } else {
        result.push_back(static_cast<int64_t>(list[k]));
      }
    }
    return result;
  };
  switch (tensor->elem_type()) {
    case DataType::kInt64:
      return numbers(tensor->int64s(), static_cast<const int64_t*>(nullptr));
    case DataType::kInt32:
      return numbers(tensor->int32s(), static_cast<const int32_t*>(nullptr));
    case DataType::kFloat32:
      return numbers(tensor->floats(), static_cast<const float*>(nullptr));
    default:
      throw isa::UnsupportedError(fmt::format("operand '{}' is of type {}", value->uniqueName(),
                                              data_type_name(static_cast<DataType>(tensor->elem_type()))));
  }
}

/// The sizes of the parts were an operand, too.
onnx::Node* adapt_split(const IrGraph& graph, onnx::Node* node) {
  if (node->inputs().size() < 2) return node;
  node->is_(onnx::Symbol("split"), constant_list(graph, node->inputs()[1]));
  node->removeInput(1);
  return node;
}

/// One axis was repeated; now all are, each so many times.
onnx::Node* adapt_tile(const IrGraph& graph, onnx::Node* node) {
  const int64_t tiles = constant_list(graph, node->inputs()[1]).at(0);
  int64_t axis = constant_list(graph, node->inputs()[2]).at(0);
  const auto rank = static_cast<int64_t>(node->inputs()[0]->sizes().size());
  if (axis < 0) axis += rank;
  if (axis < 0 || axis >= rank) throw isa::UserError(fmt::format("it repeats axis {} of {}", axis, rank));
  onnx::Tensor repeats;
  repeats.elem_type() = DataType::kInt64;
  repeats.int64s().assign(static_cast<size_t>(rank), 1);
  repeats.int64s()[static_cast<size_t>(axis)] = tiles;
  repeats.sizes() = {rank};
  node->removeInput(2);
  node->removeInput(1);
  append_constant(graph, node, std::move(repeats));
  return node;
}

/// The shape was an attribute; libonnx's adapter makes a list of it that has no axis.
onnx::Node* adapt_reshape(const IrGraph& graph, onnx::Node* node) {
  const onnx::Symbol attribute("shape");
  const onnx::Symbol consumed("consumed_inputs");
  if (node->hasAttribute(consumed)) node->removeAttribute(consumed);
  onnx::Tensor shape;
  shape.elem_type() = DataType::kInt64;
  if (node->hasAttribute(attribute)) {
    shape.int64s() = node->is(attribute);
    node->removeAttribute(attribute);
  }
  shape.sizes() = {static_cast<int64_t>(shape.int64s().size())};
  append_constant(graph, node, std::move(shape));
  return node;
}

/// Says which node an adapter failed on.
class NamingAdapter final : public conversion::Adapter {
 public:
  explicit NamingAdapter(std::unique_ptr<conversion::Adapter> adapter)
      : Adapter(adapter->name(), adapter->initial_version(), adapter->target_version()),
        adapter_(std::move(adapter)) {}

  onnx::Node* adapt(IrGraph graph, onnx::Node* node) const override {
    const std::string name = describe_ir_node(node);  // an adapter may destroy the node
    try {
      return adapter_->adapt(std::move(graph), node);
    } catch (const std::exception& error) {
      throw isa::UnsupportedError(fmt::format("{} can't be converted from opset {} to {}: {}", name,
                                              initial_version().version(), target_version().version(),
                                              clean_onnx_message(error.what())));
    }
  }

 private:
  std::unique_ptr<conversion::Adapter> adapter_;
};

class OpsetUpgrader final : public conversion::DefaultVersionConverter {
 public:
  OpsetUpgrader() {
    registerAdapter("LpPool", 1, 2, adapt_norm_pool);
    registerAdapter("GlobalLpPool", 1, 2, adapt_norm_pool);
    registerAdapter("Pad", 1, 2, adapt_paddings);
    registerAdapter("Split", 1, 2, adapt_split);
    registerAdapter("GRU", 2, 3, [](const IrGraph&, onnx::Node* node) { return node; });
    registerAdapter("Reshape", 4, 5, adapt_reshape);
    registerAdapter("Cast", 5, 6, adapt_cast);
    registerAdapter("Tile", 5, 6, adapt_tile);
    for (const char* op : {"Add", "And", "Div", "Equal", "Greater", "Less", "Mul", "Or", "Pow", "Sub", "Xor"})
      registerAdapter(op, 6, 7, adapt_broadcast);
    for (const char* op : {"GRU", "LSTM", "RNN"}) registerAdapter(op, 6, 7, adapt_recurrent);
    registerAdapter("PRelu", 6, 7, adapt_prelu);
    registerAdapter("Clip", 10, 11, adapt_clip);
    registerAdapter("Pad", 10, 11, adapt_pad);
    registerAdapter("Resize", 10, 11, adapt_resize);
    for (int version : {8, 13}) {
      wrap_before("BatchNormalization", version, adapt_batch_normalization);
    }
    // Like Softmax, Hardmax worked on a flattened matrix before opset 13; libonnx calls it compatible.
    registerAdapter(std::make_unique<conversion::Softmax_12_13>("Hardmax"));
    for (auto& [op, by_origin] : adapters) {
      for (auto& [origin, by_target] : by_origin) {
        for (auto& [target, adapter] : by_target) {
          adapter = std::make_unique<NamingAdapter>(std::move(adapter));
        }
      }
    }
    register_missing();
  }

 private:
  /// Runs `check` before the adapter that libonnx has for op from `version` to the next.
  void wrap_before(const char* op, int version, const conversion::NodeTransformerFunction& check) {
    auto& adapter = adapters[op][onnx::OpSetID(version).toString()][onnx::OpSetID(version + 1).toString()];
    if (!adapter) return;
    std::shared_ptr<conversion::Adapter> original = std::move(adapter);
    registerAdapter(op, version, version + 1, [check, original](IrGraph graph, onnx::Node* node) {
      return original->adapt(graph, check(graph, node));
    });
  }

  /// Where an operator changed and libonnx has no adapter, says so by name. (Only the keys of all_schemas
  /// may be used: its pointers are to schemas that no longer exist.)
  void register_missing() {
    for (const auto& [op, by_domain] : all_schemas) {
      const auto versions = by_domain.find("");
      if (versions == by_domain.end()) continue;
      for (auto it = versions->second.begin(); it != versions->second.end(); ++it) {
        const int64_t version = it->first;
        if (it == versions->second.begin() || version > kOpsetVersion) continue;
        const auto& by_origin = adapters[op];
        const auto origin = by_origin.find(onnx::OpSetID(version - 1).toString());
        if (origin != by_origin.end() && origin->second.contains(onnx::OpSetID(version).toString())) continue;
        registerAdapter(
            op.c_str(), version - 1, version, [version](const IrGraph&, onnx::Node* node) -> onnx::Node* {
              throw isa::UnsupportedError(
                  fmt::format("{} can't be converted from opset {} to {}: libonnx has no adapter for it; "
                              "export the model with opset 7 or newer",
                              describe_ir_node(node), version - 1, version));
            });
      }
    }
  }
};

}  // namespace

bool needs_upgrade(const google::protobuf::RepeatedPtrField<onnx::NodeProto>& nodes, int64_t from,
                   int64_t to) {
  if (from == to) return false;
  for (const auto& node : nodes) {
    if (!node.domain().empty() && node.domain() != "ai.onnx") continue;
    const auto* before = onnx::OpSchemaRegistry::Schema(node.op_type(), static_cast<int>(from), "");
    const auto* after = onnx::OpSchemaRegistry::Schema(node.op_type(), static_cast<int>(to), "");
    if (!before || !after || before->since_version() != after->since_version()) return true;
  }
  return false;
}

void upgrade_opset(onnx::ModelProto& model, int64_t target, const std::string& where) {
  const int64_t version = opset_version(model);
  if (version == target) return;
  static const OpsetUpgrader upgrader;
  onnx::ModelProto upgraded;
  try {
    const LargeDataAside aside(*model.mutable_graph());  // the converter copies the graph more than once
    upgraded = upgrader.convert_version(model, onnx::OpSetID(version), onnx::OpSetID(target));
  } catch (const isa::Error& error) {
    throw isa::UnsupportedError(fmt::format("{}: {}", where, error.what()));
  } catch (const std::exception& error) {
    throw isa::UnsupportedError(fmt::format("{}: the model can't be converted from opset {} to {}: {}", where,
                                            version, target, clean_onnx_message(error.what())));
  }
  auto& graph = *model.mutable_graph();
  // Only the nodes and what the converter added: its intermediate form loses part of everything else.
  *graph.mutable_node() = std::move(*upgraded.mutable_graph()->mutable_node());
  std::unordered_set<std::string> known;
  for (const auto& tensor : graph.initializer()) known.insert(tensor.name());
  for (auto& tensor : *upgraded.mutable_graph()->mutable_initializer()) {
    if (!known.contains(tensor.name())) *graph.add_initializer() = std::move(tensor);
  }
  graph.clear_value_info();
  for (auto& import : *model.mutable_opset_import()) {
    if (import.domain().empty()) import.set_version(target);
  }
}

}  // namespace kodama::compiler
