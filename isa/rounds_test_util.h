#pragma once

#include <cstdlib>

namespace kodama::isa {

/// How much of a kind a test takes: what shows an error in a change, and more in the long suite
/// (KODAMA_LONG=1 tools/test.sh).
template <typename T>
T rounds(T usual, T in_long_suite) {
  return std::getenv("KODAMA_LONG") != nullptr ? in_long_suite : usual;
}

}  // namespace kodama::isa
