#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "compiler/kernels/kernel.h"
#include "compiler/tile/tile_program.h"
#include "isa/arithmetic.h"
#include "isa/chip.h"
#include "layout/algebra/layout.h"

/// Images of rows (compiler/tile/tile_program.h): what kernels that make and take them share.
///
/// A *picture* is a tensor seen as images of rows of columns of channels. On the chip its channels stand in
/// chunks of 32, and every L2B has whole rows of some of them, side by side in DRAM as they are in L2BM:
///
///     part of an L2B   [images][rows][RowOrder: chunks and columns]   LW of two channels
///
/// Groups, and the L2Bs of a group, differ in channels or else in rows (RowsSplit); nothing is there twice.
/// So there are four images of a picture (of tokens whose rows are split, a fifth: Picture::Tokens::dealt),
/// and kernels that agree on one need no relayout between them: what a window wants of rows that another L2B
/// has comes by a transfer of its own (window_transfers).
///
/// Example, [1, 64, 56, 56] on mncore2, split {rows, rows}: L2B q has rows 7 q to 7 q + 6, each of
/// 2 * 56 * 16 = 1792 LW, in 14 groups of 2 chunks: a part of 12,544 LW.
namespace kodama::compiler {

inline constexpr int64_t kChunkChannels = 32;

/// What groups and the L2Bs of a group have of their own: channels, or else rows.
struct RowsSplit {
  bool group_channels = false;
  bool l2b_channels = false;
  /// Neither: every L2B has all of both, parts of sums over L2Bs. No image in DRAM is like that.
  bool is_everywhere = false;
  bool operator==(const RowsSplit&) const = default;
};
inline constexpr std::array<RowsSplit, 4> kRowsSplits = {
    {{false, false}, {false, true}, {true, false}, {true, true}}};

/// Positions of a kernel over rows and columns: those of result (r, c) begin at (stride * (r, c) - pad).
struct RowsWindow {
  std::array<int64_t, 2> kernel{1, 1}, stride{1, 1}, dilation{1, 1}, pad{0, 0};
  /// Rows of the operand from one that is read to the next, which count as one row: those between, which
  /// windows of one row pass over, come nowhere.
  int64_t row_step = 1;
  /// Rows under `rows` rows of results.
  int64_t rows_under(int64_t rows) const {
    return (rows - 1) * stride[0] + (kernel[0] - 1) * dilation[0] + 1;
  }
  int64_t columns_under(int64_t columns) const {
    return (columns - 1) * stride[1] + (kernel[1] - 1) * dilation[1] + 1;
  }
};

/// A tensor seen as images of rows.
struct Picture {
  TensorId tensor = -1;
  /// Columns are at least those of a vector: where the tensor has fewer, what is in the others is anything.
  int64_t images = 1, rows = 1, columns = 1, channels = 1;
  Shape shape;
  /// Few channels: each of four lanes of columns of results (RowOrder) has a line of the tensor's
  /// columns, padded, those under its first column of results first, `channels` channels to a column. So
  /// windows overlap in it: that of a column of results has whole chunks of 32 channels from its first column
  /// on, and the picture's columns are LW of lines.
  struct Packed {
    RowsWindow window;
    int64_t channels = 2;      ///< of a column: the tensor's, or more, a power of two
    int64_t lane_columns = 1;  ///< of results
    /// LW from a column of results to the next.
    int64_t column_lw() const { return window.stride[1] * channels / isa::kWordsPerLong; }
    int64_t window_words() const { return window.kernel[1] * channels; }
  };
  std::optional<Packed> packed = std::nullopt;
  /// Every entry is an image: its tokens are columns, four to a row. Both are over axes of which the last
  /// varies fastest; axes that aren't named have one index. Without entries all are one image.
  struct Tokens {
    int channel = 0;
    std::vector<int> entries, tokens;
    /// An L2B's rows have the channels of all its entries, one entry after the other, as a tensor has whose
    /// channels are entries and channels in one axis; else an entry's rows follow each other.
    bool inside = false;
    /// L2Bs that take rows are counted across the groups: the second one is the first of the next group. So
    /// heads differ from group to group, and images of the batch inside them, as in a picture of both in one
    /// axis of channels, and one of tokens, split {channels, rows}.
    bool dealt = false;
  };
  std::optional<Tokens> tokens = std::nullopt;
  /// Read as several, each with an image of its own, whose channels follow each other; empty: as one.
  std::vector<Picture> parts = {};
};
/// [N, C, H, W] with channel axis 1, or any other shape with the last; else nothing.
std::optional<Picture> picture_of(TensorId tensor, const Shape& shape, size_t channel_axis);
/// [N, C, rows, p, columns, q] as that of [N, C, rows * p, columns * q].
Picture apart_picture(TensorId tensor, const Shape& shape);
/// The picture of picture_of, and where several axes beside the channels have more than one place, the same
/// with one of them first: of two the last, as who transposes them reads one as the other; of more the last
/// but one, as heads whose tokens follow stand in other tensors' channels.
std::vector<Picture> pictures_of(TensorId tensor, const Shape& shape, size_t channel_axis);
/// Those, and where they have several axes of tokens, the same with the last alone as tokens, the others as
/// entries, as products of two tensors have them: an entry begins a row, and L2Bs have whole entries. Left
/// out where rows and L2Bs are cut there anyway. And those, dealt to groups, where `can_be_dealt`.
std::vector<Picture> pictures_with_entries(TensorId tensor, const Shape& shape, size_t channel_axis,
                                           const isa::Chip& chip);
/// That of few channels under a window, as lines (Picture::Packed), for results of so many columns; nothing
/// where it has too many channels or another form.
std::optional<Picture> packed_picture(const Picture& picture, const RowsWindow& window,
                                      int64_t result_columns);
/// Whether a group has a part of each image's heads, and every L2B in it an image: [images, heads, ...].
bool can_be_dealt(const Shape& shape, const std::vector<int>& axes, const isa::Chip& chip);
/// A tensor as entries (images) of tokens (columns), with channels on any axis.
Picture token_picture(TensorId tensor, const Shape& shape, const Picture::Tokens& tokens);
/// "", or what a picture's order is if it isn't the tensor's.
std::string order_name(const Picture& picture);
/// The picture of a tensor that is concatenated of others along its channels, with their pictures as parts;
/// nothing where it isn't, or where a chunk would have channels of two parts.
std::optional<Picture> concatenated_picture(const Picture& picture, const LayerGraph& graph);

/// Whether of what `ways` get of `count` things, as many each, a quarter at most is behind the last one.
inline bool is_nearly_even(int64_t count, int64_t ways) {
  return 3 * isa::ceil_div(count, ways) * ways <= 4 * count;
}

/// A picture's image on a chip, split in one way.
class RowsImage {
 public:
  RowsImage(const Picture& picture, RowsSplit split, const isa::Chip& chip);
  /// Whether every L2B that has channels of its own has as many.
  bool is_even() const { return picture_chunks() % channel_ways_ == 0; }
  /// Whether L2Bs with channels of their own have nearly as many.
  bool is_nearly_even() const { return compiler::is_nearly_even(picture_chunks(), channel_ways_); }

