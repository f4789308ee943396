#include "layout/search/conversion.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <map>
#include <optional>
#include <set>

#include "isa/costs.h"
#include "isa/error.h"
#include "isa/sequencer.h"
#include "layout/algebra/bits.h"
#include "layout/moves/element_router.h"
#include "layout/moves/gateway.h"
#include "layout/moves/masked_writes.h"
#include "layout/moves/move_code.h"
#include "layout/primitives/move_primitives.h"
#include "layout/search/path_search.h"
#include "passes/registry.h"

namespace kodama::layout {
namespace {

constexpr std::string_view kNoPath = "no sequence of primitives found";

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

/// Does what may find a fault of the plugins' primitives in a conversion.
template <typename Work>
void blaming(const Conversion& conversion, const Work& work) {
  if (conversion.from_plugins.empty()) return work();
  passes::run_blaming("move primitive", *conversion.from_plugins.front(), work);
}

/// Everything about one way to do it: memory to work in and the code so far.
struct Workshop {
  Workshop(const ConversionProblem& problem, const isa::Chip& chip) : scratch(chip), code(chip, scratch) {
    const auto keep = [&](const Layout& layout) {
      scratch.reserve({layout.memory(), 0, layout.level_extent(Level::kAddress)});
    };
    keep(problem.from);
    keep(problem.to);
  }
  ScratchSpace scratch;
  Code code;
  std::vector<std::string> path;
};

/// Where the tensor is between two moves.
struct Stop {
  Placement at;
  bool is_region = false;  ///< memory of ours, which a move may work in
  Region region;
  int64_t spread = 0;  ///< pieces of `region.size` LW this far apart; 0 = one piece
};

/// Addresses and code for a path through the PEs.
class Walker {
 public:
  Walker(const BitView& view, Workshop& shop) : view_(view), shop_(shop), chip_(shop.code.chip()) {}

  /// From `start` along the moves; the last stop is `end` if there is one, else a region.
  Stop walk(Stop start, const std::vector<Move>& moves, const std::optional<Placement>& end) {
    Stop here = std::move(start);
    for (size_t k = 0; k < moves.size(); ++k) {
      if (k == 0 || moves[k - 1].primitive->overlap.all_at_end)
        pace_ = first_pace(here.at.slots, {moves.begin() + static_cast<int64_t>(k), moves.end()});
      const Move& move = moves[k];
      const bool is_last = k + 1 == moves.size();
      const MoveNeeds needs = needs_of(view_, move);
      here = prepared(std::move(here), needs);
      MoveAddresses at{here.at, {}, 1};
      if (is_last && end && can_end(needs, here, *end)) {
        at.after = *end;
        at.after.slots = move.after;
        set_run(needs, at);
        emit(move, at);
        release(here);
        here = {*end, false, {}};
        continue;
      }
      const MoveNeeds next = is_last ? MoveNeeds{} : needs_of(view_, moves[k + 1]);
      Stop there = new_region(move.after, &needs, &next, here.at.memory, end);
      at.after = there.at;
      set_run(needs, at);
      emit(move, at);
      release(here);
      here = std::move(there);
    }
    if (!end) return here.is_region ? here : copied(std::move(here), std::nullopt);
    if (same_addresses(here.at, *end)) return here;
    // One copy if the memories differ, two through another one.
    if (here.at.memory == end->memory) here = copied(std::move(here), std::nullopt);
    return copied(std::move(here), end);
  }

