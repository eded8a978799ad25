// objects/pod_details.h
//
// What people want to know of a pod and the books do not: who is to place it, and what keeps it from being
// placed. Read only where decode_pod() is asked for it; programs that hold a whole cluster do without.
#pragma once

#include <map>
#include <string>
#include <vector>

namespace tessera::objects {

// A taint of a node, or a toleration of a pod.
struct Taint {
  std::string key{};
  std::string value{};
  std::string effect{};  // NoSchedule, PreferNoSchedule, NoExecute; of a toleration "" is all of them
  bool exists = false;   // of a toleration: any value will do; with an empty key, any taint

  friend bool operator==(const Taint&, const Taint&) = default;
};

struct PodDetails {
  std::map<std::string, std::string, std::less<>> labels{};
  std::map<std::string, std::string, std::less<>> annotations{};  // of tessera.io/ that the books do not read
  std::string created{};                                          // RFC 3339
  std::string scheduler_name{};
  std::vector<std::string> scheduling_gates{};
  std::map<std::string, std::string, std::less<>> node_selector{};
  std::vector<Taint> tolerations{};
  bool looked_at = false;  // has the condition PodScheduled: some scheduler has tried
  bool ready = false;
  // Why kubelet does not run a container, in its words; only where it says more than that it is about to.
  std::map<std::string, std::string, std::less<>> waiting{};
};

// Whether a pod with these tolerations may go where the taint is. A mere preference keeps nobody away.
bool tolerates(const std::vector<Taint>& tolerations, const Taint& taint);

}  // namespace tessera::objects
