// Any text is rejected with line and column, or parsed as a topology that survives a round trip
// through its text.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "topology/topo_text.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using tessera::topology::parse_topo_text;
  const auto read = parse_topo_text({reinterpret_cast<const char*>(data), size});
  if (!read) {
    if (size <= (1U << 20U) && !read.error().text().starts_with("line ")) {
      std::abort();
    }
    return 0;
  }
  const std::string printed = print_topo_text(read->topology);
  const auto again = parse_topo_text(printed);
  if (!again || again->topology != read->topology || print_topo_text(again->topology) != printed) {
    std::abort();
  }
  return 0;
}
