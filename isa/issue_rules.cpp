#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <span>

#include "isa/costs.h"
#include "isa/masks.h"
#include "isa/operand_sets.h"

/// The rules of section 4, once: each instruction wants places of resources in its step (`list_wants`), and
/// instructions fit when no resource is wanted by more than its capacity. Schedulers get the resources
/// (step_uses); people get the first rule broken, in words (issue_conflict).
namespace kodama::isa {
namespace {

/// In the order in which they are reported.
enum class Rule : uint8_t {
  kGroup,            ///< 1 and 2
  kMauUnits,         ///< 3
  kMauPrecision,     ///< 3
  kMauInput,         ///< 4: calculation and mwrite go through the second input of the MAU
  kMatrixRegister,   ///< 5
  kWritePort,        ///< 6
  kReadPort,         ///< 7, memories
  kLocalMemoryPort,  ///< 8: an LM has one port
  kImmediate,        ///< 9: the payload occupies the address field of LM0, so it takes that port
  kMask,             ///< 7 for mask registers, 10 and 11: a step reads one mask entry with one length
};

constexpr int kUnitCount = static_cast<int>(IssueGroup::kMv);
/// Want::order at the port of an LM.
constexpr int kPortWrite = 0;
constexpr int kPortRead = 1;
/// Of MVs, which stand alone.
constexpr int kNoResource = -1;
constexpr std::array kWritten{Space::kLm0, Space::kLm1, Space::kGrf0, Space::kGrf1,
                              Space::kT,   Space::kOmr, Space::kBar0, Space::kBar1};
constexpr std::array kRead{Space::kLm0, Space::kLm1, Space::kGrf0, Space::kGrf1};

/// Where the resources of each rule begin in step_resources().
struct StepResources {
  std::vector<StepResource> list;
  int mau = 0, mau_precision = 0, mau_input = 0, masks = 0;
  /// By Space; kNoResource where a space has none.
  using BySpace = std::array<int, static_cast<size_t>(Space::kVirtual) + 1>;
  BySpace matrix = none(), writes = none(), reads = none(), local_memories = none();

  StepResources() {
    const auto add = [&](std::string name, int64_t capacity = 1) {
      list.push_back({std::move(name), capacity});
      return static_cast<int>(list.size()) - 1;
    };
    for (int group = 0; group < kUnitCount; ++group)
      add(fmt::format("unit {}", issue_group_name(static_cast<IssueGroup>(group))));
    mau = add("MAU", 2);
    mau_precision = add("MAU precision");
    mau_input = add("MAU input 2");
    for (const Space space : {Space::kMatX, Space::kMatY})
      of(matrix, space) = add(fmt::format("matrix register {}", space_name(space)));
    for (const Space space : kWritten)
      of(writes, space) = add(fmt::format("write port of {}", space_name(space)));
    for (const Space space : kRead) of(reads, space) = add(fmt::format("read port of {}", space_name(space)));
    for (const Space space : {Space::kLm0, Space::kLm1})
      of(local_memories, space) = add(fmt::format("port of {}", space_name(space)));
    masks = add("mask");
  }

  static int& of(BySpace& numbers, Space space) { return numbers[static_cast<size_t>(space)]; }
  static int of(const BySpace& numbers, Space space) { return numbers[static_cast<size_t>(space)]; }

 private:
  static BySpace none() {
    BySpace numbers;
    numbers.fill(kNoResource);
    return numbers;
  }
};
const StepResources& step_resource_table() {
  static const StepResources table;
  return table;
}

/// What uses of a resource that share a place have in common.
struct Place {
  std::array<int64_t, 12> numbers{};
  std::vector<int64_t> loop_strides = {};  ///< without trailing zeros

