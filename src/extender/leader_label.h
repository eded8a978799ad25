// extender/leader_label.h
//
// The label of the pod that leads, by which the Service finds it. Exactly one pod should have it:
// kube-scheduler would be sent to any other in turn, and one that died while it led cannot take off its own.
//
// On the event loop's thread.
#pragma once

#include <string>
#include <vector>

#include "http/event_loop.h"
#include "kube/client.h"

namespace tessera::extender {

class LeaderLabel {
 public:
  // `client` must live longer. Without a pod, outside of a cluster, it does nothing.
  LeaderLabel(kube::Client& client, std::string namespace_name, std::string pod);
  LeaderLabel(const LeaderLabel&) = delete;
  LeaderLabel& operator=(const LeaderLabel&) = delete;

  // Writes it to the own pod, again until that is done, and takes it off all others in the namespace; or
  // takes it off the own.
  void show(bool leading);

 private:
  void write_own();
  void list_others();
  void take_off(const std::string& pod);

  kube::Client& client_;
  const std::string namespace_name_;
  const std::string pod_;
  bool leading_ = false;
  kube::Call own_call_;
  kube::Call list_call_;
  std::vector<kube::Call> other_calls_;
  http::Timer again_;
};

}  // namespace tessera::extender
