#include "isa/file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>
#include <vector>

#include "isa/error.h"
#include "isa/output.h"
#include "isa/temporary.h"

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

TEST_F(Files, FollowLinks) {
  write_file_atomically(path("a"), std::string("one"));
  fs::create_symlink("a", path("b"));
  fs::create_symlink("b", path("c"));
  write_file_atomically(path("c"), std::string("two"));
  EXPECT_EQ(contents("a"), "two");
  EXPECT_TRUE(fs::is_symlink(path("b")));
  EXPECT_TRUE(fs::is_symlink(path("c")));
  fs::create_symlink("new", path("d"));
  write_file_atomically(path("d"), std::string("three"));
  EXPECT_EQ(contents("new"), "three");
  EXPECT_TRUE(fs::is_symlink(path("d")));
  fs::create_symlink("e", path("e"));
  EXPECT_THROW(write_file_atomically(path("e"), std::string("four")), UserError);
}

TEST_F(Files, KeepNamesAndModes) {
  write_file_atomically(path("a"), std::string("one"));
  ::chmod(path("a").c_str(), 0640);
  write_file_atomically(path("a"), std::string("two"));
  struct stat info {};
  ASSERT_EQ(::stat(path("a").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 07777, 0640U);
  fs::create_hard_link(path("a"), path("b"));
  write_file_atomically(path("b"), std::string("three"));
  EXPECT_EQ(contents("a"), "three");
  EXPECT_EQ(fs::hard_link_count(path("a")), 2U);
  EXPECT_THROW(write_file_atomically(path("b"),
                                     [](const Output& output) {
                                       output("fo");
                                       throw UnsupportedError("in the middle");
                                     }),
               UnsupportedError);
  EXPECT_EQ(contents("a"), "three");
}

TEST_F(Files, WriteThroughWhatIsNoFile) {
  fs::create_symlink("/dev/null", path("null"));
  write_file_atomically(path("null"), std::string("one"));
  EXPECT_TRUE(fs::is_character_file(path("null")));
  EXPECT_THROW(write_file_atomically("/dev/full", std::string("one")), UserError);
  EXPECT_TRUE(fs::is_character_file("/dev/full"));
  ASSERT_EQ(::mkfifo(path("fifo").c_str(), 0600), 0);
  std::string received;
  std::thread reader([&] { received = contents("fifo"); });
  write_file_atomically(path("fifo"), std::string("two"));
  reader.join();
  EXPECT_EQ(received, "two");
  EXPECT_TRUE(fs::is_fifo(path("fifo")));
}

TEST_F(Files, OfOtherModesAreRefused) {
  // Root may write everything.
  const uid_t user = ::geteuid();
  constexpr uid_t kNobody = 65534;
  if (user == 0) {
    ASSERT_EQ(::chown(folder_.c_str(), kNobody, kNobody), 0);
    ASSERT_EQ(::seteuid(kNobody), 0);
  }
  write_file_atomically(path("a"), std::string("one"));
  ::chmod(path("a").c_str(), 0440);
  EXPECT_THROW(write_file_atomically(path("a"), std::string("two")), UserError);
  ::chmod(path("a").c_str(), 0640);
  ::chmod(folder_.c_str(), 0500);
  write_file_atomically(path("a"), std::string("three"));
  EXPECT_THROW(write_file_atomically(path("b"), std::string("four")), UserError);
  EXPECT_THROW(check_outputs(std::vector<std::string>{path("b")}), UserError);
  ::chmod(folder_.c_str(), 0700);
  ASSERT_EQ(::seteuid(user), 0);
  EXPECT_EQ(contents("a"), "three");
}

TEST_F(Files, AreCheckedBeforeTheWork) {
  write_file_atomically(path("a"), std::string("one"));
  fs::create_symlink("a", path("b"));
  const auto check = [](std::vector<std::string> paths) { return check_outputs(paths); };
  EXPECT_FALSE(check({path("a"), path("c"), "", "", "/dev/null", "/dev/null"}));
  EXPECT_TRUE(check({path("a"), "-"}));
  EXPECT_THROW(check({"-", "-"}), UserError);
  EXPECT_THROW(check({path("a"), path("b")}), UserError);
  EXPECT_THROW(check({path("c"), (folder_ / "." / "c").string()}), UserError);
  EXPECT_THROW(check({path("missing/c")}), UserError);
  EXPECT_THROW(check({path("a/c")}), UserError);
  EXPECT_THROW(check({path("")}), UserError);
  EXPECT_THROW(check({folder_.string()}), UserError);
  EXPECT_EQ(contents("a"), "one");
  EXPECT_EQ(count(), 2U);
  check_output_directory("");
  check_output_directory(folder_.string());
  check_output_directory(path("c/d"));
  EXPECT_THROW(check_output_directory(path("a")), UserError);
  EXPECT_THROW(check_output_directory(path("a/d")), UserError);
  EXPECT_THROW(check_output_directory("/dev/null/d"), UserError);
  EXPECT_EQ(count(), 2U);
}

TEST_F(Files, OfKilledProcessesAreRemoved) {
  // A number that no process has.
  const pid_t gone = ::fork();
  if (gone == 0) ::_exit(0);
  ASSERT_EQ(::waitpid(gone, nullptr, 0), gone);
  // Every directory is looked through once.
  folder_ /= "another";
  const std::string stale = ".kodama." + std::to_string(gone) + ".0.tmp";
  fs::create_directories(path(stale) + "/programs");
  const std::string living = ".kodama." + std::to_string(::getppid()) + ".0.tmp";
  fs::create_directory(path(living));
  fs::create_directory(path(".kodama.mine.tmp"));
  write_file_atomically(path("a"), std::string("one"));
  EXPECT_FALSE(fs::exists(path(stale)));
  EXPECT_TRUE(fs::exists(path(living)));
  EXPECT_TRUE(fs::exists(path(".kodama.mine.tmp")));
  folder_ = folder_.parent_path();
}

TEST_F(Files, ThatAreNotFinishedGoWithASignal) {
  for (const int number : {SIGINT, SIGTERM}) {
    std::array<int, 2> ready{};
    ASSERT_EQ(::pipe(ready.data()), 0);
    const pid_t child = ::fork();
    if (child == 0) {
      std::signal(number, SIG_DFL);  // a job in the background may have been told to ignore it
      remove_temporaries_on_signals();
      std::error_code error;
      const auto folder = Temporary::make(Temporary::Kind::kFolder, folder_, error);
      std::ofstream(folder->path() / "part") << "one";
      const auto file = Temporary::make(Temporary::Kind::kFile, folder_, error);
      if (::write(ready[1], "1", 1) != 1) ::_exit(1);
      ::pause();
      ::_exit(0);
    }
    char byte = 0;
    ASSERT_EQ(::read(ready[0], &byte, 1), 1);
    EXPECT_EQ(count(), 2U);
    ::kill(child, number);
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == number);
    EXPECT_EQ(count(), 0U);
    ::close(ready[0]);
    ::close(ready[1]);
  }
}

