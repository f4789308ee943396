#include "compiler/kernels/rows_problem.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <set>
#include <tuple>

#include "compiler/kernels/predict.h"
#include "compiler/kernels/rows_totals.h"
#include "isa/arithmetic.h"
#include "isa/error.h"

namespace kodama::compiler {

using isa::ceil_div;
using layout::Factor;
using layout::Level;

namespace {

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

/// The dim of a role whose index is added to that of `group` on one axis, where groups follow each other; -1:
/// there is none. Nowhere else is the map the group's.
int member_dim(const AffineMap& map, size_t group, ContractLayer::Role role, const ContractLayer& contract) {
  int member = -1;
  for (size_t axis = 0; axis < map.axes(); ++axis) {
    const int64_t stride = map.coefficient(axis, group);
    if (stride == 0) continue;
    if (member >= 0) return -1;
    for (size_t dim = 0; dim < contract.dims.size(); ++dim) {
      if (contract.dims[dim].role == role && map.coefficient(axis, dim) == 1 &&
          stride == contract.dims[dim].extent)
        member = static_cast<int>(dim);
    }
    if (member < 0) return -1;
  }
  return member;
}

/// Makes groups of channels one, but for the matrix: then the contract's dims have the channels of all
/// groups. Nothing where batches are no groups of channels; one group where there are no batches.
std::optional<ChannelGroups> merge_groups(ContractLayer& contract, bool weights_first,
                                          const Shape& weights_shape) {
  using Role = ContractLayer::Role;
  ChannelGroups groups;
  for (size_t dim = 0; dim < contract.dims.size(); ++dim) {
    if (contract.dims[dim].role != Role::kBatch || contract.dims[dim].extent == 1) continue;
    if (groups.dim >= 0) return std::nullopt;
    groups.dim = static_cast<int>(dim);
    groups.count = contract.dims[dim].extent;
  }
  if (groups.dim < 0) return groups;
  const auto group = static_cast<size_t>(groups.dim);
  const Role out_role = weights_first ? Role::kM : Role::kN;
  const AffineMap& weights = (weights_first ? contract.a : contract.b).map;
  groups.out_dim = member_dim(contract.output, group, out_role, contract);
  groups.in_dim = member_dim((weights_first ? contract.b : contract.a).map, group, Role::kK, contract);
  if (groups.in_dim < 0 || groups.out_dim < 0 ||
      member_dim(weights, group, out_role, contract) != groups.out_dim)
    return std::nullopt;
  ContractLayer::Dim& in = contract.dims[static_cast<size_t>(groups.in_dim)];
  ContractLayer::Dim& out = contract.dims[static_cast<size_t>(groups.out_dim)];
  groups.in = in.extent;
  groups.out = out.extent;
  for (const TensorAccess& input : contract.epilogue_inputs) {
    for (size_t axis = 0; axis < input.map.axes(); ++axis) {
      if (input.map.coefficient(axis, group) !=
          groups.out * input.map.coefficient(axis, static_cast<size_t>(groups.out_dim)))
        return std::nullopt;
    }
  }
  // A matrix has nothing but inputs of its group on an axis, and nothing behind the last group.
  for (size_t axis = 0; axis < weights.axes(); ++axis) {
    const bool has_groups = weights.coefficient(axis, group) != 0;
    const bool has_inputs = weights.coefficient(axis, static_cast<size_t>(groups.in_dim)) != 0;
    if (!has_groups && !has_inputs) continue;
    const size_t own = static_cast<size_t>(has_groups ? groups.out_dim : groups.in_dim);
    if (has_groups && has_inputs) return std::nullopt;
    if (weights.coefficient(axis, own) != 1 || weights.offset(axis) != 0 ||
        weights_shape[axis] != (has_groups ? groups.count * groups.out : groups.in))
      return std::nullopt;
    for (size_t dim = 0; dim < contract.dims.size(); ++dim) {
      if (dim != own && dim != group && weights.coefficient(axis, dim) != 0) return std::nullopt;
    }
  }
  in.extent *= groups.count;
  out.extent *= groups.count;
  contract.dims[group].extent = 1;
  return groups;
}

}  // namespace

RowsSections sections_of(const ChannelGroups& groups) {
  const int64_t all_in = ceil_div(groups.count * groups.in, kChunkChannels);
  const int64_t all_out = ceil_div(groups.count * groups.out, kChunkChannels);
  for (int64_t of = 1; of < groups.count; ++of) {
    if (of * groups.in % kChunkChannels != 0 || of * groups.out % kChunkChannels != 0) continue;
    const RowsSections sections{ceil_div(groups.count, of), of, of * groups.in / kChunkChannels,
                                of * groups.out / kChunkChannels};
    // Chunks side by side (RowOrder) are of one section, or of one each.
    const bool has_pairs = all_out % 2 != 0 || sections.out_chunks == 1 || sections.out_chunks % 2 == 0;
    if (has_pairs && sections.count * sections.in_chunks == all_in &&
        sections.count * sections.out_chunks == all_out)
      return sections;
  }
  return {1, groups.count, all_in, all_out};
}

namespace {

/// A section's matrix over dims of sections, groups in one, and inputs of one, behind those of the contract:
/// an input of another group than the output's is outside the tensor.
RowsProblem::Matrix matrix_of(const TensorAccess& weights, const ContractLayer& contract, int out_channel,
                              int in_channel, const ChannelGroups& groups, const RowsSections& sections) {
  RowsProblem::Matrix matrix{weights, contract_extents(contract), {out_channel}, {{in_channel}}};
  if (groups.count == 1) return matrix;
  const auto first = static_cast<int>(matrix.extents.size());
  const int section = first, group = first + 1, input = first + 2;
  matrix.extents[static_cast<size_t>(groups.out_dim)] = groups.out;
  matrix.extents[static_cast<size_t>(groups.in_dim)] = 1;
  matrix.extents.insert(matrix.extents.end(), {sections.count, sections.groups, sections.groups * groups.in});
  matrix.outs = {section, group, groups.out_dim};
  matrix.ins = {{input}};
  matrix.access.fill = 0;
  matrix.access.map = AffineMap(weights.map.axes(), matrix.extents.size());
  for (size_t axis = 0; axis < weights.map.axes(); ++axis) {
    for (size_t dim = 0; dim < weights.map.dims(); ++dim)
      matrix.access.map.set(axis, dim, weights.map.coefficient(axis, dim));
    matrix.access.map.set_offset(axis, weights.map.offset(axis));
    const int64_t of_group = weights.map.coefficient(axis, static_cast<size_t>(groups.dim));
    const int64_t of_input = weights.map.coefficient(axis, static_cast<size_t>(groups.in_dim));
    matrix.access.map.set(axis, static_cast<size_t>(section), of_group * sections.groups);
    matrix.access.map.set(axis, static_cast<size_t>(group), of_group - of_input * groups.in);
    matrix.access.map.set(axis, static_cast<size_t>(input), of_input);
  }
  return matrix;
}

/// Whether the host has, at first, what a tensor is made of: constants, inputs, and what is rearranged of
/// them. `seen`: tensors that others are made of, too.
bool is_from_host(TensorId tensor, const LayerGraph& graph, std::set<TensorId>& seen) {
  if (graph.is_packed(tensor) || !seen.insert(graph.storage(tensor)).second) return true;
  const auto makes_it = [&](const Layer& layer) {
    return layer.kind() == LayerKind::kRearrange &&
           graph.storage(layer.outputs.at(0)) == graph.storage(tensor);
  };
  const auto maker = std::ranges::find_if(graph.layers, makes_it);
  return maker != graph.layers.end() && std::ranges::all_of(layer_inputs(*maker), [&](TensorId input) {
           return is_from_host(input, graph, seen);
         });
}

/// Whether the first operand is the matrix, or the second one: what is constant, or else what the host has,
/// as weights that are trained. A model's first layer has two such operands.
std::vector<bool> operands_of_weights(const ContractLayer& contract, const LayerGraph& graph) {
  const bool constant = graph.is_constant(contract.a.tensor);
  if (constant != graph.is_constant(contract.b.tensor)) return {constant};
  if (constant) return {};
  const auto has = [&](const TensorAccess& operand) {
    std::set<TensorId> seen;
    return is_from_host(operand.tensor, graph, seen);
  };
  std::vector<bool> found;
  if (has(contract.b)) found.push_back(false);
  if (has(contract.a)) found.push_back(true);
  return found;
}

std::optional<RowsProblem> find_problem(const ContractLayer& whole, TensorId output, const LayerGraph& graph,
                                        size_t number, bool weights_first) {
  using Role = ContractLayer::Role;
  const auto shape_of = [&](TensorId tensor) -> const Shape& {
    return graph.tensors[static_cast<size_t>(tensor)].shape;
  };
  RowsProblem problem;
  problem.contract = whole;
  problem.weights_first = weights_first;
  const Role out_role = problem.weights_first ? Role::kM : Role::kN;
  const TensorAccess& weights = problem.weights_first ? whole.a : whole.b;
  problem.is_constant = graph.is_constant(weights.tensor);
  const auto groups =
      merge_groups(problem.contract, problem.weights_first, shape_of(graph.storage(weights.tensor)));
  if (!groups) return std::nullopt;
  const ContractLayer& contract = problem.contract;
  for (size_t dim = 0; dim < contract.dims.size(); ++dim) {
    if (contract.dims[dim].extent == 1 || contract.dims[dim].role != out_role) continue;
    if (problem.out_channel >= 0) return std::nullopt;
    problem.out_channel = static_cast<int>(dim);
  }
  if (problem.out_channel < 0) return std::nullopt;
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
    if (use->outer == problem.out_channel) channel_axis = axis;
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
  int in_channel = read[in_channel_axis].inner;
  // A single channel is that of a dim with one place.
  for (size_t dim = 0; dim < contract.dims.size() && in_channel < 0 && in->channels == 1; ++dim) {
    if (contract.dims[dim].role == Role::kK && contract.dims[dim].extent == 1 &&
        map.coefficient(in_channel_axis, dim) == 1)
      in_channel = static_cast<int>(dim);
  }
  if (in_channel < 0 || dim_extent(in_channel) != in->channels ||
      map.coefficient(in_channel_axis, static_cast<size_t>(in_channel)) != 1 ||
      map.offset(in_channel_axis) != 0) {
    return std::nullopt;
  }
  size_t inner_dims = in->channels > 1 ? 1 : 0;
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
  if (problem.window.kernel[0] == 1 && problem.window.pad[0] == 0)
    problem.window.row_step = std::exchange(problem.window.stride[0], 1);
  const auto is_inner = [](const ContractLayer::Dim& dim) { return dim.role == Role::kK && dim.extent > 1; };
  if (static_cast<size_t>(std::ranges::count_if(contract.dims, is_inner)) != inner_dims) return std::nullopt;
  if (problem.activation().fill != 0) return std::nullopt;
  // Behind the last of few columns there is anything.
  const RowsWindow& window = problem.window;
  if (!in->tokens && shape.back() < isa::kCyclesPerStep &&
      (window.kernel[1] > 1 || window.pad[1] > 0 || window.stride[1] > 1))
    return std::nullopt;
  for (size_t dim = 0; dim < contract.dims.size(); ++dim) {
    const auto number = static_cast<int>(dim);
    if (contract.dims[dim].extent == 1 || contract.dims[dim].role == Role::kK ||
        number == problem.out_channel)
      continue;
    for (size_t axis = 0; axis < weights.map.axes(); ++axis) {
      if (weights.map.coefficient(axis, dim) != 0) return std::nullopt;
    }
  }
  if (groups->count > 1) {
    if (groups->in_dim != in_channel || groups->out_dim != problem.out_channel) return std::nullopt;
    problem.sections = sections_of(*groups);
  }
  problem.groups = *groups;
  problem.matrix = matrix_of(weights, contract, problem.out_channel, in_channel, *groups, problem.sections);

  for (const TensorAccess& input : contract.epilogue_inputs) {
    bool for_channel = true;
    for (size_t axis = 0; axis < input.map.axes(); ++axis) {
      const auto use = axis_use(input.map, axis, contract);
      for_channel =
          for_channel && use && use->inner < 0 && (use->outer < 0 || use->outer == problem.out_channel);
    }
    problem.of_rows.emplace_back();
    if (!for_channel) problem.of_rows.back() = over_result(input, made);
  }
  return problem;
}

}  // namespace

std::optional<RowsProblem> rows_problem(const ContractLayer& contract, TensorId output,
                                        const LayerGraph& graph, size_t number) {
  for (const bool first : operands_of_weights(contract, graph)) {
    auto problem = find_problem(contract, output, graph, 0, first);
    if (!problem) continue;
    return number == 0 ? std::move(problem) : find_problem(contract, output, graph, number, first);
  }
  return std::nullopt;
}

std::optional<RowsProblem> packed_problem(const RowsProblem& problem) {
  if (problem.kernel_dims[1] < 0 ||
      problem.matrix.ins[0][0] >= static_cast<int>(problem.contract.dims.size()))
    return std::nullopt;
  const auto packed = packed_picture(problem.in, problem.window, problem.out.columns);
  if (!packed) return std::nullopt;
  RowsProblem result = problem;
  result.in = *packed;
  const std::vector<int> channels = problem.matrix.ins[0], columns = {problem.kernel_dims[1]};
  result.matrix.ins = {channels, columns};
  if (packed->packed->channels == problem.in.channels) result.matrix.ins = {{columns[0], channels[0]}};
  result.kernel_dims[1] = -1;
  result.window.kernel[1] = result.window.stride[1] = 1;
  result.window.pad[1] = 0;
  return result;
}

bool RowsContraction::can_take(RowsSplit in, RowsSplit out) const {
  const RowsImage results(problem_.out, out, chip_);
  if (!has_sections() || results.channel_ways() == 1) return true;
  // Every L2B but the last ones has as many sections, and no pair of chunks is of two of several chunks.
  const RowsSections& sections = problem_.sections;
  const int64_t own = ceil_div(sections.count, results.channel_ways());
  return in == out && results.chunks() == own * sections.out_chunks &&
         RowsImage(problem_.in, in, chip_).chunks() == own * sections.in_chunks &&
         (results.order().width() == 1 || sections.out_chunks == 1 || sections.out_chunks % 2 == 0);
}

bool RowsContraction::can_sum() const {
  return !has_sections() && !problem_.in.packed && problem_.in.parts.empty() && chip_.l2b_count() > 1;
}

RowsTotals RowsContraction::totals() const {
  return {problem_.out, all_row_inputs(), chip_};
}

int64_t RowsContraction::all_row_inputs() const {
  return std::ranges::count_if(problem_.of_rows, [](const auto& input) { return input.has_value(); });
}

std::vector<RowsPiece> RowsContraction::pieces(const RowsDivision& s, int64_t image, int64_t pass) const {
  const RowsPass all = s.pass(image, pass);
  auto [first, last] = std::pair<int64_t, int64_t>(0, problem_.window.rows_under(all.rows));
  if (s.passes * s.out.images() == 1)
    std::tie(first, last) = rows_inside(s.in, s.out, problem_.window, all, chip_);
  return pieces_of(first, last, s.region_rows);
}

std::vector<RowsTransfer> RowsContraction::input_transfers(const RowsDivision& s, size_t part, int64_t image,
                                                           int64_t pass, const RowsPiece& piece,
                                                           int64_t zeros, int zero_stream) const {
  RowsTransfer outside;
  outside.stream = zero_stream;
  outside.group = 0;
  outside.dram = zeros;
  RowsPass wanted = s.pass(image, pass);
  wanted.first_row = piece.first;
  wanted.most_rows = piece.rows;
  return window_transfers(s.parts[part], s.out, problem_.window, wanted, outside, chip_, s.own_channels);
}

std::vector<int64_t> RowsContraction::loaded_chunks(const RowsDivision& s) const {
  // Those of the next L2B follow.
  if (s.out.is_everywhere()) return {s.in.chunks(), s.in.chunks()};
  if (problem_.in.packed) return {isa::ceil_div(problem_.in.packed->window_words(), kChunkChannels)};
  std::vector<int64_t> loaded;
  for (const RowsImage& part : s.parts)
    loaded.insert(loaded.end(), static_cast<size_t>(s.ways()), part.chunks());
  return loaded;
}

int64_t RowsContraction::window_stack(const std::vector<int64_t>& loaded) const {
  const bool is_one_vector = form_.stream_lw == kMostStacked;
  if (has_sections() && (is_one_vector || problem_.sections.in_chunks % kMostStacked != 0)) return 1;
  const auto is_whole = [](int64_t chunks) { return chunks % kMostStacked == 0; };
  if (!std::all_of(loaded.begin(), loaded.end() - 1, is_whole)) return 1;
  // Of seven chunks, a place of eight has no channels.
  constexpr int64_t kFew = 7;
  const bool is_worth_it = is_one_vector || is_whole(loaded.back()) ||
                           std::accumulate(loaded.begin(), loaded.end(), int64_t{0}) >= kFew;
  return is_worth_it ? kMostStacked : 1;
}

int64_t RowsContraction::result_stack(int64_t chunks, int64_t others) const {
  if (has_sections()) return 1;
  return others == 0 || chunks % form_.result_lw == 0 ? form_.result_lw : 1;
}

std::vector<Factor> RowsContraction::result_chunk_factors(int64_t chunks, int64_t stack, int64_t lw) const {
  return {{isa::ceil_div(chunks, stack), Level::kAddress, lw}, {stack, Level::kAddress, isa::kWordsPerLong}};
}

std::vector<std::vector<Factor>> RowsContraction::in_channel_factors(int64_t l1bs, int64_t chunks,
                                                                     int64_t stack) const {
  const int64_t places = stack_places(precision_, stack);
  // A LW has two channels of every block of eight of a vector.
  const int64_t together = form_.inner_per_lw / (isa::kPePerMab * isa::kWordsPerLong);
  const int64_t mabs = kBlocksPerChunk / together / places;
  std::vector<Factor> blocks = {{mabs, Level::kMab, 1}, {together, Level::kWord, isa::kWordsPerLong}};
  if (places > 1) blocks.insert(blocks.begin() + 1, {places, Level::kAddress, matrices_lw(1)});
  std::vector<Factor> of_chunks = {{isa::ceil_div(chunks, stack), Level::kAddress, matrices_lw(places)},
                                   {stack, Level::kMab, mabs}};
  if (l1bs > 1) of_chunks.insert(of_chunks.begin(), {l1bs, Level::kL1b, 1});
  if (problem_.matrix.ins.size() > 1) {
    auto [of_channel, of_column] = packed_factors(problem_.in.packed->channels, blocks);
    of_column.insert(of_column.begin(), of_chunks.begin(), of_chunks.end());
    return {of_channel, of_column};
  }
  of_chunks.insert(of_chunks.end(), blocks.begin(), blocks.end());
  of_chunks.insert(of_chunks.end(), {{isa::kPePerMab, Level::kPe, 1}, {isa::kWordsPerLong, Level::kWord, 1}});
  return {of_chunks};
}

std::vector<StreamPlacement> RowsContraction::streams(const RowsDivision& s, RowsSplit out,
                                                      const Matrices& matrices, const Values& values) const {
  const Shape extents = contract_extents(problem_.contract);
  StreamPlacement weights;
  weights.name.push_back(problem_.weights_first ? 'a' : 'b');
  weights.access = problem_.matrix.access;
  weights.extents = problem_.matrix.extents;
  weights.transport = matrices.transport;
  weights.element = matrix_element();
  weights.length_lw = isa::round_up(matrices.lw, weights.transport.granule()) +
                      weights.transport.numbers_over(matrices.zeros_lw);
  // A matrix' rows are those of a block of eight channels, by PE and word, for every LW of a result.
  std::vector<std::vector<Factor>> axes = {matrices.outs};
  axes.front().insert(axes.front().end(),
                      {{isa::kPePerMab, Level::kAddress, isa::kWordsPerLong * form_.result_lw},
                       {isa::kWordsPerLong, Level::kAddress, 1}});
  axes.insert(axes.end(), matrices.ins.begin(), matrices.ins.end());
  weights.axis_dims = {problem_.matrix.outs};
  weights.axis_dims.insert(weights.axis_dims.end(), problem_.matrix.ins.begin(), problem_.matrix.ins.end());
  for (size_t way = 0; way < 2; ++way) {
    if (problem_.kernel_dims.at(way) < 0) continue;
    weights.axis_dims.push_back({problem_.kernel_dims.at(way)});
    axes.push_back({{problem_.window.kernel.at(way), Level::kAddress,
                     (way == 0 ? problem_.window.kernel[1] : 1) * form_.rows}});
  }
  weights.layout = layout::Layout(axes, layout::Memory::kLm0, matrices.copies);
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
      list.push_back(RowsImage(picture, out, chip_).placement(fmt::format("x{}", k)));
      list.back().access = *problem_.of_rows[k];
      continue;
    }
    StreamPlacement placement;
    placement.name = fmt::format("x{}", k);
    placement.access = access;
    placement.extents = extents;
    placement.transport = values.transport;
    placement.length_lw = isa::round_up(values.count, values.transport.granule());
    std::vector<Factor> channels = values.outs;
    channels.insert(channels.end(), {{isa::kPePerMab, Level::kPe, 1}, {isa::kWordsPerLong, Level::kWord, 1}});
    placement.axis_dims = {{problem_.out_channel}};
    placement.layout = layout::Layout({channels}, layout::Memory::kLm0, values.copies);
    place_single(placement);
    list.push_back(std::move(placement));
  }
  StreamPlacement result = RowsImage(problem_.out, out, chip_).placement("y");
  result.is_output = true;
  // In channels that fill a chunk up, sums are 0.
  const std::vector<double> zeros(problem_.contract.epilogue_inputs.size() + 1, 0.0);
  if (problem_.contract.epilogue.evaluate(zeros) != 0) result.layout.set_padding(layout::Padding::kUndefined);
  list.push_back(std::move(result));
  return list;
}

