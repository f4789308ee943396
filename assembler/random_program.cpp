#include "assembler/random_program.h"

#include <algorithm>
#include <bit>
#include <map>
#include <string>

#include "assembler/assembler.h"
#include "assembler/checks.h"
#include "isa/error.h"
#include "isa/move_places.h"

namespace kodama::assembler {

using isa::Instruction;
using isa::InstructionInfo;
using isa::IssueGroup;
using isa::Opcode;
using isa::Operand;
using isa::Precision;
using isa::Space;
using isa::Width;

namespace {

/// Draws until the checks accept; every form is legal for a good part of its draws.
constexpr int kAttempts = 10000;

}  // namespace

RandomProgram::RandomProgram(const isa::Chip& chip, uint64_t seed, RandomOptions options)
    : chip_(chip), options_(std::move(options)), engine_(seed) {
  for (const Instruction& form : isa::all_mnemonics()) {
    const IssueGroup group = isa::info(form.opcode).group;
    if (group == IssueGroup::kWait) continue;
    Forms& forms = group == IssueGroup::kMv ? transfer_forms_ : step_forms_;
    if (forms.empty() || forms.back().front().opcode != form.opcode) forms.emplace_back();
    forms.back().push_back(form);
  }
}

uint64_t RandomProgram::below(uint64_t limit) {
  return engine_() % limit;
}

int64_t RandomProgram::address(int64_t size, int64_t alignment) {
  const int64_t window = one_in(8) ? size : std::min(size, std::max(options_.address_window, alignment));
  return static_cast<int64_t>(below(static_cast<uint64_t>(std::max<int64_t>(window / alignment, 1)))) *
         alignment;
}

isa::Mask RandomProgram::mask() {
  isa::Mask mask;
  if (one_in(2)) {
    mask.kind = isa::Mask::Kind::kPattern;
    mask.value = static_cast<uint8_t>(below(16));
  } else {
    mask.kind = isa::Mask::Kind::kRegister;
    mask.value = static_cast<uint8_t>(below(static_cast<uint64_t>(chip_.memory.mask_entries)));
  }
  mask.double_long = one_in(2);
  return mask;
}

Space RandomProgram::pick_space(isa::SpaceSet set) {
  uint64_t skip = below(static_cast<uint64_t>(std::popcount(set)));
  while (skip-- > 0) set &= set - 1;
  return static_cast<Space>(std::countr_zero(set));
}

Operand RandomProgram::operand(isa::SpaceSet set, const Instruction& instruction, bool destination) {
  if (!destination && !step_operands_.empty() && one_in(2)) {
    const Operand& earlier = step_operands_[below(step_operands_.size())];
    if (set & isa::space_bit(earlier.space)) {
      Operand copy = earlier;
      copy.mask = {};
      return copy;
    }
  }
  Operand result;
  result.space = pick_space(set);
  const Width widths[] = {Width::kWord, Width::kLong, Width::kDoubleLong};
  if (isa::is_pe_memory(result.space)) {
    const int64_t size = isa::is_local_memory(result.space) ? chip_.memory.lm_words : chip_.memory.grf_words;
    result.width = widths[below(3)];
    const int64_t width = isa::words(result.width);
    result.t_indirect = result.space == Space::kLm0 && one_in(6);
    switch (below(4)) {
      case 0:
        result.flat = true;
        for (int32_t& a : result.flat_addresses) a = static_cast<int32_t>(address(size, width));
        break;
      case 1:
        result.base = address(size, width);
        break;
      case 2:
        result.base = address(size, width);
        result.stride = static_cast<int32_t>(width);
        break;
      default:
        result.base = address(size, width);
        result.stride = static_cast<int32_t>(address(size, width));
        break;
    }
    if (isa::is_local_memory(result.space) && !result.t_indirect && one_in(6)) {
      result.j = static_cast<int8_t>(below(isa::kPePerMab));
    }
  }
  const bool block = isa::info(instruction.opcode).group == IssueGroup::kL2bm;
  const bool transfer = isa::info(instruction.opcode).group == IssueGroup::kMv;
  switch (result.space) {
    case Space::kT:
      result.width = widths[below(3)];
      break;
    case Space::kBar0:
    case Space::kBar1:
      result.width = widths[below(2)];
      break;
    case Space::kOmr:
      result.base = 1 + static_cast<int64_t>(below(15));
      break;
    case Space::kConstant:
      result.base = static_cast<int64_t>(below(isa::kFixedConstantCount));
      break;
    case Space::kImmediate:
      result.base = static_cast<int64_t>(engine_() >> 32);
      break;
    case Space::kMatX:
    case Space::kMatY:
      if (isa::info(instruction.opcode).group != IssueGroup::kMauCalc) {
        result.width = widths[1 + below(2)];
        result.base = static_cast<int64_t>(4 * below(4));
      }
      break;
    case Space::kL1bm:
      result.base = address(chip_.memory.l1bm_lw, block ? 16 : 1);
      if (!block) result.width = widths[1 + below(2)];
      break;
    case Space::kTurnaround:
      result.width = widths[1 + below(2)];
      break;
    case Space::kL2bm:
      result.base = address(chip_.memory.l2bm_lw, block ? 16 : 1);
      if (one_in(2)) result.unit = static_cast<int8_t>(below(static_cast<uint64_t>(chip_.l2b_per_group)));
      break;
    case Space::kDar:
    case Space::kDramIndirect:
      result.base = address(chip_.memory.dar_entries, 1);
      break;
    case Space::kPdm:
      result.base = address(chip_.memory.pdm_lw, 1);
      break;
    case Space::kDram:
      result.base = address(chip_.memory.dram_lw, 1);
      break;
    default:
      break;
  }
  if (transfer && one_in(2)) {
    result.group = static_cast<int8_t>(below(static_cast<uint64_t>(chip_.groups)));
    if (result.space == Space::kL2bm) {
      result.unit = static_cast<int8_t>(below(static_cast<uint64_t>(chip_.l2b_per_group)));
    }
  }
  if (!destination) {
    result.negate = one_in(8);
    result.extend = one_in(8);
    result.reduce = one_in(8);
  } else if (one_in(4)) {
    result.mask = step_mask_.kind != isa::Mask::Kind::kNone ? step_mask_ : mask();
    if (one_in(4)) result.mask.length_check = one_in(2) ? 't' : 'p';
  }
  return result;
}

bool RandomProgram::choose_unit(const isa::Movement& movement, Instruction& instruction) {
  if (movement.rule != isa::Movement::Rule::kOneOf) return false;
  instruction.unit = static_cast<int8_t>(below(static_cast<uint64_t>(isa::choices(movement, chip_))));
  return true;
}

bool RandomProgram::draw(Instruction& instruction) {
  const InstructionInfo& row = isa::info(instruction.opcode);
  const isa::OperandForm& form = row.forms[below(row.forms.size())];
  for (int i = 0; i < row.source_count; ++i) {
    instruction.sources.push_back(operand(form.sources[i], instruction, false));
  }
  if (form.destinations != 0) {
    const uint64_t count = row.variadic_destinations && one_in(4) ? 2 + below(2) : 1;
    for (uint64_t i = 0; i < count; ++i) {
      instruction.destinations.push_back(operand(form.destinations, instruction, true));
    }
  }
  if (row.allows_zero_flush && one_in(8)) {
    instruction.zero_flush = step_mask_.kind != isa::Mask::Kind::kNone ? step_mask_ : mask();
  }
  switch (row.group) {
    case IssueGroup::kAlu:
      if (instruction.sources.size() == 1 && instruction.sources[0].space == Space::kImmediate) {
        instruction.immediate_kind = static_cast<isa::ImmediateKind>(below(8));
        int64_t& payload = instruction.sources[0].base;
        const auto kind = instruction.immediate_kind;
        if (one_in(2)) payload = static_cast<int64_t>(below(256));
        if (kind == isa::ImmediateKind::kShort || kind == isa::ImmediateKind::kUnsignedShort ||
            kind == isa::ImmediateKind::kHalf) {
          payload = (payload & 0xffff) * 0x10001;
        }
      }
      if (isa::has_precision(row.block_bits, instruction.precision) && one_in(2)) {
        instruction.block_bits = static_cast<int8_t>(6 + below(4));
      }
      break;
    case IssueGroup::kL1bm:
      choose_unit(form.movement, instruction);
      break;
    case IssueGroup::kL2bm: {
      if (choose_unit(form.movement, instruction)) break;
      const uint64_t l1bs = static_cast<uint64_t>(chip_.l1b_per_l2b);
      isa::L1bSet& set = instruction.l1b_set;
      set.kind = static_cast<isa::L1bSet::Kind>(below(4));
      if (set.kind == isa::L1bSet::Kind::kOne || set.kind == isa::L1bSet::Kind::kMasked) {
        set.k = static_cast<uint8_t>(below(l1bs));
      }
      if (set.kind == isa::L1bSet::Kind::kMasked) set.ignore_mask = static_cast<uint8_t>(below(l1bs));
      if (set.kind == isa::L1bSet::Kind::kList) {
        set.list = static_cast<uint32_t>(1 + below((uint64_t{1} << l1bs) - 1));
      }
      break;
    }
    case IssueGroup::kMv:
      if (row.source_count == 0 && one_in(2)) break;
      instruction.size_lw = static_cast<int64_t>(64 * (1 + below(one_in(8) ? 64 : 2)));
      instruction.tag = static_cast<int8_t>(one_in(2) ? 0 : 1 + below(isa::kMaxTransferTag));
      instruction.priority = static_cast<int8_t>(one_in(2) ? 0 : below(4));
      if (one_in(2)) instruction.indirect_n = static_cast<int32_t>(1 + below(16));
      break;
    default:
      break;
  }
  return !find_violation(instruction, chip_) && (!options_.accept || options_.accept(instruction));
}

Instruction RandomProgram::instruction(const Instruction& form) {
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    Instruction candidate = form;
    candidate.sources.clear();
    candidate.destinations.clear();
    if (!draw(candidate)) continue;
    // One instruction can break the rules of a step by itself, e.g. by two reads of one memory.
    if (isa::info(candidate.opcode).group == IssueGroup::kMv) return candidate;
    const isa::Statement alone{isa::Step{{candidate}}};
    if (!find_violation(alone, chip_)) return candidate;
  }
  throw isa::InternalError("internal error in random_program: no legal operands for " + isa::mnemonic(form));
}

