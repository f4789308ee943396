#pragma once

#include <onnx/onnx_pb.h>

#include <cstdint>
#include <initializer_list>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "builder/operand.h"

namespace kodama::builder {

/// An extent, or the name of one that is open: {"batch", 784}.
class Dim {
 public:
  template <Arithmetic T>
  Dim(T extent) : extent_(static_cast<int64_t>(extent)) {}  // NOLINT: extents are written as they are
  Dim(const char* name) : name_(name) {}                    // NOLINT
  Dim(std::string name) : name_(std::move(name)) {}         // NOLINT

  /// Empty if it has an extent.
  const std::string& name() const { return name_; }
  int64_t extent() const { return extent_; }
  bool is_open() const { return extent_ < 0; }

 private:
  std::string name_;
  int64_t extent_ = -1;
};

class Dims {
 public:
  Dims(std::initializer_list<Dim> dims) : dims_(dims) {}           // NOLINT
  Dims(const Shape& shape) : dims_(shape.begin(), shape.end()) {}  // NOLINT

  const std::vector<Dim>& list() const { return dims_; }

 private:
  std::vector<Dim> dims_;
};

/// The first elements of a parameter. What is random depends on the seed of the graph and on the name and
/// shape of the parameter, on nothing else.
class Initial {
 public:
  static Initial zeros() { return constant(0); }
  static Initial ones() { return constant(1); }
  static Initial constant(double value);
  static Initial normal(double deviation, double mean = 0);
  static Initial uniform(double low, double high);
  /// Uniform, of variance 1 / fan: what a product of `fan` terms needs to keep the size of values. The fan of
  /// a parameter [out, in, window...] is the product of all extents but the first.
  static Initial scaled();

  Tensor draw(DataType type, const Shape& shape, uint64_t seed, const std::string& name) const;

 private:
  enum class Kind : uint8_t { kConstant, kNormal, kUniform, kScaled };
  Initial(Kind kind, double a, double b) : kind_(kind), a_(a), b_(b) {}

  Kind kind_;
  double a_;  ///< value, deviation or lower bound
  double b_;  ///< mean or upper bound
};

/// Extents for dimensions with a name.
using Extents = std::map<std::string, int64_t>;

/// A graph of ONNX's operators that is made by calling them. Nothing is computed: every call records a node,
/// checks its operands and attributes and infers the types and shapes of its results, with the rules that the
/// compiler has for models. What is wrong is a UserError that begins with the line of the call.
///
///     Graph graph("digits");
///     Value x = graph.input("x", kFloat32, {1, 784});
///     Value w = graph.parameter("w", {10, 784});
///     Value b = graph.parameter("b", {10}, Initial::zeros());
///     Value y = F::relu(F::linear(x, w, b));            // or op::Relu(op::Gemm(x, w, b, {.transB = 1}))
///     graph.output(y, "y");
///     graph.save("digits.onnx");
///
/// Operators have their ONNX names and are in `op` (builder/operators.h, made from ONNX's schemas), layers as
/// other libraries have them in `F` (builder/functions.h).
///
/// Names: inputs and outputs are called as the program says, parameters too, behind the open scopes (Scope);
/// nodes and their results are named after scope and operator, with a number from the second on:
/// "layers.0.MatMul", "layers.0.MatMul_1". So they stay as they are when another part of the program changes.
/// A value that became an output carries the name of the output.
///
/// Values keep what they need of the graph alive. A graph is for one thread.
class Graph {
 public:
  explicit Graph(std::string name = "graph", uint64_t seed = 0);
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;

  /// What is given in every run.
  Value input(const std::string& name, DataType type, const Dims& dims, Here here = Here::line());
  /// Of any type: a sequence, an optional.
  Value input(const std::string& name, const onnx::TypeProto& type, Here here = Here::line());

  /// What training changes. Its elements are an initializer of the model.
  Value parameter(const std::string& name, const Shape& shape, const Initial& initial = Initial::scaled(),
                  DataType type = kFloat32, Here here = Here::line());
  Value parameter(const std::string& name, Tensor elements, Here here = Here::line());
  /// The same for what training leaves as it is: running statistics, tables.
  Value buffer(const std::string& name, const Shape& shape, const Initial& initial, DataType type = kFloat32,
               Here here = Here::line());
  Value buffer(const std::string& name, Tensor elements, Here here = Here::line());
  /// Numbers: constant(0.5, kFloat32), constant({1, 2}, kInt64). A list has one axis.
  Value constant(const Operand& numbers, DataType type, Here here = Here::line());
  Value constant(Tensor elements, Here here = Here::line());

  /// Makes a value an output of the model, called `name`, or as the value is called. UserError for a name
  /// that is taken.
  void output(const Value& value, const std::string& name = "", Here here = Here::line());

  /// In the order in which they were made; those of buffer() aren't among them.
  std::vector<Value> parameters() const;
  /// The value with this name. UserError if there is none.
  Value find(const std::string& name, Here here = Here::line()) const;

  /// The model: opset 17, IR version 8, with what its outputs depend on; nodes are in the order of the calls.
  /// `extents` are for dimensions that inputs have by name; others stay open. Where all extents of inputs are
  /// known, derivatives (Value::backward) are nodes like others; else they are a node Gradient, which is
  /// replaced when the model is read with its dimensions.
  ///
  /// UserError without outputs, for a name in `extents` that no input has, and for what doesn't fit with
  /// these extents.
  onnx::ModelProto model(const Extents& extents = {}, Here here = Here::line()) const;
  /// Writes it to a file.
  void save(const std::string& path, const Extents& extents = {}, Here here = Here::line()) const;

 private:
  friend class NodeDraft;
  friend class Scope;

  std::shared_ptr<Recorder> recorder_;
};

/// While it lives, names that are given in the graph begin with `name` and a dot, within scopes around it.
class Scope {
 public:
  Scope(Graph& graph, const std::string& name, Here here = Here::line());
  ~Scope();
  Scope(const Scope&) = delete;
  Scope& operator=(const Scope&) = delete;

 private:
  std::shared_ptr<Recorder> recorder_;
  size_t outer_;  ///< length of the names of the scopes around it
};

}  // namespace kodama::builder
