#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "isa/chip.h"
#include "isa/move_places.h"
#include "simulator/engine/decode.h"
#include "simulator/engine/kernels/kernels.h"
#include "simulator/engine/kernels/scalar_arithmetic.h"
#include "simulator/engine/mapped_memory.h"
#include "simulator/engine/stale_view.h"
#include "simulator/machine.h"

/// One L1B with its MABs and PEs: the state, and the execution of steps on it.
namespace kodama::simulator {

/// One LW of two rows, its upper and lower words.
inline uint64_t long_at(const uint32_t* upper, const uint32_t* lower, int lane) {
  return (uint64_t{upper[lane]} << 32) | lower[lane];
}

/// The words of an operand or result in all cycles.
using CycleRows = std::array<Rows, 4>;

/// Working memory of one thread.
class Scratch {
 public:
  explicit Scratch(const RowShape& shape, int mabs);
  void reset() { used_ = 0; }
  /// 16 rows: words 0..3 of cycles 0..3.
  uint32_t* rows() { return rows_.data() + static_cast<size_t>(used_++ % kSlots) * 16 * row_words_; }
  uint8_t* flags() { return flags_.data(); }
  uint64_t* l1bm_data() { return l1bm_data_.data(); }  ///< of a second instruction to L1BM
  uint64_t* l1bm_window() { return l1bm_window_.data(); }

  /// `count` LW for what L2BM instructions of a step read.
  uint64_t* l2b_data(int64_t count) {
    std::vector<uint64_t>& data =
        l2b_used_ < l2b_data_.size() ? l2b_data_[l2b_used_] : l2b_data_.emplace_back();
    ++l2b_used_;
    if (data.size() < static_cast<size_t>(count)) data.resize(static_cast<size_t>(count));
    return data.data();
  }
  void reset_l2b() { l2b_used_ = 0; }

  /// Operands of the instruction that runs, and what a mwrite takes.
  CycleRows x, y, z;
  CycleRows mwrite_source;

 private:
  /// Six instructions of a step with at most three operands each, and conversions of each.
  static constexpr size_t kSlots = 36;
  size_t row_words_;
  size_t used_ = 0;
  std::vector<uint32_t> rows_;
  std::vector<uint8_t> flags_;
  std::vector<uint64_t> l1bm_data_;
  std::vector<uint64_t> l1bm_window_;
  std::vector<std::vector<uint64_t>> l2b_data_;
  size_t l2b_used_ = 0;
};

class L1b {
 public:
  /// `l2b`: number in the whole chip, `l1b`: number in the L2B. `storage`: storage_bytes(chip) zeros for all
  /// of its memories and registers, at a cache line; they are the caller's.
  L1b(const isa::Chip& chip, const KernelTable& kernels, int l2b, int l1b, void* storage);
  /// A multiple of a cache line.
  static size_t storage_bytes(const isa::Chip& chip);
  L1b(L1b&&) noexcept = default;

  void run_step(const Node& node, const Counters& counters, Scratch& scratch);
  void set_block_mask(const isa::MaskControl& control);
  void clear_block_mask() { block_masks_ = {}; }

  /// One LW of a PE memory, matrix register, mask or L1BM; `place` as Machine::read.
  uint64_t read(isa::Space space, int mab, int pe, int64_t address) const;
  void write(isa::Space space, int mab, int pe, int64_t address, uint64_t value);
  void fill_pseudo_random(uint64_t seed);

  uint64_t* l1bm() { return l1bm_; }
  const KernelTable& kernels() const { return *kernels_; }

  /// From now on readers that come too early see what was there before; see StaleView. Null = no longer.
  void show_stale(bool stale);
  StaleView* stale() const { return stale_.get(); }

  /// The word address that an operand in a PE memory has in one cycle, with BAR, T and j.
  int64_t operand_address(const isa::Operand& operand, int mab, int pe, int cycle) const;

  static RowShape row_shape(const isa::Chip& chip);
  /// LW of the largest area that one L1BM instruction touches.
  static int64_t window_lw(const isa::Chip& chip);

