#include "compiler/package/package.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>

#include "compiler/compile/compile_model.h"
#include "compiler/graph/import.h"
#include "compiler/graph/test_models.h"
#include "isa/error.h"
#include "isa/file.h"
#include "isa/rounds_test_util.h"

/// Packages that are damaged, and directories that are in the way of new ones.
namespace kodama::compiler {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

class Packages : public ::testing::Test {
 protected:
  Packages() : folder_(fs::path(::testing::TempDir()) / fmt::format("kodama_package_test.{}", ::getpid())) {
    fs::remove_all(folder_);
    fs::create_directory(folder_);
  }
  ~Packages() override { fs::remove_all(folder_); }

  static CompiledModel compiled(const std::string& model, const std::string& planner = "pbqp",
                                Weights weights = Weights::kStream) {
    CompileOptions options;
    options.planner = planner;
    options.weights = weights;
    return compile_model(import_model(isa::source_path(model)), isa::find_chip("tiny"), options);
  }
  fs::path save(const CompiledModel& model) const {
    save_package(model, package().string());
    return package();
  }
  fs::path package() const { return folder_ / "package"; }
  std::vector<fs::path> files() const {
    std::vector<fs::path> files;
    for (const auto& entry : fs::recursive_directory_iterator(package())) {
      if (entry.is_regular_file()) files.push_back(entry.path());
    }
    std::ranges::sort(files);
    return files;
  }
  /// What loading says; empty when it finds nothing wrong. Other errors than the user's leave it.
  std::string complaint() const {
    try {
      load_package(package().string());
    } catch (const isa::UserError& error) {
      return error.what();
    }
    return "";
  }
  static void write(const fs::path& file, const std::string& contents) {
    std::ofstream(file, std::ios::binary) << contents;
  }
  size_t count() const {
    return static_cast<size_t>(std::distance(fs::directory_iterator(folder_), fs::directory_iterator()));
  }

