#include "isa/transfer_timeline.h"

#include <algorithm>
#include <cmath>
#include <memory>

#include "isa/error.h"

namespace kodama::isa {
namespace {

/// Times this close are one event: far below a cycle, far above the rounding of sums.
constexpr double kSameTime = 1e-6;

}  // namespace

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
      in_flight_(static_cast<size_t>(chip.groups)),
      busy_(static_cast<size_t>(ports_.count())),
      busy_for_host_(static_cast<size_t>(ports_.count())),
      moved_(static_cast<size_t>(ports_.count())),
      capacity_(static_cast<size_t>(ports_.count())) {
  const DramModelKind& dram = find_dram_model(chip.transfer.dram_model);
  if (!dram.refresh) return;
  const DramRefresh refresh = dram.refresh(chip);
  refresh_interval_ = refresh.interval_cycles;
  refresh_ = refresh.cycles;
}

namespace {

/// Copies have DRAMs of their own.
struct StandardService {
  struct Dram {
    explicit Dram(const Chip& chip)
        : port(chip), model(find_dram_model(chip.transfer.dram_model).run(chip)) {}
    Dram(const Dram& other) : port(other.port), model(other.model->clone()) {}
    Dram(Dram&&) = default;
    DramPort port;
    std::unique_ptr<DramModel> model;
  };
  explicit StandardService(const Chip& c) : chip(c) {
    for (int g = 0; g < chip.groups; ++g) drams.emplace_back(chip);
  }
  double operator()(const TransferChunk& chunk) {
    const TransferPart& part = *chunk.part;
    if (part.port != TransferPort::kDram) return port_cycles(chunk.lw, transfer_rate(part.port, chip));
    Dram& dram = drams[static_cast<size_t>(part.index)];
    return dram.port.occupy(chunk, [&](const DramRequest& request) { return dram.model->serve(request); });
  }
  Chip chip;
  std::vector<Dram> drams;
};

}  // namespace

double port_cycles(int64_t lw, double lw_per_cycle) {
  constexpr auto kTicks = static_cast<double>(kTicksPerCycle);
  return std::round(static_cast<double>(lw) / lw_per_cycle * kTicks) / kTicks;
}

TransferTimeline::Service TransferTimeline::standard_service(const Chip& chip) {
  return StandardService(chip);
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
      if (active.record.request.of_host) busy_for_host_[static_cast<size_t>(demand.port)] += demand.cycles;
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
