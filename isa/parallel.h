#pragma once

#include <cstddef>
#include <functional>

/// Work that falls into independent parts, on the processors that have nothing else to do.
namespace kodama::isa {

/// Calls work(k) for 0 <= k < count, each once, the first ones first; returns when all are done. What it
/// writes for different k must be apart, so that results don't depend on who has done it, or when. Where all
/// processors are busy with other such work (it may be nested), or the system gives no thread, the caller
/// does it alone. Of exceptions, the one of the least k is thrown, which is always the same: it is the one
/// that a loop would have met.
void for_each_in_parallel(size_t count, const std::function<void(size_t k)>& work);

}  // namespace kodama::isa
