// Any text is rejected with a position, or parsed as nodes and pods with valid values.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "sim/trace.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  if (const auto nodes = tessera::sim::parse_nodes(text)) {
    for (const auto& node : *nodes) {
      if (node.name.empty() || node.gpus > 64 || node.cpu_milli < 0 || node.memory_mib < 0) {
        std::abort();
      }
    }
  } else if (nodes.error().text().empty()) {
    std::abort();
  }
  if (const auto pods = tessera::sim::parse_pods(text)) {
    for (const auto& pod : *pods) {
      if ((pod.gpus == 0) != (pod.gpu_milli == 0) || pod.gpu_milli > 1000 || pod.cpu_milli < 0) {
        std::abort();
      }
    }
  }
  return 0;
}
