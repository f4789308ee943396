#include "isa/progress.h"

#include <gtest/gtest.h>

namespace kodama::isa {
namespace {

TEST(Progress, HasPhaseAndTimeLeft) {
  EXPECT_EQ(progress_line("compiling", 10, 40, "conv1", 20, 0.5, 80),
            "compiling [#####...............] 10/40, 15 s left: conv1");
  EXPECT_EQ(progress_line("running", 1, 3601, "", 1, 1, 80),
            "running [....................] 1/3601, 1 h 0 min left");
  EXPECT_EQ(progress_line("running", 0, 4, "", 2, 0, 80), "running [....................] 0/4");
  EXPECT_EQ(progress_line("running", 4, 4, "", 2, 0.5, 80), "running [####################] 4/4");
}

TEST(Progress, OfUnknownLengthHasTheTimeSpent) {
  EXPECT_EQ(progress_line("importing", 0, 0, "", 75.9, 0, 80), "importing for 1 min 15 s");
}

TEST(Progress, FitsTheTerminalAndObeysNoName) {
  EXPECT_EQ(progress_line("running", 0, 0, "a\033[31m", 3, 0, 80), "running for 3 s: a\\u001b[31m");
  EXPECT_EQ(progress_line("running", 0, 0, "\u00e4\u00e4", 3, 0, 20), "running for 3 s: \u00e4");
}

TEST(Progress, BarsEnd) {
  ProgressBar bar("one");
  bar.update(1, 2, "x");
  bar.phase("two");
  bar.finish();
  bar.finish();
}

}  // namespace
}  // namespace kodama::isa
