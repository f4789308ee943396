#include <gtest/gtest.h>

#include <filesystem>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "compiler/compile/compile_model.h"
#include "compiler/graph/import.h"
#include "isa/costs.h"
#include "isa/error.h"
#include "isa/file.h"
#include "isa/rounds_test_util.h"
#include "scheduler/verify/verify.h"

/// Programs of networks, with one field of one instruction changed: the verifiers have to see it, for
/// fields of every kind of instruction there is, and in the long suite for every field.
namespace kodama::compiler {
namespace {

namespace fs = std::filesystem;
using isa::Instruction;
using isa::Mask;
using isa::Operand;
using isa::Space;
using isa::Statement;

// ---- damage ----------------------------------------------------------------------------------------------

struct Damage {
  std::string name;
  std::function<void(Instruction&)> apply;
};

template <typename Enum>
Enum next_of(Enum value, int count) {
  return static_cast<Enum>((static_cast<int>(value) + 1) % count);
}

void add_mask_damage(std::vector<Damage>& all, const std::string& name,
                     const std::function<Mask&(Instruction&)>& mask) {
  all.push_back({name + ".kind", [=](Instruction& i) { mask(i).kind = next_of(mask(i).kind, 4); }});
  all.push_back({name + ".value", [=](Instruction& i) { mask(i).value ^= 1; }});
  all.push_back({name + ".double_long", [=](Instruction& i) { mask(i).double_long = !mask(i).double_long; }});
  all.push_back({name + ".length_check",
                 [=](Instruction& i) { mask(i).length_check = mask(i).length_check == 't' ? 'p' : 't'; }});
  all.push_back({name + ".virtual_value", [=](Instruction& i) { ++mask(i).virtual_value; }});
}

void add_operand_damage(std::vector<Damage>& all, const std::string& name,
                        const std::function<Operand&(Instruction&)>& at) {
  const auto add = [&](const char* field, const std::function<void(Operand&)>& change) {
    all.push_back({fmt::format("{}.{}", name, field), [=](Instruction& i) { change(at(i)); }});
  };
  // Other memories of the same kind first, where there are, so that the instruction may stay legal.
  add("space", [](Operand& o) {
    static const std::map<Space, Space> kOther{{Space::kLm0, Space::kLm1},   {Space::kLm1, Space::kLm0},
                                               {Space::kGrf0, Space::kGrf1}, {Space::kGrf1, Space::kGrf0},
                                               {Space::kMatX, Space::kMatY}, {Space::kMatY, Space::kMatX},
                                               {Space::kDram, Space::kPdm},  {Space::kT, Space::kGrf0}};
    const auto other = kOther.find(o.space);
    o.space = other != kOther.end() ? other->second : Space::kT;
  });
  add("width", [](Operand& o) {
    o.width = o.width == isa::Width::kLong ? isa::Width::kDoubleLong : isa::Width::kLong;
  });
  add("flat", [](Operand& o) { o.flat = !o.flat; });
  for (size_t c = 0; c < 4; ++c)
    add(fmt::format("flat_addresses[{}]", c).c_str(), [c](Operand& o) { o.flat_addresses[c] += 4; });
  add("t_indirect", [](Operand& o) { o.t_indirect = !o.t_indirect; });
  add("negate", [](Operand& o) { o.negate = !o.negate; });
  add("extend", [](Operand& o) { o.extend = !o.extend; });
  add("reduce", [](Operand& o) { o.reduce = !o.reduce; });
  add("j", [](Operand& o) { o.j = static_cast<int8_t>(o.j < 0 ? 1 : -1); });
  add("group", [](Operand& o) { o.group = static_cast<int8_t>(o.group == 0 ? 1 : 0); });
  add("unit", [](Operand& o) { o.unit = static_cast<int8_t>(o.unit == 0 ? 1 : 0); });
  add("stride", [](Operand& o) { o.stride += 2; });
  add("base", [](Operand& o) { o.base += 64; });
  add("base, small", [](Operand& o) { o.base += 1; });
  add("base, down", [](Operand& o) { o.base -= 2; });
  add("value", [](Operand& o) { ++o.value; });
  add("loop_strides, one more", [](Operand& o) { o.loop_strides.push_back(64); });
  add("loop_strides, one less", [](Operand& o) {
    if (o.loop_strides.empty()) {
      o.base += 128;
    } else {
      o.loop_strides.pop_back();
    }
  });
  add("loop_strides, changed", [](Operand& o) {
    if (o.loop_strides.empty()) o.base += 192;
    for (int64_t& stride : o.loop_strides) stride += 64;
  });
  add_mask_damage(all, name + ".mask", [=](Instruction& i) -> Mask& { return at(i).mask; });
}

/// Of every field of an instruction.
std::vector<Damage> damages(const Instruction& instruction) {
  std::vector<Damage> all;
  const auto add = [&](const char* name, std::function<void(Instruction&)> apply) {
    all.push_back({name, std::move(apply)});
  };
  add("opcode", [](Instruction& i) { i.opcode = next_of(i.opcode, isa::kOpcodeCount); });
  add("precision", [](Instruction& i) { i.precision = next_of(i.precision, isa::kPrecisionCount); });
  add("unsigned_op", [](Instruction& i) { i.unsigned_op = !i.unsigned_op; });
  add("round_output", [](Instruction& i) { i.round_output = !i.round_output; });
  add("half_select", [](Instruction& i) { i.half_select = i.half_select == 'u' ? 'd' : 'u'; });
  add("block_bits", [](Instruction& i) { i.block_bits = static_cast<int8_t>(i.block_bits == 7 ? 8 : 7); });
  add_mask_damage(all, "zero_flush", [](Instruction& i) -> Mask& { return i.zero_flush; });
  add("reduce_op", [](Instruction& i) { i.reduce_op = next_of(i.reduce_op, isa::kReduceOpCount); });
  add("unit", [](Instruction& i) { i.unit = static_cast<int8_t>(i.unit == 0 ? 1 : 0); });
  add("rotation", [](Instruction& i) { i.rotation = static_cast<int8_t>(i.rotation == 0 ? 1 : 0); });
  add("l1b_set.kind", [](Instruction& i) { i.l1b_set.kind = next_of(i.l1b_set.kind, 4); });
  add("l1b_set.k", [](Instruction& i) { i.l1b_set.k ^= 1; });
  add("l1b_set.ignore_mask", [](Instruction& i) { i.l1b_set.ignore_mask ^= 1; });
  add("l1b_set.list", [](Instruction& i) { i.l1b_set.list ^= 1; });
  add("immediate_kind", [](Instruction& i) { i.immediate_kind = next_of(i.immediate_kind, 8); });
  add("size_lw", [](Instruction& i) { i.size_lw += 64; });
  add("size_lw, less", [](Instruction& i) { i.size_lw -= 64; });
  add("tag", [](Instruction& i) { i.tag = static_cast<int8_t>(i.tag == 63 ? 62 : 63); });
  add("tag, none", [](Instruction& i) { i.tag = static_cast<int8_t>(i.tag == 0 ? 5 : 0); });
  add("priority", [](Instruction& i) { i.priority = static_cast<int8_t>(i.priority == 3 ? 2 : 3); });
  add("indirect_n", [](Instruction& i) { ++i.indirect_n; });
  add("sources, one more", [](Instruction& i) { i.sources.emplace_back(); });
  add("destinations, one more", [](Instruction& i) { i.destinations.emplace_back(); });
  if (!instruction.sources.empty()) add("sources, one less", [](Instruction& i) { i.sources.pop_back(); });
  if (!instruction.destinations.empty())
    add("destinations, one less", [](Instruction& i) { i.destinations.pop_back(); });
  for (size_t k = 0; k < instruction.sources.size(); ++k)
    add_operand_damage(all, fmt::format("source {}", k),
                       [k](Instruction& i) -> Operand& { return i.sources[k]; });
  for (size_t k = 0; k < instruction.destinations.size(); ++k)
    add_operand_damage(all, fmt::format("destination {}", k),
                       [k](Instruction& i) -> Operand& { return i.destinations[k]; });
  return all;
}

/// Instructions of one kind have the same opcode, precision and memories, in loops as deep.
std::string kind_of(const Instruction& instruction, size_t depth) {
  std::string kind = fmt::format("{} at depth {}", isa::mnemonic(instruction), depth);
  for (const auto* list : {&instruction.sources, &instruction.destinations}) {
    for (const Operand& operand : *list) kind += fmt::format(" {}", static_cast<int>(operand.space));
  }
  return kind;
}

/// Calls visit(instruction, depth) for all instructions of a program that may be changed.
void for_each_instruction(std::vector<Statement>& statements, size_t depth,
                          const std::function<void(Instruction&, size_t)>& visit) {
  for (Statement& statement : statements) {
    if (auto* loop = std::get_if<isa::Loop>(&statement.kind))
      for_each_instruction(loop->body, depth + 1, visit);
    if (auto* mv = std::get_if<isa::Mv>(&statement.kind)) visit(mv->instruction, depth);
    if (auto* step = std::get_if<isa::Step>(&statement.kind)) {
      for (Instruction& instruction : step->instructions.own()) visit(instruction, depth);
    }
  }
}

/// Damages one instruction of each kind that `seen` doesn't have yet, field by field; of `share` fields one,
/// of each kind others. Returns what survived `verify`, which looks at these statements.
std::vector<std::string> survivors(std::vector<Statement>& statements, std::set<std::string>& seen, int share,
                                   const std::function<void()>& verify, int& tried) {
  std::vector<std::string> survived;
  const auto is_refused = [&] {
    try {
      verify();
    } catch (const isa::InternalError&) {
      return true;
    }
    return false;
  };
  for_each_instruction(statements, 0, [&](Instruction& instruction, size_t depth) {
    if (!seen.insert(kind_of(instruction, depth)).second) return;
    const Instruction original = instruction;
    auto number = static_cast<int>(seen.size());
    for (const Damage& damage : damages(original)) {
      if (++number % share != 0) continue;
      damage.apply(instruction);
      ++tried;
      if (instruction == original || !is_refused())
        survived.push_back(kind_of(original, depth) + ": " + damage.name);
      instruction = original;
    }
  });
  EXPECT_FALSE(is_refused());
  return survived;
}

/// Statements that are gone, there twice, in another order, or with other counts.
std::vector<std::string> surviving_statements(const isa::Program& program,
                                              const std::function<void(const isa::Program&)>& verify,
                                              int& tried) {
  std::vector<std::string> survived;
  const auto check = [&](const isa::Program& damaged, const std::string& what) {
    ++tried;
    try {
      verify(damaged);
    } catch (const isa::InternalError&) {
      return;
    }
    survived.push_back(what);
  };
  const auto is_pause = [](const Statement& statement) {
    const auto* nop = std::get_if<isa::Nop>(&statement.kind);
    return nop != nullptr && nop->wait_tag == 0;
  };
  std::set<std::string> seen;
  for (size_t k = 0; k < program.statements.size(); ++k) {
    const Statement& statement = program.statements[k];
    // A few of each kind.
    const std::string kind = fmt::format("statement {}", statement.kind.index());
    if (is_pause(statement) || !seen.insert(fmt::format("{}.{}", kind, k % 7)).second) continue;
    isa::Program damaged = program;
    damaged.statements.erase(damaged.statements.begin() + static_cast<ptrdiff_t>(k));
    check(damaged, kind + " is missing");
    damaged = program;
    damaged.statements.insert(damaged.statements.begin() + static_cast<ptrdiff_t>(k), statement);
    check(damaged, kind + " is there twice");
    if (const auto* loop = std::get_if<isa::Loop>(&statement.kind)) {
      for (const int64_t count : {loop->count - 1, loop->count + 1, int64_t{0}}) {
        damaged = program;
        std::get<isa::Loop>(damaged.statements[k].kind).count = count;
        check(damaged, fmt::format("a loop of {} iterations has {}", loop->count, count));
      }
    }
    if (std::holds_alternative<isa::Nop>(statement.kind)) {
      damaged = program;
      std::get<isa::Nop>(damaged.statements[k].kind).wait_tag = 0;
      check(damaged, "a wait is a pause");
    }
  }
  return survived;
}

// ---- networks --------------------------------------------------------------------------------------------

struct Network {
  const char* file;
  int share;  // of fields, one of so many is damaged
};
class DamagedNetwork : public ::testing::TestWithParam<Network> {
 protected:
  int share() const { return GetParam().share; }
  void SetUp() override {
    const fs::path file = isa::source_path(GetParam().file);
    if (!fs::exists(file)) GTEST_SKIP() << "skipped: " << file << " is absent";
    CompileOptions options;
    options.observe_stage = [&](const scheduler::MachineProgram& operations, const isa::Program& program) {
      stages_.emplace_back(operations, program);
    };
    options.observe_segment = [&](const std::vector<scheduler::ProgramPart>& parts,
                                  const scheduler::ScheduledParts& segment) {
      segments_.emplace_back(parts, segment);
    };
    compile_model(import_model(file.string(), {}), chip_, options);
  }

