#include "compiler/compile/keep_windows.h"

#include <algorithm>
#include <array>
#include <optional>
#include <type_traits>
#include <utility>
#include <variant>

#include "compiler/compile/local_memory.h"
#include "compiler/tile/buffer_use.h"
#include "isa/arithmetic.h"

namespace kodama::compiler {

using isa::Space;

namespace {

/// A load of windows, or what is everywhere before the first, without the numbers that things have in a
/// program, and where its stream is.
struct WindowLoad {
  std::variant<LoadRows, LoadLanes, FillTile> load;
  const TileStream* stream = nullptr;  ///< of a load
  /// What it fills: parts of stacks, rows, columns.
  std::array<std::pair<int64_t, int64_t>, 3> range = {};

  bool is_same(const WindowLoad& other) const {
    const auto is_same_stream = [&] {
      return stream->dram_address == other.stream->dram_address &&
             stream->length_lw == other.stream->length_lw && stream->transport == other.stream->transport;
    };
    return load == other.load && (stream == nullptr || is_same_stream());
  }
  bool meets(const WindowLoad& other) const {
    for (size_t k = 0; k < range.size(); ++k) {
      if (range.at(k).second <= other.range.at(k).first || other.range.at(k).second <= range.at(k).first)
        return false;
    }
    return true;
  }
};

/// What fills a buffer of a program: some loads, each another part of it.
struct Windows {
  int buffer = -1;
  int64_t size_lw = 0;
  std::vector<WindowLoad> loads;

