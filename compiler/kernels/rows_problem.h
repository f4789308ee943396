#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "compiler/kernels/kernel.h"
#include "compiler/kernels/rows.h"
#include "compiler/kernels/rows_division.h"
#include "compiler/layers/layer_graph.h"
#include "isa/chip.h"

/// Products with a matrix that the host has, seen as windows of pictures: what "contract-rows" computes.
namespace kodama::compiler {

/// Channels that depend on each other alone: all of a layer, or of a grouped convolution as many groups as
/// fill whole chunks. The matrix of a section has zeros where inputs and outputs are of different groups.
///
/// Example, 128 -> 128 channels in 32 groups: sections of 8 groups, of 1 chunk in and 1 out, 4 of them.
struct RowsSections {
  int64_t count = 1;
  int64_t groups = 1;  ///< of a section; the last one may have fewer
  int64_t in_chunks = 0, out_chunks = 0;
};

/// Groups of channels: results of a group depend on the inputs of that group.
struct ChannelGroups {
  int64_t count = 1, in = 0, out = 0;  ///< channels of a group
  int dim = -1, in_dim = -1, out_dim = -1;
};
/// The least that are whole chunks, where no chunk has channels of two; else all are one.
RowsSections sections_of(const ChannelGroups& groups);

/// The layer as windows of one picture that make another.
struct RowsProblem {
  ContractLayer contract;     ///< groups of channels are merged: its dims have all channels
  bool weights_first = true;  ///< operand a is the matrix
  bool is_constant = true;  ///< the matrix; else it is what the host sends, or what a tie brings in its place
  ChannelGroups groups;
  RowsSections sections;
  /// A section's matrix, and so of all sections; dims behind the contract's tell groups.
  struct Matrix {
    TensorAccess access;
    Shape extents;
    std::vector<int> outs;  ///< dims of output channels
    /// Axes of dims of input channels; packed, they have the kernel's columns, too, of an axis alone or
    /// before the channels.
    std::vector<std::vector<int>> ins;
  };
  Matrix matrix;
  Picture in, out;
  RowsWindow window;
  int out_channel = -1;                    ///< dim
  std::array<int, 2> kernel_dims{-1, -1};  ///< dims; -1 = the kernel has one position there
  bool constants_stay = false;             ///< KernelOptions
  /// Of the epilogue's inputs: one value for a channel, or else what is read at every place of the result.
  std::vector<std::optional<TensorAccess>> of_rows;

  const TensorAccess& activation() const { return weights_first ? contract.b : contract.a; }
};

/// With the result as picture `number` of pictures_of. Nothing where the layer has another form.
std::optional<RowsProblem> rows_problem(const ContractLayer& contract, TensorId output,
                                        const LayerGraph& graph, size_t number);

/// The same over a packed picture of the operand (Picture::Packed), if it has few channels.
std::optional<RowsProblem> packed_problem(const RowsProblem& problem);

class RowsTotals;

/// What both ways to do it have in common (rows_kernel.cpp, rows_lanes_kernel.cpp): where the matrices and
/// values for channels are in the PEs is theirs, and what their programs do between loads and stores.
class RowsContraction {
 protected:
  RowsContraction(RowsProblem problem, const isa::Chip& chip, MatrixPrecision precision)
      : problem_(std::move(problem)), chip_(chip), precision_(precision), form_(matrix_form(precision)) {}

  bool has_epilogue() const { return problem_.contract.epilogue != ScalarExpr::identity(); }

  bool has_sections() const { return problem_.sections.count > 1; }
  /// Whether every L2B can have what its results depend on: all channels, or whole sections.
  bool can_take(RowsSplit in, RowsSplit out) const;
  /// Whether L2Bs may have input channels (rows_totals.h).
  bool can_sum() const;
  RowsTotals totals() const;
  /// What L2Bs have of that they have their own matrices of.
  static const RowsImage& matrix_split(const RowsDivision& s) { return s.out.is_everywhere() ? s.in : s.out; }
  /// Of the epilogue's inputs, those that are rows.
  int64_t all_row_inputs() const;
  /// Cycles of the transfers that add up parts of sums, tile by tile, which are beside the steps but for the
  /// last tile's; and of the epilogue on totals.
  int64_t sum_cycles(int64_t tile_rows, int64_t tiles, int64_t steps) const;
  int64_t finish_cycles() const;
  /// Places of the operand's chunks that a chunk of results depends on, of so many that an L1B or a pair has:
  /// with sections, as many as chunks.
  int64_t matrix_places(int64_t places_in) const {
    return has_sections() ? problem_.sections.in_chunks : places_in;
  }
  /// The first of those of chunk `chunk` of an L1B's or a pair's results.
  int64_t first_place(int64_t chunk) const {
    return has_sections() ? chunk / problem_.sections.out_chunks * problem_.sections.in_chunks : 0;
  }

