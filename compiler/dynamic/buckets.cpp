#include "compiler/dynamic/buckets.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <limits>
#include <optional>
#include <set>
#include <span>
#include <tuple>

#include "compiler/dynamic/bucket_rules.h"
#include "compiler/graph/fold_constants.h"
#include "compiler/graph/import.h"
#include "compiler/graph/node_operands.h"
#include "compiler/graph/onnx_model.h"
#include "compiler/proto/tensor_proto.h"

namespace kodama::compiler {

namespace {

/// The region's model as import leaves it, with other shapes of inputs.
onnx::ModelProto imported(const onnx::ModelProto& region, const std::map<std::string, Shape>& shapes) {
  onnx::ModelProto model = region;
  for (auto& input : *model.mutable_graph()->mutable_input()) {
    const auto shape = shapes.find(input.name());
    if (shape == shapes.end()) continue;
    const auto type = static_cast<DataType>(input.type().tensor_type().elem_type());
    *input.mutable_type() = make_tensor_type(type, shape->second);
  }
  // Their shapes are inferred anew.
  for (auto& output : *model.mutable_graph()->mutable_output())
    output.mutable_type()->mutable_tensor_type()->clear_shape();
  model = import_model(std::move(model), {}, model.graph().name());
  if (fold_constants(model)) prune_value_info(*model.mutable_graph());
  return model;
}

Tensor scalar(DataType type, double value) {
  Tensor tensor(type, {});
  const auto put = [&]<typename T>(T) { tensor.data<T>()[0] = static_cast<T>(value); };
  // The ends of an integer's range aren't all doubles.
  const auto put_integer = [&]<typename T>(T) {
    tensor.data<T>()[0] = value == -std::numeric_limits<double>::infinity() ? std::numeric_limits<T>::lowest()
                          : value == std::numeric_limits<double>::infinity() ? std::numeric_limits<T>::max()
                                                                             : static_cast<T>(value);
  };
  switch (type) {
    case DataType::kFloat32:
      put(float{});
      return tensor;
    case DataType::kFloat64:
      put(double{});
      return tensor;
    case DataType::kFloat16:
      tensor.data<uint16_t>()[0] = float_to_half(static_cast<float>(value));
      return tensor;
    case DataType::kBfloat16:
      tensor.data<uint16_t>()[0] = float_to_bfloat16(static_cast<float>(value));
      return tensor;
    case DataType::kInt8:
      put_integer(int8_t{});
      return tensor;
    case DataType::kInt16:
      put_integer(int16_t{});
      return tensor;
    case DataType::kInt32:
      put_integer(int32_t{});
      return tensor;
    case DataType::kInt64:
      put_integer(int64_t{});
      return tensor;
    case DataType::kUint8:
    case DataType::kBool:
      put_integer(uint8_t{});
      return tensor;
    case DataType::kUint16:
      put_integer(uint16_t{});
      return tensor;
    case DataType::kUint32:
      put_integer(uint32_t{});
      return tensor;
    case DataType::kUint64:
      put_integer(uint64_t{});
      return tensor;
    default:
      throw isa::UnsupportedError(fmt::format("elements of {} aren't padded", data_type_name(type)));
  }
}

double fill_value(PadFill fill) {
  switch (fill) {
    case PadFill::kZero:
      return 0;
    case PadFill::kOne:
      return 1;
    case PadFill::kLowest:
      return -std::numeric_limits<double>::infinity();
    case PadFill::kHighest:
      return std::numeric_limits<double>::infinity();
  }
  return 0;
}

/// Writes the model of a bucket: the padded graph with what `needs` asks for.
class PaddedModel {
 public:
  PaddedModel(onnx::ModelProto padded, const PadNeeds& needs)
      : padded_(std::move(padded)),
        graph_(padded_.graph()),
        needs_(needs),
        names_(names_of(padded_.graph())) {}

  /// Its additional inputs are in `given`, for the lengths of `exact`.
  /// That is the same for other lengths of the bucket, as those of `other` are.
  onnx::ModelProto write(const TypedGraph& exact, const TypedGraph& other, TensorMap& given) {
    exact_ = &exact;
    other_ = &other;
    given_ = &given;
    onnx::ModelProto result = padded_;
    out_ = result.mutable_graph();
    out_->clear_node();
    give_constants();
    for (int k = 0; k < padded_.graph().node_size(); ++k) write_node(k, padded_.graph().node(k));
    return result;
  }

