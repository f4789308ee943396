#include "assembler/machine_words.h"

#include <algorithm>
#include <array>

#include "assembler/assembler.h"
#include "assembler/checks.h"
#include "isa/error.h"

namespace kodama::assembler {
namespace {

using isa::Instruction;
using isa::InstructionInfo;
using isa::IssueGroup;
using isa::Opcode;
using isa::Operand;
using isa::Precision;
using isa::Space;
using isa::Width;

/// The text goes to the output in pieces of about this size.
constexpr size_t kPieceBytes = 1 << 16;

constexpr auto kC = Grade::kCertain;
constexpr auto kI = Grade::kInferred;
constexpr auto kU = Grade::kUnknown;

/// The last column of the table.
constexpr uint32_t seen(std::initializer_list<int> values) {
  uint32_t set = 0;
  for (const int value : values) set |= uint32_t{1} << value;
  return set;
}

// clang-format off
constexpr WordField kFields[] = {
    {"ll.b0", 0, 1, 0, kU},
    {"ll.fwd", 1, 1, 0, kC, seen({1})},  // 0 outside of nop: noforward, inferred
    {"mrc.imr", 2, 5, 0, kC, seen({24})},
    {"mrc.wl", 7, 1, 0, kI},
    {"mrc.en_r", 8, 1, 0, kC}, {"mrc.en_s", 9, 1, 0, kC}, {"mrc.en_t", 10, 1, 0, kI},
    {"mrc.en_m", 11, 1, 0, kC}, {"mrc.en_n", 12, 1, 0, kI}, {"mrc.en_k", 13, 1, 0, kI},
    {"mrc.rest", 14, 8, 0, kU},
    {"trc.we", 22, 1, 0, kC},
    {"trc.isel", 23, 2, 0, kC, seen({0, 1})},
    {"rfc0.we", 25, 1, 0, kC},
    {"rfc0.isel", 26, 2, 0, kC, seen({0, 1})},
    {"rfc0.waddr", 28, 9, 0, kC},
    {"rfc0.winc", 37, 8, 0, kC, seen({0, 1})},
    {"rfc0.wlen", 45, 2, 1, kC, seen({1})},
    {"rfc0.raddr", 47, 9, 0, kC},
    {"rfc0.rinc", 56, 8, 0, kC, seen({0, 1})},
    {"rfc0.rlen", 64, 2, 1, kC, seen({1})},
    {"rfc1.we", 66, 1, 0, kC},
    {"rfc1.isel", 67, 2, 0, kC, seen({0, 1})},
    {"rfc1.waddr", 69, 9, 0, kC},
    {"rfc1.winc", 78, 8, 0, kC, seen({0, 1})},
    {"rfc1.wlen", 86, 2, 1, kC, seen({1, 2})},
    {"rfc1.raddr", 88, 9, 0, kC},
    {"rfc1.rinc", 97, 8, 0, kC, seen({0, 1, 2})},
    {"rfc1.rlen", 105, 2, 0, kC, seen({1, 2})},
    {"lm0.we", 107, 1, 0, kC},
    {"lm0.isel", 108, 2, 0, kC, seen({0, 1})},
    {"lm0.addr", 110, 12, 0, kC},
    {"lm0.inc", 122, 11, 0, kC, seen({0, 1})},
    {"lm0.mod", 133, 4, 0, kI},  // the order of its flags is not known
    {"lm0.len", 137, 2, 0, kC, seen({1, 2})},
    {"lm1.we", 139, 1, 0, kC},
    {"lm1.isel", 140, 2, 0, kC, seen({0, 1})},
    {"lm1.addr", 142, 12, 0, kC},
    {"lm1.inc", 154, 11, 0, kC, seen({0, 1, 2})},
    {"lm1.mod", 165, 3, 0, kI},
    {"lm1.len", 168, 2, 0, kC, seen({1, 2})},
    {"mauc.prec", 170, 2, 0, kC},
    {"mauc.calc", 172, 1, 0, kC},
    {"mauc.matrix", 173, 1, 0, kC},
    {"mauc.b174", 174, 1, 0, kI},  // perhaps the suffix r of the opcode: never set
    {"mauc.mwrite", 175, 1, 0, kC},
    {"mauc.maddr", 176, 4, 0, kC, seen({0, 4, 8, 12})},
    {"mauc.half", 180, 1, 0, kC},
    {"mauc.mswap", 181, 1, 0, kC},
    {"mauc.neg0", 182, 1, 0, kC}, {"mauc.neg1", 183, 1, 0, kC}, {"mauc.neg2", 184, 1, 0, kC},
    {"mauc.cvt0", 185, 1, 0, kI}, {"mauc.cvt1", 186, 1, 0, kC}, {"mauc.cvt2", 187, 1, 0, kI},
    {"mauc.op", 188, 2, 0, kC},
    {"mauc.src0", 190, 3, 7, kC}, {"mauc.src1", 193, 3, 7, kC}, {"mauc.src2", 196, 3, 7, kC},
    {"aluc.prec", 199, 2, 3, kC},
    {"aluc.op", 201, 5, 0, kC, seen({10, 16, 29, 30, 31})},
    {"aluc.u", 206, 1, 0, kC},
    {"aluc.cvt0", 207, 1, 0, kC}, {"aluc.cvt1", 208, 1, 0, kI},
    {"aluc.src0", 209, 4, 8, kC, seen({0, 3, 12, 14})},
    {"aluc.src1", 213, 3, 7, kC, seen({0})},
    {"l1bm.b216", 216, 1, 0, kU},
    {"l1bm.op", 217, 4, 0, kC, seen({13, 15})},
    {"l1bm.addr", 221, 13, 0, kC},
    {"l1bm.rest0", 234, 7, 0, kU},
    {"l1bm.src", 241, 3, 7, kC, seen({3, 4, 5})},
    {"l1bm.rest1", 244, 12, 0, kU},
    {"l2bm.rest0", 256, 20, 0, kU}, {"l2bm.b276", 276, 2, 3, kU}, {"l2bm.rest1", 278, 5, 0, kU},
    {"l2bm.darwrite", 283, 1, 0, kI},
    {"wd", 284, 8, 0, kI},
};
// clang-format on
constexpr size_t kFieldCount = std::size(kFields);

/// A field by its name, found when this file is compiled.
struct FieldName {
  consteval FieldName(const char* name) : index(kFieldCount) {
    for (size_t i = 0; i < kFieldCount; ++i) {
      if (kFields[i].name == std::string_view(name)) index = i;
    }
    if (index == kFieldCount) throw "no such field";
  }
  constexpr explicit FieldName(size_t i) : index(i) {}
  constexpr const WordField& operator*() const { return kFields[index]; }
  constexpr const WordField* operator->() const { return &kFields[index]; }

