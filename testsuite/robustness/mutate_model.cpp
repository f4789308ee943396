/// mutate_model MODELS SEED OUTPUT: takes a model of the list, changes its structure (attributes, ranks,
/// types, extents, wiring, initializers, operators, versions) or its bytes, and writes it.
#include <fmt/format.h>
#include <onnx/defs/parser.h>
#include <onnx/defs/schema.h>
#include <onnx/onnx_pb.h>

#include <algorithm>
#include <fstream>
#include <limits>
#include <random>
#include <sstream>

namespace {

using onnx::AttributeProto;
using onnx::GraphProto;
using onnx::ModelProto;
using onnx::NodeProto;
using onnx::TensorProto;

class Mutator {
 public:
  Mutator(ModelProto& model, uint64_t seed) : model_(model), graph_(*model.mutable_graph()), random_(seed) {}

  void give_weights() {
    auto& inputs = *graph_.mutable_input();
    for (const auto& input : inputs) {
      if (input.name().rfind('w', 0) != 0) continue;
      auto& tensor = *graph_.add_initializer();
      tensor.set_name(input.name());
      tensor.set_data_type(input.type().tensor_type().elem_type());
      for (const auto& dim : input.type().tensor_type().shape().dim()) tensor.add_dims(dim.dim_value());
      fill(tensor);
    }
    inputs.erase(std::remove_if(inputs.begin(), inputs.end(),
                                [](const auto& input) { return input.name().rfind('w', 0) == 0; }),
                 inputs.end());
  }

  void mutate() {
    const std::string before = model_.SerializeAsString();
    for (size_t k = 1 + pick(3); k > 0 || model_.SerializeAsString() == before; k -= k > 0 ? 1 : 0) {
      switch (pick(20)) {
        case 16:
        case 17:
        case 18:
        case 19:
        case 0:
        case 1:
        case 2:
        case 3:
          attribute();
          break;
        case 4:
        case 5:
          inputs();
          break;
        case 6:
          outputs();
          break;
        case 7:
        case 8:
        case 9:
          value_type();
          break;
        case 10:
        case 11:
        case 12:
          initializer();
          break;
        case 13:
          operators();
          break;
        case 14:
          constants();
          break;
        default:
          whole();
          break;
      }
    }
  }

  std::string bytes() {
    std::string text = model_.SerializeAsString();
    if (pick(12) == 0 && !text.empty()) {
      for (size_t k = 1 + pick(4); k > 0; --k) text[pick(text.size())] = static_cast<char>(pick(256));
    }
    return text;
  }

 private:
  size_t pick(size_t count) { return std::uniform_int_distribution<size_t>(0, count - 1)(random_); }
  bool chance(size_t one_in) { return pick(one_in) == 0; }

  int64_t number() {
    static constexpr int64_t kSmall[] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 16, -1, -2, -3, -4, -5};
    static constexpr int64_t kLarge[] = {100,
                                         1000,
                                         65536,
                                         1000000,
                                         (int64_t{1} << 31) - 1,
                                         int64_t{1} << 31,
                                         int64_t{1} << 32,
                                         8000000000,
                                         int64_t{1} << 40,
                                         int64_t{1} << 62,
                                         -(int64_t{1} << 31),
                                         std::numeric_limits<int64_t>::max(),
                                         std::numeric_limits<int64_t>::min()};
    if (chance(3)) return chance(2) ? 0 : -1;  // what breaks most
    return chance(3) ? kLarge[pick(std::size(kLarge))] : kSmall[pick(std::size(kSmall))];
  }
  int64_t extent() { return chance(2) ? static_cast<int64_t>(1 + pick(8)) : number(); }
  float real() {
    static const float kValues[] = {0,      1,
                                    -1,     0.5F,
                                    2,      1e38F,
                                    -1e38F, std::numeric_limits<float>::infinity(),
                                    1e-8F,  std::numeric_limits<float>::quiet_NaN()};
    return kValues[pick(std::size(kValues))];
  }
  std::string text() {
    static const char* kValues[] = {"",         "NOTSET",  "SAME_UPPER", "SAME_LOWER", "VALID", "bogus",
                                    "constant", "edge",    "reflect",    "DCR",        "LEFT",  "mean",
                                    "none",     "sum",     "add",        "ij->ji",     "i,i->", "...ij->...i",
                                    "ij,jk",    "a,,b->c", "\xff\x00"};
    return kValues[pick(std::size(kValues))];
  }
  /// The name of some value.
  std::string value() {
    std::vector<std::string> names = {"", "nowhere"};
    for (const auto& input : graph_.input()) names.push_back(input.name());
    for (const auto& tensor : graph_.initializer()) names.push_back(tensor.name());
    for (const auto& node : graph_.node())
      names.insert(names.end(), node.output().begin(), node.output().end());
    return names[pick(names.size())];
  }
  NodeProto* node() {
    return graph_.node_size() == 0
               ? nullptr
               : graph_.mutable_node(static_cast<int>(pick(static_cast<size_t>(graph_.node_size()))));
  }
  int32_t element_type() { return static_cast<int32_t>(pick(18)); }

