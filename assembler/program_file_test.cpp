#include "assembler/program_file.h"

#include <gtest/gtest.h>

#include <random>

#include "assembler/assembler.h"
#include "assembler/random_program.h"
#include "isa/error.h"
#include "isa/rounds_test_util.h"

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
  std::get<isa::Step>(step.kind).instructions.own()[0].sources[0].loop_strides = {8, 2};
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
TEST(ProgramFile, ProgramsComeBackEqual) {
  for (uint64_t seed = 1; seed <= isa::random_cases<uint64_t>(20, 5, 50); ++seed) {
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
  EXPECT_EQ(error_of(sealed_program(newer)), "a.kprog: a program file of version 2; allowed is 1");
  EXPECT_EQ(error_of(bytes + "x"), "a.kprog: the checksum is wrong: the file is cut off or has been changed");
}

std::string refusal(const isa::Program& program) {
  return error_of(save_program(program, tiny()));
}
isa::Program looped(const std::string& text, const std::vector<int64_t>& counts,
                    const std::vector<int64_t>& source_strides) {
  isa::Program program = assemble(text, "a.vsm", tiny());
  if (auto* step = std::get_if<isa::Step>(&program.statements[0].kind)) {
    step->instructions.own()[0].sources[0].loop_strides = source_strides;
  }
  for (size_t d = counts.size(); d-- > 0;) {
    isa::Loop loop{counts[d], std::move(program.statements)};
    program.statements = {{std::move(loop), 0}};
  }
  return program;
}

TEST(ProgramFile, AddressesAreCheckedInEveryIteration) {
  EXPECT_EQ(refusal(looped("lpassa $lm8 $lr0\n", {10, 4}, {8, -2})), "");
  // The lowest and the highest address are neither in the first nor in the last iteration.
  EXPECT_EQ(refusal(looped("lpassa $lm8 $lr0\n", {10, 4}, {8, -4})),
            "a.kprog:1: address -4 is out of range; allowed: 0..4095 (words)");
  EXPECT_EQ(refusal(looped("lpassa $lm4000 $lr0\n", {2, 1000}, {96, -4})),
            "a.kprog:1: address 4096 is out of range; allowed: 0..4095 (words)");
  EXPECT_EQ(refusal(looped("lpassa $lm0 $lr0\n", {3}, {1})).substr(0, 22), "a.kprog:1: address 1 o");
  EXPECT_EQ(refusal(looped("lpassa $lm0 $lr0\n", {1}, {1})), "");
  EXPECT_EQ(refusal(looped("lpassa $lm0 $lr0\n", {0}, {-8})), "");
  EXPECT_EQ(refusal(looped("lpassa $lm0 $lr0\n", {2, 2}, {8, 0, 0})),
            "a.kprog:1: an operand has strides for more loops than there are around it");
  EXPECT_EQ(refusal(looped("lpassa $lm0 $lr0\n", {3}, {int64_t{1} << 62})).substr(0, 20),
            "a.kprog:1: address 4");
  // Reads that agree in the first iteration only.
  isa::Program program = looped("fvadd $lm0 $lm0 $lr0\n", {2}, {2});
  EXPECT_NE(refusal(program).find("two reads of $m (LM0) with different addresses"), std::string::npos);
}

TEST(ProgramFile, NumbersOfStepsAreBounded) {
  constexpr int64_t kHuge = int64_t{1} << 62;
  EXPECT_EQ(refusal(looped("nop\n", {kHuge, kHuge, kHuge}, {})),
            "a.kprog: its loops make more than 72057594037927936 steps or statements");
  EXPECT_EQ(refusal(looped("nop/1000\n", {1000, 1000, 1000}, {})), "");
  isa::Program idle;
  idle.statements = {{isa::Loop{kHuge, {{isa::Loop{kHuge, {}}}}}}};
  EXPECT_EQ(refusal(idle), "");
  EXPECT_EQ(print(idle), "");
  isa::Program deep = looped("nop\n", std::vector<int64_t>(isa::kMaxLoopDepth, 1), {});
  EXPECT_EQ(refusal(deep), "");
  deep.statements = {{isa::Loop{1, deep.statements}}};
  EXPECT_THROW(save_program(deep, tiny()), isa::InternalError);
}

/// What runs is what its text says.
TEST(ProgramFile, StatementsThatNoTextSaysAreRefused) {
  isa::Program program = assemble("d get $lm0n0c0b0m0p0 1\n", "a.vsm", tiny());
  auto& get = std::get<isa::DebugGet>(program.statements[0].kind);
  get.text.clear();
  EXPECT_EQ(refusal(program), "");
  get.text = "d get $lm2n0c0b0m0p0 1";
  EXPECT_EQ(refusal(program),
            "a.kprog:1: holds more than its text 'd get $lm2n0c0b0m0p0 1' says; no assembler made it");
  get.text = "nop";
  EXPECT_NE(refusal(program), "");
  get.text = "";
  program = assemble("lpassa $aluf $lr0\n", "a.vsm", tiny());
  std::get<isa::Step>(program.statements[0].kind).instructions.own()[0].sources[0].width = isa::Width::kWord;
  EXPECT_EQ(refusal(program),
            "a.kprog:1: holds more than its text 'lpassa $aluf $lr0' says; no assembler made it");
}

TEST(ProgramFile, NamesMayBeOfAnyCharacters) {
  const isa::Program program = assemble("# region a\tb\nnop\n# endregion\n", "a\tb\n.vsm", tiny());
  const isa::Program again = load_program(save_program(program, tiny()), "a.kprog", tiny());
  EXPECT_EQ(again, program);
  EXPECT_EQ(again.source_name, "a?b?.vsm");
}

TEST(ProgramFile, ANumberHasOneSpelling) {
  const std::string bytes = save_program(assemble("nop\n", "a", tiny()), tiny());
  std::string longer = bytes;
  // The count of a nop, 1, in two bytes.
  longer.replace(bytes.size() - 6, 1, std::string("\x82\x00", 2));
  EXPECT_NE(error_of(sealed_program(longer)).find("a number is longer than it need be"), std::string::npos);
  EXPECT_EQ(sealed_program("abc"), "abc");
}

TEST(ProgramFile, EveryFormIsWritten) {
  const isa::Program program = assemble("# region r\nnop/2\n# endregion\n", "a.vsm", tiny());
  const auto written = [&](const isa::Program& p, ProgramForm form) {
    std::string text;
    write_program(p, form, tiny(), {}, [&](std::string_view piece) { text += piece; });
    return text;
  };
  EXPECT_EQ(written(program, ProgramForm::kText), print(program));
  EXPECT_EQ(written(program, ProgramForm::kWords), to_words(program));
  EXPECT_EQ(written(program, ProgramForm::kBinary), save_program(program, tiny()));
  // A small file may unroll to any length.
  const isa::Program many = looped("nop\n", {1 << 20, 1 << 20}, {});
  EXPECT_THROW(written(many, ProgramForm::kText), isa::UnsupportedError);
  EXPECT_THROW(written(many, ProgramForm::kWords), isa::UnsupportedError);
  EXPECT_EQ(load_program(written(many, ProgramForm::kBinary), "a.kprog", tiny()), many);
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
  for (int i = 0; i < isa::random_cases(2500, 600, 5000); ++i) {
    std::string changed = bytes;
    for (uint32_t k = 1 + random() % 3; k > 0; --k)
      changed[12 + random() % (changed.size() - 16)] = static_cast<char>(random());
    changed = sealed_program(changed);
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
