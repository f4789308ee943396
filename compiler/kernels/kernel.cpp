#include "compiler/kernels/kernel.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "compiler/kernels/builtin_kernels.h"
#include "compiler/tile/buffer_use.h"
#include "isa/error.h"
#include "passes/registry.h"

namespace kodama::compiler {

namespace {

constexpr const char* kPart = "verify kernel";

passes::Registry<Kernel>& registry() {
  static passes::Registry<Kernel> all(
      "kernel",
      {contract_columns_kernel(), contract_mau_kernel(), contract_rows_kernel(), depthwise_rows_kernel(),
       gather_kernel(), map_kernel(), map_rows_kernel(), matmul_rows_kernel(), normalize_rows_kernel(),
       reduce_kernel(), reduce_rows_kernel(), reduce_shared_kernel(), sum_pictures_kernel()},
      [](const Kernel& kernel) -> std::pair<std::string, std::string> {
        if (kernel.kind != LayerKind::kRearrange && kernel.kind != LayerKind::kHost) return {};
        return {fmt::format("for {} layers", layer_kind_name(kernel.kind)),
                "Map, Reduce, Contract, Normalize and Gather layers"};
      });
  return all;
}

void verify_placement(const StreamPlacement& placement, const LayerGraph& graph, const isa::Chip& chip) {
  const auto check = [&](bool condition, std::string_view what) {
    isa::check_internal(condition, kPart, "stream '{}': {}", placement.name, what);
  };
  const TensorId tensor = placement.access.tensor;
  check(tensor >= 0 && tensor < static_cast<int>(graph.tensors.size()), "there is no such tensor");
  const AffineMap& map = placement.access.map;
  check(map.axes() == graph.tensors[static_cast<size_t>(tensor)].shape.size(),
        "the map has other axes than the tensor");
  check(map.dims() == placement.extents.size(), "the map has other dims than the iteration space");
  check(placement.layout.axes().size() == placement.axis_dims.size(), "axis_dims aren't the layout's axes");
  std::vector<bool> is_placed(placement.extents.size(), false);
  for (size_t axis = 0; axis < placement.axis_dims.size(); ++axis) {
    int64_t length = 1;
    for (const int dim : placement.axis_dims[axis]) {
      check(dim >= 0 && dim < static_cast<int>(is_placed.size()), "axis_dims name a dim that isn't there");
      check(!is_placed[static_cast<size_t>(dim)], "axis_dims name a dim twice");
      is_placed[static_cast<size_t>(dim)] = true;
      length *= placement.extents[static_cast<size_t>(dim)];
    }
    check(placement.layout.extent(axis) >= length, "an axis of the layout is too short");
  }
  for (size_t dim = 0; dim < is_placed.size(); ++dim) {
    for (size_t axis = 0; axis < map.axes() && !is_placed[dim] && placement.extents[dim] > 1; ++axis)
      check(map.coefficient(axis, dim) == 0, "elements have no place: axis_dims lack a dim");
  }
  check(placement.element == StreamElement::kFloat || (!placement.is_output && graph.is_packed(tensor)),
        "a layer makes it, and not as halves");
  check(placement.length_lw > 0 && placement.length_lw % placement.transport.granule() == 0,
        "the length isn't a number of granules");
  check(placement.layout.level_extent(layout::Level::kAddress) <= placement.length_lw,
        "the layout is longer than the stream");
  try {
    placement.layout.validate(chip, placement.element_bits());
  } catch (const isa::UserError& error) {
    check(false, error.what());
  }
}

}  // namespace

const std::vector<Kernel>& kernels() {
  return registry().all();
}
void register_pass(Kernel kernel) {
  registry().add(std::move(kernel));
}
const Kernel& find_kernel(const std::string& name) {
  return registry().find(name);
}

void verify_candidate(const Candidate& candidate, const Layer& layer, const LayerGraph& graph,
                      const isa::Chip& chip) {
  const auto& placements = candidate.placements;
  isa::check_internal(candidate.emit != nullptr, kPart, "a candidate without emit");
  isa::check_internal(candidate.predicted_cycles >= 0, kPart, "a candidate of {} cycles",
                      candidate.predicted_cycles);
  isa::check_internal(
      std::ranges::count(placements, true, &StreamPlacement::is_output) == 1 && placements.back().is_output,
      kPart, "a candidate has one output, its last stream");
  isa::check_internal(placements.back().access.tensor == layer.outputs.at(0), kPart,
                      "the last stream isn't the layer's result");
  std::vector<TensorId> read;
  for (const StreamPlacement& placement : placements) {
    verify_placement(placement, graph, chip);
    if (!placement.is_output) read.push_back(placement.access.tensor);
  }
  std::vector<TensorId> operands;
  for (const TensorId operand : layer_inputs(layer)) {
    const auto found = std::ranges::find(read, operand);
    if (found != read.end()) {
      read.erase(found);
      continue;
    }
    // Or what it is concatenated of.
    const size_t axes = graph.tensors[static_cast<size_t>(operand)].shape.size();
    std::vector<TensorId> parts = {operand};
    for (size_t axis = 0; axis < axes && parts.size() == 1; ++axis)
      parts = concatenated_of(graph, operand, axis);
    operands.insert(operands.end(), parts.begin(), parts.end());
  }
  std::ranges::sort(operands);
  std::ranges::sort(read);
  isa::check_internal(read == operands, kPart, "the streams aren't those of the layer's operands");
}

namespace {

/// Whether operations take the elements of streams for what they are.
void verify_elements(const TileProgram& program, const Candidate& candidate) {
  const auto check = [&](int stream, StreamElement element) {
    const StreamPlacement& placement = candidate.placements[static_cast<size_t>(stream)];
    isa::check_internal(element == placement.element, kPart, "stream '{}' is taken for one of {}s",
                        placement.name, kStreamElementNames.at(static_cast<size_t>(element)));
  };
  for_each_node(program.body, [&](const TileNode& node) {
    if (const auto* load = std::get_if<LoadTile>(&node.kind)) {
      check(load->stream, load->element);
    } else if (const auto* product = std::get_if<StreamProduct>(&node.kind)) {
      check(product->a.stream, product->a.element);
      check(product->b.stream, product->b.element);
    } else if (const auto* rows = std::get_if<LoadRows>(&node.kind)) {
      check(rows->stream, StreamElement::kFloat);
    }
  });
}

}  // namespace

TileProgram emit_tiles(const Candidate& candidate, const std::vector<int64_t>& dram_addresses,
                       const isa::Chip& chip, bool backwards) {
  TileProgram program;
  passes::run_blaming("kernel", find_kernel(candidate.kernel), [&] {
    program = backwards && candidate.emit_backwards ? candidate.emit_backwards(dram_addresses)
                                                    : candidate.emit(dram_addresses);
    isa::check_internal(program.streams.size() == candidate.placements.size(), kPart,
                        "{} streams for {} placements", program.streams.size(), candidate.placements.size());
    for (size_t k = 0; k < program.streams.size(); ++k) {
      const TileStream& stream = program.streams[k];
      const StreamPlacement& placement = candidate.placements[k];
      isa::check_internal(stream.transport == placement.transport &&
                              stream.length_lw == placement.length_lw &&
                              stream.dram_address == dram_addresses[k],
                          kPart, "stream '{}' isn't as its placement says", placement.name);
    }
    verify_tile_program(program, chip);
    verify_elements(program, candidate);
  });
  return program;
}

std::vector<Candidate> layer_candidates(const Layer& layer, const LayerGraph& graph, const isa::Chip& chip,
                                        const KernelOptions& options) {
  std::vector<Candidate> all;
  if (layer.kind() == LayerKind::kRearrange || layer.kind() == LayerKind::kHost) return all;
  for (const Kernel& kernel : kernels()) {
    if (kernel.kind != layer.kind()) continue;
    std::vector<Candidate> candidates;
    passes::run_blaming("kernel", kernel, [&] {
      candidates = kernel.run(layer, graph, chip, options);
      if (kernel.plugin.empty()) return;
      for (const Candidate& candidate : candidates) verify_candidate(candidate, layer, graph, chip);
    });
    for (Candidate& candidate : candidates) {
      candidate.kernel = kernel.name;
      all.push_back(std::move(candidate));
    }
  }
  std::stable_sort(all.begin(), all.end(), [](const Candidate& first, const Candidate& second) {
    return first.predicted_cycles < second.predicted_cycles;
  });
  return all;
}

}  // namespace kodama::compiler
