#include "agent/devices/plugins.h"

#include <fmt/core.h>

#include <algorithm>
#include <iterator>
#include <set>
#include <string_view>
#include <utility>

#include "agent/devices/plugin_server.h"
#include "agent/devices/readings.h"
#include "base/log.h"

namespace tessera::agent {

namespace {

// How long the first list waits for the pods of the node. kubelet calls as soon as it knows a
// resource, and the agent needs the pods to find the container of a call; without them, kubelet
// takes IDs of any device and keeps them. The wait is short because kubelet rejects pods for good
// until it knows the resource.
constexpr std::chrono::milliseconds kPodsWithin{350};

// Returns the devices of `list` that kubelet already knows.
std::vector<Device> known_devices(const std::vector<Device>& list, const std::vector<Device>& known) {
  std::set<std::string_view> ids;
  for (const Device& device : known) {
    ids.insert(device.id);
  }
  std::vector<Device> both;
  std::ranges::copy_if(list, std::back_inserter(both),
                       [&](const Device& device) { return ids.contains(device.id); });
  return both;
}

bool is_ok(const std::vector<std::string>& /*preferred*/) {
  return true;
}
template <class T>
bool is_ok(const Result<T>& answer) {
  return answer.has_value();
}

}  // namespace

std::vector<ResourceList> lists_with_held(DeviceKind& kind, const Allocations& allocations) {
  std::vector<ResourceList> lists = kind.lists();
  for (ResourceList& list : lists) {
    std::vector<std::string> held;
    for (const Allocations::HeldId& id : allocations.held_ids(list.resource)) {
      if (kind.device_of(*id.id)) {
        held.push_back(*id.id);
      }
    }
    list.has_vanished = add_unlisted(held, list.devices) || list.has_vanished;
  }
  return lists;
}

// One resource. Passes kubelet's calls from gRPC threads to the loop, and sends kubelet the list.
class Plugins::ResourcePlugin final : private KubeletAnswers {
 public:
  ResourcePlugin(Plugins& plugins, std::string resource) : plugins_(plugins), name_(std::move(resource)) {}

  // Sends the list, or registers with it. Returns a message to report if kubelet does not get the
  // list for a new reason; else "".
  std::string offer(const std::vector<Device>& list);
  [[nodiscard]] Resource state() const;
  [[nodiscard]] const std::string& name() const { return name_; }

 private:
  void prefer(Preference preference, Done<std::vector<std::string>> done) override {
    plugins_.context_.node.loop.post(
        [this, preference = std::move(preference), done = timed("prefer", std::move(done))]() mutable {
          plugins_.admission_.prefer(name_, std::move(preference), std::move(done));
        });
  }
  void allocate(std::vector<std::string> ids, Done<Result<ContainerResponse>> done) override {
    plugins_.context_.node.loop.post(
        [this, ids = std::move(ids), done = timed("allocate", std::move(done))]() mutable {
          plugins_.admission_.allocate(name_, std::move(ids), std::move(done));
        });
  }
  void pre_start(std::vector<std::string> ids, Done<Status> done) override {
    plugins_.context_.node.loop.post(
        [this, ids = std::move(ids), done = timed("pre_start", std::move(done))]() mutable {
          plugins_.start_gate_.pre_start(name_, std::move(ids), std::move(done));
        });
  }

  // Wraps `done` so that the call is counted when it is answered.
  template <class Answer>
  Done<Answer> timed(const char* call, Done<Answer> done) const {
    Metrics* metrics = plugins_.options_.metrics;
    if (metrics == nullptr) {
      return done;
    }
    return [metrics, call, resource = name_, began = Clock::real().now(),
            done = std::move(done)](Answer answer) {
      metrics->count_kubelet_call(call, resource, is_ok(answer), Clock::real().now() - began);
      done(std::move(answer));
    };
  }

  void sent(const std::vector<Device>& list) {
    devices_ = list.size();
    healthy_ = static_cast<std::size_t>(std::ranges::count_if(list, &Device::healthy));
    log::info("device list changed", {{"resource", name_}, {"devices", devices_}, {"healthy", healthy_}});
  }

