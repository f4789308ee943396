#include "compiler/driver/random_graph.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>
#include <optional>

#include "compiler/driver/random_nodes.h"
#include "compiler/driver/random_operators.h"
#include "compiler/graph/onnx_model.h"

namespace kodama::compiler {
namespace {

/// Of a layer: multiply-adds. Below what the reference gives to oneDNN, whose sums depend on the machine.
constexpr int64_t kMostProducts = 900'000;
/// Largest magnitude that values should have, in a rough estimate.
constexpr double kMostMagnitude = 300;

int64_t product_of(const Shape& shape, size_t begin = 0, size_t end = std::numeric_limits<size_t>::max()) {
  int64_t product = 1;
  for (size_t k = begin; k < std::min(end, shape.size()); ++k) product *= shape[k];
  return product;
}

class RandomGraph : public RandomNodes {
 public:
  explicit RandomGraph(uint64_t seed) : RandomNodes(seed) {}

  onnx::ModelProto make() {
    const int64_t theme = number(0, 9);
    add_input(first_shape(theme));
    const int64_t wanted = chance(35) ? number(1, 3) : number(3, 14);
    for (int64_t tries = 0; tries < 6 * wanted && nodes() < wanted; ++tries) {
      if (chance(4) && inputs() < 3) add_input(chance(50) ? pick_value().shape() : first_shape(theme));
      attempt([&] { return grow(theme) && values().back().magnitude <= 20 * kMostMagnitude; });
    }
    if (nodes() == 0) finish("Relu", {at(0).name}, 4);
    return finish_model(outputs());
  }

 private:
  Shape first_shape(int64_t theme) {
    const int64_t batch = chance(50) ? 1 : number(2, 5);
    switch (theme) {
      case 0:
      case 1:
      case 2:
      case 3: {  // pictures
        if (chance(50)) return fitting({batch, extent(65), extent(33), extent(33)});
        const int64_t channels = pick(std::array<int64_t, 4>{16, 32, 64, 96});
        const int64_t images = fitting({batch}, std::max<int64_t>(1, kMostElements / 64 / channels))[0];
        const Shape places = fitting({extent(17), extent(17)}, kMostElements / 2 / channels / images);
        return {images, channels, places[0], places[1]};
      }
      case 4:
        return fitting({batch, extent(65), extent(100)});
      case 5:
        return fitting({batch, extent(17), extent(12), extent(12), extent(12)});
      case 6:
      case 7:  // tokens
        return fitting({batch, extent(65), pick(std::array<int64_t, 9>{4, 8, 12, 15, 16, 32, 33, 48, 64})});
      case 8:
        return fitting({extent(65), extent(100)});
      default: {
        Shape shape(static_cast<size_t>(number(1, 5)));
        for (int64_t& each : shape) each = extent(65);
        return fitting(shape);
      }
    }
  }

  // ---- operators

  struct WindowChoice {
    std::vector<int64_t> kernel, strides, dilations, pads;
    std::string auto_pad;
    void set(onnx::NodeProto& node, bool with_dilations) const {
      set_ints(node, "kernel_shape", kernel);
      set_ints(node, "strides", strides);
      if (with_dilations) set_ints(node, "dilations", dilations);
      if (auto_pad.empty()) {
        set_ints(node, "pads", pads);
      } else {
        set_text(node, "auto_pad", auto_pad);
      }
    }
  };
  std::optional<WindowChoice> window(const Shape& shape, bool is_pool) {
    WindowChoice choice;
    const size_t rank = shape.size() - 2;
    choice.pads.resize(2 * rank);
    const bool is_same = chance(70);
    const int64_t common = pick(std::array<int64_t, 7>{1, 1, 2, 3, 3, 5, 7});
    const int64_t stride = chance(60) ? 1 : number(2, 3);
    for (size_t k = 0; k < rank; ++k) {
      const int64_t kernel = is_same ? common : number(1, 4);
      const int64_t dilation = !is_pool && chance(15) ? number(2, 3) : 1;
      choice.kernel.push_back(kernel);
      choice.strides.push_back(is_same ? stride : number(1, 3));
      choice.dilations.push_back(dilation);
      const int64_t most = is_pool ? kernel / 2 : dilation * (kernel - 1);
      const int64_t usual = dilation * (kernel - 1) / 2;
      choice.pads[k] = chance(60) ? std::min(usual, most) : number(0, most);
      choice.pads[k + rank] = chance(60) ? choice.pads[k] : number(0, most);
      if (shape[k + 2] + choice.pads[k] + choice.pads[k + rank] < dilation * (kernel - 1) + 1)
        return std::nullopt;
    }
    if (chance(8)) {
      choice.auto_pad = pick(std::array<const char*, 3>{"SAME_UPPER", "SAME_LOWER", "VALID"});
      for (size_t k = 0; k < rank; ++k) {
        if (choice.auto_pad == "VALID" && shape[k + 2] < choice.dilations[k] * (choice.kernel[k] - 1) + 1)
          return std::nullopt;
      }
    }
    return choice;
  }

