#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "isa/chip.h"
#include "isa/program.h"
#include "layout/algebra/bits.h"
#include "layout/algebra/layout.h"
#include "layout/moves/step_packer.h"

/// Writing the code of move primitives: memory to work in, and the instructions that all of them use.
namespace kodama::layout {

/// Long words [base, base + size) of every instance of a memory.
struct Region {
  Memory memory = Memory::kLm0;
  int64_t base = 0;
  int64_t size = 0;
};

/// Long words [begin, end) of a memory, in every instance, whose contents a program may change.
struct ScratchRange {
  Memory memory = Memory::kLm0;
  int64_t begin = 0;
  int64_t end = 0;
};

/// Gives out memory that neither source nor target of a conversion uses.
class ScratchSpace {
 public:
  explicit ScratchSpace(const isa::Chip& chip) : chip_(chip) {}
  /// Never given out.
  void reserve(const Region& region) {
    used_.push_back(region);
    reserved_.push_back(region);
  }
  /// UnsupportedError when there is no room. `alignment` in LW.
  Region take(Memory memory, int64_t size, int64_t alignment = 2);
  /// Nothing when there is no room.
  std::optional<Region> try_take(Memory memory, int64_t size, int64_t alignment = 2);
  void give_back(const Region& region);
  /// Whether a region that was taken is the first one to be there.
  bool is_fresh(const Region& region) const;
  /// Size of the largest piece that is free.
  int64_t largest_free(Memory memory) const;
  /// `count` pieces of `size` LW, `distance` apart from each other, wrapping at the end of the memory, that
  /// fit between what is used: the base of the first. Nothing when they don't.
  std::optional<int64_t> try_take_spread(Memory memory, int64_t size, int64_t distance, int64_t count);
  void give_back_spread(Memory memory, int64_t base, int64_t size, int64_t distance, int64_t count);
  /// Everything that has ever been given out.
  std::vector<ScratchRange> ranges() const;

 private:
  /// The last one; nothing if there is none.
  std::optional<int64_t> free_base(Memory memory, int64_t size, int64_t alignment,
                                   const std::vector<Region>& used) const;

  const isa::Chip& chip_;
  std::vector<Region> used_;
  std::vector<Region> taken_;  ///< ever
  std::vector<Region> reserved_;
};

isa::Space pe_space(Memory memory);

inline constexpr int64_t kBlockLw = isa::kL2bmBlockLw;
inline constexpr int64_t kDealLw = isa::kL2bmdPerL1bLw;
/// What l2bmd moves of an L2BM: kDealLw for each L1B, eight of one after eight of the other.
int64_t l2bmd_lw(const isa::Chip& chip);
/// LW of a line: one of every PE below an L1BM, or else below an L2BM.
inline int64_t line_lw(Memory memory, const isa::Chip& chip) {
  const int64_t lanes = chip.pe_per_l1b();
  return memory == Memory::kL1bm ? lanes : lanes * chip.l1b_per_l2b;
}
/// Lines that one step of l1bmd moves.
inline constexpr int64_t kLineGroup = isa::kCyclesPerStep;

isa::Instruction make_instruction(isa::Opcode opcode, isa::Precision precision,
                                  std::vector<isa::Operand> sources, isa::Operand destination);
inline isa::Instruction make_instruction(isa::Opcode opcode, isa::Precision precision, isa::Operand source,
                                         isa::Operand destination) {
  return make_instruction(opcode, precision, std::vector{std::move(source)}, std::move(destination));
}

/// A line of L1BM: one LW per PE of the L1B, PE number 4 * MAB + PE.
struct LineCopy {
  int64_t line = 0;        ///< L1BM address over PEs per L1B
  int64_t pe_address = 0;  ///< LW
};

/// Room for lines in L1BM, with some in front that lines_down may read.
struct LineBuffer {
  Region region;
  int64_t base = 0;  ///< of line 0
};

/// Collects instructions.
class Code {
 public:
  Code(const isa::Chip& chip, ScratchSpace& scratch) : chip_(chip), scratch_(scratch) {}

  const isa::Chip& chip() const { return chip_; }
  ScratchSpace& scratch() { return scratch_; }
  int64_t lanes() const { return chip_.pe_per_l1b(); }

