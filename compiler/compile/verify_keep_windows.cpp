#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "compiler/compile/keep_windows.h"
#include "compiler/tile/buffer_use.h"
#include "isa/error.h"

/// Looks at texts of operations, and at which LW of LM1 have what.
namespace kodama::compiler {

namespace {

constexpr const char* kVerifyKeepWindows = "verify_keep_windows";

/// The operations of a program as texts, in which streams have their DRAM addresses for names, with the
/// buffers that they write. `kept`: a buffer whose name doesn't matter; -1: none.
struct Texts {
  std::vector<std::string> lines;
  std::vector<std::vector<int>> writes;
};
Texts texts_of(const TileProgram& program, int kept) {
  Texts texts;
  TileProgram one;
  one.buffers = program.buffers;
  one.streams = program.streams;
  for (TileBuffer& buffer : one.buffers) buffer.address_lw = -1;
  for (TileStream& stream : one.streams) stream.name = fmt::format("DRAM {}", stream.dram_address);
  if (kept >= 0) one.buffers[static_cast<size_t>(kept)].name = "kept";
  const std::string nothing = to_string(one);
  for (const TileNode& node : program.body) {
    one.body = {node};
    texts.lines.push_back(to_string(one).substr(nothing.size()));
    texts.writes.push_back(buffers_of(node).writes);
  }
  return texts;
}

}  // namespace

void verify_keep_windows(const std::vector<const TileProgram*>& before,
                         const std::vector<const TileProgram*>& after) {
  const auto require = [](bool condition, const TileProgram& program, const std::string& what) {
    isa::check_internal(condition, kVerifyKeepWindows, "{}: {}", program.name, what);
  };
  /// What a place of LM1 has, and which stage was the last to keep it.
  struct Contents {
    std::vector<std::string> loads;
    int64_t size_lw = 0;
    size_t stage = 0;
  };
  std::map<int64_t, Contents> memory;
  for (size_t k = 0; k < after.size(); ++k) {
    if (after[k] == nullptr) continue;
    const TileProgram& program = *after[k];
    const TileProgram& own = *before[k];
    require(program.buffers.size() == own.buffers.size() && program.streams.size() == own.streams.size(),
            program, "other buffers or streams");
    std::vector<bool> gone(own.body.size(), false);
    bool is_changed = false;
    for (size_t b = 0; b < program.buffers.size(); ++b) {
      const TileBuffer& buffer = program.buffers[b];
      if (buffer.address_lw < 0 || own.buffers[b].address_lw >= 0) continue;
      const auto number = static_cast<int>(b);
      is_changed = true;
      const auto loads_of = [&](const Texts& texts) {
        std::vector<std::string> loads;
        for (size_t n = 0; n < texts.lines.size(); ++n) {
          if (std::ranges::find(texts.writes[n], number) != texts.writes[n].end())
            loads.push_back(texts.lines[n]);
        }
        return loads;
      };
      const std::vector<std::string> wanted = loads_of(texts_of(own, number));
      const std::vector<std::string> found = loads_of(texts_of(program, number));
      const int64_t end = buffer.address_lw + buffer.size_lw;
      require(buffer.memory == isa::Space::kLm1 && !wanted.empty() && (found.empty() || found == wanted),
              program, fmt::format("the loads of buffer '{}' have changed", buffer.name));
      for (const TileProgram::Kept& other : own.kept)
        require(!other.meets(buffer.memory, buffer.address_lw, buffer.size_lw), program,
                fmt::format("buffer '{}' is where something else stays", buffer.name));
      Contents& contents = memory[buffer.address_lw];
      if (found.empty()) {
        require(contents.loads == wanted && contents.size_lw == buffer.size_lw && contents.stage + 1 == k,
                program, fmt::format("buffer '{}' hasn't what its own loads bring", buffer.name));
        for (size_t n = 0; n < own.body.size(); ++n) {
          const std::vector<int> writes = buffers_of(own.body[n]).writes;
          gone[n] = gone[n] || std::ranges::find(writes, number) != writes.end();
        }
      }
      contents = {wanted, buffer.size_lw, k};
      for (const auto& [at, other] : memory)
        require(at == buffer.address_lw || other.stage != k || at >= end ||
                    at + other.size_lw <= buffer.address_lw,
                program, fmt::format("buffer '{}' meets another one that stays", buffer.name));
    }
    require(program.body.size() + static_cast<size_t>(std::ranges::count(gone, true)) == own.body.size(),
            program, "there are other operations");
    if (!is_changed) continue;
    const Texts wanted = texts_of(own, -1), found = texts_of(program, -1);
    std::vector<std::string> left;
    for (size_t n = 0; n < wanted.lines.size(); ++n) {
      if (!gone[n]) left.push_back(wanted.lines[n]);
    }
    require(left == found.lines, program, "operations have changed");
  }
}

}  // namespace kodama::compiler
