// agent/device_kind.h
//
// What is special to one kind of device, as kubelet's device-plugin API asks for it. Everything else about
// kubelet (registration, sockets, streams) is the same for all kinds and stands in device_plugin.h.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "base/result.h"

namespace tessera::agent {

// One schedulable piece, as kubelet counts it: a whole device or a share of one.
struct Device {
  std::string id;  // short, stable for the life of the device
  bool healthy = true;
  std::vector<std::int64_t> numa{};  // NUMA nodes it is near; empty: not told

  friend bool operator==(const Device&, const Device&) = default;
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

// What a container gets.
struct Grant {
  std::map<std::string, std::string> env;
  std::vector<MountPoint> mounts{};
  std::vector<DeviceNode> nodes{};
  std::map<std::string, std::string> annotations{};
  std::vector<std::string> cdi_devices{};  // qualified names
};

struct Preference {
  std::vector<std::string> available;
  std::vector<std::string> must_include;
  std::size_t size = 0;  // with must_include
};

// The three questions. They come on threads of gRPC: hand them to the thread that knows, and call `done` from
// there, once, at any time, from any thread. kubelet asks prefer() and allocate() one at a time and stands
// still meanwhile; pre_start() comes for many containers at once and is given up by kubelet after 30 s.
class DeviceKind {
 public:
  virtual ~DeviceKind() = default;

  // Which of the available IDs kubelet should take. A hint: kubelet ignores what it does not like.
  virtual void prefer(Preference preference, std::function<void(std::vector<std::string>)> done) = 0;

  // What the container with these IDs gets. An error is final for the pod.
  virtual void allocate(std::vector<std::string> ids, std::function<void(Result<Grant>)> done) = 0;

  // A container with these IDs is about to start. An error is shown to the user, and kubelet asks again.
  virtual void pre_start(std::vector<std::string> ids, std::function<void(Status)> done) = 0;
};

}  // namespace tessera::agent
