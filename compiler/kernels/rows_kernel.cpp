#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <tuple>
#include <utility>

#include "compiler/kernels/builtin_kernels.h"
#include "compiler/kernels/lowering.h"
#include "compiler/kernels/predict.h"
#include "compiler/kernels/rows.h"
#include "compiler/kernels/rows_division.h"
#include "isa/arithmetic.h"
#include "isa/error.h"

/// "contract-rows": products with constant matrices on images of rows (compiler/tile/tile_program.h), without
/// an expanded operand: a position of a convolution's kernel is an offset of addresses.
///
/// An image has whole rows, in an order that every kernel of this kind makes and takes. What an L2B needs,
/// the rows above and below its own included, comes by transfers from wherever it is. In an L1B
///
///   - the four MABs of a quad take a quarter of the channels each, as block floats: block m % 4 of a chunk;
///   - the quads make eight output channels each, an L1B 32 at a time: their sums meet in l1bmr4;
///   - L1Bs have different rows, columns, output channels, or input channels: of these what they make is
///     added up in l2bmr, and the epilogue runs on rows that they take of the sums.
///
/// Groups and L2Bs have different output channels or different rows, too. So the program is
///
///     for passes: load the rows of all input channels
///       for chunks of output channels: load matrices (once, where all fit), sums = 0,
///         sums += matrices * windows, epilogue, to L1BM
///       store the rows
namespace kodama::compiler {

using isa::ceil_div;
using isa::round_up;
using isa::Space;
using layout::Factor;
using layout::Layout;
using layout::Level;
using layout::Transport;

namespace {

constexpr const char* kRowsKernel = "contract-rows";
constexpr int64_t kMaxPasses = 8;
/// Rows that all L1Bs take part of come in pieces of so much of L2BM.
constexpr int64_t kPieces = 6;
/// Their sums are made tile by tile, so that pieces are fetched beside products: not more tiles than these,
/// where more aren't needed, and not fewer vectors to a matrix.
constexpr int64_t kTiles = 4;
constexpr int64_t kTileVectors = 4;

/// The layer as windows of one picture that make another.
struct RowsProblem {
  ContractLayer contract;
  bool weights_first = true;  ///< operand a is the matrix
  Picture in, out;
  RowsWindow window;
  std::vector<int> out_channels;           ///< dims
  std::vector<int> in_channels;            ///< dims; the second: of the kernel's columns, folded
  std::array<int, 2> kernel_dims{-1, -1};  ///< dims; -1 = the kernel has one position there
  /// Of the epilogue's inputs: one value for a channel, or else what is read at every place of the result.
  std::vector<std::optional<TensorAccess>> of_rows;

