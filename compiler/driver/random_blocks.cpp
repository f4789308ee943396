#include "compiler/driver/random_blocks.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

namespace kodama::compiler {
namespace {

/// Where a block begins: later values are likelier.
RandomValue from_value(RandomNodes& nodes, int64_t least_rank, int64_t most_rank) {
  return nodes.want({.types = {DataType::kFloat32},
                     .least_rank = least_rank,
                     .most_rank = most_rank,
                     .low = -300,
                     .high = 300});
}

/// A node that others may read, now and then.
std::string layer(RandomNodes& nodes, const std::string& op, const std::vector<std::string>& inputs,
                  const Attributes& attributes = {}) {
  if (!nodes.chance(15)) return nodes.step(op, inputs, attributes);
  return nodes.add(op, inputs, attributes, 1)[0].name;
}

std::string activation(RandomNodes& nodes, const std::string& x) {
  switch (nodes.number(0, 6)) {
    case 0:
      return x;
    case 1: {
      const std::string low = nodes.scalar(0);
      return layer(nodes, "Clip", {x, low, nodes.scalar(6)});
    }
    case 2:
      return layer(nodes, "HardSwish", {x});
    case 3:
      return layer(nodes, "Mul", {x, nodes.step("Sigmoid", {x})});
    default:
      return layer(nodes, "Relu", {x});
  }
}

class PictureBlock {
 public:
  PictureBlock(RandomNodes& nodes, int64_t positions) : nodes_(nodes), positions_(positions) {}
  void set_positions(int64_t positions) { positions_ = positions; }

  /// A convolution that keeps rows and columns but for its stride; then normalization or a bias, or neither.
  std::string convolution(const std::string& x, int64_t channels, int64_t features, int64_t kernel,
                          int64_t stride = 1, int64_t groups = 1) {
    const int64_t fan = channels / groups * kernel * kernel;
    if (features * fan * positions_ > nodes_.sizes().products || features * fan > 20000)
      throw RandomNodes::Misfit();
    const Shape shape{features, channels / groups, kernel, kernel};
    std::vector<std::string> inputs{x, nodes_.constant(shape, 1.7 / std::sqrt(static_cast<double>(fan)))};
    const int64_t form = nodes_.number(0, 3);
    if (form == 0) inputs.push_back(nodes_.constant({features}, 1));
    const int64_t pad = kernel / 2;
    const std::string result = layer(nodes_, "Conv", inputs,
                                     Attributes()
                                         .set("kernel_shape", std::vector<int64_t>{kernel, kernel})
                                         .set("strides", std::vector<int64_t>{stride, stride})
                                         .set("pads", std::vector<int64_t>{pad, pad, pad, pad})
                                         .set("group", groups));
    if (form < 2) return result;
    const std::string scale = nodes_.constant({features}, 1.5, 0.5);
    const std::string shift = nodes_.constant({features}, 1);
    const std::string mean = nodes_.constant({features}, 1);
    return layer(nodes_, "BatchNormalization",
                 {result, scale, shift, mean, nodes_.constant({features}, 2, 0.5)});
  }

