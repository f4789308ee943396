#include "compiler/dynamic/stored_programs.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "compiler/dynamic/compare_values.h"
#include "compiler/dynamic/dynamic_executor.h"
#include "compiler/graph/import.h"
#include "compiler/graph/test_models.h"
#include "compiler/package/package.h"
#include "isa/file.h"

namespace kodama::compiler {
namespace {

namespace fs = std::filesystem;

class StoredProgramsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    directory_ = fs::temp_directory_path() / fmt::format("kodama_stored_programs_test.{}", ::getpid());
    fs::remove_all(directory_);
  }
  void TearDown() override { fs::remove_all(directory_); }

  /// As another process would: with no program in memory.
  DynamicOutcome run(const onnx::ModelProto& model, const ValueMap& inputs, DynamicOptions options = {}) {
    StoredPrograms programs(directory_.string(), most_bytes_);
    options.compile.precision = MatrixPrecision::kFloat;
    options.programs = &programs;
    DynamicExecutor executor(import_any_model(model, {}, "test").model, chip_, std::move(options));
    DynamicOutcome outcome = executor.run(inputs);
    for (const ValueComparison& each :
         compare_values(outcome.outputs, run_graph_on_values(model, inputs), {}, 1e-5))
      EXPECT_TRUE(within(each.worst, 1e-5)) << each.name << " " << each.worst.problem;
    return outcome;
  }
  std::vector<fs::path> files() const {
    std::vector<fs::path> list;
    std::error_code none;
    for (const auto& entry : fs::directory_iterator(directory_, none)) list.push_back(entry.path());
    return list;
  }

  fs::path directory_;
  isa::Chip chip_ = isa::find_chip("tiny");
  int64_t most_bytes_ = StoredPrograms::kMostBytes;
};

onnx::ModelProto product() {
  onnx::ModelProto model = testing::parse_model(
      "g (float[n,4] x) => (float[n,3] y) { p = MatMul(x, w) s = Relu(p) y = Add(s, b) }");
  testing::add_random(model, "w", {4, 3});
  testing::add_random(model, "b", {3});
  return model;
}

ValueMap rows(int64_t n) {
  return {{"x", testing::random_tensor(DataType::kFloat32, {n, 4}, 1)}};
}

TEST_F(StoredProgramsTest, AnotherProcessCompilesNothing) {
  const DynamicOutcome first = run(product(), rows(5));
  EXPECT_EQ(first.total.compiles, 1);
  EXPECT_EQ(first.total.disk_hits, 0);
  const DynamicOutcome second = run(product(), rows(5));
  EXPECT_EQ(second.total.compiles, 0);
  EXPECT_EQ(second.total.disk_hits, 1);
  EXPECT_EQ(second.outputs, first.outputs);  // the same bits
  EXPECT_EQ(second.total.stats.chip.cycles(), first.total.stats.chip.cycles());
  EXPECT_EQ(second.total.preload_bytes, first.total.preload_bytes);
  EXPECT_EQ(run(product(), rows(6)).total.compiles, 1);
}

TEST_F(StoredProgramsTest, AllThatDecidesAProgramIsInItsKey) {
  run(product(), rows(5));
  onnx::ModelProto other = product();
  other.mutable_graph()->mutable_initializer(0)->mutable_raw_data()->at(3) ^= 64;
  EXPECT_EQ(run(other, rows(5)).total.compiles, 1);
  other = product();
  other.mutable_graph()->mutable_node(1)->set_op_type("Abs");
  EXPECT_EQ(run(other, rows(5)).total.compiles, 1);
  DynamicOptions options;
  options.compile.planner = "first";
  EXPECT_EQ(run(product(), rows(5), options).total.compiles, 1);
  options = {};
  options.compile.lowering.fuse = false;
  EXPECT_EQ(run(product(), rows(5), options).total.compiles, 1);
  options = {};
  options.compile.passes.scheduler = "sequential";
  EXPECT_EQ(run(product(), rows(5), options).total.compiles, 1);
  chip_ = isa::find_chip("tiny,clock_hz=1e8");
  EXPECT_EQ(run(product(), rows(5)).total.compiles, 1);
  chip_ = isa::find_chip("tiny");
  EXPECT_EQ(run(product(), rows(5)).total.disk_hits, 1);
}

TEST_F(StoredProgramsTest, DamagedForeignAndPartialFilesAreWrittenAnew) {
  run(product(), rows(5));
  for (const fs::path& path : files()) {
    const std::string text = isa::read_file(path.string());
    const auto write = [&](const std::string& what) { std::ofstream(path, std::ios::binary) << what; };
    std::string damaged = text;
    damaged[text.size() / 2] = static_cast<char>(damaged[text.size() / 2] ^ 1);
    for (const std::string& wrong :
         {damaged, text.substr(0, text.size() / 2), std::string(), std::string("PK")}) {
      write(wrong);
      run(product(), rows(5));
      EXPECT_EQ(isa::read_file(path.string()), text);
    }
  }
  EXPECT_EQ(run(product(), rows(5)).total.compiles, 0);
}

/// An entry that is whole, but whose package isn't one of this version.
TEST_F(StoredProgramsTest, WhatCannotBeReadIsNotThere) {
  onnx::ModelProto model = product();
  const isa::Chip chip = isa::find_chip("tiny");
  const std::string key = program_key(model, chip, {});
  layout::SolutionCache(directory_.string())
      .store("program\n" + key, "package\n12 manifest.json\n{\"a\": 1}    ");
  EXPECT_FALSE(StoredPrograms(directory_.string()).find(key, chip).has_value());
}