  bool operator==(const Place&) const = default;
};
Place address_place(const Operand& operand) {
  Place place;
  // $t, $lt and $llt are one operand.
  place.numbers = {operand.space == Space::kT ? 0 : static_cast<int64_t>(operand.width),
                   operand.t_indirect ? 1 : 0, operand.j, operand.value};
  for (int c = 0; c < kCyclesPerStep; ++c) place.numbers[static_cast<size_t>(4 + c)] = operand.address(c);
  place.loop_strides = without_trailing_zeros(operand.loop_strides);
  return place;
}

/// One resource that an instruction wants.
struct Want {
  Rule rule;
  int order;  ///< messages name wants of a lower number first, then as the instructions stand in the step
  int resource;
  const Instruction* instruction;
  Space space = Space::kNone;
  std::optional<Place> place = std::nullopt;  ///< nothing: shared with nobody
};

/// That an instruction has, but for odd ones.
constexpr size_t kMostWants = 10;

/// Adds what one instruction wants.
void list_wants(const Instruction& instruction, std::vector<Want>& wants) {
  const StepResources& table = step_resource_table();
  const IssueGroup group = issue_group(instruction);
  const auto want = [&](Rule rule, int order, int resource, Space space = Space::kNone,
                        std::optional<Place> place = std::nullopt) {
    wants.push_back({rule, order, resource, &instruction, space, std::move(place)});
  };
  if (group == IssueGroup::kMv) {
    want(Rule::kGroup, 0, kNoResource);
    return;
  }
  const int unit = static_cast<int>(group);
  want(Rule::kGroup, 0, unit);
  if (group == IssueGroup::kMauCalc || group == IssueGroup::kMauMwrite || group == IssueGroup::kMauMread) {
    want(Rule::kMauUnits, unit, table.mau);
    want(Rule::kMauPrecision, unit, table.mau_precision, Space::kNone,
         Place{{static_cast<int64_t>(instruction.precision)}});
  }
  const Operand* input = nullptr;
  if (group == IssueGroup::kMauMwrite && !instruction.sources.empty()) input = instruction.sources.data();
  const int factor = info(instruction.opcode).mau.factor;
  if (factor >= 0 && static_cast<size_t>(factor) < instruction.sources.size())
    input = &instruction.sources[static_cast<size_t>(factor)];
  if (input != nullptr) {
    Place place = address_place(*input);
    place.numbers[8] = static_cast<int64_t>(input->space);
    place.numbers[9] = input->negate ? 1 : 0;
    place.numbers[10] = input->extend ? 1 : 0;
    place.numbers[11] = input->reduce ? 1 : 0;
    want(Rule::kMauInput, unit, table.mau_input, input->space, std::move(place));
  }
  const auto operand = [&](const Operand& each, bool write) {
    const Space space = each.space;
    const auto in = [&](const StepResources::BySpace& numbers) { return StepResources::of(numbers, space); };
    if (const int found = in(table.matrix); found != kNoResource)
      want(Rule::kMatrixRegister, write ? 1 : 0, found, space);
    if (const int found = in(table.local_memories); found != kNoResource)
      want(Rule::kLocalMemoryPort, write ? kPortWrite : kPortRead, found, space, address_place(each));
    if (write) {
      if (const int found = in(table.writes); found != kNoResource) want(Rule::kWritePort, 0, found, space);
    } else if (const int found = in(table.reads); found != kNoResource) {
      want(Rule::kReadPort, 0, found, space, address_place(each));
    }
  };
  for (const Operand& source : instruction.sources) operand(source, false);
  for (const Operand& destination : instruction.destinations) operand(destination, true);
  if (any_operand(instruction.sources, space_bit(Space::kImmediate)))
    want(Rule::kImmediate, 0, StepResources::of(table.local_memories, Space::kLm0), Space::kLm0);
  const auto mask = [&](const Mask& each) {
    if (each.kind == Mask::Kind::kNone) return;
    want(Rule::kMask, 0, table.masks, Space::kNone,
         Place{{mask_entry(each).value_or(-1), each.double_long ? 1 : 0}});
  };
  mask(instruction.zero_flush);
  for (const Operand& destination : instruction.destinations) mask(destination.mask);
}

std::string quoted(const Instruction& instruction) {
  return fmt::format("'{}'", mnemonic(instruction));
}

/// "'fvadd' and 'linc'", or "'fvfma'" when both are one.
std::string both(const Want& first, const Want& second) {
  const Instruction& a = *first.instruction;
  const Instruction& b = *second.instruction;
  return &a == &b ? quoted(a) : fmt::format("{} and {}", quoted(a), quoted(b));
}

/// `crowd`: those that have a place of the resource each, and as the last one that which finds none.
/// `rivals`: all that come before the last one, also where several share a place.
std::string rule_message(std::span<const Want* const> crowd, std::span<const Want* const> rivals) {
  const Want& first = *crowd.front();
  const Want& last = *crowd.back();
  switch (last.rule) {
    case Rule::kGroup:
      if (last.resource == kNoResource)
        return fmt::format("{} is an MV and must stand alone", quoted(*last.instruction));
      return fmt::format("{} both belong to the group {}; a step has at most one of each group",
                         both(first, last), issue_group_name(static_cast<IssueGroup>(last.resource)));
    case Rule::kMauUnits:
      return fmt::format(
          "{}, {} and {} are three MAU instructions; a step has at most two of calculation, mwrite and mread",
          quoted(*crowd[0]->instruction), quoted(*crowd[1]->instruction), quoted(*crowd[2]->instruction));
    case Rule::kMauPrecision:
      return fmt::format(
          "{} have different precisions; MAU instructions of one step need the same precision letter",
          both(first, last));
    case Rule::kMauInput:
      return fmt::format(
          "the second input of {} must be the source of {} (same operand, same '-', 'e' and 'r')",
          quoted(*first.instruction), quoted(*last.instruction));
    case Rule::kMatrixRegister:
      return fmt::format("{} use the same matrix register {}; a step uses each at most once",
                         both(first, last), last.space == Space::kMatX ? "$lx" : "$ly");
    case Rule::kWritePort:
      return fmt::format("two writes to {} by {}; a step writes each space at most once",
                         space_name(last.space), both(first, last));
    case Rule::kReadPort:
      return fmt::format(
          "two reads of {} with different addresses by {}; all reads of a space in a step must have the "
          "same width and addresses",
          space_name(last.space), both(first, last));
    case Rule::kLocalMemoryPort:
      return fmt::format(
          "{} read and write {} at different addresses; an LM has one port, so both need the same width "
          "and addresses",
          both(last, first), space_name(last.space));
    case Rule::kImmediate: {
      // Of a write and a read that share the port, the read.
      const auto read =
          std::ranges::find_if(rivals, [](const Want* want) { return want->order == kPortRead; });
      const Want& access = read != rivals.end() ? **read : first;
      return fmt::format("{} can't be in a step that accesses {}, here by {}", quoted(*last.instruction),
                         space_name(Space::kLm0), quoted(*access.instruction));
    }
    case Rule::kMask:
      if (first.place->numbers[0] != last.place->numbers[0]) {
        return fmt::format(
            "different masks in {}; all write masks and zero flushes of a step must name the same mask",
            both(first, last));
      }
      return fmt::format(
          "masks of different lengths (l and ll) in {}; all masks of a step have the same length",
          both(first, last));
  }
  return {};
}

bool share_a_place(const Want& a, const Want& b) {
  return a.place && b.place && *a.place == *b.place;
}

/// Whether no two wants of one resource need places of their own: true of most steps, and quick to see.
bool are_apart(const std::vector<Want>& wants) {
  for (size_t k = 0; k < wants.size(); ++k) {
    if (wants[k].resource == kNoResource) return false;
    for (size_t earlier = 0; earlier < k; ++earlier) {
      if (wants[earlier].resource == wants[k].resource && !share_a_place(wants[earlier], wants[k]))
        return false;
    }
  }
  return true;
}

}  // namespace

std::string issue_conflict(const std::vector<Instruction>& step, const Chip& /*chip*/) {
  std::vector<Want> wants;
  wants.reserve(step.size() * kMostWants);
  for (const Instruction& instruction : step) list_wants(instruction, wants);
  if (step.size() == 1 && issue_group(step[0]) == IssueGroup::kWait)
    return "'wait' can't stand alone; put 'nop' or another instruction beside it";
  if (are_apart(wants)) return {};
  std::vector<const Want*> sorted;
  sorted.reserve(wants.size());
  for (const Want& want : wants) sorted.push_back(&want);
  std::ranges::stable_sort(sorted, {}, [](const Want* want) { return std::pair(want->rule, want->order); });
  const std::vector<StepResource>& resources = step_resources();
  std::vector<const Want*> rivals;
  std::vector<const Want*> crowd;
  for (size_t k = 0; k < sorted.size(); ++k) {
    const Want& want = *sorted[k];
    const auto shares = [&](const Want& with) {
      return std::ranges::any_of(crowd, [&](const Want* known) { return share_a_place(*known, with); });
    };
    rivals.clear();
    crowd.clear();
    for (const Want* earlier : std::span(sorted).first(k)) {
      if (earlier->resource != want.resource) continue;
      rivals.push_back(earlier);
      if (!shares(*earlier)) crowd.push_back(earlier);
    }
    const int64_t capacity =
        want.resource == kNoResource ? 0 : resources[static_cast<size_t>(want.resource)].capacity;
    if (static_cast<int64_t>(crowd.size()) < capacity || shares(want)) continue;
    crowd.push_back(&want);
    return rule_message(crowd, rivals);
  }
  return {};
}

const std::vector<StepResource>& step_resources() {
  return step_resource_table().list;
}

namespace {

/// Bytes: nobody reads keys, and texts take far longer to make.
template <typename Numbers>
void append(const Numbers& numbers, std::string& key) {
  key.append(reinterpret_cast<const char*>(numbers.data()), numbers.size() * sizeof(int64_t));
}

}  // namespace

std::vector<StepUse> step_uses(const Instruction& instruction) {
  std::vector<Want> wants;
  wants.reserve(kMostWants);
  list_wants(instruction, wants);
  std::vector<StepUse> uses;
  uses.reserve(wants.size());
  for (auto want = wants.begin(); want != wants.end(); ++want) {
    if (want->resource == kNoResource) continue;
    const bool is_known = std::any_of(wants.begin(), want, [&](const Want& earlier) {
      return earlier.resource == want->resource && share_a_place(earlier, *want);
    });
    if (is_known) continue;
    StepUse use{want->resource, {}, 0};
    if (want->place) {
      const Place& place = *want->place;
      append(place.numbers, use.key);
      append(place.loop_strides, use.key);
      use.strides_end = place.loop_strides.size();
    }
    uses.push_back(std::move(use));
  }
  return uses;
}

}  // namespace kodama::isa
