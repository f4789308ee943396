#pragma once

#include <cstdint>
#include <string>

#include "isa/chip.h"
#include "layout/search/conversion.h"

/// Conversions on the simulated chip.
namespace kodama::checks {

/// Runs a conversion on a chip whose memories are full of noise, elements and padding of the source in their
/// places. Checks every element and all padding of the target, that nothing outside the scratch ranges and
/// the target has changed, and that the program keeps the distances of the hardware. Empty when all is right,
/// else the first thing that isn't; where a plugin's move primitive takes part, PassError that blames it. The
/// cycles that were simulated go to `cycles`.
std::string conversion_difference(const layout::ConversionProblem& problem,
                                  const layout::Conversion& conversion, const isa::Chip& chip, uint64_t seed,
                                  int64_t* cycles = nullptr);

}  // namespace kodama::checks
