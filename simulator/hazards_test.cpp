#include "isa/hazards.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "assembler/assembler.h"
#include "assembler/random_program.h"
#include "isa/costs.h"
#include "simulator/golden/differential.h"
#include "simulator/golden/golden_machine.h"
#include "simulator/machine.h"
#include "simulator/test_chip.h"

/// Every rule of section 9 of the ISA page, one step too early and just in time: what the checker says, and
/// what the reader gets on the hardware and on the emulator.
namespace kodama::simulator {
namespace {

using isa::HazardViolation;
using isa::Space;
using ::testing::HasSubstr;

struct Rule {
  std::string name;
  int64_t isa::HazardGaps::*gap;  ///< of the chip; null = `steps`
  int64_t steps;                  ///< needed between
  std::string setup;              ///< before, far away
  std::string writer;
  std::string reader;
  std::string resource;  ///< as the message names it
  Space space;           ///< where the reader's result is
  int64_t address;
  uint64_t old_value;
  uint64_t new_value;
};

constexpr int64_t isa::HazardGaps::*kPe = nullptr;

std::vector<Rule> rules() {
  std::vector<Rule> all;
  const uint64_t seven = 0x0000000700000007;
  const uint64_t nine = 0x0000000900000009;
  const std::string nines = "imm i\"9\" $lr40v\nimm i\"9\" $llr48v\n";
  const auto pe = [&](const std::string& name, const std::string& memory, int64_t steps,
                      const std::string& resource) {
    all.push_back({name, kPe, steps,
                   "immu i\"7\" $ls40v\nimm i\"7\" $lr48v\nnop/4\nlpassa $lr48v " + memory + "\n" + nines,
                   "lpassa $lr40v " + memory, "lpassa " + memory + " $ls0v", resource, Space::kGrf1, 0, seven,
                   nine});
  };
  pe("LM0", "$lm0v", 2, "LM0");
  pe("LM1", "$ln0v", 2, "LM1");
  pe("GRF0", "$lr0v", 1, "GRF0");
  pe("GRF1", "$ls8v", 1, "GRF1");
  pe("T", "$lt", 1, "T");
  // T as an address: LM0 holds 7 at 0 and 9 at 8; T is 0, then 8.
  all.push_back({"T as an address", kPe, 1,
                 "imm i\"0\" $lr0v\nimm i\"8\" $lr8v\nimm i\"7\" $lr16v\nimm i\"9\" $lr24v\nnop/4\n"
                 "lpassa $lr16 $lm0\nlpassa $lr24 $lm8\nlpassa $lr0v $lt\n",
                 "lpassa $lr8v $lt", "lpassa $lmt0 $ls0v", "T", Space::kGrf1, 0, seven, nine});
  all.push_back({"mask register", &isa::HazardGaps::mask_write_use, 1,
                 "imm i\"-1\" $lr0v\nimm i\"1\" $lr8v\nimm i\"7\" $lr48v\nnop/4\nlpassa $lr48v $ls0v\n" +
                     nines + "iadd $lr0v $lr0v $omr1\n",
                 "iadd $lr8v $lr8v $omr1", "lpassa $lr40v $ls0v/$imr1", "mask register 1", Space::kGrf1, 0,
                 seven, nine});
  all.push_back({"BAR", &isa::HazardGaps::bar_write_use, 2,
                 "imm i\"0\" $lr0v\nimm i\"8\" $lr8v\nimm i\"7\" $lr16v\nimm i\"9\" $lr24v\nnop/4\n"
                 "lpassa $lr16 $lm0\nlpassa $lr24 $lm8\n",
                 "lpassa $lr8v $lmb", "lpassa $lm0 $ls0", "the BAR of LM0", Space::kGrf1, 0, seven, nine});
  all.push_back({"forwarding register", &isa::HazardGaps::forward, 1,
                 "imm i\"7\" $lr0v\n" + nines + "lpassa $lr0v $nowrite\n", "lpassa $lr40v $nowrite",
                 "lpassa $aluf $ls0v", "$aluf", Space::kGrf1, 0, seven, nine});
  all.push_back({"matrix register", &isa::HazardGaps::matrix_write_read, 1,
                 "imm i\"7\" $lr0v\n" + nines + "nop/2\ngmwrite $lr0v $lx0\ngmwrite $lr0v $lx4\n",
                 "gmwrite $lr40v $lx0", "gmread $lx0 $ls0v", "matrix register x", Space::kGrf1, 0, seven,
                 nine});
  all.push_back({"PE to L1BM to PE", &isa::HazardGaps::pe_to_l1bm_read, 2,
                 "imm i\"7\" $lr0v\n" + nines + "nop/2\nl1bmd $lr0v $lb0\n", "l1bmd $lr40v $lb0",
                 "l1bmd $lb0 $ls0v", "L1BM LW 0 to", Space::kGrf1, 0, seven, nine});
  all.push_back({"turnaround register", &isa::HazardGaps::turnaround, 1,
                 "imm i\"7\" $lr0v\n" + nines + "nop/2\nl1bmm@0 $lr0v $lbi\n", "l1bmm@0 $lr40v $lbi",
                 "l1bmm $lbi $ls0v", "the turnaround register", Space::kGrf1, 0, seven, nine});
  all.push_back({"PE to L1BM to L2BM", &isa::HazardGaps::pe_to_l1bm_l2bm, 2,
                 "imm i\"7\" $lr0v\n" + nines + "nop/2\nl1bmd $lr0v $lb0\n", "l1bmd $lr40v $lb0",
                 "l2bm@0 $lb0 $lc0", "L1BM LW 0 to 63", Space::kL2bm, 0, seven, nine});
  all.push_back({"PE to L1BM to l2bmi", &isa::HazardGaps::pe_to_l1bm_l2bm, 2,
                 "imm i\"7\" $lr0v\n" + nines + "nop/2\nl1bmd $lr0v $lb0\n", "l1bmd $lr40v $lb0",
                 "l2bmi@0/6 $lb0 $lb64", "L1BM LW 0 to 63", Space::kL1bm, 64, seven, nine});
  const std::string fill_l2bm =
      "imm i\"9\" $lr0v\nimm i\"7\" $lr8v\nnop/2\nl1bmd $lr0v $lb0\nnop/2\nl2bm@0 $lb0 $lc0\nnop/4\n"
      "l1bmd $lr8v $lb0\n";
  all.push_back({"L2BM to L1BM to PE", &isa::HazardGaps::l2bm_to_l1bm_pe, 1, fill_l2bm, "l2bmb $lc0 $lb0",
                 "l1bmp $lb0 $ls0v", "L1BM LW 0 to", Space::kGrf1, 0, seven, nine});
  all.push_back({"L2BM to L1BM to L2BM", &isa::HazardGaps::l2bm_to_l1bm_l2bm, 1, fill_l2bm, "l2bmb $lc0 $lb0",
                 "l2bm@0 $lb0 $lc64", "L1BM LW 0 to 63", Space::kL2bm, 64, seven, nine});
  const std::string fill_both =
      "imm i\"7\" $lr0v\nimm i\"9\" $lr8v\nnop/2\nl1bmd $lr0v $lb0\nnop/2\nl2bm@0 $lb0 $lc0\nnop/4\n"
      "l1bmd $lr8v $lb0\n";
  all.push_back({"L1BM to L2BM to L1BM", &isa::HazardGaps::l1bm_to_l2bm_read, 3, fill_both,
                 "l2bm@0 $lb0 $lc0", "l2bmb $lc0 $lb64", "L2BM LW 0 to 63", Space::kL1bm, 64, seven, nine});
  all.push_back({"L1BM to L2BM to MV", &isa::HazardGaps::l1bm_to_l2bm_mv, 1, fill_both, "l2bm@0 $lb0 $lc0",
                 "mvp/n64i01 $lc0@0.0 $p0@0", "L2BM LW 0 to 63", Space::kPdm, 0, seven, nine});
  return all;
}

/// The rule's program with so many steps between writer and reader; lines of both.
struct Case {
  isa::Program program;
  int32_t writer_line;
  int32_t reader_line;
};
Case make_case(const Rule& rule, int64_t between, const isa::Chip& chip) {
  std::string text = rule.setup + "nop/8\n" + rule.writer + "\n";
  if (between > 0) text += fmt::format("nop/{}\n", between);
  text += rule.reader + "\nnop/8\n";
  const auto lines = static_cast<int32_t>(std::count(rule.setup.begin(), rule.setup.end(), '\n'));
  return {assembler::assemble(text, rule.name, chip), lines + 2, lines + (between > 0 ? 4 : 3)};
}

uint64_t result(const Case& each, const Rule& rule, const isa::Chip& chip, Hazards hazards, int threads = 1) {
  MachineOptions options;
  options.threads = threads;
  Machine machine(chip, options);
  RunOptions run;
  run.hazards = hazards;
  machine.run(each.program, run);
  return machine.read(rule.space, {}, rule.address);
}

isa::Chip chip_of(const Rule& rule) {
  isa::Chip chip = isa::find_chip("mncore2");
  chip.groups = 2;
  chip.mab_per_l1b = 16;
  chip.memory.dram_lw = 1 << 20;
  // Where the next step may read already, a chip on which it may not shows the rule.
  if (rule.gap != nullptr) chip.hazard.*rule.gap = rule.steps;
  return chip;
}

TEST(Hazards, OneStepTooEarlyIsCaughtAndGivesTheOldValue) {
  for (const Rule& rule : rules()) {
    SCOPED_TRACE(rule.name);
    const isa::Chip chip = chip_of(rule);
    const Case early = make_case(rule, rule.steps - 1, chip);
    const auto found = isa::find_hazards(early.program, chip);
    ASSERT_EQ(found.size(), 1U) << (found.empty() ? "" : found[1 % found.size()].text);
    EXPECT_EQ(found[0].kind, HazardViolation::Kind::kDistance);
    EXPECT_EQ(found[0].first_line, early.writer_line);
    EXPECT_EQ(found[0].second_line, early.reader_line);
    EXPECT_EQ(found[0].found, rule.steps - 1);
    EXPECT_EQ(found[0].needed, rule.steps);
    EXPECT_THAT(found[0].text, HasSubstr(rule.resource));
    EXPECT_THAT(found[0].text, HasSubstr(fmt::format("line {}", early.writer_line)));
    EXPECT_EQ(result(early, rule, chip, Hazards::kStale), rule.old_value);
    EXPECT_EQ(result(early, rule, chip, Hazards::kStale, 2), rule.old_value);
    EXPECT_EQ(result(early, rule, chip, Hazards::kIgnore), rule.new_value);
    EXPECT_THROW(result(early, rule, chip, Hazards::kError), isa::UserError);
  }
}

TEST(Hazards, JustInTimeIsCleanAndGivesTheNewValue) {
  for (const Rule& rule : rules()) {
    SCOPED_TRACE(rule.name);
    const isa::Chip chip = chip_of(rule);
    const Case in_time = make_case(rule, rule.steps, chip);
    const auto found = isa::find_hazards(in_time.program, chip);
    EXPECT_TRUE(found.empty()) << found[0].text;
    for (const Hazards hazards : {Hazards::kIgnore, Hazards::kError, Hazards::kStale})
      EXPECT_EQ(result(in_time, rule, chip, hazards), rule.new_value);
  }
}

TEST(Hazards, TheDefaultDistancesAreThoseOfTheIsaPage) {
  const isa::HazardGaps gaps = isa::find_chip("mncore2").hazard;
  EXPECT_EQ(gaps.pe_gap(0, 0), 1);  // GRF, T: the same cycle
  EXPECT_EQ(gaps.pe_gap(3, 0), 2);  // LM: any cycle
  EXPECT_EQ(gaps.mask_write_use, 0);
  EXPECT_EQ(gaps.forward, 0);
  EXPECT_EQ(gaps.pe_to_l1bm_read, 2);
  EXPECT_EQ(gaps.turnaround, 0);
  EXPECT_EQ(gaps.pe_to_l1bm_l2bm, 2);
  EXPECT_EQ(gaps.l2bm_to_l1bm_pe, 1);
  EXPECT_EQ(gaps.l1bm_to_l2bm_read, 3);
  EXPECT_EQ(gaps.l1bm_to_l2bm_mv, 1);
}

std::vector<HazardViolation> check(const std::string& text) {
  const isa::Chip chip = isa::find_chip("mncore2");
  return isa::find_hazards(assembler::assemble(text, "test.vsm", chip), chip);
}

TEST(Hazards, LmIsAPortAndGrfIsData) {
  const auto lm = check("lpassa $lr0v $lm0v\nlpassa $lm100v $lr20v\n");
  ASSERT_EQ(lm.size(), 1U);
  EXPECT_THAT(lm[0].text, HasSubstr("an LM has one port"));
  EXPECT_TRUE(check("lpassa $ls0v $lr0v\nlpassa $lr100v $ls20v\n").empty());
  EXPECT_TRUE(check("lpassa $lr0v $lm0v\nlpassa $ln100v $lr20v\n").empty());
}

TEST(Hazards, MaskedOffCyclesDoNotCount) {
  // Section 9: over one nop /1000 and /0100 are legal, /0010 is not.
  EXPECT_TRUE(check("imm i\"1\" $r0/1000\nnop\nlpassa $r0 $ls0\n").empty());
  EXPECT_TRUE(check("imm i\"1\" $r0/0100\nnop\nlpassa $r0 $ls0\n").empty());
  EXPECT_EQ(check("imm i\"1\" $r0/0010\nnop\nlpassa $r0 $ls0\n").size(), 1U);
  // The same by a block mask; it doesn't reach other memories.
  EXPECT_TRUE(check("maskr 24\nimm i\"1\" $r0\nmask 0\nnop\nlpassa $r0 $ls0\n").empty());
  EXPECT_EQ(check("maskr 18\nimm i\"1\" $r0\nmask 0\nnop\nlpassa $r0 $ls0\n").size(), 1U);
  EXPECT_EQ(check("masks 24\nimm i\"1\" $r0\nmask 0\nnop\nlpassa $r0 $ls0\n").size(), 1U);
}

TEST(Hazards, StaleDataIsExactByCycle) {
  // The example of simulator/stale_view.h.
  const isa::Chip chip = isa::find_chip("tiny");
  for (const auto& [between, expected] :
       {std::pair(std::string(), std::array<uint64_t, 4>{6, 6, 6, 7}),
        std::pair(std::string("nop\n"), std::array<uint64_t, 4>{7, 7, 7, 7})}) {
    Machine machine(chip);
    for (int64_t pe = 0; pe < 4; ++pe) machine.write(Space::kGrf0, {0, 0, 0, 0, static_cast<int>(pe)}, 0, 5);
    RunOptions run;
    run.hazards = Hazards::kStale;
    machine.run(
        assembler::assemble("linc $lr0 $lr0\n" + between + "linc $lr0 $lr0 $ls0v\n", "test.vsm", chip), run);
    for (int c = 0; c < 4; ++c)
      EXPECT_EQ(machine.read(Space::kGrf1, {0, 0, 0, 0, 1}, 2 * c), expected[static_cast<size_t>(c)]) << c;
    EXPECT_EQ(machine.read(Space::kGrf0, {0, 0, 0, 0, 1}, 0), 7U);
  }
}

TEST(Hazards, ForwardingRegistersMustHoldSomething) {
  const auto never = check("lpassa $aluf $lr0v\n");
  ASSERT_EQ(never.size(), 1U);
  EXPECT_EQ(never[0].kind, HazardViolation::Kind::kForward);
  EXPECT_THAT(never[0].text, HasSubstr("no ALU instruction came before"));
  const auto idle = check("lpassa $lr0v $nowrite\nl1bmd $lb0 $ln0v\nlpassa $aluf $lr8v\n");
  ASSERT_EQ(idle.size(), 1U);
  EXPECT_EQ(idle[0].first_line, 2);
  EXPECT_EQ(idle[0].second_line, 3);
  EXPECT_TRUE(check("lpassa $lr0v $nowrite\nnop/5\nlpassa $aluf $lr8v\n").empty());
  EXPECT_TRUE(check("lpassa $lr0v $nowrite\nnoforward; l1bmd $lb0 $ln0v\nlpassa $aluf $lr8v\n").empty());
}

TEST(Hazards, TransfersAndTags) {
  const auto never = check("nop; wait i05\n");
  ASSERT_EQ(never.size(), 1U);
  EXPECT_EQ(never[0].kind, HazardViolation::Kind::kTagNeverUsed);
  EXPECT_EQ(never[0].second_line, 1);

  const auto reuse = check("mvp/n64i05 $p0@0 $d0@0\nmvp/n64i05 $p0@1 $d0@1\nnop; wait i05\n");
  ASSERT_EQ(reuse.size(), 1U);
  EXPECT_EQ(reuse[0].kind, HazardViolation::Kind::kTagUnderWay);
  EXPECT_EQ(reuse[0].first_line, 1);
  EXPECT_EQ(reuse[0].second_line, 2);
  EXPECT_TRUE(
      check("mvp/n64i05 $p0@0 $d0@0\nnop; wait i05\nmvp/n64i05 $p0@1 $d0@1\nnop; wait i05\n").empty());

  const auto read = check("mvp/n64i05 $p0@0 $lc0@0.0\nl2bmb $lc0 $lb0\nnop; wait i05\n");
  ASSERT_EQ(read.size(), 1U);
  EXPECT_EQ(read[0].kind, HazardViolation::Kind::kNotWaited);
  EXPECT_EQ(read[0].first_line, 1);
  EXPECT_EQ(read[0].second_line, 2);
  EXPECT_TRUE(check("mvp/n64i05 $p0@0 $lc0@0.0\nl2bmb $lc64 $lb0\nnop; wait i05\nl2bmb $lc0 $lb0\n").empty());

  const auto overwritten = check("mvp/n64i05 $lc0@0.0 $p0@0\nl2bm@0 $lb0 $lc0\nnop; wait i05\n");
  ASSERT_EQ(overwritten.size(), 1U);
  EXPECT_THAT(overwritten[0].text, HasSubstr("no 'wait i05' in between"));

  const auto chained = check("mvp/n64 $p0@0 $d0@0\nmvp/n64 $d0@0 $p64@0\n");
  ASSERT_EQ(chained.size(), 1U);
  EXPECT_THAT(chained[0].text, HasSubstr("it has no tag to wait for"));
  EXPECT_TRUE(check("mvp/n64 $p0@0 $d0@0\nmvp/n64 $d64@0 $p64@0\n").empty());

  // The DAR, which an indirect transfer reads, is written under it.
  const auto dar = check("mvp/n64i05 $di0@0 $p0@0\nl2bmdars $lc0@.0 $dar0\nl2bmdarw\nnop; wait i05\n");
  ASSERT_FALSE(dar.empty());
  EXPECT_THAT(dar[0].text, HasSubstr("DAR"));
}

TEST(Hazards, ManyTransfersWithoutWaitsTakeLittle) {
  // All in the way of all others: one finding for each pair would be 200 million.
  std::string text;
  constexpr int kTransfers = 20'000;
  for (int k = 0; k < kTransfers; ++k) text += "mvp/n64 $p0@0 $d0@0\n";
  const auto found = check(text);
  EXPECT_GE(found.size(), kTransfers - 1U);
  EXPECT_LE(found.size(), 8U * kTransfers);
  EXPECT_EQ(found[0].second_line, 2);
}

TEST(Hazards, WhatATransferWritesIsThereAfterItsWait) {
  const isa::Chip chip = isa::find_chip("tiny");
  for (const bool waits : {false, true}) {
    Machine machine(chip);
    const std::vector<uint64_t> data(64, 9);
    machine.write_pdm(0, 0, data);
    RunOptions run;
    run.hazards = Hazards::kStale;
    machine.run(assembler::assemble(
                    fmt::format("mvp/n64i05 $p0@0 $lc0@0.0\n{}l2bmb $lc0 $lb0\nnop/5\nnop; wait i05\n",
                                waits ? "nop; wait i05\n" : ""),
                    "test.vsm", chip),
                run);
    EXPECT_EQ(machine.read(Space::kL1bm, {}, 0), waits ? 9U : 0U);
    EXPECT_EQ(machine.read(Space::kL2bm, {}, 0), 9U);
  }
}

TEST(Hazards, AChipThatStallsTakesTheCyclesOfTheMissingSteps) {
  for (const Rule& rule : rules()) {
    SCOPED_TRACE(rule.name);
    const isa::Chip chip = chip_of(rule);
    RunOptions stall;
    stall.hazards = Hazards::kStall;
    for (int64_t between = 0; between <= rule.steps; ++between) {
      Machine machine(chip);
      const Case each = make_case(rule, between, chip);
      const RunStats stats = machine.run(each.program, stall);
      EXPECT_EQ(stats.causes.hazard, 4 * (rule.steps - between));
      EXPECT_EQ(stats.causes.steps, 4 * stats.steps);
      EXPECT_EQ(machine.read(rule.space, {}, rule.address), rule.new_value);
    }
  }
}

/// The program with nops wherever the checker wants some, and nowhere else.
isa::Program spaced_out(isa::Program program, const isa::Chip& chip) {
  for (;;) {
    for (size_t k = 0; k < program.statements.size(); ++k)
      program.statements[k].line = static_cast<int32_t>(k + 1);
    const auto found = isa::find_hazards(program, chip);
    const auto distance = std::ranges::find_if(
        found, [](const HazardViolation& each) { return each.kind == HazardViolation::Kind::kDistance; });
    if (distance == found.end()) return program;
    program.statements.insert(program.statements.begin() + distance->second_line - 1,
                              isa::Statement{isa::Nop{distance->needed - distance->found, 0}, 0});
  }
}

TEST(Hazards, CleanProgramsComputeTheSameOnTheHardware) {
  const isa::Chip chip = golden::small_memories(isa::find_chip("tiny"));
  assembler::RandomOptions options;
  options.address_window = 16;
  options.transfers = false;
  options.debug_statements = false;
  options.other_statements = false;
  int early = 0;
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    assembler::RandomProgram random(chip, seed, options);
    const isa::Program program = random.program(12);
    const isa::Program clean = spaced_out(program, chip);
    early += clean.statements.size() > program.statements.size();
    Machine machine(chip);
    golden::GoldenMachine golden(chip);
    golden::fill_with_edge_values(chip, seed, machine, golden);
    RunOptions stale;
    stale.hazards = Hazards::kStale;
    machine.run(clean, stale);
    golden.run(clean);
    EXPECT_EQ(golden::memory_difference(chip, machine, golden), "") << "seed " << seed << "\n"
                                                                    << assembler::print(clean);
  }
  EXPECT_GT(early, 40);  // most needed nops
}

TEST(Hazards, LoopsAreUnrolled) {
  const isa::Chip chip = isa::find_chip("mncore2");
  isa::Program program = assembler::assemble("lpassa $lr0v $ls0v\nlpassa $ls8v $lr20v\n", "loop.vsm", chip);
  // The write walks from 0 to 8 within two iterations; there the next iteration's... read meets it.
  std::get<isa::Step>(program.statements[0].kind).instructions.own()[0].destinations[0].loop_strides = {8};
  EXPECT_TRUE(isa::find_hazards(program, chip).empty());
  isa::Program looped;
  looped.statements = {{isa::Loop{3, program.statements}, 0}};
  const auto found = isa::find_hazards(looped, chip);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].count, 1);
  EXPECT_EQ(found[0].first_line, 1);
  EXPECT_EQ(found[0].second_line, 2);
}

}  // namespace
}  // namespace kodama::simulator
