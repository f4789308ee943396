#include <onnx/defs/data_type_utils.h>
#include <onnx/defs/schema.h>

#include <complex>
#include <set>

#include "compiler/reference/onnx_backend_test.h"
#include "compiler/reference/reference_test_util.h"

namespace kodama::compiler {
namespace {

/// The elements as another type, which may be any.
Tensor converted(const Tensor& x, DataType type) {
  if (x.type() == type) return x;
  if (type == DataType::kComplex64 || type == DataType::kComplex128) {
    Tensor result(type, x.shape());
    for (int64_t i = 0; i < x.size(); ++i) {
      const double real = element_as_double(x, i);
      if (type == DataType::kComplex64) {
        result.data<std::complex<float>>()[static_cast<size_t>(i)] = static_cast<float>(real);
      } else {
        result.data<std::complex<double>>()[static_cast<size_t>(i)] = real;
      }
    }
    return result;
  }
  return testing::run_one(fmt::format("y = Cast<to={}>(x)", static_cast<int>(type)), {x});
}

/// What a schema allows though nothing can be computed.
bool is_meaningless(const onnx::NodeProto& node, int input, DataType type) {
  const bool is_float =
      type == DataType::kFloat32 || type == DataType::kFloat64 || type == DataType::kFloat16;
  // The result has the type of X, but must be floating point.
  if (node.op_type() == "GridSample") return !is_float;
  // Without fmod, as in the test, Mod is for integers.
  if (node.op_type() == "Mod") return is_float || type == DataType::kBfloat16;
  // Interpolated between texts; the test's mode is cubic.
  if (node.op_type() == "Resize" && input == 0) {
    return type == DataType::kString || type == DataType::kBool || type == DataType::kComplex64 ||
           type == DataType::kComplex128;
  }
  return node.op_type() == "TfIdfVectorizer" && type == DataType::kString;  // its pool holds integers
}

/// Takes the node tests of one operator on tensors after the other; each operand gets every type of the
/// schema, with those that must have the same. Results aren't compared: that an operator refuses a type is
/// what is looked for.
TEST(Schemas, EveryTypeOfEveryOperatorIsComputed) {
  const auto root = find_onnx_tests();
  if (!root) GTEST_SKIP() << "the package libonnx-testdata isn't installed";
  std::set<std::string> seen;
  int cases = 0;
  for (const auto& directory : list_backend_tests(*root)) {
    const BackendTestCase test = load_backend_test(directory);
    if (test.data_sets.empty() || test.model.graph().node_size() != 1) continue;
    const onnx::NodeProto& node = test.model.graph().node(0);
    const OperatorSets operators(test.model);
    const auto* const schema = onnx::OpSchemaRegistry::Schema(
        node.op_type(), static_cast<int>(operators.version(node.domain())), node.domain());
    const bool has_graph =
        std::ranges::any_of(node.attribute(), [](const auto& each) { return each.has_g(); });
    const bool is_of_tensors = std::ranges::all_of(test.data_sets[0].inputs,
                                                   [](const auto& each) { return each.second.is_tensor(); });
    if (has_graph || !is_of_tensors || schema == nullptr || schema->inputs().empty() ||
        !seen.insert(node.op_type()).second)
      continue;
    const auto formal = [&](int input) -> const onnx::OpSchema::FormalParameter& {
      return schema->inputs()[std::min(static_cast<size_t>(input), schema->inputs().size() - 1)];
    };
    for (int varied = 0; varied < node.input_size(); ++varied) {
      for (const std::string* text : formal(varied).GetTypes()) {
        const onnx::TypeProto& type = onnx::Utils::DataTypeUtils::ToTypeProto(text);
        if (!type.has_tensor_type() || node.input(varied).empty()) continue;
        const auto element_type = static_cast<DataType>(type.tensor_type().elem_type());
        if (is_meaningless(node, varied, element_type)) continue;
        std::vector<Tensor> tensors;
        bool is_convertible = true;
        for (int input = 0; input < node.input_size(); ++input) {
          const auto given = test.data_sets[0].inputs.find(node.input(input));
          tensors.push_back(given == test.data_sets[0].inputs.end() ? Tensor() : given->second.tensor());
          if (formal(input).GetTypeStr() != formal(varied).GetTypeStr()) continue;
          try {
            tensors.back() = converted(tensors.back(), element_type);
          } catch (const isa::UserError&) {
            is_convertible = false;  // text that is no number
          }
        }
        if (!is_convertible) continue;
        std::vector<const Tensor*> inputs;
        for (int input = 0; input < node.input_size(); ++input) {
          inputs.push_back(node.input(input).empty() ? nullptr : &tensors[static_cast<size_t>(input)]);
        }
        ++cases;
        std::string message;
        try {
          run_node(node, inputs, operators);
        } catch (const isa::Error& error) {
          message = error.what();
        }
        EXPECT_EQ(message, "") << test.name << ", input " << varied << " as " << *text;
      }
    }
  }
  EXPECT_GT(cases, 1000);
}

}  // namespace
}  // namespace kodama::compiler
