#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "isa/chip.h"
#include "isa/movement.h"

/// The instruction set: what an instruction is, in one table, isa/instruction_rows.def.
///
/// An instruction is an `Opcode` (one row of the table, e.g. `vfma`), a `Precision` letter, flags of
/// the mnemonic (`u`, block-float `/k`, zero flush, …), source operands and destination operands. The
/// row says which precisions and operands are legal, to which issue group the instruction belongs,
/// and how the mnemonic is spelled. Assembler, printer, checker, engine, documentation and fuzzers read
/// this table; nobody else knows a mnemonic.
///
/// Worked example: `fvfma $lm0v $ln8v4 -$lr0v $ls0v $llr16v/1000` is
///
///     opcode       kVfma, precision kFloat
///     sources      {kLm0, long, base 0, stride 2}, {kLm1, long, base 8, stride 4},
///                  {kGrf0, long, base 0, stride 2, negate}
///     destinations {kGrf1, long, base 0, stride 2}, {kGrf0, double long, base 16, stride 4, mask 1000}
///
/// Operand addresses may be affine in the counters of the counted loops around a statement (see
/// isa/program.h); VSM text itself has no loops, so the assembler never makes such an address.
namespace kodama::isa {

enum class Precision : uint8_t {
  kNone,
  kDouble,  ///< d
  kFloat,   ///< f
  kGFloat,  ///< g: "pseudo single", matrix operations only
  kHalf,    ///< h
  kLong,    ///< l: 64-bit integer
  kInt,     ///< i: 32-bit integer
  kShort,   ///< s: 16-bit integer
};
inline constexpr int kPrecisionCount = 8;
char precision_letter(Precision precision);  ///< 0 for kNone
Precision precision_of_letter(char letter);  ///< kNone for any other character
/// Lanes of a long word (section 1.2 of the ISA page).
int lanes(Precision precision);

/// Issue groups of section 4, plus the statements that stand alone.
enum class IssueGroup : uint8_t {
  kNoForward,
  kL2bm,
  kL2bmDarw,
  kL1bm,
  kL1bmTurnaround,
  kMauCalc,
  kMauMwrite,
  kMauMread,
  kAlu,
  kWait,
  kMv,
};
std::string_view issue_group_name(IssueGroup group);

enum class Space : uint8_t {
  kNone,
  kLm0,
  kLm1,
  kGrf0,
  kGrf1,
  kT,
  kOmr,      ///< mask register as destination, `base` = entry
  kBar0,     ///< $mb
  kBar1,     ///< $nb
  kNoWrite,  ///< $nowrite
  kAluf,
  kMauf,
  kLbf,
  kMreadf,
  kConstant,   ///< $l2bid …; `base` = FixedConstant
  kImmediate,  ///< payload of imm; `base` = 32-bit payload, `immediate_kind` = how it was written
  kMatX,       ///< $lx: `base` = row or column
  kMatY,
  kL1bm,
  kTurnaround,  ///< $lbi
  kL2bm,        ///< `group`, `unit` = @g.l; -1 = not written
  kDar,
  kPdm,  ///< `group` = @g; -1 = not written
  kDram,
  kDramIndirect,  ///< $di<e>
  kVirtual,  ///< a value not yet placed (scheduler/machine/machine_program.h); `base` is relative to `value`
};
/// LM0 or LM1.
constexpr bool is_local_memory(Space space) {
  return space == Space::kLm0 || space == Space::kLm1;
}

enum class FixedConstant : uint8_t { kL2bid, kL1bid, kMabid, kPeid, kSubpeid, kMsb1 };
inline constexpr int kFixedConstantCount = 6;
std::string_view fixed_constant_name(FixedConstant constant);  ///< "l2bid", …

enum class Width : uint8_t { kWord = 1, kLong = 2, kDoubleLong = 4 };
inline constexpr int words(Width width) {
  return static_cast<int>(width);
}

/// Mask entries 1 to this - 1 are registers; 0 is all ones, those from this on are constants.
inline constexpr int kMaskRegisters = 16;

/// Mask named by an operand, an opcode (zero flush) or a mask statement.
struct Mask {
  enum class Kind : uint8_t {
    kNone,
    kPattern,   ///< /1000: `value` = 4 bits, cycle c is bit 3-c
    kRegister,  ///< /$imr<k>: `value` = entry 0..31
    kVirtual,   ///< a mask register not yet chosen; `virtual_value` as `value` of Space::kVirtual
  };
  Kind kind = Kind::kNone;
  uint8_t value = 0;
  bool double_long = false;  ///< length ll instead of l
  char length_check = 0;     ///< optional suffix 't' or 'p', kept for printing
  int32_t virtual_value = -1;

