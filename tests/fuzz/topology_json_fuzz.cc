// Any document is rejected, or parsed as a topology that survives a round trip through its JSON and
// can be searched.
#include <boost/json.hpp>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "topology/set_search.h"
#include "topology/topology_json.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tessera;
  const auto document = parse_json({reinterpret_cast<const char*>(data), size});
  if (!document) {
    return 0;
  }
  const auto read = topology::topology_from_json(JsonReader(*document, "topology"));
  if (!read) {
    return 0;
  }
  const boost::json::value written = to_json(*read);
  const auto again = topology::topology_from_json(JsonReader(written, "topology"));
  if (!again || *again != *read || again->hash() != read->hash()) {
    std::abort();
  }
  const bool quick = read->size() <= 6 || read->size() > topology::kExactGpus;
  if (read->size() > 0 && quick) {
    const topology::SetTables tables(*read);
    const topology::SetQuery query{.free = read->all(), .count = (read->size() + 1) / 2};
    if (!choose_ring(tables, query) || !choose_best_effort(tables, query) || !choose_prim(tables, query)) {
      std::abort();
    }
  }
  return 0;
}
