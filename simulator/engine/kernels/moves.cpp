#include <bit>
#include <cstring>

#include "simulator/engine/kernels/kernels.h"
#include "simulator/engine/kernels/targets.h"

/// Long words between an L1BM and rows: there the PEs of a MAB are neighbours, here the MABs of a PE number.

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "simulator/engine/kernels/moves.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "simulator/engine/kernels/lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace kodama::simulator {
namespace HWY_NAMESPACE {
namespace {

using VU64 = hn::Vec<DU64>;

void deal_longs(const RowShape& shape, const uint64_t* from, uint32_t* upper, uint32_t* lower) {
  const DU64 d;
  const DU32h d32;
  const int stride = shape.stride;
  for (int m = 0; m < stride; m += static_cast<int>(hn::Lanes(d))) {
    VU64 pe[4];
    hn::LoadInterleaved4(d, from + 4 * m, pe[0], pe[1], pe[2], pe[3]);
    for (int k = 0; k < 4; ++k) {
      hn::StoreU(hn::TruncateTo(d32, hn::ShiftRight<32>(pe[k])), d32, upper + k * stride + m);
      hn::StoreU(hn::TruncateTo(d32, pe[k]), d32, lower + k * stride + m);
    }
  }
}

void collect_longs(const RowShape& shape, const uint32_t* upper, const uint32_t* lower, uint64_t* to) {
  const DU64 d;
  const DU32h d32;
  const int stride = shape.stride;
  for (int m = 0; m < stride; m += static_cast<int>(hn::Lanes(d))) {
    VU64 pe[4];
    for (int k = 0; k < 4; ++k) {
      const int at = k * stride + m;
      const VU64 high = hn::PromoteTo(d, hn::LoadU(d32, upper + at));
      pe[k] = hn::Or(hn::ShiftLeft<32>(high), hn::PromoteTo(d, hn::LoadU(d32, lower + at)));
    }
    hn::StoreInterleaved4(pe[0], pe[1], pe[2], pe[3], d, to + 4 * m);
  }
}

void spread_longs(const RowShape& shape, const uint64_t* from, int64_t pe_step, int64_t block_step, int count,
                  uint32_t* upper, uint32_t* lower) {
  const hn::CappedTag<uint32_t, 4> d;
  const auto lanes = static_cast<int>(hn::Lanes(d));
  const int stride = shape.stride;
  for (int pe = 0; pe < 4; ++pe, from += pe_step, upper += stride, lower += stride) {
    const uint64_t* block = from;
    for (int begin = 0; begin < stride; begin += count, block += block_step) {
      const auto high = hn::Set(d, static_cast<uint32_t>(*block >> 32));
      const auto low = hn::Set(d, static_cast<uint32_t>(*block));
      for (int m = begin; m < begin + count; m += lanes) {
        hn::StoreU(high, d, upper + m);
        hn::StoreU(low, d, lower + m);
      }
    }
  }
}

/// Of two lanes, from their places, `kWords` words `apart` each.
template <int kWords>
HWY_INLINE void copy_pair(const uint32_t* from, const uint32_t* places, ptrdiff_t apart, uint32_t* to) {
  uint64_t place = 0;
  std::memcpy(&place, places, sizeof place);
  const uint32_t* first = from + static_cast<uint32_t>(place);
  const uint32_t* second = from + (place >> 32);
  for (int w = 0; w < kWords; ++w) {
    const uint64_t pair = first[w * apart] | uint64_t{second[w * apart]} << 32;
    std::memcpy(to + w * apart, &pair, sizeof pair);
  }
}

void gather(const RowShape& shape, const uint32_t* memory, const LaneAddresses& addresses, uint32_t* out) {
  const D32 d;
  const auto vector = static_cast<int>(hn::Lanes(d));
  const int words = shape.words();  // a power of two
  const int row_bits = std::countr_zero(static_cast<unsigned>(words));
  const V32 mask = hn::Set(d, addresses.mask & ~static_cast<uint32_t>(addresses.width - 1));
  const V32 further = hn::Set(d, static_cast<uint32_t>(addresses.width));
  const V32 base = hn::Set(d, static_cast<uint32_t>(addresses.base));
  const V32 t_bits = hn::Set(d, 0xfff);
  HWY_ALIGN uint32_t places[kMostRowWords];
  bool together[kMostRowWords];  // of a vector: all go to one address
  V32 lane = hn::Iota(d, 0);
  for (int i = 0; i < words; i += vector) {
    V32 address = base;
    if (addresses.bar != nullptr) address = hn::Add(address, hn::LoadU(d, addresses.bar + i));
    if (addresses.t != nullptr) address = hn::Add(address, hn::And(hn::LoadU(d, addresses.t + i), t_bits));
    if (i < addresses.further_before) {
      const auto goes_further = hn::Lt(lane, hn::Set(d, static_cast<uint32_t>(addresses.further_before)));
      address = hn::Add(address, hn::IfThenElseZero(goes_further, further));
    }
    const V32 row = hn::ShiftLeftSame(hn::And(address, mask), row_bits);
    together[i / vector] = hn::AllTrue(d, hn::Eq(row, hn::Set(d, hn::GetLane(row))));
    hn::Store(hn::Add(row, lane), d, places + i);
    lane = hn::Add(lane, hn::Set(d, static_cast<uint32_t>(vector)));
  }
  // Lanes that go to one address, as they do for counters, read a piece of a row. Else lanes are loaded one
  // by one, in pairs: few hosts' own instruction for this is faster.
  for (int i = 0; i < words; i += vector) {
    if (together[i / vector]) {
      for (int w = 0; w < addresses.width; ++w)
        hn::StoreU(hn::LoadU(d, memory + w * words + places[i]), d, out + w * words + i);
    } else if (addresses.width == 2) {
      for (int k = i; k < i + vector; k += 2) copy_pair<2>(memory, places + k, words, out + k);
    } else {
      for (int w = 0; w < addresses.width; ++w) {
        for (int k = i; k < i + vector; k += 2)
          copy_pair<1>(memory + w * words, places + k, words, out + w * words + k);
      }
    }
  }
}

}  // namespace

void add_move_kernels(KernelTable& table) {
  table.deal_longs = &deal_longs;
  table.collect_longs = &collect_longs;
  table.gather = &gather;
  table.spread_longs = &spread_longs;
}

// NOLINTNEXTLINE(google-readability-namespace-comments)
}  // namespace HWY_NAMESPACE
}  // namespace kodama::simulator
HWY_AFTER_NAMESPACE();
