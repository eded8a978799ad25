// Any text is rejected, or parsed as an amount that survives a round trip through its text.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "base/quantity.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto quantity = tessera::Quantity::parse({reinterpret_cast<const char*>(data), size});
  if (quantity) {
    const auto again = tessera::Quantity::parse(quantity->text());
    if (!again || *again != *quantity || again->text() != quantity->text()) {
      std::abort();
    }
  }
  return 0;
}
