#include "simulator/timing/target_model.h"

#include <vector>

#include "passes/registry.h"
#include "simulator/timing/chip_timing.h"
#include "simulator/timing/modules.h"
#include "simulator/timing/systemc_context.h"

namespace kodama::simulator::timing {
namespace {

/// A target can't be copied. What it has been asked can: a copy makes a target of its own, when it is asked
/// for the first time, and asks that the same before. The requests are shared by all copies that begin with
/// them.
class TargetModel : public isa::DramModel {
 public:
  TargetModel(const DramTargetKind& kind, const isa::Chip& chip) : kind_(kind), chip_(chip) {}
  TargetModel(const TargetModel& other)
      : kind_(other.kind_), chip_(other.chip_), asked_(other.asked_), asked_count_(other.asked_count_) {}
  TargetModel& operator=(const TargetModel&) = delete;

  int64_t serve(const isa::DramRequest& request) override {
    if (!context_) context_ = std::make_unique<SystemCContext>();
    const SystemCContext::Current current(*context_);
    if (!instance_) {
      instance_ = std::make_unique<Instance>("prediction", kind_, chip_);
      sc_core::sc_start(sc_core::SC_ZERO_TIME);  // elaboration
      for (size_t k = 0; k < asked_count_; ++k) instance_->ask((*asked_)[k]);
    }
    if (asked_->size() > asked_count_)  // another copy has gone on
      asked_ = std::make_shared<std::vector<isa::DramRequest>>(
          asked_->begin(), asked_->begin() + static_cast<int64_t>(asked_count_));
    asked_->push_back(request);
    ++asked_count_;
    return instance_->ask(request);
  }
  std::unique_ptr<isa::DramModel> clone() const override { return std::make_unique<TargetModel>(*this); }
  ~TargetModel() override {
    if (!context_) return;
    {
      const SystemCContext::Current current(*context_);
      instance_.reset();
    }
    context_.reset();
  }

 private:
  struct Instance : sc_core::sc_module {
    Instance(sc_core::sc_module_name name, const DramTargetKind& kind, const isa::Chip& chip)
        : sc_module(name), initiator(kind.name, kind.plugin), target(make_target(kind, "dram", chip)) {
      socket.bind(target->socket());
    }
    int64_t ask(const isa::DramRequest& request) { return initiator.send(*socket.operator->(), request, 0); }

    DramInitiator initiator;
    tlm_utils::simple_initiator_socket<Instance> socket{"socket"};
    std::unique_ptr<DramTarget> target;
  };

  DramTargetKind kind_;
  isa::Chip chip_;
  // Changed and read in a turn alone.
  std::shared_ptr<std::vector<isa::DramRequest>> asked_ = std::make_shared<std::vector<isa::DramRequest>>();
  size_t asked_count_ = 0;
  std::unique_ptr<SystemCContext> context_;
  std::unique_ptr<Instance> instance_;
};

}  // namespace

std::unique_ptr<DramTarget> make_target(const DramTargetKind& kind, const std::string& module,
                                        const isa::Chip& chip) {
  std::unique_ptr<DramTarget> target;
  passes::run_blaming("DRAM model", kind, [&] {
    target = kind.run(module, chip);
    if (target == nullptr) passes::blame("DRAM model", kind, "it makes no target");
  });
  return target;
}

std::unique_ptr<isa::DramModel> target_model(const DramTargetKind& kind, const isa::Chip& chip) {
  return std::make_unique<TargetModel>(kind, chip);
}

}  // namespace kodama::simulator::timing
