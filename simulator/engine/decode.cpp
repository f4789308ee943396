#include "simulator/engine/decode.h"

#include <algorithm>

#include "isa/error.h"
#include "isa/move_places.h"

namespace kodama::simulator {
namespace {

using isa::Precision;
using isa::Space;

/// Of an L2BM instruction.
Reach reach_of(const isa::Movement& movement) {
  switch (movement.way) {
    case isa::Movement::Way::kL2bmToL1bm:
      return Reach::kFetch;
    // The DAR belongs to the group, so its instructions are no matter of one L2B.
    case isa::Movement::Way::kL2bmToDarStage:
    case isa::Movement::Way::kDarStageToDar:
      return Reach::kGlobal;
    default:
      return Reach::kL2b;
  }
}

class Decoder {
 public:
  Decoder(const isa::Program& program, const isa::Chip& chip, const KernelTable& kernels)
      : program_(program), chip_(chip), kernels_(kernels) {}

  Decoded decode() {
    decoded_.nodes = decode_body(program_.statements, 0);
    return std::move(decoded_);
  }

 private:
  std::vector<Node> decode_body(const std::vector<isa::Statement>& statements, int depth) {
    if (depth > isa::kMaxLoopDepth) {
      throw isa::UnsupportedError(
          fmt::format("{}: loops nested deeper than {}", place(), isa::kMaxLoopDepth));
    }
    std::vector<Node> nodes;
    for (const isa::Statement& statement : statements) {
      line_ = statement.line;
      Node node;
      node.line = statement.line;
      node.id = decoded_.node_count++;
      node.region = region_;
      node.statement = &statement;
      std::visit([&](const auto& kind) { decode_kind(kind, node, depth); }, statement.kind);
      if (std::holds_alternative<isa::RegionMark>(statement.kind)) continue;
      const auto* loop = std::get_if<isa::Loop>(&statement.kind);
      if (loop != nullptr && (loop->count <= 0 || node.body.empty())) continue;  // nothing to run
      nodes.push_back(std::move(node));
      if (nodes.back().kind == Node::Kind::kQuit) break;
    }
    return nodes;
  }

  std::string place() const {
    return isa::SourceLocation{program_.source_name.empty() ? "program" : program_.source_name, line_, 0}
        .to_string();
  }
  [[noreturn]] void unsupported(const isa::Instruction& instruction, std::string_view why) const {
    throw isa::UnsupportedError(fmt::format("{}: the simulator does not implement '{}' ({})", place(),
                                            isa::mnemonic(instruction), why));
  }

  MicroOperand operand(const isa::Operand& from) const {
    if (from.space == Space::kVirtual || from.mask.kind == isa::Mask::Kind::kVirtual) {
      throw isa::InternalError(fmt::format("internal error in simulator: {}: virtual operand", place()));
    }
    if (from.loop_strides.size() > isa::kMaxLoopDepth) {
      throw isa::UnsupportedError(
          fmt::format("{}: an operand with more than {} loop strides", place(), isa::kMaxLoopDepth));
    }
    MicroOperand to;
    to.space = from.space;
    to.width = from.width;
    to.t_indirect = from.t_indirect;
    to.negate = from.negate;
    to.extend = from.extend;
    to.reduce = from.reduce;
    to.j = from.j;
    to.group = from.group;
    to.unit = from.unit;
    to.mask = from.mask;
    to.base = from.base;
    for (int c = 0; c < 4; ++c) to.offset[c] = static_cast<int32_t>(from.address(c) - from.base);
    to.loop_depth = static_cast<uint8_t>(from.loop_strides.size());
    if (isa::is_pe_memory(to.space)) {
      const bool is_local = isa::is_local_memory(to.space);
      const int64_t size = is_local ? chip_.memory.lm_words : chip_.memory.grf_words;
      for (int c = 0; c < 4; ++c)
        to.place[c] = static_cast<int32_t>(row_address(to.base + to.offset[c], to.width, size));
    }
    std::copy(from.loop_strides.begin(), from.loop_strides.end(), to.loop_strides.begin());
    return to;
  }

