#pragma once

#include <tlm.h>
#include <tlm_utils/simple_initiator_socket.h>
#include <tlm_utils/simple_target_socket.h>

#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <systemc>
#include <vector>

#include "isa/chip.h"
#include "isa/costs.h"
#include "isa/sequencer.h"
#include "isa/transfer_timeline.h"
#include "simulator/timing/dram_target.h"

/// The SystemC modules of the timing model; simulator/timing/chip_timing.h has the picture.
namespace kodama::simulator::timing {

/// Cycles as SystemC time, rounded up to a picosecond, and back.
sc_core::sc_time at_least(double cycles);
sc_core::sc_time exactly(int64_t cycles);
double cycles_of(const sc_core::sc_time& time);
sc_core::sc_time of_ticks(int64_t ticks);
int64_t ticks_of(const sc_core::sc_time& time);

/// The chip's time: SystemC's, less that of the runs before.
struct Clock {
  sc_core::sc_time origin = sc_core::SC_ZERO_TIME;
  sc_core::sc_time now() const { return sc_core::sc_time_stamp() - origin; }
};

/// What an MV carries beside the generic payload.
struct MvExtension : tlm::tlm_extension<MvExtension> {
  isa::TransferRequest request;
  std::vector<isa::TransferPart> parts;
  int64_t done = 0;  ///< cycle

  tlm::tlm_extension_base* clone() const override { return new MvExtension(*this); }
  void copy_from(const tlm::tlm_extension_base& other) override {
    *this = static_cast<const MvExtension&>(other);
  }
};

/// What goes over the host link: instruction words wanted one per step, or bytes of data.
struct LinkExtension : tlm::tlm_extension<LinkExtension> {
  int64_t amount = 0;

  tlm::tlm_extension_base* clone() const override { return new LinkExtension(*this); }
  void copy_from(const tlm::tlm_extension_base& other) override {
    *this = static_cast<const LinkExtension&>(other);
  }
};

/// The host's side: the instruction stream and data, both ways, on one link.
class HostLink : public sc_core::sc_module {
 public:
  HostLink(sc_core::sc_module_name name, const isa::Chip& chip, const Clock& clock);
  void reset() { feed_ = isa::InstructionFeed(chip_); }
  tlm_utils::simple_target_socket<HostLink> instructions{"instructions"};
  tlm_utils::simple_target_socket<HostLink> data{"data"};

 private:
  /// The delay becomes the time at which the last word can be used.
  void fetch(tlm::tlm_generic_payload& payload, sc_core::sc_time& delay);
  void move_data(tlm::tlm_generic_payload& payload, sc_core::sc_time& delay);

  isa::Chip chip_;
  const Clock& clock_;
  isa::InstructionFeed feed_;
};

/// Sends a request to the DRAM behind a socket, as simulator/timing/dram_target.h says; `now` is SystemC's
/// time as a tick of the program. Returns the tick at which the last byte has passed.
class DramInitiator {
 public:
  DramInitiator(std::string model, std::string plugin);
  ~DramInitiator();
  DramInitiator(const DramInitiator&) = delete;
  DramInitiator& operator=(const DramInitiator&) = delete;

  int64_t send(tlm::tlm_fw_transport_if<>& target, const isa::DramRequest& request, int64_t now);

 private:
  [[noreturn]] void blame(const std::string& fault) const;
  std::string model_;
  std::string plugin_;
  tlm::tlm_generic_payload payload_;
  GatherExtension gather_;
  std::vector<unsigned char> data_;
};

/// Ports whose time is LW over rate: those of a PDM, the MV ports of an L2BM, the paths between groups.
/// They answer for one chunk at a time, like a DRAM.
class RatePort : public sc_core::sc_module {
 public:
  RatePort(sc_core::sc_module_name name, double lw_per_cycle);
  tlm_utils::simple_target_socket<RatePort> socket{"socket"};

 private:
  void occupy(tlm::tlm_generic_payload& payload, sc_core::sc_time& delay);
  double lw_per_cycle_;
};

/// The DRAM of a group by a model of isa/dram_model.h.
class Dram : public sc_core::sc_module, public DramTarget {
 public:
  Dram(sc_core::sc_module_name name, const isa::Chip& chip, const Clock& clock);
  tlm::tlm_target_socket<>& socket() override { return socket_; }
  void reset() { model_ = isa::find_dram_model(chip_.transfer.dram_model).run(chip_); }
  const isa::DramModel& model() const { return *model_; }

