#include "compiler/graph/import.h"

#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>
#include <limits>

#include "compiler/graph/test_models.h"
#include "compiler/graph/walk.h"
#include "compiler/proto/tensor_proto.h"

namespace kodama::compiler {
namespace {

using testing::add_initializer;
using testing::add_ints;
using testing::add_random;
using ::testing::AllOf;
using testing::error_of;
using ::testing::HasSubstr;
using testing::parse_model;
using ::testing::StartsWith;

std::string import_error(const onnx::ModelProto& model, const ImportOptions& options = {}) {
  return error_of<isa::UserError>([&] { import_model(model, options, "m.onnx"); });
}

std::string import_unsupported(const onnx::ModelProto& model, const ImportOptions& options = {}) {
  return error_of<isa::UnsupportedError>([&] { import_model(model, options, "m.onnx"); });
}

onnx::ModelProto relu_model(const std::string& shape = "2,3") {
  return parse_model("g (float[" + shape + "] x) => (float[" + shape + "] y) { y = Relu(x) }");
}

class ImportFile : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto* info = ::testing::UnitTest::GetInstance()->current_test_info();
    directory_ = std::filesystem::temp_directory_path() / (std::string("kodama_import_") + info->name());
    std::filesystem::create_directories(directory_);
  }
  void TearDown() override { std::filesystem::remove_all(directory_); }

  std::string write(const std::string& bytes) {
    const auto path = directory_ / "m.onnx";
    std::ofstream(path, std::ios::binary) << bytes;
    return path;
  }
  std::string error_for(const std::string& path) {
    return error_of<isa::UserError>([&] { import_model(path); });
  }

  std::filesystem::path directory_;
};

TEST_F(ImportFile, ReadsAModel) {
  const onnx::ModelProto model = import_model(write(relu_model().SerializeAsString()));
  EXPECT_EQ(model.graph().node_size(), 1);
  EXPECT_EQ(opset_version(model), kOpsetVersion);
}

TEST_F(ImportFile, Missing) {
  EXPECT_THAT(error_for("/nowhere/m.onnx"), AllOf(StartsWith("/nowhere/m.onnx"), HasSubstr("no such file")));
}

TEST_F(ImportFile, Directory) {
  EXPECT_THAT(error_for(directory_), HasSubstr("is a directory"));
}

TEST_F(ImportFile, Empty) {
  EXPECT_THAT(error_for(write("")), HasSubstr("the file is empty"));
}

TEST_F(ImportFile, Garbage) {
  for (const std::string& bytes :
       {std::string(100, '\0'), std::string("hello world\n"), std::string("\x08\x03"),
        std::string("\x7f"
                    "ELF\x02\x01\x01"),
        std::string(4096, '\xff')}) {
    EXPECT_THAT(error_for(write(bytes)), HasSubstr("not an ONNX model"));
  }
}

TEST_F(ImportFile, EveryTruncationIsAUserError) {
  onnx::ModelProto model = parse_model("g (float[2,3] x) => (float[2,3] y) { y = Add(x, w) }");
  add_random(model, "w", {3});
  const std::string bytes = model.SerializeAsString();
  for (size_t length = 0; length < bytes.size(); ++length) {
    EXPECT_THAT(error_for(write(bytes.substr(0, length))), HasSubstr("m.onnx: ")) << length;
  }
}

TEST_F(ImportFile, TensorInsteadOfModel) {
  const Tensor tensor = testing::random_tensor(DataType::kFloat32, {3, 4}, 1);
  EXPECT_THAT(error_for(write(tensor_to_proto(tensor, "t").SerializeAsString())),
              HasSubstr("not an ONNX model"));
}

TEST(Import, VersionsAreLimited) {
  onnx::ModelProto model = relu_model();
  model.mutable_opset_import(0)->set_version(22);
  EXPECT_THAT(import_error(model), AllOf(HasSubstr("opset 22"), HasSubstr("1 to 21")));
  model = relu_model();
  model.set_ir_version(11);
  EXPECT_THAT(import_error(model), AllOf(HasSubstr("IR version 11"), HasSubstr("3 to 10")));
  model.set_ir_version(2);
  EXPECT_THAT(import_error(model), HasSubstr("IR version 2"));
  model = relu_model();
  model.clear_opset_import();
  EXPECT_THAT(import_error(model), HasSubstr("opset_import"));
  model = relu_model();
  *model.add_opset_import() = model.opset_import(0);
  EXPECT_THAT(import_error(model), HasSubstr("twice"));
}

