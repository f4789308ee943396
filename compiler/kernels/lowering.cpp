#include "compiler/kernels/lowering.h"

#include <type_traits>

#include "isa/error.h"

namespace kodama::compiler {

namespace {

void lower_nodes(TileLoweringContext& context, const std::vector<TileNode>& nodes);

void lower_node(TileLoweringContext& context, const TileNode& node) {
  std::visit(
      [&](const auto& op) {
        using Op = std::decay_t<decltype(op)>;
        if constexpr (std::is_same_v<Op, LoadTile>) {
          lower_load(context, op);
        } else if constexpr (std::is_same_v<Op, StoreTile>) {
          lower_store(context, op);
        } else if constexpr (std::is_same_v<Op, FillTile>) {
          lower_fill(context, op);
        } else if constexpr (std::is_same_v<Op, ProductTile>) {
          lower_product(context, op);
        } else if constexpr (std::is_same_v<Op, StreamProduct>) {
          lower_stream_product(context, op);
        } else if constexpr (std::is_same_v<Op, MapTile>) {
          lower_map(context, op);
        } else if constexpr (std::is_same_v<Op, ReduceTile>) {
          lower_reduce(context, op);
        } else if constexpr (std::is_same_v<Op, GatherTile>) {
          lower_gather(context, op);
        } else if constexpr (std::is_same_v<Op, LoadRows>) {
          lower_load_rows(context, op);
        } else if constexpr (std::is_same_v<Op, WindowProduct>) {
          lower_window_product(context, op);
        } else if constexpr (std::is_same_v<Op, ReduceWindows>) {
          lower_reduce_windows(context, op);
        } else if constexpr (std::is_same_v<Op, NormalizeRows>) {
          lower_normalize_rows(context, op);
        } else if constexpr (std::is_same_v<Op, FinishRows>) {
          lower_finish_rows(context, op);
        } else if constexpr (std::is_same_v<Op, LoadLanes>) {
          lower_load_lanes(context, op);
        } else if constexpr (std::is_same_v<Op, LoadPlaces>) {
          lower_load_places(context, op);
        } else if constexpr (std::is_same_v<Op, FinishLanes>) {
          lower_finish_lanes(context, op);
        } else if constexpr (std::is_same_v<Op, LoadLines>) {
          lower_load_lines(context, op);
        } else if constexpr (std::is_same_v<Op, ReduceLines>) {
          lower_reduce_lines(context, op);
        } else if constexpr (std::is_same_v<Op, LoadColumns>) {
          lower_load_columns(context, op);
        } else if constexpr (std::is_same_v<Op, TransposeColumns>) {
          lower_transpose_columns(context, op);
        } else if constexpr (std::is_same_v<Op, ColumnProduct>) {
          lower_column_product(context, op);
        } else if constexpr (std::is_same_v<Op, AddColumns>) {
          lower_add_columns(context, op);
        } else if constexpr (std::is_same_v<Op, SumRows>) {
          lower_sum_rows(context, op);
        } else if constexpr (std::is_same_v<Op, SumL2bs>) {
          lower_sum_l2bs(context, op);
        } else if constexpr (std::is_same_v<Op, StoreRows>) {
          lower_store_rows(context, op);
        } else {
          static_assert(std::is_same_v<Op, TileLoop>);
          if (op.count == 0) return;
          context.builder.begin_loop(op.count);
          lower_nodes(context, op.body);
          context.builder.end_loop();
        }
      },
      node.kind);
}

void lower_nodes(TileLoweringContext& context, const std::vector<TileNode>& nodes) {
  for (const TileNode& node : nodes) lower_node(context, node);
}

/// Where a buffer with an address is; -1: nowhere.
struct BufferPlace {
  int64_t word = -1;
  isa::Space memory = isa::Space::kLm0;
};

/// Operands in buffers that have an address name the memory itself. By value.
void place_buffers(std::vector<scheduler::Node>& nodes, const std::vector<BufferPlace>& places) {
  for (scheduler::Node& node : nodes) {
    if (auto* loop = std::get_if<scheduler::CountedLoop>(&node.kind)) place_buffers(loop->body, places);
    if (auto* region = std::get_if<scheduler::RegionNode>(&node.kind)) place_buffers(region->body, places);
    auto* block = std::get_if<scheduler::Block>(&node.kind);
    if (block == nullptr) continue;
    for (scheduler::Operation& operation : block->operations) {
      for (auto* operands : {&operation.instruction.sources, &operation.instruction.destinations}) {
        for (isa::Operand& operand : *operands) {
          if (operand.space != isa::Space::kVirtual || static_cast<size_t>(operand.value) >= places.size())
            continue;
          const BufferPlace& place = places[static_cast<size_t>(operand.value)];
          if (place.word < 0) continue;
          operand.space = place.memory;
          operand.base += place.word;
          operand.value = -1;
        }
      }
    }
  }
}

}  // namespace

scheduler::MachineProgram lower_tile_program(const TileProgram& program, const isa::Chip& chip) {
  verify_tile_program(program, chip);
  MachineBuilder builder(chip, program.name);
  TileLoweringContext context{builder, program, {}};
  for (const TileBuffer& buffer : program.buffers) {
    context.buffer_values.push_back(builder.value(buffer.name, buffer.size_lw * isa::kWordsPerLong,
                                                  buffer.homes, isa::words(isa::Width::kDoubleLong)));
  }
  builder.begin_region(program.name);
  lower_nodes(context, program.body);
  builder.end_region();
  scheduler::MachineProgram machine = builder.finish();
  std::vector<BufferPlace> places;
  for (size_t k = 0; k < program.buffers.size(); ++k) {
    const auto value = static_cast<size_t>(context.buffer_values[k]);
    places.resize(value + 1);
    const TileBuffer& buffer = program.buffers[k];
    if (buffer.address_lw >= 0) places[value] = {buffer.address_lw * isa::kWordsPerLong, buffer.memory};
  }
  place_buffers(machine.body, places);
  for (const TileProgram::Kept& kept : program.kept) {
    machine.kept.push_back({kept.memory, kept.begin_lw * isa::kWordsPerLong,
                            (kept.begin_lw + kept.size_lw) * isa::kWordsPerLong});
  }
  return machine;
}

std::optional<MatrixPrecision> precision_of_made_matrices(MatrixPrecision precision) {
  if (precision == MatrixPrecision::kFloat) return std::nullopt;
  return MatrixPrecision::kGFloat;
}

}  // namespace kodama::compiler
