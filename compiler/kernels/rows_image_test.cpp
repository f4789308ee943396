/// Where images of rows have what, and transfers between them.
#include <gtest/gtest.h>

#include <set>
#include <utility>
#include <vector>

#include "compiler/kernels/rows.h"
#include "isa/arithmetic.h"
#include "isa/chip.h"

namespace kodama::compiler {
namespace {

TEST(RowsImage, EntriesInsideRows) {
  // An image of tokens whose channels are heads and theirs is that of the heads.
  const isa::Chip chip = isa::find_chip("mncore2");
  const Picture tokens = *picture_of(0, {1, 197, 768}, 2);
  Picture::Tokens order{3, {1}, {0, 2}, true};
  const RowsImage heads(token_picture(0, {1, 12, 197, 64}, order), {}, chip);
  const RowsImage all(tokens, {true, false}, chip);
  EXPECT_EQ(heads.part_lw(), all.part_lw());
  EXPECT_EQ(heads.row_pitch(), all.row_lw());
  for (const int64_t head : {0, 2, 3, 11}) {
    for (const int64_t row : {0, 24, 25, 49}) {
      EXPECT_EQ(heads.l2b_of(0, head, row), all.l2b_of(head / 3, 0, row));
      EXPECT_EQ(heads.offset(head, row), all.offset(0, row) + head % 3 * heads.row_lw());
    }
  }
  // Who has no entries inside has the rows of one after those of the other.
  order.inside = false;
  const RowsImage apart(token_picture(0, {1, 12, 197, 64}, order), {}, chip);
  EXPECT_EQ(apart.offset(1, 1), 26 * apart.row_lw());
}

TEST(RowsImage, ImagesDealtToGroups) {
  // Heads differ from group to group, images of the batch inside them, as in all channels of their tokens.
  const isa::Chip chip = isa::find_chip("mncore2");
  const RowsImage tokens(*picture_of(0, {2, 64, 256}, 2), {true, false}, chip);
  Picture::Tokens order{3, {0, 1}, {2}, true, true};
  const RowsImage heads(token_picture(0, {2, 8, 64, 32}, order), {}, chip);
  EXPECT_EQ(heads.part_lw(), tokens.part_lw());
  for (int64_t image = 0; image < 2; ++image) {
    for (int64_t head = 0; head < 8; ++head) {
      const int l2b = heads.l2b_of(0, image * 8 + head, 5);
      EXPECT_EQ(l2b, tokens.l2b_of(head / 2, 0, image * 16 + 5));
      EXPECT_EQ(heads.offset(image * 8 + head, 5),
                tokens.offset(0, image * 16 + 5) + head % 2 * heads.row_lw());
      EXPECT_EQ(heads.first_of(l2b), std::pair(image * 8 + head / 2 * 2, int64_t{0}));
    }
  }
  // Rows of one image after the other, and of each other's half.
  order = {3, {}, {0, 1, 2}, false, true};
  const RowsImage rows(token_picture(0, {2, 8, 64, 64}, order), {}, chip);
  EXPECT_EQ(rows.l2b_of(0, 0, 32), chip.l2b_per_group);
  EXPECT_EQ(rows.l2b_of(0, 0, 128), 1);
  EXPECT_EQ(rows.first_of(1), std::pair(int64_t{0}, int64_t{128}));
}

/// Windows of one row with a stride: the rows between come nowhere.
TEST(RowsImage, RowsPassedOverStay) {
  const isa::Chip chip = isa::find_chip("mncore2");
  for (const int64_t rows : {27, 28}) {
    const RowsImage in(*picture_of(0, {1, 64, rows, 28}, 1), {}, chip);
    const RowsImage out(*picture_of(1, {1, 64, 14, 14}, 1), {}, chip);
    RowsWindow window;
    window.stride = {1, 2};
    window.row_step = 2;
    RowsPass pass;
    pass.pass_rows = pass.rows = pass.region_rows = out.rows();
    RowsTransfer zeros;
    zeros.stream = 1;
    EXPECT_EQ(rows_inside(in, out, window, pass, chip), std::pair(int64_t{0}, int64_t{2}));
    const int64_t part = isa::round_up(in.part_lw(), isa::kMvUnitLw);
    std::set<std::pair<int, int64_t>> made;
    for (const RowsTransfer& transfer : window_transfers(in, out, window, pass, zeros, chip)) {
      ASSERT_EQ(transfer.count, in.row_lw());
      EXPECT_EQ(transfer.stream, -1);
      const int64_t number = transfer.l2bm / in.row_lw();
      for (int l2b = 0; l2b < chip.l2b_count(); ++l2b) {
        if (transfer.l2b >= 0 && transfer.l2b != l2b) continue;
        // The last L2B has nothing to do.
        if (out.first_of(l2b).second >= 14) continue;
        const int64_t row = 2 * (out.first_of(l2b).second + number);
        const int from = transfer.group < 0
                             ? l2b
                             : transfer.group * chip.l2b_per_group + static_cast<int>(transfer.dram / part);
        EXPECT_EQ(from, in.l2b_of(0, 0, row));
        EXPECT_EQ(transfer.group < 0 ? transfer.dram : transfer.dram % part, in.offset(0, row));
        made.emplace(l2b, number);
      }
    }
    EXPECT_EQ(made.size(), 14U);
  }
}

TEST(RowsImage, WindowsComeInRounds) {
  const isa::Chip chip = isa::find_chip("mncore2");
  const Picture tokens = *picture_of(0, {2, 64, 256}, 2);
  const RowsImage in(tokens, {}, chip), out(tokens, {true, false}, chip);
  RowsPass pass;
  pass.pass_rows = pass.rows = pass.region_rows = 16;
  const std::vector<RowsTransfer> list = window_transfers(in, out, {}, pass, {}, chip);
  ASSERT_EQ(list.size(), 32U);
  const int64_t part = isa::round_up(in.part_lw(), isa::kMvUnitLw);
  for (size_t round = 0; round < 4; ++round) {
    std::set<int64_t> from, to;
    for (size_t k = 8 * round; k < 8 * round + 8; ++k) {
      from.insert(list[k].group * chip.l2b_per_group + list[k].dram / part);
      to.insert(list[k].l2b);
    }
    EXPECT_EQ(from.size(), 8U) << round;
    EXPECT_EQ(to.size(), 8U) << round;
  }
}

}  // namespace
}  // namespace kodama::compiler
