#pragma once

#include <onnx/onnx_pb.h>

#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "compiler/compile/compile_model.h"
#include "compiler/package/compiled_model.h"
#include "compiler/tensor/value.h"
#include "layout/search/solution_cache.h"

/// What was compiled, kept on disk from one process to the next, beside solved conversions and by the same
/// means.
///
/// These are regions of models that are compiled in parts (dynamic_executor.h), and whole models.
/// A key says all that a program follows from: the model with bound values and a digest of its
/// constants, chip, options, and compiler_version(). A value is a package (compiler/compile/package.h) or,
/// where nothing is left to run, the results; of regions that the chip's way refuses, why. What can't be read
/// counts as not there.
///
///     std::optional<StoredPrograms> programs = stored_programs(cache_directory, {});
///     CompiledModel compiled = compile_or_find(model, chip, options, programs ? &*programs : nullptr);
namespace kodama::compiler {

/// Of all sources that have a say in what a program is: a hash of their texts, made by the build.
std::string_view compiler_version();

/// `model` is taken apart meanwhile, and is the same afterwards.
std::string program_key(onnx::ModelProto& model, const isa::Chip& chip, const CompileOptions& options);

class StoredPrograms {
 public:
  /// So many bytes of them are kept; what wasn't used for longest goes first. A program whose constants are
  /// more than a quarter of that isn't stored.
  static constexpr int64_t kMostBytes = int64_t{2} << 30;

  /// What a region was compiled to: `results` of one that is folded, else `compiled`.
  struct Made {
    std::vector<Value> results;
    CompiledModel compiled;
  };

  /// Where they are in the directory that `--cache` names.
  static std::string directory_in(const std::string& cache) { return cache + "/programs"; }
  explicit StoredPrograms(std::string directory, int64_t most_bytes = kMostBytes);

  std::optional<Made> find(const std::string& key, const isa::Chip& chip) const;
  void store(const std::string& key, const std::vector<Value>& results, const CompiledModel& compiled);

  /// Why this can't be compiled; empty text: it can. Kept also for what was compiled only to know that.
  std::optional<std::string> verdict(const std::string& key) const;
  void store_verdict(const std::string& key, const std::string& why_not);

 private:
  layout::SolutionCache cache_;
  int64_t most_bytes_;
};

/// Those of a cache directory. Nothing where there is none (empty), where passes must run because their
/// results are wanted, and beside plugins: a plugin's name doesn't say what it is.
std::optional<StoredPrograms> stored_programs(const std::string& cache,
                                              const std::set<std::string>& dump_after);

/// What compile_model() gives, or gave for the same model, chip and options. `programs`: null means compile.
/// `prepared` as there.
CompiledModel compile_or_find(onnx::ModelProto model, const isa::Chip& chip, const CompileOptions& options,
                              StoredPrograms* programs, onnx::ModelProto* prepared = nullptr);

}  // namespace kodama::compiler
