#pragma once

#include <string>
#include <vector>

#include "simulator/machine.h"

namespace kodama::simulator {

/// Names of Hazards: ignore, error, stale, stall.
std::vector<std::string> hazard_modes();
/// UserError lists the names.
Hazards parse_hazards(const std::string& name);

}  // namespace kodama::simulator
