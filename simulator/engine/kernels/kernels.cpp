#include "simulator/engine/kernels/kernels.h"

#include "simulator/engine/kernels/targets.h"
// After the targets that there are.
#include <fmt/format.h>
#include <hwy/targets.h>

#include <vector>

#include "isa/error.h"

/// The table of each target, and the choice between them at run time.

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "simulator/engine/kernels/kernels.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace kodama::simulator {
namespace HWY_NAMESPACE {

// In the sources of the same names, for the same targets.
void add_alu_kernels(KernelTable& table);
void add_block_float_kernels(KernelTable& table);
void add_double_kernels(KernelTable& table);
void add_vector_kernels(KernelTable& table);
void add_matrix_kernels(KernelTable& table);
void add_move_kernels(KernelTable& table);
void add_reduce_kernels(KernelTable& table);
void add_row_kernels(KernelTable& table);

namespace {

const KernelTable* get_table() {
  static const KernelTable table = [] {
    KernelTable kernels;
    kernels.target = hwy::TargetName(HWY_TARGET);
    add_alu_kernels(kernels);
    add_block_float_kernels(kernels);
    add_double_kernels(kernels);
    add_vector_kernels(kernels);
    add_matrix_kernels(kernels);
    add_move_kernels(kernels);
    add_reduce_kernels(kernels);
    add_row_kernels(kernels);
    return kernels;
  }();
  return &table;
}

}  // namespace
// NOLINTNEXTLINE(google-readability-namespace-comments)
}  // namespace HWY_NAMESPACE
}  // namespace kodama::simulator
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace kodama::simulator {

HWY_EXPORT(get_table);

const KernelTable& best_kernels() {
  return *HWY_DYNAMIC_DISPATCH(get_table)();
}

namespace {
/// Bits of HWY_TARGETS that the host supports.
std::vector<int64_t> supported_targets() {
  hwy::SetSupportedTargetsForTest(0);  // an earlier choice hides the others
  std::vector<int64_t> targets;
  for (int64_t left = hwy::SupportedTargets() & HWY_TARGETS; left != 0; left &= left - 1)
    targets.push_back(left & -left);
  return targets;
}
}  // namespace

std::vector<std::string> kernel_targets() {
  std::vector<std::string> names;
  for (const int64_t target : supported_targets()) names.emplace_back(hwy::TargetName(target));
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
  return names;
}

void choose_kernels(const std::string& target) {
  int64_t chosen = 0;
  for (const int64_t each : supported_targets()) {
    if (hwy::TargetName(each) == target) chosen = each;
  }
  if (!target.empty() && chosen == 0) {
    throw isa::UserError(
        fmt::format("vector target '{}': this host supports {}", target, fmt::join(kernel_targets(), ", ")));
  }
  hwy::SetSupportedTargetsForTest(chosen);
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
}

}  // namespace kodama::simulator
#endif