  size_t index;
};

int get(const MachineWord& word, const WordField& f) {
  int value = 0;
  for (int i = 0; i < f.width; ++i)
    value = value << 1 | static_cast<int>(word[static_cast<size_t>(f.first + i)]);
  return value;
}
void put(MachineWord& word, const WordField& f, int value) {
  for (int i = 0; i < f.width; ++i)
    word[static_cast<size_t>(f.first + i)] = (value >> (f.width - 1 - i) & 1) != 0;
}

// Numbers inside fields.

constexpr int kUnitMau = 0;
constexpr int kUnitAlu = 1;

/// mauc.src0-2 and l1bm.src.
constexpr std::pair<Space, int> kSelectors[] = {{Space::kGrf0, 0}, {Space::kGrf1, 1}, {Space::kT, 2},
                                                {Space::kLm0, 3},  {Space::kLm1, 4},  {Space::kMauf, 5},
                                                {Space::kAluf, 6}};
struct AluSource {
  Space space;
  int value;
};
constexpr AluSource kAluSources[] = {{Space::kGrf0, 0},  {Space::kGrf1, 1}, {Space::kT, 2},
                                     {Space::kLm0, 3},   {Space::kLm1, 4},  {Space::kMauf, 11},
                                     {Space::kAluf, 12}, {Space::kLbf, 13}, {Space::kMreadf, 14}};
/// The row with this number in the opcode field of its unit; null when none is known.
template <typename Predicate>
const InstructionInfo* row_of(IssueGroup group, int value, Predicate&& predicate) {
  for (const InstructionInfo& row : isa::instruction_table()) {
    if (row.group == group && row.word.value == value && predicate(row)) return &row;
  }
  return nullptr;
}
const InstructionInfo* row_of(IssueGroup group, int value) {
  return row_of(group, value, [](const InstructionInfo&) { return true; });
}
bool takes_immediate(const InstructionInfo& row) {
  return (row.sources[0] & isa::space_bit(Space::kImmediate)) != 0;
}
struct PrecisionCode {
  Precision precision;
  int value;
  Grade grade;
};
constexpr PrecisionCode kMauPrecisions[] = {{Precision::kDouble, 0, kC},
                                            {Precision::kFloat, 1, kC},
                                            {Precision::kHalf, 2, kC},
                                            {Precision::kGFloat, 3, kC}};
/// Long shares its number with double: which letter was written doesn't show, and makes no difference to
/// passa.
constexpr PrecisionCode kAluPrecisions[] = {{Precision::kDouble, 0, kC}, {Precision::kFloat, 1, kC},
                                            {Precision::kHalf, 2, kC},   {Precision::kGFloat, 3, kC},
                                            {Precision::kLong, 0, kC},   {Precision::kInt, 1, kI},
                                            {Precision::kShort, 2, kI}};

/// The largest L1BM address of which all bits were seen, and what it is a multiple of.
constexpr int kL1bmAddressSeen = 508;
constexpr int kL1bmAddressStep = 4;

/// The fields of one PE memory. A GRF has a port to read and one to write; an LM has one for both.
struct MemoryFields {
  Space space;
  FieldName we, isel, enable;
  struct Port {
    FieldName address, increment, length;
  } read, write;
  FieldName modifier;  ///< refused with for T-indirect and j addresses
};
constexpr MemoryFields kMemories[] = {
    {Space::kGrf0,
     "rfc0.we",
     "rfc0.isel",
     "mrc.en_r",
     {"rfc0.raddr", "rfc0.rinc", "rfc0.rlen"},
     {"rfc0.waddr", "rfc0.winc", "rfc0.wlen"},
     "rfc0.raddr"},
    {Space::kGrf1,
     "rfc1.we",
     "rfc1.isel",
     "mrc.en_s",
     {"rfc1.raddr", "rfc1.rinc", "rfc1.rlen"},
     {"rfc1.waddr", "rfc1.winc", "rfc1.wlen"},
     "rfc1.raddr"},
    {Space::kLm0,
     "lm0.we",
     "lm0.isel",
     "mrc.en_m",
     {"lm0.addr", "lm0.inc", "lm0.len"},
     {"lm0.addr", "lm0.inc", "lm0.len"},
     "lm0.mod"},
    {Space::kLm1,
     "lm1.we",
     "lm1.isel",
     "mrc.en_n",
     {"lm1.addr", "lm1.inc", "lm1.len"},
     {"lm1.addr", "lm1.inc", "lm1.len"},
     "lm1.mod"},
};
const MemoryFields* memory_fields(Space space) {
  const auto found = std::ranges::find(kMemories, space, &MemoryFields::space);
  return found == std::end(kMemories) ? nullptr : &*found;
}

/// The inputs of the MAU.
struct MauInput {
  FieldName source, negate, convert;
};
constexpr MauInput kMauInputs[] = {{"mauc.src0", "mauc.neg0", "mauc.cvt0"},
                                   {"mauc.src1", "mauc.neg1", "mauc.cvt1"},
                                   {"mauc.src2", "mauc.neg2", "mauc.cvt2"}};

/// Where the 32 bits of an immediate go, upper bits first: fields that imm has no other use for.
constexpr FieldName kPayload[] = {"aluc.prec", "aluc.cvt0", "aluc.cvt1", "aluc.src0", "aluc.src1",
                                  "lm0.we",    "lm0.isel",  "lm0.mod",   "lm0.len",   "lm0.addr"};

/// A matrix read has no bit of its own, only the MAU's precision, the matrix address and mswap. This is
/// whether a word shows one; where it doesn't, a word with the read is the word without it.
bool shows_matrix_read(const MachineWord& word) {
  const auto at = [&](FieldName f) { return get(word, *f); };
  if (at("mauc.mwrite") != 0) return false;  // which has the same fields
  if (at("mauc.maddr") != 0) return true;
  if (at("mauc.mswap") != 0 && at("mauc.matrix") == 0) return true;
  if (at("mauc.calc") != 0) return false;
  if (at("mauc.prec") != 0) return true;
  // A word in which nothing happens, and which is no nop.
  MachineWord rest = word;
  put(rest, *FieldName("wd"), 0);
  MachineWord nothing = encode_nop();
  put(nothing, *FieldName("ll.fwd"), 1);
  return rest == nothing;
}

int length_code(Width width) {
  return width == Width::kWord ? 0 : width == Width::kLong ? 1 : 2;
}

class Encoder {
 public:
  Encoder(const isa::SourceLocation& where, const WordOptions& options)
      : where_(where), options_(options), word_(encode_nop()) {
    put(word_, *FieldName("ll.fwd"), 1);
  }

