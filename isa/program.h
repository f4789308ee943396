#pragma once

#include <atomic>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "isa/instruction.h"

/// A program: what the host streams to the chip, with repetition kept as counted loops.
///
/// Statements are executed in order. A loop repeats its body `count` times; an operand address inside is
/// base + sum(loop_strides[d] * counter of the d-th enclosing loop, outermost first). The chip itself has
/// no loops: the host (or the text printer) unrolls them, so a loop costs nothing, and a training step of
/// 10^8 steps still fits in memory.
///
/// Example: two iterations that load 4 LW per PE each
///
///     Loop{2, { Step{l1bmd {kL1bm, base 0, loop_strides {256}} -> {kLm0, base 0, stride 2, loop_strides
///     {8}}} }}
///
/// prints as `l1bmd $lb0 $lm0v` and `l1bmd $lb256 $lm8v`.
namespace kodama::isa {

struct Statement;

/// The instructions of a step: a vector that copies share until one of them is changed. Programs are copied
/// often (schedules that are compared, parts that are joined), and few steps of a copy differ.
///
/// Example: `Step b = a; b.instructions.own()[0].tag = 2;` leaves a as it is; without own() nothing is
/// copied.
class Instructions {
 public:
  using value_type = Instruction;
  using const_iterator = std::vector<Instruction>::const_iterator;
  using iterator = const_iterator;

  Instructions() = default;
  Instructions(std::vector<Instruction> list)
      : list_(std::make_shared<std::vector<Instruction>>(std::move(list))) {}
  Instructions(std::initializer_list<Instruction> list) : Instructions(std::vector<Instruction>(list)) {}

  const std::vector<Instruction>& get() const { return list_ ? *list_ : none(); }
  operator const std::vector<Instruction>&() const { return get(); }
  const_iterator begin() const { return get().begin(); }
  const_iterator end() const { return get().end(); }
  size_t size() const { return get().size(); }
  bool empty() const { return get().empty(); }
  const Instruction* data() const { return get().data(); }
  const Instruction& operator[](size_t k) const { return get()[k]; }
  const Instruction& front() const { return get().front(); }
  const Instruction& back() const { return get().back(); }

  /// To change them here alone. References into it end with the next copy of this.
  std::vector<Instruction>& own() {
    if (!list_) {
      list_ = std::make_shared<std::vector<Instruction>>();
    } else if (list_.use_count() > 1) {
      list_ = std::make_shared<std::vector<Instruction>>(*list_);
    } else {
      // Whoever had the last other copy, in another thread, has read it.
      std::atomic_thread_fence(std::memory_order_acquire);
    }
    return *list_;
  }
  void push_back(Instruction instruction) { own().push_back(std::move(instruction)); }

  bool operator==(const Instructions& other) const { return list_ == other.list_ || get() == other.get(); }

