#include "compiler/compile/keep_results.h"

#include <gtest/gtest.h>

#include <array>
#include <functional>
#include <string>

#include "compiler/kernels/rows_division.h"
#include "isa/error.h"

/// Results that later stages add to theirs.
namespace kodama::compiler {
namespace {

using isa::Space;
using layout::L1bMode;
using layout::L2bMode;
using layout::MabMode;

constexpr int64_t kResultRows = 3;  ///< of an L2B
constexpr int64_t kTileRows = 1;

/// Which kernels' operations a stage is made of.
enum class Way : uint8_t { kLanes, kRows, kSpread };

RowOrder order_of(Way way) {
  return way == Way::kSpread ? RowOrder{1, 4} : RowOrder{7, way == Way::kLanes ? 4 : 2};
}

/// A stage that adds what image `added` has to its sums, row after row, and makes image `result`; images are
/// numbered, and stand in DRAM in that order. Its windows are those of image 0.
TileProgram adding_stage(Way way, int added, int result, const isa::Chip& chip) {
  const RowOrder order = order_of(way);
  const int64_t image_lw = isa::round_up(kResultRows * order.lw(), 1024);
  const layout::Transport transport(chip, L2bMode::kDistribute, L1bMode::kBroadcast, MabMode::kBroadcastMab);
  TileProgram program;
  program.name = "stage " + std::to_string(result);
  const LanePlaces places{order, kTileRows, 8};
  const int64_t columns = order.groups * isa::kCyclesPerStep;
  const int64_t rows_lw = way == Way::kLanes    ? places.sets() * places.spread_lw()
                          : way == Way::kSpread ? spread_buffer_lw(kTileRows, order.chunks)
                                                : order.chunks * kTileRows * columns;
  program.buffers = {{"matrices", 32, isa::space_bit(Space::kLm0)},
                     {"windows", 64, isa::space_bit(Space::kLm1)},
                     {"sums", 64, isa::space_bit(Space::kGrf0)},
                     {"added", rows_lw, isa::space_bit(Space::kLm0)}};
  const auto stream = [&](const char* name, int image) {
    return TileStream{name, transport, image_lw, image * image_lw * chip.l2b_per_group};
  };
  program.streams = {stream("a", 0), stream("x", added), stream("y", result)};
  ScalarExpr sum;
  sum.apply(ScalarOp::kAdd, sum.input(0), sum.input(1));
  for (int64_t row = 0; row < kResultRows; row += kTileRows) {
    RowsTransfer own;
    own.dram = row * order.lw();
    own.count = kTileRows * order.lw();
    StoreRows store;
    store.stream = 2;
    store.l2bm = own.l2bm = 16384;
    store.transfers = {own};
    own.l2bm = 8192;
    if (way == Way::kLanes) {
      LoadPlaces load;
      load.stream = 1;
      load.transfers = {own};
      load.l2bm = own.l2bm;
      load.places = places;
      load.buffer = 3;
      program.body.push_back({load});
      FinishLanes finish;
      finish.sums = 2;
      finish.starts = {0, 4};
      finish.epilogue = sum;
      finish.inputs = {{3, true}};
      finish.places = places;
      finish.l2bm = store.l2bm;
      for (finish.set = 0; finish.set < places.sets(); ++finish.set) program.body.push_back({finish});
    } else {
      LoadRows load;
      load.stream = 1;
      load.transfers = {own};
      load.l2bm = own.l2bm;
      load.order = order;
      load.chunks = order.chunks;
      load.columns = load.pitch = columns;
      load.rows = load.buffer_rows = kTileRows;
      load.l1b_at = {0};
      load.buffer = 3;
      FinishRows finish;
      finish.sums = 2;
      finish.epilogue = sum;
      finish.inputs = {{3, true}};
      finish.rows = finish.buffer_rows = kTileRows;
      finish.order = order;
      store.rows = kTileRows;
      store.row_lw = order.lw();
      store.l1b_at = load.l1b_at;
      set_segments(store, order, order.chunks);
      if (way == Way::kSpread) {
        load.form = RowsForm::kSpread;
        finish.spread = true;
        set_spread_segments(store, order.chunks, kTileRows);
      }
      program.body.push_back({load});
      for (finish.chunk = 0; finish.chunk < order.chunks; ++finish.chunk) program.body.push_back({finish});
    }
    program.body.push_back({store});
  }
  return program;
}

class KeepResults : public ::testing::TestWithParam<Way> {
 protected:
  void SetUp() override {
    // Image 2 is what stage 1 adds, and so on; a stage between has nothing to do with it.
    for (const auto& [added, result] : {std::pair{1, 2}, std::pair{7, 8}, std::pair{2, 3}, std::pair{3, 4}}) {
      programs_.push_back(adding_stage(GetParam(), added, result, chip_));
      images_.push_back({0, added, result});
    }
  }
  std::vector<bool> keep() {
    before_ = programs_;
    std::vector<ResultStage> stages = stages_of(programs_);
    return keep_results(stages, chip_);
  }
  std::vector<ResultStage> stages_of(std::vector<TileProgram>& programs) const {
    std::vector<ResultStage> stages;
    for (size_t k = 0; k < programs.size(); ++k) {
      ResultStage& stage = stages.emplace_back();
      stage.may_keep = k != closed_;
      if (programs[k].body.empty()) {
        stage.taken = taken_;
        continue;
      }
      stage.tiles = &programs[k];
      stage.images = images_[k];
    }
    return stages;
  }
  void verify() {
    std::vector<const TileProgram*> after;
    for (const TileProgram& program : programs_) {
      after.push_back(program.body.empty() ? nullptr : &program);
      if (!program.body.empty()) verify_tile_program(program, chip_);
    }
    verify_keep_results(stages_of(before_), after, chip_);
  }
  /// Loads of a stage that are left.
  int64_t loads(size_t number) const {
    return std::ranges::count_if(programs_[number].body, [](const TileNode& node) {
      return std::holds_alternative<LoadRows>(node.kind) || std::holds_alternative<LoadPlaces>(node.kind);
    });
  }
  /// The first operation of a stage that may keep something, as `read` sees it.
  template <typename Read>
  void first_finish(size_t number, Read&& read) {
    first_finish_of(programs_[number].body, read);
  }
  template <typename Read>
  static void first_finish_of(std::vector<TileNode>& body, Read&& read) {
    for (TileNode& node : body) {
      if (auto* rows = std::get_if<FinishRows>(&node.kind)) return read(*rows);
      if (auto* lanes = std::get_if<FinishLanes>(&node.kind)) return read(*lanes);
    }
  }

