#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "compiler/layers/layer_graph.h"
#include "compiler/layers/scalar_expr.h"
#include "compiler/streams/element_forms.h"
#include "isa/arithmetic.h"
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

struct TileBuffer {
  std::string name;
  int64_t size_lw = 0;
  scheduler::HomeSet homes = 0;
  /// LW of `memory`, LM0 or LM1, where it is, in this program and others: somebody else may fill it or read
  /// it. -1: the program's own, wherever there is room.
  int64_t address_lw = -1;
  isa::Space memory = isa::Space::kLm0;
};

/// A position in a stream or buffer: base + sum(strides[d] * counter of the d-th enclosing TileLoop).
struct TileIndex {
  int64_t base = 0;
  std::vector<int64_t> strides;
  bool operator==(const TileIndex&) const = default;
};

struct TileStream {
  std::string name;
  layout::Transport transport;
  int64_t length_lw = 0;     ///< stream numbers per PE
  int64_t dram_address = 0;  ///< LW, the same in every group
};

/// buffer[at ...) = stream[from ... from + count). `from` is a multiple of the transport's granule.
///
/// With `normalize` the elements become block floats of that precision on the way, blocks over the MAB's four
/// PEs as the matrix unit wants them. For kHalf two stream LW of floats become one LW of four halves in
/// the buffer, so that the range there is count / 2 LW and count is a multiple of 8.
struct LoadTile {
  int stream = -1;
  TileIndex from;
  int buffer = -1;
  TileIndex at;
  int64_t count = 0;
  std::optional<MatrixPrecision> normalize = std::nullopt;
  /// A load that has nothing to do with the operations around it: it comes at once, by L2BM from this address
  /// on, and they need not wait for it.
  std::optional<int64_t> beside_at = std::nullopt;
  StreamElement element = StreamElement::kFloat;  ///< of the stream
  int64_t stream_lw() const;                      ///< LW of the stream that make one of the buffer
  bool operator==(const LoadTile&) const = default;
};
/// stream[to ...) = buffer[at ...). `to` is a multiple of the transport's granule; where `count` is not, the
/// rest of the last granule in the stream becomes undefined.
struct StoreTile {
  int buffer = -1;
  TileIndex at;
  int stream = -1;
  TileIndex to;
  int64_t count = 0;
  bool operator==(const StoreTile&) const = default;
};
/// Every word of the range = these bits.
struct FillTile {
  int buffer = -1;
  TileIndex at;
  int64_t count = 0;
  uint32_t bits = 0;
  bool operator==(const FillTile&) const = default;
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
  bool operator==(const ProductTile&) const = default;
};
/// c = A * B (see ProductTile) over `pieces` pieces of the inner dimension one after the other, whose
/// operands come from streams: while a piece is multiplied, the next is on its way to the PEs, and those
/// behind it to L2BM. A piece of A goes to the matrix registers at once, pieces of B to LM0 and LM1 in turn.
///
/// Sums that the register files have no room for are worked on in `parts` of as many row blocks each, in
/// turns of two pieces (one in either local memory). Those that have no turn are parked in a local memory:
/// the first product of a turn takes them from there, its last one puts them there. Both go to the memory
/// whose vectors aren't multiplied at that time; so a part takes every second pair of pieces in reverse
/// order. So do every second of the parts, so that in the end each local memory has half of the sums.
///
/// What comes at a time, a *share*: of A a piece's matrices of a part, of B a `parts`-th of a piece.
///
///     a  [pieces][parts][row_blocks][inner_lw][R rows]
///     b  [pieces][inner_lw][columns]
///     c  [parts][row_blocks][columns], as results [2][parts / 2][row_blocks][columns]: part 2 i + j at
///     [j][i]
///
/// `store`: results of an earlier product are stored meanwhile.
struct StreamProduct {
  static constexpr int64_t kSharesInL2bm = 4;
  /// Pieces after which everything is where it was.
  static constexpr int64_t kRound = 4;
  struct Source {
    int stream = -1;
    TileIndex from;
    int64_t pitch = 0;  ///< stream numbers from one share to the next
    StreamElement element = StreamElement::kFloat;
    bool operator==(const Source&) const = default;
  };
  struct Results {
    std::array<int, 2> buffers{-1, -1};  ///< as `result`
    int stream = -1;
    TileIndex to;
    int64_t count = 0, chunk = 0;  ///< LW of a buffer, and how many of them at a time
    int64_t chunks_per_round = 1;  ///< of each buffer, as many in every round that has some
    int64_t rounds() const { return count / (chunk * chunks_per_round); }
    bool operator==(const Results&) const = default;
  };
  MatrixPrecision precision = MatrixPrecision::kGFloat;
  Source a, b;
  std::array<int, 2> b_buffers{-1, -1};  ///< in LM0 and in LM1: a piece each, or two where there are parts
  /// Sums of a part: of the first row blocks, and of as many or fewer others; -1 where there are no others.
  std::array<int, 2> c{-1, -1};
  std::array<int, 2> parked{-1, -1};  ///< in LM0 and in LM1: sums of all parts; -1 where there is one part
  /// All sums in the end: of even parts in result_memory(0), of odd ones in the other; -1: they are in c.
  std::array<int, 2> result{-1, -1};
  int64_t pieces = 0;  ///< even where there are several parts, which are then even in number
  int64_t parts = 1, row_blocks = 0, inner_lw = 0, columns = 0;
  std::optional<Results> store = std::nullopt;