  void fill(TensorProto& tensor) {
    tensor.clear_raw_data();
    tensor.clear_float_data();
    tensor.clear_int64_data();
    tensor.clear_int32_data();
    tensor.clear_double_data();
    tensor.clear_uint64_data();
    int64_t count = 1;
    for (int64_t dim : tensor.dims()) {
      if (dim < 0 || __builtin_mul_overflow(count, dim, &count) || count > 100000) return;
    }
    for (int64_t k = 0; k < count; ++k) {
      switch (tensor.data_type()) {
        case TensorProto::FLOAT:
          tensor.add_float_data(static_cast<float>(k % 7) / 7);
          break;
        case TensorProto::DOUBLE:
          tensor.add_double_data(static_cast<double>(k % 7) / 7);
          break;
        case TensorProto::INT64:
          tensor.add_int64_data(static_cast<int64_t>(pick(4)));
          break;
        case TensorProto::UINT32:
        case TensorProto::UINT64:
          tensor.add_uint64_data(pick(4));
          break;
        case TensorProto::STRING:
          tensor.add_string_data("s");
          break;
        default:
          tensor.add_int32_data(static_cast<int32_t>(pick(2)));
          break;
      }
    }
  }

  void random_attribute(AttributeProto& attribute, AttributeProto::AttributeType type) {
    const std::string name = attribute.name();
    attribute.Clear();
    attribute.set_name(name);
    attribute.set_type(type);
    const size_t count = pick(6);
    switch (type) {
      case AttributeProto::FLOAT:
        attribute.set_f(real());
        break;
      case AttributeProto::INT:
        attribute.set_i(number());
        break;
      case AttributeProto::STRING:
        attribute.set_s(text());
        break;
      case AttributeProto::TENSOR:
        random_tensor(*attribute.mutable_t());
        break;
      case AttributeProto::FLOATS:
        for (size_t k = 0; k < count; ++k) attribute.add_floats(real());
        break;
      case AttributeProto::INTS:
        for (size_t k = 0; k < count; ++k) attribute.add_ints(number());
        break;
      case AttributeProto::STRINGS:
        for (size_t k = 0; k < count; ++k) attribute.add_strings(text());
        break;
      default:
        break;
    }
  }
  void random_tensor(TensorProto& tensor) {
    tensor.set_data_type(chance(2) ? TensorProto::INT64 : element_type());
    tensor.clear_dims();
    for (size_t k = pick(5); k > 0; --k)
      tensor.add_dims(chance(8) ? number() : static_cast<int64_t>(pick(5)));
    fill(tensor);
  }

  void attribute() {
    NodeProto* at = node();
    if (at == nullptr) return;
    if (at->attribute_size() == 0 || chance(4)) {  // one that the operator has
      const auto* schema = onnx::OpSchemaRegistry::Schema(at->op_type(), 17, at->domain());
      if (schema == nullptr || schema->attributes().empty()) return;
      auto chosen = schema->attributes().begin();
      std::advance(chosen, pick(schema->attributes().size()));
      auto& added = *at->add_attribute();
      added.set_name(chosen->first);
      random_attribute(added, chosen->second.type);
      return;
    }
    auto& attribute =
        *at->mutable_attribute(static_cast<int>(pick(static_cast<size_t>(at->attribute_size()))));
    switch (pick(8)) {
      case 0:
        at->mutable_attribute()->SwapElements(0, at->attribute_size() - 1);
        at->mutable_attribute()->RemoveLast();
        break;
      case 1:
        random_attribute(attribute, static_cast<AttributeProto::AttributeType>(pick(15)));
        break;
      case 2:
        attribute.set_name(text());
        break;
      case 3:
        random_attribute(attribute, attribute.type());
        break;
      default:
        if (attribute.has_t()) {
          tensor(*attribute.mutable_t());
        } else if (attribute.ints_size() > 0) {
          const size_t k = pick(static_cast<size_t>(attribute.ints_size()));
          if (chance(4)) {
            attribute.add_ints(number());
          } else if (chance(4)) {
            attribute.mutable_ints()->RemoveLast();
          } else {
            attribute.set_ints(static_cast<int>(k), number());
          }
        } else {
          random_attribute(attribute, attribute.type());
        }
        break;
    }
  }

