/// Products and axes that are split, so that attention's heads have images of their own; channels that fill
/// chunks up.
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "compiler/kernels/fuse_normalizations.h"
#include "compiler/kernels/pad_channels.h"
#include "compiler/kernels/split_axes.h"
#include "compiler/kernels/split_products.h"
#include "compiler/lowering/lowering.h"
#include "compiler/lowering/lowering_test_util.h"

namespace kodama::compiler {
namespace {

isa::Chip with_rows() {
  isa::Chip chip = isa::find_chip("tiny");
  chip.mab_per_l1b = 16;
  return chip;
}

/// A constant's declaration with its numbers.
std::string filled(const std::string& declaration, int count) {
  std::string text = declaration + " = {";
  for (int k = 0; k < count; ++k) text += (k == 0 ? "" : ", ") + std::to_string((k * 37 % 101 - 50) / 64.0);
  return text + "}";
}

/// Runs both passes and holds the graph to the reference.
LayerGraph split(const std::string& text) {
  const onnx::ModelProto model = import_model(testing::parse_model(text), {}, "test");
  const TensorMap inputs = testing::random_inputs(model, 1);
  LayerGraph graph = lower_to_layers(model);
  split_products(graph, with_rows());
  verify_layer_graph(graph, "split-products");
  fuse_normalizations(graph, with_rows());
  split_axes(graph, with_rows());
  verify_layer_graph(graph, "split-axes");
  pad_channels(graph, with_rows());
  verify_layer_graph(graph, "pad-channels");
  testing::expect_close(interpret_layer_graph(graph, inputs), run_graph(model, inputs), 2e-6);
  return graph;
}
int products(const LayerGraph& graph) {
  return testing::count_layers(graph, LayerKind::kContract);
}

TEST(SplitProducts, PartsOfWholeChunks) {
  const LayerGraph graph =
      split("g (float[2,8,64] x) => (float[2,8,32] y, float[2,8,64] z) <" +
            filled("float[64,96] w", 64 * 96) + ", " + filled("float[96] b", 96) +
            ","
            " int64[2] sizes = {32, 64}> { p = MatMul(x, w) q = Add(p, b) l, r = Split<axis=2>(q, sizes)"
            " y = Relu(l) z = Neg(r) }");
  EXPECT_EQ(testing::kinds(graph), "Contract Contract Map Map");
}
TEST(SplitProducts, WhatStays) {
  // Parts of a chunk.
  EXPECT_EQ(products(split("g (float[8,64] x) => (float[8,16] y, float[8,48] z) <" +
                           filled("float[64,64] w", 64 * 64) +
                           ","
                           " int64[2] sizes = {16, 48}> { p = MatMul(x, w) l, r = Split<axis=1>(p, sizes)"
                           " y = Relu(l) z = Neg(r) }")),
            1);
  // All of it is read, too.
  EXPECT_EQ(products(split("g (float[8,64] x) => (float[8,64] p, float[8,32] y, float[8,32] z)"
                           " <" +
                           filled("float[64,64] w", 64 * 64) +
                           ", int64[2] sizes = {32, 32}> { p = MatMul(x, w)"
                           " l, r = Split<axis=1>(p, sizes) y = Relu(l) z = Neg(r) }")),
            1);
}

TEST(SplitAxes, ImagesAndHeads) {
  const LayerGraph graph = split(
      "g (float[8,2,64] x, float[8,2,64] k) => (float[8,2,64] y)"
      " <int64[3] heads = {8, 4, 32}, int64[3] tokens = {8, 2, 64}>"
      "{ a = Relu(x) b = Relu(k) q = Reshape(a, heads) r = Reshape(b, heads) qt = Transpose<perm=[1,0,2]>(q)"
      " rt = Transpose<perm=[1,2,0]>(r) s = MatMul(qt, rt) p = Softmax<axis=2>(s)"
      " v = Transpose<perm=[1,0,2]>(r) o = MatMul(p, v) t = Transpose<perm=[1,0,2]>(o)"
      " u = Reshape(t, tokens) y = Neg(u) }");
  EXPECT_EQ(products(graph), 2) << testing::describe(graph);
  for (const Layer& layer : graph.layers) {
    const Shape& shape = graph.tensors[static_cast<size_t>(layer.outputs[0])].shape;
    if (layer.kind() != LayerKind::kContract) continue;
    ASSERT_EQ(shape.size(), 4U) << summary(layer, graph);
    EXPECT_EQ(shape[0], 2);
    EXPECT_EQ(shape[1], 2);
  }
}

/// The shape of what the product makes: relu(x), flattened, times a constant, and a bias.
Shape picture_product(const std::vector<int64_t>& shape, int64_t columns, const std::string& readers) {
  const int64_t size = element_count(shape) / shape[0];
  const std::string n = std::to_string(columns);
  const LayerGraph graph =
      split(fmt::format("g (float[{0}] x) => (float[{1},{2}] y) <{3}, {4}> {{ r = Relu(x) f = Flatten(r)"
                        " p = MatMul(f, w) {5} }}",
                        fmt::join(shape, ","), shape[0], columns,
                        filled(fmt::format("float[{},{}] w", size, n), static_cast<int>(size * columns)),
                        filled("float[" + n + "] b", static_cast<int>(columns)), readers));
  EXPECT_EQ(products(graph), 1);
  for (const Layer& layer : graph.layers) {
    if (layer.kind() == LayerKind::kContract)
      return graph.tensors[static_cast<size_t>(layer.outputs[0])].shape;
  }
  return {};
}
TEST(SplitAxes, APictureAsAVector) {
  // The product's result is an output of the model; another layer, which isn't part of it, reads it.
  EXPECT_EQ(picture_product({1, 16, 3, 4}, 10, "y = Add(p, b)"), (Shape{1, 10, 1, 1}));
  EXPECT_EQ(picture_product({1, 40, 2, 5}, 6, "q = Add(p, b) y = Softmax(q)"), (Shape{1, 6, 1, 1}));
  EXPECT_EQ(picture_product({1, 20, 6}, 10, "y = Add(b, p)"), (Shape{1, 10, 1}));
  EXPECT_EQ(picture_product({1, 15, 1, 1}, 10, "y = Add(p, b)"), (Shape{1, 10, 1, 1}));
  // Several pictures; few columns; few channels.
  EXPECT_EQ(picture_product({2, 16, 3, 4}, 10, "y = Add(p, b)"), (Shape{2, 10}));
  EXPECT_EQ(picture_product({1, 16, 4, 3}, 10, "y = Add(p, b)"), (Shape{1, 10}));
  EXPECT_EQ(picture_product({1, 15, 4, 4}, 10, "y = Add(p, b)"), (Shape{1, 10}));
}

/// Convolutions to 56 and 72 channels and one to 128, concatenated as z, which `readers` read.
std::string concatenation(const std::string& results, const std::string& readers) {
  return "g (float[1,4,4,5] x) => (" + results + ") <" + filled("float[56,4,1,1] wa", 56 * 4) + ", " +
         filled("float[56] ba", 56) + ", " + filled("float[72,4,1,1] wb", 72 * 4) + ", " +
         filled("float[128,4,1,1] wc", 128 * 4) + ", " + filled("float[40,256,1,1] wd", 40 * 256) + ", " +
         filled("float[40,256,3,3] we", 40 * 256 * 9) +
         "> { a = Conv(x, wa, ba) ra = Relu(a) b = Conv(x, wb) c = Conv(x, wc)"
         " z = Concat<axis=1>(ra, b, c) " +
         readers + "}";
}
/// The channels of all tensors of four axes that layers make.
std::vector<int64_t> channels(const LayerGraph& graph) {
  std::vector<int64_t> list;
  for (const Layer& layer : graph.layers) {
    const Shape& shape = graph.tensors[static_cast<size_t>(layer.outputs[0])].shape;
    if (shape.size() == 4) list.push_back(shape[1]);
  }
  return list;
}
TEST(PadChannels, PartsOfAConcatenation) {
  // Products and pooling, which a product reads.
  const std::string pool = "p = MaxPool<kernel_shape=[3,3], pads=[1,1,1,1]>(z) v = Conv(p, wd) ";
  EXPECT_EQ(channels(split(concatenation("float[1,40,4,5] u, float[1,40,2,3] w, float[1,40,4,5] v",
                                         "u = Conv(z, wd) w = Conv(z, we) " + pool))),
            (std::vector<int64_t>{64, 96, 128, 288, 40, 40, 288, 40}));
}
TEST(PadChannels, WhatStays) {
  const std::vector<int64_t> as_they_are = {56, 72, 128, 256, 40};
  // Somebody else reads a part, or the concatenation; the host does; a product adds it.
  auto found =
      channels(split(concatenation("float[1,40,4,5] u, float[1,56,4,5] n", "u = Conv(z, wd) n = Neg(ra)")));
  EXPECT_EQ(std::vector(found.begin(), found.begin() + 3), (std::vector<int64_t>{56, 72, 128}));
  found =
      channels(split(concatenation("float[1,40,4,5] u, float[1,256,4,5] n", "u = Conv(z, wd) n = Neg(z)")));
  EXPECT_EQ(std::vector(found.begin(), found.begin() + 4), (std::vector<int64_t>{56, 72, 128, 256}));
  EXPECT_EQ(channels(split(concatenation("float[1,40,4,5] u, float[1,256,4,5] z", "u = Conv(z, wd)"))),
            as_they_are);
  // Most of every chunk would be empty.
  EXPECT_EQ(
      channels(split("g (float[1,4,4,5] x) => (float[1,40,4,5] u) <" + filled("float[8,4,1,1] wa", 32) +
                     ", " + filled("float[8,4,1,1] wb", 32) + ", " + filled("float[40,16,1,1] wd", 640) +
                     "> { a = Conv(x, wa) b = Conv(x, wb) z = Concat<axis=1>(a, b) u = Conv(z, wd) }")),
      (std::vector<int64_t>{8, 8, 16, 40}));
}

/// A convolution to `count` groups of `width` channels, one of groups and what `readers` make of its result
/// g.
std::string grouped(int count, int width, const std::string& results, const std::string& readers) {
  const int all = count * width;
  return fmt::format(
      "g (float[1,4,4,5] x) => ({0}) <{1}, {2}, {3}, {4}, {5}, {6}> {{ a = Conv(x, wa, ba) ra = Relu(a)"
      " c = Conv<group={7}, pads=[1,1,1,1]>(ra, wg, bg) g = Relu(c) {8} }}",
      results, filled(fmt::format("float[{},4,1,1] wa", all), all * 4),
      filled(fmt::format("float[{}] ba", all), all),
      filled(fmt::format("float[{},{},3,3] wg", all, width), all * width * 9),
      filled(fmt::format("float[{}] bg", all), all),
      filled(fmt::format("float[40,{},1,1] wd", all), 40 * all),
      filled(fmt::format("float[{},40,1,1] we", all), 40 * all), count, readers);
}
TEST(PadChannels, GroupsThatFillNoChunks) {
  const std::string u = "float[1,40,4,5] u";
  // Wider groups; more of them; a pool.
  EXPECT_EQ(channels(split(grouped(7, 24, u, "u = Conv(g, wd)"))), (std::vector<int64_t>{224, 224, 40}));
  EXPECT_EQ(channels(split(grouped(17, 24, u, "u = Conv(g, wd)"))), (std::vector<int64_t>{544, 544, 40}));
  EXPECT_EQ(channels(split(grouped(9, 48, u, "u = Conv(g, wd)"))), (std::vector<int64_t>{576, 576, 40}));
  EXPECT_EQ(channels(split(
                grouped(7, 24, u, "p = MaxPool<kernel_shape=[3,3], pads=[1,1,1,1]>(g) u = Conv(p, wd)"))),
            (std::vector<int64_t>{224, 224, 224, 40}));
  // A product's channels are those of the result: a gate, as of squeeze and excitation.
  EXPECT_EQ(channels(split(grouped(7, 24, u,
                                   "p = GlobalAveragePool(g) q = Conv(p, wd) r = Conv(q, we) s = Sigmoid(r)"
                                   " m = Mul(g, s) u = Conv(m, wd)"))),
            (std::vector<int64_t>{224, 224, 224, 40, 224, 224, 40}));
}
TEST(PadChannels, GroupsThatStay) {
  const std::string u = "float[1,40,4,5] u";
  // They fill chunks, or others read what would get channels, or make it.
  EXPECT_EQ(channels(split(grouped(9, 16, u, "u = Conv(g, wd)"))), (std::vector<int64_t>{144, 144, 40}));
  EXPECT_EQ(channels(split(grouped(7, 24, u + ", float[1,168,4,5] g", "u = Conv(g, wd)"))),
            (std::vector<int64_t>{168, 168, 40}));
  EXPECT_EQ(channels(split(grouped(7, 24, u + ", float[1,168,4,5] ra", "u = Conv(g, wd)"))),
            (std::vector<int64_t>{168, 168, 40}));
  // What a Map would make of zeros is not finite.
  EXPECT_EQ(channels(split(grouped(7, 24, u,
                                   "one = Constant<value_float = 1.0>() e = Add(g, one) n = Neg(g)"
                                   " q = Reciprocal(n) i = Min(q, e) u = Conv(i, wd)")))[0],
            168);
}

}  // namespace
}  // namespace kodama::compiler