  int64_t first_blocks() const { return c[1] < 0 ? row_blocks : (row_blocks + 1) / 2; }  ///< in c[0]
  int64_t a_lw() const;  ///< of a share in its stream
  int64_t b_lw() const;  ///< of a share in its stream
  int64_t c_lw() const;
  int64_t shares() const { return pieces * parts; }
  /// Shares of B that are in the PEs before the first product.
  int64_t first_shares() const { return parts == 1 ? 1 : 2 * parts; }
  /// LW of result[0], and of result[1] where there are parts.
  int64_t result_lw() const { return parts == 1 ? c_lw() : c_lw() / 2; }
  /// Of result[number]: the last vectors are in the other one.
  static isa::Space result_memory(int64_t pieces, int64_t parts, int number) {
    const bool in_lm0 = parts == 1 ? pieces % 2 == 0 : (pieces / 2 + number) % 2 == 1;
    return in_lm0 ? isa::Space::kLm0 : isa::Space::kLm1;
  }
  /// Chunks of a buffer that a round may have: uses of a round whose vectors are in the other local memory.
  static int64_t most_chunks(int64_t parts) { return kRound / 2 * parts; }
  /// Rounds in which results of an earlier product may be stored.
  static int64_t store_rounds(int64_t pieces, int64_t parts) {
    const int64_t ahead = (parts == 1 ? 1 : 2 * parts) + kSharesInL2bm - 1;
    return std::max<int64_t>((pieces * parts - ahead) / (kRound * parts), 0);
  }
  bool operator==(const StreamProduct&) const = default;
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
  int64_t stream_lw_of(StreamElement element) const {
    return element == StreamElement::kHalf ? 1 : stream_lw;
  }
  std::vector<layout::Factor> inner_factors_of(StreamElement element) const;
};
const MatrixForm& matrix_form(MatrixPrecision precision);
/// Chunks of an image of rows whose blocks a step may bring together (LoadRows).
inline constexpr int64_t kMostStacked = 2;
/// Operand LW of a column of a stack of `stack` chunks.
inline int64_t stack_places(MatrixPrecision precision, int64_t stack) {
  return isa::ceil_div(stack, matrix_form(precision).stream_lw);
}
/// out[i] = expr(inputs[k][i]) for every LW (two floats) of the range; of a single input, expr(inputs[k][0]).
struct MapTile {
  ScalarExpr expr;
  struct Input {
    int buffer = -1;
    TileIndex at;
    bool is_single = false;
    bool operator==(const Input&) const = default;
  };
  std::vector<Input> inputs;
  int out = -1;
  TileIndex out_at;
  int64_t count = 0;
  bool operator==(const MapTile&) const = default;
};
/// accumulator[i] = op(accumulator[i], expr(inputs at r and i)) for r = 0 .. repeats - 1.
struct ReduceTile {
  /// Which LW of its buffer an input has at (r, i).
  enum class Order : uint8_t {
    kEach,    ///< r * count + i
    kHeld,    ///< i
    kShared,  ///< r; its words are alike
  };
  struct Input {
    int buffer = -1;
    TileIndex at;
    Order order = Order::kEach;
    bool operator==(const Input&) const = default;
  };
  ReduceLayer::Op op = ReduceLayer::Op::kSum;
  ScalarExpr expr;
  std::vector<Input> inputs;
  int accumulator = -1;
  TileIndex accumulator_at;
  /// Of doubles, the buffer of their lower words; `accumulator` has the upper ones. Else -1.
  int low_accumulator = -1;
  int64_t count = 0;  ///< LW of the accumulator range
  int64_t repeats = 0;
  bool operator==(const ReduceTile&) const = default;
};
/// out[t][i] = what table t has at the place index[i], for `tables` tables and `count` LW of the index.
/// Places are numbers from 0 to places - 1; whatever else the index has, taken without a sign, stands for
/// place `places`, which the tables have, too.
struct GatherTile {
  enum class Form : uint8_t {
    kPairs,  ///< a place is a LW; the words of a LW of the index are alike
    kOwn,    ///< a place is a LW; each of its words is found by its own word of the index
    kWords,  ///< a place is a word
  };
  Form form = Form::kPairs;
  int table = -1;  ///< in LM0
  TileIndex table_at;
  int64_t tables = 1, table_lw = 0;  ///< and LW from one table to the next
  int64_t places = 1;
  int index = -1;
  TileIndex index_at;
  int out = -1;
  TileIndex out_at;
  int64_t count = 0;
  /// LW that the places of a table take, with the last.
  static int64_t places_lw(Form form, int64_t places) {
    return form == Form::kWords ? isa::ceil_div(places + 1, int64_t{isa::kWordsPerLong}) : places + 1;
  }
  bool operator==(const GatherTile&) const = default;
};
inline constexpr std::array<const char*, 3> kGatherFormNames = {"pairs", "pairs of their own", "words"};

