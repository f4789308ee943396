#include "compiler/dynamic/buckets.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "compiler/dynamic/dynamic_executor.h"
#include "compiler/graph/import.h"
#include "compiler/graph/onnx_model.h"
#include "compiler/graph/test_models.h"
#include "compiler/reference/executor.h"
#include "isa/rounds_test_util.h"

namespace kodama::compiler {
namespace {

using ::testing::HasSubstr;

/// Small whole numbers, whose sums and products are exact in any order.
Tensor small_numbers(DataType type, const Shape& shape, unsigned seed) {
  Tensor tensor(type, shape);
  std::mt19937 generator(seed);
  for (int64_t k = 0; k < tensor.size(); ++k) {
    const auto value = static_cast<int64_t>(generator() % 7) - 3;
    const auto at = static_cast<size_t>(k);
    if (type == DataType::kFloat32) tensor.data<float>()[at] = static_cast<float>(value);
    if (type == DataType::kInt64) tensor.data<int64_t>()[at] = std::abs(value);
    if (type == DataType::kBool) tensor.data<uint8_t>()[at] = value > 0;
  }
  return tensor;
}

/// What must not matter.
Tensor with_rubbish(const Tensor& tensor, const Shape& shape) {
  Tensor ones(tensor.type(), tensor.shape());
  std::ranges::fill(ones.bytes(), std::byte{1});
  const Tensor inside = padded_to(ones, shape);
  Tensor result = padded_to(tensor, shape);
  for (int64_t k = 0; k < result.size(); ++k) {
    const auto at = static_cast<size_t>(k);
    if (result.type() == DataType::kFloat32 && inside.data<float>()[at] == 0)
      result.data<float>()[at] = std::nanf("");
    if (result.type() == DataType::kInt64 && inside.data<int64_t>()[at] == 0)
      result.data<int64_t>()[at] = 1'000'000;
    if (result.type() == DataType::kBool && inside.data<uint8_t>()[at] == 0)
      result.data<uint8_t>()[at] = k % 2 != 0;
  }
  return result;
}

/// A region that is the whole model, at a length of its dimension 'n'.
struct Case {
  Region region;
  std::map<std::string, BucketAxes> axes;
};

Case at_length(onnx::ModelProto model, int64_t length) {
  Case result;
  for (auto& input : *model.mutable_graph()->mutable_input()) {
    auto& dims = *input.mutable_type()->mutable_tensor_type()->mutable_shape()->mutable_dim();
    for (int axis = 0; axis < dims.size(); ++axis) {
      if (dims[axis].dim_param() != "n") continue;
      dims[axis].set_dim_value(length);
      result.axes[input.name()][axis] = "n";
    }
    result.region.inputs.push_back(input.name());
  }
  for (const auto& output : model.graph().output()) result.region.outputs.push_back({output.name(), false});
  result.region.model = std::move(model);
  return result;
}

/// Constants that a graph reads: weights, lists and numbers.
onnx::ModelProto model_of(const std::string& graph) {
  onnx::ModelProto model = testing::parse_model(graph);
  std::set<std::string> read;
  for (const auto& node : model.graph().node()) read.insert(node.input().begin(), node.input().end());
  const auto add = [&](const std::string& name, const Tensor& tensor) {
    if (read.contains(name)) testing::add_initializer(model, name, tensor);
  };
  const std::pair<const char*, Shape> weights[] = {
      {"w", {4, 3}}, {"filter", {2, 3, 3}}, {"picture_filter", {2, 3, 3, 3}}, {"table", {5, 4}}};
  for (const auto& [name, shape] : weights) add(name, small_numbers(DataType::kFloat32, shape, 9));
  const std::pair<const char*, std::vector<int64_t>> lists[] = {{"zero", {0}},
                                                                {"one", {1}},
                                                                {"two", {2}},
                                                                {"last", {-1}},
                                                                {"many", {INT64_MAX}},
                                                                {"lowest", {-100}},
                                                                {"halves", {0, 0, 2, 2}},
                                                                {"rows", {-1, 4}},
                                                                {"ends", {0, 1, 0, 0, 2, 0}}};
  for (const auto& [name, values] : lists)
    add(name, Tensor::from_values(DataType::kInt64, {static_cast<int64_t>(values.size())}, values));
  const std::pair<const char*, int64_t> scalars[] = {{"at_zero", 0}, {"at_one", 1}, {"minus_one", -1}};
  for (const auto& [name, value] : scalars)
    add(name, Tensor::from_values<int64_t>(DataType::kInt64, {}, {value}));
  add("two_float", Tensor::from_values<float>(DataType::kFloat32, {}, {2}));
  return model;
}

/// The padded model on data beside rubbish gives what the model itself gives, on the reference; and is the
/// same model for all lengths.
void expect_same_for_all_lengths(const std::string& graph) {
  const onnx::ModelProto model = model_of(graph);
  std::string text;
  for (int64_t length = 1; length <= 8; ++length) {
    const Case at = at_length(model, length);
    const BucketChoice choice = choose_bucket(at.region, at.axes, {{"n", {8}}});
    ASSERT_TRUE(choice.padded.has_value()) << graph << "\n" << length << ": " << choice.reason;
    if (text.empty()) text = choice.padded->model.SerializeAsString();
    EXPECT_EQ(choice.padded->model.SerializeAsString(), text) << graph << " at " << length;
    TensorMap inputs;
    TensorMap padded = choice.padded->given;
    for (const auto& input : at.region.model.graph().input()) {
      const Tensor data = small_numbers(static_cast<DataType>(input.type().tensor_type().elem_type()),
                                        *static_shape(input.type()), static_cast<unsigned>(length));
      inputs[input.name()] = data;
      const auto shape = choice.padded->input_shapes.find(input.name());
      padded[input.name()] =
          shape == choice.padded->input_shapes.end() ? data : with_rubbish(data, shape->second);
    }
    const TensorMap expected = run_graph(import_model(at.region.model, {}, "exact"), inputs);
    const TensorMap found = run_graph(import_model(choice.padded->model, {}, "padded"), padded);
    for (const auto& [name, tensor] : expected)
      EXPECT_EQ(cut_to(found.at(name), choice.padded->output_shapes.at(name)), tensor)
          << graph << "\n"
          << name << " at " << length;
  }
}

TEST(Buckets, WhatIsPaddedHasNoPartInResults) {
  for (const char* graph : {
           "g (float[n,4] x) => (float[n,4] y) { y = Relu(x) }",
           "g (float[n,4] x, float[4] b) => (float[n,4] y) { a = Add(x, b) m = Mul(a, a) y = Sub(m, x) }",
           "g (float[2,n] x, float[2,1] b) => (float[2,n] y) { y = Max(x, b) }",
           "g (float[n,4] x) => (float[n,3] y) { y = MatMul(x, w) }",
           "g (float[2,n,4] x) => (float[2,n,3] y) { y = MatMul(x, w) }",
           "g (float[2,3,n] x, float[2,n,4] v) => (float[2,3,4] y) { y = MatMul(x, v) }",
           "g (float[n] x, float[n] v) => (float[] y) { y = MatMul(x, v) }",
           "g (float[n,3] x, float[n,4] v) => (float[4,3] y) { y = Gemm<transA = 1>(v, x, two_float) }",
           "g (float[3,n] x) => (float[3,n] y) { y = Softmax(x) }",
           "g (float[n,3] x) => (float[n,3] y) { y = LogSoftmax<axis = 0>(x) }",
           "g (float[2,n] x) => (float[2] y) { y = ReduceSum<keepdims = 0>(x, one) }",
           "g (float[2,n] x) => (float[2,1] y) { y = ReduceMean<axes = [1]>(x) }",
           "g (float[n,2,n] x) => (float y) { y = ReduceMean<keepdims = 0>(x) }",
           "g (float[n,2] x) => (float[1,2] y, float[1,2] z) { y = ReduceMax<axes = [0]>(x) "
           "z = ReduceMin<axes = [0]>(x) }",
           "g (float[n,2] x) => (float[1,2] y) { y = ReduceProd<axes = [0]>(x) }",
           "g (int64[n,2] x) => (int64[1,2] y) { y = ReduceMin<axes = [0]>(x) }",
           "g (float[2,n] x) => (int64[2,1] y) { y = ArgMax<axis = 1>(x) }",
           "g (float[2,n,4] x) => (float[4,2,n] y) { y = Transpose<perm = [2,0,1]>(x) }",
           "g (float[2,n,4] x) => (float[2,n,2,2] y) { y = Reshape(x, halves) }",
           "g (float[n,2,2] x) => (float[r,4] y) { y = Reshape(x, rows) }",
           "g (float[n,2,2] x) => (float[n,4] y) { y = Flatten(x) }",
           "g (float[n,4] x) => (float[n,1,4] y) { y = Unsqueeze(x, one) }",
           "g (float[n,4] x, float[1,4] c) => (float[m,4] y) { y = Concat<axis = 0>(c, x) }",
           "g (float[n,4] x) => (float[n,2] y, float[n,2] z) { y, z = Split<axis = 1>(x) }",
           "g (float[n,4] x) => (float[m,4] y) { y = Slice(x, zero, last, zero) }",
           "g (float[n,4] x) => (float[m,4] y) { y = Slice(x, last, many, zero) }",
           "g (float[2,n,4] x) => (float[2,4] y) { y = Gather<axis = 1>(x, minus_one) "
           " }",
           "g (float[2,n,4] x) => (float[2,4] y) { y = Gather<axis = 1>(x, at_zero) "
           " }",
           "g (int64[2,n] i) => (float[2,n,4] y) { y = Gather(table, i) }",
           "g (int64[n,1] i) => (float[n,4] y) { y = GatherND(table, i) }",
           "g (int64[n,2] i) => (float[n,2] y) { y = GatherElements<axis = 0>(table, i) }",
           "g (float[n,4] x) => (float[n,4] y) { y = CumSum(x, at_zero) }",
           "g (float[n,4] x) => (float[n,4] y) { y = CumSum<reverse = 1>(x, at_zero) "
           " }",
           "g (float[2,n,1] x) => (float[2,m,1] y) { y = Pad(x, ends) }",
           "g (float[2,3,n] x) => (float[2,2,m] y) { y = Conv<pads = [1,1]>(x, filter) }",
           "g (float[n,3,5,5] x) => (float[n,2,5,5] y) { y = Conv<pads = [1,1,1,1]>(x, picture_filter) }",
           "g (float[2,3,n] x) => (float[2,3,m] y) { y = MaxPool<kernel_shape = [3], pads = [1,1]>(x) }",
           "g (float[2,3,n,4] x) => (float[2,3,1,1] y, float[2,3,1,1] z) { y = GlobalAveragePool(x) "
           "z = GlobalMaxPool(x) }",
           "g (float[n,3,4] x) => (float[n,3,2] y) { y = AveragePool<kernel_shape = [2], strides = [2]>(x) }",
           "g (int64[n] x) => (int64[n] y) { d = Add(x, at_one) y = Div(x, d) }",
           // The length itself, as a number and as positions.
           "g (float[n,4] x) => (float[n,4] y) { s = Shape<end = 1>(x) f = Cast<to = 1>(s) y = Mul(x, f) }",
           "g (float[n,4] x) => (int64[n] y) { s = Shape<end = 1>(x) l = Squeeze(s) "
           " y = Range(at_zero, l, at_one) }",
           "g (float[n,n] x) => (float[n,n] y) { t = Trilu<upper = 0>(x) y = Softmax(t) }",
           "g (float[2,n,4] x) => (float[2,n,4] y) { t = Transpose<perm = [0,2,1]>(x) s = MatMul(x, t) "
           "p = Trilu<upper = 0>(s) q = Mul(p, p) r = ReduceMax<axes = [-1]>(q) v = Sub(q, r) y = MatMul(v, "
           "x) }",
           "g (bool[n,4] x) => (bool[n,4] y) { y = Not(x) }",
       }) {
    expect_same_for_all_lengths(graph);
    if (HasFailure()) return;
  }
}

std::string refusal(const std::string& graph, int64_t length = 5) {
  const Case at = at_length(model_of(graph), length);
  const BucketChoice choice = choose_bucket(at.region, at.axes, {{"n", {4, 8}}});
  EXPECT_FALSE(choice.padded.has_value()) << graph;
  return choice.reason;
}

TEST(Buckets, WhatCannotBeShownIsRefusedByName) {
  EXPECT_THAT(refusal("g (float[2,n,4] x) => (float[m,4] y) { y = Reshape(x, rows) }"),
              HasSubstr("node 'y' (Reshape): its elements move from an axis that is padded to others"));
  EXPECT_THAT(refusal("g (float[n,4] x) => (float[m,4] y) { y = Concat<axis = 0>(x, x) }"),
              HasSubstr("node 'y' (Concat): it appends to an axis that is padded"));
  EXPECT_THAT(refusal("g (float[n,4] x) => (float[n,4] y) { y = LayerNormalization<axis = 0>(x, x) }"),
              HasSubstr("node 'y' (LayerNormalization): it normalizes over an axis that is padded"));
  EXPECT_THAT(refusal("g (float[n] x) => (float[2] y, int64[2] i) { y, i = TopK(x, two) }"),
              HasSubstr("node 'y' (TopK): nothing says what padding does"));
  EXPECT_THAT(refusal("g (float[n,4] x) => (float[n,4] y) { y = Slice(x, last, lowest, zero, last) "
                      " }"),
              HasSubstr("node 'y' (Slice): it begins at places that depend on the length"));
  EXPECT_THAT(refusal("g (float[n,4] x, int64[2] i) => (float[2,4] y) { y = Gather(x, i) }"),
              HasSubstr("node 'y' (Gather): its indices, which may count from the end"));
  EXPECT_THAT(refusal("g (float[n,4] x) => (float[n,4] y) { y = RandomNormalLike(x) }"),
              HasSubstr("node 'y' (RandomNormalLike): it draws random numbers"));
  EXPECT_THAT(refusal("g (float[n,3,n] x) => (float[n,3,m] y) { "
                      "y = MaxPool<kernel_shape = [3], auto_pad = \"SAME_UPPER\">(x) }"),
              HasSubstr("node 'y' (MaxPool): where its windows are"));
  EXPECT_THAT(refusal("g (float[n] x) => (float[n] y) { y = Relu(x) }", 9),
              HasSubstr("'n' is 9, more than its largest bucket, 8"));
}

TEST(Buckets, Options) {
  const Bucket bucket = parse_bucket("nz:1=16,32");
  EXPECT_EQ(bucket.dimension, "nz:1");
  EXPECT_EQ(bucket.extents, (std::vector<int64_t>{16, 32}));
  for (const char* text : {"", "n", "n=", "=3", "n=4,4", "n=0", "n=4,", "n=a", "n=99999999999"})
    EXPECT_THAT(testing::error_of<isa::UserError>([&] { parse_bucket(text); }), HasSubstr("--bucket"))
        << text;
  const onnx::ModelProto model = testing::parse_model("g (float[n,m] x) => (float[n,m] y) { y = Relu(x) }");
  EXPECT_EQ(find_bucket_axes(model.graph(), {{"m", {4}}, {"y:0", {4}}}),
            (std::map<std::string, BucketAxes>{{"x", {{1, "m"}}}, {"y", {{0, "y:0"}}}}));
  for (const char* name : {"k", "z:0", "x:", "x:-1", "x:a"}) {
    EXPECT_THAT(testing::error_of<isa::UserError>([&] {
                  find_bucket_axes(model.graph(), {{name, {4}}});
                }),
                HasSubstr("allowed are n, m, and VALUE:AXIS"))
        << name;
  }
}

/// On the chip.
class BucketRuns {
 public:
  BucketRuns(const std::string& graph, std::vector<Bucket> buckets) : model_(model_of(graph)) {
    DynamicOptions options;
    options.compile.precision = MatrixPrecision::kFloat;
    executor_ = std::make_unique<DynamicExecutor>(import_any_model(model_, {}, "test").model,
                                                  isa::find_chip("tiny"), options);
    options.buckets = std::move(buckets);
    padded_ = std::make_unique<DynamicExecutor>(import_any_model(model_, {}, "test").model,
                                                isa::find_chip("tiny"), std::move(options));
  }
  DynamicOutcome run_padded(const ValueMap& inputs) { return padded_->run(inputs); }
  /// With the results that there are without buckets.
  DynamicOutcome run(const ValueMap& inputs) {
    DynamicOutcome outcome = run_padded(inputs);
    const DynamicOutcome exact = executor_->run(inputs);
    for (const auto& [name, value] : exact.outputs) {
      EXPECT_EQ(outcome.outputs.at(name).tensor().shape(), value.tensor().shape()) << name;
      EXPECT_EQ(outcome.outputs.at(name), value) << name;
    }
    return outcome;
  }

