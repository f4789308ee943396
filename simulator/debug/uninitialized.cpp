#include "simulator/debug/uninitialized.h"

#include <algorithm>
#include <map>
#include <unordered_map>

#include "assembler/assembler.h"
#include "isa/costs.h"
#include "isa/error.h"
#include "simulator/debug_text.h"

namespace kodama::simulator {
namespace {

using isa::HazardResource;
using isa::Instruction;
using isa::Operand;
using isa::Space;

/// One bit per unit, for memories of any size: only touched pieces take memory.
class BitMap {
 public:
  bool get(int64_t at) const {
    const auto piece = pieces_.find(at / kPiece);
    return piece != pieces_.end() && piece->second[static_cast<size_t>(at % kPiece)];
  }
  void set(int64_t at) {
    std::vector<bool>& piece = pieces_[at / kPiece];
    if (piece.empty()) piece.resize(kPiece);
    piece[static_cast<size_t>(at % kPiece)] = true;
  }

 private:
  static constexpr int64_t kPiece = 4096;
  std::unordered_map<int64_t, std::vector<bool>> pieces_;
};

/// The memory behind a resource of the cost tables.
Space space_of(HazardResource resource) {
  switch (resource) {
    case HazardResource::kL1bm:
      return Space::kL1bm;
    case HazardResource::kL2bm:
      return Space::kL2bm;
    case HazardResource::kDram:
      return Space::kDram;
    case HazardResource::kPdm:
      return Space::kPdm;
    case HazardResource::kDar:
      return Space::kDar;
    case HazardResource::kTurnaround:
      return Space::kTurnaround;
    default:
      return Space::kNone;  // of a PE: looked at operand by operand
  }
}

}  // namespace

class InitializationTracker::Impl {
 public:
  explicit Impl(const Machine& machine) : machine_(machine), chip_(machine.chip()) {}

  void before(const isa::Statement& statement) {
    line_ = statement.line;
    std::visit([&](const auto& kind) { look(kind); }, statement.kind);
  }

  std::vector<std::string> reports() const {
    std::vector<std::string> result;
    for (const auto& [key, report] : reports_) {
      std::string text = fmt::format("line {}: {} reads {}, which nothing has written: {}", std::get<0>(key),
                                     std::get<1>(key), std::get<2>(key), report.first);
      if (report.count > 1) text += fmt::format(" and {} more", report.count - 1);
      result.push_back(std::move(text));
    }
    return result;
  }

 private:
  struct Report {
    std::string first;
    int64_t count = 0;
  };

  // --- what is written ----------------------------------------------------------------------------------

  static int64_t unit_count(Space space, const isa::Chip& chip) {
    switch (space) {
      case Space::kMatX:
      case Space::kMatY:
        return 16;  // rows
      case Space::kOmr:
        return chip.memory.mask_entries;
      case Space::kT:
        return isa::kCyclesPerStep;
      case Space::kAluf:
      case Space::kMauf:
      case Space::kLbf:
      case Space::kMreadf:
      case Space::kTurnaround:
        return 1;
      default:
        return space_size(space, chip);
    }
  }
  /// Number of a place among those of its memory.
  int64_t place_number(Space space, const Place& place) const {
    const std::array<int, 5> counts{chip_.groups, chip_.l2b_per_group, chip_.l1b_per_l2b, chip_.mab_per_l1b,
                                    isa::kPePerMab};
    const std::array<int, 5> at{place.group, place.l2b, place.l1b, place.mab, place.pe};
    int64_t number = 0;
    for (size_t level = 0; level < static_cast<size_t>(space_levels(space)); ++level)
      number = number * counts[level] + at[level];
    return number;
  }
  int64_t bit(Space space, const Place& place, int64_t unit) const {
    return place_number(space, place) * unit_count(space, chip_) + unit;
  }
  void write(Space space, const Place& place, int64_t unit) { written_[space].set(bit(space, place, unit)); }
  void read(Space space, const Place& place, int64_t unit, const std::string& reader,
            const std::string& operand) {
    if (written_[space].get(bit(space, place, unit))) return;
    Report& report = reports_[{line_, reader, operand}];
    if (report.count++ == 0)
      report.first = fmt::format("{}({},{})", dump_name(space), place_text(space, place), unit);
  }

