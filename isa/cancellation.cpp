#include "isa/cancellation.h"

#include <utility>

namespace kodama::isa {
namespace {

/// Of what the thread's work is under; null: nothing.
thread_local const std::shared_ptr<std::atomic<bool>>* current_flag = nullptr;

}  // namespace

Cancellation Cancellation::current() {
  return Cancellation(current_flag == nullptr ? nullptr : *current_flag);
}

CancellationScope::CancellationScope(Cancellation cancellation)
    : cancellation_(std::move(cancellation)), before_(current_flag) {
  current_flag = &cancellation_.flag_;
}
CancellationScope::~CancellationScope() {
  current_flag = before_;
}

void stop_if_cancelled() {
  if (current_flag != nullptr && *current_flag && **current_flag) throw Cancelled();
}

}  // namespace kodama::isa
