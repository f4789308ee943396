/// Any bytes as a chip file. A chip that is accepted can be asked everything.
#include "assembler/assembler.h"
#include "isa/costs.h"
#include "isa/sequencer.h"
#include "isa/transfer_timeline.h"
#include "testsuite/fuzz/fuzz_target.h"

namespace kodama::fuzz {

void fuzz_one(std::string_view input) {
  const isa::Chip chip = isa::parse_chip(input, "input");
  require(chip.pe_count() > 0 && chip.hash.size() == 16, "a chip has PEs and a hash");
  require(isa::TransferPorts(chip).count() > 0, "a chip has ports");
  require(isa::host_link_cycles(1, chip) >= 0, "the host link takes time");
  isa::InstructionFeed feed(chip);
  require(feed.take_steps(0, 1000) >= 4 * 999, "steps take 4 cycles");
  const auto dram = isa::find_dram_model(chip.transfer.dram_model).run(chip);
  for (const bool write : {false, true, false}) {
    const isa::DramRequest request{1 << 20, write, {{0, 512}, {chip.memory.dram_lw * 8 - 512, 512}}};
    require(dram->serve(request) >= request.time, "DRAM takes time");
  }
}

}  // namespace kodama::fuzz
