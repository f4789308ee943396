#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "layout/moves/move_code.h"

/// Writes that only some PEs and some elements of a long word take part in.
///
/// A mask register is made from the number of the PE (L2B, L1B, MAB and PE in one register): `xor` with the
/// wanted number, `and` with the bits that count, whose flag is set where the result is zero. A second
/// instruction under this mask leaves only the flags of the wanted elements of the long word.
namespace kodama::layout {

/// A place in a PE memory. `pe` is ((L2B * L1Bs + L1B) * MABs + MAB) * 4 + PE; `word` counts elements of a
/// long word from the top.
struct PePlace {
  int64_t pe = 0;
  int64_t address = 0;
  int64_t word = 0;
};

/// The PE place of coordinates, of a memory of the PEs.
PePlace pe_place(const Coordinates& at, const isa::Chip& chip);

class MaskedWrites {
 public:
  MaskedWrites(Code& code, int element_bits) : code_(code), element_bits_(element_bits) {}

  /// Only these PEs will be told apart: masks are made from the parts of their numbers that differ.
  void tell_apart(const std::vector<int64_t>& pes);
  /// A mask register that is set in PEs where (number ^ value) & care == 0, for the elements of a long word
  /// in `words` (bit k: element k).
  int mask(int64_t value, int64_t care, uint32_t words);
  /// The same of the PE `pe`, as in PePlace.
  int mask_of_pe(int64_t pe, uint32_t words);
  /// An l-wide write under a mask (0: everywhere) to four addresses.
  void write(const isa::Operand& source, Memory memory, const std::array<int64_t, 4>& addresses, int mask);

  /// The same, rotated to the left by what is in a register.
  void write_turned(const isa::Operand& source, const isa::Operand& amount, Memory memory,
                    const std::array<int64_t, 4>& addresses, int mask);

  /// Writes the padding pattern to `places`; `elements` are left alone, everything else may change.
  void fill(const std::vector<PePlace>& places, const std::vector<PePlace>& elements, Memory memory,
            uint64_t pattern);

 private:
  isa::Operand number();
  int64_t everything() const;
  isa::Operand word_selector(uint32_t words);

  Code& code_;
  int element_bits_;
  std::optional<isa::Operand> number_;
  std::optional<int64_t> parts_;  ///< bits of the numbers that are looked at; nothing: all
  std::vector<isa::Operand> wanted_;
  size_t next_wanted_ = 0;
  std::map<uint32_t, isa::Operand> selectors_;
  std::vector<isa::Operand> pool_;
  size_t next_ = 0;
};

/// The bits of a padding in every element of a long word; nothing where it may be anything.
std::optional<uint64_t> padding_pattern(Padding padding, int element_bits);

}  // namespace kodama::layout