  const TensorAccess& weights() const { return weights_first ? contract.a : contract.b; }
  const TensorAccess& activation() const { return weights_first ? contract.b : contract.a; }
};

/// What of an axis depends on dims: the one outside K, the one of K; -1 = none. Nothing where there are more.
struct AxisUse {
  int outer = -1, inner = -1;
};
std::optional<AxisUse> axis_use(const AffineMap& map, size_t axis, const ContractLayer& contract) {
  AxisUse use;
  for (size_t dim = 0; dim < contract.dims.size(); ++dim) {
    if (map.coefficient(axis, dim) == 0 || contract.dims[dim].extent == 1) continue;
    int& slot = contract.dims[dim].role == ContractLayer::Role::kK ? use.inner : use.outer;
    if (slot >= 0) return std::nullopt;
    slot = static_cast<int>(dim);
  }
  return use;
}

/// What an access over a contraction reads at an index of the result, each of whose axes is `made` of a dim.
/// Axes of one index are as in the identity, so that who reads the whole tensor says so in one way.
TensorAccess over_result(const TensorAccess& access, const std::vector<AxisUse>& made) {
  TensorAccess result = access;
  result.map = AffineMap(access.map.axes(), made.size());
  for (size_t axis = 0; axis < access.map.axes(); ++axis) {
    result.map.set_offset(axis, access.map.offset(axis));
    for (size_t of = 0; of < made.size(); ++of) {
      const int dim = made[of].outer;
      result.map.set(axis, of,
                     dim >= 0 ? access.map.coefficient(axis, static_cast<size_t>(dim)) : axis == of);
    }
  }
  return result;
}

/// The order of the operand's axes in which its places are those of the result; nothing where it has others.
std::optional<std::vector<int>> operand_order(const Picture& out, const std::vector<AxisUse>& made,
                                              const std::vector<AxisUse>& read) {
  std::vector<int> order;
  const size_t axes = read.size() - 1;
  for (size_t axis = 0; axis < axes; ++axis) {
    if (read[axis].outer < 0) order.push_back(static_cast<int>(axis));
  }
  for (const int result : out.tokens->tokens) {
    const int dim = made[static_cast<size_t>(result)].outer;
    if (dim < 0) continue;
    const auto found =
        std::ranges::find(read.begin(), read.begin() + static_cast<ptrdiff_t>(axes), dim, &AxisUse::outer);
    if (found == read.begin() + static_cast<ptrdiff_t>(axes)) return std::nullopt;
    order.push_back(static_cast<int>(found - read.begin()));
  }
  if (order.size() != axes) return std::nullopt;
  return order;
}

/// With the result as picture `number` of pictures_of. Nothing where the layer has another form.
std::optional<RowsProblem> rows_problem(const ContractLayer& contract, TensorId output,
                                        const LayerGraph& graph, size_t number) {
  using Role = ContractLayer::Role;
  const auto is_constant = [&](const TensorAccess& access) {
    return graph.tensors[static_cast<size_t>(graph.storage(access.tensor))].constant.has_value();
  };
  const auto shape_of = [&](TensorId tensor) -> const Shape& {
    return graph.tensors[static_cast<size_t>(tensor)].shape;
  };
  if (is_constant(contract.a) == is_constant(contract.b)) return std::nullopt;
  RowsProblem problem;
  problem.contract = contract;
  problem.weights_first = is_constant(contract.a);
  const Role out_role = problem.weights_first ? Role::kM : Role::kN;
  for (size_t dim = 0; dim < contract.dims.size(); ++dim) {
    if (contract.dims[dim].extent == 1) continue;
    if (contract.dims[dim].role == Role::kBatch) return std::nullopt;
    if (contract.dims[dim].role == out_role) problem.out_channels.push_back(static_cast<int>(dim));
  }
  if (problem.out_channels.size() != 1) return std::nullopt;
  const auto dim_extent = [&](int dim) {
    return dim < 0 ? 1 : contract.dims[static_cast<size_t>(dim)].extent;
  };

  // The result: its channels, and its picture.
  const AffineMap& result = contract.output;
  std::vector<AxisUse> made;
  size_t channel_axis = result.axes();
  for (size_t axis = 0; axis < result.axes(); ++axis) {
    const auto use = axis_use(result, axis, contract);
    if (!use || use->inner >= 0 || result.offset(axis) != 0) return std::nullopt;
    if (use->outer >= 0 && result.coefficient(axis, static_cast<size_t>(use->outer)) != 1)
      return std::nullopt;
    if (dim_extent(use->outer) != contract.output_shape[axis]) return std::nullopt;
    if (use->outer == problem.out_channels[0]) channel_axis = axis;
    made.push_back(*use);
  }
  const std::vector<Picture> pictures = pictures_of(output, contract.output_shape, channel_axis);
  if (number >= pictures.size()) return std::nullopt;
  const Picture* out = &pictures[number];
  problem.out = *out;

  // The operand.
  const AffineMap& map = problem.activation().map;
  const Shape& shape = shape_of(problem.activation().tensor);
  std::vector<AxisUse> read;
  for (size_t axis = 0; axis < map.axes(); ++axis) {
    const auto use = axis_use(map, axis, contract);
    if (!use) return std::nullopt;
    read.push_back(*use);
  }
  const size_t in_channel_axis = out->tokens ? map.axes() - 1 : 1;
  if (in_channel_axis >= map.axes() || read[in_channel_axis].outer >= 0) return std::nullopt;
  const auto in = picture_of(problem.activation().tensor, shape, in_channel_axis);
  if (!in || in->tokens.has_value() != out->tokens.has_value()) return std::nullopt;
  if (!in->tokens && map.axes() != result.axes()) return std::nullopt;
  problem.in = *in;
  if (in->tokens) {
    const auto order = operand_order(*out, made, read);
    if (!order) return std::nullopt;
    problem.in.tokens->tokens = *order;
  }
  const int in_channel = read[in_channel_axis].inner;
  if (in_channel < 0 || dim_extent(in_channel) != in->channels ||
      map.coefficient(in_channel_axis, static_cast<size_t>(in_channel)) != 1 ||
      map.offset(in_channel_axis) != 0) {
    return std::nullopt;
  }
  size_t inner_dims = 1;
  for (size_t axis = 0; axis < map.axes(); ++axis) {
    if (axis == in_channel_axis) continue;
    const AxisUse& use = read[axis];
    if (!in->tokens && use.outer != made[axis].outer) return std::nullopt;
    const bool windowed = !in->tokens && axis >= 2;
    if (!windowed) {
      if (use.inner >= 0 || map.offset(axis) != 0 || shape[axis] != dim_extent(use.outer))
        return std::nullopt;
      if (use.outer >= 0 && map.coefficient(axis, static_cast<size_t>(use.outer)) != 1) return std::nullopt;
      continue;
    }
    const size_t way = axis - 2;
    if (use.outer >= 0) problem.window.stride.at(way) = map.coefficient(axis, static_cast<size_t>(use.outer));
    if (use.inner >= 0) {
      ++inner_dims;
      problem.kernel_dims.at(way) = use.inner;
      problem.window.kernel.at(way) = dim_extent(use.inner);
      problem.window.dilation.at(way) = map.coefficient(axis, static_cast<size_t>(use.inner));
    }
    problem.window.pad.at(way) = -map.offset(axis);
    if (problem.window.stride.at(way) < 1 || problem.window.dilation.at(way) < 1 ||
        problem.window.pad.at(way) < 0)
      return std::nullopt;
  }
  const auto is_inner = [](const ContractLayer::Dim& dim) { return dim.role == Role::kK && dim.extent > 1; };
  if (static_cast<size_t>(std::ranges::count_if(contract.dims, is_inner)) != inner_dims) return std::nullopt;
  if (problem.activation().fill != 0) return std::nullopt;
  // Behind the last of few columns there is anything.
  const RowsWindow& window = problem.window;
  if (!in->tokens && shape.back() < isa::kCyclesPerStep &&
      (window.kernel[1] > 1 || window.pad[1] > 0 || window.stride[1] > 1))
    return std::nullopt;
  // Few channels: the kernel's columns fill the chunk.
  problem.in_channels = {in_channel};
  if (!in->tokens && problem.kernel_dims[1] >= 0 &&
      in->channels * problem.window.kernel[1] <= kChunkChannels) {
    problem.in.folded = problem.window;
    problem.in.channels *= problem.window.kernel[1];
    problem.in.columns = problem.out.columns;
    problem.in_channels.push_back(problem.kernel_dims[1]);
    problem.kernel_dims[1] = -1;
    problem.window.kernel[1] = problem.window.stride[1] = problem.window.dilation[1] = 1;
    problem.window.pad[1] = 0;
  }
  for (size_t dim = 0; dim < contract.dims.size(); ++dim) {
    const auto number = static_cast<int>(dim);
    if (contract.dims[dim].extent == 1 || contract.dims[dim].role == Role::kK ||
        number == problem.out_channels[0])
      continue;
    for (size_t axis = 0; axis < problem.weights().map.axes(); ++axis) {
      if (problem.weights().map.coefficient(axis, dim) != 0) return std::nullopt;
    }
  }

  for (const TensorAccess& input : contract.epilogue_inputs) {
    bool for_channel = true;
    for (size_t axis = 0; axis < input.map.axes(); ++axis) {
      const auto use = axis_use(input.map, axis, contract);
      for_channel =
          for_channel && use && use->inner < 0 && (use->outer < 0 || use->outer == problem.out_channels[0]);
    }
    problem.of_rows.emplace_back();
    if (!for_channel) problem.of_rows.back() = over_result(input, made);
  }
  return problem;
}

/// What the L1Bs of an L2B have of their own: rows or columns of results, output channels, or input channels.
enum class L1bShare : uint8_t { kRows, kColumns, kOutputs, kInputs };
/// Whether all L1Bs take part of every row: then rows come in pieces, and sums are made in tiles of rows.
bool shares_rows(L1bShare share) {
  return share == L1bShare::kColumns || share == L1bShare::kInputs;
}

/// Everything that a candidate decides.
struct RowsTiling {
  RowsSplit in, out;
  L1bShare share = L1bShare::kRows;
  int64_t rows = 1;  ///< of an L1B in a pass
  int64_t l1bs = 1;  ///< that have rows of their own
  int64_t cycles = 0;
};

class RowsTiler {
 public:
  RowsTiler(RowsProblem problem, const isa::Chip& chip, MatrixPrecision precision)
      : problem_(std::move(problem)), chip_(chip), precision_(precision), form_(matrix_form(precision)) {}

