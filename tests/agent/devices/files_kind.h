// A kind of device as small as can be: device files thing0, thing1, ... of a directory, each given whole as
// example.com/thing. A file that was there and is gone is ill until it comes back.
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

  // `dev` as we see it; the host knows it as /dev.
  explicit FilesKind(const std::string& dev) : dev_{.host = "/dev", .here = dev} { look(); }

  // What is there now.
  void look() {
    for (auto& [name, unhealthy] : things_) {
      unhealthy = fmt::format("/dev/{} is gone; plug it in again", name);
    }
    for (const std::string& name : dev_.list("/")) {
      if (name.starts_with("thing")) {
        things_[name].clear();
      }
    }
  }

  [[nodiscard]] const KindWords& words() const override {
    static const KindWords words{.one = "thing",
                                 .many = "things",
                                 .unhealthy = "ThingUnhealthy",
                                 .healthy = "ThingHealthy",
                                 .gone = "ThingGone",
                                 .appeared = "ThingAppeared",
                                 .given_otherwise = "ThingGivenOtherwise",
                                 .not_prepared = "ThingNotPrepared",
                                 .condition = "ThingsHealthy",
                                 .all_healthy = "AllThingsHealthy",
                                 .some_unhealthy = "ThingUnhealthy",
                                 .none_there = "NoThings"};
    return words;
  }
  [[nodiscard]] std::vector<std::string> resources() const override { return {kResource}; }

  [[nodiscard]] std::vector<ResourceList> lists() override {
    ResourceList list{.resource = kResource, .devices = {}};
    for (const auto& [name, unhealthy] : things_) {
      list.devices.push_back({.id = name, .healthy = unhealthy.empty(), .numa = {name.back() - '0'}});
    }
    return {list};
  }
  [[nodiscard]] std::vector<NodeDevice> devices() const override {
    std::vector<NodeDevice> all;
    for (const auto& [name, unhealthy] : things_) {
      all.push_back({.id = name, .name = name, .description = name, .unhealthy = unhealthy});
    }
    return all;
  }
  [[nodiscard]] std::optional<std::string> device_of(const std::string& id) const override { return id; }
  [[nodiscard]] bool is_ours(const std::string& id) const override { return id.starts_with("thing"); }

  // Nobody decides but kubelet.
  [[nodiscard]] Decision decide(const NodePod& /*pod*/, const std::string& /*container*/,
                                const IdsByResource& ids) const override {
    Decided decided;
    for (const std::string& id : ids.at(kResource)) {
      decided.shares.push_back({.device = id, .whole = true});
    }
    return decided;
  }
  Result<Edits> edits(const std::vector<Share>& shares) override {
    Edits edits;
    for (const Share& share : shares) {
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
};

}  // namespace tessera::agent