  bool convolution(size_t from) {
    const RandomValue x = at(from);
    if (x.rank() < 3 || x.rank() > 5) return false;
    const std::optional<WindowChoice> choice = window(x.shape(), false);
    if (!choice) return false;
    const int64_t channels = x.shape()[1];
    int64_t groups = 1;
    if (chance(20)) {
      groups = channels;
    } else if (chance(20)) {
      groups = number(1, channels);
      while (channels % groups != 0) --groups;
    }
    const bool is_transposed = chance(8);
    int64_t features =
        groups *
        (groups == channels && channels > 1 ? number(1, 2) : extent(65 / std::min<int64_t>(groups, 65)));
    const int64_t taps = product_of(choice->kernel);
    const int64_t fan = channels / groups * taps;
    const int64_t positions = product_of(x.shape()) / channels;
    if (features * fan * positions > kMostProducts) features = groups;
    if (features * fan * positions > kMostProducts || features * fan > 20000) return false;
    Shape shape = is_transposed ? Shape{channels, features / groups} : Shape{features, channels / groups};
    shape.insert(shape.end(), choice->kernel.begin(), choice->kernel.end());
    std::vector<std::string> inputs{x.name, constant(shape, 1.7 / std::sqrt(static_cast<double>(fan)))};
    if (chance(60)) inputs.push_back(constant({features}, 1));
    const bool is_plain = chance(15);
    const auto set = [&](onnx::NodeProto& node) {
      if (!is_plain || !choice->auto_pad.empty()) choice->set(node, true);
      if (groups > 1 || !is_plain) set_int(node, "group", groups);
    };
    if (is_plain && choice->auto_pad.empty()) {  // all attributes by default
      for (size_t k = 0; k < choice->kernel.size(); ++k) {
        if (x.shape()[k + 2] < choice->kernel[k]) return false;
      }
    }
    if (!is_transposed) return finish("Conv", inputs, x.magnitude + 1, set);
    if (!choice->auto_pad.empty()) return false;
    for (size_t k = 0; k < choice->kernel.size(); ++k) {
      const int64_t size = (x.shape()[k + 2] - 1) * choice->strides[k] +
                           choice->dilations[k] * (choice->kernel[k] - 1) + 1 - choice->pads[k] -
                           choice->pads[k + choice->kernel.size()];
      if (size < 1 || size > 200) return false;
    }
    return finish("ConvTranspose", inputs, x.magnitude + 1, set);
  }

  bool pool(size_t from) {
    const RandomValue x = at(from);
    if (x.rank() < 3 || x.rank() > 5) return false;
    if (chance(20))
      return finish(chance(70) ? "GlobalAveragePool" : "GlobalMaxPool", {x.name}, x.magnitude, {},
                    x.is_positive);
    const std::optional<WindowChoice> choice = window(x.shape(), true);
    if (!choice || (product_of(choice->kernel) == 1 && chance(80))) return false;
    bool is_ceil = chance(20) && choice->auto_pad.empty();
    for (size_t k = 0; k < choice->kernel.size(); ++k)  // no window that has nothing of the input
      is_ceil &= choice->pads[k + choice->kernel.size()] + choice->strides[k] <= choice->kernel[k];
    const bool is_max = chance(60);
    const bool counts = chance(40);
    return finish(is_max ? "MaxPool" : "AveragePool", {x.name}, x.magnitude, [&](onnx::NodeProto& node) {
      choice->set(node, false);
      if (is_ceil) set_int(node, "ceil_mode", 1);
      if (!is_max && counts) set_int(node, "count_include_pad", 1);
    });
  }

  bool matrix_product(size_t from) {
    const RandomValue a = at(from);
    const int64_t inner = a.shape().empty() ? 0 : a.shape().back();
    if (inner == 0) return false;
    const int64_t rows = a.tensor.size() / inner;
    if (a.rank() == 2 && chance(40)) return gemm(a);
    if (chance(35)) {  // with a value: its own transpose, or whatever fits
      const RandomValue b = pick_value();
      const bool fits =
          b.rank() >= 2 && a.rank() >= 2 && b.shape()[b.shape().size() - 2] == inner &&
          std::equal(a.shape().rbegin() + 2, a.shape().rend(), b.shape().rbegin() + 2, b.shape().rend());
      if (fits && rows * inner * b.shape().back() <= kMostProducts)
        return finish("MatMul", {a.name, b.name}, a.magnitude * b.magnitude * static_cast<double>(inner) / 4);
      if (a.rank() < 2 || rows * inner * a.shape()[a.shape().size() - 2] > kMostProducts ||
          a.magnitude * a.magnitude * static_cast<double>(inner) / 4 > kMostMagnitude)
        return false;
      std::vector<int64_t> order(a.shape().size());
      std::iota(order.begin(), order.end(), 0);
      std::swap(order[order.size() - 1], order[order.size() - 2]);
      const std::string turned =
          step("Transpose", {a.name}, [&](onnx::NodeProto& node) { set_ints(node, "perm", order); });
      const bool turned_first = chance(50);
      return finish("MatMul", turned_first ? std::vector{turned, a.name} : std::vector{a.name, turned},
                    a.magnitude * a.magnitude * static_cast<double>(inner) / 4);
    }
    const double scale = 1.7 / std::sqrt(static_cast<double>(inner));
    if (chance(10) && a.rank() >= 2) {  // the constant first
      const int64_t depth = a.shape()[a.shape().size() - 2];
      const int64_t count = extent(33);
      if (count * a.tensor.size() > kMostProducts) return false;
      return finish("MatMul", {constant({count, depth}, 1.7 / std::sqrt(static_cast<double>(depth))), a.name},
                    a.magnitude + 1);
    }
    Shape shape{inner, extent(100)};
    if (chance(8)) shape = {inner};
    if (chance(10) && a.rank() > 2 && shape.size() == 2)
      shape.insert(shape.begin(), a.shape().begin(), a.shape().end() - 2);  // a matrix each
    if (rows * product_of(shape) > kMostProducts * (shape.size() > 2 ? a.shape()[0] : 1) ||
        product_of(shape) > 20000)
      return false;
    if (chance(50)) {
      const std::string product = step("MatMul", {a.name, constant(shape, scale)});
      return finish("Add", {product, constant({shape.size() == 1 ? 1 : shape.back()}, 1)}, a.magnitude + 1);
    }
    return finish("MatMul", {a.name, constant(shape, scale)}, a.magnitude + 1);
  }

