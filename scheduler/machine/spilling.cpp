#include <algorithm>
#include <array>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <tuple>

#include "isa/arithmetic.h"
#include "isa/error.h"
#include "scheduler/machine/builtin_passes.h"
#include "scheduler/machine/machine_problem.h"
#include "scheduler/machine/operand_copies.h"
#include "scheduler/machine/program_analysis.h"

/// "furthest-use". At the first moment, in the order of the program, at which the values that live in a
/// memory have more words than it, one of them has to be elsewhere. The first way that helps is taken, and
/// everything counted anew:
///
///   1. A value moves to another memory that it allows, with room for its whole life, where each of its
///      operations stays legal. That costs nothing.
///   2. A value's life is split. Its data live in a place that no operation knows: a value in another PE
///      memory with room for them, or else words of L1BM that the program leaves alone. Operations see pieces
///      of it, short-lived values in the old memory, filled before the first use and, when written, saved
///      behind the last one. A piece goes on to the next moment without room, as long as that costs no more
///      copies than two pieces. A loop in which there is room has its copies outside, if that is cheaper.
///
/// The value to go is the one whose next use is furthest (Belady's rule); that of a value which a loop
/// carries around may be in the next iteration. Distances are those of the text: a loop that doesn't use a
/// value is as long as its body.
///
/// A step is taken only when the words too many, added up over memories and moments, become fewer; so it
/// ends. What is left must also be packed: when there are words enough and no addresses, all is done again
/// for memories that are a little smaller. If nothing helps, the program stays as it was.
namespace kodama::scheduler {
namespace {

using isa::Instruction;
using isa::Operand;
using isa::Space;
using isa::space_bit;
using isa::Width;

/// What one step of l1bmd moves, per PE.
constexpr int64_t kStepWords = int64_t{isa::kCyclesPerStep} * isa::kWordsPerLong;

/// An operand that names a value.
struct OperandUse {
  int64_t position = 0;
  bool written = false;
  size_t number = 0;  ///< among the sources, or destinations
  const Operand* operand = nullptr;
};

/// What lives where, at all moments.
struct Occupancy {
  Occupancy(const MachineProgram& program, const isa::Chip& chip, int64_t reserve)
      : index(index_program(program)),
        lifetimes(compute_lifetimes(program, index)),
        uses(program.values.size()) {
    const size_t moments = 2 * index.sites.size() + 2;
    for (size_t h = 0; h < kPeHomes.size(); ++h) {
      const int64_t size = home_size(kPeHomes[h], chip);
      const std::vector<bool> reserved = reserved_words(index, kPeHomes[h], size);
      const int64_t taken = std::ranges::count(reserved, true);
      limit[h] = size - taken - (kPeHomes[h] == Space::kT ? 0 : size * reserve / kReserveUnits);
      live[h].assign(moments, 0);
    }
    for (size_t v = 0; v < program.values.size(); ++v) {
      const size_t h = home_index(program.values[v].home);
      if (h == kPeHomes.size()) continue;
      live[h][static_cast<size_t>(lifetimes[v].begin)] += words_in(program.values[v], h);
      live[h][static_cast<size_t>(lifetimes[v].end)] -= words_in(program.values[v], h);
    }
    for (std::vector<int64_t>& words : live) std::partial_sum(words.begin(), words.end(), words.begin());
    for (size_t p = 0; p < index.sites.size(); ++p) {
      const Instruction& instruction = index.sites[p].operation->instruction;
      for (const bool written : {false, true}) {
        const auto& operands = written ? instruction.destinations : instruction.sources;
        for (size_t k = 0; k < operands.size(); ++k) {
          if (operands[k].space == Space::kVirtual)
            uses.at(operands[k].value).push_back({static_cast<int64_t>(p), written, k, &operands[k]});
        }
      }
    }
  }

