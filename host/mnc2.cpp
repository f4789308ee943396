#include "host/include/mnc2.h"

#include <cstdlib>
#include <mutex>

#include "host/chip_choice.h"
#include "host/handles.h"
#include "host/message.h"
#include "isa/error.h"

/// The calls: handles to objects, and no exception to the outside.
namespace {

using namespace kodama::host;

constexpr int kMostDevices = 64;

template <typename Result, typename Call>
Result guarded(Result failed, Call&& call) {
  try {
    return call();
  } catch (const std::exception& error) {
    say(error.what());
  } catch (...) {
    say("a failure without a name");
  }
  return failed;
}

/// For calls that return a result: MNC2_ERROR_PARAM when the handle stands for nothing.
template <typename Call>
int with(mnc2_device_t handle, Call&& call, int otherwise = MNC2_ERROR_PARAM) {
  return guarded(int{MNC2_ERROR_DEVICE}, [&] {
    const std::shared_ptr<Device> device = find(handle);
    return device ? call(*device) : otherwise;
  });
}

int get_limit(mnc2_device_t dev, Limit limit) {
  return with(
      dev, [&](Device& device) { return device.limit(limit); }, -1);
}
int set_limit(mnc2_device_t dev, Limit limit, int value) {
  return with(
      dev, [&](Device& device) { return device.set_limit(limit, value); }, -1);
}

}  // namespace

