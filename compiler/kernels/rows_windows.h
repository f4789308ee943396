#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "compiler/kernels/kernel.h"
#include "compiler/kernels/rows.h"
#include "compiler/layers/layer_graph.h"
#include "isa/chip.h"

/// Kernels that compute with floats on images of rows, channel by channel: pooling, convolutions of single
/// channels, maps. A window's rows and columns come as they do for a product, but as floats: every quad takes
/// eight channels of a chunk, its MABs the same. Channels stay where they are, so that operand and result are
/// split alike.
namespace kodama::compiler {

/// result[channel] at a place = epilogue(op over the window there of expr(value, weight), inputs).
struct WindowsProblem {
  Picture in, out;
  RowsWindow window;
  std::string operand_name = "x0";
  double fill = 0;          ///< of columns outside
  bool zero_rows = false;   ///< rows outside are zeros; else copies of those next to them
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
  bool has_weights = false;  ///< the first of the inputs: for a channel and a position of the kernel
  std::array<int, 2> kernel_dims{-1, -1};  ///< -1: one position
  std::vector<Input> inputs = {};
};

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