  /// A value in T takes all of it.
  static int64_t words_in(const Value& value, size_t home) {
    return kPeHomes[home] == Space::kT ? int64_t{isa::kCyclesPerStep} * words(Width::kDoubleLong)
                                       : value.size_words;
  }
  bool is_full(size_t home, int64_t moment) const {
    return live[home][static_cast<size_t>(moment)] > limit[home];
  }
  /// Words that are free in all of a lifetime.
  int64_t room(size_t home, const Lifetime& life) const {
    const auto begin = live[home].begin();
    return limit[home] - *std::max_element(begin + life.begin, begin + life.end);
  }
  /// Words that are too many, over memories and moments.
  int64_t excess() const {
    int64_t sum = 0;
    for (size_t h = 0; h < kPeHomes.size(); ++h) {
      for (const int64_t words : live[h]) sum += std::max<int64_t>(words - limit[h], 0);
    }
    return sum;
  }
  /// The first moment at which a memory has too much.
  std::optional<std::pair<int64_t, size_t>> first_full() const {
    for (size_t m = 0; m < live[0].size(); ++m) {
      for (size_t h = 0; h < kPeHomes.size(); ++h) {
        if (is_full(h, static_cast<int64_t>(m))) return std::pair{static_cast<int64_t>(m), h};
      }
    }
    return std::nullopt;
  }

  /// A memory's words are counted without this many parts of kReserveUnits.
  static constexpr int64_t kReserveUnits = 16;

  ProgramIndex index;
  std::vector<Lifetime> lifetimes;
  std::vector<std::vector<OperandUse>> uses;  ///< by value, in program order
  std::array<int64_t, kPeHomes.size()> limit{};
  std::array<std::vector<int64_t>, kPeHomes.size()> live;
};

/// Where data are while no operation needs them: a value, or words of L1BM.
struct ValuePlace {
  int value = -1;
  int64_t l1bm = -1;
};

/// The split of one value's life.
class LifeSplit {
 public:
  /// `occupancy` is that of the program as it is.
  LifeSplit(MachineProgram& program, const isa::Chip& chip, const Occupancy& occupancy, int value,
            ValuePlace place)
      : program_(program),
        chip_(chip),
        now_(occupancy),
        value_(value),
        place_(place),
        home_(home_index(program.values[static_cast<size_t>(value)].home)),
        uses_(now_.uses[static_cast<size_t>(value)]),
        life_(now_.lifetimes[static_cast<size_t>(value)]),
        forward_(program) {
    full_before_.push_back(0);
    for (size_t m = 0; m < now_.live[home_].size(); ++m)
      full_before_.push_back(full_before_.back() + (now_.is_full(home_, static_cast<int64_t>(m)) ? 1 : 0));
  }

  /// Whether all uses of a value can see a piece of it in its place.
  static bool possible(const std::vector<OperandUse>& uses) {
    return std::ranges::all_of(uses, [](const OperandUse& use) {
      const Operand& operand = *use.operand;
      const int64_t unit = unit_of(operand);
      return !operand.t_indirect && operand.j < 0 &&
             std::ranges::all_of(operand.loop_strides, [&](int64_t stride) { return stride % unit == 0; });
    });
  }

  void run() {
    for (const Piece& piece : pieces(-1, 0, uses_.size())) insert(piece);
    program_.body = rewritten(program_.body);
  }

 private:
  /// Some uses, all of one loop (or none) and of the loops in it, and the words that they need, relative to
  /// what the loops around add.
  struct Piece {
    int loop = -1;
    std::vector<size_t> uses;
    int64_t low = 0;
    int64_t high = 0;
    std::vector<int64_t> strides;  ///< of the loops around
    int first_loop = -1;           ///< the copies stand before this loop; -1: before the first operation
    int last_loop = -1;
    Lifetime span;
    bool load = false;
    bool store = false;
    int64_t cost = 0;  ///< copies, as often as they run
  };

  /// Addresses of pieces are multiples of this for the operand, so that it stays aligned.
  static int64_t unit_of(const Operand& operand) {
    return std::max<int64_t>(words(operand.width), isa::kWordsPerLong);
  }
  size_t depth_in(int loop) const {
    return loop < 0 ? 0 : static_cast<size_t>(now_.index.loops[static_cast<size_t>(loop)].depth) + 1;
  }
  const LoopSite& site(int loop) const { return now_.index.loops[static_cast<size_t>(loop)]; }
  bool has_full_moment(const Lifetime& span) const {
    return full_before_[static_cast<size_t>(span.end)] > full_before_[static_cast<size_t>(span.begin)];
  }
  /// Whether an iteration may see what the one before left.
  bool is_carried_around(int loop) const {
    return loop >= 0 && life_.begin <= 2 * site(loop).begin && life_.end >= 2 * site(loop).end;
  }
  int64_t runs_of(int loop) const {
    int64_t runs = 1;
    for (; loop >= 0; loop = site(loop).parent) runs *= site(loop).count;
    return runs;
  }