  bool gemm(const RandomValue& a) {
    const bool transposes_a = chance(20);
    const bool transposes_b = chance(50);
    const int64_t rows = a.shape()[transposes_a ? 1 : 0];
    const int64_t inner = a.shape()[transposes_a ? 0 : 1];
    std::string b;
    int64_t columns = extent(100);
    double magnitude = a.magnitude + 1;
    if (chance(20)) {
      for (const RandomValue& value : values()) {
        if (value.rank() != 2 || value.shape()[transposes_b ? 1 : 0] != inner) continue;
        b = value.name;
        columns = value.shape()[transposes_b ? 0 : 1];
        magnitude = a.magnitude * value.magnitude * static_cast<double>(inner) / 4;
      }
      if (magnitude > kMostMagnitude) return false;
    }
    if (rows * inner * columns > kMostProducts || inner * columns > 20000) return false;
    if (b.empty())
      b = constant(transposes_b ? Shape{columns, inner} : Shape{inner, columns},
                   1.7 / std::sqrt(static_cast<double>(inner)));
    std::vector<std::string> inputs{a.name, b};
    if (chance(70))
      inputs.push_back(
          constant(pick(std::vector<Shape>{{columns}, {1, columns}, {rows, 1}, {}, {rows, columns}}), 1));
    const bool scaled = chance(20);
    return finish("Gemm", inputs, magnitude, [&](onnx::NodeProto& node) {
      if (transposes_a) set_int(node, "transA", 1);
      if (transposes_b) set_int(node, "transB", 1);
      if (scaled) set_real(node, "alpha", 0.5);
      if (scaled) set_real(node, "beta", 2);
    });
  }

  /// As PyTorch exports it: [batch, tokens, features], or tokens first and heads beside the batch.
  bool attention(size_t from) {
    const RandomValue x = at(from);
    if (x.rank() != 3) return false;
    const int64_t features = x.shape()[2];
    const bool tokens_first = chance(30);
    const int64_t batch = x.shape()[tokens_first ? 1 : 0];
    const int64_t tokens = x.shape()[tokens_first ? 0 : 1];
    int64_t heads = number(1, std::min<int64_t>(features, 4));
    while (features % heads != 0) --heads;
    const int64_t depth = features / heads;
    if (batch * tokens * features * (features + tokens) > kMostProducts || features > 100 ||
        batch * heads * tokens * tokens > kMostElements)
      return false;
    const auto perm = [](const std::vector<int64_t>& order) {
      return [order](onnx::NodeProto& node) { set_ints(node, "perm", order); };
    };
    const double scale = 1.7 / std::sqrt(static_cast<double>(features));
    const bool biased = chance(70);
    const auto project = [&](const std::string& value) {
      const std::string product = step("MatMul", {value, constant({features, features}, scale)});
      return biased ? step("Add", {product, constant({features}, 0.5)}) : product;
    };
    const bool one_product = chance(25);
    std::array<std::string, 3> parts;
    if (one_product) {
      const std::string all = step("MatMul", {x.name, constant({features, 3 * features}, scale)});
      const std::vector<std::string> three =
          steps("Split", {all, integers({features, features, features})}, 3,
                [](onnx::NodeProto& node) { set_int(node, "axis", 2); });
      std::copy(three.begin(), three.end(), parts.begin());
    } else {
      for (std::string& part : parts) part = project(x.name);
    }
    std::string q, k, v;
    if (tokens_first) {
      const std::string shape = integers({tokens, batch * heads, depth});
      q = step("Transpose", {step("Reshape", {parts[0], shape})}, perm({1, 0, 2}));
      k = step("Transpose", {step("Reshape", {parts[1], shape})}, perm({1, 2, 0}));
      v = step("Transpose", {step("Reshape", {parts[2], shape})}, perm({1, 0, 2}));
    } else {
      const std::string shape = integers({0, -1, heads, depth});
      q = step("Transpose", {step("Reshape", {parts[0], shape})}, perm({0, 2, 1, 3}));
      k = step("Transpose", {step("Reshape", {parts[1], shape})}, perm({0, 2, 3, 1}));
      v = step("Transpose", {step("Reshape", {parts[2], shape})}, perm({0, 2, 1, 3}));
    }
    const double factor = 1 / std::sqrt(static_cast<double>(depth));
    if (chance(50)) {
      q = step("Mul", {q, scalar(factor)});
    }
    std::string scores = step("MatMul", {q, k});
    if (chance(40)) scores = step("Div", {scores, scalar(1 / factor)});
    if (chance(30)) {  // what comes later is not seen
      Tensor mask(onnx::TensorProto_DataType_FLOAT, {tokens, tokens});
      const float hidden = chance(50) ? -std::numeric_limits<float>::infinity() : -1e4F;
      for (int64_t row = 0; row < tokens; ++row) {
        for (int64_t column = row + 1; column < tokens; ++column)
          mask.data<float>()[static_cast<size_t>(row * tokens + column)] = hidden;
      }
      scores = step("Add", {scores, add_constant(mask)});
    }
    const std::string weights =
        step("Softmax", {scores}, [](onnx::NodeProto& node) { set_int(node, "axis", -1); });
    std::string result = step("MatMul", {weights, v});
    result = step("Transpose", {result}, tokens_first ? perm({1, 0, 2}) : perm({0, 2, 1, 3}));
    result = step("Reshape", {result, tokens_first ? integers({tokens, batch, features})
                                                   : integers({batch, tokens, features})});
    if (chance(70)) result = project(result);
    if (chance(50)) return finish("Add", {x.name, result}, x.magnitude + 4);
    return finish("Identity", {result}, x.magnitude);
  }

