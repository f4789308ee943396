#pragma once

#include <kodama/kodama.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "compiler/driver/chip_operands.h"
#include "compiler/driver/session.h"
#include "compiler/dynamic/compare_values.h"
#include "compiler/dynamic/dynamic_executor.h"
#include "compiler/graph/import.h"
#include "compiler/package/compiled_model.h"
#include "compiler/report/report.h"
#include "compiler/report/traced_run.h"
#include "compiler/runtime/runner.h"
#include "library/runtime/states.h"
#include "simulator/run_report.h"

/// What the classes of kodama.h refer to, and what its sources share. Private to library.
namespace kodama::library {

// ---- values

struct ValueState {
  std::optional<Tensor> tensor;
  compiler::Value value;  ///< what it is else
};
struct ValueAccess {
  static Value wrap(compiler::Value value);
  /// As long as `value` lives.
  static compiler::Value borrow(const Value& value);
};
compiler::ValueMap borrow(const Values& values);
/// Of tensors alone. UnsupportedError for others.
Tensors tensors_of(const Values& values);

/// Values as files of a directory, by name: NAME.pb, and NAME.npy of tensors whose type numpy has. They are
/// tried before the run whose outputs they take.
class OutputFiles {
 public:
  /// No files if `directory` is empty.
  OutputFiles(const std::vector<ValueInfo>& outputs, const std::string& directory);
  void write(const compiler::ValueMap& outputs) const;

 private:
  std::map<std::string, std::string> files_;
};

// ---- models and programs

struct ModelState {
  std::string where;  ///< begins messages
  compiler::ImportedModel imported;
  std::string name;
};
struct ProgramState {
  std::string name;
  isa::Chip chip;
  std::vector<ValueInfo> inputs, outputs;
  compiler::SessionOptions options;  ///< of the compilation
  std::string open_reason;
  std::optional<compiler::CompiledModel> compiled;  ///< none: it is compiled while it runs
  /// What it was made of, if that is needed: by programs that are compiled while they run, and for
  /// comparisons.
  std::shared_ptr<const ModelState> model;
  std::optional<onnx::ModelProto> prepared;  ///< behind the passes of the graph: the reference of the layers
  // Of programs that are compiled while they run:
  std::vector<compiler::Bucket> buckets;
  int64_t cache_limit = 0;

  compiler::MatrixPrecision precision() const;
};
struct ProgramAccess {
  static const std::shared_ptr<const ProgramState>& get(const Program& program) { return program.state_; }
};
/// Of an error: a comparison is asked for of a program that has no reference.
std::string without_reference(const std::string& program);
std::vector<ValueInfo> describe(const google::protobuf::RepeatedPtrField<onnx::ValueInfoProto>& values);
/// A model for the chip, with the conversions that options.cache keeps; `prepared` as compile_model has it.
compiler::CompiledModel compile_static(onnx::ModelProto model, const compiler::SessionOptions& options,
                                       const Progress& progress, onnx::ModelProto* prepared);

// ---- runs

Comparison describe(const std::string& name, const compiler::Comparison& found, double tolerance);
Comparison describe(const compiler::ValueComparison& found, const compiler::Value& value, double tolerance);
OperandsComparison describe(const compiler::OperandsComparison& found, double tolerance);
nlohmann::ordered_json to_json(const WallTimes& times);
/// UserError for statistics both in a file and as text, for an unknown form of them, and for a wrong part of
/// the trace.
simulator::ReportOptions report_options(const RunFiles& files, bool statistics);

/// What Result::json and print are made of.
struct ResultState {
  std::shared_ptr<const ProgramState> program;
  std::string data_set;
  int64_t runs = 1;
  // Of a static model:
  int64_t first_cycles = 0;
  double first_dram_bytes = 0;
  compiler::RunOutcome outcome;  ///< without outputs
  compiler::Comparisons layers, outputs;
  // Of one that is compiled while it runs:
  std::optional<compiler::DynamicOutcome> dynamic;  ///< without outputs
  nlohmann::ordered_json first_run;                 ///< totals; of several
  int64_t first_compiles = 0;
  /// Entries of comparisons: of a static model those on the chip's operands, else all.
  nlohmann::ordered_json comparisons = nlohmann::ordered_json::array();
  /// With a timeline, made while there was one.
  nlohmann::ordered_json traced;

  /// `report`: with its timeline, if it has one, which had `programs_before` before the run.
  nlohmann::ordered_json json(const simulator::RunReport* report = nullptr, size_t programs_before = 0) const;
  void print(std::ostream& out) const;
};

}  // namespace kodama::library
