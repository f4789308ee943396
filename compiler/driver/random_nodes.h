#pragma once

#include <onnx/onnx_pb.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "compiler/reference/executor.h"

/// What random models are written with: choices, values, constants and nodes. Private to compiler/driver.
namespace kodama::compiler {

/// Of a tensor, so that a graph is compiled and run in a fraction of a second.
inline constexpr int64_t kMostElements = 8000;

/// A tensor that nodes may read.
struct RandomValue {
  std::string name;
  Tensor tensor = {};        ///< what it is for inputs of zeros; only its shape counts
  double magnitude = 1;      ///< a rough estimate of the largest
  bool is_positive = false;  ///< at least 0.05 everywhere
  bool is_input = false;
  int readers = 0;

  const Shape& shape() const { return tensor.shape(); }
  int64_t rank() const { return tensor.rank(); }
};

/// Integers that are the same everywhere: the standard's distributions are implementation defined. Where two
/// choices are arguments of a function, their order isn't defined either.
class RandomChoices {
 public:
  explicit RandomChoices(uint64_t seed) : engine_(seed) {}

  int64_t number(int64_t low, int64_t high) {
    return low + static_cast<int64_t>(engine_() % static_cast<uint64_t>(high - low + 1));
  }
  bool chance(int64_t percent) { return number(0, 99) < percent; }
  template <typename List>
  auto pick(const List& list) {
    return list[static_cast<size_t>(number(0, static_cast<int64_t>(list.size()) - 1))];
  }
  template <typename Each>
  void shuffle(std::vector<Each>& list) {
    for (size_t k = list.size(); k > 1; --k)
      std::swap(list[k - 1], list[static_cast<size_t>(number(0, static_cast<int64_t>(k) - 1))]);
  }
  /// One of the extents around what units, blocks of matrices and rows of memories hold, up to `most`.
  int64_t extent(int64_t most);
  /// At least one axis, in their order.
  std::vector<int64_t> some_axes(int64_t rank);
  /// Extents fall until the tensor is small enough.
  Shape fitting(Shape shape, int64_t most = kMostElements / 2);

 private:
  std::mt19937_64 engine_;
};

using NodeAttributes = std::function<void(onnx::NodeProto&)>;
void set_int(onnx::NodeProto& node, const std::string& name, int64_t value);
void set_real(onnx::NodeProto& node, const std::string& name, double value);
void set_text(onnx::NodeProto& node, const std::string& name, const std::string& value);

/// A model that grows node by node. Each node is run on the CPU reference, which says its shape.
class RandomNodes : public RandomChoices {
 public:
  explicit RandomNodes(uint64_t seed);

  // ---- values

  const std::vector<RandomValue>& values() const { return values_; }
  const RandomValue& at(size_t index) const { return values_[index]; }
  /// The later, the likelier.
  size_t pick_index();
  const RandomValue& pick_value() { return values_[pick_index()]; }
  void add_input(const Shape& shape);
  int inputs() const { return inputs_; }
  int nodes() const { return model_.graph().node_size(); }

  // ---- constants, by their names

  std::string add_constant(const Tensor& tensor);
  /// Random numbers from -high to high, or from `low` to it. One that is there may be taken again.
  std::string constant(const Shape& shape, double high, std::optional<double> low = std::nullopt);
  std::string scalar(double value);
  std::string integers(const std::vector<int64_t>& numbers);

  // ---- nodes

  /// What step() throws.
  struct TooLarge {};
  /// A node inside a block of nodes: no other node and no output of the graph reads its results, whose names
  /// these are.
  std::vector<std::string> steps(const std::string& op, const std::vector<std::string>& inputs, int outputs,
                                 const NodeAttributes& attributes = {});
  std::string step(const std::string& op, const std::vector<std::string>& inputs,
                   const NodeAttributes& attributes = {}) {
    return steps(op, inputs, 1, attributes)[0];
  }
  /// A node whose results others may read. False, and no node, if a result is empty or too large.
  bool finish_all(const std::string& op, const std::vector<std::string>& inputs, int outputs,
                  double magnitude, const NodeAttributes& attributes = {}, bool is_positive = false);
  bool finish(const std::string& op, const std::vector<std::string>& inputs, double magnitude,
              const NodeAttributes& attributes = {}, bool is_positive = false) {
    return finish_all(op, inputs, 1, magnitude, attributes, is_positive);
  }
  /// Keeps what `add` adds if that returns true; else, and when it throws TooLarge, all is as before.
  void attempt(const std::function<bool()>& add);

  /// The model with these of the values as outputs.
  onnx::ModelProto finish_model(const std::vector<std::string>& outputs);

 private:
  struct Constant {
    std::string name;
    Tensor tensor;
    double low = 0;
    double high = 0;
  };

  const Tensor* find_tensor(const std::string& name) const;
  /// The results; empty, and no node, if one is empty or too large.
  std::vector<RandomValue> run(const std::string& op, const std::vector<std::string>& inputs, int outputs,
                               const NodeAttributes& attributes);

  OperatorSets operators_;
  onnx::ModelProto model_;
  std::vector<RandomValue> values_;  ///< that nodes may read
  std::vector<RandomValue> hidden_;  ///< inside of blocks
  std::vector<Constant> constants_;
  int inputs_ = 0;
  int numbers_ = 0;  ///< of values, also of those that are gone
};

}  // namespace kodama::compiler
