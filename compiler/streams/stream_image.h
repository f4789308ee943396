#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "compiler/streams/stream_placement.h"
#include "compiler/tensor/tensor.h"
#include "isa/chip.h"

/// Between tensors on the host and streams in the groups' DRAM, as StreamPlacement describes them.
namespace kodama::compiler {

/// The DRAM contents of one stream: per group the LW from the stream's base address on, all of the same
/// length; a group that holds no part (broadcast from group 0) has an empty vector.
struct StreamImage {
  std::vector<std::vector<uint64_t>> groups;
};

/// LW of DRAM that a stream takes in every group it uses.
int64_t stream_group_lw(const StreamPlacement& placement);

/// The stream of `tensor` (an operand): each element at all its places, `access.fill` where the access
/// leaves the tensor, the layout's padding elsewhere. Elements are words (word_kind), of which a stream of
/// halves has floats rounded to half. InternalError if the tensor's shape has another
/// rank than the access.
StreamImage pack_stream(const StreamPlacement& placement, const Tensor& tensor, const isa::Chip& chip);
/// An image of the right size with undefined (zero) contents, to read an output stream into.
StreamImage empty_stream(const StreamPlacement& placement, const isa::Chip& chip);
/// Writes the stream's elements to `out` at the indices that `access.map` gives, converting words to the
/// tensor's type; elements of `out` that no iteration point names stay as they are.
void unpack_stream(const StreamPlacement& placement, const StreamImage& image, Tensor& out,
                   const isa::Chip& chip);

/// What the two words of a LW of an operand's stream are, without their values: the offset of an element of
/// the tensor (row-major), or one of the constants below.
using StreamLw = std::array<int64_t, 2>;
inline constexpr int64_t kStreamFill = -1;     ///< read outside the tensor: `access.fill`
inline constexpr int64_t kStreamPadding = -2;  ///< no iteration point: the layout's padding
/// By group. As for stream_places, of a stream of floats: nothing on the chip makes or reads halves one by
/// one. A placement that is cut short, to a smaller length_lw, has the elements of the numbers that are left.
std::vector<std::vector<StreamLw>> stream_elements(const StreamPlacement& placement,
                                                   const Shape& tensor_shape, const isa::Chip& chip);

/// A word of a stream: `word` = 2 * LW from the stream's base address, plus 1 for the lower half; of a stream
/// of halves, 4 * LW plus which quarter. As small as can be, for there are as many as elements.
struct StreamWord {
  int64_t group : 16 = -1;  ///< -1: the stream doesn't have the element
  int64_t word : 48 = 0;
  bool operator==(const StreamWord&) const = default;
};
/// Where a stream has each element of its tensor, by offset; one of its places if there are several.
std::vector<StreamWord> stream_places(const StreamPlacement& placement, const Shape& tensor_shape,
                                      const isa::Chip& chip);
/// The same for elements asked for one by one, where only some of a large tensor's matter: nothing is as long
/// as the tensor. For streams with dims_of_axes.
class StreamPlaces {
 public:
  StreamPlaces(const StreamPlacement& placement, const Shape& tensor_shape, const isa::Chip& chip);
  StreamWord operator[](int64_t offset) const;

 private:
  struct Digit {
    int64_t size;
    int64_t code, number, word;  ///< what one more of it adds
  };
  struct Axis {
    std::vector<std::pair<size_t, int64_t>> dims;  ///< of the tensor, and their extents
    std::vector<Digit> digits;                     ///< of the layout, the fastest first
  };
  int64_t length_lw_;
  layout::Transport transport_;
  Shape shape_;
  Shape limits_;  ///< by axis of the tensor: the stream has so many
  std::vector<Axis> axes_;
  int64_t period_, period_lw_;
  std::vector<layout::Coordinates> places_;  ///< of PEs, by code
  mutable std::vector<std::optional<layout::Transport::DramPlace>>
      known_;  ///< by number of a period, and code
};
/// By axis of a stream's tensor, the dim of the iteration space that is its index; nothing where the access
/// is more than that.
std::optional<std::vector<size_t>> dims_of_axes(const StreamPlacement& stream);
/// The words that a stream has for one point of its iteration space.
std::vector<StreamWord> words_of_point(const StreamPlacement& placement, const std::vector<int64_t>& point);
/// The bits of a layout's padding in a word of a stream.
uint32_t stream_padding_bits(layout::Padding padding);

}  // namespace kodama::compiler
