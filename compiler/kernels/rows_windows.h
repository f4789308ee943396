#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "compiler/kernels/kernel.h"
#include "compiler/kernels/rows.h"
#include "compiler/kernels/rows_division.h"
#include "compiler/layers/layer_graph.h"
#include "isa/chip.h"

/// Kernels that compute with floats on images of rows, channel by channel: pooling, convolutions of single
/// channels, maps. A window's rows and columns come as they do for a product, but as floats: every quad takes
/// eight channels of a chunk, its MABs the same. Channels stay where they are, so that operand and result are
/// split alike.
namespace kodama::compiler {

/// result[channel] at a place = epilogue(op over the window there of expr(values, weight, number, inputs),
/// inputs).
struct WindowsProblem {
  Picture in, out;
  RowsWindow window;
  std::vector<Picture> others = {};  ///< whose windows are read with those of `in`, and which lie as it does
  std::vector<std::string> other_names = {};
  /// A word for every position of the kernel, by rows, which `expr` has as a constant. With phases there are
  /// as many for each of them.
  struct Numbers {
    std::string name;
    TensorAccess access;
    Shape extents;  ///< that it is over
    ScalarKind kind = ScalarKind::kFloat;
    std::vector<uint32_t> words;
  };
  std::optional<Numbers> numbers = std::nullopt;
  /// Results of a place: rows and columns of them, one for each *phase*, whose numbers differ. Windows, `out`
  /// and what divides the work know places, the image that is made has all results (`made`).
  ///
  /// Example, windows of 2 x 2 places of [1, 64, 56, 56] with phases of 2 x 2: [1, 64, 56, 2, 56, 2], which
  /// has the elements of [1, 64, 112, 112] in their order.
  std::array<int64_t, 2> phases{1, 1};
  std::optional<Picture> made = std::nullopt;
  std::string operand_name = "x0";
  double fill = 0;          ///< of columns outside
  bool has_rows = false;    ///< for what is outside; else rows there are copies of those next to them
  bool whole_rows = false;  ///< one result for a window of all columns
  ReduceLayer::Op op = ReduceLayer::Op::kSum;
  ScalarExpr expr = ScalarExpr::identity();
  ScalarExpr epilogue = ScalarExpr::identity();
  /// If any: results are what these make of every column's channels (NormalizeRows), of the operand and the
  /// inputs, instead; the window is a single place.
  std::vector<NormalizeLayer::Step> steps = {};

  // Other operands, over an iteration space.
  struct Input {
    std::string name;
    TensorAccess access;
    bool of_rows = false;   ///< a picture like the result, else one value for a channel
    bool by_place = false;  ///< of_rows: `access` says for every place of the result what is read there
  };
  Shape extents = {};
  int channel_dim = -1;
  bool constants_stay = false;  ///< KernelOptions
  bool has_weights = false;     ///< the first of the inputs: for a channel and a position of the kernel
  std::array<int, 2> kernel_dims{-1, -1};  ///< -1: one position
  std::vector<Input> inputs = {};
  /// If any, rows outside are this one (fill_rows.h); else zeros behind the weights, where `has_rows`.
  std::optional<TensorAccess> zeros = std::nullopt;
  std::string zeros_name = {};
};

/// That of a layer; nothing where it has another form.
std::optional<WindowsProblem> pool_problem(const ReduceLayer& reduce, TensorId output,
                                           const LayerGraph& graph);
std::optional<WindowsProblem> depthwise_problem(const ContractLayer& contract, TensorId output,
                                                const LayerGraph& graph);

/// What all ways to compute it share.
class WindowsKernel {
 protected:
  WindowsKernel(WindowsProblem problem, const isa::Chip& chip) : problem_(std::move(problem)), chip_(chip) {}