 private:
  void give(const std::string& name, Tensor value) {
    auto& input = *out_->add_input();
    input.set_name(name);
    *input.mutable_type() = make_tensor_type(value.type(), value.shape());
    given_->insert_or_assign(name, std::move(value));
  }
  std::string add_constant(const std::string& wish, const Tensor& tensor) {
    const std::string name = names_.make_unique(wish);
    *out_->add_initializer() = tensor_to_proto(tensor, name);
    return name;
  }
  onnx::NodeProto& add_node(const char* op, const std::string& name, const std::vector<std::string>& inputs,
                            const std::string& output) {
    onnx::NodeProto& node = *out_->add_node();
    node.set_op_type(op);
    node.set_name(name);
    for (const std::string& input : inputs) node.add_input(input);
    node.add_output(output);
    return node;
  }

  void give_constants() {
    auto& initializers = *out_->mutable_initializer();
    for (const std::string& name : needs_.constants) {
      const auto found =
          std::ranges::find(initializers, name, [](const auto& tensor) { return tensor.name(); });
      const Tensor exact = tensor_from_proto(*exact_->constant(name), name);
      initializers.erase(found);
      give(name, padded_to(exact, graph_.shape(name)));
    }
  }

  /// Which elements of a value's axis are data: shape [extent, 1, …], to be spread over the axes before it.
  std::string mask_of(const std::string& value, int axis) {
    const Shape& padded = graph_.shape(value);
    Shape shape(padded.begin() + axis, padded.end());
    std::fill(shape.begin() + 1, shape.end(), 1);
    const auto k = static_cast<size_t>(axis);
    const int64_t exact = exact_->shape(value)[k];
    // Values that are as long share a mask: with one length of the bucket, and so with all.
    const auto [found, is_new] = masks_.try_emplace({other_->shape(value)[k], shape});
    SharedMask& shared = found->second;
    if (is_new) {
      shared = {names_.make_unique(fmt::format("data along axis {} of {}", axis, value)), exact};
      Tensor mask(DataType::kBool, shape);
      std::fill_n(mask.data<uint8_t>().begin(), exact, uint8_t{1});
      give(shared.name, std::move(mask));
    } else if (shared.exact != exact) {
      throw isa::UnsupportedError(
          fmt::format("'{}' is as long as other values for some lengths alone", value));
    }
    return shared.name;
  }

  std::string fill_of(DataType type, PadFill fill) {
    std::string& name = fills_[{type, fill}];
    if (name.empty()) name = add_constant("fill", scalar(type, fill_value(fill)));
    return name;
  }

  std::string masked(const std::string& value, int axis, PadFill fill, const std::string& original) {
    std::string& name = masked_[{value, axis, fill}];
    if (!name.empty()) return name;
    name = names_.make_unique(fmt::format("{} masked", value));
    add_node("Where", name, {mask_of(original, axis), value, fill_of(graph_.type(original), fill)}, name);
    return name;
  }

  void write_node(int index, onnx::NodeProto node) {
    const onnx::NodeProto before = node;
    for (auto mask = needs_.masks.lower_bound({index, 0, 0, PadFill::kZero});
         mask != needs_.masks.end() && mask->node == index; ++mask) {
      std::string& input = *node.mutable_input(mask->input);
      input = masked(input, mask->axis, mask->fill, before.input(mask->input));
    }
    if (const auto mean = needs_.means.find(index); mean != needs_.means.end()) {
      write_mean(node, before.input(0), mean->second);
    } else if (needs_.given_places.contains(index)) {
      write_places(node);
    } else {
      *out_->add_node() = std::move(node);
    }
  }

