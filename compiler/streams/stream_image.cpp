#include "compiler/streams/stream_image.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <set>
#include <span>
#include <utility>

#include "isa/cancellation.h"
#include "isa/error.h"
#include "isa/move_places.h"
#include "isa/number_formats.h"

namespace kodama::compiler {

using layout::Coordinates;
using layout::Level;

namespace {

constexpr const char* kStreamImagePart = "stream image";

/// Numbers after which DRAM addresses repeat up to a constant: the L2BM order deals runs of 8 LW over L1Bs,
/// and longer runs may be dealt over groups.
int64_t period_of(const layout::Transport& transport) {
  return std::max<int64_t>(8, transport.run_lw() * transport.dealt_over() / transport.l2bm_lw_per_number());
}
/// That constant.
int64_t period_lw_of(const layout::Transport& transport) {
  const int64_t period = period_of(transport);
  Coordinates next;
  next[Level::kAddress] = period;
  return transport.dram_place(next, period + 1).address - transport.dram_place({}, period + 1).address;
}

/// The cells of an image, one per LW, by (place code, stream number). A place code is a linear function of
/// the coordinates on the levels, so that the contributions of a layout's axes add up, as the numbers do; the
/// transport's own address function is asked once per place and number of a period, as soon as something is
/// there: small streams are in a few of the places.
template <typename Cell>
class CellTable {
 public:
  CellTable(const StreamPlacement& placement, const isa::Chip& chip,
            const std::vector<std::span<Cell>>& groups)
      : placement_(placement),
        chip_(chip),
        groups_(groups),
        codes_(chip.pe_count()),
        period_(period_of(placement.transport)),
        shift_(std::has_single_bit(static_cast<uint64_t>(period_))
                   ? std::countr_zero(static_cast<uint64_t>(period_))
                   : -1),
        period_lw_(period_lw_of(placement.transport)),
        first_(static_cast<size_t>(period_ * codes_), nullptr) {}

  Cell& at(int64_t code, int64_t number) {
    const int64_t periods = shift_ >= 0 ? number >> shift_ : number / period_;
    const int64_t rest = number - periods * period_;
    Cell*& first = first_[static_cast<size_t>(rest * codes_ + code)];
    if (first == nullptr) first = find(code, rest);
    return first[periods * period_lw_];
  }

 private:
  Cell* find(int64_t code, int64_t number) const {
    Coordinates at = layout::place_of_pe(code, chip_);
    at[Level::kAddress] = number;
    const auto dram = placement_.transport.dram_place(at, std::max(placement_.length_lw, number + 1));
    return groups_[static_cast<size_t>(dram.group)].data() + dram.address;
  }

