#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <limits>

#include "compiler/proto/tensor_proto.h"
#include "compiler/reference/onnx_backend_test.h"

namespace kodama::compiler {

using isa::UserError;

namespace {

constexpr const char* kDebianPlace = "/usr/lib/python3/dist-packages/onnx/backend/test/data/node";

std::string read_bytes(const std::filesystem::path& path) {
  std::ifstream stream(path, std::ios::binary);
  if (!stream) throw UserError(fmt::format("{}: can't be read", path.string()));
  return {std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>()};
}

onnx::ModelProto read_model_file(const std::filesystem::path& path) {
  const std::string bytes = read_bytes(path);
  onnx::ModelProto model;
  if (bytes.size() > static_cast<size_t>(std::numeric_limits<int>::max()) ||
      !model.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
    throw UserError(fmt::format("{}: not a model, or truncated", path.string()));
  }
  return model;
}

/// The reason why a graph's input or output can't be read; empty for tensors, sequences and optionals.
std::string no_value(const char* role, const onnx::ValueInfoProto& value) {
  const char* kind = nullptr;
  switch (value.type().value_case()) {
    case onnx::TypeProto::kTensorType:
    case onnx::TypeProto::kSequenceType:
    case onnx::TypeProto::kOptionalType:
      return "";
    case onnx::TypeProto::kMapType:
      kind = "a map";
      break;
    case onnx::TypeProto::kSparseTensorType:
      kind = "a sparse tensor";
      break;
    default:
      kind = "without a type";
  }
  return fmt::format("{} '{}' is {}", role, value.name(), kind);
}

/// input_0.pb, input_1.pb, …: the values of the first inputs of the graph, in its order.
template <typename Values>
ValueMap load_values(const std::filesystem::path& directory, const char* role, const Values& declared) {
  ValueMap values;
  for (int i = 0; i < declared.size(); ++i) {
    const std::filesystem::path path = directory / fmt::format("{}_{}.pb", role, i);
    if (!std::filesystem::exists(path)) break;
    values.emplace(declared.Get(i).name(),
                   value_from_bytes(read_bytes(path), declared.Get(i).type(), path.string()));
  }
  return values;
}

/// The reason why test data contradicts its model's declarations; empty if it doesn't.
template <typename Values>
std::string contradiction(const ValueMap& values, const Values& declared) {
  for (const onnx::ValueInfoProto& value : declared) {
    const auto found = values.find(value.name());
    const auto& type = value.type().tensor_type();
    if (found == values.end() || !found->second.is_tensor() || !type.has_shape()) continue;
    const Tensor& tensor = found->second.tensor();
    Shape shape;
    bool fits = type.shape().dim_size() == tensor.rank();
    for (int axis = 0; axis < type.shape().dim_size(); ++axis) {
      const auto& dim = type.shape().dim(axis);
      shape.push_back(dim.has_dim_value() ? dim.dim_value() : -1);
      fits = fits && (!dim.has_dim_value() || dim.dim_value() == tensor.shape()[static_cast<size_t>(axis)]);
    }
    if (!fits) {
      return fmt::format("the data of '{}' has shape {}, its model declares {}", value.name(),
                         shape_to_string(tensor.shape()), shape_to_string(shape));
    }
  }
  return "";
}

/// ONNX's runner doesn't look at declared shapes, and some data have others: the data decide.
void declare_as_given(onnx::GraphProto& graph, const ValueMap& inputs) {
  for (onnx::ValueInfoProto& input : *graph.mutable_input()) {
    const auto given = inputs.find(input.name());
    if (given == inputs.end() || !given->second.is_tensor() || !input.type().has_tensor_type()) continue;
    auto& shape = *input.mutable_type()->mutable_tensor_type()->mutable_shape();
    shape.clear_dim();
    for (const int64_t extent : given->second.tensor().shape()) shape.add_dim()->set_dim_value(extent);
  }
}

/// Dropout of nothing is no random operator.
bool draws(const onnx::NodeProto& node, const BackendTestCase& test) {
  const std::string ratio = node.op_type() == "Dropout" && node.input_size() > 1 ? node.input(1) : "";
  const auto is_zero = [&](const BackendTestData& data) {
    const auto given = data.inputs.find(ratio);
    return given != data.inputs.end() && given->second.is_tensor() && given->second.tensor().size() == 1 &&
           element_as_double(given->second.tensor(), 0) == 0;
  };
  return is_random(node) && !std::ranges::all_of(test.data_sets, is_zero);
}

std::set<std::string> find_random_outputs(const BackendTestCase& test) {
  std::set<std::string> random;
  for (const onnx::NodeProto& node : test.model.graph().node()) {
    const auto is_known = [&](const std::string& name) { return random.contains(name); };
    if (draws(node, test) || std::ranges::any_of(node.input(), is_known)) {
      random.insert(node.output().begin(), node.output().end());
    }
  }
  std::set<std::string> outputs;
  for (const onnx::ValueInfoProto& output : test.model.graph().output()) {
    if (random.contains(output.name())) outputs.insert(output.name());
  }
  return outputs;
}

/// Tests of release 1.12 whose data can't come from their models.
const std::map<std::string, const char*> kWrongTests = {
    {"test_adam_multiple",
     "a defect of ONNX's test: its data were made with epsilon 0.01, which its node hasn't"},
};

std::string describe(const Tensor& tensor) {
  return fmt::format("{} {}", data_type_name(tensor.type()), shape_to_string(tensor.shape()));
}

bool is_floating_point(DataType type) {
  return type == DataType::kFloat32 || type == DataType::kFloat64 || type == DataType::kFloat16 ||
         type == DataType::kBfloat16;
}

/// A bfloat16 may be off by one in its last place: ONNX's data was made by cutting off bits, while we round
/// to nearest (Cast leaves it open), and 1e-3 is less than its precision anyway.
constexpr double kBfloat16Step = 0x1p-7;

std::string compare(const Tensor& actual, const Tensor& expected, const BackendTestTolerance& tolerance) {
  if (actual.type() != expected.type() || actual.shape() != expected.shape()) {
    return fmt::format("is {}, expected is {}", describe(actual), describe(expected));
  }
  if (expected.type() == DataType::kString) {
    const auto [a, e] =
        std::mismatch(actual.strings().begin(), actual.strings().end(), expected.strings().begin());
    if (a == actual.strings().end()) return "";
    return fmt::format("element {} is '{}', expected is '{}'", a - actual.strings().begin(), *a, *e);
  }
  if (actual == expected) return "";
  const bool is_complex = expected.type() == DataType::kComplex64 || expected.type() == DataType::kComplex128;
  if (is_complex) return "complex elements differ";
  const double relative = expected.type() == DataType::kBfloat16 ? std::max(tolerance.relative, kBfloat16Step)
                                                                 : tolerance.relative;
  for (int64_t i = 0; i < expected.size(); ++i) {
    const double a = element_as_double(actual, i);
    const double e = element_as_double(expected, i);
    if (is_floating_point(expected.type())) {
      if (a == e || (std::isnan(a) && std::isnan(e))) continue;
      if (std::isfinite(a) && std::isfinite(e) &&
          std::fabs(a - e) <= tolerance.absolute + relative * std::fabs(e)) {
        continue;
      }
    } else {  // as bytes: a double can't tell all 64-bit integers apart
      const size_t width = element_size(expected.type());
      const auto at = static_cast<size_t>(i) * width;
      if (std::ranges::equal(actual.bytes().subspan(at, width), expected.bytes().subspan(at, width)))
        continue;
    }
    return fmt::format("element {} is {}, expected is {}", i, a, e);
  }
  return "";
}

std::string compare(const Value& actual, const Value& expected, const BackendTestTolerance& tolerance) {
  if (actual.is_tensor() && expected.is_tensor())
    return compare(actual.tensor(), expected.tensor(), tolerance);
  if (actual.is_optional() != expected.is_optional() || actual.is_sequence() != expected.is_sequence() ||
      actual.has_element() != expected.has_element() || actual.element_type() != expected.element_type() ||
      actual.size() != expected.size()) {
    return fmt::format("is {}, expected is {}", actual.describe(), expected.describe());
  }
  if (expected.is_optional())
    return expected.has_element() ? compare(actual.element(), expected.element(), tolerance) : "";
  for (size_t k = 0; k < expected.size(); ++k) {
    const std::string difference = compare(actual.at(k), expected.at(k), tolerance);
    if (!difference.empty()) return fmt::format("tensor {} of the sequence {}", k, difference);
  }
  return "";
}

}  // namespace

const std::vector<std::string>& onnx_test_sets() {
  static const std::vector<std::string> kSets = {"node", "simple", "pytorch-operator", "pytorch-converted"};
  return kSets;
}

std::optional<std::filesystem::path> find_onnx_tests(const std::string& set) {
  const char* const given = std::getenv("KODAMA_ONNX_NODE_TESTS");
  std::filesystem::path place = given != nullptr ? given : kDebianPlace;
  if (set != "node") place = place.parent_path() / set;
  std::error_code error;
  if (!std::filesystem::is_directory(place, error)) return std::nullopt;
  return place;
}

std::vector<std::filesystem::path> list_backend_tests(const std::filesystem::path& root) {
  std::vector<std::filesystem::path> directories;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(root, error)) {
    if (std::filesystem::exists(entry.path() / "model.onnx")) directories.push_back(entry.path());
  }
  if (error) throw UserError(fmt::format("{}: can't be listed ({})", root.string(), error.message()));
  std::sort(directories.begin(), directories.end());
  return directories;
}

