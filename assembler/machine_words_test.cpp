#include "assembler/machine_words.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>

#include "assembler/assembler.h"
#include "assembler/random_program.h"
#include "isa/costs.h"
#include "isa/rounds_test_util.h"

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

TEST(MachineWords, GoldenWordsOfEveryCertainInstruction) {
  const auto expect = [](const char* text, const std::vector<std::pair<int, std::string>>& changes) {
    EXPECT_EQ(to_words(parse(std::string(text) + "\n")), word(changes)) << text;
  };
  // MAU: prec 170, calc 172, matrix 173, half 180, mswap 181, neg 182-184, cvt 185-187, op 188, src 190-198.
  expect(
      "fvadd -$lr0 $aluf $t",
      {{22, "1"}, {23, "00"}, {170, "01"}, {172, "1"}, {182, "1"}, {188, "10"}, {190, "000"}, {196, "110"}});
  expect("fvpassa $mauf $nowrite", {{170, "01"}, {172, "1"}, {188, "11"}, {190, "101"}});
  expect("fvmul $t $ls2v4 $lr6v $ls8v", {{25, "1"},
                                         {26, "00"},
                                         {28, "000000110"},
                                         {37, "00000001"},
                                         {45, "01"},  // to $lr6v
                                         {66, "1"},
                                         {67, "00"},
                                         {69, "000001000"},
                                         {78, "00000001"},
                                         {86, "01"},  // to $ls8v
                                         {88, "000000010"},
                                         {97, "00000010"},
                                         {105, "01"},  // from $ls2v4
                                         {170, "01"},
                                         {172, "1"},
                                         {188, "01"},
                                         {190, "010"},
                                         {193, "001"}});
  expect("dvmulu $lr0 $ln0 $nowrite",
         {{168, "01"}, {170, "00"}, {172, "1"}, {180, "0"}, {188, "01"}, {190, "000"}, {193, "100"}});
  expect("dvfmau $mauf $aluf -$t $nowrite",
         {{172, "1"}, {184, "1"}, {188, "00"}, {190, "101"}, {193, "110"}, {196, "010"}});
  expect("dmfmad $lx $lr0 $t $nowrite",
         {{172, "1"}, {173, "1"}, {180, "1"}, {181, "0"}, {188, "00"}, {190, "000"}, {196, "010"}});
  expect("dmwrite $lr0v $ly0", {{56, "00000001"}, {175, "1"}, {181, "0"}, {193, "000"}});
  expect("gmread $ly4 $nowrite", {{170, "11"}, {176, "0100"}});
  expect("hmread $lly8 $nowrite", {{170, "10"}, {176, "1000"}});
  expect("dmread $ly0 $nowrite", {});
  // The mwrite input is the second of the MAU, its `r` therefore cvt1.
  expect("hmwrite $lr0r $lx4",
         {{170, "10"}, {175, "1"}, {176, "0100"}, {181, "1"}, {186, "1"}, {193, "000"}});
  // ALU: prec 199, op 201, u 206, cvt 207-208, src0 209, src1 213.
  expect("frsqrt $lr0v $t",
         {{22, "1"}, {23, "01"}, {56, "00000001"}, {199, "01"}, {201, "10000"}, {209, "0000"}});
  expect("drsqrt $aluf $lln4v8", {{139, "1"},
                                  {140, "01"},
                                  {142, "000000000100"},
                                  {154, "00000000010"},
                                  {168, "10"},
                                  {199, "00"},
                                  {201, "10000"},
                                  {209, "1100"}});
  expect("gbfn $mreadf $nowrite", {{199, "11"}, {201, "11110"}, {209, "1110"}, {213, "000"}});
  expect("hbfe/9 $lr0r $nowrite; hmwrite $ls0 $lx0", {{105, "01"},
                                                      {170, "10"},
                                                      {175, "1"},
                                                      {181, "1"},
                                                      {193, "001"},
                                                      {199, "10"},
                                                      {201, "11101"},
                                                      {207, "1"},
                                                      {209, "0000"},
                                                      {213, "000"}});
  expect("immu ui\"0x80000003\" $lr0/1000", {{2, "11000"},
                                             {8, "1"},
                                             {25, "1"},
                                             {26, "01"},
                                             {199, "10"},
                                             {201, "11111"},
                                             {206, "1"},
                                             {207, "0"},
                                             {209, "0000"},
                                             {213, "000"},
                                             {110, "000000000011"}});
  expect("lpassa $lr0 $lm4v/1000", {{2, "11000"},
                                    {11, "1"},
                                    {107, "1"},
                                    {108, "01"},
                                    {110, "000000000100"},
                                    {122, "00000000001"},
                                    {137, "01"},
                                    {199, "00"},
                                    {201, "01010"},
                                    {209, "0000"}});
  // L1BM: op 217, addr 221, src 241.
  expect("l1bmrdfadd $mauf $lb508", {{217, "1111"}, {221, "0000111111100"}, {241, "101"}});
}

