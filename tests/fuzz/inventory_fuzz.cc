// Any text is rejected, or parsed as an inventory that survives a round trip through its JSON. A
// ledger accepts a node with any text.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "alloc/inventory.h"
#include "alloc/ledger.h"
#include "alloc/placer.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tessera::alloc;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto inventory = Inventory::parse(text);
  if (inventory) {
    const auto again = Inventory::parse(inventory->json());
    if (!again || *again != *inventory || again->json() != inventory->json()) {
      std::abort();
    }
  }
  // The tables of 11 to 16 GPUs take the same time for all links, but too long for a fuzzer. More
  // GPUs are searched with a budget.
  if (inventory && inventory->gpus.size() > 10 && inventory->gpus.size() <= tessera::topology::kExactGpus) {
    return 0;
  }
  Ledger ledger({.unit = inventory ? inventory->unit : Unit::gib(), .names = ResourceNames()});
  NodeSpec node;
  node.name = "node";
  node.inventory = text;
  ledger.upsert_node(node);
  const NodeId id = ledger.find_node("node").value();
  Placer placer(ledger);
  for (const std::uint16_t whole : {std::uint16_t{0}, std::uint16_t{1}, std::uint16_t{3}}) {
    Shape shape;
    shape.share = {.units = 2, .core_percent = 0, .gpus = 1};
    shape.whole = whole;
    const Request request = Request::of_shape(shape);
    const auto choice = placer.choose(request, id);
    if (choice && !ledger.reserve({.namespace_name = "ns", .name = "p", .uid = "u"}, request, *choice)) {
      std::abort();
    }
  }
  return 0;
}
