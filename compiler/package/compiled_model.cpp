#include "compiler/package/compiled_model.h"

#include "compiler/layers/batch.h"

namespace kodama::compiler {

std::string stage_kind_name(const Stage& stage) {
  return stage.on_chip() && stage.kind == LayerKind::kRearrange ? "Relayout" : layer_kind_name(stage.kind);
}

isa::Program Segment::slice(int stage) const {
  const auto number = static_cast<size_t>(stage - first_stage);
  const auto at = [&](size_t k) {
    return parts.program.statements.begin() + static_cast<ptrdiff_t>(parts.begin[k]);
  };
  return {parts.program.source_name, {at(number), at(number + 1)}};
}

TensorId CompiledModel::storage(TensorId id) const {
  while (tensors[static_cast<size_t>(id)].alias_of >= 0) id = tensors[static_cast<size_t>(id)].alias_of;
  return id;
}

Shape CompiledModel::whole_shape(TensorId id) const {
  Shape shape = tensors[static_cast<size_t>(id)].shape;
  const int axis = slice_axes[static_cast<size_t>(id)];
  if (axis != Batch::kSame) shape[static_cast<size_t>(axis)] *= slices;
  return shape;
}

Tensor CompiledModel::slice_of(TensorId id, int64_t slice, const Tensor& whole) const {
  const int axis = slice_axes[static_cast<size_t>(id)];
  if (slices == 1 || axis == Batch::kSame) return whole;
  return take_slice(whole, axis, tensors[static_cast<size_t>(id)].shape, slice);
}

void CompiledModel::add_slice(TensorId id, int64_t slice, const Tensor& part, Tensor& whole) const {
  const int axis = slice_axes[static_cast<size_t>(id)];
  if (slices == 1 || axis == Batch::kSame) {
    whole = part;
    return;
  }
  if (slice == 0) whole = Tensor(part.type(), whole_shape(id));
  put_slice(whole, axis, part, slice);
}

}  // namespace kodama::compiler
