#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>

#include "compiler/lowering/lowering.h"
#include "compiler/lowering/lowering_test_util.h"

/// MaxPool's gradient: updates that are scattered by its Indices (compiler/lowering/pool.h).
namespace kodama::compiler {
namespace {

using namespace testing;  // NOLINT

/// Floor makes ties, of which the first element counts.
std::string scattered(const std::string& x, const std::string& attributes, int64_t size,
                      const std::string& more = "", const std::string& outputs = "") {
  SCOPED_TRACE(x + attributes + more);
  return check_model(parse_model(
      fmt::format("g (float[{}] a) => (float[{}] z{}) {{ x = Floor (a) "
                  "y, i = MaxPool <{}> (x) d = Exp (y) all = Constant <value = int64[1] {{-1}}> () "
                  "size = Constant <value = int64[1] {{{}}}> () n = ConstantOfShape (size) "
                  "r = Reshape (i, all) u = Reshape (d, all) {} "
                  "z = ScatterElements <axis = 0, reduction = \"add\"> (n, r, u) }}",
                  x, size, outputs, attributes, size, more),
      17));
}

TEST(LowerPoolGradient, TwoReducesOfAnyWindows) {
  const char* kTwo = "Map Reduce Map Reduce Reduce";
  EXPECT_EQ(scattered("2,3,8,6", "kernel_shape = [2, 2], strides = [2, 2]", 288), kTwo);
  EXPECT_EQ(scattered("2,3,8,6", "kernel_shape = [3, 3], strides = [2, 2], pads = [1, 1, 1, 1]", 288), kTwo);
  EXPECT_EQ(scattered("1,2,7,5", "kernel_shape = [3, 3], pads = [1, 1, 1, 1]", 70), kTwo);
  EXPECT_EQ(scattered("2,3,9", "kernel_shape = [4], strides = [3]", 54), kTwo);
  EXPECT_EQ(
      scattered("1,2,4,5,6", "kernel_shape = [3, 2, 3], strides = [2, 1, 3], pads = [1, 0, 1, 0, 1, 0]", 240),
      kTwo);
  EXPECT_EQ(
      scattered("1,2,9,8", "kernel_shape = [2, 3], dilations = [2, 3], strides = [3, 2], ceil_mode = 1", 144),
      kTwo);
  // A window of more places than a word has bits.
  EXPECT_EQ(scattered("1,2,12,10", "kernel_shape = [7, 6], strides = [2, 2]", 240), kTwo);
  EXPECT_EQ(scattered("1,1,9,8", "kernel_shape = [3, 3], strides = [2, 2], auto_pad = \"SAME_UPPER\"", 72),
            std::string(kTwo) + " Rearrange");
}

/// With a Relu behind the pool, whose gradient is 0 where it makes 0, nobody needs the maxima. They are those
/// of another pool, if there is one.
TEST(LowerPoolGradient, ElementsAreComparedWithWhatIsThere) {
  const auto lowered = [](const std::string& pools, const std::string& compared, float limit) {
    auto model = parse_model(
        fmt::format(
            "g (float[1,2,6,6] a) => (float[72] z, float[1,2,3,3] p) {{ x = Floor (a) {} p = Relu (y) "
            "d = Exp (p) k = Greater ({}, limit) m = Where (k, d, zero) r = Reshape (i, all) "
            "u = Reshape (m, all) z = ScatterElements <axis = 0, reduction = \"add\"> (n, r, u) }}",
            pools, compared),
        17);
    add_initializer(model, "limit", Tensor::from_values<float>(DataType::kFloat32, {}, {limit}));
    add_initializer(model, "zero", Tensor::from_values<float>(DataType::kFloat32, {}, {0}));
    add_initializer(model, "n", Tensor(DataType::kFloat32, {72}));
    add_ints(model, "all", {-1});
    check_model(model);
    std::string list;
    const LayerGraph graph = lower(model);
    for (const Layer& layer : graph.layers) {
      if (layer.kind() == LayerKind::kReduce)
        list += fmt::format("{}{}", list.empty() ? "" : " ", fmt::join(layer.onnx_ops, "+"));
    }
    return list;
  };
  const std::string windows = "MaxPool <kernel_shape = [2, 2], strides = [2, 2]> (x) ";
  const std::string scatter = " ScatterElements ScatterElements";
  const std::string one = "y, i = " + windows;
  EXPECT_EQ(lowered(one, "p", 0), "MaxPool+Relu" + scatter);
  EXPECT_EQ(lowered(one, "p", 1), "MaxPool" + scatter);
  EXPECT_EQ(lowered(one, "d", 0), "MaxPool" + scatter);
  EXPECT_EQ(lowered("y = " + windows + "unread, i = " + windows, "p", 0), "MaxPool+Relu" + scatter);
  // Windows of the same results that aren't the same.
  EXPECT_EQ(lowered("y = " + windows + "unread, i = MaxPool <kernel_shape = [1, 2], strides = [2, 2]> (x) ",
                    "p", 0),
            "MaxPool+Relu ScatterElements" + scatter);
}

TEST(LowerPoolGradient, WhatElseReadsIndicesGetsThem) {
  const char* kPool = "kernel_shape = [3, 3], strides = [2, 2]";
  const std::string found = scattered("1,2,8,10", kPool, 160, "w = Identity (i)", ", int64[1,2,3,4] w");
  EXPECT_EQ(found, "Map Reduce Reduce Map Map Reduce Reduce");
  EXPECT_EQ(scattered("1,2,8,10", kPool, 160, "w = Cast <to = 1> (r)", ", float[24] w").find("Host"),
            std::string::npos);
}

TEST(LowerPoolGradient, OtherScattersAreThat) {
  // By columns; of what isn't zero. They look for indices.
  for (const std::string& text :
       {std::string(
            "y, i = MaxPool <kernel_shape = [2, 2], storage_order = 1> (x) n = ConstantOfShape (size)"),
        std::string("y, i = MaxPool <kernel_shape = [2, 2]> (x) n = ConstantOfShape <value = float[1] {2}> "
                    "(size)")}) {
    const auto model = parse_model(
        fmt::format(
            "g (float[1,1,3,4] x) => (float[12] z) {{ all = Constant <value = int64[1] {{-1}}> () "
            "size = Constant <value = int64[1] {{12}}> () {} r = Reshape (i, all) u = Reshape (y, all) "
            "z = ScatterElements <axis = 0, reduction = \"add\"> (n, r, u) }}",
            text),
        17);
    SCOPED_TRACE(text);
    check_model(model);
  }
}

/// Numbers of places that no float has: nobody makes Indices.
TEST(LowerPoolGradient, OfLargePictures) {
  const LayerGraph graph = lower(parse_model(
      "g (float[1,17,1000,1000] x, float[1,17,500,500] d) => (float[17000000] z) {"
      "y, i = MaxPool <kernel_shape = [2, 2], strides = [2, 2]> (x) "
      "all = Constant <value = int64[1] {-1}> () size = Constant <value = int64[1] {17000000}> () "
      "n = ConstantOfShape (size) r = Reshape (i, all) u = Reshape (d, all) "
      "z = ScatterElements <axis = 0, reduction = \"add\"> (n, r, u) }",
      17));
  EXPECT_EQ(kinds(graph), "Reduce Reduce Reduce");
}

}  // namespace
}  // namespace kodama::compiler
