#include <algorithm>
#include <map>

#include "scheduler/verify/findings.h"
#include "scheduler/verify/lockstep.h"
#include "scheduler/verify/operands.h"
#include "scheduler/verify/verify.h"

namespace kodama::verify {

using scheduler::Value;

namespace {

constexpr std::string_view kVerifyAllocation = "verify_allocation";

/// Addresses: in range, aligned, and not on words that operations name themselves or that are kept.
class PlaceCheck {
 public:
  PlaceCheck(const MachineProgram& program, const isa::Chip& chip)
      : program_(program), chip_(chip), is_used_(program.values.size(), false) {}

  void run() {
    take_mask(0);  // all ones
    for (const scheduler::KeptWords& kept : program_.kept) {
      for (int64_t word = kept.begin; word < kept.end; ++word)
        direct(kept.space)[static_cast<size_t>(word)] = true;
    }
    std::vector<int64_t> trips;
    for_each_operation(program_.body, trips, [&](const Operation& operation, const auto& counts) {
      const isa::Mask& flush = operation.instruction.zero_flush;
      use_mask(flush);
      for_each_operand(operation.instruction, [&](const Operand& operand, bool) {
        use_mask(operand.mask);
        take(operation, operand, counts);
      });
    });
    for (size_t v = 0; v < program_.values.size(); ++v) {
      if (is_used_[v]) check_place(program_.values[v]);
    }
  }

 private:
  int64_t size_of(Space home) const {
    switch (home) {
      case Space::kLm0:
      case Space::kLm1:
        return chip_.memory.lm_words;
      case Space::kGrf0:
      case Space::kGrf1:
        return chip_.memory.grf_words;
      case Space::kT:
        return int64_t{isa::kCyclesPerStep} * words(isa::Width::kDoubleLong);
      default:
        return isa::kMaskRegisters;
    }
  }
  std::vector<bool>& direct(Space space) {
    std::vector<bool>& taken = direct_[space];
    taken.resize(static_cast<size_t>(size_of(space)));
    return taken;
  }
  void take_mask(int64_t entry) {
    if (entry < size_of(Space::kOmr)) direct(Space::kOmr)[static_cast<size_t>(entry)] = true;
  }
  void use_mask(const isa::Mask& mask) {
    if (mask.kind == isa::Mask::Kind::kRegister) take_mask(mask.value);
    if (mask.kind == isa::Mask::Kind::kVirtual) is_used_.at(static_cast<size_t>(mask.virtual_value)) = true;
  }

  void take(const Operation& operation, const Operand& operand, const std::vector<int64_t>& trips) {
    if (operand.space == Space::kOmr) take_mask(operand.base);
    if (operand.space == Space::kVirtual) {
      is_used_.at(static_cast<size_t>(operand.value)) = true;
      const Value& value = program_.values[static_cast<size_t>(operand.value)];
      if (value.home == Space::kT) return;
      if ((value.address + operand.address(0)) % words(operand.width) != 0 ||
          value.address % std::max<int64_t>(value.alignment_words, 1) != 0)
        fail(kVerifyAllocation, fmt::format("{}: value %{} at address {} of {} is not aligned",
                                            describe(operation.instruction, operation.origin), value.name,
                                            value.address, isa::space_name(value.home)));
      return;
    }
    if (!isa::is_pe_memory(operand.space) && operand.space != Space::kT) return;
    std::vector<bool>& taken = direct(operand.space);
    // Where T points from words that are kept, it is to others of these.
    const auto is_kept = [&](const scheduler::KeptWords& kept) {
      return kept.space == operand.space && kept.begin <= operand.base && operand.base < kept.end;
    };
    if (operand.t_indirect && std::ranges::any_of(program_.kept, is_kept)) return;
    if (operand.space == Space::kT || operand.t_indirect) {
      std::fill(taken.begin(), taken.end(), true);
      return;
    }
    const int64_t size = size_of(operand.space);
    const auto [low, high] = operand_range(operand, trips);
    for (int64_t word = low; word < std::min(high, low + size); ++word)
      taken[static_cast<size_t>((word % size + size) % size)] = true;
  }

  void check_place(const Value& value) const {
    const int64_t size = size_of(value.home);
    const int64_t end = value.address + value.size_words;
    if (value.address < 0 || end > size)
      fail(kVerifyAllocation, fmt::format("value %{} has words {} to {} of {}, which has {}", value.name,
                                          value.address, end - 1, isa::space_name(value.home), size));
    const auto found = direct_.find(value.home);
    if (found == direct_.end()) return;
    for (int64_t word = value.address; word < end; ++word) {
      if (found->second[static_cast<size_t>(word)])
        fail(kVerifyAllocation,
             fmt::format("value %{} lies on word {} of {}, which operations name directly or others need",
                         value.name, word, isa::space_name(value.home)));
    }
  }

  const MachineProgram& program_;
  const isa::Chip& chip_;
  std::vector<bool> is_used_;
  std::map<Space, std::vector<bool>> direct_;  ///< words that operations name
};

}  // namespace

void verify_allocation(const MachineProgram& program, const isa::Chip& chip) {
  PlaceCheck(program, chip).run();
  run_in_lockstep({.before = program, .after = program, .after_has_places = true}, chip, kVerifyAllocation);
}

}  // namespace kodama::verify
