#include <algorithm>
#include <cmath>

#include "compiler/driver/random_rows.h"

namespace kodama::compiler {
namespace {

/// Pictures of one to three dimensions: [N, C, ...].
RandomValue picture_for(RandomNodes& nodes, const std::string& op, Wanted wanted = {}) {
  wanted.least_rank = std::max<int64_t>(wanted.least_rank, 3);
  wanted.most_rank = std::min<int64_t>(wanted.most_rank, 5);
  wanted.make_shape = [wanted, most = nodes.sizes().elements / 2](RandomChoices& choices) {
    Shape shape(static_cast<size_t>(choices.number(wanted.least_rank, wanted.most_rank)));
    for (int64_t& each : shape) each = choices.extent(9);
    shape[0] = choices.number(1, 2);
    return choices.fitting(shape, most);
  };
  return nodes.want_for(op, wanted);
}

/// Windows over the axes of a picture.
struct WindowChoice {
  std::vector<int64_t> kernel, strides, dilations, pads;
  std::string auto_pad;
  bool is_plain = false;  ///< all attributes by default

  int64_t taps() const { return product_of(kernel); }
  Attributes attributes(bool with_dilations) const {
    Attributes list = Attributes().set("kernel_shape", kernel);
    if (is_plain) return list;
    list.set("strides", strides);
    if (with_dilations) list.set("dilations", dilations);
    if (auto_pad.empty()) {
      list.set("pads", pads);
    } else {
      list.set("auto_pad", auto_pad);
    }
    return list;
  }
};

WindowChoice window_of(RandomNodes& nodes, const Shape& shape, bool is_pool, bool may_dilate) {
  WindowChoice choice;
  const size_t rank = shape.size() - 2;
  choice.pads.resize(2 * rank);
  const bool is_same = nodes.chance(70);
  const int64_t common = nodes.pick(std::vector<int64_t>{1, 1, 2, 3, 3, 5, 7});
  const int64_t stride = nodes.chance(60) ? 1 : nodes.number(2, 3);
  for (size_t k = 0; k < rank; ++k) {
    const int64_t kernel = is_same ? common : nodes.number(1, 4);
    const int64_t dilation = may_dilate && nodes.chance(15) ? nodes.number(2, 3) : 1;
    choice.kernel.push_back(kernel);
    choice.strides.push_back(is_same ? stride : nodes.number(1, 3));
    choice.dilations.push_back(dilation);
    const int64_t most = is_pool ? kernel / 2 : dilation * (kernel - 1);
    const int64_t usual = dilation * (kernel - 1) / 2;
    choice.pads[k] = nodes.chance(60) ? std::min(usual, most) : nodes.number(0, most);
    choice.pads[k + rank] = nodes.chance(60) ? choice.pads[k] : nodes.number(0, most);
    if (shape[k + 2] + choice.pads[k] + choice.pads[k + rank] < dilation * (kernel - 1) + 1)
      throw RandomNodes::Misfit();
  }
  choice.is_plain = nodes.chance(10);
  if (nodes.chance(8)) choice.auto_pad = nodes.word({"SAME_UPPER", "SAME_LOWER", "VALID"});
  for (size_t k = 0; k < rank; ++k) {
    if ((choice.auto_pad == "VALID" || choice.is_plain) &&
        shape[k + 2] < choice.dilations[k] * (choice.kernel[k] - 1) + 1)
      throw RandomNodes::Misfit();
  }
  return choice;
}

struct Channels {
  int64_t groups = 1;
  int64_t features = 1;  ///< in all
};
Channels channels_of(RandomNodes& nodes, const Shape& shape, int64_t taps) {
  const int64_t channels = shape[1];
  Channels choice;
  if (nodes.chance(20)) {
    choice.groups = channels;
  } else if (nodes.chance(20)) {
    choice.groups = nodes.number(1, channels);
    while (channels % choice.groups != 0) --choice.groups;
  }
  const int64_t wide = nodes.sizes().elements > 1000 ? 65 : 9;
  choice.features = choice.groups * (choice.groups == channels && channels > 1
                                         ? nodes.number(1, 2)
                                         : nodes.extent(std::max<int64_t>(1, wide / choice.groups)));
  const int64_t fan = channels / choice.groups * taps;
  const int64_t positions = product_of(shape) / channels;
  if (choice.features * fan * positions > nodes.sizes().products) choice.features = choice.groups;
  if (choice.features * fan * positions > nodes.sizes().products || choice.features * fan > 20000)
    throw RandomNodes::Misfit();
  return choice;
}

Shape weight_shape(const Shape& picture, const Channels& channels, const std::vector<int64_t>& kernel) {
  Shape shape{channels.features, picture[1] / channels.groups};
  shape.insert(shape.end(), kernel.begin(), kernel.end());
  return shape;
}

void add_conv(RandomNodes& nodes, const std::string& op) {
  const RandomValue x = picture_for(nodes, op, {.low = -1e3, .high = 1e3});
  const WindowChoice window = window_of(nodes, x.shape(), false, true);
  const Channels channels = channels_of(nodes, x.shape(), window.taps());
  const double fan = static_cast<double>(x.shape()[1] / channels.groups * window.taps());
  std::vector<std::string> inputs{x.name, nodes.constant(weight_shape(x.shape(), channels, window.kernel),
                                                         1.7 / std::sqrt(fan), std::nullopt, x.type())};
  if (nodes.chance(60)) inputs.push_back(nodes.constant({channels.features}, 1, std::nullopt, x.type()));
  Attributes attributes = window.attributes(true);
  if (channels.groups > 1 || nodes.chance(50)) attributes.set("group", channels.groups);
  nodes.add(op, inputs, attributes);
}

void add_conv_transpose(RandomNodes& nodes, const std::string& op) {
  const RandomValue x = picture_for(nodes, op, {.low = -1e3, .high = 1e3});
  WindowChoice window = window_of(nodes, x.shape(), false, true);
  const Channels channels = channels_of(nodes, x.shape(), window.taps());
  const size_t rank = window.kernel.size();
  for (size_t k = 0; k < rank && window.auto_pad.empty() && !window.is_plain; ++k) {
    const int64_t size = (x.shape()[k + 2] - 1) * window.strides[k] +
                         window.dilations[k] * (window.kernel[k] - 1) + 1 - window.pads[k] -
                         window.pads[k + rank];
    if (size < 1 || size > 200) throw RandomNodes::Misfit();
  }
  Shape shape{x.shape()[1], channels.features / channels.groups};
  shape.insert(shape.end(), window.kernel.begin(), window.kernel.end());
  const double fan = static_cast<double>(x.shape()[1] / channels.groups * window.taps());
  std::vector<std::string> inputs{x.name,
                                  nodes.constant(shape, 1.7 / std::sqrt(fan), std::nullopt, x.type())};
  if (nodes.chance(50)) inputs.push_back(nodes.constant({channels.features}, 1, std::nullopt, x.type()));
  Attributes attributes = window.attributes(true);
  attributes.set("group", channels.groups);
  if (nodes.chance(25) && !window.is_plain) {
    std::vector<int64_t> more;
    for (size_t k = 0; k < rank; ++k)
      more.push_back(nodes.number(0, std::max(window.strides[k], window.dilations[k]) - 1));
    attributes.set("output_padding", more);
  }
  nodes.add(op, inputs, attributes);
}

/// Both are int8 or uint8.
void add_conv_integer(RandomNodes& nodes, const std::string& op) {
  const RandomValue x = picture_for(nodes, op);
  const WindowChoice window = window_of(nodes, x.shape(), false, true);
  const Channels channels = channels_of(nodes, x.shape(), window.taps());
  const DataType type = nodes.chance(50) ? DataType::kInt8 : DataType::kUint8;
  const Tensor weights =
      nodes.random_tensor(type, weight_shape(x.shape(), channels, window.kernel), -128, 255);
  std::vector<std::string> inputs{x.name, nodes.add_constant(weights)};
  if (nodes.chance(60)) inputs.push_back(nodes.scalar(static_cast<double>(nodes.number(0, 9)), x.type()));
  if (inputs.size() == 3 && nodes.chance(60)) {
    inputs.push_back(nodes.scalar(static_cast<double>(nodes.number(0, 9)), type));
  }
  nodes.add(op, inputs, window.attributes(true).set("group", channels.groups));
}

void add_qlinear_conv(RandomNodes& nodes, const std::string& op) {
  const RandomValue x = picture_for(nodes, op);
  const WindowChoice window = window_of(nodes, x.shape(), false, true);
  const Channels channels = channels_of(nodes, x.shape(), window.taps());
  const DataType type = nodes.chance(50) ? DataType::kInt8 : DataType::kUint8;
  const DataType result = nodes.chance(50) ? DataType::kInt8 : DataType::kUint8;
  const Tensor weights =
      nodes.random_tensor(type, weight_shape(x.shape(), channels, window.kernel), -128, 255);
  // Powers of two, so that no product of scales rounds.
  const auto scale = [&](int64_t low, int64_t high) {
    return nodes.scalar(std::ldexp(1, static_cast<int>(nodes.number(low, high))));
  };
  std::vector<std::string> inputs{x.name,
                                  scale(-3, 0),
                                  nodes.scalar(static_cast<double>(nodes.number(0, 9)), x.type()),
                                  nodes.add_constant(weights),
                                  scale(-3, 0),
                                  nodes.scalar(static_cast<double>(nodes.number(0, 9)), type),
                                  scale(-2, 2),
                                  nodes.scalar(static_cast<double>(nodes.number(0, 9)), result)};
  if (nodes.chance(50))
    inputs.push_back(nodes.add_constant(nodes.random_tensor(DataType::kInt32, {channels.features}, -50, 50)));
  nodes.add(op, inputs, window.attributes(true).set("group", channels.groups));
}

/// ceil_mode where no window has nothing of the picture.
bool may_round_up(RandomNodes& nodes, const WindowChoice& window) {
  bool is_ceil = nodes.chance(20) && window.auto_pad.empty() && !window.is_plain;
  for (size_t k = 0; k < window.kernel.size(); ++k)
    is_ceil &= window.pads[k + window.kernel.size()] + window.strides[k] <= window.kernel[k];
  return is_ceil;
}

void add_average_pool(RandomNodes& nodes, const std::string& op) {
  const RandomValue x = picture_for(nodes, op);
  const WindowChoice window = window_of(nodes, x.shape(), true, false);
  Attributes attributes = window.attributes(false);
  if (may_round_up(nodes, window)) attributes.set("ceil_mode", 1);
  if (nodes.chance(40)) attributes.set("count_include_pad", 1);
  nodes.add(op, {x.name}, attributes);
}

void add_max_pool(RandomNodes& nodes, const std::string& op) {
  const RandomValue x = picture_for(nodes, op);
  const WindowChoice window = window_of(nodes, x.shape(), true, true);
  Attributes attributes = window.attributes(true);
  if (may_round_up(nodes, window)) attributes.set("ceil_mode", 1);
  if (nodes.chance(20)) attributes.set("storage_order", 1);
  nodes.add(op, {x.name}, attributes);
}

void add_lp_pool(RandomNodes& nodes, const std::string& op) {
  const RandomValue x = picture_for(nodes, op, {.low = -1e2, .high = 1e2});
  const WindowChoice window = window_of(nodes, x.shape(), true, false);
  nodes.add(op, {x.name}, window.attributes(false).set("p", nodes.number(1, 3)));
}

void add_global_pool(RandomNodes& nodes, const std::string& op) {
  nodes.add(op, {picture_for(nodes, op).name});
}
void add_global_lp_pool(RandomNodes& nodes, const std::string& op) {
  const RandomValue x = picture_for(nodes, op, {.low = -1e2, .high = 1e2});
  nodes.add(op, {x.name}, Attributes().set("p", nodes.number(1, 3)));
}

/// The places that MaxPool has taken numbers from.
void add_max_unpool(RandomNodes& nodes, const std::string& op) {
  const RandomValue x = picture_for(nodes, op,
                                    {.fits =
                                         [](const Shape& shape) {
                                           return std::all_of(shape.begin() + 2, shape.end(),
                                                              [](int64_t size) { return size % 2 == 0; });
                                         },
                                     .make_shape = {}});
  if (std::any_of(x.shape().begin() + 2, x.shape().end(), [](int64_t size) { return size % 2 != 0; }))
    throw RandomNodes::Misfit();
  const std::vector<int64_t> two(x.shape().size() - 2, 2);
  const Attributes attributes = Attributes().set("kernel_shape", two).set("strides", two);
  const std::vector<std::string> pooled = nodes.steps("MaxPool", {x.name}, 2, attributes);
  std::vector<std::string> inputs{pooled[0], pooled[1]};
  if (nodes.chance(40)) inputs.push_back(nodes.integers(x.shape()));
  nodes.add(op, inputs, attributes);
}

void add_lrn(RandomNodes& nodes, const std::string& op) {
  const RandomValue x = picture_for(nodes, op, {.low = -1e2, .high = 1e2});
  Attributes attributes = Attributes().set("size", nodes.number(1, 5));
  if (nodes.chance(60)) attributes.set("alpha", nodes.real(0.01, 0.5));
  if (nodes.chance(40)) attributes.set("beta", nodes.real(0.3, 1)).set("bias", nodes.real(0.5, 2));
  nodes.add(op, {x.name}, attributes);
}

/// Rectangles [x1, y1, x2, y2] in a picture of the size.
Tensor rectangles(RandomNodes& nodes, DataType type, int64_t count, int64_t height, int64_t width,
                  bool with_batch, int64_t batches) {
  const int64_t columns = with_batch ? 5 : 4;
  std::vector<double> numbers;
  for (int64_t k = 0; k < count; ++k) {
    if (with_batch) numbers.push_back(static_cast<double>(nodes.number(0, batches - 1)));
    const double x = nodes.real(0, static_cast<double>(width) - 1),
                 y = nodes.real(0, static_cast<double>(height) - 1);
    const double right = nodes.real(x, static_cast<double>(width)),
                 below = nodes.real(y, static_cast<double>(height));
    for (const double each : {x, y, right, below}) numbers.push_back(with_batch ? std::floor(each) : each);
  }
  Tensor floats(DataType::kFloat32, {count, columns});
  for (size_t k = 0; k < numbers.size(); ++k) floats.data<float>()[k] = static_cast<float>(numbers[k]);
  if (type == DataType::kFloat32) return floats;
  Tensor tensor(type, floats.shape());
  for (size_t k = 0; k < numbers.size(); ++k) {
    if (type == DataType::kFloat64)
      tensor.data<double>()[k] = static_cast<double>(floats.data<float>()[k]);
    else
      tensor.data<uint16_t>()[k] = float_to_half(floats.data<float>()[k]);
  }
  return tensor;
}

void add_max_roi_pool(RandomNodes& nodes, const std::string& op) {
  const RandomValue x = picture_for(nodes, op, {.least_rank = 4, .most_rank = 4});
  const Tensor rois =
      rectangles(nodes, x.type(), nodes.number(1, 3), x.shape()[2], x.shape()[3], true, x.shape()[0]);
  nodes.add(op, {x.name, nodes.add_constant(rois)},
            Attributes().set("pooled_shape", std::vector<int64_t>{nodes.number(1, 3), nodes.number(1, 3)}));
}

void add_roi_align(RandomNodes& nodes, const std::string& op) {
  const RandomValue x = picture_for(nodes, op, {.least_rank = 4, .most_rank = 4});
  const int64_t count = nodes.number(1, 4);
  const Tensor rois = rectangles(nodes, x.type(), count, x.shape()[2], x.shape()[3], false, 0);
  const std::string where =
      nodes.inputs() < 4 && nodes.chance(50) ? nodes.add_input(rois).name : nodes.add_constant(rois);
  Attributes attributes =
      Attributes().set("output_height", nodes.number(1, 3)).set("output_width", nodes.number(1, 3));
  attributes.set("sampling_ratio", nodes.number(0, 2));
  if (nodes.chance(50)) attributes.set("mode", nodes.word({"avg", "max"}));
  if (nodes.chance(50))
    attributes.set("coordinate_transformation_mode", nodes.word({"half_pixel", "output_half_pixel"}));
  nodes.add(op, {x.name, where, nodes.indices({count}, 0, x.shape()[0], true).name}, attributes);
}

void add_grid_sample(RandomNodes& nodes, const std::string& op) {
  Wanted wanted{
      .types = RandomNodes::only_floats(RandomNodes::types(op, 0)), .least_rank = 4, .most_rank = 4};
  const RandomValue x = picture_for(nodes, op, wanted);
  const Shape shape{x.shape()[0], nodes.number(1, 4), nodes.number(1, 4), 2};
  const RandomValue grid = nodes.want({.types = {x.type()}, .low = -1.3, .high = 1.3, .shape = shape});
  nodes.add(op, {x.name, grid.name},
            Attributes()
                .set("mode", nodes.word({"bilinear", "nearest", "bicubic"}))
                .set("padding_mode", nodes.word({"zeros", "border", "reflection"}))
                .set("align_corners", nodes.number(0, 1)));
}

}  // namespace

std::vector<RandomRow> window_rows() {
  const auto exact = RowErrors::kNone;
  const auto sums = RowErrors::kSums;
  const auto products = RowErrors::kProducts;
  return {
      {"AveragePool", add_average_pool, sums},
      {"Conv", add_conv, products},
      {"ConvInteger", add_conv_integer, exact},
      {"ConvTranspose", add_conv_transpose, products},
      {"GlobalAveragePool", add_global_pool, sums},
      {"GlobalLpPool", add_global_lp_pool, sums},
      {"GlobalMaxPool", add_global_pool, exact},
      {"GridSample", add_grid_sample, RowErrors::kWeights, true},
      {"LRN", add_lrn, sums},
      {"LpPool", add_lp_pool, sums},
      {"MaxPool", add_max_pool, exact, true, false, false, 1},
      {"MaxRoiPool", add_max_roi_pool, exact, true},
      {"MaxUnpool", add_max_unpool, exact},
      {"QLinearConv", add_qlinear_conv, exact},
      {"RoiAlign", add_roi_align, RowErrors::kWeights, true},
  };
}

}  // namespace kodama::compiler