  bool operator==(const Mask&) const = default;
};

/// One operand. Addresses are in the unit of the space (words for PE memories, LW elsewhere).
struct Operand {
  Space space = Space::kNone;
  Width width = Width::kLong;
  bool flat = false;        ///< `flat_addresses` instead of base + stride * cycle
  bool t_indirect = false;  ///< $lmt
  bool negate = false;
  bool extend = false;  ///< suffix e
  bool reduce = false;  ///< suffix r
  int8_t j = -1;        ///< j<k>; -1 = not given
  int8_t group = -1;
  int8_t unit = -1;
  Mask mask;  ///< write mask of a destination
  /// Words added per cycle (0 without `v`). For kDramIndirect: N of `nd<N>` is in the instruction.
  int32_t stride = 0;
  int64_t base = 0;
  int32_t value = -1;  ///< kVirtual: which value
  std::array<int32_t, 4> flat_addresses{};
  /// Added to `base` per iteration of the enclosing loops, outermost first; shorter = zeros.
  std::vector<int64_t> loop_strides;

  bool operator==(const Operand&) const = default;

  /// Address of cycle 0..3 without loop counters, BAR, T and j.
  int64_t address(int cycle) const {
    return flat ? base + flat_addresses[cycle] : base + int64_t{stride} * cycle;
  }
};

/// One for each row of the table. The direction of transfers that exist in two follows from the operands.
enum class Opcode : uint16_t {
  kInvalid,
#define INSTRUCTION(opcode, ...) opcode,
#include "isa/instruction_rows.def"
  kCount,
};
inline constexpr int kOpcodeCount = static_cast<int>(Opcode::kCount);

/// Operation of a reduction code of l1bmr, l2bmr, mvr; the precision letter before it is the precision of
/// the instruction: `dfadd` (floats), `fmax`, `hmin` (floats), `liadd`, `iband`, `sor` (integers).
enum class ReduceOp : uint8_t {
  kNone,
#define REDUCTION(op, name, precisions) op,
#include "isa/instruction_rows.def"
};
inline constexpr int kReduceOpCount = 1
#define REDUCTION(op, name, precisions) +1
#include "isa/instruction_rows.def"
    ;
std::string_view reduce_op_name(ReduceOp op);  ///< "fadd", …; "" for kNone
/// Whether the reduction exists in this precision (fadd, max, min: d f h; the others: l i s).
bool reduce_op_allows(ReduceOp op, Precision precision);

/// How the payload of imm was written, for printing.
enum class ImmediateKind : uint8_t { kInt, kUnsigned, kShort, kUnsignedShort, kFloat, kHalf, kDouble, kLong };

/// The set of L1Bs of an L2BM instruction: `@k`, `@k/im` or `@[list]`.
struct L1bSet {
  enum class Kind : uint8_t { kAll, kOne, kMasked, kList };
  Kind kind = Kind::kAll;
  uint8_t k = 0;
  uint8_t ignore_mask = 0;
  uint32_t list = 0;  ///< bit b = L1B b
  bool operator==(const L1bSet&) const = default;
  /// Whether L1B `b` of `count` belongs to the set.
  bool contains(int b, int count) const;
};

/// One instruction with real (or, inside the compiler, virtual) operands.
struct Instruction {
  Opcode opcode = Opcode::kInvalid;
  Precision precision = Precision::kNone;
  bool unsigned_op = false;   ///< prefix u (ALU), e.g. ulsr; also immu
  bool round_output = false;  ///< opcode suffix r (MAU)
  char half_select = 0;       ///< 'u' or 'd' of double MAU operations, else 0
  int8_t block_bits = -1;     ///< k of hbfn/k, hbfe/k (6..9); -1 = not given
  Mask zero_flush;
  ReduceOp reduce_op = ReduceOp::kNone;
  int8_t unit = -1;     ///< @k of l1bmm@k, l1bmm4@k, l2bm@k
  int8_t rotation = 0;  ///< +1 / -1 of l1bmd+1 / l1bmd-1
  L1bSet l1b_set;       ///< @set of L2BM instructions
  ImmediateKind immediate_kind = ImmediateKind::kInt;
  // MV and wait.
  int64_t size_lw = 0;     ///< /n<size>
  int8_t tag = 0;          ///< i<tag>; 0 = none
  int8_t priority = 0;     ///< p<0..3>
  int32_t indirect_n = 1;  ///< nd<N>
  std::vector<Operand> sources;
  std::vector<Operand> destinations;

