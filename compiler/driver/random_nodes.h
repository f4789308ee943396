#pragma once

#include <onnx/onnx_pb.h>

#include <concepts>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "compiler/reference/executor.h"

/// What random models are written with: choices, values, constants and nodes. Private to compiler/driver.
namespace kodama::compiler {

/// Numbers of floats that are compared: larger ones, and smaller ones that aren't zero, are of no use.
inline constexpr double kLargestFloat = 1e5;
inline constexpr double kSmallestFloat = 1e-20;

/// How large what is made may be.
struct RandomSizes {
  int64_t elements = 8000;     ///< of a tensor, so that a graph is compiled and run in a fraction of a second
  int64_t products = 900'000;  ///< multiply-adds of a layer; below what the reference gives to oneDNN, whose
                               ///< sums depend on the machine
};

/// A value that nodes may read, as the reference computes it.
struct RandomValue {
  std::string name;
  Value value = {};
  bool is_input = false;
  int readers = 0;
  double low = 0;  ///< the least element, if they are numbers; not of NaN and infinities
  double high = 0;
  bool has_special = false;  ///< NaN or infinities

  const Tensor& tensor() const { return value.tensor(); }
  bool is_tensor() const { return value.is_tensor(); }
  DataType type() const { return value.element_type(); }
  const Shape& shape() const { return tensor().shape(); }
  int64_t rank() const { return tensor().rank(); }
  int64_t size() const { return tensor().size(); }
  double magnitude() const;
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
  /// A multiple of a thousandth of the difference.
  double real(double low, double high) {
    return low + (high - low) * static_cast<double>(number(0, 1000)) / 1000;
  }
  template <typename List>
  auto pick(const List& list) {
    return list[static_cast<size_t>(number(0, static_cast<int64_t>(list.size()) - 1))];
  }
  std::string word(std::initializer_list<const char*> words) {
    return *(words.begin() + number(0, static_cast<int64_t>(words.size()) - 1));
  }
  template <typename Each>
  void shuffle(std::vector<Each>& list) {
    for (size_t k = list.size(); k > 1; --k)
      std::swap(list[k - 1], list[static_cast<size_t>(number(0, static_cast<int64_t>(k) - 1))]);
  }
  uint64_t bits() { return engine_(); }
  /// One of the extents around what units, blocks of matrices and rows of memories hold, up to `most`.
  int64_t extent(int64_t most);
  /// At least one axis, in their order.
  std::vector<int64_t> some_axes(int64_t rank);
  /// Extents fall until there are at most so many elements.
  Shape fitting(Shape shape, int64_t most);
  /// Some axes are one or not there.
  Shape broadcast_shape(Shape shape);
  /// The axis counted from the front or from behind.
  int64_t either(int64_t axis, int64_t rank) { return chance(30) ? axis - rank : axis; }

 private:
  std::mt19937_64 engine_;
};

/// Attributes of a node.
class Attributes {
 public:
  template <std::integral Number>
  Attributes& set(const std::string& name, Number value) {
    add(name, onnx::AttributeProto::INT).set_i(static_cast<int64_t>(value));
    return *this;
  }
  Attributes& set(const std::string& name, DataType type) { return set(name, static_cast<int64_t>(type)); }
  Attributes& set(const std::string& name, double value);
  Attributes& set(const std::string& name, const std::string& value);
  Attributes& set(const std::string& name, const char* value) { return set(name, std::string(value)); }
  Attributes& set(const std::string& name, const std::vector<int64_t>& values);
  Attributes& set(const std::string& name, const std::vector<double>& values);
  Attributes& set(const std::string& name, const std::vector<std::string>& values);
  Attributes& set(const std::string& name, const Tensor& value);
  Attributes& set(const std::string& name, const onnx::GraphProto& value);
  Attributes& set(const std::string& name, const onnx::TypeProto& value);

  const std::vector<onnx::AttributeProto>& list() const { return list_; }

 private:
  onnx::AttributeProto& add(const std::string& name, onnx::AttributeProto_AttributeType type);

  std::vector<onnx::AttributeProto> list_;
};

/// What a node asks of an operand that is a tensor.
struct Wanted {
  std::vector<DataType> types = {};
  int64_t least_rank = 0;
  int64_t most_rank = 5;
  double low = -kLargestFloat;  ///< of the elements, if they are numbers
  double high = kLargestFloat;
  std::optional<Shape> shape = {};                       ///< this one alone
  std::function<bool(const Shape&)> fits = {};           ///< more that the shape must have
  bool may_be_special = false;                           ///< NaN and infinities, too
  std::function<Shape(RandomChoices&)> make_shape = {};  ///< of a fresh one, where `fits` is hard to hit
};

/// A model that grows node by node. Each node is run on the CPU reference, which says what it makes.
class RandomNodes : public RandomChoices {
 public:
  RandomNodes(uint64_t seed, const RandomSizes& sizes);
  /// For the graph inside a node of `outer`: names begin with `prefix`.
  RandomNodes(RandomNodes& outer, const std::string& prefix);

  const RandomSizes& sizes() const { return sizes_; }
  /// Whether the model may be one that is compiled in parts while it runs.
  bool is_dynamic() const { return is_dynamic_; }
  void set_dynamic(bool is_dynamic) { is_dynamic_ = is_dynamic; }

  // ---- types

