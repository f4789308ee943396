#include "scheduler/verify/lockstep.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <boost/icl/interval_set.hpp>
#include <map>
#include <optional>
#include <set>
#include <unordered_map>
#include <vector>

#include "isa/cancellation.h"
#include "isa/costs.h"
#include "scheduler/verify/findings.h"

namespace kodama::verify {

using isa::Access;
using isa::Width;
using scheduler::Node;

namespace {

/// Which word of which operation; kNothing: nobody has written it.
using Mark = uint64_t;
constexpr Mark kNothing = 0;
/// Words that one operation writes, at most: T, or all of a value through T.
constexpr int kWordBits = 20;

/// Words of a cycle that a forwarding register, or T, has room for.
constexpr int64_t kRegisterWords = words(Width::kDoubleLong);

using WordSet = boost::icl::interval_set<int64_t>;

WordSet::interval_type words_from(int64_t begin, int64_t length) {
  return WordSet::interval_type::right_open(begin, begin + length);
}

// ---- what an operation reads and writes ------------------------------------------------------------------

/// Words of a memory of a side.
struct Cells {
  int memory = 0;
  std::array<int64_t, isa::kCyclesPerStep> begin{};
  int64_t length = 1;
  int cycles = 1;
  uint8_t active = 0b1111;
  std::vector<int64_t> strides = {};
  bool may_not_write = false;

  bool is_active(int cycle) const { return cycles == 1 || (active >> cycle & 1) != 0; }
};

/// A real operand in a memory that both sides have in common.
struct SharedAddress {
  int64_t base = 0;
  std::vector<int64_t> strides = {};
};

struct Prepared {
  enum class Kind : uint8_t {
    kOther,
    kCopy,     ///< lpassa
    kSave,     ///< l1bmd to words of L1BM that are memory of this side alone
    kRestore,  ///< and back
  };
  const Operation* operation = nullptr;
  Kind kind = Kind::kOther;
  Instruction fields = {};  ///< without what may differ
  std::vector<Cells> reads = {};
  std::vector<Cells> writes = {};
  std::vector<SharedAddress> shared = {};
  SharedAddress row = {};  ///< kSave and kRestore: in L1BM
};

int64_t shift(const std::vector<int64_t>& strides, const std::vector<int64_t>& counters) {
  int64_t sum = 0;
  for (size_t d = 0; d < std::min(strides.size(), counters.size()); ++d) sum += strides[d] * counters[d];
  return sum;
}

bool is_matrix(Space space) {
  return space == Space::kMatX || space == Space::kMatY;
}
bool is_forward(Space space) {
  return space == Space::kAluf || space == Space::kMauf || space == Space::kLbf || space == Space::kMreadf;
}
/// Whether a place is one of those whose words have marks.
bool has_marks(HazardResource resource) {
  return !isa::is_transfer_memory(resource) && resource != HazardResource::kL1bm;
}

bool is_plain(const Operand& operand) {
  return !operand.negate && !operand.extend && !operand.reduce && !operand.t_indirect && operand.j < 0 &&
         operand.mask.kind == isa::Mask::Kind::kNone;
}
/// Memories whose addresses depend on no base register.
bool is_word_memory(const Operand& operand) {
  return operand.space == Space::kVirtual || operand.space == Space::kGrf0 || operand.space == Space::kGrf1;
}

// ---- one of the two programs -----------------------------------------------------------------------------

class Side {
 public:
  Side(const MachineProgram& program, const isa::Chip& chip, bool has_places)
      : program_(program), chip_(chip), has_places_(has_places) {
    for (int r = 0; r < isa::kHazardResourceCount; ++r)
      memories_.emplace_back(size_of(static_cast<HazardResource>(r)), kNothing);
    if (!has_places) {
      for (const scheduler::Value& value : program.values)
        memories_.emplace_back(std::max<int64_t>(value.size_words, kRegisterWords), kNothing);
    }
    flatten(program.body);
  }

  /// Words of L1BM that operations touch in any iteration.
  WordSet touched_l1bm() const {
    WordSet touched;
    std::vector<int64_t> trips;
    for_each_operation(program_.body, trips, [&](const Operation& operation, const auto& counts) {
      for (const Access& access : isa::accesses(operation.instruction, chip_)) {
        if (access.resource != HazardResource::kL1bm) continue;
        touched.add(reached(access, counts));
      }
    });
    return touched;
  }
  /// Words of L1BM outside of `shared` are memory of this side alone.
  void share_l1bm(WordSet shared) { shared_l1bm_ = std::move(shared); }

