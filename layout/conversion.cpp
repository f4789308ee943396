#include "layout/conversion.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <optional>

#include "isa/error.h"

namespace kodama::layout {
namespace {

using isa::Space;
using isa::UnsupportedError;
using isa::Width;

constexpr std::array<Level, 5> kPosition{Level::kL2b, Level::kL1b, Level::kMab, Level::kPe, Level::kWord};

bool in_pe(Memory memory) {
  return memory <= Memory::kGrf1;
}

Space space_of(Memory memory) {
  constexpr std::array<Space, 4> kSpaces{Space::kLm0, Space::kLm1, Space::kGrf0, Space::kGrf1};
  return kSpaces[static_cast<size_t>(memory)];
}

/// Calls visit(index, is_padding) for every place of a layout.
template <typename Visit>
void for_each_place(const Layout& layout, const Lengths& lengths, Visit&& visit) {
  std::vector<int64_t> index(lengths.size(), 0);
  for (;;) {
    bool padding = false;
    for (size_t axis = 0; axis < index.size(); ++axis) padding = padding || index[axis] >= lengths[axis];
    visit(index, padding);
    size_t axis = index.size();
    while (axis > 0 && ++index[axis - 1] == layout.extent(axis - 1)) index[--axis] = 0;
    if (axis == 0) return;
  }
}

Coordinates plus(Coordinates a, const Coordinates& b) {
  for (size_t level = 0; level < kLevelCount; ++level) a.at[level] += b.at[level];
  return a;
}

/// The 32-bit pattern, in both halves of a long word, that padding of this type is; nothing where it may be
/// anything.
std::optional<uint64_t> padding_pattern(Padding padding, int element_bits) {
  if (padding == Padding::kUndefined) return std::nullopt;
  if (padding == Padding::kZero) return 0;
  // 1, 6 and 9 bits for halves, IEEE layouts above.
  const bool negative = padding == Padding::kMinusInfinity;
  const auto repeated = [&](uint64_t one, uint64_t infinity, uint64_t sign) {
    const uint64_t value = padding == Padding::kOne ? one : infinity | (negative ? sign : 0);
    uint64_t word = 0;
    for (int bit = 0; bit < 64; bit += element_bits) word |= value << bit;
    return word;
  };
  if (element_bits == 64) return repeated(0x3ff0000000000000, 0x7ff0000000000000, uint64_t{1} << 63);
  if (element_bits == 32) return repeated(0x3f800000, 0x7f800000, 0x80000000);
  return repeated(0x3e00, 0x7e00, 0x8000);
}

/// The primitive `copy`.
class Copy {
 public:
  Copy(const ConversionProblem& problem, const isa::Chip& chip) : problem_(problem), chip_(chip) {}

  Conversion run() {
    if (!in_pe(problem_.from.memory()) || !in_pe(problem_.to.memory()))
      refuse(fmt::format("it moves from {} to {}", memory_name(problem_.from.memory()),
                         memory_name(problem_.to.memory())));
    map_elements();
    map_padding();
    check_words();
    Conversion result;
    if (sources_.empty() && fills_.empty()) return result;
    const Memory from = problem_.from.memory();
    const Memory to = problem_.to.memory();
    const int64_t end = problem_.to.level_extent(Level::kAddress);
    result.scratch.push_back({to, 0, end});
    if (from == to) {
      const Memory through = from == Memory::kLm0    ? Memory::kLm1
                             : from == Memory::kLm1  ? Memory::kLm0
                             : from == Memory::kGrf0 ? Memory::kGrf1
                                                     : Memory::kGrf0;
      result.scratch.push_back({through, 0, end});
      std::map<int64_t, int64_t> in_place;
      for (const auto& [target, source] : sources_) in_place[target] = target;
      emit_copies(sources_, from, through, result.program);
      result.program.statements.push_back({isa::Nop{chip_.hazard.pe_gap(isa::kCyclesPerStep - 1, 0), 0}, 0});
      emit_copies(in_place, through, to, result.program);
      result.path = {"copy", "copy"};
    } else {
      emit_copies(sources_, from, to, result.program);
      result.path = {"copy"};
    }
    emit_fills(to, result.program);
    return result;
  }

 private:
  [[noreturn]] void refuse(const std::string& why) const {
    throw UnsupportedError(
        fmt::format("conversion from {} to {}: {}; supported so far: changes of address and memory inside "
                    "the PEs. What goes "
                    "further must be sent through the host",
                    problem_.from.to_string(), problem_.to.to_string(), why));
  }