TEST_F(Files, ThatAreNotFinishedStayWhereASignalHasAHandler) {
  const pid_t child = ::fork();
  if (child == 0) {
    static volatile std::sig_atomic_t came = 0;
    remove_temporaries_on_signals();
    std::error_code error;
    const auto file = Temporary::make(Temporary::Kind::kFile, folder_, error);
    struct sigaction action {};
    action.sa_handler = [](int) { came = 1; };
    action.sa_flags = static_cast<int>(SA_RESETHAND);
    ::sigaction(SIGINT, &action, nullptr);
    ::kill(::getpid(), SIGINT);
    while (came == 0) ::usleep(1000);
    // It goes on, and makes other files; the next one ends it.
    const auto another = Temporary::make(Temporary::Kind::kFile, folder_, error);
    if (!another || !fs::exists(file->path())) ::_exit(1);
    ::kill(::getpid(), SIGINT);
    while (true) ::pause();
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGINT);
  EXPECT_EQ(count(), 0U);
}

TEST_F(Files, ChangeNamesInOneStep) {
  fs::create_directory(path("old"));
  std::ofstream(path("old/a")) << "one";
  {
    std::error_code error;
    const auto folder = Temporary::make(Temporary::Kind::kFolder, folder_, error);
    std::ofstream(folder->path() / "a") << "two";
    EXPECT_FALSE(folder->exchange_with(path("old")));
    EXPECT_EQ(contents("old/a"), "two");
    EXPECT_TRUE(folder->exchange_with(path("missing")));
  }
  EXPECT_EQ(contents("old/a"), "two");
  EXPECT_EQ(count(), 1U);
}

}  // namespace
}  // namespace kodama::isa