  const isa::Chip chip_ = isa::find_chip("mncore2");
  std::vector<std::pair<scheduler::MachineProgram, isa::Program>> stages_;
  std::vector<std::pair<std::vector<scheduler::ProgramPart>, scheduler::ScheduledParts>> segments_;
};

TEST_P(DamagedNetwork, FieldsOfStages) {
  std::set<std::string> seen;
  int tried = 0;
  for (auto& stage : stages_) {
    const scheduler::MachineProgram& operations = stage.first;
    isa::Program& program = stage.second;
    const auto verify = [&] { verify::verify_schedule(operations, program, chip_); };
    for (const std::string& each : survivors(program.statements, seen, share(), verify, tried))
      ADD_FAILURE() << program.source_name << ": " << each;
  }
  EXPECT_GT(seen.size(), 30U);
  EXPECT_GT(tried, 3000 / share());
}

TEST_P(DamagedNetwork, FieldsOfWhatRuns) {
  std::set<std::string> seen;
  int tried = 0;
  for (auto& each_segment : segments_) {
    const std::vector<scheduler::ProgramPart>& parts = each_segment.first;
    scheduler::ScheduledParts& segment = each_segment.second;
    const auto verify = [&] { verify::verify_segment(parts, segment, chip_); };
    for (const std::string& each : survivors(segment.program.statements, seen, share(), verify, tried))
      ADD_FAILURE() << each;
  }
  EXPECT_GT(seen.size(), 30U);
  EXPECT_GT(tried, 3000 / share());
}

TEST_P(DamagedNetwork, StatementsOfStages) {
  int tried = 0;
  for (const auto& stage : stages_) {
    const scheduler::MachineProgram& operations = stage.first;
    const isa::Program& program = stage.second;
    for (const std::string& each : surviving_statements(
             program,
             [&](const isa::Program& damaged) { verify::verify_schedule(operations, damaged, chip_); },
             tried))
      ADD_FAILURE() << program.source_name << ": " << each;
  }
  EXPECT_GT(tried, 100);
}

INSTANTIATE_TEST_SUITE_P(Networks, DamagedNetwork,
                         ::testing::Values(Network{"testsuite/models/mnist8/model.onnx", isa::rounds(3, 1)},
                                           Network{"../shared/data/models/lenet.onnx", isa::rounds(11, 1)}));

}  // namespace
}  // namespace kodama::compiler
