#pragma once

#include "builder/graph.h"
#include "compiler/graph/gradient/train_step.h"

namespace kodama::builder {

/// The step that trains the parameters of a graph: forward, gradients and optimizer as one model
/// (docs/training.md; `kodama train` runs such models).
///
///     train_step(F::cross_entropy(y, labels), {.optimizer = "adam:lr=0.001"})
///
/// `loss` is a single number; `request.loss` is set to it, and without `request.train` all parameters that
/// it depends on are trained. All extents of the graph's inputs must be known.
compiler::StepModel train_step(const Value& loss, compiler::TrainStepRequest request = {},
                               Here here = Here::line());

}  // namespace kodama::builder