  const StreamPlacement& placement_;
  const isa::Chip& chip_;
  const std::vector<std::span<Cell>>& groups_;
  int64_t codes_;
  int64_t period_;
  int shift_;  ///< the period's logarithm; -1: it has none
  int64_t period_lw_;
  std::vector<Cell*> first_;  ///< by number and code: the cell of the first period
};

/// What index i along one axis of the layout adds to everything.
struct AxisTable {
  std::vector<int64_t> code;
  std::vector<int64_t> number;
  std::vector<int64_t> word;
  std::vector<int64_t> offset;                ///< of the tensor's element
  std::vector<std::vector<int64_t>> checked;  ///< tensor index on each axis that may leave the tensor
  AxisTable(size_t checked_axes, size_t size) : checked(checked_axes) {
    constexpr size_t kMostToReserve = size_t{1} << 22;  // a stream that is cut short has few of a large axis
    for (std::vector<int64_t>* column : {&code, &number, &word, &offset})
      column->reserve(std::min(size, kMostToReserve));
    for (std::vector<int64_t>& column : checked) column.reserve(std::min(size, kMostToReserve));
  }
  /// Of an axis with one place.
  static AxisTable of_one(size_t checked_axes) {
    AxisTable table(checked_axes, 1);
    table.code = table.number = table.word = table.offset = {0};
    table.checked.assign(checked_axes, {0});
    return table;
  }
  int64_t size() const { return static_cast<int64_t>(code.size()); }
};

/// Calls `visit(offset or -1, code, number, word)` for every iteration point whose number is one of the
/// stream's: it may be cut short.
class PointWalk {
 public:
  PointWalk(const StreamPlacement& placement, const Shape& tensor_shape, const isa::Chip& chip)
      : numbers_(placement.length_lw) {
    const AffineMap& map = placement.access.map;
    isa::check_internal(map.axes() == tensor_shape.size(), kStreamImagePart,
                        "stream '{}': access of rank {} to shape {}", placement.name, map.axes(),
                        shape_to_string(tensor_shape));
    isa::check_internal(placement.layout.axes().size() == placement.axis_dims.size(), kStreamImagePart,
                        "stream '{}': {} layout axes for {} groups of dims", placement.name,
                        placement.layout.axes().size(), placement.axis_dims.size());
    std::vector<int64_t> tensor_strides(tensor_shape.size(), 1);
    for (size_t a = tensor_shape.size(); a-- > 1;)
      tensor_strides[a - 1] = tensor_strides[a] * tensor_shape[a];

    std::vector<bool> covered(placement.extents.size(), false);
    for (const std::vector<int>& dims : placement.axis_dims) {
      for (int dim : dims) covered[static_cast<size_t>(dim)] = true;
    }
    for (size_t dim = 0; dim < covered.size(); ++dim) {
      for (size_t a = 0; a < map.axes() && !covered[dim]; ++a) {
        isa::check_internal(map.coefficient(a, dim) == 0, kStreamImagePart,
                            "stream '{}' depends on dim {}, which its layout leaves out", placement.name,
                            dim);
      }
    }

    std::vector<size_t> checked_axes;
    for (size_t a = 0; a < map.axes(); ++a) {
      const auto [low, high] = map.range(a, placement.extents);
      if (low < 0 || high >= tensor_shape[a]) {
        checked_axes.push_back(a);
        checked_extent_.push_back(static_cast<uint64_t>(tensor_shape[a]));
        checked_base_.push_back(map.offset(a));
      }
      base_offset_ += map.offset(a) * tensor_strides[a];
    }

    for (size_t k = 0; k < placement.axis_dims.size(); ++k) {
      const std::vector<int>& dims = placement.axis_dims[k];
      int64_t size = 1;
      for (int dim : dims) size *= placement.extents[static_cast<size_t>(dim)];
      isa::check_internal(size <= placement.layout.extent(k), kStreamImagePart,
                          "stream '{}': axis {} of {} in {}", placement.name, k, size,
                          placement.layout.to_string());
      // What a step of a digit adds: of the index, a dim's coordinates in the tensor; of the layout, a
      // factor's place. Both are counted up side by side.
      AxisTable table(checked_axes.size(), static_cast<size_t>(size));
      std::vector<Digit> digits;
      for (auto dim = dims.rbegin(); dim != dims.rend(); ++dim) {
        const auto d = static_cast<size_t>(*dim);
        Digit digit{placement.extents[d], {}};
        digit.step.checked.resize(checked_axes.size());
        for (size_t a = 0; a < map.axes(); ++a)
          digit.step.offset += map.coefficient(a, d) * tensor_strides[a];
        for (size_t c = 0; c < checked_axes.size(); ++c)
          digit.step.checked[c] = map.coefficient(checked_axes[c], d);
        digits.push_back(std::move(digit));
      }
      std::vector<Digit> factors;
      const std::vector<layout::Factor>& own = placement.layout.axes()[k];
      for (auto factor = own.rbegin(); factor != own.rend(); ++factor) {
        Coordinates one;
        one[factor->level] = factor->stride;
        factors.push_back({factor->size,
                           {.code = layout::pe_number(one, chip),
                            .number = one[Level::kAddress],
                            .word = one[Level::kWord]}});
      }
      State index, place;
      index.checked.resize(checked_axes.size());
      for (int64_t i = 0; i < size;) {
        if (place.number >= numbers_) {
          i = behind_equals(i, factors);
          set(index, digits, i);
          set(place, factors, i);
          continue;
        }
        table.code.push_back(place.code);
        table.number.push_back(place.number);
        table.word.push_back(place.word);
        table.offset.push_back(index.offset);
        for (size_t c = 0; c < checked_axes.size(); ++c) table.checked[c].push_back(index.checked[c]);
        count_up(index, digits);
        count_up(place, factors);
        ++i;
      }
      axes_.push_back(std::move(table));
    }
    // The longest axis innermost, where a point costs least.
    const auto longest =
        std::max_element(axes_.begin(), axes_.end(),
                         [](const AxisTable& x, const AxisTable& y) { return x.size() < y.size(); });
    if (longest != axes_.end()) std::rotate(longest, longest + 1, axes_.end());
    if (axes_.empty()) axes_.push_back(AxisTable::of_one(checked_axes.size()));
  }

