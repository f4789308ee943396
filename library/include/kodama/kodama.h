#pragma once

#include <kodama/runtime.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

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

namespace library {
struct ModelState;
struct ProgramState;
struct SessionState;
}  // namespace library

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

/// As Tensor::read and write, and `.pb` of ONNX, too.
Tensor read_tensor(const std::string& file, const std::string& member = "");
void write_tensor(const std::string& file, const Tensor& tensor, const std::string& name = "");

/// A shared library with passes or DRAM models (docs/write-a-pass.md).
void load_plugin(const std::string& file);

}  // namespace kodama