  /// The sum, over the number of elements.
  void write_mean(const onnx::NodeProto& node, const std::string& original, const std::vector<int>& axes) {
    int64_t count = 1;
    for (const int axis : axes) count *= exact_->shape(original)[static_cast<size_t>(axis)];
    const std::string count_name = names_.make_unique("elements of " + node.output(0));
    give(count_name, scalar(graph_.type(original), static_cast<double>(count)));
    const std::vector<int64_t> list(axes.begin(), axes.end());
    const std::string axes_name = add_constant(
        "axes", Tensor::from_values<int64_t>(DataType::kInt64, {static_cast<int64_t>(list.size())}, list));
    const std::string sum = names_.make_unique("sum of " + node.output(0));
    const auto* keeps = find_attribute(node, "keepdims");
    auto& keepdims = set_attribute(add_node("ReduceSum", sum, {node.input(0), axes_name}, sum), "keepdims",
                                   onnx::AttributeProto_AttributeType_INT);
    keepdims.set_i(keeps == nullptr ? 1 : keeps->i());
    add_node("Div", node.name(), {sum, count_name}, node.output(0));
  }

  /// A Gather at places that are given, counted from the begin of the axis.
  void write_places(const onnx::NodeProto& node) {
    const Shape& data = exact_->shape(node.input(0));
    int64_t axis = 0;
    Tensor places;
    if (node.op_type() == "Gather") {
      const auto* attribute = find_attribute(node, "axis");
      axis = attribute == nullptr ? 0 : attribute->i();
      if (axis < 0) axis += static_cast<int64_t>(data.size());
      const Tensor indices = tensor_from_proto(*exact_->constant(node.input(1)), node.input(1));
      places = Tensor(DataType::kInt64, indices.shape());
      for (int64_t k = 0; k < indices.size(); ++k) {
        const auto at = static_cast<int64_t>(element_as_double(indices, k));
        places.data<int64_t>()[static_cast<size_t>(k)] = at < 0 ? at + data[static_cast<size_t>(axis)] : at;
      }
    } else {
      const auto first = [&](int input) {
        return static_cast<int64_t>(
            element_as_double(tensor_from_proto(*exact_->constant(node.input(input)), node.input(input)), 0));
      };
      if (node.input_size() > 3 && !node.input(3).empty()) axis = first(3);
      if (axis < 0) axis += static_cast<int64_t>(data.size());
      const int64_t extent = data[static_cast<size_t>(axis)];
      const int64_t start = first(1);
      const int64_t begin = std::clamp<int64_t>(start < 0 ? start + extent : start, 0, extent);
      const int64_t count = exact_->shape(node.output(0))[static_cast<size_t>(axis)];
      places = Tensor(DataType::kInt64, {count});
      for (int64_t k = 0; k < count; ++k) places.data<int64_t>()[static_cast<size_t>(k)] = begin + k;
    }
    const std::string name = names_.make_unique("places of " + node.output(0));
    give(name, std::move(places));
    set_attribute(add_node("Gather", node.name(), {node.input(0), name}, node.output(0)), "axis",
                  onnx::AttributeProto_AttributeType_INT)
        .set_i(axis);
  }

