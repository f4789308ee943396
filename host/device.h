#pragma once

#include <array>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <variant>

#include "host/capture.h"
#include "host/endian.h"
#include "host/include/mnc2.h"
#include "host/kernel.h"
#include "host/link_clock.h"
#include "host/pools.h"
#include "host/totals.h"
#include "simulator/machine.h"

/// A simulated board: a chip, the host's link to it, and queues.
///
/// There is no thread behind a device. What is started stands in one queue, in order, and runs in the calls
/// of the host program: at once where nothing is missing, else in the call that brings what is (a send), or
/// that needs it. So a run is the same each time. A kernel runs as a whole, for its cycles are those of
/// `kodama sim`; but when a call needs what it can bring forth before a `wait` that isn't served yet, or its
/// own next `wait` for a tag stands behind one for the same tag, it runs up to that wait and goes on later.
///
/// All public functions lock the device; those that wait for another thread's help unlock it meanwhile.
namespace kodama::host {

inline constexpr int kMostKernels = 31;
inline constexpr int kChannels = 2;  ///< each way
inline constexpr int kMostPerChannel = 31;

/// An asynchronous transfer.
struct Transfer {
  enum class State { kQueued, kDone, kCutOff } state = State::kQueued;
  std::byte* buffer = nullptr;  ///< of the host, for one that waits in the queue
  int64_t pdm_lw = 0;
  size_t bytes = 0;
  int tag = 0;
  int endian_control = 0;  ///< when it was started
  int channel = 0;
  int regset = 0;
  double done_at = 0;  ///< LinkClock
};

enum class Limit { kDdmaKickVerify, kDdmaComplete, kIdmaKickVerify, kIdmaComplete };

class Device {
 public:
  explicit Device(const isa::Chip& chip);

  const isa::Chip& chip() const { return chip_; }
  void close();
  int reset();

  int send(const void* buffer, uint64_t offset, size_t bytes, unsigned tag);
  int receive(void* buffer, uint64_t offset, size_t bytes, unsigned tag);
  /// Null for wrong arguments or a full queue.
  std::shared_ptr<Transfer> start_send(const void* buffer, uint64_t offset, size_t bytes, unsigned tag);
  std::shared_ptr<Transfer> start_receive(void* buffer, uint64_t offset, size_t bytes, unsigned tag);
  int poll(const std::shared_ptr<Transfer>& transfer, int& done);
  int wait(const std::shared_ptr<Transfer>& transfer);
  /// Waits, and takes it out of the queue if it can't be done.
  int release(const std::shared_ptr<Transfer>& transfer);
  int set_endian_control(int control);
  int endian_control();

  int start(const std::shared_ptr<const Kernel>& kernel);
  /// Until no run of the kernel is queued; those that can't run are dropped.
  void finish(const std::shared_ptr<const Kernel>& kernel);
  int wait_for_transfers();
  int wait_for_kernels();

  int debug_read(int memory, const mnc2_loc_t& place, int address, int count, uint64_t* out);
  int debug_write(int memory, const mnc2_loc_t& place, int address, int count, const uint64_t* data);

  int limit(Limit limit);
  int set_limit(Limit limit, int value);
  int transfer_stat(mnc2_ddma_stat_t& stat);
  int kernel_stat(mnc2_idma_stat_t& stat);

  enum class PoolOf { kTags, kWaitSlots, kRegsets };
  int take(PoolOf pool);
  int give_back(PoolOf pool, int number);
  int set_tag_size(int tag, uint64_t bytes);
  int tag_done(int tag, int& done);
  int wait_for_tag(int tag);
  int clear_tag(int tag);
  int wait_for_arrival(int slot);
  int clear_arrival(int slot);
  int arrivals(uint64_t& bits);

  int capture_instructions(uint64_t& count);
  int set_trigger(int select, uint64_t counter);
  int read_capture(int select, mnc2_capture_t& capture);

 private:
  /// A kernel in the queue.
  struct Run {
    std::shared_ptr<const Kernel> kernel;
    size_t next_statement = 0;
    size_t next_wait = 0;
  };
  using Work = std::variant<Run, std::shared_ptr<Transfer>>;
  using Lock = std::unique_lock<std::mutex>;

  Lock enter();
  bool right_transfer(const void* buffer, uint64_t offset, size_t bytes, unsigned tag) const;
  /// Both move data at once.
  double move_in(const void* buffer, int64_t pdm_lw, size_t bytes, int tag);
  double move_out(const Transfer& transfer);
  Transfer outgoing(void* buffer, uint64_t offset, size_t bytes, unsigned tag) const;
  void bring(Tags tags);

  enum class Parts { kWhole, kAsFarAsPossible };
  /// Runs what can be run.
  void advance(Parts parts);
  /// Runs some of the kernel; false when it can't go on. It is over when the queue's first is another.
  bool advance(Run& run, Parts parts);
  bool run_part(const Run& run, size_t to);
  /// Lets the first kernel's wait have a tag that arrived earlier and was not cleared since.
  bool use_old_arrival();
  /// Runs and waits until `done`, at most as long as the limit says.
  int wait_until(Lock& lock, Limit limit, const std::function<bool()>& done);
  /// The same without waiting; returns whether it is done.
  bool look(const std::function<bool()>& done);
  /// The result of a call that asks whether something is done when it is not: MNC2_ERROR_TIMEOUT when such
  /// calls were made for as long as a wait would take, and nothing ran meanwhile.
  int asked_in_vain();
  void say_what_is_stuck() const;
  int kernels_queued() const;
  int transfers_queued(int channel) const;
  /// MNC2_ERROR_KERNEL once for those that were refused.
  int reported();
  void note();
  simulator::Place place_of(const mnc2_loc_t& place) const;
  /// Whether these LWs are there; `word_address` is as Machine wants it.
  bool right_place(int memory, const mnc2_loc_t& place, int address, int count, int64_t& word_address) const;

  const isa::Chip chip_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::unique_ptr<simulator::Machine> machine_;  ///< null: closed
  std::set<std::thread::id> threads_;            ///< that have made calls
  std::deque<Work> queue_;
  bool kernel_refused_ = false;
  int endian_control_ = kDefaultEndianControl;
  Tags arrived_ = 0;  ///< since the last wait of a kernel for them
  Tags bits_ = 0;     ///< since they were cleared
  struct Count {
    uint64_t bytes = 0;
    uint64_t wanted = 0;
    bool done() const { return bytes > 0 && bytes >= wanted; }
  };
  std::array<Count, kTags> counts_{};
  Pool tags_{1};
  Pool wait_slots_{1};
  Pool regsets_{0};
  int next_regset_ = 0;
  std::array<int, 4> limits_{100, 2000, 100, 5000};
  int vain_polls_ = 0;
  std::chrono::steady_clock::time_point vain_since_;
  std::array<bool, kChannels> overflow_{};
  bool kernel_overflow_ = false;
  LinkClock clock_;
  Capture capture_;
  Totals totals_;
  int64_t number_;
};

}  // namespace kodama::host
