#include "layout/moves/step_packer.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <map>

#include "isa/arithmetic.h"
#include "isa/costs.h"
#include "isa/error.h"
#include "isa/transfer_timeline.h"

namespace kodama::layout {
namespace {

using isa::Access;
using isa::HazardResource;
using isa::Instruction;

constexpr int kResources = static_cast<int>(HazardResource::kMreadForward) + 1;

/// Instructions between L2BM and L1BM work on blocks of 16 LW; one entry per block is exact.
constexpr int64_t kL2bmBlock = 16;

class Packer {
 public:
  Packer(const isa::Chip& chip, WaitPlace waits)
      : chip_(chip),
        waits_(waits),
        port_window_(chip.hazard.pe_gap(isa::kCyclesPerStep - 1, 0) + 1),
        timeline_(chip, isa::TransferTimeline::standard_service(chip)) {
    units(HazardResource::kLm0, chip.memory.lm_words);
    units(HazardResource::kLm1, chip.memory.lm_words);
    units(HazardResource::kGrf0, chip.memory.grf_words);
    units(HazardResource::kGrf1, chip.memory.grf_words);
    units(HazardResource::kT, isa::kCyclesPerStep);
    units(HazardResource::kMask, chip.memory.mask_entries);
    units(HazardResource::kMatX, 16);
    units(HazardResource::kMatY, 16);
    units(HazardResource::kBar0, 1);
    units(HazardResource::kBar1, 1);
    units(HazardResource::kL1bm, chip.memory.l1bm_lw);
    units(HazardResource::kTurnaround, 1);
    units(HazardResource::kL2bm, chip.l2b_count() * (chip.memory.l2bm_lw / kL2bmBlock));
  }

  isa::Program run(const std::vector<PackedItem>& items) {
    for (const PackedItem& item : items) {
      if (const WaitFor* wait = std::get_if<WaitFor>(&item)) {
        place_wait(wait->tag);
      } else {
        place(std::get<PackedInstruction>(item));
      }
    }
    return program();
  }

 private:
  /// One access of a placed instruction.
  struct Record {
    Access access;
    int64_t issue = 0;
    int8_t tag = 0;  ///< of a transfer: what follows must wait, then `issue` is the step of the wait
    bool waited = false;
  };
  /// Of one unit of a memory: the last write, and the latest reads since. -1 = none.
  struct Unit {
    int32_t write = -1;
    int32_t read = -1;
    int32_t transfer_read = -1;
  };
  /// An access to be placed. `offsets`: what may be added to its addresses; nothing: it may be anywhere.
  struct Touch {
    Access access;
    AddressOffsets offsets;
  };
  struct PackedStep {
    std::vector<Instruction> instructions;
    int8_t wait = 0;
    /// Accesses of LM0 and of LM1.
    std::array<std::vector<int32_t>, 2> local;
  };

  void units(HazardResource resource, int64_t count) {
    units_[static_cast<size_t>(resource)].resize(static_cast<size_t>(count));
  }

  static bool is_local_memory(HazardResource resource) {
    return resource == HazardResource::kLm0 || resource == HazardResource::kLm1;
  }
  static bool is_listed(HazardResource resource) {
    return resource == HazardResource::kDram || resource == HazardResource::kPdm ||
           resource == HazardResource::kDar;
  }

  /// Calls visit(unit) for every unit that an access touches.
  template <typename Visit>
  void for_each_unit(const Touch& touch, Visit&& visit) {
    const Access& access = touch.access;
    std::vector<Unit>& all = units_[static_cast<size_t>(access.resource)];
    if (!touch.offsets) {
      for (Unit& unit : all) visit(unit);
      return;
    }
    if (access.resource == HazardResource::kL2bm) {
      const int64_t per_l2b = chip_.memory.l2bm_lw / kL2bmBlock;
      const int64_t first = access.begin[0] / kL2bmBlock;
      const int64_t last = (access.begin[0] + access.length - 1) / kL2bmBlock;
      for (int64_t l2b = 0; l2b < chip_.l2b_count(); ++l2b) {
        if (access.place >= 0 && access.place != l2b) continue;
        for (int64_t block = first; block <= last; ++block)
          visit(all[static_cast<size_t>(l2b * per_l2b + block % per_l2b)]);
      }
      return;
    }
    const auto size = static_cast<int64_t>(all.size());
    for (const int64_t offset : *touch.offsets) {
      for (int cycle = 0; cycle < access.cycles; ++cycle) {
        const int64_t begin = access.begin[static_cast<size_t>(cycle)] + isa::kWordsPerLong * offset;
        for (int64_t k = 0; k < access.length; ++k) visit(all[static_cast<size_t>((begin + k) % size)]);
      }
    }
  }

