#include "compiler/plan/element_origins.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <limits>
#include <numeric>

#include "isa/arithmetic.h"
#include "isa/error.h"

namespace kodama::compiler {
namespace {

constexpr const char* kElementOriginsPart = "element origins";
/// Codes of origins in an int64 tensor: root and offset, or -1 - number of a constant.
constexpr int kRootShift = 40;

int64_t code_of(TensorId root, int64_t offset) {
  return int64_t{root} << kRootShift | offset;
}

}  // namespace

void check_movable(int64_t elements, const std::string& tensor) {
  if (is_movable(elements)) return;
  throw isa::UnsupportedError(
      fmt::format("tensor '{}': its layout has to change, and its image has {} elements; on the chip at most "
                  "{} can be moved. "
                  "Use a smaller --dim, or --planner host, which moves them on the host",
                  tensor, elements, kMostMovedElements));
}

int64_t ElementOrigins::constant(uint32_t bits) {
  const auto [found, is_new] = numbers_.try_emplace(bits, static_cast<int64_t>(constants_.size()));
  if (is_new) constants_.push_back(bits);
  return found->second;
}

ElementOrigins::ElementOrigins(const LayerGraph& graph, std::set<TensorId> through)
    : graph_(graph), through_(std::move(through)) {
  for (size_t k = 0; k < graph.layers.size(); ++k) {
    const Layer& layer = graph.layers[k];
    if (layer.kind() != LayerKind::kRearrange) continue;
    const TensorId storage = graph.storage(layer.outputs[0]);
    if (through_.contains(storage)) makers_.try_emplace(storage, k);
  }
}

size_t ElementOrigins::maker(TensorId storage) const {
  const auto found = makers_.find(storage);
  isa::check_internal(found != makers_.end(), kElementOriginsPart, "no Rearrange makes tensor '{}'",
                      graph_.tensors[static_cast<size_t>(storage)].name);
  return found->second;
}

const RearrangeLayer& ElementOrigins::rearrange_of(TensorId storage) const {
  return std::get<RearrangeLayer>(graph_.layers[maker(storage)].body);
}

const Tensor& ElementOrigins::codes(TensorId storage) {
  if (const auto known = codes_.find(storage); known != codes_.end()) return known->second;
  // The Rearrange itself, run on codes instead of elements.
  RearrangeLayer rearrange = rearrange_of(storage);
  const auto check = [&](TensorId id) {
    const LayerTensor& tensor = graph_.tensors[static_cast<size_t>(id)];
    check_movable(element_count(tensor.shape), tensor.name);
  };
  check(storage);
  for (const RearrangeLayer::Piece& piece : rearrange.pieces) check(piece.input.tensor);
  const DataType type = graph_.tensors[static_cast<size_t>(storage)].type;
  const auto fill_code = [&](double fill) { return static_cast<double>(-1 - constant(word_of(fill, type))); };
  rearrange.fill = fill_code(rearrange.fill);
  std::vector<Tensor> inputs;
  inputs.reserve(rearrange.pieces.size());
  for (RearrangeLayer::Piece& piece : rearrange.pieces) {
    piece.input.fill = fill_code(piece.input.fill);
    const TensorId from = graph_.storage(piece.input.tensor);
    Tensor input(DataType::kInt64, graph_.tensors[static_cast<size_t>(piece.input.tensor)].shape);
    const auto elements = input.data<int64_t>();
    if (through_.contains(from)) {
      std::ranges::copy(codes(from).data<int64_t>(), elements.begin());
    } else {
      std::iota(elements.begin(), elements.end(), code_of(from, 0));
    }
    inputs.push_back(std::move(input));
  }
  std::vector<const Tensor*> pieces;
  for (const Tensor& input : inputs) pieces.push_back(&input);
  return codes_.emplace(storage, run_rearrange(rearrange, DataType::kInt64, pieces)).first->second;
}

const std::vector<TensorId>& ElementOrigins::roots(TensorId tensor) {
  const TensorId storage = graph_.storage(tensor);
  const auto [known, is_new] = roots_.try_emplace(storage);
  if (!is_new) return known->second;
  std::set<TensorId> found;
  if (!through_.contains(storage)) {
    found.insert(storage);
  } else {
    for (const int64_t code : codes(storage).data<int64_t>()) {
      if (code >= 0) found.insert(static_cast<TensorId>(code >> kRootShift));
    }
  }
  return known->second = {found.begin(), found.end()};
}

int64_t ElementOrigins::different(TensorId tensor, TensorId root) {
  const TensorId storage = graph_.storage(tensor);
  const int64_t elements = element_count(graph_.tensors[static_cast<size_t>(root)].shape);
  if (!through_.contains(storage)) return storage == root ? elements : 0;
  const auto [known, is_new] = different_.try_emplace({storage, root}, 0);
  if (!is_new) return known->second;
  std::vector<bool> seen(static_cast<size_t>(elements));
  for (const int64_t code : codes(storage).data<int64_t>()) {
    if (code < 0 || static_cast<TensorId>(code >> kRootShift) != root) continue;
    seen[static_cast<size_t>(code - code_of(root, 0))] = true;
  }
  return known->second = std::ranges::count(seen, true);
}

ElementOrigins::OfTensor ElementOrigins::all_of(TensorId tensor) {
  OfTensor result;
  result.storage_ = graph_.storage(tensor);
  if (through_.contains(result.storage_)) result.codes_ = codes(result.storage_).data<int64_t>().data();
  return result;
}

ElementOrigin ElementOrigins::OfTensor::operator[](int64_t offset) const {
  if (codes_ == nullptr) return {storage_, offset};
  const int64_t code = codes_[offset];
  if (code < 0) return {-1, -1 - code};
  return {static_cast<TensorId>(code >> kRootShift), code & ((int64_t{1} << kRootShift) - 1)};
}

std::string ElementOrigins::describe(TensorId tensor, TensorId root) const {
  const TensorId storage = graph_.storage(tensor);
  if (!through_.contains(storage)) return storage == root ? "root" : "other";
  const RearrangeLayer& rearrange = rearrange_of(storage);
  std::string text = fmt::format("rearrange {} fill {}", shape_to_string(rearrange.extents), rearrange.fill);
  for (const RearrangeLayer::Piece& piece : rearrange.pieces) {
    text += fmt::format(" ({} of {} by {} fill {} from {} to {})", describe(piece.input.tensor, root),
                        shape_to_string(graph_.tensors[static_cast<size_t>(piece.input.tensor)].shape),
                        piece.input.map.to_string(), piece.input.fill, fmt::join(piece.begin, ","),
                        fmt::join(piece.end, ","));
  }
  return text;
}

std::set<int> ElementOrigins::rearrange_layers(TensorId tensor) const {
  const TensorId storage = graph_.storage(tensor);
  if (!through_.contains(storage)) return {};
  std::set<int> layers{static_cast<int>(maker(storage))};
  for (const RearrangeLayer::Piece& piece : rearrange_of(storage).pieces)
    layers.merge(rearrange_layers(piece.input.tensor));
  return layers;
}

WantedStream::WantedStream(const StreamPlacement& of, const LayerGraph& graph, const isa::Chip& chip)
    : placement(of),
      elements(stream_elements(of, graph.tensors[static_cast<size_t>(of.access.tensor)].shape, chip)) {}

namespace {

/// `source_of(root)` is a function from the root's elements to the words where they are, or null.
template <typename SourceOf>
std::optional<layout::GatherProblem> gather_from(const WantedStream& wanted, int64_t address,
                                                 const ElementOrigins::OfTensor& origin_of,
                                                 const std::vector<uint32_t>& constants,
                                                 const LayerGraph& graph, const SourceOf& source_of) {
  using layout::GatherSource;
  const StreamPlacement& target = wanted.placement;
  const TensorId tensor = target.access.tensor;
  const std::vector<std::vector<StreamLw>>& elements = wanted.elements;
  layout::GatherProblem problem;
  problem.address = address;
  problem.size_lw = stream_group_lw(target);
  problem.parts = target.transport.parts_per_group();
  problem.words.resize(elements.size());
  // Constants are numbered as this image has them: a gather is the same whatever was looked at before it.
  std::map<uint32_t, int64_t> numbers{{0, 0}};
  const auto constant = [&](uint32_t bits) {
    const auto [found, is_new] = numbers.try_emplace(bits, static_cast<int64_t>(problem.constants.size()));
    if (is_new) problem.constants.push_back(bits);
    return GatherSource::constant(found->second);
  };
  const GatherSource fill =
      constant(word_of(target.access.fill, graph.tensors[static_cast<size_t>(tensor)].type));
  const GatherSource padding = constant(stream_padding_bits(target.layout.padding()));
  // Words come from the same image many times in a row.
  TensorId last_root = -1;
  decltype(source_of(last_root)) source = nullptr;
  for (size_t g = 0; g < elements.size(); ++g) {
    std::vector<GatherSource>& words = problem.words[g];
    words.reserve(2 * elements[g].size());
    for (const StreamLw& lw : elements[g]) {
      for (const int64_t element : lw) {
        if (element < 0) {
          words.push_back(element == kStreamFill ? fill : padding);
          continue;
        }
        const ElementOrigin origin = origin_of[element];
        if (origin.root < 0) {
          words.push_back(constant(constants[static_cast<size_t>(origin.offset)]));
          continue;
        }
        if (origin.root != last_root) {
          source = source_of(origin.root);
          last_root = origin.root;
        }
        if (source == nullptr) {
          words.push_back(constant(0));
          continue;
        }
        const StreamWord place = source->at(origin.offset);
        if (place.group < 0) return std::nullopt;
        words.push_back(GatherSource::dram(place.group, place.word));
      }
    }
  }
  return problem;
}

struct ImageSource {
  const RootImage* image;
  StreamWord at(int64_t offset) const {
    StreamWord place = (*image->places)[static_cast<size_t>(offset)];
    place.word += isa::kWordsPerLong * image->address;
    return place;
  }
};
/// All of a stream's places only where they can't be told one by one.
struct PlacesSource {
  PlacesSource(const StreamPlacement& image, const Shape& shape, const isa::Chip& chip)
      : all(dims_of_axes(image) ? std::vector<StreamWord>() : stream_places(image, shape, chip)) {
    if (all.empty()) some.emplace(image, shape, chip);
  }
  StreamWord at(int64_t offset) const { return some ? (*some)[offset] : all[static_cast<size_t>(offset)]; }
  std::vector<StreamWord> all;
  std::optional<StreamPlaces> some;
};

}  // namespace

std::optional<layout::GatherProblem> gather_problem(const WantedStream& wanted, int64_t address,
                                                    const std::map<TensorId, RootImage>& images,
                                                    ElementOrigins& origins, const LayerGraph& graph) {
  std::map<TensorId, ImageSource> sources;
  for (const auto& [root, image] : images) sources.try_emplace(root, ImageSource{&image});
  return gather_from(wanted, address, origins.all_of(wanted.placement.access.tensor), origins.constants(),
                     graph, [&](TensorId root) -> const ImageSource* {
                       const auto found = sources.find(root);
                       return found != sources.end() ? &found->second : nullptr;
                     });
}

double large_gather_cycles(const StreamPlacement& target, TensorId root, const StreamPlacement& image,
                           ElementOrigins& origins, const LayerGraph& graph, const isa::Chip& chip) {
  const auto words_of = [](const StreamPlacement& placement) {
    return isa::kWordsPerLong * stream_group_lw(placement) * placement.transport.groups_used();
  };
  // A tensor as it is has its elements close together, in runs that a sample would cut short: measured, 1.1
  // to 1.4 times what DRAM passes, the source, the image and tables of half its size.
  if (!image.is_output) {
    const auto dram_cycles = [&](const StreamPlacement& placement) {
      return static_cast<double>(stream_group_lw(placement)) / chip.transfer.dram_lw_per_cycle;
    };
    return 1.25 * (dram_cycles(image) + 1.5 * dram_cycles(target));
  }
  StreamPlacement sample = target;
  const int64_t share = isa::ceil_div(words_of(target), kSampleWords);
  sample.length_lw =
      isa::round_up(isa::ceil_div(target.length_lw, share), std::max<int64_t>(target.transport.granule(), 1));
  sample.length_lw = std::min(sample.length_lw, target.length_lw);
  const WantedStream wanted(sample, graph, chip);
  const PlacesSource source(image, graph.tensors[static_cast<size_t>(image.access.tensor)].shape, chip);
  const auto problem =
      gather_from(wanted, 0, origins.all_of(target.access.tensor), origins.constants(), graph,
                  [&](TensorId of) -> const PlacesSource* { return of == root ? &source : nullptr; });
  if (!problem) return std::numeric_limits<double>::infinity();
  return static_cast<double>(layout::Gather(*problem, chip).estimated_cycles()) *
         static_cast<double>(words_of(target)) / static_cast<double>(words_of(sample));
}

namespace {

/// Whether an image is as large as a stream, in as many groups.
bool has_room(const StreamPlacement& image, const StreamPlacement& target) {
  return stream_group_lw(target) <= stream_group_lw(image) &&
         target.transport.groups_used() <= image.transport.groups_used();
}

}  // namespace

bool may_be_same_image(const StreamPlacement& target, TensorId root, const StreamPlacement& image,
                       ElementOrigins& origins, const LayerGraph& graph) {
  if (!has_room(image, target)) return false;
  const auto dims = dims_of_axes(image);
  const int64_t points = element_count(target.extents);
  if (!dims || points == 0) return true;
  const Shape& shape = graph.tensors[static_cast<size_t>(target.access.tensor)].shape;
  // The image may be of the root under another shape, with as many elements in the same order.
  const Shape& image_shape = graph.tensors[static_cast<size_t>(image.access.tensor)].shape;
  constexpr int64_t kProbes = 24;
  for (int64_t probe = 0; probe < kProbes; ++probe) {
    // All over the iteration space, so that no digit of an index stays as it is.
    constexpr uint64_t kStride = 0x9e3779b97f4a7c15;
    auto rest = static_cast<int64_t>(static_cast<uint64_t>(probe) * kStride % static_cast<uint64_t>(points));
    std::vector<int64_t> point(target.extents.size());
    for (size_t dim = point.size(); dim-- > 0; rest /= target.extents[dim])
      point[dim] = rest % target.extents[dim];
    const std::vector<int64_t> index = target.access.map.apply(point);
    int64_t offset = 0;
    bool is_inside = true;
    for (size_t axis = 0; axis < index.size(); ++axis) {
      is_inside = is_inside && index[axis] >= 0 && index[axis] < shape[axis];
      offset = offset * shape[axis] + index[axis];
    }
    if (!is_inside) continue;
    const ElementOrigin origin = origins.origin(target.access.tensor, offset);
    if (origin.root < 0) continue;
    if (origin.root != root) return false;
    std::vector<int64_t> there(image.extents.size(), 0);
    int64_t left = origin.offset;
    for (size_t axis = image_shape.size(); axis-- > 0; left /= image_shape[axis]) {
      const int64_t at = left % image_shape[axis];
      const size_t dim = (*dims)[axis];
      if (at >= (dim < there.size() ? image.extents[dim] : 1)) return false;
      if (dim < there.size()) there[dim] = at;
    }
    const std::vector<StreamWord> found = words_of_point(image, there);
    for (const StreamWord& word : words_of_point(target, point)) {
      if (std::ranges::find(found, word) == found.end()) return false;
    }
  }
  return true;
}

bool is_same_image(const WantedStream& wanted, TensorId root, const StreamPlacement& image,
                   const std::vector<StreamWord>& places, ElementOrigins& origins, const LayerGraph& graph,
                   const isa::Chip& chip) {
  const StreamPlacement& target = wanted.placement;
  if (!has_room(image, target)) return false;
  const ElementOrigins::OfTensor origin_of = origins.all_of(target.access.tensor);
  // Calls visit(group, word, element) for the words that matter, as long as it returns true.
  const auto all_of = [&](const auto& visit) {
    for (size_t g = 0; g < wanted.elements.size(); ++g) {
      const std::vector<StreamLw>& group = wanted.elements[g];
      for (size_t k = 0; k < 2 * group.size(); ++k) {
        const int64_t element = group[k / 2][k % 2];
        if (element == kStreamPadding && target.layout.padding() == layout::Padding::kUndefined) continue;
        if (!visit(g, k, element)) return false;
      }
    }
    return true;
  };
  // Where an element has one place the first that is elsewhere decides.
  bool is_all_elements = true;
  const bool has_one_place = image.layout.replication().empty() && dims_of_axes(image).has_value();
  const bool may_be = all_of([&](size_t g, size_t k, int64_t element) {
    const ElementOrigin origin = element >= 0 ? origin_of[element] : ElementOrigin{};
    if (origin.root < 0) {
      is_all_elements = false;
      return !image.is_output;
    }
    if (origin.root != root) return false;
    const StreamWord place = places[static_cast<size_t>(origin.offset)];
    return !has_one_place ||
           (place.group == static_cast<int64_t>(g) && place.word == static_cast<int64_t>(k));
  });
  if (!may_be || (has_one_place && is_all_elements)) return may_be;
  const auto there =
      stream_elements(image, graph.tensors[static_cast<size_t>(image.access.tensor)].shape, chip);
  const auto constant = [&](const StreamPlacement& stream, int64_t element) {
    const DataType type = graph.tensors[static_cast<size_t>(stream.access.tensor)].type;
    return element == kStreamFill ? word_of(stream.access.fill, type)
                                  : stream_padding_bits(stream.layout.padding());
  };
  return all_of([&](size_t g, size_t k, int64_t element) {
    const int64_t found = there[g][k / 2][k % 2];
    if (element < 0) return found < 0 && constant(image, found) == constant(target, element);
    const ElementOrigin origin = origin_of[element];
    if (origin.root >= 0) return origin.offset == found;
    return found < 0 && constant(image, found) == origins.constants()[static_cast<size_t>(origin.offset)];
  });
}

int64_t different_elements(const StreamPlacement& stream, const Shape& tensor_shape) {
  const AffineMap& map = stream.access.map;
  int64_t product = 1;  // of axes that have their dims to themselves
  int64_t most = 0;     // of any axis
  for (size_t axis = 0; axis < map.axes(); ++axis) {
    const int64_t size = tensor_shape[axis];
    std::vector<bool> reached{true};  // index - lowest, dim by dim
    int64_t lowest = map.offset(axis);
    bool is_own = true;
    for (size_t dim = 0; dim < stream.extents.size(); ++dim) {
      const int64_t stride = map.coefficient(axis, dim);
      if (stride == 0) continue;
      for (size_t other = 0; other < map.axes(); ++other)
        is_own = is_own && (other == axis || map.coefficient(other, dim) == 0);
      const int64_t reach = std::abs(stride) * (stream.extents[dim] - 1);
      std::vector<bool> next(reached.size() + static_cast<size_t>(std::max<int64_t>(reach, 0)));
      for (int64_t step = 0; step <= reach; step += std::abs(stride)) {
        for (size_t k = 0; k < reached.size(); ++k)
          next[k + static_cast<size_t>(step)] = next[k + static_cast<size_t>(step)] || reached[k];
      }
      if (stride < 0) lowest -= reach;
      reached = std::move(next);
    }
    int64_t inside = 0;
    for (size_t k = 0; k < reached.size(); ++k) {
      const int64_t index = lowest + static_cast<int64_t>(k);
      inside += reached[k] && index >= 0 && index < size ? 1 : 0;
    }
    // Without a dim of its own, an axis that leaves the tensor says nothing of when the others do.
    const bool leaves = lowest < 0 || lowest + static_cast<int64_t>(reached.size()) > size;
    if (inside == 0 || (!is_own && leaves)) return 0;
    most = std::max(most, inside);
    if (is_own) product *= inside;
  }
  return map.axes() == 0 ? 1 : std::max(most, product);
}

StreamPlacement natural_placement(TensorId tensor, const Shape& shape, const isa::Chip& chip) {
  using layout::Level;
  StreamPlacement placement;
  placement.name = "natural";
  placement.access.tensor = tensor;
  placement.access.map = AffineMap::identity(shape.size());
  placement.extents = shape;
  placement.axis_dims.emplace_back(shape.size());
  std::iota(placement.axis_dims[0].begin(), placement.axis_dims[0].end(), 0);
  placement.length_lw = std::max<int64_t>(1, (element_count(shape) + 1) / 2);
  placement.layout = layout::Layout({{{placement.length_lw, Level::kAddress, 1}, {2, Level::kWord, 1}}},
                                    layout::Memory::kLm0);
  placement.transport = layout::Transport(chip, layout::L2bMode::kBroadcast, layout::L1bMode::kBroadcast,
                                          layout::MabMode::kBroadcastPe);
  return placement;
}

}  // namespace kodama::compiler
