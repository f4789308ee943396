#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "compiler/layers/layer_graph.h"
#include "compiler/layers/scalar_expr.h"
#include "isa/chip.h"
#include "layout/transport.h"
#include "scheduler/machine_program.h"

/// The tile program (l2): a loop nest of tile operations on named buffers, the same in every PE.
///
/// Data comes from and goes to *streams*: per PE a sequence of long words in DRAM, reached over one
/// transport (layout/transport.h). Buffers are ranges of PE memory that hold tiles of streams and
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

/// buffer[at ...) = stream[from ... from + count)
struct LoadTile {
  int stream = -1;
  TileIndex from;
  int buffer = -1;
  TileIndex at;
  int64_t count = 0;
};
/// stream[to ...) = buffer[at ...)
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
/// In place: floats to the block floats of `precision`, blocks over the MAB's four PEs as the matrix
/// unit wants them. For kHalf the 2LW of four floats becomes one LW of four halves in its first half.
struct NormalizeTile {
  int buffer = -1;
  TileIndex at;
  int64_t count = 0;
  MatrixPrecision precision = MatrixPrecision::kGFloat;
};
/// c += A * B on the matrix unit with operands that NormalizeTile made. Sizes in matrix blocks of the
/// precision (rows R x inner J: gfloat 8x8, float 8x4, half 16x16), `c_lw` = LW of a result vector
/// (gfloat, float 1; half 2), units of a and b in stored LW as the precision's operand form has them.
struct ProductTile {
  MatrixPrecision precision = MatrixPrecision::kGFloat;
  int a = -1, b = -1, c = -1;
  TileIndex a_at, b_at, c_at;
  int64_t row_blocks = 0;    ///< blocks of R rows of A
  int64_t inner_blocks = 0;  ///< blocks of J
  int64_t columns = 0;       ///< vectors of B, a multiple of 4
};
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
  std::variant<LoadTile, StoreTile, FillTile, NormalizeTile, ProductTile, MapTile, ReduceTile, TileLoop> kind;
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
