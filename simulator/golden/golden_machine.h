#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "isa/chip.h"
#include "isa/program.h"
#include "simulator/golden/golden_words.h"
#include "simulator/machine.h"

/// The golden model: the ISA page as a program. One PE, one lane, one number after the other, everything
/// exact; slow, and meant to be read beside the page. For chips with small memories.
namespace kodama::simulator::golden {

class GoldenMachine {
 public:
  explicit GoldenMachine(const isa::Chip& chip);

  /// As Machine::run; steps and transfers are counted, cycles are not.
  RunStats run(const isa::Program& program, const RunOptions& options = {});
  /// As the functions of Machine.
  uint64_t read(isa::Space space, const Place& place, int64_t address) const;
  void write(isa::Space space, const Place& place, int64_t address, uint64_t value);
  void read(isa::Space space, const Place& place, int64_t address, std::span<uint64_t> data) const;
  void write(isa::Space space, const Place& place, int64_t address, std::span<const uint64_t> data);

 private:
  struct Pe {
    std::array<std::vector<uint32_t>, 2> lm;
    std::array<std::vector<uint32_t>, 2> grf;
    std::array<Quad, 4> t;
    std::vector<std::array<uint8_t, 4>> masks;
    std::array<uint32_t, 2> bar{};
    /// $aluf $mauf $lbf $mreadf
    std::array<std::array<Quad, 4>, 4> forward;
  };
  struct Mab {
    std::vector<Pe> pes;
    /// x and y: [row][LW]
    std::array<std::array<std::array<uint64_t, 4>, 16>, 2> matrix{};
  };
  struct L1b {
    std::vector<Mab> mabs;
    std::vector<uint64_t> l1bm;
    std::vector<uint64_t> turnaround;
  };
  struct L2b {
    std::vector<L1b> l1bs;
    std::vector<uint64_t> l2bm;
  };
  struct Group {
    std::vector<L2b> l2bs;
    std::vector<uint64_t> dram;
    std::vector<uint64_t> pdm;
    std::vector<uint32_t> dar;
    std::array<uint32_t, 128> dar_stage{};
    int64_t dar_destination = 0;
    int dar_position = 128;
  };
  /// A step under way: what it reads is read at once, what it writes waits here.
  struct StepContext {
    std::vector<std::function<void()>> writes;
    bool own_masks = false;
    bool no_forward = false;
    std::vector<int64_t> counters;
  };
  /// Where an instruction runs.
  struct At {
    int l2b_number;
    int l1b_number;
    int mab_number;
    int pe_number;
    L1b* l1b;
    Mab* mab;
    Pe* pe;
  };

  /// read and write at a place that exists.
  uint64_t long_at(isa::Space space, const Place& place, size_t index) const;
  void set_long(isa::Space space, const Place& place, size_t index, uint64_t value);

  void for_each_l2b(const std::function<void(L2b&, int number)>& visit);
  void run_step(const isa::Step& step, const std::vector<int64_t>& counters);
  void run_in_l1b(const isa::Instruction& instruction, const At& l1b, StepContext& context);
  void run_in_l2b(const isa::Instruction& instruction, L2b& l2b, StepContext& context);
  void run_dar(const isa::Instruction& instruction, StepContext& context);
  void run_mv(const isa::Instruction& instruction, const std::vector<int64_t>& counters);

  // One function per kind of instruction; each gives the result of one PE or MAB in one cycle.
  Quad alu(const isa::Instruction& instruction, const At& at, int cycle, StepContext& context, int& flags);
  Quad vector_mau(const isa::Instruction& instruction, const At& at, int cycle, StepContext& context,
                  int& flags);
  std::array<Quad, 4> matrix_mau(const isa::Instruction& instruction, const At& at, int cycle,
                                 StepContext& context, std::array<int, 4>& flags);
  std::array<Quad, 4> block_float(const isa::Instruction& instruction, const At& at, int cycle,
                                  StepContext& context);
  Quad matrix_read(const isa::Instruction& instruction, const At& at, int cycle,
                   const StepContext& context) const;
  void matrix_write(const isa::Instruction& instruction, const At& at, int cycle, StepContext& context);
  Quad l1bm_to_pe(const isa::Instruction& instruction, const At& at, int cycle,
                  const StepContext& context) const;
  void pe_to_l1bm(const isa::Instruction& instruction, const At& l1b, StepContext& context);

  Quad source(const isa::Operand& operand, isa::Precision precision, const At& at, int cycle,
              const StepContext& context) const;
  Quad converted_source(const isa::Operand& operand, isa::Precision precision, bool addend, const At& at,
                        int cycle, const StepContext& context) const;
  int64_t pe_address(const isa::Operand& operand, const Pe& pe, int pe_number, int cycle,
                     const StepContext& context) const;
  /// The mask bits of a cycle.
  int mask_bits(const isa::Mask& mask, const Pe& pe, int cycle) const;
  void deliver(const isa::Instruction& instruction, const At& at, int cycle, Quad result, int flags,
               int forward, StepContext& context);
  void deliver_to(const isa::Operand& destination, const At& at, int cycle, Quad result, int flags,
                  StepContext& context);

  std::vector<uint64_t>& mv_memory(isa::Space space, int group, int l2b);
  int64_t mv_address(const isa::Instruction& mv, const isa::Operand& side, int group, int64_t base,
                     int64_t i);

  isa::Chip chip_;
  std::vector<Group> groups_;
  isa::MaskControl block_mask_;
};

}  // namespace kodama::simulator::golden
