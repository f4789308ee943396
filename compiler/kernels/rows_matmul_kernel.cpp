#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "compiler/kernels/builtin_kernels.h"
#include "compiler/kernels/lowering.h"
#include "compiler/kernels/predict.h"
#include "compiler/kernels/rows.h"
#include "compiler/kernels/rows_division.h"
#include "isa/arithmetic.h"
#include "isa/error.h"

/// "matmul-rows": products of two tensors that layers make, as images of rows (compiler/kernels/rows.h): Q
/// K^T and P V of attention, MatMul of inputs.
///
/// An operand is *entries* (of batch dims) of *tokens* with channels. Of one, the tokens are windows, as in
/// "contract-rows"; its channels are K, and the result has its tokens. The other becomes matrices, whose rows
/// are the result's channels: either its tokens are those and its channels are K (Q K^T), or its tokens are K
/// (P V): then eight tokens are written to a matrix register and read back by columns. So neither is
/// transposed in memory.
///
/// Groups and L2Bs have different entries or rows of the result, which are also theirs of the windows. L1Bs
/// have different entries, rows, or chunks of the result's channels:
///
///     for entries: for tiles of rows: load windows
///       for tiles of channels: load matrices; for chunks: sums = matrices * windows, epilogue, to L1BM
///       store the rows
///
/// Where an L2B has several entries, those of a tensor whose channels are the entries' own, heads and their
/// channels, may be inside rows (Picture::Tokens::inside), as what makes Q, K and V has them. Rows of all
/// entries come at once then: they are one transfer, and entries take turns with what is in L2BM.
namespace kodama::compiler {

using isa::ceil_div;
using isa::round_up;
using isa::Space;

namespace {

constexpr const char* kMatmulRows = "matmul-rows";
/// Tiles of one program at most: it isn't a loop.
constexpr int64_t kMostTiles = 64;
/// Rows of four tokens that 32 channels of the result are.
constexpr int64_t kRowsPerChunk = kChunkChannels / isa::kCyclesPerStep;

struct MatmulProblem {
  ContractLayer contract;
  bool windows_first = true;  ///< operand a has the windows
  bool by_columns = false;    ///< K is the tokens of the matrices' operand
  Picture in, matrices, out;
  TensorId output = -1;
  std::vector<int> channel_dims, entry_dims, token_dims;  ///< of the result

