#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "isa/error.h"
#include "scheduler/machine/passes.h"
#include "scheduler/machine/test_programs.h"
#include "scheduler/verify/verify.h"

namespace kodama::scheduler {
namespace {

using namespace test_programs;

int copies_in(const std::vector<Node>& nodes) {
  int count = 0;
  for (const Node& node : nodes) {
    if (const auto* region = std::get_if<RegionNode>(&node.kind)) count += copies_in(region->body);
    if (const auto* counted = std::get_if<CountedLoop>(&node.kind)) count += copies_in(counted->body);
    const auto* b = std::get_if<Block>(&node.kind);
    if (b == nullptr) continue;
    for (const Operation& operation : b->operations) {
      count += operation.instruction.opcode == Opcode::kPassa;
    }
  }
  return count;
}

/// Copies that are left; the results are the same.
int copies_left(const MachineProgram& before, MachineProgram* result = nullptr) {
  const isa::Chip chip = interpreted_chip();
  MachineProgram after = before;
  coalescers().front().run(after, chip, {});
  EXPECT_NO_THROW(verify::verify_copies(before, after, chip)) << to_string(before) << to_string(after);
  EXPECT_EQ(run_virtual(after), run_virtual(before)) << to_string(before) << to_string(after);
  if (result != nullptr) *result = after;
  return copies_in(after.body);
}

MachineProgram program_of(std::vector<Node> body, HomeSet first = kAnywhere) {
  MachineProgram program;
  program.name = "copies";
  program.values = {value("a", 8, first), value("b", 8, kGrfs), value("c", 8, kAnywhere)};
  program.body = std::move(body);
  return program;
}

TEST(Coalescing, OneDiesWhereTheOtherIsBorn) {
  const MachineProgram program =
      program_of({block({load(0, virt(0)), copy(virt(0), virt(1)), store(virt(1), 1024)})});
  MachineProgram after;
  EXPECT_EQ(copies_left(program, &after), 0);
  EXPECT_EQ(after.values[0].homes, kGrfs);
  // Whoever reads the register still needs the copy.
  MachineProgram forwarded = program;
  auto& operations = std::get<Block>(forwarded.body[0].kind).operations;
  operations.insert(operations.begin() + 2, add(real(Space::kAluf), virt(1), virt(2)));
  operations.push_back(store(virt(2), 2048));
  EXPECT_EQ(copies_left(forwarded), 1);
  // There is no memory for both.
  EXPECT_EQ(copies_left(program_of(program.body, kLms)), 1);
}

TEST(Coalescing, ALoopPassesAValueOn) {
  // c = a + b; b = c in a loop: b is dead while c lives.
  const auto sum = [](std::vector<Operation> body) {
    return program_of(
        {block({imm(3, virt(1))}), loop(5, {block(std::move(body))}), block({store(virt(1), 1024)})});
  };
  EXPECT_EQ(
      copies_left(sum({load(0, virt(0), {16}), add(virt(0), virt(1), virt(2)), copy(virt(2), virt(1))})), 0);
  // b is needed once more before the copy.
  EXPECT_EQ(copies_left(sum({load(0, virt(0), {16}), add(virt(0), virt(1), virt(2)),
                             store(virt(1), 2048, {16}), copy(virt(2), virt(1))})),
            1);
  // c keeps words that b would have.
  Operation half = add(virt(0), virt(1), virt(2));
  half.instruction.destinations[0].mask = {isa::Mask::Kind::kPattern, 0b1100, false, 0};
  EXPECT_EQ(copies_left(sum({imm(7, virt(2)), load(0, virt(0), {16}), half, copy(virt(2), virt(1))})), 1);
}

TEST(Coalescing, ACopyThatIsOnlyRead) {
  const auto program = [](Operation between) {
    return program_of({block({load(0, virt(0)), copy(virt(0), virt(1)), store(virt(1), 1024), between,
                              store(virt(1), 2048), store(virt(0), 3072)})});
  };
  EXPECT_EQ(copies_left(program(store(virt(0), 1536))), 0);
  EXPECT_EQ(copies_left(program(add(virt(0), virt(0), virt(0)))), 1);
  EXPECT_EQ(copies_left(program(add(virt(1), virt(1), virt(1)))), 1);
}

TEST(Coalescing, PartsOfValuesStay) {
  MachineProgram program = program_of({block({load(0, virt(0)), load(16, virt(0, 8)), copy(virt(0), virt(1)),
                                              store(virt(1), 1024), store(virt(0, 8), 2048)})});
  program.values[0].size_words = 16;
  EXPECT_EQ(copies_left(program), 1);
}

/// Puts copies before sources and behind destinations that are whole values, at random.
void add_copies(std::vector<Node>& nodes, MachineProgram& program, std::mt19937& random) {
  const auto is_whole = [&](const Operand& operand) {
    return operand.space == Space::kVirtual && operand.stride == 2 && operand.loop_strides.empty() &&
           operand.mask.kind == isa::Mask::Kind::kNone &&
           program.values[static_cast<size_t>(operand.value)].size_words == 8;
  };
  const auto fresh = [&] {
    program.values.push_back(value("t" + std::to_string(program.values.size()), 8, kAnywhere));
    return virt(static_cast<int>(program.values.size()) - 1);
  };
  for (Node& node : nodes) {
    if (auto* region = std::get_if<RegionNode>(&node.kind)) add_copies(region->body, program, random);
    if (auto* counted = std::get_if<CountedLoop>(&node.kind)) add_copies(counted->body, program, random);
    auto* b = std::get_if<Block>(&node.kind);
    if (b == nullptr) continue;
    const auto reads_forward = [&](size_t k) {
      return k < b->operations.size() &&
             std::ranges::count(b->operations[k].instruction.sources, Space::kAluf, &Operand::space) > 0;
    };
    std::vector<Operation> result;
    for (size_t k = 0; k < b->operations.size(); ++k) {
      Operation operation = b->operations[k];
      Operand& source = operation.instruction.sources[0];
      Operand& target = operation.instruction.destinations[0];
      std::optional<Operation> behind;
      if (is_whole(source) && random() % 2 == 0) {
        const Operand t = fresh();
        result.push_back(copy(source, t));
        source = t;
      }
      if (is_whole(target) && !reads_forward(k + 1) && random() % 2 == 0) {
        const Operand t = fresh();
        behind = copy(t, target);
        target = t;
      }
      result.push_back(std::move(operation));
      if (behind) result.push_back(*behind);
    }
    b->operations = std::move(result);
  }
}

TEST(Coalescing, RandomProgramsKeepTheirMeaning) {
  int copies = 0;
  int left = 0;
  for (uint32_t seed = 0; seed < 40; ++seed) {
    SCOPED_TRACE(seed);
    MachineProgram program = RandomProgram(seed, 1).make();
    const int own = copies_in(program.body);
    std::mt19937 random(seed);
    add_copies(program.body, program, random);
    copies += copies_in(program.body) - own;
    left += copies_left(program) - own;
  }
  EXPECT_GT(copies, 500);
  EXPECT_LT(left, copies / 4);
}

TEST(Coalescing, TheVerifierSeesValuesThatMeet) {
  const isa::Chip chip = interpreted_chip();
  const MachineProgram before = program_of({block({load(0, virt(0)), copy(virt(0), virt(1)), imm(5, virt(0)),
                                                   store(virt(1), 1024), store(virt(0), 2048)})});
  MachineProgram after = before;
  auto& operations = std::get<Block>(after.body[0].kind).operations;
  operations[3].instruction.sources[0].value = 0;
  EXPECT_THROW(verify::verify_copies(before, after, chip), isa::InternalError);
  operations.erase(operations.begin() + 1);
  EXPECT_THROW(verify::verify_copies(before, after, chip), isa::InternalError);
}

}  // namespace
}  // namespace kodama::scheduler