std::vector<StreamPlacement> RowsContraction::sum_streams(const RowsDivision& s, Matrices matrices) const {
  const std::vector<Factor> l2bs = s.in.channel_factors();
  matrices.ins[0].insert(matrices.ins[0].begin(), l2bs.begin(), l2bs.end());
  const RowsTotals sums = totals();
  return streams(s, {}, matrices,
                 {sums.values_transport(), sums.chunks(), sums.value_channels(), sums.value_copies()});
}

RowsContraction::Draft RowsContraction::draft(const std::string& name,
                                              const std::vector<StreamPlacement>& placements,
                                              const std::vector<int64_t>& dram_addresses, size_t parts,
                                              const DraftSizes& sizes) const {
  using isa::Space;
  isa::check_internal(placements.size() == dram_addresses.size(), "contract-rows",
                      "{} addresses for {} streams", dram_addresses.size(), placements.size());
  Draft draft;
  draft.program.name = name;
  for (size_t k = 0; k < placements.size(); ++k) {
    draft.program.streams.push_back(
        {placements[k].name, placements[k].transport, placements[k].length_lw, dram_addresses[k]});
  }
  const auto operands = static_cast<int>(parts);
  draft.window_stream = problem_.weights_first ? 1 : 0;
  draft.weight_stream = problem_.weights_first ? 0 : operands;
  draft.first_input = 1 + operands;
  draft.result_stream = static_cast<int>(placements.size()) - 1;
  const isa::SpaceSet lm0 = isa::space_bit(Space::kLm0), lm1 = isa::space_bit(Space::kLm1);
  const int64_t kept = (sizes.all_matrices ? sizes.sets : 1) * sizes.matrices_lw;
  draft.matrices = draft.buffer("matrices", kept, lm0);
  draft.windows.push_back(draft.buffer("windows", sizes.windows_lw, lm1));
  // Totals are beside them.
  const int64_t two_lw = 2 * sizes.windows_lw;
  const int64_t local = chip_.memory.lm_words / isa::kWordsPerLong - kRowsReserveLw;
  if (sizes.passes > 1 && two_lw <= common_windows_lw() && two_lw + sizes.row_input_lw <= local)
    draft.windows.push_back(draft.buffer("windows of every second pass", sizes.windows_lw, lm1));
  draft.sums = draft.buffer("sums", sizes.sums_lw, isa::space_bit(Space::kGrf0));
  for (size_t k = 0; k < problem_.of_rows.size(); ++k) {
    const int stream = draft.first_input + static_cast<int>(k);
    const std::string& stream_name = placements[static_cast<size_t>(stream)].name;
    if (problem_.of_rows[k]) {
      draft.inputs.push_back({draft.buffer(stream_name, sizes.row_input_lw, lm0), true});
      continue;
    }
    const int64_t count = isa::round_up(sizes.values, isa::kCyclesPerStep);
    draft.inputs.push_back({draft.buffer(stream_name, count, lm0 | lm1), false});
    draft.add(LoadTile{stream, {}, draft.inputs.back().buffer, {}, count});
  }
  if (sizes.fills_windows) {
    for (const int windows : draft.windows) draft.add(FillTile{windows, {}, sizes.windows_lw, 0});
  }
  const layout::Transport& road = placements[static_cast<size_t>(draft.weight_stream)].transport;
  draft.zeros = road.part_offset(isa::round_up(sizes.sets * sizes.matrices_lw, road.granule()));
  return draft;
}