  /// The next operation that is executed; nullptr behind the last.
  const Prepared* next() {
    while (at_ < items_.size()) {
      Item& item = items_[at_];
      if (item.operation != nullptr) {
        ++at_;
        return &prepared(item);
      }
      if (item.is_begin) {
        counters_.push_back(0);
        ++at_;
      } else if (++counters_.back() < item.count) {
        at_ = item.other + 1;
      } else {
        counters_.pop_back();
        ++at_;
      }
    }
    return nullptr;
  }
  const std::vector<int64_t>& counters() const { return counters_; }

  /// Calls visit(mark) for every word, in order.
  template <typename Visit>
  void for_each_mark(const Cells& cells, Visit&& visit) {
    std::vector<Mark>& memory = memories_[static_cast<size_t>(cells.memory)];
    const int64_t moved = shift(cells.strides, counters_);
    const auto size = static_cast<int64_t>(memory.size());
    for (int c = 0; c < cells.cycles; ++c) {
      if (!cells.is_active(c)) continue;
      int64_t at = (cells.begin[static_cast<size_t>(c)] + moved) % size;
      if (at < 0) at += size;
      for (int64_t w = 0; w < cells.length; ++w, ++at) visit(memory[static_cast<size_t>(at % size)]);
    }
  }
  std::vector<Mark> marks(const Cells& cells) {
    std::vector<Mark> result;
    for_each_mark(cells, [&](Mark mark) { result.push_back(mark); });
    return result;
  }

  /// Executes what only moves data; false, and nothing done, for everything else.
  bool execute_copy(const Prepared& prepared) {
    switch (prepared.kind) {
      case Prepared::Kind::kOther:
        return false;
      case Prepared::Kind::kCopy: {
        const std::vector<Mark> data = marks(prepared.reads.at(0));
        put_forward(data);
        if (!prepared.writes.empty()) put(prepared.writes[0], data);
        return true;
      }
      case Prepared::Kind::kSave: {
        const std::vector<Mark> data = marks(prepared.reads.at(0));
        for (size_t c = 0; c < isa::kCyclesPerStep; ++c)
          save_row(row(prepared, c), {data[2 * c], data[2 * c + 1]});
        forget(HazardResource::kTurnaround);
        return true;
      }
      case Prepared::Kind::kRestore: {
        std::vector<Mark> data;
        for (size_t c = 0; c < isa::kCyclesPerStep; ++c) {
          const auto known = rows_.find(row(prepared, c));
          for (size_t w = 0; w < 2; ++w) data.push_back(known != rows_.end() ? known->second[w] : unknown_--);
        }
        put(prepared.writes.at(0), data);
        forget(HazardResource::kLbForward);
        return true;
      }
    }
    return false;
  }

 private:
  struct Item {
    const Operation* operation = nullptr;  ///< none: the begin or the end of a loop
    bool is_begin = false;
    int64_t count = 0;
    size_t other = 0;  ///< of an end: its begin
    std::vector<int64_t> trips = {};
    std::optional<Prepared> prepared = std::nullopt;
  };

  size_t size_of(HazardResource resource) const {
    switch (resource) {
      case HazardResource::kLm0:
      case HazardResource::kLm1:
      case HazardResource::kGrf0:
      case HazardResource::kGrf1:
        return static_cast<size_t>(isa::wrap_size(resource, chip_));
      case HazardResource::kT:
        return kRegisterWords * isa::kCyclesPerStep;
      case HazardResource::kMask:
        return static_cast<size_t>(std::max<int64_t>(chip_.memory.mask_entries, 2 * isa::kMaskRegisters));
      case HazardResource::kMatX:
      case HazardResource::kMatY:
        return isa::kMatrixRows;
      default:
        return isa::is_forwarding_register(resource) ? kRegisterWords * isa::kCyclesPerStep : 1;
    }
  }