 private:
  void serve(tlm::tlm_generic_payload& payload, sc_core::sc_time& delay);
  isa::Chip chip_;
  const Clock& clock_;
  std::unique_ptr<isa::DramModel> model_;
  isa::DramRequest request_;
  tlm_utils::simple_target_socket<Dram> socket_{"socket"};
};

/// Carries out the MVs.
class TransferEngine : public sc_core::sc_module {
 public:
  TransferEngine(sc_core::sc_module_name name, const isa::Chip& chip, const Clock& clock);
  void reset();
  tlm_utils::simple_target_socket<TransferEngine> commands{"commands"};
  /// One per DRAM, PDM and L2BM, in this order, and one for the paths between groups.
  sc_core::sc_vector<tlm_utils::simple_initiator_socket<TransferEngine>> ports;
  isa::TransferTimeline& timeline() { return timeline_; }
  const isa::TransferTimeline& timeline() const { return timeline_; }

  std::function<void(const isa::TransferRecord&)> on_transfer;
  /// Throws what went wrong while the kernel ran; through the kernel it would lose its kind.
  void rethrow_fault();

 private:
  tlm::tlm_sync_enum receive(tlm::tlm_generic_payload& payload, tlm::tlm_phase& phase,
                             sc_core::sc_time& delay);
  double ask_port(const isa::TransferChunk& chunk);
  void take(tlm::tlm_generic_payload& payload, int64_t cycle);
  void handle_events();
  void advance();
  void notify();
  void transfer_done(const isa::TransferRecord& record);

  size_t socket_of(const isa::TransferPart& part) const;

  isa::Chip chip_;
  const Clock& clock_;
  isa::TransferTimeline timeline_;
  sc_core::sc_event wake_;
  std::exception_ptr fault_;
  tlm::tlm_generic_payload chunk_payload_;
  std::vector<unsigned char> data_;  ///< of chunk_payload_
  std::vector<isa::DramPort> dram_ports_;
  DramInitiator drams_;
  std::map<int64_t, tlm::tlm_generic_payload*> under_way_;  ///< by the timeline's number
  tlm::tlm_generic_payload* held_ = nullptr;                ///< for which there is no room yet
  int64_t held_cycle_ = 0;                                  ///< when it was wanted
};

/// The sequencer with the PEs behind it. Runs the kernel when it must know something.
class PeArray : public sc_core::sc_module, public isa::SequencerPorts, private tlm::tlm_mm_interface {
 public:
  PeArray(sc_core::sc_module_name name, const isa::Chip& chip, const Clock& clock);
  /// Nothing may be under way.
  void reset();
  ~PeArray() override;
  tlm_utils::simple_initiator_socket<PeArray> words{"words"};
  tlm_utils::simple_initiator_socket<PeArray> data{"data"};
  tlm_utils::simple_initiator_socket<PeArray> commands{"commands"};

  int64_t take_words(int64_t cycle, int64_t count) override;
  const isa::Chip& chip() const override { return chip_; }
  int64_t link_data(int64_t bytes, bool to_chip, int64_t tick) override;
  int64_t issue(isa::TransferRequest request, int64_t cycle) override;
  int64_t wait(int tag, int64_t cycle) override;
  int64_t in_flight(int tag, int64_t cycle) override;

  int64_t kernel_starts() const { return kernel_starts_; }

  std::function<void()> after_kernel;  ///< whenever the kernel has run

 private:
  tlm::tlm_sync_enum answer(tlm::tlm_generic_payload& payload, tlm::tlm_phase& phase,
                            sc_core::sc_time& delay);
  tlm::tlm_generic_payload& new_payload();
  void free(tlm::tlm_generic_payload* payload) override;
  /// A cycle as an offset from the kernel's time.
  sc_core::sc_time local_time(int64_t cycle) const;
  void run_kernel();
  void run_kernel_until(int64_t cycle);
  int64_t in_flight(int tag) const;

  isa::Chip chip_;
  const Clock& clock_;
  tlm::tlm_generic_payload link_payload_;
  LinkExtension link_extension_;
  std::vector<std::unique_ptr<tlm::tlm_generic_payload>> payloads_;
  std::vector<tlm::tlm_generic_payload*> free_payloads_;
  std::vector<int64_t> in_flight_;  ///< by tag
  int64_t all_in_flight_ = 0;
  std::vector<int64_t> last_done_;
  int64_t any_last_done_ = 0;
  bool accepted_ = false;
  int64_t accepted_cycle_ = 0;
  enum class Awaiting { kNothing, kRoom, kTag } awaiting_ = Awaiting::kNothing;
  int awaited_tag_ = -1;
  int64_t kernel_starts_ = 0;
};

}  // namespace kodama::simulator::timing