/// What is compiled only to find the node to blame is not compiled again either.
TEST_F(StoredProgramsTest, RefusalsAreKept) {
  onnx::ModelProto model = testing::parse_model(R"(g (float[n,8] x) => (float[n,512] y) {
    r = Relu(x) a = Abs(r) p = MatMul(a, w) t = Tanh(p) y = Exp(t) })");
  testing::add_random(model, "w", {8, 512});
  chip_.memory.dram_lw = 2048;  // less than the weights
  const ValueMap inputs{{"x", testing::random_tensor(DataType::kFloat32, {2, 8}, 1)}};
  const DynamicOutcome first = run(model, inputs);
  const DynamicOutcome second = run(model, inputs);
  EXPECT_EQ(second.total.compiles, 0);
  EXPECT_EQ(second.total.disk_hits, first.total.compiles);
  ASSERT_EQ(second.regions.size(), first.regions.size());
  for (size_t k = 0; k < first.regions.size(); ++k) {
    EXPECT_EQ(second.regions[k].reasons, first.regions[k].reasons);
    EXPECT_EQ(second.regions[k].place, first.regions[k].place);
  }
}

TEST_F(StoredProgramsTest, TheSizeIsBounded) {
  most_bytes_ = 100000;
  for (int64_t n = 1; n < 12; ++n) run(product(), rows(n));
  int64_t bytes = 0;
  for (const fs::path& path : files()) bytes += static_cast<int64_t>(fs::file_size(path));
  EXPECT_GT(bytes, 0);
  EXPECT_LT(bytes, 2 * most_bytes_);
}

TEST_F(StoredProgramsTest, WhatIsTooLargeIsNotStored) {
  most_bytes_ = 256;
  run(product(), rows(5));
  EXPECT_EQ(run(product(), rows(5)).total.compiles, 1);
  EXPECT_TRUE(files().empty());
}

TEST_F(StoredProgramsTest, LoopsWithStatesOnTheChipAndFoldedRegions) {
  const onnx::ModelProto model = testing::parse_model(R"(g (float[n,4] x) => (float[n,4] y, int64[2] shape) {
    count = Constant<value = int64 {5}>() yes = Constant<value = bool {1}>()
    y = Loop<body = body (int64 i, bool c, float[n,4] s) => (bool d, float[n,4] t) {
      d = Identity(c) u = Relu(s) half = Constant<value = float {0.5}>() v = Mul(u, half) t = Add(v, s) }>(count, yes, x)
    shape = Shape(x) })");
  const DynamicOutcome first = run(model, rows(3));
  const DynamicOutcome second = run(model, rows(3));
  EXPECT_GT(first.total.compiles, 0);
  EXPECT_EQ(second.total.compiles, 0);
  EXPECT_EQ(second.total.disk_hits, first.total.compiles);
  EXPECT_EQ(second.outputs, first.outputs);
  EXPECT_EQ(second.total.stats.bytes_to_chip, first.total.stats.bytes_to_chip);
  EXPECT_EQ(second.total.stats.chip.cycles(), first.total.stats.chip.cycles());
}

/// As another process would compile a whole model.
TEST_F(StoredProgramsTest, WholeModelsAreFound) {
  onnx::ModelProto model = testing::parse_model(
      "g (float[5,4] x) => (float[5,3] y) { p = MatMul(x, w) s = Relu(p) y = Add(s, b) }");
  testing::add_random(model, "w", {4, 3});
  testing::add_random(model, "b", {3});
  model = import_model(model, {}, "test");
  int64_t layers_planned = 0;
  CompileOptions options;
  options.precision = MatrixPrecision::kFloat;
  options.progress = [&](int64_t, int64_t, const std::string&) { ++layers_planned; };
  const auto compile = [&](onnx::ModelProto* prepared = nullptr) {
    layers_planned = 0;
    StoredPrograms programs(directory_.string(), most_bytes_);
    return package_to_bytes(compile_or_find(model, chip_, options, &programs, prepared));
  };
  onnx::ModelProto prepared;
  const std::string plain = package_to_bytes(compile_or_find(model, chip_, options, nullptr, &prepared));
  EXPECT_EQ(compile(), plain);
  EXPECT_GT(layers_planned, 0);
  onnx::ModelProto again;
  EXPECT_EQ(compile(&again), plain);
  EXPECT_EQ(layers_planned, 0);
  EXPECT_EQ(again.SerializeAsString(), prepared.SerializeAsString());

  options.lowering.fuse = false;
  EXPECT_NE(compile(), plain);
  EXPECT_GT(layers_planned, 0);
  options.lowering.fuse = true;
  for (const fs::path& file : files()) isa::write_file_atomically(file.string(), "damaged");
  EXPECT_EQ(compile(), plain);
  EXPECT_GT(layers_planned, 0);
}

TEST_F(StoredProgramsTest, NoneWithoutADirectoryAndForDumps) {
  EXPECT_TRUE(stored_programs(directory_.string(), {}));
  EXPECT_FALSE(stored_programs("", {}));
  EXPECT_FALSE(stored_programs(directory_.string(), {"plan"}));
}

}  // namespace
}  // namespace kodama::compiler
