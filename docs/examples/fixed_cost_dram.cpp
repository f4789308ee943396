/// A DRAM as a plugin: a TLM-2.0 target for which every transaction costs the same, and a change between
/// reading and writing more. docs/timing.md explains it.
#include <tlm_utils/simple_target_socket.h>

#include <memory>
#include <systemc>

#include "passes/plugin.h"
#include "simulator/timing/dram_target.h"

using namespace kodama::simulator;

namespace {

class FixedCostDram : public sc_core::sc_module, public DramTarget {
 public:
  FixedCostDram(sc_core::sc_module_name name, const kodama::isa::Chip& chip)
      : sc_module(name),
        cycles_per_byte_(1 / (8 * chip.transfer.dram_lw_per_cycle)),
        cycles_per_ns_(chip.clock_hz * 1e-9) {
    socket_.register_b_transport(this, &FixedCostDram::serve);
  }
  tlm::tlm_target_socket<>& socket() override { return socket_; }

 private:
  static constexpr double kTransactionNs = 20;
  static constexpr double kTurnaroundNs = 10;

  void serve(tlm::tlm_generic_payload& payload, sc_core::sc_time& delay) {
    double cycles = kTransactionNs * cycles_per_ns_ + payload.get_data_length() * cycles_per_byte_;
    if (last_ != tlm::TLM_IGNORE_COMMAND && last_ != payload.get_command())
      cycles += kTurnaroundNs * cycles_per_ns_;
    last_ = payload.get_command();
    delay += sc_core::sc_time(cycles, sc_core::SC_NS);  // a cycle of the chip is a nanosecond here
    payload.set_response_status(tlm::TLM_OK_RESPONSE);
  }

  double cycles_per_byte_;
  double cycles_per_ns_;
  tlm::tlm_command last_ = tlm::TLM_IGNORE_COMMAND;
  tlm_utils::simple_target_socket<FixedCostDram> socket_{"socket"};
};

}  // namespace

KODAMA_PLUGIN() {
  register_pass(DramTargetKind{.name = "fixed-cost",
                               .description = "the same time for every transaction",
                               .run = [](const std::string& module, const kodama::isa::Chip& chip) {
                                 return std::make_unique<FixedCostDram>(module.c_str(), chip);
                               }});
}
