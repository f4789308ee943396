#include <algorithm>
#include <numeric>
#include <set>

#include "compiler/graph/gradient/gradient_rules.h"

/// Products of matrices.
namespace kodama::compiler::gradient {

namespace {

void matmul_rule(NodeGradient& n) {
  // Vectors are matrices of one row or column.
  const auto as_matrix = [](const Term& x, bool is_row) {
    return x.rank() > 1 ? x : reshape(x, is_row ? Shape{1, x.size()} : Shape{x.size(), 1});
  };
  const Term a = as_matrix(n.x(0), true);
  const Term b = as_matrix(n.x(1), false);
  Shape shape =
      broadcast_shape(Shape(a.shape.begin(), a.shape.end() - 2), Shape(b.shape.begin(), b.shape.end() - 2));
  shape.push_back(a.extent(-2));
  shape.push_back(b.extent(-1));
  const Term dy = reshape(n.dy(), shape);
  const auto give = [&](int input, const Term& gradient, const Term& matrix) {
    n.give(input, reshape(sum_to(gradient, matrix.shape), n.x(input).shape));
  };
  if (n.wants(0)) give(0, matmul(dy, transpose_matrix(b)), a);
  if (!n.wants(1)) return;
  if (b.rank() == 2) {
    // One product over all rows of all matrices of a.
    const Term rows = reshape(a, {a.size() / std::max<int64_t>(a.extent(-1), 1), a.extent(-1)});
    const Term results = reshape(dy, {dy.size() / std::max<int64_t>(dy.extent(-1), 1), dy.extent(-1)});
    if (a.extent(-1) > 0 && dy.extent(-1) > 0) return give(1, matmul(transpose_matrix(rows), results), b);
  }
  give(1, matmul(transpose_matrix(a), dy), b);
}

void gemm(NodeGradient& n) {
  const double alpha = n.number("alpha");
  const bool ta = n.integer("transA") != 0;
  const bool tb = n.integer("transB") != 0;
  const Term dy = n.dy();
  const auto product = [&](const Term& a, bool turn_a, const Term& b, bool turn_b, const Shape& shape) {
    return n.graph().add("Gemm", {a, b}, dy.type, shape,
                         {onnx::MakeAttribute("alpha", static_cast<float>(alpha)),
                          onnx::MakeAttribute("transA", static_cast<int64_t>(turn_a)),
                          onnx::MakeAttribute("transB", static_cast<int64_t>(turn_b))});
  };
  if (n.wants(0)) {
    const Shape& shape = n.x(0).shape;
    n.give(0, ta ? product(n.x(1), tb, dy, true, shape) : product(dy, false, n.x(1), !tb, shape));
  }
  if (n.wants(1)) {
    const Shape& shape = n.x(1).shape;
    n.give(1, tb ? product(dy, true, n.x(0), ta, shape) : product(n.x(0), !ta, dy, false, shape));
  }
  if (n.wants(2)) n.give(2, dy * n.number("beta"));
}

/// The equation of an Einsum with a letter for every axis: those of an ellipsis get letters of their own.
struct Equation {
  std::vector<std::string> operands;
  std::string result;
};

Equation read_equation(NodeGradient& n) {
  std::string text = n.text("equation");
  std::erase(text, ' ');
  Equation equation;
  const size_t arrow = text.find("->");
  std::string left = text.substr(0, arrow);
  for (size_t begin = 0; begin <= left.size();) {
    const size_t end = std::min(left.find(',', begin), left.size());
    equation.operands.push_back(left.substr(begin, end - begin));
    begin = end + 1;
  }
  std::string free;
  for (char letter = 'A'; letter <= 'z'; letter = letter == 'Z' ? 'a' : static_cast<char>(letter + 1)) {
    if (text.find(letter) == std::string::npos) free.push_back(letter);
  }
  const std::string dots = "...";
  size_t longest = 0;
  const auto dotted = [&](const std::string& term, int64_t rank) {
    return static_cast<size_t>(rank) + dots.size() - term.size();
  };
  for (size_t i = 0; i < equation.operands.size(); ++i) {
    const std::string& operand = equation.operands[i];
    if (operand.find(dots) != std::string::npos)
      longest = std::max(longest, dotted(operand, n.x(static_cast<int>(i)).rank()));
  }
  if (longest > free.size()) n.refuse("has more axes than there are letters");
  // Axes of an ellipsis are counted from the end.
  const auto spell = [&](std::string& term, size_t count) {
    const size_t at = term.find(dots);
    if (at != std::string::npos) term.replace(at, dots.size(), free.substr(longest - count, count));
  };
  if (arrow == std::string::npos) {
    std::map<char, int> uses;
    for (char letter : left) {
      if (std::isalpha(static_cast<unsigned char>(letter)) != 0) ++uses[letter];
    }
    if (left.find(dots) != std::string::npos) equation.result = dots;
    for (const auto& [letter, count] : uses) {
      if (count == 1) equation.result.push_back(letter);
    }
  } else {
    equation.result = text.substr(arrow + 2);
  }
  for (size_t i = 0; i < equation.operands.size(); ++i) {
    std::string& operand = equation.operands[i];
    if (operand.find(dots) != std::string::npos)
      spell(operand, dotted(operand, n.x(static_cast<int>(i)).rank()));
  }
  spell(equation.result, longest);
  return equation;
}

void einsum(NodeGradient& n) {
  const Equation equation = read_equation(n);
  for (int i = 0; i < n.input_count(); ++i) {
    if (!n.wants(i)) continue;
    const std::string& own = equation.operands[static_cast<size_t>(i)];
    const Term x = n.x(i);
    // The gradient and the other operands, in one product.
    std::string text = equation.result;
    std::vector<Term> factors = {n.dy()};
    std::map<char, int64_t> known;
    for (size_t axis = 0; axis < equation.result.size(); ++axis)
      known[equation.result[axis]] = n.dy().extent(static_cast<int64_t>(axis));
    for (int k = 0; k < n.input_count(); ++k) {
      if (k == i) continue;
      const std::string& letters = equation.operands[static_cast<size_t>(k)];
      text += "," + letters;
      factors.push_back(n.x(k));
      for (size_t axis = 0; axis < letters.size(); ++axis) {
        int64_t& extent = known.try_emplace(letters[axis], 1).first->second;
        extent = std::max(extent, n.x(k).extent(static_cast<int64_t>(axis)));
      }
    }
    std::string target;
    Shape shape;
    Shape own_axes;  // of x's distinct letters; 1 where nobody else has the letter
    std::map<char, int64_t> extents;
    for (size_t axis = 0; axis < own.size(); ++axis) {
      const char letter = own[axis];
      if (extents.contains(letter)) continue;
      extents[letter] = x.extent(static_cast<int64_t>(axis));
      if (known.contains(letter)) {
        target.push_back(letter);
        shape.push_back(known[letter]);
        own_axes.push_back(known[letter]);
      } else {
        own_axes.push_back(1);
      }
    }
    Term gradient = n.graph().add("Einsum", factors, x.type, shape,
                                  {onnx::MakeAttribute("equation", text + "->" + target)});
    gradient = reshape(gradient, own_axes);
    if (extents.size() < own.size()) {
      // A letter that x has twice stands for its diagonal: zero elsewhere.
      std::string seen;
      Shape spread_out;
      for (char letter : own) {
        const bool is_new = seen.find(letter) == std::string::npos;
        if (is_new) seen.push_back(letter);
        spread_out.push_back(is_new ? own_axes[seen.size() - 1] : 1);
      }
      gradient = reshape(gradient, spread_out);
      for (size_t axis = 0; axis < own.size(); ++axis) {
        const size_t first = own.find(own[axis]);
        if (first == axis) continue;
        Shape rows(own.size(), 1);
        Shape columns(own.size(), 1);
        const int64_t extent = x.extent(static_cast<int64_t>(axis));
        rows[first] = extent;
        columns[axis] = extent;
        const Term places = counting(n.graph(), extent, kInt64);
        gradient = select(equal(reshape(places, rows), reshape(places, columns)), gradient, 0.0);
      }
    }
    n.give(i, gradient);
  }
}

/// The gradient of a determinant is its adjugate, transposed. The adjugate is found without divisions, by the
/// method of Faddeev and LeVerrier: M_1 = I, M_k = A M_(k-1) - trace(A M_(k-1)) / (k - 1) I; it is M_n, up to
/// its sign.
void determinant(NodeGradient& n) {
  const Term a = n.x();
  const int64_t size = a.extent(-1);
  std::vector<double> ones(static_cast<size_t>(size * size));
  for (int64_t i = 0; i < size; ++i) ones[static_cast<size_t>(i * (size + 1))] = 1;
  const Term identity = n.graph().constant(tensor_of(a.type, {size, size}, ones));
  Term m = identity;
  for (int64_t k = 1; k < size; ++k) {
    const Term product = matmul(a, m);
    const Term trace = reduce_sum(product * identity, {a.rank() - 2, a.rank() - 1});
    m = product - trace / static_cast<double>(k) * identity;
  }
  const Term dy = unsqueeze(n.dy(), {a.rank() - 2, a.rank() - 1});
  n.give(0, dy * transpose_matrix(m) * (size % 2 == 0 ? -1.0 : 1.0));
}

}  // namespace

std::vector<GradientRow> matrix_gradients() {
  return {
      {"Det", determinant},
      {"Einsum", einsum},
      {"Gemm", gemm},
      {"MatMul", matmul_rule},
  };
}

}  // namespace kodama::compiler::gradient
