#include "compiler/compile/resident.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "isa/error.h"

/// Constants that stay in the PEs.
namespace kodama::compiler {
namespace {

using isa::Space;
using layout::L1bMode;
using layout::L2bMode;
using layout::MabMode;

constexpr int64_t kMatrixLw = 64;

class Resident : public ::testing::Test {
 protected:
  Resident() : before_{plain("a", 0), turns("b", 100000), loop("c", 200000)}, after_(before_) {}

  TileProgram start(const std::string& name, int64_t dram, int64_t length) const {
    const layout::Transport transport(chip_, L2bMode::kDistribute, L1bMode::kDistribute,
                                      MabMode::kDistribute);
    TileProgram program;
    program.name = name;
    program.buffers = {{"matrix", kMatrixLw, isa::space_bit(Space::kLm0)},
                       {"result", kMatrixLw, isa::space_bit(Space::kLm1)}};
    program.streams = {{"w", transport, length, dram}, {"y", transport, kMatrixLw, 1000000 + dram}};
    return program;
  }
  static LoadTile load(TileIndex from) {
    LoadTile load{0, std::move(from), 0, {}, kMatrixLw};
    load.normalize = MatrixPrecision::kGFloat;
    return load;
  }
  static MapTile use(TileIndex at = {}, int64_t count = kMatrixLw) {
    MapTile map;
    map.expr.apply(ScalarOp::kRelu, map.expr.input(0));
    map.inputs = {{0, std::move(at)}};
    map.out = 1;
    map.count = count;
    return map;
  }
  static StoreTile store() { return {1, {}, 1, {}, kMatrixLw}; }

  /// Loads its constant once.
  TileProgram plain(const std::string& name, int64_t dram) const {
    TileProgram program = start(name, dram, kMatrixLw);
    program.body = {{load({})}, {use()}, {TileLoop{"again", 4, {{use()}}}}, {store()}};
    return program;
  }
  /// One after the other, and the first again.
  TileProgram turns(const std::string& name, int64_t dram) const {
    TileProgram program = start(name, dram, 2 * kMatrixLw);
    program.body = {{load({})},        {use()},  {load({kMatrixLw, {}})}, {use()}, {load({})},
                    {use({4, {}}, 4)}, {store()}};
    return program;
  }
  /// One for every iteration, and in it a part for every iteration of another.
  TileProgram loop(const std::string& name, int64_t dram) const {
    TileProgram program = start(name, dram, 3 * kMatrixLw);
    const TileLoop parts{"part", 2, {{use({0, {0, kMatrixLw / 2}}, kMatrixLw / 2)}}};
    program.body = {{TileLoop{"tile", 3, {{load({0, {kMatrixLw}})}, {parts}, {store()}}}}};
    return program;
  }

  std::vector<ResidentStage> stages() {
    std::vector<ResidentStage> list;
    for (TileProgram& program : after_) list.push_back({&program, {true, false}});
    return list;
  }
  void verify(const TileProgram& preparation, const std::vector<ResidentStage>& list) const {
    std::vector<const TileProgram*> before, after;
    for (size_t k = 0, j = 0; k < list.size(); ++k) {
      before.push_back(list[k].tiles != nullptr ? &before_[j] : nullptr);
      after.push_back(list[k].tiles != nullptr ? &after_[j++] : nullptr);
      if (after.back() != nullptr) verify_tile_program(*after.back(), chip_);
    }
    verify_tile_program(preparation, chip_);
    verify_resident(before, after, preparation, list);
  }
  static int64_t loads(const std::vector<TileNode>& nodes) {
    int64_t count = 0;
    for (const TileNode& node : nodes) {
      if (const auto* loop = std::get_if<TileLoop>(&node.kind)) count += loads(loop->body);
      count += std::holds_alternative<LoadTile>(node.kind) ? 1 : 0;
    }
    return count;
  }
  int64_t loads() const {
    int64_t count = 0;
    for (const TileProgram& program : after_) count += loads(program.body);
    return count;
  }
  static int64_t lw(const TileProgram& preparation, Space memory) {
    int64_t sum = 0;
    for (const TileBuffer& buffer : preparation.buffers) sum += buffer.memory == memory ? buffer.size_lw : 0;
    return sum;
  }

