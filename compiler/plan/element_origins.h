#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "compiler/layers/layer_graph.h"
#include "compiler/streams/stream_image.h"
#include "isa/chip.h"
#include "layout/gather/gather.h"

/// Where the elements of a tensor come from, through the Rearrange layers before it.
///
/// A Rearrange computes nothing: each element of its output is an element of an input, or a fill. So it needs
/// no memory of its own; who reads its output reads through it. An *origin* is an element of a tensor that is
/// really somewhere (a *root*: made by a kernel, sent by the host, or a constant), or a constant number.
///
/// Example, Pad(Transpose(X)) of X [2, 3] with one column of zeros in front: the origins of the result
/// [3, 3] are
///
///     0    X[0,0]  X[1,0]
///     0    X[0,1]  X[1,1]
///     0    X[0,2]  X[1,2]
namespace kodama::compiler {

/// Elements of the largest tensor whose elements are moved one by one. Each takes some 58 bytes while its
/// relayout is made.
inline constexpr int64_t kMostMovedElements = int64_t{1} << 25;
/// UnsupportedError for a tensor of more.
void check_movable(int64_t elements, const std::string& tensor);
/// Cycles of what is planned only where nothing else can be, and refused then.
inline constexpr double kRefusedCycles = 1e12;
inline bool is_movable(int64_t elements) {
  return elements <= kMostMovedElements;
}

struct ElementOrigin {
  TensorId root = -1;  ///< -1: `offset` is the number of a constant
  int64_t offset = 0;  ///< row-major
};

class ElementOrigins {
 public:
  /// `through`: outputs (storage) of the Rearrange layers that are read through.
  ElementOrigins(const LayerGraph& graph, std::set<TensorId> through);

  bool reads_through(TensorId tensor) const { return through_.contains(graph_.storage(tensor)); }
  /// Roots of a tensor, in ascending order: itself, or those of the Rearrange that makes it.
  const std::vector<TensorId>& roots(TensorId tensor);
  /// The origin of the element of `tensor` at a row-major offset.
  ElementOrigin origin(TensorId tensor, int64_t offset) { return all_of(tensor)[offset]; }
  /// The origins of all elements of a tensor, for loops over them; valid as long as these ElementOrigins.
  class OfTensor {
   public:
    ElementOrigin operator[](int64_t offset) const;

   private:
    friend class ElementOrigins;
    TensorId storage_ = -1;
    const int64_t* codes_ = nullptr;  ///< null: it is its own root
  };
  OfTensor all_of(TensorId tensor);
  /// How many different elements of `root` a tensor has.
  int64_t different(TensorId tensor, TensorId root);
  /// The number of a constant's bits; zero is number 0.
  int64_t constant(uint32_t bits);
  /// Bits of all constants.
  const std::vector<uint32_t>& constants() const { return constants_; }
  /// All that the origins of a tensor's elements in `root` depend on, without names and numbers of tensors.
  std::string describe(TensorId tensor, TensorId root) const;
  /// The Rearrange layers between a tensor and its roots.
  std::set<int> rearrange_layers(TensorId tensor) const;

 private:
  const Tensor& codes(TensorId storage);
  /// The Rearrange that makes a tensor that is read through, and its layer.
  const RearrangeLayer& rearrange_of(TensorId storage) const;
  size_t maker(TensorId storage) const;

  const LayerGraph& graph_;
  std::set<TensorId> through_;
  std::map<TensorId, size_t> makers_;  ///< of what is read through: the layer
  std::map<TensorId, Tensor> codes_;
  std::map<TensorId, std::vector<TensorId>> roots_;
  std::map<std::pair<TensorId, TensorId>, int64_t> different_;
  std::vector<uint32_t> constants_{0};
  std::map<uint32_t, int64_t> numbers_{{0, 0}};
};

/// An image of a root's elements in DRAM.
struct RootImage {
  const std::vector<StreamWord>* places = nullptr;  ///< stream_places of its placement
  int64_t address = 0;                              ///< LW
};

/// The words of a stream, as stream_elements has them: made once for all that is asked of it.
struct WantedStream {
  WantedStream(const StreamPlacement& placement, const LayerGraph& graph, const isa::Chip& chip);
  const StreamPlacement& placement;
  std::vector<std::vector<StreamLw>> elements;
};

/// The gather that makes the stream `target` of its access' tensor from images of the tensor's roots. A root
/// that `images` leaves out counts as constant zero. Nothing when an image lacks an element that is wanted.
std::optional<layout::GatherProblem> gather_problem(const WantedStream& target, int64_t address,
                                                    const std::map<TensorId, RootImage>& images,
                                                    ElementOrigins& origins, const LayerGraph& graph);
/// What that takes (Gather::estimated_cycles) with a large image, at a price that grows with neither tensor
/// nor image: by the first stream numbers of every PE, some kSampleWords words in all; from what the host
/// sends, by sizes. What a block of DRAM has for several parts is counted in each, so it is too much rather
/// than too little: 0.6 to 2 times the whole's estimate, to operands that have a column for every place of a
/// kernel up to 15 times. Infinite when `image` lacks an element. May
/// run beside others after all_of(target.access.tensor).
double large_gather_cycles(const StreamPlacement& target, TensorId root, const StreamPlacement& image,
                           ElementOrigins& origins, const LayerGraph& graph, const isa::Chip& chip);
inline constexpr int64_t kSampleWords = int64_t{1} << 18;
/// Whether an image of a root's elements can be used as the stream `target`: every word of the stream that
/// matters is there, at its place. Around the elements, a kernel's result holds nothing that can be relied
/// on; what the host or a relayout has made holds the padding of its layout. `places`: stream_places of the
/// image.
bool is_same_image(const WantedStream& target, TensorId root, const StreamPlacement& image,
                   const std::vector<StreamWord>& places, ElementOrigins& origins, const LayerGraph& graph,
                   const isa::Chip& chip);
/// False where sizes, or some elements here and there, say that is_same_image is; much quicker.
bool may_be_same_image(const StreamPlacement& target, TensorId root, const StreamPlacement& image,
                       ElementOrigins& origins, const LayerGraph& graph);

/// How many different elements of its tensor an operand's stream has: at least, and exactly where no two axes
/// of the tensor depend on one dim of the iteration space.
int64_t different_elements(const StreamPlacement& stream, const Shape& tensor_shape);

/// All elements in row-major order in the DRAM of group 0, two to the LW: what the host sends when no
/// kernel's layout is worth it, and fetches from a relayout.
StreamPlacement natural_placement(TensorId tensor, const Shape& shape, const isa::Chip& chip);

}  // namespace kodama::compiler