  const Picture& picture() const { return picture_; }
  RowsSplit split() const { return split_; }
  bool is_everywhere() const { return split_.is_everywhere; }
  int64_t channel_ways() const { return channel_ways_; }
  int64_t image_ways() const { return image_ways_; }  ///< L2Bs that differ in their images
  int64_t row_ways() const { return row_ways_; }      ///< and in their rows of an image
  int64_t images() const { return images_; }          ///< of an L2B
  int64_t rows() const { return rows_; }              ///< of an image in an L2B
  int64_t chunks() const { return chunks_; }          ///< of an L2B
  RowOrder order() const { return {isa::ceil_div(picture_.columns, isa::kCyclesPerStep), chunks_}; }
  int64_t row_lw() const { return order().lw(); }
  /// Whether rows have all entries: Picture::Tokens::inside.
  bool is_inside() const { return picture_.tokens && picture_.tokens->inside; }
  /// From a row to the next of the same image.
  RowOrder pitch_order() const { return {order().groups, (is_inside() ? images_ : 1) * chunks_}; }
  int64_t row_pitch() const { return pitch_order().lw(); }
  int64_t part_lw() const { return images_ * rows_ * row_lw(); }

  /// The L2B that has channels `x` of an image's row.
  int l2b_of(int64_t x, int64_t image, int64_t row) const;
  /// LW in an L2B's part.
  int64_t offset(int64_t image, int64_t row) const;
  /// First image and row of an L2B.
  std::pair<int64_t, int64_t> first_of(int l2b) const;
  /// Number of the channels that an L2B has.
  int64_t channels_of(int l2b) const;

  std::vector<layout::Factor> channel_factors() const;
  /// Copies of what depends on channels alone.
  std::vector<layout::Factor> row_way_factors() const;
  /// How L2Bs get what depends on channels alone.
  layout::L2bMode channel_mode() const;

