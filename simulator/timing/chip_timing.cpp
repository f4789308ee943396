#include "simulator/timing/chip_timing.h"

#include <fmt/format.h>

#include <atomic>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>

#include "isa/error.h"
#include "simulator/timing/modules.h"

/// SystemC's library wants the program's entry point; kodama has its own main().
int sc_main(int /*argc*/, char** /*argv*/) {
  return 1;
}

namespace kodama::simulator {
namespace {

/// SystemC's state is global, and so are its pools of memory: one thread at a time makes, uses or destroys
/// anything of it.
class SystemCTurn {
 public:
  SystemCTurn() {
    if (holder_ == std::this_thread::get_id())
      throw isa::InternalError("internal error in timing: two turns at a time in one thread");
    lock_ = std::unique_lock(mutex_);
    holder_ = std::this_thread::get_id();
    outer_ = sc_core::sc_curr_simcontext;
  }
  ~SystemCTurn() {
    enter(outer_);
    holder_ = std::thread::id();
  }
  SystemCTurn(const SystemCTurn&) = delete;
  SystemCTurn& operator=(const SystemCTurn&) = delete;

  /// Makes the context the current one for the rest of the turn.
  void enter(sc_core::sc_simcontext* context) {
    sc_core::sc_curr_simcontext = sc_core::sc_default_global_context = context;
  }

 private:
  inline static std::mutex mutex_;
  inline static std::atomic<std::thread::id> holder_;
  std::unique_lock<std::mutex> lock_;
  sc_core::sc_simcontext* outer_ = nullptr;
};

class SystemCContext {
 public:
  SystemCContext() {
    SystemCTurn turn;
    setenv("SYSTEMC_DISABLE_COPYRIGHT_MESSAGE", "1", 0);
    // Elaboration runs the kernel once without events.
    sc_core::sc_report_handler::set_actions(sc_core::SC_ID_NO_SC_START_ACTIVITY_, sc_core::SC_DO_NOTHING);
    context_ = std::make_unique<sc_core::sc_simcontext>();
    turn.enter(context_.get());
    sc_core::sc_set_time_resolution(1, sc_core::SC_PS);
  }
  ~SystemCContext() {
    const SystemCTurn turn;
    context_.reset();
  }
  SystemCContext(const SystemCContext&) = delete;
  SystemCContext& operator=(const SystemCContext&) = delete;

  /// A turn with the context as the current one.
  class Current {
   public:
    explicit Current(SystemCContext& context) { turn_.enter(context.context_.get()); }

   private:
    SystemCTurn turn_;
  };

 private:
  std::unique_ptr<sc_core::sc_simcontext> context_;
};

/// The chip's modules.
struct Model {
  explicit Model(const isa::Chip& chip)
      : link("host_link", chip, clock),
        engine("transfer_engine", chip, clock),
        pe_array("pe_array", chip, clock) {
    pe_array.words.bind(link.instructions);
    pe_array.data.bind(link.data);
    pe_array.commands.bind(engine.commands);
    size_t socket = 0;
    for (int g = 0; g < chip.groups; ++g) {
      drams.push_back(std::make_unique<timing::Dram>(fmt::format("dram_{}", g).c_str(), chip));
      engine.ports[socket++].bind(drams.back()->socket);
    }
    const auto add = [&](const std::string& name, isa::TransferPort port) {
      rate_ports.push_back(std::make_unique<timing::RatePort>(name.c_str(), isa::transfer_rate(port, chip)));
      engine.ports[socket++].bind(rate_ports.back()->socket);
    };
    for (int g = 0; g < chip.groups; ++g) add(fmt::format("pdm_{}", g), isa::TransferPort::kPdmRead);
    for (int q = 0; q < chip.l2b_count(); ++q) add(fmt::format("l2bm_{}", q), isa::TransferPort::kL2bmRead);
    add("group_paths", isa::TransferPort::kGroupPath);
    sc_core::sc_start(sc_core::SC_ZERO_TIME);
  }

  timing::Clock clock;
  timing::HostLink link;
  timing::TransferEngine engine;
  timing::PeArray pe_array;
  std::vector<std::unique_ptr<timing::Dram>> drams;  ///< by group
  std::vector<std::unique_ptr<timing::RatePort>> rate_ports;
};

}  // namespace

class ChipTiming::Impl {
 public:
  explicit Impl(const isa::Chip& chip) : chip_(chip) { make_model(); }
  ~Impl() { drop_model(); }

  void begin() {
    // SystemC's time never goes back, and is to last for the longest run.
    constexpr sc_dt::uint64 kLastOrigin = sc_dt::uint64{1} << 62;
    if (now() > kLastOrigin) {
      drop_model();
      make_model();
    }
    const SystemCContext::Current current(*context_);
    model_->clock.origin = sc_core::sc_time_stamp();
    model_->link.reset();
    model_->engine.reset();
    model_->pe_array.reset();
    for (const auto& dram : model_->drams) dram->reset();
    sequencer_.emplace(model_->pe_array);
  }
  sc_dt::uint64 now() {
    const SystemCContext::Current current(*context_);
    return sc_core::sc_time_stamp().value();
  }

  void make_model() {
    context_ = std::make_unique<SystemCContext>();
    const SystemCContext::Current current(*context_);
    model_ = std::make_unique<Model>(chip_);
  }
  void drop_model() {
    {
      const SystemCContext::Current current(*context_);
      sequencer_.reset();
      model_.reset();
    }
    context_.reset();
  }

  isa::Chip chip_;
  std::unique_ptr<SystemCContext> context_;
  std::unique_ptr<Model> model_;
  std::optional<isa::Sequencer> sequencer_;
};

class ChipTiming::Turn::Impl : public SystemCContext::Current {
 public:
  using Current::Current;
};

ChipTiming::Turn::Turn(ChipTiming& timing) : impl_(std::make_unique<Impl>(*timing.impl_->context_)) {}
ChipTiming::Turn::~Turn() = default;

ChipTiming::ChipTiming(const isa::Chip& chip) : impl_(std::make_unique<Impl>(chip)) {}
ChipTiming::~ChipTiming() = default;

void ChipTiming::begin() {
  impl_->begin();
}
isa::Sequencer& ChipTiming::sequencer() {
  return *impl_->sequencer_;
}
void ChipTiming::on_transfer(std::function<void(const isa::TransferRecord&)> receive) {
  impl_->model_->engine.on_transfer = std::move(receive);
}
double ChipTiming::busy_cycles(int port) const {
  return impl_->model_->engine.timeline().busy(port);
}
int64_t ChipTiming::moved_lw(int port) const {
  return impl_->model_->engine.timeline().moved_lw(port);
}
const isa::DramTiming& ChipTiming::dram(int group) const {
  return impl_->model_->drams[static_cast<size_t>(group)]->timing();
}
int64_t ChipTiming::kernel_starts() const {
  return impl_->model_->pe_array.kernel_starts();
}

}  // namespace kodama::simulator
