// agent/devices/kubelet_answers.h
//
// Interface that answers kubelet's calls to a device plugin of one resource. device_plugin.h
// handles registration, sockets and streams; Plugins (plugins.h) implements this interface.
#pragma once

#include <string>
#include <vector>

#include "agent/devices/device.h"
#include "agent/devices/loop_gate.h"
#include "base/result.h"

namespace tessera::agent {

// The arguments of GetPreferredAllocation for one container.
struct Preference {
  std::vector<std::string> available;     // the IDs to choose from
  std::vector<std::string> must_include;  // the IDs that kubelet takes in any case
  std::size_t size = 0;                   // the number of IDs to choose, including must_include
};

// Answers the calls. All functions are called on gRPC threads. They may call `done` later and from
// any thread. kubelet makes one prefer() or allocate() call at a time, and admits no other pod
// until that call is answered. pre_start() calls of several containers may overlap. kubelet gives
// up on a pre_start() call after 30 s.
class KubeletAnswers {
 public:
  virtual ~KubeletAnswers() = default;

  // GetPreferredAllocation: chooses which of the available IDs kubelet should take. This is only a
  // hint: kubelet ignores IDs that it did not offer.
  virtual void prefer(Preference preference, Done<std::vector<std::string>> done) = 0;

  // Allocate: returns what the container with these IDs gets. An error is final for the pod.
  virtual void allocate(std::vector<std::string> ids, Done<Result<ContainerResponse>> done) = 0;

  // PreStartContainer: the container with these IDs is about to start. If the result is an error,
  // the container does not start. kubelet shows the error to the user and calls again.
  virtual void pre_start(std::vector<std::string> ids, Done<Status> done) = 0;
};

}  // namespace tessera::agent