  onnx::ModelProto padded_;
  TypedGraph graph_;
  const PadNeeds& needs_;
  FreshNames names_;
  const TypedGraph* exact_ = nullptr;
  const TypedGraph* other_ = nullptr;
  TensorMap* given_ = nullptr;
  onnx::GraphProto* out_ = nullptr;
  struct SharedMask {
    std::string name;
    int64_t exact = 0;
  };
  std::map<std::pair<int64_t, Shape>, SharedMask> masks_;  ///< by extent in `other`, and shape
  std::map<std::pair<DataType, PadFill>, std::string> fills_;
  std::map<std::tuple<std::string, int, PadFill>, std::string> masked_;
};

/// Copies the box that both have.
void copy_box(const Tensor& from, Tensor& to) {
  Shape box = from.shape();
  for (size_t k = 0; k < box.size(); ++k) box[k] = std::min(box[k], to.shape()[k]);
  if (element_count(box) == 0) return;
  const size_t size = from.bytes().size() / static_cast<size_t>(from.size());
  // Rows: the last axis, or the one element of a scalar.
  const int64_t row = box.empty() ? 1 : box.back();
  Shape index(box.size(), 0);
  for (;;) {
    int64_t source = 0;
    int64_t target = 0;
    for (size_t k = 0; k < box.size(); ++k) {
      source = source * from.shape()[k] + index[k];
      target = target * to.shape()[k] + index[k];
    }
    std::memcpy(to.bytes().data() + static_cast<size_t>(target) * size,
                from.bytes().data() + static_cast<size_t>(source) * size, static_cast<size_t>(row) * size);
    size_t k = box.size() < 2 ? 0 : box.size() - 1;
    while (k > 0 && ++index[k - 1] == box[k - 1]) index[--k] = 0;
    if (k == 0) return;
  }
}

Tensor resized(const Tensor& tensor, const Shape& shape) {
  if (tensor.shape() == shape) return tensor;
  isa::check_internal(tensor.strings().empty() && tensor.shape().size() == shape.size(), "buckets",
                      "{} can't become {}", shape_to_string(tensor.shape()), shape_to_string(shape));
  Tensor result(tensor.type(), shape);
  copy_box(tensor, result);
  return result;
}

}  // namespace

Bucket parse_bucket(const std::string& text) {
  const auto fail = [&] {
    return isa::UserError(fmt::format(
        "--bucket {}: allowed is DIM=N,N,N with extents from 1 to 2^31, each larger than the one before",
        text));
  };
  Bucket bucket;
  const size_t equals = text.rfind('=');
  if (equals == std::string::npos || equals == 0) throw fail();
  bucket.dimension = text.substr(0, equals);
  const char* at = text.data() + equals + 1;
  const char* const end = text.data() + text.size();
  for (;;) {
    int64_t extent = 0;
    const auto [next, error] = std::from_chars(at, end, extent);
    if (error != std::errc() || extent < 1 || extent > kMaxTensorElements ||
        (!bucket.extents.empty() && extent <= bucket.extents.back()))
      throw fail();
    bucket.extents.push_back(extent);
    if (next == end) return bucket;
    if (*next != ',') throw fail();
    at = next + 1;
  }
}

std::map<std::string, BucketAxes> find_bucket_axes(const onnx::GraphProto& graph,
                                                   const std::vector<Bucket>& buckets) {
  std::map<std::string, BucketAxes> result;
  std::set<std::string> made;
  for (const auto& input : graph.input()) made.insert(input.name());
  for (const auto& node : graph.node()) made.insert(node.output().begin(), node.output().end());
  std::set<std::string> seen;
  for (const Bucket& bucket : buckets) {
    if (!seen.insert(bucket.dimension).second)
      throw isa::UserError(fmt::format("--bucket {}: given twice", bucket.dimension));
    bool found = false;
    for (const auto& input : graph.input()) {
      const auto& shape = input.type().tensor_type().shape();
      for (int axis = 0; axis < shape.dim_size(); ++axis) {
        if (shape.dim(axis).has_dim_value() || shape.dim(axis).dim_param() != bucket.dimension) continue;
        result[input.name()][axis] = bucket.dimension;
        found = true;
      }
    }
    if (found) continue;
    const size_t colon = bucket.dimension.rfind(':');
    const std::string name = bucket.dimension.substr(0, colon);
    int axis = -1;
    if (colon != std::string::npos) {
      const char* const end = bucket.dimension.data() + bucket.dimension.size();
      const auto [stop, error] = std::from_chars(bucket.dimension.data() + colon + 1, end, axis);
      if (error != std::errc() || stop != end) axis = -1;
    }
    if (axis < 0 || !made.contains(name)) {
      const std::vector<std::string> open = open_dimensions(graph);
      throw isa::UserError(fmt::format(
          "--bucket {}: the model has no such dimension; allowed are {}VALUE:AXIS, with the name of a "
          "value in its graph, such as one whose shape depends on data (kodama inspect names them)",
          bucket.dimension, open.empty() ? "" : fmt::format("{}, and ", fmt::join(open, ", "))));
    }
    result[name][axis] = bucket.dimension;
  }
  return result;
}

Tensor padded_to(const Tensor& tensor, const Shape& shape) {
  return resized(tensor, shape);
}

Tensor cut_to(const Tensor& tensor, const Shape& shape) {
  return resized(tensor, shape);
}

namespace {

/// Of all these dimensions, or none.
BucketChoice pad_all(const Region& region, const std::map<std::string, BucketAxes>& axes,
                     std::span<const Bucket> buckets) {
  BucketChoice choice;
  // Extents by dimension: of the data, of the bucket, and another one of that bucket, by which the model is
  // made: it must be the same for all.
  struct Lengths {
    int64_t exact = 0;
    int64_t bucket = 0;
    int64_t other() const { return std::max<int64_t>(bucket - 1, 1); }
  };
  std::map<std::string, Lengths> lengths;
  std::map<std::string, Shape> padded_shapes;
  std::map<std::string, Shape> other_shapes;
  for (const auto& input : region.model.graph().input()) {
    const auto found = axes.find(input.name());
    if (found == axes.end()) continue;
    Shape padded = *static_shape(input.type());
    Shape other = padded;
    for (const auto& [axis, dimension] : found->second) {
      if (axis >= static_cast<int>(padded.size())) {
        choice.reason = fmt::format("'{}' has no axis {}", input.name(), axis);
        return choice;
      }
      int64_t& extent = padded[static_cast<size_t>(axis)];
      const auto bucket = std::ranges::find(buckets, dimension, &Bucket::dimension);
      if (bucket == buckets.end()) continue;
      const auto next = std::ranges::lower_bound(bucket->extents, extent);
      if (next == bucket->extents.end()) {
        choice.reason = fmt::format("'{}' is {}, more than its largest bucket, {}", dimension, extent,
                                    bucket->extents.back());
        return choice;
      }
      if (extent == 0) {
        choice.reason = fmt::format("'{}' is 0", dimension);
        return choice;
      }
      const Lengths& known = lengths.try_emplace(dimension, Lengths{extent, *next}).first->second;
      if (known.exact != extent) {
        choice.reason = fmt::format("'{}' is {} and {}", dimension, known.exact, extent);
        return choice;
      }
      extent = known.bucket;
      other[static_cast<size_t>(axis)] = known.other();
    }
    padded_shapes[input.name()] = padded;
    other_shapes[input.name()] = other;
  }
  if (lengths.empty()) return choice;

  PaddedRegion result;
  try {
    const onnx::ModelProto exact_model = imported(region.model, {});
    const onnx::ModelProto other_model = imported(region.model, other_shapes);
    onnx::ModelProto padded_model = imported(region.model, padded_shapes);
    const TypedGraph exact(exact_model.graph());
    const TypedGraph other(other_model.graph());
    const TypedGraph padded(padded_model.graph());
    PadNeeds needs;
    choice.reason = find_pad_needs(other, padded, needs);
    if (!choice.reason.empty()) return choice;
    PadNeeds own;
    choice.reason = find_pad_needs(exact, padded, own);
    if (!choice.reason.empty()) return choice;
    if (!needs.covers(own)) {
      choice.reason = "this length asks for other masks than others of its bucket";
      return choice;
    }
    for (const Region::Output& output : region.outputs) {
      result.output_shapes[output.name] = exact.shape(output.name);
      const Shape& shape = padded.shape(output.name);
      for (size_t axis = 0; axis < shape.size(); ++axis) {
        for (const auto& [dimension, length] : lengths) {
          if (shape[axis] == length.bucket && other.shape(output.name)[axis] == length.other() &&
              length.bucket > 1 && exact.shape(output.name)[axis] == length.exact)
            result.output_axes[output.name].emplace(static_cast<int>(axis), dimension);
        }
      }
    }
    result.model = PaddedModel(std::move(padded_model), needs).write(exact, other, result.given);
  } catch (const isa::UserError& error) {
    choice.reason = error.what();
    return choice;
  } catch (const isa::UnsupportedError& error) {
    choice.reason = error.what();
    return choice;
  }
  result.input_shapes = std::move(padded_shapes);
  for (const auto& [dimension, length] : lengths) {
    result.text +=
        fmt::format("{}{} {} in {}", result.text.empty() ? "" : ", ", dimension, length.exact, length.bucket);
  }
  choice.padded = std::move(result);
  return choice;
}

}  // namespace

BucketChoice choose_bucket(const Region& region, const std::map<std::string, BucketAxes>& axes,
                           const std::vector<Bucket>& buckets) {
  // Where two can't be padded together, the one that was named first may be by itself.
  std::string reason;
  for (size_t count = buckets.size(); count > 0; --count) {
    BucketChoice choice = pad_all(region, axes, std::span(buckets).first(count));
    if (reason.empty()) reason = choice.reason;
    if (!choice.padded) continue;
    choice.reason = reason;
    return choice;
  }
  return {std::nullopt, reason};
}

}  // namespace kodama::compiler
