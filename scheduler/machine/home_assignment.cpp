#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <optional>
#include <queue>
#include <span>

#include "isa/error.h"
#include "scheduler/machine/builtin_passes.h"
#include "scheduler/machine/operand_copies.h"
#include "scheduler/machine/program_analysis.h"
#include "scheduler/problem/live_profile.h"

/// "bank-coloring". Values are coloured with the four banks (and T) greedily, in the order of DSATUR: next
/// comes the value for which the fewest banks are still free of conflicts, the one whose conflicts run
/// most often first. It gets the bank with the least conflict weight (runs of the operations in which it
/// would collide with an operand that has its bank already), among equals a GRF for small values and an LM
/// for large ones, and then the bank whose ports are used least. A bank in which the value does not fit
/// beside the values that live at the same time is taken only if there is no other.
///
/// What still collides is repaired per operation: the cheapest set of operands, found by trying all, moves to
/// temporary values in other banks, with `lpassa` before (sources) or after (destinations) the operation.
/// A copy to or from a GRF is always legal, so every operation ends legal. Copies overwrite $aluf; where a
/// later operation still reads it, it is saved and restored around them.
namespace kodama::scheduler {
namespace {

using isa::Instruction;
using isa::Operand;
using isa::Space;
using isa::space_bit;

constexpr std::span<const Space> kBanks = std::span(kPeHomes).first(kAddressedHomes);

bool is_lm(Space space) {
  return space == Space::kLm0 || space == Space::kLm1;
}

class BankColoring {
 public:
  BankColoring(MachineProgram& program, const isa::Chip& chip) : program_(program), chip_(chip) {}

  void run() {
    index_ = index_program(program_);
    lifetimes_ = compute_lifetimes(program_, index_);
    prepare_values();
    build_conflicts();
    color();
    forward_.emplace(program_);
    int64_t position = 0;
    repair_nodes(program_.body, position);
  }

 private:
  enum class ConflictKind : uint8_t { kReadRead, kReadWrite, kWriteWrite };
  struct Conflict {
    int other = 0;
    ConflictKind kind = ConflictKind::kReadRead;
    double weight = 0;
  };
  struct ValueState {
    HomeSet allowed = 0;
    std::array<double, kPeHomes.size()> cost{};
    std::vector<Conflict> conflicts;
    double weight = 0;  ///< runs of its operands
    bool done = false;
  };

  [[noreturn]] void fail(const Operation& operation, const std::string& what) const {
    throw isa::InternalError(fmt::format("internal error in bank-coloring: {} in '{}'", what,
                                         scheduler::to_string(operation, program_)));
  }

  void prepare_values() {
    states_.assign(program_.values.size(), {});
    profiles_.assign(kPeHomes.size(), LiveProfile(2 * static_cast<int64_t>(index_.sites.size()) + 2));
    capacity_.fill(0);
    for (size_t h = 0; h < kPeHomes.size(); ++h) {
      const int64_t size = home_size(kPeHomes[h], chip_);
      const std::vector<bool> reserved = reserved_words(index_, kPeHomes[h], size);
      capacity_[h] = size - std::count(reserved.begin(), reserved.end(), true);
    }
    HomeSet possible = 0;
    for (const Space home : kPeHomes) possible |= space_bit(home);
    for (size_t v = 0; v < states_.size(); ++v) {
      Value& value = program_.values[v];
      if (value.homes == space_bit(Space::kOmr)) {
        value.home = Space::kOmr;
        states_[v].done = true;
        continue;
      }
      isa::check_internal((value.homes & possible) != 0, "bank-coloring", "value %{} has no allowed home",
                          value.name);
      isa::check_internal(value.size_words > 0, "bank-coloring", "value %{} has {} words", value.name,
                          value.size_words);
      states_[v].allowed = value.homes & possible;
    }
    restrict_t_homes();
  }