  Stop new_region(const SlotState& slots, const MoveNeeds* writes, const MoveNeeds* reads, Memory other_than,
                  const std::optional<Placement>& end) {
    std::vector<int> order = address_order(slots, writes, reads, end);
    Memory memory = other_than == Memory::kLm0 ? Memory::kLm1 : Memory::kLm0;
    const bool reads_lm0 = reads != nullptr && reads->source_lm0;
    if (reads_lm0 && !(writes != nullptr && writes->other_memory && other_than == Memory::kLm0))
      memory = Memory::kLm0;
    // Through T on both sides the lines of all rounds in a buffer go up before any comes down.
    const bool to_lm1 = writes != nullptr && writes->target_lm1 && other_than == Memory::kLm0 && !reads_lm0;
    if (writes != nullptr && writes->target_lm0) memory = to_lm1 ? Memory::kLm1 : Memory::kLm0;
    // A digit that lies in the address as a whole takes no more room than it has values.
    std::vector<int64_t> strides;
    int64_t size = 1;
    for (size_t k = 0; k < order.size();) {
      size_t count = 1;
      int64_t room = 2;
      const auto fixed_place = [&](int bit) {
        // Bits whose strides must double.
        return (reads != nullptr && std::ranges::find(reads->source_low, bit) != reads->source_low.end()) ||
               (writes != nullptr && writes->target_has_one && writes->target_one == bit) ||
               (writes != nullptr &&
                (std::ranges::find(writes->target_run, bit) != writes->target_run.end() ||
                 std::ranges::find(writes->target_powers_of, bit) != writes->target_powers_of.end()));
      };
      if (order[k] >= 0 && !fixed_place(order[k]) && view_.bits[static_cast<size_t>(order[k])].power == 0) {
        const int digit = view_.bits[static_cast<size_t>(order[k])].digit;
        size_t all = 1;
        while (k + all < order.size() && !fixed_place(order[k + all]) &&
               order[k + all] == order[k] + static_cast<int>(all) &&
               view_.bits[static_cast<size_t>(order[k + all])].digit == digit)
          ++all;
        const int64_t values = view_.digits[static_cast<size_t>(digit)].size;
        if (int64_t{1} << all >= values) {
          count = all;
          room = values;
        }
      }
      for (size_t j = 0; j < count; ++j) strides.push_back(size << j);
      size *= room;
      k += count;
    }
    Stop stop;
    stop.is_region = true;
    if (writes != nullptr && !writes->target_run.empty() && spread_region(slots, *writes, reads, end, stop))
      return stop;
    const bool local = reads != nullptr && reads->source_lm;
    const bool fixed =
        to_lm1 || (memory == Memory::kLm0 && ((writes != nullptr && writes->target_lm0) || reads_lm0));
    auto region = shop_.scratch.try_take(memory, size);
    if (!region && !fixed) {
      const Memory second = memory == Memory::kLm0 ? Memory::kLm1 : Memory::kLm0;
      for (const Memory each : {second, Memory::kGrf0, Memory::kGrf1}) {
        if (local && each != second) break;
        if (!region && (each != other_than || writes == nullptr || !writes->other_memory))
          region = shop_.scratch.try_take(each, size);
      }
    }
    stop.region = region ? *region : shop_.scratch.take(memory, size);
    stop.at.memory = stop.region.memory;
    stop.at.slots = slots;
    stop.at.base = stop.region.base;
    stop.at.stride.assign(view_.bits.size(), 0);
    for (size_t k = 0; k < order.size(); ++k) {
      if (order[k] >= 0) stop.at.stride[static_cast<size_t>(order[k])] = strides[k];
    }
    strides_ = strides;
    order_ = std::move(order);
    run_stride_ = 0;
    return stop;
  }

  void release(const Stop& stop) {
    if (!stop.is_region) return;
    if (stop.spread == 0) {
      shop_.scratch.give_back(stop.region);
    } else {
      shop_.scratch.give_back_spread(stop.region.memory, stop.region.base, stop.region.size, stop.spread,
                                     memory_size_lw(stop.region.memory, chip_) / stop.spread);
    }
  }

 private:
  /// A region for a skew with few long words per round: the targets of the rounds are as far apart as wraps
  /// around LM0, if the next move doesn't mind and there is room between what is there.
  bool spread_region(const SlotState& slots, const MoveNeeds& writes, const MoveNeeds* reads,
                     const std::optional<Placement>& end, Stop& stop) {
    constexpr int64_t kFew = 16;
    if (reads != nullptr && (!reads->source_low.empty() && !reads->powers)) return false;
    std::vector<int> outer;
    for (int bit = 0; bit < view_.bit_count(); ++bit) {
      if ((view_.address_bits(slots) >> bit & 1) != 0 &&
          std::ranges::find(writes.target_run, bit) == writes.target_run.end())
        outer.push_back(bit);
    }
    if (end) {
      std::ranges::stable_sort(outer, {}, [&](int bit) {
        const int64_t stride = end->stride[static_cast<size_t>(bit)];
        return stride == 0 ? INT64_MAX : stride;
      });
    }
    const int64_t size = int64_t{1} << outer.size();
    const int64_t pieces = int64_t{1} << writes.target_run.size();
    const int64_t distance = memory_size_lw(Memory::kLm0, chip_) / pieces;
    if (size > kFew || size > distance) return false;
    const auto base = shop_.scratch.try_take_spread(Memory::kLm0, size, distance, pieces);
    if (!base) return false;
    stop.spread = distance;
    stop.region = {Memory::kLm0, *base, size};
    stop.at.memory = Memory::kLm0;
    stop.at.slots = slots;
    stop.at.base = *base;
    stop.at.stride.assign(view_.bits.size(), 0);
    for (size_t k = 0; k < outer.size(); ++k) stop.at.stride[static_cast<size_t>(outer[k])] = int64_t{1} << k;
    for (size_t k = 0; k < writes.target_run.size(); ++k) {
      if (writes.target_run[k] >= 0)
        stop.at.stride[static_cast<size_t>(writes.target_run[k])] = distance << k;
    }
    run_stride_ = distance;
    return true;
  }

