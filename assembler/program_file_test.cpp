#include "assembler/program_file.h"

#include <gtest/gtest.h>

#include <boost/crc.hpp>
#include <random>

#include "assembler/assembler.h"
#include "assembler/random_program.h"
#include "isa/error.h"

namespace kodama::assembler {
namespace {

const isa::Chip& tiny() {
  static const isa::Chip chip = isa::find_chip("tiny");
  return chip;
}

/// Random statements, some of them in loops.
isa::Program program_with_loops(uint64_t seed, int statements) {
  isa::Program program = RandomProgram(tiny(), seed).program(statements);
  for (size_t i = 0; i < program.statements.size(); ++i) program.statements[i].line = static_cast<int32_t>(i);
  program.source_name = "random.vsm";
  isa::Loop inner;
  inner.count = 3;
  inner.body = RandomProgram(tiny(), seed + 1000).program(3).statements;
  isa::Loop outer;
  outer.count = 5;
  outer.body.push_back({inner, 7});
  isa::Program strided = assemble("lpassa $lm0v $lr0v\n", "a.vsm", tiny());
  isa::Statement step = strided.statements[0];
  std::get<isa::Step>(step.kind).instructions[0].sources[0].loop_strides = {8, 2};
  std::get<isa::Loop>(outer.body[0].kind).body.push_back(step);
  program.statements.push_back({outer, 9});
  return program;
}

std::string error_of(std::string_view bytes, const isa::Chip& chip = tiny()) {
  try {
    load_program(bytes, "a.kprog", chip);
  } catch (const isa::UserError& error) {
    return error.what();
  }
  return "";
}
/// With the checksum made right again.
std::string resealed(std::string bytes) {
  bytes.resize(bytes.size() - 4);
  boost::crc_32_type crc;
  crc.process_bytes(bytes.data(), bytes.size());
  for (int shift = 0; shift < 32; shift += 8) bytes += static_cast<char>(crc.checksum() >> shift);
  return bytes;
}

TEST(ProgramFile, ProgramsComeBackEqual) {
  for (uint64_t seed = 1; seed <= 50; ++seed) {
    const isa::Program program = program_with_loops(seed, 100);
    const std::string bytes = save_program(program, tiny());
    EXPECT_TRUE(looks_like_program_file(bytes));
    const isa::Program again = load_program(bytes, "a.kprog", tiny());
    ASSERT_EQ(again, program) << "seed " << seed;
    EXPECT_EQ(again.source_name, program.source_name);
    EXPECT_EQ(again.statements.back().line, 9);
    EXPECT_EQ(print(again), print(program));
    EXPECT_EQ(save_program(again, tiny()), bytes);
  }
}

TEST(ProgramFile, ForeignFilesAreRefused) {
  const std::string bytes = save_program(program_with_loops(1, 3), tiny());
  EXPECT_EQ(error_of(""), "a.kprog: not a program of Kodama: it begins with other bytes");
  EXPECT_EQ(error_of("KODAMAP\n"), "a.kprog: not a program of Kodama: it ends too early");
  EXPECT_EQ(error_of("\x7f"
                     "ELF"),
            "a.kprog: not a program of Kodama: it begins with other bytes");
  EXPECT_EQ(error_of(bytes, isa::find_chip("mncore2")).substr(0, 40),
            "a.kprog: a program for the chip 'tiny' (");
  std::string newer = bytes;
  newer[8] = 2;
  EXPECT_EQ(error_of(resealed(newer)), "a.kprog: a program file of version 2; allowed is 1");
  EXPECT_EQ(error_of(bytes + "x"), "a.kprog: the checksum is wrong: the file is cut off or has been changed");
}

TEST(ProgramFile, EveryCutAndEveryFlippedBitIsSeen) {
  const std::string bytes = save_program(program_with_loops(2, 3), tiny());
  for (size_t size = 0; size < bytes.size(); ++size) EXPECT_NE(error_of(bytes.substr(0, size)), "") << size;
  for (size_t i = 0; i < bytes.size(); ++i) {
    for (int bit = 0; bit < 8; ++bit) {
      std::string changed = bytes;
      changed[i] = static_cast<char>(changed[i] ^ 1 << bit);
      EXPECT_NE(error_of(changed), "") << i;
    }
  }
}

/// A right checksum over wrong bytes: refused, or a program that passes the checks.
TEST(ProgramFile, ChangedBytesWithARightChecksumDoNoHarm) {
  std::mt19937 random(1);
  const std::string bytes = save_program(program_with_loops(3, 30), tiny());
  for (int i = 0; i < 5000; ++i) {
    std::string changed = bytes;
    for (uint32_t k = 1 + random() % 3; k > 0; --k)
      changed[12 + random() % (changed.size() - 16)] = static_cast<char>(random());
    changed = resealed(changed);
    try {
      const isa::Program program = load_program(changed, "a.kprog", tiny());
      EXPECT_EQ(load_program(save_program(program, tiny()), "a.kprog", tiny()), program);
    } catch (const isa::UserError&) {
    } catch (const isa::UnsupportedError&) {
    }
  }
}

}  // namespace
}  // namespace kodama::assembler