std::string refusal(const std::string& text, bool allow_inferred = false) {
  try {
    to_words(parse(text), WordOptions{.allow_inferred = allow_inferred});
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
  EXPECT_NE(refusal("lpassa/1000 $lr0 $ln0\n", true).find("mrc.rest"), std::string::npos);
  EXPECT_NE(refusal("lpassa $peid $ln0\n", true).find("aluc.src0"), std::string::npos);
  EXPECT_NE(refusal("l1bmm@1 $ln0 $lb0\n", true).find("l1bm.op"), std::string::npos);
}

/// Facts of grade I, each refused unless they are admitted.
TEST(MachineWords, WhatIsInferredNeedsTheOption) {
  const std::pair<const char*, const char*> facts[] = {
      {"noforward; lpassa $lr0 $ln0", "ll.fwd"},
      {"lpassa $lr0 $ln0; wait i01", "wd"},
      {"nop; wait i3f", "wd"},
      {"lpassa $lr0 $ln0/0100", "mrc.en_n"},
      {"lpassa $lm0 $lr0/0100", "mrc.imr"},
      {"lpassa $lm0 $lr0/$imr1", "mrc.imr"},
      {"lpassa $lm0 $lr0/ll1000", "mrc.wl"},
      {"lpassa $lm0 $t/1000", "mrc.en_t"},
      {"fvpassa $lr0 $r1", "rfc0.wlen"},
      {"fvpassa $r0 $nowrite", "rfc0.rlen"},
      {"fvpassa $s0 $nowrite", "rfc1.rlen"},
      {"fvpassa $lm0 $ls0v4", "rfc1.winc"},
      {"fvpassa $lm0v4 $nowrite", "lm0.inc"},
      {"fvpassa $ln0v6 $nowrite", "lm1.inc"},
      {"fvpassa $n0 $nowrite", "lm1.len"},
      {"dvmuld $lr0 $ls0 $nowrite", "mauc.half"},
      {"gmmul $ly $lr0 $nowrite", "mauc.mswap"},
      {"gmread $lx0 $nowrite", "mauc.mswap"},
      {"hvmul $lr0r $ls0 $nowrite", "mauc.cvt0"},
      {"fpassa $lm0 $ls0", "aluc.op"},
      {"fbfn $lm0 $ls0", "aluc.op"},
      {"lpassa $ls0 $lm0", "aluc.src0"},
      {"hbfe/7 $lm0 $ls0", "aluc.src1"},
      {"l1bmm@0 $ln0 $lb2", "l1bm.addr"},
      {"l1bmm@0 $ln0 $lb512", "l1bm.addr"},
      {"l1bmm@0 $lr0 $lb0", "l1bm.src"},
      {"l2bmdarw", "l2bm.darwrite"},
  };
  for (const auto& [text, field] : facts) {
    const std::string message = refusal(std::string(text) + "\n");
    EXPECT_NE(message.find(field), std::string::npos) << text << ": " << message;
    EXPECT_NE(message.find("--allow-inferred"), std::string::npos) << text << ": " << message;
    EXPECT_EQ(refusal(std::string(text) + "\n", true), "") << text;
  }
}

/// No bit says that a matrix read happens. Where nothing else does, the word would lose it.
TEST(MachineWords, MatrixReadsThatAWordDoesNotShowAreRefused) {
  for (const char* text : {"gmmul $lx $lr0v $nowrite; gmread $ly0 $nowrite\n",
                           "lpassa $lm0 $ls0; dmread $ly0 $nowrite\n", "noforward; dmread $ly0 $nowrite\n"}) {
    EXPECT_NE(refusal(text, true).find("mauc.maddr of the machine word, which is the same with and without"),
              std::string::npos)
        << text << refusal(text, true);
  }
  for (const char* text :
       {"gmmul $lx $lr0v $nowrite; gmread $ly4 $nowrite\n", "dmread $ly0 $nowrite\n",
        "fvpassa $lr0v $nowrite; fmread $lx0 $nowrite\n", "lpassa $lm0 $ls0; gmread $ly0 $nowrite\n"}) {
    const isa::Program again = from_words(to_words(parse(text), {.allow_inferred = true}), "a.asm", chip());
    EXPECT_NE(print(again).find("mread"), std::string::npos) << text << print(again);
  }
}

TEST(MachineWords, ClashesNameBothInstructions) {
  EXPECT_EQ(refusal("nop\ngmwrite $lr0v $lx0; gmread $ly0 $nowrite\n", true),
            "a.vsm:2: 'gmwrite $lr0v $lx0' and 'gmread $ly0 $nowrite' need different values of the field "
            "mauc.mswap of the machine word: 1 and 0; put them into two steps");
}

TEST(MachineWords, LoopsAreUnrolled) {
  isa::Program program = parse("lpassa $lm8v $ls2v\n");
  auto& step = std::get<isa::Step>(program.statements[0].kind).instructions.own()[0];
  step.sources[0].loop_strides = {16, -8};
  step.destinations[0].loop_strides = {0, 8};
  program.statements = {{isa::Loop{2, {{isa::Loop{2, program.statements}}, {isa::Nop{2, 0}}}}}};
  EXPECT_EQ(to_words(program), to_words(parse("lpassa $lm8v $ls2v\nlpassa $lm0v $ls10v\nnop/2\n"
                                              "lpassa $lm24v $ls2v\nlpassa $lm16v $ls10v\nnop/2\n")));
}

TEST(MachineWords, ProgramsTooLongForALinePerStepAreRefused) {
  EXPECT_NE(refusal("nop/16777217\n").find("allowed: at most 16777216"), std::string::npos);
  isa::Program program;
  program.statements = {
      {isa::Loop{int64_t{1} << 40, {{isa::Loop{int64_t{1} << 40, parse("nop\n").statements}}}}}};
  EXPECT_THROW(to_words(program), isa::UnsupportedError);
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
  EXPECT_EQ(error_of("\nm 0\n"),
            "a.asm:2:1: the bits of a transfer ('m' line) are not known, so it can't be read");
  EXPECT_EQ(error_of("c host\nnop\n").substr(0, 11), "a.asm:2:1: ");
  // A line of its own keeps its number, wherever it stands.
  EXPECT_EQ(error_of(std::string(5000, '\n') + "d get $lm1n0 1\n").substr(0, 14), "a.asm:5001:7: ");
  std::string text = word({});
  text[9] = '2';
  EXPECT_EQ(error_of(text), "a.asm:1:10: a machine word consists of the digits 0 and 1");
  EXPECT_EQ(error_of(word({{201, "00001"}})),
            "a.asm:1:204: field aluc.op (bits 201 to 205) holds 1, which no known instruction explains");
  EXPECT_NE(error_of(word({{14, "1"}})).find("mrc.rest"), std::string::npos);
  EXPECT_NE(error_of(word({{27, "1"}})).find("rfc0.isel"), std::string::npos);
  EXPECT_NE(error_of(word({{256, "1"}})).find("l2bm.rest0"), std::string::npos);
}

TEST(MachineWords, LinesThatAreNoWordsAreCopied) {
  const isa::Program program =
      from_words("c host\n" + word({}, false) + "d getf $lm0n0 2\nr 0 000000010 001 0000000000000001\n",
                 "a.asm", chip());
  EXPECT_EQ(print(program), "nop\nd getf $lm0n0 2\nr 0 000000010 001 0000000000000001\n");
  EXPECT_EQ(program.statements[2].line, 4);
}

/// The same program for everything that a word can't tell apart and that makes no difference: order, spelling
/// of masks and payloads, precisions of passa with the same lanes, widths of T, nop/N against N nops.
isa::Program in_normal_form(isa::Program program) {
  const auto order = [](const isa::Instruction& i) {
    using Group = isa::IssueGroup;
    static constexpr Group kOrder[] = {Group::kNoForward, Group::kAlu,  Group::kMauCalc,  Group::kMauMwrite,
                                       Group::kMauMread,  Group::kL1bm, Group::kL2bmDarw, Group::kWait};
    return std::ranges::find(kOrder, isa::issue_group(i)) - std::begin(kOrder);
  };
  isa::Program result;
  for (isa::Statement& statement : program.statements) {
    auto* step = std::get_if<isa::Step>(&statement.kind);
    if (step != nullptr) {
      std::ranges::sort(step->instructions.own(), {}, order);
      // What does nothing and forwards nothing is a nop.
      const bool idle = std::ranges::all_of(step->instructions, [](const isa::Instruction& i) {
        return i.opcode == isa::Opcode::kNoForward || i.opcode == isa::Opcode::kWait;
      });
      if (idle) {
        statement.kind = isa::Nop{1, step->instructions.back().tag};
        step = nullptr;
      }
    }
    if (const auto* nop = std::get_if<isa::Nop>(&statement.kind)) {
      auto* before =
          result.statements.empty() ? nullptr : std::get_if<isa::Nop>(&result.statements.back().kind);
      if (before != nullptr && before->wait_tag == 0 && nop->wait_tag == 0) {
        before->count += nop->count;
        continue;
      }
    }
    if (step != nullptr) {
      for (isa::Instruction& i : step->instructions.own()) {
        i.immediate_kind = i.opcode == isa::Opcode::kImm ? isa::ImmediateKind::kUnsigned : i.immediate_kind;
        if (i.opcode == isa::Opcode::kPassa) {
          using P = isa::Precision;
          i.precision = isa::lanes(i.precision) == 1   ? P::kLong
                        : isa::lanes(i.precision) == 2 ? P::kFloat
                                                       : P::kHalf;
        }
        if (i.opcode == isa::Opcode::kBfn && i.block_bits == 9) i.block_bits = -1;
        if (i.opcode == isa::Opcode::kBfe && i.block_bits == -1) i.block_bits = 9;
        for (auto* operands : {&i.sources, &i.destinations}) {
          for (isa::Operand& operand : *operands) {
            if (operand.space == isa::Space::kT) operand.width = isa::Width::kLong;
            operand.mask.length_check = 0;
            if (operand.mask.kind == isa::Mask::Kind::kRegister && operand.mask.value >= 16) {
              operand.mask.kind = isa::Mask::Kind::kPattern;
              operand.mask.value -= 16;
            }
          }
        }
        std::ranges::sort(i.destinations, {}, [](const isa::Operand& operand) {
          return operand.space == isa::Space::kLm0 || operand.space == isa::Space::kLm1
                     ? static_cast<int>(operand.space) + 100
                 : operand.space == isa::Space::kT ? 200
                                                   : static_cast<int>(operand.space);
        });
      }
    }
    result.statements.push_back(std::move(statement));
  }
  return result;
}

/// Random programs of what has a known form come back with their meaning and their bits, also through the
/// text of what was read.
TEST(MachineWords, RandomProgramsComeBack) {
  const WordOptions inferred{.allow_inferred = true};
  const auto has_form = [&](const isa::Step& step) {
    try {
      encode_step(step, {}, inferred);
      return true;
    } catch (const isa::UnsupportedError&) {
      return false;
    }
  };
  int steps = 0;
  size_t widest = 0;
  std::set<std::string> mnemonics;
  const auto programs = isa::random_cases<uint64_t>(8, 3, 20);
  for (uint64_t seed = 1; seed <= programs; ++seed) {
    RandomOptions options;
    // Together with the rules of a step, so that most of what is drawn has a form.
    options.accept = [&](const isa::Instruction& i) {
      return has_form({{i}}) || i.opcode == isa::Opcode::kMread;
    };
    options.transfers = options.mask_statements = false;
    RandomProgram random(chip(), seed, options);
    isa::Program program;
    while (program.statements.size() < 100) {
      isa::Statement statement = random.statement();
      if (std::holds_alternative<isa::RegionMark>(statement.kind)) continue;
      if (const auto* step = std::get_if<isa::Step>(&statement.kind)) {
        if (!has_form(*step)) continue;
        ++steps;
        widest = std::max(widest, step->instructions.size());
        for (const isa::Instruction& i : step->instructions) mnemonics.insert(isa::mnemonic(i));
      }
      program.statements.push_back(std::move(statement));
    }
    const std::string words = to_words(program, inferred);
    const isa::Program again = from_words(words, "a.asm", chip());
    ASSERT_EQ(to_words(again, inferred), words);
    const isa::Program expected = in_normal_form(program);
    const isa::Program found = in_normal_form(again);
    ASSERT_EQ(found.statements.size(), expected.statements.size());
    for (size_t i = 0; i < found.statements.size(); ++i) {
      ASSERT_EQ(found.statements[i], expected.statements[i]) << print_statement(found.statements[i]) << "\n"
                                                             << print_statement(expected.statements[i]);
    }
    ASSERT_EQ(parse(print(again)), again);
  }
  EXPECT_GT(steps, 50 * static_cast<int>(programs));
  EXPECT_GE(widest, 3u);
  EXPECT_GT(mnemonics.size(), 30u);
}

/// Two instructions that clash in a field are two that may not issue together, and the rules about ports,
/// masks and shared inputs are nothing but such clashes.
TEST(MachineWords, ClashesAreTheRulesOfParallelIssue) {
  RandomOptions options;
  const WordOptions inferred{.allow_inferred = true};
  options.accept = [&](const isa::Instruction& i) {
    try {
      encode_step({{i}}, {}, inferred);
      return true;
    } catch (const isa::UnsupportedError&) {
      return false;
    }
  };
  // Few addresses, so that instructions often agree.
  options.address_window = 8;
  RandomProgram random(chip(), 5, options);
  int clashes = 0;
  int agreements = 0;
  const int pairs = isa::random_cases(2500, 400, 5000);
  for (int k = 0; k < pairs; ++k) {
    const isa::Step step{{random.instruction(), random.instruction()}};
    const std::string rule = isa::issue_conflict(step.instructions, chip());
    std::string clash;
    try {
      encode_step(step, {}, inferred);
    } catch (const isa::UnsupportedError& error) {
      clash = error.what();
      if (clash.find("need different values") == std::string::npos) continue;  // a hidden matrix read
    }
    const std::string text = print_statement({step});
    if (!clash.empty()) {
      // One bit chooses the matrix register of mwrite and of mread, which the manual allows to differ.
      const bool is_exception =
          clash.find("mauc.mswap") != std::string::npos || clash.find("mauc.maddr") != std::string::npos;
      if (!is_exception) {
        EXPECT_NE(rule, "") << text << ": " << clash;
      }
      ++clashes;
      continue;
    }
    for (const char* of_fields :
         {"with different addresses", "read and write", "different masks", "masks of different lengths",
          "have different precisions", "the second input of"}) {
      EXPECT_EQ(rule.find(of_fields), std::string::npos) << text << ": " << rule;
    }
    agreements += rule.empty() ? 1 : 0;
  }
  EXPECT_GT(clashes, pairs / 10);
  EXPECT_GT(agreements, pairs / 10);
}

TEST(MachineWords, RandomBitsAreReadOrRefused) {
  std::mt19937_64 random(1);
  for (int i = 0; i < isa::random_cases(10000, 2000, 20000); ++i) {
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
