#include "compiler/compile/fetch_ahead.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "isa/error.h"

/// Loads of constants in the programs of earlier stages.
namespace kodama::compiler {
namespace {

using isa::Space;
using layout::L1bMode;
using layout::L2bMode;
using layout::MabMode;

constexpr int64_t kMatrixBufferLw = 64;

/// A stage that has `work` times something to compute with a constant, which it loads first.
TileProgram stage(const std::string& name, int64_t dram, int64_t work, const isa::Chip& chip) {
  const layout::Transport transport(chip, L2bMode::kDistribute, L1bMode::kDistribute, MabMode::kDistribute);
  TileProgram program;
  program.name = name;
  program.buffers = {{"matrix", kMatrixBufferLw, isa::space_bit(Space::kLm0)},
                     {"result", kMatrixBufferLw, isa::space_bit(Space::kLm1)}};
  program.streams = {{"w", transport, kMatrixBufferLw, dram},
                     {"y", transport, kMatrixBufferLw, dram + 100000}};
  MapTile map;
  map.expr.apply(ScalarOp::kRelu, map.expr.input(0));
  map.inputs = {{0, {}}};
  map.out = 1;
  map.count = kMatrixBufferLw;
  LoadTile load{0, {}, 0, {}, kMatrixBufferLw};
  load.normalize = MatrixPrecision::kGFloat;
  program.body = {
      {load}, {map}, {TileLoop{"again", work, {{map}}}}, {StoreTile{1, {}, 1, {}, kMatrixBufferLw}}};
  return program;
}

class FetchAhead : public ::testing::Test {
 protected:
  FetchAhead()
      : before_{stage("a", 0, 100, chip_), stage("b", 300000, 100, chip_), stage("c", 600000, 1, chip_)},
        after_(before_) {}

  std::vector<AheadStage> stages() {
    std::vector<AheadStage> list;
    for (TileProgram& program : after_) {
      AheadStage& each = list.emplace_back();
      each.tiles = &program;
      each.constant_streams = {true, false};
      each.cycles = 100000;
    }
    return list;
  }
  void verify() const {
    std::vector<const TileProgram*> before, after;
    for (const TileProgram& program : before_) before.push_back(&program);
    for (const TileProgram& program : after_) {
      verify_tile_program(program, chip_);
      after.push_back(&program);
    }
    verify_fetch_ahead(before, after);
  }
  static bool is_piece(const TileNode& node) {
    const auto* load = std::get_if<LoadTile>(&node.kind);
    return load != nullptr && load->beside_at.has_value();
  }
  /// LW of pieces in a stage.
  int64_t pieces_lw(size_t number) const {
    int64_t lw = 0;
    for (const TileNode& node : after_[number].body) {
      if (is_piece(node)) lw += std::get<LoadTile>(node.kind).count;
    }
    return lw;
  }
  LoadTile& a_piece(size_t number) {
    return std::get<LoadTile>(std::ranges::find_if(after_[number].body, is_piece)->kind);
  }

  const isa::Chip chip_ = isa::find_chip("mncore2");
  std::vector<TileProgram> before_, after_;
};

TEST_F(FetchAhead, WhatIsNeededLaterComesEarlier) {
  std::vector<AheadStage> list = stages();
  fetch_ahead(list, chip_);
  verify();
  EXPECT_EQ(pieces_lw(0) + pieces_lw(1), 2 * kMatrixBufferLw);
  EXPECT_EQ(pieces_lw(2), 0);
  EXPECT_LT(after_[1].buffers[0].address_lw, chip_.memory.lm_words / isa::kWordsPerLong);
  EXPECT_FALSE(std::holds_alternative<LoadTile>(after_[2].body[0].kind));
  EXPECT_EQ(after_[0].buffers[0].address_lw, -1);
  EXPECT_EQ(after_[2].kept.size(), 1U);
}

TEST_F(FetchAhead, NothingMovesWithoutTimeOrRoom) {
  std::vector<AheadStage> list = stages();
  for (AheadStage& each : list) each.cycles = 0;
  fetch_ahead(list, chip_);
  EXPECT_EQ(pieces_lw(0) + pieces_lw(1), 0);
  list = stages();
  list[0].is_alone = list[1].is_alone = true;
  fetch_ahead(list, chip_);
  EXPECT_EQ(pieces_lw(0) + pieces_lw(1), 0);
  // What isn't there before the segment begins.
  list = stages();
  for (AheadStage& each : list) each.constant_streams = {false, false};
  fetch_ahead(list, chip_);
  EXPECT_EQ(pieces_lw(0) + pieces_lw(1), 0);
  verify();
}

/// Rows that L2BM holds from layer to layer leave DRAM its time, those of a larger tensor don't.
TEST_F(FetchAhead, OnlyRowsThatLeaveL2bmTakeTime) {
  const auto pieces_beside_rows = [&](int64_t part_lw) {
    after_ = before_;
    for (TileProgram& program : after_) {
      const layout::Transport rows(chip_, L2bMode::kDistribute, L1bMode::kBroadcast, MabMode::kBroadcastMab);
      program.streams.push_back({"rows", rows, part_lw / rows.l2bm_lw_per_number(), 900000});
      StoreRows store;
      store.stream = static_cast<int>(program.streams.size()) - 1;
      RowsTransfer transfer;
      transfer.count = chip_.memory.l2bm_lw / 8;
      store.transfers.assign(200, transfer);
      program.body.push_back({store});
    }
    std::vector<AheadStage> list = stages();
    for (AheadStage& each : list) each.constant_streams.push_back(false);
    fetch_ahead(list, chip_);
    return pieces_lw(0) + pieces_lw(1);
  };
  EXPECT_EQ(pieces_beside_rows(chip_.memory.l2bm_lw / 4), 2 * kMatrixBufferLw);
  EXPECT_EQ(pieces_beside_rows(chip_.memory.l2bm_lw), 0);
}

TEST_F(FetchAhead, WordsThatOthersUseAreLeftAlone) {
  std::vector<AheadStage> list = stages();
  // A program between the second and the third that has nearly all of LM0.
  AheadStage other;
  const int64_t all = chip_.memory.lm_words / isa::kWordsPerLong;
  other.taken = {{0, all - kMatrixBufferLw - 2}};
  list.insert(list.begin() + 2, other);
  fetch_ahead(list, chip_);
  verify();
  EXPECT_GE(after_[2].buffers[0].address_lw, all - kMatrixBufferLw - 2);
}

TEST_F(FetchAhead, DamageIsFound) {
  std::vector<AheadStage> list = stages();
  fetch_ahead(list, chip_);
  const std::vector<TileProgram> right = after_;
  const auto expect_found = [&] {
    EXPECT_THROW(verify(), isa::InternalError);
    after_ = right;
  };
  const size_t with_piece = pieces_lw(1) > 0 ? 1 : 0;
  a_piece(with_piece).normalize.reset();
  expect_found();
  after_[with_piece].streams[static_cast<size_t>(a_piece(with_piece).stream)].dram_address += 16;
  expect_found();
  std::erase_if(after_[with_piece].body, is_piece);
  expect_found();
  after_[2].buffers[0].address_lw += 2;
  expect_found();
  after_[2].kept.clear();
  expect_found();
  after_[with_piece].body.push_back({FillTile{a_piece(with_piece).buffer, {}, kMatrixBufferLw, 0}});
  expect_found();
  a_piece(with_piece).beside_at = chip_.memory.l2bm_lw;
  expect_found();
  verify();
}

}  // namespace
}  // namespace kodama::compiler
