#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>

#include "assembler/assembler.h"
#include "assembler/random_program.h"
#include "isa/error.h"
#include "isa/file.h"
#include "simulator/golden/differential.h"
#include "simulator/test_chip.h"

/// The coverage table: one cell for every mnemonic (row and precision) and every kind of operand that the
/// instruction table allows at each of its positions. A cell is covered by the effect tests and problems of
/// testsuite/, whose expectations come from the ISA page, or by a directed step here, which compares engine
/// and golden model. KODAMA_COVERAGE_TABLE=FILE writes the table.
namespace kodama::simulator {
namespace {

namespace fs = std::filesystem;
using isa::Instruction;
using isa::Operand;

/// How a test reached a cell.
enum class Cover : uint8_t { kNone, kDirected, kEffects };
using Table = std::map<std::string, Cover>;

std::string cell(const Instruction& instruction, const char* position, size_t index, std::string_view kind) {
  return fmt::format("{:<14} {} {}: {}", isa::mnemonic(instruction), position, index + 1, kind);
}

/// Kinds of one operand beyond its space, as far as it has them.
std::vector<std::string> features(const Operand& operand, bool is_source) {
  std::vector<std::string> result{std::string(isa::space_name(operand.space))};
  if (operand.t_indirect) result.emplace_back("T-indirect");
  if (operand.flat) result.emplace_back("flat addresses");
  if (operand.j >= 0) result.emplace_back("j");
  if (isa::is_pe_memory(operand.space)) result.push_back(fmt::format("{} words", words(operand.width)));
  if (is_source && operand.negate) result.emplace_back("-");
  if (is_source && operand.extend) result.emplace_back("e");
  if (is_source && operand.reduce) result.emplace_back("r");
  if (!is_source && operand.mask.kind != isa::Mask::Kind::kNone) result.emplace_back("under a mask");
  return result;
}

std::vector<std::string> cells(const Instruction& instruction) {
  std::vector<std::string> result;
  for (size_t i = 0; i < instruction.sources.size(); ++i) {
    for (const std::string& kind : features(instruction.sources[i], true))
      result.push_back(cell(instruction, "source", i, kind));
  }
  // Of several destinations each is like the first.
  for (const Operand& destination : instruction.destinations) {
    for (const std::string& kind : features(destination, false))
      result.push_back(cell(instruction, "destination", 0, kind));
  }
  if (instruction.zero_flush.kind != isa::Mask::Kind::kNone)
    result.push_back(fmt::format("{:<14} zero flush", isa::mnemonic(instruction)));
  if (result.empty()) result.push_back(fmt::format("{:<14} alone", isa::mnemonic(instruction)));
  return result;
}

/// What the manual forbids though the table's row, which several mnemonics share, lists it.
bool is_forbidden(const Instruction& mnemonic, const isa::OperandForm& form, isa::Space destination) {
  if (mnemonic.rotation != 0) return (form.destinations & isa::space_bit(isa::Space::kL1bm)) != 0;
  // Rule 9 of section 4: the payload of imm lies where LM0's fields are.
  return mnemonic.opcode == isa::Opcode::kImm && destination == isa::Space::kLm0;
}

/// What the instruction table allows.
void add_allowed_cells(const Instruction& mnemonic, Table& table) {
  const isa::InstructionInfo& row = isa::info(mnemonic.opcode);
  if (row.opcode == isa::Opcode::kWait || row.opcode == isa::Opcode::kNoForward) return;  // no operands
  const auto add = [&](const std::string& name) { table.try_emplace(name, Cover::kNone); };
  for (const isa::OperandForm& form : row.forms) {
    for (size_t i = 0; i < row.source_count; ++i) {
      for (int s = 0; s < 32; ++s) {
        const auto space = static_cast<isa::Space>(s);
        if ((form.sources[i] & isa::space_bit(space)) != 0 &&
            !is_forbidden(mnemonic, form, isa::Space::kNone))
          add(cell(mnemonic, "source", i, isa::space_name(space)));
      }
    }
    for (int s = 0; s < 32; ++s) {
      const auto space = static_cast<isa::Space>(s);
      if ((form.destinations & isa::space_bit(space)) != 0 && !is_forbidden(mnemonic, form, space))
        add(cell(mnemonic, "destination", 0, isa::space_name(space)));
    }
  }
  if (row.allows_zero_flush && row.group != isa::IssueGroup::kL1bm)
    add(fmt::format("{:<14} zero flush", isa::mnemonic(mnemonic)));
  if (row.forms.empty() || (row.source_count == 0 && row.destinations == 0))
    add(fmt::format("{:<14} alone", isa::mnemonic(mnemonic)));
}

void cover_by_effects(Table& table) {
  const isa::Chip mncore2 = isa::find_chip("mncore2");
  const fs::path root = isa::source_path("testsuite");
  for (const char* directory : {"effects", "judge"}) {
    for (const auto& entry : fs::recursive_directory_iterator(root / directory)) {
      if (entry.path().extension() != ".vsm") continue;
      const isa::Program program = assembler::assemble_file(entry.path().string(), mncore2);
      const auto visit = [&](const Instruction& instruction) {
        for (const std::string& name : cells(instruction)) table[name] = Cover::kEffects;
      };
      for (const isa::Statement& statement : program.statements) {
        if (const auto* step = std::get_if<isa::Step>(&statement.kind)) {
          for (const Instruction& instruction : step->instructions) visit(instruction);
        } else if (const auto* mv = std::get_if<isa::Mv>(&statement.kind)) {
          visit(mv->instruction);
        } else if (const auto* nop = std::get_if<isa::Nop>(&statement.kind); nop && nop->wait_tag > 0) {
          Instruction wait;
          wait.opcode = isa::Opcode::kWait;
          visit(wait);
        }
      }
    }
  }
}

/// Steps that together reach all cells which random operands can reach.
isa::Program directed_steps(const isa::Chip& chip, Table& table) {
  assembler::RandomOptions options;
  options.address_window = 32;
  assembler::RandomProgram random(chip, 1, options);
  isa::Program program;
  for (const Instruction& mnemonic : isa::all_mnemonics()) {
    if (mnemonic.opcode == isa::Opcode::kWait || mnemonic.opcode == isa::Opcode::kNoForward) continue;
    const bool is_transfer = isa::info(mnemonic.opcode).group == isa::IssueGroup::kMv;
    for (int since_last = 0; since_last < 400; ++since_last) {
      const Instruction candidate = random.instruction(mnemonic);
      bool is_new = false;
      for (const std::string& name : cells(candidate)) {
        Cover& cover = table[name];
        if (cover != Cover::kNone) continue;
        cover = Cover::kDirected;
        is_new = true;
      }
      if (!is_new) continue;
      since_last = 0;
      isa::Statement statement;
      if (is_transfer) {
        statement.kind = isa::Mv{candidate};
      } else {
        statement.kind = isa::Step{{candidate}};
      }
      program.statements.push_back(statement);
    }
  }
  return program;
}

void write_table(const Table& table, const std::string& file) {
  std::ofstream out(file);
  for (const auto& [name, cover] : table) {
    out << fmt::format("{:<9} {}\n",
                       cover == Cover::kEffects    ? "effects"
                       : cover == Cover::kDirected ? "directed"
                                                   : "EMPTY",
                       name);
  }
}

TEST(Coverage, EveryOperandKindOfEveryMnemonicIsExecuted) {
  Table table;
  for (const Instruction& mnemonic : isa::all_mnemonics()) add_allowed_cells(mnemonic, table);
  const size_t allowed = table.size();
  cover_by_effects(table);
  const isa::Chip chip = golden::small_memories(small_chip());
  const isa::Program directed = directed_steps(chip, table);
  constexpr size_t kPart = 16;
  for (size_t i = 0; i < directed.statements.size(); i += kPart) {
    isa::Program part;
    for (size_t k = i; k < std::min(i + kPart, directed.statements.size()); ++k)
      part.statements.push_back(directed.statements[k]);
    EXPECT_EQ(golden::program_difference(chip, i, part), "");
  }

  size_t by_effects = 0;
  for (const auto& [name, cover] : table) {
    EXPECT_NE(cover, Cover::kNone) << "nothing executes " << name;
    by_effects += cover == Cover::kEffects;
  }
  fmt::print(
      "{} cells ({} that the instruction table lists): {} by tests written from the ISA page, {} by directed "
      "steps against the golden model ({} steps)\n",
      table.size(), allowed, by_effects, table.size() - by_effects, directed.statements.size());
  if (const char* file = std::getenv("KODAMA_COVERAGE_TABLE"); file != nullptr) write_table(table, file);
}

/// Each mnemonic, that is each row in each precision, occurs in a test whose expectations come from the ISA
/// page.
TEST(Coverage, EveryMnemonicHasAnEffectTest) {
  Table table;
  cover_by_effects(table);
  std::set<std::string> seen;
  for (const auto& [name, cover] : table) seen.insert(name.substr(0, name.find(' ')));
  for (const Instruction& mnemonic : isa::all_mnemonics())
    EXPECT_TRUE(seen.contains(isa::mnemonic(mnemonic))) << isa::mnemonic(mnemonic);
}

}  // namespace
}  // namespace kodama::simulator