  // ---- which pieces ------------------------------------------------------------------------------------

  /// Of the uses [begin, end), which are all in `loop`.
  std::vector<Piece> pieces(int loop, size_t begin, size_t end) const {
    std::vector<Piece> result;
    for (size_t k = begin; k < end;) {
      size_t next = k;
      const int child = child_loop(now_.index, uses_[k].position, loop);
      std::vector<Piece> item;
      if (child == loop) {
        while (next < end && uses_[next].position == uses_[k].position) ++next;
        item = of_operation(loop, k, next);
      } else {
        while (next < end && uses_[next].position < site(child).end) ++next;
        item = of_loop(loop, child, k, next);
      }
      const std::optional<Piece> both = item.size() == 1 && item[0].loop == loop && !result.empty()
                                            ? joined(result.back(), item[0])
                                            : std::nullopt;
      if (both && both->cost <= result.back().cost + item[0].cost) {
        result.back() = *both;
      } else {
        std::ranges::move(item, std::back_inserter(result));
      }
      k = next;
    }
    return result;
  }

  /// One piece for each set of words that the operation names.
  std::vector<Piece> of_operation(int loop, size_t begin, size_t end) const {
    std::vector<Piece> result;
    for (size_t k = begin; k < end; ++k) {
      const auto known = std::ranges::find_if(result, [&](const Piece& piece) {
        return same_address(*uses_[piece.uses[0]].operand, *uses_[k].operand);
      });
      if (known != result.end()) {
        known->uses.push_back(k);
      } else {
        const int64_t position = uses_[k].position;
        Piece& piece = result.emplace_back();
        piece.loop = loop;
        piece.uses = {k};
        piece.span = {2 * position, 2 * position + 2};
      }
    }
    for (Piece& piece : result) measure(piece);
    return result;
  }

  /// The loop as one, or what is in it, if there is no room, or if that is cheaper.
  std::vector<Piece> of_loop(int loop, int child, size_t begin, size_t end) const {
    std::vector<Piece> inside = pieces(child, begin, end);
    Piece whole;
    whole.loop = loop;
    whole.uses.resize(end - begin);
    std::iota(whole.uses.begin(), whole.uses.end(), begin);
    whole.first_loop = whole.last_loop = child;
    whole.span = {2 * site(child).begin, 2 * site(child).end};
    if (has_full_moment(whole.span) || !measure(whole)) return inside;
    const int64_t cost_inside =
        std::accumulate(inside.begin(), inside.end(), int64_t{0},
                        [](int64_t sum, const Piece& piece) { return sum + piece.cost; });
    if (cost_inside < whole.cost) return inside;
    return {std::move(whole)};
  }

  std::optional<Piece> joined(const Piece& a, const Piece& b) const {
    if (a.loop != b.loop || a.strides != b.strides) return std::nullopt;
    Piece both = a;
    both.uses.insert(both.uses.end(), b.uses.begin(), b.uses.end());
    both.last_loop = b.last_loop;
    both.span.end = b.span.end;
    if (has_full_moment(both.span) || !measure(both)) return std::nullopt;
    return both;
  }

