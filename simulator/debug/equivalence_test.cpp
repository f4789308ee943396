#include "simulator/debug/equivalence.h"

#include <gmock/gmock.h>

#include "assembler/assembler.h"

namespace kodama::simulator {
namespace {

using testing::HasSubstr;

EquivalenceResult compare(const std::string& a, const std::string& b,
                          const EquivalenceOptions& options = {}) {
  const isa::Chip chip = isa::find_chip("tiny");
  return compare_programs(assembler::assemble(a, "a.vsm", chip), assembler::assemble(b, "b.vsm", chip), chip,
                          options);
}

TEST(Equivalence, EqualPrograms) {
  const EquivalenceResult result = compare("ladd $lr0v $lr0v $ls0v\n", "nop\nladd $lr0v $lr0v $ls0v\n");
  EXPECT_EQ(result.difference, "");
  EXPECT_EQ(result.compared, 4);
}

TEST(Equivalence, NamesThePlace) {
  EXPECT_THAT(compare("linc $lr0 $ls6\n", "linc $lr0 $ls6/0111\nlpassa $lr0 $ls8\n").difference,
              HasSubstr("GREG1(n0c0b0m0p0, address 8)"));
  EXPECT_THAT(compare("d get $lr0n0c0b0m0p0 1\n", "d get $lr2n0c0b0m0p0 1\n").difference,
              HasSubstr("line 1 of the output"));
}

/// -0 and +0, subnormals: what a copy keeps and an addition doesn't.
TEST(Equivalence, FindsSpecialValues) {
  EXPECT_NE(compare("lpassa $lr0v $ls0v\n", "fvpassa $lr0v $ls0v\n").difference, "");
  EXPECT_NE(compare("fmax $lr0v $lr0v $ls0v\n", "imax $lr0v $lr0v $ls0v; fvpassa $lr0v $lm0v\n").difference,
            "");
}

TEST(Equivalence, OnlyWhatCounts) {
  EquivalenceOptions options;
  options.counts = [](isa::Space space, int64_t) { return space == isa::Space::kGrf1; };
  EXPECT_EQ(compare("linc $lr0v $ls0v\n", "linc $lr0v $ls0v $lm0v\n", options).difference, "");
}

TEST(Equivalence, MemoriesAsLargeAsNeeded) {
  const isa::Chip chip = isa::find_chip("mncore2");
  const auto program = assembler::assemble("lpassa $lm64v $ln0v\n", "a.vsm", chip);
  const isa::Chip small = comparison_chip(chip, {&program});
  EXPECT_EQ(small.memory.lm_words, 128);
  EXPECT_EQ(small.groups, 1);
  const auto indirect = assembler::assemble("lpassa $lmt $ln0v\nl2bmb $lc0 $lb0\n", "a.vsm", chip);
  const isa::Chip whole = comparison_chip(chip, {&indirect});
  EXPECT_EQ(whole.memory.lm_words, chip.memory.lm_words);
  EXPECT_EQ(whole.l1b_per_l2b, 8);
}

}  // namespace
}  // namespace kodama::simulator