  /// The rows under a pass' results, as many at a time as L2BM has room for. In a single pass, those outside
  /// the tensor for all L2Bs stay as the windows were filled.
  std::vector<RowsPiece> pieces(const RowsDivision& s, int64_t image, int64_t pass) const;
  /// The rows of a piece of a part of the operand for each L2B; zeros are at LW `zeros` of a stream.
  std::vector<RowsTransfer> input_transfers(const RowsDivision& s, size_t part, int64_t image, int64_t pass,
                                            const RowsPiece& piece, int64_t zeros, int zero_stream) const;

  /// Chunks that come together (LoadRows). `loaded`: those that do so one after the other, in their order, to
  /// all L1Bs. 1 where others would be alone in a stack, or of another section; for vectors of one chunk also
  /// where the last one of few would, as its second place costs products.
  int64_t window_stack(const std::vector<int64_t>& loaded) const;
  /// Places of windows that `chunks` chunks take.
  int64_t window_places(int64_t chunks, int64_t stack) const {
    return isa::ceil_div(chunks, stack) * stack_places(precision_, stack);
  }
  /// What comes together where L1Bs have all channels.
  std::vector<int64_t> loaded_chunks(const RowsDivision& s) const;
  /// Chunks of results, or sets of them, of which a matrix has eight rows each: of `chunks` that somebody
  /// makes, where `others` have others. 1 where they may be of two sections.
  int64_t result_stack(int64_t chunks, int64_t others) const;
  /// LW of a PE's matrices for a stack of results.
  int64_t matrices_lw(int64_t window_places) const {
    return window_places * problem_.window.kernel[0] * problem_.window.kernel[1] * form_.rows;
  }
  /// The compiler packs them as the matrix unit takes them.
  StreamElement matrix_element() const {
    return precision_ == MatrixPrecision::kHalf ? StreamElement::kHalf : StreamElement::kFloat;
  }
  /// Cycles of loading matrices of `count` LW in a PE once: constants come ahead.
  int64_t matrix_load_cycles(const layout::Transport& transport, int64_t count) const;
  /// Of `sets` sets of matrices whose loads take `cycles`: the cycles that fall away where they stay in the
  /// PEs as far as a layer whose windows have `windows_lw` LW of LM1 leaves room, and the LW that they take.
  std::pair<int64_t, int64_t> kept_matrices(int64_t cycles, int64_t sets, int64_t matrices_lw,
                                            bool all_matrices, int64_t windows_lw) const;
  /// Steps in which they are multiplied with so many vectors of four columns.
  int64_t product_steps(int64_t matrices_lw, int64_t vectors) const {
    return matrices_lw / form_.rows * form_.products * std::max(vectors, form_.write_steps);
  }
  /// Of a stream of matrices, the factors of `chunks` chunks of results in stacks of `stack` for which it has
  /// `lw` LW of buffers each.
  std::vector<layout::Factor> result_chunk_factors(int64_t chunks, int64_t stack, int64_t lw) const;
  /// Those of the problem's matrix.ins, of `l1bs` L1Bs with `chunks` chunks each.
  std::vector<std::vector<layout::Factor>> in_channel_factors(int64_t l1bs, int64_t chunks,
                                                              int64_t stack) const;

  struct Matrices {
    layout::Transport transport;
    int64_t lw = 0;                                ///< of a PE's buffers
    int64_t zeros_lw = 0;                          ///< behind them in the stream, for rows outside the tensor
    std::vector<layout::Factor> outs;              ///< of output channels, but for a block of eight
    std::vector<std::vector<layout::Factor>> ins;  ///< of the problem's matrix.ins
    std::vector<layout::Factor> copies;
  };
  /// Of what depends on output channels alone.
  struct Values {
    layout::Transport transport;
    int64_t count = 0;                 ///< LW of a PE
    std::vector<layout::Factor> outs;  ///< but for those inside a long word of every PE
    std::vector<layout::Factor> copies;
  };
  /// In the order contract a, contract b, epilogue inputs, output.
  std::vector<StreamPlacement> streams(const RowsDivision& s, RowsSplit out, const Matrices& matrices,
                                       const Values& values) const;

  /// Those of parts of sums: `matrices` without what tells L2Bs.
  std::vector<StreamPlacement> sum_streams(const RowsDivision& s, Matrices matrices) const;

