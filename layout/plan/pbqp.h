#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <span>
#include <vector>

/// Partitioned boolean quadratic problems: every node chooses one of its candidates, so that the sum of the
/// candidates' costs and of the costs between the choices of neighbours is least.
///
///     minimize  sum over nodes n: cost[n][x_n]  +  sum over edges (a, b): cost[a, b][x_a][x_b]
///
/// Choosing an implementation per layer with conversions between neighbours is such a problem
/// (layout/plan/planner.h). Infinite costs say that two choices don't go together.
///
/// How it is solved. A candidate that another one of its node is better than, or as good as, whatever the
/// neighbours choose, is left out. A node without neighbours takes its best candidate. A node with one
/// neighbour can be folded into that one's costs, a node with two into the edge between them: both exact
/// (Scholz and Eckstein, "Register allocation for irregular architectures", 2002). Chains, trees and
/// everything series-parallel fall to these alone. What is left is searched by branch and bound: a choice is
/// fixed, the rest reduced again; the bound of a rest is the sum of the least costs of its nodes and edges,
/// after as much of the edges' costs as possible was moved to the nodes. A heuristic solution, always fixing
/// the locally best choice, comes first, and nodes that follow each other choose anew while that gains
/// anything. The search ends after a number of branches, so results don't depend on the machine; then the gap
/// to the bound is known.
namespace kodama::layout {

inline constexpr double kForbidden = std::numeric_limits<double>::infinity();
/// Costs this close are equal: sums are formed in different orders.
double tolerance(double cost);

class Pbqp {
 public:
  /// Costs, row by row.
  class Matrix {
   public:
    Matrix(size_t rows, size_t columns) : rows_(rows), columns_(columns), values_(rows * columns, 0) {}

    size_t rows() const { return rows_; }
    size_t columns() const { return columns_; }
    std::span<double> operator[](size_t row) { return {&values_[row * columns_], columns_}; }
    std::span<const double> operator[](size_t row) const { return {&values_[row * columns_], columns_}; }
    std::span<double> values() { return values_; }
    std::span<const double> values() const { return values_; }

   private:
    size_t rows_;
    size_t columns_;
    std::vector<double> values_;
  };

  /// A node with the costs of its candidates, at least one. Returns its number.
  int add_node(std::vector<double> costs);
  /// Costs between the choices of two different nodes, [candidate of a][candidate of b]; adds to what is
  /// there.
  void add_edge(int a, int b, const Matrix& costs);

  int node_count() const { return static_cast<int>(costs_.size()); }
  int candidate_count(int node) const { return static_cast<int>(costs_[static_cast<size_t>(node)].size()); }
  /// Cost of a choice for every node.
  double cost(const std::vector<int>& choice) const;

  struct Options {
    int64_t branches = 200000;  ///< at most; 0 = heuristic only
    std::vector<int> known =
        {};  ///< a solution to begin with, if not empty: only better ones are of interest
  };
  struct Solution {
    std::vector<int> choice;
    double cost = kForbidden;    ///< kForbidden: there is no solution (proven) or none was found
    double bound = -kForbidden;  ///< no solution is cheaper
    bool proven = false;         ///< cost == bound
    int64_t branches = 0;
    // How nodes were eliminated before the first branch.
    int64_t reduced_free = 0;    ///< no neighbour
    int64_t reduced_chain = 0;   ///< one
    int64_t reduced_series = 0;  ///< two
    int64_t core_nodes = 0;      ///< left for branch and bound
  };
  Solution solve(const Options& options) const;
  Solution solve() const { return solve(Options{}); }

  const std::vector<double>& node_costs(int node) const { return costs_[static_cast<size_t>(node)]; }
  /// Costs of the edges to neighbours with a higher number: [neighbour][own candidate][its candidate].
  const std::map<int, Matrix>& edges(int node) const { return edges_[static_cast<size_t>(node)]; }

 private:
  std::vector<std::vector<double>> costs_;
  std::vector<std::map<int, Matrix>> edges_;  ///< of the node with the lower number
};

}  // namespace kodama::layout
