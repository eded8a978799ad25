// agent/devices/checkpoint.h
//
// Reads kubelet's checkpoint, device-plugins/kubelet_internal_checkpoint: the file in which kubelet
// records which devices it allocated to which container. kubelet writes it before a container
// starts.
//
// The checkpoint has advantages over the podresources API. It contains pod UIDs and init
// containers. It is available even if kubelet has no podresources Get. It can be read during the
// first second after kubelet's start.
//
// The format is internal to kubelet, but it has not changed since 1.20. A file that cannot be read
// is treated as missing, and no part of the agent relies on the file alone. Entries of pods that
// have ended stay until kubelet writes the file again.
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
  std::string response{};        // the plugin's response to Allocate, a protobuf message in base64

  // Decodes `response`, which the container keeps for the life of its pod. Fails if it is invalid.
  [[nodiscard]] Result<ContainerResponse> decode_response() const;

  friend bool operator==(const CheckpointEntry&, const CheckpointEntry&) = default;
};

struct Checkpoint {
  static constexpr const char* kFile = "kubelet_internal_checkpoint";
  static constexpr std::size_t kMaxBytes = 64U << 20U;

  std::vector<CheckpointEntry> entries;
  // Resource -> the IDs that its plugin listed. Includes resources whose plugin is gone.
  std::map<std::string, std::vector<std::string>> registered;

  static Result<Checkpoint> parse(std::string_view json);
  // Fails with kNotFound until kubelet has allocated a device for the first time.
  static Result<Checkpoint> read(const std::string& plugin_dir);

  // Returns the containers that have exactly these sorted IDs of a resource. There can be several:
  // containers of a pod that use the IDs in turn, and containers of pods that have ended.
  [[nodiscard]] std::vector<const CheckpointEntry*> holders(const std::string& resource,
                                                            const std::vector<std::string>& ids) const;
  // Returns the entry of a container for a resource; null if there is none.
  [[nodiscard]] const CheckpointEntry* find(const std::string& pod_uid, const std::string& container,
                                            const std::string& resource) const;
};

// Reads the current checkpoint. Called on the event loop's thread.
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
