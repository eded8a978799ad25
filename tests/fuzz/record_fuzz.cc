// Any text is rejected, or parsed as a record that survives a round trip through its JSON.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "alloc/record.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tessera::alloc;
  const auto record = Record::parse({reinterpret_cast<const char*>(data), size});
  if (record) {
    const auto again = Record::parse(record->json());
    if (!again || *again != *record || again->json() != record->json()) {
      std::abort();
    }
  }
  return 0;
}