 private:
  struct Matrix {
    uint32_t* raw = nullptr;  ///< [row][word of the LW][PE][MAB]
    void* decoded = nullptr;
    isa::Precision precision = isa::Precision::kNone;  ///< of `decoded`
    uint32_t valid = 0;                                ///< rows of `decoded` that are up to date
    std::array<uint32_t, 16> kind{};                   ///< BlockKinds of each row
    uint32_t kinds = 0;  ///< of all rows of `kinds_of` together, while they are valid
    uint32_t kinds_of = 0;
  };
  /// A result waiting to be written at the end of the step.
  struct PendingWrite {
    const MicroOp* op;
    const CycleRows* result;
    const uint8_t* flags;
  };
  struct PendingL1bm {
    const MicroOp* op;
    const uint64_t* data;
    int64_t count;
  };
  struct CycleMask {
    enum class Kind : uint8_t { kAll, kNone, kLanes } kind = Kind::kAll;
    bool double_long = false;
    const uint8_t* lanes = nullptr;

    int bits(int lane) const { return kind == Kind::kLanes ? lanes[lane] : kind == Kind::kAll ? 15 : 0; }
    /// Under an l mask the LSB LW is written whatever the mask says.
    bool governs(int word) const { return double_long || word < 2; }
    /// Which bits govern the upper and the lower half of a word.
    int high(int word) const { return double_long ? 3 - word : 3 - 2 * word; }
    int low(int word) const { return double_long ? 3 - word : 2 - 2 * word; }
  };

  /// T as this step sees it.
  void refresh_stale_addresses();
  void write_bar(int which, const std::vector<std::pair<uint32_t, bool>>& written);  ///< lanes that are
  void put_turnaround(const uint64_t* data, int64_t count);
  /// The result of a unit that is in `result_words_`.
  void put_forward(size_t index, size_t unit);
  const CycleRows& forwarded(size_t index) const;
  uint32_t* memory_of(isa::Space space) const;
  int64_t size_of(isa::Space space) const;
  bool has_plain_addresses(const MicroOperand& operand) const;
  /// The word addresses in all cycles of an operand that has them.
  std::array<int64_t, 4> plain_addresses(const MicroOperand& operand, const Counters& counters) const;
  int64_t lane_address(const MicroOperand& operand, int64_t base, int cycle, int lane) const;
  /// The same for the kernels.
  LaneAddresses lane_addresses(const MicroOperand& operand, int64_t base, int cycle) const;
  void fetch(const MicroOperand& operand, isa::Precision precision, const Counters& counters,
             Scratch& scratch, CycleRows& value) const;
  void fetch_constant(isa::FixedConstant constant, isa::Precision precision, Scratch& scratch,
                      CycleRows& value) const;
  /// Fetches and applies the conversions e, r and -. `addend`: the z of a MAU operation.
  void fetch_converted(const MicroOperand& operand, isa::Precision precision, bool addend,
                       const Counters& counters, Scratch& scratch, CycleRows& value) const;
  CycleMask cycle_mask(const isa::Mask& mask, int cycle) const;
  uint32_t* result_rows(Unit unit) const;

