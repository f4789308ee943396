#include "host/device.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "host/message.h"
#include "isa/error.h"
#include "simulator/debug_text.h"

namespace kodama::host {
namespace {

using isa::Space;

constexpr std::chrono::microseconds kPoll{200};

/// Memories in the order of their numbers.
constexpr std::array kMemories{Space::kPdm, Space::kDram, Space::kL2bm, Space::kL1bm,
                               Space::kLm0, Space::kLm1,  Space::kGrf0, Space::kGrf1};

}  // namespace

Device::Device(const isa::Chip& chip)
    : chip_(chip),
      machine_(std::make_unique<simulator::Machine>(chip)),
      clock_(chip),
      number_(begin_totals(chip.name, chip.clock_hz)) {}

Device::Lock Device::enter() {
  Lock lock(mutex_);
  threads_.insert(std::this_thread::get_id());
  return lock;
}

void Device::note() {
  totals_.link_cycles = clock_.link_cycles();
  totals_.elapsed_cycles = clock_.elapsed();
  update_totals(number_, totals_);
}

void Device::close() {
  const Lock lock = enter();
  if (!machine_) return;
  advance(Parts::kAsFarAsPossible);
  while (use_old_arrival()) advance(Parts::kAsFarAsPossible);
  if (!queue_.empty()) say_what_is_stuck();
  for (const Work& work : queue_) {
    if (const auto* transfer = std::get_if<std::shared_ptr<Transfer>>(&work))
      (*transfer)->state = Transfer::State::kCutOff;
  }
  queue_.clear();
  note();
  machine_.reset();
  changed_.notify_all();
}

int Device::reset() {
  const Lock lock = enter();
  if (!machine_) return MNC2_ERROR_PARAM;
  for (const Work& work : queue_) {
    if (const auto* transfer = std::get_if<std::shared_ptr<Transfer>>(&work))
      (*transfer)->state = Transfer::State::kCutOff;
  }
  queue_.clear();
  arrived_ = 0;
  bits_ = 0;
  counts_ = {};
  overflow_ = {};
  kernel_overflow_ = false;
  kernel_refused_ = false;
  changed_.notify_all();
  return MNC2_SUCCESS;
}

// ---- the queue

int Device::kernels_queued() const {
  return static_cast<int>(
      std::ranges::count_if(queue_, [](const Work& work) { return std::holds_alternative<Run>(work); }));
}

int Device::transfers_queued(int channel) const {
  return static_cast<int>(std::ranges::count_if(queue_, [&](const Work& work) {
    const auto* transfer = std::get_if<std::shared_ptr<Transfer>>(&work);
    return transfer != nullptr && (*transfer)->channel == channel;
  }));
}

void Device::advance(Parts parts) {
  while (!queue_.empty()) {
    if (auto* run = std::get_if<Run>(&queue_.front())) {
      if (!advance(*run, parts)) return;
      vain_polls_ = 0;
    } else {
      const auto transfer = std::get<std::shared_ptr<Transfer>>(queue_.front());
      transfer->done_at = move_out(*transfer);
      transfer->state = Transfer::State::kDone;
      queue_.pop_front();
    }
    changed_.notify_all();
  }
}

bool Device::advance(Run& run, Parts parts) {
  const std::vector<Kernel::HostWait>& waits = run.kernel->host_waits();
  Tags arrived = arrived_;
  size_t reached = run.next_wait;
  while (reached < waits.size() && (arrived & tag_bit(waits[reached].tag)) != 0) {
    arrived &= ~tag_bit(waits[reached].tag);
    ++reached;
  }
  const bool to_the_end = reached == waits.size();
  if (!to_the_end && parts == Parts::kWhole && !run.kernel->waits_again()) return false;
  const size_t to = to_the_end ? run.kernel->size() : waits[reached].statement;
  if (!to_the_end && to == run.next_statement) return false;
  const bool refused = !run_part(run, to);
  run.next_statement = to;
  run.next_wait = reached;
  if (refused || to_the_end) {
    kernel_refused_ |= refused;
    if (!refused) ++totals_.kernels;
    queue_.pop_front();
    note();
  }
  return true;
}

bool Device::run_part(const Run& run, size_t to) {
  const Kernel& kernel = *run.kernel;
  isa::Program part;
  const bool whole = run.next_statement == 0 && to == kernel.size();
  if (!whole) part = kernel.part(run.next_statement, to);
  simulator::Profile profile;
  simulator::RunOptions options;
  options.profile = &profile;
  options.dump = [](const std::string& line) { std::printf("%s\n", line.c_str()); };
  const Kernel::TagEvents events = kernel.tag_events(run.next_statement, to);
  Tags wanted = 0;
  for (const Kernel::HostWait& wait : kernel.host_waits()) {
    if (wait.statement >= run.next_statement && wait.statement < to) wanted |= tag_bit(wait.tag);
  }
  bool good = true;
  try {
    const simulator::RunStats stats = machine_->run(whole ? kernel.program() : part, options);
    totals_.runs += stats;
    capture_.add(profile);
    clock_.run(stats.causes.total(), wanted);
  } catch (const std::exception& error) {
    say(fmt::format("kernel {}: {}", kernel.name(), error.what()));
    good = false;
  }
  std::fflush(stdout);
  arrived_ = (arrived_ & ~(events.taken | wanted)) | events.brought;
  bits_ |= kernel.carried() & (events.brought | events.taken);
  for (size_t tag = 1; tag < counts_.size(); ++tag) counts_[tag].bytes += events.bytes[tag];
  return good;
}

bool Device::use_old_arrival() {
  if (queue_.empty()) return false;
  const auto* run = std::get_if<Run>(&queue_.front());
  if (run == nullptr || run->next_wait >= run->kernel->host_waits().size()) return false;
  // A kernel that runs as a whole stands before its first wait, not before the one that is missing.
  for (size_t k = run->next_wait; k < run->kernel->host_waits().size(); ++k) {
    const Tags tag = tag_bit(run->kernel->host_waits()[k].tag);
    if ((arrived_ & tag) != 0) continue;
    if ((bits_ & tag) == 0) return false;
    arrived_ |= tag;
    return true;
  }
  return false;
}

void Device::say_what_is_stuck() const {
  if (queue_.empty()) return;
  const auto* run = std::get_if<Run>(&queue_.front());
  if (run == nullptr) return;
  for (size_t k = run->next_wait; k < run->kernel->host_waits().size(); ++k) {
    const Kernel::HostWait& wait = run->kernel->host_waits()[k];
    if ((arrived_ & tag_bit(wait.tag)) != 0) continue;
    say(fmt::format("kernel {} waits for tag {} (line {}), which nobody sent", run->kernel->name(), wait.tag,
                    run->kernel->program().statements[wait.statement].line));
    return;
  }
}

int Device::wait_until(Lock& lock, Limit limit, const std::function<bool()>& done) {
  for (int polls = 0;; ++polls) {
    if (!machine_) return MNC2_ERROR_DEVICE;
    advance(Parts::kAsFarAsPossible);
    if (done()) return MNC2_SUCCESS;
    const bool too_long = polls >= limits_[static_cast<size_t>(limit)];
    // Another thread may be about to send; the only one that ever made a call is not.
    if ((too_long || threads_.size() < 2) && use_old_arrival()) {
      polls = -1;
      continue;
    }
    if (too_long) {
      say_what_is_stuck();
      return MNC2_ERROR_TIMEOUT;
    }
    changed_.wait_for(lock, kPoll);
  }
}

bool Device::look(const std::function<bool()>& done) {
  if (!machine_) return done();
  advance(Parts::kAsFarAsPossible);
  // Another thread may be about to send; the only one that ever made a call is not.
  while (!done() && threads_.size() < 2 && use_old_arrival()) advance(Parts::kAsFarAsPossible);
  return done();
}

int Device::asked_in_vain() {
  const auto now = std::chrono::steady_clock::now();
  if (vain_polls_++ == 0) vain_since_ = now;
  const int limit = limits_[static_cast<size_t>(Limit::kDdmaComplete)];
  if (vain_polls_ <= limit || now - vain_since_ <= limit * kPoll) return MNC2_SUCCESS;
  say_what_is_stuck();
  vain_polls_ = 0;
  return MNC2_ERROR_TIMEOUT;
}

int Device::reported() {
  return std::exchange(kernel_refused_, false) ? MNC2_ERROR_KERNEL : MNC2_SUCCESS;
}

// ---- transfers

bool Device::right_transfer(const void* buffer, uint64_t offset, size_t bytes, unsigned tag) const {
  const uint64_t size = static_cast<uint64_t>(chip_.memory.pdm_lw) * 8;
  return machine_ && buffer != nullptr && bytes > 0 && bytes % 8 == 0 && offset % 8 == 0 && offset <= size &&
         bytes <= size - offset && tag < kTags;
}

void Device::bring(Tags tags) {
  tags &= ~tag_bit(0);
  arrived_ |= tags;
  bits_ |= tags;
}

double Device::move_in(const void* buffer, int64_t pdm_lw, size_t bytes, int tag) {
  std::vector<uint64_t> words(bytes / 8);
  to_long_words(static_cast<const std::byte*>(buffer), endian_control_, words);
  machine_->write_pdm(0, pdm_lw, words);
  ++totals_.sends;
  totals_.sent_bytes += static_cast<int64_t>(bytes);
  counts_[static_cast<size_t>(tag)].bytes += bytes;
  const double done = clock_.send(static_cast<int64_t>(bytes), tag);
  bring(tag_bit(tag));
  advance(Parts::kWhole);
  note();
  changed_.notify_all();
  return done;
}

double Device::move_out(const Transfer& transfer) {
  std::vector<uint64_t> words(transfer.bytes / 8);
  machine_->read_pdm(0, transfer.pdm_lw, words);
  to_bytes(words, transfer.endian_control, transfer.buffer);
  ++totals_.receives;
  totals_.received_bytes += static_cast<int64_t>(transfer.bytes);
  counts_[static_cast<size_t>(transfer.tag)].bytes += transfer.bytes;
  const double done = clock_.receive(static_cast<int64_t>(transfer.bytes));
  note();
  return done;
}

Transfer Device::outgoing(void* buffer, uint64_t offset, size_t bytes, unsigned tag) const {
  Transfer transfer;
  transfer.buffer = static_cast<std::byte*>(buffer);
  transfer.pdm_lw = static_cast<int64_t>(offset / 8);
  transfer.bytes = bytes;
  transfer.tag = static_cast<int>(tag);
  transfer.endian_control = endian_control_;
  return transfer;
}

int Device::send(const void* buffer, uint64_t offset, size_t bytes, unsigned tag) {
  const Lock lock = enter();
  if (!right_transfer(buffer, offset, bytes, tag)) return MNC2_ERROR_PARAM;
  clock_.wait_until(move_in(buffer, static_cast<int64_t>(offset / 8), bytes, static_cast<int>(tag)));
  return MNC2_SUCCESS;
}

int Device::receive(void* buffer, uint64_t offset, size_t bytes, unsigned tag) {
  Lock lock = enter();
  if (!right_transfer(buffer, offset, bytes, tag)) return MNC2_ERROR_PARAM;
  if (const int result = wait_until(lock, Limit::kIdmaComplete, [&] { return queue_.empty(); });
      result != MNC2_SUCCESS)
    return result;
  clock_.wait_until(move_out(outgoing(buffer, offset, bytes, tag)));
  return reported();
}

std::shared_ptr<Transfer> Device::start_send(const void* buffer, uint64_t offset, size_t bytes,
                                             unsigned tag) {
  const Lock lock = enter();
  if (!right_transfer(buffer, offset, bytes, tag)) return nullptr;
  auto transfer = std::make_shared<Transfer>();
  transfer->done_at = move_in(buffer, static_cast<int64_t>(offset / 8), bytes, static_cast<int>(tag));
  transfer->state = Transfer::State::kDone;
  return transfer;
}

std::shared_ptr<Transfer> Device::start_receive(void* buffer, uint64_t offset, size_t bytes, unsigned tag) {
  const Lock lock = enter();
  if (!right_transfer(buffer, offset, bytes, tag)) return nullptr;
  const int channel = transfers_queued(0) <= transfers_queued(1) ? 0 : 1;
  if (transfers_queued(channel) >= kMostPerChannel) {
    overflow_[static_cast<size_t>(channel)] = true;
    return nullptr;
  }
  const auto transfer = std::make_shared<Transfer>(outgoing(buffer, offset, bytes, tag));
  transfer->channel = channel;
  transfer->regset = next_regset_;
  next_regset_ = (next_regset_ + 1) % kTags;
  queue_.emplace_back(transfer);
  advance(Parts::kWhole);
  return transfer;
}

int Device::poll(const std::shared_ptr<Transfer>& transfer, int& done) {
  const Lock lock = enter();
  const bool is_done = look([&] { return transfer->state != Transfer::State::kQueued; });
  done = is_done ? 1 : 0;
  if (!is_done) return asked_in_vain();
  if (transfer->state == Transfer::State::kCutOff) return MNC2_ERROR_DMA;
  clock_.wait_until(transfer->done_at);
  return MNC2_SUCCESS;
}

int Device::wait(const std::shared_ptr<Transfer>& transfer) {
  Lock lock = enter();
  const int result =
      wait_until(lock, Limit::kDdmaComplete, [&] { return transfer->state != Transfer::State::kQueued; });
  if (result != MNC2_SUCCESS) return result;
  if (transfer->state == Transfer::State::kCutOff) return MNC2_ERROR_DMA;
  clock_.wait_until(transfer->done_at);
  note();
  return MNC2_SUCCESS;
}

int Device::release(const std::shared_ptr<Transfer>& transfer) {
  const int result = wait(transfer);
  const Lock lock = enter();
  if (transfer->state != Transfer::State::kQueued) return MNC2_SUCCESS;
  std::erase_if(queue_, [&](const Work& work) {
    const auto* other = std::get_if<std::shared_ptr<Transfer>>(&work);
    return other != nullptr && *other == transfer;
  });
  transfer->state = Transfer::State::kCutOff;
  return result;
}

int Device::wait_for_transfers() {
  Lock lock = enter();
  if (!machine_) return MNC2_ERROR_PARAM;
  return wait_until(lock, Limit::kDdmaComplete, [&] {
    return std::ranges::all_of(queue_, [](const Work& work) { return std::holds_alternative<Run>(work); });
  });
}

int Device::set_endian_control(int control) {
  const Lock lock = enter();
  if (!machine_ || control < 0 || control >= kEndianControls) return MNC2_ERROR_PARAM;
  endian_control_ = control;
  return MNC2_SUCCESS;
}

int Device::endian_control() {
  const Lock lock = enter();
  return machine_ ? endian_control_ : MNC2_ERROR_PARAM;
}

// ---- kernels

int Device::start(const std::shared_ptr<const Kernel>& kernel) {
  const Lock lock = enter();
  if (!machine_) return MNC2_ERROR_PARAM;
  if (kernels_queued() >= kMostKernels) {
    kernel_overflow_ = true;
    return MNC2_ERROR_BUSY;
  }
  const bool alone = queue_.empty();
  const bool refused_before = std::exchange(kernel_refused_, false);
  queue_.emplace_back(Run{kernel});
  advance(Parts::kWhole);
  const bool refused = alone && queue_.empty() && kernel_refused_;
  kernel_refused_ = refused_before || (kernel_refused_ && !refused);
  return refused ? MNC2_ERROR_KERNEL : MNC2_SUCCESS;
}

void Device::finish(const std::shared_ptr<const Kernel>& kernel) {
  Lock lock = enter();
  if (!machine_) return;
  const auto is_run = [&](const Work& work) {
    const auto* run = std::get_if<Run>(&work);
    return run != nullptr && run->kernel == kernel;
  };
  if (wait_until(lock, Limit::kIdmaComplete, [&] { return std::ranges::none_of(queue_, is_run); }) ==
      MNC2_SUCCESS)
    return;
  std::erase_if(queue_, is_run);
  if (machine_) advance(Parts::kWhole);
}

int Device::wait_for_kernels() {
  Lock lock = enter();
  if (!machine_) return MNC2_ERROR_PARAM;
  const int result = wait_until(lock, Limit::kIdmaComplete, [&] { return kernels_queued() == 0; });
  if (result != MNC2_SUCCESS) return result;
  clock_.wait_for_chip();
  note();
  return reported();
}

// ---- debugging

simulator::Place Device::place_of(const mnc2_loc_t& place) const {
  return {place.chip, place.l2b, place.l1b, place.mab, place.pe};
}

bool Device::right_place(int memory, const mnc2_loc_t& place, int address, int count,
                         int64_t& word_address) const {
  if (!machine_ || memory < 0 || memory >= static_cast<int>(kMemories.size()) || address < 0 || count <= 0)
    return false;
  const Space space = kMemories[static_cast<size_t>(memory)];
  word_address = int64_t{address} * simulator::address_step(space);
  try {
    simulator::check_range(space, place_of(place), word_address, static_cast<size_t>(count), chip_);
  } catch (const isa::Error&) {
    return false;
  }
  return true;
}

int Device::debug_read(int memory, const mnc2_loc_t& place, int address, int count, uint64_t* out) {
  const Lock lock = enter();
  int64_t word_address = 0;
  if (out == nullptr || !right_place(memory, place, address, count, word_address)) return MNC2_ERROR_PARAM;
  advance(Parts::kAsFarAsPossible);
  machine_->read(kMemories[static_cast<size_t>(memory)], place_of(place), word_address,
                 std::span(out, static_cast<size_t>(count)));
  return MNC2_SUCCESS;
}

int Device::debug_write(int memory, const mnc2_loc_t& place, int address, int count, const uint64_t* data) {
  const Lock lock = enter();
  int64_t word_address = 0;
  if (data == nullptr || !right_place(memory, place, address, count, word_address)) return MNC2_ERROR_PARAM;
  advance(Parts::kAsFarAsPossible);
  machine_->write(kMemories[static_cast<size_t>(memory)], place_of(place), word_address,
                  std::span(data, static_cast<size_t>(count)));
  return MNC2_SUCCESS;
}

// ---- limits and state

int Device::limit(Limit limit) {
  const Lock lock = enter();
  return machine_ ? limits_[static_cast<size_t>(limit)] : -1;
}

int Device::set_limit(Limit limit, int value) {
  const Lock lock = enter();
  if (!machine_) return -1;
  if (value < 0) return MNC2_ERROR_PARAM;
  return std::exchange(limits_[static_cast<size_t>(limit)], value);
}

int Device::transfer_stat(mnc2_ddma_stat_t& stat) {
  const Lock lock = enter();
  if (!machine_) return MNC2_ERROR_PARAM;
  stat = {};
  for (int channel = 0; channel < kChannels; ++channel) {
    mnc2_ddma_channel_stat_t& out = stat.pdm_to_host[channel];
    out.n_dma = transfers_queued(channel);
    out.active = out.n_dma > 0 ? 1 : 0;
    out.overflow = overflow_[static_cast<size_t>(channel)] ? 1 : 0;
    for (const Work& work : queue_) {
      const auto* transfer = std::get_if<std::shared_ptr<Transfer>>(&work);
      if (transfer == nullptr || (*transfer)->channel != channel) continue;
      out.regset = (*transfer)->regset;
      break;
    }
  }
  return MNC2_SUCCESS;
}

int Device::kernel_stat(mnc2_idma_stat_t& stat) {
  const Lock lock = enter();
  if (!machine_) return MNC2_ERROR_PARAM;
  stat = {kernels_queued(), 0, kernel_overflow_ ? 1 : 0};
  const auto first =
      std::ranges::find_if(queue_, [](const Work& work) { return std::holds_alternative<Run>(work); });
  if (first == queue_.end()) return MNC2_SUCCESS;
  const Run& run = std::get<Run>(*first);
  const auto left = static_cast<int64_t>(run.kernel->size() - run.next_statement);
  stat.inst_in_ibuf = static_cast<int>(
      std::min({left, chip_.host_link.instruction_buffer_steps, int64_t{std::numeric_limits<int>::max()}}));
  return MNC2_SUCCESS;
}

// ---- pools, tags, arrivals

int Device::take(PoolOf pool) {
  const Lock lock = enter();
  if (!machine_) return MNC2_ERROR_PARAM;
  return (pool == PoolOf::kTags ? tags_ : pool == PoolOf::kWaitSlots ? wait_slots_ : regsets_).take();
}

int Device::give_back(PoolOf pool, int number) {
  const Lock lock = enter();
  if (!machine_) return MNC2_ERROR_PARAM;
  return (pool == PoolOf::kTags        ? tags_
          : pool == PoolOf::kWaitSlots ? wait_slots_
                                       : regsets_)
      .give_back(number);
}

int Device::set_tag_size(int tag, uint64_t bytes) {
  const Lock lock = enter();
  if (!machine_ || !tags_.has(tag)) return MNC2_ERROR_PARAM;
  counts_[static_cast<size_t>(tag)].wanted = bytes;
  return MNC2_SUCCESS;
}

int Device::tag_done(int tag, int& done) {
  const Lock lock = enter();
  if (!machine_ || !tags_.has(tag)) return MNC2_ERROR_PARAM;
  const bool is_done = look([&] { return counts_[static_cast<size_t>(tag)].done(); });
  done = is_done ? 1 : 0;
  return is_done ? MNC2_SUCCESS : asked_in_vain();
}

int Device::wait_for_tag(int tag) {
  Lock lock = enter();
  if (!machine_ || !tags_.has(tag)) return MNC2_ERROR_PARAM;
  return wait_until(lock, Limit::kDdmaComplete, [&] { return counts_[static_cast<size_t>(tag)].done(); });
}

int Device::clear_tag(int tag) {
  const Lock lock = enter();
  if (!machine_ || !tags_.has(tag)) return MNC2_ERROR_PARAM;
  counts_[static_cast<size_t>(tag)].bytes = 0;
  return MNC2_SUCCESS;
}

int Device::wait_for_arrival(int slot) {
  Lock lock = enter();
  if (!machine_ || !wait_slots_.has(slot)) return MNC2_ERROR_PARAM;
  return wait_until(lock, Limit::kDdmaComplete, [&] { return (bits_ & tag_bit(slot)) != 0; });
}

int Device::clear_arrival(int slot) {
  const Lock lock = enter();
  if (!machine_ || !wait_slots_.has(slot)) return MNC2_ERROR_PARAM;
  arrived_ &= ~tag_bit(slot);
  bits_ &= ~tag_bit(slot);
  return MNC2_SUCCESS;
}

int Device::arrivals(uint64_t& bits) {
  const Lock lock = enter();
  if (!machine_) return MNC2_ERROR_PARAM;
  bits = bits_;
  return MNC2_SUCCESS;
}

// ---- capture

int Device::capture_instructions(uint64_t& count) {
  const Lock lock = enter();
  if (!machine_) return MNC2_ERROR_PARAM;
  count = capture_.instructions();
  return MNC2_SUCCESS;
}

int Device::set_trigger(int select, uint64_t counter) {
  const Lock lock = enter();
  if (!machine_ || select < 0 || select >= kSnapshots) return MNC2_ERROR_PARAM;
  capture_.set_trigger(select, counter);
  return MNC2_SUCCESS;
}

int Device::read_capture(int select, mnc2_capture_t& capture) {
  const Lock lock = enter();
  if (!machine_ || select < 0 || select >= kSnapshots) return MNC2_ERROR_PARAM;
  return capture_.read(select, capture) ? MNC2_SUCCESS : MNC2_ERROR_BUSY;
}

}  // namespace kodama::host
