#include "compiler/compile/keep_windows.h"

#include <gtest/gtest.h>

#include <functional>

#include "isa/error.h"

/// Windows that several stages load.
namespace kodama::compiler {
namespace {

using isa::Space;
using layout::L1bMode;
using layout::L2bMode;
using layout::MabMode;

constexpr int64_t kColumns = 4, kRows = 2, kChunks = 2;
constexpr int64_t kWindowsLw = kRows * kChunks * kColumns;

/// A product with the windows of two rows of the image at DRAM address `image`, its result at `result`.
TileProgram product_stage(const std::string& name, int64_t image, int64_t result, const isa::Chip& chip) {
  const layout::Transport rows(chip, L2bMode::kDistribute, L1bMode::kBroadcast, MabMode::kBroadcastMab);
  TileProgram program;
  program.name = name;
  program.buffers = {{"matrices", kChunks * 8, isa::space_bit(Space::kLm0)},
                     {"windows", kWindowsLw, isa::space_bit(Space::kLm1)},
                     {"sums", kRows * kColumns, isa::space_bit(Space::kGrf0)}};
  program.streams = {{"a", rows, 1024, image}, {"y", rows, 1024, result}};
  program.body.push_back({FillTile{1, {}, kWindowsLw, 0}});
  for (int64_t row = 0; row < kRows; ++row) {
    LoadRows load;
    load.stream = 0;
    RowsTransfer own;
    own.dram = own.l2bm = row * kChunks * kUnitLw;
    own.count = kChunks * kUnitLw;
    load.transfers = {own};
    load.l2bm = own.l2bm;
    load.order = {1, kChunks};
    load.chunks = kChunks;
    load.buffer = 1;
    load.first_row = row;
    load.buffer_rows = kRows;
    load.pitch = kColumns;
    load.normalize = MatrixPrecision::kGFloat;
    program.body.push_back({load});
  }
  WindowProduct product;
  product.matrices = 0;
  product.windows = 1;
  product.places = kChunks;
  product.window_rows = product.rows = kRows;
  product.pitch = kColumns;
  product.sums = 2;
  program.body.push_back({product});
  FinishRows finish;
  finish.sums = 2;
  finish.rows = finish.buffer_rows = kRows;
  finish.epilogue = ScalarExpr::identity();
  program.body.push_back({finish});
  StoreRows store;
  store.stream = 1;
  store.l2bm = 4096;
  store.rows = kRows;
  store.row_lw = store.segment_lw = store.l1b_row_lw = kUnitLw;
  store.l1b_at = {0};
  RowsTransfer out;
  out.l2bm = store.l2bm;
  out.count = kRows * kUnitLw;
  store.transfers = {out};
  program.body.push_back({store});
  return program;
}

class KeepWindows : public ::testing::Test {
 protected:
  KeepWindows() {
    for (int k = 0; k < 3; ++k)
      before_.push_back(product_stage("stage " + std::to_string(k), 0, 16384 * (k + 1), chip_));
  }
  std::vector<bool> keep() {
    after_ = before_;
    std::vector<TileProgram*> stages;
    for (TileProgram& program : after_) stages.push_back(program.body.empty() ? nullptr : &program);
    return keep_windows(stages, chip_);
  }
  void verify() const {
    std::vector<const TileProgram*> before, after;
    for (size_t k = 0; k < after_.size(); ++k) {
      const bool is_relayout = after_[k].body.empty();
      before.push_back(is_relayout ? nullptr : &before_[k]);
      after.push_back(is_relayout ? nullptr : &after_[k]);
      if (!is_relayout) verify_tile_program(after_[k], chip_);
    }
    verify_keep_windows(before, after);
  }
  /// Writes to the windows in a stage.
  int64_t loads(size_t number) const {
    return std::ranges::count_if(after_[number].body, [](const TileNode& node) {
      return std::holds_alternative<LoadRows>(node.kind) || std::holds_alternative<FillTile>(node.kind);
    });
  }

