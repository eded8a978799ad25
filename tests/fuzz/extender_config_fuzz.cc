// The extender's configuration file, and merging into a scheduler configuration.
#include <cstdint>
#include <string_view>

#include "extender/config.h"
#include "extender/scheduler_config.h"

using namespace tessera;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  // staticSets opens a file, so the fuzzer must not choose it.
  if (text.find("staticSets") != std::string_view::npos) {
    return 0;
  }
  extender::Config config;
  if (extender::apply_yaml(text, "f", config)) {
    static_cast<void>(extender::check(config));
  }
  static_cast<void>(extender::merge_scheduler_config({}, "http://e", text, "s"));
  return 0;
}
