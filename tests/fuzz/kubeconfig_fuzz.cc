// Any text is rejected with the file name in the error, or parsed; then every context can be looked
// up.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "kube/kubeconfig.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto config =
      tessera::kube::parse_kubeconfig({reinterpret_cast<const char*>(data), size}, "/k/config");
  if (!config) {
    if (config.error().text().find("/k/config") == std::string::npos) {
      std::abort();
    }
    return 0;
  }
  for (const auto& context : config->contexts) {
    const auto access = config->access(context.name);
    if (access && access->cluster.server.empty()) {
      std::abort();
    }
  }
  return 0;
}
