#include <fmt/format.h>
#include <gtest/gtest.h>

#include "compiler/driver/graph_judge.h"
#include "compiler/graph/onnx_model.h"
#include "compiler/graph/test_models.h"
#include "compiler/tensor/comparison.h"

namespace kodama::compiler {
namespace {

/// What a random model that failed was shrunk to.
struct Fault {
  const char* name;
  std::string graph;
  const char* chip = "tiny";
  const char* precision = "float";
  const char* planner = "pbqp";
  Outcome outcome = Outcome::kPassed;
};

void PrintTo(const Fault& fault, std::ostream* out) {
  *out << fault.name;
}

std::vector<Fault> faults() {
  std::string numbers = "0";
  for (int k = 1; k < 8 * 24; ++k) numbers += fmt::format(",{}", (7 * k % 11 - 5) / 8.0);
  return {
      // Entries whose tokens don't fill their last row aren't those of all tokens in a row.
      {"TokensThatDoNotFillTheirLastRow",
       "agraph (float[2,15,15] x, float[2,15,16] z) => (float[2,15,16] y)"
       "{ s = Softmax<axis = -1>(x) y = MatMul(s, z) }",
       "mncore2", "gfloat"},
      // What is dealt over groups needn't be as many units in each.
      {"UnequalUnitsInGroups",
       "agraph (float[1,33,8] x, float[1,1,33,8] z) => (float[1,1,33,33] y) <float[8,24] w = {" + numbers +
           "}, int64[3] lengths = {8, 8, 8}, int64[4] shape = {0, -1, 1, 8}> { a = MatMul(x, w)"
           "p, q, r = Split<axis = 2>(a, lengths) t = Reshape(q, shape)"
           "u = Transpose<perm = [0, 2, 3, 1]>(t) y = MatMul(z, u) }",
       "tiny", "gfloat"},
      // Normalizations hoisted what rows have, and met constants that are integers.
      {"LayerNormalizationOfHalfFloats",
       "agraph (float16[4,9] x, float16[9] s) => (float16[4,9] y) { y = LayerNormalization<axis = 1>(x, s) "
       "}"},
      {"LayerNormalizationOfBfloats",
       "agraph (bfloat16[8,9] x, bfloat16[9] s, bfloat16[9] b) => (bfloat16[8,9] y)"
       "{ y = LayerNormalization<axis = -1, epsilon = 0.01>(x, s, b) }"},
      {"IndicesOfAMaximumThatAreReadAgain",
       "agraph (float[2,6,8] x) => (float[2,6,8] y)"
       "{ m, i = MaxPool<kernel_shape = [2], strides = [2]>(x)"
       "y = MaxUnpool<kernel_shape = [2], strides = [2]>(m, i) }"},
      // Three bins of 7 columns: 3 (7 / 3) was more than 7 in single precision.
      {"BinsThatEndAtAWholeNumber",
       "agraph (float[1,4,3,15] x) => (float[2,4,1,3] y)"
       "<float[2,5] regions = {0, 3, 0, 9, 2, 0, 4, 0, 10, 2}>"
       "{ y = MaxRoiPool<pooled_shape = [1, 3]>(x, regions) }"},
      // Of two columns, interpolated rows are dependent; with weights of 9 bits they aren't.
      {"TheDeterminantOfInterpolatedRows",
       "agraph (float[1,1,3,2] x) => (float[3,1] y) <float[3,4] regions = {0.013, 1.492, 0.09248, 2.123852,"
       "0.167, 0.318, 1.758044, 0.991182, 0.732, 1.662, 1.445884, 2.079456}, int64[3] pictures = {0, 0, 0}>"
       "{ r = RoiAlign<output_height = 3, output_width = 3, sampling_ratio = 1>(x, regions, pictures)"
       "y = Det(r) }",
       "tiny", "half", "pbqp", Outcome::kRounding},
      // 1 + exp(x) had lost the digits of exp(x).
      {"SoftplusOfNegativeNumbers",
       "agraph (float[9] x) => (float[9] y) <float[9] by = {-15.0, -14.0, -13.0, -12.0, -11.0, -16.0, -14.0, "
       "-13.0, -12.0}>"
       "{ s = Add(x, by) y = Softplus(s) }"},
      // Its kernel is larger than what it unpools.
      {"UnpoolsASingleElement",
       "agraph (float[2,9,2] x) => (float[2,9,2] y)"
       "{ m, i = MaxPool<kernel_shape = [2], strides = [2]>(x)"
       "y = MaxUnpool<kernel_shape = [2], strides = [2]>(m, i) }"},
      // The host looked for a value by its name, and it was another's tensor.
      {"TheHostReadsALastState",
       "agraph (float[3,3,1] x, float[1,8,1] w, float[1,8,2] r) => (float[1,3,2] y)"
       "{ a, b, h = LSTM<hidden_size = 2, direction = \"reverse\">(x, w, r) y = LpNormalization(h) }"},
      // Its function's body makes a list of it.
      {"CeluOfAScalar", "agraph (float x) => (float z) { y = Celu(x) z = Acos(y) }"},
      // An input under another shape, with another number of axes.
      {"AListOfOneElementReadAsAScalar",
       "agraph (float[1] x, float[1] z) => (bool[1] y) <int64[1] axes = {0}>"
       "{ s = Squeeze(x, axes) y = Greater(z, s) }",
       "tiny", "half"},
      // Its kernel is smaller than its strides: libonnx says less than ONNX.
      {"TransposedConvolutionOfTheSameSize",
       "agraph (float[2,3,4] x, float[3,5,2] w) => (float[2,5,12] y)"
       "{ y = ConvTranspose<strides = [3], auto_pad = \"SAME_LOWER\">(x, w) }"},
      // Positions in a region were counted to an end that was rounded away.
      {"ARegionWhoseLengthIsRounded",
       "agraph (float[2,4,3] x) => (float[2,7,7] y) <float[6] roi = {0, 0, 0, 1, 0.75, 1}, float[3] scales = "
       "{1, 2.5, 2.5}> "
       "{ y = Resize<mode = \"linear\", coordinate_transformation_mode = \"tf_crop_and_resize\">(x, roi, "
       "scales) }"},
      // 10.5 * 15 / 21 - 0.5 is 7, which a division by a rounded scale misses.
      {"NearestPositionsThatAreWhole",
       "agraph (float[1,15,4] x) => (float[1,21,6] y) <int64[3] sizes = {1, 21, 6}> { y = Resize<mode = "
       "\"nearest\", coordinate_transformation_mode = \"half_pixel\", nearest_mode = \"ceil\">(x, , , sizes) "
       "}"},
      // Four weights of one element, whose sum the reference rounded to less than one.
      {"ResizesASingleInteger",
       "agraph (int8[2,4,1,1] x) => (int8[2,4,3,2] y) <int64[4] sizes = {2, 4, 3, 2}> { y = Resize<mode = "
       "\"cubic\", coordinate_transformation_mode = \"pytorch_half_pixel\", cubic_coeff_a = -0.5>(x, , , "
       "sizes) "
       "}"},
      // Its state stayed on the chip though the host changes its layout for another layer.
      {"AStateThatTheHostSends",
       "agraph (int64 n, bool c, float[4,5,3] x, float[4,5,3] s) => (float[4,5,3] y, float[m,4,5,3] z) { y, "
       "z = "
       "Loop<body = body (int64 i, bool go, float[4,5,3] t) => (bool on, float[4,5,3] u, float[4,5,3] v)"
       "{ a = Min(t, x) b = Tanh(a) u = HardSigmoid(b) v = Neg(u) on = Identity(go) }>(n, c, s) }",
       "tiny", "float", "host"},
      // Its indices are doubles.
      {"OneHotOfDoubles",
       "agraph (double[1,4] x) => (uint64[1,5,4] y) <float d = {5}, uint64[2] v = {3, 7}> "
       "{ y = OneHot<axis = 1>(x, d, v) }"},
      // Its parameters are of other types than its data.
      {"BatchNormalizationOfDoublesByFloats",
       "agraph (double[2,3] x, float[3] s, float[3] b, float[3] m, float[3] r) => (double[2,3] y) "
       "{ v = Exp(r) y = BatchNormalization(x, s, b, m, v) }"},
      {"BatchNormalizationOfFloatsByDoubles",
       "agraph (float[2,3] x, float[3] s, float[3] b, double[3] m, double[3] r) => (float[2,3] y) "
       "{ v = Exp(r) y = BatchNormalization(x, s, b, m, v) }"},
      {"QuantizesWithoutAZeroPoint",
       "agraph (float[3,4] x) => (uint8[3,4] y, float[3,4] z) <float s = {0.25}>"
       "{ y = QuantizeLinear(x, s) z = DequantizeLinear(y, s) }"},
      // The judge took single precision's range for that of half, which has zeros here.
      {"ProductsOfNumbersThatHalfDoesNotHave",
       "agraph (float[1,1,1,1] x, float[1,4,3,2] g) => (float[1,1,1,1] t, float[1,1,4,3] y)"
       "<float s = {0.000000000000000001}> { t = Mul(x, s)"
       "y = GridSample<mode = \"nearest\", padding_mode = \"reflection\">(t, g) }",
       "tiny", "half", "pbqp", Outcome::kRounding},
      // The judge took what terms lose that cancel each other for more than rounding.
      {"DeterminantsOfRowsThatDependOnEachOther",
       "agraph (float[2,3,1] a, float[2,1,3] b) => (float[2] y) { x = Mul(a, b) y = Det(x) }", "tiny", "half",
       "pbqp", Outcome::kRounding},
  };
}

class FoundFault : public ::testing::TestWithParam<Fault> {};

TEST_P(FoundFault, IsGone) {
  const Fault& fault = GetParam();
  GraphProblem problem{testing::parse_model(fault.graph), {}};
  for (const auto& input : problem.model.graph().input())
    problem.inputs[input.name()] =
        random_input(input.name(), static_cast<DataType>(input.type().tensor_type().elem_type()),
                     static_shape(input.type()).value(), 1);
  for (const bool is_dirty : {false, true}) {
    const Setting setting{
        .chip = fault.chip, .precision = fault.precision, .planner = fault.planner, .is_dirty = is_dirty};
    const Verdict verdict = judge(problem, setting);
    EXPECT_TRUE(verdict.outcome == fault.outcome) << verdict.reason;
  }
}

INSTANTIATE_TEST_SUITE_P(Fuzz, FoundFault, ::testing::ValuesIn(faults()),
                         [](const auto& each) { return each.param.name; });

/// Seed 2106523 of graphs of operators: an output of one number, the mean of a row that was normalized, is
/// what the rounding of the first mean leaves. The judge made too few errors to see how large it can be.
TEST(FoundFaults, MeanOfARowThatWasNormalized) {
  const std::string bits =
      "000100000100010000000001010000010000000010000010000010100000001000010000001000010000000100100000001000"
      "010000";
  std::vector<float> pixels;
  for (const char bit : bits) pixels.push_back(bit == '1' ? 1.0f : 0.0f);
  // What the judge draws depends on the elements before: with so many its first errors were all small.
  constexpr int64_t kBefore = 73;
  const GraphProblem problem{testing::parse_model(fmt::format(
                                 "agraph (float[{0}] q, float[3,1,6,6] x) => "
                                 "(float[{0}] t, float[1,1,1,1] mean, float[1,1,6,6] whole) "
                                 "<int64[3] extents = {{1, 6, 6}}> {{ t = Tanh(q) "
                                 "v = ReduceLogSumExp<axes = [-4, 1]>(x) n = MeanVarianceNormalization(v) "
                                 "scale = ConstantOfShape(extents) bias = ConstantOfShape(extents) "
                                 "y, mean = LayerNormalization<axis = 1>(n, scale, bias) "
                                 "whole = Round(v) }}",
                                 kBefore)),
                             {{"q", Tensor(DataType::kFloat32, {kBefore})},
                              {"x", Tensor::from_values<float>(DataType::kFloat32, {3, 1, 6, 6}, pixels)}}};
  const Verdict verdict = judge(problem, {.chip = "tiny", .precision = "half", .planner = "pbqp"});
  EXPECT_TRUE(verdict.outcome == Outcome::kRounding) << verdict.reason;
}

}  // namespace
}  // namespace kodama::compiler
