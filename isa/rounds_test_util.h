#pragma once

#include <cstddef>
#include <cstdlib>

namespace kodama::isa {

/// How much of a kind a test takes: what shows an error in a change, and more in the long suite
/// (KODAMA_LONG=1 tools/test.sh).
template <typename T>
T rounds(T usual, T in_long_suite) {
  return std::getenv("KODAMA_LONG") != nullptr ? in_long_suite : usual;
}

#if defined(KODAMA_SANITIZED)
constexpr bool kSanitized = true;
#else
constexpr bool kSanitized = false;
#endif
/// The same of random cases, which a build with sanitizers takes fewer of by default: it is ten times slower.
template <typename T>
T random_cases(T usual, T sanitized, T in_long_suite) {
  return rounds(kSanitized ? sanitized : usual, in_long_suite);
}

/// Whether a test takes number `number` of many that are alike: of `share` one, all in the long suite.
inline bool one_of(size_t share, size_t number) {
  return number % rounds<size_t>(share, 1) == 0;
}

}  // namespace kodama::isa