  /// Words, copies and cost. False when the uses move differently with the loops around.
  bool measure(Piece& piece) const {
    const size_t depth = depth_in(piece.loop);
    int64_t unit = place_.value < 0 ? kStepWords : int64_t{isa::kWordsPerLong};
    for (const size_t k : piece.uses) {
      const Operand& operand = *uses_[k].operand;
      std::vector<int64_t> strides = operand.loop_strides;
      strides.resize(std::min(strides.size(), depth));
      strides = trimmed(std::move(strides));
      const auto [low, high] = range(uses_[k], depth);
      if (k == piece.uses[0]) {
        piece.strides = strides;
        piece.low = low;
        piece.high = high;
      } else if (piece.strides != strides) {
        return false;
      }
      piece.low = std::min(piece.low, low);
      piece.high = std::max(piece.high, high);
      unit = std::max(unit, unit_of(operand));
    }
    piece.low = piece.low / unit * unit;
    piece.high = isa::round_up(piece.high, isa::kWordsPerLong);
    if (place_.value < 0) piece.high = piece.low + isa::round_up(piece.high - piece.low, kStepWords);
    const bool is_written = std::ranges::any_of(piece.uses, [&](size_t k) { return uses_[k].written; });
    piece.store = is_written && (life_.end > piece.span.end || is_carried_around(piece.loop));
    piece.load = takes_old_data(piece, depth);
    piece.cost = runs_of(piece.loop) * (int64_t{piece.load} + int64_t{piece.store}) *
                 static_cast<int64_t>(transfers(piece, 0, true).size());
    return true;
  }

  /// Words of a use, over all iterations of the loops inside.
  std::pair<int64_t, int64_t> range(const OperandUse& use, size_t depth) const {
    const Operand& operand = *use.operand;
    int64_t low = operand.address(0);
    int64_t high = low;
    for (int cycle = 1; cycle < isa::kCyclesPerStep; ++cycle) {
      low = std::min(low, operand.address(cycle));
      high = std::max(high, operand.address(cycle));
    }
    for (int l = now_.index.sites[static_cast<size_t>(use.position)].loop; depth_in(l) > depth;
         l = site(l).parent) {
      const size_t d = depth_in(l) - 1;
      if (d >= operand.loop_strides.size()) continue;
      const int64_t reach = operand.loop_strides[d] * std::max<int64_t>(site(l).count - 1, 0);
      (reach < 0 ? low : high) += reach;
    }
    return {low, high + words(operand.width)};
  }

  /// Whether something reads words of the piece, or saves them, that uses of it haven't surely written.
  bool takes_old_data(const Piece& piece, size_t depth) const {
    std::vector<bool> written(static_cast<size_t>(piece.high - piece.low), false);
    std::vector<size_t> in_loop;  ///< writes of the loop at hand, known to be done when it ends
    int current = piece.loop;
    const auto leave_loop = [&] {
      for (const size_t k : in_loop) mark(uses_[k], piece, depth, written);
      in_loop.clear();
    };
    for (const size_t k : piece.uses) {
      const OperandUse& use = uses_[k];
      const int child = child_loop(now_.index, use.position, piece.loop);
      if (child != current) leave_loop();
      current = child;
      if (use.written) {
        if (use.operand->mask.kind != isa::Mask::Kind::kNone) continue;
        if (child == piece.loop) {
          mark(use, piece, depth, written);
        } else {
          in_loop.push_back(k);
        }
        continue;
      }
      const int own_loop = now_.index.sites[static_cast<size_t>(use.position)].loop;
      const bool just_written = std::ranges::any_of(in_loop, [&](size_t w) {
        return uses_[w].position < use.position && same_address(*uses_[w].operand, *use.operand) &&
               now_.index.sites[static_cast<size_t>(uses_[w].position)].loop == own_loop;
      });
      if (just_written) continue;
      const auto [low, high] = range(use, depth);
      for (int64_t word = low; word < high; ++word) {
        if (!written[static_cast<size_t>(word - piece.low)]) return true;
      }
    }
    leave_loop();
    return piece.store && std::ranges::find(written, false) != written.end();
  }

  /// Marks words that a use has written when its loops are done.
  void mark(const OperandUse& use, const Piece& piece, size_t depth, std::vector<bool>& written) const {
    std::vector<int64_t> shifts{0};
    for (int l = now_.index.sites[static_cast<size_t>(use.position)].loop; depth_in(l) > depth;
         l = site(l).parent) {
      const size_t d = depth_in(l) - 1;
      const auto& strides = use.operand->loop_strides;
      const int64_t stride = d < strides.size() ? strides[d] : 0;
      const int64_t count = stride == 0 ? std::min<int64_t>(site(l).count, 1) : site(l).count;
      if (static_cast<int64_t>(shifts.size()) * count > kMostShifts) return;
      std::vector<int64_t> more;
      for (int64_t i = 0; i < count; ++i) {
        for (const int64_t shift : shifts) more.push_back(shift + i * stride);
      }
      shifts = std::move(more);
    }
    for (const int64_t shift : shifts) {
      for (int cycle = 0; cycle < isa::kCyclesPerStep; ++cycle) {
        for (int64_t word = 0; word < words(use.operand->width); ++word)
          written[static_cast<size_t>(use.operand->address(cycle) + shift + word - piece.low)] = true;
      }
    }
  }

