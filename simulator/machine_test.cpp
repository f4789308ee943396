#include "simulator/machine.h"

#include <gmock/gmock.h>

#include "assembler/assembler.h"
#include "isa/chip.h"
#include "isa/error.h"
#include "simulator/test_chip.h"

namespace kodama::simulator {
namespace {

using isa::Space;

/// Runs VSM text on a fresh machine and returns the dumped lines.
std::vector<std::string> run(Machine& machine, const std::string& text) {
  std::vector<std::string> lines;
  RunOptions options;
  options.dump = [&](const std::string& line) { lines.push_back(line); };
  machine.run(assembler::assemble(text, "test.vsm", machine.chip()), options);
  return lines;
}

TEST(Machine, FlagsOfIsaExample1) {
  Machine machine(small_chip());
  const auto lines =
      run(machine,
          "d set $lr0n0c0b0m0p0 4 0000000000000003000000000000000400000000000000050000000000000002\n"
          "d set $ls0n0c0b0m0p0 4 fffffffffffffffffffffffffffffffffffffffffffffff7fffffffffffffffa\n"
          "ladd $lr0v $ls0v $lr8v $omr1\n"
          "d get $omr1n0c0b0m0p0 1\n");
  ASSERT_EQ(lines.size(), 4u);
  EXPECT_THAT(lines[0], testing::HasSubstr("Mask{15}"));
  EXPECT_THAT(lines[1], testing::HasSubstr("Mask{15}"));
  EXPECT_THAT(lines[2], testing::HasSubstr("Mask{0}"));
  EXPECT_THAT(lines[3], testing::HasSubstr("Mask{0}"));
  const Place place;
  EXPECT_EQ(machine.read(Space::kGrf0, place, 8), 2u);
  EXPECT_EQ(machine.read(Space::kGrf0, place, 10), 3u);
  EXPECT_EQ(machine.read(Space::kGrf0, place, 12), static_cast<uint64_t>(-4));
  EXPECT_EQ(machine.read(Space::kGrf0, place, 14), static_cast<uint64_t>(-4));
}

TEST(Machine, TurnaroundOfIsaExample2) {
  Machine machine(isa::find_chip("mncore2"));
  run(machine, "lpassa $peid $lr0\nnop\nl1bmrliadd $lr0 $lbi\nl1bmm $lbi $ln0\n");
  for (const int mab : {0, 7, 15}) {
    for (int pe = 0; pe < 4; ++pe) {
      EXPECT_EQ(machine.read(Space::kLm1, {3, 1, 5, mab, pe}, 0), 0x1e0u + 0x10u * static_cast<unsigned>(pe));
    }
  }
}

TEST(Machine, ConcatenationOfIsaExample3) {
  Machine machine(isa::find_chip("mncore2"));
  run(machine, "lpassa $l1bid $lr4\nnop\nl1bmd $lr4 $lb0\nnop/2\nl2bmd $lb0 $lc0\n");
  for (int i = 0; i < 64; ++i) {
    EXPECT_EQ(machine.read(Space::kL2bm, {}, i), static_cast<uint64_t>(i / 8)) << i;
  }
}

TEST(Machine, BlockFloatOfIsaExample4) {
  Machine machine(small_chip());
  const auto lines = run(machine,
                         "d set $lm4 1 4040000040400000\n"
                         "fbfn $lm4 $lr4\n"
                         "d getf $lr4n0c0b0m0p0 1\n");
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_THAT(lines[0], testing::HasSubstr("(3.5, 3.5) (0x40600000, 0x40600000)"));
}

TEST(Machine, RsqrtOfIsaExample5) {
  Machine machine(small_chip());
  run(machine,
      "d set $lm4 1 3fc0000040900000\n"
      "d set $lm6 1 40e0000041000000\n"
      "frsqrt $lm4 $lr4\n"
      "frsqrt $lm6 $lr6\n");
  EXPECT_EQ(machine.read(Space::kGrf0, {}, 4), 0x3f5000003ef00000u);
  EXPECT_EQ(machine.read(Space::kGrf0, {}, 6), 0x3ec000003eb40000u);
}

TEST(Machine, HalfOfIsaExample6) {
  Machine machine(small_chip());
  run(machine, "d set $lm12 1 3e003c0040004200\nhvpassa $lm12 $llr12\n");
  EXPECT_EQ(machine.read(Space::kGrf0, {}, 12), 0x3f8000003f000000u);
  EXPECT_EQ(machine.read(Space::kGrf0, {}, 14), 0x4000000040800000u);
}

TEST(Machine, MultiplierDropsLowProductOfSection86) {
  Machine machine(small_chip());
  run(machine,
      "d set $lm0 1 4980000849800008\n"
      "d set $ls0 1 d3800000d3800000\n"
      "fvfma $lm0 $lm0 $ls0 $lr0\n");
  EXPECT_EQ(machine.read(Space::kGrf0, {}, 0), 0x4a0000104a000010u);
}

TEST(Machine, OneIncrementPerStepOfSection14) {
  Machine machine(small_chip());
  run(machine, "linc $lr0 $lr0\nnop\nlinc $lr0 $lr0\n");
  EXPECT_EQ(machine.read(Space::kGrf0, {1, 1, 1, 3, 3}, 0), 2u);
}

TEST(Machine, GatherThroughTOfSection32) {
  Machine machine(small_chip());
  run(machine,
      "d set $lm0 4 0000000000000010000000000000001100000000000000120000000000000013\n"
      "d set $lr0 4 0000000000000004000000000000000200000000000000060000000000000000\n"
      "lpassa $lr0v $t\nnop\nlpassa $lmt $ln0v\n");
  for (int i = 0; i < 4; ++i) {
    const std::array<uint64_t, 4> expected{0x12, 0x11, 0x13, 0x10};
    EXPECT_EQ(machine.read(Space::kLm1, {}, 2 * i), expected[static_cast<size_t>(i)]);
  }
}

TEST(Machine, L1bmmWithoutStrideKeepsTheLastCycle) {
  Machine machine(small_chip());
  std::string payload;
  for (int i = 0; i < 16; ++i) payload += fmt::format("{:016x}", 100 + i);
  run(machine, "d set $lb0 16 " + payload + "\nl1bmm $lb0 $lm0\n");
  for (int pe = 0; pe < 4; ++pe) EXPECT_EQ(machine.read(Space::kLm0, {0, 0, 0, 0, pe}, 0), 112u + pe);
}

TEST(Machine, DoubleMatrixOfSection84) {
  Machine machine(small_chip());
  // Rows (1,2,0,0), (3,4,0,0), 0, 0 and v = (5,6,0,0).
  auto hex = [](double x) { return fmt::format("{:016x}", std::bit_cast<uint64_t>(x)); };
  std::string text;
  text += "d set $lr0n0c0b0m0p0 2 " + hex(1) + hex(3) + "\n";
  text += "d set $lr0n0c0b0m0p1 2 " + hex(2) + hex(4) + "\n";
  text += "d set $ls0n0c0b0m0p0 1 " + hex(5) + "\n";
  text += "d set $ls0n0c0b0m0p1 1 " + hex(6) + "\n";
  text +=
      "dbfn $lr0v $lm0v\ndbfn $ls0 $ln0\nnop/2\ndmwrite $lm0v $lx0\nnop/2\n"
      "dmmulu $lx $ln0 $nowrite\ndmfmad $lx $ln0 $mauf $lm16\n"
      "nop/2\ndmmulu $lx $ln0 $lm18\n";
  run(machine, text);
  EXPECT_EQ(machine.read(Space::kLm0, {0, 0, 0, 0, 0}, 16), std::bit_cast<uint64_t>(17.0));
  EXPECT_EQ(machine.read(Space::kLm0, {0, 0, 0, 0, 1}, 16), std::bit_cast<uint64_t>(39.0));
  EXPECT_EQ(machine.read(Space::kLm0, {0, 0, 0, 0, 2}, 16), 0u);
  EXPECT_EQ(machine.read(Space::kLm0, {0, 0, 0, 0, 1}, 18), std::bit_cast<uint64_t>(39.0));
}

TEST(Machine, DumpLineOfSection102) {
  Machine machine(small_chip());
  const auto lines = run(
      machine, "d set $lm4n0c0b0m0p1 1 3f800000c0200000\nd getf $lm4n0c0b0m0p1 1\nd get $lm4n0c0b0m0p1 1\n");
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_EQ(lines[0], "DEBUG-LM0(n0c0b0m0p1,4):(1, -2.5) (0x3f800000, 0xc0200000) #d getf $lm4n0c0b0m0p1 1");
  EXPECT_THAT(lines[1], testing::HasSubstr("i:{{0x3F80,0x0},{0xC020,0x0}}, v:0x3F800000C0200000)"));
}

TEST(Machine, DumpsOfTRepeat) {
  Machine machine(small_chip());
  std::string sets;
  for (int k = 0; k < 8; ++k) sets += fmt::format("d set $lt{}n0c0b0m0p0 1 {:016X}\n", k, k);
  const auto lines = run(machine, sets + "d get $tn0c0b0m0p0 12\n");
  ASSERT_EQ(lines.size(), 12u);
  for (int k = 0; k < 12; ++k) {
    EXPECT_THAT(lines[static_cast<size_t>(k)],
                testing::HasSubstr(
                    fmt::format("TREG(n0c0b0m0p0,{}):(f:0, i:{{{{0x0,0x0}},{{0x0,0x{:X}}}}}", k % 8, k % 8)));
  }
}

TEST(Machine, HugeTransfersAreCountedOrRefused) {
  Machine machine(small_chip());
  const auto program = [&](const std::string& text) {
    return assembler::assemble(text, "test.vsm", machine.chip());
  };
  const std::string largest = "mvnop/n9223372036854775807\n";
  EXPECT_EQ(machine.run(program(largest + largest)).mv_lw, INT64_MAX);
  for (const char* text :
       {"mvp/n2305843009213693952 $d0@0 $d64@0\n", "mvp/n1048576000 $d0@0 $d64@0\n",
        "mvp/n9223372036854775744 $di0@0 $di64@0\n", "mvb/n2305843009213693952 $d0@0 $lc0\n"})
    EXPECT_THROW(machine.run(program(text)), isa::UserError) << text;
}

TEST(Machine, OverlappingTransfersReadBeforeTheyWrite) {
  for (const auto& [from, to] : {std::pair<int, int>{0, 16}, {16, 0}, {32, 32}}) {
    Machine machine(small_chip());
    std::vector<uint64_t> data(512);
    for (size_t k = 0; k < data.size(); ++k) data[k] = k;
    machine.write_dram(0, 0, data);
    machine.run(
        assembler::assemble(fmt::format("mvp/n256 $d{}@0 $d{}@0\n", from, to), "test.vsm", machine.chip()));
    std::vector<uint64_t> result(256);
    machine.read_dram(0, to, result);
    EXPECT_EQ(result, std::vector<uint64_t>(data.begin() + from, data.begin() + from + 256));
  }
}

TEST(Machine, WaitAccountsForTheTransfer) {
  Machine machine(small_chip());
  const RunStats stats = machine.run(
      assembler::assemble("mvp/n64i01 $d0 $p0\nnop\nnop; wait i01\n", "test.vsm", machine.chip()));
  EXPECT_EQ(stats.steps, 2);
  EXPECT_EQ(stats.mvs, 1);
  // The word of the first nop comes 1.11 cycles after the MV's; 64 LW at 16 per cycle after the start-up.
  EXPECT_EQ(stats.causes.host_link, 2);
  EXPECT_EQ(stats.causes.wait, 64 + 4 - 2 - 4);
  EXPECT_EQ(stats.causes.drain, 0);
  EXPECT_EQ(stats.cycles(), 8 + 2 + 62);
}

TEST(Machine, TransfersBeyondTheMemoryAreRefused) {
  Machine machine(small_chip());
  isa::Program program = assembler::assemble("mvp/n64 $d0@0 $p0@0\n", "test.vsm", machine.chip());
  std::get<isa::Mv>(program.statements[0].kind).instruction.sources[0].base =
      machine.chip().memory.dram_lw - 32;
  EXPECT_THROW(machine.run(program), isa::UserError);
}

TEST(Machine, LoopsEqualTheirUnrolledForm) {
  // for i < 3: for j < 2: LM1[2*(2i+j)] = LM0[2*(2i+j)] + 1, in two nested loops with affine addresses.
  isa::Program inner = assembler::assemble("linc $lm0 $ln0\n", "test.vsm", small_chip());
  isa::Statement body = inner.statements[0];
  auto& instruction = std::get<isa::Step>(body.kind).instructions.own()[0];
  instruction.sources[0].loop_strides = {4, 2};
  instruction.destinations[0].loop_strides = {4, 2};
  isa::Program program;
  program.statements.push_back({isa::Loop{3, {{isa::Loop{2, {body}}, 0}}}, 0});
  Machine machine(small_chip());
  for (int i = 0; i < 6; ++i) machine.write(Space::kLm0, {}, 2 * i, 10u * i);
  EXPECT_EQ(machine.run(program).steps, 6);
  for (int i = 0; i < 6; ++i) EXPECT_EQ(machine.read(Space::kLm1, {}, 2 * i), 10u * i + 1);
}

TEST(Machine, WholeChipHasItsRealMemory) {
  const isa::Chip chip = isa::find_chip("mncore2");
  Machine machine(chip);
  const std::vector<uint64_t> data{1, 2, 3};
  machine.write_dram(chip.groups - 1, chip.memory.dram_lw - 3, data);
  std::vector<uint64_t> back(3);
  machine.read_dram(chip.groups - 1, chip.memory.dram_lw - 3, back);
  EXPECT_EQ(back, data);
  EXPECT_THROW(machine.read_dram(0, chip.memory.dram_lw - 2, back), isa::UserError);
}

TEST(Machine, DirtyMemoryIsDirtyEverywhere) {
  const isa::Chip chip = isa::find_chip("mncore2");
  Machine machine(chip, {.memory = MachineOptions::Memory::kDirty, .seed = 3});
  for (const Space space :
       {Space::kLm0, Space::kGrf1, Space::kL1bm, Space::kL2bm, Space::kPdm, Space::kDram}) {
    EXPECT_NE(machine.read(space, {3, 1, 7, 15, 3}, 2), machine.read(space, {3, 1, 7, 15, 3}, 4));
  }
  EXPECT_NE(machine.read(Space::kDram, {2}, chip.memory.dram_lw - 1), 0U);
  // What is written stays where it was written.
  const uint64_t next = machine.read(Space::kDram, {1}, 8);
  machine.write(Space::kDram, {1}, 7, 42);
  EXPECT_EQ(machine.read(Space::kDram, {1}, 7), 42U);
  EXPECT_EQ(machine.read(Space::kDram, {1}, 8), next);
  EXPECT_NE(machine.read(Space::kDram, {2}, 7), 42U);
}

TEST(Machine, DirtyDramsDifferByGroupAndSeedAndAreTheMachinesOwn) {
  const isa::Chip chip = isa::find_chip("mncore2");
  const auto dirty = [&](uint64_t seed) {
    return Machine(chip, {.memory = MachineOptions::Memory::kDirty, .seed = seed});
  };
  Machine machine = dirty(3);
  const Machine same = dirty(3), other = dirty(4);
  machine.write(Space::kDram, {1}, 7, 42);
  // From the first page to the last, and where the pattern begins again.
  for (const int64_t address :
       {int64_t{8}, int64_t{1} << 20, (int64_t{1} << 21) - 1, chip.memory.dram_lw - 1}) {
    const uint64_t value = machine.read(Space::kDram, {1}, address);
    EXPECT_EQ(value, same.read(Space::kDram, {1}, address)) << address;
    EXPECT_NE(value, other.read(Space::kDram, {1}, address)) << address;
    EXPECT_NE(value, machine.read(Space::kDram, {2}, address)) << address;
  }
  EXPECT_NE(same.read(Space::kDram, {1}, 7), 42U);
}

}  // namespace
}  // namespace kodama::simulator