  void emit(const Move& move, MoveAddresses at) {
    shop_.path.push_back(move.primitive->name);
    at.pace = pace_;
    shop_.code.begin_move();
    emit_move(view_, move, at, shop_.code);
    // What comes into the address is there at once in every chunk.
    const BitMask before = view_.address_bits(move.before);
    const BitMask after = view_.address_bits(move.after);
    std::erase_if(pace_, [&](int bit) { return (after >> bit & 1) == 0; });
    const std::vector<int> arrived = bits_of(after & ~before);
    pace_.insert(pace_.begin(), arrived.begin(), arrived.end());
  }

  /// Bits that leave the address first vary fastest: their moves need both of their values.
  std::vector<int> first_pace(const SlotState& start, const std::vector<Move>& moves) const {
    std::vector<int> pace = bits_of(view_.address_bits(start));
    const auto leaves = [&](int bit) {
      return std::ranges::find_if(
                 moves, [&](const Move& move) { return (view_.address_bits(move.after) >> bit & 1) == 0; }) -
             moves.begin();
    };
    std::ranges::stable_sort(pace, {}, leaves);
    return pace;
  }

  /// Bits of the address from stride 1 up: as the next move reads them, as this one writes them, and the
  /// others as the target has them.
  std::vector<int> address_order(const SlotState& slots, const MoveNeeds* writes, const MoveNeeds* reads,
                                 const std::optional<Placement>& end) const {
    const BitMask lines = view_.address_bits(slots);
    std::vector<int> order;
    const auto has = [&](int bit) { return bit >= 0 && std::ranges::find(order, bit) != order.end(); };
    if (reads != nullptr) order = reads->source_low;
    if (writes != nullptr && writes->target_has_one &&
        (order.empty() || order[0] != writes->target_one || writes->target_one < 0)) {
      // In front if the next move doesn't mind, and else the next move is given a copy.
      std::erase(order, writes->target_one);
      order.insert(order.begin(), writes->target_one);
    }
    if (writes != nullptr && !writes->target_run.empty()) {
      const std::vector<int>& run = writes->target_run;
      const auto inside = std::search(order.begin(), order.end(), run.begin(), run.end());
      const bool there = inside != order.end() && std::ranges::all_of(run, [](int bit) { return bit >= 0; });
      if (!there) {
        if (std::ranges::any_of(run, has)) order.clear();
        order.insert(order.end(), run.begin(), run.end());
      }
    }
    if (writes != nullptr) {
      for (const int bit : writes->target_powers_of) {
        if (!has(bit)) order.push_back(bit);
      }
    }
    std::vector<int> rest;
    for (int bit = 0; bit < view_.bit_count(); ++bit) {
      if ((lines >> bit & 1) != 0 && !has(bit)) rest.push_back(bit);
    }
    if (end) {
      std::ranges::stable_sort(rest, {}, [&](int bit) {
        const int64_t stride = end->stride[static_cast<size_t>(bit)];
        return stride == 0 ? INT64_MAX : stride;
      });
    }
    order.insert(order.end(), rest.begin(), rest.end());
    return order;
  }

  void set_run(const MoveNeeds& needs, MoveAddresses& at) const {
    if (needs.target_run.empty()) return;
    for (size_t k = 0; k < needs.target_run.size(); ++k) {
      if (needs.target_run[k] < 0) continue;
      at.run_stride = at.after.stride[static_cast<size_t>(needs.target_run[k])] >> k;
      return;
    }
    // Nothing but places left free: they are where the order has them.
    if (run_stride_ > 0) {
      at.run_stride = run_stride_;
      return;
    }
    const auto inside =
        std::search(order_.begin(), order_.end(), needs.target_run.begin(), needs.target_run.end());
    at.run_stride = strides_[static_cast<size_t>(inside - order_.begin())];
  }

  bool run_fits(const MoveNeeds& needs, const Placement& at) const {
    int64_t stride = 0;
    for (size_t k = 0; k < needs.target_run.size(); ++k) {
      if (needs.target_run[k] < 0) return false;
      const int64_t own = at.stride[static_cast<size_t>(needs.target_run[k])];
      if (k > 0 && own != 2 * stride) return false;
      if (!is_power_of_two(own)) return false;
      stride = own;
    }
    return true;
  }

  /// Whether a skew has enough to do in a round for the base register, which takes three steps to change.
  bool fills_rounds(const MoveNeeds& needs, const SlotState& slots) const {
    constexpr int64_t kLines = 8;
    return view_.value_count(view_.address_bits(slots)) >> needs.target_run.size() >= kLines;
  }

