#include <gmock/gmock.h>

#include <bit>

#include "assembler/assembler.h"
#include "isa/chip.h"
#include "isa/costs.h"
#include "isa/error.h"
#include "isa/number_formats.h"
#include "simulator/debug_text.h"
#include "simulator/machine.h"

// The worked examples and the concrete figures of the ISA page, section by section, on the whole chip. Values
// are the page's, or follow from its formulas.
//
//   section  what has an example or a figure                                     tested
//   1.1      counts of units, flat numbers                                       here
//   1.2      order of words and LW, lanes                                        here
//   1.3      sizes, wrapping, alignment                                          here
//   1.4      one increment per step                                              here
//   2        nop/N, trailing ';', quit, c lines                                  here
//   3.1-3.3  address of a cycle, gather through T, j, narrow accesses, BAR       here
//   3.4 3.5  forwarding registers, constants                                     here
//   4        rules of parallel issue                                             assembler/checks_test.cpp
//   5        masks and flags                                                     here
//   6.1 6.2  transfers as index equations, sets of L1Bs                          here and testsuite/effects
//   6.3      tags; transfers                                                     here and testsuite/effects
//   7        payloads, shifts, relu family, conversions                          here and testsuite/effects
//   8.1      the half 1.0, normalisation                                         here
//   8.2 8.4  double multiply-add, double matrix                                  here
//   8.3      rows and columns of matrix registers                                testsuite/effects
//   8.5      block float                                                         example 4 here,
//   testsuite/effects 8.6      the dropped low products                                            here 8.7
//   reductions                                                          testsuite/effects 9        distances
//   here, isa/costs_test.cpp 10       dump lines, preload here; 10.5: judge_test.cpp 11 14    peak figures
//   here 12       none (open questions) 13       examples 1 to 6 here

namespace kodama::simulator {
namespace {

using isa::Space;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr Place kFirst{};

class IsaPage : public testing::Test {
 protected:
  static std::string hex(uint64_t value) { return fmt::format("{:016x}", value); }
  static std::string hex(double value) { return hex(std::bit_cast<uint64_t>(value)); }
  /// A payload of `count` numbers from `first` up.
  static std::string numbers(int count, uint64_t first = 0) {
    std::string text;
    for (int i = 0; i < count; ++i) text += hex(first + static_cast<uint64_t>(i));
    return fmt::format("{} {}", count, text);
  }

  /// Runs VSM text and returns the dumped lines.
  std::vector<std::string> run(const std::string& text) {
    std::vector<std::string> lines;
    RunOptions options;
    options.dump = [&](const std::string& line) { lines.push_back(line); };
    machine_.run(assembler::assemble(text, "test.vsm", chip_), options);
    return lines;
  }
  std::string error_of(const std::string& text) {
    try {
      run(text);
    } catch (const isa::UserError& error) {
      return error.what();
    }
    return "no error";
  }
  uint64_t read(Space space, int64_t address, const Place& place = kFirst) const {
    return machine_.read(space, place, address);
  }
  std::vector<uint64_t> read_all(Space space, int64_t address, int count, const Place& place = kFirst) const {
    std::vector<uint64_t> values;
    const int step = space == Space::kL1bm || space == Space::kL2bm ? 1 : 2;
    for (int i = 0; i < count; ++i) values.push_back(read(space, address + step * i, place));
    return values;
  }
  /// Flags of the four cycles of a mask register.
  std::vector<uint64_t> mask(int entry, const Place& place = kFirst) const {
    std::vector<uint64_t> values;
    for (int c = 0; c < 4; ++c) values.push_back(machine_.read(Space::kOmr, place, entry * 4 + c));
    return values;
  }