  bool operator==(const Instruction&) const = default;
};

// ---------------------------------------------------------------------------------------------------
// The table.

/// What kinds of operand a position accepts; a bit set over Space values.
using SpaceSet = uint32_t;
constexpr SpaceSet space_bit(Space space) {
  return SpaceSet{1} << static_cast<int>(space);
}

/// Result-to-flag rule of a row (section 5 and 7): when the flag of a lane is 1.
enum class FlagRule : uint8_t {
  kNone,         ///< no flags (written as 0)
  kZeroResult,   ///< the result is 0
  kNotNegative,  ///< the sign bit of the result is 0
  kNoCarry,      ///< no carry (inc, add) or borrow (dec, sub): the unsigned form of kNotNegative
  kChosen,       ///< x was chosen, or x == y
  kTopBitClear,  ///< the top bit of x is 0
  kMsbOfSecond,  ///< the top bit of y is 0
  kBitOfFirst    ///< the tested bit of x is 0
};

/// One way to give operands to a mnemonic. Most rows have one; transfers that exist in two directions
/// have one per direction. All forms of a row have the same number of sources.
struct OperandForm {
  std::array<SpaceSet, 3> sources{};
  SpaceSet destinations = 0;
  Movement movement = {};  ///< of L1BM, L2BM and MV instructions
};

/// The inputs of a MAU calculation: x (or the vector v) always, and what the operands say.
struct MauInputs {
  bool matrix = false;  ///< source 0 is a matrix register
  int8_t factor = -1;   ///< the source that x is multiplied with; -1 = none
  int8_t addend = -1;   ///< the source z; in half precision it is floats; -1 = none
};

/// What is known of a row in machine words (assembler/machine_words.h): the number in the opcode field of its
/// unit.
struct WordCode {
  int value = -1;                        ///< -1 = not known
  std::string_view certain = {};         ///< precisions that were seen; others are inferred
  ReduceOp reduce_op = ReduceOp::kNone;  ///< the number holds for this reduction alone
  int unit = -1;                         ///< ... and for this @<k>
};

/// One row. `syntax` and `effect` are what the generated reference prints. In effects, c = cycle,
/// m = MAB of the L1B, p = PE of the MAB, b = L1B of the L2B, q = L2B of the chip, g h = group; B = L1BM,
/// C = L2BM; M = MABs per L1B, N = L1Bs per L2B, L = L2Bs of the chip, G = groups; v.h, v.l = upper and lower
/// LW of the PE operand; amounts are in LW.
struct InstructionInfo {
  Opcode opcode = Opcode::kInvalid;
  std::string_view name = {};  ///< without precision letter and prefixes, e.g. "vfma", "l1bmd"
  IssueGroup group = IssueGroup::kAlu;
  std::string_view precisions = {};           ///< letters allowed, "" = none is written
  std::string_view unsigned_precisions = {};  ///< letters that allow the prefix u
  std::string_view half_name = {};            ///< the whole mnemonic in half precision, if it is another
  bool half_select = false;                   ///< in double precision the suffix u or d is required
  std::string_view block_bits = {};           ///< letters of precisions with /6 to /9; they give 2LW
  bool reduces = false;                       ///< the name is followed by a reduction code
  bool rotates = false;                       ///< "+1" or "-1" may follow
  std::vector<OperandForm> forms = {};
  uint8_t source_count = 0;
  std::array<SpaceSet, 3> sources{};   ///< union over the forms
  SpaceSet destinations = 0;           ///< union over the forms; 0 = no destination
  bool variadic_destinations = false;  ///< several PE destinations allowed
  bool allows_unsigned = false;        ///< prefix u, in some precision
  bool allows_zero_flush = false;      ///< for L1BM transfers: only towards the PE
  bool allows_round_output = false;    ///< suffix r on the opcode
  bool allows_extend = false;          ///< e / r / - on sources (MAU)
  FlagRule flags = FlagRule::kNone;
  MauInputs mau = {};
  WordCode word = {};
  std::string_view syntax = {};
  std::string_view effect = {};
  std::string_view reference = {};  ///< section of the ISA page and certainty grade
};

/// Whether a list of letters has this precision.
inline bool has_precision(std::string_view letters, Precision precision) {
  return letters.find(precision_letter(precision)) != std::string_view::npos;
}

/// Row of an opcode.
const InstructionInfo& info(Opcode opcode);
/// All rows, in table order (without kInvalid).
std::span<const InstructionInfo> instruction_table();
/// The mnemonic as written in VSM, without what follows a '/' or '@' and without operands: "fvfma", "uilsr",
/// "dvmulu", "l1bmrdfadd", "l1bmd+1", "mvrfmax".
std::string mnemonic(const Instruction& instruction);
/// The inverse: opcode, precision, u, r, half select, reduction code and rotation of the mnemonic, or nothing
/// when there is no such mnemonic. `text` is the opcode word up to the first blank, '/' suffixes and '@'
/// sets excluded by the caller. parse_mnemonic(mnemonic(i)) has the same such fields as i.
/// Aliases: relu0 = relu.
std::optional<Instruction> parse_mnemonic(std::string_view text);
/// One instruction without operands per legal mnemonic, in table order: for documentation and fuzzers.
std::span<const Instruction> all_mnemonics();

/// The form of the row that the sources fit; nothing when there is none.
const OperandForm* form_of(const Instruction& instruction);
/// What the instruction moves: of its form. Movement::Way::kNone for all that isn't an L1BM, L2BM or MV
/// instruction.
const Movement& movement(const Instruction& instruction);

/// What is wrong with number and kinds of the operands, their suffixes (-, e, r) and masks, by the table;
/// empty when nothing is. Addresses and alignment are not looked at. kVirtual is accepted wherever
/// a PE memory is. `culprit`, when given, receives the index of the operand at fault, counted over sources,
/// then destinations; -1 = the instruction as a whole.
std::string operand_error(const Instruction& instruction, int* culprit = nullptr);

/// The issue group of an instruction. An L1BM -> PE transfer that reads the turnaround register is in a
/// group of its own, so it may stand beside a PE -> L1BM transfer.
IssueGroup issue_group(const Instruction& instruction);
/// The flag rule with the prefix u taken into account.
FlagRule flag_rule(const Instruction& instruction);

/// Directions of the transfers that exist in two (false for all other instructions).
bool is_l1bm_to_pe(const Instruction& instruction);
bool is_pe_to_l1bm(const Instruction& instruction);

/// Whether a space is a memory of the PE that instructions address in words.
bool is_pe_memory(Space space);
/// The space as messages name it: "$m (LM0)", "$lc (L2BM)", "$aluf".
std::string_view space_name(Space space);

}  // namespace kodama::isa
