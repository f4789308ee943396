#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "isa/error.h"

/// Kodama as a library: what programs outside of it may use without looking at its insides.
///
///     #include <kodama/kodama.h>
///
///     const kodama::Model model = kodama::Model::from_file("resnet18.onnx");
///     const kodama::Program program = kodama::Program::compile(model, {.chip = "mncore2"});
///     kodama::Session session(program);
///     const float pixels[1 * 3 * 224 * 224] = {};
///     const kodama::Result result =
///         session.run({{"x", kodama::Tensor::copy_of(kodama::ElementType::kFloat32, {1, 3, 224, 224},
///         pixels)}});
///     std::span<const float> scores = result.outputs.at("y").data<float>();
///     result.cycles;
///
/// A Model is what ONNX says; a Program is that for a chip; a Session is a simulated chip with the program's
/// constants loaded. Models whose shapes or ways only the data know are compiled while a Session runs them.
///
/// All of these but Session are values that share what they refer to; a Session has one thread at a time,
/// several may run at once. Errors are isa::UserError, isa::UnsupportedError and isa::InternalError, with the
/// text that the command line prints.
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
struct ModelState;
struct ProgramState;
struct SessionState;
}  // namespace library

/// A dense row-major tensor in the host's memory. Copies share their elements.
class Tensor {
 public:
  /// Zeros (empty strings). UserError for a shape that no machine has memory for.
  Tensor(ElementType type, std::vector<int64_t> shape);
  /// `elements`: as many as the shape has, row major; not of strings.
  static Tensor copy_of(ElementType type, std::vector<int64_t> shape, const void* elements);
  static Tensor of_strings(std::vector<int64_t> shape, std::vector<std::string> elements);
  /// `.npy`, `.npz` (MEMBER may be empty if it has one), or `.pb` of ONNX.
  static Tensor read(const std::string& file, const std::string& member = "");
  void write(const std::string& file, const std::string& name = "") const;

  ElementType type() const;
  const std::vector<int64_t>& shape() const;
  int64_t size() const;  ///< elements
  std::span<const std::byte> bytes() const;
  std::span<std::byte> bytes();
  std::span<const std::string> strings() const;
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

struct ImportSettings {
  /// Extents of dimensions that the model leaves open: by name, or "INPUT:AXIS".
  std::map<std::string, int64_t> dims = {};
  /// Inputs that are fixed before compilation: axes, pads, shapes.
  Tensors bind = {};
};

/// A model in ONNX, of opset 1 to 21, checked. What it takes is on the page docs/operators.md.
class Model {
 public:
  static Model from_file(const std::string& file, const ImportSettings& settings = {});
  /// `bytes`: the contents of such a file; `name` begins the text of every error.
  static Model from_bytes(std::string_view bytes, const ImportSettings& settings = {},
                          const std::string& name = "model");

  const std::string& name() const;
  std::vector<ValueInfo> inputs() const;
  std::vector<ValueInfo> outputs() const;
  /// Why it is compiled while it runs: control flow, or shapes that only the data know. Empty: it isn't.
  const std::string& open_reason() const;
  /// Inputs at random, from a seed, as the command line makes them; UserError where a shape is open.
  Tensors random_inputs(uint64_t seed = 1) const;
  /// What the CPU reference computes.
  Tensors reference(const Tensors& inputs) const;

 private:
  friend class Program;
  friend class Session;
  std::shared_ptr<const library::ModelState> state_;
};

struct CompileSettings {
  std::string chip = "mncore2";      ///< a name or a file; behind it ",KEY=VALUE" for keys of the file
  std::string precision = "gfloat";  ///< of products: gfloat, float, half
  /// More options, by the names that `kodama run --help` has: {"planner", "greedy"}, {"weights", "resident"};
  /// "fuse" and "check-layers" are yes or no; "cache" is a directory. Others are options of passes
  /// (`kodama passes`). UserError for those that there aren't.
  std::map<std::string, std::string> options = {};
  /// Called now and then with what part is done, 0 to 1, and what comes next, in the thread that compiles.
  /// What it throws ends the compilation.
  std::function<void(double, const std::string&)> progress = {};
};

/// A model compiled for a chip.
class Program {
 public:
  static Program compile(const Model& model, const CompileSettings& settings = {});
  /// A package that `kodama compile` or save() wrote.
  static Program load(const std::string& directory, const std::string& chip = "");
  /// UnsupportedError for a model that is compiled while it runs.
  void save(const std::string& directory) const;

  const std::string& name() const;
  const std::string& chip() const;
  std::vector<ValueInfo> inputs() const;
  std::vector<ValueInfo> outputs() const;

 private:
  friend class Session;
  std::shared_ptr<const library::ProgramState> state_;
};

struct SessionSettings {
  int threads = 0;  ///< of the simulator; 0: all cores
  bool timing = true;
  std::string hazards = "ignore";  ///< error, stale, stall: as `kodama run --hazards`
  /// A run's data pass the host link beside programs as far as they can; else one thing after the other.
  bool host_overlaps = true;
  /// Called now and then with what part of a run is done, and what comes next; what it throws ends the run.
  std::function<void(double, const std::string&)> progress = {};
};

/// Files about a run; empty: none.
struct RunFiles {
  std::string trace;       ///< Chrome trace, for Perfetto
  std::string vcd;         ///< for GTKWave
  std::string statistics;  ///< JSON: where every cycle and byte went
  std::string report;  ///< a page of HTML (docs/report.md); not of a program that is compiled while it runs
};

struct Result {
  Tensors outputs;
  int64_t cycles = 0;        ///< of the run, constants being on the chip
  int64_t first_cycles = 0;  ///< with what happens once, before the first run; nothing more for others
  double seconds = 0;        ///< of the chip, for `cycles`
  std::string json;          ///< what `kodama run --json` writes: layers, moves, totals, bounds
  std::string table;         ///< the same as text
};

/// A simulated chip that has a program.
class Session {
 public:
  explicit Session(const Program& program, const SessionSettings& settings = {});
  ~Session();
  Session(Session&&) noexcept;
  Session& operator=(Session&&) noexcept;

  /// UserError if an input is missing, unknown, or of the wrong type or shape. Elements of a tensor that
  /// nobody else has are not copied: std::move(inputs).
  Result run(Tensors inputs, const RunFiles& files = {});

 private:
  std::unique_ptr<library::SessionState> state_;
};

/// "0.1.0".
std::string version();
/// Names of chips that come with Kodama.
std::vector<std::string> chip_names();
/// A shared library with passes or DRAM models (docs/write-a-pass.md).
void load_plugin(const std::string& file);

}  // namespace kodama
