#include <fmt/format.h>

#include <map>

#include "compiler/compile/fetch_ahead.h"
#include "compiler/tile/buffer_use.h"
#include "isa/error.h"

namespace kodama::compiler {

namespace {
constexpr const char* kVerifyFetchAhead = "verify_fetch_ahead";
}  // namespace

void verify_fetch_ahead(const std::vector<const TileProgram*>& before,
                        const std::vector<const TileProgram*>& after) {
  /// Which long word of DRAM, by the stream's address and the number in it, and in which form.
  struct Source {
    int64_t dram = -1, number = 0;
    std::pair<int, StreamElement> form{-1, StreamElement::kFloat};
    bool operator==(const Source&) const = default;
  };
  const auto form_of = [](const LoadTile& load) {
    return load.normalize ? std::pair{static_cast<int>(*load.normalize), load.element}
                          : std::pair{-1, load.element};
  };
  const auto require = [](bool condition, const TileProgram& program, const std::string& what) {
    isa::check_internal(condition, kVerifyFetchAhead, "{}: {}", program.name, what);
  };
  std::map<int64_t, Source> memory;  // by LW
  for (size_t k = 0; k < after.size(); ++k) {
    if (after[k] == nullptr) continue;
    const TileProgram& program = *after[k];
    const auto place = [&](int buffer) { return program.buffers[static_cast<size_t>(buffer)].address_lw; };
    /// It has its contents all the time (verify_resident), or an earlier stage's (verify_keep_windows).
    const auto stays = [&](int buffer) {
      const auto number = static_cast<size_t>(buffer);
      return number < before[k]->buffers.size() && before[k]->buffers[number].address_lw >= 0;
    };
    const auto fill = [&](const TileProgram& of, const LoadTile& load, auto&& word) {
      const int64_t shrink = load.stream_lw();
      for (int64_t lw = 0; lw < load.count / shrink; ++lw) {
        word(load.at.base + lw, Source{of.streams[static_cast<size_t>(load.stream)].dram_address,
                                       load.from.base + lw * shrink, form_of(load)});
      }
    };
    for (const TileNode& node : program.body) {
      for (const int buffer : buffers_of(node).reads) {
        if (place(buffer) < 0 || stays(buffer)) continue;
        bool is_loaded = false;
        for (const TileNode& original : before[k]->body) {
          const auto* load = std::get_if<LoadTile>(&original.kind);
          if (load == nullptr || load->buffer != buffer) continue;
          is_loaded = true;
          fill(*before[k], *load, [&](int64_t lw, const Source& source) {
            require(memory[place(buffer) + lw] == source, program,
                    fmt::format("LW {} of buffer '{}' is not what its own load brings", lw,
                                program.buffers[static_cast<size_t>(buffer)].name));
          });
        }
        require(is_loaded, program, "a buffer with an address that no load fills");
      }
      for (const int buffer : buffers_of(node).writes) {
        if (place(buffer) < 0 || stays(buffer)) continue;
        require(program.buffers[static_cast<size_t>(buffer)].memory == isa::Space::kLm0, program,
                "a load to LM1");
        const auto* load = std::get_if<LoadTile>(&node.kind);
        require(load != nullptr && load->at.strides.empty() && load->from.strides.empty(), program,
                "something else than a load writes to a buffer with an address");
        fill(program, *load, [&](int64_t lw, const Source& source) {
          const int64_t at = place(buffer) + lw;
          for (const TileProgram::Kept& kept : before[k]->kept) {
            require(!kept.meets(isa::Space::kLm0, at, 1), program,
                    fmt::format("a load to LW {}, which somebody else keeps", at));
          }
          memory[at] = source;
        });
      }
    }
  }
}

}  // namespace kodama::compiler