  const TensorAccess& windows_access() const { return windows_first ? contract.a : contract.b; }
  const TensorAccess& matrices_access() const { return windows_first ? contract.b : contract.a; }
};

/// For every dim above 1 the axis of a tensor that is it alone; nothing where the access has another form.
std::optional<std::vector<int>> axes_of_dims(const AffineMap& map, const Shape& shape,
                                             const ContractLayer& contract) {
  std::vector<int> axes(contract.dims.size(), -1);
  for (size_t axis = 0; axis < map.axes(); ++axis) {
    if (map.offset(axis) != 0) return std::nullopt;
    int found = -1;
    for (size_t dim = 0; dim < contract.dims.size(); ++dim) {
      if (map.coefficient(axis, dim) == 0 || contract.dims[dim].extent == 1) continue;
      if (found >= 0 || axes[dim] >= 0 || map.coefficient(axis, dim) != 1) return std::nullopt;
      found = static_cast<int>(dim);
      axes[dim] = static_cast<int>(axis);
    }
    if (shape[axis] != (found < 0 ? 1 : contract.dims[static_cast<size_t>(found)].extent))
      return std::nullopt;
  }
  return axes;
}

/// `heads_first`: where several dims are entries, the last of them varies slowest, so that an L2B has a head
/// of all images of the batch rather than all heads of one.
/// `inside`: entries are inside the rows of tensors whose channels aren't the tokens of another.
/// `dealt`: images are dealt to groups (Picture::Tokens::dealt).
std::optional<MatmulProblem> matmul_problem(const ContractLayer& contract, TensorId output, bool by_columns,
                                            bool heads_first, bool inside, bool dealt,
                                            const LayerGraph& graph) {
  using Role = ContractLayer::Role;
  const auto shape_of = [&](TensorId tensor) -> const Shape& {
    return graph.tensors[static_cast<size_t>(tensor)].shape;
  };
  for (const TensorAccess* access : {&contract.a, &contract.b}) {
    if (graph.is_constant(access->tensor)) return std::nullopt;
  }
  const auto result = axes_of_dims(contract.output, contract.output_shape, contract);
  if (!result) return std::nullopt;
  MatmulProblem problem;
  problem.contract = contract;
  problem.by_columns = by_columns;
  problem.output = output;
  // The result's channels are its last axis.
  Role channel_role = Role::kBatch;
  int k_dim = -1;
  for (size_t dim = 0; dim < contract.dims.size(); ++dim) {
    if (contract.dims[dim].extent == 1) continue;
    if (contract.dims[dim].role == Role::kK) {
      if (k_dim >= 0) return std::nullopt;
      k_dim = static_cast<int>(dim);
    } else if ((*result)[dim] < 0) {
      return std::nullopt;
    } else if ((*result)[dim] + 1 == static_cast<int>(contract.output_shape.size())) {
      channel_role = contract.dims[dim].role;
      problem.channel_dims = {static_cast<int>(dim)};
    }
  }
  if (k_dim < 0 || (channel_role != Role::kM && channel_role != Role::kN)) return std::nullopt;
  problem.windows_first = channel_role == Role::kN;
  for (size_t axis = 0; axis + 1 < contract.output_shape.size(); ++axis) {
    const auto found = std::ranges::find(*result, static_cast<int>(axis));
    if (found == result->end()) continue;
    const auto dim = static_cast<int>(found - result->begin());
    const Role role = contract.dims[static_cast<size_t>(dim)].role;
    if (role == channel_role) return std::nullopt;
    (role == Role::kBatch ? problem.entry_dims : problem.token_dims).push_back(dim);
  }
  if (heads_first) {
    std::vector<int>& dims = problem.entry_dims;
    if (dims.size() < 2) return std::nullopt;
    std::rotate(dims.begin(), dims.end() - 1, dims.end());
  }
  const auto picture = [&](TensorId tensor, const Shape& shape, const std::vector<int>& axes,
                           const std::vector<int>& token_dims, int channel_dim) -> std::optional<Picture> {
    Picture::Tokens tokens;
    tokens.inside = inside && channel_dim == (by_columns ? problem.channel_dims[0] : k_dim);
    const auto add = [&](const std::vector<int>& dims, std::vector<int>& to) {
      for (const int dim : dims) to.push_back(axes[static_cast<size_t>(dim)]);
      return std::ranges::find(to, -1) == to.end();
    };
    tokens.dealt = dealt;
    tokens.channel = axes[static_cast<size_t>(channel_dim)];
    if (tokens.channel < 0 || !add(problem.entry_dims, tokens.entries) || !add(token_dims, tokens.tokens))
      return std::nullopt;
    return token_picture(tensor, shape, tokens);
  };
  const auto operand = [&](const TensorAccess& access, const std::vector<int>& token_dims,
                           int channel_dim) -> std::optional<Picture> {
    if (access.fill != 0) return std::nullopt;
    const Shape& shape = shape_of(access.tensor);
    const auto axes = axes_of_dims(access.map, shape, contract);
    if (!axes) return std::nullopt;
    return picture(access.tensor, shape, *axes, token_dims, channel_dim);
  };
  const int n_dim = problem.channel_dims[0];
  const auto in = operand(problem.windows_access(), problem.token_dims, k_dim);
  const auto matrices = by_columns ? operand(problem.matrices_access(), {k_dim}, n_dim)
                                   : operand(problem.matrices_access(), {n_dim}, k_dim);
  const auto out = picture(output, contract.output_shape, *result, problem.token_dims, n_dim);
  if (!in || !matrices || !out) return std::nullopt;
  problem.in = *in;
  problem.matrices = *matrices;
  problem.out = *out;
  return problem;
}

/// Everything that a candidate decides.
struct MatmulTiling {
  /// L1Bs with entries, rows and chunks of their own.
  int64_t entry_l1bs = 1, row_l1bs = 1, chunk_l1bs = 1;
  int64_t rows = 1, chunks = 1;  ///< of the result, of an L1B in a tile
  int64_t cycles = 0;
};

class MatmulTiler {
 public:
  MatmulTiler(MatmulProblem problem, const isa::Chip& chip, MatrixPrecision precision)
      : problem_(std::move(problem)),
        chip_(chip),
        precision_(precision),
        form_(matrix_form(precision)),
        in_(problem_.in, {}, chip),
        matrices_(problem_.matrices, {}, chip),
        out_(problem_.out, {}, chip) {}

