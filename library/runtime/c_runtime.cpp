#include <fmt/format.h>
#include <kodama/c_runtime.h>
#include <kodama/runtime.h>

#include <algorithm>
#include <cstring>
#include <new>
#include <optional>
#include <utility>

using kodama::Error;
using kodama::InternalError;
using kodama::UnsupportedError;
using kodama::UserError;

// The same types in C.
static_assert(KODAMA_FLOAT32 == static_cast<int>(kodama::ElementType::kFloat32));
static_assert(KODAMA_UINT8 == static_cast<int>(kodama::ElementType::kUint8));
static_assert(KODAMA_INT8 == static_cast<int>(kodama::ElementType::kInt8));
static_assert(KODAMA_UINT16 == static_cast<int>(kodama::ElementType::kUint16));
static_assert(KODAMA_INT16 == static_cast<int>(kodama::ElementType::kInt16));
static_assert(KODAMA_INT32 == static_cast<int>(kodama::ElementType::kInt32));
static_assert(KODAMA_INT64 == static_cast<int>(kodama::ElementType::kInt64));
static_assert(KODAMA_STRING == static_cast<int>(kodama::ElementType::kString));
static_assert(KODAMA_BOOL == static_cast<int>(kodama::ElementType::kBool));
static_assert(KODAMA_FLOAT16 == static_cast<int>(kodama::ElementType::kFloat16));
static_assert(KODAMA_FLOAT64 == static_cast<int>(kodama::ElementType::kFloat64));
static_assert(KODAMA_UINT32 == static_cast<int>(kodama::ElementType::kUint32));
static_assert(KODAMA_UINT64 == static_cast<int>(kodama::ElementType::kUint64));
static_assert(KODAMA_COMPLEX64 == static_cast<int>(kodama::ElementType::kComplex64));
static_assert(KODAMA_COMPLEX128 == static_cast<int>(kodama::ElementType::kComplex128));
static_assert(KODAMA_BFLOAT16 == static_cast<int>(kodama::ElementType::kBfloat16));

struct kodama_package {
  kodama::Package package;
  std::vector<kodama::ValueInfo> inputs, outputs;
};

struct kodama_session {
  kodama::PackageSession session;
  std::vector<kodama::ValueInfo> known;  ///< inputs
  kodama::Tensors inputs;
  std::optional<kodama::Outcome> outcome;
};

namespace {

thread_local std::string last_error;  // NOLINT: what C programs ask for

/// What `call` throws as a status and a text. A text that there is no memory for stays what it was.
template <typename Call>
kodama_status guarded(Call&& call) noexcept {
  const auto failed = [](kodama_status status, const char* text) noexcept {
    try {
      last_error = text;
    } catch (...) {
      last_error.clear();
    }
    return status;
  };
  try {
    call();
    return KODAMA_OK;
  } catch (const UserError& error) {
    return failed(KODAMA_USER_ERROR, error.what());
  } catch (const UnsupportedError& error) {
    return failed(KODAMA_UNSUPPORTED, error.what());
  } catch (const std::bad_alloc&) {
    return failed(KODAMA_NO_MEMORY, "there isn't enough memory");
  } catch (const std::exception& error) {
    return failed(KODAMA_INTERNAL_ERROR, error.what());
  } catch (...) {
    return failed(KODAMA_INTERNAL_ERROR, "something that is no exception was thrown");
  }
}

void want(const void* pointer, const char* what) {
  if (pointer == nullptr) throw UserError(fmt::format("{} is NULL", what));
}

size_t bytes_of(const kodama::ValueInfo& info) {
  if (info.type == kodama::ElementType::kString) return 0;
  return kodama::Tensor(*info.type, info.shape).bytes().size();
}

void describe(const std::vector<kodama::ValueInfo>& values, const char* role, size_t index,
              kodama_value_info* info) {
  want(info, "info");
  if (index >= values.size())
    throw UserError(fmt::format("{} {}: the package has {}", role, index, values.size()));
  const kodama::ValueInfo& value = values[index];
  *info = {value.name.c_str(), static_cast<kodama_type>(*value.type), value.shape.size(), value.shape.data(),
           bytes_of(value)};
}

}  // namespace

