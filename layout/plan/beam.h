#pragma once

#include <vector>

#include "layout/plan/planner.h"

/// A good plan of a problem of any size, quickly: node by node, makers before readers, the best partial plans
/// are kept.
///
/// A partial plan is as good as its cost, as far as later nodes can see: they see of every tensor that one of
/// them still reads the layout that it was made in, and those that it has been converted to. Of partial plans
/// that show the same, the cheapest stays. Where no more than `width` show something different, as in chains,
/// the plan is the best one; else the cheapest stay, those first that differ in the layout of the newest
/// tensor. In the end nodes choose anew, one by one, until that gains nothing.
///
/// Example (layout/plan/planner.h): after `make` there is one partial plan, (rows), at cost 5; after `use 1`,
/// (rows) at 14 and (rows, columns) at 18; after `use 2` 23 and 21.
namespace kodama::layout {

struct BeamOptions {
  int width = 100;  ///< partial plans, at least one
};
/// A candidate for every node. UserError where nodes read each other's tensors in a circle.
std::vector<int> plan_by_beam(const PlanProblem& problem, const ConversionCost& cost,
                              const BeamOptions& options = {});

}  // namespace kodama::layout
