// agent/devices/rival_sockets.h
//
// The sockets of other plugins that may serve the same resource: a second instance of the agent
// during an update, or another plugin under the same resource name.
//
//   RivalSockets rivals(directory, "aliyun.com/gpu-mem");
//   if (rivals.look(own_socket, registered_at) != RivalSockets::Gone::kNone) { ... }
//
// kubelet (up to 1.36) keeps only the plugin that registered last. When that one ends, the resource
// has no plugin, although the stream of an older one is still open. All that the older one can see
// is that a socket is gone.
//
// One thread owns it.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "base/clock.h"

namespace tessera::agent {

class RivalSockets {
 public:
  enum class Gone : std::uint8_t {
    kNone,
    kOtherPlugin,    // of another plugin, for an unknown resource
    kOtherInstance,  // of another instance of the agent, for this resource
  };

  RivalSockets(std::string directory, const std::string& resource);

  // Returns whether a socket is gone since the last look that may have belonged to the plugin that
  // kubelet had for the resource since `registered_at`. A socket without a listener (its process
  // was killed) counts as gone. The socket named `own` is ignored.
  Gone look(const std::string& own, Clock::Steady registered_at);

 private:
  struct Rival {
    Clock::Steady seen;  // the first time
    bool other_instance = false;
    bool listens = false;
    bool dead = false;
  };

  [[nodiscard]] bool is_other_instance(const std::string& name) const;
  bool dies(const std::string& name, Rival& rival, Clock::Steady registered_at) const;

  const std::string directory_;
  const std::string prefix_;  // of sockets of this resource
  std::map<std::string, Rival> rivals_;
};

// "tessera-gpu-mem-NNNNNNNN-3f9a01c2.sock" for aliyun.com/gpu-mem: NNNNNNNN is a hash of the full
// resource name, the rest identifies this instance. At most 54 bytes, however long the resource
// name is.
std::string new_socket_name(const std::string& resource);

}  // namespace tessera::agent