  void allow_only(int value, HomeSet homes, const Operation& operation, std::string_view why) {
    HomeSet& allowed = states_[value].allowed;
    if ((allowed & homes) == 0) {
      fail(operation,
           fmt::format("value %{} can't live where {} needs it", program_.values[value].name, why));
    }
    allowed &= homes;
  }

  /// T keeps one 2LW per cycle and knows no addresses: a value may live there by choice only if all its
  /// operands name the same place with a place of its own for each cycle. A value whose only home is T is
  /// the kernel's word that it knows this.
  void restrict_t_homes() {
    const HomeSet t = space_bit(Space::kT);
    std::vector<const Operand*> first(states_.size(), nullptr);
    for (const OperationSite& site : index_.sites) {
      const auto look = [&](const Operand& operand) {
        if (operand.space != Space::kVirtual) return;
        isa::check_internal(operand.value >= 0 && operand.value < static_cast<int32_t>(states_.size()),
                            "bank-coloring", "operand names value {} of {}", operand.value, states_.size());
        if (operand.t_indirect) {
          allow_only(operand.value, space_bit(Space::kLm0), *site.operation, "T-indirect addressing");
        }
        HomeSet& allowed = states_[operand.value].allowed;
        if (allowed == t) return;
        if (first[operand.value] == nullptr) first[operand.value] = &operand;
        const bool uniform = same_address(*first[operand.value], operand) && operand.j < 0 &&
                             operand.stride >= words(operand.width) && trimmed(operand.loop_strides).empty();
        if (!uniform || operand.flat) {
          if ((allowed & ~t) != 0) allowed &= ~t;
        }
      };
      for (const Operand& operand : site.operation->instruction.sources) look(operand);
      for (const Operand& operand : site.operation->instruction.destinations) look(operand);
    }
    // Values in T by choice must not meet real uses of T.
    if (capacity_[home_index(Space::kT)] < home_size(Space::kT, chip_)) {
      for (ValueState& state : states_) {
        if ((state.allowed & ~t) != 0) state.allowed &= ~t;
      }
    }
  }

  void build_conflicts() {
    for (const OperationSite& site : index_.sites) {
      const Instruction& instruction = site.operation->instruction;
      const auto& row = isa::info(instruction.opcode);
      std::vector<std::pair<const Operand*, bool>> operands;  // with "is written"
      for (size_t k = 0; k < instruction.sources.size(); ++k) {
        const Operand& operand = instruction.sources[k];
        operands.emplace_back(&operand, false);
        if (operand.space == Space::kVirtual)
          charge(operand.value, ~row.sources[std::min<size_t>(k, 2)], site.weight);
      }
      for (const Operand& operand : instruction.destinations) {
        operands.emplace_back(&operand, true);
        if (operand.space != Space::kVirtual) continue;
        charge(operand.value, ~row.destinations, site.weight);
        if (instruction.opcode == isa::Opcode::kImm)
          charge(operand.value, space_bit(Space::kLm0), site.weight);
      }
      for (size_t a = 0; a < operands.size(); ++a) {
        if (operands[a].first->space == Space::kVirtual)
          states_[operands[a].first->value].weight += site.weight;
        for (size_t b = a + 1; b < operands.size(); ++b) {
          add_conflict(*operands[a].first, operands[a].second, *operands[b].first, operands[b].second,
                       site.weight);
        }
      }
    }
  }

  void charge(int value, isa::SpaceSet spaces, double weight) {
    for (size_t h = 0; h < kPeHomes.size(); ++h) {
      if ((spaces & space_bit(kPeHomes[h])) != 0) states_[value].cost[h] += weight;
    }
  }

