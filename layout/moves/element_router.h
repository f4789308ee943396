#pragma once

#include <vector>

#include "layout/moves/masked_writes.h"
#include "layout/moves/move_code.h"

/// The way that always exists: element by element, through everywhere.
///
/// Where the digits of two layouts cross, no permutation of bits describes the conversion. Then every long
/// word that holds something is brought to all PEs (L1BM, L2BM, PDM, and down again by broadcast), and the
/// PEs that want an element of it take it under a mask, turned to its place in the long word. Inside an L2B
/// up to 128 long words come at a time, eight a step, and a PE takes four in a step; a mask takes two.
/// Between L2Bs it is about six steps per element. The search is asked first, and its way compared where the
/// elements are few.
///
/// Memories above the PEs are brought into staging lines of the PEs first, and written from such lines.
namespace kodama::layout {

/// Elements to move from and to PE memories.
struct ElementMove {
  PePlace from;
  PePlace to;
};

/// Of other PEs, places at the target addresses may change where elements are long words: what the first PE
/// takes everyone may write.
void emit_routes(const std::vector<ElementMove>& moves, Memory from, Memory to, int element_bits, Code& code);

/// Whether every long word is read before anything is written, so that source and target may overlap.
bool routes_read_before_they_write(const std::vector<ElementMove>& moves, Code& code);

/// Where the staging lines hold a place above the PEs: the address counts lines from 0.
PePlace staged_place(Memory memory, const Coordinates& at, const isa::Chip& chip);
/// Lines that hold `upper_lw` long words.
int64_t staged_lines(Memory memory, int64_t upper_lw, const isa::Chip& chip);
/// Long words that staged lines reach to.
int64_t staged_end(Memory memory, int64_t lines, const isa::Chip& chip);
void emit_staging(Memory upper, int64_t lines, Memory pe_memory, int64_t pe_base, bool down, Code& code);

}  // namespace kodama::layout
