#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "isa/chip.h"
#include "isa/program.h"
#include "layout/algebra.h"
#include "layout/bound.h"
#include "layout/layout.h"

/// Programs that bring a tensor from one layout into another.
///
/// A *move primitive* is something that the hardware can do to a layout: a precondition, the exact effect,
/// the cost, and the code. The table has one so far:
///
///     copy   every element stays in its PE and in its word; the addresses, and the memory among LM0, LM1,
///     GRF0 and
///            GRF1, change in any way. One LW per cycle, or 2LW where neighbours stay neighbours; a change
///            inside one LM goes through the other one.
///
/// Example: a square of 8 x 8 long words per PE transposed, ((4_PE:1), (8:8), (8:1))@LM0 to ((4_PE:1), (8:1),
/// (8:8))@LM1, is 16 steps `lpassa $lm[0,16,32,48] $ln[0,2,4,6]`, …: one LW per cycle, twice the bound.
///
/// All PEs execute a program, so those that hold nothing of the tensor are written, too: the target's
/// addresses are scratch everywhere else.
namespace kodama::layout {

struct ConversionProblem {
  Layout from;
  Layout to;
  Lengths lengths;
  int element_bits = 32;
};

/// Long words [begin, end) of a memory, in every instance, whose contents a program may change.
struct ScratchRange {
  Memory memory = Memory::kLm0;
  int64_t begin = 0;
  int64_t end = 0;
};

struct Conversion {
  std::vector<std::string> path;  ///< the primitives, in order; empty when nothing has to be done
  isa::Program program;           ///< steps alone; runs by itself
  std::vector<ScratchRange> scratch;
  int64_t steps = 0;
  ConversionBound bound;
  int64_t cycles() const { return steps * isa::kCyclesPerStep; }
};

/// UserError for layouts that don't fit the shape or the chip; UnsupportedError, naming an element that no
/// primitive can bring to its place, when there is no way yet.
Conversion convert(const ConversionProblem& problem, const isa::Chip& chip);

struct MovePrimitive {
  std::string_view name;
  std::string_view description;
};
std::vector<MovePrimitive> move_primitives();

}  // namespace kodama::layout
