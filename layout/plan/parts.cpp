#include "layout/plan/parts.h"

#include <algorithm>
#include <map>
#include <set>

namespace kodama::layout {
namespace {

size_t index(int index) {
  return static_cast<size_t>(index);
}

std::vector<int> nodes_of(const PlanProblem::Tensor& tensor) {
  std::vector<int> nodes = {tensor.maker.node};
  for (const PlanProblem::Use& use : tensor.readers) nodes.push_back(use.node);
  return nodes;
}

}  // namespace

PlanNeighbours::PlanNeighbours(const PlanProblem& problem)
    : problem_(problem), of_node_(problem.nodes.size()) {
  for (size_t t = 0; t < problem.tensors.size(); ++t) {
    for (const int node : nodes_of(problem.tensors[t])) {
      std::vector<int>& tensors = of_node_[index(node)];
      if (tensors.empty() || tensors.back() != static_cast<int>(t)) tensors.push_back(static_cast<int>(t));
    }
  }
}

std::vector<int> PlanNeighbours::around(int tensor, size_t most) const {
  std::vector<int> found;
  std::set<int> known;
  const auto add = [&](int t) {
    for (const int node : nodes_of(problem_.tensors[index(t)])) {
      if (found.size() < most && known.insert(node).second) found.push_back(node);
    }
  };
  add(tensor);
  for (size_t k = 0; k < found.size() && found.size() < most; ++k) {
    for (const int t : tensors_of(found[k])) add(t);
  }
  std::ranges::sort(found);
  return found;
}

PlanPart::PlanPart(const PlanProblem& whole, const std::vector<int>& choice, const std::vector<int>& nodes)
    : nodes_(nodes) {
  std::map<int, int> number;  // of the whole's nodes, in the part
  for (const int node : nodes) {
    number[node] = static_cast<int>(problem_.nodes.size());
    problem_.nodes.push_back(whole.nodes[index(node)]);
  }
  const auto inside = [&](const PlanProblem::Use& use) {
    const auto [found, is_new] = number.try_emplace(use.node, static_cast<int>(problem_.nodes.size()));
    if (is_new) {
      const PlanProblem::Node& node = whole.nodes[index(use.node)];
      problem_.nodes.push_back({node.name, {node.candidates[index(choice[index(use.node)])]}});
    }
    return PlanProblem::Use{found->second, use.operand};
  };
  const std::set<int> free(nodes.begin(), nodes.end());
  for (size_t t = 0; t < whole.tensors.size(); ++t) {
    const PlanProblem::Tensor& tensor = whole.tensors[t];
    if (std::ranges::none_of(nodes_of(tensor), [&](int node) { return free.contains(node); })) continue;
    tensors_.push_back(static_cast<int>(t));
    PlanProblem::Tensor& part = problem_.tensors.emplace_back(tensor);
    part.maker = inside(tensor.maker);
    for (PlanProblem::Use& use : part.readers) use = inside(use);
  }
  if (!whole.expect) return;
  problem_.expect = [expect = whole.expect, tensors = tensors_](std::vector<PlanProblem::Change> changes) {
    for (PlanProblem::Change& change : changes) change.tensor = tensors[index(change.tensor)];
    expect(changes);
  };
}

std::vector<int> PlanPart::inward(const std::vector<int>& choice) const {
  std::vector<int> of_part(problem_.nodes.size(), 0);
  for (size_t k = 0; k < nodes_.size(); ++k) of_part[k] = choice[index(nodes_[k])];
  return of_part;
}

std::vector<int> PlanPart::outward(const std::vector<int>& of_part, std::vector<int> choice) const {
  for (size_t k = 0; k < nodes_.size(); ++k) choice[index(nodes_[k])] = of_part[k];
  return choice;
}

}  // namespace kodama::layout