// Rows of images: convolutions whose operands are windows (compiler/kernels/rows_kernel.cpp). An image of
// rows has per L2B, in DRAM as in L2BM, whole rows of a tensor, each in the order of RowOrder. Lock step
// gives all L2Bs the same addresses in L2BM; which rows stand there is the transfers' matter.

inline constexpr int64_t kBlocksPerChunk = 4;
/// LW of one column of a chunk: [4 blocks][4 PEs], LW of two channels; a chunk is 32 channels.
inline constexpr int64_t kColumnLw = kBlocksPerChunk * isa::kPePerMab;
/// Four columns of a chunk: a vector of the matrix unit, and what L2BM and L1BM exchange in a step.
inline constexpr int64_t kUnitLw = isa::kCyclesPerStep * kColumnLw;

/// Where channels and columns of a row are. A row's columns are cut into four *lanes* of `groups` columns
/// each, and *unit* (chunk, group) has that column of every lane, so that the pairs of an L2B's L1Bs can take
/// a lane each at the full rate of L2BM (l2bmb2). An even number of chunks stand in pairs, so that L1Bs that
/// have half of every chunk can bring it there at that rate, too (l2bmd):
///
///     row  [chunks / 2][groups][2 chunks][4 lanes][4 blocks][4 PEs]     or, where they are odd in number,
///     row  [chunks][groups][4 lanes][4 blocks][4 PEs]
///
/// Example: 56 columns of 64 channels are 14 groups of 2 chunks; column 15 of channel 33 is in unit (1, 1),
/// lane 1: LW 3 * 64 + 16 of the row.
struct RowOrder {
  int64_t groups = 1;
  int64_t chunks = 1;

  /// Chunks side by side.
  int64_t width() const { return chunks % 2 == 0 ? 2 : 1; }
  /// LW of a row before a unit.
  int64_t at(int64_t chunk, int64_t group) const {
    return ((chunk / width() * groups + group) * width() + chunk % width()) * kUnitLw;
  }
  int64_t lw() const { return chunks * groups * kUnitLw; }
  /// Whether any `count` chunks, from a multiple of `count` on, are in one piece or unit by unit.
  bool can_share(int64_t count) const { return groups == 1 || count == 1 || count % width() == 0; }
  /// Whether they are in one piece.
  bool is_dense(int64_t count) const { return groups == 1 || count == chunks || count % width() == 0; }
  bool operator==(const RowOrder&) const = default;
};

