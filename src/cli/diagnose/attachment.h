// cli/diagnose/attachment.h
//
// Finds the schedulerNames of the schedulers that call Tessera's extender. Tessera's own pods state
// which name they serve. If they do not, the records of pods are used as evidence: a scheduler that
// bound a pod with a record probably calls the extender.
#pragma once

#include <set>
#include <string>

#include "alloc/pod.h"
#include "cli/cluster/cluster.h"

namespace tessera::cli {

struct Attachment {
  std::set<std::string, std::less<>> names{};  // schedulerNames whose pods reach Tessera
  // True if the cluster's own kube-scheduler calls the extender through a Service. Its
  // schedulerNames are only in its configuration, which cannot be read here. So `names` may be
  // incomplete.
  bool own_scheduler = false;
  // schedulerName of Tessera's own scheduler, which runs in addition to the cluster's; empty if
  // there is none. Used in advice.
  std::string second_scheduler{};
  // schedulerNames of pods that have a record. Such a scheduler very probably calls Tessera.
  std::set<std::string, std::less<>> with_records{};

  // Returns whether pods with this schedulerName certainly bypass Tessera.
  [[nodiscard]] bool excludes(std::string_view scheduler_name) const;
};

// Returns the attachment of `cluster`, which must have been read with ClusterQuery::details.
Attachment find_attachment(const Cluster& cluster);

// Returns why a pod on a node has no record: its nodeName was set by a client, or its scheduler did
// not call Tessera. Names the pod, its node and what to do.
std::string bypass_text(const Cluster& cluster, const Attachment& attachment, const alloc::PodSpec& pod);

// Returns whether the pod has any annotation that names its GPUs, valid or not.
bool has_record(const alloc::PodSpec& pod);

}  // namespace tessera::cli
