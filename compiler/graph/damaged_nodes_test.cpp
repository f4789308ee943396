#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>

#include "compiler/graph/import.h"
#include "compiler/graph/onnx_model.h"
#include "compiler/proto/tensor_proto.h"
#include "compiler/reference/onnx_backend_test.h"

namespace kodama::compiler {
namespace {

/// Changes models at random, in ways that leave their form intact.
class Damager {
 public:
  explicit Damager(unsigned seed) : random_(seed) {}

  void damage(onnx::ModelProto& model, const TensorMap& data) {
    auto& graph = *model.mutable_graph();
    onnx::NodeProto& node = *graph.mutable_node(below(graph.node_size()));
    for (int k = 0, count = 1 + below(3); k < count; ++k) {
      switch (below(6)) {
        case 0:
          damage_operands(node);
          break;
        case 1:
        case 2:
          if (node.attribute_size() > 0) damage_attribute(node, below(node.attribute_size()));
          break;
        case 3:
          add_attribute(model, node);
          break;
        case 4:
          if (graph.input_size() > 0) damage_type(*graph.mutable_input(below(graph.input_size())));
          break;
        default:
          if (graph.input_size() > 0) bind(graph, below(graph.input_size()), data);
      }
    }
    for (auto& output : *graph.mutable_output()) {
      if (below(3) > 0) output.mutable_type()->mutable_tensor_type()->clear_shape();
    }
  }

 private:
  int below(int count) { return static_cast<int>(random_() % static_cast<unsigned>(count)); }
  template <typename T>
  T one_of(std::initializer_list<T> values) {
    return values.begin()[below(static_cast<int>(values.size()))];
  }
  int64_t any_integer() {
    return one_of<int64_t>({-1, 0, 1, 2, 3, 5, 17, std::numeric_limits<int64_t>::min(),
                            std::numeric_limits<int64_t>::max(), int64_t{1} << 31, int64_t{1} << 62});
  }
  float any_float() { return one_of<float>({-1, 0, 0.5, 1e30F, NAN, INFINITY}); }
  const char* any_text() {
    return one_of<const char*>({"", "x", "linear", "cubic", "bidirectional", "max", "IDF", "align_corners",
                                "tf_crop_and_resize", "reflection", "Affine", "none"});
  }

  void damage_operands(onnx::NodeProto& node) {
    if (node.input_size() == 0) return;
    auto& inputs = *node.mutable_input();
    const int k = below(inputs.size());
    switch (below(4)) {
      case 0:
        inputs[k].clear();
        break;
      case 1:
        inputs.DeleteSubrange(k, 1);
        break;
      case 2:
        inputs[k] = inputs[below(inputs.size())];
        break;
      default:
        *inputs.Add() = std::string(inputs[k]);
    }
  }

  void damage_attribute(onnx::NodeProto& node, int k) {
    auto& attribute = *node.mutable_attribute(k);
    switch (attribute.type()) {
      case onnx::AttributeProto::INT:
        attribute.set_i(any_integer());
        break;
      case onnx::AttributeProto::FLOAT:
        attribute.set_f(any_float());
        break;
      case onnx::AttributeProto::STRING:
        attribute.set_s(any_text());
        break;
      case onnx::AttributeProto::INTS:
        if (attribute.ints_size() > 0 && below(2) > 0) {
          attribute.set_ints(below(attribute.ints_size()), any_integer());
        } else if (attribute.ints_size() > 0 && below(2) > 0) {
          attribute.mutable_ints()->RemoveLast();
        } else {
          attribute.add_ints(any_integer());
        }
        break;
      case onnx::AttributeProto::FLOATS:
        attribute.add_floats(any_float());
        break;
      case onnx::AttributeProto::STRINGS:
        if (attribute.strings_size() > 0 && below(2) > 0) {
          attribute.mutable_strings()->RemoveLast();
        } else {
          attribute.add_strings(any_text());
        }
        break;
      default:
        node.mutable_attribute()->DeleteSubrange(k, 1);
    }
  }

  /// One that the schema knows.
  void add_attribute(const onnx::ModelProto& model, onnx::NodeProto& node) {
    const auto* schema = find_schema(model, node);
    if (schema == nullptr || schema->attributes().empty()) return;
    const auto& [name, declared] =
        *std::next(schema->attributes().begin(), below(static_cast<int>(schema->attributes().size())));
    set_attribute(node, name, declared.type);
    damage_attribute(node, node.attribute_size() - 1);
  }

