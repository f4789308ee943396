#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "isa/error.h"

namespace kodama::compiler {

class DramOverflow : public isa::UnsupportedError {
 public:
  using UnsupportedError::UnsupportedError;
};

/// Addresses in DRAM for streams with lifetimes: two streams may share addresses if no stage needs both.
/// First fit in the order of requests.
class DramPlanner {
 public:
  /// `capacity_lw` per group; streams start on multiples of `alignment_lw`.
  DramPlanner(int64_t capacity_lw, int64_t alignment_lw) : capacity_(capacity_lw), alignment_(alignment_lw) {}

  /// An address for `size_lw` from stage `first` to stage `last` (inclusive). DramOverflow naming `what`
  /// if DRAM is too small.
  int64_t place(int64_t size_lw, int64_t first, int64_t last, const std::string& what);

 private:
  struct Range {
    int64_t begin, end;
    int64_t first, last;
  };
  int64_t capacity_;
  int64_t alignment_;
  std::vector<Range> ranges_;  ///< sorted by begin
};

}  // namespace kodama::compiler
