#include <algorithm>

#include "isa/error.h"
#include "simulator/golden/golden_arithmetic.h"
#include "simulator/golden/golden_machine.h"
#include "simulator/golden/golden_names.h"

/// Transfers (section 6): what an MV reads and writes.
namespace kodama::simulator::golden {

std::vector<uint64_t>& GoldenMachine::mv_memory(Space space, int group, int l2b) {
  if (space == Space::kPdm) return groups_[group].pdm;
  if (space == Space::kL2bm) return groups_[group].l2bs[l2b].l2bm;
  return groups_[group].dram;
}

int64_t GoldenMachine::mv_address(const Instruction& mv, const Operand& side, int group, int64_t base,
                                  int64_t i) {
  if (side.space != Space::kDramIndirect) return base + i;
  const int64_t n = std::max(mv.indirect_n, 1);
  const int64_t entry = modulo(base + i / 16 / n, chip_.memory.dar_entries);
  return 16 * int64_t{groups_[group].dar[static_cast<size_t>(entry)]} + i / 16 % n * 16 + i % 16;
}

void GoldenMachine::run_mv(const Instruction& mv, const std::vector<int64_t>& counters) {
  if (mv.opcode == Opcode::kMvnop) return;
  const Operand& source = mv.sources[0];
  const Operand& destination = mv.destinations[0];
  const int64_t from = isa::resolved_base(source, counters);
  const int64_t to = isa::resolved_base(destination, counters);
  const int groups = chip_.groups;
  const int per_group = chip_.l2b_per_group;
  const int l2bs = chip_.l2b_count();
  const int64_t n = mv.size_lw;
  if (n > chip_.longest_transfer_lw())
    throw isa::UserError(fmt::format("'{}' of {} LW; the DRAM of the chip has {}", isa::mnemonic(mv), n,
                                     chip_.longest_transfer_lw()));
  auto location = [&](const Operand& side, int64_t base, int group, int l2b, int64_t i) -> uint64_t& {
    std::vector<uint64_t>& memory = mv_memory(side.space, group, l2b);
    const int64_t address = mv_address(mv, side, group, base, i);
    if (address < 0 || address >= static_cast<int64_t>(memory.size())) {
      throw isa::UserError(
          fmt::format("'{}' touches LW {} of a memory of {}", isa::mnemonic(mv), address, memory.size()));
    }
    return memory[static_cast<size_t>(address)];
  };
  auto in = [&](int group, int l2b, int64_t i) { return location(source, from, group, l2b, i); };
  std::vector<std::pair<uint64_t*, uint64_t>> writes;
  auto out = [&](int group, int l2b, int64_t i, uint64_t value) {
    writes.emplace_back(&location(destination, to, group, l2b, i), value);
  };
  const int sg = std::max<int>(source.group, 0);
  const int dg = std::max<int>(destination.group, 0);
  const int sl = std::max<int>(source.unit, 0);
  const int dl = std::max<int>(destination.unit, 0);
  for (int64_t i = 0; i < n; ++i) {
    // Units of 16 LW, dealt to `parts` memories in turn.
    auto part = [&](int parts) { return static_cast<int>(i / 16 % parts); };
    auto inner = [&](int parts) { return i / 16 / parts * 16 + i % 16; };
    switch (mv.opcode) {
      case Opcode::kMvp:
        if (source.group < 0 && destination.group < 0) {
          for (int g = 0; g < groups; ++g) out(g, dl, i, in(g, sl, i));
        } else {
          out(dg, dl, i, in(sg, sl, i));
        }
        break;
      case Opcode::kMvb:
        for (int q = 0; q < l2bs; ++q) out(q / per_group, q % per_group, i, in(sg, 0, i));
        break;
      case Opcode::kMvb2:
        for (int q = 0; q < l2bs; ++q) out(q / per_group, q % per_group, i, in(q / per_group, 0, i));
        break;
      case Opcode::kMvb4:
        for (int q = 0; q < l2bs; ++q)
          out(q / per_group, q % per_group, i, in(part(groups), 0, inner(groups)));
        break;
      case Opcode::kMvd:
        if (destination.space == Space::kPdm) {
          if (source.space == Space::kL2bm) {
            out(dg, 0, i, in(part(l2bs) / per_group, part(l2bs) % per_group, inner(l2bs)));
          } else {
            out(dg, 0, i, in(part(groups), 0, inner(groups)));
          }
        } else if (destination.space == Space::kL2bm) {
          out(part(l2bs) / per_group, part(l2bs) % per_group, inner(l2bs), in(sg, 0, i));
        } else {
          out(part(groups), 0, inner(groups), in(sg, 0, i));
        }
        break;
      case Opcode::kMvr: {
        std::vector<uint64_t> stage;
        for (int g = 0; g < groups; ++g) {
          std::vector<uint64_t> pair;
          for (int l = 0; l < per_group; ++l) pair.push_back(in(g, l, i));
          stage.push_back(reduce(pair, mv.reduce_op, mv.precision));
        }
        out(dg, 0, i, reduce(stage, mv.reduce_op, mv.precision));
        break;
      }
      case Opcode::kMvr2:
        for (int g = 0; g < groups; ++g) {
          std::vector<uint64_t> pair;
          for (int l = 0; l < per_group; ++l) pair.push_back(in(g, l, i));
          out(g, 0, i, reduce(pair, mv.reduce_op, mv.precision));
        }
        break;
      case Opcode::kMvr4: {
        std::vector<uint64_t> values;
        for (int g = 0; g < groups; ++g) values.push_back(in(g, 0, i));
        out(part(groups), 0, inner(groups), reduce(values, mv.reduce_op, mv.precision));
        break;
      }
      default:
        throw isa::InternalError("internal error in the golden model: not an MV");
    }
  }
  for (const auto& [target, value] : writes) *target = value;
}

}  // namespace kodama::simulator::golden
