// Helpers of the exported functions. Each exported function passes its own name to these helpers.
// By that name, the control file can make the function hang, slow or missing.
#pragma once

#include <algorithm>
#include <cstring>
#include <string_view>

#include "sim_driver.h"

#define TESSERA_NVML_EXPORT extern "C" __attribute__((visibility("default")))

namespace tessera::nvml_sim {

// Copies text into the caller's buffer, with a terminating zero.
inline abi::Return put_text(std::string_view text, char* buffer, unsigned bytes) {
  if (buffer == nullptr) {
    return abi::kInvalidArgument;
  }
  if (text.size() >= bytes) {
    return abi::kInsufficientSize;
  }
  std::memcpy(buffer, text.data(), text.size());
  buffer[text.size()] = '\0';
  return abi::kSuccess;
}

// Stores a value in the caller's variable.
template <class T, class V>
abi::Return put(T* target, V value) {
  if (target == nullptr) {
    return abi::kInvalidArgument;
  }
  *target = static_cast<T>(value);
  return abi::kSuccess;
}

// Returns answer(driver) if there is a session; otherwise the error of SimDriver::enter().
template <class Answer>
abi::Return on_system(std::string_view function, Answer answer) {
  SimDriver& driver = SimDriver::instance();
  const abi::Return code = driver.enter(function);
  return code == abi::kSuccess ? answer(driver) : code;
}

// Returns answer(gpu) if there is a session and the GPU is not lost. Otherwise returns the error:
// that of SimDriver::enter(), kInvalidArgument for an unknown device, or kGpuIsLost.
template <class Answer>
abi::Return on_gpu(std::string_view function, abi::Device device, Answer answer) {
  SimDriver& driver = SimDriver::instance();
  if (const abi::Return code = driver.enter(function); code != abi::kSuccess) {
    return code;
  }
  const auto gpu = driver.gpu(device);
  if (!gpu) {
    return abi::kInvalidArgument;
  }
  return gpu->control.lost ? abi::kGpuIsLost : answer(*gpu);
}

// Returns the parts of a PCI address such as "00000000:06:00.0".
abi::PciInfo pci_info(const std::string& bus_id);

}  // namespace tessera::nvml_sim
