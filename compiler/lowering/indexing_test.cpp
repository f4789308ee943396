/// Indices that are data: results against the CPU reference, and what is out of range.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "compiler/lowering/lowering.h"
#include "compiler/lowering/lowering_test_util.h"

namespace kodama::compiler {
namespace {

using testing::parse_model;

LayerGraph layers_of(const std::string& text) {
  return lower_to_layers(import_model(parse_model(text), {}, "t"));
}

/// All layers are on the chip, and give what the reference gives.
void expect_same(const std::string& text, const TensorMap& inputs) {
  SCOPED_TRACE(text);
  const onnx::ModelProto model = import_model(parse_model(text), {}, "t");
  for (const bool fuse : {false, true}) {
    const LayerGraph graph = lower_to_layers(model, {.fuse = fuse});
    for (const Layer& layer : graph.layers) EXPECT_NE(layer.kind(), LayerKind::kHost) << layer.name;
    EXPECT_EQ(interpret_layer_graph(graph, inputs), run_graph(model, inputs));
  }
}

template <typename T>
Tensor tensor(DataType type, const Shape& shape, const std::vector<T>& values) {
  return Tensor::from_values<T>(type, shape, values);
}
Tensor floats(const Shape& shape, const std::vector<float>& values) {
  return tensor(DataType::kFloat32, shape, values);
}
Tensor longs(const Shape& shape, const std::vector<int64_t>& values) {
  return tensor(DataType::kInt64, shape, values);
}

TEST(Indexing, GathersWordsOfEveryType) {
  const Tensor indices = longs({3}, {1, -1, 0});
  expect_same("g (float[2, 2] x, int64[3] i) => (float[2, 3] y) { y = Gather <axis = 1> (x, i) }",
              {{"x", floats({2, 2}, {1.5F, -2, 3, -0.0F})}, {"i", indices}});
  expect_same("g (int64[2, 2] x, int64[3] i) => (int64[2, 3] y) { y = Gather <axis = 1> (x, i) }",
              {{"x", longs({2, 2}, {int64_t{1} << 40, -5, 7, -(int64_t{1} << 62)})}, {"i", indices}});
  expect_same("g (double[2, 2] x, int64[3] i) => (double[2, 3] y) { y = Gather <axis = 1> (x, i) }",
              {{"x", tensor<double>(DataType::kFloat64, {2, 2}, {0.1, -2, 1e300, -0.0})}, {"i", indices}});
  expect_same("g (double[4] x, int64[2] i, double[2] u) => (double[4] y) { y = ScatterElements (x, i, u) }",
              {{"x", tensor<double>(DataType::kFloat64, {4}, {0.1, -2, 1e300, 5})},
               {"u", tensor<double>(DataType::kFloat64, {2}, {0.3, 1e-200})},
               {"i", longs({2}, {3, 1})}});
  expect_same("g (bool[2] x, int64[3] i) => (bool[3] y) { y = Gather <axis = 0> (x, i) }",
              {{"x", tensor<uint8_t>(DataType::kBool, {2}, {1, 0})}, {"i", indices}});
  expect_same("g (float16[2] x, int64[3] i) => (float16[3] y) { y = Gather <axis = 0> (x, i) }",
              {{"x", tensor<uint16_t>(DataType::kFloat16, {2}, {0x3c00, 0xc200})}, {"i", indices}});
}

TEST(Indexing, CoordinatesNameElementsAndRows) {
  const Tensor x = floats({2, 3}, {0, 1, 2, 3, 4, 5});
  expect_same("g (float[2, 3] x, int64[2, 2] i) => (float[2] y) { y = GatherND (x, i) }",
              {{"x", x}, {"i", longs({2, 2}, {1, 2, -2, -1})}});
  expect_same("g (float[2, 3] x, int64[1, 1] i) => (float[1, 3] y) { y = GatherND (x, i) }",
              {{"x", x}, {"i", longs({1, 1}, {-1})}});
  expect_same("g (float[2, 3] x, int64[2, 1] i) => (float[2] y) { y = GatherND <batch_dims = 1> (x, i) }",
              {{"x", x}, {"i", longs({2, 1}, {2, 0})}});
}

TEST(Indexing, TheLastUpdateCountsUnlessTheyAreAdded) {
  const TensorMap inputs = {
      {"x", floats({5}, {10, 20, 30, 40, 50})}, {"i", longs({3}, {1, -4, 4})}, {"u", floats({3}, {1, 2, 3})}};
  for (const char* reduction : {"none", "add", "mul"})
    expect_same(fmt::format("g (float[5] x, int64[3] i, float[3] u) => (float[5] y) "
                            "{{ y = ScatterElements <axis = 0, reduction = \"{}\"> (x, i, u) }}",
                            reduction),
                inputs);
  expect_same(
      "g (int64[2, 2] x, int64[1, 1] i, int64[1, 2] u) => (int64[2, 2] y) { y = ScatterND (x, i, u) }",
      {{"x", longs({2, 2}, {1, 2, 3, 4})},
       {"i", longs({1, 1}, {1})},
       {"u", longs({1, 2}, {int64_t{1} << 35, -1})}});
  // Fewer updates than places on another axis, too.
  expect_same(
      "g (float[3, 3] x, int64[1, 2] i, float[1, 2] u) => (float[3, 3] y) "
      "{ y = ScatterElements <axis = 0> (x, i, u) }",
      {{"x", floats({3, 3}, {0, 0, 0, 0, 0, 0, 0, 0, 0})},
       {"i", longs({1, 2}, {2, 0})},
       {"u", floats({1, 2}, {7, 8})}});
}

TEST(Indexing, IndicesThatAreRepeatedAreLookedAtOnce) {
  // Rows: an Expand repeats the indices over the columns. The last of two updates of a row counts.
  const std::string text =
      "g (float[4, 3] x, int64[3, 1] i, float[3, 3] u) => (float[4, 3] y, float[3, 3] z) { "
      "s = Constant <value = int64[2] {3, 3}> () r = Expand (i, s) "
      "y = ScatterElements <axis = 0> (x, r, u) z = GatherElements <axis = 0> (x, r) }";
  const TensorMap inputs = {{"x", floats({4, 3}, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11})},
                            {"i", longs({3, 1}, {-1, 1, 3})},
                            {"u", floats({3, 3}, {-1, -2, -3, -4, -5, -6, -7, -8, -9})}};
  expect_same(text, inputs);
  for (const Layer& layer : layers_of(text).layers) {
    if (const auto* reduce = std::get_if<ReduceLayer>(&layer.body)) {
      EXPECT_LE(element_count(reduce->output_extents) * element_count(reduce->reduction_extents), 12)
          << layer.name;
    }
  }
  // A column without updates isn't like the others.
  expect_same(
      "g (float[2, 3] x, int64[1, 1] i, float[1, 2] u) => (float[2, 3] y) { "
      "s = Constant <value = int64[2] {1, 2}> () r = Expand (i, s) y = ScatterElements <axis = 0> (x, r, u) "
      "}",
      {{"x", floats({2, 3}, {1, 2, 3, 4, 5, 6})}, {"i", longs({1, 1}, {1})}, {"u", floats({1, 2}, {7, 8})}});
}

TEST(Indexing, ScatterKeepsMinusZeroAndIndicesFarOutsideFindNothing) {
  expect_same("g (float[3] x, int64[1] i, float[1] u) => (float[3] y) { y = ScatterElements (x, i, u) }",
              {{"x", floats({3}, {-0.0F, 5, -0.0F})}, {"i", longs({1}, {1})}, {"u", floats({1}, {-0.0F})}});
}

TEST(Indexing, WhatIsTooMuchForTheChipIsTheHosts) {
  const auto reason = [](const std::string& text) -> std::string {
    for (const Layer& layer : layers_of(text).layers) {
      if (const auto* host = std::get_if<HostLayer>(&layer.body)) return host->reason;
    }
    return "";
  };
  EXPECT_EQ(reason("g (float[50000, 768] x, int64[128] i) => (float[128, 768] y) { y = Gather (x, i) }"), "");
  EXPECT_EQ(reason("g (float[50000, 768] x, int64[2048] i) => (float[2048, 768] y) { y = Gather (x, i) }"),
            "1572864 results from 50000 places, in slices of 1024, are more than 33554432");
  const auto top_k = [](int64_t n) {
    return fmt::format(
        "g (float[{0}] x) => (float[3] y, int64[3] i) "
        "{{ k = Constant <value = int64[1] {{3}}> () y, i = TopK (x, k) }}",
        n);
  };
  EXPECT_EQ(reason(top_k(10000)), "");
  EXPECT_EQ(reason(top_k(20000)), "20000 results look at 20000 elements each: more than 134217728 looks");
}

TEST(Indexing, TiesGoToTheFirst) {
  const Tensor x = floats({2, 4}, {3, 1, 3, 2, -1, -1, -5, -1});
  for (const char* largest : {"0", "1"}) {
    expect_same(
        fmt::format("g (float[2, 4] x) => (float[2, 3] y, int64[2, 3] i) "
                    "{{ k = Constant <value = int64[1] {{3}}> () y, i = TopK <largest = {}> (x, k) }}",
                    largest),
        {{"x", x}});
  }
  for (const char* op : {"ArgMax", "ArgMin"}) {
    for (const int last : {0, 1}) {
      expect_same(fmt::format("g (float[2, 4] x) => (int64[2, 1] y) "
                              "{{ y = {} <axis = 1, select_last_index = {}> (x) }}",
                              op, last),
                  {{"x", x}});
      expect_same(
          fmt::format("g (uint32[4] x) => (int64[1] y) {{ y = {} <select_last_index = {}> (x) }}", op, last),
          {{"x", tensor<uint32_t>(DataType::kUint32, {4}, {1, 4000000000U, 4000000000U, 1})}});
    }
  }
}

TEST(Indexing, ElementsOfTwoWordsHaveAnOrder) {
  constexpr int64_t kBig = int64_t{1} << 40, kLeast = std::numeric_limits<int64_t>::min();
  const std::vector<int64_t> numbers = {kBig, kBig + 3, -kBig, -1, kLeast, kBig + 3, 0x80000000, -kBig + 1};
  const std::vector<uint64_t> words(numbers.begin(), numbers.end());
  const std::vector<double> reals = {0.0, -0.0, -1e300, 1e-300, 1.0, 1.0 + 0x1p-50, -1.0, -1.0 - 0x1p-50};
  const std::map<std::string, Tensor> inputs = {
      {"int64", tensor<int64_t>(DataType::kInt64, {2, 4}, numbers)},
      {"uint64", tensor<uint64_t>(DataType::kUint64, {2, 4}, words)},
      {"double", tensor<double>(DataType::kFloat64, {2, 4}, reals)},
      {"double ", tensor<double>(DataType::kFloat64, {2, 4}, {0.0, -0.0, 0.0, -0.0, -0.0, 0.0, -1.0, -1.0})}};
  for (const auto& [type, x] : inputs) {
    for (const int flag : {0, 1}) {
      for (const int axis : {0, 1}) {
        const std::string top_k = fmt::format(
            "g ({0}[2, 4] x) => ({0}[{1}] y, int64[{1}] i) "
            "{{ k = Constant <value = int64[1] {{2}}> () y, i = TopK <axis = {2}, largest = {3}> (x, k) }}",
            type, axis == 0 ? "2, 4" : "2, 2", axis, flag);
        expect_same(top_k, {{"x", x}});
        EXPECT_EQ(testing::count_layers(layers_of(top_k), LayerKind::kHost), 0);
        for (const char* op : {"ArgMax", "ArgMin"})
          expect_same(fmt::format("g ({}[2, 4] x) => (int64[{}] y) "
                                  "{{ y = {} <axis = {}, select_last_index = {}> (x) }}",
                                  type, axis == 0 ? "1, 4" : "2, 1", op, axis, flag),
                      {{"x", x}});
      }
    }
  }
}

TEST(Indexing, OutOfRangeIsAnError) {
  const auto message = [](const std::string& text, const TensorMap& inputs) -> std::string {
    try {
      interpret_layer_graph(layers_of(text), inputs);
    } catch (const isa::UserError& error) {
      return error.what();
    }
    return "no error";
  };
  const std::string gather = "g (float[3] x, int64[1] i) => (float[1] y) { y = Gather (x, i) }";
  const Tensor x = floats({3}, {1, 2, 3});
  for (const int64_t index : {int64_t{3}, int64_t{-4}, int64_t{1} << 32, -(int64_t{1} << 40)})
    EXPECT_EQ(message(gather, {{"x", x}, {"i", longs({1}, {index})}}),
              "node 'y' (Gather): an index in 'i' is out of range; allowed are -3 to 2")
        << index;
  EXPECT_EQ(message(gather, {{"x", x}, {"i", longs({1}, {-3})}}), "no error");
  const std::string nd = "g (float[2, 3] x, int64[1, 2] i) => (float[1] y) { y = GatherND (x, i) }";
  const Tensor matrix = floats({2, 3}, {1, 2, 3, 4, 5, 6});
  EXPECT_EQ(message(nd, {{"x", matrix}, {"i", longs({1, 2}, {2, 0})}}),
            "node 'y' (GatherND): an index in 'i' is out of range; allowed are -2 to 1");
  EXPECT_EQ(message(nd, {{"x", matrix}, {"i", longs({1, 2}, {1, 2})}}), "no error");
}

}  // namespace
}  // namespace kodama::compiler
