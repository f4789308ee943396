#pragma once

#include <string>

namespace kodama::compiler {

/// docs/operators.md: every operator of ONNX's opset 17 with the types of its elements, where it runs and
/// under which condition, out of the tables in the code; and the operators that newer opsets changed.
std::string operators_page();

}  // namespace kodama::compiler