/// Reductions have very many forms, other opcodes a single one.
const Instruction& RandomProgram::pick_form(const Forms& forms) {
  if (options_.even_opcodes && (&forms == &transfer_forms_ || one_in(2))) {
    const std::vector<Instruction>& own = forms[below(forms.size())];
    return own[below(own.size())];
  }
  size_t count = 0;
  for (const std::vector<Instruction>& own : forms) count += own.size();
  uint64_t left = below(count);
  for (const std::vector<Instruction>& own : forms) {
    if (left < own.size()) return own[left];
    left -= own.size();
  }
  throw isa::InternalError("internal error in random_program: there are no forms");
}

Instruction RandomProgram::instruction(bool transfer) {
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    Instruction candidate = pick_form(transfer ? transfer_forms_ : step_forms_);
    if (!draw(candidate)) continue;
    if (transfer || !find_violation(isa::Statement{isa::Step{{candidate}}}, chip_)) return candidate;
  }
  throw isa::InternalError("internal error in random_program: the options accept no instruction");
}

isa::Step RandomProgram::step() {
  isa::Step step;
  step_operands_.clear();
  step_mask_ = mask();
  step.instructions.push_back(instruction());
  const uint64_t more = below(4);
  for (uint64_t i = 0; i < more; ++i) {
    step_operands_.clear();
    for (const Instruction& earlier : step.instructions) {
      step_operands_.insert(step_operands_.end(), earlier.sources.begin(), earlier.sources.end());
    }
    // Most pairs of random instructions clash, so several are tried before giving up.
    for (int attempt = 0; attempt < 8; ++attempt) {
      step.instructions.push_back(instruction());
      if (!find_violation(isa::Statement{step}, chip_)) break;
      step.instructions.own().pop_back();
    }
  }
  if (one_in(16)) {
    Instruction wait;
    wait.opcode = Opcode::kWait;
    wait.tag = static_cast<int8_t>(1 + below(isa::kMaxTransferTag));
    step.instructions.push_back(wait);
  }
  step_operands_.clear();
  step_mask_ = {};
  return step;
}

