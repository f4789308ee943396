#pragma once

#include <fmt/format.h>
#include <pybind11/pybind11.h>

#include <exception>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "isa/cancellation.h"
#include "isa/error.h"

/// The border between Python and Kodama: who has the interpreter's lock, what ends work that takes long, and
/// how errors pass in both directions.
///
/// Python calls Kodama: whatever may take long goes through run_long().
///
///     std::string asm_text(const std::string& text) {
///       std::string result;
///       run_long([&] { result = ...; });   // without the lock
///       return result;
///     }
///
/// Kodama calls Python, in a pass: through call_python().
///
///     .run = [function](const ScheduleProblem& problem, const PassOptions& options) {
///       const std::string answer = call_python([&] { return std::string(py::str(function(...))); });
///       ...
namespace kodama::python {

namespace py = pybind11;

/// Texts with pieces of the user's input, which need not be UTF-8: what isn't becomes U+FFFD.
py::str string_of(const std::string& text);
py::list strings_of(const std::vector<std::string>& texts);

/// Runs work on a thread of its own, without the interpreter's lock; the caller waits for its end or for
/// signals. Ctrl-C, or whatever else a handler of Python throws, ends the work (isa/cancellation.h) and is
/// what this throws. While it runs nobody registers passes (register_alone), which it may use.
void run_long(const std::function<void()>& work);

/// Registers passes, without the interpreter's lock, while no work runs that might use them. UserError in a
/// pass itself, which would wait for its own end.
void register_alone(const std::function<void()>& registering);

/// What a pass in Python has thrown; run_long() makes it the cause of the error that Kodama makes of it, or,
/// where Kodama makes none (of a function for progress), throws it.
void keep_error(py::error_already_set& error);
/// The text of an exception: "KeyError: 3 (mine.py, line 12)".
std::string text_of(const py::error_already_set& error);
/// UserError, UnsupportedError or Cancelled if it is one of them.
void rethrow_own_errors(const py::error_already_set& error);

/// Calls a function of Python from a pass; what `call` returns must be no object of Python's. Errors of
/// Kodama that it throws are the same here; others are the pass's fault (passes/registry.h), and what is no
/// Exception (KeyboardInterrupt, SystemExit) ends the work.
template <typename Call>
auto call_python(const Call& call) {
  const py::gil_scoped_acquire lock;
  try {
    return call();
  } catch (py::error_already_set& error) {
    if (!error.matches(PyExc_Exception)) {
      keep_error(error);
      throw isa::Cancelled();
    }
    rethrow_own_errors(error);
    const std::string text = text_of(error);
    keep_error(error);
    throw std::runtime_error(text);
  }
}

/// Makes Kodama's errors the exceptions of kodama.errors.
void register_errors();

}  // namespace kodama::python
