#include <fmt/format.h>

#include <iterator>

#include "assembler/assembler.h"
#include "assembler/checks.h"
#include "isa/error.h"

namespace kodama::assembler {

using isa::Instruction;
using isa::IssueGroup;
using isa::Opcode;
using isa::Operand;
using isa::Space;
using isa::Width;

namespace {

using Buffer = fmt::memory_buffer;
using Counters = std::vector<int64_t>;

/// The text goes to the sink in pieces of about this size.
constexpr size_t kPrintedPieceBytes = 1 << 16;

void append(Buffer& out, std::string_view text) {
  out.append(text.data(), text.data() + text.size());
}
void append(Buffer& out, char c) {
  out.push_back(c);
}
void append_number(Buffer& out, int64_t value) {
  const fmt::format_int digits(value);
  append(out, std::string_view(digits.data(), digits.size()));
}
template <typename... Args>
void append_format(Buffer& out, fmt::format_string<Args...> format, Args&&... args) {
  fmt::format_to(std::back_inserter(out), format, std::forward<Args>(args)...);
}

std::string_view width_prefix(Width width) {
  return width == Width::kWord ? "" : width == Width::kLong ? "l" : "ll";
}

void append_mask(Buffer& out, const isa::Mask& mask) {
  using Kind = isa::Mask::Kind;
  if (mask.kind == Kind::kNone) return;
  append(out, '/');
  if (mask.kind == Kind::kPattern) {
    if (mask.double_long) append(out, "ll");
    for (int cycle = 0; cycle < isa::kCyclesPerStep; ++cycle) {
      append(out, (mask.value >> (isa::kCyclesPerStep - 1 - cycle)) & 1 ? '1' : '0');
    }
  } else {
    append(out, mask.double_long ? "$llimr" : "$imr");
    append_number(out, mask.value);
  }
  if (mask.length_check != 0) append(out, mask.length_check);
}

void append_per_cycle_address(Buffer& out, const Operand& operand, int64_t base) {
  if (operand.flat) {
    append(out, '[');
    for (int cycle = 0; cycle < isa::kCyclesPerStep; ++cycle) {
      if (cycle > 0) append(out, ',');
      append_number(out, base + operand.flat_addresses[cycle]);
    }
    append(out, ']');
  } else {
    // `$lmt` alone reads better than `$lmt0`.
    if (!operand.t_indirect || base != 0 || operand.stride != 0) append_number(out, base);
    if (operand.stride != 0) {
      append(out, 'v');
      if (operand.stride != isa::words(operand.width)) append_number(out, operand.stride);
    }
  }
  if (operand.j >= 0) {
    append(out, 'j');
    append_number(out, operand.j);
  }
}

void append_group(Buffer& out, const Operand& operand) {
  if (operand.group < 0) return;
  append(out, '@');
  append_number(out, operand.group);
}

/// `bare_matrix`: the operand of mmul and mfma, which has no address.
void append_operand(Buffer& out, const Operand& operand, const Counters& counters, bool bare_matrix = false) {
  isa::check_internal(operand.space != Space::kVirtual && operand.space != Space::kNone, "printer",
                      "an operand without a place can't be printed");
  isa::check_internal(operand.loop_strides.size() <= counters.size(), "printer",
                      "an operand depends on {} loop counters, but stands in {} loops",
                      operand.loop_strides.size(), counters.size());
  const int64_t base = counters.empty() ? operand.base : isa::resolved_base(operand, counters);
  const std::string_view prefix = width_prefix(operand.width);
  if (operand.negate) append(out, '-');
  auto pe_memory = [&](char bank) {
    append(out, '$');
    append(out, prefix);
    append(out, bank);
    if (operand.t_indirect) append(out, 't');
    append_per_cycle_address(out, operand, base);
  };
  auto wide = [&](std::string_view name, bool address) {
    append(out, '$');
    append(out, prefix);
    append(out, name);
    if (address) append_number(out, base);
  };
  auto named = [&](std::string_view name, bool address) {
    append(out, '$');
    append(out, name);
    if (address) append_number(out, base);
  };
  switch (operand.space) {
    case Space::kLm0:
      pe_memory('m');
      break;
    case Space::kLm1:
      pe_memory('n');
      break;
    case Space::kGrf0:
      pe_memory('r');
      break;
    case Space::kGrf1:
      pe_memory('s');
      break;
    case Space::kT:
      wide("t", false);
      break;
    case Space::kOmr:
      named("omr", true);
      break;
    case Space::kBar0:
      wide("mb", false);
      break;
    case Space::kBar1:
      wide("nb", false);
      break;
    case Space::kNoWrite:
      named("nowrite", false);
      break;
    case Space::kAluf:
      named("aluf", false);
      break;
    case Space::kMauf:
      named("mauf", false);
      break;
    case Space::kLbf:
      named("lbf", false);
      break;
    case Space::kMreadf:
      named("mreadf", false);
      break;
    case Space::kConstant:
      named(isa::fixed_constant_name(static_cast<isa::FixedConstant>(base)), false);
      break;
    case Space::kImmediate:
      append_format(out, "i\"{}\"", static_cast<int32_t>(base));
      break;
    case Space::kMatX:
      wide("x", !bare_matrix);
      break;
    case Space::kMatY:
      wide("y", !bare_matrix);
      break;
    case Space::kL1bm:
      wide("b", true);
      break;
    case Space::kTurnaround:
      wide("bi", false);
      break;
    case Space::kL2bm:
      named("lc", true);
      if (operand.unit >= 0) {
        append(out, '@');
        if (operand.group >= 0) append_number(out, operand.group);
        append(out, '.');
        append_number(out, operand.unit);
      } else {
        append_group(out, operand);
      }
      break;
    case Space::kDar:
      named("dar", true);
      break;
    case Space::kPdm:
      named("p", true);
      append_group(out, operand);
      break;
    case Space::kDram:
      named("d", true);
      append_group(out, operand);
      break;
    case Space::kDramIndirect:
      named("di", true);
      append_group(out, operand);
      break;
    case Space::kNone:
    case Space::kVirtual:
      break;
  }
  if (operand.extend) append(out, 'e');
  if (operand.reduce) append(out, 'r');
}

void append_set(Buffer& out, const isa::L1bSet& set) {
  using Kind = isa::L1bSet::Kind;
  switch (set.kind) {
    case Kind::kAll:
      break;
    case Kind::kOne:
      append_format(out, "@{}", set.k);
      break;
    case Kind::kMasked:
      append_format(out, "@{}/{}", set.k, set.ignore_mask);
      break;
    case Kind::kList: {
      append(out, "@[");
      bool first = true;
      for (int b = 0; b < 32; ++b) {
        if (!((set.list >> b) & 1)) continue;
        if (!first) append(out, ',');
        append_number(out, b);
        first = false;
      }
      append(out, ']');
      break;
    }
  }
}

void append_instruction(Buffer& out, const Instruction& instruction, const Counters& counters) {
  const IssueGroup group = isa::issue_group(instruction);
  append(out, isa::mnemonic(instruction));
  if (group == IssueGroup::kWait) {
    append_format(out, " i{:02x}", instruction.tag);
    return;
  }
  if (instruction.block_bits >= 0) append_format(out, "/{}", instruction.block_bits);
  if (instruction.unit >= 0) append_format(out, "@{}", instruction.unit);
  append_set(out, instruction.l1b_set);
  append_mask(out, instruction.zero_flush);
  if (group == IssueGroup::kMv) {
    const bool bare = isa::info(instruction.opcode).source_count == 0 && instruction.size_lw == 0 &&
                      instruction.tag == 0 && instruction.priority == 0;
    if (!bare) append_format(out, "/n{}", instruction.size_lw);
    if (instruction.tag != 0) append_format(out, "i{:02x}", instruction.tag);
    if (instruction.indirect_n != 1) append_format(out, "nd{}", instruction.indirect_n);
    if (instruction.priority != 0) append_format(out, "p{}", instruction.priority);
  }
  for (const Operand& operand : instruction.sources) {
    append(out, ' ');
    if (operand.space == Space::kImmediate) {
      append(out, print_payload(instruction, isa::resolved_base(operand, counters)));
    } else {
      append_operand(out, operand, counters, group == IssueGroup::kMauCalc);
    }
  }
  for (const Operand& operand : instruction.destinations) {
    append(out, ' ');
    append_operand(out, operand, counters);
    append_mask(out, operand.mask);
  }
}

std::string_view debug_space(Space space) {
  switch (space) {
    case Space::kLm0:
      return "$lm";
    case Space::kLm1:
      return "$ln";
    case Space::kGrf0:
      return "$lr";
    case Space::kGrf1:
      return "$ls";
    case Space::kT:
      return "$lt";
    case Space::kOmr:
      return "$omr";
    case Space::kL1bm:
      return "$lb";
    case Space::kL2bm:
      return "$lc";
    case Space::kDram:
      return "$d";
    case Space::kPdm:
      return "$p";
    default:
      throw isa::InternalError("internal error in printer: d get and d set don't know this space");
  }
}

void append_debug_place(Buffer& out, Space space, int64_t address, const std::array<int16_t, 5>& place) {
  constexpr std::string_view kLetters = "ncbmp";
  append(out, debug_space(space));
  if (space != Space::kT || address != 0) append_number(out, address);
  for (size_t level = 0; level < place.size(); ++level) {
    if (place[level] >= 0) append_format(out, "{}{}", kLetters[level], place[level]);
  }
}

void append_debug_get(Buffer& out, const isa::DebugGet& get) {
  append(out, "d get");
  if (get.type >= 'A' && get.type <= 'Z') {
    append(out, 'b');
    append(out, static_cast<char>(get.type - 'A' + 'a'));
  } else if (get.type != 0) {
    append(out, get.type);
  }
  append(out, ' ');
  append_debug_place(out, get.space, get.address, get.place);
  append(out, ' ');
  append_number(out, get.count);
}

void append_payload(Buffer& out, const std::vector<uint64_t>& payload) {
  for (uint64_t lw : payload) append_format(out, "{:016X}", lw);
}

struct StatementPrinter {
  Buffer& out;
  const Counters& counters;