  // ---- copies ------------------------------------------------------------------------------------------

  /// Operations that fill the piece `to`, or save it.
  std::vector<Operation> transfers(const Piece& piece, int to, bool load) const {
    std::vector<Operation> result;
    const auto add = [&](isa::Opcode opcode, const Operand& far, const Operand& near) {
      Operation operation;
      operation.instruction.opcode = opcode;
      operation.instruction.precision =
          opcode == isa::Opcode::kPassa ? isa::Precision::kLong : isa::Precision::kNone;
      operation.instruction.sources = {load ? far : near};
      operation.instruction.destinations = {load ? near : far};
      const std::string& origin =
          now_.index.sites[static_cast<size_t>(uses_[piece.uses[0]].position)].operation->origin;
      operation.origin = origin.empty() ? "spill" : origin + " (spill)";
      result.push_back(std::move(operation));
    };
    const int64_t size = piece.high - piece.low;
    constexpr int64_t kWide = words(Width::kDoubleLong);
    const bool is_aligned = piece.low % kWide == 0 && std::ranges::all_of(piece.strides, [](int64_t stride) {
                              return stride % kWide == 0;
                            });
    for (int64_t at = 0; at < size;) {
      if (place_.value < 0) {
        // LW k of a value is in the LWs of L1BM from k * PEs on, one for each PE.
        const int64_t pes = chip_.pe_per_l1b();
        Operand far;
        far.space = Space::kL1bm;
        far.base = place_.l1bm + (piece.low + at) / isa::kWordsPerLong * pes;
        for (const int64_t stride : piece.strides)
          far.loop_strides.push_back(stride / isa::kWordsPerLong * pes);
        add(isa::Opcode::kL1bmd, far,
            value_operand(to, at, Width::kLong, static_cast<int>(isa::kWordsPerLong)));
        at += kStepWords;
        continue;
      }
      // As much as one operation can: four cycles of 2LW, of LW, one 2LW, one LW.
      const bool wide =
          is_aligned && size - at >= kWide && (size - at < kStepWords || size - at >= 4 * kWide);
      const Width width = wide ? Width::kDoubleLong : Width::kLong;
      const int64_t all = int64_t{isa::kCyclesPerStep} * words(width);
      const int stride = size - at >= all ? words(width) : 0;
      Operand far = value_operand(place_.value, piece.low + at, width, stride);
      far.loop_strides = piece.strides;
      add(isa::Opcode::kPassa, far, value_operand(to, at, width, stride));
      at += stride > 0 ? all : words(width);
    }
    return result;
  }

  int new_value(const std::string& suffix, int64_t size) {
    const Value& old = program_.values[static_cast<size_t>(value_)];
    Value value;
    value.name = fmt::format("{}.{}", old.name, suffix);
    value.size_words = size;
    value.alignment_words = isa::kWordsPerLong;
    value.homes = space_bit(old.home);
    value.home = old.home;
    program_.values.push_back(std::move(value));
    return static_cast<int>(program_.values.size()) - 1;
  }

  void insert(const Piece& piece) {
    const int to = new_value(fmt::format("piece{}", ++made_), piece.high - piece.low);
    for (const size_t k : piece.uses)
      moved_[{uses_[k].position, uses_[k].written, uses_[k].number}] = {to, piece.low, depth_in(piece.loop)};
    const auto append = [](std::vector<Operation>& list, std::vector<Operation> more) {
      std::ranges::move(more, std::back_inserter(list));
    };
    if (piece.load) {
      const int64_t position = uses_[piece.uses.front()].position;
      append(piece.first_loop >= 0 ? before_loop_[piece.first_loop] : before_operation_[position],
             transfers(piece, to, true));
    }
    if (piece.store) {
      const int64_t position = uses_[piece.uses.back()].position;
      append(piece.last_loop >= 0 ? behind_loop_[piece.last_loop] : behind_operation_[position],
             transfers(piece, to, false));
    }
  }

