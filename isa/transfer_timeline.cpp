#include "isa/transfer_timeline.h"

#include <algorithm>
#include <cmath>
#include <memory>

#include "isa/error.h"

namespace kodama::isa {
namespace {

/// Times this close are one event: far below a cycle, far above the rounding of sums.
constexpr double kSameTime = 1e-6;

double cycles_of_ns(double ns, const Chip& chip) {
  return ns * 1e-9 * chip.clock_hz;
}

}  // namespace

// ---- DRAM ------------------------------------------------------------------------------------------------

DramTiming::DramTiming(const Chip& chip)
    : channel_lw_per_cycle_(chip.transfer.dram_lw_per_cycle /
                            static_cast<double>(chip.transfer.dram_channels)),
      row_lw_(chip.transfer.dram_row_bytes / 8),
      banks_per_channel_(chip.transfer.dram_banks),
      row_miss_(cycles_of_ns(chip.transfer.dram_row_miss_ns, chip)),
      turnaround_(cycles_of_ns(chip.transfer.dram_turnaround_ns, chip)),
      refresh_interval_(cycles_of_ns(chip.transfer.dram_refresh_interval_ns, chip)),
      refresh_(cycles_of_ns(chip.transfer.dram_refresh_ns, chip)),
      banks_(static_cast<size_t>(chip.transfer.dram_banks * chip.transfer.dram_channels)),
      clocks_(static_cast<size_t>(chip.transfer.dram_channels)) {}

void DramTiming::refresh_before(double time) {
  if (refresh_ <= 0) return;
  const auto refreshes = static_cast<int64_t>(std::floor(time / refresh_interval_));
  if (refreshes <= refreshes_) return;
  refreshes_ = refreshes;
  const double end = static_cast<double>(refreshes) * refresh_interval_ + refresh_;
  for (Bank& bank : banks_) bank = {-1, end};
  busy_until_ = std::max(busy_until_, end);
}

double DramTiming::occupy(int64_t address, int64_t lw, bool write, double time) {
  refresh_before(time);
  const double start = std::max(time, busy_until_);
  double begin = start;
  if (writing_ && *writing_ != write) {
    begin += turnaround_;
    ++turnarounds_;
  }
  writing_ = write;
  std::fill(clocks_.begin(), clocks_.end(), begin);
  const auto channels = static_cast<int64_t>(clocks_.size());
  while (lw > 0) {
    const int64_t piece = std::min(lw, row_lw_ - address % row_lw_);
    const int64_t row_number = address / row_lw_;
    const int64_t channel = row_number % channels;
    const int64_t bank_number = row_number / channels % banks_per_channel_;
    const int64_t row = row_number / channels / banks_per_channel_;
    Bank& bank = banks_[static_cast<size_t>(channel * banks_per_channel_ + bank_number)];
    double& clock = clocks_[static_cast<size_t>(channel)];
    if (bank.row == row) {
      ++row_hits_;
    } else {
      ++row_misses_;
      bank.row = row;
      clock = std::max(clock, bank.end + row_miss_);
    }
    clock += static_cast<double>(piece) / channel_lw_per_cycle_;
    bank.end = clock;
    address += piece;
    lw -= piece;
  }
  busy_until_ = *std::max_element(clocks_.begin(), clocks_.end());
  return busy_until_ - start;
}

// ---- ports -----------------------------------------------------------------------------------------------

namespace {

bool is_l2bm(TransferPort port) {
  return port == TransferPort::kL2bmRead || port == TransferPort::kL2bmWrite;
}

}  // namespace

int TransferPorts::number(const TransferPart& part) const {
  switch (part.port) {
    case TransferPort::kDram:
      return part.index;
    case TransferPort::kPdmRead:
      return groups_ + part.index;
    case TransferPort::kPdmWrite:
      return 2 * groups_ + part.index;
    case TransferPort::kL2bmRead:
      return 3 * groups_ + part.index;
    case TransferPort::kL2bmWrite:
      return 3 * groups_ + l2bs_ + part.index;
    case TransferPort::kGroupPath:
      return 3 * groups_ + 2 * l2bs_ + part.index * groups_ + part.to;
  }
  throw InternalError("internal error in transfer ports: unknown port");
}

TransferPart TransferPorts::part(int number) const {
  TransferPart part{};
  for (const TransferPort port : {TransferPort::kDram, TransferPort::kPdmRead, TransferPort::kPdmWrite,
                                  TransferPort::kL2bmRead, TransferPort::kL2bmWrite}) {
    const int size = is_l2bm(port) ? l2bs_ : groups_;
    if (number < size) {
      part.port = port;
      part.index = number;
      return part;
    }
    number -= size;
  }
  part.port = TransferPort::kGroupPath;
  part.index = number / groups_;
  part.to = number % groups_;
  return part;
}

int TransferPorts::group(const TransferPart& part) const {
  return is_l2bm(part.port) ? part.index / (l2bs_ / groups_) : part.index;
}

// ---- timeline --------------------------------------------------------------------------------------------

TransferTimeline::TransferTimeline(const Chip& chip, Service service)
    : chip_(chip),
      ports_(chip),
      service_(std::move(service)),
      refresh_interval_(cycles_of_ns(chip.transfer.dram_refresh_interval_ns, chip)),
      refresh_(cycles_of_ns(chip.transfer.dram_refresh_ns, chip)),
      in_flight_(static_cast<size_t>(chip.groups)),
      busy_(static_cast<size_t>(ports_.count())),
      moved_(static_cast<size_t>(ports_.count())),
      capacity_(static_cast<size_t>(ports_.count())) {}

TransferTimeline::Service TransferTimeline::standard_service(const Chip& chip) {
  // Copies of a timeline have DRAMs of their own.
  std::vector<DramTiming> drams(static_cast<size_t>(chip.groups), DramTiming(chip));
  return [drams = std::move(drams), chip](const TransferChunk& chunk) mutable {
    const TransferPart& part = *chunk.part;
    if (part.port != TransferPort::kDram)
      return static_cast<double>(chunk.lw) / transfer_rate(part.port, chip);
    return occupy_dram(drams[static_cast<size_t>(part.index)], chunk, chip);
  };
}

double occupy_dram(DramTiming& dram, const TransferChunk& chunk, const Chip& chip) {
  const TransferPart& part = *chunk.part;
  if (!part.indirect) return dram.occupy(part.address + chunk.offset, chunk.lw, part.write, chunk.time);
  double cycles = 0;
  for (int64_t done = 0; done < chunk.lw;) {
    const int64_t at = chunk.offset + done;
    const int64_t block = at / chunk.block_lw;
    const int64_t lw = std::min(chunk.lw - done, chunk.block_lw - at % chunk.block_lw);
    const int64_t row_set =
        chip.transfer.dram_row_bytes / 8 * chip.transfer.dram_banks * chip.transfer.dram_channels;
    const bool known = chunk.blocks != nullptr && block < static_cast<int64_t>(chunk.blocks->size());
    const int64_t address =
        known ? (*chunk.blocks)[static_cast<size_t>(block)] : (block + 1) * row_set % chip.memory.dram_lw;
    cycles += dram.occupy(address + at % chunk.block_lw, lw, part.write, chunk.time);
    done += lw;
  }
  return cycles;
}

uint64_t TransferTimeline::groups_of(const std::vector<TransferPart>& parts) const {
  uint64_t groups = 0;
  for (const TransferPart& part : parts) {
    groups |= uint64_t{1} << ports_.group(part);
    if (part.port == TransferPort::kGroupPath) groups |= uint64_t{1} << part.to;
  }
  return groups;
}

bool TransferTimeline::has_slot(const std::vector<TransferPart>& parts) const {
  const uint64_t groups = groups_of(parts);
  for (int g = 0; g < chip_.groups; ++g) {
    if ((groups >> g & 1) != 0 && in_flight_[static_cast<size_t>(g)] >= chip_.transfer.max_in_flight)
      return false;
  }
  return true;
}

void TransferTimeline::count_in_flight(uint64_t groups, int64_t change) {
  for (int g = 0; g < chip_.groups; ++g) {
    if ((groups >> g & 1) != 0) in_flight_[static_cast<size_t>(g)] += change;
  }
}

int64_t TransferTimeline::issue(TransferRequest request, std::vector<TransferPart> parts, int64_t cycle) {
  Active transfer;
  transfer.record.id = next_id_++;
  transfer.record.issued = cycle;
  last_start_ = std::max(cycle, next_start());
  transfer.record.started = last_start_;
  transfer.record.moving = static_cast<double>(last_start_ + transfer_latency(parts, chip_));
  transfer.groups = groups_of(parts);
  count_in_flight(transfer.groups, 1);
  ++tag_in_flight_[request.mv.tag];
  transfer.record.request = std::move(request);
  transfer.record.parts = std::move(parts);
  const auto after =
      std::upper_bound(waiting_.begin(), waiting_.end(), transfer.record.moving,
                       [](double moving, const Active& other) { return moving < other.record.moving; });
  const int64_t id = transfer.record.id;
  waiting_.insert(after, std::move(transfer));
  return id;
}

bool TransferTimeline::refreshing(double time, double* boundary) const {
  if (refresh_ <= 0) {
    *boundary = kNever;
    return false;
  }
  const double begin = std::floor((time + kSameTime) / refresh_interval_) * refresh_interval_;
  // The first refresh comes after one interval.
  if (begin > 0 && time < begin + refresh_ - kSameTime) {
    *boundary = begin + refresh_;
    return true;
  }
  *boundary = begin + refresh_interval_;
  return false;
}

double TransferTimeline::next_event() const {
  double next = refresh_event_;
  if (!waiting_.empty()) next = std::min(next, waiting_.front().record.moving);
  for (const Active& active : active_) next = std::min(next, active.end);
  return next;
}

void TransferTimeline::advance(double time) {
  for (double next = next_event(); next <= time; next = next_event()) handle(next);
}

void TransferTimeline::start_chunk(Active& active, double time) {
  const int64_t total = active.record.request.mv.size_lw;
  active.length = std::min(kChunkLw, total - active.position);
  active.remaining = 1;
  active.demands.clear();
  TransferChunk chunk;
  for (const TransferPart& part : active.record.parts) {
    // The part's share of the chunk, so that the shares of all chunks add up.
    const int64_t before = part.lw * active.position / total;
    const int64_t after = part.lw * (active.position + active.length) / total;
    if (after == before) continue;
    chunk.part = &part;
    chunk.offset = before;
    chunk.lw = after - before;
    chunk.time = time;
    if (part.indirect) {
      const auto blocks = active.record.request.blocks.find(part.index);
      chunk.blocks = blocks == active.record.request.blocks.end() ? nullptr : &blocks->second;
      chunk.block_lw = int64_t{16} * std::max(active.record.request.mv.indirect_n, 1);
    }
    const int port = ports_.number(part);
    const double cycles = service_(chunk);
    // A copy inside one DRAM asks the same port twice.
    const auto same =
        std::ranges::find_if(active.demands, [&](const Demand& other) { return other.port == port; });
    if (same != active.demands.end()) {
      same->cycles += cycles;
      same->lw += chunk.lw;
    } else {
      active.demands.push_back({port, cycles, chunk.lw});
    }
  }
}

void TransferTimeline::finish(Active& active, double time) {
  TransferRecord& record = active.record;
  record.done = static_cast<int64_t>(std::ceil(time - kSameTime));
  count_in_flight(active.groups, -1);
  const int tag = record.request.mv.tag;
  --tag_in_flight_[tag];
  tag_done_[tag] = std::max(tag_done_[tag], record.done);
  last_done_ = std::max(last_done_, record.done);
  if (on_done) on_done(record);
}

void TransferTimeline::handle(double time) {
  for (Active& active : active_) {
    if (active.end > time + kSameTime) {
      active.remaining -= active.rate * (time - since_);
      continue;
    }
    for (const Demand& demand : active.demands) {
      busy_[static_cast<size_t>(demand.port)] += demand.cycles;
      moved_[static_cast<size_t>(demand.port)] += demand.lw;
    }
    active.position += active.length;
    if (active.position >= active.record.request.mv.size_lw || active.record.parts.empty()) {
      finish(active, time);
      active.length = -1;
    } else {
      start_chunk(active, time);
    }
  }
  std::erase_if(active_, [](const Active& active) { return active.length < 0; });
  since_ = time;
  while (!waiting_.empty() && waiting_.front().record.moving <= time + kSameTime) {
    Active active = std::move(waiting_.front());
    waiting_.erase(waiting_.begin());
    const auto key = [](const Active& a) { return std::pair(-a.record.request.mv.priority, a.record.id); };
    const auto after = std::upper_bound(active_.begin(), active_.end(), active,
                                        [&](const Active& a, const Active& b) { return key(a) < key(b); });
    start_chunk(*active_.insert(after, std::move(active)), time);
  }
  share_ports(time);
}

void TransferTimeline::share_ports(double time) {
  double boundary = kNever;
  const bool refresh = refreshing(time, &boundary);
  std::fill(capacity_.begin(), capacity_.end(), 1.0);
  if (refresh) std::fill_n(capacity_.begin(), chip_.groups, 0.0);
  refresh_event_ = kNever;
  for (Active& active : active_) {
    active.rate = kNever;
    for (const Demand& demand : active.demands) {
      if (demand.port < chip_.groups) refresh_event_ = boundary;
      if (demand.cycles > 0)
        active.rate = std::min(active.rate, capacity_[static_cast<size_t>(demand.port)] / demand.cycles);
    }
    if (active.rate == kNever) {
      active.end = time;
      continue;
    }
    for (const Demand& demand : active.demands) {
      double& left = capacity_[static_cast<size_t>(demand.port)];
      left = std::max(0.0, left - active.rate * demand.cycles);
      if (left < 1e-12) left = 0;
    }
    active.end = active.rate > 0 ? time + active.remaining / active.rate : kNever;
  }
}

int64_t TransferTimeline::in_flight(int tag) const {
  if (tag < 0) return in_flight();
  const auto found = tag_in_flight_.find(tag);
  return found == tag_in_flight_.end() ? 0 : found->second;
}

int64_t TransferTimeline::last_done(int tag) const {
  if (tag < 0) return last_done_;
  const auto found = tag_done_.find(tag);
  return found == tag_done_.end() ? 0 : found->second;
}

}  // namespace kodama::isa
