#include "simulator/timing/chip_timing.h"

#include <fmt/format.h>

#include <memory>
#include <optional>

#include "isa/error.h"
#include "simulator/timing/modules.h"
#include "simulator/timing/systemc_context.h"
#include "simulator/timing/target_model.h"

namespace kodama::simulator {
namespace {

/// The chip's modules.
struct Model {
  explicit Model(const isa::Chip& chip)
      : link("host_link", chip, clock),
        engine("transfer_engine", chip, clock),
        pe_array("pe_array", chip, clock) {
    pe_array.words.bind(link.instructions);
    pe_array.data.bind(link.data);
    pe_array.commands.bind(engine.commands);
    pe_array.after_kernel = [this] { engine.rethrow_fault(); };
    size_t socket = 0;
    for (int g = 0; g < chip.groups; ++g) {
      drams.push_back(make_dram(fmt::format("dram_{}", g), chip));
      engine.ports[socket++].bind(drams.back()->socket());
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

  std::unique_ptr<DramTarget> make_dram(const std::string& name, const isa::Chip& chip) {
    for (const DramTargetKind& kind : dram_targets()) {
      if (kind.name != chip.transfer.dram_model) continue;
      drams_of_plugin = true;
      return timing::make_target(kind, name, chip);
    }
    return std::make_unique<timing::Dram>(name.c_str(), chip, clock);
  }

  bool drams_of_plugin = false;
  timing::Clock clock;
  timing::HostLink link;
  timing::TransferEngine engine;
  timing::PeArray pe_array;
  std::vector<std::unique_ptr<DramTarget>> drams;  ///< by group
  std::vector<std::unique_ptr<timing::RatePort>> rate_ports;
};

}  // namespace

class ChipTiming::Impl {
 public:
  explicit Impl(const isa::Chip& chip) : chip_(chip) { make_model(); }
  ~Impl() { drop_model(); }

  void begin() {
    // SystemC's time never goes back, and is to last for the longest run. What a plugin's target remembers
    // can be forgotten only with the target.
    constexpr sc_dt::uint64 kLastOrigin = sc_dt::uint64{1} << 62;
    if (now() > kLastOrigin || (began_ && model_->drams_of_plugin)) {
      drop_model();
      make_model();
    }
    began_ = true;
    const timing::SystemCContext::Current current(*context_);
    model_->clock.origin = sc_core::sc_time_stamp();
    model_->link.reset();
    model_->engine.reset();
    model_->pe_array.reset();
    for (const auto& dram : model_->drams) {
      if (auto* own = dynamic_cast<timing::Dram*>(dram.get())) own->reset();
    }
    sequencer_.emplace(model_->pe_array);
  }
  sc_dt::uint64 now() {
    const timing::SystemCContext::Current current(*context_);
    return sc_core::sc_time_stamp().value();
  }

  void make_model() {
    context_ = std::make_unique<timing::SystemCContext>();
    const timing::SystemCContext::Current current(*context_);
    model_ = std::make_unique<Model>(chip_);
  }
  void drop_model() {
    {
      const timing::SystemCContext::Current current(*context_);
      sequencer_.reset();
      model_.reset();
    }
    context_.reset();
  }

  isa::Chip chip_;
  bool began_ = false;
  std::unique_ptr<timing::SystemCContext> context_;
  std::unique_ptr<Model> model_;
  std::optional<isa::Sequencer> sequencer_;
};

class ChipTiming::Turn::Impl : public timing::SystemCContext::Current {
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
double ChipTiming::busy_cycles_for_host(int port) const {
  return impl_->model_->engine.timeline().busy_for_host(port);
}
int64_t ChipTiming::moved_lw(int port) const {
  return impl_->model_->engine.timeline().moved_lw(port);
}
isa::DramCounts ChipTiming::dram_counts(int group) const {
  const auto* dram = dynamic_cast<timing::Dram*>(impl_->model_->drams[static_cast<size_t>(group)].get());
  return dram == nullptr ? isa::DramCounts{} : dram->model().counts();
}
int64_t ChipTiming::kernel_starts() const {
  return impl_->model_->pe_array.kernel_starts();
}

}  // namespace kodama::simulator