  /// One for each way to take the operand and make the result, nothing where it doesn't fit.
  std::vector<RowsTiling> tilings() const {
    std::vector<RowsTiling> list;
    for (const RowsSplit in : kRowsSplits) {
      for (const RowsSplit out : kRowsSplits) {
        for (const L1bShare share :
             {L1bShare::kRows, L1bShare::kColumns, L1bShare::kOutputs, L1bShare::kInputs}) {
          if (const auto tiling = best(in, out, share)) list.push_back(*tiling);
        }
      }
    }
    return list;
  }

  std::vector<StreamPlacement> placements(const RowsTiling& tiling) const;
  TileProgram program(const RowsTiling& tiling, const std::string& name,
                      const std::vector<StreamPlacement>& placements,
                      const std::vector<int64_t>& dram_addresses) const;
  std::string describe(const RowsTiling& tiling) const;

  /// Sizes that follow from a tiling.
  struct Sizes : RowsDivision {
    int64_t chunks_in = 0;    ///< in a PE's windows
    int64_t chunks_out = 0;   ///< of an L1B
    int64_t tile_rows = 0;    ///< of an L1B, whose sums are made at a time
    int64_t finish_rows = 0;  ///< of an L1B in the epilogue, of `finish_l1bs`
    int64_t finish_l1bs = 0;
    int64_t groups = 0;         ///< vectors of a row of results
    int64_t matrices_lw = 0;    ///< of a chunk of output channels
    bool all_matrices = false;  ///< of all chunks fit
    int64_t windows_lw = 0, sums_lw = 0;
    int64_t row_inputs = 0;
    bool spread = false;       ///< columns of a row over MABs, in the epilogue
    int64_t row_input_lw = 0;  ///< of an input of the epilogue in PE memory
    int64_t l1b_row_lw = 0;    ///< results of a row in L1BM
    int64_t region_l2bm = 0, input_l2bm = 0, result_l2bm = 0;  ///< LW
  };

  Sizes sizes(const RowsTiling& tiling) const {
    Sizes s{{problem_.in,
             tiling.in,
             problem_.out,
             tiling.out,
             problem_.window,
             {tiling.rows, tiling.l1bs, tiling.share == L1bShare::kRows},
             chip_}};
    const bool own_outputs = tiling.share == L1bShare::kOutputs;
    const bool own_inputs = tiling.share == L1bShare::kInputs;
    s.chunks_in = s.in.channel_ways() * s.in.chunks() / (own_inputs ? chip_.l1b_per_l2b : 1);
    s.chunks_out = own_outputs ? s.out.chunks() / chip_.l1b_per_l2b : s.out.chunks();
    if (tiling.share == L1bShare::kColumns) s.share_columns(chip_.l1b_per_l2b);
    s.groups = std::ssize(column_groups(s.columns));
    s.matrices_lw = s.chunks_in * problem_.window.kernel[0] * problem_.window.kernel[1] * form_.rows;
    const int64_t local = chip_.memory.lm_words / isa::kWordsPerLong - kRowsReserveLw;
    s.windows_lw = round_up(s.chunks_in * s.window_rows * s.pitch, isa::kCyclesPerStep);
    s.l1b_row_lw = tiling.share == L1bShare::kRows ? s.out.row_lw() : s.chunks_out * s.columns * kColumnLw;
    s.tile_rows = s.finish_rows = tiling.rows;
    s.finish_l1bs = s.l1bs;
    if (shares_rows(tiling.share)) {
      // Rows come in pieces, so that what follows is fetched meanwhile.
      s.region_rows = std::clamp<int64_t>(
          chip_.memory.l2bm_lw / kPieces / (s.in.channel_ways() * s.in_row_lw()), 1, s.region_rows);
      const int64_t most =
          std::max<int64_t>(1, std::min(most_sums() / (s.groups * isa::kCyclesPerStep),
                                        (rows_staging(chip_).results_lw - isa::kL2bmBlockLw) / s.l1b_row_lw));
      const int64_t tiles =
          std::max(ceil_div(tiling.rows, most), std::min(kTiles, tiling.rows * s.groups / kTileVectors));
      s.tile_rows = ceil_div(tiling.rows, std::max<int64_t>(1, tiles));
    }
    if (own_inputs) {
      s.finish_rows = ceil_div(tiling.rows, chip_.l1b_per_l2b);
      s.finish_l1bs = ceil_div(tiling.rows, s.finish_rows);
    }
    s.sums_lw = s.tile_rows * s.groups * isa::kCyclesPerStep;
    s.row_inputs =
        std::ranges::count_if(problem_.of_rows, [](const auto& input) { return input.has_value(); });
    // Of four columns, a MAB may have one: then what the epilogue works on is four rows at a time.
    s.spread = problem_.out.tokens && !shares_rows(tiling.share) && has_epilogue() && tiling.rows > 1;
    s.row_input_lw =
        s.spread ? round_up(s.chunks_out, isa::kCyclesPerStep) * round_up(s.finish_rows, isa::kCyclesPerStep)
                 : round_up(s.chunks_out * s.finish_rows * s.columns, isa::kCyclesPerStep);
    const int64_t others = s.row_inputs * s.row_input_lw;
    s.all_matrices = s.chunks_out * s.matrices_lw + others <= local;
    s.region_l2bm = s.part_l2bm(s.parts.size(), s.in.channel_ways());
    s.input_l2bm = s.out.row_lw() * (own_inputs ? std::max(s.pass_rows, s.finish_l1bs * s.finish_rows)
                                     : tiling.share == L1bShare::kColumns ? s.tile_rows
                                                                          : s.pass_rows);
    s.result_l2bm = s.input_l2bm + isa::kL2bmBlockLw;
    return s;
  }

