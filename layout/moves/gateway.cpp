#include "layout/moves/gateway.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <map>
#include <set>

#include "isa/error.h"

namespace kodama::layout {
namespace {

using isa::Instruction;
using isa::Opcode;
using isa::Operand;
using isa::Precision;

int power_of(int64_t value) {
  return std::countr_zero(static_cast<uint64_t>(value));
}

class GatewayBuilder {
 public:
  GatewayBuilder(const BitView& view, const Placement& upper, const SlotState& others, const isa::Chip& chip,
                 bool is_exit)
      : view_(view), shape_(view.shape), others_(others), chip_(chip), is_exit_(is_exit) {
    gateway_.upper = upper;
    gateway_.slots = upper.slots;
    gateway_.l2b_bits.assign(static_cast<size_t>(shape_.l2b), -1);
  }

  std::optional<Gateway> run(std::string* why) {
    std::string reason;
    for (size_t k = 0; k < view_.bits.size(); ++k) {
      if ((view_.address_bits(gateway_.upper.slots) >> k & 1) != 0) address_.push_back(static_cast<int>(k));
    }
    std::ranges::sort(address_, {}, [&](int bit) { return stride(bit); });
    switch (gateway_.upper.memory) {
      case Memory::kL1bm:
        reason = from_l1bm();
        break;
      case Memory::kL2bm:
        reason = from_l2bm({});
        break;
      default:
        reason = from_group();
        break;
    }
    if (reason.empty()) return std::move(gateway_);
    if (why != nullptr) *why = std::move(reason);
    return std::nullopt;
  }

 private:
  int64_t stride(int bit) const { return gateway_.upper.stride[static_cast<size_t>(bit)]; }
  int8_t& lane(int k) { return gateway_.slots[static_cast<size_t>(shape_.first(Level::kPe) + k)]; }
  int64_t lanes() const { return int64_t{1} << shape_.lane_bits(); }

  std::string from_l1bm() {
    for (const int bit : address_) {
      if (is_power_of_two(stride(bit)) && stride(bit) < lanes() && lane(power_of(stride(bit))) == kNothing) {
        lane(power_of(stride(bit))) = static_cast<int8_t>(bit);
        continue;
      }
      if (is_exit_ && stride(bit) % lanes() != 0)
        return fmt::format("L1BM addresses count in steps of {}", stride(bit));
      gateway_.lines.emplace_back(bit, stride(bit));
    }
    return {};
  }

  /// `shared` are the strides of bits that the L2Bs share out: those above them move down.
  std::string from_l2bm(const std::vector<int64_t>& shared) {
    const int nb = shape_.l1b;
    if (shape_.lane_bits() < 3) return "fewer than 8 PEs in an L1B";
    const int64_t line_lw = lanes() << nb;
    for (const int bit : address_) {
      int64_t at = stride(bit);
      if (std::ranges::find(gateway_.l2b_bits, bit) != gateway_.l2b_bits.end()) continue;
      for (const int64_t each : shared) at >>= each < stride(bit) ? 1 : 0;
      if (at < line_lw) {
        if (!is_power_of_two(at))
          return fmt::format("{} addresses count in steps of {}", memory_name(gateway_.upper.memory),
                             stride(bit));
        const int power = power_of(at);
        int8_t& slot = power < 3 ? lane(power)
                       : power < 3 + nb
                           ? gateway_.slots[static_cast<size_t>(shape_.first(Level::kL1b) + power - 3)]
                           : lane(power - nb);
        if (slot != kNothing) return "two digits in one address bit";
        slot = static_cast<int8_t>(bit);
        continue;
      }
      if (at % line_lw != 0)
        return fmt::format("{} addresses count in steps of {}", memory_name(gateway_.upper.memory),
                           stride(bit));
      gateway_.lines.emplace_back(bit, at / line_lw);
    }
    return {};
  }