  fs::path folder_;
};

/// The preparation is part of it, and damage to it is found.
/// A shift to the left has no form without a sign, which the simulator alone wouldn't have noticed.
TEST_F(Packages, OfDoublesAndLongIntegersAreReadAgain) {
  const auto model = kodama::compiler::testing::parse_model(
      "g (double[3,4] a, double[4,5] b, int64[7] i, int64[7] j, float[9] f) => (double[3,5] y, double[3,4] "
      "z, "
      "int64[7] k, bool[3,4] c, double[9] w, float[3,4] n, int64[3,4] l) { y = MatMul (a, b) e = Exp (a) "
      "z = Div (a, e) k = Div (i, j) c = Less (a, z) w = Cast <to = 11> (f) n = Cast <to = 1> (a) "
      "l = Cast <to = 7> (a) }");
  save(compile_model(import_model(model, {}, "doubles"), isa::find_chip("tiny"), {}));
  EXPECT_EQ(complaint(), "");
}

TEST_F(Packages, HaveThePreparation) {
  const CompiledModel model = compiled("testsuite/golden/models/linear.onnx", "pbqp", Weights::kResident);
  ASSERT_FALSE(model.preparation.statements.empty());
  save(model);
  const isa::ProgramCounts expected = isa::count(model.preparation);
  const isa::ProgramCounts found = isa::count(load_package(package().string()).preparation);
  EXPECT_EQ(found.steps, expected.steps);
  EXPECT_EQ(found.mvs, expected.mvs);
  const fs::path program = package() / "programs" / "preparation.vsm";
  const fs::path manifest = package() / "manifest.json";
  const std::string right = isa::read_file(program.string()), text = isa::read_file(manifest.string());
  write(program, "nop\n");
  EXPECT_THAT(complaint(), HasSubstr("is damaged"));
  write(program, "no instruction\n");
  write_checksums(package().string());
  EXPECT_THAT(complaint(), HasSubstr("preparation.vsm:1"));
  fs::remove(program);
  write_checksums(package().string());
  EXPECT_THAT(complaint(), HasSubstr("manifest.json: preparation: found \"programs/preparation.vsm\""));
  write(program, right);
  for (const char* other : {"7", "\"host.onnx\"", "\"../preparation.vsm\"", "[]"}) {
    std::string damaged = text;
    const std::string_view value = "\"programs/preparation.vsm\"";
    damaged.replace(damaged.find(value), value.size(), other);
    write(manifest, damaged);
    write_checksums(package().string());
    EXPECT_THAT(complaint(), HasSubstr("manifest.json: preparation")) << other;
  }
  write(manifest, text);
  write_checksums(package().string());
  EXPECT_EQ(complaint(), "");
}

constexpr const char* kLinear = "testsuite/golden/models/linear.onnx";

TEST_F(Packages, NoBitOfASmallOneCanBeWrong) {
  save(compiled(kLinear));
  ASSERT_EQ(complaint(), "");
  int tried = 0;
  for (const fs::path& file : files()) {
    const std::string right = isa::read_file(file.string());
    std::fstream stream(file, std::ios::binary | std::ios::in | std::ios::out);
    const auto put = [&](size_t at, char c) {
      stream.seekp(static_cast<std::streamoff>(at));
      stream.put(c);
      stream.flush();
    };
    // Bits one by one where that doesn't take long.
    const std::vector<int> changes =
        right.size() < 2000 ? std::vector<int>{1, 2, 4, 8, 16, 32, 64, 128} : std::vector<int>{1, 32};
    for (size_t at = 0; at < right.size(); ++at) {
      for (const int change : {1 << at % 8, 1 << (at + 5) % 8}) {
        put(at, static_cast<char>(right[at] ^ change));
        ++tried;
        if (complaint().empty()) ADD_FAILURE() << file << ": byte " << at << " changed by " << change;
      }
      put(at, right[at]);
    }
  }
  EXPECT_EQ(complaint(), "");
  EXPECT_GT(tried, 5000);
}

TEST_F(Packages, NoByteOfALargerOneCanBeWrong) {
  save(compiled("testsuite/models/mnist8/model.onnx"));
  ASSERT_EQ(complaint(), "");
  std::mt19937 random(1);
  for (const fs::path& file : files()) {
    const std::string right = isa::read_file(file.string());
    for (int k = 0; k < 10; ++k) {
      std::string wrong = right;
      wrong[random() % wrong.size()] ^= static_cast<char>(1 + random() % 255);
      write(file, wrong);
      EXPECT_THAT(complaint(), HasSubstr(folder_.string())) << file;
    }
    write(file, right.substr(0, right.size() - 1));
    EXPECT_NE(complaint(), "") << file;
    write(file, right + '\0');
    EXPECT_NE(complaint(), "") << file;
    write(file, "");
    EXPECT_NE(complaint(), "") << file;
    fs::remove(file);
    EXPECT_NE(complaint(), "") << file;
    write(file, right);
  }
  EXPECT_EQ(complaint(), "");
}

/// With right checksums: what is refused is refused for what it says.
TEST_F(Packages, NoValueOfAManifestIsTrusted) {
  using nlohmann::ordered_json;
  const std::vector<ordered_json> values = {-1,
                                            0,
                                            1,
                                            1000,
                                            -(int64_t{1} << 40),
                                            int64_t{1} << 40,
                                            INT64_MAX,
                                            INT64_MIN,
                                            UINT64_MAX,
                                            0.5,
                                            1e300,
                                            nullptr,
                                            true,
                                            "",
                                            "x",
                                            "inf",
                                            "../x",
                                            ordered_json::array(),
                                            ordered_json::object(),
                                            ordered_json::array({-1})};
  int refused = 0;
  int accepted = 0;
  struct Sample {
    const char* model;
    const char* planner;
    size_t step;  // of values that are tried at one place; the next place has others
  };
  for (const Sample& sample :
       {Sample{kLinear, "pbqp", isa::rounds<size_t>(10, 5)},
        {"testsuite/golden/models/moves.onnx", "host", isa::rounds<size_t>(197, 97)}}) {
    fs::remove_all(package());
    save(compiled(sample.model, sample.planner));
    const fs::path file = package() / "manifest.json";
    const ordered_json right = ordered_json::parse(isa::read_file(file.string())).flatten();
    size_t number = 0;
    for (const auto& [pointer, value] : right.items()) {
      for (size_t k = number++ % sample.step; k < values.size(); k += sample.step) {
        ordered_json wrong = right.unflatten();
        wrong[ordered_json::json_pointer(pointer)] = values[k];
        write(file, wrong.dump());
        write_checksums(package().string());
        const std::string found = complaint();
        found.empty() ? ++accepted : ++refused;
        if (!found.empty()) {
          EXPECT_THAT(found, HasSubstr(package().string())) << pointer << " = " << values[k];
        }
      }
    }
  }
  EXPECT_GT(refused, 3 * accepted);
}

TEST_F(Packages, ReplaceOnlyPackages) {
  const CompiledModel model = compiled(kLinear);
  fs::create_directory(package());
  ::chmod(package().c_str(), 0750);
  save(model);
  save(model);
  EXPECT_EQ(complaint(), "");
  EXPECT_EQ(fs::status(package()).permissions(), fs::perms(0750));
  // A file that isn't of the package, or a folder.
  for (const std::string name : {"notes.txt", "images/mine.bin"}) {
    write(package() / name, "precious");
    EXPECT_THROW(check_package_directory(package().string()), isa::UserError);
    EXPECT_THROW(save(model), isa::UserError);
    EXPECT_EQ(isa::read_file((package() / name).string()), "precious");
    fs::remove(package() / name);
  }
  fs::create_directory(package() / "mine");
  EXPECT_THROW(save(model), isa::UserError);
  fs::remove(package() / "mine");
  // A directory that is none.
  fs::create_directory(folder_ / "another");
  write(folder_ / "another/a", "precious");
  EXPECT_THROW(save_package(model, (folder_ / "another").string()), isa::UserError);
  EXPECT_THROW(save_package(model, (folder_ / "another/a").string()), isa::UserError);
  // Links stay.
  fs::create_symlink("package", folder_ / "link");
  save_package(model, (folder_ / "link").string() + "/");
  EXPECT_TRUE(fs::is_symlink(folder_ / "link"));
  EXPECT_EQ(complaint(), "");
  EXPECT_EQ(count(), 3U);  // nothing hidden is left
}

TEST_F(Packages, StayWhenTheNewOneCannotBeWritten) {
  CompiledModel model = compiled(kLinear);
  save(model);
  const auto fail_at = [&](int64_t stage) {
    save_package(model, package().string(), [&](int64_t done, int64_t, const std::string&) {
      if (done == stage) throw isa::UnsupportedError("in the middle");
    });
  };
  EXPECT_THROW(fail_at(0), isa::UnsupportedError);
  EXPECT_THROW(fail_at(1), isa::UnsupportedError);
  EXPECT_EQ(complaint(), "");
  EXPECT_EQ(count(), 1U);
  // Somebody's file comes while it is written.
  EXPECT_THROW(
      save_package(model, package().string(),
                   [&](int64_t, int64_t, const std::string&) { write(package() / "notes.txt", "precious"); }),
      isa::UserError);
  EXPECT_TRUE(fs::exists(package() / "notes.txt"));
  EXPECT_EQ(complaint(), "");
  EXPECT_EQ(count(), 1U);
}

/// A result that doesn't go to DRAM leaves its place to others: what a later segment reads there is theirs.
TEST(PackageBytes, WhatIsNotStoredLeavesItsPlace) {
  const isa::Chip chip = isa::find_chip("tiny");
  CompiledModel model = compile_model(
      import_model(
          testing::parse_model("g (float[4,4] x) => (float[4,4] y) { a = MatMul(x, x) b = MatMul(a, x) "
                               "c = MatMul(b, x) h = Det(c) y = Mul(a, h) }"),
          {}, "test"),
      chip, {});
  ASSERT_EQ(model.segments.size(), 2U);
  const auto stage_of = [&](const std::string& name) -> ChipStage& {
    for (Stage& stage : model.stages) {
      auto* chip_stage = std::get_if<ChipStage>(&stage.body);
      if (chip_stage != nullptr && !stage.outputs.empty() &&
          model.tensors[static_cast<size_t>(stage.outputs[0])].name == name)
        return *chip_stage;
    }
    throw std::runtime_error("no stage makes " + name);
  };
  const int64_t place = stage_of("a").result.dram_address;
  stage_of("b").result.dram_address = place;
  stage_of("b").stored = false;
  EXPECT_NO_THROW(package_from_bytes(package_to_bytes(model), chip, "test"));
  stage_of("a").stored = false;
  EXPECT_THAT(
      testing::error_of<isa::UserError>([&] { package_from_bytes(package_to_bytes(model), chip, "test"); }),
      HasSubstr("since another segment reads the result"));
}

}  // namespace
}  // namespace kodama::compiler