/// A contiguous part of a stream's DRAM to or from the L2BM of one L2B (-1: each its own part).
struct RowsTransfer {
  int stream = -1;      ///< -1: that of the operation
  int group = -1;       ///< of DRAM; -1: every L2B its own part of its group's
  int64_t dram = 0;     ///< LW from the stream's base address on
  int l2b = -1;         ///< over the chip
  bool to_all = false;  ///< by all L2Bs at once, a load or what they have adds up; `l2b` is any
  int64_t l2bm = 0;     ///< LW of L2BM
  int64_t count = 0;    ///< LW, a multiple of an MV's unit
  bool operator==(const RowsTransfer&) const = default;
};
/// LW of a buffer of rows that are spread (RowsForm::kSpread): a vector reads four rows, of four chunks each.
inline int64_t spread_buffer_lw(int64_t rows, int64_t chunks) {
  return isa::round_up(rows, isa::kCyclesPerStep) * isa::round_up(chunks, isa::kCyclesPerStep);
}
/// What columns of an image's rows become in the PEs. Columns are counted over all rows of the buffer, which
/// have four each where they become matrices; N = columns / 32, rounded up.
enum class RowsForm : uint8_t {
  kVectors,        ///< [chunk][row][pitch columns]
  kMatrixRows,     ///< [N][chunks][8]: columns 8 q to 8 q + 7 of 32 are the rows of the matrices of quad q
  kMatrixColumns,  ///< [chunk][N][8]: columns 8 k to 8 k + 7 of 32 are those of the matrices of MABs k of
                   ///< quads, their rows are channels
  kSpread,         ///< [row][chunk, a multiple of 4 of them]: floats, MAB m has block m % 4 of column m / 4
};
/// buffer[chunk][row][pitch columns] = rows of an image, through L2BM and L1BM. L1B b takes `rows` rows whose
/// first begins l1b_at[b] LW behind `l2bm`: other rows or chunks; without l1b_at all take the same.
/// L2BM has `parts` parts one after the other, each `part_lw` LW, whose rows are in `order`, and of which
/// `chunks` chunks are taken. With `normalize` they become block floats, a part's chunks in *stacks* of
/// `stack`: the MABs of a quad share the channels, and add up later. Of a chunk by itself, MAB m takes block
/// m % 4. Of two, two blocks: 0 and 1 of the first, 2 and 3 of it, 0 and 1 of the second, 2 and 3, as l1bmm
/// brings twice as much where each MAB takes two LW in a row. At half precision they are one vector, else
/// two, for which the buffer has a *place* each (stack_places), as a chunk's by itself. Without `normalize` a
/// MAB takes block m / 4 as floats, and a chunk is a place. What is behind the last of `columns` columns
/// isn't written.
struct LoadRows {
  int stream = -1;
  std::vector<RowsTransfer> transfers;
  int64_t l2bm = 0;  ///< where the first part begins
  int64_t parts = 1, part_lw = 0;
  RowOrder order = {};
  int64_t chunks = 1, columns = isa::kCyclesPerStep;
  int64_t rows = 1;
  std::vector<int64_t> l1b_at = {};
  int buffer = -1;
  int64_t first_chunk = 0;                 ///< place of the buffer
  int64_t first_row = 0, buffer_rows = 1;  ///< where the rows are among those of the buffer
  int64_t pitch = 0, first_column = 0;     ///< columns of a row of the buffer, and where column 0 is in it
  std::optional<MatrixPrecision> normalize = std::nullopt;
  RowsForm form = RowsForm::kVectors;
  // With `normalize`:
  int64_t stack = 1;                            ///< chunks, kMostStacked at most
  int64_t last_channels = kBlocksPerChunk * 8;  ///< of the last chunk; the others become 0
  int64_t last_columns = isa::kCyclesPerStep;   ///< of the last row of kMatrixColumns; the others become 0
  /// Of the buffer, for a stack, and for a part.
  int64_t places() const { return normalize ? stack_places(*normalize, stack) : 1; }
  int64_t part_places() const { return isa::ceil_div(chunks, stack) * places(); }
  bool operator==(const LoadRows&) const = default;
};
/// sums[row][vector] = matrices * windows: for every place of chunks and position of the kernel one matrix of
/// `matrices` [place][kernel rows][kernel columns][R rows], whose vectors are the columns of the window
/// there. A row of results has a vector for each of `starts`: that column, and three more, `step` columns
/// from one to the next.
struct WindowProduct {
  MatrixPrecision precision = MatrixPrecision::kGFloat;
  int matrices = -1;
  TileIndex matrices_at;
  int windows = -1;         ///< buffer of a LoadRows with `normalize`
  int64_t first_place = 0;  ///< of the windows
  int64_t places = 1, window_rows = 0, pitch = 0;
  std::array<int64_t, 2> kernel{1, 1}, dilation{1, 1}, stride{1, 1};
  int sums = -1;
  int64_t first_row = 0;  ///< of the results that the windows have
  int64_t rows = 1;
  std::vector<int64_t> starts = {0};
  int64_t step = 1;
  int64_t first_column = 0;  ///< of the windows, in a row
  bool operator==(const WindowProduct&) const = default;
};
/// An input of an epilogue: LW [chunk][row][column] (`of_rows`), 4 x groups columns, or one LW for a chunk,
/// from `at` of a buffer on.
struct RowsInput {
  int buffer = -1;
  bool of_rows = false;
  int64_t at = 0;  ///< other than 0 of rows alone
  bool operator==(const RowsInput&) const = default;
};
/// Where results stay in the PEs besides, as an input of rows would have them (keep_results.h).
struct KeptRows {
  int buffer = -1;  ///< -1: nowhere
  int64_t at = 0;   ///< LW of the buffer
  bool operator==(const KeptRows&) const = default;
};
/// A word for every position of a window, and for each of the *phases* of a result: with these, row r and
/// column c stand for rows and columns phases * (r, c) and behind, which differ in their numbers alone.
struct PositionNumbers {
  ScalarKind kind = ScalarKind::kFloat;
  std::vector<uint32_t> words = {};  ///< [phases][positions], by rows; none: expressions have no number
  std::array<int64_t, 2> phases{1, 1};
  int64_t phase_count() const { return phases[0] * phases[1]; }
  bool operator==(const PositionNumbers&) const = default;
};
/// staged row[chunk][column] = epilogue(op over the window there of expr(windows[chunk][row][pitch], that of
/// every one of `others`, weights[chunk][position], number[position], inputs), inputs): in L1BM, as
/// FinishRows. With `whole_rows` the window has all columns of the pitch, a multiple of 4, and all columns of
/// the results are the same.
struct ReduceWindows {
  ReduceLayer::Op op = ReduceLayer::Op::kMax;
  int windows = -1;  ///< buffer of a LoadRows without `normalize`
  std::vector<int> others = {};
  int weights = -1;  ///< buffer; -1: none
  PositionNumbers numbers = {};
  int64_t window_rows = 0, pitch = 0;
  std::array<int64_t, 2> kernel{1, 1}, dilation{1, 1}, stride{1, 1};
  bool whole_rows = false;
  int64_t rows = 1;
  int64_t first_row = 0, buffer_rows = 1;  ///< where the rows are among those of the windows and of inputs
  ScalarExpr expr, epilogue;
  std::vector<RowsInput> inputs;
  RowOrder order = {};  ///< of staged rows
  bool operator==(const ReduceWindows&) const = default;
};
/// staged row[chunk][column] = the last of `steps` (NormalizeLayer): for every column, its channels are the
/// row that is reduced. Inputs are those of the steps, in their order: `channels` of every column, those that
/// fill the last chunk up count for nothing, and come out as 0. As FinishRows, in L1BM.
struct NormalizeRows {
  std::vector<NormalizeLayer::Step> steps;
  std::vector<RowsInput> inputs;
  int64_t channels = 1;
  int64_t rows = 1;
  int64_t first_row = 0, buffer_rows = 1;  ///< where the rows are among those of the inputs
  RowOrder order = {};                     ///< of staged rows
  /// As FinishRows, but that a chunk's rows take a multiple of four places in L1BM.
  bool spread = false;
  KeptRows kept = {};
  int64_t staged_rows() const { return spread ? isa::round_up(rows, isa::kCyclesPerStep) : rows; }
  bool operator==(const NormalizeRows&) const = default;
};
/// The sums of one chunk among those of a stack of results: LW `first` of every `step`.
struct StackedSums {
  int64_t first = 0, step = 1;
  bool operator==(const StackedSums&) const = default;
};
/// staged row[column] of chunk `chunk` = epilogue(sums over the quad, inputs): in L1BM, one row after the
/// other. Without `sums` the first input stands for them.
struct FinishRows {
  int sums = -1;
  StackedSums of_sums = {};
  int64_t first_vector = 0;  ///< of the sums, that of the first row's first columns
  int64_t rows = 1;
  ScalarExpr epilogue;
  int64_t first_row = 0, buffer_rows = 1;  ///< where the rows are among those of an input's buffer
  std::vector<RowsInput> inputs;
  int64_t chunk = 0;    ///< of those that the L1B makes
  RowOrder order = {};  ///< of staged rows
  /// MAB m takes block m % 4 of column m / 4, of four rows of four columns at a time: a quarter of the work.
  /// Inputs are so, too (RowsForm::kSpread), and rows of a chunk follow each other in L1BM, which has room
  /// for three more behind the last.
  bool spread = false;
  KeptRows kept = {};
  bool operator==(const FinishRows&) const = default;
};
// The same where every pair of an L2B's L1Bs has a lane of columns (RowOrder), and of the two, one has blocks
// 0 and 1 of every chunk of results, the other blocks 2 and 3. So all of L2BM's rate is used, in both
// directions. A *place* is a column of a pair's results; in L1BM it is [width chunks][2 blocks][4 PEs]. Where
// chunks stand in pairs, the quads of an L1B make the blocks that it has of a pair, of four places at a time.
// Where they don't, quads 0 and 1 make those of one chunk at places of even number, quads 2 and 3 at odd
// ones: of eight places.