  std::string from_group() {
    const int unit_bits = power_of(chip_.l2b_per_group);
    for (int k = 0; k < unit_bits; ++k) {
      if (gateway_.slots[static_cast<size_t>(shape_.first(Level::kL2b) + k)] >= 0)
        return fmt::format("{} has digits over the L2Bs of a group", memory_name(gateway_.upper.memory));
      gateway_.slots[static_cast<size_t>(shape_.first(Level::kL2b) + k)] = kNothing;
    }
    std::vector<int64_t> shared;
    const bool powers = std::ranges::all_of(address_, [&](int bit) { return is_power_of_two(stride(bit)); });
    for (int k = 0; k < shape_.l2b; ++k) {
      const auto slot = static_cast<size_t>(shape_.first(Level::kL2b) + k);
      const int bit = others_[slot];
      if (!powers || bit < 0 || gateway_.slots[slot] != kNothing) continue;
      if (std::ranges::find(address_, bit) == address_.end() || stride(bit) < kBlockLw) continue;
      gateway_.slots[slot] = static_cast<int8_t>(bit);
      gateway_.l2b_bits[static_cast<size_t>(k)] = bit;
      shared.push_back(stride(bit));
    }
    return from_l2bm(shared);
  }

  const BitView& view_;
  const SlotShape& shape_;
  const SlotState& others_;
  const isa::Chip& chip_;
  bool is_exit_;
  std::vector<int> address_;
  Gateway gateway_;
};

class Emitter {
 public:
  Emitter(const BitView& view, const Gateway& gateway, const Placement& pe, Code& code)
      : view_(view), gateway_(gateway), pe_(pe), code_(code), chip_(code.chip()), shape_(view.shape) {
    for (const auto& [bit, stride] : gateway.lines) line_mask_ |= BitMask{1} << bit;
    for (const BitMask value : view.values(line_mask_)) {
      int64_t line = 0;
      for (const auto& [bit, stride] : gateway.lines) {
        if ((value >> bit & 1) != 0) line += stride;
      }
      lines_.push_back({line, address(pe, value)});
    }
    std::ranges::sort(lines_, {}, &LineCopy::line);
  }

  void entry() {
    if (gateway_.upper.memory == Memory::kL1bm) return l1bm_entry();
    windows(false);
  }
  void exit() {
    if (gateway_.upper.memory == Memory::kL1bm) {
      std::vector<LineCopy> lines = lines_;
      for (LineCopy& line : lines) line.line /= code_.lanes();
      code_.lines_up(std::move(lines), pe_.memory, 0);
      return;
    }
    windows(true);
  }

 private:
  void l1bm_entry() {
    // By the distance from a whole line.
    std::map<int64_t, std::vector<LineCopy>> by_offset;
    for (const LineCopy& line : lines_)
      by_offset[line.line % code_.lanes()].push_back({line.line / code_.lanes(), line.pe_address});
    for (auto& [offset, lines] : by_offset) code_.lines_down(std::move(lines), pe_.memory, 0, offset);
  }

  struct Buffers {
    LineBuffer l1bm;
    Region l2bm;
  };

