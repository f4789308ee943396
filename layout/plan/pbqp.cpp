#include "layout/plan/pbqp.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>
#include <numeric>
#include <span>
#include <utility>

#include "isa/cancellation.h"
#include "isa/error.h"

namespace kodama::layout {
namespace {

using Matrix = Pbqp::Matrix;

Matrix transposed(const Matrix& matrix) {
  Matrix result(matrix.columns(), matrix.rows());
  for (size_t i = 0; i < matrix.rows(); ++i) {
    for (size_t j = 0; j < matrix.columns(); ++j) result[j][i] = matrix[i][j];
  }
  return result;
}

double least(const double* values, size_t count) {
  return *std::min_element(values, values + count);
}

size_t at(int index) {
  return static_cast<size_t>(index);
}

/// An edge, seen from one of its nodes.
struct Adjacent {
  int node;  ///< the other one
  const Matrix* matrix;
  bool is_second;  ///< the matrix has the other one's candidates as rows
  double cost(int own, int other) const {
    return is_second ? (*matrix)[at(other)][at(own)] : (*matrix)[at(own)][at(other)];
  }
};
/// By node.
std::vector<std::vector<Adjacent>> adjacency(const Pbqp& problem) {
  std::vector<std::vector<Adjacent>> of_node(at(problem.node_count()));
  for (int node = 0; node < problem.node_count(); ++node) {
    for (const auto& [other, matrix] : problem.edges(node)) {
      of_node[at(node)].push_back({other, &matrix, false});
      of_node[at(other)].push_back({node, &matrix, true});
    }
  }
  return of_node;
}

/// A problem from which nodes are taken away one by one. Branch and bound copies it at every branch, so all
/// costs are in a few arrays, and a copy leaves out what is no longer used.
class Rest {
 public:
  explicit Rest(const Pbqp& problem) : alive_(static_cast<size_t>(problem.node_count()), 1) {
    first_cost_.push_back(0);
    for (int node = 0; node < problem.node_count(); ++node) {
      const std::vector<double>& costs = problem.node_costs(node);
      costs_.insert(costs_.end(), costs.begin(), costs.end());
      first_cost_.push_back(costs_.size());
    }
    edges_of_.resize(alive_.size());
    for (int node = 0; node < size(); ++node) {
      for (const auto& [other, matrix] : problem.edges(node)) {
        std::ranges::copy(matrix.values(), new_edge(node, other));
      }
    }
  }
  Rest(const Rest& other)
      : first_cost_(other.first_cost_),
        costs_(other.costs_),
        alive_(other.alive_),
        edges_of_(other.edges_of_),
        constant_(other.constant_),
        steps_(other.steps_) {
    edges_.reserve(other.edges_.size());
    values_.reserve(other.values_.size());
    std::vector<int> number(other.edges_.size(), -1);
    for (size_t k = 0; k < other.edges_.size(); ++k) {
      const Edge& edge = other.edges_[k];
      if (!other.alive_[at(edge.a)] || !other.alive_[at(edge.b)]) continue;
      number[k] = static_cast<int>(edges_.size());
      edges_.push_back({edge.a, edge.b, values_.size()});
      const auto values = other.values_.begin() + static_cast<ptrdiff_t>(edge.first_value);
      values_.insert(values_.end(), values, values + static_cast<ptrdiff_t>(count(edge.a) * count(edge.b)));
    }
    for (std::vector<Neighbour>& neighbours : edges_of_) {
      for (Neighbour& neighbour : neighbours) neighbour.edge = number[at(neighbour.edge)];
    }
  }
  Rest(Rest&&) = default;
  Rest& operator=(const Rest&) = delete;
  Rest& operator=(Rest&&) = delete;
  ~Rest() = default;

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
        if (!alive_[at(node)] || edges_of_[at(node)].size() > 2) continue;
        const size_t degree = edges_of_[at(node)].size();
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
    constant_ += costs(node)[candidate];
    for (const Neighbour& neighbour : edges_of_[at(node)]) {
      const View matrix = view(node, neighbour);
      double* of_other = costs(neighbour.node);
      for (size_t j = 0; j < count(neighbour.node); ++j) of_other[j] += matrix(at(candidate), j);
    }
    remove(node);
    steps_ = std::make_shared<const Step>(Step{steps_, node, {}, {candidate}});
  }