  /// The first step that an access can be in because of one before it.
  int64_t after(const Record& first, const Access& second) const {
    const int64_t gap = required_gap(first.access, second, chip_);
    if (gap == isa::kNoConstraint) return 0;
    if (first.tag != 0) {
      isa::check_internal(first.waited, "step packer", "a transfer with tag {} that nobody has waited for",
                          first.tag);
      // A step may be the one that waits; a transfer stands in front of a step.
      return first.issue + (second.agent == isa::Agent::kMv ? 1 : 0);
    }
    return first.issue + 1 + gap;
  }

  /// The first step from `step` on that accesses can be in.
  int64_t earliest(const std::vector<Touch>& touched, int64_t step) {
    for (const Touch& touch : touched) {
      const Access& access = touch.access;
      if (is_listed(access.resource)) {
        for (const Record& record : lists_[static_cast<size_t>(access.resource)]) {
          // Most were waited for long ago, wherever they are.
          if (!record.waited || record.issue + 1 > step) step = std::max(step, after(record, access));
        }
        continue;
      }
      std::array<int32_t, 3> last{-1, -1, -1};
      const auto behind = [&](int32_t id, int32_t& known) {
        if (id == known || id < 0) return;
        known = id;
        step = std::max(step, after(records_[static_cast<size_t>(id)], access));
      };
      for_each_unit(touch, [&](const Unit& unit) {
        behind(unit.write, last[0]);
        if (!access.write) return;
        behind(unit.read, last[1]);
        behind(unit.transfer_read, last[2]);
      });
    }
    return step;
  }

  /// Whether the port of an LM can serve an access in a step, beside those in it and around it.
  bool port_is_free(const Access& access, int64_t step) const {
    const auto memory = static_cast<size_t>(access.resource == HazardResource::kLm1);
    const auto end = std::min(step + port_window_ + 1, static_cast<int64_t>(steps_.size()));
    for (int64_t other = std::max<int64_t>(step - port_window_, 0); other < end; ++other) {
      for (const int32_t id : steps_[static_cast<size_t>(other)].local[memory]) {
        const Access& there = records_[static_cast<size_t>(id)].access;
        if (there.write == access.write) continue;  // in one step: issue_conflict
        // In one step a read comes before a write.
        const bool is_first = step < other || (step == other && !access.write);
        const int64_t gap =
            is_first ? required_gap(access, there, chip_) : required_gap(there, access, chip_);
        if (std::abs(other - step) < 1 + gap) return false;
      }
    }
    return true;
  }
  bool ports_are_free(const std::vector<Touch>& touched, int64_t step) const {
    return std::ranges::all_of(touched, [&](const Touch& touch) {
      return !is_local_memory(touch.access.resource) || port_is_free(touch.access, step);
    });
  }

  void remember(const std::vector<Touch>& touched, int64_t issue, int8_t tag) {
    for (const Touch& touch : touched) {
      const Access& access = touch.access;
      const auto resource = static_cast<size_t>(access.resource);
      if (is_listed(access.resource)) {
        if (tag != 0) listed_by_tag_[tag].emplace_back(resource, lists_[resource].size());
        lists_[resource].push_back({access, issue, tag, false});
        continue;
      }
      const auto id = static_cast<int32_t>(records_.size());
      records_.push_back({access, issue, tag, false});
      if (tag != 0) by_tag_[tag].push_back(id);
      if (is_local_memory(access.resource))
        steps_[static_cast<size_t>(issue)].local[access.resource == HazardResource::kLm1].push_back(id);
      for_each_unit(touch, [&](Unit& unit) {
        if (access.write) {
          unit = {id, -1, -1};
        } else if (tag != 0) {
          unit.transfer_read = id;
        } else if (unit.read < 0 || records_[static_cast<size_t>(unit.read)].issue <= issue) {
          unit.read = id;
        }
      });
    }
  }

