// Binds a pod with any limits, labels and annotations (also forged ones) to a small node. It is
// rejected or counted, it never holds more than it requested, and removing it frees everything.
//
// Each line of the input is one of: "l <kind> <resource> <quantity>" (a container), "L <value>"
// (the gpu-count label), "a <key> <value>" (an annotation).
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "alloc/inventory.h"
#include "alloc/ledger.h"
#include "alloc/original_record.h"
#include "alloc/placer.h"
#include "base/strings.h"

namespace {

using namespace tessera;
using namespace tessera::alloc;

void add_container(std::string_view line, PodSpec& pod) {
  const auto words = split_words(line);
  if (words.size() < 3 || pod.containers.size() > 70) {
    return;
  }
  ContainerSpec container;
  container.name = "c" + std::to_string(pod.containers.size());
  container.kind = words[0] == "i"   ? ContainerKind::kInit
                   : words[0] == "s" ? ContainerKind::kSidecar
                                     : ContainerKind::kMain;
  for (std::size_t i = 1; i + 1 < words.size(); i += 2) {
    const auto quantity = Quantity::parse(words[i + 1]);
    if (const auto resource = ResourceNames().find("aliyun.com/" + std::string(words[i]));
        resource && quantity) {
      container.gpu_limits.emplace_back(*resource, *quantity);
    }
  }
  pod.containers.push_back(container);
}

PodSpec read_pod(std::string_view text) {
  PodSpec pod;
  pod.namespace_name = "ns";
  pod.name = "pod";
  pod.uid = "uid";
  for (const std::string_view line : split(text, '\n')) {
    const std::string_view rest = line.size() > 2 ? line.substr(2) : std::string_view();
    if (line.starts_with("l ")) {
      add_container(rest, pod);
    } else if (line.starts_with("L ")) {
      pod.labels["aliyun.com/gpu-count"] = rest;
    } else if (line.starts_with("a ")) {
      const std::size_t space = rest.find(' ');
      if (space != std::string_view::npos) {
        pod.annotations[std::string(rest.substr(0, space))] = rest.substr(space + 1);
      }
    }
  }
  return pod;
}

NodeSpec small_node() {
  Inventory inventory;
  for (unsigned i = 0; i < 4; ++i) {
    inventory.gpus.push_back(
        {.uuid = "GPU-" + std::to_string(i), .index = i, .model = "T4", .memory_mib = 16384});
  }
  inventory.topology = topology::Topology(4);
  inventory.mps = true;
  NodeSpec node;
  node.name = "node";
  node.inventory = inventory.json();
  return node;
}

void check(bool holds) {
  if (!holds) {
    std::abort();
  }
}

// A pod that is already bound holds no more than it requested.
void bind_as_it_says(Ledger& ledger, PodSpec pod) {
  pod.node_name = "node";
  ledger.upsert_pod(pod);
  const auto holding = ledger.holding("uid");
  check(holding.has_value());
  const auto request = GpuRequest::of_pod(pod, ResourceNames());
  std::uint64_t whole = 0;
  for (const HeldShare& held : holding->shares) {
    whole += held.share.whole ? 1 : 0;
  }
  check(holding->shares.empty() || (request && whole <= request->whole));

  ledger.remove_pod("uid");
}

// The ledger accepts the annotations that Tessera writes itself.
void bind_as_we_say(Ledger& ledger, PodSpec pod) {
  const auto request = Request::of_pod(pod, ResourceNames());
  if (!request || !request->gpus.any()) {
    return;
  }
  Placer placer(ledger);
  const NodeId node = ledger.find_node("node").value();
  const auto choice = placer.choose(*request, node);
  check(choice.has_value() == (placer.reason(*request, node) == Reason::kFits));
  if (!choice) {
    return;
  }
  auto hold = ledger.reserve({.namespace_name = "ns", .name = "pod", .uid = "uid"}, *request, *choice);
  check(hold.has_value());
  const auto annotations = binding_annotations(request->gpus, choice->record, ledger.gpu_names(node), {});
  check(annotations.has_value());
  for (const auto& [name, value] : *annotations) {
    pod.annotations[name] = value;
  }
  pod.node_name = "node";
  ledger.upsert_pod(pod);
  check(ledger.holding("uid")->decided && ledger.problems().empty());
  ledger.remove_pod("uid");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static Ledger* const ledger = [] {
    auto* made = new Ledger();
    made->upsert_node(small_node());
    return made;
  }();
  const PodSpec pod = read_pod({reinterpret_cast<const char*>(data), size});
  bind_as_it_says(*ledger, pod);
  bind_as_we_say(*ledger, pod);
  const NodeView view = ledger->view(ledger->find_node("node").value());
  check(view.free_units == 64 && view.whole_free == 0b1111U && ledger->pod_count() == 0);
  return 0;
}
