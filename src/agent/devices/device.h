// agent/devices/device.h
//
// Devices as kubelet counts them, and the changes to a container that give it access to devices.
// Plain values.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace tessera::agent {

// One schedulable unit of a resource: a whole device or one unit of a shared device.
struct Device {
  std::string id;  // short, stable for the life of the device
  bool healthy = true;
  std::vector<std::int64_t> numa{};  // NUMA nodes near the device; empty: unknown

  friend bool operator==(const Device&, const Device&) = default;
};

// The devices of one resource.
struct ResourceList {
  std::string resource;  // "aliyun.com/gpu-mem"
  std::vector<Device> devices;
  // True if `devices` has IDs of devices that are gone. Such IDs stay while containers hold them.
  bool has_vanished = false;

  friend bool operator==(const ResourceList&, const ResourceList&) = default;
};

struct MountPoint {
  std::string container_path;
  std::string host_path;
  bool read_only = true;
};

struct DeviceNode {
  std::string container_path;
  std::string host_path;
  std::string permissions = "rw";
};

using Env = std::map<std::string, std::string>;

// The changes to a container that give it access to its devices. A DeliveryStrategy applies them.
struct Edits {
  Env env{};
  std::vector<MountPoint> mounts{};
  std::vector<DeviceNode> nodes{};
  // The paths in `nodes` and `mounts` that may change when the driver is updated or the machine
  // reboots, as text. If this text differs between admission and a start, the container has
  // outdated paths. Empty: no path can change.
  std::string fixed{};
};

// The response to Allocate for one container (kubelet's ContainerAllocateResponse).
struct ContainerResponse {
  Env env{};
  std::vector<MountPoint> mounts{};
  std::vector<DeviceNode> nodes{};
  std::map<std::string, std::string> annotations{};
  std::vector<std::string> cdi_devices{};  // qualified names, such as "tessera.io/gpu=..."
};

}  // namespace tessera::agent
