// objects/pod_details.h
//
// Fields of a pod that users need and the ledger does not: which scheduler is responsible for the
// pod, and what keeps it from being scheduled. decode_pod() reads them only on request, because the
// daemons do not need them.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace tessera::objects {

// A taint of a node, or a toleration of a pod.
struct Taint {
  std::string key{};
  std::string value{};
  std::string effect{};  // NoSchedule, PreferNoSchedule, NoExecute; in a toleration "" means all
  bool exists = false;   // in a toleration: matches any value; with an empty key, any taint

  friend bool operator==(const Taint&, const Taint&) = default;
};

struct PodDetails {
  std::map<std::string, std::string, std::less<>> labels{};
  std::map<std::string, std::string, std::less<>>
      annotations{};      // tessera.io/ keys that the ledger does not read
  std::string created{};  // RFC 3339
  std::string scheduler_name{};
  std::vector<std::string> scheduling_gates{};
  std::map<std::string, std::string, std::less<>> node_selector{};
  std::vector<Taint> tolerations{};
  bool scheduling_attempted = false;  // has the condition PodScheduled
  std::string scheduling_message{};   // of that condition, if the pod could not be scheduled
  // Limits of its containers that look like GPUs and are not resources of Tessera: nvidia.com/gpu, or
  // a misspelt name. At most kMostOtherLimits, each once.
  static constexpr std::size_t kMostOtherLimits = 8;
  std::vector<std::string> other_gpu_limits{};
  bool ready = false;
  // kubelet's message about each waiting container, by container name. Containers without a message
  // are left out.
  std::map<std::string, std::string, std::less<>> waiting{};
};

// Returns whether the name of a resource says that it is a GPU or a part of one: "nvidia.com/gpu",
// "aliyun.com/gpumem". Names without a domain, such as "cpu", are no extended resources.
bool looks_like_gpu(std::string_view resource);

// Returns whether a pod with these tolerations may run on a node with the taint. PreferNoSchedule
// never excludes a pod.
bool tolerates(const std::vector<Taint>& tolerations, const Taint& taint);

}  // namespace tessera::objects
