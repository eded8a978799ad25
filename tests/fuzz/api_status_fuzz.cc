// Parsers of small documents from the API server and exec plugins: Status, Lease, ExecCredential,
// times.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "kube/api_status.h"
#include "kube/exec_credential.h"
#include "kube/lease_record.h"
#include "kube/rfc3339.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tessera::kube;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const ApiStatus status = status_of_response(409, text, text);
  const std::string line = status.to_error().text();
  if (std::ranges::any_of(line, [](char c) { return c == '\n' || c == '\r' || c == '\0'; }) ||
      line.size() > 2048) {
    std::abort();
  }
  if (const auto lease = parse_lease(text)) {
    const auto again = parse_lease(lease_to_patch(*lease));
    if (!again || !again->same_write(*lease)) {
      std::abort();
    }
  }
  static_cast<void>(parse_exec_credential(text, "client.authentication.k8s.io/v1").has_value());
  if (const auto time = parse_rfc3339(text)) {
    if (parse_rfc3339(tessera::rfc3339_micros(*time)) != *time) {
      std::abort();
    }
  }
  return 0;
}