  isa::Chip chip_ = isa::find_chip("mncore2");
  Machine machine_{chip_};
};

// ---- 1 -------------------------------------------------------------------------------------------------

TEST_F(IsaPage, Section11Counts) {
  EXPECT_EQ(chip_.groups, 4);
  EXPECT_EQ(chip_.l2b_count(), 8);
  EXPECT_EQ(chip_.l1b_count(), 64);
  EXPECT_EQ(chip_.mab_count(), 1024);
  EXPECT_EQ(chip_.pe_count(), 4096);
}

TEST_F(IsaPage, Section12LowerAddressesAreMoreSignificant) {
  // A word of LM is half of an LW; a 2LW is {h, l}.
  run("d set $lm0 2 00010002000300040005000600070008\nipassa $m0 $r0\nipassa $m1 $s0\nlpassa $llm0 $lln4\n");
  EXPECT_EQ(read(Space::kGrf0, 0), 0x0001000200000000u);
  EXPECT_EQ(read(Space::kGrf1, 0), 0x0003000400000000u);
  EXPECT_THAT(read_all(Space::kLm1, 4, 2), ElementsAre(0x0001000200030004u, 0x0005000600070008u));
  EXPECT_EQ(isa::lanes(isa::Precision::kLong), 1);
  EXPECT_EQ(isa::lanes(isa::Precision::kDouble), 1);
  EXPECT_EQ(isa::lanes(isa::Precision::kInt), 2);
  EXPECT_EQ(isa::lanes(isa::Precision::kFloat), 2);
  EXPECT_EQ(isa::lanes(isa::Precision::kGFloat), 2);
  EXPECT_EQ(isa::lanes(isa::Precision::kShort), 4);
  EXPECT_EQ(isa::lanes(isa::Precision::kHalf), 4);
}

TEST_F(IsaPage, Section13Sizes) {
  constexpr int64_t kKi = 1024;
  EXPECT_EQ(chip_.memory.dram_lw, 512 * kKi * kKi);
  EXPECT_EQ(chip_.memory.pdm_lw, 512 * kKi);
  EXPECT_EQ(chip_.memory.dar_entries, 1024);
  EXPECT_EQ(chip_.memory.l2bm_lw, 32 * kKi);
  EXPECT_EQ(chip_.memory.l1bm_lw, 8 * kKi);
  EXPECT_EQ(chip_.memory.lm_words, 4096);
  EXPECT_EQ(chip_.memory.grf_words, 512);
  EXPECT_EQ(chip_.memory.mask_entries, 32);
}

TEST_F(IsaPage, Section13AddressesWrapAndAlign) {
  run("d set $lm0 2 " + hex(uint64_t{7}) + hex(uint64_t{8}) +
      "\nlpassa $lm4094v $ln0v\nlpassa $lm0 $lr508v4\n");
  EXPECT_EQ(read(Space::kLm1, 2), 7u);  // word 4096 is word 0
  EXPECT_EQ(read(Space::kLm1, 4), 8u);
  EXPECT_EQ(read(Space::kGrf0, 0), 7u);  // word 512
  EXPECT_THAT(error_of("lpassa $lm1 $ln0\n"), HasSubstr("misaligned"));
  EXPECT_THAT(error_of("lpassa $llm2 $lln0\n"), HasSubstr("misaligned"));
  // A run-time address is truncated: T holds 5.
  run("imm i\"5\" $t\nnop\nlpassa $lmt $ls0\n");
  EXPECT_EQ(read(Space::kGrf1, 0), read(Space::kLm0, 4));
}

TEST_F(IsaPage, Section14OneIncrementPerStep) {
  run("linc $lr0 $lr0\n");
  EXPECT_EQ(read(Space::kGrf0, 0), 1u);
  run("nop\nlinc $lr0 $lr0\n");
  EXPECT_EQ(read(Space::kGrf0, 0, {3, 1, 7, 15, 3}), 2u);
}

// ---- 2 -------------------------------------------------------------------------------------------------

TEST_F(IsaPage, Section2Statements) {
  const isa::Program program = assembler::assemble(
      "# comment\nnop/7\nlinc $lr0 $lr0;\nc for the host\nquit\nthis is not read\n", "test.vsm", chip_);
  EXPECT_EQ(isa::count(program).steps, 8);
  EXPECT_EQ(machine_.run(program).cycles(), 8 * 4);
  EXPECT_EQ(read(Space::kGrf0, 0), 1u);
}

// ---- 3 -------------------------------------------------------------------------------------------------

TEST_F(IsaPage, Section32AddressesOfCycles) {
  run("d set $lm0 " + numbers(64) + "\nlpassa $lm8v16 $lr0v\nlpassa $lm8v $lr8v\nlpassa $llm8v $llr16v\n");
  EXPECT_THAT(read_all(Space::kGrf0, 0, 4), ElementsAre(4u, 12u, 20u, 28u));  // words 8, 24, 40, 56
  EXPECT_THAT(read_all(Space::kGrf0, 8, 4), ElementsAre(4u, 5u, 6u, 7u));
  EXPECT_THAT(read_all(Space::kGrf0, 16, 8), ElementsAre(4u, 5u, 6u, 7u, 8u, 9u, 10u, 11u));
  run("lpassa $lm[2, 0, 6,4] $lr0v\n");
  EXPECT_THAT(read_all(Space::kGrf0, 0, 4), ElementsAre(1u, 0u, 3u, 2u));
}

TEST_F(IsaPage, Section32GatherThroughT) {
  run("d set $lm0 " + numbers(4, 16) + "\nd set $lr0 4 " + hex(uint64_t{4}) + hex(uint64_t{2}) +
      hex(uint64_t{6}) + hex(uint64_t{0}) + "\nlpassa $lr0v $t\nnop\nlpassa $lmt $ln0v\n");
  EXPECT_THAT(read_all(Space::kLm1, 0, 4), ElementsAre(18u, 17u, 19u, 16u));  // LW 2, 1, 3, 0
}

TEST_F(IsaPage, Section32J) {
  run("d set $ln0 " + numbers(8) + "\nlpassa $ln0v4j0 $lr0v\n");
  EXPECT_THAT(read_all(Space::kGrf0, 0, 4), ElementsAre(1u, 3u, 5u, 7u));
  EXPECT_THAT(read_all(Space::kGrf0, 0, 4, {0, 0, 0, 0, 1}), ElementsAre(0u, 2u, 4u, 6u));
}

TEST_F(IsaPage, Section33NarrowWritesAndBaseRegisters) {
  run("d set $lr0 2 " + hex(uint64_t{0x1111222233334444}) + hex(uint64_t{0x5555666677778888}) +
      "\nlpassa $llr0 $s1 $lm4 $lln8 $t\n");
  EXPECT_EQ(read(Space::kGrf1, 0), 0x0000000011112222u);  // the upper word of h
  EXPECT_EQ(read(Space::kLm0, 4), 0x1111222233334444u);
  EXPECT_EQ(read(Space::kLm0, 6), 0u);
  EXPECT_EQ(read(Space::kLm1, 10), 0x5555666677778888u);
  EXPECT_EQ(read(Space::kT, 0), 0x1111222233334444u);
  EXPECT_EQ(read(Space::kT, 4), 0x5555666677778888u);
  // BAR takes the low 12 bits of the upper word and is added to every operand of its LM.
  run("imm ui\"0xfffff008\" $nb\nnop/2\nlpassa $ln0 $ls4\n");
  EXPECT_EQ(read(Space::kGrf1, 4), 0x1111222233334444u);
}

TEST_F(IsaPage, Section34Forwarding) {
  // Kept over nop, independent of destinations and their masks, after zero flush.
  run("imm i\"5\" $nowrite\nnop/3\nipassa $aluf $lr0\n");
  EXPECT_EQ(read(Space::kGrf0, 0), 0x0000000500000005u);
  run("imm i\"6\" $lr2/1000\nipassa $aluf $lr8v\n");
  EXPECT_THAT(read_all(Space::kGrf0, 8, 4), testing::Each(0x0000000600000006u));
  run("ipassa/0111 $aluf $nowrite\nipassa $aluf $lr8v\n");
  EXPECT_THAT(read_all(Space::kGrf0, 8, 2), ElementsAre(0u, 0x0000000600000006u));
  // A step with noforward doesn't update it.
  run("imm i\"7\" $nowrite\nimm i\"8\" $lr0; noforward\nipassa $aluf $lr2\n");
  EXPECT_EQ(read(Space::kGrf0, 2), 0x0000000700000007u);
}

TEST_F(IsaPage, Section35Constants) {
  run("lpassa $peid $lr0\nlpassa $l2bid $lr2\nipassa $mabid $lr4\nspassa $subpeid $lr6\nlpassa $l1bid $lr8\n"
      "ipassa $msb1 $lr10\nlpassa $msb1 $lr12\nspassa $msb1 $lr14\n");
  const Place place{3, 1, 5, 7, 2};
  EXPECT_EQ(read(Space::kGrf0, 0, place), 4u * 7 + 2);
  EXPECT_EQ(read(Space::kGrf0, 2, place), 2u * 3 + 1);
  EXPECT_EQ(read(Space::kGrf0, 4, place), 0x0000000700000007u);
  EXPECT_EQ(read(Space::kGrf0, 6, place), 0x0002000200020002u);
  EXPECT_EQ(read(Space::kGrf0, 8, place), 5u);
  EXPECT_EQ(read(Space::kGrf0, 10, place), 0x8000000080000000u);
  EXPECT_EQ(read(Space::kGrf0, 12, place), 0x8000000000000000u);
  EXPECT_EQ(read(Space::kGrf0, 14, place), 0x8000800080008000u);
}

// ---- 5 -------------------------------------------------------------------------------------------------

TEST_F(IsaPage, Section5PatternsAndConstantEntries) {
  run("imm i\"1\" $lr0v/1000\nimm i\"1\" $lr8v/$imr24\nimm i\"1\" $lr16v/$imr0\n");
  const uint64_t one = 0x0000000100000001;
  EXPECT_THAT(read_all(Space::kGrf0, 0, 4), ElementsAre(one, 0u, 0u, 0u));
  EXPECT_THAT(read_all(Space::kGrf0, 8, 4), ElementsAre(one, 0u, 0u, 0u));  // 24 = 16 + 0b1000
  EXPECT_THAT(read_all(Space::kGrf0, 16, 4), testing::Each(one));
}

TEST_F(IsaPage, Section5FlagsAreAndedWithTheMask) {
  // LW of $lr0 are 0, 1, 2, 3; limits in $ls0 and $ls2.
  run("d set $lr0 " + numbers(4) + "\nd set $ls0 " + numbers(2, 1) +
      "\nlsub $lr0v $ls0 $omr1\nlsub $ls2 $lr0v $omr2/$imr1\n");
  EXPECT_THAT(mask(1), ElementsAre(0u, 15u, 15u, 15u));  // x >= 1
  EXPECT_THAT(mask(2), ElementsAre(0u, 15u, 15u, 0u));   // and x <= 2
  run("isub $lr0 $lr0 $omr1/1000\n");
  EXPECT_THAT(mask(1), ElementsAre(15u, 0u, 0u, 0u));
}

TEST_F(IsaPage, Section5FlagsOfLanes) {
  run("d set $lr0 1 " + hex(uint64_t{0x0001ffff00000002}) +
      "\nlpassa $lr0 $omr1\nipassa $lr0 $omr2\n"
      "spassa $lr0 $omr3\nsinc $lr0 $omr4\niinc $lr0 $omr5\n");
  EXPECT_EQ(mask(1)[0], 0b0000u);
  EXPECT_EQ(mask(2)[0], 0b0000u);
  EXPECT_EQ(mask(3)[0], 0b0010u);  // lane 2 is zero
  EXPECT_EQ(mask(4)[0], 0b1111u);  // 0xffff + 1 = 0
  EXPECT_EQ(mask(5)[0], 0b1111u);
  // A word access uses bits 3 and 2; under ll the bits are words of the 2LW.
  run("d set $lm0 2 " + hex(~uint64_t{0}) + hex(~uint64_t{0}) +
      "\nspassa $lr0 $omr1\nlpassa $llm0 $lln0/$llimr1\nspassa $lm0 $ls8/$imr1\n");
  EXPECT_THAT(read_all(Space::kLm1, 0, 2), ElementsAre(0u, 0xffffffff00000000u));
  EXPECT_EQ(read(Space::kGrf1, 8), 0x00000000ffff0000u);
}

TEST_F(IsaPage, Section5BlockMask) {
  run("d set $lr0 " + numbers(4) +
      "\nlpassa $lr0v $omr1\nmaskn 1\nlinc $lr0v $ln0v $ls0v\nmask 0\nlinc $lr0v $ln8v\n");
  EXPECT_THAT(read_all(Space::kLm1, 0, 4), ElementsAre(1u, 0u, 0u, 0u));
  EXPECT_THAT(read_all(Space::kGrf1, 0, 4), ElementsAre(1u, 2u, 3u, 4u));
  EXPECT_THAT(read_all(Space::kLm1, 8, 4), ElementsAre(1u, 2u, 3u, 4u));
}

// ---- 6 -------------------------------------------------------------------------------------------------

TEST_F(IsaPage, Section61FromL1bmToPes) {
  run("d set $lb0 " + numbers(256) +
      "\nl1bmp $lb0 $lr0v\nl1bmp $llb0 $llr8v\nl1bmm $lb0 $lr24v\n"
      "l1bmm $llb0 $llr32v\nl1bmm4 $lb0 $lr48v\nl1bmd $lb0 $lr56v\nl1bmd+1 $lb0 $lr64v\nl1bmd-1 $lb0 "
      "$lr72v\n");
  for (const Place place : {Place{0, 0, 0, 0, 0}, Place{3, 1, 7, 6, 2}, Place{1, 0, 3, 15, 3}}) {
    const auto m = static_cast<uint64_t>(place.mab);
    const auto p = static_cast<uint64_t>(place.pe);
    for (uint64_t c = 0; c < 4; ++c) {
      const auto at = static_cast<int64_t>(2 * c);
      EXPECT_EQ(read(Space::kGrf0, at, place), c);
      EXPECT_THAT(read_all(Space::kGrf0, 8 + 2 * at, 2, place), ElementsAre(c, 4 + c));
      EXPECT_EQ(read(Space::kGrf0, 24 + at, place), 4 * c + p);
      EXPECT_THAT(read_all(Space::kGrf0, 32 + 2 * at, 2, place), ElementsAre(8 * c + p, 8 * c + 4 + p));
      EXPECT_EQ(read(Space::kGrf0, 48 + at, place), 16 * c + 4 * (m / 4) + p);
      EXPECT_EQ(read(Space::kGrf0, 56 + at, place), 64 * c + 4 * m + p);
      EXPECT_EQ(read(Space::kGrf0, 64 + at, place), 64 * c + 4 * ((m + 15) % 16) + p);
      EXPECT_EQ(read(Space::kGrf0, 72 + at, place), 64 * c + 4 * ((m + 1) % 16) + p);
    }
  }
}

TEST_F(IsaPage, Section61WithoutStrideTheLastCycleStays) {
  run("d set $lb0 " + numbers(16, 100) + "\nl1bmm $lb0 $lm0\n");
  for (int pe = 0; pe < 4; ++pe) {
    EXPECT_EQ(read(Space::kLm0, 0, {0, 0, 0, 0, pe}), 112u + static_cast<unsigned>(pe));
  }
}

TEST_F(IsaPage, Section61TurnaroundOfAWritingInstruction) {
  run("lpassa $peid $lr0\nnop\nl1bmm@2 $lr0 $lb0\nl1bmm $lbi $ln0\n");
  EXPECT_EQ(read(Space::kL1bm, 3), 11u);
  EXPECT_EQ(read(Space::kLm1, 0, {0, 0, 0, 9, 3}), 11u);
  // A reader of $lbi beside a writer gets the old data.
  run("linc $lr0 $lr2\nnop\nl1bmm@2 $lr2 $lbi; l1bmm $lbi $ln0\nl1bmm $lbi $ln2\n");
  EXPECT_EQ(read(Space::kLm1, 0), 8u);
  EXPECT_EQ(read(Space::kLm1, 2), 9u);
  EXPECT_EQ(read(Space::kL1bm, 3), 11u);
}

TEST_F(IsaPage, Section61OrderOfHalfResults) {
  // Only MAB 0 has something: word w of the step's 16 is w + 1, in every cycle.
  std::string text;
  for (int p = 0; p < 4; ++p) {
    text += fmt::format("d set $lm0n0c0b0m0p{} 1 ", p);
    for (int k = 0; k < 4; ++k) {
      text += fmt::format("{:04x}", isa::from_double(4 * p + k + 1, isa::kHalfFormat));
    }
    text += '\n';
  }
  run(text + "l1bmrhfadd $lm0 $lb0\nl1bmrffaddr $lm0e $lb16\n");
  const int order[4][4] = {{0, 1, 8, 9}, {2, 3, 10, 11}, {4, 5, 12, 13}, {6, 7, 14, 15}};
  for (int i = 0; i < 4; ++i) {
    uint64_t expected = 0;
    for (const int w : order[i]) expected = expected << 16 | isa::from_double(w + 1, isa::kHalfFormat);
    EXPECT_EQ(read(Space::kL1bm, i), expected);
    EXPECT_EQ(read(Space::kL1bm, 16 + i), expected);
  }
}

TEST_F(IsaPage, Section62Sets) {
  run("d set $lc0 " + numbers(64, 1) +
      "\nl2bmb@0/7 $lc0 $lb0\nl2bmb@0/6 $lc0 $lb64\nl2bmb@3 $lc0 $lb128\n"
      "l2bmb@[1, 6] $lc0 $lb192\n");
  for (int b = 0; b < 8; ++b) {
    const Place place{2, 1, b, 0, 0};
    EXPECT_EQ(read(Space::kL1bm, 0, place), 1u);
    EXPECT_EQ(read(Space::kL1bm, 64, place), b % 2 == 0 ? 1u : 0u);
    EXPECT_EQ(read(Space::kL1bm, 128, place), b == 3 ? 1u : 0u);
    EXPECT_EQ(read(Space::kL1bm, 192, place), b == 1 || b == 6 ? 1u : 0u);
  }
  EXPECT_THAT(error_of("l2bmi@0/7 $lb0 $lb64\n"), HasSubstr("can't take all L1Bs"));
  EXPECT_THAT(error_of("l2bmb $lc8 $lb0\n"), HasSubstr("misaligned"));
}

TEST_F(IsaPage, Section63TagsAndSizes) {
  EXPECT_EQ(error_of("mvp/n64i3f $d0@0 $p0@0\nnop; wait i3f\n"), "no error");
  EXPECT_THAT(error_of("mvp/n64i40 $d0@0 $p0@0\n"), HasSubstr("no tag"));
  EXPECT_THAT(error_of("mvp/n64i00 $d0@0 $p0@0\n"), HasSubstr("no tag"));
  EXPECT_THAT(error_of("mvp/n63i01 $d0@0 $p0@0\n"), HasSubstr("multiple of 64"));
  EXPECT_THAT(error_of("wait i01\n"), HasSubstr("never stands alone"));
}

// ---- 7 -------------------------------------------------------------------------------------------------

TEST_F(IsaPage, Section7ImmediatePayloads) {
  run("imm i\"5\" $lr0\nimm i\"-3\" $lr2\nimm i\"0x1F\" $lr4\nimm i\"0b101\" $lr6\nimm ui\"0xFF000000\" "
      "$lr8\n"
      "imm s\"8\" $lr10\nimm f\"1.5\" $lr12\nimm f\"-1.0\" $lr14\nimm f\"inf\" $lr16\nimm h\"2.0\" $lr18\n"
      "immu i\"5\" $llr20\nimm i\"5\" $llr24\n");
  const std::vector<uint64_t> words{5,          0xfffffffd, 0x1f,       5,          0xff000000,
                                    0x00080008, 0x3fc00000, 0xbf800000, 0x7f800000, 0x40004000};
  for (size_t i = 0; i < words.size(); ++i) {
    EXPECT_EQ(read(Space::kGrf0, static_cast<int64_t>(2 * i)), words[i] << 32 | words[i]);
  }
  EXPECT_THAT(read_all(Space::kGrf0, 20, 2), testing::Each(uint64_t{5} << 32));
  EXPECT_THAT(read_all(Space::kGrf0, 24, 2), testing::Each(uint64_t{5} << 32 | 5));
}

TEST_F(IsaPage, Section7IntegerOperations) {
  run("d set $lr0 1 80000001000000f0\nd set $ls0 1 0000002100000024\n"  // 33 and 36: 1 and 4 modulo 32
      "ilsl $lr0 $ls0 $lm0\nilsr $lr0 $ls0 $lm2\nuilsr $lr0 $ls0 $lm4\nibsl $lr0 $ls0 $lm6\nibsr $lr0 $ls0 "
      "$lm8\n"
      "ipackbit $lr0 $lr0 $lm10\nilnot $lr0 $lm12\ninot $lr0 $lm14\nimax $lr0 $ls0 $lm16\nuimax $lr0 $ls0 "
      "$lm18\n");
  EXPECT_THAT(read_all(Space::kLm0, 0, 10),
              ElementsAre(0x0000000200000f00u, 0xc00000000000000fu, 0x400000000000000fu, 0x0000000300000f00u,
                          0xc00000000000000fu, 0x00000003000001e0u, 0u, 0x7ffffffeffffff0fu,
                          0x00000021000000f0u, 0x80000001000000f0u));
}

TEST_F(IsaPage, Section7MslMsr) {
  run("lpassa $peid $lr0\nnop\nmsl $lr0 $ls0\nmsr $lr0 $ls2\n");
  for (int pe = 0; pe < 4; ++pe) {
    EXPECT_EQ(read(Space::kGrf1, 0, {0, 0, 0, 2, pe}), 8u + static_cast<unsigned>((pe + 3) & 3));
    EXPECT_EQ(read(Space::kGrf1, 2, {0, 0, 0, 2, pe}), 8u + static_cast<unsigned>((pe + 1) & 3));
  }
}

TEST_F(IsaPage, Section7ReluFamily) {
  // x = (-1.0, 1.0), y = (3.0, 5.0): the top bits of -1.0 are 1011, of 1.0 0011.
  run("d set $lr0 1 bf8000003f800000\nd set $ls0 1 4040000040a00000\nfrelu $lr0 $ls0 $lm0\nfrelu0 $lr0 $ls0 "
      "$lm2\n"
      "frelu1 $lr0 $ls0 $lm4\nfrelu2 $lr0 $ls0 $lm6\nflrelud $lr0 $ls0 $lm8\nflreluo $lr0 $ls0 $lm10\n"
      "filrelud $lr0 $ls0 $lm12\n");
  const uint64_t negative_zero = 0x80000000;
  EXPECT_EQ(read(Space::kLm0, 0), negative_zero << 32 | 0x40a00000);
  EXPECT_EQ(read(Space::kLm0, 2), negative_zero << 32 | 0x40a00000);
  EXPECT_EQ(read(Space::kLm0, 4), 0x4040000040a00000u);
  EXPECT_EQ(read(Space::kLm0, 6), negative_zero << 32 | negative_zero);
  EXPECT_EQ(read(Space::kLm0, 8), 0x3fc0000040a00000u);   // 1.5
  EXPECT_EQ(read(Space::kLm0, 10), 0x3ec0000040a00000u);  // 0.375
  EXPECT_EQ(read(Space::kLm0, 12), 0x40c0000040a00000u);  // 6
}

// ---- 8 -------------------------------------------------------------------------------------------------

TEST_F(IsaPage, Section81FormatsAndNormalisation) {
  EXPECT_EQ(isa::from_double(1.0, isa::kHalfFormat), 0x3e00u);
  EXPECT_EQ(isa::kHalfFormat.bias(), 31);
  run("d set $lm0 2 80000000007fffff7fc00001ff800001\nfvpassa $lm0v $lr0v\n");
  EXPECT_EQ(read(Space::kGrf0, 0), 0u);
  EXPECT_EQ(read(Space::kGrf0, 2), 0x7f800000ff800000u);
}

TEST_F(IsaPage, Section82DoubleMultiplyAdd) {
  run("d set $lr0 1 " + hex(3.0) + "\nd set $ls0 1 " + hex(5.0) + "\nd set $ln0 1 " + hex(100.0) +
      "\ndvmulu $lr0 $ls0 $lm0\ndvfmad $lr0 $ls0 $mauf $lm2\ndvfmau $lr0 $ls0 $ln0 $lm4\ndvadd $lr0 $ls0 "
      "$lm6\n");
  for (int pe = 0; pe < 4; ++pe) {
    const Place place{0, 0, 0, 0, pe};
    EXPECT_EQ(read(Space::kLm0, 0, place), std::bit_cast<uint64_t>(pe < 2 ? 15.0 : 0.0));
    EXPECT_EQ(read(Space::kLm0, 2, place), std::bit_cast<uint64_t>(15.0));
    EXPECT_EQ(read(Space::kLm0, 4, place), std::bit_cast<uint64_t>(pe < 2 ? 115.0 : 100.0));
    EXPECT_EQ(read(Space::kLm0, 6, place), std::bit_cast<uint64_t>(8.0));
  }
}

TEST_F(IsaPage, Section82FlagIsNotTheSign) {
  run("d set $lm0 1 bf8000003f800000\nfvpassa $lm0 $omr1\n");
  EXPECT_EQ(mask(1)[0], 0b0011u);
}

TEST_F(IsaPage, Section84DoubleMatrix) {
  // Rows (1,2,0,0), (3,4,0,0), 0, 0 and v = (5,6,0,0).
  run("d set $lr0n0c0b0m0p0 2 " + hex(1.0) + hex(3.0) + "\nd set $lr0n0c0b0m0p1 2 " + hex(2.0) + hex(4.0) +
      "\nd set $ls0n0c0b0m0p0 1 " + hex(5.0) + "\nd set $ls0n0c0b0m0p1 1 " + hex(6.0) +
      "\ndbfn $lr0v $lm0v\ndbfn $ls0 $ln0\nnop/2\ndmwrite $lm0v $lx0\nnop\n"
      "dmmulu $lx $ln0 $nowrite\ndmfmad $lx $ln0 $mauf $lr16\n");
  const double y[4] = {17, 39, 0, 0};
  for (int pe = 0; pe < 4; ++pe) {
    EXPECT_EQ(read(Space::kGrf0, 16, {0, 0, 0, 0, pe}), std::bit_cast<uint64_t>(y[pe]));
  }
}

TEST_F(IsaPage, Section86DroppedProducts) {
  run("d set $lm0 1 4980000849800008\nd set $ls0 1 d3800000d3800000\nfvfma $lm0 $lm0 $ls0 $lr0\n");
  EXPECT_EQ(read(Space::kGrf0, 0), 0x4a0000104a000010u);
}

// ---- 9 -------------------------------------------------------------------------------------------------

TEST_F(IsaPage, Section9MaskedOffCyclesDoNotCount) {
  const auto gap = [&](const std::string& write) {
    const isa::Program program =
        assembler::assemble("imm i\"1\" $r0/" + write + "\nipassa $r0 $s0\n", "test.vsm", chip_);
    int64_t largest = isa::kNoConstraint;
    const auto of = [&](int i) {
      return isa::accesses(
          std::get<isa::Step>(program.statements[static_cast<size_t>(i)].kind).instructions[0], chip_);
    };
    for (const isa::Access& first : of(0)) {
      for (const isa::Access& second : of(1)) {
        largest = std::max(largest, isa::required_gap(first, second, chip_));
      }
    }
    return largest;
  };
  EXPECT_EQ(gap("1000"), 1);  // over one nop: legal
  EXPECT_EQ(gap("0100"), 1);
  EXPECT_EQ(gap("0010"), 2);  // over one nop: error
}

// ---- 10 ------------------------------------------------------------------------------------------------

TEST_F(IsaPage, Section10DumpLines) {
  EXPECT_THAT(
      run("d set $lm4n0c0b0m0p1 1 l3f800000c0200000\nd getf $lm4n0c0b0m0p1 1\nd get $lm4n0c0b0m0p1 1\n"
          "d getd $t0n0c0b0m0p0 1\nd get $omr1n0c0b0m0p0 1\n"),
      ElementsAre("DEBUG-LM0(n0c0b0m0p1,4):(1, -2.5) (0x3f800000, 0xc0200000) #d getf $lm4n0c0b0m0p1 1",
                  "DEBUG-LM0(n0c0b0m0p1,4):(f:0.00781251, i:{{0x3F80,0x0},{0xC020,0x0}}, "
                  "v:0x3F800000C0200000) #d get $lm4n0c0b0m0p1 1",
                  "DEBUG-TREG(n0c0b0m0p0,0):(0) (0x0000000000000000) #d getd $lt0n0c0b0m0p0 1",
                  "DEBUG-OMR(n0c0b0m0p0,1):Mask{0} #d get $omr1n0c0b0m0p0 1",
                  "DEBUG-OMR(n0c0b0m0p0,1):Mask{0} #d get $omr1n0c0b0m0p0 1",
                  "DEBUG-OMR(n0c0b0m0p0,1):Mask{0} #d get $omr1n0c0b0m0p0 1",
                  "DEBUG-OMR(n0c0b0m0p0,1):Mask{0} #d get $omr1n0c0b0m0p0 1"));
}

TEST_F(IsaPage, Section10OrderOfPlacesAndPreload) {
  // n, c, b, m, p nested, then addresses; a preload is for one group.
  const auto lines = run("r 2 000000010 002 " + hex(uint64_t{1}) + hex(uint64_t{2}) +
                         "\nd getd $d16n2 2\nd getd $lb0b7 1\nd getd $lr0n1c1b3m15 1\n");
  ASSERT_EQ(lines.size(), 2u + 8u + 4u);
  EXPECT_THAT(lines[0], testing::StartsWith("DEBUG-DRAM(n2,16):"));
  EXPECT_THAT(lines[1], testing::StartsWith("DEBUG-DRAM(n2,17):"));
  EXPECT_THAT(lines[3], testing::StartsWith("DEBUG-L1BM(n0c1b7,0):"));
  EXPECT_THAT(lines[13], testing::StartsWith("DEBUG-GREG0(n1c1b3m15p3,0):"));
  EXPECT_EQ(read(Space::kDram, 17, {2, 0, 0, 0, 0}), 2u);
  EXPECT_EQ(read(Space::kDram, 17), 0u);
}

// ---- 11, 14 --------------------------------------------------------------------------------------------

TEST_F(IsaPage, Section11PeakFigures) {
  using isa::Precision;
  const auto matrix = [&](Precision precision) {
    return isa::peak_macs_per_cycle(precision, true, chip_) / 1024;
  };
  EXPECT_EQ(matrix(Precision::kDouble), 2 * 4);
  EXPECT_EQ(matrix(Precision::kFloat), 8 * 4);
  EXPECT_EQ(matrix(Precision::kGFloat), 8 * 8);
  EXPECT_EQ(matrix(Precision::kHalf), 16 * 16);
  const auto vector = [&](Precision precision) {
    return isa::peak_macs_per_cycle(precision, false, chip_) / 1024;
  };
  EXPECT_EQ(vector(Precision::kDouble), 2);
  EXPECT_EQ(vector(Precision::kFloat), 8);
  EXPECT_EQ(vector(Precision::kHalf), 16);
}

TEST_F(IsaPage, Section14Timing) {
  EXPECT_EQ(isa::kCyclesPerStep, 4);
  EXPECT_EQ(isa::kInstructionBytes, 37);
  EXPECT_EQ(chip_.transfer.issue_interval_steps, 4);
  EXPECT_EQ(chip_.hazard.pe_write_complete_cycles, 6);
  EXPECT_EQ(chip_.clock_hz, 750e6);
  const double flop_per_cycle = 2 * isa::peak_macs_per_cycle(isa::Precision::kDouble, true, chip_);
  EXPECT_EQ(flop_per_cycle, 16384);
  EXPECT_NEAR(flop_per_cycle * chip_.clock_hz, 12.3e12, 0.05e12);
  const isa::Chip first = isa::find_chip("mncore1");
  EXPECT_EQ(first.mab_count(), 2048);
  EXPECT_NEAR(2 * isa::peak_macs_per_cycle(isa::Precision::kHalf, true, first) * first.clock_hz, 524e12,
              0.5e12);
  // The assumptions.
  EXPECT_NEAR(chip_.transfer.dram_lw_per_cycle * 8 * chip_.clock_hz, 102.4e9, 1e6);
  EXPECT_EQ(chip_.transfer.dram_channels * chip_.transfer.dram_banks, 16);
  EXPECT_EQ(chip_.transfer.dram_row_bytes, 2048);
  EXPECT_EQ(chip_.transfer.dram_row_miss_ns, 30);
  EXPECT_EQ(chip_.transfer.dram_refresh_interval_ns, 3900);
  EXPECT_EQ(chip_.transfer.dram_refresh_ns, 280);
  EXPECT_EQ(chip_.transfer.dram_turnaround_ns, 10);
  EXPECT_EQ(chip_.transfer.pdm_lw_per_cycle, 16);
  EXPECT_EQ(chip_.transfer.l2bm_mv_lw_per_cycle, 16);
  EXPECT_EQ(chip_.transfer.group_link_lw_per_cycle, 16);
  EXPECT_EQ(chip_.transfer.startup_cycles, 64);
  EXPECT_EQ(chip_.transfer.group_hop_cycles, 32);
  EXPECT_EQ(chip_.transfer.max_in_flight, 16);
  EXPECT_EQ(chip_.host_link.bytes_per_second, 25e9);
  EXPECT_EQ(chip_.host_link.latency_seconds, 1e-6);
  EXPECT_EQ(chip_.host_link.instruction_buffer_steps, 64 * 1024);
}

// ---- 13 ------------------------------------------------------------------------------------------------

TEST_F(IsaPage, Example1Flags) {
  const auto lines =
      run("d set $lr0n0c0b0m0p0 4 0000000000000003000000000000000400000000000000050000000000000002\n"
          "d set $ls0n0c0b0m0p0 4 fffffffffffffffffffffffffffffffffffffffffffffff7fffffffffffffffa\n"
          "ladd $lr0v $ls0v $lr8v $omr1\nd get $omr1n0c0b0m0p0 1\n");
  EXPECT_THAT(lines, ElementsAre(HasSubstr("Mask{15}"), HasSubstr("Mask{15}"), HasSubstr("Mask{0}"),
                                 HasSubstr("Mask{0}")));
  EXPECT_THAT(read_all(Space::kGrf0, 8, 4),
              ElementsAre(2u, 3u, static_cast<uint64_t>(-4), static_cast<uint64_t>(-4)));
}

TEST_F(IsaPage, Example2Turnaround) {
  run("lpassa $peid $lr0\nnop\nl1bmrliadd $lr0 $lbi\nl1bmm $lbi $ln0\n");
  for (const int mab : {0, 7, 15}) {
    for (int pe = 0; pe < 4; ++pe) {
      EXPECT_EQ(read(Space::kLm1, 0, {3, 1, 5, mab, pe}), 0x1e0u + 0x10u * static_cast<unsigned>(pe));
    }
  }
}

TEST_F(IsaPage, Example3ConcatenationUpward) {
  run("lpassa $l1bid $lr4\nnop\nl1bmd $lr4 $lb0\nnop/2\nl2bmd $lb0 $lc0\n");
  for (int i = 0; i < 64; ++i) EXPECT_EQ(read(Space::kL2bm, i), static_cast<uint64_t>(i / 8)) << i;
}

TEST_F(IsaPage, Example4BlockFloat) {
  const auto lines = run("d set $lm4 1 4040000040400000\nfbfn $lm4 $lr4\nd getf $lr4n0c0b0m0p0 1\n");
  EXPECT_THAT(lines, ElementsAre(HasSubstr("(3.5, 3.5) (0x40600000, 0x40600000)")));
}

TEST_F(IsaPage, Example5Rsqrt) {
  run("d set $lm4 2 3fc000004090000040e0000041000000\nfrsqrt $lm4v $lr4v\n");
  EXPECT_EQ(read(Space::kGrf0, 4), 0x3f5000003ef00000u);
  EXPECT_EQ(read(Space::kGrf0, 6), 0x3ec000003eb40000u);
}

TEST_F(IsaPage, Example6Half) {
  run("d set $lm12 1 3e003c0040004200\nhvpassa $lm12 $llr12\n");
  EXPECT_EQ(read(Space::kGrf0, 12), 0x3f8000003f000000u);
  EXPECT_EQ(read(Space::kGrf0, 14), 0x4000000040800000u);
}

}  // namespace
}  // namespace kodama::simulator
