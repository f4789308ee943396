#include "host/capture.h"

#include <algorithm>

namespace kodama::host {
namespace {

bool is_nop(const isa::Statement& statement) {
  return std::holds_alternative<isa::Nop>(statement.kind);
}

}  // namespace

void Capture::add(const simulator::Profile& profile) {
  for (const simulator::Profile::Entry& entry : profile.entries) add_entry(entry);
  // What belongs to no statement.
  other_stall_cycles_ += static_cast<uint64_t>(profile.cycles.drain);
}

void Capture::add_entry(const simulator::Profile::Entry& entry) {
  const isa::CycleCauses& cycles = entry.cycles;
  empty_cycles_ += static_cast<uint64_t>(cycles.host_link);
  other_stall_cycles_ += static_cast<uint64_t>(cycles.mv_queue + cycles.hazard);
  wait_cycles_[static_cast<size_t>(wait_tag(*entry.statement))] += static_cast<uint64_t>(cycles.wait);
  auto steps = static_cast<uint64_t>(cycles.steps / isa::kCyclesPerStep);
  const bool nop = is_nop(*entry.statement);
  while (steps > 0) {  // up to the next snapshot
    uint64_t next = steps;
    for (const auto& trigger : triggers_) {
      if (trigger && !trigger->taken) next = std::min(next, trigger->counter - instructions_);
    }
    instructions_ += next;
    if (nop) nops_ += next;
    steps -= next;
    take_reached();
  }
}

void Capture::set_trigger(int select, uint64_t counter) {
  triggers_[static_cast<size_t>(select)] = Trigger{counter, std::nullopt};
  take_reached();
}

bool Capture::read(int select, mnc2_capture_t& capture) const {
  const std::optional<Trigger>& trigger = triggers_[static_cast<size_t>(select)];
  if (trigger && !trigger->taken) return false;
  capture = trigger ? *trigger->taken : snapshot();
  return true;
}

void Capture::take_reached() {
  for (auto& trigger : triggers_) {
    if (trigger && !trigger->taken && trigger->counter <= instructions_) trigger->taken = snapshot();
  }
}

mnc2_capture_t Capture::snapshot() const {
  const auto steps = [](uint64_t cycles) { return cycles / isa::kCyclesPerStep; };
  mnc2_capture_t capture{};
  uint64_t stalls = empty_cycles_ + other_stall_cycles_;
  for (size_t tag = 1; tag < wait_cycles_.size(); ++tag) {
    capture.tag[tag] = steps(wait_cycles_[tag]);
    stalls += wait_cycles_[tag];
  }
  capture.all_nop = nops_ + steps(stalls);
  capture.empty_nop = steps(empty_cycles_);
  return capture;
}

}  // namespace kodama::host
