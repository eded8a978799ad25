// A minimal kind of device: the device files thing0, thing1, ... of a directory, each allocated as
// a whole as example.com/thing, and gadget0, gadget1, ... as example.com/gadget. A file that is
// gone is unhealthy until it is back. The resource example.com/gadget exists only while there is a
// gadget.
#pragma once

#include <fmt/core.h>

#include <map>
#include <string>
#include <vector>

#include "agent/devices/device_kind.h"
#include "agent/devices/host_root.h"

namespace tessera::agent {

class FilesKind : public DeviceKind {
 public:
  static constexpr const char* kResource = "example.com/thing";
  static constexpr const char* kGadget = "example.com/gadget";

  // `dev` as the agent sees it; the host knows it as /dev.
  explicit FilesKind(const std::string& dev)
      : DeviceKind({.one = "thing",
                    .many = "things",
                    .unhealthy = "ThingUnhealthy",
                    .healthy = "ThingHealthy",
                    .gone = "ThingGone",
                    .appeared = "ThingAppeared",
                    .mismatch = "ThingAllocationMismatch",
                    .setup_failed = "ThingSetupFailed",
                    .condition = "ThingsHealthy",
                    .all_healthy = "AllThingsHealthy",
                    .some_unhealthy = "ThingUnhealthy",
                    .no_devices = "NoThings"},
                   {kResource}),
        dev_{.host = "/dev", .here = dev} {
    look();
  }

  // Finds the current devices.
  void look() {
    for (auto& [name, unhealthy] : things_) {
      unhealthy = fmt::format("/dev/{} is gone; plug it in again", name);
    }
    gadgets_.clear();
    for (const std::string& name : dev_.list("/")) {
      if (name.starts_with("thing")) {
        things_[name].clear();
      } else if (name.starts_with("gadget")) {
        gadgets_.push_back(name);
      }
    }
    set_resources(gadgets_.empty() ? std::vector<std::string>{kResource}
                                   : std::vector<std::string>{kResource, kGadget});
  }

  [[nodiscard]] std::vector<ResourceList> lists() override {
    ResourceList things{.resource = kResource, .devices = {}};
    for (const auto& [name, unhealthy] : things_) {
      things.devices.push_back({.id = name, .healthy = unhealthy.empty(), .numa = {name.back() - '0'}});
    }
    ResourceList gadgets{.resource = kGadget, .devices = {}};
    for (const std::string& name : gadgets_) {
      gadgets.devices.push_back({.id = name});
    }
    return gadgets_.empty() ? std::vector{things} : std::vector{things, gadgets};
  }
  [[nodiscard]] std::vector<NodeDevice> devices() const override {
    std::vector<NodeDevice> all;
    for (const auto& [name, unhealthy] : things_) {
      all.push_back({.id = name, .name = name, .description = name, .unhealthy = unhealthy});
    }
    return all;
  }
  [[nodiscard]] std::optional<std::string> device_of(const std::string& id) const override {
    return id.starts_with("thing") || id.starts_with("gadget") ? std::optional(id) : std::nullopt;
  }

  // kubelet alone decides.
  [[nodiscard]] Decision decide(const NodePod& /*pod*/, const std::string& /*container*/,
                                const IdsByResource& ids) const override {
    Decided decided;
    for (const char* resource : {kResource, kGadget}) {
      const auto found = ids.find(resource);
      for (const std::string& id : found == ids.end() ? std::vector<std::string>() : found->second) {
        decided.shares.push_back({.device = id, .whole = true});
      }
    }
    return decided;
  }
  Result<Edits> edits(const std::vector<DeviceShare>& shares) override {
    Edits edits;
    for (const DeviceShare& share : shares) {
      const std::string path = "/" + share.device;
      if (!dev_.real_path(path)) {
        return fail(ErrorCode::kNotFound, dev_.on_host(path) + " does not exist");
      }
      edits.nodes.push_back({.container_path = "/dev" + path, .host_path = dev_.on_host(path)});
    }
    return edits;
  }

 private:
  const HostRoot dev_;
  std::map<std::string, std::string> things_;  // by name: why it must not be used
  std::vector<std::string> gadgets_;
};

}  // namespace tessera::agent
