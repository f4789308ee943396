#include "scheduler/machine/loop_expansion.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>

#include "isa/arithmetic.h"
#include "scheduler/machine/machine_problem.h"
#include "scheduler/machine/program_analysis.h"
#include "scheduler/machine/program_scheduling.h"

namespace kodama::scheduler {
namespace {

using isa::Operand;
using isa::Space;

/// Bodies beyond this are long enough to fill their steps.
constexpr size_t kMostOperations = 240;

class LoopExpansion {
 public:
  LoopExpansion(MachineProgram& program, const isa::Chip& chip, int64_t most_copies)
      : program_(program), chip_(chip), most_copies_(most_copies) {}

  bool run() {
    const ProgramIndex index = index_program(program_);
    const std::vector<Lifetime> lifetimes = compute_lifetimes(program_, index);
    for (const LoopSite& loop : index.loops) {
      std::vector<int>& own = own_values_.emplace_back();
      for (size_t v = 0; v < lifetimes.size(); ++v) {
        // Its first access is a write inside, the last one a read inside.
        if (!lifetimes[v].empty() && lifetimes[v].begin > 2 * loop.begin && lifetimes[v].end <= 2 * loop.end)
          own.push_back(static_cast<int>(v));
      }
    }
    matrices_stay_in_blocks_ = matrices_stay_in_blocks(program_.body);
    visit(program_.body, 0);
    return changed_;
  }

 private:
  struct MatrixUse {
    int last_write = -1;
    int first_read = -1;
    bool any() const { return last_write >= 0 || first_read >= 0; }
    /// Nothing of it comes from outside, or from the iteration before.
    bool is_own() const { return last_write >= 0 && (first_read < 0 || first_read > last_write); }
  };
  static MatrixUse matrix_use(const Block& block, Space space) {
    MatrixUse use;
    for (size_t k = 0; k < block.operations.size(); ++k) {
      const isa::Instruction& instruction = block.operations[k].instruction;
      const auto names = [&](const Operand& operand) { return operand.space == space; };
      if (std::ranges::any_of(instruction.destinations, names)) use.last_write = static_cast<int>(k);
      if (use.first_read < 0 && std::ranges::any_of(instruction.sources, names))
        use.first_read = static_cast<int>(k);
    }
    return use;
  }
  /// Every block that reads a matrix register has written all that it writes of it before.
  static bool matrices_stay_in_blocks(const std::vector<Node>& nodes) {
    return std::ranges::all_of(nodes, [](const Node& node) {
      if (const auto* region = std::get_if<RegionNode>(&node.kind))
        return matrices_stay_in_blocks(region->body);
      if (const auto* loop = std::get_if<CountedLoop>(&node.kind)) return matrices_stay_in_blocks(loop->body);
      return std::ranges::all_of(std::array{Space::kMatX, Space::kMatY}, [&](Space space) {
        const MatrixUse use = matrix_use(std::get<Block>(node.kind), space);
        return use.first_read < 0 || use.is_own();
      });
    });
  }
  bool alternates_matrices(const Block& block) const {
    const MatrixUse x = matrix_use(block, Space::kMatX);
    const MatrixUse y = matrix_use(block, Space::kMatY);
    return matrices_stay_in_blocks_ && x.any() != y.any() && (x.any() ? x : y).is_own();
  }

  /// Loops are numbered as index_program does: in the order in which they begin.
  void visit(std::vector<Node>& nodes, size_t depth) {
    for (size_t k = 0; k < nodes.size(); ++k) {
      if (auto* region = std::get_if<RegionNode>(&nodes[k].kind)) visit(region->body, depth);
      auto* loop = std::get_if<CountedLoop>(&nodes[k].kind);
      if (loop == nullptr) continue;
      const std::vector<int>& own = own_values_[next_loop_++];
      visit(loop->body, depth + 1);
      const Block* block = loop->body.size() == 1 ? std::get_if<Block>(&loop->body[0].kind) : nullptr;
      if (block == nullptr) continue;
      alternate_ = alternates_matrices(*block);
      if (own.empty() && !alternate_) continue;
      int64_t copies = copies_of(*block, loop->count);
      if (alternate_) copies = copies / 2 * 2;
      if (copies < 2) continue;
      CountedLoop expanded{loop->count / copies, {Node{Block{}}}};
      auto& operations = std::get<Block>(expanded.body[0].kind).operations;
      for (int64_t copy = 0; copy < copies; ++copy)
        append(operations, *block, own, copy, depth, copies, copy);
      // Iterations that are left come behind, one after the other.
      Block rest;
      for (int64_t i = expanded.count * copies; i < loop->count; ++i)
        append(rest.operations, *block, own, 0, depth, 0, i);
      nodes[k].kind = std::move(expanded);
      if (!rest.operations.empty())
        nodes.insert(nodes.begin() + static_cast<std::ptrdiff_t>(k) + 1, Node{std::move(rest)});
      changed_ = true;
    }
  }

