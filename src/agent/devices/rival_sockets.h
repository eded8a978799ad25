// agent/devices/rival_sockets.h
//
// Watches the sockets of other plugins that may serve the same resource: a second instance of the
// agent during an update, or another plugin with the same resource name.
//
//   RivalSockets rivals(directory, "aliyun.com/gpu-mem");
//   if (rivals.look(own_socket, registered_at) != RivalSockets::Gone::kNone) { ... }
//
// kubelet (up to 1.36) uses only the plugin that registered last. When that plugin ends, the
// resource has no plugin, but kubelet leaves the stream of an older plugin open. So the older
// plugin can notice the end of the newer plugin only by the missing socket of the newer plugin.
//
// Use it from one thread.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "base/clock.h"

namespace tessera::agent {

class RivalSockets {
 public:
  // The plugin whose socket is gone.
  enum class Gone : std::uint8_t {
    kNone,           // no socket is gone
    kOtherPlugin,    // a plugin that is not Tessera's; its resource is unknown
    kOtherInstance,  // another instance of the agent; its plugin served this resource
  };

  RivalSockets(std::string directory, const std::string& resource);

  // Looks for a plugin that has ended since the last call and that may have registered this
  // resource after `registered_at`, the time of the caller's own registration. Returns kNone if
  // there is no such plugin. A plugin has ended if its socket is gone. An instance of the agent has
  // also ended if no process listens on its socket, because the process was killed. Ignores the
  // socket named `own`.
  Gone look(const std::string& own, Clock::Steady registered_at);
  // Returns whether another instance of the agent listened for this resource at the last look().
  [[nodiscard]] bool other_instance_listens() const;

 private:
  struct Rival {
    Clock::Steady seen;  // when the socket was first seen
    bool other_instance = false;
    bool listens = false;
    bool dead = false;
  };

  [[nodiscard]] bool is_other_instance(const std::string& name) const;
  bool found_dead(const std::string& name, Rival& rival, Clock::Steady registered_at) const;

  const std::string directory_;
  const std::string prefix_;  // socket names of this resource begin with it
  std::map<std::string, Rival> rivals_;
};

// Returns a new socket name, for aliyun.com/gpu-mem "tessera-gpu-mem-NNNNNNNN-3f9a01c2.sock".
// NNNNNNNN is a hash of the full resource name. The next part is random, so every call returns
// a different name. The name has at most 55 bytes, even for a long resource name.
std::string new_socket_name(const std::string& resource);

}  // namespace tessera::agent