  bool can_end(const MoveNeeds& needs, const Stop& here, const Placement& end) const {
    if (!here.is_region && here.at.memory == end.memory) return false;  // the source itself
    if (here.is_region && here.region.base == 0 && here.at.memory == end.memory) return false;  // the same
    if (needs.target_lm0 && end.memory != Memory::kLm0) {
      if (!needs.target_lm1 || end.memory != Memory::kLm1 || here.at.memory != Memory::kLm0) return false;
      if (!fills_rounds(needs, here.at.slots)) return false;
    }
    if (needs.other_memory && end.memory == here.at.memory) return false;
    if (needs.target_powers && !std::ranges::all_of(needs.target_powers_of, [&](int bit) {
          return is_power_of_two(end.stride[static_cast<size_t>(bit)]);
        }))
      return false;
    // A digit with values that have no place: through T they would be written all the same.
    if (needs.target_powers && has_gaps(needs.target_powers_of)) return false;
    if (!needs.target_run.empty()) {
      if (!run_fits(needs, end)) return false;
      // A digit whose size is no power of two has values with no place in the user's layout.
      if (has_gaps(needs.target_run)) return false;
    }
    if (needs.target_one_required &&
        (needs.target_one < 0 || has_gaps({needs.target_one}) ||
         end.stride[static_cast<size_t>(needs.target_one)] != 1 || end.base % 2 != 0))
      return false;
    return true;
  }
  bool has_gaps(const std::vector<int>& bits) const {
    return std::ranges::any_of(bits, [&](int bit) { return bit >= 0 && view_.has_gaps(bit); });
  }

  /// Whether bits lie at strides 1, 2, 4, … and the other address bits at multiples of what they take up.
  bool is_low(const std::vector<int>& low, const Placement& at) const {
    for (size_t k = 0; k < low.size(); ++k) {
      if (low[k] >= 0 && at.stride[static_cast<size_t>(low[k])] != int64_t{1} << k) return false;
    }
    for (int bit = 0; bit < view_.bit_count(); ++bit) {
      if ((view_.address_bits(at.slots) >> bit & 1) == 0 || std::ranges::find(low, bit) != low.end())
        continue;
      if (at.stride[static_cast<size_t>(bit)] % (int64_t{1} << low.size()) != 0) return false;
    }
    return true;
  }

  bool fits(const Stop& here, const MoveNeeds& needs) const {
    if (needs.source_lm0 && here.at.memory != Memory::kLm0) return false;
    if (needs.source_lm && here.at.memory != Memory::kLm0 && here.at.memory != Memory::kLm1) return false;
    if (needs.powers) {
      return std::ranges::all_of(needs.source_low, [&](int bit) {
        return bit < 0 || is_power_of_two(here.at.stride[static_cast<size_t>(bit)]);
      });
    }
    return is_low(needs.source_low, here.at) || needs.source_low.empty();
  }

  /// The tensor where the move can take it, by copies if need be.
  Stop prepared(Stop here, const MoveNeeds& needs) {
    if (fits(here, needs)) return here;
    if (here.at.memory == Memory::kLm0 && needs.source_lm0) {
      // From LM0 to LM0 there is a stop between.
      Stop between = new_region(here.at.slots, nullptr, nullptr, Memory::kLm0, std::nullopt);
      here = copy_to(std::move(here), std::move(between));
    }
    Stop there = new_region(here.at.slots, nullptr, &needs, here.at.memory, std::nullopt);
    return copy_to(std::move(here), std::move(there));
  }

  Stop copy_to(Stop here, Stop there) {
    emit({&copy_, here.at.slots, here.at.slots}, {here.at, there.at, 1});
    release(here);
    return there;
  }
  Stop copied(Stop here, const std::optional<Placement>& end) {
    Stop there;
    if (end) {
      there.at = *end;
      there.at.slots = here.at.slots;
    } else {
      there = new_region(here.at.slots, nullptr, nullptr, here.at.memory, std::nullopt);
    }
    return copy_to(std::move(here), std::move(there));
  }

  bool same_addresses(const Placement& a, const Placement& b) const {
    return a.memory == b.memory && a.base == b.base && a.stride == b.stride;
  }

