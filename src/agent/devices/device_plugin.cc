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
constexpr auto kWatchWithin = std::chrono::seconds(10);  // kubelet opens the stream after Register
constexpr auto kLasting = std::chrono::seconds(30);  // a registration that lasted this long counts as stable
// When an older instance of the agent ends, kubelet drops this plugin too, which then registers
// again for that reason. If kubelet has not dropped this plugin after this time, it was using the
// other instance.
constexpr auto kSettle = std::chrono::milliseconds(500);
// Pauses between registrations that are caused by the end of another plugin. That plugin may have
// served another resource, and registering again leaves kubelet without a plugin for a moment.
constexpr auto kOtherPluginFirstPause = std::chrono::seconds(5);
constexpr auto kOtherPluginLastPause = std::chrono::minutes(10);

// Returns a number that identifies the socket at `path` even if another socket takes its name; 0 if
// there is none. Includes the change time because inode numbers are reused.
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

// Runs the thread that keeps the plugin registered. Each round checks the state and takes the next
// step. Events on other threads only wake it.
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
    std::uint64_t tried = 0;  // identity of the last kubelet.sock
    while (!stopping_) {
      const std::uint64_t kubelet = identity_of(kubelet_socket_);
      // Try a new kubelet without the pause that the old one caused. Its socket exists a moment
      // before it listens, so the first attempt may be refused. After a long pause, all pods that
      // kubelet admits at its start would fail.
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
        log::warn("another plugin may have taken the resource and has ended; registering again",
                  {{"resource", options_.resource}});
        TRY(restart_server());
      } else if (now < not_before_) {
        return fail(ErrorCode::kUnavailable, "kubelet has dropped this plugin; it registers again shortly");
      }
    }
    dropped_ = false;
    TRY(registrar_.register_plugin(socket_name_, options_.resource, options_.register_within,
                                   [this] { return socket_exists(); }));
    // Slow down if another instance keeps taking the resource.
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
    {
      const std::lock_guard lock(mutex_);
      status_.alone = !rivals_.other_instance_listens();
    }
    if (gone == RivalSockets::Gone::kNone || !is_registered) {
      return;
    }
    suspected_at_ = ended_rival_ == RivalSockets::Gone::kNone ? now : suspected_at_;
    ended_rival_ = std::max(ended_rival_, gone);
  }

  // Returns whether kubelet probably has no plugin for the resource although the stream is open.
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

  // Ensures that a server runs and that its socket exists. kubelet removes sockets when it starts.
  // A removed socket cannot be dialled, so a new server with a new socket name replaces it.
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
    old.reset();  // outside the lock, because it ends the streams, which calls stream_ended
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

  std::atomic<int> streams_ = 0;       // open ListAndWatch streams
  std::atomic<bool> dropped_ = false;  // a stream has ended since the last registration
  std::atomic<bool> stopping_ = false;
  // The members below are used only by the thread.
  std::string socket_name_;
  std::uint64_t socket_identity_ = 0;
  std::uint64_t registered_with_ = 0;  // identity of the kubelet.sock
  Clock::Steady registered_at_{};
  Clock::Steady watched_by_{};  // kubelet should have opened the stream by then
  Clock::Steady not_before_{};  // earliest time for the next registration with the same kubelet
  unsigned quick_drops_ = 0;
  RivalSockets rivals_;
  RivalSockets::Gone ended_rival_ = RivalSockets::Gone::kNone;  // since the last registration
  Clock::Steady suspected_at_{};
  Clock::Steady other_plugin_not_before_{};
  Clock::Steady::duration other_plugin_pause_ = kOtherPluginFirstPause;

  std::thread thread_;  // last: it uses all members above
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
