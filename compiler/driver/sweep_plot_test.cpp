#include "compiler/driver/sweep_plot.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace kodama::compiler {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(SweepPlot, NumbersHaveTheirPlaces) {
  const std::string script =
      gnuplot_script({"m", "memory.l2bm_lw", {"16384", "32768", "131072"}, {{"cycles", {3, {}, 1}}}});
  EXPECT_THAT(script, HasSubstr("set logscale x 2\n"));
  EXPECT_THAT(script, HasSubstr("$line0 << END\n16384 3\n32768 ?\n131072 1\nEND\n"));
}

TEST(SweepPlot, WordsStandInARow) {
  const std::string script = gnuplot_script({"m", "planner", {"pbqp", "2"}, {{"a", {3, 2}}, {"b", {1, 1}}}});
  EXPECT_THAT(script, HasSubstr("set xtics ('pbqp' 0, '2' 1)\n"));
  EXPECT_THAT(script, Not(HasSubstr("logscale")));
  EXPECT_THAT(script, HasSubstr("title 'a', $line1"));
}

TEST(SweepPlot, TextsAreNoCommands) {
  const std::string script = gnuplot_script({"a'\n!rm x", "k", {"`ls`"}, {{"'; system 'x", {1}}}});
  EXPECT_THAT(script, HasSubstr("set title 'a'' !rm x'\n"));
  EXPECT_THAT(script, HasSubstr("title '''; system ''x'\n"));
}

}  // namespace
}  // namespace kodama::compiler
