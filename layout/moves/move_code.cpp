#include "layout/moves/move_code.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "isa/arithmetic.h"
#include "isa/error.h"

namespace kodama::layout {
namespace {

using isa::FixedConstant;
using isa::Instruction;
using isa::Opcode;
using isa::Operand;
using isa::Precision;
using isa::Space;
using isa::Width;

/// Regions up to this part of a memory are taken where nothing has been before, if there is room.
constexpr int64_t kFreshShare = 4;

}  // namespace

Instruction make_instruction(Opcode opcode, Precision precision, std::vector<Operand> sources,
                             Operand destination) {
  Instruction instruction;
  instruction.opcode = opcode;
  instruction.precision = precision;
  instruction.sources = std::move(sources);
  instruction.destinations = {std::move(destination)};
  return instruction;
}

int64_t l2bmd_lw(const isa::Chip& chip) {
  return kDealLw * chip.l1b_per_l2b;
}

Space pe_space(Memory memory) {
  constexpr std::array<Space, 4> kSpaces{Space::kLm0, Space::kLm1, Space::kGrf0, Space::kGrf1};
  return kSpaces[static_cast<size_t>(memory)];
}

std::optional<Region> ScratchSpace::try_take(Memory memory, int64_t size, int64_t alignment) {
  // What was used longest ago: the less has to wait for what was there before.
  std::optional<int64_t> base;
  if (size <= memory_size_lw(memory, chip_) / kFreshShare) {
    for (size_t oldest = 0; !base && oldest < taken_.size(); ++oldest) {
      if (taken_[oldest].memory != memory && oldest > 0) continue;
      std::vector<Region> avoided = used_;
      avoided.insert(avoided.end(), taken_.begin() + static_cast<int64_t>(oldest), taken_.end());
      base = free_base(memory, size, alignment, avoided);
    }
  }
  if (!base) base = free_base(memory, size, alignment, used_);
  if (!base) return std::nullopt;
  const Region region{memory, *base, size};
  used_.push_back(region);
  taken_.push_back(region);
  return region;
}

bool ScratchSpace::is_fresh(const Region& region) const {
  const auto overlaps = [&](const Region& other) {
    return other.memory == region.memory && other.base < region.base + region.size &&
           region.base < other.base + other.size;
  };
  return std::ranges::count_if(taken_, overlaps) == 1 && std::ranges::none_of(reserved_, overlaps);
}

std::optional<int64_t> ScratchSpace::free_base(Memory memory, int64_t size, int64_t alignment,
                                               const std::vector<Region>& used) const {
  // From the end, where programs of people rarely have anything.
  int64_t base = (memory_size_lw(memory, chip_) - size) / alignment * alignment;
  while (base >= 0) {
    const auto clash = std::ranges::find_if(used, [&](const Region& region) {
      return region.memory == memory && base < region.base + region.size && region.base < base + size;
    });
    if (clash == used.end()) return base;
    const int64_t below = clash->base - size;
    if (below < 0) break;
    base = below / alignment * alignment;
  }
  return std::nullopt;
}

Region ScratchSpace::take(Memory memory, int64_t size, int64_t alignment) {
  if (const auto region = try_take(memory, size, alignment)) return *region;
  throw isa::UnsupportedError(
      fmt::format("no room for {} long words to work in {}: convert the tensor in parts, or keep less in {}",
                  size, memory_name(memory), memory_name(memory)));
}

int64_t ScratchSpace::largest_free(Memory memory) const {
  std::vector<std::pair<int64_t, int64_t>> used;
  for (const Region& region : used_) {
    if (region.memory == memory) used.emplace_back(region.base, region.base + region.size);
  }
  std::ranges::sort(used);
  int64_t largest = 0;
  int64_t end = 0;
  for (const auto& [first, last] : used) {
    largest = std::max(largest, first - end);
    end = std::max(end, last);
  }
  return std::max(largest, memory_size_lw(memory, chip_) - end);
}

void ScratchSpace::give_back(const Region& region) {
  const auto found = std::ranges::find_if(used_, [&](const Region& other) {
    return other.memory == region.memory && other.base == region.base && other.size == region.size;
  });
  if (found != used_.end()) used_.erase(found);
}

std::optional<int64_t> ScratchSpace::try_take_spread(Memory memory, int64_t size, int64_t distance,
                                                     int64_t count) {
  const int64_t all = memory_size_lw(memory, chip_);
  const auto is_free = [&](int64_t at) {
    return std::ranges::none_of(used_, [&](const Region& region) {
      if (region.memory != memory) return false;
      // Pieces may lie across the end of the memory.
      for (const int64_t begin : {at, at - all}) {
        if (begin < region.base + region.size && region.base < begin + size) return true;
      }
      return false;
    });
  };
  for (int64_t base = distance - 2; base >= 0; base -= 2) {
    bool fits = true;
    for (int64_t k = 0; k < count && fits; ++k) fits = is_free((base + k * distance) % all);
    if (!fits) continue;
    for (int64_t k = 0; k < count; ++k) {
      const int64_t at = (base + k * distance) % all;
      const Region piece{memory, at, std::min(size, all - at)};
      used_.push_back(piece);
      taken_.push_back(piece);
      if (piece.size == size) continue;
      const Region rest{memory, 0, size - piece.size};
      used_.push_back(rest);
      taken_.push_back(rest);
    }
    return base;
  }
  return std::nullopt;
}
void ScratchSpace::give_back_spread(Memory memory, int64_t base, int64_t size, int64_t distance,
                                    int64_t count) {
  const int64_t all = memory_size_lw(memory, chip_);
  for (int64_t k = 0; k < count; ++k) {
    const int64_t at = (base + k * distance) % all;
    give_back({memory, at, std::min(size, all - at)});
    if (at + size > all) give_back({memory, 0, at + size - all});
  }
}

std::vector<ScratchRange> ScratchSpace::ranges() const {
  std::vector<ScratchRange> sorted;
  for (const Region& region : taken_)
    sorted.push_back({region.memory, region.base, region.base + region.size});
  std::ranges::sort(sorted, {}, [](const ScratchRange& range) {
    return std::pair{static_cast<int>(range.memory), range.begin};
  });
  std::vector<ScratchRange> merged;
  for (const ScratchRange& range : sorted) {
    if (!merged.empty() && merged.back().memory == range.memory && range.begin <= merged.back().end) {
      merged.back().end = std::max(merged.back().end, range.end);
    } else {
      merged.push_back(range);
    }
  }
  return merged;
}

// ---- operands

Operand Code::pe(Memory memory, const std::array<int64_t, 4>& long_words, Width width, const isa::Chip& chip,
                 bool t_indirect) {
  Operand result;
  result.space = pe_space(memory);
  result.width = width;
  result.t_indirect = t_indirect;
  const int64_t words = 2 * memory_size_lw(memory, chip);
  std::array<int64_t, 4> at{};
  for (size_t c = 0; c < 4; ++c) at[c] = ((2 * long_words[c]) % words + words) % words;
  const int64_t step = at[1] - at[0];
  if (at[2] - at[1] == step && at[3] - at[2] == step && step >= 0) {
    result.base = at[0];
    result.stride = static_cast<int32_t>(step);
  } else {
    result.flat = true;
    for (size_t c = 0; c < 4; ++c) result.flat_addresses[c] = static_cast<int32_t>(at[c]);
  }
  return result;
}

Operand Code::t() {
  Operand result;
  result.space = Space::kT;
  return result;
}
Operand Code::constant(isa::FixedConstant constant) {
  Operand result;
  result.space = Space::kConstant;
  result.base = static_cast<int64_t>(constant);
  return result;
}
Operand Code::l1bm(int64_t address, bool wide) {
  Operand result;
  result.space = Space::kL1bm;
  result.base = address;
  result.width = wide ? Width::kDoubleLong : Width::kLong;
  return result;
}
Operand Code::l2bm(int64_t address, int group, int unit) {
  Operand result;
  result.space = Space::kL2bm;
  result.base = address;
  result.group = static_cast<int8_t>(group);
  result.unit = static_cast<int8_t>(unit);
  return result;
}

// ---- items

void Code::add(Instruction instruction) {
  const auto writes = [&](Space space) {
    return std::ranges::any_of(instruction.destinations,
                               [&](const Operand& each) { return each.space == space; });
  };
  const bool sets_t = writes(Space::kT);
  const bool sets_base1 = writes(Space::kBar1);
  const bool resets = sets_base1 && instruction.opcode == Opcode::kZero;
  PackedInstruction item(std::move(instruction));
  item.t = t_;
  item.has_base1 = has_base1_;
  item.base1 = base1_;
  items_.emplace_back(std::move(item));
  if (sets_t) t_ = nullptr;
  if (sets_base1) {
    has_base1_ = !resets;
    base1_ = nullptr;
  }
}
void Code::t_holds(std::vector<int64_t> longs) {
  t_ = std::make_shared<const std::vector<int64_t>>(std::move(longs));
}
void Code::base1_holds(std::vector<int64_t> longs) {
  base1_ = std::make_shared<const std::vector<int64_t>>(std::move(longs));
}

// ---- transfers

int8_t Code::transfer(Instruction mv) {
  const int8_t tag = next_tag_;
  next_tag_ = tag == isa::kMaxTransferTag ? int8_t{1} : static_cast<int8_t>(tag + 1);
  wait(tag);
  mv.tag = tag;
  under_way_.insert(tag);
  items_.emplace_back(std::move(mv));
  return tag;
}
void Code::wait(int8_t tag) {
  if (under_way_.erase(tag) > 0) items_.emplace_back(WaitFor{tag});
}
void Code::wait_all() {
  while (!under_way_.empty()) wait(*under_way_.begin());
}

// ---- ALU

void Code::alu(Opcode opcode, const Operand& x, const Operand& y, const Operand& destination) {
  add(make_instruction(opcode, Precision::kInt, {x, y}, destination));
}
void Code::load(uint32_t number, const Operand& destination) {
  Operand value;
  value.space = Space::kImmediate;
  value.base = number;
  Instruction imm = make_instruction(Opcode::kImm, Precision::kNone, value, destination);
  imm.immediate_kind = isa::ImmediateKind::kUnsigned;
  add(std::move(imm));
}
Operand Code::register_at(const Region& region) const {
  // One LW: the value is the same in all cycles.
  return pe(region.memory, {region.base, region.base, region.base, region.base}, Width::kLong, chip_);
}
Operand Code::new_register(Memory memory) {
  return register_at(scratch_.take(memory, 2));
}

void Code::begin_move() {
  early_ = here_;
  here_ = items_.size();
}

Operand Code::early_number(uint32_t number) {
  const Region region = scratch_.take(Memory::kGrf1, 2);
  const Operand place = register_at(region);
  load(number, place);
  // Before the move there may have been something else in the register.
  if (!scratch_.is_fresh(region)) return place;
  std::rotate(items_.begin() + static_cast<int64_t>(early_), std::prev(items_.end()), items_.end());
  ++early_;
  ++here_;
  return place;
}

Operand Code::field_sum(const std::vector<Field>& fields) {
  const Operand sum = new_register(Memory::kGrf0);
  field_sum_to(fields, sum);
  return sum;
}
void Code::field_sum_to(const std::vector<Field>& fields, const Operand& destination) {
  const int lane_bits = std::countr_zero(static_cast<uint64_t>(lanes()));
  Operand sum;
  for (size_t k = 0; k < fields.size(); ++k) {
    Field field = fields[k];
    const bool is_last = k + 1 == fields.size();
    // All bits of the MAB have a constant of their own.
    if (field.constant == FixedConstant::kPeid && field.low == 2 && field.low + field.count == lane_bits) {
      field.constant = FixedConstant::kMabid;
      field.low = 0;
    }
    const int width = field.constant == FixedConstant::kPeid    ? lane_bits
                      : field.constant == FixedConstant::kMabid ? lane_bits - 2
                      : field.constant == FixedConstant::kL1bid
                          ? std::bit_width(static_cast<uint64_t>(chip_.l1b_per_l2b - 1))
                          : std::bit_width(static_cast<uint64_t>(chip_.l2b_count() - 1));
    const bool whole = field.low == 0 && field.count == width;
    const int shift = field.shift - field.low;
    const bool alone = is_last && k == 0;
    // Two registers of GRF0 can't be read in one step: fields after the first end in GRF1.
    const auto place = [&](bool done) {
      return done && alone ? destination : new_register(done && k > 0 ? Memory::kGrf1 : Memory::kGrf0);
    };
    Operand value = constant(field.constant);
    if (!whole) {
      const Operand bits = place(shift == 0);
      const Operand wanted = early_number(((uint32_t{1} << field.count) - 1) << field.low);
      alu(Opcode::kAnd, value, wanted, bits);
      value = bits;
    }
    if (shift != 0) {
      const Operand amount = early_number(static_cast<uint32_t>(std::abs(shift)));
      const Operand shifted = place(true);
      alu(shift > 0 ? Opcode::kLsl : Opcode::kLsr, value, amount, shifted);
      value = shifted;
    } else if (whole) {
      const Operand copy = place(true);
      add(make_instruction(Opcode::kPassa, Precision::kInt, value, copy));
      value = copy;
    }
    if (k == 0) {
      sum = value;
      continue;
    }
    const Operand total = is_last ? destination : new_register(Memory::kGrf0);
    alu(Opcode::kOr, sum, value, total);
    sum = total;
  }
}

int Code::new_mask() {
  if (next_mask_ >= isa::kMaskRegisters) {
    next_mask_ = 1;
    bit_masks_.clear();
  }
  return next_mask_++;
}

int Code::mask_of_bit(isa::FixedConstant which, int bit, bool value) {
  const std::array<int, 3> key{static_cast<int>(which), bit, value ? 1 : 0};
  if (const auto known = bit_masks_.find(key); known != bit_masks_.end()) return known->second;
  const int mask = new_mask();
  Operand flag;
  flag.space = Space::kOmr;
  flag.base = mask;
  const Operand wanted = new_register(Memory::kGrf1);
  load(uint32_t{1} << bit, wanted);
  if (value) {
    // The flag of `and` is set where the result is 0: of the inverted bit.
    const Operand inverted = new_register(Memory::kGrf0);
    add(make_instruction(Opcode::kNot, Precision::kInt, constant(which), inverted));
    alu(Opcode::kAnd, inverted, wanted, flag);
  } else {
    alu(Opcode::kAnd, constant(which), wanted, flag);
  }
  bit_masks_[key] = mask;
  return mask;
}

Operand Code::outside(Memory memory, int64_t address, int64_t group) {
  Operand result;
  result.space = memory == Memory::kDram ? Space::kDram : Space::kPdm;
  result.base = address;
  result.group = static_cast<int8_t>(group);
  return result;
}

// ---- lines

LineBuffer Code::line_buffer(int64_t lines) {
  const int64_t align = std::max<int64_t>(kLineGroup * lanes(), kBlockLw);
  const int64_t whole = isa::round_up(lines, kLineGroup);
  // Groups of four are read without lines in front.
  const int64_t front = whole == lines ? 0 : align;
  const Region region = scratch_.take(Memory::kL1bm, whole * lanes() + front, align);
  return {region, region.base + front};
}

std::set<int64_t> Code::deals(const std::vector<LineCopy>& lines) const {
  std::set<int64_t> numbers;
  for (const LineCopy& line : lines) {
    const int64_t first = line.line * lanes();
    for (int64_t number = first / kDealLw; number <= (first + lanes() - 1) / kDealLw; ++number)
      numbers.insert(number);
  }
  return numbers;
}
void Code::deal_up(const std::vector<LineCopy>& lines, int64_t l1bm_base, int64_t l2bm_base) {
  for (const int64_t number : deals(lines)) {
    add(make_instruction(Opcode::kL2bmd, Precision::kNone, l1bm(l1bm_base + number * kDealLw),
                         l2bm(l2bm_base + number * l2bmd_lw(chip_))));
  }
}
void Code::deal_down(const std::vector<LineCopy>& lines, int64_t l2bm_base, int64_t l1bm_base) {
  for (const int64_t number : deals(lines)) {
    add(make_instruction(Opcode::kL2bmd, Precision::kNone, l2bm(l2bm_base + number * l2bmd_lw(chip_)),
                         l1bm(l1bm_base + number * kDealLw)));
  }
}

void Code::lines_up(std::vector<LineCopy> lines, Memory memory, int64_t base_lw, bool t_indirect) {
  std::ranges::sort(lines, {}, &LineCopy::line);
  for (size_t k = 0; k < lines.size();) {
    const int64_t group = lines[k].line / kLineGroup;
    std::array<int64_t, 4> addresses;
    addresses.fill(lines[k].pe_address);
    for (; k < lines.size() && lines[k].line / kLineGroup == group; ++k)
      addresses[static_cast<size_t>(lines[k].line % kLineGroup)] = lines[k].pe_address;
    add(make_instruction(Opcode::kL1bmd, Precision::kNone,
                         pe(memory, addresses, Width::kLong, chip_, t_indirect),
                         l1bm(base_lw + kLineGroup * group * lanes())));
  }
}

void Code::lines_down(std::vector<LineCopy> lines, Memory memory, int64_t base_lw, int64_t offset, int mask,
                      bool t_indirect) {
  std::ranges::stable_sort(lines, {}, &LineCopy::line);
  // A line that is wanted at several addresses is read as often.
  std::vector<LineCopy> again;
  for (size_t k = 1; k < lines.size(); ++k) {
    if (lines[k].line == lines[k - 1].line) again.push_back(lines[k]);
  }
  if (!again.empty()) {
    const auto same = [](const LineCopy& x, const LineCopy& y) { return x.line == y.line; };
    lines.erase(std::unique(lines.begin(), lines.end(), same), lines.end());
    lines_down(std::move(again), memory, base_lw, offset, mask, t_indirect);
  }
  for (size_t k = 0; k < lines.size();) {
    const int64_t first = lines[k].line;
    size_t end = k;
    while (end < lines.size() && lines[end].line < first + 4) ++end;
    // The last line that is wanted comes in the last cycle; a line that nobody wants is overwritten by the
    // one after it.
    const int64_t start = lines[end - 1].line - 3;
    std::array<int64_t, 4> addresses{};
    size_t next = k;
    for (int64_t c = 0; c < 4; ++c) {
      while (lines[next].line < start + c) ++next;
      addresses[static_cast<size_t>(c)] = lines[next].pe_address;
    }
    Operand destination = pe(memory, addresses, Width::kLong, chip_, t_indirect);
    if (mask != 0) {
      destination.mask.kind = isa::Mask::Kind::kRegister;
      destination.mask.value = static_cast<uint8_t>(mask);
    }
    const int64_t size = chip_.memory.l1bm_lw;
    add(make_instruction(Opcode::kL1bmd, Precision::kNone,
                         l1bm(((base_lw + start * lanes() + offset) % size + size) % size), destination));
    k = end;
  }
}

void Code::copies(std::vector<std::pair<int64_t, int64_t>> pairs, Memory from, Memory to, bool t_indirect,
                  int mask) {
  std::ranges::sort(pairs);
  const auto emit = [&](std::vector<std::pair<int64_t, int64_t>>& list, Width width) {
    for (size_t k = 0; k < list.size(); k += 4) {
      std::array<int64_t, 4> targets{};
      std::array<int64_t, 4> sources{};
      for (size_t c = 0; c < 4; ++c) {
        // A last group that isn't full repeats its last copy.
        const auto& [target, source] = list[std::min(k + c, list.size() - 1)];
        targets[c] = target;
        sources[c] = source;
      }
      Operand destination = pe(to, targets, width, chip_);
      if (mask != 0) {
        destination.mask.kind = isa::Mask::Kind::kRegister;
        destination.mask.value = static_cast<uint8_t>(mask);
        destination.mask.double_long = width == Width::kDoubleLong;
      }
      add(make_instruction(Opcode::kPassa, Precision::kLong, pe(from, sources, width, chip_, t_indirect),
                           std::move(destination)));
    }
  };
  std::vector<std::pair<int64_t, int64_t>> wide;
  std::vector<std::pair<int64_t, int64_t>> narrow;
  for (size_t k = 0; k < pairs.size(); ++k) {
    const auto& [target, source] = pairs[k];
    if (!t_indirect && target % 2 == 0 && source % 2 == 0 && k + 1 < pairs.size() &&
        pairs[k + 1] == std::pair{target + 1, source + 1}) {
      wide.push_back(pairs[k]);
      ++k;
    } else {
      narrow.push_back(pairs[k]);
    }
  }
  emit(wide, Width::kDoubleLong);
  emit(narrow, Width::kLong);
}

}  // namespace kodama::layout
