#include "layout/plan/pbqp.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "isa/error.h"

namespace kodama::layout {
namespace {

using Matrix = Pbqp::Matrix;

Matrix transposed(const Matrix& matrix) {
  Matrix result(matrix[0].size(), std::vector<double>(matrix.size()));
  for (size_t i = 0; i < matrix.size(); ++i) {
    for (size_t j = 0; j < matrix[i].size(); ++j) result[j][i] = matrix[i][j];
  }
  return result;
}

double least(const std::vector<double>& values) {
  return *std::ranges::min_element(values);
}

/// Costs this close are equal: sums are formed in different orders.
double tolerance(double cost) {
  return 1e-9 * std::max(1.0, std::isfinite(cost) ? std::abs(cost) : 1.0);
}

/// A problem from which nodes are taken away one by one.
class Rest {
 public:
  explicit Rest(const Pbqp& problem) : edges_(static_cast<size_t>(problem.node_count())) {
    for (int node = 0; node < problem.node_count(); ++node) {
      costs_.push_back(problem.node_costs(node));
      alive_.push_back(true);
      for (const auto& [other, matrix] : problem.edges(node)) add_edge(node, other, matrix);
    }
  }

  struct Counts {
    int64_t free = 0;
    int64_t chain = 0;
    int64_t series = 0;
  };

  /// Takes away all nodes with at most two neighbours.
  Counts reduce() {
    Counts counts;
    for (bool changed = true; changed;) {
      changed = false;
      for (int node = 0; node < size(); ++node) {
        if (!alive_[at(node)] || edges_[at(node)].size() > 2) continue;
        const size_t degree = edges_[at(node)].size();
        counts.free += degree == 0;
        counts.chain += degree == 1;
        counts.series += degree == 2;
        fold(node);
        changed = true;
      }
    }
    return counts;
  }

  /// Fixes a node's choice and takes it away.
  void fix(int node, int candidate) {
    constant_ += costs_[at(node)][static_cast<size_t>(candidate)];
    for (const auto& [other, matrix] : edges_[at(node)]) {
      for (size_t j = 0; j < costs_[at(other)].size(); ++j)
        costs_[at(other)][j] += matrix[static_cast<size_t>(candidate)][j];
    }
    remove(node);
    steps_.push_back({node, {}, {candidate}});
  }

  /// Moves as much of the edges' costs as possible to the nodes; the sum of least costs is then a bound.
  double bound() {
    double sum = constant_;
    for (int node = 0; node < size(); ++node) {
      if (!alive_[at(node)]) continue;
      for (auto& [other, matrix] : edges_[at(node)]) {
        if (other > node) normalize(node, other, matrix);
      }
    }
    for (int node = 0; node < size(); ++node) {
      if (alive_[at(node)]) sum += least(costs_[at(node)]);
    }
    return sum;
  }

  int alive_count() const { return static_cast<int>(std::ranges::count(alive_, true)); }

  /// The node with most neighbours; -1 when none is left.
  int busiest() const {
    int best = -1;
    for (int node = 0; node < size(); ++node) {
      if (alive_[at(node)] && (best < 0 || edges_[at(node)].size() > edges_[at(best)].size())) best = node;
    }
    return best;
  }

  /// For each candidate, its cost with the best answer of every neighbour.
  std::vector<double> local_costs(int node) const {
    std::vector<double> result = costs_[at(node)];
    for (const auto& [other, matrix] : edges_[at(node)]) {
      for (size_t i = 0; i < result.size(); ++i) {
        double best = kForbidden;
        for (size_t j = 0; j < matrix[i].size(); ++j)
          best = std::min(best, matrix[i][j] + costs_[at(other)][j]);
        result[i] += best;
      }
    }
    return result;
  }

  double constant() const { return constant_; }

  /// The choices of all nodes, when none is left.
  std::vector<int> choices() const {
    std::vector<int> choice(costs_.size(), 0);
    for (auto step = steps_.rbegin(); step != steps_.rend(); ++step) {
      size_t index = 0;
      for (const auto& [neighbour, candidates] : step->neighbours)
        index = index * static_cast<size_t>(candidates) + static_cast<size_t>(choice[at(neighbour)]);
      choice[at(step->node)] = step->best[index];
    }
    return choice;
  }