  void add_conflict(const Operand& a, bool a_written, const Operand& b, bool b_written, double weight) {
    const bool a_virtual = a.space == Space::kVirtual;
    const bool b_virtual = b.space == Space::kVirtual;
    const ConflictKind kind = a_written && b_written   ? ConflictKind::kWriteWrite
                              : a_written != b_written ? ConflictKind::kReadWrite
                                                       : ConflictKind::kReadRead;
    if (a_virtual && b_virtual) {
      if (a.value == b.value) {
        if (kind == ConflictKind::kReadWrite && !same_address(a, b)) {
          charge(a.value, space_bit(Space::kLm0) | space_bit(Space::kLm1), weight);
        }
        return;  // two reads or two writes of one value collide wherever it lives
      }
      states_[a.value].conflicts.push_back({b.value, kind, weight});
      states_[b.value].conflicts.push_back({a.value, kind, weight});
    } else if (a_virtual || b_virtual) {
      const Operand& real = a_virtual ? b : a;
      if (home_index(real.space) == kPeHomes.size()) return;
      if (kind == ConflictKind::kReadWrite && !is_lm(real.space)) return;
      charge(a_virtual ? a.value : b.value, space_bit(real.space), weight);
    }
  }

  bool fits(int value, size_t home) const {
    const Lifetime& life = lifetimes_[value];
    if (life.empty()) return true;
    const int64_t used = profiles_[home].largest(life.begin, life.end);
    if (kPeHomes[home] == Space::kT) return used == 0 && capacity_[home] > 0;
    // A sixteenth stays free for copies and for the holes of the allocation.
    const bool flexible = (states_[value].allowed & (states_[value].allowed - 1)) != 0;
    const int64_t limit = flexible ? capacity_[home] - capacity_[home] / 16 : capacity_[home];
    return used + program_.values[value].size_words <= limit;
  }

  int free_homes(const ValueState& state) const {
    int free = 0;
    for (size_t h = 0; h < kPeHomes.size(); ++h) {
      free += (state.allowed & space_bit(kPeHomes[h])) != 0 && state.cost[h] == 0;
    }
    return free;
  }

  void color() {
    using Entry = std::tuple<int, double, int>;  // fewest free homes, most weight, lowest number first
    std::priority_queue<Entry, std::vector<Entry>, std::greater<>> queue;
    const auto push = [&](int v) { queue.emplace(free_homes(states_[v]), -states_[v].weight, v); };
    for (size_t v = 0; v < states_.size(); ++v) push(static_cast<int>(v));
    std::array<double, kPeHomes.size()> port_load{};
    while (!queue.empty()) {
      const auto [free, weight, v] = queue.top();
      queue.pop();
      ValueState& state = states_[v];
      if (state.done || free != free_homes(state)) continue;  // a newer entry exists
      const size_t home = choose(v, port_load);
      state.done = true;
      program_.values[v].home = kPeHomes[home];
      port_load[home] += state.weight;
      if (!lifetimes_[v].empty())
        profiles_[home].add(lifetimes_[v].begin, lifetimes_[v].end, program_.values[v].size_words);
      for (const Conflict& conflict : state.conflicts) {
        ValueState& other = states_[conflict.other];
        if (other.done || (conflict.kind == ConflictKind::kReadWrite && !is_lm(kPeHomes[home]))) continue;
        const int before = free_homes(other);
        other.cost[home] += conflict.weight;
        if (free_homes(other) != before) push(conflict.other);
      }
    }
  }

  size_t choose(int v, const std::array<double, kPeHomes.size()>& port_load) const {
    const ValueState& state = states_[v];
    const bool small = program_.values[v].size_words <= chip_.memory.grf_words / 8;
    std::optional<std::tuple<bool, double, int, double, size_t>> best;
    for (size_t h = 0; h < kPeHomes.size(); ++h) {
      if ((state.allowed & space_bit(kPeHomes[h])) == 0) continue;
      const int distance = kPeHomes[h] == Space::kT ? 2 : is_lm(kPeHomes[h]) == small ? 1 : 0;
      const std::tuple<bool, double, int, double, size_t> rank{!fits(v, h), state.cost[h], distance,
                                                               port_load[h], h};
      if (!best || rank < *best) best = rank;
    }
    return std::get<4>(*best);
  }

  // ---- repair ------------------------------------------------------------------------------------------