TEST(Import, UnknownOperators) {
  onnx::ModelProto model = relu_model();
  model.mutable_graph()->mutable_node(0)->set_op_type("Frobnicate");
  model.mutable_graph()->mutable_node(0)->set_name("n7");
  EXPECT_THAT(import_error(model),
              AllOf(StartsWith("m.onnx: node 'n7' (Frobnicate)"), HasSubstr("unknown operator")));
  model.mutable_graph()->mutable_node(0)->clear_name();
  EXPECT_THAT(import_error(model), HasSubstr("makes 'y' (Frobnicate)"));
  model.mutable_graph()->mutable_node(0)->set_domain("com.example");
  EXPECT_THAT(import_error(model), HasSubstr("doesn't import the operator set 'com.example'"));
  auto& import = *model.add_opset_import();
  import.set_domain("com.example");
  import.set_version(1);
  EXPECT_THAT(import_unsupported(model), AllOf(HasSubstr("com.example.Frobnicate"),
                                               HasSubstr("of the domain 'com.example' isn't ONNX's"),
                                               HasSubstr("a function that defines it")));
  // An operator set that no node is of doesn't matter, whatever its version.
  onnx::ModelProto relu = relu_model();
  auto& unused = *relu.add_opset_import();
  unused.set_domain("ai.onnx.ml");
  unused.set_version(99);
  EXPECT_EQ(import_model(relu, {}, "m.onnx").opset_import_size(), 1);

  EXPECT_THAT(import_error(parse_model("g (float[2] x) => (float[2] y) { y = HardSwish(x) }", 13)),
              HasSubstr("exists since opset 14"));
  EXPECT_THAT(
      import_error(parse_model("g (float[2] x, float[1] s) => (float[2] y) { y = Upsample(x, s) }", 17)),
      HasSubstr("doesn't exist any more in opset 17"));
}

TEST(Import, ExplicitDefaultDomain) {
  onnx::ModelProto model = relu_model();
  model.mutable_opset_import(0)->set_domain("ai.onnx");
  model.mutable_graph()->mutable_node(0)->set_domain("ai.onnx");
  const auto imported = import_model(model, {}, "m.onnx");
  EXPECT_EQ(imported.graph().node(0).domain(), "");
}

TEST(Import, CheckerAndInferenceErrorsNameTheNode) {
  const auto named = [](const std::string& body, const std::string& out = "2,3") {
    onnx::ModelProto model = parse_model("g (float[2,3] x) => (float[" + out + "] y) {" + body + "}");
    for (auto& node : *model.mutable_graph()->mutable_node()) node.set_name("the_node");
    return model;
  };
  EXPECT_THAT(import_error(named("y = Relu(x, x)")), HasSubstr("the_node"));
  EXPECT_THAT(import_error(named("y = Relu<foo=1>(x)")), HasSubstr("foo"));
  EXPECT_THAT(import_error(named("y = Relu(z)")), HasSubstr("the_node"));
  EXPECT_THAT(import_error(named("y = Softmax<axis=5>(x)")), AllOf(HasSubstr("the_node"), HasSubstr("axis")));
  EXPECT_THAT(import_error(named("y = MatMul(x, x)", "2,2")),
              AllOf(HasSubstr("the_node"), HasSubstr("MatMul")));
  EXPECT_THAT(import_error(named("y = Relu(x)", "2,4")), HasSubstr("differ in dimension"));
  EXPECT_THAT(import_error(named("z = Relu(x)")), HasSubstr("graph output 'y' is made by no node"));
}

TEST(Import, BrokenTensors) {
  onnx::ModelProto model = parse_model("g (float[2,3] x) => (float[2,3] y) { y = Add(x, w) }");
  add_random(model, "w", {3});
  model.mutable_graph()->mutable_initializer(0)->set_dims(0, 4);
  EXPECT_THAT(import_error(model), HasSubstr("'w'"));

  auto& tensor = *model.mutable_graph()->mutable_initializer(0);
  tensor.set_dims(0, 3);
  tensor.clear_raw_data();
  tensor.clear_float_data();
  tensor.set_data_location(onnx::TensorProto_DataLocation_EXTERNAL);
  auto& entry = *tensor.add_external_data();
  entry.set_key("location");
  entry.set_value("weights.bin");
  EXPECT_THAT(import_error(model),
              AllOf(HasSubstr("'w'"), HasSubstr("weights.bin"), HasSubstr("external data")));
}

