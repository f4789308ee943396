#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "isa/chip.h"
#include "isa/program.h"
#include "simulator/engine/kernels/kernels.h"
#include "simulator/machine.h"

/// Programs in the engine's form: operands flattened, kernels looked up, loops kept, and for each node how
/// far it reaches, so that the engine knows what may run L1B by L1B.
namespace kodama::simulator {

/// address modulo size, never negative.
inline int64_t wrap(int64_t address, int64_t size) {
  if (address >= 0 && address < size) return address;
  const int64_t rest = address % size;
  return rest < 0 ? rest + size : rest;
}

/// Where an access of this width begins that goes to a word address of a memory of PEs.
inline int64_t row_address(int64_t address, isa::Width width, int64_t size) {
  return wrap(address, size) & ~int64_t{isa::words(width) - 1};
}

using Counters = std::array<int64_t, isa::kMaxLoopDepth>;

struct MicroOperand {
  isa::Space space = isa::Space::kNone;
  isa::Width width = isa::Width::kLong;
  bool t_indirect = false;
  bool negate = false;
  bool extend = false;
  bool reduce = false;
  int8_t j = -1;
  int8_t group = -1;
  int8_t unit = -1;
  uint8_t loop_depth = 0;  ///< entries of loop_strides in use
  isa::Mask mask;
  int64_t base = 0;
  std::array<int32_t, 4> offset{};  ///< of each cycle
  /// Of a memory of PEs without loop strides: the word address in each cycle, but for BAR, T and j.
  std::array<int32_t, 4> place{};
  std::array<int64_t, isa::kMaxLoopDepth> loop_strides{};

  int64_t resolve(const Counters& counters) const {
    int64_t address = base;
    for (int d = 0; d < loop_depth; ++d) address += loop_strides[d] * counters[d];
    return address;
  }
};

/// Units of a PE or L1B that hold a result of a step.
enum class Unit : uint8_t { kAlu, kMau, kL1bm, kMread, kTurnaround, kMwrite, kNone };
inline constexpr int kResultUnits = 5;

struct MicroOp {
  const isa::InstructionInfo* row = nullptr;
  const isa::Movement* movement = nullptr;  ///< of the form of the row
  isa::Precision precision = isa::Precision::kNone;
  Unit unit = Unit::kNone;
  bool round_output = false;
  bool writes_l = false;  ///< the ALU kernel writes all four words
  bool unsigned_op = false;
  char half_select = 0;
  int8_t parameter = 0;     ///< b of bfn, bfe
  int8_t unit_number = -1;  ///< @k
  int8_t rotation = 0;
  bool wants_flags = false;
  isa::ReduceOp reduce_op = isa::ReduceOp::kNone;
  isa::L1bSet l1b_set;
  isa::Mask zero_flush;
  AluKernel alu = nullptr;
  std::vector<MicroOperand> sources;
  std::vector<MicroOperand> destinations;
};

/// How far a node reaches: inside each L1B, or what each of them fetches of its L2BM, which stays as it is;
/// inside each L2B; or across L2Bs and to the host.
enum class Reach : uint8_t { kL1b, kFetch, kL2b, kGlobal };

struct Node {
  enum class Kind : uint8_t { kStep, kNop, kWait, kLoop, kMask, kMv, kGet, kSet, kPreload, kQuit };
  Kind kind = Kind::kNop;
  Reach reach = Reach::kL1b;       ///< a wait is for all
  Reach data_reach = Reach::kL1b;  ///< the same without its waits
  int32_t line = 0;
  int32_t id = 0;       ///< 0, 1, 2, … in the order of the program
  int32_t region = -1;  ///< in Decoded::regions
  const isa::Statement* statement = nullptr;
  // kStep
  std::vector<MicroOp> ops;      ///< of PEs, MABs and L1Bs
  std::vector<MicroOp> l2b_ops;  ///< of L2Bs
  bool no_forward = false;
  bool writes_registers = false;  ///< T, BAR or masks
  bool own_masks = false;         ///< a destination names its mask: the block mask does not apply
  // kNop, kLoop
  int64_t count = 1;
  std::vector<Node> body;
  bool idle = false;  ///< nothing but nops: only time passes
  // kWait, kStep
  int wait_tag = 0;  ///< 0 = none
  // Others
  const isa::MaskControl* mask = nullptr;
  const isa::Instruction* mv = nullptr;
  MicroOperand mv_source;
  MicroOperand mv_destination;
  const isa::DebugGet* get = nullptr;
  const isa::DebugSet* set = nullptr;
  const isa::DramPreload* preload = nullptr;
  /// What running the node once adds, loops included; only the fields that do not depend on time. Not for
  /// global nodes.
  RunStats stats;
};

struct Decoded {
  std::vector<Node> nodes;  ///< they point into the program
  std::vector<Region> regions;
  int32_t node_count = 0;  ///< with the nodes of loops
};

/// Checks everything that can be known before running: UnsupportedError for what the engine can't do,
/// UserError for what no chip can, InternalError for virtual operands.
Decoded decode(const isa::Program& program, const isa::Chip& chip, const KernelTable& kernels);

}  // namespace kodama::simulator
