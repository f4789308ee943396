#include "assembler/program_file.h"

#include <algorithm>
#include <boost/crc.hpp>

#include "assembler/assembler.h"
#include "assembler/lexer.h"
#include "isa/error.h"
#include "isa/file.h"

namespace kodama::assembler {
namespace {

using isa::Instruction;
using isa::Operand;
using isa::Statement;

/// One description of the format for both directions: `Archive` either appends a field to the bytes or reads
/// it from them. An integer is visited with the values it may have.
template <typename Archive>
class Fields {
 public:
  explicit Fields(Archive& archive) : archive_(archive) {}

  template <typename Statements>
  void statements(Statements& list, int depth) {
    if (depth > isa::kMaxLoopDepth) archive_.fail("loops are nested too deeply");
    archive_.list(list, [&](auto& statement) { this->statement(statement, depth); });
  }

 private:
  template <typename T>
  void integer(T& value, int64_t low = std::numeric_limits<T>::min(),
               int64_t high = std::numeric_limits<T>::max()) {
    archive_.integer(value, low, high);
  }
  template <typename Enum>
  void enumeration(Enum& value, std::remove_const_t<Enum> last) {
    archive_.enumeration(value, static_cast<int64_t>(last));
  }

  template <typename M>
  void mask(M& mask) {
    enumeration(mask.kind, isa::Mask::Kind::kRegister);
    integer(mask.value);
    archive_.boolean(mask.double_long);
    integer(mask.length_check, 0, 127);
  }
  template <typename O>
  void operand(O& operand) {
    enumeration(operand.space, isa::Space::kDramIndirect);  // nothing virtual
    archive_.enumeration_of(operand.width, {isa::Width::kWord, isa::Width::kLong, isa::Width::kDoubleLong});
    archive_.boolean(operand.flat);
    archive_.boolean(operand.t_indirect);
    archive_.boolean(operand.negate);
    archive_.boolean(operand.extend);
    archive_.boolean(operand.reduce);
    integer(operand.j, -1, isa::kPePerMab - 1);
    integer(operand.group, -1, 127);
    integer(operand.unit, -1, 127);
    mask(operand.mask);
    integer(operand.stride);
    integer(operand.base);
    for (auto& address : operand.flat_addresses) integer(address);
    archive_.list(operand.loop_strides, [&](auto& stride) { integer(stride); });
  }
  template <typename I>
  void instruction(I& i) {
    archive_.enumeration(i.opcode, isa::kOpcodeCount - 1);
    archive_.enumeration(i.precision, isa::kPrecisionCount - 1);
    archive_.boolean(i.unsigned_op);
    archive_.boolean(i.round_output);
    integer(i.half_select, 0, 127);
    integer(i.block_bits, -1, 9);
    mask(i.zero_flush);
    archive_.enumeration(i.reduce_op, isa::kReduceOpCount - 1);
    integer(i.unit, -1, 127);
    integer(i.rotation, -1, 1);
    enumeration(i.l1b_set.kind, isa::L1bSet::Kind::kList);
    integer(i.l1b_set.k);
    integer(i.l1b_set.ignore_mask);
    integer(i.l1b_set.list);
    enumeration(i.immediate_kind, isa::ImmediateKind::kLong);
    integer(i.size_lw, 0);
    integer(i.tag, 0);
    integer(i.priority, 0, 3);
    integer(i.indirect_n);
    archive_.list(i.sources, [&](auto& o) { operand(o); });
    archive_.list(i.destinations, [&](auto& o) { operand(o); });
  }
  template <typename P>
  void place(P& place) {
    for (auto& part : place) integer(part, -1);
  }
  template <typename W>
  void words(W& payload) {
    archive_.list(payload, [&](auto& word) { archive_.word(word); });
  }

