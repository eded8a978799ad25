// agent/devices/rival_sockets.h
//
// The sockets of other plugins that may serve the same resource: a second instance of ours during an update,
// or a plugin of somebody else under our name.
//
//   RivalSockets rivals(directory, "aliyun.com/gpu-mem");
//   if (rivals.look(own_socket, registered_at) != RivalSockets::Gone::kNone) { ... }
//
// kubelet (up to 1.36) keeps only the plugin that registered last. When that one ends, the resource has
// nobody, although the stream of an older one is still open: all that the older one can see is a socket that
// goes.
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
    kStranger,  // a plugin came and went, of which resource is not known
    kSibling,   // another instance of ours, of this resource
  };

  RivalSockets(std::string directory, const std::string& resource);

  // Whether one has gone since the last look that may have been what kubelet had for the resource since
  // `registered_at`. A socket that nobody listens at any more (its process was killed) has gone, too. Names
  // that are `own` are not looked at.
  Gone look(const std::string& own, Clock::Steady registered_at);

 private:
  struct Rival {
    Clock::Steady seen;  // for the first time
    bool sibling = false;
    bool listens = false;
    bool dead = false;
  };

  [[nodiscard]] bool is_sibling(const std::string& name) const;
  bool dies(const std::string& name, Rival& rival, Clock::Steady registered_at) const;

  const std::string directory_;
  const std::string prefix_;  // of sockets of this resource
  std::map<std::string, Rival> rivals_;
};

// "tessera-gpu-mem-NNNNNNNN-3f9a01c2.sock" for aliyun.com/gpu-mem: NNNNNNNN stands for the whole name of the
// resource, the rest for this instance. At most 54 bytes, however long the resource's name is.
std::string new_socket_name(const std::string& resource);

}  // namespace tessera::agent
