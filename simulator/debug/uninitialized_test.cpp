#include "simulator/debug/uninitialized.h"

#include <gtest/gtest.h>

#include "assembler/assembler.h"

namespace kodama::simulator {
namespace {

std::string check(const std::string& text) {
  const isa::Chip chip = isa::find_chip("tiny");
  Machine machine(chip);
  InitializationTracker tracker(machine);
  RunOptions options;
  options.before_statement = [&](const isa::Statement& statement) {
    tracker.before(statement);
    return true;
  };
  machine.run(assembler::assemble(text, "a.vsm", chip), options);
  return fmt::format("{}", fmt::join(tracker.reports(), "\n"));
}

TEST(Uninitialized, PeMemories) {
  EXPECT_EQ(
      check("d set $lm0 4 0000000000000001000000000000000200000000000000030000000000000004\n"
            "lpassa $lm0v $lr0v $ls0v $ln0v $t\nnop/2\nladd $lr0v $ls0v $nowrite\nladd $ln0v $t $nowrite\n"),
      "");
  EXPECT_EQ(check("lpassa $lm4v $lr0v\n"),
            "line 1: lpassa reads $lm4v, which nothing has written: LM0(n0c0b0m0p0,4) and 1023 more");
  EXPECT_EQ(check("d set $lr0n0c0b0m0p0 1 0000000000000001\nlpassa $lr0 $nowrite\n"),
            "line 2: lpassa reads $lr0, which nothing has written: GREG0(n0c0b0m0p1,0) and 1015 more");
  EXPECT_EQ(check("lpassa $t $nowrite\nlpassa $mauf $nowrite\n"),
            "line 1: lpassa reads $t, which nothing has written: TREG(n0c0b0m0p0,0) and 511 more\n"
            "line 2: lpassa reads $mauf, which nothing has written: MAUF(n0c0b0m0p0,0) and 127 more");
  EXPECT_EQ(check("lpassa $peid $lr0\nlpassa $aluf $nowrite\n"), "");
}

TEST(Uninitialized, MasksDecideWhatIsWritten) {
  EXPECT_EQ(check("lpassa $peid $lr0v/1000\nlpassa $lr0 $nowrite\n"), "");
  EXPECT_EQ(check("lpassa $peid $lr0v/1000\nlpassa $lr0v $nowrite\n"),
            "line 2: lpassa reads $lr0v, which nothing has written: GREG0(n0c0b0m0p0,2) and 767 more");
  EXPECT_EQ(check("maskr 24\nlpassa $peid $lr0v\nmask 0\nlpassa $lr2 $nowrite\n"),
            "line 4: lpassa reads $lr2, which nothing has written: GREG0(n0c0b0m0p0,2) and 1023 more");
  EXPECT_EQ(check("lpassa $peid $lr0/$imr3\n"),
            "line 1: lpassa reads $imr3, which nothing has written: OMR(n0c0b0m0p0,3) and 127 more");
  // Only PE 0 of each MAB has number 0.
  EXPECT_EQ(check("lpassa $subpeid $omr1\nlpassa $peid $lr0/$imr1\nlpassa $lr0 $nowrite\n"),
            "line 3: lpassa reads $lr0, which nothing has written: GREG0(n0c0b0m0p1,0) and 767 more");
}

TEST(Uninitialized, AddressesAreThoseThatPesUse) {
  EXPECT_EQ(check("lpassa $peid $lm0\nzero $mb\nlpassa $lm0 $nowrite\n"), "");
  EXPECT_EQ(check("lpassa $peid $lm0\nimm i\"2\" $mb\nlpassa $lm0 $nowrite\n"),
            "line 3: lpassa reads $lm0, which nothing has written: LM0(n0c0b0m0p0,2) and 1023 more");
  EXPECT_EQ(check("lpassa $peid $lm0\nzero $t\nlpassa $lmt $nowrite\n"), "");
  EXPECT_EQ(check("lpassa $peid $lm0\nlpassa $lm0j0 $nowrite\n"),
            "line 2: lpassa reads $lm0j0, which nothing has written: LM0(n0c0b0m0p0,2) and 255 more");
}

TEST(Uninitialized, MemoriesAboveThePes) {
  EXPECT_EQ(check("lpassa $peid $lr0\nl1bmd $lr0 $lb0\nl2bmd $lb0 $lc0\nmvp/n128i01 $lc0@0.0 "
                  "$d0@0\nmvp/n64i02 $d0@0 $p0@1\n"
                  "nop; wait i02\n"),
            "line 4: mvp reads $lc (L2BM), which nothing has written: L2BM(n0c0,64) and 63 more");
  EXPECT_EQ(check("l1bmp $lb0 $lr0v\n"),
            "line 1: l1bmp reads $lb (L1BM), which nothing has written: L1BM(n0c0b0,0) and 31 more");
  EXPECT_EQ(check("r 1 000000000 001 0000000000000001\nd get $d0n1 2\n"),
            "line 2: d get reads d get $d0n1 2, which nothing has written: DRAM(n1,1)");
  EXPECT_EQ(check("l1bmm $lbi $lr0\n"),
            "line 1: l1bmm reads $lbi (turnaround), which nothing has written: LBI(n0c0b0,0) and 7 more");
  EXPECT_EQ(check("zero $lr0v\nnop\ngmwrite $lr0v $lx0\ngmmul $lx $lr0 $nowrite\n"),
            "line 4: gmmul reads $lx0, which nothing has written: MATX(n0c0b0m0,4) and 127 more");
}

}  // namespace
}  // namespace kodama::simulator
