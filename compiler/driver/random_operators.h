#pragma once

#include "compiler/driver/random_nodes.h"

/// Operators of random models that networks have now and then: functions, running sums, resizing, recurrence.
namespace kodama::compiler {

/// Adds one that reads value number `from`, or a few; false if what is picked doesn't fit.
bool add_rare_operator(RandomNodes& nodes, size_t from);

}  // namespace kodama::compiler