  template <typename Visit>
  void for_each_pe(Visit&& visit) const {
    for_each_place(Space::kLm0, {-1, -1, -1, -1, -1}, chip_, visit);
  }

  // --- operands of PEs ------------------------------------------------------------------------------------

  int mask_bits(const isa::Mask& mask, const Place& place, int cycle) const {
    int pattern = 15;
    if (mask.kind == isa::Mask::Kind::kNone) return 15;
    if (mask.kind == isa::Mask::Kind::kPattern) {
      pattern = mask.value;
    } else if (mask.value == 0) {
      return 15;
    } else if (mask.value < 16) {
      return static_cast<int>(machine_.read(Space::kOmr, place, mask.value * isa::kCyclesPerStep + cycle));
    } else {
      pattern = mask.value - 16;
    }
    return (pattern >> (3 - cycle) & 1) != 0 ? 15 : 0;
  }
  /// Whether the mask lets a part of word `w` of a result through.
  static bool passes(const isa::Mask& mask, int bits, int w) {
    if (mask.kind == isa::Mask::Kind::kNone || mask.double_long) return (bits >> (3 - w) & 1) != 0;
    return w < 2 && (bits >> (2 - 2 * w) & 3) != 0;
  }

  void read_operand(const Operand& operand, const std::string& reader) {
    const std::string name = assembler::print_operand(operand);
    const bool forwarded = operand.space == Space::kAluf || operand.space == Space::kMauf ||
                           operand.space == Space::kLbf || operand.space == Space::kMreadf;
    if (isa::is_pe_memory(operand.space)) {
      for_each_pe([&](const Place& place) {
        for (int c = 0; c < isa::kCyclesPerStep; ++c) {
          if (operand.t_indirect) read(Space::kT, place, c, reader, name + " (its T)");
          const int64_t address = machine_.operand_address(operand, place, c);
          for (int w = 0; w < words(operand.width); ++w)
            read(operand.space, place, address + w, reader, name);
        }
      });
    } else if (operand.space == Space::kT) {
      for_each_pe([&](const Place& place) {
        for (int c = 0; c < isa::kCyclesPerStep; ++c) read(Space::kT, place, c, reader, name);
      });
    } else if (forwarded) {
      for_each_pe([&](const Place& place) { read(operand.space, place, 0, reader, name); });
    }
  }
  void read_mask(const isa::Mask& mask, const std::string& reader) {
    if (mask.kind != isa::Mask::Kind::kRegister || mask.value == 0 || mask.value >= 16) return;
    for_each_pe([&](const Place& place) {
      read(Space::kOmr, place, mask.value, reader, fmt::format("$imr{}", mask.value));
    });
  }
  void write_operand(const Operand& operand, const isa::Mask& mask) {
    if (operand.space == Space::kNoWrite || operand.space == Space::kBar0 || operand.space == Space::kBar1)
      return;
    const bool is_memory = isa::is_pe_memory(operand.space);
    if (!is_memory && operand.space != Space::kT && operand.space != Space::kOmr) return;
    for_each_pe([&](const Place& place) {
      if (operand.space == Space::kOmr) {
        write(Space::kOmr, place, operand.base);
        return;
      }
      for (int c = 0; c < isa::kCyclesPerStep; ++c) {
        const int bits = mask_bits(mask, place, c);
        if (bits == 0) continue;
        if (operand.space == Space::kT) {
          write(Space::kT, place, c);
          continue;
        }
        const int64_t address = machine_.operand_address(operand, place, c);
        for (int w = 0; w < words(operand.width); ++w) {
          if (passes(mask, bits, w)) write(operand.space, place, address + w);
        }
      }
    });
  }