  /// Windows that are read together.
  int64_t operand_count() const { return 1 + std::ssize(problem_.others); }
  int64_t phase_count() const { return problem_.phases[0] * problem_.phases[1]; }
  /// The image of all results.
  RowsImage made(const RowsDivision& s) const;
  /// Whether L2Bs have the results of their own places.
  bool has_own_phases(const RowsDivision& s) const {
    return made(s).rows() == problem_.phases[0] * s.out.rows();
  }
  /// What stores `count` of an L2B's own rows (RowsDivision::own_rows), with all their phases.
  std::vector<RowsTransfer> own_results(const RowsDivision& s, int64_t image, int64_t pass, int64_t l2bm,
                                        int64_t first, int64_t count) const;
  PositionNumbers position_numbers() const;
  /// Parts that L2Bs have channels of don't make a whole that is split that way, and only rows are dealt.
  bool can_split(RowsSplit split) const {
    const bool is_dealt = problem_.out.tokens && problem_.out.tokens->dealt;
    return split == RowsSplit{} || (problem_.in.parts.empty() && !is_dealt);
  }
  bool is_weights(size_t input) const { return problem_.has_weights && input == 0; }
  /// Positions of the kernel that an input has values for.
  int64_t positions(size_t input) const;
  int64_t row_inputs() const;
  /// What the operand's parts and the others are, and what the result is.
  std::vector<StreamPlacement> operands(const RowsDivision& s) const;
  StreamPlacement result(const RowsDivision& s) const;
  StreamPlacement rows_placement(size_t input, RowsSplit split) const;
  /// That of the numbers, which nobody reads.
  StreamPlacement numbers_placement(const layout::Transport& transport) const;
  /// Adds that of the problem's zeros, if it has any, for transfers of `lw` LW, and that of its numbers.
  void add_constants(std::vector<StreamPlacement>& list, int64_t lw) const;
  /// Values of channels, `lw` LW in a PE; those of one position are `position_lw` apart. Behind weights come
  /// `zeros_lw` zeros, for rows outside the tensor.
  struct Values {
    layout::Transport transport;
    int64_t lw = 0, position_lw = 1, zeros_lw = 0;
    std::vector<layout::Factor> channels = {}, copies = {};
  };
  StreamPlacement values_placement(size_t input, const Values& values) const;
  /// What brings the rows of a piece to L2BM. Zeros are behind `weights_lw` LW of weights by way of
  /// `weights`.
  std::vector<RowsTransfer> piece_transfers(const RowsDivision& s, size_t part, int64_t image, int64_t pass,
                                            const RowsPiece& piece, const layout::Transport& weights,
                                            int64_t weights_lw, bool own_channels) const;
  /// A program with its streams and buffers, in which values of channels are loaded. `sizes(k)`: LW of input
  /// k in a PE.
  struct Draft {
    TileProgram program = {};
    int windows = -1;
    std::vector<int> others = {};  ///< windows of the problem's others
    std::vector<RowsInput> inputs = {};
    template <typename Op>
    void add(Op op) {
      program.body.push_back({std::move(op)});
    }
  };
  Draft draft(const std::string& name, const std::vector<StreamPlacement>& placements,
              const std::vector<int64_t>& dram_addresses, int64_t windows_lw,
              const std::function<int64_t(size_t)>& input_lw) const;
  /// Streams of the inputs begin behind the operand's parts and the others.
  int input_stream(const RowsDivision& s, size_t k) const {
    return static_cast<int>(s.parts.size() + problem_.others.size() + k);
  }
  /// Operations for all results of a place, of whose windows `elements` elements each are taken.
  int64_t place_operations(int64_t elements) const;

  WindowsProblem problem_;
  isa::Chip chip_;
};

/// Where pairs of L1Bs have lanes, and lanes of results are over those of the operand: LaneLines. The fastest
/// for every split.
std::vector<RowsOption> window_lanes_options(const WindowsProblem& problem, const isa::Chip& chip,
                                             const std::string& name);

/// An operand of the epilogue over the problem's iteration space, in which `result` says what is made;
/// nothing where it is neither a picture like the result nor one value for a channel. Where the space is that
/// of the result, any access is an image of its own.
std::optional<WindowsProblem::Input> windows_input(std::string name, const TensorAccess& access,
                                                   const WindowsProblem& problem, const AffineMap& result,
                                                   const LayerGraph& graph);

/// Candidates for every way to split operand and result, and for reading a concatenation by parts.
std::vector<Candidate> windows_candidates(const WindowsProblem& problem, const std::string& name,
                                          const LayerGraph& graph, const isa::Chip& chip);

}  // namespace kodama::compiler
