#include "compiler/runtime/device.h"

#include <fmt/format.h>

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <exception>
#include <map>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "compiler/runtime/dram_region.h"
#include "isa/arithmetic.h"
#include "isa/error.h"

namespace kodama::compiler {
namespace device_parts {

/// What is handed in. Once it is over it refers to no other operation.
struct Operation {
  enum class Kind {
    kLoad,
    kSend,  ///< its data are the launch's; over when the host has handed them in
    kLaunch,
    kFetch,
    kMark,  ///< of events
    kAll,   ///< over when all before it is
  };
  Kind kind = Kind::kMark;
  int64_t number = 0;
  int64_t submitted = 0;  ///< the host's clock
  std::vector<std::shared_ptr<Operation>> after;
  std::string what;  ///< for messages

  std::shared_ptr<Loaded> package;                ///< of kLoad and kLaunch
  TensorMap inputs;                               ///< of kLaunch
  std::vector<std::shared_ptr<Operation>> sends;  ///< of kLaunch
  /// Of kLaunch: it is known what comes beside it, the data of `next` or nothing.
  bool is_settled = false;
  std::shared_ptr<Operation> next;
  TensorMap outputs;

  std::shared_ptr<Operation> launch;  ///< of kFetch
  std::string output;
  Tensor value;

  LaunchTimes times;  ///< of kLaunch and kFetch
  StageStats stats;

  bool is_over = false;
  int64_t cycle = 0;
  std::exception_ptr error;
  std::optional<int64_t> expected;  ///< cycle, as far as it is known before it is over
};

struct Loaded {
  CompiledModel model;
  DramRegion region;
  std::unique_ptr<ModelRunner> runner;  ///< of the worker
  std::shared_ptr<Operation> load;
};

struct StreamState {
  struct Pending {
    TensorMap inputs;
    std::vector<std::shared_ptr<Operation>> sends;
    std::shared_ptr<Operation> launch;  ///< the last
  };
  std::vector<std::shared_ptr<Operation>> after;  ///< what the next operation waits for
  std::map<const Loaded*, Pending> of_package;
};

class Core {
 public:
  Core(const isa::Chip& chip, const DeviceOptions& options)
      : options_(options), chip_(std::make_shared<ChipInUse>(chip, options.runner.machine)) {
    worker_ = std::thread([this] { work(); });
  }
  ~Core() { close(); }

  void close() {
    {
      const std::lock_guard lock(mutex_);
      if (closing_) return;
      closing_ = true;
      wake_worker_.notify_all();
    }
    worker_.join();
  }

  std::shared_ptr<Loaded> load(CompiledModel model) {
    auto loaded = std::make_shared<Loaded>();
    loaded->model = std::move(model);
    const std::lock_guard lock(mutex_);
    check_open();
    place(*loaded);
    packages_.push_back(loaded);
    loaded->load = std::make_shared<Operation>();
    loaded->load->kind = Operation::Kind::kLoad;
    loaded->load->package = loaded;
    loaded->load->what = fmt::format("loading model '{}'", loaded->model.name);
    hand_in(loaded->load);
    return loaded;
  }

