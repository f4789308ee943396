#pragma once

#include <concepts>
#include <functional>
#include <initializer_list>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "builder/value.h"

/// What the operators' functions take: operands, attributes and bodies, in the forms in which a program has
/// them.
namespace kodama::builder {

template <typename T>
concept Arithmetic = std::is_arithmetic_v<T>;

/// A number whose element type is what the operator makes of it.
class Number {
 public:
  template <Arithmetic T>
  Number(T value) {  // NOLINT: numbers are written as they are
    if constexpr (std::is_floating_point_v<T>) {
      value_ = static_cast<double>(value);
    } else if constexpr (std::is_same_v<T, bool>) {
      value_ = value;
    } else {
      value_ = static_cast<int64_t>(value);
      if (std::is_unsigned_v<T> && as<int64_t>() < 0)
        value_ = static_cast<double>(value);  // which no type of integers takes: its last digits are lost
    }
  }

  bool is_bool() const { return std::holds_alternative<bool>(value_); }
  bool is_integer() const { return std::holds_alternative<int64_t>(value_); }
  /// What it is as T.
  template <typename T>
  T as() const {
    return std::visit([](auto value) { return static_cast<T>(value); }, value_);
  }

 private:
  std::variant<bool, int64_t, double> value_;
};

/// An operand of an operator: a value, or numbers that become a constant of the graph.
///
///     x + 2                          a number has the element type of the other operand
///     op::Reshape(x, {1, -1})        a list: one axis, of the type that the operator asks for
///     op::Clip(x, {}, 6)             left out: {} or a default Value
///     op::Reshape(x, Shape())        an empty list
///
/// It knows the line where it was made, which operators between values (a + b) report.
class Operand {
 public:
  using Numbers = std::vector<Number>;

  Operand() = default;
  template <std::convertible_to<Value> V>
  Operand(const V& value, Here here = Here::line())  // NOLINT: all of these convert by intent
      : content_(Value(value)), here_(here) {}
  template <Arithmetic T>
  Operand(T number, Here here = Here::line())  // NOLINT
      : content_(Number(number)), here_(here) {}
  Operand(std::initializer_list<Number> numbers, Here here = Here::line())  // NOLINT
      : content_(Numbers(numbers)), here_(here) {}
  template <Arithmetic T>
  Operand(const std::vector<T>& numbers, Here here = Here::line())  // NOLINT
      : content_(Numbers(numbers.begin(), numbers.end())), here_(here) {}
  Operand(Tensor tensor, Here here = Here::line())  // NOLINT
      : content_(std::move(tensor)), here_(here) {}

  bool is_left_out() const;
  /// Null unless it is a value.
  const Value* value() const { return std::get_if<Value>(&content_); }
  const Number* number() const { return std::get_if<Number>(&content_); }
  const Numbers* numbers() const { return std::get_if<Numbers>(&content_); }
  const Tensor* tensor() const { return std::get_if<Tensor>(&content_); }
  Here here() const { return here_; }

 private:
  std::variant<std::monostate, Value, Number, Numbers, Tensor> content_;
  Here here_ = Here::line();
};

/// Operands of which an operator takes as many as there are: op::Concat({a, b}, {.axis = 1}).
class Operands {
 public:
  Operands(std::initializer_list<Operand> operands) : operands_(operands) {}  // NOLINT
  template <std::convertible_to<Operand> T>
  Operands(const std::vector<T>& operands) : operands_(operands.begin(), operands.end()) {}  // NOLINT

  const std::vector<Operand>& list() const { return operands_; }

 private:
  std::vector<Operand> operands_;
};

/// A list that is an attribute: {} is not given, List(std::vector<T>()) is empty.
template <typename T>
class List {
 public:
  List() = default;
  List(std::initializer_list<T> values) : values_(values) {}                  // NOLINT
  List(std::vector<T> values) : values_(std::move(values)) {}                 // NOLINT
  List(std::optional<std::vector<T>> values) : values_(std::move(values)) {}  // NOLINT

  const std::optional<std::vector<T>>& values() const { return values_; }

 private:
  std::optional<std::vector<T>> values_;
};

/// An attribute that must be given: without it a call doesn't compile.
template <typename T>
class Required {
 public:
  template <std::convertible_to<T> U>
  Required(U&& value) : value_(std::forward<U>(value)) {}  // NOLINT

  const T& value() const { return value_; }

 private:
  T value_;
};
template <typename T>
class Required<std::vector<T>> {
 public:
  Required(std::initializer_list<T> values) : value_(values) {}   // NOLINT
  Required(std::vector<T> values) : value_(std::move(values)) {}  // NOLINT

  const std::vector<T>& value() const { return value_; }

 private:
  std::vector<T> value_;
};

/// The graph in a node of control flow, as a function that records it from its inputs; it may use the values
/// of the graph around it. It gets no argument or a std::vector<Value>, and returns a Value or a vector:
///
///     op::If(condition, {.else_branch = [&] { return x; }, .then_branch = [&] { return -x; }});
///     op::Scan({zero, x}, {.body = [](std::vector<Value> in) { return std::vector{in[0] + in[1]}; },
///                          .num_scan_inputs = 1});
///
/// The inputs have the types that the node's operands say: of a Loop the number of the iteration, the
/// condition and the state, of a Scan the state and slices, of a SequenceMap an element of each sequence.
class Body {
 public:
  template <typename Function>
  requires(!std::same_as<std::remove_cvref_t<Function>, Body> &&
           (std::invocable<Function&> || std::invocable<Function&, const std::vector<Value>&>))
      Body(Function function)  // NOLINT: lambdas are bodies
      : record_([function](const std::vector<Value>& inputs) mutable {
          if constexpr (std::invocable<Function&, const std::vector<Value>&>) {
            return as_list(function(inputs));
          } else {
            return as_list(function());
          }
        }) {}

  std::vector<Value> record(const std::vector<Value>& inputs) const { return record_(inputs); }

 private:
  static std::vector<Value> as_list(std::vector<Value> values) { return values; }
  static std::vector<Value> as_list(const Value& value) { return {value}; }

  std::function<std::vector<Value>(const std::vector<Value>&)> record_;
};

/// Base of what operators with several outputs return: a value for each, by its name in ONNX. Outputs that
/// nobody uses are left out of the node, if ONNX allows it.
struct Results {};

Value operator+(const Operand& a, const Operand& b);
Value operator-(const Operand& a, const Operand& b);
Value operator*(const Operand& a, const Operand& b);
Value operator/(const Operand& a, const Operand& b);
Value operator-(const Operand& a);
Value operator<(const Operand& a, const Operand& b);
Value operator<=(const Operand& a, const Operand& b);
Value operator>(const Operand& a, const Operand& b);
Value operator>=(const Operand& a, const Operand& b);

}  // namespace kodama::builder