  /// The base of an operand in all iterations of the loops around it.
  void check_base(const isa::Operand& operand, int64_t first, int64_t last,
                  fmt::format_string<int64_t&, int64_t&, int64_t&> message) const {
    for (const bool most : {false, true}) {
      int64_t base = operand.base;
      for (size_t d = 0; d < std::min(operand.loop_strides.size(), loop_counts_.size()); ++d) {
        if (loop_counts_[d] <= 0) return;  // never runs
        const int64_t reach = operand.loop_strides[d] * (loop_counts_[d] - 1);
        if ((reach > 0) == most) base += reach;
      }
      if (base < first || base > last)
        throw isa::UserError(fmt::format("{}: {}", place(), fmt::format(message, base, first, last)));
    }
  }

  void check_mask(const isa::Mask& mask) const {
    if (mask.kind == isa::Mask::Kind::kRegister && mask.value >= chip_.memory.mask_entries) {
      throw isa::UserError(fmt::format("{}: mask entry {}; allowed are 0 to {}", place(), mask.value,
                                       chip_.memory.mask_entries - 1));
    }
  }

  void decode_kind(const isa::Step& step, Node& node, int) {
    node.kind = Node::Kind::kStep;
    node.stats.steps = 1;
    for (const isa::Instruction& instruction : step.instructions) decode_instruction(instruction, node);
  }
  void decode_kind(const isa::Nop& nop, Node& node, int) {
    node.kind = nop.wait_tag > 0 ? Node::Kind::kWait : Node::Kind::kNop;
    node.count = nop.count;
    node.wait_tag = nop.wait_tag;
    node.stats.steps = nop.count;
    node.stats.nops = nop.count;
    node.idle = nop.wait_tag == 0;
    if (nop.wait_tag > 0) node.reach = Reach::kGlobal;
  }
  void decode_kind(const isa::Mv& mv, Node& node, int) {
    node.kind = Node::Kind::kMv;
    node.reach = Reach::kGlobal;
    node.mv = &mv.instruction;
    if (isa::info(mv.instruction.opcode).source_count == 0) return;
    if (mv.instruction.sources.size() != 1 || mv.instruction.destinations.size() != 1) {
      unsupported(mv.instruction, "a transfer has one source and one destination");
    }
    node.mv_source = operand(mv.instruction.sources[0]);
    node.mv_destination = operand(mv.instruction.destinations[0]);
    for (const MicroOperand* side : {&node.mv_source, &node.mv_destination}) {
      if (side->group >= chip_.groups || side->unit >= chip_.l2b_per_group) {
        throw isa::UserError(
            fmt::format("{}: group {} or L2B {} does not exist; the chip has {} groups of {} L2Bs", place(),
                        side->group, side->unit, chip_.groups, chip_.l2b_per_group));
      }
    }
  }
  void decode_kind(const isa::MaskControl& mask, Node& node, int) {
    node.kind = Node::Kind::kMask;
    node.mask = &mask;
    check_mask({isa::Mask::Kind::kRegister, mask.entry, mask.double_long, 0});
  }
  void decode_kind(const isa::DebugGet& get, Node& node, int) {
    node.kind = Node::Kind::kGet;
    node.reach = Reach::kGlobal;
    node.get = &get;
  }
  void decode_kind(const isa::DebugSet& set, Node& node, int) {
    node.kind = Node::Kind::kSet;
    node.reach = Reach::kGlobal;
    node.set = &set;
  }
  void decode_kind(const isa::DramPreload& preload, Node& node, int) {
    node.kind = Node::Kind::kPreload;
    node.reach = Reach::kGlobal;
    node.preload = &preload;
  }
  void decode_kind(const isa::RegionMark& mark, Node&, int) {
    std::vector<Region>& regions = decoded_.regions;
    if (!mark.begin) {
      if (region_ >= 0) region_ = regions[static_cast<size_t>(region_)].parent;
      return;
    }
    const auto same = std::ranges::find_if(
        regions, [&](const Region& region) { return region.parent == region_ && region.name == mark.name; });
    const auto number = static_cast<int32_t>(same - regions.begin());
    if (same == regions.end()) regions.push_back({mark.name, region_});
    region_ = number;
  }
  void decode_kind(const isa::Quit&, Node& node, int) {
    node.kind = Node::Kind::kQuit;
    node.reach = Reach::kGlobal;
  }
  void decode_kind(const isa::Loop& loop, Node& node, int depth) {
    node.kind = Node::Kind::kLoop;
    node.count = loop.count;
    loop_counts_.push_back(loop.count);
    node.body = decode_body(loop.body, depth + 1);
    loop_counts_.pop_back();
    node.idle = std::ranges::all_of(node.body, [](const Node& inner) { return inner.idle; });
    for (const Node& inner : node.body) {
      node.reach = std::max(node.reach, inner.reach);
      node.data_reach = std::max(node.data_reach, inner.data_reach);
      node.stats += inner.stats;
    }
    const int64_t n = std::max<int64_t>(loop.count, 0);
    node.stats.steps *= n;
    node.stats.nops *= n;
    node.stats.alu_ops *= n;
    node.stats.mau_ops *= n;
    node.stats.l1bm_ops *= n;
    node.stats.l2bm_ops *= n;
  }