  /// The block for iteration `copies` * counter + `shift`; without copies, for iteration `shift` alone.
  void append(std::vector<Operation>& operations, const Block& block, const std::vector<int>& own,
              int64_t copy, size_t depth, int64_t copies, int64_t shift) {
    for (Operation operation : block.operations) {
      const auto change_mask = [&](isa::Mask& mask) {
        if (copy > 0 && mask.kind == isa::Mask::Kind::kVirtual &&
            std::ranges::binary_search(own, mask.virtual_value))
          mask.virtual_value = copy_of(mask.virtual_value, copy);
      };
      change_mask(operation.instruction.zero_flush);
      const auto change = [&](Operand& operand) {
        change_mask(operand.mask);
        if (operand.loop_strides.size() > depth) {
          operand.base += operand.loop_strides[depth] * shift;
          operand.loop_strides[depth] *= copies;
        }
        if (copy > 0 && operand.space == Space::kVirtual && std::ranges::binary_search(own, operand.value))
          operand.value = copy_of(operand.value, copy);
        if (alternate_ && copy % 2 == 1) {
          if (operand.space == Space::kMatX) {
            operand.space = Space::kMatY;
          } else if (operand.space == Space::kMatY) {
            operand.space = Space::kMatX;
          }
        }
      };
      for (Operand& operand : operation.instruction.sources) change(operand);
      for (Operand& operand : operation.instruction.destinations) change(operand);
      operations.push_back(std::move(operation));
    }
  }

  int32_t copy_of(int32_t value, int64_t copy) {
    const auto [known, is_new] =
        copies_.try_emplace({value, copy}, static_cast<int32_t>(program_.values.size()));
    if (is_new) {
      Value own = program_.values[static_cast<size_t>(value)];
      own.name += fmt::format(".{}", copy);
      program_.values.push_back(std::move(own));
    }
    return known->second;
  }

  int64_t copies_of(const Block& block, int64_t count) const {
    if (count < 2 || block.operations.empty() || block.operations.size() > kMostOperations) return 1;
    std::vector<MachineOperation> operations;
    for (const Operation& operation : block.operations) {
      operations.push_back(make_machine_operation(operation.instruction, {}, chip_, {}));
      if (operations.back().is_mv || operations.back().is_wait) return 1;
      for (const TimedAccess& timed : operations.back().accesses) {
        // Forwarding registers are one for all iterations.
        if (isa::is_forwarding_register(timed.access.resource) && !timed.access.write) return 1;
      }
    }
    std::map<isa::IssueGroup, int64_t> busy;
    int64_t interval = 1;
    for (const MachineOperation& operation : operations)
      interval = std::max(interval, ++busy[isa::issue_group(operation.instruction)]);
    // An iteration lives as long as its longest way, and longer where resources are crowded.
    const int64_t life = block_path(operations) + interval / 2;
    const int64_t wanted = std::max<int64_t>(isa::ceil_div(life, interval), alternate_ ? 2 : 1);
    const auto fitting = static_cast<int64_t>(kMostOperations / operations.size());
    return std::clamp<int64_t>(wanted, 1, std::min({most_copies_, count, fitting}));
  }

  /// Steps of the longest chain of dependences through one iteration.
  int64_t block_path(const std::vector<MachineOperation>& operations) const {
    std::vector<int64_t> head(operations.size(), 0);
    int64_t longest = 1;
    for (size_t j = 0; j < operations.size(); ++j) {
      for (size_t i = 0; i < j; ++i) {
        for (const TimedAccess& a : operations[i].accesses) {
          if (!a.access.write || isa::is_forwarding_register(a.access.resource)) continue;
          for (const TimedAccess& b : operations[j].accesses) {
            if (b.access.write) continue;
            const int64_t gap = isa::required_gap(a.access, b.access, chip_);
            if (gap >= 0) head[j] = std::max(head[j], head[i] + gap + 1);
          }
        }
      }
      longest = std::max(longest, head[j] + 1);
    }
    return longest;
  }

  MachineProgram& program_;
  const isa::Chip& chip_;
  int64_t most_copies_;
  std::vector<std::vector<int>> own_values_;  ///< of each loop, sorted
  size_t next_loop_ = 0;
  std::map<std::pair<int32_t, int64_t>, int32_t> copies_;
  bool matrices_stay_in_blocks_ = false;
  bool alternate_ = false;  ///< in the loop at hand
  bool changed_ = false;
};

}  // namespace

bool expand_loops(MachineProgram& program, const isa::Chip& chip, int64_t most_copies) {
  return LoopExpansion(program, chip, most_copies).run();
}

}  // namespace kodama::scheduler
