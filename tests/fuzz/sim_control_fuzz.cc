// Any text is rejected with a reason, or parsed as a control file that contains only GPUs of the
// machine.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "control.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using tessera::nvml_sim::Control;
  constexpr unsigned kGpus = 4;
  const auto control = Control::parse({reinterpret_cast<const char*>(data), size}, kGpus);
  if (!control) {
    if (control.error().text().empty()) {
      std::abort();
    }
    return 0;
  }
  for (const auto& event : control->events) {
    if (event.gpu >= kGpus || event.type == 0) {
      std::abort();
    }
  }
  for (const auto& [gpu, state] : control->gpus) {
    if (gpu >= kGpus) {
      std::abort();
    }
  }
  if (control->order.size() > kGpus) {
    std::abort();
  }
  return 0;
}
