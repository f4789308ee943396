#include "layout/moves/masked_writes.h"

#include <algorithm>
#include <bit>
#include <set>
#include <unordered_set>

namespace kodama::layout {
namespace {

using isa::FixedConstant;
using isa::Instruction;
using isa::Opcode;
using isa::Operand;
using isa::Precision;
using isa::Space;
using isa::Width;

Operand mask_destination(int mask) {
  Operand flag;
  flag.space = Space::kOmr;
  flag.base = mask;
  return flag;
}
isa::Mask mask_use(int mask) {
  isa::Mask use;
  use.kind = isa::Mask::Kind::kRegister;
  use.value = static_cast<uint8_t>(mask);
  return use;
}

/// The parts of a PE's number: each has as many bits as its count needs.
struct NumberBits {
  int lane = 0;
  int l1b = 0;
  explicit NumberBits(const isa::Chip& chip)
      : lane(bits_for(chip.pe_per_l1b())), l1b(bits_for(chip.l1b_per_l2b)) {}
  int64_t of(int64_t pe, const isa::Chip& chip) const {
    const int64_t lanes = chip.pe_per_l1b();
    const int64_t l1b_number = pe / lanes;
    return (l1b_number / chip.l1b_per_l2b << (lane + l1b)) | (l1b_number % chip.l1b_per_l2b << lane) |
           pe % lanes;
  }
};

}  // namespace

PePlace pe_place(const Coordinates& at, const isa::Chip& chip) {
  return {pe_number(at, chip), at[Level::kAddress], at[Level::kWord]};
}

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

int64_t MaskedWrites::everything() const {
  const NumberBits bits(code_.chip());
  return (int64_t{1} << (bits.lane + bits.l1b + bits_for(code_.chip().l2b_count()))) - 1;
}

void MaskedWrites::tell_apart(const std::vector<int64_t>& pes) {
  const NumberBits bits(code_.chip());
  int64_t different = 0;
  for (const int64_t pe : pes) different |= bits.of(pe, code_.chip()) ^ bits.of(pes[0], code_.chip());
  parts_ = 0;
  const int l2b = bits_for(code_.chip().l2b_count());
  for (const auto& [low, count] :
       {std::pair{0, bits.lane}, {bits.lane, bits.l1b}, {bits.lane + bits.l1b, l2b}}) {
    const int64_t part = ((int64_t{1} << count) - 1) << low;
    if ((different & part) != 0) *parts_ |= part;
  }
  if (*parts_ == 0) *parts_ = (int64_t{1} << bits.lane) - 1;
}

Operand MaskedWrites::number() {
  if (!number_) {
    const NumberBits bits(code_.chip());
    const int64_t parts = parts_.value_or(everything());
    std::vector<Code::Field> fields;
    const auto add = [&](FixedConstant constant, int count, int low) {
      if (count > 0 && (parts >> low & 1) != 0) fields.push_back({constant, 0, count, low});
    };
    add(FixedConstant::kPeid, bits.lane, 0);
    add(FixedConstant::kL1bid, bits.l1b, bits.lane);
    add(FixedConstant::kL2bid, bits_for(code_.chip().l2b_count()), bits.lane + bits.l1b);
    // The constant itself where one is enough.
    const bool one = fields.size() == 1 && fields[0].shift == 0;
    number_ = one ? Code::constant(fields[0].constant) : code_.field_sum(fields);
  }
  return *number_;
}

int MaskedWrites::mask_of_pe(int64_t pe, uint32_t words) {
  const int64_t parts = parts_.value_or(everything());
  return mask(NumberBits(code_.chip()).of(pe, code_.chip()) & parts, parts, words);
}

/// A long word that is zero in the elements that are wanted, nonzero in the others.
Operand MaskedWrites::word_selector(uint32_t words) {
  const auto known = selectors_.find(words);
  if (known != selectors_.end()) return known->second;
  uint64_t value = 0;
  for (int bit = 0, word = 64 / element_bits_ - 1; bit < 64; bit += element_bits_, --word) {
    if ((words >> word & 1) == 0) value |= (element_bits_ == 16 ? uint64_t{0xffff} : 0xffffffff) << bit;
  }
  const Operand upper = code_.new_register(Memory::kGrf0);
  const Operand lower = code_.new_register(Memory::kGrf0);
  const Operand shifted = code_.new_register(Memory::kGrf1);
  const Operand half = code_.new_register(Memory::kGrf1);
  const Operand result = code_.new_register(Memory::kGrf0);
  const auto load_upper = [&](uint32_t number, const Operand& destination) {
    Operand immediate;
    immediate.space = Space::kImmediate;
    immediate.base = number;
    Instruction load = make_instruction(Opcode::kImm, Precision::kNone, immediate, destination);
    load.unsigned_op = true;
    load.immediate_kind = isa::ImmediateKind::kUnsigned;
    code_.add(std::move(load));
  };
  load_upper(static_cast<uint32_t>(value >> 32), upper);
  load_upper(static_cast<uint32_t>(value), lower);
  code_.load(32, half);
  code_.add(make_instruction(Opcode::kBsl, Precision::kLong, {lower, half}, shifted));
  code_.add(make_instruction(Opcode::kOr, Precision::kLong, {upper, shifted}, result));
  selectors_[words] = result;
  return result;
}

int MaskedWrites::mask(int64_t value, int64_t care, uint32_t words) {
  const int first = code_.new_mask();
  const uint32_t all_words = (1U << (64 / element_bits_)) - 1;
  const Operand selector = words == all_words ? Operand{} : word_selector(words);
  const Operand id = number();
  // Several, so that one can be made while another is used.
  if (wanted_.empty()) {
    for (int k = 0; k < 4; ++k) wanted_.push_back(code_.new_register(Memory::kGrf1));
  }
  const Operand& wanted = wanted_[next_wanted_++ % wanted_.size()];
  code_.load(static_cast<uint32_t>(value), wanted);
  if (care == parts_.value_or(everything())) {
    code_.alu(Opcode::kXor, id, wanted, mask_destination(first));
  } else {
    if (pool_.empty()) {
      for (int k = 0; k < 4; ++k) pool_.push_back(code_.new_register(Memory::kGrf0));
    }
    const Operand& difference = pool_[next_++ % pool_.size()];
    code_.alu(Opcode::kXor, id, wanted, difference);
    code_.load(static_cast<uint32_t>(care), Code::t());
    code_.alu(Opcode::kAnd, difference, Code::t(), mask_destination(first));
  }
  if (words == all_words) return first;
  const int second = code_.new_mask();
  Operand flags = mask_destination(second);
  flags.mask = mask_use(first);
  code_.add(make_instruction(Opcode::kPassa, element_bits_ == 16 ? Precision::kShort : Precision::kInt,
                             selector, flags));
  return second;
}

void MaskedWrites::write(const Operand& source, Memory memory, const std::array<int64_t, 4>& addresses,
                         int mask) {
  Operand destination = Code::pe(memory, addresses, Width::kLong, code_.chip());
  if (mask != 0) destination.mask = mask_use(mask);
  code_.add(make_instruction(Opcode::kPassa, Precision::kLong, source, destination));
}

void MaskedWrites::write_turned(const Operand& source, const Operand& amount, Memory memory,
                                const std::array<int64_t, 4>& addresses, int mask) {
  Operand destination = Code::pe(memory, addresses, Width::kLong, code_.chip());
  if (mask != 0) destination.mask = mask_use(mask);
  code_.add(make_instruction(Opcode::kBsl, Precision::kLong, {source, amount}, destination));
}

void MaskedWrites::fill(const std::vector<PePlace>& places, const std::vector<PePlace>& elements,
                        Memory memory, uint64_t pattern) {
  if (places.empty()) return;
  const NumberBits bits(code_.chip());
  const int word_bits = bits_for(64 / element_bits_);
  const int number_bits = bits.lane + bits.l1b + bits_for(code_.chip().l2b_count());
  // A place as a number: the PE's, then the element of the long word.
  const auto key = [&](const PePlace& place) {
    return bits.of(place.pe, code_.chip()) << word_bits | place.word;
  };
  std::map<int64_t, std::vector<int64_t>> wanted;
  std::map<int64_t, std::vector<int64_t>> forbidden;
  for (const PePlace& place : places) wanted[place.address].push_back(key(place));
  for (const PePlace& place : elements) {
    if (wanted.contains(place.address)) forbidden[place.address].push_back(key(place));
  }
  // Addresses with the same places go together.
  std::map<std::pair<std::vector<int64_t>, std::vector<int64_t>>, std::vector<int64_t>> alike;
  for (auto& [address, keys] : wanted) {
    std::vector<int64_t>& others = forbidden[address];
    std::ranges::sort(keys);
    std::ranges::sort(others);
    alike[{keys, others}].push_back(address);
  }

  // The pattern in a register: equal words unless it is of doubles, whose lower word is 0.
  const Operand value = code_.new_register(Memory::kGrf1);
  {
    Operand immediate;
    immediate.space = Space::kImmediate;
    immediate.base = static_cast<int64_t>(pattern >> 32);
    Instruction load = make_instruction(Opcode::kImm, Precision::kNone, immediate, value);
    load.unsigned_op = element_bits_ == 64;
    load.immediate_kind = isa::ImmediateKind::kUnsigned;
    code_.add(std::move(load));
  }
  const auto write_all = [&](const std::vector<int64_t>& addresses, int mask) {
    for (size_t k = 0; k < addresses.size(); k += 4) {
      std::array<int64_t, 4> four{};
      for (size_t c = 0; c < 4; ++c) four[c] = addresses[std::min(k + c, addresses.size() - 1)];
      write(value, memory, four, mask);
    }
  };
  for (const auto& [sets, addresses] : alike) {
    const auto& [keys, others] = sets;
    if (others.empty()) {
      write_all(addresses, 0);
      continue;
    }
    const std::unordered_set<int64_t> not_these(others.begin(), others.end());
    std::set<int64_t> left(keys.begin(), keys.end());
    while (!left.empty()) {
      // The largest cube around the first place that holds no element, bit by bit from the top.
      const int64_t corner = *left.begin();
      std::vector<int64_t> cube{corner};
      int64_t care = (int64_t{1} << (number_bits + word_bits)) - 1;
      for (int bit = number_bits + word_bits - 1; bit >= 0; --bit) {
        const bool free = std::ranges::none_of(
            cube, [&](int64_t each) { return not_these.contains(each ^ int64_t{1} << bit); });
        if (!free) continue;
        care &= ~(int64_t{1} << bit);
        const size_t size = cube.size();
        for (size_t k = 0; k < size; ++k) cube.push_back(cube[k] ^ int64_t{1} << bit);
      }
      uint32_t words = 0;
      for (const int64_t each : cube) {
        words |= 1U << (each & ((1 << word_bits) - 1));
        left.erase(each);
      }
      write_all(addresses, mask(corner >> word_bits, care >> word_bits, words));
    }
  }
}

}  // namespace kodama::layout
