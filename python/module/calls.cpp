#include "python/module/calls.h"

#include <chrono>
#include <condition_variable>
#include <filesystem>
#include <mutex>
#include <optional>
#include <shared_mutex>
#include <system_error>
#include <thread>
#include <utility>

#include "isa/user_errors.h"

namespace kodama::python {
namespace {

/// How often a waiting caller looks for signals.
constexpr std::chrono::milliseconds kLook{20};

/// A call of run_long().
struct LongCall {
  std::mutex mutex;
  std::condition_variable changed;
  bool is_done = false;
  std::exception_ptr error;
  std::unique_ptr<py::error_already_set> from_pass;  ///< guarded by the interpreter's lock
};
/// That the thread works for; null: none.
thread_local LongCall* current_call = nullptr;

/// Held shared by work, alone by who registers passes.
std::shared_mutex& registries() {
  static std::shared_mutex mutex;
  return mutex;
}

void work_for(LongCall& call, const isa::Cancellation& cancellation, bool is_inner,
              const std::function<void()>& work) {
  LongCall* const outer = std::exchange(current_call, &call);
  try {
    std::shared_lock lock(registries(), std::defer_lock);
    if (!is_inner) lock.lock();  // else the outer one holds it
    const isa::CancellationScope scope(cancellation);
    work();
  } catch (...) {
    call.error = std::current_exception();
  }
  current_call = outer;
  const std::lock_guard lock(call.mutex);
  call.is_done = true;
  call.changed.notify_all();
}

bool outer_is_cancelled() {
  try {
    isa::stop_if_cancelled();
    return false;
  } catch (const isa::Cancelled&) {
    return true;
  }
}

py::object error_type(const char* name) {
  return py::module_::import("kodama.errors").attr(name);
}
py::object make_error(const char* type, const std::string& text) {
  return error_type(type)(string_of(text));
}
void set_error(const char* type, const std::string& text) {
  PyErr_SetObject(error_type(type).ptr(), make_error(type, text).ptr());
}

}  // namespace

py::str string_of(const std::string& text) {
  return py::reinterpret_steal<py::str>(
      PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()), "replace"));
}
py::list strings_of(const std::vector<std::string>& texts) {
  py::list all;
  for (const std::string& text : texts) all.append(string_of(text));
  return all;
}

void run_long(const std::function<void()>& work) {
  LongCall call;
  isa::Cancellation cancellation;
  std::unique_ptr<py::error_already_set> interruption;
  const bool is_inner = current_call != nullptr;
  {
    const py::gil_scoped_release unlocked;
    std::thread worker;
    try {
      worker = std::thread([&] { work_for(call, cancellation, is_inner, work); });
    } catch (const std::system_error&) {  // no thread to be had: without signals, then
      work_for(call, cancellation, is_inner, work);
    }
    std::unique_lock lock(call.mutex);
    while (!call.changed.wait_for(lock, kLook, [&] { return call.is_done; })) {
      lock.unlock();
      if (is_inner && outer_is_cancelled()) cancellation.cancel();
      {
        const py::gil_scoped_acquire locked;
        if (PyErr_CheckSignals() != 0) {
          auto thrown = std::make_unique<py::error_already_set>();
          if (!interruption) interruption = std::move(thrown);
          cancellation.cancel();
        }
      }
      lock.lock();
    }
    lock.unlock();
    if (worker.joinable()) worker.join();
  }
  if (interruption) throw py::error_already_set(*interruption);
  if (!call.error) return;
  try {
    std::rethrow_exception(call.error);
  } catch (const isa::Cancelled&) {
    if (call.from_pass) throw py::error_already_set(*call.from_pass);
    throw;  // of an outer call
  } catch (const isa::PassError& error) {
    if (!call.from_pass) throw;
    const py::object exception = make_error("PassError", error.what());
    if (call.from_pass->trace())
      PyException_SetTraceback(call.from_pass->value().ptr(), call.from_pass->trace().ptr());
    exception.attr("__cause__") = call.from_pass->value();
    PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(exception.ptr())), exception.ptr());
    throw py::error_already_set();
  } catch (const isa::Error&) {
    throw;
  } catch (const std::exception&) {
    if (call.from_pass) throw py::error_already_set(*call.from_pass);  // of a function that is no pass
    throw;
  }
}

void register_alone(const std::function<void()>& registering) {
  if (current_call != nullptr)
    throw isa::UserError("a pass is registered by a pass that runs; allowed: before it runs");
  static thread_local bool is_inside = false;  // a plugin that is loaded registers its passes
  if (is_inside) return registering();
  const py::gil_scoped_release unlocked;
  const std::lock_guard lock(registries());
  is_inside = true;
  const std::unique_ptr<bool, void (*)(bool*)> end(&is_inside, [](bool* inside) { *inside = false; });
  registering();
}

void keep_error(py::error_already_set& error) {
  if (current_call != nullptr && !current_call->from_pass)
    current_call->from_pass = std::make_unique<py::error_already_set>(error);
}

std::string text_of(const py::error_already_set& error) {
  const auto name = py::str(error.type().attr("__name__")).cast<std::string>();
  const auto text = py::str(error.value()).cast<std::string>();
  std::string where;
  if (error.trace()) {
    py::object last = error.trace();
    while (!last.attr("tb_next").is_none()) last = last.attr("tb_next");
    where = fmt::format(" ({}, line {})",
                        py::str(last.attr("tb_frame").attr("f_code").attr("co_filename")).cast<std::string>(),
                        last.attr("tb_lineno").cast<int>());
  }
  return fmt::format("{}{}{}{}", name, text.empty() ? "" : ": ", text, where);
}

void rethrow_own_errors(const py::error_already_set& error) {
  const auto text = [&] { return py::str(error.value()).cast<std::string>(); };
  if (error.matches(error_type("UserError"))) throw isa::UserError(text());
  if (error.matches(error_type("UnsupportedError"))) throw isa::UnsupportedError(text());
  if (error.matches(error_type("CancelledError"))) throw isa::Cancelled();
}

void register_errors() {
  // The most special one last: translators are asked in the reverse order.
  py::register_exception_translator([](std::exception_ptr thrown) {
    try {
      if (thrown) std::rethrow_exception(thrown);
    } catch (const isa::UserErrors& errors) {
      const py::object exception = make_error("UserError", errors.what());
      exception.attr("messages") = strings_of(errors.messages());
      PyErr_SetObject(error_type("UserError").ptr(), exception.ptr());
    } catch (const isa::UserError& error) {
      set_error("UserError", error.what());
    } catch (const isa::UnsupportedError& error) {
      set_error("UnsupportedError", error.what());
    } catch (const isa::PassError& error) {
      set_error("PassError", error.what());
    } catch (const isa::InternalError& error) {
      set_error("InternalError", error.what());
    } catch (const isa::Cancelled&) {
      set_error("CancelledError", "the work around this was told to end");
    } catch (const std::filesystem::filesystem_error& error) {
      set_error("UserError", fmt::format("{}: {}", error.path1().string(), error.code().message()));
    }
  });
}

}  // namespace kodama::python