  template <typename Visit>
  void run(Visit&& visit) const {
    State state{.code = 0, .number = 0, .word = 0, .offset = base_offset_, .checked = checked_base_};
    axis(0, state, visit);
  }

 private:
  struct State {
    int64_t code = 0;
    int64_t number = 0;
    int64_t word = 0;
    int64_t offset = 0;
    std::vector<int64_t> checked = {};

    void add(const State& step, int64_t times) {
      code += step.code * times;
      number += step.number * times;
      word += step.word * times;
      offset += step.offset * times;
      for (size_t c = 0; c < step.checked.size(); ++c) checked[c] += step.checked[c] * times;
    }
  };
  struct Digit {
    int64_t size = 1;
    State step;
    int64_t value = 0;
  };
  /// The next number; the first digit counts fastest.
  static void count_up(State& state, std::vector<Digit>& digits) {
    for (Digit& digit : digits) {
      state.add(digit.step, 1);
      if (++digit.value < digit.size) return;
      state.add(digit.step, -digit.size);
      digit.value = 0;
    }
  }

  static void set(State& state, std::vector<Digit>& digits, int64_t number) {
    for (Digit& digit : digits) {
      state.add(digit.step, number % digit.size - digit.value);
      digit.value = number % digit.size;
      number /= digit.size;
    }
  }
  /// The next number with a slower digit than the fastest that isn't zero: all before it have no smaller
  /// stream number than this one.
  static int64_t behind_equals(int64_t number, const std::vector<Digit>& digits) {
    int64_t block = 1;
    for (const Digit& digit : digits) {
      block *= digit.size;
      if (digit.value != 0) break;
    }
    return (number / block + 1) * block;
  }

  template <typename Visit>
  void axis(size_t k, const State& outer, Visit&& visit) const {
    const AxisTable& table = axes_[k];
    const auto size = static_cast<size_t>(table.size());
    if (k + 1 < axes_.size()) {
      State state = outer;
      for (size_t i = 0; i < size; ++i) {
        if (k == 0) isa::stop_if_cancelled();
        state.code = outer.code + table.code[i];
        state.number = outer.number + table.number[i];
        if (state.number >= numbers_) continue;
        state.word = outer.word + table.word[i];
        state.offset = outer.offset + table.offset[i];
        for (size_t c = 0; c < state.checked.size(); ++c)
          state.checked[c] = outer.checked[c] + table.checked[c][i];
        axis(k + 1, state, visit);
      }
      return;
    }
    for (size_t i = 0; i < size; ++i) {
      if (outer.number + table.number[i] >= numbers_) continue;
      bool inside = true;
      for (size_t c = 0; c < outer.checked.size(); ++c) {
        inside &= static_cast<uint64_t>(outer.checked[c] + table.checked[c][i]) < checked_extent_[c];
      }
      visit(inside ? outer.offset + table.offset[i] : -1, outer.code + table.code[i],
            outer.number + table.number[i], outer.word + table.word[i]);
    }
  }