  std::vector<Touch> touched_by(const PackedInstruction& item) const {
    static const auto kNone = std::make_shared<const std::vector<int64_t>>(1, 0);
    std::vector<Touch> touched;
    for (Access& access : accesses(item.instruction, chip_)) {
      // Registers that every instruction of a unit writes, so that their order would tie all of these.
      if (is_forwarding_register(access.resource) || access.resource == HazardResource::kTurnaround) {
        isa::check_internal(access.write, "step packer", "'{}' reads {}", isa::mnemonic(item.instruction),
                            isa::hazard_resource_name(access.resource));
        continue;
      }
      AddressOffsets offsets = access.whole ? nullptr : kNone;
      if (access.whole && is_local_memory(access.resource)) offsets = item.t;
      if (access.resource == HazardResource::kLm1 && item.has_base1) offsets = item.base1;
      touched.push_back({std::move(access), std::move(offsets)});
    }
    return touched;
  }

  void place(const PackedInstruction& item) {
    const Instruction& instruction = item.instruction;
    const std::vector<Touch> touched = touched_by(item);
    if (info(instruction.opcode).group == isa::IssueGroup::kMv) {
      place_transfer(instruction, touched);
      return;
    }
    int64_t step = earliest(touched, 0);
    const auto group = static_cast<size_t>(issue_group(instruction));
    for (;; ++step) {
      if (step >= static_cast<int64_t>(steps_.size())) steps_.resize(static_cast<size_t>(step) + 1);
      if (step >= static_cast<int64_t>(taken_.size())) taken_.resize(static_cast<size_t>(step) + 1, 0);
      if ((taken_[static_cast<size_t>(step)] >> group & 1) != 0 || !ports_are_free(touched, step)) continue;
      std::vector<Instruction>& own = steps_[static_cast<size_t>(step)].instructions;
      own.push_back(instruction);
      if (own.size() == 1 || issue_conflict(own, chip_).empty()) break;
      own.pop_back();
    }
    taken_[static_cast<size_t>(step)] |= 1U << group;
    remember(touched, step, 0);
  }

  void place_transfer(const Instruction& instruction, const std::vector<Touch>& touched) {
    // In the order in which they were written.
    int64_t step = earliest(touched, last_mv_);
    // A tag is free from the step behind the one that waits for it.
    const auto waited = last_wait_.find(instruction.tag);
    if (waited != last_wait_.end()) step = std::max(step, waited->second + 1);
    if (waits_ == WaitPlace::kWhereOver) step = started(instruction, step);
    last_mv_ = step;
    mvs_.push_back({step, instruction});
    remember(touched, step, instruction.tag);
  }

  /// The first step from `step` on in which a transfer doesn't have to wait for others to start, or for room
  /// in the queues of its groups: there it is issued.
  int64_t started(const Instruction& mv, int64_t step) {
    const auto step_at = [&](int64_t cycle) {
      return isa::ceil_div(std::max<int64_t>(cycle - held_, 0), int64_t{isa::kCyclesPerStep});
    };
    step = std::max(step, step_at(timeline_.next_start()));
    std::vector<isa::TransferPart> parts = transfer_parts(mv, chip_);
    timeline_.advance(static_cast<double>(step * isa::kCyclesPerStep + held_));
    while (!timeline_.has_slot(parts)) {
      timeline_.advance(timeline_.next_event());
      step = std::max(step, step_at(timeline_.last_done(-1)));
    }
    isa::TransferRequest request;
    request.mv = mv;
    timeline_.issue(std::move(request), std::move(parts), step * isa::kCyclesPerStep + held_);
    return step;
  }
  /// The cycle at which the transfers of a tag are over. Later ones don't delay them.
  int64_t over(int tag) const {
    isa::TransferTimeline ahead = timeline_;
    while (ahead.in_flight(tag) > 0) ahead.advance(ahead.next_event());
    return ahead.last_done(tag);
  }

