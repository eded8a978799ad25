// agent/devices/kubelet_answers.h
//
// kubelet's calls to a device plugin of one resource. Registration, sockets and streams are in
// device_plugin.h; Plugins (plugins.h) answers the calls.
#pragma once

#include <string>
#include <vector>

#include "agent/devices/device.h"
#include "agent/devices/loop_gate.h"
#include "base/result.h"

namespace tessera::agent {

struct Preference {
  std::vector<std::string> available;
  std::vector<std::string> must_include;
  std::size_t size = 0;  // including must_include
};

// The calls come on gRPC threads. `done` may be called later and from any thread. kubelet makes one
// call of prefer() or allocate() at a time and admits no other pod until it is answered;
// pre_start() calls for several containers overlap, and kubelet gives up on each after 30 s.
class KubeletAnswers {
 public:
  virtual ~KubeletAnswers() = default;

  // Which of the available IDs kubelet should take. Only a hint: kubelet ignores IDs that it did
  // not offer.
  virtual void prefer(Preference preference, Done<std::vector<std::string>> done) = 0;

  // What the container with these IDs gets. An error is final for the pod.
  virtual void allocate(std::vector<std::string> ids, Done<Result<ContainerResponse>> done) = 0;

  // A container with these IDs is about to start. kubelet shows an error to the user and asks
  // again.
  virtual void pre_start(std::vector<std::string> ids, Done<Status> done) = 0;
};

}  // namespace tessera::agent