  bool normalization(size_t from) {
    const RandomValue x = at(from);
    if (x.rank() < 1) return false;
    const int64_t rank = x.rank();
    switch (number(0, 5)) {
      case 0: {
        const int64_t axis = number(-rank, rank - 1);
        return finish(chance(85) ? "Softmax" : "LogSoftmax", {x.name}, x.magnitude + 4,
                      [&](onnx::NodeProto& node) { set_int(node, "axis", axis); });
      }
      case 1:
      case 2: {
        const int64_t axis = chance(75) ? rank - 1 : number(0, rank - 1);
        const Shape shape(x.shape().begin() + axis, x.shape().end());
        if (product_of(shape) < 3) return false;
        std::vector<std::string> inputs{x.name, constant(shape, 1.5, 0.5)};
        if (chance(80)) inputs.push_back(constant(shape, 1));
        return finish("LayerNormalization", inputs, 4,
                      [&](onnx::NodeProto& node) { set_int(node, "axis", chance(50) ? axis : axis - rank); });
      }
      case 3: {
        if (rank < 3) return false;
        const Shape shape{x.shape()[1]};
        if (chance(50) && product_of(x.shape(), 2) > 2)
          return finish("InstanceNormalization", {x.name, constant(shape, 1.5, 0.5), constant(shape, 1)}, 4);
        return finish("BatchNormalization",
                      {x.name, constant(shape, 1.5, 0.5), constant(shape, 1), constant(shape, 1),
                       constant(shape, 2, 0.5)},
                      2 * x.magnitude + 2);
      }
      case 4: {  // by the root of the mean of squares
        if (x.shape().back() < 2) return false;
        const std::string square =
            chance(50) ? step("Mul", {x.name, x.name}) : step("Pow", {x.name, scalar(2)});
        const std::string mean = step("ReduceMean", {square}, [](onnx::NodeProto& node) {
          set_ints(node, "axes", {-1});
          set_int(node, "keepdims", 1);
        });
        const std::string root = step("Sqrt", {step("Add", {mean, scalar(0.01)})});
        return finish("Div", {x.name, root}, 4);
      }
      default: {  // the same as a chain of operators
        if (x.shape().back() < 3) return false;
        const auto mean = [](onnx::NodeProto& node) { set_ints(node, "axes", {-1}); };
        const std::string centered = step("Sub", {x.name, step("ReduceMean", {x.name}, mean)});
        const std::string variance = step("ReduceMean", {step("Pow", {centered, scalar(2)})}, mean);
        const std::string root = step("Sqrt", {step("Add", {variance, scalar(0.01)})});
        return finish("Mul", {step("Div", {centered, root}), constant({x.shape().back()}, 1)}, 4);
      }
    }
  }

