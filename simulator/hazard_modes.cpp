#include "simulator/hazard_modes.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <utility>

#include "isa/error.h"

namespace kodama::simulator {
namespace {

constexpr std::array<std::pair<const char*, Hazards>, 4> kModes{{{"ignore", Hazards::kIgnore},
                                                                 {"error", Hazards::kError},
                                                                 {"stale", Hazards::kStale},
                                                                 {"stall", Hazards::kStall}}};

}  // namespace

std::vector<std::string> hazard_modes() {
  std::vector<std::string> names;
  for (const auto& mode : kModes) names.emplace_back(mode.first);
  return names;
}

Hazards parse_hazards(const std::string& name) {
  const auto* mode =
      std::ranges::find(kModes, name, [](const auto& each) { return std::string(each.first); });
  if (mode == kModes.end())
    throw isa::UserError(
        fmt::format("hazards: found '{}', allowed: {}", name, fmt::join(hazard_modes(), ", ")));
  return mode->second;
}

}  // namespace kodama::simulator
