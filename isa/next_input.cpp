#include "isa/next_input.h"

#include <algorithm>

#include "isa/costs.h"
#include "isa/dram_model.h"
#include "isa/error.h"
#include "isa/sequencer.h"

namespace kodama::isa {
namespace {

/// MVs under way at a time while the program runs: one moves while the other one starts.
constexpr size_t kMoving = 2;
/// Cycles after which it is looked again whether one is done: a fraction of what a chunk takes.
constexpr int64_t kLookAgain = 64;

}  // namespace

NextInput::NextInput(const HostWork& work, const Chip& chip, int64_t began)
    : chip_(chip),
      halves_(chip, work.pdm_from, true),
      chunks_(cut(work.next, halves_.half)),
      ring_(halves_.half, chunks_),
      from_(work.next_from),
      program_words_(work.words),
      link_(began * kTicksPerCycle) {
  for (const HostTransfer& transfer : work.next) free_after_.push_back(transfer.free_after);
}

void NextInput::send(int64_t words, int64_t cycle) {
  const int64_t available = std::min(program_words_, words + chip_.host_link.instruction_buffer_steps);
  // Until a cycle nothing but words pass.
  const auto idle_until = [&](int64_t tick) {
    if (tick <= link_) return;
    const int64_t passed = (tick - link_) / link_ticks(kInstructionBytes, chip_);
    words_sent_ = std::max(words_sent_, std::min(available, words_sent_ + passed));
    link_ = tick;
  };
  while (arrived_.size() < chunks_.size()) {
    const auto k = static_cast<int64_t>(arrived_.size());
    if (k == 0) {
      if (from_ > cycle) return;
      idle_until(from_ * kTicksPerCycle);
      link_ += link_latency_ticks(chip_);
    } else if (k >= ring_.places) {
      if (k - ring_.places >= static_cast<int64_t>(moved_)) return;
      idle_until(cycle * kTicksPerCycle);
    } else if (cycle_of(link_) > cycle) {
      return;  // so that words which are taken until then go first
    }
    const HostChunk& chunk = chunks_[arrived_.size()];
    const int64_t before = std::max<int64_t>(available - words_sent_, 0);
    words_sent_ += before;
    link_ += link_ticks(
        chunk.lw * 8 + (before + static_cast<int64_t>(chunk.groups.size())) * kInstructionBytes, chip_);
    arrived_.push_back(cycle_of(link_));
  }
}

std::optional<int> NextInput::tag(const TagUse& tags) const {
  // Compilers use tags in turn, so the one that was last waited for comes again last.
  std::optional<int> best;
  for (int tag = 1; tag <= kMaxTransferTag; ++tag) {
    const auto index = static_cast<size_t>(tag);
    if (tags.in_use[index] || std::ranges::find(moving_, tag, &Moving::tag) != moving_.end()) continue;
    if (!best || tags.last_wait[index] >= tags.last_wait[static_cast<size_t>(*best)]) best = tag;
  }
  return best;
}

void NextInput::issue(SequencerPorts& ports, int tag, int64_t& cycle) {
  const HostChunk& chunk = chunks_[next_];
  TransferRequest request;
  request.of_host = true;
  request.mv = chunk_mv(true, halves_.from + ring_.address(next_), chunk.groups[next_group_], chunk, tag);
  moving_.push_back({tag, next_});
  cycle = ports.issue(std::move(request), cycle);
  if (++next_group_ == chunk.groups.size()) {
    next_group_ = 0;
    ++next_;
  }
}

void NextInput::look(SequencerPorts& ports, int64_t cycle) {
  while (!moving_.empty() && ports.in_flight(moving_.front().tag, cycle) == 0) moving_.pop_front();
  moved_ = moving_.empty() ? next_ : moving_.front().chunk;
}

int64_t NextInput::advance(SequencerPorts& ports, const TagUse& tags, int64_t words, int64_t& cycle) {
  while (!all_issued()) {
    send(words, cycle);
    if (next_ == arrived_.size()) {
      if (arrived_.empty()) return from_;
      look(ports, cycle);
      if (static_cast<int64_t>(next_ - moved_) >= ring_.places) return cycle + kLookAgain;
      continue;
    }
    if (arrived_[next_] > cycle) return arrived_[next_];
    if (tags.waits < free_after_[chunks_[next_].transfer]) return kNever;
    if (moving_.size() >= kMoving) look(ports, cycle);
    if (moving_.size() >= kMoving || ports.in_flight(-1, cycle) >= chip_.transfer.max_in_flight)
      return cycle + kLookAgain;
    const std::optional<int> free = tag(tags);
    if (!free) return kNever;
    issue(ports, *free, cycle);
  }
  return kNever;
}

int64_t NextInput::finish(SequencerPorts& ports, const TagUse& tags, int64_t words, int64_t cycle) {
  const auto wait_for_first = [&] {
    cycle = ports.wait(moving_.front().tag, cycle);
    look(ports, cycle);
  };
  while (!all_issued()) {
    send(words, cycle);
    if (arrived_.empty()) return kNever;
    if (next_ == arrived_.size()) {
      check_internal(!moving_.empty(), "NextInput", "chunk {} of {} doesn't come", next_, chunks_.size());
      wait_for_first();
      continue;
    }
    cycle = std::max(cycle, arrived_[next_]);
    while (static_cast<int64_t>(moving_.size()) >= chip_.transfer.max_in_flight) wait_for_first();
    std::optional<int> free = tag(tags);
    while (!free) {
      wait_for_first();
      free = tag(tags);
    }
    issue(ports, *free, cycle);
  }
  while (!moving_.empty()) wait_for_first();
  there_ = cycle;
  return cycle;
}

}  // namespace kodama::isa