  int64_t most_sums() const { return chip_.memory.grf_words / isa::kWordsPerLong * 3 / 4; }
  bool has_epilogue() const { return problem_.contract.epilogue != ScalarExpr::identity(); }

  bool fits(const RowsTiling& tiling, const Sizes& s) const {
    const RowsStaging staging = rows_staging(chip_);
    const int64_t local = chip_.memory.lm_words / isa::kWordsPerLong - kRowsReserveLw;
    const int64_t matrices = (s.all_matrices ? s.chunks_out : 1) * s.matrices_lw;
    const bool own_inputs = tiling.share == L1bShare::kInputs;
    // Sums over L1Bs come back as an input of the epilogue.
    const int64_t totals = own_inputs ? s.row_input_lw : 0;
    const int64_t read_row = shares_rows(tiling.share) ? l1b_row(tiling, s) : s.longest_row_lw();
    const int64_t beside_row = tiling.share == L1bShare::kColumns
                                   ? s.chunks_out * round_up(s.columns * kColumnLw, isa::kL2bmBlockLw)
                                   : s.out.row_lw();
    // Matrices that don't all fit are loaded once for each chunk.
    if (!s.all_matrices && s.tile_rows < tiling.rows) return false;
    return s.sums_lw <= most_sums() && s.windows_lw + totals <= local &&
           matrices + s.row_inputs * s.row_input_lw <= local &&
           std::max(read_row, beside_row) <= staging.windows_lw &&
           (own_inputs ? std::max(s.tile_rows, s.finish_rows) : s.tile_rows) *
                       round_up(s.l1b_row_lw, isa::kL2bmBlockLw) +
                   (s.spread ? 3 * isa::kL2bmBlockLw : 0) <=
               staging.results_lw &&
           std::max(
               s.region_l2bm + s.row_inputs * s.input_l2bm + (shares_rows(tiling.share) ? s.result_l2bm : 0),
               s.result_l2bm) <= chip_.memory.l2bm_lw &&
           s.passes * s.out.images() <= kMaxPasses;
  }

  /// LW of L1BM for what an L1B with input channels or columns of its own takes of a row of a part.
  int64_t l1b_row(const RowsTiling& tiling, const Sizes& s) const {
    if (tiling.share == L1bShare::kColumns) {
      int64_t chunks = 0;
      for (const RowsImage& part : s.parts) chunks = std::max(chunks, part.chunks());
      return chunks * round_up(s.pitch * kColumnLw, isa::kL2bmBlockLw);
    }
    return round_up(std::min(s.chunks_in, s.parts[0].chunks()) * problem_.in.columns * kColumnLw,
                    isa::kL2bmBlockLw);
  }

  std::optional<RowsTiling> best(RowsSplit in, RowsSplit out, L1bShare share) const {
    RowsTiling tiling{in, out, share, 1, 1, 0};
    const Sizes one = sizes(tiling);
    if (!one.is_even()) return std::nullopt;
    if (share == L1bShare::kOutputs && one.out.chunks() % chip_.l1b_per_l2b != 0) return std::nullopt;
    if (share == L1bShare::kColumns && !one.has_columns()) return std::nullopt;
    if (share == L1bShare::kInputs) {
      // Whole chunks for everyone, each L1B's in one part or in whole ones.
      if (one.in.channel_ways() * one.in.chunks() % chip_.l1b_per_l2b != 0) return std::nullopt;
      if (!one.can_share_chunks(one.chunks_in)) return std::nullopt;
    }
    return best_division(*this, tiling, one.out.rows(), share == L1bShare::kRows ? chip_.l1b_per_l2b : 1);
  }

