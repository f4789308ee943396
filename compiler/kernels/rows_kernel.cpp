#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <optional>
#include <tuple>
#include <utility>

#include "compiler/kernels/builtin_kernels.h"
#include "compiler/kernels/lowering.h"
#include "compiler/kernels/predict.h"
#include "compiler/kernels/rows.h"
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
///   - L1Bs have different rows, or different output channels.
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
/// LW of a local memory left to constants and temporaries.
constexpr int64_t kReserveLw = 96;

/// The layer as windows of one picture that make another.
struct RowsProblem {
  ContractLayer contract;
  bool weights_first = true;  ///< operand a is the matrix
  Picture in, out;
  RowsWindow window;
  std::vector<int> out_channels;           ///< dims
  std::vector<int> in_channels;            ///< dims; the second: of the kernel's columns, folded
  std::array<int, 2> kernel_dims{-1, -1};  ///< dims; -1 = the kernel has one position there
  std::vector<bool> of_rows;               ///< of the epilogue's inputs: a picture like the result, else one
                                           ///< value for a channel

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

/// Nothing where the layer has another form.
std::optional<RowsProblem> rows_problem(const ContractLayer& contract, TensorId output,
                                        const LayerGraph& graph) {
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
  const auto out = picture_of(output, contract.output_shape, channel_axis);
  if (!out) return std::nullopt;
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
  const size_t in_channel_axis = out->channels_last ? map.axes() - 1 : 1;
  if (in_channel_axis >= map.axes() || read[in_channel_axis].outer >= 0) return std::nullopt;
  const auto in = picture_of(problem.activation().tensor, shape, in_channel_axis);
  if (!in || in->channels_last != out->channels_last || map.axes() != result.axes()) return std::nullopt;
  problem.in = *in;
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
    const bool same_outer = use.outer == made[axis].outer;
    if (!same_outer) return std::nullopt;
    const bool windowed = !in->channels_last && axis >= 2;
    if (!windowed) {
      if (use.inner >= 0 || map.offset(axis) != 0 || shape[axis] != contract.output_shape[axis])
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
  // Few channels: the kernel's columns fill the chunk.
  problem.in_channels = {in_channel};
  if (!in->channels_last && problem.kernel_dims[1] >= 0 &&
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
    if (!for_channel) {
      if (shape_of(input.tensor) != contract.output_shape) return std::nullopt;
      for (size_t axis = 0; axis < result.axes(); ++axis) {
        for (size_t dim = 0; dim < contract.dims.size(); ++dim) {
          if (contract.dims[dim].extent > 1 &&
              input.map.coefficient(axis, dim) != result.coefficient(axis, dim))
            return std::nullopt;
        }
        if (input.map.offset(axis) != 0) return std::nullopt;
      }
    }
    problem.of_rows.push_back(!for_channel);
  }
  return problem;
}

/// Everything that a candidate decides.
struct RowsTiling {
  RowsSplit in, out;
  bool l1b_channels = false;  ///< L1Bs have different output channels, else rows
  int64_t rows = 1;           ///< of an L1B in a pass
  int64_t l1bs = 1;           ///< that have rows of their own
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
        for (const bool l1b_channels : {false, true}) {
          if (const auto tiling = best(in, out, l1b_channels)) list.push_back(*tiling);
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

 private:
  /// Sizes that follow from a tiling.
  struct Sizes {
    RowsImage in, out;
    int64_t chunks_in = 0;      ///< in a PE's windows
    int64_t chunks_out = 0;     ///< of an L1B
    int64_t window_rows = 0;    ///< of an L1B
    int64_t l1bs = 0;           ///< that work
    int64_t pass_rows = 0;      ///< of an L2B
    int64_t region_rows = 0;    ///< input rows of an L2B in a pass
    int64_t passes = 0;         ///< of an image
    int64_t rows_of_l1b = 1;    ///< 1 for each row of an L2B where L1Bs have channels of their own
    int64_t pitch = 0;          ///< columns of a window's row, padding included
    int64_t groups = 0;         ///< vectors of a row of results
    int64_t matrices_lw = 0;    ///< of a chunk of output channels
    bool all_matrices = false;  ///< of all chunks fit
    int64_t windows_lw = 0, sums_lw = 0;
    int64_t row_inputs = 0;
    int64_t row_input_lw = 0;  ///< of an input of the epilogue in PE memory
    /// L1Bs (or else 1) at work in a pass.
    int64_t l1bs_in(int64_t pass) const {
      return std::min(ceil_div(out.rows() - pass * pass_rows, rows_of_l1b), pass_rows / rows_of_l1b);
    }
    int64_t l1b_row_lw = 0;                                    ///< results of a row in L1BM
    int64_t region_l2bm = 0, input_l2bm = 0, result_l2bm = 0;  ///< LW
  };

  Sizes sizes(const RowsTiling& tiling) const {
    Sizes s{RowsImage(problem_.in, tiling.in, chip_), RowsImage(problem_.out, tiling.out, chip_)};
    s.chunks_in = s.in.channel_ways() * s.in.chunks();
    s.chunks_out = tiling.l1b_channels ? s.out.chunks() / chip_.l1b_per_l2b : s.out.chunks();
    const auto window = [&](int64_t rows) {
      return (rows - 1) * problem_.window.stride[0] +
             (problem_.window.kernel[0] - 1) * problem_.window.dilation[0] + 1;
    };
    s.window_rows = window(tiling.rows);
    s.l1bs = tiling.l1b_channels ? chip_.l1b_per_l2b : tiling.l1bs;
    s.pass_rows = tiling.rows * (tiling.l1b_channels ? 1 : s.l1bs);
    s.region_rows = window(s.pass_rows);
    s.rows_of_l1b = tiling.rows;
    s.passes = ceil_div(s.out.rows(), s.pass_rows);
    s.pitch = std::max(problem_.window.pad[1] + problem_.in.columns,
                       (problem_.out.columns - 1) * problem_.window.stride[1] +
                           (problem_.window.kernel[1] - 1) * problem_.window.dilation[1] + 1);
    s.groups = static_cast<int64_t>(column_groups(problem_.out.columns).size());
    s.matrices_lw = s.chunks_in * problem_.window.kernel[0] * problem_.window.kernel[1] * form_.rows;
    const int64_t local = chip_.memory.lm_words / isa::kWordsPerLong - kReserveLw;
    s.windows_lw = round_up(s.chunks_in * s.window_rows * s.pitch, isa::kCyclesPerStep);
    s.sums_lw = tiling.rows * s.groups * isa::kCyclesPerStep;
    s.row_inputs = std::ranges::count(problem_.of_rows, true);
    s.row_input_lw = round_up(s.chunks_out * tiling.rows * problem_.out.columns, isa::kCyclesPerStep);
    const int64_t others = s.row_inputs * s.row_input_lw;
    s.all_matrices = s.chunks_out * s.matrices_lw + others <= local;
    s.l1b_row_lw = tiling.l1b_channels ? s.chunks_out * problem_.out.columns * kColumnLw : s.out.row_lw();
    s.region_l2bm = s.in.channel_ways() * s.region_rows * s.in.row_lw();
    s.input_l2bm = s.pass_rows * s.out.row_lw();
    s.result_l2bm = s.input_l2bm + isa::kL2bmBlockLw;
    return s;
  }

  bool fits(const RowsTiling& tiling, const Sizes& s) const {
    const RowsStaging staging = rows_staging(chip_);
    const int64_t local = chip_.memory.lm_words / isa::kWordsPerLong - kReserveLw;
    const int64_t sums = chip_.memory.grf_words / isa::kWordsPerLong * 3 / 4;
    const int64_t matrices = (s.all_matrices ? s.chunks_out : 1) * s.matrices_lw;
    return s.sums_lw <= sums && s.windows_lw <= local && matrices + s.row_inputs * s.row_input_lw <= local &&
           std::max(s.in.row_lw(), s.out.row_lw()) <= staging.windows_lw &&
           tiling.rows * round_up(s.l1b_row_lw, isa::kL2bmBlockLw) <= staging.results_lw &&
           std::max(s.region_l2bm + s.row_inputs * s.input_l2bm, s.result_l2bm) <= chip_.memory.l2bm_lw &&
           s.passes * s.out.images() <= kMaxPasses;
  }

  std::optional<RowsTiling> best(RowsSplit in, RowsSplit out, bool l1b_channels) const {
    RowsTiling tiling{in, out, l1b_channels, 1, 1, 0};
    const Sizes one = sizes(tiling);
    if (!one.in.is_even() || !one.out.is_even()) return std::nullopt;
    if (l1b_channels && one.out.chunks() % chip_.l1b_per_l2b != 0) return std::nullopt;
    std::optional<RowsTiling> found;
    for (tiling.l1bs = l1b_channels ? 1 : chip_.l1b_per_l2b; tiling.l1bs >= 1; --tiling.l1bs) {
      int64_t last_passes = 0;
      for (tiling.rows = ceil_div(one.out.rows(), tiling.l1bs); tiling.rows >= 1; --tiling.rows) {
        const Sizes s = sizes(tiling);
        if (s.passes == last_passes || !fits(tiling, s)) continue;
        last_passes = s.passes;
        tiling.cycles = cost(tiling, s);
        if (!found || tiling.cycles < found->cycles) found = tiling;
      }
    }
    return found;
  }

  int64_t cost(const RowsTiling& tiling, const Sizes& s) const {
    const int64_t passes = s.passes * s.out.images();
    constexpr int64_t kFill = 12;  // steps from a row's first to the last that isn't beside others
    const int64_t ways = tiling.l1b_channels ? 1 : s.l1bs;
    const auto load_steps = [&](int64_t parts, int64_t rows, int64_t chunks, int64_t columns, int64_t sets,
                                int64_t each) {
      const int64_t blocks = ceil_div(chunks * columns * kColumnLw, isa::kL2bmBlockLw) * sets;
      const int64_t takes = chunks * static_cast<int64_t>(column_groups(columns).size()) * each;
      return parts * rows * (std::max(blocks, takes) + kFill);
    };
    int64_t steps =
        load_steps(s.in.channel_ways(), s.window_rows, s.in.chunks(), problem_.in.columns, ways, 4) +
        s.row_inputs * load_steps(1, tiling.rows, s.chunks_out, problem_.out.columns, chip_.l1b_per_l2b, 1);
    const int64_t vectors = tiling.rows * s.groups;
    const int64_t matrices = s.matrices_lw / form_.rows;
    // The sum goes up and comes back; the operations of the epilogue stand beside each other's.
    int64_t finish = 1;
    if (problem_.contract.epilogue != ScalarExpr::identity()) {
      finish = 3;
      for (const ScalarNode& node : problem_.contract.epilogue.nodes()) finish += machine_operations(node.op);
    }
    steps +=
        s.chunks_out * (matrices * std::max(vectors, form_.write_steps) + kFill + vectors * (finish + 1));
    steps += s.l1bs * tiling.rows * ceil_div(s.l1b_row_lw, isa::kL2bmBlockLw);
    int64_t cycles = steps * isa::kCyclesPerStep + rows_transfer_cycles(input_transfers(s, 0, 0, 0), chip_);
    const int64_t row_cycles = static_cast<int64_t>(static_cast<double>(chip_.l2b_per_group * s.input_l2bm) /
                                                    chip_.transfer.dram_lw_per_cycle) +
                               chip_.transfer.startup_cycles;
    cycles += (1 + s.row_inputs) * row_cycles;
    const int64_t loads = s.all_matrices ? 1 : passes * s.chunks_out;
    return cycles * passes + loads * load_cycles(weights_transport(tiling, s),
                                                 (s.all_matrices ? s.chunks_out : 1) * s.matrices_lw, chip_,
                                                 true);
  }

  Transport weights_transport(const RowsTiling& tiling, const Sizes& s) const {
    return {chip_, s.out.channel_mode(),
            tiling.l1b_channels ? layout::L1bMode::kDistribute : layout::L1bMode::kBroadcast,
            layout::MabMode::kDistribute};
  }
  /// Levels over which what depends on output channels alone is the same.
  std::vector<Factor> channel_copies(const RowsTiling& tiling, const Sizes& s) const {
    std::vector<Factor> copies = s.out.row_way_factors();
    if (!tiling.l1b_channels) copies.push_back({chip_.l1b_per_l2b, Level::kL1b, 1});
    return copies;
  }
  std::vector<Factor> out_channel_factors(const RowsTiling& tiling, const Sizes& s,
                                          int64_t chunk_stride) const {
    std::vector<Factor> factors = s.out.channel_factors();
    if (tiling.l1b_channels) factors.push_back({chip_.l1b_per_l2b, Level::kL1b, 1});
    factors.push_back({s.chunks_out, Level::kAddress, chunk_stride});
    factors.push_back({kBlocksPerChunk, Level::kMab, kBlocksPerChunk});
    return factors;
  }

  /// LW of zeros behind the matrices, for rows outside the tensor.
  int64_t zeros_lw(const Sizes& s) const {
    int64_t most = 0;
    for (int64_t image = 0; image < s.out.images(); ++image) {
      for (int64_t pass = 0; pass < s.passes; ++pass) {
        for (const RowsTransfer& transfer : input_transfers(s, image, pass, 0))
          most = std::max(most, transfer.stream >= 0 ? transfer.count : 0);
      }
    }
    return most;
  }

  /// The input rows of pass `pass` over image `image` of each L2B.
  std::vector<RowsTransfer> input_transfers(const Sizes& s, int64_t image, int64_t pass, int64_t zeros,
                                            int zero_stream = 0) const {
    RowsTransfer outside;
    outside.stream = zero_stream;
    outside.group = 0;
    outside.dram = zeros;
    return window_transfers(s.in, s.out, problem_.window,
                            {.image = image,
                             .pass = pass,
                             .pass_rows = s.pass_rows,
                             .rows = s.l1bs_in(pass) * s.rows_of_l1b,
                             .region_rows = s.region_rows},
                            outside, chip_);
  }

  RowsProblem problem_;
  const isa::Chip& chip_;
  MatrixPrecision precision_;
  const MatrixForm& form_;
};

/// Dims of one iteration have a place, too: on the first axis, where they change nothing.
void place_single(StreamPlacement& placement) {
  for (size_t dim = 0; dim < placement.extents.size(); ++dim) {
    const auto has_dim = [&](const std::vector<int>& dims) {
      return std::ranges::count(dims, static_cast<int>(dim)) > 0;
    };
    if (placement.extents[dim] == 1 && std::ranges::none_of(placement.axis_dims, has_dim))
      placement.axis_dims[0].insert(placement.axis_dims[0].begin(), static_cast<int>(dim));
  }
}

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
  const int64_t zero_numbers = ceil_div(zeros_lw(s), weights.transport.l2bm_lw_per_number());
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
    std::vector<std::vector<Factor>> axes = {outs, ins};
    weights.axis_dims = {problem_.out_channels, problem_.in_channels};
    for (size_t way = 0; way < 2; ++way) {
      if (problem_.kernel_dims.at(way) < 0) continue;
      weights.axis_dims.push_back({problem_.kernel_dims.at(way)});
      axes.push_back({{problem_.window.kernel.at(way), Level::kAddress,
                       (way == 0 ? problem_.window.kernel[1] : 1) * form_.rows}});
    }
    weights.layout = Layout(axes, layout::Memory::kLm0, channel_copies(tiling, s));
  }
  place_single(weights);
  StreamPlacement windows = s.in.placement(problem_.weights_first ? "b" : "a");

  std::vector<StreamPlacement> list;
  list.push_back(problem_.weights_first ? weights : windows);
  list.push_back(problem_.weights_first ? windows : weights);
  for (size_t k = 0; k < problem_.contract.epilogue_inputs.size(); ++k) {
    const TensorAccess& access = problem_.contract.epilogue_inputs[k];
    if (problem_.of_rows[k]) {
      Picture picture = problem_.out;
      picture.tensor = access.tensor;
      list.push_back(RowsImage(picture, tiling.out, chip_).placement(fmt::format("x{}", k)));
      continue;
    }
    StreamPlacement values;
    values.name = fmt::format("x{}", k);
    values.access = access;
    values.extents = extents;
    values.transport = weights_transport(tiling, s);
    values.length_lw = round_up(s.chunks_out, values.transport.granule());
    std::vector<Factor> outs = out_channel_factors(tiling, s, 1);
    outs.insert(outs.end(), form_.row_factors.begin(), form_.row_factors.end());
    std::vector<Factor> copies = channel_copies(tiling, s);
    copies.push_back({kBlocksPerChunk, Level::kMab, 1});
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
  const int weight_stream = problem_.weights_first ? 0 : 1;
  const int window_stream = 1 - weight_stream;
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

  std::vector<FinishRows::Input> inputs;
  for (size_t k = 0; k < problem_.of_rows.size(); ++k) {
    const int stream = 2 + static_cast<int>(k);
    const std::string& stream_name = placements[static_cast<size_t>(stream)].name;
    if (problem_.of_rows[k]) {
      inputs.push_back({buffer(stream_name, s.row_input_lw, isa::space_bit(Space::kLm0)), true});
      continue;
    }
    const int64_t count = round_up(s.chunks_out, isa::kCyclesPerStep);
    inputs.push_back({buffer(stream_name, count, any_local), false});
    add(LoadTile{stream, {}, inputs.back().buffer, {}, count});
  }
  if (s.pitch > problem_.in.columns) add(FillTile{windows, {}, s.windows_lw, 0});
  if (s.all_matrices) add(LoadTile{weight_stream, {}, matrices, {}, kept_matrices, precision_});

  const Transport& road = program.streams[static_cast<size_t>(weight_stream)].transport;
  const int64_t zeros = round_up(s.chunks_out * s.matrices_lw, road.granule()) * road.l2bm_lw_per_number();
  const std::vector<int64_t> groups = column_groups(problem_.out.columns);
  for (int64_t image = 0; image < s.out.images(); ++image) {
    for (int64_t pass = 0; pass < s.passes; ++pass) {
      LoadRows load;
      load.stream = window_stream;
      load.transfers = input_transfers(s, image, pass, zeros, weight_stream);
      load.parts = s.in.channel_ways();
      load.part_lw = s.region_rows * s.in.row_lw();
      load.chunks = s.in.chunks();
      load.columns = problem_.in.columns;
      load.row_lw = s.in.row_lw();
      load.rows = s.window_rows;
      load.l1b_lw = tiling.l1b_channels ? 0 : tiling.rows * problem_.window.stride[0] * s.in.row_lw();
      const int64_t l1bs = tiling.l1b_channels ? s.l1bs : s.l1bs_in(pass);
      load.l1bs = static_cast<int>(l1bs);
      load.buffer = windows;
      load.pitch = s.pitch;
      load.first_column = problem_.window.pad[1];
      load.normalize = precision_;
      add(std::move(load));

      // An L2B's own rows: what it makes, and reads beside it.
      RowsTransfer own;
      own.dram = (image * s.out.rows() + pass * s.pass_rows) * s.out.row_lw();
      own.count = std::min(s.pass_rows, s.out.rows() - pass * s.pass_rows) * s.out.row_lw();
      own.l2bm = s.region_l2bm;
      for (size_t k = 0; k < problem_.of_rows.size(); ++k) {
        if (!problem_.of_rows[k]) continue;
        LoadRows beside;
        beside.stream = 2 + static_cast<int>(k);
        beside.transfers = {own};
        beside.l2bm = own.l2bm;
        beside.part_lw = s.input_l2bm;
        beside.chunks = s.chunks_out;
        beside.columns = problem_.out.columns;
        beside.row_lw = s.out.row_lw();
        beside.rows = tiling.rows;
        beside.l1b_lw = tiling.l1b_channels ? s.l1b_row_lw : tiling.rows * s.out.row_lw();
        beside.l1bs = static_cast<int>(l1bs);
        beside.buffer = inputs[k].buffer;
        beside.pitch = problem_.out.columns;
        add(std::move(beside));
        own.l2bm += s.input_l2bm;
      }
      for (int64_t chunk = 0; chunk < s.chunks_out; ++chunk) {
        if (!s.all_matrices) {
          TileIndex from;
          from.base = chunk * s.matrices_lw;
          add(LoadTile{weight_stream, from, matrices, {}, s.matrices_lw, precision_});
        }
        add(FillTile{sums, {}, s.sums_lw, 0});
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
        product.rows = tiling.rows;
        product.groups = groups;
        add(std::move(product));
        FinishRows finish;
        finish.sums = sums;
        finish.rows = tiling.rows;
        finish.columns = problem_.out.columns;
        finish.groups = groups;
        finish.epilogue = problem_.contract.epilogue;
        finish.inputs = inputs;
        finish.chunk = chunk;
        finish.chunks = s.chunks_out;
        finish.row_lw = s.l1b_row_lw;
        add(std::move(finish));
      }
      // Where the operands were: they are in the PEs by now.
      own.l2bm = 0;
      StoreRows store;
      store.stream = result_stream;
      store.transfers = {own};
      store.l2bm = own.l2bm;
      store.by_rows = !tiling.l1b_channels;
      store.l1bs = static_cast<int>(l1bs);
      store.rows = tiling.rows;
      store.row_lw = s.out.row_lw();
      store.l1b_lw = tiling.l1b_channels ? s.l1b_row_lw : s.out.row_lw();
      store.l1b_row_lw = s.l1b_row_lw;
      add(std::move(store));
    }
  }
  return program;
}

std::string RowsTiler::describe(const RowsTiling& tiling) const {
  const Sizes s = sizes(tiling);
  const auto what = [](bool channels) { return channels ? "channels" : "rows"; };
  return fmt::format(
      "{}: group {}, L2B {}, L1B {}, {} passes of {} rows, {} of {} input chunks; operand: group {}, L2B {}",
      matrix_precision_name(precision_), what(tiling.out.group_channels), what(tiling.out.l2b_channels),
      what(tiling.l1b_channels), s.passes * s.out.images(), tiling.rows, s.chunks_out, s.chunks_in,
      what(tiling.in.group_channels), what(tiling.in.l2b_channels));
}

/// A tiler with the chip it refers to, kept alive by the candidates' emit functions.
struct RowsWorkbench {
  RowsWorkbench(RowsProblem problem, const isa::Chip& chip_used, MatrixPrecision precision)
      : chip(chip_used), tiler(std::move(problem), chip, precision) {}
  RowsWorkbench(const RowsWorkbench&) = delete;
  RowsWorkbench& operator=(const RowsWorkbench&) = delete;
  isa::Chip chip;
  RowsTiler tiler;
};

std::vector<Candidate> rows_candidates(const Layer& layer, const LayerGraph& graph, const isa::Chip& chip,
                                       const KernelOptions& options) {
  // What the quads of an L1B make must be what its quads take.
  if (chip.mab_per_l1b != kBlocksPerChunk * kBlocksPerChunk) return {};
  if (options.precision != MatrixPrecision::kGFloat) return {};
  auto problem = rows_problem(std::get<ContractLayer>(layer.body), layer.outputs.at(0), graph);
  if (!problem) return {};
  if (problem->in.columns < isa::kCyclesPerStep || problem->out.columns < isa::kCyclesPerStep) return {};
  const auto bench = std::make_shared<RowsWorkbench>(std::move(*problem), chip, options.precision);
  std::vector<RowsTiling> tilings = bench->tiler.tilings();
  std::ranges::stable_sort(tilings, {}, &RowsTiling::cycles);
  // For every image that there may be, the best that makes either of two.
  std::vector<Candidate> candidates;
  std::array<std::array<int, 4>, 4> seen{};
  std::array<int, 4> kept{};
  const auto number = [](RowsSplit split) {
    return static_cast<size_t>(2 * split.group_channels + split.l2b_channels);
  };
  constexpr int kKept = 2;
  for (const RowsTiling& tiling : tilings) {
    if (seen.at(number(tiling.in)).at(number(tiling.out))++ > 0 || kept.at(number(tiling.in)) == kKept)
      continue;
    ++kept.at(number(tiling.in));
    Candidate candidate;
    candidate.placements = bench->tiler.placements(tiling);
    candidate.description = bench->tiler.describe(tiling);
    candidate.predicted_cycles = tiling.cycles;
    candidate.emit = [bench, tiling, name = layer.name,
                      placements = candidate.placements](const std::vector<int64_t>& dram_addresses) {
      return bench->tiler.program(tiling, name, placements, dram_addresses);
    };
    candidates.push_back(std::move(candidate));
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
