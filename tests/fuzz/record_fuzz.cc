// Any text is refused or read as a record that prints and reads back as itself.
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
