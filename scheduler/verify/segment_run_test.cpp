#include "scheduler/verify/segment_run.h"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "isa/cancellation.h"
#include "scheduler/verify/verify.h"

namespace kodama::verify {
namespace {

std::vector<CellMark> read(const MarkMemory& memory, int64_t first, int64_t count) {
  std::vector<CellMark> marks(static_cast<size_t>(count));
  memory.read(first, marks);
  return marks;
}

TEST(MarkMemory, StretchesAreTheirCells) {
  std::mt19937_64 random(1);
  MarkMemory memory(7, false);
  const MarkMemory untouched(7, false);
  std::map<int64_t, CellMark> written;
  // Over the borders of several pages.
  constexpr int64_t kCells = 3000;
  for (int round = 0; round < 200; ++round) {
    const int64_t first = static_cast<int64_t>(random() % kCells);
    std::vector<CellMark> marks(random() % 1200);
    for (size_t k = 0; k < marks.size(); ++k) written[first + static_cast<int64_t>(k)] = marks[k] = random();
    memory.write(first, marks);
    const int64_t from = static_cast<int64_t>(random() % kCells);
    const std::vector<CellMark> found = read(memory, from, 900), before = read(untouched, from, 900);
    for (int64_t k = 0; k < 900; ++k) {
      const auto own = written.find(from + k);
      EXPECT_EQ(found[static_cast<size_t>(k)],
                own == written.end() ? before[static_cast<size_t>(k)] : own->second)
          << "cell " << from + k;
    }
  }
  EXPECT_TRUE(read(memory, 0, 0).empty());
}

TEST(MarkMemory, SaysWhereItDiffers) {
  MarkMemory one(3, false), two(3, false);
  EXPECT_EQ(one.difference(two), -1);
  const std::vector<CellMark> marks(700, 5);
  one.write(400, marks);
  EXPECT_EQ(one.difference(two), 400);
  two.write(400, marks);
  EXPECT_EQ(one.difference(two), -1);
  two.write(1099, std::vector<CellMark>{6});
  EXPECT_EQ(one.difference(two), 1099);
  one.write(1099, std::vector<CellMark>{kUnwritten});
  EXPECT_EQ(one.difference(two), -1) << "what nobody has written may be anything";
}

TEST(CellSet, HasWhatWasPutIntoIt) {
  std::mt19937_64 random(2);
  CellSet cells;
  std::set<int64_t> wanted;
  for (int round = 0; round < 100; ++round) {
    const int64_t first = static_cast<int64_t>(random() % 20000),
                  count = static_cast<int64_t>(random() % 9000);
    const bool inside = random() % 2 == 0;
    cells.set(first, count, inside);
    for (int64_t cell = first; cell < first + count; ++cell) {
      if (inside) {
        wanted.insert(cell);
      } else {
        wanted.erase(cell);
      }
    }
    std::set<int64_t> found;
    cells.for_each([&](int64_t cell) { found.insert(cell); });
    EXPECT_EQ(found, wanted);
  }
}

TEST(VerifySegment, EndsWhenItIsCancelled) {
  // Its checks wait for each other: none may wait for one that never begins.
  const isa::Chip chip = isa::find_chip("mncore2");
  const isa::Cancellation cancellation = [] {
    isa::Cancellation made;
    made.cancel();
    return made;
  }();
  for (int round = 0; round < 20; ++round) {
    std::thread([&] {
      const isa::CancellationScope scope(cancellation);
      EXPECT_THROW(verify_segment({}, {}, chip), isa::Cancelled);
    }).join();
  }
}

}  // namespace
}  // namespace kodama::verify