  struct DraftSizes {
    int64_t values = 1;       ///< LW of those for channels
    int64_t sets = 1;         ///< of matrices
    int64_t matrices_lw = 0;  ///< of a set
    bool all_matrices = false;
    int64_t windows_lw = 0, sums_lw = 0, row_input_lw = 0;
    bool fills_windows = false;
    int64_t passes = 1;  ///< over all images
  };
  /// A program that has loaded what comes once.
  struct Draft {
    TileProgram program;
    int window_stream = 0, weight_stream = 0, first_input = 0, result_stream = 0;
    int matrices = -1, sums = -1;
    std::vector<int> windows;   ///< of passes, in turn
    bool has_matrices = false;  ///< all of them, once they are wanted
    std::vector<RowsInput> inputs;
    int64_t zeros = 0;  ///< where they are in the weights' stream
    int buffer(std::string buffer_name, int64_t lw, scheduler::HomeSet homes) {
      program.buffers.push_back({std::move(buffer_name), lw, homes});
      return static_cast<int>(program.buffers.size()) - 1;
    }
    template <typename Op>
    void add(Op op) {
      program.body.push_back({std::move(op)});
    }
  };
  /// A pass over the rows of an image, and the buffer of its windows.
  struct Pass {
    int64_t image = 0, number = 0;
    int windows = -1;
  };
  /// How a pass is made: tiles of its rows, and the pieces of the operand that come for them.
  struct PassTiles {
    RowsWindow window;
    int64_t rows = 1, tile_rows = 1;
    bool last_first = false;
    std::function<std::vector<RowsPiece>(const Pass&)> pieces;
  };
  /// The passes of a program, and of each the pieces that are still to come.
  class Passes {
   public:
    Passes(const Draft& draft, const RowsDivision& sizes, bool backwards, PassTiles tiles);
    const std::vector<Pass>& all() const { return all_; }
    /// Of every pass, the first rows of its tiles in their order.
    const std::vector<int64_t>& rows_of_tiles() const { return rows_of_tiles_; }
    /// Calls load(pass, piece) for what the tile of pass `number` from `row` on wants, and the tile behind
    /// it. With windows for two passes that may be the first of the next pass: its rows come beside these
    /// products.
    template <typename Load>
    void load_for(size_t number, int64_t row, Load&& load) {
      const auto load_of = [&](size_t pass, int64_t from) {
        while (left_.size() <= pass)
          left_.emplace_back(tiles_.pieces(all_[left_.size()]), tiles_.window, tiles_.rows, tiles_.tile_rows,
                             tiles_.last_first);
        left_[pass].load_for(from, [&](const RowsPiece& piece) { load(all_[pass], piece); });
      };
      load_of(number, row);
      const bool is_last = row == rows_of_tiles_.back();
      if (is_last && is_ahead_ && number + 1 < all_.size()) load_of(number + 1, rows_of_tiles_.front());
    }

   private:
    PassTiles tiles_;
    std::vector<int64_t> rows_of_tiles_;
    std::vector<Pass> all_;
    std::vector<PiecesInTurn> left_;  ///< by pass
    bool is_ahead_ = false;
  };
  Draft draft(const std::string& name, const std::vector<StreamPlacement>& placements,
              const std::vector<int64_t>& dram_addresses, size_t parts, const DraftSizes& sizes) const;
  /// What the epilogue reads is then read on totals.
  void size_for_totals(DraftSizes& sizes) const;
  /// The epilogue on totals, if there is one.
  void finish_sums(Draft& draft) const;
  /// Cycles that a layer's windows cost others: as constants that stay have words that no layer writes, the
  /// few layers with large windows decide how many those are.
  int64_t room_cycles(int64_t windows_lw) const;
  /// LW of windows that most layers don't reach: a third of a local memory.
  int64_t common_windows_lw() const;
  /// Where a set's matrices are in their buffer, to which they come now: all of them the first time, behind
  /// the first rows, so that products needn't wait for the last, or else the set's if not all have room.
  int64_t load_matrices(Draft& draft, int64_t set, const DraftSizes& sizes) const;

  RowsProblem problem_;
  isa::Chip chip_;
  MatrixPrecision precision_;
  const MatrixForm& form_;
};

/// All ways to compute it.
std::vector<RowsOption> rows_options(const RowsProblem& problem, const isa::Chip& chip,
                                     MatrixPrecision precision, const std::string& name);
/// Those in which pairs of L1Bs have lanes of columns (rows_lanes_kernel.cpp).
std::vector<RowsOption> lanes_options(const RowsProblem& problem, const isa::Chip& chip,
                                      MatrixPrecision precision, const std::string& name);

}  // namespace kodama::compiler
