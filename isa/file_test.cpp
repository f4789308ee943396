#include "isa/file.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "isa/error.h"

namespace kodama::isa {
namespace {

namespace fs = std::filesystem;

class Files : public ::testing::Test {
 protected:
  Files() : folder_(fs::path(::testing::TempDir()) / "kodama_file_test") {
    fs::remove_all(folder_);
    fs::create_directory(folder_);
  }
  ~Files() override { fs::remove_all(folder_); }

  std::string path(const std::string& name) const { return (folder_ / name).string(); }
  std::string contents(const std::string& name) const {
    std::ifstream stream(path(name), std::ios::binary);
    return {std::istreambuf_iterator<char>(stream), {}};
  }
  size_t count() const {
    return static_cast<size_t>(std::distance(fs::directory_iterator(folder_), fs::directory_iterator()));
  }

  fs::path folder_;
};

TEST_F(Files, AreReplacedWhole) {
  write_file_atomically(path("a"), std::string("one"));
  EXPECT_EQ(contents("a"), "one");
  write_file_atomically(path("a"), [](const Output& output) {
    output("two");
    output(std::string_view("\0three", 6));
  });
  EXPECT_EQ(contents("a"), std::string("two\0three", 9));
  EXPECT_EQ(count(), 1u);
}

TEST_F(Files, StayAsTheyAreWhenWritingFails) {
  write_file_atomically(path("a"), std::string("one"));
  EXPECT_THROW(write_file_atomically(path("a"),
                                     [](const Output& output) {
                                       output("tw");
                                       throw UnsupportedError("in the middle");
                                     }),
               UnsupportedError);
  EXPECT_EQ(contents("a"), "one");
  EXPECT_EQ(count(), 1u);
  EXPECT_THROW(write_file_atomically(path("missing/a"), std::string("one")), UserError);
  EXPECT_THROW(write_file_atomically(folder_.string(), std::string("one")), UserError);
  EXPECT_EQ(count(), 1u);
}

}  // namespace
}  // namespace kodama::isa
