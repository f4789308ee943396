#include <fmt/format.h>

#include "compiler/graph/gradient/gradient_test_variants.h"

namespace kodama::compiler::testing {

namespace {

using Variants = std::vector<GradientVariant>;

const char* const kMatrix = "double[3,4] x";

Variants element_variants() {
  Variants list;
  const auto unary = [&](const std::string& op, double low = -2, double high = 2,
                         const std::string& attributes = "", const std::string& suffix = "") {
    list.push_back({op + suffix, kMatrix, "y = " + op + " " + attributes + "(x)", low, high});
  };
  unary("Abs");
  unary("Acos", -0.9, 0.9);
  unary("Acosh", 1.1, 3);
  unary("Asin", -0.9, 0.9);
  unary("Asinh");
  unary("Atan");
  unary("Atanh", -0.9, 0.9);
  unary("Cos");
  unary("Cosh");
  unary("Elu");
  unary("Elu", -2, 2, "<alpha = 1.5>", "WithAlpha");
  unary("Erf");
  unary("Exp");
  unary("HardSigmoid", -5, 5);
  unary("HardSigmoid", -5, 5, "<alpha = 0.3, beta = 0.25>", "WithBoth");
  unary("HardSwish", -5, 5);
  unary("Identity");
  unary("LeakyRelu");
  unary("LeakyRelu", -2, 2, "<alpha = 0.25>", "WithAlpha");
  unary("Log", 0.2, 3);
  unary("Neg");
  unary("Reciprocal", 0.3, 2);
  unary("Relu");
  unary("Selu");
  unary("Selu", -2, 2, "<alpha = 1.25, gamma = 1.5>", "WithBoth");
  unary("Shrink", -2, 2, "<lambd = 0.75, bias = 0.25>");
  unary("Sigmoid");
  unary("Sin");
  unary("Sinh");
  unary("Softplus");
  unary("Softsign");
  unary("Sqrt", 0.2, 3);
  unary("Tan", -1, 1);
  unary("Tanh");
  unary("ThresholdedRelu", -2, 2, "<alpha = 0.5>");

  const std::string pair = "double[2,3,4] x, double[3,1] z";
  for (const char* op : {"Add", "Sub", "Mul", "Max", "Min"})
    list.push_back({std::string(op) + "Broadcast", pair, fmt::format("y = {} (x, z)", op)});
  list.push_back({"DivBroadcast", pair, "y = Div (x, z)", 0.5, 2});
  list.push_back({"MulByItself", kMatrix, "y = Mul (x, x)"});
  list.push_back({"ModOfFloats", pair, "y = Mod <fmod = 1> (x, z)", 0.4, 3});
  list.push_back({"Pow", pair, "y = Pow (x, z)", 0.3, 2});
  list.push_back({"PowOfWholeNumber", "double[3,4] x", "two = Constant <value_int = 3> () y = Pow (x, two)"});
  list.push_back({"MaxOfThree", "double[3,4] a, double[4] b, double[3,1] c", "y = Max (a, b, c)"});
  list.push_back({"SumOfThree", "double[3,4] a, double[4] b, double[3,1] c", "y = Sum (a, b, c)"});
  list.push_back({"MeanOfThree", "double[3,4] a, double[4] b, double[3,1] c", "y = Mean (a, b, c)"});
  list.push_back({"PRelu", "double[2,3,4] x, double[3,1] s", "y = PRelu (x, s)"});
  list.push_back({"WhereBroadcast",
                  "double[3,4] x, double[4] a, double[3,1] b",
                  "z = Constant <value = double {0.1}> () c = Less (x, z) y = Where (c, a, b)",
                  -1,
                  1,
                  {"y"},
                  1,
                  0,
                  {"x"}});
  list.push_back({"ClipBothSides", "double[3,4] x, double l, double h", "y = Clip (x, l, h)", -1, 1});
  list.push_back({"ClipBelow", "double[3,4] x, double l", "y = Clip (x, l)"});
  list.push_back({"ClipAbove", "double[3,4] x, double h", "y = Clip (x, , h)"});
  list.push_back({"Cast",
                  "double[3,4] x",
                  "f = Cast <to = 1> (x) g = Mul (f, f) y = Cast <to = 11> (g)",
                  -1,
                  1,
                  {"y"},
                  1,
                  0,
                  {},
                  1e-3,
                  1e-3});
  list.push_back({"CastLike",
                  "double[3,4] x",
                  "one = Constant <value = float {1}> () f = CastLike (x, one) g = Mul (f, f) "
                  "y = Cast <to = 11> (g)",
                  -1,
                  1,
                  {"y"},
                  1,
                  0,
                  {},
                  1e-3,
                  1e-3});
  list.push_back({"Celu",
                  "double[3,4] x",
                  "f = Cast <to = 1> (x) g = Celu <alpha = 1.5> (f) y = Cast <to = 11> (g)",
                  -1,
                  1,
                  {"y"},
                  1,
                  0,
                  {},
                  1e-3,
                  1e-3});
  list.push_back({"DropoutInTraining", "double[5,6] x",
                  "r = Constant <value = float {0.25}> () t = Constant <value = bool {1}> () "
                  "y = Dropout <seed = 3> (x, r, t)"});
  list.push_back({"SharedValue", "double[3,4] x, double[3,4] z",
                  "a = Tanh (x) b = Mul (a, z) c = Add (a, b) y = Mul (c, a)"});
  return list;
}

Variants movement_variants() {
  return {
      {"Concat", "double[2,3] a, double[2,4] b", "y = Concat <axis = -1> (a, b, a)"},
      {"CumSum", "double[3,4] x", "n = Constant <value_int = 1> () y = CumSum (x, n)"},
      {"CumSumReverseExclusive", "double[3,4] x",
       "n = Constant <value_int = 0> () y = CumSum <exclusive = 1, reverse = 1> (x, n)"},
      {"DepthToSpace", "double[2,8,2,3] x", "y = DepthToSpace <blocksize = 2> (x)"},
      {"DepthToSpaceCrd", "double[1,8,2,3] x", "y = DepthToSpace <blocksize = 2, mode = \"CRD\"> (x)"},
      {"Expand", "double[3,1] x", "s = Constant <value_ints = [2, 3, 4]> () y = Expand (x, s)"},
      {"Flatten", "double[2,3,4] x", "y = Flatten <axis = 2> (x)"},
      {"PadConstant", "double[3,4] x, double v",
       "p = Constant <value_ints = [1, 0, 2, 3]> () y = Pad (x, p, v)"},
      {"PadNegative", "double[4,5] x, double v",
       "p = Constant <value_ints = [-1, 2, 1, -2]> () y = Pad (x, p, v)"},
      {"PadReflect", "double[4,5] x",
       "p = Constant <value_ints = [2, 1, 1, 3]> () y = Pad <mode = \"reflect\"> (x, p)"},
      {"PadEdge", "double[4,5] x",
       "p = Constant <value_ints = [2, 1, 0, 3]> () y = Pad <mode = \"edge\"> (x, p)"},
      {"Reshape", "double[3,4] x", "s = Constant <value_ints = [2, -1]> () y = Reshape (x, s)"},
      {"ReverseSequence", "double[4,3] x, int64[3] l", "y = ReverseSequence (x, l)", -1, 1, {"y"}, 4, 1},
      {"Slice", "double[5,6] x",
       "b = Constant <value_ints = [1, -5]> () e = Constant <value_ints = [4, 100]> () "
       "n = Constant <value_ints = [0, 1]> () t = Constant <value_ints = [1, 2]> () y = Slice (x, b, e, n, "
       "t)"},
      {"SliceBackwards", "double[5,7] x",
       "b = Constant <value_ints = [-1, 5]> () e = Constant <value_ints = [-100, 0]> () "
       "n = Constant <value_ints = [0, 1]> () t = Constant <value_ints = [-1, -2]> () y = Slice (x, b, e, n, "
       "t)"},
      {"SliceOfNothing", "double[5,6] x, double[2] z",
       "b = Constant <value_ints = [3]> () e = Constant <value_ints = [3]> () s = Slice (x, b, e) "
       "k = ReduceSum <keepdims = 0> (s) y = Add (k, z)"},
      {"SpaceToDepth", "double[1,2,4,6] x", "y = SpaceToDepth <blocksize = 2> (x)"},
      {"Split",
       "double[2,7] x",
       "s = Constant <value_ints = [2, 4, 1]> () y, u, z = Split <axis = 1> (x, s)",
       -1,
       1,
       {"y", "z"}},
      {"Squeeze", "double[3,1,4,1] x", "n = Constant <value_ints = [1, -1]> () y = Squeeze (x, n)"},
      {"Tile", "double[2,3] x", "r = Constant <value_ints = [3, 2]> () y = Tile (x, r)"},
      {"Transpose", "double[2,3,4] x", "y = Transpose <perm = [2, 0, 1]> (x)"},
      {"TransposeDefault", "double[2,3,4] x", "y = Transpose (x)"},
      {"Trilu", "double[2,4,5] x", "k = Constant <value_int = -1> () y = Trilu <upper = 0> (x, k)"},
      {"Unsqueeze", "double[3,4] x", "n = Constant <value_ints = [0, -1]> () y = Unsqueeze (x, n)"},
  };
}

Variants index_variants() {
  return {
      {"Compress", "double[4,5] x",
       "c = Constant <value = bool[4] {1, 0, 1, 1}> () y = Compress <axis = 0> (x, c)"},
      {"CompressFlat", "double[2,3] x",
       "c = Constant <value = bool[5] {1, 0, 1, 1, 0}> () y = Compress (x, c)"},
      {"GatherRows", "double[4,3] x, int64[2,5] i", "y = Gather (x, i)", -1, 1, {"y"}, 4},
      {"GatherNegative", "double[2,4,3] x, int64[3] i", "y = Gather <axis = 1> (x, i)", -1, 1, {"y"}, 8, -4},
      {"GatherScalar", "double[2,4,3] x, int64 i", "y = Gather <axis = -1> (x, i)", -1, 1, {"y"}, 3},
      {"GatherElements",
       "double[4,3] x, int64[2,3] i",
       "y = GatherElements <axis = 0> (x, i)",
       -1,
       1,
       {"y"},
       4},
      {"GatherElementsNegative",
       "double[3,5] x, int64[3,4] i",
       "y = GatherElements <axis = -1> (x, i)",
       -1,
       1,
       {"y"},
       10,
       -5},
      {"GatherND", "double[3,3,4] x, int64[5,2] i", "y = GatherND (x, i)", -1, 1, {"y"}, 3},
      {"GatherNDBatch",
       "double[2,3,4] x, int64[2,5,1] i",
       "y = GatherND <batch_dims = 1> (x, i)",
       -1,
       1,
       {"y"},
       3},
      {"OneHot",
       "double[2] v, int64[2,3] i",
       "d = Constant <value_int = 4> () y = OneHot <axis = 1> (i, d, v)",
       -1,
       1,
       {"y"},
       4},
      {"ScatterElements", "double[3,4] x, double[3,2] u",
       "i = Constant <value = int64[3,2] {0, 2, 1, 3, 2, 0}> () y = ScatterElements <axis = 1> (x, i, u)"},
      {"ScatterElementsAdd",
       "double[3,4] x, double[3,2] u, int64[3,2] i",
       "y = ScatterElements <axis = 1, reduction = \"add\"> (x, i, u)",
       -1,
       1,
       {"y"},
       4},
      {"ScatterND", "double[4,3] x, double[2,3] u",
       "i = Constant <value = int64[2,1] {3, 1}> () y = ScatterND (x, i, u)"},
      {"ScatterNDAdd",
       "double[4,3] x, double[5,3] u, int64[5,1] i",
       "y = ScatterND <reduction = \"add\"> (x, i, u)",
       -1,
       1,
       {"y"},
       4},
      {"TopK", "double[3,6] x", "k = Constant <value_ints = [3]> () y, i = TopK (x, k)"},
      {"TopKSmallest", "double[6,3] x",
       "k = Constant <value_ints = [2]> () y, i = TopK <axis = 0, largest = 0> (x, k)"},
  };
}

Variants reduction_variants() {
  Variants list;
  for (const char* op : {"ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceMax", "ReduceMean",
                         "ReduceMin", "ReduceProd", "ReduceSumSquare"}) {
    const double low = std::string(op) == "ReduceLogSum" ? 0.2 : -1;
    list.push_back(
        {op, "double[2,3,4] x", fmt::format("y = {} <axes = [1, -1], keepdims = 0> (x)", op), low, 1});
    list.push_back({std::string(op) + "OfAll", "double[3,4] x", fmt::format("y = {} (x)", op), low, 1});
  }
  list.push_back({"ReduceSum", "double[2,3,4] x",
                  "n = Constant <value_ints = [0, 2]> () y = ReduceSum <keepdims = 0> (x, n)"});
  list.push_back({"ReduceSumOfNoAxes", "double[3,4] x",
                  "n = Constant <value = int64[0] {}> () y = ReduceSum <noop_with_empty_axes = 1> (x, n)"});
  list.push_back({"ReduceProdWithZero", "double[2,3] x, double[2,1] z",
                  "o = Constant <value = double {0}> () p = Mul (z, o) c = Concat <axis = 1> (x, p) "
                  "d = Add (c, e) y = ReduceProd <axes = [1]> (d)"});
  list.back().inputs += ", double[2,4] e";
  return list;
}

Variants matrix_variants() {
  return {
      {"MatMul", "double[3,4] a, double[4,5] b", "y = MatMul (a, b)"},
      {"MatMulBatch", "double[2,1,3,4] a, double[5,4,2] b", "y = MatMul (a, b)"},
      {"MatMulByWeights", "double[2,3,4] a, double[4,5] b", "y = MatMul (a, b)"},
      {"MatMulOfVectors", "double[4] a, double[4] b", "y = MatMul (a, b)"},
      {"MatMulVectorMatrix", "double[4] a, double[2,4,3] b", "y = MatMul (a, b)"},
      {"MatMulMatrixVector", "double[2,3,4] a, double[4] b", "y = MatMul (a, b)"},
      {"Gemm", "double[3,4] a, double[4,5] b, double[5] c", "y = Gemm (a, b, c)"},
      {"GemmTransA", "double[4,3] a, double[4,5] b, double[3,1] c",
       "y = Gemm <transA = 1, alpha = 0.5, beta = 2.0> (a, b, c)"},
      {"GemmTransB", "double[3,4] a, double[5,4] b, double c",
       "y = Gemm <transB = 1, alpha = 1.5> (a, b, c)"},
      {"GemmTransBoth", "double[4,3] a, double[5,4] b", "y = Gemm <transA = 1, transB = 1> (a, b)"},
      {"EinsumMatMul", "double[3,4] a, double[4,5] b", "y = Einsum <equation = \"ij,jk->ik\"> (a, b)"},
      {"EinsumBatchEllipsis", "double[2,3,4] a, double[2,4,5] b",
       "y = Einsum <equation = \"...ij,...jk->...ik\"> (a, b)"},
      {"EinsumBroadcastEllipsis", "double[1,3,4] a, double[2,4,5] b",
       "y = Einsum <equation = \"...ij,...jk->...ik\"> (a, b)"},
      {"EinsumDiagonal", "double[3,3] a", "y = Einsum <equation = \"ii->i\"> (a)"},
      {"EinsumTrace", "double[3,3] a", "y = Einsum <equation = \"ii\"> (a)"},
      {"EinsumSum", "double[3,4] a", "y = Einsum <equation = \"ij->j\"> (a)"},
      {"EinsumThree", "double[2,3] a, double[3,4] b, double[4,2] c",
       "y = Einsum <equation = \"ij, jk, kl -> il\"> (a, b, c)"},
      {"EinsumImplicit", "double[3,4] b, double[2,3] a", "y = Einsum <equation = \"jk,ij\"> (b, a)"},
      {"Det", "double[3,3] x", "y = Det (x)"},
      {"DetBatch", "double[2,4,4] x", "y = Det (x)"},
      {"DetOfOne", "double[2,1,1] x", "y = Det (x)"},
  };
}

Variants convolution_variants() {
  return {
      {"Conv", "double[2,3,6,5] x, double[4,3,3,3] w, double[4] b", "y = Conv (x, w, b)"},
      {"ConvStridePad", "double[1,2,7,8] x, double[3,2,3,2] w",
       "y = Conv <strides = [2, 3], pads = [1, 0, 2, 1]> (x, w)"},
      {"ConvDilation", "double[1,2,8,7] x, double[3,2,3,2] w",
       "y = Conv <dilations = [2, 3], pads = [1, 1, 1, 1]> (x, w)"},
      {"ConvStrideDilation", "double[2,2,9,8] x, double[2,2,2,3] w",
       "y = Conv <strides = [3, 2], dilations = [2, 2], pads = [0, 2, 1, 1]> (x, w)"},
      {"ConvGroups", "double[2,4,5,5] x, double[6,2,3,3] w, double[6] b",
       "y = Conv <group = 2, pads = [1, 1, 1, 1]> (x, w, b)"},
      {"ConvDepthwise", "double[2,3,6,6] x, double[3,1,3,3] w",
       "y = Conv <group = 3, strides = [2, 2], pads = [1, 1, 1, 1]> (x, w)"},
      {"Conv1d", "double[2,3,9] x, double[4,3,4] w, double[4] b",
       "y = Conv <strides = [2], pads = [1, 2]> (x, w, b)"},
      {"Conv3d", "double[1,2,4,5,3] x, double[2,2,2,3,2] w",
       "y = Conv <pads = [0, 1, 1, 1, 0, 0], strides = [1, 2, 1]> (x, w)"},
      {"ConvSameUpper", "double[1,2,6,7] x, double[2,2,3,2] w",
       "y = Conv <auto_pad = \"SAME_UPPER\", strides = [2, 2]> (x, w)"},
      {"ConvSameLower", "double[1,2,6,7] x, double[2,2,4,2] w",
       "y = Conv <auto_pad = \"SAME_LOWER\"> (x, w)"},
      {"ConvManyElements", "double[2,30,5,5] x, double[3,30,3,3] w, double[3] b",
       "y = Conv <pads = [1, 1, 1, 1], strides = [2, 1]> (x, w, b)"},
      {"ConvManyElementsGroups", "double[2,60,5,4] x, double[4,30,3,3] w",
       "y = Conv <group = 2, pads = [1, 0, 1, 1], dilations = [1, 2]> (x, w)"},
      {"ConvUnusedColumns", "double[1,1,8,9] x, double[1,1,2,2] w", "y = Conv <strides = [3, 4]> (x, w)"},
      {"ConvTranspose", "double[2,3,4,3] x, double[3,2,3,3] w, double[2] b", "y = ConvTranspose (x, w, b)"},
      {"ConvTransposeStride", "double[1,3,4,3] x, double[3,2,3,2] w",
       "y = ConvTranspose <strides = [2, 3], pads = [1, 0, 0, 1], output_padding = [1, 2]> (x, w)"},
      {"ConvTransposeGroups", "double[2,4,3,3] x, double[4,1,3,3] w, double[2] b",
       "y = ConvTranspose <group = 2, dilations = [2, 1]> (x, w, b)"},
      {"ConvTransposeOutputShape", "double[1,2,3,3] x, double[2,2,3,3] w",
       "y = ConvTranspose <output_shape = [8, 7], strides = [3, 2]> (x, w)"},
      {"ConvTransposeSame", "double[1,2,3,4] x, double[2,1,3,3] w",
       "y = ConvTranspose <auto_pad = \"SAME_UPPER\", strides = [2, 2]> (x, w)"},
      {"ConvTranspose1d", "double[1,2,5] x, double[2,3,4] w",
       "y = ConvTranspose <strides = [2], pads = [2, 1]> (x, w)"},
  };
}

Variants pool_variants() {
  return {
      {"MaxPool", "double[2,2,6,6] x", "y = MaxPool <kernel_shape = [2, 2], strides = [2, 2]> (x)"},
      {"MaxPoolTiles3d", "double[2,1,2,6,3] x",
       "y = MaxPool <kernel_shape = [1, 2, 3], strides = [1, 2, 3]> (x)"},
      {"MaxPoolOverlapping", "double[1,2,7,6] x",
       "y = MaxPool <kernel_shape = [3, 3], strides = [2, 2], pads = [1, 1, 1, 1]> (x)"},
      {"MaxPoolCeilDilation", "double[1,1,8,7] x",
       "y = MaxPool <kernel_shape = [2, 3], strides = [3, 2], dilations = [2, 1], ceil_mode = 1> (x)"},
      {"MaxPool1d", "double[2,2,9] x", "y = MaxPool <kernel_shape = [3], strides = [2]> (x)"},
      {"MaxPoolSame", "double[1,2,5,6] x",
       "y = MaxPool <kernel_shape = [3, 2], strides = [2, 2], auto_pad = \"SAME_LOWER\"> (x)"},
      {"AveragePool", "double[2,2,6,6] x", "y = AveragePool <kernel_shape = [3, 2], strides = [2, 2]> (x)"},
      {"AveragePoolPads", "double[1,2,6,5] x",
       "y = AveragePool <kernel_shape = [3, 3], strides = [2, 2], pads = [1, 1, 1, 0]> (x)"},
      {"AveragePoolCountPads", "double[1,2,6,5] x",
       "y = AveragePool <kernel_shape = [3, 3], pads = [1, 2, 1, 1], count_include_pad = 1> (x)"},
      {"AveragePoolCeil", "double[1,1,6,5] x",
       "y = AveragePool <kernel_shape = [3, 2], strides = [2, 2], ceil_mode = 1, pads = [1, 0, 0, 0]> (x)"},
      {"AveragePoolSame", "double[1,2,5,6] x",
       "y = AveragePool <kernel_shape = [3, 2], strides = [2, 2], auto_pad = \"SAME_UPPER\"> (x)"},
      {"GlobalAveragePool", "double[2,3,4,5] x", "y = GlobalAveragePool (x)"},
      {"GlobalMaxPool", "double[2,3,4] x", "y = GlobalMaxPool (x)"},
      {"GlobalLpPool", "double[2,3,4,2] x", "y = GlobalLpPool <p = 3> (x)"},
      {"LpPool", "double[1,2,6,5] x",
       "y = LpPool <kernel_shape = [3, 2], strides = [2, 2], pads = [1, 0, 0, 1]> (x)"},
      {"LpPoolOfThree", "double[1,2,6,5] x", "y = LpPool <kernel_shape = [2, 2], p = 3> (x)"},
      {"LpPoolOfOne", "double[1,2,6] x", "y = LpPool <kernel_shape = [2], p = 1> (x)"},
      {"LRN", "double[2,5,3,2] x", "y = LRN <size = 3, alpha = 0.4, beta = 0.6, bias = 1.5> (x)"},
      {"LRNEven", "double[1,5,2,2] x", "y = LRN <size = 4, alpha = 0.4> (x)"},
      {"MaxUnpool", "double[1,1,2,2] x",
       "i = Constant <value = int64[1,1,2,2] {0, 3, 13, 10}> () "
       "y = MaxUnpool <kernel_shape = [2, 2], strides = [2, 2]> (x, i)"},
  };
}

Variants normalization_variants() {
  return {
      {"BatchNormalization", "double[3,2,4] x, double[2] s, double[2] b, double[2] m, double[2] v",
       "y = BatchNormalization (x, s, b, m, v)", 0.2, 2},
      {"BatchNormalizationTraining",
       "double[3,2,2,2] x, double[2] s, double[2] b, double[2] m, double[2] v",
       "y, rm, rv = BatchNormalization <training_mode = 1, momentum = 0.8> (x, s, b, m, v)",
       0.2,
       2,
       {"y", "rm", "rv"}},
      {"BatchNormalizationTrainingAlone",
       "double[4,3] x, double[3] s, double[3] b, double[3] m, double[3] v",
       "y, rm, rv = BatchNormalization <training_mode = 1> (x, s, b, m, v)",
       0.2,
       2,
       {"y"},
       1,
       0,
       {"m", "v"}},
      {"InstanceNormalization", "double[2,3,4,2] x, double[3] s, double[3] b",
       "y = InstanceNormalization (x, s, b)", 0.2, 2},
      {"LayerNormalization",
       "double[2,3,4] x, double[4] s, double[4] b",
       "y = LayerNormalization (x, s, b)",
       -1,
       1,
       {"y"},
       1,
       0,
       {},
       1e-3,
       1e-3},
      {"LayerNormalizationAxis",
       "double[2,3,4] x, double[3,4] s",
       "y = LayerNormalization <axis = 1> (x, s)",
       -1,
       1,
       {"y"},
       1,
       0,
       {},
       1e-3,
       1e-3},
      {"LpNormalization", "double[3,4] x", "y = LpNormalization (x)"},
      {"LpNormalizationOfOne", "double[3,4] x", "y = LpNormalization <p = 1, axis = 0> (x)"},
      {"MeanVarianceNormalization",
       "double[2,3,3,2] x",
       "y = MeanVarianceNormalization (x)",
       -1,
       1,
       {"y"},
       1,
       0,
       {},
       1e-5},
      {"Softmax", "double[3,4] x", "y = Softmax (x)", -2, 2},
      {"SoftmaxAxis", "double[2,3,4] x", "y = Softmax <axis = 1> (x)", -2, 2},
      {"LogSoftmax", "double[3,4] x", "y = LogSoftmax (x)", -2, 2},
      {"LogSoftmaxAxis", "double[2,3,4] x", "y = LogSoftmax <axis = 0> (x)", -2, 2},
  };
}

Variants loss_variants() {
  return {
      {"SoftmaxCrossEntropy",
       "double[3,5] x, int64[3] l",
       "y = SoftmaxCrossEntropyLoss (x, l)",
       -2,
       2,
       {"y"},
       5},
      {"SoftmaxCrossEntropySum",
       "double[2,3,4] x, int64[2,4] l, double[3] w",
       "y, p = SoftmaxCrossEntropyLoss <reduction = \"sum\"> (x, l, w)",
       0.2,
       2,
       {"y", "p"},
       3},
      {"SoftmaxCrossEntropyIgnore",
       "double[6,3] x, int64[6] l, double[3] w",
       "y = SoftmaxCrossEntropyLoss <ignore_index = -1> (x, l, w)",
       0.2,
       2,
       {"y"},
       4,
       -1},
      {"SoftmaxCrossEntropyNone",
       "double[4,3] x, int64[4] l",
       "y = SoftmaxCrossEntropyLoss <reduction = \"none\", ignore_index = 1> (x, l)",
       -2,
       2,
       {"y"},
       3},
      {"NegativeLogLikelihood",
       "double[3,5,2] x, int64[3,2] l",
       "y = NegativeLogLikelihoodLoss (x, l)",
       -2,
       2,
       {"y"},
       5},
      {"NegativeLogLikelihoodWeighted",
       "double[4,3] x, int64[4] l, double[3] w",
       "y = NegativeLogLikelihoodLoss <reduction = \"mean\"> (x, l, w)",
       0.2,
       2,
       {"y"},
       3},
  };
}

Variants region_variants() {
  const std::string boxes =
      "b = Constant <value = double[3,4] {0.4, 0.7, 4.9, 5.3, 1.2, -0.3, 3.6, 2.2, 2.1, 2.3, 7.4, 6.2}> () "
      "i = Constant <value = int64[3] {0, 1, 0}> () ";
  Variants list = {
      {"ResizeLinear", "double[1,2,4,5] x",
       "s = Constant <value = float[4] {1, 1, 1.75, 0.6}> () y = Resize <mode = \"linear\"> (x, , s)"},
      {"ResizeLinearAligned", "double[1,2,3,4] x",
       "z = Constant <value = int64[4] {1, 2, 5, 7}> () "
       "y = Resize <mode = \"linear\", coordinate_transformation_mode = \"align_corners\"> (x, , , z)"},
      {"ResizeNearest", "double[1,2,3,4] x",
       "s = Constant <value = float[4] {1, 1, 2, 2}> () "
       "y = Resize <mode = \"nearest\", coordinate_transformation_mode = \"asymmetric\", nearest_mode = "
       "\"floor\"> (x, , s)"},
      {"ResizeCubic", "double[1,1,4,5] x",
       "s = Constant <value = float[4] {1, 1, 1.5, 2}> () y = Resize <mode = \"cubic\"> (x, , s)"},
      {"ResizeCubicOutside", "double[1,1,6,5] x",
       "s = Constant <value = float[4] {1, 1, 0.7, 1.4}> () "
       "y = Resize <mode = \"cubic\", exclude_outside = 1, cubic_coeff_a = -0.5> (x, , s)"},
      {"ResizeCrop", "double[1,1,5,6] x",
       "r = Constant <value = float[8] {0, 0, 0.2, -0.1, 1, 1, 0.9, 1.2}> () "
       "z = Constant <value = int64[4] {1, 1, 4, 5}> () "
       "y = Resize <mode = \"linear\", coordinate_transformation_mode = \"tf_crop_and_resize\", "
       "extrapolation_value = 2.5> (x, r, , z)"},
      {"RoiAlign", "double[2,2,6,7] x",
       boxes + "y = RoiAlign <output_height = 2, output_width = 3, sampling_ratio = 2> (x, b, i)"},
      {"RoiAlignOfOnePicture", "double[1,2,6,7] x",
       "b = Constant <value = double[2,4] {0, 0.4, 3.3, 3.7, 1.2, 2, 5.1, 4.6}> () "
       "i = Constant <value = int64[2] {0, 0}> () y = RoiAlign <output_height = 2, output_width = 3, "
       "sampling_ratio = 2> (x, b, i)"},
      {"RoiAlignByBoxes", "double[1,2,6,7] x, double[2,4] b",
       "o = Constant <value = double[4] {0, 0, 3.3, 3.7}> () c = Add (b, o) "
       "i = Constant <value = int64[2] {0, 0}> () y = RoiAlign <output_height = 2, output_width = 2, "
       "sampling_ratio = 2, coordinate_transformation_mode = \"output_half_pixel\"> (x, c, i)",
       0.6, 1.4},
      {"MaxRoiPool", "double[2,2,6,7] x",
       "b = Constant <value = double[3,5] {0, 0, 1, 4, 5, 1, 1, 0, 3, 2, 0, 2, 2, 9, 5}> () "
       "y = MaxRoiPool <pooled_shape = [2, 3]> (x, b)"},
  };
  for (const char* mode : {"bilinear", "bicubic", "nearest"}) {
    for (const char* padding : {"zeros", "border", "reflection"}) {
      const bool aligned = std::string(padding) == "border";
      list.push_back(
          {fmt::format("GridSample_{}_{}", mode, padding),
           "double[2,2,4,5] x, double[2,3,2,2] g",
           fmt::format("y = GridSample <mode = \"{}\", padding_mode = \"{}\", align_corners = {}> (x, g)",
                       mode, padding, static_cast<int>(aligned)),
           -1.4,
           1.4,
           {"y"},
           1,
           0,
           std::string(mode) == "nearest" ? std::vector<std::string>{"g"} : std::vector<std::string>{}});
    }
  }
  return list;
}

Variants recurrent_variants() {
  const std::string operands = "double[4,2,3] x, double[1,{0},3] w, double[1,{0},2] r, double[1,{1}] b";
  return {
      {"RNN",
       "double[4,2,3] x, double[1,2,3] w, double[1,2,2] r, double[1,4] b, double[1,2,2] h",
       "y, z = RNN <hidden_size = 2> (x, w, r, b, , h)",
       -1,
       1,
       {"y", "z"}},
      {"RNNBidirectional", "double[3,2,3] x, double[2,2,3] w, double[2,2,2] r",
       "y = RNN <hidden_size = 2, direction = \"bidirectional\", activations = [\"Elu\", \"ScaledTanh\"], "
       "activation_alpha = [0.75, 1.25], activation_beta = [0.5]> (x, w, r)"},
      {"GRU",
       "double[4,2,3] x, double[1,6,3] w, double[1,6,2] r, double[1,12] b, double[1,2,2] h",
       "y, z = GRU <hidden_size = 2> (x, w, r, b, , h)",
       -1,
       1,
       {"y", "z"}},
      {"GRULinearBeforeReset",
       "double[3,2,3] x, double[1,6,3] w, double[1,6,2] r, double[1,12] b",
       "y, z = GRU <hidden_size = 2, linear_before_reset = 1, direction = \"reverse\"> (x, w, r, b)",
       -1,
       1,
       {"y", "z"}},
      {"GRUBatchFirstLengths",
       "double[2,4,3] x, double[2,6,3] w, double[2,6,2] r",
       "l = Constant <value = int32[2] {4, 2}> () "
       "y, z = GRU <hidden_size = 2, layout = 1, direction = \"bidirectional\"> (x, w, r, , l)",
       -1,
       1,
       {"y", "z"}},
      {"LSTM",
       "double[4,2,3] x, double[1,8,3] w, double[1,8,2] r, double[1,16] b, double[1,2,2] h, double[1,2,2] c",
       "y, z, u = LSTM <hidden_size = 2> (x, w, r, b, , h, c)",
       -1,
       1,
       {"y", "z", "u"}},
      {"LSTMPeepholes",
       "double[3,2,3] x, double[2,8,3] w, double[2,8,2] r, double[2,6] p",
       "y, z, u = LSTM <hidden_size = 2, direction = \"bidirectional\", clip = 0.6> (x, w, r, , , , , p)",
       -1,
       1,
       {"y", "z", "u"}},
      {"LSTMLengths",
       "double[4,3,2] x, double[1,8,2] w, double[1,8,2] r, double[1,3,2] h, double[1,3,2] c",
       "l = Constant <value = int32[3] {1, 4, 2}> () "
       "y, z, u = LSTM <hidden_size = 2, direction = \"reverse\", input_forget = 1> (x, w, r, , l, h, c)",
       -1,
       1,
       {"y", "z", "u"}},
  };
}

Variants signal_variants() {
  return {
      {"DFT", "double[2,6,1] x", "y = DFT <axis = 1> (x)"},
      {"DFTOnesidedLength", "double[2,6,1] x",
       "n = Constant <value_int = 5> () y = DFT <axis = 1, onesided = 1> (x, n)"},
      {"DFTInverseComplex", "double[2,3,4,2] x", "y = DFT <axis = 1, inverse = 1> (x)"},
      {"STFT", "double[2,12,1] x, double[4] w", "s = Constant <value_int = 3> () y = STFT (x, s, w)"},
      {"STFTComplex", "double[1,9,2] x",
       "s = Constant <value_int = 2> () n = Constant <value_int = 4> () y = STFT <onesided = 0> (x, s, , n)"},
  };
}

}  // namespace

const std::vector<GradientVariant>& gradient_variants() {
  static const Variants kVariants = [] {
    Variants all;
    for (const auto& family :
         {element_variants, movement_variants, index_variants, reduction_variants, matrix_variants,
          convolution_variants, pool_variants, normalization_variants, loss_variants, region_variants,
          recurrent_variants, signal_variants, control_variants}) {
      const Variants more = family();
      all.insert(all.end(), more.begin(), more.end());
    }
    return all;
  }();
  return kVariants;
}

}  // namespace kodama::compiler::testing
