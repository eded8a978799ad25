// cli/diagnose/attachment.h
//
// By which schedulerName a pod gets to Tessera, as far as the objects of a cluster tell: its own pods say
// what they serve. Where they do not, a record on a pod hints that whoever bound it had asked the extender.
#pragma once

#include <set>
#include <string>

#include "alloc/pod.h"
#include "cli/cluster/cluster.h"

namespace tessera::cli {

struct Attachment {
  std::set<std::string, std::less<>> names{};  // whose pods come to Tessera
  // The cluster's own kube-scheduler calls a Service: which of its profiles do is written in its
  // configuration alone, so only what was seen is known.
  bool own_scheduler = false;
  // Tessera's scheduler, for advice; empty when there is none.
  std::string second_scheduler{};

  // Whether pods of this name certainly go past Tessera.
  [[nodiscard]] bool excludes(std::string_view scheduler_name) const;
};

// `cluster` with its details.
Attachment find_attachment(const Cluster& cluster);

// Whether anybody has said on a pod which GPUs are its own, rightly or not.
bool has_record(const alloc::PodSpec& pod);

}  // namespace tessera::cli
