#pragma once

#include <fmt/format.h>

#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "compiler/tile/tile_program.h"
#include "isa/chip.h"
#include "isa/instruction.h"
#include "scheduler/machine/machine_program.h"

/// From tile operations to machine operations. One lower_* function per tile operation, each in its own
/// file; they write through a MachineBuilder.
namespace kodama::compiler {

/// At which products multiply whose matrices the chip itself makes, of what layers made: at half they are
/// gfloat, which is more exact, as no kernel makes matrices of halves in the PEs. Nothing at float: no kernel
/// does that.
std::optional<MatrixPrecision> precision_of_made_matrices(MatrixPrecision precision);

/// Builds a machine program in order, keeping the loop nest.
///
///     builder.begin_loop(8);                         // counter at depth builder.depth() - 1
///     builder.emit(op(Opcode::kVmul, Precision::kFloat,
///                     {builder.at(x, index, 0)...}
///     builder.end_loop();
///
/// Operations go to the current block; begin_loop/end_loop/begin_region/end_region end it.
class MachineBuilder {
 public:
  MachineBuilder(const isa::Chip& chip, std::string name);

  const isa::Chip& chip() const { return chip_; }
  /// Number of open loops; the innermost counter has index depth() - 1 in loop_strides.
  int depth() const { return depth_; }

  /// New virtual value.
  int value(std::string name, int64_t size_words, scheduler::HomeSet homes, int64_t alignment_words = 2);
  /// Virtual operand: words [base, …) of `value` with per-cycle stride in words and loop strides in words.
  static isa::Operand operand(int value, int64_t base_words = 0, int32_t stride_words = 2,
                              isa::Width width = isa::Width::kLong, std::vector<int64_t> loop_strides = {});
  /// Operand at a TileIndex (LW) of a value, plus `extra_words` and the strides (in words) of machine
  /// loops opened inside the tile operation (`inner_strides`, outermost first, aligned to the end of the
  /// current loop nest).
  isa::Operand operand_at(int value, const TileIndex& at, int64_t extra_words = 0, int32_t stride_words = 2,
                          isa::Width width = isa::Width::kLong,
                          const std::vector<int64_t>& inner_strides = {}) const;
  /// Loop strides in `unit` words or LW of a TileIndex, extended by inner strides as above.
  std::vector<int64_t> loop_strides(const TileIndex& at, int64_t unit,
                                    const std::vector<int64_t>& inner_strides = {}) const;

  void emit(isa::Instruction instruction, std::string origin = "");
  /// A wait for a transfer, for which scheduler::Operation says what `is_early` means.
  void emit_wait(int tag, std::string origin, bool is_early);
  /// opcode, precision, sources -> destinations.
  void emit(isa::Opcode opcode, isa::Precision precision, std::vector<isa::Operand> sources,
            std::vector<isa::Operand> destinations, std::string origin = "");
  /// A value of one LW holding `constant` in every float (shared between equal constants of a program,
  /// materialized with imm at its start). Read it with stride 0.
  int constant_float(float constant);
  int constant_bits(uint32_t payload);
  /// The same of a whole LW.
  int constant_long(uint64_t payload);

  void begin_loop(int64_t count);
  void end_loop();
  void begin_region(const std::string& name);
  void end_region();

  scheduler::MachineProgram finish();

 private:
  std::vector<scheduler::Node>& open_body();
  scheduler::Block& open_block();
  template <typename Payload>
  int constant_of(std::vector<std::pair<Payload, int>>& constants, Payload payload,
                  fmt::format_string<Payload&> name);
  void add_long_constant(scheduler::Block& block, uint64_t payload, int to);

