#pragma once

#include <cstdio>
#include <string_view>

namespace kodama::host {

/// A line on standard error, for what no result of a call can say.
inline void say(std::string_view text) {
  std::fprintf(stderr, "mnc2: %.*s\n", static_cast<int>(text.size()), text.data());
}

}  // namespace kodama::host
