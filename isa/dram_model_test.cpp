#include "isa/dram_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "isa/dram_banks.h"
#include "isa/error.h"
#include "isa/file.h"
#include "isa/rounds_test_util.h"

namespace kodama::isa {
namespace {

using testing::HasSubstr;

/// Asks a model by hand: one request after the other, each sent when the one before has passed.
class Asker {
 public:
  Asker(std::unique_ptr<DramModel> model, const Chip& chip) : model_(std::move(model)), chip_(chip) {}
  /// Cycles.
  double operator()(std::vector<DramPiece> pieces, bool write = false) {
    const int64_t before = time_;
    time_ = model_->serve({time_, write, std::move(pieces)});
    return static_cast<double>(time_ - before) / kTicksPerCycle;
  }
  double ns(std::vector<DramPiece> pieces, bool write = false) {
    return (*this)(std::move(pieces), write) / chip_.clock_hz * 1e9;
  }
  void pause(double ns) { time_ += static_cast<int64_t>(ns * 1e-9 * chip_.clock_hz * kTicksPerCycle); }
  DramCounts counts() const { return model_->counts(); }

 private:
  std::unique_ptr<DramModel> model_;
  Chip chip_;
  int64_t time_ = 1000 * kTicksPerCycle;
};

// ---- rows ------------------------------------------------------------------------------------------------

/// mncore2 without refresh: 17.07 LW per cycle, 22.5 cycles to open a row, 7.5 to turn around.
Chip calm_chip(const std::string& changes = "") {
  return find_chip("mncore2,transfer.dram_refresh_ns=0" + changes);
}
Asker rows(const Chip& chip) {
  return {std::make_unique<RowsDram>(chip), chip};
}

TEST(RowsDram, StreamsHideRowMissesAndOneBankShowsThem) {
  const Chip chip = calm_chip();
  Asker stream = rows(chip);
  EXPECT_NEAR(stream({{0, 524288}}), 3840, 1e-3);
  EXPECT_EQ(stream.counts().row_misses, 256);

  Asker one_bank = rows(chip);
  double cycles = 0;
  for (int k = 0; k < 100; ++k) cycles += one_bank({{k * 2048 * 16, 128}});
  EXPECT_NEAR(cycles, 100 * 0.9375 + 99 * 22.5, 0.1);

  Asker turning = rows(chip);
  cycles = 0;
  for (int k = 0; k < 10; ++k) cycles += turning({{0, 128}}, k % 2 == 1);
  EXPECT_NEAR(cycles, 10 * 0.9375 + 9 * 7.5, 0.01);
}

TEST(RowsDram, TheExampleOfTheHeader) {
  Asker dram = rows(calm_chip());
  EXPECT_NEAR(dram({{0, 2048}}), 15, 1e-3);
  EXPECT_NEAR(dram({{2048 * 16, 128}}), 22.5 + 0.9375, 1e-3);
}

TEST(RowsDram, ChannelsShareTheRate) {
  Asker dram = rows(calm_chip(",transfer.dram_channels=4"));
  // A stream keeps all four busy, a row only one.
  EXPECT_NEAR(dram({{0, 64 * 2048}}), 960, 1e-3);
  EXPECT_NEAR(dram({{0, 2048}}), 60, 1e-3);
  EXPECT_EQ(dram.counts().row_misses, 64);
}

// ---- banks: figures by hand from the part's times in configs/mncore2.yaml ---------------------------------

Chip gddr6(const std::string& changes = "") {
  return find_chip("mncore2,transfer.dram_model=banks" + changes);
}
/// Without refreshes in the time that tests take.
Chip calm_gddr6(const std::string& changes = "") {
  return gddr6(",dram.trefi_ns=1e9" + changes);
}
Asker banks(const Chip& chip) {
  return {std::make_unique<BanksDram>(chip), chip};
}
/// Address of a block of 128 bytes: block | 2 bits channel | 2 bits group | 4 bits column | 2 bits bank |
/// row.
int64_t block_at(int64_t channel, int64_t group, int64_t bank, int64_t row, int64_t column = 0) {
  return ((((row * 4 + bank) * 16 + column) * 4 + group) * 4 + channel) * 128;
}
constexpr double kWithin = 0.02;  // share of the figure by hand

TEST(BanksDram, TheExampleOfTheHeader) {
  Asker dram = banks(calm_gddr6());
  EXPECT_NEAR(dram.ns({{0, 1024}}), 10, 0.01);
  EXPECT_EQ(dram.counts().row_misses, 8);
}

TEST(BanksDram, AStreamHasThePeakRate) {
  // 4 channels x 32 bytes per 1.25 ns = 102.4 bytes per ns.
  Asker whole = banks(calm_gddr6());
  EXPECT_NEAR(whole.ns({{0, 1 << 20}}), 10240, 10240 * kWithin);
  Asker chunks = banks(calm_gddr6());
  double ns = 0;
  for (int k = 0; k < 128; ++k) ns += chunks.ns({{k * 8192, 8192}});
  EXPECT_NEAR(ns, 10240, 10240 * kWithin);
  Asker written = banks(calm_gddr6());
  EXPECT_NEAR(written.ns({{0, 1 << 20}}, true), 10240, 10240 * kWithin);
}

TEST(BanksDram, WithoutReorderingAStreamWaitsForItsBankGroup) {
  // The four bursts of a block are of one bank group; in order, three of four gaps are tCCDL = 1.875 ns.
  Asker dram = banks(calm_gddr6(",dram.queue_bursts=1"));
  dram.ns({{0, 32768}});
  EXPECT_NEAR(dram.ns({{0, 32768}}), 64 * (3 * 1.875 + 1.25), 64 * 6.875 * kWithin);
}

TEST(BanksDram, RowsOfOneBankTakeTheRowCycleTime) {
  // tRC = tRAS + tRP = 30.21 + 14.82.
  std::vector<DramPiece> pieces;
  for (int k = 0; k < 64; ++k) pieces.push_back({block_at(0, 0, 0, k), 128});
  Asker dram = banks(calm_gddr6());
  EXPECT_NEAR(dram.ns(pieces), 64 * 45.03, 64 * 45.03 * kWithin);
  EXPECT_EQ(dram.counts().row_misses, 64);
  // Writes: tRCDWR + 3 tCCDL + tWL + burst + tWR + tRP = 9.12 + 5.625 + 3.42 + 1.25 + 14.82 + 14.82.
  Asker written = banks(calm_gddr6());
  EXPECT_NEAR(written.ns(pieces, true), 64 * 49.055, 64 * 49.055 * kWithin);
}

TEST(BanksDram, RandomAccessIsBoundByTheBusTheRowCycleOrTheActivates) {
  const auto rotating = [](int count, int banks_of_group, int groups) {
    std::vector<DramPiece> pieces;
    for (int k = 0; k < count; ++k)
      pieces.push_back({block_at(0, k % groups, k / groups % banks_of_group, k), 128});
    return pieces;
  };
  // All banks of a channel: four bursts of 1.25 ns per block.
  Asker all = banks(calm_gddr6());
  EXPECT_NEAR(all.ns(rotating(1024, 4, 4)), 1024 * 5, 1024 * 5 * kWithin);
  // Two banks: tRC / 2 per block.
  Asker two = banks(calm_gddr6());
  EXPECT_NEAR(two.ns(rotating(1024, 2, 1)), 1024 * 45.03 / 2, 1024 * 45.03 / 2 * kWithin);
  // Four activates in 40 ns: 10 ns per block.
  Asker few = banks(calm_gddr6(",dram.tfaw_ns=40"));
  EXPECT_NEAR(few.ns(rotating(1024, 4, 4)), 1024 * 10, 1024 * 10 * kWithin);
  // An activate per 12 ns.
  Asker slow = banks(calm_gddr6(",dram.trrd_ns=12"));
  EXPECT_NEAR(slow.ns(rotating(1024, 4, 4)), 1024 * 12, 1024 * 12 * kWithin);
}

TEST(BanksDram, RefreshTakesItsShare) {
  // Every 1953.125 ns the bus rests for tRTP + tRP + tRFC + tRCDRD = 2.28 + 14.82 + 119.7 + 14.82 = 151.62.
  Asker dram = banks(gddr6());
  double ns = 0;
  const int accesses = random_cases(3200, 1000, 12800);  // of 80 ns
  for (int k = 0; k < accesses; ++k) ns += dram.ns({{k * 8192 % (1 << 22), 8192}});
  const double by_hand = accesses * 80 / (1 - 151.62 / 1953.125);
  EXPECT_NEAR(ns, by_hand, by_hand * kWithin);
}

TEST(BanksDram, RefreshesInAPauseShowOnce) {
  Asker dram = banks(gddr6());
  dram.ns({{0, 8192}});
  dram.pause(1953.125 * 20 - 1333.333 - 80 + 60);  // 60 ns into a refresh, in which nothing goes
  const double by_hand = 119.7 - 60 + 14.82 + 13.68 + 80;
  EXPECT_NEAR(dram.ns({{0, 8192}}), by_hand, by_hand * kWithin);
}

TEST(BanksDram, TurningAround) {
  // A block written behind one read: tWL is ahead, so 3 tCCDL + burst = 6.875. Read behind written: tWTR,
  // then 3 tCCDL + tRL + burst = 6.27 + 20.555.
  Asker dram = banks(calm_gddr6());
  dram.ns({{0, 128}});
  EXPECT_NEAR(dram.ns({{0, 128}}, true), 6.875, 0.01);
  EXPECT_NEAR(dram.ns({{0, 128}}), 26.825, 0.01);
  EXPECT_EQ(dram.counts().turnarounds, 2);
}

TEST(BanksDram, ReadyBurstsGoFirst) {
  // Blocks of two rows of a bank by turns: in order every one opens its row, reordered each row is open once.
  std::vector<DramPiece> pieces;
  for (int k = 0; k < 8; ++k) pieces.push_back({block_at(0, 0, 0, k % 2, k), 128});
  Asker in_order = banks(calm_gddr6(",dram.queue_bursts=1"));
  in_order(pieces);
  EXPECT_EQ(in_order.counts().row_misses, 8);
  Asker reordered = banks(calm_gddr6());
  reordered(pieces);
  EXPECT_EQ(reordered.counts().row_misses, 2);
  EXPECT_EQ(reordered.counts().row_hits, 30);
}

TEST(BanksDram, TinyPartsWork) {
  const Chip chip = calm_gddr6(
      ",dram.channels=1,dram.bank_groups=1,dram.banks_per_group=1,dram.row_bytes=128,dram.burst_bytes=8"
      ",dram.interleave_bytes=8,dram.queue_bursts=1,dram.burst_ns=0.078125,dram.tccdl_ns=0");
  Asker dram = banks(chip);
  EXPECT_GE(dram.ns({{8, 8}, {1 << 20, 4096}, {0, 1}}), 0.078 * 514);
}

TEST(BanksDram, LongTimesEnd) {
  // One bank, hardly any time between refreshes, everything slow.
  const Chip chip = gddr6(
      ",dram.bank_groups=1,dram.banks_per_group=1,dram.trefi_ns=2000,dram.trfc_ns=400,dram.tras_ns=400"
      ",dram.twr_ns=400,dram.twtr_ns=300,dram.tfaw_ns=300");
  Asker dram = banks(chip);
  std::vector<DramPiece> pieces;
  for (int k = 0; k < 64; ++k) pieces.push_back({int64_t{8192} * 97 * k, 128});
  for (int k = 0; k < 20; ++k) EXPECT_GT(dram.ns(pieces, k % 2 == 0), 64 * 400 / 4);
}

// ---- the chip file
// -----------------------------------------------------------------------------------------

std::string refusal(const std::string& chip) {
  try {
    find_chip(chip);
  } catch (const UserError& error) {
    return error.what();
  }
  return "accepted";
}

TEST(DramModels, TheChipChooses) {
  EXPECT_EQ(find_chip("mncore2").transfer.dram_model, "rows");
  EXPECT_NE(gddr6().hash, find_chip("mncore2").hash);
  EXPECT_NE(gddr6().hash, gddr6(",dram.tfaw_ns=40").hash);
  EXPECT_EQ(find_chip("mncore2,dram.tfaw_ns=40").hash, find_chip("mncore2").hash);  // isn't asked
  EXPECT_EQ(gddr6().name, "mncore2,transfer.dram_model=banks");
  EXPECT_EQ(find_chip(gddr6().name).hash, gddr6().hash);
  EXPECT_THAT(refusal("mncore2,transfer.dram_model=magic"),
              HasSubstr("allowed: rows, banks, or one of a plugin"));
  EXPECT_THAT(refusal("tiny,transfer.dram_model=banks"), HasSubstr("has no section 'dram'"));
  EXPECT_THAT(refusal("mncore2,transfer.dram_model=banks,dram.burst_ns=1"),
              HasSubstr("move 1.28e+11 bytes per second; allowed"));
  EXPECT_THAT(refusal("mncore2,dram.interleave_bytes=16"), HasSubstr("allowed: from 'dram.burst_bytes'"));
  EXPECT_THAT(refusal("mncore2,dram.trfc_ns=2000"),
              HasSubstr("allowed: more than the other times of the section together"));
}

TEST(DramModels, OlderChipFilesGoWithout) {
  std::string text = read_file(source_path("configs/mncore2.yaml"));
  const auto cut = [&](const std::string& from, const std::string& to) {
    const size_t begin = text.find(from);
    text.erase(begin, to.empty() ? text.find('\n', begin) + 1 - begin : text.find(to, begin) - begin);
  };
  cut("dram:\n", "host_link:");
  cut("host:\n", "# Distances");
  for (const char* key : {"  dram_model:", "  way:", "  launch_seconds:"}) cut(key, "");
  const Chip chip = parse_chip(text, "older.yaml");
  EXPECT_EQ(chip.hash, find_chip("mncore2").hash);
  EXPECT_EQ(chip.transfer.dram_model, Chip().transfer.dram_model);
  EXPECT_EQ(chip.host_link.launch_seconds, Chip().host_link.launch_seconds);
  EXPECT_EQ(chip.host.bytes_per_second, Chip().host.bytes_per_second);
  // A section that is there is whole.
  try {
    parse_chip(text + "dram:\n  channels: 4\n", "part.yaml");
    ADD_FAILURE() << "accepted";
  } catch (const UserError& error) {
    EXPECT_THAT(error.what(), HasSubstr("missing key 'bank_groups' in section 'dram'"));
  }
}

TEST(DramModels, KeysOfTheChipCanBeChanged) {
  const Chip chip = find_chip("mncore2,clock_hz=1e9,counts.groups=2");
  EXPECT_EQ(chip.clock_hz, 1e9);
  EXPECT_EQ(chip.groups, 2);
  EXPECT_EQ(chip.name, "mncore2,clock_hz=1e9,counts.groups=2");
  EXPECT_THAT(refusal("tiny,dram.channels=4"), HasSubstr("the chip has no section 'dram'"));
  EXPECT_THAT(refusal("mncore2,clock=1"), HasSubstr("found 'clock', which is no key"));
  EXPECT_THAT(refusal("mncore2,name=x"), HasSubstr("found 'name', which is no key"));
  EXPECT_THAT(refusal("mncore2,clock_hz=fast"), HasSubstr("'clock_hz' is 'fast'; allowed"));
  EXPECT_THAT(refusal("mncore2,clock_hz=1e9,"), HasSubstr("accepted"));
  EXPECT_THAT(refusal("mncore2,clock_hz=1e9,x"), HasSubstr("found 'x' behind the chip"));
  EXPECT_THAT(refusal("mncore3,clock_hz=1e9"), HasSubstr("no chip is named 'mncore3'"));
}

}  // namespace
}  // namespace kodama::isa
