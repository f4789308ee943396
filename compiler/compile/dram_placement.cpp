#include "compiler/compile/dram_placement.h"

#include <fmt/format.h>

#include <algorithm>

#include "isa/arithmetic.h"
#include "scheduler/packing/packing.h"

namespace kodama::compiler {

DramPlacement::DramPlacement(const std::vector<DramBuffer>& buffers, int64_t capacity_lw,
                             int64_t alignment_lw)
    : capacity_(capacity_lw), alignment_(alignment_lw), addresses_(buffers.size(), 0) {
  scheduler::PackingProblem problem{"DRAM", capacity_, {}};
  for (size_t k = 0; k < buffers.size(); ++k) {
    const DramBuffer& buffer = buffers[k];
    scheduler::PackingBuffer packed;
    packed.name = std::to_string(k);
    packed.lower = buffer.first;
    packed.upper = buffer.last + 1;
    packed.size = std::max<int64_t>(buffer.size_lw, 1);
    packed.alignment = alignment_;
    problem.buffers.push_back(std::move(packed));
  }
  // A better packing makes no program faster; neighbours in the plan stay neighbours.
  const scheduler::PackingSolution solution = scheduler::pack(problem, "first-fit", {{"order", "given"}});
  addresses_ = solution.offsets;
  end_ = solution.height;
  for (size_t k = 0; k < buffers.size(); ++k) {
    if (addresses_[k] + problem.buffers[k].size > capacity_)
      refuse(buffers[k].what, buffers[k].size_lw, addresses_[k]);
  }
}

int64_t DramPlacement::append(int64_t size_lw, const std::string& what) {
  const int64_t address = isa::round_up(end_, alignment_);
  if (address + size_lw > capacity_) refuse(what, size_lw, address);
  end_ = address + size_lw;
  return address;
}

void DramPlacement::refuse(const std::string& what, int64_t size_lw, int64_t address) const {
  throw DramOverflow(fmt::format(
      "{} needs {} LW of DRAM per group, but only {} of {} are free; use a smaller batch or a chip "
      "with more DRAM (dram_lw)",
      what, size_lw, std::max<int64_t>(capacity_ - address, 0), capacity_));
}

}  // namespace kodama::compiler