  MachineWord run(const isa::Step& step) {
    for (const Instruction& instruction : step.instructions) {
      current_ = &instruction;
      encode(instruction);
    }
    for (const Instruction& instruction : step.instructions) {
      current_ = &instruction;
      if (instruction.opcode == Opcode::kMread && !shows_matrix_read(word_)) {
        refuse("mauc.maddr", "which is the same with and without it here: no field enables a matrix read");
      }
    }
    return word_;
  }

 private:
  [[noreturn]] void refuse(FieldName f, const std::string& why) const {
    throw isa::UnsupportedError(
        fmt::format("{}: '{}' needs the field {} of the machine word, {}; write the program as text or in "
                    "the binary format",
                    where_.to_string(), print_instruction(*current_), f->name, why));
  }
  bool admits(Grade grade) const { return grade == kC || (grade == kI && options_.allow_inferred); }
  void require(Grade grade, FieldName f, std::string_view what) const {
    if (admits(grade)) return;
    refuse(f, grade == kI ? fmt::format("of which {} is inferred only (--allow-inferred admits it)", what)
                          : fmt::format("of which {} is not known", what));
  }
  /// `value_grade` is for what the table can't say: a value that is certain for some instructions only.
  void set(FieldName f, int value, Grade value_grade = kC) {
    if (value < 0 || value >= 1 << f->width)
      refuse(f, fmt::format("which holds 0 to {}; found {}", (1 << f->width) - 1, value));
    // That a field is idle says nothing new about it, unless only other values were seen in use.
    if (value != f->idle || f->seen != 0) {
      if (value != f->idle) require(f->grade, f, "the meaning");
      const bool is_seen = f->seen == 0 || (value < 32 && (f->seen >> value & 1) != 0);
      const Grade grade = is_seen ? value_grade : std::max(value_grade, kI);
      if (!admits(grade)) require(grade, f, fmt::format("the value {}", value));
    }
    write(f, value);
  }
  void write(FieldName f, int value) {
    Writer& writer = writers_[f.index];
    if (writer.instruction != nullptr && writer.value != value) {
      throw isa::UnsupportedError(fmt::format(
          "{}: '{}' and '{}' need different values of the field {} of the machine word: {} and {}; "
          "put them into two steps",
          where_.to_string(), print_instruction(*writer.instruction), print_instruction(*current_), f->name,
          writer.value, value));
    }
    writer = {current_, value};
    put(word_, *f, value);
  }

