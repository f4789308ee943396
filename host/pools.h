#pragma once

#include <cstdint>

#include "host/include/mnc2.h"

/// Numbers that host programs take and give back.
namespace kodama::host {

class Pool {
 public:
  /// Of the numbers first to 63.
  explicit Pool(int first) : first_(first) {}

  bool has(int number) const { return number >= first_ && number < kEnd; }
  /// The lowest that is free, or MNC2_ERROR_BUSY.
  int take() {
    for (int number = first_; number < kEnd; ++number) {
      if ((taken_ >> number & 1) != 0) continue;
      taken_ |= uint64_t{1} << number;
      return number;
    }
    return MNC2_ERROR_BUSY;
  }
  int give_back(int number) {
    if (!has(number) || (taken_ >> number & 1) == 0) return MNC2_ERROR_PARAM;
    taken_ &= ~(uint64_t{1} << number);
    return MNC2_SUCCESS;
  }

 private:
  static constexpr int kEnd = 64;
  int first_;
  uint64_t taken_ = 0;
};

}  // namespace kodama::host
