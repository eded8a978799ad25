#include "agent/devices/rival_sockets.h"

#include <fmt/core.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <set>
#include <string_view>
#include <system_error>

#include "base/fd.h"

namespace tessera::agent {

namespace {

constexpr std::string_view kSuffix = ".sock";
constexpr std::string_view kKubelet = "kubelet.sock";
constexpr std::string_view kOurs = "tessera-";
constexpr std::size_t kDigits = 8;
constexpr std::size_t kReadable = 24;
// A socket exists a moment before its server listens.
constexpr std::chrono::seconds kListensWithin{1};
// Time between the end of a stream and the removal of its socket.
constexpr std::chrono::milliseconds kSameEnd{500};

// FNV-1a: the same in every process.
std::uint32_t hash_of(std::string_view text) {
  std::uint32_t hash = 2166136261U;
  for (const char c : text) {
    hash = (hash ^ static_cast<unsigned char>(c)) * 16777619U;
  }
  return hash;
}

// The last part of the resource name makes the socket name readable. It is cut short, because the
// path of a socket has at most 107 bytes. The hash distinguishes aliyun.com/gpu from
// nvidia.com/gpu.
std::string prefix_of(const std::string& resource) {
  const auto slash = resource.rfind('/');
  const std::string last = resource.substr(slash == std::string::npos ? 0 : slash + 1);
  return fmt::format("{}{}-{:08x}-", kOurs, last.substr(0, kReadable), hash_of(resource));
}

// Returns whether no process listens on the socket. Only a refused connection counts: a server that
// is busy, or that denies access, is alive.
bool refuses(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path) {
    return false;
  }
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  const Fd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  return fd.get() >= 0 &&
         ::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 &&
         errno == ECONNREFUSED;
}

}  // namespace

std::string new_socket_name(const std::string& resource) {
  std::uint32_t number = 0;
  if (::getrandom(&number, sizeof number, 0) != sizeof number) {
    number = static_cast<std::uint32_t>(std::chrono::steady_clock::now().time_since_epoch().count());
  }
  return fmt::format("{}{:0{}x}{}", prefix_of(resource), number, kDigits, kSuffix);
}

RivalSockets::RivalSockets(std::string directory, const std::string& resource)
    : directory_(std::move(directory)), prefix_(prefix_of(resource)) {}

// An instance number must follow the prefix.
bool RivalSockets::is_other_instance(const std::string& name) const {
  return name.starts_with(prefix_) && name.size() == prefix_.size() + kDigits + kSuffix.size() &&
         name.find_first_not_of("0123456789abcdef", prefix_.size()) == prefix_.size() + kDigits;
}

// Returns whether the server of a socket has died and may have registered the resource after
// `registered_at`. If the socket never had a listener while it was watched, its age decides: an
// older one was left behind by a dead process; the plugin of a newer one may have registered and
// died between two looks.
bool RivalSockets::found_dead(const std::string& name, Rival& rival, Clock::Steady registered_at) const {
  if (rival.dead || !refuses(directory_ + "/" + name)) {
    rival.listens = !rival.dead;
    return false;
  }
  if (!rival.listens && Clock::real().now() - rival.seen < kListensWithin) {
    return false;
  }
  rival.dead = true;
  return rival.listens || rival.seen > registered_at;
}

bool RivalSockets::other_instance_listens() const {
  return std::ranges::any_of(
      rivals_, [](const auto& entry) { return entry.second.other_instance && !entry.second.dead; });
}

RivalSockets::Gone RivalSockets::look(const std::string& own, Clock::Steady registered_at) {
  std::set<std::string> there;
  std::error_code error;
  std::filesystem::directory_iterator at(directory_, error);
  for (; !error && at != std::filesystem::directory_iterator(); at.increment(error)) {
    std::error_code ignored;
    std::string name = at->path().filename().string();
    if (name.ends_with(kSuffix) && name != kKubelet && name != own && at->is_socket(ignored) &&
        (!name.starts_with(kOurs) || is_other_instance(name))) {
      there.insert(std::move(name));
    }
  }
  Gone gone = Gone::kNone;
  if (error) {
    return gone;
  }
  for (auto rival = rivals_.begin(); rival != rivals_.end();) {
    if (there.contains(rival->first) || rival->first == own) {
      ++rival;
      continue;
    }
    // Other plugins register once, when their socket is new. Instances of the agent register again
    // whenever kubelet drops them. But if an older instance ends right after this plugin
    // registered, its end was the reason for the registration.
    const bool counts = !rival->second.dead &&
                        (rival->second.seen > registered_at ||
                         (rival->second.other_instance && Clock::real().now() - registered_at > kSameEnd));
    gone = counts ? std::max(gone, rival->second.other_instance ? Gone::kOtherInstance : Gone::kOtherPlugin)
                  : gone;
    rival = rivals_.erase(rival);
  }
  for (const std::string& name : there) {
    Rival& rival =
        rivals_
            .try_emplace(name, Rival{.seen = Clock::real().now(), .other_instance = is_other_instance(name)})
            .first->second;
    if (rival.other_instance && found_dead(name, rival, registered_at)) {
      gone = Gone::kOtherInstance;
    }
  }
  return gone;
}

}  // namespace tessera::agent