  /// The lines in pieces that fit into L1BM (and L2BM); transfers of one piece run beside the steps of
  /// another.
  void windows(bool is_exit) {
    const bool staged = gateway_.upper.memory != Memory::kL2bm;
    const int64_t lanes = code_.lanes();
    const int64_t l2_line_lw = line_lw(Memory::kL2bm, chip_);
    int64_t most = std::bit_floor(static_cast<uint64_t>(chip_.memory.l1bm_lw / lanes / 2 - 16));
    if (staged) most = std::min(most, chip_.memory.l2bm_lw / l2_line_lw / 4);
    const int64_t all = lines_.back().line + 1;
    // Fewer lines at a time than there are: the first transfer is over sooner.
    int64_t window = std::clamp<int64_t>(
        std::bit_ceil(static_cast<uint64_t>((all + kLineGroup - 1) / kLineGroup)), 1, most);
    window = std::max<int64_t>(window, std::min<int64_t>(most, (kDealLw + lanes - 1) / lanes));
    const int64_t turns = all > window ? 2 : 1;
    std::vector<Buffers> buffers;
    for (int64_t k = 0; k < turns; ++k) {
      Buffers each;
      each.l1bm = code_.line_buffer(window);
      if (staged) {
        each.l2bm = code_.scratch().take(
            Memory::kL2bm, std::max({window * l2_line_lw, l2bmd_lw(chip_), kBlockLw}), kBlockLw);
      }
      buffers.push_back(each);
    }
    std::vector<std::vector<int8_t>> tags(static_cast<size_t>(turns));
    std::vector<std::pair<size_t, std::pair<int64_t, int64_t>>> loaded;  // of the way in
    const auto bring_down = [&] {
      const auto [turn, range] = loaded.front();
      loaded.erase(loaded.begin());
      for (const int8_t tag : tags[turn]) code_.wait(tag);
      tags[turn].clear();
      steps(buffers[turn], range.first, range.second, false);
    };
    size_t turn = 0;
    for (int64_t first = 0; first < all; first += window) {
      const int64_t last = std::min(first + window, all);
      const size_t k = turn++ % static_cast<size_t>(turns);
      if (is_exit) {
        for (const int8_t tag : tags[k]) code_.wait(tag);
        tags[k].clear();
        steps(buffers[k], first, last, true);
        if (staged) transfers(buffers[k], first, last, true, tags[k]);
        continue;
      }
      if (staged) {
        while (loaded.size() >= static_cast<size_t>(turns)) bring_down();
        transfers(buffers[k], first, last, false, tags[k]);
      }
      loaded.emplace_back(k, std::pair{first, last});
      if (!staged) bring_down();
    }
    while (!loaded.empty()) bring_down();
    code_.wait_all();
    for (const Buffers& each : buffers) {
      code_.give_back(each.l1bm);
      if (staged) code_.scratch().give_back(each.l2bm);
    }
  }

  /// Between L2BM and the PEs.
  void steps(const Buffers& buffer, int64_t first, int64_t last, bool is_exit) {
    const bool staged = gateway_.upper.memory != Memory::kL2bm;
    std::vector<LineCopy> own;
    for (const LineCopy& line : lines_) {
      if (line.line >= first && line.line < last) own.push_back({line.line - first, line.pe_address});
    }
    const int64_t l2_base = staged ? buffer.l2bm.base : first * line_lw(Memory::kL2bm, chip_);
    if (is_exit) {
      code_.lines_up(own, pe_.memory, buffer.l1bm.base);
      code_.deal_up(own, buffer.l1bm.base, l2_base);
    } else {
      code_.deal_down(own, l2_base, buffer.l1bm.base);
      code_.lines_down(own, pe_.memory, buffer.l1bm.base);
    }
  }

