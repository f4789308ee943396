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

/// What lies in the DRAM of every group, at the same address, from stage `first` to stage `last` (inclusive).
struct DramBuffer {
  std::string what;  ///< for messages
  int64_t size_lw = 0;
  int64_t first = 0;
  int64_t last = 0;
};

/// Where everything in DRAM is. First the buffers that are known from the beginning, packed over their
/// lifetimes (scheduler/packing/packing.h); behind them what comes later and stays.
class DramPlacement {
 public:
  /// `capacity_lw` per group; addresses are multiples of `alignment_lw`. DramOverflow naming a buffer for
  /// which there is no room.
  DramPlacement(const std::vector<DramBuffer>& buffers, int64_t capacity_lw, int64_t alignment_lw);

  /// LW, by buffer.
  const std::vector<int64_t>& addresses() const { return addresses_; }
  /// An address behind all else. DramOverflow naming `what`.
  int64_t append(int64_t size_lw, const std::string& what);

 private:
  [[noreturn]] void refuse(const std::string& what, int64_t size_lw, int64_t address) const;

  int64_t capacity_;
  int64_t alignment_;
  int64_t end_ = 0;
  std::vector<int64_t> addresses_;
};

}  // namespace kodama::compiler