  void encode(const Instruction& i) {
    switch (isa::info(i.opcode).group) {
      case isa::IssueGroup::kNoForward:
        set("ll.fwd", 0);
        return;
      case isa::IssueGroup::kWait:
        set("wd", i.tag);
        return;
      case isa::IssueGroup::kMauCalc:
      case isa::IssueGroup::kMauMwrite:
      case isa::IssueGroup::kMauMread:
        encode_mau(i);
        return;
      case isa::IssueGroup::kAlu:
        encode_alu(i);
        return;
      case isa::IssueGroup::kL1bm:
      case isa::IssueGroup::kL1bmTurnaround:
        encode_l1bm(i);
        return;
      case isa::IssueGroup::kL2bmDarw:
        set("l2bm.darwrite", 1);
        return;
      default:
        refuse("l2bm.rest0", "of which nothing is known");
    }
  }

  void address(const Operand& operand, bool is_write) {
    const MemoryFields& memory = *memory_fields(operand.space);
    const MemoryFields::Port& port = is_write ? memory.write : memory.read;
    if (operand.flat) refuse(port.address, "which has no known form for four addresses");
    if (operand.t_indirect || operand.j >= 0)
      refuse(memory.modifier, "of which the order of the bits is not known");
    if (operand.base < 0 || operand.base >= 1 << port.address->width) {
      refuse(port.address,
             fmt::format("which holds 0 to {}; found {}", (1 << port.address->width) - 1, operand.base));
    }
    const int unit = words(operand.width);
    if (operand.stride < 0 || operand.stride % unit != 0) {
      refuse(port.increment,
             fmt::format("which counts whole operands; found a stride of {} words", operand.stride));
    }
    set(port.address, static_cast<int>(operand.base));
    set(port.increment, operand.stride / unit);
    set(port.length, length_code(operand.width));
  }
  int selector(const Operand& operand, FieldName name) {
    const auto found = std::ranges::find(kSelectors, operand.space, &std::pair<Space, int>::first);
    if (found == std::end(kSelectors))
      refuse(name, fmt::format("of which the value for {} is not known", print_operand(operand)));
    if (memory_fields(operand.space) != nullptr) address(operand, false);
    return found->second;
  }
  template <size_t N>
  int precision(const PrecisionCode (&codes)[N], Precision wanted, FieldName name) {
    const auto found = std::ranges::find(codes, wanted, &PrecisionCode::precision);
    isa::check_internal(found != std::end(codes), "machine words", "no number for precision {}",
                        static_cast<int>(wanted));
    if (!admits(found->grade)) require(found->grade, name, fmt::format("the value {}", found->value));
    return found->value;
  }

  void destinations(const Instruction& i, int unit) {
    for (const Operand& destination : i.destinations) {
      switch (destination.space) {
        case Space::kNoWrite:
          continue;
        case Space::kT:
          set("trc.we", 1);
          set("trc.isel", unit);
          mask(destination, "mrc.en_t");
          continue;
        case Space::kGrf0:
        case Space::kGrf1:
        case Space::kLm0:
        case Space::kLm1: {
          const MemoryFields& memory = *memory_fields(destination.space);
          set(memory.we, 1);
          set(memory.isel, unit);
          address(destination, true);
          mask(destination, memory.enable);
          continue;
        }
        default:
          refuse("mrc.rest",
                 fmt::format("of which the value for {} is not known", print_operand(destination, true)));
      }
    }
  }
  void mask(const Operand& destination, FieldName enable) {
    const isa::Mask& mask = destination.mask;
    if (mask.kind == isa::Mask::Kind::kNone) return;
    set(enable, 1);
    const bool is_pattern = mask.kind == isa::Mask::Kind::kPattern;
    const int entry = is_pattern ? 16 + mask.value : mask.value;
    set("mrc.imr", entry);
    set("mrc.wl", mask.double_long ? 1 : 0);
  }