  void run_alu(const MicroOp& op, const Counters& counters, Scratch& scratch, CycleRows& result,
               uint8_t* flags);
  void run_mau(const MicroOp& op, const Counters& counters, Scratch& scratch, CycleRows& result,
               uint8_t* flags);
  void run_double_vector(const CycleRows& x, const CycleRows* y, const CycleRows* z, const MicroOp& op,
                         CycleRows& result) const;
  /// Those results of a double multiplication that have no product: z, rounded, in two PEs from `first_pe`
  /// on.
  void pass_double_addend(const MicroOp& op, const Rows& z, int first_pe,
                          const std::array<uint32_t*, 4>& out) const;
  void run_matrix(const MicroOp& op, const CycleRows& v, const CycleRows* z, CycleRows& result,
                  uint32_t* rows);
  void scalar_matrix_cycle(const MicroOp& op, const Matrix& matrix, const Rows& v, const Rows& z,
                           const std::array<uint32_t*, 4>& out) const;
  void run_mread(const MicroOp& op, const Counters& counters, CycleRows& result) const;
  void commit_mwrite(const MicroOp& op, const CycleRows& source, const Counters& counters);
  void write_matrix(const MicroOperand& destination, bool wide, int64_t base, const CycleRows& source);
  void run_l1bm_to_pe(const MicroOp& op, const Counters& counters, Scratch& scratch, CycleRows& result) const;
  bool is_dealt(const isa::L1bmLayout& layout) const;
  /// The LW of an area that come in one cycle to rows of their upper and lower words.
  void longs_to_rows(const isa::L1bmLayout& layout, const uint64_t* area, int cycle, int half, int rotation,
                     uint32_t* upper, uint32_t* lower) const;
  int64_t run_pe_to_l1bm(const MicroOp& op, const CycleRows& source, Scratch& scratch, uint64_t* data) const;
  void sum_to_halves(const MicroOp& op, const CycleRows& source, Scratch& scratch, uint64_t* data) const;
  /// The sum over all MABs of each PE number.
  void sum_row(const uint32_t* row, bool to_half, std::array<uint32_t, isa::kPePerMab>& sums) const;
  /// Whether the kernels can do it.
  bool sum_floats(const isa::L1bmLayout& layout, const CycleRows& source, uint64_t* data) const;
  void zero_flush(const MicroOp& op, CycleRows& result) const;
  /// T and BARs take part in addresses, masks govern all writes: what others still need changes after them.
  enum class CommitPhase : uint8_t { kMemories, kAddresses, kMasks };
  static CommitPhase phase_of(isa::Space destination);
  void commit(const PendingWrite& write, const Node& node, const Counters& counters, CommitPhase phase);
  void commit_l1bm(const PendingL1bm& write, const Counters& counters);
  void commit_memory(const MicroOperand& destination, const isa::Mask& mask, const CycleRows& result,
                     const Counters& counters);
  void copy_masked(uint32_t* to, const uint32_t* from, int word, const CycleMask& mask) const;

  uint32_t* row(uint32_t* memory, int64_t index) const { return memory + index * words_; }

  const isa::Chip* chip_;
  const KernelTable* kernels_;
  RowShape shape_;
  int words_;  ///< of a row
  int mabs_;
  int l2b_number_;
  int l1b_number_;
  std::array<uint32_t*, 2> lm_{};
  std::array<uint32_t*, 2> grf_{};
  uint32_t* t_ = nullptr;     ///< [cycle][word]
  uint8_t* masks_ = nullptr;  ///< [entry][cycle]
  std::array<uint32_t*, 2> bar_{};
  std::array<bool, 2> bar_used_{};  ///< some PE's is not zero
  std::array<Matrix, 2> matrix_{};
  uint64_t* l1bm_ = nullptr;
  uint64_t* turnaround_ = nullptr;
  uint64_t* next_turnaround_ = nullptr;  ///< what comes to be there if all of it changes
  uint32_t* zero_row_ = nullptr;
  CycleRows zeros_;  ///< an operand that is all zero
  /// Results of each unit: the one under construction and the one that the forwarding registers show.
  std::array<std::array<uint32_t*, 2>, kResultUnits> results_{};
  std::array<uint8_t, kResultUnits> next_result_{};
  /// Forwarding registers: ALU, MAU, L1BM to PE, matrix read.
  std::array<std::array<CycleRows, 2>, kResultUnits> result_words_;  ///< the words in `results_`
  /// Where what a forwarding register shows is: in `result_words_`, in `stale_words_`, or nowhere yet.
  struct Forward {
    enum class Kind : uint8_t { kZeros, kResult, kStale } kind = Kind::kZeros;
    uint8_t unit = 0, which = 0;
  };
  std::array<Forward, 4> forward_{};
  std::array<isa::Mask, 6> block_masks_{};  ///< r s t m n k
  std::unique_ptr<StaleView> stale_;
  std::vector<uint32_t> stale_t_;                       ///< [cycle][word]
  std::array<std::vector<uint32_t>, 4> stale_forward_;  ///< rows of late forwarding registers
  std::array<CycleRows, 4> stale_words_;                ///< the words in them
};

}  // namespace kodama::simulator
