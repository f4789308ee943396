#include "compiler/kernels/split_columns.h"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>
#include <vector>

#include "compiler/kernels/builtin_kernels.h"
#include "compiler/kernels/columns_problem.h"
#include "compiler/kernels/fill_rows.h"
#include "compiler/layers/fusion.h"
#include "compiler/tensor/fresh_names.h"

namespace kodama::compiler {
namespace {

/// Cycles in which all of DRAM gives so many elements.
int64_t dram_cycles(int64_t elements, const isa::Chip& chip) {
  return static_cast<int64_t>(static_cast<double>(elements / isa::kWordsPerLong) /
                              (chip.groups * chip.transfer.dram_lw_per_cycle));
}

/// A way to do it: parts of images and of rows, and how many of each one has.
struct Parts {
  std::array<int64_t, 2> count{1, 1}, size{1, 1};
  int64_t cycles = 0;
  int64_t all() const { return count[0] * count[1]; }
};

std::optional<Parts> best_parts(const ContractLayer& contract, const std::vector<ColumnsProblem>& ways,
                                const isa::Chip& chip) {
  const ColumnsProblem& problem = ways.front();
  // A Reduce of its own, and the relayout before it.
  constexpr int64_t kReduceCycles = 1000;
  // What makes large pictures makes rows of all channels: others would be a relayout, which takes several
  // times what DRAM takes.
  constexpr int64_t kRelayout = 2;
  const int64_t results = element_count(problem.results.shape);
  std::optional<Parts> best;
  for (const RowsSplit split : kRowsSplits) {
    const auto cycles = columns_cycles(ways, split, chip);
    if (!cycles) continue;
    const RowsImage image(problem.results, split, chip);
    Parts parts{{image.image_ways(), image.row_ways()}, {image.images(), image.rows()}, *cycles};
    // Of a single image or row there are no parts.
    if ((problem.image_dim < 0 && parts.count[0] > 1) || (problem.row_dim < 0 && parts.count[1] > 1))
      continue;
    if (parts.all() > 1)
      parts.cycles +=
          kReduceCycles + 3 * dram_cycles(parts.all() * element_count(contract.output_shape), chip);
    if (image.channel_ways() > 1) parts.cycles += kRelayout * dram_cycles(results, chip);
    if (!best || parts.cycles < best->cycles) best = parts;
  }
  return best;
}

/// Cycles of the kernel that does any product, and of expanding its operand.
int64_t cycles_without(const Layer& layer, const LayerGraph& graph, const ColumnsProblem& problem,
                       const isa::Chip& chip) {
  std::optional<int64_t> least;
  for (const Candidate& candidate : contract_mau_kernel().run(layer, graph, chip, {}))
    least = std::min(least.value_or(candidate.predicted_cycles), candidate.predicted_cycles);
  const int64_t places = problem.results.images * problem.results.rows * problem.result_columns;
  const int64_t expanded = places * problem.operand.channels * problem.positions();
  return least.value_or(0) + 2 * dram_cycles(expanded + places * problem.results.channels, chip);
}

/// With a dim more for parts of each of `inner` dims, behind the others.
AffineMap with_parts(const AffineMap& map, const std::array<int, 2>& inner,
                     const std::array<int64_t, 2>& size) {
  AffineMap result(map.axes(), map.dims() + inner.size());
  for (size_t axis = 0; axis < map.axes(); ++axis) {
    result.set_offset(axis, map.offset(axis));
    for (size_t dim = 0; dim < map.dims(); ++dim) result.set(axis, dim, map.coefficient(axis, dim));
    for (size_t which = 0; which < inner.size(); ++which) {
      if (inner.at(which) >= 0)
        result.set(axis, map.dims() + which,
                   size.at(which) * map.coefficient(axis, static_cast<size_t>(inner.at(which))));
    }
  }
  return result;
}

/// Axes of a tensor and of what it is another name of that have the same elements, but for those of one
/// place.
struct AxisBlock {
  std::vector<size_t> axes, stored;
  std::vector<size_t> single;  ///< the tensor's axes of one place
};
std::vector<AxisBlock> axis_blocks(const Shape& shape, const Shape& stored) {
  std::vector<AxisBlock> blocks(1);
  int64_t own = 1, other = 1;
  size_t axis = 0, place = 0;
  while (axis < shape.size() || place < stored.size()) {
    if (axis < shape.size() && shape[axis] == 1) {
      blocks.back().single.push_back(axis++);
    } else if (place < stored.size() && stored[place] == 1) {
      ++place;
    } else if (own <= other) {
      blocks.back().axes.push_back(axis);
      own *= shape[axis++];
    } else {
      blocks.back().stored.push_back(place);
      other *= stored[place++];
    }
    if (own == other && own > 1) {
      blocks.emplace_back();
      own = other = 1;
    }
  }
  return blocks;
}

/// The access to what a tensor is another name of: axes that are its axes stay so, others are taken apart or
/// joined where nothing is read outside them. Else the same.
TensorAccess of_storage(const TensorAccess& access, const ContractLayer& contract, const LayerGraph& graph) {
  const auto& tensor = graph.tensors[static_cast<size_t>(access.tensor)];
  if (tensor.alias_of < 0) return access;
  const TensorId storage = graph.storage(access.tensor);
  const Shape& stored = graph.tensors[static_cast<size_t>(storage)].shape;
  const size_t dims = access.map.dims();
  TensorAccess result{storage, AffineMap(stored.size(), dims), access.fill};
  /// Whether an axis of `places` is never left.
  const auto stays_inside = [&](const AffineMap& map, size_t axis, int64_t places) {
    int64_t last = map.offset(axis);
    for (size_t dim = 0; dim < dims; ++dim) {
      if (contract.dims[dim].extent > 1 && map.coefficient(axis, dim) < 0) return false;
      last += (contract.dims[dim].extent - 1) * map.coefficient(axis, dim);
    }
    return map.offset(axis) >= 0 && last < places;
  };
  for (const AxisBlock& block : axis_blocks(tensor.shape, stored)) {
    for (const size_t axis : block.single) {
      if (!stays_inside(access.map, axis, 1)) return access;
    }
    if (block.axes.size() == 1 && block.stored.size() == 1) {
      result.map.set_offset(block.stored[0], access.map.offset(block.axes[0]));
      for (size_t dim = 0; dim < dims; ++dim)
        result.map.set(block.stored[0], dim, access.map.coefficient(block.axes[0], dim));
      continue;
    }
    // Places in row-major order; the last number is that of the offset.
    std::vector<int64_t> numbers(dims + 1, 0);
    for (const size_t axis : block.axes) {
      if (!stays_inside(access.map, axis, tensor.shape[axis])) return access;
      for (size_t dim = 0; dim <= dims; ++dim) {
        numbers[dim] *= tensor.shape[axis];
        if (dim == dims) {
          numbers[dim] += access.map.offset(axis);
        } else if (contract.dims[dim].extent > 1) {
          numbers[dim] += access.map.coefficient(axis, dim);
        }
      }
    }
    int64_t below = 1;
    for (const size_t axis : block.stored) below *= stored[axis];
    for (const size_t axis : block.stored) {
      below /= stored[axis];
      for (size_t dim = 0; dim < dims; ++dim) result.map.set(axis, dim, numbers[dim] / below);
      result.map.set_offset(axis, numbers[dims] / below);
      for (int64_t& number : numbers) number %= below;
      if (!stays_inside(result.map, axis, stored[axis])) return access;
    }
  }
  return result;
}

/// The access to what a Rearrange makes of a tensor by changing the places of axes, from that tensor; else
/// the same.
TensorAccess through_transpose(const TensorAccess& access, const LayerGraph& graph) {
  const auto makes_it = [&](const Layer& layer) {
    return layer.kind() == LayerKind::kRearrange && layer.outputs.at(0) == access.tensor;
  };
  const auto maker = std::ranges::find_if(graph.layers, makes_it);
  if (maker == graph.layers.end()) return access;
  const auto& rearrange = std::get<RearrangeLayer>(maker->body);
  const size_t rank = rearrange.extents.size();
  if (rearrange.pieces.size() != 1) return access;
  const RearrangeLayer::Piece& piece = rearrange.pieces[0];
  const Shape& source = graph.tensors[static_cast<size_t>(piece.input.tensor)].shape;
  if (source.size() != rank || piece.begin != std::vector<int64_t>(rank, 0) || piece.end != rearrange.extents)
    return access;
  // What is outside one is outside the other then.
  std::vector<bool> is_read(rank, false);
  for (size_t axis = 0; axis < rank; ++axis) {
    if (piece.input.map.offset(axis) != 0) return access;
    int64_t places = 1;
    for (size_t dim = 0; dim < rank; ++dim) {
      const int64_t coefficient = piece.input.map.coefficient(axis, dim);
      if (coefficient == 0) continue;
      if (coefficient != 1 || is_read[dim] || places > 1) return access;
      is_read[dim] = true;
      places = rearrange.extents[dim];
    }
    if (places != source[axis]) return access;
  }
  return {piece.input.tensor, piece.input.map.after(access.map), access.fill};
}

/// What an access reads, through other names and changed places of axes.
TensorAccess source_of(TensorAccess access, const ContractLayer& contract, const LayerGraph& graph) {
  for (TensorId before = -1; before != access.tensor;) {
    before = access.tensor;
    access = through_transpose(of_storage(access, contract, graph), graph);
  }
  return access;
}

/// A product of groups of channels as one of *sections*, of as many groups as make whole chunks of both
/// pictures, or of all: of its sums, those of a group with itself are wanted.
struct Sections {
  ContractLayer product;  ///< sums [results' channels, operand's channels of a section, others ...]
  int64_t groups = 1;     ///< of a section
  int64_t operand_width = 1, results_width = 1;  ///< channels of a group
  /// Axes of the product's sums that the whole's are, -1: that of groups and of results' channels, -2: of the
  /// operand's channels.
  std::vector<int> axes;
};
/// With one of the operands as results; nothing where channels aren't in groups.
std::optional<Sections> sections_of(const ContractLayer& contract, bool results_first,
                                    const LayerGraph& graph) {
  const auto role = [&](size_t dim) { return contract.dims[dim].role; };
  const TensorAccess& results = results_first ? contract.a : contract.b;
  const TensorAccess& operand = results_first ? contract.b : contract.a;
  // Dims of the groups, of results' channels, of the operand's.
  std::array<int, 3> dims = {-1, -1, -1};
  std::array<int64_t, 2> widths = {1, 1};
  const auto extent = [&](int dim) { return dim < 0 ? 1 : contract.dims[static_cast<size_t>(dim)].extent; };
  for (size_t way = 0; way < 2; ++way) {
    const TensorAccess& access = way == 0 ? results : operand;
    const Shape& shape = graph.tensors[static_cast<size_t>(access.tensor)].shape;
    if (shape.size() != 4 || access.map.offset(1) != 0) return std::nullopt;
    int group = -1;
    for (size_t dim = 0; dim < contract.dims.size(); ++dim) {
      if (contract.dims[dim].extent == 1 || access.map.coefficient(1, dim) == 0) continue;
      int& found = role(dim) == ContractLayer::Role::kBatch ? group : dims.at(way + 1);
      if (found >= 0) return std::nullopt;
      found = static_cast<int>(dim);
    }
    const int channel = dims.at(way + 1);
    widths.at(way) = extent(channel);
    if (group < 0 || (way == 1 && group != dims[0]) ||
        (channel >= 0 && access.map.coefficient(1, static_cast<size_t>(channel)) != 1) ||
        access.map.coefficient(1, static_cast<size_t>(group)) != extent(channel) ||
        extent(group) * extent(channel) != shape[1])
      return std::nullopt;
    dims[0] = group;
  }
  Sections found;
  found.results_width = widths[0];
  found.operand_width = widths[1];
  const int64_t all = extent(dims[0]);
  const auto makes_chunks = [&](int64_t groups) {
    return all % groups == 0 && groups * widths[0] % kChunkChannels == 0 &&
           groups * widths[1] % kChunkChannels == 0;
  };
  for (found.groups = 1; found.groups < all && !makes_chunks(found.groups);) ++found.groups;

  found.product = contract;
  ContractLayer& product = found.product;
  const size_t before = contract.dims.size();
  for (size_t way = 0; way < 2; ++way) {
    if (dims.at(way + 1) >= 0) continue;
    dims.at(way + 1) = static_cast<int>(product.dims.size());
    const bool is_first = (way == 0) == results_first;
    product.dims.push_back({way == 0 ? "result channel" : "operand channel", 1,
                            is_first ? ContractLayer::Role::kM : ContractLayer::Role::kN});
  }
  for (size_t way = 0; way < 2; ++way)
    product.dims[static_cast<size_t>(dims.at(way + 1))].extent = found.groups * widths.at(way);
  const auto group = static_cast<size_t>(dims[0]);
  product.dims[group].extent = all / found.groups;
  const auto grown = [&](const AffineMap& map) {
    AffineMap result(map.axes(), product.dims.size());
    for (size_t axis = 0; axis < map.axes(); ++axis) {
      result.set_offset(axis, map.offset(axis));
      for (size_t dim = 0; dim < before; ++dim) result.set(axis, dim, map.coefficient(axis, dim));
    }
    return result;
  };
  product.a.map = grown(contract.a.map);
  product.b.map = grown(contract.b.map);
  for (size_t way = 0; way < 2; ++way) {
    AffineMap& map = (way == 0) == results_first ? product.a.map : product.b.map;
    map.set(1, group, found.groups * widths.at(way)).set(1, static_cast<size_t>(dims.at(way + 1)), 1);
  }
  // The sums' axes: those of channels, then what the whole has beside them.
  product.output_shape = {all * widths[0], found.groups * widths[1]};
  std::vector<int> others;
  for (size_t axis = 0; axis < contract.output.axes(); ++axis) {
    std::vector<int> used;
    for (size_t dim = 0; dim < before; ++dim) {
      if (contract.dims[dim].extent > 1 && contract.output.coefficient(axis, dim) != 0)
        used.push_back(static_cast<int>(dim));
    }
    const bool is_group = std::ranges::count(used, dims[0]) > 0;
    if (contract.output.offset(axis) != 0) return std::nullopt;
    if (is_group) {
      // Groups of results' channels.
      std::erase(used, dims[0]);
      std::erase(used, dims[1]);
      if (!used.empty() || contract.output.coefficient(axis, group) != widths[0] ||
          contract.output_shape[axis] != all * widths[0])
        return std::nullopt;
      found.axes.push_back(-1);
    } else if (used == std::vector{dims[2]}) {
      found.axes.push_back(-2);
    } else {
      if (used.size() > 1) return std::nullopt;
      found.axes.push_back(static_cast<int>(product.output_shape.size()));
      product.output_shape.push_back(contract.output_shape[axis]);
      others.push_back(used.empty() ? -1 : used[0]);
    }
  }
  if (std::ranges::count(found.axes, -1) != 1) return std::nullopt;
  product.output = AffineMap(product.output_shape.size(), product.dims.size());
  product.output.set(0, group, found.groups * widths[0]).set(0, static_cast<size_t>(dims[1]), 1);
  product.output.set(1, static_cast<size_t>(dims[2]), 1);
  for (size_t k = 0; k < others.size(); ++k) {
    if (others[k] >= 0) product.output.set(k + 2, static_cast<size_t>(others[k]), 1);
  }
  return found;
}

class ColumnsSplitter {
 public:
  ColumnsSplitter(LayerGraph& graph, const isa::Chip& chip) : graph_(graph), chip_(chip) {
    for (const Layer& layer : graph.layers) layers_.reserve(layer.name);
    for (const LayerTensor& tensor : graph.tensors) tensors_.reserve(tensor.name);
  }