  bool element_wise(size_t from) {
    const RandomValue x = at(from);
    const auto set = [](const char* name, double value) {
      return [=](onnx::NodeProto& node) { set_real(node, name, value); };
    };
    const double m = x.magnitude;
    switch (number(0, 19)) {
      case 0:
      case 1:
      case 2:
        return finish("Relu", {x.name}, m);
      case 3:
        return finish("Sigmoid", {x.name}, 1);
      case 4:
        return finish("Tanh", {x.name}, 1);
      case 5:
        return finish("LeakyRelu", {x.name}, m, set("alpha", 0.1));
      case 6:
        return finish(pick(std::array<const char*, 4>{"Elu", "Selu", "Softplus", "Softsign"}), {x.name},
                      m + 1);
      case 7:
        return finish("HardSigmoid", {x.name}, 1);
      case 8:
        return finish("HardSwish", {x.name}, m);
      case 9:
        return finish(pick(std::array<const char*, 4>{"Abs", "Neg", "Erf", "Identity"}), {x.name}, m);
      case 10:
        if (m > 8) return finish("Exp", {step("Tanh", {x.name})}, 3, {}, true);
        return finish("Exp", {step("Mul", {x.name, scalar(0.25)})}, std::exp(m / 4));
      case 11: {
        const std::string base = x.is_positive ? x.name : step("Add", {step("Abs", {x.name}), scalar(0.25)});
        return finish(pick(std::array<const char*, 3>{"Sqrt", "Log", "Reciprocal"}), {base},
                      x.is_positive ? 20 : 5);
      }
      case 12: {
        const std::string low = chance(80) ? scalar(0) : "";
        return finish("Clip", {x.name, low, chance(80) || low.empty() ? scalar(6) : ""}, std::min(m, 6.0));
      }
      case 13: {  // GELU
        const std::string erf = step("Erf", {step("Div", {x.name, scalar(1.41421354)})});
        return finish("Mul", {step("Mul", {x.name, step("Add", {erf, scalar(1)})}), scalar(0.5)}, m);
      }
      case 14:
        return finish("Mul", {x.name, step("Sigmoid", {x.name})}, m);
      case 15:
        if (m * m > kMostMagnitude) return false;
        return finish("Pow", {x.name, scalar(chance(70) ? 2 : 3)}, m * m * (m < 7 ? m : 1));
      case 16:
        return finish("PRelu", {x.name, constant(slope_shape(x.shape()), 0.5)}, m);
      case 17: {
        const RandomValue* input = nullptr;  // comparisons of what has no rounding error
        for (const RandomValue& value : values()) {
          if (value.is_input && value.shape() == x.shape()) input = &value;
        }
        if (input == nullptr) return false;
        const std::string input_name = input->name;
        const std::string mask = step(chance(50) ? "Less" : "Greater", {input_name, scalar(0.1)});
        return finish("Where", {mask, x.name, chance(50) ? scalar(0.5) : input_name}, m + 4);
      }
      case 18:
        return finish("Mul", {x.name, scalar(m > 20 ? 1 / m : 0.75)}, m > 20 ? 1 : m);
      default:
        return binary(from);
    }
  }
  Shape slope_shape(const Shape& shape) {
    if (shape.empty()) return {};
    if (shape.size() < 2 || chance(30)) return {1};
    Shape slope(shape.size() - 1, 1);
    slope[0] = shape[1];
    return slope;
  }

  /// Some axes are one or not there.
  Shape broadcast_shape(Shape shape) {
    for (int64_t& each : shape) each = chance(40) ? 1 : each;
    while (!shape.empty() && chance(20)) shape.erase(shape.begin());
    return shape;
  }

  bool binary(size_t from) {
    const RandomValue x = at(from);
    std::vector<std::string> others;
    double magnitude = 1;
    bool is_positive = false;
    for (int64_t tries = 0; tries < 6 && others.empty(); ++tries) {
      const RandomValue& other = pick_value();
      const bool fits = other.rank() <= x.rank() &&
                        std::equal(other.shape().rbegin(), other.shape().rend(), x.shape().rbegin(),
                                   [](int64_t a, int64_t b) { return a == b || a == 1 || b == 1; });
      if (!fits || (other.name == x.name && !chance(10))) continue;
      others = {other.name};
      magnitude = other.magnitude;
      is_positive = other.is_positive;
    }
    if (others.empty() || chance(30)) {
      is_positive = chance(40);
      others = {constant(broadcast_shape(x.shape()), 2, is_positive ? 0.5 : -2.0)};
      magnitude = 2;
    }
    const double sum = x.magnitude + magnitude;
    std::vector<std::string> both{x.name, others[0]};
    const int64_t kind = number(0, 9);
    if (kind != 4 && chance(30)) std::swap(both[0], both[1]);
    switch (kind) {
      case 0:
      case 1:
      case 2:
        return finish("Add", both, sum);
      case 3:
        return finish("Sub", both, sum);
      case 4:
        if (!is_positive) return false;
        return finish("Div", both, 3 * x.magnitude);
      case 5:
      case 6:
        if (x.magnitude * magnitude > kMostMagnitude) return false;
        return finish("Mul", both, x.magnitude * magnitude);
      case 7:
        return finish(chance(50) ? "Max" : "Min", both, sum);
      case 8:
        both.push_back(constant(broadcast_shape(x.shape()), 1));
        return finish(chance(50) ? "Sum" : "Mean", both, sum + 1);
      default:
        return finish("Add", both, sum);
    }
  }

  bool residual(size_t from) {
    const RandomValue x = at(from);
    std::vector<RandomValue> same;
    for (const RandomValue& value : values()) {
      if (value.shape() == x.shape() && value.name != x.name) same.push_back(value);
    }
    if (same.empty()) return false;
    const RandomValue other = pick(same);
    if (chance(40)) {
      const std::string sum = step("Add", {x.name, other.name});
      return finish("Relu", {sum}, x.magnitude + other.magnitude);
    }
    return finish("Add", {x.name, other.name}, x.magnitude + other.magnitude);
  }

  bool reduction(size_t from) {
    const RandomValue x = at(from);
    if (x.rank() == 0) return false;
    std::vector<int64_t> axes = some_axes(x.rank());
    if (chance(50)) axes = {x.rank() - 1};
    int64_t count = 1;
    for (const int64_t axis : axes) count *= x.shape()[static_cast<size_t>(axis)];
    const std::string op = pick(std::array<const char*, 10>{
        "ReduceMean", "ReduceMean", "ReduceSum", "ReduceSum", "ReduceMax", "ReduceMin", "ReduceL1",
        "ReduceL2", "ReduceSumSquare", "ReduceLogSumExp"});
    const double n = static_cast<double>(count);
    double magnitude = x.magnitude;
    if (op == "ReduceSum" || op == "ReduceL1") magnitude *= n / 2;
    if (op == "ReduceL2") magnitude *= std::sqrt(n);
    if (op == "ReduceSumSquare") magnitude *= magnitude * n / 2;
    if (op == "ReduceLogSumExp") magnitude += std::log(n);
    if (magnitude > 20 * kMostMagnitude || (op == "ReduceLogSumExp" && x.magnitude > 60)) return false;
    const bool keeps = chance(60);
    if (op == "ReduceSum") {  // whose axes are an operand
      const std::string list = integers(axes);
      return finish(op, {x.name, list}, magnitude,
                    [&](onnx::NodeProto& node) { set_int(node, "keepdims", keeps ? 1 : 0); });
    }
    return finish(op, {x.name}, magnitude, [&](onnx::NodeProto& node) {
      set_ints(node, "axes", axes);
      set_int(node, "keepdims", keeps ? 1 : 0);
    });
  }