RowsContraction::Passes::Passes(const Draft& draft, const RowsDivision& sizes, bool backwards,
                                PassTiles tiles)
    : tiles_(std::move(tiles)),
      rows_of_tiles_(in_turn(isa::ceil_div(tiles_.rows, tiles_.tile_rows), tiles_.last_first)),
      is_ahead_(draft.windows.size() > 1) {
  for (int64_t& row : rows_of_tiles_) row *= tiles_.tile_rows;
  for (const int64_t image : in_turn(sizes.out.images(), backwards)) {
    for (const int64_t pass : in_turn(sizes.passes, backwards))
      all_.push_back({image, pass, draft.windows[all_.size() % draft.windows.size()]});
  }
}

void RowsContraction::size_for_totals(DraftSizes& sizes) const {
  sizes.values = totals().chunks();
  sizes.row_input_lw = totals().input_lw();
}

void RowsContraction::finish_sums(Draft& draft) const {
  if (!has_epilogue()) return;
  std::vector<int> of_rows;
  for (size_t k = 0; k < problem_.of_rows.size(); ++k) {
    if (problem_.of_rows[k]) of_rows.push_back(draft.first_input + static_cast<int>(k));
  }
  of_rows.push_back(draft.result_stream);
  const RowsTotals sums = totals();
  const int buffer = draft.buffer("totals", sums.input_lw(), isa::space_bit(isa::Space::kLm1));
  sums.finish(draft.program, problem_.contract.epilogue, draft.inputs, of_rows, buffer);
}

