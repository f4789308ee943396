#include "isa/sequencer.h"

#include <algorithm>
#include <cmath>

#include "isa/arithmetic.h"
#include "isa/error.h"

namespace kodama::isa {

CycleCauses& CycleCauses::operator+=(const CycleCauses& other) {
  steps += other.steps;
  wait += other.wait;
  mv_queue += other.mv_queue;
  host_link += other.host_link;
  hazard += other.hazard;
  drain += other.drain;
  host_input += other.host_input;
  host_output += other.host_output;
  launch += other.launch;
  host_compute += other.host_compute;
  return *this;
}

// ---- instruction words -----------------------------------------------------------------------------------

InstructionFeed::InstructionFeed(const Chip& chip)
    : cycles_per_word_(kInstructionBytes / chip.host_link.bytes_per_second * chip.clock_hz),
      buffer_words_(chip.host_link.instruction_buffer_steps) {}

int64_t InstructionFeed::take_steps(int64_t cycle, int64_t count) {
  const auto there = [&](int64_t word) {
    if (word <= sent_) return int64_t{0};
    return static_cast<int64_t>(
        std::ceil(anchor_ + static_cast<double>(word - sent_) * cycles_per_word_ - 1e-6));
  };
  // Both the wish and the link are linear, so the first or the last word decides.
  const int64_t steps = kCyclesPerStep * (count - 1);
  const int64_t last = std::max({cycle + steps, there(taken_ + 1) + steps, there(taken_ + count)});
  taken_ += count;
  // With the buffer full, the link waits until a word is taken.
  const double ahead = (static_cast<double>(last) - anchor_) / cycles_per_word_;
  if (static_cast<double>(sent_) + ahead >= static_cast<double>(taken_ + buffer_words_)) {
    anchor_ = static_cast<double>(last);
    sent_ = taken_ + buffer_words_ - 1;
  }
  return last;
}

void InstructionFeed::occupy_until(int64_t cycle) {
  anchor_ = std::max(anchor_, static_cast<double>(cycle));
}

// ---- sequencer -------------------------------------------------------------------------------------------

int64_t Sequencer::bring_next() {
  const int64_t before = now_;
  const int64_t again = next_input_->advance(ports_, tags_, words_, now_);
  causes_.host_input += now_ - before;
  return again;
}

int64_t Sequencer::steps(int64_t count) {
  int64_t stall = 0;
  while (count > 0) {
    int64_t now = count;
    if (next_input_) {
      const int64_t again = bring_next();
      if (again < now_ + kCyclesPerStep * count)
        now = std::clamp<int64_t>(ceil_div(again - now_, kCyclesPerStep), 1, count);
    }
    const int64_t last = ports_.take_words(now_, now);
    words_ += now;
    const int64_t held = last - now_ - kCyclesPerStep * (now - 1);
    causes_.host_link += held;
    causes_.steps += kCyclesPerStep * now;
    now_ = last + kCyclesPerStep;
    stall += held;
    count -= now;
  }
  return stall;
}

int64_t Sequencer::mv(TransferRequest request) {
  if (next_input_) bring_next();
  const int64_t before = now_;
  const int64_t there = ports_.take_words(now_, 1);
  ++words_;
  causes_.host_link += there - now_;
  tags_.mv(request.mv.tag);
  now_ = ports_.issue(std::move(request), there);
  causes_.mv_queue += now_ - there;
  return now_ - before;
}

int64_t Sequencer::wait(int tag) {
  if (next_input_) bring_next();
  const int64_t before = now_;
  now_ = ports_.wait(tag, now_);
  tags_.wait(tag);
  causes_.wait += now_ - before;
  return now_ - before;
}

int64_t Sequencer::hold(int64_t steps) {
  const int64_t cycles = kCyclesPerStep * steps;
  causes_.hazard += cycles;
  now_ += cycles;
  return cycles;
}

int64_t Sequencer::finish() {
  if (next_input_) bring_next();
  const int64_t before = now_;
  // Of the program: not what comes for the next.
  for (int tag = 0; tag <= kMaxTransferTag; ++tag) {
    if (tags_.in_use[static_cast<size_t>(tag)]) now_ = ports_.wait(tag, now_);
  }
  causes_.drain += now_ - before;
  return now_ - before;
}

// ---- prediction ------------------------------------------------------------------------------------------

/// The cost tables.
class CyclePredictor::Ports : public SequencerPorts {
 public:
  explicit Ports(const Chip& chip)
      : chip_(chip), feed_(chip), timeline_(chip, TransferTimeline::standard_service(chip)) {}

  int64_t take_words(int64_t cycle, int64_t count) override { return feed_.take_steps(cycle, count); }
  const Chip& chip() const override { return chip_; }
  int64_t link_data(int64_t bytes, bool /*to_chip*/, int64_t tick) override {
    tick += link_ticks(bytes, chip_);
    feed_.occupy_until(ceil_div(tick, kTicksPerCycle));
    return tick;
  }