BackendTestCase load_backend_test(const std::filesystem::path& directory) {
  BackendTestCase test;
  test.name = directory.filename().string();
  if (const auto wrong = kWrongTests.find(test.name); wrong != kWrongTests.end())
    test.skip_reason = wrong->second;
  test.model = read_model_file(directory / "model.onnx");
  const onnx::GraphProto& graph = test.model.graph();
  for (const onnx::ValueInfoProto& input : graph.input()) {
    if (test.skip_reason.empty()) test.skip_reason = no_value("input", input);
  }
  for (const onnx::ValueInfoProto& output : graph.output()) {
    if (test.skip_reason.empty()) test.skip_reason = no_value("output", output);
  }
  if (!test.skip_reason.empty()) return test;
  for (int i = 0;; ++i) {
    BackendTestData data;
    data.name = fmt::format("test_data_set_{}", i);
    if (!std::filesystem::is_directory(directory / data.name)) break;
    data.inputs = load_values(directory / data.name, "input", graph.input());
    data.outputs = load_values(directory / data.name, "output", graph.output());
    if (test.data_sets.empty()) declare_as_given(*test.model.mutable_graph(), data.inputs);
    if (test.skip_reason.empty()) test.skip_reason = contradiction(data.inputs, graph.input());
    test.data_sets.push_back(std::move(data));
  }
  if (test.data_sets.empty()) test.skip_reason = "there is no test_data_set_0";
  test.random_outputs = find_random_outputs(test);
  return test;
}

std::string compare_with_expected(const ValueMap& actual, const ValueMap& expected,
                                  const BackendTestTolerance& tolerance,
                                  const std::set<std::string>& random_outputs) {
  for (const auto& [name, value] : expected) {
    const auto found = actual.find(name);
    if (found == actual.end()) return fmt::format("output '{}' is missing", name);
    const bool is_same_type = found->second.is_tensor() && value.is_tensor() &&
                              found->second.tensor().type() == value.tensor().type() &&
                              found->second.tensor().shape() == value.tensor().shape();
    if (random_outputs.contains(name) && is_same_type) continue;
    const std::string difference = compare(found->second, value, tolerance);
    if (!difference.empty()) return fmt::format("output '{}': {}", name, difference);
  }
  return "";
}

}  // namespace kodama::compiler
