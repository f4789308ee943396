#include "isa/transfer_shape.h"

#include <fmt/format.h>

#include <algorithm>

#include "isa/error.h"

namespace kodama::isa {
namespace {

/// LW of `total` that fall to part `index` of `parts`, dealt out in units of 16 LW.
int64_t spread_part(int64_t total, int parts, int index) {
  const int64_t round = kSpreadUnit * parts;
  const int64_t rest = total % round - kSpreadUnit * index;
  return total / round * kSpreadUnit + std::clamp<int64_t>(rest, 0, kSpreadUnit);
}

class TransferShaper {
 public:
  TransferShaper(const Instruction& mv, const Chip& chip) : mv_(mv), chip_(chip), n_(mv.size_lw) {}

  TransferShape shape() {
    check_internal(info(mv_.opcode).group == IssueGroup::kMv, "transfer costs", "'{}' is not an MV",
                   mnemonic(mv_));
    if (mv_.opcode == Opcode::kMvnop) return {};
    const Operand& src = mv_.sources.at(0);
    const Operand& dst = mv_.destinations.at(0);
    switch (mv_.opcode) {
      case Opcode::kMvp:
        linear(src, dst);
        break;
      case Opcode::kMvb: {
        const int g = std::max<int>(src.group, 0);
        add(src, g, n_, false);
        for (int q = 0; q < chip_.l2b_count(); ++q) add(dst, q, n_, true);
        for (int h = 0; h < chip_.groups; ++h) path(g, h, n_);
        break;
      }
      case Opcode::kMvb2:
        for (const int g : groups_of(src)) {
          add(src, g, n_, false);
          for (const int q : l2bs_of(g)) add(dst, q, n_, true);
        }
        break;
      case Opcode::kMvb4:
        for (int g = 0; g < chip_.groups; ++g) {
          const int64_t part = spread_part(n_, chip_.groups, g);
          add(src, g, part, false);
          for (int h = 0; h < chip_.groups; ++h) path(g, h, part);
        }
        for (int q = 0; q < chip_.l2b_count(); ++q) add(dst, q, n_, true);
        break;
      case Opcode::kMvd: {
        const bool from_pdm = src.space == Space::kPdm;
        spread(from_pdm ? src : dst, from_pdm ? dst : src, from_pdm);
        break;
      }
      case Opcode::kMvr: {
        const int g = std::max<int>(dst.group, 0);
        for (int q = 0; q < chip_.l2b_count(); ++q) add(src, q, n_, false);
        add(dst, g, n_, true);
        for (int h = 0; h < chip_.groups; ++h) path(h, g, n_);
        break;
      }
      case Opcode::kMvr2:
        for (const int g : groups_of(dst)) {
          for (const int q : l2bs_of(g)) add(src, q, n_, false);
          add(dst, g, n_, true);
        }
        break;
      case Opcode::kMvr4:
        for (int g = 0; g < chip_.groups; ++g) {
          add(src, g * chip_.l2b_per_group, n_, false);
          const int64_t part = spread_part(n_, chip_.groups, g);
          add(dst, g, part, true);
          for (int h = 0; h < chip_.groups; ++h) path(h, g, part);
        }
        break;
      default:
        throw InternalError(
            fmt::format("internal error in transfer costs: '{}' has no shape", mnemonic(mv_)));
    }
    return std::move(shape_);
  }

 private:
  void add(const Operand& operand, int place, int64_t length, bool write) {
    if (length <= 0) return;
    const bool indirect = operand.space == Space::kDramIndirect;
    shape_.endpoints.push_back(
        {indirect ? Space::kDram : operand.space, place, operand.base, length, write, indirect});
  }
  void path(int from, int to, int64_t lw) {
    if (from != to && lw > 0) shape_.paths[{from, to}] += lw;
  }
  std::vector<int> groups_of(const Operand& operand) const {
    if (operand.group >= 0) return {operand.group};
    std::vector<int> all(static_cast<size_t>(chip_.groups));
    for (int g = 0; g < chip_.groups; ++g) all[static_cast<size_t>(g)] = g;
    return all;
  }
  std::vector<int> l2bs_of(int group) const {
    std::vector<int> l2bs;
    for (int l = 0; l < chip_.l2b_per_group; ++l) l2bs.push_back(group * chip_.l2b_per_group + l);
    return l2bs;
  }
  int place_of(const Operand& operand, int group) const {
    return operand.space == Space::kL2bm ? group * chip_.l2b_per_group + std::max<int>(operand.unit, 0)
                                         : group;
  }

  void linear(const Operand& src, const Operand& dst) {
    if (src.group < 0 && dst.group < 0) {
      for (int g = 0; g < chip_.groups; ++g) {
        add(src, place_of(src, g), n_, false);
        add(dst, place_of(dst, g), n_, true);
      }
      return;
    }
    const int from = src.group >= 0 ? src.group : dst.group;
    const int to = dst.group >= 0 ? dst.group : src.group;
    add(src, place_of(src, from), n_, false);
    add(dst, place_of(dst, to), n_, true);
    path(from, to, n_);
  }

  /// mvd: one PDM against all DRAMs or all L2BMs.
  void spread(const Operand& pdm, const Operand& many, bool from_pdm) {
    const int g = std::max<int>(pdm.group, 0);
    add(pdm, g, n_, !from_pdm);
    const bool is_l2bm = many.space == Space::kL2bm;
    const int parts = is_l2bm ? chip_.l2b_count() : chip_.groups;
    for (int i = 0; i < parts; ++i) {
      const int64_t part = spread_part(n_, parts, i);
      add(many, i, part, from_pdm);
      const int h = is_l2bm ? i / chip_.l2b_per_group : i;
      path(from_pdm ? g : h, from_pdm ? h : g, part);
    }
  }

  const Instruction& mv_;
  const Chip& chip_;
  int64_t n_;
  TransferShape shape_;
};

}  // namespace

TransferShape transfer_shape(const Instruction& mv, const Chip& chip) {
  return TransferShaper(mv, chip).shape();
}

}  // namespace kodama::isa
