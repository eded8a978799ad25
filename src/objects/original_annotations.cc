#include "objects/original_annotations.h"

#include <algorithm>
#include <iterator>

#include "alloc/names.h"

namespace tessera::objects {

using simdjson::SUCCESS;

constexpr std::size_t kMaxType = 253;  // bytes; no instance type is longer

JsonError read_original(std::string_view name, JsonValue text, alloc::OriginalNode& node) {
  if (name == alloc::key::kGpuTopology) {
    return read_text(text, node.gpu_topology);
  }
  if (name == alloc::key::kNodeType) {
    const JsonError error = read_text(text, node.type);
    if (node.type.size() > kMaxType) {
      node.type.clear();
    }
    return error;
  }
  // A text over the limit is invalid, so the rest is not needed.
  if (!name.starts_with(alloc::key::kGsocLinkPrefix) ||
      node.gsoc_links.size() > alloc::OriginalNode::kMaxBytes) {
    return SUCCESS;
  }
  std::string_view value;
  if (const JsonError error = read_view(text, value); error != SUCCESS) {
    return error;
  }
  node.gsoc_links += name.substr(alloc::key::kGsocLinkPrefix.size());
  node.gsoc_links += '=';
  // One line per annotation: a line break in a value must not begin another one.
  std::ranges::replace_copy(value, std::back_inserter(node.gsoc_links), '\n', ' ');
  node.gsoc_links += '\n';
  return SUCCESS;
}

void forget_unused_original(alloc::NodeSpec& node) {
  if (!node.inventory.empty()) {
    node.original.gpu_topology.clear();
    node.original.gsoc_links.clear();
  }
}

}  // namespace tessera::objects