/// Places that a vector has.
inline int64_t vector_places(const RowOrder& order) {
  return kUnitLw / (order.width() * kColumnLw / 2);
}
/// Places that one l1bmd brings.
inline int64_t step_places(const RowOrder& order) {
  return isa::kCyclesPerStep * vector_places(order);
}

/// buffer[place][row][pitch columns] = of rows of an image, a pair's lane, between `left` columns of the lane
/// before and `right` of the one behind; what is in them outside the tensor, whose last lane has `last`
/// columns, isn't written. Blocks are taken as by LoadRows with `normalize`. With `shift` quads 0 and 1 have
/// every column so many columns behind where quads 2 and 3 have it. With `side_chunks`, of twice as many
/// chunks quads 0 and 1 have the first half, quads 2 and 3 the others at the same place.
///
/// What is `packed` has in every lane of a row, over its units, a line of LW: column c's windows begin at LW
/// c * lw of it, 16 LW for a chunk, those of the next chunk behind them. In the last chunk of a window, what
/// is behind its words may be anything, or 0 where the line has ended.
struct LoadLanes {
  struct Packed {
    int64_t columns = 1, words = 1;  ///< of the windows
    int64_t lw = 1;                  ///< from one column to the next
    int64_t chunks() const { return isa::ceil_div(words, kColumnLw * isa::kWordsPerLong); }
    /// LW of a lane's line.
    int64_t line_lw() const { return (columns - 1) * lw + isa::ceil_div(words, isa::kWordsPerLong); }
    bool operator==(const Packed&) const = default;
  };
  int stream = -1;
  std::vector<RowsTransfer> transfers;
  int64_t l2bm = 0;  ///< where the first part begins
  int64_t parts = 1, part_lw = 0;
  RowOrder order = {};
  int64_t rows = 1;
  int64_t left = 0, right = 0, last = 1;
  int buffer = -1;
  int64_t stack = 1;        ///< chunks, as of LoadRows
  int64_t first_place = 0;  ///< of the buffer
  int64_t first_row = 0, buffer_rows = 1;
  int64_t pitch = 1, place_lw = 0, shift = 0;  ///< `place_lw` from one place to the next in the buffer
  int64_t side_chunks = 0;
  MatrixPrecision normalize = MatrixPrecision::kGFloat;
  std::optional<Packed> packed = std::nullopt;
  int64_t columns() const { return packed ? packed->columns : left + order.groups + right; }
  int64_t chunks() const { return packed ? packed->chunks() : order.chunks; }
  /// Of the buffer, for a stack, and for a part.
  int64_t places() const { return stack_places(normalize, stack); }
  int64_t part_places() const { return isa::ceil_div(chunks(), stack) * places(); }
  bool operator==(const LoadLanes&) const = default;
};
/// Rows of results, in L1BM `row_places` places from one to the next (at least order.groups), as LoadPlaces
/// and FinishLanes know them.
struct LanePlaces {
  RowOrder order = {};  ///< of the image
  int64_t rows = 1, row_places = 1;
  int64_t sets() const { return order.chunks / order.width(); }  ///< of chunks side by side
  /// LW of a set in PE memory, a block of every place each.
  int64_t spread_lw() const {
    return isa::round_up(rows * row_places, step_places(order)) / vector_places(order);
  }
  /// LW of a set in L1BM.
  int64_t staged_lw() const { return spread_lw() * kUnitLw; }
  /// Whether steps that bring a row of a set may not begin wherever they end with it: then what they bring
  /// too much is overwritten, in the order of addresses, by what belongs there, when all sets are in L1BM.
  bool in_order() const {
    const int64_t units = order.groups * order.width();
    return sets() > 1 && (units % 2 != 0 || units < isa::kCyclesPerStep);
  }
  /// Sets in L1BM at a time.
  int64_t slots() const { return in_order() ? sets() : std::min<int64_t>(2, sets()); }
  bool operator==(const LanePlaces&) const = default;
};
/// buffer[set of chunks][spread_lw] = of rows of an image that is like the results, what the L1B makes there:
/// MAB m has block m % (2 width) of place m / (2 width), of the first vector of places, and so on.
struct LoadPlaces {
  int stream = -1;
  std::vector<RowsTransfer> transfers;
  int64_t l2bm = 0;
  LanePlaces places = {};
  int buffer = -1;
  bool operator==(const LoadPlaces&) const = default;
};
/// Results of a set of chunks, through L1BM to L2BM: epilogue(sums over the quad, inputs). Vector v of the
/// sums has the places from starts[v] on. Inputs are those of LoadPlaces (`of_rows`), or one LW for a set.
struct FinishLanes {
  int sums = -1;
  StackedSums of_sums = {};
  std::vector<int64_t> starts;
  ScalarExpr epilogue;
  std::vector<RowsInput> inputs;
  int64_t set = 0;
  LanePlaces places = {};
  int64_t l2bm = 0;  ///< of the first row
  KeptRows kept = {};
  bool operator==(const FinishLanes&) const = default;
};

