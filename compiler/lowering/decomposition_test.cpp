#include <fmt/format.h>
#include <gtest/gtest.h>

#include "compiler/lowering/lowering.h"
#include "compiler/lowering/lowering_test_util.h"

/// Families of few operators: convolutions' transposes, Einsum, running sums, triangles, transforms.
namespace kodama::compiler {
namespace {

using namespace testing;  // NOLINT

TEST(LowerConvTranspose, EveryAttribute) {
  struct Case {
    const char* attributes;
    Shape x, w;
    const char* kinds;
  };
  const Case cases[] = {
      {"", {2, 3, 9}, {3, 4, 3}, "Contract"},
      {"<strides = [2, 2]>", {1, 4, 5, 6}, {4, 3, 2, 2}, "Contract Rearrange"},
      {"<strides = [2, 2], pads = [1, 1, 1, 1]>", {1, 4, 5, 6}, {4, 3, 4, 4}, "Contract Rearrange"},
      {"<strides = [3, 2], pads = [1, 0, 2, 1], output_padding = [1, 1]>", {1, 2, 4, 3}, {2, 3, 3, 3}, ""},
      {"<strides = [2], dilations = [3], pads = [2, 1]>", {1, 2, 7}, {2, 3, 3}, ""},
      {"<dilations = [2, 1], pads = [1, 1, 1, 1]>", {1, 2, 5, 6}, {2, 3, 3, 2}, "Contract"},
      {"<strides = [2, 2], group = 2>", {1, 4, 3, 4}, {4, 3, 3, 3}, ""},
      {"<strides = [2, 2], auto_pad = \"SAME_UPPER\">", {1, 2, 3, 4}, {2, 3, 3, 3}, ""},
      {"<strides = [2, 2], auto_pad = \"SAME_LOWER\">", {1, 2, 3, 4}, {2, 3, 3, 3}, ""},
      {"<strides = [3, 2], output_shape = [10, 8]>", {1, 1, 3, 3}, {1, 2, 3, 3}, ""},
      {"<strides = [2, 1, 2], pads = [1, 0, 0, 0, 1, 1]>", {1, 2, 3, 4, 3}, {2, 2, 3, 2, 2}, ""},
  };
  for (const Case& c : cases) {
    for (bool with_bias : {false, true}) {
      for (bool constant : {false, true}) {
        SCOPED_TRACE(fmt::format("{} X {} W {}", c.attributes, shape_to_string(c.x), shape_to_string(c.w)));
        auto model = parse_model(fmt::format(
            "g (float{} x{}) => (float[] y) {{ y = ConvTranspose {} (x, w{}) }}", shape_to_string(c.x),
            constant ? "" : fmt::format(", float{} w", shape_to_string(c.w)), c.attributes,
            with_bias ? ", b" : ""));
        if (constant) add_random(model, "w", c.w);
        const int64_t groups = std::string(c.attributes).find("group") == std::string::npos ? 1 : 2;
        if (with_bias) add_random(model, "b", {c.w[1] * groups});
        const std::string found = check_model(model);
        EXPECT_EQ(found.find("Host"), std::string::npos);
        if (constant && *c.kinds != 0) {
          EXPECT_EQ(found, c.kinds);
        }
      }
    }
  }
}

TEST(LowerConvolution, PositionsThatReadPaddingAloneAreLeftOut) {
  auto model = parse_model(
      "g (float[1,2,5,5] x) => (float[] y) { y = Conv <dilations = [6, 2], pads = [6, 2, 6, 2]> (x, w) }");
  add_random(model, "w", {3, 2, 3, 3});
  EXPECT_EQ(check_model(model), "Contract");
  const LayerGraph graph = lower(model);
  const auto& dims = std::get<ContractLayer>(graph.layers[0].body).dims;
  ASSERT_EQ(dims.size(), 7U);
  EXPECT_EQ(dims[5].extent, 1);
  EXPECT_EQ(dims[6].extent, 3);
}

TEST(LowerConvolution, KernelsThatReadLittleButPaddingAreAddedUpByPosition) {
  auto model = parse_model(
      "g (float[2,2,5,6] x) => (float[] y) { y = Conv <dilations = [4, 5], pads = [4, 5, 4, 5]> (x, w, b) }");
  add_random(model, "w", {3, 2, 3, 3});
  add_random(model, "b", {3});
  const std::string found = check_model(model);
  EXPECT_EQ(found, "Contract Contract Contract Contract Contract Contract Contract Contract Contract Map");
  auto grouped = parse_model(
      "g (float[1,4,9] x) => (float[] y) { y = Conv <dilations = [7], pads = [14, 12], strides = [2], group "
      "= 2> (x, "
      "w) }");
  add_random(grouped, "w", {6, 2, 5});
  EXPECT_EQ(check_model(grouped).find("Host"), std::string::npos);
}

TEST(LowerDecompositions, OfShortFloats) {
  auto recurrent = parse_model(
      "g (float16[3,2,4] x, float16[1,12,4] w, float16[1,12,3] r, float16[1,2,3] h, float16[1,2,3] c) => "
      "(float16[3,1,2,3] y, float16[1,2,3] y_h, float16[1,2,3] y_c) "
      "{ y, y_h, y_c = LSTM <hidden_size = 3> (x, w, r, , , h, c) }");
  EXPECT_EQ(check_model(recurrent, 4e-3).find("Host"), std::string::npos);
  for (const char* coordinates : {"half_pixel", "align_corners"}) {
    auto resize = parse_model(
        fmt::format("g (float16[1,2,4,4] x) => (float16[1,2,8,8] y) {{ y = Resize <mode = \"linear\", "
                    "coordinate_transformation_mode = \"{}\"> (x, , , s) }}",
                    coordinates));
    add_ints(resize, "s", {1, 2, 8, 8});
    EXPECT_EQ(check_model(resize, 4e-3).find("Host"), std::string::npos);
  }
  EXPECT_EQ(check_text("g (float16[1,2,5,5] x, float16[3,2,3,3] w) => (float16[1,3,5,5] y) "
                       "{ y = Conv <dilations = [4, 4], pads = [4, 4, 4, 4]> (x, w) }",
                       4e-3)
                .find("Host"),
            std::string::npos);
  EXPECT_EQ(check_text("g (float16[1,2,5,5] x, float16[2,3,3,3] w) => (float16[] y) "
                       "{ y = ConvTranspose <strides = [2, 2]> (x, w) }",
                       4e-3)
                .find("Host"),
            std::string::npos);
  EXPECT_EQ(check_text("g (float16[40] x) => (float16[40] y) <int64 a = {0}> { y = CumSum (x, a) }", 8e-3)
                .find("Host"),
            std::string::npos);
}

/// What would take more memory than there is stays on the host, which says why.
TEST(LowerDecompositions, RefuseWhatIsTooLarge) {
  EXPECT_EQ(kinds(lower(parse_model(
                "g (float[1,1,2] x, float[1,1,2] w) => (float[] y) { y = ConvTranspose <strides = "
                "[2], dilations = [1000000000], pads = [500000000, 500000000]> (x, w) }"))),
            "Host");
  auto model =
      parse_model("g (float[1,1,30000] x) => (float[] y) { y = Resize <mode = \"cubic\"> (x, , , s) }");
  add_ints(model, "s", {1, 1, 50000});
  EXPECT_EQ(kinds(lower(model)), "Host");
}

TEST(LowerEinsum, Equations) {
  const std::tuple<const char*, const char*, const char*> cases[] = {
      {"ij,jk->ik", "float[3,4] a, float[4,5] b", "Contract"},
      {"bij,bjk", "float[2,3,4] a, float[2,4,5] b", "Contract"},
      {"...ij,...jk->...ik", "float[2,1,3,4] a, float[1,6,4,5] b", "Contract"},
      {"bhqd,bhkd->bhqk", "float[2,3,4,5] a, float[2,3,6,5] b", "Contract"},
      {"i,j->ij", "float[3] a, float[4] b", "Map"},
      {"ij,ij->ij", "float[3,4] a, float[3,4] b", "Map"},
      {"ij->ji", "float[3,4] a", "Rearrange"},
      {"ij->i", "float[3,4] a", "Reduce"},
      {"ij", "float[3,4] a", ""},
      {"ii->i", "float[3,3] a", "Rearrange"},
      {"iji->j", "float[3,4,3] a", ""},
      {"ij,jk,kl->il", "float[3,4] a, float[4,5] b, float[5,2] c", "Contract Contract"},
      {"ij,k->i", "float[3,4] a, float[5] b", ""},
      {"i,i->", "float[7] a, float[7] b", "Contract"},
      {"...ii->...i", "float[2,3,3] a", ""},
  };
  for (const auto& [equation, operands, expected] : cases) {
    SCOPED_TRACE(equation);
    std::string names;
    for (const char* name : {"a", "b", "c"}) {
      if (std::string(operands).find(std::string("] ") + name) != std::string::npos)
        names += (names.empty() ? "" : ", ") + std::string(name);
    }
    const std::string found = check_text(fmt::format(
        "g ({}) => (float[] y) {{ y = Einsum <equation = \"{}\"> ({}) }}", operands, equation, names));
    EXPECT_EQ(found.find("Host"), std::string::npos);
    if (*expected != 0) {
      EXPECT_EQ(found, expected);
    }
  }
}

TEST(LowerScan, RunningSums) {
  for (const int64_t extent : {1, 7, 24, 25, 64, 700}) {
    for (const char* attributes : {"", "<exclusive = 1>", "<reverse = 1>", "<exclusive = 1, reverse = 1>"}) {
      SCOPED_TRACE(fmt::format("{} {}", extent, attributes));
      auto model = parse_model(fmt::format(
          "g (float[2,{0},3] x) => (float[2,{0},3] y) {{ y = CumSum {1} (x, axis) }}", extent, attributes));
      add_initializer(model, "axis", Tensor::from_values<int64_t>(DataType::kInt64, {}, {-2}));
      EXPECT_EQ(check_model(model, 1e-5).find("Host"), std::string::npos);
    }
  }
}

TEST(LowerScan, HardmaxIsTheFirstMaximum) {
  for (const int axis : {0, 1, 2}) {
    const std::string text = fmt::format(
        "g (float[3,4,5] x) => (float[3,4,5] y) {{ r = Floor(x) y = Hardmax <axis = {}> (r) }}", axis);
    EXPECT_EQ(check_text(text).find("Host"), std::string::npos);
  }
}

TEST(LowerNormalization, LocalResponse) {
  for (const char* attributes : {"size = 3", "size = 4, alpha = 0.5, beta = 0.6, bias = 2.0", "size = 20"}) {
    EXPECT_EQ(check_text(fmt::format("g (float[2,7,3,4] x) => (float[2,7,3,4] y) {{ y = LRN <{}> (x) }}",
                                     attributes)),
              "Reduce");
  }
}

TEST(LowerPool, Norms) {
  for (const char* p : {"p = 1", "p = 2", "p = 3"}) {
    EXPECT_EQ(check_text(fmt::format(
                  "g (float[2,3,4,5] x) => (float[2,3,1,1] y) {{ y = GlobalLpPool <{}> (x) }}", p)),
              "Reduce");
    EXPECT_EQ(
        check_text(fmt::format(
            "g (float[2,3,6,5] x) => (float[] y) {{ y = LpPool <kernel_shape = [3, 2], strides = [2, 1], {}> "
            "(x) }}",
            p)),
        "Reduce");
  }
}

TEST(LowerMatrices, Triangles) {
  for (const int64_t k : {-100, -2, 0, 1, 100}) {
    for (const int upper : {0, 1}) {
      for (const char* type : {"float", "int64", "bool", "double"}) {
        SCOPED_TRACE(fmt::format("{} {} {}", k, upper, type));
        auto model = parse_model(fmt::format(
            "g ({0}[2,4,5] x) => ({0}[2,4,5] y) {{ y = Trilu <upper = {1}> (x, k) }}", type, upper));
        add_initializer(model, "k", Tensor::from_values<int64_t>(DataType::kInt64, {}, {k}));
        EXPECT_EQ(check_model(model), "Map");
      }
    }
  }
}

TEST(LowerMovement, ReversedSequences) {
  auto model = parse_model(
      "g (float[4,3,2] x) => (float[4,3,2] y) { y = ReverseSequence <batch_axis = 1, time_axis = 0> (x, n) "
      "}");
  add_ints(model, "n", {4, 1, 2});
  EXPECT_EQ(check_model(model), "Rearrange");
}

TEST(LowerElementwise, DivisionsByZeroAreZero) {
  for (const char* type : {"int32", "int64", "uint8", "uint64"}) {
    for (const char* op : {"Div", "Mod", "Mod <fmod = 1>"}) {
      const std::string number = std::to_string(std::string(type) == "int32"   ? DataType::kInt32
                                                : std::string(type) == "int64" ? DataType::kInt64
                                                : std::string(type) == "uint8" ? DataType::kUint8
                                                                               : DataType::kUint64);
      const auto model = import_model(
          parse_model(fmt::format("g (int64[5] a, int64[5] b) => (int64[5] y) {{ x = Cast <to = {0}> (a) "
                                  "z = Cast <to = {0}> (b) d = {1} (x, z) y = Cast <to = 7> (d) }}",
                                  number, op)),
          {}, "t");
      const auto longs = [](const std::vector<int64_t>& values) {
        return Tensor::from_values(DataType::kInt64, {5}, values);
      };
      const TensorMap inputs = {{"a", longs({7, 0, -9, 255, 1})}, {"b", longs({0, 0, 0, 3, 2})}};
      EXPECT_EQ(interpret_layer_graph(lower_to_layers(model), inputs), run_graph(model, inputs))
          << type << op;
    }
  }
}

TEST(LowerElementwise, SmallResultsKeepTheirDigits) {
  for (const char* op : {"Elu", "Celu", "Selu", "Elu <alpha = 0.25>", "Softplus"}) {
    const auto model = import_model(
        parse_model(fmt::format("g (float[9] x) => (float[9] y) {{ y = {} (x) }}", op)), {}, "t");
    const TensorMap inputs = {
        {"x", Tensor::from_values<float>(DataType::kFloat32, {9},
                                         {-1e-6F, -3e-4F, -0.01F, -0.124F, -0.126F, -2, 0.5F, -11, -30})}};
    const Tensor found = interpret_layer_graph(lower_to_layers(model), inputs).at("y");
    const Tensor expected = run_graph(model, inputs).at("y");
    for (int64_t i = 0; i < 9; ++i) {
      const double value = element_as_double(expected, i);
      EXPECT_NEAR(element_as_double(found, i), value, 1e-6 * std::abs(value)) << op << " " << i;
    }
  }
}

/// Odd bases have powers beyond any exponent, which wrap.
TEST(LowerElementwise, IntegerPowersWrap) {
  for (const int type : {DataType::kInt32, DataType::kInt64, DataType::kUint32, DataType::kUint64}) {
    const auto model = import_model(
        parse_model(fmt::format("g (int32[7] x, int64[7] e) => (int32[7] y) {{ p = Cast <to = {}> (e) "
                                "y = Pow (x, p) }}",
                                type)),
        {}, "t");
    const TensorMap inputs = {
        {"x", Tensor::from_values<int32_t>(DataType::kInt32, {7}, {3, 3, -3, 2, 2, -1, 5})},
        {"e",
         Tensor::from_values<int64_t>(DataType::kInt64, {7}, {100, 1000000001, 77, 40, 31, 63, 2147483647})}};
    EXPECT_EQ(interpret_layer_graph(lower_to_layers(model), inputs), run_graph(model, inputs)) << type;
  }
}

TEST(LowerElementwise, Powers) {
  EXPECT_EQ(check_text("g (float[9] x, float[9] e) => (float[9] y) { a = Abs(x) y = Pow(a, e) }", 1e-5),
            "Map");
  auto model = parse_model("g (float[1] x) => (float[4] y) { a = Exp(x) y = Pow(a, e) }");
  add_initializer(model, "e", Tensor::from_values<float>(DataType::kFloat32, {4}, {0.3F, -2.7F, 0.0F, 5.0F}));
  EXPECT_EQ(check_model(model, 1e-5), "Map Map");
  auto whole = parse_model("g (float[3] x) => (float[3] y) { y = Pow(x, e) }");
  add_ints(whole, "e", {3, -2, 20});
  EXPECT_EQ(check_model(whole, 1e-5), "Map");
  auto alike = parse_model("g (float[3] x) => (float[3] y) { y = Pow(x, e) }");
  add_ints(alike, "e", {20, 20, 20});
  EXPECT_EQ(check_model(alike, 1e-5), "Map");
}

}  // namespace
}  // namespace kodama::compiler
