#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <map>
#include <optional>
#include <set>
#include <tuple>

#include "compiler/kernels/rows.h"
#include "isa/arithmetic.h"
#include "isa/error.h"

/// Images of rows: places, and transfers of windows.
namespace kodama::compiler {

using isa::ceil_div;
using isa::round_up;
using layout::Factor;
using layout::Layout;
using layout::Level;
using layout::Transport;

std::optional<Picture> picture_of(TensorId tensor, const Shape& shape, size_t channel_axis) {
  Picture picture;
  picture.tensor = tensor;
  picture.shape = shape;
  if (channel_axis >= shape.size()) return std::nullopt;
  picture.channels = shape[channel_axis];
  if (shape.size() == 4 && channel_axis == 1) {
    picture.images = shape[0];
    picture.rows = shape[2];
    picture.columns = std::max<int64_t>(shape[3], isa::kCyclesPerStep);
  } else if (channel_axis + 1 == shape.size()) {
    Picture::Tokens tokens{static_cast<int>(channel_axis), {}, {}};
    for (size_t axis = 0; axis < channel_axis; ++axis) tokens.tokens.push_back(static_cast<int>(axis));
    return token_picture(tensor, shape, tokens);
  } else {
    return std::nullopt;
  }
  return picture;
}

Picture apart_picture(TensorId tensor, const Shape& shape) {
  Picture picture = *picture_of(tensor, {shape[0], shape[1], shape[2] * shape[3], shape[4] * shape[5]}, 1);
  picture.shape = shape;
  return picture;
}

Picture token_picture(TensorId tensor, const Shape& shape, const Picture::Tokens& tokens) {
  const auto count = [&](const std::vector<int>& axes) {
    int64_t product = 1;
    for (const int axis : axes) product *= shape[static_cast<size_t>(axis)];
    return product;
  };
  Picture picture;
  picture.tensor = tensor;
  picture.shape = shape;
  picture.tokens = tokens;
  picture.channels = shape[static_cast<size_t>(tokens.channel)];
  picture.images = count(tokens.entries);
  picture.columns = isa::kCyclesPerStep;
  picture.rows = ceil_div(count(tokens.tokens), picture.columns);
  return picture;
}

std::optional<Picture> packed_picture(const Picture& picture, const RowsWindow& window,
                                      int64_t result_columns) {
  constexpr int64_t kMostChannels = 8;
  if (picture.tokens || !picture.parts.empty() || picture.channels > kMostChannels || window.dilation[1] != 1)
    return std::nullopt;
  Picture::Packed packed;
  packed.window = window;
  // Windows begin at LW; what fills columns up is sent, and taken, for nothing.
  const bool as_they_are = window.stride[1] * picture.channels % isa::kWordsPerLong == 0;
  while (!as_they_are && packed.channels < picture.channels) packed.channels *= 2;
  if (as_they_are) packed.channels = picture.channels;
  packed.lane_columns = ceil_div(result_columns, int64_t{isa::kCyclesPerStep});
  const LoadLanes::Packed line{packed.lane_columns, packed.window_words(), packed.column_lw()};
  Picture result = picture;
  result.packed = packed;
  result.columns = isa::kCyclesPerStep * ceil_div(line.line_lw(), kColumnLw);
  result.channels = kChunkChannels;
  return result;
}

std::vector<Picture> pictures_of(TensorId tensor, const Shape& shape, size_t channel_axis) {
  std::vector<Picture> pictures;
  if (const auto picture = picture_of(tensor, shape, channel_axis)) pictures.push_back(*picture);
  if (pictures.empty() || !pictures[0].tokens) return pictures;
  const auto is_single = [&](int axis) { return shape[static_cast<size_t>(axis)] == 1; };
  Picture other = pictures[0];
  std::vector<int>& tokens = other.tokens->tokens;
  const auto moving = std::stable_partition(tokens.begin(), tokens.end(), is_single);
  const auto count = tokens.end() - moving;
  if (count < 2) return pictures;
  const auto first = std::max<ptrdiff_t>(1, count - 2);
  std::rotate(moving, moving + first, moving + first + 1);
  pictures.push_back(std::move(other));
  return pictures;
}

std::vector<Picture> pictures_with_entries(TensorId tensor, const Shape& shape, size_t channel_axis,
                                           const isa::Chip& chip) {
  std::vector<Picture> pictures = pictures_of(tensor, shape, channel_axis);
  const size_t count = pictures.size();
  for (size_t k = 0; k < count; ++k) {
    if (!pictures[k].tokens) continue;
    Picture::Tokens tokens = *pictures[k].tokens;
    const auto is_several = [&](int axis) { return shape[static_cast<size_t>(axis)] > 1; };
    const auto found = std::find_if(tokens.tokens.rbegin(), tokens.tokens.rend(), is_several);
    if (found == tokens.tokens.rend()) continue;
    const auto last = found.base() - 1;
    tokens.entries.assign(tokens.tokens.begin(), last);
    tokens.tokens.erase(tokens.tokens.begin(), last);
    Picture entries = token_picture(tensor, shape, tokens);
    const bool is_cut = shape[static_cast<size_t>(tokens.tokens[0])] % isa::kCyclesPerStep == 0 &&
                        entries.images % chip.l2b_count() == 0;
    if (entries.images > 1 && !is_cut) pictures.push_back(std::move(entries));
  }
  for (size_t k = pictures.size(); k-- > 0;) {
    if (!pictures[k].tokens) continue;
    std::vector<int> axes = pictures[k].tokens->entries;
    const std::vector<int>& tokens = pictures[k].tokens->tokens;
    axes.insert(axes.end(), tokens.begin(), tokens.end());
    if (axes.size() < 3 || !can_be_dealt(shape, axes, chip)) continue;
    pictures.push_back(pictures[k]);
    pictures.back().tokens->dealt = true;
  }
  return pictures;
}

bool can_be_dealt(const Shape& shape, const std::vector<int>& axes, const isa::Chip& chip) {
  const bool is_tree = std::has_single_bit(static_cast<uint64_t>(chip.l2b_count()));
  if (axes.size() < 2 || chip.groups == 1 || chip.l2b_per_group == 1 || !is_tree) return false;
  return shape[static_cast<size_t>(axes[0])] == chip.l2b_per_group &&
         shape[static_cast<size_t>(axes[1])] % chip.groups == 0;
}

std::string order_name(const Picture& picture) {
  if (!picture.tokens) return "";
  std::vector<int> axes = picture.tokens->entries;
  axes.insert(axes.end(), picture.tokens->tokens.begin(), picture.tokens->tokens.end());
  return fmt::format("{}{}{}", picture.tokens->inside ? ", entries in rows" : "",
                     picture.tokens->dealt ? ", dealt to groups" : "",
                     std::ranges::is_sorted(axes) ? "" : fmt::format(", axes in the order {}", axes));
}

std::optional<Picture> concatenated_picture(const Picture& picture, const LayerGraph& graph) {
  const size_t axis = picture.tokens ? static_cast<size_t>(picture.tokens->channel) : 1;
  const std::vector<TensorId> tensors = concatenated_of(graph, picture.tensor, axis);
  if (tensors.size() < 2 || picture.packed) return std::nullopt;
  Picture result = picture;
  int64_t channels = 0;
  for (const TensorId tensor : tensors) {
    if (channels % kChunkChannels != 0) return std::nullopt;
    const Shape& shape = graph.tensors[static_cast<size_t>(tensor)].shape;
    result.parts.push_back(picture.tokens ? token_picture(tensor, shape, *picture.tokens)
                                          : *picture_of(tensor, shape, axis));
    channels += result.parts.back().channels;
  }
  return result;
}

RowsImage::RowsImage(const Picture& picture, RowsSplit split, const isa::Chip& chip)
    : picture_(picture), split_(split), chip_(chip) {
  channel_ways_ = (split.group_channels ? chip.groups : 1) * (split.l2b_channels ? chip.l2b_per_group : 1);
  const int64_t ways = split.is_everywhere ? 1 : chip.l2b_count() / channel_ways_;
  image_ways_ = 1;
  while (image_ways_ < ways && image_ways_ * 2 <= picture.images && ways % (image_ways_ * 2) == 0)
    image_ways_ *= 2;
  // Entries of tokens may be cut anywhere, so that nobody has more rows than others.
  const auto rows_by = [&](int64_t by) {
    return ceil_div(picture.images, by) * ceil_div(picture.rows, ways / by);
  };
  for (int64_t fewer = image_ways_; picture.tokens && fewer >= 1; fewer /= 2) {
    if (rows_by(fewer) < rows_by(image_ways_)) image_ways_ = fewer;
  }
  row_ways_ = ways / image_ways_;
  images_ = ceil_div(picture.images, image_ways_);
  rows_ = ceil_div(picture.rows, row_ways_);
  chunks_ = ceil_div(ceil_div(picture.channels, kChunkChannels), channel_ways_);
}

int RowsImage::l2b_of(int64_t x, int64_t image, int64_t row) const {
  const int64_t y = image / images_ * row_ways_ + row / rows_;
  return static_cast<int>(l2b_of_ways(x, y));
}

int64_t RowsImage::offset(int64_t image, int64_t row) const {
  return is_inside() ? row % rows_ * row_pitch() + image % images_ * row_lw()
                     : (image % images_ * rows_ + row % rows_) * row_lw();
}

std::pair<int64_t, int64_t> RowsImage::first_of(int l2b) const {
  const int64_t group = l2b / chip_.l2b_per_group;
  const int64_t unit = l2b % chip_.l2b_per_group;
  if (split_.is_everywhere) return {0, 0};
  int64_t y = 0;
  if (!split_.group_channels) y = group;
  if (!split_.l2b_channels) y = y * chip_.l2b_per_group + unit;
  if (is_dealt()) y = unit * chip_.groups + group;
  return {y / row_ways_ * images_, y % row_ways_ * rows_};
}

std::vector<Factor> RowsImage::channel_factors() const {
  std::vector<Factor> factors;
  if (split_.group_channels) factors.push_back({chip_.groups, Level::kL2b, chip_.l2b_per_group});
  if (split_.l2b_channels) factors.push_back({chip_.l2b_per_group, Level::kL2b, 1});
  return factors;
}

std::vector<Factor> RowsImage::row_way_factors() const {
  std::vector<Factor> factors;
  if (!split_.group_channels) factors.push_back({chip_.groups, Level::kL2b, chip_.l2b_per_group});
  if (!split_.l2b_channels) factors.push_back({chip_.l2b_per_group, Level::kL2b, 1});
  return factors;
}

layout::L2bMode RowsImage::channel_mode() const {
  if (split_.l2b_channels) return layout::L2bMode::kDistribute;
  if (split_.group_channels) return layout::L2bMode::kBroadcastInGroup;
  return chip_.groups > 1 ? layout::L2bMode::kBroadcastDealt : layout::L2bMode::kBroadcast;
}

int64_t RowsImage::l2b_of_ways(int64_t x, int64_t y) const {
  const int64_t per_group = chip_.l2b_per_group;
  if (split_.group_channels && split_.l2b_channels) return x;
  if (split_.group_channels) return x * per_group + y;
  if (split_.l2b_channels) return y * per_group + x;
  return is_dealt() ? y % chip_.groups * per_group + y / chip_.groups : y;
}

std::vector<Factor> RowsImage::way_factors(int64_t count, int64_t below) const {
  const int64_t per_group = chip_.l2b_per_group;
  if (!is_dealt()) return {{count, Level::kL2b, (split_.l2b_channels ? per_group : 1) * below}};
  // Groups are counted first.
  const int64_t of_groups = std::clamp<int64_t>(chip_.groups / below, 1, count);
  const int64_t passed = std::max<int64_t>(1, below / chip_.groups);
  return {{count / of_groups, Level::kL2b, passed}, {of_groups, Level::kL2b, per_group * below}};
}

std::pair<std::vector<Factor>, std::vector<Factor>> packed_factors(int64_t channels,
                                                                   const std::vector<Factor>& blocks) {
  // The bits of a word's number among the 32 of 16 LW, the last first.
  std::vector<Factor> bits = {{2, Level::kWord, 1}, {2, Level::kPe, 1}, {2, Level::kPe, 2}};
  for (size_t k = blocks.size(); k-- > 0;) {
    for (int64_t size = 1; size < blocks[k].size; size *= 2)
      bits.push_back({2, blocks[k].level, size * blocks[k].stride});
  }
  std::pair<std::vector<Factor>, std::vector<Factor>> factors;
  int64_t size = 1;
  for (const Factor& bit : bits) {
    std::vector<Factor>& list = size < channels ? factors.first : factors.second;
    list.insert(list.begin(), bit);
    size *= 2;
  }
  return factors;
}

StreamPlacement RowsImage::placement(std::string name) const {
  using layout::L1bMode;
  using layout::L2bMode;
  using layout::MabMode;
  StreamPlacement result;
  result.name = std::move(name);
  result.access.tensor = picture_.tensor;
  result.access.map = AffineMap::identity(picture_.shape.size());
  result.extents = picture_.shape;
  // Stream numbers:
  const int64_t row = row_lw() / isa::kPePerMab;
  const int64_t in_unit = kUnitLw / isa::kPePerMab;
  const auto [groups, chunks] = order();
  const int64_t width = order().width();
  std::vector<Factor> channels = channel_factors();
  channels.insert(channels.end(), {{chunks / width, Level::kAddress, width * groups * in_unit},
                                   {width, Level::kAddress, in_unit},
                                   {kBlocksPerChunk, Level::kAddress, 1},
                                   {isa::kPePerMab, Level::kPe, 1},
                                   {isa::kWordsPerLong, Level::kWord, 1}});
  std::vector<Factor> images = way_factors(image_ways_, row_ways_);
  images.push_back({images_, Level::kAddress, is_inside() ? row : rows_ * row});
  std::vector<Factor> rows = way_factors(row_ways_, 1);
  rows.push_back({rows_, Level::kAddress, row_pitch() / isa::kPePerMab});
  const std::vector<Factor> columns = {{isa::kCyclesPerStep, Level::kAddress, kBlocksPerChunk},
                                       {groups, Level::kAddress, width * in_unit}};
  const std::vector<Factor> copies = {{chip_.l1b_per_l2b, Level::kL1b, 1},
                                      {chip_.mab_per_l1b, Level::kMab, 1}};
  if (picture_.tokens) {
    rows.insert(rows.end(), columns.begin(), columns.end());
    std::vector<std::vector<Factor>> axes = {channels};
    result.axis_dims = {{picture_.tokens->channel}};
    for (const auto& [dims, factors] :
         {std::pair(picture_.tokens->entries, images), std::pair(picture_.tokens->tokens, rows)}) {
      if (dims.empty()) continue;
      result.axis_dims.push_back(dims);
      axes.push_back(factors);
    }
    result.layout = Layout(axes, layout::Memory::kLm1, copies);
    place_single(result);
  } else if (picture_.packed) {
    // Over images, channels, rows, lanes, columns of a line.
    const Picture::Packed& packed = *picture_.packed;
    const Shape& shape = picture_.shape;
    const int64_t line = groups * kColumnLw * isa::kWordsPerLong / packed.channels;
    result.extents = {shape[0], packed.channels, shape[2], isa::kCyclesPerStep, line};
    result.access.map = AffineMap(shape.size(), result.extents.size());
    result.access.map.set(0, 0, 1).set(1, 1, 1).set(2, 2, 1);
    result.access.map.set(3, 3, packed.lane_columns * packed.window.stride[1]).set(3, 4, 1);
    result.access.map.set_offset(3, -packed.window.pad[1]);
    result.axis_dims = {{0}, {2}, {3}, {4, 1}};
    const std::vector<Factor> words = {{groups, Level::kAddress, in_unit},
                                       {kBlocksPerChunk, Level::kAddress, 1},
                                       {isa::kPePerMab, Level::kPe, 1},
                                       {isa::kWordsPerLong, Level::kWord, 1}};
    result.layout = Layout({images, rows, {{isa::kCyclesPerStep, Level::kAddress, kBlocksPerChunk}}, words},
                           layout::Memory::kLm1, copies);
  } else {
    result.axis_dims = {{1}, {0}, {2}, {3}};
    if (picture_.shape.size() == 6) result.axis_dims = {{1}, {0}, {2, 3}, {4, 5}};
    result.layout = Layout({channels, images, rows, columns}, layout::Memory::kLm1, copies);
  }
  // Rows that no L2B computes are never read; channels behind the last one are.
  if (picture_.channels == channel_ways_ * chunks_ * kChunkChannels && !picture_.packed)
    result.layout.set_padding(layout::Padding::kUndefined);
  result.transport = Transport(chip_, L2bMode::kDistribute, L1bMode::kBroadcast, MabMode::kBroadcastMab);
  result.length_lw = round_up(images_ * rows_ * row, result.transport.granule());
  result.is_rows = true;
  return result;
}

int64_t RowsImage::channels_of(int l2b) const {
  const int64_t group = l2b / chip_.l2b_per_group;
  const int64_t unit = l2b % chip_.l2b_per_group;
  if (split_.group_channels && split_.l2b_channels) return l2b;
  if (split_.group_channels) return group;
  return split_.l2b_channels ? unit : 0;
}

namespace {

/// What all L2Bs want at one place goes to all of them at once.
std::vector<RowsTransfer> with_broadcasts(const std::vector<RowsTransfer>& list, const isa::Chip& chip) {
  using Key = std::tuple<int, int, int64_t, int64_t, int64_t>;
  const auto key = [](const RowsTransfer& transfer) {
    return Key(transfer.stream, transfer.group, transfer.dram, transfer.l2bm, transfer.count);
  };
  std::map<Key, int> readers;
  for (const RowsTransfer& transfer : list) ++readers[key(transfer)];
  std::vector<RowsTransfer> result;
  for (const RowsTransfer& transfer : list) {
    int& count = readers[key(transfer)];
    if (count == 0) continue;
    result.push_back(transfer);
    if (count < chip.l2b_count()) continue;
    count = 0;
    result.back().to_all = true;
  }
  return result;
}

/// Where all L2Bs take the same rows of their own parts, one transfer inside every group does.
std::vector<RowsTransfer> with_own(std::vector<RowsTransfer> list, const isa::Chip& chip, int64_t part) {
  using Key = std::tuple<int64_t, int64_t, int64_t>;
  const auto own_key = [&](const RowsTransfer& transfer) -> std::optional<Key> {
    const int unit = transfer.l2b % chip.l2b_per_group;
    if (transfer.stream >= 0 || transfer.group != transfer.l2b / chip.l2b_per_group ||
        transfer.dram / part != unit)
      return std::nullopt;
    return Key(transfer.dram % part, transfer.l2bm, transfer.count);
  };
  std::map<Key, size_t> takers;
  for (const RowsTransfer& transfer : list) {
    if (const auto key = own_key(transfer)) ++takers[*key];
  }
  std::vector<RowsTransfer> result;
  for (const auto& [key, count] : takers) {
    if (count != static_cast<size_t>(chip.l2b_count())) continue;
    RowsTransfer all;
    std::tie(all.dram, all.l2bm, all.count) = key;
    result.push_back(all);
    std::erase_if(list, [&, of = key](const RowsTransfer& transfer) { return own_key(transfer) == of; });
  }
  result.insert(result.end(), list.begin(), list.end());
  return result;
}

/// In rounds, in which every L2BM is read and written once at most: transfers that share a port would follow
/// each other, and those behind them wait.
std::vector<RowsTransfer> in_rounds(const std::vector<RowsTransfer>& list, int64_t part) {
  std::vector<RowsTransfer> result;
  std::vector<RowsTransfer> left;
  for (const RowsTransfer& transfer : list)
    (transfer.to_all || transfer.l2b < 0 ? result : left).push_back(transfer);
  while (!left.empty()) {
    std::set<std::tuple<int, int, int64_t>> read;
    std::set<int> written;
    std::vector<RowsTransfer> later;
    for (const RowsTransfer& transfer : left) {
      const std::tuple source(transfer.stream, transfer.group,
                              transfer.stream < 0 ? transfer.dram / part : 0);
      const bool is_free = !read.contains(source) && !written.contains(transfer.l2b);
      (is_free ? result : later).push_back(transfer);
      if (!is_free) continue;
      read.insert(source);
      written.insert(transfer.l2b);
    }
    left = std::move(later);
  }
  return result;
}

}  // namespace

std::vector<RowsTransfer> window_transfers(const RowsImage& in, const RowsImage& out,
                                           const RowsWindow& window, const RowsPass& pass,
                                           const std::optional<RowsTransfer>& outside, const isa::Chip& chip,
                                           bool own_channels) {
  std::vector<RowsTransfer> list;
  const int64_t part = round_up(in.part_lw(), isa::kMvUnitLw);
  const Picture& from = in.picture();
  const int64_t pitch = in.row_pitch();
  std::vector<int> idle;
  for (int l2b = 0; l2b < chip.l2b_count(); ++l2b) {
    const auto [first_image, first_row] = out.first_of(l2b);
    const int64_t n = first_image + pass.image;
    const int64_t top = first_row + pass.pass * pass.pass_rows;
    if (n >= from.images || top >= out.picture().rows) {
      idle.push_back(l2b);
      continue;
    }
    const int64_t under = top * window.stride[0] - window.pad[0];
    const int64_t begin = pass.from_row >= 0 ? pass.from_row : under + pass.first_row;
    const int64_t end = pass.from_row >= 0
                            ? begin + pass.most_rows
                            : begin + std::min(pass.most_rows, window.rows_under(pass.rows) - pass.first_row);
    for (int64_t x = 0; x < in.channel_ways(); ++x) {
      if (own_channels && x != in.channels_of(l2b)) continue;
      const int64_t region = (own_channels ? 0 : x) * pass.region_rows * pitch;
      for (int64_t row = begin; row < end;) {
        const bool inside = row >= 0 && row * window.row_step < from.rows;
        const int64_t there = std::clamp<int64_t>(row * window.row_step, 0, from.rows - 1);
        int64_t stop = row + 1;
        if (inside && window.row_step == 1) {
          stop = std::min({end, (row / in.rows() + 1) * in.rows(), from.rows});
        } else if (!inside && outside) {
          stop = row < 0 ? std::min<int64_t>(0, end) : end;
        }
        RowsTransfer transfer;
        if (!inside && outside) {
          transfer = *outside;
        } else {
          const int source = in.l2b_of(x, n, there);
          transfer.group = source / chip.l2b_per_group;
          transfer.dram = source % chip.l2b_per_group * part + in.offset(n, there);
        }
        transfer.l2b = l2b;
        transfer.l2bm = region + (row - begin) * pitch;
        transfer.count = (stop - row) * pitch;
        list.push_back(transfer);
        row = stop;
      }
    }
  }
  // Who has nothing to do gets what a neighbour gets, so that it reads nothing old.
  for (const int l2b : idle) {
    const int like = list.empty() ? -1 : list.front().l2b;
    const size_t known = list.size();
    for (size_t k = 0; k < known; ++k) {
      RowsTransfer transfer = list[k];
      if (transfer.l2b != like) continue;
      const bool is_own = transfer.stream < 0 && transfer.group == like / chip.l2b_per_group &&
                          transfer.dram / part == like % chip.l2b_per_group;
      if (is_own) {
        transfer.group = l2b / chip.l2b_per_group;
        transfer.dram = transfer.dram % part + l2b % chip.l2b_per_group * part;
      }
      transfer.l2b = l2b;
      list.push_back(transfer);
    }
  }
  return in_rounds(with_own(with_broadcasts(list, chip), chip, part), part);
}

std::vector<RowsTransfer> row_transfers(
    const RowsImage& in, int64_t channels, int64_t l2bm,
    const std::function<std::optional<std::pair<int64_t, int64_t>>(int l2b)>& wanted,
    const RowsTransfer& outside, const isa::Chip& chip) {
  const int64_t part = round_up(in.part_lw(), isa::kMvUnitLw);
  std::vector<RowsTransfer> list;
  for (int l2b = 0; l2b < chip.l2b_count(); ++l2b) {
    const auto place = wanted(l2b);
    const bool is_there = place && place->first < in.picture().images && place->second >= 0 &&
                          place->second < in.picture().rows;
    RowsTransfer transfer = outside;
    if (is_there) {
      const int source =
          in.l2b_of(channels < 0 ? in.channels_of(l2b) : channels, place->first, place->second);
      transfer = {};
      transfer.group = source / chip.l2b_per_group;
      transfer.dram = source % chip.l2b_per_group * part + in.offset(place->first, place->second);
    }
    transfer.l2b = l2b;
    transfer.l2bm = l2bm;
    transfer.count = in.row_lw();
    list.push_back(transfer);
  }
  return in_rounds(with_own(with_broadcasts(list, chip), chip, part), part);
}

std::pair<int64_t, int64_t> rows_inside(const RowsImage& in, const RowsImage& out, const RowsWindow& window,
                                        const RowsPass& pass, const isa::Chip& chip) {
  std::pair<int64_t, int64_t> inside(window.rows_under(pass.rows), 0);
  for (int l2b = 0; l2b < chip.l2b_count(); ++l2b) {
    const auto [first_image, first_row] = out.first_of(l2b);
    const int64_t top = first_row + pass.pass * pass.pass_rows;
    if (first_image + pass.image >= in.picture().images || top >= out.picture().rows) continue;
    const int64_t under = top * window.stride[0] - window.pad[0];
    inside.first = std::min(inside.first, std::max<int64_t>(0, -under));
    inside.second = std::max(inside.second, std::min(window.rows_under(pass.rows),
                                                     ceil_div(in.picture().rows, window.row_step) - under));
  }
  return inside;
}

int64_t rows_transfer_cycles(const std::vector<RowsTransfer>& list, const isa::Chip& chip) {
  std::vector<int64_t> from(static_cast<size_t>(chip.groups)), to(static_cast<size_t>(chip.l2b_count()));
  for (const RowsTransfer& transfer : list) {
    if (transfer.l2b < 0) {
      for (int64_t& lw : from) lw += chip.l2b_per_group * transfer.count;
      for (int64_t& lw : to) lw += transfer.count;
      continue;
    }
    from[static_cast<size_t>(std::max(transfer.group, 0))] += transfer.count;
    for (size_t l2b = 0; l2b < to.size(); ++l2b) {
      if (transfer.to_all || transfer.l2b == static_cast<int>(l2b)) to[l2b] += transfer.count;
    }
  }
  const double cycles =
      std::max(static_cast<double>(*std::ranges::max_element(from)) / chip.transfer.dram_lw_per_cycle,
               static_cast<double>(*std::ranges::max_element(to)) / chip.transfer.l2bm_mv_lw_per_cycle);
  const int64_t starts =
      static_cast<int64_t>(list.size()) * chip.transfer.issue_interval_steps * isa::kCyclesPerStep;
  return chip.transfer.startup_cycles + 2 * chip.transfer.group_hop_cycles +
         std::max(static_cast<int64_t>(cycles), starts);
}

std::vector<int64_t> l1b_places(int64_t l1bs, int64_t lw) {
  std::vector<int64_t> places;
  for (int64_t b = 0; b < l1bs; ++b) places.push_back(b * lw);
  return places;
}

std::vector<int64_t> l1b_chunk_places(int64_t l1bs, const RowOrder& order, int64_t chunks) {
  std::vector<int64_t> places;
  for (int64_t b = 0; b < l1bs; ++b) places.push_back(order.at(b * chunks, 0));
  return places;
}

void place_single(StreamPlacement& placement) {
  for (size_t dim = 0; dim < placement.extents.size(); ++dim) {
    const auto has_dim = [&](const std::vector<int>& dims) {
      return std::ranges::count(dims, static_cast<int>(dim)) > 0;
    };
    if (placement.extents[dim] == 1 && std::ranges::none_of(placement.axis_dims, has_dim))
      placement.axis_dims[0].insert(placement.axis_dims[0].begin(), static_cast<int>(dim));
  }
}

RowsStaging rows_staging(const isa::Chip& chip) {
  constexpr int64_t kSumSlots = 8;
  RowsStaging staging;
  staging.windows_lw = chip.memory.l1bm_lw / 2 - kSumSlots * kUnitLw;
  staging.sums = staging.windows_lw;
  staging.sum_slots = kSumSlots;
  staging.results = staging.sums + kSumSlots * kUnitLw;
  staging.results_lw = chip.memory.l1bm_lw - staging.results;
  return staging;
}

}  // namespace kodama::compiler