  void repair_nodes(std::vector<Node>& nodes, int64_t& position) {
    for (Node& node : nodes) {
      if (auto* loop = std::get_if<CountedLoop>(&node.kind)) repair_nodes(loop->body, position);
      if (auto* region = std::get_if<RegionNode>(&node.kind)) repair_nodes(region->body, position);
      if (auto* block = std::get_if<Block>(&node.kind)) repair_block(*block, position);
    }
  }

  void repair_block(Block& block, int64_t& position) {
    const size_t count = block.operations.size();
    const std::vector<bool> needed = forward_->within(block);
    std::vector<Operation> result;
    result.reserve(count);
    for (size_t k = 0; k < count; ++k, ++position) {
      Operation& operation = block.operations[k];
      moment_ = {2 * position, 2 * position + 2};
      std::vector<Operation> before;
      std::vector<Operation> after;
      repair(operation, before, after);
      add_copies(std::move(before), needed[k], operation.origin, result);
      const std::string origin = operation.origin;
      result.push_back(std::move(operation));
      add_copies(std::move(after), needed[k + 1], origin, result);
    }
    block.operations = std::move(result);
  }

  void add_copies(std::vector<Operation> copies, bool save_forward, const std::string& origin,
                  std::vector<Operation>& result) {
    if (copies.empty()) return;
    std::optional<Operand> saved;
    if (save_forward) saved = new_temporary(cheapest_bank(), isa::Width::kDoubleLong);
    append_copies(std::move(copies), saved, origin, result);
  }

  Space cheapest_bank() const {
    return *std::min_element(kBanks.begin(), kBanks.end(),
                             [&](Space a, Space b) { return bank_rank(a) < bank_rank(b); });
  }
  std::pair<bool, int64_t> bank_rank(Space bank) const {
    const int h = home_index(bank);
    const int64_t used = profiles_[h].largest(moment_.begin, moment_.end);
    const int64_t wanted = int64_t{isa::kCyclesPerStep} * words(isa::Width::kDoubleLong);
    return {used + wanted > capacity_[h], is_lm(bank) ? chip_.memory.grf_words + used : used};
  }

  Operand new_temporary(Space bank, isa::Width width) {
    Value value;
    value.name = fmt::format("copy.{}", copies_++);
    value.size_words = int64_t{isa::kCyclesPerStep} * words(width);
    value.alignment_words = std::max(2, words(width));
    value.homes = space_bit(bank);
    value.home = bank;
    profiles_[home_index(bank)].add(moment_.begin, moment_.end, value.size_words);
    const Operand operand = value_operand(static_cast<int>(program_.values.size()), 0, width, words(width));
    program_.values.push_back(std::move(value));
    return operand;
  }

  Space space_of(const Operand& operand) const {
    return operand.space == Space::kVirtual ? program_.values[operand.value].home : operand.space;
  }

  void repair(Operation& operation, std::vector<Operation>& before, std::vector<Operation>& after) {
    Instruction& instruction = operation.instruction;
    if (isa::issue_group(instruction) == isa::IssueGroup::kMv) return;
    const std::vector<PlacedOperand> as_is = placed_operands(instruction, program_);
    if (is_legal(as_is, instruction.opcode)) return;
    // Where each may move; kNone = it stays.
    std::vector<std::vector<Space>> choices(as_is.size(), {Space::kNone});
    for (size_t k = 0; k < as_is.size(); ++k) {
      const Space space = as_is[k].operand->space;
      const bool is_mask = as_is[k].space == Space::kOmr;
      if ((space == Space::kVirtual && !is_mask) || isa::is_pe_memory(space) || space == Space::kT ||
          space == Space::kConstant)
        choices[k].insert(choices[k].end(), kBanks.begin(), kBanks.end());
    }

    // All combinations; few operations get here and few operands have choices.
    std::array<int64_t, kPeHomes.size()> move_cost{};
    for (const Space bank : kBanks) {
      const auto [full, used] = bank_rank(bank);
      move_cost[home_index(bank)] = (int64_t{1} << 32) + (full ? int64_t{1} << 28 : 0) + used;
    }
    std::vector<size_t> digit(as_is.size(), 0);
    std::optional<std::pair<int64_t, std::vector<Space>>> best;
    for (;;) {
      int64_t cost = 0;
      std::vector<PlacedOperand> moved = as_is;
      std::vector<Space> chosen(as_is.size(), Space::kNone);
      for (size_t k = 0; k < as_is.size(); ++k) {
        chosen[k] = choices[k][digit[k]];
        if (chosen[k] == Space::kNone) continue;
        cost += move_cost[home_index(chosen[k])];
        moved[k].space = chosen[k];
        moved[k].moved = true;
      }
      if ((!best || cost < best->first) && is_legal(moved, instruction.opcode))
        best.emplace(cost, std::move(chosen));
      size_t k = 0;
      while (k < as_is.size() && ++digit[k] == choices[k].size()) digit[k++] = 0;
      if (k == as_is.size()) break;
    }
    if (!best) fail(operation, "no choice of memories makes the operands legal");

    const size_t source_count = instruction.sources.size();
    for (size_t k = 0; k < best->second.size(); ++k) {
      const Space bank = best->second[k];
      if (bank == Space::kNone) continue;
      if (k < source_count) {
        move_source(instruction.sources[k], bank, instruction, operation.origin, before);
      } else {
        move_destination(instruction.destinations[k - source_count], bank, operation, after);
      }
    }
  }

