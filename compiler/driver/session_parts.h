#pragma once

#include <chrono>
#include <iosfwd>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "compiler/driver/chip_operands.h"
#include "compiler/driver/session.h"
#include "compiler/tensor/value.h"

/// What the commands of session.h and the runs of dynamic models have in common. Private to compiler/driver.
namespace kodama::compiler {

/// NAME=FILE[:MEMBER] apart. UserError for others.
struct NamedFile {
  std::string name;
  std::string file;
  std::string member;
};
NamedFile parse_named_file(const char* option, const std::string& specification);
/// The tensors that NAME=FILE[:MEMBER] each name. UserError, with the option that has them, for others.
TensorMap read_named_tensors(const char* option, const std::vector<std::string>& specifications);

/// Where the time of a command went: each part from the end of the one before, so that they add up.
class WallTimes {
 public:
  /// Ends a part; parts of one name are one.
  void end(const std::string& part);
  /// Of the rounded parts, so that the reader's sum is the printed one.
  std::string to_string() const;
  nlohmann::ordered_json to_json() const;

 private:
  std::chrono::steady_clock::time_point last_ = std::chrono::steady_clock::now();
  std::vector<std::pair<std::string, double>> parts_;
};

/// Values as files of a directory, by name: NAME.pb, and NAME.npy of tensors whose type numpy has. They are
/// tried before the run whose outputs they take.
class OutputFiles {
 public:
  /// No files if `directory` is empty.
  OutputFiles(const std::vector<std::string>& names, const std::string& directory);
  void write(const ValueMap& outputs) const;

 private:
  std::map<std::string, std::string> files_;
};
std::vector<std::string> output_names(const CompiledModel& model);

void print_outputs(const ValueMap& outputs, bool classes, std::ostream& out);
/// One comparison as a sentence.
std::string verdict(const Comparison& comparison, double tolerance);
/// A sentence about what is right or wrong; what is wrong is said with --quiet, too.
void print_verdict(const std::string& sentence, bool is_right, std::ostream& out);

/// What a comparison with the CPU reference leaves open where a model decides by numbers that it has
/// computed, as sentences and entries of `json`: whether everything is right for the chip's operands.
bool print_with_chip_operands(const std::optional<OperandsComparison>& comparison, double tolerance,
                              std::ostream& out, nlohmann::ordered_json& json);

/// `run` of a model that isn't static; `times` has its import.
int run_dynamic_command(const RunRequest& request, ImportedModel imported, WallTimes times,
                        std::ostream& out);

}  // namespace kodama::compiler
