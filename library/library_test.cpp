#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <kodama/c_runtime.h>
#include <kodama/kodama.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <thread>

#include "compiler/graph/test_models.h"

namespace kodama {
namespace {

using compiler::testing::error_of;
using ::testing::AllOf;
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

/// A product, and a choice of text that the host computes.
std::string with_text() {
  return bytes_of(R"(g (float[4,8] x, float[8,8] w, string[3] s) => (float[4,8] y, string[3] t)
                     { p = MatMul(x, w) y = Relu(p) t = StringNormalizer<case_change_action = "UPPER">(s) })");
}

TEST(Library, PackagesRunWithoutTheCompiler) {
  const std::string directory = ::testing::TempDir() + "kodama_runtime_package";
  std::filesystem::remove_all(directory);
  const Model model = Model::from_bytes(with_text());
  const Program program = Program::compile(model, {.chip = "tiny", .options = {{"cache", ""}}});
  program.save(directory);
  const Package package = Package::load(directory);
  EXPECT_EQ(package.chip(), "tiny");
  ASSERT_EQ(package.inputs().size(), 3U);
  EXPECT_EQ(package.inputs()[2].type, ElementType::kString);
  Tensors inputs = Model::from_bytes(product()).random_inputs();
  inputs.insert_or_assign("s", Tensor::of_strings({3}, {"a", "B", "\xc3\xa9"}));
  Session session(program);
  PackageSession runner(package, {.threads = 1});
  const Result expected = session.run(inputs);
  for (int run = 0; run < 2; ++run) {
    const Outcome found = runner.run(inputs);
    EXPECT_EQ(difference(found.outputs, expected.outputs), 0);
    EXPECT_THAT(found.outputs.at("t").strings(), ElementsAre("A", "B", "\xc3\x89"));
    EXPECT_EQ(found.cycles, expected.cycles);
    EXPECT_GE(found.first_cycles, found.cycles);
  }
  EXPECT_THAT(error_of<UserError>([&] { runner.run({}); }), HasSubstr("is not given"));
  EXPECT_THROW(PackageSession(package, {.hazards = "some"}), UserError);
  EXPECT_THROW(Package::load(directory + "/none"), UserError);

  // The same in C, which has no tensors of strings.
  kodama_package* c_package = nullptr;
  ASSERT_EQ(kodama_package_load(directory.c_str(), nullptr, &c_package), KODAMA_OK);
  kodama_session* c_session = nullptr;
  ASSERT_EQ(kodama_session_new(c_package, nullptr, &c_session), KODAMA_OK);
  EXPECT_EQ(kodama_session_set_input(c_session, "s", "", 0), KODAMA_UNSUPPORTED);
  EXPECT_THAT(kodama_last_error(), HasSubstr("strings"));
  kodama_package_free(c_package);
  kodama_session_free(c_session);
  std::filesystem::remove_all(directory);
}

TEST(Library, RunsPackagesForC) {
  const std::string directory = ::testing::TempDir() + "kodama_c_package";
  std::filesystem::remove_all(directory);
  const Model model = Model::from_bytes(product());
  const Program program = Program::compile(model, {.chip = "tiny", .options = {{"cache", ""}}});
  program.save(directory);
  const Tensors inputs = model.random_inputs();
  const Result expected = Session(program).run(inputs);

  kodama_package* package = nullptr;
  ASSERT_EQ(kodama_package_load(directory.c_str(), "tiny", &package), KODAMA_OK);
  EXPECT_STREQ(kodama_package_chip(package), "tiny");
  EXPECT_STREQ(kodama_package_name(package), "product");
  EXPECT_EQ(version(), kodama_version());
  ASSERT_EQ(kodama_package_input_count(package), 2U);
  ASSERT_EQ(kodama_package_output_count(package), 1U);
  kodama_value_info info = {};
  ASSERT_EQ(kodama_package_output(package, 0, &info), KODAMA_OK);
  EXPECT_STREQ(info.name, "y");
  EXPECT_EQ(info.type, KODAMA_FLOAT32);
  ASSERT_EQ(info.rank, 2U);
  EXPECT_EQ(info.shape[1], 8);
  EXPECT_EQ(info.bytes, 4U * 8 * sizeof(float));
  EXPECT_EQ(kodama_package_input(package, 2, &info), KODAMA_USER_ERROR);
  EXPECT_EQ(kodama_package_input(package, 0, nullptr), KODAMA_USER_ERROR);

  kodama_session_settings settings = kodama_default_settings();
  kodama_session* session = nullptr;
  settings.hazards = "some";
  EXPECT_EQ(kodama_session_new(package, &settings, &session), KODAMA_USER_ERROR);
  EXPECT_EQ(session, nullptr);
  settings = kodama_default_settings();
  settings.threads = -1;
  EXPECT_EQ(kodama_session_new(package, &settings, &session), KODAMA_USER_ERROR);
  ASSERT_EQ(kodama_session_new(package, nullptr, &session), KODAMA_OK);
  const void* elements = nullptr;
  size_t bytes = 0;
  EXPECT_EQ(kodama_session_output(session, "y", &elements, &bytes), KODAMA_USER_ERROR);
  EXPECT_THAT(kodama_last_error(), HasSubstr("no run"));
  EXPECT_EQ(kodama_session_run(session), KODAMA_USER_ERROR);
  for (const auto& [name, tensor] : inputs) {
    EXPECT_EQ(kodama_session_set_input(session, name.c_str(), tensor.bytes().data(), 3), KODAMA_USER_ERROR);
    EXPECT_EQ(kodama_session_set_input(session, name.c_str(), nullptr, tensor.bytes().size()),
              KODAMA_USER_ERROR);
    ASSERT_EQ(kodama_session_set_input(session, name.c_str(), tensor.bytes().data(), tensor.bytes().size()),
              KODAMA_OK);
  }
  EXPECT_EQ(kodama_session_set_input(session, "z", "", 0), KODAMA_USER_ERROR);
  EXPECT_THAT(kodama_last_error(), AllOf(HasSubstr("'w'"), HasSubstr("'x'")));
  for (int run = 0; run < 2; ++run) {
    ASSERT_EQ(kodama_session_run(session), KODAMA_OK) << kodama_last_error();
    ASSERT_EQ(kodama_session_output(session, "y", &elements, &bytes), KODAMA_OK);
    const auto y = expected.outputs.at("y").bytes();
    ASSERT_EQ(bytes, y.size());
    EXPECT_EQ(std::memcmp(elements, y.data(), bytes), 0);
    EXPECT_EQ(kodama_session_cycles(session), expected.cycles);
    EXPECT_GE(kodama_session_first_cycles(session), expected.cycles);
    EXPECT_GT(kodama_session_seconds(session), 0);
  }
  EXPECT_EQ(kodama_session_output(session, "q", &elements, &bytes), KODAMA_USER_ERROR);
  kodama_session_free(session);
  kodama_package_free(package);

  // Nothing of it crashes on nothing.
  kodama_session_free(nullptr);
  kodama_package_free(nullptr);
  EXPECT_EQ(kodama_package_load(nullptr, nullptr, &package), KODAMA_USER_ERROR);
  EXPECT_EQ(kodama_package_load(directory.c_str(), nullptr, nullptr), KODAMA_USER_ERROR);
  EXPECT_EQ(kodama_package_load("/nowhere", nullptr, &package), KODAMA_USER_ERROR);
  EXPECT_EQ(kodama_package_load(directory.c_str(), "no chip", &package), KODAMA_USER_ERROR);
  EXPECT_EQ(package, nullptr);
  EXPECT_EQ(kodama_session_run(nullptr), KODAMA_USER_ERROR);
  EXPECT_EQ(kodama_session_cycles(nullptr), 0);
  EXPECT_STREQ(kodama_package_name(nullptr), "");
  std::filesystem::remove_all(directory);
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
  const std::string proto = ::testing::TempDir() + "library_tensor.pb";
  write_tensor(proto, tensor, "t");
  EXPECT_THAT(read_tensor(proto).data<int64_t>(), ElementsAre(1, 2, 3, 4, 5, 6));
  std::filesystem::remove(proto);
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