  void decode_instruction(const isa::Instruction& instruction, Node& node) {
    const isa::IssueGroup group = isa::issue_group(instruction);
    if (group == isa::IssueGroup::kNoForward) {
      node.no_forward = true;
      return;
    }
    if (group == isa::IssueGroup::kWait) {
      node.wait_tag = instruction.tag;
      node.reach = Reach::kGlobal;
      return;
    }
    MicroOp op;
    op.row = &isa::info(instruction.opcode);
    op.movement = &isa::movement(instruction);
    op.precision = instruction.precision;
    op.round_output = instruction.round_output;
    op.unsigned_op = instruction.unsigned_op;
    op.half_select = instruction.half_select;
    op.unit_number = instruction.unit;
    op.rotation = instruction.rotation;
    op.reduce_op = instruction.reduce_op;
    op.l1b_set = instruction.l1b_set;
    op.zero_flush = instruction.zero_flush;
    check_mask(op.zero_flush);
    for (const isa::Operand& source : instruction.sources) {
      op.sources.push_back(operand(source));
      if (source.space == Space::kConstant)
        check_base(source, 0, isa::kFixedConstantCount - 1, "constant {}; allowed are {} to {}");
    }
    for (const isa::Operand& destination : instruction.destinations) {
      op.destinations.push_back(operand(destination));
      check_mask(destination.mask);
      if (destination.mask.kind != isa::Mask::Kind::kNone) node.own_masks = true;
      if (destination.space == Space::kOmr || destination.space == Space::kT ||
          destination.space == Space::kBar0 || destination.space == Space::kBar1)
        node.writes_registers = true;
      if (destination.space == Space::kOmr) {
        op.wants_flags = true;
        const int64_t last = std::min<int64_t>(isa::kMaskRegisters, chip_.memory.mask_entries) - 1;
        check_base(destination, 1, last, "mask entry {} as a destination; allowed are {} to {}");
      }
    }
    if (op.sources.size() < op.row->source_count) unsupported(instruction, "an operand is missing");
    switch (group) {
      case isa::IssueGroup::kAlu:
        op.unit = Unit::kAlu;
        node.stats.alu_ops = 1;
        decode_alu(instruction, op);
        break;
      case isa::IssueGroup::kMauCalc:
        op.unit = Unit::kMau;
        node.stats.mau_ops = 1;
        decode_mau(instruction, op);
        break;
      case isa::IssueGroup::kMauMread:
        op.unit = Unit::kMread;
        node.stats.mau_ops = 1;
        break;
      case isa::IssueGroup::kMauMwrite:
        op.unit = Unit::kMwrite;
        node.stats.mau_ops = 1;
        break;
      case isa::IssueGroup::kL1bm:
      case isa::IssueGroup::kL1bmTurnaround:
        op.unit = group == isa::IssueGroup::kL1bm ? Unit::kL1bm : Unit::kTurnaround;
        node.stats.l1bm_ops = 1;
        decode_l1bm(instruction, op);
        break;
      case isa::IssueGroup::kL2bm:
      case isa::IssueGroup::kL2bmDarw:
        node.stats.l2bm_ops = 1;
        node.data_reach = std::max(node.data_reach, reach_of(*op.movement));
        node.reach = std::max(node.reach, node.data_reach);
        decode_l2bm(instruction, op);
        node.l2b_ops.push_back(std::move(op));
        return;
      default:
        unsupported(instruction, "it can't stand in a step");
    }
    node.ops.push_back(std::move(op));
  }

