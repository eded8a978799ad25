#include "agent/gpu_plugins.h"

#include <fmt/core.h>

#include <algorithm>

#include "base/log.h"

namespace tessera::agent {

struct GpuPlugins::Plugin {
  Plugin(http::EventLoop& loop, GpuAllocator& allocator, alloc::GpuResource which,
         DevicePluginOptions options)
      : name(options.resource),
        resource(which),
        kind(loop, allocator, which),
        plugin(std::move(options), kind) {}

  std::string name;
  alloc::GpuResource resource;
  std::size_t devices = 0;
  std::size_t healthy = 0;
  std::string problem;
  GpuKind kind;
  DevicePlugin plugin;  // last: it asks the kind
};

GpuPlugins::GpuPlugins(http::EventLoop& loop, GpuAllocator& allocator, const alloc::ResourceNames& names,
                       DevicePluginOptions options)
    : loop_(loop),
      allocator_(allocator),
      options_(std::move(options)),
      wanted_({{alloc::GpuResource::kMemory, names.memory()},
               {alloc::GpuResource::kWhole, names.whole()},
               {alloc::GpuResource::kCount, names.count()}}) {}

GpuPlugins::~GpuPlugins() = default;

void GpuPlugins::publish() {
  GpuLists lists = allocator_.lists();
  if (published_ == lists) {
    return;
  }
  const std::lock_guard lock(mutex_);
  if (left_) {
    return;
  }
  if (plugins_.empty()) {
    for (const auto& [resource, name] : wanted_) {
      DevicePluginOptions options = options_;
      options.resource = name;
      plugins_.push_back(std::make_unique<Plugin>(loop_, allocator_, resource, std::move(options)));
    }
  }
  for (const auto& plugin : plugins_) {
    const auto& list = plugin->resource == alloc::GpuResource::kMemory ? lists.shares : lists.whole;
    const Status sent = plugin->plugin.set_devices(list);
    plugin->problem = sent ? "" : sent.error().text();
    if (sent) {
      plugin->devices = list.size();
      plugin->healthy = static_cast<std::size_t>(
          std::ranges::count_if(list, [](const Device& one) { return one.healthy; }));
      log::info("devices",
                {{"resource", plugin->name}, {"all", plugin->devices}, {"healthy", plugin->healthy}});
    } else {
      log::error("kubelet cannot be told the devices", {{"resource", plugin->name}, {"why", sent.error()}});
    }
  }
  published_ = std::move(lists);
}

void GpuPlugins::leave() {
  std::vector<std::unique_ptr<Plugin>> leaving;
  {
    const std::lock_guard lock(mutex_);
    left_ = true;
    leaving = std::move(plugins_);
    plugins_.clear();
  }
  leaving.clear();
}

std::vector<GpuPlugins::Resource> GpuPlugins::resources() const {
  const std::lock_guard lock(mutex_);
  std::vector<Resource> all;
  for (const auto& plugin : plugins_) {
    all.push_back({.name = plugin->name,
                   .status = plugin->plugin.status(),
                   .devices = plugin->devices,
                   .healthy = plugin->healthy,
                   .problem = plugin->problem});
  }
  return all;
}

std::string GpuPlugins::not_ready() const {
  const std::vector<Resource> all = resources();
  if (all.empty()) {
    return "no GPU has been found yet";
  }
  for (const Resource& resource : all) {
    if (!resource.problem.empty()) {
      return fmt::format("{}: {}", resource.name, resource.problem);
    }
    if (!resource.status.registered) {
      return fmt::format(
          "{}: {}", resource.name,
          resource.status.problem.empty() ? "kubelet does not watch its list yet" : resource.status.problem);
    }
  }
  return "";
}

}  // namespace tessera::agent
