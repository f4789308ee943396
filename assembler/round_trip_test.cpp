#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <random>
#include <set>
#include <string>

#include "assembler/assembler.h"
#include "assembler/program_file.h"
#include "assembler/random_program.h"
#include "isa/error.h"
#include "isa/rounds_test_util.h"

namespace kodama::assembler {
namespace {

const isa::Chip& chip(const std::string& name) {
  static std::map<std::string, isa::Chip> chips;
  const auto found = chips.find(name);
  return found != chips.end() ? found->second : chips.emplace(name, isa::find_chip(name)).first->second;
}

class RoundTrip : public ::testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(Chips, RoundTrip, ::testing::Values("mncore2", "mncore1", "tiny"));

TEST_P(RoundTrip, EveryMnemonicInManyForms) {
  RandomProgram random(chip(GetParam()), 1);
  for (const isa::Instruction& form : isa::all_mnemonics()) {
    if (form.opcode == isa::Opcode::kWait) continue;
    const bool transfer = isa::info(form.opcode).group == isa::IssueGroup::kMv;
    for (int i = 0; i < isa::random_cases(20, 6, 20); ++i) {
      const isa::Instruction instruction = random.instruction(form);
      isa::Program program;
      if (transfer) {
        program.statements.push_back({isa::Mv{instruction}});
      } else {
        program.statements.push_back({isa::Step{{instruction}}});
      }
      const std::string text = print(program);
      ASSERT_EQ(assemble(text, "t", chip(GetParam())), program) << text;
    }
  }
}

const int kFuzzedTexts = isa::random_cases(8000, 1000, 20000);
const uint64_t kRandomPrograms = isa::random_cases(8, 3, 20);

TEST_P(RoundTrip, RandomPrograms) {
  size_t widest = 0;
  std::set<size_t> kinds;
  for (uint64_t seed = 0; seed < kRandomPrograms; ++seed) {
    RandomProgram random(chip(GetParam()), seed);
    const isa::Program program = random.program(500);
    const std::string text = print(program);
    const isa::Program again = assemble(text, "t", chip(GetParam()));
    ASSERT_EQ(again.statements.size(), program.statements.size());
    for (size_t i = 0; i < program.statements.size(); ++i) {
      ASSERT_EQ(again.statements[i], program.statements[i]) << print_statement(program.statements[i]);
      ASSERT_NO_THROW(check_statement(program.statements[i], chip(GetParam()), {}));
      kinds.insert(program.statements[i].kind.index());
      if (const auto* step = std::get_if<isa::Step>(&program.statements[i].kind)) {
        widest = std::max(widest, step->instructions.size());
      }
    }
    ASSERT_EQ(print(again), text);
  }
  EXPECT_GE(widest, 4u);
  // All kinds but Quit and Loop.
  EXPECT_EQ(kinds.size(), std::variant_size_v<decltype(isa::Statement::kind)> - 2);
}

TEST(RandomPrograms, AreReproducible) {
  EXPECT_EQ(RandomProgram(chip("tiny"), 7).program(100), RandomProgram(chip("tiny"), 7).program(100));
  EXPECT_FALSE(RandomProgram(chip("tiny"), 7).program(100) == RandomProgram(chip("tiny"), 8).program(100));
}

/// Counts of 0 and 1, loops in loops as deep as they may be, transfers and waits in them, and addresses in
/// every space that depend on inner and outer counters. Each iteration is legal, which is what its text is.
TEST(RandomPrograms, LoopsOfEveryKind) {
  std::set<int64_t> loop_counts;
  int deepest = 0;
  std::set<size_t> strides;
  std::set<isa::Space> read, written, moved_from, moved_to;  // with addresses that change
  bool waits = false;
  const auto note = [&](const std::vector<isa::Operand>& operands, std::set<isa::Space>& spaces) {
    for (const isa::Operand& operand : operands) {
      strides.insert(operand.loop_strides.size());
      if (std::ranges::any_of(operand.loop_strides, [](int64_t stride) { return stride != 0; }))
        spaces.insert(operand.space);
    }
  };
  const std::function<void(const std::vector<isa::Statement>&, int)> look =
      [&](const std::vector<isa::Statement>& statements, int depth) {
        for (const isa::Statement& statement : statements) {
          if (const auto* loop = std::get_if<isa::Loop>(&statement.kind)) {
            loop_counts.insert(loop->count);
            deepest = std::max(deepest, depth + 1);
            look(loop->body, depth + 1);
          } else if (const auto* step = std::get_if<isa::Step>(&statement.kind)) {
            for (const isa::Instruction& instruction : step->instructions) {
              note(instruction.sources, read);
              note(instruction.destinations, written);
              if (depth > 0 && instruction.opcode == isa::Opcode::kWait) waits = true;
            }
          } else if (const auto* mv = std::get_if<isa::Mv>(&statement.kind)) {
            note(mv->instruction.sources, moved_from);
            note(mv->instruction.destinations, moved_to);
          }
        }
      };
  RandomOptions options;
  options.loops = true;
  options.even_opcodes = true;
  for (uint64_t seed = 1; seed <= isa::random_cases<uint64_t>(120, 60, 200); ++seed) {
    const isa::Program program = RandomProgram(chip("tiny"), seed, options).program(20);
    look(program.statements, 0);
    const isa::Program unrolled = assemble(print(program), "random", chip("tiny"));
    std::vector<isa::Statement> executed;
    std::vector<int64_t> counters;
    isa::for_each_executed(program.statements, counters,
                           [&](const isa::Statement& statement, const std::vector<int64_t>& now) {
                             executed.push_back(isa::resolved(statement, now));
                             return true;
                           });
    ASSERT_EQ(unrolled.statements.size(), executed.size()) << seed;
    for (size_t i = 0; i < executed.size(); ++i)
      ASSERT_EQ(print_statement(unrolled.statements[i]), print_statement(executed[i])) << seed;
  }
  EXPECT_EQ(loop_counts, (std::set<int64_t>{0, 1, 2, 3, 4}));
  EXPECT_EQ(deepest, isa::kMaxLoopDepth);
  EXPECT_EQ(strides.size(), isa::kMaxLoopDepth + 1u);
  using enum isa::Space;
  EXPECT_EQ(read, (std::set{kLm0, kLm1, kGrf0, kGrf1, kConstant, kImmediate, kMatX, kMatY, kL1bm, kL2bm}));
  EXPECT_EQ(written, (std::set{kLm0, kLm1, kGrf0, kGrf1, kOmr, kMatX, kMatY, kL1bm, kL2bm, kDar}));
  EXPECT_EQ(moved_from, (std::set{kL2bm, kPdm, kDram, kDramIndirect}));
  EXPECT_EQ(moved_to, moved_from);
  EXPECT_TRUE(waits);
}

TEST(RandomPrograms, ObeyTheirFilter) {
  RandomOptions options;
  options.accept = [](const isa::Instruction& i) { return isa::issue_group(i) == isa::IssueGroup::kAlu; };
  options.transfers = options.mask_statements = options.debug_statements = options.other_statements = false;
  RandomProgram random(chip("tiny"), 3, options);
  for (const isa::Statement& statement : random.program(200).statements) {
    if (const auto* step = std::get_if<isa::Step>(&statement.kind)) {
      EXPECT_EQ(isa::issue_group(step->instructions[0]), isa::IssueGroup::kAlu);
    } else {
      EXPECT_TRUE(std::holds_alternative<isa::Nop>(statement.kind));
    }
  }
}

/// Assembles text that may be anything: it must give a program or an Error, and a program that was accepted
/// must survive a trip through each of its forms.
void expect_error_or_round_trip(const std::string& text, int& accepted) {
  isa::Program program;
  try {
    program = assemble(text, "fuzz", chip("mncore2"));
  } catch (const isa::Error&) {
    return;
  }
  ++accepted;
  const std::string normal = print(program);
  ASSERT_EQ(assemble(normal, "fuzz", chip("mncore2")), program) << text << "\n-> " << normal;
  const std::string bytes = save_program(program, chip("mncore2"));
  const isa::Program loaded = load_program(bytes, "fuzz", chip("mncore2"));
  ASSERT_EQ(loaded, program) << normal;
  ASSERT_EQ(save_program(loaded, chip("mncore2")), bytes) << normal;
  const WordOptions inferred{.allow_inferred = true};
  std::string words;
  if (isa::count(program).steps > 1000) return;
  try {
    words = to_words(program, inferred);
  } catch (const isa::UnsupportedError&) {
    return;
  }
  const isa::Program read = from_words(words, "fuzz", chip("mncore2"));
  ASSERT_EQ(to_words(read, inferred), words) << normal;
  ASSERT_EQ(assemble(print(read), "fuzz", chip("mncore2")), read) << normal;
}

TEST(Fuzz, RandomBytes) {
  std::mt19937_64 engine(11);
  const std::string alphabet = "$lmnrstjvexybcdpi0123456789[],;/@.-+ \t\n#\"fhadulwik\0\r\xc3";
  int accepted = 0;
  for (int i = 0; i < kFuzzedTexts; ++i) {
    std::string text(engine() % 64, ' ');
    const bool any_byte = engine() % 4 == 0;
    for (char& c : text) c = any_byte ? static_cast<char>(engine()) : alphabet[engine() % alphabet.size()];
    expect_error_or_round_trip(text, accepted);
  }
}

TEST(Fuzz, MutatedPrograms) {
  RandomProgram random(chip("mncore2"), 5);
  std::mt19937_64 engine(12);
  const std::string inserts = "$lmnrstjv0123456789[],;/@.-e#\"xi \n";
  int accepted = 0;
  for (int i = 0; i < kFuzzedTexts; ++i) {
    std::string text = print_statement(random.statement());
    for (uint64_t edits = 1 + engine() % 3; edits > 0; --edits) {
      const size_t at = engine() % (text.size() + 1);
      switch (engine() % 4) {
        case 0:
          if (at < text.size()) text.erase(at, 1 + engine() % 3);
          break;
        case 1:
          text.insert(at, 1, inserts[engine() % inserts.size()]);
          break;
        case 2:
          if (at < text.size()) text[at] = inserts[engine() % inserts.size()];
          break;
        default:
          text.insert(at, text.substr(engine() % (text.size() + 1), engine() % 8));
          break;
      }
    }
    expect_error_or_round_trip(text, accepted);
  }
  EXPECT_GT(accepted, kFuzzedTexts / 20);
}

}  // namespace
}  // namespace kodama::assembler
