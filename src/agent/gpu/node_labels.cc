#include "agent/gpu/node_labels.h"

#include <algorithm>
#include <array>
#include <map>

#include "base/strings.h"

namespace tessera::agent {

namespace {

constexpr std::size_t kMaxLabelBytes = 63;

bool is_alphanumeric(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

// Position of the GPU that stands for the node.
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

  // "550.54.15" under its own name and in parts; `old` is a prefix that was in use before.
  void add_version(const std::string& prefix, const std::string& old, std::string_view version,
                   const std::string& last_part, const std::string& old_last_part) {
    if (version.empty()) {
      return;
    }
    add(prefix + ".full", version);
    const auto parts = split(version, '.');
    const std::array<std::pair<std::string, std::string>, 3> names{
        {{"major", "major"}, {"minor", "minor"}, {last_part, old_last_part}}};
    for (std::size_t i = 0; i < parts.size() && i < names.size(); ++i) {
      if (!names[i].first.empty()) {
        add(prefix + "." + names[i].first, parts[i]);
        add(old + "." + names[i].second, parts[i]);
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

}  // namespace tessera::agent
