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

void gather(const RowShape& shape, const uint32_t* memory, const LaneAddresses& addresses, uint32_t* out) {
  const D32 d;
  const int words = shape.words();
  const V32 mask = hn::Set(d, addresses.mask & ~static_cast<uint32_t>(addresses.width - 1));
  const V32 further = hn::Set(d, static_cast<uint32_t>(addresses.width));
  const V32 lanes = hn::Iota(d, 0);
  for (int i = 0; i < words; i += static_cast<int>(hn::Lanes(d))) {
    V32 address = hn::Set(d, static_cast<uint32_t>(addresses.base));
    if (addresses.bar != nullptr) address = hn::Add(address, hn::LoadU(d, addresses.bar + i));
    if (addresses.t != nullptr)
      address = hn::Add(address, hn::And(hn::LoadU(d, addresses.t + i), hn::Set(d, 0xfff)));
    const V32 lane = hn::Add(lanes, hn::Set(d, static_cast<uint32_t>(i)));
    const auto goes_further = hn::Lt(lane, hn::Set(d, static_cast<uint32_t>(addresses.further_before)));
    address = hn::Add(address, hn::IfThenElseZero(goes_further, further));
    const V32 row = hn::Mul(hn::And(address, mask), hn::Set(d, static_cast<uint32_t>(words)));
    // Lanes that go to one address, as they do for counters, read a piece of a row. Else pairs of lanes are
    // loaded one by one: few hosts' own instruction for this is faster.
    const auto same = hn::Eq(row, hn::Set(d, hn::GetLane(row)));
    HWY_ALIGN uint32_t indices[kRowGranule];
    hn::Store(hn::Add(row, lane), d, indices);
    if (hn::AllTrue(d, same)) {
      for (int w = 0; w < addresses.width; ++w)
        hn::StoreU(hn::LoadU(d, memory + indices[0] + w * words), d, out + w * words + i);
      continue;
    }
    const hn::RebindToSigned<D32> di;
    const auto index = hn::BitCast(di, hn::Add(row, lane));
    for (int w = 0; w < addresses.width; ++w)
      hn::StoreU(hn::GatherIndex(d, memory + w * words, index), d, out + w * words + i);
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
