#include "isa/hazards.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <tuple>
#include <unordered_map>

#include "isa/error.h"

namespace kodama::isa {
namespace {

constexpr int kResources = static_cast<int>(HazardResource::kMreadForward) + 1;
/// Transfers that the checker remembers while nobody waits for them; more are never under way.
constexpr size_t kRememberedTransfers = 1024;
/// A transfer that nobody waits for is in the way of all that follows; after this many reports it is
/// forgotten.
constexpr int kReportsPerTransfer = 4;

std::string_view unit_text(HazardResource resource) {
  switch (resource) {
    case HazardResource::kAluForward:
      return "ALU instruction";
    case HazardResource::kMauForward:
      return "MAU calculation";
    case HazardResource::kLbForward:
      return "L1BM to PE transfer";
    default:
      return "matrix read";
  }
}

bool is_local_memory(HazardResource resource) {
  return resource == HazardResource::kLm0 || resource == HazardResource::kLm1;
}

/// "LM0 word 4", "L1BM LW 0 to 63", "mask register 3", "$aluf".
std::string place_text(const Access& access) {
  const std::string name(hazard_resource_name(access.resource));
  switch (access.resource) {
    case HazardResource::kLm0:
    case HazardResource::kLm1:
    case HazardResource::kGrf0:
    case HazardResource::kGrf1:
      return access.whole ? name + " (address from T)" : fmt::format("{} word {}", name, access.begin[0]);
    case HazardResource::kMask:
      return fmt::format("{} {}", name, access.begin[0]);
    case HazardResource::kL1bm:
    case HazardResource::kL2bm:
    case HazardResource::kDram:
    case HazardResource::kPdm:
      return access.whole
                 ? name + " (address from the DAR)"
                 : fmt::format("{} LW {} to {}", name, access.begin[0], access.begin[0] + access.length - 1);
    case HazardResource::kBar0:
    case HazardResource::kBar1:
    case HazardResource::kTurnaround:
      return "the " + name;
    default:
      return name;
  }
}

std::string line_text(int32_t line) {
  return line > 0 ? fmt::format("line {}", line) : "an earlier statement";
}

}  // namespace

class HazardChecker::Impl {
 public:
  Impl(const Chip& chip, bool stalls) : chip_(chip), stalls_(stalls), window_(1 + longest_gap(chip)) {}

  int64_t next(const Statement& statement, const std::vector<int64_t>& counters) {
    statement_ = &statement;
    held_ = 0;
    if (const auto* step = std::get_if<Step>(&statement.kind)) {
      for (const Instruction& instruction : step->instructions) {
        if (instruction.opcode == Opcode::kWait) wait(instruction.tag);
      }
      this->step(*step, counters);
    } else if (const auto* nop = std::get_if<Nop>(&statement.kind)) {
      if (nop->wait_tag > 0) wait(nop->wait_tag);
      step_ += nop->count;
    } else if (const auto* mv = std::get_if<Mv>(&statement.kind)) {
      transfer(mv->instruction, counters);
    } else if (const auto* mask = std::get_if<MaskControl>(&statement.kind)) {
      block_ = *mask;
      cache_.clear();
    }
    return held_;
  }

  std::vector<HazardViolation> violations() const {
    std::vector<HazardViolation> all;
    for (const auto& [key, violation] : violations_) all.push_back(violation);
    std::ranges::stable_sort(all, [](const HazardViolation& a, const HazardViolation& b) {
      return std::tie(a.second_line, a.first_line) < std::tie(b.second_line, b.first_line);
    });
    return all;
  }

 private:
  /// An access of a statement in the recent past.
  struct Earlier {
    Access access;
    int64_t step;
    const Statement* statement;
    std::string mnemonic;
  };
  struct Named {
    Access access;
    std::string mnemonic;
  };
  struct Transfer {
    int tag;
    const Statement* statement;
    std::string mnemonic;
    std::vector<Access> accesses;
    int reports = 0;
  };
  struct Forward {
    const Statement* writer = nullptr;
    const Statement* undefined_by = nullptr;
  };

  // ---- what a statement touches

  /// The instruction with the block mask on its destinations, where that applies.
  Instruction with_block_mask(Instruction instruction, bool step_has_masks) const {
    if (block_.spaces == 0 || block_.entry == 0 || step_has_masks) return instruction;
    for (Operand& destination : instruction.destinations) {
      const int bit = mask_statement_bit(destination.space);
      if (bit < 0 || (block_.spaces >> bit & 1) == 0) continue;
      destination.mask = {Mask::Kind::kRegister, block_.entry, block_.double_long, 0};
    }
    return instruction;
  }

