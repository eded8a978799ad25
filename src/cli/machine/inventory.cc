#include "cli/machine/inventory.h"

#include <fmt/core.h>

#include <boost/json.hpp>
#include <ostream>

#include "alloc/inventory.h"
#include "alloc/names.h"
#include "base/result.h"
#include "base/strings.h"
#include "cli/output/json_print.h"
#include "cli/output/messages.h"
#include "cli/output/yaml_print.h"
#include "sim/machine.h"

namespace tessera::cli {

namespace json = boost::json;

namespace {

// Kubernetes requires node names to be DNS subdomains.
bool is_node_name(std::string_view name) {
  static constexpr std::string_view kAllowed = "abcdefghijklmnopqrstuvwxyz0123456789-.";
  return !name.empty() && name.size() <= 253 && name.find_first_not_of(kAllowed) == std::string_view::npos &&
         name.front() != '-' && name.front() != '.' && name.back() != '-' && name.back() != '.';
}

// Returns "gpu" for one node, and "gpu-000" to "gpu-999" for a thousand. The padding makes them
// sort.
std::string node_name(const std::string& name, unsigned number, unsigned count) {
  if (count == 1) {
    return name;
  }
  return fmt::format("{}-{:0{}}", name, number, std::to_string(count - 1).size());
}

json::object resources(const sim::Machine& machine, const alloc::Inventory& inventory) {
  std::uint64_t units = 0;
  for (std::size_t gpu = 0; gpu < inventory.gpus.size(); ++gpu) {
    units += inventory.units(gpu);
  }
  const alloc::ResourceNames names;
  const std::string gpus = std::to_string(inventory.gpus.size());
  json::object amounts;
  amounts["cpu"] = std::to_string(machine.cpus);
  amounts["memory"] = fmt::format("{}Mi", machine.memory_mib);
  amounts["pods"] = std::to_string(machine.pods);
  amounts[names.memory()] = std::to_string(units);
  amounts[names.whole()] = gpus;
  amounts[names.count()] = gpus;
  return amounts;
}

json::object node_object(const sim::Machine& machine, const std::string& name, alloc::Unit unit) {
  const alloc::Inventory inventory = machine.inventory(name, unit);
  json::object labels;
  labels["gpushare"] = "true";
  labels["kubernetes.io/arch"] = "amd64";
  labels["kubernetes.io/hostname"] = name;
  labels["kubernetes.io/os"] = "linux";
  json::object annotations;
  annotations["kwok.x-k8s.io/node"] = "fake";
  annotations[std::string(alloc::key::kInventory)] = inventory.json();
  json::object amounts = resources(machine, inventory);
  return json::object{
      {"apiVersion", "v1"},
      {"kind", "Node"},
      {"metadata",
       json::object{{"name", name}, {"labels", std::move(labels)}, {"annotations", std::move(annotations)}}},
      {"status", json::object{{"capacity", amounts}, {"allocatable", amounts}}}};
}

Status print_nodes(const InventoryOptions& options, std::ostream& out) {
  const sim::Machine machine = TRY(sim::load_machine(options.machine));
  const alloc::Unit unit = TRY(with_context(alloc::Unit::parse(options.unit), "--unit"));
  const std::string name = options.name.empty() ? machine.name : options.name;
  TRY(check_node_name(node_name(name, 0, options.count)));
  const bool as_json = options.output == "json";
  if (as_json && options.count > 1) {
    out << R"({"apiVersion":"v1","kind":"List","items":[)";
  }
  for (unsigned i = 0; i < options.count; ++i) {
    const json::object node = node_object(machine, node_name(name, i, options.count), unit);
    if (as_json) {
      out << (i > 0 ? ",\n" : "") << compact_json(node);
    } else {
      out << (i > 0 ? "---\n" : "") << yaml_text(node);
    }
  }
  if (as_json) {
    out << (options.count > 1 ? "]}\n" : "\n");
  }
  return {};
}

}  // namespace

Status check_node_name(const std::string& name) {
  return is_node_name(name) ? Status()
                            : fail(ErrorCode::kInvalid,
                                   fmt::format("--name: {} is not a valid node name; use lower-case letters, "
                                               "digits, - and .",
                                               in_quotes(name)));
}

int run_inventory(const InventoryOptions& options, std::ostream& out, std::ostream& err) {
  const Status printed = print_nodes(options, out);
  if (!printed) {
    return report_error(printed.error(), err);
  }
  return 0;
}

}  // namespace tessera::cli