  // ---- the program with the copies ---------------------------------------------------------------------

  /// Appends copies; if somebody needs $aluf, it survives in a value of the memory where it is no trouble:
  /// the one with most room at this moment.
  void add_copies(const std::vector<Operation>& copies, bool save_forward, std::vector<Operation>& to) {
    const bool clobbers = std::ranges::any_of(
        copies, [](const Operation& copy) { return copy.instruction.opcode == isa::Opcode::kPassa; });
    std::optional<Operand> saved;
    if (save_forward && clobbers) {
      const auto moment = Lifetime{2 * next_position_, 2 * next_position_ + 1};
      size_t best = 0;
      for (size_t h = 1; h < kAddressedHomes; ++h) {
        if (now_.room(h, moment) > now_.room(best, moment)) best = h;
      }
      const int value = new_value(fmt::format("forward{}", ++made_),
                                  int64_t{isa::kCyclesPerStep} * words(Width::kDoubleLong));
      program_.values.back().home = kPeHomes[best];
      program_.values.back().homes = space_bit(kPeHomes[best]);
      saved = value_operand(value, 0, Width::kDoubleLong, words(Width::kDoubleLong));
    }
    append_copies(copies, saved, copies.front().origin, to);
  }

  std::vector<Node> rewritten(const std::vector<Node>& nodes) {
    std::vector<Node> result;
    bool continues = false;  // the next block is the rest of the last one
    const auto open_block = [&]() -> std::vector<Operation>& {
      if (result.empty() || !std::holds_alternative<Block>(result.back().kind)) result.push_back({Block{}});
      return std::get<Block>(result.back().kind).operations;
    };
    for (const Node& node : nodes) {
      if (const auto* region = std::get_if<RegionNode>(&node.kind)) {
        result.push_back({RegionNode{region->name, rewritten(region->body)}});
        continues = false;
      } else if (const auto* loop = std::get_if<CountedLoop>(&node.kind)) {
        const int self = next_loop_++;
        const auto before = before_loop_.find(self);
        if (before != before_loop_.end()) add_copies(before->second, forward_.between_blocks(), open_block());
        result.push_back({CountedLoop{loop->count, rewritten(loop->body)}});
        const auto behind = behind_loop_.find(self);
        continues = behind != behind_loop_.end();
        if (continues) add_copies(behind->second, forward_.between_blocks(), open_block());
      } else {
        if (!continues) result.push_back({Block{}});
        rewrite(std::get<Block>(node.kind), open_block());
        continues = false;
      }
    }
    return result;
  }

  void rewrite(const Block& block, std::vector<Operation>& result) {
    const std::vector<bool> needed = forward_.within(block);
    for (size_t k = 0; k < block.operations.size(); ++k, ++next_position_) {
      const auto before = before_operation_.find(next_position_);
      if (before != before_operation_.end()) add_copies(before->second, needed[k], result);
      Operation operation = block.operations[k];
      for (const bool written : {false, true}) {
        auto& operands = written ? operation.instruction.destinations : operation.instruction.sources;
        for (size_t n = 0; n < operands.size(); ++n) {
          const auto moved = moved_.find({next_position_, written, n});
          if (moved == moved_.end()) continue;
          const auto& [to, low, depth] = moved->second;
          operands[n].value = to;
          operands[n].base -= low;
          auto& strides = operands[n].loop_strides;
          std::fill_n(strides.begin(), std::min(depth, strides.size()), 0);
          strides = trimmed(std::move(strides));
        }
      }
      result.push_back(std::move(operation));
      const auto behind = behind_operation_.find(next_position_);
      if (behind != behind_operation_.end()) add_copies(behind->second, needed[k + 1], result);
    }
  }

  static constexpr int64_t kMostShifts = 1 << 12;

