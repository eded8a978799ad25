// agent/devices/kubelet_answers.h
//
// What kubelet's device-plugin API asks about one resource. Everything else about kubelet (registration,
// sockets, streams) stands in device_plugin.h; who asks, and what they get, in allocator.h.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "agent/devices/device.h"
#include "base/result.h"

namespace tessera::agent {

struct Preference {
  std::vector<std::string> available;
  std::vector<std::string> must_include;
  std::size_t size = 0;  // with must_include
};

// The three questions. They come on threads of gRPC: hand them to the thread that knows, and call `done` from
// there, once, at any time, from any thread. kubelet asks prefer() and allocate() one at a time and stands
// still meanwhile; pre_start() comes for many containers at once and is given up by kubelet after 30 s.
class KubeletAnswers {
 public:
  virtual ~KubeletAnswers() = default;

  // Which of the available IDs kubelet should take. A hint: kubelet ignores what it does not like.
  virtual void prefer(Preference preference, std::function<void(std::vector<std::string>)> done) = 0;

  // What the container with these IDs gets. An error is final for the pod.
  virtual void allocate(std::vector<std::string> ids, std::function<void(Result<Grant>)> done) = 0;

  // A container with these IDs is about to start. An error is shown to the user, and kubelet asks again.
  virtual void pre_start(std::vector<std::string> ids, std::function<void(Status)> done) = 0;
};

}  // namespace tessera::agent
