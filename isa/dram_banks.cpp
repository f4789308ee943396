#include "isa/dram_banks.h"

#include <algorithm>
#include <cmath>

namespace kodama::isa {

BanksDram::BanksDram(const Chip& chip)
    : part_(chip.dram),
      ns_per_tick_(1e9 / chip.clock_hz / static_cast<double>(kTicksPerCycle)),
      channels_(static_cast<size_t>(part_.channels)),
      bursts_(static_cast<size_t>(part_.channels)) {
  for (Channel& channel : channels_) {
    channel.banks.resize(static_cast<size_t>(part_.bank_groups * part_.banks_per_group));
    channel.refresh_at = part_.trefi_ns;
  }
}

void BanksDram::deal_out(const DramRequest& request) {
  for (std::vector<Burst>& bursts : bursts_) bursts.clear();
  const int64_t bursts_per_block = part_.interleave_bytes / part_.burst_bytes;
  const int64_t blocks_per_row = part_.row_bytes / part_.interleave_bytes;
  for (const DramPiece& piece : request.pieces) {
    const int64_t last = (piece.address + piece.bytes - 1) / part_.burst_bytes;
    for (int64_t burst = piece.address / part_.burst_bytes; burst <= last; ++burst) {
      int64_t rest = burst / bursts_per_block;
      const int64_t channel = rest % part_.channels;
      rest /= part_.channels;
      const int64_t group = rest % part_.bank_groups;
      rest /= part_.bank_groups * blocks_per_row;
      const int64_t bank = group * part_.banks_per_group + rest % part_.banks_per_group;
      bursts_[static_cast<size_t>(channel)].push_back(
          {static_cast<int32_t>(bank), rest / part_.banks_per_group});
    }
  }
}

int64_t BanksDram::serve(const DramRequest& request) {
  if (direction_ >= 0 && direction_ != static_cast<int>(request.write)) ++counts_.turnarounds;
  direction_ = static_cast<int>(request.write);
  deal_out(request);
  const double sent = static_cast<double>(request.time) * ns_per_tick_;
  double done = sent;
  for (size_t c = 0; c < channels_.size(); ++c) {
    if (!bursts_[c].empty())
      done = std::max(done, serve_channel(channels_[c], bursts_[c], request.write, sent));
  }
  return request.time + static_cast<int64_t>(std::llround((done - sent) / ns_per_tick_));
}

double BanksDram::serve_channel(Channel& channel, std::vector<Burst>& bursts, bool write, double sent) {
  const auto depth = static_cast<size_t>(part_.queue_bursts);
  std::vector<Burst> queue(bursts.begin(),
                           bursts.begin() + static_cast<int64_t>(std::min(depth, bursts.size())));
  size_t next = queue.size();
  double done = sent;
  while (!queue.empty()) {
    const Choice choice = first_command(channel, queue, write, sent);
    if (choice.time >= channel.refresh_at) {
      refresh(channel, choice.time);
      continue;
    }
    issue(channel, queue[choice.burst], choice.command, write, choice.time);
    if (choice.command != Command::kColumn) continue;
    done = std::max(done, choice.time + (write ? part_.twl_ns : part_.trl_ns) + part_.burst_ns);
    queue.erase(queue.begin() + static_cast<int64_t>(choice.burst));
    if (next < bursts.size()) queue.push_back(bursts[next++]);
  }
  return done;
}

BanksDram::Choice BanksDram::first_command(const Channel& channel, const std::vector<Burst>& queue,
                                           bool write, double sent) const {
  const double ahead = sent - part_.trp_ns - part_.trcdrd_ns - part_.trl_ns;
  const double column_floor = std::max({sent - (write ? part_.twl_ns : part_.trl_ns), channel.column_from,
                                        write ? channel.write_from : channel.read_from});
  const double activate_floor =
      std::max({ahead, channel.activates[(channel.oldest_activate + 3) % 4] + part_.trrd_ns,
                channel.activates[channel.oldest_activate] + part_.tfaw_ns});
  Choice best{.time = 1e300, .command = Command::kPrecharge, .burst = 0};
  const auto consider = [&](double time, Command command, size_t burst) {
    // Bursts are looked at from the oldest on.
    if (time < best.time || (time == best.time && command < best.command)) best = {time, command, burst};
  };
  uint64_t seen_hit = 0;  // banks of which a burst of the open row has been looked at
  uint64_t seen_miss = 0;
  uint64_t wanted = 0;  // banks whose open row is wanted by the queue
  for (const Burst& burst : queue) {
    if (channel.banks[static_cast<size_t>(burst.bank)].row == burst.row) wanted |= uint64_t{1} << burst.bank;
  }
  for (size_t k = 0; k < queue.size(); ++k) {
    const Burst& burst = queue[k];
    const uint64_t bit = uint64_t{1} << burst.bank;
    const Bank& bank = channel.banks[static_cast<size_t>(burst.bank)];
    if (bank.row == burst.row) {
      if ((seen_hit & bit) != 0) continue;
      seen_hit |= bit;
      const Bank& group = channel.banks[static_cast<size_t>(burst.bank - burst.bank % part_.banks_per_group)];
      consider(std::max({column_floor, group.group_column_from, write ? bank.write_from : bank.column_from}),
               Command::kColumn, k);
    } else if ((wanted & bit) == 0 && (seen_miss & bit) == 0) {
      seen_miss |= bit;
      if (bank.row < 0) {
        consider(std::max(activate_floor, bank.activate_from), Command::kActivate, k);
      } else {
        consider(std::max(ahead, bank.precharge_from), Command::kPrecharge, k);
      }
    }
  }
  return best;
}

void BanksDram::refresh(Channel& channel, double time) const {
  // Of those in a long pause the last one alone shows.
  channel.refresh_at += std::floor((time - channel.refresh_at) / part_.trefi_ns) * part_.trefi_ns;
  double begin = channel.refresh_at;
  for (const Bank& bank : channel.banks)
    begin = std::max(begin, bank.row < 0 ? bank.activate_from : bank.precharge_from + part_.trp_ns);
  for (Bank& bank : channel.banks) {
    bank.row = -1;
    bank.activate_from = begin + part_.trfc_ns;
  }
  channel.refresh_at += part_.trefi_ns;
}

void BanksDram::issue(Channel& channel, const Burst& burst, Command command, bool write, double time) {
  Bank& bank = channel.banks[static_cast<size_t>(burst.bank)];
  switch (command) {
    case Command::kPrecharge:
      bank.row = -1;
      bank.activate_from = std::max(bank.activate_from, time + part_.trp_ns);
      return;
    case Command::kActivate:
      ++counts_.row_misses;
      --counts_.row_hits;  // the burst that it is for will count itself
      bank.row = burst.row;
      bank.column_from = time + part_.trcdrd_ns;
      bank.write_from = time + part_.trcdwr_ns;
      bank.precharge_from = time + part_.tras_ns;
      bank.activate_from = time + part_.tras_ns + part_.trp_ns;
      channel.activates[channel.oldest_activate] = time;
      channel.oldest_activate = (channel.oldest_activate + 1) % 4;
      return;
    case Command::kColumn:
      break;
  }
  ++counts_.row_hits;
  const double data_end = time + (write ? part_.twl_ns : part_.trl_ns) + part_.burst_ns;
  channel.column_from = time + part_.burst_ns;
  channel.banks[static_cast<size_t>(burst.bank - burst.bank % part_.banks_per_group)].group_column_from =
      time + part_.tccdl_ns;
  if (write) {
    channel.read_from = data_end + part_.twtr_ns;
    bank.precharge_from = std::max(bank.precharge_from, data_end + part_.twr_ns);
  } else {
    channel.write_from = data_end - part_.twl_ns;
    bank.precharge_from = std::max(bank.precharge_from, time + part_.trtp_ns);
  }
}

}  // namespace kodama::isa
