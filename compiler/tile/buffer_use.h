#pragma once

#include <vector>

#include "compiler/tile/tile_program.h"

namespace kodama::compiler {

/// The buffers of a tile program that an operation reads, and writes; of a loop, all of its operations.
struct BufferUse {
  std::vector<int> reads = {}, writes = {};
};
BufferUse buffers_of(const TileNode& node);

/// What an operation reads: a buffer, from an index on, or all of it (null).
struct BufferRead {
  int* buffer = nullptr;
  TileIndex* at = nullptr;
};
/// Those of an operation, to be changed; of a loop none.
std::vector<BufferRead> reads_of(TileNode& node);

/// Calls visit(node) for all operations in order, those in loops once.
template <typename Visit>
void for_each_node(const std::vector<TileNode>& nodes, Visit&& visit) {
  for (const TileNode& node : nodes) {
    if (const auto* loop = std::get_if<TileLoop>(&node.kind)) {
      for_each_node(loop->body, visit);
    } else {
      visit(node);
    }
  }
}

}  // namespace kodama::compiler
