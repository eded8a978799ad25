// agent/devices/checkpoint.h
//
// kubelet's own file of which devices it allocated to which container,
// device-plugins/kubelet_internal_checkpoint. It holds what podresources does not report: UIDs and
// init containers. It is also available on kubelets without Get and in the first second after
// kubelet started. kubelet writes it before a container starts.
//
// The format is internal to kubelet, though it has not changed since 1.20. A file that cannot be
// read is treated as missing, and nothing relies on the file alone. Entries of pods that have ended
// stay until kubelet writes the file again.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "agent/devices/device.h"
#include "base/result.h"

namespace tessera::agent {

struct CheckpointEntry {
  std::string pod_uid;
  std::string container;
  std::string resource;
  std::vector<std::string> ids;  // sorted
  std::string response{};        // the plugin's answer to Allocate: the message in base64

  // Decodes `response`: what the container got with these IDs and keeps for the life of its pod.
  [[nodiscard]] Result<ContainerResponse> decode_response() const;

  friend bool operator==(const CheckpointEntry&, const CheckpointEntry&) = default;
};

struct Checkpoint {
  static constexpr const char* kFile = "kubelet_internal_checkpoint";
  static constexpr std::size_t kMaxBytes = 64U << 20U;

  std::vector<CheckpointEntry> entries;
  // Resource -> IDs that its plugin listed. Includes plugins that are gone.
  std::map<std::string, std::vector<std::string>> registered;

  static Result<Checkpoint> parse(std::string_view json);
  // kNotFound until kubelet has allocated a device for the first time.
  static Result<Checkpoint> read(const std::string& plugin_dir);

  // The containers that have exactly these IDs (sorted) of a resource. There can be several:
  // containers of a pod that use them in turn, or pods that have ended.
  [[nodiscard]] std::vector<const CheckpointEntry*> holders(const std::string& resource,
                                                            const std::vector<std::string>& ids) const;
  // What a container has of a resource; null when the file has no entry for it.
  [[nodiscard]] const CheckpointEntry* find(const std::string& pod_uid, const std::string& container,
                                            const std::string& resource) const;
};

// Reads the current checkpoint. On the event loop's thread.
class CheckpointReader {
 public:
  virtual ~CheckpointReader() = default;
  [[nodiscard]] virtual Result<Checkpoint> read() const = 0;
};

class CheckpointFile final : public CheckpointReader {
 public:
  explicit CheckpointFile(std::string plugin_dir) : plugin_dir_(std::move(plugin_dir)) {}
  [[nodiscard]] Result<Checkpoint> read() const override { return Checkpoint::read(plugin_dir_); }

 private:
  const std::string plugin_dir_;
};

}  // namespace tessera::agent