isa::Statement RandomProgram::debug_statement() {
  const Space spaces[] = {Space::kLm0,  Space::kLm1,  Space::kGrf0, Space::kGrf1, Space::kT,
                          Space::kL1bm, Space::kL2bm, Space::kDram, Space::kPdm,  Space::kOmr};
  isa::Statement statement;
  while (true) {
    const Space space = spaces[below(std::size(spaces))];
    const bool per_pe = isa::is_pe_memory(space) || space == Space::kT || space == Space::kOmr;
    const int levels = per_pe ? 5 : space == Space::kL1bm ? 3 : space == Space::kL2bm ? 2 : 1;
    const int limits[] = {chip_.groups, chip_.l2b_per_group, chip_.l1b_per_l2b, chip_.mab_per_l1b,
                          isa::kPePerMab};
    std::array<int16_t, 5> place{-1, -1, -1, -1, -1};
    for (int level = 0; level < levels; ++level) {
      if (!one_in(4)) place[level] = static_cast<int16_t>(below(static_cast<uint64_t>(limits[level])));
    }
    const int64_t at = space == Space::kT ? 0 : address(64, 2);
    const int64_t count = space == Space::kOmr ? 1 : 1 + static_cast<int64_t>(below(8));
    if (one_in(2)) {
      isa::DebugGet get{{}, "\0dfhDFGH"[below(8)], space, at, count, place};
      get.text = debug_get_text(get);
      statement.kind = get;
    } else {
      isa::DebugSet set{space, at, place, {}};
      for (int64_t i = 0; i < count; ++i) set.payload.push_back(engine_());
      statement.kind = set;
    }
    if (!find_violation(statement, chip_)) return statement;
  }
}