  void damage_type(onnx::ValueInfoProto& value) {
    auto& type = *value.mutable_type()->mutable_tensor_type();
    auto& dims = *type.mutable_shape()->mutable_dim();
    switch (below(4)) {
      case 0:
        type.set_elem_type(1 + below(16));
        break;
      case 1:
        if (!dims.empty()) dims.RemoveLast();
        break;
      case 2:
        dims.Add()->set_dim_value(below(4));
        break;
      default:
        if (!dims.empty()) dims[below(dims.size())].set_dim_value(one_of<int64_t>({-1, 0, 1, 2, 3, 5, 8}));
    }
  }

  /// Makes an input a constant, perhaps with an element changed.
  void bind(onnx::GraphProto& graph, int k, const TensorMap& data) {
    const std::string name = graph.input(k).name();
    const auto given = data.find(name);
    if (given == data.end()) return;
    Tensor tensor = given->second;
    if (tensor.size() > 0) {
      const auto at = static_cast<size_t>(below(static_cast<int>(tensor.size())));
      if (tensor.type() == DataType::kInt64) tensor.data<int64_t>()[at] = any_integer();
      if (tensor.type() == DataType::kInt32) tensor.data<int32_t>()[at] = one_of<int32_t>({-9, 0, 1, 77});
      if (tensor.type() == DataType::kFloat32) tensor.data<float>()[at] = any_float();
    }
    *graph.add_initializer() = tensor_to_proto(tensor, name);
    graph.mutable_input()->DeleteSubrange(k, 1);
  }

  std::mt19937 random_;
};

bool is_small(const onnx::ModelProto& model) {
  for (const auto& [name, type] : collect_types(model.graph())) {
    const auto shape = static_shape(type);
    if (!shape || element_count(*shape) > 100000) return false;
  }
  return true;
}

/// Every operator's node tests, damaged in many ways: import and the reference refuse what they can't
/// compute, by errors that are the user's. Sanitizers watch the rest.
TEST(DamagedNodes, AreRefusedOrComputed) {
  const auto root = find_onnx_tests();
  if (!root) GTEST_SKIP() << "the package libonnx-testdata isn't installed";
  std::set<std::string> seen;
  int refused = 0;
  int computed = 0;
  unsigned seed = 0;
  for (const auto& directory : list_backend_tests(*root)) {
    const BackendTestCase test = load_backend_test(directory);
    if (test.data_sets.empty() || test.model.graph().node_size() != 1) continue;
    const onnx::NodeProto& node = test.model.graph().node(0);
    // Of an operator a test for each set of attributes.
    std::string key = node.op_type();
    for (const auto& attribute : node.attribute()) key += " " + attribute.name();
    const auto is_tensor = [](const auto& input) { return input.second.is_tensor(); };
    const bool has_tensors = std::ranges::all_of(test.data_sets[0].inputs, is_tensor);
    if (has_subgraph(node) || !has_tensors || !seen.insert(key).second) continue;
    const TensorMap data = to_tensors(test.data_sets[0].inputs, "input");
    for (int round = 0; round < 12; ++round) {
      onnx::ModelProto model = test.model;
      Damager(++seed).damage(model, data);
      SCOPED_TRACE(test.name + ", seed " + std::to_string(seed));
      try {
        const onnx::ModelProto imported = import_model(model, {}, "m.onnx");
        TensorMap inputs;
        for (const auto& input : imported.graph().input()) {
          const auto given = data.find(input.name());
          if (given != data.end()) inputs.insert(*given);
        }
        if (is_small(imported)) run_graph(imported, inputs);
        ++computed;
      } catch (const isa::UserError&) {
        ++refused;
      } catch (const isa::UnsupportedError&) {
        ++refused;
      } catch (const std::exception& error) {
        ADD_FAILURE() << error.what();
      }
    }
  }
  std::cout << refused << " refused, " << computed << " computed\n";
  EXPECT_GT(refused, 1000);
  EXPECT_GT(computed, 300);
}

}  // namespace
}  // namespace kodama::compiler
