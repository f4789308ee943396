#pragma once

#include <onnx/onnx_pb.h>

#include <cstdint>
#include <string>
#include <vector>

namespace kodama::compiler {

/// The newest operator set and IR that models may have; downgrade_opset() brings them to kOpsetVersion.
inline constexpr int64_t kNewestOpset = 21;
inline constexpr int64_t kNewestIrVersion = 10;

/// Rewrites a model of opset 18 to 21 to opset 17, before libonnx, which knows no newer one, sees its nodes:
/// also in functions and sub-graphs. Where the model and its functions are of one opset, its functions are
/// expanded first, so that a function's operand is known where a rule needs its elements. Models of opset 17
/// and older stay as they are. Values must be made before they are read.
///
/// Throws UnsupportedError, beginning with `where`, that names node, operator, version and what to do instead
/// where a node can't be expressed in opset 17, and for element types that IR version 8 doesn't have (float8,
/// 4-bit integers); UserError for nodes that contradict their operator's page.
void downgrade_opset(onnx::ModelProto& model, const std::string& where);

/// An operator that changed between opset 17 and 21, for docs/operators.md.
struct ChangedOperator {
  std::string name;
  std::string versions;  ///< "18, 20"
  std::string change;    ///< what changed, and what Kodama makes of it
  bool is_refused = false;
};
/// All of them, by name.
std::vector<ChangedOperator> changed_operators();

}  // namespace kodama::compiler
