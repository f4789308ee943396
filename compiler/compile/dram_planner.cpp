#include "compiler/compile/dram_planner.h"

#include <fmt/format.h>

#include <algorithm>

namespace kodama::compiler {

int64_t DramPlanner::place(int64_t size_lw, int64_t first, int64_t last, const std::string& what) {
  const auto align = [this](int64_t address) { return (address + alignment_ - 1) / alignment_ * alignment_; };
  int64_t begin = 0;
  for (const Range& range : ranges_) {
    if (range.last < first || last < range.first) continue;
    if (begin + size_lw <= range.begin) break;
    begin = std::max(begin, align(range.end));
  }
  if (begin + size_lw > capacity_) {
    throw DramOverflow(fmt::format(
        "{} needs {} LW of DRAM per group, but only {} of {} are free; use a smaller batch or a chip "
        "with more DRAM (dram_lw)",
        what, size_lw, std::max<int64_t>(capacity_ - begin, 0), capacity_));
  }
  const Range range{begin, begin + size_lw, first, last};
  ranges_.insert(std::upper_bound(ranges_.begin(), ranges_.end(), range,
                                  [](const Range& a, const Range& b) { return a.begin < b.begin; }),
                 range);
  return begin;
}

}  // namespace kodama::compiler
