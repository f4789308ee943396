#pragma once

#include <onnx/onnx_pb.h>

#include <filesystem>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "compiler/reference/executor.h"

/// ONNX's own backend tests (Debian package libonnx-testdata): directories that hold model.onnx and
/// test_data_set_N/{input,output}_N.pb. Whoever executes models (CPU reference, chip) can be held to them.
namespace kodama::compiler {

struct BackendTestData {
  std::string name;  ///< "test_data_set_0"
  ValueMap inputs;
  ValueMap outputs;
};

/// One test directory. Where `skip_reason` is not empty the rest may be incomplete.
struct BackendTestCase {
  std::string name;
  onnx::ModelProto model;
  std::vector<BackendTestData> data_sets;
  /// Outputs that random numbers decide. ONNX says nothing of the generator: they have the expected type and
  /// shape, but other elements.
  std::set<std::string> random_outputs;
  std::string skip_reason;  ///< e.g. "input 'x' is a map"
};

/// The sets of tests that have models in Debian's package. `real` names models that it doesn't have, and
/// `light` isn't in it.
const std::vector<std::string>& onnx_test_sets();

/// Where the tests of a set are: the node tests in $KODAMA_ONNX_NODE_TESTS, else at the place where Debian
/// puts them, the others beside them; nullopt if there is nothing.
std::optional<std::filesystem::path> find_onnx_tests(const std::string& set = "node");

/// The test directories in `root`, sorted by name.
std::vector<std::filesystem::path> list_backend_tests(const std::filesystem::path& root);

/// Loads one test. UserError if a file is missing or broken.
BackendTestCase load_backend_test(const std::filesystem::path& directory);

/// ONNX's tolerances (onnx.backend.test.runner).
struct BackendTestTolerance {
  double relative = 1e-3;
  double absolute = 1e-7;
};

/// Empty if `actual` has all the values of `expected` with the same types, shapes and elements (floating
/// point within the tolerance: |a - e| <= absolute + relative * |e|, NaN equals NaN; everything else
/// exactly); else what differs first. bfloat16 may be off by one in its last place. Of `random_outputs` only
/// types and shapes are compared.
std::string compare_with_expected(const ValueMap& actual, const ValueMap& expected,
                                  const BackendTestTolerance& tolerance = {},
                                  const std::set<std::string>& random_outputs = {});

}  // namespace kodama::compiler
