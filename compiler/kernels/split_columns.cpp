#include "compiler/kernels/split_columns.h"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>
#include <vector>

#include "compiler/kernels/builtin_kernels.h"
#include "compiler/kernels/columns_problem.h"
#include "compiler/kernels/zero_rows.h"
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

std::optional<Parts> best_parts(const ContractLayer& contract, const ColumnsProblem& problem,
                                const isa::Chip& chip) {
  // A Reduce of its own, and the relayout before it.
  constexpr int64_t kReduceCycles = 1000;
  std::optional<Parts> best;
  for (const RowsSplit split : kRowsSplits) {
    const auto cycles = columns_cycles(problem, split, chip);
    if (!cycles) continue;
    const RowsImage image(problem.results, split, chip);
    Parts parts{{image.image_ways(), image.row_ways()}, {image.images(), image.rows()}, *cycles};
    // Of a single image or row there are no parts.
    if ((problem.image_dim < 0 && parts.count[0] > 1) || (problem.row_dim < 0 && parts.count[1] > 1))
      continue;
    if (parts.all() > 1)
      parts.cycles +=
          kReduceCycles + 3 * dram_cycles(parts.all() * element_count(contract.output_shape), chip);
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

/// The access to what a tensor is another name of, if that has the same axes but for those of one place: so a
/// batch of one, whose axis changed places, is a batch again.
TensorAccess of_storage(const TensorAccess& access, const ContractLayer& contract, const LayerGraph& graph) {
  const auto& tensor = graph.tensors[static_cast<size_t>(access.tensor)];
  if (tensor.alias_of < 0) return access;
  const TensorId storage = graph.storage(access.tensor);
  const Shape& shape = graph.tensors[static_cast<size_t>(storage)].shape;
  TensorAccess result{storage, AffineMap(shape.size(), access.map.dims()), access.fill};
  size_t axis = 0;
  const auto skip_single = [&](bool& is_read) {
    for (; axis < tensor.shape.size() && tensor.shape[axis] == 1; ++axis) {
      is_read = is_read || access.map.offset(axis) != 0;
      for (size_t dim = 0; dim < access.map.dims(); ++dim)
        is_read = is_read || (contract.dims[dim].extent > 1 && access.map.coefficient(axis, dim) != 0);
    }
  };
  bool is_read = false;  // beyond its one place
  for (size_t own = 0; own < shape.size(); ++own) {
    if (shape[own] == 1) continue;
    skip_single(is_read);
    if (axis == tensor.shape.size() || tensor.shape[axis] != shape[own]) return access;
    result.map.set_offset(own, access.map.offset(axis));
    for (size_t dim = 0; dim < access.map.dims(); ++dim)
      result.map.set(own, dim, access.map.coefficient(axis, dim));
    ++axis;
  }
  skip_single(is_read);
  return is_read || axis < tensor.shape.size() ? access : result;
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
      for (TensorAccess* operand : {&named.a, &named.b})
        *operand = of_storage(through_transpose(*operand, graph_), named, graph_);
      const auto problem = columns_problem(named, graph_.layers[index].outputs.at(0), graph_);
      if (!problem || problem->parts != std::array<int64_t, 2>{1, 1}) continue;
      const auto parts = best_parts(named, *problem, chip_);
      if (!parts) continue;
      if (!always && parts->cycles >= cycles_without(graph_.layers[index], graph_, *problem, chip_)) continue;
      graph_.layers[index].body = named;
      changed = true;
      if (parts->all() > 1) {
        split(index, *problem, *parts);
        ++index;
        add_zeros(graph_.layers[index - 1]);
      } else {
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

  void split(size_t index, const ColumnsProblem& problem, const Parts& parts) {
    const Layer whole = graph_.layers[index];
    const auto& contract = std::get<ContractLayer>(whole.body);
    const std::array<int, 2> inner = {problem.image_dim, problem.row_dim};

    Layer product = whole;
    product.name = layers_.make_unique(whole.name + "/parts");
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
    reduce.reduction_extents = {parts.count[0], parts.count[1]};
    TensorAccess access{product.outputs[0], AffineMap(axes + 2, axes + 2), 0};
    access.map.set(0, axes, 1).set(1, axes + 1, 1);
    for (size_t axis = 0; axis < axes; ++axis) access.map.set(axis + 2, axis, 1);
    reduce.inputs = {std::move(access)};
    reduce.expr = reduce.epilogue = ScalarExpr::identity();
    sum.body = std::move(reduce);

    graph_.layers[index] = std::move(product);
    graph_.layers.insert(graph_.layers.begin() + static_cast<std::ptrdiff_t>(index) + 1, std::move(sum));
  }

  LayerGraph& graph_;
  const isa::Chip& chip_;
  FreshNames layers_, tensors_;
  ZeroRows zeros_;
};

}  // namespace

void split_columns(LayerGraph& graph, const isa::Chip& chip, bool always) {
  if (ColumnsSplitter(graph, chip).run(always)) drop_unread_rearranges(graph);
}

}  // namespace kodama::compiler
