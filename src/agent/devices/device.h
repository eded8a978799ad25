// agent/devices/device.h
//
// A device as kubelet counts it, and what a container gets so that it can use one. Values.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace tessera::agent {

// One schedulable unit, as kubelet counts it: a whole device or a share of one.
struct Device {
  std::string id;  // short, stable for the life of the device
  bool healthy = true;
  std::vector<std::int64_t> numa{};  // NUMA nodes it is near; empty: not known

  friend bool operator==(const Device&, const Device&) = default;
};

// The devices of one resource.
struct ResourceList {
  std::string resource;  // "aliyun.com/gpu-mem"
  std::vector<Device> devices;
  bool has_vanished = false;  // includes IDs of devices that are gone, listed while a container holds them

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

// The changes to a container that let it reach its devices. A DeliveryStrategy applies them.
struct Edits {
  Env env{};
  std::vector<MountPoint> mounts{};
  std::vector<DeviceNode> nodes{};
  // The paths that must still belong to the same devices when the container starts, as text; empty:
  // none.
  std::string fixed{};
};

// kubelet's ContainerAllocateResponse: what Allocate returns for one container.
struct ContainerResponse {
  Env env{};
  std::vector<MountPoint> mounts{};
  std::vector<DeviceNode> nodes{};
  std::map<std::string, std::string> annotations{};
  std::vector<std::string> cdi_devices{};  // qualified names
};

}  // namespace tessera::agent
