#include "agent/devices/checkpoint.h"

#include <algorithm>

#include "base/file.h"
#include "base/json_reader.h"
#include "kube/base64.h"
#include "proto/deviceplugin_v1beta1.pb.h"

namespace tessera::agent {

namespace {

constexpr std::size_t kMaxEntries = 100'000;
constexpr std::size_t kMaxIds = 1'000'000;

Status add_ids(const JsonReader& list, std::vector<std::string>& ids) {
  for (const JsonReader& id : TRY(list.as_array(kMaxIds))) {
    ids.push_back(TRY(id.as_text()));
  }
  return {};
}

// Returns the sorted IDs in {"0": ["id", ...], "-1": [...]}, where the keys are NUMA nodes.
Result<std::vector<std::string>> ids_by_numa(const JsonReader& json) {
  std::vector<std::string> ids;
  for (const auto& [node, list] : TRY(json.as_object(4096))) {
    TRY(add_ids(list, ids));
  }
  std::ranges::sort(ids);
  return ids;
}

}  // namespace

Result<Checkpoint> Checkpoint::parse(std::string_view json) {
  const boost::json::value document = TRY(parse_json(json, kMaxBytes));
  const JsonReader root(document, kFile);
  const JsonReader data = TRY(root.object("Data"));
  Checkpoint checkpoint;
  if (data.has("PodDeviceEntries")) {
    for (const JsonReader& entry : TRY(data.array("PodDeviceEntries", kMaxEntries))) {
      const JsonReader ids = TRY(entry.object("DeviceIDs"));
      checkpoint.entries.push_back({.pod_uid = TRY(entry.text("PodUID")),
                                    .container = TRY(entry.text("ContainerName")),
                                    .resource = TRY(entry.text("ResourceName")),
                                    .ids = TRY(ids_by_numa(ids)),
                                    .response = entry.has("AllocResp") ? TRY(entry.text("AllocResp")) : ""});
    }
  }
  if (data.has("RegisteredDevices")) {
    const JsonReader registered = TRY(data.object("RegisteredDevices"));
    for (const auto& [resource, ids] : TRY(registered.as_object(1000))) {
      TRY(add_ids(ids, checkpoint.registered[resource]));
    }
  }
  return checkpoint;
}

Result<Checkpoint> Checkpoint::read(const std::string& plugin_dir) {
  const std::string path = plugin_dir + "/" + kFile;
  const std::string text = TRY(read_file(path, kMaxBytes));
  return with_context(parse(text), path);
}

Result<ContainerResponse> CheckpointEntry::decode_response() const {
  v1beta1::ContainerAllocateResponse message;
  if (response.empty() || !message.ParseFromString(TRY(kube::decode_base64(response)))) {
    return fail(ErrorCode::kInvalid, "kubelet's checkpoint has no valid AllocResp for container " +
                                         container + " of the pod with UID " + pod_uid);
  }
  ContainerResponse decoded;
  decoded.env = {message.envs().begin(), message.envs().end()};
  decoded.annotations = {message.annotations().begin(), message.annotations().end()};
  for (const v1beta1::Mount& mount : message.mounts()) {
    decoded.mounts.push_back({.container_path = mount.container_path(),
                              .host_path = mount.host_path(),
                              .read_only = mount.read_only()});
  }
  for (const v1beta1::DeviceSpec& node : message.devices()) {
    decoded.nodes.push_back({.container_path = node.container_path(),
                             .host_path = node.host_path(),
                             .permissions = node.permissions()});
  }
  for (const v1beta1::CDIDevice& device : message.cdi_devices()) {
    decoded.cdi_devices.push_back(device.name());
  }
  return decoded;
}

const CheckpointEntry* Checkpoint::find(const std::string& pod_uid, const std::string& container,
                                        const std::string& resource) const {
  const auto found = std::ranges::find_if(entries, [&](const CheckpointEntry& entry) {
    return entry.pod_uid == pod_uid && entry.container == container && entry.resource == resource;
  });
  return found == entries.end() ? nullptr : &*found;
}

std::vector<const CheckpointEntry*> Checkpoint::holders(const std::string& resource,
                                                        const std::vector<std::string>& ids) const {
  std::vector<const CheckpointEntry*> found;
  for (const CheckpointEntry& entry : entries) {
    if (entry.resource == resource && entry.ids == ids) {
      found.push_back(&entry);
    }
  }
  return found;
}

}  // namespace tessera::agent