  template <typename S>
  void statement(S& statement, int depth) {
    integer(statement.line, 0);
    archive_.variant(statement.kind, [&](auto& kind) { fields(kind, depth); });
  }
  static const std::vector<isa::Instruction>& list_of(const isa::Instructions& instructions) {
    return instructions;
  }
  static std::vector<isa::Instruction>& list_of(isa::Instructions& instructions) {
    return instructions.own();
  }
  void fields(auto& kind, int depth) {
    using Kind = std::remove_cvref_t<decltype(kind)>;
    if constexpr (std::is_same_v<Kind, isa::Step>) {
      archive_.list(list_of(kind.instructions), [&](auto& i) { instruction(i); });
    } else if constexpr (std::is_same_v<Kind, isa::Nop>) {
      integer(kind.count, 1);
      integer(kind.wait_tag, 0);
    } else if constexpr (std::is_same_v<Kind, isa::Mv>) {
      instruction(kind.instruction);
    } else if constexpr (std::is_same_v<Kind, isa::MaskControl>) {
      archive_.boolean(kind.double_long);
      archive_.boolean(kind.explicit_length);
      integer(kind.spaces);
      integer(kind.entry);
    } else if constexpr (std::is_same_v<Kind, isa::DebugGet>) {
      archive_.text(kind.text);
      integer(kind.type, 0, 127);
      enumeration(kind.space, isa::Space::kDramIndirect);
      integer(kind.address, 0);
      integer(kind.count, 0);
      place(kind.place);
    } else if constexpr (std::is_same_v<Kind, isa::DebugSet>) {
      enumeration(kind.space, isa::Space::kDramIndirect);
      integer(kind.address, 0);
      place(kind.place);
      words(kind.payload);
    } else if constexpr (std::is_same_v<Kind, isa::DramPreload>) {
      integer(kind.group, 0);
      integer(kind.address, 0);
      words(kind.payload);
    } else if constexpr (std::is_same_v<Kind, isa::RegionMark>) {
      archive_.boolean(kind.begin);
      archive_.text(kind.name);
    } else if constexpr (std::is_same_v<Kind, isa::Loop>) {
      integer(kind.count, 0);
      statements(kind.body, depth + 1);
    } else {
      static_assert(std::is_same_v<Kind, isa::Quit>);
    }
  }

  Archive& archive_;
};

class Writer {
 public:
  void byte(uint8_t value) { bytes_ += static_cast<char>(value); }
  void unsigned_number(uint64_t value) {
    for (; value >= 0x80; value >>= 7) byte(static_cast<uint8_t>(value | 0x80));
    byte(static_cast<uint8_t>(value));
  }
  template <typename T>
  void integer(const T& value, int64_t, int64_t) {
    const auto wide = static_cast<int64_t>(value);
    unsigned_number(static_cast<uint64_t>(wide) << 1 ^ static_cast<uint64_t>(wide >> 63));
  }
  template <typename Enum>
  void enumeration(const Enum& value, int64_t) {
    unsigned_number(static_cast<uint64_t>(value));
  }
  template <typename Enum>
  void enumeration_of(const Enum& value, std::initializer_list<Enum>) {
    unsigned_number(static_cast<uint64_t>(value));
  }
  void boolean(const bool& value) { byte(value ? 1 : 0); }
  void word(const uint64_t& value) {
    for (int shift = 0; shift < 64; shift += 8) byte(static_cast<uint8_t>(value >> shift));
  }
  void text(const std::string& value) {
    unsigned_number(value.size());
    bytes_ += value;
  }
  template <typename List, typename Visit>
  void list(const List& values, Visit&& visit) {
    unsigned_number(values.size());
    for (const auto& value : values) visit(value);
  }
  template <typename... Kinds, typename Visit>
  void variant(const std::variant<Kinds...>& value, Visit&& visit) {
    unsigned_number(value.index());
    std::visit(visit, value);
  }
  [[noreturn]] void fail(const std::string& what) const {
    throw isa::InternalError("internal error in save_program: " + what);
  }
  void fixed(uint32_t value) {
    for (int shift = 0; shift < 32; shift += 8) byte(static_cast<uint8_t>(value >> shift));
  }
  std::string& bytes() { return bytes_; }

 private:
  std::string bytes_;
};

class Reader {
 public:
  Reader(std::string_view bytes, const std::string& file) : bytes_(bytes), file_(file) {}

