#include "isa/parallel.h"

#include <gtest/gtest.h>

#include <atomic>
#include <stdexcept>
#include <string>
#include <vector>

namespace kodama::isa {
namespace {

TEST(Parallel, EachIsDoneOnce) {
  for (const size_t count : {0, 1, 2, 1000}) {
    std::vector<int> done(count, 0);
    for_each_in_parallel(count, [&](size_t k) { ++done[k]; });
    EXPECT_EQ(done, std::vector<int>(count, 1));
  }
}

TEST(Parallel, NestedLoopsEndToo) {
  std::atomic<int> done = 0;
  for_each_in_parallel(20, [&](size_t) {
    for_each_in_parallel(20, [&](size_t) { for_each_in_parallel(20, [&](size_t) { ++done; }); });
  });
  EXPECT_EQ(done, 8000);
}

TEST(Parallel, TheFirstErrorIsTheOneALoopWouldMeet) {
  for (int round = 0; round < 200; ++round) {
    std::vector<int> done(100, 0);
    try {
      for_each_in_parallel(100, [&](size_t k) {
        done[k] = 1;
        if (k >= 7) throw std::runtime_error(std::to_string(k));
      });
      FAIL();
    } catch (const std::runtime_error& error) {
      EXPECT_STREQ(error.what(), "7");
    }
    for (size_t k = 0; k <= 7; ++k) EXPECT_EQ(done[k], 1);
  }
  // What took a processor has given it back.
  std::atomic<int> done = 0;
  for_each_in_parallel(100, [&](size_t) { ++done; });
  EXPECT_EQ(done, 100);
}

}  // namespace
}  // namespace kodama::isa