  const isa::Chip chip_ = isa::find_chip("mncore2");
  std::vector<TileProgram> programs_, before_;
  std::vector<std::vector<int>> images_;
  std::vector<TileProgram::Kept> taken_;
  size_t closed_ = 99;  ///< a stage that may keep nothing
};

TEST_P(KeepResults, LoadsFallAway) {
  EXPECT_EQ(keep(), std::vector<bool>(4, true));
  EXPECT_EQ(loads(0), kResultRows);
  EXPECT_EQ(loads(1), kResultRows);
  EXPECT_EQ(loads(2), 0);
  EXPECT_EQ(loads(3), 0);
  // Both results are there while stage 2 works.
  EXPECT_EQ(programs_[0].kept.size(), 1U);
  EXPECT_EQ(programs_[1].kept.size(), 1U);
  EXPECT_EQ(programs_[2].kept.size(), 2U);
  EXPECT_EQ(programs_[3].kept.size(), 1U);
  verify();
}

TEST_P(KeepResults, TheOrderOfRowsIsAnyones) {
  auto& body = programs_[2].body;
  const size_t tile = body.size() / kResultRows;
  std::rotate(body.begin(), body.begin() + static_cast<ptrdiff_t>(tile), body.end());
  keep();
  EXPECT_EQ(loads(2), 0);
  EXPECT_EQ(loads(3), 0);
  verify();
}

TEST_P(KeepResults, OthersLoadTheirOwn) {
  const std::vector<std::pair<const char*, std::function<void(TileProgram&)>>> changes = {
      {"another row",
       [](TileProgram& p) {
         std::visit(
             [](auto& op) {
               if constexpr (requires { op.transfers; }) op.transfers[0].dram += 64;
             },
             p.body[0].kind);
       }},
      {"another tile",
       [](TileProgram& p) {
         if (auto* places = std::get_if<LoadPlaces>(&p.body[0].kind)) places->places.row_places += 4;
         if (auto* rows = std::get_if<LoadRows>(&p.body[0].kind)) rows->l1b_at = {64};
       }},
      {"somebody else fills it, too",
       [](TileProgram& p) {
         p.body.insert(p.body.begin() + 1, TileNode{FillTile{3, {}, 4, 0}});
       }},
      {"a loop",
       [](TileProgram& p) {
         p.body = {{TileLoop{"again", 2, p.body}}};
       }},
  };
  const std::vector<TileProgram> same = programs_;
  for (const auto& [what, change] : changes) {
    SCOPED_TRACE(what);
    programs_ = same;
    change(programs_[2]);
    const int64_t own = loads(2);
    keep();
    EXPECT_EQ(loads(2), own);
    verify();
  }
  // An image that nobody here has made, at the same place of DRAM.
  programs_ = same;
  images_[2][1] = 12;
  keep();
  EXPECT_EQ(loads(2), kResultRows);
  verify();
}

TEST_P(KeepResults, StagesBetweenHaveRoom) {
  const std::vector<TileProgram> same = programs_;
  const int64_t all = chip_.memory.lm_words / isa::kWordsPerLong;
  // A relayout may write elsewhere.
  programs_[1].body.clear();
  taken_ = {{0, 512, Space::kLm0}, {0, all, Space::kLm1}};
  keep();
  EXPECT_EQ(loads(2), 0);
  EXPECT_GE(programs_[0].kept[0].begin_lw, 512);
  verify();
  // It leaves nothing.
  programs_ = same;
  programs_[1].body.clear();
  taken_ = {{0, all, Space::kLm0}};
  keep();
  EXPECT_EQ(loads(2), kResultRows);
  verify();
  // What is kept there already stays.
  programs_ = same;
  programs_[1].kept = {{0, 100, Space::kLm0}, {101, 1, Space::kLm0}};
  keep();
  EXPECT_EQ(loads(2), 0);
  EXPECT_GE(programs_[0].kept[0].begin_lw, 102);
  verify();
  // The stage's own buffers take it.
  programs_ = same;
  programs_[1].buffers[3].size_lw = all;
  keep();
  EXPECT_EQ(loads(2), kResultRows);
  EXPECT_EQ(loads(3), 0);
  verify();
  // It has turned out to have none.
  programs_ = same;
  closed_ = 1;
  keep();
  EXPECT_EQ(loads(2), kResultRows);
  EXPECT_EQ(loads(3), 0);
  verify();
}

TEST_P(KeepResults, AtMostAQuarterOfLm0) {
  for (TileProgram& program : programs_) {
    const std::vector<TileNode> body = program.body;
    // The same rows of so many images of a batch.
    for (int64_t image = 1; image < 60; ++image) {
      for (TileNode node : body) {
        std::visit(
            [&](auto& op) {
              if constexpr (requires { op.transfers; }) op.transfers[0].dram += image * 8192;
            },
            node.kind);
        program.body.push_back(node);
      }
    }
    for (TileStream& stream : program.streams) {
      stream.length_lw *= 256;
      stream.dram_address *= 256;
    }
  }
  const int64_t own = loads(2);
  EXPECT_EQ(keep(), std::vector<bool>(4, false));
  EXPECT_EQ(loads(2), own);
  verify();
}

TEST_P(KeepResults, TheVerifierFindsDamage) {
  const std::vector<TileProgram> same = programs_;
  const auto damaged = [&](const char* what, const std::function<void()>& damage) {
    SCOPED_TRACE(what);
    programs_ = same;
    keep();
    damage();
    EXPECT_THROW(verify(), isa::InternalError);
  };
  damaged("another place is read", [&] { first_finish(2, [](auto& op) { op.inputs[0].at += 4; }); });
  damaged("another buffer is read",
          [&] { first_finish(2, [](auto& op) { op.inputs[0].buffer = op.kept.buffer; }); });
  damaged("another place is written", [&] { first_finish(0, [](auto& op) { op.kept.at += 4; }); });
  damaged("nothing is written", [&] { first_finish(0, [](auto& op) { op.kept = {}; }); });
  damaged("other results", [&] { first_finish(0, [](auto& op) { op.epilogue = ScalarExpr::identity(); }); });
  damaged("a stage between doesn't keep it", [&] { programs_[1].kept.clear(); });
  damaged("buffers are elsewhere", [&] { programs_[2].buffers[4].address_lw += 2; });
  damaged("something else stays there", [&] { before_[2].kept = programs_[2].kept; });
  damaged("a store is gone", [&] { programs_[0].body.pop_back(); });
  damaged("an operation more", [&] { programs_[1].body.push_back(programs_[1].body[0]); });
  damaged("other rows are stored", [&] {
    for (std::vector<TileProgram>* programs : {&programs_, &before_})
      std::get<StoreRows>((*programs)[0].body.back().kind).transfers[0].dram -= 64;
  });
  damaged("another L2B's rows are wanted", [&] {
    std::visit(
        [](auto& op) {
          if constexpr (requires { op.transfers; }) op.transfers[0].l2b = 1;
        },
        before_[2].body[0].kind);
  });
  damaged("a change in a loop", [&] {
    for (std::vector<TileProgram>* programs : {&programs_, &before_})
      (*programs)[1].body = {{TileLoop{"again", 2, (*programs)[1].body}}};
    first_finish_of(std::get<TileLoop>(programs_[1].body[0].kind).body,
                    [](auto& op) { op.inputs[0].at += 4; });
  });
  damaged("another stage has written over the image", [&] {
    images_[1][2] = 2;
    programs_[1].streams[2] = before_[1].streams[2] = before_[0].streams[2];
  });
  images_[1][2] = 8;
}

std::string way_name(const ::testing::TestParamInfo<Way>& info) {
  constexpr std::array<const char*, 3> kNames = {"Lanes", "Rows", "Spread"};
  return kNames.at(static_cast<size_t>(info.param));
}
INSTANTIATE_TEST_SUITE_P(Ways, KeepResults, ::testing::Values(Way::kLanes, Way::kRows, Way::kSpread),
                         way_name);

}  // namespace
}  // namespace kodama::compiler