  /// Says whether any layer is another one now.
  bool run(bool always) {
    bool changed = false;
    for (size_t index = 0; index < graph_.layers.size(); ++index) {
      const auto* whole = std::get_if<ContractLayer>(&graph_.layers[index].body);
      if (whole == nullptr || !whole->epilogue_inputs.empty()) continue;
      ContractLayer named = *whole;
      for (TensorAccess* operand : {&named.a, &named.b}) *operand = source_of(*operand, named, graph_);
      const TensorId output = graph_.layers[index].outputs.at(0);
      std::vector<ColumnsProblem> ways = columns_problems(named, output, graph_);
      std::optional<Sections> sections;
      for (const bool results_first : {true, false}) {
        if (!ways.empty()) break;
        sections = sections_of(named, results_first, graph_);
        if (sections) ways = columns_problems(sections->product, output, graph_);
      }
      if (ways.empty() || ways[0].parts != std::array<int64_t, 2>{1, 1}) continue;
      const ContractLayer& product = sections ? sections->product : named;
      const auto parts = best_parts(product, ways, chip_);
      if (!parts) continue;
      if (!always && parts->cycles >= cycles_without(graph_.layers[index], graph_, ways[0], chip_)) continue;
      changed = true;
      if (parts->all() > 1 || sections) {
        split(index, product, ways[0], *parts, sections ? &*sections : nullptr);
        ++index;
        add_zeros(graph_.layers[index - 1]);
      } else {
        graph_.layers[index].body = named;
        add_zeros(graph_.layers[index]);
      }
    }
    return changed;
  }

