#pragma once

#include <cstdint>

#include "isa/chip.h"
#include "layout/search/conversion.h"

/// Random conversions, for tests: `kodama layout fuzz` and the property tests.
namespace kodama::layout {

/// Two random layouts of one random tensor of at most about `most_elements`: any memories, 16, 32 and 64
/// bits, digits that divide each other and digits that don't, replication, padding of every kind, gaps
/// between addresses. Both fit the chip. The same seed always gives the same problem.
ConversionProblem random_problem(uint64_t seed, const isa::Chip& chip, int64_t most_elements = 512);

}  // namespace kodama::layout