  StreamPlacement placement(std::string name) const;

 private:
  bool is_dealt() const { return picture_.tokens && picture_.tokens->dealt && channel_ways_ == 1; }
  int64_t l2b_of_ways(int64_t x, int64_t y) const;
  /// Of the L2Bs that have rows, those whose numbers differ in `count` ways above the first `below`.
  std::vector<layout::Factor> way_factors(int64_t count, int64_t below) const;
  int64_t picture_chunks() const { return isa::ceil_div(picture_.channels, kChunkChannels); }

  Picture picture_;
  RowsSplit split_;
  const isa::Chip& chip_;
  int64_t channel_ways_ = 1, image_ways_ = 1, row_ways_ = 1;
  int64_t images_ = 1, rows_ = 1, chunks_ = 1;
};

/// A pass of a kernel over its L2Bs' rows.
struct RowsPass {
  int64_t image = 0;  ///< of every L2B's images
  int64_t pass = 0;
  int64_t pass_rows = 1;    ///< results of an L2B in every pass but the last
  int64_t rows = 1;         ///< results in this one; at least those that the L2B has left
  int64_t region_rows = 1;  ///< rows in L2BM for each part of channels
  int64_t first_row = 0;    ///< of the rows under the results, the first that is wanted
  int64_t most_rows = std::numeric_limits<int64_t>::max();  ///< that are wanted
  int64_t from_row = -1;  ///< of the operand, the same for all L2Bs; -1: what is under their results
};
/// What brings the rows of `in` that each L2B needs for its rows of `out` in a pass to L2BM: for every part
/// of the channels `region_rows` rows, one part after the other; `own_channels`: for the channels alone that
/// the L2B has in both. Rows outside come from `outside` (group, address, stream); without it they are copies
/// of the row next to them. Rows that have all entries come with these: `pass.image` is 0.
std::vector<RowsTransfer> window_transfers(const RowsImage& in, const RowsImage& out,
                                           const RowsWindow& window, const RowsPass& pass,
                                           const std::optional<RowsTransfer>& outside, const isa::Chip& chip,
                                           bool own_channels = false);
/// What brings to each L2B the row of `in` that it wants, `wanted(l2b)`: an image and a row. It goes to LW
/// `l2bm`: the part of those L2Bs whose channels are `channels`, or of -1, those that the L2B has itself.
/// Where there is no such row, or none is wanted, what comes is `outside`.
std::vector<RowsTransfer> row_transfers(
    const RowsImage& in, int64_t channels, int64_t l2bm,
    const std::function<std::optional<std::pair<int64_t, int64_t>>(int l2b)>& wanted,
    const RowsTransfer& outside, const isa::Chip& chip);
/// Of the rows under an L2B's results in a pass, the first that is inside the tensor for any L2B, and the one
/// behind the last.
std::pair<int64_t, int64_t> rows_inside(const RowsImage& in, const RowsImage& out, const RowsWindow& window,
                                        const RowsPass& pass, const isa::Chip& chip);
/// Cycles that they take on an otherwise idle chip.
int64_t rows_transfer_cycles(const std::vector<RowsTransfer>& list, const isa::Chip& chip);

/// l1b_at of a LoadRows (compiler/tile/tile_program.h): `l1bs` L1Bs with `lw` LW from one to the next, or
/// with `chunks` chunks of rows of an order each.
std::vector<int64_t> l1b_places(int64_t l1bs, int64_t lw);
std::vector<int64_t> l1b_chunk_places(int64_t l1bs, const RowOrder& order, int64_t chunks);

/// Of the 32 words of 16 LW, [4 blocks][4 PEs][2 words], those that tell a packed column's channels, a
/// power of two, and those that tell columns. `blocks`: two factors of two, or one of four.
std::pair<std::vector<layout::Factor>, std::vector<layout::Factor>> packed_factors(
    int64_t channels, const std::vector<layout::Factor>& blocks);

/// Gives dims of one iteration a place, too: on the first axis, where they change nothing.
void place_single(StreamPlacement& placement);

/// How L1BM is divided, LW.
struct RowsStaging {
  int64_t windows_lw = 0;  ///< from 0 on: rows on their way to the PEs
  int64_t sums = 0;        ///< sums over quads on their way back to them, in `sum_slots` places
  int64_t sum_slots = 0;
  int64_t results = 0;  ///< rows of results
  int64_t results_lw = 0;
};
RowsStaging rows_staging(const isa::Chip& chip);

}  // namespace kodama::compiler
