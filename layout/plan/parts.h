#pragma once

#include <functional>
#include <vector>

#include "layout/plan/planner.h"

/// Parts of a problem: some nodes choose anew, together, while all others keep what they have.
///
/// Nodes that choose one by one stay where each would have to wait for the others. What training keeps on
/// the chip is such a case: where weights lie from step to step is a choice of the node that has them at
/// first, and the node that keeps them must make the same one; either alone makes the plan impossible.
///
///     have  {rows}, {columns}      use  {reads rows}      keep  {rows}, {columns}: as `have`, or impossible
///     make  {reads columns, makes columns}                converting costs 10
///
/// With rows the weights are converted for `make`, and what it makes is converted to be kept: 20. With
/// columns they are converted for `use`: 10. From the first plan no single node leads to the second: where
/// `have` or `keep` moves alone, nothing fits. The part around the weights has both.
///
/// A part is a problem like any other, solved by the same means (layout/plan/pbqp.h), and small: its size
/// doesn't grow with the network's.
namespace kodama::layout {

class PlanPart {
 public:
  /// `nodes` choose, ascending; `choice` is everybody's.
  PlanPart(const PlanProblem& whole, const std::vector<int>& choice, const std::vector<int>& nodes);

  /// The nodes that choose, in the same order, then those that they share tensors with, which have one
  /// candidate each.
  const PlanProblem& problem() const { return problem_; }
  /// The part's tensors, by their number in the whole.
  const std::vector<int>& tensors() const { return tensors_; }
  /// What the whole's choice is in the part, and what it becomes with the part's.
  std::vector<int> inward(const std::vector<int>& choice) const;
  std::vector<int> outward(const std::vector<int>& of_part, std::vector<int> choice) const;

 private:
  PlanProblem problem_;
  std::vector<int> tensors_;
  std::vector<int> nodes_;  ///< the whole's, of those that choose
};

/// Which nodes make and read what.
class PlanNeighbours {
 public:
  explicit PlanNeighbours(const PlanProblem& problem);

  /// The nodes of a tensor, and those nearest to them by other tensors; at most `most` of these. Ascending.
  std::vector<int> around(int tensor, size_t most) const;
  /// Tensors that a node makes or reads, ascending.
  const std::vector<int>& tensors_of(int node) const { return of_node_[static_cast<size_t>(node)]; }

 private:
  const PlanProblem& problem_;
  std::vector<std::vector<int>> of_node_;
};

}  // namespace kodama::layout
