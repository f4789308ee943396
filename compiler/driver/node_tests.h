#pragma once

#include <iosfwd>
#include <string>
#include <vector>

#include "compiler/driver/session.h"

/// ONNX's own tests, of nodes and of small models, on the chip path and on the reference path.
namespace kodama::compiler {

enum class NodeTestStatus : uint8_t {
  kPassed,   ///< computed on the chip (relayouts by host permutation included; control flow and sequences are
             ///< the host's), within ONNX's tolerances
  kHost,     ///< right, but computed on the host by the CPU reference; the reason names operator and type
  kLimited,  ///< differs only where the chip has no such number: NaN, or a subnormal
  kFailed,
  kSkipped,  ///< not run; the reason says why
};
std::string node_test_status_name(NodeTestStatus status);

struct NodeTestResult {
  std::string name;
  std::vector<std::string> operators;
  NodeTestStatus chip = NodeTestStatus::kSkipped;
  std::string chip_reason;
  NodeTestStatus reference = NodeTestStatus::kSkipped;  ///< kPassed, kFailed or kSkipped
  std::string reference_reason;
};

struct NodeTestRequest {
  std::string chip = "tiny";
  std::string precision = "float";
  std::vector<std::string> sets = {"node"};  ///< of onnx_test_sets(), or "all"
  std::string directory;  ///< instead of sets; empty: where Debian's libonnx-testdata puts them
  std::string filter;     ///< regular expression on the test's name; empty = all
  bool verbose = false;   ///< a line per test, not only per test that did not pass
  int threads = 0;
  std::string json_file;
};

/// Runs the tests, set by set, in order of their names. UserError if there are none.
std::vector<NodeTestResult> run_node_tests(const NodeTestRequest& request);

/// Prints results and totals; exit code 1 if any test failed on either path.
int node_tests_command(const NodeTestRequest& request, std::ostream& out);

}  // namespace kodama::compiler