  void flatten(const std::vector<Node>& nodes) {
    for (const Node& node : nodes) {
      if (const auto* block = std::get_if<scheduler::Block>(&node.kind)) {
        for (const Operation& operation : block->operations)
          items_.push_back({.operation = &operation, .trips = trips_});
      } else if (const auto* region = std::get_if<scheduler::RegionNode>(&node.kind)) {
        flatten(region->body);
      } else {
        const auto& loop = std::get<scheduler::CountedLoop>(node.kind);
        if (loop.count <= 0) continue;
        const size_t begin = items_.size();
        items_.push_back({.is_begin = true});
        trips_.push_back(loop.count);
        flatten(loop.body);
        trips_.pop_back();
        if (items_.size() == begin + 1) {
          items_.pop_back();  // nothing happens in it
        } else {
          items_.push_back({.count = loop.count, .other = begin});
        }
      }
    }
  }

  WordSet::interval_type reached(const Access& access, const std::vector<int64_t>& counts) const {
    int64_t low = access.begin[0];
    int64_t high = low + access.length;
    for (size_t d = 0; d < std::min(counts.size(), access.loop_strides.size()); ++d) {
      const int64_t reach = access.loop_strides[d] * std::max<int64_t>(counts[d] - 1, 0);
      (reach < 0 ? low : high) += reach;
    }
    const bool wraps = access.whole || low < 0 || high > chip_.memory.l1bm_lw;
    return wraps ? words_from(0, chip_.memory.l1bm_lw) : words_from(low, high - low);
  }

  const Prepared& prepared(Item& item) {
    if (!item.prepared) item.prepared = prepare(*item.operation, item.trips);
    return *item.prepared;
  }

  /// The words of an access of a value where it lives.
  Cells cells_of(const Access& access) const {
    Cells cells{.memory = static_cast<int>(access.resource),
                .begin = access.begin,
                .length = access.length,
                .cycles = access.cycles,
                .active = access.active_cycles,
                .strides = access.loop_strides,
                .may_not_write = access.may_not_write};
    int64_t begin = 0;
    int64_t size = static_cast<int64_t>(memories_[static_cast<size_t>(cells.memory)].size());
    if (access.resource == HazardResource::kT && access.value < 0) {
      cells.length = kRegisterWords;
      for (int64_t& each : cells.begin) each *= kRegisterWords;
    }
    if (access.value >= 0) {
      const scheduler::Value& value = program_.values.at(static_cast<size_t>(access.value));
      size = value.size_words;
      if (!has_places_) {
        cells.memory = isa::kHazardResourceCount + access.value;
      } else if (value.home == Space::kT) {
        cells.memory = static_cast<int>(HazardResource::kT);
        cells.strides.clear();
        for (size_t c = 0; c < cells.begin.size(); ++c)
          cells.begin[c] = static_cast<int64_t>(c) * kRegisterWords;
      } else {
        cells.memory = static_cast<int>(isa::hazard_resource(value.home).value());
        begin = value.address;
        for (int64_t& each : cells.begin) each += begin;
      }
    }
    if (access.whole) {
      cells.begin.fill(begin);
      cells.length = size;
      cells.cycles = 1;
      cells.strides.clear();
      cells.may_not_write = access.write;
    }
    return cells;
  }

  Prepared prepare(const Operation& operation, const std::vector<int64_t>& trips) const {
    const Instruction& instruction = operation.instruction;
    Prepared result{.operation = &operation, .fields = instruction};
    for (const Access& access : isa::accesses(instruction, chip_)) {
      if (!has_marks(access.resource) || isa::is_forwarding_register(access.resource)) continue;
      Cells cells = cells_of(access);
      if (!access.write || cells.may_not_write) result.reads.push_back(cells);
      if (access.write) result.writes.push_back(std::move(cells));
    }
    for (const Operand& source : instruction.sources) {
      if (!is_forward(source.space)) continue;
      Cells cells{.memory = static_cast<int>(isa::hazard_resource(source.space).value()),
                  .length = words(source.width),
                  .cycles = isa::kCyclesPerStep};
      for (size_t c = 0; c < cells.begin.size(); ++c)
        cells.begin[c] = static_cast<int64_t>(c) * kRegisterWords;
      result.reads.push_back(std::move(cells));
    }
    for_each_operand(instruction, [&](const Operand& operand, bool) {
      if (operand.space != Space::kVirtual && !is_forward(operand.space))
        result.shared.push_back({operand.base, operand.loop_strides});
    });
    strip(result.fields);
    result.kind = kind_of(instruction, trips);
    if (result.kind == Prepared::Kind::kSave || result.kind == Prepared::Kind::kRestore) {
      const Operand& l1bm =
          result.kind == Prepared::Kind::kSave ? instruction.destinations[0] : instruction.sources[0];
      result.row = {l1bm.base, l1bm.loop_strides};
      std::erase_if(result.writes, [](const Cells& cells) {
        return cells.memory == static_cast<int>(HazardResource::kTurnaround);
      });
    } else if (result.kind == Prepared::Kind::kOther) {
      for (const Access& access : isa::accesses(instruction, chip_)) {
        if (!access.write || !isa::is_forwarding_register(access.resource)) continue;
        const int memory = static_cast<int>(access.resource);
        result.writes.push_back(
            {.memory = memory,
             .length = static_cast<int64_t>(memories_[static_cast<size_t>(memory)].size())});
      }
    }
    return result;
  }

