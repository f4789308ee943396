#include "compiler/driver/child_process.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <map>
#include <vector>

#include "isa/error.h"

namespace kodama::compiler {
namespace {

using Clock = std::chrono::steady_clock;
/// A process that waits for what never comes uses no processor time.
constexpr int kWallFactor = 20;

struct Child {
  int64_t number = 0;
  pid_t pid = 0;
  int pipe = 0;
  Clock::time_point deadline;
  bool is_overdue = false;
  std::string text = {};
};

[[noreturn]] void be_child(int pipe, int seconds, const std::function<std::string()>& work) {
  const rlimit limit{static_cast<rlim_t>(seconds), static_cast<rlim_t>(seconds) + 5};
  ::setrlimit(RLIMIT_CPU, &limit);
  const rlimit no_core{0, 0};
  ::setrlimit(RLIMIT_CORE, &no_core);
  const std::string text = work();
  for (size_t sent = 0; sent < text.size();) {
    const ssize_t some = ::write(pipe, text.data() + sent, text.size() - sent);
    if (some < 0 && errno != EINTR) ::_exit(1);
    if (some > 0) sent += static_cast<size_t>(some);
  }
  ::_exit(0);
}

Child start(int64_t number, int seconds, const std::function<std::string(int64_t)>& work) {
  std::array<int, 2> ends{};
  if (::pipe(ends.data()) != 0)
    throw isa::UserError(fmt::format("can't make a pipe to a process: {}", std::strerror(errno)));
  const pid_t pid = ::fork();
  if (pid < 0) {
    const int error = errno;
    ::close(ends[0]);
    ::close(ends[1]);
    throw isa::UserError(fmt::format("can't start a process: {}", std::strerror(error)));
  }
  if (pid == 0) {
    ::close(ends[0]);
    be_child(ends[1], seconds, [&] { return work(number); });
  }
  ::close(ends[1]);
  return {number, pid, ends[0], Clock::now() + std::chrono::seconds(kWallFactor * seconds)};
}

std::string death_of(int status, bool is_overdue, int seconds) {
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return "";
  if (WIFEXITED(status)) return fmt::format("exit code {}", WEXITSTATUS(status));
  const int signal = WTERMSIG(status);
  if (is_overdue) return fmt::format("no end after {} s", kWallFactor * seconds);
  if (signal == SIGXCPU) return fmt::format("more than {} s of processor time", seconds);
  return fmt::format("signal {} ({})", signal, ::strsignal(signal));
}

}  // namespace

void run_in_children(int64_t count, int jobs, int seconds, const std::function<std::string(int64_t)>& work,
                     const std::function<void(int64_t, const ChildResult&)>& done) {
  std::vector<Child> running;
  std::map<int64_t, ChildResult> finished;  ///< that wait for those before them
  int64_t next = 0;
  int64_t told = 0;
  while (told < count) {
    while (next < count && static_cast<int>(running.size()) < jobs)
      running.push_back(start(next++, seconds, work));
    std::vector<pollfd> polled;
    for (const Child& child : running) polled.push_back({child.pipe, POLLIN, 0});
    ::poll(polled.data(), polled.size(), 1000);
    for (size_t k = running.size(); k-- > 0;) {
      Child& child = running[k];
      if (!child.is_overdue && Clock::now() > child.deadline) {
        child.is_overdue = true;
        ::kill(child.pid, SIGKILL);
      }
      if (polled[k].revents == 0) continue;
      std::array<char, 65536> buffer{};
      const ssize_t some = ::read(child.pipe, buffer.data(), buffer.size());
      if (some > 0) child.text.append(buffer.data(), static_cast<size_t>(some));
      if (some > 0 || (some < 0 && errno == EINTR)) continue;
      ::close(child.pipe);
      int status = 0;
      while (::waitpid(child.pid, &status, 0) < 0 && errno == EINTR) {
      }
      ChildResult result{std::move(child.text), death_of(status, child.is_overdue, seconds)};
      if (!result.death.empty()) result.text.clear();
      finished.emplace(child.number, std::move(result));
      running.erase(running.begin() + static_cast<ptrdiff_t>(k));
    }
    while (!finished.empty() && finished.begin()->first == told) {
      done(told, finished.begin()->second);
      finished.erase(finished.begin());
      ++told;
    }
  }
}

}  // namespace kodama::compiler
