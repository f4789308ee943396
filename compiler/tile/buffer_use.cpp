#include "compiler/tile/buffer_use.h"

#include <algorithm>
#include <iterator>

namespace kodama::compiler {

namespace {

struct BufferUseOf {
  BufferUse operator()(const LoadTile& op) const { return {{}, {op.buffer}}; }
  BufferUse operator()(const StoreTile& op) const { return {{op.buffer}, {}}; }
  BufferUse operator()(const FillTile& op) const { return {{}, {op.buffer}}; }
  BufferUse operator()(const ProductTile& op) const { return {{op.a, op.b, op.c}, {op.c}}; }
  BufferUse operator()(const StreamProduct& op) const {
    BufferUse use;
    for (const std::array<int, 2>& buffers : {op.b_buffers, op.c, op.parked, op.result}) {
      std::ranges::copy_if(buffers, std::back_inserter(use.reads), [](int buffer) { return buffer >= 0; });
    }
    use.writes = use.reads;
    if (op.store) {
      std::ranges::copy_if(op.store->buffers, std::back_inserter(use.reads),
                           [](int buffer) { return buffer >= 0; });
    }
    return use;
  }
  BufferUse operator()(const MapTile& op) const { return {inputs(op.inputs), {op.out}}; }
  BufferUse operator()(const ReduceTile& op) const {
    BufferUse use{inputs(op.inputs), {op.accumulator}};
    use.reads.push_back(op.accumulator);
    if (op.low_accumulator >= 0) {
      use.reads.push_back(op.low_accumulator);
      use.writes.push_back(op.low_accumulator);
    }
    return use;
  }
  BufferUse operator()(const GatherTile& op) const { return {{op.table, op.index}, {op.out}}; }
  BufferUse operator()(const LoadRows& op) const { return {{}, {op.buffer}}; }
  BufferUse operator()(const WindowProduct& op) const { return {{op.matrices, op.windows}, {op.sums}}; }
  BufferUse operator()(const ReduceWindows& op) const { return windows(op); }
  BufferUse operator()(const NormalizeRows& op) const { return {inputs(op.inputs), kept(op)}; }
  BufferUse operator()(const FinishRows& op) const {
    BufferUse use{inputs(op.inputs), kept(op)};
    if (op.sums >= 0) use.reads.push_back(op.sums);
    return use;
  }
  BufferUse operator()(const SumRows&) const { return {}; }
  BufferUse operator()(const SumL2bs&) const { return {}; }
  BufferUse operator()(const LoadLanes& op) const { return {{}, {op.buffer}}; }
  BufferUse operator()(const LoadPlaces& op) const { return {{}, {op.buffer}}; }
  BufferUse operator()(const FinishLanes& op) const {
    BufferUse use{inputs(op.inputs), kept(op)};
    use.reads.push_back(op.sums);
    return use;
  }
  BufferUse operator()(const LoadLines& op) const { return {{}, {op.buffer}}; }
  BufferUse operator()(const LoadColumns& op) const { return {{}, {op.buffer}}; }
  BufferUse operator()(const TransposeColumns& op) const { return {{op.raw}, {op.out}}; }
  BufferUse operator()(const ColumnProduct& op) const {
    return {{op.matrices, op.windows, op.sums}, {op.sums, op.work}};
  }
  BufferUse operator()(const AddColumns& op) const {
    BufferUse use{inputs(op.inputs), {op.sums}};
    use.reads.push_back(op.sums);
    return use;
  }
  BufferUse operator()(const ReduceLines& op) const { return windows(op); }
  BufferUse operator()(const StoreRows&) const { return {}; }
  BufferUse operator()(const TileLoop& loop) const {
    BufferUse all;
    for_each_node(loop.body, [&](const TileNode& node) {
      const BufferUse use = std::visit(*this, node.kind);
      all.reads.insert(all.reads.end(), use.reads.begin(), use.reads.end());
      all.writes.insert(all.writes.end(), use.writes.begin(), use.writes.end());
    });
    return all;
  }

