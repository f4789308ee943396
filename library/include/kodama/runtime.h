#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "isa/error.h"

/// Running packages, which `kodama compile` writes, without the compiler: libkodama-runtime knows nothing of
/// ONNX. What the host computes is in it, too.
///
///     #include <kodama/runtime.h>
///
///     const kodama::Package package = kodama::Package::load("resnet18.package");
///     kodama::PackageSession session(package);
///     const kodama::Outcome outcome = session.run({{"x", kodama::Tensor::read("picture.npy")}});
///     std::span<const float> scores = outcome.outputs.at("y").data<float>();
///
/// kodama.h, which compiles, includes this. For C: kodama/c_runtime.h. Errors are isa::UserError,
/// isa::UnsupportedError and isa::InternalError, with the text that the command line prints.
namespace kodama {

using isa::Error;
using isa::InternalError;
using isa::UnsupportedError;
using isa::UserError;

/// Types of elements, with ONNX's numbers.
enum class ElementType : int {
  kFloat32 = 1,
  kUint8 = 2,
  kInt8 = 3,
  kUint16 = 4,
  kInt16 = 5,
  kInt32 = 6,
  kInt64 = 7,
  kString = 8,
  kBool = 9,
  kFloat16 = 10,  ///< 16-bit patterns
  kFloat64 = 11,
  kUint32 = 12,
  kUint64 = 13,
  kComplex64 = 14,
  kComplex128 = 15,
  kBfloat16 = 16,  ///< 16-bit patterns
};
/// numpy's names: "float32", "int64".
std::string element_type_name(ElementType type);
/// UserError lists the names.
ElementType parse_element_type(const std::string& name);

namespace library {
struct TensorAccess;
struct PackageState;
struct PackageSessionState;
}  // namespace library

/// A dense row-major tensor in the host's memory. Copies share their elements.
class Tensor {
 public:
  /// Zeros (empty strings). UserError for a shape that no machine has memory for.
  Tensor(ElementType type, std::vector<int64_t> shape);
  /// `elements`: as many as the shape has, row major; not of strings.
  static Tensor copy_of(ElementType type, std::vector<int64_t> shape, const void* elements);
  static Tensor of_strings(std::vector<int64_t> shape, std::vector<std::string> elements);
  /// `.npy`, or of a `.npz` the array `member` (which may be empty if it has one).
  static Tensor read(const std::string& file, const std::string& member = "");
  void write(const std::string& file) const;

  ElementType type() const;
  const std::vector<int64_t>& shape() const;
  int64_t size() const;  ///< elements
  std::span<const std::byte> bytes() const;
  std::span<std::byte> bytes();
  std::span<const std::string> strings() const;
  /// An element, row major, of any type of real numbers. UserError for others, and beyond the end.
  double number(int64_t index) const;
  /// The index of the largest element of each row (a row: the last axis): of scores, the class that was
  /// found.
  std::vector<int64_t> largest_per_row() const;
  /// UserError if T is of another size than the elements.
  template <typename T>
  std::span<const T> data() const {
    return {reinterpret_cast<const T*>(checked_bytes(sizeof(T))), static_cast<size_t>(size())};
  }
  template <typename T>
  std::span<T> data() {
    return {const_cast<T*>(reinterpret_cast<const T*>(checked_bytes(sizeof(T)))),
            static_cast<size_t>(size())};
  }

 private:
  friend struct library::TensorAccess;
  struct State;
  explicit Tensor(std::shared_ptr<State> state) : state_(std::move(state)) {}
  void check_numbers(const char* where) const;
  const std::byte* checked_bytes(size_t element_size) const;

  std::shared_ptr<State> state_;
};
using Tensors = std::map<std::string, Tensor>;

/// An input or output of a model.
struct ValueInfo {
  std::string name;
  std::optional<ElementType> type;  ///< nothing: a sequence or an optional
  std::vector<int64_t> shape;       ///< -1 where only the data say it
};

/// Called now and then with what part is done, 0 to 1, and what comes next, in the thread that works. What it
/// throws ends the work.
using Progress = std::function<void(double, const std::string&)>;

struct SessionSettings {
  int threads = 0;  ///< of the simulator; 0: all cores
  bool timing = true;
  std::string hazards = "ignore";  ///< error, stale, stall: as `kodama run --hazards`
  /// A run's data pass the host link beside programs as far as they can; else one thing after the other.
  bool host_overlaps = true;
  Progress progress = {};  ///< of every run
};

/// A compiled model, as `kodama compile` or Program::save wrote it.
class Package {
 public:
  /// `chip`: a name or a file; empty: the chip that the package names.
  static Package load(const std::string& directory, const std::string& chip = "");

  const std::string& name() const;
  const std::string& chip() const;
  std::vector<ValueInfo> inputs() const;
  std::vector<ValueInfo> outputs() const;

 private:
  friend class PackageSession;
  std::shared_ptr<const library::PackageState> state_;
};

struct Outcome {
  Tensors outputs;
  int64_t cycles = 0;        ///< of the run, constants being on the chip
  int64_t first_cycles = 0;  ///< with what happens once, before the first run
  double seconds = 0;        ///< of the chip, for `cycles`
};

/// A simulated chip that has a package. One thread at a time; several may run at once.
class PackageSession {
 public:
  explicit PackageSession(const Package& package, const SessionSettings& settings = {});
  ~PackageSession();
  PackageSession(PackageSession&&) noexcept;
  PackageSession& operator=(PackageSession&&) noexcept;

  /// UserError if an input is missing, unknown, or of the wrong type or shape. Elements of a tensor that
  /// nobody else has are not copied: std::move(inputs).
  Outcome run(Tensors inputs);

 private:
  std::unique_ptr<library::PackageSessionState> state_;
};

/// Whether this is the directory of a package.
bool is_package(const std::string& directory);

/// "0.1.0".
std::string version();
/// The chip where none is named.
inline constexpr const char* kDefaultChip = "mncore2";
/// Names of chips that come with Kodama.
std::vector<std::string> chip_names();

}  // namespace kodama