  bool is_same(const Windows& other) const {
    return size_lw == other.size_lw &&
           std::ranges::equal(loads, other.loads,
                              [](const WindowLoad& a, const WindowLoad& b) { return a.is_same(b); });
  }
};

std::array<std::pair<int64_t, int64_t>, 3> range_of(const LoadRows& load) {
  return {{{load.first_chunk, load.first_chunk + load.parts * load.part_places()},
           {load.first_row, load.first_row + load.rows},
           {load.first_column, load.first_column + load.columns}}};
}
std::array<std::pair<int64_t, int64_t>, 3> range_of(const LoadLanes& load) {
  return {{{load.first_place, load.first_place + load.parts * load.part_places()},
           {load.first_row, load.first_row + load.rows},
           {0, load.columns()}}};
}

/// The load as one of windows; nothing where it takes what another operation has brought to L2BM, or comes in
/// a form that isn't laid out by rows.
std::optional<WindowLoad> window_load(const TileProgram& program, const TileNode& node) {
  return std::visit(
      [&](const auto& load) -> std::optional<WindowLoad> {
        using Load = std::decay_t<decltype(load)>;
        if constexpr (std::is_same_v<Load, LoadRows> || std::is_same_v<Load, LoadLanes>) {
          const bool is_own = std::ranges::all_of(
              load.transfers, [](const RowsTransfer& transfer) { return transfer.stream < 0; });
          if (load.transfers.empty() || !is_own) return std::nullopt;
          if constexpr (std::is_same_v<Load, LoadRows>) {
            if (load.form != RowsForm::kVectors) return std::nullopt;
          } else {
            if (load.side_chunks != 0) return std::nullopt;
          }
          Load plain = load;
          plain.stream = plain.buffer = -1;
          return WindowLoad{std::move(plain), &program.streams[static_cast<size_t>(load.stream)],
                            range_of(load)};
        } else if constexpr (std::is_same_v<Load, FillTile>) {
          Load plain = load;
          plain.buffer = -1;
          return WindowLoad{plain};
        } else {
          return std::nullopt;
        }
      },
      node.kind);
}

/// Whether an operation takes from a stream, or brings something there.
bool uses_stream(const TileNode& node, int stream) {
  return std::visit(
      [&](const auto& op) {
        if constexpr (std::is_same_v<std::decay_t<decltype(op)>, TileLoop>) {
          return std::ranges::any_of(op.body,
                                     [&](const TileNode& each) { return uses_stream(each, stream); });
        } else if constexpr (requires { op.stream; }) {
          return op.stream == stream;
        } else {
          return std::is_same_v<std::decay_t<decltype(op)>, StreamProduct>;
        }
      },
      node.kind);
}

bool writes_to(const TileNode& node, int buffer) {
  const std::vector<int> writes = buffers_of(node).writes;
  return std::ranges::find(writes, buffer) != writes.end();
}

/// Of a program's buffers those that it fills with windows alone.
std::vector<Windows> windows_of(const TileProgram& program) {
  std::vector<Windows> list;
  for (size_t b = 0; b < program.buffers.size(); ++b) {
    const TileBuffer& buffer = program.buffers[b];
    if (buffer.address_lw >= 0 || (buffer.homes & isa::space_bit(Space::kLm1)) == 0) continue;
    Windows windows{static_cast<int>(b), buffer.size_lw, {}};
    bool is_whole = true;
    for (const TileNode& node : program.body) {
      if (!writes_to(node, windows.buffer)) continue;
      std::optional<WindowLoad> load = window_load(program, node);
      const bool is_behind = load && std::holds_alternative<FillTile>(load->load) && !windows.loads.empty();
      is_whole =
          is_whole && load && !is_behind &&
          std::ranges::none_of(windows.loads, [&](const WindowLoad& other) { return other.meets(*load); });
      if (!is_whole) break;
      windows.loads.push_back(std::move(*load));
    }
    if (is_whole && !windows.loads.empty() && windows.loads.back().stream != nullptr)
      list.push_back(std::move(windows));
  }
  return list;
}

/// Whether somebody else takes from the streams of a buffer's loads, or something goes there.
bool shares_streams(const TileProgram& program, const Windows& windows) {
  for (size_t stream = 0; stream < program.streams.size(); ++stream) {
    const auto is_of = [&](const WindowLoad& load) {
      return load.stream != nullptr && load.stream->dram_address == program.streams[stream].dram_address;
    };
    if (std::ranges::none_of(windows.loads, is_of)) continue;
    for (const TileNode& node : program.body) {
      if (uses_stream(node, static_cast<int>(stream)) && !writes_to(node, windows.buffer)) return true;
    }
  }
  return false;
}

/// Addresses of LM1 that a program keeps, in order.
std::vector<std::pair<int64_t, int64_t>> kept_ranges(const TileProgram& program) {
  std::vector<std::pair<int64_t, int64_t>> ranges;
  for (const TileProgram::Kept& kept : program.kept) {
    if (kept.memory == Space::kLm1) ranges.emplace_back(kept.begin_lw, kept.begin_lw + kept.size_lw);
  }
  std::ranges::sort(ranges);
  return ranges;
}

/// The same windows of several stages, one behind the other.
struct Chain {
  size_t first = 0;  ///< stage
  std::vector<Windows> windows;
};

/// The end of the largest room of LM1 that all stages of a chain have, and leave enough of to each other's
/// buffers; -1: there is none.
int64_t address_for(const Chain& chain, const std::vector<TileProgram*>& stages, const isa::Chip& chip) {
  const int64_t size = isa::round_up(chain.windows[0].size_lw, 2);
  std::vector<std::pair<int64_t, int64_t>> taken;
  int64_t own = 0;
  for (size_t k = 0; k < chain.windows.size(); ++k) {
    const TileProgram& program = *stages[chain.first + k];
    const auto ranges = kept_ranges(program);
    taken.insert(taken.end(), ranges.begin(), ranges.end());
    own = std::max(own, own_local_memory_lw(program, Space::kLm1, {chain.windows[k].buffer}, chip));
  }
  std::ranges::sort(taken);
  const int64_t all = chip.memory.lm_words / isa::kWordsPerLong;
  taken.emplace_back(all, all);
  int64_t largest = 0, end = -1, from = 0;
  for (const auto& [begin, behind] : taken) {
    if (begin - from > largest) {
      largest = begin - from;
      end = begin;
    }
    from = std::max(from, behind);
  }
  const int64_t address = (end - size) / 2 * 2;
  return largest >= size + own + 1 ? address : -1;
}

}  // namespace

std::vector<bool> keep_windows(const std::vector<TileProgram*>& stages, const isa::Chip& chip) {
  std::vector<Chain> chains;
  std::vector<Chain> open;  // those that the stage before has
  for (size_t k = 0; k < stages.size(); ++k) {
    std::vector<Chain> next;
    if (stages[k] != nullptr) {
      for (Windows& windows : windows_of(*stages[k])) {
        if (shares_streams(*stages[k], windows)) continue;
        const auto same = std::ranges::find_if(
            open, [&](const Chain& chain) { return chain.windows.back().is_same(windows); });
        if (same == open.end()) {
          next.push_back({k, {}});
        } else {
          next.push_back(std::move(*same));
          open.erase(same);
        }
        next.back().windows.push_back(std::move(windows));
      }
    }
    std::ranges::move(open, std::back_inserter(chains));
    open = std::move(next);
  }
  std::ranges::move(open, std::back_inserter(chains));

  std::vector<bool> changed(stages.size(), false);
  for (const Chain& chain : chains) {
    if (chain.windows.size() < 2) continue;
    const int64_t address = address_for(chain, stages, chip);
    if (address < 0) continue;
    for (size_t k = 0; k < chain.windows.size(); ++k) {
      const int number = chain.windows[k].buffer;
      TileProgram& program = *stages[chain.first + k];
      TileBuffer& buffer = program.buffers[static_cast<size_t>(number)];
      buffer.address_lw = address;
      buffer.memory = Space::kLm1;
      program.kept.push_back({address, isa::round_up(buffer.size_lw, 2), Space::kLm1});
      changed[chain.first + k] = true;
      if (k > 0) std::erase_if(program.body, [&](const TileNode& node) { return writes_to(node, number); });
    }
  }
  return changed;
}

}  // namespace kodama::compiler
