#include "simulator/debug/debugger.h"

#include <gtest/gtest.h>

#include <random>
#include <sstream>

#include "assembler/assembler.h"
#include "isa/error.h"

namespace kodama::simulator {
namespace {

const std::string kSource =
    "d set $lm0n0c0b0m0p0 1 400000003F800000\n"
    "fvadd $lm0 $lm0 $lr0\n"
    "nop/2\n"
    "fvadd $lr0 $lr0 $ln0\n"
    "d getf $ln0n0c0b0m0p0 1\n";

std::string session(const std::string& commands, DebuggerOptions options = {}) {
  const isa::Chip chip = isa::find_chip("tiny");
  const isa::Program program = assembler::assemble(kSource, "a.vsm", chip);
  options.source = kSource;
  std::istringstream in(commands);
  std::ostringstream out;
  debug_program(program, chip, options, in, out);
  return out.str();
}

TEST(Debugger, StepsAndPrints) {
  EXPECT_EQ(session("step 2\nprint $lr0n0c0b0m0p0 f\np $mauf0n0c0b0m0p0 f 1\ninfo\nwhere\ns\nc\nq\n"),
            "1: d set $lm0n0c0b0m0p0 1 400000003F800000\n"
            "3: nop/2\n"
            "GREG0(n0c0b0m0p0,0):(4, 2) (0x40800000, 0x40000000)\n"
            "MAUF(n0c0b0m0p0,0):(4, 2) (0x40800000, 0x40000000)\n"
            "steps so far: 1\nbreakpoints: none\n"
            "3: nop/2\n"
            "4: fvadd $lr0 $lr0 $ln0\n"
            "DEBUG-LM1(n0c0b0m0p0,0):(8, 4) (0x41000000, 0x40800000) #d getf $ln0n0c0b0m0p0 1\n"
            "the program has ended: 4 steps, 16 cycles\n");
}

TEST(Debugger, BreakpointsAndWatches) {
  DebuggerOptions options;
  options.stop_at_start = false;
  options.breakpoints = {4};
  options.watches = {"$ln0n0c0b0m0p0"};
  EXPECT_EQ(session("set $lr0n0c0b0m0p0 3f8000003f800000\nb 5\nd 5\ncontinue\nc\n", options),
            "breakpoint at line 4\n"
            "4: fvadd $lr0 $lr0 $ln0\n"
            "changed: LM1(n0c0b0m0p0,0):(f:2, i:{{0x4000,0x0},{0x4000,0x0}}, v:0x4000000040000000)\n"
            "    was: LM1(n0c0b0m0p0,0):(f:0, i:{{0x0,0x0},{0x0,0x0}}, v:0x0)\n"
            "5: d getf $ln0n0c0b0m0p0 1\n"
            "DEBUG-LM1(n0c0b0m0p0,0):(2, 2) (0x40000000, 0x40000000) #d getf $ln0n0c0b0m0p0 1\n"
            "the program has ended: 4 steps, 16 cycles\n");
}

TEST(Debugger, ListShowsWhereItStands) {
  EXPECT_EQ(session("b 3\nc\nlist 3\n").substr(43 + 21 + 9),
            "      1  d set $lm0n0c0b0m0p0 1 400000003F800000\n"
            "      2  fvadd $lm0 $lm0 $lr0\n"
            ">*    3  nop/2\n"
            "      4  fvadd $lr0 $lr0 $ln0\n"
            "      5  d getf $ln0n0c0b0m0p0 1\n");
}

TEST(Debugger, ErrorsDoNotEndTheSession) {
  const std::string out = session(
      "jump\nprint\nprint $lq0\nprint $lm1n0c0b0m0p0\nprint $lx99\nprint $aluf x\nbreak 0\ndelete 7\nunwatch "
      "$lm0\n"
      "set $lm0\nset $lm0 xyz\nstep -1\nprint $lm0n9c0b0m0p0\nc\nc\nprint $lr0n0c0b0m0p0 f\n");
  EXPECT_EQ(std::count(out.begin(), out.end(), '\n'), 1 + 13 + 1 + 1 + 1 + 1) << out;
  EXPECT_NE(out.find("no command 'jump'"), std::string::npos);
  EXPECT_NE(out.find("error: the program has ended"), std::string::npos);
  EXPECT_NE(out.find("GREG0(n0c0b0m0p0,0):(4, 2)"), std::string::npos);
}

TEST(Debugger, SurvivesAnyCommands) {
  std::mt19937 random(1);
  const std::string words[] = {"step",       "c",     "break", "print", "set",   "$lm0",
                               "n0c0b0m0p0", "$aluf", "4",     "f",     "-1",    "99999999999999999999",
                               "list",       "\n",    "\n",    "$lx",   "watch", "\x01",
                               "$lt",        "#",     " "};
  for (int i = 0; i < 500; ++i) {
    std::string commands;
    for (int k = 0; k < 30; ++k)
      commands += words[random() % std::size(words)] + (random() % 3 == 0 ? "" : " ");
    session(commands);
  }
}

TEST(Debugger, ReadsEveryKindOfPlace) {
  const std::string out = session(
      "s 4\nprint $lx0n0c0b0m0\nprint $ly63n0c0b0m0 f\nprint $mbn0c0b0m0p0\nprint $lbin0c0b0\nprint $dar3n0\n"
      "print $omr1n0c0b0m0p0\nprint $lt0n0c0b0m0p0\nprint $lb0n0c0b0 d 2\nprint $lc0n0c0\nprint $d0n0\nprint "
      "$p0n0\n"
      "print $mreadf4n0c0b0m0p0 h\n");
  for (const char* name : {"MATX(", "MATY(", "BAR0(", "LBI(", "DAR(", "OMR(", "TREG(", "L1BM(n0c0b0,1)",
                           "L2BM(", "DRAM(", "PDM(", "MREADF("}) {
    EXPECT_NE(out.find(name), std::string::npos) << name << "\n" << out;
  }
}

}  // namespace
}  // namespace kodama::simulator