  int64_t numbers_;
  std::vector<AxisTable> axes_;
  std::vector<uint64_t> checked_extent_;
  std::vector<int64_t> checked_base_;
  int64_t base_offset_ = 0;
};

/// The tensor's elements as words: its own memory where they are, else converted into `storage`.
std::span<const uint32_t> as_words(const Tensor& tensor, std::vector<uint32_t>& storage) {
  switch (tensor.type()) {
    case DataType::kFloat32:
    case DataType::kInt32:
    case DataType::kUint32:
      return tensor.data<uint32_t>();
    default:
      break;
  }
  storage.resize(static_cast<size_t>(tensor.size()));
  const auto convert = [&](const auto& elements, auto&& word) {
    std::ranges::transform(elements, storage.begin(), [&](auto element) { return uint32_t{word(element)}; });
  };
  const auto float_bits = [](float value) { return std::bit_cast<uint32_t>(value); };
  const auto extended = [](auto element) { return static_cast<uint32_t>(int32_t{element}); };
  switch (tensor.type()) {
    case DataType::kFloat16:
      convert(tensor.data<uint16_t>(), [&](uint16_t bits) { return float_bits(half_to_float(bits)); });
      break;
    case DataType::kBfloat16:
      convert(tensor.data<uint16_t>(), [&](uint16_t bits) { return float_bits(bfloat16_to_float(bits)); });
      break;
    case DataType::kBool:
      convert(tensor.data<uint8_t>(), [](uint8_t byte) { return byte != 0 ? 1U : 0U; });
      break;
    case DataType::kInt8:
      convert(tensor.data<int8_t>(), extended);
      break;
    case DataType::kUint8:
      convert(tensor.data<uint8_t>(), extended);
      break;
    case DataType::kInt16:
      convert(tensor.data<int16_t>(), extended);
      break;
    case DataType::kUint16:
      convert(tensor.data<uint16_t>(), extended);
      break;
    default:
      throw isa::InternalError(fmt::format("internal error in {}: {} in a stream", kStreamImagePart,
                                           data_type_name(tensor.type())));
  }
  return storage;
}

/// Word 0 of a LW is the upper one.
int word_shift(int64_t word, int bits) {
  return 64 - bits * static_cast<int>(word + 1);
}
void require_floats(const StreamPlacement& placement) {
  isa::check_internal(placement.element == StreamElement::kFloat, kStreamImagePart, "stream '{}' has halves",
                      placement.name);
}

/// Hands `run` a function that writes element `index` of `out` from a word.
template <typename Run>
void with_writer(Tensor& out, Run&& run) {
  const auto write = [&](auto data, auto&& element) {
    run([data, element](int64_t i, uint32_t word) { data[static_cast<size_t>(i)] = element(word); });
  };
  const auto as_float = [](uint32_t word) { return std::bit_cast<float>(word); };
  switch (out.type()) {
    case DataType::kFloat32:
    case DataType::kInt32:
    case DataType::kUint32:
      return write(out.data<uint32_t>(), [](uint32_t word) { return word; });
    case DataType::kFloat16:
      return write(out.data<uint16_t>(), [=](uint32_t word) { return float_to_half(as_float(word)); });
    case DataType::kBfloat16:
      return write(out.data<uint16_t>(), [=](uint32_t word) { return float_to_bfloat16(as_float(word)); });
    case DataType::kBool:
    case DataType::kInt8:
    case DataType::kUint8:
      return write(out.data<uint8_t>(), [](uint32_t word) { return static_cast<uint8_t>(word); });
    case DataType::kInt16:
    case DataType::kUint16:
      return write(out.data<uint16_t>(), [](uint32_t word) { return static_cast<uint16_t>(word); });
    default:
      throw isa::InternalError(fmt::format("internal error in {}: a stream can't be unpacked to {}",
                                           kStreamImagePart, data_type_name(out.type())));
  }
}

}  // namespace

uint32_t stream_padding_bits(layout::Padding padding) {
  switch (padding) {
    case layout::Padding::kUndefined:
    case layout::Padding::kZero:
      return 0;
    case layout::Padding::kMinusInfinity:
      return std::bit_cast<uint32_t>(-std::numeric_limits<float>::infinity());
    case layout::Padding::kPlusInfinity:
      return std::bit_cast<uint32_t>(std::numeric_limits<float>::infinity());
    case layout::Padding::kOne:
      return std::bit_cast<uint32_t>(1.0F);
  }
  return 0;
}

int64_t stream_group_lw(const StreamPlacement& placement) {
  return placement.transport.part_lw(placement.length_lw) * placement.transport.parts_per_group();
}

StreamImage empty_stream(const StreamPlacement& placement, const isa::Chip& chip) {
  StreamImage image;
  image.groups.resize(static_cast<size_t>(chip.groups));
  for (int g = 0; g < placement.transport.groups_used(); ++g) {
    image.groups[static_cast<size_t>(g)].resize(static_cast<size_t>(stream_group_lw(placement)));
  }
  return image;
}

namespace {

/// Calls put(cell, word, offset or -1) for every place of every element of the stream. `groups` hold one cell
/// per LW. Without `all_replicas`, an element that is kept several times has one place.
template <typename Cell, typename Put>
void for_each_place(const StreamPlacement& placement, const Shape& tensor_shape, const isa::Chip& chip,
                    const std::vector<std::span<Cell>>& groups, bool all_replicas, Put&& put) {
  if (element_count(placement.extents) == 0) return;
  CellTable<Cell> cells(placement, chip, groups);
  const PointWalk walk(placement, tensor_shape, chip);

  // Replicas on levels that the transport broadcasts are one copy in DRAM.
  struct Replica {
    int64_t code, number, word;
  };
  std::vector<Replica> replicas;
  std::set<std::tuple<int, int64_t, int64_t>> seen;
  for (const Coordinates& offset : placement.layout.replica_offsets()) {
    const auto place = placement.transport.dram_place(offset, placement.length_lw);
    if (seen.insert({place.group, place.address, offset[Level::kWord]}).second) {
      replicas.push_back({layout::pe_number(offset, chip), offset[Level::kAddress], offset[Level::kWord]});
    }
  }
  if (!all_replicas) replicas = {{0, 0, 0}};

  walk.run([&](int64_t offset, int64_t code, int64_t number, int64_t word) {
    for (const Replica& replica : replicas) {
      if (number + replica.number < placement.length_lw)
        put(cells.at(code + replica.code, number + replica.number), word + replica.word, offset);
    }
  });
}

}  // namespace

StreamImage pack_stream(const StreamPlacement& placement, const Tensor& tensor, const isa::Chip& chip) {
  StreamImage image = empty_stream(placement, chip);
  const bool has_halves = placement.element == StreamElement::kHalf;
  const auto bits_of = [&](uint32_t word) {
    return has_halves ? uint64_t{isa::half_of(std::bit_cast<float>(word))} : uint64_t{word};
  };
  const int bits = placement.element_bits();
  const uint64_t padding = bits_of(stream_padding_bits(placement.layout.padding()));
  if (padding != 0) {
    const uint64_t pair = has_halves ? padding << 16 | padding : padding;
    for (std::vector<uint64_t>& group : image.groups) std::ranges::fill(group, pair << 32 | pair);
  }
  std::vector<uint32_t> storage;
  const std::span<const uint32_t> elements = as_words(tensor, storage);
  const uint32_t fill = word_of(placement.access.fill, tensor.type());
  const uint64_t mask = (uint64_t{1} << bits) - 1;
  const std::vector<std::span<uint64_t>> groups(image.groups.begin(), image.groups.end());
  for_each_place(placement, tensor.shape(), chip, groups, true,
                 [&](uint64_t& lw, int64_t word, int64_t offset) {
                   const uint32_t value = offset >= 0 ? elements[static_cast<size_t>(offset)] : fill;
                   const int shift = word_shift(word, bits);
                   lw = (lw & ~(mask << shift)) | bits_of(value) << shift;
                 });
  return image;
}

std::vector<std::vector<StreamLw>> stream_elements(const StreamPlacement& placement,
                                                   const Shape& tensor_shape, const isa::Chip& chip) {
  require_floats(placement);
  std::vector<std::vector<StreamLw>> result(static_cast<size_t>(chip.groups));
  for (int g = 0; g < placement.transport.groups_used(); ++g) {
    result[static_cast<size_t>(g)].assign(static_cast<size_t>(stream_group_lw(placement)),
                                          {kStreamPadding, kStreamPadding});
  }
  const std::vector<std::span<StreamLw>> groups(result.begin(), result.end());
  for_each_place(placement, tensor_shape, chip, groups, true, [](StreamLw& lw, int64_t word, int64_t offset) {
    lw[static_cast<size_t>(word)] = offset >= 0 ? offset : kStreamFill;
  });
  return result;
}

std::vector<StreamWord> stream_places(const StreamPlacement& placement, const Shape& tensor_shape,
                                      const isa::Chip& chip) {
  require_floats(placement);
  /// The cells are the places themselves.
  struct Cell {
    StreamWord place;
  };
  std::vector<std::vector<Cell>> cells(static_cast<size_t>(chip.groups));
  for (int g = 0; g < placement.transport.groups_used(); ++g) {
    cells[static_cast<size_t>(g)].resize(static_cast<size_t>(stream_group_lw(placement)));
    for (size_t k = 0; k < cells[static_cast<size_t>(g)].size(); ++k)
      cells[static_cast<size_t>(g)][k].place = {g, 2 * static_cast<int64_t>(k)};
  }
  const std::vector<std::span<Cell>> groups(cells.begin(), cells.end());
  std::vector<StreamWord> result(static_cast<size_t>(element_count(tensor_shape)));
  for_each_place(placement, tensor_shape, chip, groups, false,
                 [&](const Cell& cell, int64_t word, int64_t offset) {
                   if (offset < 0) return;
                   StreamWord& place = result[static_cast<size_t>(offset)];
                   if (place.group < 0) place = {cell.place.group, cell.place.word + word};
                 });
  return result;
}

std::optional<std::vector<size_t>> dims_of_axes(const StreamPlacement& stream) {
  const AffineMap& map = stream.access.map;
  std::vector<size_t> result(map.axes(), stream.extents.size());
  for (size_t dim = 0; dim < stream.extents.size(); ++dim) {
    size_t axes = 0;
    for (size_t axis = 0; axis < map.axes(); ++axis) {
      if (map.coefficient(axis, dim) == 0 || stream.extents[dim] == 1) continue;
      if (map.coefficient(axis, dim) != 1 || result[axis] != stream.extents.size()) return std::nullopt;
      result[axis] = dim;
      ++axes;
    }
    if (axes != 1 && stream.extents[dim] != 1) return std::nullopt;
  }
  for (size_t axis = 0; axis < map.axes(); ++axis) {
    if (map.offset(axis) != 0) return std::nullopt;
  }
  return result;
}

StreamPlaces::StreamPlaces(const StreamPlacement& placement, const Shape& tensor_shape, const isa::Chip& chip)
    : length_lw_(placement.length_lw),
      transport_(placement.transport),
      shape_(tensor_shape),
      period_(period_of(placement.transport)),
      period_lw_(period_lw_of(placement.transport)),
      known_(static_cast<size_t>(period_ * chip.pe_count())) {
  require_floats(placement);
  const auto dims = dims_of_axes(placement);
  isa::check_internal(dims.has_value(), kStreamImagePart, "places of '{}' one by one", placement.name);
  std::vector<size_t> axis_of_dim(placement.extents.size(), shape_.size());
  for (size_t axis = 0; axis < shape_.size(); ++axis) {
    const size_t dim = (*dims)[axis];
    limits_.push_back(dim < placement.extents.size() ? placement.extents[dim] : 1);
    if (dim < axis_of_dim.size()) axis_of_dim[dim] = axis;
  }
  for (size_t k = 0; k < placement.axis_dims.size(); ++k) {
    Axis axis;
    for (const int dim : placement.axis_dims[k]) {
      const auto d = static_cast<size_t>(dim);
      if (axis_of_dim[d] < shape_.size()) axis.dims.emplace_back(axis_of_dim[d], placement.extents[d]);
    }
    const std::vector<layout::Factor>& factors = placement.layout.axes()[k];
    for (auto factor = factors.rbegin(); factor != factors.rend(); ++factor) {
      Coordinates one;
      one[factor->level] = factor->stride;
      axis.digits.push_back(
          {factor->size, layout::pe_number(one, chip), one[Level::kAddress], one[Level::kWord]});
    }
    axes_.push_back(std::move(axis));
  }
  for (int64_t code = 0; code < chip.pe_count(); ++code) places_.push_back(layout::place_of_pe(code, chip));
}

StreamWord StreamPlaces::operator[](int64_t offset) const {
  std::array<int64_t, 16> few;
  std::vector<int64_t> many(shape_.size() > few.size() ? shape_.size() : 0);
  int64_t* const index = many.empty() ? few.data() : many.data();
  for (size_t axis = shape_.size(); axis-- > 0; offset /= shape_[axis]) {
    index[axis] = offset % shape_[axis];
    if (index[axis] >= limits_[axis]) return {};
  }
  int64_t code = 0, number = 0, word = 0;
  for (const Axis& axis : axes_) {
    int64_t rest = 0;
    for (const auto& [dim, extent] : axis.dims) rest = rest * extent + index[dim];
    for (const Digit& digit : axis.digits) {
      if (rest == 0) break;
      const int64_t value = rest % digit.size;
      rest /= digit.size;
      code += value * digit.code;
      number += value * digit.number;
      word += value * digit.word;
    }
  }
  const int64_t in_period = number % period_;
  auto& place = known_[static_cast<size_t>(in_period * static_cast<int64_t>(places_.size()) + code)];
  if (!place) {
    Coordinates at = places_[static_cast<size_t>(code)];
    at[Level::kAddress] = in_period;
    place = transport_.dram_place(at, std::max(length_lw_, number + 1));
  }
  return {place->group, isa::kWordsPerLong * (place->address + number / period_ * period_lw_) + word};
}

std::vector<StreamWord> words_of_point(const StreamPlacement& placement, const std::vector<int64_t>& point) {
  Coordinates place;
  for (size_t axis = 0; axis < placement.axis_dims.size(); ++axis) {
    int64_t index = 0;
    for (const int dim : placement.axis_dims[axis])
      index = index * placement.extents[static_cast<size_t>(dim)] + point[static_cast<size_t>(dim)];
    place = place + placement.layout.contribution(axis, index);
  }
  std::vector<StreamWord> words;
  for (const Coordinates& offset : placement.layout.replica_offsets()) {
    const Coordinates at = place + offset;
    const auto dram = placement.transport.dram_place(at, placement.length_lw);
    words.push_back({dram.group, placement.elements_per_lw() * dram.address + at[Level::kWord]});
  }
  return words;
}

void unpack_stream(const StreamPlacement& placement, const StreamImage& image, Tensor& out,
                   const isa::Chip& chip) {
  if (element_count(placement.extents) == 0) return;
  require_floats(placement);
  for (int g = 0; g < placement.transport.groups_used(); ++g) {
    isa::check_internal(
        static_cast<int64_t>(image.groups.at(static_cast<size_t>(g)).size()) == stream_group_lw(placement),
        kStreamImagePart, "stream '{}': image of group {} has another size", placement.name, g);
  }
  const PointWalk walk(placement, out.shape(), chip);
  const std::vector<std::span<const uint64_t>> groups(image.groups.begin(), image.groups.end());
  CellTable<const uint64_t> cells(placement, chip, groups);
  with_writer(out, [&](const auto& write) {
    walk.run([&](int64_t offset, int64_t code, int64_t number, int64_t word) {
      if (offset < 0) return;
      const uint64_t lw = cells.at(code, number);
      write(offset, static_cast<uint32_t>(lw >> word_shift(word, placement.element_bits())));
    });
  });
}

}  // namespace kodama::compiler