  void encode_mau(const Instruction& i) {
    if (i.zero_flush.kind != isa::Mask::Kind::kNone) refuse("mrc.rest", "of which nothing is known");
    if (i.round_output) refuse("mauc.b174", "of which the meaning is not known");
    set("mauc.prec", precision(kMauPrecisions, i.precision, "mauc.prec"));
    const isa::IssueGroup group = isa::info(i.opcode).group;
    if (group == isa::IssueGroup::kMauMwrite) {
      const Operand& target = i.destinations.at(0);
      set("mauc.mwrite", 1);
      set("mauc.maddr", static_cast<int>(target.base));
      set("mauc.mswap", target.space == Space::kMatX);
      // 2LW means two rows a cycle.
      if (i.precision == Precision::kHalf) set("mauc.half", target.width == Width::kDoubleLong);
      source(i.sources.at(0), 1);
      return;
    }
    if (group == isa::IssueGroup::kMauMread) {
      const Operand& from = i.sources.at(0);
      set("mauc.maddr", static_cast<int>(from.base));
      set("mauc.mswap", from.space == Space::kMatX, from.space == Space::kMatX ? kI : kC);
      for (const Operand& destination : i.destinations) {
        if (destination.space != Space::kNoWrite)
          refuse("trc.isel", "of which the value for a matrix read is not known");
      }
      return;
    }
    const InstructionInfo& row = isa::info(i.opcode);
    const bool is_matrix = row.mau.matrix;
    set("mauc.calc", 1);
    set("mauc.matrix", is_matrix);
    if (i.half_select != 0)
      set("mauc.half", i.half_select == 'd', i.half_select == 'u' || is_matrix ? kC : kI);
    if (is_matrix)
      set("mauc.mswap", i.sources.at(0).space == Space::kMatY,
          i.sources.at(0).space == Space::kMatY ? kI : kC);
    if (row.word.value < 0) refuse("mauc.op", "of which the value for this instruction is not known");
    set("mauc.op", row.word.value);
    source(i.sources.at(is_matrix ? 1 : 0), 0);
    if (row.mau.factor >= 0) source(i.sources.at(static_cast<size_t>(row.mau.factor)), 1);
    if (row.mau.addend >= 0) source(i.sources.at(static_cast<size_t>(row.mau.addend)), 2);
    destinations(i, kUnitMau);
  }
  void source(const Operand& operand, size_t input) {
    const MauInput& fields = kMauInputs[input];
    set(fields.source, selector(operand, fields.source));
    set(fields.negate, operand.negate ? 1 : 0);
    if (operand.extend) refuse(fields.convert, "of which the value for 'e' is not known");
    set(fields.convert, operand.reduce ? 1 : 0);
  }

  void encode_alu(const Instruction& i) {
    if (i.zero_flush.kind != isa::Mask::Kind::kNone) refuse("mrc.rest", "of which nothing is known");
    const InstructionInfo& row = isa::info(i.opcode);
    if (row.word.value < 0) refuse("aluc.op", "of which the value for this instruction is not known");
    set("aluc.op", row.word.value);
    if (i.unsigned_op) set("aluc.u", 1, takes_immediate(row) ? kC : kI);
    if (takes_immediate(row)) {
      payload(static_cast<uint32_t>(i.sources.at(0).base));
      destinations(i, kUnitAlu);
      return;
    }
    if (!isa::has_precision(row.word.certain, i.precision))
      require(kI, "aluc.op", "the value for this precision");
    set("aluc.prec", precision(kAluPrecisions, i.precision, "aluc.prec"));
    const Operand& x = i.sources.at(0);
    const auto from = std::ranges::find(kAluSources, x.space, &AluSource::space);
    if (from == std::end(kAluSources))
      refuse("aluc.src0", fmt::format("of which the value for {} is not known", print_operand(x)));
    set("aluc.src0", from->value);
    if (memory_fields(x.space) != nullptr) address(x, false);
    if (x.reduce) set("aluc.cvt0", 1);
    if (!row.block_bits.empty()) set("aluc.src1", i.block_bits < 0 ? 0 : 9 - i.block_bits);
    if (i.sources.size() > 1)
      refuse("aluc.src1", fmt::format("of which the value for {} is not known", print_operand(i.sources[1])));
    destinations(i, kUnitAlu);
  }
  void payload(uint32_t value) {
    int shift = 32;
    for (const FieldName f : kPayload) {
      shift -= f->width;
      write(f, static_cast<int>(value >> shift & ((uint32_t{1} << f->width) - 1)));
    }
  }

  void encode_l1bm(const Instruction& i) {
    const isa::WordCode& word = isa::info(i.opcode).word;
    const bool is_known = word.value >= 0 && isa::is_pe_to_l1bm(i) && i.unit == word.unit &&
                          i.reduce_op == word.reduce_op &&
                          (i.precision == Precision::kNone || isa::has_precision(word.certain, i.precision));
    if (!is_known) refuse("l1bm.op", "of which the value for this instruction is not known");
    const Operand& to = i.destinations.at(0);
    if (to.space != Space::kL1bm || to.width == Width::kDoubleLong)
      refuse("l1bm.rest0", "of which the value for this operand is not known");
    const Operand& from = i.sources.at(0);
    if (from.extend || from.negate || from.reduce) refuse("l1bm.rest1", "of which nothing is known");
    set("l1bm.op", word.value);
    const bool is_seen = to.base % kL1bmAddressStep == 0 && to.base <= kL1bmAddressSeen;
    set("l1bm.addr", static_cast<int>(to.base), is_seen ? kC : kI);
    set("l1bm.src", selector(from, "l1bm.src"));
  }

  /// Which instruction set a field, for messages about clashes.
  struct Writer {
    const Instruction* instruction = nullptr;
    int value = 0;
  };

  const isa::SourceLocation& where_;
  const WordOptions& options_;
  MachineWord word_;
  const Instruction* current_ = nullptr;
  std::array<Writer, kFieldCount> writers_{};
};

class Decoder {
 public:
  Decoder(const MachineWord& word, const isa::SourceLocation& where) : word_(word), where_(where) {}