  Plugins& plugins_;
  const std::string name_;
  std::size_t devices_ = 0;  // in the list that kubelet has
  std::size_t healthy_ = 0;
  std::string problem_;
  std::optional<DevicePlugin> plugin_;  // created with the first list that fits; last: it calls the above
};

std::string Plugins::ResourcePlugin::offer(const std::vector<Device>& list) {
  const Result<std::size_t> fits = check_list_size(list);
  const std::string before = std::exchange(problem_, fits ? "" : fits.error().text());
  if (plugin_) {
    const std::vector<Device> offered = fits ? list : known_devices(list, plugin_->devices());
    if (const Status set = plugin_->set_devices(offered)) {
      sent(offered);
    } else {
      problem_ = set.error().text();
    }
  } else if (fits) {
    DevicePluginOptions options = plugins_.options_.plugin;
    options.resource = name_;
    KubeletAnswers& answers = *this;
    plugin_.emplace(std::move(options), answers, list);
    sent(list);
  }
  if (problem_.empty() || problem_ == before) {
    return "";
  }
  log::error("device list not sent", {{"resource", name_}, {"error", problem_}});
  return plugin_ ? fmt::format("only the {} devices of {} that kubelet already knew are offered: {}",
                               devices_, name_, problem_)
                 : fmt::format("{} is not offered: {}", name_, problem_);
}

Plugins::Resource Plugins::ResourcePlugin::state() const {
  return {.name = name_,
          .status = plugin_ ? plugin_->status() : DevicePluginStatus{},
          .devices = devices_,
          .healthy = healthy_,
          .problem = problem_};
}

Plugins::Plugins(const KindContext& context, PluginsOptions options)
    : context_(context),
      options_(std::move(options)),
      recovery_(context),
      admission_(context, recovery_),
      start_gate_(context, recovery_) {
  context_.store.add_listener(*this);
}

Plugins::~Plugins() {
  context_.store.remove_listener(*this);
}

void Plugins::start() {
  pods_wait_ = context_.node.loop.after(kPodsWithin, [this] {
    if (devices_known_) {
      publish();
    }
  });
}

void Plugins::publish() {
  const bool pods_known = context_.node.pods.is_synced();
  if (!std::exchange(devices_known_, true) && pods_known) {
    recover();
  }
  if (pods_known || !pods_wait_.pending()) {
    send_lists();
  }
}

void Plugins::pods_synced() {
  if (devices_known_) {
    recover();
    publish();
  }
}

void Plugins::recover() {
  recovery_.recover();
  admission_.lookup().retry_waiting();
}

// The IDs of a missing device are listed only while a container holds them.
void Plugins::allocations_changed() {
  if (published_ && std::ranges::any_of(*published_, &ResourceList::has_vanished)) {
    publish();
  }
}

void Plugins::send_lists() {
  std::vector<ResourceList> lists = lists_with_held(context_.kind, context_.allocations());
  if (published_ == lists) {
    return;
  }
  std::vector<std::string> news;
  {
    const std::lock_guard lock(mutex_);
    if (left_) {
      return;
    }
    const auto gone = std::stable_partition(plugins_.begin(), plugins_.end(), [&](const auto& plugin) {
      return std::ranges::find(lists, plugin->name(), &ResourceList::resource) != lists.end();
    });
    std::for_each(gone, plugins_.end(), [this](auto& plugin) { retire(std::move(plugin)); });
    plugins_.erase(gone, plugins_.end());
    for (const ResourceList& list : lists) {
      news.push_back(plugin_of(list.resource).offer(list.devices));
    }
  }
  published_ = std::move(lists);
  for (const std::string& what : news) {
    if (!what.empty()) {
      context_.node.events.record(
          kube::EventNote::about_node(context_.node.node).as_warning("DeviceListTooLong", what));
    }
  }
}

// Returns the plugin of a resource; creates it for a new resource.
Plugins::ResourcePlugin& Plugins::plugin_of(const std::string& resource) {
  const auto found =
      std::ranges::find_if(plugins_, [&](const auto& plugin) { return plugin->name() == resource; });
  if (found != plugins_.end()) {
    return **found;
  }
  context_.node.pods.add_resource(resource);
  return *plugins_.emplace_back(std::make_unique<ResourcePlugin>(*this, resource));
}

// Unregisters a resource. Destroys the plugin on another thread, because the destructor waits until
// all calls are answered, and this thread answers them.
void Plugins::retire(std::unique_ptr<ResourcePlugin> plugin) {
  log::info("resource unregistered", {{"resource", plugin->name()}});
  std::erase_if(retiring_, [](const std::future<void>& done) {
    return done.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
  });
  retiring_.push_back(
      std::async(std::launch::async, [retired = std::move(plugin)]() mutable { retired.reset(); }));
}

void Plugins::leave() {
  std::vector<std::unique_ptr<ResourcePlugin>> leaving;
  std::vector<std::future<void>> retiring;
  {
    const std::lock_guard lock(mutex_);
    left_ = true;
    leaving = std::exchange(plugins_, {});
    retiring = std::exchange(retiring_, {});
  }
  leaving.clear();
  retiring.clear();  // waits until these plugins have ended
}

std::vector<Plugins::Resource> Plugins::resources() const {
  const std::lock_guard lock(mutex_);
  std::vector<Resource> all;
  for (const auto& plugin : plugins_) {
    all.push_back(plugin->state());
  }
  return all;
}

std::string Plugins::not_ready() const {
  const std::vector<Resource> all = resources();
  if (all.empty() && !(published_ && published_->empty())) {
    return fmt::format("no {} found yet", context_.kind.info().one);
  }
  for (const Resource& resource : all) {
    if (!resource.problem.empty()) {
      return fmt::format("{}: {}", resource.name, resource.problem);
    }
    if (!resource.status.registered) {
      return fmt::format("{}: {}", resource.name,
                         resource.status.problem.empty() ? "kubelet has not opened the device list yet"
                                                         : resource.status.problem);
    }
  }
  return "";
}

bool Plugins::alone() const {
  return std::ranges::all_of(resources(), [](const Resource& resource) { return resource.status.alone; });
}

void Plugins::add_readings(Readings& readings) const {
  readings.add_resources(resources());
  readings.add_admissions(admission_.counts(), admission_.lookup().counts());
  readings.add_starts(start_gate_.counts());
}

}  // namespace tessera::agent
