#include <algorithm>
#include <array>
#include <cstring>

#include "compiler/layers/layer_graph.h"

/// Execution of Rearrange layers on the host.
namespace kodama::compiler {

namespace {

std::vector<int64_t> row_major_strides(const Shape& shape) {
  std::vector<int64_t> strides(shape.size(), 1);
  for (size_t axis = shape.size(); axis-- > 1;) strides[axis - 1] = strides[axis] * shape[axis];
  return strides;
}

/// One loop of a strided copy; steps in elements.
struct CopyLoop {
  int64_t count;
  int64_t source_step;
  int64_t target_step;
};

/// Edge of the blocks in which two loops with different unit steps are walked, so that both sides stay in
/// the first-level cache.
constexpr int64_t kBlock = 32;

template <typename T>
void copy_plane(const T* source, T* target, const CopyLoop& outer, const CopyLoop& inner) {
  for (int64_t i0 = 0; i0 < outer.count; i0 += kBlock) {
    const int64_t i1 = std::min(outer.count, i0 + kBlock);
    for (int64_t k0 = 0; k0 < inner.count; k0 += kBlock) {
      const int64_t k1 = std::min(inner.count, k0 + kBlock);
      for (int64_t i = i0; i < i1; ++i) {
        const T* from = source + i * outer.source_step;
        T* to = target + i * outer.target_step;
        for (int64_t k = k0; k < k1; ++k) to[k * inner.target_step] = from[k * inner.source_step];
      }
    }
  }
}

template <typename T>
void copy_loops(const T* source, T* target, const std::vector<CopyLoop>& loops, size_t level = 0) {
  const size_t left = loops.size() - level;
  if (left == 0) {
    *target = *source;
  } else if (left == 1 && loops[level].source_step == 1 && loops[level].target_step == 1) {
    std::copy_n(source, loops[level].count, target);
  } else if (left == 1) {
    copy_plane(source, target, {1, 0, 0}, loops[level]);
  } else if (left == 2 && loops[level + 1].source_step != 1) {
    copy_plane(source, target, loops[level], loops[level + 1]);
  } else {
    const CopyLoop& loop = loops[level];
    for (int64_t i = 0; i < loop.count; ++i) {
      copy_loops(source + i * loop.source_step, target + i * loop.target_step, loops, level + 1);
    }
  }
}

/// The loops of a box in the order of the target's axes, joined where both sides run on; the loop with the
/// source's unit step stands next to the last, for copy_plane.
std::vector<CopyLoop> plan_loops(std::vector<CopyLoop> loops) {
  std::vector<CopyLoop> joined;
  for (const CopyLoop& loop : loops) {
    if (loop.count == 1) continue;
    if (!joined.empty() && joined.back().source_step == loop.count * loop.source_step &&
        joined.back().target_step == loop.count * loop.target_step) {
      joined.back() = {joined.back().count * loop.count, loop.source_step, loop.target_step};
    } else {
      joined.push_back(loop);
    }
  }
  if (joined.size() > 2 && joined.back().source_step != 1) {
    const auto unit = std::find_if(joined.begin(), joined.end() - 1,
                                   [](const CopyLoop& loop) { return loop.source_step == 1; });
    if (unit != joined.end() - 1) std::rotate(unit, unit + 1, joined.end() - 1);
  }
  return joined;
}

/// An element as the bytes of T, or the text of a STRING tensor.
template <typename T>
void run_piece(const RearrangeLayer::Piece& piece, const Shape& source_shape, const T* source,
               const Shape& target_shape, T* target, const T& fill) {
  for (size_t axis = 0; axis < target_shape.size(); ++axis) {
    if (piece.begin[axis] >= piece.end[axis]) return;
  }
  const AffineMap& map = piece.input.map;
  const auto source_strides = row_major_strides(source_shape);
  const auto target_strides = row_major_strides(target_shape);
  if (map.stays_inside(piece.begin, piece.end, source_shape)) {
    int64_t source_offset = 0;
    int64_t target_offset = 0;
    std::vector<CopyLoop> loops;
    const auto first = map.apply(piece.begin);
    for (size_t axis = 0; axis < map.axes(); ++axis) source_offset += first[axis] * source_strides[axis];
    for (size_t dim = 0; dim < target_shape.size(); ++dim) {
      target_offset += piece.begin[dim] * target_strides[dim];
      int64_t step = 0;
      for (size_t axis = 0; axis < map.axes(); ++axis)
        step += map.coefficient(axis, dim) * source_strides[axis];
      loops.push_back({piece.end[dim] - piece.begin[dim], step, target_strides[dim]});
    }
    copy_loops(source + source_offset, target + target_offset, plan_loops(std::move(loops)));
    return;
  }
  std::vector<int64_t> point = piece.begin;
  for (;;) {
    const auto index = map.apply(point);
    int64_t source_offset = 0;
    int64_t target_offset = 0;
    bool inside = true;
    for (size_t axis = 0; axis < index.size(); ++axis) {
      inside = inside && index[axis] >= 0 && index[axis] < source_shape[axis];
      source_offset += index[axis] * source_strides[axis];
    }
    for (size_t dim = 0; dim < point.size(); ++dim) target_offset += point[dim] * target_strides[dim];
    target[target_offset] = inside ? source[source_offset] : fill;
    size_t dim = point.size();
    while (dim-- > 0) {
      if (++point[dim] < piece.end[dim]) break;
      point[dim] = piece.begin[dim];
    }
    if (dim == static_cast<size_t>(-1)) return;
  }
}

/// `value` as one element of `type`, in its storage form.
Tensor fill_element(DataType type, double value) {
  Tensor element(type, {});
  switch (type) {
    case DataType::kFloat32:
      element.data<float>()[0] = static_cast<float>(value);
      break;
    case DataType::kFloat64:
      element.data<double>()[0] = value;
      break;
    case DataType::kFloat16:
      element.data<uint16_t>()[0] = float_to_half(static_cast<float>(value));
      break;
    case DataType::kBfloat16:
      element.data<uint16_t>()[0] = float_to_bfloat16(static_cast<float>(value));
      break;
    case DataType::kComplex64:
      element.data<std::array<float, 2>>()[0][0] = static_cast<float>(value);
      break;
    case DataType::kComplex128:
      element.data<std::array<double, 2>>()[0][0] = value;
      break;
    case DataType::kBool:
      element.data<uint8_t>()[0] = value != 0;
      break;
    case DataType::kUint64:
      element.data<uint64_t>()[0] = static_cast<uint64_t>(value);
      break;
    case DataType::kInt64:
      element.data<int64_t>()[0] = static_cast<int64_t>(value);
      break;
    default: {
      // The other integers: their bytes are the low bytes of the value's (the host is little-endian).
      const auto wide = static_cast<int64_t>(value);
      std::memcpy(element.bytes().data(), &wide, element.bytes().size());
    }
  }
  return element;
}

template <typename T>
void run_pieces(const RearrangeLayer& rearrange, DataType type, const std::vector<const Tensor*>& inputs,
                Tensor& output) {
  const auto target = output.data<T>();
  std::fill(target.begin(), target.end(), fill_element(type, rearrange.fill).data<T>()[0]);
  for (size_t i = 0; i < inputs.size(); ++i) {
    const T fill = fill_element(type, rearrange.pieces[i].input.fill).template data<T>()[0];
    run_piece(rearrange.pieces[i], inputs[i]->shape(), inputs[i]->data<T>().data(), rearrange.extents,
              target.data(), fill);
  }
}

}  // namespace

Tensor run_rearrange(const RearrangeLayer& rearrange, DataType type,
                     const std::vector<const Tensor*>& piece_inputs) {
  isa::check_internal(piece_inputs.size() == rearrange.pieces.size(), "run_rearrange",
                      "{} inputs for {} pieces", piece_inputs.size(), rearrange.pieces.size());
  for (const Tensor* input : piece_inputs) {
    isa::check_internal(input->type() == type, "run_rearrange", "a piece of {} in a tensor of {}",
                        data_type_name(input->type()), data_type_name(type));
  }
  Tensor output(type, rearrange.extents);
  if (type == DataType::kString) {
    for (size_t i = 0; i < piece_inputs.size(); ++i) {
      run_piece(rearrange.pieces[i], piece_inputs[i]->shape(), piece_inputs[i]->strings().data(),
                rearrange.extents, output.strings().data(), std::string());
    }
    return output;
  }
  switch (element_size(type)) {
    case 1:
      run_pieces<uint8_t>(rearrange, type, piece_inputs, output);
      break;
    case 2:
      run_pieces<uint16_t>(rearrange, type, piece_inputs, output);
      break;
    case 4:
      run_pieces<uint32_t>(rearrange, type, piece_inputs, output);
      break;
    case 8:
      run_pieces<uint64_t>(rearrange, type, piece_inputs, output);
      break;
    case 16:
      run_pieces<std::array<uint64_t, 2>>(rearrange, type, piece_inputs, output);
      break;
    default:
      throw isa::InternalError(
          fmt::format("internal error in run_rearrange: elements of type {}", data_type_name(type)));
  }
  return output;
}

}  // namespace kodama::compiler