  /// Rows of a matrix register that an instruction uses: [first, end).
  static std::pair<int64_t, int64_t> matrix_rows(const Instruction& i, const Operand& operand,
                                                 bool is_write) {
    const int64_t rows = int64_t{4} * isa::lanes(i.precision);
    if (!is_write) return {0, std::min<int64_t>(rows, 16)};
    return {operand.base,
            std::min<int64_t>(operand.base + (operand.width == isa::Width::kDoubleLong ? 8 : 4), 16)};
  }
  void matrix(const Instruction& i, const Operand& operand, bool is_write, const std::string& reader) {
    // Not a structured binding: clang 14 can't capture one.
    const auto rows = matrix_rows(i, operand, is_write);
    for_each_place(operand.space, {-1, -1, -1, -1, -1}, chip_, [&](const Place& place) {
      for (int64_t row = rows.first; row < rows.second; ++row) {
        if (is_write) {
          write(operand.space, place, row);
        } else {
          read(operand.space, place, row, reader, assembler::print_operand(operand));
        }
      }
    });
  }

  // --- memories above the PEs: the cost tables know what is touched ---------------------------------------

  template <typename Visit>
  void for_each_unit(const Instruction& i, const isa::Access& access, Visit&& visit) const {
    const Space space = space_of(access.resource);
    if (space == Space::kNone) return;
    for_each_place(space, {-1, -1, -1, -1, -1}, chip_, [&](const Place& place) {
      const int levels = space_levels(space);
      if (access.place >= 0) {
        const int64_t number =
            levels == 1 ? place.group : int64_t{place.group} * chip_.l2b_per_group + place.l2b;
        if (number != access.place) return;
      }
      if (levels == 3 && !isa::is_in_l1b(access, i, place.l1b, chip_)) return;
      if (space == Space::kTurnaround) {
        visit(space, place, int64_t{0});
        return;
      }
      if (access.whole) return;  // run-time addresses of transfers: not followed
      const int64_t size = space_size(space, chip_);
      for (int c = 0; c < access.cycles; ++c) {
        for (int64_t k = 0; k < access.length; ++k)
          visit(space, place, (access.begin[static_cast<size_t>(c)] + k) % size);
      }
    });
  }

  void read_instruction(const Instruction& i) {
    const std::string reader = isa::mnemonic(i);
    for (const Operand& source : i.sources) {
      if (source.space == Space::kMatX || source.space == Space::kMatY) {
        matrix(i, source, false, reader);
      } else {
        read_operand(source, reader);
      }
    }
    for (const Operand& destination : i.destinations) {
      read_mask(destination.mask, reader);
      if (!destination.t_indirect) continue;
      for_each_pe([&](const Place& place) {
        for (int c = 0; c < isa::kCyclesPerStep; ++c)
          read(Space::kT, place, c, reader, assembler::print_operand(destination, true) + " (its T)");
      });
    }
    read_mask(i.zero_flush, reader);
    for (const isa::Access& access : isa::accesses(i, chip_)) {
      if (access.write) continue;
      for_each_unit(i, access, [&](Space space, const Place& place, int64_t unit) {
        read(space, place, unit, reader, std::string(isa::space_name(space)));
      });
    }
  }
  void write_instruction(const Instruction& i, bool own_masks, bool forwards) {
    for (const Operand& destination : i.destinations) {
      if (destination.space == Space::kMatX || destination.space == Space::kMatY) {
        matrix(i, destination, true, "");
      } else {
        write_operand(destination, own_masks ? destination.mask : block_mask(destination.space));
      }
    }
    for (const isa::Access& access : isa::accesses(i, chip_)) {
      if (!access.write) continue;
      const Space forward = access.resource == HazardResource::kAluForward     ? Space::kAluf
                            : access.resource == HazardResource::kMauForward   ? Space::kMauf
                            : access.resource == HazardResource::kLbForward    ? Space::kLbf
                            : access.resource == HazardResource::kMreadForward ? Space::kMreadf
                                                                               : Space::kNone;
      if (forward != Space::kNone) {
        if (forwards) for_each_pe([&](const Place& place) { write(forward, place, 0); });
        continue;
      }
      for_each_unit(i, access,
                    [&](Space space, const Place& place, int64_t unit) { write(space, place, unit); });
    }
  }
  isa::Mask block_mask(Space space) const {
    const int bit = isa::mask_statement_bit(space);
    if (bit >= 0 && (block_mask_.spaces >> bit & 1) != 0)
      return {isa::Mask::Kind::kRegister, block_mask_.entry, block_mask_.double_long, 0};
    return {};
  }