  int64_t cost(const RowsTiling& tiling, const Sizes& s) const {
    const int64_t passes = s.passes * s.out.images();
    const bool own_inputs = tiling.share == L1bShare::kInputs;
    const int64_t ways = tiling.share == L1bShare::kOutputs ? 1 : s.l1bs;
    const bool own_columns = tiling.share == L1bShare::kColumns;
    const int64_t row_inputs = s.row_inputs + (own_inputs && has_epilogue() ? 1 : 0);
    // Where L1Bs have columns, every chunk is a segment of its own.
    const auto load_steps = [&](int64_t parts, int64_t rows, int64_t chunks, int64_t columns, int64_t sets,
                                int64_t each) {
      return own_columns ? load_rows_steps(parts, rows * chunks, 1, columns, sets, each, 0)
                         : load_rows_steps(parts, rows, chunks, columns, sets, each);
    };
    int64_t load = 0;
    for (const RowsDivision::Run& run : s.runs()) {
      const int64_t parts = own_inputs ? ceil_div(s.chunks_in, s.parts[0].chunks())
                                       : static_cast<int64_t>(run.count) * s.in.channel_ways();
      const int64_t chunks = own_inputs ? s.chunks_in / parts : s.parts[run.first].chunks();
      load += load_steps(parts, s.window_rows, chunks, own_columns ? s.pitch : problem_.in.columns, ways, 4);
    }
    const int64_t matrices = s.matrices_lw / form_.rows;
    const int64_t vectors = s.tile_rows * s.groups;
    const int64_t tiles = ceil_div(tiling.rows, s.tile_rows);
    // The sum goes up and comes back; the operations of the epilogue stand beside each other's.
    int64_t finish = 1;
    if (has_epilogue()) {
      finish = 3;
      for (const ScalarNode& node : problem_.contract.epilogue.nodes()) finish += machine_operations(node.op);
    }
    const int64_t row_blocks = ceil_div(s.l1b_row_lw, isa::kL2bmBlockLw);
    const int64_t product = s.chunks_out * matrices * std::max(vectors, form_.write_steps);
    int64_t steps = row_inputs * load_steps(1, s.finish_rows, s.chunks_out, s.columns,
                                            own_columns ? s.l1bs : chip_.l1b_per_l2b, 1);
    if (shares_rows(tiling.share)) {
      // The rows of a tile are taken beside the products of the one before.
      steps += std::max(load, tiles * product) + std::min(load, tiles * product) / tiles;
      steps += tiles * s.chunks_out * kRowsFillSteps;
      if (own_columns) {
        steps += tiles * s.chunks_out * vectors * finish +
                 s.l1bs * tiling.rows * s.chunks_out * ceil_div(s.columns * kColumnLw, isa::kL2bmBlockLw);
      } else {
        steps += tiling.rows * row_blocks;
        if (has_epilogue())
          steps +=
              s.chunks_out * s.finish_rows * s.groups * finish + tiling.rows * row_blocks + kRowsFillSteps;
      }
    } else {
      const int64_t finished = s.spread ? ceil_div(vectors, isa::kCyclesPerStep) * finish : vectors * finish;
      steps += load + product + s.chunks_out * (kRowsFillSteps + vectors + finished);
      steps += s.l1bs * tiling.rows * row_blocks;
    }
    std::vector<RowsTransfer> transfers;
    for (const Piece& piece : pieces(tiling, s, 0, 0)) {
      for (size_t part = 0; part < s.parts.size(); ++part) {
        const std::vector<RowsTransfer> list = input_transfers(s, part, 0, 0, piece, 0, 0);
        transfers.insert(transfers.end(), list.begin(), list.end());
      }
    }
    int64_t cycles = steps * isa::kCyclesPerStep + rows_transfer_cycles(transfers, chip_);
    // Steps wait for those of a piece one by one.
    if (shares_rows(tiling.share)) cycles += std::ssize(transfers) * chip_.transfer.startup_cycles / 2;
    cycles += (1 + s.row_inputs) * own_rows_cycles(s.input_l2bm, chip_) * (own_columns ? tiles : 1);
    const int64_t loads = s.all_matrices ? 1 : passes * s.chunks_out;
    return cycles * passes + loads * load_cycles(weights_transport(tiling, s),
                                                 (s.all_matrices ? s.chunks_out : 1) * s.matrices_lw, chip_,
                                                 true);
  }

 private:
  Transport weights_transport(const RowsTiling& tiling, const Sizes& s) const {
    return {chip_, s.out.channel_mode(),
            tiling.share == L1bShare::kRows || tiling.share == L1bShare::kColumns
                ? layout::L1bMode::kBroadcast
                : layout::L1bMode::kDistribute,
            layout::MabMode::kDistribute};
  }
  /// Of whatdepends on output channels alone.
  Transport values_transport(const RowsTiling& tiling, const Sizes& s) const {
    return {chip_, s.out.channel_mode(),
            tiling.share == L1bShare::kOutputs ? layout::L1bMode::kDistribute : layout::L1bMode::kBroadcast,
            layout::MabMode::kDistribute};
  }
  /// Levels over which that is the same.
  std::vector<Factor> channel_copies(const RowsTiling& tiling, const Sizes& s) const {
    std::vector<Factor> copies = s.out.row_way_factors();
    if (tiling.share != L1bShare::kOutputs) copies.push_back({chip_.l1b_per_l2b, Level::kL1b, 1});
    return copies;
  }
  std::vector<Factor> out_channel_factors(const RowsTiling& tiling, const Sizes& s,
                                          int64_t chunk_stride) const {
    std::vector<Factor> factors = s.out.channel_factors();
    if (tiling.share == L1bShare::kOutputs) factors.push_back({chip_.l1b_per_l2b, Level::kL1b, 1});
    factors.push_back({s.chunks_out, Level::kAddress, chunk_stride});
    factors.push_back({kBlocksPerChunk, Level::kMab, kBlocksPerChunk});
    return factors;
  }

  /// LW of zeros behind the matrices, for rows outside the tensor.
  int64_t zeros_lw(const RowsTiling& tiling, const Sizes& s) const {
    int64_t most = 0;
    for (int64_t image = 0; image < s.out.images(); ++image) {
      for (int64_t pass = 0; pass < s.passes; ++pass) {
        for (const Piece& piece : pieces(tiling, s, image, pass)) {
          for (size_t part = 0; part < s.parts.size(); ++part) {
            for (const RowsTransfer& transfer : input_transfers(s, part, image, pass, piece, 0, 0))
              most = std::max(most, transfer.stream >= 0 ? transfer.count : 0);
          }
        }
      }
    }
    return most;
  }

  /// Rows of a pass that are in L2BM at a time.
  struct Piece {
    int64_t first = 0, rows = 0;
  };
  std::vector<Piece> pieces(const RowsTiling& tiling, const Sizes& s, int64_t image, int64_t pass) const {
    if (!shares_rows(tiling.share)) return {{0, s.region_rows}};
    // All L1Bs take the same rows. In a single pass, those outside the tensor for all L2Bs stay as the
    // windows were filled.
    const RowsPass all = s.pass(image, pass);
    auto [first, last] = std::pair<int64_t, int64_t>(0, problem_.window.rows_under(all.rows));
    if (s.passes * s.out.images() == 1)
      std::tie(first, last) = rows_inside(s.in, s.out, problem_.window, all, chip_);
    std::vector<Piece> list;
    for (int64_t row = first; row < last; row += s.region_rows)
      list.push_back({row, std::min(s.region_rows, last - row)});
    return list;
  }
  /// The rows of a piece of a part of the operand for each L2B.
  std::vector<RowsTransfer> input_transfers(const Sizes& s, size_t part, int64_t image, int64_t pass,
                                            const Piece& piece, int64_t zeros, int zero_stream) const {
    RowsTransfer outside;
    outside.stream = zero_stream;
    outside.group = 0;
    outside.dram = zeros;
    RowsPass wanted = s.pass(image, pass);
    wanted.first_row = piece.first;
    wanted.most_rows = piece.rows;
    return window_transfers(s.parts[part], s.out, problem_.window, wanted, outside, chip_);
  }