  [[noreturn]] void fail(const std::string& what) const {
    throw isa::UserError(fmt::format("{}: not a program of Kodama: at byte {}, {}", file_, at_, what));
  }
  uint8_t byte() {
    if (at_ >= bytes_.size()) fail("it ends too early");
    return static_cast<uint8_t>(bytes_[at_++]);
  }
  uint64_t unsigned_number() {
    uint64_t value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      const uint8_t part = byte();
      if (shift == 63 && part > 1) fail("a number has more than 64 bits");
      value |= uint64_t{part & 0x7fu} << shift;
      if ((part & 0x80) != 0) continue;
      // One number, one spelling: then one program is one sequence of bytes.
      if (part == 0 && shift > 0) fail("a number is longer than it need be");
      return value;
    }
    fail("a number has more than 64 bits");
  }
  template <typename T>
  void integer(T& value, int64_t low, int64_t high) {
    const uint64_t coded = unsigned_number();
    const auto number = static_cast<int64_t>(coded >> 1 ^ (0 - (coded & 1)));
    const auto least = static_cast<int64_t>(std::numeric_limits<T>::min());
    const auto most = sizeof(T) == 8 ? std::numeric_limits<int64_t>::max()
                                     : static_cast<int64_t>(std::numeric_limits<T>::max());
    if (number < std::max(low, least) || number > std::min(high, most))
      fail(fmt::format("found the number {}", number));
    value = static_cast<T>(number);
  }
  template <typename Enum>
  void enumeration(Enum& value, int64_t last) {
    const uint64_t number = unsigned_number();
    if (number > static_cast<uint64_t>(last)) fail(fmt::format("found the kind {}", number));
    value = static_cast<Enum>(number);
  }
  template <typename Enum>
  void enumeration_of(Enum& value, std::initializer_list<Enum> allowed) {
    const uint64_t number = unsigned_number();
    for (const Enum one : allowed) {
      if (number == static_cast<uint64_t>(one)) {
        value = one;
        return;
      }
    }
    fail(fmt::format("found the kind {}", number));
  }
  void boolean(bool& value) {
    const uint8_t number = byte();
    if (number > 1) fail(fmt::format("found {} for a truth value", number));
    value = number == 1;
  }
  void word(uint64_t& value) {
    value = 0;
    for (int shift = 0; shift < 64; shift += 8) value |= uint64_t{byte()} << shift;
  }
  void text(std::string& value) {
    const uint64_t size = unsigned_number();
    if (size > bytes_.size() - at_) fail(fmt::format("a text of {} bytes ends too early", size));
    value = bytes_.substr(at_, size);
    at_ += size;
  }
  template <typename List, typename Visit>
  void list(List& values, Visit&& visit) {
    const uint64_t size = unsigned_number();
    // Every element takes a byte at least.
    if (size > bytes_.size() - at_) fail(fmt::format("a list of {} elements ends too early", size));
    for (uint64_t i = 0; i < size; ++i) {
      values.emplace_back();
      visit(values.back());
    }
  }
  template <typename... Kinds, typename Visit>
  void variant(std::variant<Kinds...>& value, Visit&& visit) {
    const uint64_t index = unsigned_number();
    uint64_t k = 0;
    const bool found = ((k++ == index ? (value.template emplace<Kinds>(), true) : false) || ...);
    if (!found) fail(fmt::format("found a statement of kind {}", index));
    std::visit(visit, value);
  }
  uint32_t fixed() {
    uint32_t value = 0;
    for (int shift = 0; shift < 32; shift += 8) value |= uint32_t{byte()} << shift;
    return value;
  }
  bool at_end() const { return at_ == bytes_.size(); }

 private:
  std::string_view bytes_;
  const std::string& file_;
  size_t at_ = 0;
};

constexpr size_t kSumBytes = sizeof(uint32_t);
uint32_t checksum(std::string_view bytes) {
  boost::crc_32_type crc;
  crc.process_bytes(bytes.data(), bytes.size());
  return crc.checksum();
}

/// What a program must be beyond its form: statements that the assembler could have made and that pass its
/// checks wherever the loops around them lead. Addresses are affine in the counters, so it is enough to look
/// at the first iteration, at one more of each loop (then alignments hold in all, and operands that agree do
/// so in all), and at the two ends of every operand's addresses.
class Checker {
 public:
  Checker(const isa::Chip& chip, const std::string& file) : chip_(chip), file_(file) {}

