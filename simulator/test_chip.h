#pragma once

#include "isa/chip.h"

namespace kodama::simulator {

/// A chip with every level of the tree and small memories, for the tests of this folder.
inline isa::Chip small_chip() {
  isa::Chip chip = isa::find_chip("mncore2");
  chip.name = "small";
  chip.groups = 2;
  chip.l2b_per_group = 2;
  chip.l1b_per_l2b = 2;
  chip.mab_per_l1b = 4;
  chip.memory.dram_lw = 4096;
  chip.memory.pdm_lw = 1024;
  chip.memory.dar_entries = 256;
  chip.memory.l2bm_lw = 512;
  chip.memory.l1bm_lw = 256;
  chip.memory.lm_words = 128;
  chip.memory.grf_words = 64;
  return chip;
}

}  // namespace kodama::simulator
