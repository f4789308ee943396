#include "compiler/driver/session_parts.h"

#include <fmt/format.h>
#include <fmt/ostream.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <ostream>

#include "compiler/compile/plan_slices.h"
#include "compiler/package/file_names.h"
#include "compiler/proto/tensor_file.h"
#include "compiler/proto/tensor_proto.h"
#include "compiler/report/report.h"
#include "compiler/tensor/numpy_file.h"
#include "isa/file.h"
#include "isa/output.h"
#include "isa/style.h"
#include "isa/verbosity.h"

namespace kodama::compiler {

namespace {

namespace fs = std::filesystem;

constexpr int64_t kPrintedElements = 10;

void check_dump_points(const std::set<std::string>& names, const std::vector<std::string>& used) {
  const std::vector<std::string> known = dump_points();
  for (const std::string& name : names) {
    if (name == "all" || std::find(used.begin(), used.end(), name) != used.end()) continue;
    const bool is_known = std::find(known.begin(), known.end(), name) != known.end();
    throw isa::UserError(fmt::format("--dump-after {}: {}; allowed are all, {}", name,
                                     is_known ? "this pass does not run here" : "there is no such pass",
                                     fmt::join(used, ", ")));
  }
}

}  // namespace

NamedFile parse_named_file(const char* option, const std::string& specification) {
  const size_t equals = specification.find('=');
  if (equals == std::string::npos || equals == 0) {
    throw isa::UserError(
        fmt::format("{} {}: allowed is NAME=FILE or NAME=FILE.npz:MEMBER", option, specification));
  }
  NamedFile result{specification.substr(0, equals), specification.substr(equals + 1), ""};
  if (const size_t colon = result.file.rfind(".npz:"); colon != std::string::npos) {
    result.member = result.file.substr(colon + 5);
    result.file = result.file.substr(0, colon + 4);
  }
  return result;
}

TensorMap read_named_tensors(const char* option, const std::vector<std::string>& specifications) {
  TensorMap tensors;
  for (const std::string& specification : specifications) {
    const auto [name, file, member] = parse_named_file(option, specification);
    if (tensors.contains(name)) throw isa::UserError(fmt::format("{} {}: given twice", option, name));
    tensors[name] = read_tensor_file(file, member);
  }
  return tensors;
}

CompileOptions compile_options(const SessionOptions& options, const std::vector<std::string>& points,
                               const std::string& planner) {
  check_dump_points(options.dump_after, points);
  CompileOptions compile;
  compile.precision = parse_matrix_precision(options.precision);
  compile.passes = options.passes;
  const auto planning = planning_options(planner);
  compile.passes.others.insert(compile.passes.others.end(), planning.begin(), planning.end());
  scheduler::check_options(compile.passes);
  compile.planner = options.planner;
  compile.weights = parse_weights(options.weights);
  compile.store_layers = options.check_layers;
  compile.slices = parse_slices(options.slices);
  compile.lowering.fuse = options.fuse;
  compile.dump_after = options.dump_after;
  if (options.dump_after.empty()) return compile;
  compile.dump = [&options, number = 0](const std::string& pass, const std::string& what,
                                        const std::string& extension, const std::string& text) mutable {
    std::error_code error;
    fs::create_directories(options.dump_directory, error);
    const std::string path =
        fmt::format("{}/{:03}.{}.{}.{}", options.dump_directory, number++, pass, file_stem(what), extension);
    isa::write_output(path, text);
  };
  return compile;
}

RunnerOptions runner_options(const SessionOptions& options) {
  RunnerOptions run;
  run.machine.threads = options.threads;
  run.timing = options.timing;
  run.hazards = options.hazards;
  run.host_overlaps = options.host == "overlap";
  return run;
}

void check_slices_of_parts(const SessionOptions& options, const std::string& open_reason) {
  if (parse_slices(options.slices).value_or(1) != 1)
    throw isa::UnsupportedError(fmt::format(
        "--slices with a number: not for a model that is compiled in parts while it runs ({})", open_reason));
}

void WallTimes::end(const std::string& part) {
  const auto now = std::chrono::steady_clock::now();
  const double seconds = std::chrono::duration<double>(now - last_).count();
  last_ = now;
  const auto known = std::ranges::find(parts_, part, &std::pair<std::string, double>::first);
  if (known == parts_.end()) {
    parts_.emplace_back(part, seconds);
  } else {
    known->second += seconds;
  }
}

std::string WallTimes::to_string() const {
  std::string text;
  int64_t sum = 0;
  for (const auto& [part, seconds] : parts_) {
    const int64_t hundredths = std::llround(seconds * 100);
    sum += hundredths;
    text += fmt::format("{} {:.2f} s, ", part, static_cast<double>(hundredths) / 100);
  }
  return fmt::format("{}in all {:.2f} s", text, static_cast<double>(sum) / 100);
}

nlohmann::ordered_json WallTimes::to_json() const {
  nlohmann::ordered_json json = nlohmann::ordered_json::object();
  for (const auto& [part, seconds] : parts_) json[part] = seconds;
  return json;
}

namespace {

std::string numpy_file(const std::string& path) {
  return fs::path(path).replace_extension(".npy").string();
}

}  // namespace

OutputFiles::OutputFiles(const std::vector<std::string>& names, const std::string& directory) {
  if (directory.empty()) return;
  std::error_code error;
  fs::create_directories(directory, error);
  if (error) throw isa::UserError(directory + ": can't be created: " + error.message());
  std::vector<std::string> paths;
  const std::vector<std::string> stems = distinct_file_stems(names);
  for (size_t k = 0; k < names.size(); ++k) {
    paths.push_back((fs::path(directory) / (stems[k] + ".pb")).string());
    files_[names[k]] = paths.back();
    paths.push_back(numpy_file(paths.back()));
  }
  isa::check_outputs(paths);
}

void OutputFiles::write(const ValueMap& outputs) const {
  for (const auto& [name, path] : files_) {
    const Value& value = outputs.at(name);
    isa::write_file_atomically(path, value_to_bytes(value, name));
    isa::say_wrote(path, fmt::format("output '{}'", name));
    if (!value.is_tensor() || !is_numpy_type(value.tensor().type())) continue;
    write_tensor_file(numpy_file(path), value.tensor(), name);
  }
}

std::vector<std::string> output_names(const CompiledModel& model) {
  std::vector<std::string> names;
  for (TensorId id : model.outputs) names.push_back(model.tensors[static_cast<size_t>(id)].name);
  return names;
}

void print_outputs(const ValueMap& outputs, bool classes, std::ostream& out) {
  for (const auto& [name, value] : outputs) {
    if (!value.is_tensor()) fmt::print(out, "{}: {}\n", name, value.describe());
    if (value.is_sequence()) {
      for (size_t k = 0; k < value.size(); ++k)
        print_tensor(fmt::format("{}[{}]", name, k), value.at(k), kPrintedElements, out);
    }
    if (!value.is_tensor()) continue;
    print_tensor(name, value.tensor(), kPrintedElements, out);
    if (classes) {
      const std::vector<int64_t> rows = largest_per_row(value.tensor());
      fmt::print(out, "class found: {}\n", fmt::join(rows, " "));
    }
  }
}

std::string verdict(const Comparison& comparison, double tolerance) {
  if (!comparison.problem.empty()) return comparison.problem + ": FAILED";
  const bool passes = within(comparison, tolerance);
  std::string place;
  if (!passes && comparison.worst_place)
    place = fmt::format("; at {}: found {}, expected {}", shape_to_string(*comparison.worst_place),
                        comparison.found, comparison.expected);
  return fmt::format(
      "max abs {:.2e}, over largest magnitude {:.2e}{} (allowed {:.0e}): {}{}", comparison.max_absolute,
      comparison.max_relative,
      comparison.unequal > 0 ? fmt::format(", {} elements not comparable", comparison.unequal) : "",
      tolerance, passes ? "ok" : "FAILED", place);
}

void print_verdict(const std::string& sentence, bool is_right, std::ostream& out) {
  std::ostream& to = is_right ? out : isa::failure_stream(out);
  const isa::Styled style(to, is_right ? isa::Style::kGood : isa::Style::kBad);
  fmt::print(to, "{}\n", sentence);
}

bool print_with_chip_operands(const std::optional<OperandsComparison>& comparison, double tolerance,
                              std::ostream& out, nlohmann::ordered_json& json) {
  if (!comparison) return false;
  fmt::print(
      out,
      "run once more with what operators read that choose, compare or round to integers as outputs: {}\n",
      comparison->operands.size());
  for (const std::string& name : comparison->changed)
    print_verdict(name + " has other bits than in the run before, of which this shows nothing: FAILED", false,
                  out);
  Comparison worst;
  for (const ValueComparison& each : comparison->operands) {
    if (!within(each.worst, tolerance))
      print_verdict(
          fmt::format("operand {} against the CPU reference: {}", each.name, verdict(each.worst, tolerance)),
          false, out);
    include(worst, each.worst);
  }
  fmt::print(out, "operands against the CPU reference, each on those before it: {}\n",
             verdict(worst, tolerance));
  for (const ValueComparison& each : comparison->outputs) {
    print_verdict(fmt::format("{} against the CPU reference on the chip's operands: {}", each.name,
                              verdict(each.worst, tolerance)),
                  within(each.worst, tolerance), out);
    json.push_back({{"output", each.name},
                    {"against", "the CPU reference on the chip's operands"},
                    {"max_absolute", each.worst.max_absolute},
                    {"max_relative", each.worst.max_relative},
                    {"ok", within(each.worst, tolerance)}});
  }
  return comparison->is_within(tolerance);
}

}  // namespace kodama::compiler