  RowsProblem problem_;
  isa::Chip chip_;
  MatrixPrecision precision_;
  const MatrixForm& form_;
};

/// In the order contract a, contract b, epilogue inputs, output.
std::vector<StreamPlacement> RowsTiler::placements(const RowsTiling& tiling) const {
  const Sizes s = sizes(tiling);
  Shape extents;
  for (const ContractLayer::Dim& dim : problem_.contract.dims) extents.push_back(dim.extent);

  StreamPlacement weights;
  weights.name = problem_.weights_first ? "a" : "b";
  weights.access = problem_.weights();
  weights.extents = extents;
  weights.transport = weights_transport(tiling, s);
  const int64_t zero_numbers = ceil_div(zeros_lw(tiling, s), weights.transport.l2bm_lw_per_number());
  weights.length_lw = round_up(s.chunks_out * s.matrices_lw, weights.transport.granule()) +
                      round_up(zero_numbers, weights.transport.granule());
  {
    std::vector<Factor> outs = out_channel_factors(tiling, s, s.matrices_lw);
    outs.push_back({form_.rows, Level::kAddress, 1});
    const int64_t positions = problem_.window.kernel[0] * problem_.window.kernel[1];
    std::vector<Factor> ins = {{s.chunks_in, Level::kAddress, positions * form_.rows},
                               {kBlocksPerChunk, Level::kMab, 1},
                               {isa::kPePerMab, Level::kPe, 1},
                               {isa::kWordsPerLong, Level::kWord, 1}};
    std::vector<Factor> copies = s.out.row_way_factors();
    if (tiling.share == L1bShare::kInputs) {
      ins.insert(ins.begin(), {chip_.l1b_per_l2b, Level::kL1b, 1});
    } else {
      copies = channel_copies(tiling, s);
    }
    std::vector<std::vector<Factor>> axes = {outs, ins};
    weights.axis_dims = {problem_.out_channels, problem_.in_channels};
    for (size_t way = 0; way < 2; ++way) {
      if (problem_.kernel_dims.at(way) < 0) continue;
      weights.axis_dims.push_back({problem_.kernel_dims.at(way)});
      axes.push_back({{problem_.window.kernel.at(way), Level::kAddress,
                       (way == 0 ? problem_.window.kernel[1] : 1) * form_.rows}});
    }
    weights.layout = Layout(axes, layout::Memory::kLm0, copies);
  }
  place_single(weights);
  std::vector<StreamPlacement> list;
  const std::string name = problem_.weights_first ? "b" : "a";
  for (size_t part = 0; part < s.parts.size(); ++part)
    list.push_back(s.parts[part].placement(s.parts.size() == 1 ? name : fmt::format("{}{}", name, part)));
  list.insert(problem_.weights_first ? list.begin() : list.end(), std::move(weights));
  for (size_t k = 0; k < problem_.contract.epilogue_inputs.size(); ++k) {
    const TensorAccess& access = problem_.contract.epilogue_inputs[k];
    if (problem_.of_rows[k]) {
      Picture picture = problem_.out;
      picture.tensor = access.tensor;
      list.push_back(RowsImage(picture, tiling.out, chip_).placement(fmt::format("x{}", k)));
      list.back().access = *problem_.of_rows[k];
      continue;
    }
    StreamPlacement values;
    values.name = fmt::format("x{}", k);
    values.access = access;
    values.extents = extents;
    values.transport = values_transport(tiling, s);
    values.length_lw = round_up(s.chunks_out, values.transport.granule());
    // The MAB's block, and the MABs that have the same.
    const int64_t of_block = s.spread ? 1 : kBlocksPerChunk;
    std::vector<Factor> outs = out_channel_factors(tiling, s, 1);
    outs.back().stride = of_block;
    outs.insert(outs.end(), form_.row_factors.begin(), form_.row_factors.end());
    std::vector<Factor> copies = channel_copies(tiling, s);
    copies.push_back({kBlocksPerChunk, Level::kMab, kBlocksPerChunk / of_block});
    values.axis_dims = {problem_.out_channels};
    values.layout = Layout({outs}, layout::Memory::kLm0, copies);
    place_single(values);
    list.push_back(std::move(values));
  }
  StreamPlacement result = s.out.placement("y");
  result.is_output = true;
  // In channels that fill a chunk up, sums are 0.
  const std::vector<double> zeros(problem_.contract.epilogue_inputs.size() + 1, 0.0);
  if (problem_.contract.epilogue.evaluate(zeros) != 0) result.layout.set_padding(layout::Padding::kUndefined);
  list.push_back(std::move(result));
  return list;
}

TileProgram RowsTiler::program(const RowsTiling& tiling, const std::string& name,
                               const std::vector<StreamPlacement>& placements,
                               const std::vector<int64_t>& dram_addresses) const {
  isa::check_internal(placements.size() == dram_addresses.size(), kRowsKernel, "{} addresses for {} streams",
                      dram_addresses.size(), placements.size());
  const Sizes s = sizes(tiling);
  TileProgram program;
  program.name = name;
  for (size_t k = 0; k < placements.size(); ++k) {
    program.streams.push_back(
        {placements[k].name, placements[k].transport, placements[k].length_lw, dram_addresses[k]});
  }
  const int window_stream = problem_.weights_first ? 1 : 0;
  const auto operands = static_cast<int>(s.parts.size());
  const int weight_stream = problem_.weights_first ? 0 : operands;
  const int result_stream = static_cast<int>(placements.size()) - 1;
  const auto buffer = [&](std::string buffer_name, int64_t lw, scheduler::HomeSet homes) {
    program.buffers.push_back({std::move(buffer_name), lw, homes});
    return static_cast<int>(program.buffers.size()) - 1;
  };
  const isa::SpaceSet any_local = isa::space_bit(Space::kLm0) | isa::space_bit(Space::kLm1);
  const int64_t kept_matrices = (s.all_matrices ? s.chunks_out : 1) * s.matrices_lw;
  const int matrices = buffer("matrices", kept_matrices, isa::space_bit(Space::kLm0));
  const int windows = buffer("windows", s.windows_lw, isa::space_bit(Space::kLm1));
  const int sums = buffer("sums", s.sums_lw, isa::space_bit(Space::kGrf0));
  const auto add = [&](auto op) { program.body.push_back({std::move(op)}); };

  std::vector<RowsInput> inputs;
  for (size_t k = 0; k < problem_.of_rows.size(); ++k) {
    const int stream = 1 + operands + static_cast<int>(k);
    const std::string& stream_name = placements[static_cast<size_t>(stream)].name;
    if (problem_.of_rows[k]) {
      inputs.push_back({buffer(stream_name, s.row_input_lw, isa::space_bit(Space::kLm0)), true});
      continue;
    }
    const int64_t count = round_up(s.chunks_out, isa::kCyclesPerStep);
    inputs.push_back({buffer(stream_name, count, any_local), false});
    add(LoadTile{stream, {}, inputs.back().buffer, {}, count});
  }
  const bool own_inputs = tiling.share == L1bShare::kInputs;
  const bool own_columns = tiling.share == L1bShare::kColumns;
  if (own_columns || own_inputs || s.pitch > problem_.in.columns) add(FillTile{windows, {}, s.windows_lw, 0});
  if (s.all_matrices) add(LoadTile{weight_stream, {}, matrices, {}, kept_matrices, precision_});

  const Transport& road = program.streams[static_cast<size_t>(weight_stream)].transport;
  const int64_t zeros = round_up(s.chunks_out * s.matrices_lw, road.granule()) * road.l2bm_lw_per_number();
  const std::vector<int64_t> groups = column_groups(s.columns);
  const bool has_totals = own_inputs && has_epilogue();
  const int totals = has_totals ? buffer("totals", s.row_input_lw, isa::space_bit(Space::kLm1)) : -1;
  for (int64_t image = 0; image < s.out.images(); ++image) {
    for (int64_t pass = 0; pass < s.passes; ++pass) {
      const auto load_piece = [&](const Piece& piece) {
        for (const RowsDivision::Run& run : s.runs()) {
          LoadRows load = s.load(run, window_stream, s.in.channel_ways(), [&](size_t part) {
            return input_transfers(s, part, image, pass, piece, zeros, weight_stream);
          });
          if (tiling.share == L1bShare::kRows)
            load.l1b_at = l1b_places(s.l1bs_in(pass),
                                     tiling.rows * problem_.window.stride[0] * s.parts[run.first].row_lw());
          if (shares_rows(tiling.share)) {
            load.rows = piece.rows;
            load.first_row = piece.first;
          }
          if (own_inputs) s.share_chunks(load, s.chunks_in, s.l1bs);
          if (own_columns) s.share_columns_of(load);
          load.buffer = windows;
          load.normalize = precision_;
          add(std::move(load));
        }
      };
      const std::vector<Piece> list = pieces(tiling, s, image, pass);
      auto next = list.begin();

      // An L2B's own rows: what it makes, and reads beside it.
      const int64_t finish_l1bs = tiling.share == L1bShare::kRows ? s.l1bs_in(pass) : s.finish_l1bs;
      // Where an L1B's part of them is.
      std::vector<int64_t> places = s.column_places();
      if (!own_columns) {
        places = l1b_places(
            finish_l1bs, tiling.share == L1bShare::kOutputs ? s.l1b_row_lw : s.finish_rows * s.out.row_lw());
      }
      const auto beside = [&](int stream, int64_t l2bm, int to, int64_t row, int64_t rows) {
        LoadRows load;
        load.stream = stream;
        load.l2bm = l2bm;
        load.part_lw = s.input_l2bm;
        load.chunks = s.chunks_out;
        load.columns = s.columns;
        load.chunk_lw = own_columns ? problem_.out.columns * kColumnLw : 0;
        load.row_lw = s.out.row_lw();
        load.rows = rows;
        load.first_row = row;
        load.buffer_rows = s.finish_rows;
        load.l1b_at = places;
        load.buffer = to;
        load.pitch = s.columns;
        if (s.spread) load.form = RowsForm::kSpread;
        return load;
      };
      const auto load_beside = [&](int64_t row, int64_t rows, int64_t pass_rows) {
        int64_t at = s.region_l2bm;
        for (size_t k = 0; k < problem_.of_rows.size(); ++k) {
          if (!problem_.of_rows[k]) continue;
          LoadRows load = beside(1 + operands + static_cast<int>(k), at, inputs[k].buffer, row, rows);
          load.transfers = s.own_rows(image, pass, at, row, pass_rows);
          add(std::move(load));
          at += s.input_l2bm;
        }
      };
      const int64_t result_at = s.region_l2bm + s.row_inputs * s.input_l2bm;
      if (!own_columns) load_beside(0, s.finish_rows, s.pass_rows);
      FinishRows finish;
      finish.sums = sums;
      finish.columns = s.columns;
      finish.groups = groups;
      finish.chunks = s.chunks_out;
      finish.row_lw = s.l1b_row_lw;
      finish.spread = s.spread;
      finish.buffer_rows = s.finish_rows;
      finish.epilogue = own_inputs ? ScalarExpr::identity() : problem_.contract.epilogue;
      if (!own_inputs) finish.inputs = inputs;
      const auto store_rows = [&](int64_t row, int64_t rows, int64_t pass_rows, int64_t l2bm) {
        StoreRows store;
        store.stream = result_stream;
        store.l2bm = l2bm;
        store.transfers = s.own_rows(image, pass, l2bm, row, pass_rows);
        store.l1b_at = places;
        store.rows = rows;
        store.row_lw = s.out.row_lw();
        store.segments = own_columns ? s.chunks_out : 1;
        store.segment_lw = own_columns                          ? s.columns * kColumnLw
                           : tiling.share == L1bShare::kOutputs ? s.l1b_row_lw
                                                                : s.out.row_lw();
        store.chunk_lw = problem_.out.columns * kColumnLw;
        store.l1b_row_lw = s.l1b_row_lw;
        if (s.spread) {
          // The rows of a chunk follow each other.
          store.segments = s.chunks_out;
          store.segment_lw = store.l1b_row_lw = store.chunk_lw = s.columns * kColumnLw;
          store.l1b_segment_lw = tiling.rows * store.segment_lw;
        }
        return store;
      };
      for (int64_t row = 0; row < tiling.rows; row += s.tile_rows) {
        const int64_t rows = std::min(s.tile_rows, tiling.rows - row);
        // What this tile needs, and the next: products run beside the steps that take its rows.
        const int64_t ahead = std::min(rows + s.tile_rows, tiling.rows - row);
        const int64_t needed = row * problem_.window.stride[0] + problem_.window.rows_under(ahead);
        for (; next != list.end() && next->first < needed; ++next) load_piece(*next);
        if (own_columns) load_beside(row, rows, rows);
        for (int64_t chunk = 0; chunk < s.chunks_out; ++chunk) {
          if (!s.all_matrices) {
            TileIndex from;
            from.base = chunk * s.matrices_lw;
            add(LoadTile{weight_stream, from, matrices, {}, s.matrices_lw, precision_});
          }
          WindowProduct product;
          product.precision = precision_;
          product.matrices = matrices;
          product.matrices_at.base = s.all_matrices ? chunk * s.matrices_lw : 0;
          product.windows = windows;
          product.chunks = s.chunks_in;
          product.window_rows = s.window_rows;
          product.pitch = s.pitch;
          product.kernel = problem_.window.kernel;
          product.dilation = problem_.window.dilation;
          product.stride = problem_.window.stride;
          product.sums = sums;
          product.first_row = row;
          product.rows = rows;
          product.groups = groups;
          add(std::move(product));
          finish.rows = rows;
          finish.first_row = own_columns ? row : 0;
          finish.chunk = chunk;
          add(FinishRows(finish));
        }
        if (own_inputs) add(SumRows{rows, s.l1b_row_lw, result_at + row * s.out.row_lw(), s.out.row_lw()});
        if (own_columns) add(store_rows(row, rows, rows, result_at));
      }
      if (own_columns) continue;
      if (has_totals) {
        add(beside(result_stream, result_at, totals, 0, s.finish_rows));
        finish.sums = -1;
        finish.rows = s.finish_rows;
        finish.epilogue = problem_.contract.epilogue;
        finish.inputs = {{totals, true}};
        finish.inputs.insert(finish.inputs.end(), inputs.begin(), inputs.end());
        for (finish.chunk = 0; finish.chunk < s.chunks_out; ++finish.chunk) add(FinishRows(finish));
      }
      // Where the operands were: they are in the PEs by now. Sums without an epilogue stay where they are.
      const bool stay = own_inputs && !has_totals;
      StoreRows store = store_rows(0, s.finish_rows, s.pass_rows, stay ? result_at : 0);
      if (stay) store.l1b_at.clear();
      add(std::move(store));
    }
  }
  return program;
}

std::string RowsTiler::describe(const RowsTiling& tiling) const {
  const Sizes s = sizes(tiling);
  const char* share = tiling.share == L1bShare::kRows      ? "rows"
                      : tiling.share == L1bShare::kColumns ? "columns"
                      : tiling.share == L1bShare::kOutputs ? "channels"
                                                           : "input channels";
  return fmt::format(
      "{}: group {}, L2B {}, L1B {}, {} passes of {} rows, {} of {} input chunks; operand: group {}, L2B "
      "{}{}",
      matrix_precision_name(precision_), rows_or_channels(tiling.out.group_channels),
      rows_or_channels(tiling.out.l2b_channels), share, s.passes * s.out.images(), tiling.rows, s.chunks_out,
      s.chunks_in, rows_or_channels(tiling.in.group_channels), rows_or_channels(tiling.in.l2b_channels),
      order_name(problem_.out));
}

/// For every image of the operand that there may be, the fastest that make one image of the result each.
std::vector<Candidate> rows_candidates_of(const std::shared_ptr<const RowsTiler>& tiler,
                                          const std::string& name) {
  std::vector<RowsTiling> tilings = tiler->tilings();
  std::ranges::stable_sort(tilings, {}, &RowsTiling::cycles);
  std::vector<Candidate> candidates;
  std::array<std::array<int, 4>, 4> seen{};
  std::array<int, 4> kept{};
  const auto number = [](RowsSplit split) {
    return static_cast<size_t>(2 * split.group_channels + split.l2b_channels);
  };
  constexpr int kKept = 4;
  for (const RowsTiling& tiling : tilings) {
    if (seen.at(number(tiling.in)).at(number(tiling.out))++ > 0 || kept.at(number(tiling.in)) == kKept)
      continue;
    ++kept.at(number(tiling.in));
    candidates.push_back(rows_candidate(tiler, tiling, name));
  }
  return candidates;
}

std::vector<Candidate> rows_candidates(const Layer& layer, const LayerGraph& graph, const isa::Chip& chip,
                                       const KernelOptions& options) {
  // What the quads of an L1B make must be what its quads take.
  if (chip.mab_per_l1b != kBlocksPerChunk * kBlocksPerChunk) return {};
  if (options.precision != MatrixPrecision::kGFloat) return {};
  std::vector<Candidate> candidates;
  for (size_t number = 0;; ++number) {
    auto problem = rows_problem(std::get<ContractLayer>(layer.body), layer.outputs.at(0), graph, number);
    if (!problem) break;
    const auto add_candidates = [&] {
      std::ranges::move(rows_candidates_of(
                            std::make_shared<const RowsTiler>(*problem, chip, options.precision), layer.name),
                        std::back_inserter(candidates));
    };
    add_candidates();
    // A concatenation is read part by part, too.
    if (const auto parts = concatenated_picture(problem->in, graph)) {
      problem->in = *parts;
      add_candidates();
    }
  }
  return candidates;
}

}  // namespace

Kernel contract_rows_kernel() {
  Kernel kernel;
  kernel.name = kRowsKernel;
  kernel.description = "convolutions and products with constant matrices, on images of rows";
  kernel.kind = LayerKind::kContract;
  kernel.run = rows_candidates;
  return kernel;
}

}  // namespace kodama::compiler
