#include "agent/devices/device_plugin.h"

#include <fmt/core.h>
#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <thread>
#include <utility>

#include "agent/devices/directory_watch.h"
#include "agent/devices/plugin_server.h"
#include "agent/devices/registrar.h"
#include "agent/devices/rival_sockets.h"
#include "base/clock.h"
#include "base/log.h"

namespace tessera::agent {

namespace {

constexpr const char* kKubeletSocket = "kubelet.sock";
constexpr auto kWatchWithin = std::chrono::seconds(10);  // kubelet watches a plugin that it accepted
constexpr auto kLasting = std::chrono::seconds(30);  // a registration that lasted this long counts as stable
// When an older instance of the agent ends, kubelet drops us too, and we register again because of
// that. Only if kubelet has not dropped us after this long was the other instance the one it used.
constexpr auto kSettle = std::chrono::milliseconds(500);
// Another plugin that ends may have nothing to do with our resource, and registering again leaves
// kubelet without a plugin for a moment.
constexpr auto kOtherPluginFirstPause = std::chrono::seconds(5);
constexpr auto kOtherPluginLastPause = std::chrono::minutes(10);

// Identifies a socket, also if another one takes its name; 0 when there is none. The time is
// included because inode numbers are reused.
std::uint64_t identity_of(const std::string& path) {
  struct stat status{};
  if (::stat(path.c_str(), &status) != 0 || !S_ISSOCK(status.st_mode)) {
    return 0;
  }
  const auto time = static_cast<std::uint64_t>(status.st_ctim.tv_sec) * 1'000'000'000U +
                    static_cast<std::uint64_t>(status.st_ctim.tv_nsec);
  return (status.st_ino * 0x9E3779B97F4A7C15ULL) ^ time;
}

}  // namespace

// The thread that keeps the plugin registered. Each round checks the state and takes the next step;
// events elsewhere only wake it.
class DevicePlugin::Impl {
 public:
  Impl(DevicePluginOptions options, KubeletAnswers& answers, std::vector<Device> devices)
      : options_(std::move(options)),
        answers_(answers),
        kubelet_socket_(options_.directory + "/" + kKubeletSocket),
        watch_(options_.directory),
        registrar_(kubelet_socket_),
        devices_(std::move(devices)),
        rivals_(options_.directory, options_.resource),
        thread_([this] { run(); }) {}

  ~Impl() {
    stopping_ = true;
    registrar_.stop();
    watch_.wake();
    thread_.join();
    std::unique_ptr<PluginServer> server;
    {
      const std::lock_guard lock(mutex_);
      server = std::move(server_);
    }
    server.reset();
  }

  Status set_devices(std::vector<Device> devices) {
    const std::lock_guard lock(mutex_);
    if (server_ != nullptr) {
      TRY(server_->set_devices(devices));
    } else {
      TRY(check_list_size(devices));
    }
    devices_ = std::move(devices);
    return {};
  }

  [[nodiscard]] std::vector<Device> devices() const {
    const std::lock_guard lock(mutex_);
    return devices_;
  }

  [[nodiscard]] DevicePluginStatus status() const {
    const std::lock_guard lock(mutex_);
    DevicePluginStatus status = status_;
    status.registered = status.problem.empty() && streams_ > 0;
    return status;
  }

 private:
  void run() {
    auto pause = options_.first_retry;
    std::uint64_t tried = 0;  // which kubelet.sock
    while (!stopping_) {
      const std::uint64_t kubelet = identity_of(kubelet_socket_);
      // A new kubelet is tried without the pause of the old one. Its socket exists a moment before
      // it listens, so the first try may be refused; a long pause then would make all pods fail
      // that kubelet starts with.
      if (kubelet != std::exchange(tried, kubelet)) {
        pause = options_.first_retry;
      }
      const Status done = round(kubelet);
      {
        const std::lock_guard lock(mutex_);
        status_.problem = done ? "" : done.error().text();
      }
      if (stopping_) {
        return;
      }
      if (done || kubelet == 0) {
        pause = options_.first_retry;
        // A new kubelet.sock ends this wait.
        watch_.wait(ended_rival_ == RivalSockets::Gone::kNone ? options_.check_every
                                                              : std::min(options_.check_every, kSettle));
      } else {
        watch_.wait(pause);
        pause = std::min(pause * 2, options_.last_retry);
      }
    }
  }

  // Takes the next step towards being registered; does nothing when the plugin is registered.
  Status round(std::uint64_t identity) {
    if (identity == 0) {
      registered_with_ = 0;
      return fail(ErrorCode::kUnavailable,
                  fmt::format("kubelet is not running: no socket {}", kubelet_socket_));
    }
    TRY(serve());
    const auto now = Clock::real().now();
    check_rivals(identity == registered_with_, now);
    if (identity == registered_with_) {
      if (streams_ > 0 || (!dropped_ && now < watched_by_)) {
        if (!lost_to_rival(now)) {
          return {};
        }
        log::warn("another plugin of this resource has ended; registering again",
                  {{"resource", options_.resource}});
        TRY(restart_server());
      } else if (now < not_before_) {
        return fail(ErrorCode::kUnavailable,
                    "kubelet has dropped this plugin; registering again in a moment");
      }
    }
    dropped_ = false;
    TRY(registrar_.register_plugin(socket_name_, options_.resource, options_.register_within,
                                   [this] { return socket_exists(); }));
    // Two instances that take the resource from each other slow down.
    quick_drops_ = now - registered_at_ < kLasting ? std::min(quick_drops_ + 1, 16U) : 0;
    registered_at_ = Clock::real().now();
    not_before_ = registered_at_ + std::min(options_.first_retry * (1U << quick_drops_), options_.last_retry);
    watched_by_ = registered_at_ + kWatchWithin;
    registered_with_ = identity;
    ended_rival_ = RivalSockets::Gone::kNone;
    const std::lock_guard lock(mutex_);
    ++status_.registrations;
    log::info("registered with kubelet", {{"resource", options_.resource}, {"socket", socket_name_}});
    return {};
  }