extern "C" {

kodama_session_settings kodama_default_settings(void) {
  return {0, 1, nullptr, 1};
}

const char* kodama_last_error(void) {
  return last_error.c_str();
}

const char* kodama_version(void) {
  static const std::string version = kodama::version();
  return version.c_str();
}

kodama_status kodama_package_load(const char* directory, const char* chip, kodama_package** package) {
  return guarded([&] {
    want(package, "package");
    *package = nullptr;
    want(directory, "directory");
    kodama::Package loaded = kodama::Package::load(directory, chip != nullptr ? chip : "");
    auto inputs = loaded.inputs(), outputs = loaded.outputs();
    *package = new kodama_package{std::move(loaded), std::move(inputs), std::move(outputs)};
  });
}

void kodama_package_free(kodama_package* package) {
  delete package;
}

const char* kodama_package_name(const kodama_package* package) {
  return package != nullptr ? package->package.name().c_str() : "";
}

const char* kodama_package_chip(const kodama_package* package) {
  return package != nullptr ? package->package.chip().c_str() : "";
}

size_t kodama_package_input_count(const kodama_package* package) {
  return package != nullptr ? package->inputs.size() : 0;
}

size_t kodama_package_output_count(const kodama_package* package) {
  return package != nullptr ? package->outputs.size() : 0;
}

kodama_status kodama_package_input(const kodama_package* package, size_t index, kodama_value_info* info) {
  return guarded([&] {
    want(package, "package");
    describe(package->inputs, "input", index, info);
  });
}

kodama_status kodama_package_output(const kodama_package* package, size_t index, kodama_value_info* info) {
  return guarded([&] {
    want(package, "package");
    describe(package->outputs, "output", index, info);
  });
}

kodama_status kodama_session_new(const kodama_package* package, const kodama_session_settings* settings,
                                 kodama_session** session) {
  return guarded([&] {
    want(session, "session");
    *session = nullptr;
    want(package, "package");
    const kodama_session_settings given = settings != nullptr ? *settings : kodama_default_settings();
    if (given.threads < 0)
      throw UserError(fmt::format("threads: found {}, allowed: 0 or more", given.threads));
    kodama::SessionSettings wanted;
    wanted.threads = given.threads;
    wanted.timing = given.timing != 0;
    if (given.hazards != nullptr) wanted.hazards = given.hazards;
    wanted.host_overlaps = given.host_overlaps != 0;
    *session = new kodama_session{kodama::PackageSession(package->package, wanted), package->inputs, {}, {}};
  });
}

void kodama_session_free(kodama_session* session) {
  delete session;
}

kodama_status kodama_session_set_input(kodama_session* session, const char* name, const void* elements,
                                       size_t bytes) {
  return guarded([&] {
    want(session, "session");
    want(name, "name");
    const auto found = std::ranges::find(session->known, name, &kodama::ValueInfo::name);
    if (found == session->known.end()) {
      std::string names;
      for (const kodama::ValueInfo& input : session->known) names += " '" + input.name + "'";
      throw UserError(fmt::format("input '{}': the package has no such input; it has{}", name, names));
    }
    if (found->type == kodama::ElementType::kString)
      throw UnsupportedError(
          fmt::format("input '{}' is a tensor of strings, which C programs can't give; "
                      "kodama/runtime.h takes them",
                      name));
    kodama::Tensor tensor(*found->type, found->shape);
    if (bytes != tensor.bytes().size())
      throw UserError(
          fmt::format("input '{}': found {} bytes, allowed: {}", name, bytes, tensor.bytes().size()));
    if (bytes > 0) {
      want(elements, "elements");
      std::memcpy(tensor.bytes().data(), elements, bytes);
    }
    session->inputs.insert_or_assign(name, std::move(tensor));
  });
}

kodama_status kodama_session_run(kodama_session* session) {
  return guarded([&] {
    want(session, "session");
    session->outcome.reset();
    session->outcome = session->session.run(session->inputs);
  });
}

kodama_status kodama_session_output(const kodama_session* session, const char* name, const void** elements,
                                    size_t* bytes) {
  return guarded([&] {
    want(session, "session");
    want(name, "name");
    want(elements, "elements");
    want(bytes, "bytes");
    if (!session->outcome) throw UserError(fmt::format("output '{}': no run has made it", name));
    const kodama::Tensors& outputs = session->outcome->outputs;
    const auto found = outputs.find(name);
    if (found == outputs.end()) {
      std::string names;
      for (const auto& [known, tensor] : outputs) names += " '" + known + "'";
      throw UserError(fmt::format("output '{}': the package has no such output; it has{}", name, names));
    }
    if (found->second.type() == kodama::ElementType::kString)
      throw UnsupportedError(
          fmt::format("output '{}' is a tensor of strings, which C programs can't have; "
                      "kodama/runtime.h gives them",
                      name));
    *elements = found->second.bytes().data();
    *bytes = found->second.bytes().size();
  });
}

int64_t kodama_session_cycles(const kodama_session* session) {
  return session != nullptr && session->outcome ? session->outcome->cycles : 0;
}

int64_t kodama_session_first_cycles(const kodama_session* session) {
  return session != nullptr && session->outcome ? session->outcome->first_cycles : 0;
}

double kodama_session_seconds(const kodama_session* session) {
  return session != nullptr && session->outcome ? session->outcome->seconds : 0;
}

}  // extern "C"