TEST(Import, NanAndInfinityAreAllowed) {
  onnx::ModelProto model = parse_model("g (float[2] x) => (float[2] y) { y = Add(x, w) }");
  add_initializer(model, "w",
                  Tensor::from_values<float>(
                      DataType::kFloat32, {2},
                      {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}));
  EXPECT_EQ(import_model(model, {}, "m.onnx").graph().node_size(), 1);
}

TEST(Import, SymbolicDimensions) {
  const auto model =
      parse_model("g (float[batch,3] x, float[batch,seq] z) => (float[batch,3] y) { y = Relu(x) }");
  EXPECT_THAT(import_error(model),
              AllOf(HasSubstr("--dim batch=4"), HasSubstr("--dim seq=4"), HasSubstr("float32 [batch, 3]")));
  EXPECT_THAT(import_error(model, {{{"batch", 5}}}),
              AllOf(HasSubstr("--dim seq=4"), Not(HasSubstr("--dim batch"))));
  EXPECT_THAT(import_error(model, {{{"batch", 5}, {"depth", 1}}}),
              AllOf(HasSubstr("--dim depth"), HasSubstr("batch, seq")));
  EXPECT_THAT(import_error(model, {{{"batch", 0}}}), HasSubstr("at least 1"));
  const auto imported = import_model(model, {{{"batch", 5}, {"seq", 7}}}, "m.onnx");
  EXPECT_EQ(static_shape(imported.graph().input(1).type()), (Shape{5, 7}));
  EXPECT_EQ(static_shape(imported.graph().output(0).type()), (Shape{5, 3}));
  EXPECT_THAT(import_error(relu_model(), {{{"batch", 5}}}),
              HasSubstr("all dimensions of its inputs are fixed"));
}

TEST(Import, UnnamedDimensionsAreSetByInputAndAxis) {
  onnx::ModelProto model = relu_model();
  for (auto* value : {model.mutable_graph()->mutable_input(0), model.mutable_graph()->mutable_output(0)}) {
    value->mutable_type()->mutable_tensor_type()->mutable_shape()->mutable_dim(0)->clear_dim_value();
  }
  EXPECT_THAT(import_error(model), AllOf(HasSubstr("--dim x:0=4"), HasSubstr("[?, 3]")));
  EXPECT_THAT(import_error(model, {{{"x:9", 1}}}), HasSubstr("an axis from 0 to 1"));
  // A fixed extent may be changed so, too.
  EXPECT_EQ(static_shape(import_model(model, {{{"x:0", 6}, {"x:1", 2}}}, "m").graph().output(0).type()),
            (Shape{6, 2}));
  EXPECT_EQ(static_shape(import_model(model, {{{"x:0", 6}}}, "m").graph().output(0).type()), (Shape{6, 3}));
  // A named dimension can be set so as well, and then is set wherever it occurs.
  const auto named = parse_model("g (float[n,3] x, float[n] z) => (float[n,3] y) { y = Relu(x) }");
  EXPECT_EQ(static_shape(import_model(named, {{{"z:0", 2}}}, "m").graph().output(0).type()), (Shape{2, 3}));
}

TEST(Import, BoundInputsAreConstants) {
  const auto model =
      parse_model("g (float[2,3] x, int64[2] shape) => (float[n,m] y) { y = Reshape(x, shape) }");
  const Tensor shape = Tensor::from_values<int64_t>(DataType::kInt64, {2}, {3, 2});
  ImportOptions options;
  options.bind = {{"shape", shape}};
  const auto imported = import_model(model, options, "m");
  EXPECT_EQ(imported.graph().input_size(), 1);
  EXPECT_EQ(static_shape(imported.graph().output(0).type()), (Shape{3, 2}));
  options.bind = {{"form", shape}};
  EXPECT_THAT(import_error(model, options), HasSubstr("no such input"));
  options.bind = {{"x", shape}};
  EXPECT_THAT(import_error(model, options), HasSubstr("float32 [2, 3]"));
}

