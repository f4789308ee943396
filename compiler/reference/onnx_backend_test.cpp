#include "compiler/reference/onnx_backend_test.h"

#include <gtest/gtest.h>

#include <fstream>
#include <map>

namespace kodama::compiler {
namespace {

/// Every node test of ONNX whose operators have a reference.
TEST(OnnxNodeTests, ReferencePassesThemAll) {
  const auto root = find_onnx_tests();
  if (!root) {
    GTEST_SKIP() << "ONNX's node tests aren't here: install libonnx-testdata or set KODAMA_ONNX_NODE_TESTS";
  }
  int passed = 0;
  int failed = 0;
  std::map<std::string, int> skipped;
  for (const auto& directory : list_backend_tests(*root)) {
    const BackendTestCase test = load_backend_test(directory);
    if (!test.skip_reason.empty()) {
      ++skipped[test.skip_reason];
      continue;
    }
    try {
      std::string difference;
      for (const BackendTestData& data : test.data_sets) {
        const ValueMap outputs = run_graph_on_values(test.model, data.inputs);
        const std::string found = compare_with_expected(outputs, data.outputs, {}, test.random_outputs);
        if (!found.empty()) difference += data.name + ": " + found + "\n";
      }
      EXPECT_EQ(difference, "") << test.name;
      ++(difference.empty() ? passed : failed);
    } catch (const isa::UnsupportedError& error) {
      const std::string text = error.what();
      ++skipped[text.substr(text.find("): ") + 3)];
    } catch (const std::exception& error) {
      ADD_FAILURE() << test.name << ": " << error.what();
      ++failed;
    }
  }
  std::cout << passed << " passed, " << failed << " failed\n";
  for (const auto& [reason, count] : skipped) std::cout << count << " skipped: " << reason << "\n";
  EXPECT_GT(passed, 0);
}

TEST(CompareWithExpected, Tolerances) {
  const auto floats = [](std::vector<float> values) {
    return ValueMap{{"y", Tensor::from_values<float>(DataType::kFloat32, {2}, values)}};
  };
  EXPECT_EQ(compare_with_expected(floats({1.0f, NAN}), floats({1.0009f, NAN})), "");
  EXPECT_NE(compare_with_expected(floats({1.0f, 2.0f}), floats({1.0f, 2.01f})), "");
  EXPECT_NE(compare_with_expected(floats({1.0f, INFINITY}), floats({1.0f, 3.0f})), "");
  EXPECT_NE(compare_with_expected({}, floats({1.0f, 2.0f})), "");
  EXPECT_NE(compare_with_expected({{"y", Tensor(DataType::kFloat64, {2})}}, floats({0.0f, 0.0f})), "");
  const auto integers = [](int64_t value) {
    return ValueMap{{"y", Tensor::from_values<int64_t>(DataType::kInt64, {}, {value})}};
  };
  EXPECT_NE(compare_with_expected(integers((int64_t{1} << 60) + 1), integers(int64_t{1} << 60)), "");
}

}  // namespace
}  // namespace kodama::compiler
