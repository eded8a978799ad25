// agent/devices/checkpoint.h
//
// kubelet's own file of which devices it gave to which container, device-plugins/kubelet_internal_checkpoint.
// It says what podresources does not: UIDs, init containers, and all of it also on kubelets without Get and
// in the first second after kubelet started. kubelet writes it before a container starts.
//
// The format is kubelet's business, though it has been the same since 1.20: what cannot be read tells
// nothing, and nothing rests on it alone. Entries of pods that have ended stay until kubelet next writes.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "agent/devices/device.h"
#include "base/result.h"

namespace tessera::agent {

struct CheckpointEntry {
  std::string pod_uid;
  std::string container;
  std::string resource;
  std::vector<std::string> ids;  // sorted
  std::string response{};        // the plugin's answer to Allocate: base64 of the message

  // What the container was handed with these IDs, and has for the life of its pod.
  [[nodiscard]] Result<Grant> handed() const;

  friend bool operator==(const CheckpointEntry&, const CheckpointEntry&) = default;
};

struct Checkpoint {
  static constexpr const char* kFile = "kubelet_internal_checkpoint";
  static constexpr std::size_t kMaxBytes = 64U << 20U;

  std::vector<CheckpointEntry> given;
  // Resource -> IDs that its plugin told kubelet; of plugins that are gone, too.
  std::map<std::string, std::vector<std::string>> registered;

  static Result<Checkpoint> parse(std::string_view json);
  // kNotFound while kubelet has given nothing to anybody.
  static Result<Checkpoint> read(const std::string& plugin_dir);

  // Who has exactly these IDs (sorted) of a resource: several containers of a pod that use them in turn, or
  // pods that have ended.
  [[nodiscard]] std::vector<const CheckpointEntry*> holders(const std::string& resource,
                                                            const std::vector<std::string>& ids) const;
  // What a container has of a resource; null when that is not told.
  [[nodiscard]] const CheckpointEntry* find(const std::string& pod_uid, const std::string& container,
                                            const std::string& resource) const;
};

}  // namespace tessera::agent
