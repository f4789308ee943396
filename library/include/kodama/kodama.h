#pragma once

#include <kodama/runtime.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <iosfwd>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

/// Kodama as a library: what programs outside of it may use without looking at its insides.
///
///     #include <kodama/kodama.h>
///
///     const kodama::Model model = kodama::Model::from_file("resnet18.onnx");
///     const kodama::Program program =
///         kodama::Program::compile(model, {.chip = "mncore2", .keeps_reference = true});
///     kodama::Session session(program);
///     const kodama::Result result = session.run(model.random_inputs(), {.compare = true});
///     std::span<const float> scores = result.outputs.at("y").data<float>();
///     result.cycles;
///     for (const kodama::Comparison& each : result.comparisons) std::puts(each.text().c_str());
///
/// A Model is what ONNX says; a Program is that for a chip; a Session is a simulated chip with the program's
/// constants loaded. Models whose shapes or ways only the data know are compiled while a Session runs them.
/// The commands run, compile and sim are made of this header, kodama/pipeline.h (inferences in a row) and
/// kodama/simulate.h (VSM programs).
///
/// All of these but Session are values that share what they refer to; a Session has one thread at a time,
/// several may run at once. Errors are isa::UserError, isa::UnsupportedError and isa::InternalError, with the
/// text that the command line prints.
namespace kodama {

namespace library {
struct ModelState;
struct ProgramAccess;
struct ProgramState;
struct ResultState;
struct SessionState;
struct ValueAccess;
struct ValueState;
}  // namespace library

// ---- values

/// A tensor, or what only models have that are compiled while they run: a sequence or an optional.
class Value {
 public:
  Value(Tensor tensor);  // NOLINT: a tensor is a value
  /// UserError unless all are tensors of this type.
  static Value sequence(ElementType type, std::vector<Tensor> elements);
  /// The optional that holds `value`. UserError if that is an optional itself.
  static Value optional(const Value& value);

  bool is_tensor() const;
  bool is_sequence() const;  ///< not the optional that holds one
  /// UserError unless it is one.
  const Tensor& tensor() const;
  /// Of a sequence, or the one in an optional; the tensor itself; nothing of an empty optional.
  std::vector<Tensor> elements() const;
  /// "float32 [2, 3]", "a sequence of 3 float32 tensors", "an empty optional".
  std::string describe() const;

 private:
  friend struct library::ValueAccess;
  explicit Value(std::shared_ptr<const library::ValueState> state) : state_(std::move(state)) {}
  std::shared_ptr<const library::ValueState> state_;
};
using Values = std::map<std::string, Value>;

/// Inputs of a model, and what is recorded of its outputs.
struct DataSet {
  std::string name = {};
  Values inputs;
  Values outputs = {};
};
/// test_data_set_0, ... of a directory as ONNX's tests have it, without outputs that random numbers decide.
std::vector<DataSet> read_data_sets(const std::string& directory);

/// As Tensor::read and write, and `.pb` of ONNX, too.
Tensor read_tensor(const std::string& file, const std::string& member = "");
void write_tensor(const std::string& file, const Tensor& tensor, const std::string& name = "");

// ---- models and programs

struct ImportSettings {
  /// Extents of dimensions that the model leaves open: by name, or "INPUT:AXIS".
  std::map<std::string, int64_t> dims = {};
  /// Inputs that are fixed before compilation: axes, pads, shapes.
  Tensors bind = {};
  /// False: an UnsupportedError, with what would help, for a model that is compiled while it runs.
  bool allows_open = true;
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
  std::shared_ptr<const library::ModelState> state_;
};

struct CompileSettings {
  std::string chip = kDefaultChip;   ///< a name or a file; behind it ",KEY=VALUE" for keys of the file
  std::string precision = "gfloat";  ///< of products: gfloat, float, half
  /// More options, by the names that `kodama run --help` has: {"planner", "greedy"}, {"weights", "resident"};
  /// "fuse" and "check-layers" are yes or no; "cache" is a directory. Others are options of passes
  /// (`kodama passes`). UserError for those that there aren't.
  std::map<std::string, std::string> options = {};
  /// Passes whose results are written to files of the directory, or "all"; `kodama passes` has the names.
  std::set<std::string> dump_after = {};
  std::string dump_directory = "kodama-dump";
  /// Of models that are compiled while they run: "DIM=16,32,64" pads a dimension to the next of these.
  std::vector<std::string> buckets = {};
  int64_t cache_limit = 64;      ///< programs that a session of such a model keeps
  bool keeps_reference = false;  ///< so that runs can be compared: holds the model's constants once more
  Progress progress = {};
};

/// A model compiled for a chip.
class Program {
 public:
  /// Elements of a model that nobody else has are not copied: std::move(model).
  static Program compile(Model model, const CompileSettings& settings = {});
  /// A package that `kodama compile` or save() wrote.
  static Program load(const std::string& directory, const std::string& chip = "",
                      const Progress& progress = {});
  /// UserError unless save() could write there: to no directory yet, an empty one, or one with a package.
  static void check_directory(const std::string& directory);
  /// UnsupportedError for a model that is compiled while it runs.
  void save(const std::string& directory, const Progress& progress = {}) const;

  const std::string& name() const;
  const std::string& chip() const;
  std::string precision() const;
  /// Of comparisons for which no other is given: the largest error over the largest magnitude.
  double default_tolerance() const;
  std::vector<ValueInfo> inputs() const;
  std::vector<ValueInfo> outputs() const;
  /// As Model::open_reason().
  const std::string& open_reason() const;
  /// Stages, steps and transfers, and what the host computes, as `kodama compile` prints them.
  std::string summary() const;