// The same where channels stay apart, as in ReduceWindows. An L1B has its half of every chunk, two blocks of
// its pair's lane, and every PE columns of its own. In L1BM a row is a sequence of *lines*: the columns of a
// chunk, or of two chunks side by side. A *place* is 8 LW, the two blocks of a column; one l1bmd brings eight
// of them to the MABs in a cycle, which is a *slot*: MAB m has block m % 2 of place m / 2. What is read a
// column further on in L1BM is that of the next column for all PEs, so windows are that, for every column of
// the kernel.

inline constexpr int64_t kPlaceLw = kColumnLw / 2;
inline constexpr int64_t kSlotPlaces = kUnitLw / kPlaceLw;

/// Lines of rows, in L1BM and in PE memory.
struct LaneLines {
  std::vector<int64_t> chunks;  ///< of each line, 1 or 2, in the order of channels
  int64_t columns = 1;          ///< of a line: whole slots
  int64_t places = 2;           ///< of a column; the second may be nobody's
  int64_t lines() const { return std::ssize(chunks); }
  int64_t line_lw() const { return columns * places * kPlaceLw; }  ///< of L1BM
  int64_t line_slots() const { return columns * places / kSlotPlaces; }
  /// LW of a row in PE memory, whole vectors of four slots.
  int64_t row_lw() const { return isa::round_up(lines() * line_slots(), isa::kCyclesPerStep); }
  int64_t staged_lw() const { return row_lw() * kUnitLw; }  ///< of a row of results in L1BM
  /// Times that PE memory has a value for a line's channels, so that those of a vector are regular.
  int64_t value_copies() const {
    const int64_t slots = line_slots();
    return slots % isa::kCyclesPerStep == 0 ? 1 : slots;
  }
  /// LW of values for `positions` of every channel: [position][line][copies].
  int64_t values_lw(int64_t positions) const {
    return isa::round_up(positions * lines() * value_copies() + isa::kCyclesPerStep - 1, isa::kCyclesPerStep);
  }
  bool operator==(const LaneLines&) const = default;
};
/// buffer[row][kernel column][row_lw] = of rows of an image, the columns of a pair's lane from `left` before
/// it on, `spacing` columns of lines apart, and for each of `kernel` columns those `dilation` further on.
/// `before` are fetched (at least `left`: L1BM is written from even places on), and `right` behind the lane.
/// What is outside the tensor, whose last lane has `last` columns, isn't written, as far as results there
/// read it: up to column `last_result`.
struct LoadLines {
  int stream = -1;
  std::vector<RowsTransfer> transfers;
  int64_t l2bm = 0;  ///< where the first part begins
  int64_t parts = 1, part_lw = 0;
  RowOrder order = {};  ///< of a part
  int64_t rows = 1;
  int64_t left = 0, before = 0, right = 0, last = 1, last_result = 0;
  int64_t spacing = 1;  ///< other than 1 of a lane's own columns alone
  int64_t kernel = 1, dilation = 1;
  LaneLines lines = {};
  int64_t first_line = 0;  ///< of the first part
  int buffer = -1;
  int64_t first_row = 0, buffer_rows = 1;
  /// Chunks of a line, as many as stand side by side in the image, or 1.
  int64_t width() const { return lines.chunks[static_cast<size_t>(first_line)]; }
  bool operator==(const LoadLines&) const = default;
};
/// Rows of results to L2BM, by way of L1BM: epilogue(op over the window there of expr(windows, those of
/// others, weights, number, inputs), inputs), where results are `stride[1]` columns of lines apart. Inputs of
/// rows are those of a LoadLines [row][row_lw], others values of channels.
struct ReduceLines {
  ReduceLayer::Op op = ReduceLayer::Op::kMax;
  int windows = -1;  ///< buffer of LoadLines
  std::vector<int> others = {};
  PositionNumbers numbers = {};
  int weights = -1;  ///< values for every position of the kernel; -1: none
  int64_t window_rows = 0;
  std::array<int64_t, 2> kernel{1, 1}, stride{1, 1};
  int64_t dilation = 1;  ///< of rows
  LaneLines lines = {};
  int64_t rows = 1;
  int64_t first_row = 0, buffer_rows = 1;  ///< where the rows are among those of the windows and of inputs
  ScalarExpr expr, epilogue;
  std::vector<RowsInput> inputs;
  RowOrder order = {};  ///< of the image, without phases
  RowOrder made() const { return {order.groups * numbers.phases[1], order.chunks}; }
  int64_t slot = 0;  ///< rows of L1BM's results before these, with their phases
  int64_t l2bm = 0;  ///< of the first row
  bool operator==(const ReduceLines&) const = default;
};