 private:
  static const std::vector<Instruction>& none() {
    static const std::vector<Instruction> none;
    return none;
  }
  std::shared_ptr<std::vector<Instruction>> list_;  ///< nothing = empty
};

/// One step: instructions that issue together. Order is irrelevant: all operands are read before
/// anything is written.
struct Step {
  Instructions instructions;
  bool operator==(const Step&) const = default;
};

/// `nop` or `nop/N`, optionally with `wait i<tag>` (wait_tag > 0) when count is 1.
struct Nop {
  int64_t count = 1;
  int8_t wait_tag = 0;
  bool operator==(const Nop&) const = default;
};

/// One MV transfer; takes no step.
struct Mv {
  Instruction instruction;
  bool operator==(const Mv&) const = default;
};

/// `mask[l|ll][r][s][t][m][n][k] <entry>`.
struct MaskControl {
  bool double_long = false;
  bool explicit_length = false;  ///< l or ll was written
  uint8_t spaces = 0;            ///< bit 0..5 = r s t m n k
  uint8_t entry = 0;
  bool operator==(const MaskControl&) const = default;
};

/// The bit of MaskControl::spaces that governs writes to a space; -1 = none does.
int mask_statement_bit(Space space);

/// `d get…` and `d set …`: host access between steps, by physical address.
struct DebugGet {
  std::string text;  ///< the statement as written, normalized
  char type = 0;     ///< 0, 'd', 'f', 'h', or 'D' 'F' 'G' 'H' for the block-float forms
  Space space = Space::kNone;
  int64_t address = 0;
  int64_t count = 1;                                 ///< LW
  std::array<int16_t, 5> place{-1, -1, -1, -1, -1};  ///< n c b m p; -1 = all
  bool operator==(const DebugGet&) const = default;
};
struct DebugSet {
  Space space = Space::kNone;
  int64_t address = 0;
  std::array<int16_t, 5> place{-1, -1, -1, -1, -1};
  std::vector<uint64_t> payload;  ///< LW
  bool operator==(const DebugSet&) const = default;
};
/// `r <group> <addr> <count> <payload>`: DRAM preload.
struct DramPreload {
  int group = 0;
  int64_t address = 0;
  std::vector<uint64_t> payload;
  bool operator==(const DramPreload&) const = default;
};
/// A comment worth keeping: `# region NAME` and `# endregion`.
struct RegionMark {
  bool begin = true;
  std::string name;
  bool operator==(const RegionMark&) const = default;
};
struct Quit {
  bool operator==(const Quit&) const = default;
};
struct Loop {
  int64_t count = 0;
  std::vector<Statement> body;
  bool operator==(const Loop&) const;
};

struct Statement {
  std::variant<Step, Nop, Mv, MaskControl, DebugGet, DebugSet, DramPreload, RegionMark, Quit, Loop> kind;
  int32_t line = 0;  ///< of the source text; 0 = made by the compiler

  /// Equal up to the line number.
  bool operator==(const Statement& other) const { return kind == other.kind; }
};

inline bool Loop::operator==(const Loop&) const = default;

struct Program {
  std::string source_name;  ///< file the text came from, for messages
  std::vector<Statement> statements;
  bool operator==(const Program& other) const { return statements == other.statements; }
};

inline constexpr int kMaxLoopDepth = 8;
/// Largest N of nop/N, and of steps and statements of a program that was not checked line by line: cycle
/// counts, which are a small multiple, then stay far inside 64 bits.
inline constexpr int64_t kMaxNopCount = int64_t{1} << 32;
inline constexpr int64_t kMaxProgramSteps = int64_t{1} << 56;

/// Steps of a program with loops unrolled (nop/N counts N), MV statements, total instructions, and statements
/// (nop/N counts 1), which are the lines of its text. A number beyond 64 bits is INT64_MAX.
struct ProgramCounts {
  int64_t steps = 0;
  int64_t nops = 0;  ///< part of steps
  int64_t mvs = 0;
  int64_t instructions = 0;
  int64_t statements = 0;
};
ProgramCounts count(const Program& program);
ProgramCounts count(const Statement& statement);

/// Whether nothing in the loop is ever executed, so that its iterations need not be counted out.
bool is_idle(const Loop& loop);

/// Calls `visit(statement, counters)` for every executed statement but loops, in execution order;
/// `counters[d]` is the counter of the d-th enclosing loop. Stops when visit returns false.
template <typename Visit>
bool for_each_executed(const std::vector<Statement>& statements, std::vector<int64_t>& counters,
                       Visit&& visit) {
  for (const Statement& statement : statements) {
    if (const Loop* loop = std::get_if<Loop>(&statement.kind)) {
      if (is_idle(*loop)) continue;
      counters.push_back(0);
      for (int64_t i = 0; i < loop->count; ++i) {
        counters.back() = i;
        if (!for_each_executed(loop->body, counters, visit)) {
          counters.pop_back();
          return false;
        }
      }
      counters.pop_back();
    } else if (!visit(statement, counters)) {
      return false;
    }
  }
  return true;
}

/// `base` of an operand with the loop counters applied.
inline int64_t resolved_base(const Operand& operand, const std::vector<int64_t>& counters) {
  int64_t base = operand.base;
  for (size_t d = 0; d < operand.loop_strides.size() && d < counters.size(); ++d) {
    base += operand.loop_strides[d] * counters[d];
  }
  return base;
}

/// The statement (no loop) with the counters in its operands' addresses, and without loop strides.
Statement resolved(Statement statement, const std::vector<int64_t>& counters);

}  // namespace kodama::isa
