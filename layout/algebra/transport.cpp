#include "layout/algebra/transport.h"

#include <fmt/format.h>

#include <numeric>

#include "isa/arithmetic.h"
#include "isa/error.h"
#include "isa/move_places.h"

namespace kodama::layout {
namespace {

/// Smallest n with n * unit divisible by `whole`.
int64_t multiples_for(int64_t unit, int64_t whole) {
  return whole / std::gcd(unit, whole);
}

}  // namespace

Transport::Transport(const isa::Chip& chip, L2bMode l2b, L1bMode l1b, MabMode mab)
    : l2b_(l2b),
      l1b_(l1b),
      mab_(mab),
      groups_(chip.groups),
      l2b_per_group_(chip.l2b_per_group),
      l1b_count_(chip.l1b_per_l2b),
      mab_count_(chip.mab_per_l1b) {
  switch (mab) {
    case MabMode::kDistribute:
      fan_in_ = int64_t{isa::kPePerMab} * mab_count_;
      break;
    case MabMode::kBroadcastMab:
      fan_in_ = isa::kPePerMab;
      break;
    case MabMode::kBroadcastPe:
      fan_in_ = 1;
      break;
  }
  isa::check_internal(l1b != L1bMode::kParity || mab == MabMode::kDistribute, "transport",
                      "L1Bs by parity where MABs broadcast");
  const int64_t l2bm_step = l1b_ == L1bMode::kDistribute ? isa::kL2bmdPerL1bLw : isa::kL2bmBlockLw;
  granule_ = isa::kCyclesPerStep;  // one L1BM -> PE step
  granule_ = std::lcm(granule_, multiples_for(fan_in_, l2bm_step));
  granule_ = std::lcm(granule_,
                      multiples_for(l2bm_lw_per_number(), std::lcm(isa::kMvUnitLw, run_lw() * dealt_over())));
}

int64_t Transport::run_lw() const {
  if (l2b_ != L2bMode::kExchanged) return isa::kSpreadUnit;
  // What a step takes from L2BM is in one place.
  const int64_t step =
      l1b_ == L1bMode::kDistribute ? isa::kCyclesPerStep * isa::kL2bmdRunLw * l1b_count_ : isa::kL2bmBlockLw;
  return std::lcm(step, isa::kMvUnitLw);
}

int Transport::share_place(int group, int64_t l2b_in_group) const {
  if (l2b_in_group % 2 == 0) return group;
  int place = 0;
  for (int bit = 1; bit < groups_; bit *= 2) place = 2 * place + ((group & bit) != 0 ? 1 : 0);
  return place;
}

int64_t Transport::l2bm_place(int64_t at, int64_t lw) const {
  if (l2b_ != L2bMode::kExchanged) return at;
  const int64_t run = at / run_lw();
  return run % groups_ * (lw / groups_) + run / groups_ * run_lw() + at % run_lw();
}

int64_t Transport::part_lw(int64_t numbers) const {
  isa::check_internal(numbers >= 0, "transport", "a stream of {} numbers", numbers);
  // Whoever makes a part moves whole units.
  return isa::round_up(isa::round_up(numbers, granule_) * l2bm_lw_per_number() / dealt_over(),
                       isa::kMvUnitLw);
}

int64_t Transport::numbers_over(int64_t lw) const {
  return isa::round_up(isa::ceil_div(lw * dealt_over(), l2bm_lw_per_number()), granule_);
}

int Transport::parts_per_group() const {
  return l2b_ == L2bMode::kDistribute || l2b_ == L2bMode::kExchanged ? l2b_per_group_ : 1;
}

int Transport::groups_used() const {
  return l2b_ == L2bMode::kBroadcast ? 1 : groups_;
}

Transport::DramPlace Transport::dram_place(const Coordinates& place, int64_t stream_numbers) const {
  const int64_t l2b = place[Level::kL2b];
  const int64_t l1b = place[Level::kL1b];
  const int64_t mab = place[Level::kMab];
  const int64_t pe = place[Level::kPe];
  const int64_t number = place[Level::kAddress];
  isa::check_internal(l2b >= 0 && l2b < int64_t{groups_} * l2b_per_group_ && l1b >= 0 && l1b < l1b_count_ &&
                          mab >= 0 && mab < mab_count_ && pe >= 0 && pe < isa::kPePerMab,
                      "transport", "place L2B {} L1B {} MAB {} PE {} is not on the chip", l2b, l1b, mab, pe);
  isa::check_internal(number >= 0 && number < stream_numbers, "transport", "number {} of a stream of {}",
                      number, stream_numbers);
  int64_t rank = 0;
  if (mab_ == MabMode::kDistribute) rank = isa::kPePerMab * mab + pe;
  if (mab_ == MabMode::kBroadcastMab) rank = pe;
  const int64_t in_l1bm = number * fan_in_ + rank;
  int64_t in_l2bm = in_l1bm;
  if (l1b_ == L1bMode::kDistribute) {
    in_l2bm = isa::kL2bmdRunLw * l1b_count_ * (in_l1bm / isa::kL2bmdRunLw) + isa::kL2bmdRunLw * l1b +
              in_l1bm % isa::kL2bmdRunLw;
  }
  if (l1b_ == L1bMode::kParity) {
    in_l2bm = 2 * (in_l1bm - in_l1bm % isa::kL2bmBlockLw) + isa::kL2bmBlockLw * (l1b % 2) +
              in_l1bm % isa::kL2bmBlockLw;
  }
  DramPlace result;
  result.address = in_l2bm;
  if (dealt_over() > 1) {
    const int64_t run = in_l2bm / run_lw();
    result.group = static_cast<int>(run % groups_);
    if (l2b_ == L2bMode::kExchanged) result.group = share_place(result.group, l2b % l2b_per_group_);
    result.address = run / groups_ * run_lw() + in_l2bm % run_lw();
  } else if (l2b_ != L2bMode::kBroadcast) {
    result.group = static_cast<int>(l2b / l2b_per_group_);
  }
  if (parts_per_group() > 1) result.address += l2b % l2b_per_group_ * part_lw(stream_numbers);
  return result;
}

std::string Transport::to_string() const {
  constexpr std::string_view kL1bNames[] = {"distribute", "broadcast", "parity"};
  constexpr std::string_view kMabNames[] = {"MAB distribute", "MAB broadcast", "PE broadcast"};
  return fmt::format("L2B {}, L1B {}, {}", kL2bModeNames[static_cast<size_t>(l2b_)],
                     kL1bNames[static_cast<int>(l1b_)], kMabNames[static_cast<int>(mab_)]);
}

}  // namespace kodama::layout