  /// `given`, and values at random for all other inputs. UserError where nobody knows their shapes.
  Values complete_inputs(Values given, uint64_t seed = 1) const;
  /// A file as read_tensor takes it; where the input is a sequence or an optional, `.pb` of that.
  Value read_input(const std::string& name, const std::string& file, const std::string& member = "") const;

 private:
  friend class Session;
  friend struct library::ProgramAccess;
  std::shared_ptr<const library::ProgramState> state_;
};

// ---- runs

/// How a value is beside what it should be.
struct Comparison {
  std::string name;
  double max_absolute = 0;  ///< largest difference
  double max_relative = 0;  ///< the same, over the largest magnitude that is expected
  double tolerance = 0;     ///< of max_relative
  bool ok = false;
  int64_t unequal = 0;  ///< elements without a difference: NaN or infinite against a number, other integers
  std::optional<std::vector<int64_t>> place = {};  ///< of the largest difference, where there is one
  std::string found = {}, expected = {};           ///< there
  std::string problem = {};                        ///< another type, shape or number of elements
  /// Rows of a model that chooses them by scores are right in another order, too: `rows` of them are.
  bool as_set = false;
  std::optional<int64_t> rows = {};
  int64_t row_count = 0;  ///< of as many
  /// "max abs 1.19e-07, over largest magnitude 5.96e-08 (allowed 1e-05): ok"
  std::string text() const;
};
struct LayerComparison : Comparison {
  std::string layer;                   ///< that made it
  std::vector<std::string> operators;  ///< of ONNX, in the layer
  std::string kernel, plugin = {};     ///< that computed it; the plugin's file if it is of one
};
/// Where a model chooses, compares or rounds to integers what it has computed, a small difference becomes a
/// large one. Such a run is done once more, with the operands of these as outputs: each is compared with what
/// the reference makes of those before it, and the outputs with what it makes of the chip's operands.
struct OperandsComparison {
  std::vector<Comparison> operands, outputs;
  Comparison worst;                  ///< of the operands
  std::vector<std::string> changed;  ///< outputs with other bits than the run in question: nothing is shown
  bool ok = false;
};

/// Where time went: each part from the end of the one before, so that they add up.
class WallTimes {
 public:
  void end(const std::string& part);  ///< parts of one name are one
  /// With their seconds, in the order in which they first ended.
  const std::vector<std::pair<std::string, double>>& parts() const { return parts_; }
  /// "import 0.01 s, compile 0.20 s, in all 0.21 s"
  std::string text() const;

 private:
  std::chrono::steady_clock::time_point last_ = std::chrono::steady_clock::now();
  std::vector<std::pair<std::string, double>> parts_;
};

/// Files about runs; empty: none. "-" is standard output.
struct RunFiles {
  std::string trace = {};       ///< Chrome trace, for Perfetto
  std::string vcd = {};         ///< for GTKWave
  std::string statistics = {};  ///< where every cycle and byte went
  std::string report = {};      ///< a page of HTML (docs/report.md)
  std::string json = {};        ///< Result::json(), of several data sets in a list
  std::string outputs = {};     ///< a directory: NAME.pb, and NAME.npy; in one by its name for each data set
  std::string statistics_form = "json";  ///< or text, csv
  // Of trace and VCD: cycles, and the largest number of spans.
  int64_t trace_from = 0, trace_to = std::numeric_limits<int64_t>::max(), trace_limit = 1'000'000;
};
struct RunSettings {
  RunFiles files = {};
  int64_t repeat = 1;       ///< runs with the same inputs, whose bits are compared; the result is of the last
  bool compare = false;     ///< with the CPU reference; needs CompileSettings::keeps_reference
  bool statistics = false;  ///< in Result::statistics, as text; not beside a file of them
  std::optional<double> tolerance = {};  ///< else Program::default_tolerance()
  WallTimes* times = nullptr;            ///< gets the parts of the call; they are in the JSON file, too
  std::function<void(const std::string&)> phase = {};  ///< told what begins: "running"
};

struct Result {
  std::string data_set;
  Tensors outputs;
  Values others;                                  ///< outputs that are no tensors
  int64_t cycles = 0;                             ///< of the run, constants being on the chip
  int64_t first_cycles = 0;                       ///< with what happens once, before the first run
  double seconds = 0;                             ///< of the chip, for `cycles`
  bool ok = true;                                 ///< outputs, and bits of repeated runs, are right
  std::vector<Comparison> comparisons;            ///< outputs, with the CPU reference
  std::optional<OperandsComparison> on_operands;  ///< where one of these isn't right
  std::vector<LayerComparison> layers;            ///< with the CPU reference, in the order of the run
  std::vector<Comparison> recorded;               ///< outputs, with those of the data set
  /// Outputs of repeated runs with other bits than the first, as sentences.
  std::vector<std::string> differences;
  std::string statistics;  ///< of all runs of the call; in its last result

  /// What `kodama run --json` writes: layers, moves, totals, bounds, comparisons.
  std::string json() const;
  /// The tables of `kodama run`; on a stream that is a terminal in its width, headings bold.
  void print(std::ostream& out) const;
  std::string table() const;  ///< the same as text

 private:
  friend struct library::SessionState;
  std::shared_ptr<const library::ResultState> state_;
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
  Result run(Tensors inputs, const RunSettings& settings = {});
  /// Several, one after the other: their statistics and traces are one file. `ready` gets each result as soon
  /// as it is there.
  std::vector<Result> run_all(const std::vector<DataSet>& sets, const RunSettings& settings = {},
                              const std::function<void(const Result&)>& ready = {});

 private:
  std::unique_ptr<library::SessionState> state_;
};

/// A shared library with passes or DRAM models (docs/write-a-pass.md).
void load_plugin(const std::string& file);

}  // namespace kodama