 private:
  template <typename Op>
  static BufferUse windows(const Op& op) {
    BufferUse use{inputs(op.inputs), {}};
    use.reads.push_back(op.windows);
    if constexpr (requires { op.others; })
      use.reads.insert(use.reads.end(), op.others.begin(), op.others.end());
    if (op.weights >= 0) use.reads.push_back(op.weights);
    return use;
  }
  template <typename Op>
  static std::vector<int> kept(const Op& op) {
    return op.kept.buffer < 0 ? std::vector<int>{} : std::vector<int>{op.kept.buffer};
  }
  template <typename Input>
  static std::vector<int> inputs(const std::vector<Input>& list) {
    std::vector<int> buffers;
    for (const Input& input : list) buffers.push_back(input.buffer);
    return buffers;
  }
};

struct ReadsOf {
  std::vector<BufferRead> operator()(StoreTile& op) const { return {{&op.buffer, &op.at}}; }
  std::vector<BufferRead> operator()(ProductTile& op) const {
    return {{&op.a, &op.a_at}, {&op.b, &op.b_at}, {&op.c, &op.c_at}};
  }
  std::vector<BufferRead> operator()(MapTile& op) const { return inputs(op.inputs); }
  std::vector<BufferRead> operator()(ReduceTile& op) const {
    std::vector<BufferRead> reads = inputs(op.inputs);
    reads.push_back({&op.accumulator, &op.accumulator_at});
    if (op.low_accumulator >= 0) reads.push_back({&op.low_accumulator, &op.accumulator_at});
    return reads;
  }
  std::vector<BufferRead> operator()(GatherTile& op) const {
    return {{&op.table, &op.table_at}, {&op.index, &op.index_at}};
  }
  std::vector<BufferRead> operator()(WindowProduct& op) const {
    return {{&op.matrices, &op.matrices_at}, {&op.windows}};
  }
  std::vector<BufferRead> operator()(ReduceWindows& op) const { return windows(op); }
  std::vector<BufferRead> operator()(NormalizeRows& op) const { return whole(op.inputs); }
  std::vector<BufferRead> operator()(FinishRows& op) const {
    std::vector<BufferRead> reads = whole(op.inputs);
    if (op.sums >= 0) reads.push_back({&op.sums});
    return reads;
  }
  std::vector<BufferRead> operator()(StreamProduct& op) const {
    std::vector<BufferRead> reads;
    std::vector<std::array<int, 2>*> all = {&op.b_buffers, &op.c, &op.parked};
    if (op.store) all.push_back(&op.store->buffers);
    for (std::array<int, 2>* buffers : all) {
      for (int& buffer : *buffers) {
        if (buffer >= 0) reads.push_back({&buffer});
      }
    }
    return reads;
  }
  std::vector<BufferRead> operator()(LoadTile&) const { return {}; }
  std::vector<BufferRead> operator()(FillTile&) const { return {}; }
  std::vector<BufferRead> operator()(LoadRows&) const { return {}; }
  std::vector<BufferRead> operator()(LoadLanes&) const { return {}; }
  std::vector<BufferRead> operator()(LoadPlaces&) const { return {}; }
  std::vector<BufferRead> operator()(FinishLanes& op) const {
    std::vector<BufferRead> reads = whole(op.inputs);
    reads.push_back({&op.sums});
    return reads;
  }
  std::vector<BufferRead> operator()(SumRows&) const { return {}; }
  std::vector<BufferRead> operator()(SumL2bs&) const { return {}; }
  std::vector<BufferRead> operator()(LoadLines&) const { return {}; }
  std::vector<BufferRead> operator()(LoadColumns&) const { return {}; }
  std::vector<BufferRead> operator()(TransposeColumns& op) const { return {{&op.raw}}; }
  std::vector<BufferRead> operator()(ColumnProduct& op) const {
    return {{&op.matrices}, {&op.windows}, {&op.sums}};
  }
  std::vector<BufferRead> operator()(AddColumns& op) const {
    std::vector<BufferRead> reads = whole(op.inputs);
    reads.push_back({&op.sums});
    return reads;
  }
  std::vector<BufferRead> operator()(ReduceLines& op) const { return windows(op); }
  std::vector<BufferRead> operator()(StoreRows&) const { return {}; }
  std::vector<BufferRead> operator()(TileLoop&) const { return {}; }

 private:
  template <typename Op>
  static std::vector<BufferRead> windows(Op& op) {
    std::vector<BufferRead> reads = whole(op.inputs);
    reads.push_back({&op.windows});
    if constexpr (requires { op.others; }) {
      for (int& other : op.others) reads.push_back({&other});
    }
    if (op.weights >= 0) reads.push_back({&op.weights});
    return reads;
  }
  template <typename Input>
  static std::vector<BufferRead> inputs(std::vector<Input>& list) {
    std::vector<BufferRead> reads;
    for (Input& input : list) reads.push_back({&input.buffer, &input.at});
    return reads;
  }
  static std::vector<BufferRead> whole(std::vector<RowsInput>& list) {
    std::vector<BufferRead> reads;
    for (RowsInput& input : list) reads.push_back({&input.buffer});
    return reads;
  }
};
}  // namespace

std::vector<BufferRead> reads_of(TileNode& node) {
  return std::visit(ReadsOf{}, node.kind);
}

BufferUse buffers_of(const TileNode& node) {
  return std::visit(BufferUseOf{}, node.kind);
}

}  // namespace kodama::compiler
