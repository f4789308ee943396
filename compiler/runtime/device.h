#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "compiler/package/compiled_model.h"
#include "compiler/runtime/runner.h"
#include "compiler/tensor/value.h"

/// One simulated chip for several compiled models, asynchronously: streams of operations, and events between
/// them.
///
///     Device device(chip);
///     const Package net = device.load(compiled);
///     std::vector<Result> results;
///     Stream streams[] = {device.stream(), device.stream()};   // two inferences in flight
///     for (int k = 0; k < 100; ++k) {
///       Stream& stream = streams[k % 2];
///       if (k >= 2) results[k - 2].wait();   // the host hands in the next one when this one is over
///       stream.send(net, "x", inputs[k]);
///       stream.launch(net);
///       results.push_back(stream.fetch(net, "y"));
///     }
///     const Tensor last = results.back().get();   // and results.back().cycle() says when it was there
///
/// Operations of a stream follow each other. Those of different streams overlap as far as they don't need the
/// same thing: the link towards the chip, the chip, the link from it. What an operation waits for is the one
/// before it in its stream, events (Stream::wait), and the calls of wait(), get() and synchronize() that the
/// program made before it. Each of the three serves its operations in the order in which they were handed in,
/// and a launch is served as a whole; so an operation that waits for long holds those behind it.
///
/// Wall time: one thread of the device does the work, callers go on. All functions may be called by any
/// thread.
///
/// Simulated time, in cycles of the chip since the device was made, is that of the timing model: a launch is
/// ModelRunner::run, and while it runs the data of the next launch come and the results of the one before
/// leave (isa/host_work.h). What comes beside a launch must be known when it is simulated: it runs, in wall
/// time, when another one has been handed in behind it, or when somebody waits for it or for what is behind
/// it; then only launches that were handed in by then come beside it. The host itself takes no time. A send
/// is over when the host has handed the data in, a launch when the chip is free, a fetch when the host has
/// the output.
///
/// Values depend on nothing but what was sent. Cycles depend on the order of the calls, not on when they were
/// made or on how threads are scheduled; whoever makes calls from several threads and wants the same cycles
/// again has to order them.
///
/// Errors: wrong calls throw at once. What goes wrong in the work (a check of the model that fails, no
/// memory) comes out of each wait for that operation and for those behind it in its stream, or behind an
/// event of it, as the exception that it was; what is behind an error isn't done. Stream::synchronize()
/// forgets it.
namespace kodama::compiler {

struct DeviceOptions {
  RunnerOptions runner;  ///< `progress`, `observe` are called by the device's thread
};

/// When the parts of a launch happened, in cycles of the device.
struct LaunchTimes {
  int64_t handed_in = 0;      ///< the host has its inputs
  int64_t began = 0;          ///< its run, with what of its data hadn't come before
  int64_t over = 0;           ///< the chip is free for the next one
  int64_t results_there = 0;  ///< with the host
};

class Device;
class Stream;

namespace device_parts {
struct Operation;
struct Loaded;
struct StreamState;
class Core;
}  // namespace device_parts

/// A model on a device.
class Package {
 public:
  const CompiledModel& model() const;  ///< as it was loaded; its addresses may be others

 private:
  friend class Device;
  friend class Stream;
  Package(std::shared_ptr<device_parts::Core> core, std::shared_ptr<device_parts::Loaded> loaded)
      : core_(std::move(core)), loaded_(std::move(loaded)) {}
  std::shared_ptr<device_parts::Core> core_;
  std::shared_ptr<device_parts::Loaded> loaded_;
};

/// An operation that can be waited for. Outlives its device.
class Event {
 public:
  /// Until the operation is over; the host's later calls are behind it in simulated time, too. Throws its
  /// error.
  void wait() const;
  /// wait(), and the cycle at which it was over.
  int64_t cycle() const;

 private:
  friend class Stream;
  friend class Result;
  Event(std::shared_ptr<device_parts::Core> core, std::shared_ptr<device_parts::Operation> operation)
      : core_(std::move(core)), operation_(std::move(operation)) {}
  std::shared_ptr<device_parts::Core> core_;
  std::shared_ptr<device_parts::Operation> operation_;
};

/// An output on its way.
class Result {
 public:
  void wait() const { event_.wait(); }
  int64_t cycle() const { return event_.cycle(); }
  /// wait(), and the value.
  Tensor get() const;
  /// wait(); of the launch that it comes from.
  LaunchTimes times() const;
  /// wait(); what the launch cost, stage by stage.
  StageStats stats() const;

 private:
  friend class Stream;
  explicit Result(Event event) : event_(std::move(event)) {}
  Event event_;
};

/// Operations that follow each other. Copies are the same stream.
class Stream {
 public:
  /// An input of the next launch of the package in this stream. UserError for a name, type or shape that the
  /// model doesn't have.
  void send(const Package& package, const std::string& input, Tensor value);
  /// UserError if an input hasn't been sent since the last launch.
  void launch(const Package& package);
  /// An output of the last launch of the package in this stream. UserError if there was none, or for another
  /// name. Outputs leave the chip behind each launch; this is where they are taken.
  Result fetch(const Package& package, const std::string& output);
  /// Over when all that was handed in until now is.
  Event record();
  /// What is handed in from now on waits for it. UserError for an event of another device.
  void wait(const Event& event);
  /// Until all is over. Throws the first error, and forgets it: the stream can be used again.
  void synchronize();

 private:
  friend class Device;
  void check_own(const Package& package) const;
  Stream(std::shared_ptr<device_parts::Core> core, std::shared_ptr<device_parts::StreamState> state)
      : core_(std::move(core)), state_(std::move(state)) {}
  std::shared_ptr<device_parts::Core> core_;
  std::shared_ptr<device_parts::StreamState> state_;
};

class Device {
 public:
  explicit Device(const isa::Chip& chip, const DeviceOptions& options = {});
  /// Ends the work that is being done and drops the rest: who waits for that gets a UserError.
  ~Device();
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  /// Brings a model's constants to the chip, behind what was handed in before. Each model has its own part of
  /// the DRAM: where it was compiled for, or, if that is taken, behind the others, to which its addresses are
  /// changed. UserError for another chip. UnsupportedError, saying what to do, where DRAM is full, where
  /// addresses that only the data know (indirect transfers) would have to change, or where constants stay in
  /// the PEs beside another model, whose programs use all of a PE.
  Package load(CompiledModel model);
  Stream stream();
  /// Cycle at which all that was handed in until now is over, results with the host; waits for it.
  int64_t synchronize();

 private:
  std::shared_ptr<device_parts::Core> core_;
};

}  // namespace kodama::compiler