  const isa::Chip chip_ = isa::find_chip("mncore2");
  std::vector<TileProgram> before_, after_;
};

TEST_F(KeepWindows, TheFirstStageLoadsThem) {
  EXPECT_EQ(keep(), std::vector<bool>(3, true));
  EXPECT_EQ(loads(0), 3);
  EXPECT_EQ(loads(1), 0);
  EXPECT_EQ(loads(2), 0);
  for (const TileProgram& program : after_) {
    EXPECT_EQ(program.buffers[1].address_lw, after_[0].buffers[1].address_lw);
    EXPECT_TRUE(program.kept.back().has(Space::kLm1, program.buffers[1].address_lw, kWindowsLw));
  }
  verify();
}

TEST_F(KeepWindows, WhatIsKeptAlreadyStays) {
  const int64_t all = chip_.memory.lm_words / isa::kWordsPerLong;
  for (TileProgram& program : before_) program.kept = {{all - 100, 100, Space::kLm1}, {0, all, Space::kLm0}};
  before_[2].kept.push_back({0, 600, Space::kLm1});
  EXPECT_EQ(keep(), std::vector<bool>(3, true));
  EXPECT_EQ(after_[0].buffers[1].address_lw, all - 100 - kWindowsLw);
  verify();
  // No room beside it.
  before_[2].kept.push_back({0, all - 100, Space::kLm1});
  EXPECT_EQ(keep(), std::vector<bool>(3, false));
  verify();
}

TEST_F(KeepWindows, OthersLoadTheirOwn) {
  const std::vector<std::pair<const char*, std::function<void(TileProgram&)>>> changes = {
      {"another image", [](TileProgram& p) { p.streams[0].dram_address = 8192; }},
      {"other rows", [](TileProgram& p) { std::get<LoadRows>(p.body[1].kind).transfers[0].dram += 128; }},
      {"other values between", [](TileProgram& p) { std::get<FillTile>(p.body[0].kind).bits = 1; }},
      {"a load twice", [](TileProgram& p) { p.body.insert(p.body.begin() + 2, p.body[1]); }},
      {"a fill behind", [](TileProgram& p) { std::swap(p.body[0], p.body[1]); }},
      {"a loop",
       [](TileProgram& p) {
         p.body[1] = {TileLoop{"again", 2, {p.body[1]}}};
       }},
      {"rows by the way of another load",
       [](TileProgram& p) { std::get<LoadRows>(p.body[2].kind).transfers.clear(); }},
      {"rows for somebody else",
       [](TileProgram& p) {
         LoadRows other = std::get<LoadRows>(p.body[1].kind);
         other.buffer = 2;
         other.normalize.reset();
         p.body.insert(p.body.begin() + 3, {other});
       }},
  };
  const std::vector<TileProgram> same = before_;
  for (const auto& [what, change] : changes) {
    SCOPED_TRACE(what);
    before_ = same;
    change(before_[1]);
    EXPECT_EQ(keep(), std::vector<bool>(3, false));
  }
  // Nobody is between two that share.
  before_ = same;
  before_[1].body.clear();
  EXPECT_EQ(keep(), std::vector<bool>(3, false));
  verify();
}

TEST_F(KeepWindows, TheVerifierFindsDamage) {
  const auto damaged = [&](const std::function<void()>& damage) {
    keep();
    damage();
    EXPECT_THROW(verify(), isa::InternalError);
  };
  damaged([&] { after_[1].buffers[1].address_lw -= 2; });
  damaged([&] { after_[0].body.erase(after_[0].body.begin() + 1); });
  damaged([&] { std::get<LoadRows>(after_[0].body[1].kind).transfers[0].dram += 64; });
  damaged([&] { std::get<WindowProduct>(after_[1].body[0].kind).places = 1; });
  damaged([&] { after_[1].body.pop_back(); });
  damaged([&] { before_[1].streams[0].dram_address = after_[1].streams[0].dram_address = 8192; });
}

}  // namespace
}  // namespace kodama::compiler
