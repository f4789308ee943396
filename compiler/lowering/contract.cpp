#include <algorithm>

#include "compiler/lowering/convolution.h"
#include "compiler/lowering/fold.h"

/// Sums of products: matrix products and convolutions as one Contract each.
namespace kodama::compiler {

namespace {

using Role = ContractLayer::Role;

/// Collects dims, then reads them by number.
class DimList {
 public:
  size_t add(std::string name, int64_t extent, Role role) {
    dims_.push_back({std::move(name), extent, role});
    return dims_.size() - 1;
  }
  size_t size() const { return dims_.size(); }
  std::vector<ContractLayer::Dim> take() { return std::move(dims_); }

 private:
  std::vector<ContractLayer::Dim> dims_;
};

/// Kernel positions at the ends of an axis that read nothing but padding, wherever they are, are left out: of
/// kernels that are dilated further than a small picture is wide, all but the middle.
Convolution without_idle_taps(NodeLowering& lowering, const Convolution& convolution) {
  const Shape& x = lowering.tensor(convolution.x).shape;
  const Shape& y = lowering.tensor(convolution.target).shape;
  Shape w = lowering.tensor(convolution.w).shape;
  Convolution result = convolution;
  AffineMap kept = AffineMap::identity(w.size());
  for (size_t axis = 0; axis < result.window.kernel.size(); ++axis) {
    const int64_t dilation = result.window.dilation[axis];
    const int64_t reach = (y[2 + axis] - 1) * result.window.stride[axis];
    // A tap reads [start, start + reach], in steps of the stride.
    const auto is_idle = [&](int64_t tap) {
      const int64_t start = tap * dilation - result.window.pad_begin[axis];
      return start + reach < 0 || start >= x[2 + axis];
    };
    int64_t first = 0;
    int64_t last = w[2 + axis] - 1;
    while (first < last && is_idle(first)) ++first;
    while (last > first && is_idle(last)) --last;
    kept.set_offset(2 + axis, first);
    w[2 + axis] = result.window.kernel[axis] = last - first + 1;
    result.window.pad_begin[axis] -= first * dilation;
  }
  if (w != lowering.tensor(convolution.w).shape)
    result.w = rearranged(lowering, "taps", convolution.w, std::move(kept), w, w);
  return result;
}

/// A kernel's position, and the places of the output, [begin, end), where it reads the picture.
struct Tap {
  std::vector<int64_t> position, begin, end;
};
std::vector<Tap> taps_of(const Convolution& convolution, const Shape& x, const Shape& y) {
  const Window& window = convolution.window;
  std::vector<Tap> taps = {{}};
  for (size_t axis = 0; axis < window.kernel.size(); ++axis) {
    std::vector<Tap> longer;
    for (const Tap& tap : taps) {
      for (int64_t k = 0; k < window.kernel[axis]; ++k) {
        // Places o with 0 <= o * stride + start < extent.
        const int64_t start = k * window.dilation[axis] - window.pad_begin[axis];
        const int64_t stride = window.stride[axis];
        const auto first_from = [&](int64_t place) { return place <= 0 ? 0 : (place + stride - 1) / stride; };
        Tap next = tap;
        next.position.push_back(k);
        next.begin.push_back(std::min(first_from(-start), y[2 + axis]));
        next.end.push_back(std::min(first_from(x[2 + axis] - start), y[2 + axis]));
        if (next.begin.back() < next.end.back()) longer.push_back(std::move(next));
      }
    }
    taps = std::move(longer);
  }
  return taps;
}

/// A kernel that reads little but padding, as one that is dilated almost as far as the picture is wide: each
/// of its positions is a convolution of its own, for the places where it reads the picture; a Map adds them
/// up. False if the kernel isn't such.
bool add_sparse_convolution(NodeLowering& lowering, const std::string& suffix,
                            const Convolution& convolution) {
  const Shape& x = lowering.tensor(convolution.x).shape;
  const Shape y = lowering.tensor(convolution.target).shape;
  const Window& window = convolution.window;
  constexpr int64_t kMostTaps = 9;
  constexpr double kLittle = 0.3;
  const int64_t all_taps = element_count(window.kernel);
  if (all_taps == 1 || all_taps > kMostTaps || convolution.scale >= 0 ||
      is_double(lowering.tensor(convolution.x).type))
    return false;
  const std::vector<Tap> taps = taps_of(convolution, x, y);
  double read = 0;
  for (const Tap& tap : taps) {
    double places = 1;
    for (size_t axis = 0; axis < tap.begin.size(); ++axis)
      places *= static_cast<double>(tap.end[axis] - tap.begin[axis]);
    read += places;
  }
  const double places = static_cast<double>(element_count({y.begin() + 2, y.end()}));
  if (taps.empty() || read > kLittle * places * static_cast<double>(all_taps)) return false;

  const size_t rank = y.size();
  const std::string prefix = suffix.empty() ? "" : suffix + "_";
  MapLayer sum{y, {}, {}};
  Formula formula;
  std::optional<Term> result;
  const auto add = [&](TensorId tensor, AffineMap map) {
    sum.inputs.push_back({tensor, std::move(map), 0});
    const Term term = formula.x(static_cast<int>(sum.inputs.size()) - 1);
    result = result ? *result + term : term;
  };
  for (size_t k = 0; k < taps.size(); ++k) {
    const std::string name = fmt::format("{}tap{}", prefix, k);
    Convolution part = convolution;
    part.bias = -1;
    Shape part_w = lowering.tensor(convolution.w).shape;
    Shape part_y = y;
    AffineMap w_map = AffineMap::identity(rank);
    AffineMap place = AffineMap::identity(rank);
    for (size_t axis = 0; axis < window.kernel.size(); ++axis) {
      w_map.set_offset(2 + axis, taps[k].position[axis]);
      place.set_offset(2 + axis, -taps[k].begin[axis]);
      part_w[2 + axis] = part.window.kernel[axis] = part.window.dilation[axis] = 1;
      part_y[2 + axis] = taps[k].end[axis] - taps[k].begin[axis];
      part.window.pad_begin[axis] = window.pad_begin[axis] - taps[k].position[axis] * window.dilation[axis] -
                                    taps[k].begin[axis] * window.stride[axis];
    }
    part.w = rearranged(lowering, name + "_weights", convolution.w, std::move(w_map), part_w, part_w);
    part.target = lowering.add_tensor(name, DataType::kFloat32, part_y);
    add_convolution(lowering, name, part);
    add(part.target, std::move(place));
  }
  if (convolution.bias >= 0) add(convolution.bias, AffineMap(1, rank).set(0, 1, 1));
  sum.expr = formula.result(*result);
  lowering.add_layer(suffix, std::move(sum), convolution.target);
  return true;
}

}  // namespace

void add_convolution(NodeLowering& lowering, const std::string& suffix, const Convolution& given) {
  const Convolution convolution = without_idle_taps(lowering, given);
  if (add_sparse_convolution(lowering, suffix, convolution)) return;
  const Shape x = lowering.tensor(convolution.x).shape;
  const Shape w = lowering.tensor(convolution.w).shape;
  const Shape y = lowering.tensor(convolution.target).shape;
  const int64_t groups = convolution.groups;
  const Window& window = convolution.window;
  const size_t spatial = x.size() - 2;

  static const char* const kAxisNames[] = {"d", "h", "w"};
  const auto axis_name = [&](const char* prefix, size_t axis) {
    return spatial <= 3 ? std::string(prefix) + kAxisNames[3 - spatial + axis]
                        : fmt::format("{}{}", prefix, axis);
  };
  const int64_t group_channels = w[0] / groups;
  DimList dims;
  const size_t g = groups > 1 ? dims.add("g", groups, Role::kBatch) : 0;
  const size_t oc = dims.add("oc", group_channels, Role::kM);
  const size_t b = dims.add("b", x[0], Role::kN);
  const size_t o = dims.size();
  for (size_t axis = 0; axis < spatial; ++axis) dims.add(axis_name("o", axis), y[2 + axis], Role::kN);
  const size_t ic = dims.add("ic", w[1], Role::kK);
  const size_t k = dims.size();
  for (size_t axis = 0; axis < spatial; ++axis) dims.add(axis_name("k", axis), window.kernel[axis], Role::kK);

  AffineMap w_map(w.size(), dims.size());
  AffineMap x_map(x.size(), dims.size());
  AffineMap y_map(y.size(), dims.size());
  if (groups > 1) {
    w_map.set(0, g, group_channels);
    x_map.set(1, g, w[1]);
    y_map.set(1, g, group_channels);
  }
  w_map.set(0, oc, 1).set(1, ic, 1);
  x_map.set(0, b, 1).set(1, ic, 1);
  y_map.set(0, b, 1).set(1, oc, 1);
  for (size_t axis = 0; axis < spatial; ++axis) {
    w_map.set(2 + axis, k + axis, 1);
    window.read(x_map, 2 + axis, axis, o + axis, k + axis);
    y_map.set(2 + axis, o + axis, 1);
  }

  ContractLayer contract;
  contract.a = {convolution.w, w_map, 0};
  contract.b = {convolution.x, x_map, 0};
  contract.output = y_map;
  contract.output_shape = y;
  if (is_double(lowering.tensor(convolution.x).type)) {
    contract.dims = dims.take();
    const TensorId sums = add_products(lowering, suffix, contract).value();
    MapBuilder map(lowering, y);
    Term result = map.operand(sums);
    if (convolution.bias >= 0)
      result = result + map.operand_at(convolution.bias, AffineMap(1, y.size()).set(0, 1, 1));
    map.finish(suffix, result, convolution.target);
    return;
  }
  Formula epilogue;
  Term result = epilogue.x(0);
  const auto read = [&](TensorId tensor, AffineMap map) {
    contract.epilogue_inputs.push_back({tensor, std::move(map), 0});
    return epilogue.x(static_cast<int>(contract.epilogue_inputs.size()));
  };
  if (convolution.scale >= 0) {
    AffineMap scale_map(1 + spatial, dims.size());
    scale_map.set(0, oc, 1);
    for (size_t axis = 0; axis < spatial; ++axis) scale_map.set(1 + axis, o + axis, 1);
    result = result * read(convolution.scale, std::move(scale_map));
  }
  if (convolution.bias >= 0) {
    AffineMap bias_map(1, dims.size());
    if (groups > 1) bias_map.set(0, g, group_channels);
    bias_map.set(0, oc, 1);
    result = result + read(convolution.bias, std::move(bias_map));
  }
  contract.epilogue = epilogue.result(result);
  contract.dims = dims.take();
  lowering.add_layer(suffix, std::move(contract), convolution.target);
}

ContractLayer matmul_of(const NodeLowering& lowering, TensorId first, TensorId second, const Shape& y) {
  const Shape a = lowering.tensor(first).shape;
  const Shape b = lowering.tensor(second).shape;
  lowering.require(!a.empty() && !b.empty(), "a scalar operand: A is {}, B is {}", shape_to_string(a),
                   shape_to_string(b));
  // A vector has no M (no N), and no batch.
  const bool has_m = a.size() > 1;
  const bool has_n = b.size() > 1;
  const size_t a_batch = has_m ? a.size() - 2 : 0;
  const size_t b_batch = has_n ? b.size() - 2 : 0;
  const size_t batch = y.size() - has_m - has_n;
  DimList dims;
  for (size_t axis = 0; axis < batch; ++axis) {
    const bool in_a = axis + a_batch >= batch && a[axis + a_batch - batch] != 1;
    const bool in_b = axis + b_batch >= batch && b[axis + b_batch - batch] != 1;
    dims.add(fmt::format("b{}", axis), y[axis], in_a == in_b ? Role::kBatch : in_a ? Role::kM : Role::kN);
  }
  const size_t m = has_m ? dims.add("m", a[a.size() - 2], Role::kM) : 0;
  const size_t n = has_n ? dims.add("n", b.back(), Role::kN) : 0;
  const size_t k = dims.add("k", a.back(), Role::kK);

  AffineMap a_map(a.size(), dims.size());
  AffineMap b_map(b.size(), dims.size());
  AffineMap y_map(y.size(), dims.size());
  for (size_t axis = 0; axis < batch; ++axis) {
    y_map.set(axis, axis, 1);
    if (axis + a_batch >= batch && a[axis + a_batch - batch] != 1) a_map.set(axis + a_batch - batch, axis, 1);
    if (axis + b_batch >= batch && b[axis + b_batch - batch] != 1) b_map.set(axis + b_batch - batch, axis, 1);
  }
  a_map.set(a.size() - 1, k, 1);
  b_map.set(has_n ? b.size() - 2 : 0, k, 1);
  if (has_m) {
    a_map.set(a.size() - 2, m, 1);
    y_map.set(batch, m, 1);
  }
  if (has_n) {
    b_map.set(b.size() - 1, n, 1);
    y_map.set(y.size() - 1, n, 1);
  }
  ContractLayer contract;
  contract.a = {first, a_map, 0};
  contract.b = {second, b_map, 0};
  contract.output = y_map;
  contract.output_shape = y;
  contract.epilogue = ScalarExpr::identity();
  contract.dims = dims.take();
  return contract;
}

void add_matmul(NodeLowering& lowering, const std::string& suffix, TensorId first, TensorId second,
                TensorId target) {
  lowering.add_layer(suffix, matmul_of(lowering, first, second, lowering.tensor(target).shape), target);
}

TensorId rearranged(NodeLowering& lowering, const std::string& suffix, TensorId source, AffineMap map,
                    const Shape& extents, const Shape& box) {
  RearrangeLayer rearrange;
  rearrange.extents = extents;
  rearrange.pieces = {{{source, std::move(map), 0}, std::vector<int64_t>(extents.size(), 0), box}};
  const LayerTensor& tensor = lowering.tensor(source);
  if (tensor.constant)
    return lowering.add_constant(suffix, run_rearrange(rearrange, tensor.type, {&*tensor.constant}));
  const TensorId result = lowering.add_tensor(suffix, tensor.type, extents);
  lowering.add_layer(suffix, std::move(rearrange), result);
  return result;
}

void weave_residues(NodeLowering& lowering, TensorId residues, const Shape& strides) {
  const Shape result = lowering.tensor(residues).shape;
  const Shape& y = lowering.output_shape();
  const size_t spatial = strides.size();
  // [N, M, residues..., q...] to [N, M, (q, residue)...], less what the last block has too much.
  Shape split = {y[0], y[1]};
  Shape interleaved = split;
  Shape joined = split;
  AffineMap map(2 + 2 * spatial, 2 + 2 * spatial);
  map.set(0, 0, 1).set(1, 1, 1);
  split.insert(split.end(), strides.begin(), strides.end());
  split.insert(split.end(), result.begin() + 2, result.end());
  for (size_t axis = 0; axis < spatial; ++axis) {
    map.set(2 + spatial + axis, 2 + 2 * axis, 1).set(2 + axis, 3 + 2 * axis, 1);
    interleaved.insert(interleaved.end(), {result[2 + axis], strides[axis]});
    joined.push_back(result[2 + axis] * strides[axis]);
  }
  const TensorId parts = lowering.add_alias("split", residues, split);
  const TensorId woven = rearranged(lowering, "interleaved", parts, map, interleaved, interleaved);
  if (joined == y) {
    lowering.bind_output(woven);
    return;
  }
  const TensorId whole = lowering.add_alias("whole", woven, joined);
  RearrangeLayer slice;
  slice.extents = y;
  slice.pieces = {{{whole, AffineMap::identity(y.size()), 0}, std::vector<int64_t>(y.size(), 0), y}};
  lowering.add_layer("slice", std::move(slice), lowering.output());
}

namespace {

/// The bias of a convolution, input 2, as a tensor; -1 without one.
TensorId bias_of(NodeLowering& lowering, int64_t channels) {
  if (!lowering.has_input(2)) return -1;
  lowering.require(lowering.input_shape(2) == Shape{channels}, "B is {}; [{}] is needed",
                   shape_to_string(lowering.input_shape(2)), channels);
  return lowering.input(2);
}

/// Attribute kernel_shape, if it is there, must say what W has.
void check_kernel_shape(const NodeLowering& lowering, const Shape& kernel) {
  const auto stated = lowering.ints_attribute("kernel_shape");
  if (!stated) return;
  lowering.require(*stated == kernel, "kernel_shape is {}, but W is {}", shape_to_string(*stated),
                   shape_to_string(lowering.input_shape(1)));
}

HostReason lower_conv(NodeLowering& lowering) {
  const Shape& x = lowering.input_shape(0);
  const Shape& w = lowering.input_shape(1);
  const Shape& y = lowering.output_shape();
  lowering.require(x.size() >= 3 && w.size() == x.size() && y.size() == x.size(),
                   "X is {} and W is {}; both need the same rank, at least 3", shape_to_string(x),
                   shape_to_string(w));
  Convolution convolution;
  convolution.groups = lowering.int_attribute("group");
  const int64_t groups = convolution.groups;
  lowering.require(groups >= 1 && w[0] % groups == 0 && x[1] == w[1] * groups,
                   "X is {} and W is {} with group {}; X needs {} channels, W a multiple of {} on axis 0",
                   shape_to_string(x), shape_to_string(w), groups, w[1] * groups, groups);
  const Shape kernel(w.begin() + 2, w.end());
  check_kernel_shape(lowering, kernel);
  convolution.window =
      window_of(lowering, kernel, Shape(x.begin() + 2, x.end()), Shape(y.begin() + 2, y.end()));
  convolution.x = lowering.input(0);
  convolution.w = lowering.input(1);
  convolution.bias = bias_of(lowering, w[0]);
  convolution.target = lowering.output();
  add_convolution(lowering, "", convolution);
  return kLowered;
}

/// How much of the full result of a transposed convolution is cut off before an axis' first position.
std::vector<int64_t> cut_before(const NodeLowering& lowering, const Window& window,
                                const Shape& spatial_input, const Shape& spatial_output) {
  const size_t rank = window.kernel.size();
  const std::string auto_pad = lowering.string_attribute("auto_pad");
  const auto shape = lowering.ints_attribute("output_shape");
  const bool automatic = auto_pad == "SAME_UPPER" || auto_pad == "SAME_LOWER";
  if (!automatic && (!shape || shape->empty())) return window.pad_begin;
  const auto extra = lowering.ints_attribute("output_padding").value_or(std::vector<int64_t>(rank, 0));
  std::vector<int64_t> cut;
  for (size_t axis = 0; axis < rank; ++axis) {
    const int64_t full = (spatial_input[axis] - 1) * window.stride[axis] +
                         (window.kernel[axis] - 1) * window.dilation[axis] + 1 + extra[axis];
    const int64_t total = std::max<int64_t>(full - spatial_output[axis], 0);
    cut.push_back(auto_pad == "SAME_UPPER" ? total / 2 : total - total / 2);
  }
  return cut;
}

/// A transposed convolution with stride s is, for every residue r of the output position modulo s, a
/// convolution with those elements of the kernel that meet it: position q s + r gets
/// X[q + m] * W[r + cut - s m] for all m. All residues become the output channels of one convolution, whose
/// result is then interleaved.
HostReason lower_conv_transpose(NodeLowering& lowering) {
  const Shape& x = lowering.input_shape(0);
  const Shape& y = lowering.output_shape();
  lowering.require(x.size() >= 3 && lowering.input_shape(1).size() == x.size() && y.size() == x.size(),
                   "X is {} and W is {}; both need the same rank, at least 3", shape_to_string(x),
                   shape_to_string(lowering.input_shape(1)));
  const size_t rank = x.size();
  const size_t spatial = rank - 2;
  const int64_t groups = lowering.int_attribute("group");
  lowering.require(groups >= 1 && x[1] % groups == 0 && lowering.input_shape(1)[0] == x[1],
                   "X is {} and W is {} with group {}; W needs {} on axis 0, a multiple of group",
                   shape_to_string(x), shape_to_string(lowering.input_shape(1)), groups, x[1]);
  TensorId w_id = lowering.input(1);
  Shape w = lowering.tensor(w_id).shape;
  check_kernel_shape(lowering, Shape(w.begin() + 2, w.end()));
  const Shape spatial_input(x.begin() + 2, x.end());
  const Shape spatial_output(y.begin() + 2, y.end());
  Window window = window_of(lowering, Shape(w.begin() + 2, w.end()), spatial_input, spatial_output);
  const std::vector<int64_t> cut = cut_before(lowering, window, spatial_input, spatial_output);

  // What the convolution's weights have, zeros included.
  constexpr double kMostWeights = 0x1p24;
  double weights_count = static_cast<double>(element_count(w));
  for (size_t axis = 0; axis < spatial; ++axis) {
    const auto stride = static_cast<double>(window.stride[axis]);
    const auto dilation = static_cast<double>(window.stride[axis] > 1 ? window.dilation[axis] : 1);
    weights_count *= dilation + 2 * stride / static_cast<double>(w[2 + axis]);
  }
  if (weights_count > std::max(kMostWeights, 8 * static_cast<double>(element_count(w))))
    return "strides or dilations make too many weights of it";

  // With strides, kernels with holes become ones that have zeros there.
  bool has_holes = false;
  Shape holed = {w[0], w[1]};
  Shape box = holed;
  AffineMap hole_map(rank, 2 * rank - 2);
  hole_map.set(0, 0, 1).set(1, 1, 1);
  for (size_t axis = 0; axis < spatial; ++axis) {
    const int64_t hole = window.stride[axis] > 1 ? window.dilation[axis] : 1;
    has_holes = has_holes || hole > 1;
    hole_map.set(2 + axis, holed.size(), 1);
    holed.insert(holed.end(), {w[2 + axis], hole});
    box.insert(box.end(), {w[2 + axis], 1});
    w[2 + axis] *= hole;
    if (hole > 1) window.dilation[axis] = 1;
  }
  if (has_holes)
    w_id = lowering.add_alias("holed", rearranged(lowering, "holes", w_id, hole_map, holed, box), w);

  // The convolution's weights [groups, oc, residues..., ic, taps...] and the extents of its result.
  const int64_t in_channels = x[1] / groups;
  Shape extents = {groups, w[1]};
  int64_t residues = 1;
  for (size_t axis = 0; axis < spatial; ++axis) {
    extents.push_back(window.stride[axis]);
    residues *= window.stride[axis];
  }
  extents.push_back(in_channels);
  AffineMap w_map(rank, 3 + 2 * spatial);
  w_map.set(0, 0, in_channels).set(0, 2 + spatial, 1).set(1, 1, 1);
  Convolution convolution;
  Shape weights = {groups * w[1] * residues, in_channels};
  Shape result = {x[0], weights[0]};
  for (size_t axis = 0; axis < spatial; ++axis) {
    const int64_t stride = window.stride[axis];
    const int64_t dilation = window.dilation[axis];  // 1 unless the stride is
    const int64_t kernel = w[2 + axis];
    const auto floor_div = [](int64_t a, int64_t b) { return a >= 0 ? a / b : -((-a + b - 1) / b); };
    int64_t first = floor_div(stride - 1 + cut[axis], stride);  // taps m, from the largest down
    int64_t last = -floor_div((kernel - 1) * dilation - cut[axis], stride);
    std::swap(first, last);
    const int64_t taps = dilation > 1 ? kernel : std::max<int64_t>(last - first + 1, 1);
    extents.push_back(taps);
    weights.push_back(taps);
    w_map.set(2 + axis, 3 + spatial + axis, dilation > 1 ? -1 : -stride)
        .set(2 + axis, 2 + axis, 1)
        .set_offset(2 + axis, dilation > 1 ? kernel - 1 : cut[axis] - stride * first);
    convolution.window.kernel.push_back(taps);
    convolution.window.stride.push_back(1);
    convolution.window.dilation.push_back(dilation);
    convolution.window.pad_begin.push_back(-first);
    convolution.window.pad_end.push_back(0);
    result.push_back((y[2 + axis] + stride - 1) / stride);
  }
  convolution.w =
      lowering.add_alias("kernel", rearranged(lowering, "taps", w_id, w_map, extents, extents), weights);
  convolution.bias = bias_of(lowering, groups * w[1]);
  if (convolution.bias >= 0 && residues > 1) {
    const Shape repeated = {groups * w[1], residues};
    const AffineMap map = AffineMap(1, 2).set(0, 0, 1);
    convolution.bias = lowering.add_alias(
        "bias", rearranged(lowering, "bias", convolution.bias, map, repeated, repeated), {weights[0]});
  }
  convolution.x = lowering.input(0);
  convolution.groups = groups;
  if (residues == 1) {
    convolution.target = lowering.output();
    add_convolution(lowering, "", convolution);
    return kLowered;
  }
  convolution.target = lowering.add_tensor("residues", lowering.output_type(), result);
  add_convolution(lowering, "", convolution);

  weave_residues(lowering, convolution.target, window.stride);
  return kLowered;
}

HostReason lower_matmul(NodeLowering& lowering) {
  const ContractLayer contract =
      matmul_of(lowering, lowering.input(0), lowering.input(1), lowering.output_shape());
  if (has_float_arithmetic(lowering.output_type())) {
    lowering.add_layer("", contract, lowering.output());
    return kLowered;
  }
  const auto sums = add_products(lowering, "", contract);
  if (!sums) return kTooManyProducts;
  lowering.bind_output(*sums);
  return kLowered;
}

/// Of doubles and integers: alpha times sums of products, plus beta times C, which isn't there if beta is 0.
HostReason finish_gemm(NodeLowering& lowering, const ContractLayer& contract, double alpha, double beta) {
  const bool is_integer = integer_type(lowering.output_type()).has_value();
  if (is_integer && (alpha != 1 || (beta != 0 && beta != 1))) return "integers times alpha or beta";
  const auto sums = add_products(lowering, "", contract);
  if (!sums) return kTooManyProducts;
  MapBuilder map(lowering, lowering.output_shape());
  if (is_integer) {
    const Integer sum = map.integer(*sums);
    map.finish("", beta == 0 ? sum : sum + map.integer_of_input(2), lowering.output());
  } else {
    const Term sum = map.operand(*sums) * alpha;
    map.finish("", beta == 0 ? sum : sum + map.operand_of_input(2) * beta, lowering.output());
  }
  return kLowered;
}

HostReason lower_gemm(NodeLowering& lowering) {
  const Shape& a = lowering.input_shape(0);
  const Shape& b = lowering.input_shape(1);
  const Shape& y = lowering.output_shape();
  lowering.require(a.size() == 2 && b.size() == 2 && y.size() == 2,
                   "A is {} and B is {}; matrices are needed", shape_to_string(a), shape_to_string(b));
  const size_t a_k = lowering.int_attribute("transA") != 0 ? 0 : 1;
  const size_t b_k = lowering.int_attribute("transB") != 0 ? 1 : 0;
  DimList dims;
  const size_t m = dims.add("m", a[1 - a_k], Role::kM);
  const size_t n = dims.add("n", b[1 - b_k], Role::kN);
  const size_t k = dims.add("k", a[a_k], Role::kK);
  ContractLayer contract;
  contract.a = {lowering.input(0), AffineMap(2, dims.size()).set(1 - a_k, m, 1).set(a_k, k, 1), 0};
  contract.b = {lowering.input(1), AffineMap(2, dims.size()).set(1 - b_k, n, 1).set(b_k, k, 1), 0};
  contract.output = AffineMap(2, dims.size()).set(0, m, 1).set(1, n, 1);
  contract.output_shape = y;

  const float alpha = lowering.float_attribute("alpha");
  const float beta = lowering.float_attribute("beta");
  const bool has_addend = lowering.has_input(2) && beta != 0;
  if (has_addend) {
    const Shape& c = lowering.input_shape(2);
    const bool fits =
        c.size() <= 2 && std::equal(c.rbegin(), c.rend(), y.rbegin(),
                                    [](int64_t from, int64_t to) { return from == 1 || from == to; });
    lowering.require(fits, "C is {}; it can't be broadcast to {}", shape_to_string(c), shape_to_string(y));
  }
  if (!has_float_arithmetic(lowering.output_type())) {
    contract.dims = dims.take();
    return finish_gemm(lowering, contract, alpha, has_addend ? beta : 0);
  }
  Formula epilogue;
  Term result = epilogue.x(0);
  if (alpha != 1) result = result * alpha;
  if (has_addend) {
    const Shape& c = lowering.input_shape(2);
    Term addend = epilogue.x(1);
    if (beta != 1) addend = addend * beta;
    result = result + addend;
    contract.epilogue_inputs = {{lowering.input(2), AffineMap::broadcast(c, y).after(contract.output), 0}};
  }
  contract.epilogue = epilogue.result(result);
  contract.dims = dims.take();
  lowering.add_layer("", std::move(contract), lowering.output());
  return kLowered;
}

}  // namespace

void register_contract(OperatorTable& table) {
  constexpr const char* kFewProducts = "up to 2^22 products of 64-bit integers";
  table.push_back({"Conv", lower_conv, ElementTypes::kReals});
  table.push_back({"ConvTranspose", lower_conv_transpose, ElementTypes::kChipFloats});
  table.push_back({"MatMul", lower_matmul, ElementTypes::kAllNumbers, kFewProducts});
  table.push_back({"Gemm", lower_gemm, ElementTypes::kAllNumbers, kFewProducts});
}

}  // namespace kodama::compiler