 private:
  RandomNodes& nodes_;
  int64_t positions_;  ///< of a block's results, at most
};

int64_t features_of_block(RandomNodes& nodes) {
  if (nodes.sizes().elements < 1000) return nodes.extent(12);
  return nodes.chance(50) ? nodes.pick(std::array<int64_t, 5>{16, 32, 32, 64, 96}) : nodes.extent(65);
}

Attributes last_axis() {
  return Attributes().set("axes", std::vector<int64_t>{-1});
}

}  // namespace

void add_picture_block(RandomNodes& nodes) {
  const RandomValue x = from_value(nodes, 4, 4);
  const int64_t channels = x.shape()[1];
  PictureBlock block(nodes, product_of(x.shape()) / channels);
  const int64_t stride = nodes.chance(70) ? 1 : 2;
  switch (nodes.number(0, 3)) {
    case 0: {
      const int64_t features = stride == 1 && nodes.chance(60) ? channels : features_of_block(nodes);
      const int64_t kernel = nodes.chance(70) ? 3 : 1;
      std::string way = activation(nodes, block.convolution(x.name, channels, features, kernel, stride));
      way = block.convolution(way, features, features, 3);
      std::string past = x.name;
      if (features != channels || stride != 1)
        past = block.convolution(x.name, channels, features, 1, stride);
      const std::string sum =
          layer(nodes, "Add", nodes.chance(50) ? std::vector{way, past} : std::vector{past, way});
      nodes.add("Relu", {sum});
      return;
    }
    case 1: {
      const int64_t wide = channels * nodes.number(1, 4);
      const int64_t features = stride == 1 && nodes.chance(60) ? channels : features_of_block(nodes);
      std::string way = activation(nodes, block.convolution(x.name, channels, wide, 1));
      const int64_t kernel = nodes.chance(60) ? 3 : 5;
      way = activation(nodes, block.convolution(way, wide, wide, kernel, stride, wide));
      way = block.convolution(way, wide, features, 1);
      if (features != channels || stride != 1) {
        nodes.add("Identity", {way});
      } else {
        nodes.add("Add", {x.name, way});
      }
      return;
    }
    case 2: {
      const int64_t few = nodes.number(1, std::max<int64_t>(1, channels / 2));
      std::string gate = nodes.step("GlobalAveragePool", {x.name});
      block.set_positions(x.shape()[0]);
      gate = activation(nodes, block.convolution(gate, channels, few, 1));
      gate = block.convolution(gate, few, channels, 1);
      gate = nodes.step(nodes.chance(50) ? "Sigmoid" : "HardSigmoid", {gate});
      nodes.add("Mul", {x.name, gate});
      return;
    }
    default: {
      std::vector<std::string> ways;
      for (int64_t count = nodes.number(2, 4); count > 0; --count) {
        const int64_t features = features_of_block(nodes);
        const int64_t kernel = nodes.pick(std::array<int64_t, 4>{1, 1, 3, 5});
        std::string way = x.name;
        if (kernel == 1 && nodes.chance(40)) {
          way = layer(nodes, "MaxPool", {way},
                      Attributes()
                          .set("kernel_shape", std::vector<int64_t>{3, 3})
                          .set("pads", std::vector<int64_t>{1, 1, 1, 1}));
        }
        ways.push_back(activation(nodes, block.convolution(way, channels, features, kernel)));
      }
      nodes.add("Concat", ways, Attributes().set("axis", 1));
    }
  }
}

void add_attention(RandomNodes& nodes) {
  const RandomValue x = from_value(nodes, 3, 3);
  const int64_t features = x.shape()[2];
  const bool tokens_first = nodes.chance(30);
  const int64_t batch = x.shape()[tokens_first ? 1 : 0];
  const int64_t tokens = x.shape()[tokens_first ? 0 : 1];
  int64_t heads = nodes.number(1, std::min<int64_t>(features, 4));
  while (features % heads != 0) --heads;
  const int64_t depth = features / heads;
  if (batch * tokens * features * (features + tokens) > nodes.sizes().products || features > 100 ||
      batch * heads * tokens * tokens > nodes.sizes().elements)
    throw RandomNodes::Misfit();
  const auto transpose = [&](const std::string& value, const std::vector<int64_t>& order) {
    return nodes.step("Transpose", {value}, Attributes().set("perm", order));
  };
  const double scale = 1.7 / std::sqrt(static_cast<double>(features));
  const bool biased = nodes.chance(70);
  const auto project = [&](const std::string& value) {
    const std::string product = nodes.step("MatMul", {value, nodes.constant({features, features}, scale)});
    return biased ? nodes.step("Add", {product, nodes.constant({features}, 0.5)}) : product;
  };
  const bool one_product = nodes.chance(25);
  std::array<std::string, 3> parts;
  if (one_product) {
    const std::string all = nodes.step("MatMul", {x.name, nodes.constant({features, 3 * features}, scale)});
    const std::vector<std::string> three = nodes.steps(
        "Split", {all, nodes.integers({features, features, features})}, 3, Attributes().set("axis", 2));
    std::copy(three.begin(), three.end(), parts.begin());
  } else {
    for (std::string& part : parts) part = project(x.name);
  }
  const std::string shape =
      tokens_first ? nodes.integers({tokens, batch * heads, depth}) : nodes.integers({0, -1, heads, depth});
  for (std::string& part : parts) part = nodes.step("Reshape", {part, shape});
  const std::vector<int64_t> rows =
      tokens_first ? std::vector<int64_t>{1, 0, 2} : std::vector<int64_t>{0, 2, 1, 3};
  const std::vector<int64_t> columns =
      tokens_first ? std::vector<int64_t>{1, 2, 0} : std::vector<int64_t>{0, 2, 3, 1};
  std::string q = transpose(parts[0], rows);
  const std::string k = transpose(parts[1], columns);
  const std::string v = transpose(parts[2], rows);
  const double factor = 1 / std::sqrt(static_cast<double>(depth));
  if (nodes.chance(50)) q = nodes.step("Mul", {q, nodes.scalar(factor)});
  std::string scores = nodes.step("MatMul", {q, k});
  if (nodes.chance(40)) scores = nodes.step("Div", {scores, nodes.scalar(1 / factor)});
  if (nodes.chance(30)) {  // what comes later is not seen
    Tensor mask(DataType::kFloat32, {tokens, tokens});
    const float hidden = -1e4F;
    for (int64_t row = 0; row < tokens; ++row) {
      for (int64_t column = row + 1; column < tokens; ++column)
        mask.data<float>()[static_cast<size_t>(row * tokens + column)] = hidden;
    }
    scores = nodes.step("Add", {scores, nodes.add_constant(mask)});
  }
  const std::string weights = nodes.step("Softmax", {scores}, Attributes().set("axis", -1));
  std::string result = transpose(nodes.step("MatMul", {weights, v}), rows);
  result = nodes.step("Reshape", {result, nodes.integers(x.shape())});
  if (nodes.chance(70)) result = project(result);
  if (nodes.chance(50)) {
    nodes.add("Add", {x.name, result});
  } else {
    nodes.add("Identity", {result});
  }
}

void add_feed_forward(RandomNodes& nodes) {
  const RandomValue x = from_value(nodes, 2, 4);
  if (x.shape().back() < 3) throw RandomNodes::Misfit();
  const int64_t features = x.shape().back();
  const int64_t wide = nodes.chance(60) ? 2 * features : nodes.extent(100);
  if (x.size() * wide > nodes.sizes().products || features * wide > 20000) throw RandomNodes::Misfit();
  const auto norm = [&](const std::string& value) {
    const std::string scale = nodes.constant({features}, 1.5, 0.5);
    return layer(nodes, "LayerNormalization", {value, scale, nodes.constant({features}, 1)},
                 Attributes().set("axis", -1));
  };
  const auto product = [&](const std::string& value, int64_t inner, int64_t count) {
    const std::string weights = nodes.constant({inner, count}, 1.7 / std::sqrt(static_cast<double>(inner)));
    const std::string result = layer(nodes, "MatMul", {value, weights});
    return layer(nodes, "Add", {nodes.constant({count}, 1), result});
  };
  const bool norm_first = nodes.chance(50);
  std::string way = norm_first ? norm(x.name) : x.name;
  way = product(way, features, wide);
  if (nodes.chance(50)) {  // GELU
    const std::string erf = nodes.step("Erf", {nodes.step("Div", {way, nodes.scalar(1.41421354)})});
    way = nodes.step("Mul", {way, nodes.step("Add", {erf, nodes.scalar(1)})});
    way = nodes.step("Mul", {way, nodes.scalar(0.5)});
  } else {
    way = activation(nodes, way);
  }
  way = product(way, wide, features);
  const std::string sum = layer(nodes, "Add", {x.name, way});
  nodes.add("Identity", {norm_first ? sum : norm(sum)});
}

void add_chain(RandomNodes& nodes) {
  const RandomValue x = from_value(nodes, 1, 5);
  switch (nodes.number(0, 3)) {
    case 0: {  // by the root of the mean of squares
      if (x.shape().back() < 2) throw RandomNodes::Misfit();
      const std::string square = nodes.chance(50) ? nodes.step("Mul", {x.name, x.name})
                                                  : nodes.step("Pow", {x.name, nodes.scalar(2)});
      const std::string mean = nodes.step("ReduceMean", {square}, last_axis().set("keepdims", 1));
      const std::string root = nodes.step("Sqrt", {nodes.step("Add", {mean, nodes.scalar(0.01)})});
      nodes.add("Div", {x.name, root});
      return;
    }
    case 1: {  // layer normalization
      if (x.shape().back() < 3) throw RandomNodes::Misfit();
      const std::string centered =
          nodes.step("Sub", {x.name, nodes.step("ReduceMean", {x.name}, last_axis())});
      const std::string variance =
          nodes.step("ReduceMean", {nodes.step("Pow", {centered, nodes.scalar(2)})}, last_axis());
      const std::string root = nodes.step("Sqrt", {nodes.step("Add", {variance, nodes.scalar(0.01)})});
      const std::string quotient = nodes.step("Div", {centered, root});
      nodes.add("Mul", {quotient, nodes.constant({x.shape().back()}, 1)});
      return;
    }
    case 2: {
      const std::string sum = nodes.step("Add", {x.name, nodes.partner(x, {}).name});
      nodes.add("Relu", {sum});
      return;
    }
    default:
      nodes.add("Mul", {x.name, nodes.step("Sigmoid", {nodes.step("Clip", {x.name, nodes.scalar(-30)})})});
  }
}

}  // namespace kodama::compiler
