#include "agent/devices/plugins.h"

#include <fmt/core.h>

#include <algorithm>
#include <iterator>
#include <set>
#include <string_view>
#include <utility>

#include "agent/devices/plugin_server.h"
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

// Of a list that is too long, what kubelet knows already.
std::vector<Device> known_of(const std::vector<Device>& list, const std::vector<Device>& known) {
  std::set<std::string_view> ids;
  for (const Device& device : known) {
    ids.insert(device.id);
  }
  std::vector<Device> both;
  std::ranges::copy_if(list, std::back_inserter(both),
                       [&](const Device& device) { return ids.contains(device.id); });
  return both;
}

}  // namespace

struct Plugins::Plugin {
  Plugin(http::EventLoop& loop, Allocator& allocator, std::string resource)
      : name(std::move(resource)), answers(loop, allocator, name) {}

  void told(const std::vector<Device>& list) {
    devices = list.size();
    healthy = static_cast<std::size_t>(std::ranges::count_if(list, &Device::healthy));
    log::info("devices", {{"resource", name}, {"all", devices}, {"healthy", healthy}});
  }

  std::string name;
  std::size_t devices = 0;  // that kubelet was told of
  std::size_t healthy = 0;
  std::string problem;
  AnswersOnLoop answers;
  std::optional<DevicePlugin> plugin;  // there with the first list that fits; last: it asks
};

Plugins::Plugins(http::EventLoop& loop, Allocator& allocator, std::string one, DevicePluginOptions options)
    : loop_(loop), allocator_(allocator), one_(std::move(one)), options_(std::move(options)) {}

Plugins::~Plugins() = default;

void Plugins::publish() {
  std::vector<ResourceList> lists = allocator_.lists();
  if (published_ == lists) {
    return;
  }
  std::vector<std::string> news;
  {
    const std::lock_guard lock(mutex_);
    if (left_) {
      return;
    }
    if (plugins_.empty()) {
      for (const ResourceList& list : lists) {
        plugins_.push_back(std::make_unique<Plugin>(loop_, allocator_, list.resource));
      }
    }
    for (std::size_t i = 0; i < plugins_.size(); ++i) {
      news.push_back(offer(*plugins_[i], lists[i].devices));
    }
  }
  published_ = std::move(lists);
  for (const std::string& what : news) {
    if (!what.empty() && options_.on_too_long) {
      options_.on_too_long(what);
    }
  }
}

std::string Plugins::offer(Plugin& plugin, const std::vector<Device>& list) {
  const Result<std::size_t> fits = check_list_size(list);
  const std::string before = std::exchange(plugin.problem, fits ? "" : fits.error().text());
  if (plugin.plugin) {
    const std::vector<Device> offered = fits ? list : known_of(list, plugin.plugin->devices());
    const Status sent = plugin.plugin->set_devices(offered);
    if (sent) {
      plugin.told(offered);
    } else {
      plugin.problem = sent.error().text();
    }
  } else if (fits) {
    DevicePluginOptions options = options_;
    options.resource = plugin.name;
    plugin.plugin.emplace(std::move(options), plugin.answers, list);
    plugin.told(list);
  }
  if (plugin.problem.empty() || plugin.problem == before) {
    return "";
  }
  log::error("kubelet cannot be told the devices", {{"resource", plugin.name}, {"why", plugin.problem}});
  return plugin.plugin ? fmt::format("of {} only the {} devices that kubelet knew before are offered: {}",
                                     plugin.name, plugin.devices, plugin.problem)
                       : fmt::format("{} is not offered: {}", plugin.name, plugin.problem);
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
                   .status = plugin->plugin ? plugin->plugin->status() : DevicePluginStatus{},
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