  /// Leaves what must be the same on both sides: all but where values are.
  static void strip(Instruction& instruction) {
    const auto strip_mask = [](isa::Mask& mask) {
      if (mask.kind == isa::Mask::Kind::kVirtual) mask.virtual_value = 0;
    };
    strip_mask(instruction.zero_flush);
    for_each_operand(instruction, [&](Operand& operand, bool) {
      strip_mask(operand.mask);
      operand.loop_strides.clear();
      if (is_matrix(operand.space)) operand.space = Space::kMatX;
      if (operand.space == Space::kVirtual) {
        operand.value = 0;
        operand.stride = 0;
        operand.flat = false;
        operand.flat_addresses = {};
        operand.base = 0;
      } else if (!is_forward(operand.space)) {
        operand.base = 0;  // `shared` has it
      }
    });
  }

  Prepared::Kind kind_of(const Instruction& instruction, const std::vector<int64_t>& trips) const {
    using Kind = Prepared::Kind;
    if (instruction.sources.size() != 1 || instruction.destinations.size() != 1 ||
        instruction.zero_flush.kind != isa::Mask::Kind::kNone)
      return Kind::kOther;
    const Operand& from = instruction.sources[0];
    const Operand& to = instruction.destinations[0];
    if (!is_plain(from) || !is_plain(to)) return Kind::kOther;
    if (instruction.opcode == isa::Opcode::kPassa && instruction.precision == isa::Precision::kLong &&
        from.width != Width::kWord) {
      const bool to_memory = is_word_memory(to) && to.width == from.width;
      const bool reads = is_word_memory(from) || from.space == Space::kAluf;
      return reads && (to_memory || to.space == Space::kNoWrite) ? Kind::kCopy : Kind::kOther;
    }
    if (instruction.opcode != isa::Opcode::kL1bmd || instruction.rotation != 0) return Kind::kOther;
    const bool saves = is_word_memory(from) && to.space == Space::kL1bm;
    const bool restores = from.space == Space::kL1bm && is_word_memory(to);
    if ((!saves && !restores) || (saves ? from : to).width != Width::kLong) return Kind::kOther;
    for (const Access& access : isa::accesses(instruction, chip_)) {
      if (access.resource != HazardResource::kL1bm) continue;
      if (boost::icl::intersects(shared_l1bm_, reached(access, trips))) return Kind::kOther;
    }
    return saves ? Kind::kSave : Kind::kRestore;
  }

  void put(const Cells& cells, const std::vector<Mark>& data) {
    size_t k = 0;
    for_each_mark(cells, [&](Mark& mark) { mark = data.at(k++); });
  }
  /// What passes the ALU stays in its forwarding register.
  void put_forward(const std::vector<Mark>& data) {
    std::vector<Mark>& forward = memories_[static_cast<size_t>(HazardResource::kAluForward)];
    std::ranges::fill(forward, kNothing);
    const size_t width = data.size() / isa::kCyclesPerStep;
    for (size_t k = 0; k < data.size(); ++k) forward.at(k / width * kRegisterWords + k % width) = data[k];
  }
  /// Data of this side alone have passed through it.
  void forget(HazardResource resource) {
    for (Mark& mark : memories_[static_cast<size_t>(resource)]) mark = unknown_--;
  }

  int64_t row(const Prepared& prepared, size_t cycle) const {
    return prepared.row.base + shift(prepared.row.strides, counters_) +
           static_cast<int64_t>(cycle) * chip_.pe_per_l1b();
  }
  /// An LW of every PE.
  void save_row(int64_t address, const std::array<Mark, 2>& data) {
    const int64_t length = chip_.pe_per_l1b();
    rows_.erase(rows_.upper_bound(address - length), rows_.lower_bound(address + length));
    rows_[address] = data;
  }

