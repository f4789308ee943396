#include "layout/search/solution_cache.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "layout/search/conversion.h"

namespace kodama::layout {
namespace {

namespace fs = std::filesystem;

class CacheTest : public ::testing::Test {
 protected:
  void SetUp() override {
    directory_ = fs::temp_directory_path() / fmt::format("kodama_cache_test.{}", ::getpid());
    fs::remove_all(directory_);
  }
  void TearDown() override { fs::remove_all(directory_); }
  std::vector<fs::path> files() const {
    std::vector<fs::path> list;
    for (const auto& entry : fs::directory_iterator(directory_)) list.push_back(entry.path());
    return list;
  }
  fs::path directory_;
};

TEST_F(CacheTest, KeepsWhatWasStored) {
  SolutionCache cache(directory_);
  EXPECT_FALSE(cache.find("key").has_value());
  cache.store("key", "value");
  cache.store("other\nkey", "");
  cache.store("key", "newer value\n");
  EXPECT_EQ(SolutionCache(directory_).find("key"), "newer value\n");
  EXPECT_EQ(cache.find("other\nkey"), "");
  EXPECT_FALSE(cache.find("keyn").has_value());
}

TEST_F(CacheTest, EveryDamageCountsAsNotThere) {
  SolutionCache cache(directory_);
  cache.store("a key", "some value");
  const fs::path path = files().at(0);
  std::string text;
  {
    std::ifstream file(path, std::ios::binary);
    text.assign((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  }
  const auto write = [&](const std::string& what) { std::ofstream(path, std::ios::binary) << what; };
  for (size_t k = 0; k < text.size(); ++k) {
    std::string damaged = text;
    damaged[k] = static_cast<char>(damaged[k] ^ 4);
    write(damaged);
    EXPECT_FALSE(cache.find("a key").has_value()) << "byte " << k;
    EXPECT_FALSE(fs::exists(path));
    write(text.substr(0, k));
    EXPECT_FALSE(cache.find("a key").has_value()) << k << " bytes";
  }
  write(text);
  EXPECT_EQ(cache.find("a key"), "some value");
}

TEST_F(CacheTest, ADirectoryInThePlaceOfAFileCountsAsNotThere) {
  SolutionCache cache(directory_);
  cache.store("a key", "some value");
  const fs::path path = files().at(0);
  fs::remove(path);
  fs::create_directories(path / "within");
  EXPECT_FALSE(cache.find("a key").has_value());
  cache.store("a key", "some value");
  EXPECT_FALSE(cache.find("a key").has_value());
}

TEST_F(CacheTest, ForgetsWhatWasNotUsedForLongest) {
  constexpr int64_t kMost = 20000;
  SolutionCache cache(directory_, kMost);
  const std::string value(1000, 'v');
  cache.store("used", value);
  for (int k = 0; k < 100; ++k) {
    cache.store(fmt::format("key {}", k), value);
    // Times of files count in steps of milliseconds.
    ::usleep(2000);
    EXPECT_TRUE(cache.find("used").has_value()) << k;
  }
  EXPECT_TRUE(cache.find("key 99").has_value());
  EXPECT_FALSE(cache.find("key 0").has_value());
  int64_t bytes = 0;
  for (const fs::path& path : files()) bytes += static_cast<int64_t>(fs::file_size(path));
  EXPECT_LE(bytes, kMost + 2000);
}

TEST_F(CacheTest, SeveralProcessesAtOnce) {
  constexpr int kProcesses = 4;
  const auto value_of = [](int key) {
    return std::string(static_cast<size_t>(100 + key * 37), static_cast<char>('a' + key));
  };
  std::vector<pid_t> children;
  for (int process = 0; process < kProcesses; ++process) {
    const pid_t child = ::fork();
    if (child == 0) {
      SolutionCache cache(directory_, 3000);
      bool right = true;
      for (int round = 0; round < 300; ++round) {
        const int key = (round * 7 + process) % 10;
        const auto found = cache.find(fmt::format("key {}", key));
        right &= !found || *found == value_of(key);
        cache.store(fmt::format("key {}", key), value_of(key));
      }
      ::_exit(right ? 0 : 1);
    }
    children.push_back(child);
  }
  for (const pid_t child : children) {
    int status = 0;
    ::waitpid(child, &status, 0);
    EXPECT_EQ(WEXITSTATUS(status), 0);
  }
}

/// Key and value of the only entry.
std::pair<std::string, std::string> entry_in(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::string line;
  size_t key_bytes = 0;
  size_t value_bytes = 0;
  std::getline(file, line);
  file >> key_bytes >> value_bytes;
  std::getline(file, line);
  std::string key(key_bytes, '\0');
  std::string value(value_bytes, '\0');
  file.read(key.data(), static_cast<std::streamsize>(key_bytes));
  file.read(value.data(), static_cast<std::streamsize>(value_bytes));
  return {key, value};
}

TEST_F(CacheTest, ConversionsAreSearchedOnce) {
  const ConversionProblem problem{Layout::parse("((4_PE:1, 4_MAB:1), (64:1))@LM0"),
                                  Layout::parse("((16:64), (4_MAB:1, 4_PE:1, 4:1))@LM1"),
                                  {16, 64},
                                  64};
  const isa::Chip chip = isa::find_chip("tiny");
  SolutionCache cache(directory_);
  const Conversion searched = convert(problem, chip, &cache);
  ASSERT_GE(searched.path.size(), 2U);
  ASSERT_EQ(files().size(), 1U);
  const auto [key, value] = entry_in(files()[0]);

  // An entry starts with the number of states that the search looked at. One that could not be shows where
  // the path comes from.
  const size_t number_ends = value.find(' ');
  cache.store(key, "123456789" + value.substr(number_ends));
  const Conversion found = convert(problem, chip, &cache);
  EXPECT_EQ(found.states, 123456789);
  EXPECT_EQ(found.path, searched.path);
  EXPECT_EQ(found.cycles, searched.cycles);
  EXPECT_EQ(found.proven, searched.proven);

  // What isn't a path between these layouts is searched again.
  for (const std::string& damaged : {std::string(), std::string("path"), value.substr(0, value.rfind(' ')),
                                     value.substr(0, value.rfind(' ')) + " 1000000", std::string("5 1 0"),
                                     value.substr(0, number_ends) + " 2" + value.substr(number_ends + 2),
                                     std::string("5 1 1000000000000")}) {
    cache.store(key, damaged);
    const Conversion again = convert(problem, chip, &cache);
    EXPECT_EQ(again.path, searched.path) << damaged;
    EXPECT_EQ(again.states, searched.states) << damaged;
    EXPECT_EQ(entry_in(files()[0]).second, value) << damaged;
  }
}

TEST_F(CacheTest, ADirectoryThatCannotBeIsNoError) {
  std::ofstream(directory_.string()) << "a file";
  SolutionCache cache(directory_);
  cache.store("key", "value");
  EXPECT_FALSE(cache.find("key").has_value());
}

}  // namespace
}  // namespace kodama::layout