  void place_wait(int8_t tag) {
    int64_t step = std::max(static_cast<int64_t>(steps_.size()), last_mv_);
    // Else beside what is in a step.
    if (waits_ == WaitPlace::kWhereOver) {
      // In the first step by then; where there is nothing to do meanwhile, in the step before, which the wait
      // holds for the cycles that are missing.
      const int64_t cycle = over(tag) - held_;
      step = cycle / isa::kCyclesPerStep;
      if (step < static_cast<int64_t>(steps_.size()))
        step = isa::ceil_div(cycle, int64_t{isa::kCyclesPerStep});
      held_ += std::max<int64_t>(cycle - step * isa::kCyclesPerStep, 0);
    }
    for (;; ++step) {
      if (step >= static_cast<int64_t>(steps_.size())) steps_.resize(static_cast<size_t>(step) + 1);
      if (steps_[static_cast<size_t>(step)].wait == 0) break;
    }
    steps_[static_cast<size_t>(step)].wait = tag;
    for (const int32_t id : by_tag_[tag]) {
      records_[static_cast<size_t>(id)].issue = step;
      records_[static_cast<size_t>(id)].waited = true;
      // Only overlapping later accesses look at it, and they now come behind the wait.
    }
    by_tag_[tag].clear();
    last_wait_[tag] = step;
    for (const auto& [resource, number] : listed_by_tag_[tag]) {
      lists_[resource][number].issue = step;
      lists_[resource][number].waited = true;
    }
    listed_by_tag_[tag].clear();
  }

  isa::Program program() const {
    isa::Program program;
    size_t mv = 0;
    const auto add_mvs = [&](int64_t step) {
      for (; mv < mvs_.size() && mvs_[mv].first <= step; ++mv)
        program.statements.push_back({isa::Mv{mvs_[mv].second}, 0});
    };
    int64_t nops = 0;
    const auto flush = [&] {
      if (nops > 0) program.statements.push_back({isa::Nop{nops, 0}, 0});
      nops = 0;
    };
    for (size_t k = 0; k < steps_.size(); ++k) {
      if (mv < mvs_.size() && mvs_[mv].first <= static_cast<int64_t>(k)) {
        flush();
        add_mvs(static_cast<int64_t>(k));
      }
      const PackedStep& step = steps_[k];
      if (step.instructions.empty() && step.wait == 0) {
        ++nops;
        continue;
      }
      flush();
      if (step.instructions.empty()) {
        program.statements.push_back({isa::Nop{1, step.wait}, 0});
        continue;
      }
      isa::Step out{step.instructions};
      if (step.wait != 0) {
        Instruction wait;
        wait.opcode = isa::Opcode::kWait;
        wait.tag = step.wait;
        out.instructions.push_back(std::move(wait));
      }
      program.statements.push_back({std::move(out), 0});
    }
    flush();
    if (mv < mvs_.size()) {
      const int64_t missing = mvs_[mv].first - static_cast<int64_t>(steps_.size());
      if (missing > 0) program.statements.push_back({isa::Nop{missing, 0}, 0});
      add_mvs(INT64_MAX);
    }
    return program;
  }

  const isa::Chip& chip_;
  WaitPlace waits_;
  /// Steps around one that its use of an LM concerns: the longest gap of accesses to an LM. Most other gaps
  /// are longer (isa::longest_gap), and what is looked through is all steps of the window for every access.
  int64_t port_window_;
  int64_t held_ = 0;                ///< cycles by which waits delay the steps behind them
  isa::TransferTimeline timeline_;  ///< where waits stand where transfers are over
  std::array<std::vector<Unit>, kResources> units_;
  std::array<std::vector<Record>, kResources> lists_;
  std::vector<Record> records_;
  std::map<int8_t, std::vector<int32_t>> by_tag_;                           ///< that nobody has waited for
  std::map<int8_t, std::vector<std::pair<size_t, size_t>>> listed_by_tag_;  ///< so, places in lists_
  std::map<int8_t, int64_t> last_wait_;
  std::vector<PackedStep> steps_;
  std::vector<uint32_t> taken_;
  std::vector<std::pair<int64_t, Instruction>> mvs_;
  int64_t last_mv_ = 0;
};

}  // namespace

isa::Program pack_steps(const std::vector<PackedItem>& items, const isa::Chip& chip, WaitPlace waits) {
  return Packer(chip, waits).run(items);
}

}  // namespace kodama::layout