  // The stream's functions.
  void send(StreamState& stream, const Loaded& package, const std::string& input, Tensor value) {
    check_input(package.model, input, value);
    const std::lock_guard lock(mutex_);
    check_open();
    auto operation = behind(stream, Operation::Kind::kSend);
    StreamState::Pending& pending = stream.of_package[&package];
    pending.inputs[input] = std::move(value);
    pending.sends.push_back(operation);
  }
  void launch(StreamState& stream, const std::shared_ptr<Loaded>& package) {
    const std::lock_guard lock(mutex_);
    check_open();
    StreamState::Pending& pending = stream.of_package[package.get()];
    check_inputs(package->model, pending.inputs);
    auto operation = std::make_shared<Operation>();
    operation->kind = Operation::Kind::kLaunch;
    operation->what = fmt::format("a launch of model '{}'", package->model.name);
    operation->package = package;
    operation->inputs = std::exchange(pending.inputs, {});
    operation->sends = std::exchange(pending.sends, {});
    operation->after = std::exchange(stream.after, {operation});
    operation->after.push_back(package->load);
    pending.launch = operation;
    hand_in(operation);
  }
  std::shared_ptr<Operation> fetch(StreamState& stream, const Loaded& package, const std::string& output) {
    const auto& outputs = package.model.outputs;
    const bool known = std::ranges::any_of(
        outputs, [&](TensorId id) { return package.model.tensors[static_cast<size_t>(id)].name == output; });
    if (!known) {
      std::string names;
      for (const TensorId id : outputs)
        names += (names.empty() ? "" : ", ") + package.model.tensors[static_cast<size_t>(id)].name;
      throw isa::UserError(fmt::format("model '{}' has no output '{}'; its outputs are: {}",
                                       package.model.name, output, names));
    }
    const std::lock_guard lock(mutex_);
    check_open();
    const std::shared_ptr<Operation>& launch = stream.of_package[&package].launch;
    if (launch == nullptr)
      throw isa::UserError(fmt::format("output '{}' of model '{}' is fetched before a launch in this stream",
                                       output, package.model.name));
    auto operation = std::make_shared<Operation>();
    operation->kind = Operation::Kind::kFetch;
    operation->what = fmt::format("output '{}' of model '{}'", output, package.model.name);
    operation->launch = launch;
    operation->output = output;
    operation->after = std::exchange(stream.after, {operation});
    operation->after.push_back(launch);
    hand_in(operation);
    return operation;
  }
  std::shared_ptr<Operation> record(StreamState& stream) {
    const std::lock_guard lock(mutex_);
    check_open();
    return behind(stream, Operation::Kind::kMark);
  }
  void wait_in_stream(StreamState& stream, const std::shared_ptr<Operation>& event) {
    const std::lock_guard lock(mutex_);
    check_open();
    stream.after.push_back(event);
    behind(stream, Operation::Kind::kMark);
  }
  void synchronize(StreamState& stream) {
    const std::shared_ptr<Operation> mark = record(stream);
    try {
      wait(*mark);
    } catch (...) {
      const std::lock_guard lock(mutex_);
      std::erase(stream.after, mark);
      throw;
    }
  }

  /// Everything that was handed in; the cycle at which it is over.
  int64_t synchronize() {
    auto all = std::make_shared<Operation>();
    all->kind = Operation::Kind::kAll;
    {
      const std::lock_guard lock(mutex_);
      check_open();
      hand_in(all);
    }
    wait(*all);
    return all->cycle;
  }

  void wait(Operation& operation) {
    std::unique_lock lock(mutex_);
    // Nothing more comes beside the last launch that this waits for.
    if (last_launch_ && last_launch_->number <= operation.number) settle(nullptr);
    is_over_.wait(lock, [&] { return operation.is_over; });
    host_clock_ = std::max(host_clock_, operation.cycle);
    if (operation.error) std::rethrow_exception(operation.error);
  }

 private:
  // ---- with the mutex held

  void check_open() const {
    if (closing_) throw isa::UserError("the device is closed");
  }
  void settle(const std::shared_ptr<Operation>& next) {
    if (!last_launch_) return;
    last_launch_->next = next;
    last_launch_->is_settled = true;
    last_launch_.reset();
    wake_worker_.notify_all();
  }
  void hand_in(const std::shared_ptr<Operation>& operation) {
    operation->number = ++last_number_;
    operation->submitted = host_clock_;
    if (operation->kind == Operation::Kind::kLaunch) {
      settle(operation);
      last_launch_ = operation;
    } else if (operation->kind == Operation::Kind::kLoad) {
      settle(nullptr);  // it takes the chip and the link
    }
    queue_.push_back(operation);
    wake_worker_.notify_all();
  }
  /// A new operation behind those of the stream.
  std::shared_ptr<Operation> behind(StreamState& stream, Operation::Kind kind) {
    auto operation = std::make_shared<Operation>();
    operation->kind = kind;
    operation->after = std::exchange(stream.after, {operation});
    hand_in(operation);
    return operation;
  }