  const BitView& view_;
  Workshop& shop_;
  const isa::Chip& chip_;
  const MovePrimitive& copy_ = find_move_primitive("copy");
  std::vector<int> order_;  ///< of the latest region
  std::vector<int64_t> strides_;
  int64_t run_stride_ = 0;  ///< of the latest region, if it is spread
  std::vector<int> pace_;   ///< MoveAddresses::pace of the next move
};

/// All padded places of a layout, and all places of elements.
struct Places {
  std::vector<PePlace> padding;
  std::vector<PePlace> elements;
};

/// Paths whose programs are compared besides that of the cheapest by the sum of estimates. Estimates don't
/// know what the step packer will overlap.
constexpr size_t kOtherPaths = 7;

/// The way through bits and primitives.
class BitConversion {
 public:
  BitConversion(const BitView& view, const ConversionProblem& problem, const isa::Chip& chip,
                bool keeps_source, SolutionCache* cache)
      : view_(view), problem_(problem), chip_(chip), keeps_source_(keeps_source), cache_(cache) {}

  /// Nothing, and why, when it can't be done so. `*settled`: the path that is cheapest by the sum of
  /// estimates had room, so that there is no need to look for one with less.
  std::optional<Conversion> run(int64_t most_lw, std::string* why, bool* settled) {
    if (!find_gateways(why)) return std::nullopt;
    const SlotState start = in_ ? in_->slots : view_.from.slots;
    const SlotState goal = out_ ? out_->slots : view_.to.slots;
    const auto begin = std::chrono::steady_clock::now();
    const std::string key = path_key(start, goal, most_lw);
    Path path;
    bool is_chosen = false;
    std::vector<Path> others;
    if (const auto text = cache_ == nullptr ? std::nullopt : cache_->find(key)) {
      if (auto known = path_from_text(view_, start, goal, *text)) {
        path = std::move(*known);
        is_chosen = true;
      }
    }
    if (!is_chosen) {
      path = find_path(view_, start, goal, most_lw);
      if (path.found) others = other_paths(view_, start, goal, most_lw, path, kOtherPaths);
    }
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
    if (!path.found) {
      *why = kNoPath;
      return std::nullopt;
    }
    std::optional<Conversion> result;
    if (is_chosen) {
      result = written(start, path.moves);
      *settled = true;
    } else {
      result = fewest_cycles(start, path, others, why, settled);
      if (cache_ != nullptr && *settled) cache_->store(key, path_to_text(path));
    }
    if (!result) return std::nullopt;
    result->search_seconds = took.count();
    result->states = path.states;
    result->proven = path.proven;
    result->compared = path.compared;
    return result;
  }

 private:
  /// Whether the memories above the PEs, if any, can be entered and left; else why not.
  bool find_gateways(std::string* why) {
    if (!is_pe_memory(view_.from.memory)) {
      in_ = gateway(view_, view_.from, view_.to.slots, chip_, false, why);
      if (!in_) return false;
    }
    if (is_pe_memory(view_.to.memory)) return true;
    out_ = gateway(view_, view_.to, in_ ? in_->slots : view_.from.slots, chip_, true, why);
    if (!out_) return false;
    if (upper_end(view_, *out_, chip_) > memory_size_lw(view_.to.memory, chip_)) {
      *why = "lines that go beyond the memory";
      return false;
    }
    return true;
  }

  /// The program that makes these moves.
  Conversion written(const SlotState& start, const std::vector<Move>& moves) {
    Workshop shop(problem_, chip_);
    if (out_) shop.scratch.reserve({view_.to.memory, 0, upper_end(view_, *out_, chip_)});
    Walker walker(view_, shop);
    Conversion result;
    Stop here = entered(start, moves, walker, shop, result);
    if (in_ && moves.empty() && !out_) {
      // It is there.
    } else if (!out_) {
      here = walker.walk(std::move(here), moves, view_.to);
    } else if (!moves.empty() || (!view_.padding_goes_along && !here.is_region)) {
      here = walker.walk(std::move(here), moves, std::nullopt);
    }
    if (!view_.padding_goes_along) fill(here.at, shop);
    if (out_) {
      shop.path.push_back(fmt::format("to {}", memory_name(view_.to.memory)));
      emit_exit(view_, *out_, here.at, shop.code);
    }
    shop.code.wait_all();
    result.path = shop.path;
    for (const Move& move : moves) {
      if (!move.primitive->plugin.empty() &&
          std::ranges::find(result.from_plugins, move.primitive) == result.from_plugins.end())
        result.from_plugins.push_back(move.primitive);
    }
    blaming(result, [&] {
      result.program = shop.code.pack();
      result.cycles = predict_cycles(result.program, chip_).total();
    });
    result.keeps_source = result.scratch.empty();
    const std::vector<ScratchRange> taken = shop.scratch.ranges();
    result.scratch.insert(result.scratch.begin(), taken.begin(), taken.end());
    result.scratch.push_back(
        {view_.to.memory, 0,
         out_ ? upper_end(view_, *out_, chip_) : problem_.to.level_extent(Level::kAddress)});
    return result;
  }