TEST(Import, InitializersAreNotInputs) {
  onnx::ModelProto model =
      parse_model("g (float[2,3] x, float[3] w) => (float[2,3] y) { y = Add(x, w) }", 8, "", 3);
  add_random(model, "w", {3});
  const auto imported = import_model(model, {}, "m.onnx");
  ASSERT_EQ(imported.graph().input_size(), 1);
  EXPECT_EQ(imported.graph().input(0).name(), "x");
  EXPECT_EQ(imported.ir_version(), kIrVersion);
  testing::expect_same_results(model, imported, 0);
}

TEST(Import, ControlFlowAndNonTensorsAreUnsupported) {
  onnx::ModelProto model = parse_model("g (bool[1] c, float[2] x) => (float[2] y) { y = If(c) }");
  auto& node = *model.mutable_graph()->mutable_node(0);
  node.set_name("branch");
  for (const char* name : {"then_branch", "else_branch"}) {
    auto& graph = *set_attribute(node, name, onnx::AttributeProto_AttributeType_GRAPH).mutable_g();
    graph.set_name(name);
    auto& inner = *graph.add_node();
    inner.set_op_type("Relu");
    inner.add_input("x");
    inner.add_output("r");
    graph.add_output()->set_name("r");
  }
  EXPECT_THAT(import_unsupported(model), HasSubstr("node 'branch' (If)"));

  EXPECT_THAT(import_unsupported(parse_model("g (float[2] x) => (float[2] y) { s = SequenceConstruct(x, x) y "
                                             "= ConcatFromSequence<axis=0>(s) }")),
              AllOf(HasSubstr("SequenceConstruct"), HasSubstr("a sequence")));
}

TEST(Import, AnyModelSaysWhyItIsOpen) {
  const auto reason = [](const std::string& graph, const ImportOptions& options = {}) {
    return import_any_model(parse_model(graph), options, "m").open_reason;
  };
  const char* const symbolic = "g (float[n,2] x) => (float[n,2] y) { y = Relu(x) }";
  EXPECT_THAT(reason(symbolic), HasSubstr("input 'x' is float32 [n, 2]"));
  ImportOptions options;
  options.dims = {{"n", 3}};
  EXPECT_EQ(reason(symbolic, options), "");
  EXPECT_THAT(reason("g (float[2] x) => (int64[1,n] y) { y = NonZero(x) }"), HasSubstr("(NonZero)"));
  EXPECT_THAT(reason("g (float[2] x) => (float[4] y) { s = SequenceConstruct(x, x) y = "
                     "ConcatFromSequence<axis=0>(s) }"),
              HasSubstr("makes a sequence"));
  EXPECT_THAT(
      reason("g (bool c, float[2] x) => (float[2] y) { y = If<then_branch = t () => (float[2] a) { a = "
             "Relu(x) }, else_branch = e () => (float[2] b) { b = Neg(x) }>(c) }"),
      HasSubstr("(If) is control flow"));
}

TEST(Import, NodesInBranchesAreChecked) {
  const auto message = [](const std::string& inner) {
    const std::string graph = fmt::format(
        "g (bool c, float[2] x) => (float[2] y) {{ y = If<then_branch = t () => (float[2] a) {{ a = {} }}, "
        "else_branch = e () => (float[2] b) {{ b = Neg(x) }}>(c) }}",
        inner);
    return testing::error_of<isa::UserError>([&] { import_any_model(parse_model(graph), {}, "m"); });
  };
  EXPECT_THAT(message("Frobnicate(x)"), HasSubstr("unknown operator 'Frobnicate'"));
  EXPECT_THAT(message("Relu(nothing)"), HasSubstr("'nothing'"));
}

TEST(Import, DataDependentShapes) {
  EXPECT_THAT(import_unsupported(parse_model("g (float[2] x) => (int64[1,n] y) { y = NonZero(x) }")),
              AllOf(HasSubstr("(NonZero)"), HasSubstr("'y'")));
}