 private:
  /// An input of the epilogue that is read by nobody but the kernel's transfers.
  void add_zeros(Layer& layer) {
    auto& contract = std::get<ContractLayer>(layer.body);
    zeros_.add(graph_, tensors_, contract.epilogue_inputs, contract.dims.size());
  }

  /// The sum of parts of a product, of which only the groups' own channels are wanted where it has sections.
  void split(size_t index, const ContractLayer& contract, const ColumnsProblem& problem, const Parts& parts,
             const Sections* sections) {
    const Layer whole = graph_.layers[index];
    const std::array<int, 2> inner = {problem.image_dim, problem.row_dim};

    Layer product = whole;
    product.name = layers_.make_unique(whole.name + "/parts");
    product.body = contract;
    auto& body = std::get<ContractLayer>(product.body);
    for (size_t which = 0; which < inner.size(); ++which) {
      body.dims.push_back(
          {which == 0 ? "image part" : "row part", parts.count.at(which), ContractLayer::Role::kBatch});
      if (inner.at(which) >= 0) body.dims[static_cast<size_t>(inner.at(which))].extent = parts.size.at(which);
    }
    body.a.map = with_parts(contract.a.map, inner, parts.size);
    body.b.map = with_parts(contract.b.map, inner, parts.size);
    const size_t axes = contract.output.axes(), dims = contract.dims.size();
    body.output = AffineMap(axes + 2, dims + 2);
    body.output.set(0, dims, 1).set(1, dims + 1, 1);
    for (size_t axis = 0; axis < axes; ++axis) {
      for (size_t dim = 0; dim < dims; ++dim)
        body.output.set(axis + 2, dim, contract.output.coefficient(axis, dim));
    }
    body.output_shape = {parts.count[0], parts.count[1]};
    body.output_shape.insert(body.output_shape.end(), contract.output_shape.begin(),
                             contract.output_shape.end());
    LayerTensor sums = graph_.tensors[static_cast<size_t>(whole.outputs[0])];
    sums.name = tensors_.make_unique(sums.name + "/parts");
    sums.shape = body.output_shape;
    sums.alias_of = -1;
    product.outputs = {static_cast<TensorId>(graph_.tensors.size())};
    graph_.tensors.push_back(std::move(sums));

    Layer sum = whole;
    ReduceLayer reduce;
    reduce.output_extents = contract.output_shape;
    if (sections != nullptr) reduce.output_extents = whole_shape(whole, *sections);
    const size_t outputs = reduce.output_extents.size();
    reduce.reduction_extents = {parts.count[0], parts.count[1]};
    TensorAccess access{product.outputs[0], AffineMap(axes + 2, outputs + 2), 0};
    access.map.set(0, outputs, 1).set(1, outputs + 1, 1);
    if (sections == nullptr) {
      for (size_t axis = 0; axis < axes; ++axis) access.map.set(axis + 2, axis, 1);
    } else {
      read_own_groups(access.map, *sections);
      make_as(graph_, whole.outputs[0], reduce.output_extents);
    }
    reduce.inputs = {std::move(access)};
    reduce.expr = reduce.epilogue = ScalarExpr::identity();
    sum.body = std::move(reduce);

    graph_.layers[index] = std::move(product);
    graph_.layers.insert(graph_.layers.begin() + static_cast<std::ptrdiff_t>(index) + 1, std::move(sum));
  }