  void inputs() {
    NodeProto* at = node();
    if (at == nullptr) return;
    if (at->input_size() == 0 || chance(4)) {
      at->add_input(value());
      return;
    }
    const int k = static_cast<int>(pick(static_cast<size_t>(at->input_size())));
    switch (pick(4)) {
      case 0:
        at->mutable_input()->RemoveLast();
        break;
      case 1:
        at->mutable_input()->SwapElements(k, 0);
        break;
      default:
        at->set_input(k, value());
        break;
    }
  }

  void outputs() {
    NodeProto* at = node();
    if (at == nullptr) return;
    switch (pick(4)) {
      case 0:
        at->add_output(fmt::format("extra{}", pick(3)));
        break;
      case 1:
        if (at->output_size() > 0) at->mutable_output()->RemoveLast();
        break;
      case 2:
        if (at->output_size() > 0) at->set_output(0, value());
        break;
      default:
        graph_.add_output()->set_name(value());
        break;
    }
  }

  void value_type() {
    auto& values = chance(3) ? *graph_.mutable_output() : *graph_.mutable_input();
    if (values.empty()) return;
    auto& value = values[static_cast<int>(pick(static_cast<size_t>(values.size())))];
    if (chance(20)) {
      value.mutable_type()
          ->mutable_sequence_type()
          ->mutable_elem_type()
          ->mutable_tensor_type()
          ->set_elem_type(1);
      return;
    }
    auto& type = *value.mutable_type()->mutable_tensor_type();
    auto& dims = *type.mutable_shape()->mutable_dim();
    switch (pick(6)) {
      case 0:
        type.set_elem_type(element_type());
        break;
      case 1:
        dims.Add()->set_dim_value(extent());
        break;
      case 2:
        if (!dims.empty()) dims.RemoveLast();
        break;
      case 3:
        if (chance(3)) type.clear_shape();
        if (chance(3)) type.mutable_shape()->clear_dim();
        break;
      default:
        if (!dims.empty())
          dims[static_cast<int>(pick(static_cast<size_t>(dims.size())))].set_dim_value(extent());
        break;
    }
  }

  void tensor(TensorProto& tensor) {
    switch (pick(6)) {
      case 0:  // contradicts its data
        if (tensor.dims_size() > 0) {
          tensor.set_dims(static_cast<int>(pick(static_cast<size_t>(tensor.dims_size()))), number());
        } else {
          tensor.add_dims(number());
        }
        break;
      case 1:
        tensor.set_data_type(element_type());
        if (chance(2)) fill(tensor);
        break;
      case 2:  // another shape, with data for it
        if (chance(2)) {
          tensor.add_dims(1 + static_cast<int64_t>(pick(3)));
        } else if (tensor.dims_size() > 0) {
          tensor.mutable_dims()->RemoveLast();
        }
        fill(tensor);
        break;
      case 3:
        if (tensor.dims_size() > 0) {
          tensor.set_dims(static_cast<int>(pick(static_cast<size_t>(tensor.dims_size()))),
                          static_cast<int64_t>(pick(9)));
          fill(tensor);
        }
        break;
      case 4:
        random_tensor(tensor);
        break;
      default:
        for (auto& number_in : *tensor.mutable_int64_data()) {
          if (chance(2)) number_in = number();
        }
        for (auto& number_in : *tensor.mutable_float_data()) {
          if (chance(2)) number_in = real();
        }
        break;
    }
  }

