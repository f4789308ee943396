#include "compiler/runtime/dram_region.h"

#include <algorithm>
#include <limits>

#include "isa/costs.h"
#include "isa/transfer_walk.h"

namespace kodama::compiler {
namespace {

class Finder {
 public:
  explicit Finder(const CompiledModel& model) : chip_(model.chip) {
    for (const CompiledModel::Preload& preload : model.preloads) {
      for (const auto& group : preload.image.groups)
        add(preload.dram_address, static_cast<int64_t>(group.size()));
    }
    for (const Stage& stage : model.stages) {
      const auto* chip = std::get_if<ChipStage>(&stage.body);
      if (chip == nullptr) continue;
      add(chip->result);
      for (const StreamBinding& operand : chip->operands) add(operand);
    }
    for (const Segment& segment : model.segments) add(segment.parts.program);
    add(model.preparation);
    if (region_.begin > region_.end) region_.begin = region_.end = 0;
  }
  const DramRegion& region() const { return region_; }

 private:
  void add(int64_t address, int64_t lw) {
    if (lw == 0) return;
    region_.begin = std::min(region_.begin, address);
    region_.end = std::max(region_.end, address + lw);
  }
  void add(const StreamBinding& binding) { add(binding.dram_address, stream_group_lw(binding.placement)); }
  void add(const isa::Program& program) {
    isa::TransferWalk walk;
    walk.mv = [&](const isa::Instruction& mv) {
      for (const isa::TransferPart& part : isa::transfer_parts(mv, chip_)) {
        if (part.port != isa::TransferPort::kDram) continue;
        if (part.indirect) {
          region_.indirect = true;
        } else {
          add(part.address, part.lw);
        }
      }
    };
    walk.walk(program);
  }

  const isa::Chip& chip_;
  DramRegion region_{std::numeric_limits<int64_t>::max(), 0, false};
};

void move(std::vector<isa::Statement>& statements, int64_t lw) {
  for (isa::Statement& statement : statements) {
    if (auto* loop = std::get_if<isa::Loop>(&statement.kind)) move(loop->body, lw);
    auto* mv = std::get_if<isa::Mv>(&statement.kind);
    if (mv == nullptr) continue;
    for (auto* operands : {&mv->instruction.sources, &mv->instruction.destinations}) {
      for (isa::Operand& operand : *operands) {
        isa::check_internal(operand.space != isa::Space::kDramIndirect, "move_in_dram",
                            "an indirect MV in line {}", statement.line);
        if (operand.space == isa::Space::kDram) operand.base += lw;
      }
    }
  }
}

}  // namespace

DramRegion dram_region(const CompiledModel& model) {
  return Finder(model).region();
}

void move_in_dram(CompiledModel& model, int64_t lw) {
  for (CompiledModel::Preload& preload : model.preloads) preload.dram_address += lw;
  for (Stage& stage : model.stages) {
    auto* chip = std::get_if<ChipStage>(&stage.body);
    if (chip == nullptr) continue;
    chip->result.dram_address += lw;
    for (StreamBinding& operand : chip->operands) operand.dram_address += lw;
  }
  for (Segment& segment : model.segments) move(segment.parts.program.statements, lw);
  move(model.preparation.statements, lw);
}

}  // namespace kodama::compiler