  isa::Statement run() {
    isa::Statement result;
    MachineWord without_wait = word_;
    put(without_wait, *FieldName("wd"), 0);
    if (without_wait == encode_nop()) {
      result.kind = isa::Nop{1, static_cast<int8_t>(at("wd"))};
      return result;
    }
    isa::Step step;
    if (at("ll.fwd") == 0) step.instructions.push_back(only(Opcode::kNoForward));
    if (at("aluc.op") != 0) step.instructions.push_back(alu());
    if (at("mauc.calc") != 0) step.instructions.push_back(calculation());
    if (at("mauc.mwrite") != 0) step.instructions.push_back(matrix_write());
    if (shows_matrix_read(word_)) step.instructions.push_back(matrix_read());
    if (at("l1bm.op") != 0) step.instructions.push_back(transfer());
    if (const InstructionInfo* row = row_of(IssueGroup::kL2bmDarw, at("l2bm.darwrite")); row != nullptr)
      step.instructions.push_back(only(row->opcode));
    if (at("wd") != 0) {
      Instruction wait = only(Opcode::kWait);
      wait.tag = static_cast<int8_t>(at("wd"));
      step.instructions.push_back(wait);
    }
    explain_all(step);
    result.kind = std::move(step);
    return result;
  }

 private:
  int at(FieldName f) const { return get(word_, *f); }
  [[noreturn]] void fail(FieldName name) const {
    const WordField& f = *name;
    isa::SourceLocation where = where_;
    where.column = f.first + 3;  // behind "i "
    throw isa::UserError(
        where, fmt::format("field {} (bits {} to {}) holds {}, which no known instruction explains", f.name,
                           f.first, f.first + f.width - 1, at(name)));
  }
  static Instruction only(Opcode opcode) {
    Instruction result;
    result.opcode = opcode;
    return result;
  }
  template <size_t N>
  Precision precision(const PrecisionCode (&codes)[N], FieldName name) const {
    return std::ranges::find(codes, at(name), &PrecisionCode::value)->precision;
  }
  Operand memory(Space space, bool is_write) const {
    const MemoryFields& fields = *memory_fields(space);
    const MemoryFields::Port& port = is_write ? fields.write : fields.read;
    Operand result;
    result.space = space;
    switch (at(port.length)) {
      case 0:
        result.width = Width::kWord;
        break;
      case 1:
        result.width = Width::kLong;
        break;
      case 2:
        result.width = Width::kDoubleLong;
        break;
      default:
        fail(port.length);
    }
    result.base = at(port.address);
    result.stride = at(port.increment) * words(result.width);
    return result;
  }
  Operand source_of(Space space) const {
    if (memory_fields(space) != nullptr) return memory(space, false);
    Operand result;
    result.space = space;
    return result;
  }
  Operand selected(FieldName name) const {
    const auto found = std::ranges::find(kSelectors, at(name), &std::pair<Space, int>::second);
    if (found == std::end(kSelectors)) fail(name);
    return source_of(found->first);
  }
  Operand mau_source(size_t input) const {
    const MauInput& fields = kMauInputs[input];
    Operand result = selected(fields.source);
    result.negate = at(fields.negate) != 0;
    result.reduce = at(fields.convert) != 0;
    return result;
  }
  void mask(Operand& destination, FieldName enable) const {
    if (at(enable) == 0) return;
    const int entry = at("mrc.imr");
    destination.mask.kind = entry >= 16 ? isa::Mask::Kind::kPattern : isa::Mask::Kind::kRegister;
    destination.mask.value = static_cast<uint8_t>(entry >= 16 ? entry - 16 : entry);
    destination.mask.double_long = at("mrc.wl") != 0;
  }
  std::vector<Operand> destinations(int unit) const {
    std::vector<Operand> result;
    const auto add = [&](Operand operand, FieldName enable) {
      mask(operand, enable);
      result.push_back(operand);
    };
    const InstructionInfo* const alu = row_of(IssueGroup::kAlu, at("aluc.op"));
    const bool is_imm = alu != nullptr && takes_immediate(*alu);  // whose payload is in the fields of LM0
    for (const MemoryFields& fields : kMemories) {
      if (fields.space == Space::kLm0 && is_imm) continue;
      if (at(fields.we) != 0 && at(fields.isel) == unit) add(memory(fields.space, true), fields.enable);
    }
    if (at("trc.we") != 0 && at("trc.isel") == unit) {
      Operand t;
      t.space = Space::kT;
      add(t, "mrc.en_t");
    }
    if (result.empty()) {
      Operand none;
      none.space = Space::kNoWrite;
      result.push_back(none);
    }
    return result;
  }