  MachineProgram& program_;
  const isa::Chip& chip_;
  const Occupancy& now_;
  int value_;
  ValuePlace place_;
  size_t home_;
  const std::vector<OperandUse>& uses_;
  Lifetime life_;
  ForwardNeeds forward_;
  std::vector<int64_t> full_before_;  ///< moments without room before each
  std::map<std::tuple<int64_t, bool, size_t>, std::tuple<int, int64_t, size_t>> moved_;
  std::map<int64_t, std::vector<Operation>> before_operation_;
  std::map<int64_t, std::vector<Operation>> behind_operation_;
  std::map<int, std::vector<Operation>> before_loop_;
  std::map<int, std::vector<Operation>> behind_loop_;
  int made_ = 0;
  int next_loop_ = 0;
  int64_t next_position_ = 0;
};

class Spilling {
 public:
  Spilling(MachineProgram program, const isa::Chip& chip, int64_t reserve)
      : program_(std::move(program)), chip_(chip), reserve_(reserve) {}

  /// The program with room for all, or nothing.
  std::optional<MachineProgram> run() {
    for (;;) {
      const Occupancy now(program_, chip_, reserve_);
      const auto full = now.first_full();
      if (!full) return std::move(program_);
      if (!relieve(now, full->first, full->second)) return std::nullopt;
    }
  }

 private:
  /// One step; false when there is none.
  bool relieve(const Occupancy& now, int64_t moment, size_t home) {
    std::vector<std::tuple<int64_t, int64_t, int>> candidates;  // nearest next use last
    for (size_t v = 0; v < program_.values.size(); ++v) {
      const Lifetime& life = now.lifetimes[v];
      if (home_index(program_.values[v].home) != home || life.begin > moment || life.end <= moment) continue;
      candidates.emplace_back(-next_use(now, v, moment), -program_.values[v].size_words, static_cast<int>(v));
    }
    std::ranges::sort(candidates);
    for (const auto& [distance, size, v] : candidates) {
      if (move_home(now, v)) return true;
    }
    if (kPeHomes[home] == Space::kT) return false;
    for (const auto& [distance, size, v] : candidates) {
      if (LifeSplit::possible(now.uses[static_cast<size_t>(v)]) && split(now, v)) return true;
    }
    return false;
  }

  /// Moments to the next use; of a value that a loop keeps although no use follows in it, through its end.
  int64_t next_use(const Occupancy& now, size_t value, int64_t moment) const {
    const std::vector<OperandUse>& uses = now.uses[value];
    for (const OperandUse& use : uses) {
      if (2 * use.position + 1 >= moment) return 2 * use.position + 1 - moment;
    }
    return now.lifetimes[value].end - moment + 2 * uses.front().position - now.lifetimes[value].begin;
  }

  bool move_home(const Occupancy& now, int v) {
    Value& value = program_.values[static_cast<size_t>(v)];
    const Space old = value.home;
    const std::vector<OperandUse>& uses = now.uses[static_cast<size_t>(v)];
    if (std::ranges::any_of(uses, [](const OperandUse& use) { return use.operand->t_indirect; }))
      return false;
    for (size_t h = 0; h < kAddressedHomes; ++h) {
      if (kPeHomes[h] == old || (value.homes & space_bit(kPeHomes[h])) == 0) continue;
      if (now.room(h, now.lifetimes[static_cast<size_t>(v)]) < value.size_words) continue;
      value.home = kPeHomes[h];
      const bool legal = std::ranges::all_of(uses, [&](const OperandUse& use) {
        const Instruction& instruction =
            now.index.sites[static_cast<size_t>(use.position)].operation->instruction;
        return is_legal(placed_operands(instruction, program_), instruction.opcode);
      });
      if (legal) return true;
    }
    value.home = old;
    return false;
  }