TEST(Import, ShapesThatNeedFolding) {
  // Inference alone doesn't see through NonZero and the arithmetic on it.
  onnx::ModelProto model = parse_model(
      "g (float[2,6] x) => (float[a,b] y) { n = NonZero(w) m = Mul(n, k) s = Squeeze(m, axis) z = Slice(s, "
      "from, to) "
      "y = Reshape(x, z) }");
  add_ints(model, "w", {0, 0, 1, 1, 1});
  add_ints(model, "k", {1});
  add_ints(model, "axis", {0});
  add_ints(model, "from", {1});
  add_ints(model, "to", {3});
  const auto imported = import_model(model, {}, "m.onnx");
  EXPECT_EQ(static_shape(imported.graph().output(0).type()), (Shape{3, 4}));
  testing::expect_same_results(model, imported, 0);
}

TEST(Import, OutputsWithoutShape) {
  onnx::ModelProto model = relu_model();
  model.mutable_graph()->mutable_output(0)->mutable_type()->mutable_tensor_type()->clear_shape();
  EXPECT_EQ(static_shape(import_model(model, {}, "m").graph().output(0).type()), (Shape{2, 3}));
  model.mutable_graph()->mutable_output(0)->clear_type();
  EXPECT_EQ(static_shape(import_model(model, {}, "m").graph().output(0).type()), (Shape{2, 3}));
  model.mutable_graph()->mutable_output(0)->set_name("x");  // no node makes it
  EXPECT_THAT(import_error(model), HasSubstr("type"));
}

TEST(Import, NodesGetUniqueNames) {
  onnx::ModelProto model =
      parse_model("g (float[2] x) => (float[2] y) { a = Relu(x) b = Abs(a) y = Neg(b) }");
  model.mutable_graph()->mutable_node(0)->set_name("n");
  model.mutable_graph()->mutable_node(1)->set_name("n");
  const auto imported = import_model(model, {}, "m.onnx");
  std::set<std::string> names;
  for (const auto& node : imported.graph().node()) names.insert(node.name());
  EXPECT_EQ(names, (std::set<std::string>{"n", "n_1", "y"}));
}

constexpr const char* kImportsLocal = ", \"local\" : 1";

TEST(Import, LocalFunctionsAreExpanded) {
  const auto model = parse_model(R"(
    g (float[2,3] x) => (float[2,3] y) { a = local.outer <slope = 0.5> (x) y = local.outer (a) }
    <opset_import: ["" : 17, "local" : 1], domain: "local">
    outer <slope> (p) => (q) { t = local.inner(p) u = LeakyRelu<alpha: float = @slope>(t) q = Add(u, p) }
    <opset_import: ["" : 17], domain: "local">
    inner (p) => (q) { t = Neg(p) q = Tanh(t) })",
                                 17, kImportsLocal);
  const auto imported = import_model(model, {}, "m.onnx");
  EXPECT_EQ(imported.functions_size(), 0);
  EXPECT_EQ(imported.graph().node_size(), 8);
  EXPECT_EQ(testing::count_nodes(imported, "Tanh"), 2);
  testing::expect_same_results(model, imported, 0);
}

TEST(Import, LocalFunctionOfAnOlderOpset) {
  // Softmax of opset 12 works on the tensor flattened at the axis; also ReduceSum's axes were an attribute.
  const auto model = parse_model(R"(
    g (float[2,3,4] x) => (float[2,3,4] y) { y = local.f(x) }
    <opset_import: ["" : 12], domain: "local">
    f (p) => (q) { q = Softmax<axis=1>(p) })",
                                 12, kImportsLocal);
  const auto imported = import_model(model, {}, "m.onnx");
  testing::expect_same_results(model, imported, 1e-6);
}

TEST(Import, RecursiveFunctions) {
  const auto model = parse_model(R"(
    g (float[2] x) => (float[2] y) { y = local.f(x) }
    <opset_import: ["" : 17, "local" : 1], domain: "local">
    f (p) => (q) { t = local.h(p) q = Neg(t) }
    <opset_import: ["" : 17, "local" : 1], domain: "local">
    h (p) => (q) { t = local.f(p) q = Neg(t) })",
                                 17, kImportsLocal);
  EXPECT_THAT(import_error(model), HasSubstr("calls itself"));
}

