#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <kodama/c_runtime.h>
#include <kodama/kodama.h>
#include <kodama/pipeline.h>
#include <kodama/simulate.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <thread>

#include "compiler/graph/test_models.h"
#include "isa/file.h"

namespace kodama {
namespace {

using compiler::testing::error_of;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;
using ::testing::StartsWith;

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
  EXPECT_THAT(result.json(), HasSubstr("\"stages\""));
  EXPECT_THAT(result.table(), HasSubstr("MatMul"));
  EXPECT_TRUE(result.ok);
  EXPECT_THAT(result.comparisons, IsEmpty());
  EXPECT_EQ(program.precision(), "float");
  EXPECT_EQ(program.default_tolerance(), 1e-5);
  EXPECT_THAT(program.summary(), AllOf(HasSubstr("1 stages"), HasSubstr("chip tiny at float precision")));
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

/// For the small chip, without a cache.
Program compiled(const std::string& bytes, bool keeps_reference = false) {
  return Program::compile(Model::from_bytes(bytes),
                          {.chip = "tiny", .options = {{"cache", ""}}, .keeps_reference = keeps_reference});
}
/// A folder of its own, empty, and gone with this.
class Folder {
 public:
  explicit Folder(const std::string& name) : path_(::testing::TempDir() + name) {
    std::filesystem::remove_all(path_);
    std::filesystem::create_directories(path_);
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};
std::string text_of(const std::string& file) {
  std::ostringstream text;
  text << std::ifstream(file).rdbuf();
  return text.str();
}

TEST(Library, WritesFilesAboutARun) {
  Session session(compiled(product()));
  const Folder folder("library_files");
  const RunFiles files{.trace = folder / "trace",
                       .vcd = folder / "vcd",
                       .statistics = folder / "statistics",
                       .report = folder / "html",
                       .json = folder / "json",
                       .outputs = folder / "outputs"};
  const Tensors inputs = Model::from_bytes(product()).random_inputs();
  WallTimes times;
  const Result result = session.run(inputs, {.files = files, .times = &times});
  for (const std::string& file : {files.trace, files.vcd, files.statistics, files.report, files.json})
    EXPECT_GT(std::filesystem::file_size(file), 100U) << file;
  EXPECT_THAT(text_of(files.json), AllOf(HasSubstr("\"wall_seconds\""), HasSubstr("\"timeline\"")));
  EXPECT_THAT(text_of(files.statistics), StartsWith("{"));
  EXPECT_EQ(difference({{"y", Tensor::read(files.outputs + "/y.npy")}}, result.outputs), 0);
  EXPECT_EQ(difference({{"y", read_tensor(files.outputs + "/y.pb")}}, result.outputs), 0);
  EXPECT_THAT(times.text(), AllOf(HasSubstr("run "), HasSubstr("in all ")));
  EXPECT_EQ(times.parts().front().first, "run");

  const Result told = session.run(inputs, {.statistics = true});
  EXPECT_THAT(told.statistics, HasSubstr("roofline"));
  EXPECT_THAT(error_of<UserError>([&] { session.run(inputs, {.files = files, .statistics = true}); }),
              HasSubstr("not both"));
  EXPECT_THAT(error_of<UserError>([&] { session.run(inputs, {.files = {.statistics_form = "pdf"}}); }),
              HasSubstr("csv"));
  EXPECT_THAT(error_of<UserError>([&] { session.run(inputs, {.files = {.trace_from = 5, .trace_to = 5}}); }),
              HasSubstr("trace_from 5"));
  Session untimed(compiled(product()), {.timing = false});
  EXPECT_THAT(error_of<UserError>([&] { untimed.run({}, {.files = files}); }), HasSubstr("timing"));
}

TEST(Library, ComparesOutputsAndLayersWithTheReference) {
  const Program program = compiled(product(), true);
  Session session(program);
  const Tensors inputs = Model::from_bytes(product()).random_inputs();
  const Result right = session.run(inputs, {.repeat = 2, .compare = true});
  EXPECT_TRUE(right.ok);
  ASSERT_THAT(right.comparisons, SizeIs(1));
  const Comparison& found = right.comparisons[0];
  EXPECT_EQ(found.name, "y");
  EXPECT_TRUE(found.ok);
  EXPECT_EQ(found.tolerance, program.default_tolerance());
  EXPECT_GT(found.max_absolute, 0);
  EXPECT_EQ(found.max_absolute, difference(right.outputs, Model::from_bytes(product()).reference(inputs)));
  EXPECT_THAT(found.text(), AllOf(StartsWith("max abs "), HasSubstr(": ok")));
  ASSERT_THAT(right.layers, SizeIs(1));
  EXPECT_THAT(right.layers[0].operators, ElementsAre("MatMul", "Relu"));
  EXPECT_EQ(right.layers[0].name, "y");
  EXPECT_EQ(right.layers[0].plugin, "");
  EXPECT_NE(right.layers[0].kernel, "");
  EXPECT_THAT(right.differences, IsEmpty());

  const Result wrong = session.run(inputs, {.compare = true, .tolerance = 1e-12});
  EXPECT_FALSE(wrong.ok);
  EXPECT_FALSE(wrong.comparisons[0].ok);
  EXPECT_FALSE(wrong.layers[0].ok);
  ASSERT_TRUE(wrong.comparisons[0].place);
  EXPECT_THAT(*wrong.comparisons[0].place, SizeIs(2));
  EXPECT_THAT(wrong.comparisons[0].text(), AllOf(HasSubstr("FAILED; at ["), HasSubstr("expected ")));
  EXPECT_FALSE(wrong.on_operands);  // nothing is chosen by what was computed

  Session without(compiled(product()));
  EXPECT_THAT(error_of<UserError>([&] { without.run(inputs, {.compare = true}); }),
              HasSubstr("keeps_reference"));
  EXPECT_THAT(error_of<UserError>([&] { session.run(inputs, {.repeat = 0}); }), HasSubstr("repeat 0"));
}

TEST(Library, ARunThatDecidesByItsNumbersIsComparedOnThem) {
  const std::string bytes = bytes_of(
      R"(g (float[4,8] x, float[8,8] w) => (int64[4] y) { p = MatMul(x, w) y = ArgMax<axis = 1, keepdims = 0>(p) })");
  Session session(compiled(bytes, true));
  // Columns whose sums differ by less than rounding does.
  Tensors inputs = Model::from_bytes(bytes).random_inputs();
  const std::span<float> w = inputs.at("w").data<float>();
  for (size_t k = 0; k < w.size(); ++k) w[k] = w[k / 8 * 8] + 1e-6F * static_cast<float>(k % 8);
  const Result result = session.run(inputs, {.compare = true});
  EXPECT_TRUE(result.ok);
  if (result.comparisons[0].ok) GTEST_SKIP() << "rounding decided as the reference did";
  ASSERT_TRUE(result.on_operands);
  EXPECT_TRUE(result.on_operands->ok);
  EXPECT_THAT(result.on_operands->operands, SizeIs(1));
  EXPECT_TRUE(result.on_operands->worst.ok);
  EXPECT_THAT(result.on_operands->changed, IsEmpty());
  EXPECT_THAT(result.json(), HasSubstr("on_the_chips_operands"));
}

TEST(Library, RunsDataSetsAndTellsWhatIsRecorded) {
  const Program program = compiled(product());
  const Model model = Model::from_bytes(product());
  const Folder folder("library_sets");
  std::vector<DataSet> sets;
  for (const uint64_t seed : {1, 2}) {
    const Tensors inputs = model.random_inputs(seed);
    const Tensors outputs = model.reference(inputs);
    sets.push_back(
        {"set_" + std::to_string(seed), {inputs.begin(), inputs.end()}, {outputs.begin(), outputs.end()}});
  }
  const Tensor zeros(ElementType::kFloat32, {4, 8});
  sets[1].outputs.at("y") = zeros;
  Session session(program);
  std::vector<std::string> names;
  const std::vector<Result> results = session.run_all(
      sets, {.files = {.json = folder / "json", .outputs = folder / "out"}, .statistics = true},
      [&](const Result& result) { names.push_back(result.data_set); });
  EXPECT_THAT(names, ElementsAre("set_1", "set_2"));
  ASSERT_THAT(results, SizeIs(2));
  EXPECT_TRUE(results[0].ok);
  EXPECT_TRUE(results[0].recorded.at(0).ok);
  EXPECT_FALSE(results[1].ok);
  EXPECT_EQ(results[0].statistics, "");
  EXPECT_THAT(results[1].statistics, HasSubstr("roofline"));
  EXPECT_THAT(text_of(folder / "json"), StartsWith("[\n"));
  EXPECT_EQ(difference({{"y", Tensor::read(folder / "out/set_2/y.npy")}}, results[1].outputs), 0);
  sets[1].outputs = {{"q", zeros}};
  EXPECT_THAT(error_of<UserError>([&] { session.run_all(sets); }),
              AllOf(HasSubstr("set_2"), HasSubstr("'q'")));
  // Before the first of them runs:
  sets[1].inputs.at("x") = Tensor(ElementType::kFloat32, {4, 9});
  names.clear();
  const auto run = [&] { session.run_all(sets, {}, [&](const Result& r) { names.push_back(r.data_set); }); };
  EXPECT_THAT(error_of<UserError>(run), HasSubstr("'x'"));
  EXPECT_THAT(names, IsEmpty());
  EXPECT_THAT(error_of<UserError>([&] { read_data_sets(folder / "none"); }), HasSubstr("none"));
  EXPECT_THAT(session.run_all({}), IsEmpty());
}

TEST(Library, ReadsDataSetsOfOnnxTests) {
  const std::vector<DataSet> sets = read_data_sets(isa::source_path("testsuite/models/mnist8"));
  ASSERT_THAT(sets, SizeIs(3));
  EXPECT_EQ(sets[2].name, "test_data_set_2");
  EXPECT_THAT(sets[0].inputs.at("Input3").tensor().shape(), ElementsAre(1, 1, 28, 28));
  EXPECT_THAT(sets[0].outputs.at("Plus214_Output_0").tensor().largest_per_row(), SizeIs(1));
}

TEST(Library, InputsThatAreNotGivenAreRandom) {
  const Program program = compiled(product());
  const Folder folder("library_inputs");
  const Tensor x(ElementType::kFloat32, {4, 8});
  x.write(folder / "x.npy");
  const Values inputs = program.complete_inputs({{"x", program.read_input("x", folder / "x.npy")}}, 7);
  EXPECT_EQ(inputs.at("x").tensor().number(3), 0);
  EXPECT_EQ(inputs.at("w").tensor().number(3),
            Model::from_bytes(product()).random_inputs(7).at("w").number(3));
  EXPECT_THROW(program.read_input("x", folder / "none.npy"), UserError);
  const Program open = compiled(open_rows());
  EXPECT_THAT(error_of<UserError>([&] { open.complete_inputs({}); }),
              AllOf(HasSubstr("'x'"), HasSubstr("--dim N=4")));
}

TEST(Library, ModelsThatAreCompiledWhileTheyRunAreComparedAndKeepSequences) {
  onnx::ModelProto proto = compiler::testing::parse_model(
      R"(g (float[N] s, float[N] x) => (float[N] r, float[N] y) { y = Tanh(x) r = SequenceInsert(s, y) })");
  for (auto* value : {proto.mutable_graph()->mutable_input(0), proto.mutable_graph()->mutable_output(0)}) {
    const onnx::TypeProto tensor = value->type();  // which the parser has no sequences of
    *value->mutable_type()->mutable_sequence_type()->mutable_elem_type() = tensor;
  }
  const std::string bytes = proto.SerializeAsString();
  const Program program = compiled(bytes);
  EXPECT_THAT(program.open_reason(), HasSubstr("sequence"));
  EXPECT_THAT(program.summary(), HasSubstr("while it runs"));
  Session session(program);
  const float elements[] = {0.5F, -1, 2};
  const Tensor x = Tensor::copy_of(ElementType::kFloat32, {3}, elements);
  const Value s = Value::sequence(ElementType::kFloat32, {x});
  const std::vector<Result> results =
      session.run_all({{.inputs = {{"s", s}, {"x", x}}}}, {.repeat = 2, .compare = true});
  const Result& result = results.at(0);
  EXPECT_TRUE(result.ok);
  EXPECT_THAT(result.comparisons, SizeIs(2));
  EXPECT_EQ(result.outputs.count("r"), 0U);
  const Value& r = result.others.at("r");
  EXPECT_TRUE(r.is_sequence());
  EXPECT_THAT(r.elements(), SizeIs(2));
  EXPECT_EQ(r.elements()[1].number(0), result.outputs.at("y").number(0));
  EXPECT_EQ(r.describe(), "a sequence of 2 float32 tensors");
  EXPECT_THAT(result.table(), AllOf(HasSubstr("compiled in parts while it runs"), HasSubstr("of 2 runs")));
  EXPECT_THAT(result.json(), AllOf(HasSubstr("\"regions\""), HasSubstr("\"first_run\"")));
  EXPECT_THAT(error_of<UnsupportedError>([&] { run_pipeline(program, [](int64_t) { return Tensors(); }); }),
              HasSubstr("--pipeline"));
  EXPECT_THAT(error_of<UserError>([&] {
                Program::compile(Model::from_bytes(bytes), {.chip = "tiny", .buckets = {"N=8,4"}});
              }),
              HasSubstr("N=8,4"));
  EXPECT_THAT(error_of<UserError>([&] {
                Program::compile(Model::from_bytes(product()), {.chip = "tiny", .buckets = {"N=8"}});
              }),
              HasSubstr("--bucket N=8"));
  EXPECT_THAT(error_of<UnsupportedError>([&] { Model::from_bytes(bytes, {.allows_open = false}); }),
              HasSubstr("sequence"));
}

TEST(Library, AModelThatIsCompiledWhileItRunsHasAReport) {
  const Folder folder("library_open_report");
  Session session(compiled(open_rows()));
  const std::vector<float> elements(24, 0.5F);
  const Tensors inputs{{"x", Tensor::copy_of(ElementType::kFloat32, {3, 8}, elements.data())}};
  const RunFiles files{.report = folder / "html", .json = folder / "json"};
  const Result result = session.run(inputs, {.files = files, .repeat = 2, .compare = true});
  const auto json = nlohmann::json::parse(text_of(files.json));
  ASSERT_THAT(json["programs"], SizeIs(1));
  const auto& program = json["programs"][0];
  EXPECT_EQ(program["runs"], 1);  // of the last run
  EXPECT_EQ(program["source"], "compiled");
  EXPECT_EQ(program["inputs"][0]["shape"], nlohmann::json({3, 8}));
  EXPECT_EQ(program["cycles"], result.cycles);
  EXPECT_EQ(program["run"]["total"]["total_cycles"], result.cycles);
  EXPECT_FALSE(program["run"]["timeline"]["layers"].empty());
  EXPECT_EQ(json["open_reason"], Model::from_bytes(open_rows()).open_reason());
  EXPECT_THAT(text_of(files.report), StartsWith("<!DOCTYPE html>"));
  // Without one the JSON has no programs.
  EXPECT_THAT(session.run(inputs).json(), Not(HasSubstr("\"programs\": [")));
}

TEST(LibraryValue, IsATensorASequenceOrAnOptional) {
  const Tensor tensor(ElementType::kInt32, {2});
  EXPECT_TRUE(Value(tensor).is_tensor());
  EXPECT_THAT(Value(tensor).elements(), SizeIs(1));
  const Value sequence = Value::sequence(ElementType::kInt32, {tensor, tensor});
  EXPECT_THAT(error_of<UserError>([&] { sequence.tensor(); }), HasSubstr("a sequence of 2 int32"));
  EXPECT_THAT(error_of<UserError>([&] { Value::sequence(ElementType::kInt64, {tensor}); }),
              HasSubstr("int32"));
  const Value optional = Value::optional(sequence);
  EXPECT_FALSE(optional.is_sequence());
  EXPECT_THAT(optional.elements(), SizeIs(2));
  EXPECT_THAT(Value::optional(tensor).elements(), SizeIs(1));
  EXPECT_THROW(Value::optional(optional), UserError);
}

TEST(Library, RunsInferencesInARow) {
  const Program program = compiled(product(), true);
  const Model model = Model::from_bytes(product());
  const auto inputs = [&](int64_t run) { return model.random_inputs(static_cast<uint64_t>(run) + 1); };
  const Folder folder("library_row");
  bool was_ready = false;
  WallTimes times;
  const PipelineResult row = run_pipeline(program, inputs,
                                          {.runs = 5,
                                           .in_flight = 2,
                                           .compare = true,
                                           .files = {.json = folder / "json", .outputs = folder / "out"},
                                           .times = &times},
                                          [&](const PipelineResult& result) {
                                            was_ready =
                                                result.ok && !std::filesystem::exists(folder / "json");
                                          });
  EXPECT_TRUE(was_ready);
  EXPECT_TRUE(row.ok);
  EXPECT_THAT(row.differences, IsEmpty());
  EXPECT_EQ(row.runs, 5);
  EXPECT_GE(row.latency, row.latency_alone);
  EXPECT_LT(row.interval, static_cast<double>(row.latency_alone));
  EXPECT_GT(row.per_second(), 0);
  EXPECT_LE(row.share(), 1 + 1e-9);
  ASSERT_THAT(row.comparisons, SizeIs(1));
  EXPECT_EQ(difference(row.outputs, Session(program).run(inputs(0)).outputs), 0);
  EXPECT_THAT(text_of(folder / "json"), AllOf(HasSubstr("\"share_of_slower\""), HasSubstr("wall_seconds")));
  EXPECT_THAT(row.json(), HasSubstr("\"same_bits\": true"));
  const auto wrong = [&](const PipelineSettings& settings) {
    return error_of<UserError>([&] { run_pipeline(program, inputs, settings); });
  };
  EXPECT_THAT(wrong({.runs = 2}), HasSubstr("2 in flight"));
  EXPECT_THAT(wrong({.in_flight = 0}), HasSubstr("0 in flight"));
  EXPECT_THAT(wrong({.files = {.trace = "t"}}), HasSubstr("'t'"));
  EXPECT_THAT(wrong({.session = {.timing = false}}), HasSubstr("timing"));
  EXPECT_THAT(error_of<UserError>([&] { run_pipeline(compiled(product()), inputs, {.compare = true}); }),
              HasSubstr("keeps_reference"));
  EXPECT_THROW(run_pipeline(program, [](int64_t) { return Tensors(); }), UserError);
}

TEST(LibrarySimulate, RunsPrograms) {
  const VsmProgram program =
      VsmProgram::from_text("imm i\"7\" $lr0v\nnop/3\nd get $lr0n0c0b0m0p0 1\n", "tiny");
  EXPECT_EQ(program.chip(), "tiny");
  EXPECT_EQ(program.steps(), 4);
  EXPECT_EQ(program.transfers(), 0);
  EXPECT_THAT(program.hazards(), IsEmpty());
  const Folder folder("library_simulate");
  bool was_ready = false;
  const Simulation run = simulate(
      program, {.files = {.trace = folder / "trace", .statistics = folder / "csv", .statistics_form = "csv"}},
      [&](const Simulation& done) { was_ready = done.steps == 4; });
  EXPECT_TRUE(was_ready);
  EXPECT_EQ(run.steps, 4);
  EXPECT_EQ(run.nops, 3);
  EXPECT_EQ(run.cycles, 16);
  ASSERT_THAT(run.dump, SizeIs(1));
  EXPECT_THAT(run.summary(), StartsWith("4 steps (3 nop), 0 MV transfers, 16 cycles"));
  EXPECT_GT(std::filesystem::file_size(folder / "trace"), 10U);
  EXPECT_THAT(text_of(folder / "csv"), HasSubstr(","));
  EXPECT_THAT(simulate(program, {.statistics = true}).statistics, HasSubstr("roofline"));
  const Simulation untimed = simulate(program, {.timing = false});
  EXPECT_EQ(untimed.cycles, 0);
  EXPECT_EQ(untimed.summary(), "4 steps (3 nop), 0 MV transfers");
  std::vector<std::string> lines;
  EXPECT_THAT(simulate(program, {.dump = [&](const std::string& line) { lines.push_back(line); }}).dump,
              IsEmpty());
  EXPECT_EQ(lines, run.dump);

  const auto wrong = [&](const SimulationSettings& settings) {
    return error_of<UserError>([&] { simulate(program, settings); });
  };
  EXPECT_THAT(wrong({.memory = "full"}), HasSubstr("dirty"));
  EXPECT_THAT(wrong({.hazards = "some"}), HasSubstr("stale"));
  EXPECT_THAT(wrong({.timing = false, .statistics = true}), HasSubstr("timing"));
  EXPECT_THAT(wrong({.check_uninitialized = true, .statistics = true}), HasSubstr("--check-uninitialized"));
  EXPECT_THAT(wrong({.files = {.report = "r"}}), HasSubstr("'r'"));
  EXPECT_THAT(error_of<UserError>([] { VsmProgram::from_text("nonsense\n", "tiny", "mine.vsm"); }),
              HasSubstr("mine.vsm:1"));
  EXPECT_THROW(VsmProgram::read("/no/such.vsm"), UserError);
}

TEST(LibrarySimulate, FindsWhatAProgramDoesWrong) {
  const VsmProgram early = VsmProgram::from_text("linc $lr0v $lr0v\nlpassa $lr0v $ln0v\n", "tiny");
  EXPECT_THAT(early.hazards(), ElementsAre(StartsWith("line 2: ")));
  const Simulation run = simulate(early, {.check_uninitialized = true});
  EXPECT_THAT(run.uninitialized, ElementsAre(HasSubstr("nothing has written")));
  EXPECT_THAT(simulate(early, {.memory = "dirty", .seed = 3}).uninitialized, IsEmpty());
}

TEST(LibrarySimulate, SeveralProgramsAndTheDebugger) {
  const Folder folder("library_many");
  std::ofstream(folder / "good.vsm") << "nop/2\n";
  std::ofstream(folder / "bad.vsm") << "nonsense\n";
  const auto all = simulate_many({folder / "good.vsm", folder / "bad.vsm"}, "tiny", 2);
  ASSERT_THAT(all, SizeIs(2));
  EXPECT_EQ(all[0].simulation.steps, 2);
  EXPECT_FALSE(all[0].error);
  EXPECT_THROW(std::rethrow_exception(all[1].error), UserError);
  EXPECT_THROW(simulate_many({}, "tiny", 0), UserError);
  EXPECT_THROW(simulate_many({}, "tiny", 1, {.statistics = true}), UserError);
  EXPECT_THROW(simulate_many({}, "huge"), UserError);

  std::istringstream commands("step\nlist\n");
  std::ostringstream out;
  debug(VsmProgram::read(folder / "good.vsm", "tiny"), commands, out);
  EXPECT_THAT(out.str(), HasSubstr("nop"));
  EXPECT_THROW(debug(VsmProgram::read(folder / "good.vsm", "tiny"), commands, out, {.breakpoints = {99}}),
               UserError);
}

TEST(Library, KnowsPackagesAndWhereTheyMayGo) {
  const Folder folder("library_directory");
  EXPECT_FALSE(is_package(folder / "package"));
  Program::check_directory(folder / "package");
  double most = 0;
  compiled(product()).save(folder / "package",
                           [&](double part, const std::string&) { most = std::max(most, part); });
  EXPECT_GT(most, 0);
  EXPECT_TRUE(is_package(folder / "package"));
  EXPECT_EQ(Program::load(folder / "package", "", [](double, const std::string&) {}).open_reason(), "");
  Program::check_directory(folder / "package");
  std::ofstream(folder / "package/mine.txt") << "mine";
  EXPECT_THAT(error_of<UserError>([&] { Program::check_directory(folder / "package"); }),
              HasSubstr("mine.txt"));
}

TEST(Library, DumpsWhatPassesMake) {
  const Folder folder("library_dumps");
  Program::compile(Model::from_bytes(product()), {.chip = "tiny",
                                                  .options = {{"cache", ""}},
                                                  .dump_after = {"lower"},
                                                  .dump_directory = folder / "dumps"});
  EXPECT_TRUE(std::filesystem::exists(folder / "dumps/000.lower.product.json"));
  EXPECT_THAT(error_of<UserError>([&] {
                Program::compile(Model::from_bytes(product()), {.chip = "tiny", .dump_after = {"nothing"}});
              }),
              HasSubstr("--dump-after nothing"));
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
  EXPECT_EQ(tensor.number(4), 5);
  EXPECT_THAT(tensor.largest_per_row(), ElementsAre(2, 2));
  EXPECT_THROW(tensor.number(6), UserError);
  EXPECT_THROW(tensor.number(-1), UserError);
  EXPECT_THAT(error_of<UserError>([] { Tensor::of_strings({1}, {"a"}).number(0); }), HasSubstr("string"));
  EXPECT_THROW(Tensor(ElementType::kComplex64, {1}).largest_per_row(), UserError);
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
