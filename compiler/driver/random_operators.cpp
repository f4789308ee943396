#include "compiler/driver/random_operators.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "compiler/graph/onnx_model.h"

namespace kodama::compiler {
namespace {

/// Rounding errors of what they are applied to don't decide what they give: only inputs have none.
bool is_step_function_safe(const RandomValue& x) {
  return x.is_input;
}

bool function(RandomNodes& nodes, const RandomValue& x) {
  const auto bounded = [&](double factor) {
    return nodes.step("Mul", {nodes.step("Tanh", {x.name}), nodes.scalar(factor)});
  };
  switch (nodes.number(0, 5)) {
    case 0:
      return nodes.finish(nodes.pick(std::array<const char*, 2>{"Sin", "Cos"}), {x.name}, 1);
    case 1:
      return nodes.finish(nodes.pick(std::array<const char*, 2>{"Atan", "Asinh"}), {x.name}, 6);
    case 2:
      return nodes.finish(nodes.pick(std::array<const char*, 3>{"Sinh", "Cosh", "Tan"}), {bounded(1.2)}, 3);
    case 3:
      return nodes.finish(nodes.pick(std::array<const char*, 3>{"Asin", "Acos", "Atanh"}), {bounded(0.9)}, 3);
    case 4: {
      const std::string base = nodes.step("Add", {nodes.step("Abs", {x.name}), nodes.scalar(1)});
      return nodes.finish("Acosh", {base}, 6);
    }
    default: {
      const std::string base = nodes.step("Add", {nodes.step("Abs", {bounded(2)}), nodes.scalar(0.25)});
      const Shape shape = x.shape().empty() ? Shape{} : Shape{x.shape().back()};
      return nodes.finish("Pow", {base, nodes.constant(shape, 2)}, 16);
    }
  }
}

bool step_function(RandomNodes& nodes, const RandomValue& x) {
  if (!is_step_function_safe(x)) return false;
  switch (nodes.number(0, 2)) {
    case 0:
      return nodes.finish("Round", {x.name}, x.magnitude);
    case 1:
      return nodes.finish("Mod", {x.name, nodes.scalar(0.75)}, 1,
                          [](onnx::NodeProto& node) { set_int(node, "fmod", 1); });
    default: {
      if (x.rank() == 0) return false;
      const int64_t axis = nodes.number(-x.rank(), x.rank() - 1);
      return nodes.finish("Hardmax", {x.name}, 1,
                          [&](onnx::NodeProto& node) { set_int(node, "axis", axis); });
    }
  }
}

bool running_sum(RandomNodes& nodes, const RandomValue& x) {
  if (x.rank() == 0) return false;
  const int64_t axis = nodes.number(0, x.rank() - 1);
  const double magnitude = x.magnitude * static_cast<double>(x.shape()[static_cast<size_t>(axis)]) / 2;
  const bool exclusive = nodes.chance(30);
  const bool reverse = nodes.chance(30);
  return nodes.finish("CumSum", {x.name, nodes.integers({axis})}, magnitude, [&](onnx::NodeProto& node) {
    if (exclusive) set_int(node, "exclusive", 1);
    if (reverse) set_int(node, "reverse", 1);
  });
}

bool of_pictures(RandomNodes& nodes, const RandomValue& x) {
  if (x.rank() < 3) return false;
  const int64_t p = nodes.number(1, 3);
  switch (nodes.number(0, 2)) {
    case 0: {
      const int64_t size = nodes.number(1, 5);
      return nodes.finish("LRN", {x.name}, x.magnitude, [&](onnx::NodeProto& node) {
        set_int(node, "size", size);
        set_real(node, "alpha", 0.1);
      });
    }
    case 1:
      return nodes.finish("GlobalLpPool", {x.name}, x.magnitude * 20,
                          [&](onnx::NodeProto& node) { set_int(node, "p", p); });
    default: {
      std::vector<int64_t> kernel;
      for (size_t axis = 2; axis < x.shape().size(); ++axis)
        kernel.push_back(nodes.number(1, std::min<int64_t>(3, x.shape()[axis])));
      return nodes.finish("LpPool", {x.name}, x.magnitude * 4, [&](onnx::NodeProto& node) {
        set_ints(node, "kernel_shape", kernel);
        set_int(node, "p", p);
      });
    }
  }
}

bool resize(RandomNodes& nodes, const RandomValue& x) {
  if (x.rank() < 3) return false;
  const std::string mode = nodes.pick(std::array<const char*, 3>{"nearest", "linear", "cubic"});
  const std::string coordinates = nodes.pick(
      std::array<const char*, 4>{"half_pixel", "pytorch_half_pixel", "asymmetric", "align_corners"});
  const std::string nearest =
      nodes.pick(std::array<const char*, 4>{"floor", "ceil", "round_prefer_floor", "round_prefer_ceil"});
  const bool all_alike = nodes.chance(60);
  const int64_t factor = nodes.number(1, 4);
  std::vector<int64_t> sizes = x.shape();
  for (size_t axis = 2; axis < sizes.size(); ++axis) {
    sizes[axis] = all_alike ? sizes[axis] * factor : nodes.number(1, 2 * sizes[axis] + 1);
  }
  return nodes.finish("Resize", {x.name, "", "", nodes.integers(sizes)}, 2 * x.magnitude,
                      [&](onnx::NodeProto& node) {
                        set_text(node, "mode", mode);
                        set_text(node, "coordinate_transformation_mode", coordinates);
                        set_text(node, "nearest_mode", nearest);
                      });
}

/// [steps, batch, features], with few steps.
bool recurrence(RandomNodes& nodes, const RandomValue& x) {
  constexpr int64_t kMostSteps = 5;
  if (x.rank() != 3 || x.shape()[0] > kMostSteps) return false;
  const std::string op = nodes.pick(std::array<const char*, 3>{"RNN", "GRU", "LSTM"});
  const int64_t gates = op == "RNN" ? 1 : op == "GRU" ? 3 : 4;
  const int64_t hidden = nodes.extent(33);
  const int64_t directions = nodes.number(1, 2);
  const int64_t width = x.shape()[2];
  const double scale = 1 / std::sqrt(static_cast<double>(hidden));
  std::vector<std::string> inputs = {x.name, nodes.constant({directions, gates * hidden, width}, scale),
                                     nodes.constant({directions, gates * hidden, hidden}, scale)};
  if (nodes.chance(60)) inputs.push_back(nodes.constant({directions, 2 * gates * hidden}, 0.5));
  const bool resets_last = nodes.chance(50);
  return nodes.finish(op, inputs, 1, [&](onnx::NodeProto& node) {
    set_int(node, "hidden_size", hidden);
    if (directions == 2) set_text(node, "direction", "bidirectional");
    if (op == "GRU" && resets_last) set_int(node, "linear_before_reset", 1);
  });
}

bool of_matrices(RandomNodes& nodes, const RandomValue& x) {
  if (x.rank() < 2) return false;
  const int64_t columns = x.shape().back();
  switch (nodes.number(0, 3)) {
    case 0: {
      const bool upper = nodes.chance(50);
      return nodes.finish("Trilu", {x.name}, x.magnitude,
                          [&](onnx::NodeProto& node) { set_int(node, "upper", upper ? 1 : 0); });
    }
    case 1: {
      const int64_t wide = nodes.extent(33);
      if (x.tensor.size() * wide > kMostElements * 16) return false;
      const std::string weights =
          nodes.constant({wide, columns}, 1.7 / std::sqrt(static_cast<double>(columns)));
      return nodes.finish("Einsum", {x.name, weights}, x.magnitude + 1,
                          [](onnx::NodeProto& node) { set_text(node, "equation", "...j,kj->...k"); });
    }
    case 2:
      return nodes.finish("Einsum", {x.name}, x.magnitude,
                          [](onnx::NodeProto& node) { set_text(node, "equation", "...ij->...ji"); });
    default: {
      std::vector<int64_t> lengths;
      for (int64_t k = 0; k < x.shape()[0]; ++k) lengths.push_back(nodes.number(1, x.shape()[1]));
      return nodes.finish("ReverseSequence", {x.name, nodes.integers(lengths)}, x.magnitude,
                          [](onnx::NodeProto& node) {
                            set_int(node, "batch_axis", 0);
                            set_int(node, "time_axis", 1);
                          });
    }
  }
}

std::string cast(RandomNodes& nodes, const std::string& from, DataType type) {
  return nodes.step("Cast", {from}, [&](onnx::NodeProto& node) { set_int(node, "to", type); });
}

/// Integers, bool, and indices that are data: all of it exact.
bool of_integers(RandomNodes& nodes, const RandomValue& x) {
  if (!is_step_function_safe(x) || x.rank() == 0) return false;
  using onnx::TensorProto;
  const DataType type =
      nodes.pick(std::array<DataType, 6>{TensorProto::INT8, TensorProto::UINT8, TensorProto::INT16,
                                         TensorProto::INT32, TensorProto::INT64, TensorProto::UINT32});
  const bool is_signed = type != TensorProto::UINT8 && type != TensorProto::UINT32;
  // Up to 100, where no type overflows.
  const std::string scaled = nodes.step("Mul", {x.name, nodes.scalar(100 / std::max(x.magnitude, 1.0))});
  const std::string a = cast(nodes, is_signed ? scaled : nodes.step("Abs", {scaled}), type);
  const int64_t axis = nodes.number(0, x.rank() - 1);
  const auto with_axis = [&](onnx::NodeProto& node) { set_int(node, "axis", axis); };
  const auto as_float = [&](const std::string& of, double magnitude) {
    return nodes.finish("Cast", {of}, magnitude,
                        [](onnx::NodeProto& node) { set_int(node, "to", TensorProto::FLOAT); });
  };
  const std::string b = nodes.step("Min", {a, cast(nodes, nodes.scalar(7), type)});
  switch (nodes.number(0, 7)) {
    case 0:
      return as_float(nodes.step(nodes.pick(std::array<const char*, 3>{"Sub", "Max", "Mul"}), {b, a}),
                      is_signed || type == TensorProto::UINT8 ? 32768.0 : 4294967296.0);
    case 1: {
      if (type == TensorProto::INT64) return false;
      const std::string divisor = nodes.step("Add", {b, cast(nodes, nodes.scalar(8), type)});
      return as_float(nodes.step(nodes.pick(std::array<const char*, 2>{"Div", "Mod"}), {a, divisor}), 256);
    }
    case 2: {
      const std::string is_less =
          nodes.step(nodes.pick(std::array<const char*, 3>{"Less", "Equal", "GreaterOrEqual"}), {a, b});
      return nodes.finish("Where", {is_less, x.name, nodes.scalar(0.5)}, std::max(x.magnitude, 0.5));
    }
    case 3: {
      const std::string large = nodes.step("Greater", {x.name, nodes.scalar(0.25)});
      const std::string odd = cast(nodes, a, TensorProto::BOOL);
      return as_float(nodes.step(nodes.pick(std::array<const char*, 3>{"And", "Or", "Xor"}), {large, odd}),
                      1);
    }
    case 4:
      return as_float(
          nodes.step(nodes.pick(std::array<const char*, 2>{"ArgMax", "ArgMin"}), {x.name}, with_axis),
          static_cast<double>(x.shape()[static_cast<size_t>(axis)]));
    case 5: {
      const std::string places =
          nodes.step("ArgMax", {x.name}, [&](onnx::NodeProto& node) { set_int(node, "axis", axis); });
      return nodes.finish("GatherElements", {x.name, places}, x.magnitude, with_axis);
    }
    case 6: {
      const std::string first = nodes.step("ArgMin", {x.name}, with_axis);
      const std::string flat = nodes.step("Reshape", {first, nodes.integers({-1})});
      return nodes.finish("Gather", {x.name, flat}, x.magnitude, with_axis);
    }
    default: {
      const int64_t count = nodes.number(1, x.shape()[static_cast<size_t>(axis)]);
      const std::vector<std::string> both =
          nodes.steps("TopK", {x.name, nodes.integers({count})}, 2, with_axis);
      return nodes.finish("Add", {both[0], cast(nodes, both[1], TensorProto::FLOAT)},
                          x.magnitude + static_cast<double>(x.shape()[static_cast<size_t>(axis)]));
    }
  }
}

}  // namespace

bool add_rare_operator(RandomNodes& nodes, size_t from) {
  const RandomValue x = nodes.at(from);
  switch (nodes.number(0, 10)) {
    case 0:
    case 1:
      return function(nodes, x);
    case 9:
    case 10:
      return of_integers(nodes, x);
    case 2:
      return step_function(nodes, x);
    case 3:
      return running_sum(nodes, x);
    case 4:
      return of_pictures(nodes, x);
    case 5:
    case 6:
      return resize(nodes, x);
    case 7:
      return recurrence(nodes, x);
    default:
      return of_matrices(nodes, x);
  }
}

}  // namespace kodama::compiler
