#include "simulator/timing/chip_timing.h"

#include <fmt/format.h>

#include <atomic>
#include <cstdlib>
#include <mutex>
#include <thread>

#include "isa/error.h"
#include "simulator/timing/modules.h"

/// SystemC's library wants the program's entry point; kodama has its own main().
int sc_main(int /*argc*/, char** /*argv*/) {
  return 1;
}

namespace kodama::simulator {
namespace {

/// SystemC's state is global: one simulation at a time.
class SystemCContext {
 public:
  SystemCContext() {
    if (holder_ == std::this_thread::get_id())
      throw isa::InternalError("internal error in timing: two timed runs at a time in one thread");
    lock_ = std::unique_lock(mutex_);
    holder_ = std::this_thread::get_id();
    setenv("SYSTEMC_DISABLE_COPYRIGHT_MESSAGE", "1", 0);
    // Elaboration runs the kernel once without events.
    sc_core::sc_report_handler::set_actions(sc_core::SC_ID_NO_SC_START_ACTIVITY_, sc_core::SC_DO_NOTHING);
    outer_ = sc_core::sc_curr_simcontext;
    context_ = std::make_unique<sc_core::sc_simcontext>();
    sc_core::sc_curr_simcontext = sc_core::sc_default_global_context = context_.get();
    sc_core::sc_set_time_resolution(1, sc_core::SC_PS);
  }
  ~SystemCContext() {
    context_.reset();
    sc_core::sc_curr_simcontext = sc_core::sc_default_global_context = outer_;
    holder_ = std::thread::id();
  }
  SystemCContext(const SystemCContext&) = delete;
  SystemCContext& operator=(const SystemCContext&) = delete;

 private:
  inline static std::mutex mutex_;
  inline static std::atomic<std::thread::id> holder_;
  std::unique_lock<std::mutex> lock_;
  sc_core::sc_simcontext* outer_ = nullptr;
  std::unique_ptr<sc_core::sc_simcontext> context_;
};

}  // namespace

class ChipTiming::Impl {
 public:
  explicit Impl(const isa::Chip& chip)
      : link_("host_link", chip), engine_("transfer_engine", chip), pe_array_("pe_array", chip) {
    pe_array_.words.bind(link_.instructions);
    pe_array_.data.bind(link_.data);
    pe_array_.commands.bind(engine_.commands);
    size_t socket = 0;
    for (int g = 0; g < chip.groups; ++g) {
      drams_.push_back(std::make_unique<timing::Dram>(fmt::format("dram_{}", g).c_str(), chip));
      engine_.ports[socket++].bind(drams_.back()->socket);
    }
    const auto add = [&](const std::string& name, isa::TransferPort port) {
      rate_ports_.push_back(std::make_unique<timing::RatePort>(name.c_str(), isa::transfer_rate(port, chip)));
      engine_.ports[socket++].bind(rate_ports_.back()->socket);
    };
    for (int g = 0; g < chip.groups; ++g) add(fmt::format("pdm_{}", g), isa::TransferPort::kPdmRead);
    for (int q = 0; q < chip.l2b_count(); ++q) add(fmt::format("l2bm_{}", q), isa::TransferPort::kL2bmRead);
    add("group_paths", isa::TransferPort::kGroupPath);
    sc_core::sc_start(sc_core::SC_ZERO_TIME);
  }

  SystemCContext context_;  // first in, last out
  timing::HostLink link_;
  timing::TransferEngine engine_;
  timing::PeArray pe_array_;
  std::vector<std::unique_ptr<timing::Dram>> drams_;  ///< by group
  std::vector<std::unique_ptr<timing::RatePort>> rate_ports_;
  isa::Sequencer sequencer_{pe_array_};
};

ChipTiming::ChipTiming(const isa::Chip& chip) : impl_(std::make_unique<Impl>(chip)) {}
ChipTiming::~ChipTiming() = default;

isa::Sequencer& ChipTiming::sequencer() {
  return impl_->sequencer_;
}
void ChipTiming::on_transfer(std::function<void(const isa::TransferRecord&)> receive) {
  impl_->engine_.on_transfer = std::move(receive);
}
double ChipTiming::busy_cycles(int port) const {
  return impl_->engine_.timeline().busy(port);
}
int64_t ChipTiming::moved_lw(int port) const {
  return impl_->engine_.timeline().moved_lw(port);
}
const isa::DramTiming& ChipTiming::dram(int group) const {
  return impl_->drams_[static_cast<size_t>(group)]->timing();
}
int64_t ChipTiming::kernel_starts() const {
  return impl_->pe_array_.kernel_starts();
}

}  // namespace kodama::simulator