 private:
  /// A node that was taken away: its best candidate for every combination of its neighbours' choices.
  struct Step {
    int node;
    std::vector<std::pair<int, int>> neighbours;  ///< and their numbers of candidates
    std::vector<int> best;
  };

  int size() const { return static_cast<int>(costs_.size()); }
  static size_t at(int node) { return static_cast<size_t>(node); }

  void add_edge(int a, int b, const Matrix& matrix) {
    const auto add = [&](int from, int to, const Matrix& costs) {
      auto [known, is_new] = edges_[at(from)].try_emplace(to, costs);
      if (is_new) return;
      for (size_t i = 0; i < costs.size(); ++i) {
        for (size_t j = 0; j < costs[i].size(); ++j) known->second[i][j] += costs[i][j];
      }
    };
    add(a, b, matrix);
    add(b, a, transposed(matrix));
  }

  void remove(int node) {
    for (const auto& [other, matrix] : edges_[at(node)]) edges_[at(other)].erase(node);
    edges_[at(node)].clear();
    alive_[at(node)] = false;
  }

  void fold(int node) {
    const std::vector<double>& own = costs_[at(node)];
    const std::map<int, Matrix> edges = edges_[at(node)];
    Step step{node, {}, {}};
    for (const auto& [other, matrix] : edges)
      step.neighbours.emplace_back(other, static_cast<int>(costs_[at(other)].size()));
    const auto best_of = [&](auto&& cost_of) {
      int best = 0;
      double best_cost = kForbidden;
      for (size_t i = 0; i < own.size(); ++i) {
        const double cost = cost_of(i);
        if (cost < best_cost) {
          best_cost = cost;
          best = static_cast<int>(i);
        }
      }
      step.best.push_back(best);
      return best_cost;
    };
    if (edges.empty()) {
      constant_ += best_of([&](size_t i) { return own[i]; });
    } else if (edges.size() == 1) {
      const auto& [other, matrix] = *edges.begin();
      std::vector<double>& costs = costs_[at(other)];
      for (size_t j = 0; j < costs.size(); ++j) {
        const Matrix& m = matrix;
        costs[j] += best_of([&](size_t i) { return own[i] + m[i][j]; });
      }
    } else {
      const auto& [a, to_a] = *edges.begin();
      const auto& [b, to_b] = *std::next(edges.begin());
      Matrix between(costs_[at(a)].size(), std::vector<double>(costs_[at(b)].size()));
      for (size_t j = 0; j < between.size(); ++j) {
        for (size_t k = 0; k < between[j].size(); ++k) {
          const Matrix& first = to_a;
          const Matrix& second = to_b;
          between[j][k] = best_of([&](size_t i) { return own[i] + first[i][j] + second[i][k]; });
        }
      }
      const int left = a;
      const int right = b;
      remove(node);
      add_edge(left, right, between);
    }
    remove(node);
    steps_.push_back(std::move(step));
  }

  void normalize(int a, int b, Matrix& matrix) {
    Matrix& mirrored = edges_[at(b)].at(a);
    for (size_t i = 0; i < matrix.size(); ++i) {
      const double low = least(matrix[i]);
      if (low == kForbidden) {
        costs_[at(a)][i] = kForbidden;
        continue;
      }
      if (low == 0) continue;
      costs_[at(a)][i] += low;
      for (size_t j = 0; j < matrix[i].size(); ++j) matrix[i][j] -= low;
    }
    for (size_t j = 0; j < mirrored.size(); ++j) {
      double low = kForbidden;
      for (size_t i = 0; i < matrix.size(); ++i) low = std::min(low, matrix[i][j]);
      if (low == kForbidden) {
        costs_[at(b)][j] = kForbidden;
      } else if (low != 0) {
        costs_[at(b)][j] += low;
        for (size_t i = 0; i < matrix.size(); ++i) matrix[i][j] -= low;
      }
    }
    mirrored = transposed(matrix);
  }

  std::vector<std::vector<double>> costs_;
  std::vector<bool> alive_;
  std::vector<std::map<int, Matrix>> edges_;  ///< both ways
  double constant_ = 0;
  std::vector<Step> steps_;
};

class PbqpSearch {
 public:
  PbqpSearch(const Pbqp& problem, const Pbqp::Options& options) : problem_(problem), options_(options) {}