isa::Statement RandomProgram::statement() {
  isa::Statement result;
  switch (below(16)) {
    case 0:
      if (!options_.transfers) break;
      result.kind = isa::Mv{instruction(true)};
      return result;
    case 1:
      if (!options_.mask_statements) break;
      {
        isa::MaskControl control;
        control.spaces = static_cast<uint8_t>(below(64));
        control.explicit_length = one_in(2);
        control.double_long = control.explicit_length && one_in(2);
        if (control.spaces != 0) {
          control.entry = static_cast<uint8_t>(below(static_cast<uint64_t>(chip_.memory.mask_entries)));
        }
        result.kind = control;
      }
      return result;
    case 2:
      if (!options_.debug_statements) break;
      return debug_statement();
    case 3:
      if (!options_.other_statements) break;
      if (one_in(2)) {
        result.kind = one_in(2) ? isa::RegionMark{false, {}}
                                : isa::RegionMark{true, "region " + std::to_string(below(100))};
      } else {
        isa::DramPreload preload{
            static_cast<int>(below(static_cast<uint64_t>(chip_.groups))), address(64, 1), {}};
        for (uint64_t i = 0; i <= below(8); ++i) preload.payload.push_back(engine_());
        result.kind = preload;
      }
      return result;
    case 4: {
      isa::Nop nop;
      if (one_in(2)) {
        nop.count = 1 + static_cast<int64_t>(below(8));
      } else if (one_in(2)) {
        nop.wait_tag = static_cast<int8_t>(1 + below(isa::kMaxTransferTag));
      }
      result.kind = nop;
      return result;
    }
    default:
      break;
  }
  result.kind = step();
  return result;
}

namespace {

/// An operand of its space that is told from others by a number. Products take a matrix register as a whole.
bool has_address(const Instruction& instruction, const Operand& operand) {
  switch (operand.space) {
    case Space::kMatX:
    case Space::kMatY:
      return isa::info(instruction.opcode).group != IssueGroup::kMauCalc;
    case Space::kOmr:
    case Space::kConstant:
    case Space::kImmediate:
    case Space::kL1bm:
    case Space::kL2bm:
    case Space::kDar:
    case Space::kDramIndirect:
    case Space::kPdm:
    case Space::kDram:
      return true;
    default:
      return isa::is_pe_memory(operand.space);
  }
}

template <typename Visit>
void for_each_operand(isa::Statement& statement, Visit&& visit) {
  const auto visit_all = [&](Instruction& instruction) {
    for (Operand& operand : instruction.sources) visit(instruction, operand);
    for (Operand& operand : instruction.destinations) visit(instruction, operand);
  };
  if (auto* step = std::get_if<isa::Step>(&statement.kind)) {
    for (Instruction& instruction : step->instructions.own()) visit_all(instruction);
  } else if (auto* mv = std::get_if<isa::Mv>(&statement.kind)) {
    visit_all(mv->instruction);
  }
}

/// Whether a statement is legal at all counters of loops that run so many times.
bool is_legal_in_loops(const isa::Statement& statement, const std::vector<int64_t>& counts,
                       const isa::Chip& chip) {
  std::vector<int64_t> counters(counts.size(), 0);
  for (;;) {
    if (find_violation(isa::resolved(statement, counters), chip)) return false;
    size_t d = 0;
    while (d < counters.size() && ++counters[d] >= counts[d]) counters[d++] = 0;
    if (d == counters.size()) return true;
  }
}

}  // namespace