  /// Where the tensor is in the PEs before the first move. A source that isn't kept is scratch.
  Stop entered(const SlotState& start, const std::vector<Move>& moves, Walker& walker, Workshop& shop,
               Conversion& result) const {
    Stop here;
    if (!in_) {
      here.at = view_.from;
      if (keeps_source_) return here;
      // The source's own memory is given back when it has been read.
      here.is_region = true;
      here.region = {problem_.from.memory(), 0, problem_.from.level_extent(Level::kAddress)};
      result.scratch.push_back({here.region.memory, 0, here.region.size});
      return here;
    }
    if (moves.empty() && !out_) {
      here.at = view_.to;
      here.at.slots = start;
    } else {
      const MoveNeeds first = moves.empty() ? MoveNeeds{} : needs_of(view_, moves[0]);
      // A skew's source is better in LM1, which needs no T.
      const Memory other = first.source_lm ? Memory::kLm0 : Memory::kLm1;
      here = walker.new_region(start, nullptr, &first, other, std::nullopt);
    }
    shop.path.push_back(fmt::format("from {}", memory_name(view_.from.memory)));
    emit_entry(view_, *in_, here.at, shop.code);
    return here;
  }

  /// Of a path, others, and each in the order in which more of it overlaps: the program with the fewest
  /// cycles. Its moves become those of `path`.
  std::optional<Conversion> fewest_cycles(const SlotState& start, Path& path, const std::vector<Path>& others,
                                          std::string* why, bool* settled) {
    std::vector<std::vector<Move>> candidates;
    const auto add = [&](const std::vector<Move>& moves) {
      candidates.push_back(moves);
      if (auto order = overlapping_order(moves)) candidates.push_back(std::move(*order));
    };
    add(path.moves);
    for (const Path& other : others) add(other.moves);
    std::optional<Conversion> best;
    path.compared = 0;
    for (const std::vector<Move>& moves : candidates) {
      try {
        Conversion each = written(start, moves);
        ++path.compared;
        *settled = *settled || &moves == candidates.data();
        if (best && best->cycles <= each.cycles) continue;
        best = std::move(each);
        path.moves = moves;
      } catch (const isa::UnsupportedError& error) {
        if (why->empty()) *why = error.what();  // no room
      }
    }
    return best;
  }

  std::string path_key(const SlotState& start, const SlotState& goal, int64_t most_lw) const {
    return fmt::format("path {}\nchip {}\n{}\n{}\nshape {}\nbits {}\nfrom {}\ngoal {}\nroom {}\n",
                       solver_version(), chip_.hash, problem_.from.to_string(), problem_.to.to_string(),
                       fmt::join(problem_.lengths, " "), problem_.element_bits, fmt::join(start, " "),
                       fmt::join(goal, " "), most_lw);
  }

  /// Padding that doesn't come along.
  void fill(const Placement& at, Workshop& shop) const {
    const auto pattern = padding_pattern(problem_.to.padding(), problem_.element_bits);
    if (!pattern) return;
    Places places;
    for_each_place(problem_.to, problem_.lengths, [&](const std::vector<int64_t>& index, bool padding) {
      BitMask value = 0;
      for (size_t k = 0; k < view_.bits.size(); ++k) {
        const Digit& digit = view_.digits[static_cast<size_t>(view_.bits[k].digit)];
        // The last digit of an axis has no limit of its own.
        int64_t number = index[static_cast<size_t>(digit.axis)] / digit.weight;
        if (!is_last_digit(view_.bits[k].digit)) number %= digit.size;
        if ((number >> view_.bits[k].power & 1) != 0) value |= BitMask{1} << k;
      }
      add_places(at, value, padding ? places.padding : places.elements);
    });
    if (places.padding.empty()) return;
    shop.path.emplace_back("pad");
    MaskedWrites(shop.code, problem_.element_bits).fill(places.padding, places.elements, at.memory, *pattern);
  }
  bool is_last_digit(int digit) const {
    return static_cast<size_t>(digit) + 1 == view_.digits.size() ||
           view_.digits[static_cast<size_t>(digit) + 1].axis != view_.digits[static_cast<size_t>(digit)].axis;
  }

  /// The places of a value in the PEs: one for each combination of coordinates that hold the same.
  void add_places(const Placement& at, BitMask value, std::vector<PePlace>& list) const {
    std::vector<Coordinates> all(1);
    for (int slot = 0; slot < view_.shape.count(); ++slot) {
      const int bit = at.slots[static_cast<size_t>(slot)];
      const Level level = view_.shape.level(slot);
      const int64_t step = int64_t{1} << view_.shape.power(slot);
      if (bit >= 0 && (value >> bit & 1) != 0) {
        for (Coordinates& each : all) each[level] += step;
      } else if (bit == kEverywhere) {
        const size_t size = all.size();
        for (size_t k = 0; k < size; ++k) {
          all.push_back(all[k]);
          all.back()[level] += step;
        }
      }
    }
    for (Coordinates& each : all) {
      each[Level::kAddress] = address(at, value & view_.address_bits(at.slots));
      list.push_back(pe_place(each, chip_));
    }
  }