  /// Finds the package's part of the DRAM.
  void place(Loaded& loaded) const {
    CompiledModel& model = loaded.model;
    const isa::Chip& chip = chip_->machine.chip();
    if (model.chip.hash != chip.hash)
      throw isa::UserError(fmt::format("model '{}' was compiled for another chip than '{}' of this device",
                                       model.name, chip.name));
    for (const std::shared_ptr<Loaded>& other : packages_) {
      for (const CompiledModel* resident : {&model, &other->model}) {
        if (resident->preparation.statements.empty()) continue;
        throw isa::UnsupportedError(fmt::format(
            "models '{}' and '{}' on one device: constants of '{}' stay in the PEs, which programs of the "
            "other use; compile it with --weights stream, or give it a device of its own",
            other->model.name, model.name, resident->name));
      }
    }
    loaded.region = dram_region(model);
    int64_t end = 0;
    bool is_free = true;
    for (const std::shared_ptr<Loaded>& other : packages_) {
      end = std::max(end, other->region.end);
      is_free &= !other->region.overlaps(loaded.region);
    }
    if (is_free) return;
    if (loaded.region.indirect)
      throw isa::UnsupportedError(fmt::format(
          "model '{}' has indirect transfers, whose addresses in DRAM can't be changed, and its place is "
          "taken: load it before the others, or give it a device of its own",
          model.name));
    const int64_t from = loaded.region.begin / kRegionUnitLw * kRegionUnitLw;
    const int64_t by = isa::round_up(end, kRegionUnitLw) - from;
    if (loaded.region.end + by > chip.memory.dram_lw)
      throw isa::UnsupportedError(fmt::format(
          "model '{}' needs {} LW of every group's DRAM, and behind the models that are loaded are {} of {}: "
          "give it a device of its own, or a chip with more DRAM (memory.dram_lw)",
          model.name, loaded.region.end - from, std::max<int64_t>(chip.memory.dram_lw - end, 0),
          chip.memory.dram_lw));
    move_in_dram(model, by);
    loaded.region.begin += by;
    loaded.region.end += by;
  }

  // ---- the worker

  bool can_work() const {
    return !queue_.empty() &&
           (queue_.front()->kind != Operation::Kind::kLaunch || queue_.front()->is_settled);
  }

  void work() {
    std::unique_lock lock(mutex_);
    for (;;) {
      wake_worker_.wait(lock, [&] { return closing_ || can_work(); });
      if (closing_) break;
      const std::shared_ptr<Operation> operation = std::move(queue_.front());
      queue_.pop_front();
      begin(*operation);
      if (!operation->error &&
          (operation->kind == Operation::Kind::kLaunch || operation->kind == Operation::Kind::kLoad)) {
        const std::optional<Following> following = following_of(*operation);
        lock.unlock();
        try {
          if (operation->kind == Operation::Kind::kLoad) {
            run_load(*operation);
          } else {
            run_launch(*operation, following);
          }
        } catch (...) {
          operation->error = std::current_exception();
        }
        lock.lock();
      }
      end(*operation);
    }
    for (const std::shared_ptr<Operation>& operation : queue_) {
      operation->error = std::make_exception_ptr(isa::UserError(fmt::format(
          "the device was closed before {} was done", operation->what.empty() ? "this" : operation->what)));
      end(*operation);
    }
    queue_.clear();
    last_launch_.reset();
  }

  /// Takes over what it waits for, which is over.
  void begin(Operation& operation) {
    operation.cycle = operation.submitted;
    for (const std::shared_ptr<Operation>& other : operation.after) {
      if (other->error && !operation.error) operation.error = other->error;
      operation.cycle = std::max(operation.cycle, other->cycle);
    }
    if (operation.kind == Operation::Kind::kAll)
      operation.cycle = std::max({operation.cycle, chip_free_, results_there_});
    if (operation.kind == Operation::Kind::kLaunch && operation.error)
      chip_->next_is_there = false;  // it comes for nothing
    if (operation.kind != Operation::Kind::kFetch || operation.error) return;
    const Operation& launch = *operation.launch;
    operation.times = launch.times;
    operation.stats = launch.stats;
    operation.value = launch.outputs.at(operation.output);
    operation.cycle = std::max(operation.cycle, launch.times.results_there);
  }
  void end(Operation& operation) {
    operation.is_over = true;
    operation.after.clear();
    operation.sends.clear();
    operation.inputs.clear();
    operation.launch.reset();
    operation.next.reset();
    operation.package.reset();
    is_over_.notify_all();
  }

  /// What comes beside a launch: the next one's data, if the time at which the host hands them in is known
  /// by now; else that waits for what the launch makes, or for something behind it.
  std::optional<Following> following_of(const Operation& launch) const {
    if (!launch.next || !options_.runner.host_overlaps) return std::nullopt;
    const auto expected = [](const Operation& operation) {
      return operation.is_over ? operation.cycle : operation.expected;
    };
    for (const std::shared_ptr<Operation>& operation : queue_) {
      if (operation->number > launch.next->number) break;
      const bool waits_only =
          operation->kind == Operation::Kind::kSend || operation->kind == Operation::Kind::kMark;
      operation->expected.reset();
      if (!waits_only) continue;
      int64_t cycle = operation->submitted;
      bool known = true;
      for (const std::shared_ptr<Operation>& other : operation->after) {
        const std::optional<int64_t> at = expected(*other);
        known &= at.has_value() && !other->error;
        cycle = std::max(cycle, at.value_or(0));
      }
      if (known) operation->expected = cycle;
    }
    Following following;
    if (launch.next->package->runner) following.input = launch.next->package->runner->first_input();
    for (const std::shared_ptr<Operation>& send : launch.next->sends) {
      const std::optional<int64_t> at = expected(*send);
      if (!at) return std::nullopt;
      following.from = std::max(following.from, *at);
    }
    return following;
  }

