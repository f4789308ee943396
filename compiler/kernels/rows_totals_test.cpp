#include "compiler/kernels/rows_totals.h"

#include <gtest/gtest.h>

#include "compiler/kernels/rows.h"

namespace kodama::compiler {
namespace {

/// The example of rows_totals.h: rows in pairs, of 2,048 LW each.
TEST(RowsTotals, SumsGoToWhereTheResultsWillBe) {
  const isa::Chip chip = isa::find_chip("mncore2");
  const auto picture = picture_of(0, {1, 256, 14, 14}, 1);
  ASSERT_TRUE(picture);
  const RowsTotals totals(*picture, 0, chip);
  EXPECT_TRUE(totals.fits());
  EXPECT_EQ(totals.image().rows(), 2);
  EXPECT_EQ(totals.image().row_lw(), 2048);
  const SumL2bs sum = totals.sum(3, 0, 3, 4, 512);
  EXPECT_EQ(sum.stream, 3);
  // Row 3 is the second of L2B 1, rows 4 and 5 are those of L2B 2, row 6 the first of L2B 3.
  ASSERT_EQ(sum.transfers.size(), 3U);
  const int64_t part = 2 * 2048;
  const auto expect = [&](size_t k, int group, int64_t dram, int64_t l2bm, int64_t count) {
    const RowsTransfer& transfer = sum.transfers[k];
    EXPECT_TRUE(transfer.to_all);
    EXPECT_EQ(transfer.group, group);
    EXPECT_EQ(transfer.dram, dram);
    EXPECT_EQ(transfer.l2bm, l2bm);
    EXPECT_EQ(transfer.count, count);
  };
  expect(0, 0, part + 2048, 512, 2048);
  expect(1, 1, 0, 512 + 2048, 2 * 2048);
  expect(2, 1, part, 512 + 3 * 2048, 2048);
  // Rows that nobody has go nowhere.
  EXPECT_EQ(totals.sum(3, 0, 13, 4, 0).transfers.size(), 1U);
  EXPECT_TRUE(totals.sum(3, 0, 14, 4, 0).transfers.empty());
}

TEST(RowsTotals, L1bsHaveChunksOrRows) {
  const isa::Chip chip = isa::find_chip("mncore2");
  // Eight chunks of two rows each are a chunk for every L1B; of one chunk, L1Bs have rows.
  EXPECT_EQ(RowsTotals(*picture_of(0, {1, 256, 14, 14}, 1), 0, chip).chunks(), 1);
  EXPECT_EQ(RowsTotals(*picture_of(0, {1, 256, 14, 14}, 1), 0, chip).input_lw(), 2 * 16);
  EXPECT_EQ(RowsTotals(*picture_of(0, {1, 32, 64, 16}, 1), 0, chip).chunks(), 1);
  EXPECT_EQ(RowsTotals(*picture_of(0, {1, 32, 64, 16}, 1), 0, chip).input_lw(), 16);
  // L2BM has no room for that many rows.
  EXPECT_FALSE(RowsTotals(*picture_of(0, {1, 1024, 112, 112}, 1), 0, chip).fits());
}

}  // namespace
}  // namespace kodama::compiler
