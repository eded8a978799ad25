// extender/leader_label.h
//
// Maintains the label by which the Service selects the leading pod. The Service spreads the calls
// of kube-scheduler over all pods with the label, so only one pod may have it. A leader that died
// cannot remove its own label, so the next leader removes it.
//
// Used only on the event loop's thread.
#pragma once

#include <string>
#include <vector>

#include "http/event_loop.h"
#include "kube/client.h"

namespace tessera::extender {

class LeaderLabel {
 public:
  // `client` must outlive this object. Does nothing if `pod` is empty, that is, outside of a
  // cluster.
  LeaderLabel(kube::Client& client, std::string namespace_name, std::string pod);
  LeaderLabel(const LeaderLabel&) = delete;
  LeaderLabel& operator=(const LeaderLabel&) = delete;

  // If `leading`, sets the label on this replica's pod and removes it from all other pods in the
  // namespace. Otherwise, removes the label from this replica's pod. Retries the write to this pod
  // until it succeeds.
  void set(bool leading);

 private:
  void write_own();  // sets or removes the label of this replica's pod
  void list_others();
  void remove_from(const std::string& pod);

  kube::Client& client_;
  const std::string namespace_name_;
  const std::string pod_;
  bool leading_ = false;
  kube::Call own_call_;
  kube::Call list_call_;
  std::vector<kube::Call> other_calls_;
  http::Timer retry_timer_;
};

}  // namespace tessera::extender
