#include "compiler/dynamic/stored_programs.h"

#include <fmt/format.h>

#include <cstring>

#include "compiler/graph/onnx_model.h"
#include "compiler/package/package.h"
#include "compiler/proto/tensor_proto.h"
#include "passes/registry.h"

namespace kodama::compiler {

namespace {

constexpr std::string_view kPackage = "package\n";
constexpr std::string_view kResults = "results\n";

/// 128 bits of a long text, a word at a time: constants can be as large as memory.
std::string digest(std::string_view text) {
  uint64_t first = 0x9e3779b97f4a7c15ULL;
  uint64_t second = 0xc2b2ae3d27d4eb4fULL;
  const auto mix = [&](uint64_t word) {
    first = (first ^ word) * 0xff51afd7ed558ccdULL;
    first ^= first >> 32;
    second = (second + word) * 0xc4ceb9fe1a85ec53ULL;
    second ^= second >> 29;
  };
  size_t at = 0;
  for (; at + sizeof(uint64_t) <= text.size(); at += sizeof(uint64_t)) {
    uint64_t word = 0;
    std::memcpy(&word, &text[at], sizeof word);
    mix(word);
  }
  uint64_t rest = 0;
  if (at < text.size()) std::memcpy(&rest, &text[at], text.size() - at);
  mix(rest);
  mix(text.size());
  return fmt::format("{:016x}{:016x}", first, second);
}

std::string describe_options(const CompileOptions& options) {
  const scheduler::PipelineChoice& passes = options.passes;
  std::string text = fmt::format(
      "precision {} planner {} passes {} {} {} {} {} {} {} fuse {} host {} weights {} {} stored {} kept {} "
      "slices {}",
      matrix_precision_name(options.precision), options.planner, passes.coalescer, passes.home_assigner,
      passes.spiller, passes.allocator, passes.scheduler, passes.loop_scheduler, passes.transfers,
      options.lowering.fuse, options.lowering.force_host, weights_name(options.weights),
      options.planned_weights ? weights_name(*options.planned_weights) : "", options.store_layers,
      options.keeps_inputs, options.slices.value_or(0));
  for (const auto& [name, value] : passes.options) text += fmt::format("\noption {}={}", name, value);
  for (const TieRequest& tie : options.ties)
    text += fmt::format("\ntie '{}' '{}' {}", tie.output, tie.input, tie.fetch);
  return text;
}

std::string program_entry(const std::string& key) {
  return "program\n" + key;
}
std::string verdict_entry(const std::string& key) {
  return "verdict\n" + key;
}

std::vector<Value> results_from_bytes(std::string_view bytes) {
  onnx::GraphProto graph;
  if (!graph.ParseFromArray(bytes.data(), static_cast<int>(bytes.size())))
    throw isa::UserError("stored results can't be read");
  std::vector<Value> results;
  for (const auto& tensor : graph.initializer())
    results.emplace_back(tensor_from_proto(tensor, tensor.name()));
  return results;
}

std::string results_to_bytes(const std::vector<Value>& results) {
  onnx::GraphProto graph;
  for (const Value& value : results) *graph.add_initializer() = tensor_to_proto(value.tensor(), "");
  return graph.SerializeAsString();
}

}  // namespace

std::string program_key(onnx::ModelProto& model, const isa::Chip& chip, const CompileOptions& options) {
  std::string key =
      fmt::format("compiler {}\nchip {}\n{}\n", compiler_version(), chip.hash, describe_options(options));
  for (const auto& tensor : model.graph().initializer()) {
    key += fmt::format("constant '{}' {}\n", tensor.name(),
                       digest(tensor.has_raw_data() ? tensor.raw_data() : tensor.SerializeAsString()));
  }
  const LargeDataAside aside(*model.mutable_graph());
  return key + model.SerializeAsString();
}

StoredPrograms::StoredPrograms(std::string directory, int64_t most_bytes)
    : cache_(std::move(directory), most_bytes), most_bytes_(most_bytes) {}

std::optional<StoredPrograms::Made> StoredPrograms::find(const std::string& key,
                                                         const isa::Chip& chip) const {
  const std::optional<std::string> value = cache_.find(program_entry(key));
  if (!value) return std::nullopt;
  Made made;
  try {
    if (value->starts_with(kResults)) {
      made.results = results_from_bytes(std::string_view(*value).substr(kResults.size()));
    } else if (value->starts_with(kPackage)) {
      made.compiled =
          package_from_bytes(std::string_view(*value).substr(kPackage.size()), chip, "stored program");
    } else {
      return std::nullopt;
    }
  } catch (const isa::Error&) {  // of an older format, or damaged: it is made, and written, anew
    return std::nullopt;
  }
  return made;
}

void StoredPrograms::store(const std::string& key, const std::vector<Value>& results,
                           const CompiledModel& compiled) {
  int64_t bytes = 0;
  for (const CompiledModel::Preload& preload : compiled.preloads) {
    for (const auto& group : preload.image.groups)
      bytes += static_cast<int64_t>(group.size() * sizeof(uint64_t));
  }
  if (bytes > most_bytes_ / 4) return;
  cache_.store(program_entry(key), results.empty() ? package_to_bytes(compiled, kPackage)
                                                   : std::string(kResults) + results_to_bytes(results));
}

std::optional<std::string> StoredPrograms::verdict(const std::string& key) const {
  return cache_.find(verdict_entry(key));
}

void StoredPrograms::store_verdict(const std::string& key, const std::string& why_not) {
  cache_.store(verdict_entry(key), why_not);
}

std::optional<StoredPrograms> stored_programs(const std::string& cache,
                                              const std::set<std::string>& dump_after) {
  if (cache.empty() || !dump_after.empty() || passes::RegisteringPlugin::any()) return std::nullopt;
  return StoredPrograms(StoredPrograms::directory_in(cache));
}

CompiledModel compile_or_find(onnx::ModelProto model, const isa::Chip& chip, const CompileOptions& options,
                              StoredPrograms* programs, onnx::ModelProto* prepared) {
  if (programs == nullptr) return compile_model(std::move(model), chip, options, prepared);
  const std::string key = program_key(model, chip, options);
  if (std::optional<StoredPrograms::Made> made = programs->find(key, chip)) {
    if (prepared != nullptr) *prepared = prepared_model(std::move(model), options);
    return std::move(made->compiled);
  }
  CompiledModel compiled = compile_model(std::move(model), chip, options, prepared);
  programs->store(key, {}, compiled);
  return compiled;
}

}  // namespace kodama::compiler