  void check_rivals(bool is_registered, Clock::Steady now) {
    const RivalSockets::Gone gone =
        rivals_.look(socket_name_, is_registered ? registered_at_ : Clock::Steady::max());
    if (gone == RivalSockets::Gone::kNone || !is_registered) {
      return;
    }
    suspected_at_ = ended_rival_ == RivalSockets::Gone::kNone ? now : suspected_at_;
    ended_rival_ = std::max(ended_rival_, gone);
  }

  // Whether kubelet probably has no plugin for the resource although it still watches us.
  bool lost_to_rival(Clock::Steady now) {
    if (ended_rival_ == RivalSockets::Gone::kNone || now < suspected_at_ + kSettle || now < not_before_) {
      return false;
    }
    if (ended_rival_ == RivalSockets::Gone::kOtherPlugin) {
      if (now < other_plugin_not_before_) {
        return false;
      }
      const bool often = now < other_plugin_not_before_ + 2 * other_plugin_pause_;
      other_plugin_pause_ =
          often ? std::min<Clock::Steady::duration>(other_plugin_pause_ * 2, kOtherPluginLastPause)
                : Clock::Steady::duration(kOtherPluginFirstPause);
      other_plugin_not_before_ = now + other_plugin_pause_;
    }
    return true;
  }

  [[nodiscard]] bool socket_exists() const {
    return identity_of(options_.directory + "/" + socket_name_) == socket_identity_;
  }

  // Makes sure that there is a server whose socket exists. kubelet removes sockets when it starts;
  // a removed socket cannot be dialled, so a new server replaces it under a new name.
  Status serve() {
    {
      const std::lock_guard lock(mutex_);
      if (server_ != nullptr && socket_exists()) {
        return {};
      }
    }
    return restart_server();
  }

  Status restart_server() {
    std::unique_ptr<PluginServer> old;
    std::vector<Device> devices;
    {
      const std::lock_guard lock(mutex_);
      old = std::move(server_);
      devices = devices_;
    }
    old.reset();  // ends its streams, outside the lock: their end calls back
    streams_ = 0;
    registered_with_ = 0;
    const std::string name = new_socket_name(options_.resource);
    const std::string path = options_.directory + "/" + name;
    auto server = TRY(PluginServer::start(path, answers_, devices,
                                          {.stream_opened =
                                               [this] {
                                                 ++streams_;
                                                 watch_.wake();
                                               },
                                           .stream_ended =
                                               [this] {
                                                 --streams_;
                                                 dropped_ = true;
                                                 watch_.wake();
                                               }}));
    const std::lock_guard lock(mutex_);
    // The list may have changed in the meantime.
    TRY(server->set_devices(devices_));
    server_ = std::move(server);
    socket_name_ = name;
    socket_identity_ = identity_of(path);
    return {};
  }

  const DevicePluginOptions options_;
  KubeletAnswers& answers_;
  const std::string kubelet_socket_;
  DirectoryWatch watch_;
  Registrar registrar_;

  mutable std::mutex mutex_;
  std::unique_ptr<PluginServer> server_;
  std::vector<Device> devices_;
  DevicePluginStatus status_;

  std::atomic<int> streams_ = 0;       // kubelets that watch
  std::atomic<bool> dropped_ = false;  // a stream ended since we registered
  std::atomic<bool> stopping_ = false;
  // Used by the thread only.
  std::string socket_name_;
  std::uint64_t socket_identity_ = 0;
  std::uint64_t registered_with_ = 0;  // which kubelet.sock
  Clock::Steady registered_at_{};
  Clock::Steady watched_by_{};  // kubelet should watch by then
  Clock::Steady not_before_{};  // the next registration with the same kubelet
  unsigned quick_drops_ = 0;
  RivalSockets rivals_;
  RivalSockets::Gone ended_rival_ = RivalSockets::Gone::kNone;  // since we registered
  Clock::Steady suspected_at_{};
  Clock::Steady other_plugin_not_before_{};
  Clock::Steady::duration other_plugin_pause_ = kOtherPluginFirstPause;

  std::thread thread_;  // last: it uses all of the above
};

DevicePlugin::DevicePlugin(DevicePluginOptions options, KubeletAnswers& answers, std::vector<Device> devices)
    : impl_(std::make_unique<Impl>(std::move(options), answers, std::move(devices))) {}

DevicePlugin::~DevicePlugin() = default;

Status DevicePlugin::set_devices(std::vector<Device> devices) {
  return impl_->set_devices(std::move(devices));
}

std::vector<Device> DevicePlugin::devices() const {
  return impl_->devices();
}

DevicePluginStatus DevicePlugin::status() const {
  return impl_->status();
}

}  // namespace tessera::agent