  void check(const std::vector<Statement>& statements) {
    for (const Statement& statement : statements) {
      if (const auto* loop = std::get_if<isa::Loop>(&statement.kind)) {
        counts_.push_back(loop->count);
        check(loop->body);
        counts_.pop_back();
      } else {
        check(statement);
      }
    }
  }

 private:
  using Counters = std::vector<int64_t>;

  void check(const Statement& statement) {
    check_is_text(check_at(statement, Counters(counts_.size(), 0)));
    const bool runs = std::ranges::all_of(counts_, [](int64_t count) { return count > 0; });
    if (!runs) return;
    for (size_t d = 0; d < counts_.size(); ++d) {
      if (counts_[d] < 2) continue;
      Counters second(counts_.size(), 0);
      second[d] = 1;
      check_at(statement, second);
    }
    const auto check_ends = [&](const Instruction& instruction) {
      for (const std::vector<Operand>* operands : {&instruction.sources, &instruction.destinations}) {
        for (const Operand& operand : *operands) {
          if (operand.loop_strides.empty()) continue;
          Counters least(counts_.size(), 0);
          Counters most(counts_.size(), 0);
          for (size_t d = 0; d < operand.loop_strides.size(); ++d) {
            (operand.loop_strides[d] < 0 ? least : most)[d] = counts_[d] - 1;
          }
          check_at(statement, least);
          check_at(statement, most);
        }
      }
    };
    if (const auto* step = std::get_if<isa::Step>(&statement.kind)) {
      for (const Instruction& instruction : step->instructions) check_ends(instruction);
    } else if (const auto* mv = std::get_if<isa::Mv>(&statement.kind)) {
      check_ends(mv->instruction);
    }
  }

  isa::SourceLocation where(const Statement& statement) const { return {file_, statement.line, 0}; }

  /// Returns the statement with the counters in its addresses.
  Statement check_at(Statement statement, const Counters& counters) const {
    const auto resolve = [&](Instruction& instruction) {
      for (std::vector<Operand>* operands : {&instruction.sources, &instruction.destinations}) {
        for (Operand& operand : *operands) {
          if (operand.loop_strides.size() > counters.size())
            throw isa::UserError(where(statement),
                                 "an operand has strides for more loops than there are around it");
          for (size_t d = 0; d < operand.loop_strides.size(); ++d) {
            int64_t moved = 0;
            if (__builtin_mul_overflow(operand.loop_strides[d], counters[d], &moved) ||
                __builtin_add_overflow(operand.base, moved, &operand.base)) {
              throw isa::UserError(where(statement), "an address leaves the range of 64 bits");
            }
          }
          operand.loop_strides.clear();
        }
      }
    };
    if (auto* step = std::get_if<isa::Step>(&statement.kind)) {
      for (Instruction& instruction : step->instructions.own()) resolve(instruction);
    } else if (auto* mv = std::get_if<isa::Mv>(&statement.kind)) {
      resolve(mv->instruction);
    }
    check_statement(statement, chip_, where(statement));
    return statement;
  }

  /// Fields that a statement's text doesn't show are at rest, and the text of a `d get` is that of the `d
  /// get`. So what is run is what `kodama dis` shows.
  void check_is_text(const Statement& statement) const {
    const std::string text = print_statement(statement);
    AssembleOptions options;
    options.first_line = std::max(statement.line, 1);
    const isa::Program again = assemble(text, file_, chip_, options);
    if (again.statements.size() == 1) {
      if (again.statements[0] == statement) return;
      // A text that nobody wrote is the normal one.
      const auto* get = std::get_if<isa::DebugGet>(&statement.kind);
      auto* get_again = std::get_if<isa::DebugGet>(&again.statements[0].kind);
      if (get != nullptr && get_again != nullptr && get->text.empty()) {
        isa::DebugGet with_text = *get;
        with_text.text = get_again->text;
        if (*get_again == with_text) return;
      }
    }
    throw isa::UserError(where(statement),
                         fmt::format("holds more than its text '{}' says; no assembler made it", text));
  }

  const isa::Chip& chip_;
  const std::string& file_;
  Counters counts_;
};

/// A name without control characters, which don't belong into messages.
std::string printable(std::string name) {
  std::ranges::replace_if(
      name, [](unsigned char c) { return c < 0x20; }, '?');
  return name;
}

}  // namespace