  bool movement(size_t from) {
    const RandomValue x = at(from);
    const Shape& shape = x.shape();
    const int64_t rank = x.rank();
    if (rank == 0) return false;
    const auto axis = static_cast<size_t>(number(0, rank - 1));
    const auto with_axis = [axis](onnx::NodeProto& node) {
      set_int(node, "axis", static_cast<int64_t>(axis));
    };
    const double m = x.magnitude;
    switch (number(0, 13)) {
      case 0:
      case 1: {
        std::vector<int64_t> order(shape.size());
        std::iota(order.begin(), order.end(), 0);
        shuffle(order);
        return finish(
            "Transpose", {x.name}, m, [&](onnx::NodeProto& node) { set_ints(node, "perm", order); },
            x.is_positive);
      }
      case 2:
      case 3:
        return reshape(x);
      case 4:
      case 5: {
        std::vector<int64_t> begins, ends, steps;
        const std::vector<int64_t> axes = some_axes(rank);
        for (const int64_t each : axes) {
          const int64_t size = shape[static_cast<size_t>(each)];
          const int64_t begin = number(0, size - 1);
          const int64_t end = number(begin + 1, size);
          const int64_t stride = chance(70) ? 1 : number(2, 3);
          const bool falls = chance(10);
          begins.push_back(falls ? end - 1 : begin);
          ends.push_back(falls ? begin - 1 - size : chance(10) ? std::numeric_limits<int64_t>::max() : end);
          if (falls && begin == 0) ends.back() = std::numeric_limits<int64_t>::min();
          steps.push_back(falls ? -stride : stride);
        }
        return finish("Slice", {x.name, integers(begins), integers(ends), integers(axes), integers(steps)},
                      m);
      }
      case 6: {
        if (shape[axis] < 2) return false;
        const int64_t cut = number(1, shape[axis] - 1);
        return finish_all("Split", {x.name, integers({cut, shape[axis] - cut})}, 2, m, with_axis);
      }
      case 7: {
        std::vector<int64_t> pads;
        for (int64_t k = 0; k < 2 * rank; ++k) pads.push_back(chance(50) ? 0 : number(0, 3));
        const int64_t kind = number(0, 3);
        if (kind >= 2) {  // no more than there is to mirror
          for (size_t k = 0; k < pads.size(); ++k) pads[k] = std::min(pads[k], shape[k % shape.size()] - 1);
        }
        std::vector<std::string> inputs{x.name, integers(pads)};
        if (kind == 1) inputs.push_back(scalar(0.5));
        return finish("Pad", inputs, m, [&](onnx::NodeProto& node) {
          if (kind >= 2) set_text(node, "mode", kind == 2 ? "reflect" : "edge");
        });
      }
      case 8: {
        Shape target = shape;
        for (int64_t& each : target) each = each == 1 && chance(60) ? number(2, 5) : each;
        if (chance(30)) target.insert(target.begin(), number(1, 3));
        return finish("Expand", {x.name, integers(target)}, m);
      }
      case 9: {
        std::vector<int64_t> repeats(shape.size(), 1);
        repeats[axis] = number(2, 3);
        return finish("Tile", {x.name, integers(repeats)}, m);
      }
      case 10: {
        std::vector<int64_t> indices(static_cast<size_t>(number(1, 6)));
        for (int64_t& each : indices) each = number(-shape[axis], shape[axis] - 1);
        return finish("Gather", {x.name, integers(indices)}, m, with_axis);
      }
      case 11: {
        if (rank != 4) return false;
        if (shape[1] % 4 == 0)
          return finish("DepthToSpace", {x.name}, m, [&](onnx::NodeProto& node) {
            set_int(node, "blocksize", 2);
            if (chance(50)) set_text(node, "mode", "CRD");
          });
        if (shape[2] % 2 != 0 || shape[3] % 2 != 0) return false;
        return finish("SpaceToDepth", {x.name}, m,
                      [](onnx::NodeProto& node) { set_int(node, "blocksize", 2); });
      }
      case 12:
        if (rank < 2) return false;
        return finish("Flatten", {x.name}, m, with_axis);
      default: {
        if (chance(50) && rank < 5) return finish("Unsqueeze", {x.name, integers({number(0, rank)})}, m);
        if (shape[axis] != 1) return false;
        return finish("Squeeze", {x.name, integers({static_cast<int64_t>(axis)})}, m);
      }
    }
  }