  void operator()(const isa::Step& step) const {
    bool first = true;
    for (const Instruction& instruction : step.instructions) {
      if (!first) append(out, "; ");
      append_instruction(out, instruction, counters);
      first = false;
    }
  }
  void operator()(const isa::Nop& nop) const {
    append(out, "nop");
    if (nop.count != 1) append_format(out, "/{}", nop.count);
    if (nop.wait_tag != 0) append_format(out, "; wait i{:02x}", nop.wait_tag);
  }
  void operator()(const isa::Mv& mv) const { append_instruction(out, mv.instruction, counters); }
  void operator()(const isa::MaskControl& control) const {
    constexpr std::string_view kLetters = "rstmnk";
    append(out, "mask");
    if (control.explicit_length) append(out, control.double_long ? "ll" : "l");
    for (size_t i = 0; i < kLetters.size(); ++i) {
      if ((control.spaces >> i) & 1) append(out, kLetters[i]);
    }
    append_format(out, " {}", control.entry);
  }
  void operator()(const isa::DebugGet& get) const {
    if (get.text.empty()) {
      append_debug_get(out, get);
    } else {
      append(out, get.text);
    }
  }
  void operator()(const isa::DebugSet& set) const {
    append(out, "d set ");
    append_debug_place(out, set.space, set.address, set.place);
    append_format(out, " {} ", set.payload.size());
    append_payload(out, set.payload);
  }
  void operator()(const isa::DramPreload& preload) const {
    append_format(out, "r {} {:09X} {:03X} ", preload.group, preload.address, preload.payload.size());
    append_payload(out, preload.payload);
  }
  void operator()(const isa::RegionMark& mark) const {
    append(out, mark.begin ? "# region " : "# endregion");
    append(out, mark.name);
  }
  void operator()(const isa::Quit&) const { append(out, "quit"); }
  void operator()(const isa::Loop&) const {}
};

void append_executed(Buffer& out, const std::vector<isa::Statement>& statements,
                     const std::function<void(std::string_view)>& sink) {
  Counters counters;
  isa::for_each_executed(statements, counters, [&](const isa::Statement& statement, const Counters& now) {
    std::visit(StatementPrinter{out, now}, statement.kind);
    append(out, '\n');
    if (sink && out.size() >= kPrintedPieceBytes) {
      sink({out.data(), out.size()});
      out.clear();
    }
    return true;
  });
}

}  // namespace

std::string print_operand(const Operand& operand, bool destination) {
  Buffer out;
  append_operand(out, operand, {});
  if (destination) append_mask(out, operand.mask);
  return fmt::to_string(out);
}

std::string print_instruction(const Instruction& instruction) {
  Buffer out;
  append_instruction(out, instruction, {});
  return fmt::to_string(out);
}

std::string print_statement(const isa::Statement& statement) {
  Buffer out;
  if (const auto* loop = std::get_if<isa::Loop>(&statement.kind)) {
    std::vector<isa::Statement> one{{*loop, statement.line}};
    append_executed(out, one, nullptr);
    if (out.size() > 0) out.resize(out.size() - 1);
  } else {
    std::visit(StatementPrinter{out, {}}, statement.kind);
  }
  return fmt::to_string(out);
}

std::string debug_get_text(const isa::DebugGet& get) {
  Buffer out;
  append_debug_get(out, get);
  return fmt::to_string(out);
}

void print(const isa::Program& program, const std::function<void(std::string_view)>& sink) {
  Buffer out;
  append_executed(out, program.statements, sink);
  if (out.size() > 0) sink({out.data(), out.size()});
}

std::string print(const isa::Program& program) {
  std::string text;
  print(program, [&](std::string_view piece) { text += piece; });
  return text;
}

}  // namespace kodama::assembler
