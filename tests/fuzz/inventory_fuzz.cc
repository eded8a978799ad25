// Any text is rejected, or parsed as an inventory that survives a round trip through its JSON. A
// ledger accepts a node with any text, as its inventory and as the links of the original plugins.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "alloc/inventory.h"
#include "alloc/ledger.h"
#include "alloc/placer.h"

namespace {

using namespace tessera::alloc;

// Places requests of three sizes on the node.
void place(Ledger& ledger, const NodeSpec& node) {
  ledger.upsert_node(node);
  const NodeId id = ledger.find_node(node.name).value();
  Placer placer(ledger);
  for (const std::uint16_t whole : {std::uint16_t{0}, std::uint16_t{1}, std::uint16_t{3}}) {
    for (const std::uint16_t shares : {std::uint16_t{0}, std::uint16_t{1}}) {
      if (whole + shares == 0) {
        continue;
      }
      Shape shape;
      shape.share = {.units = shares * 2U, .core_percent = 0, .gpus = shares};
      shape.whole = whole;
      const Request request = Request::of_shape(shape);
      const auto choice = placer.choose(request, id);
      if (choice && !ledger.reserve({.namespace_name = "ns", .name = "p", .uid = "u"}, request, *choice)) {
        std::abort();
      }
    }
  }
}

// Reads the text as the annotation GPU_TOPOLOGY and as annotations GSOC_DEV_<i>_<j>.
void place_by_original_links(std::string_view text) {
  NodeSpec json;
  json.name = "json";
  json.whole_gpus = 6;
  json.original.gpu_topology = text;
  NodeSpec lines;
  lines.name = "lines";
  lines.whole_gpus = 6;
  lines.original.gsoc_links = text;
  for (const NodeSpec& node : {json, lines}) {
    const auto inventory = Inventory::of_node(node, Unit::gib());
    if (inventory && !text.empty() && (inventory->topology.size() != 6 || !inventory->original.whole)) {
      std::abort();
    }
    Ledger ledger;
    place(ledger, node);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
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
  place(ledger, node);
  place_by_original_links(text);
  return 0;
}