  const BitView& view_;
  const ConversionProblem& problem_;
  const isa::Chip& chip_;
  bool keeps_source_;
  SolutionCache* cache_;
  std::optional<Gateway> in_;
  std::optional<Gateway> out_;
};

/// The way through everywhere.
class ElementConversion {
 public:
  ElementConversion(const ConversionProblem& problem, const isa::Chip& chip)
      : problem_(problem), chip_(chip), shop_(problem, chip) {}

  /// `why`: the reason not to use primitives.
  Conversion run(const std::string& why) {
    constexpr double kMostElements = 1 << 20;
    double count = 1;
    for (const int64_t length : problem_.lengths) count *= static_cast<double>(length);
    if (count * static_cast<double>(problem_.to.replica_offsets().size()) > kMostElements) {
      throw isa::UnsupportedError(
          fmt::format("conversion from {} to {}: {}; element by element it would be more than {:.0f} copies: "
                      "choose layouts "
                      "whose factors divide each other, or convert the tensor in parts",
                      problem_.from.to_string(), problem_.to.to_string(), why, kMostElements));
    }
    const Memory from = problem_.from.memory();
    const Memory to = problem_.to.memory();
    Memory from_pe = from;
    int64_t from_base = 0;
    int64_t to_end = problem_.to.level_extent(Level::kAddress);
    const int64_t to_lines = is_pe_memory(to) ? to_end : staged_lines(to, to_end, chip_);
    if (!is_pe_memory(to)) {
      to_end = staged_end(to, to_lines, chip_);
      if (to_end > memory_size_lw(to, chip_))
        throw isa::UnsupportedError(fmt::format("{}: whole lines would go beyond the end of {}",
                                                problem_.to.to_string(), memory_name(to)));
      shop_.scratch.reserve({to, 0, to_end});
    }
    if (!is_pe_memory(from)) {
      const int64_t lines = staged_lines(from, problem_.from.level_extent(Level::kAddress), chip_);
      const Region staging = take_pe(lines, to);
      from_pe = staging.memory;
      from_base = staging.base;
      shop_.path.push_back(fmt::format("from {}", memory_name(from)));
      emit_staging(from, lines, from_pe, from_base, true, shop_.code);
    }
    std::vector<ElementMove> moves;
    Places places;
    const std::vector<Coordinates> from_copies = problem_.from.replica_offsets();
    const std::vector<Coordinates> to_copies = problem_.to.replica_offsets();
    const auto from_place = [&](const Coordinates& at) {
      PePlace place = is_pe_memory(from) ? pe_place(at, chip_) : staged_place(from, at, chip_);
      place.address += from_base;
      return place;
    };
    for_each_place(problem_.to, problem_.lengths, [&](const std::vector<int64_t>& index, bool padding) {
      for (const Coordinates& offset : to_copies) {
        const Coordinates at = problem_.to.place(index) + offset;
        const PePlace place = is_pe_memory(to) ? pe_place(at, chip_) : staged_place(to, at, chip_);
        (padding ? places.padding : places.elements).push_back(place);
        if (!padding) moves.push_back({from_place(problem_.from.place(index) + from_copies[0]), place});
      }
    });
    // Within one memory the elements are put together elsewhere, unless all are read first.
    const bool apart = !is_pe_memory(to) || (from == to && !routes_read_before_they_write(moves, shop_.code));
    Region staging{to, 0, to_lines};
    if (apart) staging = take_pe(to_lines, is_pe_memory(to) ? to : from_pe);
    for (ElementMove& move : moves) move.to.address += staging.base;
    for (std::vector<PePlace>* list : {&places.padding, &places.elements}) {
      for (PePlace& place : *list) place.address += staging.base;
    }
    shop_.path.emplace_back("elements");
    emit_routes(moves, from_pe, staging.memory, problem_.element_bits, shop_.code);
    const auto pattern = padding_pattern(problem_.to.padding(), problem_.element_bits);
    if (pattern && !places.padding.empty()) {
      shop_.path.emplace_back("pad");
      MaskedWrites(shop_.code, problem_.element_bits)
          .fill(places.padding, places.elements, staging.memory, *pattern);
    }
    if (apart && is_pe_memory(to)) {
      std::vector<std::pair<int64_t, int64_t>> pairs;
      for (int64_t k = 0; k < to_lines; ++k) pairs.emplace_back(k, staging.base + k);
      shop_.path.emplace_back("copy");
      shop_.code.copies(std::move(pairs), staging.memory, to);
    } else if (apart) {
      shop_.path.push_back(fmt::format("to {}", memory_name(to)));
      emit_staging(to, to_lines, staging.memory, staging.base, false, shop_.code);
    }
    shop_.code.wait_all();
    Conversion result;
    result.path = shop_.path;
    result.program = shop_.code.pack();
    result.scratch = shop_.scratch.ranges();
    result.scratch.push_back({to, 0, to_end});
    return result;
  }

