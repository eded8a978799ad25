// agent/devices/device.h
//
// A device as kubelet counts it, and what a container gets so that it can use one.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace tessera::agent {

// One schedulable piece, as kubelet counts it: a whole device or a share of one.
struct Device {
  std::string id;  // short, stable for the life of the device
  bool healthy = true;
  std::vector<std::int64_t> numa{};  // NUMA nodes it is near; empty: not told

  friend bool operator==(const Device&, const Device&) = default;
};

// All of one resource.
struct ResourceList {
  std::string resource;  // "aliyun.com/gpu-mem"
  std::vector<Device> devices;
  bool has_vanished = false;  // some are of devices that have gone, listed for as long as they are held

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

// What is changed in a container so that it reaches its devices, by whatever means (grant_strategy.h).
struct Edits {
  Env env{};
  std::vector<MountPoint> mounts{};
  std::vector<DeviceNode> nodes{};
  // What of this must still be true when the container starts, in words: paths that could be another device's
  // by then. Empty: nothing.
  std::string fixed{};
};

// What kubelet is handed for a container.
struct Grant {
  Env env{};
  std::vector<MountPoint> mounts{};
  std::vector<DeviceNode> nodes{};
  std::map<std::string, std::string> annotations{};
  std::vector<std::string> cdi_devices{};  // qualified names
};

}  // namespace tessera::agent
