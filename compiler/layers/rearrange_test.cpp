#include <gtest/gtest.h>

#include <limits>
#include <numeric>
#include <random>

#include "compiler/layers/layer_graph.h"

namespace kodama::compiler {
namespace {

Tensor counting(const Shape& shape) {
  Tensor tensor(DataType::kInt32, shape);
  const auto data = tensor.data<int32_t>();
  std::iota(data.begin(), data.end(), 1);
  return tensor;
}

/// The definition, element by element.
Tensor expected_rearrange(const RearrangeLayer& rearrange, const std::vector<const Tensor*>& inputs) {
  Tensor output(DataType::kInt32, rearrange.extents);
  std::vector<int64_t> point(rearrange.extents.size(), 0);
  for (int64_t number = 0; number < output.size(); ++number) {
    int64_t rest = number;
    for (size_t axis = point.size(); axis-- > 0;) {
      point[axis] = rest % rearrange.extents[axis];
      rest /= rearrange.extents[axis];
    }
    auto value = static_cast<int32_t>(rearrange.fill);
    for (size_t p = 0; p < rearrange.pieces.size(); ++p) {
      const auto& piece = rearrange.pieces[p];
      bool in_box = true;
      for (size_t axis = 0; axis < point.size(); ++axis) {
        in_box = in_box && point[axis] >= piece.begin[axis] && point[axis] < piece.end[axis];
      }
      if (!in_box) continue;
      const auto index = piece.input.map.apply(point);
      int64_t offset = 0;
      bool inside = true;
      for (size_t axis = 0; axis < index.size(); ++axis) {
        const int64_t extent = inputs[p]->shape()[axis];
        inside = inside && index[axis] >= 0 && index[axis] < extent;
        offset = offset * extent + index[axis];
      }
      value = inside ? inputs[p]->data<int32_t>()[offset] : static_cast<int32_t>(piece.input.fill);
    }
    output.data<int32_t>()[number] = value;
  }
  return output;
}

TEST(RunMove, RandomMapsAndPieces) {
  std::mt19937 random(11);
  const auto pick = [&](int64_t low, int64_t high) {
    return std::uniform_int_distribution<int64_t>(low, high)(random);
  };
  for (int trial = 0; trial < 300; ++trial) {
    const size_t rank = pick(0, 4);
    RearrangeLayer rearrange;
    rearrange.fill = static_cast<double>(pick(-5, -1));
    for (size_t axis = 0; axis < rank; ++axis) rearrange.extents.push_back(pick(1, 5));
    std::vector<Tensor> tensors;
    for (int64_t p = pick(1, 3); p > 0; --p) {
      const size_t source_rank = pick(0, 3);
      Shape shape;
      AffineMap map(source_rank, rank);
      for (size_t axis = 0; axis < source_rank; ++axis) {
        shape.push_back(pick(1, 6));
        map.set_offset(axis, pick(-1, 2));
        if (rank > 0) map.set(axis, pick(0, static_cast<int64_t>(rank) - 1), pick(-2, 2));
      }
      RearrangeLayer::Piece piece{{0, map, -9}, {}, {}};
      for (size_t axis = 0; axis < rank; ++axis) {
        piece.begin.push_back(pick(0, rearrange.extents[axis]));
        piece.end.push_back(pick(piece.begin[axis], rearrange.extents[axis]));
      }
      rearrange.pieces.push_back(piece);
      tensors.push_back(counting(shape));
    }
    std::vector<const Tensor*> inputs;
    for (const Tensor& tensor : tensors) inputs.push_back(&tensor);
    ASSERT_EQ(run_rearrange(rearrange, DataType::kInt32, inputs), expected_rearrange(rearrange, inputs))
        << "trial " << trial;
  }
}

TEST(RunMove, LargeTransposesGoThroughTheBlockedPath) {
  const Tensor source = counting({3, 70, 41, 5});
  std::vector<size_t> permutation = {0, 1, 2, 3};
  do {
    RearrangeLayer rearrange;
    AffineMap map(4, 4);
    for (size_t axis = 0; axis < 4; ++axis) {
      map.set(permutation[axis], axis, 1);
      rearrange.extents.push_back(source.shape()[permutation[axis]]);
    }
    rearrange.pieces = {{{0, map, 0}, {0, 0, 0, 0}, rearrange.extents}};
    ASSERT_EQ(run_rearrange(rearrange, DataType::kInt32, {&source}),
              expected_rearrange(rearrange, {&source}));
  } while (std::next_permutation(permutation.begin(), permutation.end()));
}

TEST(RunMove, EveryElementTypeAndItsFill) {
  for (int number = DataType::kFloat32; number <= DataType::kBfloat16; ++number) {
    const auto type = static_cast<DataType>(number);
    Tensor source(type, {2});
    RearrangeLayer rearrange;
    rearrange.extents = {4};
    rearrange.fill = 1;
    rearrange.pieces = {{{0, AffineMap::identity(1).set_offset(0, -1), 0}, {1}, {3}}};
    if (type == DataType::kString) {
      source.strings() = {"a", "b"};
      EXPECT_EQ(run_rearrange(rearrange, type, {&source}).strings(),
                (std::vector<std::string>{"", "a", "b", ""}));
      continue;
    }
    const Tensor result = run_rearrange(rearrange, type, {&source});
    ASSERT_EQ(result.shape(), Shape{4}) << data_type_name(type);
    if (type == DataType::kComplex64 || type == DataType::kComplex128) continue;
    for (int64_t i = 0; i < 4; ++i) {
      EXPECT_EQ(element_as_double(result, i), i == 0 || i == 3 ? 1 : 0) << data_type_name(type);
    }
  }
}

}  // namespace
}  // namespace kodama::compiler