  /// For every address of the target, the address of the source that its long word comes from.
  void map_elements() {
    const std::vector<Coordinates> from_copies = problem_.from.replica_offsets();
    const std::vector<Coordinates> to_copies = problem_.to.replica_offsets();
    for_each_place(problem_.to, problem_.lengths, [&](const std::vector<int64_t>& index, bool padding) {
      if (padding) return;
      const Coordinates source = problem_.from.place(index);
      for (const Coordinates& to_offset : to_copies) {
        const Coordinates target = plus(problem_.to.place(index), to_offset);
        // The copy of the source in the same place of the tree, if there is one.
        const auto here = std::ranges::find_if(from_copies, [&](const Coordinates& offset) {
          const Coordinates copy = plus(source, offset);
          return std::ranges::all_of(kPosition, [&](Level level) { return copy[level] == target[level]; });
        });
        if (here == from_copies.end()) refuse(moved(index, source, target));
        const int64_t from_address = plus(source, *here)[Level::kAddress];
        const int64_t to_address = target[Level::kAddress];
        const auto [known, is_new] = sources_.try_emplace(to_address, from_address);
        if (!is_new && known->second != from_address) {
          refuse(fmt::format("long word {} of the target takes elements from long words {} and {}",
                             to_address, known->second, from_address));
        }
      }
    });
    // What is there already.
    if (problem_.from.memory() == problem_.to.memory() &&
        std::ranges::all_of(sources_, [](const auto& pair) { return pair.first == pair.second; })) {
      stays_ = true;
    }
  }

  std::string moved(const std::vector<int64_t>& index, const Coordinates& source,
                    const Coordinates& target) const {
    for (const Level level : kPosition) {
      if (source[level] != target[level]) {
        const std::string_view name = level == Level::kWord ? "word" : level_name(level);
        return fmt::format("element ({}) goes from {} {} to {} {}", fmt::join(index, ", "), name,
                           source[level], name, target[level]);
      }
    }
    return fmt::format("element ({}) is replicated", fmt::join(index, ", "));
  }

  /// Padding of the target: copied with its long word from padding of the same kind, or written.
  void map_padding() {
    if (problem_.to.padding() == Padding::kUndefined) return drop_what_stays();
    const bool same_kind = problem_.from.padding() == problem_.to.padding();
    bool all_there = true;
    for_each_place(problem_.to, problem_.lengths, [&](const std::vector<int64_t>& index, bool padding) {
      if (!padding) return;
      for (const Coordinates& offset : problem_.to.replica_offsets()) {
        const Coordinates target = plus(problem_.to.place(index), offset);
        const auto source = sources_.find(target[Level::kAddress]);
        if (source == sources_.end()) {
          fills_.push_back(target[Level::kAddress]);
          all_there = false;
          continue;
        }
        Coordinates from = target;
        from[Level::kAddress] = source->second;
        const auto found = problem_.from.element(from);
        bool is_padding = found.has_value() && same_kind;
        if (is_padding) {
          is_padding = false;
          for (size_t axis = 0; axis < found->size(); ++axis)
            is_padding = is_padding || (*found)[axis] >= problem_.lengths[axis];
        }
        if (!is_padding) {
          refuse(fmt::format(
              "long word {} of the target has elements in some PEs or words and padding in others",
              target[Level::kAddress]));
        }
      }
    });
    std::ranges::sort(fills_);
    fills_.erase(std::unique(fills_.begin(), fills_.end()), fills_.end());
    if (all_there) drop_what_stays();
  }
  void drop_what_stays() {
    if (stays_) sources_.clear();
  }

  /// Which words of a long word belong to the target: all, or the upper one alone. The others must not
  /// change.
  void check_words() {
    const int64_t words = problem_.to.level_extent(Level::kWord) * problem_.element_bits;
    if (words == 64) {
      width_ = Width::kLong;
    } else if (words == 32) {
      width_ = Width::kWord;
    } else {
      refuse("the elements fill a quarter of their long words");
    }
  }

  isa::Operand operand(Memory memory, Width width, const std::array<int64_t, 4>& long_words) const {
    isa::Operand result;
    result.space = space_of(memory);
    result.width = width;
    const int64_t step = long_words[1] - long_words[0];
    const bool even =
        long_words[2] - long_words[1] == step && long_words[3] - long_words[2] == step && step > 0;
    result.base = even ? 2 * long_words[0] : 0;
    if (even) {
      result.stride = static_cast<int32_t>(2 * step);
    } else {
      result.flat = true;
      for (size_t c = 0; c < 4; ++c) result.flat_addresses[c] = static_cast<int32_t>(2 * long_words[c]);
    }
    return result;
  }

