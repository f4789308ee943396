#include "scheduler/optimizer/optimize.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <random>

#include "assembler/assembler.h"
#include "isa/error.h"
#include "isa/hazards.h"
#include "isa/sequencer.h"

namespace kodama::scheduler {
namespace {

using testing::HasSubstr;

const isa::Chip& chip() {
  static const isa::Chip kChip = isa::find_chip("tiny");
  return kChip;
}
isa::Program program(const std::string& text) {
  return assembler::assemble(text, "test.vsm", chip());
}
std::string optimized(const std::string& text, const OptimizeOptions& options = {}) {
  return assembler::print(optimize(program(text), chip(), options).program);
}
std::string plain(const std::string& text) {
  return assembler::print(plain_form(program(text), chip()));
}

TEST(Optimize, PacksIndependentOperations) {
  EXPECT_EQ(optimized("iadd $lr0v $ls0v $lr8v\nfvadd $lm0v $lm0v $ln0v\n"),
            "iadd $lr0v $ls0v $lr8v; fvadd $lm0v $lm0v $ln0v\n");
}

TEST(Optimize, DropsNopsThatNobodyNeeds) {
  EXPECT_EQ(optimized("linc $lr0v $lr0v\nnop/9\nlinc $lr0v $lr0v\nnop\n"),
            optimized("linc $lr0v $lr0v\nnop\nlinc $lr0v $lr0v\n"));
}

TEST(Optimize, ReadsTheForwardingRegisterInsteadOfARegister) {
  EXPECT_EQ(optimized("linc $lr0v $lr0v\nnop\nlinc $lr0v $lr8v\n"), "linc $lr0v $lr0v\nlinc $aluf $lr8v\n");
  // What is overwritten later need not be written.
  EXPECT_EQ(optimized("linc $lr0v $lr0v\nnop\nlinc $lr0v $lr0v\n"),
            "linc $lr0v $nowrite\nlinc $aluf $lr0v\n");
}

/// A register written in every cycle holds what the last one wrote.
TEST(Optimize, ForwardsOnlyWhatIsTheSameInEveryCycle) {
  const std::string differs = "linc $lm0v $lr0\nnop/2\nlinc $lr0 $ln0v\n";
  EXPECT_EQ(optimized(differs), differs);
  EXPECT_EQ(optimized("imm i\"1\" $lr0\nnop/2\nlinc $lr0 $ln0v\n"), "imm i\"1\" $lr0\nlinc $aluf $ln0v\n");
  // The lower LW of $aluf isn't 0, as that of a register read as an LW is.
  const std::string lower = "lpassa $llr0v $lr16v\nnop\nlpassa $lr16v $llr32v\n";
  EXPECT_EQ(optimized(lower), lower);
}

TEST(Optimize, NarrowsWritesOfOneValue) {
  EXPECT_EQ(optimized("imm i\"1\" $lr0\nimm i\"2\" $ls0\nnop/2\nladd $lr0 $ls0 $ln0v\n"),
            "imm i\"2\" $ls0/1000\nimm i\"1\" $lr0\nladd $aluf $ls0 $ln0v\n");
}

TEST(Optimize, KeepsEverythingUnlessToldOtherwise) {
  const std::string text = "linc $lr0v $lr0v\nnop\nlinc $lr16v $ln0v\n";
  EXPECT_THAT(optimized(text), HasSubstr("$lr0v $lr0v"));
  OptimizeOptions options;
  options.live_outs = parse_live_outs("lm1:0-7");
  EXPECT_EQ(optimized(text, options), "linc $lr16v $ln0v\n");
  options.live_outs = parse_live_outs("lm1:8-9");
  EXPECT_EQ(optimized(text, options), "");
}

TEST(Optimize, StaysBetweenStatements) {
  EXPECT_EQ(optimized("linc $lr0v $lr0v\nnop/2\nd get $lr0n0c0b0m0p0 1\nfvadd $lm0v $lm0v $ln0v\n"),
            "linc $lr0v $lr0v\nd get $lr0n0c0b0m0p0 1\nfvadd $lm0v $lm0v $ln0v\n");
}

/// A mask statement applies to no write of a step that has a mask of its own.
TEST(Optimize, DoesNotLiftABlockMask) {
  const std::string text = "maskn 21\nlinc $lr0v $ln0v\nfvadd $ls0v $ls0v $lm0v/1000\n";
  EXPECT_EQ(optimized(text), text);
}

TEST(Optimize, WaitsStayBetweenTransfersAndTheirUsers) {
  const std::string result = optimized(
      "mvp/n64i01 $p0@0 $lc0@0.0\nnop/3\nnop; wait i01\nnop\nl2bmb $lc0 $lb0\nnop/3\nl1bmd $lb0 $lr0v\nlinc "
      "$ls0v "
      "$ls0v\n");
  EXPECT_TRUE(isa::find_hazards(program(result), chip()).empty()) << result;
  EXPECT_EQ(isa::count(program(result)).steps, 3) << result;
}

TEST(Optimize, RenamesInsideWhatIsDead) {
  // $lm8 is a detour through the port that the loads need.
  const std::string text =
      "linc $lr0v $lm8v\nnop/2\nlinc $lm8v $ln0v\nlinc $lr8v $lm8v\nnop/2\nlinc $lm8v $ln8v\nlinc $lr16v "
      "$lm8v\n";
  OptimizeOptions options;
  options.allow_rename = true;
  options.live_outs = parse_live_outs("lm1,lm0");
  const Optimized result = optimize(program(text), chip(), options);
  EXPECT_TRUE(result.is_better);
  EXPECT_TRUE(isa::find_hazards(result.program, chip()).empty());
}

TEST(Optimize, SaysWhereHazardsAre) {
  try {
    optimized("linc $lr0v $lr0v\nlinc $lr0v $lr8v\n");
    FAIL();
  } catch (const isa::UserError& error) {
    EXPECT_THAT(error.what(), HasSubstr("test.vsm:2: "));
  }
}

TEST(Optimize, BoundsAreNotBeaten) {
  const Optimized result =
      optimize(program("linc $lr0v $lr0v\nnop\nlinc $lr8v $lr8v\nfvadd $lm0v $lm0v $ln0v\n"), chip());
  EXPECT_EQ(result.bounds.unit, 2);
  EXPECT_EQ(result.bounds.unit_name, "alu");
  EXPECT_EQ(result.bounds.steps, 2);
  EXPECT_EQ(result.steps_after, 2);
}

TEST(Optimize, WhatIsLeftAloneIsOutsideTheBound) {
  // Forwarding is forbidden somewhere in the second segment, so it stays as it is, with its nops.
  const std::string text =
      "linc $lr0v $lr0v\nnop\nlinc $lr8v $lr8v\nd get $lr0n0c0b0m0p0 1\nlinc $ls0v $ls0v; "
      "noforward\nnop/40\nlinc "
      "$ls8v $ls8v\n";
  const Optimized result = optimize(program(text), chip());
  EXPECT_EQ(result.untouched, 1);
  EXPECT_EQ(result.untouched_steps, 42);
  EXPECT_EQ(result.bounds.steps, 2);
  EXPECT_EQ(result.steps_after, 2 + 42);
}

TEST(Optimize, CyclesAreWhatCounts) {
  // The transfer takes longer than all steps: fewer of them are not fewer cycles.
  std::string text = "mvp/n4096i01 $d0 $lc0@.0\n";
  for (int k = 0; k < 8; ++k) text += fmt::format("linc $lr{0}v $lr{0}v\nnop\n", 8 * k);
  text += "nop; wait i01\n";
  OptimizeOptions options;
  const Optimized by_cycles = optimize(program(text), chip(), options);
  EXPECT_EQ(by_cycles.steps_before, 17);
  EXPECT_LE(by_cycles.cycles_after, by_cycles.cycles_before);
  options.objective = Objective::kSteps;
  const Optimized by_steps = optimize(program(text), chip(), options);
  EXPECT_TRUE(by_steps.is_better);
  EXPECT_LT(by_steps.steps_after, by_steps.steps_before);
  EXPECT_LE(by_cycles.cycles_after, by_steps.cycles_after);
  EXPECT_EQ(by_steps.cycles_after, isa::predict_cycles(by_steps.program, chip()).total());
}

TEST(Optimize, WorkGoesByWhileTransfersAreUnderWay) {
  // Nothing of the chain needs the transfer, but the wait stands before it; with the wait first, one step
  // fewer is possible, and many cycles more.
  std::string text = "mvp/n4096i01 $d0 $lc0@.0\nnop; wait i01\nl2bmb $lc0 $lb0\n";
  for (int k = 0; k < 12; ++k) text += "linc $lr0v $lr0v\nnop\n";
  const Optimized by_cycles = optimize(program(text), chip());
  OptimizeOptions options;
  options.objective = Objective::kSteps;
  const Optimized by_steps = optimize(program(text), chip(), options);
  EXPECT_EQ(by_steps.steps_after, 12);
  EXPECT_EQ(by_cycles.steps_after, 13);
  // The transfer, and the steps that need it.
  EXPECT_EQ(by_cycles.cycles_after, isa::predict_cycles(program("mvp/n4096i01 $d0 $lc0@.0\nnop; wait i01\n"
                                                                "l2bmb $lc0 $lb0\n"),
                                                        chip())
                                            .total() -
                                        4);
  EXPECT_LT(by_cycles.cycles_after + 40, by_steps.cycles_after);
}

/// By each objective, the result is never worse than the input, nor than what the other objective finds;
/// without transfers, they are one.
TEST(Optimize, EachObjectiveIsBestByItself) {
  int with_transfers = 0;
  int differ = 0;
  for (uint64_t seed = 1; seed <= 30; ++seed) {
    // Chains on two units, transfers of several sizes, their waits anywhere behind them, and who reads them.
    std::mt19937_64 random(seed);
    const auto below = [&](uint64_t bound) { return static_cast<int>(random() % bound); };
    std::string text;
    int tag = 0;
    const int transfers = below(4);
    for (int k = 0; k < 12; ++k) {
      if (tag < transfers && below(2) == 0) {
        ++tag;
        text +=
            fmt::format("mvp/n{}i{:02} $d{} $lc{}@.0\nnop/4\n", 64 << below(6), tag, 8192 * tag, 2048 * tag);
        for (int n = below(4); n > 0; --n) text += fmt::format("linc $lr{0}v $lr{0}v\nnop\n", 8 * below(4));
        text += fmt::format("nop; wait i{:02}\nl2bmb $lc{} $lb{}\n", tag, 2048 * tag, 64 * tag);
      }
      text += fmt::format("linc $lr{0}v $lr{0}v\nnop/{1}\nfvadd $ls{0}v $ls{0}v $ls{0}v\nnop/3\n",
                          8 * below(4), 1 + below(3));
      if (below(8) == 0) text += "d get $lr0n0c0b0m0p0 1\n";
    }
    SCOPED_TRACE(text);
    OptimizeOptions options;
    options.effort = 10;
    const Optimized by_cycles = optimize(program(text), chip(), options);
    options.objective = Objective::kSteps;
    const Optimized by_steps = optimize(program(text), chip(), options);
    EXPECT_EQ(by_cycles.cycles_after, isa::predict_cycles(by_cycles.program, chip()).total());
    EXPECT_LE(by_cycles.cycles_after, by_cycles.cycles_before);
    EXPECT_LE(by_cycles.cycles_after, by_steps.cycles_after);
    EXPECT_LE(by_steps.steps_after, by_cycles.steps_after);
    EXPECT_LE(by_steps.steps_after, by_steps.steps_before);
    EXPECT_TRUE(isa::find_hazards(by_cycles.program, chip()).empty());
    if (transfers == 0) {
      EXPECT_EQ(by_cycles.program, by_steps.program);
    } else {
      ++with_transfers;
      differ += by_cycles.cycles_after < by_steps.cycles_after ? 1 : 0;
    }
  }
  EXPECT_GT(with_transfers, 10);
  EXPECT_GT(differ, 5);
}

TEST(Optimize, LiveOutsThatCantBeRead) {
  for (const char* text : {"lm2", "lm0:", "lm0:5-1", "lm0:a", "", "lm0,", "lm0:1-2-3"})
    EXPECT_THROW(parse_live_outs(text), isa::UserError) << text;
  EXPECT_EQ(parse_live_outs("t,grf0:4-7,pdm"),
            (std::vector<LiveOut>{{isa::HazardResource::kT, 0, INT64_MAX},
                                  {isa::HazardResource::kGrf0, 4, 8},
                                  {isa::HazardResource::kPdm, 0, INT64_MAX}}));
}

TEST(Plain, OneOperationPerLine) {
  EXPECT_EQ(plain("linc $lr0v $lr0v; fvadd $lr0v $lr0v $lm0v\nnop/2\nlpassa $lm0v $ls0v\n"),
            // The reader of what the other writes comes first.
            "fvadd $lr0v $lr0v $lm0v\nlinc $lr0v $lr0v\nnop\nlpassa $lm0v $ls0v\n");
}

TEST(Plain, SwapsAndSharedReadersStayTogether) {
  const std::string swap = "lpassa $lr0v $ls0v; fvpassa $ls0v $lr0v\n";
  EXPECT_EQ(plain(swap), swap);
  const std::string readers = "lpassa $lr0v $nowrite\nlinc $aluf $ls0v; fvpassa $aluf $ln0v\n";
  EXPECT_EQ(plain(readers), readers);
}

}  // namespace
}  // namespace kodama::scheduler
