#pragma once

#include <cstddef>

/// Internal to scheduler/.
namespace kodama::scheduler {

/// A number of something as an index of a vector.
template <typename Number>
constexpr size_t index(Number value) {
  return static_cast<size_t>(value);
}

}  // namespace kodama::scheduler