  void decode_alu(const isa::Instruction& instruction, MicroOp& op) const {
    const bool is_immediate = !op.sources.empty() && op.sources[0].space == Space::kImmediate;
    const bool has_block_bits = isa::has_precision(op.row->block_bits, op.precision);
    // Others copy the lower LW of x.
    op.writes_l = op.sources.empty() || is_immediate || has_block_bits;
    if (is_immediate) return;
    op.alu =
        kernels_.alu[static_cast<int>(instruction.opcode)][static_cast<int>(op.precision)][op.unsigned_op];
    if (op.alu == nullptr) unsupported(instruction, "there is no such ALU instruction");
    if (has_block_bits && instruction.block_bits >= 0)
      op.parameter = static_cast<int8_t>(9 - instruction.block_bits);
  }

  void decode_mau(const isa::Instruction& instruction, const MicroOp& op) const {
    if (op.precision == Precision::kDouble && op.row->half_select && op.half_select != 'u' &&
        op.half_select != 'd') {
      unsupported(instruction, "double products need suffix u or d");
    }
  }

  void decode_l1bm(const isa::Instruction& instruction, const MicroOp& op) const {
    if (op.sources.size() != 1 || op.destinations.empty()) unsupported(instruction, "operands are missing");
    check_form(instruction, op);
    check_unit(instruction, op);
  }
  void check_form(const isa::Instruction& instruction, const MicroOp& op) const {
    if (op.movement->way == isa::Movement::Way::kNone)
      unsupported(instruction, "there is no form with these operands");
  }
  void check_unit(const isa::Instruction& instruction, const MicroOp& op) const {
    const int units = isa::choices(*op.movement, chip_);
    if (op.movement->rule == isa::Movement::Rule::kOneOf && (op.unit_number < 0 || op.unit_number >= units)) {
      throw isa::UserError(fmt::format("{}: '@{}' of '{}'; allowed are 0 to {}", place(), op.unit_number,
                                       isa::mnemonic(instruction), units - 1));
    }
  }

  void decode_l2bm(const isa::Instruction& instruction, const MicroOp& op) const {
    if (op.row->source_count == 0) return;
    if (op.sources.size() != 1 || op.destinations.size() != 1)
      unsupported(instruction, "operands are missing");
    check_form(instruction, op);
    check_unit(instruction, op);
  }

  const isa::Program& program_;
  const isa::Chip& chip_;
  const KernelTable& kernels_;
  Decoded decoded_;
  int32_t region_ = -1;
  int32_t line_ = 0;
  std::vector<int64_t> loop_counts_;  ///< of the loops around
};

}  // namespace

Decoded decode(const isa::Program& program, const isa::Chip& chip, const KernelTable& kernels) {
  return Decoder(program, chip, kernels).decode();
}

}  // namespace kodama::simulator