  void initializer() {
    if (graph_.initializer_size() == 0) return constants();
    auto& chosen =
        *graph_.mutable_initializer(static_cast<int>(pick(static_cast<size_t>(graph_.initializer_size()))));
    if (chance(8)) {  // an input instead
      auto& input = *graph_.add_input();
      input.set_name(chosen.name());
      input.mutable_type()->mutable_tensor_type()->set_elem_type(chosen.data_type());
      for (int64_t dim : chosen.dims()) {
        input.mutable_type()->mutable_tensor_type()->mutable_shape()->add_dim()->set_dim_value(dim);
      }
      if (chance(2)) {
        chosen = graph_.initializer(graph_.initializer_size() - 1);
        graph_.mutable_initializer()->RemoveLast();
      }
      return;
    }
    tensor(chosen);
  }

  /// The tensors of Constant nodes: axes, shapes and the like.
  void constants() {
    std::vector<TensorProto*> tensors;
    for (auto& at : *graph_.mutable_node()) {
      for (auto& attribute : *at.mutable_attribute()) {
        if (attribute.has_t()) tensors.push_back(attribute.mutable_t());
      }
    }
    if (!tensors.empty()) tensor(*tensors[pick(tensors.size())]);
  }

  void operators() {
    NodeProto* at = node();
    if (at == nullptr) return;
    static const std::vector<std::string> kNames = [] {
      std::vector<std::string> names;
      for (const auto& schema : onnx::OpSchemaRegistry::get_all_schemas()) names.push_back(schema.Name());
      std::sort(names.begin(), names.end());
      return names;
    }();
    switch (pick(5)) {
      case 0:
      case 1:
        at->set_op_type(kNames[pick(kNames.size())]);
        if (chance(2)) at->clear_attribute();
        break;
      case 2:
        graph_.mutable_node()->RemoveLast();
        break;
      case 3:
        *graph_.add_node() = NodeProto(*at);
        break;
      default: {  // one more, behind everything
        NodeProto added;
        added.set_op_type(kNames[pick(kNames.size())]);
        for (size_t k = pick(4); k > 0; --k) added.add_input(value());
        added.add_output("added");
        *graph_.add_node() = added;
        graph_.add_output()->set_name("added");
        break;
      }
    }
  }

  void whole() {
    switch (pick(4)) {
      case 0:
        model_.mutable_opset_import(0)->set_version(1 + static_cast<int64_t>(pick(19)));
        break;
      case 1:
        model_.set_ir_version(static_cast<int64_t>(pick(12)));
        break;
      case 2:
        model_.mutable_opset_import(0)->set_domain(chance(2) ? "ai.onnx" : "ai.onnx.ml");
        break;
      default:
        for (auto& at : *graph_.mutable_node()) {
          if (chance(2)) at.set_name(text());
        }
        break;
    }
  }

  ModelProto& model_;
  GraphProto& graph_;
  std::mt19937_64 random_;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) {
    fmt::print(stderr, "mutate_model MODELS SEED OUTPUT\n");
    return 2;
  }
  const uint64_t seed = std::stoull(argv[2]);
  std::vector<std::string> lines;
  std::ifstream list(argv[1]);
  for (std::string line; std::getline(list, line);) {
    if (!line.empty() && line[0] != '#') lines.push_back(line);
  }
  if (lines.empty()) {
    fmt::print(stderr, "{}: no models\n", argv[1]);
    return 2;
  }
  std::istringstream line(lines[seed % lines.size()]);
  int opset = 0;
  std::string graph;
  line >> opset;
  std::getline(line, graph);
  ModelProto model;
  const std::string text = fmt::format("<ir_version: 8, opset_import: [\"\" : {}]> {}", opset, graph);
  onnx::OnnxParser parser(text.c_str());
  const auto status = parser.Parse(model);
  if (!status.IsOK()) {
    fmt::print(stderr, "{}\n{}\n", text, status.ErrorMessage());
    return 2;
  }
  Mutator mutator(model, seed / lines.size());
  mutator.give_weights();
  if (seed >= lines.size()) mutator.mutate();  // the first ones are the models themselves
  std::ofstream output(argv[3], std::ios::binary);
  output << (seed >= lines.size() ? mutator.bytes() : model.SerializeAsString());
  return output.good() ? 0 : 2;
}
