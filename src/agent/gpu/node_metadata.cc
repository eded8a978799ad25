#include "agent/gpu/node_metadata.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <boost/json.hpp>
#include <map>
#include <set>
#include <vector>

#include "alloc/names.h"
#include "base/json_reader.h"
#include "base/strings.h"
#include "kube/request.h"

namespace tessera::agent {

namespace {

namespace key = alloc::key;

constexpr std::size_t kMaxLabelBytes = 63;

bool is_alphanumeric(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

// Returns the position of the GPU that the node is labelled with.
std::size_t typical_gpu(const std::vector<alloc::Gpu>& gpus) {
  std::map<std::string_view, std::size_t> count;
  for (const alloc::Gpu& gpu : gpus) {
    ++count[gpu.model];
  }
  const auto most =
      std::ranges::max_element(gpus, {}, [&](const alloc::Gpu& gpu) { return count[gpu.model]; });
  return static_cast<std::size_t>(most - gpus.begin());
}

std::string_view family(std::string_view major, std::string_view minor) {
  if (major == "7") {
    return minor == "5" ? "turing" : "volta";
  }
  if (major == "8") {
    return minor == "9" ? "ada-lovelace" : "ampere";
  }
  constexpr std::array<std::pair<std::string_view, std::string_view>, 8> kFamilies{{{"3", "kepler"},
                                                                                    {"5", "maxwell"},
                                                                                    {"6", "pascal"},
                                                                                    {"9", "hopper"},
                                                                                    {"10", "blackwell"},
                                                                                    {"11", "blackwell"},
                                                                                    {"12", "blackwell"},
                                                                                    {"13", "rubin"}}};
  const auto* const found =
      std::ranges::find(kFamilies, major, [](const auto& entry) { return entry.first; });
  return found == kFamilies.end() ? "undefined" : found->second;
}

class Labels {
 public:
  void add(std::string key, std::string_view value) {
    if (std::string good = label_value(value); !good.empty()) {
      labels_[std::move(key)] = std::move(good);
    }
  }

  // Adds a version such as "550.54.15" as a whole and in parts. The parts are also added under the
  // older names.
  void add_version(const std::string& prefix, const std::string& older_prefix, std::string_view version,
                   const std::string& last_part, const std::string& older_last_part) {
    if (version.empty()) {
      return;
    }
    add(prefix + ".full", version);
    const auto parts = split(version, '.');
    const std::array<std::pair<std::string, std::string>, 3> names{
        {{"major", "major"}, {"minor", "minor"}, {last_part, older_last_part}}};
    for (std::size_t i = 0; i < parts.size() && i < names.size(); ++i) {
      if (!names[i].first.empty()) {
        add(prefix + "." + names[i].first, parts[i]);
        add(older_prefix + "." + names[i].second, parts[i]);
      }
    }
  }

  alloc::Annotations take() { return std::move(labels_); }

 private:
  alloc::Annotations labels_;
};

void add_links(const alloc::Inventory& inventory, Labels& labels) {
  topology::Link best;
  for (unsigned i = 0; i < inventory.topology.size(); ++i) {
    for (unsigned j = 0; j < i; ++j) {
      const topology::Link& link = inventory.topology.link(i, j);
      if (link.nvlinks > best.nvlinks) {
        best = link;
      }
    }
  }
  labels.add("tessera.io/gpu.nvlink", best.nvlinks > 0 ? topology::short_name(best) : "none");
  labels.add("tessera.io/gpu.nvswitch", best.nvswitch ? "true" : "false");
}

// Returns whether the name has the form "GSOC_DEV_0_3".
bool is_gsoc_link(std::string_view name) {
  if (!name.starts_with(key::kGsocLinkPrefix)) {
    return false;
  }
  const auto indices = split(name.substr(key::kGsocLinkPrefix.size()), '_');
  return indices.size() == 2 && parse_int(indices[0]) && parse_int(indices[1]);
}

bool is_our_annotation(std::string_view name) {
  return name == key::kInventory || name == key::kGpuTopology || is_gsoc_link(name);
}

Result<alloc::Annotations> texts(const JsonReader& metadata, std::string_view field) {
  alloc::Annotations all;
  if (!metadata.has(field)) {
    return all;
  }
  const JsonReader map = TRY(metadata.object(field));
  for (const auto& [name, value] : TRY(map.as_object(10'000))) {
    all[name] = TRY(value.as_text());
  }
  return all;
}

// Returns the merge patch from `have` to `want`. It removes keys that are only in `have` if they
// are `ours`.
template <class Ours>
boost::json::object changes(const alloc::Annotations& have, const alloc::Annotations& want, Ours ours) {
  boost::json::object patch;
  for (const auto& [name, value] : want) {
    const auto found = have.find(name);
    if (found == have.end() || found->second != value) {
      patch[name] = value;
    }
  }
  for (const auto& [name, value] : have) {
    if (!want.contains(name) && ours(name)) {
      patch[name] = nullptr;
    }
  }
  return patch;
}

using Names = std::set<std::string, std::less<>>;

Names listed_labels(const alloc::Annotations& annotations) {
  Names labels;
  if (const auto found = annotations.find(key::kOwnLabels); found != annotations.end()) {
    for (const std::string_view name : split(found->second, ',')) {
      labels.emplace(trim(name));
    }
  }
  return labels;
}

// Returns the `listed` labels that no other writer has changed. Adds their values to `known`.
Names labels_still_ours(const alloc::Annotations& labels, const Names& listed, LabelValues& known) {
  Names ours;
  for (const std::string& name : listed) {
    const auto now = labels.find(name);
    if (now == labels.end()) {
      continue;
    }
    const auto values = known.find(name);
    if (values == known.end() || values->second.contains(now->second)) {
      known[name].insert(now->second);
      ours.insert(name);
    }
  }
  return ours;
}

std::string joined_keys(const alloc::Annotations& map) {
  std::string list;
  for (const auto& [name, value] : map) {
    list += (list.empty() ? "" : ",") + name;
  }
  return list;
}

}  // namespace

std::string label_value(std::string_view text) {
  std::string value;
  for (const char c : text) {
    if (c == ' ' || c == '\t') {
      if (!value.empty() && value.back() != '-') {
        value.push_back('-');
      }
    } else if (is_alphanumeric(c) || c == '-' || c == '_' || c == '.') {
      value.push_back(c);
    }
  }
  value.resize(std::min(value.size(), kMaxLabelBytes));
  while (!value.empty() && !is_alphanumeric(value.back())) {
    value.pop_back();
  }
  const auto first = std::ranges::find_if(value, is_alphanumeric);
  value.erase(value.begin(), first);
  return value;
}

alloc::Annotations node_labels(const alloc::Inventory& inventory, const GpuSoftware& software) {
  Labels labels;
  if (inventory.gpus.empty()) {
    return {};
  }
  const std::size_t which = typical_gpu(inventory.gpus);
  const alloc::Gpu& gpu = inventory.gpus[which];
  const std::string count = std::to_string(inventory.gpus.size());
  const std::string memory = std::to_string(gpu.memory_mib);
  labels.add("nvidia.com/gpu.product", gpu.model);
  labels.add("nvidia.com/gpu.count", count);
  labels.add("nvidia.com/gpu.memory", memory);
  labels.add("nvidia.com/gpu.machine", inventory.machine);
  labels.add("aliyun.accelerator/nvidia_name", gpu.model);
  labels.add("aliyun.accelerator/nvidia_count", count);
  labels.add("aliyun.accelerator/nvidia_mem", memory + "MiB");
  if (which < software.compute.size() && !software.compute[which].empty()) {
    const auto parts = split(software.compute[which], '.');
    const std::string_view minor = parts.size() > 1 ? parts[1] : "0";
    labels.add("nvidia.com/gpu.compute.major", parts[0]);
    labels.add("nvidia.com/gpu.compute.minor", minor);
    labels.add("nvidia.com/gpu.family", family(parts[0], minor));
  }
  labels.add_version("nvidia.com/cuda.driver-version", "nvidia.com/cuda.driver", inventory.driver, "revision",
                     "rev");
  labels.add_version("nvidia.com/cuda.runtime-version", "nvidia.com/cuda.runtime", software.cuda, "", "");
  add_links(inventory, labels);
  return labels.take();
}

Result<NodeMetadata> node_metadata(const alloc::Inventory& inventory, const GpuSoftware& software,
                                   const NodeMetadataOptions& options) {
  NodeMetadata metadata;
  if (options.original_annotations && inventory.gpus.size() <= kMaxOriginalGpus) {
    metadata.annotations = inventory.original_annotations();
  }
  metadata.annotations[std::string(key::kInventory)] = inventory.json();
  if (options.labels) {
    metadata.labels = node_labels(inventory, software);
  }
  TRY(with_context(kube::check_annotations({metadata.annotations.begin(), metadata.annotations.end()}),
                   "inventory"));
  return metadata;
}

Result<std::optional<std::string>> metadata_patch(const boost::json::value& node, const NodeMetadata& wanted,
                                                  LabelValues& known) {
  const JsonReader root(node, "node");
  const JsonReader metadata = TRY(root.object("metadata"));
  const std::string version = TRY(metadata.text("resourceVersion"));
  const alloc::Annotations annotations = TRY(texts(metadata, "annotations"));
  const alloc::Annotations labels = TRY(texts(metadata, "labels"));

  const auto ours = labels_still_ours(labels, listed_labels(annotations), known);
  alloc::Annotations our_labels;
  for (const auto& [name, value] : wanted.labels) {
    if (!labels.contains(name) || ours.contains(name)) {
      our_labels[name] = value;
      known[name].insert(value);
    }
  }
  alloc::Annotations our_annotations = wanted.annotations;
  if (!our_labels.empty()) {
    our_annotations[std::string(key::kOwnLabels)] = joined_keys(our_labels);
  }

  boost::json::object patch;
  boost::json::object annotation_changes = changes(annotations, our_annotations, [](std::string_view name) {
    return is_our_annotation(name) || name == key::kOwnLabels;
  });
  boost::json::object label_changes =
      changes(labels, our_labels, [&](const std::string& name) { return ours.contains(name); });
  if (annotation_changes.empty() && label_changes.empty()) {
    return std::nullopt;
  }
  patch["resourceVersion"] = version;
  if (!annotation_changes.empty()) {
    patch["annotations"] = std::move(annotation_changes);
  }
  if (!label_changes.empty()) {
    patch["labels"] = std::move(label_changes);
  }
  return boost::json::serialize(boost::json::object{{"metadata", std::move(patch)}});
}

}  // namespace tessera::agent