  bool can_be_dealt() const {
    return problem_.out.images % chip_.l2b_count() == 0 &&
           compiler::can_be_dealt(problem_.out.shape, problem_.out.tokens->entries, chip_);
  }
  /// Whether L2Bs have several entries of several rows, and as many of both operands.
  bool can_be_inside() const {
    return out_.images() > 1 && out_.images() == matrices_.images() &&
           std::max(out_.rows(), matrices_.rows()) > 1;
  }
  std::optional<MatmulTiling> best() const;
  std::vector<StreamPlacement> placements(const MatmulTiling& tiling) const;
  TileProgram program(const MatmulTiling& tiling, const std::string& name,
                      const std::vector<StreamPlacement>& placements,
                      const std::vector<int64_t>& dram_addresses) const;
  std::string describe(const MatmulTiling& tiling) const;

 private:
  struct Sizes {
    int64_t entry_tiles = 0, row_tiles = 0, chunk_tiles = 0;
    int64_t tile_rows = 0;       ///< of an L2B
    int64_t matrix_rows = 0;     ///< of the matrices' operand in L2BM at a time, for an entry
    int64_t matrix_pieces = 0;   ///< of that operand, one after the other
    bool matrices_stay = false;  ///< in L2BM, from the first tile on
    int64_t load_rows = 0;       ///< of these in an L1B
    int64_t matrices_lw = 0, windows_lw = 0, sums_lw = 0, input_lw = 0;   ///< of a PE
    int64_t l1b_row_lw = 0;                                               ///< results of a row in L1BM
    int64_t matrices_at = 0, inputs_at = 0, results_at = 0, l2bm_lw = 0;  ///< LW of L2BM
    int64_t results_lw = 0;
  };
  std::optional<Sizes> sizes(const MatmulTiling& tiling) const;
  int64_t cost(const MatmulTiling& tiling, const Sizes& s) const;

  /// First row, or chunk, or entry of tile and L1B: the last ones may overlap those before.
  static int64_t first_of(int64_t number, int64_t count, int64_t all) {
    return std::min(number * count, all - count);
  }
  int64_t inputs() const { return std::ssize(problem_.contract.epilogue_inputs); }
  /// A tile's rows in L2BM: of `entries` entries, or of all that are inside them.
  static int64_t region_lw(const RowsImage& image, int64_t entries, int64_t rows) {
    return rows * (image.is_inside() ? image.row_pitch() : entries * image.row_lw());
  }
  /// Where a row of the tile's entry number k is there; the first of these is entry `first`.
  static int64_t place(const RowsImage& image, int64_t first, int64_t k, int64_t rows, int64_t row) {
    return image.is_inside() ? row * image.row_pitch() + (first + k) * image.row_lw()
                             : (k * rows + row) * image.row_lw();
  }
  StreamPlacement input_placement(const TensorAccess& access, std::string name) const;
  std::vector<RowsTransfer> own_rows(const RowsImage& image, int64_t entry, int64_t row, int64_t rows,
                                     int64_t l2bm) const;