  Pbqp::Solution run() {
    Rest rest(problem_);
    const Rest::Counts counts = rest.reduce();
    best_.reduced_free = counts.free;
    best_.reduced_chain = counts.chain;
    best_.reduced_series = counts.series;
    best_.core_nodes = rest.alive_count();
    heuristic(rest);
    open_bound_ = kForbidden;
    branch(std::move(rest));
    best_.bound = std::min(best_.cost, open_bound_);
    best_.proven = best_.bound >= best_.cost - tolerance(best_.cost);
    if (best_.proven) best_.bound = best_.cost;
    best_.branches = branches_;
    return best_;
  }

 private:
  void offer(const Rest& rest) {
    // The first solution counts even when it is forbidden, so that there is always a choice.
    if (!best_.choice.empty() && rest.constant() >= best_.cost) return;
    best_.choice = rest.choices();
    best_.cost = problem_.cost(best_.choice);
  }

  void heuristic(Rest rest) {
    for (int node = rest.busiest(); node >= 0; node = rest.busiest()) {
      const std::vector<double> costs = rest.local_costs(node);
      rest.fix(node, static_cast<int>(std::ranges::min_element(costs) - costs.begin()));
      rest.reduce();
    }
    offer(rest);
  }

  /// `rest` is reduced.
  void branch(Rest rest) {
    const int node = rest.busiest();
    if (node < 0) {
      offer(rest);
      return;
    }
    const double bound = rest.bound();
    if (bound >= best_.cost - tolerance(best_.cost)) return;
    if (branches_ >= options_.branches) {
      open_bound_ = std::min(open_bound_, bound);
      return;
    }
    ++branches_;
    const std::vector<double> costs = rest.local_costs(node);
    std::vector<int> order(costs.size());
    std::iota(order.begin(), order.end(), 0);
    std::ranges::stable_sort(
        order, [&](int a, int b) { return costs[static_cast<size_t>(a)] < costs[static_cast<size_t>(b)]; });
    for (const int candidate : order) {
      if (costs[static_cast<size_t>(candidate)] == kForbidden) continue;
      Rest child = rest;
      child.fix(node, candidate);
      child.reduce();
      branch(std::move(child));
    }
  }

  const Pbqp& problem_;
  Pbqp::Options options_;
  Pbqp::Solution best_;
  double open_bound_ = kForbidden;  ///< the least bound of what was not searched
  int64_t branches_ = 0;
};

}  // namespace

int Pbqp::add_node(std::vector<double> costs) {
  isa::check_internal(!costs.empty(), "pbqp", "a node without candidates");
  for (const double cost : costs)
    isa::check_internal(!std::isnan(cost) && cost != -kForbidden, "pbqp", "a cost is no number");
  costs_.push_back(std::move(costs));
  edges_.emplace_back();
  return node_count() - 1;
}

void Pbqp::add_edge(int a, int b, const Matrix& costs) {
  isa::check_internal(a != b && a >= 0 && b >= 0 && a < node_count() && b < node_count(), "pbqp",
                      "an edge from node {} to {}", a, b);
  isa::check_internal(static_cast<int>(costs.size()) == candidate_count(a), "pbqp",
                      "{} rows for {} candidates", costs.size(), candidate_count(a));
  for (const auto& row : costs) {
    isa::check_internal(static_cast<int>(row.size()) == candidate_count(b), "pbqp",
                        "{} columns for {} candidates", row.size(), candidate_count(b));
  }
  const Matrix& oriented = a < b ? costs : transposed(costs);
  auto [known, is_new] = edges_[static_cast<size_t>(std::min(a, b))].try_emplace(std::max(a, b), oriented);
  if (is_new) return;
  for (size_t i = 0; i < oriented.size(); ++i) {
    for (size_t j = 0; j < oriented[i].size(); ++j) known->second[i][j] += oriented[i][j];
  }
}

double Pbqp::cost(const std::vector<int>& choice) const {
  double sum = 0;
  for (int node = 0; node < node_count(); ++node) {
    const auto own = static_cast<size_t>(choice[static_cast<size_t>(node)]);
    sum += costs_[static_cast<size_t>(node)][own];
    for (const auto& [other, matrix] : edges_[static_cast<size_t>(node)])
      sum += matrix[own][static_cast<size_t>(choice[static_cast<size_t>(other)])];
  }
  return sum;
}

Pbqp::Solution Pbqp::solve(const Options& options) const {
  return PbqpSearch(*this, options).run();
}

}  // namespace kodama::layout
