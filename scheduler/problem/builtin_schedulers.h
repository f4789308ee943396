#pragma once

#include "scheduler/problem/schedule_problem.h"
#include "scheduler/problem/transfer_problem.h"

/// The schedulers that come with Kodama, listed in schedulers.cpp. Internal to this folder.
namespace kodama::scheduler {

BlockScheduler list_scheduler();
BlockScheduler sequential_scheduler();
BlockScheduler exact_scheduler();
BlockScheduler modulo_scheduler();
BlockScheduler acyclic_scheduler();
TransferScheduler keep_transfers();
TransferScheduler prefetch_transfers();
TransferScheduler on_demand_transfers();

}  // namespace kodama::scheduler