  const isa::Chip& chip_;
  scheduler::MachineProgram program_;
  int depth_ = 0;
  std::vector<std::vector<scheduler::Node>*> open_;
  std::vector<std::pair<uint32_t, int>> constants_;
  std::vector<std::pair<uint64_t, int>> long_constants_;
};

/// A fill or a copy of so many operations has no loop, so that it stands beside what comes before and behind.
inline constexpr int64_t kStraightOperations = 192;

/// imm of a 32-bit integer.
isa::Instruction integer_immediate(uint32_t payload, isa::Operand to);

/// An operand in a memory outside the PEs, or another space without virtual values.
isa::Operand space_operand(isa::Space space, int64_t base, std::vector<int64_t> loop_strides = {});

/// State shared by the lower_* functions of one tile program.
struct TileLoweringContext {
  MachineBuilder& builder;
  const TileProgram& program;
  std::vector<int> buffer_values;  ///< machine value of each tile buffer
  /// Mask values of MABs of quads, by the number of those of every cycle.
  std::map<std::array<int64_t, isa::kCyclesPerStep>, int> block_masks = {};
  /// The first and the last number inside in every cycle of a step.
  using Inside = std::array<std::pair<int64_t, int64_t>, isa::kCyclesPerStep>;
  /// Mask values of L1Bs, by those inside and the mask under it.
  std::map<std::pair<Inside, int>, int> l1b_masks = {};
  /// Mask values of MABs of lanes, by those inside, and the value of their numbers.
  std::map<Inside, int> lane_masks = {};
  int lane_mabs = -1;
  /// Mask values of MABs whose number has bits with a value, by both.
  std::map<std::pair<int64_t, int64_t>, int> mab_masks = {};
  /// Masks of MABs' own blocks, without the channels behind the first so many of a chunk.
  std::map<std::pair<int64_t, std::array<int64_t, isa::kCyclesPerStep>>, int> channel_masks = {};
};

// transfer_lowering.cpp: staging through L2BM and L1BM, MV tags and waits.
void lower_load(TileLoweringContext& context, const LoadTile& op);
void lower_store(TileLoweringContext& context, const StoreTile& op);
/// The MVs of `lw` LW between a stream's part in each group and L2BM, with tags from `first_tag` on. Of what
/// L2Bs exchange, every one gets its group's share, at its place among those of all groups.
std::vector<isa::Instruction> mv_instructions(const layout::Transport& transport, bool to_chip, int64_t lw,
                                              const isa::Operand& dram, int64_t part_lw, int64_t l2bm_address,
                                              int first_tag, const isa::Chip& chip);
/// LW on the L1BM side of one step between L2BM and L1BM.
int64_t l2bm_step_lw(const layout::Transport& transport);
// stream_product_lowering.cpp
/// Phases in which L2Bs exchange a share of an operand (layout::L2bMode::kExchanged); 0: this chip's don't,
/// as its groups aren't a power of two, or there are not enough tags.
int exchange_phases(const isa::Chip& chip);
void lower_stream_product(TileLoweringContext& context, const StreamProduct& op);
// contract_lowering.cpp
/// The precision letter of matrix instructions and bfn.
isa::Precision matrix_instruction_precision(MatrixPrecision precision);
/// One bfn: 4 operand LW `to` from the elements at `from` (4 LW, of floats for kHalf 8 consecutive ones).
void emit_normalize(MachineBuilder& builder, MatrixPrecision precision, StreamElement element,
                    isa::Operand from, isa::Operand to, const std::string& origin);
void lower_fill(TileLoweringContext& context, const FillTile& op);
void lower_product(TileLoweringContext& context, const ProductTile& op);
// map_lowering.cpp
void lower_map(TileLoweringContext& context, const MapTile& op);
void lower_reduce(TileLoweringContext& context, const ReduceTile& op);
void lower_gather(TileLoweringContext& context, const GatherTile& op);  // gather_lowering.cpp

// rows_lowering.cpp: images of rows.
void lower_load_rows(TileLoweringContext& context, const LoadRows& op);
void lower_window_product(TileLoweringContext& context, const WindowProduct& op);
void lower_reduce_windows(TileLoweringContext& context, const ReduceWindows& op);
void lower_normalize_rows(TileLoweringContext& context, const NormalizeRows& op);  // rows_normalize.cpp
void lower_finish_rows(TileLoweringContext& context, const FinishRows& op);
void lower_load_lanes(TileLoweringContext& context, const LoadLanes& op);      // rows_lanes.cpp
void lower_load_places(TileLoweringContext& context, const LoadPlaces& op);    // rows_lanes.cpp
void lower_finish_lanes(TileLoweringContext& context, const FinishLanes& op);  // rows_lanes.cpp
void lower_load_lines(TileLoweringContext& context, const LoadLines& op);      // rows_lines.cpp
void lower_reduce_lines(TileLoweringContext& context, const ReduceLines& op);  // rows_lines.cpp
void lower_load_columns(TileLoweringContext& context, const LoadColumns& op);  // columns_lowering.cpp
void lower_transpose_columns(TileLoweringContext& context,
                             const TransposeColumns& op);                          // columns_lowering.cpp
void lower_column_product(TileLoweringContext& context, const ColumnProduct& op);  // columns_lowering.cpp
void lower_add_columns(TileLoweringContext& context, const AddColumns& op);        // columns_lowering.cpp
void lower_sum_rows(TileLoweringContext& context, const SumRows& op);
void lower_sum_l2bs(TileLoweringContext& context, const SumL2bs& op);
void lower_store_rows(TileLoweringContext& context, const StoreRows& op);

/// What combines two values in a reduction.
ScalarOp combining_op(ReduceLayer::Op op);
/// scalar_lowering.cpp: emits `expr` for one vector (4 LW per PE: 8 floats). `inputs` are readable
/// operands for 4 cycles, long width. Returns the virtual value (8 words, stride 2) or operand that holds the
/// result; if `destination` is given the final operation writes there.
isa::Operand lower_scalar(MachineBuilder& builder, const ScalarExpr& expr,
                          const std::vector<isa::Operand>& inputs,
                          const std::optional<isa::Operand>& destination = std::nullopt);

/// The same of an expression that makes doubles: their upper and lower words.
void lower_double(MachineBuilder& builder, const ScalarExpr& expr, const std::vector<isa::Operand>& inputs,
                  const isa::Operand& high, const isa::Operand& low);

/// The whole tile program as a machine program, one region per program.
scheduler::MachineProgram lower_tile_program(const TileProgram& program, const isa::Chip& chip);

}  // namespace kodama::compiler