  /// Of those with the same number one that was seen, or else the first.
  Precision alu_precision(const InstructionInfo& row) const {
    for (const std::string_view letters : {row.word.certain, row.precisions}) {
      for (const PrecisionCode& code : kAluPrecisions) {
        if (code.value == at("aluc.prec") && isa::has_precision(letters, code.precision))
          return code.precision;
      }
    }
    return precision(kAluPrecisions, "aluc.prec");
  }
  Instruction alu() const {
    const InstructionInfo* const row = row_of(IssueGroup::kAlu, at("aluc.op"));
    if (row == nullptr) fail("aluc.op");
    Instruction result = only(row->opcode);
    result.unsigned_op = at("aluc.u") != 0;
    if (takes_immediate(*row)) {
      Operand value;
      value.space = Space::kImmediate;
      for (const FieldName f : kPayload) value.base = value.base << f->width | at(f);
      result.immediate_kind = isa::ImmediateKind::kUnsigned;
      result.sources = {value};
    } else {
      result.precision = alu_precision(*row);
      const auto from = std::ranges::find(kAluSources, at("aluc.src0"), &AluSource::value);
      if (from == std::end(kAluSources)) fail("aluc.src0");
      result.sources = {source_of(from->space)};
      result.sources[0].reduce = at("aluc.cvt0") != 0;
      // Rows that have it in every precision always show it.
      const bool has_bits = !row->block_bits.empty() && row->block_bits == row->precisions;
      if (has_bits || (!row->block_bits.empty() && at("aluc.src1") != 0)) {
        if (at("aluc.src1") > 3) fail("aluc.src1");
        result.block_bits = static_cast<int8_t>(9 - at("aluc.src1"));
      }
    }
    result.destinations = destinations(kUnitAlu);
    return result;
  }
  Operand matrix(bool is_x) const {
    Operand result;
    result.space = is_x ? Space::kMatX : Space::kMatY;
    return result;
  }
  Instruction calculation() const {
    const bool is_matrix = at("mauc.matrix") != 0;
    const InstructionInfo* const row = row_of(IssueGroup::kMauCalc, at("mauc.op"),
                                              [&](const auto& each) { return each.mau.matrix == is_matrix; });
    if (row == nullptr) fail("mauc.op");
    Instruction result = only(row->opcode);
    result.precision = precision(kMauPrecisions, "mauc.prec");
    if (row->half_select && result.precision == Precision::kDouble)
      result.half_select = at("mauc.half") != 0 ? 'd' : 'u';
    if (is_matrix) result.sources.push_back(matrix(at("mauc.mswap") == 0));
    result.sources.push_back(mau_source(0));
    if (row->mau.factor >= 0) result.sources.push_back(mau_source(1));
    if (row->mau.addend >= 0) result.sources.push_back(mau_source(2));
    result.destinations = destinations(kUnitMau);
    return result;
  }
  Instruction matrix_write() const {
    Instruction result = only(Opcode::kMwrite);
    result.precision = precision(kMauPrecisions, "mauc.prec");
    result.sources = {mau_source(1)};
    Operand target = matrix(at("mauc.mswap") != 0);
    target.base = at("mauc.maddr");
    if (result.precision == Precision::kHalf && at("mauc.half") != 0) target.width = Width::kDoubleLong;
    result.destinations = {target};
    return result;
  }
  Instruction matrix_read() const {
    Instruction result = only(Opcode::kMread);
    result.precision = precision(kMauPrecisions, "mauc.prec");
    Operand from = matrix(at("mauc.mswap") != 0);
    from.base = at("mauc.maddr");
    if (result.precision == Precision::kHalf) from.width = Width::kDoubleLong;
    Operand none;
    none.space = Space::kNoWrite;
    result.sources = {from};
    result.destinations = {none};
    return result;
  }
  Instruction transfer() const {
    const InstructionInfo* const row = row_of(IssueGroup::kL1bm, at("l1bm.op"));
    if (row == nullptr) fail("l1bm.op");
    Instruction result = only(row->opcode);
    result.unit = static_cast<int8_t>(row->word.unit);
    result.reduce_op = row->word.reduce_op;
    if (!row->word.certain.empty()) result.precision = isa::precision_of_letter(row->word.certain.front());
    Operand to;
    to.space = Space::kL1bm;
    to.base = at("l1bm.addr");
    result.sources = {selected("l1bm.src")};
    result.destinations = {to};
    return result;
  }

  /// The instructions must need exactly the fields that are set.
  void explain_all(const isa::Step& step) const {
    MachineWord again;
    try {
      again = encode_step(step, where_, {.allow_inferred = true});
    } catch (const isa::UnsupportedError& error) {
      throw isa::UserError(error.what());
    }
    if (again == word_) return;
    for (size_t i = 0; i < kFieldCount; ++i) {
      if (get(again, kFields[i]) != get(word_, kFields[i])) fail(FieldName(i));
    }
  }

