#include "compiler/tile/buffer_use.h"

namespace kodama::compiler {

namespace {

struct BufferUseOf {
  BufferUse operator()(const LoadTile& op) const { return {{}, {op.buffer}}; }
  BufferUse operator()(const StoreTile& op) const { return {{op.buffer}, {}}; }
  BufferUse operator()(const FillTile& op) const { return {{}, {op.buffer}}; }
  BufferUse operator()(const ProductTile& op) const { return {{op.a, op.b, op.c}, {op.c}}; }
  BufferUse operator()(const MapTile& op) const { return {inputs(op.inputs), {op.out}}; }
  BufferUse operator()(const ReduceTile& op) const {
    BufferUse use{inputs(op.inputs), {op.accumulator}};
    use.reads.push_back(op.accumulator);
    return use;
  }
  BufferUse operator()(const LoadRows& op) const { return {{}, {op.buffer}}; }
  BufferUse operator()(const WindowProduct& op) const { return {{op.matrices, op.windows}, {op.sums}}; }
  BufferUse operator()(const ReduceWindows& op) const {
    BufferUse use{inputs(op.inputs), {}};
    use.reads.push_back(op.windows);
    if (op.weights >= 0) use.reads.push_back(op.weights);
    return use;
  }
  BufferUse operator()(const FinishRows& op) const {
    BufferUse use{inputs(op.inputs), {}};
    if (op.sums >= 0) use.reads.push_back(op.sums);
    return use;
  }
  BufferUse operator()(const SumRows&) const { return {}; }
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
  template <typename Input>
  static std::vector<int> inputs(const std::vector<Input>& list) {
    std::vector<int> buffers;
    for (const Input& input : list) buffers.push_back(input.buffer);
    return buffers;
  }
};
}  // namespace

BufferUse buffers_of(const TileNode& node) {
  return std::visit(BufferUseOf{}, node.kind);
}

}  // namespace kodama::compiler
