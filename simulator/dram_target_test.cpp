#include "simulator/timing/dram_target.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <thread>

#include "assembler/assembler.h"
#include "docs/examples/fixed_cost_dram.cpp"
#include "isa/error.h"
#include "isa/sequencer.h"
#include "simulator/machine.h"

namespace kodama::simulator {
namespace {

using testing::HasSubstr;

/// A target that is wrong in one way.
class WrongDram : public sc_core::sc_module, public DramTarget {
 public:
  enum class Fault { kNone, kGoesBack, kNoResponse, kThrows, kTakesTooMuch };
  WrongDram(sc_core::sc_module_name name, Fault fault) : sc_module(name), fault_(fault) {
    socket_.register_b_transport(this, &WrongDram::serve);
  }
  tlm::tlm_target_socket<>& socket() override { return socket_; }

 private:
  void serve(tlm::tlm_generic_payload& payload, sc_core::sc_time& delay) {
    delay += sc_core::sc_time(10, sc_core::SC_NS);
    payload.set_response_status(tlm::TLM_OK_RESPONSE);
    if (fault_ == Fault::kGoesBack) delay = sc_core::SC_ZERO_TIME;
    if (fault_ == Fault::kNoResponse) payload.set_response_status(tlm::TLM_ADDRESS_ERROR_RESPONSE);
    if (fault_ == Fault::kThrows) throw std::runtime_error("no DRAM today");
    auto* const gather = payload.get_extension<GatherExtension>();
    if (fault_ == Fault::kTakesTooMuch && gather != nullptr) gather->taken = 1000;
  }
  Fault fault_;
  tlm_utils::simple_target_socket<WrongDram> socket_{"socket"};
};

isa::Chip chip_with(const std::string& model) {
  static const bool registered = [] {
    kodama_register_passes();
    using enum WrongDram::Fault;
    const std::vector<std::pair<std::string, WrongDram::Fault>> faults = {{"flat", kNone},
                                                                          {"goes-back", kGoesBack},
                                                                          {"no-response", kNoResponse},
                                                                          {"throws", kThrows},
                                                                          {"takes-too-much", kTakesTooMuch}};
    for (const auto& [name, fault] : faults) {
      register_pass(DramTargetKind{name, "", [fault = fault](const std::string& module, const isa::Chip&) {
                                     return std::make_unique<WrongDram>(module.c_str(), fault);
                                   }});
    }
    register_pass(DramTargetKind{
        "nothing", "", [](const std::string&, const isa::Chip&) { return std::unique_ptr<DramTarget>(); }});
    return true;
  }();
  EXPECT_TRUE(registered);
  return isa::find_chip("mncore2,transfer.dram_refresh_ns=0,transfer.dram_model=" + model);
}

isa::CycleCauses simulated(const std::string& text, const isa::Chip& chip) {
  return Machine(chip).run(assembler::assemble(text, "dram.vsm", chip)).causes;
}
isa::CycleCauses predicted(const std::string& text, const isa::Chip& chip) {
  return isa::predict_cycles(assembler::assemble(text, "dram.vsm", chip), chip);
}

TEST(DramTarget, TheExampleTakesTheTimeByHand) {
  const isa::Chip chip = chip_with("fixed-cost");
  // One chunk: start-up 64, 20 ns = 15 cycles, 1024 LW at 17.07 = 60.
  EXPECT_EQ(simulated("mvp/n1024 $d0@0 $lc0@0.0\n", chip).total(), 64 + 15 + 60);
  // Four chunks.
  EXPECT_EQ(simulated("mvp/n4096 $d0@0 $lc0@0.0\n", chip).total(), 64 + 4 * (15 + 60));
  // A copy reads and writes each chunk: the first read without, the others with a turn-around of 7.5.
  EXPECT_EQ(simulated("mvp/n2048 $d0@0 $d8192@0\n", chip).total(), 64 + 4 * 75 + 23);
  // The DAR's blocks are transactions of their own: 15 + 16 / 17.07 each.
  EXPECT_NEAR(simulated("mvp/n1024 $di0@0 $lc0@0.0\n", chip).total(), 64 + 64 * 15 + 60, 1);
}

TEST(DramTarget, EveryRunBeginsAnewAndPredictionAgrees) {
  std::mt19937 random(7);
  const auto pick = [&](int count) { return static_cast<int>(random() % static_cast<unsigned>(count)); };
  for (const char* model : {"fixed-cost", "flat", "rows", "banks"}) {
    const isa::Chip chip = chip_with(model);
    Machine machine(chip);
    for (int k = 0; k < 20; ++k) {
      std::string text;
      for (int line = 0; line < 30; ++line) {
        const int tag = 1 + pick(63);
        const std::string dram = fmt::format("$d{}@{}", 64 * pick(10000), pick(4));
        const std::string other = pick(2) == 0 ? fmt::format("$d{}@{}", 64 * pick(10000), pick(4))
                                               : fmt::format("$lc{}@{}.{}", 64 * pick(100), pick(4), pick(2));
        text += fmt::format("mvp/n{}i{:02x}p{} {} {}\n", 64 * (1 + pick(60)), tag, pick(4),
                            pick(2) == 0 ? dram : other,
                            dram == other  ? "$p0@0"
                            : pick(2) == 0 ? "$p0@0"
                                           : dram);
        if (pick(3) == 0) text += fmt::format("nop/{}\n", 1 + pick(100));
        if (pick(3) == 0) text += fmt::format("nop; wait i{:02x}\n", tag);
      }
      const isa::Program program = assembler::assemble(text, "dram.vsm", chip);
      const isa::CycleCauses expected = isa::predict_cycles(program, chip);
      EXPECT_EQ(machine.run(program).causes, expected) << model << " " << k;
      EXPECT_EQ(machine.run(program).causes, expected) << model << " " << k;
    }
  }
}

TEST(DramTarget, CopiesOfAPredictionGoOnByThemselves) {
  const isa::Chip chip = chip_with("fixed-cost");
  const auto mv = [&](const std::string& line) {
    return std::get<isa::Mv>(assembler::assemble(line, "dram.vsm", chip).statements[0].kind).instruction;
  };
  const isa::Instruction read = mv("mvp/n1024 $d0@0 $lc0@0.0\n");
  const isa::Instruction write = mv("mvp/n1024 $lc0@0.0 $d0@0\n");
  isa::CyclePredictor beginning(chip);
  beginning.mv(read);
  isa::CyclePredictor reads(beginning);
  isa::CyclePredictor writes(beginning);
  reads.mv(read);
  writes.mv(write);
  beginning.mv(write);
  EXPECT_EQ(reads.finish().total(), 64 + 2 * 75);
  EXPECT_EQ(writes.finish().total(), 64 + 2 * 75 + 8);
  EXPECT_EQ(isa::CyclePredictor(beginning).finish().total(), 64 + 2 * 75 + 8);
}

TEST(DramTarget, ThreadsPredictAndSimulateTogether) {
  const isa::Chip chip = chip_with("fixed-cost");
  const std::string text = "mvp/n4096i01 $d0@0 $lc0@0.0\nmvp/n4096i02 $lc4096@0.0 $d8192@0\nnop; wait i01\n";
  const isa::CycleCauses expected = predicted(text, chip);
  std::vector<std::thread> threads;
  std::atomic<int> right = 0;
  for (int k = 0; k < 4; ++k) {
    threads.emplace_back([&, k] {
      for (int round = 0; round < 5; ++round)
        right += (k % 2 == 0 ? simulated(text, chip) : predicted(text, chip)) == expected ? 1 : 0;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(right, 20);
}

TEST(DramTarget, WrongTargetsAreNamed) {
  const auto fault = [&](const std::string& model, bool predicts) -> std::string {
    const isa::Chip chip = chip_with(model);
    const std::string text = "nop/30\nmvp/n64i01 $d0@0 $p0@0\nnop; wait i01\nmvp/n128 $di0@0 $p0@0\n";
    try {
      static_cast<void>(predicts ? predicted(text, chip) : simulated(text, chip));
    } catch (const isa::PassError& error) {
      return error.what();
    }
    return "right";
  };
  for (const bool predicts : {true, false}) {
    EXPECT_EQ(fault("flat", predicts), "right");
    if (predicts) {  // asked at time 0; a simulation's first transaction is sent at once, where 0 is no step
                     // back
      EXPECT_THAT(fault("goes-back", predicts),
                  HasSubstr("'goes-back' is at fault: it answers a delay of 0 ps"));
    }
    EXPECT_THAT(fault("no-response", predicts),
                HasSubstr("it answers TLM_ADDRESS_ERROR_RESPONSE to 512 bytes"));
    EXPECT_THAT(fault("throws", predicts), HasSubstr("it throws: no DRAM today"));
    EXPECT_THAT(fault("takes-too-much", predicts), HasSubstr("it takes 1000 of 8 pieces"));
    EXPECT_THAT(fault("nothing", predicts), HasSubstr("it makes no target"));
  }
}

}  // namespace
}  // namespace kodama::simulator