  /// Moves as much of the edges' costs as possible to the nodes; the sum of least costs is then a bound.
  double bound() {
    double sum = constant_;
    for (int node = 0; node < size(); ++node) {
      for (const Neighbour& neighbour : edges_of_[at(node)]) {
        if (neighbour.node > node) normalize(edges_[at(neighbour.edge)]);
      }
    }
    for (int node = 0; node < size(); ++node) {
      if (alive_[at(node)]) sum += least(costs(node), count(node));
    }
    return sum;
  }

  int alive_count() const { return static_cast<int>(std::ranges::count(alive_, 1)); }

  /// The node with most neighbours; -1 when none is left.
  int busiest() const {
    int best = -1;
    for (int node = 0; node < size(); ++node) {
      if (alive_[at(node)] && (best < 0 || edges_of_[at(node)].size() > edges_of_[at(best)].size()))
        best = node;
    }
    return best;
  }

  /// For each candidate, its cost with the best answer of every neighbour.
  std::vector<double> local_costs(int node) const {
    std::vector<double> result(costs(node), costs(node) + count(node));
    for (const Neighbour& neighbour : edges_of_[at(node)]) {
      const View matrix = view(node, neighbour);
      const double* of_other = costs(neighbour.node);
      for (size_t i = 0; i < result.size(); ++i) {
        double best = kForbidden;
        for (size_t j = 0; j < count(neighbour.node); ++j) best = std::min(best, matrix(i, j) + of_other[j]);
        result[i] += best;
      }
    }
    return result;
  }

  double constant() const { return constant_; }

  /// The choices of all nodes, when none is left.
  std::vector<int> choices() const {
    std::vector<int> choice(alive_.size(), 0);
    for (const Step* step = steps_.get(); step != nullptr; step = step->before.get()) {
      size_t index = 0;
      for (const auto& [neighbour, candidates] : step->neighbours)
        index = index * candidates + at(choice[at(neighbour)]);
      choice[at(step->node)] = step->best[index];
    }
    return choice;
  }

 private:
  /// A node that was taken away: its best candidate for every combination of its neighbours' choices.
  struct Step {
    std::shared_ptr<const Step> before;
    int node = -1;
    std::vector<std::pair<int, size_t>> neighbours;  ///< and their numbers of candidates
    std::vector<int> best;
  };
  /// Costs between the candidates of `a` and `b`, a < b, row by row.
  struct Edge {
    int a = -1;
    int b = -1;
    size_t first_value = 0;
  };
  struct Neighbour {
    int node = -1;
    int edge = -1;
  };
  /// An edge's costs, [candidate of a node][candidate of its neighbour].
  struct View {
    const double* values;
    size_t row;
    size_t column;
    double operator()(size_t i, size_t j) const { return values[i * row + j * column]; }
  };

  int size() const { return static_cast<int>(alive_.size()); }
  size_t count(int node) const { return first_cost_[at(node) + 1] - first_cost_[at(node)]; }
  double* costs(int node) { return &costs_[first_cost_[at(node)]]; }
  const double* costs(int node) const { return &costs_[first_cost_[at(node)]]; }
  View view(int node, const Neighbour& neighbour) const {
    const Edge& edge = edges_[at(neighbour.edge)];
    const size_t columns = count(edge.b);
    const double* values = &values_[edge.first_value];
    return node == edge.a ? View{values, columns, 1} : View{values, 1, columns};
  }

  /// Room for the costs of a new edge; a < b.
  double* new_edge(int a, int b) {
    const auto link = [&](int from, int to) {
      std::vector<Neighbour>& neighbours = edges_of_[at(from)];
      const auto place = std::ranges::find_if(neighbours, [&](const Neighbour& n) { return n.node > to; });
      neighbours.insert(place, {to, static_cast<int>(edges_.size())});
    };
    link(a, b);
    link(b, a);
    edges_.push_back({a, b, values_.size()});
    values_.resize(values_.size() + count(a) * count(b));
    return &values_[edges_.back().first_value];
  }

