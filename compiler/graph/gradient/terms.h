#pragma once

#include <onnx/defs/attr_proto_util.h>
#include <onnx/onnx_pb.h>

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "compiler/graph/onnx_model.h"
#include "compiler/tensor/fresh_names.h"
#include "compiler/tensor/tensor.h"

/// ONNX nodes written as formulas.
///
/// A Term is a value of a graph whose type and shape are known. Operators and functions of terms add the node
/// that computes the result and return it as a term:
///
///     Term y = tanh(x);
///     Term dx = dy * (1.0 - y * y);        // Mul(y, y), Sub(1, .), Mul(dy, .)
///
/// Shapes broadcast as ONNX says; where an operand isn't allowed it is an InternalError, since formulas stand
/// in our code and not in the user's model. Numbers become constants of the type of the other operand.
namespace kodama::compiler::gradient {

inline constexpr DataType kBool = DataType::kBool;
inline constexpr DataType kDouble = DataType::kFloat64;
inline constexpr DataType kFloat = DataType::kFloat32;
inline constexpr DataType kInt64 = DataType::kInt64;

class TermGraph;

struct Term {
  TermGraph* graph = nullptr;
  std::string name;
  DataType type = DataType::kUndefined;
  Shape shape;

  /// False for what is left out.
  explicit operator bool() const { return graph != nullptr; }
  int64_t rank() const { return static_cast<int64_t>(shape.size()); }
  int64_t size() const { return element_count(shape); }
  int64_t extent(int64_t axis) const {
    return shape.at(static_cast<size_t>(axis < 0 ? axis + rank() : axis));
  }
};

using Attributes = std::vector<onnx::AttributeProto>;
using Ints = std::vector<int64_t>;

/// The graph that terms add nodes and constants to.
class TermGraph {
 public:
  /// New nodes go to the end of the graph; `names` knows all names in use.
  TermGraph(onnx::GraphProto& graph, FreshNames& names) : graph_(graph), names_(names) {}

  /// Values of nodes made from now on have names that begin with this.
  void set_prefix(std::string prefix) { prefix_ = std::move(prefix); }

  /// A node with one output. Operands that are left out have no graph.
  Term add(const std::string& op, const std::vector<Term>& inputs, DataType type, const Shape& shape,
           const Attributes& attributes = {});
  /// A node with outputs of these types; unnamed ones where the type is UNDEFINED.
  std::vector<Term> add(const std::string& op, const std::vector<Term>& inputs,
                        const std::vector<std::pair<DataType, Shape>>& outputs,
                        const Attributes& attributes = {});

  Term constant(const Tensor& tensor);
  /// A list of int64.
  Term integers(const Ints& values);
  Term number(double value, DataType type);
  /// All elements are the number.
  Term filled(double value, DataType type, const Shape& shape);

  onnx::GraphProto& graph() { return graph_; }
  FreshNames& names() { return names_; }

 private:
  onnx::GraphProto& graph_;
  FreshNames& names_;
  std::string prefix_;
  std::map<std::string, std::string> constants_;  ///< name by type, shape and bytes
};

/// A tensor of any floating or integer type from doubles, row-major.
Tensor tensor_of(DataType type, const Shape& shape, const std::vector<double>& values);
bool is_float(DataType type);

/// The shape that both broadcast to.
Shape broadcast_shape(const Shape& a, const Shape& b);

Term operator+(const Term& a, const Term& b);
Term operator-(const Term& a, const Term& b);
Term operator*(const Term& a, const Term& b);
Term operator/(const Term& a, const Term& b);
Term operator+(const Term& a, double b);
Term operator-(const Term& a, double b);
Term operator*(const Term& a, double b);
Term operator/(const Term& a, double b);
Term operator+(double a, const Term& b);
Term operator-(double a, const Term& b);
Term operator*(double a, const Term& b);
Term operator/(double a, const Term& b);
Term operator-(const Term& a);

/// An operator of one operand whose result has the same type and shape: "Exp".
Term map(const std::string& op, const Term& x);
Term exp(const Term& x);
Term log(const Term& x);
Term sqrt(const Term& x);
Term abs(const Term& x);
Term sign(const Term& x);
Term pow(const Term& x, const Term& exponent);
Term maximum(const Term& a, const Term& b);
Term minimum(const Term& a, const Term& b);
Term cast(const Term& x, DataType type);

Term less(const Term& a, const Term& b);
Term less(const Term& a, double b);
Term greater(const Term& a, const Term& b);
Term greater(const Term& a, double b);
Term equal(const Term& a, const Term& b);
Term equal(const Term& a, double b);
Term both(const Term& a, const Term& b);
Term either(const Term& a, const Term& b);
Term negated(const Term& a);
/// a where the condition holds, else b.
Term select(const Term& condition, const Term& a, const Term& b);
Term select(const Term& condition, const Term& a, double b);
Term select(const Term& condition, double a, const Term& b);

Term reshape(const Term& x, const Shape& shape);
Term transpose(const Term& x, const Ints& permutation);
/// The last two axes exchanged.
Term transpose_matrix(const Term& x);
/// Repeats axes of extent 1, and adds axes in front.
Term expand(const Term& x, const Shape& shape);
Term slice(const Term& x, int64_t axis, int64_t begin, int64_t end, int64_t step = 1);
/// The elements of an axis in reverse order.
Term reverse(const Term& x, int64_t axis);
/// Zeros before and behind an axis; negative: cut.
Term pad(const Term& x, int64_t axis, int64_t before, int64_t behind);
Term concat(const std::vector<Term>& parts, int64_t axis);
/// x with axes of extent 1 put in, so that they stand at `axes` of the result.
Term unsqueeze(const Term& x, const Ints& axes);
Term squeeze(const Term& x, const Ints& axes);

Term reduce_sum(const Term& x, const Ints& axes, bool keep = true);
Term reduce(const std::string& op, const Term& x, const Ints& axes, bool keep = true);
/// x summed over the axes that x has and `shape` has not, or with extent 1.
Term sum_to(const Term& x, const Shape& shape);
Term sum_all(const Term& x);
/// Sum of all of them; one alone is returned as it is.
Term sum(const std::vector<Term>& terms);

Term matmul(const Term& a, const Term& b);

/// The adjoint of slice(y, axis, begin, ., step) with `x.extent(axis)` elements, where y has `extent`: places
/// x's elements begin, begin + step, ... and zeros between them.
Term spread(const Term& x, int64_t axis, int64_t begin, int64_t step, int64_t extent);

/// 0, 1, 2, ... of a type.
Term counting(TermGraph& graph, int64_t count, DataType type);

}  // namespace kodama::compiler::gradient
