#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "compiler/dynamic/buckets.h"
#include "compiler/dynamic/region.h"
#include "compiler/package/compiled_model.h"
#include "compiler/runtime/runner.h"

namespace kodama::compiler {

/// What runs. All lengths of a bucket have one.
struct Code {
  std::vector<std::string> hosts;  ///< why parts of it are on the host: "Add 'n': int64 has no …"
  bool uses_chip = false;
  /// Of a region whose results follow from bound values, shapes and constants: these; then there is no
  /// runner.
  std::vector<Value> results;
  CompiledModel compiled;
  /// Of what is checked layer by layer: the model after the graph passes.
  onnx::ModelProto prepared;
  TensorMap observed;                   ///< what layers made in the last run, where they are compared
  std::unique_ptr<ModelRunner> runner;  ///< made for the first run; refers to `compiled`
  /// Of a loop's body: what is on the chip from the last run, inputs as they were given and, by their inputs,
  /// stand-ins for the outputs of ties; of `run_number` of the executor.
  std::map<std::string, Value> there;
  int64_t run_number = 0;
  bool is_loaded = false;  ///< its constants were sent, in a run before
};

/// A region with its code, for the types and bound values that it was made for.
struct Program {
  Region region;                        ///< without its model
  std::vector<Value> bound;             ///< values of region.bound
  std::vector<std::string> variant_of;  ///< see ProgramCache::variants()
  std::map<int, std::string> refused;   ///< nodes that were left out because the chip's way can't take them
  enum class Source : uint8_t { kCompiled, kDisk, kMemory } source = Source::kCompiled;
  double compile_seconds = 0;
  std::shared_ptr<Code> code;
  std::optional<PaddedRegion> padding;  ///< without its model; nothing: code and data have the same shapes
  std::string no_bucket;                ///< why there is none though a dimension has buckets
};

/// The programs that were used last. A key says the graph, which of its nodes are done, and the types of all
/// values that are there; programs of one key differ in their bound values.
class ProgramCache {
 public:
  /// `limit`: as many codes are kept, 1 at least.
  explicit ProgramCache(int64_t limit);

  /// The program of this key whose bound values the frame has; null if there is none. It counts as used now.
  std::shared_ptr<Program> find(const std::string& key, const Frame& frame);
  /// Whoever runs a program that goes keeps it that long.
  void add(const std::string& key, std::shared_ptr<Program> program);
  /// How many programs are there that were made for other values of the same lists, which come from data:
  /// those whose `variant_of` names these.
  int64_t variants(const std::string& of) const;

  /// Codes; decisions about Ifs, which are kept beside them, don't count.
  int64_t size() const { return static_cast<int64_t>(codes_.size()); }
  int64_t dropped() const { return dropped_; }

 private:
  struct Entry {
    std::string key;
    std::shared_ptr<Program> program;
  };

  void drop_last();

  int64_t limit_;
  int64_t dropped_ = 0;
  std::list<Entry> used_;  ///< the last one first
  std::unordered_multimap<std::string, std::list<Entry>::iterator> by_key_;
  std::unordered_map<std::string, int64_t> variants_;
  std::unordered_map<const Code*, int64_t> codes_;  ///< how many programs have it
};

}  // namespace kodama::compiler
