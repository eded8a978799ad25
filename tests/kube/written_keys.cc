#include "written_keys.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <iterator>

namespace tessera::kube {

namespace {

using boost::json::object;
using boost::json::value;

const value& table() {
  static const value kTable = [] {
    std::ifstream file(std::string(TESSERA_SOURCE_DIR) + "/deploy/helm/tessera/files/keys.json");
    return boost::json::parse(std::string(std::istreambuf_iterator<char>(file), {}));
  }();
  return kTable;
}

std::string_view program(std::string_view user_agent) {
  for (const std::string_view name : {"agent", "extender"}) {
    if (user_agent.starts_with(fmt::format("tessera-{}/", name))) {
      return name;
    }
  }
  return {};
}

bool allows(const Write& write, std::string_view map, std::string_view name) {
  const object& keys = table().at(write.resource).as_object();
  const value* listed = keys.if_contains(map);
  return listed != nullptr && std::ranges::any_of(listed->as_object(), [&](const auto& entry) {
           const std::string_view key = entry.key();
           const bool same =
               key.ends_with('*') ? name.starts_with(key.substr(0, key.size() - 1)) : name == key;
           return same && std::ranges::count(entry.value().as_array(), value(program(write.user_agent))) > 0;
         });
}

std::string foreign_in_metadata(const Write& write, const object& metadata) {
  constexpr std::array<std::string_view, 4> kIdentity{"name", "namespace", "resourceVersion", "uid"};
  for (const auto& [field, changes] : metadata) {
    if (field != "annotations" && field != "labels") {
      if (std::ranges::count(kIdentity, std::string_view(field)) == 0) {
        return fmt::format("metadata.{} of {}", std::string_view(field), write.resource);
      }
      continue;
    }
    for (const auto& [name, text] : changes.as_object()) {
      if (!allows(write, field, name)) {
        return fmt::format("{} {} of {}", std::string_view(field), std::string_view(name), write.resource);
      }
    }
  }
  return "";
}

std::string foreign_in_status(const Write& write, const object& status) {
  for (const auto& [field, changes] : status) {
    if (field != "conditions") {
      return fmt::format("status.{} of {}", std::string_view(field), write.resource);
    }
    for (const value& condition : changes.as_array()) {
      const std::string_view type = condition.at("type").as_string();
      if (!allows(write, "conditions", type)) {
        return fmt::format("condition {} of {}", type, write.resource);
      }
    }
  }
  return "";
}

}  // namespace

std::string foreign_change(const Write& write) {
  if (program(write.user_agent).empty() || (write.resource != "nodes" && write.resource != "pods")) {
    return "";
  }
  constexpr std::array<std::string_view, 3> kOfBinding{"apiVersion", "kind", "target"};
  for (const auto& [part, changes] : write.body.as_object()) {
    std::string found;
    if (part == "metadata") {
      found = foreign_in_metadata(write, changes.as_object());
    } else if (part == "status") {
      found = foreign_in_status(write, changes.as_object());
    } else if (std::ranges::count(kOfBinding, std::string_view(part)) == 0) {
      found = fmt::format("{} of {}", std::string_view(part), write.resource);
    }
    if (!found.empty()) {
      return found;
    }
  }
  return "";
}

}  // namespace tessera::kube