int64_t RowsContraction::sum_cycles(int64_t tile_rows, int64_t tiles, int64_t steps) const {
  const int64_t tile = rows_transfer_cycles(totals().sum(0, 0, 0, tile_rows, 0).transfers, chip_);
  return std::max(tile, tiles * tile - steps * isa::kCyclesPerStep * (tiles - 1) / tiles);
}

int64_t RowsContraction::finish_cycles() const {
  return has_epilogue() ? totals().cycles(1 + machine_operations(problem_.contract.epilogue)) : 0;
}

int64_t RowsContraction::matrix_load_cycles(const layout::Transport& transport, int64_t count) const {
  return problem_.is_constant ? ahead_cycles(transport, count, chip_, problem_.constants_stay)
                              : load_cycles(transport, count, chip_, true);
}

std::pair<int64_t, int64_t> RowsContraction::kept_matrices(int64_t cycles, int64_t sets, int64_t matrices_lw,
                                                           bool all_matrices, int64_t windows_lw) const {
  if (!problem_.is_constant) return {0, 0};
  if (all_matrices) return {cycles, sets * matrices_lw};
  // Sets that don't stay in LM0, where products take them, take turns in a buffer there: what stays in LM1 is
  // copied to it, a LW in a cycle.
  const int64_t local = chip_.memory.lm_words / isa::kWordsPerLong - kRowsReserveLw;
  const int64_t in_lm0 = (local - matrices_lw) / matrices_lw;
  const int64_t copied = std::min(std::max<int64_t>(0, (local - windows_lw) / matrices_lw), sets - in_lm0);
  const int64_t kept = in_lm0 + copied;
  const int64_t saved = cycles * kept / sets - copied * matrices_lw;
  return saved > 0 ? std::pair(saved, kept * matrices_lw) : std::pair<int64_t, int64_t>(0, 0);
}