// Sums over columns: products of two pictures that are summed over their rows and columns, as gradients of
// weights are. Every pair of an L2B's L1Bs has a lane of columns, and its MABs have rows of their own: those
// of even L1Bs and those of odd ones, four of each, one for the MABs k of all quads. A vector of the matrix
// unit has eight places of one channel.

/// buffer[at ...) = of a row of an image, the columns from `first` of a lane of `lane` columns on, of which
/// there are `count`; even L1Bs have the row at l2bm[0], odd ones that at l2bm[1]. Only MABs whose number is
/// `mab` modulo 4 take it. What is outside the tensor isn't written; `columns` are those of the tensor.
///
/// With `all_blocks` a MAB takes all channels of `chunks` chunks from `first_chunk` on:
///
///     [chunk][pitch columns][4 blocks]                               LW
///
/// else the block of its quad, of all chunks of the row, as they stand in it (RowOrder):
///
///     [chunks / width][pitch columns][width chunks]                  LW
///
/// where these are pairs of chunks, the first of them and their number even.
///
/// What is packed (LoadLanes) has in every lane a line of LW: column c's chunks begin at LW c * packed_lw of
/// it, one behind the other. What is behind a line may be anything.
struct LoadColumns {
  int stream = -1;
  std::vector<RowsTransfer> transfers;
  /// Where the first chunk of either row is, or would be: what is not taken needn't be there.
  std::array<int64_t, 2> l2bm = {};
  RowOrder order = {};
  int64_t columns = 1;
  int64_t lane = 1;              ///< columns from a lane to the next
  int64_t first = 0, count = 1;  ///< of a lane's columns; `first` may be negative: in the lane before
  int64_t first_chunk = 0, chunks = 1;
  int64_t packed_lw = 0;  ///< 0: it isn't packed
  int64_t mab = 0;
  bool all_blocks = false;
  int buffer = -1;
  int64_t at = 0, pitch = 1;
  /// Whether lanes are those of the image's order, and their columns in those or in the ones beside them:
  /// then four columns come at a time.
  bool has_lanes() const {
    return packed_lw > 0 || (lane == order.groups && left() <= order.groups && right() <= order.groups);
  }
  /// Columns of a chunk's lane that come from the lanes beside it.
  int64_t left() const { return packed_lw > 0 ? 0 : std::max<int64_t>(0, -first); }
  int64_t right() const { return packed_lw > 0 ? 0 : std::max<int64_t>(0, first + count - order.groups); }
  /// Chunks of a row that are read: whole pairs, from the first on to before the second.
  std::pair<int64_t, int64_t> read_chunks() const {
    if (packed_lw > 0) return {0, order.chunks};
    return {first_chunk / order.width() * order.width(), isa::round_up(first_chunk + chunks, order.width())};
  }
  /// Whether what is read of both rows, and a step's four units behind it, is in L2BM.
  bool is_inside(int64_t l2bm_lw) const {
    const int64_t first_lw = order.at(read_chunks().first, 0);
    const int64_t end_lw = (read_chunks().second * order.groups + isa::kCyclesPerStep) * kUnitLw;
    return std::ranges::all_of(l2bm,
                               [&](int64_t row) { return row + first_lw >= 0 && row + end_lw <= l2bm_lw; });
  }
  /// LW of a line that are read, with what may be behind it.
  int64_t line_lw() const { return (count - 1) * packed_lw + (first_chunk + chunks) * kColumnLw; }
  bool operator==(const LoadColumns&) const = default;
};
/// out[to ... to + 8) = eight channels, each a block float vector of the eight places from
/// raw[from + u * step[0] + v * step[1]], u = 0, 1, v = 0 ... 3, whose LW have these channels.
struct TransposeColumns {
  MatrixPrecision precision = MatrixPrecision::kGFloat;
  int raw = -1, out = -1;
  std::array<int64_t, 2> step = {};
  struct Run {
    int64_t from = 0, to = 0;
    bool operator==(const Run&) const = default;
  };
  std::vector<Run> runs;
  bool operator==(const TransposeColumns&) const = default;
};
/// For every group, for all of its uses and t: sums[group.sums[t] + step * i] += the matrix at
/// matrices[use.matrix ... + 8) * windows[use.windows[t] + i], for i from 0 to 4 * vectors - 1. A local
/// memory that is written isn't read for some steps: so a group's sums come from `sums` with its first use,
/// go there with the last one, and are in `work` between, which has room for those of any group.
struct ColumnProduct {
  MatrixPrecision precision = MatrixPrecision::kGFloat;
  int matrices = -1, windows = -1, sums = -1, work = -1;
  int64_t vectors = 1, step = 1;
  struct Use {
    int64_t matrix = 0;
    std::vector<int64_t> windows;
    bool operator==(const Use&) const = default;
  };
  struct Group {
    std::vector<int64_t> sums;
    std::vector<Use> uses;
    bool operator==(const Group&) const = default;
  };
  std::vector<Group> groups;
  bool operator==(const ColumnProduct&) const = default;
};