  bool split(const Occupancy& now, int v) {
    const Value& value = program_.values[static_cast<size_t>(v)];
    const int64_t size = isa::round_up(value.size_words, isa::kWordsPerLong);
    // The PE memory with most room, else L1BM.
    std::optional<std::pair<int64_t, size_t>> best;
    for (size_t h = 0; h < kAddressedHomes; ++h) {
      if (kPeHomes[h] == value.home) continue;
      const int64_t room = now.room(h, now.lifetimes[static_cast<size_t>(v)]);
      if (room >= size && (!best || room > best->first)) best = {room, h};
    }
    if (best) {
      MachineProgram changed = program_;
      Value far;
      far.name = value.name + ".spilled";
      far.size_words = size;
      far.alignment_words = words(Width::kDoubleLong);
      far.home = kPeHomes[best->second];
      far.homes = space_bit(far.home);
      changed.values.push_back(std::move(far));
      if (accept(now, std::move(changed), v, {static_cast<int>(program_.values.size()), -1})) return true;
    }
    // A piece is a multiple of what one step moves; where it moves by less, it may reach beyond the value.
    const bool reaches_beyond =
        std::ranges::any_of(now.uses[static_cast<size_t>(v)], [](const OperandUse& use) {
          return std::ranges::any_of(use.operand->loop_strides,
                                     [](int64_t stride) { return stride % kStepWords != 0; });
        });
    const int64_t words_there = isa::round_up(size, kStepWords) + (reaches_beyond ? kStepWords : 0);
    const std::optional<int64_t> free =
        free_l1bm(now.index, words_there / isa::kWordsPerLong * chip_.pe_per_l1b());
    return free && accept(now, program_, v, {-1, *free});
  }

  bool accept(const Occupancy& now, MachineProgram changed, int v, ValuePlace place) {
    // The pieces point into the program that was counted.
    LifeSplit(changed, chip_, now, v, place).run();
    if (Occupancy(changed, chip_, reserve_).excess() >= now.excess()) return false;
    program_ = std::move(changed);
    return true;
  }

  /// The first LWs of L1BM that the program touches nowhere. None where operations read the registers that
  /// transfers to and from L1BM overwrite.
  std::optional<int64_t> free_l1bm(const ProgramIndex& index, int64_t size) const {
    std::set<std::pair<int64_t, int64_t>> touched;
    for (const OperationSite& site : index.sites) {
      std::vector<int64_t> counts;
      for (int l = site.loop; l >= 0; l = index.loops[static_cast<size_t>(l)].parent)
        counts.insert(counts.begin(), index.loops[static_cast<size_t>(l)].count);
      for (const TimedAccess& timed : timed_accesses(site.operation->instruction, chip_, counts)) {
        const isa::HazardResource resource = timed.access.resource;
        const bool read = !timed.access.write;
        if (read &&
            (resource == isa::HazardResource::kLbForward || resource == isa::HazardResource::kTurnaround))
          return std::nullopt;
        if (resource != isa::HazardResource::kL1bm) continue;
        if (timed.everywhere || timed.low < 0 || timed.high > chip_.memory.l1bm_lw) return std::nullopt;
        touched.emplace(timed.low, timed.high);
      }
    }
    int64_t free = 0;
    for (const auto& [low, high] : touched) {
      if (low - free >= size) break;
      free = std::max(free, isa::round_up(high, chip_.pe_per_l1b()));
    }
    if (free + size > chip_.memory.l1bm_lw) return std::nullopt;
    return free;
  }

  MachineProgram program_;
  const isa::Chip& chip_;
  int64_t reserve_;
};

bool has_addresses(const MachineProgram& program, const isa::Chip& chip) {
  return std::ranges::all_of(allocation_problems(program, chip), [](const PackingProblem& problem) {
    return pack(problem, "exact").status == PackingStatus::kSolved;
  });
}

void spill(MachineProgram& program, const isa::Chip& chip) {
  if (!Occupancy(program, chip, 0).first_full()) return;
  for (const int64_t reserve : {0, 1, 2, 4}) {
    std::optional<MachineProgram> spilled = Spilling(program, chip, reserve).run();
    if (!spilled) return;
    if (has_addresses(*spilled, chip)) {
      program = std::move(*spilled);
      return;
    }
  }
}

}  // namespace

Spiller furthest_use_pass() {
  return {"furthest-use",
          "where memories overflow, values move or go away until they are needed, the furthest first",
          {},
          [](MachineProgram& program, const isa::Chip& chip, const passes::PassOptions&) {
            spill(program, chip);
          }};
}

}  // namespace kodama::scheduler
