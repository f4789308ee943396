#include "isa/host_work.h"

#include <algorithm>
#include <cmath>

#include "isa/arithmetic.h"
#include "isa/costs.h"
#include "isa/dram_model.h"
#include "isa/host_chunks.h"
#include "isa/sequencer.h"

namespace kodama::isa {
namespace {

/// LW of the chunks that go through a half at least: small beside the latency of the link, large beside the
/// start of an MV.
constexpr int64_t kChunkLw = 4096;
/// Chunks that the host has queued at a time: two channels each way, with queues of 31.
constexpr int64_t kQueuedChunks = 2 * 31;
static_assert(kQueuedChunks <= kMaxTransferTag);
/// A large image has no more chunks than this, as far as the half is large enough.
constexpr int64_t kMostChunks = 1024;

}  // namespace

Instruction chunk_mv(bool to_chip, int64_t pdm, int group, const HostChunk& chunk, int tag) {
  Operand inside;
  inside.space = Space::kPdm;
  inside.base = pdm;
  inside.group = 0;
  Operand outside;
  outside.space = Space::kDram;
  outside.base = chunk.address;
  outside.group = static_cast<int8_t>(group);
  Instruction mv = *parse_mnemonic("mvp");
  mv.size_lw = round_up(chunk.lw, kMvUnitLw);
  mv.tag = static_cast<int8_t>(tag);
  mv.sources = {to_chip ? inside : outside};
  mv.destinations = {to_chip ? outside : inside};
  return mv;
}

std::vector<HostChunk> cut(const std::vector<HostTransfer>& transfers, int64_t half) {
  const int64_t all = link_lw(transfers);
  const int64_t size = std::min(round_up(std::max(kChunkLw, ceil_div(all, kMostChunks)), kMvUnitLw), half);
  std::vector<HostChunk> chunks;
  for (size_t number = 0; number < transfers.size(); ++number) {
    const HostTransfer& transfer = transfers[number];
    for (size_t first = 0; first < transfer.group_lw.size(); ++first) {
      if (transfer.first_like(static_cast<int>(first)) != static_cast<int>(first)) continue;
      std::vector<int> groups;
      for (size_t group = first; group < transfer.group_lw.size(); ++group) {
        if (transfer.first_like(static_cast<int>(group)) == static_cast<int>(first))
          groups.push_back(static_cast<int>(group));
      }
      for (int64_t at = 0; at < transfer.group_lw[first]; at += size)
        chunks.push_back(
            {transfer.dram_address + at, std::min(size, transfer.group_lw[first] - at), groups, number});
    }
  }
  return chunks;
}

HostRing::HostRing(int64_t half, const std::vector<HostChunk>& chunks) : place_lw(kMvUnitLw) {
  for (const HostChunk& chunk : chunks) place_lw = std::max(place_lw, round_up(chunk.lw, kMvUnitLw));
  places = std::clamp<int64_t>(half / place_lw, 1, kQueuedChunks);
}

HostHalves::HostHalves(const Chip& chip, int64_t pdm_from, bool kept)
    : from(kept ? round_up(pdm_from, kMvUnitLw) : 0), half(host_half_lw(chip, from)) {
  if (half > 0) return;  // else nothing comes early or was kept, and no program runs
  from = 0;
  half = host_half_lw(chip, 0);
}

int64_t cycle_of(int64_t tick) {
  return ceil_div(tick, kTicksPerCycle);
}
int64_t link_latency_ticks(const Chip& chip) {
  return std::llround(chip.host_link.latency_seconds * chip.clock_hz * static_cast<double>(kTicksPerCycle));
}

int64_t HostTransfer::link_lw() const {
  int64_t lw = 0;
  for (size_t group = 0; group < group_lw.size(); ++group) {
    if (first_like(static_cast<int>(group)) == static_cast<int>(group)) lw += group_lw[group];
  }
  return lw;
}

int64_t link_lw(const std::vector<HostTransfer>& transfers) {
  int64_t lw = 0;
  for (const HostTransfer& transfer : transfers) lw += transfer.link_lw();
  return lw;
}

int64_t host_half_lw(const Chip& chip, int64_t pdm_from) {
  if (!chip.host_link.through_pdm()) return 0;
  return std::max<int64_t>(chip.memory.pdm_lw - round_up(pdm_from, kMvUnitLw), 0) / 2 / kMvUnitLw * kMvUnitLw;
}

int64_t host_input_cycles(const std::vector<HostTransfer>& input, const Chip& chip) {
  CyclePredictor predictor(chip);
  HostWork work;
  work.input = input;
  predictor.host_begin(work);
  return predictor.finish().host_input;
}

int64_t host_computation_cycles(int64_t bytes, int64_t operations, const Chip& chip) {
  const double seconds = std::max(static_cast<double>(bytes) / chip.host.bytes_per_second,
                                  static_cast<double>(operations) / chip.host.operations_per_second);
  return static_cast<int64_t>(std::ceil(seconds * chip.clock_hz));
}

void Sequencer::host_begin(const HostWork& work) {
  const Chip& chip = ports_.chip();
  if (work.launch) {
    const auto cycles = static_cast<int64_t>(std::ceil(chip.host_link.launch_seconds * chip.clock_hz));
    causes_.launch += cycles;
    now_ += cycles;
  }
  const int64_t before = now_;
  if (!chip.host_link.through_pdm()) {
    for (const HostTransfer& transfer : work.input)
      now_ = cycle_of(
          ports_.link_data(transfer.link_lw() * 8, true, now_ * kTicksPerCycle + link_latency_ticks(chip)));
  } else if (link_lw(work.input) > 0) {
    const HostHalves halves(chip, work.pdm_from, work.leaving_until > now_);
    const std::vector<HostChunk> chunks = cut(work.input, halves.half);
    const HostRing ring(halves.half, chunks);
    int64_t cycle = now_;
    int64_t link = now_ * kTicksPerCycle + link_latency_ticks(chip);
    for (size_t k = 0; k < chunks.size(); ++k) {
      const HostChunk& chunk = chunks[k];
      if (k >= static_cast<size_t>(ring.places)) {
        cycle = ports_.wait(ring.tag(k), cycle);
        link = std::max(link, cycle * kTicksPerCycle);
      }
      const int64_t words = static_cast<int64_t>(chunk.groups.size()) * kInstructionBytes;
      link = ports_.link_data(chunk.lw * 8 + words, true, link);
      cycle = std::max(cycle, cycle_of(link));
      for (const int group : chunk.groups) {
        TransferRequest request;
        request.of_host = true;
        request.mv = chunk_mv(true, halves.from + ring.address(k), group, chunk, ring.tag(k));
        cycle = ports_.issue(std::move(request), cycle);
      }
    }
    now_ = ports_.wait(-1, cycle);
  }
  causes_.host_input += now_ - before;
  began_ = now_;
  words_ = 0;
  host_times_.program_began = now_;
  if (link_lw(work.next) > 0 && host_half_lw(chip, work.pdm_from) > 0) next_input_.emplace(work, chip, now_);
}

void Sequencer::host_end(const HostWork& work) {
  const Chip& chip = ports_.chip();
  host_times_.program_over = now_;
  int64_t before = now_;
  int64_t there = now_;  // all results
  if (link_lw(work.output) > 0) now_ = std::max(now_, work.leaving_until);
  if (!chip.host_link.through_pdm()) {
    for (const HostTransfer& transfer : work.output)
      now_ = cycle_of(
          ports_.link_data(transfer.link_lw() * 8, false, now_ * kTicksPerCycle + link_latency_ticks(chip)));
    there = now_;
  } else if (link_lw(work.output) > 0) {
    const HostHalves halves(chip, work.pdm_from, true);
    const std::vector<HostChunk> chunks = cut(work.output, halves.half);
    const HostRing ring(halves.half, chunks);
    const auto places = static_cast<size_t>(ring.places);
    int64_t waited_for = link_lw(work.output) - work.kept_lw;
    int64_t cycle = now_;
    int64_t waits_until = now_;
    int64_t link = now_ * kTicksPerCycle + link_latency_ticks(chip);
    const auto issue = [&](size_t k, int64_t from) {
      TransferRequest request;  // one of those that have the words
      request.of_host = true;
      request.mv = chunk_mv(false, halves.from + halves.half + ring.address(k), chunks[k].groups.front(),
                            chunks[k], ring.tag(k));
      return ports_.issue(std::move(request), from);
    };
    for (size_t k = 0; k < std::min(places, chunks.size()); ++k) cycle = issue(k, cycle);
    for (size_t k = 0; k < chunks.size(); ++k) {
      cycle = ports_.wait(ring.tag(k), cycle);
      link = std::max(link, cycle * kTicksPerCycle);
      // What is waited for, then what passes the link when the run is over.
      const int64_t first = std::clamp<int64_t>(waited_for, 0, chunks[k].lw);
      if (first > 0) {
        link = ports_.link_data(first * 8 + kInstructionBytes, false, link);
        waits_until = cycle_of(link);
        waited_for -= first;
      }
      if (first < chunks[k].lw)
        link += link_ticks((chunks[k].lw - first) * 8 + (first > 0 ? 0 : kInstructionBytes), chip);
      if (k + places < chunks.size()) cycle = issue(k + places, std::max(cycle, cycle_of(link)));
    }
    now_ = std::max(cycle, waits_until);
    there = cycle_of(link);
  }
  causes_.host_output += now_ - before;
  host_times_.results_there = there;
  if (!next_input_) return;
  before = now_;
  const int64_t end = next_input_->finish(ports_, {}, words_, now_);
  if (end == NextInput::kNever) return;
  now_ = end;
  causes_.host_input += now_ - before;
  host_times_.next_there = end;
}

}  // namespace kodama::isa