  /// A sum's shape with the axis of groups as three: sections, groups of one, and a group's channels.
  static Shape whole_shape(const Layer& whole, const Sections& sections) {
    const Shape& made = std::get<ContractLayer>(whole.body).output_shape;
    Shape shape;
    for (size_t axis = 0; axis < made.size(); ++axis) {
      if (sections.axes[axis] != -1) {
        shape.push_back(made[axis]);
        continue;
      }
      shape.insert(shape.end(), {made[axis] / sections.groups / sections.results_width, sections.groups,
                                 sections.results_width});
    }
    return shape;
  }
  /// Over such a shape: the sums of parts of sections (axes behind the first two) that are wanted.
  static void read_own_groups(AffineMap& map, const Sections& sections) {
    size_t dim = 0;
    for (const int axis : sections.axes) {
      if (axis == -1) {
        map.set(2, dim, sections.groups * sections.results_width);
        map.set(2, dim + 1, sections.results_width).set(3, dim + 1, sections.operand_width);
        map.set(2, dim + 2, 1);
        dim += 3;
      } else if (axis == -2) {
        map.set(3, dim++, 1);
      } else {
        map.set(static_cast<size_t>(axis) + 2, dim++, 1);
      }
    }
  }

  LayerGraph& graph_;
  const isa::Chip& chip_;
  FreshNames layers_, tensors_;
  FillRows zeros_;
};

}  // namespace

void split_columns(LayerGraph& graph, const isa::Chip& chip, bool always) {
  if (ColumnsSplitter(graph, chip).run(always)) drop_unread_rearranges(graph);
}

}  // namespace kodama::compiler
