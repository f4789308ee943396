#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "simulator/engine/chip_memories.h"
#include "simulator/engine/decode.h"

/// MV instructions: what they read and write. Their time is the timing model's.
namespace kodama::simulator {

class Transfers {
 public:
  /// `most_dram_bytes` as in MachineOptions.
  Transfers(ChipMemories& memories, int64_t most_dram_bytes);

  /// Messages name this source from now on.
  void begin(const std::string& source_name) { source_name_ = source_name; }

  /// UserError if the transfer can't be made; all memories are then as they were. Not for mvnop.
  void check(const Node& node, const Counters& counters);
  /// Makes a transfer that was checked.
  void run(const Node& node, const Counters& counters);

 private:
  void transfer(const Node& node, const Counters& counters, bool check_only);
  uint64_t* mv_chunk(const Node& node, const MicroOperand& side, int group, int l2b, int64_t base,
                     int64_t i) const;
  void limit_dram(const Node& node, isa::Space space, int group, const uint64_t* chunk);
  [[noreturn]] void refuse_memory(const Node& node) const;
  std::string place_of(const Node& node) const;

  static constexpr int64_t kDramBlockLw = (1 << 20) / 8;
  ChipMemories* memories_;
  std::string source_name_;
  // The blocks of DRAM that hold something since a transfer wrote them.
  int64_t most_blocks_;  ///< 0 = any number
  int64_t blocks_ = 0;
  std::vector<std::vector<bool>> written_;  ///< per group and block
};

}  // namespace kodama::simulator
