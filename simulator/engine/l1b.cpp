#include "simulator/engine/l1b.h"

#include <algorithm>
#include <cstring>
#include <utility>

/// One step on an L1B, from its operands to its writes.
namespace kodama::simulator {
namespace {

using isa::Precision;
using isa::Space;

int forward_of(Unit unit) {
  switch (unit) {
    case Unit::kAlu:
      return 0;
    case Unit::kMau:
      return 1;
    case Unit::kL1bm:
    case Unit::kTurnaround:
      return 2;
    default:
      return 3;
  }
}

}  // namespace

void L1b::set_block_mask(const isa::MaskControl& control) {
  // There is one block mask: a new statement replaces it.
  block_masks_ = {};
  if (control.entry == 0) return;
  for (int i = 0; i < 6; ++i) {
    if ((control.spaces >> i & 1) == 0) continue;
    block_masks_[i] = {isa::Mask::Kind::kRegister, control.entry, control.double_long, 0};
  }
}

void L1b::show_stale(bool stale) {
  if (stale_) stale_->finish();
  stale_ = stale ? std::make_unique<StaleView>(*chip_, words_) : nullptr;
  stale_t_.resize(stale ? static_cast<size_t>(16 * words_) : 0);
}

void L1b::refresh_stale_addresses() {
  std::copy_n(t_, 16 * words_, stale_t_.data());
  for (int c = 0; c < 4; ++c) {
    for (int w = 0; w < 4; ++w) stale_->look(Space::kT, c, c * 4 + w, stale_t_.data() + (c * 4 + w) * words_);
  }
}

void L1b::run_step(const Node& node, const Counters& counters, Scratch& scratch) {
  scratch.reset();
  if (stale_) refresh_stale_addresses();
  std::array<PendingWrite, kResultUnits> writes;
  int write_count = 0;
  CycleRows& mwrite_source = scratch.mwrite_source;
  const MicroOp* mwrite = nullptr;
  std::array<PendingL1bm, 2> l1bm_writes;
  int l1bm_count = 0;

  for (const MicroOp& op : node.ops) {
    if (op.unit == Unit::kMwrite) {
      fetch_converted(op.sources[0], op.precision, false, counters, scratch, mwrite_source);
      mwrite = &op;
      continue;
    }
    if (op.movement->way == isa::Movement::Way::kPeToL1bm) {
      CycleRows& source = scratch.x;
      // The sum of halves needs no widening here: it widens itself.
      const bool widen = op.movement->rule == isa::Movement::Rule::kHalfSum && op.sources[0].extend;
      fetch_converted(op.sources[0], widen ? Precision::kHalf : op.precision, false, counters, scratch,
                      source);
      uint64_t* data = l1bm_count == 0 ? next_turnaround_ : scratch.l1bm_data();
      const int64_t count = run_pe_to_l1bm(op, source, scratch, data);
      l1bm_writes[l1bm_count++] = {&op, data, count};
      continue;
    }
    const auto unit = static_cast<size_t>(op.unit);
    CycleRows& result = result_words_[unit][next_result_[unit]];
    uint8_t* flags = scratch.flags() + unit * 4 * words_;
    switch (op.unit) {
      case Unit::kAlu:
        run_alu(op, counters, scratch, result, flags);
        break;
      case Unit::kMau:
        run_mau(op, counters, scratch, result, flags);
        break;
      case Unit::kMread:
        run_mread(op, counters, result);
        if (op.wants_flags) std::fill_n(flags, 4 * words_, uint8_t{0});
        break;
      default:
        run_l1bm_to_pe(op, counters, scratch, result);
        if (op.wants_flags) std::fill_n(flags, 4 * words_, uint8_t{0});
        break;
    }
    if (op.zero_flush.kind != isa::Mask::Kind::kNone) zero_flush(op, result);
    writes[write_count++] = {&op, &result, flags};
  }

  if (mwrite != nullptr) commit_mwrite(*mwrite, mwrite_source, counters);
  for (int i = 0; i < l1bm_count; ++i) commit_l1bm(l1bm_writes[i], counters);
  for (const CommitPhase phase : {CommitPhase::kMemories, CommitPhase::kAddresses, CommitPhase::kMasks}) {
    if (phase != CommitPhase::kMemories && !node.writes_registers) break;
    for (int i = 0; i < write_count; ++i) commit(writes[i], node, counters, phase);
  }
  if (!node.no_forward) {
    for (int i = 0; i < write_count; ++i) {
      const Unit unit = writes[i].op->unit;
      put_forward(static_cast<size_t>(forward_of(unit)), static_cast<size_t>(unit));
      // The rows shown by the forwarding register must not be the next target.
      next_result_[static_cast<size_t>(unit)] ^= 1;
    }
  }
}

}  // namespace kodama::simulator
