#pragma once

#include <atomic>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <systemc>
#include <thread>

#include "isa/error.h"

namespace kodama::simulator::timing {

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

}  // namespace kodama::simulator::timing
