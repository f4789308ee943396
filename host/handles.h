#pragma once

#include <cstddef>
#include <memory>

#include "host/device.h"
#include "host/include/mnc2.h"

/// What handles stand for. A handle is a number that looks like a pointer and is never given twice, so one
/// that is no more is known as such. Objects live as long as somebody who looked them up uses them.
namespace kodama::host {

struct LoadedKernel {
  std::shared_ptr<Device> device;
  std::shared_ptr<const Kernel> kernel;
};
struct StartedTransfer {
  std::shared_ptr<Device> device;
  std::shared_ptr<Transfer> transfer;
};

mnc2_device_t add_handle(std::shared_ptr<Device> device);
mnc2_kernel_t add_handle(LoadedKernel kernel);
mnc2_dma_handle_t add_handle(StartedTransfer transfer);

/// Null members when there is no such handle.
std::shared_ptr<Device> find(mnc2_device_t handle);
LoadedKernel find(mnc2_kernel_t handle);
StartedTransfer find(mnc2_dma_handle_t handle);

/// The same, and the handle is no more; of a device also those of its kernels and transfers.
std::shared_ptr<Device> remove(mnc2_device_t handle);
LoadedKernel remove(mnc2_kernel_t handle);
StartedTransfer remove(mnc2_dma_handle_t handle);

/// Buffers of the host: zeroed pages. Null when there is no memory.
void* allocate_buffer(size_t size);
void free_buffer(void* buffer);

}  // namespace kodama::host