/// Functions that each call the next one twice.
onnx::ModelProto nested_functions(int count) {
  std::string text = "g (float[2] x) => (float[2] y) { y = local.f0(x) }";
  for (int k = 0; k < count; ++k) {
    const std::string inner = k + 1 < count ? fmt::format("local.f{}", k + 1) : "Neg";
    text += fmt::format(R"(
      <opset_import: ["" : 17, "local" : 1], domain: "local"> f{} (p) => (q) {{ t = {}(p) q = {}(t) }})",
                        k, inner, inner);
  }
  return parse_model(text, 17, kImportsLocal);
}

TEST(Import, FunctionsThatMultiply) {
  EXPECT_EQ(import_model(nested_functions(6), {}, "m.onnx").graph().node_size(), 64);
  EXPECT_THAT(import_unsupported(nested_functions(31)),
              AllOf(HasSubstr("more than 131072 nodes"), HasSubstr("split the model")));
}

/// Each function calls the next once; what is measured first must not matter.
TEST(Import, FunctionsThatAreNestedDeep) {
  for (const bool last_first : {false, true}) {
    onnx::ModelProto model = nested_functions(120);
    for (auto& function : *model.mutable_functions()) {
      function.mutable_node(1)->set_op_type("Neg");
      function.mutable_node(1)->set_domain("");
    }
    for (int k = 119; last_first && k > 0; --k) {
      auto& call = *model.mutable_graph()->add_node();
      call.set_op_type(fmt::format("f{}", k));
      call.set_domain("local");
      call.add_input("x");
      call.add_output(fmt::format("unused{}", k));
    }
    EXPECT_THAT(import_unsupported(model), HasSubstr("nested more than 100 deep"));
  }
}

TEST(Import, RankIsLimited) {
  const auto shape = [](int rank) {
    std::string text = "1";
    for (int k = 1; k < rank; ++k) text += ",1";
    return text;
  };
  EXPECT_EQ(import_model(relu_model(shape(64)), {}, "m.onnx").graph().node_size(), 1);
  EXPECT_THAT(import_unsupported(relu_model(shape(5000))),
              AllOf(HasSubstr("input 'x' has 5000 axes"), HasSubstr("at most 64")));
  onnx::ModelProto model = parse_model("g (float[2] x) => (float[2] y) { y = Add(x, w) }");
  auto& weights = *model.mutable_graph()->add_initializer();
  weights.set_name("w");
  weights.set_data_type(DataType::kFloat32);
  for (int k = 0; k < 5000; ++k) weights.add_dims(1);
  weights.add_float_data(1);
  EXPECT_THAT(import_unsupported(model), HasSubstr("initializer 'w' has 5000 axes"));
  // A value that only type inference knows.
  model = parse_model("g (float[2] x) => (float[2] y) { s = Reshape(x, w) y = Reshape(s, two) }");
  std::vector<int64_t> extents(65, 1);
  extents[0] = 2;
  add_ints(model, "w", extents);
  add_ints(model, "two", {2});
  EXPECT_THAT(import_unsupported(model), HasSubstr("value 's' has 65 axes"));
}

/// Names of a function's graphs are as much its own as those of its nodes.
TEST(Import, FunctionsMayHoldControlFlow) {
  for (const int opset : {17, 21}) {
    const auto model = parse_model(
        fmt::format(R"(g (bool c, float[n] x) => (float[n] y) {{ p = own.Choose(c, x) y = own.Choose(c, p) }}
      <domain: "own", opset_import: ["" : {}]> Choose (c, a) => (b) {{
        b = If<then_branch = yes () => (p) {{ p = Identity(a) }},
               else_branch = no () => (p) {{ p = Neg(a) }}>(c) }})",
                    opset),
        opset, ", \"own\" : 1");
    const ImportedModel imported = import_any_model(model, {}, "m.onnx");
    EXPECT_THAT(imported.open_reason, HasSubstr("(If) is control flow"));
    std::set<std::string> names;
    int64_t count = 0;
    for_each_node(imported.model, [&](const onnx::NodeProto& node) {
      for (const std::string& output : node.output()) names.insert(output), ++count;
    });
    EXPECT_EQ(count, 6);
    EXPECT_EQ(names.size(), 6U);
    EXPECT_THAT(error_of<isa::UnsupportedError>([&] {
                  import_model(model, {{{"n", 2}}, {}}, "m.onnx");
                }),
                HasSubstr("control flow (operators with graphs inside) can't be compiled ahead"));
  }
}

}  // namespace
}  // namespace kodama::compiler