/// Sums of a lane's columns: sums[4][chunks] += expr(inputs) over columns c, c + 4, ..., and with `fold` each
/// chunk's four become what they add up to. Inputs are buffers as LoadColumns fills them without all_blocks,
/// `pitch` columns to a row (`of_rows`), or one LW for a chunk.
struct AddColumns {
  ScalarExpr expr;
  std::vector<RowsInput> inputs;
  RowOrder order = {};  ///< of the rows
  int64_t pitch = 1;
  int sums = -1;
  bool fold = false;
  bool operator==(const AddColumns&) const = default;
};

/// Rows of sums that every L1B has a part of: what they add up to, in L2BM.
struct SumRows {
  int64_t rows = 1;
  int64_t l1b_row_lw = 0;        ///< from one row to the next in L1BM
  int64_t l2bm = 0, row_lw = 0;  ///< of the first row in L2BM, and from one to the next
  bool operator==(const SumRows&) const = default;
};
/// Rows of sums that every L2B has a part of, in L2BM: what they add up to, in DRAM. Every transfer is
/// `to_all`.
struct SumL2bs {
  int stream = -1;
  std::vector<RowsTransfer> transfers;
  bool operator==(const SumL2bs&) const = default;
};
/// Rows from L1BM through L2BM to an image. L1B b has `segments` segments of each of `rows` rows, one after
/// the other in L1BM, and brings them to l1b_at[b] LW behind `l2bm`, each `chunk_lw` LW behind the one
/// before. Without L1Bs the rows are in L2BM already.
struct StoreRows {
  int stream = -1;
  std::vector<RowsTransfer> transfers;
  int64_t l2bm = 0;
  std::vector<int64_t> l1b_at = {};
  int64_t rows = 1, row_lw = 0;  ///< in L2BM
  int64_t segments = 1, segment_lw = 0, chunk_lw = 0;
  int64_t l1b_row_lw = 0;      ///< from one row to the next in L1BM
  int64_t l1b_segment_lw = 0;  ///< from one segment to the next there; 0: they follow one another
  bool operator==(const StoreRows&) const = default;
};

struct TileNode;
struct TileLoop {
  std::string name;
  int64_t count = 0;
  std::vector<TileNode> body;
};
struct TileNode {
  std::variant<LoadTile, StoreTile, FillTile, ProductTile, StreamProduct, MapTile, ReduceTile, GatherTile,
               LoadRows, WindowProduct, ReduceWindows, NormalizeRows, FinishRows, LoadLanes, LoadPlaces,
               FinishLanes, LoadLines, ReduceLines, LoadColumns, TransposeColumns, ColumnProduct, AddColumns,
               SumRows, SumL2bs, StoreRows, TileLoop>
      kind;
};

struct TileProgram {
  std::string name;
  std::vector<TileBuffer> buffers;
  std::vector<TileStream> streams;
  std::vector<TileNode> body;
  /// LM0 or LM1 that the program's own buffers stay away from: buffers with an address, its own and others'.
  struct Kept {
    int64_t begin_lw = 0, size_lw = 0;
    isa::Space memory = isa::Space::kLm0;
    bool has(isa::Space space, int64_t begin, int64_t size) const {
      return space == memory && begin_lw <= begin && begin + size <= begin_lw + size_lw;
    }
    bool meets(isa::Space space, int64_t begin, int64_t size) const {
      return space == memory && begin < begin_lw + size_lw && begin_lw < begin + size;
    }
  };
  std::vector<Kept> kept = {};
};

/// Readable text for --dump-after.
std::string to_string(const TileProgram& program);
/// Ranges inside buffers and streams, alignment, indices; InternalError naming the layer otherwise.
void verify_tile_program(const TileProgram& program, const isa::Chip& chip);

}  // namespace kodama::compiler
