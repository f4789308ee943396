#pragma once

#include "isa/program.h"

/// Names of the instruction set that all sources of the golden model use, and none of its headers.
namespace kodama::simulator::golden {

using isa::Instruction;
using isa::Opcode;
using isa::Operand;
using isa::Precision;
using isa::Space;
using isa::Width;

}  // namespace kodama::simulator::golden