  std::vector<Named> accesses_of(const Step& step, const std::vector<int64_t>& counters) {
    const bool has_masks = std::ranges::any_of(step.instructions, [](const Instruction& instruction) {
      return std::ranges::any_of(instruction.destinations, [](const Operand& destination) {
        return destination.mask.kind != Mask::Kind::kNone;
      });
    });
    std::vector<Named> result;
    for (const Instruction& instruction : step.instructions) {
      if (instruction.opcode == Opcode::kWait || instruction.opcode == Opcode::kNoForward) continue;
      Instruction real = with_block_mask(instruction, has_masks);
      resolve(real, counters);
      for (Access& access : accesses(real, chip_))
        result.push_back({std::move(access), mnemonic(instruction)});
    }
    return result;
  }
  static void resolve(Instruction& instruction, const std::vector<int64_t>& counters) {
    for (auto* operands : {&instruction.sources, &instruction.destinations}) {
      for (Operand& operand : *operands) {
        operand.base = resolved_base(operand, counters);
        operand.loop_strides.clear();
      }
    }
  }
  static bool moves_with_loops(const Step& step) {
    return std::ranges::any_of(step.instructions, [](const Instruction& instruction) {
      const auto moves = [](const Operand& operand) { return !operand.loop_strides.empty(); };
      return std::ranges::any_of(instruction.sources, moves) ||
             std::ranges::any_of(instruction.destinations, moves);
    });
  }

  // ---- statements

  void step(const Step& step, const std::vector<int64_t>& counters) {
    std::vector<Named> own;
    const std::vector<Named>* touched = &own;
    // What a loop repeats is worth remembering; of straight-line code there may be millions of statements.
    if (counters.empty() || moves_with_loops(step)) {
      own = accesses_of(step, counters);
    } else {
      const auto [known, is_new] = cache_.try_emplace(statement_);
      if (is_new) known->second = accesses_of(step, counters);
      touched = &known->second;
    }
    const bool no_forward = std::ranges::any_of(step.instructions, [](const Instruction& instruction) {
      return instruction.opcode == Opcode::kNoForward;
    });
    if (stalls_) hold(*touched);
    for (const Named& named : *touched) {
      if (is_forwarding_register(named.access.resource) && !named.access.write) check_forward(named);
      check_distance(named);
      check_transfers(named);
    }
    for (const Named& named : *touched) {
      if (is_forwarding_register(named.access.resource) && named.access.write && no_forward) continue;
      recent_[static_cast<size_t>(named.access.resource)].push_back(
          {named.access, step_, statement_, named.mnemonic});
    }
    if (!no_forward) update_forwards(*touched);
    ++step_;
  }

  void update_forwards(const std::vector<Named>& touched) {
    for (const HazardResource resource : {HazardResource::kAluForward, HazardResource::kMauForward,
                                          HazardResource::kLbForward, HazardResource::kMreadForward}) {
      const bool written = std::ranges::any_of(touched, [&](const Named& named) {
        return named.access.resource == resource && named.access.write;
      });
      Forward& forward = forwards_[static_cast<size_t>(resource)];
      if (written) {
        forward = {statement_, nullptr};
      } else if (forward.undefined_by == nullptr) {
        forward.undefined_by = statement_;
      }
    }
  }

  void check_forward(const Named& read) {
    const Forward& forward = forwards_[static_cast<size_t>(read.access.resource)];
    const std::string_view name = hazard_resource_name(read.access.resource);
    const std::string_view unit = unit_text(read.access.resource);
    if (forward.writer == nullptr) {
      report(HazardViolation::Kind::kForward, nullptr, 0, 0,
             fmt::format("'{}' reads {}, but no {} came before", read.mnemonic, name, unit));
    } else if (forward.undefined_by != nullptr) {
      report(HazardViolation::Kind::kForward, forward.undefined_by, 0, 0,
             fmt::format("'{}' reads {} of {}, but the step of {} after it has no {}: the value is undefined",
                         read.mnemonic, name, line_text(forward.writer->line),
                         line_text(forward.undefined_by->line), unit));
    }
  }

  /// Waits until no distance is too short.
  void hold(const std::vector<Named>& touched) {
    int64_t missing = 0;
    for (const Named& named : touched) {
      for (const Earlier& first : recent_[static_cast<size_t>(named.access.resource)]) {
        const int64_t needed = required_gap(first.access, named.access, chip_);
        if (needed >= 0) missing = std::max(missing, needed - (step_ - first.step - 1));
      }
    }
    step_ += missing;
    held_ += missing;
  }

  void check_distance(const Named& named) {
    std::deque<Earlier>& earlier = recent_[static_cast<size_t>(named.access.resource)];
    while (!earlier.empty() && step_ - earlier.front().step > window_) earlier.pop_front();
    for (const Earlier& first : earlier) {
      const int64_t needed = required_gap(first.access, named.access, chip_);
      const int64_t found = step_ - first.step - 1;
      if (needed < 0 || found >= needed) continue;
      std::string place = place_text(named.access);
      if (is_local_memory(named.access.resource) && first.access.begin[0] != named.access.begin[0])
        place +=
            fmt::format(" (after {}: an LM has one port, whatever the address)", place_text(first.access));
      report(HazardViolation::Kind::kDistance, first.statement, found, needed,
             fmt::format("'{}' {} {}, which '{}' of {} {}: {} step{} between, {} needed", named.mnemonic,
                         named.access.write ? "writes" : "reads", place, first.mnemonic,
                         line_text(first.statement->line), first.access.write ? "writes" : "reads", found,
                         found == 1 ? "" : "s", needed));
    }
  }

  // ---- transfers