extern "C" {

mnc2_device_t mnc2_open(int number) {
  return guarded(mnc2_device_t{}, [&]() -> mnc2_device_t {
    if (std::getenv("MNC2_EMU_CONFIG") == nullptr) {
      static std::once_flag once;
      std::call_once(once, [] {
        say("the environment variable MNC2_EMU_CONFIG isn't set; emulators want it, set to anything: "
            "MNC2_EMU_CONFIG=1");
      });
      return nullptr;
    }
    if (number < 0 || number >= kMostDevices) return nullptr;
    return add_handle(std::make_shared<Device>(chosen_chip()));
  });
}

void mnc2_close(mnc2_device_t dev) {
  guarded(0, [&] {
    if (const std::shared_ptr<Device> device = remove(dev)) {
      device->close();
      write_totals();
    }
    return 0;
  });
}

int mnc2_reset(mnc2_device_t dev) {
  return with(dev, [](Device& device) { return device.reset(); });
}

const char* mnc2_get_backend_name(mnc2_device_t dev) {
  return guarded("unknown", [&] { return find(dev) ? "emu:lib" : "unknown"; });
}

int mnc2_get_backend(void) {
  return MNC2_BACKEND_EMU_LIB;
}

void* mnc2_alloc_host_buffer(mnc2_device_t dev, size_t size) {
  return guarded(static_cast<void*>(nullptr), [&] { return find(dev) ? allocate_buffer(size) : nullptr; });
}

void mnc2_free_host_buffer(mnc2_device_t /*dev*/, void* buffer, size_t /*size*/) {
  guarded(0, [&] {
    free_buffer(buffer);
    return 0;
  });
}

int mnc2_send(mnc2_device_t dev, const void* buf, uint64_t pdm_offset, size_t size, unsigned tag) {
  return with(dev, [&](Device& device) { return device.send(buf, pdm_offset, size, tag); });
}

int mnc2_recv(mnc2_device_t dev, void* buf, uint64_t pdm_offset, size_t size, unsigned tag) {
  return with(dev, [&](Device& device) { return device.receive(buf, pdm_offset, size, tag); });
}

int mnc2_set_endian_ctrl(mnc2_device_t dev, int control) {
  return with(dev, [&](Device& device) { return device.set_endian_control(control); });
}

int mnc2_get_endian_ctrl(mnc2_device_t dev) {
  return with(dev, [](Device& device) { return device.endian_control(); });
}

mnc2_dma_handle_t mnc2_async_send(mnc2_device_t dev, const void* buf, uint64_t pdm_offset, size_t size,
                                  unsigned tag) {
  return guarded(mnc2_dma_handle_t{}, [&]() -> mnc2_dma_handle_t {
    const std::shared_ptr<Device> device = find(dev);
    if (!device) return nullptr;
    auto transfer = device->start_send(buf, pdm_offset, size, tag);
    return transfer ? add_handle(StartedTransfer{device, std::move(transfer)}) : nullptr;
  });
}

mnc2_dma_handle_t mnc2_async_recv(mnc2_device_t dev, void* buf, uint64_t pdm_offset, size_t size,
                                  unsigned tag) {
  return guarded(mnc2_dma_handle_t{}, [&]() -> mnc2_dma_handle_t {
    const std::shared_ptr<Device> device = find(dev);
    if (!device) return nullptr;
    auto transfer = device->start_receive(buf, pdm_offset, size, tag);
    return transfer ? add_handle(StartedTransfer{device, std::move(transfer)}) : nullptr;
  });
}

int mnc2_async_poll(mnc2_dma_handle_t handle, int* done) {
  return guarded(int{MNC2_ERROR_DEVICE}, [&]() -> int {
    const StartedTransfer started = find(handle);
    if (!started.device || done == nullptr) return MNC2_ERROR_PARAM;
    return started.device->poll(started.transfer, *done);
  });
}

int mnc2_async_wait(mnc2_dma_handle_t handle) {
  return guarded(int{MNC2_ERROR_DEVICE}, [&]() -> int {
    const StartedTransfer started = find(handle);
    return started.device ? started.device->wait(started.transfer) : MNC2_ERROR_PARAM;
  });
}

int mnc2_async_release(mnc2_dma_handle_t handle) {
  return guarded(int{MNC2_ERROR_DEVICE}, [&]() -> int {
    const StartedTransfer started = remove(handle);
    return started.device ? started.device->release(started.transfer) : MNC2_ERROR_PARAM;
  });
}

int mnc2_wait_ddma_idle(mnc2_device_t dev) {
  return with(dev, [](Device& device) { return device.wait_for_transfers(); });
}

int mnc2_wait_idma_idle(mnc2_device_t dev) {
  return with(dev, [](Device& device) { return device.wait_for_kernels(); });
}

mnc2_kernel_t mnc2_load_kernel(mnc2_device_t dev, const char* path) {
  return guarded(mnc2_kernel_t{}, [&]() -> mnc2_kernel_t {
    const std::shared_ptr<Device> device = find(dev);
    if (!device || path == nullptr) return nullptr;
    return add_handle(LoadedKernel{device, std::make_shared<Kernel>(path, device->chip())});
  });
}

int mnc2_exec_kernel(mnc2_kernel_t kernel) {
  return guarded(int{MNC2_ERROR_DEVICE}, [&]() -> int {
    const LoadedKernel loaded = find(kernel);
    return loaded.device ? loaded.device->start(loaded.kernel) : MNC2_ERROR_PARAM;
  });
}

void mnc2_free_kernel(mnc2_kernel_t kernel) {
  guarded(0, [&] {
    const LoadedKernel loaded = remove(kernel);
    if (loaded.device) loaded.device->finish(loaded.kernel);
    return 0;
  });
}

int mnc2_kernel_get_dma_tags(mnc2_kernel_t kernel, uint8_t* wd, uint8_t* mv, int max, int* n_wd, int* n_mv) {
  return guarded(int{MNC2_ERROR_DEVICE}, [&]() -> int {
    const LoadedKernel loaded = find(kernel);
    if (!loaded.device || max < 0 || n_wd == nullptr || n_mv == nullptr) return MNC2_ERROR_PARAM;
    const auto list = [max](Tags tags, uint8_t* to, int& count) {
      count = 0;
      for (int tag = 1; tag < kTags; ++tag) {
        if ((tags & tag_bit(tag)) == 0) continue;
        if (to != nullptr && count < max) to[count] = static_cast<uint8_t>(tag);
        ++count;
      }
    };
    list(loaded.kernel->waited(), wd, *n_wd);
    list(loaded.kernel->carried(), mv, *n_mv);
    return MNC2_SUCCESS;
  });
}

int mnc2_debug_read(mnc2_device_t dev, int memory, const mnc2_loc_t* loc, int addr, int count,
                    uint64_t* out) {
  return with(dev, [&](Device& device) {
    return device.debug_read(memory, loc == nullptr ? mnc2_loc_t MNC2_LOC_INIT : *loc, addr, count, out);
  });
}

int mnc2_debug_write(mnc2_device_t dev, int memory, const mnc2_loc_t* loc, int addr, int count,
                     const uint64_t* data) {
  return with(dev, [&](Device& device) {
    return device.debug_write(memory, loc == nullptr ? mnc2_loc_t MNC2_LOC_INIT : *loc, addr, count, data);
  });
}

int mnc2_get_ddma_kick_verify_max(mnc2_device_t dev) {
  return get_limit(dev, Limit::kDdmaKickVerify);
}
int mnc2_set_ddma_kick_verify_max(mnc2_device_t dev, int value) {
  return set_limit(dev, Limit::kDdmaKickVerify, value);
}
int mnc2_get_ddma_complete_max(mnc2_device_t dev) {
  return get_limit(dev, Limit::kDdmaComplete);
}
int mnc2_set_ddma_complete_max(mnc2_device_t dev, int value) {
  return set_limit(dev, Limit::kDdmaComplete, value);
}
int mnc2_get_idma_kick_verify_max(mnc2_device_t dev) {
  return get_limit(dev, Limit::kIdmaKickVerify);
}
int mnc2_set_idma_kick_verify_max(mnc2_device_t dev, int value) {
  return set_limit(dev, Limit::kIdmaKickVerify, value);
}
int mnc2_get_idma_complete_max(mnc2_device_t dev) {
  return get_limit(dev, Limit::kIdmaComplete);
}
int mnc2_set_idma_complete_max(mnc2_device_t dev, int value) {
  return set_limit(dev, Limit::kIdmaComplete, value);
}

int mnc2_get_ddma_stat(mnc2_device_t dev, mnc2_ddma_stat_t* stat) {
  if (stat == nullptr) return MNC2_ERROR_PARAM;
  return with(dev, [&](Device& device) { return device.transfer_stat(*stat); });
}

int mnc2_get_idma_stat(mnc2_device_t dev, mnc2_idma_stat_t* stat) {
  if (stat == nullptr) return MNC2_ERROR_PARAM;
  return with(dev, [&](Device& device) { return device.kernel_stat(*stat); });
}

int mnc2_tag_alloc(mnc2_device_t dev) {
  return with(dev, [](Device& device) { return device.take(Device::PoolOf::kTags); });
}
int mnc2_tag_free(mnc2_device_t dev, int tag) {
  return with(dev, [&](Device& device) { return device.give_back(Device::PoolOf::kTags, tag); });
}
int mnc2_tag_set_size(mnc2_device_t dev, int tag, uint64_t size) {
  return with(dev, [&](Device& device) { return device.set_tag_size(tag, size); });
}
int mnc2_tag_check_done(mnc2_device_t dev, int tag, int* done) {
  if (done == nullptr) return MNC2_ERROR_PARAM;
  return with(dev, [&](Device& device) { return device.tag_done(tag, *done); });
}
int mnc2_tag_wait(mnc2_device_t dev, int tag) {
  return with(dev, [&](Device& device) { return device.wait_for_tag(tag); });
}
int mnc2_tag_clear(mnc2_device_t dev, int tag) {
  return with(dev, [&](Device& device) { return device.clear_tag(tag); });
}

int mnc2_wd_alloc(mnc2_device_t dev) {
  return with(dev, [](Device& device) { return device.take(Device::PoolOf::kWaitSlots); });
}
int mnc2_wd_free(mnc2_device_t dev, int slot) {
  return with(dev, [&](Device& device) { return device.give_back(Device::PoolOf::kWaitSlots, slot); });
}
int mnc2_wd_wait(mnc2_device_t dev, int slot) {
  return with(dev, [&](Device& device) { return device.wait_for_arrival(slot); });
}
int mnc2_wd_clear(mnc2_device_t dev, int slot) {
  return mnc2_clear_wdbit(dev, slot);
}
int mnc2_clear_wdbit(mnc2_device_t dev, int slot) {
  return with(dev, [&](Device& device) { return device.clear_arrival(slot); });
}
int mnc2_get_wdbit_status(mnc2_device_t dev, uint64_t* bits) {
  if (bits == nullptr) return MNC2_ERROR_PARAM;
  return with(dev, [&](Device& device) { return device.arrivals(*bits); });
}

int mnc2_regset_alloc(mnc2_device_t dev) {
  return with(dev, [](Device& device) { return device.take(Device::PoolOf::kRegsets); });
}
int mnc2_regset_free(mnc2_device_t dev, int regset) {
  return with(dev, [&](Device& device) { return device.give_back(Device::PoolOf::kRegsets, regset); });
}

int mnc2_capture_get_inst(mnc2_device_t dev, uint64_t* count) {
  if (count == nullptr) return MNC2_ERROR_PARAM;
  return with(dev, [&](Device& device) { return device.capture_instructions(*count); });
}
int mnc2_capture_set_trigger(mnc2_device_t dev, int sel, uint64_t counter) {
  return with(dev, [&](Device& device) { return device.set_trigger(sel, counter); });
}
int mnc2_capture_read(mnc2_device_t dev, int sel, mnc2_capture_t* capture) {
  if (capture == nullptr) return MNC2_ERROR_PARAM;
  return with(dev, [&](Device& device) { return device.read_capture(sel, *capture); });
}

int mnc2_read_pio(mnc2_device_t dev, uint64_t /*address*/, uint32_t* /*value*/) {
  return with(dev, [](Device&) -> int { return MNC2_ERROR_DEVICE; });
}
int mnc2_write_pio(mnc2_device_t dev, uint64_t /*address*/, uint32_t /*value*/) {
  return with(dev, [](Device&) -> int { return MNC2_ERROR_DEVICE; });
}

}  // extern "C"