bool looks_like_program_file(std::string_view bytes) {
  return bytes.starts_with(kProgramMagic);
}

std::string save_program(const isa::Program& program, const isa::Chip& chip) {
  Writer writer;
  writer.bytes() += kProgramMagic;
  writer.fixed(kProgramVersion);
  writer.text(chip.name);
  writer.text(chip.hash);
  writer.text(printable(program.source_name));
  Fields<Writer>(writer).statements(program.statements, 0);
  return sealed_program(std::move(writer.bytes()) + std::string(kSumBytes, '\0'));
}

std::string sealed_program(std::string_view bytes) {
  if (bytes.size() < kSumBytes) return std::string(bytes);
  Writer writer;
  writer.bytes() = bytes.substr(0, bytes.size() - kSumBytes);
  writer.fixed(checksum(writer.bytes()));
  return std::move(writer.bytes());
}

isa::Program load_program(std::string_view bytes, const std::string& file_name, const isa::Chip& chip) {
  const auto refuse = [&](const std::string& what) {
    throw isa::UserError(fmt::format("{}: {}", file_name, what));
  };
  if (!looks_like_program_file(bytes)) refuse("not a program of Kodama: it begins with other bytes");
  if (bytes.size() < kProgramMagic.size() + sizeof(uint32_t) + kSumBytes) {
    refuse("not a program of Kodama: it ends too early");
  }
  const std::string_view body = bytes.substr(0, bytes.size() - kSumBytes);
  Reader sum(bytes.substr(body.size()), file_name);
  const bool intact = sum.fixed() == checksum(body);
  Reader reader(body.substr(kProgramMagic.size()), file_name);
  const uint32_t version = reader.fixed();
  if (version != kProgramVersion)
    refuse(fmt::format("a program file of version {}; allowed is {}", version, kProgramVersion));
  if (!intact) refuse("the checksum is wrong: the file is cut off or has been changed");
  std::string name;
  std::string hash;
  reader.text(name);
  reader.text(hash);
  if (hash != chip.hash) {
    refuse(fmt::format("a program for the chip '{}' (hash {}); found '{}' (hash {})", excerpt(name),
                       excerpt(hash), chip.name, chip.hash));
  }
  isa::Program program;
  reader.text(program.source_name);
  if (program.source_name != printable(program.source_name)) {
    reader.fail("the name of the source holds control characters");
  }
  Fields<Reader>(reader).statements(program.statements, 0);
  if (!reader.at_end()) reader.fail("bytes follow behind the last statement");
  const isa::ProgramCounts counts = isa::count(program);
  if (counts.steps > isa::kMaxProgramSteps || counts.statements > isa::kMaxProgramSteps) {
    refuse(fmt::format("its loops make more than {} steps or statements", isa::kMaxProgramSteps));
  }
  Checker(chip, file_name).check(program.statements);
  return program;
}

isa::Program read_program(const std::string& path, const isa::Chip& chip) {
  const std::string bytes = isa::read_file(path);
  if (looks_like_program_file(bytes)) return load_program(bytes, path, chip);
  if (looks_like_words(bytes)) return from_words(bytes, path, chip);
  return assemble(bytes, path, chip);
}

isa::Program read_assembled(const std::string& path, const isa::Chip& chip) {
  const std::string bytes = isa::read_file(path);
  return looks_like_program_file(bytes) ? load_program(bytes, path, chip) : from_words(bytes, path, chip);
}

void write_program(const isa::Program& program, ProgramForm form, const isa::Chip& chip,
                   const WordOptions& options, const std::function<void(std::string_view)>& output) {
  switch (form) {
    case ProgramForm::kBinary:
      output(save_program(program, chip));
      return;
    case ProgramForm::kWords:
      to_words(program, output, options);
      return;
    case ProgramForm::kText:
      if (const int64_t lines = isa::count(program).statements; lines > kMaxTextLines) {
        throw isa::UnsupportedError(
            fmt::format("{}: a program of {} lines is too long as text, which has no loops; allowed: at most "
                        "{}; keep it in the binary format",
                        program.source_name, lines, kMaxTextLines));
      }
      print(program, output);
      return;
  }
}

}  // namespace kodama::assembler
