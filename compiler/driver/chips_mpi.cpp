#include <fcntl.h>
#include <fmt/format.h>
#include <mpi.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <limits>
#include <thread>

#include "compiler/driver/chips.h"
#include "compiler/driver/session.h"
#include "isa/error.h"

/// chips.h by MPI.
namespace kodama::compiler {

namespace {

/// MPI's own waiting keeps a processor busy, which the simulators of other chips could use.
void wait_for(MPI_Request& request) {
  constexpr auto kLongest = std::chrono::microseconds(1000);
  auto pause = std::chrono::microseconds(20);
  int is_done = 0;
  for (;;) {
    MPI_Test(&request, &is_done, MPI_STATUS_IGNORE);
    if (is_done != 0) return;
    std::this_thread::sleep_for(pause);
    pause = std::min(2 * pause, kLongest);
  }
}

class MpiChips : public Chips {
 public:
  MpiChips() : exceptions_(std::uncaught_exceptions()) {
    MPI_Init(nullptr, nullptr);
    MPI_Comm_rank(MPI_COMM_WORLD, &number_);
    MPI_Comm_size(MPI_COMM_WORLD, &count_);
    MPI_Comm here = MPI_COMM_NULL;
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &here);
    MPI_Comm_size(here, &count_here_);
    MPI_Comm_free(&here);
  }
  ~MpiChips() override {
    // Others would wait for this one; without an end of its own mpirun ends them.
    if (std::uncaught_exceptions() == exceptions_) MPI_Finalize();
  }
  MpiChips(const MpiChips&) = delete;
  MpiChips& operator=(const MpiChips&) = delete;

  int number() const override { return number_; }
  int count() const override { return count_; }
  int count_here() const override { return count_here_; }

  std::vector<std::byte> exchange(const std::vector<std::byte>& sent) override {
    std::vector<std::byte> received(sent.size());
    const int block = checked_size(sent.size() / static_cast<size_t>(count_));
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_Ialltoall(sent.data(), block, MPI_BYTE, received.data(), block, MPI_BYTE, MPI_COMM_WORLD, &request);
    wait_for(request);
    return received;
  }
  std::vector<std::byte> gather(const std::vector<std::byte>& given) override {
    std::vector<std::byte> all(given.size() * static_cast<size_t>(count_));
    const int block = checked_size(given.size());
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_Iallgather(given.data(), block, MPI_BYTE, all.data(), block, MPI_BYTE, MPI_COMM_WORLD, &request);
    wait_for(request);
    return all;
  }
  bool any(bool own) override {
    const int said = own ? 1 : 0;
    int result = 0;
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_Iallreduce(&said, &result, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD, &request);
    wait_for(request);
    return result != 0;
  }

 private:
  static int checked_size(size_t bytes) {
    if (bytes > static_cast<size_t>(std::numeric_limits<int>::max()))
      throw isa::UnsupportedError(
          "--chips: gradients of more than 2 GB for every chip; use more chips, or train fewer parameters");
    return static_cast<int>(bytes);
  }

  int exceptions_;
  int number_ = 0;
  int count_ = 0;
  int count_here_ = 0;
};

volatile std::sig_atomic_t started_process = 0;
volatile std::sig_atomic_t was_asked = 0;

/// Of the process that waits for mpirun. The first Ctrl-C asks the chips to end behind their step, the next
/// one ends mpirun.
void pass_on(int signal) {
  const auto child = static_cast<pid_t>(started_process);
  if (child > 0) ::kill(child, signal == SIGINT && was_asked == 0 ? SIGUSR1 : SIGTERM);
  was_asked = 1;
}

[[noreturn]] void be_mpirun(int count, const std::vector<std::string>& command) {
  ::setpgid(0, 0);  // the terminal's Ctrl-C is for the process that waits
  sigset_t none;
  sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);  // whoever started this process may have blocked some
  ::prctl(PR_SET_PDEATHSIG, SIGTERM);
  const int null = ::open("/dev/null", O_RDONLY);
  if (null >= 0) ::dup2(null, STDIN_FILENO);
  // Open MPI wants these to be said; MPICH has no such rules.
  ::setenv("OMPI_ALLOW_RUN_AS_ROOT", "1", 0);
  ::setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1", 0);
  ::setenv("OMPI_MCA_rmaps_base_oversubscribe", "1", 0);
  const std::string processes = std::to_string(count);
  std::vector<const char*> arguments = {"mpirun", "-n", processes.c_str()};
  for (const std::string& argument : command) arguments.push_back(argument.c_str());
  arguments.push_back(nullptr);
  ::execvp("mpirun", const_cast<char* const*>(arguments.data()));  // NOLINT: as POSIX has it
  constexpr int kNoProgram = 127;
  ::_exit(kNoProgram);
}

}  // namespace

std::optional<int> started_as_one_of() {
  for (const char* name : {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE"}) {
    if (const char* text = std::getenv(name)) return std::atoi(text);
  }
  return std::nullopt;
}

std::unique_ptr<Chips> make_chips(int count) {
  auto chips = std::make_unique<MpiChips>();
  if (chips->count() != count)
    throw isa::UserError(fmt::format("--chips {}: mpirun has started {} processes; give both the same number",
                                     count, chips->count()));
  return chips;
}

int start_on_chips(int count, const std::vector<std::string>& command) {
  const pid_t child = ::fork();
  if (child < 0) throw isa::UserError(fmt::format("can't start a process: {}", std::strerror(errno)));
  if (child == 0) be_mpirun(count, command);
  started_process = child;
  was_asked = 0;
  struct sigaction action = {};
  action.sa_handler = pass_on;
  struct sigaction on_interrupt = {};
  struct sigaction on_end = {};
  sigaction(SIGINT, &action, &on_interrupt);
  sigaction(SIGTERM, &action, &on_end);
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  started_process = 0;
  sigaction(SIGINT, &on_interrupt, nullptr);
  sigaction(SIGTERM, &on_end, nullptr);
  constexpr int kNoProgram = 127;
  if (WIFEXITED(status) && WEXITSTATUS(status) == kNoProgram)
    throw isa::UnsupportedError(
        "--chips: there is no mpirun; install the Debian package mpich (or that of the MPI that Kodama was "
        "built with)");
  if (was_asked != 0) return isa::kExitInterrupted;
  const int code = WIFEXITED(status) ? WEXITSTATUS(status) : 0;
  // What the chips' processes have said themselves needs no more words.
  for (const int known :
       {isa::kExitOk, isa::kExitUserError, isa::kExitUnsupported, isa::kExitInternalError}) {
    if (WIFEXITED(status) && code == known) return code;
  }
  throw isa::UserError(fmt::format(
      "--chips: training has ended with {}, since a process that simulates a chip, or mpirun, was ended; a "
      "checkpoint (--checkpoint-every) has what was done before",
      WIFEXITED(status) ? fmt::format("code {}", code) : fmt::format("signal {}", WTERMSIG(status))));
}

}  // namespace kodama::compiler