  void remove(int node) {
    for (const Neighbour& neighbour : edges_of_[at(node)])
      std::erase_if(edges_of_[at(neighbour.node)], [&](const Neighbour& n) { return n.node == node; });
    edges_of_[at(node)].clear();
    alive_[at(node)] = 0;
  }

  void fold(int node) {
    const std::vector<Neighbour> neighbours = edges_of_[at(node)];
    Step step{steps_, node, {}, {}};
    for (const Neighbour& neighbour : neighbours)
      step.neighbours.emplace_back(neighbour.node, count(neighbour.node));
    // The best candidate for each choice of a neighbour, given what these add; what they cost is added to
    // `costs_of_choices`. Choices are the inner loop: their costs are beside each other, mostly.
    std::vector<double> least_costs;
    const auto find_best = [&](size_t choices, double* costs_of_choices, auto&& added) {
      least_costs.assign(choices, kForbidden);
      const size_t first = step.best.size();
      step.best.resize(first + choices, 0);
      const double* own = costs(node);
      for (size_t i = 0; i < count(node); ++i) {
        for (size_t k = 0; k < choices; ++k) {
          const double cost = own[i] + added(i, k);
          if (cost < least_costs[k]) {
            least_costs[k] = cost;
            step.best[first + k] = static_cast<int>(i);
          }
        }
      }
      for (size_t k = 0; k < choices; ++k) costs_of_choices[k] += least_costs[k];
    };
    if (neighbours.empty()) {
      find_best(1, &constant_, [](size_t, size_t) { return 0.0; });
    } else if (neighbours.size() == 1) {
      const View matrix = view(node, neighbours[0]);
      find_best(count(neighbours[0].node), costs(neighbours[0].node),
                [&](size_t i, size_t j) { return matrix(i, j); });
    } else {
      const int a = neighbours[0].node;
      const int b = neighbours[1].node;
      const auto known =
          std::ranges::find_if(edges_of_[at(a)], [&](const Neighbour& n) { return n.node == b; });
      double* between =
          known != edges_of_[at(a)].end() ? &values_[edges_[at(known->edge)].first_value] : new_edge(a, b);
      const View first = view(node, neighbours[0]);  // now that values have their place
      const View second = view(node, neighbours[1]);
      for (size_t j = 0; j < count(a); ++j, between += count(b))
        find_best(count(b), between, [&](size_t i, size_t k) { return first(i, j) + second(i, k); });
    }
    remove(node);
    steps_ = std::make_shared<const Step>(std::move(step));
  }

  void normalize(const Edge& edge) {
    const size_t rows = count(edge.a);
    const size_t columns = count(edge.b);
    double* matrix = &values_[edge.first_value];
    for (size_t i = 0; i < rows; ++i) {
      double* row = matrix + i * columns;
      const double low = least(row, columns);
      if (low == kForbidden) {
        costs(edge.a)[i] = kForbidden;
        continue;
      }
      if (low == 0) continue;
      costs(edge.a)[i] += low;
      for (size_t j = 0; j < columns; ++j) row[j] -= low;
    }
    for (size_t j = 0; j < columns; ++j) {
      double low = kForbidden;
      for (size_t i = 0; i < rows; ++i) low = std::min(low, matrix[i * columns + j]);
      if (low == kForbidden) {
        costs(edge.b)[j] = kForbidden;
      } else if (low != 0) {
        costs(edge.b)[j] += low;
        for (size_t i = 0; i < rows; ++i) matrix[i * columns + j] -= low;
      }
    }
  }

