#include "host/handles.h"

#include <sys/mman.h>

#include <cstdint>
#include <map>
#include <mutex>
#include <utility>

namespace kodama::host {
namespace {

/// Never destroyed: threads may make calls until the process ends.
struct Registry {
  std::mutex mutex;
  uintptr_t next = 0x4d4e4332;
  std::map<mnc2_device_t, std::shared_ptr<Device>> devices;
  std::map<mnc2_kernel_t, LoadedKernel> kernels;
  std::map<mnc2_dma_handle_t, StartedTransfer> transfers;
  std::map<void*, size_t> buffers;
};
Registry& registry() {
  static auto* registry = new Registry;
  return *registry;
}

template <typename Handle, typename Object>
Handle add(std::map<Handle, Object> Registry::*objects, Object object) {
  Registry& all = registry();
  const std::lock_guard lock(all.mutex);
  all.next += 16;
  const auto handle = reinterpret_cast<Handle>(all.next);
  (all.*objects)[handle] = std::move(object);
  return handle;
}

template <typename Handle, typename Object>
Object look_up(std::map<Handle, Object> Registry::*objects, Handle handle) {
  Registry& all = registry();
  const std::lock_guard lock(all.mutex);
  const auto found = (all.*objects).find(handle);
  return found == (all.*objects).end() ? Object{} : found->second;
}

template <typename Handle, typename Object>
Object take(std::map<Handle, Object> Registry::*objects, Handle handle) {
  Registry& all = registry();
  const std::lock_guard lock(all.mutex);
  auto node = (all.*objects).extract(handle);
  return node.empty() ? Object{} : std::move(node.mapped());
}

}  // namespace

mnc2_device_t add_handle(std::shared_ptr<Device> device) {
  return add(&Registry::devices, std::move(device));
}
mnc2_kernel_t add_handle(LoadedKernel kernel) {
  return add(&Registry::kernels, std::move(kernel));
}
mnc2_dma_handle_t add_handle(StartedTransfer transfer) {
  return add(&Registry::transfers, std::move(transfer));
}

std::shared_ptr<Device> find(mnc2_device_t handle) {
  return look_up(&Registry::devices, handle);
}
LoadedKernel find(mnc2_kernel_t handle) {
  return look_up(&Registry::kernels, handle);
}
StartedTransfer find(mnc2_dma_handle_t handle) {
  return look_up(&Registry::transfers, handle);
}

std::shared_ptr<Device> remove(mnc2_device_t handle) {
  std::shared_ptr<Device> device = take(&Registry::devices, handle);
  if (device) {
    const std::lock_guard lock(registry().mutex);
    std::erase_if(registry().kernels, [&](const auto& entry) { return entry.second.device == device; });
    std::erase_if(registry().transfers, [&](const auto& entry) { return entry.second.device == device; });
  }
  return device;
}
LoadedKernel remove(mnc2_kernel_t handle) {
  return take(&Registry::kernels, handle);
}
StartedTransfer remove(mnc2_dma_handle_t handle) {
  return take(&Registry::transfers, handle);
}

void* allocate_buffer(size_t size) {
  if (size == 0) return nullptr;
  void* buffer = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (buffer == MAP_FAILED) return nullptr;
  const std::lock_guard lock(registry().mutex);
  registry().buffers[buffer] = size;
  return buffer;
}

void free_buffer(void* buffer) {
  const std::lock_guard lock(registry().mutex);
  const auto found = registry().buffers.find(buffer);
  if (found == registry().buffers.end()) return;
  munmap(buffer, found->second);
  registry().buffers.erase(found);
}

}  // namespace kodama::host