  // --- statements
  // -------------------------------------------------------------------------------------------

  void look(const isa::Step& step) {
    bool own_masks = false;
    bool forwards = true;
    for (const Instruction& i : step.instructions) {
      forwards = forwards && i.opcode != isa::Opcode::kNoForward;
      for (const Operand& destination : i.destinations)
        own_masks = own_masks || destination.mask.kind != isa::Mask::Kind::kNone;
    }
    for (const Instruction& i : step.instructions) read_instruction(i);
    for (const Instruction& i : step.instructions) write_instruction(i, own_masks, forwards);
  }
  void look(const isa::Mv& mv) {
    read_instruction(mv.instruction);
    write_instruction(mv.instruction, true, false);
  }
  void look(const isa::MaskControl& control) {
    block_mask_ = control;
    if (control.spaces != 0) read_mask({isa::Mask::Kind::kRegister, control.entry, false, 0}, "mask");
  }
  template <typename Visit>
  void debug_units(Space space, const std::array<int16_t, 5>& where, int64_t address, int64_t count,
                   Visit&& visit) {
    for_each_place(space, where, chip_, [&](const Place& place) {
      for (int64_t k = 0; k < count; ++k) {
        if (isa::is_pe_memory(space)) {
          visit(place, address + 2 * k);
          visit(place, address + 2 * k + 1);
        } else {
          // T has the upper halves of the four cycles first, then the lower ones.
          visit(place, space == Space::kT ? (address + k) % isa::kCyclesPerStep : address + k);
        }
      }
    });
  }
  void look(const isa::DebugGet& get) {
    debug_units(get.space, get.place, get.address, get.count,
                [&](const Place& place, int64_t unit) { read(get.space, place, unit, "d get", get.text); });
  }
  void look(const isa::DebugSet& set) {
    debug_units(set.space, set.place, set.address, static_cast<int64_t>(set.payload.size()),
                [&](const Place& place, int64_t unit) { write(set.space, place, unit); });
  }
  void look(const isa::DramPreload& preload) {
    Place place;
    place.group = preload.group;
    for (size_t i = 0; i < preload.payload.size(); ++i)
      write(Space::kDram, place, preload.address + static_cast<int64_t>(i));
  }
  void look(const isa::Nop&) {}
  void look(const isa::RegionMark&) {}
  void look(const isa::Quit&) {}
  void look(const isa::Loop&) {}  // its statements come one by one

  const Machine& machine_;
  const isa::Chip& chip_;
  std::map<Space, BitMap> written_;
  isa::MaskControl block_mask_;
  int line_ = 0;
  std::map<std::tuple<int, std::string, std::string>, Report> reports_;
};

InitializationTracker::InitializationTracker(const Machine& machine)
    : impl_(std::make_unique<Impl>(machine)) {}
InitializationTracker::~InitializationTracker() = default;
void InitializationTracker::before(const isa::Statement& statement) {
  impl_->before(statement);
}
std::vector<std::string> InitializationTracker::reports() const {
  return impl_->reports();
}

}  // namespace kodama::simulator