 private:
  onnx::ModelProto model_;
  std::unique_ptr<DynamicExecutor> executor_;
  std::unique_ptr<DynamicExecutor> padded_;
};

TEST(Buckets, FiftyLengthsAreThreePrograms) {
  // Attention over whole numbers, without what rounds.
  BucketRuns runs(
      "g (float[1,n,4] x) => (float[1,n,3] y, float[1,3] last) { t = Transpose<perm = [0,2,1]>(x) "
      "s = MatMul(x, t) m = ReduceMax<axes = [-1]>(s) e = Equal(s, m) p = Cast<to = 1>(e) a = MatMul(p, x) "
      "y = MatMul(a, w) last = Gather<axis = 1>(y, minus_one) }",
      {{"n", {8, 20, 50}}});
  std::vector<int64_t> lengths;
  for (int64_t n = 1; n <= 50; ++n) lengths.push_back(n);
  std::shuffle(lengths.begin(), lengths.end(), std::mt19937(3));
  int64_t compiles = 0;
  for (int pass = 0; pass < 2; ++pass) {
    for (const int64_t n : lengths) {
      const ValueMap inputs{{"x", small_numbers(DataType::kFloat32, {1, n, 4}, static_cast<unsigned>(n))}};
      // What each is without buckets is a program of its own.
      const bool is_at_an_edge = n == 1 || n == 8 || n == 9 || n == 20 || n == 21 || n == 50;
      const bool compare = is_at_an_edge || n % isa::rounds(7, 1) == 0;
      const DynamicOutcome outcome = compare ? runs.run(inputs) : runs.run_padded(inputs);
      compiles += outcome.total.compiles;
      EXPECT_EQ(outcome.total.compiles + outcome.total.hits, 1);
      EXPECT_LE(outcome.cached_programs, 3);
      EXPECT_EQ(outcome.regions.at(0).bucket, fmt::format("n {} in {}", n, n <= 8 ? 8 : n <= 20 ? 20 : 50));
      EXPECT_EQ(outcome.regions.at(0).no_bucket, "");
    }
  }
  EXPECT_EQ(compiles, 3);
}

TEST(Buckets, SoftmaxOfTheChipIsOfTheDataAlone) {
  BucketRuns runs("g (float[2,n] x) => (float[2,n] y) { y = Softmax(x) }", {{"n", {16}}});
  const DynamicOutcome outcome =
      runs.run({{"x", Tensor::from_values<float>(DataType::kFloat32, {2, 4}, {0, 0, 0, 0, 2, 2, 2, 2})}});
  for (const float value : outcome.outputs.at("y").tensor().data<float>()) EXPECT_NEAR(value, 0.25, 1e-6);
}

TEST(Buckets, ShapesThatDependOnDataAreNamedByTheirValues) {
  BucketRuns runs(R"(g (float[12] x) => (float[m] y) {
    r = Relu(x) where = NonZero(r) t = Transpose(where) values = GatherND(x, t) y = Mul(values, values) })",
                  {{"where:1", {4, 8, 12}}});
  int64_t programs = 0;
  for (unsigned seed = 1; seed < 9; ++seed) {
    const DynamicOutcome outcome = runs.run({{"x", small_numbers(DataType::kFloat32, {12}, seed)}});
    EXPECT_EQ(outcome.regions.back().no_bucket, "");
    programs += outcome.total.compiles;
  }
  EXPECT_LE(programs, 4);  // one before NonZero
  BucketRuns sums(R"(g (float[12] x) => (int64[1,1] y) {
    r = Relu(x) where = NonZero(r) y = ReduceSum(where, one) })",
                  {{"where:1", {12}}});
  int64_t compiles = 0;
  for (unsigned seed = 1; seed < 6; ++seed)
    compiles += sums.run({{"x", small_numbers(DataType::kFloat32, {12}, seed)}}).total.compiles;
  EXPECT_EQ(compiles, 2);
}

/// What an open dimension makes of a region's outputs is padded again in the next.
TEST(Buckets, TheNextRegionKnowsTheDimension) {
  BucketRuns runs(R"(g (float[n,4] x) => (float[n,4] y) {
    r = Relu(x) s = SequenceConstruct(r) a = SequenceAt(s, at_zero)
    b = Abs(r) y = Add(a, b) })",
                  {{"n", {8}}, {"a:0", {8}}});
  int64_t compiles = 0;
  for (int64_t n = 1; n <= 8; ++n)
    compiles += runs.run({{"x", small_numbers(DataType::kFloat32, {n, 4}, 1)}}).total.compiles;
  EXPECT_EQ(compiles, 2);
}

}  // namespace
}  // namespace kodama::compiler
