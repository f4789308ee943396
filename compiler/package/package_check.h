#pragma once

#include "compiler/package/compiled_model.h"

namespace kodama::compiler {

/// What the rest of the program takes for granted in a model that was read from a package: every tensor
/// number, shape, map, layout, address, count and order. UserError with the key path in the manifest, what
/// was found, and what is allowed.
void check_package_model(const CompiledModel& model);

}  // namespace kodama::compiler
