#include "isa/temporary.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <pthread.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstdio>
#include <set>
#include <string>
#include <thread>
#include <utility>

namespace kodama::isa {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPrefix = ".kodama.";
constexpr std::string_view kSuffix = ".tmp";

struct Registry {
  std::mutex mutex;
  std::set<fs::path> temporaries;
  std::set<fs::path> cleaned;  ///< directories that were looked through for stale ones
  int64_t made = 0;
};
/// Never destroyed: the thread that waits for signals may need it until the very end.
Registry& registry() {
  static auto* const instance = new Registry;
  return *instance;
}

std::error_code last_error() {
  return {errno, std::generic_category()};
}

/// The process that made a temporary of this name, or 0.
pid_t maker(const std::string& name) {
  if (!name.starts_with(kPrefix) || !name.ends_with(kSuffix)) return 0;
  pid_t process = 0;
  const char* const end = name.data() + name.size();
  const auto [rest, error] = std::from_chars(name.data() + kPrefix.size(), end, process);
  return error == std::errc() && rest != end && *rest == '.' && process > 0 ? process : 0;
}

/// Whether nobody has it: its process is gone, and no process (of another container, say, where the same
/// number means another) holds its lock.
bool is_stale(const fs::path& path) {
  const pid_t process = maker(path.filename().string());
  if (process == 0 || ::kill(process, 0) == 0 || errno != ESRCH) return false;
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
  if (descriptor < 0) return false;
  const bool free = ::flock(descriptor, LOCK_EX | LOCK_NB) == 0;
  ::close(descriptor);
  return free;
}

void remove_stale(const fs::path& directory) {
  std::error_code error;
  for (fs::directory_iterator at(directory, error), end; !error && at != end; at.increment(error)) {
    if (!is_stale(at->path())) continue;
    std::error_code ignored;
    fs::remove_all(at->path(), ignored);
  }
}

}  // namespace

std::unique_ptr<Temporary> Temporary::make(Kind kind, const fs::path& directory, std::error_code& error) {
  const auto hold = hold_temporaries();
  Registry& all = registry();
  if (all.cleaned.insert(directory).second) remove_stale(directory);
  while (true) {
    const fs::path path = directory / fmt::format("{}{}.{}{}", kPrefix, ::getpid(), all.made++, kSuffix);
    int descriptor = -1;
    if (kind == Kind::kFile) {
      descriptor = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    } else if (::mkdir(path.c_str(), 0777) == 0) {
      descriptor = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    }
    if (descriptor < 0) {
      if (errno == EEXIST) continue;  // of an earlier process with our number
      error = last_error();
      return nullptr;
    }
    ::flock(descriptor, LOCK_EX | LOCK_NB);
    all.temporaries.insert(path);
    error.clear();
    return std::unique_ptr<Temporary>(new Temporary(path, descriptor));
  }
}

Temporary::Temporary(fs::path path, int descriptor) : path_(std::move(path)), descriptor_(descriptor) {}

Temporary::~Temporary() {
  const auto hold = hold_temporaries();
  if (!path_.empty()) {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
    registry().temporaries.erase(path_);
  }
  ::close(descriptor_);
}

std::error_code Temporary::move_to(const fs::path& target) {
  const auto hold = hold_temporaries();
  std::error_code error;
  fs::rename(path_, target, error);
  if (error) return error;
  registry().temporaries.erase(path_);
  path_.clear();
  return {};
}

std::error_code Temporary::exchange_with(const fs::path& target) {
  const auto hold = hold_temporaries();
  const int done = ::renameat2(AT_FDCWD, path_.c_str(), AT_FDCWD, target.c_str(), RENAME_EXCHANGE);
  if (done == 0) return {};
  if (errno != EINVAL && errno != ENOSYS) return last_error();
  // A file system that can't: three steps, of which the middle one is taken back when the last fails.
  const fs::path aside = path_.string() + ".old";
  std::error_code error;
  fs::rename(target, aside, error);
  if (error) return error;
  fs::rename(path_, target, error);
  std::error_code ignored;
  fs::rename(aside, error ? target : path_, ignored);
  return error;
}

std::unique_lock<std::mutex> hold_temporaries() {
  return std::unique_lock(registry().mutex);
}

void remove_temporaries_on_signals() {
  sigset_t signals;
  sigemptyset(&signals);
  bool any = false;
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) {
    struct sigaction action {};
    if (::sigaction(number, nullptr, &action) != 0 || action.sa_handler != SIG_DFL) continue;
    sigaddset(&signals, number);
    any = true;
  }
  if (!any) return;
  registry();
  // Every thread that is made from now on has them blocked, but this one, which may do what no handler may.
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  std::thread([signals] {
    int number = 0;
    for (;;) {
      if (sigwait(&signals, &number) != 0) return;
      struct sigaction action {};
      if (::sigaction(number, nullptr, &action) != 0 || action.sa_handler == SIG_DFL) break;
      // Somebody has a handler for it, and goes on.
      sigset_t one;
      sigemptyset(&one);
      sigaddset(&one, number);
      pthread_sigmask(SIG_UNBLOCK, &one, nullptr);
      ::pthread_kill(::pthread_self(), number);
      pthread_sigmask(SIG_BLOCK, &one, nullptr);
    }
    const auto hold = hold_temporaries();  // for good: whoever wants to make another file waits for the end
    for (const fs::path& path : registry().temporaries) {
      std::error_code ignored;
      fs::remove_all(path, ignored);
    }
    pthread_sigmask(SIG_UNBLOCK, &signals, nullptr);
    ::kill(::getpid(), number);
    while (true) ::pause();
  }).detach();
}

}  // namespace kodama::isa
