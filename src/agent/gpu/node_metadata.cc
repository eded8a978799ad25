#include "agent/gpu/node_metadata.h"

#include <fmt/core.h>

#include <boost/json.hpp>
#include <set>
#include <vector>

#include "alloc/names.h"
#include "base/json_reader.h"
#include "base/strings.h"
#include "kube/request.h"

namespace tessera::agent {

namespace {

namespace key = alloc::key;

// "GSOC_DEV_0_3".
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

// What has to change from `have` to `want`, of the keys in either that `ours` accepts.
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

Result<NodeMetadata> node_metadata(const alloc::Inventory& inventory, const GpuSoftware& software,
                                   const NodeMetadataOptions& options) {
  NodeMetadata metadata;
  if (options.legacy && inventory.gpus.size() <= kMostLegacyGpus) {
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

std::optional<alloc::Inventory> published_inventory(const boost::json::value& node) {
  const JsonReader root(node, "node");
  const auto metadata = root.object("metadata");
  const auto annotations = metadata ? metadata->object("annotations") : metadata;
  const auto text = annotations ? annotations->text(key::kInventory) : Result<std::string>("");
  auto inventory = alloc::Inventory::parse(text.value_or(""));
  return inventory ? std::optional(*std::move(inventory)) : std::nullopt;
}

}  // namespace tessera::agent
