// Any base URL is rejected, or survives a round trip through its text. Any text is accepted as
// NO_PROXY.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "http/url.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tessera::http;
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const std::string_view text = input.substr(0, input.find('\n'));
  const auto url = parse_url(text);
  if (!url) {
    return 0;
  }
  const auto again = parse_url(url->origin());
  if (!again || again->host != url->host || again->port != url->port || again->tls != url->tls) {
    std::abort();
  }
  if (text.size() < input.size()) {
    const std::string no_proxy(input.substr(text.size() + 1));
    if (!proxy_for(*url, {.http_proxy = "http://p:1", .https_proxy = "http://p:2", .no_proxy = no_proxy})) {
      std::abort();
    }
  }
  return 0;
}
