#include "compiler/layers/batch.h"

#include <gtest/gtest.h>

#include "compiler/lowering/lowering.h"
#include "compiler/lowering/lowering_test_util.h"

namespace kodama::compiler {
namespace {

using namespace testing;

/// Every size of slice computes what the whole does, image by image.
void expect_slices(const onnx::ModelProto& source, int64_t images) {
  const onnx::ModelProto model = import_model(source, {}, "test");
  const LayerGraph whole = lower_to_layers(model, {});
  SCOPED_TRACE(describe(whole));
  std::string why_not;
  const std::optional<Batch> batch = find_batch(whole, &why_not);
  ASSERT_TRUE(batch) << why_not;
  EXPECT_EQ(batch->images, images);
  const TensorMap inputs = random_inputs(model, 3);
  const TensorMap expected = interpret_layer_graph(whole, inputs);
  for (int64_t own = 1; own <= images; ++own) {
    if (images % own != 0) continue;
    const LayerGraph slice = slice_of(whole, *batch, own);
    verify_layer_graph(slice, "slice");
    TensorMap found;
    for (int64_t number = 0; number < images / own; ++number) {
      TensorMap parts;
      for (const TensorId id : slice.inputs) {
        const LayerTensor& input = slice.tensors[static_cast<size_t>(id)];
        parts[input.name] =
            take_slice(inputs.at(input.name), batch->axes[static_cast<size_t>(id)], input.shape, number);
      }
      const TensorMap outputs = interpret_layer_graph(slice, parts);
      for (const TensorId id : slice.outputs) {
        const LayerTensor& output = whole.tensors[static_cast<size_t>(id)];
        Tensor& all = found.try_emplace(output.name, output.type, output.shape).first->second;
        put_slice(all, batch->axes[static_cast<size_t>(id)], outputs.at(output.name), number);
      }
    }
    EXPECT_TRUE(found == expected) << "slices of " << own;
  }
}
void expect_slices(const std::string& text, int64_t images) {
  SCOPED_TRACE(text);
  expect_slices(parse_model(text), images);
}

/// Why the model has no batch.
std::string why_none(const onnx::ModelProto& source) {
  const LayerGraph graph = lower_to_layers(import_model(source, {}, "test"), {});
  std::string why_not;
  EXPECT_FALSE(find_batch(graph, &why_not)) << describe(graph);
  EXPECT_FALSE(why_not.empty());
  return why_not;
}
std::string why_none(const std::string& text) {
  SCOPED_TRACE(text);
  return why_none(parse_model(text));
}

Tensor ramp(const Shape& shape) {
  Tensor tensor(DataType::kFloat32, shape);
  float next = -1;
  for (float& value : tensor.data<float>()) value = next += 0.125F;
  return tensor;
}

TEST(Batch, OfPictures) {
  auto model = parse_model(
      "g (float[4,3,6,6] x) => (float[4,5] y) {"
      " a = Conv <pads = [1,1,1,1]> (x, w) b = Relu (a) c = MaxPool <kernel_shape = [2,2], strides = [2,2]> "
      "(b) d = GlobalAveragePool (c) e = Flatten (d) f = Gemm <transB = 1> (e, v, u) y = Tanh (f) }");
  add_initializer(model, "w", ramp({7, 3, 3, 3}));
  add_initializer(model, "v", ramp({5, 7}));
  add_initializer(model, "u", ramp({5}));
  expect_slices(model, 4);
}

TEST(Batch, OfSeveralInputsAndOutputs) {
  expect_slices(
      "g (float[6,3] a, float[6,3,2] b) => (float[6,3] y, float[6,2] z) <int64[1] axes = {1}> {"
      " y = Abs (a) z = ReduceSum <keepdims = 0> (b, axes) }",
      6);
}

/// Tokens of all images in one axis, and images behind the tokens.
TEST(Batch, IsPartOfAnAxisOrAnInnerOne) {
  auto model = parse_model(
      "g (float[4,6,8] x) => (float[4,6,8] y) {"
      " t = Transpose <perm = [1,0,2]> (x) f = MatMul (t, w) r = Reshape (f, heads) "
      " q = Transpose <perm = [1,0,2]> (r) k = Transpose <perm = [1,2,0]> (r) s = MatMul (q, k)"
      " p = Relu (s) v = MatMul (p, q) b = Transpose <perm = [1,0,2]> (v) o = Reshape (b, tokens)"
      " y = Transpose <perm = [1,0,2]> (o) }");
  add_initializer(model, "w", ramp({8, 8}));
  add_initializer(model, "heads", Tensor::from_values<int64_t>(DataType::kInt64, {3}, {6, 8, 4}));
  add_initializer(model, "tokens", Tensor::from_values<int64_t>(DataType::kInt64, {3}, {6, 4, 8}));
  expect_slices(model, 4);
  auto flat = parse_model(
      "g (float[4,6,8] x) => (float[4,6,8] y) { a = Reshape (x, rows) b = Gemm (a, w) y = Reshape (b, whole) "
      "}");
  add_initializer(flat, "w", ramp({8, 8}));
  add_initializer(flat, "rows", Tensor::from_values<int64_t>(DataType::kInt64, {2}, {24, 8}));
  add_initializer(flat, "whole", Tensor::from_values<int64_t>(DataType::kInt64, {3}, {4, 6, 8}));
  expect_slices(flat, 4);
}

/// A constant that was expanded along the batch is cut; another one isn't.
TEST(Batch, HasConstantsOfItsOwnWhereTheyAreAlike) {
  auto model = parse_model("g (float[3,2] x) => (float[3,4] y) { y = Concat <axis = 1> (c, x) }");
  add_initializer(model, "c", Tensor::from_values<float>(DataType::kFloat32, {3, 2}, {1, 2, 1, 2, 1, 2}));
  expect_slices(model, 3);
  auto other = parse_model("g (float[3,2] x) => (float[3,2] y) { y = Add (x, c) }");
  add_initializer(other, "c", Tensor::from_values<float>(DataType::kFloat32, {3, 2}, {1, 2, 1, 2, 1, 3}));
  EXPECT_NE(why_none(other).find("Map"), std::string::npos);
}

TEST(Batch, IsNotThereWhereImagesMeet) {
  // Reduced, normalized, summed over, shifted, reversed, and one for all others.
  why_none("g (float[4,3] x) => (float[3] y) <int64[1] a = {0}> { y = ReduceSum <keepdims = 0> (x, a) }");
  why_none("g (float[4,3] x) => (float[4,3] y) { m = ReduceMax <axes = [0]> (x) y = Sub (x, m) }");
  why_none("g (float[4,3] x) => (float[3,3] y) { t = Transpose (x) y = MatMul (t, x) }");
  why_none("g (float[4,4] x) => (float[4,4] y) { t = Transpose (x) y = Add (t, x) }");
  why_none("g (float[4,3] x) => (float[8,3] y) { y = Concat <axis = 0> (x, x) }");
  why_none("g (float[4,3] x) => (float[2,3] y) <int64[1] b = {1}, int64[1] e = {3}> { y = Slice (x, b, e) }");
  why_none(
      "g (float[4,3] x) => (float[4,3] y)"
      " <int64[1] b = {3}, int64[1] e = {-9}, int64[1] a = {0}, int64[1] s = {-1}>"
      " { y = Slice (x, b, e, a, s) }");
  why_none("g (float[4,3] x) => (float[3,4] y) <int64[2] s = {3, 4}> { y = Reshape (x, s) }");
  // No batch at all.
  why_none("g (float[1,3] x) => (float[1,3] y) { y = Abs (x) }");
  why_none("g (float[4,3] x, float[2,3] z) => (float[4,3] y) { y = Abs (x) }");
  // Nobody looks into what the host computes.
  why_none("g (float[4,3] x, int64 a) => (float[4,3] y) { y = CumSum (x, a) }");
}

}  // namespace
}  // namespace kodama::compiler