  void emit(Memory from, Memory to, Width width, std::vector<std::pair<int64_t, int64_t>>& pairs,
            isa::Program& program) const {
    for (size_t k = 0; k < pairs.size(); k += 4) {
      std::array<int64_t, 4> targets{};
      std::array<int64_t, 4> sources{};
      for (size_t c = 0; c < 4; ++c) {
        // A last group that isn't full repeats its last copy.
        const auto& [target, source] = pairs[std::min(k + c, pairs.size() - 1)];
        targets[c] = target;
        sources[c] = source;
      }
      isa::Instruction copy;
      copy.opcode = isa::Opcode::kPassa;
      copy.precision = width == Width::kWord ? isa::Precision::kInt : isa::Precision::kLong;
      copy.sources = {operand(from, width, sources)};
      copy.destinations = {operand(to, width, targets)};
      program.statements.push_back({isa::Step{{std::move(copy)}}, 0});
    }
    pairs.clear();
  }

  void emit_copies(const std::map<int64_t, int64_t>& sources, Memory from, Memory to,
                   isa::Program& program) const {
    std::vector<std::pair<int64_t, int64_t>> wide;
    std::vector<std::pair<int64_t, int64_t>> narrow;
    for (auto pair = sources.begin(); pair != sources.end(); ++pair) {
      const auto next = std::next(pair);
      const auto& [target, source] = *pair;
      if (width_ == Width::kLong && target % 2 == 0 && source % 2 == 0 && next != sources.end() &&
          next->first == target + 1 && next->second == source + 1) {
        wide.push_back(*pair);
        ++pair;
      } else {
        narrow.push_back(*pair);
      }
    }
    emit(from, to, Width::kDoubleLong, wide, program);
    emit(from, to, width_, narrow, program);
  }

  /// Padding by way of T, which any of the memories takes.
  void emit_fills(Memory to, isa::Program& program) const {
    if (fills_.empty()) return;
    const uint64_t pattern = *padding_pattern(problem_.to.padding(), problem_.element_bits);
    isa::Operand value;
    value.space = Space::kImmediate;
    isa::Instruction load;
    load.opcode = isa::Opcode::kImm;
    // immu leaves the lower words 0, as the long words of doubles have them; imm fills all.
    load.unsigned_op = problem_.element_bits == 64;
    value.base = static_cast<int64_t>(pattern >> 32);
    load.immediate_kind = isa::ImmediateKind::kUnsigned;
    isa::Operand t;
    t.space = Space::kT;
    load.sources = {value};
    load.destinations = {t};
    program.statements.push_back({isa::Step{{std::move(load)}}, 0});
    program.statements.push_back({isa::Nop{chip_.hazard.pe_gap(0, 0), 0}, 0});
    for (size_t k = 0; k < fills_.size(); k += 4) {
      std::array<int64_t, 4> targets{};
      for (size_t c = 0; c < 4; ++c) targets[c] = fills_[std::min(k + c, fills_.size() - 1)];
      isa::Instruction fill;
      fill.opcode = isa::Opcode::kPassa;
      fill.precision = width_ == Width::kWord ? isa::Precision::kInt : isa::Precision::kLong;
      fill.sources = {t};
      fill.destinations = {operand(to, width_, targets)};
      program.statements.push_back({isa::Step{{std::move(fill)}}, 0});
    }
  }

  const ConversionProblem& problem_;
  const isa::Chip& chip_;
  std::map<int64_t, int64_t> sources_;  ///< by target address
  std::vector<int64_t> fills_;          ///< target addresses that are padding everywhere
  bool stays_ = false;
  Width width_ = Width::kLong;
};

}  // namespace

std::vector<MovePrimitive> move_primitives() {
  return {{"copy", "addresses and memory inside the PEs, one or two long words per cycle"}};
}

Conversion convert(const ConversionProblem& problem, const isa::Chip& chip) {
  ConversionBound bound =
      conversion_bound(problem.from, problem.to, problem.lengths, problem.element_bits, chip);
  Conversion result = Copy(problem, chip).run();
  result.bound = std::move(bound);
  result.steps = isa::count(result.program).steps;
  return result;
}

}  // namespace kodama::layout