  const MachineProgram& program_;
  const isa::Chip& chip_;
  bool has_places_;
  std::vector<std::vector<Mark>> memories_;  ///< by HazardResource, then the values that have no places
  std::vector<int64_t> trips_;
  std::vector<Item> items_;
  size_t at_ = 0;
  std::vector<int64_t> counters_;
  WordSet shared_l1bm_;
  std::map<int64_t, std::array<Mark, 2>> rows_;
  Mark unknown_ = ~Mark{0};  ///< marks that nothing on the other side has
};

// ---- both ------------------------------------------------------------------------------------------------

class Lockstep {
 public:
  Lockstep(const LockstepSides& sides, const isa::Chip& chip, std::string_view verifier)
      : sides_(sides),
        verifier_(verifier),
        before_(sides.before, chip, false),
        after_(sides.after, chip, sides.after_has_places) {
    const WordSet shared = before_.touched_l1bm();
    before_.share_l1bm(shared);
    after_.share_l1bm(shared);
  }

  void run() {
    for (;;) {
      isa::stop_if_cancelled();
      const Prepared* const left = next(before_);
      const Prepared* const right = next(after_);
      if (left == nullptr && right == nullptr) return;
      if (left == nullptr || right == nullptr)
        fail(fmt::format("'{}' is {}", text(left != nullptr ? *left : *right),
                         left != nullptr ? "missing" : "one too many"));
      check_fields(*left, *right);
      check_reads(*left, *right);
      write(*left, *right);
    }
  }

 private:
  static std::string text(const Prepared& prepared) {
    return describe(prepared.operation->instruction, prepared.operation->origin);
  }
  [[noreturn]] void fail(const std::string& what) const {
    verify::fail(verifier_, fmt::format("program '{}': {}", sides_.before.name, what));
  }

  static const Prepared* next(Side& side) {
    const Prepared* prepared = side.next();
    while (prepared != nullptr && side.execute_copy(*prepared)) prepared = side.next();
    return prepared;
  }

  void check_fields(const Prepared& left, const Prepared& right) {
    if (equal_.insert({left.operation, right.operation}).second &&
        (left.fields != right.fields || left.reads.size() != right.reads.size() ||
         left.writes.size() != right.writes.size()))
      fail(fmt::format("'{}' has become '{}', or another form of it", text(left), text(right)));
    for (size_t k = 0; k < left.shared.size(); ++k) {
      if (left.shared[k].base + shift(left.shared[k].strides, before_.counters()) !=
          right.shared.at(k).base + shift(right.shared[k].strides, after_.counters()))
        fail(fmt::format("'{}' has another address", text(right)));
    }
  }

  void check_reads(const Prepared& left, const Prepared& right) {
    for (size_t k = 0; k < left.reads.size(); ++k) {
      found_.clear();
      after_.for_each_mark(right.reads[k], [&](Mark mark) { found_.push_back(mark); });
      size_t w = 0;
      before_.for_each_mark(left.reads[k], [&](Mark expected) {
        if (w >= found_.size() || (expected != kNothing && expected != found_[w]))
          fail(fmt::format("'{}' reads data of other origin, word {} of what it reads as number {}",
                           text(right), w, k));
        ++w;
      });
      if (w != found_.size()) fail(fmt::format("'{}' reads other words", text(right)));
    }
  }

  void write(const Prepared& left, const Prepared& right) {
    const Mark first = ++operations_ << kWordBits;
    for (Side* const side : {&before_, &after_}) {
      Mark mark = first;
      for (const Cells& cells : (side == &before_ ? left : right).writes)
        side->for_each_mark(cells, [&](Mark& own) { own = mark++; });
    }
  }

  LockstepSides sides_;
  std::string_view verifier_;
  Side before_;
  Side after_;
  std::set<std::pair<const Operation*, const Operation*>> equal_;
  Mark operations_ = 0;
  std::vector<Mark> found_;
};

}  // namespace

void run_in_lockstep(const LockstepSides& sides, const isa::Chip& chip, std::string_view verifier) {
  Lockstep(sides, chip, verifier).run();
}

}  // namespace kodama::verify