  /// Between DRAM or PDM and the L2BMs.
  void transfers(const Buffers& buffer, int64_t first, int64_t last, bool is_exit,
                 std::vector<int8_t>& tags) {
    const int64_t l2_line_lw = line_lw(Memory::kL2bm, chip_);
    // L2BM address of the window: without the bits that the L2Bs share out.
    std::vector<int64_t> shared;
    for (const int bit : gateway_.l2b_bits) {
      if (bit >= 0) shared.push_back(gateway_.upper.stride[static_cast<size_t>(bit)]);
    }
    std::ranges::sort(shared);
    // A run is as long as no shared bit is in it.
    const int64_t begin = first * l2_line_lw;
    const int64_t run =
        shared.empty() ? (last - first) * l2_line_lw : std::min(shared.front(), (last - first) * l2_line_lw);
    const int64_t end = std::min(last * l2_line_lw, l2_end());
    const int unit_bits = power_of(chip_.l2b_per_group);
    for (int64_t at = begin; at < end; at += run) {
      // The bits above each shared one move up.
      int64_t upper = at;
      for (const int64_t stride : shared) upper = upper / stride * stride * 2 + upper % stride;
      // Transfers move whole granules; what is behind the tensor is scratch.
      const int64_t size = (std::min(run, end - at) + kBlockLw - 1) / kBlockLw * kBlockLw;
      for (int64_t l2b = 0; l2b < chip_.l2b_count(); ++l2b) {
        int64_t group = 0;
        int64_t extra = 0;
        bool takes_part = true;
        BitMask value = 0;
        for (int k = 0; k < shape_.l2b; ++k) {
          const bool one = (l2b >> k & 1) != 0;
          const auto slot = static_cast<size_t>(shape_.first(Level::kL2b) + k);
          const int bit = gateway_.l2b_bits[static_cast<size_t>(k)];
          if (bit >= 0) {
            if (one) {
              extra += gateway_.upper.stride[static_cast<size_t>(bit)];
              value |= BitMask{1} << bit;
            }
          } else if (k >= unit_bits && gateway_.upper.slots[slot] != kNothing) {
            if (one) group |= int64_t{1} << (k - unit_bits);
          } else if (one) {
            takes_part = false;
          }
        }
        BitMask shared_mask = 0;
        for (const int bit : gateway_.l2b_bits) shared_mask |= bit >= 0 ? BitMask{1} << bit : 0;
        if (!takes_part || !view_.is_valid(value, shared_mask)) continue;
        const Operand outside = Code::outside(gateway_.upper.memory, upper + extra, group);
        const Operand inside =
            Code::l2bm(buffer.l2bm.base + at - begin, static_cast<int>(l2b / chip_.l2b_per_group),
                       static_cast<int>(l2b % chip_.l2b_per_group));
        Instruction mv = make_instruction(Opcode::kMvp, Precision::kNone, is_exit ? inside : outside,
                                          is_exit ? outside : inside);
        mv.size_lw = size;
        tags.push_back(code_.transfer(std::move(mv)));
      }
    }
  }

  /// The first L2BM address that nothing of the tensor comes to.
  int64_t l2_end() const {
    int64_t most = 0;
    BitMask all = view_.address_bits(gateway_.upper.slots);
    std::vector<int64_t> shared;
    for (const int bit : gateway_.l2b_bits) {
      if (bit < 0) continue;
      shared.push_back(gateway_.upper.stride[static_cast<size_t>(bit)]);
      all &= ~(BitMask{1} << bit);
    }
    std::vector<int64_t> strides = gateway_.upper.stride;
    for (int64_t& stride : strides) {
      const int64_t as_given = stride;
      for (const int64_t each : shared) stride >>= each < as_given ? 1 : 0;
    }
    most = view_.largest_sum(all, strides);
    return most + 1;
  }

  const BitView& view_;
  const Gateway& gateway_;
  const Placement& pe_;
  Code& code_;
  const isa::Chip& chip_;
  const SlotShape& shape_;
  BitMask line_mask_ = 0;
  std::vector<LineCopy> lines_;
};

}  // namespace

std::optional<Gateway> gateway(const BitView& view, const Placement& upper, const SlotState& others,
                               const isa::Chip& chip, bool is_exit, std::string* why) {
  return GatewayBuilder(view, upper, others, chip, is_exit).run(why);
}

void emit_entry(const BitView& view, const Gateway& gateway, const Placement& pe, Code& code) {
  Emitter(view, gateway, pe, code).entry();
}
void emit_exit(const BitView& view, const Gateway& gateway, const Placement& pe, Code& code) {
  Emitter(view, gateway, pe, code).exit();
}

int64_t upper_end(const BitView& view, const Gateway& gateway, const isa::Chip& chip) {
  const int64_t end = view.largest_sum(view.address_bits(gateway.upper.slots), gateway.upper.stride) + 1;
  const int64_t lanes = chip.pe_per_l1b();
  const int64_t granule = gateway.upper.memory == Memory::kL1bm ? 4 * lanes
                          : gateway.upper.memory == Memory::kL2bm
                              ? std::max(lanes, kDealLw) * chip.l1b_per_l2b
                              : kBlockLw;
  return (end + granule - 1) / granule * granule;
}

}  // namespace kodama::layout
