#include "simulator/debug/judge.h"

#include <gtest/gtest.h>

#include <random>

#include "isa/error.h"

namespace kodama::simulator {
namespace {

const std::string kTest =
    "# chip=tiny\n"
    "d set $lm0n0c0b0m0p0 1 400000003F800000\n"
    "# ======= YOUR VSM WILL BE INSERTED HERE =======\n"
    "# ======= Output =======\n"
    "d getd $ln0n0c0b0m0p0 1 # expect=[4.0, 2] / Float @[0],[1] rtol=1e-6\n";

Verdict run(const std::string& test, const std::string& answer) {
  return judge(test, "t.vsm", answer, "a.vsm");
}
std::string message(const std::string& test, const std::string& answer = "nop\n") {
  try {
    run(test, answer);
  } catch (const isa::UserError& error) {
    return error.what();
  }
  return "";
}
std::string with_output(const std::string& output) {
  return "# chip=tiny\n# ======= YOUR VSM WILL BE INSERTED HERE =======\n" + output + "\n";
}

TEST(Judge, AcceptsARightAnswer) {
  const Verdict verdict = run(kTest, "fvadd $lm0 $lm0 $ln0  ! doubles\nnop/3 # wait\n");
  EXPECT_TRUE(verdict.accepted);
  EXPECT_EQ(verdict.values, 2);
  EXPECT_EQ(verdict.lines(), 4);
  EXPECT_EQ(verdict.bytes, 30);
  EXPECT_EQ(verdict_text(verdict), "ACCEPTED: 2 values\nlines: 4 (4 steps, 0 transfers), 30 bytes\n");
}

TEST(Judge, NamesEveryDifference) {
  const Verdict verdict = run(kTest, "lpassa $lm0 $ln0");
  EXPECT_FALSE(verdict.accepted);
  EXPECT_EQ(verdict_text(verdict),
            "line 5: LM1(n0c0b0m0p0,0) lane 0 [0]: expected 4.0, found 2\n"
            "line 5: LM1(n0c0b0m0p0,0) lane 1 [1]: expected 2, found 1\n"
            "WRONG ANSWER: 2 of 2 values differ\nlines: 1 (1 steps, 0 transfers), 16 bytes\n");
  EXPECT_NE(verdict_text(verdict, 1).find("… and 1 more differences"), std::string::npos);
}

TEST(Judge, AnswersHaveLimits) {
  const auto refusal = [](const std::string& answer, const JudgeOptions& options) -> std::string {
    try {
      judge(kTest, "t.vsm", answer, "a.vsm", options);
    } catch (const isa::UserError& error) {
      return error.what();
    }
    return "";
  };
  JudgeOptions options;
  options.most_steps = 10;
  EXPECT_EQ(refusal("nop/11\n", options), "a.vsm: 11 steps and transfers; the limit is 10");
  EXPECT_EQ(refusal(std::string(20, '\n'), options), "a.vsm: 20 lines; the limit is 10");
  EXPECT_EQ(refusal("nop/10\n", options), "");
  options = {};
  options.most_seconds = 1e-9;
  EXPECT_EQ(refusal("nop\n", options), "a.vsm: runs for more than 1e-09 s, the limit");
  options = {};
  options.most_bytes = int64_t{3} << 20;
  EXPECT_EQ(refusal("mvp/n262144 $d0@0 $d262144@0\n", options), "");  // 2 MiB
  EXPECT_EQ(refusal("mvp/n524288 $d0@0 $d524288@0\n", options),
            "a.vsm:1: 'mvp' takes more memory than 3 MB, the limit");
}

TEST(Judge, DropsDebugStatementsAndBlockMasksOfAnswers) {
  const Verdict verdict =
      run(kTest, "d set $ln0 1 4080000040000000\nd get $lm0n0c0b0m0p0 1\nmaskln 24\nnop\n");
  EXPECT_EQ(verdict.dropped, 2);
  EXPECT_FALSE(verdict.accepted);  // what the dropped statement would have set is not there
  // The part behind the marker starts without the answer's mask, and keeps its own between two d get.
  const std::string test = with_output(
      "immu i\"5\" $n0\nd get $ln0n0c0b0m0p0 1 # expect=[5, 0] / Int\n"
      "maskln 31\nimmu i\"6\" $n0\nd get $ln0n0c0b0m0p0 1 # expect=[6, _] / Int\n"
      "maskln 16\nd get $lm0n0c0b0m0p0 1\nimmu i\"7\" $n0\nd get $ln0n0c0b0m0p0 1 # expect=[6] / Int");
  EXPECT_TRUE(run(test, "maskln 16\nnop\n").accepted);
}

TEST(Judge, TypesAndLanes) {
  const std::string set = "d set $lm0n0c0b0m0p0 1 FFFFFFFF80000000\n";
  const auto accepts = [&](const std::string& expectation) {
    return run(set + with_output("d getd $lm0n0c0b0m0p0 1 # expect=" + expectation), "").accepted;
  };
  EXPECT_TRUE(accepts("[-1, -2147483648] / Int"));
  EXPECT_TRUE(accepts("[0xffffffff,0x80000000] / Int"));
  EXPECT_TRUE(accepts("[4294967295, 2147483648] / UInt"));
  EXPECT_TRUE(accepts("[-1] / Int"));
  EXPECT_TRUE(accepts("[_, _, -32768, 0] / Short"));
  EXPECT_TRUE(accepts("[0xFFFFFFFF80000000] / ULong"));
  EXPECT_TRUE(accepts("[-2147483648] / Long"));
  EXPECT_TRUE(accepts("[_, -0.0] / Float"));
  EXPECT_TRUE(accepts("[-inf] / Half"));  // all-ones exponent, whatever the mantissa
  EXPECT_FALSE(accepts("[0, -2147483648] / Int"));
  EXPECT_TRUE(accepts("[1, -2147483648] / Int atol=2"));
  EXPECT_FALSE(accepts("[2, -2147483648] / Int atol=2"));
  EXPECT_TRUE(accepts("[_, -2147483000] / Int rtol=1e-6"));
  EXPECT_FALSE(accepts("[_, -2147480000] / Int rtol=1e-6 atol=1"));
}

TEST(Judge, WrongTestCases) {
  EXPECT_EQ(message("nop\n"),
            "t.vsm: the marker for the answer is missing: a line '# ======= YOUR VSM WILL BE INSERTED HERE "
            "======='");
  EXPECT_EQ(message(with_output("d get $lm0 1")),
            "t.vsm: nothing is expected: no 'd get' line has a comment '# expect=[…] / TYPE'");
  const auto at = [&](const std::string& expectation) {
    return message(with_output("d getd $lm0n0c0b0m0p0 1 # expect=" + expectation));
  };
  EXPECT_EQ(at("4"), "t.vsm:3:34: in 'expect': allowed here is '[' and a list of values");
  EXPECT_EQ(at("[4"), "t.vsm:3:36: in 'expect': allowed here is ',' or ']'");
  EXPECT_EQ(at("[4]"), "t.vsm:3:37: in 'expect': allowed here is '/' and a type");
  EXPECT_EQ(
      at("[4] / Complex"),
      "t.vsm:3:40: in 'expect': allowed here is a type: Int, UInt, Long, ULong, Short, UShort, Half, Float "
      "or Double");
  EXPECT_EQ(at("[4.5] / Int"), "t.vsm:3:35: in 'expect': allowed here is a number of type Int");
  EXPECT_EQ(at("[4] / Int eps=1"),
            "t.vsm:3:44: in 'expect': allowed here is '@[index],…', 'atol=' or 'rtol='");
  EXPECT_EQ(at("[4] / Int atol=-1"),
            "t.vsm:3:49: in 'expect': allowed here is a number that is not negative");
  EXPECT_EQ(at("[1, 2, 3] / Int"), "t.vsm:3: 3 values are expected, but the statement prints 2 of type Int");
  EXPECT_EQ(message(with_output("nop # expect=[1] / Int")),
            "t.vsm:3: 'expect' belongs to a 'd get' statement on its line");
  EXPECT_NE(message(kTest, "ladd $lm0\n").find("a.vsm:1:"), std::string::npos);
}

TEST(Judge, TestCasesNameChipsAndNotFiles) {
  for (const char* file : {"/dev/zero", "../configs/tiny.yaml", "tiny.yaml"}) {
    EXPECT_EQ(message(fmt::format("nop\n  # chip={}\n{}", file, with_output("nop"))).substr(0, 45),
              "t.vsm:2:5: 'chip=' takes the name of a chip, ")
        << file;
  }
}

/// Of what a statement prints, only what is expected is kept.
TEST(Judge, WholeMemoriesMayBePrinted) {
  EXPECT_TRUE(run(with_output("d get $p0n0 65536 # expect=[0, 0, 0] / Int"), "nop\n").accepted);
  EXPECT_EQ(message(with_output("d get $p0n0 2 # expect=[0, 0, 0, 0, 0] / Int")),
            "t.vsm:3: 5 values are expected, but the statement prints 4 of type Int");
}

TEST(Judge, SurvivesBrokenTestCases) {
  std::mt19937 random(1);
  for (int i = 0; i < 2000; ++i) {
    std::string text = kTest;
    for (int k = 0; k < 3; ++k) {
      const size_t at = random() % text.size();
      switch (random() % 3) {
        case 0:
          text.resize(at + 1);
          break;
        case 1:
          text[at] = static_cast<char>(random());
          break;
        default:
          text.insert(at, 1, "[]/,@=_\n#0"[random() % 10]);
      }
    }
    try {
      run(text, "nop");
    } catch (const isa::UserError&) {
    } catch (const isa::UnsupportedError&) {
    }
  }
}

}  // namespace
}  // namespace kodama::simulator