  int64_t issue(TransferRequest request, int64_t cycle) override {
    std::vector<TransferPart> parts = transfer_parts(request.mv, chip_);
    timeline_.advance(static_cast<double>(cycle));
    while (!timeline_.has_slot(parts)) {
      timeline_.advance(timeline_.next_event());
      cycle = std::max(cycle, timeline_.last_done(-1));
    }
    timeline_.issue(std::move(request), std::move(parts), cycle);
    return cycle;
  }
  int64_t wait(int tag, int64_t cycle) override {
    while (timeline_.in_flight(tag) > 0) timeline_.advance(timeline_.next_event());
    return std::max(cycle, timeline_.last_done(tag));
  }
  int64_t in_flight(int tag, int64_t cycle) override {
    timeline_.advance(static_cast<double>(cycle));
    return timeline_.in_flight(tag);
  }

 private:
  Chip chip_;
  InstructionFeed feed_;
  TransferTimeline timeline_;
};

class CyclePredictor::Impl {
 public:
  explicit Impl(const Chip& chip) : ports_(chip), sequencer_(ports_) {}
  Impl(const Impl& other)
      : ports_(other.ports_), sequencer_(other.sequencer_, ports_), stopped_(other.stopped_) {}

  Sequencer& sequencer() { return sequencer_; }
  void walk(std::span<const Statement> statements) {
    std::vector<int64_t> counters;
    walk(statements, counters);
  }

 private:
  /// Steps of a body that holds nothing but steps; -1 when there is more.
  static int64_t plain_steps(const std::vector<Statement>& body) {
    int64_t steps = 0;
    for (const Statement& statement : body) {
      if (const Loop* loop = std::get_if<Loop>(&statement.kind)) {
        const int64_t inner = plain_steps(loop->body);
        if (inner < 0) return -1;
        steps += inner * std::max<int64_t>(loop->count, 0);
      } else if (const Nop* nop = std::get_if<Nop>(&statement.kind)) {
        if (nop->wait_tag > 0) return -1;
        steps += nop->count;
      } else if (const Step* step = std::get_if<Step>(&statement.kind)) {
        if (wait_tag(*step) > 0) return -1;
        ++steps;
      } else if (std::holds_alternative<Mv>(statement.kind) || std::holds_alternative<Quit>(statement.kind)) {
        return -1;
      }
    }
    return steps;
  }
  static int wait_tag(const Step& step) {
    for (const Instruction& instruction : step.instructions) {
      if (instruction.opcode == Opcode::kWait) return instruction.tag;
    }
    return 0;
  }

  void walk(std::span<const Statement> statements, std::vector<int64_t>& counters) {
    for (const Statement& statement : statements) {
      if (stopped_) return;
      if (const Loop* loop = std::get_if<Loop>(&statement.kind)) {
        if (is_idle(*loop)) continue;
        const int64_t steps = plain_steps(loop->body);
        if (steps >= 0) {
          sequencer_.steps(steps * loop->count);
          continue;
        }
        counters.push_back(0);
        for (counters.back() = 0; counters.back() < loop->count && !stopped_; ++counters.back())
          walk(loop->body, counters);
        counters.pop_back();
      } else if (const Nop* nop = std::get_if<Nop>(&statement.kind)) {
        if (nop->wait_tag > 0) sequencer_.wait(nop->wait_tag);
        sequencer_.steps(nop->count);
      } else if (const Step* step = std::get_if<Step>(&statement.kind)) {
        if (const int tag = wait_tag(*step)) sequencer_.wait(tag);
        sequencer_.steps(1);
      } else if (std::holds_alternative<Mv>(statement.kind)) {
        const Statement now = resolved(statement, counters);
        TransferRequest request;
        request.mv = std::get<Mv>(now.kind).instruction;
        sequencer_.mv(std::move(request));
      } else if (std::holds_alternative<Quit>(statement.kind)) {
        stopped_ = true;
      }
    }
  }

  Ports ports_;
  Sequencer sequencer_;
  bool stopped_ = false;
};

CyclePredictor::CyclePredictor(const Chip& chip) : impl_(std::make_unique<Impl>(chip)) {}
CyclePredictor::CyclePredictor(const CyclePredictor& other) : impl_(std::make_unique<Impl>(*other.impl_)) {}
CyclePredictor::~CyclePredictor() = default;

void CyclePredictor::run(std::span<const Statement> statements) {
  impl_->walk(statements);
}
int64_t CyclePredictor::now() const {
  return impl_->sequencer().now();
}
void CyclePredictor::steps(int64_t count) {
  if (count > 0) impl_->sequencer().steps(count);
}
void CyclePredictor::mv(const Instruction& instruction) {
  TransferRequest request;
  request.mv = instruction;
  impl_->sequencer().mv(std::move(request));
}
void CyclePredictor::wait(int tag) {
  impl_->sequencer().wait(tag);
}
void CyclePredictor::host_begin(const HostWork& work) {
  impl_->sequencer().host_begin(work);
}
CycleCauses CyclePredictor::finish() {
  impl_->sequencer().finish();
  return impl_->sequencer().causes();
}

CycleCauses predict_cycles(const Program& program, const Chip& chip) {
  CyclePredictor predictor(chip);
  predictor.run(program.statements);
  return predictor.finish();
}

}  // namespace kodama::isa