  bool reshape(const RandomValue& x) {
    Shape shape = x.shape();
    for (int64_t changes = number(1, 3); changes > 0; --changes) {
      if (shape.size() > 1 && chance(50)) {  // two axes become one
        const auto k = static_cast<size_t>(number(0, static_cast<int64_t>(shape.size()) - 2));
        shape[k] *= shape[k + 1];
        shape.erase(shape.begin() + static_cast<ptrdiff_t>(k) + 1);
      } else if (shape.size() < 5) {
        const auto k = static_cast<size_t>(number(0, static_cast<int64_t>(shape.size()) - 1));
        int64_t factor = number(1, std::max<int64_t>(1, shape[k] / 2));
        while (shape[k] % factor != 0) --factor;
        shape[k] /= factor;
        shape.insert(shape.begin() + static_cast<ptrdiff_t>(k) + number(0, 1), factor);
      }
    }
    std::vector<int64_t> target = shape;
    if (chance(30)) target[static_cast<size_t>(number(0, static_cast<int64_t>(shape.size()) - 1))] = -1;
    if (target[0] == x.shape()[0] && chance(30)) target[0] = 0;
    return finish("Reshape", {x.name, integers(target)}, x.magnitude, {}, x.is_positive);
  }

  bool concatenation(size_t from) {
    const RandomValue x = at(from);
    if (x.rank() == 0) return false;
    const auto axis =
        static_cast<size_t>(chance(70) ? std::min<int64_t>(1, x.rank() - 1) : number(0, x.rank() - 1));
    std::vector<std::string> inputs{x.name};
    double magnitude = x.magnitude;
    for (const RandomValue& value : values()) {
      if (value.rank() != x.rank() || inputs.size() > 3 || !chance(60)) continue;
      bool fits = true;
      for (size_t k = 0; k < value.shape().size(); ++k) fits &= k == axis || value.shape()[k] == x.shape()[k];
      if (!fits) continue;
      inputs.push_back(value.name);
      magnitude = std::max(magnitude, value.magnitude);
    }
    if (inputs.size() < 2 || chance(10)) {
      Shape shape = x.shape();
      shape[axis] = number(1, 5);
      inputs.push_back(chance(70) || product_of(shape) > 3000 ? x.name : constant(shape, 1));
    }
    shuffle(inputs);
    const bool is_negative = chance(20);
    return finish("Concat", inputs, magnitude, [&](onnx::NodeProto& node) {
      set_int(node, "axis", static_cast<int64_t>(axis) - (is_negative ? x.rank() : 0));
    });
  }

  // ---- blocks of well-known networks

  /// A node that others may read, now and then.
  std::string layer(const std::string& op, const std::vector<std::string>& inputs,
                    const NodeAttributes& attributes = {}) {
    if (!chance(15)) return step(op, inputs, attributes);
    if (!finish(op, inputs, 8, attributes)) throw TooLarge();
    return values().back().name;
  }
  std::string activation(const std::string& x) {
    switch (number(0, 6)) {
      case 0:
        return x;
      case 1:
        return layer("Clip", {x, scalar(0), scalar(6)});
      case 2:
        return layer("HardSwish", {x});
      case 3:
        return layer("Mul", {x, step("Sigmoid", {x})});
      default:
        return layer("Relu", {x});
    }
  }
  /// A convolution that keeps rows and columns but for its stride; then normalization or a bias, or neither.
  std::string same_convolution(const std::string& x, int64_t channels, int64_t features, int64_t kernel,
                               int64_t stride = 1, int64_t groups = 1) {
    const int64_t fan = channels / groups * kernel * kernel;
    if (features * fan * positions_ > kMostProducts || features * fan > 20000) throw TooLarge();
    std::vector<std::string> inputs{x, constant({features, channels / groups, kernel, kernel},
                                                1.7 / std::sqrt(static_cast<double>(fan)))};
    const int64_t form = number(0, 3);
    if (form == 0) inputs.push_back(constant({features}, 1));
    const std::string result = layer("Conv", inputs, [&](onnx::NodeProto& node) {
      set_ints(node, "kernel_shape", {kernel, kernel});
      set_ints(node, "strides", {stride, stride});
      set_ints(node, "pads", {kernel / 2, kernel / 2, kernel / 2, kernel / 2});
      set_int(node, "group", groups);
    });
    if (form < 2) return result;
    const std::string scale = constant({features}, 1.5, 0.5);
    const std::string shift = constant({features}, 1);
    const std::string mean = constant({features}, 1);
    return layer("BatchNormalization", {result, scale, shift, mean, constant({features}, 2, 0.5)});
  }
  int64_t features_of_block() {
    return chance(50) ? pick(std::array<int64_t, 5>{16, 32, 32, 64, 96}) : extent(65);
  }

