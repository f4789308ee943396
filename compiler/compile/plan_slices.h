#pragma once

#include <memory>

#include "compiler/compile/compile_model.h"
#include "compiler/package/compiled_model.h"

/// A large batch in slices. Where every layer computes each image by itself (compiler/layers/batch.h), the
/// program of some images, a slice, serves all of them: it runs once for each slice, with constants that come
/// to the chip before the first as between runs. So compiling takes what a slice takes, and what a layer
/// makes is still on the chip when the next one reads it, though the batch as a whole would not be.
///
///     ResNet-50, batch 32       program of 1 image, 32 slices
///
/// The larger a slice, the more images share the weights that come from DRAM; the smaller, the more stays in
/// L2BM from one layer to the next. The second counts for more: a slice has as many images as L2BM holds of
/// what a layer reads and makes.
namespace kodama::compiler {

/// A plan with what it was made of.
struct SlicedPlan {
  std::unique_ptr<LayerGraph> graph;  ///< of a slice
  std::unique_ptr<ModelPlanner> planner;
  ModelPlan plan;  ///< of `graph`
  int64_t slices = 1;
  std::vector<int> axes;  ///< CompiledModel::slice_axes
};

/// Layers of a model, and how they are computed. UserError where `options.slices` of the batch can't be.
/// `prepared` as that of compile_model.
SlicedPlan plan_model(onnx::ModelProto model, const isa::Chip& chip, const CompileOptions& options,
                      onnx::ModelProto* prepared = nullptr);

/// Of `--slices`: "auto" is nothing, "off" one, else their number. UserError for anything else.
std::optional<int64_t> parse_slices(const std::string& text);

}  // namespace kodama::compiler
