#include "assembler/machine_words.h"

#include <gtest/gtest.h>

#include <random>

#include "assembler/assembler.h"
#include "assembler/random_program.h"

/// The golden words are put together by hand from the field table of the encoding page.
namespace kodama::assembler {
namespace {

const isa::Chip& chip() {
  static const isa::Chip result = isa::find_chip("mncore2");
  return result;
}
isa::Program parse(const std::string& text) {
  return assemble(text, "a.vsm", chip());
}
/// The nop word with the given bits replaced: pairs of a first bit and digits.
std::string word(const std::vector<std::pair<int, std::string>>& changes, bool forwards = true) {
  std::string text(292, '0');
  const auto put = [&](int first, const std::string& digits) {
    text.replace(static_cast<size_t>(first), digits.size(), digits);
  };
  put(45, "01");          // rfc0.wlen
  put(64, "01");          // rfc0.rlen
  put(86, "01");          // rfc1.wlen
  put(190, "111111111");  // mauc.src0-2
  put(199, "11");         // aluc.prec
  put(209, "1000");       // aluc.src0
  put(213, "111");        // aluc.src1
  put(241, "111");        // l1bm.src
  put(276, "11");         // l2bm.b276
  if (forwards) put(1, "1");
  for (const auto& [first, digits] : changes) put(first, digits);
  return "i " + text + "\n";
}

TEST(MachineWords, FieldsCoverTheWordOnce) {
  int next = 0;
  for (const WordField& field : word_fields()) {
    EXPECT_EQ(field.first, next) << field.name;
    EXPECT_LT(field.idle, 1 << field.width) << field.name;
    next += field.width;
  }
  EXPECT_EQ(next, kWordBits);
}

TEST(MachineWords, GoldenWords) {
  EXPECT_EQ(to_words(parse("nop\nnop/2\n")), word({}, false) + word({}, false) + word({}, false));
  // x in GRF0 at 16, y in LM0 at 8, z in GRF1 at 34 in steps of two long words, to LM1 at 4 as 2LW.
  EXPECT_EQ(to_words(parse("fvfma $lr16v $lm8v $ls34v4 $lln4v\n")),
            word({{47, "000010000"},
                  {56, "00000001"},
                  {64, "01"},  // rfc0.raddr, rinc, rlen
                  {88, "000100010"},
                  {97, "00000010"},
                  {105, "01"},  // rfc1.raddr, rinc, rlen
                  {110, "000000001000"},
                  {122, "00000000001"},
                  {137, "01"},  // lm0.addr, inc, len
                  {139, "1"},
                  {142, "000000000100"},
                  {154, "00000000001"},
                  {168, "10"},  // lm1
                  {170, "01"},
                  {172, "1"},
                  {190, "000"},
                  {193, "011"},
                  {196, "001"}}));  // mauc
  EXPECT_EQ(to_words(parse("hvmul -$mauf $aluf $t\n")),
            word({{22, "1"}, {170, "10"}, {172, "1"}, {182, "1"}, {188, "01"}, {190, "101"}, {193, "110"}}));
  // 3.0f = 0x40400000 in the fields of an imm.
  EXPECT_EQ(to_words(parse("imm f\"3.0\" $lr2/1000\n")), word({{2, "11000"},
                                                               {8, "1"},
                                                               {25, "1"},
                                                               {26, "01"},
                                                               {28, "000000010"},
                                                               {199, "01"},
                                                               {201, "11111"},
                                                               {207, "0"},
                                                               {208, "0"},
                                                               {209, "0000"},
                                                               {213, "010"},
                                                               {107, "000"},
                                                               {133, "000000"},
                                                               {110, "000000000000"}}));
  EXPECT_EQ(to_words(parse("lpassa $lm6v $ls2v\n")), word({{66, "1"},
                                                           {67, "01"},
                                                           {69, "000000010"},
                                                           {78, "00000001"},
                                                           {110, "000000000110"},
                                                           {122, "00000000001"},
                                                           {137, "01"},
                                                           {199, "00"},
                                                           {201, "01010"},
                                                           {209, "0011"}}));
  EXPECT_EQ(to_words(parse("l1bmm@0 $ln0v $lb396; gmmul $lx $lr0v $nowrite\n")), word({{47, "000000000"},
                                                                                       {56, "00000001"},
                                                                                       {142, "000000000000"},
                                                                                       {154, "00000000001"},
                                                                                       {168, "01"},
                                                                                       {170, "11"},
                                                                                       {172, "11"},
                                                                                       {188, "01"},
                                                                                       {190, "000"},
                                                                                       {217, "1101"},
                                                                                       {221, "0000110001100"},
                                                                                       {241, "100"}}));
  EXPECT_EQ(to_words(parse("hmwrite $lls4v $llx8\nd set $t 1 00000000000000aB\n")),
            word({{88, "000000100"},
                  {97, "00000001"},
                  {105, "10"},
                  {170, "10"},
                  {175, "1"},
                  {176, "1000"},
                  {180, "1"},
                  {181, "1"},
                  {193, "001"}}) +
                "d set $lt 1 00000000000000AB\n");
}

std::string refusal(const std::string& text, bool allow_inferred = false) {
  try {
    to_words(parse(text), {.allow_inferred = allow_inferred});
  } catch (const isa::UnsupportedError& error) {
    return error.what();
  }
  return "";
}

TEST(MachineWords, WhatIsNotKnownIsRefusedByName) {
  EXPECT_EQ(refusal("nop\nladd $lr0 $ls0 $ln0\n"),
            "a.vsm:2: 'ladd $lr0 $ls0 $ln0' needs the field aluc.op of the machine word, of which the value "
            "for this "
            "instruction is not known; write the program as text or in the binary format");
  EXPECT_NE(refusal("fvpassa $lr0v4 $nowrite\n").find("rfc0.rinc"), std::string::npos);
  EXPECT_NE(refusal("lpassa $lm0v6 $lr0\n").find("the value 3 is inferred only"), std::string::npos);
  EXPECT_EQ(refusal("lpassa $lm0v6 $lr0\n", true), "");
  EXPECT_NE(refusal("lpassa $lm0 $lr0/0100\n").find("mrc.imr"), std::string::npos);
  EXPECT_EQ(refusal("lpassa $lm0 $lr0/0100\n", true), "");
  EXPECT_NE(refusal("fvpassa $m1 $nowrite\n").find("lm0.len"), std::string::npos);
  EXPECT_NE(refusal("lpassa $lmt $lr0\n", true).find("lm0.mod"), std::string::npos);
  EXPECT_NE(refusal("l1bmp $lb0 $lr0\n", true).find("l1bm.op"), std::string::npos);
  EXPECT_NE(refusal("l2bmb $lc0 $lb0\n", true).find("l2bm.rest0"), std::string::npos);
  EXPECT_NE(refusal("mvnop\n", true).find("a transfer"), std::string::npos);
  EXPECT_NE(refusal("maskr 24\n", true).find("a mask statement"), std::string::npos);
  EXPECT_NE(refusal("fvaddr $lr0 $ls0 $ln0\n", true).find("mauc.b174"), std::string::npos);
}

std::string error_of(const std::string& words) {
  try {
    from_words(words, "a.asm", chip());
  } catch (const isa::UserError& error) {
    return error.what();
  }
  return "";
}

TEST(MachineWords, WrongWordFiles) {
  EXPECT_EQ(error_of("i 01\n"), "a.asm:1:3: a machine word of 2 characters; allowed are 292 binary digits");
  EXPECT_EQ(error_of("\nm 0\n").substr(0, 10), "a.asm:2:1:");
  std::string text = word({});
  text[9] = '2';
  EXPECT_EQ(error_of(text), "a.asm:1:10: a machine word consists of the digits 0 and 1");
  EXPECT_EQ(error_of(word({{201, "00001"}})),
            "a.asm:1:204: field aluc.op (bits 201 to 205) holds 1, which no known instruction explains");
  EXPECT_NE(error_of(word({{14, "1"}})).find("mrc.rest"), std::string::npos);
  EXPECT_NE(error_of(word({{27, "1"}})).find("rfc0.isel"), std::string::npos);
  EXPECT_NE(error_of(word({{256, "1"}})).find("l2bm.rest0"), std::string::npos);
}

/// Everything that has a known form comes back with its meaning, and its bits.
TEST(MachineWords, RandomStepsComeBack) {
  int encoded = 0;
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    RandomOptions options;
    options.transfers = options.mask_statements = options.debug_statements = options.other_statements = false;
    RandomProgram random(chip(), seed, options);
    for (int i = 0; i < 4000; ++i) {
      isa::Program program;
      program.statements.push_back(random.statement());
      std::string words;
      try {
        words = to_words(program, {.allow_inferred = true});
      } catch (const isa::UnsupportedError&) {
        continue;
      }
      ++encoded;
      const isa::Program again = from_words(words, "a.asm", chip());
      EXPECT_EQ(to_words(again, {.allow_inferred = true}), words) << print(program) << print(again);
      // The text of what was read is VSM of the same word.
      const isa::Program reassembled = parse(print(again));
      EXPECT_EQ(to_words(reassembled, {.allow_inferred = true}), words) << print(program) << print(again);
    }
  }
  EXPECT_GT(encoded, 1000);
}

TEST(MachineWords, RandomBitsAreReadOrRefused) {
  std::mt19937_64 random(1);
  for (int i = 0; i < 20000; ++i) {
    std::string text = word({});
    for (uint64_t k = 1 + random() % 8; k > 0; --k) text[2 + random() % kWordBits] ^= 1;
    isa::Program program;
    try {
      program = from_words(text, "a.asm", chip());
    } catch (const isa::UserError&) {
      continue;
    }
    EXPECT_EQ(to_words(program, {.allow_inferred = true}), text) << print(program);
  }
}

}  // namespace
}  // namespace kodama::assembler