  void add(isa::Instruction instruction);
  /// What T, or the base register of LM1, holds from here on until it is written: `longs` LW in some PE.
  /// Before that it may be anything.
  void t_holds(std::vector<int64_t> longs);
  void base1_holds(std::vector<int64_t> longs);
  /// One MV; returns its tag.
  int8_t transfer(isa::Instruction mv);
  void wait(int8_t tag);
  void wait_all();
  const std::vector<PackedItem>& items() const { return items_; }
  isa::Program pack(WaitPlace waits = WaitPlace::kWhereOver) const {
    return pack_steps(items_, chip_, waits);
  }

  // ---- operands

  /// Four LW addresses of a PE memory, or their upper words; `wide`: 2LW.
  static isa::Operand pe(Memory memory, const std::array<int64_t, 4>& long_words, isa::Width width,
                         const isa::Chip& chip, bool t_indirect = false);
  static isa::Operand t();
  static isa::Operand constant(isa::FixedConstant constant);
  static isa::Operand l1bm(int64_t address, bool wide = false);
  static isa::Operand l2bm(int64_t address, int group = -1, int unit = -1);
  /// DRAM or PDM of a group.
  static isa::Operand outside(Memory memory, int64_t address, int64_t group);

  // ---- ALU

  /// dst = op(x[, y]) in 32-bit lanes.
  void alu(isa::Opcode opcode, const isa::Operand& x, const isa::Operand& y, const isa::Operand& destination);
  /// T or a register = a 32-bit number in all words.
  void load(uint32_t number, const isa::Operand& destination);
  /// A register (of all cycles) in a memory that nothing else uses.
  isa::Operand new_register(Memory memory);
  /// sum over `fields` of (bits [low, low + count) of the constant) << shift, in a new register of GRF0.
  struct Field {
    isa::FixedConstant constant = isa::FixedConstant::kPeid;
    int low = 0;
    int count = 1;
    int shift = 0;
  };
  isa::Operand field_sum(const std::vector<Field>& fields);
  /// The same, into T or the base register of LM1.
  void field_sum_to(const std::vector<Field>& fields, const isa::Operand& destination);
  /// To be called before each move. Numbers that field sums of the next one are made with are loaded before
  /// this one, so that nothing waits for them.
  void begin_move();
  /// A mask register that is set where (constant >> bit & 1) == value.
  int mask_of_bit(isa::FixedConstant constant, int bit, bool value);
  int new_mask();

  // ---- transfers of lines

  LineBuffer line_buffer(int64_t lines);
  void give_back(const LineBuffer& buffer) { scratch_.give_back(buffer.region); }
  /// l2bmd for all groups that lines touch, which have the same numbers in L1BM and L2BM.
  void deal_up(const std::vector<LineCopy>& lines, int64_t l1bm_base, int64_t l2bm_base);
  void deal_down(const std::vector<LineCopy>& lines, int64_t l2bm_base, int64_t l1bm_base);
  /// l1bmd: PEs to L1BM; lines are counted from `base_lw`, a multiple of four lines. Lines of a group of four
  /// that aren't wanted are written all the same.
  void lines_up(std::vector<LineCopy> lines, Memory memory, int64_t base_lw, bool t_indirect = false);
  /// l1bmd: L1BM to PEs; `offset` LW are added to the address of every line. Up to three lines before
  /// the first one are read.
  void lines_down(std::vector<LineCopy> lines, Memory memory, int64_t base_lw, int64_t offset = 0,
                  int mask = 0, bool t_indirect = false);
  /// Copies inside the PEs, by target address: source address.
  void copies(std::vector<std::pair<int64_t, int64_t>> target_and_source, Memory from, Memory to,
              bool t_indirect = false, int mask = 0);

 private:
  std::set<int64_t> deals(const std::vector<LineCopy>& lines) const;
  isa::Operand register_at(const Region& region) const;
  /// A register with a number, loaded early.
  isa::Operand early_number(uint32_t number);

  const isa::Chip& chip_;
  ScratchSpace& scratch_;
  std::vector<PackedItem> items_;
  size_t early_ = 0;  ///< where items of the move before begin
  size_t here_ = 0;   ///< and those of this one
  AddressOffsets t_;
  AddressOffsets base1_;
  bool has_base1_ = false;
  std::set<int8_t> under_way_;
  int8_t next_tag_ = 1;
  int next_mask_ = 1;
  std::map<std::array<int, 3>, int> bit_masks_;
};

}  // namespace kodama::layout