  void move_source(Operand& source, Space bank, const Instruction& user, const std::string& origin,
                   std::vector<Operation>& before) {
    // T and constants are 2LW wide whatever the operand says; a constant repeats per lane of the precision.
    const bool wide = space_of(source) == Space::kT || source.space == Space::kConstant;
    Operand temporary = new_temporary(bank, wide ? isa::Width::kDoubleLong : source.width);
    Operand from = source;
    from.negate = from.extend = from.reduce = false;
    const bool keep_precision =
        source.space == Space::kConstant && isa::issue_group(user) == isa::IssueGroup::kAlu;
    before.push_back(
        copy_operation(from, temporary, keep_precision ? user.precision : isa::Precision::kLong, origin));
    temporary.negate = source.negate;
    temporary.extend = source.extend;
    temporary.reduce = source.reduce;
    source = temporary;
  }

  void move_destination(Operand& destination, Space bank, const Operation& operation,
                        std::vector<Operation>& after) {
    const Instruction& instruction = operation.instruction;
    for (const Operand& other : instruction.destinations) {
      const isa::Mask& mask = destination.mask;
      const bool is_register =
          mask.kind == isa::Mask::Kind::kRegister && other.space == Space::kOmr && other.base == mask.value;
      const bool is_value = mask.kind == isa::Mask::Kind::kVirtual && other.space == Space::kVirtual &&
                            other.value == mask.virtual_value;
      if (is_register || is_value)
        fail(operation, "a masked destination needs a copy, but the operation overwrites its mask register");
    }
    const bool wide = space_of(destination) == Space::kT;
    const Operand temporary = new_temporary(bank, wide ? isa::Width::kDoubleLong : destination.width);
    // The temporary is written whole and the mask applied by the copy, which keeps what the mask keeps.
    after.push_back(copy_operation(temporary, destination, isa::Precision::kLong, operation.origin));
    destination = temporary;
  }

  MachineProgram& program_;
  const isa::Chip& chip_;
  ProgramIndex index_;
  std::vector<Lifetime> lifetimes_;
  std::vector<ValueState> states_;
  std::vector<LiveProfile> profiles_;
  std::array<int64_t, kPeHomes.size()> capacity_{};
  std::optional<ForwardNeeds> forward_;
  Lifetime moment_;
  int64_t copies_ = 0;
};

}  // namespace

HomeAssigner bank_coloring_pass() {
  return {"bank-coloring",
          "DSATUR coloring of values with memory banks, copies where operands still collide",
          {},
          [](MachineProgram& program, const isa::Chip& chip, const passes::PassOptions&) {
            BankColoring(program, chip).run();
          }};
}

}  // namespace kodama::scheduler
