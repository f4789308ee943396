#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "isa/chip.h"
#include "isa/program.h"

/// The machine program (l1): VLIW operations on virtual values, in blocks and counted loops.
///
/// A kernel writes operations in a natural order, one after the other, as if each saw the results of all
/// before it. Operands are real (L1BM addresses, forwarding-free memories) or virtual: Space::kVirtual
/// with `value` = index into MachineProgram::values and `base`/`stride`/`loop_strides` in words relative
/// to the start of the value. A value may also be a mask entry: its one home is then Space::kOmr, its size 1,
/// an operation writes it as an operand of width kWord, and Mask::Kind::kVirtual names it where it is used.
/// Passes (passes.h) make a program of it:
///
///   1. coalesce         makes one value of two where one is a copy of the other;
///   2. assign homes     picks a memory (GRF0, GRF1, LM0, LM1, T) for every value, so that the operands of
///                       an operation don't collide on a port; inserts copies where they would;
///   3. spill            where a memory has more to hold than words, moves values out of it while nobody
///                       needs them;
///   4. allocate         gives every value an address in its memory, by its lifetime;
///   5. schedule         packs operations into steps, keeping dependences and distances.
///
/// Example: y[i] = a * x[i] over 8 vectors of 4 LW per PE
///
///     values:  x, y: 64 words in LM0|LM1;  a: 2 words in GRF0|GRF1
///     Block { imm f"2.5" -> a }
///     Loop 8 { Block { fvmul %x[0 +8i]v, %a -> %y[0 +8i]v } }
namespace kodama::scheduler {

/// Set of spaces a value may live in (isa::space_bit).
using HomeSet = isa::SpaceSet;

/// A virtual register or buffer: a contiguous range of words in one PE memory, or a mask entry, the same in
/// every PE.
struct Value {
  std::string name;
  int64_t size_words = 0;
  int64_t alignment_words = 2;  ///< 2 = LW, 4 = 2LW
  HomeSet homes = 0;            ///< allowed memories; a set with one member is a demand
  // Filled by the passes.
  isa::Space home = isa::Space::kNone;
  int64_t address = -1;

  bool operator==(const Value&) const = default;
};

struct Operation {
  isa::Instruction instruction;  ///< any group: PE instruction, MV, or wait
  std::string origin;            ///< what emitted it, for dumps and messages
  /// Of a wait: what it waits for was there long ago if transfers are scheduled well, so that work before it
  /// may as well be done behind it, beside what needs the transfer.
  bool is_early = false;

  bool operator==(const Operation&) const = default;
};

struct Node;

/// Straight-line code. Blocks are the scheduler's unit: nothing moves across their ends.
struct Block {
  std::vector<Operation> operations;

  bool operator==(const Block&) const = default;
};

struct CountedLoop {
  int64_t count = 0;
  std::vector<Node> body;

  bool operator==(const CountedLoop&) const;
};

struct RegionNode {  ///< named part of the program (a layer); kept as marks in the program
  std::string name;
  std::vector<Node> body;

  bool operator==(const RegionNode&) const;
};

struct Node {
  std::variant<Block, CountedLoop, RegionNode> kind;

  bool operator==(const Node& other) const { return kind == other.kind; }
};

inline bool CountedLoop::operator==(const CountedLoop&) const = default;
inline bool RegionNode::operator==(const RegionNode&) const = default;

/// Words [begin, end) of a PE memory that keep what another program has put there. Values stay away from
/// them, as from words that operations name themselves.
struct KeptWords {
  isa::Space space = isa::Space::kNone;
  int64_t begin = 0, end = 0;

  bool operator==(const KeptWords&) const = default;
};

struct MachineProgram {
  std::string name;
  std::vector<Value> values;
  std::vector<Node> body;
  std::vector<KeptWords> kept = {};

  bool operator==(const MachineProgram&) const = default;
};

/// Text form for --dump-after: values, then operations with virtual operands and loops.
std::string to_string(const MachineProgram& program);

}  // namespace kodama::scheduler
