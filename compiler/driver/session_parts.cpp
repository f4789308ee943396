#include "compiler/driver/session_parts.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>

#include "compiler/compile/plan_slices.h"
#include "compiler/package/file_names.h"
#include "compiler/proto/tensor_file.h"
#include "isa/output.h"

namespace kodama::compiler {

namespace {

namespace fs = std::filesystem;

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

}  // namespace kodama::compiler
