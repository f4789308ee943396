#include "layout/algebra/transport.h"

#include <gtest/gtest.h>

#include <map>
#include <set>
#include <span>

namespace kodama::layout {
namespace {

isa::Chip make_chip(int groups, int l2b, int l1b, int mab) {
  isa::Chip chip;
  chip.groups = groups;
  chip.l2b_per_group = l2b;
  chip.l1b_per_l2b = l1b;
  chip.mab_per_l1b = mab;
  return chip;
}

std::vector<isa::Chip> chips() {
  return {make_chip(4, 2, 8, 16), make_chip(1, 1, 1, 1), make_chip(2, 2, 4, 8), make_chip(1, 2, 3, 5)};
}

template <typename Visit>
void for_each_transport(const isa::Chip& chip, Visit&& visit) {
  for (const L2bMode l2b : {L2bMode::kDistribute, L2bMode::kBroadcastInGroup, L2bMode::kBroadcast,
                            L2bMode::kBroadcastDealt, L2bMode::kExchanged}) {
    for (const L1bMode l1b : {L1bMode::kDistribute, L1bMode::kBroadcast}) {
      for (const MabMode mab : {MabMode::kDistribute, MabMode::kBroadcastMab, MabMode::kBroadcastPe}) {
        visit(Transport(chip, l2b, l1b, mab));
      }
    }
  }
}

template <typename Visit>
void for_each_pe(const isa::Chip& chip, Visit&& visit) {
  for (int64_t q = 0; q < chip.l2b_count(); ++q) {
    for (int64_t b = 0; b < chip.l1b_per_l2b; ++b) {
      for (int64_t m = 0; m < chip.mab_per_l1b; ++m) {
        for (int64_t p = 0; p < isa::kPePerMab; ++p) visit(Coordinates{{q, b, m, p, 0, 0}});
      }
    }
  }
}

TEST(Transport, GranulesOfTheStandardChip) {
  const isa::Chip chip = make_chip(4, 2, 8, 16);
  using T = Transport;
  EXPECT_EQ(T(chip, L2bMode::kDistribute, L1bMode::kDistribute, MabMode::kDistribute).granule(), 4);
  EXPECT_EQ(T(chip, L2bMode::kDistribute, L1bMode::kDistribute, MabMode::kBroadcastMab).granule(), 8);
  EXPECT_EQ(T(chip, L2bMode::kDistribute, L1bMode::kBroadcast, MabMode::kBroadcastMab).granule(), 16);
  EXPECT_EQ(T(chip, L2bMode::kBroadcast, L1bMode::kDistribute, MabMode::kBroadcastPe).granule(), 32);
  EXPECT_EQ(T(chip, L2bMode::kBroadcast, L1bMode::kBroadcast, MabMode::kBroadcastPe).granule(), 64);
  EXPECT_EQ(T(chip, L2bMode::kDistribute, L1bMode::kBroadcast, MabMode::kDistribute).to_string(),
            "L2B distribute, L1B broadcast, MAB distribute");
}

TEST(Transport, EveryLevelMovesWholeUnits) {
  for (const isa::Chip& chip : chips()) {
    for_each_transport(chip, [&](const Transport& transport) {
      SCOPED_TRACE(transport.to_string());
      const auto whole = [&](int64_t numbers) {
        const int64_t per_l1b = numbers * transport.l1bm_lw_per_number();
        return numbers % 4 == 0 && per_l1b % (transport.l1b_mode() == L1bMode::kDistribute ? 32 : 64) == 0 &&
               numbers * transport.l2bm_lw_per_number() % (transport.run_lw() * transport.dealt_over()) ==
                   0 &&
               numbers * transport.l2bm_lw_per_number() % 64 == 0;
      };
      for (int64_t numbers = 1; numbers <= transport.granule(); ++numbers) {
        EXPECT_EQ(whole(numbers), numbers == transport.granule());
      }
    });
  }
}

TEST(Transport, NumbersOverSoMuchOfDramAreTheFewest) {
  for (const isa::Chip& chip : chips()) {
    for_each_transport(chip, [&](const Transport& transport) {
      SCOPED_TRACE(transport.to_string());
      for (const int64_t lw : {1, 63, 64, 65, 1000}) {
        const int64_t numbers = transport.numbers_over(lw);
        EXPECT_EQ(numbers % transport.granule(), 0);
        EXPECT_LE(transport.part_offset(numbers), transport.part_lw(numbers));
        EXPECT_GE(transport.part_offset(numbers), lw);
        EXPECT_LT(transport.part_offset(numbers - transport.granule()), lw);
      }
      EXPECT_EQ(transport.numbers_over(0), 0);
    });
  }
}

TEST(Transport, PlacesAreInjectiveAndTilesContiguous) {
  for (const isa::Chip& chip : {make_chip(2, 2, 4, 8), make_chip(1, 2, 3, 5), make_chip(1, 1, 1, 1)}) {
    for_each_transport(chip, [&](const Transport& transport) {
      SCOPED_TRACE(transport.to_string());
      const int64_t granule = transport.granule();
      const int64_t numbers = 3 * granule - 1;
      // Owner: the coordinates on the levels that distribute.
      std::map<std::pair<int, int64_t>, Coordinates> owner;
      for_each_pe(chip, [&](Coordinates place) {
        Coordinates key = place;
        if (transport.l2b_mode() == L2bMode::kBroadcast || transport.l2b_mode() == L2bMode::kBroadcastDealt)
          key[Level::kL2b] = 0;
        if (transport.l2b_mode() == L2bMode::kExchanged) key[Level::kL2b] %= chip.l2b_per_group;
        if (transport.l2b_mode() == L2bMode::kBroadcastInGroup) key[Level::kL2b] /= chip.l2b_per_group;
        if (transport.l1b_mode() == L1bMode::kBroadcast) key[Level::kL1b] = 0;
        if (transport.mab_mode() != MabMode::kDistribute) key[Level::kMab] = 0;
        if (transport.mab_mode() == MabMode::kBroadcastPe) key[Level::kPe] = 0;
        for (int64_t number = 0; number < numbers; ++number) {
          place[Level::kAddress] = key[Level::kAddress] = number;
          const auto [group, address] = transport.dram_place(place, numbers);
          const auto [entry, is_new] = owner.emplace(std::pair(group, address), key);
          ASSERT_EQ(entry->second, key);
          ASSERT_LT(group, transport.groups_used());
          // Granule t of a part is the range [t, t + 1) * granule * LW per number.
          const int64_t part = transport.part_lw(numbers);
          ASSERT_LT(address, transport.parts_per_group() * part);
          ASSERT_EQ(address % part / (granule * transport.l2bm_lw_per_number() / transport.dealt_over()),
                    number / granule);
        }
      });
    });
  }
}

/// DRAM contents are (group, address) pairs, so that a delivered long word tells where it came from.
using Cell = std::pair<int, int64_t>;
using CellMemory = std::vector<Cell>;

TEST(Transport, TheTransferInstructionsDeliverEveryNumber) {
  for (const isa::Chip& chip : chips()) {
    for_each_transport(chip, [&](const Transport& transport) {
      SCOPED_TRACE(transport.to_string());
      const int64_t granule = transport.granule();
      const int64_t numbers = 2 * granule;
      const int64_t part = transport.part_lw(numbers);
      const int64_t per_l1b = numbers * transport.l1bm_lw_per_number();
      const int l1bs = chip.l1b_per_l2b;
      for (int q = 0; q < chip.l2b_count(); ++q) {
        // MV: mvp copies the L2B's part, mvb2 and mvb copy the group's only part; or shares are exchanged.
        CellMemory l2bm(part * transport.dealt_over());
        const int group = transport.l2b_mode() == L2bMode::kBroadcast ? 0 : q / chip.l2b_per_group;
        const int unit = q % chip.l2b_per_group;
        const int64_t base = transport.parts_per_group() > 1 ? unit * part : 0;
        for (int64_t i = 0; i < part; ++i) {
          if (transport.l2b_mode() == L2bMode::kExchanged) {
            for (int g = 0; g < chip.groups; ++g)
              l2bm.at(transport.share_place(g, unit) * part + i) = {g, base + i};
            continue;
          }
          if (transport.l2b_mode() != L2bMode::kBroadcastDealt) {
            l2bm[i] = {group, base + i};
            continue;
          }
          // mvb4: L2BM[16 G u + 16 g + i] = DRAM_g[16 u + i]
          for (int g = 0; g < chip.groups; ++g) l2bm[i / 16 * 16 * chip.groups + 16 * g + i % 16] = {g, i};
        }
        // What a step takes from an address on.
        const auto in_l2bm = [&](int64_t at) {
          return std::span(l2bm).subspan(transport.l2bm_place(at, std::ssize(l2bm)));
        };
        std::vector<CellMemory> l1bm(l1bs, CellMemory(per_l1b));
        if (transport.l1b_mode() == L1bMode::kDistribute) {  // l2bmd: B_b[y+8c+i] = C[x+8*L1Bs*c+8b+i]
          for (int64_t step = 0; 32 * step < per_l1b; ++step) {
            for (int c = 0; c < 4; ++c) {
              for (int b = 0; b < l1bs; ++b) {
                for (int i = 0; i < 8; ++i) {
                  l1bm[b].at(32 * step + 8 * c + i) = in_l2bm(32 * l1bs * step)[8 * l1bs * c + 8 * b + i];
                }
              }
            }
          }
        } else {  // l2bmb: B_b[y+i] = C[x+i], i < 64
          for (int64_t step = 0; 64 * step < per_l1b; ++step) {
            for (int b = 0; b < l1bs; ++b) {
              for (int i = 0; i < 64; ++i) l1bm[b].at(64 * step + i) = in_l2bm(64 * step)[i];
            }
          }
        }
        for (int b = 0; b < l1bs; ++b) {
          for (int m = 0; m < chip.mab_per_l1b; ++m) {
            for (int p = 0; p < 4; ++p) {
              for (int64_t step = 0; 4 * step < numbers; ++step) {
                for (int c = 0; c < 4; ++c) {
                  Cell got;
                  const int pes = 4 * chip.mab_per_l1b;
                  switch (transport.mab_mode()) {
                    case MabMode::kDistribute:  // l1bmd
                      got = l1bm[b].at(4 * pes * step + pes * c + 4 * m + p);
                      break;
                    case MabMode::kBroadcastMab:  // l1bmm
                      got = l1bm[b].at(16 * step + 4 * c + p);
                      break;
                    case MabMode::kBroadcastPe:  // l1bmp
                      got = l1bm[b].at(4 * step + c);
                      break;
                  }
                  const auto want = transport.dram_place(Coordinates{{q, b, m, p, 4 * step + c, 0}}, numbers);
                  ASSERT_EQ(got, Cell(want.group, want.address));
                }
              }
            }
          }
        }
      }
    });
  }
}

}  // namespace
}  // namespace kodama::layout
