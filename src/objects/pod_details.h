// objects/pod_details.h
//
// Fields of a pod that users need and the ledger does not: which scheduler is responsible for the
// pod, and what keeps it from being scheduled. decode_pod() reads them only on request, because the
// daemons do not need them.
#pragma once

#include <cstdint>
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

// One requirement of a pod's required node affinity, about a label or about metadata.name.
struct NodeRequirement {
  std::string key{};
  std::string operation{};  // In, NotIn, Exists, DoesNotExist, Gt, Lt
  std::vector<std::string> values{};
  bool is_field = false;  // the key is a field of the node, not a label

  friend bool operator==(const NodeRequirement&, const NodeRequirement&) = default;
};

// A node meets a term if it meets all requirements. A term without requirements matches no node.
using NodeTerm = std::vector<NodeRequirement>;

// How a pod got its node, as far as its managedFields show.
enum class NodeSetBy : std::uint8_t {
  kUnknown,  // the object has no managedFields: kubectl leaves them out when it saves objects
  kBinding,  // a scheduler bound the pod; a Binding leaves no trace in managedFields
  kClient,   // a client wrote spec.nodeName, so no scheduler has seen the pod
};

struct PodDetails {
  std::map<std::string, std::string, std::less<>> labels{};
  std::map<std::string, std::string, std::less<>>
      annotations{};      // tessera.io/ keys that the ledger does not read
  std::string created{};  // RFC 3339
  // The controller that created the pod, for example {"ReplicaSet", "web-5d8f"}; empty if none.
  std::string owner_kind{};
  std::string owner_name{};
  NodeSetBy node_set_by = NodeSetBy::kUnknown;
  std::string scheduler_name{};
  std::vector<std::string> scheduling_gates{};
  std::map<std::string, std::string, std::less<>> node_selector{};
  std::vector<Taint> tolerations{};
  // The required node affinity: the node must meet one of the terms. Empty: any node.
  std::vector<NodeTerm> node_terms{};
  // Other pods decide where the pod may run: it has a required pod affinity or anti-affinity, or a
  // topology spread constraint with DoNotSchedule.
  bool depends_on_pods = false;
  bool scheduling_attempted = false;  // has the condition PodScheduled
  std::string scheduling_message{};   // of that condition, if the pod could not be scheduled
  // Limits of the pod's containers that look like GPUs and are not resources of Tessera: nvidia.com/gpu, or
  // a misspelt name. At most kMostOtherLimits, each once.
  static constexpr std::size_t kMostOtherLimits = 8;
  std::vector<std::string> other_gpu_limits{};
  bool ready = false;
  // status.reason and status.message: why the pod was refused, evicted or failed.
  std::string reason{};
  std::string message{};
  // kubelet's message about each waiting container, by container name. Containers without a message
  // are left out.
  std::map<std::string, std::string, std::less<>> waiting{};
};

// Returns whether the name of a resource says that it is a GPU or a part of one: "nvidia.com/gpu",
// "aliyun.com/gpumem". Names without a domain, such as "cpu", are not extended resources.
bool looks_like_gpu(std::string_view resource);

// Returns whether a pod with these tolerations may run on a node with the taint. PreferNoSchedule
// never excludes a pod.
bool tolerates(const std::vector<Taint>& tolerations, const Taint& taint);

// Returns whether a node with this name and these labels meets one of the terms. Returns true if
// there are no terms. A requirement with an unknown operator is not met.
bool meets_terms(const std::vector<NodeTerm>& terms, std::string_view node_name,
                 const std::map<std::string, std::string, std::less<>>& labels);

}  // namespace tessera::objects