/// What a stride is a small multiple of: often something that the space's addresses are aligned to.
int64_t RandomProgram::stride_unit(Space space) {
  const int64_t factor = int64_t{1} << below(3);
  switch (space) {
    case Space::kMatX:
    case Space::kMatY:
      return 4;
    case Space::kL1bm:
    case Space::kL2bm:
    case Space::kPdm:
    case Space::kDram:
      return one_in(2) ? factor : 16 * factor;
    default:
      return factor;
  }
}

/// Gives the addresses in a loop strides that stay legal. `counts` are of the loops around it.
void RandomProgram::add_strides(isa::Statement& statement, std::vector<int64_t>& counts) {
  if (auto* loop = std::get_if<isa::Loop>(&statement.kind)) {
    counts.push_back(loop->count);
    for (isa::Statement& inner : loop->body) add_strides(inner, counts);
    counts.pop_back();
    return;
  }
  std::vector<Space> spaces;
  for_each_operand(statement, [&](const Instruction& instruction, const Operand& operand) {
    if (has_address(instruction, operand)) spaces.push_back(operand.space);
  });
  if (spaces.empty()) return;
  constexpr int kDraws = 8;
  for (int draw = 0; draw < kDraws; ++draw) {
    // Instructions of a step that share a port must read the same address, so a step has the same strides for
    // all operands of a memory. What is hard to make legal has them for one memory.
    std::map<Space, std::vector<int64_t>> strides;
    const bool one_space = draw >= kDraws / 2;
    const Space only = spaces[below(spaces.size())];
    isa::Statement candidate = statement;
    for_each_operand(candidate, [&](const Instruction& instruction, Operand& operand) {
      if (!has_address(instruction, operand)) return;
      const auto [own, is_new] = strides.try_emplace(operand.space);
      if (is_new && (one_space ? operand.space == only : !one_in(4))) {
        own->second.resize(1 + below(counts.size()));
        for (int64_t& stride : own->second) {
          if (own->second.size() > 3 && one_in(2)) continue;
          const int64_t unit = stride_unit(operand.space);
          stride = unit * (static_cast<int64_t>(below(5)) - 2);
        }
      }
      operand.loop_strides = own->second;
    });
    if (!is_legal_in_loops(candidate, counts, chip_)) continue;
    statement = std::move(candidate);
    return;
  }
}

/// A loop that is itself run so many times.
isa::Statement RandomProgram::loop_body(int depth, int64_t times) {
  constexpr int64_t kMostTimes = 64;  // what is nested multiplies
  // Deep ones are a chain of loops of one or two iterations, so that the innermost ones have some, too.
  const bool is_deep = depth > 3;
  const auto count = static_cast<int64_t>(is_deep && !one_in(16) ? 1 + below(2) : below(5));
  isa::Loop result;
  result.count = std::min(count, kMostTimes / times);
  const uint64_t length = 1 + below(is_deep ? 2 : 4);
  for (uint64_t i = 0; i < length; ++i) {
    if (is_deep ? i == 0 : depth > 1 && one_in(2)) {
      result.body.push_back(loop_body(depth - 1, times * std::max<int64_t>(result.count, 1)));
    } else if (options_.transfers && one_in(8)) {
      result.body.push_back({isa::Mv{instruction(true)}});
    } else {
      result.body.push_back(statement());
    }
  }
  return {result};
}

isa::Statement RandomProgram::loop(int depth) {
  isa::Statement result = loop_body(depth, 1);
  std::vector<int64_t> counts;
  add_strides(result, counts);
  return result;
}

isa::Program RandomProgram::program(int statements) {
  isa::Program program;
  program.source_name = "random";
  program.statements.reserve(static_cast<size_t>(statements));
  for (int i = 0; i < statements; ++i) {
    const bool is_loop = options_.loops && one_in(4);
    // Few go as deep as loops may be nested.
    const int depth = is_loop ? 1 + static_cast<int>(below(one_in(8) ? isa::kMaxLoopDepth : 3)) : 0;
    program.statements.push_back(is_loop ? loop(depth) : statement());
  }
  return program;
}

}  // namespace kodama::assembler
