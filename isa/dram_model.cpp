#include "isa/dram_model.h"

#include <algorithm>
#include <cmath>

#include "isa/dram_banks.h"
#include "isa/error.h"

namespace kodama::isa {
namespace {

double cycles_of_ns(double ns, const Chip& chip) {
  return ns * 1e-9 * chip.clock_hz;
}

std::vector<DramModelKind>& kinds() {
  static std::vector<DramModelKind> all = {
      {kRowsDram, "one open row per bank, data in order, one time to open a row (keys transfer.dram_*)",
       [](const Chip& chip) { return std::make_unique<RowsDram>(chip); },
       [](const Chip& chip) {
         return DramRefresh{cycles_of_ns(chip.transfer.dram_refresh_interval_ns, chip),
                            cycles_of_ns(chip.transfer.dram_refresh_ns, chip)};
       },
       [](const Chip& chip) {
         return chip.transfer.dram_row_bytes * chip.transfer.dram_banks * chip.transfer.dram_channels;
       }},
      {kBanksDram,
       "the commands of a part: bank groups, open pages, FR-FCFS (section dram of the chip file)",
       [](const Chip& chip) { return std::make_unique<BanksDram>(chip); },
       {},
       [](const Chip& chip) {
         const DramPart& part = chip.dram;
         return part.row_bytes * part.bank_groups * part.banks_per_group * part.channels;
       }},
  };
  return all;
}

}  // namespace

int64_t ticks_after(double cycles) {
  return static_cast<int64_t>(std::floor(cycles * static_cast<double>(kTicksPerCycle))) + 1;
}

const std::vector<DramModelKind>& dram_models() {
  return kinds();
}

const DramModelKind& find_dram_model(const std::string& name) {
  const auto found = std::ranges::find(kinds(), name, &DramModelKind::name);
  check_internal(found != kinds().end(), "DRAM models", "'{}' is no model; chips are checked", name);
  return *found;
}

void add_dram_model(DramModelKind kind) {
  check_internal(std::ranges::find(kinds(), kind.name, &DramModelKind::name) == kinds().end(), "DRAM models",
                 "a second '{}'", kind.name);
  kinds().push_back(std::move(kind));
}

// ---- requests --------------------------------------------------------------------------------------------

DramPort::DramPort(const Chip& chip) : dram_bytes_(chip.memory.dram_lw * 8), row_stride_(0) {
  const DramModelKind& kind = find_dram_model(chip.transfer.dram_model);
  row_stride_ = (kind.row_stride ? kind : kinds().front()).row_stride(chip);
}

void DramPort::make_request(const TransferChunk& chunk) {
  const TransferPart& part = *chunk.part;
  request_.time = std::max(free_, ticks_after(chunk.time));
  request_.write = part.write;
  request_.pieces.clear();
  if (!part.indirect) {
    request_.pieces.push_back({(part.address + chunk.offset) * 8, chunk.lw * 8});
    return;
  }
  for (int64_t done = 0; done < chunk.lw;) {
    const int64_t at = chunk.offset + done;
    const int64_t block = at / chunk.block_lw;
    const int64_t lw = std::min(chunk.lw - done, chunk.block_lw - at % chunk.block_lw);
    const bool known = chunk.blocks != nullptr && block < static_cast<int64_t>(chunk.blocks->size());
    const int64_t address =
        known ? (*chunk.blocks)[static_cast<size_t>(block)] * 8 : (block + 1) * row_stride_ % dram_bytes_;
    request_.pieces.push_back({address + at % chunk.block_lw * 8, lw * 8});
    done += lw;
  }
}

// ---- rows ------------------------------------------------------------------------------------------------

RowsDram::RowsDram(const Chip& chip)
    : channel_bytes_per_cycle_(chip.transfer.dram_lw_per_cycle * 8 /
                               static_cast<double>(chip.transfer.dram_channels)),
      row_bytes_(chip.transfer.dram_row_bytes),
      banks_per_channel_(chip.transfer.dram_banks),
      row_miss_(cycles_of_ns(chip.transfer.dram_row_miss_ns, chip)),
      turnaround_(cycles_of_ns(chip.transfer.dram_turnaround_ns, chip)),
      refresh_interval_(cycles_of_ns(chip.transfer.dram_refresh_interval_ns, chip)),
      refresh_(cycles_of_ns(chip.transfer.dram_refresh_ns, chip)),
      banks_(static_cast<size_t>(chip.transfer.dram_banks * chip.transfer.dram_channels)),
      clocks_(static_cast<size_t>(chip.transfer.dram_channels)) {}

void RowsDram::refresh_before(double time) {
  if (refresh_ <= 0) return;
  const auto refreshes = static_cast<int64_t>(std::floor(time / refresh_interval_));
  if (refreshes <= refreshes_) return;
  refreshes_ = refreshes;
  const double end = static_cast<double>(refreshes) * refresh_interval_ + refresh_;
  for (Bank& bank : banks_) bank = {-1, end};
  busy_until_ = std::max(busy_until_, end);
}

int64_t RowsDram::serve(const DramRequest& request) {
  const auto sent = static_cast<double>(request.time) / static_cast<double>(kTicksPerCycle);
  refresh_before(sent);
  const double start = std::max(sent, busy_until_);
  double begin = start;
  if (direction_ >= 0 && direction_ != static_cast<int>(request.write)) {
    begin += turnaround_;
    ++counts_.turnarounds;
  }
  direction_ = static_cast<int>(request.write);
  const auto channels = static_cast<int64_t>(clocks_.size());
  for (const DramPiece& whole : request.pieces) {
    std::fill(clocks_.begin(), clocks_.end(), begin);
    int64_t address = whole.address;
    for (int64_t left = whole.bytes; left > 0;) {
      const int64_t bytes = std::min(left, row_bytes_ - address % row_bytes_);
      const int64_t row_number = address / row_bytes_;
      const int64_t channel = row_number % channels;
      const int64_t bank_number = row_number / channels % banks_per_channel_;
      const int64_t row = row_number / channels / banks_per_channel_;
      Bank& bank = banks_[static_cast<size_t>(channel * banks_per_channel_ + bank_number)];
      double& clock = clocks_[static_cast<size_t>(channel)];
      if (bank.row == row) {
        ++counts_.row_hits;
      } else {
        ++counts_.row_misses;
        bank.row = row;
        clock = std::max(clock, bank.end + row_miss_);
      }
      clock += static_cast<double>(bytes) / channel_bytes_per_cycle_;
      bank.end = clock;
      address += bytes;
      left -= bytes;
    }
    begin = *std::max_element(clocks_.begin(), clocks_.end());
  }
  busy_until_ = begin;
  // Refreshes are behind it in our time, but not in the answer: the timeline stops the interface for them.
  return request.time +
         static_cast<int64_t>(std::llround((begin - start) * static_cast<double>(kTicksPerCycle)));
}

}  // namespace kodama::isa