  const MachineWord& word_;
  const isa::SourceLocation& where_;
};

std::string word_text(const MachineWord& word) {
  std::string text(kWordBits + 3, '0');
  text[0] = 'i';
  text[1] = ' ';
  for (size_t i = 0; i < kWordBits; ++i) text[i + 2] = word[i] ? '1' : '0';
  text.back() = '\n';
  return text;
}

}  // namespace

std::vector<WordField> word_fields() {
  return {std::begin(kFields), std::end(kFields)};
}

MachineWord encode_nop() {
  static const MachineWord kNop = [] {
    MachineWord word;
    for (const WordField& f : kFields) put(word, f, f.idle);
    return word;
  }();
  return kNop;
}

MachineWord encode_step(const isa::Step& step, const isa::SourceLocation& where, const WordOptions& options) {
  return Encoder(where, options).run(step);
}

isa::Statement decode_word(const MachineWord& word, const isa::SourceLocation& where) {
  return Decoder(word, where).run();
}

void to_words(const isa::Program& program, const std::function<void(std::string_view)>& output,
              const WordOptions& options) {
  const isa::ProgramCounts counts = isa::count(program);
  if (counts.steps > kMaxWordLines || counts.statements > kMaxWordLines) {
    throw isa::UnsupportedError(fmt::format(
        "{}: a program of {} steps and {} statements is too long for a line per step; allowed: at "
        "most {} of each; write it in the binary format, which keeps loops and nop/N",
        program.source_name, counts.steps, counts.statements, kMaxWordLines));
  }
  std::string piece;
  const auto sink = [&](std::string_view line) {
    piece += line;
    if (piece.size() < kPieceBytes) return;
    output(piece);
    piece.clear();
  };
  const std::string nop = word_text(encode_nop());
  std::vector<int64_t> counters;
  isa::for_each_executed(program.statements, counters, [&](const isa::Statement& statement, const auto& at) {
    const isa::SourceLocation where{program.source_name, statement.line, 0};
    const auto refuse = [&](const char* what) {
      throw isa::UnsupportedError(fmt::format(
          "{}: the machine form of {} is not known; write the program as text or in the binary format",
          where.to_string(), what));
    };
    if (std::holds_alternative<isa::Step>(statement.kind)) {
      const isa::Statement step = isa::resolved(statement, at);
      sink(word_text(encode_step(std::get<isa::Step>(step.kind), where, options)));
    } else if (const auto* nops = std::get_if<isa::Nop>(&statement.kind)) {
      if (nops->wait_tag != 0) {
        if (!options.allow_inferred) {
          throw isa::UnsupportedError(
              fmt::format("{}: 'wait' needs the field wd of the machine word, of which the meaning "
                          "is inferred only (--allow-inferred admits it); write the program as "
                          "text or in the binary format",
                          where.to_string()));
        }
        MachineWord word = encode_nop();
        put(word, *FieldName("wd"), nops->wait_tag);
        sink(word_text(word));
        return true;
      }
      for (int64_t i = 0; i < nops->count; ++i) sink(nop);
    } else if (std::holds_alternative<isa::Mv>(statement.kind)) {
      refuse("a transfer");
    } else if (std::holds_alternative<isa::MaskControl>(statement.kind)) {
      refuse("a mask statement");
    } else if (std::holds_alternative<isa::Quit>(statement.kind)) {
      return false;
    } else if (!std::holds_alternative<isa::RegionMark>(statement.kind)) {
      sink(print_statement(statement) + "\n");
    }
    return true;
  });
  if (!piece.empty()) output(piece);
}

std::string to_words(const isa::Program& program, const WordOptions& options) {
  std::string text;
  to_words(
      program, [&](std::string_view piece) { text += piece; }, options);
  return text;
}

isa::Program from_words(std::string_view text, const std::string& file_name, const isa::Chip& chip) {
  isa::Program program;
  program.source_name = file_name;
  isa::SourceLocation where{file_name, 0, 0};
  while (!text.empty()) {
    const size_t length = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, length);
    text.remove_prefix(std::min(length + 1, text.size()));
    if (line.ends_with('\r')) line.remove_suffix(1);
    ++where.line;
    if (line.find_first_not_of(" \t") == std::string_view::npos) continue;
    if (!line.starts_with("i ")) {
      if (line.starts_with("c ") || line == "c") continue;  // for the host's program
      if (!line.starts_with("d ") && !line.starts_with("r ")) {
        throw isa::UserError(isa::SourceLocation{file_name, where.line, 1},
                             line.starts_with("m ")
                                 ? "the bits of a transfer ('m' line) are not known, so it can't be read"
                                 : "not a line of an assembled program; allowed are 'i' lines with 292 "
                                   "binary digits, 'd get', 'd set', 'r' and 'c' lines");
      }
      AssembleOptions at_line;
      at_line.first_line = where.line;
      isa::Program one = assemble(line, file_name, chip, at_line);
      std::ranges::move(one.statements, std::back_inserter(program.statements));
      continue;
    }
    const std::string_view digits = line.substr(2);
    if (digits.size() != kWordBits) {
      throw isa::UserError(isa::SourceLocation{file_name, where.line, 3},
                           fmt::format("a machine word of {} characters; allowed are {} binary digits",
                                       digits.size(), kWordBits));
    }
    MachineWord word;
    for (size_t i = 0; i < kWordBits; ++i) {
      if (digits[i] != '0' && digits[i] != '1') {
        throw isa::UserError(isa::SourceLocation{file_name, where.line, static_cast<int>(i) + 3},
                             "a machine word consists of the digits 0 and 1");
      }
      word[i] = digits[i] == '1';
    }
    isa::Statement statement = decode_word(word, where);
    statement.line = where.line;
    check_statement(statement, chip, where);
    // Neighbouring nops are one statement.
    if (const auto* nop = std::get_if<isa::Nop>(&statement.kind);
        nop != nullptr && nop->wait_tag == 0 && !program.statements.empty()) {
      auto* before = std::get_if<isa::Nop>(&program.statements.back().kind);
      if (before != nullptr && before->wait_tag == 0) {
        ++before->count;
        continue;
      }
    }
    program.statements.push_back(std::move(statement));
  }
  return program;
}

bool looks_like_words(std::string_view text) {
  // Debug statements look the same in both forms, so they are passed over.
  while (!text.empty()) {
    const size_t length = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, length);
    text.remove_prefix(std::min(length + 1, text.size()));
    if (line.starts_with("i 0") || line.starts_with("i 1")) return true;
    if (!line.empty() && !line.starts_with("d ") && !line.starts_with("r ")) return false;
  }
  return false;
}

}  // namespace kodama::assembler
