#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "compiler/layers/layer_graph.h"
#include "compiler/layers/scalar_expr.h"
#include "isa/chip.h"
#include "layout/algebra/transport.h"
#include "scheduler/machine/machine_program.h"

/// The tile program (l2): a loop nest of tile operations on named buffers, the same in every PE.
///
/// Data comes from and goes to *streams*: per PE a sequence of long words in DRAM, reached over one
/// transport (layout/algebra/transport.h). Buffers are ranges of PE memory that hold tiles of streams and
/// intermediate results. All sizes are LW per PE, a multiple of 4 (one step moves or computes 4).
///
/// Example, relu over a stream of 96 LW per PE in tiles of 32:
///
///     buffers  x: 32 @LM0   y: 32 @LM1
///     Loop 3 (i) { Load x <- in[32 i .. +32];  Map y = relu(x);  Store out[32 i .. +32] <- y }
namespace kodama::compiler {

/// Block-float form of matrix products (`--precision`).
enum class MatrixPrecision : uint8_t { kGFloat, kFloat, kHalf };
std::string matrix_precision_name(MatrixPrecision precision);     ///< "gfloat", …
MatrixPrecision parse_matrix_precision(const std::string& name);  ///< UserError lists the names

struct TileBuffer {
  std::string name;
  int64_t size_lw = 0;
  scheduler::HomeSet homes = 0;
};

/// A position in a stream or buffer: base + sum(strides[d] * counter of the d-th enclosing TileLoop).
struct TileIndex {
  int64_t base = 0;
  std::vector<int64_t> strides;
};

struct TileStream {
  std::string name;
  layout::Transport transport;
  int64_t length_lw = 0;     ///< stream numbers per PE
  int64_t dram_address = 0;  ///< LW, the same in every group
};

/// buffer[at ...) = stream[from ... from + count). `from` is a multiple of the transport's granule.
///
/// With `normalize` the floats become block floats of that precision on the way, blocks over the MAB's four
/// PEs as the matrix unit wants them. For kHalf two stream LW (four floats) become one LW of four halves in
/// the buffer, so that the range there is count / 2 LW and count is a multiple of 8.
struct LoadTile {
  int stream = -1;
  TileIndex from;
  int buffer = -1;
  TileIndex at;
  int64_t count = 0;
  std::optional<MatrixPrecision> normalize = std::nullopt;
};
/// stream[to ...) = buffer[at ...). `to` is a multiple of the transport's granule; where `count` is not, the
/// rest of the last granule in the stream becomes undefined.
struct StoreTile {
  int buffer = -1;
  TileIndex at;
  int stream = -1;
  TileIndex to;
  int64_t count = 0;
};
/// Every float of the range = value.
struct FillTile {
  int buffer = -1;
  TileIndex at;
  int64_t count = 0;
  float value = 0;
};
/// c += A * B on the matrix unit with operands that LoadTile normalized. An operand's LW holds, over the
/// MAB's four PEs, `inner_per_lw` values of the inner dimension (see MatrixForm):
///
///     a  [row_blocks][inner_lw][R rows]                LW
///     b  [inner_lw][columns]                           LW
///     c  [row_blocks][columns][result_lw]              LW: R sums over the four PEs
struct ProductTile {
  MatrixPrecision precision = MatrixPrecision::kGFloat;
  int a = -1, b = -1, c = -1;
  TileIndex a_at, b_at, c_at;
  int64_t row_blocks = 0;  ///< blocks of R rows of A
  int64_t inner_lw = 0;    ///< LW of the inner dimension
  int64_t columns = 0;     ///< vectors of B, a multiple of 4
};
/// Shapes of the matrix unit's operands and results in a precision, and where elements are in them.
struct MatrixForm {
  int64_t rows = 0;          ///< R: rows of a block, sums of a result
  int64_t inner_per_lw = 0;  ///< values of the inner dimension in one LW over four PEs
  int64_t stream_lw = 1;     ///< LW of floats in a stream that make one operand LW
  int64_t result_lw = 1;     ///< LW of a result vector
  int64_t products = 1;      ///< matrix operations per operand LW (float has one per word)
  int64_t write_steps = 0;   ///< mwrite steps of one matrix block
  /// Factors (PE, address, word; most significant first) of an index 0 .. inner_per_lw - 1 of the inner
  /// dimension in stream LW, and of a row 0 .. rows - 1 in a result.
  std::vector<layout::Factor> inner_factors, row_factors;
};
const MatrixForm& matrix_form(MatrixPrecision precision);
/// out[i] = expr(inputs[k][i]) for every LW (two floats) of the range.
struct MapTile {
  ScalarExpr expr;
  struct Input {
    int buffer = -1;
    TileIndex at;
  };
  std::vector<Input> inputs;
  int out = -1;
  TileIndex out_at;
  int64_t count = 0;
};
/// accumulator[i] = op(accumulator[i], expr(inputs at r * count + i)) for r = 0 .. repeats - 1.
struct ReduceTile {
  ReduceLayer::Op op = ReduceLayer::Op::kSum;
  ScalarExpr expr;
  std::vector<MapTile::Input> inputs;
  int accumulator = -1;
  TileIndex accumulator_at;
  int64_t count = 0;  ///< LW of the accumulator range
  int64_t repeats = 0;
};

struct TileNode;
struct TileLoop {
  std::string name;
  int64_t count = 0;
  std::vector<TileNode> body;
};
struct TileNode {
  std::variant<LoadTile, StoreTile, FillTile, ProductTile, MapTile, ReduceTile, TileLoop> kind;
};

struct TileProgram {
  std::string name;
  std::vector<TileBuffer> buffers;
  std::vector<TileStream> streams;
  std::vector<TileNode> body;
};

/// Readable text for --dump-after.
std::string to_string(const TileProgram& program);
/// Ranges inside buffers and streams, alignment, indices; InternalError naming the layer otherwise.
void verify_tile_program(const TileProgram& program, const isa::Chip& chip);

}  // namespace kodama::compiler
