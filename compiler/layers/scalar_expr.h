#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

/// Scalar expressions: what a Map computes per element, what a Reduce or Contract applies before or
/// after. A DAG of primitive operations in single assignment form; node i may only use nodes < i, the
/// last node is the result.
///
/// A value is a word of 32 bits: a float, of which the chip has neither NaN nor subnormals, or an integer in
/// two's complement, which wraps; or, inside an expression alone, a double, which is made of two words and
/// taken apart into them. No operation converts one into the other unnoticed: kind() knows what each takes
/// and makes. Conditions are integers, 0 or 1. Other integer types, and what the chip has no operation for,
/// are formulas of these (compiler/layers/integer.h, compiler/layers/doubles.h).
namespace kodama::compiler {

enum class ScalarOp : uint8_t {
  kInput,     ///< `input` = operand number
  kConstant,  ///< `value`
  // Floats or doubles: as the arguments are, all alike.
  kAdd,
  kSub,
  kMul,
  kDiv,
  kNeg,
  kAbs,
  kMax,
  kMin,
  kRelu,  ///< max(x, 0)
  kReciprocal,
  kSqrt,
  kFloor,
  kSelectNotNegative,  ///< args[0] >= 0 ? args[1] : args[2]; these are of any kind, both alike
  // Floats alone.
  kExp,
  kLog,
  kTanh,
  kSigmoid,
  kErf,
  kPow,  ///< args[0] to the power of args[1]; of a negative number to one that isn't whole: |args[0]|'s
  // Conditions on floats or doubles.
  kEqual,
  kLess,
  // Integers.
  kIntConstant,  ///< `value`
  kIntAdd,
  kIntSub,
  kIntMax,
  kIntMin,
  kUnsignedMax,
  kAnd,
  kOr,
  kXor,
  kShiftLeft,         ///< by args[1] modulo 32, as the next two
  kShiftRight,        ///< zeros come in
  kShiftRightSigned,  ///< the sign comes in
  kIsZero,            ///< a condition
  kSelect,            ///< args[0] != 0 ? args[1] : args[2], of any kind, both alike
  // From one kind to the other.
  kToInt,      ///< toward zero; what is too large becomes the largest or smallest integer
  kFloatBits,  ///< the word itself
  kFromBits,   ///< the reverse
  // Doubles.
  kDoubleConstant,  ///< `value`
  kDoubleInput,     ///< `input`, which is a double: what a Reduce layer has reduced, in its epilogue
  kPair,            ///< of its upper word and its lower one
  kHighWord,        ///< of a double: an integer
  kLowWord,
  kWiden,   ///< of a float
  kNarrow,  ///< to the nearest float
  kToLong,  ///< toward zero, to the nearest integer of 64 bits: its bits, as if they were a double's
};
inline constexpr int kScalarOps = static_cast<int>(ScalarOp::kToLong) + 1;
std::string scalar_op_name(ScalarOp op);
int scalar_op_arity(ScalarOp op);
/// What it takes, a letter an argument, and, behind a colon, makes: f float, i integer, d double; r float or
/// double, the same everywhere; a any, the same everywhere.
std::string_view scalar_op_kinds(ScalarOp op);

/// What a value is. Words are floats or integers.
enum class ScalarKind : uint8_t { kFloat, kInteger, kDouble };

struct ScalarNode {
  ScalarOp op = ScalarOp::kInput;
  std::array<int, 3> args{-1, -1, -1};
  double value = 0;
  int input = -1;
  /// Constants compare by their bits: -0 and 0 differ, a NaN equals itself.
  bool operator==(const ScalarNode& other) const;
};

class ScalarExpr {
 public:
  /// Each returns the new node's number (equal nodes are shared).
  int input(int number);
  int constant(double value);
  int int_constant(int32_t value);
  int double_constant(double value);
  /// A constant or an input, as it is in another expression.
  int leaf(const ScalarNode& node);
  int apply(ScalarOp op, int a, int b = -1, int c = -1);

  const std::vector<ScalarNode>& nodes() const { return nodes_; }
  int result() const { return static_cast<int>(nodes_.size()) - 1; }
  /// Makes `node` the result (appends nothing if it is last; otherwise reorders so that it is last and
  /// drops nodes that the result doesn't use).
  void set_result(int node);
  int input_count() const;
  int double_input(int number);
  /// Whether a node is a double.
  bool is_double(int node) const;
  /// What the result is, where the inputs are `inputs`; InternalError for an operation on the wrong kind.
  ScalarKind kind(std::span<const ScalarKind> inputs) const;

  /// The expression with input k replaced by `producer` applied to its own inputs renumbered by
  /// `producer_inputs` (producer input j becomes input producer_inputs[j] of the result), and this
  /// expression's other inputs renumbered by `own_inputs`.
  ScalarExpr substitute(int k, const ScalarExpr& producer, std::span<const int> producer_inputs,
                        std::span<const int> own_inputs) const;

  /// The expression with a constant word in the place of input k; a float by its bits.
  ScalarExpr with_constant(int k, ScalarKind kind, uint32_t word) const;

  /// The expression with input k renumbered to inputs[k] (two inputs may become one).
  ScalarExpr renumbered(std::span<const int> inputs) const;

  /// Double-precision value, for tests and constant folding. Integers are numbers, too: from -2^31 to 2^31 -
  /// 1 as results, of any size below 2^63 as inputs, of which the last 32 bits count.
  double evaluate(std::span<const double> inputs) const;
  /// "relu(add(mul(x0, 0.5), x1))"; with common terms "t1 = exp(x0); div(t1, add(t1, 1))".
  std::string to_string() const;
  bool operator==(const ScalarExpr&) const = default;

  /// input(0), the identity.
  static ScalarExpr identity();

 private:
  int simplified(ScalarOp op, int a, int b, int c);
  /// A node of another expression, whose arguments are those of this one.
  int moved(const ScalarNode& node);

  std::vector<ScalarNode> nodes_;
};

}  // namespace kodama::compiler