  void transfer(const Instruction& instruction, const std::vector<int64_t>& counters) {
    Instruction mv = instruction;
    resolve(mv, counters);
    Transfer transfer{mv.tag, statement_, mnemonic(mv), accesses(mv, chip_)};
    if (mv.tag > 0) {
      const auto same =
          std::ranges::find_if(transfers_, [&](const Transfer& other) { return other.tag == mv.tag; });
      if (same != transfers_.end()) {
        report(
            HazardViolation::Kind::kTagUnderWay, same->statement, 0, 0,
            fmt::format("'{}' takes tag i{:02x}, which '{}' of {} still has: nothing waits for it in between",
                        transfer.mnemonic, mv.tag, same->mnemonic, line_text(same->statement->line)));
      }
      used_tags_[static_cast<size_t>(mv.tag)] = true;
    }
    if (stalls_) {
      std::vector<Named> touched;
      for (const Access& access : transfer.accesses) touched.push_back({access, transfer.mnemonic});
      hold(touched);
    }
    for (const Access& access : transfer.accesses) {
      const Named named{access, transfer.mnemonic};
      check_distance(named);
      check_transfers(named);
    }
    transfers_.push_back(std::move(transfer));
    if (transfers_.size() > kRememberedTransfers) transfers_.pop_front();
  }

  void wait(int tag) {
    if (!used_tags_[static_cast<size_t>(tag)]) {
      report(HazardViolation::Kind::kTagNeverUsed, nullptr, 0, 0,
             fmt::format("'wait i{:02x}', but no transfer before has this tag", tag));
    }
    std::erase_if(transfers_, [&](const Transfer& transfer) { return transfer.tag == tag; });
  }

  void check_transfers(const Named& named) {
    const HazardResource resource = named.access.resource;
    if (resource != HazardResource::kL2bm && resource != HazardResource::kDram &&
        resource != HazardResource::kPdm && resource != HazardResource::kDar) {
      return;
    }
    bool forgets = false;
    for (Transfer& transfer : transfers_) {
      for (const Access& access : transfer.accesses) {
        if (access.resource != resource) continue;
        if (required_gap(access, named.access, chip_) == kNoConstraint) continue;
        forgets |= ++transfer.reports >= kReportsPerTransfer;
        report(
            HazardViolation::Kind::kNotWaited, transfer.statement, 0, 0,
            fmt::format("'{}' {} {}, which '{}' of {} {}: {}", named.mnemonic,
                        named.access.write ? "writes" : "reads", place_text(named.access), transfer.mnemonic,
                        line_text(transfer.statement->line), access.write ? "writes" : "reads",
                        transfer.tag > 0 ? fmt::format("no 'wait i{:02x}' in between", transfer.tag)
                                         : "it has no tag to wait for"));
        break;
      }
    }
    if (forgets)
      std::erase_if(transfers_, [](const Transfer& other) { return other.reports >= kReportsPerTransfer; });
  }

  // ---- reports

  void report(HazardViolation::Kind kind, const Statement* first, int64_t found, int64_t needed,
              std::string text) {
    const auto [known, is_new] = violations_.try_emplace({kind, first, statement_});
    HazardViolation& violation = known->second;
    if (!is_new) {
      ++violation.count;
      return;
    }
    violation.kind = kind;
    violation.first_line = first != nullptr ? first->line : 0;
    violation.second_line = statement_->line;
    violation.found = found;
    violation.needed = needed;
    violation.text = std::move(text);
  }

  Chip chip_;
  bool stalls_;
  int64_t window_;
  int64_t step_ = 0;
  int64_t held_ = 0;  ///< steps that the present statement is held
  const Statement* statement_ = nullptr;
  MaskControl block_;
  std::unordered_map<const Statement*, std::vector<Named>> cache_;
  std::array<std::deque<Earlier>, kResources> recent_;
  std::array<Forward, kResources> forwards_;
  std::deque<Transfer> transfers_;
  std::array<bool, 64> used_tags_{};
  std::map<std::tuple<HazardViolation::Kind, const Statement*, const Statement*>, HazardViolation>
      violations_;
};

HazardChecker::HazardChecker(const Chip& chip, bool stalls) : impl_(std::make_unique<Impl>(chip, stalls)) {}
HazardChecker::~HazardChecker() = default;
int64_t HazardChecker::statement(const Statement& statement, const std::vector<int64_t>& counters) {
  return impl_->next(statement, counters);
}
std::vector<HazardViolation> HazardChecker::violations() const {
  return impl_->violations();
}

std::vector<HazardViolation> find_hazards(const Program& program, const Chip& chip,
                                          const std::function<void(int64_t)>& progress) {
  constexpr int64_t kProgressInterval = 1 << 16;
  HazardChecker checker(chip);
  std::vector<int64_t> counters;
  int64_t done = 0;
  for_each_executed(program.statements, counters, [&](const Statement& statement, const auto& at) {
    checker.statement(statement, at);
    if (progress && ++done % kProgressInterval == 0) progress(done);
    return !std::holds_alternative<Quit>(statement.kind);
  });
  return checker.violations();
}

}  // namespace kodama::isa