int64_t RowsContraction::common_windows_lw() const {
  constexpr int64_t kShare = 3;
  return chip_.memory.lm_words / isa::kWordsPerLong / kShare;
}

int64_t RowsContraction::room_cycles(int64_t windows_lw) const {
  // Measured: with 8 cycles, about what the planner pays for a LW (ModelPlanner), the first layers of
  // networks for pictures keep all of their rows.
  constexpr int64_t kCyclesPerLw = 24;
  if (!problem_.constants_stay) return 0;
  return std::max<int64_t>(0, windows_lw - common_windows_lw()) * kCyclesPerLw;
}

int64_t RowsContraction::load_matrices(Draft& draft, int64_t set, const DraftSizes& sizes) const {
  if (sizes.all_matrices) {
    if (!std::exchange(draft.has_matrices, true)) {
      const int64_t all = sizes.sets * sizes.matrices_lw;
      draft.add(LoadTile{draft.weight_stream, {}, draft.matrices, {}, all, precision_, {}, matrix_element()});
    }
    return set * sizes.matrices_lw;
  }
  TileIndex from;
  from.base = set * sizes.matrices_lw;
  draft.add(LoadTile{
      draft.weight_stream, from, draft.matrices, {}, sizes.matrices_lw, precision_, {}, matrix_element()});
  return 0;
}

}  // namespace kodama::compiler