  void run_load(Operation& load) {
    Loaded& loaded = *load.package;
    loaded.runner = std::make_unique<ModelRunner>(loaded.model, options_.runner, chip_);
    const int64_t began = std::max({load.cycle, chip_free_, results_there_});
    chip_->leaving = 0;
    const StageStats& preparation = loaded.runner->prepare();
    chip_free_ = load.cycle = began + loaded.runner->preload_link_cycles() + preparation.chip.cycles();
  }

  void run_launch(Operation& launch, std::optional<Following> following) {
    LaunchTimes times;
    times.handed_in = launch.sends.empty() ? launch.cycle : 0;
    for (const std::shared_ptr<Operation>& send : launch.sends)
      times.handed_in = std::max(times.handed_in, send->cycle);
    times.began = std::max(launch.cycle, chip_free_);
    chip_->leaving = std::max<int64_t>(results_there_ - times.began, 0);
    // Behind a program that runs when it is handed in.
    chip_->is_queued = options_.runner.host_overlaps && launch.cycle < chip_free_;
    if (following) following->from -= times.began;
    RunOutcome outcome = launch.package->runner->run(launch.inputs, following);
    times.over = times.began + outcome.total.chip.cycles();
    times.results_there = times.began + outcome.results_there;
    chip_free_ = launch.cycle = times.over;
    results_there_ = std::max(results_there_, times.results_there);
    launch.times = times;
    launch.stats = outcome.total;
    launch.outputs = std::move(outcome.outputs);
  }

  const DeviceOptions options_;
  std::mutex mutex_;
  std::condition_variable wake_worker_;
  std::condition_variable is_over_;
  std::deque<std::shared_ptr<Operation>> queue_;
  std::shared_ptr<Operation> last_launch_;  ///< not settled yet
  int64_t last_number_ = 0;
  int64_t host_clock_ = 0;
  bool closing_ = false;
  std::vector<std::shared_ptr<Loaded>> packages_;
  // Of the worker, and of who has waited for it.
  std::shared_ptr<ChipInUse> chip_;
  int64_t chip_free_ = 0;
  int64_t results_there_ = 0;
  std::thread worker_;
};

}  // namespace device_parts

using device_parts::Core;

const CompiledModel& Package::model() const {
  return loaded_->model;
}

void Event::wait() const {
  core_->wait(*operation_);
}
int64_t Event::cycle() const {
  wait();
  return operation_->cycle;
}

Tensor Result::get() const {
  wait();
  return event_.operation_->value;
}
LaunchTimes Result::times() const {
  wait();
  return event_.operation_->times;
}
StageStats Result::stats() const {
  wait();
  return event_.operation_->stats;
}

void Stream::check_own(const Package& package) const {
  if (package.core_ != core_)
    throw isa::UserError(fmt::format("model '{}' is on another device", package.model().name));
}
void Stream::send(const Package& package, const std::string& input, Tensor value) {
  check_own(package);
  core_->send(*state_, *package.loaded_, input, std::move(value));
}
void Stream::launch(const Package& package) {
  check_own(package);
  core_->launch(*state_, package.loaded_);
}
Result Stream::fetch(const Package& package, const std::string& output) {
  check_own(package);
  return Result(Event(core_, core_->fetch(*state_, *package.loaded_, output)));
}
Event Stream::record() {
  return {core_, core_->record(*state_)};
}
void Stream::wait(const Event& event) {
  if (event.core_ != core_) throw isa::UserError("the event is of another device");
  core_->wait_in_stream(*state_, event.operation_);
}
void Stream::synchronize() {
  core_->synchronize(*state_);
}

Device::Device(const isa::Chip& chip, const DeviceOptions& options)
    : core_(std::make_shared<Core>(chip, options)) {}
Device::~Device() {
  core_->close();
}
Package Device::load(CompiledModel model) {
  return {core_, core_->load(std::move(model))};
}
Stream Device::stream() {
  return {core_, std::make_shared<device_parts::StreamState>()};
}
int64_t Device::synchronize() {
  return core_->synchronize();
}

}  // namespace kodama::compiler
