#include "agent/devices/plugins.h"

#include <fmt/core.h>

#include <algorithm>

#include "base/log.h"

namespace tessera::agent {

namespace {

// What kubelet asks on threads of gRPC, handed to the loop.
class AnswersOnLoop final : public KubeletAnswers {
 public:
  AnswersOnLoop(http::EventLoop& loop, Allocator& allocator, std::string resource)
      : loop_(loop), allocator_(allocator), resource_(std::move(resource)) {}

  void prefer(Preference preference, std::function<void(std::vector<std::string>)> done) override {
    loop_.post([this, preference = std::move(preference), done = std::move(done)]() mutable {
      allocator_.prefer(resource_, std::move(preference), std::move(done));
    });
  }
  void allocate(std::vector<std::string> ids, std::function<void(Result<Grant>)> done) override {
    loop_.post([this, ids = std::move(ids), done = std::move(done)]() mutable {
      allocator_.allocate(resource_, std::move(ids), std::move(done));
    });
  }
  void pre_start(std::vector<std::string> ids, std::function<void(Status)> done) override {
    loop_.post([this, ids = std::move(ids), done = std::move(done)]() mutable {
      allocator_.pre_start(resource_, std::move(ids), std::move(done));
    });
  }

 private:
  http::EventLoop& loop_;
  Allocator& allocator_;
  const std::string resource_;
};

}  // namespace

struct Plugins::Plugin {
  Plugin(http::EventLoop& loop, Allocator& allocator, DevicePluginOptions options)
      : name(options.resource), answers(loop, allocator, name), plugin(std::move(options), answers) {}

  std::string name;
  std::size_t devices = 0;
  std::size_t healthy = 0;
  std::string problem;
  AnswersOnLoop answers;
  DevicePlugin plugin;  // last: it asks
};

Plugins::Plugins(http::EventLoop& loop, Allocator& allocator, std::string one, DevicePluginOptions options)
    : loop_(loop), allocator_(allocator), one_(std::move(one)), options_(std::move(options)) {}

Plugins::~Plugins() = default;

void Plugins::publish() {
  std::vector<ResourceList> lists = allocator_.lists();
  if (published_ == lists) {
    return;
  }
  const std::lock_guard lock(mutex_);
  if (left_) {
    return;
  }
  if (plugins_.empty()) {
    for (const ResourceList& list : lists) {
      DevicePluginOptions options = options_;
      options.resource = list.resource;
      plugins_.push_back(std::make_unique<Plugin>(loop_, allocator_, std::move(options)));
    }
  }
  for (std::size_t i = 0; i < plugins_.size(); ++i) {
    const auto& plugin = plugins_[i];
    const std::vector<Device>& list = lists[i].devices;
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

bool Plugins::lists_vanished() const {
  return published_ && std::ranges::any_of(*published_, &ResourceList::has_vanished);
}

void Plugins::leave() {
  std::vector<std::unique_ptr<Plugin>> leaving;
  {
    const std::lock_guard lock(mutex_);
    left_ = true;
    leaving = std::move(plugins_);
    plugins_.clear();
  }
  leaving.clear();
}

std::vector<Plugins::Resource> Plugins::resources() const {
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

std::string Plugins::not_ready() const {
  const std::vector<Resource> all = resources();
  if (all.empty()) {
    return fmt::format("no {} has been found yet", one_);
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
