#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "compiler/layers/layer_graph.h"
#include "compiler/streams/stream_placement.h"
#include "compiler/tile/tile_program.h"
#include "isa/chip.h"
#include "passes/pass_options.h"

/// Kernels: implementations of layers, each with a contract that the planner sees.
///
/// A kernel lists candidates for a layer on a chip. A candidate says, for every operand and for the
/// result, where each element of the layer's iteration space is in the per-PE streams, and how many
/// cycles it will take; it can then emit its tile program. There is always one candidate that is correct
/// for any shape.
namespace kodama::compiler {

struct KernelOptions {
  MatrixPrecision precision = MatrixPrecision::kGFloat;
  passes::PassOptions passes = {};
  bool constants_stay = false;  ///< in the PEs, as far as there is room
};

struct Candidate {
  std::string kernel = {};  ///< its name; filled by layer_candidates
  std::string description;  ///< tiling in words, for the report
  /// Streams of the tile program, in this order; outputs last. For an operand that a Rearrange concatenates
  /// there may be streams of what it is made of.
  std::vector<StreamPlacement> placements;
  int64_t predicted_cycles = 0;  ///< steps * 4 plus transfers that are waited for
  /// Of those, what falls away if constants stay in the PEs, and the LW of LM0 and LM1 that they take then.
  int64_t constant_cycles = 0, constant_lw = 0;
  /// Streams of which every place is read before the result is written at the same one, and never behind. The
  /// result may take the place of one that lies as it does.
  std::vector<size_t> elementwise = {};
  /// Another stream that lies as `like` does.
  void place(StreamPlacement like, std::string name, const TensorAccess& access, bool is_output = false) {
    like.name = std::move(name);
    like.access = access;
    like.is_output = is_output;
    placements.push_back(std::move(like));
  }
  /// Tile program with its streams at the given DRAM addresses (one per placement, LW).
  std::function<TileProgram(const std::vector<int64_t>& dram_addresses)> emit;
  /// The same with the last rows first: of an operand that L2BM doesn't hold, what was made last is still
  /// there. May be empty.
  std::function<TileProgram(const std::vector<int64_t>& dram_addresses)> emit_backwards = {};
};

/// One implementation.
struct Kernel {
  std::string name;
  std::string description;
  LayerKind kind = LayerKind::kMap;
  /// The candidates for a layer of this kind; empty when the kernel can't do it.
  std::function<std::vector<Candidate>(const Layer&, const LayerGraph&, const isa::Chip&,
                                       const KernelOptions&)>
      run;
  std::vector<passes::PassOptionInfo> options = {};
  std::string plugin = {};  ///< the file it came from; empty: Kodama's own. Filled by register_pass
};
/// Registry: all there are; the planner takes what is cheapest. UserError for a plugin's kernel of
/// Rearrange or Host layers.
const std::vector<Kernel>& kernels();
void register_pass(Kernel kernel);
/// UserError listing the names.
const Kernel& find_kernel(const std::string& name);

/// InternalError unless a candidate is what this file says: operands of the layer, or the tensors that one is
/// concatenated of, the result last; layouts
/// that give every iteration a place of its own in the streams, which have whole granules.
void verify_candidate(const Candidate& candidate, const Layer& layer, const LayerGraph& graph,
                      const isa::Chip& chip);
/// The candidate's tile program, verified (verify_tile_program), on the streams that it has placements for.
TileProgram emit_tiles(const Candidate& candidate, const std::vector<int64_t>& dram_addresses,
                       const isa::Chip& chip, bool backwards = false);

/// All candidates of all kernels for a layer, cheapest predicted first. PassError for a candidate of a
/// plugin's kernel that isn't one (verify_candidate). Empty for Rearrange and Host layers.
std::vector<Candidate> layer_candidates(const Layer& layer, const LayerGraph& graph, const isa::Chip& chip,
                                        const KernelOptions& options);

}  // namespace kodama::compiler