  const isa::Chip chip_ = isa::find_chip("mncore2");
  const int64_t all_ = chip_.memory.lm_words / isa::kWordsPerLong;
  std::vector<TileProgram> before_, after_;
};

TEST_F(Resident, WhatFitsIsLoadedOnce) {
  std::vector<ResidentStage> list = stages();
  const std::optional<TileProgram> preparation = keep_constants(list, chip_);
  ASSERT_TRUE(preparation);
  verify(*preparation, list);
  EXPECT_EQ(loads(), 0);
  EXPECT_EQ(loads(preparation->body), 4);
  EXPECT_EQ(lw(*preparation, Space::kLm0), 6 * kMatrixLw);
  EXPECT_EQ(shares_kept(before_[1], after_[1]), (std::vector<double>{1, 0}));
}

TEST_F(Resident, StagesShareWhatBothLoad) {
  before_ = after_ = {plain("a", 0), plain("b", 0)};
  std::vector<ResidentStage> list = stages();
  const std::optional<TileProgram> preparation = keep_constants(list, chip_);
  ASSERT_TRUE(preparation);
  verify(*preparation, list);
  EXPECT_EQ(loads(), 0);
  EXPECT_EQ(loads(preparation->body), 1);
}

TEST_F(Resident, EachBufferInAMemoryThatItMayBeIn) {
  for (TileProgram& program : before_) {
    program.buffers[0].homes = isa::space_bit(Space::kLm1);
    program.buffers[1].homes = isa::space_bit(Space::kLm0);
  }
  after_ = before_;
  std::vector<ResidentStage> list = stages();
  const std::optional<TileProgram> preparation = keep_constants(list, chip_);
  ASSERT_TRUE(preparation);
  verify(*preparation, list);
  EXPECT_EQ(lw(*preparation, Space::kLm1), 6 * kMatrixLw);
}

TEST_F(Resident, RelayoutsAndStagesKeepTheirRoom) {
  std::vector<ResidentStage> list = stages();
  ResidentStage relayout;
  relayout.taken = {{0, all_ - 2 * kMatrixLw, Space::kLm0}, {0, all_, Space::kLm1}};
  list.insert(list.begin() + 1, relayout);
  std::optional<TileProgram> preparation = keep_constants(list, chip_);
  ASSERT_TRUE(preparation);
  verify(*preparation, list);
  EXPECT_EQ(lw(*preparation, Space::kLm0), 2 * kMatrixLw);
  EXPECT_GT(loads(), 0);
  EXPECT_LT(shares_kept(before_[1], after_[1])[0] + shares_kept(before_[2], after_[2])[0], 2);

  after_ = before_;
  list = stages();
  list[0].needs_lw = all_;
  EXPECT_EQ(cycles_of_kept_constants(list, chip_), 0);
  EXPECT_FALSE(keep_constants(list, chip_));
  list[0].needs_lw = 0;
  EXPECT_GT(cycles_of_kept_constants(list, chip_), 0);
  EXPECT_EQ(after_[0].buffers.size(), before_[0].buffers.size());  // nothing is rewritten by asking

  // Results have LM0 while a stage works.
  list[0].results_lw = all_;
  preparation = keep_constants(list, chip_);
  ASSERT_TRUE(preparation);
  EXPECT_EQ(lw(*preparation, Space::kLm0), 0);
}

TEST_F(Resident, WhatStaysElsewhereIsCopied) {
  std::vector<ResidentStage> list = stages();
  ResidentStage relayout;
  relayout.taken = {{0, all_ - 2 * kMatrixLw, Space::kLm0}};
  list.insert(list.begin() + 1, relayout);
  const int64_t cycles = cycles_of_kept_constants(list, chip_);
  list[1].taken.clear();
  EXPECT_LT(cycles, cycles_of_kept_constants(list, chip_));
  list[1].taken = relayout.taken;
  std::optional<TileProgram> preparation = keep_constants(list, chip_);
  ASSERT_TRUE(preparation);
  verify(*preparation, list);
  EXPECT_EQ(lw(*preparation, Space::kLm0), 2 * kMatrixLw);
  EXPECT_EQ(lw(*preparation, Space::kLm1), 4 * kMatrixLw);
  EXPECT_EQ(loads(), 0);
  // Of a copy.
  const std::vector<TileProgram> right = after_;
  int found = 0;
  for (size_t k = 0; k < after_.size(); ++k) {
    for (size_t node = 0; node < after_[k].body.size(); ++node) {
      auto* copy = std::get_if<MapTile>(&after_[k].body[node].kind);
      if (copy == nullptr || copy->out != 0) continue;
      copy->inputs[0].at.base += 4;
      copy->count -= 4;
      EXPECT_THROW(verify(*preparation, list), isa::InternalError);
      std::ranges::copy(right, after_.begin());
      after_[k].body.erase(after_[k].body.begin() + static_cast<ptrdiff_t>(node));
      EXPECT_THROW(verify(*preparation, list), isa::InternalError);
      std::ranges::copy(right, after_.begin());
      ++found;
    }
  }
  EXPECT_GT(found, 0);
}

TEST_F(Resident, WhatIsNoConstantAloneIsLoaded) {
  // Not in DRAM before; filled by others, too; read before it is loaded; what was loaded before the loop.
  std::vector<ResidentStage> list = stages();
  for (ResidentStage& stage : list) stage.constant_streams = {false, false};
  EXPECT_FALSE(keep_constants(list, chip_));
  TileProgram filled = plain("a", 0);
  filled.body.insert(filled.body.begin() + 1, {FillTile{0, {}, 4, 0}});
  TileProgram early = plain("b", 100000);
  early.body.insert(early.body.begin(), {use()});
  TileProgram mixed = plain("c", 200000);
  mixed.body = {{load({})}, {TileLoop{"tile", 3, {{use()}, {load({})}}}}, {store()}};
  before_ = after_ = {filled, early, mixed};
  list = stages();
  EXPECT_FALSE(keep_constants(list, chip_));
}

TEST_F(Resident, DamageIsFound) {
  std::vector<ResidentStage> list = stages();
  std::optional<TileProgram> preparation = keep_constants(list, chip_);
  ASSERT_TRUE(preparation);
  const std::vector<TileProgram> right = after_;
  const TileProgram right_preparation = *preparation;
  const auto expect_found = [&] {
    EXPECT_THROW(verify(*preparation, list), isa::InternalError);
    std::ranges::copy(right, after_.begin());
    preparation = right_preparation;
  };
  const auto first_load = [&]() -> LoadTile& { return std::get<LoadTile>(preparation->body[0].kind); };
  first_load().from.base += 4;
  first_load().count -= 4;
  expect_found();
  first_load().normalize.reset();
  expect_found();
  preparation->body.pop_back();
  expect_found();
  preparation->streams[0].dram_address += 64;
  expect_found();
  preparation->buffers[1].address_lw = preparation->buffers[0].address_lw;
  expect_found();
  after_[0].kept.clear();
  expect_found();
  after_[0].buffers.back().address_lw += 2;
  expect_found();
  after_[1].body.erase(after_[1].body.begin());
  expect_found();
  after_[1].body.push_back({FillTile{static_cast<int>(after_[1].buffers.size()) - 1, {}, kMatrixLw, 0}});
  expect_found();
  std::get<MapTile>(after_[1].body[0].kind).inputs[0].at.base += 4;
  std::get<MapTile>(after_[1].body[0].kind).count -= 4;
  expect_found();
  std::get<MapTile>(after_[1].body[1].kind).inputs[0].buffer =
      std::get<MapTile>(after_[1].body[0].kind).inputs[0].buffer;
  expect_found();
  list[0].tiles = nullptr;
  list[0].taken = {{all_ - 2, 2, Space::kLm0}};
  const auto programs = [&] { return std::vector<const TileProgram*>{nullptr, &after_[1], &after_[2]}; };
  EXPECT_THROW(verify_resident({nullptr, &before_[1], &before_[2]}, programs(), *preparation, list),
               isa::InternalError);
  list = stages();
  verify(*preparation, list);
}

}  // namespace
}  // namespace kodama::compiler