  std::vector<size_t> first_cost_;  ///< of a node, in costs_; one more than nodes
  std::vector<double> costs_;
  std::vector<char> alive_;
  std::vector<std::vector<Neighbour>> edges_of_;  ///< by node, neighbours ascending
  std::vector<Edge> edges_;                       ///< those of nodes that were taken away, too
  std::vector<double> values_;                    ///< of all edges
  double constant_ = 0;
  std::shared_ptr<const Step> steps_;  ///< the last one
};

/// A problem without candidates that others dominate: what another costs more is at most what it costs less,
/// whatever the neighbours choose. Exact, and quick where layers have many candidates that agree with each
/// other's neighbours.
class Undominated {
 public:
  explicit Undominated(const Pbqp& problem) : problem_(problem), neighbours_(adjacency(problem)) {
    for (int node = 0; node < problem.node_count(); ++node) {
      kept_.emplace_back(static_cast<size_t>(problem.candidate_count(node)));
      std::iota(kept_.back().begin(), kept_.back().end(), 0);
    }
    for (bool changed = true; changed;) {
      changed = false;
      for (int node = 0; node < problem.node_count(); ++node) changed = thin_out(node) || changed;
    }
  }

  Pbqp smaller() const {
    Pbqp result;
    for (int node = 0; node < problem_.node_count(); ++node) {
      std::vector<double> costs;
      for (const int k : kept_[at(node)]) costs.push_back(problem_.node_costs(node)[at(k)]);
      result.add_node(std::move(costs));
    }
    for (int node = 0; node < problem_.node_count(); ++node) {
      for (const auto& [other, matrix] : problem_.edges(node)) {
        Matrix part(kept_[at(node)].size(), kept_[at(other)].size());
        auto value = part.values().begin();
        for (const int k : kept_[at(node)]) {
          for (const int j : kept_[at(other)]) *value++ = matrix[at(k)][at(j)];
        }
        result.add_edge(node, other, part);
      }
    }
    return result;
  }
  /// A choice of the problem as one of the smaller problem that costs no more, and back.
  std::vector<int> inward(std::vector<int> choice) const {
    for (const auto& [node, gone, by] : removed_) {
      if (choice[at(node)] == gone) choice[at(node)] = by;
    }
    for (size_t node = 0; node < choice.size(); ++node)
      choice[node] = static_cast<int>(std::ranges::find(kept_[node], choice[node]) - kept_[node].begin());
    return choice;
  }
  std::vector<int> outward(std::vector<int> choice) const {
    for (size_t node = 0; node < choice.size(); ++node) choice[node] = kept_[node][at(choice[node])];
    return choice;
  }

 private:
  struct Removal {
    int node, gone, by;
  };
  bool thin_out(int node) {
    std::vector<int>& kept = kept_[at(node)];
    const size_t before = kept.size();
    for (size_t k = 0; k < kept.size();) {
      // Of two that are as good, the first stays.
      const auto dominator = std::ranges::find_if(kept, [&](int by) {
        return by != kept[k] && dominates(node, by, kept[k]) &&
               (by < kept[k] || !dominates(node, kept[k], by));
      });
      if (dominator == kept.end()) {
        ++k;
        continue;
      }
      removed_.push_back({node, kept[k], *dominator});
      kept.erase(kept.begin() + static_cast<ptrdiff_t>(k));
    }
    return kept.size() < before;
  }

  bool dominates(int node, int by, int candidate) const {
    const std::vector<double>& costs = problem_.node_costs(node);
    double more = difference(costs[at(by)], costs[at(candidate)]);
    for (const Adjacent& neighbour : neighbours_[at(node)]) {
      double most = -kForbidden;
      for (const int other : kept_[at(neighbour.node)])
        most = std::max(most, difference(neighbour.cost(by, other), neighbour.cost(candidate, other)));
      more += most;
      if (more > 0 && most == kForbidden) return false;
    }
    return more <= 0;
  }
  /// What `a` is more than `b`; of two that are forbidden, nothing.
  static double difference(double a, double b) {
    if (a == kForbidden) return b == kForbidden ? 0 : kForbidden;
    // Bounded, so that no other difference is lost in it.
    return b == kForbidden ? -1e15 : a - b;
  }