  /// Of tensors that the operator's schema allows for an operand.
  static std::vector<DataType> types(const std::string& op, int input, const std::string& domain = "");
  /// Of those, the ones with numbers that round; half of the time float32.
  static std::vector<DataType> only_floats(std::vector<DataType> types);
  static std::vector<DataType> only_integers(std::vector<DataType> types);
  DataType pick_type(const std::vector<DataType>& types);

  // ---- values

  const std::vector<RandomValue>& values() const { return values_; }
  int inputs() const { return model_.graph().input_size(); }
  int nodes() const { return model_.graph().node_size(); }
  /// A tensor; the later, the likelier.
  RandomValue pick_value();
  /// One that is there, one made of it, or a new one. Misfit if there is none.
  RandomValue want(const Wanted& wanted);
  /// One that the operator's schema allows as its first operand.
  RandomValue want_for(const std::string& op, Wanted wanted = {});
  /// One whose shape, and its result's with `x`, ONNX broadcasts. `one_way`: to that of x.
  RandomValue partner(const RandomValue& x, Wanted wanted, bool one_way = false);
  /// Indices from `low` to `high` (excluded): 32 or 64 bits.
  RandomValue indices(const Shape& shape, int64_t low, int64_t high, bool only_64_bits = false);
  /// Sequences or optionals that are there; Misfit if there is none.
  RandomValue want_sequence();
  RandomValue want_optional();

  // ---- inputs and constants

  RandomValue add_input(const Value& value);
  /// An input of the model or a constant, with elements from `low` to `high`, where they are numbers.
  RandomValue fresh(DataType type, const Shape& shape, double low = -4, double high = 4);
  Tensor random_tensor(DataType type, const Shape& shape, double low, double high);

  /// Constants, by their names.
  std::string add_constant(const Tensor& tensor);
  /// Random floats from -high to high, or from `low` to it.
  std::string constant(const Shape& shape, double high, std::optional<double> low = std::nullopt,
                       DataType type = DataType::kFloat32);
  std::string scalar(double value, DataType type = DataType::kFloat32);
  std::string integers(const std::vector<int64_t>& numbers);
  std::string integer(int64_t number);
  /// The same; in a model that may be dynamic now and then an input.
  std::string list(const std::vector<int64_t>& numbers);

  // ---- nodes

  /// What has no use or is too large; the attempt is over.
  struct Misfit {};
  /// As many outputs as the operator has; those that its schema makes optional are there or not.
  static constexpr int kAsTheSchema = -1;
  /// A node whose results others may read. Misfit for results that are empty, too large, or no numbers to
  /// compare.
  std::vector<RandomValue> add(const std::string& op, const std::vector<std::string>& inputs,
                               const Attributes& attributes = {}, int outputs = kAsTheSchema,
                               const std::string& domain = "");
  RandomValue add_one(const std::string& op, const std::vector<std::string>& inputs,
                      const Attributes& attributes = {}) {
    return add(op, inputs, attributes)[0];
  }
  /// A node inside a block of nodes: no other node and no output of the graph reads its results, whose names
  /// these are.
  std::vector<std::string> steps(const std::string& op, const std::vector<std::string>& inputs, int outputs,
                                 const Attributes& attributes = {});
  std::string step(const std::string& op, const std::vector<std::string>& inputs,
                   const Attributes& attributes = {}) {
    return steps(op, inputs, 1, attributes)[0];
  }
  std::string cast(const std::string& from, DataType type);
  /// Keeps what `work` adds; when it throws Misfit all is as before. Whether it was kept.
  bool attempt(const std::function<void()>& work);

  /// The graph with these of the values as outputs.
  onnx::GraphProto finish_graph(const std::vector<std::string>& outputs);
  onnx::ModelProto finish_model(const std::vector<std::string>& outputs);
  /// Of the model's inputs.
  ValueMap input_values() const;

  const Value& value_of(const std::string& name) const;
  /// An input of the graph inside a node.
  void add_body_input(const std::string& name, const Value& value);

 private:
  bool fits(const RandomValue& value, const Wanted& wanted, DataType type) const;
  /// A value of another type or range as one that is wanted.
  std::optional<RandomValue> converted(const Wanted& wanted, DataType type);
  void add_value(const std::string& name, Value value, bool is_hidden, bool may_be_special);
  std::vector<std::string> run(const std::string& op, const std::vector<std::string>& inputs,
                               const Attributes& attributes, int outputs, bool is_hidden,
                               const std::string& domain);
  std::string fresh_name(const char* letter);

  RandomSizes sizes_;
  bool is_dynamic_ = false;
  onnx::ModelProto model_;
  std::string prefix_;
  const RandomNodes* outer_ = nullptr;
  std::vector<RandomValue> values_;     ///< that nodes may read
  std::map<std::string, Value> known_;  ///< all, also inside of blocks, and constants
  int names_ = 0;                       ///< also of those that are gone
};

/// Runs a node, with graphs in it or without, on values that `find` has by name.
std::vector<Value> run_any_node(const onnx::NodeProto& node,
                                const std::function<const Value&(const std::string&)>& find);

/// A value of a graph as it is declared.
onnx::ValueInfoProto declare_value(const std::string& name, const Value& value);

bool is_float_type(DataType type);
bool is_integer_type(DataType type);
/// Writes element k of a tensor of numbers or bools, rounded to its type.
void set_element(Tensor& tensor, int64_t k, double value);
/// Least and largest of an integer type.
double lowest_of(DataType type);
double largest_of(DataType type);
int64_t product_of(const Shape& shape, size_t begin = 0, size_t end = std::numeric_limits<size_t>::max());

}  // namespace kodama::compiler
