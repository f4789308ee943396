#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <kodama/kodama.h>

#include <cmath>
#include <filesystem>
#include <thread>

#include "compiler/graph/test_models.h"

namespace kodama {
namespace {

using compiler::testing::error_of;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string bytes_of(const std::string& graph) {
  return compiler::testing::parse_model(graph).SerializeAsString();
}
/// A Relu of a product.
std::string product() {
  return bytes_of(
      R"(product (float[4,8] x, float[8,8] w) => (float[4,8] y) { p = MatMul(x, w) y = Relu(p) })");
}
/// As many rows as the data say.
std::string open_rows() {
  return bytes_of(R"(rows (float[N,8] x) => (float[N,8] y) { y = Tanh(x) })");
}

/// The largest difference of one output.
double difference(const Tensors& a, const Tensors& b) {
  double largest = 0;
  const auto first = a.at("y").data<float>();
  const auto second = b.at("y").data<float>();
  EXPECT_EQ(first.size(), second.size());
  for (size_t i = 0; i < first.size(); ++i)
    largest = std::max(largest, static_cast<double>(std::abs(first[i] - second[i])));
  return largest;
}

TEST(Library, CompilesAndRuns) {
  const Model model = Model::from_bytes(product());
  ASSERT_EQ(model.inputs().size(), 2U);
  EXPECT_EQ(model.inputs()[0].name, "x");
  EXPECT_THAT(model.inputs()[0].shape, ElementsAre(4, 8));
  EXPECT_EQ(model.inputs()[0].type, ElementType::kFloat32);
  EXPECT_EQ(model.open_reason(), "");
  const Program program = Program::compile(
      model, {.chip = "tiny", .precision = "float", .options = {{"planner", "greedy"}, {"cache", ""}}});
  EXPECT_EQ(program.chip(), "tiny");
  EXPECT_THAT(program.outputs()[0].shape, ElementsAre(4, 8));
  Session session(program);
  const Tensors inputs = model.random_inputs(3);
  const Result result = session.run(inputs);
  EXPECT_LT(difference(result.outputs, model.reference(inputs)), 1e-5);
  EXPECT_GT(result.cycles, 0);
  EXPECT_GE(result.first_cycles, result.cycles);
  EXPECT_GT(result.seconds, 0);
  EXPECT_THAT(result.json, HasSubstr("\"stages\""));
  EXPECT_THAT(result.table, HasSubstr("MatMul"));
  const Result again = session.run(inputs);
  EXPECT_EQ(again.cycles, result.cycles);
  EXPECT_EQ(difference(again.outputs, result.outputs), 0);
}

TEST(Library, CompilesWhileItRunsWhatOnlyDataKnow) {
  const Model model = Model::from_bytes(open_rows());
  EXPECT_NE(model.open_reason(), "");
  EXPECT_THAT(model.inputs()[0].shape, ElementsAre(-1, 8));
  EXPECT_THAT(error_of<UserError>([&] { model.random_inputs(); }), HasSubstr("'x'"));
  const Program program = Program::compile(model, {.chip = "tiny", .options = {{"cache", ""}}});
  EXPECT_THAT(error_of<UnsupportedError>([&] { program.save("/nowhere"); }), HasSubstr("dims"));
  Session session(program);
  for (const int64_t rows : {3, 5}) {
    const std::vector<float> elements(static_cast<size_t>(rows) * 8, 0.5F);
    const Tensors inputs{{"x", Tensor::copy_of(ElementType::kFloat32, {rows, 8}, elements.data())}};
    const Result result = session.run(inputs);
    EXPECT_THAT(result.outputs.at("y").shape(), ElementsAre(rows, 8));
    EXPECT_LT(difference(result.outputs, model.reference(inputs)), 1e-5);
  }
  EXPECT_EQ(Model::from_bytes(open_rows(), {.dims = {{"N", 3}}}).open_reason(), "");
}

TEST(Library, KeepsPackages) {
  const Program program =
      Program::compile(Model::from_bytes(product()), {.chip = "tiny", .options = {{"cache", ""}}});
  const std::string directory = ::testing::TempDir() + "kodama_library_package";
  std::filesystem::remove_all(directory);
  program.save(directory);
  const Program loaded = Program::load(directory);
  std::filesystem::remove_all(directory);
  const Tensors inputs = Model::from_bytes(product()).random_inputs();
  Session before(program);
  Session behind(loaded, {.threads = 1});
  EXPECT_EQ(difference(before.run(inputs).outputs, behind.run(inputs).outputs), 0);
}

TEST(Library, WritesFilesAboutARun) {
  Session session(
      Program::compile(Model::from_bytes(product()), {.chip = "tiny", .options = {{"cache", ""}}}));
  const std::string folder = ::testing::TempDir();
  const RunFiles files{folder + "library.trace", folder + "library.vcd", folder + "library.json",
                       folder + "library.html"};
  session.run(Model::from_bytes(product()).random_inputs(), files);
  for (const std::string& file : {files.trace, files.vcd, files.statistics, files.report}) {
    EXPECT_GT(std::filesystem::file_size(file), 100U) << file;
    std::filesystem::remove(file);
  }
  Session untimed(
      Program::compile(Model::from_bytes(product()), {.chip = "tiny", .options = {{"cache", ""}}}),
      {.timing = false});
  EXPECT_THAT(error_of<UserError>([&] { untimed.run({}, files); }), HasSubstr("timing"));
}

TEST(Library, SeveralSessionsRunAtOnce) {
  const Program program =
      Program::compile(Model::from_bytes(product()), {.chip = "tiny", .options = {{"cache", ""}}});
  const Tensors inputs = Model::from_bytes(product()).random_inputs();
  std::vector<std::optional<Result>> results(4);
  std::vector<std::thread> threads;
  for (auto& result : results)
    threads.emplace_back([&] { result = Session(program, {.threads = 1}).run(inputs); });
  for (std::thread& thread : threads) thread.join();
  for (const auto& result : results) {
    EXPECT_EQ(result->cycles, results[0]->cycles);
    EXPECT_EQ(difference(result->outputs, results[0]->outputs), 0);
  }
}

TEST(Library, ACallbackEndsACompilation) {
  struct Enough {};
  const Model model = Model::from_bytes(product());
  int calls = 0;
  const CompileSettings settings{
      .chip = "tiny", .options = {{"cache", ""}}, .progress = [&](double share, const std::string&) {
        EXPECT_GE(share, 0);
        EXPECT_LE(share, 1);
        ++calls;
        throw Enough();
      }};
  EXPECT_THROW(Program::compile(model, settings), Enough);
  EXPECT_EQ(calls, 1);
}

TEST(Library, WrongUseIsNamed) {
  const Model model = Model::from_bytes(product());
  const auto compile = [&](const std::string& name, const std::string& value) {
    return [&, name, value] { Program::compile(model, {.chip = "tiny", .options = {{name, value}}}); };
  };
  EXPECT_THAT(error_of<UserError>(compile("precision", "quarter")), HasSubstr("quarter"));
  EXPECT_THAT(error_of<UserError>(compile("fuse", "perhaps")), HasSubstr("allowed: yes, no"));
  EXPECT_THAT(error_of<UserError>(compile("no-such-option", "1")), HasSubstr("no-such-option"));
  EXPECT_THAT(error_of<UserError>([&] { Program::compile(model, {.chip = "huge"}); }), HasSubstr("tiny"));
  EXPECT_THAT(error_of<UserError>([&] { Model::from_bytes("no model", {}, "mine"); }), HasSubstr("mine"));
  EXPECT_THAT(error_of<UserError>([&] { Model::from_bytes(""); }), HasSubstr("model"));
  EXPECT_THAT(error_of<UserError>([&] { Model::from_file("/no/such.onnx"); }), HasSubstr("/no/such.onnx"));
  EXPECT_THAT(error_of<UserError>([&] { Program::load("/no/such"); }), HasSubstr("/no/such"));
  const Program program = Program::compile(model, {.chip = "tiny", .options = {{"cache", ""}}});
  EXPECT_THAT(error_of<UserError>([&] { Session(program, {.hazards = "some"}); }), HasSubstr("stale"));
  Session session(program);
  EXPECT_THAT(error_of<UserError>([&] { session.run({}); }), HasSubstr("'x'"));
  Tensors wrong = model.random_inputs();
  wrong.at("x") = Tensor(ElementType::kFloat64, {4, 8});
  EXPECT_THAT(error_of<UserError>([&] { session.run(wrong); }), HasSubstr("float64"));
}

TEST(LibraryTensor, HasElementsAndFiles) {
  const int64_t elements[] = {1, 2, 3, 4, 5, 6};
  const Tensor tensor = Tensor::copy_of(ElementType::kInt64, {2, 3}, elements);
  EXPECT_THAT(tensor.data<int64_t>(), ElementsAre(1, 2, 3, 4, 5, 6));
  EXPECT_THAT(error_of<UserError>([&] { tensor.data<float>(); }), HasSubstr("int64"));
  Tensor shared = tensor;
  EXPECT_EQ(shared.bytes().data(), tensor.bytes().data());
  const std::string file = ::testing::TempDir() + "library_tensor.npy";
  tensor.write(file);
  EXPECT_THAT(Tensor::read(file).data<int64_t>(), ElementsAre(1, 2, 3, 4, 5, 6));
  std::filesystem::remove(file);
  EXPECT_EQ(Tensor(ElementType::kFloat32, {0, 3}).size(), 0);
  EXPECT_EQ(Tensor::copy_of(ElementType::kFloat32, {0}, nullptr).bytes().size(), 0U);
  EXPECT_THROW(Tensor(ElementType::kFloat32, {-1}), UserError);
  EXPECT_THROW(Tensor(ElementType::kFloat32, {int64_t{1} << 40, int64_t{1} << 40}), UserError);
  EXPECT_THAT(Tensor::of_strings({2}, {"a", "b"}).strings(), ElementsAre("a", "b"));
  EXPECT_THROW(Tensor::of_strings({3}, {"a", "b"}), UserError);
  EXPECT_EQ(parse_element_type("bfloat16"), ElementType::kBfloat16);
  EXPECT_THAT(error_of<UserError>([] { parse_element_type("float12"); }), HasSubstr("float32"));
}

}  // namespace
}  // namespace kodama