  /// As in ResNet, MobileNet, squeeze-and-excitation, GoogLeNet.
  bool picture_block(size_t from) {
    const RandomValue x = at(from);
    if (x.rank() != 4) return false;
    const int64_t channels = x.shape()[1];
    positions_ = product_of(x.shape()) / channels;
    const int64_t stride = chance(70) ? 1 : 2;
    switch (number(0, 3)) {
      case 0: {
        const int64_t features = stride == 1 && chance(60) ? channels : features_of_block();
        std::string way =
            activation(same_convolution(x.name, channels, features, chance(70) ? 3 : 1, stride));
        way = same_convolution(way, features, features, 3);
        std::string past = x.name;
        if (features != channels || stride != 1)
          past = same_convolution(x.name, channels, features, 1, stride);
        const std::string sum = layer("Add", chance(50) ? std::vector{way, past} : std::vector{past, way});
        return finish("Relu", {sum}, x.magnitude + 4);
      }
      case 1: {
        const int64_t wide = channels * number(1, 4);
        const int64_t features = stride == 1 && chance(60) ? channels : features_of_block();
        std::string way = activation(same_convolution(x.name, channels, wide, 1));
        way = activation(same_convolution(way, wide, wide, chance(60) ? 3 : 5, stride, wide));
        way = same_convolution(way, wide, features, 1);
        if (features != channels || stride != 1) return finish("Identity", {way}, 8);
        return finish("Add", {x.name, way}, x.magnitude + 4);
      }
      case 2: {
        const int64_t few = number(1, std::max<int64_t>(1, channels / 2));
        std::string gate = step("GlobalAveragePool", {x.name});
        positions_ = x.shape()[0];
        gate = activation(same_convolution(gate, channels, few, 1));
        gate = same_convolution(gate, few, channels, 1);
        gate = step(chance(50) ? "Sigmoid" : "HardSigmoid", {gate});
        return finish("Mul", {x.name, gate}, x.magnitude);
      }
      default: {
        std::vector<std::string> ways;
        for (int64_t count = number(2, 4); count > 0; --count) {
          const int64_t features = features_of_block();
          const int64_t kernel = pick(std::array<int64_t, 4>{1, 1, 3, 5});
          std::string way = x.name;
          if (kernel == 1 && chance(40)) {
            way = layer("MaxPool", {way}, [](onnx::NodeProto& node) {
              set_ints(node, "kernel_shape", {3, 3});
              set_ints(node, "pads", {1, 1, 1, 1});
            });
          }
          ways.push_back(activation(same_convolution(way, channels, features, kernel)));
        }
        return finish("Concat", ways, x.magnitude + 4,
                      [](onnx::NodeProto& node) { set_int(node, "axis", 1); });
      }
    }
  }

  /// The other half of a transformer's layer.
  bool feed_forward(size_t from) {
    const RandomValue x = at(from);
    if (x.rank() < 2 || x.shape().back() < 3) return false;
    const int64_t features = x.shape().back();
    const int64_t wide = chance(60) ? 2 * features : extent(100);
    if (x.tensor.size() * wide > kMostProducts || features * wide > 20000) return false;
    const auto norm = [&](const std::string& value) {
      const std::string scale = constant({features}, 1.5, 0.5);
      return layer("LayerNormalization", {value, scale, constant({features}, 1)},
                   [](onnx::NodeProto& node) { set_int(node, "axis", -1); });
    };
    const auto product = [&](const std::string& value, int64_t inner, int64_t count) {
      const std::string weights = constant({inner, count}, 1.7 / std::sqrt(static_cast<double>(inner)));
      const std::string result = layer("MatMul", {value, weights});
      return layer("Add", {constant({count}, 1), result});
    };
    const bool norm_first = chance(50);
    std::string way = norm_first ? norm(x.name) : x.name;
    way = product(way, features, wide);
    if (chance(50)) {
      const std::string erf = step("Erf", {step("Div", {way, scalar(1.41421354)})});
      way = step("Mul", {step("Mul", {way, step("Add", {erf, scalar(1)})}), scalar(0.5)});
    } else {
      way = activation(way);
    }
    way = product(way, wide, features);
    const std::string sum = layer("Add", {x.name, way});
    return finish("Identity", {norm_first ? sum : norm(sum)}, x.magnitude + 4);
  }

  // ---- the graph

  /// Adds an operator, or a block of them; false if what is picked doesn't fit.
  bool grow(int64_t theme) {
    const size_t from = pick_index();
    const bool is_picture = theme <= 5;
    const bool is_tokens = theme == 6 || theme == 7;
    const int64_t kind = number(0, 99);
    if (theme <= 3 && kind < 20) return picture_block(from);
    if (is_tokens && kind >= 90) return feed_forward(from);
    if (is_picture && kind < 45) return kind < 33 ? convolution(from) : pool(from);
    if (is_tokens && kind < 45)
      return kind < 15 ? attention(from) : kind < 30 ? matrix_product(from) : normalization(from);
    switch (number(0, 15)) {
      case 0:
        return convolution(from);
      case 1:
        return pool(from);
      case 2:
        return matrix_product(from);
      case 3:
      case 4:
        return normalization(from);
      case 5:
      case 6:
        return element_wise(from);
      case 7:
        return binary(from);
      case 8:
        return residual(from);
      case 9:
        return reduction(from);
      case 10:
      case 11:
        return movement(from);
      case 12:
        return concatenation(from);
      case 13:
      case 14:
        return add_rare_operator(*this, from);
      default:
        return chance(50) ? attention(from) : feed_forward(from);
    }
  }

  /// What nobody reads, and some of what is read.
  std::vector<std::string> outputs() {
    std::vector<std::string> names;
    for (const RandomValue& value : values()) {
      const bool is_last = &value == &values().back();
      if (!value.is_input && (value.readers == 0 || is_last || chance(12))) names.push_back(value.name);
    }
    shuffle(names);
    return names;
  }

  int64_t positions_ = 1;  ///< of a block's results, at most
};

}  // namespace

onnx::ModelProto random_graph(uint64_t seed) {
  return RandomGraph(seed).make();
}

}  // namespace kodama::compiler
