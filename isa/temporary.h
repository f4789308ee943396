#pragma once

#include <filesystem>
#include <memory>
#include <mutex>
#include <system_error>

namespace kodama::isa {

/// A file or folder that isn't finished, under a name of its own (`.kodama.PID.N.tmp`) beside the place where
/// it belongs. It is gone when this object is, and when SIGINT, SIGTERM or SIGHUP ends the process
/// (remove_temporaries_on_signals), unless it was moved. A process that is killed leaves it; the next one
/// that makes a temporary in the same directory removes it.
class Temporary {
 public:
  enum class Kind { kFile, kFolder };
  /// Null when it can't be made; `error` says why.
  static std::unique_ptr<Temporary> make(Kind kind, const std::filesystem::path& directory,
                                         std::error_code& error);
  ~Temporary();
  Temporary(const Temporary&) = delete;
  Temporary& operator=(const Temporary&) = delete;

  const std::filesystem::path& path() const { return path_; }
  /// Open for writing if it is a file. It stays this object's.
  int descriptor() const { return descriptor_; }

  /// Gives it its name, in place of the file or empty folder that has it.
  std::error_code move_to(const std::filesystem::path& target);
  /// Changes names with `target`, which must exist, in one step. What `target` was is the temporary now.
  std::error_code exchange_with(const std::filesystem::path& target);

 private:
  Temporary(std::filesystem::path path, int descriptor);

  std::filesystem::path path_;
  int descriptor_;  ///< locked as long as the object lives: whether a temporary is stale
};

/// While somebody holds this, no signal removes temporaries. Whoever makes files in a temporary folder holds
/// it, so that none appears behind the removal's back.
std::unique_lock<std::mutex> hold_temporaries();

/// Lets SIGINT, SIGTERM and SIGHUP (those that aren't ignored) remove all temporaries before they end the
/// process. One that has got a handler since goes to that, and removes nothing. Called once, before there are
/// threads.
void remove_temporaries_on_signals();

}  // namespace kodama::isa
