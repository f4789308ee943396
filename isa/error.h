#pragma once

#include <fmt/format.h>

#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

/// The three kinds of errors. Every failure in Kodama is one of them, and only these are thrown:
///
///  * UserError: the input is wrong. The message starts with the place ("chip.yaml:12:3" or
///    "model.onnx: node 'conv1' (Conv)"), says what was found and what is allowed.
///  * UnsupportedError: the input is valid but Kodama can't do it (yet). The message names the
///    feature and says what to do instead.
///  * InternalError: our bug. The message names the part and what reproduces it.
///
/// The command line maps them to exit codes 2, 3 and 70.
namespace kodama::isa {

/// Where in an input something is wrong. `line` and `column` count from 1; 0 means "not known".
struct SourceLocation {
  std::string file;
  int line = 0;
  int column = 0;

  std::string to_string() const {
    if (line == 0) return file;
    if (column == 0) return fmt::format("{}:{}", file, line);
    return fmt::format("{}:{}:{}", file, line, column);
  }
};

class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

class UserError : public Error {
 public:
  explicit UserError(const std::string& message) : Error(message) {}
  UserError(const SourceLocation& where, const std::string& message)
      : Error(where.to_string() + ": " + message) {}
};

class UnsupportedError : public Error {
 public:
  using Error::Error;
};

class InternalError : public Error {
 public:
  using Error::Error;
};

/// An InternalError whose cause is known not to be ours: a pass of a plugin broke its contract. The message
/// names the pass, its plugin, and the rule.
class PassError : public InternalError {
 public:
  using InternalError::InternalError;
};

/// Checks an invariant of ours in every build; `part` names the pass or module.
template <typename... Args>
void check_internal(bool condition, std::string_view part, fmt::format_string<Args...> format,
                    Args&&... args) {
  if (!condition) {
    throw InternalError(
        fmt::format("internal error in {}: {}", part, fmt::format(format, std::forward<Args>(args)...)));
  }
}

}  // namespace kodama::isa