  MatmulProblem problem_;
  isa::Chip chip_;
  MatrixPrecision precision_;
  const MatrixForm& form_;
  RowsImage in_, matrices_, out_;
};

std::optional<MatmulTiler::Sizes> MatmulTiler::sizes(const MatmulTiling& tiling) const {
  Sizes s;
  const int64_t entries = tiling.entry_l1bs;
  s.entry_tiles = ceil_div(out_.images(), entries);
  s.tile_rows = tiling.row_l1bs * tiling.rows;
  s.row_tiles = ceil_div(out_.rows(), s.tile_rows);
  s.chunk_tiles = ceil_div(out_.chunks(), tiling.chunk_l1bs * tiling.chunks);
  s.tile_rows = std::min(s.tile_rows, out_.rows());
  s.matrices_lw = tiling.chunks * in_.chunks() * form_.rows;
  s.windows_lw = in_.chunks() * tiling.rows * isa::kCyclesPerStep;
  s.sums_lw = tiling.rows * isa::kCyclesPerStep;
  s.input_lw = tiling.chunks * tiling.rows * isa::kCyclesPerStep;
  s.l1b_row_lw = tiling.chunks * kUnitLw;

  const int64_t windows = region_lw(in_, entries, s.tile_rows);
  const int64_t results = region_lw(out_, entries, s.tile_rows);
  s.matrices_at = windows;
  s.results_lw = results;
  const int64_t all_rows = problem_.matrices.rows;
  const int64_t left = chip_.memory.l2bm_lw - windows - (inputs() + 1) * results - isa::kL2bmBlockLw;
  if (problem_.by_columns) {
    // Every L1B takes all tokens; in pieces of whole matrices.
    const int64_t fit = left / region_lw(matrices_, entries, 1);
    s.matrix_rows = fit >= all_rows ? all_rows : fit / kRowsPerChunk * kRowsPerChunk;
    if (s.matrix_rows <= 0) return std::nullopt;
    s.matrix_pieces = ceil_div(all_rows, s.matrix_rows);
    s.load_rows = s.matrix_rows;
  } else {
    s.load_rows = std::min(all_rows, tiling.chunks * kRowsPerChunk);
    s.matrix_rows = std::min(all_rows, tiling.chunk_l1bs * tiling.chunks * kRowsPerChunk);
    s.matrix_pieces = 1;
    if (matrices_.is_inside() && region_lw(matrices_, entries, round_up(all_rows, kRowsPerChunk)) <= left)
      s.matrix_rows = all_rows;
  }
  s.matrices_stay = matrices_.is_inside() && s.matrix_rows == all_rows;
  // L1Bs take whole chunks of the result's channels: rows behind the last are anything.
  s.inputs_at = s.matrices_at +
                region_lw(matrices_, entries,
                          matrices_.is_inside() ? round_up(s.matrix_rows, kRowsPerChunk) : s.matrix_rows);
  s.results_at = s.inputs_at + inputs() * results;
  s.l2bm_lw = s.results_at + results + isa::kL2bmBlockLw;

  const RowsStaging staging = rows_staging(chip_);
  const int64_t local = chip_.memory.lm_words / isa::kWordsPerLong - kRowsReserveLw;
  const int64_t registers = chip_.memory.grf_words / isa::kWordsPerLong * 3 / 4;
  const int64_t matrix_row = problem_.by_columns ? 2 * s.l1b_row_lw : matrices_.row_lw();
  const bool fits = s.l2bm_lw <= chip_.memory.l2bm_lw && s.sums_lw <= registers && s.windows_lw <= local &&
                    s.matrices_lw + inputs() * s.input_lw <= local &&
                    std::max({in_.row_lw(), matrix_row, s.l1b_row_lw}) <= staging.windows_lw &&
                    tiling.rows * s.l1b_row_lw <= staging.results_lw &&
                    s.entry_tiles * s.row_tiles * s.chunk_tiles * s.matrix_pieces <= kMostTiles;
  if (!fits) return std::nullopt;
  return s;
}

std::optional<MatmulTiling> MatmulTiler::best() const {
  std::optional<MatmulTiling> found;
  MatmulTiling tiling;
  const auto ways = [](int64_t most, int64_t all) {
    std::vector<int64_t> list;
    for (int64_t count = 1; count <= most && (count == 1 || count / 2 < all); count *= 2)
      list.push_back(count);
    return list;
  };
  for (const int64_t entries : ways(chip_.l1b_per_l2b, 1 + out_.images() / 2)) {
    for (const int64_t chunks : ways(chip_.l1b_per_l2b / entries, out_.chunks())) {
      tiling.entry_l1bs = std::min(entries, out_.images());
      tiling.chunk_l1bs = std::min(chunks, out_.chunks());
      tiling.row_l1bs = std::min(chip_.l1b_per_l2b / entries / chunks, out_.rows());
      int64_t last_chunk_tiles = 0;
      for (tiling.chunks = ceil_div(out_.chunks(), tiling.chunk_l1bs); tiling.chunks >= 1; --tiling.chunks) {
        int64_t last_row_tiles = 0;
        const int64_t chunk_tiles = ceil_div(out_.chunks(), tiling.chunk_l1bs * tiling.chunks);
        if (chunk_tiles == std::exchange(last_chunk_tiles, chunk_tiles)) continue;
        for (tiling.rows = ceil_div(out_.rows(), tiling.row_l1bs); tiling.rows >= 1; --tiling.rows) {
          const int64_t row_tiles = ceil_div(out_.rows(), tiling.row_l1bs * tiling.rows);
          if (row_tiles == last_row_tiles) continue;
          const auto s = sizes(tiling);
          if (!s) continue;
          last_row_tiles = row_tiles;
          tiling.cycles = cost(tiling, *s);
          if (!found || tiling.cycles < found->cycles) found = tiling;
        }
      }
    }
  }
  return found;
}

int64_t MatmulTiler::cost(const MatmulTiling& tiling, const Sizes& s) const {
  const int64_t inner = in_.chunks();
  const int64_t l1bs = tiling.entry_l1bs * tiling.row_l1bs * tiling.chunk_l1bs;
  const auto load = [&](int64_t rows, int64_t chunks, int64_t sets, int64_t each) {
    return load_rows_steps(1, rows, chunks, 1, sets, each, 2) + kRowsFillSteps;
  };
  const int64_t windows = load(tiling.rows, inner, tiling.entry_l1bs * tiling.row_l1bs, 5);
  const int64_t matrices = load(s.load_rows * s.matrix_pieces, problem_.by_columns ? tiling.chunks : inner,
                                tiling.entry_l1bs * tiling.chunk_l1bs, problem_.by_columns ? 8 : 5);
  int64_t finish = 1;
  if (problem_.contract.epilogue != ScalarExpr::identity()) {
    finish = 3 + machine_operations(problem_.contract.epilogue);
  }
  const int64_t products = tiling.chunks * (inner * std::max(tiling.rows, form_.write_steps) +
                                            kRowsFillSteps + tiling.rows * (finish + 1));
  const int64_t stores = l1bs * tiling.rows * tiling.chunks;
  const int64_t beside = inputs() * load(tiling.rows, tiling.chunks, l1bs, 1);
  const int64_t tiles = s.entry_tiles * s.row_tiles;
  // What is loaded, and what becomes of it, stand beside each other.
  const int64_t loads = windows + s.chunk_tiles * (matrices + beside);
  const int64_t results = s.chunk_tiles * (products + stores);
  const int64_t steps = tiles * (std::max(loads, results) + kRowsFillSteps);
  // Of the rows of all entries, those of a tile's.
  const auto share = [&](const RowsImage& image) {
    const int64_t lw = region_lw(image, tiling.entry_l1bs, s.tile_rows);
    return image.is_inside() ? lw / s.entry_tiles : lw;
  };
  const int64_t lw = share(in_) + (1 + inputs()) * share(out_);
  const int64_t matrix_lw = region_lw(matrices_, tiling.entry_l1bs, s.matrix_rows * s.matrix_pieces);
  const int64_t ways = problem_.matrices.images == 1 ? 1 : chip_.l2b_per_group;
  const int64_t matrix_load =
      chip_.transfer.startup_cycles +
      static_cast<int64_t>(static_cast<double>(ways * matrix_lw) / chip_.transfer.dram_lw_per_cycle);
  const int64_t tile_cycles =
      own_rows_cycles(lw, chip_) + (s.matrices_stay ? 0 : s.chunk_tiles * matrix_load);
  // What entries that follow load again leaves L2BM no room for what comes ahead.
  const int64_t share_waited = matrices_.is_inside() && !s.matrices_stay ? 1 : 2;
  return steps * isa::kCyclesPerStep + tiles * tile_cycles / share_waited +
         (s.matrices_stay ? matrix_load : 0);
}

/// An input of the epilogue at the result's places, however it is broadcast.
StreamPlacement MatmulTiler::input_placement(const TensorAccess& access, std::string name) const {
  if (access.fill == 0 && access.map == problem_.contract.output) {
    Picture picture = problem_.out;
    picture.tensor = access.tensor;
    return RowsImage(picture, {}, chip_).placement(std::move(name));
  }
  StreamPlacement placement = out_.placement(std::move(name));
  placement.access = access;
  placement.extents = contract_extents(problem_.contract);
  placement.axis_dims = {problem_.channel_dims};
  for (const std::vector<int>& dims : {problem_.entry_dims, problem_.token_dims}) {
    if (!dims.empty()) placement.axis_dims.push_back(dims);
  }
  place_single(placement);
  return placement;
}

/// In the order contract a, contract b, epilogue inputs, output.
std::vector<StreamPlacement> MatmulTiler::placements(const MatmulTiling& /*tiling*/) const {
  // Channels that fill a chunk up become 0 in the PEs.
  const auto operand = [&](const RowsImage& image, const char* name) {
    StreamPlacement placement = image.placement(name);
    placement.layout.set_padding(layout::Padding::kUndefined);
    return placement;
  };
  std::vector<StreamPlacement> list;
  list.push_back(operand(problem_.windows_first ? in_ : matrices_, "a"));
  list.push_back(operand(problem_.windows_first ? matrices_ : in_, "b"));
  for (size_t k = 0; k < problem_.contract.epilogue_inputs.size(); ++k)
    list.push_back(input_placement(problem_.contract.epilogue_inputs[k], fmt::format("x{}", k)));
  list.push_back(operand(out_, "y"));
  list.back().is_output = true;
  return list;
}

/// `rows` rows from `row` on of an entry of every L2B's own, or of all that are inside them.
std::vector<RowsTransfer> MatmulTiler::own_rows(const RowsImage& image, int64_t entry, int64_t row,
                                                int64_t rows, int64_t l2bm) const {
  RowsTransfer own;
  own.dram = image.offset(entry, row);
  own.l2bm = l2bm;
  own.count = rows * image.row_pitch();
  return {own};
}

TileProgram MatmulTiler::program(const MatmulTiling& tiling, const std::string& name,
                                 const std::vector<StreamPlacement>& placements,
                                 const std::vector<int64_t>& dram_addresses) const {
  isa::check_internal(placements.size() == dram_addresses.size(), kMatmulRows, "{} addresses for {} streams",
                      dram_addresses.size(), placements.size());
  const Sizes s = *sizes(tiling);
  TileProgram program;
  program.name = name;
  for (size_t k = 0; k < placements.size(); ++k) {
    program.streams.push_back(
        {placements[k].name, placements[k].transport, placements[k].length_lw, dram_addresses[k]});
  }
  const int window_stream = problem_.windows_first ? 0 : 1;
  const auto buffer = [&](std::string buffer_name, int64_t lw, isa::Space home) {
    program.buffers.push_back({std::move(buffer_name), lw, isa::space_bit(home)});
    return static_cast<int>(program.buffers.size()) - 1;
  };
  const int matrices = buffer("matrices", s.matrices_lw, Space::kLm0);
  const int windows = buffer("windows", s.windows_lw, Space::kLm1);
  const int sums = buffer("sums", s.sums_lw, Space::kGrf0);
  std::vector<RowsInput> inputs;
  for (int64_t k = 0; k < this->inputs(); ++k)
    inputs.push_back({buffer(fmt::format("x{}", k), s.input_lw, Space::kLm0), true});
  const auto add = [&](auto op) { program.body.push_back({std::move(op)}); };
  const int64_t inner = in_.chunks();
  const int64_t last_channels = problem_.in.channels - (inner - 1) * kChunkChannels;

  // Rows of matrices that nobody loads.
  if (problem_.by_columns ? problem_.matrices.rows % kRowsPerChunk != 0 : s.load_rows % kRowsPerChunk != 0)
    add(FillTile{matrices, {}, s.matrices_lw, 0});
  /// A value for every L1B, from its numbers among those with entries, rows and chunks.
  const auto for_l1bs = [&](auto&& value) {
    std::vector<int64_t> list;
    for (int64_t entry = 0; entry < tiling.entry_l1bs; ++entry) {
      for (int64_t row = 0; row < tiling.row_l1bs; ++row) {
        for (int64_t chunk = 0; chunk < tiling.chunk_l1bs; ++chunk) list.push_back(value(entry, row, chunk));
      }
    }
    return list;
  };
  const auto rows_of_entries = [&](const RowsImage& image, int64_t entry, int64_t row, int64_t l2bm) {
    if (image.is_inside()) return own_rows(image, 0, row, s.tile_rows, l2bm);
    std::vector<RowsTransfer> list;
    for (int64_t k = 0; k < tiling.entry_l1bs; ++k) {
      const auto own = own_rows(image, entry + k, row, s.tile_rows, l2bm + k * s.tile_rows * image.row_lw());
      list.insert(list.end(), own.begin(), own.end());
    }
    return list;
  };

  // Entries inside rows take turns with the rows that are there.
  const bool by_rows = in_.is_inside() || matrices_.is_inside();
  for (int64_t outer = 0; outer < (by_rows ? s.row_tiles : s.entry_tiles); ++outer) {
    for (int64_t inner_tile = 0; inner_tile < (by_rows ? s.entry_tiles : s.row_tiles); ++inner_tile) {
      const int64_t entry_tile = by_rows ? inner_tile : outer;
      const int64_t row_tile = by_rows ? outer : inner_tile;
      const int64_t entry = first_of(entry_tile, tiling.entry_l1bs, out_.images());
      const int64_t row = first_of(row_tile, s.tile_rows, out_.rows());
      // Whether the rows of an image come, or go, with this tile.
      const auto comes = [&](const RowsImage& image) { return !image.is_inside() || entry_tile == 0; };
      const auto goes = [&](const RowsImage& image) {
        return !image.is_inside() || entry_tile + 1 == s.entry_tiles;
      };
      // Where an L1B's rows of the tile are in L2BM.
      const auto own_row = [&](const RowsImage& image, int64_t k, int64_t number) {
        return place(image, entry, k, s.tile_rows, first_of(number, tiling.rows, s.tile_rows));
      };
      LoadRows load;
      load.stream = window_stream;
      if (comes(in_)) load.transfers = rows_of_entries(in_, entry, row, 0);
      load.chunks = inner;
      load.pitch = isa::kCyclesPerStep;
      load.order = in_.pitch_order();
      load.rows = load.buffer_rows = tiling.rows;
      load.l1b_at = for_l1bs([&](int64_t k, int64_t number, int64_t) { return own_row(in_, k, number); });
      load.buffer = windows;
      load.normalize = precision_;
      load.last_channels = last_channels;
      add(load);
      for (int64_t tile = 0; tile < s.chunk_tiles; ++tile) {
        const int64_t first_chunk = first_of(tile, tiling.chunk_l1bs * tiling.chunks,
                                             std::max(out_.chunks(), tiling.chunk_l1bs * tiling.chunks));
        const auto own_chunk = [&](int64_t number) {
          return std::min(first_chunk + number * tiling.chunks, out_.chunks() - tiling.chunks);
        };
        for (int64_t piece = 0; piece < s.matrix_pieces; ++piece) {
          LoadRows take;
          take.stream = 1 - window_stream;
          take.l2bm = s.matrices_at;
          take.pitch = isa::kCyclesPerStep;
          take.order = matrices_.pitch_order();
          take.buffer = matrices;
          take.normalize = precision_;
          RowsPass wanted;
          if (problem_.by_columns) {
            wanted.from_row = piece * s.matrix_rows;
            take.form = RowsForm::kMatrixColumns;
            take.chunks = tiling.chunks;
            take.rows = std::min(s.matrix_rows, problem_.matrices.rows - wanted.from_row);
            take.first_row = wanted.from_row;
            take.buffer_rows = problem_.matrices.rows;
            take.last_columns = problem_.in.channels - (problem_.matrices.rows - 1) * isa::kCyclesPerStep;
          } else {
            wanted.from_row = std::min(first_chunk * kRowsPerChunk, problem_.matrices.rows - s.matrix_rows);
            if (s.matrices_stay) wanted.from_row = 0;
            take.form = RowsForm::kMatrixRows;
            take.chunks = inner;
            take.rows = take.buffer_rows = s.load_rows;
            take.last_channels = last_channels;
          }
          wanted.most_rows = problem_.by_columns ? take.rows : s.matrix_rows;
          take.l1b_at = for_l1bs([&](int64_t k, int64_t, int64_t number) {
            const int64_t in_entry =
                problem_.by_columns
                    ? own_chunk(number) * kUnitLw
                    : (own_chunk(number) * kRowsPerChunk - wanted.from_row) * matrices_.row_pitch();
            return place(matrices_, entry, k, s.matrix_rows, 0) + in_entry;
          });
          const bool is_there = s.matrices_stay && (outer > 0 || inner_tile > 0 || tile > 0);
          const int64_t own_loads = is_there ? 0 : matrices_.is_inside() ? 1 : tiling.entry_l1bs;
          for (int64_t k = 0; k < own_loads; ++k) {
            wanted.image = matrices_.is_inside() ? 0 : entry + k;
            wanted.region_rows = s.matrix_rows;
            for (RowsTransfer transfer : window_transfers(matrices_, out_, {}, wanted, std::nullopt, chip_)) {
              transfer.l2bm +=
                  s.matrices_at + (matrices_.is_inside() ? 0 : place(matrices_, entry, k, s.matrix_rows, 0));
              take.transfers.push_back(transfer);
            }
          }
          add(take);
        }
        for (int64_t k = 0; k < this->inputs(); ++k) {
          LoadRows beside;
          beside.stream = 2 + static_cast<int>(k);
          beside.l2bm = s.inputs_at + k * s.results_lw;
          if (tile == 0 && comes(out_)) beside.transfers = rows_of_entries(out_, entry, row, beside.l2bm);
          beside.chunks = tiling.chunks;
          beside.pitch = isa::kCyclesPerStep;
          beside.order = out_.pitch_order();
          beside.rows = beside.buffer_rows = tiling.rows;
          beside.buffer = inputs[static_cast<size_t>(k)].buffer;
          beside.l1b_at = for_l1bs([&](int64_t slot, int64_t number, int64_t chunk) {
            return own_row(out_, slot, number) + own_chunk(chunk) * kUnitLw;
          });
          add(beside);
        }
        for (int64_t chunk = 0; chunk < tiling.chunks; ++chunk) {
          WindowProduct product;
          product.precision = precision_;
          product.matrices = matrices;
          product.matrices_at.base = chunk * inner * form_.rows;
          product.windows = windows;
          product.places = inner;
          product.window_rows = product.rows = tiling.rows;
          product.pitch = isa::kCyclesPerStep;
          product.sums = sums;
          add(product);
          FinishRows finish;
          finish.sums = sums;
          finish.rows = finish.buffer_rows = tiling.rows;
          finish.epilogue = problem_.contract.epilogue;
          finish.inputs = inputs;
          finish.chunk = chunk;
          finish.order = {1, tiling.chunks};
          add(finish);
        }
        StoreRows store;
        store.stream = static_cast<int>(placements.size()) - 1;
        store.l2bm = s.results_at;
        store.rows = tiling.rows;
        store.row_lw = out_.row_pitch();
        store.segment_lw = store.l1b_row_lw = s.l1b_row_lw;
        store.l1b_at = for_l1bs([&](int64_t k, int64_t number, int64_t own) {
          return own_row(out_, k, number) + own_chunk(own) * kUnitLw;
        });
        if (tile + 1 == s.chunk_tiles && goes(out_))
          store.transfers = rows_of_entries(out_, entry, row, s.results_at);
        add(store);
      }
    }
  }
  return program;
}

std::string MatmulTiler::describe(const MatmulTiling& tiling) const {
  const Sizes s = *sizes(tiling);
  return fmt::format(
      "{}: L1Bs {} entries x {} rows x {} channels, {} x {} x {} tiles of {} rows, {} of {} chunks, matrices "
      "by {}{}",
      matrix_precision_name(precision_), tiling.entry_l1bs, tiling.row_l1bs, tiling.chunk_l1bs, s.entry_tiles,
      s.row_tiles, s.chunk_tiles, tiling.rows, tiling.chunks, out_.chunks(),
      problem_.by_columns ? "columns" : "rows", order_name(problem_.out));
}

std::vector<Candidate> matmul_candidates(const Layer& layer, const LayerGraph& graph, const isa::Chip& chip,
                                         const KernelOptions& options) {
  // What the quads of an L1B make must be what its quads take.
  if (chip.mab_per_l1b != kBlocksPerChunk * kBlocksPerChunk) return {};
  const std::optional<MatrixPrecision> precision = precision_of_made_matrices(options.precision);
  if (!precision) return {};
  std::vector<Candidate> candidates;
  const auto& contract = std::get<ContractLayer>(layer.body);
  for (const bool by_columns : {false, true}) {
    for (const bool heads_first : {false, true}) {
      for (const bool inside : {false, true}) {
        for (const bool dealt : {false, true}) {
          auto problem =
              matmul_problem(contract, layer.outputs.at(0), by_columns, heads_first, inside, dealt, graph);
          if (!problem) break;
          const auto tiler = std::make_shared<const MatmulTiler>(std::move(*problem), chip, *precision);
          if ((inside && !tiler->can_be_inside()) || (dealt && !tiler->can_be_dealt())) break;
          if (const auto tiling = tiler->best())
            candidates.push_back(rows_candidate(tiler, *tiling, layer.name));
        }
      }
    }
  }
  return candidates;
}

}  // namespace

Kernel matmul_rows_kernel() {
  Kernel kernel;
  kernel.name = kMatmulRows;
  kernel.description = "products of two tensors that layers make, on images of rows";
  kernel.kind = LayerKind::kContract;
  kernel.run = matmul_candidates;
  return kernel;
}

}  // namespace kodama::compiler
