#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

namespace kodama::scheduler {

/// What lives in a memory over the moments of a program: adds to a range of moments, and finds the largest
/// sum in one, in the logarithm of their number (a segment tree whose nodes keep what all below them have).
class LiveProfile {
 public:
  explicit LiveProfile(int64_t moments) {
    while (size_ < moments) size_ *= 2;
    largest_.assign(static_cast<size_t>(2 * size_), 0);
    all_.assign(static_cast<size_t>(2 * size_), 0);
  }
  /// Moments [begin, end).
  void add(int64_t begin, int64_t end, int64_t words) { add(1, 0, size_, begin, end, words); }
  /// At least 0; 0 of an empty range.
  int64_t largest(int64_t begin, int64_t end) const { return largest(1, 0, size_, begin, end); }
  /// The last moment of [begin, end) with more than `words`, -1 if there is none.
  int64_t last_above(int64_t begin, int64_t end, int64_t words) const {
    return last_above(1, 0, size_, begin, end, words);
  }

 private:
  void add(int64_t node, int64_t low, int64_t high, int64_t begin, int64_t end, int64_t words) {
    if (end <= low || high <= begin) return;
    const auto n = static_cast<size_t>(node);
    if (begin <= low && high <= end) {
      largest_[n] += words;
      all_[n] += words;
      return;
    }
    const int64_t middle = (low + high) / 2;
    add(2 * node, low, middle, begin, end, words);
    add(2 * node + 1, middle, high, begin, end, words);
    largest_[n] = std::max(largest_[2 * n], largest_[2 * n + 1]) + all_[n];
  }
  int64_t largest(int64_t node, int64_t low, int64_t high, int64_t begin, int64_t end) const {
    if (end <= low || high <= begin) return 0;
    const auto n = static_cast<size_t>(node);
    if (begin <= low && high <= end) return largest_[n];
    const int64_t middle = (low + high) / 2;
    return std::max(largest(2 * node, low, middle, begin, end),
                    largest(2 * node + 1, middle, high, begin, end)) +
           all_[n];
  }

  int64_t last_above(int64_t node, int64_t low, int64_t high, int64_t begin, int64_t end,
                     int64_t words) const {
    const auto n = static_cast<size_t>(node);
    if (end <= low || high <= begin || largest_[n] <= words) return -1;
    if (high - low == 1) return low;
    const int64_t middle = (low + high) / 2;
    const int64_t found = last_above(2 * node + 1, middle, high, begin, end, words - all_[n]);
    return found >= 0 ? found : last_above(2 * node, low, middle, begin, end, words - all_[n]);
  }

  int64_t size_ = 1;
  std::vector<int64_t> largest_;
  std::vector<int64_t> all_;  ///< added to all moments of the node
};

}  // namespace kodama::scheduler