 private:
  Region take_pe(int64_t size, Memory other_than) {
    for (const Memory memory : {Memory::kLm1, Memory::kLm0, Memory::kGrf1, Memory::kGrf0}) {
      if (memory == other_than) continue;
      if (const auto region = shop_.scratch.try_take(memory, size)) return *region;
    }
    return shop_.scratch.take(Memory::kLm1, size);
  }

  const ConversionProblem& problem_;
  const isa::Chip& chip_;
  Workshop shop_;
};

/// Whether the target is where the source is, padding included.
bool is_there(const ConversionProblem& problem) {
  const bool padded = [&] {
    for (size_t axis = 0; axis < problem.lengths.size(); ++axis) {
      if (problem.to.extent(axis) > problem.lengths[axis]) return true;
    }
    return false;
  }();
  if (padded && problem.to.padding() != Padding::kUndefined) return problem.from.equivalent(problem.to);
  if (problem.from.memory() != problem.to.memory()) return false;
  Layout from = problem.from;
  Layout to = problem.to;
  from.set_padding(Padding::kUndefined);
  to.set_padding(Padding::kUndefined);
  return from.equivalent(to);
}

/// Elements up to which going one by one is compared with the way that the search finds.
constexpr double kFewElements = 64;

/// Of the target.
double place_count(const ConversionProblem& problem) {
  auto count = static_cast<double>(problem.to.replica_offsets().size());
  for (const int64_t length : problem.lengths) count *= static_cast<double>(length);
  return count;
}

}  // namespace

Conversion convert(const ConversionProblem& problem, const isa::Chip& chip, SolutionCache* cache) {
  ConversionBound bound =
      conversion_bound(problem.from, problem.to, problem.lengths, problem.element_bits, chip);
  // What a plugin's primitive costs may be other than when a path was kept.
  if (std::ranges::any_of(move_primitives(), [](const auto& each) { return !each.plugin.empty(); }))
    cache = nullptr;
  Conversion result;
  if (!is_there(problem)) {
    std::string why;
    std::optional<Conversion> found;
    if (const auto view =
            bit_view(problem.from, problem.to, problem.lengths, problem.element_bits, chip, &why)) {
      // When there is no room, ways that need less; then element by element.
      for (const bool keeps_source : {true, false}) {
        bool settled = found.has_value();
        for (int64_t most_lw = memory_size_lw(Memory::kLm0, chip) / 2; !settled && most_lw >= 1;
             most_lw /= 2) {
          std::string here;
          std::optional<Conversion> next;
          try {
            next = BitConversion(*view, problem, chip, keeps_source, cache).run(most_lw, &here, &settled);
          } catch (const isa::UnsupportedError& error) {
            here = error.what();
          }
          if (next && (!found || next->cycles < found->cycles)) found = std::move(next);
          if (why.empty()) why = here;
          if (here == kNoPath) break;
        }
      }
    }
    // Few elements may be there sooner one by one.
    std::optional<Conversion> by_elements;
    if (found && place_count(problem) <= kFewElements) {
      try {
        by_elements = ElementConversion(problem, chip).run("");
      } catch (const isa::UnsupportedError&) {
        // No room: the way that was found needs less.
      }
    }
    if (by_elements &&
        predict_cycles(by_elements->program, chip).total() < predict_cycles(found->program, chip).total()) {
      by_elements->states = found->states;
      by_elements->compared = found->compared + 1;
      by_elements->search_seconds = found->search_seconds;
      found = std::move(by_elements);
    }
    result = found ? std::move(*found) : ElementConversion(problem, chip).run(why);
    if (!found) result.why_by_elements = why;
  }
  result.bound = std::move(bound);
  result.steps = isa::count(result.program).steps;
  result.cycles = predict_cycles(result.program, chip).total();
  blaming(result, [&] {
    isa::check_internal(static_cast<double>(result.cycles) >= result.bound.cycles() - 1e-6, "conversion",
                        "{} cycles, the bound is {}", result.cycles, result.bound.cycles());
  });
  return result;
}

}  // namespace kodama::layout