  const Pbqp& problem_;
  std::vector<std::vector<int>> kept_;
  std::vector<std::vector<Adjacent>> neighbours_;
  std::vector<Removal> removed_;  ///< in their order
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
    if (!options_.known.empty()) {
      best_.choice = options_.known;
      best_.cost = problem_.cost(best_.choice);
    }
    heuristic(rest);
    if (options_.branches > 0) improve();
    open_bound_ = kForbidden;
    const double before = best_.cost;
    branch(std::move(rest));
    if (best_.cost < before && open_bound_ < best_.cost) improve();
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

  /// Chooses anew for nodes that follow each other, the others as they are, until that gains nothing.
  void improve() {
    constexpr int kTogether = 12;
    const int nodes = problem_.node_count();
    if (nodes <= kTogether || best_.cost == kForbidden) return;
    if (neighbours_.empty()) neighbours_ = adjacency(problem_);
    for (double last = kForbidden; best_.cost < last - tolerance(last);) {
      last = best_.cost;
      for (int first = 0; first < nodes; first += kTogether / 2)
        choose_anew(first, std::min(nodes, first + kTogether));
    }
  }

  /// The nodes [first, end) as a problem of their own.
  void choose_anew(int first, int end) {
    constexpr int64_t kBranchesEach = 40;
    Pbqp part;
    for (int node = first; node < end; ++node) {
      std::vector<double> costs = problem_.node_costs(node);
      for (const Adjacent& neighbour : neighbours_[at(node)]) {
        if (neighbour.node >= first && neighbour.node < end) continue;
        for (size_t k = 0; k < costs.size(); ++k)
          costs[k] += neighbour.cost(static_cast<int>(k), best_.choice[at(neighbour.node)]);
      }
      part.add_node(std::move(costs));
    }
    for (int node = first; node < end; ++node) {
      for (const Adjacent& neighbour : neighbours_[at(node)]) {
        if (neighbour.node > node && neighbour.node < end)
          part.add_edge(node - first, neighbour.node - first, *neighbour.matrix);
      }
    }
    const Pbqp::Solution found = PbqpSearch(part, {.branches = kBranchesEach}).run();
    const auto begin = best_.choice.begin() + first;
    if (found.cost >= part.cost({begin, begin + (end - first)})) return;
    std::vector<int> choice = best_.choice;
    std::ranges::copy(found.choice, choice.begin() + first);
    const double cost = problem_.cost(choice);
    if (cost >= best_.cost) return;
    best_.cost = cost;
    best_.choice = std::move(choice);
  }

  /// `rest` is reduced.
  void branch(Rest rest) {
    isa::stop_if_cancelled();
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
  std::vector<std::vector<Adjacent>> neighbours_;  ///< of the problem; made when it is improved first
  double open_bound_ = kForbidden;                 ///< the least bound of what was not searched
  int64_t branches_ = 0;
};

}  // namespace

double tolerance(double cost) {
  return 1e-9 * std::max(1.0, std::isfinite(cost) ? std::abs(cost) : 1.0);
}

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
  isa::check_internal(static_cast<int>(costs.rows()) == candidate_count(a) &&
                          static_cast<int>(costs.columns()) == candidate_count(b),
                      "pbqp", "{} rows and {} columns for {} and {} candidates", costs.rows(),
                      costs.columns(), candidate_count(a), candidate_count(b));
  Matrix oriented = a < b ? costs : transposed(costs);
  auto [known, is_new] =
      edges_[static_cast<size_t>(std::min(a, b))].try_emplace(std::max(a, b), std::move(oriented));
  if (is_new) return;
  // try_emplace has left it as it was.
  std::ranges::transform(known->second.values(), oriented.values(), known->second.values().begin(),
                         std::plus{});
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
  const Undominated undominated(*this);
  const Pbqp smaller = undominated.smaller();
  Options inner = options;
  if (!options.known.empty()) inner.known = undominated.inward(options.known);
  Solution solution = PbqpSearch(smaller, inner).run();
  solution.choice = undominated.outward(std::move(solution.choice));
  return solution;
}

}  // namespace kodama::layout
