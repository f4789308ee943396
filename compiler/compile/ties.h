#pragma once

#include <string>
#include <vector>

#include "compiler/layers/layer_graph.h"
#include "compiler/package/compiled_model.h"
#include "compiler/plan/model_plan.h"

/// Ties: an output whose values are an input's in the next run, without leaving the chip. A loop's state, or
/// weights that training changes.
///
///     x (sent once) -> image of x -> ... -> kernel -> image of y (made)
///                           ^                             |
///                           +---- relayout behind all ----+
///
/// Behind the last stage, in a segment of its own, a relayout brings what was made of the output into the
/// place of every image of the input that the host would send. These keep their place from run to run.
///
/// There is no relayout where the kernel that makes the output works element by element, the input has one
/// image, in the same layout, and no stage behind reads it or is the host's: then the result takes the
/// image's place at once, as weights that an optimizer changes do.
namespace kodama::compiler {

/// By the names of the model's values.
struct TieRequest {
  std::string output;
  std::string input;
  bool fetch = false;  ///< the host wants the output of every run, too
};

/// Adds stages and images for the ties that can be made, and returns those. One can't be made where the host
/// reads the output on its way or the input at all, where the input comes to the chip as something else than
/// words of its type, and where the output isn't a kernel's result of the input's type and shape. UserError
/// for names that the model doesn't have.
std::vector<Tie> add_ties(ModelPlan& plan, const LayerGraph& graph, const std::vector<TieRequest>& requests);

/// What these keep on the chip, for the planner: but for outputs that the host wants. UserError for names
/// that the model doesn't have.
std::vector<StateTensor> states_of(const LayerGraph& graph, const std::vector<TieRequest>& requests);

/// Whether an image is one that the host sends of an input.
bool is_sent_input(const PlannedImage& image, const LayerGraph& graph);

}  // namespace kodama::compiler
